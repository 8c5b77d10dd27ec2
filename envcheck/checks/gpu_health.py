"""Hardware: memory errors, Xids, throttling, the PCIe link."""

from __future__ import annotations

import re
from collections.abc import Iterable

from envcheck.checks.answer import code_evidence, cuda_code, works
from envcheck.checks.hardware import heard, number, numbers, nvidia, place, troubles, which
from envcheck.checks.text import agreed, cite, distinct, doubt, of_variant, quoted, value
from envcheck.engine.rule import Answer, Evidence, Facts, Hit, Matches, Severity, check
from envcheck.facts import cuda_codes as cuda_error
from envcheck.facts.nvml_codes import INFOROM, IRQ, POWER, RESET, SMI_IRQ, UNKNOWN
from envcheck.facts.record import replace
from envcheck.facts.snapshot import DriverFacts, Gpu, GpusFacts, GpuTrouble, ToolStatus, Xid

# NVML clocks event reasons, nvml.h nvmlClocksEventReason*
SW_POWER_CAP, HW_SLOWDOWN, SW_THERMAL, HW_THERMAL, HW_POWER_BRAKE = 0x4, 0x8, 0x20, 0x40, 0x80
_REASONS = {HW_THERMAL: "hardware thermal", SW_THERMAL: "software thermal", HW_POWER_BRAKE: "hardware power brake"}


def _named(gpus: Iterable[Gpu]) -> str:
    return ", ".join(f"GPU {gpu.index} ({gpu.name or gpu.bus_id or 'unknown model'})" for gpu in gpus)


def _logged(xids: list[Xid], gpus: GpusFacts) -> tuple[dict[str, object], tuple[Evidence, ...]]:
    """The GPU of the first of these lines, as one says it and as `nvidia-smi -i` takes it: the kernel log leaves out the function."""
    bus, number = xids[0].bus_id, None
    if bus:
        found = [gpu for gpu in gpus.devices if bus.lower() in (gpu.bus_id or "").lower()]
        number = numbers(found) if len(found) == 1 else bus if "." in bus else f"{bus}.0"
    return {"gpus": f"PCI {bus}" if bus else "a GPU", "numbers": number}, cite("kernel log", *(xid.text for xid in xids[:3]))


MARKED = 63  # a memory row (or page) was marked for replacement
CONTAINED = 94  # an uncorrectable memory error that ended one program and left the GPU in service


@check(needs="gpus", reads="driver gpus cuda_driver devices symptoms")
def gpu_ecc_error(facts: Facts, matches: Matches) -> Answer:
    """Uncorrectable memory errors since the driver was loaded. The count over the card's life alone is history."""
    hurt = [gpu for gpu in facts.gpus.devices if (gpu.ecc_uncorrected_volatile or 0) > 0]
    kernels = [one.kernel_error or "" for one in facts.devices.devices]
    code = cuda_code(facts)
    stopped = bool(matches) or code == cuda_error.ECC_UNCORRECTABLE or any("uncorrectable ECC" in error for error in kernels)
    contained = [xid for xid in facts.driver.xids if xid.code == CONTAINED]
    if hurt or stopped:
        count = sum(gpu.ecc_uncorrected_volatile or 0 for gpu in hurt) or "at least one"
        values = {"gpus": _named(hurt) or "a GPU", "count": count, "numbers": numbers(hurt)}
        return Hit(values, (*code_evidence(facts), *quoted(matches)), variant="stopped" if stopped else None)
    if not contained:
        return None
    known, lines = _logged(contained, facts.gpus)
    return Hit(known | {"count": len(contained)}, lines, variant="contained")


@check(needs="gpus", reads="driver gpus symptoms")
def gpu_row_remap(facts: Facts, matches: Matches) -> Answer:
    gpus = facts.gpus.devices
    failed = [gpu for gpu in gpus if gpu.remap_failed]
    if failed or matches:
        return Hit({"gpus": _named(failed) or "a GPU"}, quoted(matches), variant="failed")
    if pending := [gpu for gpu in gpus if gpu.remap_pending or gpu.retired_pages_pending]:
        return Hit({"gpus": _named(pending), "numbers": numbers(pending)})
    marked = [xid for xid in facts.driver.xids if xid.code == MARKED]
    reset = any(gpu.remap_pending is False for gpu in gpus)  # which mends it
    return Hit(*_logged(marked, facts.gpus)) if marked and not reset else None


@check(needs="driver", reads="driver devices symptoms")
def gpu_xid(facts: Facts, matches: Matches) -> Answer:
    """Xids in the kernel log that take a GPU out of service; those of faulty programs (13, 31, 43, 45) are no finding."""
    told = [(code, one.values.get("bus_id", ""), one.text) for one in matches if (code := number(one.values.get("xid"))) is not None]
    xids = (*facts.driver.xids, *(Xid(code, bus.removeprefix("PCI:"), text) for code, bus, text in told))
    rows = [(xid, facts.tables.xid(xid.code)) for xid in xids]
    actions = {row["action"]: row for row in facts.tables.rows("xid", "action")} if rows else {}
    serious = [(xid, row, actions[row.action]) for xid, row in rows if row and row.action in actions]
    grave = [one for one in serious if one[2]["service"] == "always" or "nonfatal" not in one[0].text.lower()]
    if not grave and matches and not rows:
        return Hit({"xids": "an Xid", "gpu": "a GPU", "action": "see its entry", "text": matches[0].text}, quoted(matches))
    if not grave:
        return None
    first, row, action = grave[0]
    values = {
        "xids": ", ".join(dict.fromkeys(str(xid.code) for xid, *_ in grave)),
        "gpu": f"PCI {first.bus_id}" if first.bus_id else "a GPU",
        "action": action["words"],
        # what the Xid is; the table's remarks behind it are for its readers
        "text": re.split(r"[.;:] ", row.text or first.text, maxsplit=1)[0],
    }
    recovered = not matches and works(facts.devices) and all(one.kernel in ("ok", None) for one in facts.devices.devices)
    evidence = cite("kernel log", *(xid.text for xid, *_ in grave[:3])) if facts.driver.xids else quoted(matches)
    sure = None if facts.driver.xids else doubt(matches)
    return Hit(values, evidence, variant="recovered" if recovered else None, confidence=sure)


@check(needs="gpus", reads="gpus symptoms")
def gpu_throttled(facts: Facts, matches: Matches) -> Answer:
    """Clocks held down by heat or by the board's power supply. Idle (0x1) and the power limit under load (0x4) are normal."""
    for gpu in facts.gpus.devices:
        mask, clock, fastest = gpu.throttle_reasons or 0, gpu.sm_clock_mhz, gpu.sm_clock_max_mhz
        reasons = [text for bit, text in _REASONS.items() if mask & bit]
        if mask & HW_SLOWDOWN and not reasons:
            reasons = ["hardware slowdown (heat or power)"]
        heat = None if gpu.temperature_celsius is None else f"{gpu.temperature_celsius:.0f} °C"
        values = {"gpu": f"GPU {gpu.index} ({gpu.name})", "reasons": ", ".join(reasons), "mask": f"0x{mask:x}", "temperature": heat}
        values["clock"] = "unknown" if clock is None or fastest is None else f"{clock:.0f} of {fastest:.0f} MHz"
        if reasons:
            return Hit(values, quoted(matches))
        # The power limit is said to hold the clocks down while the card draws far less than that limit, and works.
        power, limit = gpu.power_watts or 0, gpu.power_limit_watts or 0
        slow = gpu.power_watts is not None and power < limit / 2 and clock is not None and clock < (fastest or 0) / 2
        if mask & SW_POWER_CAP and slow and (gpu.utilization_percent or 0) > 50:
            return Hit(values | {"power": f"{power:.0f} of {limit:.0f} W"}, quoted(matches), variant="starved")
    if told := of_variant(matches, "told"):
        return Hit({}, quoted(told), variant="told")
    if unlicensed := of_variant(matches, "license"):
        return Hit({}, quoted(unlicensed), variant="license")
    if matches and all(gpu.throttle_reasons is None for gpu in facts.gpus.devices):
        reason = (value(matches, "reason") or "a slowdown").replace("HW", "hardware").replace("SW", "software")
        return Hit({"gpu": "a GPU", "reasons": reason, "mask": "not shown", "temperature": None, "clock": None}, quoted(matches))
    return None


@check(needs="gpus", reads="gpus system symptoms")
def gpu_pcie_degraded(facts: Facts, matches: Matches) -> Answer:
    """Fewer lanes than the card has; a lower generation counts only under load, at idle it is power saving."""
    virtual = facts.system.virtualization not in (None, "none")
    for gpu in () if virtual else facts.gpus.devices:
        width, widest = gpu.pcie_width, gpu.pcie_width_max
        generation, newest = gpu.pcie_generation, gpu.pcie_generation_max
        loaded = (gpu.utilization_percent or 0) >= 50 and not (gpu.throttle_reasons or 0) & 0x1
        values = {"gpu": f"GPU {gpu.index} ({gpu.name})", "width": width, "widest": widest, "generation": generation, "newest": newest}
        if width and widest and width * 2 < widest:
            return Hit(values, quoted(matches))
        if width and widest and width < widest:
            return Hit(values, quoted(matches), variant="half")
        if generation and newest and generation < newest and loaded:
            return Hit(values, quoted(matches), variant="generation")
    return Hit({"gpu": "a GPU"}, quoted(matches), variant="text") if matches else None


def _ran_on(facts: Facts, rows: Iterable[GpuTrouble]) -> bool:
    """Torch computed on every GPU of the machine, so on these too, whatever was said of them."""
    ran = [one for one in facts.devices.devices if one.kernel == "ok"]
    every = {*(place(one) for one in rows), *(str(gpu.index) for gpu in facts.gpus.devices)}
    return works(facts.devices) and len(ran) >= max(len(every), 1)


@check(needs="gpus", reads="gpus devices symptoms")
def gpu_needs_reset(facts: Facts, matches: Matches) -> Answer:
    """NVML_ERROR_RESET_REQUIRED, which nvidia-smi prints as [GPU requires reset] in place of values."""
    rows = [one for one in troubles(facts.gpus) if one.code == RESET]
    if not rows:
        return Hit({"gpus": "A GPU"}, quoted(matches), variant="said") if matches else None
    places = dict.fromkeys(number for one in rows if (number := place(one)) is not None)
    values = {"gpus": which(rows, facts.gpus) or "A GPU", "places": ",".join(places), "remaining": len(nvidia(facts.gpus))}
    evidence = distinct((*heard(rows), *quoted(matches)))
    if _ran_on(facts, rows):
        return Hit(values, evidence, variant="works", severity=Severity.WARNING)
    return Hit(values, evidence, variant="some" if nvidia(facts.gpus) else None)


# Exit statuses of nvidia-smi and codes of NVML that say so of a card; they are the same but for the interrupts.
_SMI_FAULTS = {POWER: "power", SMI_IRQ: "interrupt", INFOROM: "inforom"}
_NVML_FAULTS = {POWER: "power", IRQ: "interrupt", INFOROM: "inforom"}


@check(needs="gpus driver", reads="driver gpus cuda_driver devices symptoms")
def gpu_hardware_fault(facts: Facts, matches: Matches) -> Answer:
    values: dict[str, object] = {"gpus": "a GPU", "action": "", "code": cuda_code(facts)}
    if asking := [gpu for gpu in facts.gpus.devices if gpu.recovery_action not in (None, "", "None", "N/A", "[N/A]")]:
        values |= {"gpus": _named(asking), "action": ", ".join(sorted({gpu.recovery_action or "" for gpu in asking}))}
        evidence = tuple(Evidence(f"GPU {gpu.index}", f"GPU recovery action: {gpu.recovery_action}") for gpu in asking)
        return Hit(values, (*evidence, *quoted(matches)), variant="recovery")
    if hit := _of_driver(facts.driver) or _of_gpus(facts):
        return replace(hit, values={**values, **hit.values}, evidence=(*hit.evidence, *quoted(matches)))
    if (case := agreed(matches)) in ("init", "load", "lost", "amd", "amd_init", "amd_ras", "windows", "link"):
        return Hit(values, quoted(matches), variant=case)
    fatal = cuda_code(facts) in (cuda_error.NVLINK_UNCORRECTABLE, cuda_error.CONTAINED)
    return Hit(values, (*code_evidence(facts), *quoted(matches))) if matches or fatal else None


def _of_driver(driver: DriverFacts) -> Hit | None:
    """nvidia-smi or NVML as a whole ended with such a code."""
    for name, answer, faults in (("nvidia-smi", driver.smi, _SMI_FAULTS), ("NVML", driver.nvml, _NVML_FAULTS)):
        if answer.status is ToolStatus.FAILED and answer.code in faults:
            evidence = (Evidence(name, answer.message or f"code {answer.code}"),)
            severity = Severity.WARNING if answer.code == INFOROM else None
            return Hit({"tool": name}, evidence, variant=faults[answer.code], severity=severity)
    return None


def _of_gpus(facts: Facts) -> Hit | None:
    """Single GPUs were answered so; one that is listed and of which nothing can be read has a fault without a name."""
    unread = {gpu.index for gpu in facts.gpus.devices if gpu.error}
    for fault, variant in (*_NVML_FAULTS.items(), (UNKNOWN, "unread")):
        if rows := [one for one in troubles(facts.gpus) if one.code == fault and (fault != UNKNOWN or one.index in unread)]:
            values = {"gpus": which(rows, facts.gpus) or "a GPU", "tool": rows[0].source, "text": rows[0].text}
            severity = Severity.WARNING if fault == INFOROM or _ran_on(facts, rows) else None
            return Hit(values, heard(rows), variant=variant, severity=severity)
    return None
