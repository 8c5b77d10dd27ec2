"""Real environments, broken for real: the verdict against what Python itself shows, and whether the first printed command mends it.

`python -m pytest -m environments` runs the table (an hour, one torch at a time); `-k always` the few that .ci/run tries. Each row is built
with real wheels, damaged, tried in Python (import, backward, NumPy, companions, a step of DDP by torchrun), examined, mended by the first
command exactly as it is printed, and tried and examined again.
"""

from __future__ import annotations

from dataclasses import dataclass

import damage as by
import pytest
from damage import Damage
from real_environments import BASES, Bases, bases, check, index_of, reachable, removed, run, truth

pytestmark = pytest.mark.environments
__all__ = ["bases"]

FIRST = "the first command"
NONE = "there is nothing to mend"
# What .ci/run tries, in less than two minutes: a file, a requirement, a pin, a shadow, a companion.
ALWAYS = (
    "functional.py-gone",
    "typing-extensions-and-networkx-gone",
    "typing-extensions-old",
    "typing_extensions-on-PYTHONPATH",
    "numpy-gone",
)


@dataclass(frozen=True)
class Case:
    """One environment."""

    name: str
    base: str
    damage: Damage
    broken: tuple[str, ...] = ()  # the steps that fail in Python
    rule: str | None = None  # of the first finding; without one there is none above info
    cure: str = NONE  # FIRST, NONE, "index: VARIANT" where only that index has it, or why no command mends it, in words of the report
    code: int = 0
    steps: tuple[str, ...] = ()  # beside import, backward, NumPy and DDP
    still: tuple[str, ...] = ()  # what may fail after the command, because it is not what the finding is about


CPU = [
    Case("healthy", "cpu", by.nothing, steps=("compile", "pins")),
    Case("torchvision-of-PyPI", "cpu", by.installed("torchvision==0.28.0"), ("torchvision",), "torch-companion-mismatch", "index: cpu", 1),
    Case("torchaudio-of-PyPI", "cpu", by.installed("torchaudio==2.11.0"), ("torchaudio",), "torch-companion-mismatch", "index: cpu", 1),
    Case("torchvision-older", "cpu", by.installed("torchvision==0.27.1"), ("torchvision",), "torch-companion-mismatch", "index: cpu", 1),
    Case("torchaudio-older", "cpu", by.installed("torchaudio==2.9.1"), ("torchaudio",), "torch-companion-mismatch", "index: cpu", 1),
    Case(
        "torchtext", "cpu", by.installed("torchtext==0.18.0"), ("torchtext",), "torch-companion-mismatch", "no newer torchtext is made", 1
    ),
    Case(
        "xformers-of-PyPI",
        "cpu",
        by.installed("xformers==0.0.35"),
        ("xformers",),
        "xformers-mismatch",
        "on a machine without a GPU do without it",
    ),
    Case("torchcodec-of-PyPI", "cpu", by.installed("torchcodec"), ("torchcodec",), "torch-companion-mismatch", "index: cpu", 1),
    Case("torchao-older", "cpu", by.installed("torchao==0.14.1"), steps=("torchao",)),  # its C++ is left out with a word, the rest works
    Case("numpy-gone", "cpu", by.uninstalled("numpy"), ("numpy",), "numpy-abi", FIRST),
    Case("numpy-1.23", "cpu", by.installed("numpy==1.23.5")),
    Case("numpy-of-Python-3.12", "cpu", by.for_another_python("numpy", "3.12"), ("import",), "package-foreign", FIRST, 1),
    Case("numpy-2-over-1", "cpu", by.all_of(by.installed("numpy==1.26.4"), by.over("numpy==2.4.6")), (), None),
    Case("numpy-1-over-2", "cpu", by.over("numpy==1.26.4"), ("numpy",), "numpy-abi", FIRST),
    Case("numpy-library-gone", "cpu", by.gone("numpy/_core/_multiarray_umath.*.so"), ("import",), "torch-files-damaged", FIRST, 1),
    Case("numpy-openblas-gone", "cpu", by.gone("numpy.libs/libscipy_openblas*"), ("import",), "torch-files-damaged", FIRST, 1),
    Case("numpy-openblas-cut", "cpu", by.cut("numpy.libs/libscipy_openblas*", 100_000), ("import",), "torch-files-damaged", FIRST, 1),
    Case("typing-extensions-gone", "cpu", by.uninstalled("typing-extensions"), ("import",), "torch-requirement-missing", FIRST, 1),
    Case(
        "typing-extensions-and-networkx-gone",
        "cpu",
        by.uninstalled("typing-extensions", "networkx"),
        ("import",),
        "torch-requirement-missing",
        FIRST,
        1,
    ),
    Case("typing-extensions-old", "cpu", by.installed("typing-extensions==4.5.0"), ("import",), "torch-pin-unmet", FIRST, 1),
    Case("sympy-gone", "cpu", by.uninstalled("sympy"), ("ddp",), "torch-requirement-missing", FIRST, 1),
    Case("mpmath-gone", "cpu", by.uninstalled("mpmath"), ("ddp",), "torch-requirement-missing", FIRST, 1),
    Case("sympy-old", "cpu", by.installed("sympy==1.12"), ("pins",), "torch-pin-unmet", FIRST, 0, ("pins",)),
    Case("mpmath-1.4", "cpu", by.installed("mpmath==1.4.0"), ("pins",), "torch-pin-unmet", FIRST, 0, ("pins",)),
    Case("networkx-gone", "cpu", by.uninstalled("networkx"), ("compile",), "torch-requirement-missing", FIRST, 0, ("compile",)),
    Case("filelock-gone", "cpu", by.uninstalled("filelock"), ("compile",), "torch-requirement-missing", FIRST, 0, ("compile",)),
    Case("jinja2-fsspec-gone", "cpu", by.uninstalled("jinja2", "fsspec"), steps=("compile",)),
    Case("markupsafe-gone", "cpu", by.uninstalled("markupsafe"), steps=("compile",)),
    Case(
        "no-dependencies",
        "cpu",
        by.without_dependencies("torch==2.13.0+cpu"),
        ("import",),
        "torch-requirement-missing",
        FIRST,
        1,
        still=("numpy",),
    ),
    Case("RECORD-gone", "cpu", by.gone("torch-*.dist-info/RECORD")),
    Case("METADATA-empty", "cpu", by.written("torch-*.dist-info/METADATA", b"")),
    Case("METADATA-random", "cpu", by.written("torch-*.dist-info/METADATA", bytes(range(256)) * 40)),
    Case("dist-info-gone", "cpu", by.gone("torch-*.dist-info")),
    Case("label-cu118", "cpu", by.metadata("torch-*.dist-info/METADATA", rb"^Version: 2.13.0.cpu$", b"Version: 2.13.0+cu118")),
    Case("leftover", "cpu", by.leftover),
    Case("stale-entry", "cpu", by.stale_entry("torch", "2.12.1"), (), "torch-duplicated", FIRST),
    Case("libtorch_cpu-cut", "cpu", by.cut("torch/lib/libtorch_cpu.so", 50 << 20), ("import",), "torch-files-damaged", FIRST, 1),
    Case("libtorch_cpu-end-cut", "cpu", by.cut("torch/lib/libtorch_cpu.so", -(4 << 20))),
    Case("libgomp-gone", "cpu", by.gone("torch/lib/libgomp*")),
    Case("libc10-gone", "cpu", by.gone("torch/lib/libc10.so"), ("import",), "torch-files-damaged", FIRST, 1),
    Case("libshm-gone", "cpu", by.gone("torch/lib/libshm.so"), ("import",), "torch-files-damaged", FIRST, 1),
    Case("libtorch_python-empty", "cpu", by.cut("torch/lib/libtorch_python.so"), ("import",), "torch-files-damaged", FIRST, 1),
    Case("functional.py-gone", "cpu", by.gone("torch/functional.py"), ("import",), "torch-files-damaged", FIRST, 1),
    Case("linear.py-empty", "cpu", by.cut("torch/nn/modules/linear.py"), ("import",), "torch-import-broken", FIRST, 1),
    Case("optim-gone", "cpu", by.gone("torch/optim/sgd.py"), ("import",), "torch-files-damaged", FIRST, 1),
    Case("distributed-run-gone", "cpu", by.gone("torch/distributed/elastic/multiprocessing"), ("ddp",), "torch-files-damaged", FIRST),
    Case("torchgen-gone", "cpu", by.gone("torchgen"), ("import",), "torch-files-damaged", FIRST, 1),
    Case("_C-gone", "cpu", by.gone("torch/_C.*.so"), ("import",), "torch-files-damaged", FIRST, 1),
    Case(
        "numpy-of-arm64", "cpu", by.for_another_python("numpy", "3.11", "aarch64-manylinux_2_28"), ("import",), "package-foreign", FIRST, 1
    ),
    Case("_C-of-arm64", "cpu", by.other_machine("torch/_C.*.so"), ("import",), "torch-import-broken", FIRST, 1),
    Case("libtorch_python-of-arm64", "cpu", by.other_machine("torch/lib/libtorch_python.so"), ("import",), "torch-import-broken", FIRST, 1),
    Case("__init__-gone", "cpu", by.gone("torch/__init__.py"), ("backward", "numpy", "ddp"), "torch-files-damaged", FIRST, 1),
    Case("__init__-empty", "cpu", by.cut("torch/__init__.py"), ("backward", "numpy", "ddp"), "torch-files-damaged", FIRST, 1),
    Case("version.py-gone", "cpu", by.gone("torch/version.py"), ("import",), "torch-files-damaged", FIRST, 1),
    Case("torch-folder-gone", "cpu", by.gone("torch"), ("import",), "torch-files-damaged", FIRST, 1),
    Case("torch-link-dangles", "cpu", by.dangling("torch"), ("import",), "torch-files-damaged", FIRST, 1),
    Case("pyc-cut", "cpu", by.pyc_cut, ("import",), "torch-import-broken", FIRST, 1),
    Case("copy-ended-at-m", "cpu", by.after("m"), ("import",), "torch-files-damaged", FIRST, 1),
    Case("install-interrupted", "cpu", by.interrupted, ("import",), "torch-import-broken", "index: cpu", 1),
    Case(
        "uninstall-half",
        "cpu",
        by.gone("torch-*.dist-info", "torch/__init__.py", "torch/_C.*.so"),
        ("backward", "numpy", "ddp"),
        "torch-missing",
        "index: cpu",
        1,
    ),
    Case("torch-uninstalled", "cpu", by.uninstalled("torch"), ("import",), "torch-missing", "index: cpu", 1),
    Case("sympy-half", "cpu", by.gone("sympy/core"), ("ddp",), "torch-dynamo-broken", FIRST, 1),
    Case("typing_extensions-empty", "cpu", by.cut("typing_extensions.py"), ("import",), "torch-files-damaged", FIRST, 1),
    Case("libstdc++-old", "cpu", by.old_library("libstdc++.so.6"), ("import",), "library-path-shadows", FIRST, 1),
    Case("libgomp-old", "cpu", by.old_library("libgomp.so.1"), ("import",), "library-path-shadows", FIRST, 1),
    Case("LD_PRELOAD-missing", "cpu", by.variable("LD_PRELOAD", "/nonexistent/libjemalloc.so"), (), None),
    Case("GLOO-interface-gone", "cpu", by.variable("GLOO_SOCKET_IFNAME", "eth9"), ("ddp",), "gloo-interface", FIRST, 1),
    Case("torch.py-beside", "cpu", by.beside("torch.py"), ("backward", "numpy", "ddp"), "torch-shadowed", "Rename the file"),
    Case("random.py-beside", "cpu", by.beside("random.py", "x = 1\n"), ("import",), "torch-shadowed", "Rename the file"),
    Case("numpy.py-beside", "cpu", by.beside("numpy.py", "x = 1\n"), ("import",), "torch-shadowed", "Rename the file"),
    Case("torch-folder-beside", "cpu", by.beside("torch/")),
    Case("typing_extensions-beside", "cpu", by.beside("typing_extensions.py"), ("import",), "torch-shadowed", "Rename the file"),
    Case("torch-on-PYTHONPATH", "cpu", by.on_pythonpath("torch.py"), ("backward", "numpy", "ddp"), "torch-shadowed", "Rename the file", 1),
    Case(
        "typing_extensions-on-PYTHONPATH",
        "cpu",
        by.on_pythonpath("typing_extensions.py"),
        ("import",),
        "torch-shadowed",
        "Rename the file",
        1,
    ),
    Case(
        "numpy-of-3.12-on-PYTHONPATH",
        "cpu",
        by.packages_on_pythonpath("numpy==1.26.4", python="3.12"),
        ("import",),
        "package-foreign",
        FIRST,
        1,
    ),
    Case("numpy-on-PYTHONPATH", "cpu", by.packages_on_pythonpath("numpy==1.26.4")),
    Case(
        "torch-on-PYTHONPATH-of-3.13",
        "cpu",
        by.packages_on_pythonpath("torch==2.9.1", python="3.13"),
        ("import",),
        "package-foreign",
        FIRST,
        1,
    ),
    Case("user-site-numpy-1", "cpu", by.user_site("numpy==1.26.4")),
    Case("moved", "cpu", by.moved),
    Case("python-became-3.12", "cpu", by.other_python("3.12"), ("import",), "torch-missing", "3.11", 1),
    Case("python-S", "cpu", by.wrapped("-S"), ("import",), "torch-missing", "-S", 1),
    Case("python-I", "cpu", by.wrapped("-I")),
    Case("python-OO", "cpu", by.wrapped("-OO")),
    Case("sitecustomize-prints", "cpu", by.written("sitecustomize.py", b"print('hello')\n")),
    Case("sitecustomize-raises", "cpu", by.written("sitecustomize.py", b"raise RuntimeError('no')\n")),
    Case("pth-broken", "cpu", by.written("broken.pth", b"import nothing_of_that_name\n")),
    Case("conda-entry", "cpu", by.conda_entry, (), "torch-duplicated", "conda"),
    Case("CUDA_VISIBLE_DEVICES", "cpu", by.variable("CUDA_VISIBLE_DEVICES", "0")),
]
PIP = [
    Case("pip-functional.py-gone", "cpu-pip", by.gone("torch/functional.py"), ("import",), "torch-files-damaged", FIRST, 1),
    Case("pip-numpy-library-gone", "cpu-pip", by.gone("numpy/_core/_multiarray_umath.*.so"), ("import",), "torch-files-damaged", FIRST, 1),
    Case("pip-typing-extensions-gone", "cpu-pip", by.uninstalled("typing-extensions"), ("import",), "torch-requirement-missing", FIRST, 1),
    Case("pip-typing-extensions-old", "cpu-pip", by.installed("typing-extensions==4.5.0"), ("import",), "torch-pin-unmet", FIRST, 1),
    Case("pip-numpy-gone", "cpu-pip", by.uninstalled("numpy"), ("numpy",), "numpy-abi", FIRST),
    Case("pip-torch-uninstalled", "cpu-pip", by.uninstalled("torch"), ("import",), "torch-missing", "index: cpu", 1),
    Case("pip-install-interrupted", "cpu-pip", by.interrupted, ("import",), "torch-import-broken", "index: cpu", 1),
]


def lost(package: str) -> Case:
    return Case(f"{package}-gone", "2.9", by.uninstalled(package), ("import",), "missing-library", FIRST, 1)


CUDA = [
    Case("2.9-healthy", "2.9", by.nothing, steps=("pins",)),
    *(
        lost(f"nvidia-{name}-cu12")
        for name in ("cudnn", "nccl", "cublas", "cusparselt", "nvshmem", "cufile", "cuda-runtime", "nvjitlink", "cuda-cupti")
    ),
    Case("nvidia-cuda-nvrtc-cu12-gone", "2.9", by.uninstalled("nvidia-cuda-nvrtc-cu12")),
    Case("all-of-nvidia-gone", "2.9", by.gone("nvidia*"), ("import",), "torch-requirement-missing", FIRST, 1),
    Case("nvjitlink-12.1", "2.9", by.installed("nvidia-nvjitlink-cu12==12.1.105"), ("import",), "torch-pin-unmet", FIRST, 1),
    Case("cuda-runtime-12.1", "2.9", by.installed("nvidia-cuda-runtime-cu12==12.1.105"), ("import",), "torch-pin-unmet", FIRST, 1),
    Case(
        "cublas-cusparse-12.1",
        "2.9",
        by.installed("nvidia-cublas-cu12==12.1.3.1", "nvidia-cusparse-cu12==12.1.0.106"),
        ("pins",),
        "torch-pin-unmet",
        FIRST,
        0,
        ("pins",),
    ),
    Case("nccl-2.21", "2.9", by.installed("nvidia-nccl-cu12==2.21.5"), ("import",), "torch-pin-unmet", FIRST, 1),
    Case("cudnn-9.1", "2.9", by.installed("nvidia-cudnn-cu12==9.1.0.70"), ("cudnn",), "torch-pin-unmet", FIRST, 1),
    Case("cudnn-8.9", "2.9", by.installed("nvidia-cudnn-cu12==8.9.2.26"), ("import",), "torch-pin-unmet", FIRST, 1),
    Case("two-cublas-entries", "2.9", by.stale_entry("nvidia_cublas_cu12", "12.6.4.1"), (), "torch-pin-unmet", FIRST),
    Case("libcublasLt-cut", "2.9", by.cut("nvidia/cublas/lib/libcublasLt.so.12", 100 << 20), ("import",), "torch-files-damaged", FIRST, 1),
    Case("libcudnn-empty", "2.9", by.cut("nvidia/cudnn/lib/libcudnn.so.9"), ("import",), "torch-files-damaged", FIRST, 1),
    Case("libnccl-gone", "2.9", by.gone("nvidia/nccl/lib/libnccl.so.2"), ("import",), "torch-files-damaged", FIRST, 1),
    Case("libtorch_cuda-gone", "2.9", by.gone("torch/lib/libtorch_cuda.so"), ("import",), "torch-files-damaged", FIRST, 1),
    Case("libtorch_cuda-cut", "2.9", by.cut("torch/lib/libtorch_cuda.so", 100 << 20), ("import",), "torch-files-damaged", FIRST, 1),
    Case("cudnn-cu11-beside", "2.9", by.installed("nvidia-cudnn-cu11==8.5.0.96"), (), "nvidia-packages-overwritten", FIRST),
    Case("cudnn-cu13-beside", "2.9", by.installed("nvidia-cudnn-cu13==9.24.0.43"), (), "nvidia-packages-overwritten", FIRST),
    Case("triton-gone", "2.9", by.uninstalled("triton"), ()),
    Case("triton-3.3", "2.9", by.installed("triton==3.3.1"), (), "torch-companion-mismatch", FIRST),
    Case("companions-right", "2.9", by.installed("torchvision==0.24.1", "torchaudio==2.9.1"), steps=("torchvision", "torchaudio")),
    Case("torchvision-of-2.7", "2.9", by.installed("torchvision==0.22.1"), ("torchvision",), "torch-companion-mismatch", FIRST, 1),
    Case("torchaudio-of-2.7", "2.9", by.installed("torchaudio==2.7.1"), ("torchaudio",), "torch-companion-mismatch", FIRST, 1),
    Case("torch-2.7-laid-over", "2.9", by.over("torch==2.7.1"), ("import",), "torch-duplicated", FIRST, 1),
    Case(
        "cpu-build-laid-over-companions",
        "2.9",
        by.all_of(by.installed("torchvision==0.24.1"), by.installed("torch==2.7.1", deps=True)),
        ("torchvision",),
        "torch-companion-mismatch",
        FIRST,
        1,
    ),
    Case("xformers-0.0.35", "2.9", by.installed("xformers==0.0.35"), ("xformers",), "xformers-mismatch", FIRST, 0),
    Case("library-path-old-nccl", "2.9", by.libraries_on_path("nvidia-nccl-cu12==2.21.5", "nvidia/nccl/lib")),
    Case(
        "library-path-old-cudnn",
        "2.9",
        by.libraries_on_path("nvidia-cudnn-cu12==9.1.0.70", "nvidia/cudnn/lib"),
        ("cudnn",),
        "cudnn-mismatch",
        FIRST,
        1,
    ),
    Case("library-path-old-nvjitlink", "2.9", by.libraries_on_path("nvidia-nvjitlink-cu12==12.4.127", "nvidia/nvjitlink/lib")),
    # This torch names the place of its own first.
    Case("library-path-nvjitlink-12.1", "2.9", by.libraries_on_path("nvidia-nvjitlink-cu12==12.1.105", "nvidia/nvjitlink/lib")),
    Case("2.9-numpy-gone", "2.9", by.uninstalled("numpy"), ("numpy",), "numpy-abi", FIRST),
    Case("user-site-torch-2.7", "2.9", by.user_site("torch==2.7.1"), (), "torch-duplicated", FIRST),
    Case("torch-2.7-on-PYTHONPATH", "2.9", by.packages_on_pythonpath("torch==2.7.1"), (), "torch-duplicated", FIRST),
    Case("2.15-healthy", "2.15", by.nothing, steps=("pins",)),
    *(
        Case(f"2.15-{name}-gone", "2.15", by.uninstalled(f"nvidia-{name}"), ("import",), "missing-library", FIRST, 1)
        for name in ("cudnn-cu13", "nccl-cu13", "cublas", "cusparselt-cu13", "nvshmem-cu13", "cufile", "cuda-nvrtc")
    ),
    *(Case(f"2.15-{name}-gone", "2.15", by.uninstalled(f"nvidia-{name}")) for name in ("cuda-runtime", "nvjitlink", "cuda-cupti")),
    Case("2.15-cublas-13.1", "2.15", by.installed("nvidia-cublas==13.1.1.3"), ("pins",), "torch-pin-unmet", FIRST, 0, ("pins",)),
    Case("2.15-cudnn-9.24", "2.15", by.installed("nvidia-cudnn-cu13==9.24.0.43"), ("cudnn",), "torch-pin-unmet", FIRST, 1),
    Case("2.15-cudnn-cu12-beside", "2.15", by.installed("nvidia-cudnn-cu12==9.1.0.70"), ("cudnn",), "cudnn-mismatch", FIRST, 1),
    Case(
        "2.15-cudnn-cu12-came-and-went",
        "2.15",
        by.all_of(by.installed("nvidia-cudnn-cu12==9.1.0.70"), by.uninstalled("nvidia-cudnn-cu12")),
        ("import",),
        "torch-files-damaged",
        FIRST,
        1,
    ),
    Case("2.15-nccl-cu12-over", "2.15", by.installed("nvidia-nccl-cu12==2.21.5"), ("import",), "nccl-package-mismatch", FIRST, 1),
    Case("2.15-triton-3.5", "2.15", by.installed("triton==3.5.1"), (), "torch-companion-mismatch", FIRST),
    Case("2.15-torchaudio-2.11.0", "2.15", by.installed("torchaudio==2.11.0"), ("torchaudio",), "torch-companion-mismatch", FIRST, 1),
    Case("2.15-torchvision-0.24", "2.15", by.installed("torchvision==0.24.1"), ("torchvision",), "torch-companion-mismatch", FIRST, 1),
    Case(
        "2.15-xformers",
        "2.15",
        by.installed("xformers==0.0.35"),
        ("xformers",),
        "xformers-mismatch",
        "Install xformers from the index of torch's own CUDA",
    ),
    Case("2.15-old-nccl-on-path", "2.15", by.libraries_on_path("nvidia-nccl-cu13==2.28.9", "nvidia/nccl/lib")),
    Case("2.14-upgraded-alone", "2.14", by.installed("torch==2.15.0"), ("import",), "torch-pin-unmet", FIRST, 1),
]
OLDER = [
    Case("2.7-sympy-older", "2.7", by.installed("sympy==1.13.1"), ("pins",), "torch-pin-unmet", FIRST, 0, ("pins",)),
    Case("2.7-downgraded-alone", "2.7", by.installed("torch==2.9.1"), ("import",), "torch-pin-unmet", FIRST, 1),
    Case("2.6-sympy-1.14", "2.6", by.installed("sympy==1.14.0"), ("pins",), "torch-pin-unmet", FIRST, 0, ("pins",)),
    Case(
        "2.6-companions-of-2.4",
        "2.6",
        by.installed("torchvision==0.19.1", "torchaudio==2.4.1"),
        ("torchvision", "torchaudio"),
        "torch-companion-mismatch",
        FIRST,
        1,
    ),
    Case("2.6-jax-beside", "2.6", by.installed("jax[cuda12]==0.7.2", deps=True), ("pins",), "torch-pin-unmet", FIRST, 0, ("pins",)),
    Case("2.4-no-setuptools", "2.4", by.uninstalled("setuptools")),
    Case("2.4-cusparse-gone", "2.4", by.uninstalled("nvidia-cusparse-cu12"), ("import",), "missing-library", FIRST, 1),
    Case("2.2-numpy-2", "2.2", by.installed("numpy==2.4.6"), ("numpy",), "numpy-abi", FIRST),
    Case("2.1-numpy-2", "2.1", by.installed("numpy==2.4.6"), ("numpy",), "numpy-abi", FIRST),
    Case("2.1-setuptools-new", "2.1", by.installed("setuptools==84.2.1"), ("ddp",), "torch-dynamo-broken", FIRST, 1),
    Case("2.1-healthy", "2.1", by.nothing),
    Case("1.13-numpy-2", "1.13", by.installed("numpy==2.2.6"), ("numpy",), "numpy-abi", FIRST),
    Case("1.13-cublas-cu11-gone", "1.13", by.uninstalled("nvidia-cublas-cu11"), ("import",), "missing-library", FIRST, 1),
    Case("1.13-setuptools-gone", "1.13", by.uninstalled("setuptools")),
]
CASES = [*CPU, *PIP, *CUDA, *OLDER]


def parameters() -> list[object]:
    order = list(BASES)
    rows = sorted(CASES, key=lambda one: order.index(one.base))  # each base is made once
    return [pytest.param(one, id=f"{'always-' if one.name in ALWAYS else ''}{one.name}") for one in rows]


@pytest.mark.parametrize("case", parameters())
def test_environment(case: Case, bases: Bases) -> None:
    place = bases.copy(case.base)
    try:
        case.damage(place)
        steps = tuple(dict.fromkeys((*case.steps, *(one for one in case.broken if one not in ("import", "backward", "numpy", "ddp")))))
        shown, said = truth(place, steps), check(place)
        lines = said.first_command()
        told = f"\nPython: {dict(shown.failed)}\nenvcheck: exit {said.code}\n{said.words}\ncommand: {lines}"
        assert shown.names == set(case.broken), f"truth: {told}"
        first = said.rules[0] if case.rule and said.rules else said.loud or None
        assert (said.code, first) == (case.code, case.rule), f"verdict: {told}"
        mended(case, place, said, steps, told)
    finally:
        removed(place)


def mended(case, place, said, steps, told) -> None:  # type: ignore[no-untyped-def]
    """What the first command does, or why there is none."""
    lines = said.first_command()
    if case.cure == NONE:
        return
    if case.cure.startswith("index: "):
        assert index_of(lines) == case.cure.removeprefix("index: ") and reachable(lines) is None, f"repair: {told}"
        return
    if case.cure != FIRST:
        text = str([(one["message"], one["fixes"]) for one in said.findings])
        assert case.cure in text, f"repair: {told}"
        return
    here = reachable(lines)
    assert here, f"repair: no command that can be run here {told}"
    failed = run(place, here)
    assert not failed, f"repair: {failed} {told}"
    left, again = truth(place, steps), check(place)
    assert left.names <= set(case.still), f"repair: still {dict(left.failed)}, {again.words} {told}"
    assert again.code == 0 and case.rule not in again.rules, f"repair: told again: {again.words} {told}"
