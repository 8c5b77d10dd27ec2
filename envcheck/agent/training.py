"""Training as people write it, each variant against one process that sees all data. Loaded by run.py for `--live full`.

Everything is computed in float64 on a handful of numbers, so that a difference is a fault and not rounding.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, List, Optional

    from envcheck.agent import rank  # collect.load puts it here
    from envcheck.agent.rank import Context

STEPS = 3


def network(c: Context, device: Any = None) -> Any:
    c.torch.manual_seed(7)
    layers = c.torch.nn.Sequential(c.torch.nn.Linear(8, 16), c.torch.nn.Tanh(), c.torch.nn.Linear(16, 4))
    return layers.to(device=c.device if device is None else device, dtype=c.torch.float64)


def batch(c: Context, step: int, of_rank: int) -> Any:
    generator = c.torch.Generator().manual_seed(1000 * step + of_rank)
    return c.torch.randn(5, 8, generator=generator, dtype=c.torch.float64).to(c.device)


def flat(c: Context, tensors: Any) -> Any:
    return c.torch.cat([one.detach().reshape(-1).cpu() for one in tensors])


def near(c: Context, what: str, got: Any, expected: Any, limit: float = 1e-9) -> None:
    """Equal to the reference within rounding."""
    if got.shape != expected.shape:
        raise rank.Wrong("%s: the shape is %s and must be %s" % (what, tuple(got.shape), tuple(expected.shape)))
    error = float((got.double() - expected.double()).abs().max()) / max(float(expected.double().abs().max()), 1e-12)
    if not error < limit:
        raise rank.Wrong("%s of rank %d differ from one process that sees all data by %.3g of the largest value" % (what, c.rank, error))


def gradients(model: Any) -> List[Any]:
    return [p.new_zeros(p.shape) if p.grad is None else p.grad for p in model.parameters()]


def distributed(c: Context, model: Any, **options: Any) -> Any:
    places = [c.device.index] if c.device.type == "cuda" else None
    return c.torch.nn.parallel.DistributedDataParallel(model, device_ids=places, **options)


def follow(c: Context, name: str, wrapped: Any, mine: Any, ideal: Any, loss: Callable[[Any, int, int], Any]) -> None:
    """Train `wrapped` on this rank's batches and `ideal` on those of all ranks; they must stay the same."""
    optimizer = c.torch.optim.SGD(mine.parameters(), lr=0.1, momentum=0.9)
    reference = c.torch.optim.SGD(ideal.parameters(), lr=0.1, momentum=0.9)
    for step in range(STEPS):
        optimizer.zero_grad()
        reference.zero_grad()
        loss(wrapped, step, c.rank).backward()
        (sum(loss(ideal, step, other) for other in range(c.world)) / c.world).backward()
        near(c, "%s: the gradients of step %d" % (name, step + 1), flat(c, gradients(mine)), flat(c, gradients(ideal)))
        optimizer.step()
        reference.step()
        near(c, "%s: the parameters after step %d" % (name, step + 1), flat(c, mine.parameters()), flat(c, ideal.parameters()))


def plain_loss(c: Context) -> Callable[[Any, int, int], Any]:
    return lambda model, step, of_rank: model(batch(c, step, of_rank)).square().mean()


def ddp_find_unused_parameters(c: Context) -> None:
    """Each rank uses another head in each step; the gradient of a head is the mean over all ranks, zero from those that did not."""

    class Heads(c.torch.nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.heads = c.torch.nn.ModuleList([network(c), network(c)])

        def forward(self, x: Any, head: int) -> Any:
            return self.heads[head](x)

    def run() -> None:
        mine, ideal = Heads(), Heads()
        wrapped = distributed(c, mine, find_unused_parameters=True)
        follow(c, "DDP (find_unused_parameters)", wrapped, mine, ideal,
               lambda model, step, of_rank: model(batch(c, step, of_rank), (step + of_rank) % 2).square().mean())  # fmt: skip

    c.stage("train", run)


def ddp_static_graph(c: Context) -> None:
    """A layer that is used twice in one forward pass needs the static graph."""

    class Twice(c.torch.nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            c.torch.manual_seed(3)
            self.shared = c.torch.nn.Linear(8, 8).to(device=c.device, dtype=c.torch.float64)
            self.last = network(c)

        def forward(self, x: Any) -> Any:
            return self.last(self.shared(self.shared(x).tanh()).tanh())

    def run() -> None:
        mine, ideal = Twice(), Twice()
        try:
            wrapped = distributed(c, mine, static_graph=True)
        except TypeError:
            raise rank.Skip("static_graph came with torch 1.11") from None
        follow(c, "DDP (static_graph)", wrapped, mine, ideal, plain_loss(c))

    c.stage("train", run)


def ddp_bucket_view(c: Context) -> None:
    def run() -> None:
        mine, ideal = network(c), network(c)
        # Buckets of 1 KiB: several of them, as a real model has.
        wrapped = distributed(c, mine, gradient_as_bucket_view=True, bucket_cap_mb=0.001)
        follow(c, "DDP (gradient_as_bucket_view)", wrapped, mine, ideal, plain_loss(c))

    c.stage("train", run)


def ddp_join(c: Context) -> None:
    """Rank r has r + 1 batches. Who is through shadows the others; the sum is divided by the initial number of ranks."""

    def run() -> None:
        mine, ideal = network(c), network(c)
        wrapped = distributed(c, mine)
        optimizer = c.torch.optim.SGD(mine.parameters(), lr=0.1)
        reference = c.torch.optim.SGD(ideal.parameters(), lr=0.1)
        with wrapped.join():
            for step in range(c.rank + 1):
                optimizer.zero_grad()
                wrapped(batch(c, step, c.rank)).square().mean().backward()
                optimizer.step()
        for step in range(c.world):
            reference.zero_grad()
            (sum(ideal(batch(c, step, other)).square().mean() for other in range(step, c.world)) / c.world).backward()
            reference.step()
        near(c, "DDP (join with uneven inputs): the parameters", flat(c, mine.parameters()), flat(c, ideal.parameters()))

    c.stage("train", run)


def ddp_model_parallel(c: Context) -> None:
    """The first layers on one GPU, the last on another. Over gloo, since NCCL takes no two ranks on one GPU."""

    class Halves(c.torch.nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self, here: Any, there: Any) -> None:
            super().__init__()
            self.here, self.there = here, there
            whole = network(c, "cpu")
            self.first, self.last = whole[:2].to(here), whole[2:].to(there)

        def forward(self, x: Any) -> Any:
            return self.last(self.first(x.to(self.here)).to(self.there))

    def run() -> None:
        other = c.torch.device(c.device.type, c.places[(c.rank + 1) % len(c.places)])
        mine, ideal = Halves(c.device, other), Halves("cpu", "cpu")
        wrapped = c.torch.nn.parallel.DistributedDataParallel(mine)

        def loss(model: Any, step: int, of_rank: int) -> Any:
            return model(batch(c, step, of_rank)).square().mean()

        follow(c, "DDP over two devices", wrapped, mine, ideal, loss)

    c.stage("train", run)


def fsdp2(c: Context) -> None:
    """fully_shard: parameters live in pieces on the ranks; put together they must be those of one process."""
    try:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        raise rank.Skip("fully_shard came with torch 2.6, this is %s" % c.torch.__version__) from None

    def run() -> None:
        mesh = init_device_mesh(c.device.type, (c.world,))
        mine, ideal = network(c), network(c)
        for layer in mine:
            if any(True for _ in layer.parameters()):
                fully_shard(layer, mesh=mesh)
        fully_shard(mine, mesh=mesh)
        optimizer = c.torch.optim.SGD(mine.parameters(), lr=0.1, momentum=0.9)
        reference = c.torch.optim.SGD(ideal.parameters(), lr=0.1, momentum=0.9)
        loss = plain_loss(c)
        for step in range(STEPS):
            optimizer.zero_grad()
            reference.zero_grad()
            loss(mine, step, c.rank).backward()
            (sum(loss(ideal, step, other) for other in range(c.world)) / c.world).backward()
            whole = [p.grad.full_tensor() for p in mine.parameters()]
            near(c, "FSDP2: the gradients of step %d" % (step + 1), flat(c, whole), flat(c, gradients(ideal)))
            optimizer.step()
            reference.step()
            whole = [p.full_tensor() for p in mine.parameters()]
            near(c, "FSDP2: the parameters after step %d" % (step + 1), flat(c, whole), flat(c, ideal.parameters()))

    c.stage("train", run)


def sync_batch_norm(c: Context) -> None:
    """Output, gradients and running statistics of the whole batch, though each rank sees its part."""
    if c.device.type != "cuda":
        raise rank.Skip("SyncBatchNorm works on GPUs only, and its ranks need one each")

    def run() -> None:
        def model() -> Any:
            c.torch.manual_seed(5)
            layers = c.torch.nn.Sequential(c.torch.nn.Conv2d(2, 3, 3), c.torch.nn.BatchNorm2d(3), c.torch.nn.Tanh())
            return layers.to(device=c.device, dtype=c.torch.float64)

        def images(of_rank: int) -> Any:
            generator = c.torch.Generator().manual_seed(of_rank)
            return (c.torch.randn(4, 2, 6, 6, generator=generator, dtype=c.torch.float64) + of_rank).to(c.device)

        mine, ideal = model(), model()
        mine = c.torch.nn.SyncBatchNorm.convert_sync_batchnorm(mine)
        wrapped = distributed(c, mine)
        got = wrapped(images(c.rank))
        whole = ideal(c.torch.cat([images(other) for other in range(c.world)]))
        near(c, "SyncBatchNorm: the outputs", got.detach().cpu(), whole.detach()[4 * c.rank : 4 * c.rank + 4].cpu())
        got.square().mean().backward()
        whole.square().mean().backward()
        near(c, "SyncBatchNorm: the gradients", flat(c, gradients(mine)), flat(c, gradients(ideal)), 1e-7)
        for name in ("running_mean", "running_var"):
            near(c, "SyncBatchNorm: the values of " + name, getattr(mine[1], name).cpu(), getattr(ideal[1], name).cpu(), 1e-7)

    c.stage("train", run)


def distributed_sampler(c: Context) -> None:
    """Disjoint, complete, and shuffled anew by set_epoch."""

    def run() -> None:
        from torch.utils.data import DistributedSampler

        count = 26 * c.world
        sampler = DistributedSampler(range(count), num_replicas=c.world, rank=c.rank, shuffle=True, seed=11)
        orders = []
        for epoch in (0, 1, 0):
            sampler.set_epoch(epoch)
            mine = [int(one) for one in sampler]
            parts: List[Any] = [None] * c.world
            c.dist.all_gather_object(parts, mine)
            orders.append(mine)
            seen: List[int] = sorted(one for part in parts for one in part)
            twice = [one for one in seen if seen.count(one) > 1]
            if twice:
                raise rank.Wrong("DistributedSampler: %d of %d samples come more than once in an epoch" % (len(set(twice)), count))
            if seen != list(range(count)):
                raise rank.Wrong("DistributedSampler: %d of %d samples never come" % (count - len(set(seen)), count))
        if orders[0] == orders[1]:
            raise rank.Wrong("DistributedSampler: set_epoch does not change the order")
        if orders[0] != orders[2]:
            raise rank.Wrong("DistributedSampler: the same epoch gives another order the second time")

    c.stage("sample", run)


def seeding(c: Context) -> None:
    """The same seed gives the same numbers on every rank, and a saved state gives them again."""

    def run() -> None:
        c.torch.manual_seed(42)
        saved = c.torch.get_rng_state()
        drawn = c.torch.rand(16)
        on_device = c.torch.rand(16, device=c.device).cpu()
        c.torch.set_rng_state(saved)
        if not c.torch.equal(c.torch.rand(16), drawn):
            raise rank.Wrong("RNG: set_rng_state does not bring the numbers back")
        parts: List[Any] = [None] * c.world
        c.dist.all_gather_object(parts, (drawn.tolist(), on_device.tolist()))
        for other, part in enumerate(parts):
            if part != parts[0]:
                raise rank.Wrong("RNG: after manual_seed(42) rank %d and rank 0 draw different numbers" % other)

    c.stage("draw", run)


def distributed_checkpoint(c: Context) -> None:
    """torch.distributed.checkpoint: sharded tensors saved by all ranks and read back into an empty model."""
    try:
        import torch.distributed.checkpoint as dcp

        save, load = dcp.save, dcp.load
    except (ImportError, AttributeError):
        raise rank.Skip("torch.distributed.checkpoint.save came with torch 2.2, this is %s" % c.torch.__version__) from None

    def run() -> None:
        where = os.path.join(c.folder, "dcp-%s-%s" % (c.backend, c.device.type))
        model = network(c)
        state = {"model": model.state_dict(), "sharded": {"table": sharded(c, 1.0)}, "step": 3}
        save(state, checkpoint_id=where)
        empty = network(c)
        with c.torch.no_grad():
            for parameter in empty.parameters():
                parameter.zero_()
        into = {"model": empty.state_dict(), "sharded": {"table": sharded(c, 0.0)}, "step": 0}
        load(into, checkpoint_id=where)
        empty.load_state_dict(into["model"])
        exact(c, "torch.distributed.checkpoint", flat(c, empty.parameters()), flat(c, model.parameters()))
        exact(c, "torch.distributed.checkpoint (sharded)", local(into["sharded"]["table"]), local(state["sharded"]["table"]))
        if into["step"] != 3:
            raise rank.Wrong("torch.distributed.checkpoint: a number that was saved as 3 came back as %s" % into["step"])

    c.stage("save-load", run)


def sharded(c: Context, factor: float) -> Any:
    whole = c.torch.arange(40, dtype=c.torch.float64, device=c.device).reshape(10, 4) * factor
    try:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Shard, distribute_tensor
    except ImportError:
        return whole
    return distribute_tensor(whole, init_device_mesh(c.device.type, (c.world,)), [Shard(0)])


def local(tensor: Any) -> Any:
    return (tensor.to_local() if hasattr(tensor, "to_local") else tensor).reshape(-1).cpu()


def exact(c: Context, what: str, got: Any, expected: Any) -> None:
    if not c.torch.equal(got, expected):
        bad = int((got != expected).sum()) if got.shape == expected.shape else expected.numel()
        raise rank.Wrong("%s: %d of %d numbers came back changed" % (what, bad, expected.numel()))


def store_tcp(c: Context) -> None:
    """A second TCPStore beside that of the process group."""

    def run() -> None:
        said: List[Any] = [None]
        store: Optional[Any] = None
        if c.rank == 0:
            store = loopback_store(c)
            said = [store.port]
        c.dist.broadcast_object_list(said, src=0)
        if store is None:
            store = c.dist.TCPStore("127.0.0.1", said[0], c.world, False, rank.LIBRARY_LIMIT, wait_for_workers=False)
        use_store(c, store, "TCPStore")
        c.barrier()  # rank 0 holds the server

    c.stage("use", run)


def loopback_store(c: Context) -> Any:
    """Where torch takes over a socket (about 2.5 and later) it is bound to loopback; else TCPStore listens on all addresses by itself."""
    if "master_listen_fd" in (c.dist.TCPStore.__init__.__doc__ or ""):
        import socket

        one = socket.socket()
        one.bind(("127.0.0.1", 0))
        one.listen(64)
        port = one.getsockname()[1]
        return c.dist.TCPStore("127.0.0.1", port, c.world, True, rank.LIBRARY_LIMIT, wait_for_workers=False, master_listen_fd=one.detach())
    return c.dist.TCPStore("127.0.0.1", 0, c.world, True, rank.LIBRARY_LIMIT, wait_for_workers=False)


def store_file(c: Context) -> None:
    c.stage("use", lambda: use_store(c, c.dist.FileStore(os.path.join(c.folder, "store-%s" % c.backend), c.world), "FileStore"))


def use_store(c: Context, store: Any, name: str) -> None:
    """set, get, wait and add between the ranks."""
    store.set("from-%d" % c.rank, "value of %d" % c.rank)
    for other in range(c.world):
        store.wait(["from-%d" % other])
        got = store.get("from-%d" % other)
        if got != b"value of %d" % other:
            raise rank.Wrong("%s: rank %d got %r from rank %d" % (name, c.rank, got[:60], other))
    for _ in range(20):
        store.add("count", 1)
    store.add("done", 1)
    c.barrier()
    if store.add("count", 0) != 20 * c.world:
        raise rank.Wrong("%s: %d additions of 1 gave %d" % (name, 20 * c.world, store.add("count", 0)))


TASKS = {
    "ddp-find-unused-parameters": ddp_find_unused_parameters, "ddp-static-graph": ddp_static_graph, "ddp-bucket-view": ddp_bucket_view,
    "ddp-join": ddp_join, "ddp-model-parallel": ddp_model_parallel, "fsdp2": fsdp2, "sync-batch-norm": sync_batch_norm,
    "distributed-sampler": distributed_sampler, "rng-seeding": seeding, "distributed-checkpoint": distributed_checkpoint,
    "store-tcp": store_tcp, "store-file": store_file,
}  # fmt: skip
