"""Imports of torch that do not come back, or die of what is around them: stuck is told from slow, and the cause is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from patients import examine, fake_torch, needs_torch

from envcheck.facts.snapshot import Missing, Snapshot
from envcheck.host.activity import Watch
from envcheck.report.session import report_on, rule_session
from envcheck.target.process import Budget

BUSY = "while True: pass"
READING = "import time\nwhile True:\n    open(__file__, 'rb').read() * 1000; open('/proc/kallsyms', 'rb').read(1 << 18); time.sleep(0.05)"
CHILD = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'while True: pass'])"


def finding_of(tmp_path: Path, body: str, env: dict[str, str] | None = None) -> Any:
    """What is said of an import that is ended after some 4 s."""
    examined = examine(path=fake_torch(tmp_path, body), env=env, budget=Budget(8))
    facts = {name: examined.facts[name] for name in ("python", "packages", "torch")}
    findings = [one.finding for one in report_on(Snapshot(**facts), rule_session()).findings]
    [finding] = [one for one in findings if one.rule == "torch-import-hangs"]
    return finding


def test_nothing_moves(tmp_path: Path) -> None:
    finding = finding_of(tmp_path, "import time\ntime.sleep(3600)")
    assert finding.confidence.value == "certain" and "made no progress" in finding.message and "torch/__init__.py" in finding.message


@pytest.mark.parametrize("body", [BUSY, READING, CHILD], ids=["computes", "reads", "waits for a child that computes"])
def test_something_moves(tmp_path: Path, body: str) -> None:
    finding = finding_of(tmp_path, body)
    assert finding.confidence.value == "likely" and "still at work" in finding.message and "may only be slow" in finding.message


def test_a_variable_that_slows_every_import(tmp_path: Path) -> None:
    finding = finding_of(tmp_path, BUSY, {"PYTHONTRACEMALLOC": "1"})
    assert finding.confidence.value == "likely" and "PYTHONTRACEMALLOC" in finding.message
    assert "PYTHONTRACEMALLOC" in str(finding.fixes)


@pytest.mark.parametrize("static", [False, True])
def test_a_finder_that_hangs_is_a_hanging_import(tmp_path: Path, static: bool) -> None:
    """A hook of a sitecustomize that does not come back where torch is only looked for: the import would not either."""
    fake_torch(tmp_path, "")
    hook = "import sys, time\nclass Finder:\n    def find_spec(self, name, *_):\n        time.sleep(3600 if name == 'torch' else 0)\n"
    (tmp_path / "sitecustomize.py").write_text(hook + "sys.meta_path.insert(0, Finder())\n")
    examined = examine(path=tmp_path, budget=Budget(8), static=static)
    facts = {name: examined.facts[name] for name in ("python", "packages", "torch")}
    report = report_on(Snapshot(**facts), rule_session())
    [finding] = [one.finding for one in report.findings if one.finding.rule == "torch-import-hangs"]
    assert finding.severity.value == "error" and "sitecustomize.py" in finding.message and "find_spec" in finding.message
    assert examined.facts["torch"].version == "2.15.0" and examined.ended.seconds < 7


def test_too_short_a_look_says_nothing() -> None:
    watch = Watch(os.getpid())
    watch.look()
    assert watch.activity() is None
    gone = Watch(2**22 + 1)
    gone.look()
    assert gone.activity() is None


def test_a_process_that_ends_between_two_looks() -> None:
    process = subprocess.Popen(["sleep", "0.7"])
    watch = Watch(process.pid)
    watch.look()
    process.wait(10)
    watch.look()
    assert watch.activity() is None


@needs_torch
@pytest.mark.torch
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("import ctypes; ctypes.string_at(0)", ["died with SIGSEGV", "sympy/__init__.py"]),
        pytest.param("raise ImportError('half of it is missing')", ["ImportError: half of it is missing"], marks=pytest.mark.slow),
        pytest.param("import time; time.sleep(3600)", ["did not end within", "sympy/__init__.py"], marks=pytest.mark.slow),
    ],
    ids=["crashes", "raises", "hangs"],
)
def test_what_ddp_imports_is_broken(tmp_path: Path, body: str, words: list[str]) -> None:
    """`import torch` works, torch._dynamo does not: a step with its own deadline, after which the ranks meet the fault themselves."""
    (tmp_path / "sympy").mkdir()
    (tmp_path / "sympy/__init__.py").write_text(body)
    examined = examine(path=tmp_path, live="quick", budget=Budget(60))
    facts = examined.facts
    assert facts["torch"].import_status.value == "ok" and facts["devices"].available is False
    assert "importing torch._dynamo" in (facts["live"].reason if isinstance(facts["live"], Missing) else facts["live"].start_reason)
    findings = [one.finding for one in report_on(Snapshot(**facts), rule_session()).findings]
    [finding] = [one for one in findings if one.severity.value == "error"]
    assert finding.rule == "torch-dynamo-broken" and all(word in finding.message for word in words), finding.message


@needs_torch
@pytest.mark.torch
def test_a_working_folder_that_was_deleted() -> None:
    """MKL ends the interpreter then; a torch without MKL imports well."""
    gone = 'mkdir gone && cd gone && rmdir ../gone && exec "$0" -m envcheck --live quick --json'
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["sh", "-c", gone, sys.executable], cwd=folder, capture_output=True, text=True, timeout=120,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )  # fmt: skip
    report = json.loads(done.stdout)
    assert report["facts"]["python"]["working_folder_gone"] == f"{folder}/gone"
    if report["facts"]["torch"]["import_status"] == "ok":
        pytest.skip("this torch does without a working folder")
    [finding] = [one for one in report["findings"] if one["rule"] == "torch-import-crashed"]
    assert f"{folder}/gone, has been deleted" in finding["message"] and done.returncode == 1


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [("'words that somebody left'", 1, "words that somebody left"), ("", 0, ""), ("3", 3, "3"), ("-1", 255, "-1"), ("[]", 1, "[]")],
    ids=["words", "nothing", "number", "negative", "list"],
)
def test_an_exit_of_the_import_as_a_shell_sees_it(tmp_path: Path, given: str, code: int, words: str) -> None:
    examined = examine(path=fake_torch(tmp_path, f"import sys\nsys.exit({given})"), budget=Budget(60))
    facts = {name: examined.facts[name] for name in ("python", "packages", "torch")}
    [finding] = [one.finding for one in report_on(Snapshot(**facts), rule_session()).findings if one.finding.rule == "torch-import-crashed"]
    assert f"with exit code {code}: " in finding.message
    assert words in [one.text for one in finding.evidence] if words else True
