"""Collectives with checked values: every operation over dtypes and sizes, a stage each. For `--live full`.

All numbers are small integers, which every dtype here holds exactly (bfloat16 up to 256), so results are compared to the bit.
"""

from __future__ import annotations

from . import numerics, rank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, List

    from .rank import TaskContext

DTYPES = ("int32", "int64", "float32", "float64", "bfloat16")
FLOATS = ("float32", "float64", "bfloat16")
SIZES = (0, 64 << 10, (512 << 10) + 8, 4 << 20)  # bytes; 0 is one element, 4 bytes of int32
SMALL = (0, 64 << 10)
LARGE = (9 << 20) + 8  # of float32, for all_reduce alone
# What a backend does not have by design: the table of https://docs.pytorch.org/docs/stable/distributed.html and the words that
# torch raises. Anything else that fails is a failure. Which of it a release has differs, so all of it is tried everywhere.
LACKS = {
    "gloo": ("all_reduce-avg", "reduce_scatter", "all_to_all", "bfloat16"),
    "mpi": ("all_reduce-avg", "reduce_scatter", "all_to_all", "bfloat16"),
    "ucc": ("all_reduce-avg",),
}
WORDS = ("not support", "nsupported", "not implemented", "Invalid scalar type", "only available with", "only supports", "backend with",
         "Cannot use")  # fmt: skip # "Cannot use ReduceOp.AVG with Gloo", torch 1.11 to 2.7


def collectives(c: TaskContext) -> None:
    """One arm; a stage for each operation."""
    stages: List[Any] = [
        ("all_reduce-sum", lambda: all_reduce(c, "SUM")),
        ("all_reduce-avg", lambda: all_reduce(c, "AVG")),
        ("all_reduce-max", lambda: all_reduce(c, "MAX")),
        ("all_reduce-large", lambda: large(c)),
        ("broadcast", lambda: each(c, "broadcast", broadcast, SIZES)),
        ("reduce", lambda: each(c, "reduce", reduce, SIZES)),
        ("all_gather", lambda: each(c, "all_gather", all_gather, SIZES)),
        ("reduce_scatter", lambda: each(c, "reduce_scatter", reduce_scatter, SMALL)),
        ("all_to_all", lambda: each(c, "all_to_all", all_to_all, SMALL)),
        ("send-recv", lambda: each(c, "send-recv", send_recv, SIZES)),
        ("async", lambda: in_flight(c)),
        # Not right behind what a backend may refuse: gloo's barrier looks at what is under way, and up to torch 2.0 raises that again.
        ("barrier", c.barrier),
        ("objects", lambda: objects(c)),
        ("subgroups", lambda: subgroups(c)),
    ]
    for name, function in stages:
        c.stage(name, function)


def documented(c: TaskContext, operation: str, dtype: str, error: Exception) -> bool:
    """Whether it is known not to exist on this backend in every release, and that is what the error says."""
    known = LACKS.get(c.backend, ())
    return (operation in known or dtype in known) and any(word in str(error) for word in WORDS)


def each(c: TaskContext, name: str, function: Callable[[TaskContext, Any, int], None], sizes: Any, dtypes: Any = DTYPES) -> None:
    """`function` over all dtypes and sizes. Skipped as a whole only if the backend does none of it."""
    lacking: List[str] = []
    done = 0
    for dtype in dtypes:
        kind = getattr(c.torch, dtype)
        for size in sizes:
            try:
                function(c, kind, max(1, size // c.torch.empty((), dtype=kind).element_size()))
            except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
                if not documented(c, name, dtype, error):
                    raise
                lacking.append(dtype)
                break
            done += 1
    if lacking and not done:
        raise rank.Skip("%s has no %s by design" % (c.backend, name))


def pattern(c: TaskContext, dtype: Any, count: int, of_rank: int = 0, times: float = 1) -> Any:
    """Numbers that differ by place and rank, and whose sum over the ranks every dtype holds exactly; `times` as much of them."""
    height = max(1, 256 // (c.world * (c.world + 1) // 2) - 1)
    return numerics.numbers(numerics.block(c.torch, dtype, c.device, times * (of_rank + 1), height), count)


def total(c: TaskContext) -> int:
    """Of r + 1 over all ranks r."""
    return c.world * (c.world + 1) // 2


def told(c: TaskContext, what: str, expected: Any) -> str:
    return "%s of %d × %s over %d ranks" % (what, expected.numel(), str(expected.dtype).replace("torch.", ""), c.world)


def same(c: TaskContext, what: str, got: Any, expected: Any) -> None:
    numerics.same(c.torch, told(c, what, expected), got, expected)


def all_reduce(c: TaskContext, operation: str) -> None:
    def one(c: TaskContext, dtype: Any, count: int) -> None:
        tensor = pattern(c, dtype, count, c.rank)
        c.dist.all_reduce(tensor, op=getattr(c.dist.ReduceOp, operation))
        times = {"SUM": total(c), "MAX": c.world, "AVG": (c.world + 1) / 2}[operation]
        what, expected = "all_reduce (%s)" % operation.lower(), pattern(c, dtype, count, times=times)
        if operation == "AVG" and c.world & (c.world - 1):
            # NCCL multiplies by a rounded 1 / n before it adds up
            limit = 0.05 if dtype is c.torch.bfloat16 else 1e-6
            numerics.near(c.torch, told(c, what, expected), tensor, expected, limit)
        else:
            same(c, what, tensor, expected)  # halves are exact in every float here

    if operation == "AVG" and not hasattr(c.dist.ReduceOp, "AVG"):
        raise rank.Skip("this torch has no ReduceOp.AVG")
    # The mean of integers is no integer; gloo refuses it, NCCL rounds.
    each(c, "all_reduce-" + operation.lower(), one, SIZES, FLOATS if operation == "AVG" else DTYPES)


def large(c: TaskContext) -> None:
    """Above 4 MiB, and a second time with other numbers."""
    for times in (1, 2):
        tensor = pattern(c, c.torch.float32, LARGE // 4, c.rank, times)
        c.dist.all_reduce(tensor)
        same(c, "all_reduce (sum)", tensor, pattern(c, c.torch.float32, LARGE // 4, times=times * total(c)))


def in_flight(c: TaskContext) -> None:
    """Several collectives begun before the first of them is waited for, with async_op."""
    counts = (1000, 100003, 1000)
    sums = [pattern(c, c.torch.float32, count, c.rank, times) for times, count in enumerate(counts, 1)]
    sent = pattern(c, c.torch.int64, 1000, c.rank)
    parts = [c.torch.zeros(1000, dtype=c.torch.int32, device=c.device) for _ in range(c.world)]
    begun = [c.dist.all_reduce(one, async_op=True) for one in sums]
    begun.append(c.dist.broadcast(sent, c.world - 1, async_op=True))
    begun.append(c.dist.all_gather(parts, pattern(c, c.torch.int32, 1000, c.rank), async_op=True))
    for work in begun:
        numerics.awaited(work)
    for times, (one, count) in enumerate(zip(sums, counts), 1):  # noqa: B905 - Python 3.8
        same(c, "all_reduce with async_op, number %d," % times, one, pattern(c, c.torch.float32, count, times=times * total(c)))
    same(c, "broadcast with async_op", sent, pattern(c, c.torch.int64, 1000, c.world - 1))
    for other, part in enumerate(parts):
        same(c, "all_gather with async_op, part %d," % other, part, pattern(c, c.torch.int32, 1000, other))


def broadcast(c: TaskContext, dtype: Any, count: int) -> None:
    for source in range(min(c.world, 2)):
        tensor = pattern(c, dtype, count, c.rank)
        c.dist.broadcast(tensor, source)
        same(c, "broadcast from rank %d" % source, tensor, pattern(c, dtype, count, source))


def reduce(c: TaskContext, dtype: Any, count: int) -> None:
    tensor = pattern(c, dtype, count, c.rank)
    root = c.world - 1
    c.dist.reduce(tensor, root)
    if c.rank == root:  # what the others hold afterwards is not specified
        same(c, "reduce", tensor, pattern(c, dtype, count, times=total(c)))


def all_gather(c: TaskContext, dtype: Any, count: int) -> None:
    parts = [c.torch.zeros(count, dtype=dtype, device=c.device) for _ in range(c.world)]
    c.dist.all_gather(parts, pattern(c, dtype, count, c.rank))
    for other, part in enumerate(parts):
        same(c, "all_gather, part %d" % other, part, pattern(c, dtype, count, other))


def reduce_scatter(c: TaskContext, dtype: Any, count: int) -> None:
    whole = pattern(c, dtype, count * c.world, c.rank)
    part = c.torch.zeros(count, dtype=dtype, device=c.device)
    c.dist.reduce_scatter(part, list(whole.chunk(c.world)))
    expected = pattern(c, dtype, count * c.world, times=total(c))
    same(c, "reduce_scatter", part, expected[c.rank * count : (c.rank + 1) * count])


def all_to_all(c: TaskContext, dtype: Any, count: int) -> None:
    got = c.torch.zeros(count * c.world, dtype=dtype, device=c.device)
    c.dist.all_to_all_single(got, pattern(c, dtype, count * c.world, c.rank))
    place = slice(c.rank * count, (c.rank + 1) * count)
    expected = c.torch.cat([pattern(c, dtype, count * c.world, other)[place] for other in range(c.world)])
    same(c, "all_to_all", got, expected)


def send_recv(c: TaskContext, dtype: Any, count: int) -> None:
    """Round the ring; both directions of a pair at once over batch_isend_irecv would deadlock on neither backend."""
    if c.world == 1:
        return
    following, previous = (c.rank + 1) % c.world, (c.rank - 1) % c.world
    mine, theirs = pattern(c, dtype, count, c.rank), c.torch.zeros(count, dtype=dtype, device=c.device)
    if c.rank % 2 == 0:
        c.dist.send(mine, following)
        c.dist.recv(theirs, previous)
    else:
        c.dist.recv(theirs, previous)
        c.dist.send(mine, following)
    same(c, "send/recv from rank %d" % previous, theirs, pattern(c, dtype, count, previous))


def objects(c: TaskContext) -> None:
    """gather_object, scatter_object_list, all_gather_object and broadcast_object_list with Python objects of different length."""
    c.need_each_other("objects are not sent")
    rank.need_numpy("what torch has to send objects")

    def thing(of_rank: int) -> Any:
        return {"rank": of_rank, "text": "ü" * (1000 * of_rank + 1), "rest": [None, 1.5, ("a", b"b")]}

    whole = [thing(other) for other in range(c.world)]
    found: List[Any] = [None] * c.world
    c.dist.all_gather_object(found, thing(c.rank))
    equal(c, "all_gather_object", found, whole)
    if hasattr(c.dist, "gather_object"):
        gathered = [None] * c.world if c.rank == 0 else None
        c.dist.gather_object(thing(c.rank), gathered, dst=0)
        if c.rank == 0:
            equal(c, "gather_object", gathered, whole)
    out: List[Any] = [None]
    c.dist.scatter_object_list(out, whole if c.rank == 0 else None, src=0)
    equal(c, "scatter_object_list", out, [thing(c.rank)])
    sent: List[Any] = whole[:] if c.rank == 0 else [None] * c.world
    c.dist.broadcast_object_list(sent, src=0)
    equal(c, "broadcast_object_list", sent, whole)


def equal(c: TaskContext, what: str, got: Any, expected: Any) -> None:
    if got != expected:
        raise numerics.Wrong("%s: rank %d holds %s and must hold %s" % (what, c.rank, str(got)[:150], str(expected)[:150]))


def subgroups(c: TaskContext) -> None:
    """Groups of one, of the lower half and of all, made by every rank in the same order as new_group demands."""
    wanted = [[other] for other in range(min(c.world, 4))] + [list(range(max(1, c.world // 2))), list(range(c.world))]
    for members in wanted:
        group = c.dist.new_group(members)
        if c.rank in members:
            tensor = pattern(c, c.torch.int64, 1000, c.rank)
            c.dist.all_reduce(tensor, group=group)
            factor = sum(other + 1 for other in members)
            same(c, "all_reduce in the subgroup %s" % members, tensor, pattern(c, c.torch.int64, 1000, times=factor))
            equal(c, "get_rank in the subgroup %s" % members, c.dist.get_rank(group), members.index(c.rank))
    # Groups are torn down with the process group, as in training code.


TASKS = {"collectives": collectives}
