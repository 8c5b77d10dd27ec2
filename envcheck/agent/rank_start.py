"""How the ranks of an arm are started: forked from the agent where that is safe, else afresh."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from . import jsonl, processes, rank, rank_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

    from .arm_spec import ArmSpec
    from .isolation import LoopbackHost
    from .rank_process import RankProcess


FIRST_PORT = 29600  # on a host of our own; those below are the launchers' (launcher_runs.py) and init methods' (rank.py)


class Plan:
    """What all arms share. Times are of the monotonic clock."""

    def __init__(self, options: Dict[str, Any], writer: jsonl.Writer, fork: bool, stage_seconds: float, deadline: float) -> None:
        self.options, self.writer, self.fork = options, writer, fork
        self.stage_seconds: float = options.get("stage_seconds") or stage_seconds
        self.deadline = deadline
        self.takes_listener: Optional[bool] = None  # not tried yet
        self.tasks: Dict[str, Callable[..., None]] = {}  # of the full check
        self.host: Optional[LoopbackHost] = None  # for what nobody else may reach
        self.exposed = ""  # why there is no such host
        self.port = FIRST_PORT
        self.resting: Dict[Tuple[int, bool], subprocess.Popen[bytes]] = {}  # ranks started afresh that wait for their next arm, by seat

    def home(self, isolated: Optional[bool]) -> Optional[LoopbackHost]:
        """Where that lives which listens on every address; the rest lives with us. OSError if there is no such place."""
        if isolated and self.host is None:
            raise OSError("it would listen on every address of this machine")
        return self.host if isolated else None

    def close(self) -> None:
        for process in self.resting.values():
            rank_process.discard(process)
        self.resting.clear()
        if self.host:
            self.host.close()


def may_rest(arm: ArmSpec) -> bool:
    """Whether ranks can go on with another arm after this one. Not after DDP, whose remains hang when they are freed (rank.py), nor
    over NCCL, which reads its variables once a process."""
    return takes_rested(arm) and "ddp" not in arm["stages"] and arm.get("tasks") in (None, ["wire"])


def seat(arm: ArmSpec, number: int) -> Tuple[int, bool]:
    """Which ranks can take each other's place: those of the same number that live on the same host."""
    return number, bool(arm.get("isolated"))


def takes_rested(arm: ArmSpec) -> bool:
    return arm["backend"] == "gloo" and arm["device"] == "cpu" and not arm.get("alone")


def start_ranks(plan: Plan, arm: ArmSpec, ranks: List[RankProcess]) -> None:
    """Fill `ranks`, so that the caller can end those that were started if one cannot be."""
    listener = loopback_listener(plan) if arm["store"] == "tcp" and not arm.get("isolated") else None
    if arm.get("isolated"):
        arm["port"] = plan.port = plan.port + 1  # nobody but us is there
    elif listener:
        arm["port"] = listener.getsockname()[1]
    elif arm["store"] == "tcp":
        arm["store"] = "file"  # without a socket of ours TCPStore would listen on every address
    # Ranks of an arm that is started again would find the addresses of the first ones there, who are gone.
    jsonl.attempt(os.unlink, rank.store_path(arm, plan.options["folder"]))
    try:
        for number in range(arm["world_size"]):
            ranks.append(fork_rank(plan, arm, number, listener, ranks) if plan.fork else start_rank(plan, arm, number))
    finally:
        if listener:
            listener.close()


def loopback_listener(plan: Plan) -> Optional[socket.socket]:
    """A socket for TCPStore to take over; None if this torch takes none or ranks do not inherit it."""
    if not plan.fork:
        return None
    if plan.takes_listener is None:
        plan.takes_listener = takes_listener(min(5.0, plan.stage_seconds))
    return listening() if plan.takes_listener else None


def listening() -> Optional[socket.socket]:
    listener = socket.socket()
    try:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
    except OSError:  # a sandbox without a network
        listener.close()
        return None
    return listener


def takes_listener(seconds: float) -> bool:
    """Whether this torch has a TCPStore for a socket of ours, tried in a child: a store brings threads along.

    False only where it says that it has none. What fails or hangs in another way will do so in the ranks, whose stage it belongs to.
    """
    import torch.distributed

    listener = listening()
    if listener is None:
        return False
    try:
        pid = processes.fork()
        if pid == 0:
            code = 0
            try:
                with open(os.devnull, "w") as nowhere:
                    os.dup2(nowhere.fileno(), 2)
                rank.listening_store(torch.distributed, listener, 1)
            except NotImplementedError:
                code = 1
            except BaseException:
                code = 2
            finally:
                os._exit(code)
    except OSError:  # no more processes: the ranks will say so
        return True
    finally:
        listener.close()
    status = processes.reap(pid, seconds)
    if status is None:
        processes.kill(pid)
        processes.reap(pid, 3)
    return status != 1


def fork_rank(plan: Plan, arm: ArmSpec, number: int, listener: Optional[socket.socket], earlier: Sequence[RankProcess]) -> RankProcess:
    agent, host = os.getpid(), plan.home(arm.get("isolated"))
    pid, receive, send = processes.fork_with_pipe()
    if pid == 0:
        try:
            os.close(receive)
            for other in earlier:
                if other.pipe is not None:
                    os.close(other.pipe)
            if listener and number:
                listener.close()
                listener = None
            rank.rank_main(plan.options, arm, number, lambda data: jsonl.write_all(send, data), listener, agent, plan.tasks, host)
        finally:
            os._exit(2)  # whatever happens, this copy of the agent does not go on
    os.close(send)
    os.set_blocking(receive, False)
    return rank_process.RankProcess(number, rank_path(plan, arm, number), pid, pipe=receive)


def rank_path(plan: Plan, arm: ArmSpec, number: int) -> str:
    return os.path.join(plan.options["folder"], "%s-%d" % (arm["name"], number))


def start_rank(plan: Plan, arm: ArmSpec, number: int) -> RankProcess:
    """In an interpreter started afresh, or in one that has done another arm: importing torch is what takes the time."""
    path = rank_path(plan, arm, number)
    open(path + ".jsonl", "wb").close()
    arm["rest"] = may_rest(arm)
    told = jsonl.encoded(dict(plan.options, rank=number, arm=arm, out=path + ".jsonl"))
    rested = plan.resting.pop(seat(arm, number), None) if takes_rested(arm) else None
    if rested:
        if rank_process.ask(rested, told):
            return rank_process.RankProcess(number, path, rested.pid, process=rested)
        rank_process.discard(rested)
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "main.py")
    host = plan.home(arm.get("isolated"))
    with open(path + ".log", "ab") as log:
        command = [sys.executable, here, told.decode()]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, preexec_fn=host.enter if host else None)
    return rank_process.RankProcess(number, path, process.pid, process=process)
