"""A machine that is not here, from what the user says of it: `--for h100 --driver 570.124 --python 3.12`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from envcheck.errors import UsageError
from envcheck.facts.record import record
from envcheck.facts.snapshot import (
    DriverFacts,
    Gpu,
    GpusFacts,
    Missing,
    MpsFacts,
    PackagesFacts,
    PythonFacts,
    RocmFacts,
    Snapshot,
    SystemFacts,
    VisibilityFacts,
    Why,
    XpuFacts,
)
from envcheck.planner.profile import ASSERTED
from envcheck.tables.gpu_names import MOST, GpuName, gpu_named

if TYPE_CHECKING:
    from envcheck.tables.compat import Tables


@record
class Machine:
    """What the user says of a machine; None is what he leaves open."""

    devices: tuple[str, ...] = ()  # "h100", "8xh100", "rtx4090", "mi300x", "m3", "cpu"
    driver: str | None = None
    python: str | None = None  # "3.12", "3.14t"
    os: str | None = None
    machine: str | None = None
    glibc: str | None = None
    macos: str | None = None


_SYSTEMS = {
    "linux": "linux",
    "windows": "windows",
    "win": "windows",
    "macos": "darwin",
    "darwin": "darwin",
    "mac": "darwin",
    "wsl": "linux",
}
_PYTHON = re.compile(r"(3\.\d+)(\.\d+)?(t?)\Z")
_DRIVER = re.compile(r"\d{3}(\.\d+){0,2}\Z")


def assumed(one: Machine, tables: Tables) -> tuple[Snapshot, tuple[str, ...]]:
    """The snapshot of such a machine, without torch, and what was assumed, in lines."""
    found = [device for text in one.devices for device in _devices(text, tables)]
    hints: dict[str, Any] = {}
    for device in found:
        hints |= {key: device[key] for key in ("os", "machine", "jetson") if key in device}
        if device.get("apple"):
            hints |= {"os": "darwin", "machine": "arm64"}
    system = _system(one, hints)
    snapshot = Snapshot(
        system=system,
        driver=_driver(one, found),
        gpus=_gpus(found, tables),
        visibility=VisibilityFacts(),
        rocm=_rocm(found),
        xpu=_xpu(found),
        mps=_mps(one, system, any(device.get("cpu") for device in found)),
        python=_python(one, system),
        packages=PackagesFacts(),
        torch=Missing(Why.ABSENT, "a machine that is not here"),
        container=Missing(Why.ABSENT, "a machine that is not here"),
        launcher=Missing(Why.ABSENT, "a machine that is not here"),
        cuda_driver=Missing(Why.SKIPPED, "a machine that is not here"),
    )
    said = [
        ("gpu", _counted(str(device["product"]) for device in found) or ("none" if isinstance(snapshot.mps, Missing) else "")),
        ("driver", one.driver),
        ("os", system.os),
        ("machine", system.machine),
    ]
    said += [("python", one.python), ("glibc", system.glibc), ("macos", system.macos_version)]
    return snapshot, tuple(f"{name} = {value}" for name, value in said if value)


def _system(one: Machine, hints: Mapping[str, Any]) -> SystemFacts:
    name = (one.os or hints.get("os") or "linux").lower()
    if name not in _SYSTEMS:
        raise UsageError(f"--os {one.os}: one of linux, windows, macos, wsl")
    system = _SYSTEMS[name]
    machine = (one.machine or hints.get("machine") or ("arm64" if system == "darwin" else "x86_64")).lower()
    machine = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}.get(machine, machine)
    if system in ("darwin", "windows") and machine == "aarch64":
        machine = "arm64"
    glibc = one.glibc if system == "linux" else None
    return SystemFacts(
        os=system,
        machine=machine,
        glibc=glibc,
        libc="glibc" if system == "linux" else None,
        macos_version=one.macos if system == "darwin" else None,
        wsl=2 if name == "wsl" else None,
        jetson=hints.get("jetson"),
        pci_gpus=(),
    )


def _mps(one: Machine, system: SystemFacts, for_cpu: bool) -> MpsFacts | Missing:
    if system.os != "darwin" or for_cpu:
        return Missing(Why.ABSENT, "planned for its CPU" if for_cpu else "not macOS")
    return MpsFacts(macos=one.macos, apple_silicon=True)


def _python(one: Machine, system: SystemFacts) -> PythonFacts:
    if one.python is None:
        return PythonFacts()
    match = _PYTHON.match(one.python)
    if match is None:
        raise UsageError(f"--python {one.python}: a version such as 3.12 or 3.14t, for a machine that is not here")
    return PythonFacts(version=match[1] + (match[2] or ".0"), implementation="cpython", free_threaded=bool(match[3]))


def _driver(one: Machine, found: Sequence[Mapping[str, Any]]) -> DriverFacts | Missing:
    nvidia = any("cuda" in device for device in found)
    if one.driver is not None and not found:
        raise UsageError(f"--driver {one.driver}: of which GPU? Name it with --for, as in --for h100")
    if one.driver is None:
        return Missing(Why.SKIPPED if nvidia else Why.ABSENT, "not said" if nvidia else "no NVIDIA GPU")
    if not _DRIVER.match(one.driver):
        raise UsageError(f"--driver {one.driver}: a driver version such as 570.124.06")
    return DriverFacts(version=one.driver, source="--driver", module_loaded=True)


def _counted(names: Iterable[str]) -> str:
    """ "8 × NVIDIA H100 80GB HBM3, Tesla T4"."""
    return ", ".join(f"{count} × {name}" if count > 1 else name for name, count in Counter(names).items())


def _gpus(found: Sequence[Mapping[str, Any]], tables: Tables) -> GpusFacts | Missing:
    cards = [device for device in found if "cuda" in device]
    if not cards:
        return Missing(Why.ABSENT, "no NVIDIA GPU")
    devices = tuple(
        Gpu(at, str(card["product"]), compute_capability=str(card["cuda"]), compute_capability_source="table")
        for at, card in enumerate(cards)
    )
    return GpusFacts(devices, ASSERTED)


def _rocm(found: Sequence[Mapping[str, Any]]) -> RocmFacts | Missing:
    cards = [device for device in found if "gfx" in device]
    if not cards:
        return Missing(Why.ABSENT, "no AMD GPU")
    return RocmFacts(
        gfx=tuple(str(card["gfx"]) for card in cards), names=tuple(str(card["product"]) for card in cards), kfd=True, kfd_access=True
    )


def _xpu(found: Sequence[Mapping[str, Any]]) -> XpuFacts | Missing:
    names = tuple(str(device["xpu"]) for device in found if "xpu" in device)
    return XpuFacts(names=names, level_zero="assumed", render_access=True) if names else Missing(Why.ABSENT, "no Intel GPU")


def _devices(text: str, tables: Tables) -> list[dict[str, Any]]:
    """The devices that one word of `--for` names: "8xh100" is eight."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return [device for part in parts for device in _device(part, tables)]


def _device(text: str, tables: Tables) -> list[dict[str, Any]]:
    """One device, as often as it was named; raises UsageError with what was probably meant."""
    meant = gpu_named(text, tables)
    if meant.several:
        raise UsageError(f"--for {text}: {', or '.join(meant.several)}: name one of them")
    if meant.gpu is None:
        near = f"; did you mean {', or '.join(meant.near)}?" if meant.near else ""
        raise UsageError(f"--for {text}: no such GPU in the tables{near}")
    if meant.gpu.kind == "old":
        raise UsageError(
            f"--for {text}: {meant.gpu.product} has compute capability {meant.gpu.target}, older than every build of torch in the tables;"
            " --for cpu plans for its machine without it"
        )
    if not 0 < meant.count <= MOST:
        raise UsageError(f"--for {text}: 1 to {MOST} GPUs")
    return [_facts_of(meant.gpu)] * meant.count


def _facts_of(gpu: GpuName) -> dict[str, Any]:
    """What a board says of its machine."""
    device: dict[str, Any] = {"product": gpu.product, gpu.kind: gpu.target or True}
    if gpu.kind == "xpu":
        device["xpu"] = gpu.product
    device |= {name: value for name, value in (("machine", gpu.machine), ("jetson", gpu.jetson)) if value}
    return device | ({"os": "linux"} if gpu.jetson else {})


def names_device(text: str, tables: Tables) -> bool:
    """Whether a word with a number in it is one that `--for` takes: "h100", "8xh100"."""
    if not any(letter.isdecimal() for letter in text):
        return False
    meant = gpu_named(text, tables)
    return bool(meant.several or (meant.gpu and meant.gpu.kind != "old"))  # k2 is a package too
