"""The regular expressions of the code: each compiles, and none can take more than polynomial time on a bounded line."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator

import pytest
from expressions import repeats_of

import envcheck
from envcheck.pattern import LazyPattern, pattern


def found(value: object) -> Iterator[LazyPattern]:
    if isinstance(value, LazyPattern):
        yield value
    elif isinstance(value, tuple | list):
        for one in value:
            yield from found(one)
    elif isinstance(value, dict):
        yield from found([*value, *value.values()])


def all_patterns() -> dict[str, LazyPattern]:
    """Module and name → pattern, of the whole package but the agent, which uses `re` alone."""
    result = {}
    for module in pkgutil.walk_packages(envcheck.__path__, "envcheck."):
        if module.name.startswith("envcheck.agent") or module.name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            result |= {f"{module.name}.{name}.{index}": one for index, one in enumerate(found(value))}
    return result


PATTERNS = [pytest.param(one, id=name) for name, one in all_patterns().items()]


ENDLESS = 2000  # a repeat of more counts as one without bound


def nested(one: LazyPattern) -> list[str]:
    """Repeats without bound inside repeats without bound: what makes a failing match exponential."""
    return [name for name, most, around in repeats_of(one.source, one.flags) if most > ENDLESS and any(outer > ENDLESS for outer in around)]


@pytest.mark.parametrize("one", PATTERNS)
def test_pattern_compiles_and_repeats_nothing_twice(one: LazyPattern) -> None:
    re.compile(one.source, one.flags)
    assert nested(one) == []


def test_the_readers_are_among_them() -> None:
    assert len(PATTERNS) > 100
    assert any("envcheck.read.collect_env" in str(one.id) for one in PATTERNS)


def test_a_lazy_pattern_is_one() -> None:
    lazy = pattern("(a)(b)?", re.IGNORECASE)
    match = lazy.search("xA")
    assert match and match[1] == "A"
    assert (lazy.sub("-", "ab"), lazy.pattern, lazy.groups) == ("-", "(a)(b)?", 2)
