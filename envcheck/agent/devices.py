"""The accelerator, asked in a child that may crash or hang: availability, properties, one checked kernel on each device.

The first half runs in the agent, the second in the child. The child says what it finds a line at a time, so
that a crash costs only what it came in: {"arch_list": …}, then {"value": …} or {"error": …}; or {"poisoned": true} alone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings

from . import jsonl, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Tuple


class Child:
    """The child under way: forked, with a pipe for its one line, or started afresh, with a file."""

    def __init__(self, pid: int = 0, pipe: int = -1, process: Optional[subprocess.Popen[bytes]] = None, out: str = "") -> None:
        self.pid, self.pipe, self.process, self.out = pid, pipe, process, out
        self.began = time.monotonic()
        self.refused: Optional[OSError] = None  # the system would not start it
        self.poisoned = False  # forked, and torch says that it may not use CUDA: one that was started afresh has taken its place


def start(options: Dict[str, Any], torch: Any, fork: bool) -> Optional[Child]:
    """A child that initialises the accelerator while this process goes on importing. None if this build knows none."""
    accelerated = any(jsonl.attempt(lambda name=name: getattr(torch.version, name)) for name in ("cuda", "hip", "xpu"))
    if not accelerated and sys.platform != "darwin":
        return None
    try:
        return start_forked(options) if fork else start_afresh(options)
    except OSError as error:
        child = Child()
        child.refused = error
        return child


def start_forked(options: Dict[str, Any]) -> Child:
    agent = os.getpid()
    pid, receive, send = processes.fork_with_pipe()
    if pid == 0:
        code = 1
        try:
            os.close(receive)
            processes.die_with_parent(agent)
            processes.leave_stacks(os.path.join(options["folder"], "devices.stack"))
            answer(lambda **said: jsonl.write_all(send, jsonl.encoded(said)), options["live"] != "off", forked=True)
            code = 0
        finally:
            os._exit(code)
    os.close(send)
    return Child(pid=pid, pipe=receive)


def start_afresh(options: Dict[str, Any]) -> Child:
    out = os.path.join(options["folder"], "devices.jsonl")
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "main.py")
    told = jsonl.encoded(dict(options, only="devices", out=out)).decode()
    return Child(process=subprocess.Popen([sys.executable, here, told], stdin=subprocess.DEVNULL), out=out)


def finish(child: Optional[Child], options: Dict[str, Any], writer: jsonl.Writer, deadline: float) -> Any:
    """Wait for the child within its budget; its death or silence becomes the section's error. Returns the value or None."""
    if child is None:
        value = {"available": False, "count": 0}
        writer.line(section="devices", value=value)
        return value
    writer.line(begin="devices", at=time.monotonic())
    if child.refused:
        writer.line(section="devices", error=jsonl.described(child.refused))
        return None
    found, status, limit = collect(child, options, deadline)
    if found.get("poisoned"):
        # Something that came with the import has used CUDA, so every child that is forked is refused. That is no fault of the devices.
        child.poisoned = True
        try:
            found, status, limit = collect(start_afresh(options), options, deadline)
        except OSError as error:
            found = {"error": jsonl.described(error)}
    if not ("value" in found or "error" in found):
        kind, how = death(status, limit)
        stack = processes.tail(os.path.join(options["folder"], "devices.stack"), 8000)
        found["error"] = {"type": kind, "text": "asking the devices " + how, "stack": stack}
    writer.line(section="devices", **found)
    return found.get("value")


def collect(child: Child, options: Dict[str, Any], deadline: float) -> Tuple[Dict[str, Any], Optional[int], float]:
    """What the child has said, its exit status (None if it did not end), and the seconds that it had."""
    deadline = min(deadline, child.began + options["devices_seconds"])
    found, status = collect_afresh(child, child.process, deadline) if child.process else collect_forked(child, deadline)
    return found, status, deadline - child.began


def collect_forked(child: Child, deadline: float) -> Tuple[Dict[str, Any], Optional[int]]:
    data, closed = b"", False
    os.set_blocking(child.pipe, False)
    while True:
        status = processes.exit_status(child.pid)  # asked before the last read, and because a grandchild may keep the pipe open
        part, closed = processes.drain(child.pipe)
        data += part
        found = merged(data)
        left = deadline - time.monotonic()
        if status is not None or closed or through(found) or left <= 0:
            break
        processes.wait_readable([child.pipe], min(left, 0.2))
    os.close(child.pipe)
    if status is None and (closed or through(found)):
        status = processes.reap(child.pid, 5)  # a context takes a moment to be torn down
    if status is None:
        if not through(found):
            processes.ask_for_stack(child.pid)
            time.sleep(0.5)
        os.kill(child.pid, signal.SIGKILL)
        processes.reap(child.pid, 3)
    return found, status


def collect_afresh(child: Child, process: subprocess.Popen[bytes], deadline: float) -> Tuple[Dict[str, Any], Optional[int]]:
    try:
        code: Optional[int] = process.wait(max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        code = None
        processes.ask_for_stack(process.pid)
        time.sleep(0.5)
        process.kill()
        jsonl.attempt(process.wait, 3)
    try:
        with open(jsonl.plain_file(child.out), "rb") as file:
            return merged(file.read()), code
    except OSError:
        return {}, code


def merged(data: bytes) -> Dict[str, Any]:
    """What the child's whole lines say together."""
    found: Dict[str, Any] = {}
    for line in data[: data.rfind(b"\n") + 1].splitlines():
        row = jsonl.decoded(line)
        if isinstance(row, dict):
            found.update((key, row[key]) for key in ("poisoned", "arch_list", "value", "error") if key in row)
    return found


def through(found: Dict[str, Any]) -> bool:
    """Whether the child has nothing more to say, whatever becomes of it then."""
    return not found.keys().isdisjoint(("poisoned", "value", "error"))


def death(status: Optional[int], seconds: float) -> Tuple[str, str]:
    if status is None:
        return "timeout", "did not end within %.0f s" % seconds
    if status < 0:
        return "crashed", "died with " + processes.signal_name(-status)
    return "failed", "ended with exit code %d and no answer" % status


# ---- inside the child


def answer(say: Callable[..., None], kernels: bool, forked: bool) -> None:
    """Ask everything, and `say` it; `kernels`: one checked kernel on each device."""
    import torch

    if forked and any(jsonl.call(torch, kind + "._is_in_bad_fork") is True for kind in ("cuda", "xpu")):
        say(poisoned=True)
        return
    # get_arch_list() answers [] unless CUDA initialises (up to torch 2.13 or so); the build's own flags are there in any case. Asking
    # for them marks a process as one that uses CUDA, so it is done here and nowhere else.
    flags = jsonl.call(torch, "_C._cuda_getArchFlags")
    if isinstance(flags, str):
        say(arch_list=flags.split())
    try:
        say(value=ask_devices(kernels))
    except BaseException as error:
        say(error=jsonl.described(error))


def ask_devices(kernels: bool) -> Dict[str, Any]:
    """Availability, properties of every visible device and, if `kernels`, one checked kernel on each."""
    import torch

    if jsonl.attempt(lambda: torch.version.xpu) and not jsonl.attempt(lambda: torch.version.cuda):
        return ask(torch, torch.xpu, "xpu", kernels)
    if sys.platform == "darwin":
        return ask_mps(torch, kernels)
    return ask(torch, torch.cuda, "cuda", kernels)


def ask(torch: Any, api: Any, kind: str, kernels: bool) -> Dict[str, Any]:
    facts: Dict[str, Any] = {"nvml_check": os.environ.get("PYTORCH_NVML_BASED_CUDA_CHECK") == "1"}
    with warnings.catch_warnings(record=True, module=warnings) as caught:
        warnings.simplefilter("always")
        facts["available"] = bool(api.is_available())
        facts["count"] = int(jsonl.call(api, "device_count") or 0)
    facts["warnings"] = [jsonl.said(one.message) for one in caught or ()]
    archs = jsonl.call(api, "get_arch_list")
    facts["arch_list"] = [jsonl.said(one) for one in archs] if isinstance(archs, (list, tuple)) else None
    facts["cudnn"] = jsonl.flag(jsonl.call(torch, "backends.cudnn.is_available"))
    facts["cusparselt"] = jsonl.flag(jsonl.call(torch, "backends.cusparselt.is_available"))
    if facts["available"]:
        facts["devices"] = [device(torch, api, kind, index, kernels) for index in range(facts["count"])]
    else:
        facts["error"] = first_error(api, facts["warnings"])
    # Counts the devices as is_available() does, whose warning comes once: so it is asked after everything else.
    facts["config"] = jsonl.text(lambda: torch.__config__.show())
    return facts


def first_error(api: Any, warned: List[str]) -> Optional[str]:
    """What CUDA says when it is really used: is_available() swallows it."""
    try:
        api.init()
    except BaseException as error:
        return jsonl.said(error)
    return warned[0] if warned else None


def device(torch: Any, api: Any, kind: str, index: int, kernels: bool) -> Dict[str, Any]:
    row: Dict[str, Any] = {"index": index, "kind": kind}
    try:
        properties = api.get_device_properties(index)
        row["name"] = jsonl.said(properties.name)
        row["memory_bytes"] = int(properties.total_memory)
        row["uuid"] = jsonl.attempt(lambda: "GPU-" + str(properties.uuid))
        if kind == "cuda":
            row["compute_capability"] = jsonl.attempt(lambda: "%d.%d" % (properties.major, properties.minor))
    except BaseException as error:
        row.update(kernel="failed", kernel_error="properties: " + jsonl.said(error, 1000))
        return row
    if not kernels:
        return row
    reason = reason_to_refrain(row["uuid"]) if kind == "cuda" and not jsonl.attempt(lambda: torch.version.hip) else None
    if reason:
        row.update(kernel="unknown", kernel_error=reason)
        return row
    began = time.monotonic()
    try:
        row["kernel"], row["kernel_error"] = kernel(torch, "%s:%d" % (kind, index))
        free = jsonl.call(api, "mem_get_info", index)
        row["memory_free_bytes"] = int(free[0]) if free else None
    except BaseException as error:
        text = jsonl.said(error)
        busy = "busy or unavailable" in text or "out of memory" in text
        row.update(kernel="unknown" if busy else "failed", kernel_error=text)
    row["seconds"] = time.monotonic() - began
    return row


def kernel(torch: Any, device: str) -> Tuple[str, Optional[str]]:
    """An elementwise kernel and a matrix product with known results: sum of 2i+1 for i < 1024 is 1024²; a row of 64 ones is 64."""
    numbers = torch.arange(1024, device=device, dtype=torch.int32)
    total = int((numbers * 2 + 1).sum().item())
    if total != 1024 * 1024:
        return "wrong", "sum of 2i+1 over i < 1024 gave %d, not %d" % (total, 1024 * 1024)
    ones = torch.ones(64, 64, device=device)
    product = (ones @ ones).cpu()
    if not bool((product == 64).all()):
        return "wrong", "a product of two 64 × 64 matrices of ones is not 64 everywhere"
    return "ok", None


def reason_to_refrain(uuid: Optional[str]) -> Optional[str]:
    """Why no context may be made on this GPU: it is exclusive and taken, or nearly full. NVML is asked, which needs no context."""
    try:
        import ctypes

        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        if nvml.nvmlInit_v2():
            return None
        handle = ctypes.c_void_p()
        if nvml.nvmlDeviceGetHandleByUUID(str(uuid).encode(), ctypes.byref(handle)):
            return None
        memory = (ctypes.c_ulonglong * 3)()  # nvmlMemory_t: total, free, used
        if not nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) and memory[0] and memory[1] < 1 << 30:
            return "only %d MiB are free, a CUDA context alone takes several hundred" % (memory[1] >> 20)
        mode = ctypes.c_int()
        if not nvml.nvmlDeviceGetComputeMode(handle, ctypes.byref(mode)):
            if mode.value == 2:
                return "compute mode is Prohibited"
            count = ctypes.c_uint(0)
            taken = nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), None) == 7 or count.value
            if mode.value in (1, 3) and taken:  # 7: NVML_ERROR_INSUFFICIENT_SIZE, so there is at least one
                return "compute mode is exclusive and another process holds the GPU"
    except Exception:
        return None
    return None


def ask_mps(torch: Any, kernels: bool) -> Dict[str, Any]:
    available = bool(jsonl.call(torch, "backends.mps.is_available"))
    facts: Dict[str, Any] = {"available": available, "count": int(available), "mps": available}
    if available and kernels:
        row: Dict[str, Any] = {"index": 0, "kind": "mps", "name": "Apple GPU"}
        try:
            row["kernel"], row["kernel_error"] = kernel(torch, "mps")
        except BaseException as error:
            row.update(kernel="failed", kernel_error=jsonl.said(error))
        facts["devices"] = [row]
    return facts
