"""Which GPU runs which compiled code: cubins, PTX, and the names of torch's build variants."""

from __future__ import annotations

import re
from collections.abc import Sequence

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
    device = _pair(compute_capability)
    codes = [(match[1], _split(match[2]), match[3]) for arch in archs if (match := _CODE.match(arch))]
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
        unified = cuda is not None and (_pair(cuda) or (0, 0)) >= (13, 2)
        return True if unified and (code, device) in _UNIFIED else None
    return True


_UNIFIED = frozenset((((8, 0), (8, 7)), ((8, 6), (8, 7)), ((7, 0), (7, 2))))


def _pair(text: str) -> tuple[int, int] | None:
    """(8, 9) of "8.9"."""
    match = re.match(r"(\d+)\.(\d+)\Z", text.strip())
    return (int(match[1]), int(match[2])) if match else None


def _split(digits: str) -> tuple[int, int]:
    """(12, 0) of "120": the last digit is the minor."""
    return int(digits[:-1] or 0), int(digits[-1])


def platform_of(os: str | None, machine: str | None) -> str:
    """Platform of a build: platform_of("linux", "amd64") -> "linux-x86_64", platform_of("darwin", "arm64") -> "macos-arm64".

    What is not known is passed on and matches no build: "linux-ppc64le", "unknown-unknown".
    """
    system = (os or "unknown").lower()
    system = {"win32": "windows", "darwin": "macos"}.get(system, system)
    chip = (machine or "unknown").lower()
    chip = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}.get(chip, chip)
    return f"{system}-{'arm64' if chip == 'aarch64' and system in ('macos', 'windows') else chip}"


def cuda_of_variant(variant: str) -> str | None:
    """CUDA version of a build variant: "cu130" -> "13.0", "cu92" -> "9.2"; "cpu", "rocm6.4" -> None."""
    match = re.match(r"cu(\d+)(\d)\Z", variant)
    return f"{match[1]}.{match[2]}" if match else None


def variant_of_cuda(cuda: str) -> str | None:
    """Build variant of a CUDA version: "13.0" or "13.0.2" -> "cu130"."""
    match = re.match(r"(\d+)\.(\d+)(\.\d+)*\Z", cuda.strip())
    return f"cu{match[1]}{match[2]}" if match else None
