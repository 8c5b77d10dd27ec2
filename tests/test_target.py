"""Which interpreter is examined, and what is said of one that cannot be."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from patients import examine

from envcheck.errors import UsageError
from envcheck.target import Budget, Target, choose, require_answer


def script(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_an_environment_folder_will_do(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    python = script(tmp_path / "bin" / "python", "#!/bin/sh\n")
    assert choose(str(tmp_path), {}) == Target(python, "--python")


@pytest.mark.parametrize(
    ("name", "words"), [("/nowhere/python", "no such file"), ("no-such-python-3.99", "not found on PATH"), ("/etc", "without bin/python")]
)
def test_not_there(name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        choose(name, {})


def test_not_executable(tmp_path: Path) -> None:
    path = tmp_path / "python"
    path.write_text("")
    with pytest.raises(UsageError, match="not executable"):
        choose(str(path), {})


def test_tool_environment_gives_way_to_the_active_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tool").mkdir()
    (tmp_path / "tool" / "uv-receipt.toml").touch()
    (tmp_path / "work" / "bin").mkdir(parents=True)
    python = script(tmp_path / "work" / "bin" / "python", "#!/bin/sh\n")
    monkeypatch.setattr("envcheck.target._holds_torch", lambda: False)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "tool"))
    assert choose(None, {"VIRTUAL_ENV": str(tmp_path / "work")}) == Target(python, "VIRTUAL_ENV is active")
    monkeypatch.chdir(tmp_path)
    assert choose(None, {}).executable == sys.executable
    (tmp_path / "work").rename(tmp_path / ".venv")
    assert choose(None, {}).because == "./.venv is here"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("#!/bin/sh\nexit 1\n", "exit code 1"),
        ("#!/bin/sh\necho not python >&2\nexit 0\n", "not python"),
        ("#!/bin/sh\nkill -SEGV $$\n", "SIGSEGV"),
        ("#!/bin/sh\necho 'envcheck-agent: Python 2.7 is too old, 3.8 or newer is needed' >&2\nexit 79\n", "2.7 is too old"),
    ],
)
def test_not_a_python(tmp_path: Path, text: str, words: str) -> None:
    executable = script(tmp_path / "python", text)
    examined_target = Target(executable, "--python")
    with pytest.raises(UsageError, match=words):
        require_answer(examine(executable=executable).ended, examined_target)


def test_one_that_hangs(tmp_path: Path) -> None:
    executable = script(tmp_path / "python", "#!/bin/sh\nexec sleep 600\n")
    ended = examine(executable=executable, budget=Budget(5)).ended
    assert ended.seconds < 5
    with pytest.raises(UsageError, match="did not start"):
        require_answer(ended, Target(executable, "--python"))


def test_budgets_stay_below_the_ceiling() -> None:
    for total in (5, 20, 60, 180, 3600):
        budget = Budget(total)
        assert max(budget.agent, budget.start, budget.torch_import, budget.devices) < total
