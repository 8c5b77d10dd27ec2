"""What several rules ask of the sections: which accelerators are there, and whether torch really runs on them."""

from __future__ import annotations

from collections.abc import Iterable

from envcheck.checks.text import of_variant
from envcheck.engine.rule import Evidence, Facts, Matches
from envcheck.facts.nvml_codes import CLOSED, INFOROM, IRQ, LOST, POWER, RESET, code_of
from envcheck.facts.nvml_codes import named as named_code
from envcheck.facts.snapshot import (
    Device,
    DevicesFacts,
    DriverFacts,
    Gpu,
    GpusFacts,
    GpuTrouble,
    ImportStatus,
    LauncherFacts,
    LiveFacts,
    LiveStatus,
    RocmFacts,
    TorchFacts,
    XpuFacts,
)
from envcheck.tables.compat import Tables
from envcheck.tables.gpu_names import capability_named

# Codes of NVML about one GPU that a rule of their own or none speaks of.
_MEANT = (*CLOSED, LOST, RESET, POWER, IRQ, INFOROM)


def nvidia(gpus: GpusFacts) -> tuple[Gpu, ...]:
    """NVIDIA GPUs that are listed and readable."""
    return tuple(gpu for gpu in gpus.devices if gpu.error is None)


def troubles(gpus: GpusFacts) -> tuple[GpuTrouble, ...]:
    """Errors of single GPUs as their source told them; a report or an older recording has only the words beside the GPU."""
    told = {one.index for one in gpus.troubles}
    rest = [gpu for gpu in gpus.devices if gpu.error and gpu.index not in told]
    found = [GpuTrouble("nvidia-smi", gpu.error or "", code_of(gpu.error or ""), None, gpu.index, gpu.bus_id) for gpu in rest]
    return (*gpus.troubles, *found)


def closed(gpus: GpusFacts) -> tuple[GpuTrouble, ...]:
    """GPUs of the machine that this process may not open: another job's, or kept out of this container. They do not count as ours."""
    return tuple(one for one in troubles(gpus) if one.call is None and one.code in CLOSED)


def unmeant(gpus: GpusFacts) -> tuple[GpuTrouble, ...]:
    """GPUs that NVML counts and does not open for a reason that names neither their state nor this process's rights."""
    return tuple(one for one in troubles(gpus) if one.call is None and one.source == "NVML" and one.code not in _MEANT)


def place(one: GpuTrouble) -> str | None:
    """What nvidia-smi takes as -i: the index, else the bus id."""
    return one.bus_id if one.index is None else str(one.index)


def which(rows: Iterable[GpuTrouble], gpus: GpusFacts) -> str:
    """ "GPU 1 (NVIDIA L4), GPU 00000000:02:00.0"; empty where no source says which."""
    names = {gpu.index: gpu.name or gpu.bus_id for gpu in gpus.devices}
    found = [(number, names.get(one.index) if one.index is not None else None) for one in rows if (number := place(one)) is not None]
    return ", ".join(dict.fromkeys(f"GPU {number}" + (f" ({name})" if name else "") for number, name in found))


def heard(rows: Iterable[GpuTrouble]) -> tuple[Evidence, ...]:
    """Who said what of which GPU."""
    found = []
    for one in rows:
        words = named_code(one.code, one.text) if one.source == "NVML" else one.text
        found.append(Evidence(one.source, ": ".join(part for part in (place(one) and f"GPU {place(one)}", one.call, words) if part)))
    return tuple(dict.fromkeys(found))


def capability(gpu: Gpu, tables: Tables) -> str | None:
    """What the driver says, else what the table says of the product."""
    return gpu.compute_capability or (capability_named(gpu.name, tables) if gpu.name else None)


def gpu_nodes(driver: DriverFacts) -> tuple[str, ...]:
    """Device nodes that stand for one GPU each: "nvidia0", not "nvidiactl"."""
    return tuple(name for name in driver.device_nodes or () if name.removeprefix("nvidia").isdecimal())


def is_mig(name: str | None) -> bool:
    """ "NVIDIA A100-SXM4-40GB MIG 1g.5gb": a process sees one instance, whatever is listed."""
    return " MIG " in f" {name or ''} "


def numbers(gpus: Iterable[Gpu]) -> str | None:
    """GPUs as `nvidia-smi -i` takes them."""
    return ",".join(str(gpu.index) for gpu in gpus) or None


def named(gpus: tuple[Gpu, ...]) -> str:
    """ "NVIDIA H100 80GB HBM3 (8x), NVIDIA A40"."""
    names: dict[str, int] = {}
    for gpu in gpus:
        name = gpu.name or "an NVIDIA GPU"
        names[name] = names.get(name, 0) + 1
    return ", ".join(name if count == 1 else f"{name} ({count}x)" for name, count in names.items())


def cuda_works(devices: DevicesFacts) -> bool:
    """torch sees a device, and no kernel that was tried failed. An answer of NVML alone proves nothing."""
    if devices.available is not True or devices.nvml_check:
        return False
    return all(device.kernel in (None, "ok", "unknown") for device in devices.devices)


_NOT_OPENED = ("invalid device id", "invalid device ordinal", "device < num_gpus", "device index out of range")


def opened(devices: DevicesFacts) -> tuple[Device, ...]:
    """The devices that CUDA has. Until it is initialised torch counts what NVML lists, which may be more: these have no properties."""
    return tuple(one for one in devices.devices if devices.available is True and not only_counted(one))


def only_counted(device: Device) -> bool:
    error = (device.kernel_error or "").lower()
    return error.startswith("properties:") and any(words in error for words in _NOT_OPENED)


def imported(facts: Facts) -> bool:
    """The import is known to have worked: by trial, or because torch answered a question."""
    status = facts.torch.import_status
    return status is ImportStatus.OK or (
        status is ImportStatus.SKIPPED and facts.torch != TorchFacts() and facts.devices.available is not None
    )


def import_failed(torch: TorchFacts) -> bool:
    """The import was tried and did not give a usable torch."""
    return torch.import_status not in (ImportStatus.OK, ImportStatus.SKIPPED)


def import_text(torch: TorchFacts) -> str:
    """What a failed import said."""
    return torch.import_failure.text if torch.import_failure else ""


def asked_of_amd(facts: Facts) -> Matches:
    """What a person tells of CUDA that is asked for beside a card of AMD's, where nothing shows another vendor's, or a Mac."""
    inside = facts.rocm.names and not discrete_amd(facts.rocm)
    other = facts.gpus.devices or facts.torch.hip or facts.system.os == "darwin" or inside
    return () if other else of_variant(facts.said("rocm-build-mismatch"), "asked")


def discrete_amd(rocm: RocmFacts) -> tuple[str, ...]:
    """AMD accelerators for which a ROCm build of torch is meant; integrated graphics do not count.

    "AMD Instinct MI100", "Radeon RX 7900 XTX", "Radeon PRO W7900"
    """
    marks = ("instinct", " rx ", "radeon pro w", " vii ", " vega 56 ", " vega 64 ", " ai pro ", " mi1", " mi2", " mi3", " mi5", " mi6")
    return tuple(name for name in rocm.names if any(mark in f" {name.lower()} " for mark in marks))


def discrete_intel(xpu: XpuFacts) -> tuple[str, ...]:
    """Intel cards for which an XPU build of torch is meant. "Intel(R) Arc(TM) A770 Graphics", "Data Center GPU Max 1550" """
    marks = ("arc(tm) a", "arc(tm) b", "arc a", "arc b", "data center gpu")
    return tuple(name for name in xpu.names if any(mark in name.lower() for mark in marks))


def nccl_proved(live: LiveFacts, ranks: int = 1) -> bool:
    """The live check ran NCCL with the user's environment and at least so many ranks."""
    mine = [arm for arm in live.arms if arm.backend == "nccl" and not arm.environment and arm.world_size >= ranks]
    return any(arm.status is LiveStatus.PASS for arm in mine)


def number(text: str | None) -> int | None:
    """An integer as launchers write it; "8(x4)" and words give None."""
    stripped = (text or "").strip()
    return int(stripped) if stripped.removeprefix("-").isdecimal() and len(stripped) < 12 else None


def node_count(launcher: LauncherFacts) -> int | None:
    """Number of nodes of the job, as far as the launcher's variables tell."""
    if launcher.nodes is not None:
        return launcher.nodes
    for name in ("GROUP_WORLD_SIZE", "PET_NNODES", "SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES", "SLURM_NNODES"):
        count = number(launcher.variables.get(name))
        if count is not None:
            return count
    world, local = number(launcher.variables.get("WORLD_SIZE")), number(launcher.variables.get("LOCAL_WORLD_SIZE"))
    return -(-world // local) if world and local else None
