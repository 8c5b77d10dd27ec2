"""envcheck's reports in HTML and JUnit XML. One lenient parser reads both, so that a report that was cut or merged is read too.

Nothing in them is loaded, and an entity is never expanded: html.parser knows those of HTML alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from enum import Enum
from html.parser import HTMLParser

from envcheck.facts.record import record
from envcheck.read import own_pages
from envcheck.read import own_report as own
from envcheck.read.own_report import OwnReport, ReportedFinding

PAGE_LIMIT = 16 << 20  # characters of one page
MOST_SUITES, MOST_CASES = 400, 2000
_Case = tuple[str, str, str, dict[str, str], list[str]]  # rule, family, what it holds, attributes of that, text
_CODE = re.compile(r"[{};]|,\s{0,20}$")  # each line of a style or a script has it
_VOID = frozenset({"br", "meta", "input", "img", "hr", "link", "wbr", "source", "path", "rect", "circle", "line"})
_WITHOUT_TEXT = frozenset(
    {"html", "head", "body", "main", "table", "thead", "tbody", "tr", "ul", "ol", "dl", "section", "details", "svg", "g"}
)

_H1 = re.compile(
    r"<h1[^<>]{0,80}>envcheck (\d[\w.+-]{0,50})(?:, (\w{2,10}))?: <span class=['\"](?:pass|warn|fail|inconclusive)['\"]>"
    r"([^<>]{1,600})</span>"
)
_PAGES = {"plan": "plan", "compare": "compare"}  # those that are no report of a machine
_SUITES = re.compile(r"<testsuites\b[^<>]{0,300}\bname=['\"]envcheck['\"]")
_FRAME = re.compile(r"<\?xml [^<>]{0,200}\?>|<testsuites\b[^<>]{0,300}\bname=['\"]envcheck['\"][^<>]{0,300}>|</testsuites>")
_SUITE = re.compile(r"<testsuite\b[^<>]{0,200}\bname=['\"]envcheck\.\w{1,40}['\"]")
_FAMILY = re.compile(r"envcheck\.(\w{1,40})")
_BLANKS = re.compile(r"\s+")


def take_markup(text: str, rules: Collection[str]) -> tuple[str, list[OwnReport]]:
    """The raw text without the pages and suites in it, and these. Without the frame of a report only findings of `rules` count."""
    found: list[OwnReport] = []
    if "<h1" in text:
        text = _take_pages(text, found)
    if "<testsuite" in text and "envcheck." in text:
        text = _take_suites(text, found, rules)
    return text, found


def _take_pages(text: str, found: list[OwnReport]) -> str:
    at = 0
    while head := _H1.search(text, at):
        start = max(text.rfind("<!doctype html>", at, head.start()), text.rfind("<!DOCTYPE html>", at, head.start()))
        start = head.start() if start < 0 else start
        end = text.find("</html>", head.end(), head.end() + PAGE_LIMIT)
        end = min(len(text), head.end() + PAGE_LIMIT) if end < 0 else end + len("</html>")
        other = _PAGES.get(head[2] or "")
        report, left = (own_pages.no_report("HTML", other, head[1]), "") if other else _page(head, text[start:end])
        found.append(report)
        text = own.blanked(text, start, end, left)
        at = start
    return text


def _page(head: re.Match[str], body: str) -> tuple[OwnReport, str]:
    """The report of a page, and what of it others read."""
    page = _Html()
    page.feed(body)
    page.close()
    verdict, form = _unescaped(head[3]), "HTML" + (f", {head[2]}" if head[2] else "")
    facts = own.folded_facts("".join(page.fold)) if page.fold else None
    findings = tuple(page.findings()[: own.MOST_FINDINGS])
    left, failed = _left(verdict, page.texts)
    if failed:
        verdict, findings, facts = "", (), None
    return OwnReport(form, head[1], findings, verdict, own.reasons_in(verdict), (), facts, complete=False), left


def _take_suites(text: str, found: list[OwnReport], rules: Collection[str]) -> str:
    framed = _SUITES.search(text) is not None
    suites: list[tuple[int, int, _JUnit]] = []
    at = 0
    while (head := _SUITE.search(text, at)) and len(suites) < MOST_SUITES:
        end = text.find("</testsuite>", head.end(), head.end() + PAGE_LIMIT)
        at = min(len(text), head.end() + PAGE_LIMIT) if end < 0 else end + len("</testsuite>")
        parser = _JUnit()
        parser.feed(text[head.start() : at])
        parser.close()
        suites.append((head.start(), at, parser))
    cases = [case for _, _, parser in suites for case in parser.cases]
    findings = tuple(one for one in _junit_findings(cases) if framed or one.rule in rules)[: own.MOST_FINDINGS]
    verdict, because = _junit_verdict(cases)
    if not findings and not verdict:
        return text
    left = [_left(verdict, parser.texts) for _, _, parser in suites]
    if any(failed for _, failed in left):
        findings, verdict, because = (), "", ()
    found.append(OwnReport("JUnit", "", findings, verdict, because))
    for (start, end, _), (lines, _) in zip(reversed(suites), reversed(left), strict=True):
        text = own.blanked(text, start, end, lines)
    return _FRAME.sub("", text) if framed else text


def _left(verdict: str, texts: Sequence[_Text]) -> tuple[str, bool]:
    """What others read of a document that says "Ready", on the lines where it stood, and whether it decides nothing for that."""
    if own.verdict_of(verdict) != "pass":
        return "", False
    others: dict[int, list[str]] = {}
    failed = False
    for one in texts:
        for at, line in enumerate(one.text.split("\n"), one.line):
            fails = one.place is not _Place.FACTS and own.FAILED.search(line) is not None
            foreign = one.place is _Place.NONE or (one.place is _Place.FACTS and not own.is_json_line(line))
            foreign = foreign or (one.place is _Place.CODE and not _CODE.search(line))
            if line.strip() and (fails or foreign):
                others.setdefault(at, []).append(line)
                failed = failed or own.FAILED.search(line) is not None
    return "\n".join(" ".join(others.get(at, ())) for at in range(max(others, default=0) + 1)), failed


def _unescaped(text: str) -> str:
    from html import unescape

    return _one_line(unescape(text))


def _one_line(text: str) -> str:
    return _BLANKS.sub(" ", text).strip()[: own.TEXT_LIMIT]


class _Place(Enum):
    """Where a text stands in a document of ours."""

    NONE = "none"  # where we write none
    FACTS = "facts"  # in the JSON of the fold
    CODE = "code"  # in a style or a script
    OURS = "ours"  # where we write


@record
class _Text:
    line: int  # on which it begins, from 0
    text: str
    place: _Place


class _Html(HTMLParser):
    """Gathers the text of each `<section class='finding …'>` by the element that it stands in."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[_Text] = []  # all but those of findings and of the table of facts
        self._open: list[str] = []
        self.sections: list[list[tuple[tuple[str, ...], str]]] = []  # of each finding: (elements around, text)
        self.fold: list[str] = []  # the block of facts
        self._inside = False
        self._folded = False
        self._path: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _VOID and len(self._open) < 60:
            self._open.append(tag)
        if tag == "section" and (dict(attrs).get("class") or "").startswith("finding"):
            self._inside, self._path = len(self.sections) < own.MOST_FINDINGS, []
            self.sections += [[]] if self._inside else []
        elif tag == "details":
            self._folded = True
        elif self._inside:
            if tag == "br":
                self.sections[-1].append((tuple(self._path), "\n"))
            elif len(self._path) < 12:
                self._path.append(tag)
                self.sections[-1].append((tuple(self._path), ""))  # an element begins

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while self._open.pop() != tag:
                pass
        if tag == "section":
            self._inside = False
        elif tag == "summary":
            self.fold.clear()
        elif tag == "details":
            self._folded = False
        elif self._inside and tag in self._path:
            while self._path.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if data.strip() and (place := self._place()):
            self.texts.append(_Text(self.getpos()[0] - 1, data, place))
        if self._inside:
            self.sections[-1].append((tuple(self._path), data))
        elif self._folded:
            self.fold.append(data)

    def _place(self) -> _Place | None:
        block = "pre" in self._open
        if not self._open or self._open[-1] in _WITHOUT_TEXT or (block and not self._inside and not self._folded):
            return _Place.NONE
        if self._inside or self._folded:
            return (_Place.OURS if self._inside else _Place.FACTS) if block else None
        return _Place.CODE if self._open[-1] in ("style", "script") else _Place.OURS

    def findings(self) -> list[ReportedFinding]:
        return [made for parts in self.sections if (made := _html_finding(parts)) is not None]


def _grouped(parts: list[tuple[tuple[str, ...], str]], path: tuple[str, ...]) -> list[list[tuple[tuple[str, ...], str]]]:
    """The contents of each element that stands at this path, without the path."""
    groups: list[list[tuple[tuple[str, ...], str]]] = []
    for where, text in parts:
        if where == path and not text:
            groups.append([])
        elif where[: len(path)] == path and groups:
            groups[-1].append((where[len(path) :], text))
    return groups


def _text(parts: list[tuple[tuple[str, ...], str]], *within: str) -> str:
    return "".join(text for where, text in parts if where[: len(within)] == within)


def _html_finding(parts: list[tuple[tuple[str, ...], str]]) -> ReportedFinding | None:
    heads = _grouped(parts, ("h2",))
    if not heads:
        return None
    known = own.severity_and_likely(_one_line(_text(heads[0], "span")))
    codes = _grouped(heads[0], ("code",))
    rule = _one_line(_text(codes[-1])) if codes else ""
    if known is None or not own.is_rule_id(rule):
        return None
    title = _one_line("".join(text for where, text in heads[0] if not where)).removeprefix(":").strip()
    paragraphs = [_one_line(_text(one)) for one in _grouped(parts, ("p",))]
    evidence = []
    for item in _grouped(parts, ("ul", "li")):
        source = _one_line("".join(text for where, text in item if not where)).removesuffix(":")
        evidence.append((source, _one_line(_text(item, "code"))))
    fixes = tuple(_html_fix(item) for item in _grouped(parts, ("ol", "li")))
    message = paragraphs[0] if paragraphs else ""
    return ReportedFinding(rule, *known, title, message, tuple(evidence[: own.MOST_EVIDENCE]), fixes[: own.MOST_FIXES])


def _html_fix(parts: list[tuple[tuple[str, ...], str]]) -> own.ReportedFix:
    """The title stands before the first line break; of the commands of several tools the first."""
    title = _one_line("".join(text for where, text in parts if not where).partition("\n")[0])
    groups = [_text(one) for one in _grouped(parts, ("pre",))]
    return own.fix_of(title, tuple(line for line in (groups[0] if groups else "").split("\n") if line.strip()))


class _JUnit(HTMLParser):
    """Gathers the cases of envcheck's suites: (rule, family, attributes of a failure or error, text)."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.cases: list[_Case] = []
        self.texts: list[_Text] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "testcase":
            family = _FAMILY.fullmatch(given.get("classname", ""))
            self._inside = "case" if family and len(self.cases) < MOST_CASES else ""
            if family and self._inside:
                self.cases.append((given.get("name", ""), family[1], "", {}, []))
        elif self._inside and tag in ("failure", "error", "system-out", "skipped"):
            rule, family_name, _, _, said = self.cases[-1]
            self.cases[-1] = (rule, family_name, tag, given, said)
            self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = "" if tag == "testcase" else "case" if self._inside == tag else self._inside

    def handle_data(self, data: str) -> None:
        within = self._inside in ("failure", "error", "system-out")
        if within:
            self.cases[-1][4].append(data)
        if data.strip():
            self.texts.append(_Text(self.getpos()[0] - 1, data, _Place.OURS if within else _Place.NONE))


def _junit_findings(cases: Sequence[_Case]) -> list[ReportedFinding]:
    alone = [made for one in cases if one[1] != "fleet" and (made := _junit_finding(*one)) is not None]
    return alone + [made for one in cases if one[1] == "fleet" for made in _fleet_findings("".join(one[4]))]


def _junit_verdict(cases: Sequence[_Case]) -> tuple[str, tuple[str, ...]]:
    """The report's last line, and why it cannot tell."""
    if any(family == "fleet" and kind == "failure" for _, family, kind, _, _ in cases):
        return "Not ready: bad hosts", ()
    for name, family, kind, given, said in cases:
        if name == "verdict" or (family == "fleet" and kind == "error"):
            text = "".join(said)
            if kind == "error":
                return given.get("message", "")[: own.TEXT_LIMIT], tuple(one for one in text.split("\n") if one)[:10]
            return text.strip()[: own.TEXT_LIMIT], ()
    return "", ()


def _fleet_findings(said: str) -> list[ReportedFinding]:
    """What a case of a job's report, a host, holds: "error: … [rule]", evidence and fixes below it, and the next."""
    cases: list[tuple[str, str, bool, list[str]]] = []  # rule, severity, whether it is only likely, lines
    for line in said.split("\n"):
        word, _, rest = line.partition(": ")
        known, (message, _, rule) = own.severity_and_likely(word), rest.rpartition(" [")
        if known is not None and rule.endswith("]") and own.is_rule_id(rule[:-1]):
            cases.append((rule[:-1], *known, [message]))
        elif cases:
            cases[-1][3].append(line)
    found = []
    for rule, severity, likely, lines in cases[: own.MOST_FINDINGS]:
        message, evidence, fixes = own.body_parts(lines)
        found.append(ReportedFinding(rule, severity, likely, "", message, evidence, fixes))
    return found


def _junit_finding(rule: str, family: str, kind: str, given: dict[str, str], said: list[str]) -> ReportedFinding | None:
    """A failure says what it is in its type ("certain error"); what does not fail the run, in its first word."""
    lines = "".join(said).split("\n")
    if kind == "failure":
        confidence, _, severity = given.get("type", "").partition(" ")
        known = own.severity_and_likely(severity)
        likely = confidence == "likely"
    elif kind == "system-out":
        word, _, lines[0] = lines[0].partition(": ")
        known = own.severity_and_likely(word)
        # An error that does not fail the run is not certain: the first versions did not say so.
        likely = known is not None and (known[1] or known[0] == "error")
    else:
        return None
    if known is None or not own.is_rule_id(rule) or len(lines) < 2:
        return None
    title, *rest = lines
    if rest and rest[0].startswith("severity changed: "):
        rest = rest[1:]
    message, evidence, fixes = own.body_parts(rest)
    return ReportedFinding(rule, known[0], likely, title[: own.TEXT_LIMIT], message, evidence, fixes, family=family)
