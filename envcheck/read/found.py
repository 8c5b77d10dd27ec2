"""What a reader found in a text: facts by dotted path with the line each came from, and signs of rules."""

from __future__ import annotations

from enum import Enum

from envcheck.facts.printable import begin_of
from envcheck.facts.record import field, mutable, record
from envcheck.facts.snapshot import TextEvidence

LINE_LIMIT = 400  # characters of a line that are kept as evidence


def kept(line: str) -> str:
    """A line as evidence."""
    return begin_of(line.strip(), LINE_LIMIT)


def line_at(text: str, at: int) -> tuple[str, int]:
    """The line of a text that a place stands in, and its number from 1."""
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    return text[start : end if end >= 0 else len(text)], text.count("\n", 0, start) + 1


def likely_sign(words: str, rule: str, symptom: str, variant: str, values: dict[str, str]) -> TextEvidence:
    """A sign that is read from a whole text, out of no message that a program prints: likely, whatever its rule is."""
    return TextEvidence("statements", words, rule, symptom, values=values, variant=variant, confidence="likely")


@record
class Fact:
    """One statement. `path` is a field of the snapshot ("driver.version"), or one of
    "env.NAME", "package.NAME", "gpu.0", "missing.SECTION" (known to be absent), "other.KEY" (evidence only)."""

    path: str
    value: object
    line: str
    number: int = 0  # of the line in its text, from 1; 0 = not from a line


class Role(Enum):
    """Who or what a claim is about."""

    HAS = "has"  # this machine, now
    BUILT_FOR = "built for"  # something was built for, trained with or needs it
    ASKED = "asked for"  # a command or program asks for it
    ELSEWHERE = "elsewhere"  # another machine or environment, an earlier state, what was tried


@record
class Claim:
    """One statement: `subject` is the dotted path of a fact."""

    subject: str
    value: object
    role: Role
    printed: bool  # by a program, or as a value beside its name; not in a sentence
    line: str
    number: int


@record
class Found:
    """What one reader recognised."""

    kind: str  # "collect_env", "pip list", "NCCL log"
    facts: tuple[Fact, ...] = ()
    signs: tuple[TextEvidence, ...] = ()  # what the text shows of a rule and no single message says
    rank: int = 1  # 0 messages in passing, 1 a tool's own report, 2 what a person stated
    claims: tuple[Claim, ...] = ()  # all that was said, whomever it is about
    doubts: tuple[str, ...] = ()  # of what this machine has: two claims that disagree


@mutable
class Notes:
    """Facts as they are collected by one reader; the first statement of a path stays."""

    kind: str
    rank: int = 1
    facts: dict[str, Fact] = field(default_factory=dict)
    signs: list[TextEvidence] = field(default_factory=list)

    def put(self, path: str, value: object, line: str, number: int = 0) -> None:
        """Keep a fact unless the path is taken or the value says nothing."""
        if value is not None and path not in self.facts:
            self.facts[path] = Fact(path, value, kept(line), number)

    def sign(self, rule: str, line: str, symptom: str, values: dict[str, str] | None = None) -> None:
        one = TextEvidence(self.kind, kept(line), rule, symptom, values or {})
        if one not in self.signs:
            self.signs.append(one)

    def found(self) -> Found | None:
        """None where nothing was recognised."""
        if not self.facts and not self.signs:
            return None
        return Found(self.kind, tuple(self.facts.values()), tuple(self.signs), self.rank)
