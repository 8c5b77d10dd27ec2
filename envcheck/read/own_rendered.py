"""envcheck's report in Markdown as a page shows it and a person copies it: no marks, no fences, with or without the numbers of its lists.

envcheck 0.1.0: Not ready: 1 error
error: The NVIDIA driver is older than this torch build (driver-too-old)
Driver 535.183.01 offers CUDA up to 12.2; …
/sys/module/nvidia/version: 535.183.01
A CUDA build of torch needs …
What to do:
1. Install torch 2.15.0 built for CUDA 12.6
python -m pip install …
Facts
"""

from __future__ import annotations

import re
from collections.abc import Collection

from envcheck.read import own_report as own
from envcheck.read.own_report import OwnReport, ReportedFinding

MOST_LINES = 40_000  # the fold holds all facts
_HEAD = re.compile(r"\s{0,20}envcheck (\d[\w.+-]{0,50}): (\S.{0,600})$")
_FINDING = re.compile(r"\s{0,20}((?:possible )?(?:error|warning|info)): (\S.{0,2000}) \(([a-z0-9-]{3,80})\)\s{0,4}$")
_FACTS = re.compile(r"\W{0,6}Facts\s{0,4}$")
_DO = re.compile(r"\s{0,20}What to do(?:, one of)?:")
_MARK = re.compile(r"\s{0,20}(?:[•*·◦-]|\d{1,2}\.)\s{1,4}")
_NUMBER = re.compile(r"\s{0,20}\d{1,2}\.\s{1,4}")
_SOURCE = re.compile(r"(.{1,400}?): (.{1,4000})$")
_COMMAND = re.compile(r"(?:\$env:|[a-z./~][\w./~+-]{0,200}(?: |=)|[A-Z][A-Z0-9_]{2,40}=)(?!.{0,400} -> )")
_OTHER = re.compile(
    r"(?:Could not tell|Not tested by the live check|The live check did not prove):$|Assumed: |ignored: |severity changed: "
)
_PARAGRAPHS = 4  # behind a report whose end was not copied


def take_rendered(text: str, rules: Collection[str]) -> tuple[str, list[OwnReport]]:
    """The text without such reports, and these. A finding counts if its rule is one of `rules`."""
    lines = text.split("\n")
    found: list[OwnReport] = []
    at = 0
    while at < len(lines):
        head = _HEAD.match(lines[at]) if "envcheck " in lines[at] else None
        if head is None or not own.VERSION.fullmatch(head[1]) or not own.verdict_of(head[2].strip()):
            at += 1
            continue
        end, fold = _end(lines, at, rules)
        page, verdict = lines[at:end], head[2].strip()
        findings, facts = _findings(page, rules), own.folded_facts("\n".join(page[one] for one in fold)) if fold else None
        others, failed = own.left_to_others(verdict, page, fold)
        if failed:
            findings, verdict, facts = (), "", None
        found.append(OwnReport("rendered Markdown", head[1], findings, verdict, own.reasons_in(verdict), (), facts, complete=False))
        lines[at:end] = [line if one in others else "" for one, line in enumerate(page)]
        at = end
    return ("\n".join(lines) if found else text), found


def _end(lines: list[str], at: int, rules: Collection[str]) -> tuple[int, range]:
    """The line behind the report, and which of its lines are the JSON of its fold. Without the fold: some paragraphs behind the last
    finding."""
    last = behind = min(len(lines), at + MOST_LINES)
    finding = at
    for number in range(at + 1, last):
        if _FACTS.match(lines[number]):
            start = next((one for one in range(number + 1, min(number + 4, last)) if lines[one].strip()), last)
            if start == last or lines[start].strip() != "{":
                return number + 1, range(0)
            end = next((one for one in range(start + 1, last) if lines[one].rstrip() == "}"), last - 1)
            return end + 1, range(start - at, end + 1 - at)
        if _HEAD.match(lines[number]) and "envcheck " in lines[number]:
            behind = number
            break
        if (match := _FINDING.match(lines[number])) and match[3] in rules:
            finding = number
    left = _PARAGRAPHS
    for number in range(finding + 1, behind):
        if lines[number].strip() and not lines[number - 1].strip():
            left -= 1
        if not left:
            return number, range(0)
    return behind, range(0)


def _findings(lines: list[str], rules: Collection[str]) -> tuple[ReportedFinding, ...]:
    places = [(at, match) for at, line in enumerate(lines) if (match := _FINDING.match(line)) and match[3] in rules]
    ends = [*(at for at, _ in places[1:]), len(lines)]
    found = []
    for (at, match), end in zip(places, ends, strict=False):
        known = own.severity_and_likely(match[1])
        if known is None:
            continue
        body = [line.strip() for line in lines[at + 1 : end] if line.strip()]
        body = body[: next((number for number, line in enumerate(body) if _OTHER.match(line) or _FACTS.match(line)), len(body))]
        do = next((number for number, line in enumerate(body) if _DO.match(line)), len(body))
        evidence = [(one[1], one[2]) for line in body[1 : do - 1] if (one := _SOURCE.match(_MARK.sub("", line, count=1)))]
        found.append(
            ReportedFinding(
                match[3],
                *known,
                match[2][: own.TEXT_LIMIT],
                body[0][: own.TEXT_LIMIT] if do else "",
                tuple(evidence[: own.MOST_EVIDENCE]),
                _fixes(body[do + 1 :]),
            )
        )
    return tuple(found[: own.MOST_FINDINGS])


def _fixes(lines: list[str]) -> tuple[own.ReportedFix, ...]:
    """A paragraph that is no command begins a way out; where the list kept its numbers, they alone do."""
    numbered = any(_NUMBER.match(line) for line in lines)
    made: list[tuple[str, list[str]]] = []
    for line in lines:
        words = _NUMBER.sub("", line, count=1)
        begins = words != line if numbered else line[:1].isupper() and not _COMMAND.match(line)
        if begins:
            made.append((words, []))
        elif made and _COMMAND.match(words):
            made[-1][1].append(words)
    return tuple(own.fix_of(text, tuple(commands)) for text, commands in made[: own.MOST_FIXES])
