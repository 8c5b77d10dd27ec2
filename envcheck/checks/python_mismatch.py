"""A Python that a torch release has wheels for and does not quite work with."""

from __future__ import annotations

from envcheck.checks.text import quoted
from envcheck.engine.intents import Install
from envcheck.engine.rule import Evidence, Facts, Hit, Matches, Severity, check
from envcheck.facts.record import record
from envcheck.facts.snapshot import LiveFacts, LiveStatus
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

# Their torchrun imports importlib_metadata below Python 3.10, which no requirement of torch names.
# https://github.com/pytorch/pytorch/issues/163946
_METADATA = ((2, 6), (2, 7), (2, 8))


@check(needs="torch python packages", reads="torch python packages live symptoms")
def torch_python_mismatch(facts: Facts, matches: Matches) -> Hit | None:
    """There is a wheel, and torchrun or torch.save of that release fails on this Python."""
    here, now = minor(facts.torch.version), minor(facts.python.version)
    told = matches[0].variant if matches else None
    values: dict[str, object] = {"torch": facts.torch.version or "2.x", "python": facts.python.version or "3.x"}
    listed = any(one.location for one in facts.packages.distributions)  # by the agent; a pasted list names what somebody thought of
    lacks = here in _METADATA and now and now < (3, 10) and listed and facts.packages.version("importlib-metadata") is None
    if lacks or told == "metadata":
        return _hit(values, "metadata", "importlib-metadata", (*_arms(facts.live, "importlib_metadata"), *quoted(matches)))
    pair = next((one for one in _PAIRS if (one.torch, one.python) == (here, now) or one.variant == told), None)
    if pair is None:
        return None
    values |= {"mended": pair.mended, "older": f"3.{pair.python[1] - 1}"}
    return _hit(values, pair.variant, f"torch>={pair.mended}", (*_arms(facts.live, pair.words), *quoted(matches)))


def _hit(values: dict[str, object], variant: str, requirement: str, seen: tuple[Evidence, ...]) -> Hit:
    """A warning; an error where the full check or a program met it."""
    return Hit(values, seen[:2], (Install((requirement,)),), variant=variant, severity=Severity.ERROR if seen else None)


def _arms(live: LiveFacts, words: str) -> tuple[Evidence, ...]:
    """Parts of the live check that failed with these words."""
    bad = [arm for arm in live.arms if arm.status in (LiveStatus.FAIL, LiveStatus.HANG)]
    met = [arm for arm in bad if words in arm.reason or any(words in rank.error for rank in arm.ranks)]
    return tuple(Evidence(arm.name, (arm.reason.splitlines() or [""])[0]) for arm in met)
