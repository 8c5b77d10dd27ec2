"""envcheck's report in Markdown, as its source was pasted: from its heading to the end of the fold with the facts.

### envcheck 0.1.0: Not ready: 1 error
#### error: The NVIDIA driver is older than this torch build (`driver-too-old`)

Driver 535.183.01 offers CUDA up to 12.2; …

- /sys/module/nvidia/version: `535.183.01`

A CUDA build of torch needs …

What to do:

1. Install torch 2.15.0 built for CUDA 12.6

   ```sh
   python -m pip install …
   ```
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from envcheck.read import own_report as own
from envcheck.read.own_report import OwnReport, ReportedFinding

MOST_LINES = 40_000  # the fold holds all facts
_HEAD = re.compile(r"(.{0,60}?)### envcheck (\d[\w.+-]{0,50}): (\S.{0,600})$")
_FINDING = re.compile(r"(.{0,60}?)#### ((?:possible )?(?:error|warning|info)): (\S.{0,2000}) \(`([a-z0-9-]{3,80})`\)$")
_BULLET = re.compile(r"- (.{0,400}?): (`{1,8}) ?(.{0,4000}?) ?\2$")
_NUMBER = re.compile(r"\d{1,2}\. ")
_TOOLS = re.compile(r"(?:(?:pip|uv|conda)(?:, (?:pip|uv|conda)){0,2}|one of these lines):$")
_ESCAPE = re.compile(r"\\([\\`*_{}\[\]<>#|~&@!/.])")
_OTHER = re.compile(
    r"(?:Could not tell|Not tested by the live check|The live check did not prove):$|Assumed: |ignored: |severity changed: |<details>"
)


def take_markdown(text: str, rules: Collection[str]) -> tuple[str, list[OwnReport]]:
    """The text without the reports in it, and these. A finding without the report's heading counts if its rule is one of `rules`."""
    if "### envcheck " not in text and "#### " not in text:
        return text, []
    lines = text.split("\n")
    found: list[OwnReport] = []
    at = 0
    while at < len(lines):
        head = _HEAD.match(lines[at]) if "### envcheck " in lines[at] else None
        first = _FINDING.match(lines[at]) if head is None and "#### " in lines[at] else None
        if (head is None or not own.VERSION.fullmatch(head[2])) and (first is None or first[4] not in rules):
            at += 1
            continue
        before = head[1] if head else first[1] if first else ""
        end = _end(lines, at, before, head is not None)
        page = [_bare(line, before) for line in lines[at:end]]
        findings = tuple(one for one in _findings(page) if head or one.rule in rules)[: own.MOST_FINDINGS]
        verdict = _plain(head[3]) if head else ""
        fold = _fold(page) if head else range(0)
        facts = own.folded_facts("\n".join(page[one] for one in fold)) if fold else None
        version = head[2] if head else ""
        others, failed = own.left_to_others(verdict, page, fold, _foreign(page, fold))
        if failed:
            findings, verdict, facts = (), "", None
        found.append(OwnReport("markdown", version, findings, verdict, own.reasons_in(verdict), (), facts, complete=False))
        lines[at:end] = [line if one in others else "" for one, line in enumerate(lines[at:end])]
        at = end
    return ("\n".join(lines) if found else text), found


def _bare(line: str, before: str) -> str:
    """A line without the "> " of a quotation."""
    return (line[len(before) :] if line.startswith(before) else "" if before.startswith(line.rstrip()) else line).rstrip()


def _plain(text: str) -> str:
    """What the escapes of Markdown stand for."""
    return _ESCAPE.sub(r"\1", text).replace("&lt;", "<").replace("&gt;", ">").replace("\u200b", "")


def _end(lines: list[str], at: int, before: str, whole: bool) -> int:
    """The line behind the report: where its fold ends, or where what stands there is none of its paragraphs."""
    last = min(len(lines), at + MOST_LINES)
    if whole:
        for number in range(at + 1, last):
            line = _bare(lines[number], before)
            if line == "</details>":
                return number + 1
            if line.startswith("### ") or _HEAD.match(lines[number]):
                break
    number = behind = at + 1
    plain, allowed = 0, 0 if whole else 2  # paragraphs below a finding's heading: its message, and why
    while number < last:
        line = _bare(lines[number], before)
        number += 1
        if not line:
            continue
        if line.startswith("<details>"):  # the fold was cut: facts up to the end of their block
            return next((at + 1 for at in range(number, last) if _bare(lines[at], before) == "```"), last)
        if _FINDING.match(line):
            plain, allowed = 0, 2
        elif not _of_a_finding(line):
            plain += 1
        if plain > allowed or _HEAD.match(line):
            break
        behind = number
    return behind


def _of_a_finding(line: str) -> bool:
    starts = ("- ", "   ", "| ", "|-", "What to do:", "What to do, one of:")
    return line.startswith(starts) or _NUMBER.match(line) is not None or _OTHER.match(line) is not None


def _fold(lines: list[str]) -> range:
    """The lines of the block in the fold."""
    start = next((at for at, line in enumerate(lines) if line.startswith("<details>")), len(lines))
    fence = next((at for at in range(start, len(lines)) if lines[at].startswith("```") and lines[at].endswith("json")), None)
    if fence is None:
        return range(0)
    marks = lines[fence].removesuffix("json")
    end = next((at for at in range(fence + 1, len(lines)) if lines[at] == marks), len(lines))
    return range(fence + 1, end)


def _foreign(lines: list[str], fold: range) -> Iterator[int]:
    """The lines of a page that are none of its paragraphs."""
    allowed = 0  # below a finding's heading: its message, and why
    for at, line in enumerate(lines):
        if _FINDING.match(line):
            allowed = 2
        elif at and at not in fold and line and not _of_a_finding(line) and not line.startswith(("```", "</details>")):
            allowed -= 1
            if allowed < 0:
                yield at


def _findings(lines: list[str]) -> list[ReportedFinding]:
    found = []
    places = [at for at, line in enumerate(lines) if _FINDING.match(line)]
    for at, end in zip(places, (*places[1:], len(lines)), strict=False):
        match = _FINDING.match(lines[at])
        known = own.severity_and_likely(match[2]) if match else None
        if match is None or known is None or not own.is_rule_id(match[4]):
            continue
        body = [line for line in lines[at + 1 : end] if line]
        stop = next((number for number, line in enumerate(body) if _OTHER.match(line)), len(body))
        body = body[:stop]
        do = next((number for number, line in enumerate(body) if line.startswith("What to do")), len(body))
        evidence = [(_plain(one[1]), one[3]) for line in body[:do] if (one := _BULLET.match(line))]
        message = _plain(body[0]) if do and not _BULLET.match(body[0]) else ""
        found.append(
            ReportedFinding(
                match[4],
                *known,
                _plain(match[3])[: own.TEXT_LIMIT],
                message[: own.TEXT_LIMIT],
                tuple(evidence[: own.MOST_EVIDENCE]),
                _fixes(body[do + 1 :]),
            )
        )
    return found


def _fixes(lines: list[str]) -> tuple[own.ReportedFix, ...]:
    made: list[tuple[str, list[str]]] = []
    fence, groups = "", 0
    for line in lines:
        inner = line.strip()
        if fence:
            if inner == fence:
                fence = ""
            elif groups < 2:
                made[-1][1].append(line[3:])
        elif number := _NUMBER.match(line):
            made.append((_plain(line[number.end() :]), []))
            groups = 0
        elif made and inner.startswith("```"):
            fence = "`" * (len(inner) - len(inner.lstrip("`")))
        elif made and _TOOLS.match(inner):
            groups += 1
    return tuple(own.fix_of(text, tuple(commands)) for text, commands in made[: own.MOST_FIXES])
