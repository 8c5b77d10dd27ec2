"""What commands and programs in a text ask for; what is there is another matter.

conda install pytorch cudatoolkit=10.1 -c pytorch        - pytorch-cuda=12.1
pip install torch==1.13.1+cu117 --index-url …/whl/cu117  model.to("cuda:1")      Invalid CUDA 'device=1' requested
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from envcheck.facts.record import replace
from envcheck.read.found import Claim, Found, Notes, Role, kept

_INSTALL = re.compile(
    r"\b(?:(?:python\S{0,6} -m )?pip3?|uv pip|conda|mamba|micromamba) install (?P<rest>[^`\n;|&\"]{3,400})", re.IGNORECASE
)
_REQUIREMENT = re.compile(r"(?:^|(?<=\s))['\"]?((?:py)?torch(?:vision|audio)?(?:[=<>~!]=?[\w.+*]{1,40})?)(?=['\"]?(?:\s|$))")
_NO_MATCH = re.compile(r"satisfies the requirement ((?:torch|torchvision|torchaudio)[=<>~!]=?[\w.+]{1,40})")
_FOR_CUDA = re.compile(
    r"\b(?:cudatoolkit|pytorch-cuda|cuda-version)\s?[=<>]=?\s?\d|/whl/(?:nightly/)?cu\d{2,3}\b|torch(?:vision|audio)?==\d[\d.]*\+cu\d{2,3}\b"
)
# In a program of the user. "cuda if there is one, else cpu" asks for nothing.
_DEVICE = re.compile(
    r"(?:\.to\(|device\s?=\s?|torch\.device\(|--device[ =]|map_location\s?=\s?)['\"]?cuda(?::(?P<index>\d{1,2}))?['\")\s]"
    r"|Invalid CUDA '?(?:--)?device[ =](?P<asked>\d{1,2})\b|\.cuda\((?P<number>\d{0,2})\)|accelerator\s?=\s?['\"](?:gpu|cuda)['\"]"
)
# GPUs that a program chooses for itself; an empty list or 0 explains no failure.
_CHOSEN = re.compile(r"os\.environ\[['\"](?P<name>(?:CUDA|HIP|ROCR)_VISIBLE_DEVICES)['\"]\]\s?=\s?['\"](?P<value>[1-9][\d, ]{0,60})['\"]")
# The same in a script, or as a person quotes a line of one; what a run worked with is none of it.
_EXPORTED = re.compile(
    r"(?:^|[\s`'\"(])(?:export |set |\$env:|%env )?(?P<name>CUDA_VISIBLE_DEVICES|HIP_VISIBLE_DEVICES|ROCR_VISIBLE_DEVICES)\s?=\s?['\"]?"
    r"(?P<value>[1-9]\d{0,2}(?:,\d{1,3}){0,15})['\"]?(?=[`'\"\s);.,&]|$)"
)
_IN_SCRIPT = re.compile(
    r"\b(?:script|\w{1,40}\.(?:sh|bash|bat|cmd|ps1|slurm)|bashrc|profile|notebook|line \d{1,4}|sets?|export)\b", re.IGNORECASE
)
_WORKED = re.compile(r"\b(?:works|worked|runs|ran|fine|solved by|fixed by|instead|try)\b", re.IGNORECASE)
# conda's plan in one line: "pytorch: 0.4.0-py36_cuda9.1.85_cudnn7.1.2_1 pytorch [cuda91] --> 0.4.1-py36_cuda9.2.148_cudnn7.1.4_1 pytorch"
_PLAN = re.compile(
    r"pytorch[:\s]\s{0,40}[^\n]{1,100}-->\s{1,8}(?P<version>\d\.\d{1,2}\.\d{1,2})-\S{0,20}?cuda(?P<cuda>\d{1,2}\.\d)[\d.]{0,8}(?:_|\s|$)"
)
# The variable is read when CUDA starts, and these start it.
_SETS = re.compile(r"^\s{0,20}os\.environ\[['\"](?:CUDA|HIP)_VISIBLE_DEVICES['\"]\]\s?=\s?['\"](?P<chosen>[^'\"]{0,80})")
_STARTS_CUDA = re.compile(
    r"^(?!\s{0,20}(?:def|class|#|File)\b)[^#\n]{0,120}?(?:\btorch\.cuda\.(?:is_available|device_count|current_device|get_device_name|init|set_device|"
    r"mem_get_info|get_device_properties)\(|\.cuda\(\)|\.to\(['\"]cuda)"
)
_EITHER = re.compile(r"is_available\(\)|\belse\b")
_OURS = ("site-packages", "dist-packages")
_HINTS = ("install ", "satisfies the requirement", "cuda", "CUDA", "accelerator", "-->", "VISIBLE_DEVICES")


def read_asked(text: str) -> Found | None:
    """Facts of the section `asked`, and the GPUs that a program chooses; None where nothing is asked for."""
    if not any(hint in text for hint in _HINTS):
        return None
    notes, claims = Notes("demands", rank=0), []
    commands: list[str] = []
    requirements: list[str] = []
    first = ("", 0)  # line of the first of them
    started = False  # a line above starts CUDA
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if len(line) > 2000:
            continue
        asks: list[tuple[str, object]] = []
        if started and (late := _SETS.match(line)):
            notes.sign("visible-devices-too-late", line, "set-after-cuda", {"chosen": late["chosen"]})
        started = started or bool(_STARTS_CUDA.match(line))
        for install in _INSTALL.finditer(line):
            commands.append(" ".join(install[0].split()))
            requirements += _REQUIREMENT.findall(install["rest"])
        requirements += _NO_MATCH.findall(line)
        if "-->" in line and (plan := _PLAN.search(line)):
            commands.append(f"conda install pytorch={plan['version']} cudatoolkit={plan['cuda']}")
        first = first if first[1] or not (commands or requirements) else (line, number)
        if _FOR_CUDA.search(line):
            asks.append(("asked.cuda", kept(line)))
        if chosen := _CHOSEN.search(line):
            notes.put(f"env.{chosen['name']}", chosen["value"].strip(), line, number)
        elif (exported := _EXPORTED.search(line)) and _in_script(lines, number) and not _WORKED.search(line):
            notes.put(f"env.{exported['name']}", exported["value"], line, number)
        device = _DEVICE.search(line)
        if device and not _EITHER.search(line) and not any(folder in line for folder in _OURS):
            asks.append(("asked.cuda", kept(line)))
            index = device["index"] or device["asked"] or device["number"]
            asks += [("asked.device", int(index))] if index else []
        for subject, value in asks:
            notes.put(subject, value, line, number)
            claims.append(Claim(subject, value, Role.ASKED, True, kept(line), number))
    notes.put("asked.commands", tuple(dict.fromkeys(commands))[:20] or None, *first)
    notes.put("asked.requirements", tuple(dict.fromkeys(requirements))[:20] or None, *first)
    found = notes.found()
    return replace(found, claims=tuple(claims)) if found else None


def _in_script(lines: Sequence[str], number: int) -> bool:
    """Whether a line, or the one above it, says that a script has what the line assigns."""
    return any(_IN_SCRIPT.search(line) for line in lines[max(0, number - 2) : number] if len(line) <= 2000)
