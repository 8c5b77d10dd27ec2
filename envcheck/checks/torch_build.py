"""Whether there is a torch, and whether it is a build that this machine can use."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envcheck.checks import answer
from envcheck.checks.hardware import discrete_amd, discrete_intel, import_text, imported, named, not_told, nvidia
from envcheck.checks.origin import IMPORT
from envcheck.checks.text import alone, holding, quoted, said, value
from envcheck.engine.intents import TorchBuild
from envcheck.engine.rule import Confidence, Evidence, Hit, Severity, Unknown, check
from envcheck.facts.snapshot import (
    CudaDriverFacts,
    DevicesFacts,
    DriverFacts,
    GpusFacts,
    ImportStatus,
    Missing,
    PackagesFacts,
    PythonFacts,
    RocmFacts,
    SymptomsFacts,
    SystemFacts,
    TextEvidence,
    ToolkitFacts,
    TorchFacts,
    VisibilityFacts,
    Why,
    XpuFacts,
)
from envcheck.tables.versions import local, minor, older

if TYPE_CHECKING:
    from envcheck.tables.compat import Tables


@check(sees_missing=("torch", "python", "symptoms"))
def torch_missing(torch: TorchFacts | Missing, python: PythonFacts | Missing, symptoms: SymptomsFacts | Missing) -> Hit | Unknown | None:
    """No distribution and no module; or a program that did not find the torch that is installed."""
    matches = said(symptoms, "torch-missing")
    executable = None if isinstance(python, Missing) else python.executable
    if isinstance(torch, Missing):
        if torch.why is Why.ABSENT:
            where: dict[str, object] = {"python": executable or "this interpreter", "path": torch.evidence}
            if not isinstance(python, Missing) and python.no_site:
                return Hit(where, quoted(matches), variant="no_site")
            other = None if isinstance(python, Missing) else python.torch_for_another_python
            if other and not torch.evidence:
                where |= {"path": other, "version": None if isinstance(python, Missing) else python.version}
                return Hit(where, quoted(matches), (TorchBuild(),), variant="other_python")
            return Hit(where, quoted(matches), (TorchBuild(),), variant="leftover" if torch.evidence else None)
        if torch.why is not Why.SKIPPED:
            return Unknown(f"torch: {torch.reason}")
        return Hit(evidence=quoted(matches), fixes=(TorchBuild(),), variant="said") if matches else None
    if not matches or all(one.source == IMPORT for one in matches):
        return None  # not even this interpreter's own import finds it: what is damaged says so
    values = {"version": torch.version, "python": executable or "the interpreter examined"}
    return Hit(values, quoted(matches), variant="elsewhere", severity=Severity.WARNING, confidence=Confidence.LIKELY)


def _is_cpu_build(torch: TorchFacts) -> bool:
    """Built without any accelerator. macOS builds carry MPS and do not count."""
    if torch.cuda or torch.hip or torch.xpu:
        return False
    return torch.cpu_build is True or local(torch.version) == "cpu"


def _can_be_served(capabilities: list[str], tables: Tables) -> bool:
    """Whether any CUDA build of torch has code for one of these GPUs; an unknown capability counts as yes."""
    from envcheck.tables.compat import runs_on

    archs = {build.archs for build in tables.builds() if build.cuda and build.archs}
    return not capabilities or any(runs_on(list(one), capability) is not False for one in archs for capability in capabilities)


def _usually_cpu(torch: TorchFacts, python: PythonFacts | Missing, system: SystemFacts | Missing, tables: Tables) -> bool:
    """Only a bare version of torch is stated, and a plain `pip install` of it brings no CUDA on this platform."""
    from envcheck.tables.compat import platform_of

    conda = not isinstance(python, Missing) and (python.has_conda_meta or python.environment == "conda")
    if isinstance(system, Missing) or conda or torch.conda or answer.is_jetson(system) or not torch.version:
        return False
    os, machine = system.os or ("linux" if system.machine == "aarch64" else None), system.machine or "x86_64"
    row = tables.release(torch.version) if os in ("windows", "linux") else None
    return row is not None and row.default_variant.get(platform_of(os, machine)) == "cpu"


@check(sees_missing=("gpus", "driver", "cuda_driver", "devices", "rocm", "xpu", "system", "python", "toolkit", "symptoms", "torch"))
def torch_cpu_build(
    torch: TorchFacts | Missing,
    python: PythonFacts | Missing,
    devices: DevicesFacts | Missing,
    gpus: GpusFacts | Missing,
    driver: DriverFacts | Missing,
    cuda_driver: CudaDriverFacts | Missing,
    rocm: RocmFacts | Missing,
    xpu: XpuFacts | Missing,
    system: SystemFacts | Missing,
    toolkit: ToolkitFacts | Missing,
    symptoms: SymptomsFacts | Missing,
    tables: Tables,
) -> Hit | Unknown | None:
    """A CPU build beside an accelerator that a build of torch exists for. A CPU build on a CPU machine is healthy."""
    matches = said(symptoms, "torch-cpu-build")
    if isinstance(torch, Missing):
        return _cpu_said(torch, matches, system)
    if not _is_cpu_build(torch):
        known = torch.cuda or torch.hip or torch.xpu or local(torch.version)
        if known and holding(alone(symptoms, "torch-cpu-build"), "not compiled with CUDA") and not answer.works(devices):
            values = {"version": torch.version, "kind": "CUDA"}
            return Hit(values, quoted(matches), variant="other", confidence=Confidence.LIKELY)
        if not known and not matches and nvidia(gpus) and answer.fails(devices) and _usually_cpu(torch, python, system, tables):
            values = {"version": torch.version, "kind": "CUDA", "gpu": named(nvidia(gpus))}
            return Hit(values, (), (TorchBuild(),), variant="usual", confidence=Confidence.LIKELY)
        return None if known or not matches else _cpu_said(torch, matches, system)
    if not isinstance(system, Missing) and system.os == "darwin":
        return _cpu_said(torch, matches, system)
    version = torch.version or "of unknown version"
    evidence = (Evidence("torch", f"version {version}, CUDA {torch.cuda or 'none'}"), *quoted(matches))
    cards = nvidia(gpus)
    jetson = answer.is_jetson(system) or any("orin" in (gpu.name or "").lower() for gpu in cards)
    if cards or answer.driver_answers(cuda_driver):
        if not _can_be_served([gpu.compute_capability for gpu in cards if gpu.compute_capability], tables):
            return None
        values = {"version": version, "kind": "CUDA", "gpu": named(cards) or "an NVIDIA GPU"}
        return Hit(values, evidence, () if jetson else (TorchBuild(),), variant="jetson" if jetson else None)
    if amd := discrete_amd(rocm):
        return Hit({"version": version, "kind": "ROCm", "gpu": amd}, evidence, (TorchBuild(),), variant="amd")
    if intel := discrete_intel(xpu):
        return Hit({"version": version, "kind": "XPU", "gpu": intel}, evidence, (TorchBuild(),), variant="intel", severity=Severity.WARNING)
    if matches:
        return _cpu_said(torch, matches, system)
    if not not_told(gpus):
        return Unknown(f"gpus: {gpus.reason}") if isinstance(gpus, Missing) and gpus.why is not Why.ABSENT else None
    # A report that lists no GPU. A driver or a toolkit is a sign of one, not a proof.
    sign = None
    if not isinstance(driver, Missing) and driver.version:
        sign = f"NVIDIA driver {driver.version}"
    elif not isinstance(rocm, Missing) and not rocm.names and not rocm.gfx:
        sign = "an AMD GPU"
    elif not isinstance(toolkit, Missing) and toolkit.nvccs:
        sign = f"CUDA toolkit {toolkit.nvccs[0].version or toolkit.nvccs[0].path}"
    if sign is None:
        return None
    values = {"version": version, "kind": "CUDA", "sign": sign}
    return Hit(values, evidence, (TorchBuild(),), "sign", Severity.WARNING, Confidence.LIKELY)


def _cpu_said(torch: TorchFacts | Missing, matches: tuple[TextEvidence, ...], system: SystemFacts | Missing) -> Hit | None:
    """Only the error text speaks of a build without CUDA."""
    if not matches or (isinstance(torch, Missing) and torch.why is Why.ABSENT):
        return None
    version = None if isinstance(torch, Missing) else torch.version
    values: dict[str, object] = {"version": version or "of unknown version", "kind": "CUDA"}
    evidence = quoted(matches)
    if not isinstance(system, Missing) and system.os == "darwin":
        return Hit(values, evidence, variant="mac")
    if answer.is_jetson(system):
        return Hit(values | {"gpu": "the Jetson's GPU"}, evidence, variant="jetson")
    return Hit(values, evidence, (TorchBuild(),), variant="said")


@check(sees_missing=("torch", "gpus", "cuda_driver", "rocm", "visibility", "symptoms", "devices"))
def torch_cuda_unavailable(
    torch: TorchFacts | Missing,
    devices: DevicesFacts | Missing,
    gpus: GpusFacts | Missing,
    cuda_driver: CudaDriverFacts | Missing,
    rocm: RocmFacts | Missing,
    visibility: VisibilityFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Hit | Unknown | None:
    """The fallback: a GPU build, a GPU, and torch has no device. Rules that know the cause explain it away."""
    matches = said(symptoms, "torch-cuda-unavailable")
    if isinstance(torch, Missing):
        if torch.why is not Why.SKIPPED:
            return answer.trouble(torch, "torch")
        blind = matches and not answer.absent(gpus)  # a message without a report: who printed it saw no GPU, and why is not said
        return Hit({}, quoted(matches), variant="said", severity=Severity.WARNING, confidence=Confidence.LIKELY) if blind else None
    if not (torch.cuda or torch.hip):
        return None
    if isinstance(devices, Missing):
        if trouble := answer.trouble(devices, "devices"):
            return None if torch.import_status not in (ImportStatus.OK, ImportStatus.SKIPPED) else trouble
        gpu = named(nvidia(gpus)) or "a GPU that the facts do not name"
        return _unavailable(torch, matches, gpu, None, Confidence.LIKELY) if matches else None
    if devices.available is not False:
        return None
    if not isinstance(visibility, Missing) and visibility.selected == () and not matches:
        return None  # hidden on purpose or by mistake: the visibility rules say which
    error = devices.error or next(iter(devices.warnings), None)
    cards = named(nvidia(gpus))
    if torch.cuda and (cards or answer.driver_answers(cuda_driver)):
        return _unavailable(torch, matches, cards or "an NVIDIA GPU", error, None)
    if torch.hip and not isinstance(rocm, Missing) and (rocm.names or rocm.gfx):
        return _unavailable(torch, matches, ", ".join(rocm.names or rocm.gfx), error, None)
    if (matches or error) and not answer.absent(gpus):
        return _unavailable(torch, matches, "a GPU that the facts do not name", error, Confidence.LIKELY)
    if not_told(gpus):
        return Unknown("torch has no device, and neither GPU nor driver is stated: run nvidia-smi and give its output")
    return answer.trouble(gpus, "gpus")


def _unavailable(torch: TorchFacts, matches: tuple[TextEvidence, ...], gpu: str, error: str | None, confidence: Confidence | None) -> Hit:
    built = f"ROCm {torch.hip}" if torch.hip else f"CUDA {torch.cuda}"
    evidence = quoted(matches)
    if error:
        evidence = (Evidence("torch", error), *evidence)
    values = {"version": torch.version, "built": built, "gpu": gpu, "error": (error or "").rstrip(".")}
    return Hit(values, evidence, variant="error" if error else None, confidence=confidence)


def _tag(python: PythonFacts) -> str | None:
    """The interpreter as wheel tables name it: "3.13", "3.13t" for the free-threaded build."""
    series = minor(python.version)
    return None if series is None else f"{series[0]}.{series[1]}{'t' if python.free_threaded else ''}"


def _platform(system: SystemFacts | Missing) -> str | None:
    from envcheck.tables.compat import platform_of

    if isinstance(system, Missing) or not system.os or not system.machine:
        return None
    return platform_of(system.os, system.machine)


@check(sees_missing=("torch", "system", "symptoms"))
def python_unsupported(
    python: PythonFacts, torch: TorchFacts | Missing, system: SystemFacts | Missing, symptoms: SymptomsFacts | Missing, tables: Tables
) -> Hit | Unknown | None:
    """No torch there, and no release has a wheel for this interpreter."""
    if not isinstance(torch, Missing) or torch.why is not Why.ABSENT:
        wanted = bool(said(symptoms, "python-unsupported") or said(symptoms, "no-matching-wheel"))
        if not wanted or not isinstance(torch, Missing):
            return None
    evidence = quoted(said(symptoms, "python-unsupported"))
    if python.implementation and python.implementation != "cpython":
        return Hit({"implementation": python.implementation, "python": python.version}, evidence, variant="implementation")
    if python.bits == 32:
        return Hit({"python": python.version}, evidence, variant="bits")
    tag = _tag(python)
    if tag is None:
        return Unknown("the version of the interpreter is not known")
    platform = _platform(system) or "linux-x86_64"
    served = [tags for one in tables.releases() if (tags := one.pythons.get(platform))]
    known = sorted({one for tags in served for one in tags}, key=lambda one: (minor(one) or (0, 0), one))
    if not known or tag in known:
        return None
    values = {"python": tag, "platform": platform, "oldest": known[0], "newest": known[-1], "supported": served[-1]}
    newest = minor(known[-1])
    if newest and (minor(tag) or (0, 0)) > newest:
        return Hit(values, evidence, variant="new", confidence=Confidence.LIKELY)
    return Hit(values, evidence)


@check(sees_missing=("torch", "python", "system", "symptoms"))
def no_matching_wheel(
    torch: TorchFacts | Missing,
    python: PythonFacts | Missing,
    system: SystemFacts | Missing,
    symptoms: SymptomsFacts | Missing,
    tables: Tables,
) -> Hit | Unknown | None:
    """The installer found no file for this Python, platform or index; or it would not find one."""
    matches = said(symptoms, "no-matching-wheel")
    absent = isinstance(torch, Missing) and torch.why is Why.ABSENT
    if not absent and not matches:
        return None
    version = None if isinstance(python, Missing) else python.version
    evidence = quoted(matches)
    platform = _platform(system)
    if not isinstance(system, Missing) and system.libc == "musl":
        return Hit({"python": version, "system": system.distribution or "musl"}, evidence, variant="musl")
    if absent and platform and not any(platform in one.pythons for one in tables.releases()[-6:]):
        last = next((one.version for one in reversed(tables.releases()) if platform in one.pythons), None)
        fixes = (TorchBuild(f"=={last}"),) if last else ()
        return Hit({"platform": platform, "last": last or "none", "python": version}, evidence, fixes, variant="platform")
    if not matches:
        return None
    if value(matches, "virtual"):
        return Hit({}, evidence, variant="conda")
    index = value(matches, "index")
    built = tables.builds()
    known = {build.variant for build in built}
    seen = {build.variant for build in built if "low" not in (build.confidence, build.exists)}
    if index and re.fullmatch(r"cu\d{2,3}", index) and index not in known:
        newest = sorted((one for one in seen if re.fullmatch(r"cu\d{3}", one)), key=lambda one: int(one[2:]))[-3:]
        return Hit({"index": index, "newest": newest}, evidence, (TorchBuild(),), variant="index")
    wanted = value(matches, "requirement") or "torch"
    values = {"requirement": wanted, "python": version, "platform": platform or "this platform"}
    return Hit(values, evidence, (TorchBuild(),), variant=None if version else "plain")


# "/lib64/libm.so.6: version `GLIBC_2.29' not found (required by /env/lib/python3.10/site-packages/libpyg.so)"
_GLIBC = re.compile(r"GLIBC_(\d{1,3}\.\d{1,3})' not found(?: \(required by ([^)]{1,400})\))?")


@check(sees_missing=("torch", "devices", "symptoms"))
def glibc_too_old(
    system: SystemFacts, torch: TorchFacts | Missing, devices: DevicesFacts | Missing, symptoms: SymptomsFacts | Missing, tables: Tables
) -> Hit | Unknown | None:
    """A library asks for a newer C library than the system has."""
    return _glibc(system, torch, devices, symptoms, tables)


def _glibc(
    system: SystemFacts, torch: TorchFacts | Missing, devices: DevicesFacts | Missing, symptoms: SymptomsFacts | Missing, tables: Tables
) -> Hit | Unknown | None:
    matches = said(symptoms, "glibc-too-old")
    texts = (import_text(torch), *(match.text for match in matches))
    found = next((one for text in texts if (one := _GLIBC.search(text))), None)
    needed = (found and found[1]) or value(matches, "needed")
    by = (found and found[2]) or value(matches, "required_by") or ""
    version = None if isinstance(torch, Missing) else torch.version
    evidence = (Evidence("import torch", import_text(torch)),) if _GLIBC.search(import_text(torch)) else quoted(matches)
    if needed or matches:
        if system.glibc and needed and older(system.glibc, needed) is False:
            return Unknown(f"GLIBC_{needed} is said to be missing, but the system has {system.glibc}: another machine or another C library")
        values = {"needed": needed or "a newer glibc", "glibc": system.glibc or "older", "library": by or "a library", "version": version}
        if by and "/torch/" not in by:
            return Hit(values, evidence, variant="companion")
        return Hit(values, evidence, (TorchBuild(),))
    if isinstance(torch, Missing) or not system.glibc or not system.machine or torch.conda or imported(torch, devices):
        return None
    row = tables.release(torch.version) if torch.version else None
    floor = row.glibc.get(system.machine) if row else None
    if floor is None or older(system.glibc, floor) is not True:
        return None
    values = {"needed": floor, "glibc": system.glibc, "version": torch.version}
    confidence = None if torch.import_status is ImportStatus.ERROR else Confidence.LIKELY
    return Hit(values, fixes=(TorchBuild(),), variant="table", confidence=confidence)


@check(sees_missing=("torch", "symptoms", "devices", "packages"))
def cpu_too_old(
    system: SystemFacts,
    torch: TorchFacts | Missing,
    devices: DevicesFacts | Missing,
    packages: PackagesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Hit | Unknown | None:
    """An instruction that this CPU, or the virtual machine around it, does not have."""
    matches = said(symptoms, "cpu-too-old")
    died = not isinstance(torch, Missing) and torch.import_failure is not None and torch.import_failure.signal == "SIGILL"
    if imported(torch, devices) and not matches:
        return None
    x86 = system.machine in ("x86_64", "AMD64", "amd64", None)
    lacking = [flag for flag in ("avx", "avx2") if system.cpu_flags_read and x86 and flag not in system.cpu_flags]
    values = {
        "cpu": system.cpu_model or "this CPU",
        "lacking": lacking or "the instruction in question",
        "version": None if isinstance(torch, Missing) else torch.version,
    }
    evidence = quoted(matches)
    if died:
        evidence = (Evidence("import torch", "killed by SIGILL"), *evidence)
    elif not matches:
        if lacking and not isinstance(torch, Missing) and "avx" in lacking:
            return Hit(values, variant="flags", severity=Severity.WARNING, confidence=Confidence.LIKELY)
        return None
    if lacking:
        return Hit(values, evidence)
    if system.cpu_flags_read and x86 and not died:
        return Unknown("an illegal instruction is reported, but the CPU has AVX and AVX2: run envcheck on the machine where it happens")
    return Hit(values, evidence, variant="unsure", confidence=Confidence.LIKELY)


CHECKS = (
    torch_missing,
    torch_cpu_build,
    torch_cuda_unavailable,
    python_unsupported,
    no_matching_wheel,
    glibc_too_old,
    cpu_too_old,
)
