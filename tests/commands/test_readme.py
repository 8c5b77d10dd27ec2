"""What README.md shows is what the program does: its sample reports, its table of commands, its exit codes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import readme_picture

from envcheck import cli
from envcheck.commands import COMMANDS
from envcheck.options import parse
from envcheck.report.fleet import BAD_HOST

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SAMPLES = re.findall(r"^```text\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_its_picture_is_what_the_program_prints() -> None:
    made, picture = readme_picture.drawn(), readme_picture.PICTURE.read_text(encoding="utf-8")
    assert f"]({readme_picture.PICTURE.relative_to(ROOT)})" in README
    lines = readme_picture.words(picture)
    assert lines == readme_picture.words(made), "python tools/readme_picture.py --write"
    assert "✗ error: The NVIDIA driver is older than this torch build needs [driver-too-old]" in lines
    assert any(line.endswith("--index-url https://download.pytorch.org/whl/cu126") for line in lines), "no command is cut"
    assert lines[-1] == "Not ready: 1 error"
    assert "@font-face" not in picture and "href" not in picture and "<script" not in picture


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
    assert list(rows) == ["0", "1", "2", "3", "4", "126, 127", "130, 143, 129", "141", "70"]
    assert (
        "usage" in rows[str(cli.EXIT_USAGE)]
        and "interrupted" in rows[f"{cli.EXIT_INTERRUPTED}, 143, 129"]
        and "hosts are named" in rows[str(BAD_HOST)]
        and "itself failed" in rows[str(cli.EXIT_BUG)]
    )
