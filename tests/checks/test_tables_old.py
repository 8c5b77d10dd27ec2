"""The rule that says when the tables are old, from this machine's own clock to the report."""

from __future__ import annotations

import datetime
import json
import shutil
from pathlib import Path

import pytest

from envcheck import cli
from envcheck.checks import all_checks
from envcheck.checks.meta import OLD_DAYS
from envcheck.commands.bases import base
from envcheck.engine.judge import judge
from envcheck.facts.record import replace
from envcheck.facts.snapshot import Missing, Why
from envcheck.tables.compat import Tables
from envcheck.tables.folders import rules_folder

CHECKED = Tables((rules_folder("compat"),)).table("torch-release").verified


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("here") / "snapshot.json"
    assert cli.main(["record", "--static", "-o", str(path)]) in (0, 1, 3)
    return path


def found(snapshot: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    cli.main(["--facts", str(snapshot), "--select", "tables-old", "--json", *arguments])
    report = json.loads(capsys.readouterr().out)
    return [one["message"] for one in report["findings"] if one["rule"] == "tables-old"]


def test_the_snapshot_knows_its_day(snapshot: Path) -> None:
    recorded = datetime.date.fromisoformat(json.loads(snapshot.read_text())["facts"]["system"]["date"])
    assert abs((datetime.date.today() - recorded).days) <= 1


@pytest.mark.parametrize(("days", "old"), [(-400, False), (0, False), (OLD_DAYS, False), (OLD_DAYS + 1, True), (3650, True)])
def test_only_a_day_far_behind_makes_them_old(snapshot: Path, capsys: pytest.CaptureFixture[str], days: int, old: bool) -> None:
    assert CHECKED is not None
    day = CHECKED + datetime.timedelta(days=days)
    messages = found(snapshot, capsys, "--assume", f"system.date={day}")
    assert bool(messages) is old
    assert all(f"{days} days" in one and CHECKED.isoformat() in one for one in messages)


def test_it_is_information_not_a_failure(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--facts", str(snapshot), "--select", "tables-old", "--json", "--assume", "system.date=2036-01-01"]) == 0
    [finding] = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["severity"], finding["confidence"]) == ("info", "certain")
    assert finding["fixes"][0]["commands"] == {} or "envcheck" in finding["fixes"][0]["text"]


@pytest.mark.parametrize("trains", [True, False])
def test_a_table_counts_where_the_verdict_rests_on_it(tmp_path: Path, trains: bool) -> None:
    """Where CUDA was seen to work no driver is looked up: how old the table of drivers is does not matter there."""
    assert CHECKED is not None
    folder = shutil.copytree(rules_folder("compat"), tmp_path / "compat")
    table, day = folder / "cuda-driver.toml", CHECKED - datetime.timedelta(days=OLD_DAYS)
    table.write_text(table.read_text(encoding="utf-8").replace(f"verified = {CHECKED}", f"verified = {day}"), encoding="utf-8")
    snapshot, today = base(Path(rules_folder()), "h100x8"), CHECKED + datetime.timedelta(days=1)
    snapshot = replace(snapshot, system=replace(snapshot.system, date=today.isoformat()))
    if not trains:
        unasked = Missing(Why.SKIPPED, "not asked")
        snapshot = replace(snapshot, devices=unasked, cuda_driver=unasked)
    verdict = next(one for one in judge(snapshot, all_checks(), Tables((folder,))) if one.rule == "tables-old")
    assert (verdict.hit and verdict.hit.values.get("table")) == (None if trains else "cuda-driver")
    if verdict.hit:
        assert verdict.hit.values["days"] == OLD_DAYS + 1
