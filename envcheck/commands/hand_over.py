"""The command after `--` takes the place of this process: its signals, its output and its exit code are its own."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

Started = TypeVar("Started")
CANNOT_EXECUTE, NOT_FOUND = 126, 127  # as in a shell
_GO_ON = frozenset((errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ESTALE, errno.ENODEV, errno.ETIMEDOUT))  # as execvp(3)


def hand_over(argv: Sequence[str]) -> int:
    """Never returns where the command can be started; otherwise 126 or 127, as a shell."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    _signals_as_for_a_new_program()
    environment = environment_as_given()
    try:
        first_that_starts(argv, lambda program, words: os.execve(program, list(words), environment))  # noqa: S606
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        from envcheck.facts.printable import visible

        print(visible(f"envcheck: {argv[0]}: {'command not found' if missing else error.strerror}"), file=sys.stderr)
        return NOT_FOUND if missing else CANNOT_EXECUTE


def first_that_starts(argv: Sequence[str], start: Callable[[str, Sequence[str]], Started]) -> Started:
    """Start what execvp(3) and every shell would: the first of that name on PATH, and a script without #! by the shell."""
    refused: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    named = os.sep in argv[0]
    for folder in [""] if named else os.get_exec_path():
        program = argv[0] if named else os.path.join(folder or os.curdir, argv[0])
        if not os.path.exists(program) or (os.path.isdir(program) and not named):
            continue
        try:
            return start(program, argv)
        except OSError as error:
            if error.errno == errno.ENOEXEC:
                return start("/bin/sh", ["/bin/sh", program, *argv[1:]])
            if error.errno not in _GO_ON:
                raise
            if not isinstance(error, FileNotFoundError | NotADirectoryError):
                refused = error
    raise refused


def may_be_executed(program: str, words: Sequence[str]) -> str:
    """The same, as far as that is known before it is started."""
    if os.path.isdir(program) or not os.access(program, os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        raise PermissionError(errno.EACCES, "not an executable file" if program == words[0] else f"{program} is not an executable file")
    return program


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
