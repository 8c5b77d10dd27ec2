"""AMD ROCm, Apple MPS and Intel XPU."""

from __future__ import annotations

import re
from collections.abc import Sequence

from envcheck.checks.answer import contained, fails, works
from envcheck.checks.hardware import asked_of_amd, discrete_amd, discrete_intel
from envcheck.checks.text import agreed, cite, first_of, foremost, in_a_hosted_notebook, of_symptom, of_variant, quoted, value
from envcheck.engine.intents import Intent, SetEnv, TorchBuild
from envcheck.engine.rule import Answer, Confidence, Facts, Hit, Matches, check
from envcheck.facts.snapshot import MpsFacts, RocmFacts, TorchFacts, XpuFacts
from envcheck.tables.archs import overridden, platform_of, sibling
from envcheck.tables.compat import Tables
from envcheck.tables.versions import minor, pair

_KFD = "/dev/kfd"


@check(needs="rocm", reads="system rocm container torch devices symptoms")
def rocm_permission(facts: Facts, matches: Matches) -> Answer:
    """/dev/kfd or the render nodes are closed to this user, or were not passed into the container. WSL has none."""
    rocm, hip, inside = facts.rocm, facts.torch.hip, contained(facts.container)
    if works(facts.devices) or facts.system.wsl:
        return None
    absent = of_variant(matches, "absent") or (rocm.kfd is False and inside and (hip or matches))
    closed = _KFD if rocm.kfd_access is False and rocm.kfd is not False else "/dev/dri/renderD*" if rocm.render_access is False else None
    hit = matches or (closed and (hip or fails(facts.devices)) and (rocm.gfx or rocm.names))
    cases = {"absent": absent, "text": not closed and agreed(matches) == "text", "container": hit and inside, "default": hit}
    node = _KFD if absent or not closed else closed
    return first_of(cases, {"node": node, "groups": ", ".join(rocm.groups) or "unknown"}, quoted(matches))


@check(needs="rocm", reads="system rocm torch devices symptoms")
def rocm_gfx_unsupported(facts: Facts, matches: Matches) -> Answer:
    rocm, torch = facts.rocm, facts.torch
    if any(one.kernel == "ok" for one in facts.devices.devices) or (of_symptom(facts, "torch-no-driver") and not torch.hip):
        return None
    if switched := of_variant(matches, "aiter"):
        return Hit({"gfx": ", ".join(rocm.gfx) or value(switched, "gfx") or "this GPU"}, quoted(switched), variant="aiter")
    override = overridden(rocm.gfx_override)
    targets = (override,) if override else rocm.gfx
    archs, source = _rocm_archs(facts)
    missing = [one for one in targets if archs and one not in archs]
    gfx = ", ".join(dict.fromkeys(missing or rocm.gfx)) or "this GPU"
    values: dict[str, object] = {"gfx": gfx, "archs": " ".join(archs), "source": source}
    if torch.hip:  # torch's own texts say CUDA in a build for ROCm too
        alike = ("no-kernel-image", "invalid-device-function")
        matches += tuple(match for match in facts.said("gpu-too-new-for-torch") if match.symptom in alike)
    no_target_served = missing and len(missing) == len(targets)
    # Which torch it is, nobody says: on Windows hardly one for ROCm, and the override is of no use there.
    any_build = torch == TorchFacts() and facts.system.os != "windows" and (discrete_amd(rocm) or not rocm.names)
    if no_target_served and (torch.hip or matches or any_build):
        fixes = _as_sibling(missing[0], archs, facts)
        confidence = None if matches or (torch.hip and torch.arch_list) else Confidence.LIKELY
        return Hit(values, quoted(matches), fixes, variant=None if fixes else _unserved(missing), confidence=confidence)
    return _gfx_said(facts, matches, targets, values) if matches else None


def _gfx_said(facts: Facts, matches: Matches, targets: tuple[str, ...], values: dict[str, object]) -> Hit:
    """HIP found no code, and no list of this build's targets says why."""
    everywhere = _every_target(facts.tables)
    if targets and not values["archs"]:  # which build it is, the tables do not know
        newer = (TorchBuild(),) if targets[0] in everywhere and facts.torch.version else ()
        fixes = (*newer, *_as_sibling(targets[0], (), facts))
        values |= {"archs": " ".join(sorted(everywhere)), "source": "any published ROCm build"}
        return Hit(values, quoted(matches), fixes, "text" if fixes or targets[0] in everywhere else _unserved(targets))
    # the newest builds have code for it: an older build, which the relative's code or a newer build mends
    unknown = targets and facts.torch == TorchFacts()
    here: tuple[Intent, ...] = (TorchBuild(), *_as_sibling(targets[0], (), facts)) if unknown else ()
    return Hit(values, quoted(matches), here, "text" if targets else "unnamed")


def _unserved(targets: Sequence[str]) -> str:
    """The message for cards that no build serves: of GCN cards before Vega nothing is to be hoped for."""
    return "gcn" if all(re.match(r"gfx[678]\d\d$", one) for one in targets) else "none"


def _as_sibling(gfx: str, archs: tuple[str, ...], facts: Facts) -> tuple[SetEnv, ...]:
    """The override under which the card runs the code of its relative, if the build has that (`archs`, where they are known). HIP on
    Windows does not read it."""
    relative = sibling(gfx, archs)
    if relative is None or facts.rocm.gfx_override is not None or facts.system.os == "windows":
        return ()
    note = "runs code for a similar GPU; AMD does not support this; set it before Python starts"
    return (SetEnv("HSA_OVERRIDE_GFX_VERSION", relative, note),)


def _rocm_archs(facts: Facts) -> tuple[tuple[str, ...], str]:
    """gfx targets of this build: its own list, the table's, or those of any build where nothing is known of torch."""
    torch, system = facts.torch, facts.system
    if torch == TorchFacts():
        return tuple(sorted(_every_target(facts.tables))), "any published ROCm build"
    if own := tuple(arch.partition(":")[0] for arch in torch.arch_list or () if arch.startswith("gfx")):
        return own, "torch.cuda.get_arch_list()"
    name = torch.version if torch.hip else None
    row = facts.tables.build(name, platform_of(system.os or "linux", system.machine or "x86_64")) if name else None
    return (row.archs, f"the published build {row.version}+{row.variant}") if row and row.archs else ((), "")


def _every_target(tables: Tables) -> set[str]:
    """The gfx targets of all published builds for ROCm."""
    return {arch for build in tables.builds() if build.variant.startswith("rocm") for arch in build.archs or ()}


@check(needs="torch", reads="system rocm xpu gpus torch devices symptoms")
def rocm_build_mismatch(facts: Facts, matches: Matches) -> Answer:
    torch, gpus, cards = facts.torch, facts.gpus.devices, discrete_amd(facts.rocm)
    if works(facts.devices):
        return None
    if library := value(matches, "library"):
        return Hit({"library": library}, quoted(matches), variant="library")
    if in_a_hosted_notebook(facts):
        return None
    # CUDA's torch, or a program of unknown torch, looked for NVIDIA's driver on a machine of which only a Radeon is known
    own = of_symptom(facts, "torch-no-driver")
    if (asked := own or of_symptom(facts, "driver-said-missing")) and cards and not gpus and not torch.hip:
        return Hit({"gpu": cards}, quoted(asked), variant="driver", confidence=None if own else Confidence.LIKELY)
    if told := _told_of_amd(facts, matches, cards):
        return told
    if facts.rocm != RocmFacts():
        return _on_amd(facts, matches, cards) if not gpus else None
    if "rocm" not in facts.missing and not (torch.hip or gpus) and (torch.cpu_build or fails(facts.devices)):  # AMD's, and that is all
        return Hit({"torch": torch.version or "(version not known)"}, quoted(matches), variant="vendor")
    if torch.hip is not None and gpus:
        return Hit({"gpu": gpus[0].name or "an NVIDIA GPU", "torch": torch.version, "hip": torch.hip}, quoted(matches), variant="nvidia")
    intel, built = discrete_intel(facts.xpu), f"CUDA {torch.cuda}" if torch.cuda else f"ROCm {torch.hip}" if torch.hip else None
    values = {"gpu": ", ".join(intel), "torch": torch.version or "(version not known)", "built": built}
    return Hit(values, quoted(matches), variant="intel") if intel and built and fails(facts.devices) and not gpus else None


def _told_of_amd(facts: Facts, matches: Matches, cards: tuple[str, ...]) -> Hit | None:
    if facts.torch.hip:
        return None
    if asked := of_variant(matches, "directml"):
        return Hit({}, quoted(asked), variant="directml", confidence=Confidence.LIKELY)
    told = asked_of_amd(facts) or of_variant(matches, "told")
    return Hit({"gpu": cards or "the AMD GPU"}, quoted(told), variant=told[0].variant) if told and not facts.gpus.devices else None


def _on_amd(facts: Facts, matches: Matches, cards: tuple[str, ...]) -> Hit | None:
    rocm, torch = facts.rocm, facts.torch
    values: dict[str, object] = {"torch": torch.version, "cuda": torch.cuda, "gfx": ", ".join(rocm.gfx) or "unknown"}
    if torch.cpu_build and cards:
        return Hit(values | {"gpu": ", ".join(cards)}, quoted(matches), variant="cpu")
    every = _every_target(facts.tables)
    supported = [gfx for gfx in rocm.gfx if gfx in every]
    if torch.hip or not torch.cuda or (not supported and (rocm.gfx or not cards)):
        return None
    values |= {"gfx": ", ".join(supported) or "unknown", "gpu": ", ".join(cards or rocm.names) or supported[0]}
    confidence = None if supported else Confidence.LIKELY
    return Hit(values, quoted(matches), variant="wsl" if facts.system.wsl else None, confidence=confidence)


@check(needs="mps", reads="mps system python torch backends symptoms")
def mps_unavailable(facts: Facts, matches: Matches) -> Answer:
    """Metal cannot be used: a translated interpreter, a macOS too old for this torch, or a sandbox. Intel Macs are left alone."""
    mps, backends = facts.mps, facts.backends
    if lacking := of_variant(matches, "operator"):  # the GPU works
        return Hit({"operator": value(lacking, "operator") or "an operator"}, quoted(lacking), variant="operator")
    if refused := of_variant(matches, "graph"):
        return Hit({}, quoted(refused), variant="graph")
    known = mps != MpsFacts()
    if backends.mps or (not known and not matches):
        return None
    macos, floor = mps.macos if known else facts.system.macos_version, facts.tables.mps_floor(facts.torch.version or "")
    have = minor(macos) or minor(f"{macos}.0")
    values: dict[str, object] = {"macos": macos, "chip": mps.chip or "Apple silicon", "torch": facts.torch.version, "minimum": floor}
    if mps.rosetta or (mps.apple_silicon and "x86_64" in (facts.python.platform or "")):
        return Hit(values, quoted(matches), variant="rosetta")
    if mps.apple_silicon is False:
        return None
    if floor and have and have < pair(floor):
        return Hit(values | {"older": _torch_below(have, facts.tables)}, quoted(matches), variant="old")
    unusable = matches or (backends.mps is False and backends.mps_built is True)
    return first_of({"default": unusable and known, "enough": unusable and floor and have, "text": unusable}, values, quoted(matches))


def _torch_below(macos: tuple[int, ...], tables: Tables) -> str | None:
    """The releases of torch whose MPS backend works on this macOS, as a requirement."""
    rows = [(pair(row["torch"]), pair(row["macos"])) for row in tables.rows("mps", "floor")]
    first = next((torch for torch, floor in rows if floor > macos), None)
    return f"torch<{first[0]}.{first[1]}" if first and first > min(rows)[0] else None


@check(needs="torch xpu", reads="xpu system torch backends devices symptoms")
def xpu_driver(facts: Facts, matches: Matches) -> Answer:
    xpu, torch = facts.xpu, facts.torch
    known = torch != TorchFacts()
    if known and (not (torch.xpu or "+xpu" in (torch.version or "")) or facts.backends.xpu or (works(facts.devices) and not matches)):
        return None
    values: dict[str, object] = {"torch": torch.version or "(version not known)", "gpu": ", ".join(xpu.names) or "an Intel GPU"}
    values["driver"] = xpu.driver or "none"
    if matches:
        variant, sure = foremost(matches, "runtime", "lost", "unseen") or "text", None if known else Confidence.LIKELY
        return Hit(values, quoted(of_variant(matches, variant) or matches), variant=variant, confidence=sure)
    if not known or xpu == XpuFacts() or not (fails(facts.devices) or facts.backends.xpu is False):
        return None
    if xpu.render_access is False:
        return Hit(values, cite("/dev/dri", "no access to the render nodes"), variant="access")
    parts = {"Level Zero loader": xpu.level_zero, "compute runtime": xpu.compute_runtime}
    values["missing"] = " and ".join(name for name, found in parts.items() if found is None)
    cases = {"kernel": xpu.driver is None and not facts.system.wsl, "default": values["missing"], "unknown": True}
    return first_of(cases, values)
