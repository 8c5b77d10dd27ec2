"""What is missing is the engine's business: with nothing read no rule says that all is well."""

from __future__ import annotations

from pathlib import Path

import pytest

from envcheck.checks import all_checks
from envcheck.engine.judge import Outcome, judge
from envcheck.engine.rule import Check
from envcheck.facts.snapshot import SECTIONS, Missing, Snapshot, Why
from envcheck.tables.compat import Tables
from envcheck.tables.folders import rules_folder

TABLES = Tables((Path(rules_folder()) / "compat",))
CHECKS = [pytest.param(check, id=check.id) for check in all_checks()]
OUTCOMES = {Why.FAILED: Outcome.UNKNOWN, Why.TIMEOUT: Outcome.UNKNOWN, Why.SKIPPED: Outcome.NOT_APPLICABLE}


def without_a_word(why: Why) -> Snapshot:
    return Snapshot(**{name: Missing(why, "nothing came") for name in SECTIONS})


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("why", OUTCOMES, ids=lambda why: why.value)
def test_of_what_was_not_read_nothing_is_said(check: Check, why: Why) -> None:
    [verdict] = judge(without_a_word(why), [check], TABLES)
    hangs = check.id == "libcuda-unresponsive" and why is Why.TIMEOUT  # that neither libcuda nor torch came back is what it is about
    assert verdict.outcome is (Outcome.HIT if hangs else OUTCOMES[why]), verdict
    if hangs:
        return
    assert "nothing came" in verdict.reason


@pytest.mark.parametrize("check", CHECKS)
def test_needs_are_sections_that_the_check_reads(check: Check) -> None:
    assert check.needs
    assert set(check.needs) <= set(SECTIONS)
    assert set(check.needs) <= set(check.parameters) | {"torch", "driver"}  # of which its absence may be all that is asked
