"""Lists of installed packages: pip list, pip freeze, pip show, uv pip list, conda list, and stray "[pip3] name==version" lines.

Package      Version          torch==2.9.0+cu128            # packages in environment at /opt/conda:
------------ -----------      nvidia-nccl-cu12==2.27.5      # Name    Version   Build                  Channel
torch        2.9.0+cu128      torch @ https://…/torch-…whl  pytorch   2.5.1     py3.12_cuda12.4_…      pytorch
"""

from __future__ import annotations

import re

from envcheck.facts.snapshot import Distribution
from envcheck.read.collect_env import normal
from envcheck.read.found import Found, Notes

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}"
VERSION = r"[0-9][0-9A-Za-z.!+_-]{0,60}"
_FREEZE = re.compile(rf"({NAME})(?:\[[\w,-]{{1,40}}\])?===?({VERSION})\s*$")
_WHEEL = re.compile(rf"({NAME}) @ \S{{0,300}}?/[A-Za-z0-9_.]{{1,80}}-({VERSION}?)-(?:cp|py)\d")
_TABLE = re.compile(rf"({NAME})\s+({VERSION})(?:\s+\S.*)?$")
_CONDA = re.compile(rf"({NAME})\s+({VERSION})\s+(\S{{1,80}})(?:\s+(\S{{1,60}}))?\s*$")
_TAGGED = re.compile(rf"\[pip3?\]\s*({NAME})==({VERSION})")
# Rows that someone took out of such a list: "pip list | grep torch", "conda list | grep torch"
_STRAY = re.compile(
    rf"((?:py)?torch(?:vision|audio|text|ao)?|pytorch-cuda|pytorch-nightly|pytorch(?:-nightly)?-cpu|pytorch-mutex|cpuonly|cudatoolkit|triton|numpy|nvidia-[a-z0-9-]{{3,40}}|bitsandbytes|xformers|vllm|flash[-_]attn)"
    rf"\s{{2,80}}({VERSION})(?:\s{{2,80}}(\S{{1,80}}))?(?:\s{{2,80}}(\S{{1,60}}))?\s*$"
)
# What conda is about to do: "pytorch  pytorch/win-64::pytorch-1.10.0-py3.6_cpu_0", "pytorch  1.9.0-cpu_py38 --> 1.9.0-cuda112py38"
_PLANNED = re.compile(
    rf"({NAME})\s{{1,80}}(?:[^\n]{{1,160}}--> )?(\S{{1,60}})/(?:noarch|(?:linux|win|osx)-\w{{1,8}})"
    rf"::({NAME})-({VERSION})-([\w.]{{1,60}})\s*$"
)
# The same by mamba, "+ pytorch  2.1.0  cpu_mkl_py310h…_100  conda-forge/linux-64  25MB", and a row of `conda env export`
_TABLE_OF_PLAN = re.compile(
    rf"\+ {{1,4}}({NAME})\s{{1,80}}({VERSION})\s{{1,80}}([\w.]{{1,60}})\s{{1,80}}(\S{{1,60}})/(?:noarch|(?:linux|win|osx)-\w{{1,8}})\b"
)
_EXPORTED = re.compile(rf"- ({NAME})=({VERSION})=([\w.]{{1,60}})$")
_LEAVES = re.compile(r"The following packages will be (?:REMOVED|DOWNGRADED|SUPERSEDED)")
# torch's names at conda over the years; some say that they are built for the CPU
_CONDA_CPU = ("pytorch-cpu", "pytorch-nightly-cpu")
_CONDA_TORCH = ("pytorch", "pytorch-nightly", *_CONDA_CPU)
_BUILD_CUDA = re.compile(r"(?:^|_)cuda_?(\d{2})\.?(\d)")  # py3.12_cuda12.4_cudnn9.1.0_0, cuda126_mkl_py312h…
_BUILD_CPU = re.compile(r"(?:^|_)cpu(?:_|$)")  # cpu_generic_py310h…, py3.10_cpu_0
_HEAD = re.compile(r"\s{0,4}Package\s+Version\b")
_RULE = re.compile(r"\s{0,4}-{3,}\s+-{3,}")

_SIGNS = (
    "- pytorch=",
    "- cpuonly=",
    "==",
    "64::",
    "noarch::",
    "Package",
    "# Name",
    "Version: ",
    " @ ",
    "torch  ",
)  # without one of them there is no such list


def read_packages(text: str) -> Found | None:
    """Distributions of the first lists in a text; None where there is none."""
    if not any(sign in text for sign in _SIGNS):
        return None
    notes = Notes("package list")
    mode, freeze = "", []
    tagged = "PyTorch version" not in text and "relevant libraries" not in text  # else the lines belong to that report
    shown = ""
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if not line or len(line) > 600:
            mode = "" if not line and mode == "table" else mode
        elif heading := _heading(notes, mode, raw, number):
            mode = heading
        elif mode == "conda" and not line.startswith("#"):
            mode = _conda(notes, line, number)
        elif mode == "table":
            mode = _table(notes, line, number)
        elif _of_a_plan(notes, mode, line, number):
            pass
        elif tagged and (match := _TAGGED.match(line)):
            _put(notes, match[1], match[2], line, number)
        elif line.startswith("Name: "):
            shown = line[6:].strip()
        elif shown and line.startswith("Version: "):
            _put(notes, shown, line[9:].strip(), line, number)
            shown = ""
        elif not mode and (match := _STRAY.match(line)):
            _stray(notes, match, line, number)
        elif match := _FREEZE.match(line) or _WHEEL.match(line):
            freeze.append((match[1], match[2], line, number))
    if len(freeze) >= 3 or (freeze and notes.kind != "package list"):  # one or two such lines are a requirement in an error message
        notes.kind = "pip freeze" if notes.kind == "package list" else notes.kind
        for name, version, line, number in freeze:
            _put(notes, name, version, line, number)
    return notes.found()


def _of_a_plan(notes: Notes, mode: str, line: str, number: int) -> bool:
    """Whether a line is a row of what conda or mamba is about to do, or of what `conda env export` writes; then it is taken."""
    if planned := _PLANNED.match(line):
        notes.kind = "conda plan"
        if mode != "leaves" and planned[1] == planned[3]:
            _conda(notes, f"{planned[3]} {planned[4]} {planned[5]} {planned[2]}", number)
        return True
    if row := _TABLE_OF_PLAN.match(line) or _EXPORTED.match(line):
        notes.kind = "conda plan" if line[0] == "+" else "conda list"
        _conda(notes, " ".join(row.groups()), number)
    return row is not None


def _heading(notes: Notes, mode: str, raw: str, number: int) -> str:
    """The mode that begins with a line above a list, "" for every other line."""
    line = raw.strip()
    if _HEAD.match(raw):
        return "head"
    if mode == "head" and _RULE.match(raw):
        notes.kind = "pip list"
        return "table"
    if line.startswith("The following ") and line.endswith(":"):
        return "leaves" if _LEAVES.match(line) else "comes"
    if line.startswith("# packages in environment at"):
        notes.kind = "conda list"
        notes.put("python.prefix", line.partition(" at ")[2].rstrip(":") or None, line, number)
        return "conda"
    return ""


def _stray(notes: Notes, match: re.Match[str], line: str, number: int) -> None:
    """A row without its list: one with a build, and the names that only conda has, are conda's."""
    if match[3] or match[1] in (*_CONDA_TORCH, "cudatoolkit", "cpuonly", "pytorch-mutex"):
        _conda(notes, line, number)
    else:
        _put(notes, match[1], match[2], line, number)


def _put(notes: Notes, name: str, version: str, line: str, number: int) -> None:
    own = normal(name)
    if re.fullmatch(VERSION, version):
        notes.put(f"package.{own}", Distribution(own, version), line, number)
        if own == "torch":
            notes.put("torch.version", version, line, number)


def _table(notes: Notes, line: str, number: int) -> str:
    match = _TABLE.match(line)
    if not match:
        return ""
    _put(notes, match[1], match[2], line, number)
    return "table"


def _conda(notes: Notes, line: str, number: int) -> str:
    conda = _CONDA.match(line)
    match = conda or _TABLE.match(line)
    if not match:
        return ""
    build = conda[3] if conda else None
    channel = conda[4] if conda else None
    by_pip = "pypi" in (build, channel) or channel == "<pip>"
    name = normal(match[1])
    own = "torch" if name in _CONDA_TORCH and not by_pip else name
    if own == "torch":
        first = "torch.version" not in notes.facts  # a second list is of another environment, or of another day
        notes.put("torch.version", match[2], line, number)
        if first and not by_pip:
            notes.put("torch.conda", True, line, number)
            cuda = _BUILD_CUDA.search(build or "")
            notes.put("torch.cuda", f"{cuda[1]}.{cuda[2]}" if cuda else None, line, number)
            cpu = name in _CONDA_CPU or (not cuda and _BUILD_CPU.search(build or ""))
            notes.put("torch.cpu_build", True if cpu else None, line, number)
    one = Distribution(
        own, match[2], installer="pip" if by_pip else "conda", build=None if by_pip else build, channel=None if by_pip else channel
    )
    notes.put(f"package.{own}", one, line, number)
    return "conda"
