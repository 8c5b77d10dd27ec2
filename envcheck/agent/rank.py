"""Inside one rank of the live check: the stages, stated before they are entered.

A rank leaves by os._exit inside its function: with gloo, freeing DDP after destroy_process_group joins a thread while
holding the GIL, and hangs.
"""

from __future__ import annotations

import datetime
import os
import sys
import time
import traceback

from . import jsonl, numerics, processes, rank_evidence, temporary

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any, Callable, Dict, NoReturn, Optional, Sequence

    from .arm_spec import ArmSpec
    from .isolation import LoopbackHost


SCRUB = ("RANK", "WORLD_SIZE", "LOCAL_", "GROUP_", "ROLE_", "MASTER_", "PET_", "TORCHELASTIC_", "SLURM_", "OMPI_", "PMI_", "PMIX_", "JSM_")
# Never the first to give up: the agent's deadlines are shorter, and the libraries' own are multiples of what one asks for.
LIBRARY_LIMIT = datetime.timedelta(seconds=600)

INIT_METHODS = ("env://", "tcp://", "file://")


class Skip(Exception):
    """What a stage would try is not there by design: not in this torch, this backend or this machine."""


def need_numpy(what: str) -> None:
    try:
        import numpy  # noqa: F401
    except ImportError as error:
        raise Skip("%s needs NumPy: %s" % (what, error)) from None


class TaskContext:
    """What a task of the full check is given."""

    def __init__(self, torch: Any, dist: Any, arm: ArmSpec, rank: int, device: Any, folder: str, log: jsonl.StageLog) -> None:
        self.torch, self.dist, self.rank, self.device, self.folder, self.log = torch, dist, rank, device, folder, log
        self.world, self.backend, self.places = arm["world_size"], arm["backend"], arm["places"]
        self.exposed = arm["backend"] == "gloo" and not arm.get("isolated")

    def stage(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run `function` as a stage; where it raises Skip, the stage is skipped with its reason."""
        self.log.enter(name)
        try:
            value = function(*arguments)
        except Skip as reason:
            self.log.skip(str(reason))
            return None
        self.log.leave()
        return value

    def need_each_other(self, what: str) -> None:
        """Objects are pickles, and who sends one to a rank runs what he likes there. NCCL's ranks show each other a number of 64 bits
        that stands in a private file; gloo's show each other nothing."""
        if self.exposed:
            raise Skip("%s: any process of this machine could send these ranks a pickle" % what)

    def barrier(self) -> None:
        self.dist.barrier(**({"device_ids": [self.device.index]} if self.backend == "nccl" else {}))


def tell_failure(log: jsonl.StageLog, error: BaseException, most: int) -> None:
    """Inside an `except`: the traceback to stderr, and a rank's last words, of `most` characters."""
    traceback.print_exc()
    wrong = isinstance(error, numerics.Wrong)
    log.fail("wrong" if wrong else "failed", str(error) if wrong else "%s: %s" % (type(error).__name__, jsonl.said(error, most)))


def rank_main(
    options: Dict[str, Any],
    arm: ArmSpec,
    rank: int,
    write: Callable[[bytes], None],
    listener: Optional[socket.socket],
    agent: Optional[int] = None,
    tasks: Optional[Dict[str, Callable[[TaskContext], None]]] = None,
    host: Optional[LoopbackHost] = None,
) -> None:
    """Everything that a rank does; it returns only where it may rest. `agent` is the pid of the process that forked it; `tasks` those
    of the full check by name; `host` where it moves first."""
    code, resting = 1, False
    log = jsonl.StageLog(write)
    try:
        prepare(options, arm, rank, agent, host)
        stages(log, arm, rank, listener, options["folder"], tasks or {})
        code = 0
        if arm.get("rest"):
            log.say(rest=True)
            resting = True
    except BaseException as error:
        try:
            tell_failure(log, error, 3000)
        except BaseException:
            code = 2
    finally:
        try:
            sys.stderr.flush()
        finally:
            if not resting:
                leave(code)


def leave(code: int) -> NoReturn:
    temporary.clean()
    os._exit(code)


def serve(options: Dict[str, Any], tasks: Dict[str, Callable[[TaskContext], None]]) -> NoReturn:
    """A rank that was started afresh: its arm, and as long as it may rest those that come by stdin, a line each."""
    given = dict(os.environ)
    while True:
        rank_main(options, options["arm"], options["rank"], jsonl.Writer(options["out"]).write, None, None, tasks)
        options = jsonl.decoded(sys.stdin.buffer.readline()) or leave(0)
        os.environ.clear()
        os.environ.update(given)
        take_files(options, options["arm"], options["rank"])


def take_files(options: Dict[str, Any], arm: ArmSpec, rank: int) -> None:
    """Output to a file of this rank, stacks on SIGUSR1 to another."""
    name = os.path.join(options["folder"], "%s-%d" % (arm["name"], rank))
    try:
        log = os.open(name + ".log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:  # a full disk is no fault of the patient's training
        log = os.open(os.devnull, os.O_WRONLY)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    processes.leave_stacks(name + ".stack")


def prepare(options: Dict[str, Any], arm: ArmSpec, rank: int, agent: Optional[int], host: Optional[LoopbackHost]) -> None:
    """Its own files, the launcher's variables gone, the arm's variables set."""
    if agent is not None:  # one that was started afresh has done this before its import
        if host:
            host.enter()
        processes.die_with_parent(agent)
        take_files(options, arm, rank)
    for key in list(os.environ):
        if key.startswith(SCRUB):
            del os.environ[key]
    os.environ.update(arm["environment"])
    if arm["backend"] == "nccl":
        os.environ.update(rank_evidence.variables(options["folder"], arm["name"], rank, os.environ))
        if os.environ.get("NCCL_RUN_DIAGNOSTICS", "0") != "0":
            rank_evidence.print_by_line()


def stages(
    log: jsonl.StageLog,
    arm: ArmSpec,
    rank: int,
    listener: Optional[socket.socket],
    folder: str,
    tasks: Dict[str, Callable[[TaskContext], None]],
) -> None:
    log.enter("start")
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    log.leave()

    log.enter("device")
    device = device_of(torch, arm, rank)
    log.leave()

    context = TaskContext(torch, dist, arm, rank, device, folder, log)
    if arm.get("alone"):
        alone(context, arm, tasks)
        return

    log.enter("store")
    store = make_store(dist, arm, rank, listener, folder)  # stays until the group is destroyed
    log.leave()

    log.enter("init")
    join(dist, arm, rank, store, device, folder)
    numerics.place(dist, rank, arm["world_size"])
    log.leave()

    context.stage("barrier", context.barrier)

    if arm.get("tasks"):
        run_tasks(context, arm, tasks)
    else:
        collectives(context, arm)

    if "ddp" in arm["stages"]:
        training(context)
    destroy(context, arm)


def alone(context: TaskContext, arm: ArmSpec, tasks: Dict[str, Callable[[TaskContext], None]]) -> None:
    """What one process does without a group."""
    if arm.get("tasks"):
        run_tasks(context, arm, tasks)
    else:
        context.stage("step", numerics.step, context.torch, context.device, context.torch.float32)


def device_of(torch: Any, arm: ArmSpec, rank: int) -> Any:
    """The rank's device, in use: a GPU has answered."""
    if arm["device"] == "cpu":
        return torch.device("cpu")
    device = torch.device(arm["device"], arm["places"][rank])
    getattr(torch, arm["device"]).set_device(device)
    torch.ones(1, device=device).item()
    return device


def collectives(context: TaskContext, arm: ArmSpec) -> None:
    """The stage of the quick check: one broadcast, and all_reduce of every size."""
    context.log.enter("all_reduce")
    group = (context.torch, context.dist, context.rank, context.world, context.device)
    numerics.broadcast(*group)
    for size in numerics.sizes(arm["sizes"]):
        context.log.say(size=size)
        numerics.all_reduce(*group, size)
    context.log.leave()


def training(context: TaskContext) -> None:
    """The stage "ddp": torch by itself first, so that DDP is not blamed for it."""
    context.log.enter("ddp")
    numerics.step(context.torch, context.device, context.torch.float32)
    numerics.ddp(context.torch, context.dist, context.rank, context.world, context.device, context.backend)
    context.log.leave()


def destroy(context: TaskContext, arm: ArmSpec) -> None:
    context.log.enter("destroy")
    let_go(context.dist, arm)
    context.dist.destroy_process_group()
    context.log.leave()


def let_go(dist: Any, arm: ArmSpec) -> None:
    """Give gloo's threads the time to drop the tensors of what is done.

    Where the last Python reference to a tensor is gone, the thread that drops it asks for the GIL; up to torch 2.3 the destructor of the
    process group waits for that thread while it holds the GIL, for ever. (What the quick check reduces is kept: numerics.KEPT.)
    """
    if arm.get("tasks") and arm["backend"] == "gloo":
        dist.barrier()  # the threads work in order, and there is no Python in this
        time.sleep(0.2)


def run_tasks(context: TaskContext, arm: ArmSpec, tasks: Dict[str, Callable[[TaskContext], None]]) -> None:
    """One after the other. The barrier behind each keeps the ranks in the same one, so that a trouble belongs to it."""
    for name in arm["tasks"]:
        context.log.task(name)
        try:
            tasks[name](context)
        except Skip as reason:  # as a whole, before any stage of it
            context.log.enter(name)
            context.log.skip(str(reason))
        context.log.enter("end")
        if not arm.get("alone"):
            context.barrier()
        context.log.leave()
        context.log.task(name, done=True)


def store_path(arm: ArmSpec, folder: str) -> str:
    return os.path.join(folder, arm["name"] + ".store")


def make_store(dist: Any, arm: ArmSpec, rank: int, listener: Optional[socket.socket], folder: str) -> Any:
    world = arm["world_size"]
    if arm["store"] in INIT_METHODS:
        return None  # init_process_group makes it
    if arm["store"] == "file":
        return dist.FileStore(store_path(arm, folder), world)
    if listener is not None:
        return listening_store(dist, listener, world)
    serves = bool(arm.get("isolated")) and rank == 0  # on every address, of which there is only loopback
    if arm.get("isolated") and not serves:
        wait_for_server(arm["port"])
    return dist.TCPStore("127.0.0.1", arm["port"], world, serves, LIBRARY_LIMIT, wait_for_workers=False)


def wait_for_server(port: int) -> None:
    """torch asks again too, but only after half a second or a whole one."""
    import socket

    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.005)


# How TCPStore is told that it gets a socket of ours; the first that it does not refuse. Up to torch 2.7 the libuv backend takes none,
# and it is the default from 2.4 on. (That the argument stands in the docstring says nothing.)
WAYS_TO_LISTEN: Sequence[Dict[str, Any]] = ({}, {"use_libuv": False})


def listening_store(dist: Any, listener: socket.socket, world: int) -> Any:
    """A TCPStore that listens on `listener`, which is bound to one address: by itself it listens on every address, and between choosing
    a port and listening there another process could take it. Raises NotImplementedError where this torch has no such store (1.13)."""
    (address, port), refusal = listener.getsockname()[:2], "TCPStore takes no socket"
    for way in WAYS_TO_LISTEN:
        descriptor = os.dup(listener.fileno())  # the store's own, also where it refuses
        try:
            store = dist.TCPStore(address, port, world, True, LIBRARY_LIMIT, wait_for_workers=False, master_listen_fd=descriptor, **way)
        except (TypeError, NotImplementedError) as error:
            refusal = jsonl.said(error, 300)
            jsonl.attempt(os.close, descriptor)
        else:
            listener.close()
            return store
    raise NotImplementedError(refusal)


def join(dist: Any, arm: ArmSpec, rank: int, store: Any, device: Any, folder: str) -> None:
    fixed = {"rank": rank, "world_size": arm["world_size"], "timeout": LIBRARY_LIMIT}
    if store is not None:
        # In a store of its own prefix, as torch's init methods hand theirs over. torch 2.5 writes down what it is given, and for a bare
        # TCPStore asks for the names of its addresses: where no name server answers that raises "failed to format addr".
        fixed["store"] = dist.PrefixStore("default_pg", store)
    elif arm["store"] == "env://":
        # As a launcher sets it. Rank 0's store listens on all addresses, and so does that of tcp://.
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(arm["world_size"]), MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")
        fixed = {"init_method": "env://", "timeout": LIBRARY_LIMIT}
    elif arm["store"] == "tcp://":
        fixed["init_method"] = "tcp://127.0.0.1:29501"
    else:
        fixed["init_method"] = "file://" + os.path.join(folder, arm["name"] + ".init")
    if arm["device"] != "cpu" and arm["backend"] != "gloo":
        try:
            # With device_id the communicator is built here, so that its failure is not blamed on the first collective.
            dist.init_process_group(arm["backend"], device_id=device, **fixed)
            return
        except TypeError:
            pass
    dist.init_process_group(arm["backend"], **fixed)
