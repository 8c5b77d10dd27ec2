"""The finished result of `envcheck fleet`: one report for all hosts of a job. Renderers only read it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from envcheck import __version__
from envcheck.engine.judge import Finding
from envcheck.engine.rule import Confidence, Evidence, Severity
from envcheck.facts.fleet import FleetFacts
from envcheck.facts.record import record
from envcheck.planner.result import Fix
from envcheck.report.english import ENGLISH, English
from envcheck.report.report import FailOn, RunVerdict, fails

CANNOT_TELL = 3  # exit codes: an important fact is missing,
BAD_HOST = 4  # and without the hosts that are named the job would go

Of: TypeAlias = Literal["job", "host"]  # a rule about what the hosts told together, or one about a single host


@record
class FleetCase:
    """What one rule says of some hosts in the same words."""

    hosts: tuple[str, ...]
    message: str
    evidence: tuple[Evidence, ...] = ()
    fixes: tuple[Fix, ...] = ()


@record
class FleetFinding:
    """What is wrong, where, and what to do there. One finding of a rule for all the hosts that have it."""

    finding: Finding
    hosts: tuple[str, ...] = ()  # in natural order; () is the job as a whole
    cases: tuple[FleetCase, ...] = ()  # the one of most hosts first, whose words are those of `finding`
    why: str = ""
    of: Of = "host"

    @property
    def fixes(self) -> tuple[Fix, ...]:
        return self.cases[0].fixes if self.cases else ()


@record
class FleetUnsure:
    """A rule that could not be decided on some hosts."""

    rule: str
    reason: str
    hosts: tuple[str, ...] = ()


@record
class FleetUnread:
    """A recording that is none; `name` is a file, with the line where it holds several."""

    name: str
    reason: str


@record
class FleetReport:
    """Everything that any renderer shows."""

    verdict: RunVerdict
    exit_code: int
    fleet: FleetFacts
    findings: tuple[FleetFinding, ...] = ()
    unknown: tuple[FleetUnsure, ...] = ()
    because: tuple[str, ...] = ()  # why the verdict is inconclusive
    unread: tuple[FleetUnread, ...] = ()
    bad_hosts: tuple[str, ...] = ()  # without them the job would go; () also where all of them are bad
    distinct: int = 0  # kinds of hosts, each of which was judged once
    replayed: bool = False  # from recordings; nothing was tried
    taken: str = ""  # when: "2026-11-28T21:20:05Z", the last of the recordings
    seconds: float | None = None
    fail_on: FailOn = "error"
    name: str = "envcheck"
    version: str = __version__
    language: English = ENGLISH  # in which renderers speak to people

    @property
    def hosts(self) -> tuple[str, ...]:
        return self.fleet.hosts

    def count(self, severity: Severity) -> int:
        return sum(one.finding.severity is severity for one in self.findings)

    def fails(self, one: FleetFinding) -> bool:
        return fails(one.finding, self.fail_on)

    def of_host(self, host: str) -> tuple[FleetFinding, ...]:
        """What is wrong on this host; what is wrong with the job as a whole is no host's."""
        return tuple(one for one in self.findings if host in one.hosts)


def verdict_of(
    findings: Sequence[FleetFinding], fleet: FleetFacts, because: Sequence[str], fail_on: FailOn = "error", strict: bool = False
) -> tuple[RunVerdict, int, tuple[str, ...]]:
    """The verdict, the exit code and the bad hosts of a job.

    4 rather than 1 where each certain error is of hosts that are named, and others are left: a gate may go on without them.
    """
    failing = [one for one in findings if fails(one.finding, fail_on)]
    if not failing and not fleet.bad_hosts:
        if because or (strict and findings):
            return "inconclusive", 0 if fail_on == "never" and not strict else CANNOT_TELL, ()
        return "pass", 0, ()
    bad = ordered([*fleet.bad_hosts, *(host for one in failing for host in one.hosts)])
    named = all(one.hosts for one in failing) and len(bad) < len(fleet.hosts)
    code = BAD_HOST if named else 1
    return "fail", 0 if fail_on == "never" else code, bad if named else ()


def ordered(hosts: Iterable[str]) -> tuple[str, ...]:
    """Each host once, as people order names: n2 before n10."""
    from envcheck.facts.hostlist import natural

    return tuple(sorted(set(hosts), key=natural))


def severe_first(findings: Iterable[FleetFinding]) -> tuple[FleetFinding, ...]:
    """Errors, then warnings; of one severity what is certain, the job's before a host's, and what more hosts have."""
    return tuple(
        sorted(
            findings,
            key=lambda one: (
                one.finding.severity.order,
                one.finding.confidence is Confidence.LIKELY,
                one.of == "host",
                -len(one.hosts),
                one.finding.rule,
                one.hosts[:1],
            ),
        )
    )
