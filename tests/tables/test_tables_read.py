"""Every table is read by the rules or by the planner: a row that nobody reads is not there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from plan_hosts import TEXTS, checks, machine

from envcheck import planner
from envcheck.commands.bases import example_snapshot
from envcheck.engine.judge import judge
from envcheck.read.claims import read_prose
from envcheck.read.found import Found
from envcheck.read.merge import merge
from envcheck.tables.compat import Tables
from envcheck.tables.file import TableFile, table_names
from envcheck.tables.folders import rules_folder
from envcheck.tables.toml import load_toml

FOLDER = rules_folder("compat")
HOSTS = load_toml(Path(__file__).parents[1] / "golden" / "plan_hosts.toml")["host"]

Kind = tuple[str, str, str]  # table, section, and the package that a row is about


class Told(dict[str, Any]):
    """A row that remembers that more than its package was asked for."""

    def __init__(self, row: Any, kind: Kind, seen: set[Kind]) -> None:
        super().__init__(row)
        self.kind, self.seen = kind, seen

    def __getitem__(self, field: str) -> Any:
        if field != "package":
            self.seen.add(self.kind)
        return super().__getitem__(field)

    def get(self, field: str, default: Any = None) -> Any:
        if field != "package":
            self.seen.add(self.kind)
        return super().get(field, default)


def kinds(table: TableFile) -> Iterator[Kind]:
    for section, rows in table.sections.items():
        yield from ((table.name, section, str(row.get("package", ""))) for row in rows)


@pytest.fixture(scope="module")
def seen() -> set[Kind]:
    """What is read while every example of every rule is judged, every machine of the golden plans planned for, and a board named."""
    met: set[Kind] = set()
    made: dict[tuple[int, str], tuple[Told, ...]] = {}
    plain = TableFile.rows

    def rows(self: TableFile, section: str) -> tuple[Told, ...]:
        key = (id(self), section)
        if key not in made:
            made[key] = tuple(Told(row, (self.name, section, str(row.get("package", ""))), met) for row in plain(self, section))
        return made[key]

    tables = Tables((FOLDER,))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TableFile, "rows", rows)
        every = {one.id: one for one in checks()}
        for rule in TEXTS.ids:
            for example in TEXTS.read(rule).examples:
                judge(example_snapshot(rules_folder(), example), [every[rule]], tables)
        for host in HOSTS:
            planner.search(machine(host), tables, host.get("wish", ()), checks=checks(), texts=TEXTS)
        merge([("post", read_prose("GPU: AMD Radeon RX 6700 XT") or Found(""))], (), tables)
    return met


def test_every_row_is_read_or_it_is_not_there(seen: set[Kind]) -> None:
    tables = Tables((FOLDER,))
    there = {kind for name in table_names((FOLDER,)) for kind in kinds(tables.table(name))}
    lines = (f"{table} [{section}] {package}".strip() for table, section, package in sorted(there - seen))
    assert not (unread := list(lines)), f"read by no rule and no plan: {unread}"
