"""A report of envcheck in another language, with its frame in English: what the readers of reports know it by.

Labels, words of severity and the beginning of the verdict are turned back by the phrases that they were said with; what a finding says
stays as it is. No line is added or taken away.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from envcheck.facts.record import record
from envcheck.tables.folders import rules_folder
from envcheck.tables.toml import load_toml

LANGUAGES = ("zh",)
_HEAD = ("target", "host", "config", "assumed")
_BODY = ("evidence", "why", "leads to", "fix")
_SEVERITIES = ("possible error", "possible warning", "possible info", "error", "warning", "info")
_LINES = (
    "Could not tell", "The full live check", "Not tested by the live check", "Speed of the connections", "More: ", "What to do:",
    "What to do, one of:", "one of these:", "Assumed",
)  # fmt: skip
_ASIDES = ("administrator", "not checked", "checked against envcheck's tables; nothing was installed")
_MARK = r"(?P<mark>.{0,120}?)"  # what stands before each line of a pasted text


@record
class _Words:
    """One language: what shows that a text is a report in it, and the patterns of its frame."""

    shows: re.Pattern[str]
    frame: tuple[re.Pattern[str], ...]
    english: Mapping[str, str]


def in_english(text: str) -> str:
    """The text with the frames of its reports in English."""
    if text.isascii() or ("envcheck" not in text and "[" not in text and "#### " not in text):
        return text
    for code in LANGUAGES:
        words = _words(code)
        if words.shows.search(text):
            for pattern in words.frame:
                text = pattern.sub(lambda found, words=words: _turned(found, words.english), text)  # type: ignore[misc]
    return text


def _turned(found: re.Match[str], english: Mapping[str, str]) -> str:
    word = english[found["word"]]
    columns = {**dict.fromkeys(_HEAD, 8), **dict.fromkeys(_BODY, 10)}.get(word) if "blanks" in found.re.groupindex else None
    return f"{found['mark']}{word.ljust(columns) if columns else word}"


@lru_cache(maxsize=len(LANGUAGES))
def _words(code: str) -> _Words:
    phrases: Mapping[str, str] = load_toml(rules_folder(f"lang/{code}/report.toml"))["phrases"]
    verdicts = {}  # the words up to the first value: "Not ready: "
    for ours, said in phrases.items():
        if ours.startswith(("Not ready", "Cannot tell", "Ready to train", "No problem found", "No error found", "The selected rules")):
            verdicts[said.partition("{")[0]] = ours.partition("{")[0]
    english = {phrases[word]: word for word in (*_HEAD, *_BODY, *_SEVERITIES, *_LINES, *_ASIDES)} | verdicts
    both = f"{phrases['administrator']}；"
    english[both] = "administrator; "

    def one_of(names: tuple[str, ...], *more: str) -> str:
        return "(?P<word>" + "|".join((*more, *(re.escape(phrases[name]) for name in names))) + ")"

    label = rf"^{_MARK}{one_of(_HEAD)}(?P<blanks> {{2,6}})(?=\S)"
    head = rf"envcheck \d[\w.+-]{{0,50}}(?:: |\n.{{0,120}}?{re.escape(phrases['target'])} {{2,6}}\S)"
    severity = rf"(?P<mark>[✗!–x-] |#### |<span class='[a-z ]{{1,20}}'>){one_of(_SEVERITIES)}(?=(?:</span>)?: )"
    starts = "|".join(re.escape(said) for said in sorted(verdicts, key=len, reverse=True))
    frame = (
        label,
        severity,
        rf"(?P<mark>  ){one_of(_BODY)}(?P<blanks> {{2,10}})(?=\S)",
        rf"^{_MARK}{one_of(_LINES)}",
        rf"(?P<mark>^.{{0,120}}?|'>)(?P<word>{starts})",
        rf"(?P<mark> \(|; ){one_of(_ASIDES, re.escape(both))}",
    )
    shows = re.compile("|".join((head, re.sub(r"\?P<\w+>", "?:", severity))), re.MULTILINE)
    return _Words(shows, tuple(re.compile(one, re.MULTILINE) for one in frame), english)
