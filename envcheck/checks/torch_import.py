"""Why `import torch` fails: it raises, crashes, hangs, or something else is taken in its place."""

from __future__ import annotations

import re

from envcheck.checks.hardware import import_failed, import_text, imported
from envcheck.checks.origin import IMPORT, Origin, frames, its_own, last_line, missing_module, origin
from envcheck.checks.reinstall import again
from envcheck.checks.text import cite, of_symptom, of_variant, quoted, value
from envcheck.checks.torch_files import blamed, damaged_files
from envcheck.engine.intents import Install, Manual, SetEnv
from envcheck.engine.rule import Answer, Evidence, Facts, Hit, Matches, Severity, check
from envcheck.facts.printable import begin_of
from envcheck.facts.snapshot import ImportFailure, ImportStatus
from envcheck.tables.versions import UNKNOWN

# What only a torch whose own files do not belong together says; a module of torch that is not there, in all of torch's Python files.
_OWN_SYMBOL = re.compile(r"[/\\]torch[/\\]lib[/\\]\S{1,80}: undefined symbol: _ZNK?(?:2at|3c10|5torch|5caffe2)")
_OWN_NAME = re.compile(
    r"cannot import name '\w{1,60}' from (?:partially initialized module )?'torch[\w.]{0,80}'|module 'torch\.[\w.]{1,80}' has no attribute"
)
# The loader says "cannot open" as well of a file that is there and for another machine.
_OWN_LIBRARY = re.compile(
    r"(?:[/\\]torch[/\\][^\s:]{1,200}|(?<![\w/])lib(?:torch|c10|shm|caffe2)\w{0,40})\.so:"
    r" (?:cannot open shared object file|wrong ELF class)"
)
_UNREADABLE = ("EOFError", "SyntaxError", "IndentationError", "UnicodeDecodeError")  # of a file that ends early or holds something else


# What torch's own files import, and the distribution of each.
_REQUIRED_MODULES = {"typing_extensions": "typing-extensions", "sympy": "sympy", "mpmath": "mpmath", "filelock": "filelock",
                     "networkx": "networkx", "jinja2": "jinja2", "fsspec": "fsspec", "numpy": "numpy"}  # fmt: skip


def _inconsistent(kind: str, text: str) -> bool:
    """Whether torch's own files contradict each other: to write them again is then a cure."""
    gone = missing_module(text) or ""
    return (
        gone.startswith(("torch.", "torchgen"))
        or any(own.search(text) for own in (_OWN_SYMBOL, _OWN_NAME, _OWN_LIBRARY))
        or kind in _UNREADABLE
        or "bad marshal data" in text
    )


@check(needs="torch", reads="torch python packages devices system symptoms")
def torch_import_broken(facts: Facts, matches: Matches) -> Answer:
    if facts.torch.import_status is ImportStatus.ERROR:
        return _raised(facts, matches)
    if not matches or imported(facts):
        return None
    values = {"version": facts.torch.version or UNKNOWN, "python": facts.python.version or UNKNOWN}
    if of_variant(matches, "mkl"):
        by_conda = Manual("Where conda installed torch:", commands=("conda install 'mkl<2024.1'",))
        return Hit(values, quoted(matches), (Install(("mkl<2024.1",)), by_conda), "mkl")
    if apart := of_variant(matches, "mixed"):
        return Hit(values | {name: value(apart, name) for name in ("file", "symbol")}, quoted(apart), variant="mixed")
    if strange := of_variant(matches, "python"):
        return Hit(values | {"symbol": value(strange, "symbol") or UNKNOWN}, quoted(strange), variant="python")
    if mixed := of_variant(matches, "two"):
        return Hit(values | {"symbol": value(mixed, "symbol") or UNKNOWN}, quoted(mixed), again(facts), "two")
    values["file"] = value(matches, "file") or "one of its files"
    return Hit(values, quoted(matches), again(facts), "dll_said" if of_variant(matches, "dll") else "said")


def _raised(facts: Facts, matches: Matches) -> Hit:
    failure = facts.torch.import_failure or ImportFailure()
    kind, text = failure.type or "an exception", failure.text
    evidence = (Evidence("import torch", failure.stack or text), *quoted(matches))
    values = {"version": facts.torch.version or UNKNOWN, "type": kind, "path": facts.torch.path, "error": last_line(text) or kind}
    if "iJIT_" in text:
        return Hit(values, evidence, (Install(("mkl<2024.1",)),), "mkl")
    if (facts.system.os == "windows" and "DLL load failed" in text) or "WinError 126" in text or "WinError 1114" in text:
        return Hit(values, evidence, again(facts), "dll")
    where = origin(facts, failure.stack)
    if where and not where.torch:
        return _from_elsewhere(where, values, evidence)
    gone = missing_module(text) or ""
    if required := _REQUIRED_MODULES.get(gone.partition(".")[0]):
        return Hit(values, evidence, (Install((required,)),))
    # "No module named 'torch'": metadata without the package
    mends = gone == "torch" or _inconsistent(kind, text) or any(one.distribution == "torch" for one in blamed(facts))
    return Hit(values, evidence, again(facts) if mends else ())


def _from_elsewhere(where: Origin, values: dict[str, str | None], evidence: tuple[Evidence, ...]) -> Hit:
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


@check(needs="torch", reads="torch packages system python devices symptoms")
def torch_import_crashed(facts: Facts, matches: Matches) -> Answer:
    failure = facts.torch.import_failure or ImportFailure()
    values: dict[str, object] = {"version": facts.torch.version or UNKNOWN, "path": facts.torch.path}
    if library := value(matches, "library"):
        return Hit({"library": library, "other": value(matches, "other") or library}, quoted(matches), variant="openmp")
    if told := of_variant(matches, "rocprofiler", "openmp_told"):
        return Hit({}, quoted(told), variant=told[0].variant)
    if part := value(matches, "part"):
        return Hit({"part": part}, quoted(matches), variant="mkl")
    if matches and facts.torch.import_status is ImportStatus.SKIPPED and not imported(facts):
        return Hit(values | {"signal": (value(matches, "signal") or "a signal").lower()}, quoted(matches), variant="said")
    # MKL asks where the libraries that loaded it are, and gives up without a working folder.
    if facts.python.working_folder_gone and "oneMKL FATAL ERROR: Cannot load" in failure.stderr:
        values["folder"] = facts.python.working_folder_gone
        return Hit(values, (Evidence("import torch", failure.stderr),), variant="folder")
    if facts.torch.import_status not in (ImportStatus.CRASHED, ImportStatus.EXITED):
        return None
    return _ended(facts, values, failure)


def _ended(facts: Facts, values: dict[str, object], failure: ImportFailure) -> Hit:
    """By a signal or by an exit, out of torch's own files or another's."""
    words = failure.stack or failure.stderr
    said = cite("SystemExit", failure.text) if failure.type == "SystemExit" else ()
    evidence, where = (*said, *cite("import torch", words)), origin(facts, words)
    values |= {"signal": failure.signal or "a signal", "code": failure.exit_code}
    exited = facts.torch.import_status is ImportStatus.EXITED
    if where and not where.torch:
        row = where.distribution
        values |= {"file": where.file, "package": row.name if row else where.module or "a file of your own"}
        values["statement"] = where.module and f"import {where.module}"
        return Hit(values, evidence, variant="exited_elsewhere" if exited else "elsewhere")
    # Not of a kill from outside: files do no harm there.
    killed = failure.signal in ("SIGKILL", "SIGTERM", "SIGXCPU")
    fixes = () if killed or damaged_files(facts.packages) else again(facts)
    return Hit(values, evidence, fixes, "exited" if exited else None)


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


@check(needs="torch", reads="torch python devices symptoms")
def torch_import_hangs(facts: Facts, matches: Matches) -> Answer:
    if matches and facts.torch.import_status is ImportStatus.SKIPPED and not imported(facts):
        return Hit({"version": facts.torch.version or UNKNOWN}, quoted(matches), variant="said")
    if facts.torch.import_status is not ImportStatus.TIMEOUT:
        return None
    failure = facts.torch.import_failure or ImportFailure()
    stack = failure.stack or failure.stderr
    # The frame in which it stands: faulthandler writes it first, a traceback last.
    where = next((begin_of(frame.line, 300) for frame in frames(stack)), last_line(stack))
    values: dict[str, object] = {"version": facts.torch.version or UNKNOWN, "where": where or "an unknown place"}
    values["seconds"] = f"{facts.torch.import_seconds:.0f}" if facts.torch.import_seconds else "many"
    evidence = cite("stack of the import", stack)
    if slowing := [name for name in _SLOWING if facts.python.variables.get(name, "") not in _OFF]:
        fixes = tuple(SetEnv(name, None) for name in slowing)
        return Hit(values | {"variables": slowing}, evidence, fixes, "slowed")
    seconds = failure.watched_seconds
    if not seconds:
        return Hit(values, evidence, variant="unwatched")
    values |= {"watched": f"{seconds:.0f}", "share": f"{(failure.cpu_seconds or 0.0) / seconds:.0%}", "faults": failure.page_faults or 0}
    values["read"] = f"{(failure.read_bytes or 0) / 1024**2:.1f} MiB"
    variant = "storage" if failure.state == "D" else "working" if at_work(failure) else "where" if where else None
    return Hit(values, evidence, variant=variant)


# "cannot import name 'TypeIs' from 'typing_extensions' (/home/me/project/typing_extensions.py)"
_TAKEN_FROM = re.compile(
    r"cannot import name '\w{1,60}' from (?:partially initialized module )?'([\w.]{1,80})'[^(\n]{0,80}\(([^)\n]{1,300})\)"
)
_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]|/lib(?:64)?/python3|[/\\]Lib[/\\]")


@check(needs="torch", reads="torch packages python devices symptoms")
def torch_shadowed(facts: Facts, matches: Matches) -> Answer:
    own, text, hiding = its_own(facts), import_text(facts.torch), facts.python.shadowing
    # Of a torch that lies where its distribution put it these words mean that a file of it is gone.
    matches = tuple(one for one in matches if not (own and one.source == IMPORT and one.symptom == "torch-folder-shadows"))
    if of_symptom(facts, "torch-of-two-releases"):  # it is torch's own file that stumbles: nothing hides it
        matches = tuple(one for one in matches if one.symptom not in ("torch-folder-shadows", "torch-of-two-releases"))
    if facts.torch.import_status is ImportStatus.NOT_TORCH:
        if own and blamed(facts):
            return None
        return Hit({"path": facts.torch.path or next(iter(hiding), "a folder named torch")}, quoted(matches))
    if checkout := of_variant(matches, "checkout"):
        values = {name: value(checkout, name) for name in ("path", "package")}
        folder = re.sub(r"[/\\][^/\\]*$", "", values["path"] or "") or "."
        return Hit({**values, "folder": folder}, quoted(checkout), variant="checkout")
    if matches:
        path = value(matches, "path")
        return Hit({"path": path}, quoted(matches), variant="said" if path else "unseen")
    taken = _TAKEN_FROM.search(text)
    if taken and not taken[1].startswith("torch") and not _INSTALLED.search(taken[2]):
        return Hit({"path": taken[2]}, (Evidence(IMPORT, text),), variant="said")
    if works := imported(facts):  # it has just taken files of PYTHONPATH that it imports itself, and worked with them
        folders = (facts.python.pythonpath or "").split(":")
        hiding = tuple(one for one in hiding if not (_REQUIRED.search(one) and one.rpartition("/")[0] in folders))
    if not hiding:
        return None
    if works or not import_failed(facts.torch):
        return Hit({"paths": hiding}, variant="beside", severity=Severity.WARNING)
    return Hit({"paths": hiding}, (Evidence("import torch", text),), variant="beside")


# Names in PythonFacts.shadowing that belong to packages which torch imports, not to torch or the standard library.
_REQUIRED = re.compile(r"[/\\](?:typing_extensions|sympy|mpmath|filelock|networkx|jinja2|markupsafe|fsspec)\.py$")
