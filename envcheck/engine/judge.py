"""Snapshot + checks + tables → verdicts → findings. Knows nothing of what a rule is about."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from string import Formatter
from typing import TYPE_CHECKING, Any

from envcheck.engine import shells
from envcheck.engine.distributions import own_lines
from envcheck.engine.intents import Install, Intent, Manual, SetEnv, TorchBuild
from envcheck.engine.rule import Check, Confidence, Evidence, Facts, Hit, Matches, RuleText, RuleTexts, Severity, Unknown
from envcheck.facts.codec import bounded
from envcheck.facts.record import record, replace
from envcheck.facts.snapshot import SECTIONS, Missing, Snapshot, TextEvidence

if TYPE_CHECKING:
    from envcheck.tables.compat import Tables

LONGEST_VALUE = 4096  # characters of what a message names: no path is longer
LONGEST_EVIDENCE = 16_000  # of one piece


class Outcome(Enum):
    OK = "ok"
    HIT = "hit"
    NOT_APPLICABLE = "not_applicable"
    UNKNOWN = "unknown"
    CRASHED = "crashed"


@record
class Verdict:
    rule: str
    outcome: Outcome
    reason: str = ""
    hit: Hit | None = None
    section: str | None = None  # the section whose absence made it unknown


@record
class Finding:
    """A hit made presentable. `fixes` are intents in the order of preference."""

    rule: str
    family: str
    severity: Severity
    confidence: Confidence
    title: str
    message: str
    evidence: tuple[Evidence, ...]
    fixes: tuple[Intent, ...]
    docs: tuple[str, ...]
    consequences: tuple[str, ...] = ()  # rules that hit too, and that this one explains
    layer: str | None = None  # its row in the picture of the stack


def judge(snapshot: Snapshot, checks: Iterable[Check], tables: Tables) -> tuple[Verdict, ...]:
    """One verdict a check, in the order given. A check that raises is CRASHED, the others go on."""
    missing = {name: section for name in SECTIONS if isinstance(section := getattr(snapshot, name), Missing)}
    sections: dict[str, Any] = {name: SECTIONS[name]() if name in missing else getattr(snapshot, name) for name in SECTIONS}
    facts = Facts(**sections, tables=tables, missing=missing, absent=snapshot.absent)
    return tuple(_judge(one, facts) for one in checks)


def _judge(one: Check, facts: Facts) -> Verdict:
    """A hit stands on what was read; "nothing found" stands only if everything needed was read."""
    try:
        answer = one.answer(facts)
    except Exception as error:  # a broken rule must not cost the others
        return Verdict(one.id, Outcome.CRASHED, f"{type(error).__name__}: {error}")
    match answer:
        case Hit():
            return Verdict(one.id, Outcome.HIT, hit=_as_sure_as_said(answer, facts.said(one.id)))
        case Unknown(reason):
            return Verdict(one.id, Outcome.UNKNOWN, reason)
    missing = facts.missing
    unread = [name for name in one.needs if name in missing]
    for name in sorted(unread, key=lambda name: not missing[name].trouble):
        outcome = Outcome.UNKNOWN if missing[name].trouble else Outcome.NOT_APPLICABLE
        return Verdict(one.id, outcome, f"{name}: {missing[name].reason}", section=name)
    return Verdict(one.id, Outcome.OK)


def _as_sure_as_said(hit: Hit, said: Matches) -> Hit:
    """A hit that rests on nothing but lines of which none proves anything by itself is a guess, unless the check says otherwise."""
    if hit.confidence or not hit.evidence:
        return hit
    rows = [[row.confidence for row in said if (row.source, row.text) == (one.source, one.text)] for one in hit.evidence]
    guessed = all(row and all(one == Confidence.LIKELY.value for one in row) for row in rows)
    return replace(hit, confidence=Confidence.LIKELY) if guessed else hit


def findings(
    verdicts: Iterable[Verdict], texts: RuleTexts, traits: Collection[str] | None = None, second: Collection[str] = ()
) -> tuple[Finding, ...]:
    """Hits as findings, cause first; a hit that another hit explains moves into its `consequences`. `traits` are those of the machine
    (facts/traits.py): fixes for other machines are left out; None keeps all of them. Rules of `second` explain nothing and come last.

    A weaker cause (a note, a guess) does not swallow a stronger consequence: what is certain stays on its own, behind the cause.
    """
    rows = [(text := texts.read(one.rule), _doubtful(one.hit, text) if one.rule in second else one.hit) for one in verdicts if one.hit]
    strength = {text.id: _strength(text, hit) for text, hit in rows}
    related = _explained([text for text, _ in rows])
    related |= {one: () for one in second if one in related}
    explained = {cause: tuple(one for one in ids if strength[cause] <= strength[one]) for cause, ids in related.items()}
    folded = {one for ids in explained.values() for one in ids}
    made = [(text, _finding(text, hit, explained, traits)) for text, hit in rows if text.id not in folded]
    place = {text.id: min([strength[text.id], *(strength[one] for one in related[text.id])]) for text, _ in made}
    made.sort(key=lambda row: (place[row[0].id][0], row[0].id in second, place[row[0].id], row[0].rank, row[0].id))
    return tuple(finding for _, finding in made)


def standing_second(verdicts: Iterable[Verdict], symptoms: Sequence[TextEvidence]) -> frozenset[str]:
    """Rules that hit on nothing but messages of which each names another rule first, one that hits too."""
    hits = {one.rule: one.hit for one in verdicts if one.hit}
    firsts = {(one.source, one.text) for one in symptoms if not one.second and one.rule in hits}
    own = {(one.rule, one.source, one.text): one.second for one in symptoms}

    def is_second(rule: str, hit: Hit) -> bool:
        seen = [(one.source, one.text) for one in hit.evidence]
        return bool(seen) and all(own.get((rule, *one)) for one in seen) and any(one in firsts for one in seen)

    return frozenset(rule for rule, hit in hits.items() if is_second(rule, hit))


def _doubtful(hit: Hit, text: RuleText) -> Hit:
    """A hit that is no more than a likely warning."""
    severity = text.severity_of(hit)
    return replace(hit, severity=Severity.WARNING if severity is Severity.ERROR else severity, confidence=Confidence.LIKELY)


def _strength(text: RuleText, hit: Hit) -> tuple[int, bool]:
    """Smaller is stronger: severity first, then a certain hit before a guess."""
    return text.severity_of(hit).order, text.confidence_of(hit) is Confidence.LIKELY


def _explained(hit: Sequence[RuleText]) -> dict[str, tuple[str, ...]]:
    """Cause id → ids among the hits that it explains, transitively; a rule that explains itself in a ring keeps its place."""
    by_id = {text.id: text for text in hit}
    result: dict[str, tuple[str, ...]] = {}
    for text in hit:
        seen: list[str] = []
        todo = list(text.explains)
        while todo:
            one = todo.pop(0)
            if one in by_id and one not in seen and one != text.id and text.id not in by_id[one].explains:
                seen.append(one)
                todo += by_id[one].explains
        result[text.id] = tuple(seen)
    return result


def is_about(fix: Mapping[str, Any], variant: str | None) -> bool:
    """Whether a fix is for this message: it names none, this one, or this one among several."""
    when = fix.get("when")
    return when is None or (variant or "default") in ([when] if isinstance(when, str) else when)


def _finding(text: RuleText, hit: Hit, explained: Mapping[str, tuple[str, ...]], traits: Collection[str] | None) -> Finding:
    values = _Values({key: _shown(value) for key, value in hit.values.items()})
    mine = [fix for fix in text.fixes if is_about(fix, hit.variant) and _is_for(fix, traits)]
    shell = shells.shell_of(traits)
    static = tuple(_intent(fix, values, hit.values, shell, traits) for fix in mine)
    return Finding(
        text.id,
        text.family,
        text.severity_of(hit),
        text.confidence_of(hit),
        fill(text.title, values),
        # A record of a stranger or of another version may name a variant that this rule does not have
        fill(text.messages.get(hit.variant or "", text.messages[""]), values),
        _once(hit.evidence),
        (*hit.fixes, *static),
        text.docs,
        explained.get(text.id, ()),
        text.layer,
    )


def _once(evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """Each piece once, whoever brought it."""
    kept: dict[tuple[str, str], Evidence] = {}
    for one in evidence:
        short = one if len(one.text) <= LONGEST_EVIDENCE else replace(one, text=bounded(one.text, LONGEST_EVIDENCE))
        kept.setdefault((short.source, " ".join(short.text.split())), short)
    return tuple(kept.values())


def _is_for(fix: Mapping[str, Any], traits: Collection[str] | None) -> bool:
    """Whether a fix is for a machine with these traits: one of `on`, none of `not_on`."""
    if traits is None:
        return True
    on, not_on = fix.get("on", ()), fix.get("not_on", ())
    return (not on or any(trait in traits for trait in on)) and not any(trait in traits for trait in not_on)


def _shown(value: object) -> str:
    if isinstance(value, tuple | list | frozenset | set):
        value = ", ".join(str(item) for item in value)
    return "unknown" if value is None else bounded(str(value), LONGEST_VALUE)


class _Values(dict[str, str]):
    """What a message asks for and nobody caught, such as a hole that one of its rows does not have, is unknown, and no reason to fail."""

    def __missing__(self, key: str) -> str:
        return "unknown"


def fill(text: str, values: Mapping[str, str]) -> str:
    """`{name}` placeholders from values; a value is never itself read as a template."""
    return " ".join(text.format_map(values).split()) if "\n" in text else text.format_map(values)


def command(line: str, values: Mapping[str, object], shell: shells.Shell = "sh") -> str | None:
    """A command of a rule file with each `{name}` quoted for the shell: a value may come out of a stranger's log. Of a list each is a word.

    None where a value is not known, or could not be pasted as what it is: with control characters in it, read as an option, longer
    than any path, or not to be written for this shell.
    """
    made = ""
    holes = list(Formatter().parse(line))
    for (literal, name, _, _), after in zip(holes, [*(one for one, *_ in holes[1:]), ""], strict=True):
        made += literal
        if name is None:
            continue
        value = values.get(name)
        words = [str(one) for one in (value if isinstance(value, tuple | list) else (value,)) if one is not None]
        starts = not literal[-1:].strip()  # with nothing before it in its word
        if not words or not all(_pasted(word, starts) for word in words):
            return None
        for at, word in enumerate(words):
            longer = shells.filled(made + " " * bool(at), word, after if at == len(words) - 1 else " ", shell)
            if longer is None:
                return None
            made = longer
    return made


def _pasted(word: str, starts: bool) -> bool:
    """Whether a value can be pasted as what it is."""
    return bool(word) and word.isprintable() and len(word) <= LONGEST_VALUE and not (starts and word.startswith("-"))


def _intent(
    fix: Mapping[str, Any], values: Mapping[str, str], raw: Mapping[str, object], shell: shells.Shell, traits: Collection[str] | None
) -> Intent:
    """A fix of the TOML file: kind = "manual" | "env" | "install" | "torch"."""
    match fix["kind"]:
        case "manual":
            filled = (command(line, raw, shell) for line in fix.get("commands", ()))
            commands = own_lines([line for line in filled if line is not None], traits)
            choose, afterwards = fix.get("choose", False) and len(commands) > 1, fix.get("afterwards", False)
            return Manual(fill(fix["text"], values), fix.get("who", "user"), commands, choose, afterwards)
        case "env":
            value = fix.get("value")
            beside = tuple((name, fill(text, values)) for name, text in fix.get("beside", {}).items())
            return SetEnv(
                fill(fix["name"], values), None if value is None else fill(value, values), fill(fix.get("note", ""), values), beside
            )
        case "install":
            requirements = tuple(fill(one, values) for one in fix["requirements"])
            remove = tuple(fill(one, values) for one in fix.get("remove", ()))
            return Install(
                requirements, remove, fix.get("reinstall", False), fill(fix.get("note", ""), values), tuple(fix.get("flags", ()))
            )
        case "torch":
            return TorchBuild(fix.get("version"))
        case other:
            raise ValueError(f"fix kind {other!r}")
