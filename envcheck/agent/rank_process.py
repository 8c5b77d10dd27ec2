"""One rank as the agent sees it."""

from __future__ import annotations

import os
import subprocess
import time

from . import jsonl, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional


class RankProcess:
    """One rank as the agent sees it. `path` + ".log", ".stack" and ".jsonl" are its files."""

    def __init__(
        self,
        number: int,
        path: str,
        pid: int,
        pipe: Optional[int] = None,
        process: Optional[subprocess.Popen[bytes]] = None,
    ) -> None:
        self.number, self.path, self.pid = number, path, pid
        self.pipe = pipe  # of a forked rank, until it is at its end
        self.process = process  # of one that was started afresh
        self.file = open(path + ".jsonl", "rb") if process else None  # noqa: SIM115 - closed when the process is gone
        self.rest = b""
        self.events: List[Dict[str, Any]] = []
        self.since = time.monotonic()  # when it last said something
        self.pulse = processes.Pulse()
        self.status: Optional[int] = None  # exit code, negative for a signal
        self.state = ""  # of a late one, before it was ended
        self.late = self.out_of_time = self.abandoned = False
        self.resting = False  # it has done what it was asked, and waits to be asked again

    @property
    def running(self) -> bool:
        return self.status is None

    @property
    def stage(self) -> str:
        """The stage that it has entered last."""
        return next((str(event["enter"]) for event in reversed(self.events) if "enter" in event), "start")

    @property
    def troubled(self) -> bool:
        return any("fail" in event for event in self.events) or self.status not in (None, 0)

    def exit_status(self) -> Optional[int]:
        return self.process.poll() if self.process else processes.exit_status(self.pid)

    def poll(self, now: float) -> None:
        """Take in new events and, if the rank is gone, its exit status."""
        gone = self.exit_status()  # asked before the last read, so that nothing written before the end is missed
        data, closed = b"", False
        if self.pipe is not None:
            data, closed = processes.drain(self.pipe)
        elif self.file:
            data = self.file.read()
        *whole, self.rest = (self.rest + data).split(b"\n")
        for line in whole:
            event = jsonl.decoded(line)
            if isinstance(event, dict):
                self.events.append(event)
                self.since = now
                self.resting = self.resting or "rest" in event
        if self.pipe is not None and (closed or gone is not None):
            os.close(self.pipe)
            self.pipe = None
        if self.resting and gone is None:
            gone = 0
        if self.file and gone is not None:
            self.file.close()
            self.file = None
        self.status = gone

    def trim_output(self) -> None:
        """A rank that prints without end must not fill the disk. It appends, so what it prints next comes at the start."""
        processes.emptied_above(self.path + ".log", processes.LOG_LIMIT)


def ask(process: subprocess.Popen[bytes], told: bytes) -> bool:
    """Give a resting rank its next arm; False if it is gone."""
    try:
        assert process.stdin  # noqa: S101 - of a pipe, which start_rank has asked for
        process.stdin.write(told)
        process.stdin.flush()
    except OSError:
        return False
    return process.poll() is None


def discard(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    jsonl.attempt(process.wait, 3)
    if process.stdin:
        jsonl.attempt(process.stdin.close)
