"""Versions and specifiers as the planner reads them, parsed once each."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version


@lru_cache(maxsize=2048)
def version(text: str) -> Version:
    """A version; what is none sorts below every real one."""
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0.dev0")


@lru_cache(maxsize=512)
def specifier(text: str) -> SpecifierSet:
    return SpecifierSet(text)


@lru_cache(maxsize=4096)
def admits(spec: str, text: str) -> bool:
    """Whether a specifier admits a version. A local version in the specifier is compared by the caller."""
    return specifier(spec).contains(version(text), prereleases=True)


def public(text: str | None) -> str | None:
    """ "2.14.1" of "2.14.1+cu130"."""
    return text.partition("+")[0] if text else None


def variant_of(text: str | None) -> str | None:
    """ "cu130" of "2.14.1+cu130"; None without a label, or with one that is no variant ("2.9.0+gitabc")."""
    label = text.partition("+")[2] if text else ""
    known = label == "cpu" or label == "xpu" or (label.startswith("cu") and label[2:].isdecimal()) or label.startswith("rocm")
    return label if known else None


def minor(text: str) -> tuple[int, int]:
    """(2, 14) of "2.14.1"."""
    release = version(text).release
    return release[0], release[1] if len(release) > 1 else 0


def at_least(text: str | None, floor: str | None) -> bool:
    """Whether a version reaches a floor; what is not known excludes nothing."""
    return not text or not floor or version(text) >= version(floor)


def span(versions: Iterable[str]) -> str:
    """ "2.11.0 to 2.14.1" of a run of versions, oldest and newest."""
    ordered = sorted(set(versions), key=version)
    return ordered[0] if len(ordered) == 1 else f"{ordered[0]} to {ordered[-1]}"
