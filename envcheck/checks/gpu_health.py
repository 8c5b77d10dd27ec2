"""Hardware: memory errors, Xids, throttling, the PCIe link."""

from __future__ import annotations

import re
from collections.abc import Iterable

from envcheck.checks.answer import code_evidence, cuda_code, listed, torch_devices, trouble, works
from envcheck.checks.text import holding, quoted, said, value
from envcheck.facts import CudaDriverFacts, DevicesFacts, DriverFacts, Gpu, GpusFacts, Missing, SymptomsFacts, SystemFacts, ToolStatus
from envcheck.rule import Answer, Confidence, Evidence, Hit, Severity, check
from envcheck.table_rows import XidRow
from envcheck.tables import Tables

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
    stopped = bool(told) or cuda_code(devices, cuda_driver) == 214 or any("uncorrectable ECC" in error for error in kernels)
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
    failing = [gpu for gpu in listed(gpus) if gpu.error and any(word in gpu.error.lower() for word in ("reset", "restart", "power"))]
    codes = {8: "power", 10: "interrupt", 14: "inforom", 16: "recovery"}
    for answer in () if isinstance(driver, Missing) else (driver.smi, driver.nvml):
        if answer.status is ToolStatus.FAILED and answer.code in codes:
            evidence.append(Evidence("nvidia-smi" if answer.code != 16 else "NVML", answer.message or f"code {answer.code}"))
            severity = Severity.WARNING if answer.code == 14 else None
            return Hit(values | {"action": "Reset"}, tuple(evidence), variant=codes[answer.code], severity=severity)
    if failing:
        evidence += [Evidence(f"GPU {gpu.index}", gpu.error or "") for gpu in failing]
        return Hit(values | {"gpus": _named(failing), "action": "Reset"}, tuple(evidence), variant="recovery")
    code = cuda_code(devices, cuda_driver)
    started = holding(told, "RmInitAdapter")
    if started and len(started) == len(told):
        return Hit(values | {"code": code}, tuple(evidence), variant="init", confidence=Confidence.LIKELY)
    if code in (220, 226) or told:
        return Hit(values | {"code": code}, (*evidence, *code_evidence(devices, cuda_driver)))
    return trouble(gpus, "gpus") or trouble(driver, "driver")


CHECKS = (gpu_ecc_error, gpu_row_remap, gpu_xid, gpu_throttled, gpu_pcie_degraded, gpu_hardware_fault)
