"""The words that all renderers of a job's report share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from envcheck.engine.rule import Confidence, Severity
from envcheck.facts.fleet import untried
from envcheck.facts.hostlist import fold
from envcheck.facts.printable import one_line
from envcheck.render.wording import counted
from envcheck.report.fleet import FleetReport

NAMED = 120  # characters of folded names; beyond that their number says more
BEGUN = 48  # characters of those


def where(hosts: Iterable[str], report: FleetReport) -> str:
    """ "n[017,203-204]", "all 256 hosts", "" for the job as a whole."""
    names = tuple(hosts)
    if names and len(names) == len(report.hosts) > 1:
        return report.language.say(f"all {len(names)} hosts")
    text = one_line(fold(names))
    return text if len(text) <= NAMED else report.language.say(f"{len(names)} hosts ({one_line(text, BEGUN)})")


def tally(report: FleetReport) -> str:
    """ "1 error, 2 warnings"; what is only likely is said so."""
    rows = Counter((one.finding.severity, one.finding.confidence) for one in report.findings)
    parts = (
        (rows[Severity.ERROR, Confidence.CERTAIN], "error"),
        (rows[Severity.ERROR, Confidence.LIKELY], "possible error"),
        (report.count(Severity.WARNING), "warning"),
    )
    return ", ".join(counted(number, noun) for number, noun in parts if number)


def verdict_line(report: FleetReport) -> str:
    """Never more than one line."""
    return report.language.say(_verdict(report))


def _verdict(report: FleetReport) -> str:
    found = tally(report)
    hosts = counted(len(report.hosts), "host")
    if report.verdict == "fail":
        bad = (
            f"; without {where(report.bad_hosts, report)} the other {len(report.hosts) - len(report.bad_hosts)} would go"
            if report.bad_hosts
            else ""
        )
        return f"Not ready: {found or 'bad hosts'} on {hosts}{bad}"
    if report.verdict == "inconclusive":
        first = report.because[0] if report.because else "an important fact is missing"
        more = f" (and {counted(len(report.because) - 1, 'more reason')})" if len(report.because) > 1 else ""
        return f"Cannot tell: {one_line(first)}{more}"
    if report.replayed:
        return f"No error found on {hosts}" + (f" ({found})" if found else "") + "; nothing was tried on them"
    return f"Ready: {hosts}" + (f" ({found})" if found else "")


def head_lines(report: FleetReport) -> tuple[str, str]:
    """Which hosts and when; then what was done with them."""
    fleet, say = report.fleet, report.language.say
    names = one_line(fold(report.hosts), NAMED)
    kinds = f"{counted(report.distinct, 'kind')} of host" if report.distinct else ""
    how = f"recorded snapshots, the last of {report.taken or 'an unknown time'}" if report.replayed else report.taken
    world = counted(fleet.world_size, "rank") if fleet.world_size else ""
    pairs = len(fleet.hosts) * (len(fleet.hosts) - 1)
    left = untried(fleet.hosts, fleet.links) if fleet.links else 0
    parts = (
        world,
        f"started by {'no launcher' if fleet.launcher == 'none' else fleet.launcher}" if fleet.launcher else "",
        kinds,
        f"{pairs - left} of {pairs} links tried" if left > 0 else "",
        "held against a golden host" if fleet.golden else "",
        how,
    )
    size = say(f"fleet of {counted(len(report.hosts), 'host')}")
    return f"{report.name} {report.version}, {size}: {names}", say(", ".join(filter(None, parts)))


def unsure_lines(report: FleetReport) -> list[str]:
    """What could not be read or decided, and why: "gpu-lost on n[1-2]: NVML: timed out"."""
    say = report.language.say
    rows = [f"{one.name}: {say(one.reason)}" for one in report.unread]
    for one in report.unknown:
        place = f" {say('on')} {where(one.hosts, report)}" if one.hosts else ""
        rows.append(f"{one.rule}{place}: {say(one.reason)}")
    return rows
