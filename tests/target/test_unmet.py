"""Requirements that a target does not meet: packaging's word counts, also for those that are told without it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement

from envcheck.facts.snapshot import Distribution, Unmet
from envcheck.target.sections import WATCHED, _plainly_met, _unmet

NAMES = st.sampled_from(["typing-extensions", "typing_extensions", "Typing.Extensions", "numpy"])
VERSIONS = st.sampled_from(["1", "1.0", "1.0.post1", "1.0rc1", "1.0.dev3", "1.10", "1.9", "2!1.0", "1.0+cpu", "v1.0", "one", "1.0.0"])
BOUNDS = st.sampled_from(
    [">=", " >= ", ">", "==", ">=1,<", "<1.10,>=", "~=", "<", "!=", "===", ">=1,<2,>=", " (>=", "[extra]>=", "@ https://", ">=*"]
)
ENDS = st.sampled_from(["", ")", " ; python_version < '3'", ",!=1.0", ".*"])


@given(name=NAMES, bound=BOUNDS, wanted=VERSIONS, end=ENDS, installed=VERSIONS)
def test_what_is_plainly_met_is_met(name: str, bound: str, wanted: str, end: str, installed: str) -> None:
    text = f"{name}{bound}{wanted}{end}"
    if _plainly_met(text, (), {"typing-extensions": installed, "numpy": installed}):
        requirement = Requirement(text)
        assert requirement.marker is None and requirement.specifier.contains(installed, prereleases=True), text


def test_a_floor_is_plain() -> None:
    assert _plainly_met("Typing_Extensions>=4.10.0", (), {"typing-extensions": "4.10.0"})
    assert not _plainly_met("typing-extensions>=4.10.0", (), {"typing-extensions": "4.9.0"})
    assert not _plainly_met("typing-extensions>=4.10.0", (), {})


def test_bounds_are_plain() -> None:
    """Nearly every environment has this one: for it alone packaging's parser would be loaded."""
    assert _plainly_met("mpmath<1.4,>=1.1.0", (), {"mpmath": "1.3.0"})
    assert not _plainly_met("mpmath<1.4,>=1.1.0", (), {"mpmath": "1.4.0"})


@pytest.mark.parametrize(
    ("text", "version", "found"),
    [
        ("torch>=2.10", "2.9", "torch>=2.10"),
        ("torch>=2.10", "2.10+cpu", None),
        ("torch==2.10; python_version<'4'", "2.9", "torch==2.10"),
        ("torch==2.10; python_version>'4'", "2.9", None),
        ("sympy>=1.13", "1.0", "sympy>=1.13"),
        ("sympy<2,>=1.13", "1.14.0", None),
        ("mpmath<1.4,>=1.1.0", "1.4.0", "mpmath<1.4,>=1.1.0"),
        ("regex>=1.13", "1.0", None),  # nothing of torch's
    ],
)
def test_unmet(text: str, version: str, found: str | None) -> None:
    name = re.split("[<>=]", text)[0]
    rows = (Distribution(name, version),)
    unmet = _unmet([("owner", text)], WATCHED, (), {"python_version": "3.12"}, rows)
    assert unmet == (() if found is None else (Unmet("owner", found, version),))


def test_what_is_absent_is_unmet_whatever_its_bounds() -> None:
    assert _unmet([("torch", "sympy>=1.13")], WATCHED, ("sympy",), {}, ()) == (Unmet("torch", "sympy>=1.13"),)
