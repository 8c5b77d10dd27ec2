"""How a check puts a hit together: cases as rows, and what a source said as evidence."""

from __future__ import annotations

import pytest

from envcheck.checks.text import cite, environment, first_of
from envcheck.engine.rule import Evidence, Hit

VALUES = {"driver": "580.65"}
SAID = (Evidence("kernel log", "words"),)


@pytest.mark.parametrize(
    ("cases", "variant"),
    [
        ({"access": True, "kernel": True}, "access"),
        ({"access": (), "kernel": ("a line",), "default": True}, "kernel"),
        ({"access": "", "default": True, "kernel": True}, None),
    ],
)
def test_the_first_case_that_holds_is_the_hit(cases: dict[str, object], variant: str | None) -> None:
    assert first_of(cases, VALUES, SAID) == Hit(VALUES, SAID, variant=variant)


def test_no_case_is_no_hit() -> None:
    assert first_of({"access": False, "default": None}, VALUES) is None


def test_a_source_that_said_nothing_is_no_evidence() -> None:
    assert cite("torch", None, "", "no device") == (Evidence("torch", "no device"),)
    assert cite("torch", None) == ()


def test_variables_as_they_are_set() -> None:
    assert environment({"RANK": "0", "HOME": "/root"}, ["RANK"]) == (Evidence("environment", "RANK=0"),)
