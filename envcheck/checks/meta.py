"""Rules about the check itself: how old its tables are, and what the user said must hold."""

from __future__ import annotations

import datetime

from envcheck.checks import answer
from envcheck.engine.rule import Answer, Evidence, Facts, Hit, Unknown, check
from envcheck.facts.snapshot import TorchFacts
from envcheck.tables.versions import parsed, release

OLD_DAYS = 180  # torch has a release about every two months


@check(needs="system", reads="torch system")
def tables_old(facts: Facts) -> Answer:
    """The other rules come before this one: the tables that were read by now are those that the verdict rests on."""
    mine, today = parsed(release(facts.torch.version)), _day(facts.system.date)
    if mine is None and today is None:
        return None
    newest = facts.tables.releases()[-1]
    known = parsed(newest.version)
    if mine and known and not mine.is_prerelease and mine.release[:2] > known.release[:2]:
        return Hit({"version": release(facts.torch.version), "newest": newest.version})
    checked, name = min(((checked, name) for name, checked in facts.tables.verified.items()), default=(None, ""))
    if today and checked and (today - checked).days > OLD_DAYS:
        values = {"days": (today - checked).days, "checked": checked.isoformat(), "newest": newest.version, "table": name}
        return Hit(values, variant="age")
    return None


@check(needs="system", reads="system")
def root_path_open(facts: Facts) -> Answer:
    """What root's shell would look through all the same: this run has left it out."""
    entries = facts.system.path_left_out
    if not entries:
        return None
    named = [entry or "the working folder (an empty entry)" for entry in entries]
    folders = [entry for entry in entries if entry.startswith("/")]
    only_relative = not folders
    return Hit({"entries": named, "folders": folders}, variant="relative" if only_relative else None)


def _day(text: str | None) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(text) if text else None
    except ValueError:
        return None


@check(needs="expectations", reads="expectations")
def expectation_failed(facts: Facts) -> Answer:
    expectations = facts.expectations
    if expectations.failed:
        evidence = tuple(Evidence(f"expected {one.expected}", one.reason or f"found {one.found}") for one in expectations.failed)
        listed = "; ".join(f"{one.expected}, {f'but {one.reason}' if one.reason else f'found {one.found}'}" for one in expectations.failed)
        return Hit({"count": len(expectations.failed), "failed": listed}, evidence)
    if expectations.undecided:
        return Unknown("; ".join(f"{one.expected}: {one.reason}" for one in expectations.undecided))
    return None


# Backends that work between GPUs alone, and which wheels have them. gloo is in every wheel; MPI and UCC are in none.
_OF_GPUS = {"nccl": "CUDA or ROCm", "xccl": "XPU"}


@check(needs="expectations", reads="expectations torch backends devices")
def backend_unavailable(facts: Facts) -> Answer:
    name = facts.expectations.backend
    if name is None or "torch" in facts.absent:
        return None
    built = False if facts.backends.distributed is False or _lacks_devices(name, facts.torch) else getattr(facts.backends, name)
    if built is None:
        return Unknown(f"whether torch has {name}: it was not asked, or this version does not say")
    values = {"backend": name, "version": facts.torch.version or "of this environment", "build": _OF_GPUS.get(name, "")}
    evidence = (Evidence("--backend", name),)
    if not built:
        return Hit(values, evidence, variant={"nccl": None, "xccl": None, "gloo": "gloo"}.get(name, "source"))
    if name in _OF_GPUS and answer.fails(facts.devices):
        return Hit(values, (*evidence, Evidence("torch", facts.devices.error or "sees no device")), variant="device")
    return None


def _lacks_devices(name: str, torch: TorchFacts) -> bool:
    """A build for the CPU, of which the backend for GPUs is no part."""
    return torch.cpu_build is True and ((name == "nccl" and not torch.cuda and not torch.hip) or (name == "xccl" and not torch.xpu))
