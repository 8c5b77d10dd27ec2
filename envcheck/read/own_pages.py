"""What envcheck writes that is no report of one machine: plans, comparisons, and the text of a job's report.

A plan and a comparison hold facts of machines that are elsewhere, or are not yet so: none of it is a machine's word. They are named, and
the answer is what to give instead. They are met as files of their own, alone in their text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from envcheck.read import own_report as own
from envcheck.read.own_report import OwnReport, ReportedFinding

# What a page says, and what tells more.
NO_REPORT: Mapping[str, tuple[str, str]] = {
    "plan": ("a plan says what to install, not what is wrong", "to decide, give the log of the program or the report of its machine"),
    "compare": ("a comparison says what differs, not what is wrong", "to decide, give the two recordings that were compared"),
}
_COMPARED = re.compile(r"\d{1,6} facts differ, \d{1,4} rules change their verdict$|the same facts, the same verdicts$")
_PLANNED = re.compile(r"for \S.{0,400}(?:\n   .{0,400}){0,20}\n\n")
_ALONE = re.compile(r"^(?:No plan\.|Left out:)$", re.MULTILINE)
_FLEET = re.compile(r"^envcheck (\d[\w.+-]{0,50}), fleet of \d{1,6} hosts?: .{0,400}\n(.{1,2000})$", re.MULTILINE)
_FINDING = re.compile(r"([✗!–x-]) (.{1,200}?): (.{1,4000}?) \[(?:((?:possible )?(?:error|warning|info)): )?([a-z0-9-]{3,80})\](?: |$)")
_TABLES = "envcheck's tables"  # how far each way is vouched for
_FAILS = ("✗", "x")


def no_report(form: str, what: str, version: str = "") -> OwnReport:
    """A plan or a comparison in a format."""
    return OwnReport(f"{form}, {what}", version, (), f"Cannot tell: {NO_REPORT[what][0]}", NO_REPORT[what])


def of_document(value: Mapping[str, object]) -> OwnReport | None:
    """The same of JSON, which has `schema`."""
    tool, plan, facts, rules = (value.get(name) for name in ("tool", "plan", "facts", "rules"))
    planned = isinstance(plan, dict) and isinstance(plan.get("ways"), list) and facts is None and "findings" not in value
    if planned and isinstance(tool, dict) and tool.get("name") == "envcheck":
        return no_report("JSON", "plan", str(tool.get("version", ""))[:50])
    if isinstance(facts, list) and isinstance(rules, list) and all(_is_side(one) for one in [*facts, *rules]):
        return no_report("JSON", "compare")
    return None


def _is_side(one: object) -> bool:
    return isinstance(one, dict) and {"before", "after"} < one.keys() and bool({"fact", "rule"} & one.keys())


def take_pages(text: str, rules: Collection[str]) -> tuple[str, list[OwnReport]]:
    """The clean text without such a page, and this. A finding of a job counts if its rule is one of `rules`."""
    if head := _FLEET.search(text):
        end = text.find(f"\n{head[2]}", head.end())  # the verdict stands last as well where the page is long
        end = len(text) if end < 0 else end + 1 + len(head[2])
        if own.verdict_of(head[2]) and not own.is_planted(head[2], text[head.end() : end].split("\n")):
            found = _of_job(text[head.end() : end], rules)
            report = OwnReport("text, fleet", head[1], found, head[2][: own.TEXT_LIMIT], own.reasons_in(head[2]))
            return own.blanked(text, head.start(), end), [report]
    stripped = text.strip()
    if _PLANNED.match(stripped) and (_ALONE.search(stripped) or _TABLES in " ".join(stripped.split())):
        return "\n" * text.count("\n"), [no_report("text", "plan")]
    *changes, last = stripped.split("\n")
    if _COMPARED.match(last) and all(not line or " → " in line or " -> " in line for line in changes):
        return "\n" * text.count("\n"), [no_report("text", "compare")]
    return text, []


def _of_job(body: str, rules: Collection[str]) -> tuple[ReportedFinding, ...]:
    """A finding is a paragraph that begins with a sign and ends where "do" begins."""
    paragraphs: list[list[str]] = []
    for line in body.split("\n"):
        if line[:2] in ("✗ ", "! ", "– ", "x ", "- "):
            paragraphs.append([line])
        elif paragraphs and line.startswith("    ") and not line.startswith("    do "):
            paragraphs[-1].append(line.strip())
        else:
            paragraphs.append([])
    found = []
    for parts in paragraphs[: 8 * own.MOST_FINDINGS]:
        match = _FINDING.match(" ".join(parts)[: 2 * own.TEXT_LIMIT])
        if match is None or match[5] not in rules:
            continue
        known = own.severity_and_likely(match[4] or "error")
        severity, likely = known or ("error", False)
        likely = likely or (not match[4] and match[1] not in _FAILS)  # an error without the sign of one is not certain
        found.append(ReportedFinding(match[5], severity, likely, "", f"{match[2]}: {match[3]}"))
    return tuple(found[: own.MOST_FINDINGS])
