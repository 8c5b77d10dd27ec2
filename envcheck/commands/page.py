"""The page of a rule, for somebody who meets the fault for the first time: what it is, the words that this needs, how it is confirmed, and
what is reported case by case, said with the facts of the rule's own examples.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from envcheck.checks.thresholds import conditions
from envcheck.commands.bases import base, example_snapshot
from envcheck.commands.glossary import glosses
from envcheck.commands.ways_out import EVERYWHERE, SYSTEMS, WIDTH, WayOut, after, of_reader, systems_of, ways_out, wrapped
from envcheck.engine.intents import TorchBuild
from envcheck.engine.judge import Outcome, Verdict, findings, judge
from envcheck.engine.rule import Confidence, Hit, RuleText
from envcheck.facts.codec import edit
from envcheck.facts.record import record, replace
from envcheck.facts.snapshot import Missing
from envcheck.planner import fixes
from envcheck.planner.result import target_tool
from envcheck.report.report import Reported
from envcheck.report.titles import general_title
from envcheck.tables.folders import rules_folder

if TYPE_CHECKING:
    from envcheck.engine.intents import Intent
    from envcheck.engine.judge import Finding
    from envcheck.facts.snapshot import Snapshot
    from envcheck.report.session import RuleSession

_CONFIDENCE = {Confidence.CERTAIN: "certain", Confidence.LIKELY: "likely: it says what may be, and never fails a run alone"}
_NOT_ITS_NAME = re.compile(r"\(\{gpus?\b")  # "({gpus} on the PCI bus)" is a number, "({gpu})" an address
# Placeholder → what a page says for the hardware of the example, which a reader could take for that of this machine.
_ANY = {"gpu": "a GPU", "gpus": "a GPU", "cpu": "this CPU", "chip": "a Mac", "models": "one model, another model", "smi": "another GPU"}
TO_DO = "What it reports, and what to do (in order; a remark # says where a line applies)"
_YOURS = "Its cases, with example values: `envcheck` or `envcheck diagnose LOG` has yours."
_YOURS_OF_A_JOB = "Its cases, with example values: `envcheck fleet` has yours."
_SEARCH = "A torch build that fits the host: `envcheck --fix-suggest` names it."


def page(rule_id: str, by: RuleSession, system: str = "Linux") -> str:
    """The whole page of a rule, 80 columns wide, in the language of the session; `system` is the reader's own."""
    text, say = by.texts.read(rule_id), by.spoken.say
    about = say(f"{text.severity.value}, {_CONFIDENCE[text.confidence]}; family {text.family}; since {text.since}")
    head = [text.id, wrapped(general_title(text.title, say)), wrapped(about), *_wanted(text, by)]
    blocks = ["\n".join(head), *([_paragraphs(text.why)] if text.why else [])]
    answers = _said(text, by, system)
    blocks += _listed(say("Words"), glosses(replace(by, language="").texts.read(text.id), answers, by.language))
    blocks += [wrapped(after(say("To confirm:"), text.confirm))] if text.confirm else []
    blocks += [*_thresholds(text), answers, *_cured(text, say)]
    blocks += _listed(say("More"), text.notes, "  - ")
    blocks += _listed(say("Leads to"), text.explains)
    return "\n\n".join([*blocks, *_listed(say("Sources"), text.docs)]) + "\n"


def _wanted(text: RuleText, by: RuleSession) -> list[str]:
    """What the configuration file makes of the rule."""
    setting, severity = by.setting(text.id), by.severities.get(text.id)
    lines = [f"ignored: {setting.reason or 'without a reason'}, from {setting.file}"] if setting else []
    return [wrapped(line) for line in [*lines, *([f"reported as {severity.value}, from {by.severities_file}"] if severity else [])]]


def _cured(text: RuleText, say: Callable[[str], str]) -> list[str]:
    """What to see when it is over."""
    again = "envcheck fleet" if text.family == "fleet" else "envcheck"
    seen = f"run `{again}` again, or `envcheck diagnose LOG` on the log of the next run: {text.id} is no longer reported."
    return [wrapped(after(say("When it is cured:"), say(seen)))]


def _paragraphs(text: str) -> str:
    """Paragraphs wrapped; indented lines and list items stay as they are."""
    return "\n\n".join(_paragraph(one) for one in text.strip("\n").split("\n\n"))


def _paragraph(text: str) -> str:
    lines = text.split("\n")
    if not any(line.startswith((" ", "\t", "- ", "* ", "$ ")) for line in lines):
        return wrapped(text)
    return "\n".join(line if len(line) <= WIDTH or line.startswith((" ", "$")) else wrapped(line) for line in lines)


def _thresholds(text: RuleText) -> list[str]:
    """The conditions of a site's own rule."""
    return _listed(
        "This site's rule: it reports where all of this holds", [one.said for one in conditions([*text.when])] if text.when else []
    )


def _listed(heading: str, rows: Sequence[str], mark: str = "  ") -> list[str]:
    return [heading + "\n" + "\n".join(wrapped(row, mark, "    ") for row in rows)] if rows else []


@record
class _Case:
    """One variant of a rule: the finding it makes, and the machine of the example (None: no example brings it about)."""

    finding: Finding
    machine: Snapshot | None
    by_system: Mapping[str, Sequence[Intent]]  # the ways out that a report on each has


def _said(text: RuleText, by: RuleSession, system: str) -> str:
    """What the rule says in each case and what to do then; messages with the same answer stand together."""
    english, say = replace(by, language=""), by.spoken.say
    plain, blank = english.texts.read(text.id), base(rules_folder(), "nothing")
    answers: dict[tuple[str, ...], list[str]] = {}
    searched = False
    for case in _examples(plain, english):
        builds = any(isinstance(one, TorchBuild) for one in case.finding.fixes)
        again = builds and (searched or case.machine is None)  # the search is the slow part: once a page
        searched = searched or builds
        machine = of_reader(case.machine or blank, system)
        ways = _ways(case, machine, english, [one for one in case.finding.fixes if not (again and isinstance(one, TorchBuild))])
        reported = Reported(case.finding, tuple(way.fix for way in ways))
        if by.language:
            from envcheck.report.translate import reported_in

            reported = reported_in(reported, plain, text, by.language)
            ways = [replace(way, fix=fix) for way, fix in zip(ways, reported.fixes, strict=True)]
        said = answers.setdefault(tuple(ways_out(ways, [say(_SEARCH)] * again, target_tool(machine), system, say)), [])
        if reported.finding.message not in said:
            said.append(reported.finding.message)
    yours = wrapped(say(_YOURS_OF_A_JOB if text.family == "fleet" else _YOURS))
    return "\n".join([say(TO_DO), yours, *("\n".join([*_messages(said, say), *lines]) for lines, said in answers.items())])


def _ways(case: _Case, machine: Snapshot, by: RuleSession, intents: Sequence[Intent]) -> list[WayOut]:
    """The fixes of a case, each with the systems on which a report would have it."""
    made = partial(fixes, snapshot=machine, tables=by.tables, checks=by.checks, texts=by.texts)
    places = {
        (fix.title, fix.commands): on for one in intents if (on := systems_of(one, case.by_system)) != EVERYWHERE for fix in made((one,))
    }
    return [WayOut(fix, places.get((fix.title, fix.commands), EVERYWHERE)) for fix in made(intents)]


def _messages(said: Sequence[str], say: Callable[[str], str]) -> list[str]:
    """The messages of one answer."""
    first, *others = said
    return [wrapped(first, "  * ", "    "), *(wrapped(after(say("or:"), one), "    ", "    ") for one in others)]


def _examples(text: RuleText, by: RuleSession) -> Iterator[_Case]:
    """The first example of each variant; a variant without one stands with its placeholders."""
    mine = [one for one in by.every_check if one.id == text.id]
    found: dict[str, tuple[Hit, Snapshot]] = {}
    for example in text.examples if mine else ():
        if example["expect"] == "hit":
            machine = _anywhere(example_snapshot(rules_folder(), example))
            [verdict] = judge(machine, mine, by.tables)
            if verdict.hit:
                found.setdefault(verdict.hit.variant or "", (verdict.hit, machine))
    for variant in text.messages:
        if found and not variant and variant not in found:
            continue  # a rule that always chooses one of its variants
        hit, example_machine = found.get(variant, (_of_site(text) or _unfilled(text, variant), None))
        hit = _any_hardware(hit, text.messages[variant])
        verdict = Verdict(text.id, Outcome.HIT, hit=hit)
        [finding] = findings([verdict], by.texts)
        on = {system: made.fixes for system, traits in SYSTEMS.items() for made in findings([verdict], by.texts, traits)}
        yield _Case(finding, example_machine, on)


def _any_hardware(hit: Hit, message: str) -> Hit:
    """The hit with "a GPU" for the GPU of the example."""
    if _NOT_ITS_NAME.search(message):
        return hit
    words = {**_ANY, **({"devices": "N"} if "GPU {devices}" in message else {}), **({"cuda": "one GPU"} if "{smi}" in message else {})}
    if first := re.match(r"\{(\w{1,40})\}", message):
        words = {name: word[0].upper() + word[1:] if name == first[1] else word for name, word in words.items()}
    return replace(hit, values={**hit.values, **{name: words[name] for name in words if name in hit.values}})


def _anywhere(machine: Snapshot) -> Snapshot:
    """The machine with an interpreter of no particular place, for commands that anybody can paste."""
    return machine if isinstance(machine.python, Missing) else edit(machine, "python.executable", "python")


def _of_site(text: RuleText) -> Hit | None:
    """The hit of a site's own rule, of which there are no examples."""
    return Hit({"found": "; ".join(one.said for one in conditions([*text.when]))}) if text.when else None


def _unfilled(text: RuleText, variant: str) -> Hit:
    """A hit that knows nothing: each placeholder stands for itself."""
    strings = [text.title, *text.messages.values(), *_strings(text.fixes)]
    names = {name for one in strings for _, name, _, _ in string.Formatter().parse(one) if name}
    return Hit({name: f"{{{name}}}" for name in names}, variant=variant or None)


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            yield from _strings(list(value.values()))
        case list() | tuple():
            for one in value:
                yield from _strings(one)
