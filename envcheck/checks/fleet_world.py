"""What the process groups of a job show: hosts that no group works with, slow ones, and a world that fails although pairs pass."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from statistics import median

from envcheck.checks.peers import slow_beyond
from envcheck.engine.rule import Answer, Confidence, Evidence, Facts, Hit, Severity, Unknown, check
from envcheck.facts.fleet import LEFT_OUT, FleetFacts, FleetTrial
from envcheck.facts.hostlist import fold

LINES = 6  # of evidence
RANKS = 8  # in a line


def _ranks(ranks: Collection[int]) -> str:
    shown = ", ".join(map(str, sorted(ranks)[:RANKS]))
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {shown}" + (f" and {len(ranks) - RANKS} more" if len(ranks) > RANKS else "")


def _ended(trial: FleetTrial) -> str:
    """Where a trial that did not pass came to its end, and with what words."""
    where = f" in {trial.stage}" if trial.stage else ""
    return f"{'no end' if trial.outcome == 'timeout' else 'failed'}{where}" + (f": {trial.error}" if trial.error else "")


def _evidence(trials: Iterable[FleetTrial]) -> tuple[Evidence, ...]:
    told = [Evidence(" ".join(filter(None, (one.round, one.backend))), f"{_ranks(one.ranks)}: {_ended(one)}") for one in trials]
    return tuple(dict.fromkeys(told))[:LINES]


def _failures(fleet: FleetFacts, hosts: Collection[str]) -> list[FleetTrial]:
    """The trials that did not pass with a rank of these hosts in them, those that say most first: a pair before the world."""
    order = {"start": 0, "confirm": 1, "pairs": 2}
    found = [one for one in fleet.trials if one.outcome in ("failed", "timeout") and set(one.hosts) & set(hosts)]
    return sorted(found, key=lambda one: order.get(one.round, len(order)))


def _groupless(fleet: FleetFacts) -> set[str]:
    """Hosts whose torch was built without torch.distributed."""
    return {host for one in fleet.trials if one.round == "start" and one.stage == LEFT_OUT for host in one.hosts}


@check(needs="fleet", reads="fleet")
def fleet_host_bad(facts: Facts) -> Answer:
    """Hosts that failed with partners that are good with others, or cannot have any."""
    fleet, groupless = facts.fleet, _groupless(facts.fleet)
    ended = {one.host for one in fleet.seats if one.reason == "gone"}  # of these fleet-rank-stuck says what is wrong
    bad = [host for host in fleet.bad_hosts if host not in fleet.slow_hosts and host not in ended]
    if groupless >= set(bad) and groupless:
        return Hit({"hosts": fold(groupless)}, _evidence(_failures(fleet, groupless)), variant="no_group")
    if not bad:
        return None
    failures = _failures(fleet, bad)
    first = failures[0] if failures else None
    values: dict[str, object] = {
        "hosts": fold(bad),
        "backend": fleet.verdict_backend or "the process group",
        "ended": _ended(first) if first else "failed",
        "ranks": _ranks(fleet.bad_ranks) if fleet.bad_ranks else "its ranks",
        "cleared": fold(fleet.cleared_hosts) if fleet.cleared_hosts else "nobody",
    }
    return Hit(values, _evidence(failures), variant="start" if first and first.round == "start" else None)


@check(needs="fleet", reads="fleet")
def fleet_host_slow(facts: Facts) -> Answer:
    """Hosts with which every group works, far slower than groups of their peers."""
    fleet = facts.fleet
    if not fleet.slow_hosts:
        return None
    timed = [one for one in fleet.trials if one.outcome == "passed" and one.round in ("pairs", "confirm") and one.seconds is not None]
    slow = [one for one in timed if set(one.hosts) & set(fleet.slow_hosts)]
    usual = [one.seconds for one in timed if one not in slow and one.seconds is not None]
    values: dict[str, object] = {
        "hosts": fold(fleet.slow_hosts),
        "seconds": f"{max((one.seconds or 0.0 for one in slow), default=0.0):.2f}",
        "usual": f"{median(usual):.2f}" if usual else "unknown",
    }
    told = [Evidence(one.round, f"{_ranks(one.ranks)}: {one.seconds:.2f} s{_busbw(one)}") for one in slow]
    return Hit(values, tuple(told)[:LINES])


def _busbw(trial: FleetTrial) -> str:
    return f", busbw {trial.busbw_gbps:.2f} Gbit/s" if trial.busbw_gbps is not None else ""


@check(needs="fleet", reads="fleet")
def fleet_rank_straggles(facts: Facts) -> Answer:
    """Ranks that need far longer than their peers for the same sums, without a word to anybody: not the network."""
    fleet = facts.fleet
    world = next((one for one in fleet.trials if one.round == "world" and len(one.work_seconds) == len(one.ranks) > 2), None)
    limit = slow_beyond(world.work_seconds) if world else None
    if world is None or limit is None:
        return None
    late = {rank: seconds for rank, seconds in zip(world.ranks, world.work_seconds, strict=True) if seconds > limit}
    if not late:
        return None
    where = {one.rank: one.host for one in fleet.seats}
    values: dict[str, object] = {
        "hosts": fold({where[rank] for rank in late if rank in where}),
        "ranks": _ranks(late),
        "seconds": f"{max(late.values()):.2f}",
        "usual": f"{median(world.work_seconds):.2f}",
    }
    return Hit(values, tuple(Evidence(f"rank {rank}", f"{seconds:.2f} s") for rank, seconds in sorted(late.items())[:LINES]))


@check(needs="fleet", reads="fleet")
def fleet_pair_fails(facts: Facts) -> Answer:
    """Hosts that work with others, and not with each other."""
    fleet = facts.fleet
    links = [one for one in fleet.bad_links if one.source != one.target]
    if not links:
        return None
    dead = [one for one in links if not one.ok]
    told = dead or links
    values: dict[str, object] = {
        "between": ", ".join(f"{one.source} and {one.target}" for one in told[:3]),
        "error": told[0].error or "no answer",
        "source": told[0].source,
        "target": told[0].target,
    }
    evidence = tuple(Evidence(f"{one.source} and {one.target}", one.error or "no answer") for one in told[:LINES])
    return Hit(values, evidence, variant=None if dead else "slow", severity=None if dead else Severity.WARNING)


@check(needs="fleet", reads="fleet")
def fleet_world_fails(facts: Facts) -> Answer:
    """All ranks together fail, and no host is to blame for it."""
    fleet = facts.fleet
    if fleet.verdict == "inconclusive" and _groupless(fleet):
        return None  # fleet-host-bad says why nobody could work with anybody
    if fleet.verdict == "inconclusive":
        failed = next((one for one in fleet.trials if one.outcome in ("failed", "timeout")), None)
        return Unknown(f"no two hosts worked together, so that nobody can be blamed ({_ended(failed) if failed else 'nothing was tried'})")
    worlds = [one for one in fleet.trials if one.round == "world" and one.outcome in ("failed", "timeout")]
    if not worlds or fleet.verdict not in ("scale", "intermittent", "transport", "suspects"):
        return None
    values: dict[str, object] = {"size": len(worlds[0].ranks), "backend": worlds[0].backend or "torch", "ended": _ended(worlds[0])}
    if fleet.verdict == "suspects":
        values["hosts"] = fold(fleet.suspect_hosts)
        return Hit(values, _evidence(worlds), variant="suspects", confidence=Confidence.LIKELY)
    if fleet.verdict == "intermittent":
        return Hit(values, _evidence(worlds), variant="intermittent", severity=Severity.WARNING)
    if fleet.verdict == "transport":
        control = next((one for one in fleet.trials if one.round == "control" and one.outcome == "passed"), None)
        settings = sorted(control.environment.items()) if control else ()
        values["settings"] = ", ".join(f"{name}={text}" for name, text in settings) or "without settings of its own"
        return Hit(values, _evidence(worlds), variant="transport")
    return Hit(values, _evidence(worlds))
