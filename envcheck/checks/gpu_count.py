"""How many GPUs torch has, against how many the driver lists for this process."""

from __future__ import annotations

from envcheck.checks.answer import driver_answers, works
from envcheck.checks.hardware import gpu_nodes, heard, is_mig, nvidia, opened, troubles, unmeant
from envcheck.engine.rule import Answer, Evidence, Facts, Hit, Severity, check
from envcheck.facts.cuda_visible_devices import Problem, read_visible
from envcheck.facts.snapshot import Gpu


def _for_this_process(facts: Facts) -> int:
    """GPUs that nothing known keeps from this process: an error, a device node that it may not open, a compute mode."""
    free = [gpu for gpu in nvidia(facts.gpus) if not _refuses(gpu)]
    count = len(free) + len({one.index for one in unmeant(facts.gpus)})
    nodes = gpu_nodes(facts.driver)
    return min(count, len(nodes) - len(facts.driver.closed_nodes)) if nodes else count  # WSL and some sandboxes have none


def _refuses(gpu: Gpu) -> bool:
    mode = gpu.compute_mode or ""
    return mode == "Prohibited" or (mode.startswith("Exclusive") and bool(gpu.processes))


@check(needs="devices torch gpus visibility", reads="system python driver gpus cuda_driver visibility torch devices")
def gpu_count_differs(facts: Facts) -> Answer:
    """Torch has fewer GPUs than are listed, and neither a variable, rights, MIG, MPS nor the state of a GPU says why."""
    gpus, cuda_driver, visibility, devices = facts.gpus, facts.cuda_driver, facts.visibility, facts.devices
    counted = devices.count or 0
    seen = len(opened(devices)) if devices.devices else counted
    mig = any(gpu.mig or gpu.mig_devices or is_mig(gpu.name) for gpu in gpus.devices) or any(is_mig(one.name) for one in devices.devices)
    if not seen or not facts.torch.cuda or not works(devices) or mig:
        return None  # without an answer of torch there is no second number
    evidence = [Evidence("torch", f"torch.cuda.device_count() is {counted}; properties were read of {seen}")]
    if driver_answers(cuda_driver):
        evidence.append(Evidence(cuda_driver.library_path or "libcuda.so.1", f"cuDeviceGetCount {cuda_driver.device_count}"))
    evidence += heard(troubles(gpus))
    values: dict[str, object] = {"seen": seen, "counted": counted}
    if counted > seen:
        return Hit(values, tuple(evidence), variant="counted", severity=Severity.ERROR)
    mps = any(name.startswith("CUDA_MPS_") for name in facts.python.variables)  # its daemon has a list of its own
    if "gpus" in facts.missing or "visibility" in facts.missing or gpus.source == "report" or facts.system.wsl or mps:
        return None
    expected, listing = _for_this_process(facts), f"{(gpus.source or 'nvidia-smi').split()[0]} lists"
    if visibility.cuda_visible_devices is not None:
        chosen = read_visible(visibility.cuda_visible_devices, nvidia(gpus), visibility.cuda_device_order)
        if chosen.problem is not Problem.NONE or chosen.count is None:
            return None
        expected, listing = min(expected, chosen.count), "CUDA_VISIBLE_DEVICES names"
    if seen >= expected:
        return None
    here = (cuda_driver.device_count or 0) >= expected
    return Hit(values | {"expected": expected, "listing": listing}, tuple(evidence), variant="python" if here else None)
