"""Imports torch in the target, states its facts, asks the devices in a child, and starts the live check.

Loaded by collect.py. Before the fork it only imports and reads constants: no tensor operation, no cuInit
(a CUDA context or an OpenMP team of the parent does not survive a fork).
"""

import os
import signal
import sys
import time
import traceback
import warnings

LIBRARIES = ("libcuda.so", "libcudart", "libcudnn", "libnccl", "libcublas", "libcusparse", "libcusolver", "libcufft", "libnvJitLink",
             "libnvrtc", "libnvshmem", "libtorch", "libc10", "libgomp", "libiomp", "libmkl", "libopenblas", "librccl", "libamdhip64",
             "libhsa-runtime", "libze_loader", "libsycl", "libucc", "libmpi", "libnvidia-ml", "libstdc++", "libgloo")  # fmt: skip


def main(options, writer, load):
    arm_faulthandler(options, "agent")
    die_with_parent()
    if options.get("rank") is not None:  # a spawned rank
        import_torch(None)
        load("live")["rank_process"](options, writer)
        return
    if options.get("only") == "devices":
        import_torch(None)
        writer.section("devices", devices, options["live"] != "off")
        return
    writer.line(begin="import", at=time.monotonic())
    imported = import_torch(options)
    writer.line(section="import", value=imported)
    if imported["status"] != "ok":
        return
    import torch

    writer.section("torch", torch_facts, torch)
    writer.section("backends", backend_facts, torch)
    fork = may_fork(torch, options)
    child = start_devices(options, torch, fork)
    if options["live"] != "off":
        live = load("live")
        writer.section("preload", preload)
        asked = finish_devices(child, options, writer)
        writer.line(begin="live", at=time.monotonic())
        live["check"](options, writer, asked, fork, imported["seconds"])
    else:
        finish_devices(child, options, writer)


def arm_faulthandler(options, name):
    """SIGUSR1 makes this process write the stacks of all its threads to <folder>/<name>.stack."""
    import faulthandler

    if hasattr(signal, "SIGUSR1"):
        file = open(os.path.join(options["folder"], name + ".stack"), "w")
        faulthandler.register(signal.SIGUSR1, file=file, all_threads=True)
        faulthandler.enable(file=sys.stderr)
        return file
    return None


def die_with_parent():
    """Ask Linux to kill this process when the one that started it dies, however it dies."""
    if sys.platform != "linux":
        return
    parent = os.getppid()
    try:
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    except Exception:
        return
    if os.getppid() != parent:
        os._exit(1)


def import_torch(options):
    """The timed import. SystemExit and every other exception are results; a crash or a hang is named by the caller."""
    began = time.monotonic()
    noise = output_size()
    result = {"status": "ok"}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        try:
            import torch
        except BaseException as error:
            if options is None:
                raise
            frames = traceback.extract_tb(error.__traceback__)[-6:]
            result = {
                "status": "exited" if isinstance(error, SystemExit) else "error",
                "type": type(error).__name__,
                "text": str(error)[:4000],
                "exit_code": error.code if isinstance(error, SystemExit) and isinstance(error.code, int) else None,
                "stack": "".join(traceback.format_list(frames))[-4000:],
            }
        else:
            if getattr(torch, "__version__", None) is None or not hasattr(torch, "tensor"):
                result = {"status": "not_torch", "text": "%s has no __version__ and no tensor()" % getattr(torch, "__file__", "torch")}
    result["seconds"] = time.monotonic() - began
    result["warnings"] = [str(one.message)[:1000] for one in caught][:20]
    result["noise"] = output_size() > noise
    return result


def output_size():
    try:
        sys.stdout.flush()
        return os.fstat(1).st_size
    except Exception:
        return 0


def attempt(function, *arguments):
    """The value, or None if this torch does not have it or says no."""
    try:
        return function(*arguments)
    except Exception:
        return None


def dotted(root, path):
    for name in path.split("."):
        root = getattr(root, name)
    return root


def call(root, path, *arguments):
    return attempt(lambda: dotted(root, path)(*arguments))


def torch_facts(torch):
    version = attempt(lambda: str(torch.__version__))
    cuda, hip = attempt(lambda: torch.version.cuda), attempt(lambda: torch.version.hip)
    flags = call(torch, "_C._cuda_getArchFlags")
    # get_arch_list() answers [] unless CUDA initialises, so the build's own flags are read; only without them is it asked, in the child.
    nccl = call(torch, "_C._nccl_version")
    return {
        "version": version,
        "cuda": cuda,
        "hip": hip,
        "xpu": attempt(lambda: torch.version.xpu),
        "path": attempt(lambda: os.path.dirname(torch.__file__)),
        "git_version": attempt(lambda: torch.version.git_version),
        "debug": attempt(lambda: bool(torch.version.debug)),
        "arch_list": flags.split() if isinstance(flags, str) else ([] if cuda is None and hip is None else None),
        "cxx11_abi": attempt(lambda: bool(torch._C._GLIBCXX_USE_CXX11_ABI)),
        "config": call(torch, "__config__.show"),
        "nccl_loaded": nccl_version(nccl),
        "cudnn": cudnn_version(call(torch, "_C._cudnn.getCompileVersion")) if cuda else None,
        "cudnn_loaded": cudnn_version(call(torch, "_C._cudnn.getRuntimeVersion")) if cuda else None,
        "libraries": loaded_libraries(),
    }


def nccl_version(value):
    """(2, 28, 9) or 2708 or 21502 → "2.28.9"."""
    if isinstance(value, (tuple, list)):
        return ".".join(str(part) for part in value[:3])
    if isinstance(value, int):
        if value < 10000:
            return "%d.%d.%d" % (value // 1000, value % 1000 // 100, value % 100)
        return "%d.%d.%d" % (value // 10000, value % 10000 // 100, value % 100)
    return None


def cudnn_version(value):
    """91900, 8902 or (9, 19, 0) → "9.19.0", "8.9.2"."""
    if isinstance(value, (tuple, list)):
        return ".".join(str(part) for part in value[:3])
    if isinstance(value, int) and value > 0:
        major = 10000 if value >= 90000 else 1000
        return "%d.%d.%d" % (value // major, value % major // 100, value % 100)
    return None


def loaded_libraries():
    """Paths of the libraries that decide: from /proc/self/maps, e.g. "7f00… r-xp … /usr/lib/libcuda.so.580.95"."""
    paths = set()
    try:
        with open("/proc/self/maps") as file:
            for line in file:
                path = line[line.find("/") :].rstrip() if "/" in line else ""
                if ".so" in path and os.path.basename(path).startswith(LIBRARIES):
                    paths.add(path)
    except OSError:
        pass
    return sorted(paths)


def backend_facts(torch):
    distributed = call(torch, "distributed.is_available")

    def has(name):
        return call(torch, "distributed.is_%s_available" % name) if distributed else (False if distributed is False else None)

    return {
        "cuda": call(torch, "backends.cuda.is_built"),
        "cusparselt": call(torch, "backends.cusparselt.is_available") if attempt(lambda: torch.version.cuda) is None else None,
        "mps_built": call(torch, "backends.mps.is_built"),
        "mkl": call(torch, "backends.mkl.is_available"),
        "mkldnn": call(torch, "backends.mkldnn.is_available"),
        "openmp": call(torch, "backends.openmp.is_available"),
        "distributed": distributed,
        "nccl": has("nccl"),
        "gloo": has("gloo"),
        "mpi": has("mpi"),
        "ucc": has("ucc"),
        "xccl": has("xccl"),
    }


def may_fork(torch, options):
    """Fork is right on Linux as long as nothing has initialised CUDA during the import (torch 1.12.0 did)."""
    if options["start_method"] == "spawn" or sys.platform != "linux":
        return False
    return not call(torch, "cuda.is_initialized")


def preload():
    """What DDP's constructor imports anyway and what costs as much as torch itself; paid once, before the fork."""
    import torch._dynamo
    import torch.nn.parallel  # noqa: F401


def start_devices(options, torch, fork):
    """A child that initialises the accelerator while this process goes on importing. None if this build knows none."""
    accelerated = any(attempt(lambda name=name: getattr(torch.version, name)) for name in ("cuda", "hip", "xpu"))
    if not accelerated and sys.platform != "darwin":
        return None
    if fork:
        receive, send = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(receive)
            child_of_agent(options, send)
        os.close(send)
        return {"pid": pid, "pipe": receive, "began": time.monotonic()}
    import json
    import subprocess

    out = os.path.join(options["folder"], "devices.jsonl")
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "collect.py")
    process = subprocess.Popen([sys.executable, here, json.dumps(dict(options, only="devices", out=out))], stdin=subprocess.DEVNULL)
    return {"process": process, "out": out, "began": time.monotonic()}


def child_of_agent(options, send):
    import json

    code = 1
    try:
        die_with_parent()
        arm_faulthandler(options, "devices")
        try:
            value = {"value": devices(options["live"] != "off")}
        except BaseException as error:
            value = {"error": {"type": type(error).__name__, "text": str(error)[:2000]}}
        data = json.dumps(value).encode()
        while data:
            data = data[os.write(send, data) :]
        code = 0
    finally:
        os._exit(code)


def finish_devices(child, options, writer):
    """Wait for the child within the budget; its death or silence becomes the section's error. Returns the value or None."""
    if child is None:
        value = {"available": False, "count": 0}
        writer.line(section="devices", value=value)
        return value
    writer.line(begin="devices", at=time.monotonic())
    deadline = child["began"] + options["devices_seconds"]
    answer, status = (collect_forked if "pid" in child else collect_spawned)(child, deadline)
    if answer is None:
        reason, why = death(status, options["devices_seconds"])
        answer = {"error": {"type": why, "text": "asking the devices " + reason, "stack": stack_of(options, "devices")}}
    writer.line(section="devices", **answer)
    return answer.get("value")


def collect_forked(child, deadline):
    import json
    import select

    data = b""
    while True:
        left = deadline - time.monotonic()
        ready = select.select([child["pipe"]], [], [], max(0, left))[0]
        if not ready:
            os.kill(child["pid"], signal.SIGUSR1)
            time.sleep(0.5)
            os.kill(child["pid"], signal.SIGKILL)
            return None, reap(child["pid"], None)
        part = os.read(child["pipe"], 65536)
        if not part:
            break
        data += part
    status = reap(child["pid"], 5)
    return (json.loads(data.decode()) if data else None), status


def collect_spawned(child, deadline):
    import json
    import subprocess

    try:
        code = child["process"].wait(max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        child["process"].kill()
        child["process"].wait(5)
        return None, None
    try:
        with open(child["out"]) as file:
            for line in file:
                row = json.loads(line)
                if row.get("section") == "devices":
                    return {key: row[key] for key in ("value", "error") if key in row}, code
    except (OSError, ValueError):
        pass
    return None, code


def reap(pid, seconds):
    """Exit code (negative: signal) of a child of ours, None if it did not end in time or was ended by us."""
    if seconds is None:
        end = time.monotonic() + 3
        while time.monotonic() < end and os.waitpid(pid, os.WNOHANG)[0] == 0:
            time.sleep(0.01)
        return None
    end = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None
        time.sleep(0.002)


def death(status, seconds):
    if status is None:
        return "did not end within %.0f s" % seconds, "timeout"
    if status < 0:
        try:
            return "died with " + signal.Signals(-status).name, "crashed"
        except ValueError:
            return "died with signal %d" % -status, "crashed"
    return "ended with exit code %d and no answer" % status, "failed"


def stack_of(options, name):
    try:
        with open(os.path.join(options["folder"], name + ".stack")) as file:
            return file.read(8000)
    except OSError:
        return ""


def devices(kernels):
    """Ask the accelerator: availability, properties of every visible device and, if `kernels`, one checked kernel on each."""
    import torch

    if attempt(lambda: torch.version.xpu) and not attempt(lambda: torch.version.cuda):
        return ask(torch, torch.xpu, "xpu", kernels)
    if sys.platform == "darwin":
        return ask_mps(torch, kernels)
    return ask(torch, torch.cuda, "cuda", kernels)


def ask(torch, api, kind, kernels):
    facts = {"nvml_check": os.environ.get("PYTORCH_NVML_BASED_CUDA_CHECK") == "1"}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        facts["available"] = bool(api.is_available())
        facts["count"] = int(attempt(api.device_count) or 0)
    facts["warnings"] = [str(one.message)[:2000] for one in caught]
    facts["arch_list"] = call(api, "get_arch_list")
    facts["cudnn"] = call(torch, "backends.cudnn.is_available")
    facts["cusparselt"] = call(torch, "backends.cusparselt.is_available")
    if not facts["available"]:
        facts["error"] = first_error(api, facts["warnings"])
        return facts
    facts["devices"] = [device(torch, api, kind, index, kernels) for index in range(facts["count"])]
    return facts


def first_error(api, said):
    """What CUDA says when it is really used: is_available() swallows it."""
    try:
        api.init()
    except BaseException as error:
        return str(error)[:2000]
    return said[0] if said else None


def device(torch, api, kind, index, kernels):
    row = {"index": index, "kind": kind}
    try:
        properties = api.get_device_properties(index)
        row["name"] = properties.name
        row["memory_bytes"] = properties.total_memory
        row["uuid"] = attempt(lambda: "GPU-" + str(properties.uuid))
        if kind == "cuda":
            row["compute_capability"] = attempt(lambda: "%d.%d" % (properties.major, properties.minor))
    except BaseException as error:
        row.update(kernel="failed", kernel_error="properties: " + str(error)[:1000])
        return row
    if not kernels:
        return row
    reason = reason_to_refrain(row.get("uuid")) if kind == "cuda" and not attempt(lambda: torch.version.hip) else None
    if reason:
        row.update(kernel="unknown", kernel_error=reason)
        return row
    began = time.monotonic()
    try:
        row["kernel"], row["kernel_error"] = kernel(torch, "%s:%d" % (kind, index))
        free = call(api, "mem_get_info", index)
        row["memory_free_bytes"] = int(free[0]) if free else None
    except BaseException as error:
        text = str(error)[:2000]
        busy = "busy or unavailable" in text or "out of memory" in text
        row.update(kernel="unknown" if busy else "failed", kernel_error=text)
    row["seconds"] = time.monotonic() - began
    return row


def kernel(torch, device):
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


def reason_to_refrain(uuid):
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


def ask_mps(torch, kernels):
    available = bool(call(torch, "backends.mps.is_available"))
    facts = {"available": available, "count": int(available), "mps": available}
    if available and kernels:
        row = {"index": 0, "kind": "mps", "name": "Apple GPU"}
        try:
            row["kernel"], row["kernel_error"] = kernel(torch, "mps")
        except BaseException as error:
            row.update(kernel="failed", kernel_error=str(error)[:2000])
        facts["devices"] = [row]
    return facts
