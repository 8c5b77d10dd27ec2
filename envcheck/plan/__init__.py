"""Fix intents as commands, and the search for a torch build that fits a machine, proved by judging the changed snapshot again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envcheck.engine.intents import Intent
    from envcheck.engine.rule import Check, RuleTexts
    from envcheck.facts.snapshot import Snapshot
    from envcheck.plan.result import Fix, PlanReport
    from envcheck.tables.compat import Tables


def fixes(
    intents: Sequence[Intent],
    snapshot: Snapshot,
    tables: Tables,
    *,
    checks: Iterable[Check],
    texts: RuleTexts,
    tool: str = "auto",
    index_base: str | None = None,
) -> tuple[Fix, ...]:
    """A finding's intents as fixes with commands, in the order given; a torch build is searched and proved, at most three ways."""
    from envcheck.plan.fixer import fixer

    return fixer(snapshot, tables, checks, texts, tool, index_base).fixes(intents)


def search(
    snapshot: Snapshot,
    tables: Tables,
    wish: Sequence[str] = (),
    *,
    checks: Iterable[Check],
    texts: RuleTexts,
    tool: str = "auto",
    index_base: str | None = None,
) -> PlanReport:
    """The ways to a torch that trains on this machine, best first, and what was excluded and why."""
    from envcheck.plan.fixer import fixer

    one = fixer(snapshot, tables, checks, texts, tool, index_base)
    return one.planner.plan(wish) if wish else one.report(None)
