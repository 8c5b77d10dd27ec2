"""Files whose place anybody's code may have taken: what stands there may be a pipe that nobody writes to, a device, a link elsewhere."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from envcheck.facts.dead_mount import answers

_AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
PYVENV_BYTES = 1 << 20
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


def descriptor(path: str, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """A regular file, opened without waiting for anybody. OSError where something else stands there."""
    found = os.open(path, flags | _AT_ONCE, mode)
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise OSError(errno.EINVAL, "not a regular file", path)
    if flags & os.O_CREAT:
        with suppress(OSError, AttributeError):  # it was there, and is another user's; Windows
            os.fchmod(found, mode)  # whatever the umask has taken away
    return found


def make_folders(path: str) -> None:
    """A folder and those above it that are missing, each for its owner to use: a umask may have taken even that."""
    missing, here = [] if os.path.isdir(path or ".") else [path], os.path.dirname(path)
    while missing and here and not os.path.lexists(here):
        missing.append(here)
        here = os.path.dirname(here)
    for one in reversed(missing):
        try:
            os.mkdir(one)
        except FileExistsError:  # another process was faster; or a file is there, or a link that somebody has just put there
            if os.path.islink(one) or not os.path.isdir(one):
                raise
            continue
        mode = os.lstat(one).st_mode
        if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(one, mode | stat.S_IRWXU)


def umask_for_others() -> int:
    """That of a program of others that is given a folder of ours, without what takes files from their own owner; -1 as it is."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            mask = next((int(line.split()[1], 8) for line in file if line.startswith("Umask:")), 0)
    except (OSError, ValueError):
        return -1
    return mask & ~stat.S_IRWXU if mask & stat.S_IRWXU else -1


def beginning(path: str, most: int) -> str:
    """The first `most` bytes of a text. OSError where there is no regular file."""
    with open(descriptor(path), "rb") as file:
        return file.read(most).decode("utf-8", "replace")


def pyvenv_rows(prefix: str) -> list[tuple[str, str]]:
    """The settings of the virtual environment in a folder, in their order; none where it is not one, or its pyvenv.cfg cannot be read."""
    try:
        lines = beginning(os.path.join(prefix, "pyvenv.cfg"), PYVENV_BYTES).splitlines()
    except OSError:
        return []
    return [(key.strip(), value.strip()) for key, _, value in (line.partition("=") for line in lines)]


def written(path: str, start: int, most: int) -> bytes | None:
    """What a process of the target wrote, from `start` on. None where it wrote none, or put a link there."""
    try:
        with open(descriptor(path, os.O_RDONLY | _NO_LINK), "rb") as file:
            file.seek(start)
            return file.read(min(most, max(os.fstat(file.fileno()).st_size - start, 0)))  # room for `most` would be taken at once
    except OSError:
        return None


def tail(path: str, limit: int) -> str:
    """The last `limit` bytes of what a process printed."""
    try:
        with open(descriptor(path, os.O_RDONLY | _NO_LINK), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - limit))
            return file.read(limit).decode("utf-8", "replace")
    except OSError:
        return ""


def descriptor_to_append(path: str) -> int:
    """For what a process will print; nowhere, if the path is taken."""
    try:
        return descriptor(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _NO_LINK)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        return os.open(os.devnull, os.O_WRONLY)


def put_anew(path: str, text: str) -> None:
    """The whole content of a file of ours. OSError where something else has its place."""
    with open(descriptor(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _NO_LINK), "w", encoding="utf-8") as file:
        file.write(text)


def emptied_above(path: str, limit: int) -> None:
    """A file that has grown beyond `limit` bytes begins again."""
    try:
        with open(descriptor(path, os.O_WRONLY | _NO_LINK), "ab") as file:
            if os.fstat(file.fileno()).st_size > limit:
                os.ftruncate(file.fileno(), 0)
    except OSError:
        return


def temporary_folder() -> str:
    """The usual one; where the one that somebody has chosen does not answer, the system's. OSError if none can be written."""
    import tempfile

    chosen = [os.environ[name] for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)]
    return tempfile.gettempdir() if answers(*chosen) else "/tmp"  # noqa: S108


def real_path(path: str) -> str:
    """`path` without links, and as it is where the system does not say what a link leads to: os.path.realpath raises then."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # ValueError: a null byte in it
        return path
