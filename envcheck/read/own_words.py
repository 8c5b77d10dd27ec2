"""A report of envcheck in another language, with its frame in English: what the readers of reports know it by.

Labels, words of severity and the beginning of the verdict are turned back by the phrases that they were said with; what a finding says
stays as it is. No line is added or taken away.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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
    "What to do, one of:", "one of these:", "one of these lines:", "Assumed",
)  # fmt: skip
_ASIDES = ("administrator", "not checked", "checked against envcheck's tables; nothing was installed")
_PAGES = ("fleet", "compare", "plan")
_ENDS = r"<system-out>|<error message=\"|title=envcheck::"  # what stands before the verdict in formats of programs
_MARK = r"(?P<mark>.{0,120}?)"  # what stands before each line of a pasted text


@record
class _Words:
    """One language: what shows that a text is a report in it, and the patterns of its frame."""

    shows: re.Pattern[str]
    whole: tuple[tuple[re.Pattern[str], str], ...]  # the head of a job's report, a plan and a comparison, and their English
    frame: tuple[re.Pattern[str], ...]
    english: Mapping[str, str]


def in_english(text: str) -> str:
    """The text with the frames of its reports in English."""
    if text.isascii():
        return text
    for code in LANGUAGES:
        words = _words(code)
        for whole, instead in words.whole:
            text = whole.sub(instead, text)
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
    report = load_toml(rules_folder(f"lang/{code}/report.toml"))
    phrases: Mapping[str, str] = {**report["job"], **report["phrases"]}
    verdicts = {}  # the words up to the first value: "Not ready: "
    for ours, said in phrases.items():
        if ours.startswith(("Not ready", "Cannot tell", "Ready", "No problem found", "No error found", "The selected rules")):
            verdicts[said.partition("{")[0]] = ours.partition("{")[0]
    english = {phrases[word]: word for word in (*_HEAD, *_BODY, *_SEVERITIES, *_LINES, *_ASIDES, *_PAGES)} | verdicts
    both = f"{phrases['administrator']}；"
    english |= {both: "administrator; ", phrases["do"]: "do"}

    def one_of(names: tuple[str, ...], *more: str) -> str:
        return "(?P<word>" + "|".join((*more, *(re.escape(phrases[name]) for name in names))) + ")"

    label = rf"^{_MARK}{one_of(_HEAD)}(?P<blanks> {{2,6}})(?=\S)"
    head = rf"envcheck \d[\w.+-]{{0,50}}(?:: |\n.{{0,120}}?{re.escape(phrases['target'])} {{2,6}}\S)"
    page = rf"(?P<mark><h1[^<>]{{0,80}}>envcheck \d[\w.+-]{{0,50}}, ){one_of(_PAGES)}(?=: )"
    severity = rf"(?P<mark>[✗!–x-] |#### |<span class='[a-z ]{{1,20}}'>){one_of(_SEVERITIES)}(?=(?:</span>)?: )"
    inside = rf"(?P<mark> \[){one_of(_SEVERITIES)}(?=: [a-z0-9-]{{3,80}}\])"
    starts = "|".join(re.escape(said) for said in sorted(verdicts, key=len, reverse=True))
    end = rf"(?:{_ENDS}|envcheck \d[\w.+-]{{0,50}}, fleet of \d{{1,6}} hosts: .{{0,400}}\n)(?:{starts})"
    frame = (
        page,
        label,
        severity,
        inside,
        rf"^(?P<mark>    ){one_of((), re.escape(phrases['do']))}(?= )",
        rf"(?P<mark>  ){one_of(_BODY)}(?P<blanks> {{2,10}})(?=\S)",
        rf"^{_MARK}{one_of(_LINES)}",
        rf"(?P<mark>^.{{0,120}}?|'>|{_ENDS})(?P<word>{starts})",
        rf"(?P<mark> \(|; ){one_of(_ASIDES, re.escape(both))}",
    )
    shows = re.compile("|".join(re.sub(r"\?P<\w+>", "?:", one) for one in (head, page, severity, inside, end)), re.MULTILINE)
    return _Words(shows, tuple(_whole(code, phrases)), tuple(re.compile(one, re.MULTILINE) for one in frame), english)


def _whole(code: str, phrases: Mapping[str, str]) -> Iterator[tuple[re.Pattern[str], str]]:
    """What is one sentence with numbers, and the words by which a plan is known; a plan begins with the machine that it is for."""
    yield re.compile(rf"(envcheck \d[\w.+-]{{0,50}}), {_numbered(phrases['fleet of {n} hosts'])}(?=: )"), r"\1, fleet of \2 hosts"
    differ = "{n} facts differ, {all} rules change their verdict"
    yield re.compile(rf"^{_numbered(phrases[differ])}(?=\s*\Z)", re.MULTILINE), r"\1 facts differ, \2 rules change their verdict"
    same = "the same facts, the same verdicts"
    yield re.compile(rf"^{re.escape(phrases[same])}(?=\s*\Z)", re.MULTILINE), same
    ours, said = (load_toml(rules_folder(path))["print"] for path in ("plan/texts.toml", f"lang/{code}/plan.toml"))
    first, tables = re.escape(said["for"].partition("{")[0]), re.escape(phrases["envcheck's tables"])
    lines = "|".join(re.escape(said[key]) for key in ("none", "excluded"))
    known = rf"(?:.{{0,4000}}\n){{0,400}}?(?:(?:{lines})$|.{{0,4000}}?{tables})"
    yield re.compile(rf"\A(\s{{0,80}}){first}(?=\S.{{0,400}}\n{known})", re.MULTILINE), r"\1for "
    for key in ("none", "excluded"):
        yield re.compile(rf"^{re.escape(said[key])}$", re.MULTILINE), ours[key]
    yield re.compile(tables), "envcheck's tables"


def _numbered(said: str) -> str:
    """A translated text as a pattern, with a number in each hole."""
    return re.sub(r"\\{\w+\\}", r"(\\d{1,6})", re.escape(said))
