"""Paths on a mount whose server is gone, where each question waits for ever."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

from envcheck.errors import UsageError

ANSWER_SECONDS = 2.0  # a mount that is made when somebody asks for it takes one
_UNANSWERED: set[str] = set()  # who asks of these again, or of what lies below, would wait as long and leave another thread behind


def answers(*paths: str) -> bool:
    """Whether the system says anything of all these paths. Where the server of a mount is gone each question waits for ever; the thread
    that asks is left behind."""
    if any(path == waited or path.startswith(waited.rstrip("/") + "/") for path in paths for waited in tuple(_UNANSWERED)):
        return False
    done = threading.Event()
    asked = ""

    def ask() -> None:
        nonlocal asked
        for path in paths:
            asked = path
            with suppress(OSError, ValueError):
                os.stat(path)
            _UNANSWERED.discard(path)
        done.set()

    try:
        threading.Thread(target=ask, daemon=True, name="answers").start()
    except RuntimeError:  # no more threads
        return True
    if done.wait(ANSWER_SECONDS):
        return True
    _UNANSWERED.add(asked)
    if done.is_set():  # in between
        _UNANSWERED.discard(asked)
    return False


def require_answer(path: str, name: str) -> None:
    """UsageError, which begins with `name`, where the system says nothing of a path."""
    if not answers(path):
        raise UsageError(f"{name}: the file system that it is on does not answer")
