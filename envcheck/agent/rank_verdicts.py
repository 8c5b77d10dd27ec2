"""What the ranks of one arm did → its verdict: who failed and how, or who is behind in a hang."""

from __future__ import annotations

import os

from . import processes, rank_evidence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Sequence, Tuple

    from .arm_spec import ArmSpec
    from .rank_process import RankProcess

# What a rank says when another one has gone.
VICTIM = ("closed by peer", "reset by peer", "Broken pipe", "remote worker", "Connection refused", "Timed out", "timed out", "timeout",
          "recvValue", "NCCL communicator was aborted")  # fmt: skip

FRAME = ("start", "device", "store", "init", "barrier", "end", "destroy")  # stages that prove nothing of a task of the full check


class RankVerdict:
    """One rank: `facts` as facts.RankFacts wants them, and what only the verdict asks for."""

    def __init__(self, arm: ArmSpec, one: RankProcess, events: Optional[Sequence[Dict[str, Any]]] = None, at_work: bool = True) -> None:
        """With `events`, those alone are looked at; without `at_work`, they are over, and what became of the rank later is not theirs."""
        self.rank, self.state = one.number, one.state
        self.problem = ""  # "failed", "wrong", "crashed", "hang", "unfinished"
        self.error = ""
        self.failed_at: Optional[float] = None
        self.sizes: List[int] = []  # of the collectives begun, the last one perhaps not ended
        self.stages: List[Dict[str, Any]] = []
        self.stack = self.stderr = ""
        self.read(one.events if events is None else events)
        if events is None or at_work:
            self.judge(arm, one)
        if self.problem:
            self.stderr = rank_evidence.complaints(one.path + ".nccl") + processes.tail(one.path + ".log")
            stack = processes.tail(one.path + ".stack")
            self.stack = (one.state + "\n" if one.late else "") + stack
            if one.abandoned:
                self.error = "does not end even by SIGKILL: it is stuck in the kernel and was left behind"
        status = one.status if one.status is not None and at_work else 0
        self.facts: Dict[str, Any] = {
            "rank": one.number, "pid": one.pid, "last_stage": self.last_stage, "stages": self.stages, "error": self.error,
            "exit_code": one.status if status >= 0 and at_work else None, "signal": processes.signal_name(-status) if status < 0 else None,
            "stack": self.stack, "stderr": self.stderr,
        }  # fmt: skip

    @property
    def last_stage(self) -> Optional[str]:
        return str(self.stages[-1]["name"]) if self.stages else None

    def read(self, events: Sequence[Dict[str, Any]]) -> None:
        for event in events:
            if "enter" in event:
                self.stages.append({"name": event["enter"], "status": "entered", "at": event.get("at")})
            elif "size" in event:
                self.sizes.append(int(event["size"]))
            elif "leave" in event and self.stages:
                self.stages[-1].update(status="ok", seconds=event["seconds"])
            elif "skip" in event and self.stages:
                self.stages[-1].update(status="skipped", seconds=event["seconds"], detail=event["text"])
            elif "fail" in event:
                self.problem, self.error, self.failed_at = event["status"], event["text"], event["at"]
                if self.stages and self.stages[-1]["at"] is not None:
                    self.stages[-1]["seconds"] = event["at"] - self.stages[-1]["at"]
                self.mark(event["status"], event["text"][:500])

    def size_reached(self) -> str:
        """Where small messages pass and larger ones do not, the path swallows large packets."""
        if self.last_stage != "all_reduce" or len(self.sizes) < 2:
            return ""
        return "%d bytes passed, %d did not end" % (self.sizes[-2], self.sizes[-1])

    def mark(self, status: str, detail: str = "") -> None:
        if self.stages:
            self.stages[-1].update(status=status, detail=detail)

    def judge(self, arm: ArmSpec, one: RankProcess) -> None:
        """A problem that the rank itself did not tell."""
        if self.problem:
            return
        finished = bool(self.stages) and (self.stages[-1]["name"], self.stages[-1]["status"]) == (arm["stages"][-1], "ok")
        if one.late and one.out_of_time:
            self.problem = "unfinished"
        elif one.late and finished:
            self.problem, self.error = "failed", "did not end after its last stage"
        elif one.late:
            self.problem = "hang"
            self.mark("hang", self.size_reached())
        elif one.status is not None and (one.status != 0 or not finished):
            self.problem = "crashed"
            how = "died with " + processes.signal_name(-one.status) if one.status < 0 else "left with exit code %d" % one.status
            self.error = "%s in the stage %s" % (how, self.last_stage or "start")
            self.mark("failed", self.error)


def judge_ranks(arm: ArmSpec, ranks: Sequence[RankProcess], seconds: float) -> Dict[str, Any]:
    """The status of the arm and its reason, with all ranks."""
    return judge_rows(arm, [RankVerdict(arm, one) for one in ranks], seconds)


def judge_rows(arm: ArmSpec, rows: Sequence[RankVerdict], seconds: float) -> Dict[str, Any]:
    """The same over rows that are already judged."""
    bad = [row for row in rows if row.problem in ("failed", "wrong", "crashed")]
    hung = [row for row in rows if row.problem == "hang"]
    late = [row for row in rows if row.problem == "unfinished"]
    if bad:
        first = min(bad, key=nearness_to_the_cause)
        status, reason = "fail", "rank %d: %s" % (first.rank, first.error or "no reason given")
    elif hung:
        status, reason = "hang", hang_reason(arm, rows, hung)
    elif late:
        status, reason = "inconclusive", "the time for the live check ran out in the stage %s" % (late[0].last_stage or "start")
    else:
        status, reason = "pass", ""
        tried = [stage for stage in rows[0].stages if stage["name"] not in FRAME] if rows else []
        if tried and all(stage["status"] == "skipped" for stage in tried):
            status, reason = "skipped", str(tried[0]["detail"])
    on_one_clock([row.stages for row in rows])
    return {"status": status, "reason": reason, "seconds": seconds, "ranks": [row.facts for row in rows]}


def on_one_clock(ranks: Sequence[List[Dict[str, Any]]]) -> None:
    """The moment of each stage becomes seconds since the first rank entered its first one. All processes of a host share the clock."""
    first = min((stage["at"] for stages in ranks for stage in stages if stage["at"] is not None), default=0.0)
    for stages in ranks:
        for stage in stages:
            at = stage.pop("at")
            stage["began_seconds"] = None if at is None else at - first


def nearness_to_the_cause(row: RankVerdict) -> Tuple[int, float]:
    """Who died or computed wrongly comes before who complains of a peer; among equals the first."""
    victim = any(word in row.error for word in VICTIM)
    order = {"crashed": 0, "wrong": 1}.get(row.problem, 3 if victim else 2)
    return order, row.failed_at or float("inf")


def hang_reason(arm: ArmSpec, rows: Sequence[RankVerdict], hung: Sequence[RankVerdict]) -> str:
    """Names the rank that is behind: stopped, or at an earlier stage, or outside the library in which the others wait."""
    order: Dict[Optional[str], int] = {name: at for at, name in enumerate(arm["stages"])}
    back = min(order.get(row.last_stage, -1) for row in rows)
    behind = [row for row in rows if order.get(row.last_stage, -1) == back]
    stage = behind[0].last_stage or "start"
    stopped = [row for row in hung if row.state.startswith("T")]
    if stopped:
        return "rank %s did not leave the stage %s: stopped by a signal" % (numbers(stopped), stopped[0].last_stage or "start")
    outside = [row for row in behind if innermost(row.stack) and not waits(row)]
    if outside and len(outside) < len(behind):
        text = "rank %s did not enter the collective of the stage %s in which the others wait: it is in %s"
        return text % (numbers(outside), stage, innermost(outside[0].stack))
    reached = behind[0].size_reached()
    return "rank %s did not leave the stage %s%s" % (numbers(behind), stage, ": " + reached if reached else "")


def numbers(rows: Sequence[RankVerdict]) -> str:
    return ", ".join(str(row.rank) for row in rows)


def innermost(stack: str) -> str:
    """The innermost Python frame of faulthandler's main thread: `File "/x/y.py", line 79 in all_reduce` → "/x/y.py:79 (all_reduce)"."""
    part = stack.partition("Current thread")[2] or stack
    for line in part.splitlines():
        if line.lstrip().startswith('File "'):
            path, _, rest = line.partition('File "')[2].partition('", line ')
            number, _, function = rest.partition(" in ")
            return "%s:%s (%s)" % (path, number, function)
    return ""


def waits(row: RankVerdict) -> bool:
    place = innermost(row.stack).replace(os.sep, "/")
    return any(part in place for part in ("/torch/distributed/", "/torch/autograd/", "/torch/nn/parallel/", "/agent/numerics.py:"))
