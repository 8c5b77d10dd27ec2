"""`envcheck init`: a commented envcheck.toml whose expectations are what this machine has."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Callable

from envcheck.commands.configuration import rule_session
from envcheck.commands.named_facts import find
from envcheck.commands.output import add_language, put
from envcheck.commands.rendering import words
from envcheck.errors import UsageError
from envcheck.facts.snapshot import Missing, Snapshot

FILE = "envcheck.toml"


def configure_parser(parser: argparse.ArgumentParser) -> None:
    """The flags of `envcheck init`."""
    parser.add_argument("--python", metavar="PATH", help="the interpreter that this machine's training uses (default: as in a check)")
    parser.add_argument("--timeout", metavar="S", type=float, default=120.0, help="time limit in seconds (default: 120)")
    add_language(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="write there; - is stdout (default: envcheck.toml)")
    parser.set_defaults(static=True, live="off", nproc=None, backend="auto", start_method="auto", evidence=None)


def execute(args: argparse.Namespace) -> int:
    """Writes envcheck.toml, or what -o names. An existing file is never overwritten."""
    path = FILE if args.output is None and not args.stdout else args.output
    if path and os.path.lexists(path):
        raise UsageError(f"{path}: there is such a file already; -o names another, -o - is stdout")
    from envcheck.commands.check import examine

    snapshot = examine(args, rule_session(args))[0]
    say = words(args, "text", not path).say
    put(written(snapshot, say), path)
    if path:
        put(f"{words(args, 'text', True).say(f'{path} written. `envcheck config` shows what is in force.')}\n")
    return 0


def written(snapshot: Snapshot, say: Callable[[str], str] = str) -> str:
    """The file: expectations from the facts, everything else as comments with its default."""
    expect = ",\n".join(f"  {json.dumps(one)}" for one in expectations(snapshot))
    template = "\n".join(_said(line, say) for line in TEMPLATE.split("\n"))
    return template.replace("@expect@", f"[\n{expect},\n]" if expect else "[]")


def _said(line: str, say: Callable[[str], str]) -> str:
    """A line of the template with its comment in a language: all of a sentence, of a setting what stands behind it."""
    sentence = re.fullmatch(r"# (?P<said>[A-Z].*)", line) or re.fullmatch(r"(?P<before># .* # +|# .*  # )(?P<said>.*)", line)
    if not sentence:
        return line
    return line[: sentence.start("said")] + say(sentence["said"])


def expectations(snapshot: Snapshot) -> list[str]:
    """What a machine like this one must have: its GPUs, at least its driver, the minor version of its torch and of its Python."""
    rows = []
    gpus = find(snapshot, "gpus")
    if isinstance(gpus, int) and gpus:
        rows.append(f"gpus>={gpus}")
        names = find(snapshot, "gpu")
        if isinstance(names, tuple) and len(set(names)) == 1 and names[0]:
            rows.append(f"gpu=={names[0]}")
        rows += [f"driver>={version.split('.')[0]}" for version in _texts(snapshot, "driver")]
    for name in ("torch", "python"):
        rows += [f"{name}=={'.'.join(version.partition('+')[0].split('.')[:2])}.*" for version in _texts(snapshot, name)]
    return rows


def _texts(snapshot: Snapshot, name: str) -> list[str]:
    found = find(snapshot, name)
    return [] if isinstance(found, Missing) or not isinstance(found, str) else [found]


TEMPLATE = """\
# Settings of envcheck for this folder and those below it. The keys are the names of the flags (`envcheck check --help`).
# A flag on the command line takes precedence. `envcheck config` shows what is in force and who set it.

# What a machine must have: NAME OPERATOR VALUE. `envcheck explain expectation-failed` lists the names.
# Written from the machine on which `envcheck init` ran; delete what others need not have.
expect = @expect@

# live = "quick"              # or "full", "off"
# backend = "auto"            # or "gloo", "nccl", "xccl", "mpi", "ucc": fail if it is not available
# nproc = 2                   # ranks of the live check, or "all": one for each visible GPU
# timeout = 180               # seconds for the whole run
# python = ".venv/bin/python" # from the folder of this file
# tool = "auto"               # whose commands come first: "pip", "uv", "conda"
# index-base = "https://mirror.example/whl"
# fail-on = "error"           # or "warning", "never"
# strict = false              # true: a warning, or a rule that could not decide, is not a pass
# rules = ["envcheck-rules"]  # folders with rules and tables of your own
# ignore = { gpu-busy = "the desktop runs on this card" }
# severity = { numpy-abi = "error" }

# Settings on top of these, with `envcheck --profile ci`.
[profile.ci]
strict = true
output = ["json=envcheck.json", "junit=envcheck.xml"]
"""
