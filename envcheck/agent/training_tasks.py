"""Training as people write it, each variant against one process that sees all data. For `--live full`.

Computed in float64 on a handful of numbers, so that a difference is a fault and not rounding, or against numbers that are known.
"""

from __future__ import annotations

from . import numerics, rank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, List

    from .rank import TaskContext

STEPS = 3


def network(c: TaskContext, device: Any = None) -> Any:
    c.torch.manual_seed(7)
    layers = c.torch.nn.Sequential(c.torch.nn.Linear(8, 16), c.torch.nn.Tanh(), c.torch.nn.Linear(16, 4))
    return layers.to(device=c.device if device is None else device, dtype=c.torch.float64)


def batch(c: TaskContext, step: int, of_rank: int) -> Any:
    generator = c.torch.Generator().manual_seed(1000 * step + of_rank)
    return c.torch.randn(5, 8, generator=generator, dtype=c.torch.float64).to(c.device)


def flat(c: TaskContext, tensors: Any) -> Any:
    return c.torch.cat([one.detach().reshape(-1).cpu() for one in tensors])


def near(c: TaskContext, what: str, got: Any, expected: Any, limit: float = 1e-9) -> None:
    """Equal to the reference within rounding."""
    if got.shape != expected.shape:
        raise numerics.Wrong("%s: the shape is %s and must be %s" % (what, tuple(got.shape), tuple(expected.shape)))
    error = float((got.double() - expected.double()).abs().max()) / max(float(expected.double().abs().max()), 1e-12)
    if not error < limit:
        raise numerics.Wrong(
            "%s of rank %d differ from one process that sees all data by %.3g of the largest value" % (what, c.rank, error)
        )


def exact(c: TaskContext, what: str, got: Any, expected: Any) -> None:
    if not c.torch.equal(got, expected):
        bad = int((got != expected).sum()) if got.shape == expected.shape else expected.numel()
        raise numerics.Wrong("%s: %d of %d numbers came back changed" % (what, bad, expected.numel()))


def gradients(model: Any) -> List[Any]:
    return [p.new_zeros(p.shape) if p.grad is None else p.grad for p in model.parameters()]


def distributed(c: TaskContext, model: Any, **options: Any) -> Any:
    places = [c.device.index] if c.device.type == "cuda" else None
    return c.torch.nn.parallel.DistributedDataParallel(model, device_ids=places, **options)


def follow(c: TaskContext, name: str, wrapped: Any, mine: Any, ideal: Any, loss: Callable[[Any, int, int], Any]) -> None:
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


def plain_loss(c: TaskContext) -> Callable[[Any, int, int], Any]:
    return lambda model, step, of_rank: model(batch(c, step, of_rank)).square().mean()


def ddp_find_unused_parameters(c: TaskContext) -> None:
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


def ddp_static_graph(c: TaskContext) -> None:
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


def ddp_buckets(c: TaskContext) -> None:
    """Buckets of every size for which gloo or NCCL may choose another algorithm, in float32 and float64."""
    c.stage("train", lambda: several(c, (*numerics.LAYERS, (360, 365, "float32"), (512, 1030, "float32"))))


def ddp_bucket_view(c: TaskContext) -> None:
    c.stage("train", lambda: several(c, numerics.LAYERS, gradient_as_bucket_view=True))


def several(c: TaskContext, layers: Any, **options: Any) -> None:
    said = numerics.ddp(c.torch, c.dist, c.rank, c.world, c.device, c.backend, layers, **options)
    if not said:
        raise rank.Skip("DDP of this torch does not say how many buckets it made")
    buckets = str(said.get("rebuilt_bucket_sizes") or "").split(",")
    if len(buckets) < len(layers):
        raise rank.Skip("DDP of this torch says that it made %d buckets, where %d were wanted" % (len(buckets), len(layers)))


def ddp_batch_norm(c: TaskContext) -> None:
    """Each rank sees numbers of its own, and before each pass the running statistics of rank 0 take the place of its own."""

    def images(step: int) -> Any:
        """Two rows, of which each channel's mean and deviation are known."""
        middles, away = [float(10 * step + 2 * channel + c.rank) for channel in range(3)], c.rank + 1.0
        rows = [[one - away for one in middles], [one + away for one in middles]]
        return c.torch.tensor(rows, dtype=c.torch.float32, device=c.device)

    def run() -> None:
        model = c.torch.nn.BatchNorm1d(3, momentum=0.5, dtype=c.torch.float32).to(c.device)
        wrapped = distributed(c, model)
        for step in (1, 2):
            wrapped(images(step)).sum().backward()
        # Half of what was there and half of what came; the variance of two rows is divided by one.
        means = [0.5 * (0.5 * (10 + 2 * channel)) + 0.5 * (20 + 2 * channel + c.rank) for channel in range(3)]
        variance = 0.5 * (0.5 + 0.5 * 2) + 0.5 * 2 * (c.rank + 1) ** 2
        for name, expected in (("running_mean", means), ("running_var", [variance] * 3), ("num_batches_tracked", [2.0])):
            what = "DDP: BatchNorm's %s on rank %d of %d" % (name, c.rank, c.world)
            numerics.near(c.torch, what, getattr(model, name), c.torch.tensor(expected, dtype=c.torch.float64))

    c.stage("train", run)


def ddp_join(c: TaskContext) -> None:
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


def ddp_model_parallel(c: TaskContext) -> None:
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


def fsdp2(c: TaskContext) -> None:
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

    def tried() -> None:
        try:
            run()
        except AttributeError as error:  # "'Stream' object has no attribute 'record_event'"
            if c.device.type != "cpu" or "'Stream' object" not in str(error):
                raise
            raise rank.Skip("fully_shard of torch %s does not run on CPUs: %s" % (c.torch.__version__, error)) from None

    c.stage("train", tried)


def sync_batch_norm(c: TaskContext) -> None:
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


TASKS = {
    "ddp-find-unused-parameters": ddp_find_unused_parameters, "ddp-static-graph": ddp_static_graph, "ddp-buckets": ddp_buckets,
    "ddp-bucket-view": ddp_bucket_view, "ddp-batch-norm": ddp_batch_norm, "ddp-join": ddp_join,
    "ddp-model-parallel": ddp_model_parallel, "fsdp2": fsdp2, "sync-batch-norm": sync_batch_norm,
}  # fmt: skip
