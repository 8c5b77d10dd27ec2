"""Keys for a command that reads them from its stdout or stderr (`more`, `read word <&2`), which is a pseudo-terminal of ours.

Keys go from the real terminal to the command without us: who reads stdin or /dev/tty must not miss one. So they are taken only where
they wait, and where a process of the command waits for them in the pseudo-terminal, as /proc tells of its system call.
"""

from __future__ import annotations

import os
import platform
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from envcheck.commands.beside import foreground, may_set
from envcheck.facts.record import record

FIRST_MS, LAST_MS = 20, 500  # between two looks, where keys wait for somebody else
SHARE = 20  # and this many times as long as a look took: a job may have thousands of threads
MOST_PROCESSES = 512
MOST_FILES = 1024  # that one call waits for
_READ, _POLL, _SELECT, _EPOLL = "read", "poll", "select", "epoll"
_CALLS = {  # numbers of the kernel's tables, asm/unistd.h
    "x86_64": {0: _READ, 19: _READ, 7: _POLL, 271: _POLL, 23: _SELECT, 270: _SELECT, 232: _EPOLL, 281: _EPOLL, 441: _EPOLL},
    "aarch64": {63: _READ, 65: _READ, 73: _POLL, 72: _SELECT, 22: _EPOLL, 441: _EPOLL},
}
_POLLIN = 1


@record
class Served:
    """Descriptors of a terminal and of the pseudo-terminal that stands for it, and which of all that one is."""

    terminal: int
    source: int
    place: int


def serve(screen: Served, command: int, ended: int) -> None:
    """Until the descriptor `ended` hangs up."""
    calls = _CALLS.get(platform.machine())
    try:
        # Opened anew: a read that comes too late must not wait, and the flag of ours is that of all who share the terminal.
        path = "/dev/tty" if foreground(screen.terminal) else f"/proc/self/fd/{screen.terminal}"  # the first also as another user (su)
        keys = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return
    try:
        if calls:
            _serve(screen, command, ended, keys, calls)
    finally:
        os.close(keys)


def _serve(screen: Served, command: int, ended: int, keys: int, calls: dict[int, str]) -> None:
    import select

    wait, end, pause = select.poll(), select.poll(), FIRST_MS
    wait.register(keys, select.POLLIN)
    for poller in (wait, end):
        poller.register(ended, 0)
    while dict(wait.poll()) == {keys: select.POLLIN}:
        began = time.monotonic()
        moved = any(_waits(pid, screen.place, calls) for pid in family(command)) and _move(keys, screen)
        pause = FIRST_MS if moved else min(2 * pause, LAST_MS)
        if end.poll(max(pause, SHARE * 1000 * (time.monotonic() - began))):
            return


def _move(keys: int, screen: Served) -> bool:
    """What was typed, a line or a key. An end (Ctrl-D) is its key, by itself."""
    import termios

    with suppress(OSError, termios.error):
        if may_set(keys):
            end: bytes = termios.tcgetattr(keys)[6][termios.VEOF]
            os.write(screen.source, os.read(keys, 4096) or end)
            return True
    return False


def family(command: int) -> Iterator[int]:
    """The command and what it started."""
    found = [command]
    for pid in found:
        yield pid
        if len(found) < MOST_PROCESSES:
            with suppress(OSError, ValueError):
                for task in os.listdir(f"/proc/{pid}/task"):
                    found += map(int, _text(f"/proc/{pid}/task/{task}/children").split())


def _waits(pid: int, place: int, calls: dict[int, str]) -> bool:
    """Whether a thread of it waits for keys of this terminal."""
    with suppress(OSError, ValueError, struct.error):
        for task in os.listdir(f"/proc/{pid}/task"):
            words = _text(f"/proc/{pid}/task/{task}/syscall").split()
            kind = calls.get(int(words[0])) if words and words[0].isdecimal() else None  # else it runs, or may not be asked
            if kind and any(_leads_to(pid, file, place) for file in _files(pid, kind, [int(word, 16) for word in words[1:4]])):
                return True
    return False


def _files(pid: int, kind: str, given: Sequence[int]) -> list[int]:
    """The descriptors that a call with these arguments waits to read from."""
    first, second, _ = given
    if kind == _READ:
        return [first]
    if kind == _EPOLL:
        rows = [line.split() for line in _text(f"/proc/{pid}/fdinfo/{first}").splitlines()]
        return [int(row[1]) for row in rows if row and row[0] == "tfd:" and int(row[3], 16) & _POLLIN]
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        if kind == _POLL:
            memory.seek(first)
            asked = struct.iter_unpack("ihh", memory.read(8 * min(second, MOST_FILES)))
            return [file for file, events, _ in asked if events & _POLLIN]
        memory.seek(second)
        bits = int.from_bytes(memory.read((min(first, MOST_FILES) + 7) // 8), "little") if second else 0
        return [file for file in range(min(first, MOST_FILES)) if bits >> file & 1]


def _leads_to(pid: int, file: int, place: int) -> bool:
    with suppress(OSError):
        return os.stat(f"/proc/{pid}/fd/{file}").st_rdev == place
    return False


def _text(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read()
