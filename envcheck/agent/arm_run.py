"""The ranks of one arm, from their start until they have ended or were ended.

A rank states each stage before it enters it; the agent holds the deadlines, because the libraries' own time-outs are multiples of what
one asks for.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time

from . import jsonl, processes, rank_evidence, rank_process, rank_start, rank_verdicts, strangers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Sequence

    from .arm_spec import ArmSpec
    from .rank_process import RankProcess
    from .rank_start import Plan


class ArmRun:
    """The ranks of one arm, from their start until they have ended or were ended."""

    def __init__(self, plan: Plan, arm: ArmSpec, watch: Optional[strangers.Watch] = None) -> None:
        self.plan, self.arm = plan, arm
        self.ranks: List[RankProcess] = []
        self.began = time.monotonic()
        self.refused: Optional[Dict[str, Any]] = None  # the result, if they could not even be started
        self.failed_at: Optional[float] = None
        self.trimmed_at = self.began
        self.watch = watch or strangers.Watch()
        self.watch.lasting = arm["store"] == "file"
        self.below: List[int] = []  # processes that late ranks had started: a loader's workers, a compiler

    def start(self) -> None:
        if self.began > self.plan.deadline - 1:
            self.refused = {"status": "inconclusive", "reason": "no time was left for it", "ranks": []}
            return
        if self.exposed:
            self.watch.begin()
        try:
            rank_start.start_ranks(self.plan, self.arm, self.ranks)
        except (OSError, subprocess.SubprocessError) as error:
            # No more processes, no memory: that is no verdict on what the ranks would have done.
            end(self.ranks)
            reason = "rank %d could not be started: %s" % (len(self.ranks), jsonl.said(error))
            self.refused = {"status": "inconclusive", "reason": reason, "ranks": []}

    def step(self, seconds: float) -> bool:
        """Look at the ranks once, after `seconds` at most; end them all when one fails or none moves. True when it is over."""
        over = self.refused is not None or self.looked(seconds)
        if over:
            self.dismiss()
        return over

    def result(self) -> Dict[str, Any]:
        """Of the whole arm, when it is over."""
        told = self.refused or rank_verdicts.judge_ranks(self.arm, self.ranks, time.monotonic() - self.began)
        if self.exposed and told["status"] != "pass":
            self.watch.look([one.pid for one in self.ranks if one.running], last=True)
        return strangers.doubted(told, self.watch)

    def drop(self) -> None:
        """End the ranks without a word about them: they will be started again."""
        kill([one for one in self.ranks if one.running])
        for one in self.ranks:
            for name in (".log", ".stack"):
                jsonl.attempt(os.unlink, one.path + name)

    @property
    def exposed(self) -> bool:
        """Whether other processes of this machine reach the ranks."""
        return not self.arm.get("isolated") and not self.arm.get("alone")

    def looked(self, seconds: float) -> bool:
        running = [one for one in self.ranks if one.running]
        if not running:
            return True
        if seconds:
            wait_for_events(running, min(seconds, 0.005 if self.watch.share else 0.0005) if self.exposed else seconds)
        if self.exposed:
            self.watch.look([one.pid for one in running])
        now = time.monotonic()
        for one in running:
            one.poll(now)
        if now > self.trimmed_at + 1:
            self.trimmed_at = now
            for one in running:
                one.trim_output()
        if self.failed_at is None and any(one.troubled for one in self.ranks):
            self.failed_at = now
        # The others wait for the one that failed; what they would say in the end is a consequence.
        consequence = self.failed_at is not None and now > self.failed_at + 2
        silent = any(one.running and hangs(one, allowed(self.plan, self.arm, one), now) for one in self.ranks)
        if not consequence and not silent:
            if now <= self.plan.deadline:
                return not any(one.running for one in self.ranks)
            for one in self.ranks:
                one.out_of_time = one.running
        late = [one for one in self.ranks if one.running]
        if late and self.failed_at is None:
            rank_evidence.gather(self.plan.options["folder"], self.arm, late)
        if self.arm.get("tasks"):
            self.below = [pid for one in late for pid in processes.descendants(one.pid)]
        end(late)
        return True

    def dismiss(self) -> None:
        """Ranks that rest are kept for the next arm, unless one of them fell."""
        resting = [one for one in self.ranks if one.resting and one.process]
        for one in resting:
            one.resting = False
            seat = rank_start.seat(self.arm, one.number)
            if one.process and len(resting) == len(self.ranks) and seat not in self.plan.resting:
                self.plan.resting[seat] = one.process
            elif one.process:
                rank_process.discard(one.process)


# Stages in which a rank computes by itself: imports, compilers, a loader's workers. (In a collective a rank may spin and hang.)
COMPUTING = ("start", "compile", "build", "load")


def hangs(one: RankProcess, limit: float, now: float) -> bool:
    waited = now - one.since
    if waited <= limit:
        return False
    return one.stage not in COMPUTING or waited > 4 * limit or not one.pulse.beats(one.pid, now)


def allowed(plan: Plan, arm: ArmSpec, one: RankProcess) -> float:
    """Seconds that the stage a rank is in may take. A rank started afresh imports torch first; NCCL's first contact builds everything."""
    if one.stage == "start":
        return plan.stage_seconds * (1 if plan.fork else 4)
    # A rank started afresh imports torch._dynamo in the middle of its first optimizer: the agent has done that for a forked one.
    afresh = 1 if plan.fork else 3
    if arm.get("tasks"):
        return plan.stage_seconds * arm["patience"].get(one.stage, 1) * afresh
    if one.stage in ("ddp", "step"):
        return plan.stage_seconds * afresh
    return plan.stage_seconds * (2 if arm["backend"] in ("nccl", "xccl") and one.stage in ("init", "barrier") else 1)


def wait_for_events(running: Sequence[RankProcess], seconds: float) -> None:
    """Until a rank says something or ends, `seconds` at most. A pipe at its end would always be ready, so those are not waited for."""
    pipes = [one.pipe for one in running if one.pipe is not None]
    if pipes:
        processes.wait_readable(pipes, seconds)
    if len(pipes) < len(running):
        time.sleep(0.01)


def end(late: Sequence[RankProcess]) -> None:
    """Stacks first, then SIGKILL. Only pids that are our own unreaped children, so none can belong to another process."""
    if not late:
        return
    for one in late:
        one.late = True
        one.state = processes.state(one.pid)
        processes.ask_for_stack(one.pid)
    time.sleep(0.5)
    kill(late)


def kill(late: Sequence[RankProcess]) -> None:
    for one in late:
        if one.process:
            one.process.kill()
        else:
            os.kill(one.pid, signal.SIGKILL)
    limit = time.monotonic() + 3
    for one in late:
        while True:
            one.poll(time.monotonic())
            if one.running and time.monotonic() < limit:
                time.sleep(0.01)
                continue
            one.abandoned = one.running  # stuck in the kernel; nothing ends it
            break
