"""Two environments or two interpreters in one text, of which one works: what is said of that one says nothing of the other.

pytorch   1.3.1   cuda100py37h53c1284_0        cuda.is_available()==True
pytorch   1.4.0   py3.7_cpu_0    pytorch       cuda.is_available()==False

python3 -c "import torch; print(torch.cuda.is_available())" says False, and with python it says True
"""

from __future__ import annotations

import re

from envcheck.facts.record import mutable
from envcheck.facts.snapshot import TextEvidence
from envcheck.read.concepts import POST, said
from envcheck.read.found import likely_sign

_SAID = re.compile(
    r"(?:^|(?<=\s))(?:pytorch\s{2,80}(?P<conda>\d[\w.]{2,20})\s{2,80}(?P<build>\S{3,80})"
    r"|(?:torch(?:\s{2,80}|==)|PyTorch version: )(?P<pip>\d[\d.]{2,12})(?P<local>\+(?:cu\d{2,3}|cpu))?(?![\w.+])"
    r"|CUDA used to build PyTorch: (?P<built>None|\d{1,2}\.\d))"
    r"|(?:is_available\(\)|Is CUDA available)\W{0,20}(?:(?:is|was|returns?|gives|says) )?(?P<answer>True|False|Yes|No)\b",
    re.MULTILINE,
)
_CUDA = re.compile(r"cuda_?(\d{1,2})\.?(\d)")

# An interpreter as it is called or spoken of, not a part of a path, a package's name or "Python 3.8"
_CALLED = re.compile(
    r"(?<![\w./\\:=@-])(?:(?:[A-Za-z]:|~)?[\w./\\-]{0,80}[/\\])?python(?:[23](?:\.\d{1,2})?)?(?:\.exe)?(?![\w./\\]|[ -]?\d|-[a-z])"
)
_ANSWER = re.compile(r"\b(?:true|false)\b", re.IGNORECASE)
_GIVEN_BY = re.compile(
    r"\b(true|false)\b[^\w\n]{0,4}"
    r" (?:from|with|for|using|in|by|under|(?:when|if) (?:I )?(?:run|running|use|using|call|calling)(?: it)?(?: with)?)\W{0,12}$",
    re.IGNORECASE,
)


@mutable
class _Environment:
    """A torch, and what it answered when it was asked for CUDA."""

    version: str
    conda: bool
    line: str
    cuda: str | None = None  # "" of a build without it, None where nothing is said
    works: bool | None = None


def cpu_beside_cuda(text: str) -> tuple[TextEvidence, ...]:
    """A sign where a torch of the one environment has CUDA and works, and that of a later one is a build for the CPU."""
    if len(text) > POST or text.lower().count("cuda") < 2 or ("cpu" not in text and "None" not in text):
        return ()
    told = _environments(text)
    works = next((one for one in told if one.cuda and one.works), None)
    lacks = next((one for one in told[told.index(works) :] if one.cuda == "" and one.works is False), None) if works else None
    if works is None or lacks is None or said(text).over:
        return ()
    values = {"release": lacks.version, "works": works.version, "cuda": works.cuda or "", "conda": "conda" if lacks.conda else ""}
    return (likely_sign(lacks.line, "torch-cpu-build", "cpu-build-beside", "beside", values),)


def _environments(text: str) -> list[_Environment]:
    found: list[_Environment] = []
    for match in _SAID.finditer(text):
        if version := match["conda"] or match["pip"]:
            found.append(_Environment(version, bool(match["conda"]), match[0].strip(), _cuda_of(match)))
        elif found and match["built"]:
            found[-1].cuda = found[-1].cuda or match["built"].replace("None", "")
        elif found and found[-1].works is None and match["answer"]:
            found[-1].works = match["answer"] in ("True", "Yes")
    return found


def _cuda_of(match: re.Match[str]) -> str | None:
    build = match["build"] or ""
    if (cuda := _CUDA.search(build)) or (match["local"] or "").startswith("+cu"):
        return f"{cuda[1]}.{cuda[2]}" if cuda else f"{match['local'][3:-1]}.{match['local'][-1]}"
    return "" if re.search(r"(?:^|_)cpu(?:_|$)", build) or match["local"] else None


def interpreters_differ(text: str) -> tuple[TextEvidence, ...]:
    """A sign where two interpreters, each by its name, are said to answer differently whether CUDA is there."""
    if len(text) > POST or "is_available" not in text or not {"true", "false"} <= set(_ANSWER.findall(text.lower())):
        return ()
    calls = list(_CALLED.finditer(text))
    ends = [*(one.start() for one in calls[1:]), len(text)]
    told: dict[str, str] = {}
    for call, start, end in zip(calls, [0, *(one.end() for one in calls)], ends, strict=False):
        given, after = _GIVEN_BY.search(text[start : call.start()][-80:]), text[call.end() : end]
        said_of = given[1] if given else _said_after(after)
        if said_of:
            told.setdefault(call[0], said_of.lower())
    works, lacks = (next((one for one, answer in told.items() if answer == wanted), None) for wanted in ("true", "false"))
    if works is None or lacks is None or said(text).over:
        return ()
    values = {"works": works, "lacks": lacks}
    words = f"{lacks}: False, {works}: True"
    return (likely_sign(words, "torch-cuda-unavailable", "interpreters-differ", "interpreters", values),)


def _said_after(text: str) -> str | None:
    """The answer that follows a call, unless it is given of the next one, or is a word of another command."""
    given, found = _GIVEN_BY.search(text[-80:]), _ANSWER.search(text[:300])
    if found is None or (given and found.start() == max(len(text) - 80, 0) + given.start()):
        return None
    between = text[: found.start()]
    near = found.start() <= 60 and ".py" not in between and "--" not in between
    return found[0] if near or "is_available" in between else None
