"""What an imported torch states of itself: its version, what it was built with, its backends.

All of this is asked before the first fork, so nothing here may touch CUDA: no driver outlives a fork, and torch refuses every forked
child of a process that it has seen using CUDA. What only looks like a constant does touch it: `torch._C._cuda_getArchFlags()` makes
torch refuse, `torch.__config__.show()` counts the devices, which is cuInit; both in every CUDA build. So everything that may be asked
stands in BEFORE_FORK and is asked through `ask`. Tried on the CUDA builds of 1.13.0 to 2.15.0 (the oldest and newest patch of each
minor release): after each question `torch.cuda._is_in_bad_fork()` was False in a forked child. On some of them each question was
asked with a driver library that writes down its calls, and there was none (tests/test_stub_driver.py).
"""

from __future__ import annotations

import os

from . import jsonl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple


LIBRARIES = ("libcuda.so", "libcudart", "libcudnn", "libnccl", "libcublas", "libcusparse", "libcusolver", "libcufft", "libnvJitLink",
             "libnvrtc", "libnvshmem", "libtorch", "libc10", "libgomp", "libiomp", "libmkl", "libopenblas", "librccl", "libamdhip64",
             "libhsa-runtime", "libze_loader", "libsycl", "libucc", "libmpi", "libnvidia-ml", "libstdc++", "libgloo")  # fmt: skip

# Of builds for a GPU these ask the device, so the devices' child asks them.
OF_PLAIN_BUILDS = ("__config__.show", "backends.cusparselt.is_available")
BEFORE_FORK = (
    *OF_PLAIN_BUILDS,
    "_C._nccl_version",
    "_C._cudnn.getCompileVersion",
    "_C._cudnn.getRuntimeVersion",
    "backends.cuda.is_built",
    "backends.mps.is_built",
    "backends.mkl.is_available",
    "backends.mkldnn.is_available",
    "backends.openmp.is_available",
    "cuda.is_initialized",
    "distributed.is_available",
    "distributed.is_nccl_available",
    "distributed.is_gloo_available",
    "distributed.is_mpi_available",
    "distributed.is_ucc_available",
    "distributed.is_xccl_available",
)


def ask(torch: Any, question: str) -> Any:
    """The answer to one of BEFORE_FORK, None if this torch does not know the question or its answer has to wait."""
    if question not in BEFORE_FORK:
        raise LookupError("%s was not tried before a fork" % question)
    if question in OF_PLAIN_BUILDS and not plain(torch):
        return None
    return jsonl.call(torch, question)


def group_of(torch: Any) -> Any:
    """torch.distributed, None in a build without it."""
    return torch.distributed if says(torch, "distributed.is_available") else None


def has(dist: Any, backend: str) -> bool:
    """Whether that build has the backend. torch before 1.12 does not know each of the questions."""
    question = "is_%s_available" % backend
    return hasattr(dist, question) and says(dist, question)


def says(root: Any, question: str) -> bool:
    """What torch answers. One that raises there, or has lost the question, is broken: that is no "no"."""
    try:
        return bool(jsonl.dotted(root, question)())
    except BaseException as error:
        raise RuntimeError("%s() raised %s: %s" % (question, type(error).__name__, jsonl.said(error))) from error


def plain(torch: Any) -> bool:
    """A build for no GPU of NVIDIA or AMD."""
    return jsonl.attempt(lambda: torch.version.cuda) is None and jsonl.attempt(lambda: torch.version.hip) is None


def torch_facts(torch: Any) -> Dict[str, Any]:
    cuda, hip = jsonl.text(lambda: torch.version.cuda), jsonl.text(lambda: torch.version.hip)
    return {
        "version": jsonl.text(lambda: torch.__version__),
        "cuda": cuda,
        "hip": hip,
        "xpu": jsonl.text(lambda: torch.version.xpu),
        "path": jsonl.text(lambda: os.path.dirname(torch.__file__)),
        "git_version": jsonl.text(lambda: torch.version.git_version),
        "debug": jsonl.flag(jsonl.attempt(lambda: torch.version.debug)),
        "arch_list": [] if plain(torch) else None,
        "cxx11_abi": jsonl.flag(jsonl.attempt(lambda: torch._C._GLIBCXX_USE_CXX11_ABI)),
        "config": jsonl.text(lambda: ask(torch, "__config__.show")),
        "nccl_loaded": dotted(nccl_version(ask(torch, "_C._nccl_version"))),
        "cudnn": cudnn_version(ask(torch, "_C._cudnn.getCompileVersion")) if cuda else None,
        "cudnn_loaded": cudnn_version(ask(torch, "_C._cudnn.getRuntimeVersion")) if cuda else None,
        "libraries": loaded_libraries(),
    }


def nccl_version(value: object) -> Optional[Tuple[int, int, int]]:
    """`torch._C._nccl_version()` as (major, minor, patch); None where it is nothing of the kind.

    torch packs the three into major << 32 | minor << 16 | patch (torch/csrc/cuda/python_nccl.cpp; 8591900679 is 2.30.7). Before
    it handed on NCCL's own code (nccl.h): 2708 is 2.7.8, and from 2.9 on 21502 is 2.15.2.
    """
    if isinstance(value, (tuple, list)) and len(value) >= 2 and all(isinstance(part, int) for part in value):
        major, minor, patch = (*value, 0)[:3]
        return major, minor, patch
    if not isinstance(value, int) or value <= 0:
        return None
    if value >= 1 << 32:
        return value >> 32, value >> 16 & 0xFFFF, value & 0xFFFF
    factor = 1000 if value < 10000 else 10000
    return value // factor, value % factor // 100, value % 100


def dotted(version: Optional[Tuple[int, int, int]]) -> Optional[str]:
    return "%d.%d.%d" % version if version else None


def cudnn_version(value: object) -> Optional[str]:
    """91900, 8902 or (9, 19, 0) → "9.19.0", "8.9.2"."""
    if isinstance(value, (tuple, list)):
        return ".".join(str(part) for part in value[:3])
    if isinstance(value, int) and value > 0:
        major = 10000 if value >= 90000 else 1000
        return "%d.%d.%d" % (value // major, value % major // 100, value % 100)
    return None


def loaded_libraries() -> List[str]:
    """Paths of the libraries that decide: from /proc/self/maps, e.g. "7f00… r-xp … /usr/lib/libcuda.so.580.95"."""
    paths = set()
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            for line in file:
                path = line[line.find("/") :].rstrip() if "/" in line else ""
                if ".so" in path and os.path.basename(path).startswith(LIBRARIES):
                    paths.add(path)
    except OSError:
        pass
    return sorted(paths)


def backend_facts(torch: Any) -> Dict[str, Optional[bool]]:
    def says(question: str) -> Optional[bool]:
        return jsonl.flag(ask(torch, question))

    distributed = says("distributed.is_available")

    def has(name: str) -> Optional[bool]:
        return says("distributed.is_%s_available" % name) if distributed else distributed

    return {
        "cuda": says("backends.cuda.is_built"),
        "cusparselt": says("backends.cusparselt.is_available"),
        "mps_built": says("backends.mps.is_built"),
        "mkl": says("backends.mkl.is_available"),
        "mkldnn": says("backends.mkldnn.is_available"),
        "openmp": says("backends.openmp.is_available"),
        "distributed": distributed,
        "nccl": has("nccl"),
        "gloo": has("gloo"),
        "mpi": has("mpi"),
        "ucc": has("ucc"),
        "xccl": has("xccl"),
    }
