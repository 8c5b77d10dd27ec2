"""Shared libraries that torch does not find, or that are not its own."""

from __future__ import annotations

import re

from envcheck.checks.companions import codec_fits
from envcheck.checks.hardware import imported, nccl_proved
from envcheck.checks.origin import IMPORT
from envcheck.checks.reinstall import default_variant
from envcheck.checks.requirements import wrong_versions
from envcheck.checks.text import agreed, doubt, foremost, of_variant, quoted, value
from envcheck.checks.torch_files import blamed
from envcheck.engine.intents import UPGRADE, Install, Intent, SetEnv
from envcheck.engine.rule import Answer, Confidence, Evidence, Facts, Hit, Matches, Severity, check
from envcheck.facts.snapshot import PythonFacts, TorchFacts
from envcheck.tables.library_packages import Provider, pinned, provider, system_package
from envcheck.tables.versions import UNKNOWN, cuda_of_build, local, major, meets, minor, older, pair, release

# What other programs beside torch say of their own part for CUDA.
_OF_ANOTHER = {"provider": "onnxruntime's part for CUDA", "jax": "JAX's part for CUDA", "cupy": "a library of CuPy's"}
# Why the loader does not take a file that it found: the message for it.
_REFUSALS = ("tls", "stack", "machine", "pages", "mapping", "cut")


# Libraries whose number was CUDA's own up to CUDA 10.0, and of some up to 10.2.
_NUMBERED = ("libcudart", "libcublas", "libcublasLt", "libcufft", "libcurand", "libcusolver", "libcusparse", "libnvrtc")


@check(needs="torch", reads="torch packages python devices system symptoms")
def missing_library(facts: Facts, matches: Matches) -> Answer:
    evidence, library, rows = quoted(matches), value(matches, "library"), facts.packages.distributions
    if refused := of_variant(matches, *_REFUSALS):
        file = value(refused, "library")
        return Hit({"library": file or "a library", "file": file, "version": UNKNOWN}, evidence, variant=_refusal(refused))
    if library is None and (beside := foremost(matches, *_OF_ANOTHER)):
        return Hit({"library": _OF_ANOTHER[beside], "version": UNKNOWN}, evidence, variant=beside)
    if told := of_variant(matches, "carried", "libomp", "mac_python", "dylib", "nix", "unnumbered"):
        return Hit({"library": value(told, "library"), "version": UNKNOWN}, evidence, variant=told[0].variant)
    codec, fits = [match.symptom.startswith("torchcodec-") for match in matches], codec_fits(facts)
    # torchcodec's loader says that it lacks FFmpeg, or it did not load although it is for this torch
    if library is None and any(codec) and (fits is True or (fits is None and value(matches, "ffmpeg") is not None)):
        return Hit({"library": "FFmpeg's libraries"}, evidence, variant="ffmpeg")
    if all(codec):
        return None  # no message, or the companion's rule says that either may be the reason
    if library is None:
        return Hit({"library": value(matches, "component") or "a shared library"}, evidence, variant="plain")
    if re.match(r"cudnn\w*\.dll", library):
        return Hit({"library": library}, evidence, variant="cudnn_dll")
    stem = library.partition(".so")[0]
    if stem in ("libcuda", "libnvidia-ml") or stem.startswith(("libtorch", "libc10", "libshm", "libcaffe2")):
        return None  # the driver's libraries, and torch's own missed by a companion: other rules
    values: dict[str, object] = {"library": library, "version": facts.torch.version or UNKNOWN}
    values["needed_by"] = value(matches, "needed_by") or "a program"
    own, wanted = of_variant(matches, "local"), _cuda_asked_for(library)
    if own and not _is_of(facts.torch, wanted):
        return Hit(values | {"extension": value(own, "extension"), "wanted": wanted}, evidence, variant="local")
    if own:  # torch brings it, and was not imported before
        return _provided(facts, values | {"needed_by": value(own, "extension")}, evidence, "beside")
    by_pip = any(row.name == "torch" and row.installer in ("pip", "uv") for row in rows)  # in a conda environment too
    conda = facts.torch.conda or (facts.python.has_conda_meta and not by_pip)
    return _provided(facts, values, evidence, "beside" if imported(facts) else "conda" if conda else None)


def _refusal(refused: Matches) -> str:
    """The variant of a file that the loader does not take; of the two kinds of Mac the one that the file is for."""
    have, need = value(refused, "have") or "", value(refused, "need") or ""
    if "arm64" in have and "86" in need:
        return "for_apple"
    return "for_intel" if "86" in have and "arm64" in need else refused[0].variant


def _before_cuda_11(stem: str, number: str, cuda: str | None) -> str | None:
    """The CUDA of a library, by its number or torch's own, that NVIDIA has no wheels of. cuFFT and cuRAND have 10 in later ones too."""
    if stem not in _NUMBERED:
        return None
    if re.fullmatch(r"(?:[89]|10)\.\d", number) or (number == "10" and stem not in ("libcufft", "libcurand")):
        return number
    return cuda if older(cuda, "11") else None


def _provided(facts: Facts, values: dict[str, object], evidence: tuple[Evidence, ...], variant: str | None) -> Hit:
    """By which distribution. `variant`: why that is not to be installed for torch."""
    library = str(values["library"])
    stem, _, number = library.partition(".so")
    cuda, soname = _cuda_major(facts), major(number.removeprefix("."))
    # torch before 2.4 brought cuDNN 8 (nvidia-cudnn-cu12==8.9.2.26 in 2.3.1, ==9.1.0.70 in 2.4.0)
    if stem.startswith("libcudnn") and soname == 8 and not meets(release(facts.torch.version), ">=1.6,<2.4"):
        return Hit(values, evidence, variant="cudnn8")
    old = stem.startswith("libcudnn") and soname is not None and soname < 8  # no package on PyPI has one so old
    found = None if old else provider(facts.tables, stem, cuda, soname)
    if found is None:
        package = system_package(facts.tables, stem)
        return Hit(values | ({"apt": package} if package else {"searched": library}), evidence, variant="other")
    if cuda is not None and found.soname_cuda not in (None, cuda):
        values |= {"cuda": cuda, "wanted": found.soname_cuda, **_built_for(cuda, facts.torch.cuda or cuda_of_build(facts.torch.version))}
        return Hit(values, evidence, variant="cuda")
    if (wanted := _before_cuda_11(stem, number.removeprefix("."), facts.torch.cuda)) and not facts.system.jetson:
        return Hit(values | {"wanted": wanted}, evidence, variant="before_11")
    values["distribution"] = found.distribution
    if facts.system.jetson:
        return Hit(values | {"stem": stem}, evidence, variant="jetson")
    if variant:
        return Hit(values, evidence, variant=variant)
    requirement, there = _requirement(facts, found), facts.packages.version(found.distribution)
    values |= {"requirement": requirement, "installed": there}
    note = "with torch's own pin" if "==" in requirement else "any version of the same CUDA major"
    return Hit(values, evidence, (Install((requirement,), reinstall=there is not None, note=note),), "damaged" if there else None)


def _built_for(cuda: int, release: str | None) -> dict[str, str | None]:
    """Other programs' packages for torch's CUDA, None where there is none. CuPy's were named after one release before CUDA 11."""
    index = {11: "cu118", 12: "cu121"}.get(cuda)
    return {
        "cupy": f"cupy-cuda{cuda}x" if cuda >= 11 else release and f"cupy-cuda{release.replace('.', '')}",
        "onnxruntime": "onnxruntime-gpu" if cuda == 12 else None,
        "dgl": index and f"https://data.dgl.ai/wheels/torch-2.4/{index}/repo.html",
    }


def _cuda_asked_for(library: str) -> str:
    """The CUDA that a library of CUDA's belongs to: "9.0", "12". The runtime's name carries the minor version before CUDA 11."""
    number = library.partition(".so.")[2]
    return number if library.startswith("libcudart.") and pair(number) < (11, 0) else number.partition(".")[0]


def _is_of(torch: TorchFacts, wanted: str) -> bool:
    """Whether this torch is known to be built for that CUDA."""
    mine = torch.cuda or cuda_of_build(torch.version)
    return mine is not None and f"{mine}.".startswith(f"{wanted}.")


def _cuda_major(facts: Facts) -> int | None:
    """CUDA major of the build: as torch says, as its version says, else what a plain install of this release brings."""
    stated = major(facts.torch.cuda or cuda_of_build(facts.torch.version))
    if stated is not None or local(facts.torch.version):
        return stated
    return major(cuda_of_build(f"0+{default_variant(facts)}"))


def _requirement(facts: Facts, found: Provider) -> str:
    """The provider with torch's own pin where this is the default build, whose pins the table holds."""
    variant = local(facts.torch.version)
    if facts.torch.version is None or (variant and variant != default_variant(facts)):
        return found.distribution
    return pinned(found, facts.tables.pins(facts.torch.version))


def _loader_variable(python: PythonFacts) -> str | None:
    """The variable that puts libraries before torch's own, if one is set."""
    return next((name for name in ("LD_PRELOAD", "LD_LIBRARY_PATH") if python.variables.get(name)), None)


# Libraries that CUDA, cuDNN and NCCL wheels bring, as files.
_CUDA_FILES = re.compile(r"/lib(?:cudart|cublas|cublasLt|cudnn\w*|nccl|nvJitLink|nvrtc|cusparse|cusolver|cufft|curand)\.so")


@check(needs="torch python", reads="torch python packages devices symptoms")
def library_path_shadows(facts: Facts, matches: Matches) -> Answer:
    name = _loader_variable(facts.python) or "LD_LIBRARY_PATH"
    foreign = _foreign(facts)
    values: dict[str, object] = {"name": name, "path": facts.python.variables.get(name) or "not known", "loaded": foreign}
    if agreed(matches) == "omp":
        values["symbol"] = value(matches, "symbol")
        known = name in facts.python.variables
        return Hit(values, quoted(matches), _unset(name) if known else (), "omp", confidence=None if known else Confidence.LIKELY)
    if python := of_variant(matches, "python"):
        values |= {"symbol": value(python, "symbol"), "library": value(python, "library") or "A library of torch"}
        return Hit(values, quoted(python), variant="python", confidence=doubt(python))
    if oneapi := of_variant(matches, "oneapi"):
        values |= {"symbol": value(oneapi, "symbol"), "library": value(oneapi, "library")}
        return Hit(values, quoted(oneapi), _unset(name), "oneapi")
    if other := of_variant(matches, "python_dll") or of_variant(matches, "mpi"):
        values |= {"symbol": value(other, "symbol"), "library": value(other, "library") or "A library"}
        return Hit(values, quoted(other), variant=other[0].variant, confidence=doubt(other))
    if agreed(matches) == "cxx":
        return _cxx_library(values, matches, facts.python)
    if own := tuple(match for match in matches if match.source == IMPORT and "symbol" in match.values and match.variant != "cxx"):
        return _undefined_symbol(facts, values, own, matches)
    if matches:
        return _library_said(values, matches, facts.python)
    works = imported(facts)
    evidence = tuple(Evidence("libraries loaded", one) for one in foreign[:4])
    return Hit(values, evidence, _unset(name), "loaded", Severity.WARNING if works else None) if foreign else None


def _unset(name: str | None, note: str = "for this run: env -u {name}") -> tuple[SetEnv, ...]:
    return (SetEnv(name, None, note.format(name=name)),) if name else ()


def _library_said(values: dict[str, object], matches: Matches, python: PythonFacts) -> Hit:
    name = str(values["name"])
    values |= {"symbol": value(matches, "symbol") or "a symbol", "library": value(matches, "library") or "A CUDA library"}
    sure = python.variables.get(name) or value(matches, "path")
    return Hit(values, quoted(matches), _unset(name), "said" if sure else "unsure")


def _cxx_library(values: dict[str, object], matches: Matches, python: PythonFacts) -> Hit:
    stated, name = value(matches, "library") or "", str(values["name"])
    library = stated if "libstdc++" in stated else "libstdc++.so.6"  # else it is the one that asks
    values |= {"symbol": value(matches, "symbol"), "library": library}
    folders = [folder for folder in python.variables.get(name, "").split(":") if folder]
    if any(library == folder or library.startswith(folder.rstrip("/") + "/") for folder in folders):
        return Hit(values, quoted(matches), _unset(name), "cxx_path")
    if folders and value(matches, "needed") and any(match.source == IMPORT for match in matches):  # which file was taken is not said
        return Hit(values, quoted(matches), _unset(name), "cxx_path", confidence=Confidence.LIKELY)
    return Hit(values, quoted(matches), variant="cxx")


def _undefined_symbol(facts: Facts, values: dict[str, object], own: Matches, matches: Matches) -> Hit | None:
    """What the failed import did not find in a library."""
    library = (value(own, "asker") or value(own, "library") or "a library").rpartition("/")[2]
    values |= {"symbol": value(own, "symbol"), "library": library, "of": value(own, "of") or "libnv"}
    name = _loader_variable(facts.python)
    if name or facts.python.executable is None:  # then what is set is not known
        if any(match.symptom in ("nvjitlink-symbol", "cuda-symbol-version") for match in own):
            sure = None if name else Confidence.LIKELY
            return Hit(values, quoted(matches), _unset(str(values["name"])), confidence=sure)
        return _library_said(values, matches, facts.python)
    # Nothing is set: another copy that the system's linker knows is left, and that only if the packages are what torch asks for.
    if wrong_versions(facts.packages) or blamed(facts) or facts.packages.overwritten:
        return None
    return Hit(values, quoted(own), variant="unset")


def _foreign(facts: Facts) -> tuple[str, ...]:
    """CUDA libraries loaded from a folder of LD_LIBRARY_PATH although wheels of this environment bring them."""
    folders = tuple(one.rstrip("/") + "/" for one in facts.python.variables.get("LD_LIBRARY_PATH", "").split(":") if one)
    own = (facts.python.prefix or "\0", facts.python.purelib or "\0", facts.torch.path or "\0")
    if not any(row.name.startswith("nvidia-") for row in facts.packages.distributions):
        return ()
    return tuple(one for one in facts.torch.libraries if _CUDA_FILES.search(one) and not one.startswith(own) and one.startswith(folders))


@check(needs="packages", reads="torch packages python devices live system symptoms")
def nccl_package_mismatch(facts: Facts, matches: Matches) -> Answer:
    torch = facts.torch
    rows = tuple(row for row in facts.packages.distributions if re.fullmatch(r"nvidia-nccl-cu\d\d", row.name))
    two = len({row.name for row in rows}) > 1
    drifted = torch.nccl and torch.nccl_loaded and older(torch.nccl_loaded, torch.nccl) and not nccl_proved(facts.live, 2)
    if not (matches or two or drifted):
        return None  # nothing to look up in the tables
    values: dict[str, object] = {"version": torch.version or UNKNOWN, "built": torch.nccl, "loaded": torch.nccl_loaded}
    values |= {"symbol": value(matches, "symbol") or "an NCCL function"}
    if compiled := tuple(match for match in matches if match.symptom == "nccl-older-than-program"):
        values |= {name: value(compiled, name) for name in ("built", "loaded")}
        return Hit(values, quoted(compiled), variant="program")
    right = Provider(f"nvidia-nccl-cu{_cuda_major(facts) or 13}")
    values |= {"requirement": _requirement(facts, right), "packages": [f"{row.name} {row.version}" for row in rows]}
    evidence = quoted(matches)
    if two:
        note = "both unpack to nvidia/nccl/lib/libnccl.so.2"
        mend = Install((str(values["requirement"]),), tuple(sorted({row.name for row in rows})), reinstall=True, note=note)
        evidence += tuple(Evidence("installed distributions", f"{row.name} {row.version}") for row in rows)
        if matches:
            return Hit(values, evidence, (mend,), "two")
        proved = nccl_proved(facts.live) or imported(facts)
        return Hit(values, evidence, (mend,), "two_quiet", Severity.WARNING if proved else None, None if proved else Confidence.LIKELY)
    install = Install((str(values["requirement"]),), reinstall=True)
    if matches:
        name = _loader_variable(facts.python)
        note = "another libnccl.so.2 in one of its folders comes before torch's own"
        newest = Install((right.distribution,), note="the newest one; torch's own pin is narrower", flags=UPGRADE)
        fixes: tuple[Intent, ...] = (*_unset(name or "LD_LIBRARY_PATH", note), install if facts.packages.distributions else newest)
        return Hit(values, evidence, fixes, "path" if name else None)
    return Hit(values, evidence, (install,), "older")


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


@check(needs="torch", reads="torch python system symptoms")
def cudnn_mismatch(facts: Facts, matches: Matches) -> Answer:
    """The cuDNN loaded is older than the one torch was compiled with (torch's own rule: same major, minor not smaller)."""
    built = cudnn_text(value(matches, "compiled")) or facts.torch.cudnn
    loaded = cudnn_text(value(matches, "loaded")) or facts.torch.cudnn_loaded
    mine, other = minor(built), minor(loaded)
    wrong = mine is not None and other is not None and (mine[0] != other[0] or other[1] < mine[1])
    if facts.torch.hip or not (wrong or matches):
        return None
    name = _loader_variable(facts.python)
    path, cuda = facts.python.variables.get(name or ""), _cuda_major(facts)
    fixes: tuple[Intent, ...] = _unset(name, "for this run")
    if cuda and not facts.torch.conda and (major(built) or 9) >= 8 and pair(facts.torch.version) >= (1, 13):
        found = Provider(f"nvidia-cudnn-cu{cuda}")
        fixes = (*fixes, Install((_requirement(facts, found),), reinstall=True))
    values = {"version": facts.torch.version or UNKNOWN, "built": built, "loaded": loaded, "name": name, "path": path}
    if not wrong and mine and other:
        return Hit(values, quoted(matches), fixes, "newer")
    known = built and loaded
    return Hit(values, quoted(matches), fixes, "plain" if not known else "path" if path else None)
