"""The management side of the driver: nvidia-smi and NVML answer, no GPU is lost, the fabric is up."""

from __future__ import annotations

from envcheck.checks.answer import code_evidence, contained, cuda_answers, cuda_code, fails, works
from envcheck.checks.driver import smi_evidence, smi_failed
from envcheck.checks.hardware import heard, nvidia, opened, troubles, unmeant, which
from envcheck.checks.text import cite, distinct, doubt, first_of, foremost, quoted, value
from envcheck.engine.rule import Answer, Confidence, Evidence, Facts, Hit, Matches, Severity, Unknown, check
from envcheck.facts import cuda_codes
from envcheck.facts.nvml_codes import LOST
from envcheck.facts.nvml_codes import named as named_code
from envcheck.facts.snapshot import DevicesFacts, DriverFacts, Gpu, ToolAnswer, ToolStatus
from envcheck.tables.compat import Tables

# Codes that other rules name: 4 and 17 no access, 6 no device, 8 power cable, 9 not loaded, 10 interrupts, 12 no library,
# 14 infoROM, 15 GPU lost, 16 reset, 18 mismatch. https://docs.nvidia.com/deploy/nvidia-smi/ "RETURN VALUE"
_NAMED = (0, 4, 6, 8, 9, 10, 12, 14, 15, 16, 17, 18)


def _broken(answer: ToolAnswer, status: ToolStatus, name: str, devices: DevicesFacts, silence: str) -> Hit | None:
    """A source that ended like this; only a warning where torch works without it."""
    if answer.status is not status:
        return None
    seconds, path = "its deadline" if answer.seconds is None else f"{answer.seconds:.0f} s", answer.path or name
    values = {"seconds": seconds, "path": path, "signal": answer.signal}
    return Hit(values, cite(path, answer.message or silence), severity=Severity.WARNING if works(devices) else None)


@check(needs="driver", reads="driver devices")
def nvidia_smi_unresponsive(facts: Facts) -> Answer:
    return _broken(facts.driver.smi, ToolStatus.TIMEOUT, "nvidia-smi", facts.devices, "no output")


@check(needs="driver", reads="driver system")
def nvidia_smi_unreadable(facts: Facts) -> Answer:
    smi = facts.driver.smi
    path, failed = smi.path or "nvidia-smi", smi.status is ToolStatus.FAILED
    named = smi.code in _NAMED or "unknown error" in smi.message.lower()
    crashed, wsl = smi.status is ToolStatus.CRASHED, facts.system.wsl
    cases = {
        "wsl": crashed and wsl,
        "crashed": crashed,
        "default": smi.status is ToolStatus.UNREADABLE,
        "cannot": failed and smi.code is None,
        "failed": failed and not named,
    }
    return first_of(cases, {"path": path, "signal": smi.signal, "code": smi.code, "error": smi.message}, cite(path, smi.message))


@check(needs="driver", reads="driver devices")
def nvml_unresponsive(facts: Facts) -> Answer:
    return _broken(facts.driver.nvml, ToolStatus.TIMEOUT, "NVML", facts.devices, "no answer")


@check(needs="driver", reads="driver devices")
def nvml_crashed(facts: Facts) -> Answer:
    return _broken(facts.driver.nvml, ToolStatus.CRASHED, "NVML", facts.devices, "")


@check(needs="gpus driver", reads="driver gpus devices symptoms")
def gpu_lost(facts: Facts, matches: Matches) -> Answer:
    """A GPU is on the bus and no longer answers: nvidia-smi exit 15, "GPU is lost". What another NVML error means is not known."""
    driver, gpus = facts.driver, facts.gpus
    rows = [one for one in troubles(gpus) if one.code == LOST]
    words = () if rows else gpus.lost  # of a report, or of an older recording
    bus, remaining = value(matches, "bus_id"), nvidia(gpus)
    if not (rows or words or smi_failed(driver, LOST) or matches):
        # NVML counts one and does not open it, for a reason that names neither its state nor this process's rights
        closed = unmeant(gpus)
        if not closed or len(opened(facts.devices)) >= len(remaining) + len({one.index for one in closed}):
            return None
        told = ", ".join(dict.fromkeys(named_code(one.code, one.text) for one in closed))
        return Unknown(f"{which(closed, gpus)}: NVML answers {told}")
    evidence = [*heard(rows), *cite("nvidia-smi", *words), *smi_evidence(driver)]
    evidence += cite("kernel log", *(xid.text for xid in driver.xids if xid.code == 79))
    values: dict[str, object] = {"remaining": len(remaining)}
    values["gpus"] = which(rows, gpus) or value(matches, "gpu") or (f"The GPU at {bus}" if bus else "A GPU")
    values["uuids"] = ",".join(gpu.uuid or "" for gpu in remaining) if all(gpu.uuid for gpu in remaining) else None
    return Hit(values, distinct((*evidence, *quoted(matches))), variant="some" if remaining else None)


@check(needs="cuda_driver gpus", reads="system driver gpus cuda_driver devices container symptoms")
def fabric_not_ready(facts: Facts, every: Matches) -> Answer:
    """CUDA 802 or 919, or a fabric state short of Completed. N/A is healthy: PCIe cards, Ampere, passed-through GPUs."""
    nvswitch = [_on_nvswitch(gpu, facts.tables) for gpu in facts.gpus.devices]
    matches = tuple(match for match in every if match.variant not in _MULTICAST)
    if every and not matches:  # on a machine whose CUDA runs
        return _multicast(every)
    if set(nvswitch) == {False}:  # the manager has nothing to do there
        matches = tuple(match for match in matches if match.symptom != "fabric-manager-failed")
    if cuda_answers(facts):
        return None
    code = cuda_code(facts)
    waiting = [gpu for gpu in facts.gpus.devices if _waits(gpu)]
    asked = bool(waiting) and (bool(facts.devices.devices) or code is not None or fails(facts.devices))
    down = facts.driver.fabric_manager in ("stopped", "absent") and fails(facts.devices) and code is None and any(nvswitch)
    if code not in (cuda_codes.SYSTEM_NOT_READY, cuda_codes.FABRIC_NOT_READY) and not (matches or asked or down):
        return None
    guest = contained(facts.container) or facts.system.virtualization not in (None, "none")
    variant = foremost(matches, "version") or ("guest" if guest else None)
    states = tuple(Evidence(f"GPU {gpu.index}", f"fabric state {gpu.fabric_state}, status {gpu.fabric_status}") for gpu in waiting)
    values = {"driver": facts.driver.version, "found": value(matches, "manager"), **_fabric(facts.driver, waiting)}
    guess = (doubt(matches) if matches else None) if code or matches or waiting else Confidence.LIKELY
    return Hit(values, (*states, *code_evidence(facts), *quoted(matches)), (), variant, confidence=guess)


_MULTICAST = ("nvls", "imex")  # NVLink SHARP and multi-node NVLink, of which NCCL speaks


def _fabric(driver: DriverFacts, waiting: list[Gpu]) -> dict[str, str | None]:
    states = sorted({f"{gpu.fabric_state}/{gpu.fabric_status}" for gpu in waiting})
    return {"manager": driver.fabric_manager or "not known", "state": ", ".join(states) or None}


def _multicast(matches: Matches) -> Hit:
    """A refusal. With another code than 401 it may be the container's: multicast needs /dev/nvidia-caps."""
    severity = None if any(match.values.get("code", "401") == "401" for match in matches) else Severity.WARNING
    return Hit({}, quoted(matches), (), matches[0].variant, severity)


def _on_nvswitch(gpu: Gpu, tables: Tables) -> bool | None:
    """A product whose boards sit on NVSwitch systems; None for one that is not known."""
    row = tables.product(gpu.name) if gpu.name else None
    return None if row is None else bool(row.nvswitch)


def _waits(gpu: Gpu) -> bool:
    failed = gpu.fabric_status not in (None, "", "N/A", "Success", "[N/A]", "Not Supported")
    return failed or gpu.fabric_state in ("Not Started", "In Progress")
