"""Signals that reach us while a command runs: it gets each of them once, as if it stood in our place.

The command stays in our process group, where terminals, shells and batch systems expect it. So what is sent to the group (Ctrl-C,
`kill %1`, a job step's processes one after the other) reaches it by itself; what is sent to us alone (`kill PID`, `docker stop`) has to
be passed on, or it would be lost. The two look alike to us. What tells them apart is a witness: an idle process beside the command
with every signal blocked. What it was sent too stays pending there, where /proc shows it.

A stop (Ctrl-Z) is followed only once the command has stopped: it may refuse, and its output must then still pass.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from types import FrameType

# What is about a process itself, or cannot be caught. SIGTTIN and SIGTTOU stop the whole group at once: the default is right.
_OWN = frozenset(
    getattr(signal, name)
    for name in (
        "SIGKILL", "SIGSTOP", "SIGCHLD", "SIGPIPE", "SIGURG", "SIGTTIN", "SIGTTOU", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP",
        "SIGSYS", "SIGXFSZ",
    )
)  # fmt: skip
ENDING = frozenset((signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT))
PATIENCE_SECONDS = 0.2  # between the first and the last process that a sender goes through
BURST_SECONDS = 0.5  # a witness serves for signals that follow each other so closely (SIGCONT, SIGTERM)


class Witness:
    """A process beside the command that blocks every signal; it ends with us, when its stdin does."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except OSError:  # no cat, or no process more: see `got`
            return
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def got(self, number: int) -> bool:
        """Whether this signal was sent to it as well. Without a witness: whether a terminal sent it, as far as that can be told."""
        if self._process is not None:
            try:
                with open(f"/proc/{self._process.pid}/status", encoding="ascii", errors="replace") as file:
                    pending = [int(line.split()[1], 16) for line in file if line.startswith(("SigPnd:", "ShdPnd:"))]
                return any(one >> (number - 1) & 1 for one in pending)
            except OSError:
                pass
        return number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP) and _in_the_foreground()

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


class Signals:
    """From before the command starts until it has ended."""

    def __init__(self) -> None:
        self.met: set[int] = set()  # what reached us, alone or with all
        caught = [one for one in signal.valid_signals() - _OWN if signal.getsignal(one) is not signal.SIG_IGN]  # nohup's stays ignored
        self._caught = frozenset((*caught, signal.SIGCHLD))
        self._before = {one: signal.getsignal(one) or signal.SIG_DFL for one in self._caught}
        self._wake, self._woken = os.pipe()
        os.set_blocking(self._woken, False)
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        for one in self._caught:
            signal.signal(one, _noted)
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._caught)
        self._witness = Witness()
        self._spent: float | None = None  # when the witness has to be replaced: what it got stays pending
        self._waiting: list[tuple[int, float]] = []  # signals that it may still get, and until when
        self._stopped = self._told_to_stop = False

    def as_they_were(self) -> None:
        """In the command's process, before it becomes the command."""
        for one, handler in self._before.items():
            signal.signal(one, signal.SIG_IGN if handler is signal.SIG_IGN else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def pass_on(self, pid: int, resize: Callable[[], bool]) -> int:
        """The wait status of the command, when it has ended."""
        import select

        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask - {signal.SIGCHLD})
        poller = select.poll()
        poller.register(self._wake, select.POLLIN)
        while (status := self._look(pid)) is None:
            if poller.poll(self._milliseconds()):
                for number in os.read(self._wake, 4096):
                    self._take(number, pid, resize)
            self._decide(pid)
        return status

    def close(self, code: int) -> None:
        """The command has ended with this code. What would end us now does so with the same; other signals have lost their meaning."""
        self._witness.end()
        signal.set_wakeup_fd(-1)
        for one in ENDING & self._caught:
            signal.signal(one, lambda *_: os._exit(code))
        for one in {signal.SIGTSTP, signal.SIGCHLD} & self._caught:
            signal.signal(one, self._before[one])
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def restore(self) -> None:
        """The command could not be started."""
        self._witness.end()
        signal.set_wakeup_fd(-1)
        for one, handler in self._before.items():
            signal.signal(one, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _take(self, number: int, pid: int, resize: Callable[[], bool]) -> None:
        if number == signal.SIGCHLD:
            return
        self.met.add(number)
        if number in (signal.SIGTSTP, signal.SIGCONT):  # each takes the other back where that is pending, at the witness too
            self._told_to_stop = number == signal.SIGTSTP
            self._waiting = [one for one in self._waiting if one[0] not in (signal.SIGTSTP, signal.SIGCONT)]
        elif number == signal.SIGWINCH and resize():
            _send(pid, number)  # once more: when its own came, its terminal had the old size
            return
        self._waiting.append((number, time.monotonic() + PATIENCE_SECONDS))

    def _decide(self, pid: int) -> None:
        now = time.monotonic()
        waiting, self._waiting = self._waiting, []
        for number, until in waiting:
            if self._witness.got(number):
                self._spent = now + BURST_SECONDS
            elif now >= until:
                _send(pid, number)
            else:
                self._waiting.append((number, until))
        if self._spent and now >= self._spent and not self._waiting:
            old, self._witness, self._spent = self._witness, Witness(), None
            old.end()

    def _milliseconds(self) -> float | None:
        if self._waiting:
            return 10
        return None if self._spent is None else max(0.0, self._spent - time.monotonic()) * 1000 + 1

    def _look(self, pid: int) -> int | None:
        while True:
            found, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            if not found:
                break
            if os.WIFEXITED(status) or os.WIFSIGNALED(status):
                return status
            self._stopped = os.WIFSTOPPED(status)
        if self._stopped and self._told_to_stop:
            self._stopped = self._told_to_stop = False
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTSTP)  # returns when we are continued
            signal.signal(signal.SIGTSTP, _noted)
        return None


def _noted(_number: int, _frame: FrameType | None) -> None:
    """The number is in the wakeup pipe."""


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:  # it runs as somebody else (sudo)
        return


def _in_the_foreground() -> bool:
    try:
        with open("/dev/tty", "rb", buffering=0) as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False
