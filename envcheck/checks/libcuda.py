"""The CUDA driver library: the right one loaded, in step with the kernel module, with its device nodes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from envcheck.checks.answer import code_evidence, contained, cuda_answers, cuda_code, driver_os, fails, no_gpu, works
from envcheck.checks.driver import smi_evidence, smi_failed
from envcheck.checks.text import agreed, alone, cite, of_programs, of_symptom, of_variant, quoted, value
from envcheck.engine.rule import Answer, Confidence, Evidence, Facts, Hit, Matches, Severity, Unknown, check
from envcheck.facts import cuda_codes as cuda
from envcheck.facts.nvml_codes import MISMATCH
from envcheck.facts.snapshot import CudaDriverFacts, DriverFacts, Missing, Why

# Errors that speak of something else than a missing or stale device of unified memory.
_OTHER_CAUSES = (cuda.NO_DEVICE, cuda.INVALID_DEVICE, cuda.SYSTEM_NOT_READY, cuda.SYSTEM_DRIVER_MISMATCH, cuda.COMPAT_NOT_SUPPORTED)


def versions_differ(driver: DriverFacts) -> bool:
    """Kernel module and library on disk are of different versions. NVML prints two of the three numbers: "570.195"."""
    if not driver.version or not driver.library_version:
        return False
    if not (driver.module_loaded or (driver.source or "").startswith(("/sys", "/proc"))):
        return False
    pairs = zip(driver.version.split("."), driver.library_version.split("."), strict=False)
    return any(module != library for module, library in pairs)


def _compat_loaded(cuda_driver: CudaDriverFacts) -> bool:
    first = (cuda_driver.library_path or next(iter(cuda_driver.candidates), "")).lower()
    return cuda_driver.is_compat is True or "/compat" in first


@check(needs="driver", reads="system driver cuda_driver devices container symptoms")
def driver_library_mismatch(facts: Facts) -> Answer:
    matches = alone(facts, "driver-library-mismatch")
    if pair := of_variant(matches, "runfile"):
        return Hit({name: value(pair, name) for name in ("module", "library", "arch")}, quoted(matches), variant="runfile")
    working = cuda_answers(facts)
    differ = versions_differ(facts.driver) and driver_os(facts.system) != "windows"
    # a number equal to the module's is that of another copy, not of the one that NVML refuses
    values: dict[str, object] = {"module": facts.driver.version or value(matches, "module")}
    values["library"] = (facts.driver.library_version if differ else None) or value(matches, "library")
    evidence = (*smi_evidence(facts.driver), *code_evidence(facts), *quoted(matches))
    stated = smi_failed(facts.driver, MISMATCH) or differ
    # torch's allocator could not start NVML: most often for this reason, which it does not say
    guess = not stated and agreed(matches) == "assert"
    if smi_failed(facts.driver, MISMATCH) or matches or (differ and not working):
        known = None if values["module"] and values["library"] else "versions_unknown"
        inside, told = contained(facts.container), bool(of_variant(matches, "container"))
        variant = "assert" if guess else "container" if inside or told else known
        severity, likely = Severity.WARNING if working else None, guess or (told and not inside)
        return Hit(values, evidence, variant=variant, severity=severity, confidence=Confidence.LIKELY if likely else None)
    lines = of_symptom(facts, "cuda-803", "cuda-804")
    compat_error = cuda_code(facts) in (cuda.SYSTEM_DRIVER_MISMATCH, cuda.COMPAT_NOT_SUPPORTED) or bool(lines)
    if compat_error and not (working or contained(facts.container) or _compat_loaded(facts.cuda_driver) or facts.system.wsl):
        return Hit(values, (*evidence, *quoted(lines[:1])), variant="code", confidence=Confidence.LIKELY)
    return None


def _compat_answer(facts: Facts, error: int, matches: Matches) -> Answer:
    """803 and 804 alike: certain if a cuda-compat is loaded, a guess where an image may bring one, else another rule's."""
    if cuda_answers(facts) or (cuda_code(facts) != error and not matches):
        return None
    values = {"library": facts.cuda_driver.library_path or "a libcuda.so.1 of a cuda-compat package", "driver": facts.driver.version}
    values["gpu"] = ", ".join(sorted({gpu.name for gpu in facts.gpus.devices if gpu.name})) or "this GPU"
    evidence = (*code_evidence(facts), *quoted(matches))
    if _compat_loaded(facts.cuda_driver):
        return Hit(values, evidence)
    if "container" in facts.absent or versions_differ(facts.driver):
        return None  # driver-library-mismatch
    return Hit(values, evidence, variant="guess", confidence=None if contained(facts.container) else Confidence.LIKELY)


@check(needs="cuda_driver", reads="driver gpus cuda_driver devices container symptoms")
def cuda_compat_shadows_driver(facts: Facts, matches: Matches) -> Answer:
    return _compat_answer(facts, cuda.SYSTEM_DRIVER_MISMATCH, matches)


@check(needs="cuda_driver", reads="driver gpus cuda_driver devices container symptoms")
def cuda_compat_unsupported_gpu(facts: Facts, matches: Matches) -> Answer:
    return _compat_answer(facts, cuda.COMPAT_NOT_SUPPORTED, matches)


@check(needs="driver cuda_driver", reads="system driver cuda_driver devices container symptoms")
def nvidia_uvm_missing(facts: Facts, matches: Matches) -> Answer:
    system, devices = facts.system, facts.devices
    if cuda_answers(facts) or system.wsl or system.jetson:
        return None
    if no_gpu(facts) and not of_programs(matches):
        return None  # a libcuda of a package or an image fails so where there is no driver
    code, nodes, inside = cuda_code(facts), facts.driver.device_nodes, contained(facts.container)
    evidence = (*code_evidence(facts), *quoted(matches))
    gone = nodes is not None and "nvidia-uvm" not in nodes and (bool(nodes) or inside)
    if gone or of_variant(matches, "gone"):
        uvm = code not in _OTHER_CAUSES and (fails(devices) or code in (cuda.NOT_INITIALIZED, cuda.UNKNOWN) or matches)
        values = {"nodes": ", ".join(nodes or ()) or "none"}
        return Hit(values, evidence, variant="container" if inside else None) if uvm else None
    woken = system.suspends and fails(devices) and code == cuda.LAUNCH_FAILURE
    if code == cuda.UNKNOWN or matches or woken:
        variant = "suspended" if system.suspends or of_variant(matches, "suspended") else agreed(matches) or "stale"
        return Hit({"nodes": ", ".join(nodes or ()) or None}, evidence, variant=variant, confidence=Confidence.LIKELY)
    return None


@check(needs="cuda_driver", reads="system cuda_driver devices python symptoms")
def libcuda_stub(facts: Facts, matches: Matches) -> Answer:
    stub = facts.cuda_driver.is_stub is True
    if cuda_answers(facts) or not (stub or matches or cuda_code(facts) == cuda.STUB_LIBRARY):
        return None
    evidence = (*code_evidence(facts), *quoted(matches), *cite("LD_LIBRARY_PATH", facts.python.variables.get("LD_LIBRARY_PATH")))
    values = {"library": facts.cuda_driver.library_path or "a libcuda.so.1 in a toolkit's stubs folder"}
    severity = Severity.INFO if no_gpu(facts) and not of_programs(matches) else None
    return Hit(values, evidence, variant="nvml" if agreed(matches) == "nvml" and not stub else None, severity=severity)


# probes/cuda_driver.py: "cuInit was ended by SIGSEGV"
_ENDED = re.compile(r"(.{1,80}) was ended by (SIG[A-Z]{2,9})")


@check(needs="driver", reads="devices")
def libcuda_crashed(facts: Facts) -> Answer:
    found = _ENDED.fullmatch(facts.missing["cuda_driver"].reason) if "cuda_driver" in facts.missing else None
    if found is None and len(silent := _silent(facts.missing)) == 2:
        return Unknown(silent[0].reason)
    if found is None or found[2] == "SIGKILL" or works(facts.devices):  # SIGKILL comes from outside: no memory left, a person
        return None
    return Hit({"call": found[1], "signal": found[2]}, _witnesses(facts.missing))


@check(needs="driver", reads="")
def libcuda_unresponsive(facts: Facts) -> Answer:
    """Neither libcuda alone nor torch came back. One of them alone may only be slow: many GPUs without persistence mode."""
    silent = _silent(facts.missing)
    if len(silent) < 2:
        return None
    if any(one.why is Why.FAILED for one in silent):
        return Unknown(silent[0].reason)
    return Hit({"alone": silent[0].reason, "torch": silent[1].reason}, _witnesses(facts.missing))


def _silent(missing: Mapping[str, Missing]) -> list[Missing]:
    """Of libcuda asked alone and torch, those that gave no answer."""
    return [missing[name] for name in ("cuda_driver", "devices") if name in missing and missing[name].trouble]


def _witnesses(missing: Mapping[str, Missing]) -> tuple[Evidence, ...]:
    """What each process said that asked CUDA; of libcuda, which file it was."""
    alone, torch = missing["cuda_driver"], missing.get("devices")
    found = [Evidence((alone.evidence.splitlines() or ["libcuda.so.1"])[0], alone.reason)]
    return (*found, Evidence("torch", torch.reason)) if torch and torch.trouble else tuple(found)
