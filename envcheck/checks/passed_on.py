"""Rules without a function of their own: all they know is what a program printed."""

from __future__ import annotations

from envcheck.checks.text import quoted
from envcheck.engine.rule import Answer, Check, Confidence, Facts, Hit


def passed_on(rule: str) -> Check:
    """The check of such a rule. It hits where a message names the rule; variant, confidence and values are those of the message's row:
    of several the surest one, of these the first that was read."""

    def function(facts: Facts) -> Answer:
        matches = sorted(facts.said(rule), key=lambda match: match.confidence == Confidence.LIKELY.value)
        if not matches:
            return None
        best = matches[0]
        confidence = Confidence(best.confidence) if best.confidence else None
        return Hit(dict(best.values), quoted(tuple(matches)), variant=best.variant or None, confidence=confidence)

    return Check(rule, function, ("symptoms",), ("symptoms",))
