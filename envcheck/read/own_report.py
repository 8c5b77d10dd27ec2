"""What a report of envcheck itself says, whatever format it was written in. All of it is a stranger's text: bounded, and never obeyed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from envcheck.facts.printable import begin_of
from envcheck.facts.record import record
from envcheck.facts.snapshot import Snapshot

TEXT_LIMIT = 4000  # characters of a title, a message or a line of evidence
MOST_FINDINGS, MOST_EVIDENCE, MOST_FIXES, MOST_COMMANDS = 200, 40, 12, 40

RULE_ID = re.compile(r"[a-z][a-z0-9]{0,30}(?:-[a-z0-9]{1,30}){1,8}")
VERSION = re.compile(r"\d{1,4}\.\d{1,4}[\w.+-]{0,40}")
# "error", "possible warning": the words of every renderer, and of every version so far
SEVERITY_WORD = re.compile(r"(possible )?(error|warning|info)")

# How the last line of a report begins: verdict_line() of this version and of those before.
_VERDICTS = (
    ("fail", ("Not ready: ",)),
    ("inconclusive", ("Cannot tell: ",)),
    (
        "pass",
        (
            "Ready to train",
            "Ready: ",
            "No problem found",
            "No error found",
            "The selected rules found nothing",
            "Nothing stands in the way",
        ),
    ),
)
# What a program prints that fails: no report that says "Ready" has it
FAILED = re.compile(
    r"(?:^|[\s\]):>])[A-Za-z_][\w.]{0,60}(?:Error|Exception): |Traceback \(most|what\(\): |(?<!=)\b(?:FATAL|ERROR|WARN)\b"
    r"|NVRM: Xid|Segmentation fault|core dumped|terminate called|\bSIG(?:SEGV|ABRT|BUS|ILL|FPE|KILL)\b|(?:^|\] ?)CUDA error: "
)
_COUNTED = re.compile(r" \(and \d{1,3} more reasons?\)$")
# What is said in brackets behind a fix: whose task it is and its grade.
_ASIDE = re.compile(
    r" \((administrator|administrator; [^()]{1,800}|checked against [^()]{1,800}|not checked[^()]{0,800}|not proved|proved[^()]{0,120}"
    r"|(?:not )?(?:tried|resolved)[^()]{1,600})\)"
)


AS_REPORTED = " (as reported)"  # behind a fix that another report printed: its commands are a stranger's


@record
class ReportedFix:
    """A way out as the report prints it."""

    text: str
    commands: tuple[str, ...] = ()
    who: str = "user"


@record
class ReportedFinding:
    """A finding as the report prints it."""

    rule: str
    severity: str
    likely: bool
    title: str
    message: str
    evidence: tuple[tuple[str, str], ...] = ()  # (source, text)
    fixes: tuple[ReportedFix, ...] = ()
    consequences: tuple[str, ...] = ()
    family: str = ""
    why: str = ""


@record
class OwnReport:
    """One report, or what was copied of it."""

    form: str  # "text", "markdown", "JSON", "record", …
    version: str = ""
    findings: tuple[ReportedFinding, ...] = ()
    line: str = ""  # its last line, the verdict; "" where that was not copied
    because: tuple[str, ...] = ()  # why it could not tell
    ignored: tuple[str, ...] = ()  # rules that its user did not want to hear of
    snapshot: Snapshot | None = None
    complete: bool = True  # the facts are; those in a fold of Markdown or HTML are without what was empty

    @property
    def verdict(self) -> str:
        """ "pass", "fail", "inconclusive"; "" where the report does not say."""
        return verdict_of(self.line)

    @property
    def kind(self) -> str:
        """ "envcheck 0.1.0 (text)": what a reader is told that it was taken for."""
        return " ".join(filter(None, ("envcheck", self.version, f"({self.form})")))


def verdict_of(line: str) -> str:
    return next((verdict for verdict, starts in _VERDICTS if line.startswith(starts)), "")


def is_planted(verdict: str, lines: Iterable[str]) -> bool:
    """Whether a page says "Ready" around lines of a program that fails: others read them, and the page decides nothing."""
    return verdict_of(verdict) == "pass" and any(map(FAILED.search, lines))


def left_to_others(verdict: str, lines: Sequence[str], fold: range, foreign: Iterable[int] = ()) -> tuple[frozenset[int], bool]:
    """Of the lines of a page that says "Ready", those that others read: the `foreign` ones and what is no JSON in its `fold`. Where one
    of them fails, all outside the fold, and the page decides nothing (the second)."""
    if verdict_of(verdict) != "pass":
        return frozenset(), False
    others = {*foreign, *(at for at in fold if not is_json_line(lines[at]))}
    outside = {at for at in range(1, len(lines)) if at not in fold}  # the first is its head
    failed = is_planted(verdict, (lines[at] for at in others | outside))
    return frozenset(others | outside if failed else others), failed


def is_json_line(line: str) -> bool:
    """Whether this may be a line of indented JSON, in which an object or a list begins or ends on a line of its own."""
    import json

    part = line.strip().removesuffix(",")
    if part in ("", "{", "}", "[", "]", "{}", "[]"):
        return True
    part += {"{": "}", "[": "]"}.get(part[-1], "")
    for around in ("{%s}", "[%s]"):
        try:
            json.loads(around % part)
        except (ValueError, RecursionError):
            continue
        return part[0] not in "{["
    return False


def reasons_in(line: str) -> tuple[str, ...]:
    """ "Cannot tell: NVML did not answer (and 2 more reasons)" → what it names."""
    return (_COUNTED.sub("", line.removeprefix("Cannot tell: ")),) if verdict_of(line) == "inconclusive" else ()


def severity_and_likely(word: str) -> tuple[str, bool] | None:
    """ "possible error" → ("error", True)."""
    match = SEVERITY_WORD.fullmatch(word)
    return (match[2], bool(match[1])) if match else None


def is_rule_id(text: str) -> bool:
    return len(text) <= 80 and RULE_ID.fullmatch(text) is not None


def evidence_of(line: str) -> tuple[str, str]:
    """ "nvidia-smi (exit 9): NVIDIA-SMI has failed" → the source and what it said."""
    source, colon, text = line.partition(": ")
    return (begin_of(source, TEXT_LIMIT), begin_of(text, TEXT_LIMIT)) if colon else ("report", begin_of(line, TEXT_LIMIT))


def fix_of(text: str, commands: tuple[str, ...] = ()) -> ReportedFix:
    """A fix by its printed text; the aside behind its title says who does it, and what it changes may follow."""
    text = text.replace(AS_REPORTED, "")
    aside = _ASIDE.search(text)
    if aside:
        text = ": ".join(filter(None, (text[: aside.start()], text[aside.end() :].strip())))
    who = "admin" if aside and aside[1].startswith("administrator") else "user"
    return ReportedFix(text[:TEXT_LIMIT], tuple(line[:TEXT_LIMIT] for line in commands[:MOST_COMMANDS]), who)


def folded_facts(text: str) -> Snapshot | None:
    """The facts in the fold of a page; None if they were cut or are of another version."""
    import json

    from envcheck.errors import UsageError
    from envcheck.facts.recorded import SCHEMA, snapshot_of

    try:
        value = json.loads(text)
        return snapshot_of({"schema": SCHEMA, **value}, "report") if isinstance(value, dict) else None
    except (ValueError, RecursionError, UsageError):
        return None


def body_parts(lines: list[str]) -> tuple[str, tuple[tuple[str, str], ...], tuple[ReportedFix, ...]]:
    """Message, evidence and fixes of a finding in lines, as JUnit and GitHub's annotations have it:

    the message, "source: text" for each piece of evidence, "fix: …" with its commands indented below."""
    message = lines[0] if lines else ""
    evidence: list[str] = []
    fixes: list[tuple[str, list[str]]] = []
    for line in lines[1:]:
        if line.startswith("fix: "):
            fixes.append((line.removeprefix("fix: "), []))
        elif fixes:
            if line.startswith("  "):
                fixes[-1][1].append(line.strip())
        elif ": " in line or not evidence:
            evidence.append(line)
        else:
            evidence[-1] += f" {line.strip()}"
    made = tuple(fix_of(text, tuple(commands)) for text, commands in fixes[:MOST_FIXES])
    return message[:TEXT_LIMIT], tuple(evidence_of(line) for line in evidence[:MOST_EVIDENCE]), made


def blanked(text: str, start: int, end: int, left: str = "") -> str:
    """The text with as many lines where a report stood, so that line numbers stay: empty ones, but for what is `left` of them."""
    return text[:start] + left + "\n" * (text.count("\n", start, end) - left.count("\n")) + text[end:]
