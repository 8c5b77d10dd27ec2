"""Two wishes of which no package can meet both."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from envcheck.facts.record import record
from envcheck.planner.wish import Wish
from envcheck.tables.versions import specifiers

_PLAIN = re.compile(r"\d+(\.\d+){0,8}(\.\*)?\Z")


def contradiction(wishes: Mapping[str, Wish]) -> tuple[str, str] | None:
    """The first two words that contradict each other, each given with what it says."""
    stated = [(word, _stated(wish)) for word, wish in wishes.items()]
    for (one, ones), (other, others) in combinations(stated, 2):
        if ones.variant and others.variant and ones.variant != others.variant:
            return one, other
        if any(not possible(f"{asked},{others.asks[name]}") for name, asked in ones.asks.items() if name in others.asks):
            return one, other
    return None


@record
class _Stated:
    variant: str | None
    asks: Mapping[str, str]  # package → specifier


def _stated(wish: Wish) -> _Stated:
    beside = {name: str(one.specifier) for name, one in wish.packages}
    return _Stated(wish.variant, {"torch": wish.torch, **beside} if wish.torch else beside)


def possible(specifier: str) -> bool:
    """Whether some version meets a specifier. What names a pre-release, a local version or an arbitrary text is not judged."""
    asked = specifiers(specifier)
    parts = list(asked or ())
    if asked is None or any(part.operator == "===" or not _PLAIN.match(part.version) for part in parts):
        return True
    return any(asked.contains(one) for one in _candidates([part.version.removesuffix(".*") for part in parts]))


def _candidates(named: Sequence[str]) -> Iterator[str]:
    """Where a specifier changes its answer: at a version that it names and behind that, before the next one; and before all of them."""
    yield "0"
    for version in named:
        # "==2.9.*" names 2.9, "!=2.9.1" excludes one of those, "!=2.9.*" is left behind by the next number
        *head, last = version.split(".")
        yield from (version, f"{version}.0.1", f"{version}.1", f"{version}.99999", ".".join((*head, str(int(last) + 1))))
