"""What a person tells by several concepts together, none of which tells it alone: the rows of `rules/words/gists.toml`.

    Cannot install this on my RTX 5090           双卡训练一开始就卡死               nur eine GPU wird benutzt (Slurm)
    after `apt upgrade` nvidia-smi fails         训练到一半进程被 Killed            is_available() is False in the container

All of it is likely at most. A complaint is heard where no message of a program says more (`merge`); what a setup lacks, and why a run
stands still, where none names a cause, or where it tells why the message came.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from envcheck.facts.snapshot import TextEvidence
from envcheck.read.concepts import POST, Mention, Said, said
from envcheck.read.counted import COUNTED
from envcheck.read.found import Found
from envcheck.tables.folders import rules_folder
from envcheck.tables.toml import load_toml

Row: TypeAlias = Mapping[str, Any]

UNUSED = "gpu-unused"
_OF_WORDS = ("hangs-where-they-meet",)  # a row that tells no more than what is told here


@lru_cache(maxsize=1)
def rows() -> Mapping[str, Sequence[Row]]:
    """The rows by their kind: complaint, setup, still."""
    return load_toml(rules_folder("words/gists.toml"))


def read_complaints(text: str) -> Found | None:
    """The complaints of a text, the gravest first, two at most."""
    signs: dict[str, TextEvidence] = {}
    for one in _told(text, "complaint", "complaints"):
        signs.setdefault(one.rule, one)
        if len(signs) == 2:
            break
    return Found("complaints", signs=tuple(signs.values()), rank=0) if signs else None


def told_faults(text: str, name: str) -> tuple[TextEvidence, ...]:
    """What a person most probably has, whose setup lacks something, or who tells of a run that stands still."""
    return tuple(_told(text, "setup", name)) or tuple(_told(text, "still", name))


def unless_known(told: Sequence[TextEvidence], known: Sequence[TextEvidence]) -> Sequence[TextEvidence]:
    """What is told, where no message and no sign names a cause, or where it is the cause of what they name."""
    if all(one.symptom in _OF_WORDS for one in known):
        return told
    return tuple(one for one in told if all(other.rule in _explained(one) for other in known if not other.second))


def stands_still(text: str) -> Mention | None:
    """Where a person says that a run goes no further."""
    return None if said(text).over else said(text).find("stands-still")


def _explained(one: TextEvidence) -> Sequence[str]:
    """The rules of messages that what is told explains."""
    same = (row for row in rows()["setup"] if (row["rule"], row.get("variant", "")) == (one.rule, one.variant))
    return next((row["explains"] for row in same if "explains" in row), ())


def _told(text: str, kind: str, name: str) -> Iterator[TextEvidence]:
    if len(text) > POST or said(text).over:
        return
    for row in rows()[kind]:
        if (place := heard(said(text), row)) is None:
            continue
        if rule := row.get("rule"):
            sign, variant = row.get("sign", f"told-{rule}"), row.get("variant", "")
            yield TextEvidence(name, said(text).line(place), rule, sign, dict(place.values), variant=variant, confidence="likely")
        if kind != "complaint" and not row.get("goes_on"):
            return


def heard(text: Said, row: Row) -> Mention | None:
    """Where a text says what a row asks for: the place of its first concept."""
    first, *others = row["every"]
    if _find(text, first) is None or not all(_find(text, one) for one in others):
        return None
    if ("some" in row and not any(_find(text, one) for one in row["some"])) or any(_find(text, one) for one in row.get("unless", ())):
        return None
    if not (apart := row.get("unless_line")):
        return _find(text, first)
    return next((place for place in text.all(first) if not any(text.part(text.line(place)).find(one) for one in apart)), None)


def _find(text: Said, concept: str) -> Mention | None:
    return COUNTED[concept](text) if concept in COUNTED else text.find(concept)
