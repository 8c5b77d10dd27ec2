"""What the quick check computes: all_reduce over sizes, and two steps of DDP, each with numbers that are known. Loaded by run.py."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, List


# What a collective has worked on stays until the rank leaves: gloo's threads hold a reference for a moment longer, and where theirs is
# the last one they ask for the GIL, for which up to torch 2.3 the destructor of the process group lets them wait for ever.
KEPT: List[Any] = []


class Wrong(Exception):
    """A collective or DDP gave other numbers than it must."""


def all_reduce(torch: Any, dist: Any, rank: int, world: int, device: Any, size: int) -> None:
    """Integers that differ by place and by rank, so that neither a missing rank nor a shifted buffer goes unseen."""
    count = size // 4
    pattern = torch.arange(count, dtype=torch.int32, device=device) % 1000 + 1
    tensor = pattern * (rank + 1)
    KEPT.append(tensor)
    dist.all_reduce(tensor)
    expected = pattern * (world * (world + 1) // 2)
    if not torch.equal(tensor, expected):
        bad = (tensor != expected).nonzero()
        first = int(bad[0].item())
        raise Wrong(
            "all_reduce of %d bytes over %d ranks: %d of %d values are wrong, the first at %d is %d and must be %d"
            % (size, world, bad.shape[0], count, first, int(tensor[first].item()), int(expected[first].item()))
        )


def ddp(torch: Any, dist: Any, rank: int, world: int, device: Any, backend: str) -> None:
    """Two steps of DistributedDataParallel against the same model trained in this process on all ranks' batches."""

    def model() -> Any:
        torch.manual_seed(7)
        layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
        return layers.to(device=device, dtype=torch.float64)  # TF32 and the like blur float32 below 1e-3

    def batch(step: int, of_rank: int) -> Any:
        generator = torch.Generator().manual_seed(100 * step + of_rank)
        return torch.randn(5, 8, generator=generator, dtype=torch.float64).to(device)

    reference, mine = model(), model()
    if rank:  # the constructor must bring rank 0's parameters here
        with torch.no_grad():
            for parameter in mine.parameters():
                parameter.add_(rank)
    places = [device.index] if device.type == "cuda" else None
    wrapped = torch.nn.parallel.DistributedDataParallel(mine, device_ids=places)
    compare(torch, dist, "parameters after construction", mine, reference, rank, world, backend, lambda p: p)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    ideal = torch.optim.SGD(reference.parameters(), lr=0.1)
    for step in range(2):
        optimizer.zero_grad()
        ideal.zero_grad()
        wrapped(batch(step, rank)).square().mean().backward()
        (sum(reference(batch(step, other)).square().mean() for other in range(world)) / world).backward()
        compare(torch, dist, "gradients of step %d" % (step + 1), mine, reference, rank, world, backend, lambda p: p.grad)
        optimizer.step()
        ideal.step()
        compare(torch, dist, "parameters after step %d" % (step + 1), mine, reference, rank, world, backend, lambda p: p)
    del wrapped, optimizer, mine


def compare(
    torch: Any,
    dist: Any,
    what: str,
    mine: Any,
    reference: Any,
    rank: int,
    world: int,
    backend: str,
    pick: Callable[[Any], Any],
) -> None:
    """Equal to the single-process mean within float64 rounding, and equal over ranks to the bit."""
    flat = torch.cat([pick(p).detach().reshape(-1) for p in mine.parameters()])
    ideal = torch.cat([pick(p).detach().reshape(-1) for p in reference.parameters()])
    scale = max(float(ideal.abs().max()), 1e-12)
    error = float((flat - ideal).abs().max()) / scale
    if not error < 1e-9:
        raise Wrong("DDP: the %s of rank %d differ from the single-process mean by %.3g of its largest value" % (what, rank, error))
    if world > 1:
        local = flat if backend not in ("gloo", "mpi") else flat.cpu()  # gloo gathers CPU tensors only
        everyone = [torch.empty_like(local) for _ in range(world)]
        KEPT.extend((local, *everyone))
        dist.all_gather(everyone, local)
        for other, theirs in enumerate(everyone):
            if not torch.equal(theirs, local):
                raise Wrong("DDP: the %s of rank %d and rank %d differ" % (what, rank, other))
