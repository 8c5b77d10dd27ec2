"""Loads libcuda and asks it, one JSON line a step. Run as a file by `Host.child("cuda_child", LIBRARY)`.

{"step": "load", "path": "/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05"}
{"step": "version", "code": 0, "version": 13000} {"step": "init", "code": 0} {"step": "count", "code": 0, "count": 2}
{"step": "device", "index": 0, "name": "NVIDIA H200", …} … {"step": "end"}

It runs with the user's environment: CUDA_VISIBLE_DEVICES and LD_LIBRARY_PATH are what is asked about.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any

MAJOR, MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR


def say(**line: Any) -> None:
    os.write(1, (json.dumps(line) + "\n").encode())


def loaded_from(name: str) -> str | None:
    """The file behind the library, links resolved, as the kernel has it mapped."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            for line in file:
                path = line.rstrip("\n").partition("/")[2]
                if "libcuda.so" in path:
                    return "/" + path
    except OSError:
        pass
    return name if os.path.isabs(name) else None


def describe(cuda: Any, index: int) -> dict[str, Any]:
    """Name, capability, memory and UUID; none of these calls makes a context."""
    device = ctypes.c_int()
    if cuda.cuDeviceGet(ctypes.byref(device), index) != 0:
        return {}
    found: dict[str, Any] = {}
    name = ctypes.create_string_buffer(256)
    if cuda.cuDeviceGetName(name, 256, device) == 0:
        found["name"] = name.value.decode("utf-8", "replace")
    major, minor = ctypes.c_int(), ctypes.c_int()
    asked = [cuda.cuDeviceGetAttribute(ctypes.byref(into), attribute, device) for into, attribute in ((major, MAJOR), (minor, MINOR))]
    if asked == [0, 0]:
        found["compute_capability"] = f"{major.value}.{minor.value}"
    total = ctypes.c_size_t()
    if cuda.cuDeviceTotalMem_v2(ctypes.byref(total), device) == 0:
        found["memory_bytes"] = total.value
    uuid = (ctypes.c_ubyte * 16)()
    if cuda.cuDeviceGetUuid(uuid, device) == 0:
        digits = bytes(uuid).hex()
        found["uuid"] = "GPU-" + "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return found


def no_core_file() -> None:
    """A crash must leave no file behind."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    except (ImportError, OSError, ValueError):  # Windows
        return


def main() -> None:
    no_core_file()
    name = sys.argv[1] if len(sys.argv) > 1 else "libcuda.so.1"
    try:
        # On 64-bit Windows both calling conventions are one.
        cuda = ctypes.CDLL(name)
    except OSError as error:
        say(step="failed", text=str(error))
        return
    say(step="load", path=loaded_from(name))
    version = ctypes.c_int()
    code = cuda.cuDriverGetVersion(ctypes.byref(version))
    say(step="version", code=code, version=version.value)
    code = cuda.cuInit(0)
    say(step="init", code=code)
    count = ctypes.c_int()
    counted = cuda.cuDeviceGetCount(ctypes.byref(count))
    say(step="count", code=counted, count=count.value if counted == 0 else None)
    for index in range(count.value if code == 0 and counted == 0 else 0):
        try:
            say(step="device", index=index, **describe(cuda, index))
        except AttributeError as error:  # a function that this libcuda does not have
            say(step="trouble", index=index, text=str(error))
    say(step="end")
    os._exit(0)  # libcuda's own teardown can only hang or crash now


if __name__ == "__main__":
    main()
