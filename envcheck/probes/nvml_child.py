"""Asks NVML for what it knows, one JSON line a step, so that a hang or crash costs only the rest.

Run as a file by `Host.child("nvml_child", FOLDER)`; FOLDER holds the module pynvml. Writes to stdout:
{"step": "load"} {"step": "init", "code": 0} {"step": "system", "driver": "580.95.05", "cuda": 13000, …}
{"step": "count", "count": 2} {"step": "device", "index": 0, "name": …, …} … {"step": "end"}
Keys of a device line are fields of `facts.Gpu`. A device that gives no handle has a "code" instead; what its queries were refused
with stands in {"step": "refused", "index": 0, "call": "nvmlDeviceGetMemoryInfo", "code": 16, "text": …}.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

# Refusals that say nothing of the GPU: a question, field or version that it, its driver or this user does not have.
# INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, INSUFFICIENT_SIZE, FUNCTION_NOT_FOUND, NO_DATA,
# ARGUMENT_VERSION_MISMATCH, DEPRECATED
ORDINARY = (2, 3, 4, 6, 7, 13, 21, 25, 26)
COMPUTE_MODES = ("Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process")  # nvmlComputeMode_t
DRIVER_MODELS = ("WDDM", "TCC", "MCDM")  # nvmlDriverModel_t
FABRIC_STATES = ("N/A", "Not Started", "In Progress", "Completed")  # NVML_GPU_FABRIC_STATE_*
# NVML_GPU_RECOVERY_ACTION_*, in nvidia-smi's words where it has them.
RECOVERY_ACTIONS = ("None", "Reset", "Reboot", "Drain P2P", "Drain and Reset", "Recover IMEX Domain", "Bus Reset", "Reboot")
ECC_UNCORRECTED, ECC_VOLATILE, ECC_AGGREGATE = 1, 0, 1
CLOCK_SM = 1
NVLINKS = 18  # where the binding does not say
GPU, SWITCH = 0, 2  # nvmlIntNvLinkDeviceType_t
NOT_AVAILABLE = (1 << 64) - 1  # NVML_VALUE_NOT_AVAILABLE


def say(**line: Any) -> None:
    os.write(1, (json.dumps(line) + "\n").encode())


def text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


class Nvml:
    """pynvml with errors as values: what a driver does not have or a device does not support is None."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.refused: dict[int, str] = {}  # code → the first query that it answered
        # A binding and a library of different ages do not always fit each other.
        mismatch = getattr(module, "NVMLLibraryMismatchError", TypeError)
        self.misfit: tuple[type[Exception], ...] = (mismatch, TypeError, ValueError, AttributeError)

    def ask(self, name: str, *arguments: Any) -> Any:
        function = getattr(self.module, name, None)
        if function is None:  # an older nvidia-ml-py
            return None
        try:
            return text(function(*arguments))
        except self.module.NVMLError as error:
            code = int(getattr(error, "value", -1))
            if code not in ORDINARY:
                self.refused.setdefault(code, name)
            return None
        except self.misfit:
            return None

    def code(self, work: Callable[[], Any]) -> tuple[Any, int, str]:
        """Result, NVML return code and its text."""
        try:
            return work(), 0, ""
        except self.module.NVMLError as error:
            code = int(getattr(error, "value", -1))
            # The library's own words; the binding has others for some codes.
            return None, code, self.ask("nvmlErrorString", code) or str(error)


def scaled(value: Any, divisor: float) -> float | None:
    return None if value is None else value / divisor


def pair(value: Any) -> tuple[Any, Any]:
    """(current, pending) of the calls that give both."""
    return (value[0], value[1]) if isinstance(value, list | tuple) and len(value) >= 2 else (None, None)


def yes(value: Any) -> bool | None:
    return None if value is None else bool(value)


def word(names: tuple[str, ...], value: Any) -> str | None:
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else None


def identity(nvml: Nvml, handle: Any) -> dict[str, Any]:
    """What does not change: read first, it costs nothing and names the device."""
    capability = nvml.ask("nvmlDeviceGetCudaComputeCapability", handle)
    pci = nvml.ask("nvmlDeviceGetPciInfo", handle)
    return {
        "name": nvml.ask("nvmlDeviceGetName", handle),
        "uuid": nvml.ask("nvmlDeviceGetUUID", handle),
        "bus_id": None if pci is None else text(pci.busId),
        "compute_capability": None if capability is None else f"{capability[0]}.{capability[1]}",
    }


def memory(nvml: Nvml, handle: Any) -> dict[str, Any]:
    # Version 2 leaves the reserved part out of `used`, as nvidia-smi does from R510 on.
    version = getattr(nvml.module, "nvmlMemory_v2", None)
    info = nvml.ask("nvmlDeviceGetMemoryInfo", handle, version) if version is not None else None
    info = info or nvml.ask("nvmlDeviceGetMemoryInfo", handle)
    if info is None:  # integrated GPUs share the host's memory
        return {}
    return {"memory_bytes": info.total, "memory_used_bytes": info.used, "memory_free_bytes": info.free}


def mig(nvml: Nvml, handle: Any) -> dict[str, Any]:
    current, _pending = pair(nvml.ask("nvmlDeviceGetMigMode", handle))
    if not current:
        return {"mig": yes(current)}
    devices = []
    for at in range(nvml.ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
        device = nvml.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, at)
        uuid = None if device is None else nvml.ask("nvmlDeviceGetUUID", device)
        if uuid:
            devices.append(uuid)
    return {"mig": True, "mig_devices": devices}


def health(nvml: Nvml, handle: Any) -> dict[str, Any]:
    ecc, _pending = pair(nvml.ask("nvmlDeviceGetEccMode", handle))
    rows = nvml.ask("nvmlDeviceGetRemappedRows", handle)  # correctable, uncorrectable, pending, failed
    known = isinstance(rows, list | tuple) and len(rows) >= 4
    return {
        "ecc": yes(ecc),
        "ecc_uncorrected_volatile": nvml.ask("nvmlDeviceGetTotalEccErrors", handle, ECC_UNCORRECTED, ECC_VOLATILE) if ecc else None,
        "ecc_uncorrected_aggregate": nvml.ask("nvmlDeviceGetTotalEccErrors", handle, ECC_UNCORRECTED, ECC_AGGREGATE) if ecc else None,
        "remap_pending": yes(rows[2]) if known else None,
        "remap_failed": yes(rows[3]) if known else None,
        "retired_pages_pending": yes(nvml.ask("nvmlDeviceGetRetiredPagesPendingStatus", handle)),
        "recovery_action": recovery(nvml, handle),
    }


def recovery(nvml: Nvml, handle: Any) -> str | None:
    field = getattr(nvml.module, "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", None)
    values = None if field is None else nvml.ask("nvmlDeviceGetFieldValues", handle, [field])
    if not values or values[0].nvmlReturn != 0:
        return None
    return word(RECOVERY_ACTIONS, int(values[0].value.uiVal))


def state(nvml: Nvml, handle: Any) -> dict[str, Any]:
    reasons = nvml.ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
    if reasons is None:  # its name before R535
        reasons = nvml.ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    utilization = nvml.ask("nvmlDeviceGetUtilizationRates", handle)
    return {
        "compute_mode": word(COMPUTE_MODES, nvml.ask("nvmlDeviceGetComputeMode", handle)),
        "throttle_reasons": reasons,
        "pcie_generation": nvml.ask("nvmlDeviceGetCurrPcieLinkGeneration", handle),
        "pcie_generation_max": nvml.ask("nvmlDeviceGetMaxPcieLinkGeneration", handle),
        "pcie_width": nvml.ask("nvmlDeviceGetCurrPcieLinkWidth", handle),
        "pcie_width_max": nvml.ask("nvmlDeviceGetMaxPcieLinkWidth", handle),
        "temperature_celsius": nvml.ask("nvmlDeviceGetTemperature", handle, 0),
        "power_watts": scaled(nvml.ask("nvmlDeviceGetPowerUsage", handle), 1000),
        "power_limit_watts": scaled(nvml.ask("nvmlDeviceGetEnforcedPowerLimit", handle), 1000),
        "sm_clock_mhz": nvml.ask("nvmlDeviceGetClockInfo", handle, CLOCK_SM),
        "sm_clock_max_mhz": nvml.ask("nvmlDeviceGetMaxClockInfo", handle, CLOCK_SM),
        "utilization_percent": None if utilization is None else utilization.gpu,
        "driver_model": driver_model(nvml, handle),
    }


def driver_model(nvml: Nvml, handle: Any) -> str | None:
    if sys.platform != "win32":
        return None
    return word(DRIVER_MODELS, nvml.ask("nvmlDeviceGetCurrentDriverModel", handle))


def fabric(nvml: Nvml, handle: Any) -> dict[str, Any]:
    kind = getattr(nvml.module, "c_nvmlGpuFabricInfoV_t", None)
    if kind is None:
        return {}
    import ctypes

    info = kind()
    if nvml.ask("nvmlDeviceGetGpuFabricInfoV", handle, ctypes.byref(info)) is None:
        return {}
    name = word(FABRIC_STATES, info.state)
    # The status only has a meaning once registration has ended.
    status = None if name != "Completed" else "Success" if info.status == 0 else f"NVML error {info.status}"
    return {"fabric_state": name, "fabric_status": status}


def links(nvml: Nvml, handle: Any) -> dict[str, Any]:
    """Active NVLinks, by what is at their other end. A device without NVLink refuses the first question."""
    peers: dict[str, int] = {}
    active, asked = 0, False
    for link in range(getattr(nvml.module, "NVML_NVLINK_MAX_LINKS", NVLINKS)):
        state = nvml.ask("nvmlDeviceGetNvLinkState", handle, link)
        if state is None:
            break
        asked = True
        if not state:
            continue
        active += 1
        kind = nvml.ask("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link)
        pci = None if kind == SWITCH else nvml.ask("nvmlDeviceGetNvLinkRemotePciInfo", handle, link)
        name = "switch" if kind == SWITCH else text(pci.busId) if kind == GPU and pci is not None else "unknown"
        peers[name] = peers.get(name, 0) + 1
    return {"nvlinks_active": active, "nvlink_peers": peers} if asked else {}


def processes(nvml: Nvml, handle: Any) -> dict[str, Any]:
    # By version: the plain name refuses to work with a library of another age.
    names = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2")
    listed = next((rows for name in names if (rows := nvml.ask(name, handle)) is not None), None)
    if listed is None:
        return {}
    rows = []
    for one in listed[:64]:
        used = one.usedGpuMemory
        name = nvml.ask("nvmlSystemGetProcessName", one.pid)
        rows.append({"pid": one.pid, "name": name, "memory_bytes": None if used in (None, NOT_AVAILABLE) else used, "type": "C"})
    return {"processes": rows}


def devices(nvml: Nvml) -> None:
    count, code, words = nvml.code(nvml.module.nvmlDeviceGetCount)
    say(step="count", count=count, code=code, text=words)
    for index in range(count or 0):
        handle, code, words = nvml.code(partial(nvml.module.nvmlDeviceGetHandleByIndex, index))
        if handle is None:
            say(step="device", index=index, code=code, text=words)
            continue
        nvml.refused = {}
        say(step="device", index=index, code=0, **identity(nvml, handle))
        for part in (memory, mig, health, state, fabric, links, processes):
            try:
                say(step="detail", index=index, **part(nvml, handle))
            except Exception as error:  # noqa: BLE001  # one part that fails must not cost the other parts and devices
                say(step="trouble", index=index, part=part.__name__, text=f"{type(error).__name__}: {error}")
        for code, call in list(nvml.refused.items()):
            say(step="refused", index=index, call=call, code=code, text=nvml.ask("nvmlErrorString", code))


def no_core_file() -> None:
    """A crash must leave no file behind."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    except (ImportError, OSError, ValueError):  # Windows
        return


def main() -> None:
    no_core_file()
    sys.path[:0] = sys.argv[1:2]
    say(step="load")
    import pynvml  # type: ignore[import-not-found,import-untyped,unused-ignore]

    nvml = Nvml(pynvml)
    _, code, words = nvml.code(pynvml.nvmlInit)
    say(step="init", code=code, text=words)
    if code != 0:
        return
    say(
        step="system",
        driver=nvml.ask("nvmlSystemGetDriverVersion"),
        library=nvml.ask("nvmlSystemGetNVMLVersion"),
        cuda=nvml.ask("nvmlSystemGetCudaDriverVersion_v2"),
    )
    devices(nvml)
    say(step="end")
    os._exit(0)  # nvmlShutdown and interpreter teardown can only hang or crash now


if __name__ == "__main__":
    main()
