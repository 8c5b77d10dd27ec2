"""`envcheck run -- CMD…`: check, run CMD as if we were not there, and if it fails name the cause from its output."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence

from envcheck.errors import UsageError

KEEP = 1 << 20  # bytes of the end of CMD's output that are kept for the diagnosis
HEAD = 1 << 18  # and of its beginning, where the first error often stands


def execute(args: argparse.Namespace) -> int:
    """CMD's exit code (128 + N if signal N ended it); the check's own code if it finds an error and CMD was not started."""
    from envcheck.check import examine_and_judge
    from envcheck.render.verdict import verdict_line

    report = examine_and_judge(args)
    if report.exit_code == 1:
        from envcheck.check import rendered

        sys.stderr.write(rendered(report, args, to_terminal=False))
        print(f"envcheck: {args.argv[0]} was not started; --fail-on never starts it all the same", file=sys.stderr)
        return report.exit_code
    print(f"envcheck: {verdict_line(report)}", file=sys.stderr)
    code, output = run_and_keep(args.argv)
    if code:
        _explain(output, code, report.snapshot, args)
    return code


def run_and_keep(argv: Sequence[str]) -> tuple[int, bytes]:
    """Run argv with our own stdin and terminal; its output passes through unchanged and its ends are kept.

    On a terminal CMD gets a pseudo-terminal, so that colours and progress bars stay as they are.
    """
    if os.name == "posix" and sys.stdout.isatty():
        return _on_a_terminal(argv)
    return _through_pipes(argv)


class Kept:
    """The beginning and the end of a long output."""

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
        return bytes(self.head) + bytes(self.tail[-KEEP:])


def _on_a_terminal(argv: Sequence[str]) -> tuple[int, bytes]:
    import fcntl
    import pty
    import termios
    import tty

    kept = Kept()
    pid, master = pty.fork()
    if pid == 0:
        _exec(argv)

    def resize(*_: object) -> None:
        try:
            fcntl.ioctl(master, termios.TIOCSWINSZ, fcntl.ioctl(1, termios.TIOCGWINSZ, b"\0" * 8))
        except OSError:
            return

    resize()
    previous = signal.signal(signal.SIGWINCH, resize)
    saved = None
    try:
        if sys.stdin.isatty():
            saved = termios.tcgetattr(0)
            tty.setraw(0)  # keys, Ctrl-C among them, go to CMD and mean what they mean there
        _copy(master, kept)
    finally:
        if saved is not None:
            termios.tcsetattr(0, termios.TCSAFLUSH, saved)
        signal.signal(signal.SIGWINCH, previous)
        os.close(master)
    return _code(os.waitpid(pid, 0)[1]), kept.bytes()


def _copy(master: int, kept: Kept) -> None:
    """Terminal ↔ CMD until CMD closes its side."""
    import select

    sources = [master, 0]
    while True:
        ready = select.select(sources, [], [])[0]
        if 0 in ready:
            data = os.read(0, 65536)
            if data:
                os.write(master, data)
            else:
                sources.remove(0)
        if master in ready:
            try:
                data = os.read(master, 65536)
            except OSError:  # EIO: the other side is closed
                return
            if not data:
                return
            os.write(1, data)
            kept.take(data)


def _exec(argv: Sequence[str]) -> None:
    try:
        os.execvp(argv[0], list(argv))  # noqa: S606
    except OSError as error:
        os.write(2, f"envcheck: {argv[0]}: {error.strerror}\n".encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _through_pipes(argv: Sequence[str]) -> tuple[int, bytes]:
    import subprocess
    import threading

    kept = Kept()
    lock = threading.Lock()
    try:
        process = subprocess.Popen(list(argv), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except FileNotFoundError:
        raise UsageError(f"run: {argv[0]}: not found") from None
    except OSError as error:
        raise UsageError(f"run: {argv[0]}: {error.strerror}") from None

    def forward(number: int, _frame: object) -> None:
        process.send_signal(number)

    previous = {name: signal.signal(name, forward) for name in (signal.SIGTERM, signal.SIGINT)}

    def pump(source: int, into: int) -> None:
        while data := os.read(source, 65536):
            os.write(into, data)
            with lock:
                kept.take(data)

    if process.stdout is None or process.stderr is None:
        raise RuntimeError("Popen gave no pipes")
    pumps = [threading.Thread(target=pump, args=pair, daemon=True) for pair in ((process.stdout.fileno(), 1), (process.stderr.fileno(), 2))]
    for thread in pumps:
        thread.start()
    code = process.wait()
    for thread in pumps:
        thread.join(2.0)  # a grandchild may keep the pipe; CMD itself is done
    for name, handler in previous.items():
        signal.signal(name, handler)
    return (128 - code if code < 0 else code), kept.bytes()


def _code(status: int) -> int:
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _explain(output: bytes, code: int, snapshot: object, args: argparse.Namespace) -> None:
    """What CMD's output says of the cause, together with this machine's facts; on stderr."""
    from envcheck.diagnose import diagnose_output

    text = diagnose_output(output.decode("utf-8", "replace"), snapshot, name=args.argv[0])  # type: ignore[arg-type]
    print(f"\nenvcheck: {args.argv[0]} ended with exit code {code}", file=sys.stderr)
    sys.stderr.write(text)
