"""Shared libraries that torch does not find, or that are not its own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envcheck.checks import answer
from envcheck.checks.companions import codec_fits
from envcheck.checks.hardware import import_failed, import_text, imported, installed, nccl_proved
from envcheck.checks.libraries import Provider, pinned, provider
from envcheck.checks.origin import last_line
from envcheck.checks.reinstall import default_variant
from envcheck.checks.requirements import wrong_versions
from envcheck.checks.text import quoted, said, value
from envcheck.checks.torch_files import blamed
from envcheck.engine.intents import Install, Intent, SetEnv
from envcheck.engine.rule import Confidence, Evidence, Hit, Severity, Unknown, check
from envcheck.facts.snapshot import (
    DevicesFacts,
    LiveFacts,
    Missing,
    PackagesFacts,
    PythonFacts,
    SymptomsFacts,
    SystemFacts,
    TextEvidence,
    TorchFacts,
)
from envcheck.tables.versions import UNKNOWN, cuda_of_build, local, major, minor, older, release

if TYPE_CHECKING:
    from envcheck.tables.compat import Tables

# What a failed import says: "libcudnn.so.9: cannot open shared object file: No such file or directory"
_CANNOT_OPEN = re.compile(r"(lib[\w.+-]{1,80}\.so(?:\.\d+){0,4}): cannot open shared object file")
# "/venv/…/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommWindowRegister"
_UNDEFINED = re.compile(r"(?:/|\b)(lib[\w.+-]{1,80}\.so[\d.]{0,12}): undefined symbol: (\w{1,300})(?:, version (lib[\w.+-]{1,60}))?")


# What the loader says of a file that it found and does not take (glibc elf/dl-load.c, dl-reloc.c; dyld), and the message for it.
_REFUSED = re.compile(
    r"(?:([^\s'\"(:]{1,240}\.so[.\d]{0,14}): |dlopen: |'([^'\n]{1,240}\.(?:so|dylib))' \()(cannot allocate memory in static TLS block|"
    r"cannot load any more object with static TLS|cannot enable executable stack|file too short|invalid ELF header|wrong ELF class|"
    r"ELF load command \S{1,20} not|failed to map segment|only ET_DYN and ET_EXEC|object file has no|mach-o file, but is an incompatible|"
    r"mach-o, but wrong architecture|fat file, but missing)"
)
_REFUSALS = (
    ("static TLS", "tls"),
    ("executable stack", "stack"),
    ("architecture", "machine"),
    ("mach-o", "machine"),
    ("fat file", "machine"),
    ("ELF class", "machine"),
    ("ELF load command", "pages"),
    ("map segment", "mapping"),
    ("", "cut"),
)


def _refused(torch: TorchFacts | Missing, symptoms: SymptomsFacts | Missing) -> tuple[str | None, str] | None:
    """A library that is there and is not taken, and why: the name of a message."""
    if found := _REFUSED.search(import_text(torch)):
        library, reason = found[1] or found[2], found[3]
    else:
        matches = tuple(one for one in said(symptoms, "missing-library") if one.values.get("reason"))
        if not matches:
            return None
        library, reason = value(matches, "library"), value(matches, "reason") or ""
    return library, next(variant for part, variant in _REFUSALS if part in reason)


def _missing_name(torch: TorchFacts | Missing, symptoms: SymptomsFacts | Missing) -> str | None:
    """The library that the loader did not find."""
    found = _CANNOT_OPEN.search(import_text(torch))
    if found:
        return found[1]
    matches = said(symptoms, "missing-library")
    if named := value(matches, "library"):
        return named
    return next((one[1] for match in matches if (one := _CANNOT_OPEN.search(match.text))), None)


@check(sees_missing=("torch", "packages", "python", "devices", "symptoms", "system"))
def missing_library(
    torch: TorchFacts | Missing,
    packages: PackagesFacts | Missing,
    python: PythonFacts | Missing,
    devices: DevicesFacts | Missing,
    system: SystemFacts | Missing,
    symptoms: SymptomsFacts | Missing,
    tables: Tables,
) -> Hit | Unknown | None:
    """A shared library that torch, or a package beside it, cannot open; names the distribution that provides it."""
    matches = said(symptoms, "missing-library")
    if refused := _refused(torch, symptoms):
        failed = [Evidence("import torch", last_line(import_text(torch)))] if import_failed(torch) else []
        values: dict[str, object] = {"library": refused[0] or "a library", "file": refused[0], "version": UNKNOWN}
        return Hit(values, (*failed, *quoted(matches)), variant=refused[1])
    library = _missing_name(torch, symptoms)
    if library is None and (codec := _ffmpeg(torch, packages, matches, tables)):
        return codec
    if matches and all(match.symptom.startswith("torchcodec-") for match in matches):
        return None  # the companion's rule says that either may be the reason
    if library is None:
        return Hit({"library": value(matches, "component") or "a shared library"}, quoted(matches), variant="plain") if matches else None
    stem = library.partition(".so")[0]
    if stem in ("libcuda", "libnvidia-ml") or stem.startswith(("libtorch", "libc10", "libshm", "libcaffe2")):
        return None  # the driver's libraries, and torch's own missed by a companion: other rules
    evidence = quoted(matches)
    if import_failed(torch):
        evidence = (Evidence("import torch", last_line(import_text(torch)) or library), *evidence)
    facts = None if isinstance(torch, Missing) else torch
    version = facts.version if facts else None
    values = {"library": library, "version": version or UNKNOWN, "needed_by": value(matches, "needed_by") or "a program"}
    soname = major(library.partition(".so.")[2])
    if stem.startswith("libcudnn") and soname == 8 and not _takes_cudnn8(facts, tables):
        return Hit(values, evidence, variant="cudnn8")
    cuda = _cuda_major(facts, system, tables)
    found = provider(stem, cuda, soname)
    if found is None:
        return Hit(values, evidence, variant="other")
    if cuda is not None and found.soname_cuda is not None and found.soname_cuda != cuda:
        return Hit(values | {"cuda": cuda, "wanted": found.soname_cuda}, evidence, variant="cuda")
    if imported(torch, devices) and not import_failed(torch):
        return Hit(values | {"distribution": found.distribution}, evidence, variant="beside")
    if (facts and facts.conda) or (not isinstance(python, Missing) and python.has_conda_meta and not _from_pip(packages)):
        return Hit(values | {"distribution": found.distribution}, evidence, variant="conda")
    requirement = _requirement(found, facts, system, tables)
    there = installed(packages, found.distribution)
    values |= {"distribution": found.distribution, "requirement": requirement, "installed": there}
    note = "with torch's own pin" if "==" in requirement else "any version of the same CUDA major"
    return Hit(values, evidence, (Install((requirement,), reinstall=there is not None, note=note),), variant="damaged" if there else None)


def _ffmpeg(
    torch: TorchFacts | Missing, packages: PackagesFacts | Missing, matches: tuple[TextEvidence, ...], tables: Tables
) -> Hit | None:
    """torchcodec finds no FFmpeg: its loader says so, or it did not load although it is for this torch."""
    if not any(match.symptom.startswith("torchcodec-") for match in matches):
        return None
    fits = codec_fits(torch, packages, tables)
    if fits is False or (fits is None and not value(matches, "ffmpeg")):
        return None
    return Hit({"library": "FFmpeg's libraries"}, quoted(matches), variant="ffmpeg", confidence=Confidence.LIKELY)


def _from_pip(packages: PackagesFacts | Missing) -> bool:
    """Whether the torch of a conda environment came from pip or uv all the same."""
    if isinstance(packages, Missing):
        return False
    return any(row.name == "torch" and row.installer in ("pip", "uv") for row in packages.distributions)


def _cuda_major(torch: TorchFacts | None, system: SystemFacts | Missing, tables: Tables) -> int | None:
    """CUDA major of the build: as torch says, as its version says, else what a plain install of this release brings."""
    if torch is None:
        return None
    stated = major(torch.cuda or cuda_of_build(torch.version))
    if stated is not None or local(torch.version):
        return stated
    return major(cuda_of_build(f"0+{default_variant(torch, system, tables)}"))


def _takes_cudnn8(torch: TorchFacts | None, tables: Tables) -> bool:
    """torch before 2.4 brought cuDNN 8 (nvidia-cudnn-cu12==8.9.2.26 in 2.3.1, ==9.1.0.70 in 2.4.0)."""
    return torch is not None and older(release(torch.version), "2.4.0") is True and (minor(torch.version) or (0, 0)) >= (1, 6)


def _requirement(found: Provider, torch: TorchFacts | None, system: SystemFacts | Missing, tables: Tables) -> str:
    """The provider with torch's own pin where this is the default build, whose pins the table holds."""
    if torch is None or torch.version is None:
        return found.distribution
    variant = local(torch.version)
    if variant and variant != default_variant(torch, system, tables):
        return found.distribution
    return pinned(found, tables.pins(torch.version))


# Libraries that CUDA, cuDNN and NCCL wheels bring, as files.
_CUDA_FILES = re.compile(r"/lib(?:cudart|cublas|cublasLt|cudnn\w*|nccl|nvJitLink|nvrtc|cusparse|cusolver|cufft|curand)\.so")


@check(sees_missing=("torch", "python", "packages", "devices", "symptoms"))
def library_path_shadows(
    torch: TorchFacts | Missing,
    python: PythonFacts | Missing,
    packages: PackagesFacts | Missing,
    devices: DevicesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Hit | Unknown | None:
    """LD_LIBRARY_PATH or LD_PRELOAD puts a foreign CUDA library before the one that torch was built with."""
    matches = said(symptoms, "library-path-shadows")
    text = import_text(torch)
    symbol = _UNDEFINED.search(text)
    mixed = symbol is not None and symbol[2].lstrip("_").startswith(("nvJitLink", "cublas", "cusparse", "cudnn", "cusolver"))
    environment = {} if isinstance(python, Missing) else python.variables
    name = next((one for one in ("LD_PRELOAD", "LD_LIBRARY_PATH") if environment.get(one)), "LD_LIBRARY_PATH")
    path = environment.get(name)
    foreign = _foreign(torch, python, packages)
    if not (matches or mixed or foreign):
        return None
    fix: tuple[Intent, ...] = (SetEnv(name, None, "for this run: env -u " + name),)
    values: dict[str, object] = {"name": name, "path": path or "not known", "loaded": foreign}
    cxx = tuple(match for match in matches if re.match(r"GLIBCXX|CXXABI|_Z(?:NK?|T[IVS]N?)?St", match.values.get("symbol", "")))
    if cxx and len(cxx) == len(matches):
        library = value(cxx, "library") or "libstdc++.so.6"
        values |= {"symbol": value(cxx, "symbol"), "library": library}
        if path and any(library.startswith(folder.rstrip("/") + "/") or library == folder for folder in path.split(":") if folder):
            return Hit(values, quoted(cxx), fix, variant="cxx_path")
        return Hit(values, quoted(cxx), variant="cxx", confidence=Confidence.LIKELY)
    if symbol and import_failed(torch) and (mixed or matches) and not isinstance(python, Missing) and not path:
        # Nothing is set: another copy that the system's linker knows is left, and that only if the packages are what torch asks for.
        if wrong_versions(packages) or blamed(torch, packages) or (not isinstance(packages, Missing) and packages.overwritten):
            return None
        values |= {"symbol": symbol[2], "library": symbol[1], "of": (symbol[3] or "libnv").partition(".")[0]}
        return Hit(values, (Evidence("import torch", last_line(text)),), variant="unset", confidence=Confidence.LIKELY)
    if mixed and symbol and import_failed(torch):
        values |= {"symbol": symbol[2], "library": symbol[1]}
        evidence = (Evidence("import torch", last_line(text)), *quoted(matches))
        return Hit(values, evidence, fix, confidence=None if path else Confidence.LIKELY)
    if matches:
        values |= {"symbol": value(matches, "symbol") or "a symbol", "library": value(matches, "library") or "A CUDA library"}
        sure = path or value(matches, "path")
        return Hit(values, quoted(matches), fix, variant="said" if sure else "unsure", confidence=None if sure else Confidence.LIKELY)
    works = imported(torch, devices) and not import_failed(torch)
    evidence = tuple(Evidence("libraries loaded", one) for one in foreign[:4])
    return Hit(values, evidence, fix, variant="loaded", severity=Severity.WARNING if works else None)


def _foreign(torch: TorchFacts | Missing, python: PythonFacts | Missing, packages: PackagesFacts | Missing) -> tuple[str, ...]:
    """CUDA libraries loaded from a folder of LD_LIBRARY_PATH although wheels of this environment bring them."""
    if isinstance(torch, Missing) or isinstance(python, Missing) or isinstance(packages, Missing):
        return ()
    folders = [one.rstrip("/") for one in python.variables.get("LD_LIBRARY_PATH", "").split(":") if one]
    wheels = [row for row in packages.distributions if row.name.startswith("nvidia-")]
    if not folders or not wheels:
        return ()
    own = (python.prefix or "\0", python.purelib or "\0", torch.path or "\0")
    return tuple(
        one
        for one in torch.libraries
        if _CUDA_FILES.search(one) and not one.startswith(own) and any(one.startswith(folder + "/") for folder in folders)
    )


@check(sees_missing=("torch", "packages", "python", "devices", "live", "symptoms", "system"))
def nccl_package_mismatch(
    torch: TorchFacts | Missing,
    packages: PackagesFacts | Missing,
    python: PythonFacts | Missing,
    devices: DevicesFacts | Missing,
    live: LiveFacts | Missing,
    system: SystemFacts | Missing,
    symptoms: SymptomsFacts | Missing,
    tables: Tables,
) -> Hit | Unknown | None:
    """An NCCL that torch was not built with: two packages in one place, or a foreign libnccl.so.2."""
    matches = said(symptoms, "nccl-package-mismatch")
    text = import_text(torch)
    found = _UNDEFINED.search(text)
    symbol = found[2] if found and found[2].startswith(("nccl", "pnccl")) else value(matches, "symbol")
    facts = None if isinstance(torch, Missing) else torch
    all_rows = () if isinstance(packages, Missing) else packages.distributions
    rows = tuple(row for row in all_rows if re.fullmatch(r"nvidia-nccl-cu\d\d", row.name))
    names = sorted({row.name for row in rows})
    drifted = facts is not None and facts.nccl and facts.nccl_loaded and older(facts.nccl_loaded, facts.nccl)
    if not (symbol or matches or len(names) > 1 or drifted):
        return answer.trouble(packages, "packages")  # nothing to look up in the tables
    right = f"nvidia-nccl-cu{_cuda_major(facts, system, tables) or 13}"
    requirement = _requirement(Provider(right), facts, system, tables)
    values: dict[str, object] = {
        "version": facts.version if facts else "torch",
        "symbol": symbol or "an NCCL function",
        "packages": [f"{row.name} {row.version}" for row in rows],
        "requirement": requirement,
        "built": facts.nccl if facts else None,
        "loaded": facts.nccl_loaded if facts else None,
    }
    evidence = quoted(matches)
    if compiled := tuple(match for match in matches if match.symptom == "nccl-older-than-program"):
        versions = {"built": value(compiled, "built"), "loaded": value(compiled, "loaded")}
        return Hit(values | versions, quoted(compiled), variant="program")
    if import_failed(torch) and found and symbol:
        evidence = (Evidence("import torch", last_line(text)), *evidence)
    said_or_failed = bool(symbol and import_failed(torch)) or bool(matches)
    if len(names) > 1:
        mend = (Install((requirement,), tuple(names), reinstall=True, note="both unpack to nvidia/nccl/lib/libnccl.so.2"),)
        evidence = (*evidence, *(Evidence("installed distributions", f"{row.name} {row.version}") for row in rows))
        if said_or_failed:
            return Hit(values, evidence, mend, variant="two")
        proved = nccl_proved(live) or imported(torch, devices)
        return Hit(values, evidence, mend, "two_quiet", Severity.WARNING if proved else None, None if proved else Confidence.LIKELY)
    if said_or_failed:
        variables = {} if isinstance(python, Missing) else python.variables
        name = next((one for one in ("LD_PRELOAD", "LD_LIBRARY_PATH") if variables.get(one)), None)
        fixes: tuple[Intent, ...] = (SetEnv(name, None, "for this run"),) if name else ()
        if rows or not isinstance(packages, Missing):
            fixes = (*fixes, Install((requirement,), reinstall=True))
        return Hit(values, evidence, fixes, variant="path" if name else None)
    if facts and facts.nccl and facts.nccl_loaded and older(facts.nccl_loaded, facts.nccl) and not nccl_proved(live, 2):
        fixes = (Install((requirement,), reinstall=True),)
        return Hit(values, evidence, fixes, "older", Severity.WARNING, Confidence.LIKELY)
    return answer.trouble(packages, "packages")


# "compiled against (8, 3, 2) but linked against (8, 0, 3)", "compiled against 7102 but linked against 7605"
def cudnn_text(raw: str | None) -> str | None:
    """torch's spellings of a cuDNN version: (8, 3, 2), 8302, 91002 and 8.3.2 → "8.3.2"."""
    if not raw:
        return None
    digits = re.findall(r"\d{1,6}", raw)
    if len(digits) > 1:
        return ".".join(digits[:3])
    if len(digits) == 1 and len(digits[0]) >= 4:
        one = int(digits[0])
        return f"{one // 10000}.{one // 100 % 100}.{one % 100}" if one >= 90000 else f"{one // 1000}.{one // 100 % 10}.{one % 100}"
    return raw.strip() or None


@check(sees_missing=("torch", "packages", "python", "symptoms", "system", "devices"))
def cudnn_mismatch(
    torch: TorchFacts | Missing,
    packages: PackagesFacts | Missing,
    python: PythonFacts | Missing,
    system: SystemFacts | Missing,
    devices: DevicesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
    tables: Tables,
) -> Hit | Unknown | None:
    """The cuDNN loaded is older than the one torch was compiled with (torch's own rule: same major, minor not smaller)."""
    matches = said(symptoms, "cudnn-mismatch")
    facts = None if isinstance(torch, Missing) else torch
    if facts and facts.hip:
        return None
    built = cudnn_text(value(matches, "compiled")) or (facts.cudnn if facts else None)
    loaded = cudnn_text(value(matches, "loaded")) or (facts.cudnn_loaded if facts else None)
    mine, other = minor(built), minor(loaded)
    wrong = mine is not None and other is not None and (mine[0] != other[0] or other[1] < mine[1])
    if not wrong and not matches:
        return None
    variables = {} if isinstance(python, Missing) else python.variables
    name = next((one for one in ("LD_PRELOAD", "LD_LIBRARY_PATH") if variables.get(one)), None)
    fixes: tuple[Intent, ...] = (SetEnv(name, None, "for this run"),) if name else ()
    cuda = _cuda_major(facts, system, tables)
    if facts and cuda and not facts.conda and (major(built) or 9) >= 8 and (minor(facts.version) or (0, 0)) >= (1, 13):
        found = Provider(f"nvidia-cudnn-cu{cuda}")
        fixes = (*fixes, Install((_requirement(found, facts, system, tables),), reinstall=True))
    path = variables.get(name) if name else None
    values = {"version": facts.version if facts else "torch", "built": built, "loaded": loaded, "name": name, "path": path}
    if not wrong and mine and other:
        return Hit(values, quoted(matches), fixes, variant="newer", severity=Severity.WARNING, confidence=Confidence.LIKELY)
    variant = "path" if path and built and loaded else None if built and loaded else "plain"
    return Hit(values, quoted(matches), fixes, variant=variant)


CHECKS = (
    missing_library,
    library_path_shadows,
    nccl_package_mismatch,
    cudnn_mismatch,
)
