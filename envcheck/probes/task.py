"""A piece of a probe that runs beside the others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Task(Generic[T]):
    """`work` in a thread of its own, from now on, or at once where none can be started. What it starts must have a deadline of its own."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._value: T | None = None
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = threading.Thread(target=self._run, daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # pids.max, ulimit -u
            self._thread = None
            self._run()

    def _run(self) -> None:
        try:
            self._value = self._work()
        except BaseException as error:  # noqa: BLE001  # raised again where the result is asked for
            self._error = error

    def result(self, seconds: float) -> T | None:
        """The value; None if there is none after `seconds`."""
        if self._thread:
            self._thread.join(max(0.0, seconds))
        if self._error is not None:
            raise self._error
        return self._value

    @property
    def done(self) -> bool:
        return self._thread is None or not self._thread.is_alive()
