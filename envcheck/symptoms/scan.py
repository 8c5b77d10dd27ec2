"""Known messages of programs → rule ids: the rows of rules/symptoms/*.toml over a text of any size.

A row is tried where all its words occur: the words of a text are taken apart once, and an index of the rows' words names those that
are possible. Its longest piece shows the places, and its template sees a bounded window of a few lines there. Rows are of three
kinds: a symptom names a rule, a victim says that something else failed first, a harmless one takes its line out of the count.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

from envcheck.facts.printable import begin_of
from envcheck.facts.record import field, mutable, record, replace
from envcheck.facts.secrets import MASK, mask_secrets
from envcheck.facts.snapshot import TextEvidence
from envcheck.read.clean import words_in
from envcheck.read.failed import says_failure
from envcheck.symptoms.languages import Languages
from envcheck.symptoms.normalize import bare, denied, hearsay, one_quote, rewrapped
from envcheck.symptoms.retyped import LIMIT, retyped, typed_pieces
from envcheck.symptoms.template import Anchor, Hole, Part, Word, anchors, condition_anchor, expression, parts_of, weight
from envcheck.tables.folders import Folder, toml_files
from envcheck.tables.toml import JSON, load_toml

WINDOW_BEFORE, WINDOW_AFTER, WINDOW_LINES = 400, 1400, 4  # characters, characters, lines
BEFORE = (0, 1, 3)  # lines
HITS = 40  # windows tried for one row in one text
KEPT = 3  # different matches kept of one symptom
CONDENSE_ABOVE = 1 << 18  # characters; larger pieces are searched with repeated lines left out
CHUNK = 1 << 13  # characters of a text that are searched at once
TYPED = 1 << 16  # characters of a text in which sentences are looked for in any case
SHOWN = 300  # characters

_FALLBACK = "a fallback"

_NO_DIGITS = dict.fromkeys(range(48, 58))


@record
class Named:
    """A rule that a row points to, and which case of that rule it shows."""

    rule: str
    variant: str = ""
    confidence: str = ""


@record
class Message:
    """One row: one message of a program. CONTRIBUTING.md has its keys."""

    kind: str  # "symptom", "victim", "harmless"
    id: str
    text: str  # the template
    data: Mapping[str, Any]  # what the rows of one symptom share
    variant: str = ""
    confidence: str = ""
    sample: str = ""  # of a row with a regular expression; any other is its own
    shipped: Sequence[tuple[str, Sequence[str]]] = ()  # its anchors, where a wheel has them

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return parts_of(self.text)

    @cached_property
    def anchors(self) -> tuple[Anchor, ...]:
        return tuple(Anchor(piece, tuple(words)) for piece, words in self.shipped) or anchors(self.parts)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(expression(self.parts), re.ASCII)  # Chinese and Japanese put no blank between a message and their words

    @cached_property
    def to_the_end(self) -> bool:
        """Whether nothing may follow on the line: "Killed"."""
        return self.text.endswith("$/}")

    @cached_property
    def pattern_of_any_case(self) -> re.Pattern[str]:
        """For a sentence that a person typed."""
        return re.compile(self.pattern.pattern, re.IGNORECASE | re.ASCII)

    @cached_property
    def named(self) -> tuple[Named, ...]:
        """The rules that it points to, the first first. Another one has the row's variant and confidence where it has none of its own."""
        if self.kind != "symptom":
            return ()
        first = Named(self.data["rule"], self.variant, self.confidence)
        also = ({"rule": one} if isinstance(one, str) else one for one in self.data.get("also", ()))
        return (first, *(replace(first, **one) for one in also))

    @property
    def rules(self) -> tuple[str, ...]:
        return tuple(one.rule for one in self.named)

    @cached_property
    def loose(self) -> bool:
        """Whether it holds any words between two of its own."""
        return any(isinstance(one, Hole) and one.type in ("any", "line") for one in self.parts)

    @cached_property
    def typed(self) -> Sequence[str]:
        """What is looked for in a text that a person typed from memory."""
        return () if self.stated or self.fallback or self.alone else typed_pieces(self.parts)

    @property
    def stated(self) -> bool:
        """It matches observations of a person, not what a program prints."""
        return bool(self.data.get("stated"))

    @property
    def fallback(self) -> bool:
        """It places a line that no other row knows, by where the program keeps it."""
        return bool(self.data.get("fallback"))

    @property
    def alone(self) -> bool:
        """It says so little that it counts only where no other row names a rule: a library's bare result, a complaint in words."""
        return bool(self.data.get("alone"))


@record
class Noted:
    """A line that names no rule: a victim's last words, or a message that means no harm."""

    entry: str
    source: str
    text: str
    advice: str  # of a victim: what would show the cause; of a harmless line: why it is one
    ends: bool = False  # the program ends with it, by a fault of its own


@record
class Symptoms:
    """What a set of texts shows."""

    matches: tuple[TextEvidence, ...] = ()
    victims: tuple[Noted, ...] = ()
    harmless: tuple[Noted, ...] = ()


@record
class SymptomTable:
    """The rows below one or more folders `rules/` (a site's comes last)."""

    folders: tuple[Folder, ...]

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """Harmless rows come first, since they take lines away from the others; those of lines that nobody else knows come last."""
        found = [row for folder in self.folders for row in _read_folder(folder)]
        return tuple(sorted(found, key=lambda row: (row.kind != "harmless", row.fallback)))

    @cached_property
    def index(self) -> Mapping[Word, Sequence[tuple[int, Message | str, Anchor]]]:
        """Conditions and rows, numbered in their order, by the rarest word, or pair, of each of their anchors."""
        conditions = dict.fromkeys(text for row in self.messages for key in ("needs", "unless") for text in row.data.get(key, ()))
        entries: list[tuple[Message | str, Anchor]] = [(text, condition_anchor(one_quote(text))) for text in conditions]
        entries += [(row, anchor) for row in self.messages for anchor in row.anchors]
        found: dict[Word, list[tuple[int, Message | str, Anchor]]] = {}
        for number, (row, anchor) in enumerate(entries):
            found.setdefault(anchor.rarest, []).append((number, row, anchor))
        return found

    @cached_property
    def rarest(self) -> frozenset[Word]:
        return frozenset(self.index)

    @cached_property
    def languages(self) -> Languages:
        return Languages(self.folders)

    def possible(self, words: Sequence[str]) -> Iterator[tuple[Message | str, str]]:
        """The rows that a text of these words can hold, each with a piece of it, in their order; before them the conditions, texts that a
        row needs or must not meet elsewhere.
        """
        near = self.rarest.intersection(words) | self.rarest.intersection(zip(words, words[1:], strict=False))
        held = frozenset((*words, *zip(words, words[1:], strict=False))) if near else frozenset()
        entries = [one for word in ("", *near) for one in self.index.get(word, ()) if one[2].needed <= held]
        for _, row, anchor in sorted(entries, key=lambda one: one[0]):
            yield row, anchor.piece


def _read_folder(folder: Folder) -> Iterator[Message]:
    for path in toml_files(folder, "symptoms").values():
        for kind, symptoms in load_toml(path).items():
            for data in symptoms:
                yield from _rows(path, kind, data)


def _rows(file: str, kind: str, data: Mapping[str, Any]) -> Sequence[Message]:
    """The rows of one symptom: first those that tell most, and of these the longest."""
    name = data.get("id", "an entry")
    if not data.get("messages"):
        raise ValueError(f"{file}: {name} has no messages")
    known = {"text", "variant", "confidence", "sample", *(["anchors"] if file.endswith(JSON) else [])}
    for one in data.get("also", ()):
        if not isinstance(one, str) and (unknown := one.keys() - {"rule", "variant", "confidence"}):
            raise ValueError(f"{file}: {name}: also: {', '.join(sorted(unknown))} is no key of a rule")
        if not isinstance(one, str) and "rule" not in one:
            raise ValueError(f"{file}: {name}: also: a rule is not named")
    made = []
    for one in data["messages"]:
        row: Mapping[str, Any] = {"text": one} if isinstance(one, str) else one
        if unknown := row.keys() - known:
            raise ValueError(f"{file}: {name}: {', '.join(sorted(unknown))} is no key of a message")
        variant, confidence = row.get("variant", data.get("variant", "")), row.get("confidence", data.get("confidence", ""))
        made.append(Message(kind, name, row["text"], data, variant, confidence, row.get("sample", ""), row.get("anchors", ())))
    if all(row.shipped for row in made):  # in their order
        return made
    return sorted(made, key=lambda row: weight(row.parts), reverse=True)


def with_anchors(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a file of symptoms for a wheel: rows in their order and with their anchors, which nobody has to work out again."""

    def shipped(row: Message) -> dict[str, Any]:
        given = {key: value for key in ("variant", "confidence", "sample") if (value := getattr(row, key))}
        return {"text": row.text, **given, "anchors": [[anchor.piece, anchor.words] for anchor in row.anchors]}

    return {kind: [{**data, "messages": [*map(shipped, _rows("", kind, data))]} for data in rows] for kind, rows in content.items()}


@mutable
class _Part:
    """Some lines of a text that are searched at once, with what stands before and after them: in few lines only few rows are possible."""

    source: str
    text: str
    flat: str  # with one kind of quotes and on one line, since a message goes on over the end of a line; places are the same
    typed: str  # the same in small letters, where a person may have typed it; else empty
    first: int  # its own lines begin here
    last: int  # and end here
    words: Sequence[str]
    original: str = ""  # what stood there, where words of another language were put into English
    spoken: Sequence[str] = ()  # these words
    taken: list[tuple[int, int]] = field(default_factory=list)  # lines that mean no harm
    told: set[tuple[str, int]] = field(default_factory=set)  # symptoms, and the lines that a row of theirs has read

    def masked(self, at: int, piece: str) -> tuple[str, int] | None:
        """What stands around a place, without secrets, and where a piece at that place stands in it: a window that is cut out of it shows
        none that is told by what stands before. -1 where a secret took the piece away; None where the text has none there."""
        text, at = _around(self.text, at, at + len(piece))
        hidden = _hidden(text)
        if hidden == text:
            return None
        start, end = _line(text, at)
        lines, number = hidden.split("\n"), text.count("\n", 0, start)
        if len(lines) != text.count("\n") + 1:  # one that goes over lines
            return hidden, _place_of(piece, hidden, 0, len(hidden))
        first = sum(map(len, lines[:number])) + number
        if lines[number] == text[start:end].rstrip("\n"):
            return hidden, first + at - start
        return hidden, _place_of(piece, hidden, first, first + len(lines[number]))


def _parts(text: str, source: str, typed: bool, languages: Languages) -> Iterator[_Part]:
    at = 0
    while at < len(text):
        end = text.rfind("\n", at, at + CHUNK) + 1 if len(text) - at > CHUNK else len(text)
        end = end if end > at else min(at + CHUNK, len(text))
        # a line that is longer than a part is cut: with its beginning before each of its parts the work would grow with its square
        before = max(text.rfind("\n", 0, max(at - WINDOW_BEFORE, 0)) + 1, at - WINDOW_BEFORE - CHUNK, 0)
        yield _part(text[before : end + WINDOW_AFTER], (at - before, end - before), source, typed, languages)
        at = end


def _part(part: str, own: tuple[int, int], source: str, typed: bool, languages: Languages) -> _Part:
    """`own`: where its own lines begin and end."""
    flat = one_quote(part)
    words = words_in(flat)
    original = ""
    spoken = languages.spoken(flat, words)
    if spoken:
        first, last = own
        original, cuts = part, [languages.in_english(one, spoken) for one in (part[:first], part[first:last], part[last:])]
        own = (len(cuts[0]), len(cuts[0]) + len(cuts[1]))
        part = "".join(cuts)
        flat = one_quote(part)
        words = words_in(flat)
    flat = flat.replace("\n", " ")
    low = flat.lower() if typed else ""
    return _Part(source, part, flat, low if len(low) == len(flat) else "", *own, words, original, spoken)


@mutable
class Scanner:
    """Collects what the texts of one run show; `finish` weighs needs and unless over all of them."""

    table: SymptomTable
    met: set[str] = field(default_factory=set)
    hits: dict[tuple[str, str, str], tuple[Message, TextEvidence]] = field(default_factory=dict)
    noted: dict[str, tuple[Message, Noted]] = field(default_factory=dict)
    count: dict[str, int] = field(default_factory=dict)
    complains: bool = False  # beside lines that mean no harm, a text holds an error of its own
    fails: bool = False  # a line that is none of these says that something failed
    short: list[tuple[str, str]] = field(default_factory=list)  # texts that a person may have typed, and their sources

    def scan(self, text: str, source: str, *, stated: bool = False) -> None:
        """Search one clean piece of text. `stated` marks a person's observations: then only rows meant for them are tried."""
        if not stated and len(text) <= LIMIT:
            self.short.append((text, source))
        whole = rewrapped(text)
        for form in (text,) if whole is None else (text, whole):
            form = condense(form) if len(form) > CONDENSE_ABOVE else form
            form = "\n".join(map(bare, form.split("\n")))
            tries: dict[str, int] = {}
            harmless = error = False
            for part in _parts(form, source, len(form) <= TYPED, self.table.languages):
                self._scan(part, stated, tries)
                harmless, error = harmless or bool(part.taken), error or _complains(part)
                self.fails = self.fails or any(says_failure(part.text[at:end]) for at, end in _beside_harmless(part))
            self.complains = self.complains or (harmless and error)

    def without_harmless(self, text: str) -> Sequence[str]:
        """The lines of a clean text of a few KB that are not known to mean no harm."""
        lines = text.split("\n")
        flat = "\n".join(map(bare, lines))
        part = _part(flat, (0, len(flat)), "", True, self.table.languages)
        Scanner(self.table)._scan(part, False, {})
        harmless: set[int] = set()
        for start, end in part.taken:
            at = part.text.count("\n", 0, start)
            harmless.update(range(at, at + max(part.text.count("\n", start, end), 1)))
        return [line for at, line in enumerate(lines) if at not in harmless]

    def _scan(self, part: _Part, stated: bool, tries: dict[str, int]) -> None:
        holds: dict[str, bool] = {}  # many rows share a piece
        for row, piece in self.table.possible(part.words):
            if isinstance(row, str):
                if row not in self.met and piece in part.flat:
                    self.met.add(row)
                continue
            if (row.stated is not stated and row.kind == "symptom") or self._enough(row, tries):
                continue
            held = holds.get(piece)
            if held is None:
                held = holds[piece] = piece in part.flat
            if held:
                self._look(row, row.pattern, piece, part.flat, part, tries)
            elif part.typed and piece.count(" ") >= 2 and (low := piece.lower()) in part.typed:
                self._look(row, row.pattern_of_any_case, low, part.typed, part, tries)

    def _enough(self, row: Message, tries: Mapping[str, int]) -> bool:
        return tries.get(row.text, 0) >= HITS or self.count.get(row.id, 0) >= KEPT

    def _look(self, row: Message, pattern: re.Pattern[str], piece: str, flat: str, part: _Part, tries: dict[str, int]) -> None:
        """Try a row where a piece of it stands."""
        at = flat.find(piece, part.first, part.last + len(piece))
        while at >= 0 and not self._enough(row, tries):
            tries[row.text] = tries.get(row.text, 0) + 1
            line, after = _line(part.text, at)
            name = _FALLBACK if row.fallback else row.id  # the first of them places a line
            if (name, line) not in part.told:
                window, match = "", None
                ends: tuple[int, ...] = ()
                for lines_before in BEFORE:  # the message may have begun on a line before
                    wider, ends = _window_of(row, part.text, at, len(piece), lines_before)
                    if wider != window and (match := pattern.search(one_quote(wider))):
                        window = wider
                        break
                    window = wider
                if match and row.kind == "symptom" and _of_two(row, window, match, ends):
                    match = None
                if match and row.kind == "symptom" and _denied(window, match.start(), ends, part.text, line):
                    part.told.add((name, line))
                elif match and not any(start <= at < end for start, end in part.taken):
                    part.told.add((name, line))
                    if row.kind == "symptom" or row.id not in self.noted:
                        found = (window, ends, match)
                        if _cuts(*found):
                            found = _without_secrets(row, pattern, found, part.masked(at, piece), len(piece), lines_before)
                        self._keep(row, *found, part, _quoted(part.text, at))
                    if row.kind == "harmless":
                        part.taken.append((line, after))
                elif match is None and row.kind == "harmless" and len(part.taken) > HITS:
                    break
            at = flat.find(piece, after, part.last + len(piece))

    def _keep(self, row: Message, window: str, ends: Sequence[int], match: re.Match[str], part: _Part, quoted: bool) -> None:
        # Where nothing but the end of its line says where a message ends, its last hole holds lines of others too.
        last = _end_of(match.start("what"), ends) if row.fallback else match.end()
        shown = _as_it_stood(_shown(window, match.start(), last, ends), part, self.table.languages)
        source = part.source
        if row.kind != "symptom":
            advice = row.data.get("ask") or row.data.get("why", "")
            self.noted.setdefault(row.id, (row, Noted(row.id, source, shown, advice, bool(row.data.get("ends")))))
            return
        values = {name: window[match.start(name) : min(match.end(name), last)] for name, value in match.groupdict().items() if value}
        for one in row.named:
            if (one.rule, shown, row.id) not in self.hits:
                second = one is not row.named[0]
                found = TextEvidence(source, shown, one.rule, row.id, values, quoted, row.text, one.variant, one.confidence, second)
                self.hits[one.rule, shown, row.id] = (row, found)
                if not second:
                    self.count[row.id] = self.count.get(row.id, 0) + 1

    def finish(self) -> Symptoms:
        """Matches whose conditions hold; of several rows that tell one rule of the same words the first that holds."""
        first: dict[tuple[str, str], tuple[Message, TextEvidence]] = {}
        for (rule, shown, _), (row, evidence) in self.hits.items():
            if self._holds(row):
                first.setdefault((rule, shown), (row, evidence))
        held = first.values()
        known = [evidence.text for row, evidence in held if not row.fallback] + [noted.text for _, noted in self.noted.values()]
        kept = tuple(evidence for row, evidence in held if not row.fallback or not _read(evidence, known))
        if any(not row.alone for row, _ in held):
            lone = {id(evidence) for row, evidence in held if row.alone}
            kept = tuple(evidence for evidence in kept if id(evidence) not in lone)
        kept = kept or tuple(self._retyped())
        others = {kind: tuple(one for row, one in self.noted.values() if row.kind == kind) for kind in ("victim", "harmless")}
        return Symptoms(kept, others["victim"], others["harmless"])

    def _retyped(self) -> Iterator[TextEvidence]:
        for text, source in self.short:
            for row, at in retyped(self.table.messages, text):
                line, after = _line(text, at)
                if self._holds(row) and not denied(text[line:at], text[max(line - WINDOW_AFTER, 0) : line]):
                    shown = begin_of(" ".join(text[line:after].split()), SHOWN)
                    for one in row.named:
                        yield TextEvidence(
                            source, shown, one.rule, row.id, {}, _quoted(text, at), row.text, one.variant, "likely", one is not row.named[0]
                        )

    def _holds(self, row: Message) -> bool:
        needs, unless = row.data.get("needs", ()), row.data.get("unless", ())
        return (not needs or any(text in self.met for text in needs)) and not any(text in self.met for text in unless)


_COMPLAINTS = ("Error:", "ERROR", "error:", "FATAL", "fatal:", "Exception")


def _complains(part: _Part) -> bool:
    """Whether an error stands outside the lines that mean no harm."""
    return any(part.text.find(word, *place) >= 0 for place in _beside_harmless(part) for word in _COMPLAINTS)


def _beside_harmless(part: _Part) -> Iterator[tuple[int, int]]:
    """Where the lines stand that are not known to mean no harm."""
    at = part.first
    for start, end in (*sorted(part.taken), (part.last, part.last)):
        if at < start:
            yield at, start
        at = max(at, end)


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
    above = text[max(start - SHOWN, 0) : max(start - 1, 0)].split("\n")
    before = next((one for one in reversed(above) if one.strip("`~ ")), "")  # a fence stands between words and what they speak of
    return hearsay(text[start : min(end, start + WINDOW_AFTER)], before[:SHOWN])


def _denied(window: str, first: int, ends: Sequence[int], text: str, line: int) -> bool:
    """Whether a message that stands here in a window is said not to be there."""
    begin = _begin_of(first, ends)
    return first > begin and denied(window[begin:first], text[max(line - WINDOW_AFTER, 0) : line])


LINE = 4096  # characters of its own line before a message, and
NEAR = 512  # of lines above, and behind what is shown of it, in which a secret is told that stands beside it


def _around(text: str, at: int, end: int) -> tuple[str, int]:
    """What stands near a piece, from a blank to a blank, and where the piece begins in it."""
    start = text.rfind("\n", max(0, at - LINE), at) + 1
    if start:
        start = text.find("\n", max(0, start - 1 - NEAR), start) + 1
    elif at > LINE:
        blank = _BLANK.search(text, at - LINE, at)
        start = blank.end() if blank else at - LINE
    stop = min(len(text), end + WINDOW_AFTER + NEAR)
    if stop < len(text):
        stop = max(text.rfind(" ", end, stop), text.rfind("\n", end, stop)) + 1 or stop
    return text[start:stop], at - start


_BLANK = re.compile(r"\s")
_hidden = functools.lru_cache(256)(mask_secrets)  # who repeats a message repeats its lines


def _place_of(piece: str, text: str, start: int, end: int) -> int:
    """Where a piece of a row, which may be of any case, stands in a text with its own quotes."""
    flat = one_quote(text[start:end]).replace("\n", " ")
    at = flat.find(piece)
    at = flat.lower().find(piece) if at < 0 else at
    return at if at < 0 else start + at


_HIDDEN = next(re.finditer(r"(?P<what>.+)", MASK))
_Hit: TypeAlias = tuple[str, tuple[int, ...], re.Match[str]]  # a window, where its lines end, and the message in it


def _without_secrets(
    row: Message, pattern: re.Pattern[str], hit: _Hit, masked: tuple[str, int] | None, length: int, lines_before: int
) -> _Hit:
    """The same of the masked text; where the message itself is told no more, of its window."""
    if masked is None:
        return hit
    text, at = masked
    if at >= 0:
        window, ends = _window_of(row, text, at, length, lines_before)
        if match := pattern.search(one_quote(window)):
            return window, ends, match
    window = mask_secrets(hit[0])
    match = pattern.search(one_quote(window))
    return (window, (len(window),), match) if match else (MASK, (len(MASK),), _HIDDEN)


def _window_of(row: Message, text: str, at: int, length: int, lines_before: int) -> tuple[str, tuple[int, ...]]:
    window, ends = _window(text, at, length, lines_before)
    # of a message that ends with its line, what follows on the next one is none
    return window[: ends[0]] if row.to_the_end and not lines_before else window, ends


def _window(text: str, at: int, length: int, lines_before: int) -> tuple[str, tuple[int, ...]]:
    """The line of a piece from its start and the lines after it on one line, with single blanks: who prints a message wraps it.
    And where each of these lines ends."""
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
    lines = [" ".join(words) for line in text[start:end].split("\n") if (words := line.split())]
    ends, length = [], 0
    for line in lines:
        length += len(line) + 1
        ends.append(length - 1)
    return " ".join(lines), tuple(ends)


# What is no error says so, and is over with its line; so does a line that begins with the name of what printed it.
_NO_ERROR = re.compile(r"\b(?:INFO|DEBUG)\b")
_BEGINS = re.compile(
    r"[a-z][\w.-]{1,40}\[\d{1,8}\]: |(?:wandb|nginx|curl|psql|ssh|git|rsync|docker|kernel|systemd|npm|node|mysqld): "
    r"|(?:[a-z]\w{0,40}\.){2,6}\w{1,60}(?:Exception|Error)\b"
)


def _of_two(row: Message, window: str, match: re.Match[str], ends: Sequence[int]) -> bool:
    """Whether a row with a hole that takes any words has put two messages together: the first is over, or the second begins anew."""
    crossed = [end for end in ends if match.start() < end < match.end()]
    if not crossed or not row.loose:
        return False
    first = window[_begin_of(match.start(), ends) : crossed[0]]
    return bool(_NO_ERROR.search(first)) or any(_BEGINS.match(window, end + 1) for end in crossed)


def _begin_of(at: int, ends: Sequence[int]) -> int:
    """Where the line of a place in a window begins."""
    return max((end + 1 for end in ends if end < at), default=0)


def _end_of(at: int, ends: Sequence[int]) -> int:
    """Where the line of a place in a window ends."""
    return next((end for end in ends if end >= at), ends[-1] if ends else at)


def _shown(window: str, first: int, after: int, ends: Sequence[int]) -> str:
    """The part of the window worth quoting: the match with some of what surrounds it on its lines."""
    line = max((end + 1 for end in ends if end < first), default=0)
    start = max(first - 60, line)
    last = _end_of(after, ends)
    end = min(max(after, start + SHOWN // 2), first + SHOWN, last)
    return f"{'…' if start > line else ''}{window[start:end].strip()}{'…' if end < last else ''}"


def _cuts(window: str, ends: Sequence[int], match: re.Match[str]) -> bool:
    """Whether what is kept of a message is without something that stands on its lines: that may be what tells a secret. Whole lines are
    masked when they are shown."""
    shown = _shown(window, match.start(), match.end(), ends)
    return "…" in (shown[:1], shown[-1:]) or any(match.groupdict().values())


def _as_it_stood(shown: str, part: _Part, languages: Languages) -> str:
    """A quotation with the words that stood there in another language."""
    if part.spoken and shown.strip("…") not in " ".join(part.original.split()):
        for words in part.spoken:
            shown = shown.replace(languages.english[words], words)
    return shown


SAME = 30  # characters


def _read(evidence: TextEvidence, known: Sequence[str]) -> bool:
    """Whether a row has read this line, or a part of it, in its own language or in English. A number is in many lines."""
    whole, what = evidence.text, evidence.values.get("what", "")
    return any(len(one) > SAME and one.strip("…") in whole for one in known) or _one_of(what, known)


def _one_of(what: str, known: Sequence[str]) -> bool:
    return not what.isdecimal() and any(what[:SAME] in one or (len(one) > SAME and one.strip("…") in what) for one in known)
