"""What one process of a training job needs by itself: loader, right numbers, mixed precision, checkpoints.

For `--live full`.
"""

from __future__ import annotations

import operator
import os

from . import numerics, rank, training_tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

    from .rank import TaskContext


def dataloader(c: TaskContext) -> None:
    c.stage("load", lambda: load(c, pin=False))


def dataloader_pin_memory(c: TaskContext) -> None:
    c.stage("load", lambda: load(c, pin=True))


def load(c: TaskContext, pin: bool) -> None:
    """Two epochs over two workers: complete, in order, and through shared memory."""
    from torch.utils.data import DataLoader, TensorDataset

    numbers = c.torch.arange(64 * 4096, dtype=c.torch.float32).reshape(64, 4096)
    loader = DataLoader(TensorDataset(numbers), batch_size=8, num_workers=2, pin_memory=pin, persistent_workers=True)
    for _ in range(2):
        rows: List[Any] = []
        for (part,) in loader:
            if pin and not part.is_pinned():
                raise numerics.Wrong("DataLoader: pin_memory=True gives memory that is not pinned")
            rows.append(part.to(c.device, non_blocking=pin).cpu() if pin else part.clone())
        got = c.torch.cat(rows) if rows else numbers[:0]
        if got.shape != numbers.shape:
            raise numerics.Wrong("DataLoader: %d of %d rows came" % (got.shape[0], numbers.shape[0]))
        if not c.torch.equal(got, numbers):
            raise numerics.Wrong("DataLoader: %d of %d rows are wrong" % (int((got != numbers).any(1).sum()), numbers.shape[0]))


def arithmetic(c: TaskContext) -> None:
    """What training is made of, against numbers that Python's own integers and floats give."""
    for name in ("float32", "float64"):
        dtype = numerics.dtype_on(c.torch, c.device, name)
        c.stage("step " + name, numerics.step, c.torch, c.device, dtype)
        c.stage("multiply " + name, multiply, c, dtype)
    c.stage("convolve", lambda: convolve(c))
    c.stage("optimize", lambda: optimize(c))


def integers(height: int, width: int, period: int) -> List[List[int]]:
    """No factor needs more bits than bfloat16 has."""
    return [[(height * row + 3 * column) % period - period // 2 for column in range(width)] for row in range(height)]


def multiply(c: TaskContext, dtype: Any) -> None:
    left, right = integers(67, 129, 7), integers(130, 129, 11)
    product = [[sum(map(operator.mul, row, column)) for column in right] for row in left]
    one, other, expected = (c.torch.tensor(rows, dtype=dtype, device=c.device) for rows in (left, right, product))
    numerics.same(c.torch, "matrix product (%s)" % str(dtype).replace("torch.", ""), one @ other.t(), expected)


def convolve(c: TaskContext) -> None:
    """Within a thousandth: a library may choose an algorithm that rounds (Winograd)."""
    image, filters = integers(9, 9, 7), [integers(3, 3, period) for period in (5, 7)]
    expected = [
        [[sum(image[y + j][x + i] * one[j][i] for j in range(3) for i in range(3)) for x in range(7)] for y in range(7)] for one in filters
    ]
    given, weight = (c.torch.tensor(one, dtype=c.torch.float32, device=c.device) for one in ([[image]], [[one] for one in filters]))
    found = c.torch.nn.functional.conv2d(given, weight)
    numerics.near(c.torch, "convolution (float32)", found, c.torch.tensor([expected], dtype=c.torch.float64), 1e-3)


def optimize(c: TaskContext) -> None:
    """Three steps on three numbers, by the formulas of the papers."""
    torch, rate, start = c.torch, 0.125, (1.0, -2.0, 0.5)

    def momentum(p: float, slope: float) -> float:
        velocity = 0.0
        for number in (1, 2, 3):
            velocity = 0.5 * velocity + number * slope
            p -= rate * velocity
        return p

    def adam(p: float, slope: float, decay: float = 0.0) -> float:
        mean = square = 0.0
        for number in (1, 2, 3):
            p *= 1 - rate * decay
            mean, square = 0.9 * mean + 0.1 * number * slope, 0.999 * square + 0.001 * (number * slope) ** 2
            p -= rate * mean / (1 - 0.9**number) / ((square / (1 - 0.999**number)) ** 0.5 + 1e-8)
        return p

    cases: List[Any] = [
        ("SGD with momentum", lambda p: torch.optim.SGD(p, lr=rate, momentum=0.5), momentum),
        ("Adam", lambda p: torch.optim.Adam(p, lr=rate), adam),
        ("AdamW", lambda p: torch.optim.AdamW(p, lr=rate, weight_decay=0.25), lambda p, slope: adam(p, slope, 0.25)),
    ]
    for name, make, formula in cases:
        parameter = torch.nn.Parameter(torch.tensor(start, dtype=torch.float32, device=c.device))
        optimizer = make([parameter])
        slopes = (0.5, -1.0, 3.0)
        for number in (1.0, 2.0, 3.0):
            parameter.grad = torch.tensor([number * one for one in slopes], dtype=torch.float32, device=c.device)
            optimizer.step()
        expected = torch.tensor([formula(p, slope) for p, slope in zip(start, slopes)], dtype=torch.float64)  # noqa: B905
        numerics.near(torch, "%s: the parameters after three steps" % name, parameter, expected, 1e-5)


def amp_bf16(c: TaskContext) -> None:
    c.stage("step", lambda: amp(c, c.torch.bfloat16))


def amp_fp16(c: TaskContext) -> None:
    c.stage("step", lambda: amp(c, c.torch.float16))


def amp(c: TaskContext, dtype: Any) -> None:
    """One step under autocast: the product in low precision, near the full one; gradients in float32 and finite."""
    torch, kind = c.torch, c.device.type
    if dtype is torch.bfloat16 and kind == "cuda" and not torch.cuda.is_bf16_supported():
        raise rank.Skip("this GPU has no bfloat16")
    if dtype is torch.float16 and kind == "cpu" and release(torch) < (2, 4):
        raise rank.Skip("autocast to float16 on CPUs came with torch 2.4, this is %s" % torch.__version__)
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8)).to(c.device)
    x = torch.randn(16, 32).to(c.device)
    exact = model(x).detach()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = None
    if kind == "cuda" and dtype is torch.float16:
        scaler = torch.amp.GradScaler("cuda") if hasattr(torch.amp, "GradScaler") else torch.cuda.amp.GradScaler()
    with torch.autocast(kind, dtype=dtype):
        out = model(x)
    if out.dtype is not dtype:
        raise numerics.Wrong("autocast: a linear layer gives %s and must give %s" % (out.dtype, dtype))
    # 2⁻⁸ is the step of bfloat16, and 32 products are added up
    training_tasks.near(c, "autocast: the outputs", out.detach().float().cpu(), exact.float().cpu(), 0.05)
    loss = out.float().square().mean()
    (scaler.scale(loss) if scaler else loss).backward()
    if scaler:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
    for parameter in model.parameters():
        if parameter.grad is None or parameter.grad.dtype is not torch.float32 or not bool(torch.isfinite(parameter.grad).all()):
            raise numerics.Wrong("autocast: gradients are not finite float32")
        if not bool(torch.isfinite(parameter).all()):
            raise numerics.Wrong("autocast: parameters are not finite after one step")


def cudnn_deterministic(c: TaskContext) -> None:
    """The same convolution twice, forward and backward, to the bit."""

    def run() -> None:
        torch = c.torch
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
        torch.manual_seed(2)
        layer = torch.nn.Conv2d(8, 16, 3, padding=1).to(c.device)
        images = torch.randn(8, 8, 32, 32).to(c.device)
        found: List[Any] = []
        for _ in range(2):
            layer.zero_grad()
            out = layer(images)
            out.square().sum().backward()
            found.append((out.detach().clone(), layer.weight.grad.clone()))
        for name, first, second in zip(("outputs", "gradients"), *found):  # noqa: B905 - Python 3.8
            if not torch.equal(first, second):
                raise numerics.Wrong("cuDNN with deterministic=True: the %s of two equal convolutions differ" % name)
        weight = layer.weight.detach().cpu().double()
        ideal = torch.nn.functional.conv2d(images.cpu().double(), weight, layer.bias.detach().cpu().double(), padding=1)
        training_tasks.near(c, "cuDNN: the outputs", found[0][0].cpu(), ideal, 1e-2)  # TF32 is the default of convolutions

    c.stage("convolve", run)


def data_parallel(c: TaskContext) -> None:
    """nn.DataParallel over the first two GPUs against one of them."""

    def run() -> None:
        mine, ideal = training_tasks.network(c), training_tasks.network(c)
        wrapped = c.torch.nn.DataParallel(mine, device_ids=c.places[:2])
        x = c.torch.cat([training_tasks.batch(c, 0, 0), training_tasks.batch(c, 1, 0)])
        wrapped(x).square().mean().backward()
        ideal(x).square().mean().backward()
        got, expected = (training_tasks.flat(c, training_tasks.gradients(one)) for one in (mine, ideal))
        training_tasks.near(c, "DataParallel: the gradients", got, expected)

    c.stage("train", run)


def checkpoint(c: TaskContext) -> None:
    """torch.save and torch.load: model, optimizer and generator go on as if nothing had happened."""

    def run() -> None:
        torch, path = c.torch, os.path.join(c.folder, "checkpoint-%s.pt" % c.device.type)
        model = training_tasks.network(c)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        step(c, model, optimizer, 0)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state(), "step": 1}, path)
        ahead = torch.rand(4)
        step(c, model, optimizer, 1)
        other = training_tasks.network(c)
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.zero_()
        saved = torch.load(path, map_location=c.device)
        other.load_state_dict(saved["model"])
        again = torch.optim.AdamW(other.parameters(), lr=0.1)
        again.load_state_dict(saved["optimizer"])
        torch.set_rng_state(saved["rng"].cpu())
        training_tasks.exact(c, "torch.save and torch.load: the generator", torch.rand(4), ahead)
        step(c, other, again, saved["step"])
        what = "torch.save and torch.load: the parameters one step later"
        training_tasks.exact(c, what, training_tasks.flat(c, other.parameters()), training_tasks.flat(c, model.parameters()))

    c.stage("save-load", run)


def step(c: TaskContext, model: Any, optimizer: Any, number: int) -> None:
    optimizer.zero_grad()
    model(training_tasks.batch(c, number, 0)).square().mean().backward()
    optimizer.step()


def store_hash(c: TaskContext) -> None:
    """HashStore lives in one process: its users are threads."""

    def run() -> None:
        import threading

        store = c.dist.HashStore()
        found: List[bytes] = []
        reader = threading.Thread(target=lambda: found.append(store.get("key")), daemon=True)  # waits for the key
        reader.start()
        store.set("key", "value")
        reader.join(5)
        if found != [b"value"]:
            raise numerics.Wrong("HashStore: a thread that waits for a key got %s" % (found or "nothing"))
        for _ in range(10):
            store.add("count", 2)
        if store.add("count", 0) != 20:
            raise numerics.Wrong("HashStore: ten additions of 2 gave %d" % store.add("count", 0))

    c.stage("use", run)


def release(torch: Any) -> Any:
    parts = str(torch.__version__).split(".")
    return tuple(int(part) if part.isdecimal() else 0 for part in parts[:2])


TASKS = {
    "dataloader": dataloader, "dataloader-pin-memory": dataloader_pin_memory, "arithmetic": arithmetic, "amp-bf16": amp_bf16,
    "amp-fp16": amp_fp16, "cudnn-deterministic": cudnn_deterministic, "data-parallel": data_parallel, "checkpoint": checkpoint,
    "store-hash": store_hash,
}  # fmt: skip
