"""Speed of the wire inside the ranks of one arm: all_reduce over sizes, copies between GPUs, copies from the host; and whether the
numbers arrive.

`measure` is collective: every rank calls it, and it returns the same on all of them but for rank 0, which also copies. The keys of
the result are the fields of facts.WireFacts.
"""

from __future__ import annotations

import time

from . import jsonl, numerics

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

    from .rank import TaskContext

FIRST = 64 << 10  # bytes
LAST = {"cpu": 64 << 20, "cuda": 1 << 30, "xpu": 1 << 30}
GAIN = 1.05  # a size that brings less than this twice in a row ends the sweep
CALLS = 5
COPY = 256 << 20


SECONDS = {"cpu": 2.5}  # for all measurements of one arm; a GPU gets more
WRONG = "did not arrive as it was sent"


def wire(c: TaskContext) -> None:
    """One arm with one stage: the measurement, told by rank 0."""
    c.stage("wire", lambda: report(c))


def report(c: TaskContext) -> None:
    value = measure(c.torch, c.dist, c.rank, c.world, c.device, c.backend, SECONDS.get(c.device.type, 8.0))
    for trouble in value["troubles"]:
        if WRONG in trouble:
            raise numerics.Wrong(trouble)
    if c.rank == 0:
        c.log.say(wire=value)


def measure(torch: Any, dist: Any, number: int, world: int, device: Any, backend: str, seconds: float = 8.0) -> Dict[str, Any]:
    """All three, within about `seconds`. What cannot be measured is told in `troubles`."""
    troubles: List[str] = []
    points, flat = sweep(torch, dist, number, world, device, 0.6 * seconds) if world > 1 else ([], False)
    host: List[Dict[str, Any]] = []
    peers: List[Dict[str, Any]] = []
    if device.type == "cuda":
        host = gathered(torch, dist, world, device, host_copy(torch, device, troubles), backend)
        if number == 0:
            peers = peer_copies(torch, 0.3 * seconds, troubles)
    if world > 1:
        dist.barrier()
    return {"backend": backend, "device": device.type, "world_size": world, "points": points, "flat": flat, "host": host, "peers": peers,
            "troubles": troubles}  # fmt: skip


def sweep(torch: Any, dist: Any, number: int, world: int, device: Any, seconds: float) -> Tuple[List[Dict[str, Any]], bool]:
    """all_reduce from 64 KiB on, four times larger each time, until more size brings no more speed, or time or memory is used up.

    All ranks must agree when to stop: the time of the slowest rank decides, and it is known to all of them by an all_reduce. What
    comes out is looked at before and after what is measured: a sum, and in the end a maximum that must not have changed it.
    """
    began = time.monotonic()
    points: List[Dict[str, Any]] = []
    size, best, idle = FIRST, 0.0, 0
    limit = largest(torch, dist, device)
    while size <= limit:
        tensor = numerics.numbers(numerics.block(torch, torch.float32, device, number + 1), size // 4)
        dist.all_reduce(tensor)  # connections and buffers of this size
        synchronize(torch, device)
        check_sums(torch, "all_reduce of %d bytes over %d ranks" % (size, world), tensor, world)
        taken = []
        for _ in range(CALLS):
            start = time.perf_counter()
            dist.all_reduce(tensor, op=dist.ReduceOp.MAX)  # a sum would overflow after some calls
            synchronize(torch, device)
            taken.append(time.perf_counter() - start)
        check_sums(torch, "all_reduce (max) of %d bytes over %d ranks" % (size, world), tensor, world)
        one, spent = slowest(torch, dist, device, sorted(taken)[CALLS // 2], time.monotonic() - began)
        rate = size / one / 1e9
        points.append({"size_bytes": size, "seconds": one, "algbw_gb_s": rate, "busbw_gb_s": rate * 2 * (world - 1) / world})
        idle = idle + 1 if rate < best * GAIN else 0
        best = max(best, rate)
        del tensor
        if idle >= 2 and size >= 16 << 20:
            return points, True
        if spent + 5 * (CALLS + 1) * one > seconds:
            break
        size *= 4
    return points, len(points) > 2 and idle > 0


def check_sums(torch: Any, what: str, tensor: Any, world: int) -> None:
    sums = numerics.block(torch, torch.float32, tensor.device, world * (world + 1) // 2)
    numerics.over_and_over(torch, what, tensor, sums)


def synchronize(torch: Any, device: Any) -> None:
    if device.type != "cpu":
        getattr(torch, device.type).synchronize(device)


def slowest(torch: Any, dist: Any, device: Any, *values: float) -> List[float]:
    both = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(both, op=dist.ReduceOp.MAX)
    return [float(value) for value in both.tolist()]


def largest(torch: Any, dist: Any, device: Any) -> int:
    """The largest size that every rank has room for, a quarter of what is free."""
    free = LAST.get(device.type, 64 << 20)
    if device.type == "cuda":
        told = jsonl.call(torch, "cuda.mem_get_info", device)
        free = min(free, int(told[0]) // 4 if told else 64 << 20)
    return int(-slowest(torch, dist, device, -float(free))[0])


def host_copy(torch: Any, device: Any, troubles: List[str]) -> Optional[List[float]]:
    """GB/s from pinned memory to the GPU and back, the best of three."""
    try:
        size = min(COPY, int(torch.cuda.mem_get_info(device)[0]) // 8)
        there = torch.empty(size, dtype=torch.uint8, device=device)
        here = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        return [copied(torch, device, there, here), copied(torch, device, here, there)]
    except RuntimeError as error:  # no memory that can be pinned
        troubles.append("pinned copies: %s" % str(error).splitlines()[0][:200])
        return None


def copied(torch: Any, device: Any, target: Any, source: Any) -> float:
    best = 0.0
    for _ in range(4):  # the first one is slower
        start = time.perf_counter()
        target.copy_(source, non_blocking=True)
        torch.cuda.synchronize(device)
        best = max(best, source.numel() / (time.perf_counter() - start) / 1e9)
    return best


def gathered(torch: Any, dist: Any, world: int, device: Any, mine: Optional[List[float]], backend: str) -> List[Dict[str, Any]]:
    """Every rank's copy rates, on all ranks. Negative means that there is none."""
    place = torch.device("cpu") if backend in ("gloo", "mpi") else device
    row = torch.tensor([float(device.index or 0), *(mine or [-1.0, -1.0])], dtype=torch.float64, device=place)
    rows = [torch.empty_like(row) for _ in range(world)]
    if world > 1:
        dist.all_gather(rows, row)
    else:
        rows = [row]
    found = [[float(value) for value in one.tolist()] for one in rows]
    return [{"device": int(index), "to_device_gb_s": there, "from_device_gb_s": back} for index, there, back in found if there > 0]


def peer_copies(torch: Any, seconds: float, troubles: List[str]) -> List[Dict[str, Any]]:
    """Copies from each visible GPU to each other one, by this process. The numbers are looked at too."""
    count = torch.cuda.device_count()
    deadline = time.monotonic() + seconds
    found: List[Dict[str, Any]] = []
    try:
        buffers = [torch.full((COPY // 4,), index + 1, dtype=torch.uint8, device="cuda:%d" % index) for index in range(count)]
        for source in range(count):
            for target in range(count):
                if source == target:
                    continue
                if time.monotonic() > deadline:
                    troubles.append("no time was left for all pairs of GPUs")
                    return found
                into = torch.zeros_like(buffers[target])
                rate = pair(torch, buffers[source], into, source, target)
                if not bool((into == source + 1).all()):
                    troubles.append("a copy from GPU %d to GPU %d %s" % (source, target, WRONG))
                    continue
                found.append({"source": source, "target": target, "gb_s": rate})
    except RuntimeError as error:
        troubles.append("copies between GPUs: %s" % str(error).splitlines()[0][:200])
    return found


def pair(torch: Any, source: Any, into: Any, one: int, other: int) -> float:
    best = 0.0
    for _ in range(3):
        torch.cuda.synchronize(one)
        torch.cuda.synchronize(other)
        start = time.perf_counter()
        into.copy_(source, non_blocking=True)
        torch.cuda.synchronize(one)
        torch.cuda.synchronize(other)
        best = max(best, source.numel() / (time.perf_counter() - start) / 1e9)
    return best


TASKS = {"wire": wire}
