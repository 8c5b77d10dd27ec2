"""Version numbers and build names as the rules compare them; everything answers None for what it cannot read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.version import Version

UNKNOWN = "of unknown version"  # reads behind a package's name


def parsed(text: str | None) -> Version | None:
    """A PEP 440 version; NVIDIA's and conda's spellings that are none give None."""
    from packaging.version import InvalidVersion, Version

    try:
        return Version(text) if text else None
    except InvalidVersion:
        return None


def release(text: str | None) -> str | None:
    """ "2.14.1+cu130" → "2.14.1"; development versions keep their suffix."""
    return text.partition("+")[0] if text else None


def local(text: str | None) -> str | None:
    """ "2.14.1+cu130" → "cu130"; None where the version carries no local part."""
    return (text or "").partition("+")[2] or None


def minor(text: str | None) -> tuple[int, int] | None:
    """The first two numbers, "2.14.1+cu130" → (2, 14)."""
    found = re.match(r"v?(\d{1,6})\.(\d{1,6})", text or "")
    return (int(found[1]), int(found[2])) if found else None


def major(text: str | None) -> int | None:
    """The first number, "13.2" → 13."""
    found = re.match(r"v?(\d{1,6})(?:\.|$)", text or "")
    return int(found[1]) if found else None


def older(text: str | None, than: str) -> bool | None:
    """Whether a version is older than another one; None if it cannot be read."""
    mine, other = parsed(text), parsed(than)
    return None if mine is None or other is None else mine < other


def meets(text: str | None, specifier: str) -> bool | None:
    """Whether a version lies in a PEP 440 specifier set; local parts and pre-releases do not count against it."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    version = parsed(release(text))
    try:
        wanted = SpecifierSet(specifier)
    except InvalidSpecifier:
        return None
    return None if version is None else wanted.contains(version, prereleases=True)


def cuda_of_build(version: str | None) -> str | None:
    """The CUDA of a build name in a local version: "2.14.1+cu130" → "13.0", "0.20.1+cu124" → "12.4"."""
    found = re.search(r"cu(\d{2,3})\b", local(version) or "")
    if not found:
        return None
    digits = found[1]
    return f"{digits[:-1]}.{digits[-1]}"
