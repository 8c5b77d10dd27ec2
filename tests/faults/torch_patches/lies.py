"""Lies of a torch that raises no error: each spoils one kind of number, all others stay right. By name; sitecustomize puts them in.

Three are none, and must pass: "ddp-buckets-told", "environment-told" and "products-in-bfloat16".
"""

import contextlib
import json
import os

FIRST, LARGE = 64 << 10, 4 << 20  # bytes


def size(tensor):
    return tensor.numel() * tensor.element_size()


def spoiling(spoil):
    """all_reduce works, and then `spoil` gets what came out."""

    def patch(torch):
        real = torch.distributed.all_reduce

        def all_reduce(tensor, *args, **kwargs):
            work = real(tensor, *args, **kwargs)
            if work is not None:
                work.wait()
            spoil(tensor)
            return work

        torch.distributed.all_reduce = all_reduce

    return patch


def last_plus_one(tensor):
    tensor.view(-1)[-1] += 1


def off_by_one(tensor):
    if tensor.numel() > 1000:
        tensor.view(-1)[1000:] += 1


def half_more(tensor):
    if tensor.is_floating_point():
        tensor.mul_(1.5)


def not_a_number(tensor):
    if tensor.is_floating_point():
        tensor.view(-1)[-1] = float("nan")


def between(tensor):
    if FIRST < size(tensor) < LARGE:
        last_plus_one(tensor)


def large(tensor):
    if size(tensor) > LARGE:
        last_plus_one(tensor)


def second_call(torch):
    """The second time with as many bytes, what came out the first time comes again."""
    kept = {}

    def spoil(tensor):
        key = (tensor.dtype, tensor.numel())
        if key in kept:
            tensor.copy_(kept[key])
        kept[key] = tensor.clone()

    spoiling(spoil)(torch)


def async_does_nothing(torch):
    real = torch.distributed.all_reduce

    class Done:
        def wait(self, *args):
            return True

    torch.distributed.all_reduce = lambda tensor, *args, **kwargs: Done() if kwargs.get("async_op") else real(tensor, *args, **kwargs)


def broadcast_does_nothing(torch):
    class Done:
        def wait(self, *args):
            return True

    torch.distributed.broadcast = lambda *args, **kwargs: Done() if kwargs.get("async_op") else None


def hook(reduces):
    """A communication hook of DDP that reduces a bucket only where `reduces(bucket)`."""

    def patch(torch):
        dist, real = torch.distributed, torch.nn.parallel.DistributedDataParallel.__init__

        def reduce(_, bucket):
            if reduces(bucket):
                work = dist.all_reduce(bucket.buffer().div_(dist.get_world_size()), async_op=True)
                return work.get_future().then(lambda done: done.value()[0])
            future = torch.futures.Future()
            future.set_result(bucket.buffer())
            return future

        def init(self, *args, **kwargs):
            real(self, *args, **kwargs)
            self.register_comm_hook(None, reduce)

        torch.nn.parallel.DistributedDataParallel.__init__ = init

    return patch


def a_little_more(torch):
    """The mean over the ranks is off by a hundred-thousandth: far above what rounding does to it."""
    dist, real = torch.distributed, torch.nn.parallel.DistributedDataParallel.__init__

    def reduce(_, bucket):
        work = dist.all_reduce(bucket.buffer().div_(dist.get_world_size()), async_op=True)
        return work.get_future().then(lambda done: done.value()[0].mul_(1.00001))

    def init(self, *args, **kwargs):
        real(self, *args, **kwargs)
        self.register_comm_hook(None, reduce)

    torch.nn.parallel.DistributedDataParallel.__init__ = init


def one_bit_of_rank_1(torch):
    """Every step of a model's optimizer leaves rank 1 one parameter that is as close to the right one as can be."""
    real = torch.optim.SGD.step

    def step(self, closure=None):
        real(self, closure)
        first, *others = self.param_groups[0]["params"]
        if torch.distributed.get_rank() == 1 and len(others) > 3:
            with torch.no_grad():
                first.view(-1)[0] = torch.nextafter(first.view(-1)[0], first.view(-1)[0] + 1)

    torch.optim.SGD.step = step


def told(bucket):
    """No lie: each bucket is reduced, and a line of the file ENVCHECK_BUCKETS tells of it."""
    import torch

    if torch.distributed.get_rank() == 0:
        kind = str(bucket.buffer().dtype).replace("torch.", "")
        with open(os.environ["ENVCHECK_BUCKETS"], "a") as file:
            file.write("%d %s %d %d\n" % (bucket.index(), kind, size(bucket.buffer()), bucket.is_last()))
    return True


def environment_told(torch):
    """No lie: each rank writes the variables that it has where it joins the group, in a file of the folder ENVCHECK_TOLD."""
    real = torch.distributed.init_process_group

    def init_process_group(*args, **kwargs):
        with open(os.path.join(os.environ["ENVCHECK_TOLD"], "%d.json" % os.getpid()), "w") as file:
            json.dump(dict(os.environ), file)
        return real(*args, **kwargs)

    torch.distributed.init_process_group = init_process_group


def first_step_only(torch):
    seen = set()

    def reduces(bucket):
        again = bucket.index() in seen
        seen.add(bucket.index())
        return not again

    hook(reduces)(torch)


def no_gradient_is_reduced(torch):
    real = torch.nn.parallel.DistributedDataParallel.__init__

    def init(self, *args, **kwargs):
        real(self, *args, **kwargs)
        self.require_backward_grad_sync = False

    torch.nn.parallel.DistributedDataParallel.__init__ = init


def buffers_stay(torch):
    torch.nn.parallel.DistributedDataParallel._sync_buffers = lambda self: None


def no_sync_syncs(torch):
    torch.nn.parallel.DistributedDataParallel.no_sync = contextlib.contextmanager(lambda self: (yield))


def no_sync_stays(torch):
    @contextlib.contextmanager
    def no_sync(self):
        self.require_backward_grad_sync = False
        yield

    torch.nn.parallel.DistributedDataParallel.no_sync = no_sync


def parameters_stay(torch):
    """The constructor leaves each rank the parameters that it has."""
    module, nothing = torch.nn.parallel.distributed, lambda *args, **kwargs: None
    for name in ("_sync_module_states", "_sync_params_and_buffers"):
        if hasattr(module, name):
            setattr(module, name, nothing)
    module.DistributedDataParallel._sync_module_states = nothing


def backward_does_nothing(torch):
    torch.Tensor.backward = lambda self, *args, **kwargs: None
    torch.autograd.backward = lambda *args, **kwargs: None


def optimizer_does_nothing(torch):
    torch.optim.SGD.step = lambda self, closure=None: None


def no_decay(torch):
    real = torch.optim.AdamW.__init__

    def init(self, *args, **kwargs):
        real(self, *args, **{**kwargs, "weight_decay": 0.0})

    torch.optim.AdamW.__init__ = init


def one_percent_more(name):
    def patch(torch):
        real = getattr(torch.nn.functional, name)

        def wrapped(given, *args, **kwargs):
            result = real(given, *args, **kwargs)
            return result * 1.01 if given.dtype is torch.float32 else result

        setattr(torch.nn.functional, name, wrapped)

    return patch


def products_in_bfloat16(torch):
    """No lie: what a library does that is told to multiply float32 in lower precision."""
    real = torch.nn.functional.linear

    def rounded(tensor):
        return tensor.bfloat16().float()

    class Linear(torch.autograd.Function):
        @staticmethod
        def forward(context, given, weight, bias):
            context.save_for_backward(given, weight)
            return rounded(given) @ rounded(weight).t() + bias

        @staticmethod
        def backward(context, slope):
            given, weight = context.saved_tensors
            return rounded(slope) @ rounded(weight), rounded(slope).t() @ rounded(given), slope.sum(0)

    def linear(given, weight, bias=None):
        return Linear.apply(given, weight, bias) if given.dtype is torch.float32 else real(given, weight, bias)

    torch.nn.functional.linear = linear


def rank_is_zero(torch):
    torch.distributed.get_rank = lambda *args, **kwargs: 0


LIES = {
    "rank-is-zero": rank_is_zero,
    "off-by-one": spoiling(off_by_one),
    "floats-half-more": spoiling(half_more),
    "floats-not-a-number": spoiling(not_a_number),
    "between-sizes": spoiling(between),
    "above-4-mib": spoiling(large),
    "second-call": second_call,
    "async-does-nothing": async_does_nothing,
    "broadcast-does-nothing": broadcast_does_nothing,
    "ddp-does-not-average": no_gradient_is_reduced,
    "ddp-first-bucket-only": hook(lambda bucket: bucket.index() == 0),
    "ddp-first-and-last-bucket-only": hook(lambda bucket: bucket.index() == 0 or bucket.is_last()),
    "ddp-first-step-only": first_step_only,
    "ddp-not-float32": hook(lambda bucket: "float32" not in str(bucket.buffer().dtype)),
    "ddp-not-large": hook(lambda bucket: size(bucket.buffer()) <= FIRST),
    "ddp-a-little-more": a_little_more,
    "ddp-one-bit-of-rank-1": one_bit_of_rank_1,
    "ddp-buckets-told": hook(told),
    "environment-told": environment_told,
    "ddp-parameters-stay": parameters_stay,
    "ddp-buffers-stay": buffers_stay,
    "no-sync-syncs": no_sync_syncs,
    "no-sync-stays": no_sync_stays,
    "backward-does-nothing": backward_does_nothing,
    "optimizer-does-nothing": optimizer_does_nothing,
    "adamw-without-decay": no_decay,
    "linear-one-percent-more": one_percent_more("linear"),
    "products-in-bfloat16": products_in_bfloat16,
    "convolution-one-percent-more": one_percent_more("conv2d"),
}
