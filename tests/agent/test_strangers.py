"""Local processes that are no part of the check, at its sockets: they neither fail nor pass it, and where they could, it says so."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from patients import HERE, NO_ISOLATION, needs_torch

from envcheck.agent import strangers

FAULTS = HERE / "faults"
linux = pytest.mark.skipif(sys.platform != "linux", reason="connections are read from /proc")


@contextmanager
def stranger(what: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    one = subprocess.Popen([sys.executable, str(FAULTS / "stranger.py"), what, str(log)], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while not log.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        yield one
    finally:
        one.kill()
        one.wait()


def check(private: bool, environment: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    before = [] if private else [str(FAULTS / "no_namespaces.py")]
    command = [sys.executable, *before, *([] if private else [sys.executable]), "-m", "envcheck", "--json", "--timeout", "150"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env={**os.environ, **(environment or {})})
    return done.returncode, json.loads(done.stdout)


PRIVATE = pytest.param(True, id="private", marks=pytest.mark.skipif(bool(NO_ISOLATION), reason=NO_ISOLATION))


@linux
@needs_torch
@pytest.mark.torch
@pytest.mark.parametrize("private", [PRIVATE, pytest.param(False, id="no namespaces")])
@pytest.mark.parametrize("what", ["fail", *(pytest.param(one, marks=pytest.mark.slow) for one in ("join", "read", "pass"))])
def test_a_healthy_machine_is_not_called_broken(what: str, private: bool, tmp_path: Path) -> None:
    with stranger(what, tmp_path / "log") as one:
        code, report = check(private)
    reached = (tmp_path / "log").read_text()
    arms = {arm["name"]: arm for arm in report["live"]["arms"]}
    assert code in (0, 3), (report["findings"], reached)
    assert not [found for found in report["findings"] if found["severity"] == "error"]
    if private:
        assert arms["gloo-loopback"]["status"] == "pass", (arms["gloo-loopback"], reached)
        assert "\nstore " not in reached and "\nread " not in reached, "its store is where nobody else is"
    told = f"(process {one.pid}) was connected to the ranks", strangers.UNSEEN
    for arm in arms.values():
        assert arm["status"] == "pass" or any(words in arm["reason"] for words in told), (arm, reached)


@linux
@needs_torch
@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("private", [PRIVATE, pytest.param(False, id="no namespaces")])
def test_a_broken_one_does_not_pass(private: bool, tmp_path: Path) -> None:
    broken = {"PYTHONPATH": str(FAULTS / "torch_patches"), "ENVCHECK_FAULT": "off-by-one"}
    with stranger("pass", tmp_path / "log"):
        code, report = check(private, broken)
    assert code == 1 if private else code in (1, 3), report["live"]["reason"]


@linux
@needs_torch
@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root becomes another user")
@pytest.mark.parametrize("private", [PRIVATE, pytest.param(False, id="no namespaces")])
def test_an_ordinary_user_does_nothing_to_it(private: bool) -> None:
    """Everything at once, for as long as two checks last. Its Python is the system's: ours may lie where it may not look."""
    program = [shutil.which("python3", path="/usr/bin:/bin") or sys.executable, str(FAULTS / "ordinary_user.py"), "54321"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as one:
        try:
            assert one.stdout and one.stdout.readline() == "ready\n"
            for _ in range(2):
                code, report = check(private)
                assert code in ((0,) if private else (0, 3)), (report["because"], report["findings"])
                assert not [found for found in report["findings"] if found["severity"] == "error"]
            told, _ = one.communicate("end", timeout=60)
        finally:
            one.kill()
    assert (one.returncode, told) == (0, "nothing\n")


def connected() -> tuple[socket.socket, socket.socket, socket.socket]:
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    return server, client, server.accept()[0]


@linux
def test_who_counts_as_a_stranger(tmp_path: Path) -> None:
    """Our own other end does not; a process that holds its end does, and is named."""
    server, client, accepted = connected()
    with server, client, accepted:
        watch = strangers.Watch()
        watch.look([os.getpid()])
        assert not watch.seen and len(watch.ports) >= 1
        port = server.getsockname()[1]
        program = f"import socket, time; one = socket.create_connection(('127.0.0.1', {port})); print('there', flush=True); time.sleep(60)"
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as other:
            assert other.stdout and other.stdout.readline() == b"there\n"
            for _ in range(3):  # on a busy machine the question who it is may run out of time
                watch.look([os.getpid()], last=True)
            other.kill()
        assert watch.words().endswith(f" (process {other.pid})")


COMES = """import socket, struct, sys
one = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
one.send(bytes(8))
if sys.argv[2] == "reset":
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
"""


@linux
@pytest.mark.parametrize("how", ["closed", "reset"])
def test_who_comes_and_goes_between_two_looks_is_known_by_what_the_kernel_kept(how: str) -> None:
    """A closed connection stays in the table for a minute; of one that was reset nothing stays but a count."""
    watch = strangers.Watch()
    watch.lasting = True
    watch.begin()
    server, client, accepted = connected()
    with server, client, accepted:
        watch.look([os.getpid()], last=True)
        assert not watch.others_came() and len(watch.taken) == 1
        subprocess.run([sys.executable, "-c", COMES, str(server.getsockname()[1]), how], check=True, timeout=60)
        with server.accept()[0] as other, suppress(ConnectionResetError):
            while other.recv(64):
                pass
        watch.look([os.getpid()], last=True)
        assert watch.words() == ("a process that had gone again" if how == "closed" else "")
        assert watch.others_came()
        watch.lasting = False  # ranks' own connections come and go as well: no proof any more, but a reason to try again
        assert watch.may_have_come() and not watch.others_came()


@linux
def test_while_nobody_connects_the_table_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel goes through all places of its table for each question."""
    counts, looks = iter([7] * 30 + [8] * 30), []
    monkeypatch.setattr(strangers, "passive_opens", lambda: next(counts))
    monkeypatch.setattr(strangers, "table", lambda: looks.append(1) or [])
    watch = strangers.Watch(share=0)
    for number in range(60):
        watch.look([])
        assert len(looks) == min(number + 1, 1 + strangers.MORE) if number < 30 else len(looks) > 1 + strangers.MORE
    assert len(looks) == 2 * (1 + strangers.MORE)


@linux
def test_who_comes_to_another_listener_of_the_machine_is_no_stranger() -> None:
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        program = "import socket, sys; one = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); print(one.recv(9))"
        watch = strangers.Watch()
        watch.lasting = True
        watch.begin()
        with subprocess.Popen([sys.executable, "-c", program, str(elsewhere.getsockname()[1])], stdout=subprocess.PIPE) as one:
            accepted = elsewhere.accept()[0]
            watch.look([], last=True)
            accepted.close()
            one.communicate(timeout=60)
        watch.look([], last=True)
        assert not watch.seen and not watch.others_came()


@linux
def test_a_connection_that_nobody_accepted_explains_none_that_was() -> None:
    """Nor does one count twice: so strangers paid for those that they had reset."""
    listening = [("0100007F:1111", "00000000:0000", "0A", "1", "0"), ("0100007F:2222", "00000000:0000", "0A", "2", "0")]
    rows = {
        1: [("0100007F:1111", "0100007F:9999", "01", "3", "0"), ("0100007F:9999", "0100007F:1111", "01", "4", "0")],
        0: [("0100007F:1111", "0100007F:2222", "01", "3", "0"), ("0100007F:2222", "0100007F:1111", "01", "4", "0")],
    }
    for explained, pair in rows.items():
        watch = strangers.Watch()
        watch.look_elsewhere([*listening, *pair])
        watch.look_elsewhere([*listening, *reversed(pair)])
        assert len(watch.elsewhere) == explained
    watch = strangers.Watch()
    watch.look_elsewhere([*listening, ("0100007F:1111", "0100007F:1111", "01", "3", "0")])
    assert not watch.elsewhere


def test_what_they_may_have_caused_is_no_verdict() -> None:
    watch = strangers.Watch()
    failed: dict[str, object] = {"status": "fail", "reason": "rank 0: x", "ranks": [1], "seconds": 1.0}
    late: dict[str, object] = {**failed, "status": "inconclusive", "reason": "the time for the live check ran out in the stage init"}
    assert strangers.doubted(late, watch) == late
    assert strangers.doubted(failed, watch) == failed
    watch.seen["0100007F:1234"] = "python3 (process 12)"
    words = "python3 (process 12) was connected to the ranks meanwhile, and may have caused what went wrong"
    assert strangers.doubted(failed, watch) == {"status": "inconclusive", "reason": words, "ranks": [], "seconds": 1.0}
    assert strangers.doubted(late, watch) == strangers.doubted(failed, watch)
    passed: dict[str, object] = {**failed, "status": "pass"}
    assert strangers.doubted(passed, watch) == passed


@linux
def test_a_busy_node_is_not_looked_at_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    monkeypatch.setattr(strangers, "table", lambda: looks.append(1) or time.sleep(0.02) or [])
    watch, until = strangers.Watch(), time.monotonic() + 1.0
    while time.monotonic() < until:
        watch.look([])
    assert 2 <= len(looks) <= 6


def test_an_address_in_the_clothes_of_ipv6() -> None:
    assert strangers.plain("0000000000000000FFFF00000100007F:1F90") == strangers.plain("0100007F:1F90") == "0100007F:1F90"
