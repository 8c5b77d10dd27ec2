"""The NVIDIA driver: is it there, loaded, new enough, and of the right kind for the GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.checks.answer import (
    absent,
    contained,
    counted,
    cuda_code,
    driver_answers,
    driver_os,
    fails,
    is_jetson,
    is_wsl,
    listed,
    nvidia_on_bus,
    torch_devices,
    trouble,
    wants_cuda,
    works,
)
from envcheck.checks.hardware import closed, heard, place, troubles
from envcheck.checks.text import distinct, holding, of_programs, quoted, said, value
from envcheck.engine.intents import TorchBuild
from envcheck.engine.rule import Answer, Confidence, Evidence, Hit, Severity, check
from envcheck.facts.nvml_codes import CLOSED, NO_GPU, NO_LIBRARY, NOT_FOUND, NOT_LOADED
from envcheck.facts.snapshot import (
    ContainerFacts,
    CudaDriverFacts,
    DevicesFacts,
    DriverFacts,
    GpusFacts,
    LauncherFacts,
    Missing,
    PythonFacts,
    SymptomsFacts,
    SystemFacts,
    TextEvidence,
    ToolkitFacts,
    ToolStatus,
    TorchFacts,
    VisibilityFacts,
)
from envcheck.tables.compat import Tables

_NO_TOOL = (ToolStatus.ABSENT, ToolStatus.SKIPPED)


def smi_failed(driver: DriverFacts, *codes: int) -> bool:
    """nvidia-smi or NVML ended with one of these codes; they share them."""
    return any(answer.status is ToolStatus.FAILED and answer.code in codes for answer in (driver.smi, driver.nvml))


def smi_evidence(driver: DriverFacts) -> tuple[Evidence, ...]:
    """nvidia-smi's and NVML's own words where they failed."""
    return tuple(
        Evidence(f"{name} ({word} {answer.code})", answer.message)
        for name, word, answer in (("nvidia-smi", "exit", driver.smi), ("NVML", "error", driver.nvml))
        if answer.status is ToolStatus.FAILED and answer.message
    )


def _no_sign(driver: DriverFacts | Missing) -> bool:
    """No file and no process of an NVIDIA driver was found."""
    if isinstance(driver, Missing):
        return absent(driver)
    if driver.fabric_manager or driver.xids or driver.cuda:
        return False  # someone spoke of its service, of its kernel log, or of what it offers
    library = driver.nvml.status in _NO_TOOL or driver.nvml.code == NO_LIBRARY
    return not (driver.version or driver.library_version or driver.module_loaded) and driver.smi.status in _NO_TOOL and library


@check(sees_missing=("system", "driver", "gpus", "cuda_driver", "visibility", "torch", "devices", "container", "symptoms"))
def driver_missing(
    system: SystemFacts | Missing,
    driver: DriverFacts | Missing,
    gpus: GpusFacts | Missing,
    cuda_driver: CudaDriverFacts | Missing,
    visibility: VisibilityFacts | Missing,
    torch: TorchFacts | Missing,
    devices: DevicesFacts | Missing,
    container: ContainerFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Answer:
    """A GPU on the bus and no driver, or a driver without the library that CUDA programs load."""
    told = said(symptoms, "driver-missing")
    told = told if nvidia_on_bus(system) else of_programs(told)
    if works(devices) or driver_answers(cuda_driver) or contained(container) or is_wsl(system) or is_jetson(system):
        return None
    cards, named = nvidia_on_bus(system), [gpu.name for gpu in listed(gpus) if gpu.name]
    gpu = named[0] if named else f"PCI {cards[0].address}, device {cards[0].device}" if cards else "unknown"
    severity = Severity.WARNING if wants_cuda(torch) is False else Severity.ERROR
    if _no_sign(driver) and (cards or named):
        nouveau = any(card.driver == "nouveau" for card in cards)
        return Hit({"gpu": gpu, "part": "NVIDIA driver"}, quoted(told), variant="nouveau" if nouveau else None, severity=severity)
    loaded = not isinstance(driver, Missing) and (driver.module_loaded or driver.version is not None)
    unlisted = not isinstance(driver, Missing) and driver.cuda_state == "N/A"
    chosen = None if isinstance(visibility, Missing) else visibility.cuda_visible_devices
    no_cuda = unlisted or (absent(cuda_driver) and chosen is None)  # a variable that hides every GPU has the same face
    no_cuda = no_cuda and not _torch_reached_libcuda(devices)
    plain = holding(told, "Found no NVIDIA driver", "libcuda.so.1")
    if not isinstance(driver, Missing) and loaded and (plain or (no_cuda and (fails(devices) or bool(told)))):
        values = {"gpu": gpu, "part": "CUDA driver library (libcuda.so.1)", "driver": driver.version}
        # NVML takes its CUDA version out of libcuda: where it has one, the library is there, if not for this process.
        # https://docs.nvidia.com/deploy/nvml-api/group__nvmlSystemQueries.html (NVML_ERROR_LIBRARY_NOT_FOUND)
        elsewhere = any(one.cuda for one in driver.readings) and not plain and not unlisted
        if elsewhere and not (cards or named):
            return None  # nor does anything say that there is a GPU
        if elsewhere:
            return Hit(values, quoted(told), variant="hidden", severity=severity, confidence=Confidence.LIKELY)
        return Hit(values, quoted(told), variant="library", severity=severity)
    management = holding(of_programs(told), "libnvidia-ml", "NVML Shared Library")
    if management and loaded and not counted(gpus) and not _smi_answered(driver):
        values = {
            "gpu": gpu,
            "part": "management library (libnvidia-ml.so.1)",
            "driver": None if isinstance(driver, Missing) else driver.version,
        }
        return Hit(values, quoted(management), variant="library", severity=severity, confidence=Confidence.LIKELY)
    if told and not loaded:
        values = {"gpu": gpu, "part": "NVIDIA driver that CUDA can load"}
        return Hit(values, quoted(told), variant="text", severity=severity, confidence=None if plain else Confidence.LIKELY)
    return None if cards or named else trouble(driver, "driver")


def _smi_answered(driver: DriverFacts | Missing) -> bool:
    return not isinstance(driver, Missing) and driver.smi.status is ToolStatus.OK


def _torch_reached_libcuda(devices: DevicesFacts | Missing) -> bool:
    """A code of CUDA, or the driver's version in "too old (found version 12020)", comes out of libcuda: it was loaded."""
    if isinstance(devices, Missing):
        return False
    said_so = any((fails_at_version(text) or 0) > 0 for text in (*devices.warnings, devices.error or ""))
    return devices.error_code is not None or said_so


def fails_at_version(text: str) -> int | None:
    """The number in "driver on your system is too old (found version 11040)" or NCCL's "Insufficient driver: 11040 < 12000"."""
    found = re.search(r"(?:found version|Insufficient driver:) (\d{4,6})", text)
    return int(found[1]) if found else None


_PTX = ("unsupported toolchain", "not supported in the installed CUDA driver", "Loader version is insufficient", "Unsupported .version")


@check(sees_missing=("system", "driver", "gpus", "cuda_driver", "torch", "devices", "symptoms"))
def driver_not_loaded(
    system: SystemFacts | Missing,
    driver: DriverFacts | Missing,
    gpus: GpusFacts | Missing,
    cuda_driver: CudaDriverFacts | Missing,
    torch: TorchFacts | Missing,
    devices: DevicesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Answer:
    """nvidia-smi exit 9, or driver files on disk and no module in the kernel."""
    told = said(symptoms, "driver-not-loaded")
    if works(devices) or driver_answers(cuda_driver) or is_wsl(system) or is_jetson(system):
        return None
    cards = nvidia_on_bus(system)
    kernel = None if isinstance(system, Missing) else system.kernel
    held = "nouveau" if holding(told, "Nouveau kernel driver is") else "held" if holding(told, "probe routine was not called") else None
    if isinstance(driver, Missing):
        return Hit({"library": None, "kernel": kernel}, quoted(told), variant=held) if told else trouble(driver, "driver")
    on_disk = driver.library_version is not None or driver.smi.status not in _NO_TOOL
    unloaded = driver.module_loaded is False and on_disk and bool(cards)
    if not (smi_failed(driver, NOT_LOADED) or unloaded or (told and driver.module_loaded is not True)):
        return None
    nouveau = driver.nouveau is True or any(card.driver == "nouveau" for card in cards)
    values = {"library": driver.library_version, "kernel": kernel}
    evidence = distinct((*smi_evidence(driver), *quoted(told)))
    if wants_cuda(torch) is False and not cards and not of_programs(told):
        # a login or build node: the tools are there for those who compile, and nothing here would use a GPU
        return Hit(values, evidence, variant="tools", severity=Severity.INFO if absent(gpus) else Severity.WARNING)
    return Hit(values, evidence, variant="nouveau" if nouveau else held)


def cuda_below(have: str, need: str) -> bool | None:
    """A driver that offers CUDA `have` cannot run a build for CUDA `need`.

    From CUDA 11 on any driver of the same major serves (minor-version compatibility); before that the number decides.
    https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
    """
    try:
        mine, wanted = ([int(part) for part in text.split(".")[:2]] for text in (have, need))
    except ValueError:
        return None
    return mine[0] < wanted[0] if wanted[0] >= 11 else mine < wanted


def _offered(driver: DriverFacts | Missing, cuda_driver: CudaDriverFacts | Missing, text: str) -> str | None:
    number = fails_at_version(text)
    if number:  # 12020 is 12.2
        return f"{number // 1000}.{number % 1000 // 10}"
    if not isinstance(cuda_driver, Missing) and cuda_driver.driver_version:
        return cuda_driver.driver_version
    return None if isinstance(driver, Missing) else driver.cuda


def _large_parameters(branch: int | None, torch: TorchFacts | Missing, toolkit: ToolkitFacts | Missing) -> bool:
    """Kernels with more than 4 KiB of parameters, which CUDA 12.1 allows, are error 801 on a driver below 530.

    https://developer.nvidia.com/blog/cuda-12-1-supports-large-kernel-parameters/
    """
    compiled = [None if isinstance(torch, Missing) else torch.cuda]
    compiled += [] if isinstance(toolkit, Missing) else [one.version for one in toolkit.nvccs]
    return bool(branch and 525 <= branch < 530) and any(one and one.startswith("12.") and not _older(one, "12.1") for one in compiled)


@check(sees_missing=("system", "driver", "gpus", "cuda_driver", "python", "toolkit", "torch", "devices", "symptoms"))
def driver_too_old(
    system: SystemFacts | Missing,
    python: PythonFacts | Missing,
    driver: DriverFacts | Missing,
    gpus: GpusFacts | Missing,
    cuda_driver: CudaDriverFacts | Missing,
    toolkit: ToolkitFacts | Missing,
    torch: TorchFacts | Missing,
    devices: DevicesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
    tables: Tables,
) -> Answer:
    """The build's CUDA needs a newer driver. Minor-version and forward compatibility are taken into account."""
    told = said(symptoms, "driver-too-old")
    refused = holding(told, "error: operation not supported", "cudaErrorNotSupported")  # has other causes, on a vGPU above all
    limits = holding(told, *_PTX)
    told = tuple(match for match in told if match not in limits and match not in refused)
    if works(devices) and not limits:
        return None
    text = " ".join([one.text for one in told] + ([] if isinstance(devices, Missing) else [devices.error or ""]))
    need = None if isinstance(torch, Missing) else torch.cuda
    offered = _offered(driver, cuda_driver, text)
    version = None if isinstance(driver, Missing) else driver.version
    if refused and _large_parameters(tables.branch(version, "linux") if version else None, torch, toolkit):
        limits += refused
    conda = not isinstance(python, Missing) and (python.has_conda_meta or python.environment == "conda")
    usual = _usual_cuda(torch, system, tables) if need is None and version and fails(devices) and not conda else None
    if usual and version and tables.driver_suffices(version, usual, driver_os(system)) is False:
        least = tables.driver_floor(usual, driver_os(system))
        known = {"driver": version, "cuda": usual, "torch": getattr(torch, "version", None), "minimum": least, "offered": offered}
        known["target"] = f"{least} or newer"
        return Hit(known, quoted(told), (TorchBuild(),), variant="usual", confidence=None if told else Confidence.LIKELY)
    floor = tables.driver_floor(need, driver_os(system)) if need else None
    offered = offered or (tables.driver_cuda(version, driver_os(system)) if version else None)
    values = {"driver": version, "offered": offered, "cuda": need, "torch": None if isinstance(torch, Missing) else torch.version}
    values["target"] = f"{floor} or newer" if floor else "the newest branch that supports this GPU"
    values |= {"minimum": floor or (f"one that offers CUDA {need}" if need else "one for the CUDA of your torch build")}
    evidence = quoted(told)
    fixes = (TorchBuild(),)
    if limits and not (offered and need and not _older(offered, need)):
        return Hit(values, quoted(limits), fixes, variant="minor", confidence=Confidence.LIKELY)
    if works(devices):
        return None
    if need is None:
        sure = fails_at_version(text) is not None or holding(told, "too old")
        guess, variant = (None, "too_old") if sure else (Confidence.LIKELY, "text")
        return Hit(values, evidence, fixes, variant=variant, confidence=guess) if told else trouble(driver, "driver")
    suffices = tables.driver_suffices(version, need, driver_os(system)) if version else None
    if offered and fails_at_version(text) and cuda_below(offered, need):
        # with a kernel driver that is new enough, an older libcuda was loaded
        if suffices:
            return Hit(values, evidence, variant="libcuda", confidence=Confidence.LIKELY)
        return Hit(values, evidence, fixes, variant=None if version and floor and suffices is False else "offered")
    if driver_answers(cuda_driver) and offered and not cuda_below(offered, need):
        return None  # cuda-compat in place
    if version and floor and suffices is not None:
        if suffices:
            return None
        name = next((gpu.name for gpu in listed(gpus) if gpu.name), None)
        bridged = tables.forward_compat(need, version, name, driver_os(system)) is True
        guess = Confidence.LIKELY if bridged and not fails(devices) and cuda_code(devices, cuda_driver) is None else None
        return Hit(values, evidence, fixes, variant="bridge" if bridged else None, confidence=guess)
    if offered and cuda_below(offered, need):
        return Hit(values, evidence, fixes, variant="offered")
    if told and not offered:
        guess, variant = (None, "too_old") if holding(told, "too old") else (Confidence.LIKELY, "text")
        return Hit(values, evidence, fixes, variant=variant, confidence=guess)
    return trouble(driver, "driver")


def _usual_cuda(torch: TorchFacts | Missing, system: SystemFacts | Missing, tables: Tables) -> str | None:
    """CUDA of the wheel that a plain `pip install` of this release brings, where only the bare version of torch is stated."""
    from envcheck.tables.archs import platform_of
    from envcheck.tables.versions import tag_named

    if isinstance(torch, Missing) or torch.cpu_build or torch.hip or torch.xpu or torch.conda or not torch.version:
        return None
    if "+" in torch.version or is_jetson(system):
        return None
    row = tables.release(torch.version)
    stated = not isinstance(system, Missing) and system.os is not None
    os, machine = (system.os or "linux", system.machine or "x86_64") if stated and not isinstance(system, Missing) else ("linux", "x86_64")
    variant = row.default_variant.get(platform_of(os, machine) or "") if row else None
    return tag_named(variant).cuda if variant else None


def _older(offered: str, need: str) -> bool:
    """A driver's CUDA number below that of the code it should load."""
    return [int(part) for part in re.findall(r"\d+", offered)[:2]] < [int(part) for part in re.findall(r"\d+", need)[:2]]


def _installed(driver: DriverFacts | Missing) -> str | None:
    """The driver's version; where its module is not loaded, which it refuses if it drives no card here, that of its files."""
    if isinstance(driver, Missing):
        return None
    return driver.version or (driver.library_version if driver.module_loaded is False else None)


def _cards(gpus: GpusFacts | Missing, system: SystemFacts | Missing, tables: Tables) -> Iterator[tuple[str, str]]:
    """Name and compute capability of each GPU; from the PCI bus for those that the driver does not show."""
    for gpu in listed(gpus):
        cc = gpu.compute_capability or (tables.compute_capability(gpu.name) if gpu.name else None)
        if cc:
            yield gpu.name or f"GPU {gpu.index}", cc
    for card in () if listed(gpus) else nvidia_on_bus(system):
        cc = tables.compute_capability_of_pci(card.device)
        if cc:
            yield f"GPU at PCI {card.address}", cc


@check(sees_missing=("system", "driver", "gpus", "cuda_driver", "devices", "symptoms"))
def driver_too_old_for_gpu(
    system: SystemFacts | Missing,
    driver: DriverFacts | Missing,
    gpus: GpusFacts | Missing,
    cuda_driver: CudaDriverFacts | Missing,
    devices: DevicesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
    tables: Tables,
) -> Answer:
    """The GPU came out after this driver branch."""
    if works(devices) or driver_answers(cuda_driver) or is_jetson(system):
        return None
    told = said(symptoms, "driver-too-old-for-gpu")
    version = _installed(driver)
    branch = tables.branch(version, driver_os(system)) if version else None
    for name, cc in _cards(gpus, system, tables):
        row = tables.gpu(cc)
        if branch and row and row.first_driver and branch < int(row.first_driver) and row.confidence != "low":
            return Hit({"gpu": name, "driver": version, "minimum": tables.first_driver(name) or row.first_driver, "cc": cc}, quoted(told))
    own = tables.gpu(tables.compute_capability_of_pci(value(told, "device") or "") or "")
    stated = value(told, "driver")
    spoken = tables.branch(stated, driver_os(system)) if stated else branch
    if own and own.first_driver and spoken and spoken >= int(own.first_driver):
        told = ()  # that branch knows the chip: it is a vGPU, which needs its guest driver, or one that answers wrongly
    nameless = [gpu for gpu in listed(gpus) if gpu.name in ("NVIDIA Graphics Device", "Graphics Device")]
    if nameless and fails(devices):
        return Hit({"gpu": nameless[0].name, "driver": version}, quoted(told), variant="nameless", confidence=Confidence.LIKELY)
    return Hit({"gpu": "this GPU", "driver": version}, quoted(told), variant="text") if told else trouble(driver, "driver")


@check(sees_missing=("system", "driver", "gpus", "cuda_driver", "devices", "symptoms"))
def driver_dropped_gpu(
    system: SystemFacts | Missing,
    driver: DriverFacts | Missing,
    gpus: GpusFacts | Missing,
    cuda_driver: CudaDriverFacts | Missing,
    devices: DevicesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
    tables: Tables,
) -> Answer:
    """The driver branch no longer serves a GPU this old, and no other GPU is usable."""
    if works(devices) or driver_answers(cuda_driver):
        return None
    told = said(symptoms, "driver-dropped-gpu")
    version = _installed(driver)
    branch = tables.branch(version, driver_os(system)) if version else None
    rows = [(name, tables.gpu(cc)) for name, cc in _cards(gpus, system, tables)]
    dropped = [(name, row) for name, row in rows if branch and row and row.last_branch and branch > row.last_branch]
    if dropped and len(dropped) == len(rows):
        name, row = dropped[0]
        return Hit({"gpu": name, "driver": version, "last": row.last_branch, "arch": row.architecture}, quoted(told))
    if counted(gpus):
        told = ()  # it ignores one card beside others that it drives
    if last := value(told, "branch"):
        return Hit({"gpu": "this GPU", "driver": version or value(told, "driver"), "last": last}, quoted(told), variant="log")
    return Hit({"gpu": "this GPU", "driver": version}, quoted(told), variant="text") if told else trouble(driver, "driver")


@check(sees_missing=("system", "driver", "gpus", "devices", "cuda_driver", "symptoms"))
def driver_needs_open_module(
    system: SystemFacts | Missing,
    driver: DriverFacts | Missing,
    gpus: GpusFacts | Missing,
    devices: DevicesFacts | Missing,
    cuda_driver: CudaDriverFacts | Missing,
    symptoms: SymptomsFacts | Missing,
    tables: Tables,
) -> Answer:
    """Blackwell under the proprietary module, or a GPU without GSP under the open one."""
    if works(devices) or driver_answers(cuda_driver):
        return None
    told = said(symptoms, "driver-needs-open-module")
    values: dict[str, object] = {"driver": None if isinstance(driver, Missing) else driver.version}
    log = () if isinstance(driver, Missing) else tuple(line for line in driver.kernel_messages if "open" in line.lower())
    lines = [one.text for one in told] + list(log)
    evidence = (*quoted(told), *(Evidence("kernel log", line) for line in log[:2]))
    if any("not supported by open" in line or "include the required GPU" in line for line in lines):
        if counted(gpus):
            return None  # one card beside others that work
        device = value(told, "device")
        row = tables.gpu(tables.compute_capability_of_pci(device) or "") if device else None
        if row and row.open_module != "impossible":
            return None  # the card has that processor: the driver could not read what chip it is
        return Hit(values | {"gpu": "this GPU", "needed": "proprietary", "loaded": "open"}, evidence, variant="proprietary")
    if told or any("requires use of the NVIDIA open kernel modules" in line for line in lines):
        return Hit(values | {"gpu": "this GPU", "needed": "open", "loaded": "proprietary"}, evidence)
    if isinstance(driver, Missing):
        return trouble(driver, "driver")
    wrong = {"proprietary": "required", "open": "impossible"}.get(driver.flavour or "")
    for name, cc in _cards(gpus, system, tables):
        row = tables.gpu(cc)
        if wrong and row and row.open_module == wrong:
            needed, variant = ("open", None) if wrong == "required" else ("proprietary", "proprietary")
            return Hit(values | {"gpu": name, "needed": needed, "loaded": driver.flavour}, variant=variant)
    return None


def _refusal(told: tuple[TextEvidence, ...]) -> str | None:
    """What the kernel module says against the card."""
    if holding(told, "PCI I/O region", "re-allocate BAR"):
        return "bar"
    return "refused" if holding(told, "is not supported by the") else "firmware" if holding(told, "/gsp", "for nvidia/") else None


@check(sees_missing=("system", "driver", "gpus", "cuda_driver", "torch", "devices", "container", "launcher", "symptoms"))
def driver_no_devices(
    system: SystemFacts | Missing,
    driver: DriverFacts | Missing,
    gpus: GpusFacts | Missing,
    cuda_driver: CudaDriverFacts | Missing,
    torch: TorchFacts | Missing,
    devices: DevicesFacts | Missing,
    container: ContainerFacts | Missing,
    launcher: LauncherFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Answer:
    """The driver runs and offers no GPU, or its control device is closed to this process."""
    if works(devices) or driver_answers(cuda_driver) or is_wsl(system) or counted(gpus) or torch_devices(devices):
        return None
    told = said(symptoms, "driver-no-devices")
    if isinstance(driver, Missing):
        return Hit({"nodes": None, "driver": None}, quoted(told), variant=_refusal(told)) if told else trouble(driver, "driver")
    empty = smi_failed(driver, NOT_FOUND, NO_GPU) or (driver.nvml.status is ToolStatus.OK and not isinstance(gpus, Missing))
    blocked = smi_failed(driver, *CLOSED)
    if not (empty or blocked or told):
        return None
    shut = closed(gpus)
    nodes = driver.device_nodes
    numbered = nodes is None or any(name.removeprefix("nvidia").isdecimal() for name in nodes)
    variant = "closed" if shut else "blocked" if blocked else _refusal(told)
    if not isinstance(launcher, Missing) and launcher.scheduler == "slurm":
        variant = "slurm"
    elif contained(container):
        variant = "container"
    elif not shut and not blocked and not numbered and (driver.gpu_count_proc or 0) > 0:
        variant = "node"
    unwanted = wants_cuda(torch) is False and not of_programs(told)
    severity = Severity.INFO if unwanted and shut else Severity.WARNING if unwanted and not nvidia_on_bus(system) else None
    values = {"nodes": ", ".join(nodes) if nodes else "none", "driver": driver.version or "of unknown version"}
    values["count"] = str(len({place(one) for one in shut}))
    evidence = distinct((*smi_evidence(driver), *heard(troubles(gpus)), *quoted(told)))
    return Hit(values, evidence, variant=variant, severity=severity)


CHECKS = (
    driver_missing,
    driver_not_loaded,
    driver_too_old,
    driver_too_old_for_gpu,
    driver_dropped_gpu,
    driver_needs_open_module,
    driver_no_devices,
)
