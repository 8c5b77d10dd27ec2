"""What the user asks a plan for: requirements and a build variant. A word that can be neither is refused with what was probably meant."""

from __future__ import annotations

import copy
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from envcheck.errors import UsageError
from envcheck.facts.printable import one_line
from envcheck.facts.record import record
from envcheck.planner.companions import RELEASED_WITH, knows
from envcheck.planner.installers import texts
from envcheck.tables.versions import meets, minor, requirement, specifiers, unlabelled, version

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from envcheck.planner.candidate import Candidate
    from envcheck.tables.compat import Tables


@record
class Wish:
    """What the user asked for: a torch, a build variant, packages beside it."""

    torch: str = ""  # specifier without local versions: "==2.9.*"
    variant: str | None = None  # of "torch==2.9.1+cu126", or the bare word cu126
    packages: tuple[tuple[str, Requirement], ...] = ()
    texts: tuple[str, ...] = ()

    @cached_property
    def beside(self) -> Mapping[str, Requirement]:
        return dict(self.packages)

    @property
    def names_torch(self) -> bool:
        return bool(self.torch or self.variant)

    def admits(self, one: Candidate) -> bool:
        """Whether a build is one of those asked for."""
        return (not self.torch or meets(one.version, self.torch) is True) and (not self.variant or one.variant == self.variant)


_VARIANT = re.compile(r"(cpu|xpu|cu\d{2,4}|rocm\d{1,3}(\.\d{1,4}){0,4})\Z")


def read_wish(words: Sequence[str], tables: Tables, files: Collection[str] = ()) -> Wish:
    """Requirements as the user writes them: `torch>=2.6,<2.8`, `torchvision`, `torch==2.9.1+cu126`, or a bare variant `cu126`.

    `files` are those of the words that name a file here.
    """
    variant: str | None = None
    torch: list[str] = []
    packages: list[tuple[str, Requirement]] = []
    for word in words:
        if _VARIANT.match(word):
            if meant := _incomplete(word, tables):
                raise UsageError(texts(tables).say("wish.meant", word=_shown(word), meant=", or ".join(meant)))
            variant = word
            continue
        one = _requirement(word, tables, word in files)
        if one.name in ("torch", "pytorch"):
            bare, label = unlabelled(str(one.specifier))
            torch.append(bare)
            variant = label or variant
        else:
            packages.append((one.name, one))
    return Wish(joined("torch", torch), variant, together(packages), tuple(words))


def together(packages: Sequence[tuple[str, Requirement]]) -> tuple[tuple[str, Requirement], ...]:
    """One requirement a package: what was asked of it twice holds twice."""
    from packaging.specifiers import SpecifierSet

    result: dict[str, Requirement] = {}
    asked: dict[str, list[str]] = {}
    for name, one in packages:
        if name not in result:
            result[name] = copy.copy(one)
            result[name].extras = set()
        result[name].extras |= one.extras
        asked.setdefault(name, []).append(str(one.specifier))
    for name, whole in result.items():
        whole.specifier = SpecifierSet(joined(name, asked[name]))
    return tuple(result.items())


MOST_CONDITIONS = 200  # on one package: every build is judged by each of them


def joined(name: str, asked: Iterable[str]) -> str:
    """Specifiers of a package as one: what is said twice once, of lower bounds the highest, of upper ones the lowest. Raises UsageError."""
    parts = list(dict.fromkeys(part for one in dict.fromkeys(asked) for part in one.split(",") if part))
    for sign, narrowest in ((">=", max), ("<=", min)):
        bounds = [part for part in parts if part.startswith(sign)]
        if len(bounds) > 1:
            kept = narrowest(bounds, key=lambda part: version(part[2:]))
            parts = [part for part in parts if not part.startswith(sign) or part == kept]
    if len(parts) > MOST_CONDITIONS:
        raise UsageError(f"{name}: more than {MOST_CONDITIONS} different conditions are asked of it")
    if specifiers(whole := ",".join(parts)) is None:
        raise UsageError(f"{name}{one_line(whole, 80)}: not a version specifier")
    return whole


def _requirement(word: str, tables: Tables, is_file: bool) -> Requirement:
    """A word as a requirement of which no part would be dropped, its name normalized. Raises UsageError on every other word."""
    from packaging.requirements import InvalidRequirement  # with its parser as costly as all the rest of the planner
    from packaging.utils import canonicalize_name

    if meant := _mistaken(word, tables, is_file):
        raise UsageError(meant)
    try:
        one = requirement(word)
    except InvalidRequirement as error:
        raise UsageError(f"{_shown(word)} is not a requirement: {str(error).splitlines()[0]}") from None
    one.name = canonicalize_name(one.name)
    say = texts(tables).say
    if one.url:
        raise UsageError(say("wish.url", word=_shown(word)))
    if one.marker:
        raise UsageError(say("wish.marker", word=_shown(word), requirement=f"{one.name}{one.specifier}"))
    if one.extras and one.name in ("torch", "pytorch"):
        raise UsageError(say("wish.extras", word=_shown(word), names=" ".join(sorted(one.extras))))
    return one


def _shown(word: str) -> str:
    return repr(word if len(word) <= 80 else word[:80] + "…")


# ------------------------------------------------------------------ words that are no requirement

_FILE = re.compile(
    r"(?i)[^<>=!~;\[]{1,1000}\.(txt|in|toml|py|pyc|ipynb|whl|cfg|ini|conf|lock|ya?ml|json|sh|md|csv|log|zip|t?gz|bz2|xz|egg|conda)\Z"
)
_WHEEL = re.compile(r"(?i)(?:.*[/\\])?([A-Za-z][\w.]*)-(\d[\w.]*(?:\+[\w.]+)?)-[^/\\]*\.whl\Z")
# "torch@2.9", "torch=2.9", "torch 2.9", "torch-2.9", "torch2.9", "cuda12.6", "2.9"
_VERSIONED = re.compile(r"([A-Za-z][A-Za-z_.-]{0,60}?|)[ _-]?([ @=:]?)[ _-]?v?(\d{1,4}(?:\.\d{1,6}){0,3})(?:\.[*x])?\Z")
_BUILT = re.compile(r"(?:py)?torch[ +_-]?(cpu|xpu|cu\d{2,4}|rocm\d{1,3}(?:\.\d{1,4}){0,4})\Z")  # "torch+cu126"
_FAMILY = ("torch", "pytorch", *RELEASED_WITH)


def _mistaken(word: str, tables: Tables, is_file: bool) -> str | None:
    """What is wrong with a word that is no requirement, though a package index may hold something of that name; None: nothing is."""
    name = word.strip().lower().replace("_", "-").replace(".", "-")
    if name in ("torch", "pytorch") or knows(name, tables):
        return None
    say = texts(tables).say
    path = word.startswith((".", "~")) or any(mark in word for mark in "/\\") or is_file
    if "://" in word or word.startswith("git+"):
        return say("wish.url", word=_shown(word))
    if path or _FILE.match(word):
        wheel = _WHEEL.match(word)
        return say("wish.wheel", word=_shown(word), wanted=f"{wheel[1]}=={wheel[2]}") if wheel else say("wish.file", word=_shown(word))
    if versioned := _VERSIONED.match(word.strip()):
        head, mark, number = versioned.groups()
        if meant := _versioned(head.lower(), mark, number, tables):
            return say("wish.meant", word=_shown(word), meant=meant)
    if built := _BUILT.match(word):
        return say("wish.meant", word=_shown(word), meant=f"torch {built[1]}")
    for row in texts(tables).data["word"]:
        if name in row["names"]:
            return say("wish.word", word=_shown(word), hint=row["hint"])
    if _is_device(word, tables):
        return say("wish.device", word=_shown(word))
    return say("wish.nothing", word=_shown(word)) if word[:1].isdecimal() or (versioned and versioned[2]) else None


_CUDA, _ROCM, _PYTHON = ("cu", "cuda", "cudatoolkit"), ("rocm", "hip"), ("py", "python", "cp")
_DRIVER = ("driver", "nvidia", "nvidia-driver")


def _versioned(head: str, mark: str, number: str, tables: Tables) -> str | None:
    """What was meant by a name and a number without an operator between them, in the spelling that is understood."""
    if head in _FAMILY:
        return _pinned(head, number)
    if not head:
        return _number(number, tables) if "." in number else None
    if head in _CUDA:
        return ", or ".join(_variants("cu" + "".join(number.split(".")[:2]), tables)) or None
    if head in _ROCM:
        return ", or ".join(_variants(f"rocm{number}", tables)) or None
    if head in _PYTHON and re.match(r"3\.?\d{1,2}\Z", number):
        return f"--python 3.{number[1:].lstrip('.')}"
    if head in _DRIVER and re.match(r"\d{3}(\.|\Z)", number):
        return f"--driver {number}"
    return _pinned(head, number) if mark else None  # else a package whose name ends in a number


def _number(number: str, tables: Tables) -> str | None:
    """What a version without a name is one of."""
    if any(minor(one.version) == minor(number) for one in tables.releases()):
        return _pinned("torch", number)
    if re.match(r"3\.\d{1,2}\Z", number):
        return f"--python {number}"
    if re.match(r"\d{3}\.", number):
        return f"--driver {number}"
    return ", or ".join(_variants("cu" + "".join(number.split(".")[:2]), tables)) if int(number.split(".")[0]) > 8 else None


def _pinned(name: str, number: str) -> str:
    """ "torch==2.9.*" of 2.9, "torch==2.9.1" of 2.9.1."""
    return repr(f"{name}=={number}" + (".*" if number.count(".") < 2 else ""))


def _variants(start: str, tables: Tables) -> tuple[str, ...]:
    """The build variant of that name, or those that begin so of the newest release with one: "cu12" has "cu126"."""
    for release in reversed(tables.releases()):
        names = tuple(dict.fromkeys(one.variant for one in tables.builds(release.version) if one.exists != "low"))
        if found := tuple(name for name in names if name == start) or tuple(name for name in names if name.startswith(start)):
            return found
    return ()


def _incomplete(variant: str, tables: Tables) -> tuple[str, ...]:
    """What begins like a variant that no build has: "rocm6" is none, "rocm6.4" is."""
    return () if any(one.variant == variant for one in tables.builds()) else _variants(variant, tables)


def _is_device(word: str, tables: Tables) -> bool:
    """Whether a word names a GPU: "h100", "rtx4090", "8xh100"."""
    from envcheck.planner.assume import names_device

    return names_device(word, tables)
