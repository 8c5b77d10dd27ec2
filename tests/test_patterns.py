"""The regular expressions of the code: each compiles, and none can take more than polynomial time on a bounded line."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import envcheck
from envcheck.pattern import LazyPattern, pattern

if sys.version_info >= (3, 11):
    from re import _parser as parser
else:
    import sre_parse as parser


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


def nested(parsed: Any, inside: bool = False) -> Iterator[str]:
    """Repeats without bound inside repeats without bound: what makes a failing match exponential."""
    for operation, argument in parsed:
        name = str(operation)
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            _, most, inner = argument
            endless = most > 2000
            if inside and endless:
                yield name
            yield from nested(inner, inside or endless)
        elif name == "SUBPATTERN":
            yield from nested(argument[-1], inside)
        elif name == "BRANCH":
            for branch in argument[1]:
                yield from nested(branch, inside)
        elif name in ("ASSERT", "ASSERT_NOT"):
            yield from nested(argument[1], inside)


@pytest.mark.parametrize("one", PATTERNS)
def test_pattern_compiles_and_repeats_nothing_twice(one: LazyPattern) -> None:
    re.compile(one.source, one.flags)
    assert list(nested(parser.parse(one.source, one.flags))) == []


def test_the_readers_are_among_them() -> None:
    assert len(PATTERNS) > 100
    assert any("envcheck.read.collect_env" in str(one.id) for one in PATTERNS)


def test_a_lazy_pattern_is_one() -> None:
    lazy = pattern("(a)(b)?", re.IGNORECASE)
    match = lazy.search("xA")
    assert match and match[1] == "A"
    assert (lazy.sub("-", "ab"), lazy.pattern, lazy.groups) == ("-", "(a)(b)?", 2)
