"""The agent's JSON lines, and words for whatever a patient raises or returns. Stdlib only, Python 3.8 syntax, as all files here."""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
import time

TYPE_CHECKING = False  # typing itself is not imported: it costs milliseconds
if TYPE_CHECKING:
    from typing import Any, Callable, Optional

FILE_LIMIT = 73  # where its size is limited (RLIMIT_FSIZE), of which no file could tell either
CANNOT_WRITE = 74  # exit status (EX_IOERR of sysexits.h) when our own file cannot be written: a full disk says nothing of the patient


class Writer:
    """Appends lines to a file, which is opened for each: a patient may close descriptors that it does not know."""

    def __init__(self, path: str) -> None:
        self.path = path

    def line(self, **fields: Any) -> None:
        self.write(encoded(fields))

    def write(self, data: bytes) -> None:
        try:
            fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o600)
            try:
                write_all(fd, data)
            finally:
                os.close(fd)
        except OSError as error:
            if sys.stderr:
                attempt(sys.stderr.write, "envcheck-agent: %s: %s\n" % (self.path, error))
                attempt(sys.stderr.flush)
            os._exit(FILE_LIMIT if error.errno == errno.EFBIG else CANNOT_WRITE)

    def section(self, name: str, make: Callable[..., Any], *arguments: Any) -> Any:
        """Run one step between its begin and its end; whatever it raises is a result too. Returns the value or None."""
        self.line(begin=name, at=time.monotonic())
        value = None
        try:
            value = make(*arguments)
            data = encoded({"section": name, "value": value})
        except BaseException as error:
            data = encoded({"section": name, "error": described(error)})
        self.write(data)
        return value


class StageLog:
    """Says through `write` what a rank is doing."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self.write = write
        self.stage = "start"
        self.began = 0.0

    def say(self, **event: Any) -> None:
        self.write(encoded(event))

    def enter(self, stage: str) -> None:
        self.stage, self.began = stage, time.monotonic()
        self.say(enter=stage, at=self.began)

    def leave(self) -> None:
        self.say(leave=self.stage, seconds=time.monotonic() - self.began)

    def skip(self, reason: str) -> None:
        self.say(skip=self.stage, seconds=time.monotonic() - self.began, text=reason)

    def fail(self, status: str, text: str) -> None:
        self.say(fail=self.stage, status=status, text=text, at=time.monotonic())

    def task(self, name: str, done: bool = False) -> None:
        """One of an arm's `tasks` begins, or is done."""
        self.say(**{"done" if done else "task": name})


def plain_file(path: str) -> int:
    """The descriptor of a regular file to be read; OSError for a pipe that nobody may ever write to, or a device without end."""
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError("%s is not a regular file" % path)
    return fd


def write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def encoded(fields: Any) -> bytes:
    """One line. Names that are not UTF-8 come with question marks, so that no reader stumbles over half a surrogate pair."""
    return json.dumps(fields, ensure_ascii=False, default=said).encode("utf-8", "replace") + b"\n"


def decoded(line: bytes) -> Any:
    """The value of one line, None if it is none: its writer may have died in the middle of it."""
    try:
        return json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def said(value: object, limit: int = 2000) -> str:
    """str(value), which may raise as well. Cut between words: the tool masks secrets, and half a word is none that it can tell."""
    try:
        text = str(value)
        return text if len(text) <= limit else text[: max(text.rfind(" ", 0, limit), text.rfind("\n", 0, limit))] or text[:limit]
    except BaseException:
        return "(%s that cannot be shown)" % type(value).__name__


def described(error: BaseException) -> Any:
    return {"type": type(error).__name__, "text": said(error)}


def attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    """The value, or None if this torch does not have it or says no: with any exception, even one that means to end the process."""
    try:
        return function(*arguments)
    except BaseException:
        return None


def dotted(root: Any, path: str) -> Any:
    for name in path.split("."):
        root = getattr(root, name)
    return root


def call(root: Any, path: str, *arguments: Any) -> Any:
    return attempt(lambda: dotted(root, path)(*arguments))


def text(function: Callable[[], Any]) -> Optional[str]:
    """What `function` returns as a string; None for None, and if it raises."""
    value = attempt(function)
    return None if value is None else said(value)


def flag(value: object) -> Optional[bool]:
    """Only what really is true or false: a stand-in for torch answers with objects of its own."""
    return bool(value) if isinstance(value, int) else None
