"""The known problems nearest to some words: what there is to read where no rule recognises a text. They are pointers, never findings.

BM25 over all that is written of each rule: its title, messages, known messages of programs, page and fixes. A hundred pages are ranked in
memory within some ten milliseconds, so no index is built, shipped or ever stale, and a site's rules are in it. The formula and its
numbers: https://doi.org/10.1561/1500000019.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from envcheck.facts.record import record

if TYPE_CHECKING:
    from envcheck.engine.rule import RuleText
    from envcheck.report.report import Nearest
    from envcheck.report.session import RuleSession
    from envcheck.symptoms.scan import Message

POINTERS = 3  # pages that are worth a look
_K1, _B = 1.2, 0.75
_NAME = 5  # times that the words of a rule's id and title count: they say what it is about
# Below these a text has little to do with any page, found on public posts and reports whose rule is known, and on healthy ones.
_SCORE = 30.0
_STANDS_OUT = 1.2  # times the score of the page after the last pointer
_BEGINS = 10.0  # for a page with a message that begins with the words: "Bus error (core dumped)" of "bus error"
_CLOSE = 0.6  # of the first one's score
_SHOWN = 5  # words
# A line that complains counts more than one that only stands beside it.
_COMPLAINT = re.compile(
    r"error|fail|warn|cannot|could not|unable|not |no |exception|invalid|unsupported|killed|timed? ?out|refused|abort|hang|stuck|slow"
    r"|mismatch|missing|undefined|false",
    re.IGNORECASE,
)
_COMPLAINS = 3.0
_WORD = re.compile(r"[a-z]{2,40}|(?<!\d)\d{3}(?!\d)")  # the codes of CUDA, NCCL and verbs have three digits
CHINESE = re.compile(r"[\u3400-\u9fff]+")
_HOLE = re.compile(r"\{\w{1,40}\}")


def words_of(text: str) -> Iterator[tuple[str, str]]:
    """Each word as it is compared and as it stands: "devices" and "device" are one. Chinese has no blanks: each two characters count."""
    for match in _WORD.finditer(text.lower()):
        word = match[0]
        yield word[:-1] if len(word) > 4 and word[-1] == "s" and word[-2] != "s" else word, word
    for match in CHINESE.finditer(text):
        run = match[0]
        yield from ((run[at : at + 2], run[at : at + 2]) for at in range(max(len(run) - 1, 1)))


@record
class WordCount:
    """The words of one page, and how many."""

    rule: str
    words: Counter[str]
    length: int
    printed: tuple[str, ...] = ()  # the messages of programs that name it


@record
class Index:
    """The words of every page."""

    pages: tuple[WordCount, ...]

    @cached_property
    def _rarity(self) -> Mapping[str, float]:
        seen = Counter(word for page in self.pages for word in page.words)
        return {word: math.log(1 + (len(self.pages) - count + 0.5) / (count + 0.5)) for word, count in seen.items()}

    @cached_property
    def _mean(self) -> float:
        return sum(page.length for page in self.pages) / len(self.pages)

    def ranked(self, asked: Mapping[str, float]) -> list[tuple[float, str, list[str]]]:
        """Score, rule and the words that matched, the telling ones first; the best page first. `asked`: words and what each counts."""
        found = []
        for page in self.pages:
            norm = _K1 * (1 - _B + _B * page.length / self._mean)
            parts = {
                word: count * self._rarity[word] * page.words[word] * (_K1 + 1) / (page.words[word] + norm)
                for word, count in asked.items()
                if word in page.words
            }
            words = sorted(parts, key=lambda word: (-parts[word], word))
            if parts:
                found.append((sum(parts.values()), page.rule, words))
        return sorted(found, key=lambda one: (-one[0], one[1]))


def index_of(by: RuleSession) -> Index:
    """Of all rules of a session."""
    rows: dict[str, list[Message]] = {}
    for row in by.symptoms.messages:
        if row.kind == "symptom" and not row.fallback:
            rows.setdefault(row.data["rule"], []).append(row)
    return Index(tuple(_page(by.texts.read(rule), rows.get(rule, [])) for rule in by.texts.ids))


def _page(text: RuleText, rows: list[Message]) -> WordCount:
    written = [f"{text.id} {text.title}"] * _NAME + [*text.messages.values(), text.why, text.confirm, *text.notes, *_strings(text.fixes)]
    printed = [row.sample or " ".join(part if isinstance(part, str) else " ".join(part.choices) for part in row.parts) for row in rows]
    words = Counter(word for word, _ in words_of(" ".join([_HOLE.sub(" ", one) for one in written] + printed)))
    return WordCount(text.id, words, sum(words.values()), tuple(printed))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _strings(tuple(value.values()))
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _strings(one)


def nearest_to_text(text: str, by: RuleSession) -> tuple[Nearest, ...]:
    """The pages that a pasted text may be about; none where nothing stands out."""
    asked: dict[str, float] = {}
    forms: dict[str, str] = {}
    for line in text.split("\n"):
        count = _COMPLAINS if _COMPLAINT.search(line) else 1.0
        for word, form in words_of(line):
            asked[word] = max(asked.get(word, 0.0), count)
            forms.setdefault(word, form)
    found = index_of(by).ranked(asked)
    other = found[POINTERS][0] if len(found) > POINTERS else 0.0
    if not found or found[0][0] < _SCORE or found[0][0] < _STANDS_OUT * other:
        return ()
    return _pointers([one for one in found[:POINTERS] if one[0] >= _CLOSE * found[0][0]], forms, by)


def nearest_to_words(words: str, by: RuleSession, limit: int) -> tuple[Nearest, ...]:
    """The pages about words that somebody asks for: those that hold the most of them."""
    forms = dict(words_of(words))
    index, start = index_of(by), " ".join(words.lower().split())
    first = {page.rule for page in index.pages if any(one.lower().startswith(start) for one in page.printed)}
    scored = [(score + _BEGINS * (rule in first), rule, told) for score, rule, told in index.ranked(dict.fromkeys(forms, 1.0))]
    found = sorted(scored, key=lambda one: (-one[0], one[1]))
    most = max((len(one[2]) for one in found), default=0)
    near = [one for one in found if len(one[2]) == most or len(one[2]) > len(forms) / 2][:limit]
    return _pointers([(score, rule, _joined(told, words)) for score, rule, told in near], forms, by)


def _joined(told: Sequence[str], asked: str) -> list[str]:
    """The words of a page among those asked for, pieces of Chinese ones put together again."""
    pieces = {one for one in told if CHINESE.match(one)}
    marked = "".join(
        one if any(asked[max(at - back, 0) : at - back + 2] in pieces for back in (0, 1)) or one in pieces else " "
        for at, one in enumerate(asked)
    )
    return [*dict.fromkeys(CHINESE.findall(marked)), *(one for one in told if one not in pieces)]


def _pointers(found: list[tuple[float, str, list[str]]], forms: Mapping[str, str], by: RuleSession) -> tuple[Nearest, ...]:
    from envcheck.report.report import Nearest
    from envcheck.report.titles import general_title

    return tuple(
        Nearest(rule, general_title(by.texts.read(rule).title), tuple(forms.get(word, word) for word in words[:_SHOWN]))
        for _, rule, words in found
    )
