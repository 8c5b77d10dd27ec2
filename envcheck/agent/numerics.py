"""What the quick check computes: a broadcast, all_reduce over sizes, one step of training alone and some of DDP.

All numbers are known beforehand, and no sum or product of them is rounded: not in float32, and since eight bits hold every factor, not
where a library was told to multiply in TF32 or bfloat16 either.
"""

from __future__ import annotations

import math

from . import jsonl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterable, List, Sequence, Tuple


# What a collective has worked on stays until the rank leaves: gloo's threads hold a reference for a moment longer, and where theirs is
# the last one they ask for the GIL, for which up to torch 2.3 the destructor of the process group lets them wait for ever.
KEPT: List[Any] = []

PERIOD = 251  # of the numbers that are sent: a prime, so that no block of a library's is like the next one


class Wrong(Exception):
    """A collective, DDP or torch by itself gave other numbers than it must."""


def place(dist: Any, rank: int, world: int) -> None:
    """What a program asks torch for: samplers and checkpoints go by it."""
    for what, got, expected in (("get_rank", dist.get_rank(), rank), ("get_world_size", dist.get_world_size(), world)):
        if got != expected:
            raise Wrong("torch.distributed.%s() is %.40r and must be %d" % (what, got, expected))


def same(torch: Any, what: str, got: Any, expected: Any) -> None:
    """Equal to the bit."""
    if got.shape == expected.shape and torch.equal(got, expected):
        return
    if got.shape != expected.shape:
        raise Wrong("%s: the shape is %s and must be %s" % (what, tuple(got.shape), tuple(expected.shape)))
    differ(what, got.reshape(-1), expected.reshape(-1), (got != expected).reshape(-1))


def near(torch: Any, what: str, got: Any, expected: Any, limit: float = 1e-6, names: Sequence[Tuple[str, int]] = ()) -> None:
    """Equal within `limit` of the largest number; `names` tells what `got` is put together from, and how long each part is."""
    got, expected = flat(torch, [got]), flat(torch, [expected])
    wrong = ~((got - expected).abs() <= limit * float(expected.abs().max()))
    if bool(wrong.any()):
        differ(what, got, expected, wrong, names)


def differ(what: str, got: Any, expected: Any, wrong: Any, names: Sequence[Tuple[str, int]] = ()) -> None:
    """Raise Wrong with the first number that is."""
    bad = wrong.nonzero()
    first = place = int(bad[0].item())
    where = "at %d" % first
    for name, length in names:
        if place < length:
            where = "in %s" % name
            break
        place -= length
    text = "%s: %d of %d values are wrong, the first %s is %s and must be %s"
    raise Wrong(text % (what, bad.shape[0], wrong.shape[0], where, shown(got[first]), shown(expected[first])))


def shown(number: Any) -> str:
    return "%.9g" % number.item()


def block(torch: Any, dtype: Any, device: Any, scale: float, highest: int = PERIOD) -> Any:
    """Integers that differ by place, for a while."""
    return torch.tensor([scale * (place % highest + 1) for place in range(PERIOD)], dtype=dtype, device=device)


def numbers(one: Any, count: int) -> Any:
    """A block over and over. Copied together, not computed: torch's arithmetic is what is examined."""
    return one.repeat(count // PERIOD + 1)[:count]


def over_and_over(torch: Any, what: str, got: Any, one: Any) -> None:
    """`same` as `numbers` of that block, without them: fresh memory costs more than the collective has."""
    rows = got.numel() // PERIOD
    head, tail = got[: rows * PERIOD].view(rows, PERIOD), got[rows * PERIOD :]
    if not (torch.equal(head, one.expand(rows, PERIOD)) and torch.equal(tail, one[: tail.numel()])):
        same(torch, what, got, numbers(one, got.numel()))


def awaited(work: Any) -> None:
    """A function of its own, so that a stack says who waits for the others (verdict.waits)."""
    work.wait()


def sizes(asked: Sequence[int]) -> List[int]:
    """Those of an arm, and between two neighbours one that is no power of two: libraries change their algorithm with the size."""
    found = list(asked[:1])
    for lower, upper in zip(asked, asked[1:]):  # noqa: B905 - Python 3.8
        found += [4 * (math.isqrt(lower * upper) // 4 + 1), upper]
    return found


def broadcast(torch: Any, dist: Any, rank: int, world: int, device: Any) -> None:
    """From the last rank. Smaller than any packet: it is all_reduce that has to find out how much gets through."""
    tensor = numbers(block(torch, torch.float32, device, rank + 1), 257)
    KEPT.append(tensor)
    dist.broadcast(tensor, world - 1)
    over_and_over(torch, "broadcast from rank %d of %d" % (world - 1, world), tensor, block(torch, torch.float32, device, world))


def all_reduce(torch: Any, dist: Any, rank: int, world: int, device: Any, size: int) -> None:
    """Integers, floats that are waited for later, and, where that is cheap, floats again: a first call may leave what a second one finds.
    They differ by place and by rank, so that neither a missing rank nor a shifted buffer goes unseen."""
    total = world * (world + 1) // 2
    for name, factor, later in (("int32", 1, False), ("float32", 2, True), ("float32", 3, False))[: 3 if size <= 64 << 10 else 2]:
        dtype = getattr(torch, name)
        tensor = numbers(block(torch, dtype, device, factor * (rank + 1)), size // 4)
        KEPT.append(tensor)
        if later:
            awaited(dist.all_reduce(tensor, async_op=True))
        else:
            dist.all_reduce(tensor)
        what = "all_reduce of %d bytes (%s%s) over %d ranks" % (size, name, ", async_op" if later else "", world)
        over_and_over(torch, what, tensor, block(torch, dtype, device, factor * total))


def step(torch: Any, device: Any, dtype: Any) -> None:
    """One step of a network of two layers in this process, against numbers worked out by hand."""

    def tensor(values: Any) -> Any:
        return torch.tensor(values, dtype=dtype, device=device)

    def check(what: str, got: Any, expected: Any) -> None:
        what = "one process, %s: the %s" % (str(dtype).replace("torch.", ""), what)
        same(torch, what, flat(torch, got), flat(torch, map(tensor, expected)))

    first, last = torch.nn.Linear(2, 2, device=device, dtype=dtype), torch.nn.Linear(2, 1, device=device, dtype=dtype)
    parameters = [*first.parameters(), *last.parameters()]
    with torch.no_grad():
        for parameter, value in zip(parameters, ([[1.0, 2.0], [-3.0, 1.0]], [-2.0, 0.0], [[2.0, -1.0]], [1.0])):  # noqa: B905
            parameter.copy_(tensor(value))
    optimizer = torch.optim.SGD(parameters, lr=0.125)
    inputs, targets = tensor([[1.0, 2.0], [-1.0, 1.0]]), tensor([[3.0], [-5.0]])

    outputs = last(torch.relu(first(inputs)))
    loss = torch.nn.functional.mse_loss(outputs, targets)
    loss.backward()
    check("outputs", [outputs], [[7.0, -3.0]])
    check("loss", [loss], [10.0])
    check("gradients", gradients(parameters), ([[8.0, 16.0], [2.0, -2.0]], [8.0, -2.0], [[12.0, 8.0]], [6.0]))
    optimizer.step()
    check("parameters after a step of SGD", parameters, ([[0.0, 0.0], [-3.25, 1.25]], [-3.0, 0.25], [[0.5, -2.0]], [0.25]))
    check("outputs after a step of SGD", [last(torch.relu(first(inputs)))], [[0.25, -9.25]])


# Linear layers side by side: inputs, outputs, dtype. With buckets of 1 KiB each is a bucket of its own, the second one of 65 KiB.
LAYERS = ((9, 31, "float32"), (128, 130, "float32"), (7, 5, "float64"), (11, 29, "float32"))
BUCKET = 1 << 10  # bytes
RATE = 0.125


class Known:
    """What the layers hold, and what comes out of them: each layer's input is a fixed x, and the loss of rank r in step s is
    s (r + 1) c·y. So the gradient of the weight is c⊗x and that of the bias c, times s times the mean of r + 1 over the ranks."""

    def __init__(self, torch: Any, layers: Sequence[Tuple[int, int, str]]) -> None:
        def pattern(values: Sequence[float], count: int) -> Any:
            return torch.tensor(values, dtype=torch.float64, device="cpu").repeat(count // len(values) + 1)[:count]

        self.inputs = [pattern((1.0, -2.0, 2.0, 1.0, -1.0, 2.0, -1.0), width) for width, _, _ in layers]
        self.slopes = [pattern((1.0, -1.0, 2.0, 1.0, -2.0), height) for _, height, _ in layers]
        weights: List[Any] = []
        gradients: List[Any] = []
        outputs: List[Any] = []
        falls: List[Any] = []
        for x, c in zip(self.inputs, self.slopes):  # noqa: B905
            weight = pattern((3.0, -1.0, 0.0, 2.0, -3.0, 1.0, -2.0, 1.0, -1.0, 0.0, 2.0), len(c) * len(x)).reshape(len(c), len(x))
            bias = c.flip(0)
            weights += [weight.reshape(-1), bias]
            gradients += [(c.reshape(-1, 1) * x).reshape(-1), c]
            outputs.append((weight * x).sum(1) + bias)
            falls.append(c * ((x * x).sum() + 1))
        self.parameters, self.gradient, self.outputs, self.fall = (torch.cat(one) for one in (weights, gradients, outputs, falls))
        # `fall` is how much the outputs lose where the parameters lose `gradient`


def layers_of(torch: Any, known: Known, layers: Sequence[Tuple[int, int, str]], rank: int, device: Any) -> Any:
    """The model. What is not rank 0's differs: the constructor of DDP has to bring rank 0's here, and each forward pass the buffer."""

    class SideBySide(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            made = [torch.nn.Linear(width, height, dtype=dtype_on(torch, device, name)) for width, height, name in layers]
            self.layers = torch.nn.ModuleList(made)
            self.register_buffer("passes", torch.full((3,), 7.0 + rank, dtype=torch.float32))

        def forward(self, inputs: Any) -> Any:
            self.passes.add_(rank + 1)
            return [layer(one) for layer, one in zip(self.layers, inputs)]  # noqa: B905

    model = SideBySide()
    at = 0
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(known.parameters[at : at + parameter.numel()].reshape(parameter.shape) + rank)
            at += parameter.numel()
    return model.to(device)


def dtype_on(torch: Any, device: Any, name: str) -> Any:
    """Some GPUs of Intel have no float64."""
    return torch.float32 if device.type == "xpu" else getattr(torch, name)


def wrap(torch: Any, dist: Any, model: Any, device: Any, bucket: int, **options: Any) -> Any:
    """DDP with buckets of `bucket` bytes: up to torch 2.3 the first one holds 1 MiB, unless dist is told otherwise."""
    before = getattr(dist, "_DEFAULT_FIRST_BUCKET_BYTES", None)
    dist._DEFAULT_FIRST_BUCKET_BYTES = bucket
    try:
        places = [device.index] if device.type == "cuda" else None
        return torch.nn.parallel.DistributedDataParallel(model, device_ids=places, bucket_cap_mb=bucket / 1048576.0, **options)
    finally:
        dist._DEFAULT_FIRST_BUCKET_BYTES = before


def ddp(
    torch: Any,
    dist: Any,
    rank: int,
    world: int,
    device: Any,
    backend: str,
    layers: Sequence[Tuple[int, int, str]] = LAYERS,
    bucket: int = BUCKET,
    **options: Any,
) -> Dict[str, Any]:
    """Two steps of DistributedDataParallel and two that are accumulated, each with the numbers that must come. The first step has one
    bucket for each dtype, the second one those of `bucket` bytes. Returns what DDP says of itself, if it does: the steps have passed."""
    known = Known(torch, layers)
    mine = layers_of(torch, known, layers, rank, device)
    wrapped = wrap(torch, dist, mine, device, bucket, **options)
    names = [(name, parameter.numel()) for name, parameter in mine.named_parameters()]
    inputs = [x.reshape(1, -1).to(dtype=layer.weight.dtype, device=device) for x, layer in zip(known.inputs, mine.layers)]  # noqa: B905

    def check(what: str, got: Any, expected: Any, parts: Sequence[Tuple[str, int]] = names) -> None:
        """A mean over 3, 5, 6 or 7 ranks is rounded."""
        near(torch, "DDP: the %s on rank %d of %d" % (what, rank, world), flat(torch, got), expected, names=parts)

    def backward(factor: int) -> Any:
        outputs = wrapped(inputs)
        slopes = [factor * (rank + 1) * c.reshape(1, -1) for c in known.slopes]
        torch.autograd.backward(outputs, [c.to(dtype=y.dtype, device=device) for c, y in zip(slopes, outputs)])  # noqa: B905
        return outputs

    check("parameters after construction", mine.parameters(), known.parameters)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=RATE)
    mean = (world + 1) / 2  # of r + 1 over the ranks
    two_steps(mine, optimizer, known, mean, backward, check)
    # rank 0's came before each of the two passes, of which this rank has seen its own last one
    check("buffers", mine.buffers(), torch.full((3,), 7.0 + 1 + rank + 1, dtype=torch.float64, device="cpu"), [("passes", 3)])
    alike(torch, dist, rank, world, backend, mine)
    optimizer.zero_grad()
    with wrapped.no_sync():
        backward(3)
    check("gradients inside no_sync (this rank's own)", gradients(mine.parameters()), 3.0 * (rank + 1) * known.gradient)
    backward(4)
    check("gradients accumulated over no_sync and the step behind it", gradients(mine.parameters()), 7.0 * mean * known.gradient)
    said = jsonl.call(wrapped, "_get_ddp_logging_data")  # raises for a variable that is not UTF-8
    KEPT.extend((*mine.parameters(), *mine.buffers()))
    return said if isinstance(said, dict) else {}


def two_steps(model: Any, optimizer: Any, known: Known, mean: float, backward: Callable[[int], Any], check: Callable[..., None]) -> None:
    """Outputs, gradients and parameters of two steps, the second from what the first one left; `mean` is that of r + 1 over the ranks."""
    gone = 0.0
    for number in (1, 2):
        optimizer.zero_grad()
        outputs = backward(number)
        check("outputs of step %d" % number, outputs, known.outputs - gone * known.fall, ())
        check("gradients of step %d" % number, gradients(model.parameters()), mean * number * known.gradient)
        optimizer.step()
        gone += RATE * mean * number
        check("parameters after step %d" % number, model.parameters(), known.parameters - gone * known.gradient)


def gradients(parameters: Iterable[Any]) -> List[Any]:
    found = [parameter.grad for parameter in parameters]
    if any(one is None for one in found):
        raise Wrong("the backward pass left %d of %d parameters without a gradient" % (sum(one is None for one in found), len(found)))
    return found


def flat(torch: Any, tensors: Any) -> Any:
    return torch.cat([one.detach().reshape(-1).cpu().double() for one in tensors])


def alike(torch: Any, dist: Any, rank: int, world: int, backend: str, model: Any) -> None:
    """The parameters of all ranks are equal to the bit."""
    if world == 1:
        return
    mine = torch.cat([parameter.detach().reshape(-1).view(torch.uint8) for parameter in model.parameters()])
    local = mine if backend not in ("gloo", "mpi") else mine.cpu()  # gloo gathers CPU tensors only
    everyone = [torch.empty_like(local) for _ in range(world)]
    KEPT.extend((local, *everyone))
    dist.all_gather(everyone, local)
    for other, theirs in enumerate(everyone):
        if not torch.equal(theirs, local):
            raise Wrong("DDP: the parameters of rank %d and rank %d differ after two steps" % (rank, other))
