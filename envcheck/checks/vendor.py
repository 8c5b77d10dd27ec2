"""AMD ROCm, Apple MPS and Intel XPU."""

from __future__ import annotations

import re

from envcheck.checks.answer import contained, fails, is_wsl, listed, trouble, works
from envcheck.checks.hardware import discrete_intel
from envcheck.checks.text import holding, mentioning, quoted, said, value
from envcheck.engine.intents import SetEnv, TorchBuild
from envcheck.engine.rule import Answer, Confidence, Evidence, Hit, Severity, check
from envcheck.facts.snapshot import (
    BackendsFacts,
    ContainerFacts,
    DevicesFacts,
    GpusFacts,
    Missing,
    MpsFacts,
    PythonFacts,
    RocmFacts,
    SymptomsFacts,
    SystemFacts,
    TorchFacts,
    XpuFacts,
)
from envcheck.tables.archs import platform_of
from envcheck.tables.compat import Tables
from envcheck.tables.versions import minor


def _is_rocm_build(torch: TorchFacts | Missing) -> bool:
    return not isinstance(torch, Missing) and torch.hip is not None


@check(sees_missing=("system", "rocm", "container", "torch", "devices", "symptoms"))
def rocm_permission(
    system: SystemFacts | Missing,
    rocm: RocmFacts | Missing,
    container: ContainerFacts | Missing,
    torch: TorchFacts | Missing,
    devices: DevicesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Answer:
    """/dev/kfd or the render nodes are closed to this user, or were not passed into the container. WSL has none."""
    told = said(symptoms, "rocm-permission")
    vague = bool(told) and len(holding(told, "No HIP GPUs")) == len(told)
    if works(devices) or is_wsl(system):
        return None
    inside = contained(container)
    gone = bool(holding(told, "No such file", "module is NOT loaded"))
    if isinstance(rocm, Missing):
        if not told:
            return trouble(rocm, "rocm")
        variant = "text" if vague else "absent" if gone else "container" if inside else None
        guess = Confidence.LIKELY if vague else None
        return Hit({"node": "/dev/kfd", "groups": "unknown"}, quoted(told), variant=variant, confidence=guess)
    groups = ", ".join(rocm.groups) or "unknown"
    if gone or (rocm.kfd is False and inside and (_is_rocm_build(torch) or bool(told))):
        return Hit({"node": "/dev/kfd", "groups": groups}, quoted(told), variant="absent")
    closed = (
        "/dev/kfd" if rocm.kfd_access is False and rocm.kfd is not False else "/dev/dri/renderD*" if rocm.render_access is False else None
    )
    if vague and not closed:
        return Hit({"node": "/dev/kfd", "groups": groups}, quoted(told), variant="text", confidence=Confidence.LIKELY)
    if told or (closed and (_is_rocm_build(torch) or fails(devices)) and (rocm.gfx or rocm.names)):
        return Hit({"node": closed or "/dev/kfd", "groups": groups}, quoted(told), variant="container" if inside else None)
    return None


_NO_CODE = ("no kernel image is available", "kernel image is invalid", "invalid device function")


def overridden(version: str | None) -> str | None:
    """HSA_OVERRIDE_GFX_VERSION "10.3.0" makes the runtime report gfx1030."""
    found = re.fullmatch(r"\s*(\d{1,2})\.(\d{1,2})\.(\d{1,2})\s*", version or "")
    return f"gfx{int(found[1])}{int(found[2]):x}{int(found[3]):x}" if found else None


def sibling(gfx: str) -> str | None:
    """The override under which a card runs the code of its supported relative: RDNA 2 as gfx1030, RDNA 3 as gfx1100."""
    if re.fullmatch(r"gfx103[1-6]", gfx):
        return "10.3.0"
    return "11.0.0" if re.fullmatch(r"gfx110[1-3]", gfx) else None


@check(sees_missing=("system", "rocm", "torch", "devices", "symptoms"))
def rocm_gfx_unsupported(
    system: SystemFacts | Missing,
    rocm: RocmFacts | Missing,
    torch: TorchFacts | Missing,
    devices: DevicesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
    tables: Tables,
) -> Answer:
    """The ROCm build has no code for this gfx target."""
    told = said(symptoms, "rocm-gfx-unsupported")
    if any(one.kernel == "ok" for one in (() if isinstance(devices, Missing) else devices.devices)):
        return None
    gfx = () if isinstance(rocm, Missing) else rocm.gfx
    override = None if isinstance(rocm, Missing) else rocm.gfx_override
    effective = (overridden(override),) if overridden(override) else gfx
    archs, source = _rocm_archs(torch, system, tables)
    missing = [one for one in effective if one and archs and one not in archs]
    values: dict[str, object] = {"gfx": ", ".join(missing) or ", ".join(gfx) or "this GPU", "archs": " ".join(archs), "source": source}
    built = _is_rocm_build(torch)
    if built:  # torch's own texts say CUDA in a build for ROCm too
        told += tuple(match for match in mentioning(symptoms, *_NO_CODE) if match not in told)
    if missing and len(missing) == len(effective) and (built or told or isinstance(torch, Missing)):
        relative = sibling(missing[0])
        usable = relative and overridden(relative) in archs and override is None
        note = "runs the code of a near relative; AMD does not support it, and it must be set before Python starts"
        fixes = (SetEnv("HSA_OVERRIDE_GFX_VERSION", relative, note),) if usable and relative else ()
        sure = built and source == "torch.cuda.get_arch_list()"
        return Hit(values, quoted(told), fixes, variant=None if usable else "none", confidence=None if sure or told else Confidence.LIKELY)
    if told and not works(devices):
        return Hit(values, quoted(told), variant="text")
    return trouble(rocm, "rocm")


def _rocm_archs(torch: TorchFacts | Missing, system: SystemFacts | Missing, tables: Tables) -> tuple[tuple[str, ...], str]:
    """gfx targets of this build: its own list, the table's, or those of any build where nothing is known of torch."""
    if not isinstance(torch, Missing):
        own = tuple(arch.partition(":")[0] for arch in torch.arch_list or () if arch.startswith("gfx"))
        if own:
            return own, "torch.cuda.get_arch_list()"
        if torch.version and torch.hip:
            os, machine = ("linux", "x86_64") if isinstance(system, Missing) else (system.os or "linux", system.machine or "x86_64")
            row = tables.build(torch.version, platform_of(os, machine))
            if row and row.archs:
                return row.archs, f"the published build {row.version}+{row.variant}"
        return (), ""
    every = {arch for build in tables.builds() if build.variant.startswith("rocm") for arch in build.archs or ()}
    return tuple(sorted(every)), "any published ROCm build"


@check(sees_missing=("system", "rocm", "xpu", "gpus", "torch", "devices", "symptoms"))
def rocm_build_mismatch(
    system: SystemFacts | Missing,
    rocm: RocmFacts | Missing,
    xpu: XpuFacts | Missing,
    gpus: GpusFacts | Missing,
    torch: TorchFacts | Missing,
    devices: DevicesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
    tables: Tables,
) -> Answer:
    """A build for the GPU of another vendor than the machine's only one, or ROCm libraries of another version."""
    told = said(symptoms, "rocm-build-mismatch")
    if isinstance(torch, Missing) and not told:
        return trouble(torch, "torch")
    if works(devices):
        return None
    nvidia = bool(listed(gpus))
    if library := value(told, "library"):
        return Hit({"library": library}, quoted(told), (TorchBuild(),), variant="library")
    if isinstance(torch, Missing):
        return trouble(torch, "torch")
    marked = (
        ()
        if isinstance(rocm, Missing)
        else tuple(name for name in rocm.names if " rx " in f" {name.lower()} " or "instinct" in name.lower())
    )
    if torch.cpu_build and marked and not nvidia and not isinstance(rocm, Missing):
        values = {"gpu": ", ".join(marked), "torch": torch.version, "gfx": ", ".join(rocm.gfx) or "unknown"}
        return Hit(values, quoted(told), (TorchBuild(),), variant="cpu", severity=Severity.WARNING)
    if torch.hip is not None and nvidia and isinstance(rocm, Missing):
        name = listed(gpus)[0].name or "an NVIDIA GPU"
        return Hit({"gpu": name, "torch": torch.version, "hip": torch.hip}, quoted(told), (TorchBuild(),), variant="nvidia")
    arcs = discrete_intel(xpu)
    if arcs and isinstance(rocm, Missing) and not nvidia and (torch.cuda or torch.hip) and fails(devices):
        built = f"CUDA {torch.cuda}" if torch.cuda else f"ROCm {torch.hip}"
        values = {"gpu": ", ".join(arcs), "torch": torch.version or "(version not known)", "built": built}
        return Hit(values, quoted(told), (TorchBuild(),), variant="intel", severity=Severity.WARNING, confidence=Confidence.LIKELY)
    if torch.hip is not None or torch.cuda is None or nvidia or isinstance(rocm, Missing):
        return None
    every = {arch for build in tables.builds() if build.variant.startswith("rocm") for arch in build.archs or ()}
    supported = [gfx for gfx in rocm.gfx if gfx in every]
    marks = ("instinct", " rx ", "radeon pro w", "radeon vii")
    named = [name for name in rocm.names if any(mark in f" {name.lower()} " for mark in marks)]
    if not supported and (rocm.gfx or not named):
        return None
    gpu = ", ".join(named or rocm.names) or supported[0]
    guess = None if supported else Confidence.LIKELY
    values = {"gpu": gpu, "torch": torch.version, "cuda": torch.cuda, "gfx": ", ".join(supported) or "unknown"}
    return Hit(values, quoted(told), (TorchBuild(),), variant="wsl" if is_wsl(system) else None, confidence=guess)


@check(sees_missing=("mps", "system", "python", "torch", "backends", "devices", "symptoms"))
def mps_unavailable(
    mps: MpsFacts | Missing,
    system: SystemFacts | Missing,
    python: PythonFacts | Missing,
    torch: TorchFacts | Missing,
    backends: BackendsFacts | Missing,
    devices: DevicesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
    tables: Tables,
) -> Answer:
    """Metal cannot be used: a translated interpreter, a macOS too old for this torch, or a sandbox. Intel Macs are left alone."""
    told = said(symptoms, "mps-unavailable")
    available = None if isinstance(backends, Missing) else backends.mps
    if available:
        return None
    if isinstance(mps, Missing):
        if not told:
            return trouble(mps, "mps")
        stated = None if isinstance(system, Missing) else system.macos_version
        own = None if isinstance(torch, Missing) else torch.version
        least, have = mps_floor(own, tables), minor(stated) or minor(f"{stated}.0")
        known: dict[str, object] = {"macos": stated or "unknown", "torch": own, "minimum": least}
        if least and have and have < (minor(least) or (0, 0)):
            return Hit(known, quoted(told), variant="old")
        return Hit(known, quoted(told), variant="enough" if least and have else "text", confidence=Confidence.LIKELY)
    translated = mps.rosetta is True
    if not isinstance(python, Missing) and mps.apple_silicon and "x86_64" in (python.platform or ""):
        translated = True
    values: dict[str, object] = {"macos": mps.macos or "unknown", "chip": mps.chip or "Apple silicon"}
    if translated:
        return Hit(values, quoted(told), variant="rosetta")
    if mps.apple_silicon is False:
        return None
    version = None if isinstance(torch, Missing) else torch.version
    floor = mps_floor(version, tables)
    mine = minor(mps.macos) or minor(f"{mps.macos}.0")
    if floor and mine and mine < (minor(floor) or (0, 0)):
        return Hit(values | {"torch": version, "minimum": floor}, quoted(told), variant="old")
    built = not isinstance(backends, Missing) and backends.mps_built is True
    if (available is False and built) or told:
        return Hit(values | {"torch": version, "minimum": floor}, quoted(told), confidence=Confidence.LIKELY)
    return None


def mps_floor(version: str | None, tables: Tables) -> str | None:
    """Lowest macOS for the MPS backend of this torch."""
    wanted = minor(version)
    found = [str(row["macos"]) for row in tables.rows("mps", "floor") if wanted and (minor(row["torch"]) or (0, 0)) <= wanted]
    return found[-1] if found else None


@check(sees_missing=("xpu", "system", "torch", "backends", "devices", "symptoms"))
def xpu_driver(
    xpu: XpuFacts | Missing,
    system: SystemFacts | Missing,
    torch: TorchFacts | Missing,
    backends: BackendsFacts | Missing,
    devices: DevicesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Answer:
    """An XPU build that finds no Intel GPU: kernel driver, Level Zero, compute runtime, or access to the render nodes."""
    told = said(symptoms, "xpu-driver")
    told = tuple(match for match in told if match not in holding(told, "not compiled with XPU"))
    if isinstance(torch, Missing):
        if told:
            return Hit({"torch": "(version not known)", "gpu": "an Intel GPU"}, quoted(told), variant="text", confidence=Confidence.LIKELY)
        return trouble(torch, "torch")
    is_xpu = torch.xpu is not None or "+xpu" in (torch.version or "")
    if (not isinstance(backends, Missing) and backends.xpu) or (works(devices) and not told):
        return None
    if not is_xpu:
        return None
    if isinstance(xpu, Missing):
        return Hit({"torch": torch.version, "gpu": "an Intel GPU"}, quoted(told), variant="text") if told else trouble(xpu, "xpu")
    values: dict[str, object] = {"torch": torch.version, "gpu": ", ".join(xpu.names) or "the Intel GPU", "driver": xpu.driver or "none"}
    if told:
        return Hit(values, quoted(told), variant="text")
    if not fails(devices) and not (not isinstance(backends, Missing) and backends.xpu is False):
        return None
    if xpu.render_access is False:
        return Hit(values, (Evidence("/dev/dri", "no access to the render nodes"),), variant="access")
    if xpu.driver is None and not is_wsl(system):
        return Hit(values, variant="kernel")
    missing = [name for name, found in (("Level Zero loader", xpu.level_zero), ("compute runtime", xpu.compute_runtime)) if found is None]
    if missing:
        return Hit(values | {"missing": " and ".join(missing)})
    return Hit(values, variant="unknown", confidence=Confidence.LIKELY)


CHECKS = (rocm_permission, rocm_gfx_unsupported, rocm_build_mismatch, mps_unavailable, xpu_driver)
