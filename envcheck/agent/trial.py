"""The ranks of one arm as the agent sees them: started, watched against their deadlines, ended. Loaded by run.py.

Ranks are forked from the agent where that is safe, else started afresh. A rank states each stage before it enters it; the agent holds
the deadlines, because the libraries' own time-outs are multiples of what one asks for.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Sequence

    from envcheck.agent import evidence, lines, processes, rank  # collect.load puts them here
    from envcheck.agent.rank import Arm

LOG_LIMIT = 64 << 20  # bytes that a rank's output may take on disk; only its end is ever read


class Plan:
    """What all arms share. Times are of the monotonic clock."""

    def __init__(self, options: Dict[str, Any], writer: lines.Writer, fork: bool, stage_seconds: float, deadline: float) -> None:
        self.options, self.writer, self.fork = options, writer, fork
        self.stage_seconds: float = options.get("stage_seconds") or stage_seconds
        self.deadline = deadline
        self.tasks: Dict[str, Callable[..., None]] = {}  # of the full check
        self.resting: Dict[int, subprocess.Popen[bytes]] = {}  # ranks started afresh that wait for their next arm, by number

    def close(self) -> None:
        for process in self.resting.values():
            discard(process)
        self.resting.clear()


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
            event = lines.decoded(line)
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
        try:
            if os.path.getsize(self.path + ".log") > LOG_LIMIT:
                os.truncate(self.path + ".log", 0)
        except OSError:
            pass


class Trial:
    """The ranks of one arm, from their start until they have ended or were ended."""

    def __init__(self, plan: Plan, arm: Arm) -> None:
        self.plan, self.arm = plan, arm
        self.ranks: List[RankProcess] = []
        self.began = time.monotonic()
        self.refused: Optional[Dict[str, Any]] = None  # the result, if they could not even be started
        self.failed_at: Optional[float] = None
        self.trimmed_at = self.began
        self.below: List[int] = []  # processes that late ranks had started: a loader's workers, a compiler

    def start(self) -> None:
        if self.began > self.plan.deadline - 1:
            self.refused = {"status": "inconclusive", "reason": "no time was left for it", "ranks": []}
            return
        try:
            start_ranks(self.plan, self.arm, self.ranks)
        except OSError as error:  # no more processes, no memory: that is no verdict on what the ranks would have done
            end(self.ranks)
            reason = "rank %d could not be started: %s" % (len(self.ranks), lines.said(error))
            self.refused = {"status": "inconclusive", "reason": reason, "ranks": []}

    def step(self, seconds: float) -> bool:
        """Look at the ranks once, after `seconds` at most; end them all when one fails or none moves. True when it is over."""
        over = self.refused is not None or self.looked(seconds)
        if over:
            self.dismiss()
        return over

    def looked(self, seconds: float) -> bool:
        running = [one for one in self.ranks if one.running]
        if not running:
            return True
        if seconds:
            wait_for_events(running, seconds)
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
        silent = any(one.running and now - one.since > allowed(self.plan, self.arm, one) for one in self.ranks)
        if not consequence and not silent:
            if now <= self.plan.deadline:
                return not any(one.running for one in self.ranks)
            for one in self.ranks:
                one.out_of_time = one.running
        late = [one for one in self.ranks if one.running]
        if late and self.failed_at is None:
            evidence.gather(self.plan.options["folder"], self.arm, late)
        if self.arm.get("tasks"):
            self.below = [pid for one in late for pid in processes.descendants(one.pid)]
        end(late)
        return True

    def dismiss(self) -> None:
        """Ranks that rest are kept for the next arm, unless one of them fell."""
        resting = [one for one in self.ranks if one.resting and one.process]
        for one in resting:
            one.resting = False
            if one.process and len(resting) == len(self.ranks) and one.number not in self.plan.resting:
                self.plan.resting[one.number] = one.process
            elif one.process:
                discard(one.process)


def may_rest(arm: Arm) -> bool:
    """Whether ranks can go on with another arm after this one. Not after DDP, whose remains hang when they are freed (rank.py), nor
    over NCCL, which reads its variables once a process."""
    return takes_rested(arm) and "ddp" not in arm["stages"] and arm.get("tasks") in (None, ["wire"])


def takes_rested(arm: Arm) -> bool:
    return arm["backend"] == "gloo" and arm["device"] == "cpu" and not arm.get("alone")


def start_ranks(plan: Plan, arm: Arm, ranks: List[RankProcess]) -> None:
    """Fill `ranks`, so that the caller can end those that were started if one cannot be."""
    listener = loopback_listener(plan) if arm["store"] == "tcp" else None
    if listener:
        arm["port"] = listener.getsockname()[1]
    elif arm["store"] in ("env://", "tcp://"):
        arm["port"] = quiet_port()
    elif arm["store"] == "tcp":
        arm["store"] = "file"  # without a socket of ours TCPStore would listen on every address
    try:
        for number in range(arm["world_size"]):
            ranks.append(fork_rank(plan, arm, number, listener, ranks) if plan.fork else start_rank(plan, arm, number))
    finally:
        if listener:
            listener.close()


def loopback_listener(plan: Plan) -> Optional[socket.socket]:
    """A socket for TCPStore to take over; None if this torch cannot or ranks do not inherit it."""
    import torch

    if not plan.fork or "master_listen_fd" not in (lines.text(lambda: torch.distributed.TCPStore.__init__.__doc__) or ""):
        return None
    listener = socket.socket()
    try:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
    except OSError:  # a sandbox without a network
        listener.close()
        return None
    return listener


def quiet_port() -> int:
    """A port that nobody has and that the system gives to nobody by itself: below the range of /proc/sys/net/ipv4/ip_local_port_range."""
    import random

    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii", errors="replace") as file:
            lowest = int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        lowest = 0
    for attempt in range(40):
        with socket.socket() as one:
            try:
                one.bind(("", random.randrange(lowest // 2, lowest) if lowest > 4096 and attempt < 30 else 0))  # noqa: S311
            except OSError:
                continue
            return int(one.getsockname()[1])
    return 29500


def fork_rank(plan: Plan, arm: Arm, number: int, listener: Optional[socket.socket], earlier: Sequence[RankProcess]) -> RankProcess:
    agent = os.getpid()
    receive, send = os.pipe()
    try:
        pid = processes.fork()
    except OSError:
        os.close(receive)
        os.close(send)
        raise
    if pid == 0:
        try:
            os.close(receive)
            for other in earlier:
                if other.pipe is not None:
                    os.close(other.pipe)
            if listener and number:
                listener.close()
                listener = None
            rank.rank_main(plan.options, arm, number, lambda data: lines.write_all(send, data), listener, agent, plan.tasks)
        finally:
            os._exit(2)  # whatever happens, this copy of the agent does not go on
    os.close(send)
    os.set_blocking(receive, False)
    return RankProcess(number, rank_path(plan, arm, number), pid, pipe=receive)


def rank_path(plan: Plan, arm: Arm, number: int) -> str:
    return os.path.join(plan.options["folder"], "%s-%d" % (arm["name"], number))


def start_rank(plan: Plan, arm: Arm, number: int) -> RankProcess:
    """In an interpreter started afresh, or in one that has done another arm: importing torch is what takes the time."""
    path = rank_path(plan, arm, number)
    open(path + ".jsonl", "wb").close()
    arm["rest"] = may_rest(arm)
    told = lines.encoded(dict(plan.options, rank=number, arm=arm, out=path + ".jsonl"))
    rested = plan.resting.pop(number, None) if takes_rested(arm) else None
    if rested:
        if ask(rested, told):
            return RankProcess(number, path, rested.pid, process=rested)
        discard(rested)
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "collect.py")
    with open(path + ".log", "ab") as log:
        process = subprocess.Popen([sys.executable, here, told.decode()], stdin=subprocess.PIPE, stdout=log, stderr=log)
    return RankProcess(number, path, process.pid, process=process)


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
    lines.attempt(process.wait, 3)
    if process.stdin:
        lines.attempt(process.stdin.close)


def allowed(plan: Plan, arm: Arm, one: RankProcess) -> float:
    """Seconds that the stage a rank is in may take. A rank started afresh imports torch first; NCCL's first contact builds everything."""
    if one.stage == "start":
        return plan.stage_seconds * (1 if plan.fork else 4)
    if arm.get("tasks"):
        # A rank started afresh imports torch._dynamo in the middle of its first optimizer: the agent has done that for a forked one.
        return plan.stage_seconds * arm["patience"].get(one.stage, 1) * (1 if plan.fork else 3)
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
