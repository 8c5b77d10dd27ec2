"""A CUDA that conda was asked for, and that the channel `pytorch` has no build of the release for: the solver takes the build for the CPU.

conda install -c pytorch pytorch=1.9.0 torchvision cudatoolkit=11.3
conda install pytorch=2.0.1 cudatoolkit=11.8 (which pytorch-cuda chooses there)
"""

from __future__ import annotations

import re

from envcheck.checks import answer
from envcheck.checks.text import of_symptom, of_variant, quoted
from envcheck.engine.rule import Evidence, Facts, Hit, Matches
from envcheck.tables.compat import Tables
from envcheck.tables.versions import major, older, pair

_RELEASE = re.compile(r"(?<![\w-])pytorch\s?={1,2}\s?(\d{1,2}\.\d{1,2}(?:\.\d{1,2})?)(?![\w.*=])")
_CUDA = re.compile(r"(?<![\w-])(cudatoolkit|pytorch-cuda)\s?={1,2}\s?(\d{1,2}\.\d)(?!\d)")
# What tells that torch has no CUDA, by itself of no cause
_DENIED = ("cuda-says-false", "words-cpu-alone", "no-cuda-gpus", "framework-sees-no-gpu")

_PLAIN = ("", "other", "sign")  # cases that speak of no other machine than one with an NVIDIA GPU


def asked_of_no_build(facts: Facts, matches: Matches) -> Hit | None:
    """What conda was asked for last, where torch has no CUDA since."""
    denied = of_variant(matches, *_PLAIN) or of_symptom(facts, *_DENIED)
    lacks = facts.torch.cpu_build is True or denied or answer.fails(facts.devices)
    if (
        len(of_variant(matches, *_PLAIN)) < len(matches)
        or facts.torch.cuda
        or not lacks
        or facts.system.os == "darwin"
        or facts.system.machine in ("aarch64", "arm64")
    ):
        return None
    for line in reversed(facts.asked.commands):
        release, cuda = _RELEASE.search(line), _CUDA.search(line)
        if line.startswith(("conda", "mamba", "micromamba")) and release and cuda:
            return _without_build(facts.tables, line, release[1], cuda[1], cuda[2], quoted(denied))
    return None


def _without_build(tables: Tables, line: str, release: str, selector: str, cuda: str, evidence: tuple[Evidence, ...]) -> Hit | None:
    there = tables.channel_builds(release)
    if not there or (cuda, selector) in there or ("conda-forge" in line and not re.search(r"-c\s?pytorch\b|pytorch::", line)):
        return None
    chooses, cudas = there[-1][1], [one for one, _ in there]
    values: dict[str, object] = {
        "release": release,
        "asked": f"{selector}={cuda}",
        "cudas": cudas,
        "chooses": chooses,
        "spec": f"{chooses}={_nearest(cuda, cudas)}",
        "kind": "CUDA",
    }
    if cuda not in cudas and (other := _another_release(tables, release, cuda)):
        values |= {"other": other[0], "its": other[1]}
    return Hit(values, (Evidence("asked for", line), *evidence), variant="no_build")


def _nearest(cuda: str, there: list[str]) -> str:
    """The CUDA itself, where another package chooses it; else the newest of its major that is not newer; else the newest."""
    lower = [one for one in there if major(one) == major(cuda) and not older(cuda, one)]
    return (lower or there)[-1]


def _another_release(tables: Tables, release: str, cuda: str) -> tuple[str, str] | None:
    """The release next to this one that the channel has for that CUDA, and what chooses it there."""
    runs = [(run, selector) for selector in ("cudatoolkit", "pytorch-cuda") for run in tables.channel_releases(cuda, selector)]
    near = [(first if older(release, first) else last, selector) for (first, last), selector in runs]
    found = min(near, key=lambda one: (pair(one[0])[0] != pair(release)[0], abs(pair(one[0])[1] - pair(release)[1])), default=None)
    return (found[0], f"{found[1]}={cuda}") if found and found[0] != release else None
