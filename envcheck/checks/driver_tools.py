"""The management side of the driver: nvidia-smi and NVML answer, no GPU is lost, the fabric is up."""

from __future__ import annotations

import re

from envcheck.checks.answer import (
    code_evidence,
    contained,
    cuda_code,
    driver_answers,
    fails,
    is_wsl,
    listed,
    torch_devices,
    trouble,
    works,
)
from envcheck.checks.driver import smi_evidence, smi_failed
from envcheck.checks.hardware import heard, nvidia, opened, troubles, unmeant, which
from envcheck.checks.text import distinct, holding, quoted, said, value
from envcheck.engine.intents import SetEnv
from envcheck.engine.rule import Answer, Confidence, Evidence, Hit, Severity, Unknown, check
from envcheck.facts import cuda_codes
from envcheck.facts.nvml_codes import LOST
from envcheck.facts.nvml_codes import named as named_code
from envcheck.facts.snapshot import (
    ContainerFacts,
    CudaDriverFacts,
    DevicesFacts,
    DriverFacts,
    GpusFacts,
    Missing,
    SymptomsFacts,
    SystemFacts,
    ToolAnswer,
    ToolStatus,
)
from envcheck.tables.compat import Tables

# Codes that other rules name: 4 and 17 no access, 6 no device, 8 power cable, 9 not loaded, 10 interrupts, 12 no library,
# 14 infoROM, 15 GPU lost, 16 reset, 18 mismatch. https://docs.nvidia.com/deploy/nvidia-smi/ "RETURN VALUE"
_NAMED = (0, 4, 6, 8, 9, 10, 12, 14, 15, 16, 17, 18)


def _seconds(answer: ToolAnswer) -> str:
    return "its deadline" if answer.seconds is None else f"{answer.seconds:.0f} s"


@check(sees_missing=("devices",))
def nvidia_smi_unresponsive(driver: DriverFacts, devices: DevicesFacts | Missing) -> Answer:
    """nvidia-smi was killed at its deadline. Slow but right is no finding."""
    if driver.smi.status is not ToolStatus.TIMEOUT:
        return None
    severity = Severity.WARNING if works(devices) else None
    evidence = (Evidence(driver.smi.path or "nvidia-smi", driver.smi.message or "no output"),)
    return Hit({"seconds": _seconds(driver.smi), "path": driver.smi.path or "nvidia-smi"}, evidence, severity=severity)


@check(sees_missing=("system",))
def nvidia_smi_unreadable(driver: DriverFacts, system: SystemFacts | Missing) -> Answer:
    """nvidia-smi died, printed something else than it should, or failed with a code of no known meaning."""
    smi = driver.smi
    values = {"path": smi.path or "nvidia-smi", "signal": smi.signal, "code": smi.code}
    evidence = (Evidence(smi.path or "nvidia-smi", smi.message),) if smi.message else ()
    match smi.status:
        case ToolStatus.CRASHED:
            return Hit(values, evidence, variant="wsl" if is_wsl(system) else "crashed")
        case ToolStatus.UNREADABLE:
            return Hit(values, evidence)
        case ToolStatus.FAILED if smi.code not in _NAMED and "unknown error" not in smi.message.lower():
            return Hit(values, evidence, variant="failed")
        case _:
            return None


@check(sees_missing=("devices",))
def nvml_unresponsive(driver: DriverFacts, devices: DevicesFacts | Missing) -> Answer:
    """NVML was killed at its deadline."""
    if driver.nvml.status is not ToolStatus.TIMEOUT:
        return None
    severity = Severity.WARNING if works(devices) else None
    return Hit({"seconds": _seconds(driver.nvml)}, (Evidence("NVML", driver.nvml.message or "no answer"),), severity=severity)


@check(sees_missing=("devices",))
def nvml_crashed(driver: DriverFacts, devices: DevicesFacts | Missing) -> Answer:
    """The child that asked NVML was killed by a signal."""
    if driver.nvml.status is not ToolStatus.CRASHED:
        return None
    severity = Severity.WARNING if works(devices) else None
    evidence = (Evidence("NVML", driver.nvml.message),) if driver.nvml.message else ()
    return Hit({"signal": driver.nvml.signal}, evidence, severity=severity)


@check(sees_missing=("driver", "gpus", "devices", "symptoms"))
def gpu_lost(
    driver: DriverFacts | Missing, gpus: GpusFacts | Missing, devices: DevicesFacts | Missing, symptoms: SymptomsFacts | Missing
) -> Answer:
    """A GPU is on the bus and no longer answers: nvidia-smi exit 15, "GPU is lost". What another NVML error means is not known."""
    told = said(symptoms, "gpu-lost")
    told = tuple(match for match in told if match not in holding(told, "RmInitAdapter"))  # it never came up
    rows = [one for one in troubles(gpus) if one.code == LOST]
    words = () if isinstance(gpus, Missing) or rows else gpus.lost  # of a report, or of an older recording
    failed = not isinstance(driver, Missing) and smi_failed(driver, LOST)
    if not (rows or words or failed or told):
        return _unopened(gpus, devices) or trouble(gpus, "gpus") or trouble(driver, "driver")
    evidence = [*heard(rows), *(Evidence("nvidia-smi", text) for text in words)]
    if not isinstance(driver, Missing):
        evidence += smi_evidence(driver)
        evidence += [Evidence("kernel log", xid.text) for xid in driver.xids if xid.code == 79]
    bus = value(told, "bus_id")
    gone = which(rows, gpus) or value(told, "gpu") or (f"The GPU at {bus}" if bus else "A GPU")
    remaining = len(nvidia(gpus))
    uuids = [gpu.uuid for gpu in nvidia(gpus)]
    values: dict[str, object] = {"gpus": gone, "remaining": remaining}
    values["uuids"] = ",".join(one or "" for one in uuids) if all(uuids) else None
    return Hit(values, distinct((*evidence, *quoted(told))), variant="some" if remaining > 0 else None)


def _unopened(gpus: GpusFacts | Missing, devices: DevicesFacts | Missing) -> Unknown | None:
    """A GPU that NVML counts and does not open, for a reason that names neither its state nor this process's rights."""
    rows = unmeant(gpus)
    if not rows or len(opened(devices)) >= len(nvidia(gpus)) + len({one.index for one in rows}):
        return None
    return Unknown(f"{which(rows, gpus)}: NVML answers {', '.join(dict.fromkeys(named_code(one.code, one.text) for one in rows))}")


@check(sees_missing=("system", "driver", "gpus", "cuda_driver", "devices", "container", "symptoms"))
def fabric_not_ready(
    system: SystemFacts | Missing,
    driver: DriverFacts | Missing,
    gpus: GpusFacts | Missing,
    cuda_driver: CudaDriverFacts | Missing,
    devices: DevicesFacts | Missing,
    container: ContainerFacts | Missing,
    symptoms: SymptomsFacts | Missing,
    tables: Tables,
) -> Answer:
    """CUDA 802 or 919, or a fabric state short of Completed. N/A is healthy: PCIe cards, Ampere, passed-through GPUs."""
    told = said(symptoms, "fabric-not-ready")
    beyond = tuple(match for match in told if match.symptom in ("nccl-nvls", "nccl-imex"))  # NCCL's words on a machine whose CUDA runs
    told = tuple(match for match in told if match not in beyond)
    if beyond and not told:
        nvls = beyond[0].symptom == "nccl-nvls"
        switch = "NCCL_NVLS_ENABLE" if nvls else "NCCL_MNNVL_ENABLE"
        off = SetEnv(switch, "0", "NVLink stays in use without it, a little slower" if nvls else "nodes then talk over the network")
        # without a word of the fabric the refusal may be the container's: multicast needs /dev/nvidia-caps
        sure = None if re.search(r"401|NVLink SHARP|MNNVL", " ".join(match.text for match in beyond)) else Severity.WARNING
        part = "nvls" if nvls else "imex"
        return Hit({}, quoted(beyond), (off,), variant=part, severity=sure, confidence=Confidence.LIKELY)
    products = [row for gpu in listed(gpus) if gpu.name and (row := tables.product(gpu.name))]
    if products and len(products) == len(listed(gpus)) and not any(row.nvswitch for row in products):
        told = tuple(match for match in told if match.symptom != "fabric-manager-failed")  # no NVSwitch: the service is not needed
    if works(devices) or driver_answers(cuda_driver):
        return None
    code = cuda_code(devices, cuda_driver)
    waiting = [gpu for gpu in listed(gpus) if gpu.fabric_state in ("Not Started", "In Progress") or _fabric_failed(gpu.fabric_status)]
    asked = bool(torch_devices(devices)) or code is not None or (not isinstance(devices, Missing) and devices.available is False)
    service = None if isinstance(driver, Missing) else driver.fabric_manager
    down = (
        service in ("stopped", "absent") and fails(devices) and code is None and any(_on_nvswitch(gpu.name, tables) for gpu in listed(gpus))
    )
    if not (code in (cuda_codes.SYSTEM_NOT_READY, cuda_codes.FABRIC_NOT_READY) or told or (waiting and asked) or down):
        return trouble(cuda_driver, "cuda_driver") or trouble(gpus, "gpus")
    states = sorted({f"{gpu.fabric_state}/{gpu.fabric_status}" for gpu in waiting})
    manager = None if isinstance(driver, Missing) else driver.fabric_manager
    version = None if isinstance(driver, Missing) else driver.version
    manager_version = value(told, "manager")
    values = {"state": ", ".join(states) or "unknown", "manager": manager or "not known", "driver": version, "found": manager_version}
    evidence = [Evidence(f"GPU {gpu.index}", f"fabric state {gpu.fabric_state}, status {gpu.fabric_status}") for gpu in waiting]
    evidence += [*code_evidence(devices, cuda_driver), *quoted(told)]
    virtual = not isinstance(system, Missing) and system.virtualization not in (None, "none")
    mismatch = any("match" in one.text for one in told)
    variant = "version" if mismatch else "guest" if contained(container) or virtual else None
    guess = Confidence.LIKELY if down and not (code or told or waiting) else None
    return Hit(values, tuple(evidence), variant=variant, confidence=guess)


def _on_nvswitch(name: str | None, tables: Tables) -> bool:
    """A product whose boards sit on NVSwitch systems."""
    row = tables.product(name) if name else None
    return row is not None and bool(row.nvswitch)


def _fabric_failed(status: str | None) -> bool:
    return status not in (None, "", "N/A", "Success", "[N/A]", "Not Supported")


CHECKS = (
    nvidia_smi_unresponsive,
    nvidia_smi_unreadable,
    nvml_unresponsive,
    nvml_crashed,
    gpu_lost,
    fabric_not_ready,
)
