"""Every input of the fuzzer's corpus, seeds and what once crashed, goes through its target; with atheris, the fuzzer itself runs."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).parents[2] / "fuzz"
sys.path.append(str(FUZZ))

import targets  # noqa: E402

INPUTS = sorted(path for path in (FUZZ / "corpus").glob("*/*"))


def test_every_target_has_a_corpus_and_no_corpus_is_without_target() -> None:
    assert {path.parent.name for path in INPUTS} == targets.TARGETS.keys() >= targets.MOST_BYTES.keys()


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_an_input_of_the_corpus(path: Path) -> None:
    targets.TARGETS[path.parent.name](path.read_bytes())


def test_targets_would_notice() -> None:
    """What the assertions of the targets are for."""
    with pytest.raises(AssertionError):
        targets.refuse("NaN")
    changed = targets.damaged({"a": [1, {"b": 2}]}, [("a", 1, "b")], targets.Chooser(b"\0\0\0"))
    assert changed == {"a": [1, {"b": targets.WRONG[0]}]}
    lines, places = targets.agents_lines()
    assert len(lines) > 20 and len(places) > 500


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="needs atheris: pip install -e '.[fuzz]'")
def test_a_minute_of_fuzzing() -> None:
    """All targets together. The inputs of crashes are in fuzz/crashes."""
    done = subprocess.run([sys.executable, str(FUZZ / "run.py"), "--seconds", "60"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout
    rows = [line.split() for line in done.stdout.splitlines() if " executions " in line]
    assert [row[0] for row in rows] == list(targets.TARGETS), done.stdout
    assert all(int(row[1].replace(",", "")) > 0 for row in rows), done.stdout
