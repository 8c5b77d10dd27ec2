"""Words and numbers of nvidia-smi as values, and a `Gpu` from fields named as in --query-gpu.

The CSV query, the XML, the `-q` text and the table all say the same things in different words;
each reader turns its words into the names of `nvidia-smi --help-query-gpu`, and this module does the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from envcheck.facts.nvml_codes import LOST, RESET, UNKNOWN, code_of
from envcheck.facts.record import fields, replace
from envcheck.facts.snapshot import Gpu, GpuProcess, GpuTrouble

# What stands in a cell that has no value, beside the texts of NVML's codes. CSV puts it in brackets, and only that.
_NO_VALUE = {
    "n/a",
    "not supported",
    "not available",
    "not found",
    "function not found",
    "requested functionality has been deprecated",
    "unknown",
    "error",
    "",
}
_KEPT = ("index", "name", "uuid", "pci.bus_id", "compute_cap", "driver_version", "count")  # known without asking the GPU
# What a GPU that works always answers; sensors and counters are another matter.
_VITAL = ("name", "uuid", "pci.bus_id", "memory.total", "memory.used", "memory.free", "compute_mode")

# Bits of nvmlClocksEventReasons (nvml.h), by nvidia-smi's names for them.
# https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html
CLOCK_REASONS = {
    "gpu_idle": 0x1,
    "idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
    "display_clocks_setting": 0x100,
    "display_clock_setting": 0x100,
}

_NUMBER = re.compile(r"(-?[0-9]{1,15}(?:\.[0-9]{1,9})?)\s*(?:%|x|[KMGT]?i?B|[MG]Hz|W|C|us)?(?![0-9A-Za-z.])")
_SIZE = re.compile(r"([0-9]{1,15})\s*([KMGT]?)(?:i?B)?\Z")
_UNIT = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "": 1 << 20}  # without units nvidia-smi means MiB
_BUS = re.compile(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7])")
_CAPABILITY = re.compile(r"[0-9]{1,2}\.[0-9]$")
DRIVER = re.compile(r"[0-9]{3,4}\.[0-9]{2,3}(?:\.[0-9]{2,3})?(?![0-9.])")
CUDA = re.compile(r"[0-9]{1,2}\.[0-9]{1,2}(?![0-9.])")


def known(value: str) -> str | None:
    """The value without brackets, or None where it stands for no value."""
    bare = value.strip()
    bracketed = bare.startswith("[") and bare.endswith("]")
    return None if bracketed or bare.lower() in _NO_VALUE or code_of(bare) is not None else bare


def number(value: str) -> float | None:
    match = _NUMBER.match(value.strip())
    return float(match.group(1)) if match else None


def integer(value: str) -> int | None:
    got = number(value)
    return None if got is None else int(got)


def size(value: str) -> int | None:
    """Bytes of "143771 MiB", "143771MiB" or (nounits) "143771"."""
    match = _SIZE.match(value.strip())
    return int(match.group(1)) * _UNIT[match.group(2)] if match else None


def flag(value: str) -> bool | None:
    match value.strip().strip("[]").rstrip("*").lower():
        case "enabled" | "on" | "yes" | "active" | "1":
            return True
        case "disabled" | "off" | "no" | "not active" | "0":
            return False
        case _:
            return None


def mask(value: str) -> int | None:
    match = re.match(r"0x([0-9A-Fa-f]{1,16})$", value.strip())
    return int(match.group(1), 16) if match else None


def bus_id(value: str) -> str | None:
    """nvidia-smi's spelling with an eight-digit domain: "0000:0b:00.0" is "00000000:0B:00.0"."""
    match = _BUS.search(value)
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain, 16):08X}:{bus.upper()}:{device.upper()}.{function}"


def driver_version(value: str) -> str | None:
    """The number at the start of "610.57.04 [Deprecated; …]"; None of `Deprecated, see "KMD version" instead`."""
    match = DRIVER.match(value.strip())
    return match.group() if match else None


def cuda_version(value: str) -> str | None:
    match = CUDA.match(value.strip())
    return match.group() if match else None


def _capability(value: str) -> str | None:
    return value.strip() if _CAPABILITY.match(value.strip()) else None


def _compute_mode(value: str) -> str | None:
    # The table abbreviates: "E. Process"; -q and CSV write "Exclusive_Process".
    return known(value.replace("E. ", "Exclusive_"))


def _word(value: str) -> str | None:
    """Fields in which N/A is itself an answer."""
    bare = value.strip().strip("[]")
    return bare if bare == "N/A" else known(bare)


_Convert = Callable[[str], Any]
_FIELDS: dict[str, tuple[str, _Convert]] = {
    "index": ("index", integer),
    "name": ("name", known),
    "uuid": ("uuid", known),
    "pci.bus_id": ("bus_id", bus_id),
    "compute_cap": ("compute_capability", _capability),
    "memory.total": ("memory_bytes", size),
    "memory.used": ("memory_used_bytes", size),
    "memory.free": ("memory_free_bytes", size),
    "mig.mode.current": ("mig", flag),
    "ecc.mode.current": ("ecc", flag),
    "ecc.errors.uncorrected.volatile.total": ("ecc_uncorrected_volatile", integer),
    "ecc.errors.uncorrected.aggregate.total": ("ecc_uncorrected_aggregate", integer),
    "remapped_rows.pending": ("remap_pending", flag),
    "remapped_rows.failure": ("remap_failed", flag),
    "retired_pages.pending": ("retired_pages_pending", flag),
    "compute_mode": ("compute_mode", _compute_mode),
    "clocks_event_reasons.active": ("throttle_reasons", mask),
    "pcie.link.gen.current": ("pcie_generation", integer),
    "pcie.link.gen.max": ("pcie_generation_max", integer),
    "pcie.link.width.current": ("pcie_width", integer),
    "pcie.link.width.max": ("pcie_width_max", integer),
    "fabric.state": ("fabric_state", _word),
    "fabric.status": ("fabric_status", _word),
    "temperature.gpu": ("temperature_celsius", number),
    "power.draw": ("power_watts", number),
    "power.limit": ("power_limit_watts", number),
    "clocks.sm": ("sm_clock_mhz", number),
    "clocks.max.sm": ("sm_clock_max_mhz", number),
    "utilization.gpu": ("utilization_percent", number),
    "driver_model.current": ("driver_model", known),
    "gpu_recovery_action": ("recovery_action", known),
}
_ALIASES = {
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "gpu_bus_id": "pci.bus_id",
    "clocks_throttle_reasons.active": "clocks_event_reasons.active",  # its name before R535; still accepted
    "clocks.current.sm": "clocks.sm",
    "pcie.link.gen.gpucurrent": "pcie.link.gen.current",
    "power.draw.average": "power.draw",
    "power.draw.instant": "power.draw",
    "enforced.power.limit": "power.limit",
    "kmd_version": "driver_version",  # from R595 on, beside driver_version
}


def canonical(field: str) -> str:
    """A --query-gpu field without its unit, in the newest spelling: "memory.total [MiB]" is "memory.total"."""
    bare = field.partition("[")[0].strip().lower()
    return _ALIASES.get(bare, bare)


def gpu(
    values: Iterable[tuple[str, str]], position: int, *, mig_devices: tuple[str, ...] = (), processes: tuple[GpuProcess, ...] = ()
) -> Gpu:
    """A device from (field, text) pairs; the first pair of a field that has a value counts."""
    values = list(values)
    found: dict[str, Any] = {"error": _error(values)}
    reasons: int | None = None
    for field, text in values:
        name = canonical(field)
        if name in _FIELDS:
            attribute, convert = _FIELDS[name]
            if found.get(attribute) is None:
                found[attribute] = convert(text)
        elif name.startswith(("clocks_event_reasons.", "clocks_throttle_reasons.")):
            bit, active = CLOCK_REASONS.get(name.partition(".")[2]), flag(text)
            if bit is not None and active is not None:
                reasons = (reasons or 0) | (bit if active else 0)
    if found.get("throttle_reasons") is None:
        found["throttle_reasons"] = reasons
    if found.get("index") is None:
        found["index"] = position
    if found.get("compute_capability") is not None:
        found["compute_capability_source"] = "nvidia-smi"
    return Gpu(**found, mig_devices=mig_devices, processes=processes)


def _error(values: Iterable[tuple[str, str]]) -> str | None:
    """What ails the whole GPU. One field says that it is lost or wants a reset. That it cannot be read, only all fields together say:
    a sensor that answers [Unknown Error] now and then is no fault."""
    said = [(canonical(field), text.strip().strip("[]"), code_of(text)) for field, text in values]
    grave = next((text for _, text, code in said if code in (LOST, RESET)), None)
    unknown = [(name, text) for name, text, code in said if code == UNKNOWN]
    answered = any(code is None and known(text) is not None for name, text, code in said if name not in _KEPT)
    silent = len(unknown) > 1 and not answered and any(name in _VITAL for name, _ in unknown)
    return grave or (unknown[0][1] if silent else None)


def troubles(gpus: Iterable[Gpu]) -> tuple[GpuTrouble, ...]:
    """The errors of GPUs that nvidia-smi lists."""
    return tuple(GpuTrouble("nvidia-smi", gpu.error, code_of(gpu.error), None, gpu.index, gpu.bus_id) for gpu in gpus if gpu.error)


def lost(gpus: Iterable[Gpu]) -> tuple[str, ...]:
    """Those of them that are lost, in words."""
    return tuple(f"GPU {one.bus_id or one.index}: {one.text}" for one in troubles(gpus) if one.code == LOST)


def complete(first: Gpu, second: Gpu) -> Gpu:
    """`first`, with what it does not know taken from `second`."""
    changes: dict[str, Any] = {}
    for field in fields(Gpu):
        mine, other = getattr(first, field.name), getattr(second, field.name)
        if mine in (None, ()) and other not in (None, ()):
            changes[field.name] = other
    if first.name and second.name and first.name.endswith("...") and not second.name.endswith("..."):
        changes["name"] = second.name  # the table cuts long names
    if first.compute_capability and "compute_capability_source" in changes:
        del changes["compute_capability_source"]
    return replace(first, **changes) if changes else first


def merge(first: tuple[Gpu, ...], second: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The devices of two sources as one list, matched by UUID, else by bus id, else by index."""
    merged = list(first)
    free = set(range(len(first)))
    for other in second:
        at = _match(merged, free, other)
        if at is None:
            merged.append(other)
        else:
            free.discard(at)
            merged[at] = complete(merged[at], other)
    return tuple(merged)


def _match(devices: list[Gpu], free: set[int], other: Gpu) -> int | None:
    for attribute in ("uuid", "bus_id", "index"):
        wanted = getattr(other, attribute)
        if wanted is None:
            continue
        for at in sorted(free):
            mine = getattr(devices[at], attribute)
            if mine == wanted and not _differs(devices[at], other, attribute):
                return at
    return None


def _differs(one: Gpu, other: Gpu, matched: str) -> bool:
    """Same index, but another card: UUIDs or bus ids are known and differ."""
    if matched != "index":
        return False
    return any(
        getattr(one, name) is not None and getattr(other, name) is not None and getattr(one, name) != getattr(other, name)
        for name in ("uuid", "bus_id")
    )
