"""Containers and WSL: the GPU reaches the inside, and keeps reaching it."""

from __future__ import annotations

import re

from envcheck.checks.answer import contained, counted, cuda_answers, cuda_code, fails, nvidia_on_bus, wants_cuda, works
from envcheck.checks.driver import smi_evidence, smi_failed
from envcheck.checks.hardware import gpu_nodes
from envcheck.checks.own_command import with_gpu
from envcheck.checks.text import agreed, alone, cite, doubt, first_of, foremost, of_programs, of_symptom, of_variant, quoted, value
from envcheck.engine.rule import Answer, Confidence, Evidence, Facts, Hit, Matches, Severity, check
from envcheck.facts.cuda_codes import INSUFFICIENT_DRIVER, OUT_OF_MEMORY
from envcheck.facts.nvml_codes import BLOCKED, NO_LIBRARY, NOT_LOADED, SMI_OTHER, UNKNOWN
from envcheck.facts.snapshot import ContainerFacts, DriverFacts, RocmFacts, ToolStatus
from envcheck.tables import versions

# Below it the kernel that Microsoft ships for WSL 2 has no usable GPU support for CUDA.
# https://learn.microsoft.com/windows/ai/directml/gpu-cuda-in-wsl
WSL_KERNEL = (5, 10, 43)
# The first branch of Windows drivers that brings CUDA into WSL 2; earlier ones did so as previews alone.
# https://docs.nvidia.com/cuda/archive/11.4.4/wsl-user-guide/index.html
WSL_DRIVER = "470"
# From this many GPUs on users report that CUDA in WSL 2 starts with fewer of them only (https://github.com/microsoft/WSL/issues).
MANY_FOR_WSL = 3
WSL_LIBRARIES = "/usr/lib/wsl"
# What the tools of Linux's driver answer inside WSL, where there is no such driver.
_FOREIGN = (NOT_LOADED, NO_LIBRARY, BLOCKED, SMI_OTHER, UNKNOWN)
# What the tools that start containers say, and what people tell of those; the nearest to a cure first.
_TOLD = ("toolkit", "runtime", "driver", "brought", "podman", "cdi", "unlisted", "cgroups", "ldconfig", "plugin", "scheduling", "selinux")
_SURROUNDINGS = ("build", "lxc", "utility", "runtime_class")


def _lacks_compute(container: ContainerFacts) -> bool:
    """NVIDIA_DRIVER_CAPABILITIES without `compute`: nvidia-smi is there, libcuda is not. Unset means utility,compute."""
    asked = {one.strip() for one in (container.driver_capabilities or "").split(",") if one.strip()}
    return bool(asked) and not asked & {"compute", "all"}


def _by_tool(own: Matches, outside: bool, wanted: bool) -> Hit | None:
    """What the tool that starts containers said."""
    variant = foremost(own, *_TOLD)
    if variant:
        lines = of_variant(own, variant)
        return Hit({"library": value(lines, "library"), "device": value(lines, "device")}, quoted(lines), variant=variant)
    if agreed(own) != "host" or not outside:
        return None
    # said with --nv on every host without a driver, and no complaint where the work is for the CPU
    severity = Severity.ERROR if wanted else Severity.WARNING
    return Hit({}, quoted(own), variant="host", severity=severity, confidence=Confidence.LIKELY)


@check(needs="driver", reads="system driver gpus cuda_driver visibility container rocm torch devices symptoms")
def container_without_gpu(facts: Facts, every: Matches) -> Answer:
    """The host has a GPU and the container was started without it. A container without any GPU in sight is left alone."""
    driver, gpus, container, devices, absent = facts.driver, facts.gpus, facts.container, facts.devices, facts.absent
    own, guessed = _apart(facts)
    cards, inside = nvidia_on_bus(facts.system), contained(container)
    if hit := _said_outright(facts, own, every) or _guessed(facts, inside, own, guessed):
        return hit
    if cuda_answers(facts) or not inside:
        return Hit({"runtime": "container"}, quoted(own), variant="text") if own and not works(devices) else None
    shown = facts.visibility.nvidia_visible_devices
    values = {"runtime": _called(facts.container), "visible": "unset" if shown is None else shown, "gpus": len(cards)}
    values["capabilities"] = facts.container.driver_capabilities
    no_library = "cuda_driver" in absent or driver.cuda_state == "N/A"
    if _lacks_compute(container) and (no_library or cuda_code(facts) == INSUFFICIENT_DRIVER) and "driver" not in absent:
        return Hit(values, quoted(every), variant="capabilities")
    if counted(gpus) or gpu_nodes(driver):
        return Hit(values, quoted(own), variant="text") if own else None
    there = bool(cards or driver.module_loaded or driver.gpu_count_proc)
    evidence = (*quoted(own or every), *smi_evidence(driver))
    if own or (there and wants_cuda(facts.torch, absent) is not False):
        return Hit(values, evidence, variant=_starter(container) if there else "text")
    hidden = facts.visibility.cuda_visible_devices is not None or (facts.rocm != RocmFacts() and not gpus.devices)  # or the GPU is AMD's
    if hidden or not _complains(driver, every):
        return None
    return Hit(values, evidence, variant=_starter(container) if there else "guess", confidence=None if there else Confidence.LIKELY)


def _apart(facts: Facts) -> tuple[Matches, Matches]:
    """What is said of the container, and what only lets one guess. A build for the CPU sees no GPU either way: a person's words prove
    none of it then."""
    told = alone(facts, "container-without-gpu")
    if facts.torch.cpu_build and doubt(told):
        told = of_variant(told, "compose")
    guessed = of_variant(told, "guess")
    return tuple(one for one in told if one not in guessed), guessed


def _guessed(facts: Facts, inside: bool, own: Matches, guessed: Matches) -> Hit | None:
    """A program that finds no device, in a text that speaks of containers."""
    told = guessed and not own and not inside and not works(facts.devices)
    return Hit({"runtime": "container"}, quoted(guessed), variant="guess", confidence=Confidence.LIKELY) if told else None


def _said_outright(facts: Facts, own: Matches, every: Matches) -> Hit | None:
    """By the tool that starts containers, by the command that did, or by a file of it that somebody shows."""
    if (composed := of_variant(own, "compose")) and not works(facts.devices):
        return Hit({}, quoted((*composed, *facts.said("torch-cuda-unavailable"), *facts.said("driver-missing"))), variant="compose")
    for variant in ("jetson", *_SURROUNDINGS):
        if (told := of_variant(own, variant)) and not works(facts.devices):
            return Hit({}, quoted(told), variant=variant)
    outside = not (contained(facts.container) and nvidia_on_bus(facts.system))
    return _by_tool(own, outside, bool(facts.gpus.devices) and not works(facts.devices)) or _started_without(facts, own or every)


def _started_without(facts: Facts, matches: Matches) -> Hit | None:
    """A command of apptainer that does not hand the GPU over, and a program that found none."""
    told = matches or facts.said("torch-cuda-unavailable") or facts.said("driver-missing")
    fixes = with_gpu(facts.container) if told and not works(facts.devices) else ()
    command = " ".join(facts.container.command[:2])
    return Hit({"command": command}, quoted(told), fixes, "started", confidence=Confidence.LIKELY) if fixes else None


def _called(container: ContainerFacts) -> str:
    return f"{container.runtime or ''} container".strip()


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


@check(needs="container driver", reads="driver cuda_driver container devices symptoms")
def container_cuda_requirement(facts: Facts, matches: Matches) -> Answer:
    if cuda_answers(facts) and not matches:  # what was refused did not answer: another image did
        return None
    version, offers, wanted = facts.driver.version, facts.driver.cuda, value(matches, "condition") or facts.container.cuda_requirement or ""
    found = re.search(r"cuda\s*>=\s*(\d{1,2}\.\d{1,2})", wanted)
    need = found[1] if found else None
    if matches:
        values = {"need": need or "a newer CUDA", "driver": version or "of the host", "offers": offers or "less", **_cures(facts, need)}
        met = need and offers and not _compare(offers, "<", need)
        own = facts.tables.driver_cuda(version) if version else None  # what the driver offers without libraries of an image
        if need and met and own and _compare(own, "<", need):
            return Hit(values, quoted(matches), variant="inside")
        return None if met else Hit(values, quoted(matches), variant=None if offers else "text")
    below = need and offers and fails(facts.devices) and versions.cuda_below(offers, need)
    if not below or requirement_met(wanted, offers, version) is not False:
        return None
    values = {"need": need, "driver": version, "offers": offers, **_cures(facts, need)}
    return Hit(values, (Evidence("NVIDIA_REQUIRE_CUDA", wanted),))


def _cures(facts: Facts, need: str | None) -> dict[str, object]:
    """The first driver branch that offers what an image asks for, and what switches the check off, which helps within a major version
    alone."""
    version, offers = facts.driver.version, facts.driver.cuda
    offers = offers or (facts.tables.driver_cuda(version) if version else None)
    other = need and offers and need.partition(".")[0] != offers.partition(".")[0]
    first = facts.tables.driver_offering(need) if need else None
    return {"first": first, "off": None if other else "true"}


@check(needs="driver", reads="system driver gpus cuda_driver container devices symptoms")
def container_lost_gpu(facts: Facts, matches: Matches) -> Answer:
    bare, inside = "container" in facts.absent, contained(facts.container)
    if (hours := of_variant(matches, "hours")) and hours == matches:
        return Hit({}, quoted(hours), variant="hours")
    # in a text that also shows the host, the host's list of GPUs is no answer from inside
    told = any(one.symptom == "told-container-lost-gpu" for one in matches)  # a GPU that the host lists was lost inside
    seen = False if told else counted(facts.gpus) and bare if of_programs(matches) else facts.gpus.devices
    if cuda_answers(facts) or seen or facts.system.wsl or (bare and not fails(facts.devices)):
        return None
    answers = [one for one in (facts.driver.smi, facts.driver.nvml) if one.status is ToolStatus.FAILED]
    failed = any(one.code in (SMI_OTHER, UNKNOWN) or "unknown error" in one.message.lower() for one in answers)
    if not matches and not (failed and (bare or inside)):
        return None
    variant, guess = ("bare" if bare else None if inside else "guess"), None if inside else Confidence.LIKELY
    return Hit({"runtime": _called(facts.container)}, (*smi_evidence(facts.driver), *quoted(matches)), variant=variant, confidence=guess)


@check(needs="system", reads="system driver gpus cuda_driver torch devices container symptoms")
def wsl_driver(facts: Facts, matches: Matches) -> Answer:
    """WSL: version 1, an old kernel, a Linux driver over the mapped one, or its folder out of the loader's sight."""
    system, cuda_driver = facts.system, facts.cuda_driver
    if old := tuple(match for match in matches if match.symptom == "nccl-without-wsl"):  # the row itself asks for WSL
        return Hit({"path": value(old, "path")}, quoted(old), variant="nccl")
    if (newer := of_variant(matches, "toolkit")) and not works(facts.devices):
        return Hit({}, quoted(newer), variant="toolkit")
    if old := of_variant(matches, "nccl_old"):
        return Hit({"version": value(old, "version")}, quoted(old), variant="nccl_old")
    if dri := of_variant(matches, "dri"):
        return Hit({}, quoted(dri), variant="dri")
    if system.wsl is None:
        return None
    values: dict[str, object] = {"kernel": system.kernel, "library": cuda_driver.library_path}
    if amd := of_variant(matches, "amd"):
        return None if works(facts.devices) else Hit(values, quoted(amd), variant="amd")
    if hidden := of_symptom(facts, "libcuda-plain-name", "libcuda-plain-name-of-cudnn", "triton-libcuda", "triton-ld-lcuda"):
        return Hit(values, quoted(hidden), variant="path")
    if cuda_answers(facts) or wants_cuda(facts.torch, facts.absent) is False:
        return None
    return _wsl_without_cuda(facts, matches, values)


def _wsl_without_cuda(facts: Facts, matches: Matches, values: dict[str, object]) -> Answer:
    """Why CUDA, which has not answered, may not be there."""
    system, driver, cuda_driver, failed = facts.system, facts.driver, facts.cuda_driver, fails(facts.devices)
    if system.wsl == 1:
        return Hit(values, quoted(matches), variant="one")
    if driver.version and versions.older(driver.version, WSL_DRIVER) is True:
        return Hit(values | {"driver": driver.version}, (*cite("Windows driver", driver.version), *quoted(matches)), variant="old")
    kernel = re.match(r"(\d+)\.(\d+)\.(\d+)", system.kernel or "")  # "5.10.16.3-microsoft-standard-WSL2"
    if kernel and tuple(int(part) for part in kernel.groups()) < WSL_KERNEL:
        return Hit(values, quoted(matches), variant="kernel", confidence=None if failed or matches else Confidence.LIKELY)
    if (
        failed
        and len(facts.gpus.devices) >= MANY_FOR_WSL
        and (cuda_code(facts) == OUT_OF_MEMORY or of_variant(facts.said("gpu-out-of-memory"), "context"))
    ):
        return Hit({"count": len(facts.gpus.devices)}, quoted(facts.said("gpu-out-of-memory")), variant="many")
    foreign = _foreign(cuda_driver.library_path or "", facts.container) and (failed or cuda_code(facts))
    unmapped = "cuda_driver" in facts.absent and failed and not facts.gpus.devices
    evidence = (*smi_evidence(driver), *quoted(matches))
    if hit := first_of({"linux_driver": foreign, "unmapped": unmapped}, values, evidence):
        return hit
    broken = smi_failed(driver, *_FOREIGN) or driver.cuda_state == "ERR!"
    if broken or matches:
        return Hit(values, evidence, confidence=None if broken or alone(facts, "wsl-driver") else Confidence.LIKELY)
    unseen = of_symptom(facts, "cuda-says-false")  # somebody says that torch sees nothing in a WSL, and no more
    return Hit(values, quoted(unseen), variant="unseen") if unseen else None


def _foreign(library: str, container: ContainerFacts) -> bool:
    """A libcuda that is not the one that Windows maps into WSL."""
    return library != "" and not library.startswith(WSL_LIBRARIES) and "/drivers/" not in library and not contained(container)
