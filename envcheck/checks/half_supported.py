"""A Python that a torch release has wheels for and does not quite work with."""

from __future__ import annotations

from envcheck.engine.intents import Install
from envcheck.engine.rule import Evidence, Hit, Severity, check
from envcheck.facts.record import record
from envcheck.facts.snapshot import LiveFacts, LiveStatus, PythonFacts, TorchFacts
from envcheck.tables.versions import minor


@record
class _Pair:
    """variant: what fails, as the rule's text calls it; words: how an arm of the live check shows it; mended: the first good torch."""

    torch: tuple[int, int]
    python: tuple[int, int]
    variant: str
    words: str
    mended: str


# Each was met with the wheels of the index: torchrun on 2.2.2 and 2.3.1, torch.save on 2.5.1.
_PAIRS = (
    _Pair((2, 2), (3, 12), "torchrun", "SIGSEGV", "2.4"),
    _Pair((2, 3), (3, 12), "torchrun", "SIGSEGV", "2.4"),
    _Pair((2, 5), (3, 13), "save", "persistent_id", "2.6"),
)


@check(needs=("torch", "python"))
def python_too_new_for_torch(torch: TorchFacts, python: PythonFacts, live: LiveFacts) -> Hit | None:
    """There is a wheel, and torchrun or torch.save of that release fails on this Python."""
    have = (minor(torch.version), minor(python.version))
    pair = next((one for one in _PAIRS if (one.torch, one.python) == have), None)
    if pair is None:
        return None
    bad = [arm for arm in live.arms if arm.status in (LiveStatus.FAIL, LiveStatus.HANG)]
    seen = [arm for arm in bad if pair.words in arm.reason or any(pair.words in rank.error for rank in arm.ranks)]
    values = {"torch": torch.version, "python": python.version, "mended": pair.mended, "older": f"3.{pair.python[1] - 1}"}
    evidence = tuple(Evidence(arm.name, (arm.reason.splitlines() or [""])[0]) for arm in seen[:2])
    severity = Severity.ERROR if seen else None
    return Hit(values, evidence, (Install((f"torch>={pair.mended}",)),), variant=pair.variant, severity=severity)


CHECKS = (python_too_new_for_torch,)
