"""NVML's return codes and nvidia-smi's exit statuses, by name.

Numbers and names are those of nvml.h (nvmlReturn_t). https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html
nvidia-smi ends with the code of NVML where NVML fails; where the two differ: its man page, section RETURN VALUE.
"""

from __future__ import annotations

NAMES = {
    1: "UNINITIALIZED", 2: "INVALID_ARGUMENT", 3: "NOT_SUPPORTED", 4: "NO_PERMISSION", 5: "ALREADY_INITIALIZED", 6: "NOT_FOUND",
    7: "INSUFFICIENT_SIZE", 8: "INSUFFICIENT_POWER", 9: "DRIVER_NOT_LOADED", 10: "TIMEOUT", 11: "IRQ_ISSUE", 12: "LIBRARY_NOT_FOUND",
    13: "FUNCTION_NOT_FOUND", 14: "CORRUPTED_INFOROM", 15: "GPU_IS_LOST", 16: "RESET_REQUIRED", 17: "OPERATING_SYSTEM",
    18: "LIB_RM_VERSION_MISMATCH", 19: "IN_USE", 20: "MEMORY", 21: "NO_DATA", 22: "VGPU_ECC_NOT_SUPPORTED", 23: "INSUFFICIENT_RESOURCES",
    24: "FREQ_NOT_SUPPORTED", 25: "ARGUMENT_VERSION_MISMATCH", 26: "DEPRECATED", 27: "NOT_READY", 28: "GPU_NOT_FOUND",
    29: "INVALID_STATE", 30: "RESET_TYPE_NOT_SUPPORTED", 999: "UNKNOWN",
}  # fmt: skip
UNINITIALIZED, NO_PERMISSION, NOT_FOUND, NOT_LOADED, TIMEOUT, NO_LIBRARY, BLOCKED, MISMATCH, NO_GPU = 1, 4, 6, 9, 10, 12, 17, 18, 28
POWER, IRQ, INFOROM, LOST, RESET, UNKNOWN = 8, 11, 14, 15, 16, 999
SMI_ARGUMENT, SMI_IRQ, SMI_OTHER = (
    2,
    10,
    255,
)  # nvidia-smi's own; the last is what it has no number for
# The device count includes GPUs that this process may not open: a scheduler's device rules or a container keep them for others.
# https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html (nvmlDeviceGetCount_v2)
CLOSED = (NO_PERMISSION, BLOCKED)

# Their texts, by nvmlErrorString and by nvidia-smi, which prints them in place of a value. Older libraries say "restart" of a reset.
_TEXTS = {
    "insufficient permissions": NO_PERMISSION,
    "insufficient external power": POWER,
    "interrupt request issue": IRQ,
    "corrupted inforom": INFOROM,
    "gpu is lost": LOST,
    "gpu requires reset": RESET,
    "gpu requires restart": RESET,
    "gpu access blocked by the operating system": BLOCKED,
    "the operating system has blocked the request": BLOCKED,
    "unknown error": UNKNOWN,
    "err!": UNKNOWN,
}
# What NVML says before it knows of any GPU: "Failed to initialize NVML: Driver/library version mismatch".
_OF_START = {
    "driver/library version mismatch": MISMATCH,
    "driver not loaded": NOT_LOADED,
    "nvml shared library not found": NO_LIBRARY,
    "uninitialized": UNINITIALIZED,
    "timeout": TIMEOUT,
}


def code_of(words: str) -> int | None:
    """The code behind a text: 16 of "[GPU requires reset]", 15 of "GPU is lost.  Reboot the system to recover this GPU"."""
    text = words.strip().strip("[]").strip().lower()
    return next((code for known, code in _TEXTS.items() if text == known or text.startswith(f"{known}.")), None)


def smi_exit_of(words: str) -> int | None:
    """The exit status of nvidia-smi that goes with NVML's words: 18 of "Driver/library version mismatch"."""
    code = _OF_START.get(words.strip().rstrip(".").lower()) or code_of(words)
    return {IRQ: SMI_IRQ, UNKNOWN: SMI_OTHER}.get(code, code) if code else None


def named(code: int | None, words: str) -> str:
    """A code for a reader: "Not Supported (NVML_ERROR_NOT_SUPPORTED)"."""
    name = f"NVML_ERROR_{NAMES[code]}" if code in NAMES else None if code is None else f"code {code}"
    return words if name is None else f"{words} ({name})" if words else name
