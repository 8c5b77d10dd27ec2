"""One rank of a job's process group, over hosts: `envcheck fleet` tells it who it is, and where the first rank of its group listens.

Stages are stated before they are entered. Those of ALONE need nobody else: a rank that ends in one of them is itself to blame.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import time

from . import jsonl, numerics, processes, rank, rank_evidence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Sequence, Tuple

    from .arm_spec import ArmSpec

ALONE = ("start", "device", "work", "listen")
STAGES = (*ALONE, "address", "store", "init", "all_reduce", "steps", "ddp", "leave")
# A whole number up to that is exact; sums that stay below have one right answer, in whatever order they are added.
EXACT = {"int32": 2**31 - 1, "int64": 2**63 - 1, "float32": 2**24, "float64": 2**53, "float16": 2**11, "bfloat16": 2**8}
GLOO_TYPES = ("int32", "int64", "float32", "float64")
SMALL = 64 << 10  # bytes up to which every type is sent
STEP_BYTES = 1 << 20
STEPS_SECONDS = 1.0  # behind which no further step is begun: a rank that needs seconds for one shows that in the first
START = 16.0  # of a weight: a step leaves it far from 0, beside which every rounding is large
WORK_SIDE = {"cpu": 160, "cuda": 2048}  # of the matrices that a rank multiplies by itself in each step
SIOCGIFADDR = 0x8915  # linux/sockios.h


class WorldLog(jsonl.StageLog):
    """Says with each event of which rank and of which attempt it is."""

    def __init__(self, write: Callable[[bytes], None], attempt: int, number: int) -> None:
        super().__init__(write)
        self.attempt, self.number = attempt, number

    def say(self, **event: Any) -> None:
        super().say(attempt=self.attempt, rank=self.number, **event)


def run(options: Dict[str, Any], task: Dict[str, Any], number: int, write: Callable[[bytes], None], told: int) -> None:
    """Never returns. `told` is the descriptor by which the address of the group's store comes."""
    code = 1
    log = WorldLog(write, task["attempt"], number)
    try:
        stages(log, options, task, number, told)
        code = 0
    except BaseException as error:
        try:
            rank.tell_failure(log, error, 1000)
        except BaseException:
            code = 2
    finally:
        try:
            sys.stderr.flush()
        finally:
            rank.leave(code)


def stages(log: WorldLog, options: Dict[str, Any], task: Dict[str, Any], number: int, told: int) -> None:
    log.enter("start")
    arm: ArmSpec = {
        "name": "world-%d" % task["attempt"], "backend": task["backend"], "world_size": task["world_size"], "store": "tcp",
        "device": "cuda" if task["backend"] == "nccl" else "cpu", "places": [task["places"].get(str(number), 0)] * task["world_size"],
    }  # fmt: skip
    prepare(options, task, arm, number)
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    log.enter("device")
    device = rank.device_of(torch, arm, number)
    log.enter("work")
    matrices = work_load(torch, device)
    work(torch, matrices)

    store = meet(log, dist, task, number, told)
    log.enter("init")
    rank.join(dist, arm, number, store, device, options["folder"])
    log.enter("all_reduce")
    for place, size in enumerate(task["sizes"]):
        log.say(size=size)
        for name in types_of(task, place):
            all_reduce(torch, dist, number, task["world_size"], device, size, name)
    log.enter("steps")
    timed = steps(torch, dist, device, matrices, task)
    if task.get("ddp"):
        log.enter("ddp")
        training_step(torch, dist, number, task["world_size"], device)
    log.say(passed=timed)
    log.enter("leave")
    leave(dist, device)


def prepare(options: Dict[str, Any], task: Dict[str, Any], arm: ArmSpec, number: int) -> None:
    """The launcher's variables gone, those of the attempt set; what the user has set for NCCL and gloo stays."""
    rank.take_files(options, arm, number)
    for key in list(os.environ):
        if key.startswith(rank.SCRUB):
            del os.environ[key]
    os.environ.update(task["environment"])
    if task.get("interface_of"):  # plain sockets over the interface of the job's own address
        name = interface_of(task["interface_of"])
        if name:
            os.environ["GLOO_SOCKET_IFNAME"], os.environ["NCCL_SOCKET_IFNAME"] = name, "=" + name
    if task["backend"] == "nccl":
        os.environ.update(rank_evidence.variables(options["folder"], arm["name"], number, os.environ))


def interface_of(address: str) -> str:
    """The name of the interface that has this IPv4 address, or nothing."""
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(one, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    return ""


def meet(log: WorldLog, dist: Any, task: Dict[str, Any], number: int, told: int) -> Any:
    """The store of the group: of its first rank, on a port that the kernel chooses at the address that the job has there."""
    world = task["world_size"]
    if number == 0:
        log.enter("listen")
        store, place = open_store(dist, task["listen"], world)
        log.say(listens=place)
        log.enter("store")
        return store
    log.enter("address")
    given = read_address(told)
    log.enter("store")
    return dist.TCPStore(given[0], int(given[1]), world, False, rank.LIBRARY_LIMIT, wait_for_workers=False)


def open_store(dist: Any, address: str, world: int) -> Tuple[Any, Tuple[str, int]]:
    listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try:
        listener.bind((address, 0))
        listener.listen(min(4096, max(128, world)))
        place = address, int(listener.getsockname()[1])
        return rank.listening_store(dist, listener, world), place
    except NotImplementedError:  # torch 2.7 and older with libuv alone, 1.13: its own socket, which listens on every address
        store = dist.TCPStore(address, 0, world, True, rank.LIBRARY_LIMIT, wait_for_workers=False)
        return store, (address, int(store.port))
    finally:
        listener.close()


def read_address(told: int) -> Sequence[Any]:
    data = b""
    while b"\n" not in data:
        processes.wait_readable([told], 3600.0)  # whoever asked has the deadline
        part = os.read(told, 4096)
        if not part:
            raise EOFError("the first rank of the group told no address")
        data += part
    place = jsonl.decoded(data)
    return place if isinstance(place, list) else ["", 0]


def types_of(task: Dict[str, Any], place: int) -> Sequence[str]:
    """Those that are sent in this one of the sizes: all in a pair; over the whole job, where the messages of one sum are as many as the
    square of its ranks, only some."""
    size = task["sizes"][place]
    every: Sequence[str] = tuple(EXACT) if task["backend"] == "nccl" else GLOO_TYPES
    if size > SMALL:
        every = ("int64", "float32")
    return (every[place :: len(task["sizes"])] or every[-1:]) if task.get("ddp") else every


def share(number: int) -> int:
    """What a rank's numbers are multiplied by. Small, so that the sum over many ranks is exact in most types."""
    return number % 7 + 1


def all_reduce(torch: Any, dist: Any, number: int, world: int, device: Any, size: int, name: str) -> None:
    """Numbers that differ by place and rank, against their sum."""
    total = sum(share(one) for one in range(world))
    highest = min(numerics.PERIOD, EXACT[name] // total)
    if highest < 1:
        return  # not even ones could be added up exactly over so many ranks
    dtype = getattr(torch, name)
    count = max(1, size // torch.empty(0, dtype=dtype).element_size())
    tensor = numerics.numbers(numerics.block(torch, dtype, device, share(number), highest), count)
    numerics.KEPT.append(tensor)
    dist.all_reduce(tensor)
    what = "all_reduce of %d bytes (%s) over %d ranks" % (size, name, world)
    numerics.over_and_over(torch, what, tensor, numerics.block(torch, dtype, device, total, highest))


def work_load(torch: Any, device: Any) -> Tuple[Any, Any]:
    side = WORK_SIDE.get(device.type, 1024)
    return torch.ones(side, side, device=device), torch.full((side, side), 2.0, device=device)


def work(torch: Any, matrices: Tuple[Any, Any]) -> float:
    """Seconds of the same sums on every rank."""
    began = time.monotonic()
    product = torch.mm(*matrices)
    if float(product[-1, -1]) != 2.0 * product.shape[0]:  # also waits for a GPU
        raise numerics.Wrong(
            "a product of matrices of ones and twos is %s and must be %s" % (float(product[-1, -1]), 2.0 * product.shape[0])
        )
    return time.monotonic() - began


def steps(torch: Any, dist: Any, device: Any, matrices: Tuple[Any, Any], task: Dict[str, Any]) -> Dict[str, float]:
    """Some steps as training takes them: each rank computes, then all of them reduce. Where one rank's time is over all of them stop
    behind the same step, since its word for that is part of the sum; what they were to take longer is then reckoned."""
    world, worked, taken = task["world_size"], 0.0, 0
    gradients = torch.zeros(STEP_BYTES // 4, dtype=torch.float32, device=device)
    numerics.KEPT.append(gradients)
    dist.all_reduce(gradients)  # together from here on
    began = time.monotonic()
    while taken < task["steps"]:
        worked += work(torch, matrices)
        if time.monotonic() - began > STEPS_SECONDS:
            gradients[-1] = 1.0
        dist.all_reduce(gradients)
        taken += 1
        if float(gradients[-1]):
            break
    seconds = time.monotonic() - began
    waited = max(1e-9, seconds - worked)
    rate = taken * STEP_BYTES * 2 * (world - 1) / world / waited  # busbw of nccl-tests: what each link carried
    share_taken = taken / task["steps"]
    return {"seconds": seconds / share_taken, "work_seconds": worked / share_taken, "busbw_gbps": rate * 8 / 1e9}


def training_step(torch: Any, dist: Any, number: int, world: int, device: Any) -> None:
    """One step of DDP: the gradient is the mean over the ranks, the parameters fall by it."""
    model = torch.nn.Linear(8, 8, bias=False, device=device, dtype=torch.float64)
    with torch.no_grad():
        model.weight.fill_(START + number)  # rank 0's have to come here
    places = [device.index] if device.type == "cuda" else None
    wrapped = torch.nn.parallel.DistributedDataParallel(model, device_ids=places)
    inputs = torch.full((1, 8), float(share(number)), device=device, dtype=torch.float64)
    wrapped(inputs).sum().backward()
    mean = sum(share(one) for one in range(world)) / world
    numerics.near(
        torch, "DDP: the gradients on rank %d of %d" % (number, world), model.weight.grad, torch.full((8, 8), mean, dtype=torch.float64)
    )
    torch.optim.SGD(model.parameters(), lr=0.5).step()
    left = torch.full((8, 8), START - 0.5 * mean, dtype=torch.float64)
    numerics.near(torch, "DDP: the parameters on rank %d of %d" % (number, world), model.weight, left)
    numerics.KEPT.extend(model.parameters())


def leave(dist: Any, device: Any) -> None:
    """Nobody goes before all have passed, and rank 0 holds the store. Without destroy_process_group, which teaches nothing here and waits.

    A peer that is through the barrier is gone at once, and its end can cut the last words of it off for a slower one. This rank has
    passed by then, and so have all others: nobody enters the barrier before.
    """
    try:
        dist.barrier(**({"device_ids": [device.index]} if device.type == "cuda" else {}))
    except RuntimeError:
        pass
