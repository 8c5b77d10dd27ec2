"""How many GPUs torch has, against how many the driver lists for this process."""

from __future__ import annotations

from envcheck.checks.answer import driver_answers, is_wsl, listed, works
from envcheck.checks.hardware import heard, nvidia, opened, troubles, unmeant
from envcheck.engine.rule import Answer, Evidence, Hit, Severity, check
from envcheck.facts.cuda_visible_devices import Problem, read_visible
from envcheck.facts.snapshot import (
    CudaDriverFacts,
    DevicesFacts,
    DriverFacts,
    Gpu,
    GpusFacts,
    Missing,
    PythonFacts,
    SystemFacts,
    TorchFacts,
    VisibilityFacts,
)


def _for_this_process(gpus: GpusFacts, driver: DriverFacts | Missing) -> int:
    """GPUs that nothing known keeps from this process: an error, a device node that it may not open, a compute mode."""
    taken = [gpu for gpu in nvidia(gpus) if _refuses(gpu)]
    count = len(nvidia(gpus)) - len(taken) + len({one.index for one in unmeant(gpus)})
    nodes = None if isinstance(driver, Missing) else driver.device_nodes
    numbered = [name for name in nodes or () if name.removeprefix("nvidia").isdecimal()]
    if isinstance(driver, Missing) or not numbered:  # WSL and some sandboxes have no nodes
        return count
    return min(count, len(numbered) - len(driver.closed_nodes))


def _refuses(gpu: Gpu) -> bool:
    mode = gpu.compute_mode or ""
    return mode == "Prohibited" or (mode.startswith("Exclusive") and bool(gpu.processes))


def _partitioned(gpus: GpusFacts | Missing, devices: DevicesFacts) -> bool:
    """With MIG a process sees one instance, whatever is listed."""
    names = [gpu.name or "" for gpu in listed(gpus)] + [one.name or "" for one in devices.devices]
    return any(gpu.mig or gpu.mig_devices for gpu in listed(gpus)) or any(" MIG " in f" {name} " for name in names)


@check(sees_missing=("system", "python", "driver", "gpus", "cuda_driver", "visibility", "torch", "devices"))
def gpu_count_differs(
    system: SystemFacts | Missing,
    python: PythonFacts | Missing,
    driver: DriverFacts | Missing,
    gpus: GpusFacts | Missing,
    cuda_driver: CudaDriverFacts | Missing,
    visibility: VisibilityFacts | Missing,
    torch: TorchFacts | Missing,
    devices: DevicesFacts | Missing,
) -> Answer:
    """Torch has fewer GPUs than are listed, and neither a variable, rights, MIG, MPS nor the state of a GPU says why."""
    if isinstance(devices, Missing) or isinstance(torch, Missing) or not torch.cuda or not works(devices) or _partitioned(gpus, devices):
        return None  # without an answer of torch there is no second number
    counted = devices.count or 0
    seen = len(opened(devices)) if devices.devices else counted
    if not seen:
        return None
    evidence = [Evidence("torch", f"torch.cuda.device_count() is {counted}; properties were read of {seen}")]
    if driver_answers(cuda_driver) and not isinstance(cuda_driver, Missing):
        evidence.append(Evidence(cuda_driver.library_path or "libcuda.so.1", f"cuDeviceGetCount {cuda_driver.device_count}"))
    evidence += heard(troubles(gpus))
    values: dict[str, object] = {"seen": seen, "counted": counted}
    if counted > seen:
        return Hit(values, tuple(evidence), variant="counted", severity=Severity.ERROR)
    if isinstance(gpus, Missing) or isinstance(visibility, Missing) or gpus.source == "report" or is_wsl(system):
        return None
    if not isinstance(python, Missing) and any(name.startswith("CUDA_MPS_") for name in python.variables):
        return None  # its daemon has a list of its own
    expected, listing = _for_this_process(gpus, driver), f"{(gpus.source or 'nvidia-smi').split()[0]} lists"
    if visibility.cuda_visible_devices is not None:
        chosen = read_visible(visibility.cuda_visible_devices, nvidia(gpus), visibility.cuda_device_order)
        if chosen.problem is not Problem.NONE or chosen.count is None:
            return None
        expected, listing = min(expected, chosen.count), "CUDA_VISIBLE_DEVICES names"
    if seen >= expected:
        return None
    values |= {"expected": expected, "listing": listing}
    here = not isinstance(cuda_driver, Missing) and (cuda_driver.device_count or 0) >= expected
    return Hit(values, tuple(evidence), variant="python" if here else None)


CHECKS = (gpu_count_differs,)
