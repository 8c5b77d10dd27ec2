"""The picture of the stack: from the GPU up to the live step, one layer a line, each with its mark and value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import Enum

from envcheck.checks.answer import nvidia_on_bus, wants_cuda
from envcheck.checks.hardware import closed, nvidia, place, unmeant
from envcheck.engine.judge import Finding
from envcheck.engine.rule import Confidence, Severity
from envcheck.facts import cuda_codes
from envcheck.facts.nvml_codes import LOST, code_of
from envcheck.facts.record import record, replace
from envcheck.facts.snapshot import (
    CudaDriverFacts,
    DevicesFacts,
    DriverFacts,
    Gpu,
    GpusFacts,
    ImportStatus,
    LiveFacts,
    LiveStatus,
    Missing,
    MpsFacts,
    RocmFacts,
    Snapshot,
    SystemFacts,
    TorchFacts,
    VisibilityFacts,
    Why,
    XpuFacts,
    read,
)


class Mark(Enum):
    OK = "ok"
    BAD = "bad"
    WARN = "warn"
    UNKNOWN = "unknown"
    NONE = "none"  # not there, and nobody misses it

    @property
    def sign(self) -> str:
        return {"ok": "✓", "bad": "✗", "warn": "!", "unknown": "?", "none": "–"}[self.value]


@record
class Layer:
    name: str
    mark: Mark
    value: str
    rules: tuple[str, ...] = ()  # the findings that gave it its mark


def stack(snapshot: Snapshot, findings: Sequence[Finding]) -> tuple[Layer, ...]:
    """The layers that this machine has or should have, from the hardware up."""
    kind = accelerator(snapshot)
    layers = [_gpu(snapshot, kind)]
    if kind == "nvidia":
        layers += [_driver(snapshot), _cuda(snapshot)]
    elif kind == "rocm":
        layers.append(_rocm_driver(snapshot))
    layers.append(_torch(snapshot))
    if kind != "cpu":
        layers.append(_kernels(snapshot, kind))
    if kind == "nvidia":
        layers.append(_nccl(snapshot))
    layers.append(_live(snapshot))
    names = [layer.name for layer in layers]
    by_layer: dict[str, list[Finding]] = {name: [] for name in names}
    for finding in findings:
        name = finding.layer
        if name and finding.severity is not Severity.INFO:
            by_layer[name if name in by_layer else "torch" if name == "NCCL" else names[0]].append(finding)
    sick = any(one.severity is Severity.ERROR for one in findings)
    return tuple(_marked(layer, by_layer[layer.name], sick) for layer in layers)


def _marked(layer: Layer, findings: Sequence[Finding], sick: bool) -> Layer:
    """The layer under its findings. Only rules say that something is broken: without an error, what is not there is just not there."""
    if not findings:
        return replace(layer, mark=Mark.NONE) if layer.mark is Mark.BAD and not sick else layer
    bad = any(one.severity is Severity.ERROR and one.confidence is Confidence.CERTAIN for one in findings)
    return Layer(layer.name, Mark.BAD if bad else Mark.WARN, layer.value, tuple(one.rule for one in findings))


def accelerator(snapshot: Snapshot) -> str:
    """ "nvidia", "rocm", "xpu", "mps" or "cpu": whose hardware is here."""
    gpus = snapshot.gpus
    if isinstance(gpus, GpusFacts) and (gpus.devices or gpus.lost or gpus.troubles):
        return "nvidia"
    # The driver's tools alone are no GPU: login nodes and images carry them.
    tools_only = "gpus" in snapshot.absent and wants_cuda(read(snapshot.torch, TorchFacts), snapshot.absent) is False
    if nvidia_on_bus(read(snapshot.system, SystemFacts)) or (isinstance(snapshot.driver, DriverFacts) and not tools_only):
        return "nvidia"
    if isinstance(snapshot.rocm, RocmFacts) and (snapshot.rocm.gfx or snapshot.rocm.names or snapshot.rocm.driver_loaded):
        return "rocm"
    if isinstance(snapshot.xpu, XpuFacts) and snapshot.xpu.names:
        return "xpu"
    if isinstance(snapshot.mps, MpsFacts) and snapshot.mps.apple_silicon:
        return "mps"
    if _troubled(snapshot.driver) or _troubled(snapshot.gpus):
        return "nvidia"
    if isinstance(snapshot.devices, DevicesFacts) and snapshot.devices.count:
        return "nvidia"
    return "cpu"


def _troubled(section: object) -> bool:
    return isinstance(section, Missing) and section.trouble


def _of_missing(name: str, section: Missing, absent: str | None = None) -> Layer:
    if _troubled(section):
        return Layer(name, Mark.UNKNOWN, section.reason)
    return Layer(name, Mark.NONE, absent or section.reason)


def describe_gpus(gpus: Iterable[Gpu]) -> str:
    """Equal GPUs counted together: "8 × NVIDIA H100 80GB HBM3 (sm_90, 80 GiB)"."""
    kinds = Counter((gpu.name or "unnamed GPU", gpu.compute_capability, gpu.memory_bytes) for gpu in gpus)
    parts = []
    for (name, capability, memory), count in kinds.items():
        detail = (f"sm_{capability.replace('.', '')}" if capability else None, f"{memory / 2**30:.0f} GiB" if memory else None)
        known = ", ".join(part for part in detail if part)
        parts.append(f"{f'{count} × ' if count > 1 else ''}{name}{f' ({known})' if known else ''}")
    return " + ".join(parts)


def _gpu(snapshot: Snapshot, kind: str) -> Layer:
    match kind:
        case "nvidia":
            return _nvidia_gpu(snapshot)
        case "rocm" if isinstance(snapshot.rocm, RocmFacts):
            names = ", ".join(snapshot.rocm.names) or "AMD GPU"
            targets = ", ".join(dict.fromkeys(snapshot.rocm.gfx))
            return Layer("GPU", Mark.OK, f"{names} ({targets})" if targets else names)
        case "xpu" if isinstance(snapshot.xpu, XpuFacts):
            return Layer("GPU", Mark.OK, ", ".join(snapshot.xpu.names))
        case "mps" if isinstance(snapshot.mps, MpsFacts):
            return Layer("GPU", Mark.OK, snapshot.mps.chip or "Apple silicon")
    if isinstance(snapshot.gpus, Missing) and snapshot.gpus.why is Why.SKIPPED:
        return _of_missing("GPU", snapshot.gpus)
    return Layer("GPU", Mark.NONE, _without_gpu(snapshot.torch))


def _without_gpu(torch: TorchFacts | Missing) -> str:
    """A build for GPUs on a machine without one is in order: it trains on the CPU, and the reader should know."""
    built = () if isinstance(torch, Missing) else (("NVIDIA", "CUDA", torch.cuda), ("AMD", "ROCm", torch.hip), ("Intel", "XPU", torch.xpu))
    for vendor, name, version in built:
        if version and isinstance(torch, TorchFacts):
            known = f"torch {torch.version}" if torch.version else "torch"
            return f"{known} has {name}; this machine has no {vendor} GPU: training runs on the CPU"
    return "none; this machine trains on its CPU"


def _nvidia_gpu(snapshot: Snapshot) -> Layer:
    gpus = snapshot.gpus
    if isinstance(gpus, GpusFacts) and (gpus.devices or gpus.lost or gpus.troubles):
        gone = len({place(one) for one in gpus.troubles if one.code == LOST}) or len(gpus.lost)
        ill = [
            f"GPU {gpu.index} ({gpu.name or 'unnamed'}): {gpu.error}" for gpu in gpus.devices if gpu.error and code_of(gpu.error) != LOST
        ]
        ill += [f"GPU {place(one)}: {one.text}" for one in unmeant(gpus)]
        shut = len({place(one) for one in closed(gpus)})
        parts = [describe_gpus(nvidia(gpus)), f"{gone} on the bus without an answer" if gone else "", *ill[:4]]
        parts.append(f"{shut} closed to this process" if shut and gpus.devices else "")
        parts = [part for part in parts if part] or [f"none of {shut} is open to this process" if shut else "none readable"]
        mark = Mark.WARN if gpus.lost or any(gpu.error for gpu in gpus.devices) else Mark.OK if gpus.devices else Mark.NONE
        return Layer("GPU", mark, "; ".join(parts) + _hidden(snapshot, len(gpus.devices)))
    cards = nvidia_on_bus(read(snapshot.system, SystemFacts))
    if cards:
        drivers = ", ".join(sorted({card.driver for card in cards if card.driver}))  # lspci without -k names none
        bound = f" (driver {drivers})" if drivers else ""
        return Layer("GPU", Mark.WARN, f"{len(cards)} NVIDIA on the PCI bus{bound}, no name or state read")
    if isinstance(gpus, Missing):
        return _of_missing("GPU", gpus)
    return Layer("GPU", Mark.NONE, "none found")


def _hidden(snapshot: Snapshot, count: int) -> str:
    seen = snapshot.visibility
    if isinstance(seen, VisibilityFacts) and seen.cuda_visible_devices is not None and seen.selected is not None:
        return f"; {len(seen.selected)} of {count} visible" if len(seen.selected) != count else ""
    return ""


def _driver(snapshot: Snapshot) -> Layer:
    driver = snapshot.driver
    if isinstance(driver, Missing):
        return _of_missing("driver", driver)
    if driver.version is None:
        if driver.module_loaded is False:
            return Layer("driver", Mark.BAD, "kernel module not loaded" + (" (nouveau is)" if driver.nouveau else ""))
        return Layer("driver", Mark.UNKNOWN, "version not readable")
    parts = [driver.version]
    if driver.flavour:
        parts.append(f"{driver.flavour} kernel module")
    if driver.library_version and driver.library_version != driver.version:
        parts.append(f"libraries {driver.library_version}")
    return Layer("driver", Mark.OK, ", ".join(parts))


def _cuda(snapshot: Snapshot) -> Layer:
    driver, libcuda, torch = snapshot.driver, snapshot.cuda_driver, snapshot.torch
    offered = libcuda.driver_version if isinstance(libcuda, CudaDriverFacts) else None
    offered = offered or (driver.cuda if isinstance(driver, DriverFacts) else None)
    needed = torch.cuda if isinstance(torch, TorchFacts) else None
    parts = [f"driver offers up to {offered}" if offered else "the driver's limit is not known"]
    if needed:
        parts.append(f"torch is built with {needed}")
    if isinstance(libcuda, CudaDriverFacts) and libcuda.init_code:
        parts.append(f"cuInit answers {cuda_codes.named(libcuda.init_code)}")
        return Layer("CUDA", Mark.BAD, ", ".join(parts))
    if isinstance(libcuda, Missing) and not offered:
        built = f"torch is built with {needed}; what the driver offers: {libcuda.reason}" if needed else libcuda.reason
        return Layer("CUDA", _of_missing("CUDA", libcuda).mark, built)
    return Layer("CUDA", Mark.OK if offered else Mark.UNKNOWN, ", ".join(parts))


def _rocm_driver(snapshot: Snapshot) -> Layer:
    rocm = snapshot.rocm
    if isinstance(rocm, Missing):
        return _of_missing("driver", rocm)
    loaded = {True: "amdgpu", False: "amdgpu not loaded", None: "amdgpu not checked"}[rocm.driver_loaded]
    parts = [f"amdgpu {rocm.driver_version}" if rocm.driver_version else loaded]
    if rocm.version:
        parts.append(f"ROCm {rocm.version}")
    if rocm.driver_loaded is None and not rocm.driver_version:
        return Layer("driver", Mark.NONE, ", ".join(parts))
    return Layer("driver", Mark.BAD if rocm.driver_loaded is False else Mark.OK, ", ".join(parts))


def _torch(snapshot: Snapshot) -> Layer:
    torch = snapshot.torch
    if isinstance(torch, Missing):
        return _of_missing("torch", torch, "not installed" if torch.why is Why.ABSENT else None)
    build = torch.version or "unknown version"
    if torch.hip and "rocm" not in build:
        build += f" for ROCm {torch.hip}"
    match torch.import_status:
        case ImportStatus.OK:
            after = f", imported in {torch.import_seconds:.1f} s" if torch.import_seconds is not None else ""
            return Layer("torch", Mark.OK, build + after)
        case ImportStatus.SKIPPED:
            return Layer("torch", Mark.OK if torch.version else Mark.UNKNOWN, f"{build}, not imported")
        case ImportStatus.TIMEOUT:
            return Layer("torch", Mark.BAD, f"{build}: the import hangs")
        case ImportStatus.CRASHED:
            signal = torch.import_failure.signal if torch.import_failure else None
            return Layer("torch", Mark.BAD, f"{build}: the import is killed by {signal or 'a signal'}")
        case ImportStatus.EXITED:
            return Layer("torch", Mark.BAD, f"{build}: the import ends the interpreter")
        case ImportStatus.NOT_TORCH:
            return Layer("torch", Mark.BAD, "a module of that name which is not PyTorch")
        case ImportStatus.ERROR:
            kind = torch.import_failure.type if torch.import_failure else ""
            return Layer("torch", Mark.BAD, f"{build}: the import raises {kind or 'an error'}")


_TORCH_NAME = {"nvidia": "CUDA", "rocm": "ROCm", "xpu": "XPU", "mps": "MPS"}


def _kernels(snapshot: Snapshot, kind: str) -> Layer:
    devices = snapshot.devices
    if isinstance(devices, Missing):
        if devices.why is Why.SKIPPED or (isinstance(snapshot.torch, Missing) and not _troubled(devices)):
            return Layer("kernels", Mark.NONE, "not run")
        return _of_missing("kernels", devices)
    if devices.available is None:
        return Layer("kernels", Mark.UNKNOWN, devices.error or "torch did not say")
    if not devices.available:
        return Layer("kernels", Mark.BAD, f"torch sees no {_TORCH_NAME[kind]} device")
    total = len(devices.devices) or devices.count or 0
    words = Counter(one.kernel for one in devices.devices)
    noun = "device" if total == 1 else "devices"
    if words["failed"] or words["wrong"]:
        return Layer("kernels", Mark.BAD, f"{words['failed'] + words['wrong']} of {total} {noun} fail")
    if words["unknown"]:
        return Layer("kernels", Mark.UNKNOWN, f"right on {words['ok']} of {total} {noun}, not run on the rest")
    if not total:  # a report that says so, without their number
        return Layer("kernels", Mark.OK, f"torch says that {_TORCH_NAME[kind]} is available; no kernel was run")
    if not words["ok"]:
        return Layer("kernels", Mark.OK, f"torch sees {total} {noun}; no kernel was run")
    return Layer("kernels", Mark.OK, f"right on {'the one device' if total == 1 else f'all {total} devices'}")


def _nccl(snapshot: Snapshot) -> Layer:
    torch, backends = snapshot.torch, snapshot.backends
    if isinstance(torch, Missing):
        return Layer("NCCL", Mark.NONE, "needs torch")
    version = torch.nccl_loaded or torch.nccl
    if isinstance(backends, Missing):
        return Layer("NCCL", Mark.UNKNOWN if _troubled(backends) else Mark.NONE, version or "not asked")
    if backends.nccl:
        return Layer("NCCL", Mark.OK, version or "in this build")
    if backends.nccl is None:
        return Layer("NCCL", Mark.UNKNOWN if version is None else Mark.OK, version or "torch did not say")
    return Layer("NCCL", Mark.NONE, "not in this build of torch")


def _live(snapshot: Snapshot) -> Layer:
    live = snapshot.live
    if isinstance(live, Missing):
        known = live.reason.startswith("not run") or (live.why is Why.SKIPPED and live.reason == "not read")
        return _of_missing("live step", live, live.reason if known else f"not run: {live.reason}")
    match live.status:
        case LiveStatus.PASS:
            parts = sum(bool(arm.part) and arm.status is LiveStatus.PASS for arm in live.arms)
            more = f"; {parts} parts of the full check passed" if parts else ""
            afresh = f"; ranks started afresh: {live.start_reason}" if live.start_reason else ""
            return Layer("live step", Mark.OK, f"{live_words(live)}: sums and gradients right{more}{afresh}")
        case LiveStatus.SKIPPED:
            return Layer("live step", Mark.NONE, f"not run: {live.reason}" if live.reason else "not run")
        case LiveStatus.INCONCLUSIVE:
            return Layer("live step", Mark.UNKNOWN, live.reason or "did not decide")
        case LiveStatus.FAIL | LiveStatus.HANG:
            return Layer("live step", Mark.BAD, live.reason or _where(live))


def live_words(live: LiveFacts) -> str:
    """What passed: "gloo on 2 ranks"; "nccl on 8 ranks, gloo on 2"; "nccl on 1 rank, gloo on 2 with cuda tensors"; "one process"."""
    quick = [arm for arm in live.arms if not arm.part]
    passed = dict.fromkeys((arm.backend, arm.device, arm.world_size) for arm in quick if arm.status is LiveStatus.PASS)
    if not passed:
        return f"{live.backend or 'unknown backend'} on {live.world_size or len(live.ranks)} ranks"
    parts: list[str] = []
    groups = [row for row in passed if row[0] != "none"]
    if not groups:
        return "one process"
    for backend, device, ranks in sorted(groups, key=lambda row: (row[1] == "cpu", row[0] == "gloo", row)):
        noun = "" if parts else " rank" if ranks == 1 else " ranks"
        parts.append(f"{backend} on {ranks}{noun}{f' with {device} tensors' if backend == 'gloo' and device != 'cpu' else ''}")
    return ", ".join(parts)


def _where(live: LiveFacts) -> str:
    stopped = {rank.rank: rank.last_stage for rank in live.ranks if rank.last_stage and rank.last_stage != "destroy"}
    word = "hangs" if live.status is LiveStatus.HANG else "fails"
    if not stopped:
        return word
    return f"{word}: " + ", ".join(f"rank {rank} in {stage}" for rank, stage in stopped.items())
