"""Ctrl-C, SIGTERM, SIGHUP and their like while something lies on the disk: the first one ends the work, none ends the cleaning up."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from envcheck.errors import ENDING_TOO, INTERRUPTING
from envcheck.host import orphans


class Interruption:
    """As a context manager: within it the first signal raises what it would raise anyway, every later one is only noted.

    Because no more than one exception can come, two nested `finally` that both clean up are enough: what comes in the first one, before
    `hold` is set, finds the second.
    """

    def __init__(self) -> None:
        self.hold = False  # no signal raises any more: cleaning up has begun
        self._noted: int | None = None
        self._raised = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            for name in (*INTERRUPTING, *(ENDING_TOO if orphans.own_process else ())):
                number = getattr(signal, name, None)
                if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):  # nohup
                    self._before[number] = signal.signal(number, self._met)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if kind is None and self._noted is not None and not self._raised:
            self._leave(self._noted)

    def _met(self, number: int, _frame: FrameType | None) -> None:
        if self.hold or self._raised:
            self._noted = self._noted or number
            return
        self._raised = True
        self._leave(number)

    @staticmethod
    def _leave(number: int) -> None:
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)
