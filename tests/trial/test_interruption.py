"""Signals during a trial: at whatever moment they come, folder and processes are gone, and the exit code names the first."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from patients import SOON, all_gone
from trial_wheels import index, variables, wheel

from envcheck.trial import cache_rest
from envcheck.trial.interruption import Interruption

PROGRAM = """
import os, sys, time
from envcheck.planner.result import Commands
from envcheck.trial.installer import find_installer
from envcheck.trial.trial import Attempt, Bench, Checked, run_trial
from envcheck.cli import _leaving_once

def check(python, variables, seconds):
    open(os.environ["SIGN"], "w").close()
    time.sleep(60)

bench = Bench(find_installer("uv", sys.executable, os.environ), check, lambda question: True, time.monotonic() + 100)
with _leaving_once():
    run_trial(Attempt("demo", Commands(uv=(sys.argv[1],))), bench)
"""


def start(tmp_path: Path, line: str) -> subprocess.Popen[str]:
    env = variables(tmp_path, SIGN=str(tmp_path / "sign"))
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(PROGRAM), line], env=env, stderr=subprocess.PIPE, text=True)


def until(happened: object, seconds: float = SOON) -> None:
    limit = time.monotonic() + seconds
    while not happened():  # type: ignore[operator]
        assert time.monotonic() < limit
        time.sleep(0.02)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.parametrize("moment", ["resolving", "examining"])
def test_nothing_is_left(tmp_path: Path, number: signal.Signals, code: int, moment: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = (
            index(tmp_path / "simple", wheel(tmp_path, "demo", "1.0"))
            if moment == "examining"
            else f"http://127.0.0.1:{silent.getsockname()[1]}/x"
        )
        running = start(tmp_path, f"uv pip install demo --index-url {url}")
        mark = str(tmp_path / "tmp" / f"envcheck-try-{running.pid}")
        if moment == "examining":
            until((tmp_path / "sign").exists)
        else:
            silent.settimeout(SOON)
            held, _ = silent.accept()  # and never answered
        assert os.listdir(tmp_path / "tmp")
        running.send_signal(number)
        time.sleep(0.02)
        running.send_signal(signal.SIGTERM)  # the second one must not cut the cleaning short
        _, said = running.communicate(timeout=SOON)
        if moment == "resolving":
            held.close()
    # An uncaught KeyboardInterrupt ends a Python by SIGINT; the second signal may come when all is done.
    assert running.returncode in (code, -signal.SIGTERM), said
    assert os.listdir(tmp_path / "tmp") == []
    assert all_gone(mark)


def test_what_uv_was_unpacking_goes_from_its_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".lock").touch()
    (tmp_path / ".tmpOld").mkdir()
    rest = cache_rest.CacheRest(str(tmp_path))
    for name in (".tmpNew/torch", "archive-v0"):
        (tmp_path / name).mkdir(parents=True)
    at_work = iter([True, False])
    monkeypatch.setattr(cache_rest, "_uv_runs", lambda: next(at_work))
    rest.clear()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", ".tmpOld", "archive-v0"]


def test_where_another_uv_is_at_work_its_folders_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    monkeypatch.setattr(cache_rest, "PATIENCE_SECONDS", 0.1)
    rest = cache_rest.CacheRest(str(tmp_path))
    (tmp_path / ".tmpNew").mkdir()
    with open(tmp_path / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        monkeypatch.setattr(cache_rest, "_uv_runs", lambda: False)
        rest.clear()
        assert (tmp_path / ".tmpNew").exists()
    monkeypatch.setattr(cache_rest, "_uv_runs", lambda: True)
    rest.clear()
    assert (tmp_path / ".tmpNew").exists()


def test_the_first_signal_raises_and_the_next_ones_wait() -> None:
    reached = []
    with pytest.raises(KeyboardInterrupt), Interruption():
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            reached.append("cleaned up")
    assert reached == ["cleaned up"]


def test_a_signal_during_the_cleaning_up_is_told_after_it() -> None:
    reached = []
    with pytest.raises(KeyboardInterrupt), Interruption() as interruption:
        interruption.hold = True
        os.kill(os.getpid(), signal.SIGINT)
        reached.append("cleaned up")
    assert reached == ["cleaned up"]


def test_what_is_ignored_stays_ignored_and_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    old = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interruption():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, old)
    assert signal.getsignal(signal.SIGINT) is before
