"""Packages of the target that do not go with its torch: twice there, overwritten, or made for another one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envcheck.checks import answer
from envcheck.checks.hardware import import_failed, imported, installed, nvidia
from envcheck.checks.libraries import Provider, pinned
from envcheck.checks.text import quoted, said, value
from envcheck.engine.intents import Install, Intent
from envcheck.engine.rule import Confidence, Evidence, Hit, Severity, Unknown, check
from envcheck.facts.snapshot import (
    DevicesFacts,
    Distribution,
    DriverFacts,
    GpusFacts,
    Missing,
    PackagesFacts,
    SymptomsFacts,
    SystemFacts,
    TorchFacts,
)
from envcheck.tables.versions import UNKNOWN, cuda_of_build, local, major, meets, minor, older, release

if TYPE_CHECKING:
    from envcheck.tables.compat import Tables

FAMILY = ("torch", "torchvision", "torchaudio", "triton")


@check(sees_missing=("packages", "torch", "devices", "symptoms"))
def torch_duplicated(
    packages: PackagesFacts | Missing, torch: TorchFacts | Missing, devices: DevicesFacts | Missing, symptoms: SymptomsFacts | Missing
) -> Hit | Unknown | None:
    """More than one torch in the environment, or what an interrupted installation left behind."""
    every = said(symptoms, "torch-duplicated")
    told = tuple(match for match in every if "invalid distribution" in match.text)
    mixture = tuple(match for match in every if "torch._C" in match.text)
    if mixture and not imported(torch, devices):
        return Hit({"name": value(mixture, "name")}, quoted(mixture), variant="files", confidence=Confidence.LIKELY)
    if told:
        paths = f"~{value(told, 'name') or 'orch'}"
        return Hit({"paths": paths}, quoted(told), variant="leftover", severity=Severity.WARNING, confidence=Confidence.LIKELY)
    if isinstance(packages, Missing):
        return answer.trouble(packages, "packages")
    works = imported(torch, devices) and not import_failed(torch)
    severity = Severity.WARNING if works else None
    twice = tuple(name for name in packages.duplicates if name in FAMILY)
    if twice:
        rows = [row for row in packages.distributions if row.name in twice]
        evidence = tuple(Evidence("installed distributions", f"{row.name} {row.version} in {row.location}") for row in rows[:6])
        confidence = None if works or import_failed(torch) else Confidence.LIKELY
        return Hit({"names": twice, "count": len(rows)}, evidence, severity=severity, confidence=confidence)
    mixed = _conda_and_pip(packages)
    if mixed:
        evidence = tuple(Evidence("installed distributions", f"{row.name} {row.version} ({row.installer})") for row in mixed)
        values = {"conda": mixed[0].version, "pip": mixed[1].version}
        return Hit(values, evidence, variant="conda", severity=severity, confidence=Confidence.LIKELY)
    rest = tuple(one for one in packages.leftovers if re.search(r"(?:^|/|\\)(?:~?t?orch\b|~?riton\b|torch-)", one))
    if rest:
        return Hit({"paths": rest}, variant="leftover", severity=Severity.INFO if works else Severity.WARNING, confidence=Confidence.LIKELY)
    return None


def _conda_and_pip(packages: PackagesFacts) -> tuple[Distribution, Distribution] | None:
    """conda's record of a torch and pip's in one environment, of different versions: pip wrote over conda's files."""
    conda = [row for row in packages.distributions if row.name in ("pytorch", "torch") and row.installer == "conda" and row.location]
    pip = [row for row in packages.distributions if row.name == "torch" and row.installer in ("pip", "uv") and row.location]
    for one in conda:
        for other in pip:
            # conda's record lies at <prefix>/conda-meta, pip's below <prefix>/lib: another prefix is another environment.
            prefix = re.sub(r"[/\\](?:conda-meta|lib|Lib).*", "", one.location or "")
            same = bool(prefix) and (other.location or "").startswith(prefix + "/")
            if same and release(one.version) != release(other.version):
                return one, other
    return None


@check(sees_missing=("torch", "devices", "system"))
def nvidia_packages_overwritten(
    packages: PackagesFacts, torch: TorchFacts | Missing, devices: DevicesFacts | Missing, system: SystemFacts | Missing, tables: Tables
) -> Hit | None:
    """Two distributions wrote the same NVIDIA library; the last one won, and removing either breaks the other."""
    shared = {*tables.shared_files()} - {"nvidia-nccl"}  # which has a rule of its own
    pairs: dict[str, list[str]] = {}
    for row in packages.distributions:
        found = re.fullmatch(r"(nvidia-[a-z]+)-cu\d\d", row.name)
        if found and found[1] in shared and row.name not in pairs.setdefault(found[1], []):
            pairs[found[1]].append(row.name)
    twins = [names for names in pairs.values() if len(names) > 1]
    files = tuple(one for one in packages.overwritten if "nccl" not in one)
    if not twins and not files:
        return None
    facts = None if isinstance(torch, Missing) else torch
    cuda = major((facts.cuda or cuda_of_build(facts.version)) if facts else None)
    pins = tables.pins(facts.version) if facts and facts.version else {}
    remove = [name for names in twins for name in names]
    right = [next((name for name in names if cuda and name.endswith(f"-cu{cuda}")), None) for names in twins]
    fixes: tuple[Intent, ...] = ()
    if remove and all(right):
        wanted = tuple(pinned(Provider(name), pins) for name in right if name)
        fixes = (Install(wanted, tuple(remove), reinstall=True, note="remove both, then write the right one again"),)
    evidence = tuple(Evidence("RECORD of the distributions", one) for one in files[:4])
    works = imported(torch, devices) and not import_failed(torch)
    values = {"packages": remove or files[:3], "cuda": facts.cuda if facts else None}
    return Hit(values, evidence, fixes, severity=Severity.WARNING if works or not import_failed(torch) else None)


# CUDA of torch → first bitsandbytes whose wheel has a library for it (file lists of the wheels on PyPI).
_BITSANDBYTES = (("13.2", "0.50.0"), ("13.0", "0.48.0"), ("12.9", "0.46.1"), ("12.8", "0.45.3"))


@check(sees_missing=("packages", "symptoms", "system", "torch"))
def bitsandbytes_broken(
    torch: TorchFacts | Missing, packages: PackagesFacts | Missing, system: SystemFacts | Missing, symptoms: SymptomsFacts | Missing
) -> Hit | Unknown | None:
    """bitsandbytes has no library for torch's CUDA, or could not load it."""
    matches = said(symptoms, "bitsandbytes-broken")
    there = installed(packages, "bitsandbytes") or value(matches, "version")
    facts = None if isinstance(torch, Missing) else torch
    windows = not isinstance(system, Missing) and system.os == "windows"
    values: dict[str, object] = {"installed": there or UNKNOWN, "cuda": facts.cuda if facts else None}
    newest: tuple[Intent, ...] = (Install(("bitsandbytes",), note="the newest release"),)
    forced = value(matches, "override")
    if forced:
        return Hit(values | {"override": forced}, quoted(matches), newest, variant="override")
    if windows and there and older(there, "0.43.0"):
        return Hit(values | {"first": "0.43.0"}, quoted(matches), (Install(("bitsandbytes>=0.43.0",)),), variant="windows")
    if error := value(matches, "error"):
        return Hit(values | {"error": error}, quoted(matches), newest, variant="kernel")
    first = next((need for cuda, need in _BITSANDBYTES if facts and facts.cuda == cuda), None)
    if there and first and older(there, first):
        values |= {"first": first}
        return Hit(values, quoted(matches), (Install((f"bitsandbytes>={first}",)),), severity=None if matches else Severity.WARNING)
    return Hit(values, quoted(matches), newest, variant="said") if matches else answer.trouble(packages, "packages")


@check(sees_missing=("packages", "symptoms", "torch"))
def pynvml_deprecated(torch: TorchFacts | Missing, packages: PackagesFacts | Missing, symptoms: SymptomsFacts | Missing) -> Hit | None:
    """The PyPI project `pynvml` beside nvidia-ml-py: harmless, but it makes `import torch` warn."""
    matches = said(symptoms, "pynvml-deprecated")
    there = installed(packages, "pynvml")
    warned = [one for one in (() if isinstance(torch, Missing) else torch.import_warnings) if "pynvml" in one]
    if not (matches or warned or there):
        return None
    if there and not (older(there, "12.0.0") or (minor(there) or (0, 0)) >= (13, 0)) and not matches and not warned:
        return None  # 12.0.0 is an empty package that requires nvidia-ml-py
    evidence = (*quoted(matches), *(Evidence("import torch", one) for one in warned[:1]))
    return Hit({"installed": there or UNKNOWN}, evidence, (Install(("nvidia-ml-py",), ("pynvml",), reinstall=True),))


# "2.7.4.post1+cu12torch2.5cxx11abiFALSE"
_FLASH = re.compile(r"cu(?P<cuda>\d{2})\d*torch(?P<torch>\d+\.\d+)cxx11abi(?P<abi>TRUE|FALSE)", re.IGNORECASE)


@check(sees_missing=("packages", "symptoms", "gpus", "torch"))
def flash_attn_mismatch(
    torch: TorchFacts | Missing, packages: PackagesFacts | Missing, gpus: GpusFacts | Missing, symptoms: SymptomsFacts | Missing
) -> Hit | Unknown | None:
    """flash-attn built for another torch, CUDA major or C++ ABI, or a GPU that it does not serve."""
    matches = said(symptoms, "flash-attn-mismatch")
    there = installed(packages, "flash-attn")
    facts = None if isinstance(torch, Missing) else torch
    again: tuple[Intent, ...] = ()
    if there and release(there):
        # pip would take the wheel that it built for the other torch from its cache
        flags = ("--no-build-isolation", "--no-cache-dir")
        again = (Install((f"flash-attn=={release(there)}",), ("flash-attn",), True, "built for the torch that is installed", flags),)
    built = _FLASH.search(local(there) or "")
    values: dict[str, object] = {"installed": there or UNKNOWN, "version": (facts.version if facts else None) or UNKNOWN}
    if built and facts:
        wrong = []
        if facts.version and minor(facts.version) != minor(built["torch"]):
            wrong.append(f"torch {built['torch']}")
        if facts.cuda and str(major(facts.cuda)) != built["cuda"]:
            wrong.append(f"CUDA {built['cuda']}")
        if facts.cxx11_abi is not None and facts.cxx11_abi != (built["abi"].upper() == "TRUE"):
            wrong.append(f"C++ ABI {built['abi'].upper()}")
        if wrong:
            severity = None if matches else Severity.WARNING
            return Hit(values | {"wrong": wrong, "cuda": facts.cuda}, quoted(matches), again, severity=severity)
    cards = [gpu for gpu in nvidia(gpus) if gpu.compute_capability]
    low = [gpu for gpu in cards if (minor(gpu.compute_capability) or (8, 0)) < (8, 0)]
    ampere = any("Ampere" in match.text for match in matches)
    if ampere or (there and (major(there) or 0) >= 2 and cards and len(low) == len(cards)):
        values |= {"gpu": [f"{gpu.name} ({gpu.compute_capability})" for gpu in low] or "this GPU"}
        return Hit(values, quoted(matches), variant="gpu", severity=None if ampere else Severity.WARNING)
    return Hit(values, quoted(matches), again, variant="said") if matches else answer.trouble(packages, "packages")


def _asks(name: str, packages: PackagesFacts, tables: Tables) -> str | None:
    """What torch an installed distribution asks for: by its own metadata, else by the table."""
    unmet = next((row for row in packages.unmet if row.distribution == name and re.match(r"torch(?![\w-])", row.requirement)), None)
    if unmet:
        return unmet.requirement[len("torch") :].strip()
    version = packages.version(name)
    if not version:
        return None
    row = tables.pin_of(name, version)
    return row.torch if row else None


@check(sees_missing=("packages", "symptoms", "torch"))
def xformers_mismatch(
    torch: TorchFacts | Missing, packages: PackagesFacts | Missing, symptoms: SymptomsFacts | Missing, tables: Tables
) -> Hit | Unknown | None:
    """xformers built for another torch: its operators are off, or it moves torch when it is installed."""
    matches = said(symptoms, "xformers-mismatch")
    facts = None if isinstance(torch, Missing) else torch
    there = installed(packages, "xformers")
    if there and facts and facts.version and not isinstance(packages, Missing):
        asks = _asks("xformers", packages, tables)
        if asks and meets(facts.version, asks) is False:
            rows = [row for row in tables.third_party("xformers") if row.torch and meets(facts.version, row.torch)]
            fits = [version for row in rows for version in row.versions]
            fixes = (Install((f"xformers=={fits[-1]}",), note="from the index of torch's CUDA, if that is not PyPI's"),) if fits else ()
            values = {"installed": there, "asks": asks, "version": facts.version, "fits": fits[-1] if fits else "none"}
            return Hit(values, quoted(matches), fixes, variant=None if fits else "none")
        built = next((row.built_for for row in packages.distributions if row.name == "xformers"), None)
        cuda = cuda_of_build(built)
        # Its library links CUDA's runtime by major version (libcudart.so.12), and libtorch_cuda.so.
        if cuda and (facts.cuda or facts.cpu_build) and major(cuda) != major(facts.cuda):
            values = {
                "installed": there,
                "built": built or "",
                "version": facts.version,
                "cuda": f"CUDA {facts.cuda}" if facts.cuda else "the CPU",
            }
            return Hit(values, quoted(matches), variant="cuda")
    if not matches:
        return answer.trouble(packages, "packages")
    have = (facts.version if facts else None) or value(matches, "have") or UNKNOWN
    values = {"built": value(matches, "built") or "another torch", "version": have}
    return Hit(values, quoted(matches), variant="said")


@check(sees_missing=("packages", "symptoms", "gpus", "torch", "driver", "system"))
def vllm_pin(
    torch: TorchFacts | Missing,
    packages: PackagesFacts | Missing,
    gpus: GpusFacts | Missing,
    driver: DriverFacts | Missing,
    system: SystemFacts | Missing,
    symptoms: SymptomsFacts | Missing,
    tables: Tables,
) -> Hit | Unknown | None:
    """vllm asks for exactly one torch, for the CUDA of its own wheel, and for GPUs from 7.0 on."""
    matches = said(symptoms, "vllm-pin")
    there = installed(packages, "vllm")
    facts = None if isinstance(torch, Missing) else torch
    values: dict[str, object] = {"installed": there or UNKNOWN, "version": (facts.version if facts else None) or UNKNOWN}
    severity = None if matches else Severity.WARNING
    if there and facts and facts.version and not isinstance(packages, Missing) and not facts.hip and not facts.xpu:
        asks = _asks("vllm", packages, tables)
        if asks and meets(facts.version, asks) is False and "a0" not in facts.version:
            fixes = (Install((f"vllm=={release(there)}",), note="in an environment of its own: it brings its torch"),)
            return Hit(values | {"asks": asks}, quoted(matches), fixes, severity=severity)
        if tables.linked_cuda_major("vllm", there) == 13 and not cuda_of_build(there) and major(facts.cuda) == 12:
            return Hit(values | {"cuda": facts.cuda}, quoted(matches), (), "cuda", severity, None if matches else Confidence.LIKELY)
    cards = [gpu for gpu in nvidia(gpus) if gpu.compute_capability]
    low = [gpu for gpu in cards if (minor(gpu.compute_capability) or (7, 0)) < (7, 0)]
    if there and cards and len(low) == len(cards):
        values |= {"gpu": [f"{gpu.name} ({gpu.compute_capability})" for gpu in low]}
        return Hit(values, quoted(matches), variant="gpu", severity=severity)
    return Hit(values, quoted(matches), variant="said") if matches else answer.trouble(packages, "packages")


CHECKS = (
    torch_duplicated,
    nvidia_packages_overwritten,
    bitsandbytes_broken,
    pynvml_deprecated,
    flash_attn_mismatch,
    xformers_mismatch,
    vllm_pin,
)
