"""The training script that the launchers are tried with: `launched_worker.py HOW FOLDER NAME [--local-rank N | --local_rank N]`.

HOW: "full" imports torch, joins the group and adds numbers up; "light" looks at what the launcher has set and meets the others at
MASTER_ADDR:MASTER_PORT, without torch; "spawn:N" starts N such processes by torch.multiprocessing.spawn. "module:NAME ARGUMENTS" is
`python -m NAME ARGUMENTS`, which would look into the working folder first.
Each process writes what it does to FOLDER/NAME.PID.jsonl, as a rank does. An entry file of its own, like main.py.
"""

from __future__ import annotations

import os
import sys
import time

HERE = __file__.replace("\\", "/").rpartition("/")[0]
if sys.path and sys.path[0].replace("\\", "/") == HERE:
    del sys.path[0]  # the patient's modules are looked for elsewhere
package = sys.modules["envcheck_agent"] = type(sys)("envcheck_agent")  # as in main.py
package.__path__ = [HERE]

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any, Callable, Dict, List, NoReturn, Optional

    from . import jsonl, processes, working_folder
else:
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    from envcheck_agent.import_guard import ImportGuard

    sys.dont_write_bytecode = writes
    with ImportGuard():
        import socket

        from envcheck_agent import jsonl, processes, working_folder


class WorkerLog(jsonl.StageLog):
    """The stages of this process, in a file whose name ends in its pid."""

    def __init__(self, folder: str, name: str) -> None:
        self.path = os.path.join(folder, "%s.%d.jsonl" % (name, os.getpid()))
        super().__init__(jsonl.Writer(self.path).write)


def given() -> Dict[str, Any]:
    """What the launcher has told, by the first complete set of names: torchrun's, Open MPI's, PMI's, Slurm's."""
    for kind, names in (
        ("torchrun", ("RANK", "WORLD_SIZE", "LOCAL_RANK")),
        ("Open MPI", ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK")),
        ("PMI", ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID")),
        ("Slurm", ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")),
    ):
        if names[0] in os.environ and names[1] in os.environ:
            numbers = [int(os.environ[name]) if os.environ.get(name, "").isdecimal() else None for name in names]
            return {"kind": kind, "rank": numbers[0], "world_size": numbers[1], "local_rank": numbers[2]}
    return {"kind": None, "rank": None, "world_size": None, "local_rank": None}


def argument(argv: List[str]) -> Optional[str]:
    """--local-rank=1 (torch 2.0 and later) or --local_rank=1; None if neither came. A script has to take both."""
    for one in argv:
        if one.startswith(("--local-rank=", "--local_rank=")):
            return one
    return None


def claim(log: WorkerLog, rank: int) -> None:
    """Take this rank, as only one process can. torch does not notice a second one: each writes its address under its number into the
    store, the last one stays, and who wins or waits is a matter of milliseconds (gloo/transport/tcp/context.cc)."""
    path = "%s.rank-%d" % (log.path.rpartition(".jsonl")[0].rpartition(".")[0], rank)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        with open(path, encoding="ascii", errors="replace") as file:
            other = file.read()
        raise RuntimeError("two processes were told that they are rank %d: %d and %s" % (rank, os.getpid(), other or "another")) from None
    os.write(fd, b"%d" % os.getpid())
    os.close(fd)


def light(log: WorkerLog) -> None:
    """Meet the others where the launcher says; rank 0 listens there unless the launcher's agent does already."""
    log.leave()
    log.enter("store")
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True" and rank == 0:
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(("127.0.0.1", port))
            server.listen(world)
            server.settimeout(60)
            for _ in range(world - 1):
                server.accept()[0].close()
    else:
        connect(address, port)
    log.leave()


def connect(address: str, port: int) -> None:
    limit = time.monotonic() + 20
    while True:
        try:
            socket.create_connection((address, port), timeout=5).close()
            return
        except ConnectionRefusedError:
            if time.monotonic() > limit:
                raise
            time.sleep(0.05)


def full(log: WorkerLog, rank: int, world: int, method: str) -> None:
    import torch
    import torch.distributed as dist

    log.leave()
    torch.set_num_threads(1)
    log.enter("init")
    if method == "env://":
        dist.init_process_group("gloo", init_method=method)
    else:
        dist.init_process_group("gloo", init_method=method, rank=rank, world_size=world)
    log.leave()
    log.enter("all_reduce")
    tensor = torch.arange(1000, dtype=torch.int64) * (rank + 1)
    dist.all_reduce(tensor)
    if not torch.equal(tensor, torch.arange(1000) * (world * (world + 1) // 2)):
        raise ArithmeticError("all_reduce of 1000 × int64 over %d ranks gave wrong numbers" % world)
    log.leave()
    log.enter("destroy")
    dist.destroy_process_group()
    log.leave()


def spawned(rank: int, world: int, folder: str, name: str) -> None:
    """What mp.spawn runs in each process."""
    log = WorkerLog(folder, name)
    log.say(worker={"kind": "mp.spawn", "rank": rank, "world_size": world, "local_rank": rank})
    work(log, rank, lambda: full(log, rank, world, "file://" + os.path.join(folder, name + ".init")))


def work(log: WorkerLog, rank: int, function: Callable[[], Any]) -> NoReturn:
    processes.leave_stacks(log.path[: -len(".jsonl")] + ".stack")
    try:
        log.enter("start")
        claim(log, rank)
        function()
    except BaseException as error:
        wrong = isinstance(error, ArithmeticError)
        log.fail("wrong" if wrong else "failed", jsonl.said(error) if wrong else "%s: %s" % (type(error).__name__, jsonl.said(error)))
        raise
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # see rank.py: teardown of gloo may hang


def main() -> None:
    if sys.argv[1].startswith("module:"):
        import runpy

        del sys.argv[0]
        runpy.run_module(sys.argv[0].partition(":")[2], run_name="__main__", alter_sys=True)
        return
    how, folder, name = [one for one in sys.argv[1:] if not one.startswith("--local")][:3]  # launch puts its own first
    if how.startswith("spawn:"):
        import torch.multiprocessing

        world = int(how.partition(":")[2])
        torch.multiprocessing.spawn(spawned, args=(world, folder, name), nprocs=world)
        return
    log = WorkerLog(folder, name)
    told = given()
    environment = ("MASTER_ADDR", "MASTER_PORT", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID")
    log.say(worker=dict(told, argument=argument(sys.argv[1:]), **{key: os.environ.get(key) for key in environment}))
    if told["rank"] is None or told["world_size"] is None:
        log.fail("failed", "RuntimeError: the launcher has set neither RANK and WORLD_SIZE nor names of its own")
        sys.exit(1)
    if how == "light":
        work(log, told["rank"], lambda: light(log))
    # MPI and Slurm set no MASTER_ADDR
    method = "env://" if told["kind"] == "torchrun" else "file://" + os.path.join(folder, name + ".init")
    work(log, told["rank"], lambda: full(log, told["rank"], told["world_size"], method))


if __name__ in ("__main__", "__mp_main__"):
    processes.die_with_parent()  # torchrun gives every worker a session: whoever ends torchrun by force would leave them behind
    working_folder.leave_out_of_children()
if __name__ == "__main__":
    main()
