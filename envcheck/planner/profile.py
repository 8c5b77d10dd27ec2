"""What the search needs to know of a machine and its interpreter, drawn from a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

from envcheck.facts.record import field, record, replace
from envcheck.facts.snapshot import (
    AskedFacts,
    CudaDriverFacts,
    DriverFacts,
    Gpu,
    GpusFacts,
    ImportStatus,
    Missing,
    MpsFacts,
    PackagesFacts,
    PythonFacts,
    RocmFacts,
    Snapshot,
    SymptomsFacts,
    SystemFacts,
    ToolkitFacts,
    TorchFacts,
    VisibilityFacts,
    Why,
    XpuFacts,
)
from envcheck.tables.archs import overridden
from envcheck.tables.gpu_names import capability_named
from envcheck.tables.versions import build_tag, release, series

if TYPE_CHECKING:
    from envcheck.planner.result import Tool
    from envcheck.tables.compat import Tables

ASSERTED = "--for"  # source of GPUs that a user names

Accelerator: TypeAlias = Literal["cuda", "rocm", "xpu", "mps", "cpu"]


@record
class Card:
    """One GPU that torch would see."""

    index: int
    name: str | None
    compute_capability: str | None
    uuid: str | None = None
    asserted: bool = False  # named by a user: that the driver drives it, nobody saw

    @property
    def shown(self) -> str:
        """Name and compute capability, as far as they are known."""
        return f"{self.name or f'GPU {self.index}'} (compute capability {self.compute_capability or 'unknown'})"


@record
class Profile:
    """A machine and an interpreter, as far as they decide which torch runs. None = not known, and then it excludes nothing."""

    os: str | None = None
    machine: str | None = None
    platform: str | None = None  # "linux-x86_64"
    glibc: str | None = None
    musl: bool = False
    macos: str | None = None
    jetson: str | None = None
    wsl: bool = False
    python: str | None = None  # "3.12", "3.14t"
    implementation: str | None = None
    executable: str | None = None  # None: an interpreter that is not here
    prefix: str | None = None
    environment: str | None = None
    has_pip: bool | None = None
    managed: bool = False  # PEP 668: pip refuses to install here
    index_url: str | None = None  # configured package index
    variables: Mapping[str, str] = field(default_factory=dict)
    tool: Tool = "pip"
    accelerator: Accelerator = "cpu"
    driver: str | None = None  # None: no driver, or not known
    driver_cuda: str | None = None  # newest CUDA of the user-mode driver in use, a cuda-compat one included
    cards: tuple[Card, ...] = ()
    gfx: tuple[str, ...] = ()
    torch: str | None = None  # "2.14.1"
    variant: str | None = None  # "cu130", "cpu"; None = not known
    torch_metadata: str | None = None  # version as pip sees it: "2.14.1" or "2.14.1+cpu"
    torch_from_conda: bool = False
    torch_imports: bool = False
    torch_fails: bool = False  # its import was tried and failed
    torch_unnumbered: bool = False  # there is a torch without CUDA, and its version is not known
    packages: Mapping[str, str] = field(default_factory=dict)
    nvcc: str | None = None

    def __hash__(self) -> int:
        return hash((self.os, self.python, self.glibc, self.accelerator, self.driver, self.driver_cuda, self.cards, self.gfx))

    @property
    def system_alone(self) -> Profile:
        """The part that decides whether a wheel can be installed."""
        return Profile(
            os=self.os,
            glibc=self.glibc,
            musl=self.musl,
            macos=self.macos,
            python=self.python,
            implementation=self.implementation,
            accelerator=self.accelerator,
        )

    @property
    def hardware_alone(self) -> Profile:
        """The part that decides whether a build runs: GPUs and driver."""
        return Profile(
            os=self.os,
            wsl=self.wsl,
            jetson=self.jetson,
            accelerator=self.accelerator,
            driver=self.driver,
            driver_cuda=self.driver_cuda,
            cards=self.cards,
            gfx=self.gfx,
        )

    @property
    def notebook(self) -> bool:
        """Whether the commands are read in a notebook: its kernel hands these variables on to what a cell starts."""
        return any(name in self.variables for name in ("JPY_PARENT_PID", "COLAB_RELEASE_TAG"))

    @property
    def windows(self) -> bool:
        return self.os == "windows"


def profile_of(snapshot: Snapshot, tables: Tables) -> Profile:
    """The profile of a snapshot; sections that are missing leave their fields at None."""
    from envcheck.planner.result import target_tool

    system = snapshot.system if isinstance(snapshot.system, SystemFacts) else SystemFacts()
    python = snapshot.python if isinstance(snapshot.python, PythonFacts) else PythonFacts()
    packages = snapshot.packages if isinstance(snapshot.packages, PackagesFacts) else PackagesFacts()
    torch = snapshot.torch if isinstance(snapshot.torch, TorchFacts) else TorchFacts()
    installed = {row.name: row.version for row in reversed(packages.distributions) if row.version}
    metadata = installed.get("torch")
    conda = bool(torch.conda) or any(row.name in ("torch", "pytorch") and row.installer == "conda" for row in packages.distributions)
    return replace(
        _machine(snapshot, system, python_machine(python, system), tables),
        python=python_tag(python),
        implementation=python.implementation,
        executable=python.executable,
        prefix=python.prefix or python.environment_path,
        environment=python.environment,
        has_pip=python.has_pip,
        managed=_managed(python),
        index_url=python.index_url,
        variables=python.variables,
        tool=target_tool(snapshot),
        torch=release(torch.version or metadata),
        variant=_variant(torch, metadata),
        torch_metadata=metadata or torch.version,
        torch_from_conda=conda,
        torch_imports=torch.import_status is ImportStatus.OK,
        torch_fails=torch.import_status not in (None, ImportStatus.OK, ImportStatus.SKIPPED),
        torch_unnumbered=not (torch.version or metadata) and _without_cuda(snapshot, torch),
        packages=installed,
    )


def _without_cuda(snapshot: Snapshot, torch: TorchFacts) -> bool:
    """Whether a text says that the torch that is there was built without CUDA."""
    matches = snapshot.symptoms.matches if isinstance(snapshot.symptoms, SymptomsFacts) else ()
    return torch.cpu_build is True or any(one.rule == "torch-cpu-build" and one.variant != "xpu" for one in matches)


def _machine(snapshot: Snapshot, system: SystemFacts, machine: str | None, tables: Tables) -> Profile:
    """What no other interpreter changes, but for the architecture that it is built for."""
    from envcheck.tables.compat import platform_of

    cards = _cards(snapshot, tables)
    gfx = _gfx(snapshot.rocm) if isinstance(snapshot.rocm, RocmFacts) else ()
    return Profile(
        os=system.os,
        machine=machine,
        platform=platform_of(system.os, machine) if system.os and machine else None,
        glibc=system.glibc,
        musl=system.libc == "musl" or (system.libc is None and "alpine" in f"{system.distribution_id} {system.distribution}".lower()),
        macos=_macos(snapshot, system),
        jetson=system.jetson,
        wsl=bool(system.wsl),
        accelerator=_accelerator(snapshot, system, machine, cards, gfx),
        driver=_driver(snapshot),
        driver_cuda=_driver_cuda(snapshot, tables, system),
        cards=cards,
        gfx=gfx,
        nvcc=_nvcc(snapshot),
    )


def _managed(python: PythonFacts) -> bool:
    """Whether nothing may be installed there: the system's Python, or an environment that uv or pipx keeps for a tool."""
    system = bool(python.externally_managed) and python.environment not in ("venv", "virtualenv", "uv", "poetry", "conda", "pixi")
    return system or python.environment == "tool"


def python_tag(python: PythonFacts) -> str | None:
    """ "3.12", or "3.14t" for a free-threaded build, of "3.12.3"."""
    number = series(python.version)
    return number and number + ("t" if python.free_threaded else "")


def python_machine(python: PythonFacts, system: SystemFacts) -> str | None:
    """The architecture the interpreter is built for: an x86_64 Python on an Apple silicon Mac needs x86_64 wheels."""
    platform = python.platform or ""  # "macosx-11.0-x86_64", "linux-aarch64", "win-amd64", "macosx-14.0-universal2"
    for end, machine in (("x86_64", "x86_64"), ("amd64", "x86_64"), ("aarch64", "aarch64"), ("arm64", "arm64")):
        if platform.endswith(end):
            return machine
    return system.machine


def _macos(snapshot: Snapshot, system: SystemFacts) -> str | None:
    return system.macos_version or (snapshot.mps.macos if isinstance(snapshot.mps, MpsFacts) else None)


def _driver(snapshot: Snapshot) -> str | None:
    driver = snapshot.driver
    if not isinstance(driver, DriverFacts):
        return None
    return driver.windows_version or driver.version


def _driver_cuda(snapshot: Snapshot, tables: Tables, system: SystemFacts) -> str | None:
    """What libcuda itself said wins over the banner, and that over the table: it is the library that torch will load."""
    match snapshot.cuda_driver:
        case CudaDriverFacts(init_code=0, driver_version=str(version)):
            return version
    if not isinstance(snapshot.driver, DriverFacts):
        return None
    number = _driver(snapshot)
    return snapshot.driver.cuda or (
        tables.driver_cuda(number, "windows" if system.os == "windows" or system.wsl else "linux") if number else None
    )


def _cards(snapshot: Snapshot, tables: Tables) -> tuple[Card, ...]:
    if not isinstance(snapshot.gpus, GpusFacts):
        return ()
    devices = [gpu for gpu in snapshot.gpus.devices if not gpu.error]
    if isinstance(snapshot.visibility, VisibilityFacts) and snapshot.visibility.selected:
        # An empty selection hides all: that is a finding of its own, and the plan is made for the GPUs that are there.
        chosen = [snapshot.gpus.devices[at] for at in snapshot.visibility.selected if at < len(snapshot.gpus.devices)]
        devices = [gpu for gpu in chosen if not gpu.error] or devices
    return tuple(_card(gpu, tables, snapshot.gpus.source == ASSERTED) for gpu in devices)


def _card(gpu: Gpu, tables: Tables, asserted: bool) -> Card:
    capability = gpu.compute_capability or (capability_named(gpu.name, tables) if gpu.name else None)
    return Card(gpu.index, gpu.name, capability, gpu.uuid, asserted)


def _accelerator(
    snapshot: Snapshot, system: SystemFacts, machine: str | None, cards: tuple[Card, ...], gfx: tuple[str, ...]
) -> Accelerator:
    vendors = {device.vendor for device in system.pci_gpus}
    driver = snapshot.driver if isinstance(snapshot.driver, DriverFacts) else DriverFacts()
    # a report that tells of the driver and not of the GPU: nobody installs the one without the other
    unseen = isinstance(snapshot.gpus, Missing) and snapshot.gpus.why is not Why.ABSENT and (driver.version or driver.cuda)
    if cards or "10de" in vendors or driver.gpu_count_proc or unseen or system.jetson:
        return "cuda"
    if gfx or (isinstance(snapshot.rocm, RocmFacts) and snapshot.rocm.kfd):
        return "rocm"
    if isinstance(snapshot.xpu, XpuFacts) and snapshot.xpu.names:
        return "xpu"
    if system.os == "darwin" and machine == "arm64":
        unwanted = isinstance(snapshot.mps, Missing) and snapshot.mps.why is Why.ABSENT  # planned for its CPU
        return "cpu" if unwanted else "mps"
    unknown = isinstance(snapshot.gpus, Missing) and snapshot.gpus.why is not Why.ABSENT
    return "cuda" if unknown and _speaks_of_cuda(snapshot) else "cpu"


# Rules whose messages come from programs that were to run on an NVIDIA GPU.
_OF_CUDA = ("torch-cpu-build", "torch-cuda-unavailable", "gpu-too-new-for-torch", "gpu-too-old-for-torch", "driver-too-old")


def _speaks_of_cuda(snapshot: Snapshot) -> bool:
    """In a text that lists no GPU: a command or program asks for CUDA, or says what it met there."""
    asked = isinstance(snapshot.asked, AskedFacts) and snapshot.asked.cuda
    matches = snapshot.symptoms.matches if isinstance(snapshot.symptoms, SymptomsFacts) else ()
    return bool(asked) or any(match.rule in _OF_CUDA for match in matches)


def _variant(torch: TorchFacts, metadata: str | None) -> str | None:
    labelled = build_tag(torch.version).variant or build_tag(metadata).variant
    if labelled:
        return labelled
    if torch.cuda:
        return "cu" + torch.cuda.replace(".", "")
    return "cpu" if torch.cpu_build else None


def _nvcc(snapshot: Snapshot) -> str | None:
    toolkit = snapshot.toolkit
    return toolkit.nvcc.version if isinstance(toolkit, ToolkitFacts) and toolkit.nvcc else None


def _gfx(rocm: RocmFacts) -> tuple[str, ...]:
    """The targets that ROCm's runtime reports: with HSA_OVERRIDE_GFX_VERSION all are the one it names."""
    override = overridden(rocm.gfx_override)
    return (override,) if override and rocm.gfx else rocm.gfx
