"""Which GPU runs which compiled code: cubins and PTX; and the names of platforms."""

from __future__ import annotations

import re
from collections.abc import Sequence

from envcheck.tables.versions import minor

# Tegra chips (Jetson, DRIVE, one console): their cubins and those of the boards of the same major do not mix by rule.
# torch/cuda/__init__.py, DEVICE_REQUIREMENT (2.15.0): 5.3, 6.2, 7.2 and 8.7 are served by their own cubins only,
# 10.1 and 11.0 (the same chip before and after CUDA 13 renamed it) by each other's.
TEGRA = frozenset(((5, 3), (6, 2), (7, 2), (8, 7), (8, 8), (10, 1), (11, 0)))
_THOR = frozenset(((10, 1), (11, 0)))

_CODE = re.compile(r"(sm|compute)_(\d+)([af]?)\Z")  # "sm_90", "sm_90a", "sm_100f", "compute_120"


def runs_on(archs: Sequence[str], compute_capability: str, cuda: str | None = None) -> bool | None:
    """Does code compiled for `archs` (torch.cuda.get_arch_list()) run on a device? None: not known.

    A cubin sm_XY serves the same major with an equal or higher minor, sm_XYa only X.Y, sm_XYf its family;
    PTX compute_XY serves everything from X.Y on, by JIT (the driver must know that toolkit's PTX: tables.driver_cuda).
    A Tegra device whose own cubin is not in the list is None where a cubin of its major is there: torch's table says no,
    but such wheels were seen to run. `cuda` (torch.version.cuda) from 13.2 on makes that a yes for 8.0/8.6 code on 8.7 and
    7.0 code on 7.2: torch/cuda/__init__.py, DEVICE_REQUIREMENT_POST_JETSON_SBSA_UNIFICATION.
    """
    device = minor(compute_capability)
    codes = [(match[1], arch_number(arch), match[3]) for arch in archs if (match := _CODE.match(arch))]
    if device is None or not codes:
        return None
    answers = {_serves(kind, code, suffix, device, cuda) for kind, code, suffix in codes}
    return True if True in answers else None if None in answers else False


def _serves(kind: str, code: tuple[int, int], suffix: str, device: tuple[int, int], cuda: str | None) -> bool | None:
    if suffix == "a":  # architecture-specific, as cubin and as PTX
        return code == device
    if kind == "compute" and not suffix:
        return code <= device
    if code == device:
        return True
    if code in _THOR and device in _THOR:
        return None  # one chip, two numbers: torch counts it as served, 12.8/12.9 code does not match by NVIDIA's naming
    if code[0] != device[0] or code[1] > device[1]:
        return False
    if device in TEGRA or code in TEGRA:
        unified = cuda is not None and (minor(cuda) or (0, 0)) >= (13, 2)
        return True if unified and (code, device) in _UNIFIED else None
    return True


_UNIFIED = frozenset((((8, 0), (8, 7)), ((8, 6), (8, 7)), ((7, 0), (7, 2))))


def arch_number(arch: str) -> tuple[int, int]:
    """(12, 0) of "sm_120" or "compute_120", (9, 0) of "sm_90a": the last digit is the minor. Names without a number sort first."""
    found = re.search(r"\d+", arch.partition("_")[2])
    return (int(found[0][:-1] or 0), int(found[0][-1])) if found else (0, 0)


def cubins(archs: Sequence[str]) -> tuple[str, ...]:
    """The machine code of an architecture list, without the PTX that a driver would have to compile."""
    return tuple(arch for arch in archs if arch.startswith("sm_"))


def platform_of(os: str | None, machine: str | None) -> str:
    """Platform of a build: platform_of("linux", "amd64") -> "linux-x86_64", platform_of("darwin", "arm64") -> "macos-arm64".

    What is not known is passed on and matches no build: "linux-ppc64le", "unknown-unknown".
    """
    system = (os or "unknown").lower()
    system = {"win32": "windows", "darwin": "macos"}.get(system, system)
    chip = (machine or "unknown").lower()
    chip = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}.get(chip, chip)
    return f"{system}-{'arm64' if chip == 'aarch64' and system in ('macos', 'windows') else chip}"


def overridden(version: str | None) -> str | None:
    """HSA_OVERRIDE_GFX_VERSION "10.3.0" makes the runtime report gfx1030."""
    found = re.fullmatch(r"\s*(\d{1,2})\.(\d{1,2})\.(\d{1,2})\s*", version or "")
    return f"gfx{int(found[1])}{int(found[2]):x}{int(found[3]):x}" if found else None


def sibling(gfx: str, archs: Sequence[str] = ()) -> str | None:
    """The override under which a card runs the code of its relative, one of `archs` where they are known.

    RDNA 2 runs as gfx1030, RDNA 3 as gfx1100. gfx1103 has as few registers as gfx1102, and code for gfx1100 may ask for more:
    https://llvm.org/docs/AMDGPUUsage.html
    """
    nearest = ("11.0.2", "11.0.0") if gfx == "gfx1103" else ("11.0.0",) if gfx in ("gfx1101", "gfx1102") else ()
    nearest = ("10.3.0",) if re.fullmatch(r"gfx103[1-6]", gfx) else nearest
    return next((one for one in nearest if not archs or overridden(one) in archs), None)
