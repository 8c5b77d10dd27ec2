"""NumPy beside a torch that cannot use it."""

from __future__ import annotations

import re

from envcheck.checks.origin import missing_module
from envcheck.checks.reinstall import once
from envcheck.checks.text import of_variant, quoted, value
from envcheck.engine.intents import UPGRADE, Install, Intent
from envcheck.engine.rule import Answer, Confidence, Evidence, Facts, Hit, Matches, Severity, check
from envcheck.facts.snapshot import PackagesFacts
from envcheck.tables.versions import UNKNOWN, major, minor, older, release

# NumPy's C API: the first release with each version. A module refuses every NumPy below the one that it was compiled against.
# https://github.com/numpy/numpy/blob/main/numpy/_core/meson.build (until 1.25 numpy/core/setup_common.py)
_FIRST_WITH_API = {0xA: "1.10", 0xB: "1.13", 0xC: "1.14", 0xD: "1.16", 0xE: "1.20", 0xF: "1.22", 0x10: "1.23", 0x11: "1.25",
                   0x12: "2.0", 0x13: "2.1", 0x14: "2.3"}  # fmt: skip


# Bytes of an array's head, which 1.20 and 1.22 made longer (their release notes): a module asks for no fewer than it was compiled with.
_FIRST_WITH_ARRAY = {"88": "1.20", "96": "1.22"}


def _for_api(matches: Matches, built_for_1: bool | None) -> str | None:
    """The NumPy that a module asks for which was compiled against a newer C API than it finds: "numpy>=1.23,<2"."""
    built, first = value(matches, "built") or "", _FIRST_WITH_ARRAY.get(value(matches, "array") or "")
    if re.fullmatch("0x[0-9a-f]{1,8}", built):
        first = _FIRST_WITH_API.get(int(built, 16))
    if first is None:
        return None
    return f"numpy>={first}" if first.startswith("2") and not built_for_1 else f"numpy>={first},<2"


def _numpy1_only(facts: Facts) -> bool | None:
    """Whether this torch was compiled against NumPy 1 alone; None for builds that the table does not hold.

    Wheels for Python 3.8 stayed with NumPy 1. https://github.com/pytorch/pytorch/issues/107302
    """
    if facts.torch.version is None:
        return None
    if minor(facts.python.version) == (3, 8):
        return True
    row = facts.tables.release(facts.torch.version)
    if row is not None:
        return row.numpy_major.get("macos" if facts.system.os == "darwin" else facts.system.os or "linux") == 1
    return older(release(facts.torch.version), "1.10.0") or None


@check(needs="packages", reads="torch packages python system symptoms")
def numpy_abi(facts: Facts, matches: Matches) -> Answer:
    """An error where a program failed of it. Else training may work: torch warns at import (from 2.1 on) or at the first array."""
    warned = [one for one in facts.torch.import_warnings if "_ARRAY_API" in one or "Failed to initialize NumPy" in one]
    numpy, built_for_1 = facts.packages.version("numpy") or value(matches, "numpy"), _numpy1_only(facts)
    values = {"numpy": numpy, "version": facts.torch.version or UNKNOWN}
    evidence = (*quoted(matches), *(Evidence("import torch", one) for one in warned[:1]))
    if gone := of_variant(matches, "alias", "alias2"):
        return _name_gone(facts, gone)
    if numba := of_variant(matches, "numba"):
        return Hit({}, quoted(numba), variant="numba")
    text, milder = " ".join([*(match.text for match in matches), *warned]), None if matches else Severity.WARNING
    plain = "numpy<2" if built_for_1 else "numpy"
    if missing_module(text) == "numpy" and facts.packages.distributions:
        return _without_numpy(values, evidence, facts.packages, plain, bool(matches))
    if _twice(facts, matches, warned):
        fixes = once("numpy", plain, facts.packages, facts.python) or (Install((plain,), reinstall=True),)
        return Hit(values, evidence, fixes, "twice", milder)
    new = (major(numpy) or 0) >= 2
    if not (matches or warned or (new and built_for_1)):
        return None
    if new or re.search("NumPy 1[.]x|_ARRAY_API|expected np[.]ndarray", text):
        variant = "text" if not numpy else "module" if new and built_for_1 is False else None
        return Hit(values, evidence, (Install(("numpy<2",)),), variant, milder)
    if other := _other(values, evidence, text, (plain, _for_api(matches, built_for_1)), milder):
        return other
    if facts.packages.version("torch"):  # the list is of this environment
        return _without_numpy(values, evidence, facts.packages, plain, bool(matches))
    return Hit(values, evidence, (Install((_for_any_torch(facts, plain),)),), "either", confidence=Confidence.LIKELY)


def _for_any_torch(facts: Facts, plain: str) -> str:
    """Every torch takes NumPy 1, whose last release has wheels up to Python 3.12."""
    return plain if (minor(facts.python.version) or (3, 0)) > (3, 12) else "numpy<2"


def _twice(facts: Facts, matches: Matches, warned: list[str]) -> bool:
    """Whether two of them lie in one environment, and something failed of it."""
    return bool(of_variant(matches, "twice") or ("numpy" in facts.packages.duplicates and (warned or matches)))


def _name_gone(facts: Facts, matches: Matches) -> Hit:
    """A program uses a name that NumPy took away: an older NumPy has it still, where this Python has one.

    1.24 took the aliases of Python's own types, 2.0 many more. The first NumPy with wheels for Python 3.12 is 1.26.
    """
    first = {"alias": "1.24"}.get(matches[0].variant, "2")
    too_new = first == "1.24" and (minor(facts.python.version) or (3, 0)) >= (3, 12)
    note = "for Python 3.11 or older" if first == "1.24" else ""
    fixes: tuple[Intent, ...] = () if too_new else (Install((f"numpy<{first}",), note=note),)
    return Hit({"alias": value(matches, "alias"), "first": first}, quoted(matches), fixes, "alias")


def _other(
    values: dict[str, str | None],
    evidence: tuple[Evidence, ...],
    text: str,
    plain_or_wanted: tuple[str, str | None],
    milder: Severity | None,
) -> Hit | None:
    """A NumPy that is there, or is known to be wanted, and not the one that fits."""
    numpy, (plain, wanted) = values["numpy"], plain_or_wanted
    if wanted:
        return Hit(values, evidence, (Install((wanted,)),), "old" if numpy else "either", milder)
    if not numpy:
        return None
    newest = (Install((plain,), flags=UPGRADE, note="the newest that torch and the Python allow"),)  # a NumPy is there
    # API version 0xe came with NumPy 1.20: what is built against it or a later one refuses 1.19 (numpy/core/setup_common.py).
    old = "this version of numpy is" in text or older(release(numpy), "1.20.0")
    return Hit(values, evidence, newest, "old" if old else "unlike", milder)


def _without_numpy(values: dict[str, str | None], evidence: tuple[Evidence, ...], packages: PackagesFacts, plain: str, needed: bool) -> Hit:
    """No NumPy: nothing is wrong with that until a program asks for one. Metadata without the module is what is left of one."""
    if rest := packages.version("numpy"):
        return Hit(values, evidence, (Install((f"numpy=={rest}",), reinstall=True),), "gone", None if needed else Severity.WARNING)
    return Hit(values, evidence, (Install((plain,)),), "absent", None if needed else Severity.INFO)
