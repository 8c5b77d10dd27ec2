"""NumPy beside a torch that cannot use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envcheck.checks import answer
from envcheck.checks.hardware import installed
from envcheck.checks.origin import missing_module
from envcheck.checks.text import quoted, said, value
from envcheck.engine.intents import Install, Intent
from envcheck.engine.rule import Confidence, Evidence, Hit, Severity, Unknown, check
from envcheck.facts.snapshot import (
    Missing,
    PackagesFacts,
    PythonFacts,
    SymptomsFacts,
    SystemFacts,
    TorchFacts,
)
from envcheck.tables.versions import major, minor, older, release

if TYPE_CHECKING:
    from envcheck.tables.compat import Tables


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


CHECKS = (numpy_abi,)
