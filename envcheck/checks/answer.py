"""What CUDA itself answered. It overrules every version table: what works is not called broken."""

from __future__ import annotations

from envcheck.engine.rule import Evidence, Facts
from envcheck.facts.cuda_codes import named
from envcheck.facts.snapshot import (
    ContainerFacts,
    CudaDriverFacts,
    DevicesFacts,
    Gpu,
    GpusFacts,
    PciDevice,
    SystemFacts,
    TorchFacts,
    VisibilityFacts,
)

NVIDIA = "10de"
NO_SECTION: frozenset[str] = frozenset()


def works(devices: DevicesFacts) -> bool:
    """Torch initialised CUDA. Under PYTORCH_NVML_BASED_CUDA_CHECK=1 `available` proves only that NVML counts a GPU."""
    return devices.available is True and (not devices.nvml_check or any(one.kernel == "ok" for one in devices.devices))


def fails(devices: DevicesFacts) -> bool:
    """Torch was asked and has no usable device."""
    return devices.available is False


def driver_answers(cuda_driver: CudaDriverFacts) -> bool:
    """libcuda initialised and counted at least one device."""
    return cuda_driver.init_code == 0 and (cuda_driver.device_count or 0) > 0


def cuda_answers(facts: Facts) -> bool:
    """Torch or libcuda alone initialised CUDA: then no version table is asked."""
    return works(facts.devices) or driver_answers(facts.cuda_driver)


def cuda_code(facts: Facts) -> int | None:
    """The first CUDA error on record: of torch, else of libcuda asked alone."""
    return facts.devices.error_code or facts.cuda_driver.init_code or facts.cuda_driver.device_count_code or None


def code_evidence(facts: Facts) -> tuple[Evidence, ...]:
    """Where the error code was seen."""
    cuda_driver = facts.cuda_driver
    found = [Evidence("torch", facts.devices.error)] if facts.devices.error else []
    if cuda_driver.init_code or cuda_driver.device_count_code:
        call, code = ("cuInit", cuda_driver.init_code) if cuda_driver.init_code else ("cuDeviceGetCount", cuda_driver.device_count_code)
        found.append(Evidence(cuda_driver.library_path or "libcuda.so.1", f"{call} {named(code or 0)}"))
    return tuple(found)


def wants_cuda(torch: TorchFacts, absent: frozenset[str] = NO_SECTION) -> bool | None:
    """A torch built for CUDA; None where that is not known: a bare "2.1.0" in a report may be any build."""
    if torch.cuda is not None:
        return True
    other = torch.cpu_build is True or torch.hip is not None or torch.xpu is not None or "+" in (torch.version or "")
    return False if other or "torch" in absent else None


def nvidia_on_bus(system: SystemFacts) -> tuple[PciDevice, ...]:
    """NVIDIA functions on the PCI bus, except those handed to virtual machines."""
    return tuple(one for one in system.pci_gpus if one.vendor == NVIDIA and one.driver != "vfio-pci")


def no_gpu(facts: Facts) -> bool:
    """Nothing of an NVIDIA GPU was found: no driver, no device, no card on the bus. Its own parts of CUDA then harm nobody."""
    return {"driver", "gpus"} <= facts.absent and not (nvidia_on_bus(facts.system) or facts.system.wsl or facts.system.jetson)


def without_nccl(facts: Facts) -> bool:
    """Neither NCCL nor RCCL runs here, whatever its variables say: no GPU is in the machine, or none is seen and torch holds neither."""
    if no_gpu(facts) and "rocm" in facts.absent:
        return True
    seen = facts.gpus.devices or nvidia_on_bus(facts.system) or facts.rocm.names
    return not seen and (facts.torch.cpu_build is True or facts.backends.nccl is False)


def without_cuda(facts: Facts) -> bool:
    """Nothing is there that CUDA_VISIBLE_DEVICES could hide, or torch could not use it anyway."""
    return (bool(facts.absent & {"gpus", "driver"}) and not nvidia_on_bus(facts.system)) or wants_cuda(facts.torch) is False


def counted(gpus: GpusFacts) -> tuple[Gpu, ...]:
    """The GPUs that nvidia-smi or NVML gave an answer about. A name in a report, or typed by a person, is no answer of the driver."""
    return tuple(gpu for gpu in gpus.devices if gpus.source != "report" or gpu.uuid or gpu.bus_id or gpu.memory_bytes)


def visible(gpus: GpusFacts, visibility: VisibilityFacts) -> tuple[Gpu, ...]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves; all of them where that was not worked out."""
    return tuple(gpu for gpu in gpus.devices if visibility.selected is None or gpu.index in visibility.selected)


def contained(container: ContainerFacts) -> bool:
    """Anything is known of a container; outside of one the section is missing."""
    return container != ContainerFacts()


def driver_os(system: SystemFacts) -> str:
    """Whose driver numbers are seen: inside WSL they are those of the Windows driver."""
    return "windows" if system.os == "windows" or system.wsl is not None else "linux"
