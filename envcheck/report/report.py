"""The finished result of a run, complete before any renderer sees it. Renderers only read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from envcheck import __version__
from envcheck.engine.judge import Finding, Outcome, Verdict
from envcheck.engine.rule import Confidence, Severity
from envcheck.facts.record import field, record
from envcheck.facts.settings import Configuration
from envcheck.facts.snapshot import (
    DevicesFacts,
    DriverFacts,
    GpusFacts,
    ImportStatus,
    LiveFacts,
    LiveStatus,
    Missing,
    RocmFacts,
    Snapshot,
    SystemFacts,
    TorchFacts,
    Why,
    XpuFacts,
)
from envcheck.planner.result import Fix, PlanReport, Tool, target_tool
from envcheck.report.english import ENGLISH, English

RunVerdict: TypeAlias = Literal["pass", "fail", "inconclusive"]
FailOn: TypeAlias = Literal["error", "warning", "never"]
Decides: TypeAlias = Mapping[str, tuple[str, ...]]  # an unknown rule → the questions that it leaves open, of rule.DECISIONS


@record
class Reported:
    """A finding with its fixes as commands and the rule's explanation."""

    finding: Finding
    fixes: tuple[Fix, ...] = ()
    why: str = ""


@record
class Unsure:
    """A rule that could not be decided."""

    rule: str
    reason: str


@record
class Ignored:
    """A rule that the user does not want to hear of, and what it would have said. `file`: who ignores it; None is a flag."""

    rule: str
    reason: str
    file: str | None
    outcome: Outcome


@record
class SeverityChange:
    """A rule whose severity a configuration file changed."""

    rule: str
    was: Severity
    severity: Severity
    file: str | None
    outcome: Outcome


@record
class CommandRun:
    """What `envcheck run` was given, and how it came to its end."""

    argv: tuple[str, ...]
    started: bool
    exit_code: int
    signal: str = ""
    why: tuple[str, ...] = ()  # what its output and the kernel say, beside the findings


@record
class Nearest:
    """A page that may be worth reading where no rule recognised anything: a pointer, not a finding."""

    rule: str
    title: str
    words: tuple[str, ...]  # that it shares with the text


@record
class Report:
    """Everything that any renderer shows."""

    verdict: RunVerdict
    exit_code: int
    findings: tuple[Reported, ...]
    unknown: tuple[Unsure, ...]
    snapshot: Snapshot
    verdicts: tuple[Verdict, ...] = ()
    because: tuple[str, ...] = ()  # why the verdict is inconclusive
    plan: PlanReport = PlanReport()
    assumed: tuple[str, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    tool: Tool = "pip"  # the package tool of the target
    fail_on: FailOn = "error"
    configuration: Configuration = Configuration()
    ignored: tuple[Ignored, ...] = ()  # whatever their outcome
    severity_changes: tuple[SeverityChange, ...] = ()
    command: CommandRun | None = None
    nearest: tuple[Nearest, ...] = ()
    language: English = ENGLISH  # in which renderers speak to people
    name: str = "envcheck"
    version: str = __version__

    def count(self, severity: Severity) -> int:
        return sum(one.finding.severity is severity for one in self.findings)

    def fails(self, finding: Finding) -> bool:
        """Whether this finding alone would fail the run (`--fail-on never` changes the exit code, not the finding)."""
        return fails(finding, self.fail_on)

    @property
    def counts(self) -> Mapping[str, int]:
        """Outcome → number of rules."""
        return {outcome.value: sum(one.outcome is outcome for one in self.verdicts) for outcome in Outcome}

    @property
    def target(self) -> str:
        return target_line(self.snapshot)


def finish(
    findings: Sequence[Reported],
    verdicts: Sequence[Verdict],
    snapshot: Snapshot,
    *,
    fail_on: FailOn = "error",
    strict: bool = False,
    live_requested: bool = True,
    plan: PlanReport | None = None,
    assumed: Sequence[str] = (),
    timings: Mapping[str, float] | None = None,
    tool: Tool | None = None,
    decides: Decides | None = None,
) -> Report:
    """The report of one run: the verdict is worked out here and nowhere else."""
    plain = [one.finding for one in findings]
    verdict, code = exit_code(plain, verdicts, snapshot, fail_on, strict, live_requested, decides or {})
    because = doubts(plain, verdicts, snapshot, strict, live_requested, decides or {}) if verdict == "inconclusive" else ()
    return Report(
        verdict,
        code,
        tuple(findings),
        unsure(verdicts),
        snapshot,
        tuple(verdicts),
        because,
        plan or PlanReport(),
        tuple(assumed),
        dict(timings or {}),
        tool or target_tool(snapshot),
        fail_on,
    )


def unsure(verdicts: Iterable[Verdict]) -> tuple[Unsure, ...]:
    """Rules that were not decided, a crashed one included, in the order of the verdicts."""
    return tuple(
        Unsure(one.rule, one.reason if one.outcome is Outcome.UNKNOWN else f"the rule itself failed: {one.reason}")
        for one in verdicts
        if one.outcome in (Outcome.UNKNOWN, Outcome.CRASHED)
    )


def exit_code(
    findings: Sequence[Finding],
    verdicts: Sequence[Verdict],
    snapshot: Snapshot,
    fail_on: FailOn,
    strict: bool,
    live_requested: bool,
    decides: Decides,
) -> tuple[RunVerdict, int]:
    """The verdict and exit code of a run: 0, 1 or 3.

    A likely finding never fails a run. `--fail-on never` keeps the verdict and ends with 0, except that
    `--strict` still answers 3 for what is not known.
    """
    if any(fails(one, fail_on) for one in findings):
        return "fail", 0 if fail_on == "never" else 1
    if doubts(findings, verdicts, snapshot, strict, live_requested, decides):
        return "inconclusive", 0 if fail_on == "never" and not strict else 3
    return "pass", 0


def fails(finding: Finding, fail_on: FailOn) -> bool:
    """Certain, and at or above the limit."""
    limit = Severity.WARNING if fail_on == "warning" else Severity.ERROR
    return finding.confidence is Confidence.CERTAIN and finding.severity.order <= limit.order


def doubts(
    findings: Sequence[Finding], verdicts: Sequence[Verdict], snapshot: Snapshot, strict: bool, live_requested: bool, decides: Decides
) -> tuple[str, ...]:
    """Why a run without findings is not a pass: what it could not tell about torch's import, CUDA, the live check or an expectation."""
    reasons = [*_import_doubts(snapshot, verdicts, decides), *_cuda_doubts(snapshot, verdicts, decides)]
    if live_requested:
        reasons += _live_doubts(snapshot)
    reasons += _expectation_doubts(snapshot, verdicts)
    if strict:
        warnings = [one.rule for one in findings if one.severity is not Severity.INFO]
        reasons += [f"--strict: {rule} was found" for rule in warnings]
        if not reasons:
            reasons += [f"--strict: {one.rule}: {one.reason}" for one in unsure(verdicts)]
    return tuple(dict.fromkeys(reasons))


def _undecided(verdicts: Iterable[Verdict], decides: Decides, question: str) -> list[str]:
    return [f"{one.rule}: {one.reason}" for one in unsure(one for one in verdicts if question in decides.get(one.rule, ()))]


def _import_doubts(snapshot: Snapshot, verdicts: Sequence[Verdict], decides: Decides) -> list[str]:
    torch = snapshot.torch
    if isinstance(torch, Missing) and torch.why is not Why.ABSENT:
        return [f"torch: {torch.reason}"]
    if isinstance(torch, TorchFacts) and torch.import_status is ImportStatus.OK:
        return []
    return _undecided(verdicts, decides, "import")


def _cuda_doubts(snapshot: Snapshot, verdicts: Sequence[Verdict], decides: Decides) -> list[str]:
    if not gpu_present(snapshot) or cuda_proved(snapshot):
        return []
    reasons: list[str] = []
    devices = snapshot.devices
    if isinstance(devices, Missing):
        if devices.trouble:
            reasons.append(_of_cuda(devices.reason))
    else:
        if devices.available is None:
            reasons.append(_of_cuda(devices.error or "torch did not say whether a device is available"))
        reasons += [
            f"no CUDA kernel was run on device {one.index}: {one.kernel_error or 'no reason given'}"
            for one in devices.devices
            if one.kernel == "unknown"
        ]
    if not isinstance(devices, DevicesFacts):
        for name in ("driver", "gpus", "cuda_driver"):
            section = getattr(snapshot, name)
            if isinstance(section, Missing) and section.trouble:
                reasons.append(_of_cuda(section.reason))
    return reasons or _undecided(verdicts, decides, "cuda")


def _of_cuda(reason: str) -> str:
    return reason if "CUDA" in reason else f"CUDA: {reason}"


def _live_doubts(snapshot: Snapshot) -> list[str]:
    live = snapshot.live
    if isinstance(live, Missing):
        return [f"the live check: {live.reason}"] if live.trouble else []
    if live.status is LiveStatus.INCONCLUSIVE:
        return [f"the live check: {live.reason or 'it did not decide'}"]
    asked = None if isinstance(snapshot.expectations, Missing) else snapshot.expectations.backend
    if asked is None or asked in (live.backend, *(arm.backend for arm in live.arms)):
        return []
    why = f" ({live.not_proved[0]})" if live.not_proved else ""
    return [f"the live check: {asked} was asked for and not tried{why}"]


def _expectation_doubts(snapshot: Snapshot, verdicts: Sequence[Verdict]) -> list[str]:
    """Expectations on what was not read, unless the user left their rule out."""
    expectations = snapshot.expectations
    if isinstance(expectations, Missing) or not any(one.rule == "expectation-failed" for one in verdicts):
        return []
    return [f"{one.expected} is expected: {one.reason}" for one in expectations.undecided]


def gpu_present(snapshot: Snapshot) -> bool:
    """Whether any source saw an accelerator: bus, driver, NVML, ROCm, Level Zero or torch itself."""
    match snapshot.gpus:
        case GpusFacts(devices=devices, lost=lost) if devices or lost:
            return True
    match snapshot.system:
        case SystemFacts(pci_gpus=cards) if any(card.vendor == "10de" for card in cards):
            return True
    match snapshot.driver:
        case DriverFacts(gpu_count_proc=int(count)) if count:
            return True
        case DriverFacts(device_nodes=tuple(nodes)) if any(node[:6] == "nvidia" and node[6:].isdecimal() for node in nodes):
            return True
    match snapshot.devices:
        case DevicesFacts(count=int(count)) if count:
            return True
    match snapshot.rocm:
        case RocmFacts(gfx=gfx, names=names) if gfx or names:
            return True
    match snapshot.xpu:
        case XpuFacts(names=names) if names:
            return True
    return False


def cuda_proved(snapshot: Snapshot) -> bool:
    """Whether CUDA came up in torch and no kernel that was asked for is open: then no doubt of another source counts."""
    devices = snapshot.devices
    return isinstance(devices, DevicesFacts) and devices.available is True and all(one.kernel in ("ok", None) for one in devices.devices)


def configuration_lines(report: Report) -> tuple[str, ...]:
    """The file that set defaults, and those that were not obeyed."""
    path = report.configuration.path
    return (*((path,) if path else ()), *report.configuration.passed_over)


def target_line(snapshot: Snapshot) -> str:
    """The interpreter under test and why it is that one."""
    python = snapshot.python
    if isinstance(python, Missing):
        return f"unknown ({python.reason})"
    kind = ", ".join(part for part in (f"Python {python.version or '?'}", python.environment) if part)
    because = python.chosen_because or ""
    because = f": given with {because}" if because.startswith("-") else f": {because}" if because else ""
    return f"{python.executable or 'path not stated'} ({kind}){because}"


def taken_at(snapshot: Snapshot) -> str:
    """When the machine was looked at, "2026-11-28T21:20:05Z"; "" where it does not say."""
    system = snapshot.system
    return f"{system.date}T{system.time}Z" if not isinstance(system, Missing) and system.date and system.time else ""


def host_line(snapshot: Snapshot) -> str:
    """Which machine and when, in one line: name, system, architecture, cores, memory, container, time."""
    system = snapshot.system
    if isinstance(system, Missing):
        return f"unknown ({system.reason})"
    cores = system.cpu_limit or system.cpu_affinity or system.cpu_count
    memory = system.memory_limit_bytes or system.memory_bytes
    container = None if isinstance(snapshot.container, Missing) else snapshot.container.runtime or "container"
    name = None if isinstance(snapshot.network, Missing) else snapshot.network.hostname
    parts = (
        system.distribution or system.os,
        system.machine,
        f"{cores:g} core{'' if cores == 1 else 's'}" if cores else None,
        f"{memory / 2**30:.0f} GiB" if memory else None,
        f"WSL {system.wsl}" if system.wsl else None,
        f"in {container}" if container else None,
        taken_at(snapshot),
    )
    machine = ", ".join(part for part in parts if part) or "not stated"
    return f"{name}: {machine}" if name else machine


def live_asked(live: LiveFacts | Missing) -> bool:
    """Whether a snapshot holds a live check, for judging a recorded one."""
    return not (isinstance(live, Missing) and live.why in (Why.ABSENT, Why.SKIPPED))
