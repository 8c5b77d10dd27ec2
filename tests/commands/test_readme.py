"""What README.md shows is what the program does: its sample reports, its table of commands, its exit codes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from envcheck import cli
from envcheck.commands import COMMANDS
from envcheck.commands.bases import base
from envcheck.facts.codec import edit
from envcheck.facts.snapshot import Snapshot
from envcheck.options import parse
from envcheck.render.text import PageOptions, render
from envcheck.report.report import live_asked
from envcheck.report.session import report_on, rule_session
from envcheck.tables.folders import rules_folder

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
SAMPLES = re.findall(r"^```text\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
TOO_OLD = "The NVIDIA driver on your system is too old (found version 12020)."


def faulty() -> Snapshot:
    """An RTX 4090 on driver 535 with a torch of CUDA 13.2."""
    made = base(rules_folder(), "rtx4090")
    driver = {"version": "535.183.01", "cuda": "12.2", "flavour": "proprietary", "library_version": "535.183.01"}
    driver["readings"] = [{"source": "/sys/module/nvidia/version", "driver": "535.183.01", "cuda": "12.2"}]
    changes: dict[str, object] = {f"driver.{key}": value for key, value in driver.items()}
    changes |= {"cuda_driver.driver_version": "12.2", "python.version": "3.12.3", "torch.import_seconds": 2.9}
    changes |= {"torch.version": "2.15.0+cu132", "torch.cuda": "13.2", "torch.nccl": "2.30.7", "torch.nccl_loaded": "2.30.7"}
    changes |= {"system.date": "2026-11-28", "system.time": "21:20:05"}
    changes |= {"devices": {"available": False, "count": 0, "error": TOO_OLD}}
    changes["packages.distributions"] = [
        {"name": "torch", "version": "2.15.0+cu132"},
        {"name": "torchvision", "version": "0.29.2"},
    ]
    changes["live"] = {"missing": "skipped", "reason": "switched off (--live off)"}
    for path, value in changes.items():
        made = edit(made, path, value)
    return made


def test_the_faulty_report_is_the_programs() -> None:
    snapshot = faulty()
    report = report_on(snapshot, rule_session(), live_requested=live_asked(snapshot.live))
    assert render(report, options=PageOptions(width=100)).strip() == SAMPLES[1].strip()


@pytest.mark.parametrize("line", [one for cell in re.findall(r"^\| (`envcheck.*?) \|", README, re.MULTILINE) for one in cell.split("`, `")])
def test_every_command_of_the_table_is_understood(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "envcheck.toml").write_text("[profile.ci]\n")  # the one that counts
    words = shlex.split(line.strip("`"))
    assert words[0] == "envcheck"
    assert parse(words[1:]).command == (words[1] if words[1:] and words[1] in COMMANDS else "check")


def test_every_command_stands_in_the_table() -> None:
    told = set(re.findall(r"`envcheck ([a-z]+)\b", README))
    assert set(COMMANDS) - told <= {"check"}  # the default


def test_its_exit_codes_are_those_of_the_program() -> None:
    rows = dict(re.findall(r"^\| ([\d, ]+) \| (.+) \|$", README, re.MULTILINE))
    assert list(rows) == ["0", "1", "2", "3", "126, 127", "130, 143, 129", "141", "70"]
    assert (
        "usage" in rows[str(cli.EXIT_USAGE)]
        and "interrupted" in rows[f"{cli.EXIT_INTERRUPTED}, 143, 129"]
        and "itself failed" in rows[str(cli.EXIT_BUG)]
    )
