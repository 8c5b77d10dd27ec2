"""Containers and WSL: the GPU reaches the inside, and keeps reaching it."""

from __future__ import annotations

import re

from envcheck.checks.answer import contained, counted, cuda_code, driver_answers, fails, nvidia_on_bus, wants_cuda, works
from envcheck.checks.driver import cuda_below, smi_evidence, smi_failed
from envcheck.checks.hardware import gpu_nodes
from envcheck.checks.text import Matches, agreed, alone, foremost, of_programs, of_symptom, of_variant, quoted, said, value
from envcheck.engine.rule import Answer, Confidence, Evidence, Hit, Severity, check
from envcheck.facts.cuda_codes import INSUFFICIENT_DRIVER
from envcheck.facts.nvml_codes import BLOCKED, NO_LIBRARY, NOT_LOADED, SMI_OTHER, UNKNOWN
from envcheck.facts.snapshot import (
    ContainerFacts,
    CudaDriverFacts,
    DevicesFacts,
    DriverFacts,
    GpusFacts,
    RocmFacts,
    SymptomsFacts,
    SystemFacts,
    ToolStatus,
    TorchFacts,
    VisibilityFacts,
)
from envcheck.tables import versions

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


def _by_tool(own: Matches, outside: bool, wanted: bool) -> Hit | None:
    """What the tool that starts containers said."""
    variant = foremost(own, "toolkit", "runtime", "brought", "podman", "cdi", "scheduling")
    if variant:
        lines = of_variant(own, variant)
        return Hit({"library": value(lines, "library"), "device": value(lines, "device")}, quoted(lines), variant=variant)
    if agreed(own) != "host" or not outside:
        return None
    # said with --nv on every host without a driver, and no complaint where the work is for the CPU
    severity = Severity.ERROR if wanted else Severity.WARNING
    return Hit({}, quoted(own), variant="host", severity=severity, confidence=Confidence.LIKELY)


@check(needs=("driver",))
def container_without_gpu(
    system: SystemFacts,
    driver: DriverFacts,
    gpus: GpusFacts,
    cuda_driver: CudaDriverFacts,
    visibility: VisibilityFacts,
    container: ContainerFacts,
    rocm: RocmFacts,
    torch: TorchFacts,
    devices: DevicesFacts,
    symptoms: SymptomsFacts,
    absent: frozenset[str],
) -> Answer:
    """The host has a GPU and the container was started without it. A container without any GPU in sight is left alone."""
    every, own = said(symptoms, "container-without-gpu"), alone(symptoms, "container-without-gpu")
    cards, inside = nvidia_on_bus(system), contained(container)
    if hit := _by_tool(own, not (inside and cards), bool(gpus.devices) and not works(devices)):
        return hit
    if works(devices) or driver_answers(cuda_driver) or not inside:
        return Hit({"runtime": "container"}, quoted(own), variant="text") if own and not works(devices) else None
    values = _values(container, visibility, len(cards))
    no_library = "cuda_driver" in absent or driver.cuda_state == "N/A"
    if _lacks_compute(container) and (no_library or cuda_code(devices, cuda_driver) == INSUFFICIENT_DRIVER) and "driver" not in absent:
        return Hit(values, quoted(every), variant="capabilities")
    if counted(gpus) or gpu_nodes(driver):
        return Hit(values, quoted(own), variant="text") if own else None
    there = bool(cards or driver.module_loaded or driver.gpu_count_proc)
    evidence = (*quoted(own or every), *smi_evidence(driver))
    if own or (there and wants_cuda(torch, absent) is not False):
        return Hit(values, evidence, variant=_starter(container) if there else "text")
    hidden = visibility.cuda_visible_devices is not None or (rocm != RocmFacts() and not gpus.devices)  # or the GPU is AMD's
    if hidden or not _complains(driver, every):
        return None
    return Hit(values, evidence, variant=_starter(container) if there else "guess", confidence=None if there else Confidence.LIKELY)


def _values(container: ContainerFacts, visibility: VisibilityFacts, cards: int) -> dict[str, object]:
    raw = visibility.nvidia_visible_devices
    known = {"runtime": f"{container.runtime or ''} container".strip(), "visible": "unset" if raw is None else raw, "gpus": cards}
    return {**known, "capabilities": container.driver_capabilities}


def _starter(container: ContainerFacts) -> str | None:
    return "apptainer" if container.runtime in ("apptainer", "singularity") else "kubernetes" if container.kubernetes else None


def _complains(driver: DriverFacts, matches: Matches) -> bool:
    """Words of a program that fit other causes too, where nothing of a driver was seen from inside."""
    # a version that only a person or a report names is the host's: it says nothing of this container
    if driver.module_loaded is not None or driver.smi.status is ToolStatus.OK:
        return False
    numbers = "cuda-35" if driver.version else ""  # a driver that is too old is a matter of numbers then
    return any(match.symptom != numbers for match in of_programs(matches))


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
    mine, wanted = versions.version(have).release[:places], versions.version(number).release
    return {">=": mine >= wanted, "<=": mine <= wanted, ">": mine > wanted, "<": mine < wanted, "=": mine == wanted}[sign]


@check(needs=("container", "driver"))
def container_cuda_requirement(
    driver: DriverFacts, cuda_driver: CudaDriverFacts, container: ContainerFacts, devices: DevicesFacts, symptoms: SymptomsFacts
) -> Answer:
    """The image asks for a newer CUDA than the host's driver offers."""
    matches = said(symptoms, "container-cuda-requirement")
    if works(devices) or driver_answers(cuda_driver):
        return None
    version, offers, wanted = driver.version, driver.cuda, value(matches, "condition") or container.cuda_requirement or ""
    found = re.search(r"cuda\s*>=\s*(\d{1,2}\.\d{1,2})", wanted)
    need = found[1] if found else None
    if matches:
        values = {"need": need or "a newer CUDA", "driver": version or "of the host", "offers": offers or "less"}
        met = need and offers and not _compare(offers, "<", need)
        return None if met else Hit(values, quoted(matches), variant=None if offers else "text")
    if not (need and offers and fails(devices) and cuda_below(offers, need)) or requirement_met(wanted, offers, version) is not False:
        return None
    return Hit({"need": need, "driver": version, "offers": offers}, (Evidence("NVIDIA_REQUIRE_CUDA", wanted),))


@check(needs=("driver",))
def container_lost_gpu(
    system: SystemFacts,
    driver: DriverFacts,
    gpus: GpusFacts,
    cuda_driver: CudaDriverFacts,
    container: ContainerFacts,
    devices: DevicesFacts,
    symptoms: SymptomsFacts,
    absent: frozenset[str],
) -> Answer:
    """NVML "Unknown Error" in a container that had the GPU: its device rules were rewritten."""
    matches, bare, inside = said(symptoms, "container-lost-gpu"), "container" in absent, contained(container)
    # in a text that also shows the host, the host's list of GPUs is no answer from inside
    seen = counted(gpus) and bare if of_programs(matches) else gpus.devices
    if works(devices) or driver_answers(cuda_driver) or seen or system.wsl:
        return None
    failed = any(
        answer.status is ToolStatus.FAILED and (answer.code in (SMI_OTHER, UNKNOWN) or "unknown error" in answer.message.lower())
        for answer in (driver.smi, driver.nvml)
    )
    if not matches and not (failed and (bare or inside)):
        return None
    if bare and not fails(devices):
        return None
    values = {"runtime": f"{container.runtime or ''} container".strip()}
    variant, guess = ("bare" if bare else None if inside else "guess"), None if inside else Confidence.LIKELY
    return Hit(values, (*smi_evidence(driver), *quoted(matches)), variant=variant, confidence=guess)


@check(needs=("system",))
def wsl_driver(
    system: SystemFacts,
    driver: DriverFacts,
    gpus: GpusFacts,
    cuda_driver: CudaDriverFacts,
    torch: TorchFacts,
    devices: DevicesFacts,
    container: ContainerFacts,
    symptoms: SymptomsFacts,
    absent: frozenset[str],
) -> Answer:
    """WSL: version 1, an old kernel, a Linux driver over the mapped one, or its folder out of the loader's sight."""
    matches = said(symptoms, "wsl-driver")
    if old := tuple(match for match in matches if match.symptom == "nccl-without-wsl"):  # the row itself asks for WSL
        return Hit({"path": value(old, "path")}, quoted(old), variant="nccl")
    if system.wsl is None:
        return None
    values: dict[str, object] = {"kernel": system.kernel, "library": cuda_driver.library_path}
    if amd := of_variant(matches, "amd"):
        return None if works(devices) else Hit(values, quoted(amd), variant="amd")
    if hidden := of_symptom(symptoms, "libcuda-plain-name", "triton-libcuda", "triton-ld-lcuda"):
        return Hit(values, quoted(hidden), variant="path")
    if works(devices) or driver_answers(cuda_driver) or wants_cuda(torch, absent) is False:
        return None
    if system.wsl == 1:
        return Hit(values, quoted(matches), variant="one")
    kernel = re.match(r"(\d+)\.(\d+)\.(\d+)", system.kernel or "")  # "5.10.16.3-microsoft-standard-WSL2"
    if kernel and tuple(int(part) for part in kernel.groups()) < WSL_KERNEL:
        return Hit(values, quoted(matches), variant="kernel", confidence=None if fails(devices) or matches else Confidence.LIKELY)
    evidence = (*smi_evidence(driver), *quoted(matches))
    if _foreign(cuda_driver.library_path or "", container) and (fails(devices) or cuda_code(devices, cuda_driver)):
        return Hit(values, evidence, variant="linux_driver")
    if "cuda_driver" in absent and fails(devices) and not gpus.devices:
        return Hit(values, evidence, variant="unmapped", confidence=Confidence.LIKELY)
    broken = smi_failed(driver, *_FOREIGN) or driver.cuda_state == "ERR!"
    sure = broken or alone(symptoms, "wsl-driver")
    return Hit(values, evidence, confidence=None if sure else Confidence.LIKELY) if broken or matches else _unseen(values, symptoms)


def _unseen(values: dict[str, object], symptoms: SymptomsFacts) -> Hit | None:
    """Somebody says that torch sees nothing in a WSL, and no more."""
    matches = of_symptom(symptoms, "cuda-says-false")
    return Hit(values, quoted(matches), variant="unseen", confidence=Confidence.LIKELY) if matches else None


def _foreign(library: str, container: ContainerFacts) -> bool:
    """A libcuda that is not the one that Windows maps into WSL."""
    return library != "" and not library.startswith(WSL_LIBRARIES) and "/drivers/" not in library and not contained(container)
