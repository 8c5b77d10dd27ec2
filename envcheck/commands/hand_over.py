"""The command after `--` takes the place of this process: its signals, its output and its exit code are its own."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
from collections.abc import Sequence

CANNOT_EXECUTE, NOT_FOUND = 126, 127  # as in a shell


def hand_over(argv: Sequence[str]) -> int:
    """Never returns where the command can be started; otherwise 126 or 127, as a shell."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    _signals_as_for_a_new_program()
    try:
        os.execvpe(argv[0], list(argv), environment_as_given())  # noqa: S606
    except OSError as error:
        script = shutil.which(argv[0])
        if error.errno == errno.ENOEXEC and script:  # a script without #!, as execvp(3) and every shell take it
            os.execve("/bin/sh", ["/bin/sh", script, *argv[1:]], environment_as_given())  # noqa: S606
        missing = isinstance(error, FileNotFoundError)
        from envcheck.facts.printable import visible

        print(visible(f"envcheck: {argv[0]}: {'command not found' if missing else error.strerror}"), file=sys.stderr)
        return NOT_FOUND if missing else CANNOT_EXECUTE


def _signals_as_for_a_new_program() -> None:
    """Python ignores two signals for itself; a program that it becomes would inherit that."""
    for name in ("SIGPIPE", "SIGXFSZ"):
        number = getattr(signal, name, None)
        if number is not None:
            signal.signal(number, signal.SIG_DFL)


def environment_as_given() -> dict[bytes, bytes]:
    """Ours, without the LC_CTYPE that Python gives itself in the locale C (PEP 538)."""
    environment = dict(os.environb)
    try:
        with open("/proc/self/environ", "rb") as file:
            given = file.read()
    except OSError:
        return environment
    if b"\0LC_CTYPE=" not in b"\0" + given:
        environment.pop(b"LC_CTYPE", None)
    return environment
