"""Stubs of NVIDIA's libraries (stub_driver/*.c) and the machines that they pretend to be."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from fakes import build

SOURCES = Path(__file__).parent / "stub_driver"


@dataclass(frozen=True)
class Card:
    """A device that CUDA counts: a GPU, or a MIG instance on the GPU `on`."""

    name: str
    capability: str
    mib: int
    uuid: str
    on: str = ""

    def __str__(self) -> str:
        return ",".join(filter(None, (self.name, self.capability, str(self.mib), self.uuid, self.on)))


H100 = Card("NVIDIA H100 80GB HBM3", "9.0", 81559, "GPU-10000000-aaaa-bbbb-cccc-dddddddddddd")
RTX_5090 = Card("NVIDIA GeForce RTX 5090", "12.0", 32607, "GPU-50900000-aaaa-bbbb-cccc-dddddddddddd")
GTX_1080 = Card("NVIDIA GeForce GTX 1080", "6.1", 8192, "GPU-10800000-aaaa-bbbb-cccc-dddddddddddd")
RTX_3090 = Card("NVIDIA GeForce RTX 3090", "8.6", 24576, "GPU-30900000-aaaa-bbbb-cccc-dddddddddddd")  # every build has code for it
A100 = "GPU-a1000000-aaaa-bbbb-cccc-dddddddddddd"
SLICES = (
    Card("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "8.0", 4864, "MIG-11000000-aaaa-bbbb-cccc-dddddddddddd", A100),
    Card("NVIDIA A100-SXM4-40GB MIG 2g.10gb", "8.0", 9856, "MIG-22000000-aaaa-bbbb-cccc-dddddddddddd", A100),
)


def h100s(count: int) -> tuple[Card, ...]:
    return tuple(Card(H100.name, H100.capability, H100.mib, H100.uuid.replace("GPU-1", f"GPU-{index + 1}")) for index in range(count))


@dataclass(frozen=True)
class Machine:
    """What a driver says there is, and the calls that fail: "cuInit=802;cuMemAlloc_v2=hang"."""

    cards: tuple[Card, ...] = (H100,)
    faults: str = ""
    cuda: int = 13020
    driver: str = "595.58.03"


@dataclass(frozen=True)
class Call:
    pid: int
    parent: int
    function: str


@dataclass
class Stubs:
    """The libraries, and the file that they write their calls to."""

    libraries: Path
    log: Path

    def environment(self, machine: Machine, runtime: bool = False) -> dict[str, str]:
        """Variables with which a process finds the machine. With `runtime` its calls of the CUDA runtime end at the stub too."""
        library = self.libraries / "libcuda.so.1"
        return {
            "LD_LIBRARY_PATH": str(self.libraries),
            "STUB_DEVICES": ";".join(map(str, machine.cards)),
            "STUB_FAULTS": machine.faults,
            "STUB_DRIVER": str(machine.cuda),
            "STUB_RELEASE": machine.driver,
            "STUB_LOG": str(self.log),
        } | ({"LD_PRELOAD": str(library)} if runtime else {})

    def calls(self) -> list[Call]:
        rows = self.log.read_text().split("\n")[:-1] if self.log.exists() else []
        return [Call(int(pid), int(parent), function) for pid, parent, function in (row.split() for row in rows)]


@pytest.fixture(scope="session")
def stub_libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if os.path.exists("/proc/driver/nvidia") or shutil.which("nvidia-smi"):
        pytest.skip("this machine has a driver of its own")
    folder = tmp_path_factory.mktemp("stubs")
    build(str(SOURCES / "runtime.c"), folder / "libcuda.so.1")
    build(str(SOURCES / "libnvidia-ml.c"), folder / "libnvidia-ml.so.1")
    return folder


@pytest.fixture
def stubs(stub_libraries: Path, tmp_path: Path) -> Stubs:
    return Stubs(stub_libraries, tmp_path / "calls")
