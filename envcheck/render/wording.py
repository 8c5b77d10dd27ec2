"""The words that all renderers share: the verdict in one line, counts, unknowns grouped, commands per tool."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from envcheck.checks.answer import visible
from envcheck.checks.hardware import opened
from envcheck.engine.judge import Finding, Outcome
from envcheck.engine.rule import Confidence, Severity
from envcheck.facts.printable import one_line
from envcheck.facts.record import replace
from envcheck.facts.snapshot import (
    DevicesFacts,
    GpusFacts,
    LiveFacts,
    LiveStatus,
    Missing,
    Snapshot,
    TorchFacts,
    VisibilityFacts,
    Why,
    read,
)
from envcheck.planner.result import TOOLS, Commands, Fix, Grade, Tool, TrialResult
from envcheck.report.report import Ignored, Report
from envcheck.report.stack import Layer, accelerator, stack


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def tally(report: Report) -> str:
    """ "1 error, 2 warnings"; what is only likely is said so. Empty where there is neither."""
    rows = [one.finding for one in report.findings]
    errors = [one for one in rows if one.severity is Severity.ERROR]
    likely = sum(one.confidence is Confidence.LIKELY for one in errors)
    parts = [
        (len(errors) - likely, "error"),
        (likely, "possible error"),
        (report.count(Severity.WARNING), "warning"),
    ]
    return ", ".join(counted(number, noun) for number, noun in parts if number)


def severity_word(finding: Finding) -> str:
    """ "error", "possible error", "warning", "possible warning", "info"."""
    return f"possible {finding.severity.value}" if finding.confidence is Confidence.LIKELY else finding.severity.value


def shown_severity(finding: Finding) -> Severity:
    """An error that is only likely does not fail the run, and must not show as one."""
    likely = finding.severity is Severity.ERROR and finding.confidence is Confidence.LIKELY
    return Severity.WARNING if likely else finding.severity


NEAREST = "Nearest known problems (pages to read, not findings)"


def nearest_lines(report: Report) -> tuple[str, ...]:
    """ "envcheck explain driver-too-old - The driver is too old … (words: driver, cuda)"."""
    words = report.language.say("words")
    return tuple(f"envcheck explain {one.rule} - {one.title} ({words}: {', '.join(one.words)})" for one in report.nearest)


def verdict_line(report: Report) -> str:
    """The last line of every report, never more than one line."""
    return report.language.say(_verdict(report))


def _verdict(report: Report) -> str:
    found = tally(report)
    if report.verdict == "fail":
        return f"Not ready: {found}"
    if report.verdict == "inconclusive":
        first = one_line(report.because[0]) if report.because else "an important fact is missing"
        others = sum(not one.startswith("to decide, ") for one in report.because[1:])  # what to run is no reason
        more = f" (and {counted(others, 'more reason')})" if others else ""
        return f"Cannot tell: {first}{more}"
    but = f" ({found})" if found else ""
    live = report.snapshot.live
    if isinstance(live, LiveFacts) and live.status is LiveStatus.PASS:
        return f"Ready to train{but}: {subject(report)}"
    unread = isinstance(report.snapshot.torch, Missing) and report.snapshot.torch.why is Why.SKIPPED
    if (
        isinstance(report.snapshot.torch, Missing) and report.snapshot.torch.why is Why.ABSENT
    ):  # only where the rules that would say so are ignored or left out
        return f"{f'No error found{but}' if found else 'The selected rules found nothing'}; PyTorch is not installed"
    ran = isinstance(live, LiveFacts) and live.status is not LiveStatus.SKIPPED
    unproved = f"the live check did not {'decide' if ran else 'run'}"
    missing = unproved if _imported(report) else "torch was not examined" if unread else "torch was not imported"
    return f"{f'No error found{but}' if found else 'No problem found'}: {subject(report)}; {missing}"


def _imported(report: Report) -> bool:
    torch = report.snapshot.torch
    return isinstance(torch, TorchFacts) and torch.import_status.value == "ok"


def subject(report: Report) -> str:
    """Build and what it trains on: "torch 2.14.1+cu130 on 2 × L4"; "torch 2.14.1+cpu on the CPU"."""
    snapshot = report.snapshot
    if isinstance(snapshot.torch, Missing):
        torch = "unknown torch" if snapshot.torch.why is Why.SKIPPED else "no torch"
    else:
        torch = f"torch {snapshot.torch.version or 'of unknown version'}"
    kind = accelerator(snapshot)
    if kind == "cpu":
        unread = isinstance(snapshot.gpus, Missing) and snapshot.gpus.why is Why.SKIPPED
        return f"{torch}, GPU not stated" if unread and wants_gpu(snapshot) else f"{torch} on the CPU"
    devices = snapshot.devices
    if _for_the_cpu(snapshot) or (isinstance(devices, DevicesFacts) and devices.available is False):
        return f"{torch} on the CPU"  # whatever hardware is here
    names = _nvidia(snapshot) if kind == "nvidia" else {"rocm": "AMD GPU", "xpu": "Intel GPU", "mps": "Apple GPU"}[kind]
    return f"{torch} on {names}"


def _nvidia(snapshot: Snapshot) -> str:
    """What torch has, where it was asked; else what is listed and visible: "8 × H100 80GB HBM3", "1 of 8 × H100 80GB HBM3"."""
    devices, gpus = snapshot.devices, snapshot.gpus
    listed = [gpu for gpu in visible(read(gpus, GpusFacts), read(snapshot.visibility, VisibilityFacts)) if gpu.error is None]
    mine = [one.name for one in opened(read(devices, DevicesFacts))]
    asked = 0 if isinstance(devices, Missing) or devices.available is not True else len(mine) or devices.count or 0
    names = Counter((name or "GPU").removeprefix("NVIDIA ") for name in (mine or [gpu.name for gpu in listed]))
    if asked and len(names) == 1:
        names = Counter({next(iter(names)): asked})
    seen, total = sum(names.values()), 0 if isinstance(gpus, Missing) else len(gpus.devices)
    of = f" of {total}" if 0 < seen < total and not any(gpu.mig for gpu in listed) else ""
    if len(names) < 2:
        name, count = next(iter(names.items()), ("GPU", 1))
        return f"{count}{of} × {name}" if of or count > 1 else name
    parts = " + ".join(f"{count} × {name}" if count > 1 else name for name, count in names.items())
    return f"{parts} ({seen}{of} GPUs)" if of else parts


def _for_the_cpu(snapshot: Snapshot) -> bool:
    """A build without any accelerator; None of it on macOS, whose builds carry MPS."""
    torch = snapshot.torch
    if isinstance(torch, Missing) or torch.cuda or torch.hip or torch.xpu:
        return False
    return torch.cpu_build is True or (torch.version or "").endswith("+cpu")


def wants_gpu(snapshot: Snapshot) -> bool:
    """Whether the torch is built for a GPU, or nothing is known of it."""
    torch = snapshot.torch
    return isinstance(torch, Missing) or bool(torch.cuda or torch.hip or torch.xpu)


def layers(report: Report) -> tuple[Layer, ...]:
    """The picture of the stack in the report's language."""
    say = report.language.say
    rows = stack(report.snapshot, [one.finding for one in report.findings])
    return tuple(replace(row, name=say(row.name), value=say(row.value)) for row in rows) if report.language.code else rows


def unknown_groups(report: Report) -> Mapping[str, tuple[str, ...]]:
    """Reason → the rules that it left open, in the order of the report."""
    groups: dict[str, tuple[str, ...]] = {}
    for one in report.unknown:
        reason = report.language.say(one.reason)
        groups[reason] = (*groups.get(reason, ()), one.rule)
    return groups


def ignored_hits(report: Report) -> tuple[tuple[str, str], ...]:
    """(rule, why nobody hears of it) of the ignored rules that would have been findings."""
    return tuple((one.rule, ignored_because(one)) for one in report.ignored if one.outcome is Outcome.HIT)


def ignored_because(one: Ignored) -> str:
    """ "the desktop runs on this card, from pyproject.toml"."""
    return ", ".join(part for part in (one.reason, _from(one.file)) if part)


def severity_hits(report: Report) -> tuple[tuple[str, str], ...]:
    """(rule, what became of its severity) of findings whose severity a file changed."""
    changed = (one for one in report.severity_changes if one.outcome is Outcome.HIT and one.severity is not one.was)
    return tuple(
        (one.rule, ", ".join((f"{one.severity.value} instead of {one.was.value}", *filter(None, (_from(one.file),))))) for one in changed
    )


def setting_lines(report: Report) -> tuple[str, ...]:
    """What the user's settings keep quiet or make of a severity, a line each: "ignored: 1 (gpu-busy: the desktop, from pyproject.toml)"."""
    rows = (("ignored", ignored_hits(report)), ("severity changed", severity_hits(report)))
    say = report.language.say
    return tuple(
        f"{say(what)}: {len(hits)} ({'; '.join(f'{rule}: {one_line(because)}' for rule, because in hits)})" for what, hits in rows if hits
    )


def _from(file: str | None) -> str:
    return f"from {file.replace(chr(92), '/').rpartition('/')[2]}" if file else ""


CHOOSE = "one of these lines"


def command_groups(commands: Commands, tool: Tool, every: bool) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """(label, lines) to show. `every`: all tools, equal ones together; else the target's tool, or the next that has a command."""
    if not every:
        order = [tool, *(one for one in TOOLS if one != tool)]
        chosen = next((one for one in order if commands.of(one)), None)
        lines = commands.of(chosen) if chosen else ()
        label = CHOOSE if commands.choose else ""
        own = [(label, (*lines, *(line for line in commands.shell if line not in lines)))] if lines or commands.shell else []
        return (*own, *_in_cmd(commands, [name for name in (chosen, "shell") if name]))
    groups: dict[tuple[str, ...], list[str]] = {}
    for one in [tool, *(other for other in TOOLS if other != tool)]:
        if commands.of(one):
            groups.setdefault(commands.of(one), []).append(one)
    made = [("" if len(names) == len(TOOLS) else ", ".join(names), lines) for lines, names in groups.items()]
    shell = [(CHOOSE if commands.choose else "", commands.shell)] if commands.shell else []
    return (*made, *shell, *_in_cmd(commands, (*TOOLS, "shell")))


def _in_cmd(commands: Commands, names: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    """The lines that cmd needs otherwise than PowerShell."""
    return [("in cmd" if name == "shell" else f"{name} in cmd", commands.cmd[name]) for name in names if name in commands.cmd]


def fix_lines(fixes: Iterable[Fix], tool: Tool, every: bool) -> list[str]:
    """ "fix: …" and its commands indented below it, for formats of plain lines."""
    lines = []
    for fix in fixes:
        lines.append(f"fix: {fix.title or fix.text}")
        for label, commands in command_groups(fix.commands, tool, every):
            tool_of = f"{label}: " if label and label != CHOOSE else ""  # these formats have a label a line
            lines += [f"  {tool_of}{line}" for line in commands]
    return lines


def first_paragraph(text: str) -> str:
    return " ".join(text.strip().split("\n\n", 1)[0].split())


# "…, e.g. NCCL" and "vs. CUDA" do not end a sentence
_WIDE_ENDS = ("。", "！", "？")  # no blank stands behind these
_SENTENCE_END = re.compile(r"(?<=[。！？])(?=.)|(?<![ (]e\.g\.)(?<![ (]i\.e\.)(?<! vs\.)(?<!\.\.\.)(?<=[.?!])\s+(?=[A-Za-z`\"])")


def in_short(text: str, sentences: int = 2) -> str:
    """The first sentences of a rule's explanation; `envcheck explain` has the rest."""
    shown = _SENTENCE_END.split(first_paragraph(text))[:sentences]
    return "".join(one if not number or shown[number - 1].endswith(_WIDE_ENDS) else f" {one}" for number, one in enumerate(shown))


REASON_CHARACTERS = 300
SAID_SHOWN = 6

_SQUARE = str.maketrans("()", "[]")  # it stands in brackets itself, and is read back out of them

CHECKED = "checked against envcheck's tables; nothing was installed"


def fix_aside(fix: Fix) -> str:
    """What is said in brackets after a fix: whose task it is, and its grade."""
    words = ["administrator" if fix.who == "admin" else ""]
    if fix.proved is not None and (fix.trial is None or fix.trial.status not in ("passed", "failed")):
        words.append("not checked" if fix.grade is Grade.UNCHECKED else CHECKED)
    if fix.trial:
        words.append(trial_line(fix.trial).translate(_SQUARE))
    return "; ".join(word for word in words if word)


def note_of(fix: Fix, fix_suggest: bool) -> str:
    """What a rule adds to its fix belongs to the command: that it moves torch, or takes hours. The planner's reasons are for who asks."""
    return fix.note if fix_suggest or fix.proved is None else ""


def trial_line(trial: TrialResult) -> str:
    """ "tried with uv: passed in 41 s", "tried with pip: failed after 9 s: …", "resolved with uv in 2 s …", "not tried: …"."""
    seconds, reason = f"{trial.seconds:.0f} s", one_line(trial.reason, REASON_CHARACTERS)
    match trial.status:
        case "passed":
            return f"tried with {trial.tool}: passed in {seconds}" if trial.tool else f"tried as it is: passed in {seconds}"
        case "failed" if trial.failed != "check" and "--dry-run" in trial.failed:
            return f"not resolved: {reason}"
        case "failed":
            return f"tried{f' with {trial.tool}' if trial.tool else ''}: failed after {seconds}: {reason}"
        case "undecided":
            return f"tried, not decided after {seconds}: {reason}"
        case "resolved":
            return f"resolved with {trial.tool} in {seconds}, not installed{f' ({reason})' if reason else ''}"
    return f"not tried: {reason}"


def trial_lines(trial: TrialResult) -> list[str]:
    """The same as a sentence, and below it the last words of what failed."""
    line = trial_line(trial)
    said = trial.said[-SAID_SHOWN:] if trial.failed not in ("", "check") else ()
    return [f"{line[0].upper()}{line[1:]}.", *(f"  | {one}" for one in said)]
