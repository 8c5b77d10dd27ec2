"""--expect and --assume: what the user says about the facts, in a small closed syntax."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from envcheck.errors import UsageError
from envcheck.facts import (
    DevicesFacts,
    DriverFacts,
    Expectation,
    ExpectationsFacts,
    GpusFacts,
    LimitsFacts,
    LiveFacts,
    Missing,
    PackagesFacts,
    PythonFacts,
    Snapshot,
    SystemFacts,
    TorchFacts,
)
from envcheck.pattern import pattern
from envcheck.record import replace

# 'gpus>=8', 'driver>=580', 'torch~=2.14', 'gpu==NVIDIA H100 80GB HBM3', 'torch.import_seconds<30'
SYNTAX = pattern(r"\s*([A-Za-z_][\w.\-]*)\s*(>=|<=|==|!=|~=|>|<)\s*(.+?)\s*")
VERSIONS = ("driver", "torch", "cuda", "nccl", "cudnn", "python", "driver_cuda", "glibc", "compute_capability")
NUMBERS = ("gpus", "visible_gpus", "ranks", "gpu_memory_gib", "shm_gib", "memory_gib", "cpus", "open_files")
TEXTS = ("gpu",)
NAMES = (*NUMBERS, *VERSIONS, *TEXTS)


def check_syntax(assumptions: Sequence[str], expectations: Sequence[str]) -> None:
    """UsageError for what cannot be read, before anything is started."""
    for one in assumptions:
        split_assumption(one)
    for one in expectations:
        _parse(one)


def split_assumption(text: str) -> tuple[str, str]:
    """ "driver.version=580.95.05" → its path and its value."""
    path, equals, value = text.partition("=")
    if not equals or "." not in path:
        raise UsageError(f"--assume {text}: write SECTION.FIELD=VALUE, as in driver.version=580.95.05")
    return path.strip(), value.strip()


def parse_value(text: str) -> Any:
    """A JSON value where it is one, else the text itself."""
    import json

    try:
        return json.loads(text)
    except ValueError:
        return text


def _parse(text: str) -> tuple[str, str, str]:
    match = SYNTAX.fullmatch(text)
    if match is None:
        raise UsageError(f"--expect {text!r}: write NAME OPERATOR VALUE, as in 'gpus>=8'")
    name, operator, value = match[1], match[2], match[3]
    known = name in NAMES or "." in name
    if not known:
        import difflib

        near = difflib.get_close_matches(name, NAMES, 1, 0.4)
        raise UsageError(
            f"--expect {text!r}: {name} is no name of a fact"
            + (f"; did you mean {near[0]}?" if near else f"; there are {', '.join(NAMES)}")
        )
    if name in TEXTS and operator not in ("==", "!="):
        raise UsageError(f"--expect {text!r}: {name} takes == or !=")
    if name in VERSIONS:
        from packaging.specifiers import InvalidSpecifier, SpecifierSet

        try:
            SpecifierSet(operator + value)
        except InvalidSpecifier:
            raise UsageError(f"--expect {text!r}: {value!r} is not a version") from None
    elif name in NUMBERS:
        try:
            float(value)
        except ValueError:
            raise UsageError(f"--expect {text!r}: {value!r} is not a number") from None
    return name, operator, value


def expected(snapshot: Snapshot, expectations: Sequence[str]) -> Snapshot:
    """The snapshot with what became of each expectation; what is not known is undecided, not met."""
    failed: list[Expectation] = []
    undecided: list[str] = []
    met: list[str] = []
    for text in expectations:
        name, operator, value = _parse(text)
        found = _find(snapshot, name)
        if found is None:
            undecided.append(text)
        elif _holds(name, found, operator, value):
            met.append(text)
        else:
            failed.append(Expectation(text, _shown(found)))
    return replace(snapshot, expectations=ExpectationsFacts(tuple(failed), tuple(undecided), tuple(met)))


def _shown(found: Any) -> str:
    if found is None:
        return "not known"
    if isinstance(found, tuple):
        return ", ".join(map(str, found)) or "none"
    return f"{found:.4g}" if isinstance(found, float) else str(found)


def _find(snapshot: Snapshot, name: str) -> Any:
    """A number, a text, a tuple that must hold for every member, or None if it is not known."""
    if "." in name:
        return _dotted(snapshot, name)
    torch = snapshot.torch if isinstance(snapshot.torch, TorchFacts) else TorchFacts()
    devices = snapshot.devices if isinstance(snapshot.devices, DevicesFacts) else DevicesFacts()
    gpus = snapshot.gpus.devices if isinstance(snapshot.gpus, GpusFacts) else ()
    driver = snapshot.driver if isinstance(snapshot.driver, DriverFacts) else DriverFacts()
    system = snapshot.system if isinstance(snapshot.system, SystemFacts) else SystemFacts()
    limits = snapshot.limits if isinstance(snapshot.limits, LimitsFacts) else LimitsFacts()
    absent = isinstance(snapshot.gpus, Missing) and snapshot.gpus.why.value == "absent"
    match name:
        case "gpus":
            return len(gpus) if gpus or absent else None
        case "visible_gpus":
            return devices.count
        case "gpu":
            return tuple(gpu.name for gpu in gpus) or None
        case "compute_capability":
            return tuple(gpu.compute_capability for gpu in gpus) or None
        case "gpu_memory_gib":
            return tuple(gpu.memory_bytes / 2**30 if gpu.memory_bytes else None for gpu in gpus) or None
        case "driver":
            return driver.version
        case "driver_cuda":
            return driver.cuda
        case "torch":
            return torch.version
        case "cuda":
            return torch.cuda
        case "nccl":
            return torch.nccl_loaded or torch.nccl
        case "cudnn":
            return torch.cudnn_loaded or torch.cudnn
        case "python":
            return snapshot.python.version if isinstance(snapshot.python, PythonFacts) else None
        case "glibc":
            return system.glibc
        case "ranks":
            return snapshot.live.world_size if isinstance(snapshot.live, LiveFacts) and snapshot.live.status.value == "pass" else 0
        case "shm_gib":
            return limits.shm_bytes / 2**30 if limits.shm_bytes is not None else None
        case "memory_gib":
            size = system.memory_limit_bytes or system.memory_bytes
            return size / 2**30 if size else None
        case "cpus":
            return system.cpu_limit or system.cpu_affinity or system.cpu_count
        case "open_files":
            return limits.open_files_soft
    return None


def _dotted(snapshot: Snapshot, path: str) -> Any:
    """A field by its path; `packages.NAME` is the version of a distribution."""
    head, _, rest = path.partition(".")
    node: Any = getattr(snapshot, head, None)
    if head == "packages" and isinstance(node, PackagesFacts) and not hasattr(node, rest):
        return node.version(rest)
    for part in rest.split("."):
        if isinstance(node, tuple) and part.isdecimal():
            node = node[int(part)] if int(part) < len(node) else None
        elif isinstance(node, dict):
            node = node.get(part)
        else:
            node = getattr(node, part, None)
    return getattr(node, "value", node)


def _holds(name: str, found: Any, operator: str, value: str) -> bool:
    """For a tuple, whether it holds for every member; a member that is not known does not."""
    if isinstance(found, tuple):
        return bool(found) and all(_holds(name, one, operator, value) for one in found)
    if found is None:
        return False
    if isinstance(found, bool):
        same = str(found).lower() == value.lower()
        return same if operator == "==" else not same if operator == "!=" else False
    if isinstance(found, int | float) and name not in VERSIONS:
        try:
            number = float(value)
        except ValueError:
            return False
        return {
            ">=": found >= number,
            "<=": found <= number,
            "==": found == number,
            "!=": found != number,
            ">": found > number,
            "<": found < number,
        }.get(operator, False)
    if name in TEXTS or not re.match(r"\d", value):
        return (found == value) is (operator == "==")
    return _version_holds(str(found), operator, value)


def _version_holds(found: str, operator: str, value: str) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        return SpecifierSet(operator + value).contains(Version(found), prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return False
