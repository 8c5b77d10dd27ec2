"""Signals that reach us while a command runs: it gets each of them once, as if it stood in our place.

The command stays in our process group, where terminals, shells and batch systems expect it. So what is sent to the group (Ctrl-C,
`kill %1`, a job step's processes one after the other) reaches it by itself; what is sent to us alone (`kill PID`, `docker stop`) has to
be passed on, or it would be lost. The two look alike to us. What tells them apart is a witness: an idle process beside the command
that tells us what it was sent too.

A stop is followed once the command has stopped, whoever asked for it: at Ctrl-Z it may refuse, and its output must then still pass.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType

from envcheck.commands.beside import ONE_SECONDS, PATIENCE_SECONDS, Waker, Witness, pending, reaped_beside
from envcheck.commands.kernel_word import CpuTime, cpu_of_ended
from envcheck.host import orphans

# What is about a process itself, or cannot be caught. SIGTTIN and SIGTTOU stop the whole group at once: the default is right.
_OWN = frozenset(
    getattr(signal, name)
    for name in (
        "SIGKILL", "SIGSTOP", "SIGCHLD", "SIGPIPE", "SIGURG", "SIGTTIN", "SIGTTOU", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP",
        "SIGSYS", "SIGXFSZ",
    )
)  # fmt: skip
ENDING = frozenset((signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT))
_OF_A_STOP = frozenset(
    getattr(signal, name) for name in ("SIGTSTP", "SIGCONT", "SIGWINCH", "SIGCHLD")
)  # are of no use to what is not there yet
_HANDED_BYTES = 16
SOON_SECONDS = 60.0  # torchrun gives its ranks 30
_QUEUED = getattr(signal, "SIGRTMIN", 1 << 30)  # from here on none is lost however closely they follow each other
PR_SET_DUMPABLE = 4  # linux/prctl.h


class Signals:
    """From before the command starts until it has ended."""

    def __init__(self) -> None:
        self._met: dict[int, float] = {}  # what reached us, alone or with all, and when it last did
        # Also those that we were to ignore (nohup) or that are blocked: the command inherits that, and may change it.
        self._caught = frozenset((*(signal.valid_signals() - _OWN), signal.SIGCHLD))
        self._before = {one: signal.getsignal(one) or signal.SIG_DFL for one in self._caught}
        self._wake, self._woken = os.pipe()
        os.set_blocking(self._woken, False)
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        for one in self._caught:
            signal.signal(one, _noted)
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._caught)
        self._handed_over: set[int] = set()
        try:
            self._handed, self._hand = os.pipe()  # the command's process says which of those that wait it has taken over
            self._witness = Witness(self._mask - self._caught)
        except BaseException:
            self._as_before()
            raise
        self._waiting: list[tuple[int, float]] = []  # signals that it may still get, and since when
        self._shared: dict[int, float] = {}  # when we got the last of a number that it got too
        self._stopped = 0  # the signal that stopped the command, and when
        self._stopped_at = self._continued_by_us = 0.0
        self._told_to_stop = False
        self.cpu: CpuTime | None = None  # of the command, when it has ended

    def as_they_were(self) -> None:
        """In the command's process, before it becomes the command. What was sent to us before it was there waits for it as well, and what
        is sent to all from now on reaches it by itself. One to stop must not do so yet, for we wait until it is the command."""
        waits, waits_here = pending(os.getppid()) & self._caught, signal.sigpending()
        taken = waits - _OF_A_STOP
        for one in taken - waits_here:
            os.kill(os.getpid(), one)
        taken |= (waits | waits_here) & {signal.SIGTSTP}
        signal.signal(signal.SIGTSTP, signal.SIG_IGN)  # throws it away
        os.write(self._hand, sum(1 << one for one in taken).to_bytes(_HANDED_BYTES, "little"))
        for one, handler in self._before.items():
            signal.signal(one, signal.SIG_IGN if handler is signal.SIG_IGN else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def pass_on(self, pid: int, resize: Callable[[], None], drain: Callable[[], None]) -> int:
        """The wait status of the command, when it has ended. `drain` is called before we stop with it."""
        try:
            self._witness.started(pid)
            self._handed_over = self._taken_over()
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask - self._caught)
            return self._passed_on(pid, resize, drain)
        finally:
            self._witness.end()

    def _taken_over(self) -> set[int]:
        """By the last process that was to become the command: one that could not has taken them with it."""
        os.set_blocking(self._handed, False)
        try:
            taken = int.from_bytes(os.read(self._handed, 1 << 12)[-_HANDED_BYTES:], "little")
        except BlockingIOError:
            return set()
        return {number for number in self._caught if taken >> number & 1}

    def _passed_on(self, pid: int, resize: Callable[[], None], drain: Callable[[], None]) -> int:
        import select

        poller = select.poll()
        poller.register(self._wake, select.POLLIN)
        if self._witness.told is not None:
            poller.register(self._witness.told, select.POLLIN)
        while (status := self._look(pid, drain)) is None:
            told = self._witness.told
            if self._wake in dict(poller.poll(self._milliseconds())):
                for number in os.read(self._wake, 4096):
                    self._take(number, pid, resize)
            self._witness.listen()
            if told is not None and self._witness.told is None:
                poller.unregister(told)
            self._decide(pid)
        return status

    def close(self, status: int) -> None:
        """The command has ended so. What would end us now does so in the same way; other signals have lost their meaning."""
        signal.set_wakeup_fd(-1)
        for one in ENDING | {signal.SIGTSTP, signal.SIGCHLD}:
            ends = one in ENDING and self._before[one] is not signal.SIG_IGN
            signal.signal(one, (lambda *_: leave(status)) if ends else self._before[one])
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def asked(self, code: int) -> bool:
        """Whether somebody wanted this end: it came by a signal that is sent for that, or soon after one that the command caught.

        To many programs a hangup is the word to read their settings again: what comes after it is an end of its own.
        """
        soon = time.monotonic() - SOON_SECONDS
        ends = [one for one, handler in self._before.items() if one in ENDING - {signal.SIGHUP} and handler is not signal.SIG_IGN]
        return code - 128 in ENDING & self._met.keys() or any(self._met.get(one, soon) > soon for one in ends)

    def restore(self) -> None:
        """As if we had never been beside a command."""
        self._witness.end()
        self._as_before()

    def _as_before(self) -> None:
        signal.set_wakeup_fd(-1)
        for one, handler in self._before.items():
            signal.signal(one, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _take(self, number: int, pid: int, resize: Callable[[], None]) -> None:
        now = time.monotonic()
        if number == signal.SIGCHLD or (number == signal.SIGCONT and now < self._continued_by_us):
            return
        self._met[number] = now
        if number in self._handed_over:
            self._handed_over.discard(number)
            self._witness.listen()
            self._witness.got(number)
            if number == signal.SIGTSTP:
                self._told_to_stop = True
                _send(pid, number)
            return
        if number in (signal.SIGTSTP, signal.SIGCONT):  # each takes the other back where that is pending
            self._told_to_stop = number == signal.SIGTSTP
            self._waiting = [one for one in self._waiting if one[0] not in (signal.SIGTSTP, signal.SIGCONT)]
        elif number == signal.SIGWINCH:
            resize()
        self._waiting.append((number, now))

    def _decide(self, pid: int) -> None:
        now = time.monotonic()
        waiting, self._waiting = self._waiting, []
        for number, since in waiting:
            if self._witness.got(number):
                self._shared[number] = since
            elif now < since + PATIENCE_SECONDS:
                self._waiting.append((number, since))
            elif number >= _QUEUED or since > self._shared.get(number, 0.0) + ONE_SECONDS:
                _send(pid, number)
                if number == signal.SIGCONT:
                    self._witness.go_on()

    def _milliseconds(self) -> float | None:
        since = [one for _, one in self._waiting]
        if self._stopped:
            since.append(self._stopped_at)
        return max(0.0, min(since) + PATIENCE_SECONDS - time.monotonic()) * 1000 + 1 if since else None

    def _look(self, pid: int, drain: Callable[[], None]) -> int | None:
        for one in reaped_beside(pid) if orphans.own_process else ():
            self._witness.reaped(one)
        self.cpu = cpu_of_ended(pid)
        while True:
            found, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            if not found:
                break
            if os.WIFEXITED(status) or os.WIFSIGNALED(status):
                return status
            self._stopped, self._stopped_at = os.WSTOPSIG(status) if os.WIFSTOPPED(status) else 0, time.monotonic()
        # A terminal stops and continues us with it; we may be the first to run again. Nobody told us of a stop of its own.
        if self._stopped and (self._told_to_stop or time.monotonic() >= self._stopped_at + PATIENCE_SECONDS):
            drain()
            self._stop(self._stopped, pid)
        return None

    def _stop(self, number: int, pid: int) -> None:
        """As the command was stopped, so that whoever started us sees it. Returns when we are continued."""
        self._stopped, self._told_to_stop = 0, False
        waker, before = Waker(pid), signal.getsignal(number)
        if number != signal.SIGSTOP:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        if number != signal.SIGSTOP:
            signal.signal(number, before or signal.SIG_DFL)
        if waker.end():
            self._continued_by_us = time.monotonic() + PATIENCE_SECONDS


def leave(status: int) -> None:
    """End at once, and as the command did: with this code, or by this signal if it is negative."""
    if status < 0:
        end_by(-status)
    os._exit(128 - status if status < 0 else status)


def end_by(number: int) -> None:
    """By this signal, as a shell has to see it: a loop of its ends at Ctrl-C only then. Returns where that cannot be (process 1)."""
    if sys.platform == "linux":
        import ctypes

        try:
            ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # the core that is wanted is the command's
        except (OSError, AttributeError):
            return
    try:
        signal.signal(number, signal.SIG_DFL)
    except (OSError, ValueError):  # SIGKILL
        pass
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)


def _noted(_number: int, _frame: FrameType | None) -> None:
    """The number is in the wakeup pipe."""


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:  # it runs as somebody else (sudo)
        return
