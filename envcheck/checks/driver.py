"""The NVIDIA driver: is it there, loaded, new enough, and of the right kind for the GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.checks.answer import contained, counted, cuda_answers, cuda_code, driver_os, fails, nvidia_on_bus, wants_cuda, works
from envcheck.checks.hardware import asked_of_amd, capability, closed, discrete_amd, gpu_nodes, heard, place, troubles
from envcheck.checks.reinstall import default_variant
from envcheck.checks.text import distinct, foremost, in_a_hosted_notebook, of_programs, of_symptom, of_variant, quoted, value
from envcheck.engine.intents import TorchBuild
from envcheck.engine.rule import Answer, Confidence, Evidence, Facts, Hit, Matches, Severity, Unknown, check
from envcheck.facts.nvml_codes import CLOSED, NO_GPU, NO_LIBRARY, NOT_FOUND, NOT_LOADED
from envcheck.facts.record import record, replace
from envcheck.facts.snapshot import DevicesFacts, DriverFacts, GpusFacts, ToolStatus
from envcheck.tables.compat import Tables
from envcheck.tables.versions import UNKNOWN, cuda_below, older, tag_named

_NO_TOOL = (ToolStatus.ABSENT, ToolStatus.SKIPPED)


def smi_failed(driver: DriverFacts, *codes: int) -> bool:
    """nvidia-smi or NVML ended with one of these codes; they share them."""
    return any(answer.status is ToolStatus.FAILED and answer.code in codes for answer in (driver.smi, driver.nvml))


def smi_evidence(driver: DriverFacts) -> tuple[Evidence, ...]:
    """nvidia-smi's and NVML's own words where they failed."""
    answers = (("nvidia-smi", "exit", driver.smi), ("NVML", "error", driver.nvml))
    rows = [(f"{name} ({word} {answer.code})", answer) for name, word, answer in answers]
    return tuple(Evidence(source, one.message) for source, one in rows if one.status is ToolStatus.FAILED and one.message)


@check(needs="driver", reads="system driver gpus cuda_driver visibility torch devices container rocm symptoms")
def driver_missing(facts: Facts, matches: Matches) -> Answer:
    system, driver, devices = facts.system, facts.driver, facts.devices
    cards = nvidia_on_bus(system)
    if _of_another_vendor(facts) and not (cards or facts.gpus.devices):
        return None  # no driver of NVIDIA's is missing there
    if in_a_hosted_notebook(facts) or cuda_answers(facts) or contained(facts.container) or system.wsl:
        return None
    if system.jetson:
        return _on_jetson(matches)
    matches = matches if cards else of_programs(matches)
    names = [gpu.name for gpu in facts.gpus.devices if gpu.name] + [f"PCI {card.address}, device {card.device}" for card in cards]
    hidden = facts.visibility.cuda_visible_devices is not None  # a variable that hides every GPU has the same face as no libcuda
    no_libcuda = (driver.cuda_state == "N/A" or ("cuda_driver" in facts.absent and not hidden)) and not _torch_reached_libcuda(devices)
    hit = _no_driver(facts, matches) if names else None
    if hit is None and (driver.module_loaded or driver.version):
        hit = _no_libcuda(driver, matches, no_libcuda and (fails(devices) or bool(matches)), bool(names))
        hit = hit or _no_nvml(facts, matches)
    elif hit is None and matches:
        values = {"part": "NVIDIA driver that CUDA can load"}
        hit = Hit(values, quoted(matches), variant="text", confidence=None if _misses_libcuda(matches) else Confidence.LIKELY)
    severity = Severity.WARNING if wants_cuda(facts.torch, facts.absent) is False else Severity.ERROR
    return hit and replace(hit, values={"gpu": names[0] if names else None, **hit.values}, severity=severity)


def _of_another_vendor(facts: Facts) -> bool:
    amd = bool(discrete_amd(facts.rocm)) and not facts.driver.version
    return amd or bool(of_symptom(facts, "onboard-graphics-alone") or asked_of_amd(facts))


def _on_jetson(matches: Matches) -> Hit | None:
    """The driver comes with the system there; a loader that does not look into its folder misses the library."""
    missed = tuple(match for match in of_programs(matches) if match.symptom == "libcuda-not-found")
    return Hit({"part": "CUDA driver library (libcuda.so.1)"}, quoted(missed), variant="jetson") if missed else None


def _misses_libcuda(matches: Matches) -> bool:
    """Torch, or the loader, says that there is no libcuda."""
    return any(match.symptom in ("torch-no-driver", "libcuda-not-found") for match in matches)


def _no_driver(facts: Facts, matches: Matches) -> Hit | None:
    """No file and no process of an NVIDIA driver was found."""
    driver = facts.driver
    library = driver.nvml.status in _NO_TOOL or driver.nvml.code == NO_LIBRARY
    found = driver.version or driver.library_version or driver.module_loaded or driver.smi.status not in _NO_TOOL or not library
    # someone spoke of its service, of its kernel log, or of what it offers
    stated = driver.fabric_manager or driver.xids or driver.cuda or of_symptom(facts, "probe-not-called", "nvrm-probe-failed", "nvrm-bar")
    if found or stated or (driver == DriverFacts() and "driver" not in facts.absent):
        return None
    nouveau = any(card.driver == "nouveau" for card in nvidia_on_bus(facts.system))
    return Hit({"part": "NVIDIA driver"}, quoted(matches), variant="nouveau" if nouveau else None)


def _no_libcuda(driver: DriverFacts, matches: Matches, missed: bool, named: bool) -> Hit | None:
    """The kernel driver is there without the library that CUDA programs load."""
    plain = _misses_libcuda(matches)
    # NVML takes its CUDA version out of libcuda: where it has one, the library is there, if not for this process.
    # https://docs.nvidia.com/deploy/nvml-api/group__nvmlSystemQueries.html (NVML_ERROR_LIBRARY_NOT_FOUND)
    elsewhere = any(one.cuda for one in driver.readings) and not plain and driver.cuda_state != "N/A"
    if not (plain or missed) or (elsewhere and not named):  # then nothing says that there is a GPU
        return None
    values = {"part": "CUDA driver library (libcuda.so.1)", "driver": driver.version}
    return Hit(values, quoted(matches), variant="hidden" if elsewhere else "library")


def _no_nvml(facts: Facts, matches: Matches) -> Hit | None:
    names = ("smi-no-nvml", "nvml-shared-library-not-found", "libnvidia-ml-not-found")
    management = tuple(match for match in of_programs(matches) if match.symptom in names)
    if not management or counted(facts.gpus) or facts.driver.smi.status is ToolStatus.OK:
        return None
    values = {"part": "management library (libnvidia-ml.so.1)", "driver": facts.driver.version}
    return Hit(values, quoted(management), variant="library", confidence=Confidence.LIKELY)


def _torch_reached_libcuda(devices: DevicesFacts) -> bool:
    """A code of CUDA, or the driver's version in "too old (found version 12020)", comes out of libcuda: it was loaded."""
    return devices.error_code is not None or any(_found_version(text) for text in (*devices.warnings, devices.error or ""))


def _found_version(error: str, matches: Matches = ()) -> int:
    """CUDA of the driver as a message states it, "driver on your system is too old (found version 11040)", else 0."""
    told = value(matches, "found") or ""
    found = re.fullmatch("([0-9]{4,6})", told) or re.search(r"found version (\d{4,6})", error)
    return int(found[1]) if found else 0


@check(needs="driver", reads="system driver cuda_driver torch devices symptoms")
def driver_not_loaded(facts: Facts, matches: Matches) -> Answer:
    system, driver = facts.system, facts.driver
    cards = nvidia_on_bus(system)
    if cuda_answers(facts) or system.wsl or system.jetson:
        return None
    on_disk = driver.library_version is not None or driver.smi.status not in _NO_TOOL
    unloaded = driver.module_loaded is False and on_disk and bool(cards)
    if not (smi_failed(driver, NOT_LOADED) or unloaded or (matches and driver.module_loaded is not True)):
        return None
    values = {"library": driver.library_version, "kernel": system.kernel}
    evidence = distinct((*smi_evidence(driver), *quoted(matches)))
    if driver != DriverFacts() and wants_cuda(facts.torch, facts.absent) is False and not cards and not of_programs(matches):
        # a login or build node: the tools are there for those who compile, and nothing here would use a GPU
        return Hit(values, evidence, variant="tools", severity=Severity.INFO if "gpus" in facts.absent else Severity.WARNING)
    nouveau = driver.nouveau or any(card.driver == "nouveau" for card in cards) or of_variant(matches, "nouveau")
    said = next((one for one in ("held", "signed") if of_variant(matches, one)), None)
    return Hit(values, evidence, variant="nouveau" if nouveau else said)


@record
class _Demand:
    """The CUDA of the torch build against what the driver offers."""

    driver: str | None
    torch: str | None
    cuda: str | None  # of the build
    minimum: str | None  # driver for that CUDA
    offered: str | None  # newest CUDA that the driver serves
    suffices: bool | None = None  # as the table says
    stated: bool = False  # torch itself gave the number of `offered`
    floors: str = ""  # the drivers for newer CUDAs than `offered`, in words, where the build's CUDA is not known

    @property
    def below(self) -> bool:
        return bool(self.offered and self.cuda and cuda_below(self.offered, self.cuda))

    @property
    def values(self) -> dict[str, object]:
        target = f"{self.minimum} or newer" if self.minimum else self.floors or "the newest branch that supports this GPU"
        least = self.minimum or (f"one that offers CUDA {self.cuda}" if self.cuda else "one for the CUDA of your torch build")
        known = {"driver": self.driver, "torch": self.torch, "cuda": self.cuda, "offered": self.offered}
        return {**known, "minimum": least, "target": target}

    def hit(self, matches: Matches, variant: str | None, guess: bool = False, fixes: tuple[TorchBuild, ...] = (TorchBuild(),)) -> Hit:
        return Hit(self.values, quoted(matches), fixes, variant=variant, confidence=Confidence.LIKELY if guess else None)


@check(needs="driver", reads="system python driver gpus cuda_driver toolkit torch devices symptoms asked")
def driver_too_old(facts: Facts, every: Matches) -> Answer:
    if solved := of_variant(every, "conda"):  # its solver read what the driver serves, and a package asks for more
        values: dict[str, object] = {name: value(solved, name) for name in ("package", "wanted", "offered")}
        return Hit(values | {"target": f"one that offers CUDA {values['wanted']}"}, quoted(solved), variant="conda")
    if lacking := of_variant(every, "symbol", "nvml"):
        return _lacks_symbol(facts, lacking)
    refused = of_variant(every, "parameters")  # has other causes, on a vGPU above all
    beyond = of_variant(every, "minor")
    matches = tuple(match for match in every if match not in beyond and match not in refused)
    if works(facts.devices) and not beyond:
        return _after_the_change(facts, matches)
    if refused and _large_parameters(facts):
        beyond += refused
    demand = _demand(facts, _found_version(facts.devices.error or "", matches))
    open_ = demand.cuda is None and facts.driver.version and fails(facts.devices)
    if supposed := _supposed(facts, demand) if open_ else None:
        return supposed[0].hit(matches, supposed[1], guess=not matches)
    if beyond and not (demand.offered and demand.cuda and not older(demand.offered, demand.cuda)):
        hit = demand.hit(beyond, "minor", guess=True)
        first = facts.tables.driver_offering(demand.cuda, driver_os(facts.system)) if demand.cuda else None
        return replace(hit, values={**hit.values, "target": f"{first} or newer, which offers CUDA {demand.cuda} itself"}) if first else hit
    if works(facts.devices):
        return None
    if demand.cuda is None:
        return _as_stated(demand, matches)
    if cuda_answers(facts) and demand.offered and not demand.below:
        return None  # cuda-compat in place
    asked = fails(facts.devices) or cuda_code(facts) is not None
    return _by_numbers(
        demand, matches, asked, next((gpu.name for gpu in facts.gpus.devices if gpu.name), None), driver_os(facts.system), facts.tables
    )


# Functions of libcuda, by how their names begin, with the CUDA that brought them (cuda.h of that toolkit).
_SINCE = (
    ("cuMemcpyBatch", "12.8"), ("cuCheckpoint", "12.8"), ("cuMemBatch", "12.6"), ("cuCtxCreate_v4", "12.5"), ("cuGreenCtx", "12.4"),
    ("cuMulticast", "12.1"), ("cuTensorMap", "12.0"), ("cuLibrary", "12.0"), ("cuKernel", "12.0"), ("cuGetProcAddress_v2", "12.0"),
    ("cuCtxGetId", "12.0"), ("cuStreamBatch", "11.7"), ("cuLaunchKernelEx", "11.8"), ("cuMemRetain", "11.0"), ("cuMem", "10.2"),
)  # fmt: skip


def _lacks_symbol(facts: Facts, matches: Matches) -> Hit | None:
    """A library asks libcuda, or torch NVML, for a function that came later."""
    symbol, os, driver = value(matches, "symbol") or "", driver_os(facts.system), facts.driver.version
    if of_variant(matches, "nvml"):
        said = {"symbol": symbol, "driver": driver or UNKNOWN, "target": "a newer branch", "offered": None}
        return Hit(said, quoted(matches), variant="nvml", confidence=Confidence.LIKELY)
    cuda = next((since for begin, since in _SINCE if symbol.startswith(begin)), "12.0")
    first = facts.tables.driver_offering(cuda, os) or facts.tables.driver_floor(cuda, os)
    new_enough = driver and first and older(driver, first) is False
    values = {"symbol": symbol, "cuda": cuda, "minimum": first, "driver": driver or UNKNOWN, "target": f"{first} or newer", "offered": None}
    return Hit(values, quoted(matches), variant="stub" if new_enough else "symbol", confidence=Confidence.LIKELY)


_ASKED_CUDA = re.compile(r"\b(?:cudatoolkit|pytorch-cuda|cuda-version)\s?={1,2}\s?(\d{1,2}\.\d)|(?:\+|/whl/(?:nightly/)?)cu(\d{2,3})\b")


def _supposed(facts: Facts, demand: _Demand) -> tuple[_Demand, str] | None:
    """What the build asks for, where nobody says it: as a plain install brings this release, or as a command of the text asks for."""
    torch, python, os = facts.torch, facts.python, driver_os(facts.system)
    if torch.cpu_build or torch.hip or torch.xpu or facts.system.jetson:
        return None
    conda = torch.conda or python.has_conda_meta or python.environment == "conda"
    variant = None if conda or "+" in (torch.version or "") else default_variant(facts)
    found = next((match for line in reversed(facts.asked.commands) if "torch" in line and (match := _ASKED_CUDA.search(line))), None)
    asked = found and (found[1] or f"{found[2][:-1]}.{found[2][-1]}")
    for cuda, case in ((tag_named(variant).cuda if variant else None, "usual"), (asked, "asked")):
        if cuda and demand.driver and facts.tables.driver_suffices(demand.driver, cuda, os) is False:
            served = (one for one in ("10.1", "10.0", "9.2", "9.1", "9.0") if facts.tables.driver_suffices(demand.driver, one, os))
            offered = demand.offered or next(served, None)  # a branch between two that the table knows
            return replace(demand, cuda=cuda, minimum=facts.tables.driver_floor(cuda, os), offered=offered), case
    return None


def _after_the_change(facts: Facts, matches: Matches) -> Hit | None:
    """CUDA works with the torch that is described, and a program found the driver too old with the one that a command brings."""
    if not matches or all(match.quoted for match in matches):
        return None
    supposed = _supposed(facts, _demand(facts, 0))
    return supposed[0].hit(matches, supposed[1]) if supposed and supposed[1] == "asked" else None


def _demand(facts: Facts, stated: int) -> _Demand:
    """`stated`: CUDA of the driver as a message has it (12020 is 12.2), or 0."""
    driver, torch, tables = facts.driver, facts.torch, facts.tables
    os = driver_os(facts.system)
    offered = f"{stated // 1000}.{stated % 1000 // 10}" if stated else facts.cuda_driver.driver_version or driver.cuda
    offered = offered or (tables.driver_cuda(driver.version, os) if driver.version else None)
    if torch.cuda:
        suffices = tables.driver_suffices(driver.version, torch.cuda, os) if driver.version else None
        return _Demand(driver.version, torch.version, torch.cuda, tables.driver_floor(torch.cuda, os), offered, suffices, stated > 0)
    # the CUDAs that torch was built for
    newer = [cuda for cuda in ("10.2", "11.8", "12.0", "13.0") if offered and cuda_below(offered, cuda)]
    rows = [(floor, cuda if cuda < "11" else cuda[:2]) for cuda in newer if (floor := tables.driver_floor(cuda, os))]
    floors = ", ".join(f"{floor} or newer for a torch built for CUDA {cuda}" for floor, cuda in rows)
    return _Demand(driver.version, torch.version, None, None, offered, None, stated > 0, floors)


def _large_parameters(facts: Facts) -> bool:
    """Kernels with more than 4 KiB of parameters, which CUDA 12.1 allows, are error 801 on a driver below 530.

    https://developer.nvidia.com/blog/cuda-12-1-supports-large-kernel-parameters/
    """
    branch = facts.tables.branch(facts.driver.version) if facts.driver.version else None
    compiled = [facts.torch.cuda, *(one.version for one in facts.toolkit.nvccs)]
    return bool(branch and 525 <= branch < 530) and any(one and one.startswith("12.") and not older(one, "12.1") for one in compiled)


def _as_stated(demand: _Demand, matches: Matches) -> Hit | None:
    """Torch's own words, where nothing is known that could be set against them."""
    sure = demand.stated or of_variant(matches, "too_old")
    # a build is not chosen for a driver of which only that it is old is known
    fixes = (TorchBuild(),) if demand.offered or demand.driver else ()
    return demand.hit(matches, "too_old" if sure else "text", guess=not sure, fixes=fixes) if matches else None


def _by_numbers(demand: _Demand, matches: Matches, asked: bool, gpu: str | None, os: str, tables: Tables) -> Answer:
    if demand.below and demand.stated:  # torch read a version that is too low
        if demand.suffices:  # the kernel driver is new enough: an older libcuda was loaded
            return demand.hit(matches, "libcuda", fixes=())
        return demand.hit(matches, None if demand.driver and demand.minimum and demand.suffices is False else "offered")
    if demand.driver and demand.minimum and demand.suffices is None and not matches:
        return Unknown(f"NVIDIA's pages name two lowest drivers for CUDA {demand.cuda}; {demand.driver} is between them")
    if demand.driver and demand.cuda and demand.minimum and demand.suffices is not None:
        if demand.suffices:
            return None
        bridged = tables.forward_compat(demand.cuda, demand.driver, gpu, os) is True
        return demand.hit(matches, "bridge" if bridged else None, guess=bridged and not asked)
    if demand.below:
        return demand.hit(matches, "offered")
    return None if demand.offered else _as_stated(demand, matches)


def _cards(facts: Facts) -> Iterator[tuple[str, str]]:
    """Name and compute capability of each GPU; from the PCI bus for those that the driver does not show."""
    for gpu in facts.gpus.devices:
        if known := capability(gpu, facts.tables):
            yield gpu.name or f"GPU {gpu.index}", known
    for card in () if facts.gpus.devices else nvidia_on_bus(facts.system):
        if known := facts.tables.compute_capability_of_pci(card.device):
            yield f"GPU at PCI {card.address}", known


def _installed(facts: Facts) -> tuple[str | None, int | None]:
    """The driver's version and branch; where its module is not loaded, which it refuses if it drives no card here, those of its files."""
    version = facts.driver.version or (facts.driver.library_version if facts.driver.module_loaded is False else None)
    return version, facts.tables.branch(version, driver_os(facts.system)) if version else None


@check(needs="driver", reads="system driver gpus cuda_driver devices symptoms")
def driver_too_old_for_gpu(facts: Facts, matches: Matches) -> Answer:
    system, tables = facts.system, facts.tables
    if cuda_answers(facts) or system.jetson:
        return None
    version, branch = _installed(facts)
    for name, cc in _cards(facts):
        row = tables.gpu(cc)
        if branch and row and row.first_driver and branch < int(row.first_driver) and row.confidence != "low":
            minimum = tables.first_driver(name, driver_os(system)) or row.first_driver
            return Hit({"gpu": name, "driver": version, "minimum": minimum, "cc": cc}, quoted(matches))
    chip = tables.gpu(tables.compute_capability_of_pci(value(matches, "device") or "") or "") if matches else None
    stated = value(matches, "driver")
    spoken = tables.branch(stated, driver_os(system)) if stated else branch
    if chip and chip.first_driver and spoken and spoken >= int(chip.first_driver):
        matches = ()  # that branch knows the chip: it is a vGPU, which needs its guest driver, or one that answers wrongly
    nameless = [gpu.name for gpu in facts.gpus.devices if gpu.name in ("NVIDIA Graphics Device", "Graphics Device")]
    if nameless and fails(facts.devices):
        return Hit({"gpu": nameless[0], "driver": version}, quoted(matches), variant="nameless", confidence=Confidence.LIKELY)
    return Hit({"gpu": "this GPU", "driver": version}, quoted(matches), variant="text") if matches else None


@check(needs="driver", reads="system driver gpus cuda_driver devices symptoms")
def driver_dropped_gpu(facts: Facts, matches: Matches) -> Answer:
    if cuda_answers(facts):
        return None
    version, _ = _installed(facts)
    os, tables = driver_os(facts.system), facts.tables
    rows = [(name, tables.gpu(cc)) for name, cc in _cards(facts)]
    dropped = [(name, row) for name, row in rows if version and row and row.last_branch and tables.is_past(version, row.last_branch, os)]
    if dropped and len(dropped) == len(rows):
        name, row = dropped[0]
        return Hit({"gpu": name, "driver": version, "last": row.last_branch, "arch": row.architecture}, quoted(matches))
    if not matches or counted(facts.gpus):  # it ignores one card beside others that it drives
        return None
    last = value(matches, "branch")
    values = {"gpu": "this GPU", "driver": version or (value(matches, "driver") if last else None), "last": last}
    return Hit(values, quoted(matches), variant="log" if last else "text")


@check(needs="driver", reads="system driver gpus devices cuda_driver symptoms")
def driver_needs_open_module(facts: Facts, matches: Matches) -> Answer:
    driver, tables = facts.driver, facts.tables
    if cuda_answers(facts):
        return None
    log = tuple(line for line in driver.kernel_messages if "open" in line.lower())
    evidence = (*quoted(matches), *(Evidence("kernel log", line) for line in log[:2]))
    gpu: str | None = "this GPU"
    if of_variant(matches, "proprietary") or any("not supported by open" in line or "include the required GPU" in line for line in log):
        row = tables.gpu(tables.compute_capability_of_pci(value(matches, "device") or "") or "")
        if counted(facts.gpus) or (row and row.open_module != "impossible"):
            return None  # one card beside others that work; or it has that processor, and the driver could not read what chip it is
        loaded: str | None = "open"
    elif matches or any("requires use of the NVIDIA open kernel modules" in line for line in log):
        loaded = "proprietary"
    else:
        loaded, evidence = driver.flavour, ()
        wrong = {"proprietary": "required", "open": "impossible"}.get(loaded or "")
        gpu = next((name for name, cc in _cards(facts) if wrong and (row := tables.gpu(cc)) and row.open_module == wrong), None)
    needed, variant = ("open", None) if loaded == "proprietary" else ("proprietary", "proprietary")
    return Hit({"driver": driver.version, "gpu": gpu, "needed": needed, "loaded": loaded}, evidence, variant=variant) if gpu else None


@check(needs="driver", reads="system driver gpus cuda_driver torch devices container launcher symptoms")
def driver_no_devices(facts: Facts, matches: Matches) -> Answer:
    driver, gpus = facts.driver, facts.gpus
    if cuda_answers(facts) or facts.system.wsl or counted(gpus) or facts.devices.devices:
        return None
    shut = closed(gpus)
    empty = smi_failed(driver, NOT_FOUND, NO_GPU) or (driver.nvml.status is ToolStatus.OK and gpus != GpusFacts())
    blocked = smi_failed(driver, *CLOSED)
    if not (empty or blocked or matches):
        return None
    without_node = driver.device_nodes is not None and not gpu_nodes(driver) and (driver.gpu_count_proc or 0) > 0
    said = foremost(matches, "bar", "refused", "firmware", "manager")
    variant = "closed" if shut else "blocked" if blocked else "node" if without_node else said
    if driver != DriverFacts() and (facts.launcher.scheduler == "slurm" or contained(facts.container)):
        variant = "slurm" if facts.launcher.scheduler == "slurm" else "container"
    unwanted = wants_cuda(facts.torch, facts.absent) is False and not of_programs(matches)
    severity = Severity.INFO if unwanted and shut else Severity.WARNING if unwanted and not nvidia_on_bus(facts.system) else None
    nodes = None if driver.device_nodes is None else ", ".join(driver.device_nodes) or "none"
    values = {"nodes": nodes, "driver": driver.version or "of unknown version", "count": len({place(one) for one in shut})}
    values["code"] = value(matches, "code") or "43"
    evidence = distinct((*smi_evidence(driver), *heard(troubles(gpus)), *quoted(matches)))
    return Hit(values, evidence, variant=variant, severity=severity)
