"""The live check, seen from the agent: which trials ("arms") there are, and the loop that watches their ranks. Loaded by run.py.

Every arm is a fresh set of ranks, forked from the agent where that is safe, else started afresh. A rank states each stage
before it enters it; the agent holds the deadlines, because the libraries' own time-outs are multiples of what one asks for.
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
    from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

    from envcheck.agent import evidence, lines, processes, rank, verdict  # collect.load puts them here
    from envcheck.agent.rank import Arm

STAGES = ["start", "device", "store", "init", "barrier", "all_reduce", "ddp", "destroy"]
SHORT = ["start", "device", "store", "init", "barrier", "all_reduce", "destroy"]
SIZES = (4, 64 << 10, 4 << 20)  # bytes of int32; the second is the first that an MTU black hole swallows
SOCKETS_ONLY = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_IB_DISABLE": "1", "NCCL_NET": "Socket", "NCCL_NET_PLUGIN": "none"}
LADDER = (
    ("nccl-p2p-off", {"NCCL_P2P_DISABLE": "1"}),
    ("nccl-shm-off", {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}),
    ("nccl-ib-off", SOCKETS_ONLY),
)
LOG_LIMIT = 64 << 20  # bytes that a rank's output may take on disk; only its end is ever read


class Plan:
    """What all arms share. Times are of the monotonic clock."""

    def __init__(self, options: Dict[str, Any], writer: lines.Writer, fork: bool, stage_seconds: float, deadline: float) -> None:
        self.options, self.writer, self.fork = options, writer, fork
        self.stage_seconds: float = options.get("stage_seconds") or stage_seconds
        self.deadline = deadline
        self.tasks: Dict[str, Callable[..., None]] = {}  # of the full check


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
        if self.pipe is not None and (closed or gone is not None):
            os.close(self.pipe)
            self.pipe = None
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


def check(
    options: Dict[str, Any],
    writer: lines.Writer,
    asked: Any,
    fork: bool,
    stage_seconds: float,
    deadline: float,
    full: Optional[Callable[[Plan, Any, Any, str], List[str]]] = None,
    tasks: Optional[Dict[str, Callable[..., None]]] = None,
) -> Dict[str, Any]:
    """Run the arms one after the other and write each result. `asked` is what the devices' child said, or None.

    `full` does the rest of `--live full`, with `tasks` that its ranks may be given.
    """
    import torch

    if not lines.call(torch, "distributed.is_available"):
        return {"unavailable": "torch.distributed is not in this build"}
    plan = Plan(options, writer, fork, stage_seconds, deadline)
    skipped, control = run_arms(plan, torch.distributed, asked)
    value: Dict[str, Any] = {"start_method": "fork" if fork else "spawn", "stage_seconds": plan.stage_seconds, "skipped": skipped}
    if full:
        plan.tasks = tasks or {}
        value["order"] = full(plan, torch.distributed, asked, control)
    return value


def run_arms(plan: Plan, dist: Any, asked: Any) -> Tuple[List[str], str]:
    """Returns what was not tried, and why; and the status of the control arm."""
    wanted, world = plan.options["backend"], plan.options["nproc"]
    ranks = 2 if world in (None, "all") else world
    skipped: List[str] = []
    control = "fail"
    if has(dist, "gloo"):
        control = run(plan, make_arm("gloo-loopback", "gloo", "cpu", ranks, loopback=True))
        if control != "pass":
            second = run(plan, make_arm("gloo-file-store", "gloo", "cpu", ranks, loopback=True, store="file", stages=SHORT))
            if control == second == "hang":  # each further arm would cost its whole deadline and say the same
                return ["no other backend was tried: the control arm hangs with either store"], control
        run(plan, make_arm("gloo-as-is", "gloo", "cpu", ranks, stages=SHORT, sizes=SIZES[:2]))
    else:
        skipped.append("gloo is not in this build: there is no control arm")
    if wanted not in ("auto", "gloo"):
        if not has(dist, wanted):
            skipped.append("%s is not in this build" % wanted)
            return skipped, control
        if wanted not in ("nccl", "xccl"):
            run(plan, make_arm(wanted, wanted, "cpu", ranks))
            return skipped, control
    if wanted == "gloo":
        return skipped, control
    return skipped + accelerator_arms(plan, dist, asked, world, control), control


def has(dist: Any, backend: str) -> bool:
    return bool(lines.call(dist, "is_%s_available" % backend))


def accelerator_arms(plan: Plan, dist: Any, asked: Any, world: Any, control: str) -> List[str]:
    usable = [row for row in (asked or {}).get("devices", ()) if row.get("kernel") == "ok" and row.get("kind") != "mps"]
    if not usable:
        held = [row for row in (asked or {}).get("devices", ()) if row.get("kernel") == "unknown"]
        return ["no GPU was free for the live check: " + str(held[0].get("kernel_error"))] if held else []
    kind = usable[0]["kind"]
    backend = "xccl" if kind == "xpu" else "nccl"
    if not has(dist, backend):
        return ["%s is not in this build" % backend]
    places = [row["index"] for row in usable]
    if len(places) >= 2:
        ranks = len(places) if world == "all" else min(len(places), world or 2)
        status = run(plan, make_arm(backend, backend, kind, ranks, places=places))
        if kind == "cuda" and (status != "pass" or plan.options["live"] == "full"):
            diagnose(plan, kind, ranks, places)
        if status != "pass" and backend == "nccl" and control == "pass":
            ladder(plan, kind, ranks, places)
        return [] if ranks == len(places) else ["%d of the %d GPUs took part" % (ranks, len(places))]
    run(plan, make_arm(backend + "-one-rank", backend, kind, 1, places=places))
    if kind == "cuda" and has(dist, "gloo"):
        run(plan, make_arm("gloo-cuda", "gloo", kind, 2, places=places * 2, loopback=True))
    return ["%s between two GPUs: only one is visible" % backend.upper()]


def diagnose(plan: Plan, kind: str, ranks: int, places: List[int]) -> None:
    """NCCL's own diagnostics, where it has any. They print their result, which the tool reads, and never fail."""
    import torch

    if evidence.has_diagnostics(torch):
        environment = {"NCCL_RUN_DIAGNOSTICS": "1"}
        run(plan, make_arm("nccl-diagnostics", "nccl", kind, ranks, places=places, environment=environment, stages=SHORT, sizes=SIZES[:1]))


def ladder(plan: Plan, kind: str, ranks: int, places: List[int]) -> None:
    """Fresh ranks with one transport after the other switched off; the first arm that passes names the culprit."""
    for name, environment in LADDER:
        if run(plan, make_arm(name, "nccl", kind, ranks, places=places, environment=environment, stages=SHORT)) == "pass":
            return
    for interface in interfaces():
        name, environment = "nccl-socket-" + interface, dict(SOCKETS_ONLY, NCCL_SOCKET_IFNAME="=" + interface)
        if run(plan, make_arm(name, "nccl", kind, ranks, places=places, environment=environment, stages=SHORT)) == "pass":
            return


def interfaces() -> List[str]:
    """Names of interfaces that are up, loopback last."""
    names = [name for _, name in lines.attempt(socket.if_nameindex) or ()]

    def up(name: str) -> bool:
        try:
            with open("/sys/class/net/%s/operstate" % name, encoding="utf-8", errors="replace") as file:
                return file.read().strip() in ("up", "unknown")
        except OSError:
            return False

    return sorted((name for name in names if up(name)), key=lambda name: name == "lo")


def make_arm(
    name: str,
    backend: str,
    device: str,
    world: int,
    places: Sequence[int] = (),
    loopback: bool = False,
    store: str = "tcp",
    stages: Sequence[str] = STAGES,
    sizes: Sequence[int] = SIZES,
    environment: Optional[Dict[str, str]] = None,
) -> Arm:
    environment = dict(environment or {})
    if loopback and sys.platform == "linux":
        environment["GLOO_SOCKET_IFNAME"] = "lo"
    return {"name": name, "backend": backend, "device": device, "world_size": world, "places": list(places), "store": store,
            "stages": list(stages), "sizes": list(sizes), "environment": environment}  # fmt: skip


def run(plan: Plan, arm: Arm) -> str:
    """Run one arm, write its result, return its status."""
    plan.writer.line(begin="arm " + arm["name"], at=time.monotonic())
    trial = Trial(plan, arm)
    trial.start()
    while not trial.step(0.1):
        pass
    result = trial.refused or verdict.of(arm, trial.ranks, time.monotonic() - trial.began)
    write_result(plan, arm, result)
    return str(result["status"])


def write_result(plan: Plan, arm: Arm, result: Dict[str, Any]) -> None:
    keys = ("name", "backend", "device", "world_size", "environment", "part")
    plan.writer.line(section="arm", value=dict({key: arm[key] for key in keys if key in arm}, **result))  # type: ignore[literal-required]


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
        running = [one for one in self.ranks if one.running]
        if self.refused or not running:
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
    path = rank_path(plan, arm, number)
    open(path + ".jsonl", "wb").close()
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "collect.py")
    told = lines.encoded(dict(plan.options, rank=number, arm=arm, out=path + ".jsonl")).decode()
    with open(path + ".log", "ab") as log:
        process = subprocess.Popen([sys.executable, here, told], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    return RankProcess(number, path, process.pid, process=process)


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
