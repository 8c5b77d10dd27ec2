"""Known error text → rule id: the table rules/symptoms/*.toml over a text of any size.

An entry is looked for by a literal first, so a log costs one substring search an entry; its regular expression is
compiled only where the literal occurs and sees a bounded window of a few lines. Entries are of three kinds: a symptom
names a rule, a victim says that something else failed first, a harmless one takes its line out of the count.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from envcheck.facts import TextEvidence
from envcheck.record import field, mutable, record
from envcheck.rule import Folder
from envcheck.toml import load_toml

WINDOW_BEFORE, WINDOW_AFTER, WINDOW_LINES = 400, 1400, 4
HITS = 40  # windows tried for one entry in one piece
KEPT = 3  # different matches kept of one entry
CONDENSE_ABOVE = 1 << 18  # characters; larger pieces are searched with repeated lines left out
SHOWN = 300

# Words of which most literals hold one: where such a word does not occur, a long text is spared the searches for those.
GATES = (
    "NCCL", "nccl", "CUDA", "cuda", "nvidia", "NVIDIA", "NVML", "torch", "Torch", "lib", "Error", "error", "failed", "rank", "GPU",
    "device", "driver", "not ", "symbol", "process", "exitcode", "module", "version", "IB", "HIP", "hip", "MPS", "XPU", "UR", "SLURM",
    "docker", "num", "Num", "ail", "xpected", "lash", "xform", "vllm", "cannot", "cuBLAS", "STATUS", "nsupported", "memory", "triton",
    "ptx", "undefined", "address", "connect", "Connect", "socket", "loo", "ACS", "IOMMU", "ignal", "illed", "oom", "shm", "open ",
    "requirement",
)  # fmt: skip

PRINTABLE = "".join(map(chr, range(32, 127)))
_NO_DIGITS = dict.fromkeys(range(48, 58))


@record
class Entry:
    """One entry of the table. CONTRIBUTING.md has its keys."""

    kind: str  # "symptom", "victim", "harmless"
    literals: tuple[str, ...]
    data: Mapping[str, Any]

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(self.data["pattern"].strip())

    @property
    def id(self) -> str:
        return str(self.data["id"])

    @property
    def rules(self) -> tuple[str, ...]:
        return (self.data["rule"], *self.data.get("also", ())) if self.kind == "symptom" else ()

    @cached_property
    def gated(self) -> tuple[tuple[str, frozenset[str]], ...]:
        """The literals, each with what it is made of."""
        return tuple((literal, _gates(literal)) for literal in self.literals)

    def possible(self, absent: frozenset[str]) -> Sequence[str]:
        """The literals that a text can hold which lacks these words and characters."""
        return [literal for literal, gates in self.gated if absent.isdisjoint(gates)] if absent else self.literals

    @property
    def stated(self) -> bool:
        """It matches observations of a person, not what a program prints."""
        return bool(self.data.get("stated"))


@record
class Noted:
    """A line that names no rule: a victim's last words, or a message that means no harm."""

    entry: str
    source: str
    text: str
    advice: str  # of a victim: what would show the cause; of a harmless line: why it is one


@record
class Symptoms:
    """What a set of texts shows."""

    matches: tuple[TextEvidence, ...] = ()
    victims: tuple[Noted, ...] = ()
    harmless: tuple[Noted, ...] = ()


@record
class SymptomTable:
    """The entries below one or more folders `rules/` (a site's comes last)."""

    folders: tuple[Folder, ...]

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """Harmless entries come first, since they take lines away from the others."""
        found = [entry for folder in self.folders for entry in _read_folder(os.path.join(folder, "symptoms"))]
        return tuple(sorted(found, key=lambda entry: entry.kind != "harmless"))

    @cached_property
    def conditions(self) -> tuple[str, ...]:
        """Every text that some entry needs or must not meet elsewhere."""
        return tuple(dict.fromkeys(text for entry in self.entries for key in ("needs", "unless") for text in entry.data.get(key, ())))


def _gates(text: str) -> frozenset[str]:
    """The words of GATES in a text, and its characters: where one of them does not occur, the text does not."""
    return frozenset((*(gate for gate in GATES if gate in text), *text))


def _absent(text: str) -> frozenset[str]:
    """What a long text lacks of them; a short one is searched at once."""
    if len(text) <= CONDENSE_ABOVE:
        return frozenset()
    return frozenset(one for one in (*GATES, *PRINTABLE) if one not in text)


def _read_folder(folder: str) -> Iterator[Entry]:
    if not os.path.isdir(folder):
        return
    for name in sorted(os.listdir(folder)):
        if name.endswith(".toml"):
            for kind, rows in load_toml(os.path.join(folder, name)).items():
                for row in rows:
                    literal = row.get("literal")
                    if not literal:
                        raise ValueError(f"{name}: {row.get('id', 'an entry')} has no literal")
                    yield Entry(kind, (literal,) if isinstance(literal, str) else tuple(literal), row)


@mutable
class Scanner:
    """Collects what the texts of one run show; `finish` weighs needs and unless over all of them."""

    table: SymptomTable
    met: set[str] = field(default_factory=set)
    hits: dict[tuple[str, str], tuple[Entry, TextEvidence]] = field(default_factory=dict)
    noted: dict[str, tuple[Entry, Noted]] = field(default_factory=dict)
    count: dict[str, int] = field(default_factory=dict)
    complains: bool = False  # beside lines that mean no harm, a text holds an error of its own

    def scan(self, text: str, source: str, *, stated: bool = False) -> None:
        """Search one clean piece of text. `stated` marks a person's observations: then only entries meant for them are tried."""
        if len(text) > CONDENSE_ABOVE:
            text = condense(text)
        absent = _absent(text)
        wanted = [one for one in self.table.conditions if one not in self.met]
        self.met.update(one for one in wanted if (not absent or absent.isdisjoint(_gates(one))) and one in text)
        taken: list[tuple[int, int]] = []
        for entry in self.table.entries:
            for literal in entry.possible(absent):
                if literal in text and (entry.stated is stated or entry.kind != "symptom"):
                    self._look(entry, literal, text, source, taken)
        self.complains = self.complains or (bool(taken) and _complains(text, taken))

    def _look(self, entry: Entry, literal: str, text: str, source: str, taken: list[tuple[int, int]]) -> None:
        at, tried = text.find(literal), 0
        while at >= 0 and tried < HITS and self.count.get(entry.id, 0) < KEPT:
            tried += 1
            window = _window(text, at, len(literal), 0)
            match = entry.pattern.search(window)
            if match is None:  # the message may have begun on the line before
                window = _window(text, at, len(literal), 1)
                match = entry.pattern.search(window)
            if match and not any(start <= at < end for start, end in taken):
                self._keep(entry, match, window, source)
                if entry.kind == "harmless":
                    taken.append(_line(text, at))
            elif match is None and entry.kind == "harmless" and len(taken) > HITS:
                break
            at = text.find(literal, _line(text, at)[1])

    def _keep(self, entry: Entry, match: re.Match[str], window: str, source: str) -> None:
        shown = _shown(window, match)
        if entry.kind != "symptom":
            self.noted.setdefault(entry.id, (entry, Noted(entry.id, source, shown, entry.data.get("ask") or entry.data.get("why", ""))))
            return
        # "port2" is another place of "port": one pattern cannot name a group twice
        values = {name.rstrip("0123456789"): value for name, value in match.groupdict().items() if value}
        for rule in entry.rules:
            key = (rule, shown)
            if key not in self.hits:
                self.hits[key] = (entry, TextEvidence(source, shown, rule, entry.id, values))
                if rule == entry.rules[0]:
                    self.count[entry.id] = self.count.get(entry.id, 0) + 1

    def finish(self) -> Symptoms:
        """Matches whose conditions hold."""
        kept = tuple(evidence for entry, evidence in self.hits.values() if self._holds(entry))
        noted = {kind: tuple(one for entry, one in self.noted.values() if entry.kind == kind) for kind in ("victim", "harmless")}
        return Symptoms(kept, noted["victim"], noted["harmless"])

    def _holds(self, entry: Entry) -> bool:
        needs, unless = entry.data.get("needs", ()), entry.data.get("unless", ())
        return (not needs or any(text in self.met for text in needs)) and not any(text in self.met for text in unless)


_COMPLAINTS = ("Error:", "ERROR", "error:", "FATAL", "fatal:", "Exception")


def _complains(text: str, taken: Sequence[tuple[int, int]]) -> bool:
    """Whether an error stands outside these lines."""
    at = 0
    for start, end in sorted(taken):
        if any(text.find(word, at, start) >= 0 for word in _COMPLAINTS):
            return True
        at = max(at, end)
    return any(text.find(word, at) >= 0 for word in _COMPLAINTS)


def condense(text: str) -> str:
    """A large text without the lines that only repeat earlier ones but for their numbers (steps, losses, time stamps).

    A line that follows a new one is kept too, so that a message over several lines stays whole.
    """
    lines = text.split("\n")
    keys = text.translate(_NO_DIGITS).split("\n")
    seen: set[str] = set()
    kept: list[str] = []
    follow = 0
    for line, key in zip(lines, keys, strict=True):
        if key not in seen:
            seen.add(key)
            follow = WINDOW_LINES
        elif not follow:
            continue
        else:
            follow -= 1
        kept.append(line)
    return "\n".join(kept)


def _line(text: str, at: int) -> tuple[int, int]:
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    return start, len(text) if end < 0 else end + 1


def _window(text: str, at: int, length: int, lines_before: int) -> str:
    """The literal's line from its start and the lines after it on one line, with single blanks: who prints a message wraps it."""
    low = max(at - WINDOW_BEFORE, 0)
    start = text.rfind("\n", low, at) + 1
    for _ in range(lines_before if start else 0):
        start = text.rfind("\n", low, start - 1) + 1
    start = max(start, low)
    end = at + length
    for _ in range(WINDOW_LINES):
        newline = text.find("\n", end, at + WINDOW_AFTER)
        if newline < 0:
            end = min(at + WINDOW_AFTER, len(text))
            break
        end = newline + 1
    return " ".join(text[start:end].split())


def _shown(window: str, match: re.Match[str]) -> str:
    """The part of the window worth quoting: the match with some of what surrounds it."""
    start = max(match.start() - 60, 0)
    end = min(max(match.end(), start + SHOWN // 2), match.start() + SHOWN)
    return f"{'…' if start else ''}{window[start:end].strip()}{'…' if end < len(window) else ''}"
