"""The CUDA toolkit and the compilers: they matter for building extensions and for torch.compile, never for a wheel alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envcheck.checks import answer
from envcheck.checks.gpu import NO_KERNEL, code_of_build, cubins
from envcheck.checks.hardware import cuda_works, installed, not_told, nvidia, variables
from envcheck.checks.origin import IMPORT
from envcheck.checks.text import quoted, said, value
from envcheck.engine.intents import Manual, SetEnv
from envcheck.engine.rule import Confidence, Evidence, Hit, Severity, Unknown, check
from envcheck.facts.snapshot import (
    CudaDriverFacts,
    DevicesFacts,
    DriverFacts,
    GpusFacts,
    Missing,
    PackagesFacts,
    PythonFacts,
    SymptomsFacts,
    SystemFacts,
    ToolkitFacts,
    TorchFacts,
)
from envcheck.tables.versions import UNKNOWN, cuda_of_build, local, major, minor

if TYPE_CHECKING:
    from envcheck.tables.compat import Tables


@check(sees_missing=("toolkit", "python", "torch", "symptoms"))
def cuda_home_missing(
    toolkit: ToolkitFacts | Missing, python: PythonFacts | Missing, torch: TorchFacts | Missing, symptoms: SymptomsFacts | Missing
) -> Hit | Unknown | None:
    """CUDA_HOME names no folder with a toolkit; or an extension was built where there is none.

    torch takes CUDA_HOME and CUDA_PATH without a look whether the folder exists (torch/utils/cpp_extension.py, _find_cuda_home).
    """
    matches = said(symptoms, "cuda-home-missing")
    environment = variables(python)
    facts = None if isinstance(toolkit, Missing) else toolkit
    name = next((one for one in ("CUDA_HOME", "CUDA_PATH") if environment.get(one)), None)
    home = environment.get(name) if name else None
    if home is None and facts and facts.cuda_home_source in ("CUDA_HOME", "CUDA_PATH"):
        name, home = facts.cuda_home_source, facts.cuda_home
    severity = None if matches else Severity.WARNING
    cuda = None if isinstance(torch, Missing) else torch.cuda
    values: dict[str, object] = {"name": name, "home": home, "cuda": cuda}
    if home and name and (":" in home.strip(":") or home != home.strip(":")) and not re.match(r"[A-Za-z]:[\\/]", home):
        one = next((part for part in home.split(":") if part), None)
        fixes = (SetEnv(name, one),) if one else ()
        return Hit(values, quoted(matches), fixes, variant="list", severity=severity)
    if listed := value(matches, "list"):
        where = re.sub(r"/(?:bin/nvcc|include)$", "", listed)
        return Hit(
            values | {"name": name or "CUDA_HOME", "home": where}, quoted(matches), (SetEnv("CUDA_HOME", where.strip(":")),), variant="list"
        )
    if home and name and facts and facts.cuda_home == home and facts.cuda_home_exists is False:
        paths = [nvcc.path for nvcc in facts.nvccs if nvcc.version and nvcc.path.endswith("/bin/nvcc")]
        other = paths[0].removesuffix("/bin/nvcc") if paths else None
        fixes = (SetEnv(name, other, "" if other else "torch then looks for nvcc on PATH and in /usr/local/cuda"),)
        return Hit(values, quoted(matches), fixes, severity=severity)
    return Hit(values, quoted(matches), variant="said") if matches else answer.trouble(toolkit, "toolkit")


def _nvcc(toolkit: ToolkitFacts | Missing) -> str | None:
    """Version of the nvcc that torch.utils.cpp_extension would take; the first one found where that is not known."""
    if isinstance(toolkit, Missing):
        return None
    if toolkit.nvcc and toolkit.nvcc.version:
        return toolkit.nvcc.version
    return next((one.version for one in toolkit.nvccs if one.version), None)


@check(sees_missing=("toolkit", "torch", "devices", "packages", "symptoms"))
def nvcc_major_mismatch(
    toolkit: ToolkitFacts | Missing,
    torch: TorchFacts | Missing,
    devices: DevicesFacts | Missing,
    packages: PackagesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Hit | Unknown | None:
    """nvcc of another CUDA major than torch: extensions cannot be built. A wheel alone does not care."""
    matches = said(symptoms, "nvcc-major-mismatch")
    cuda = value(matches, "torch_cuda") or (None if isinstance(torch, Missing) else torch.cuda)
    nvcc = value(matches, "nvcc") or _nvcc(toolkit)
    if option := value(matches, "option"):
        values = {"nvcc": nvcc or "of this toolkit", "cuda": cuda or UNKNOWN, "option": option}
        return Hit(values, quoted(matches), variant="option", severity=Severity.ERROR)
    if matches:
        values = {"nvcc": nvcc or "another version", "cuda": cuda or "another version"}
        same = nvcc is not None and cuda is not None and major(nvcc) == major(cuda)
        return Hit(values, quoted(matches), variant="minor" if same else "said", severity=Severity.ERROR)  # the build was refused
    if not nvcc or not cuda or major(nvcc) == major(cuda):
        return answer.trouble(toolkit, "toolkit") if cuda else None
    where = None if isinstance(toolkit, Missing) or toolkit.nvcc is None else toolkit.nvcc.path
    evidence = (Evidence(where or "nvcc", f"release {nvcc}"), Evidence("torch.version.cuda", cuda))
    # In an environment that was read this is everyday, the more if its torch has answered; where nothing else is known it is the lead.
    answered = not isinstance(devices, Missing) and devices.available is not None
    quiet = answered or not isinstance(packages, Missing) or not not_told(devices)
    return Hit({"nvcc": nvcc, "cuda": cuda}, evidence, severity=None if quiet else Severity.WARNING)


@check(sees_missing=("symptoms", "torch", "toolkit"))
def nvcc_host_compiler(
    toolkit: ToolkitFacts | Missing, torch: TorchFacts | Missing, symptoms: SymptomsFacts | Missing, tables: Tables
) -> Hit | Unknown | None:
    """gcc newer than nvcc accepts."""
    matches = said(symptoms, "nvcc-host-compiler")
    nvcc = _nvcc(toolkit)
    gcc = value(matches, "compiler_version") or (None if isinstance(toolkit, Missing) else toolkit.gcc)
    row = tables.host_compiler(nvcc) if nvcc else None
    limit = value(matches, "limit") or (row.max_gcc if row else None)
    values = {"nvcc": nvcc or "of this toolkit", "gcc": gcc or "the host compiler", "limit": limit or "its limit"}
    if row and row.max_gcc is not None and gcc and (major(gcc) or 0) > row.max_gcc:
        fixes = (
            Manual(
                f"Install gcc {row.max_gcc} beside the present one and let nvcc take it.",
                commands=(f"export CC=gcc-{row.max_gcc} CXX=g++-{row.max_gcc} NVCC_PREPEND_FLAGS='-ccbin g++-{row.max_gcc}'",),
            ),
        )
        return Hit(values, quoted(matches), fixes, severity=Severity.ERROR if matches else None)
    if matches:
        kinds = {match.symptom for match in matches}
        variant = next((word for names, word in _LACKING if kinds <= names), "said")
        standard = value(matches, "standard") or value(matches, "other") or value(matches, "flag")
        if standard and not limit:
            return Hit(values | {"standard": standard}, quoted(matches), variant="standard", severity=Severity.ERROR)
        return Hit(values, quoted(matches), variant=variant, severity=Severity.ERROR)
    return answer.trouble(toolkit, "toolkit")


# What a build complained of, where it is not a compiler that is too new.
_LACKING = (
    (frozenset({"ninja-missing"}), "ninja"),
    (frozenset({"msvc-missing", "no-cplusplus"}), "missing"),
)


@check(sees_missing=("toolkit", "python", "packages", "symptoms", "system", "torch"))
def triton_toolchain(
    toolkit: ToolkitFacts | Missing,
    python: PythonFacts | Missing,
    packages: PackagesFacts | Missing,
    system: SystemFacts | Missing,
    torch: TorchFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Hit | None:
    """What Triton needs at run time to build its launcher: a C compiler, Python.h, libcuda to link, a ptxas for the GPU."""
    matches = said(symptoms, "triton-toolchain")
    version = "3" if isinstance(python, Missing) or not minor(python.version) else "{}.{}".format(*(minor(python.version) or (3, 0)))
    if matches:
        text = " ".join(match.text for match in matches)
        kind = value(matches, "kind") or _lacks(text)
        target = re.search(r"sm_(\d{2,3}[af]?)", text)
        values = {"python": version, "target": target[0] if target else "this GPU", "cuda": value(matches, "cuda") or "of the ptxas found"}
        if refused := value(matches, "refused"):
            values["refused"] = refused
            return Hit(values, quoted(matches), variant="refused", severity=Severity.ERROR, confidence=Confidence.LIKELY)
        if kind == "backend":
            values |= {"gpu": value(matches, "gpu") or "The GPU", "needs": value(matches, "needs") or "7.0"}
            return Hit(values, quoted(matches), variant="gpu", severity=Severity.ERROR)
        return Hit(values, quoted(matches), variant=kind, severity=Severity.ERROR)
    triton = installed(packages, "triton")
    linux = not isinstance(system, Missing) and system.os == "linux"
    if not triton or not linux or isinstance(torch, Missing) or not (torch.cuda or torch.hip):
        return None
    if not isinstance(toolkit, Missing) and toolkit.compiler is None and toolkit.gcc is None and toolkit.clang is None:
        return Hit({"python": version, "target": "this GPU"}, variant="compiler")
    if not isinstance(python, Missing) and python.include_python_h is False:
        return Hit({"python": version, "target": "this GPU"}, variant="headers")
    return None


def _lacks(text: str) -> str | None:
    """Which of Triton's needs an error text is about."""
    if "Python.h" in text:
        return "headers"
    if "Triton only support CUDA" in text:
        return "old"
    if "lcuda" in text or "libcuda" in text:
        return "libcuda"
    if "ptxas" in text:
        return "ptxas"
    if "ompiler" in text or "gcc" in text:
        return "compiler"
    return None


def covers(target: str, capability: str) -> bool | None:
    """Whether code built for an entry of TORCH_CUDA_ARCH_LIST runs on a GPU.

    "8.0" serves 8.x from 8.0 on, "9.0a" 9.0 alone, "10.0f" the family 10.x from 10.0 on, "+PTX" whatever is newer too.
    https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#compute-capability-features
    """
    found = re.fullmatch(r"(\d{1,2})\.(\d)([af]?)(\+PTX)?", target.strip())
    wanted = minor(capability)
    if not found or wanted is None:
        return None
    built = (int(found[1]), int(found[2]))
    if found[3] == "a":
        return built == wanted
    same = built[0] == wanted[0] and built[1] <= wanted[1]
    return same or (found[4] is not None and built <= wanted)


# Names that torch accepts for groups of capabilities (torch/utils/cpp_extension.py, named_arches).
_NAMED = re.compile(r"[A-Z][A-Za-z]+")


@check(sees_missing=("system", "python", "gpus", "devices", "torch", "symptoms"))
def extension_arch_mismatch(
    system: SystemFacts | Missing,
    python: PythonFacts | Missing,
    gpus: GpusFacts | Missing,
    devices: DevicesFacts | Missing,
    torch: TorchFacts | Missing,
    symptoms: SymptomsFacts | Missing,
    tables: Tables,
) -> Hit | None:
    """TORCH_CUDA_ARCH_LIST leaves out a GPU of this machine; or an extension, not torch, has no code for it."""
    from envcheck.tables.compat import runs_on

    if answer.for_rocm(torch):
        return None
    matches = said(symptoms, "extension-arch-mismatch")
    listed = variables(python).get("TORCH_CUDA_ARCH_LIST", "")
    entries = [one for one in re.split(r"[ ;,]+", listed) if one]
    cards = [gpu for gpu in nvidia(gpus) if gpu.compute_capability]
    if entries and cards and not any(_NAMED.fullmatch(one.removesuffix("+PTX")) for one in entries):
        left = [gpu for gpu in cards if all(covers(one, gpu.compute_capability or "") is False for one in entries)]
        if left:
            names = sorted({f"{gpu.name} ({gpu.compute_capability})" for gpu in left})
            suffix = "a" if all(one.endswith("a") for one in entries) else ""
            more = sorted({f"{gpu.compute_capability}{suffix}" for gpu in left})
            fix = SetEnv("TORCH_CUDA_ARCH_LIST", " ".join([*entries, *more]), "then build the extensions again")
            severity = None if matches else Severity.WARNING
            return Hit({"list": listed, "gpus": names}, quoted(matches), (fix,), severity=severity)
    if matches:
        target = value(matches, "arch")
        if all(match.symptom == "no-gpu-to-build-for" for match in matches):
            return Hit({}, quoted(matches), variant="no_gpu")
        return Hit({"arch": target or "this GPU"}, quoted(matches), variant="nvcc" if target else "said")
    if any(NO_KERNEL in (one.kernel_error or "") for one in answer.torch_devices(devices)):
        return None  # envcheck's own kernel is one of torch's, and has no image either
    # "no kernel image" although torch's own kernels run here: then it is the extension that lacks them.
    blamed = (*said(symptoms, "gpu-too-new-for-torch"), *said(symptoms, "gpu-too-old-for-torch"))
    code = code_of_build(torch, system, symptoms, tables)
    archs = cubins(code.archs or ())
    served = bool(cards and archs) and all(runs_on(archs, gpu.compute_capability or "", code.cuda) is True for gpu in cards)
    proved = cuda_works(devices) and any(one.kernel == "ok" for one in answer.torch_devices(devices))
    if blamed and (served or proved):
        names = sorted({f"{gpu.name} ({gpu.compute_capability})" for gpu in cards}) or ["the GPU"]
        sure = proved or (not isinstance(torch, Missing) and bool(torch.arch_list))
        return Hit({"gpus": names}, quoted(blamed), variant="torch_is_fine", confidence=None if sure else Confidence.LIKELY)
    return None


# Wheels of the PyG project carry both in their name: torch_scatter-2.1.2+pt21cu121.
_PYG = re.compile(r"pt(?P<torch>\d{2,3})(?P<build>cu\d{2,3}|cpu)")
_PYG_NAMES = ("pyg-lib", "torch-scatter", "torch-sparse", "torch-cluster", "torch-spline-conv")


@check(sees_missing=("packages", "torch", "symptoms"))
def extension_abi_mismatch(packages: PackagesFacts | Missing, torch: TorchFacts | Missing, symptoms: SymptomsFacts | Missing) -> Hit | None:
    """A compiled extension that was built for another torch or another CUDA."""
    # What torch's own import says is about torch: no extension has been loaded then.
    matches = tuple(one for one in said(symptoms, "extension-abi-mismatch") if one.source != IMPORT)
    facts = None if isinstance(torch, Missing) else torch
    wrong = []
    series = minor(facts.version) if facts else None
    if facts and series and not isinstance(packages, Missing):
        for name in _PYG_NAMES:
            version = packages.version(name)
            built = _PYG.search(local(version) or "")
            if not built:
                continue
            if built["torch"] != f"{series[0]}{series[1]}":
                wrong.append(f"{name} {version} is for torch {built['torch'][0]}.{built['torch'][1:]}")
            elif built["build"] != "cpu" and facts.cuda and cuda_of_build(f"0+{built['build']}") != facts.cuda:
                wrong.append(f"{name} {version} is for CUDA {cuda_of_build('0+' + built['build'])}")
    values: dict[str, object] = {"version": (facts.version if facts else None) or UNKNOWN, "cuda": facts.cuda if facts else None}
    if wrong:
        evidence = (*(Evidence("installed distributions", one) for one in wrong), *quoted(matches))
        return Hit(values | {"wrong": "; ".join(wrong)}, evidence, severity=None if matches else Severity.WARNING)
    if not matches:
        return None
    symbol = value(matches, "symbol") or ""
    # Mangled names of std::string arguments: "Ss" of the old C++ ABI, "__cxx11" of the new one.
    abi = "old" if symbol.endswith("Ss") or "Ss_" in symbol else "new" if "__cxx11" in symbol else None
    values |= {"library": value(matches, "library") or "An extension", "symbol": symbol or "a symbol of torch"}
    if unbuilt := value(matches, "unbuilt"):
        return Hit(values | {"library": unbuilt}, quoted(matches), variant="unbuilt", confidence=Confidence.LIKELY)
    if module := value(matches, "module"):
        return Hit(values | {"library": module}, quoted(matches), variant="dll", confidence=Confidence.LIKELY)
    if any(match.symptom == "deepspeed-operators-of-another-torch" for match in matches):
        return Hit(values | {"library": "DeepSpeed"}, quoted(matches), variant="declared")
    if other := value(matches, "built"):
        own = value(matches, "torch_cuda") or values["cuda"]
        return Hit(values | {"built": other, "cuda": own}, quoted(matches), variant="other_cuda")
    return Hit(values, quoted(matches), variant=abi or "said")


@check(sees_missing=("toolkit", "driver", "cuda_driver", "devices"))
def cuda_versions_differ(
    torch: TorchFacts,
    toolkit: ToolkitFacts | Missing,
    driver: DriverFacts | Missing,
    cuda_driver: CudaDriverFacts | Missing,
    devices: DevicesFacts | Missing,
) -> Hit | None:
    """Three different numbers called "CUDA version", and nothing wrong with that."""
    if not torch.cuda or not answer.works(devices):
        return None
    nvcc = _nvcc(toolkit)
    offers = (None if isinstance(driver, Missing) else driver.cuda) or getattr(cuda_driver, "driver_version", None)
    toolkit_differs = nvcc is not None and minor(nvcc) != minor(torch.cuda) and major(nvcc) == major(torch.cuda)
    newer_than_driver = offers is not None and (minor(offers) or (99, 0)) < (minor(torch.cuda) or (0, 0))
    if not (toolkit_differs or newer_than_driver):
        return None
    parts = [f"torch is built for CUDA {torch.cuda}"]
    if offers:
        parts.append(f"the driver offers up to {offers}")
    if nvcc:
        parts.append(f"nvcc is {nvcc}")
    beyond = newer_than_driver and major(offers or "") != major(torch.cuda)
    return Hit({"numbers": ", ".join(parts)}, variant="forward" if beyond else "compatible" if newer_than_driver else None)


CHECKS = (
    cuda_home_missing,
    nvcc_major_mismatch,
    nvcc_host_compiler,
    triton_toolchain,
    extension_arch_mismatch,
    extension_abi_mismatch,
    cuda_versions_differ,
)
