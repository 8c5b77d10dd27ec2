"""CUDA's error numbers by name, as far as they say why a device cannot be used.

Numbers are those of driver_types.h (CUDA 13.5), words those of cudaGetErrorString of its libcudart.so.13. From 100 on, and for 2, 3, 34,
36 and 46, the driver API (cuInit) has the same numbers; torch passes both on as "Error 804: forward compatibility was attempted …".
"""

from __future__ import annotations

OUT_OF_MEMORY, NOT_INITIALIZED, STUB_LIBRARY, INSUFFICIENT_DRIVER, DEVICES_UNAVAILABLE = 2, 3, 34, 35, 46
NO_DEVICE, INVALID_DEVICE, ECC_UNCORRECTABLE, NVLINK_UNCORRECTABLE, CONTAINED, LAUNCH_FAILURE = 100, 101, 214, 220, 226, 719
SYSTEM_NOT_READY, SYSTEM_DRIVER_MISMATCH, COMPAT_NOT_SUPPORTED, FABRIC_NOT_READY, UNKNOWN = 802, 803, 804, 919, 999

WORDS = {
    OUT_OF_MEMORY: "out of memory",
    NOT_INITIALIZED: "initialization error",
    STUB_LIBRARY: "CUDA driver is a stub library",
    INSUFFICIENT_DRIVER: "CUDA driver version is insufficient for CUDA runtime version",
    36: "API call is not supported in the installed CUDA driver",
    DEVICES_UNAVAILABLE: "CUDA-capable device(s) is/are busy or unavailable",
    NO_DEVICE: "no CUDA-capable device is detected",
    INVALID_DEVICE: "invalid device ordinal",
    102: "device doesn't have valid Grid license",
    103: "integrity checks failed",
    127: "startup failure in cuda runtime",
    ECC_UNCORRECTABLE: "uncorrectable ECC error encountered",
    NVLINK_UNCORRECTABLE: "uncorrectable NVLink error detected during the execution",
    CONTAINED: "Invalid access of peer GPU memory over nvlink or a hardware error",
    304: "OS call failed or operation not supported on this OS",
    LAUNCH_FAILURE: "unspecified launch failure",
    800: "operation not permitted",
    801: "operation not supported",
    SYSTEM_NOT_READY: "system not yet initialized",
    SYSTEM_DRIVER_MISMATCH: "system has unsupported display driver / cuda driver combination",
    COMPAT_NOT_SUPPORTED: "forward compatibility was attempted on non supported HW",
    805: "MPS client failed to connect to the MPS control daemon or the MPS server",
    806: "the remote procedural call between the MPS server and the MPS client failed",
    807: "MPS server is not ready to accept new MPS client requests",
    808: "the hardware resources required to create MPS client have been exhausted",
    809: "the hardware resources required to support device connections have been exhausted",
    810: "the MPS client has been terminated by the server",
    FABRIC_NOT_READY: "GPU fabric is not ready within the probe wait budget; application may retry (see CUDA_FABRIC_INIT_TIMEOUT_MS)",
    UNKNOWN: "unknown error",
}


def named(code: int) -> str:
    """A code for a reader: "802 (system not yet initialized)"."""
    return f"{code} ({WORDS[code]})" if code in WORDS else str(code)
