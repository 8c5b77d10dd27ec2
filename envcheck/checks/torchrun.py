"""A torchrun that cannot start anything with the Python it is run by."""

from __future__ import annotations

from envcheck.engine.intents import Install
from envcheck.engine.rule import Evidence, Hit, Severity, check
from envcheck.facts.snapshot import Arm, LiveFacts, PythonFacts, TorchFacts
from envcheck.tables.versions import minor

# Its store is called without the interpreter's lock, which allocations of 3.12 need; mended in 2.4.
# https://github.com/pytorch/pytorch/issues/125990
TORCH, PYTHON = ((2, 2), (2, 3)), (3, 12)


@check(needs=("torch", "python"))
def torchrun_crashes(torch: TorchFacts, python: PythonFacts, live: LiveFacts) -> Hit | None:
    """torch 2.2 and 2.3 on Python 3.12: torchrun dies before it starts a worker."""
    if minor(torch.version) not in TORCH or minor(python.version) != PYTHON:
        return None
    seen = tuple(Evidence(arm.name, arm.reason) for arm in live.arms if _crashed(arm))
    values = {"torch": torch.version, "python": python.version}
    return Hit(values, seen[:2], (Install(("torch>=2.4",)),), severity=Severity.ERROR if seen else None)


def _crashed(arm: Arm) -> bool:
    return arm.name.startswith("torchrun") and "SIGSEGV" in arm.reason


CHECKS = (torchrun_crashes,)
