"""--expect and --assume: what the user says about the facts, in a small closed syntax."""

from __future__ import annotations

import math
import re
import typing
from collections.abc import Sequence
from typing import Any, Literal

from envcheck.commands.named_facts import NAMES, NUMBERS, TEXTS, VERSIONS, find
from envcheck.errors import UsageError, near_word
from envcheck.facts.paths import distribution
from envcheck.facts.printable import one_line
from envcheck.facts.record import is_record_type, replace
from envcheck.facts.snapshot import Expectation, ExpectationsFacts, Missing, Snapshot, Why
from envcheck.tables.versions import LONGEST_NUMBER, meets, specifiers

# Name → what it is and an example, for those who write a gate. The names of numbers, versions and texts are NUMBERS, VERSIONS, TEXTS.
EXPLAINED = {
    "gpus": ("GPUs of this machine", "gpus>=8"),
    "visible_gpus": ("GPUs that torch sees", "visible_gpus==8"),
    "gpu": ("name of every GPU", "gpu==NVIDIA H100 80GB HBM3"),
    "gpu_memory_gib": ("memory of every GPU", "gpu_memory_gib>=79"),
    "compute_capability": ("of every GPU", "compute_capability>=9.0"),
    "driver": ("NVIDIA driver", "driver>=580"),
    "driver_cuda": ("newest CUDA that the driver offers", "driver_cuda>=13.0"),
    "torch": ("torch", "torch~=2.14"),
    "cuda": ("CUDA that torch is built with", "cuda==13.0"),
    "nccl": ("NCCL that torch loads", "nccl>=2.27"),
    "cudnn": ("cuDNN that torch loads", "cudnn>=9"),
    "python": ("Python under test", "python==3.12.*"),
    "glibc": ("glibc", "glibc>=2.28"),
    "ranks": ("ranks that the live check trained with", "ranks>=2"),
    "cpus": ("CPUs that this process may use", "cpus>=16"),
    "memory_gib": ("memory, or its limit", "memory_gib>=200"),
    "shm_gib": ("shared memory, /dev/shm", "shm_gib>=8"),
    "open_files": ("limit of open files", "open_files>=65536"),
}

EACH = "; each expectation stands for itself, as in --expect 'gpus>=8' --expect 'driver>=580'"

# 'gpus>=8', 'driver>=580', 'torch~=2.14', 'gpu==NVIDIA H100 80GB HBM3', 'torch.import_seconds<30'
SYNTAX = re.compile(r"\s*([A-Za-z_][\w.\-]*)\s*(>=|<=|==|!=|~=|>|<)\s*(.+?)\s*")


def kind(name: str) -> str:
    """ "number", "version" or "text"."""
    return "number" if name in NUMBERS else "version" if name in VERSIONS else "text"


def explained() -> str:
    """The names with kind and example, for --help."""
    rows = [f"  {example!r:<30}{kind(name):<9}{what}" for name, (what, example) in EXPLAINED.items()]
    head = "what --expect may name (and any fact: 'torch.import_seconds<30'), by example:"
    return "\n".join([head, *rows, ""])


def check_syntax(assumptions: Sequence[str], expectations: Sequence[str]) -> None:
    """UsageError for what cannot be read, before anything is started."""
    for one in assumptions:
        _check_fact(f"--assume {one}", split_assumption(one)[0])
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
    except (ValueError, RecursionError):
        return text


def _parse(text: str) -> tuple[str, str, str]:
    match = SYNTAX.fullmatch(text)
    if match is None:
        raise UsageError(f"--expect {text!r}: write NAME OPERATOR VALUE, as in 'gpus>=8'")
    name, operator, value = match[1], match[2], match[3]
    known = name in NAMES or "." in name
    if not known:
        near = near_word(name, NAMES)
        raise UsageError(
            f"--expect {text!r}: {name} is no name of a fact" + (f"; did you mean {near}?" if near else f"; there are {', '.join(NAMES)}")
        )
    if "." in name:
        _check_path(text, name, operator, value)
    if name in TEXTS and operator not in ("==", "!="):
        near = near_word(name, NUMBERS)
        raise UsageError(f"--expect {text!r}: {name} takes == or !=" + (f"; did you mean the number, {near}?" if near else ""))
    if name in NUMBERS and operator == "~=":
        raise UsageError(f"--expect {text!r}: ~= compares versions, and {name} is a number")
    if name in VERSIONS:
        if specifiers(operator + value) is None:
            raise UsageError(f"--expect {text!r}: {value!r} is not a version")
        if any(len(digits) > LONGEST_NUMBER for digits in re.findall(r"\d+", value)):
            raise UsageError(f"--expect {one_line(text, 60)!r}: a version has no number of more than {LONGEST_NUMBER} digits")
    elif name in NUMBERS and _as_number(value) is None:
        raise UsageError(f"--expect {text!r}: {value!r} is not a number" + (EACH if "," in value else ""))
    return name, operator, value


def _as_number(text: str) -> float | None:
    """None also for `nan` and `inf`, which nothing meets or everything does."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _check_fact(setting: str, path: str) -> Any:
    """The type of a fact. UsageError where a snapshot has none such."""
    from envcheck.facts.codec import DecodeError, check_path

    try:
        return check_path(path)
    except DecodeError as error:
        raise UsageError(f"{setting}: {error}") from None


def _check_path(text: str, path: str, operator: str, value: str) -> None:
    name = distribution(path)
    if name is not None:
        from envcheck.agent.inventory import CONDA_NAMES, wanted

        if not (wanted(name) or name in CONDA_NAMES):
            raise UsageError(f"--expect {text!r}: only distributions that bear on torch are looked for, and {name} is not among them")
        return
    kind_of_fact = _check_fact(f"--expect {text!r}", path)
    item = kind_of_fact if typing.get_origin(kind_of_fact) is not tuple else typing.get_args(kind_of_fact)[0]
    if is_record_type(item) or typing.get_origin(item) is dict:
        raise UsageError(f"--expect {text!r}: {path} is no single value; name a field below it")
    if kind_of_fact in (int, float) and _as_number(value) is None:
        raise UsageError(f"--expect {text!r}: {value!r} is not a number, as {path} is")
    if kind_of_fact is bool and (operator not in ("==", "!=") or value.lower() not in ("true", "false")):
        raise UsageError(f"--expect {text!r}: {path} is true or false, with == or !=")


def expected(
    snapshot: Snapshot, expectations: Sequence[str], backend: str | None = None, nproc: int | Literal["all"] | None = None
) -> Snapshot:
    """The snapshot with what became of each expectation. What is not here does not meet one; what is not known leaves it undecided."""
    failed: list[Expectation] = []
    undecided: list[Expectation] = []
    met: list[str] = []
    for text in expectations:
        name, operator, value = _parse(text)
        found = find(snapshot, name)
        if isinstance(found, Missing):
            (failed if found.why is Why.ABSENT else undecided).append(Expectation(text, reason=found.reason))
            continue
        match _holds(name, found, operator, value):
            case True:
                met.append(text)
            case False:
                failed.append(Expectation(text, _shown(found)))
            case None:
                undecided.append(Expectation(text, reason=f"{_shown(found)} cannot be compared with {value}"))
    seen = None if isinstance(snapshot.devices, Missing) else snapshot.devices.count
    ranks = seen if nproc == "all" else nproc
    return replace(snapshot, expectations=ExpectationsFacts(tuple(failed), tuple(undecided), tuple(met), backend, ranks))


def _shown(found: Any) -> str:
    if found is None:
        return "not known"
    if isinstance(found, tuple):
        return ", ".join(map(_shown, found)) or "none"
    return f"{found:.4g}" if isinstance(found, float) else str(found)


def _holds(name: str, found: Any, operator: str, value: str) -> bool | None:
    """For a tuple, whether it holds for every member. None where it cannot be told: a member that is not known, values of two kinds."""
    if isinstance(found, tuple):
        members = [_holds(name, one, operator, value) for one in found]
        return False if False in members or not members else None if None in members else True
    if found is None:
        return None
    if isinstance(found, bool):
        return (str(found).lower() == value.lower()) is (operator == "==") if operator in ("==", "!=") else None
    if isinstance(found, int | float) and name not in VERSIONS:
        return _number_holds(found, operator, value)
    if name in TEXTS or not re.match(r"\d", value):
        return (found == value) is (operator == "==") if operator in ("==", "!=") else None
    holds = meets(str(found), operator + value)
    if holds is None and name not in VERSIONS and operator in ("==", "!="):  # a path, a date, an address
        return (str(found) == value) is (operator == "==")
    return holds


def _number_holds(found: float, operator: str, value: str) -> bool | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return {
        ">=": found >= number,
        "<=": found <= number,
        "==": found == number,
        "!=": found != number,
        ">": found > number,
        "<": found < number,
    }.get(operator)
