"""Rules about the check itself: how old its tables are, and what the user said must hold."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from envcheck.checks import answer
from envcheck.engine.rule import Evidence, Hit, Unknown, check
from envcheck.facts.snapshot import BackendsFacts, DevicesFacts, ExpectationsFacts, Missing, SystemFacts, TorchFacts
from envcheck.tables.versions import parsed, release

if TYPE_CHECKING:
    from envcheck.tables.compat import Tables

OLD_DAYS = 180  # torch has a release about every two months


@check(sees_missing=("torch", "system"))
def tables_old(torch: TorchFacts | Missing, system: SystemFacts | Missing, tables: Tables) -> Hit | None:
    """A torch newer than the newest row, or a table that was last checked long before the day of the snapshot.

    The other rules come before this one: the tables that were read by now are those that the verdict rests on.
    """
    mine = None if isinstance(torch, Missing) else parsed(release(torch.version))
    today = None if isinstance(system, Missing) or not system.date else _day(system.date)
    if mine is None and today is None:
        return None
    newest = tables.releases()[-1]
    known = parsed(newest.version)
    if mine and known and not mine.is_prerelease and mine.release[:2] > known.release[:2]:
        return Hit({"version": release(getattr(torch, "version", None)), "newest": newest.version})
    checked, name = min(((checked, name) for name, checked in tables.verified.items()), default=(None, ""))
    if today and checked and (today - checked).days > OLD_DAYS:
        values = {"days": (today - checked).days, "checked": checked.isoformat(), "newest": newest.version, "table": name}
        return Hit(values, variant="age")
    return None


def _day(text: str) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        return None


@check()
def expectation_failed(expectations: ExpectationsFacts) -> Hit | Unknown | None:
    """What `--expect` or the configuration demands and the snapshot does not give."""
    if expectations.failed:
        evidence = tuple(Evidence(f"expected {one.expected}", one.reason or f"found {one.found}") for one in expectations.failed)
        listed = "; ".join(f"{one.expected}, {f'but {one.reason}' if one.reason else f'found {one.found}'}" for one in expectations.failed)
        return Hit({"count": len(expectations.failed), "failed": listed}, evidence)
    if expectations.undecided:
        return Unknown("; ".join(f"{one.expected}: {one.reason}" for one in expectations.undecided))
    return None


# Backends that work between GPUs alone, and which wheels have them. gloo is in every wheel; MPI and UCC are in none.
_OF_GPUS = {"nccl": "CUDA or ROCm", "xccl": "XPU"}


@check(sees_missing=("torch", "backends", "devices"))
def backend_unavailable(
    expectations: ExpectationsFacts, torch: TorchFacts | Missing, backends: BackendsFacts | Missing, devices: DevicesFacts | Missing
) -> Hit | Unknown | None:
    """`--backend` names one that the build lacks, or that has no device to work on."""
    name = expectations.backend
    if name is None or isinstance(torch, Missing):
        return None
    values = {"backend": name, "version": torch.version or "of this environment", "build": _OF_GPUS.get(name, "")}
    built = _built(name, torch, backends)
    if built is None:
        return Unknown(f"whether torch has {name}: {backends.reason if isinstance(backends, Missing) else 'this version does not say'}")
    evidence = (Evidence("--backend", name),)
    if not built:
        return Hit(values, evidence, variant={"nccl": None, "xccl": None, "gloo": "gloo"}.get(name, "source"))
    if name in _OF_GPUS and answer.fails(devices):
        error = getattr(devices, "error", None)
        return Hit(values, (*evidence, Evidence("torch", error or "sees no device")), variant="device")
    return None


def _built(name: str, torch: TorchFacts, backends: BackendsFacts | Missing) -> bool | None:
    if not isinstance(backends, Missing):
        found: bool | None = False if backends.distributed is False else getattr(backends, name)
        return found
    lacks = {"nccl": torch.cuda is None and torch.hip is None, "xccl": torch.xpu is None}.get(name, False)
    return False if lacks and torch.cpu_build else None


CHECKS = (tables_old, expectation_failed, backend_unavailable)
