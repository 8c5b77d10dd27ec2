"""Rows of rules/compat as the methods of Tables hand them out. Releases and builds of torch: torch_builds."""

from __future__ import annotations

from collections.abc import Mapping

from envcheck.facts.record import record
from envcheck.tables.versions import meets, version


@record
class GpuRow:
    """What holds for every GPU of one compute capability."""

    compute_capability: str
    architecture: str
    first_cuda: str  # first toolkit that compiles for it
    last_cuda: str | None  # last one; None = still does
    last_torch: str | None  # last release whose published builds have code for it; None = the table of builds tells
    first_driver: str | None  # lowest driver branch that drives any board of it, "570"
    last_branch: int | None  # last branch; None = still driven, or not known
    open_module: str | None  # the open kernel modules are "required", "possible", "impossible"; None = not known
    products: tuple[str, ...]
    datacenter: bool  # data-centre boards of it exist
    jetson: bool  # integrated GPU of a Jetson or other Tegra module
    nvswitch: bool  # some boards sit on NVSwitch systems, which need nvidia-fabricmanager
    confidence: str
    source: str


@record
class Product:
    """A GPU by the name that its driver prints."""

    name: str
    compute_capability: str
    kind: str  # "datacenter", "workstation", "geforce", "jetson", "mining"
    nvswitch: bool  # boards of that name sit on NVSwitch systems (some of them also elsewhere)
    confidence: str
    source: str


@record
class XidRow:
    code: int
    name: str | None
    action: str | None  # "restart_app", "reset_gpu", "reboot", "contact_support", "none", …
    text: str | None
    training: str | None  # does a training job have to care: "yes", "maybe", "rare", …
    source: str


@record
class HostCompiler:
    """Newest host compilers that nvcc of one toolkit accepts (majors), and the sm_ targets of its ptxas."""

    cuda: str
    max_gcc: int | None
    max_clang: int | None
    archs: tuple[str, ...]  # ("sm_75", "sm_90a"); empty = not listed
    confidence: str
    source: str


@record
class PinRow:
    """What versions of a package ask of torch. `versions` are listed, or a range that `specifier` states alike."""

    package: str
    versions: tuple[str, ...]
    specifier: str  # versions as a specifier: "==0.0.34", ">=0.20.0,<=0.26.0"
    torch: str | None  # "==2.10.0", ">=2.10"; "" = any; None = does not ask for torch
    python: str | None
    requires: Mapping[str, str]  # further pins: torchvision, torchaudio, tensorrt
    source: str
    below: str | None = None  # first torch that a compiled wheel does not load beside, where its metadata name none

    def takes(self, torch: str) -> bool:
        """Whether these versions load beside a torch; also where they ask for none."""
        newer = self.below is not None and version(torch) >= version(self.below)
        return not newer and (self.torch is None or meets(torch, self.torch) is True)
