"""What a command prints, taken through pipes as it comes: it is bounded before the command runs, whoever inherits its streams.

A file, be it one in memory, would grow as fast as a process can write, and a limit that is put on the command after its start is too late
for what it has started itself by then.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from typing import Any

KEPT_BYTES = 1 << 20  # bytes of each stream that are kept, the first ones
OUTPUT_LIMIT = 64 << 20  # bytes of both, after which the command is ended
CHUNK = 1 << 16
LOOK_SECONDS = 0.02  # where the kernel cannot tell us of the end


class CommandOutput:
    """The streams of one command. OSError if there are no descriptors for them."""

    def __init__(self) -> None:
        self._given: list[int] = []  # out and err of the command
        self._kept: dict[int, bytearray] = {}  # our end of each → what came there
        self._taken = 0
        try:
            for _ in range(2):
                ours, theirs = os.pipe()
                self._kept[ours] = bytearray()
                self._given.append(theirs)
                os.set_blocking(ours, False)
        except OSError:
            self._close()
            raise

    def __enter__(self) -> CommandOutput:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        self.handed_over()
        for ours in self._kept:
            os.close(ours)
        self._kept.clear()

    @property
    def given(self) -> tuple[int, int]:
        """What the command gets as stdout and stderr."""
        return self._given[0], self._given[1]

    def handed_over(self) -> None:
        """The command has its ends, or will never have them."""
        while self._given:
            os.close(self._given.pop())

    def wait(self, process: subprocess.Popen[Any], seconds: float) -> bool:
        """True if the process ended within `seconds`. One that has written too much gets the signal of a file that grew too large."""
        poller, told, deadline = select.poll(), _end_of(process), time.monotonic() + seconds
        try:
            for descriptor in (*self._kept, *told):
                poller.register(descriptor, select.POLLIN)
            while process.poll() is None:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                for descriptor, _ in poller.poll(1000 * (left if told else min(left, LOOK_SECONDS))):
                    if descriptor in self._kept and not self._take(descriptor):
                        poller.unregister(descriptor)
                if self._taken > OUTPUT_LIMIT:
                    return _ended_for_its_length(process)
            return True
        finally:
            for descriptor in told:
                os.close(descriptor)

    def texts(self) -> tuple[str, str]:
        """What was printed until now; a process that holds a stream open is not waited for."""
        for ours, kept in self._kept.items():
            while len(kept) < KEPT_BYTES and self._take(ours):
                pass
        out, err = (bytes(kept).decode("utf-8", "replace") for kept in self._kept.values())
        return out, err

    def _take(self, ours: int) -> bool:
        """Whether there was something."""
        try:
            data = os.read(ours, CHUNK)
        except BlockingIOError:
            return False
        self._taken += len(data)
        kept = self._kept[ours]
        kept += data[: KEPT_BYTES - len(kept)]
        return bool(data)


class OutputFiles:
    """The same on Windows, where a pipe cannot be waited for together with a process."""

    def __init__(self) -> None:
        import tempfile

        self._files = [tempfile.TemporaryFile() for _ in range(2)]  # noqa: SIM115  # closed by __exit__

    def __enter__(self) -> OutputFiles:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()

    @property
    def given(self) -> tuple[int, int]:
        return self._files[0].fileno(), self._files[1].fileno()

    def handed_over(self) -> None:
        """They stay ours as well."""

    def wait(self, process: subprocess.Popen[Any], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                process.wait(min(left, LOOK_SECONDS))
            except subprocess.TimeoutExpired:
                if sum(os.fstat(number).st_size for number in self.given) > OUTPUT_LIMIT:
                    process.kill()
                continue
            return True
        return False

    def texts(self) -> tuple[str, str]:
        for file in self._files:
            file.seek(0)
        out, err = (file.read(KEPT_BYTES).decode("utf-8", "replace") for file in self._files)
        return out, err


def command_output() -> CommandOutput | OutputFiles:
    """For one command. OSError where there is no place for what it prints."""
    return CommandOutput() if hasattr(select, "poll") else OutputFiles()


def _end_of(process: subprocess.Popen[Any]) -> list[int]:
    """A descriptor that can be read once the process has ended; none with an old kernel, or under a filter of system calls."""
    try:
        return [os.pidfd_open(process.pid)]
    except (AttributeError, OSError):
        return []


def _ended_for_its_length(process: subprocess.Popen[Any]) -> bool:
    process.send_signal(signal.SIGXFSZ)
    try:
        process.wait(1.0)
    except subprocess.TimeoutExpired:  # it ignores that
        process.kill()
        return process.wait(3.0) is not None
    return True
