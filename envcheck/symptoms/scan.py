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

from envcheck.facts.record import field, mutable, record
from envcheck.facts.snapshot import TextEvidence
from envcheck.symptoms.normalize import bare, essential, hearsay, loose, one_quote, rewrapped
from envcheck.tables.folders import Folder, toml_files
from envcheck.tables.toml import load_toml

WINDOW_BEFORE, WINDOW_AFTER, WINDOW_LINES = 400, 1400, 4
BEFORE = (0, 1, 3)
HITS = 40  # windows tried for one entry in one piece
KEPT = 3  # different matches kept of one entry
CONDENSE_ABOVE = 1 << 18  # characters; larger pieces are searched with repeated lines left out
CHUNK = 1 << 18  # characters of a long text that are split into words at once
TYPED = 1 << 16  # characters of a text in which sentences are looked for in any case
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
        return re.compile(loose(self.data["pattern"].strip()))

    @cached_property
    def pattern_of_any_case(self) -> re.Pattern[str]:
        """For a sentence that a person typed."""
        return re.compile(self.pattern.pattern, re.IGNORECASE)

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
    def words(self) -> frozenset[str]:
        """The whole words within literals and conditions."""
        texts = [*(literal for entry in self.entries for literal in entry.literals), *map(one_quote, self.conditions)]
        return frozenset(word[1:-1] for text in texts for word in _within(text))

    def absent(self, text: str) -> frozenset[str]:
        """What a long text lacks of GATES, of single characters and of these words; a short one is searched at once."""
        missing = self.words - _words_of(text, self.words)
        return frozenset((*(one for one in (*GATES, *PRINTABLE) if one not in text), *(f" {word} " for word in missing)))

    @cached_property
    def conditions(self) -> tuple[str, ...]:
        """Every text that some entry needs or must not meet elsewhere."""
        return tuple(dict.fromkeys(text for entry in self.entries for key in ("needs", "unless") for text in entry.data.get(key, ())))


def _gates(text: str) -> frozenset[str]:
    """The words of GATES in a text, its characters, and the whole words within it: where one is absent, the text does not occur."""
    return frozenset((*(gate for gate in GATES if gate in text), *text, *_within(text)))


def _within(text: str) -> list[str]:
    """ "in the" of "found in the same": between blanks, not to be taken for a GATES word, which may be a part of one."""
    return [f" {word} " for word in text.split(" ")[1:-1] if word]


def _words_of(text: str, words: frozenset[str]) -> set[str]:
    """Those of these words that stand between blanks in a text."""
    found: set[str] = set()
    at = 0
    while 0 <= at < len(text):
        end = text.find(" ", at + CHUNK)
        found |= words.intersection(text[at : end if end >= 0 else len(text)].split(" "))
        at = end
    return found


def _read_folder(folder: str) -> Iterator[Entry]:
    for path in toml_files(folder).values():
        for kind, rows in load_toml(path).items():
            for row in rows:
                literal = row.get("literal")
                if not literal:
                    raise ValueError(f"{path}: {row.get('id', 'an entry')} has no literal")
                literals = (literal,) if isinstance(literal, str) else literal
                yield Entry(kind, tuple(dict.fromkeys(map(essential, literals))), row)


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
        whole = rewrapped(text)
        for form in (text,) if whole is None else (text, whole):
            self._scan(form, source, stated)

    def _scan(self, text: str, source: str, stated: bool) -> None:
        text = condense(text) if len(text) > CONDENSE_ABOVE else text
        text = "\n".join(map(bare, text.split("\n")))
        flat = one_quote(text).replace("\n", " ")  # a message goes on over the end of a line; places are the same
        typed = flat.lower() if len(flat) <= TYPED else ""
        typed = typed if len(typed) == len(flat) else ""
        absent = self.table.absent(flat) if len(flat) > CONDENSE_ABOVE else frozenset()
        wanted = [one for one in self.table.conditions if one not in self.met]
        self.met.update(one for one in wanted if (not absent or absent.isdisjoint(_gates(one_quote(one)))) and one_quote(one) in flat)
        taken: list[tuple[int, int]] = []
        for entry in self.table.entries:
            if entry.stated is not stated and entry.kind == "symptom":
                continue
            for literal in entry.possible(absent):
                if literal in flat:
                    self._look(entry, entry.pattern, literal, text, flat, source, taken)
                elif typed and literal.count(" ") >= 2 and (low := literal.lower()) in typed:
                    self._look(entry, entry.pattern_of_any_case, low, text, typed, source, taken)
        self.complains = self.complains or (bool(taken) and _complains(text, taken))

    def _look(
        self, entry: Entry, pattern: re.Pattern[str], literal: str, text: str, flat: str, source: str, taken: list[tuple[int, int]]
    ) -> None:
        at, tried = flat.find(literal), 0
        while at >= 0 and tried < HITS and self.count.get(entry.id, 0) < KEPT:
            tried += 1
            window, match = "", None
            for lines_before in BEFORE:  # the message may have begun on a line before
                wider = _window(text, at, len(literal), lines_before)
                if wider != window and (match := pattern.search(one_quote(wider))):
                    window = wider
                    break
                window = wider
            if match and not any(start <= at < end for start, end in taken):
                self._keep(entry, match, window, source, _quoted(text, at))
                if entry.kind == "harmless":
                    taken.append(_line(text, at))
            elif match is None and entry.kind == "harmless" and len(taken) > HITS:
                break
            at = flat.find(literal, _line(text, at)[1])

    def _keep(self, entry: Entry, match: re.Match[str], window: str, source: str, quoted: bool) -> None:
        shown = _shown(window, match)
        if entry.kind != "symptom":
            self.noted.setdefault(entry.id, (entry, Noted(entry.id, source, shown, entry.data.get("ask") or entry.data.get("why", ""))))
            return
        # "port2" is another place of "port": one pattern cannot name a group twice
        named = [name for name, value in match.groupdict().items() if value]
        values = {name.rstrip("0123456789"): window[match.start(name) : match.end(name)] for name in named}
        for rule in entry.rules:
            key = (rule, shown)
            if key not in self.hits:
                self.hits[key] = (entry, TextEvidence(source, shown, rule, entry.id, values, quoted))
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


def _quoted(text: str, at: int) -> bool:
    """Whether the line of this place only quotes a message."""
    start, end = _line(text, at)
    before = text[text.rfind("\n", 0, max(start - 1, 0)) + 1 : max(start - 1, 0)]
    return hearsay(text[start : min(end, start + WINDOW_AFTER)], before[:SHOWN])


def _window(text: str, at: int, length: int, lines_before: int) -> str:
    """The literal's line from its start and the lines after it on one line, with single blanks: who prints a message wraps it."""
    low = max(at - WINDOW_BEFORE, 0)
    start = text.rfind("\n", low, at) + 1
    for _ in range(lines_before):
        start = text.rfind("\n", low, start - 1) + 1 if start > low else start
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
