"""What the planner takes from the facts of a machine, one fact at a time."""

from __future__ import annotations

from typing import Any

import pytest
from plan_hosts import TABLES

from envcheck.facts.snapshot import (
    CudaDriverFacts,
    Distribution,
    DriverFacts,
    Gpu,
    GpusFacts,
    ImportStatus,
    Missing,
    MpsFacts,
    Nvcc,
    PackagesFacts,
    PciDevice,
    PythonFacts,
    RocmFacts,
    Snapshot,
    SystemFacts,
    ToolkitFacts,
    TorchFacts,
    VisibilityFacts,
    Why,
    XpuFacts,
)
from envcheck.planner.profile import Card, Profile, profile_of

GPUS = (
    Gpu(0, name="NVIDIA H100 80GB HBM3", uuid="GPU-0", compute_capability="9.1"),
    Gpu(1, name="Tesla T4", uuid="GPU-1"),
    Gpu(2, name="NVIDIA Z9", error="GPU is lost"),
)
H100 = Card(0, "NVIDIA H100 80GB HBM3", "9.1", "GPU-0")
T4 = Card(1, "Tesla T4", "7.5", "GPU-1")
ABSENT, FAILED = Missing(Why.ABSENT, "x"), Missing(Why.FAILED, "x")
LINUX, MAC = SystemFacts(os="linux", machine="x86_64"), SystemFacts(os="darwin", machine="arm64")
CARD = PciDevice("0", "10de", "2330")


def profile(**sections: Any) -> Profile:
    return profile_of(Snapshot(**sections), TABLES)


def torch(**facts: Any) -> dict[str, Any]:
    return {"torch": TorchFacts(**facts)}


def python(**facts: Any) -> dict[str, Any]:
    return {"python": PythonFacts(**facts), "system": LINUX}


def packages(*rows: Distribution) -> dict[str, Any]:
    return {"packages": PackagesFacts(rows)}


def test_nothing_is_known_of_nothing() -> None:
    assert profile() == Profile(tool="pip", variables={}, packages={})


CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    # the interpreter
    (python(version="3.12.3"), {"python": "3.12", "platform": "linux-x86_64", "machine": "x86_64"}),
    (python(version="3.14.0", free_threaded=True), {"python": "3.14t"}),
    (python(platform="linux-aarch64"), {"platform": "linux-aarch64"}),
    (python(platform="win-amd64"), {"machine": "x86_64"}),
    ({"python": PythonFacts(platform="macosx-11.0-x86_64"), "system": MAC}, {"machine": "x86_64", "accelerator": "cpu"}),
    ({"python": PythonFacts(platform="macosx-14.0-universal2"), "system": MAC}, {"machine": "arm64", "accelerator": "mps"}),
    (python(prefix="/a", environment_path="/b"), {"prefix": "/a"}),
    (python(environment_path="/b"), {"prefix": "/b"}),
    (python(externally_managed=True, environment="system"), {"managed": True}),
    (python(externally_managed=True), {"managed": True}),
    (python(externally_managed=True, environment="venv"), {"managed": False}),
    (python(externally_managed=True, environment="pixi"), {"managed": False}),
    (python(environment="system"), {"managed": False}),
    (python(environment="tool"), {"managed": True}),
    (python(has_conda_meta=True, uv=True), {"tool": "conda"}),
    (python(uv=True), {"tool": "uv"}),
    (python(has_pip=False), {"tool": "uv"}),
    (python(has_pip=True), {"tool": "pip"}),
    # the system
    ({"system": SystemFacts(os="linux")}, {"platform": None}),
    ({"system": SystemFacts(libc="musl")}, {"musl": True}),
    ({"system": SystemFacts(libc="glibc", glibc="2.35")}, {"musl": False, "glibc": "2.35"}),
    ({"system": SystemFacts(wsl=2)}, {"wsl": True}),
    ({"system": SystemFacts(macos_version="15.1"), "mps": MpsFacts(macos="14.0")}, {"macos": "15.1"}),
    ({"mps": MpsFacts(macos="14.0")}, {"macos": "14.0"}),
    ({"toolkit": ToolkitFacts(nvcc=Nvcc("/nvcc", "12.8"), nvccs=(Nvcc("/other", "13.0"),))}, {"nvcc": "12.8"}),
    ({"toolkit": ToolkitFacts(nvccs=(Nvcc("/other", "13.0"),))}, {"nvcc": None}),
    # the driver
    ({"driver": DriverFacts("580.95.05")}, {"driver": "580.95.05", "driver_cuda": "13.0"}),
    ({"driver": DriverFacts("580.95.05", cuda="13.1")}, {"driver_cuda": "13.1"}),
    ({"driver": DriverFacts("580.95.05"), "cuda_driver": CudaDriverFacts(init_code=0, driver_version="13.2")}, {"driver_cuda": "13.2"}),
    ({"driver": DriverFacts("580.95.05"), "cuda_driver": CudaDriverFacts(init_code=999, driver_version="13.2")}, {"driver_cuda": "13.0"}),
    ({"driver": DriverFacts("580.95.05"), "cuda_driver": CudaDriverFacts(init_code=0)}, {"driver_cuda": "13.0"}),
    ({"cuda_driver": CudaDriverFacts(init_code=0, driver_version="13.2")}, {"driver": None, "driver_cuda": "13.2"}),
    ({"driver": DriverFacts("551.78"), "system": SystemFacts(os="windows")}, {"driver_cuda": "12.4"}),
    ({"driver": DriverFacts("551.78"), "system": SystemFacts(os="linux", wsl=2)}, {"driver_cuda": "12.4"}),
    ({"driver": DriverFacts("550.1", windows_version="551.78"), "system": SystemFacts(wsl=2)}, {"driver": "551.78", "driver_cuda": "12.4"}),
    ({"driver": DriverFacts()}, {"driver": None, "driver_cuda": None}),
    # the GPUs
    ({"gpus": GpusFacts(devices=GPUS)}, {"cards": (H100, T4), "accelerator": "cuda"}),
    ({"gpus": GpusFacts(devices=GPUS), "visibility": VisibilityFacts(selected=(1,))}, {"cards": (T4,)}),
    ({"gpus": GpusFacts(devices=GPUS), "visibility": VisibilityFacts(selected=(1, 0, 7))}, {"cards": (T4, H100)}),
    ({"gpus": GpusFacts(devices=GPUS), "visibility": VisibilityFacts(selected=(3,))}, {"cards": (H100, T4)}),
    ({"gpus": GpusFacts(devices=GPUS), "visibility": VisibilityFacts(selected=())}, {"cards": (H100, T4)}),
    ({"gpus": GpusFacts(devices=GPUS), "visibility": VisibilityFacts(selected=(2,))}, {"cards": (H100, T4)}),
    ({"gpus": GpusFacts(devices=(Gpu(3),))}, {"cards": (Card(3, None, None),)}),
    ({"gpus": GpusFacts(devices=GPUS[2:])}, {"cards": (), "accelerator": "cpu"}),
    ({"system": SystemFacts(pci_gpus=(CARD,))}, {"accelerator": "cuda", "cards": ()}),
    ({"system": SystemFacts(jetson="36.4.3")}, {"accelerator": "cuda"}),
    ({"driver": DriverFacts(gpu_count_proc=1), "gpus": ABSENT}, {"accelerator": "cuda"}),
    ({"driver": DriverFacts("580.95.05"), "gpus": FAILED}, {"accelerator": "cuda"}),
    ({"driver": DriverFacts(cuda="13.0"), "gpus": FAILED}, {"accelerator": "cuda"}),
    ({"driver": DriverFacts("580.95.05"), "gpus": ABSENT}, {"accelerator": "cpu"}),
    ({"driver": DriverFacts(), "gpus": FAILED}, {"accelerator": "cpu"}),
    ({"rocm": RocmFacts(gfx=("gfx942",))}, {"accelerator": "rocm", "gfx": ("gfx942",)}),
    ({"rocm": RocmFacts(kfd=True)}, {"accelerator": "rocm"}),
    ({"rocm": RocmFacts(version="6.4")}, {"accelerator": "cpu"}),
    ({"rocm": RocmFacts(gfx=("gfx942",)), "system": SystemFacts(pci_gpus=(CARD,))}, {"accelerator": "cuda"}),
    ({"xpu": XpuFacts(names=("Arc",))}, {"accelerator": "xpu"}),
    ({"xpu": XpuFacts()}, {"accelerator": "cpu"}),
    ({"system": MAC}, {"accelerator": "mps"}),
    ({"system": SystemFacts(os="linux", machine="arm64")}, {"accelerator": "cpu"}),
    # torch
    (torch(version="2.14.1+cu130"), {"torch": "2.14.1", "variant": "cu130", "torch_metadata": "2.14.1+cu130"}),
    (torch(version="2.14.1", cuda="12.8"), {"torch": "2.14.1", "variant": "cu128"}),
    (torch(version="2.14.1", cpu_build=True), {"variant": "cpu"}),
    (torch(version="2.14.1"), {"variant": None, "torch_imports": False, "torch_from_conda": False}),
    (torch(import_status=ImportStatus.OK), {"torch_imports": True}),
    (torch(conda=True), {"torch_from_conda": True}),
    (packages(Distribution("torch", "2.14.1+cpu")), {"torch": "2.14.1", "variant": "cpu", "torch_metadata": "2.14.1+cpu"}),
    (packages(Distribution("pytorch", "2.9.1", installer="conda")), {"torch_from_conda": True, "torch": None}),
    (packages(Distribution("numpy", "2.1", installer="conda")), {"torch_from_conda": False}),
    (packages(Distribution("torch", "2.9.1", installer="pip")), {"torch_from_conda": False}),
    (packages(Distribution("numpy", "2.1"), Distribution("numpy", "1.26"), Distribution("x")), {"packages": {"numpy": "2.1"}}),
    (
        {**torch(version="2.14.1+cu130"), **packages(Distribution("torch", "2.14.1"))},
        {"torch": "2.14.1", "variant": "cu130", "torch_metadata": "2.14.1"},
    ),
]


@pytest.mark.parametrize(("sections", "wanted"), CASES)
def test_one_fact(sections: dict[str, Any], wanted: dict[str, Any]) -> None:
    found = profile(**sections)
    assert {name: getattr(found, name) for name in wanted} == wanted


def test_a_card_in_words() -> None:
    assert H100.shown == "NVIDIA H100 80GB HBM3 (compute capability 9.1)"
    assert Card(3, None, None).shown == "GPU 3 (compute capability unknown)"
