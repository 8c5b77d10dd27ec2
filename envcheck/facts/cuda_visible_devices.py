"""How the CUDA driver reads CUDA_VISIBLE_DEVICES. Pure: values in, a `Selection` out.

Measured on an H200 with driver 580.159.04 (tests/test_visible.py holds the table); what was not
measured is taken from the CUDA programming guide or answered with `Problem.UNKNOWN`.
https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from envcheck.facts.cuda_codes import INVALID_DEVICE, NO_DEVICE
from envcheck.facts.record import record, replace
from envcheck.facts.snapshot import Gpu, GpusFacts, Missing, VisibilityFacts


class Problem(Enum):
    """What is noteworthy about a value; NONE where it selects what it says."""

    NONE = "none"
    EMPTY = "empty"  # set to nothing: every GPU is hidden
    HIDDEN = "hidden"  # starts with -1, NoDevFiles or a word like "none", the customary ways to hide every GPU
    OUT_OF_RANGE = "out_of_range"  # the first entry names a GPU that is not there: no GPU is left
    UNREADABLE = "unreadable"  # the first entry is not a device at all: no GPU is left
    TRUNCATED = "truncated"  # some GPUs are selected, then reading stops and entries are lost
    DUPLICATE = "duplicate"  # a GPU is named twice: initialisation fails with error 101
    UNKNOWN = "unknown"  # neither measured nor documented, or the GPUs are not known


class InitResult(Enum):
    """What a CUDA program gets."""

    DEVICES = "devices"
    NO_DEVICE = "no_device"  # CUDA error 100; torch: is_available() False, no warning
    INVALID_ORDINAL = "invalid_ordinal"  # CUDA error 101; torch: is_available() False with a warning
    UNKNOWN = "unknown"


@record
class Selection:
    """The GPUs a value leaves visible, in CUDA's order."""

    indices: tuple[int, ...] | None  # into nvidia-smi's numbering; None = not known
    count: int | None  # how many devices CUDA sees; may be known where `indices` is not
    problem: Problem = Problem.NONE
    stopped_at: str | None = None  # the entry at which reading stopped, as written (may be "")
    position: int | None = None  # of that entry, from 0
    lost: tuple[str, ...] = ()  # entries from there on, which do not count

    @property
    def outcome(self) -> InitResult:
        if self.problem is Problem.DUPLICATE:
            return InitResult.INVALID_ORDINAL
        if self.count is None:
            return InitResult.UNKNOWN
        return InitResult.DEVICES if self.count else InitResult.NO_DEVICE

    @property
    def cuda_error(self) -> int | None:
        """The CUresult of initialisation that this value alone causes."""
        return {InitResult.NO_DEVICE: NO_DEVICE, InitResult.INVALID_ORDINAL: INVALID_DEVICE}.get(self.outcome)


# Slurm's word for a step without a GPU, and words that people write for "no GPU" ("none" and "void" are NVIDIA_VISIBLE_DEVICES'):
# CUDA reads none of them and stops. Not "None" and "null": those are an accident of a program.
_HIDING = ("NoDevFiles", "none", "void", "cpu")


class _Stop(Enum):
    UNREADABLE = "unreadable"
    NEGATIVE = "negative"
    ABSENT = "absent"
    UNKNOWN = "unknown"


def read_visible(value: str | None, gpus: Sequence[Gpu], order: str | None = None) -> Selection:
    """What CUDA makes of `value` (None = unset) on a host with these GPUs, in nvidia-smi's order.

    `order` is CUDA_DEVICE_ORDER. An empty `gpus` means that the GPUs are not known.
    """
    if value is None:
        return Selection(tuple(gpu.index for gpu in gpus), len(gpus)) if gpus else Selection(None, None, Problem.UNKNOWN)
    if not value.strip():
        return Selection((), 0, Problem.EMPTY, value, 0)
    entries = value.split(",")
    if entries[0].startswith("MIG-"):
        return _read_mig(entries, gpus)
    by_uuid = entries[0].startswith("GPU-")
    chosen: dict[int, None] = {}  # in their order
    for position, entry in enumerate(entries):
        found = _uuid(entry, gpus) if by_uuid else _ordinal(entry, gpus)
        if isinstance(found, _Stop):
            if not by_uuid and entry.startswith(("GPU-", "MIG-")):
                found = _Stop.UNKNOWN  # numbers mixed with names: not measured, not documented
            return _stopped(entries, position, found, tuple(chosen), by_uuid, gpus, order)
        if found in chosen:
            return Selection((), 0, Problem.DUPLICATE, entry, position, tuple(entries[position:]))
        chosen[found] = None
    if not gpus:
        return Selection(None, None, Problem.UNKNOWN)
    return Selection(_indices(tuple(chosen), by_uuid, gpus, order), len(chosen))


def _stopped(
    entries: list[str], position: int, why: _Stop, chosen: Sequence[int], by_uuid: bool, gpus: Sequence[Gpu], order: str | None
) -> Selection:
    entry, lost = entries[position], tuple(entries[position:])
    if why is _Stop.UNKNOWN:
        return Selection(None, None, Problem.UNKNOWN, entry, position, lost)
    if chosen:
        # "0,1," : nothing is lost at the end
        problem = Problem.TRUNCATED if any(rest.strip() for rest in lost) else Problem.NONE
        if not gpus:
            return Selection(None, None, Problem.UNKNOWN, entry, position, lost)
        return Selection(_indices(chosen, by_uuid, gpus, order), len(chosen), problem, entry, position, lost)
    if why is _Stop.NEGATIVE or entry.strip() in _HIDING:
        return Selection((), 0, Problem.HIDDEN, entry, position, lost)
    problem = Problem.OUT_OF_RANGE if why is _Stop.ABSENT else Problem.UNREADABLE
    return Selection((), 0, problem, entry, position, lost)


def _number(entry: str) -> int | _Stop:
    """The number at the start of an entry: ' 0', '+0', '00', '0x0', '0.0' and '0;1' were all read as 0.

    Where the base decides ('0x1', '010') or the sign of zero ('-0'), nothing was measured.
    """
    text = entry.lstrip(" \t")
    sign, text = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    length = 0
    while length < len(text) and text[length] in "0123456789":
        length += 1
    digits, rest = text[:length], text[length:]
    if not digits:
        return _Stop.UNREADABLE
    significant = digits.lstrip("0")
    if sign == "-":
        return _Stop.NEGATIVE if significant else _Stop.UNKNOWN
    if not significant and rest[:1] in ("x", "X") and rest[1:2] and rest[1] in "123456789abcdefABCDEF":
        return _Stop.UNKNOWN
    if digits[0] == "0" and (len(significant) > 1 or significant in ("8", "9")):
        return _Stop.UNKNOWN
    if len(significant) > 9:
        return _Stop.UNKNOWN  # an unsigned overflow may wrap
    return int(significant or "0")


def _ordinal(entry: str, gpus: Sequence[Gpu]) -> int | _Stop:
    number = _number(entry)
    if isinstance(number, _Stop) or not gpus:
        return number
    if any(gpu.error for gpu in gpus):
        return _Stop.UNKNOWN  # a lost GPU may or may not keep its number
    return number if number < len(gpus) else _Stop.ABSENT


def _uuid(entry: str, gpus: Sequence[Gpu]) -> int | _Stop:
    """Index of the one GPU whose UUID starts with the entry. The bare 'GPU-' selected nothing on a one-GPU host."""
    if not entry.startswith("GPU-"):
        # torch stops here too; whether the driver would read a number is not known
        return _Stop.UNREADABLE if not entry.strip() or not entry.lstrip(" +-")[:1].isdecimal() else _Stop.UNKNOWN
    wanted = entry.rstrip(" \t")
    if wanted == "GPU-":
        return _Stop.UNREADABLE
    if not gpus or wanted != entry or any(gpu.uuid is None for gpu in gpus):
        return _Stop.UNKNOWN
    found = [gpu.index for gpu in gpus if gpu.uuid is not None and gpu.uuid.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    if found or any(gpu.uuid is not None and gpu.uuid.lower().startswith(wanted.lower()) for gpu in gpus):
        return _Stop.UNKNOWN  # ambiguous, or right but for the case of its letters
    return _Stop.ABSENT


def _read_mig(entries: list[str], gpus: Sequence[Gpu]) -> Selection:
    """MIG-<UUID>, or the older MIG-GPU-<UUID>/<GI>/<CI>. A process sees at most one MIG device (MIG user guide)."""
    entry = entries[0]
    for gpu in gpus:
        old_form = gpu.uuid is not None and entry.startswith(f"MIG-{gpu.uuid}/") and gpu.mig is True
        if entry in gpu.mig_devices or old_form:
            rest = tuple(entries[1:])
            if any(one.strip() for one in rest):
                return Selection((gpu.index,), 1, Problem.TRUNCATED, rest[0], 1, rest)
            return Selection((gpu.index,), 1)
    if not gpus or any(gpu.mig is None or _mig_unlisted(gpu) for gpu in gpus):
        return Selection(None, None, Problem.UNKNOWN, entry, 0, tuple(entries))
    return Selection((), 0, Problem.OUT_OF_RANGE, entry, 0, tuple(entries))


def _mig_unlisted(gpu: Gpu) -> bool:
    """In MIG mode, and the UUIDs of its instances are not all known."""
    return gpu.mig is True and not (gpu.mig_devices and all(name.startswith("MIG-") for name in gpu.mig_devices))


def _indices(chosen: Sequence[int], by_uuid: bool, gpus: Sequence[Gpu], order: str | None) -> tuple[int, ...] | None:
    """CUDA numbers GPUs fastest first unless CUDA_DEVICE_ORDER=PCI_BUS_ID; that matters where models differ."""
    if by_uuid:
        return tuple(chosen)
    if len({gpu.name for gpu in gpus}) > 1 and order != "PCI_BUS_ID":
        return None
    return tuple(gpus[number].index for number in chosen)


def with_selection(visibility: VisibilityFacts, gpus: GpusFacts | Missing) -> VisibilityFacts:
    """The facts with `selected` and `stopped_at` worked out, once the GPUs are known."""
    devices = () if isinstance(gpus, Missing) else gpus.devices
    chosen = read_visible(visibility.cuda_visible_devices, devices, visibility.cuda_device_order)
    return replace(visibility, selected=chosen.indices, stopped_at=chosen.stopped_at)
