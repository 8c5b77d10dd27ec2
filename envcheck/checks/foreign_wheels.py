"""Packages that were installed for another Python or machine, and copied, mounted or put on the path of this one."""

from __future__ import annotations

from envcheck.checks.hardware import import_failed, import_text
from envcheck.checks.origin import origin
from envcheck.engine.intents import Install, Intent, SetEnv, TorchBuild
from envcheck.engine.rule import Answer, Evidence, Facts, Hit, Severity, check
from envcheck.facts.snapshot import Distribution, PythonFacts


@check(needs="packages", reads="torch packages python")
def package_foreign(facts: Facts) -> Answer:
    """A wheel whose tags name another Python or machine: this interpreter does not find or cannot load its compiled files."""
    torch, python = facts.torch, facts.python
    first: dict[str, Distribution] = {}
    for row in facts.packages.distributions:  # in the order of sys.path: only the first of a name is imported
        first.setdefault(row.name, row)
    foreign = [row for row in first.values() if row.foreign_tag]
    if not foreign:
        return None
    evidence = tuple(Evidence(f"{row.location}: WHEEL of {row.name} {row.version}", f"Tag: {row.foreign_tag}") for row in foreign[:6])
    values: dict[str, object] = {
        "packages": [f"{row.name} {row.version} ({row.foreign_tag})" for row in foreign[:4]],
        "python": python.version,
    }
    fixes = _fixes(foreign, python)
    if import_failed(torch) and _stops(foreign, facts):
        return Hit(values, evidence, fixes)
    if any("numpy" in one.lower() for one in torch.import_warnings) and any(row.name == "numpy" for row in foreign):
        return Hit(values, evidence, fixes, "numpy", Severity.WARNING)
    return Hit(values, evidence, fixes, "beside", Severity.WARNING)


def _stops(foreign: list[Distribution], facts: Facts) -> bool:
    """Whether the failed import speaks of one of them, or is of torch itself among them."""
    failure = facts.torch.import_failure
    where = origin(facts, failure.stack) if failure else None
    modules = {row.name.replace("-", "_") for row in foreign}
    return "torch" in modules or bool(where and where.module in modules) or any(f"'{name}." in import_text(facts.torch) for name in modules)


def _fixes(foreign: list[Distribution], python: PythonFacts) -> tuple[Intent, ...]:
    """Out of PYTHONPATH where they come from there; else written again for this Python, in a version that has a wheel for it."""
    on_path = [folder.rstrip("/") for folder in (python.pythonpath or "").split(":") if folder]
    if all((row.location or "").rstrip("/") in on_path for row in foreign):
        return (SetEnv("PYTHONPATH", None, "the packages of one Python are of no use to another"),)
    others = tuple(row.name for row in foreign if row.name != "torch")
    first: tuple[Intent, ...] = (TorchBuild(),) if len(others) < len(foreign) else ()
    return (*first, Install(others, reinstall=True)) if others else first
