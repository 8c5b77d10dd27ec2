"""Jobs of `--live full`: ranks that do one task after the other, or a trial like those of the quick check.

Each task is an arm of the report; after a failure fresh ranks go on with the rest. Launchers are jobs too (launcher_runs.py).
"""

from __future__ import annotations

import time

from . import arm_run, processes, quick_check, rank_verdicts, strangers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Sequence

    from .arm_spec import ArmSpec
    from .rank_start import Plan

SINGLE_PROCESS = ("compile", "cpp-extension", "dataloader", "arithmetic", "amp-bf16", "amp-fp16", "checkpoint", "store-hash")
SINGLE_PROCESS_GPU = ("compile", "dataloader-pin-memory", "arithmetic", "amp-bf16", "amp-fp16", "cudnn-deterministic")


class TaskJob:
    """A job: ranks that do `arm["tasks"]` one after the other."""

    def __init__(self, plan: Plan, arm: ArmSpec) -> None:
        self.plan, self.arm = plan, arm
        self.gpu = arm["device"] != "cpu"
        self.names = {task: name_of(arm, task) for task in arm["tasks"]}
        self.left = list(arm["tasks"])
        self.round = 0
        self.trial: Optional[arm_run.ArmRun] = None
        self.reported = 0  # tasks of this round
        self.since = time.monotonic()  # of the task at work
        self.quiet = arm["tasks"] == ["wire"]  # a measurement: nothing else may run beside it
        self.stuck_at_start = 0

    def start(self) -> None:
        self.round += 1
        arm: Any = dict(self.arm, tasks=list(self.left), name="%s-%d" % (self.arm["name"], self.round))
        self.reported, self.since = 0, time.monotonic()
        self.begin()
        self.trial = arm_run.ArmRun(self.plan, arm)
        self.trial.start()

    def begin(self) -> None:
        self.since = time.monotonic()
        self.plan.writer.line(begin="full " + self.names[self.left[self.reported]], at=self.since)

    def pids(self) -> List[int]:
        return [one.pid for one in self.trial.ranks if one.running] if self.trial else []

    def step(self) -> bool:
        this = self.trial
        if this is None:
            return True
        over = this.step(0.0)
        counts = [sum("done" in event for event in one.events) for one in this.ranks]
        while this.ranks and self.reported < min(min(counts), len(self.left) - 1):
            self.passed(self.reported)
            self.reported += 1
            self.begin()
        if not over:
            return False
        at = self.reported  # the task at which it ended, well or not
        result = this.refused or self.judged(at, True)
        if result["status"] in ("fail", "hang") and not this.arm.get("alone") and at == 0 and self.never_met():
            self.stuck_at_start += 1
        else:
            self.stuck_at_start = 0
        self.write(at, result)
        self.left = self.left[at + 1 :]
        for pid in this.below:
            processes.kill(pid)
        if self.left and (this.refused or self.stuck_at_start >= 2 or time.monotonic() > self.plan.deadline - 1):
            reason = str(result["reason"]) if this.refused else "no time was left for it"
            if self.stuck_at_start >= 2:
                reason = "the ranks do not even meet (see %s)" % self.names[this.arm["tasks"][at]]
            for index in range(len(self.left)):
                self.write(index, {"status": "inconclusive", "reason": reason, "ranks": [], "seconds": 0.0})
            self.left = []
        if not self.left:
            return True
        self.start()
        return False

    def never_met(self) -> bool:
        assert self.trial is not None  # noqa: S101 - only asked of one that has run
        return not any("task" in event for one in self.trial.ranks for event in one.events)

    def passed(self, index: int) -> None:
        self.write(index, self.judged(index, False))

    def judged(self, index: int, last: bool) -> Dict[str, Any]:
        """The verdict over one task, from the events that belong to it; the first one also answers for how the ranks met."""
        assert self.trial is not None  # noqa: S101
        parts = [events_of(one.events, index, last) for one in self.trial.ranks]
        seen = max(([str(event["enter"]) for event in part if "enter" in event] for part in parts), key=len)
        closing = "end" if self.trial.arm.get("alone") else "destroy"
        arm: Any = dict(self.trial.arm, stages=[*dict.fromkeys(one for one in seen if one != closing), closing])
        rows = [rank_verdicts.RankVerdict(arm, one, part, last) for one, part in zip(self.trial.ranks, parts)]  # noqa: B905 - Python 3.8
        result = rank_verdicts.judge_rows(arm, rows, time.monotonic() - self.since)
        said = [event["wire"] for part in parts for event in part if "wire" in event]
        if said:
            result["wire"] = said[0]
        if result["status"] == "pass" and not all(any("done" in event for event in part) for part in parts):
            result.update(status="fail", reason="its ranks ended without doing it")
        return strangers.doubted(result, self.trial.watch)

    def write(self, index: int, result: Dict[str, Any]) -> None:
        task = self.left[index]
        shown: Any = dict(self.arm, name=self.names[task], part=part_of(task))
        quick_check.write_result(self.plan, shown, result)


def events_of(events: Sequence[Dict[str, Any]], index: int, last: bool) -> List[Dict[str, Any]]:
    """Those of the task with this number: from its begin (the first one's from the very start) to its end, or all that follow."""
    begins = [at for at, event in enumerate(events) if "task" in event]
    first = 0 if index == 0 else begins[index] if index < len(begins) else len(events)
    end = begins[index + 1] if not last and index + 1 < len(begins) else len(events)
    return list(events[first:end])


def name_of(arm: ArmSpec, task: str) -> str:
    """What the report calls it: the backend or device is added where the same task may run on another."""
    if task == "collectives":
        return "collectives-" + arm["backend"]
    return task + ("-" + arm["device"] if task in SINGLE_PROCESS_GPU and task in SINGLE_PROCESS and arm["device"] != "cpu" else "")


def part_of(task: str) -> str:
    if task in ("collectives", "wire"):
        return task
    return "launchers" if task.startswith("store-") else "training"


class ArmJob:
    """A job: a trial like those of the quick check."""

    def __init__(self, plan: Plan, arm: ArmSpec) -> None:
        self.plan, self.arm, self.gpu = plan, arm, arm["device"] != "cpu"
        self.trial: Optional[arm_run.ArmRun] = None

    def start(self) -> None:
        self.plan.writer.line(begin="full " + self.arm["name"], at=time.monotonic())
        self.trial = arm_run.ArmRun(self.plan, self.arm)
        self.trial.start()

    def pids(self) -> List[int]:
        return [one.pid for one in self.trial.ranks if one.running] if self.trial else []

    def step(self) -> bool:
        this = self.trial
        if this is None or not this.step(0.0):
            return this is None
        quick_check.write_result(self.plan, self.arm, this.result())
        return True
