"""Containers and WSL: the GPU reaches the inside, and keeps reaching it."""

from __future__ import annotations

import re

from envcheck.checks.answer import (
    absent,
    contained,
    counted,
    cuda_code,
    driver_answers,
    fails,
    listed,
    nvidia_on_bus,
    trouble,
    wants_cuda,
    works,
)
from envcheck.checks.driver import cuda_below, smi_evidence, smi_failed
from envcheck.checks.text import alone, holding, mentioning, of_programs, quoted, said, value
from envcheck.engine.rule import Answer, Confidence, Evidence, Hit, Severity, check
from envcheck.facts.cuda_codes import INSUFFICIENT_DRIVER
from envcheck.facts.nvml_codes import BLOCKED, NO_LIBRARY, NOT_LOADED, SMI_OTHER, UNKNOWN
from envcheck.facts.snapshot import (
    ContainerFacts,
    CudaDriverFacts,
    DevicesFacts,
    DriverFacts,
    GpusFacts,
    LimitsFacts,
    Missing,
    RocmFacts,
    SymptomsFacts,
    SystemFacts,
    ToolStatus,
    TorchFacts,
    VisibilityFacts,
)

# Below it the kernel that Microsoft ships for WSL 2 has no usable GPU support for CUDA.
# https://learn.microsoft.com/windows/ai/directml/gpu-cuda-in-wsl
WSL_KERNEL = (5, 10, 43)
WSL_LIBRARIES = "/usr/lib/wsl"
# What the tools of Linux's driver answer inside WSL, where there is no such driver.
_FOREIGN = (NOT_LOADED, NO_LIBRARY, BLOCKED, SMI_OTHER, UNKNOWN)


def _lacks_compute(container: ContainerFacts) -> bool:
    """NVIDIA_DRIVER_CAPABILITIES without `compute`: nvidia-smi is there, libcuda is not. Unset means utility,compute."""
    asked = {one.strip() for one in (container.driver_capabilities or "").split(",") if one.strip()}
    return bool(asked) and not asked & {"compute", "all"}


@check(sees_missing=("system", "driver", "gpus", "cuda_driver", "visibility", "container", "rocm", "torch", "devices", "symptoms"))
def container_without_gpu(
    system: SystemFacts | Missing,
    driver: DriverFacts | Missing,
    gpus: GpusFacts | Missing,
    cuda_driver: CudaDriverFacts | Missing,
    visibility: VisibilityFacts | Missing,
    container: ContainerFacts | Missing,
    rocm: RocmFacts | Missing,
    torch: TorchFacts | Missing,
    devices: DevicesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Answer:
    """The host has a GPU and the container was started without it. A container without any GPU in sight is left alone."""
    every = said(symptoms, "container-without-gpu")
    own = alone(symptoms, "container-without-gpu")
    handed = holding(own, "could not select device driver", "invalid runtime name", "unresolvable CDI devices")
    if handed:
        return Hit({"runtime": "docker"}, quoted(handed), variant="toolkit")
    if unknown := holding(own, "no runtime for", "RuntimeHandler", "Command not found: nvidia-container-cli"):
        return Hit({"runtime": "container"}, quoted(unknown), variant="runtime")
    if brought := holding(own, ": file exists"):
        return Hit({"runtime": "container", "library": value(brought, "library")}, quoted(brought), variant="brought")
    if older := holding(own, "Error: stat nvidia.com/gpu"):
        return Hit({"runtime": "podman", "device": value(older, "device")}, quoted(older), variant="podman")
    bare = holding(own, "Could not find any nv")
    if bare and len(bare) == len(own) and (isinstance(container, Missing) or not nvidia_on_bus(system)):
        # said with --nv on every host without a driver, and no complaint where the work is for the CPU
        wanted = bool(listed(gpus)) and not works(devices)
        severity = Severity.ERROR if wanted else Severity.WARNING
        return Hit({"runtime": "apptainer"}, quoted(bare), variant="host", severity=severity, confidence=Confidence.LIKELY)
    if stale := holding(own, "CDI host device"):
        return Hit({"runtime": "container", "device": value(stale, "device")}, quoted(stale), variant="cdi")
    if holding(own, "Insufficient nvidia.com/gpu"):
        return Hit({"runtime": "pod"}, quoted(own), variant="scheduling")
    if isinstance(container, Missing) or works(devices) or driver_answers(cuda_driver):
        return Hit({"runtime": "container"}, quoted(own), variant="text") if own and not works(devices) else None
    nodes = None if isinstance(driver, Missing) else driver.device_nodes
    runtime = container.runtime or ""
    values: dict[str, object] = {
        "runtime": f"{runtime} container".strip(),
        "capabilities": container.driver_capabilities,
        "gpus": len(nvidia_on_bus(system)),
    }
    raw = None if isinstance(visibility, Missing) else visibility.nvidia_visible_devices
    values["visible"] = "unset" if raw is None else raw
    no_library = absent(cuda_driver) or (not isinstance(driver, Missing) and driver.cuda_state == "N/A")
    if _lacks_compute(container) and (no_library or cuda_code(devices, cuda_driver) == INSUFFICIENT_DRIVER) and not absent(driver):
        return Hit(values, quoted(every), variant="capabilities")
    if counted(gpus) or (nodes and any(name.removeprefix("nvidia").isdecimal() for name in nodes)):
        return Hit(values, quoted(own), variant="text") if own else None
    host_driver = not isinstance(driver, Missing) and bool(driver.module_loaded or driver.gpu_count_proc)
    there = bool(nvidia_on_bus(system)) or host_driver
    hidden = not isinstance(visibility, Missing) and visibility.cuda_visible_devices is not None
    # a version that only a person or a report names is the host's: it says nothing of this container
    unseen = isinstance(driver, Missing) or (driver.module_loaded is None and driver.smi.status is not ToolStatus.OK)
    other = not isinstance(rocm, Missing) and not listed(gpus)  # the GPU is AMD's: no NVIDIA driver is to be found
    shared = of_programs(every) if unseen and not hidden and not other else ()
    if not isinstance(driver, Missing) and driver.version:  # then "insufficient" is a matter of numbers
        shared = tuple(match for match in shared if match not in holding(shared, "insufficient", "cudaErrorInsufficientDriver"))
    if (there and wants_cuda(torch) is not False) or own or shared:
        evidence = quoted(own or every)
        if not isinstance(driver, Missing):
            evidence += smi_evidence(driver)
        variant = {"apptainer": "apptainer", "singularity": "apptainer"}.get(runtime) or ("kubernetes" if container.kubernetes else None)
        if not (there or own):
            return Hit(values, evidence, variant="guess", confidence=Confidence.LIKELY)
        return Hit(values, evidence, variant=variant if there else "text")
    return trouble(driver, "driver")


_TERM = re.compile(r"(cuda|driver)\s*(>=|<=|>|<|=)\s*(\d{1,4}(?:\.\d{1,4})?)")


def requirement_met(requirement: str, cuda: str | None, driver: str | None) -> bool | None:
    """NVIDIA_REQUIRE_CUDA: alternatives are separated by spaces, conditions of one by commas; brands are not judged.

    "cuda>=12.8 brand=unknown,driver>=470,driver<471 brand=tesla,driver>=535,driver<536"
    https://github.com/NVIDIA/nvidia-container-toolkit, internal/config/image
    """
    answers: list[bool | None] = []
    for alternative in requirement.split():
        results: list[bool | None] = [None] if "brand" in alternative or "arch" in alternative else []
        for name, sign, number in _TERM.findall(alternative):
            have = cuda if name == "cuda" else driver
            results.append(None if have is None else _compare(have, sign, number))
        if results:
            answers.append(False if False in results else None if None in results else True)
    return True if True in answers else None if None in answers or not answers else False


def _compare(have: str, sign: str, number: str) -> bool:
    places = number.count(".") + 1
    mine = [int(part) for part in re.findall(r"\d+", have)[:places]]
    wanted = [int(part) for part in number.split(".")]
    return {">=": mine >= wanted, "<=": mine <= wanted, ">": mine > wanted, "<": mine < wanted, "=": mine == wanted}[sign]


@check(sees_missing=("driver", "gpus", "cuda_driver", "container", "devices", "symptoms"))
def container_cuda_requirement(
    driver: DriverFacts | Missing,
    gpus: GpusFacts | Missing,
    cuda_driver: CudaDriverFacts | Missing,
    container: ContainerFacts | Missing,
    devices: DevicesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Answer:
    """The image asks for a newer CUDA than the host's driver offers."""
    told = said(symptoms, "container-cuda-requirement")
    if works(devices) or driver_answers(cuda_driver):
        return None
    version = None if isinstance(driver, Missing) else driver.version
    offers = None if isinstance(driver, Missing) else driver.cuda
    if told:
        found = re.search(r"cuda\s*>=\s*(\d{1,2}\.\d{1,2})", told[0].text)
        need = found[1] if found else None
        if need and offers and not _compare(offers, "<", need):
            return None
        values = {"need": need or "a newer CUDA", "driver": version or "of the host", "offers": offers or "less"}
        return Hit(values, quoted(told), variant=None if offers else "text")
    if isinstance(container, Missing) or not container.cuda_requirement or not offers or not fails(devices):
        return None
    found = re.search(r"cuda\s*>=\s*(\d{1,2}\.\d{1,2})", container.cuda_requirement)
    need = found[1] if found else None
    if not need or cuda_below(offers, need) is not True or requirement_met(container.cuda_requirement, offers, version) is not False:
        return None
    evidence = (Evidence("NVIDIA_REQUIRE_CUDA", container.cuda_requirement),)
    return Hit({"need": need, "driver": version, "offers": offers}, evidence)


@check(sees_missing=("system", "driver", "gpus", "cuda_driver", "container", "devices", "symptoms"))
def container_lost_gpu(
    system: SystemFacts | Missing,
    driver: DriverFacts | Missing,
    gpus: GpusFacts | Missing,
    cuda_driver: CudaDriverFacts | Missing,
    container: ContainerFacts | Missing,
    devices: DevicesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Answer:
    """NVML "Unknown Error" in a container that had the GPU: its device rules were rewritten."""
    told = said(symptoms, "container-lost-gpu")
    failing = of_programs(told)  # in a text that also shows the host, the host's list of GPUs is no answer from inside
    if works(devices) or driver_answers(cuda_driver) or (listed(gpus) if not failing else counted(gpus) and absent(container)):
        return None
    if not isinstance(system, Missing) and system.wsl is not None:
        return None
    failed = not isinstance(driver, Missing) and any(
        answer.status is ToolStatus.FAILED and (answer.code in (SMI_OTHER, UNKNOWN) or "unknown error" in answer.message.lower())
        for answer in (driver.smi, driver.nvml)
    )
    if not (failed or told):
        return trouble(driver, "driver") if contained(container) else None
    bare = absent(container)
    if (bare and not fails(devices)) or (failed and not told and not bare and not contained(container)):
        return None
    evidence = quoted(told) if isinstance(driver, Missing) else (*smi_evidence(driver), *quoted(told))
    runtime = "container" if isinstance(container, Missing) else f"{container.runtime or ''} container".strip()
    guess = None if contained(container) else Confidence.LIKELY
    return Hit({"runtime": runtime}, evidence, variant="bare" if bare else "guess" if guess else None, confidence=guess)


def _numbers(text: str | None) -> tuple[int, ...]:
    """ "5.10.16.3-microsoft-standard-WSL2" → (5, 10, 16)."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", text or "")
    return tuple(int(part) for part in found.groups()) if found else ()


@check(sees_missing=("driver", "gpus", "cuda_driver", "torch", "devices", "container", "limits", "symptoms"))
def wsl_driver(
    system: SystemFacts,
    driver: DriverFacts | Missing,
    gpus: GpusFacts | Missing,
    cuda_driver: CudaDriverFacts | Missing,
    torch: TorchFacts | Missing,
    devices: DevicesFacts | Missing,
    container: ContainerFacts | Missing,
    limits: LimitsFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Answer:
    """WSL: version 1, an old kernel, a Linux driver over the mapped one, or its folder out of the loader's sight."""
    if system.wsl is None:
        return None
    told = said(symptoms, "wsl-driver")
    hidden = mentioning(
        symptoms,
        "libcuda.so: cannot open shared object file",
        "Failed to dlopen libcuda.so",
        "libcuda.so cannot found",
        "cannot find -lcuda",
    )
    if amd := holding(told, "hsa_init Failed"):
        return None if works(devices) else Hit({"kernel": system.kernel}, quoted(amd), variant="amd")
    values: dict[str, object] = {"kernel": system.kernel, "library": None if isinstance(cuda_driver, Missing) else cuda_driver.library_path}
    if hidden:
        return Hit(values, quoted(hidden), variant="path")
    if works(devices) or driver_answers(cuda_driver) or wants_cuda(torch) is False:
        return None
    if system.wsl == 1:
        return Hit(values, quoted(told), variant="one")
    kernel = _numbers(system.kernel)
    if kernel and kernel < WSL_KERNEL:
        return Hit(values, quoted(told), variant="kernel", confidence=None if fails(devices) or told else Confidence.LIKELY)
    broken = not isinstance(driver, Missing) and (smi_failed(driver, *_FOREIGN) or driver.cuda_state == "ERR!")
    library = "" if isinstance(cuda_driver, Missing) else cuda_driver.library_path or ""
    foreign = library != "" and not library.startswith(WSL_LIBRARIES) and "/drivers/" not in library and not contained(container)
    evidence = quoted(told) if isinstance(driver, Missing) else (*smi_evidence(driver), *quoted(told))
    if foreign and (fails(devices) or cuda_code(devices, cuda_driver)):
        return Hit(values, evidence, variant="linux_driver")
    if absent(cuda_driver) and fails(devices) and not listed(gpus):
        return Hit(values, evidence, variant="unmapped", confidence=Confidence.LIKELY)
    if broken or told:
        sure = broken or alone(symptoms, "wsl-driver")
        return Hit(values, evidence, confidence=None if sure else Confidence.LIKELY)
    return None


CHECKS = (container_without_gpu, container_cuda_requirement, container_lost_gpu, wsl_driver)
