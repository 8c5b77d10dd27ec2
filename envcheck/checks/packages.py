"""Packages of the target that do not go with its torch: twice there, overwritten, or made for another one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envcheck.checks import answer
from envcheck.checks.hardware import import_failed, imported, installed, nvidia
from envcheck.checks.libraries import Provider, pinned
from envcheck.checks.origin import IMPORT
from envcheck.checks.text import quoted, said, value
from envcheck.checks.versions import UNKNOWN, cuda_of_build, local, major, meets, minor, older, release
from envcheck.facts import (
    DevicesFacts,
    Distribution,
    DriverFacts,
    GpusFacts,
    Missing,
    PackagesFacts,
    SymptomsFacts,
    SystemFacts,
    TextEvidence,
    TorchFacts,
    Unmet,
)
from envcheck.intents import Install, Intent
from envcheck.pattern import pattern
from envcheck.rule import Confidence, Evidence, Hit, Severity, Unknown, check

if TYPE_CHECKING:
    from envcheck.tables import Tables

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


# NVIDIA wheels of CUDA 12 and 13 that install to the same files (RECORD of the wheels on PyPI). NCCL has a rule of its own.
_SHARED = ("nvidia-cudnn", "nvidia-nvshmem", "nvidia-cusparselt")


@check(sees_missing=("torch", "devices", "system"))
def nvidia_packages_overwritten(
    packages: PackagesFacts, torch: TorchFacts | Missing, devices: DevicesFacts | Missing, system: SystemFacts | Missing, tables: Tables
) -> Hit | None:
    """Two distributions wrote the same NVIDIA library; the last one won, and removing either breaks the other."""
    pairs: dict[str, list[str]] = {}
    for row in packages.distributions:
        found = re.fullmatch(r"(nvidia-[a-z]+)-cu\d\d", row.name)
        if found and found[1] in _SHARED and row.name not in pairs.setdefault(found[1], []):
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


# Requires torch by an exact pin, or by a compiled extension that fits one torch alone.
_COMPANIONS = ("torchvision", "torchaudio", "torchtext", "torchdata")
# Their builds for CUDA link torch's CUDA library, which a build for the CPU does not have.
_LINKED = ("torchvision", "torchaudio", "torchcodec")


@check(sees_missing=("packages", "symptoms", "devices", "torch"))
def torch_companion_mismatch(
    torch: TorchFacts | Missing,
    packages: PackagesFacts | Missing,
    devices: DevicesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
    tables: Tables,
) -> Hit | Unknown | None:
    """torchvision, torchaudio, torchtext, torchdata or triton of another torch, or of another CUDA."""
    # What torch's own import says is about torch: no companion has been loaded then.
    matches = tuple(one for one in said(symptoms, "torch-companion-mismatch") if one.source != IMPORT)
    facts = None if isinstance(torch, Missing) else torch
    if facts and facts.version and not isinstance(packages, Missing):
        problems = _companions(facts, packages, tables)
        ended = _ended(facts.version, packages, tables)
        if problems or ended:
            wanted = _trio(facts, packages, tables) if problems else ()
            fixes = (Install(wanted, note="from the same index as torch, in one command"),) if wanted else ()
            told = tuple(line for line, _ in problems) + ended
            lines = tuple(Evidence("installed distributions", line) for line in told)
            hard = any(sure for _, sure in problems) or bool(ended or matches)
            values = {"version": facts.version, "problems": "; ".join(told)}
            if facts.cpu_build and all(line.startswith("torchcodec") for line in told):
                values["codec"] = release(packages.version("torchcodec")) or ""
            variant = "ended" if ended else "codec_cpu" if "codec" in values else None
            return Hit(values, (*lines, *quoted(matches)), fixes, variant, confidence=None if hard else Confidence.LIKELY)
        vision = packages.version("torchvision")
        asked_for = any("'CUDA' backend" in one.text for one in matches)
        if facts.cuda and local(vision) == "cpu" and (asked_for or (not isinstance(devices, Missing) and devices.available)):
            fixes = (Install(("torchvision",), note="from the same index as torch"),)
            labels: dict[str, object] = {"version": facts.version, "have": vision, "cuda": facts.cuda}
            milder = None if asked_for else Severity.WARNING
            return Hit(labels, quoted(matches), fixes, "cpu", milder, None if asked_for else Confidence.LIKELY)
    if not matches:
        return answer.trouble(packages, "packages")
    if asked := value(matches, "asked"):
        known = any(match.symptom != "torch-name-unknown" for match in matches)
        asks = {"asked": asked, "module": value(matches, "module") or "torch", "version": (facts.version if facts else None) or UNKNOWN}
        return Hit(asks, quoted(matches), variant="name", severity=None if known else Severity.WARNING, confidence=Confidence.LIKELY)
    if codec := _torchcodec(facts, packages, matches, tables):
        return codec
    if all(match.symptom == "torchcodec-load" for match in matches):
        return (
            None
            if codec_fits(torch, packages, tables)
            else Hit({}, quoted(matches), variant="codec", severity=Severity.WARNING, confidence=Confidence.LIKELY)
        )
    package = value(matches, "package") or "torchvision or torchaudio"
    values = {"version": (facts.version if facts else None) or UNKNOWN, "package": package}
    fixes = ()
    if facts and facts.version and not isinstance(packages, Missing):
        wanted = _trio(facts, packages, tables)
        if wanted:  # the pair is right by its versions: then the files are not what the versions say
            fixes = (Install(wanted, reinstall=True, note="from the same index as torch"),)
        have = packages.version(package.lower())
        if have and wanted:
            return Hit(values | {"have": have}, quoted(matches), fixes, variant="files")
    return Hit(values, quoted(matches), fixes, variant="said")


def codec_fits(torch: TorchFacts | Missing | None, packages: PackagesFacts | Missing, tables: Tables) -> bool | None:
    """Whether the torchcodec that is installed is for this torch, by torchcodec's own table."""
    if torch is None or isinstance(torch, Missing) or isinstance(packages, Missing) or not torch.version:
        return None
    have, wants = packages.version("torchcodec"), tables.companion_specifiers(torch.version).get("torchcodec")
    return meets(have, wants) if have and wants else None


def _torchcodec(
    torch: TorchFacts | None, packages: PackagesFacts | Missing, matches: tuple[TextEvidence, ...], tables: Tables
) -> Hit | None:
    """torchcodec did not load, and its version is for another torch."""
    about = any(match.symptom.startswith("torchcodec-") for match in matches)
    if not about or torch is None or isinstance(packages, Missing) or codec_fits(torch, packages, tables) is not False:
        return None
    wants = tables.companion_specifiers(torch.version or "").get("torchcodec")
    problems = f"torchcodec {packages.version('torchcodec')} is for another torch: {torch.version} goes with torchcodec{wants}"
    return Hit({"problems": problems, "version": torch.version}, quoted(matches), (Install((f"torchcodec{wants}",)),))


def _companions(torch: TorchFacts, packages: PackagesFacts, tables: Tables) -> list[tuple[str, bool]]:
    """What does not fit, in words, and whether it is certain."""
    found: list[tuple[str, bool]] = []
    version = torch.version or ""
    known = tables.companions(version)
    for name in _COMPANIONS:
        other = packages.version(name)
        if not other or _is_past(name, other, version, tables):
            continue
        unmet = [one for one in packages.unmet if one.distribution == name and one.installed and re.match(r"torch\b", one.requirement)]
        asks = tables.companion_requires(name, other)
        if unmet:
            found.append((f"{name} {other} requires {unmet[0].requirement}, torch is {version}", _other_series(version, unmet[0])))
        elif asks and meets(version, asks) is False and _series_differs(asks, version):
            found.append((f"{name} {other} requires torch{asks}, torch is {version}", True))
        elif not asks and name in known and (minor(other) or (0, 0)) < (minor(known[name]) or (0, 0)):
            found.append((f"{name} {other} is for an older torch than {version}, which goes with {known[name]}", True))
        elif cuda := _other_cuda(name, other, torch, tables):
            found.append((cuda, True))
        elif not local(other) and _is_default(torch, tables) and (why := tables.companion_conflict(version, name, other)):
            found.append((why, False))  # which build of it is installed is not known
    codec = packages.version("torchcodec")
    if codec and (cuda := _other_cuda("torchcodec", codec, torch, tables)):
        found.append((cuda, True))
    pin = tables.companion_specifiers(version).get("triton")
    triton = packages.version("triton")
    if triton and pin and local(version) != "cpu" and not torch.hip and not torch.xpu and meets(triton, pin) is False:
        found.append((f"triton {triton} is installed, torch {version} requires triton{pin}", False))
    return found


def _ended(version: str, packages: PackagesFacts, tables: Tables) -> tuple[str, ...]:
    """Companions that are no longer made, under a torch that came after them."""
    found = [(name, packages.version(name)) for name in _COMPANIONS]
    past = [(name, other) for name, other in found if other and _is_past(name, other, version, tables)]
    return tuple(
        f"{name} {other} is loaded by no torch after {tables.last_torch_of(name)}, torch is {version}, and no newer {name} is made"
        for name, other in past
    )


def _is_past(name: str, other: str, version: str, tables: Tables) -> bool:
    last = tables.last_torch_of(name)
    return last is not None and (minor(version) or (0, 0)) > (minor(last) or (99, 0))


def _is_default(torch: TorchFacts, tables: Tables) -> bool:
    """The build that a plain install gives on Linux, as far as its version tells."""
    row = tables.release(torch.version) if torch.version else None
    return row is not None and local(torch.version) in (None, row.default_variant.get("linux-x86_64"))


def _other_series(version: str, unmet: Unmet) -> bool:
    return _series_differs(unmet.requirement, version)


def _series_differs(requirement: str, version: str) -> bool:
    """An exact pin of another minor series: the compiled part cannot load. Within one series it usually does."""
    pin = re.search(r"==\s*(\d+\.\d+)", requirement)
    return pin is None or minor(pin[1]) != minor(version)


def _other_cuda(name: str, version: str, torch: TorchFacts, tables: Tables) -> str | None:
    """A companion whose build for CUDA cannot be loaded under this torch.

    It links libtorch_cuda.so, which builds for the CPU, ROCm and XPU do not have; torchvision refuses another CUDA major, torchaudio
    another CUDA version. A companion built for the CPU loads everywhere, and so does one whose label is not known, as far as is known.
    """
    theirs, mine = cuda_of_build(version), torch.cuda or cuda_of_build(torch.version)
    if name not in _LINKED or not theirs:
        return None
    if mine is None:
        kind = "the CPU" if torch.cpu_build else "ROCm" if torch.hip else "XPU" if torch.xpu else None
        return f"{name} {version} is built for CUDA {theirs}, torch {torch.version} for {kind}" if kind else None
    compares = tables.compares_cuda(name, version)
    differs = major(theirs) != major(mine) if compares == "major" else minor(theirs) != minor(mine) if compares == "minor" else False
    return f"{name} {version} is built for CUDA {theirs}, torch {torch.version} for CUDA {mine}" if differs else None


def _trio(torch: TorchFacts, packages: PackagesFacts, tables: Tables) -> tuple[str, ...]:
    """The companions that are installed and that go with this torch, by name: the plan gives them version and index.

    triton is the exception: it comes from PyPI, with torch's own pin.
    """
    wanted = tables.companion_specifiers(torch.version or "")
    names = tuple(name for name in _COMPANIONS if packages.version(name) and name in wanted)
    gpu = not torch.hip and not torch.xpu and local(torch.version) != "cpu"
    other = gpu and meets(packages.version("triton"), wanted.get("triton", "")) is False
    triton = (f"triton{wanted['triton']}",) if other else ()
    return (*names, *triton)


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
_FLASH = pattern(r"cu(?P<cuda>\d{2})\d*torch(?P<torch>\d+\.\d+)cxx11abi(?P<abi>TRUE|FALSE)", re.IGNORECASE)


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
        # Library names inside the PyPI wheels: libcudart.so.12 up to 0.19.1, libcudart.so.13 from 0.20.0 on.
        if older(there, "0.20.0") is False and not cuda_of_build(there) and major(facts.cuda) == 12:
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
    torch_companion_mismatch,
    bitsandbytes_broken,
    pynvml_deprecated,
    flash_attn_mismatch,
    xformers_mismatch,
    vllm_pin,
)
