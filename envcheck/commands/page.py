"""The page of a rule: its text, then what it reports case by case, said with the facts of its own examples."""

from __future__ import annotations

import re
import string
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from envcheck.checks.thresholds import conditions
from envcheck.commands.bases import base, example_snapshot
from envcheck.engine.intents import TorchBuild
from envcheck.engine.judge import Outcome, Verdict, findings, judge
from envcheck.engine.rule import Confidence, Hit, RuleText
from envcheck.facts.codec import edit
from envcheck.facts.record import record, replace
from envcheck.facts.snapshot import Missing
from envcheck.planner import fixes
from envcheck.planner.result import target_tool
from envcheck.render.styled import Styled
from envcheck.render.wording import command_groups
from envcheck.report.report import Reported
from envcheck.report.titles import general_title
from envcheck.tables.folders import rules_folder

if TYPE_CHECKING:
    from envcheck.engine.intents import Intent
    from envcheck.engine.judge import Finding
    from envcheck.facts.snapshot import Snapshot
    from envcheck.planner.result import Fix, Tool
    from envcheck.report.session import RuleSession

WIDTH = 80
_COMMAND = re.compile(r"`[^`]+`")
_CONFIDENCE = {Confidence.CERTAIN: "certain", Confidence.LIKELY: "likely: it says what may be, and never fails a run alone"}
_NOT_ITS_NAME = re.compile(r"\(\{gpus?\b")  # "({gpus} on the PCI bus)" is a number, "({gpu})" an address
# Placeholder → what a page says for the hardware of the example, which a reader could take for that of this machine.
_ANY = {"gpu": "a GPU", "gpus": "a GPU", "cpu": "this CPU", "chip": "a Mac", "models": "one model, another model", "smi": "another GPU"}
_SEARCH = "A torch build that fits the host: `envcheck --fix-suggest` names it."
_WHOLE = "\ue000"  # stands for a blank within a command, where a line may not end


def page(rule_id: str, by: RuleSession) -> str:
    """The whole page of a rule, 80 columns wide, in the language of the session."""
    text, say = by.texts.read(rule_id), by.spoken.say
    about = say(f"{text.severity.value}, {_CONFIDENCE[text.confidence]}; family {text.family}; since {text.since}")
    head = [text.id, _wrap(general_title(text.title, say)), _wrap(about), *_wanted(text, by)]
    blocks = ["\n".join(head), *([_paragraphs(text.why)] if text.why else []), *_thresholds(text), _said(text, by)]
    if text.confirm:
        blocks.append(_wrap(say(f"To confirm: {text.confirm}")))
    blocks += _listed(say("More"), text.notes, "  - ")
    blocks += _listed(say("Leads to"), text.explains)
    return "\n\n".join([*blocks, *_listed(say("Sources"), text.docs)]) + "\n"


def _wanted(text: RuleText, by: RuleSession) -> list[str]:
    """What the configuration file makes of the rule."""
    setting, severity = by.setting(text.id), by.severities.get(text.id)
    lines = [f"ignored: {setting.reason or 'without a reason'}, from {setting.file}"] if setting else []
    return [_wrap(line) for line in [*lines, *([f"reported as {severity.value}, from {by.severities_file}"] if severity else [])]]


def _paragraphs(text: str) -> str:
    """Paragraphs wrapped; indented lines and list items stay as they are."""
    return "\n\n".join(_paragraph(one) for one in text.strip("\n").split("\n\n"))


def _paragraph(text: str) -> str:
    lines = text.split("\n")
    if not any(line.startswith((" ", "\t", "- ", "* ", "$ ")) for line in lines):
        return _wrap(text)
    return "\n".join(line if len(line) <= WIDTH or line.startswith((" ", "$")) else _wrap(line) for line in lines)


def _wrap(text: str, first: str = "", rest: str = "") -> str:
    """A paragraph in lines. A command in backticks stays on one, to be copied as it is."""
    text = _COMMAND.sub(lambda found: found[0].replace(" ", _WHOLE), " ".join(text.split()))
    if any("\u3400" <= one <= "\u9fff" for one in text):  # no blanks between words
        wide = Styled(text).wrapped(WIDTH - len(rest))
        return "\n".join((rest if number else first) + line.plain for number, line in enumerate(wide)).replace(_WHOLE, " ")
    lines = textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace(_WHOLE, " ")


def _thresholds(text: RuleText) -> list[str]:
    """The conditions of a site's own rule."""
    return _listed(
        "This site's rule: it reports where all of this holds", [one.said for one in conditions([*text.when])] if text.when else []
    )


def _listed(heading: str, rows: Sequence[str], mark: str = "  ") -> list[str]:
    return [heading + "\n" + "\n".join(_wrap(row, mark, "    ") for row in rows)] if rows else []


@record
class _Case:
    """One variant of a rule: the finding it makes, and the machine of the example (None: no example brings it about)."""

    finding: Finding
    machine: Snapshot | None


def _said(text: RuleText, by: RuleSession) -> str:
    """What the rule says in each case and what to do then; messages with the same answer stand together."""
    english, say = replace(by, language=""), by.spoken.say
    plain, blank = english.texts.read(text.id), base(rules_folder(), "nothing")
    answers: dict[tuple[str, ...], list[str]] = {}
    searched = False
    for case in _examples(plain, english):
        intents: tuple[Intent, ...] = case.finding.fixes
        builds = any(isinstance(one, TorchBuild) for one in intents)
        if builds and (searched or case.machine is None):  # the search is the slow part: once a page
            intents = tuple(one for one in intents if not isinstance(one, TorchBuild))
            lines = [f"    - {say(_SEARCH)}"]
        else:
            searched, lines = searched or builds, []
        machine = case.machine or blank
        reported = Reported(case.finding, fixes(intents, machine, by.tables, checks=by.checks, texts=english.texts))
        if by.language:
            from envcheck.report.translate import reported_in

            reported = reported_in(reported, plain, text, by.language)
        for fix in reported.fixes:
            lines += _fix(fix, target_tool(machine), say)
        said = answers.setdefault(tuple(lines), [])
        if reported.finding.message not in said:
            said.append(reported.finding.message)
    rows = ["\n".join([*(_wrap(one, "  * ", "    ") for one in said), *_of_all(said, lines, say)]) for lines, said in answers.items()]
    return say("What it reports (the values are those of examples), and what to do") + "\n" + "\n".join(rows)


def _of_all(said: Sequence[str], lines: Sequence[str], say: Callable[[str], str]) -> Sequence[str]:
    """The answer below its messages; where there are several, it says that it is for each."""
    each = "In both cases:" if len(said) == 2 else f"In all {len(said)} cases:"
    return [f"    {say(each)}", *lines] if lines and len(said) > 1 else lines


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
        [finding] = findings([Verdict(text.id, Outcome.HIT, hit=hit)], by.texts)
        yield _Case(finding, example_machine)


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


def _fix(fix: Fix, tool: Tool, say: Callable[[str], str]) -> list[str]:
    """A way out: what it is, then the lines to run."""
    who = f" ({say('administrator')})" if fix.who == "admin" else ""
    if fix.proved is not None:  # a way of the planner: its notes are about the proof
        about = fix.title
    elif fix.kind == "manual" and fix.text:
        about = fix.text
    else:
        about = f"{fix.title}: {fix.note}" if fix.note else fix.title
    unproved = f" ({fix.note})" if fix.proved is False and fix.note else ""
    commands = [line for _, lines in command_groups(fix.commands, tool, False) for line in lines]
    return [_wrap(about + who + unproved, "    - ", "      "), *(f"        {line}" for line in commands)]
