"""What the processes of a job share while they are examined: keys with JSON values."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

Value = Any  # what JSON can say
PART = 256 << 10  # characters of a value of which there are several
MOST_PARTS = 256  # what a rank says of itself is smaller by far; one that lies costs no more


class StoreError(Exception):
    """The store is gone, refuses this process, or a message is over its limit; one line."""


class Store(Protocol):
    """A deadline is a moment of `time.monotonic()`. Every method raises StoreError when the store cannot be asked by then."""

    def set(self, key: str, value: Value) -> None: ...

    def get(self, keys: Iterable[str]) -> dict[str, Value]:
        """Those of the keys that are there."""
        ...

    def compare_and_set(self, key: str, expected: Value, value: Value) -> Value:
        """Writes `value` where the key holds `expected` (None: where it is not there); what it holds afterwards."""
        ...

    def wait(self, keys: Iterable[str], deadline: float) -> dict[str, Value]:
        """Those of the keys that are there when all are, or at the deadline."""
        ...

    def items(self, prefix: str) -> dict[str, Value]:
        """All keys that begin so."""
        ...


class MemoryStore:
    """A store in this process, for ranks that are threads of it."""

    def __init__(self) -> None:
        self._values: dict[str, Value] = {}
        self._changed = threading.Condition()

    def set(self, key: str, value: Value) -> None:
        with self._changed:
            self._values[key] = value
            self._changed.notify_all()

    def get(self, keys: Iterable[str]) -> dict[str, Value]:
        with self._changed:
            return _held(self._values, keys)

    def compare_and_set(self, key: str, expected: Value, value: Value) -> Value:
        with self._changed:
            if self._values.get(key) == expected:
                self._values[key] = value
                self._changed.notify_all()
            return self._values.get(key)

    def wait(self, keys: Iterable[str], deadline: float) -> dict[str, Value]:
        wanted = tuple(keys)
        with self._changed:
            self._changed.wait_for(lambda: all(key in self._values for key in wanted), max(0.0, deadline - time.monotonic()))
            return _held(self._values, wanted)

    def items(self, prefix: str) -> dict[str, Value]:
        with self._changed:
            return {key: value for key, value in self._values.items() if key.startswith(prefix)}


def _held(values: Mapping[str, Value], keys: Iterable[str]) -> dict[str, Value]:
    return {key: values[key] for key in keys if key in values}


def put_large(store: Store, key: str, value: Value) -> None:
    """In parts that messages have room for; how many there are comes last, under the key itself."""
    text = json.dumps(value, separators=(",", ":"))
    parts = [text[at : at + PART] for at in range(0, len(text), PART)]
    for number, part in enumerate(parts):
        store.set(f"{key}/{number}", part)
    store.set(key, len(parts))


def get_large(store: Store, key: str) -> Value:
    """None where it is not there, or no longer whole."""
    count = store.get((key,)).get(key)
    if not isinstance(count, int) or count > MOST_PARTS:
        return None
    keys = [f"{key}/{number}" for number in range(count)]
    parts = store.get(keys)
    try:
        return json.loads("".join(parts[one] for one in keys))
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
