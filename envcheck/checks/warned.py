"""Warnings that no row of messages knows (rules/symptoms/warnings.toml), placed by the part of the program that printed them."""

from __future__ import annotations

from envcheck.checks.hardware import nccl_proved
from envcheck.checks.text import quoted
from envcheck.engine.rule import Answer, Check, Confidence, Facts, Hit, Matches, Severity, check
from envcheck.facts.record import replace
from envcheck.facts.snapshot import WARNED, LiveFacts, LiveStatus, SymptomsFacts


def or_warned(one: Check) -> Check:
    """The same check, which reads such warnings only where it would say nothing. A live check that passed has overruled them."""
    if "symptoms" not in one.reads:
        return one

    def function(facts: Facts) -> Answer:
        mine = tuple(match for match in facts.said(one.id) if match.variant == WARNED)
        if not mine:
            return one.answer(facts)
        others = tuple(match for match in facts.symptoms.matches if match not in mine)
        answer = one.answer(replace(facts, symptoms=SymptomsFacts(others)))
        return answer if isinstance(answer, Hit) or _proved(facts.live) else _placed(mine, WARNED)

    return replace(one, function=function, reads=tuple(dict.fromkeys((*one.reads, "live"))))


def _proved(live: LiveFacts) -> bool:
    return live.status is LiveStatus.PASS or nccl_proved(live)


# https://github.com/NVIDIA/nccl/blob/master/src/nccl.h.in
_RESULTS = {
    "1": "ncclUnhandledCudaError", "2": "ncclSystemError", "3": "ncclInternalError", "4": "ncclInvalidArgument", "5": "ncclInvalidUsage",
    "6": "ncclRemoteError",
}  # fmt: skip


def _placed(matches: Matches, variant: str | None) -> Hit:
    what = matches[0].values.get("what", "").removeprefix("Warning: ").rstrip(".")
    values = {"what": f"{_RESULTS[what]} ({what})" if what in _RESULTS else what, "file": matches[0].values.get("file", "").lstrip("[./")}
    return Hit(values, quoted(matches), variant=variant, severity=Severity.WARNING, confidence=Confidence.LIKELY)


@check(needs="symptoms", reads="symptoms live")
def nccl_warning(facts: Facts, matches: Matches) -> Answer:
    """A warning of NCCL that no other rule is about."""
    return _placed(matches, matches[0].variant or None) if matches and not _proved(facts.live) else None
