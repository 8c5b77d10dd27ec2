"""Versions and build tags: read and compared here and nowhere else, on top of `packaging`.

Every reader answers None for what it cannot read. `packaging` is imported late: a run that compares nothing does not pay for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, overload

from envcheck.facts.record import record

if TYPE_CHECKING:
    from packaging.markers import Marker
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

LONGEST_NUMBER = 4000  # digits; Python converts 4,300
UNKNOWN = "of unknown version"  # reads behind a package's name

# ---------------------------------------------------------------- versions


@lru_cache(maxsize=4096)
def parsed(text: str | None) -> Version | None:
    """A PEP 440 version; NVIDIA's and conda's spellings that are none give None."""
    from packaging.version import Version

    try:
        return Version(text) if text else None
    except ValueError:  # packaging's own, and Python's for numbers of more than 4,300 digits
        return None


@lru_cache(maxsize=4096)
def version(text: str) -> Version:
    """A version to sort by: invalid ones come first."""
    from packaging.version import Version

    return parsed(text) or Version("0.dev0")


@overload
def release(text: str) -> str: ...
@overload
def release(text: None) -> None: ...
def release(text: str | None) -> str | None:
    """ "2.14.1+cu130" → "2.14.1"; development versions keep their suffix."""
    return text.strip().partition("+")[0] if text else None


def local(text: str | None) -> str | None:
    """ "2.14.1+cu130" → "cu130"; None where the version carries no local part."""
    return (text or "").strip().partition("+")[2] or None


def minor(text: str | None) -> tuple[int, int] | None:
    """The first two numbers, "2.14.1+cu130" → (2, 14). "13" alone does not say which 13."""
    found = re.match(r"\s*v?(\d{1,6})\.(\d{1,6})", text or "")
    return (int(found[1]), int(found[2])) if found else None


def pair(text: str | None) -> tuple[int, int]:
    """`minor` for what is sorted: (0, 0), before all others, where it cannot be read."""
    return minor(text) or (0, 0)


def series(text: str | None) -> str | None:
    """`minor` as it is written: "13.0.2" → "13.0"."""
    pair = minor(text)
    return f"{pair[0]}.{pair[1]}" if pair else None


def major(text: str | None) -> int | None:
    """The first number, "13.2" → 13."""
    found = re.match(r"\s*v?(\d{1,6})(?:\.|$)", text or "")
    return int(found[1]) if found else None


def older(text: str | None, than: str | None) -> bool | None:
    """Whether a version is older than another one; None if one of them cannot be read."""
    mine, other = parsed(text), parsed(than)
    return None if mine is None or other is None else mine < other


def cuda_below(have: str, need: str) -> bool | None:
    """A driver that offers CUDA `have` cannot run a build for CUDA `need`; None if one of them cannot be read.

    From CUDA 11 on any driver of the same major serves (minor-version compatibility); before that the number decides.
    https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
    """
    mine, wanted = minor(have), minor(need)
    if mine is None or wanted is None:
        return None
    return mine[0] < wanted[0] if wanted[0] >= 11 else mine < wanted


def at_least(text: str | None, floor: str | None) -> bool:
    """Whether a version reaches a floor; what is not known excludes nothing."""
    return not text or not floor or version(text) >= version(floor)


@lru_cache(maxsize=4096)
def meets(text: str | None, specifier: str) -> bool | None:
    """Whether a version lies in a PEP 440 specifier set; pre-releases count, and local parts only where the specifier has one."""
    wanted, number = specifiers(specifier), parsed(text) or parsed(release(text))
    try:
        return None if wanted is None or number is None else wanted.contains(number, prereleases=True)
    except ValueError:  # its numbers are read only now
        return None


@lru_cache(maxsize=512)
def specifiers(text: str) -> SpecifierSet | None:
    """A PEP 440 specifier set. Its numbers are read when it is asked, and asking may raise ValueError: use `meets`."""
    from packaging.specifiers import SpecifierSet

    try:
        return SpecifierSet(text)
    except ValueError:
        return None


def requirement(text: str) -> Requirement:
    """A PEP 508 requirement. Raises packaging's InvalidRequirement, also for a number that Python converts no more (of 4,300 digits) and
    for "x_": packaging takes them, and would raise when it compares or shows them."""
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        one = Requirement(text)
    except RecursionError:
        raise InvalidRequirement("its marker is nested too deeply") from None
    if max(map(len, re.findall(r"\d+", text)), default=0) > LONGEST_NUMBER:
        raise InvalidRequirement(f"a number in it has more than {LONGEST_NUMBER} digits")
    if not one.name[-1].isalnum():
        raise InvalidRequirement("a name ends in a letter or a digit")
    return one


def applies(marker: Marker | str, environment: Mapping[str, str]) -> bool:
    """Whether a marker holds. Raises packaging's InvalidMarker, also for one that has no answer: `os_name ~= "x"`, `"x" in extras`."""
    from packaging.markers import InvalidMarker, Marker
    from packaging.version import InvalidVersion

    try:
        return (Marker(marker) if isinstance(marker, str) else marker).evaluate(dict(environment))
    except InvalidVersion:  # of packaging before 26, for what newer ones call no version in that range
        return False
    except (ValueError, KeyError) as error:
        raise InvalidMarker(f"its marker has no answer: {error}") from None
    except RecursionError:
        raise InvalidMarker("its marker is nested too deeply") from None


_LABEL = re.compile(r"(?<=\w)\+([A-Za-z0-9._-]+)")


def unlabelled(specifier: str) -> tuple[str, str | None]:
    """A specifier without its local versions, and the first of those: "==2.9.1+cu126" → "==2.9.1", "cu126"."""
    label = _LABEL.search(specifier)
    return _LABEL.sub("", specifier), label[1] if label else None


def span(versions: Iterable[str]) -> str:
    """ "2.11.0 to 2.14.1" of a run of versions, oldest and newest."""
    ordered = sorted(set(versions), key=version)
    return ordered[0] if len(ordered) == 1 else f"{ordered[0]} to {ordered[-1]}"


# ---------------------------------------------------------------- build tags

# "cu126", "cpu", "cpu.cxx11.abi", "rocm6.4", "xpu"; companions put another word before it: "pt23cu121". "cu12" names no minor.
_TAG = re.compile(r"(?:cu(?P<cuda>[5-9]\d|\d{3})|rocm(?P<rocm>\d{1,2}\.\d{1,2})|(?P<plain>cpu|xpu))(?![0-9A-Za-z])")


@record
class BuildTag:
    """What the local part of a version says of the build."""

    label: str  # all of it, "cu126"
    cuda: str | None = None  # "12.6"
    rocm: str | None = None  # "6.4"
    cpu: bool = False
    xpu: bool = False

    @property
    def variant(self) -> str | None:
        """The variant of torch that the label is; None for another word ("gitabc", "pt23cu121")."""
        return self.label if re.fullmatch(r"cpu|xpu|cu\d+|rocm.*", self.label) else None


@lru_cache(maxsize=1024)
def tag_named(label: str) -> BuildTag:
    """A label by itself: "cu130" → CUDA 13.0, "cu92" → CUDA 9.2."""
    found = _TAG.search(label)
    if found is None:
        return BuildTag(label)
    cuda = found["cuda"]
    return BuildTag(label, f"{cuda[:-1]}.{cuda[-1]}" if cuda else None, found["rocm"], found["plain"] == "cpu", found["plain"] == "xpu")


def build_tag(text: str | None) -> BuildTag:
    """The tag of a version, "2.14.1+cu126"; an empty one where it carries none."""
    return tag_named(local(text) or "")


def cuda_of_build(text: str | None) -> str | None:
    """The CUDA that a version names: "2.14.1+cu130" → "13.0", "0.20.1+cu124" → "12.4"."""
    return build_tag(text).cuda


def variant_of_cuda(cuda: str) -> str | None:
    """Build variant of a CUDA version: "13.0" or "13.0.2" → "cu130"."""
    pair = minor(cuda)
    return f"cu{pair[0]}{pair[1]}" if pair else None
