"""Why `import torch` fails, or loads libraries that are not its own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envcheck.checks import answer
from envcheck.checks.hardware import import_failed, import_text, imported, installed, nccl_proved
from envcheck.checks.libraries import Provider, pinned, provider
from envcheck.checks.origin import IMPORT, Origin, frames, its_own, missing_module, origin
from envcheck.checks.packages import codec_fits
from envcheck.checks.reinstall import again, default_variant
from envcheck.checks.requirements import wrong_versions
from envcheck.checks.text import quoted, said, value
from envcheck.checks.torch_files import blamed, damaged_files
from envcheck.checks.versions import UNKNOWN, cuda_of_build, local, major, minor, older, release
from envcheck.facts import (
    DevicesFacts,
    ImportFailure,
    ImportStatus,
    LiveFacts,
    Missing,
    PackagesFacts,
    PythonFacts,
    SymptomsFacts,
    SystemFacts,
    TextEvidence,
    TorchFacts,
)
from envcheck.intents import Install, Intent, SetEnv
from envcheck.pattern import pattern
from envcheck.rule import Confidence, Evidence, Hit, Severity, Unknown, check

if TYPE_CHECKING:
    from envcheck.tables import Tables

# What a failed import says: "libcudnn.so.9: cannot open shared object file: No such file or directory"
_CANNOT_OPEN = pattern(r"(lib[\w.+-]{1,80}\.so(?:\.\d+){0,4}): cannot open shared object file")
# "/venv/…/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommWindowRegister"
_UNDEFINED = pattern(r"(?:/|\b)(lib[\w.+-]{1,80}\.so[\d.]{0,12}): undefined symbol: (\w{1,300})(?:, version (lib[\w.+-]{1,60}))?")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def _innermost(stack: str) -> str:
    """The line of the frame in which a stack stands: faulthandler writes it first, a traceback last.

    Current thread 0x00007fe65ae54b80 (most recent call first):
      File "/venv/lib/python3.12/site-packages/torch/__init__.py", line 3 in <module>
      File "<frozen importlib._bootstrap>", line 241 in _call_with_frames_removed
    """
    found = frames(stack)
    return found[0].line[:300] if found else _last_line(stack)


# What only a torch whose own files do not belong together says; a module of torch that is not there, in all of torch's Python files.
_OWN_SYMBOL = pattern(r"[/\\]torch[/\\]lib[/\\]\S{1,80}: undefined symbol: _ZNK?(?:2at|3c10|5torch|5caffe2)")
_OWN_NAME = pattern(r"cannot import name '\w{1,60}' from (?:partially initialized module )?'torch[\w.]{0,80}'")
_UNREADABLE = ("EOFError", "SyntaxError", "IndentationError", "UnicodeDecodeError")  # of a file that ends early or holds something else


# What torch's own files import, and the distribution of each.
_REQUIRED_MODULES = {"typing_extensions": "typing-extensions", "sympy": "sympy", "mpmath": "mpmath", "filelock": "filelock",
                     "networkx": "networkx", "jinja2": "jinja2", "fsspec": "fsspec", "numpy": "numpy"}  # fmt: skip


def _inconsistent(kind: str, text: str, stack: str) -> bool:
    """Whether torch's own files contradict each other: to write them again is then a cure."""
    gone = missing_module(text) or ""
    return (
        gone.startswith(("torch.", "torchgen"))
        or bool(_OWN_SYMBOL.search(text) or _OWN_NAME.search(text))
        or kind in _UNREADABLE
        or "bad marshal data" in text
    )


@check(sees_missing=("torch", "packages", "symptoms", "devices", "system"))
def torch_import_broken(
    torch: TorchFacts | Missing,
    packages: PackagesFacts | Missing,
    devices: DevicesFacts | Missing,
    system: SystemFacts | Missing,
    symptoms: SymptomsFacts | Missing,
    tables: Tables,
) -> Hit | Unknown | None:
    """`import torch` raises. Rules that know the reason explain it."""
    matches = said(symptoms, "torch-import-broken")
    if isinstance(torch, Missing):
        return Hit({"version": "of unknown version"}, quoted(matches), variant="said") if matches else answer.trouble(torch, "torch")
    if torch.import_status is ImportStatus.ERROR:
        failure = torch.import_failure
        kind, text, stack = (failure.type or "an exception", failure.text, failure.stack) if failure else ("an exception", "", "")
        evidence = (Evidence("import torch", stack or text), *quoted(matches))
        values: dict[str, object] = {"version": torch.version or "of unknown version", "type": kind, "path": torch.path}
        values["error"] = _last_line(text) or kind
        windows = not isinstance(system, Missing) and system.os == "windows"
        if "iJIT_NotifyEvent" in text:
            return Hit(values, evidence, (Install(("mkl<2024.1",)),), variant="mkl")
        if (windows and "DLL load failed" in text) or "WinError 126" in text or "WinError 1114" in text:
            return Hit(values, evidence, again(torch, system, tables), variant="dll")
        where = origin(stack, torch, packages)
        if where and not where.torch:
            return _from_elsewhere(where, values, evidence)
        if alone := _REQUIRED_MODULES.get((missing_module(text) or "").partition(".")[0]):
            return Hit(values, evidence, (Install((alone,)),))
        nowhere = missing_module(text) == "torch"  # metadata without the package
        mends = nowhere or _inconsistent(kind, text, stack) or any(one.distribution == "torch" for one in blamed(torch, packages))
        return Hit(values, evidence, again(torch, system, tables) if mends else ())
    if matches and not imported(torch, devices):
        return Hit({"version": torch.version or "of unknown version"}, quoted(matches), again(torch, system, tables), variant="said")
    return None


def _from_elsewhere(where: Origin, values: dict[str, object], evidence: tuple[Evidence, ...]) -> Hit:
    """The innermost file is another package's, or one that no package brought."""
    if where.module is None:
        return Hit(values | {"file": where.file}, evidence, variant="foreign")
    row = where.distribution
    name = row.name if row else where.module
    # A module that it does not find is another one's; everything else is its own files' fault, as far as they can be told.
    gone = (missing_module(str(values["error"])) or where.module).partition(".")[0]
    fixes = (Install((f"{row.name}=={row.version}",), reinstall=True),) if row and row.version and gone == where.module else ()
    values |= {"file": where.file, "package": name, "statement": f"import {where.module}"}
    return Hit(values, evidence, fixes, variant="package")


@check(sees_missing=("torch", "packages", "system", "python", "devices", "symptoms"))
def torch_import_crashed(
    torch: TorchFacts | Missing,
    packages: PackagesFacts | Missing,
    system: SystemFacts | Missing,
    python: PythonFacts | Missing,
    devices: DevicesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
    tables: Tables,
) -> Hit | Unknown | None:
    """`import torch` kills the interpreter, or ends it."""
    matches = said(symptoms, "torch-import-crashed")
    if library := value(matches, "library"):
        return Hit({"library": library, "other": value(matches, "other") or library}, quoted(matches), variant="openmp")
    if matches and (isinstance(torch, Missing) or (torch.import_status is ImportStatus.SKIPPED and not imported(torch, devices))):
        version = UNKNOWN if isinstance(torch, Missing) else torch.version or UNKNOWN
        return Hit({"version": version, "signal": (value(matches, "signal") or "a signal").lower()}, quoted(matches), variant="said")
    if isinstance(torch, Missing):
        return answer.trouble(torch, "torch")
    failure = torch.import_failure
    values: dict[str, object] = {"version": torch.version or "of unknown version", "path": torch.path}
    gone = None if isinstance(python, Missing) else python.working_folder_gone
    # MKL asks where the libraries that loaded it are, and gives up without a working folder.
    if gone and failure and "oneMKL FATAL ERROR: Cannot load" in failure.stderr:
        return Hit(values | {"folder": gone}, (Evidence("import torch", failure.stderr),), variant="folder")
    evidence = (Evidence("import torch", failure.stack or failure.stderr),) if failure and (failure.stack or failure.stderr) else ()
    if torch.import_status not in (ImportStatus.CRASHED, ImportStatus.EXITED):
        return None
    where = origin((failure.stack or failure.stderr) if failure else "", torch, packages)
    values |= {"signal": (failure and failure.signal) or "a signal", "code": "unknown"}
    if failure and failure.exit_code is not None:
        values |= {"code": failure.exit_code}
    exited = torch.import_status is ImportStatus.EXITED
    if where and not where.torch:
        row = where.distribution
        values |= {"file": where.file, "package": row.name if row else where.module or "a file of your own"}
        values["statement"] = where.module and f"import {where.module}"
        return Hit(values, evidence, variant="exited_elsewhere" if exited else "elsewhere")
    # Not of a kill from outside: files do no harm there.
    killed = failure is not None and failure.signal in ("SIGKILL", "SIGTERM", "SIGXCPU")
    fixes = () if killed or damaged_files(packages) else again(torch, system, tables)
    return Hit(values, evidence, fixes, variant="exited" if exited else None)


def at_work(failure: ImportFailure) -> bool:
    """Whether something still moved in an import that was ended: it may only be slow."""
    seconds = failure.watched_seconds
    if not seconds or failure.state == "D":
        return True
    return (failure.cpu_seconds or 0.0) > 0.1 * seconds or (failure.read_bytes or 0) > 64 << 10 or (failure.page_faults or 0) > 16


# Variables under which every import takes a multiple of its time, and what counts as switched off.
_SLOWING = ("PYTHONTRACEMALLOC", "PYTHONPROFILEIMPORTTIME", "PYTHONDEVMODE", "PYTHONVERBOSE", "PYTHONMALLOC", "MALLOC_CHECK_", "LD_DEBUG",
            "COVERAGE_PROCESS_START")  # fmt: skip
_OFF = ("", "0", "default", "pymalloc", "malloc", "mimalloc")


@check(sees_missing=("python",))
def torch_import_hangs(torch: TorchFacts, python: PythonFacts | Missing) -> Hit | None:
    """`import torch` does not come back within its limit. Where something still moves in it, it may only be slow."""
    if torch.import_status is not ImportStatus.TIMEOUT:
        return None
    failure = torch.import_failure
    stack = (failure.stack or failure.stderr) if failure else ""
    where = _innermost(stack)
    values: dict[str, object] = {
        "version": torch.version or "of unknown version",
        "seconds": f"{torch.import_seconds:.0f}" if torch.import_seconds else "many",
        "where": where or "an unknown place",
    }
    evidence = (Evidence("stack of the import", stack),) if stack else ()
    set_there = {} if isinstance(python, Missing) else python.variables
    slowing = [name for name in _SLOWING if set_there.get(name, "") not in _OFF]
    if slowing:
        fixes = tuple(SetEnv(name, None) for name in slowing)
        return Hit(values | {"variables": slowing}, evidence, fixes, variant="slowed", confidence=Confidence.LIKELY)
    seconds = failure.watched_seconds if failure else None
    if failure is None or not seconds:
        return Hit(values, evidence, variant="unwatched", confidence=Confidence.LIKELY)
    cpu, read, faults = failure.cpu_seconds or 0.0, failure.read_bytes or 0, failure.page_faults or 0
    values |= {"watched": f"{seconds:.0f}", "share": f"{cpu / seconds:.0%}", "read": f"{read / 1024**2:.1f} MiB", "faults": faults}
    if failure.state == "D":
        return Hit(values, evidence, variant="storage", confidence=Confidence.LIKELY)
    if at_work(failure):
        return Hit(values, evidence, variant="working", confidence=Confidence.LIKELY)
    return Hit(values, evidence, variant="where" if where else None)


# "cannot import name 'TypeIs' from 'typing_extensions' (/home/me/project/typing_extensions.py)"
_TAKEN_FROM = pattern(
    r"cannot import name '\w{1,60}' from (?:partially initialized module )?'([\w.]{1,80})'[^(\n]{0,80}\(([^)\n]{1,300})\)"
)
_INSTALLED = pattern(r"[/\\](?:site|dist)-packages[/\\]|/lib(?:64)?/python3|[/\\]Lib[/\\]")


@check(sees_missing=("torch", "packages", "python", "devices", "symptoms"))
def torch_shadowed(
    torch: TorchFacts | Missing,
    packages: PackagesFacts | Missing,
    python: PythonFacts | Missing,
    devices: DevicesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Hit | Unknown | None:
    """Something else of that name is imported in torch's place, or hides a module that torch needs."""
    facts = None if isinstance(torch, Missing) else torch
    own = facts is not None and its_own(facts, packages)
    # Of a torch that lies where its distribution put it these words mean that a file of it is gone.
    matches = tuple(
        one for one in said(symptoms, "torch-shadowed") if not (own and one.source == IMPORT and one.symptom == "torch-folder-shadows")
    )
    hiding = () if isinstance(python, Missing) else python.shadowing
    if facts and facts.import_status is ImportStatus.NOT_TORCH:
        if own and blamed(facts, packages):
            return None
        where = facts.path or (hiding[0] if hiding else "a folder named torch")
        return Hit({"path": where}, quoted(matches))
    if matches:
        return Hit({"path": value(matches, "path") or "a file or folder on sys.path"}, quoted(matches), variant="said")
    taken = _TAKEN_FROM.search(import_text(torch))
    if taken and not taken[1].startswith("torch") and not _INSTALLED.search(taken[2]):
        return Hit({"path": taken[2]}, (Evidence(IMPORT, import_text(torch)),), variant="said")
    works = imported(torch, devices)
    if works:
        hiding = _untried(hiding, python)
    if not hiding:
        return None
    values = {"paths": hiding}
    if works or not import_failed(torch):
        return Hit(values, variant="beside", severity=Severity.WARNING, confidence=Confidence.LIKELY)
    return Hit(values, (Evidence("import torch", import_text(torch)),), variant="beside", confidence=Confidence.LIKELY)


# Names in PythonFacts.shadowing that belong to packages which torch imports, not to torch or the standard library.
_REQUIRED = pattern(r"[/\\](?:typing_extensions|sympy|mpmath|filelock|networkx|jinja2|markupsafe|fsspec)\.py$")


def _untried(hiding: tuple[str, ...], python: PythonFacts | Missing) -> tuple[str, ...]:
    """Without files of PYTHONPATH that torch's import has just taken, and worked with."""
    folders = [] if isinstance(python, Missing) else (python.pythonpath or "").split(":")
    return tuple(one for one in hiding if not (_REQUIRED.search(one) and one.rpartition("/")[0] in folders))


# What the loader says of a file that it found and does not take (glibc elf/dl-load.c, dl-reloc.c; dyld), and the message for it.
_REFUSED = pattern(
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
        failed = [Evidence("import torch", _last_line(import_text(torch)))] if import_failed(torch) else []
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
        evidence = (Evidence("import torch", _last_line(import_text(torch)) or library), *evidence)
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
_CUDA_FILES = pattern(r"/lib(?:cudart|cublas|cublasLt|cudnn\w*|nccl|nvJitLink|nvrtc|cusparse|cusolver|cufft|curand)\.so")


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
        return Hit(values, (Evidence("import torch", _last_line(text)),), variant="unset", confidence=Confidence.LIKELY)
    if mixed and symbol and import_failed(torch):
        values |= {"symbol": symbol[2], "library": symbol[1]}
        evidence = (Evidence("import torch", _last_line(text)), *quoted(matches))
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
        evidence = (Evidence("import torch", _last_line(text)), *evidence)
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


def _numpy1_only(torch: TorchFacts, python: PythonFacts | Missing, system: SystemFacts | Missing, tables: Tables) -> bool | None:
    """Whether this torch was compiled against NumPy 1 alone; None for builds that the table does not hold.

    Wheels for Python 3.8 stayed with NumPy 1. https://github.com/pytorch/pytorch/issues/107302
    """
    if not isinstance(python, Missing) and minor(python.version) == (3, 8):
        return True
    os = "linux" if isinstance(system, Missing) else {"darwin": "macos"}.get(system.os or "linux", system.os or "linux")
    row = tables.release(torch.version) if torch.version else None
    if row is not None:
        return row.numpy_major.get(os) == 1
    return older(release(torch.version), "1.10.0") or None


@check(sees_missing=("torch", "packages", "python", "system", "symptoms"))
def numpy_abi(
    torch: TorchFacts | Missing,
    packages: PackagesFacts | Missing,
    python: PythonFacts | Missing,
    system: SystemFacts | Missing,
    symptoms: SymptomsFacts | Missing,
    tables: Tables,
) -> Hit | Unknown | None:
    """NumPy 2 under a torch built for NumPy 1, or a NumPy too old, or none where one is needed.

    It is an error where a program failed of it. Else training may work: torch warns at import (from 2.1 on) or at the first array.
    """
    matches = said(symptoms, "numpy-abi")
    facts = None if isinstance(torch, Missing) else torch
    numpy = installed(packages, "numpy") or value(matches, "numpy")
    warned = [one for one in (facts.import_warnings if facts else ()) if "_ARRAY_API" in one or "Failed to initialize NumPy" in one]
    built_for_1 = _numpy1_only(facts, python, system, tables) if facts and facts.version else None
    values = {"numpy": numpy, "version": facts.version if facts else "torch"}
    evidence = (*quoted(matches), *(Evidence("import torch", one) for one in warned[:1]))
    downgrade: tuple[Intent, ...] = (Install(("numpy<2",)),)
    text = " ".join([*(match.text for match in matches), *warned])
    milder = None if matches else Severity.WARNING
    if missing_module(text) == "numpy" and not isinstance(packages, Missing):
        return _without_numpy(values, evidence, packages, built_for_1, bool(matches))
    if numpy and (major(numpy) or 0) >= 2:
        if built_for_1:
            return Hit(values, evidence, downgrade, severity=milder)
        if not (matches or warned):
            return None
        return Hit(values, evidence, downgrade, variant="module" if built_for_1 is False else None, severity=milder)
    if not (matches or warned):
        return answer.trouble(packages, "packages")
    if "NumPy 1.x" in text or "_ARRAY_API" in text:
        return Hit(values, evidence, downgrade, variant=None if numpy else "text", severity=milder)
    if numpy:
        newest = (Install(("numpy",), note="the newest that torch and the Python allow"),)
        # API version 0xe came with NumPy 1.20: what is built against it or a later one refuses 1.19 (numpy/core/setup_common.py)
        if "this version of numpy is" in text or older(release(numpy), "1.20.0"):
            return Hit(values, evidence, newest, variant="old", severity=milder)
        return Hit(values, evidence, newest, variant="unlike", severity=milder, confidence=Confidence.LIKELY)
    if not isinstance(packages, Missing) and packages.version("torch"):  # the list is of this environment, and has no NumPy
        return _without_numpy(values, evidence, packages, built_for_1, bool(matches))
    return Hit(values, evidence, (Install(("numpy<2" if built_for_1 else "numpy",)),), variant="either", confidence=Confidence.LIKELY)


def _without_numpy(
    values: dict[str, str | None], evidence: tuple[Evidence, ...], packages: PackagesFacts, built_for_1: bool | None, needed: bool
) -> Hit:
    """No NumPy: nothing is wrong with that until a program asks for one. Metadata without the module is what is left of one."""
    rest = packages.version("numpy")
    if rest:
        fixes = (Install((f"numpy=={rest}",), reinstall=True),)
        return Hit(values, evidence, fixes, variant="gone", severity=None if needed else Severity.WARNING)
    fixes = (Install(("numpy<2" if built_for_1 else "numpy",)),)
    return Hit(values, evidence, fixes, variant="absent", severity=None if needed else Severity.INFO)


CHECKS = (
    torch_import_broken,
    torch_import_crashed,
    torch_import_hangs,
    torch_shadowed,
    missing_library,
    library_path_shadows,
    nccl_package_mismatch,
    cudnn_mismatch,
    numpy_abi,
)
