"""What the door to the operating system promises of every command that goes through it."""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from patients import SOON

from envcheck.cli import main
from envcheck.collect import private_folder
from envcheck.commands.check import _check_output
from envcheck.errors import UsageError
from envcheck.facts import dead_mount
from envcheck.facts.snapshot import SystemFacts
from envcheck.host import access
from envcheck.host.access import RealHost, run_command
from envcheck.host.orphans import end_all
from envcheck.host.ownership import path_for_root
from envcheck.options import parse
from envcheck.probes.system import probe
from envcheck.target.interpreter import choose

PATH = os.environ["PATH"]


@pytest.mark.parametrize("theirs", [{}, {"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8"}], ids=["no locale", "a German user"])
def test_commands_speak_english_whatever_the_user_speaks(theirs: dict[str, str]) -> None:
    host = RealHost({"PATH": PATH, **theirs})
    assert host.run(("sh", "-c", 'echo "$LC_ALL"'), timeout=30).stdout == "C\n"


def test_a_command_gets_the_hosts_variables_and_its_own_on_top(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_TOOL", "1")
    host = RealHost({"PATH": PATH, "OF_THE_HOST": "1", "BOTH": "host"})
    shown = host.run(("env",), timeout=30, env={"BOTH": "command"}).stdout.splitlines()
    assert {"OF_THE_HOST=1", "BOTH=command", "LC_ALL=C"} <= set(shown) and "OF_THE_TOOL=1" not in shown


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="for root alone")
def test_root_runs_no_program_out_of_a_folder_of_everybody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`PATH=.:/scratch/bin:…` as root in a prolog: who can write there would be root."""
    for name, mode in (("working", 0o755), ("scratch", 0o777), ("sticky", 0o1777), ("ours", 0o755)):
        program = tmp_path / name / "nvidia-smi"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\necho {name}\n")
        program.chmod(0o755)
        program.parent.chmod(mode)
    (tmp_path / "scratch" / "below").mkdir()  # who can write above it can put another folder there
    (tmp_path / "sticky" / "theirs" / "bin").mkdir(parents=True)  # the sticky bit leaves it theirs
    os.chown(tmp_path / "sticky" / "theirs", 65534, 65534)
    (tmp_path / "sticky" / "own").mkdir()
    os.chown(tmp_path / "sticky" / "own", 65534, 65534)
    (tmp_path / "link").symlink_to("sticky/theirs/bin")
    monkeypatch.chdir(tmp_path / "working")
    open_to_others = ("scratch", "sticky", "scratch/below", "sticky/theirs/bin", "sticky/own", "link")
    entries = [".", "", "relative", *(str(tmp_path / name) for name in (*open_to_others, "ours", "not-there"))]
    host = RealHost({"PATH": ":".join(entries)})
    assert host.env["PATH"] == f"{tmp_path}/ours:{tmp_path}/not-there"
    assert host.which("nvidia-smi") == f"{tmp_path}/ours/nvidia-smi"
    assert host.run(("nvidia-smi",), timeout=10).stdout == "ours\n"
    left_out = probe(host)
    assert isinstance(left_out, SystemFacts)
    assert left_out.path_left_out == (".", "", "relative", *(f"{tmp_path}/{name}" for name in open_to_others))
    ours = probe(RealHost({"PATH": f"{tmp_path}/ours"}))
    assert isinstance(ours, SystemFacts) and ours.path_left_out == ()
    nothing_left = RealHost({"PATH": f".:{tmp_path}/scratch"})
    assert nothing_left.which("nvidia-smi") is None and nothing_left.run(("nvidia-smi",), timeout=10).not_found


@pytest.fixture
def dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A mount whose server is gone: each question about it waits. A question that nobody may wait for fails the test instead."""
    folder, asked, end = tmp_path / "dead", os.stat, threading.Event()

    def stat(path: Any, *rest: Any, **more: Any) -> os.stat_result:
        if f"{path}/".startswith(f"{folder}/"):
            assert threading.current_thread().name == "answers", "the whole check would wait here"
            end.wait()
        return asked(path, *rest, **more)

    monkeypatch.setattr(os, "stat", stat)
    monkeypatch.setattr(dead_mount, "ANSWER_SECONDS", 0.05)
    yield folder
    end.set()


def test_a_mount_that_does_not_answer_is_not_waited_for(dead: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0, raising=False)
    host = RealHost({"PATH": f"{dead}/bin:/usr/bin"})
    assert host.env["PATH"] == "/usr/bin" and "path_left_out" not in host.platform()
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(dead))
    assert not private_folder_removed().startswith(str(dead))
    with pytest.raises(UsageError, match="does not answer"):
        choose(f"{dead}/bin/python", {})
    with pytest.raises(UsageError, match="does not answer"):
        _check_output(parse(["-o", f"{dead}/report.html"]))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    (tmp_path / "uv-receipt.toml").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="no environment to examine"):
        choose(None, {"VIRTUAL_ENV": f"{dead}/venv", "PATH": f"{dead}/bin", "HOME": str(tmp_path), "PYENV_ROOT": f"{dead}/pyenv"})


def test_a_mount_is_waited_for_once(dead: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each further question would take its two seconds and leave another thread behind; one below it is the same question."""
    host = RealHost({})
    assert not dead_mount.answers(str(dead))
    monkeypatch.setattr(dead_mount, "ANSWER_SECONDS", SOON)
    before = threading.active_count()
    assert not dead_mount.answers(str(dead)) and not dead_mount.answers("/", f"{dead}/.local/lib")
    assert host.read(f"{dead}/.nccl.conf") is None
    assert threading.active_count() == before
    assert dead_mount.answers(str(dead.parent), f"{dead}line"), "its name only begins as that one's"


def test_a_mount_that_answers_late_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, let = os.stat, threading.Event()
    monkeypatch.setattr(os, "stat", lambda path, *rest, **more: (str(path) != str(tmp_path) or let.wait()) and asked(path, *rest, **more))
    monkeypatch.setattr(dead_mount, "ANSWER_SECONDS", 0.05)
    assert not dead_mount.answers(str(tmp_path))
    let.set()
    for one in threading.enumerate():
        if one.name == "answers":
            one.join(SOON)
    assert dead_mount.answers(str(tmp_path))


@pytest.mark.parametrize("line", ["diagnose {}", "--facts {}", "plan -r {}", "--config {}"])
def test_a_named_file_on_a_mount_that_does_not_answer_is_refused(dead: Path, capsys: pytest.CaptureFixture[str], line: str) -> None:
    assert main(line.format(f"{dead}/file").split()) == 2
    assert "the file system that it is on does not answer" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="modes of folders")
def test_a_folder_that_anybody_can_still_make_does_not_count_for_root(tmp_path: Path) -> None:
    (tmp_path / "sticky").mkdir()
    (tmp_path / "sticky").chmod(0o1777)
    made = f"{tmp_path}/sticky/not-there/bin"
    assert path_for_root(f"{made}:{tmp_path}/not-there:/usr/bin")[1] == (made,)


def private_folder_removed() -> str:
    folder = private_folder()
    os.rmdir(folder)
    return folder


@pytest.mark.skipif(not hasattr(select, "poll"), reason="pipes are waited for")
def test_what_a_program_says_needs_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a quota or a full disk lets no file be made."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    assert run_command(["echo", "said"], timeout=SOON).stdout == "said\n"
    descriptors = []

    def pipe() -> tuple[int, int]:
        if descriptors:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        descriptors.extend(made())
        return descriptors[0], descriptors[1]

    made = os.pipe
    monkeypatch.setattr(os, "pipe", pipe)
    done = run_command(["echo", "said"], timeout=SOON)
    assert done.not_executable and not done.not_found and "no place for what it prints" in done.stderr
    for one in descriptors:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(one)


@pytest.mark.skipif(not hasattr(select, "poll"), reason="pipes are waited for")
@pytest.mark.parametrize("without", ["nothing", "pidfd_open"])
def test_a_command_is_not_waited_for_because_another_process_holds_its_output(monkeypatch: pytest.MonkeyPatch, without: str) -> None:
    monkeypatch.delattr(os, without, raising=False)
    done = run_command(["sh", "-c", "echo said; echo more >&2; exec 9>&1; (setsid sleep 2 >&9 &)"], timeout=SOON)
    assert (done.code, done.stdout, done.stderr) == (0, "said\n", "more\n") and done.seconds < 1.5
    late = run_command(["sh", "-c", "echo said; exec sleep 60"], timeout=0.2)
    assert late.timed_out and late.stdout == "said\n"


@pytest.mark.skipif(sys.platform != "linux", reason="prlimit is Linux's")
def test_what_a_tool_has_started_before_it_gets_its_limits_has_them_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = access.bound

    def late(process: subprocess.Popen[bytes], file_limit: int | None = None) -> None:
        time.sleep(0.2)
        given(process, file_limit)

    monkeypatch.setattr(access, "bound", late)
    endless = run_command(["sh", "-c", "yes AAAAAAAAAAAAAAAAAAAAAAAA & exec sleep 60"], timeout=1.5)
    assert endless.code == -signal.SIGXFSZ and len(endless.stdout) == access.READ_LIMIT
    monkeypatch.setattr(access, "FILE_LIMIT", 1 << 20)
    run_command(["sh", "-c", f"(sleep 0.4; head -c 4M /dev/zero > {tmp_path}/file) & wait"], timeout=SOON)
    assert (tmp_path / "file").stat().st_size == 1 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_what_removes_shared_memory_is_waited_for_as_long_as_torchs_needs(tmp_path: Path) -> None:
    """Killed after a second, it left the segments of a dead process in /dev/shm for good."""
    segment = tmp_path / "torch_1_2_0"
    segment.touch()
    keeper = subprocess.Popen(["sh", "-c", f"sleep 1.6; rm '{segment}'", "torch_shm_manager"], start_new_session=True)
    end_all(lambda: [] if keeper.poll() is not None else [keeper.pid])
    assert not segment.exists()
