"""Processes of ours beside the command: copies of us, never a program from PATH, that hold nothing which the command may wait for."""

from __future__ import annotations

import errno
import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress

PATIENCE_SECONDS = 0.2  # between the first and the last process that a sender goes through
ONE_SECONDS = 0.05  # signals of one number that follow each other so closely may have been one to the witness
LOOK_SECONDS = 0.1
ASKED_BYTES = 1 << 16
PF_EXITING = 0x4  # linux/sched.h
PR_SET_NAME = 15  # linux/prctl.h
READY = b"\0"  # the number of no signal
PID_BYTES = 8
NAME = b"(signals)"  # of a process beside the command; 15 bytes at most


def fork() -> int:
    """os.fork(); 1 where there can be no process more. What it says of threads (Python 3.12) is no matter to us."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return os.fork()
        except OSError:
            return 1


def descriptors() -> list[int]:
    """All that are open here, and perhaps that of the listing itself."""
    return [int(name) for name in os.listdir("/proc/self/fd" if sys.platform == "linux" else "/dev/fd")]


def keep_only(needed: Collection[int]) -> None:
    """Close every other descriptor: who waits for the end of a stream shall not wait for us."""
    try:
        every: Iterable[int] = descriptors()
    except OSError:  # no /proc
        every = range(4096)
    for descriptor in set(every) - set(needed):
        with suppress(OSError):  # that of the listing
            os.close(descriptor)


def renamed(name: bytes = NAME, words: bytes = NAME) -> bool:
    """Whether nobody finds this process any more who looks for envcheck's name or arguments: `pkill envcheck` means envcheck alone. Where
    there is no room for all words the last of them count."""
    try:
        import ctypes

        start, end = (int(word) for word in _stat("self")[45:47])  # arg_start and arg_end, proc(5)
        if not 0 < start < end or ctypes.CDLL(None).prctl(PR_SET_NAME, name, 0, 0, 0):
            return False
        words = words[max(0, len(words) - (end - start - 1)) :]
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, words, len(words))
    except (ImportError, OSError, AttributeError, ValueError):  # not on Linux, no /proc
        return False
    return True


def renamed_as(command: int) -> bool:
    """The same, with the name and the arguments of the command: `pkill -f train.py` finds envcheck, whose own arguments hold it, and the
    command, and this one has to be told of it. A script has its interpreter named before it, for which there may be no room."""
    try:
        with open(f"/proc/{command}/comm", "rb") as name, open(f"/proc/{command}/cmdline", "rb") as words:
            return renamed(name.read().rstrip(b"\n"), words.read().rstrip(b"\0"))
    except OSError:
        return False


def reaped_beside(command: int) -> Iterator[int]:
    """Children of ours that have ended, but for the command: process 1 of a container gets those whose parent has left."""
    if sys.platform == "linux":
        with suppress(OSError):
            while (one := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and one.si_pid != command:
                os.waitpid(one.si_pid, 0)
                yield one.si_pid


def stopped(pid: int) -> bool:
    """Whether it stands still because of a signal, as far as /proc tells."""
    return (_stat(pid) or "?")[0] in "tT"


def goes_on(pid: int) -> bool:
    """Whether it is there and has not begun to end: what it has closed by now, it closed of its own accord. False if not known."""
    fields = _stat(pid)
    return bool(fields) and fields[0] not in "ZX" and not int(fields[6]) & PF_EXITING


def writer(path: str) -> str:
    """A process other than us that may write to this file by a descriptor of its own, or "". What we may not look into is passed over."""
    for pid in os.listdir("/proc"):
        folder = f"/proc/{pid}/fd"
        with suppress(OSError):  # it is no process, has ended, is somebody else's
            for number in os.listdir(folder) if pid.isdecimal() and int(pid) != os.getpid() else ():
                link = f"{folder}/{number}"
                if os.readlink(link) == path and os.lstat(link).st_mode & stat.S_IWUSR:
                    with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
                        return f"{file.read().strip()} (process {pid})"
    return ""


def may_stop_yet(pid: int, group: int) -> bool:
    """Whether it is of the group that was stopped, and runs. False if not known."""
    fields = _stat(pid)
    return bool(fields) and fields[0] not in "tTZX" and int(fields[2]) == group


def pending(pid: int) -> frozenset[int]:
    """The signals that wait for a process which has them blocked; none where /proc does not tell."""
    found = 0
    with suppress(OSError, ValueError), open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith(("SigPnd:", "ShdPnd:")):
                found |= int(line.split()[1], 16)
    return frozenset(number for number in range(1, found.bit_length() + 1) if found >> (number - 1) & 1)


def _stat(pid: int | str) -> list[str]:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


class Witness:
    """Has our handlers, and tells of each signal that it is sent. It ends with us, when its pipe does.

    It is there before the command, and so hears each signal that reaches the command too; what was sent before, the command takes over
    as it starts (`signals.Signals`). Until it knows the command it has a name that nobody looks for.
    """

    def __init__(self, mask: Collection[int]) -> None:
        """Signals are blocked meanwhile; `mask` is what stays blocked."""
        self._pid, self._ours = 1, [-1, -1, -1, -1]
        self.told: int | None = None  # readable when it has something to tell
        self._heard: list[tuple[int, float]] = []
        with suppress(OSError):  # no descriptor or no process more: see `got`
            self._ours[:2] = os.pipe()
            self._ours[2:] = os.pipe()
            self._pid = fork()
        told, tell, life, self._hold = self._ours
        if self._pid == 0:
            self._watch(tell, life, mask)
        for one in (tell, life):
            _shut(one)
        if self._pid == 1 or not os.read(told, 1):  # nothing is started before it has its name
            _shut(told)
        else:
            os.set_blocking(told, False)
            self.told = told

    @staticmethod
    def _watch(tell: int, life: int, mask: Collection[int]) -> None:
        try:
            if not renamed():
                return
            keep_only((tell, life))
            os.write(tell, READY)
            os.set_blocking(tell, False)
            signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            command = int.from_bytes(os.read(life, PID_BYTES), "little")
            if not command or not renamed_as(command):
                return
            held = _held(command)
            os.read(life, 1)
            signal.pidfd_send_signal(held, signal.SIGKILL)  # we were killed, and it may have another user for whom the kernel does not
        finally:
            os._exit(0)

    def started(self, command: int) -> None:
        """It is beside this process."""
        if self.told is not None:
            with suppress(OSError):  # it has ended
                os.write(self._hold, command.to_bytes(PID_BYTES, "little"))

    def listen(self) -> None:
        """Hear what it has to tell. What nobody asks for soon was sent to it alone, or was one signal of two to us."""
        now = time.monotonic()
        self._heard = [one for one in self._heard if now - one[1] < PATIENCE_SECONDS]
        try:
            while self.told is not None:
                if not (numbers := os.read(self.told, 4096)):
                    self._gone()
                self._heard += [(number, now) for number in numbers]
        except BlockingIOError:
            return

    def got(self, number: int) -> bool:
        """Whether this signal was sent to it as well. Without a witness: whether a terminal sent it, as far as that can be told."""
        if self.told is None:
            return number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP) and _in_the_foreground()
        for place, (heard, _) in enumerate(self._heard):
            if heard == number:
                del self._heard[place]
                return True
        return False

    def go_on(self) -> None:
        """We were continued, and it may not have been."""
        if self.told is not None:
            with suppress(OSError):
                os.kill(self._pid, signal.SIGCONT)

    def _gone(self) -> None:
        if self.told is not None:
            os.close(self.told)
            self.told = None

    def reaped(self, pid: int) -> None:
        if pid == self._pid:
            self._pid = 1

    def end(self) -> None:
        """It first and its pipe then, for the end of that means that we are no more."""
        end(self._pid)
        self._gone()
        _shut(self._hold)
        self._pid, self._hold = 1, -1


class Waker:
    """While we are stopped: continues us where somebody continues the command alone, whose output would else wait for us."""

    def __init__(self, command: int) -> None:
        us = os.getpid()
        self._pid, self._told, tell = 1, -1, -1
        with suppress(OSError):  # no descriptor more
            self._told, tell = os.pipe()
            self._pid = fork() if sys.platform == "linux" else 1
        if self._pid == 0:
            self._watch(command, us, tell)
        _shut(tell)

    @staticmethod
    def _watch(command: int, us: int, tell: int) -> None:
        try:
            signal.set_wakeup_fd(-1)
            renamed()
            keep_only((tell,))
            while os.getppid() in (us, 0):  # 0: we are in another namespace of processes
                time.sleep(LOOK_SECONDS)
                if stopped(command):
                    continue
                time.sleep(LOOK_SECONDS)  # whoever continues the whole group has done so then
                if stopped(us):
                    os.write(tell, b"1")  # before, for we may be ended at once
                    os.kill(us, signal.SIGCONT)
                    break
        finally:
            os._exit(0)

    def end(self) -> bool:
        """Whether it was this that continued us."""
        end(self._pid)
        told = self._told >= 0 and os.read(self._told, 1)
        _shut(self._told)
        return bool(told)


def _shut(descriptor: int) -> None:
    """-1 is none."""
    if descriptor >= 0:
        os.close(descriptor)


def _held(pid: int) -> int:
    """A descriptor by which this process is meant, and never a later one with its number; -1 where there is none."""
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError):
        return -1


def end(pid: int) -> None:
    """A child of ours. 1 is what `fork` says of none."""
    if pid != 1:
        with suppress(OSError):  # the caller ignores SIGCHLD
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def asked(question: Callable[[], str], seconds: float) -> str | None:
    """The answer, of a process that may hang in the kernel for good: a file system may be dead. None if none comes in time."""
    import select

    if not hasattr(os, "fork"):
        return question()
    answer, tell = os.pipe()
    pid = fork()
    if pid == 0:
        try:
            keep_only((tell,))
            os.write(tell, question().encode("utf-8", "surrogateescape")[:ASKED_BYTES])
        finally:
            os._exit(0)
    os.close(tell)
    poller = select.poll()
    poller.register(answer, select.POLLIN)
    try:
        if pid == 1 or not poller.poll(seconds * 1000):
            return None
        return os.read(answer, ASKED_BYTES).decode("utf-8", "surrogateescape")
    finally:
        os.close(answer)
        if pid != 1:
            with suppress(OSError):  # what hangs for good is nobody's child when we have ended
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)


def foreground(terminal: int) -> int | None:
    """The group that has this terminal; 0 where it does not control us, and so whoever has it open; None where it is gone."""
    try:
        return os.tcgetpgrp(terminal)
    except OSError as error:
        return 0 if error.errno == errno.ENOTTY else None


def may_set(terminal: int) -> bool:
    """Whether we may set its modes and take its keys: in the background that stops us."""
    return foreground(terminal) in (0, os.getpgrp())


def _in_the_foreground() -> bool:
    try:
        with open("/dev/tty", "rb", buffering=0) as terminal:
            return may_set(terminal.fileno())
    except OSError:
        return False
