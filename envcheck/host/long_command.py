"""Runs what takes minutes and writes gigabytes (an installer), with its last words kept and nothing of them on the disk."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from envcheck.host.access import Completed, kill_group, wait
from envcheck.host.plain_files import umask_for_others

KEPT_BYTES = 1 << 16  # of what it prints: the last ones
FAREWELL_SECONDS = 2.0
WAKE_SECONDS = 0.25  # for the progress line


class _LastWords:
    """Reads a pipe to its end in a thread and keeps the last bytes: a full disk costs no word, endless output no memory."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._kept = b""
        self._thread = threading.Thread(target=self._read, name="last-words", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        if self._process.stdout is None:
            return
        with self._process.stdout as pipe:
            while block := pipe.read1(1 << 14):  # type: ignore[attr-defined]
                self._kept = (self._kept + block)[-KEPT_BYTES:]

    def text(self) -> str:
        """What there is a moment after the end; a grandchild that holds the pipe is not waited for."""
        self._thread.join(1.0)
        return self._kept.decode("utf-8", "replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ctrl-C first: pip then removes what it has begun. What does not end soon is killed, with its whole group."""
    if process.poll() is None and hasattr(os, "killpg"):
        try:
            os.killpg(process.pid, signal.SIGINT)
        except (ProcessLookupError, PermissionError):
            pass
        wait(process, FAREWELL_SECONDS)
    kill_group(process)


def run_long(
    argv: Sequence[str],
    *,
    timeout: float,
    env: Mapping[str, str],
    cwd: str | None = None,
    tick: Callable[[], None] | None = None,
) -> Completed:
    """Run argv without a shell, in a session of its own; at the deadline, or whatever is raised meanwhile, the whole group is killed.

    stdout and stderr come together, in `stdout`. `run_command` is for questions: it bounds every file that its child writes.
    """
    began = time.monotonic()
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
            umask=umask_for_others(),
        )
    except FileNotFoundError:
        return Completed(tuple(argv), not_found=True)
    except OSError as error:
        return Completed(tuple(argv), not_executable=True, stdout=str(error))
    try:
        words = _LastWords(process)
        ended = False
        while not ended and (left := began + timeout - time.monotonic()) > 0:
            ended = wait(process, min(left, WAKE_SECONDS if tick else left))
            if tick:
                tick()
    finally:
        _end(process)
    code = process.returncode if ended else None
    return Completed(tuple(argv), code, words.text(), "", time.monotonic() - began, not ended)
