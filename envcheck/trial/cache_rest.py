"""What an interrupted uv leaves in its cache: half-unpacked wheels in folders of their own, gigabytes that nobody would ever use."""

from __future__ import annotations

import os
import time

from envcheck.trial.place import locked, remove

PATIENCE_SECONDS = 1.0
PLACES = ("", "builds-v0")


class CacheRest:
    """The temporary folders in a cache before a trial, and after it those that are new: they go if no other uv is at work there."""

    def __init__(self, cache: str | None) -> None:
        self.cache = cache
        self.before = self._there()

    def _there(self) -> frozenset[str]:
        found: set[str] = set()
        for place in PLACES if self.cache else ():
            folder = os.path.join(self.cache or "", place)
            try:
                found.update(os.path.join(folder, name) for name in os.listdir(folder) if name.startswith(".tmp"))
            except OSError:
                continue
        return frozenset(found)

    def clear(self) -> None:
        """Each uv at work holds a shared lock on the cache (older ones do not, so that none may run at all); with ours none starts."""
        if not self.cache or not self._there() - self.before:
            return
        try:
            descriptor = os.open(os.path.join(self.cache, ".lock"), os.O_RDWR)
        except OSError:
            return
        deadline = time.monotonic() + PATIENCE_SECONDS
        try:
            while _uv_runs() or not locked(descriptor):
                if time.monotonic() > deadline:
                    return
                time.sleep(0.05)
            for folder in self._there() - self.before:
                remove(folder)
        finally:
            os.close(descriptor)


def _uv_runs() -> bool:
    """Whether a uv is at work on this machine; True where that cannot be seen."""
    try:
        pids = [name for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return True
    for pid in pids:
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
                if file.read().strip() in ("uv", "uvx"):
                    return True
        except OSError:
            continue
    return False
