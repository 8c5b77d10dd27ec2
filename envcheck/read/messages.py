"""Facts in torch's own messages, and signs that need a comparison of numbers.

    NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch installation.
    The current PyTorch install supports CUDA capabilities sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90.

Texts: torch/cuda/__init__.py (_check_capability, _check_cubins), c10/cuda/CUDAFunctions.cpp of torch 1.0 to 2.15.
"""

from __future__ import annotations

import re

from envcheck.facts.snapshot import Gpu
from envcheck.read.found import Found, Notes, line_at
from envcheck.tables.versions import major, older, version

_HINTS = (
    "cuda capability",
    "CUDA capabilit",
    "compute capability (CC)",
    "found version ",
    "ytorch",
    "YTORCH",
    "torch ",
    "arch_list",
    "nranks",
    "capability",
    "WSL",
)

_FOUND = re.compile(r"Found GPU(\d{1,2}) (?!%)(.{1,80}?) which is of (?:cuda|compute) capability (?:\(CC\) )?(\d{1,2}\.\d)")
_RANGE = re.compile(
    r"Minimum and Maximum cuda capability supported by this version of PyTorch is\s{1,10}\((\d{1,2}\.\d)\) - \((\d{1,2}\.\d)\)"
)
_MINIMUM = re.compile(r"minimum cuda capability supported by this library is (\d{1,2}\.\d)")
_BUILT_FOR = re.compile(r"- (\d{1,2}\.\d) which supports hardware CC >=(\d{1,2}\.\d),<(\d{1,2}\.\d)(?: except \{([\d., ]{0,80})\})?")
_NOT_COMPATIBLE = re.compile(
    r"(?:^|[:\s])((?:NVIDIA|GeForce|Tesla|Quadro|TITAN|A\d|H\d|RTX)[^\n:]{1,80}?) with CUDA capability sm_(\d{2,3}) is not compatible"
)
_SUPPORTS = re.compile(r"current PyTorch install supports CUDA capabilities ((?:(?:sm|compute)_\d{2,3}[a-z]?[ .]{0,2}){1,24})")
_ARCH_LIST = re.compile(r"(?:get_arch_list\(\)|arch_list)\W{1,6}\[((?:'(?:sm|compute)_\d{2,3}[a-z]?'(?:, )?){1,24})\]")
_DRIVER_CUDA = re.compile(r"found version (\d{4,5})\b")


def read_messages(text: str) -> Found | None:
    """Compute capabilities, architecture lists and the driver's CUDA, where torch prints them."""
    if not any(hint in text for hint in _HINTS):
        return None
    notes = Notes("torch messages", rank=0)
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) < 4000:
            _line(notes, line, number)
    for sign in ("WSL environment detected", "microsoft-standard-WSL2"):  # nvidia-container-cli's words, the kernel's name
        at = text.find(sign)
        if at >= 0:
            line, number = line_at(text, at)
            notes.put("system.wsl", 2, line, number)
            notes.put("system.os", "linux", line, number)
    _capabilities(notes, text)
    return notes.found()


def _line(notes: Notes, line: str, number: int) -> None:
    if "found version" in line and (match := _DRIVER_CUDA.search(line)):
        value = int(match[1])
        notes.put("driver.cuda", f"{value // 1000}.{value % 1000 // 10}", line, number)
    if "apabilit" in line:
        if match := _SUPPORTS.search(line):
            notes.put("torch.arch_list", tuple(re.findall(r"(?:sm|compute)_\d{2,3}[a-z]?", match[1])), line, number)
        if match := _FOUND.search(line):
            _gpu(notes, Gpu(int(match[1]), match[2].strip(), compute_capability=match[3], compute_capability_source="torch"), line, number)
        elif match := _NOT_COMPATIBLE.search(line):
            digits = match[2]
            _gpu(
                notes,
                Gpu(0, match[1].strip(), compute_capability=f"{digits[:-1]}.{digits[-1]}", compute_capability_source="torch"),
                line,
                number,
            )
    if "arch_list" in line and (match := _ARCH_LIST.search(line)):
        notes.put("torch.arch_list", tuple(re.findall(r"(?:sm|compute)_\d{2,3}[a-z]?", match[1])), line, number)


def _gpu(notes: Notes, gpu: Gpu, line: str, number: int) -> None:
    if all(not (isinstance(fact.value, Gpu) and fact.value.index == gpu.index) for fact in notes.facts.values()):
        notes.put(f"gpu.{gpu.index}", gpu, line, number)


def _capabilities(notes: Notes, text: str) -> None:
    """Torch warns about every capability outside its list. Only a comparison tells an old card from a new one, or from one that runs."""
    for fact in list(notes.facts.values()):
        gpu = fact.value
        if not isinstance(gpu, Gpu) or not gpu.compute_capability:
            continue
        mine, line = gpu.compute_capability, fact.line
        values = {"gpu": gpu.name or "", "cc": mine}
        bounds, minimum = _RANGE.search(text), _MINIMUM.search(text)
        lowest = bounds[1] if bounds else minimum[1] if minimum else None
        if lowest and older(mine, lowest):
            notes.sign("gpu-too-old-for-torch", line, "torch-capability-below", {**values, "minimum": lowest})
        elif bounds and older(bounds[2], mine) and major(mine) != major(bounds[2]):
            notes.sign("gpu-too-new-for-torch", line, "torch-capability-above", {**values, "maximum": bounds[2]})
        served = [(row[2], row[3], row[4] or "") for row in _BUILT_FOR.finditer(text)]
        if served and not any(version(low) <= version(mine) < version(high) and mine not in except_ for low, high, except_ in served):
            rule = "gpu-too-old-for-torch" if all(older(mine, low) for low, _, _ in served) else "gpu-too-new-for-torch"
            notes.sign(rule, line, "torch-capability-not-built", values)
