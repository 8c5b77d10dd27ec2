"""Hardware: memory errors, Xids, throttling, the PCIe link."""

from __future__ import annotations

import re
from collections.abc import Iterable

from envcheck.checks.answer import code_evidence, cuda_code, listed, torch_devices, trouble, works
from envcheck.checks.hardware import heard, nvidia, place, troubles, which
from envcheck.checks.text import distinct, holding, quoted, said, value
from envcheck.engine.rule import Answer, Confidence, Evidence, Hit, Severity, check
from envcheck.facts import cuda_codes as cuda_error
from envcheck.facts.nvml_codes import INFOROM, IRQ, POWER, RESET, SMI_IRQ, UNKNOWN
from envcheck.facts.snapshot import (
    CudaDriverFacts,
    DevicesFacts,
    DriverFacts,
    Gpu,
    GpusFacts,
    GpuTrouble,
    Missing,
    SymptomsFacts,
    SystemFacts,
    ToolStatus,
)
from envcheck.tables.compat import Tables
from envcheck.tables.rows import XidRow

# NVML clocks event reasons, nvml.h nvmlClocksEventReason*
SW_POWER_CAP, HW_SLOWDOWN, SW_THERMAL, HW_THERMAL, HW_POWER_BRAKE = 0x4, 0x8, 0x20, 0x40, 0x80
_REASONS = {HW_THERMAL: "hardware thermal", SW_THERMAL: "software thermal", HW_POWER_BRAKE: "hardware power brake"}
# Xid actions (NVIDIA's Xid catalog) that take the GPU out of service; the rest is the program's affair or only a notice
_ACTIONS = {
    "reset_gpu": "a reset of the GPU",
    "reboot": "a restart of the machine",
    "restart_vm": "a restart of the virtual machine",
    "check_power_cable": "a look at the power cable",
    "contact_support": "a call to the vendor",
    "rma": "an exchange of the card",
    "decode": "a reset of the GPUs on that link, and a call to the vendor if it comes back",
}
_GRAVE = ("reset_gpu", "reboot", "contact_support", "restart_vm", "check_power_cable", "rma")


def _grave(row: XidRow, text: str) -> bool:
    """NVLink5's Xids say themselves which of them are harmless: "149, NETIR_LINK_EVT Nonfatal XC0 i0 Link 08 (0x...)"."""
    return row.action in _GRAVE or (row.action == "decode" and "nonfatal" not in text.lower())


def _named(gpus: Iterable[Gpu]) -> str:
    return ", ".join(f"GPU {gpu.index} ({gpu.name or gpu.bus_id or 'unknown model'})" for gpu in gpus)


def _numbers(gpus: Iterable[Gpu]) -> str | None:
    """GPUs as `nvidia-smi -i` takes them."""
    return ",".join(str(gpu.index) for gpu in gpus) or None


def _at(bus: str | None, gpus: GpusFacts | Missing) -> str | None:
    """The GPU at a bus address of the kernel log, which leaves out the function, as `nvidia-smi -i` takes it."""
    if not bus:
        return None
    found = [gpu for gpu in listed(gpus) if bus.lower() in (gpu.bus_id or "").lower()]
    return _numbers(found) if len(found) == 1 else bus if "." in bus else f"{bus}.0"


MARKED = 63  # a memory row (or page) was marked for replacement
CONTAINED = 94  # an uncorrectable memory error that ended one program and left the GPU in service


@check(sees_missing=("driver", "gpus", "cuda_driver", "devices", "symptoms"))
def gpu_ecc_error(
    driver: DriverFacts | Missing,
    gpus: GpusFacts | Missing,
    cuda_driver: CudaDriverFacts | Missing,
    devices: DevicesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Answer:
    """Uncorrectable memory errors since the driver was loaded. The count over the card's life alone is history."""
    told = said(symptoms, "gpu-ecc-error")
    contained = [xid for xid in (() if isinstance(driver, Missing) else driver.xids) if xid.code == CONTAINED]
    hurt = [gpu for gpu in listed(gpus) if (gpu.ecc_uncorrected_volatile or 0) > 0]
    kernels = [one.kernel_error or "" for one in torch_devices(devices)]
    code = cuda_code(devices, cuda_driver)
    stopped = bool(told) or code == cuda_error.ECC_UNCORRECTABLE or any("uncorrectable ECC" in error for error in kernels)
    if contained and not (hurt or stopped):
        lines = tuple(Evidence("kernel log", xid.text) for xid in contained[:3] if xid.text)
        bus = contained[0].bus_id
        return Hit(
            {"gpus": f"PCI {bus}" if bus else "a GPU", "count": len(contained), "numbers": _at(bus, gpus)},
            lines,
            variant="contained",
            severity=Severity.WARNING,
        )
    if not (hurt or stopped):
        return trouble(gpus, "gpus")
    count = sum(gpu.ecc_uncorrected_volatile or 0 for gpu in hurt) or "at least one"
    severity = Severity.ERROR if stopped else Severity.WARNING
    evidence = (*code_evidence(devices, cuda_driver), *quoted(told))
    values = {"gpus": _named(hurt) or "a GPU", "count": count, "numbers": _numbers(hurt)}
    return Hit(values, evidence, variant="stopped" if stopped else None, severity=severity)


@check(sees_missing=("driver", "gpus", "symptoms"))
def gpu_row_remap(driver: DriverFacts | Missing, gpus: GpusFacts | Missing, symptoms: SymptomsFacts | Missing) -> Answer:
    """Memory rows wait to be replaced, or could not be."""
    told = said(symptoms, "gpu-row-remap")
    failed = [gpu for gpu in listed(gpus) if gpu.remap_failed]
    if failed or holding(told, "Failure", ": 64,"):
        return Hit({"gpus": _named(failed) or "a GPU"}, quoted(told), variant="failed", severity=Severity.ERROR)
    pending = [gpu for gpu in listed(gpus) if gpu.remap_pending or gpu.retired_pages_pending]
    if pending or told:
        return Hit({"gpus": _named(pending) or "a GPU", "numbers": _numbers(pending)}, quoted(told))
    marked = [xid for xid in (() if isinstance(driver, Missing) else driver.xids) if xid.code == MARKED]
    if marked and not any(gpu.remap_pending is False for gpu in listed(gpus)):  # else the reset has been done
        lines = tuple(Evidence("kernel log", xid.text) for xid in marked[:3] if xid.text)
        bus = marked[0].bus_id
        return Hit({"gpus": f"PCI {bus}" if bus else "a GPU", "numbers": _at(bus, gpus)}, lines)
    return trouble(gpus, "gpus")


@check(sees_missing=("driver", "gpus", "devices", "symptoms"))
def gpu_xid(
    driver: DriverFacts | Missing,
    gpus: GpusFacts | Missing,
    devices: DevicesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
    tables: Tables,
) -> Answer:
    """Xids in the kernel log that take a GPU out of service; those of faulty programs (13, 31, 43, 45) are no finding."""
    told = said(symptoms, "gpu-xid")
    seen = [(xid.code, xid.bus_id, xid.text) for xid in (() if isinstance(driver, Missing) else driver.xids)]
    for match in told:
        found = re.search(r"Xid[^:]{0,8}\((?:PCI:)?([0-9a-fA-F:.]+)\): (\d{1,3})", match.text)
        number = found[2] if found else match.values.get("xid") or match.values.get("code") or ""
        if number.isdecimal():
            seen.append((int(number), found[1] if found else value(told, "bus_id"), match.text))
    rows = [(code, bus, text, tables.xid(code)) for code, bus, text in seen]
    grave = [(code, bus, text, row) for code, bus, text, row in rows if row and _grave(row, text)]
    if not grave:
        if told and not rows:
            return Hit({"xids": "an Xid", "gpu": "a GPU", "action": "see its entry", "text": told[0].text}, quoted(told))
        return trouble(driver, "driver")
    _, bus, text, row = grave[0]
    codes = ", ".join(str(number) for number in dict.fromkeys(entry[0] for entry in grave))
    values = {
        "xids": codes,
        "gpu": f"PCI {bus}" if bus else "a GPU",
        "action": _ACTIONS.get(row.action or "", "see its entry"),
        # what the Xid is; the table's remarks behind it are for its readers
        "text": re.split(r"[.;:] ", row.text or text, maxsplit=1)[0],
    }
    evidence = tuple(Evidence("kernel log", line) for _, _, line, _ in grave[:3] if line)
    recovered = works(devices) and all(one.kernel in ("ok", None) for one in torch_devices(devices))
    severity = Severity.WARNING if recovered and not told else None
    return Hit(values, evidence, variant="recovered" if severity else None, severity=severity)


@check(sees_missing=("gpus", "symptoms"))
def gpu_throttled(gpus: GpusFacts | Missing, symptoms: SymptomsFacts | Missing) -> Answer:
    """Clocks held down by heat or by the board's power supply. Idle (0x1) and the power limit under load (0x4) are normal."""
    told = said(symptoms, "gpu-throttled")
    for gpu in listed(gpus):
        mask = gpu.throttle_reasons or 0
        named = [text for bit, text in _REASONS.items() if mask & bit]
        if mask & HW_SLOWDOWN and not named:
            named = ["hardware slowdown (heat or power)"]
        values = {
            "gpu": f"GPU {gpu.index} ({gpu.name})",
            "reasons": ", ".join(named),
            "mask": f"0x{mask:x}",
            "temperature": "unknown" if gpu.temperature_celsius is None else f"{gpu.temperature_celsius:.0f} °C",
            "clock": _clock(gpu),
        }
        if named:
            return Hit(values, quoted(told))
        if mask & SW_POWER_CAP and _starved(gpu):
            values |= {"power": f"{gpu.power_watts:.0f} of {gpu.power_limit_watts:.0f} W"}
            return Hit(values, quoted(told), variant="starved", confidence=Confidence.LIKELY)
    if told and all(gpu.throttle_reasons is None for gpu in listed(gpus)):
        reason = (value(told, "reason") or "a slowdown").replace("HW", "hardware").replace("SW", "software")
        return Hit({"gpu": "a GPU", "reasons": reason, "mask": "not shown", "temperature": "unknown", "clock": "unknown"}, quoted(told))
    return trouble(gpus, "gpus")


def _clock(gpu: Gpu) -> str:
    known = gpu.sm_clock_mhz is not None and gpu.sm_clock_max_mhz is not None
    return f"{gpu.sm_clock_mhz:.0f} of {gpu.sm_clock_max_mhz:.0f} MHz" if known else "unknown"


def _starved(gpu: Gpu) -> bool:
    """The power limit is said to hold the clocks down while the card draws far less than that limit, and works."""
    if None in (gpu.power_watts, gpu.power_limit_watts, gpu.sm_clock_mhz, gpu.sm_clock_max_mhz, gpu.utilization_percent):
        return False
    low_power = (gpu.power_watts or 0) < (gpu.power_limit_watts or 0) / 2
    low_clock = (gpu.sm_clock_mhz or 0) < (gpu.sm_clock_max_mhz or 0) / 2
    return low_power and low_clock and (gpu.utilization_percent or 0) > 50


@check(sees_missing=("gpus", "symptoms", "system"))
def gpu_pcie_degraded(gpus: GpusFacts | Missing, system: SystemFacts | Missing, symptoms: SymptomsFacts | Missing) -> Answer:
    """Fewer lanes than the card has; a lower generation counts only under load, at idle it is power saving."""
    told = said(symptoms, "gpu-pcie-degraded")
    virtual = not isinstance(system, Missing) and system.virtualization not in (None, "none")
    for gpu in () if virtual else listed(gpus):
        width, widest = gpu.pcie_width, gpu.pcie_width_max
        generation, newest = gpu.pcie_generation, gpu.pcie_generation_max
        loaded = (gpu.utilization_percent or 0) >= 50 and not (gpu.throttle_reasons or 0) & 0x1
        values = {"gpu": f"GPU {gpu.index} ({gpu.name})", "width": width, "widest": widest, "generation": generation, "newest": newest}
        if width and widest and width * 2 < widest:
            return Hit(values, quoted(told))
        if width and widest and width < widest:
            return Hit(values, quoted(told), variant="half", severity=Severity.INFO)
        if generation and newest and generation < newest and loaded:
            return Hit(values, quoted(told), variant="generation")
    return Hit({"gpu": "a GPU"}, quoted(told), variant="text") if told else trouble(gpus, "gpus")


def _ran_on(rows: Iterable[GpuTrouble], gpus: GpusFacts | Missing, devices: DevicesFacts | Missing) -> bool:
    """Torch computed on every GPU of the machine, so on these too, whatever was said of them."""
    ran = [one for one in torch_devices(devices) if one.kernel == "ok"]
    return works(devices) and bool(ran) and len(ran) >= len({*(place(one) for one in rows), *(str(gpu.index) for gpu in listed(gpus))})


@check(sees_missing=("gpus", "devices", "symptoms"))
def gpu_needs_reset(gpus: GpusFacts | Missing, devices: DevicesFacts | Missing, symptoms: SymptomsFacts | Missing) -> Answer:
    """NVML_ERROR_RESET_REQUIRED, which nvidia-smi prints as [GPU requires reset] in place of values."""
    told = said(symptoms, "gpu-needs-reset")
    rows = [one for one in troubles(gpus) if one.code == RESET]
    if not rows:
        return Hit({"gpus": "A GPU"}, quoted(told), variant="said") if told else trouble(gpus, "gpus")
    places = dict.fromkeys(number for one in rows if (number := place(one)) is not None)
    values = {"gpus": which(rows, gpus) or "A GPU", "places": ",".join(places), "remaining": len(nvidia(gpus))}
    evidence = distinct((*heard(rows), *quoted(told)))
    if _ran_on(rows, gpus, devices):
        return Hit(values, evidence, variant="works", severity=Severity.WARNING)
    return Hit(values, evidence, variant="some" if nvidia(gpus) else None)


# Exit statuses of nvidia-smi and codes of NVML that say so of a card; they are the same but for the interrupts.
_SMI_FAULTS = {POWER: "power", SMI_IRQ: "interrupt", INFOROM: "inforom"}
_NVML_FAULTS = {POWER: "power", IRQ: "interrupt", INFOROM: "inforom"}


@check(sees_missing=("driver", "gpus", "cuda_driver", "devices", "symptoms"))
def gpu_hardware_fault(
    driver: DriverFacts | Missing,
    gpus: GpusFacts | Missing,
    cuda_driver: CudaDriverFacts | Missing,
    devices: DevicesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Answer:
    """The driver asks for a reset, a power cable is off, the infoROM is damaged, NVLink or the bus reported a fatal error."""
    told = said(symptoms, "gpu-hardware-fault")
    evidence = [*quoted(told)]
    asking = [gpu for gpu in listed(gpus) if gpu.recovery_action not in (None, "", "None", "N/A", "[N/A]")]
    actions = sorted({gpu.recovery_action or "" for gpu in asking})
    values: dict[str, object] = {"gpus": _named(asking) or "a GPU", "action": ", ".join(actions)}
    if asking:
        evidence += [Evidence(f"GPU {gpu.index}", f"GPU recovery action: {gpu.recovery_action}") for gpu in asking]
        return Hit(values, tuple(evidence), variant="recovery")
    answers = () if isinstance(driver, Missing) else (("nvidia-smi", driver.smi, _SMI_FAULTS), ("NVML", driver.nvml, _NVML_FAULTS))
    for name, answer, faults in answers:
        if answer.status is ToolStatus.FAILED and answer.code in faults:
            evidence.append(Evidence(name, answer.message or f"code {answer.code}"))
            severity = Severity.WARNING if answer.code == INFOROM else None
            return Hit(values | {"tool": name}, tuple(evidence), variant=faults[answer.code], severity=severity)
    for fault, variant in _NVML_FAULTS.items():
        if rows := [one for one in troubles(gpus) if one.code == fault]:
            severity = Severity.WARNING if fault == INFOROM or _ran_on(rows, gpus, devices) else None
            named = {"gpus": which(rows, gpus) or "a GPU", "tool": rows[0].source}
            return Hit(values | named, (*heard(rows), *evidence), variant=variant, severity=severity)
    if silent := [one for one in troubles(gpus) if one.code == UNKNOWN and _is_listed(one, gpus)]:
        severity = Severity.WARNING if _ran_on(silent, gpus, devices) else None
        named = {"gpus": which(silent, gpus), "text": silent[0].text}
        return Hit(values | named, (*heard(silent), *evidence), variant="unread", severity=severity)
    code = cuda_code(devices, cuda_driver)
    started = holding(told, "RmInitAdapter")
    if started and len(started) == len(told):
        return Hit(values | {"code": code}, tuple(evidence), variant="init", confidence=Confidence.LIKELY)
    if code in (cuda_error.NVLINK_UNCORRECTABLE, cuda_error.CONTAINED) or told:
        return Hit(values | {"code": code}, (*evidence, *code_evidence(devices, cuda_driver)))
    return trouble(gpus, "gpus") or trouble(driver, "driver")


def _is_listed(one: GpuTrouble, gpus: GpusFacts | Missing) -> bool:
    """The GPU is listed, and nothing can be read of it: not one query alone that failed."""
    return any(gpu.index == one.index and gpu.error for gpu in listed(gpus))


CHECKS = (gpu_ecc_error, gpu_row_remap, gpu_xid, gpu_throttled, gpu_pcie_degraded, gpu_needs_reset, gpu_hardware_fault)
