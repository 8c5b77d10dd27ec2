"""What kinds of text a file holds, and the facts of each. One file may hold several: an issue with a report, a table and a log."""

from __future__ import annotations

import re
from collections.abc import Callable

from envcheck.facts.record import replace
from envcheck.facts.snapshot import Nvcc, ToolAnswer, ToolStatus
from envcheck.read.found import Found, Notes, line_at

# Programs whose logs hold other people's errors: kind → texts of which one must occur.
_LOGS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("traceback", ("Traceback (most recent call last)",)),
    ("torchrun", ("torch.distributed.elastic", "torch/distributed/run.py", "torch/distributed/elastic", "ChildFailedError")),
    ("Ray", ("ray.exceptions", "(raylet", "RayTaskError", "RayActorError", "ray::")),
    ("Lightning", ("lightning.pytorch", "pytorch_lightning", "MisconfigurationException", "Lightning")),
    ("DeepSpeed", ("[deepspeed]", "DeepSpeed", "deepspeed.")),
    ("vLLM", ("vllm/", "EngineCore", "APIServer pid=")),
    ("docker", ("Error response from daemon", "nvidia-container-cli")),
    ("pip", ("ERROR: Could not find a version", "No matching distribution found", "pip's dependency resolver", "Looking in indexes")),
    ("compiler", ("nvcc fatal", "ptxas fatal", "ninja: build stopped", "error: command '", "/usr/bin/ld: ", "collect2: error")),
    ("kernel log", ("NVRM: ", "kernel: ", "AER: ", "oom-kill", "Out of memory: Killed")),
    ("error", ("Error:", "ERROR", "error:", "FATAL", "CUDA error", "Exception")),
)


def log_kinds(text: str) -> list[str]:
    if len(text) > WHOLE:
        text = text[: WHOLE // 2] + text[-WHOLE // 2 :]
    kinds = [kind for kind, marks in _LOGS if any(mark in text for mark in marks)]
    return kinds[:-1] if len(kinds) > 1 and kinds[-1] == "error" else kinds


def read_text(text: str) -> list[Found]:
    """What every reader finds in one clean piece of text. No reader raises on any text.

    Of a long piece only the surroundings of lines that begin a report are read: reports are short, logs are not.
    """
    if len(text) <= WHOLE:
        return _read(text)
    started = _started_in(text)
    others = [_moved(found, text.count("\n", 0, start)) for start, end in regions(text) for found in _read(text[start:end])]
    return [*([started] if started else []), *others]


_EDGE = 1 << 15  # characters at either end of a long piece that are looked through for whatever was started
_LAUNCHERS = (
    "torchrun ", "deepspeed ", "accelerate launch ", ".distributed.launch ", ".distributed.run ", "srun ", "mpirun ", "mpiexec ", "salloc ",
    "#SBATCH ",
)  # fmt: skip
_PLACES, _ABOVE, _CONTINUED = 8, 3, 24  # of one word; lines above and, while each goes on, below


def _started_in(text: str) -> Found | None:
    """What a long text says was started: its ends, and between them the lines with the name of a launcher."""
    ends = (text.rfind("\n", 0, _EDGE) + 1, text.find("\n", len(text) - _EDGE) + 1 or len(text))
    kept = [(1, text[: ends[0]])]
    places: set[int] = set()
    for word in _LAUNCHERS:
        at = text.find(word, ends[0], ends[1])
        for _ in range(_PLACES):
            if at < 0:
                break
            places.add(text.rfind("\n", 0, at) + 1)
            at = text.find(word, text.find("\n", at), ends[1]) if text.find("\n", at) >= 0 else -1
    after = ends[0]
    for place in sorted(places):
        if place >= after:
            start, after = _lines_around(text, place, after)
            kept.append((text.count("\n", 0, start) + 1, text[start:after]))
    kept.append((text.count("\n", 0, ends[1]) + 1, text[ends[1] :]))
    found = _started("\n".join(part for _, part in kept))
    numbers = [number for first, part in kept for number in range(first, first + part.count("\n") + 1)]
    if found is None:
        return None
    return replace(found, facts=tuple(replace(one, number=numbers[min(one.number, len(numbers)) - 1]) for one in found.facts))


def _lines_around(text: str, place: int, low: int) -> tuple[int, int]:
    """A few lines above a line, which may name the script; and those that continue it."""
    start = place
    for _ in range(_ABOVE):
        start = max(text.rfind("\n", low, start - 1) + 1, low) if start > low else start
    end = place
    for _ in range(_CONTINUED):
        newline = text.find("\n", end, end + (1 << 12))
        if newline < 0:
            return start, min(end + (1 << 12), len(text))
        end = newline + 1
        if text[newline - 1 : newline] not in ("\\", "^", "`") and not text.startswith("#SBATCH ", end):
            break
    return start, end


WHOLE = 1 << 18  # characters of a piece that is read as a whole
_BEFORE, _AFTER, _REGIONS = 1 << 12, 1 << 16, 8

# What stands near the beginning of each kind of report, or is the report.
_MARKS = (
    "PyTorch version", "CUDA used to build", "Is CUDA available", "Nvidia driver version", "NVIDIA-SMI", "NVSMI LOG", "<nvidia_smi_log",
    "driver_version", "(UUID: GPU-", "Cuda compilation tools", "CPU Affinity", "NCCL version", "NCCL_DEBUG set", "set by environment to",
    "NVRM: ", "# packages in environment at", "Package   ", "torch==", "[pip3]", "[conda]", "CUDA capabilit", "cuda capability",
    "compute capability (CC)", "found version ", "ROCm System Management", "Successfully installed ", "Requirement already satisfied",
)  # fmt: skip


def regions(text: str) -> list[tuple[int, int]]:
    """Whole-line ranges around the first and the last of each mark, merged; a bounded number of bounded ranges."""
    places = sorted({at for mark in _MARKS for at in (text.find(mark), text.rfind(mark)) if at >= 0})
    merged: list[tuple[int, int]] = []
    for at in places:
        start = text.rfind("\n", 0, max(at - _BEFORE, 0)) + 1
        end = text.find("\n", min(at + _AFTER, len(text)))
        end = min(len(text) if end < 0 else end, at + 2 * _AFTER)
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif len(merged) < _REGIONS:
            merged.append((max(start, at - 2 * _BEFORE), end))
    return [(start, min(end, start + 4 * _AFTER)) for start, end in merged]


def _read(text: str) -> list[Found]:
    return [found for reader in _READERS if (found := reader(text)) is not None]


def _moved(found: Found, lines: int) -> Found:
    """The same with line numbers of the whole piece."""
    return replace(found, facts=tuple(replace(fact, number=fact.number + lines) if fact.number else fact for fact in found.facts))


_SMI_HINTS = (
    "NVIDIA-SMI",
    "nvidia-smi",
    "NVSMI",
    "nvidia_smi_log",
    "MiB /",
    "driver_version",
    "GPU-",
    "Product Name",
    "Driver Version",
    "initialize NVML",
    "NVML version",
    "NVML library",
    "device handle",
)


def _smi(text: str) -> Found | None:
    listed = "GPU 0: " in text and "odels and configuration" not in text
    if not listed and not any(hint in text for hint in _SMI_HINTS):
        return None
    from envcheck.read.smi import read_smi

    report = read_smi(text)
    notes = Notes(f"nvidia-smi ({', '.join(report.formats)})" if report.formats else "nvidia-smi")
    line, number = _line_with(text, report.driver) if report.driver else ("", 0)
    notes.put("driver.version", report.driver, line, number)
    notes.put("driver.cuda", report.cuda, *(_line_with(text, report.cuda) if report.cuda else ("", 0)))
    notes.put("driver.cuda_state", report.cuda_state, line, number)
    if report.formats and not report.failure:
        notes.put("driver.smi", "ok", line or report.formats[0], number)
    elif report.failure and report.failure.code not in (2, 127):  # a wrong flag, or no such command: no word on the driver
        failed = ToolAnswer(ToolStatus.FAILED, report.failure.code, message=report.failure.text)
        notes.put("driver.smi", failed, *_line_with(text, report.failure.text))
    if report.library_version and report.driver and not report.library_version.startswith(report.driver[:3]):
        notes.put("driver.library_version", report.library_version, *_line_with(text, report.library_version))
    parts = [gpu.name or gpu.uuid or "GPU" for gpu in report.gpus]
    lines = {part: _line_with(text, part) for part in dict.fromkeys(parts)}
    for gpu, part in zip(report.gpus, parts, strict=True):
        notes.put(f"gpu.{gpu.index}", gpu, *lines[part])
    notes.put("gpus.lost", report.lost or None, report.lost[0] if report.lost else "", 0)
    return notes.found()


def _kernel(text: str) -> Found | None:
    if "NVRM" not in text:
        return None
    from envcheck.read.kernel import read_complaints, read_module_version, read_xids

    notes = Notes("kernel log")
    xids = read_xids(text)
    notes.put("driver.xids", xids or None, *_line_with(text, "NVRM: Xid"))
    notes.put("driver.kernel_messages", read_complaints(text) or None, *_line_with(text, "NVRM: "))
    version, flavour = read_module_version(text)
    if version:
        notes.put("driver.version", version, *_line_with(text, "NVRM version:"))
        notes.put("driver.source", "/proc/driver/nvidia/version", *_line_with(text, "NVRM version:"))
        notes.put("driver.flavour", flavour, *_line_with(text, "NVRM version:"))
    return notes.found()


def _nvcc(text: str) -> Found | None:
    if "Cuda compilation tools" not in text:
        return None
    from envcheck.read.nvcc import read_nvcc

    version = read_nvcc(text)
    if version is None:
        return None
    notes = Notes("nvcc")
    one = Nvcc("nvcc", version.version, version.release, "PATH")
    where = _line_with(text, "Cuda compilation tools")
    notes.put("toolkit.nvcc", one, *where)
    notes.put("toolkit.nvccs", (one,), *where)
    return notes.found()


_AGENT = re.compile(r"^[ \t]+Name:[ \t]+(gfx[0-9a-f]{3,5})[ \t\r]*$", re.MULTILINE)  # rocminfo


def _rocm(text: str) -> Found | None:
    if "ROCm" not in text and "ROCM" not in text and "rocm" not in text and "gfx" not in text:
        return None
    from envcheck.read.rocm_smi import read_rocm_smi

    notes = Notes("rocm-smi")
    rows = read_rocm_smi(text)
    if rows:
        names = tuple(name for row in rows if (name := getattr(row, "name", None)))
        targets = tuple(gfx for row in rows if (gfx := getattr(row, "gfx", None)))
        notes.put("rocm.names", names or None, *_line_with(text, "GPU"))
        notes.put("rocm.gfx", targets or None, *_line_with(text, "gfx"))
        return notes.found()
    if agents := tuple(_AGENT.finditer(text)):
        notes.kind = "rocminfo"
        notes.put("rocm.gfx", tuple(one[1] for one in agents), agents[0][0], 0)
    return notes.found()


def _line_with(text: str, part: str) -> tuple[str, int]:
    """The first line that holds a part, and its number."""
    at = text.find(part)
    return (part, 0) if at < 0 else line_at(text, at)


def _collect_env(text: str) -> Found | None:
    if not any(
        hint in text for hint in ("ytorch", "YTORCH", "CUDA", "cuda", "driver version", "Python platform", "[conda]", "Libc version")
    ):
        return None
    from envcheck.read.collect_env import read_collect_env

    return read_collect_env(text)


def _topology(text: str) -> Found | None:
    if "GPU0" not in text:
        return None
    from envcheck.read.topology import read_topology

    return read_topology(text)


def _nccl(text: str) -> Found | None:
    if (
        "NCCL INFO" not in text
        and "NCCL WARN" not in text
        and "NCCL version" not in text
        and "RCCL" not in text
        and " INFO NET" not in text
    ):
        return None
    from envcheck.read.nccl import read_nccl

    return read_nccl(text)


def _packages(text: str) -> Found | None:
    listed = "==" in text.replace("====", "") or " @ " in text or "Version: " in text or "torch  " in text
    listed = listed or "- pytorch=" in text or "- cpuonly=" in text  # `conda env export`
    if not listed and "::" not in text and "# Name" not in text and not ("Package" in text and "Version" in text and "---" in text):
        return None
    from envcheck.read.packages import read_packages

    return read_packages(text)


def _installed(text: str) -> Found | None:
    if "nstalled" not in text and "Requirement already " not in text and "Installing " not in text and "Updating " not in text:
        return None
    from envcheck.read.installed import read_installed

    return read_installed(text)


def _messages(text: str) -> Found | None:
    if not any(hint in text for hint in ("apabilit", "found version ", "arch_list", "WSL")):
        return None
    from envcheck.read.messages import read_messages

    return read_messages(text)


_SHELL_HINTS = (
    "/dev/nvidiactl", "/dev/kfd", "% /dev/shm", "on /dev/shm type", "ulimit -", "(-n) ", "-l) ", "nvidia_uvm ", "nvidia_modeset",
    "nvidia_peermem", "nouveau ", ": installed", ": added", "3D controller", "VGA compatible controller", "Display controller",
    "Processing accelerators", "SHLVL=", "HOME=", "singularity ", "apptainer ", "docker run", "podman run", "nerdctl run", "container run",
)  # fmt: skip


def _shell(text: str) -> Found | None:
    if not any(hint in text for hint in _SHELL_HINTS):
        return None
    from envcheck.read.shell import read_shell

    return read_shell(text)


def _claims(text: str) -> Found | None:
    from envcheck.read.claims import read_prose

    return read_prose(text)


def _complaints(text: str) -> Found | None:
    from envcheck.read.gists import read_complaints

    return read_complaints(text)


def _asked(text: str) -> Found | None:
    from envcheck.read.asked import read_asked

    return read_asked(text)


_STARTED_HINTS = (
    "torchrun ", "deepspeed ", "accelerate launch", "mpirun ", "mpiexec ", "srun ", "salloc ", "sbatch ", "horovodrun ", "vllm serve",
    "fabric run", "lightning run", "ray start", ".distributed.launch", ".distributed.run", "python ", "python3 ", "#SBATCH",
    "nvidia.com/gpu", "nprocs", "num_processes", "Trainer(", "tensor_parallel_size", "init_method", "nit method", "dist-url", "dist_url",
    "istributed init", "already exists", "start_method", "GLOBAL_RANK: ", "--gpus-per-task", "--ntasks", "ubernetes", "kubectl", "k8s",
)  # fmt: skip


def _started(text: str) -> Found | None:
    if not any(hint in text for hint in _STARTED_HINTS):
        return None
    from envcheck.read.job_script import read_started

    return read_started(text)


# A reader's module is loaded when its text is met: most inputs hold one or two kinds.
_READERS: tuple[Callable[[str], Found | None], ...] = (
    _collect_env, _smi, _nvcc, _topology, _nccl, _kernel, _rocm, _packages, _installed, _messages, _shell, _claims, _complaints, _asked,
    _started,
)  # fmt: skip
