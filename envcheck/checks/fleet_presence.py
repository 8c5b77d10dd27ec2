"""Who of a job came, and who did not: ranks, sizes, masters and clocks as the processes told them to rank 0's store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from envcheck.engine.rule import Answer, Evidence, Facts, Hit, check
from envcheck.facts.fleet import FleetFacts, FleetSeat
from envcheck.facts.hostlist import fold

SKEW_SECONDS = 1.0
SHOWN = 8  # single processes in evidence
UNREACHED = ("refused", "silent", "stranger", "route", "filtered", "name", "loopback", "elsewhere")
OF_RANK0 = ("name", "elsewhere")  # what rank 0 itself says of its own address
ENDED = ("gone", "stuck")


def ranks_text(ranks: Iterable[int]) -> str:
    """3, 4, 5, 9 → "3-5,9"."""
    return fold(str(rank) for rank in ranks).strip("[]")


def _where(one: FleetSeat) -> str:
    return f"rank {one.rank} on {one.host}" + (f" (pid {one.pid})" if one.pid is not None else "")


def _evidence(seats: Iterable[FleetSeat], what: str = "") -> tuple[Evidence, ...]:
    rows = list(seats)[:SHOWN]
    return tuple(Evidence("store", f"{_where(one)}: {getattr(one, what) if what else one.error}") for one in rows)


def _hosts(seats: Iterable[FleetSeat]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.host for one in seats))


@check(needs="fleet", reads="fleet")
def fleet_rank_missing(facts: Facts) -> Answer:
    fleet = facts.fleet
    missing = fleet.missing_ranks
    if not missing:
        return None
    absent = _absent_hosts(fleet)
    values: dict[str, object] = {
        "ranks": ranks_text(missing),
        "count": len(missing),
        "size": fleet.world_size,
        "seconds": f"{fleet.deadline_seconds or 0:g}",
        "hosts": absent,
        "absent": fold(absent),
    }
    evidence = (Evidence("store", f"{len(fleet.seats)} of {fleet.world_size} ranks came, from {fold(_hosts(fleet.seats))}"),)
    return Hit(values, evidence, variant="hosts" if absent else None)


def _absent_hosts(fleet: FleetFacts) -> tuple[str, ...]:
    """Hosts of the job from which fewer processes came than from the fullest one; () where that says nothing."""
    came = Counter(one.host for one in fleet.seats)
    most = max(came.values(), default=0)
    lacking = [(host, most - came[host]) for host in fleet.hosts if came[host] < most]
    return tuple(host for host, _ in lacking) if sum(count for _, count in lacking) == len(fleet.missing_ranks) else ()


@check(needs="fleet", reads="fleet")
def fleet_rank_duplicate(facts: Facts) -> Answer:
    """One of two processes with the same rank reports success where torch is asked, and the job never meets."""
    holders = {one.rank: one for one in facts.fleet.seats}
    rivals = [one for one in facts.fleet.rivals if one.rank in holders]
    if not rivals:
        return None
    first = rivals[0]
    values: dict[str, object] = {
        "ranks": ranks_text(sorted({one.rank for one in rivals if one.rank is not None})),
        "rank": first.rank,
        "first": f"{holders[first.rank].host} (pid {holders[first.rank].pid})",
        "second": f"{first.host} (pid {first.pid})",
        "count": len(rivals),
        "pids": f"{holders[first.rank].pid},{first.pid}",
    }
    shown = [seat for one in rivals[: SHOWN // 2] for seat in (holders[one.rank], one)]
    evidence = tuple(Evidence("store", f"{_where(one)}: by {one.launcher}") for one in shown)
    twice = Counter(one.rank for one in rivals) == dict.fromkeys(range(facts.fleet.world_size or 0), 1)
    return Hit(values, evidence, variant="jobs" if twice and len(rivals) > 1 else "many" if len(rivals) > 1 else None)


@check(needs="fleet", reads="fleet")
def fleet_world_size_disagrees(facts: Facts) -> Answer:
    told = Counter(one.world_size for one in facts.fleet.seats if one.world_size is not None)
    if len(told) < 2:
        return None
    usual = told.most_common(1)[0][0]
    others = [one for one in facts.fleet.seats if one.world_size not in (None, usual)]
    odd = others[0]
    values: dict[str, object] = {
        "usual": usual,
        "usual_count": told[usual],
        "odd": sorted({one.world_size for one in others if one.world_size is not None}),
        "ranks": ranks_text(one.rank for one in others if one.rank is not None),
        "on": fold(_hosts(others)),
        "launcher": odd.launcher,
    }
    return Hit(values, _evidence(others, "world_size"))


@check(needs="fleet", reads="fleet")
def fleet_masters_disagree(facts: Facts) -> Answer:
    """Two names of one host are no disagreement; a name that means the host itself is another matter, on rank 0's host none at all."""
    first = next((one for one in facts.fleet.seats if one.rank == 0), None)
    if first is None or first.master is None:
        return None
    mine, at = first.master, frozenset((*first.master_addresses, *first.addresses))
    others = [one for one in facts.fleet.seats if one.master not in (None, mine) and one.host != first.host]
    others = [one for one in others if one.master_addresses and not at & frozenset(one.master_addresses)]
    if not others:
        return None
    values: dict[str, object] = {
        "master": mine,
        "other": others[0].master,
        "ranks": ranks_text(one.rank for one in others if one.rank is not None),
        "on": fold(_hosts(others)),
    }
    return Hit(values, _evidence(others, "master"))


@check(needs="fleet", reads="fleet")
def fleet_rank_late(facts: Facts) -> Answer:
    late = [one for one in facts.fleet.seats if one.late]
    if not late:
        return None
    slowest = max(late, key=lambda one: one.arrived_seconds or 0.0)
    values: dict[str, object] = {
        "ranks": ranks_text(one.rank for one in late if one.rank is not None),
        "on": fold(_hosts(late)),
        "seconds": f"{slowest.arrived_seconds or 0:.0f}",
        "deadline": f"{facts.fleet.deadline_seconds or 0:g}",
        "ask": f"{(slowest.arrived_seconds or 0) * 2:.0f}",
    }
    return Hit(values, _evidence(late, "arrived_seconds"))


@check(needs="fleet", reads="fleet")
def fleet_clock_skew(facts: Facts) -> Answer:
    off = [one for one in facts.fleet.seats if abs(one.clock_offset_seconds or 0.0) - (one.clock_error_seconds or 0.0) > SKEW_SECONDS]
    if not off:
        return None
    worst = max(off, key=lambda one: abs(one.clock_offset_seconds or 0.0))
    offset = worst.clock_offset_seconds or 0.0
    values: dict[str, object] = {
        "hosts": _hosts(off),
        "on": fold(_hosts(off)),
        "host": worst.host,
        "seconds": f"{abs(offset):.1f}",
        "way": "ahead of" if offset > 0 else "behind",
    }
    return Hit(values, _evidence(off, "clock_offset_seconds"))


@check(needs="fleet", reads="fleet")
def fleet_rank0_unreachable(facts: Facts) -> Answer:
    """What a rank that has no part in the job says by itself, in the same words on each host."""
    seats = facts.fleet.seats
    alone = len(seats) == 1  # in a report of its own
    lost = next((one for one in seats if one.reason in UNREACHED and (alone or (one.rank == 0 and one.reason in OF_RANK0))), None)
    if lost is None:
        return None
    host, _, port = (lost.master or "").rpartition(":")
    values: dict[str, object] = {
        "rank": lost.rank,
        "host": lost.host,
        "master": host or lost.master,
        "port": port or None,
        "addresses": lost.master_addresses or "no address",
        "why": lost.error,
        "seconds": f"{facts.fleet.deadline_seconds or 0:g}",
    }
    return Hit(values, _evidence((lost,)), variant=None if lost.reason == "refused" else lost.reason)


@check(needs="fleet", reads="fleet")
def fleet_rank0_lost(facts: Facts) -> Answer:
    """It was there, and is not any more: what its ranks know then is in their own reports."""
    lost = next((one for one in facts.fleet.seats if one.reason in ("lost", "store")), None)
    if lost is None:
        return None
    values: dict[str, object] = {
        "rank": lost.rank,
        "host": lost.host,
        "master": (lost.master or "").rpartition(":")[0] or lost.master,
        "stage": lost.stage or "presence",
        "why": lost.error,
    }
    return Hit(values, _evidence([lost]))


@check(needs="fleet", reads="fleet")
def fleet_rank_stuck(facts: Facts) -> Answer:
    """Ranks that came, and then ended or said no more; silence is a process that hangs, is frozen, or sits on a host that went away."""
    stuck = [one for one in facts.fleet.seats if one.reason in ENDED]
    if not stuck:
        return None
    gone = [one for one in stuck if one.reason == "gone"]
    values: dict[str, object] = {
        "ranks": ranks_text(one.rank for one in stuck if one.rank is not None),
        "hosts": _hosts(stuck),
        "on": fold(_hosts(stuck)),
        "host": stuck[0].host,
        "pid": stuck[0].pid,
        "stage": stuck[0].stage,
        "seconds": f"{facts.fleet.deadline_seconds or 0:g}",
    }
    return Hit(values, _evidence(stuck), variant="gone" if len(gone) == len(stuck) else None)
