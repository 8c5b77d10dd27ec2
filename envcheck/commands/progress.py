"""One line on a terminal's stderr that names what is slow: "importing torch … 5 s". Silent elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

# Steps of the agent and probes of the host, in words that go before "… 5 s".
WORDS = {
    "start": "starting the interpreter",
    "python": "looking at the interpreter",
    "packages": "reading package metadata",
    "torch_static": "reading torch's metadata",
    "torch": "asking torch how it was built",
    "import": "importing torch",
    "preload": "importing torch._dynamo",
    "backends": "asking torch for its backends",
    "devices": "running a kernel on every GPU",
    "live": "training step on the ranks",
    "arm": "training step on the ranks",
    "full": "live check in full",
    "driver": "waiting for nvidia-smi and NVML",
    "cuda_driver": "waiting for the CUDA driver",
    "toolkit": "looking for CUDA toolkits",
    "network": "resolving this host's name",
}


class Progress:
    """Called with the step at work as often as one likes; shows it once the run takes longer than `delay` seconds.

    Use as a context manager: the line is cleared on the way out.
    """

    def __init__(self, stream: TextIO, delay: float = 2.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._delay = delay
        self._began = clock()
        self._step = ""
        self._since = self._began
        self._shown = ""
        self._on = _is_terminal(stream)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.clear()

    def __call__(self, step: str) -> None:
        """The step that is at work now."""
        now = self._clock()
        if step != self._step:
            self._step, self._since = step, now
        if not self._on or now - self._began < self._delay:
            return
        seconds = int(now - self._since)
        dots = "…" if (self._stream.encoding or "").lower().startswith("utf") else "..."
        self._write(f"envcheck: {words(step)} {dots} {seconds} s" if seconds else f"envcheck: {words(step)} {dots}")

    def clear(self) -> None:
        """Leave nothing of the line behind."""
        if self._shown:
            self._write("")

    def _write(self, line: str) -> None:
        if line == self._shown:
            return
        line = line[: _columns(self._stream) - 1]
        blank = " " * max(len(self._shown) - len(line), 0)
        back = "\r" if not line else ""
        try:
            self._stream.write(f"\r{line}{blank}{back}")
            self._stream.flush()
        except (OSError, ValueError):  # the terminal is gone: a check does not end for that
            self._on = False
        self._shown = line


def words(step: str) -> str:
    """A step in words; "live nccl ddp" is what the live check is at."""
    if step in WORDS:
        return WORDS[step]
    head, _, rest = step.partition(" ")
    return f"{WORDS[head]}: {rest}" if head in WORDS else step.replace("_", " ")


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def _columns(stream: TextIO) -> int:
    import os

    try:
        return max(os.get_terminal_size(stream.fileno()).columns, 20)
    except (OSError, ValueError):
        return 80
