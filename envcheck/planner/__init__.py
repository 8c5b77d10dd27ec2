"""Fix intents as commands, and the search for a torch build that fits a machine, proved by judging the changed snapshot again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envcheck.engine.intents import Intent
    from envcheck.engine.rule import Check, RuleTexts
    from envcheck.facts.snapshot import Snapshot
    from envcheck.planner.result import Fix, PlanReport
    from envcheck.read.wish_file import WishFile
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
    from envcheck.planner.fixer import fixer

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
    files: Sequence[WishFile] = (),
) -> PlanReport:
    """The ways to a torch that trains on this machine, best first, and what was excluded and why.

    Of files of wishes also what becomes of each entry, and the files with what moves in its place.
    """
    from envcheck.planner.fixer import fixer

    one = fixer(snapshot, tables, checks, texts, tool, index_base)
    if files:
        from envcheck.planner.wish import read_wish
        from envcheck.planner.wish_files import plan_files

        return plan_files(one.planner, files, read_wish(wish, tables))
    return one.planner.plan(wish) if wish else one.report(None)
