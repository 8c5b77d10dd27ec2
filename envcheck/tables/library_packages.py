"""Which distribution brings a CUDA library, and the version that torch pins; which package of the system another one."""

from __future__ import annotations

from collections.abc import Mapping

from envcheck.facts.record import record
from envcheck.tables.compat import Tables


@record
class Provider:
    """A distribution that holds a library."""

    distribution: str
    soname_cuda: int | None = None  # the CUDA major that the file's own number states, where it states one


# Numbers that only one CUDA major has, of libraries that count for themselves (files of NVIDIA's wheels of CUDA 11, 12 and 13).
_OF_ONE_CUDA: Mapping[tuple[str, int | None], int] = {
    ("libcusparse", 11): 11, ("libcufft", 10): 11, ("libcufft", 11): 12, ("libcufft", 12): 13, ("libcusolver", 12): 13,
}  # fmt: skip


def provider(tables: Tables, stem: str, cuda: int | None, soname: int | None) -> Provider | None:
    """The distribution with this library ("libcudnn_ops") for a CUDA major; None for libraries that are not NVIDIA's."""
    known = "libcudnn" if stem.startswith("libcudnn") else stem
    row = next((row for row in tables.rows("torch-pins", "library") if row["stem"] == known), None)
    if row is None:
        return None
    stated = soname if row.get("states_cuda") and soname is not None and soname >= 9 else _OF_ONE_CUDA.get((stem, soname))
    which = cuda or stated or 13
    bare = which >= 13 and not row.get("suffixed")
    return Provider(row["distribution"] if bare else f"{row['distribution']}-cu{which}", stated)


def pinned(found: Provider, pins: Mapping[str, str]) -> str:
    """The requirement as torch states it: "nvidia-cudnn-cu13==9.26.0.51"; the bare name where torch has no pin."""
    return found.distribution + pins.get(found.distribution, "")


def system_package(tables: Tables, stem: str) -> str | None:
    """The package of Debian and Ubuntu with this library of the operating system; that of Python is named as its library."""
    if stem.startswith("libpython3."):
        return stem
    return next((str(row["apt"]) for row in tables.rows("system-library", "library") if row["stem"] == stem), None)
