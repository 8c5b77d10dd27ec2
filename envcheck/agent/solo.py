"""What one process of a training job needs by itself: loader, mixed precision, compilers, checkpoints.

Loaded by run.py for `--live full`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

    from envcheck.agent import rank, training  # collect.load puts them here
    from envcheck.agent.rank import Context

COMPILER_SECONDS = 60.0  # the agent's deadline for the stage comes first; this one only keeps a wait from having none


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


def torch_compile(c: Context) -> None:
    """A small function compiled for real: inductor's C++ on CPUs, Triton on GPUs."""
    torch = c.torch
    if not hasattr(torch, "compile"):
        raise rank.Skip("torch.compile came with torch 2.0, this is %s" % torch.__version__)
    need_compiler("torch.compile")
    if c.device.type == "cuda":
        try:
            import triton  # type: ignore[import-not-found] # noqa: F401
        except ImportError as error:
            raise rank.Skip("no Triton: %s" % error) from None

    def run() -> None:
        configure(torch)

        def function(x: Any, y: Any) -> Any:
            return (x * 2 + y).relu() - 1

        # Whole numbers: exact in float32 in whatever order they are computed.
        x = torch.arange(-512, 512, dtype=torch.float32, device=c.device)
        y = x.flip(0).contiguous()
        try:
            got = torch.compile(function)(x, y)
        except RuntimeError as error:
            if "not supported on" in str(error):  # "torch.compile is not supported on Python 3.14+", on Windows
                raise rank.Skip(str(error).splitlines()[0]) from None
            raise
        if not torch.equal(got, function(x, y)):
            raise rank.Wrong("torch.compile: %d of 1024 numbers are wrong" % int((got != function(x, y)).sum()))

    c.stage("compile", run)


def configure(torch: Any) -> None:
    """Less to compile, the same tools: no vector units (one probe less), no precompiled header (half of the time), no worker pool.

    Measured with g++ 12 on one core: 19 s of CPU as it comes, 9 s so. Names that a torch does not know are left alone.
    """
    os.environ.update(TORCHINDUCTOR_COMPILE_THREADS="1", TORCHINDUCTOR_FORCE_DISABLE_CACHES="1")
    import torch._inductor.config as config

    for owner, name, value in ((config, "compile_threads", 1), (config, "cpp_cache_precompile_headers", False),
                               (config, "force_disable_caches", True), (config.cpp, "vec_isa_ok", False)):  # fmt: skip
        if hasattr(owner, name):
            setattr(owner, name, value)


def need_compiler(what: str) -> str:
    """The C++ compiler that torch will take. Who has none does not compile, and is not broken."""
    wanted = os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")
    found = shutil.which(wanted.split()[0]) if wanted.strip() else None
    if sys.platform == "win32":
        raise rank.Skip("compilers are not looked for on Windows")
    if not found:
        raise rank.Skip("no C++ compiler: %s needs %s" % (what, wanted))
    if not os.path.exists(os.path.join(python_headers(), "Python.h")):
        raise rank.Skip("no Python.h in %s: %s needs the headers of this Python" % (python_headers(), what))
    return found


def python_headers() -> str:
    import sysconfig

    return sysconfig.get_paths()["include"]


EXTENSION = r"""
#include <Python.h>
#include <c10/util/Exception.h>
// An error raised inside libc10 with a std::string from here: headers, C++ ABI, linking and unwinding must all fit.
static PyObject* answer(PyObject*, PyObject*) {
  try {
    c10::detail::torchCheckFail("answer", "envcheck", 42, std::string("all fits"));
  } catch (const c10::Error& error) {
    return PyUnicode_FromString(error.what_without_backtrace());
  }
  return PyUnicode_FromString("no error came");
}
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "envcheck_extension", nullptr, -1, methods};
PyMODINIT_FUNC PyInit_envcheck_extension() { return PyModule_Create(&definition); }
"""


def cpp_extension(c: Context) -> None:
    """A tiny extension against torch's headers: compiled, linked, loaded, called. torch/extension.h alone would take 12 s of CPU."""
    compiler = need_compiler("a C++ extension")
    root = os.path.dirname(os.path.abspath(c.torch.__file__))
    if not os.path.exists(os.path.join(root, "include", "c10", "util", "Exception.h")):
        raise rank.Skip("this torch comes without its headers")
    source, target = os.path.join(c.folder, "extension.cpp"), os.path.join(c.folder, "envcheck_extension.so")

    def build() -> None:
        with open(source, "w", encoding="ascii") as file:
            file.write(EXTENSION)
        abi = getattr(c.torch._C, "_GLIBCXX_USE_CXX11_ABI", True)
        command = [compiler, "-O0", "-fPIC", "-shared", "-std=" + standard(root), "-D_GLIBCXX_USE_CXX11_ABI=%d" % abi]
        command += ["-I" + os.path.join(root, "include"), "-I" + python_headers(), source, "-o", target]
        command += ["-L" + os.path.join(root, "lib"), "-lc10"]
        if sys.platform == "darwin":
            command += ["-undefined", "dynamic_lookup"]
        began = time.monotonic()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            _, complaint = process.communicate(timeout=COMPILER_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)
            raise RuntimeError("%s did not end within %.0f s" % (compiler, time.monotonic() - began)) from None
        if process.returncode:
            text = complaint.decode("utf-8", "replace")
            lines = [line for line in text.splitlines() if "error" in line] or text.splitlines()[-3:]
            raise RuntimeError("%s ends with exit code %d: %s" % (os.path.basename(compiler), process.returncode, " | ".join(lines[:3])))

    def call() -> None:
        from importlib.machinery import ExtensionFileLoader
        from importlib.util import module_from_spec, spec_from_loader

        loader = ExtensionFileLoader("envcheck_extension", target)
        spec = spec_from_loader("envcheck_extension", loader)
        assert spec is not None  # noqa: S101 - a loader of ours always gives one
        module = module_from_spec(spec)
        loader.exec_module(module)
        said = module.answer()
        if "all fits" not in said:
            raise rank.Wrong("a C++ extension built against torch answers %r" % said[:200])

    c.stage("build", build)
    c.stage("call", call)


def standard(root: str) -> str:
    """The C++ standard that this torch builds extensions with, from its own cpp_extension.py ("-std=c++20")."""
    import re

    try:
        with open(os.path.join(root, "utils", "cpp_extension.py"), encoding="utf-8", errors="replace") as file:
            found = re.search(r"-std=(c\+\+\d\w)", file.read())
    except OSError:
        found = None
    return found.group(1) if found else "c++17"


def release(torch: Any) -> Any:
    parts = str(torch.__version__).split(".")
    return tuple(int(part) if part.isdecimal() else 0 for part in parts[:2])


TASKS = {
    "dataloader": dataloader, "dataloader-pin-memory": dataloader_pin_memory, "amp-bf16": amp_bf16, "amp-fp16": amp_fp16,
    "cudnn-deterministic": cudnn_deterministic, "data-parallel": data_parallel, "checkpoint": checkpoint, "store-hash": store_hash,
    "compile": torch_compile, "cpp-extension": cpp_extension,
}  # fmt: skip
