"""The compilers that training may need: torch.compile, and a C++ extension against torch's headers.

For `--live full`.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time

from . import numerics, processes, rank, temporary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .rank import TaskContext

COMPILER_SECONDS = 60.0  # the agent's deadline for the stage comes first; this one only keeps a wait from having none


def torch_compile(c: TaskContext) -> None:
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
        except Exception as error:
            text = str(error)
            # "torch.compile is not supported on Python 3.14+", on Windows; torch 2.0: "Python 3.11+ not yet supported for torch.compile"
            if isinstance(error, RuntimeError) and ("not supported on" in text or "not yet supported" in text):
                raise rank.Skip(text.splitlines()[0]) from None
            absent = re.search(r"No module named '(?!torch\b)([\w.]{1,80})'", text)  # setuptools, up to torch 2.4: nothing requires it
            if absent:
                raise rank.Skip("torch.compile needs the module %s, which is not installed" % absent.group(1)) from None
            raise
        if not torch.equal(got, function(x, y)):
            raise numerics.Wrong("torch.compile: %d of 1024 numbers are wrong" % int((got != function(x, y)).sum()))

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


def need_programs(folder: str) -> None:
    if temporary.no_programs(folder):
        raise rank.Skip("nothing can be loaded from %s, where we would build it; torch builds in TORCH_EXTENSIONS_DIR" % folder)


def cpp_extension(c: TaskContext) -> None:
    """A tiny extension against torch's headers: compiled, linked, loaded, called. torch/extension.h alone would take 12 s of CPU."""
    compiler, root = need_compiler("a C++ extension"), os.path.dirname(os.path.abspath(c.torch.__file__))
    if not os.path.exists(os.path.join(root, "include", "c10", "util", "Exception.h")):
        raise rank.Skip("this torch comes without its headers")
    need_programs(c.folder)
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
        code, complaint = processes.complaint(command, COMPILER_SECONDS)
        if code is None:
            late = time.monotonic() - began >= COMPILER_SECONDS
            raise RuntimeError("%s %s" % (compiler, "did not end within %d s" % COMPILER_SECONDS if late else "complains without end"))
        if code:
            said = complaint.splitlines()
            lines = [line for line in said if "error" in line] or said[-3:]
            raise RuntimeError("%s ends with exit code %d: %s" % (os.path.basename(compiler), code, " | ".join(lines[:3])))

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
            raise numerics.Wrong("a C++ extension built against torch answers %r" % said[:200])

    c.stage("build", build)
    c.stage("call", call)


def standard(root: str) -> str:
    """The C++ standard that this torch builds extensions with, from its own cpp_extension.py ("-std=c++20")."""
    try:
        with open(os.path.join(root, "utils", "cpp_extension.py"), encoding="utf-8", errors="replace") as file:
            found = re.search(r"-std=(c\+\+\d\w)", file.read())
    except OSError:
        found = None
    return found.group(1) if found else "c++17"


TASKS = {"compile": torch_compile, "cpp-extension": cpp_extension}
