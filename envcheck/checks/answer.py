"""What CUDA itself answered. It overrules every version table: what works is not called broken."""

from __future__ import annotations

from envcheck.engine.rule import Evidence, Unknown
from envcheck.facts.cuda_codes import named
from envcheck.facts.snapshot import (
    ContainerFacts,
    CudaDriverFacts,
    Device,
    DevicesFacts,
    Gpu,
    GpusFacts,
    Missing,
    PciDevice,
    SystemFacts,
    TorchFacts,
    VisibilityFacts,
    Why,
)

NVIDIA = "10de"


def trouble(section: object, name: str) -> Unknown | None:
    """Unknown where a section failed or timed out; None where it is there, or its absence is a fact."""
    if isinstance(section, Missing) and section.why in (Why.FAILED, Why.TIMEOUT):
        return Unknown(f"{name}: {section.reason}")
    return None


def absent(section: object) -> bool:
    """The section is known not to exist; not the same as not read."""
    return isinstance(section, Missing) and section.why is Why.ABSENT


def works(devices: DevicesFacts | Missing) -> bool:
    """Torch initialised CUDA. Under PYTORCH_NVML_BASED_CUDA_CHECK=1 `available` proves only that NVML counts a GPU."""
    if isinstance(devices, Missing) or devices.available is not True:
        return False
    return not devices.nvml_check or any(one.kernel == "ok" for one in devices.devices)


def fails(devices: DevicesFacts | Missing) -> bool:
    """Torch was asked and has no usable device."""
    return not isinstance(devices, Missing) and devices.available is False


def driver_answers(cuda_driver: CudaDriverFacts | Missing) -> bool:
    """libcuda initialised and counted at least one device."""
    return not isinstance(cuda_driver, Missing) and cuda_driver.init_code == 0 and (cuda_driver.device_count or 0) > 0


def cuda_code(devices: DevicesFacts | Missing, cuda_driver: CudaDriverFacts | Missing) -> int | None:
    """The first CUDA error on record: of torch, else of libcuda asked alone."""
    if not isinstance(devices, Missing) and devices.error_code:
        return devices.error_code
    if isinstance(cuda_driver, Missing):
        return None
    return cuda_driver.init_code or cuda_driver.device_count_code or None


def code_evidence(devices: DevicesFacts | Missing, cuda_driver: CudaDriverFacts | Missing) -> tuple[Evidence, ...]:
    """Where the error code was seen."""
    found = []
    if not isinstance(devices, Missing) and devices.error:
        found.append(Evidence("torch", devices.error))
    if not isinstance(cuda_driver, Missing) and (cuda_driver.init_code or cuda_driver.device_count_code):
        call, code = ("cuInit", cuda_driver.init_code) if cuda_driver.init_code else ("cuDeviceGetCount", cuda_driver.device_count_code)
        found.append(Evidence(cuda_driver.library_path or "libcuda.so.1", f"{call} {named(code or 0)}"))
    return tuple(found)


def wants_cuda(torch: TorchFacts | Missing) -> bool | None:
    """A torch built for CUDA; None where that is not known: a bare "2.1.0" in a report may be any build."""
    if isinstance(torch, Missing):
        return False if torch.why is Why.ABSENT else None
    if torch.cuda is not None:
        return True
    other = torch.cpu_build is True or torch.hip is not None or torch.xpu is not None or "+" in (torch.version or "")
    return False if other else None


def for_rocm(torch: TorchFacts | Missing) -> bool:
    """A torch built for AMD's GPUs: what NVIDIA's compute capabilities say does not concern it."""
    return not isinstance(torch, Missing) and torch.hip is not None


def nvidia_on_bus(system: SystemFacts | Missing) -> tuple[PciDevice, ...]:
    """NVIDIA functions on the PCI bus, except those handed to virtual machines."""
    if isinstance(system, Missing):
        return ()
    return tuple(one for one in system.pci_gpus if one.vendor == NVIDIA and one.driver != "vfio-pci")


def no_gpu(system: SystemFacts | Missing, driver: object, gpus: object) -> bool:
    """Nothing of an NVIDIA GPU was found: no driver, no device, no card on the bus. Its own parts of CUDA then harm nobody."""
    return absent(driver) and absent(gpus) and not (nvidia_on_bus(system) or is_wsl(system) or is_jetson(system))


def listed(gpus: GpusFacts | Missing) -> tuple[Gpu, ...]:
    return () if isinstance(gpus, Missing) else gpus.devices


def counted(gpus: GpusFacts | Missing) -> tuple[Gpu, ...]:
    """The GPUs that nvidia-smi or NVML gave an answer about. A name in a report, or typed by a person, is no answer of the driver."""
    if isinstance(gpus, Missing) or gpus.source != "report":
        return listed(gpus)
    return tuple(gpu for gpu in gpus.devices if gpu.uuid or gpu.bus_id or gpu.memory_bytes)


def torch_devices(devices: DevicesFacts | Missing) -> tuple[Device, ...]:
    return () if isinstance(devices, Missing) else devices.devices


def visible(gpus: GpusFacts | Missing, visibility: VisibilityFacts | Missing) -> tuple[Gpu, ...]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves; all of them where that was not worked out."""
    devices = listed(gpus)
    if isinstance(visibility, Missing) or visibility.selected is None:
        return devices
    return tuple(gpu for gpu in devices if gpu.index in visibility.selected)


def contained(container: ContainerFacts | Missing) -> bool:
    return not isinstance(container, Missing)


def is_wsl(system: SystemFacts | Missing) -> bool:
    return not isinstance(system, Missing) and system.wsl is not None


def is_jetson(system: SystemFacts | Missing) -> bool:
    return not isinstance(system, Missing) and system.jetson is not None


def driver_os(system: SystemFacts | Missing) -> str:
    """Whose driver numbers are seen: inside WSL they are those of the Windows driver."""
    if isinstance(system, Missing):
        return "linux"
    return "windows" if system.os == "windows" or system.wsl is not None else "linux"
