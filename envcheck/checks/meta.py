"""Rules about the check itself: how old its tables are, and what the user said must hold."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from envcheck.checks.versions import parsed, release
from envcheck.facts import ExpectationsFacts, Missing, SystemFacts, TorchFacts
from envcheck.rule import Evidence, Hit, Unknown, check

if TYPE_CHECKING:
    from envcheck.tables import Tables

OLD_DAYS = 180  # torch has a release about every two months


@check(sees_missing=("torch", "system"))
def tables_old(torch: TorchFacts | Missing, system: SystemFacts | Missing, tables: Tables) -> Hit | None:
    """A torch newer than the newest row, or tables that were last checked long before the day of the snapshot."""
    mine = None if isinstance(torch, Missing) else parsed(release(torch.version))
    today = None if isinstance(system, Missing) or not system.date else _day(system.date)
    if mine is None and today is None:
        return None
    newest = tables.releases()[-1]
    known = parsed(newest.version)
    if mine and known and not mine.is_prerelease and mine.release[:2] > known.release[:2]:
        return Hit({"version": release(getattr(torch, "version", None)), "newest": newest.version})
    checked = tables.table("torch-release").verified
    if today and checked and (today - checked).days > OLD_DAYS:
        return Hit({"days": (today - checked).days, "checked": checked.isoformat(), "newest": newest.version}, variant="age")
    return None


def _day(text: str) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        return None


@check()
def expectation_failed(expectations: ExpectationsFacts) -> Hit | Unknown | None:
    """What `--expect` or the configuration demands and the snapshot does not give."""
    if expectations.failed:
        evidence = tuple(Evidence(f"expected {one.expected}", f"found {one.found}") for one in expectations.failed)
        listed = "; ".join(f"{one.expected}, found {one.found}" for one in expectations.failed)
        return Hit({"count": len(expectations.failed), "failed": listed}, evidence)
    if expectations.undecided:
        return Unknown(f"not known, so not decided: {', '.join(expectations.undecided)}")
    return None


CHECKS = (tables_old, expectation_failed)
