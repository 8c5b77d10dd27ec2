"""The CUDA driver library: the right one loaded, in step with the kernel module, with its device nodes."""

from __future__ import annotations

import re

from envcheck.checks.answer import (
    absent,
    code_evidence,
    contained,
    cuda_code,
    driver_answers,
    driver_os,
    fails,
    is_jetson,
    is_wsl,
    listed,
    no_gpu,
    trouble,
    works,
)
from envcheck.checks.driver import smi_evidence, smi_failed
from envcheck.checks.text import alone, holding, of_programs, quoted, said, value
from envcheck.engine.rule import Answer, Confidence, Evidence, Hit, Severity, check
from envcheck.facts import cuda_codes as cuda
from envcheck.facts.nvml_codes import MISMATCH
from envcheck.facts.snapshot import (
    ContainerFacts,
    CudaDriverFacts,
    DevicesFacts,
    DriverFacts,
    GpusFacts,
    Missing,
    PythonFacts,
    SymptomsFacts,
    SystemFacts,
    Why,
)

# Errors that speak of something else than a missing or stale device of unified memory.
_OTHER_CAUSES = (cuda.NO_DEVICE, cuda.INVALID_DEVICE, cuda.SYSTEM_NOT_READY, cuda.SYSTEM_DRIVER_MISMATCH, cuda.COMPAT_NOT_SUPPORTED)
_803 = ("unsupported display driver", "SystemDriverMismatch", "SYSTEM_DRIVER_MISMATCH")
_804 = ("forward compatibility was attempted", "CompatNotSupportedOnDevice", "COMPAT_NOT_SUPPORTED_ON_DEVICE")


def versions_differ(driver: DriverFacts | Missing) -> bool:
    """Kernel module and library on disk are of different versions. NVML prints two of the three numbers: "570.195"."""
    if isinstance(driver, Missing) or not driver.version or not driver.library_version:
        return False
    if not (driver.module_loaded or (driver.source or "").startswith(("/sys", "/proc"))):
        return False
    pairs = zip(driver.version.split("."), driver.library_version.split("."), strict=False)
    return any(module != library for module, library in pairs)


def _compat_loaded(cuda_driver: CudaDriverFacts | Missing) -> bool:
    if isinstance(cuda_driver, Missing):
        return False
    first = (cuda_driver.library_path or next(iter(cuda_driver.candidates), "")).lower()
    return cuda_driver.is_compat is True or "/compat" in first


@check(sees_missing=("system", "driver", "cuda_driver", "devices", "container", "symptoms"))
def driver_library_mismatch(
    system: SystemFacts | Missing,
    driver: DriverFacts | Missing,
    cuda_driver: CudaDriverFacts | Missing,
    devices: DevicesFacts | Missing,
    container: ContainerFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Answer:
    """The kernel holds another driver version than the libraries: NVML 18, or CUDA 803 and 804 on a bare machine."""
    every = said(symptoms, "driver-library-mismatch")
    told = alone(symptoms, "driver-library-mismatch")
    failed = not isinstance(driver, Missing) and smi_failed(driver, MISMATCH)
    code = cuda_code(devices, cuda_driver)
    working = works(devices) or driver_answers(cuda_driver)
    differ = versions_differ(driver) and not (is_wsl(system) or driver_os(system) == "windows")
    in_container = contained(container)
    values: dict[str, object] = {"module": None, "library": None}
    if not isinstance(driver, Missing):
        # a number equal to the module's is that of another copy, not of the one that NVML refuses
        values = {"module": driver.version, "library": driver.library_version if differ else None}
    values["module"] = values["module"] or value(told, "module")
    values["library"] = values["library"] or value(told, "library")
    evidence = (*(() if isinstance(driver, Missing) else smi_evidence(driver)), *code_evidence(devices, cuda_driver), *quoted(told))
    if failed or told or (differ and not working):
        severity = Severity.WARNING if working else None
        variant = "container" if in_container else None if values["module"] and values["library"] else "versions_unknown"
        # torch's allocator could not start NVML: most often for this reason, which it does not say
        guess = Confidence.LIKELY if not (failed or differ) and len(holding(told, "INTERNAL ASSERT")) == len(told) else None
        return Hit(values, evidence, variant="assert" if guess else variant, severity=severity, confidence=guess)
    lines = holding(every + said(symptoms, "cuda-compat-shadows-driver") + said(symptoms, "cuda-compat-unsupported-gpu"), *_803, *_804)
    compat_error = code in (cuda.SYSTEM_DRIVER_MISMATCH, cuda.COMPAT_NOT_SUPPORTED) or bool(lines)
    if compat_error and not (working or in_container or _compat_loaded(cuda_driver) or is_wsl(system)):
        return Hit(values, (*evidence, *quoted(lines[:1])), variant="code", confidence=Confidence.LIKELY)
    return None if working else trouble(driver, "driver")


def _compat_values(cuda_driver: CudaDriverFacts | Missing, driver: DriverFacts | Missing, gpus: GpusFacts | Missing) -> dict[str, object]:
    library = None if isinstance(cuda_driver, Missing) else cuda_driver.library_path
    return {
        "library": library or "a libcuda.so.1 of a cuda-compat package",
        "driver": None if isinstance(driver, Missing) else driver.version,
        "gpu": ", ".join(sorted({gpu.name for gpu in listed(gpus) if gpu.name})) or "this GPU",
    }


def _compat_answer(
    driver: DriverFacts | Missing,
    gpus: GpusFacts | Missing,
    cuda_driver: CudaDriverFacts | Missing,
    container: ContainerFacts | Missing,
    evidence: tuple[Evidence, ...],
) -> Answer:
    """803 and 804 alike: certain if a cuda-compat is loaded, a guess where an image may bring one, else another rule's."""
    values = _compat_values(cuda_driver, driver, gpus)
    if _compat_loaded(cuda_driver):
        return Hit(values, evidence)
    if absent(container) or versions_differ(driver):
        return None  # driver-library-mismatch
    return Hit(values, evidence, variant="guess", confidence=None if contained(container) else Confidence.LIKELY)


@check(sees_missing=("driver", "gpus", "cuda_driver", "devices", "container", "symptoms"))
def cuda_compat_shadows_driver(
    driver: DriverFacts | Missing,
    gpus: GpusFacts | Missing,
    cuda_driver: CudaDriverFacts | Missing,
    devices: DevicesFacts | Missing,
    container: ContainerFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Answer:
    """CUDA 803: an older cuda-compat is loaded in place of the driver's own library."""
    told = said(symptoms, "cuda-compat-shadows-driver")
    told = tuple(match for match in told if match not in holding(told, *_804))
    if works(devices) or driver_answers(cuda_driver):
        return None
    if cuda_code(devices, cuda_driver) != cuda.SYSTEM_DRIVER_MISMATCH and not told:
        return trouble(cuda_driver, "cuda_driver")
    evidence = (*code_evidence(devices, cuda_driver), *quoted(told))
    return _compat_answer(driver, gpus, cuda_driver, container, evidence)


@check(sees_missing=("driver", "gpus", "cuda_driver", "devices", "container", "symptoms"))
def cuda_compat_unsupported_gpu(
    driver: DriverFacts | Missing,
    gpus: GpusFacts | Missing,
    cuda_driver: CudaDriverFacts | Missing,
    devices: DevicesFacts | Missing,
    container: ContainerFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Answer:
    """CUDA 804: a newer cuda-compat is loaded on a GPU that is not entitled to forward compatibility."""
    told = said(symptoms, "cuda-compat-unsupported-gpu")
    if works(devices) or driver_answers(cuda_driver):
        return None
    if cuda_code(devices, cuda_driver) != cuda.COMPAT_NOT_SUPPORTED and not told:
        return trouble(cuda_driver, "cuda_driver")
    evidence = (*code_evidence(devices, cuda_driver), *quoted(told))
    return _compat_answer(driver, gpus, cuda_driver, container, evidence)


@check(sees_missing=("system", "driver", "gpus", "cuda_driver", "devices", "container", "symptoms"))
def nvidia_uvm_missing(
    system: SystemFacts | Missing,
    driver: DriverFacts | Missing,
    gpus: GpusFacts | Missing,
    cuda_driver: CudaDriverFacts | Missing,
    devices: DevicesFacts | Missing,
    container: ContainerFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Answer:
    """No /dev/nvidia-uvm, or CUDA 999 with a unified-memory module gone stale over a suspend."""
    told = said(symptoms, "nvidia-uvm-missing")
    if works(devices) or driver_answers(cuda_driver) or is_wsl(system) or is_jetson(system):
        return None
    if no_gpu(system, driver, gpus) and not of_programs(told):
        return None  # a libcuda of a package or an image fails so where there is no driver
    nodes = None if isinstance(driver, Missing) else driver.device_nodes
    code = cuda_code(devices, cuda_driver)
    evidence = (*code_evidence(devices, cuda_driver), *quoted(told))
    gone = nodes is not None and "nvidia-uvm" not in nodes and (bool(nodes) or contained(container))
    gone = gone or bool(holding(told, "/dev/nvidia-uvm: false", "Module nvidia-uvm not found", "Module nvidia_uvm not found"))
    if gone and (fails(devices) or code in (cuda.NOT_INITIALIZED, cuda.UNKNOWN) or told) and code not in _OTHER_CAUSES:
        values = {"nodes": ", ".join(nodes or ()) or "none"}
        return Hit(values, evidence, variant="container" if contained(container) else None)
    slept = None if isinstance(system, Missing) else system.suspends
    if (code == cuda.UNKNOWN or told) and not gone:
        variant = "suspended" if slept or holding(told, "unspecified launch failure") else "stale"
        return Hit({"nodes": ", ".join(nodes or ()) or "unknown"}, evidence, variant=variant, confidence=Confidence.LIKELY)
    if slept and fails(devices) and code == 719:
        return Hit({"nodes": "unknown"}, evidence, variant="suspended", confidence=Confidence.LIKELY)
    return trouble(driver, "driver") or trouble(cuda_driver, "cuda_driver")


@check(sees_missing=("system", "driver", "gpus", "cuda_driver", "devices", "python", "symptoms"))
def libcuda_stub(
    system: SystemFacts | Missing,
    driver: DriverFacts | Missing,
    gpus: GpusFacts | Missing,
    cuda_driver: CudaDriverFacts | Missing,
    devices: DevicesFacts | Missing,
    python: PythonFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Answer:
    """CUDA 34: the link-time stub of the toolkit is loaded instead of the driver's library."""
    told = said(symptoms, "libcuda-stub")
    if works(devices) or driver_answers(cuda_driver):
        return None
    stub = not isinstance(cuda_driver, Missing) and cuda_driver.is_stub is True
    if not (stub or told or cuda_code(devices, cuda_driver) == cuda.STUB_LIBRARY):
        return trouble(cuda_driver, "cuda_driver")
    path = None if isinstance(cuda_driver, Missing) else cuda_driver.library_path
    loader = None if isinstance(python, Missing) else python.variables.get("LD_LIBRARY_PATH")
    evidence = (*code_evidence(devices, cuda_driver), *quoted(told))
    evidence += (Evidence("LD_LIBRARY_PATH", loader),) if loader else ()
    only_nvml = bool(told) and len(holding(told, "libnvidia-ml.so")) == len(told) and not stub
    severity = Severity.INFO if no_gpu(system, driver, gpus) and not of_programs(told) else None
    values = {"library": path or "a libcuda.so.1 in a toolkit's stubs folder"}
    return Hit(values, evidence, variant="nvml" if only_nvml else None, severity=severity)


# probes/cuda_driver.py: "cuInit was ended by SIGSEGV"
_ENDED = re.compile(r"(.{1,80}) was ended by (SIG[A-Z]{2,9})")


@check(sees_missing=("cuda_driver", "devices"))
def libcuda_crashed(cuda_driver: CudaDriverFacts | Missing, devices: DevicesFacts | Missing) -> Answer:
    """A process that did nothing but ask libcuda was killed by a signal."""
    found = _ENDED.fullmatch(cuda_driver.reason) if isinstance(cuda_driver, Missing) else None
    if found is None or found[2] == "SIGKILL" or works(devices):  # SIGKILL comes from outside: no memory left, a person
        return None
    return Hit({"call": found[1], "signal": found[2]}, _witnesses(cuda_driver, devices))


@check(sees_missing=("cuda_driver", "devices"))
def libcuda_unresponsive(cuda_driver: CudaDriverFacts | Missing, devices: DevicesFacts | Missing) -> Answer:
    """Neither libcuda alone nor torch came back. One of them alone may only be slow: many GPUs without persistence mode."""
    late = [section for section in (cuda_driver, devices) if isinstance(section, Missing) and section.why is Why.TIMEOUT]
    if len(late) < 2:
        return None
    return Hit({"alone": late[0].reason, "torch": late[1].reason}, _witnesses(cuda_driver, devices))


def _witnesses(cuda_driver: CudaDriverFacts | Missing, devices: DevicesFacts | Missing) -> tuple[Evidence, ...]:
    """What each process said that asked CUDA; of libcuda, which file it was."""
    found = []
    if isinstance(cuda_driver, Missing):
        found.append(Evidence((cuda_driver.evidence.splitlines() or ["libcuda.so.1"])[0], cuda_driver.reason))
    if isinstance(devices, Missing) and devices.why in (Why.FAILED, Why.TIMEOUT):
        found.append(Evidence("torch", devices.reason))
    return tuple(found)


CHECKS = (
    driver_library_mismatch,
    cuda_compat_shadows_driver,
    cuda_compat_unsupported_gpu,
    nvidia_uvm_missing,
    libcuda_stub,
    libcuda_crashed,
    libcuda_unresponsive,
)
