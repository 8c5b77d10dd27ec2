"""`envcheck run`: the command meets what it would meet without us, and its exit code is kept. Real processes, real terminals."""

from __future__ import annotations

import argparse
import errno
import fcntl
import json
import os
import platform
import re
import select
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from patients import HERE

from envcheck.commands import keys
from envcheck.commands.kernel_word import KernelWatch
from envcheck.commands.run import _is_typed_into
from envcheck.commands.streams import Copy, Written, _not_copied
from envcheck.report.session import rule_session

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="run's signals and terminals are tested on Linux")

SECONDS = 30  # a deadline, never a wait
KILLS_ARE_UNKNOWN = KernelWatch().word(0).kills is None  # without a control group of memory
# Tells each signal that it gets, and each line that it is given. A signal that comes just before it waits wakes it all the same.
PATIENT = """
import os, select, signal
def tell(number, frame):
    os.write(1, b"got %d\\n" % number)
woken, wake = os.pipe()
os.set_blocking(wake, False)
signal.set_wakeup_fd(wake)
for number in signal.valid_signals() - {9, 19, 17, 11, 7, 4, 8, 5, 31, 25, 21, 22, 13, 23}:
    signal.signal(number, tell)
signal.pthread_sigmask(signal.SIG_SETMASK, [])
print("ready", flush=True)
given = b"\\n"
while given:
    ready, _, _ = select.select([0, woken], [], [])
    if woken in ready:
        os.read(woken, 4096)
    if 0 in ready:
        given = os.read(0, 65536)
        for line in given.splitlines():
            os.write(1, b"line " + line.strip() + b"\\n")
print("end", flush=True)
"""
FORWARDED = [
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGALRM, signal.SIGCONT, signal.SIGTSTP,
    signal.SIGWINCH, signal.SIGXCPU, signal.SIGABRT, signal.SIGRTMIN,
]  # fmt: skip
# A call of the standard library's, or of ours, fails in envcheck's own process.
REFUSING = """
import os, sys, threading
from envcheck.commands import beside, streams
def refuse(*_):
    raise {error}
{call} = refuse
from envcheck.cli import main
sys.exit(main(sys.argv[1:]))
"""
# The same, once the command has been started.
FAILING_LATER = """
import errno, os, resource, select, signal, subprocess, sys, threading
from envcheck.commands import run, signals, streams
def fail(*_, **__):
    raise {error}
class Popen(subprocess.Popen):
    def __init__(self, *words, **how):
        super().__init__(*words, **how)
        if threading.current_thread() is threading.main_thread():
            {fault}
subprocess.Popen = Popen
from envcheck.cli import main
sys.exit(main(sys.argv[1:]))
"""
# Signals of one kind are ignored and of another blocked by who starts envcheck.
DEAF = """
import os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2])
os.execv(sys.argv[1], sys.argv[1:])
"""
SUBREAPER = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
FENCE = signal.SIGUSR2  # sent to envcheck alone after others: what had to be passed on before it has been


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A machine of which nothing is known, so that the check costs nothing and forbids nothing."""
    path = tmp_path_factory.mktemp("facts") / "nothing.toml"
    path.write_text("")
    return path


@pytest.fixture
def command(facts: Path) -> Callable[..., list[str]]:
    def words(*argv: str, flags: Sequence[str] = ()) -> list[str]:
        return [sys.executable, "-m", "envcheck", "run", "--facts", str(facts), *flags, "--", *argv]

    return words


@pytest.fixture
def start(command: Callable[..., list[str]]) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts `envcheck run -- argv` in a session of its own, with pipes unless told otherwise."""
    started: list[subprocess.Popen[bytes]] = []

    def run(
        *argv: str,
        before: Sequence[str] = (),
        flags: Sequence[str] = (),
        refused: str = "",
        failing: tuple[str, str] | None = None,
        **how: Any,
    ) -> subprocess.Popen[bytes]:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent), **how.pop("env", {})}
        words = [*before, *command(*argv, flags=flags)]
        if refused:
            error = "RuntimeError" if "Thread" in refused else "OSError"
            words[:3] = python(REFUSING.format(call=refused, error=error))
        if failing:
            words[:3] = python(FAILING_LATER.format(fault=failing[0], error=failing[1]))
        made = subprocess.Popen(words, env=environment, start_new_session=True, **{**pipes, **how})
        started.append(made)
        return made

    yield run
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def kill_by_arguments(pid: int, number: int) -> None:
    """As `pkill -f` with the words of that process."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes()
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if one.read_bytes() == words:
                os.kill(int(one.parent.name), number)


def kill_by_arguments_of_the_command(pid: int, number: int) -> None:
    """As `pkill -f train.py`, which looks first and sends then: envcheck's own arguments hold the command's."""
    found = []
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if os.getsid(int(one.parent.name)) == pid and PATIENT.encode() in one.read_bytes():
                found.append(int(one.parent.name))
    for one_of_them in found:
        os.kill(one_of_them, number)


def line_of(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], SECONDS)[0], "nothing came"
    return process.stdout.readline().decode().strip()


def ended(process: subprocess.Popen[bytes], given: bytes = b"") -> tuple[int, str, str]:
    out, said = process.communicate(given, timeout=SECONDS)
    return process.returncode, (out or b"").decode(), (said or b"").decode()


# ------------------------------------------------------------------ where the output goes


def test_a_reader_that_goes_away_ends_the_command_as_without_us(start: Callable[..., Any]) -> None:
    process = start("yes", stdin=None)
    assert line_of(process) == "y"
    process.stdout.close()
    assert process.wait(SECONDS) == -signal.SIGPIPE
    assert b"ended with exit code" not in process.stderr.read(), "no report of what every pipeline into head does"


def test_a_reader_that_was_never_there_is_noticed_before_the_first_write(start: Callable[..., Any]) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    program = "import os, select, sys; p = select.poll(); p.register(1, 0); p.poll(); print('gone', file=sys.stderr); os.write(1, b'x')"
    process = start(*python(program), stdout=theirs)
    os.close(theirs)
    code, _, said = ended(process)
    assert code == 1 and "gone" in said and "BrokenPipeError" in said


def test_a_pipe_with_a_name_gets_another_reader_while_the_command_is_silent(start: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "log"
    os.mkfifo(path)
    first = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with path.open("wb") as theirs:
        process = start(*python("import os; os.write(1, b'one'); input(); os.write(1, b'two')"), stdout=theirs)
    assert select.select([first], [], [], SECONDS)[0] and os.read(first, 10) == b"one"
    os.close(first)
    time.sleep(0.2)  # in which a collector of logs is restarted
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as second:
        assert ended(process, b"\n")[0] == 0
        assert second.read() == b"two"


def test_what_is_passed_on_cannot_be_parted_by_another_writer() -> None:
    ours, theirs = os.pipe2(os.O_DIRECT)  # what is written at once is read at once
    copy = Copy(theirs)
    words = b"".join(b"%d " % n * 50 + b"\n" for n in range(150)) + b"unfinished"
    assert os.write(copy.given, words) == len(words) > 4 * select.PIPE_BUF
    os.close(copy.given)
    copy.run()
    os.close(theirs)
    with open(ours, "rb", buffering=0) as file:
        pieces = list(iter(lambda: file.read(1 << 16), b""))
    assert b"".join(pieces) == words == copy.bytes()
    assert all(len(one) <= select.PIPE_BUF and one.endswith(b"\n") for one in pieces[:-1])


def _numbers(kind: int) -> tuple[int, int]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    return ours.detach(), theirs.detach()


@pytest.mark.parametrize(
    ("place", "kept"),
    [
        (lambda: _numbers(socket.SOCK_DGRAM), "messages"),
        (lambda: _numbers(socket.SOCK_SEQPACKET), "messages"),
        (lambda: _numbers(socket.SOCK_STREAM), "is read"),
        (lambda: os.pipe2(os.O_DIRECT), "messages"),
        (lambda: os.pipe()[::-1], "for reading only"),
        (lambda: (-1, os.open(os.sep, os.O_RDONLY)), "for reading only"),
        (lambda: (-1, os.eventfd(0)), "neither a file nor a pipe"),
        (os.pipe, ""),
    ],
    ids=["datagrams", "packets", "questions", "packets in a pipe", "the end to read from", "a folder", "an event", "a pipe"],
)
def test_what_no_copy_can_be_like_is_not_copied(place: Any, kept: str) -> None:
    ours, theirs = place()
    if kept == "is read":
        assert _not_copied(theirs, os.fstat(theirs).st_mode) == "", "but for what nobody asks"
        os.write(ours, b"question")
    reason = _not_copied(theirs, os.fstat(theirs).st_mode)
    for number in {ours, theirs} - {-1}:
        os.close(number)
    assert kept in reason and bool(kept) is bool(reason)


def test_messages_stay_apart_and_the_report_says_that_nobody_saw_them(start: Callable[..., Any]) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            process = start("bash", "-c", "echo one; echo two; exit 3", stdout=theirs.fileno())
        code, _, said = ended(process)
        assert (code, ours.recv(100), ours.recv(100)) == (3, b"one\n", b"two\n")
        assert "what it wrote to stdout was not seen: " in said


def test_a_full_disk_reaches_the_command(start: Callable[..., Any]) -> None:
    with open("/dev/full", "wb") as full:
        code, _, said = ended(start("yes", stdout=full))
    assert code == 1 and os.strerror(errno.ENOSPC) in said


def test_a_full_disk_under_stderr_changes_neither_start_nor_exit_code(start: Callable[..., Any]) -> None:
    with open("/dev/full", "wb") as full:
        code, out, _ = ended(start("sh", "-c", "echo trained; exit 3", stderr=full))
    assert (code, out) == (3, "trained\n")


def test_a_stdout_that_does_not_block_loses_nothing(start: Callable[..., Any]) -> None:
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    process = start(*python("import sys; sys.stdout.write('x' * 1_000_000)"), stdout=theirs)
    os.close(theirs)
    with open(ours, "rb") as file:
        assert file.read() == b"x" * 1_000_000
    assert ended(process)[0] == 0


def test_a_file_is_the_commands_own_and_its_text_names_the_cause(start: Callable[..., Any], tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("before\n")
    program = "import os, stat; print(stat.S_ISREG(os.fstat(1).st_mode), flush=True); raise RuntimeError('Numpy is not available')"
    with log.open("ab") as file:
        assert ended(start(*python(program), stdout=file, stderr=file))[0] == 1
    text = log.read_text()
    assert text.startswith("before\nenvcheck: ") and "\nTrue\nTraceback" in text
    assert "[numpy-abi]" in text
    assert f"(process{os.getpid()})maywrite,too:RuntimeError" in "".join(text.split()), "we have it open, and might have written that"


def test_whose_words_a_file_holds_is_said_where_others_may_write_there(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as alone, path.open("ab") as appending:
        written, added = Written(alone.fileno()), Written(appending.fileno())
        with written.file, added.file:
            assert written.shared() == "" and "appending" in added.shared()
            with subprocess.Popen(["sleep", "600"], stdout=alone) as other:
                said = written.shared()
                other.kill()
    assert said == f"{path}, where sleep (process {other.pid}) may write, too"


@pytest.mark.parametrize("number", [2, 5], ids=["stderr", "a duplicate that was inherited"])
def test_two_streams_into_one_pipe_keep_their_order(start: Callable[..., Any], number: int) -> None:
    program = f"import os\nfor n in range(500): os.write((1, {number})[n % 2], b'%d\\n' % n)"
    before = ["sh", "-c", f'exec {number}>&1; exec "$@"', "sh"]
    code, out, _ = ended(start(*python(program), before=before, stderr=subprocess.STDOUT))
    assert code == 0
    assert out.split("\n")[1:] == [*map(str, range(500)), ""]


def test_what_the_command_leaves_behind_can_still_write(start: Callable[..., Any]) -> None:
    ours, theirs = os.pipe()
    process = start("bash", "-c", f"(read word <&{ours}; echo $word) & echo now", pass_fds=[ours], stdin=None)
    os.close(ours)
    assert process.wait(SECONDS) == 0
    os.write(theirs, b"late\n")
    os.close(theirs)
    assert process.stdout.read() == b"now\nlate\n"


def test_without_a_thread_for_a_copy_the_command_runs_all_the_same(start: Callable[..., Any]) -> None:
    assert ended(start("sh", "-c", "echo trained; exit 3", refused="threading.Thread.start"))[:2] == (3, "trained\n")


def test_a_file_that_we_may_not_read_is_the_commands_own_all_the_same(start: Callable[..., Any], tmp_path: Path) -> None:
    program = "import os, stat; print(stat.S_ISREG(os.fstat(1).st_mode))"
    with (tmp_path / "log").open("w") as file:
        assert ended(start(*python(program), stdout=file, refused="streams.Written.__init__"))[0] == 0
    assert (tmp_path / "log").read_text() == "True\n", "a full disk has to be told to it"


@pytest.mark.parametrize("limit", ["-n 10", "-n 12"])
def test_without_descriptors_for_us_the_command_runs_all_the_same(start: Callable[..., Any], limit: str) -> None:
    code, out, said = ended(start("sh", "-c", "echo trained; exit 3", before=["sh", "-c", f'ulimit {limit}; exec "$@"', "sh"]))
    assert (code, out) == (3, "trained\n") and "internal error" not in said


@pytest.mark.parametrize(
    ("fault", "error", "code"),
    [
        ("resource.setrlimit(resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))", "None", 3),
        ("os.open = os.pipe = fail", "FileNotFoundError(errno.ENOENT, 'no /dev/null')", 0),
        ("os.open = os.pipe = os.fork = os.listdir = fail", "OSError(errno.EMFILE, 'too many')", 0),
        ("select.poll = fail", "OSError(errno.ENOMEM, 'no memory')", 0),
        ("signal.pthread_sigmask = fail", "OSError(errno.ENOSYS, 'a filter of system calls')", 0),
        ("streams.Outputs.started = signals.Witness.__init__ = fail", "MemoryError()", 0),
    ],
    ids=["rlimit", "null", "descriptors", "poll", "filter", "memory"],
)
def test_a_fault_of_ours_leaves_a_running_command_alone(start: Any, tmp_path: Path, fault: str, error: str, code: int) -> None:
    begun = tmp_path / "begun"
    process = start("sh", "-c", f'echo >>"$0"; sleep 0.1; echo trained; exit {code}', str(begun), failing=(fault, error))
    *found, said = ended(process)
    assert (*found, begun.read_text()) == (code, "trained\n", "\n"), said
    assert not any(words in said for words in ("sh: ", "without us", "internal error"))


def test_an_inherited_descriptor_above_the_limit_is_no_matter(start: Callable[..., Any]) -> None:
    process = start("sh", "-c", "sleep 0.1", before=["bash", "-c", 'exec 500>/dev/null; ulimit -n 100; exec "$@"', "bash"])
    assert ended(process)[0] == 0


def test_other_descriptors_and_a_closed_stdin_are_the_commands_too(start: Callable[..., Any]) -> None:
    ours, theirs = os.pipe()
    os.write(theirs, b"substituted")
    os.close(theirs)
    process = start("cat", f"/dev/fd/{ours}", pass_fds=[ours])
    os.close(ours)
    assert ended(process)[:2] == (0, "substituted")
    shell = ["sh", "-c", 'exec "$@" <&-', "sh"]
    code, out, _ = ended(start(*python("import sys; print(sys.stdin)"), before=shell))
    assert (code, out) == (0, "None\n")


def test_the_environment_is_the_callers(start: Callable[..., Any]) -> None:
    bare = ["env", "-i", f"PATH={os.environ['PATH']}", f"PYTHONPATH={HERE.parent}"]
    shown = [ended(start("env", before=bare))[1], subprocess.run([*bare, "env"], capture_output=True, text=True, check=True).stdout]
    assert shown[0].splitlines() == shown[1].splitlines()


def test_who_writes_to_stdin_notices_that_the_command_closed_it(start: Callable[..., Any]) -> None:
    process = start(*python("import os, sys, time; os.close(0); print('closed', flush=True); time.sleep(600)"))
    assert line_of(process) == "closed"
    deadline = time.monotonic() + SECONDS
    with pytest.raises(BrokenPipeError):
        while time.monotonic() < deadline:
            os.write(process.stdin.fileno(), b"x")
            time.sleep(0.01)


@pytest.mark.parametrize("number", [1, 2, 3], ids=["stdout", "stderr", "another"])
def test_who_reads_a_stream_meets_its_end_when_the_command_has_closed_it(start: Callable[..., Any], number: int) -> None:
    ours, theirs = os.pipe()
    how: dict[str, Any] = {1: {"stdout": theirs}, 2: {"stderr": theirs}}.get(number) or {"pass_fds": [theirs]}
    written = number if number < 3 else theirs
    process = start(*python(f"import os; os.write({written}, b'ready'); os.close({written}); input()"), **how)
    os.close(theirs)
    said = b""
    while not said.endswith(b"ready") and (more := os.read(ours, 4096)):
        said += more
    assert select.select([ours], [], [], SECONDS)[0] and os.read(ours, 1) == b"", "it still runs"
    assert process.poll() is None
    os.close(ours)
    assert ended(process, b"\n")[0] == 0


# ------------------------------------------------------------------ signals


@pytest.mark.parametrize(
    ("send", "numbers", "how"),
    [
        (os.kill, FORWARDED, {}),
        (os.killpg, FORWARDED, {}),
        (os.killpg, FORWARDED, {"env": {"PATH": "/nowhere"}}),
        (kill_by_arguments, FORWARDED[:4], {}),
        (kill_by_arguments_of_the_command, FORWARDED[:4], {}),
        (os.kill, (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1), {"before": python(DEAF)}),
        (os.killpg, (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1), {"before": python(DEAF)}),
    ],
    ids=[
        "alone",
        "group",
        "group, PATH is empty",
        "by its arguments",
        "by the command's",
        "alone, ignored or blocked",
        "group, ignored or blocked",
    ],
)
def test_the_command_gets_every_signal_once(start: Callable[..., Any], send: Any, numbers: Sequence[signal.Signals], how: Any) -> None:
    process = start(*python(PATIENT), **how)
    assert line_of(process) == "ready"
    for number in numbers:
        send(process.pid, number)
        assert line_of(process) == f"got {number.value}"
    os.kill(process.pid, FENCE)
    assert line_of(process) == f"got {FENCE.value}", "nothing comes twice"
    code, out, _ = ended(process)
    assert (code, out) == (0, "end\n")


@pytest.mark.parametrize("send", [os.killpg, os.kill])
def test_a_signal_comes_once_from_the_command_s_first_moment_on(start: Callable[..., Any], send: Any) -> None:
    """A shell is ready sooner than whatever stands beside it could be that is started after it."""
    for _ in range(6):
        process = start("sh", "-c", "trap 'echo got' USR1; echo ready; sleep 0.6; sleep 0.01")
        assert line_of(process) == "ready"
        send(process.pid, signal.SIGUSR1)
        code, out, _ = ended(process)
        assert (code, out) == (0, "got\n")


TAKEN_OVER = """
import os, signal
from envcheck.commands import beside
from envcheck.commands.signals import Signals
given = Signals()
os.kill(os.getpid(), signal.SIGUSR1)
child = beside.fork()
if child == 0:
    given.as_they_were()
    os._exit(0)
assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGUSR1
given._handed_over = given._taken_over()
assert given._handed_over == {signal.SIGUSR1}
given._take(signal.SIGUSR1, 0, int)
assert not given._waiting and not given._handed_over
given._take(signal.SIGUSR1, 0, int)
assert [number for number, _ in given._waiting] == [signal.SIGUSR1]
given._witness.end()
print("once")
"""


def test_what_was_sent_before_the_command_was_there_is_taken_over_once() -> None:
    """By its process, as it becomes the command. In a process of one thread: another one of the test runner would take the signal."""
    done = subprocess.run(python(TAKEN_OVER), capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "once\n", done.stderr


STOPPED_BEFORE = """
import os, signal
from envcheck.commands import signals
os.setpgid(0, 0)  # nobody stops in a group that has lost its shell, as that of a test under setsid may have
given = signals.Signals()
read, write = os.pipe()
child = os.fork()
if child == 0:
    os.kill(os.getpid(), signal.SIGTSTP)
    given.as_they_were()
    os.write(write, b"it is the command")
    signal.pause()
assert os.read(read, 100) == b"it is the command"
given._handed_over = given._taken_over()
given._take(signal.SIGTSTP, child, int)
assert os.WSTOPSIG(os.waitpid(child, os.WUNTRACED)[1]) == signal.SIGTSTP
given._witness.end()
os.kill(child, signal.SIGKILL)
print("stops as the command")
"""


def test_a_stop_before_the_command_is_there_comes_when_it_is() -> None:
    """We wait until it is: what stopped before would leave a terminal that no key frees."""
    done = subprocess.run(python(STOPPED_BEFORE), capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "stops as the command\n", done.stderr


@pytest.mark.parametrize("refused", ["os.fork", "beside.renamed"])
def test_signals_are_passed_on_where_no_witness_can_be_had(start: Callable[..., Any], refused: str) -> None:
    process = start(*python(PATIENT), refused=refused)
    assert line_of(process) == "ready"
    os.kill(process.pid, signal.SIGUSR1)
    assert line_of(process) == f"got {signal.SIGUSR1.value}"
    assert ended(process)[0] == 0


def test_a_signal_to_envcheck_alone_soon_after_one_to_all_is_passed_on(start: Callable[..., Any]) -> None:
    process = start(*python(PATIENT))
    assert line_of(process) == "ready"
    for send, number in ((os.killpg, signal.SIGUSR1), (os.kill, FENCE), (os.kill, signal.SIGUSR1), (os.kill, FENCE)):
        send(process.pid, number)
        assert line_of(process) == f"got {number.value}"


def test_who_stops_and_continues_the_command_alone_finds_us_with_it(start: Callable[..., Any]) -> None:
    process = start(*python("import os; print(os.getpid(), end=' ')" + PATIENT))
    pid = int(line_of(process).partition(" ready")[0])
    os.kill(pid, signal.SIGSTOP)
    found, status, deadline = 0, 0, time.monotonic() + SECONDS
    while not found and time.monotonic() < deadline:
        found, status = os.waitpid(process.pid, os.WUNTRACED | os.WNOHANG)
        time.sleep(0.01)
    assert found and os.WSTOPSIG(status) == signal.SIGSTOP, "so whoever started us sees that it stands"
    os.kill(pid, signal.SIGCONT)
    assert line_of(process) == f"got {signal.SIGCONT.value}"
    os.kill(process.pid, FENCE)
    assert line_of(process) == f"got {FENCE.value}", "and not SIGCONT once more"
    assert ended(process)[0] == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1])
def test_envcheck_leaves_with_the_command(start: Callable[..., Any], number: signal.Signals) -> None:
    process = start("sh", "-c", "ulimit -c 0; echo ready; exec sleep 600", stdin=None)
    assert line_of(process) == "ready"
    process.send_signal(number)
    code, _, said = ended(process)
    assert code == -number, "and not 128 + N: a loop of bash goes on then"
    assert ("ended with exit code" in said) is (number is signal.SIGUSR1), "who asks for the end knows why it came"


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_what_a_command_lived_through_does_not_explain_its_end(start: Callable[..., Any], number: signal.Signals) -> None:
    process = start(*python(f"{PATIENT}raise SystemExit(137)"))
    assert line_of(process) == "ready"
    process.send_signal(number)
    assert line_of(process) == f"got {number.value}"
    code, _, said = ended(process)
    assert code == 137
    assert ("ended with exit code 137" in said) is (number is signal.SIGHUP), "a hangup is the word to read settings again, too"


def test_an_orphan_of_the_command_that_comes_to_us_is_buried(start: Callable[..., Any]) -> None:
    looks = f"""
import os, subprocess, time
subprocess.run(["sh", "-c", "(sleep 0.2) & (sleep 0.2; exit 7) &"], check=True)
deadline = time.monotonic() + {SECONDS}
came = left = 0
while time.monotonic() < deadline and not (came > 3 and left == 2):
    left = len(open(f"/proc/{{os.getppid()}}/task/{{os.getppid()}}/children").read().split())
    came = max(came, left)
    time.sleep(0.01)
print(came, left)
"""
    assert ended(start(*python(looks), before=python(SUBREAPER)))[:2] == (0, "4 2\n"), "left: it and the witness"


@pytest.mark.parametrize(("ends", "code"), [("exit 0", 0), ("kill -TERM $$", -signal.SIGTERM)])
def test_the_way_out_is_the_same_where_python_is_told_to_inspect(start: Callable[..., Any], ends: str, code: int) -> None:
    found, _, said = ended(start("sh", "-c", ends, env={"PYTHONINSPECT": "1"}))
    assert found == code and "Traceback" not in said


def test_nohup_holds_for_the_command_and_for_us(start: Callable[..., Any]) -> None:
    program = "import signal; print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN, flush=True); print(input())"
    process = start(*python(program), before=["nohup"])
    assert line_of(process) == "True"
    os.killpg(process.pid, signal.SIGHUP)
    assert ended(process, b"trained\n")[:2] == (0, "trained\n")


@pytest.mark.parametrize("tied", ["pass", "ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)"], ids=["tied", "another user"])
def test_a_killed_envcheck_takes_the_command_along(start: Callable[..., Any], tied: str) -> None:
    process = start(*python(f"import ctypes, os, sys; {tied}; print(os.getpid(), flush=True); sys.stdin.read()"))
    assert line_of(process).isdigit()
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) == 2, "the command and the witness"
    assert {os.readlink(f"/proc/{pid}/exe") for pid in children} == {os.readlink("/proc/self/exe")}, "no program from PATH beside it"
    deadline = time.monotonic() + SECONDS
    while len({Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0") for pid in children}) > 1 and time.monotonic() < deadline:
        time.sleep(0.01)  # the witness takes the command's name
    process.kill()
    while any(alive(pid) for pid in children) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(alive(pid) for pid in children)


def alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


# ------------------------------------------------------------------ on a terminal

TAKE_TERMINAL = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"


class Terminal:
    """A pseudo-terminal with a session on it."""

    def __init__(self, argv: Sequence[str], cwd: Path) -> None:
        self.ours, theirs = os.openpty()
        self.resize(33, 77)
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
        self.process = subprocess.Popen(
            [*python(TAKE_TERMINAL), *argv], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, env=environment, cwd=cwd
        )
        os.close(theirs)
        self.shown = ""

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, bytes([lines, 0, columns, 0, 0, 0, 0, 0]))

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())

    def until(self, pattern: str) -> str:
        """What is shown up to a match, which is consumed."""
        while not (match := re.search(pattern, self.shown)):
            assert select.select([self.ours], [], [], SECONDS)[0], f"no {pattern!r} in {self.shown!r}"
            try:
                self.shown += os.read(self.ours, 65536).decode()
            except OSError:
                raise AssertionError(f"no {pattern!r} in {self.shown!r} at the end") from None
        before, self.shown = self.shown[: match.end()], self.shown[match.end() :]
        return before

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.ours)


@pytest.fixture
def on_terminal(command: Callable[..., list[str]], tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Runs a script of bash on a terminal, with job control; `run` in it is `envcheck run … --`."""
    opened: list[Terminal] = []

    def run(script: str) -> Terminal:
        words = " ".join(f"'{word}'" for word in command())
        opened.append(Terminal(["bash", "--norc", "-mc", f'run() {{ {words} "$@"; }}; {script}'], tmp_path))
        return opened[-1]

    yield run
    for one in opened:
        one.close()


def test_a_shell_that_somebody_types_into_has_its_jobs(on_terminal: Callable[..., Terminal]) -> None:
    shell = on_terminal("run bash --norc; echo it ended $?")
    shell.until("has the terminal to itself")
    shell.until(r"[#$] ")
    shell.type("set -o | grep monitor; exit 7\r")
    shell.until(r"monitor\s+on\b")
    shell.until("it ended 7")


@pytest.mark.parametrize(
    ("words", "typed"),
    [
        ("bash", True), ("/bin/zsh -f", True), ("bash --rcfile x -il", True), ("sh -i +m", True), ("fish", True), ("bash -o vi", True),
        ("bash train.sh", False), ("sh -c ls", False), ("bash -lc ls", False), ("bash --norc train.sh", False), ("sh -", False),
        ("bash --version", False), ("python3", False), ("fish --command ls", False), ("fish --command=ls", False),
    ],
)  # fmt: skip
def test_which_shells_are_typed_into(words: str, typed: bool) -> None:
    assert _is_typed_into(words.split()) is typed
    assert not _is_typed_into(["bash", ""])


def test_on_a_terminal_stdin_may_be_anything(on_terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    (tmp_path / "text").write_text("from a file\n")
    shell = on_terminal(
        "run cat <text; echo one $?; echo hello | run cat; echo two $?; run cat </dev/null; echo three $?;"
        " head -c 1000000 /dev/zero | run wc -c; echo four $?; run true <&-; echo five $?"
    )
    assert "from a file\r\n" in shell.until("one 0\r\n")
    assert shell.until("two 0\r\n").count("hello") == 1
    shell.until("three 0\r\n")
    assert "1000000\r\n" in shell.until("four 0\r\n")
    shell.until("five 0\r\n")


def test_on_a_terminal_each_stream_is_what_it_was(on_terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    (tmp_path / "what.py").write_text("import os, sys; print([os.isatty(n) for n in range(3)]); print('oh', file=sys.stderr)")
    shell = on_terminal(
        f"run {sys.executable} what.py; run {sys.executable} what.py 2>err.log; run {sys.executable} what.py | cat; echo done"
    )
    assert shell.until(r"\[.*\]\r+\noh\r+\n").endswith("[True, True, True]\r\noh\r\n")
    assert "oh" not in shell.until(r"\[True, True, False\]\r\nenvcheck: [^\n]*\n")
    assert (tmp_path / "err.log").read_text().endswith("\noh\n")
    piped = shell.until("done\r\n")
    assert "[True, False, True]" in piped and "oh" in piped  # two ways to the terminal: their pieces may interleave


def test_on_a_terminal_the_size_follows(on_terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    (tmp_path / "size.py").write_text(
        "import os, signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])\n"  # kept until it is waited for
        "while True: print('size', *os.get_terminal_size(1), flush=True); signal.sigwait([signal.SIGWINCH])"
    )
    shell = on_terminal(f"run sh -c '{sys.executable} size.py; :'")  # not the command itself, which may be a launcher
    shell.until("size 77 33\r\n")
    for columns in range(90, 100):
        shell.resize(44, columns)
        shell.until(f"size {columns} 44\r\n")


def test_what_is_written_and_set_on_a_terminal_is_what_it_is_without_us(on_terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    raw = "import os, tty; [os.write(1, b'line\\n') for _ in range(500)]; tty.setraw(0)"
    (tmp_path / "all.sh").write_text(
        "for number in 1 2 3; do echo to stdout; echo to stderr >&2; done\n"
        f'{sys.executable} -c "{raw}"; stty sane; echo cooked\n'
        "sleep 0.3; stty -opost <&1; until stty -a </dev/tty | grep -q -e -opost; do sleep 0.02; done; stty opost <&1; echo set\n"
        'S=$(stty -g <&2); stty "$S"; stty cols 99 <&1\n'
    )
    shell = on_terminal("run sh all.sh >/dev/tty; stty -a; echo; echo done")
    shell.until(r"stated\r\n")
    assert shell.until("(?=line)") == "to stdout\r\nto stderr\r\n" * 3, "two names of one terminal"
    assert shell.until("cooked\r*\n").startswith("line\r\n" * 500 + "cooked\r")
    shell.until("set\r*\n")  # modes that are set there are followed up to 0.2 s late
    left = shell.until("done")
    assert all(word in left for word in ("-extproc", "opost", "columns 99", " icanon", " echo ", " icrnl"))


def test_what_was_written_and_set_before_a_stop_comes_before_the_prompt(on_terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    (tmp_path / "leave.py").write_text(
        "import os, signal, termios, tty\nbefore = termios.tcgetattr(1); tty.setcbreak(1)\n"
        "os.write(1, b'x' * 30000 + b' left'); termios.tcsetattr(1, termios.TCSADRAIN, before); os.kill(0, signal.SIGTSTP)\n"
    )
    shell = on_terminal(f"run sh -c '{sys.executable} leave.py; :'; stty -a; echo stopped; fg; echo rc $?")
    before = shell.until("stopped\r\n")
    assert "x left" in before and " echo " in before
    shell.until("rc 0")


def test_a_run_within_a_run_hides_what_is_typed_and_gets_its_keys(
    on_terminal: Callable[..., Terminal], command: Callable[..., list[str]], tmp_path: Path
) -> None:
    if platform.machine() not in keys._CALLS or not Path("/proc/self/syscall").exists():
        pytest.skip("the kernel does not tell who waits")
    (tmp_path / "ask.sh").write_text("stty -echo <&1; echo hidden; read word <&2; stty echo <&1; echo ${#word}; exit 3")
    shell = on_terminal(f"run sh -c '{' '.join(command('sh', 'ask.sh'))}; echo rc $?'")
    shell.until("hidden\r\n")
    shell.type("secret\n")
    said = shell.until("rc 3")
    assert "secret" not in said and "6\r\n" in said and "was not seen: it goes to a terminal of another" in said


def test_keys_for_signals_come_once(on_terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    (tmp_path / "patient.py").write_text(PATIENT)
    shell = on_terminal(f"run {sys.executable} patient.py; echo rc $?")
    shell.until("ready\r\n")
    foreground = os.tcgetpgrp(shell.ours)
    for key, number in (("\x03", signal.SIGINT), ("\x1c", signal.SIGQUIT), ("\x1a", signal.SIGTSTP)):
        shell.type(key)
        shell.until(f"got {number.value}\r\n")
    os.kill(foreground, FENCE)
    assert shell.until("got 12\r\n").count("got") == 1
    shell.type("typed\n")
    shell.until("line typed\r\n")
    shell.type("\x04")
    assert "got" not in shell.until("rc 0\r\n")


def test_ctrl_z_stops_the_job_and_fg_goes_on(on_terminal: Callable[..., Terminal]) -> None:
    shell = on_terminal("run sh -c 'echo ready; read word; echo got $word'; echo stopped $?; fg; echo rc $?")
    shell.until("ready\r\n")
    shell.type("\x1a")
    shell.until(f"stopped {128 + signal.SIGTSTP}\r\n")
    shell.type("on\n")
    shell.until("got on\r\n")
    shell.until("rc 0\r\n")


@pytest.mark.parametrize("number", [signal.SIGTSTP, signal.SIGSTOP])
def test_a_command_that_stops_itself_stops_the_job(on_terminal: Callable[..., Terminal], number: signal.Signals) -> None:
    shell = on_terminal(f"run sh -c 'kill -{number.value} $$; echo resumed'; echo stopped $?; fg; echo rc $?")
    shell.until(f"stopped {128 + number}\r\n")
    shell.until("resumed\r\n")
    shell.until("rc 0\r\n")


def test_keys_are_read_from_stdout_and_stderr_too(on_terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    if platform.machine() not in keys._CALLS or not Path("/proc/self/syscall").exists():
        pytest.skip("the kernel does not tell who waits")
    (tmp_path / "keys.py").write_text(
        "import os, select, termios, tty\n"
        "def take(n):\n    print('go', flush=True)\n    return os.read(n, 99)\n"
        "print(take(1)); print(take(2))\n"
        "p = select.poll(); p.register(2, select.POLLIN); print('go', p.poll() and os.read(2, 99))\n"
        "print('go', select.select([2], [], []) and os.read(2, 99))\n"
        "e = select.epoll(); e.register(2, select.EPOLLIN); print('go', e.poll() and os.read(2, 99))\n"
        "before = termios.tcgetattr(2); tty.setcbreak(2); print(take(2)); termios.tcsetattr(2, termios.TCSANOW, before)\n"
        "print(input('in?'))"
    )
    shell = on_terminal(f"run {sys.executable} -u keys.py; echo rc $?; read word; echo word $word")
    for typed in ("one\n", "\x04"):
        shell.until("go\r\n")
        shell.type(typed)
        shell.until(re.escape(str(typed.strip("\x04").encode())))
    for typed in ("poll\n", "select\n", "epoll\n"):
        shell.type(typed)
        assert shell.until(re.escape(f"go {typed.encode()}")).count(typed.strip()) == 2, "typed and told, and no third time"
    shell.until("go\r\n")
    shell.type("k")
    shell.until("b'k'")
    shell.until(r"in\?")
    shell.type("from stdin\nfor the shell\n")
    shell.until("from stdin\r\n[^$]*rc 0")
    shell.until("word for the shell")


def test_what_is_typed_is_hidden_as_soon_as_the_command_says_so(on_terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    (tmp_path / "hide.py").write_text(
        "import termios\nbefore = termios.tcgetattr(1); modes = termios.tcgetattr(1); modes[3] &= ~termios.ECHO\n"
        "termios.tcsetattr(1, termios.TCSANOW, modes); word = input(); termios.tcsetattr(1, termios.TCSANOW, before)\n"
        "print(len(word))"
    )
    shell = on_terminal(f"run {sys.executable} hide.py; echo rc $?")
    deadline = time.monotonic() + SECONDS
    while termios.tcgetattr(shell.ours)[3] & termios.ECHO and time.monotonic() < deadline:
        time.sleep(0.01)
    shell.type("secret\n")
    assert "secret" not in shell.until("rc 0")
    assert termios.tcgetattr(shell.ours)[3] & termios.ECHO


def test_in_the_background_the_job_does_its_work(on_terminal: Callable[..., Terminal]) -> None:
    shell = on_terminal("run sh -c 'echo worked' & wait $!; echo rc $?")
    assert "worked\r\n" in shell.until(r"rc 0\r\n")


def test_a_program_that_fills_the_screen_gets_its_keys(on_terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    (tmp_path / "keys.py").write_text(
        "import os, termios, tty\nbefore = termios.tcgetattr(1); tty.setcbreak(1); print('ready', flush=True)\n"
        "print('key', os.read(0, 1), flush=True); termios.tcsetattr(1, termios.TCSANOW, before)"
    )
    shell = on_terminal(f"run {sys.executable} keys.py; echo rc $?; read word; echo $word")
    shell.until("ready\r\n")
    shell.type("k")
    shell.until("key b'k'\r\n")
    shell.until("rc 0\r\n")
    assert termios.tcgetattr(shell.ours)[3] & termios.ICANON, "as it was before"


# ------------------------------------------------------------------ exit codes and reports


def test_there_is_no_such_command(start: Callable[..., Any], on_terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text")
    code, _, said = ended(start("no-such-command-here"))
    assert (code, said) == (127, "envcheck: no-such-command-here: command not found\n"), "no check is made first"
    assert ended(start(str(tmp_path / "text")))[0] == 126
    for path, there in ((f"{tmp_path}:/bin", 126), ("", 127)):
        code, _, said = ended(start("text", env={"PATH": path}, cwd=tmp_path.parent))
        assert code == there and ("is not an executable file" in said) is (code == 126)
    on_terminal("run no-such-command-here; echo rc $?; run ./text; echo rc $?").until("rc 127\r\n[^\n]*\nrc 126\r\n")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--", "FOO=1", "python"], 127, "envcheck run -- env FOO=1 …"),
        (["--", "python -c 1"], 127, "sh -c 'python -c 1'"),
        (["--", "cd", "/tmp"], 127, "sh -c 'cd …'"),
        (["--", "trochrun", "x.py"], 127, "did you mean torchrun?"),
        (["--", ""], 127, "'': command not found; the first word after -- is empty"),
        (["—", "python", "x.py"], 127, "two hyphens"),
        (["-", "python", "x.py"], 2, "the command behind it"),
        (["--facts", "x.toml", "python"], 2, "the command behind it"),
        (["--", "train.py"], 127, "write envcheck run -- python train.py"),
        (["--", "./train.py"], 126, "write envcheck run -- python ./train.py"),
        (["--", "./plain file"], 126, "sh './plain file', or chmod +x './plain file'"),
        (["--", "."], 127, "word of the shell"),
        (["--", "./"], 126, "it is a folder"),
        (["--", "zzyzx"], 127, "envcheck: zzyzx: command not found\n"),
        ([], 2, "no command; write it after --"),
        (["--"], 2, "no command; write it after --"),
        (["--jsno", "--", "true"], 2, "did you mean --json?"),
        (["--timeout", "-3", "--", "true"], 2, "between 5 and 86400 seconds"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistyped_command_line_is_told_what_was_meant(
    words: list[str], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from envcheck.cli import main

    (tmp_path / "train.py").write_text("")
    (tmp_path / "plain file").write_text("")
    monkeypatch.chdir(tmp_path)
    assert main(["run", *words]) == code
    out, told = capfd.readouterr()
    assert out == "" and told.startswith("envcheck: ") and said in told


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("#!/moved/venv/bin/python -u\n", "names /moved/venv/bin/python, which is not there\n"),
        (f"#!{sys.executable}\r\n", f"names {sys.executable}, which is not there: its lines end as on Windows (dos2unix)\n"),
    ],
)
def test_a_script_whose_interpreter_is_gone_is_no_script_of_the_shell(
    line: str, said: str, start: Callable[..., Any], tmp_path: Path
) -> None:
    """Of an environment that was moved: torchrun is there, and its Python is not."""
    (tmp_path / "torchrun").write_text(f"{line}print(1)\n")
    (tmp_path / "torchrun").chmod(0o755)
    for name in ("torchrun", str(tmp_path / "torchrun")):
        code, _, told = ended(start(name, env={"PATH": str(tmp_path)}))
        assert code == 127, told
        assert f"the first line of {tmp_path}/torchrun {said}" in told, told


def test_a_script_without_an_interpreter_line_runs(start: Callable[..., Any], tmp_path: Path) -> None:
    script = tmp_path / "train"
    script.write_text("echo trained $1; exit 5\n")
    script.chmod(0o755)
    assert ended(start(str(script), "twice"))[:2] == (5, "trained twice\n")


def test_the_first_of_its_name_on_path_runs_whatever_it_is(start: Callable[..., Any], tmp_path: Path) -> None:
    for folder, text in (("bare", "echo first"), ("other", "#!/bin/sh\necho second")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train").write_text(f"{text}\n")
        (tmp_path / folder / "train").chmod(0o755)
    path = f"/nowhere:{tmp_path}/bare:{tmp_path}/other:{os.environ['PATH']}"
    assert ended(start("train", env={"PATH": path}))[:2] == (0, "first\n")
    handed = python("from envcheck.commands.hand_over import hand_over; hand_over(['train'])")
    done = subprocess.run(handed, env={**os.environ, "PATH": path}, cwd=HERE.parent, capture_output=True, timeout=SECONDS)
    assert done.stdout == b"first\n"


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (
            signal.SIGKILL,
            ["exit code 137 (SIGKILL)", "host-memory-low" if KILLS_ARE_UNKNOWN else "somebody sent SIGKILL"],
        ),
        (signal.SIGSEGV, ["exit code 139 (SIGSEGV)", "native code crashed", "python -X faulthandler"]),
    ],
)
def test_a_death_by_signal_is_explained(start: Callable[..., Any], number: signal.Signals, words: list[str]) -> None:
    code, _, said = ended(start("sh", "-c", f"ulimit -c 0; kill -{number.value} $$"))
    assert code == -number, "and not 128 + N: a loop of bash goes on then"
    assert [word for word in words if word not in said] == []


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        ("exec {}", -signal.SIGKILL, "the kernel ends each process here at 1 s of it (ulimit -t"),
        ("{}; exit $?", 137, "one of these may have been ended at its limit, 1 s of it (ulimit -t"),
    ],
)
def test_a_limit_of_cpu_time_is_not_taken_for_one_of_memory(start: Callable[..., Any], words: str, code: int, named: str) -> None:
    busy = f"{sys.executable} -Sc 'while 1: pass'"
    ended_as, _, said = ended(start("sh", "-c", f"ulimit -t 1; {words.format(busy)}"))
    assert ended_as == code
    assert named in said and "host-memory-low" not in said, said


@pytest.mark.parametrize("kib", [33_000, 40_000, 48_000, 60_000])
def test_without_memory_for_us_the_command_runs_without_us(kib: int) -> None:
    """CPython waits without end for a thread that dies at its start for want of memory."""
    words = f'ulimit -v {kib}; exec "$0" -m envcheck run --static -- sh -c "echo started; exit 7"'
    done = subprocess.run(["sh", "-c", words, sys.executable], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (7, "started\n"), done.stderr
    assert "no memory is left for envcheck itself" in done.stderr


def test_a_check_without_memory_says_so() -> None:
    words = 'ulimit -v 60000; exec "$0" -m envcheck --static'
    done = subprocess.run(["sh", "-c", words, sys.executable], capture_output=True, text=True, timeout=60)
    assert done.returncode in (2, 3) and ("RLIMIT_AS" in done.stderr or "no memory is left" in done.stderr), done.stderr


def test_what_is_known_of_harmless_lines_is_said(start: Callable[..., Any]) -> None:
    code, _, said = ended(start(*python("raise SystemExit('CUDA error: device-side assert triggered')")))
    assert code == 1
    assert "An index in the program is out of range" in said


def test_out_of_memory_is_named_with_its_numbers_and_once(start: Callable[..., Any]) -> None:
    words = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 23.65 GiB of which 1.20 GiB is free."
    code, _, said = ended(start(*python(f"raise RuntimeError({words!r})")))
    assert code == 1
    assert " ".join(said.split()).count("1.20 GiB of 23.65 GiB were free") == 1
    assert "nvidia-smi --query-compute-apps" in said and "expandable_segments:True" in said


@pytest.mark.parametrize(
    ("program", "code", "rules"), [("exit 3", 3, []), ("echo RuntimeError: Numpy is not available; exit 4", 4, ["numpy-abi"])]
)
def test_the_file_of_o_holds_the_diagnosis(start: Callable[..., Any], tmp_path: Path, program: str, code: int, rules: list[str]) -> None:
    path = tmp_path / "report.json"
    assert ended(start("sh", "-c", program, flags=["--json", "-o", str(path)]))[0] == code
    assert [one["rule"] for one in json.loads(path.read_text())["findings"]] == rules
    markdown = tmp_path / "report.md"
    assert ended(start("sh", "-c", program, flags=["--format", "markdown", "-o", str(markdown)]))[0] == code
    assert all(rule in markdown.read_text() for rule in ("envcheck", *rules))


def test_the_file_of_o_holds_the_check_before_that(start: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    (tmp_path / "old.toml").write_text('torch = "2.9.0+cu130"\ndriver = "535.183.01"\n')
    flags = ["--json", "-o", str(path), "--facts", str(tmp_path / "old.toml"), "--fail-on", "never"]
    assert ended(start("cat", str(path), flags=flags))[1] == path.read_text()
    code, out, said = ended(start("echo", "trained", flags=[*flags, "--fail-on", "error"]))
    assert (code, out) == (1, "") and "echo was not started" in said and not said.lstrip().startswith("{")
    assert json.loads(path.read_text())["findings"][0]["rule"] == "driver-too-old"


def test_a_report_that_cannot_be_written_does_not_stop_the_command(start: Callable[..., Any]) -> None:
    code, out, said = ended(start("sh", "-c", "echo trained; exit 6", flags=["-o", "/dev/full"]))
    assert (code, out) == (6, "trained\n")
    assert "-o /dev/full: No space left on device" in said


@pytest.mark.parametrize(
    "flags",
    ["--json", "--format markdown", "-o /dev/stdout", "-o json=/proc/self/fd/2", "-o report.json -o markdown=-", "-o log"],
)
def test_a_report_needs_a_file_that_is_not_the_commands(
    flags: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from envcheck.errors import UsageError
    from envcheck.options import parse

    monkeypatch.chdir(tmp_path)
    os.symlink("/dev/stderr", "log")
    with pytest.raises(UsageError, match="-o FILE"):
        parse(["run", *flags.split(), "--", "true"])
    assert parse(["run", "-o", "/dev/null", "--", "true"]).output == "/dev/null"


def test_a_check_that_breaks_does_not_stop_the_command(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    from envcheck.commands import check
    from envcheck.commands import run as runner

    def broken(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(check, "examine_and_judge", broken)
    assert runner._checked(argparse.Namespace(argv=["true"], output=None, documents=[]), rule_session()) is None
    assert capfd.readouterr().err == "envcheck: the check failed: RuntimeError: can't start new thread; this is a bug of envcheck\n"


def test_the_middle_of_a_long_output_is_left_out() -> None:
    from envcheck.commands.streams import HEAD, KEEP, Kept

    kept = Kept()
    for number in range(400_000):
        kept.take(b"%09d\n" % number)
    lines = kept.bytes().split(b"\n")
    assert lines[0] == b"000000000" and lines[-2] == b"000399999"
    assert len(kept.bytes()) == HEAD + 1 + KEEP
    assert len(kept.tail) <= 2 * KEEP


@pytest.mark.skipif(
    subprocess.run(["unshare", "-pf", "true"], capture_output=True, check=False).returncode != 0,
    reason="a namespace of processes is not allowed here",
)
def test_a_command_in_a_namespace_of_processes_that_we_are_not_in_is_started(tmp_path: Path) -> None:
    """After setns or unshare(CLONE_NEWPID) without a fork children have no parent that they can see."""
    with subprocess.Popen(["unshare", "-pf", "--kill-child", "sleep", "60"]) as first:
        try:
            until = time.monotonic() + SECONDS
            children = Path(f"/proc/{first.pid}/task/{first.pid}/children")
            while not (init := children.read_text().split()) and time.monotonic() < until:
                time.sleep(0.01)
            enter = ["nsenter", "--no-fork", "-t", init[0], "-p"]
            run = [sys.executable, "-m", "envcheck", "run", "--static", "--"]
            done = subprocess.run(
                [*enter, *run, "/bin/sh", "-c", "echo hi; exit 5"],
                capture_output=True,
                text=True,
                cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": str(HERE.parent)},
                timeout=SECONDS,
            )
        finally:
            first.kill()
    assert (done.returncode, done.stdout) == (5, "hi\n"), done.stderr
