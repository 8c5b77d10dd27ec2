"""Where a run listens and what it leaves: on loopback alone, and nothing."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from listeners import Watch, family, listening, own_addresses
from patients import HERE, NO_ISOLATION, examine, fake_torch, needs_torch

from envcheck.agent import isolation, jsonl, rank_start, temporary
from envcheck.collect import private_folder
from envcheck.facts.snapshot import LiveFacts, LiveStatus
from envcheck.target.process import Budget

FILTER = HERE / "faults" / "no_namespaces.py"
needs_isolation = pytest.mark.skipif(bool(NO_ISOLATION), reason=NO_ISOLATION)
needs_filter = pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64") or sys.platform != "linux", reason="needs seccomp")
EXPOSED = ["init-env", "init-tcp", "torchrun-standalone", "torchrun-c10d", "launch", "launch-use-env", "mpirun"]


@pytest.fixture
def tmp() -> Iterator[Path]:
    """A folder whose name is short enough for sockets (agent/temporary.py); that of tmp_path is not."""
    with tempfile.TemporaryDirectory(dir="/tmp" if os.name == "posix" else None) as folder:
        yield Path(folder)


@contextmanager
def running(tmp: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """`envcheck ARGUMENTS`, whose temporary files go to `tmp`."""
    env = {**os.environ, "TMPDIR": str(tmp), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "envcheck", *arguments]
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)


@needs_torch
@pytest.mark.torch
def test_a_default_run(tmp: Path) -> None:
    # A socket of the test itself shows that the watch sees them; those of a healthy run may live for less than one of its looks.
    with socket.create_server(("127.0.0.1", 0)), running(tmp) as process, Watch(os.getpid()) as watch:
        assert process.wait(170) == 0
    assert "0100007F" in watch.seen
    assert not watch.abroad.keys() - own_addresses()
    assert not list(tmp.iterdir())


def compiler_below(pid: int) -> bool:
    for one in family(pid):
        with suppress(OSError):
            if Path(f"/proc/{one}/comm").read_text().strip() == "cc1plus":
                return True
    return False


@pytest.mark.slow
@needs_torch
@pytest.mark.torch
@pytest.mark.skipif(not shutil.which("g++"), reason="there is no g++ whose files could stay")
def test_a_full_run_that_is_ended_while_a_compiler_works(tmp: Path) -> None:
    with running(tmp, "--live", "full") as process:
        limit = time.monotonic() + 170
        while not compiler_below(process.pid):
            assert process.poll() is None and time.monotonic() < limit, "no compiler was seen"
            time.sleep(0.05)
        process.terminate()
        assert process.wait(30) in (130, 128 + signal.SIGTERM)
    assert not list(tmp.iterdir())


# ---- what listens on every address


def without_namespaces(tmp_path: Path) -> str:
    """An interpreter that may make no namespaces."""
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FILTER}" "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    return str(script)


@needs_torch
@needs_filter
@pytest.mark.torch
def test_it_is_left_out_where_namespaces_are_refused(tmp_path: Path) -> None:
    mpirun = tmp_path / "mpirun"
    mpirun.write_text("#!/bin/sh\nexit 1\n")
    mpirun.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    names = [*EXPOSED, "init-file"]
    with Watch(os.getpid()) as watch:
        examined = examine(live="full", budget=Budget(600), parts=names, executable=without_namespaces(tmp_path), env=env)
    live = examined.facts["live"]
    assert isinstance(live, LiveFacts) and live.status is LiveStatus.PASS, live
    arms = {arm.name: arm for arm in live.arms}
    for name in EXPOSED:
        assert arms[name].status is LiveStatus.SKIPPED
        assert arms[name].reason.endswith("a network namespace is not allowed here: unshare: Operation not permitted")
        assert any(name in line and "every address of this machine" in line for line in live.not_proved)
    assert arms["init-file"].status is LiveStatus.PASS
    assert not watch.abroad.keys() - own_addresses()


@needs_isolation
def test_the_host_of_its_own(tmp_path: Path) -> None:
    """Its listeners are not ours, also if they listen everywhere; its files are."""
    host, why = isolation.make()
    assert host is not None and why == ""
    program = (
        "import os, socket; one = socket.socket(); one.bind(('', 0)); one.listen();"
        f"open({str(tmp_path / 'file')!r}, 'w').close();"
        "print(socket.gethostname(), [name for _, name in socket.if_nameindex()], os.geteuid(), flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1, text=True, preexec_fn=host.enter) as process:
        assert process.stdin and process.stdout
        name, _, rest = process.stdout.readline().partition(" ")
        assert name == "localhost" and "'lo'" in rest and rest.split()[-1] == str(os.geteuid())
        assert listening(process.pid) == {}
        assert (tmp_path / "file").stat().st_uid == os.geteuid()
        process.communicate("\n")
    host.close()
    assert socket.gethostname() == platform.node(), "we have stayed where we are"


@needs_filter
def test_why_there_is_none() -> None:
    program = "from envcheck.agent import isolation; print(isolation.make())"
    done = subprocess.run([sys.executable, FILTER, sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    why = "it listens on every address of this machine, and a network namespace is not allowed here: unshare: Operation not permitted"
    assert done.stdout.strip() == str((None, why)), done.stderr


def test_what_must_be_kept_apart_is_not_started_without_a_place(tmp_path: Path) -> None:
    plan = rank_start.Plan({"folder": str(tmp_path)}, jsonl.Writer(str(tmp_path / "x")), True, 1.0, 0.0)
    assert plan.home(False) is None
    with pytest.raises(OSError, match="every address"):
        rank_start.start_ranks(plan, {"name": "x", "store": "env://", "world_size": 2, "isolated": True}, [])


# ---- temporary files


@pytest.fixture
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.setenv(name, "")
    monkeypatch.setattr(tempfile, "tempdir", "/asked/before")


@pytest.mark.parametrize(
    ("theirs", "folder", "ours"),
    [
        ({}, "/tmp/envcheck-abcdefgh", ["TMPDIR"]),
        ({"TMPDIR": "HERE/"}, "HERE/envcheck-abcdefgh", ["TMPDIR"]),
        ({"TMP": "HERE"}, "HERE/envcheck-abcdefgh", ["TMPDIR"]),
        ({"TMPDIR": "/gone", "TEMP": "HERE"}, "HERE/envcheck-abcdefgh", ["TEMP", "TMP"]),
        ({"TMPDIR": "/gone"}, "/tmp/envcheck-abcdefgh", ["TEMP", "TMP"]),
        ({"TMPDIR": "/var/tmp"}, "/tmp/envcheck-abcdefgh", ["TMPDIR"]),  # no room in it, or others could have put a link in its place
        ({}, "/dev/shm/envcheck-abcdefgh", []),  # nothing else could be written: torch must meet the same
        ({"TMPDIR": "/gone"}, "/dev/shm/envcheck-abcdefgh", []),
        ({"TMPDIR": "LONG"}, "/tmp/envcheck-abcdefgh", ["TMPDIR"]),  # 69 bytes, room for sockets
        ({"TMPDIR": "LONG"}, "LONG/envcheck-abcdefgh", []),  # ours would have too long a name for them
    ],
)
def test_where_temporary_files_go(
    no_variables: None, monkeypatch: pytest.MonkeyPatch, tmp: Path, theirs: dict[str, str], folder: str, ours: list[str]
) -> None:
    long = tmp / ("x" * (68 - len(str(tmp))))
    long.mkdir()
    for name, value in theirs.items():
        monkeypatch.setenv(name, value.replace("HERE", str(tmp)).replace("LONG", str(long)))
    before, folder = dict(os.environ), folder.replace("HERE", str(tmp)).replace("LONG", str(long))
    temporary.keep_in(folder)
    assert {name: os.environ[name] for name in temporary.VARIABLES if os.environ[name] != before[name]} == dict.fromkeys(ours, folder)
    assert tempfile.tempdir == (None if ours or "LONG" in theirs.values() else "/asked/before")


def test_a_folder_that_is_too_long_for_sockets_is_as_long_in_ours(no_variables: None, monkeypatch: pytest.MonkeyPatch, tmp: Path) -> None:
    long, ours = tmp / ("x" * 80), tmp / "envcheck-abcdefgh"
    long.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    for _ in range(2):  # a rank that is started afresh asks again
        temporary.keep_in(str(ours))
        given = Path(os.environ["TMPDIR"])
        assert given.parent == ours and given.is_dir() and len(str(given)) == len(str(long))


# What torch.distributed.nn does at its import, and then what a deadline does.
MAKES = """
import os, signal, sys, tempfile
made = tempfile.TemporaryDirectory(prefix="{}")
print(made.name, file=sys.stderr, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("kind", ["long", "longer", "gone"])
def test_what_a_killed_import_has_made_is_gone(tmp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    theirs, word = tmp / ("x" * {"long": 45, "longer": 90, "gone": 1}[kind]), f"made-{uuid.uuid4().hex}-"
    if kind != "gone":
        theirs.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(theirs))
    ours = Path(private_folder())
    ours.rmdir()
    assert ours.parent == Path("/tmp")
    ended = examine(path=fake_torch(tmp_path, MAKES.format(word)), env={"TMPDIR": str(theirs)}, tmp=ours.parent).ended
    assert ended.signal == "SIGKILL" and word in ended.stderr
    assert not list(tmp.rglob(word + "*")) and not list(ours.parent.glob(word + "*"))


@needs_torch
@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("length", [40, 70])
def test_workers_of_a_loader_below_a_long_folder(tmp: Path, length: int) -> None:
    """Where sockets below TMPDIR have 107 bytes at most, those below our folder must not be longer."""
    long = tmp / ("x" * (length - len(str(tmp)) - 1))
    long.mkdir()
    live = examine(live="full", budget=Budget(600), parts=["dataloader"], tmp=long).facts["live"]
    left = [one.name for one in long.iterdir()]
    assert live.status is LiveStatus.PASS and {arm.name: arm.status for arm in live.arms}["dataloader"] is LiveStatus.PASS, live
    assert length > 60 or not left
