"""Asks NVML, nvidia-smi and the kernel log side by side, and puts their answers together."""

from __future__ import annotations

import re
import time

from envcheck.facts.nvml_codes import LOST, NO_LIBRARY, NOT_LOADED
from envcheck.facts.record import replace
from envcheck.facts.snapshot import DriverFacts, Gpu, GpusFacts, Missing, Reading, ToolAnswer, ToolStatus, Why
from envcheck.host.access import Host
from envcheck.probes import nvidia_smi
from envcheck.probes.driver_signs import Signs
from envcheck.probes.fabric_manager import fabric_manager
from envcheck.probes.kernel_log import KernelLog, read_kernel_log
from envcheck.probes.nvidia_smi import SmiAnswer
from envcheck.probes.nvml import NvmlAnswer, ask_nvml
from envcheck.probes.pci import FOLDER as PCI_FOLDER
from envcheck.probes.pci import NVIDIA, pci_gpus
from envcheck.probes.system import l4t_release
from envcheck.probes.task import Task
from envcheck.read.kernel import read_module_version
from envcheck.read.smi_fields import driver_version, merge

NVML_SECONDS = 10.0
# NVML's first call takes some seconds on a big machine without persistence mode; after this much
# the whole report of nvidia-smi is asked for beside it.
NVML_PATIENCE_SECONDS = 2.5
NO_DEVICES = 6  # nvidia-smi's exit status for "No devices were found"
# Failures that only a loaded module can give: no device, external power, interrupts, GPU lost, version mismatch.
_REACHED = (NO_DEVICES, 8, 10, 15, 18)


def ask(host: Host, signs: Signs, budget_seconds: float) -> tuple[DriverFacts, GpusFacts | Missing]:
    """Driver and GPUs of a machine that shows signs of a driver."""
    deadline = time.monotonic() + budget_seconds
    log_task = Task(lambda: read_kernel_log(host))
    nvml_seconds = max(0.5, min(NVML_SECONDS, budget_seconds - 0.5))
    nvml_task = Task(lambda: ask_nvml(host, signs.libraries, nvml_seconds))
    calls = _ask_smi(host, signs.program, nvml_task, bool(signs.libraries), deadline) if signs.program else []
    # The child has its own deadline; killing a stuck one takes up to 3 s more.
    heard = nvml_task.result(max(nvml_seconds, deadline - time.monotonic()) + 4)
    if heard is None:
        heard = NvmlAnswer(ToolAnswer(ToolStatus.TIMEOUT, message=f"no answer within {nvml_seconds:.0f} s"))
    log = log_task.result(max(0.5, min(3.0, deadline - time.monotonic()))) or KernelLog()
    gpus = _gpus(host, heard, calls, signs)
    manager = fabric_manager(host, gpus.devices if isinstance(gpus, GpusFacts) else ())
    return _driver(host, signs, heard, calls, log, manager), gpus


def _ask_smi(host: Host, program: str, nvml_task: Task[NvmlAnswer], has_nvml: bool, deadline: float) -> list[SmiAnswer]:
    """The cheap query always; the whole report beside it unless NVML makes it superfluous; the table at last."""

    def left() -> float:
        return max(0.1, deadline - time.monotonic() - 0.3)

    query_task = Task(lambda: nvidia_smi.query(host, program, left()))
    report_task = None if has_nvml else Task(lambda: nvidia_smi.full_report(host, program, left()))
    heard = nvml_task.result(min(NVML_PATIENCE_SECONDS, left())) if has_nvml else None
    if has_nvml and (heard is None or not heard.complete):
        # A query that has already failed would only fail once more.
        if heard is None and not query_task.done:
            report_task = Task(lambda: nvidia_smi.full_report(host, program, left()))
        else:
            asked = query_task.result(left())
            if asked is not None and asked.useful:
                report_task = Task(lambda: nvidia_smi.full_report(host, program, left()))
    calls = [call for task in (query_task, report_task) if task is not None and (call := task.result(left() + 4)) is not None]
    said = any(call.cuda or call.cuda_state for call in calls) or bool(heard and heard.cuda)
    reached = any(call.useful for call in calls)
    if reached and not (said and any(call.driver for call in calls)) and deadline - time.monotonic() > 1.0:
        calls.append(nvidia_smi.banner(host, program, left()))
    return calls


def _smi_answer(calls: list[SmiAnswer]) -> ToolAnswer:
    """How nvidia-smi is: its failure if it named one, else well if any call went well, else the first trouble."""
    if not calls:
        return ToolAnswer(ToolStatus.ABSENT)
    answers = [call.answer for call in calls]
    # Exit status 2 blames our question, not the driver.
    named = [one for one in answers if one.status is ToolStatus.FAILED and one.code not in (None, 2)]
    well = [one for one in answers if one.status is ToolStatus.OK]
    chosen = (named or well or answers)[0]
    if chosen.status is ToolStatus.OK:
        troubles = [f"{call.source}: {call.answer.message}" for call in calls if call.answer.status is ToolStatus.TIMEOUT]
        return replace(chosen, message="\n".join(troubles))
    return chosen


def _driver(host: Host, signs: Signs, heard: NvmlAnswer, calls: list[SmiAnswer], log: KernelLog, manager: str | None) -> DriverFacts:
    _, flavour = read_module_version(signs.proc_version)
    readings = _readings(signs, heard, calls)
    first = next((one for one in readings if one.driver), None)
    live = heard.driver or next((call.driver for call in calls if call.driver), None)
    smi = _smi_answer(calls)
    reached = bool(live) or any(one.status is ToolStatus.OK or one.code in _REACHED for one in (heard.answer, smi))
    cuda = next((one.cuda for one in readings if one.cuda), None)
    words = next((call.library_version for call in calls if call.library_version), None)
    return DriverFacts(
        version=first.driver if first else None,
        source=first.source if first else None,
        cuda=cuda,
        library_version=_library_version(host, signs.libraries) or heard.library_version or words,
        flavour=flavour,
        # A driver that answers is loaded, however /sys looks (gVisor hides it).
        module_loaded=None if reached and not signs.loaded else signs.loaded,
        nouveau=signs.nouveau,
        nvml=heard.answer,
        smi=smi,
        readings=readings,
        device_nodes=signs.nodes,
        closed_nodes=signs.closed,
        gpu_count_proc=signs.gpu_count,
        cuda_state=None if cuda else next((call.cuda_state for call in calls if call.cuda_state), None),
        xids=log.xids,
        kernel_messages=log.messages,
        fabric_manager=manager,
        windows_version=live if signs.wsl else None,
    )


def _readings(signs: Signs, heard: NvmlAnswer, calls: list[SmiAnswer]) -> tuple[Reading, ...]:
    """Best source first: the loaded module, NVML, nvidia-smi."""
    found = [
        Reading("/sys/module/nvidia/version", driver_version(signs.sys_version)),
        Reading("/proc/driver/nvidia/version", read_module_version(signs.proc_version)[0]),
        Reading("NVML", heard.driver, heard.cuda),
    ]
    found += [reading for call in calls if (reading := call.reading) is not None]
    return tuple(one for one in found if one.driver or one.cuda)


def _library_version(host: Host, libraries: tuple[str, ...]) -> str | None:
    """The number in the file's own name: libnvidia-ml.so.1 links to libnvidia-ml.so.580.95.05."""
    if not libraries:
        return None
    match = re.search(r"\.so\.([0-9]{3}\.[0-9.]+)$", host.realpath(libraries[0]))
    return match.group(1) if match else None


def _gpus(host: Host, heard: NvmlAnswer, calls: list[SmiAnswer], signs: Signs) -> GpusFacts | Missing:
    """NVML's devices, completed by the report and the query of nvidia-smi."""
    sources = [("NVML", heard.gpus), *((call.source, call.gpus) for call in reversed(calls))]
    devices: tuple[Gpu, ...] = ()
    source = None
    for name, found in sources:
        if found:
            source = source or name
            devices = merge(devices, found)
    troubles = tuple(dict.fromkeys([*heard.troubles, *(one for call in calls for one in call.troubles)]))
    lost = [f"GPU {one.index}: {one.text}" for one in heard.troubles if one.code == LOST]
    lost += [line for call in calls for line in call.lost]
    if devices or lost or troubles:
        return GpusFacts(tuple(sorted(devices, key=lambda gpu: gpu.index)), source, tuple(dict.fromkeys(lost)), troubles)
    return _no_gpus(host, heard, calls, signs)


def _no_gpus(host: Host, heard: NvmlAnswer, calls: list[SmiAnswer], signs: Signs) -> Missing:
    """Why there is no list: no device, nobody to ask, or nobody who answers."""
    smi = _smi_answer(calls)
    if smi.code == NO_DEVICES or heard.count == 0:
        return Missing(Why.ABSENT, smi.message or "NVML counts 0 devices")
    if heard.answer.status is ToolStatus.ABSENT and smi.status is ToolStatus.ABSENT:
        if not signs.nodes:
            return Missing(Why.ABSENT, "neither NVML, nvidia-smi nor a device node is here")
        return Missing(Why.FAILED, "device nodes are here, but neither NVML nor nvidia-smi to ask", "\n".join(signs.nodes))
    troubles = [(name, one) for name, one in (("NVML", heard.answer), ("nvidia-smi", smi)) if one.status is not ToolStatus.ABSENT]
    said = "; ".join(f"{name}: {_trouble(one)}" for name, one in troubles)
    if all(_driverless(one) for _, one in troubles) and _none_here(host, signs):
        return Missing(Why.ABSENT, "no NVIDIA GPU is on the PCI bus, and no driver is loaded", said)
    why = Why.TIMEOUT if all(one.status is ToolStatus.TIMEOUT for _, one in troubles) else Why.FAILED
    return Missing(why, said)


def _driverless(answer: ToolAnswer) -> bool:
    """What the driver's tools say where no driver is loaded: not loaded, no NVML, or nothing that can be read."""
    unread = answer.status in (ToolStatus.SKIPPED, ToolStatus.UNREADABLE)
    return unread or (answer.status is ToolStatus.FAILED and answer.code in (NOT_LOADED, NO_LIBRARY))


def _none_here(host: Host, signs: Signs) -> bool:
    """Tools of the driver on a machine without a GPU: a login node, an image. A kernel that shows no PCI bus says nothing."""
    if signs.loaded or signs.nodes or signs.gpu_count or signs.wsl or host.listdir(PCI_FOLDER) is None:
        return False
    cards = [device for device in pci_gpus(host) if device.vendor == NVIDIA and device.driver != "vfio-pci"]
    return not cards and l4t_release(host) is None


def _trouble(answer: ToolAnswer) -> str:
    words = answer.message.splitlines()[0] if answer.message else ""
    match answer.status:
        case ToolStatus.CRASHED:
            return f"ended by {answer.signal}"
        case ToolStatus.UNREADABLE:
            return "an answer that cannot be read"
        case _:
            return words or answer.status.value
