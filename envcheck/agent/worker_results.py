"""What the workers of a launcher have written (launched_worker.py), and what it says of their ends. For `--live full`."""

from __future__ import annotations

import re

from . import jsonl, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional


class WorkerResult:
    """What one worker has written."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.told: Dict[str, Any] = {}
        self.stages: List[Dict[str, Any]] = []
        self.error = ""
        self.said_at = 0.0  # by the monotonic clock, which is one for all processes and does not jump
        part = path.split(".")[-2]
        self.pid = int(part) if part.isdecimal() else 0
        try:
            with open(jsonl.plain_file(path), "rb") as file:
                for line in file:
                    self.take(jsonl.decoded(line))
        except OSError:
            self.pid = 0

    def take(self, event: Any) -> None:
        if not isinstance(event, dict):
            return
        if "worker" in event:
            self.told = event["worker"]
        elif "enter" in event:
            self.stages.append({"name": event["enter"], "status": "entered", "at": event.get("at")})
            self.said_at = jsonl.attempt(float, event.get("at")) or 0.0
        elif "leave" in event and self.stages:
            self.stages[-1].update(status="ok", seconds=event["seconds"])
        elif "fail" in event:
            self.error = str(event["text"])
            if self.stages:
                self.stages[-1].update(status=event["status"], detail=self.error[:500])

    @property
    def number(self) -> int:
        value = self.told.get("rank")
        return value if isinstance(value, int) else 0

    @property
    def stage(self) -> str:
        return str(self.stages[-1]["name"]) if self.stages else "start"

    @property
    def over(self) -> bool:
        return bool(self.stages) and self.stages[-1]["status"] == "ok" and self.stage in ("destroy", "store")

    def facts(self, code: Optional[int], stderr: str, late: bool) -> Dict[str, Any]:
        if not self.over and not self.error and self.stages:
            self.stages[-1]["status"] = "hang" if late else "failed"
        return {
            "rank": self.number, "pid": self.pid, "last_stage": self.stage, "stages": self.stages, "error": self.error,
            "exit_code": code if code is not None and code >= 0 else None,
            "signal": processes.signal_name(-code) if code is not None and code < 0 else None,
            "stack": processes.tail(self.path[: -len(".jsonl")] + ".stack"), "stderr": stderr,
        }  # fmt: skip


def exit_codes(text: str) -> Dict[int, int]:
    """torchrun's summary, by pid: "failed (exitcode: 3) local_rank: 1 (pid: 812) of binary", "exitcode  : -9 (pid: 812)"."""
    found: Dict[int, int] = {}
    for code, pid in re.findall(r"exitcode\s*:\s*(-?\d{1,4})\)?(?: local_rank: \d+)? \(pid: (\d{1,9})\)", text):
        found[int(pid)] = int(code)
    return found


def last_error(text: str) -> str:
    """The line that says most: the last that names an error or a signal, else the last with words of its own."""
    rows = [row.strip() for row in text.splitlines() if re.search(r"\w", row) and not re.search(r"\*{3} .{1,40} \*{3}$", row.rstrip())]
    errors = [row for row in rows if re.match(r"[\w.]*(Error|Exception)\b", row) or "error:" in row.lower() or "] Signal: " in row]
    return (errors or rows or [""])[-1][:300]
