"""Where a finished text goes: stdout, or the file of -o."""

from __future__ import annotations

import sys

from envcheck.errors import UsageError


def put(text: str, path: str | None, flag: str = "-o") -> None:
    """Write to `path`, which `flag` gave, or to stdout if it is None. UsageError if the file cannot be written."""
    if path is None:
        try:
            sys.stdout.write(text)
        except UnicodeEncodeError:  # Markdown and HTML are UTF-8 whatever the locale says; text and JSON never come here
            sys.stdout.flush()
            sys.stdout.buffer.write(text.encode("utf-8"))
        return
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"{flag} {path}: {error.strerror}") from None
