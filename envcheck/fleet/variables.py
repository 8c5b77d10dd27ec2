"""The verdict on the launcher's variables alone, before anything connects: in milliseconds, of this process only."""

from __future__ import annotations

import os
from collections.abc import Mapping

from envcheck.facts.fleet import FleetFacts, FleetSeat
from envcheck.facts.record import replace
from envcheck.facts.snapshot import RankReading, Snapshot
from envcheck.fleet.seat import Seat
from envcheck.probes.launcher import launcher_facts, read_ranks
from envcheck.report.fleet import FleetCase, FleetFinding, FleetReport, severe_first, verdict_of
from envcheck.report.report import FailOn
from envcheck.report.session import RuleSession, report_on

# Rules that decide by the variables of one process. The others of their families need what other processes told, or a message.
OF_VARIABLES = (
    "fleet-outside-step", "fleet-rank-incomplete", "fleet-master-unknown", "fleet-launchers-nested", "fleet-launchers-disagree",
    "fleet-store-files",
    "launch-env-conflict", "launch-master-address", "launch-master-port", "launch-slurm", "launch-variables-leaked", "launch-world-size",
)  # fmt: skip


def judge_variables(
    env: Mapping[str, str], seat: Seat | None, host: str, pid: int, by: RuleSession, *, fail_on: FailOn = "error", strict: bool = False
) -> FleetReport:
    """A report of this process alone. Its exit code is 1 where no store may be opened or joined."""
    told = seat.told(open_files_limit=files_allowed() if seat.rank == 0 else None) if seat else FleetSeat(host, pid)
    fleet = FleetFacts((host,), seat.world_size if seat else None, None, told.master, told.launcher, (told,))
    snapshot = Snapshot(launcher=launcher_facts(env), fleet=fleet)
    found = report_on(snapshot, replace(by, select=OF_VARIABLES), fail_on=fail_on, strict=strict, live_requested=False).findings
    rows = [
        FleetFinding(one.finding, (host,), (FleetCase((host,), one.finding.message, one.finding.evidence, one.fixes),), one.why)
        for one in found
    ]
    findings = severe_first(rows)
    verdict, code, _ = verdict_of(findings, fleet, (), fail_on)
    return FleetReport(verdict, min(code, 1), fleet, findings, fail_on=fail_on)


def files_allowed() -> int | None:
    """How many files this process may open, once it has raised its limit as far as it may; None: no limit, or none that is told."""
    if os.name != "posix":
        return None
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return None if hard == resource.RLIM_INFINITY else hard


def place_lines(seat: Seat) -> tuple[str, ...]:
    """Who this process is, who said so, and what the others said."""
    local = f"local rank {seat.local_rank} of {seat.local_world_size}"
    node = f", node {seat.node} of {seat.nodes}" if None not in (seat.node, seat.nodes) else ""
    by = "no launcher: it is alone" if seat.launcher == "none" else f"by {seat.launcher}"
    others = [one for one in seat.readings if one.launcher != seat.launcher]
    same = [one.launcher for one in others if _agrees(one, seat)]
    agree = f"; {' and '.join(same)} {'agrees' if len(same) == 1 else 'agree'}" if same else ""
    lines = [f"rank {seat.rank} of {seat.world_size} on {seat.host} ({local}{node}), {by}{agree}"]
    if seat.master and seat.ports:
        lines.append(f"rank 0 at {seat.master}, port {seat.ports[0]} or one of the next {len(seat.ports) - 1} ({seat.master_source})")
    lines += [f"not counted: {said(one)}" for one in others if not _agrees(one, seat)]
    return tuple(lines)


def _agrees(one: RankReading, seat: Seat) -> bool:
    return one.rank == seat.rank and one.world_size in (None, seat.world_size)


def said(one: RankReading) -> str:
    """What a launcher's variables say, in words."""
    told = [f"{name} {value}" for name, value in (("rank", one.rank), ("node", one.node_rank)) if value is not None]
    told += [f"{name} {value}" for name, value in (("world size", one.world_size), ("nodes", one.nodes)) if value is not None]
    return f"{one.launcher}: {', '.join(told) or 'nothing that can be read'}" + (
        f" ({', '.join(one.unreadable)})" if one.unreadable else ""
    )


def speaks_for_job(env: Mapping[str, str]) -> bool:
    """Whether this process may print what all of them found by themselves: nobody calls it another rank than 0."""
    return all(one.rank in (0, None) and one.node_rank in (0, None) for one in read_ranks(env))
