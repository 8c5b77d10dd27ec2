"""A machine that is not here, from what the user says of it: `--for h100 --driver 570.124 --python 3.12`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
from envcheck.plan.installers import installers
from envcheck.plan.profile import ASSERTED

if TYPE_CHECKING:
    from envcheck.tables.compat import Product, Tables


@record
class Machine:
    """What the user says of a machine; None is what he leaves open."""

    devices: tuple[str, ...] = ()  # "h100", "8xh100", "rtx 4090", "mi300x", "m3", "cpu"
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
        ("gpu", ", ".join(str(device["product"]) for device in found)),
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
    if one.driver is None:
        return Missing(Why.SKIPPED if nvidia else Why.ABSENT, "not said" if nvidia else "no NVIDIA GPU")
    if not _DRIVER.match(one.driver):
        raise UsageError(f"--driver {one.driver}: a driver version such as 570.124.06")
    return DriverFacts(version=one.driver, source="--driver", module_loaded=True)


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


_MOST = 1024  # GPUs of one machine


def _devices(text: str, tables: Tables) -> list[dict[str, Any]]:
    """The devices that one word of `--for` names: "8xh100" is eight."""
    result: list[dict[str, Any]] = []
    for part in text.split(","):
        name = part.strip().lower()
        count = re.match(r"(\d+)\s*[x*]\s*(?=[a-z0-9])", name)
        if count and not _row(name):
            if len(count[1]) > 4 or int(count[1]) > _MOST:
                raise UsageError(f"--for {text}: at most {_MOST} GPUs")
            name = name[count.end() :]
        row = _row(name)
        if row is None:
            product = product_named(name, tables)
            row = {"cuda": product.compute_capability, "product": product.name}
        device = dict(row)
        device.setdefault("product", device.get("xpu") or ("Apple " + name.upper() if device.get("apple") else name))
        if device.get("cpu"):
            device.pop("product")
            device["product"] = "none"
        result += [device] * (int(count[1]) if count and name != part.strip().lower() else 1)
    return result


def names_device(text: str, tables: Tables) -> bool:
    """Whether a word with a number in it is one that `--for` takes: "h100", "8xh100"."""
    if not any(letter.isdecimal() for letter in text):
        return False
    try:
        return bool(_devices(text, tables))
    except UsageError as error:
        return "name one of them" in str(error)


def _row(name: str) -> Mapping[str, Any] | None:
    key = re.sub(r"^(nvidia|amd|intel|apple|radeon|instinct|arc|jetson|geforce)\s+", "", name)
    key = re.sub(r"^(instinct|radeon|arc|rx)\s+", "", key)
    return installers().machine(key) or installers().machine(key.replace(" ", "")) or installers().machine(key.replace(" ", "-"))


# Words of product names that tell nothing apart.
_FILLERS = frozenset(("nvidia", "geforce", "rtx", "gtx", "tesla", "quadro", "gpu", "generation", "edition", "graphics", "titan"))


def product_named(text: str, tables: Tables) -> Product:
    """The NVIDIA product of a short name: "4090", "rtx a6000", "l40s", "3080ti", "4090 laptop"."""
    exact = tables.product(text)
    if exact:
        return exact
    asked = _words(text)
    names = [name for row in tables.rows("gpu-product", "product") for name in row["names"]]
    scored: list[tuple[int, int, str]] = []
    for name in names:
        words = _words(name)
        if asked and all(word in words for word in asked):
            extra = [word for word in words if word not in asked and word not in _FILLERS]
            scored.append((len(extra), len(words), name))
    if not scored:
        import difflib

        short = sorted({word for name in names for word in _words(name) if any(letter.isdecimal() for letter in word)})
        near = difflib.get_close_matches(text.lower(), short, 3, 0.6)
        raise UsageError(f"--for {text}: no such GPU in the tables" + (f"; did you mean {', '.join(near)}?" if near else ""))
    scored.sort()
    fewest = scored[0][0]
    best = [product for score, _, name in scored if score == fewest and (product := tables.product(name))]
    # Generations share numbers: Quadro RTX 6000 (7.5) and RTX 6000 Ada (8.9). One word more or less does not tell which is meant.
    close = [product for score, _, name in scored if score <= fewest + 1 and (product := tables.product(name))]
    kinds = {product.compute_capability: product.name for product in reversed(close)}
    if len(kinds) > 1:
        raise UsageError(f"--for {text}: {', or '.join(kinds.values())}: name one of them")
    return best[0]


def _words(text: str) -> list[str]:
    """["rtx", "4070", "ti"] of "RTX 4070Ti"."""
    spaced = re.sub(r"(?<=\d)(ti|super|laptop)\b", r" \1", text.lower())
    return [word for word in re.split(r"[\s\-()/]+", spaced) if word]
