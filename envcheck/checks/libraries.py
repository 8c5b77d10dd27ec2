"""Which distribution brings a CUDA library, and the version that torch pins.

Source: RECORD files of the NVIDIA wheels and Requires-Dist of the torch wheels on https://pypi.org/project/torch/
"""

from __future__ import annotations

from collections.abc import Mapping

from envcheck.facts.record import record


@record
class Provider:
    """A distribution that holds a library."""

    distribution: str
    soname_cuda: int | None = None  # the CUDA major that the file's own number states, where it states one


# Stem → (distribution without suffix, the soname's number is the CUDA major).
# libcusparse.so.12 exists in CUDA 12 and 13, libcurand.so.10 in 11 to 13: their numbers tell nothing.
_TOOLKIT = {
    "libcudart": ("nvidia-cuda-runtime", True),
    "libcublas": ("nvidia-cublas", True),
    "libcublasLt": ("nvidia-cublas", True),
    "libnvrtc": ("nvidia-cuda-nvrtc", True),
    "libnvrtc-builtins": ("nvidia-cuda-nvrtc", True),
    "libnvJitLink": ("nvidia-nvjitlink", True),
    "libcupti": ("nvidia-cuda-cupti", True),
    "libcufft": ("nvidia-cufft", False),
    "libcufftw": ("nvidia-cufft", False),
    "libcurand": ("nvidia-curand", False),
    "libcusolver": ("nvidia-cusolver", False),
    "libcusolverMg": ("nvidia-cusolver", False),
    "libcusparse": ("nvidia-cusparse", False),
    "libcufile": ("nvidia-cufile", False),
    "libnvToolsExt": ("nvidia-nvtx", False),
    "libnvtx3interop": ("nvidia-nvtx", False),
}
# These keep the suffix -cu12 or -cu13 in CUDA 13 too, and both install to the same files.
_SUFFIXED = {"libnccl": "nvidia-nccl", "libcusparseLt": "nvidia-cusparselt", "libnvshmem_host": "nvidia-nvshmem"}


def provider(stem: str, cuda: int | None, soname: int | None) -> Provider | None:
    """The distribution with this library ("libcudnn_ops") for a CUDA major; None for libraries that are not NVIDIA's."""
    if stem.startswith("libcudnn"):
        return Provider(f"nvidia-cudnn-cu{cuda or 13}")
    if stem in _SUFFIXED:
        return Provider(f"{_SUFFIXED[stem]}-cu{cuda or 13}")
    if stem not in _TOOLKIT:
        return None
    name, states = _TOOLKIT[stem]
    stated = soname if states and soname is not None and soname >= 9 else None
    which = cuda or stated or 13
    # From CUDA 13 on the toolkit wheels dropped the suffix: nvidia-cuda-runtime, not nvidia-cuda-runtime-cu13.
    return Provider(name if which >= 13 else f"{name}-cu{which}", stated)


def pinned(found: Provider, pins: Mapping[str, str]) -> str:
    """The requirement as torch states it: "nvidia-cudnn-cu13==9.26.0.51"; the bare name where torch has no pin."""
    return found.distribution + pins.get(found.distribution, "")
