"""The rule that says when the tables are old, from this machine's own clock to the report."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest

from envcheck import cli
from envcheck.checks.meta import OLD_DAYS
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
