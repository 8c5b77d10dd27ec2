"""Warnings that no row of messages knows (rules/symptoms/warnings.toml), placed by the part of the program that printed them."""

from __future__ import annotations

from envcheck.checks.hardware import nccl_proved
from envcheck.checks.text import Matches, quoted, said
from envcheck.engine.rule import Answer, Check, Confidence, Hit, Severity, check
from envcheck.facts.record import replace
from envcheck.facts.snapshot import WARNED, LiveFacts, LiveStatus, SymptomsFacts


def or_warned(one: Check) -> Check:
    """The same check, which reads such warnings only where it would say nothing. A live check that passed has overruled them."""
    if "symptoms" not in one.parameters:
        return one

    def function(*, symptoms: SymptomsFacts, live: LiveFacts, **others: object) -> Answer:
        mine = tuple(match for match in said(symptoms, one.id) if match.variant == WARNED)
        if mine:
            symptoms = SymptomsFacts(tuple(match for match in symptoms.matches if match not in mine))
        given = {"symptoms": symptoms, "live": live, **others}
        answer = one.function(**{name: given[name] for name in one.parameters})
        return answer if isinstance(answer, Hit) or not mine or _proved(live) else _placed(mine, WARNED)

    return replace(one, function=function, parameters=tuple(dict.fromkeys((*one.parameters, "live"))))


def _proved(live: LiveFacts) -> bool:
    return live.status is LiveStatus.PASS or nccl_proved(live)


# https://github.com/NVIDIA/nccl/blob/master/src/nccl.h.in
_RESULTS = {
    "1": "ncclUnhandledCudaError", "2": "ncclSystemError", "3": "ncclInternalError", "4": "ncclInvalidArgument", "5": "ncclInvalidUsage",
    "6": "ncclRemoteError",
}  # fmt: skip


def _placed(matches: Matches, variant: str | None) -> Hit:
    what = matches[0].values.get("what", "").rstrip(".")
    values = {"what": f"{_RESULTS[what]} ({what})" if what in _RESULTS else what, "file": matches[0].values.get("file", "")}
    return Hit(values, quoted(matches), variant=variant, severity=Severity.WARNING, confidence=Confidence.LIKELY)


@check(needs=("symptoms",))
def nccl_warning(symptoms: SymptomsFacts, live: LiveFacts) -> Answer:
    """A warning of NCCL that no other rule is about."""
    matches = said(symptoms, "nccl-warning")
    return _placed(matches, matches[0].variant or None) if matches and not _proved(live) else None
