"""What the ranks of a training job share besides gradients: samples, random numbers, checkpoints, stores.

For `--live full`.
"""

from __future__ import annotations

import os
import socket

from . import numerics, rank, training_tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Optional, Sequence

    from .rank import TaskContext


def distributed_sampler(c: TaskContext) -> None:
    """Disjoint, complete, and shuffled anew by set_epoch."""

    def run() -> None:
        from torch.utils.data import DistributedSampler

        count = 26 * c.world
        sampler = DistributedSampler(range(count), num_replicas=c.world, rank=c.rank, shuffle=True, seed=11)
        orders = []
        for epoch in (0, 1, 0):
            sampler.set_epoch(epoch)
            mine = [int(one) for one in sampler]
            orders.append(mine)
            seen = sorted(int(one) for part in everyones(c, mine, count) for one in part)
            twice = [one for one in seen if seen.count(one) > 1]
            if twice:
                raise numerics.Wrong("DistributedSampler: %d of %d samples come more than once in an epoch" % (len(set(twice)), count))
            if seen != list(range(count)):
                raise numerics.Wrong("DistributedSampler: %d of %d samples never come" % (count - len(set(seen)), count))
        if orders[0] == orders[1]:
            raise numerics.Wrong("DistributedSampler: set_epoch does not change the order")
        if orders[0] != orders[2]:
            raise numerics.Wrong("DistributedSampler: the same epoch gives another order the second time")

    c.stage("sample", run)


def seeding(c: TaskContext) -> None:
    """The same seed gives the same numbers on every rank, and a saved state gives them again."""

    def run() -> None:
        c.torch.manual_seed(42)
        saved = c.torch.get_rng_state()
        drawn = c.torch.rand(16)
        on_device = c.torch.rand(16, device=c.device).cpu()
        c.torch.set_rng_state(saved)
        if not c.torch.equal(c.torch.rand(16), drawn):
            raise numerics.Wrong("RNG: set_rng_state does not bring the numbers back")
        parts = everyones(c, drawn.tolist() + on_device.tolist(), 32)
        for other, part in enumerate(parts):
            if part != parts[0]:
                raise numerics.Wrong("RNG: after manual_seed(42) rank %d and rank 0 draw different numbers" % other)

    c.stage("draw", run)


def everyones(c: TaskContext, mine: Sequence[float], most: int) -> List[List[float]]:
    """Each rank's numbers, `most` at most, none of them negative. As a tensor: torch needs NumPy to send objects."""
    padded = c.torch.tensor([*mine[:most], *[-1] * (most - len(mine))], dtype=c.torch.float32, device=c.device)
    parts = [c.torch.empty_like(padded) for _ in range(c.world)]
    c.dist.all_gather(parts, padded)
    return [[one for one in part.tolist() if one >= 0] for part in parts]


def distributed_checkpoint(c: TaskContext) -> None:
    """torch.distributed.checkpoint: sharded tensors saved by all ranks and read back into an empty model. No plain values: torch 2.2
    hands back some of them, torch 2.3 none."""
    try:
        import torch.distributed.checkpoint as dcp

        save, load = dcp.save, dcp.load
    except (ImportError, AttributeError):
        raise rank.Skip("torch.distributed.checkpoint.save came with torch 2.2, this is %s" % c.torch.__version__) from None
    c.need_each_other("torch.distributed.checkpoint sends objects")
    rank.need_numpy("torch.distributed.checkpoint")

    def run() -> None:
        where = os.path.join(c.folder, "dcp-%s-%s" % (c.backend, c.device.type))
        model = training_tasks.network(c)
        state = {"model": model.state_dict(), "sharded": {"table": sharded(c, 1.0)}}
        save(state, storage_writer=dcp.FileSystemWriter(where))  # torch 2.2 knows no checkpoint_id
        empty = training_tasks.network(c)
        with c.torch.no_grad():
            for parameter in empty.parameters():
                parameter.zero_()
        into = {"model": empty.state_dict(), "sharded": {"table": sharded(c, 0.0)}}
        load(into, storage_reader=dcp.FileSystemReader(where))
        empty.load_state_dict(into["model"])
        training_tasks.exact(
            c, "torch.distributed.checkpoint", training_tasks.flat(c, empty.parameters()), training_tasks.flat(c, model.parameters())
        )
        training_tasks.exact(c, "torch.distributed.checkpoint (sharded)", local(into["sharded"]["table"]), local(state["sharded"]["table"]))

    c.stage("save-load", run)


def sharded(c: TaskContext, factor: float) -> Any:
    whole = c.torch.arange(40, dtype=c.torch.float64, device=c.device).reshape(10, 4) * factor
    try:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Shard, distribute_tensor
    except ImportError:
        return whole
    return distribute_tensor(whole, init_device_mesh(c.device.type, (c.world,)), [Shard(0)])


def local(tensor: Any) -> Any:
    return (tensor.to_local() if hasattr(tensor, "to_local") else tensor).reshape(-1).cpu()


def store_tcp(c: TaskContext) -> None:
    """A second TCPStore beside that of the process group."""

    def run() -> None:
        port, why = 0, "rank 0 was refused"
        store: Optional[Any] = None
        if c.rank == 0:
            with socket.socket() as one:
                one.bind(("127.0.0.1", 0))
                one.listen(64)
                port = one.getsockname()[1]
                try:
                    store = rank.listening_store(c.dist, one, c.world)
                except NotImplementedError as error:
                    port, why = 0, str(error).splitlines()[0]
        told = c.torch.tensor([port], dtype=c.torch.int32, device=c.device)
        c.dist.broadcast(told, 0)
        if not told.item():
            raise rank.Skip("TCPStore of this torch would listen on all addresses: " + why)
        if store is None:
            store = c.dist.TCPStore("127.0.0.1", int(told.item()), c.world, False, rank.LIBRARY_LIMIT, wait_for_workers=False)
        use_store(c, store, "TCPStore")
        c.barrier()  # rank 0 holds the server

    c.stage("use", run)


def store_file(c: TaskContext) -> None:
    c.stage("use", lambda: use_store(c, c.dist.FileStore(os.path.join(c.folder, "store-%s" % c.backend), c.world), "FileStore"))


def use_store(c: TaskContext, store: Any, name: str) -> None:
    """set, get, wait and add between the ranks."""
    store.set("from-%d" % c.rank, "value of %d" % c.rank)
    for other in range(c.world):
        store.wait(["from-%d" % other])
        got = store.get("from-%d" % other)
        if got != b"value of %d" % other:
            raise numerics.Wrong("%s: rank %d got %r from rank %d" % (name, c.rank, got[:60], other))
    for _ in range(20):
        store.add("count", 1)
    store.add("done", 1)
    c.barrier()
    if store.add("count", 0) != 20 * c.world:
        raise numerics.Wrong("%s: %d additions of 1 gave %d" % (name, 20 * c.world, store.add("count", 0)))


TASKS = {
    "distributed-sampler": distributed_sampler, "rng-seeding": seeding, "distributed-checkpoint": distributed_checkpoint,
    "store-tcp": store_tcp, "store-file": store_file,
}  # fmt: skip
