"""What torch requires and does not have: packages that are absent, and packages of another version than it pins."""

from __future__ import annotations

import re

from envcheck.checks.hardware import import_failed, import_text, imported
from envcheck.checks.origin import missing_module
from envcheck.checks.reinstall import over_each_other, requirements
from envcheck.checks.text import doubt, of_variant, quoted, value
from envcheck.engine.intents import Install, Intent
from envcheck.engine.rule import Answer, Confidence, Evidence, Facts, Hit, Matches, Severity, check
from envcheck.facts.printable import begin_of
from envcheck.facts.record import replace
from envcheck.facts.snapshot import DevicesFacts, ImportStatus, LiveFacts, LiveStatus, PackagesFacts, TorchFacts, Unmet
from envcheck.tables.library_packages import provider
from envcheck.tables.versions import major

# What stops without a package (removed one at a time under torch 2.13): torch.optim and DDP import torch._dynamo, and that sympy.
_FOR_TRAINING = ("typing-extensions", "sympy", "mpmath")
_FOR_COMPILING = ("filelock", "networkx", "triton")
_CALLED = {"yaml": "pyyaml"}
_LIBRARIES = ("nvidia-", "cuda-")
# Pure Python, of which torch takes nearly every version, whatever it asks for.
_LENIENT = ("sympy", "mpmath", "networkx", "jinja2", "markupsafe", "fsspec", "filelock")
# What the loader says of a library that is not there, and torch itself of one that it looks for in the packages of NVIDIA.
_NOT_FOUND = ("cannot open shared object file", "not found in the system path")
# Whose requirements are torch's own, directly or through what it requires.
_OWNERS = ("torch", "cuda-toolkit", "sympy", "jinja2")


def name_of(row: Unmet) -> str:
    """ "nvidia-nccl-cu13" of "nvidia_nccl_cu13==2.30.7"."""
    found = re.match(r"[A-Za-z0-9._-]+", row.requirement)
    return found[0].lower().replace("_", "-").replace(".", "-") if found else row.requirement


def absent(packages: PackagesFacts) -> dict[str, Unmet]:
    """What torch requires and nothing of that name is there, by name."""
    rows = (row for row in packages.unmet if row.distribution in _OWNERS)
    return {name_of(row): row for row in rows if row.installed is None and name_of(row) != "torch"}


def wrong_versions(packages: PackagesFacts) -> dict[str, Unmet]:
    """What torch requires and is there in another version, by name. Companions, triton and NumPy have rules of their own."""
    found = {name_of(row): row for row in packages.unmet if row.installed is not None and row.distribution in _OWNERS}
    return {name: row for name, row in found.items() if name not in ("triton", "pytorch-triton", "numpy", "torch")}


def _brought(torch: TorchFacts, rows: dict[str, Unmet]) -> tuple[Intent, ...]:
    """Libraries come with torch's own pins, dozens of them; of the rest each requirement is written out."""
    if any(name.startswith(_LIBRARIES) for name in rows):
        return requirements(torch)
    return (Install(tuple(row.requirement for row in rows.values())),)


def _live_text(live: LiveFacts) -> str:
    if live.status is not LiveStatus.FAIL:
        return ""
    return "\n".join([live.reason, *(rank.error for arm in live.arms for rank in arm.ranks), *(rank.error for rank in live.ranks)])


def _named(text: str, names: dict[str, Unmet]) -> str | None:
    """The absent package that an error speaks of. SymPy says of mpmath: "SymPy now depends on mpmath as an external library"."""
    module = (missing_module(text) or "").partition(".")[0].replace("_", "-").lower()
    if module in names:
        return module
    return "mpmath" if "mpmath" in names and "depends on mpmath" in text else None


@check(needs="torch packages", reads="torch packages devices live symptoms")
def torch_requirement_missing(facts: Facts, matches: Matches) -> Answer:
    if built := of_variant(matches, "build"):
        module = value(built, "module") or "yaml"
        return Hit({"module": module, "package": _CALLED.get(module, module)}, quoted(built), variant="build", confidence=doubt(built))
    rows = absent(facts.packages)
    if not rows or facts.torch.version is None:
        return None
    libraries, fixes = [name for name in rows if name.startswith(_LIBRARIES)], _brought(facts.torch, rows)
    evidence = tuple(
        Evidence(f"metadata of {row.distribution}", f"requires {row.requirement}, which is not there") for row in list(rows.values())[:6]
    )
    values: dict[str, object] = {"version": facts.torch.version, "names": list(rows), "count": len(rows)}
    if stopped := _named(import_text(facts.torch), rows):
        return Hit(values | {"module": stopped}, evidence, fixes)
    if stopped := _named(_live_text(facts.live), rows):
        return Hit(values | {"module": stopped}, evidence, fixes, "live")
    if import_failed(facts.torch):  # else something else stops it
        several = len(libraries) > 1 and any(words in import_text(facts.torch) for words in _NOT_FOUND)
        return Hit(values | {"names": libraries}, evidence, fixes, "libraries") if several else None
    needed = [name for name in rows if name in _FOR_TRAINING]
    if needed and facts.live.status is not LiveStatus.PASS:
        return Hit(values | {"needed": needed}, evidence, fixes, "training", confidence=Confidence.LIKELY)
    if compiling := [name for name in rows if name in needed or _compiles(name, facts.devices)]:
        return Hit(values | {"needed": compiling}, evidence, fixes, "compiling", Severity.WARNING)
    if not libraries:
        return Hit(values, evidence, fixes, "unused", Severity.INFO)
    files = [name for name in libraries if name != "cuda-toolkit"]  # which only requires others
    if not files or not imported(facts):
        return None  # not tried: the libraries may come from somewhere else
    return Hit(values | {"names": files}, evidence, (), "elsewhere", Severity.INFO)


def _compiles(name: str, devices: DevicesFacts) -> bool:
    """torch.compile needs it; Triton only where there is a GPU."""
    return name in _FOR_COMPILING and (name != "triton" or devices.available is True)


# What a failed import says of two libraries that do not belong together.
_SYMBOL = re.compile(
    r"(lib[\w.+-]{1,80}?)\.so[\d.]{0,12}: (?:undefined symbol: (\w{1,300})(?:, version (lib[\w.+-]{1,60}?)\.so[\d.]{0,12})?|version `)"
)


def _involved(facts: Facts, text: str) -> set[str]:
    """The packages whose libraries an "undefined symbol" speaks of; the message may name only the one that lacks it."""
    found: set[str] = set()
    if message := _SYMBOL.search(text):
        symbol = (message[2] or "").lstrip("_")
        rows = facts.tables.rows("torch-pins", "library")
        has = next((row["stem"] for row in rows if symbol.startswith(tuple(row.get("symbols", ())))), None)
        for stem in (message[1], message[3], has):
            if stem and (one := provider(facts.tables, stem, major(facts.torch.cuda), None)):
                found.add(one.distribution)
    return found


@check(needs="torch packages", reads="torch packages python live")
def torch_pin_unmet(facts: Facts) -> Answer:
    """A package is of another version than the metadata of torch asks for. Companions and triton have a rule of their own."""
    rows = wrong_versions(facts.packages)
    if not rows or facts.torch.version is None or "torch" in facts.packages.duplicates:
        return None  # of two torches it is not known whose requirements count
    evidence = tuple(
        Evidence(f"metadata of {row.distribution}", f"requires {row.requirement}, {row.installed} is installed") for row in rows.values()
    )
    wrong = "; ".join(f"{name} {row.installed} instead of {row.requirement[len(name) :]}" for name, row in rows.items())
    values: dict[str, object] = {"version": facts.torch.version, "wrong": wrong, "count": len(rows)}
    text = import_text(facts.torch)
    twice = tuple(name for name in rows if over_each_other(name, facts.packages))
    fixes = tuple(replace(one, remove=(*twice, *twice)) if isinstance(one, Install) else one for one in _brought(facts.torch, rows))
    if not import_failed(facts.torch):
        harmless = all(name in _LENIENT for name in rows) and facts.live.status is not LiveStatus.FAIL
        return Hit(values, evidence[:6], fixes, "works", Severity.INFO if harmless else Severity.WARNING)
    last = [line.strip() for line in text.splitlines() if line.strip()][-1:]
    evidence = (*(Evidence("import torch", begin_of(line, 300)) for line in last), *evidence)[:6]
    if rows.keys() & _involved(facts, text) or ("typing-extensions" in rows and "from 'typing_extensions'" in text):
        return Hit(values, evidence, fixes)
    set_there = facts.python.variables.get("LD_LIBRARY_PATH") or facts.python.variables.get("LD_PRELOAD")
    if facts.torch.import_status is ImportStatus.CRASHED or (_SYMBOL.search(text) and not set_there):
        return Hit(values, evidence, fixes, "perhaps", confidence=Confidence.LIKELY)
    return Hit(values, evidence, fixes, "beside", Severity.WARNING)
