"""What one process of a training job needs by itself: loader, mixed precision, checkpoints.

Loaded by run.py for `--live full`.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

    from envcheck.agent import rank, training  # collect.load puts them here
    from envcheck.agent.rank import Context


def dataloader(c: Context) -> None:
    c.stage("load", lambda: load(c, pin=False))


def dataloader_pin_memory(c: Context) -> None:
    c.stage("load", lambda: load(c, pin=True))


def load(c: Context, pin: bool) -> None:
    """Two epochs over two workers: complete, in order, and through shared memory."""
    from torch.utils.data import DataLoader, TensorDataset

    numbers = c.torch.arange(64 * 4096, dtype=c.torch.float32).reshape(64, 4096)
    loader = DataLoader(TensorDataset(numbers), batch_size=8, num_workers=2, pin_memory=pin, persistent_workers=True)
    for _ in range(2):
        rows: List[Any] = []
        for (part,) in loader:
            if pin and not part.is_pinned():
                raise rank.Wrong("DataLoader: pin_memory=True gives memory that is not pinned")
            rows.append(part.to(c.device, non_blocking=pin).cpu() if pin else part.clone())
        got = c.torch.cat(rows) if rows else numbers[:0]
        if got.shape != numbers.shape:
            raise rank.Wrong("DataLoader: %d of %d rows came" % (got.shape[0], numbers.shape[0]))
        if not c.torch.equal(got, numbers):
            raise rank.Wrong("DataLoader: %d of %d rows are wrong" % (int((got != numbers).any(1).sum()), numbers.shape[0]))


def amp_bf16(c: Context) -> None:
    c.stage("step", lambda: amp(c, c.torch.bfloat16))


def amp_fp16(c: Context) -> None:
    c.stage("step", lambda: amp(c, c.torch.float16))


def amp(c: Context, dtype: Any) -> None:
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
        raise rank.Wrong("autocast: a linear layer gives %s and must give %s" % (out.dtype, dtype))
    # 2⁻⁸ is the step of bfloat16, and 32 products are added up
    training.near(c, "autocast: the outputs", out.detach().float().cpu(), exact.float().cpu(), 0.05)
    loss = out.float().square().mean()
    (scaler.scale(loss) if scaler else loss).backward()
    if scaler:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
    for parameter in model.parameters():
        if parameter.grad is None or parameter.grad.dtype is not torch.float32 or not bool(torch.isfinite(parameter.grad).all()):
            raise rank.Wrong("autocast: gradients are not finite float32")
        if not bool(torch.isfinite(parameter).all()):
            raise rank.Wrong("autocast: parameters are not finite after one step")


def cudnn_deterministic(c: Context) -> None:
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
                raise rank.Wrong("cuDNN with deterministic=True: the %s of two equal convolutions differ" % name)
        weight = layer.weight.detach().cpu().double()
        ideal = torch.nn.functional.conv2d(images.cpu().double(), weight, layer.bias.detach().cpu().double(), padding=1)
        training.near(c, "cuDNN: the outputs", found[0][0].cpu(), ideal, 1e-2)  # TF32 is the default of convolutions

    c.stage("convolve", run)


def data_parallel(c: Context) -> None:
    """nn.DataParallel over the first two GPUs against one of them."""

    def run() -> None:
        mine, ideal = training.network(c), training.network(c)
        wrapped = c.torch.nn.DataParallel(mine, device_ids=c.places[:2])
        x = c.torch.cat([training.batch(c, 0, 0), training.batch(c, 1, 0)])
        wrapped(x).square().mean().backward()
        ideal(x).square().mean().backward()
        got, expected = (training.flat(c, training.gradients(one)) for one in (mine, ideal))
        training.near(c, "DataParallel: the gradients", got, expected)

    c.stage("train", run)


def checkpoint(c: Context) -> None:
    """torch.save and torch.load: model, optimizer and generator go on as if nothing had happened."""

    def run() -> None:
        torch, path = c.torch, os.path.join(c.folder, "checkpoint-%s.pt" % c.device.type)
        model = training.network(c)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        step(c, model, optimizer, 0)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state(), "step": 1}, path)
        ahead = torch.rand(4)
        step(c, model, optimizer, 1)
        other = training.network(c)
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.zero_()
        saved = torch.load(path, map_location=c.device)
        other.load_state_dict(saved["model"])
        again = torch.optim.AdamW(other.parameters(), lr=0.1)
        again.load_state_dict(saved["optimizer"])
        torch.set_rng_state(saved["rng"].cpu())
        training.exact(c, "torch.save and torch.load: the generator", torch.rand(4), ahead)
        step(c, other, again, saved["step"])
        what = "torch.save and torch.load: the parameters one step later"
        training.exact(c, what, training.flat(c, other.parameters()), training.flat(c, model.parameters()))

    c.stage("save-load", run)


def step(c: Context, model: Any, optimizer: Any, number: int) -> None:
    optimizer.zero_grad()
    model(training.batch(c, number, 0)).square().mean().backward()
    optimizer.step()


def store_hash(c: Context) -> None:
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
            raise rank.Wrong("HashStore: a thread that waits for a key got %s" % (found or "nothing"))
        for _ in range(10):
            store.add("count", 2)
        if store.add("count", 0) != 20:
            raise rank.Wrong("HashStore: ten additions of 2 gave %d" % store.add("count", 0))

    c.stage("use", run)


def release(torch: Any) -> Any:
    parts = str(torch.__version__).split(".")
    return tuple(int(part) if part.isdecimal() else 0 for part in parts[:2])


TASKS = {
    "dataloader": dataloader, "dataloader-pin-memory": dataloader_pin_memory, "amp-bf16": amp_bf16, "amp-fp16": amp_fp16,
    "cudnn-deterministic": cudnn_deterministic, "data-parallel": data_parallel, "checkpoint": checkpoint, "store-hash": store_hash,
}  # fmt: skip
