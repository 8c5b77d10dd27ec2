"""What a command that we run gets as stdout and stderr, and the copy of it that we keep for a diagnosis.

The command shall see what it would see without us, so each stream is as near to the real one as a copy allows. A file is given
as it is and read when the command has ended; a device (/dev/null), a file that we may not read or a closed descriptor is given as it is.
A terminal becomes a pseudo-terminal of the same size and modes, which makes nobody's controlling terminal: colours and progress bars
stay, while keys, Ctrl-C and Ctrl-Z go from the real terminal to the command without us (see `keys` for who reads there). A pipe or a
socket becomes a pipe. Two streams that lead to the same place share one, so that their lines keep their order. What no copy can be
like, as a socket that keeps messages apart, is given as it is, and not seen.

Lines are passed on whole, so that those of several programs with the same log stay apart.
Where copying fails, because the reader is gone, we close our end: the command then meets at its next write what it would have met.
Where the command closes a stream and goes on, we close ours: who reads it meets the end when he would have met it.
"""

from __future__ import annotations

import os
import re
import select
import signal
import stat
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from envcheck.commands.beside import descriptors, foreground, fork, goes_on, keep_only, may_set, may_stop_yet, writer
from envcheck.commands.keys import Served, family, serve
from envcheck.commands.output import for_log
from envcheck.facts.printable import one_line

KEEP = 1 << 20  # bytes of the end of a stream that are kept for the diagnosis
HEAD = 1 << 18  # and of its beginning, where the first error often stands
CHUNK = 1 << 16
EXTPROC = 0o200000  # asm-generic/termbits.h; termios has it from Python 3.13 on
TIOCPKT_IOCTL = 64  # asm-generic/ioctls.h
TIOCGDEV = 0x80045432
LOOK_MS = 200  # between two looks at a terminal, which tells nobody of its modes and not always of its size
MOST_READS = 16  # what a pseudo-terminal holds
# In what was written to a terminal that makes CR LF of LF: the sign of a program that thinks it raw. Colours are none.
_RAW = re.compile(rb"\r\r\n|\x1b(?!\[[\d;]{0,40}[mK])|[\x00-\x06\x0e-\x1a\x1c-\x1f]")
DRAIN_SECONDS = 0.5  # for the last words before a stop: whoever reads them may have stopped too (Ctrl-S)
FULL_MS = 20
QUIET_MS = 100  # a stream that is silent for so long after the command has ended is held open by somebody else


class Kept:
    """The beginning and the end of a long stream."""

    def __init__(self) -> None:
        self.head = bytearray()
        self.tail = bytearray()

    def take(self, data: bytes) -> None:
        room = HEAD - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        self.tail += data
        if len(self.tail) > 2 * KEEP:
            del self.tail[:-KEEP]

    def bytes(self) -> bytes:
        cut = len(self.tail) >= KEEP
        return bytes(self.head) + (b"\n" if cut else b"") + bytes(self.tail[-KEEP:])


class Copy:
    """A stream that passes through us on its way to `sink`. OSError if there are no descriptors for it."""

    waits_ms: int | None = None  # for something to come, before another look

    def __init__(self, sink: int) -> None:
        self.source, self.given = self._pair(sink)  # where we read what the command writes there
        self.sink = sink
        self.numbers = [sink]  # of ours that lead there
        self.kept = Kept()
        self.open = True
        self.closed = False  # by all who had it
        self.busy = threading.Lock()  # held while something is on its way
        self._rest = b""  # of a line that has begun
        self._flowed = 0  # bytes without a pause
        status = os.fstat(sink)
        # One with a name gets another reader when a collector of logs is restarted; other pipes lie together, as ours does.
        self._gets_readers = stat.S_ISFIFO(status.st_mode) and status.st_dev != os.fstat(self.source).st_dev
        self._most = select.PIPE_BUF if stat.S_ISFIFO(status.st_mode) else 0  # that no other writer's words can part

    def _pair(self, _sink: int) -> tuple[int, int]:
        return os.pipe()

    def run(self, ended: int | None = None) -> None:
        """Copy until the stream ends or cannot be written. Once the descriptor `ended` hangs up, only what is still on its way."""
        self.open = False
        try:
            self.open = self._pass(ended)
        finally:  # whatever happened: a stream that nobody reads must not stay open
            if not self.open:
                with self.busy:
                    os.close(self.source)
                    self.source = -1

    def idle(self) -> bool:
        """Whether all that was written is passed on."""
        if not self.busy.acquire(timeout=DRAIN_SECONDS):
            return False
        try:
            return self.source < 0 or not (self._rest or _readable(self.source))
        finally:
            self.busy.release()

    def let_go(self) -> None:
        """Who reads it meets its end."""
        for number in self.numbers:
            _nowhere(number)

    def _pass(self, ended: int | None) -> bool:
        """Whether somebody still holds the stream open."""
        poller = select.poll()
        poller.register(self.source, select.POLLIN)
        if not self._gets_readers:
            poller.register(self.sink, 0)  # tells no more than that the reader is gone
        if ended is not None:
            poller.register(ended, 0)
        patience = self.waits_ms
        while (events := dict(poller.poll(self._moment() if self._rest else patience))) or self._rest or patience != QUIET_MS:
            if not (events or self._rest):
                self._look()
            if ended is not None and ended in events:
                poller.unregister(ended)
                patience = QUIET_MS
            if self.sink in events or not self._go_on(self.source in events):
                return False
        return True

    def _look(self) -> None:
        """Nothing came for a while."""

    def _go_on(self, comes: bool) -> bool:
        with self.busy:
            return self._step() if comes else self._end_line()

    def _step(self) -> bool:
        data = os.read(self.source, CHUNK)
        self.closed = not data
        return self._on(data) if data else self._end_line(False)

    def _on(self, data: bytes) -> bool:
        """Whole lines, for others may write to the same place. What is left of one waits only while there is more to read at once."""
        self.kept.take(data)
        self._flowed = 0 if self._rest and b"\n" not in data else self._flowed + len(data)
        data = self._rest + data
        end = data.rfind(b"\n") + 1
        if len(data) - end > select.PIPE_BUF:
            end = len(data)
        self._rest = data[end:]
        return self._write(data[:end])

    def _moment(self) -> int:
        """The rest may still be in the hands of its writer, who had to wait for room: a terminal cuts a line then."""
        return FULL_MS if self._flowed > CHUNK // 2 else 0

    def _end_line(self, more: bool = True) -> bool:
        rest, self._rest, self._flowed = self._rest, b"", 0
        return self._write(rest) and more

    def _write(self, data: bytes) -> bool:
        at = 0
        while self._most and len(data) - at > self._most:
            end = data.rfind(b"\n", at, at + self._most) + 1 or data.find(b"\n", at + self._most) + 1 or len(data)
            if not write(self.sink, data[at:end]):
                return False
            at = end
        return write(self.sink, data[at:])

    def bytes(self) -> bytes:
        return self.kept.bytes()


class Screen(Copy):
    """A pseudo-terminal for output that passes through us to the real one, and has its modes.

    It is told to leave keys alone (EXTPROC): the real terminal has echoed and edited them, and each change of the modes is told to us.
    It makes CR LF of LF by itself, so that a line stays one when the real terminal is set raw before the line is passed on. Where the
    real one makes it again, we take it back.
    """

    waits_ms: int | None = LOOK_MS
    leads = True  # we belong to whoever has the terminal

    def _pair(self, sink: int) -> tuple[int, int]:
        import fcntl
        import termios

        source, given = os.openpty()
        self.tells = sys.platform == "linux"  # a byte before what it gives
        self.extproc = EXTPROC if self.tells else 0
        try:
            modes = termios.tcgetattr(sink)
            self.found = modes[3] & self.extproc  # it was there before us
            self.cooked = _makes_lines(modes)
            self.late = self.sure = False  # it was set raw before we passed this on; it is raw for what comes
            self.ours = False  # the change that we are told of
            modes[3] |= self.extproc
            termios.tcsetattr(given, termios.TCSANOW, modes)
            self.modes = termios.tcgetattr(given)
            self.size = fcntl.ioctl(sink, termios.TIOCGWINSZ, bytes(8))
            fcntl.ioctl(source, termios.TIOCSWINSZ, self.size)
            if self.tells:
                fcntl.ioctl(source, termios.TIOCPKT, (1).to_bytes(4, sys.byteorder))
        except (OSError, termios.error):
            os.close(source)
            os.close(given)
            raise OSError("a terminal without modes") from None
        self.place = os.fstat(given).st_rdev
        return source, given

    def _look(self) -> None:
        self.sure = True
        self._follow(told=False)
        self.resize()

    def _step(self) -> bool:
        kind, data = self._read()
        while data.endswith(b"\r") and _readable(self.source):  # the LF that was made with it
            more, rest = self._read()
            kind, data = kind | more, data + rest
        self._follow(bool(kind & TIOCPKT_IOCTL))
        if not (kind or data):
            self.resize()  # a last wish
            return self._end_line(False)
        return self._on(data) if data else self._end_line()

    def _read(self) -> tuple[int, bytes]:
        try:
            data = os.read(self.source, CHUNK)
        except OSError:  # EIO: nobody holds the other side any more
            data = b""
        return (data[0], data[1:]) if self.tells and data else (0, data)

    def _on(self, data: bytes) -> bool:
        lines = data.replace(b"\r\n", b"\n")
        if self.late and (raw := _RAW.search(data)):
            data = data[: raw.start()] + data[raw.start() :].replace(b"\r\n", b"\n")
            self.sure = self.sure or raw[0] != b"\r\r\n"
        return super()._on(lines if self.cooked else data)

    def _follow(self, told: bool) -> None:
        """Programs that fill the screen (curses) or hide what is typed set the modes of keys on stdout: they are meant for the terminal
        that has the keys. Others set them there, and ask for them on stdout."""
        import termios

        try:
            modes, real = termios.tcgetattr(self.source), termios.tcgetattr(self.sink)
            theirs = modes != self.modes or (told and not self.ours)
            self.ours = self.ours and not told
            self.late = not theirs and _makes_lines(modes) and not _makes_lines(real)
            free = self.leads and may_set(self.sink)
            if free and theirs and _makes_lines(modes) and not _makes_lines(real):
                self._pass_raw()
                modes = termios.tcgetattr(self.source)
            if free:
                real = self._set_real(self._wish(modes, real) if theirs else real, real)
            self.cooked = _makes_lines(real)
            self.sure = self.sure and not self.cooked
            self._set_ours(modes, real, theirs and not free)
        except (OSError, termios.error):  # closed
            return

    def _pass_raw(self) -> None:
        """What was written before the terminal left its raw modes."""
        for _ in range(MOST_READS):
            if not _readable(self.source):
                break
            if data := self._read()[1]:
                self._on(data)

    def _wish(self, modes: list[Any], real: list[Any]) -> list[Any]:
        """What has changed here, and no more: who set them may have read old ones here. What is set once more is meant where it is on."""
        wanted = list(real)
        for place in (0, 1, 3):
            changed = modes[place] ^ self.modes[place]
            if place == 1 or modes == self.modes:
                changed |= modes[place]
            wanted[place] = real[place] & ~changed | modes[place] & changed
        if modes[6] != self.modes[6]:
            wanted[6] = modes[6]
        return wanted

    def _set_real(self, wanted: list[Any], real: list[Any]) -> list[Any]:
        import termios

        keys = wanted[3] & ~self.extproc | self.found  # also where the command has set there what it was told here
        wanted = [*wanted[:3], keys, *wanted[4:]]
        if wanted == real:
            return real
        termios.tcsetattr(self.sink, termios.TCSANOW, wanted)
        return termios.tcgetattr(self.sink)

    def _set_ours(self, modes: list[Any], real: list[Any], open_wish: bool) -> None:
        """`open_wish`: what the command has set here, the terminal still has to get, when we are in its foreground."""
        import termios

        base = modes if open_wish else real
        output = modes[1] if self.late and not self.sure else real[1]
        wanted = [base[0], output, modes[2], base[3] | self.extproc, *modes[4:6], base[6]]
        if wanted != modes and termios.tcgetattr(self.source) == modes:  # else the command was faster
            termios.tcsetattr(self.source, termios.TCSANOW, wanted)
            self.ours, modes = True, wanted
        if not open_wish:
            self.modes = modes

    def leave(self) -> None:
        """The real terminal keeps nothing of ours."""
        import termios

        with suppress(OSError, termios.error):
            if may_set(self.sink):
                real = termios.tcgetattr(self.sink)
                self._set_real(real, real)

    def resize(self) -> None:
        """Both have the size that one of them was given. Who met the signal with the old one gets it once more."""
        import fcntl
        import termios

        with suppress(OSError, ValueError):  # closed
            ours, real = (fcntl.ioctl(one, termios.TIOCGWINSZ, bytes(8)) for one in (self.source, self.sink))
            if real != self.size:
                self.size = real
                fcntl.ioctl(self.source, termios.TIOCSWINSZ, real)
                os.killpg(foreground(self.sink) or os.getpgrp(), signal.SIGWINCH)
            elif ours != self.size:  # `stty cols 99 <&1`
                self.size = ours
                fcntl.ioctl(self.sink, termios.TIOCSWINSZ, ours)


class Written:
    """A file that the command writes by itself. OSError if we may not read it."""

    def __init__(self, descriptor: int) -> None:
        import fcntl

        appends = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND
        self.start = os.fstat(descriptor).st_size if appends else os.lseek(descriptor, 0, os.SEEK_CUR)
        self.file = open(f"/proc/self/fd/{descriptor}", "rb")  # noqa: SIM115  # however it is renamed meanwhile
        self._appends = bool(appends)
        self._link = f"/proc/self/fd/{self.file.fileno()}"

    def shared(self) -> str:
        """Where and why what is read from it may be somebody else's words, or ""."""
        try:
            path = os.readlink(self._link)
        except OSError:
            return ""
        name = one_line(path, 400)
        if who := writer(path):
            return f"{name}, where {who} may write, too"
        return f"{name}, which is open for appending: others may write there, too" if self._appends else ""

    def bytes(self) -> bytes:
        kept = Kept()
        try:
            with self.file as file:
                size = os.fstat(file.fileno()).st_size
                start = self.start if self.start <= size else 0  # it was truncated
                file.seek(start)
                kept.take(file.read(HEAD))
                file.seek(max(size - KEEP, start + HEAD))
                kept.take(file.read(KEEP))
        except OSError:  # its server is gone
            pass
        return kept.bytes()


class Outputs:
    """stdout and stderr of one command."""

    def __init__(self) -> None:
        self.given: dict[int, int | None] = {1: None, 2: None}  # what the command gets there; None: what we have there
        self.copies: list[Copy] = []
        self.files: list[Written] = []
        self.unseen: dict[int, str] = {}  # why what the command writes there is not
        self._threads: list[threading.Thread] = []
        self._command = 0
        self._named: set[object] = set()  # files of ours
        _reserve_standard_descriptors()
        self._ended, self._running = os.pipe()
        places: dict[tuple[int, int, int], int | None] = {}
        for number in (1, 2):
            if os.get_inheritable(number):
                status = _fstat(number)
                place = (status.st_dev, status.st_ino, status.st_rdev)
                if place not in places:
                    places[place] = self._arrange(number, status.st_mode)
                elif places[place] is not None:
                    self.copies[-1].numbers.append(number)
                self.given[number] = places[place]
        self._share()

    def _share(self) -> None:
        """What else we were given may lead to the same place (`exec 5>&1`): the lines that are written there are in the same order. What
        may be read there, as a socket, stays as it is; who reads keys from a pseudo-terminal is given them."""
        for number in _inherited():
            for copy in self.copies if number > 2 else ():
                if _place(number) == _place(copy.sink) and (_access(number) == os.O_WRONLY or os.isatty(number)):
                    copy.numbers.append(number)
                    self.given[number] = copy.given

    def _arrange(self, number: int, mode: int) -> int | None:
        """The descriptor that stands for this one of ours; None where the command gets ours."""
        try:
            if reason := _not_copied(number, mode):
                self.unseen[number] = reason
                return None
            if os.isatty(number):
                if _is_another_screen(number):
                    self.unseen[number] = "it goes to a terminal of another envcheck run, which explains it"
                    return None
                copy: Copy = Screen(number)
            elif stat.S_ISREG(mode):
                self.files.append(Written(number))
                return None
            elif stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
                return None
            else:
                copy = Copy(number)
        except OSError as error:  # no terminal or no descriptor is left, a file that we may not read: better no copy than no command
            self.unseen[number] = f"it cannot be copied ({error.strerror or error})"
            return None
        thread = threading.Thread(target=self._copy, args=(copy,), daemon=True)
        try:
            thread.start()  # now, while there is no command that could suffer if it does not
        except RuntimeError:  # no thread is left
            os.close(copy.source)
            os.close(copy.given)
            self.unseen[number] = "no thread was left for a copy"
            return None
        self.copies.append(copy)
        self._threads.append(thread)
        return copy.given

    def _copy(self, copy: Copy) -> None:
        copy.run(self._ended)
        if copy.closed and self._command and goes_on(self._command) and _place(copy.sink) not in self._named:
            copy.let_go()

    def started(self, command: int, kept: Iterable[str]) -> None:
        """The command has its descriptors. What we were given beside stderr is its alone from now on, but for files that `kept` names."""
        self._named = {_place(path) for path in kept}
        self._command = command
        self.handed_over()
        copied = {2, *(number for copy in self.copies for number in copy.numbers)}
        for number in _inherited():
            if number not in copied and _place(number) not in self._named:
                os.close(number) if number > 2 else _nowhere(number)
        for screen in self.copies:
            if isinstance(screen, Screen):
                self._serve(screen)

    def _serve(self, screen: Screen) -> None:
        if screen.tells:
            served = Served(screen.sink, screen.source, screen.place)
            with suppress(RuntimeError):  # no thread is left
                threading.Thread(target=serve, args=(served, self._command, self._ended), daemon=True).start()

    def handed_over(self) -> None:
        """The command has its descriptors, or will never have them."""
        for given in {*self.given.values()} - {None}:
            os.close(given)  # type: ignore[arg-type]

    def resize(self) -> None:
        """Pass the terminal's size on."""
        for one in self.copies:
            if isinstance(one, Screen):
                one.resize()

    def drain(self) -> None:
        """The command has stopped: what it wrote and the modes that it left are passed on before we stop, as far as that does not last."""
        until, us = time.monotonic() + DRAIN_SECONDS, os.getpgrp()
        while time.monotonic() < until and any(may_stop_yet(pid, us) for pid in family(self._command)):
            time.sleep(0.005)  # what it started may still be leaving its screen
        for copy, thread in zip(self.copies, self._threads, strict=True):
            while thread.is_alive() and not copy.idle() and time.monotonic() < until:
                time.sleep(0.001)

    def finish(self) -> None:
        """The command has ended: pass on its last words, however long their reader takes.

        What it left running may write for hours. It can: a process of its own copies that as long as it comes.
        """
        os.close(self._running)
        for thread in self._threads:
            thread.join()
        for one in self.copies:
            if isinstance(one, Screen):
                one.leave()
        left = [one for one in self.copies if one.open]
        if left and fork() == 0:
            try:
                _copy_on(left)
            finally:
                os._exit(0)

    def forget(self) -> None:
        """The command needs no explanation."""
        for one in self.files:
            one.file.close()

    def texts(self) -> dict[str, bytes]:
        """What the command wrote, as "", and by the place what others may have written as well."""
        texts = {"": b"\n".join(one.bytes() for one in self.copies)}
        for file in self.files:
            place = file.shared()
            texts[place] = b"\n".join(one for one in (texts.get(place), file.bytes()) if one)
        return texts


def write(descriptor: int, data: bytes) -> bool:
    """All of it, also where whoever shares the descriptor has made it non-blocking; False if it cannot be written."""
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            poller = select.poll()
            poller.register(descriptor, select.POLLOUT)
            poller.poll()
        except OSError:
            return False
    return True


def _is_another_screen(number: int) -> bool:
    """A Screen of an `envcheck run` around us: it serves its modes and keys itself, and would not see who reads behind another one."""
    import termios

    try:
        return sys.platform == "linux" and foreground(number) == 0 and bool(termios.tcgetattr(number)[3] & EXTPROC)
    except termios.error:
        return False


def _fstat(number: int) -> os.stat_result:
    """/dev/tty is the terminal that it stands for, where that is stdout or stderr."""
    import fcntl

    status = os.fstat(number)
    if sys.platform == "linux" and status.st_rdev == os.makedev(5, 0):
        with suppress(OSError):
            device = int.from_bytes(fcntl.ioctl(number, TIOCGDEV, bytes(4)), sys.byteorder)
            return next((one for one in map(os.fstat, (1, 2)) if one.st_rdev == device), status)
    return status


def _makes_lines(modes: list[Any]) -> bool:
    """CR LF of LF."""
    import termios

    lines = termios.OPOST | termios.ONLCR
    return bool(modes[1] & lines == lines)


def _readable(descriptor: int) -> bool:
    import select

    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return any(events & select.POLLIN for _, events in poller.poll(0))


def say(text: str) -> None:
    """To stderr, past Python's buffer: a full disk there must change neither the command's start nor its exit code."""
    write(sys.stderr.fileno(), for_log(text).encode(sys.stderr.encoding or "utf-8", "backslashreplace"))


def _reserve_standard_descriptors() -> None:
    """No pipe of ours may stand where the command would look for stdin, stdout or stderr that the caller has closed."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            null = _null()
            if null != number:
                os.dup2(null, number, inheritable=False)
                os.close(null)


def _not_copied(number: int, mode: int) -> str:
    """Why the command would not meet with a copy what it would meet without one, or ""."""
    import fcntl

    if _access(number) == os.O_RDONLY:
        return "it is open for reading only"
    if stat.S_ISFIFO(mode):
        apart = fcntl.fcntl(number, fcntl.F_GETFL) & getattr(os, "O_DIRECT", 0)
        return "a pipe that keeps messages apart" if apart else ""
    if not stat.S_ISSOCK(mode):
        return "" if stat.S_ISREG(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "it is neither a file nor a pipe"
    import socket

    with socket.socket(fileno=os.dup(number)) as place:
        if place.type != socket.SOCK_STREAM:
            return "a socket that keeps messages apart"
        with suppress(BlockingIOError):
            if _place(number) != _place(0) and place.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
                return "a socket that is read, too"
    return ""


def _access(number: int) -> int:
    import fcntl

    return fcntl.fcntl(number, fcntl.F_GETFL) & (os.O_WRONLY | os.O_RDWR)


def _inherited() -> list[int]:
    """What we were given: Python makes its own so that no other program gets them."""
    try:
        every: Iterable[int] = descriptors()
    except OSError:  # no /proc
        every = range(4096)
    found = []
    for number in every:
        with suppress(OSError):  # that of the listing
            if os.get_inheritable(number):
                found.append(number)
    return found


def _place(file: int | str) -> object:
    """What tells one file from another."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_rdev


def _nowhere(number: int) -> None:
    """Ours no longer leads where it led, if a descriptor can be had for that: a command runs already."""
    with suppress(OSError):
        null = _null()
        os.dup2(null, number, inheritable=False)
        os.close(null)


def _null() -> int:
    """Leads nowhere, also without a /dev/null that we may open."""
    try:
        return os.open(os.devnull, os.O_RDWR)
    except OSError:
        null, other = os.pipe()
        os.close(other)
        return null


def _copy_on(copies: list[Copy]) -> None:
    """In a process of its own, which holds nothing else open and which no signal to the job's group ends."""
    os.setsid()
    keep_only({descriptor for one in copies for descriptor in (one.source, one.sink)})
    for one in copies:
        if isinstance(one, Screen):
            one.leads, one.waits_ms = False, None
    threads = [threading.Thread(target=one.run) for one in copies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
