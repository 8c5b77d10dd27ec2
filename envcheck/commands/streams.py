"""What a command that we run gets as stdout and stderr, and the copy of it that we keep for a diagnosis.

The command shall see what it would see without us, so each stream is as near to the real one as a copy allows. A file is given
as it is and read when the command has ended; a device (/dev/null) or a closed descriptor is given as it is. A terminal becomes a
pseudo-terminal of the same size and modes, which makes nobody's controlling terminal: colours and progress bars stay, while keys,
Ctrl-C and Ctrl-Z go from the real terminal to the command without us. A pipe or a socket becomes a pipe. Two streams that lead to
the same place share one, so that their lines keep their order.

Where copying fails, because the reader is gone, we close our end: the command then meets at its next write what it would have met.
"""

from __future__ import annotations

import os
import stat
import sys
import threading

from envcheck.commands.output import for_log

KEEP = 1 << 20  # bytes of the end of a stream that are kept for the diagnosis
HEAD = 1 << 18  # and of its beginning, where the first error often stands
CHUNK = 1 << 16
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

    def __init__(self, sink: int) -> None:
        self.source, self.given = self._pair(sink)  # where we read what the command writes there
        self.sink = sink
        self.kept = Kept()
        self.open = True

    def _pair(self, _sink: int) -> tuple[int, int]:
        return os.pipe()

    def run(self, ended: int | None = None) -> None:
        """Copy until the stream ends or cannot be written. Once the descriptor `ended` hangs up, only what is still on its way."""
        self.open = False
        try:
            self.open = self._pass(ended)
        finally:  # whatever happened: a stream that nobody reads must not stay open
            if not self.open:
                os.close(self.source)

    def _pass(self, ended: int | None) -> bool:
        """Whether somebody still holds the stream open."""
        import select

        poller = select.poll()
        poller.register(self.source, select.POLLIN)
        poller.register(self.sink, 0)  # tells no more than that the reader is gone
        if ended is not None:
            poller.register(ended, 0)
        patience = None
        while events := dict(poller.poll(patience)):
            if ended is not None and ended in events:
                poller.unregister(ended)
                patience = QUIET_MS
            if self.sink in events or (self.source in events and not self._step()):
                return False
        return True

    def _step(self) -> bool:
        try:
            data = os.read(self.source, CHUNK)
        except OSError:  # EIO: nobody holds the other side of a pseudo-terminal any more
            return False
        self.kept.take(data)
        return bool(data) and write(self.sink, data)

    def bytes(self) -> bytes:
        return self.kept.bytes()


class Screen(Copy):
    """A pseudo-terminal for output that passes through us to the real one."""

    def _pair(self, sink: int) -> tuple[int, int]:
        import termios

        source, given = os.openpty()
        try:
            modes = termios.tcgetattr(sink)
            modes[1] &= ~termios.OPOST  # the real terminal makes CR LF of LF
            termios.tcsetattr(given, termios.TCSANOW, modes)
            self.modes = termios.tcgetattr(given)
        except termios.error:
            os.close(source)
            os.close(given)
            raise OSError("a terminal without modes") from None
        return source, given

    def _step(self) -> bool:
        self._follow()
        return super()._step()

    def _follow(self) -> None:
        """Programs that fill the screen (curses) set the modes of keys on stdout: they are meant for the terminal that has the keys."""
        import termios

        try:
            modes = termios.tcgetattr(self.source)
            if modes != self.modes and os.tcgetpgrp(self.sink) == os.getpgrp():
                self.modes, real = modes, termios.tcgetattr(self.sink)
                output = modes[1] & ~termios.OPOST | real[1] & termios.OPOST
                termios.tcsetattr(self.sink, termios.TCSANOW, [modes[0], output, real[2], modes[3], *real[4:6], modes[6]])
        except (OSError, termios.error):  # closed, or not our controlling terminal
            return

    def resize(self) -> None:
        """Give it the size of the real terminal."""
        import fcntl
        import termios

        try:
            fcntl.ioctl(self.source, termios.TIOCSWINSZ, fcntl.ioctl(self.sink, termios.TIOCGWINSZ, bytes(8)))
        except OSError:
            return


class Written:
    """A file that the command writes by itself. OSError if we may not read it."""

    def __init__(self, descriptor: int) -> None:
        import fcntl

        appends = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND
        self.start = os.fstat(descriptor).st_size if appends else os.lseek(descriptor, 0, os.SEEK_CUR)
        self.file = open(f"/proc/self/fd/{descriptor}", "rb")  # noqa: SIM115  # however it is renamed meanwhile

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
        self._threads: list[threading.Thread] = []
        _reserve_standard_descriptors()
        self._ended, self._running = os.pipe()
        places: dict[tuple[int, int, int], int | None] = {}
        for number in (1, 2):
            if os.get_inheritable(number):
                status = os.fstat(number)
                place = (status.st_dev, status.st_ino, status.st_rdev)
                if place not in places:
                    places[place] = self._arrange(number, status.st_mode)
                self.given[number] = places[place]
        self.resize()

    def _arrange(self, number: int, mode: int) -> int | None:
        """The descriptor that stands for this one of ours; None where the command gets ours."""
        try:
            if os.isatty(number):
                copy: Copy = Screen(number)
            elif stat.S_ISREG(mode) and (file := _readable(number)):
                self.files.append(file)
                return None
            elif stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
                return None
            else:
                copy = Copy(number)
        except OSError:  # no terminal or no descriptor is left: better no copy than no command
            return None
        thread = threading.Thread(target=copy.run, args=(self._ended,), daemon=True)
        try:
            thread.start()  # now, while there is no command that could suffer if it does not
        except RuntimeError:  # no thread is left
            os.close(copy.source)
            os.close(copy.given)
            return None
        self.copies.append(copy)
        self._threads.append(thread)
        return copy.given

    def handed_over(self) -> None:
        """The command has its descriptors, or will never have them."""
        for given in {*self.given.values()} - {None}:
            os.close(given)  # type: ignore[arg-type]

    def resize(self) -> bool:
        """Pass the terminal's size on; False where the command has no pseudo-terminal."""
        screens = [one for one in self.copies if isinstance(one, Screen)]
        for one in screens:
            one.resize()
        return bool(screens)

    def finish(self) -> None:
        """The command has ended: pass on its last words, however long their reader takes.

        What it left running may write for hours. It can: a process of its own copies that as long as it comes.
        """
        os.close(self._running)
        for thread in self._threads:
            thread.join()
        left = [one for one in self.copies if one.open]
        if left and fork() == 0:
            try:
                _copy_on(left)
            finally:
                os._exit(0)

    def bytes(self) -> bytes:
        return b"\n".join([*(one.bytes() for one in self.copies), *(one.bytes() for one in self.files)])


def fork() -> int:
    """os.fork(); 1 where there can be no process more. What it says of threads (Python 3.12) is no matter to us."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return os.fork()
        except OSError:
            return 1


def write(descriptor: int, data: bytes) -> bool:
    """All of it, also where whoever shares the descriptor has made it non-blocking; False if it cannot be written."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            import select

            poller = select.poll()
            poller.register(descriptor, select.POLLOUT)
            poller.poll()
        except OSError:
            return False
    return True


def say(text: str) -> None:
    """To stderr, past Python's buffer: a full disk there must change neither the command's start nor its exit code."""
    write(sys.stderr.fileno(), for_log(text).encode(sys.stderr.encoding or "utf-8", "backslashreplace"))


def _reserve_standard_descriptors() -> None:
    """No pipe of ours may stand where the command would look for stdin, stdout or stderr that the caller has closed."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number, inheritable=False)
                os.close(null)


def _readable(number: int) -> Written | None:
    try:
        return Written(number)
    except OSError:
        return None


def _copy_on(copies: list[Copy]) -> None:
    """In a process of its own, which holds nothing else open and which no signal to the job's group ends."""
    os.setsid()
    needed = {descriptor for one in copies for descriptor in (one.source, one.sink)}
    for descriptor in {int(name) for name in os.listdir("/proc/self/fd" if sys.platform == "linux" else "/dev/fd")} - needed:
        try:
            os.close(descriptor)
        except OSError:  # that of the listing itself
            continue
    threads = [threading.Thread(target=one.run) for one in copies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
