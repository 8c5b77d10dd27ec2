"""What the names of --expect stand for in a snapshot: a value, or `Missing`, which tells what is not here from what was not read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from envcheck.checks.answer import nvidia_on_bus, visible, wants_cuda
from envcheck.checks.hardware import nvidia
from envcheck.facts.paths import absent, unread, walk
from envcheck.facts.record import record
from envcheck.facts.snapshot import (
    DevicesFacts,
    DriverFacts,
    GpusFacts,
    LimitsFacts,
    LiveFacts,
    LiveStatus,
    Missing,
    RocmFacts,
    Snapshot,
    SystemFacts,
    TorchFacts,
    VisibilityFacts,
    Why,
    XpuFacts,
    read,
)


@record
class Row:
    """What may be expected of one GPU."""

    name: str | None
    compute_capability: str | None
    memory_bytes: int | None


def _rows(snapshot: Snapshot) -> tuple[Row, ...] | Missing:
    """The GPUs of this machine: NVIDIA's as its driver lists them, else those that torch sees."""
    gpus, devices = snapshot.gpus, snapshot.devices
    if isinstance(gpus, GpusFacts):
        return tuple(Row(gpu.name, gpu.compute_capability, gpu.memory_bytes) for gpu in nvidia(gpus))
    if gpus.why is not Why.ABSENT:
        return gpus
    if isinstance(devices, DevicesFacts):
        return tuple(Row(one.name, one.compute_capability, one.memory_bytes) for one in devices.devices)
    return devices if devices.why is not Why.ABSENT and _of_others(snapshot) else ()


def _of_others(snapshot: Snapshot) -> bool:
    """GPUs of another maker than NVIDIA, which only torch lists with memory and number."""
    amd = isinstance(snapshot.rocm, RocmFacts) and bool(snapshot.rocm.gfx or snapshot.rocm.names)
    intel = isinstance(snapshot.xpu, XpuFacts) and bool(snapshot.xpu.names)
    return amd or intel or not isinstance(snapshot.mps, Missing)


def _gpus(snapshot: Snapshot) -> Any:
    rows = _rows(snapshot)
    return rows if isinstance(rows, Missing) else len(rows)


def _of_each(snapshot: Snapshot, value: Callable[[Row], Any]) -> Any:
    rows = _rows(snapshot)
    if isinstance(rows, Missing):
        return rows
    nothing = "no GPU answers here" if nvidia_on_bus(read(snapshot.system, SystemFacts)) else "there is no GPU here"
    return tuple(value(row) for row in rows) or absent(nothing)


def _visible_gpus(snapshot: Snapshot) -> Any:
    """torch's count; where torch was not asked, 0 if nothing that it could see is here."""
    devices, torch = snapshot.devices, snapshot.torch
    if isinstance(devices, DevicesFacts):
        return unread(f"torch did not count them: {devices.error or 'no reason given'}") if devices.count is None else devices.count
    if devices.why is Why.ABSENT:
        return 0
    on_mac = not isinstance(snapshot.mps, Missing)
    if isinstance(torch, TorchFacts) and torch.cpu_build and not on_mac:
        return 0
    if isinstance(snapshot.gpus, Missing):
        return 0 if snapshot.gpus.why is Why.ABSENT and not _of_others(snapshot) else devices
    hidden = isinstance(snapshot.visibility, VisibilityFacts) and not visible(snapshot.gpus, snapshot.visibility)
    return 0 if hidden and wants_cuda(read(torch, TorchFacts)) else devices


def _loaded_driver(snapshot: Snapshot) -> DriverFacts | Missing:
    driver = snapshot.driver
    if isinstance(driver, Missing):
        return absent("there is no NVIDIA driver here") if driver.why is Why.ABSENT else driver
    return absent("the NVIDIA driver is not loaded") if driver.version is None and driver.module_loaded is False else driver


def _driver(snapshot: Snapshot) -> Any:
    driver = _loaded_driver(snapshot)
    return driver if isinstance(driver, Missing) else driver.version or unread("the version of the NVIDIA driver could not be read")


def _driver_cuda(snapshot: Snapshot) -> Any:
    driver, library = _loaded_driver(snapshot), snapshot.cuda_driver
    if isinstance(driver, Missing):
        return driver
    if driver.cuda:
        return driver.cuda
    if isinstance(library, Missing):
        return absent("there is no libcuda.so.1 here") if library.why is Why.ABSENT else library
    return library.driver_version or unread("neither the NVIDIA driver nor libcuda says which CUDA they offer")


def _torch(snapshot: Snapshot) -> Any:
    torch = snapshot.torch
    if isinstance(torch, Missing):
        return absent("torch is not installed") if torch.why is Why.ABSENT else torch
    return torch.version or unread("nothing says which version of torch this is")


def _of_cuda_build(snapshot: Snapshot, what: str, read: Callable[[TorchFacts], str | None], also_rocm: bool = False) -> Any:
    """A part that builds for CUDA have and others lack; what only an imported torch states is unread without the import."""
    torch = snapshot.torch
    if isinstance(torch, Missing):
        return _torch(snapshot)
    found = read(torch)
    if found:
        return found
    name = f"torch {torch.version or 'of this environment'}"
    if wants_cuda(torch) is False and not (also_rocm and torch.hip is not None):
        return absent(f"{name} is built without {what}")
    if isinstance(snapshot.backends, Missing):
        return snapshot.backends
    if what == "NCCL" and snapshot.backends.nccl is False:
        return absent(f"{name} is built without {what}")
    return unread(f"{name} does not say its version of {what}")


def _python(snapshot: Snapshot) -> Any:
    if isinstance(snapshot.python, Missing):
        return snapshot.python
    return snapshot.python.version or unread("the version of the interpreter was not read")


def _glibc(snapshot: Snapshot) -> Any:
    system = snapshot.system
    if isinstance(system, Missing):
        return system
    if system.glibc:
        return system.glibc
    other = system.libc not in (None, "glibc") or system.os not in (None, "linux")
    return absent(f"this is {system.libc or system.os}, without glibc") if other else unread("the version of glibc was not read")


def _ranks(snapshot: Snapshot) -> Any:
    """How many ranks the live check trained with."""
    live = snapshot.live
    if not isinstance(live, LiveFacts):
        return 0 if live.why is Why.ABSENT else Missing(live.why, f"the live check did not run: {live.reason}")
    match live.status:
        case LiveStatus.PASS:
            return live.world_size if live.world_size is not None else unread("the live check does not say its world size")
        case LiveStatus.FAIL | LiveStatus.HANG:
            return 0
    return unread(f"the live check did not decide: {live.reason or 'no reason given'}")


def _shm_gib(snapshot: Snapshot) -> Any:
    limits = snapshot.limits
    if isinstance(limits, Missing):
        return limits
    if limits.shm_bytes is not None:
        return limits.shm_bytes / 2**30
    nowhere = limits.shm_requested_bytes == 0 and limits.shm_error is not None
    elsewhere = isinstance(snapshot.system, SystemFacts) and snapshot.system.os not in (None, "linux")
    return absent("there is no /dev/shm here") if nowhere or elsewhere else unread("the size of /dev/shm was not read")


def _memory_gib(snapshot: Snapshot) -> Any:
    if isinstance(snapshot.system, Missing):
        return snapshot.system
    size = snapshot.system.memory_limit_bytes or snapshot.system.memory_bytes
    return size / 2**30 if size else unread("the size of the memory was not read")


def _cpus(snapshot: Snapshot) -> Any:
    system = snapshot.system
    if isinstance(system, Missing):
        return system
    return system.cpu_limit or system.cpu_affinity or system.cpu_count or unread("the number of CPUs was not read")


def _open_files(snapshot: Snapshot) -> Any:
    limits = snapshot.limits
    if not isinstance(limits, LimitsFacts):
        return limits
    if limits.open_files_soft is not None:
        return limits.open_files_soft
    # The limits are read together: where the others were, this one is unlimited.
    return float("inf") if limits.memlock_read else unread("the limit of open files was not read")


NUMBERS: Mapping[str, Callable[[Snapshot], Any]] = {
    "gpus": _gpus,
    "visible_gpus": _visible_gpus,
    "ranks": _ranks,
    "gpu_memory_gib": lambda snapshot: _of_each(snapshot, lambda row: row.memory_bytes / 2**30 if row.memory_bytes else None),
    "shm_gib": _shm_gib,
    "memory_gib": _memory_gib,
    "cpus": _cpus,
    "open_files": _open_files,
}
VERSIONS: Mapping[str, Callable[[Snapshot], Any]] = {
    "driver": _driver,
    "torch": _torch,
    "cuda": lambda snapshot: _of_cuda_build(snapshot, "CUDA", lambda torch: torch.cuda),
    "nccl": lambda snapshot: _of_cuda_build(snapshot, "NCCL", lambda torch: torch.nccl_loaded or torch.nccl, also_rocm=True),
    "cudnn": lambda snapshot: _of_cuda_build(snapshot, "cuDNN", lambda torch: torch.cudnn_loaded or torch.cudnn),
    "python": _python,
    "driver_cuda": _driver_cuda,
    "glibc": _glibc,
    "compute_capability": lambda snapshot: _of_each(snapshot, lambda row: row.compute_capability),
}
TEXTS: Mapping[str, Callable[[Snapshot], Any]] = {"gpu": lambda snapshot: _of_each(snapshot, lambda row: row.name)}
NAMES: Mapping[str, Callable[[Snapshot], Any]] = {**NUMBERS, **VERSIONS, **TEXTS}


def find(snapshot: Snapshot, name: str) -> Any:
    """A number, a text, a tuple that must hold for every member, or Missing: absent is a fact, everything else is not known."""
    if "." not in name:
        return NAMES[name](snapshot)
    [(_, found)] = walk(getattr(snapshot, name.partition(".")[0]), name)
    return found
