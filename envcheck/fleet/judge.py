"""What the hosts of a job told, judged: the rules of the fleet over all of them, and all other rules over one host of each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from envcheck.engine.judge import Finding, Verdict
from envcheck.engine.rule import Check, Confidence, Evidence
from envcheck.facts.fleet import FleetFacts
from envcheck.facts.hostlist import fold, unfold
from envcheck.facts.record import record, replace
from envcheck.facts.snapshot import Snapshot
from envcheck.report.fleet import FleetCase, FleetFinding, FleetReport, FleetUnread, FleetUnsure, ordered, severe_first, verdict_of
from envcheck.report.report import FailOn, Reported, Unsure
from envcheck.report.session import RuleSession, report_on

SHOWN_UNSURE = 20  # hosts' doubts in `because`; the rest stands in `unknown`


@record
class KindResult:
    """What the ordinary rules say of one host, for all that are of its kind."""

    hosts: tuple[str, ...]
    findings: tuple[Reported, ...] = ()
    unknown: tuple[Unsure, ...] = ()
    because: tuple[str, ...] = ()


def judge_kind(hosts: Sequence[str], snapshot: Snapshot, by: RuleSession, fail_on: FailOn = "error", strict: bool = False) -> KindResult:
    """The ordinary check of one recorded host. Nothing was tried on it, so that nothing is open for want of a live check."""
    report = report_on(snapshot, by, fail_on=fail_on, strict=strict, live_requested=False)
    return KindResult(tuple(hosts), report.findings, report.unknown, report.because)


def judge_fleet(
    fleet: FleetFacts,
    kinds: Iterable[KindResult],
    by: RuleSession,
    snapshot_of: Callable[[str], Snapshot | None] = lambda _: None,
    *,
    fail_on: FailOn = "error",
    strict: bool = False,
    unread: Sequence[FleetUnread] = (),
) -> FleetReport:
    """One report of the job. `snapshot_of` gives the facts of a host, by which the fixes of a difference become its commands."""
    results = list(kinds)
    of_job = _of_job(fleet, by, snapshot_of)
    findings = severe_first(_folded(of_job[0], _of_hosts(results), by))
    because = (*of_job[2], *_because(results, fleet), *(f"{one.name}: {one.reason}" for one in unread))
    verdict, code, bad = verdict_of(findings, fleet, because, fail_on, strict)
    return FleetReport(
        verdict,
        code,
        fleet,
        findings,
        (*of_job[1], *_unsure(results)),
        because if verdict == "inconclusive" else (),
        tuple(unread),
        bad,
        len(results),
        fail_on=fail_on,
    )


def _of_job(
    fleet: FleetFacts, by: RuleSession, snapshot_of: Callable[[str], Snapshot | None]
) -> tuple[list[FleetFinding], list[FleetUnsure], list[str]]:
    """Findings of the rules over the section `fleet`, those that it leaves open, and which of these matter."""
    from envcheck.engine.judge import findings, judge
    from envcheck.report.report import unsure

    checks = [one for one in by.checks if by.texts.family(one.id) == "fleet"]
    verdicts = judge(Snapshot(fleet=fleet), checks, by.tables)
    hits = {one.rule: one for one in verdicts}
    found = [_with_severity(one, by) for one in findings(verdicts, by.texts)]
    made = [_job_finding(one, hits[one.rule], fleet, by, checks, snapshot_of) for one in found]
    open_ones = [FleetUnsure(one.rule, one.reason) for one in unsure(verdicts)]
    return made, open_ones, [f"{one.rule}: {one.reason}" for one in open_ones]


def _folded(of_job: Sequence[FleetFinding], of_hosts: Sequence[FleetFinding], by: RuleSession) -> list[FleetFinding]:
    """What is wrong with hosts because they are unlike the others goes into the difference, which is then at least as bad."""
    kept, made = list(of_hosts), []
    for cause in of_job:
        explains = by.texts.read(cause.finding.rule).explains
        gone = [one for one in kept if one.finding.rule in explains and set(one.hosts) <= set(cause.hosts)]
        kept = [one for one in kept if one not in gone]
        worst = min(
            (cause.finding, *(one.finding for one in gone)), key=lambda one: (one.severity.order, one.confidence is Confidence.LIKELY)
        )
        finding = replace(
            cause.finding,
            severity=worst.severity,
            confidence=worst.confidence,
            consequences=(*cause.finding.consequences, *(one.finding.rule for one in gone)),
        )
        evidence = tuple(Evidence(one.finding.rule, one.finding.message) for one in gone)
        cases = tuple(replace(case, evidence=(*case.evidence, *evidence)) for case in cause.cases)
        made.append(replace(cause, finding=finding, cases=cases) if gone else cause)
    return [*made, *kept]


def _with_severity(finding: Finding, by: RuleSession) -> Finding:
    return replace(finding, severity=by.severities.get(finding.rule, finding.severity))


def _job_finding(
    finding: Finding,
    verdict: Verdict,
    fleet: FleetFacts,
    by: RuleSession,
    checks: Sequence[Check],
    snapshot_of: Callable[[str], Snapshot | None],
) -> FleetFinding:
    """Its hosts are the value `hosts` of the hit, in Slurm's form or as names."""
    hosts = hosts_of(verdict)
    snapshot = next((one for host in hosts[:1] or fleet.hosts[:1] if (one := snapshot_of(host)) is not None), None)
    from envcheck import planner

    fixes = planner.fixes(finding.fixes, snapshot or Snapshot(), by.tables, checks=by.checks, texts=by.texts)
    case = FleetCase(hosts, finding.message, finding.evidence, fixes)
    return FleetFinding(finding, hosts, (case,), by.texts.read(finding.rule).why, "job")


def hosts_of(verdict: Verdict) -> tuple[str, ...]:
    """The hosts that a rule of the fleet names; () where it speaks of the job."""
    named = verdict.hit.values.get("hosts") if verdict.hit else None
    if isinstance(named, str):
        try:
            return ordered(unfold(named))
        except ValueError:  # a name that Slurm's form has no room for
            return (named,)
    return ordered(str(one) for one in named) if isinstance(named, tuple | list | set | frozenset) else ()


def _of_hosts(results: Iterable[KindResult]) -> list[FleetFinding]:
    """One finding of each rule: the words that most hosts have, and all others as further cases."""
    found: dict[tuple[str, str, str], dict[tuple[str, str], list[tuple[KindResult, Reported]]]] = {}
    for result in results:
        for one in result.findings:
            finding = one.finding
            same = found.setdefault((finding.rule, finding.severity.value, finding.confidence.value), {})
            same.setdefault((finding.title, finding.message), []).append((result, one))
    return [_host_finding(list(same.values())) for same in found.values()]


def _host_finding(words: Sequence[Sequence[tuple[KindResult, Reported]]]) -> FleetFinding:
    cases = []
    for rows in words:
        hosts = ordered(host for result, _ in rows for host in result.hosts)
        _, first = min(rows, key=lambda row: (-len(row[0].hosts), ordered(row[0].hosts)))
        cases.append((FleetCase(hosts, first.finding.message, first.finding.evidence, first.fixes), first))
    cases.sort(key=lambda row: (-len(row[0].hosts), row[0].hosts, row[0].message))
    first = cases[0][1]
    every = ordered(host for case, _ in cases for host in case.hosts)
    return FleetFinding(first.finding, every, tuple(case for case, _ in cases), first.why)


def _unsure(results: Iterable[KindResult]) -> tuple[FleetUnsure, ...]:
    found: dict[tuple[str, str], list[str]] = {}
    for result in results:
        for one in result.unknown:
            found.setdefault((one.rule, one.reason), []).extend(result.hosts)
    return tuple(FleetUnsure(rule, reason, ordered(hosts)) for (rule, reason), hosts in sorted(found.items()))


def _because(results: Iterable[KindResult], fleet: FleetFacts) -> list[str]:
    """Why a host is no pass although nothing was found there."""
    found: dict[str, list[str]] = {}
    for result in results:
        for reason in result.because:
            found.setdefault(reason, []).extend(result.hosts)
    rows = sorted(found.items(), key=lambda row: (-len(row[1]), row[0]))[:SHOWN_UNSURE]
    every = len(fleet.hosts)
    return [f"{'all hosts' if len(hosts) == every > 1 else fold(hosts)}: {reason}" for reason, hosts in rows]
