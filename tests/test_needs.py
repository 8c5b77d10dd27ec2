"""What is missing is the engine's business: with nothing read no rule says that all is well."""

from __future__ import annotations

from pathlib import Path

import pytest

from envcheck.checks import (
    comm,
    companions,
    launch,
    live,
    meta,
    numpy_abi,
    packages,
    ranks,
    requirements,
    toolkit,
    torch_build,
    torch_files,
    torch_import,
    torch_libraries,
)
from envcheck.engine.judge import Outcome, judge
from envcheck.engine.rule import Check
from envcheck.facts.snapshot import SECTIONS, Missing, Snapshot, Why
from envcheck.tables.compat import Tables
from envcheck.tables.folders import rules_folder

TABLES = Tables((Path(rules_folder()) / "compat",))
FAMILIES = (
    *(comm, companions, launch, live, meta, numpy_abi, packages, ranks, requirements),
    *(toolkit, torch_build, torch_files, torch_import, torch_libraries),
)
CHECKS = [pytest.param(check, id=check.id) for family in FAMILIES for check in family.CHECKS]
OUTCOMES = {Why.FAILED: Outcome.UNKNOWN, Why.TIMEOUT: Outcome.UNKNOWN, Why.SKIPPED: Outcome.NOT_APPLICABLE}


def without_a_word(why: Why) -> Snapshot:
    return Snapshot(**{name: Missing(why, "nothing came") for name in SECTIONS})


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("why", OUTCOMES, ids=lambda why: why.value)
def test_of_what_was_not_read_nothing_is_said(check: Check, why: Why) -> None:
    [verdict] = judge(without_a_word(why), [check], TABLES)
    assert verdict.outcome is OUTCOMES[why], verdict
    assert "nothing came" in verdict.reason


@pytest.mark.parametrize("check", CHECKS)
def test_needs_are_sections_that_the_check_reads(check: Check) -> None:
    assert check.needs
    assert set(check.needs) <= set(SECTIONS)
    assert set(check.needs) <= set(check.parameters) | {"torch"}  # of which its absence may be all that is asked
