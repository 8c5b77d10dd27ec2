"""Whatever ends a check, at whatever moment: no process, temporary file, socket or shared memory is left; and ten checks at once.

`python -m pytest -m slow tests/commands/test_signals.py` (a quarter of an hour on two cores). Moments are drawn with a seed: ENVCHECK_SEED
draws others.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from patients import needs_torch

from envcheck.collect import private_folder
from envcheck.errors import ENDING_TOO, INTERRUPTING

ROOT = Path(__file__).parents[2]
SEED = int(os.environ.get("ENVCHECK_SEED", "15"))
MOMENTS = int(os.environ.get("ENVCHECK_MOMENTS", "50"))
LONGEST = float(os.environ.get("ENVCHECK_LONGEST", "6.0"))  # seconds: a quick check on a machine that does other things
LONGEST_FULL = float(os.environ.get("ENVCHECK_LONGEST_FULL", "60.0"))
# What a shell says of each. SIGKILL and what ends Python itself can leave no report and the folder, but no process.
ENDING = {number: 128 + number for name in (*INTERRUPTING, *ENDING_TOO) if (number := getattr(signal, name, None))}
FATAL = (signal.SIGABRT, signal.SIGKILL)

pytestmark = [
    needs_torch,
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc"),
]


def marked(word: str) -> list[str]:
    """Processes with this word in their environment: what a check started, whatever it is called."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            if word.encode() in Path(f"/proc/{name}/environ").read_bytes():
                state = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[0]
                found.append(f"{name} {state} {Path(f'/proc/{name}/cmdline').read_bytes()[:200]!r}")
    return found


def left_over(word: str, seconds: float = 15.0) -> list[str]:
    limit = time.monotonic() + seconds
    while (found := marked(word)) and time.monotonic() < limit:
        time.sleep(0.05)
    return found


def begin(folder: Path, word: str, *words: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "TMPDIR": str(folder), "HOME": str(folder), "ENVCHECK_TEST_MARK": word, "PYTHONDONTWRITEBYTECODE": "1"}
    with open(folder.parent / f"{folder.name}.out", "wb") as out:
        return subprocess.Popen([sys.executable, "-m", "envcheck", *words], stdout=out, stderr=out, cwd=ROOT, env=environment)


@pytest.fixture
def short() -> Iterator[Path]:
    """A name short enough for TMPDIR: below a longer one the private folder is made elsewhere, and nobody would look there."""
    with tempfile.TemporaryDirectory(prefix="sig", dir="/tmp") as folder:
        yield Path(folder)


def test_the_private_folder_lies_where_it_is_looked_for(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (short / "49").mkdir()
    monkeypatch.setenv("TMPDIR", str(short / "49"))
    monkeypatch.setattr(tempfile, "tempdir", None)  # asked before
    assert Path(private_folder()).parent == short / "49"


@pytest.mark.parametrize("number", [*ENDING, *FATAL], ids=lambda number: number.name)
def test_a_signal_at_any_moment(number: signal.Signals, short: Path) -> None:
    at_any_moment(number, short, LONGEST)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL], ids=lambda number: number.name)
def test_a_signal_at_any_moment_of_the_full_check(number: signal.Signals, short: Path) -> None:
    """Launchers, compilers and checkpoints are under way then. What a killed one has begun to write is in its folder, and stays."""
    at_any_moment(number, short, LONGEST_FULL, "--live", "full")


def at_any_moment(number: signal.Signals, short: Path, longest: float, *words: str) -> None:
    rng = random.Random(SEED * 100 + number)  # noqa: S311
    shared = set(os.listdir("/dev/shm"))
    wrong: list[str] = []
    for turn, at in enumerate(sorted(rng.uniform(0.0, longest) for _ in range(MOMENTS))):
        word, folder = uuid.uuid4().hex, short / str(turn)
        folder.mkdir()
        one = begin(folder, word, *words)
        time.sleep(at)
        one.send_signal(number)
        code = one.wait(60)
        told = (short / f"{folder.name}.out").read_text("utf-8", "replace")
        if code not in (0, -number, ENDING.get(number)):  # 0: it was over before
            wrong.append(f"{at:.3f} s: exit code {code}: {told[-300:]}")
        if number in ENDING and code == ENDING[number] and "Traceback" in told:
            wrong.append(f"{at:.3f} s: a traceback: {told[-300:]}")
        if processes := left_over(word):
            wrong.append(f"{at:.3f} s: {processes}")
        # What ends Python itself cannot be cleaned up after; before main() nothing has been made.
        if number in ENDING and (files := os.listdir(folder)):
            wrong.append(f"{at:.3f} s: {files}")
    assert not wrong, "\n".join(wrong)
    assert not {name for name in set(os.listdir("/dev/shm")) - shared if name.startswith(("envcheck", "torch_", "nccl-"))}


def test_ten_checks_at_once(short: Path, tmp_path: Path) -> None:
    """Each says what one alone would, and none takes another's processes or files for its own."""
    word, shared = uuid.uuid4().hex, set(os.listdir("/dev/shm"))
    folders = [short / f"check-{number}" for number in range(10)]
    for folder in folders:
        folder.mkdir()
    running = [begin(folder, word, "--json", "--timeout", "300", "-o", str(tmp_path / f"{folder.name}.json")) for folder in folders]
    codes = [one.wait(400) for one in running]
    reports = [json.loads((tmp_path / f"{folder.name}.json").read_text()) for folder in folders]
    assert codes == [0] * 10, [report["live"]["reason"] for report in reports]
    assert all({arm["status"] for arm in report["live"]["arms"]} == {"pass"} for report in reports)
    assert not left_over(word)
    assert [os.listdir(folder) for folder in folders] == [[]] * 10
    assert not {name for name in set(os.listdir("/dev/shm")) - shared if name.startswith(("envcheck", "torch_", "nccl-"))}
