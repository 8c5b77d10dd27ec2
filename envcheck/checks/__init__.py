"""The conditions of the rules, one module a family. A check reads facts and tables, never the machine."""

from __future__ import annotations

from envcheck.rule import Check


def all_checks() -> tuple[Check, ...]:
    """Every check, in the order in which verdicts are listed."""
    # each family module adds itself here: from envcheck.checks import driver, ...; return (*driver.CHECKS, ...)
    return ()
