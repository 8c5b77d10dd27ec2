"""Rules without a function of their own: all they know is what a program printed."""

from __future__ import annotations

from envcheck.checks.text import quoted
from envcheck.engine.rule import Answer, Check, Confidence, Facts, Hit, Matches


def passed_on(rule: str) -> Check:
    """The check of such a rule."""

    def function(facts: Facts) -> Answer:
        return pass_on(facts.said(rule))

    return Check(rule, function, ("symptoms",), ("symptoms",))


def pass_on(matches: Matches) -> Hit | None:
    """A hit where a message names the rule; variant, confidence and values are those of the message's row: of several the surest one, of
    these the first that was read."""
    if not matches:
        return None
    first = sorted(matches, key=lambda match: match.confidence == Confidence.LIKELY.value)
    best = first[0]
    confidence = Confidence(best.confidence) if best.confidence else None
    return Hit(dict(best.values), quoted(tuple(first)), variant=best.variant or None, confidence=confidence)
