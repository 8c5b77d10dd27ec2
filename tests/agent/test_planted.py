"""What the code under test puts where envcheck reads: pipes that nobody writes to, devices without end, links to other people's files."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from patients import SOON, examine, fake_torch

from envcheck.host.access import RealHost
from envcheck.host.plain_files import pyvenv_rows
from envcheck.target.process import Budget

FAULTS = Path(__file__).parents[1] / "faults"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pipes, /dev/zero and system calls of Linux")

PLANT = """
import json, os, sys
path = os.path.join(json.loads(sys.argv[1])["folder"], {name!r})
if os.path.exists(path):
    os.unlink(path)
{how}
os._exit({code})
"""
HOW = {
    "pipe": "os.mkfifo(path)",
    "device": "os.symlink('/dev/zero', path)",
    "folder": "os.mkdir(path)",
    "link": "os.symlink({mine!r}, path)",
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", ["agent.jsonl", "agent.out", "agent.err", "agent.stack"])
def test_in_the_private_folder(name: str, how: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("KEPT")
    planted = PLANT.format(name=name, how=HOW[how].format(mine=str(mine)), code=3)
    began = time.monotonic()
    seen = examine(path=fake_torch(tmp_path / "site", planted), budget=Budget(20))
    assert time.monotonic() - began < SOON
    assert seen.ended.code == 3 and mine.read_text() == "KEPT"
    assert "KEPT" not in seen.ended.stderr + seen.ended.stack


def without_roots_rights() -> None:
    """A root whose own files are closed to him where their mode says so, as they are to everybody else."""
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        ctypes.CDLL(None).prctl(24, capability)  # PR_CAPBSET_DROP


@pytest.mark.parametrize("mask", [0o777, 0o177], ids=oct)
def test_a_umask_that_takes_files_from_their_owner(mask: int, tmp_path: Path) -> None:
    body = "import os\nos.mkdir(os.path.join(os.environ['TMPDIR'], 'made'))\nos.chmod(os.path.join(os.environ['TMPDIR'], 'made'), 0)\n1/0"
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        environment = {**os.environ, "TMPDIR": folder, "PYTHONPATH": f"{fake_torch(tmp_path / 'site', body)}:{FAULTS.parents[1]}"}
        words = [sys.executable, "-m", "envcheck", "--json", "--evidence", f"{folder}/a/b"]
        done = subprocess.run(
            words,
            env=environment,
            capture_output=True,
            text=True,
            timeout=2 * SOON,
            umask=mask,
            preexec_fn=without_roots_rights,
            check=False,
        )
        assert "ZeroDivisionError" in done.stdout and "evidence kept" in done.stderr, done.stdout + done.stderr
        assert os.listdir(folder) == ["a"]


SHARES = """
import os, time
from multiprocessing import shared_memory
kept = shared_memory.SharedMemory({name!r}, create=True, size=1 << 16)
{how}
"""


@pytest.mark.parametrize("how", ["1/0", "os.abort()", "os.fork() or time.sleep(600)\ntime.sleep(600)"], ids=["fails", "dies", "hangs"])
def test_shared_memory_that_an_import_leaves_is_removed_by_its_own_keeper(how: str, tmp_path: Path) -> None:
    """multiprocessing's resource tracker does so when everybody else has ended; killed with them it did not."""
    name = f"envcheck-test-{os.getpid()}-{len(how)}"
    seen = examine(path=fake_torch(tmp_path / "site", SHARES.format(name=name, how=how)), budget=Budget(3))
    assert not os.path.exists(f"/dev/shm/{name}") and "resource_tracker" not in seen.ended.stderr


REMOVE = """
import json, os, shutil, sys
folder = json.loads(sys.argv[1])["folder"]
shutil.rmtree(folder)
{how}
"""


@pytest.mark.parametrize("how", ["", "open(folder, 'w').close()", "os.symlink(os.environ['MINE'], folder)"], ids=["gone", "file", "link"])
def test_in_the_place_of_the_private_folder(how: str, tmp_path: Path) -> None:
    """Also what a cleaner of old files does; nothing is said of the target then, and nothing stays."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious").write_text("KEPT")
    site = fake_torch(tmp_path / "site", REMOVE.format(how=how))
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        environment = {**os.environ, "TMPDIR": folder, "PYTHONPATH": f"{site}:{FAULTS.parents[1]}", "MINE": str(tmp_path / "mine")}
        words = [sys.executable, "-m", "envcheck", "--live", "off"]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=2 * SOON, check=False)
        left = os.listdir(folder)
    assert done.returncode == 2 and "was removed meanwhile" in done.stderr, done.stdout + done.stderr
    assert left == [] and (tmp_path / "mine" / "precious").read_text() == "KEPT"


def test_a_torch_that_limits_the_size_of_files(tmp_path: Path) -> None:
    limited = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\nraise ImportError('x')\n"
    torch = examine(path=fake_torch(tmp_path / "site", limited), budget=Budget(20)).facts["torch"]
    assert (torch.import_status.value, torch.import_failure.type) == ("error", "OSError") and "ulimit -f" in torch.import_failure.text


@pytest.mark.parametrize(
    ("words", "code"),
    [("diagnose /dev/null", 3), ("diagnose - < /dev/null", 3), ("explain disk-full > /dev/null", 0)],
)
def test_the_device_that_holds_nothing(words: str, code: int) -> None:
    done = subprocess.run(["sh", "-c", f"{sys.executable} -m envcheck {words}"], capture_output=True, text=True, check=False)
    assert done.returncode == code and "Traceback" not in done.stderr and "bug" not in done.stderr, done.stderr


def test_pipes_that_do_not_wait() -> None:
    """A shell that an event loop started hands such ones down: an empty one is no end, a full one no failure."""
    (read, send), (out, into) = os.pipe(), os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(into, False)
    with subprocess.Popen([sys.executable, "-m", "envcheck", "diagnose", "-", "--json"], stdin=read, stdout=into) as running:
        os.close(read)
        os.close(into)
        time.sleep(0.6)
        os.write(send, b"RuntimeError: CUDA error: no kernel image is available for execution on the device\n" * 400)
        os.close(send)
        time.sleep(0.3)
        with open(out, encoding="utf-8") as file:
            report = json.loads(file.read())
        assert running.wait(60) == report["exit_code"]
    assert "gpu-too-new-for-torch" in {one["rule"] for one in report["findings"]}


def test_in_the_place_of_what_is_read_of_an_environment(tmp_path: Path) -> None:
    site = fake_torch(tmp_path / "site", "__version__ = '2.15.0'\n")
    info = next(site.glob("torch-*.dist-info"))
    for name in ("RECORD", "INSTALLER"):
        (info / name).unlink()
        os.mkfifo(info / name)
    other = site / "numpy-1.26.4.dist-info"
    other.mkdir()
    os.mkfifo(other / "METADATA")
    began = time.monotonic()
    seen = examine(path=site, static=True, budget=Budget(20))
    assert time.monotonic() - began < SOON and seen.ended.finished


def test_in_the_place_of_a_configuration_of_python(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pyvenv.cfg")
    assert pyvenv_rows(str(tmp_path)) == []
    assert RealHost().read(str(tmp_path / "pyvenv.cfg")) is None
    assert RealHost().read("/dev/zero") is None
    (tmp_path / "large").mkdir()
    (tmp_path / "large" / "pyvenv.cfg").write_text("#\n" * (1 << 19) + "uv = 1\n")
    assert "uv" not in dict(pyvenv_rows(str(tmp_path / "large"))), "no more is read than such a file holds"


@pytest.fixture(scope="module")
def filtered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc")
    if compiler is None or platform.machine() != "x86_64":
        pytest.skip("needs gcc, and the numbers are those of x86_64")
    program = tmp_path_factory.mktemp("filtered") / "filtered"
    subprocess.run([compiler, "-o", str(program), str(FAULTS / "filtered.c")], check=True)
    if subprocess.run([str(program), "999", "1", "true"], check=False).returncode:
        pytest.skip("no seccomp filter may be set here")
    return program


@pytest.mark.parametrize(
    ("numbers", "error", "code"),
    [
        pytest.param("7,271,232,281", 1, 0, id="poll and epoll"),
        pytest.param("160,302", 1, 0, id="setrlimit"),
        pytest.param("434,424", 38, 0, id="pidfd"),
        pytest.param("203,204", 38, 0, id="sched_getaffinity"),
        pytest.param("77,285", 1, 0, id="fallocate"),
        pytest.param("157,332", 38, 0, id="prctl and statx"),
        pytest.param("435,56,57,58", 11, 2, id="no more processes and threads"),
        pytest.param("13", 1, 2, id="rt_sigaction, without which the target does not start"),
        pytest.param("73", 38, 0, id="flock"),
        pytest.param("8", 1, 3, id="lseek"),
    ],
)
def test_a_filter_of_system_calls_costs_no_report_and_leaves_nothing(
    numbers: str, error: int, code: int, filtered: Path, tmp_path: Path
) -> None:
    words = [str(filtered), numbers, str(error), sys.executable, "-m", "envcheck", "--static", "--fail-on", "never"]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=2 * SOON, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert "internal error" not in done.stderr and "Traceback" not in done.stderr
    assert os.listdir(tmp_path) == []
