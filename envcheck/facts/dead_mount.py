"""Paths on a mount whose server is gone, where each question waits for ever."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

from envcheck.errors import UsageError

ANSWER_SECONDS = 2.0  # a mount that is made when somebody asks for it takes one


def answers(*paths: str) -> bool:
    """Whether the system says anything of all these paths. Where the server of a mount is gone each question waits for ever; the thread
    that asks is left behind."""
    done = threading.Event()

    def ask() -> None:
        for path in paths:
            with suppress(OSError, ValueError):
                os.stat(path)
        done.set()

    try:
        threading.Thread(target=ask, daemon=True, name="answers").start()
    except RuntimeError:  # no more threads
        return True
    return done.wait(ANSWER_SECONDS)


def require_answer(path: str, name: str) -> None:
    """UsageError, which begins with `name`, where the system says nothing of a path."""
    if not answers(path):
        raise UsageError(f"{name}: the file system that it is on does not answer")
