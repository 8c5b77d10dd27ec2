"""envcheck's text report, whole or in part, wherever it was pasted: behind "> ", a time stamp or the mark of a pod.

    envcheck 0.1.0                                                        the first line of a report
    target  /venv/bin/python (Python 3.12.3, venv)
    …
    ✗ error: The NVIDIA driver is older than this torch build [driver-too-old]
      Driver 535.183.01 offers CUDA up to 12.2; …                          the message
      evidence  /sys/module/nvidia/version: 535.183.01
      why       A CUDA build of torch needs …
      leads to  torch-cuda-unavailable
      fix       one of these:
                1. Install torch 2.15.0 built for CUDA 12.6
                     python -m pip install …
    Not ready: 1 error                                                     the last line

The labels of the first versions were "seen", "why", "so" and "do".
"""

from __future__ import annotations

import re
from collections.abc import Collection

from envcheck.facts.record import field, mutable
from envcheck.read import own_report as own
from envcheck.read.failed import says_failure
from envcheck.read.own_report import OwnReport, ReportedFinding

MOST_LINES = 4000  # of one report
SURE_LINES = 400  # in which the last line of a report is looked for whatever stands between
FOREIGN_LINES = 20  # that may stand in a longer one: a terminal broke its lines, a program wrote between them

_NO_DIGITS = str.maketrans("123456789", "0" * 9)
_FINDING = re.compile(r"(?:[✗!–x-] )((?:possible )?(?:error|warning|info)): (\S.{0,2000})$")
_FIRST = re.compile(r"(.{0,120}?)(?<!\S)[✗!–x-] (?:possible )?(?:error|warning|info): ")
_RULE = re.compile(r" ?\[([a-z0-9-]{3,80})\]$")
_LABEL = re.compile(r"(?:  (evidence|seen|why|leads to|so|fix|do) {2,10}|(evidence|leads to|why|fix) )(?=\S)")
_NUMBER = re.compile(r"\d{1,2}\. ")
_WIDE = re.compile("[\u2e80-\u9fff\uff01-\uff60]")
_TOOLS = re.compile(r"(?:(?:pip|uv|conda)(?:, (?:pip|uv|conda)){0,2}|one of these lines):$")
_MORE = re.compile(r"and \d{1,4} more \(--(?:json|verbose) has them all\)$")
# A layer or a part with what is known of it, a finding, rules that could not tell; what is said behind a dash
_SIGNED = re.compile(r"[✓✗!?–+x-] (?:[\w+/.()-][\w +/.()-]{0,24}?  \S|(?:possible )?(?:error|warning|info): |[a-z0-9-]{3,80}[,:] )|– ")
_FINDING_SIGNS = ("✗ ", "! ", "– ", "x ", "- ")
_HEADINGS = (
    "envcheck ", "target  ", "host    ", "config  ", "assumed ", "Speed of the ", "Could not tell", "The full live check",
    "Not tested by the live check", "The live check did not prove", "ignored: ", "severity changed: ", "More: ",
)  # fmt: skip
_BEFORE = ("read    ", "says    ", "refused ", "no harm ", "differs ")  # what `diagnose` writes above the report
_BEHIND = ("to decide, ",)  # and below it


@mutable
class _Excerpt:
    """The lines of one report without what stands before each, and where they stood."""

    start: int
    lines: list[str] = field(default_factory=list)
    foreign: list[int] = field(default_factory=list)  # of these lines: others wrote them, and others read them
    verdict: str = ""
    version: str = ""


def take_text(text: str, rules: Collection[str]) -> tuple[str, list[OwnReport]]:
    """The text without the reports in it, and these. A finding without the report's first line counts if its rule is one of `rules`."""
    if "[" not in text and "envcheck " not in text:
        return text, []
    lines = text.split("\n")
    found: list[OwnReport] = []
    at = 0
    while at < len(lines):
        page = _page(lines, at) or _fragment(lines, at, rules)
        if page is None:
            at += 1
            continue
        end = page.start + len(page.lines)
        foreign = frozenset(page.foreign)
        for number in range(len(page.lines)):
            if number not in foreign:
                lines[page.start + number] = ""
        page.lines = [line for number, line in enumerate(page.lines) if number not in foreign]
        found.append(_read(page, rules))
        at = max(end, at + 1)
    return ("\n".join(lines) if found else text), found


def _page(lines: list[str], at: int) -> _Excerpt | None:
    """The report that begins here."""
    version = _head(lines, at)
    if version is None:
        return None
    before = lines[at][: lines[at].find("envcheck ")]
    page = _Excerpt(at, version=version)
    for number in range(at, min(len(lines), at + MOST_LINES)):
        line = _bare(lines[number], before)
        if line is None or (number > at and _head(lines, number)):
            break
        page.lines.append(line)
        if own.verdict_of(line):
            page.verdict = line
            break
        if not _of_this_page(page):
            page.foreign.append(len(page.lines) - 1)
        if len(page.foreign) > FOREIGN_LINES and len(page.lines) > SURE_LINES:
            break
    if not page.verdict:
        del page.lines[page.foreign[0] if page.foreign else len(page.lines) :]  # the end was not copied
        page.foreign = []
    else:
        page.foreign = _of_others(page)
        _behind(page, lines, before)
    _above(page, lines, before)
    return page


def _head(lines: list[str], at: int) -> str | None:
    """The version, if a report begins in this line."""
    start = lines[at].find("envcheck ")
    if start < 0 or at + 1 == len(lines) or not lines[at + 1].startswith("target  ", start):
        return None
    version = lines[at][start + len("envcheck ") :].strip()
    return version if own.VERSION.fullmatch(version) else None


def _bare(line: str, before: str) -> str | None:
    """A line without the mark before each line of the report; None if it has not got it."""
    if not before or line.startswith(before):
        return line[len(before) :].rstrip()
    mark, same = line[: len(before)].translate(_NO_DIGITS), before.translate(_NO_DIGITS)
    if mark == same:
        return line[len(before) :].rstrip()
    return "" if len(line) < len(before) and same.startswith(mark.rstrip()) else None  # ">" for "> ", a time alone in an empty line


def _of_this_page(page: _Excerpt) -> bool:
    """Whether the last line is one as a page has them. A line that is further in goes on with the one above it."""
    at, line = len(page.lines) - 1, page.lines[-1]
    if line.startswith("  "):
        return bool(page.lines[at - 1]) and page.foreign[-1:] != [at - 1]
    dash = line.startswith("- ") and any(one.startswith("+ ") for one in page.lines)  # of a terminal that has no other
    return not line or line.startswith(_HEADINGS) or dash or _SIGNED.match(line) is not None


def _of_others(page: _Excerpt) -> list[int]:
    """Lines of no shape of ours that are nothing of a paragraph of ours either: its lines go on at the margin where a terminal broke them
    or a page has lost its margins. Of a page that says "Ready" only the latter do, and nothing that looks like a failure."""
    ready, lost = own.verdict_of(page.verdict) == "pass", not any(line.startswith("  ") for line in page.lines)
    foreign, found, within = frozenset(page.foreign), [], ""
    for at, line in enumerate(page.lines):
        if not line:
            within = ""
        elif at not in foreign:
            within = within if within == "finding" else "finding" if _FINDING.match(line) else "layer"
            if ready and within == "layer" and line.startswith("  ") and (own.FAILED.search(line) or says_failure(line.strip())):
                found.append(at)
        elif not (within == "finding" and lost and not own.FAILED.search(line) if ready else within == "finding" or (lost and within)):
            found.append(at)
            within = ""
    return found


def _behind(page: _Excerpt, lines: list[str], before: str) -> None:
    at = page.start + len(page.lines)
    if at < len(lines) and (line := _bare(lines[at], before)) and line.startswith(_BEHIND):
        page.lines.append(line)


def _above(page: _Excerpt, lines: list[str], before: str) -> None:
    above: list[str] = []
    while page.start and (line := _bare(lines[page.start - 1], before)) and line.startswith(_BEFORE):
        page.start -= 1
        above.append(line)
    page.lines[:0] = reversed(above)
    page.foreign = [one + len(above) for one in page.foreign]


def _fragment(lines: list[str], at: int, rules: Collection[str]) -> _Excerpt | None:
    """Findings without the report around them."""
    first = _FIRST.match(lines[at]) if _may_be_first(lines[at]) else None
    if first is None:
        return None
    before = first[1]
    page = _Excerpt(at)
    for number in range(at, min(len(lines), at + MOST_LINES)):
        line = _bare(lines[number], before)
        further = line is not None and line.startswith("  ") and bool(page.lines and page.lines[-1])
        if line is None or not (not line or further or line.startswith("More: ") or _FINDING.match(line) or own.verdict_of(line)):
            break
        page.lines.append(line)
        if own.verdict_of(line):
            page.verdict = line
            break
    found = _findings(page.lines)
    return page if found and found[0].rule in rules else None


def _may_be_first(line: str) -> bool:
    """Most lines of a log with an error in them can be told from a finding without a regular expression."""
    for word in ("error: ", "warning: ", "info: "):
        at = line.find(word)
        if at >= 0 and line[:at].removesuffix("possible ")[-2:] in _FINDING_SIGNS:
            return True
    return False


def _read(page: _Excerpt, rules: Collection[str]) -> OwnReport:
    found = [one for one in _findings(page.lines) if page.version or one.rule in rules]
    return OwnReport("text", page.version, tuple(found[: own.MOST_FINDINGS]), page.verdict, own.reasons_in(page.verdict))


def _findings(lines: list[str]) -> list[ReportedFinding]:
    found = []
    at = 0
    while at < len(lines):
        match = _FINDING.match(lines[at])
        at += 1
        if match is None:
            continue
        title = match[2]
        while not _RULE.search(title) and len(title) < own.TEXT_LIMIT and at < len(lines) and lines[at]:
            title += f" {lines[at].strip()}"
            at += 1
        rule, known = _RULE.search(title), own.severity_and_likely(match[1])
        if rule is None or known is None or not own.is_rule_id(rule[1]):
            continue
        end = at
        while end < len(lines) and lines[end] and not _FINDING.match(lines[end]):
            end += 1
        blocks = _blocks(lines[at:end])
        at = end
        width = max((column + _columns(text) for label, rows in blocks.items() if label != "fix" for column, text in rows), default=0)
        evidence = tuple(own.evidence_of(one) for one in _evidence(blocks.get("evidence", []), width))
        leads = " ".join(part for _, part in blocks.get("leads to", []))
        found.append(
            ReportedFinding(
                rule[1],
                *known,
                _RULE.sub("", title)[: own.TEXT_LIMIT],
                " ".join(part for _, part in blocks[""])[: own.TEXT_LIMIT],
                evidence[: own.MOST_EVIDENCE],
                _fixes(blocks.get("fix", [])),
                tuple(dict.fromkeys(one for one in leads.replace(",", " ").split() if own.is_rule_id(one))),
            )
        )
    return found


_SAME = {"seen": "evidence", "so": "leads to", "do": "fix"}


def _blocks(lines: list[str]) -> dict[str, list[tuple[int, str]]]:
    """The lines below each label as (column, text); those of the message under ""."""
    blocks: dict[str, list[tuple[int, str]]] = {"": []}
    label = ""
    for line in lines:
        match = _LABEL.match(line)
        if match:
            label = _SAME.get(match[1], match[1]) or match[2]
            blocks.setdefault(label, []).append((match.end(), line[match.end() :]))
        else:
            inner = line.lstrip()
            blocks[label].append((len(line) - len(inner), inner))
    return blocks


def _columns(text: str) -> int:
    """Of a terminal: a Chinese character takes two."""
    return len(text) if text.isascii() else len(_WIDE.sub("xx", text))


def _evidence(rows: list[tuple[int, str]], width: int) -> list[str]:
    """Each piece on one line. A line goes on with the piece before if its first word had no room there."""
    made: list[str] = []
    last = 0
    for column, text in rows:
        if _MORE.match(text):
            continue
        if made and (last + 1 + _columns(text.split(" ", 1)[0]) > width or ": " not in text):
            made[-1] = f"{made[-1]} {text}"[: own.TEXT_LIMIT]
        else:
            made.append(text)
        last = column + _columns(text)
    return made


def _fixes(rows: list[tuple[int, str]]) -> tuple[own.ReportedFix, ...]:
    """Titles with the commands that stand deeper; of several package tools the first."""
    if not rows:
        return ()
    several = rows[0][1] == "one of these:"
    made: list[tuple[str, list[str]]] = []
    margin, groups = rows[0][0], 0
    for column, text in rows[1:] if several else rows:
        number = _NUMBER.match(text) if several and column <= rows[0][0] else None
        if number or not made:
            made.append((text[number.end() :] if number else text, []))
            margin, groups = column + (number.end() if number else 0), 0
        elif _TOOLS.match(text) and column == margin:
            groups += 1
        elif column > margin:
            if groups < 2:
                made[-1][1].append(text)
        elif not made[-1][1]:
            made[-1] = (f"{made[-1][0]} {text}"[: own.TEXT_LIMIT], made[-1][1])
    return tuple(own.fix_of(text, tuple(commands)) for text, commands in made[: own.MOST_FIXES])
