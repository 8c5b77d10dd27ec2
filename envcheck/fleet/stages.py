"""What a process of the job does in each stage after the presence, and how rank 0 gathers what came of it.

Rank 0 opens each stage: it says in the store whether it is gone through, and with whom. Those that ended or say nothing more are left out
of the stages that follow.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

from envcheck.errors import UsageError
from envcheck.facts.codec import DecodeError, decode, encode
from envcheck.facts.fleet import FleetLink, FleetSeat, FleetTrial, unreached, without_gloo
from envcheck.facts.hostlist import fold, unfold
from envcheck.facts.printable import visible
from envcheck.facts.record import mutable, replace
from envcheck.fleet import exchange, presence
from envcheck.fleet.exchange import Exchanged
from envcheck.fleet.options import FleetOptions
from envcheck.fleet.presence import Meeting, await_of
from envcheck.fleet.store import get_large, put_large
from envcheck.fleet.store_server import StoreServer

BEGIN, PEERS, LINKS = "begin/", "peers/", "links/told/"
SLACK_SECONDS = 10.0  # that ranks give each other beyond a stage's deadline
WORLD_DEADLINES = 5  # world, pairs, confirm, rest, and a control
Peers: TypeAlias = tuple[FleetSeat, ...]


@mutable
class Course:
    """What rank 0 has heard so far."""

    missing: tuple[int, ...] = ()
    stuck: tuple[int, ...] = ()  # ranks that owe an answer
    exchanged: Exchanged = Exchanged()
    links: tuple[FleetLink, ...] = ()
    trials: tuple[FleetTrial, ...] = ()


def lead(meeting: Meeting, server: StoreServer, course: Course, options: FleetOptions) -> None:
    """All stages that are asked for, at rank 0."""
    for stage in options.stages:
        if stage in _PARTS:
            seats, rivals = presence.seats(server, course.stuck)
            # Between hosts that do not reach each other a process group hangs until its time is over, and shows no more than that.
            vain = (rivals and stage != "facts") or (stage == "world" and unreached(course.links))
            peers = () if vain else taking_part(stage, seats)
            if stage != "facts":
                put_large(server, f"{PEERS}{stage}", told_of(stage, peers, seats))
            server.set(f"{BEGIN}{stage}", bool(peers))
            if peers:
                meeting.at(stage)
                _LEADS[stage](meeting, server, course, peers, options)


def take_part(meeting: Meeting, stage: str, options: FleetOptions) -> bool:
    """A stage at another rank; False where rank 0 does not open it in time."""
    deadline = time.monotonic() + stage_seconds(stage, options) + options.deadline_seconds + 2 * SLACK_SECONDS
    begin = meeting.store.wait((f"{BEGIN}{stage}",), deadline)
    if not begin:
        return False
    if begin[f"{BEGIN}{stage}"] is True and (stage == "world" or meeting.leads):
        meeting.at(stage)
        peers = () if stage == "facts" else heard_of(stage, meeting.told, get_large(meeting.store, f"{PEERS}{stage}"))
        if peers or stage == "facts":
            _PARTS[stage](meeting, peers, options)
    return True


def stage_seconds(stage: str, options: FleetOptions) -> float:
    return options.deadline_seconds * (WORLD_DEADLINES if stage == "world" else 1)


def taking_part(stage: str, seats: Peers) -> Peers:
    """Those that came in time and still answer; () where there is nothing to try among them."""
    there = tuple(one for one in seats if one.reason not in ("gone", "stuck") and not one.late)
    if stage == "facts":
        return there
    if len({one.world_size for one in there}) != 1:
        return ()
    return there if len({one.host for one in there} if stage == "links" else there) > 1 else ()


def told_of(stage: str, peers: Peers, seats: Peers) -> object:
    """What a rank has to know of the others, and no more: each reads it, and all seats to all ranks would be their square. For links the
    hosts, in the order in which they are paired; for the world a seat on each of two hosts, so that everybody knows another one, and
    who takes no part."""
    if stage == "links":
        hosts = _hosts(peers)
        return fold(hosts) if _folds(hosts) else list(hosts)
    hosts = _hosts(peers)[:2]
    known = [min((one for one in peers if one.host == host), key=lambda one: one.local_rank or 0) for host in hosts]
    ranks = {one.rank for one in peers}
    return {"known": encode(known), "without": [one.rank for one in seats if one.rank not in ranks]}


def heard_of(stage: str, own: FleetSeat, said: Any) -> Peers:
    """The same as another rank reads it, with itself among them; () where it has no part in the stage."""
    try:
        if stage == "links":
            hosts = unfold(said) if isinstance(said, str) else said or ()
            return tuple(FleetSeat(str(host)) for host in hosts) if own.host in hosts else ()
        if not isinstance(said, dict) or own.rank in said.get("without", ()):
            return ()
        others: Peers = decode(tuple[FleetSeat, ...], said.get("known", []))
    except (ValueError, TypeError):  # not what rank 0 writes
        return ()
    return (own, *(one for one in others if one.rank != own.rank))


def _folds(hosts: tuple[str, ...]) -> bool:
    try:
        return unfold(fold(hosts)) == hosts
    except ValueError:
        return False


def facts_here(options: FleetOptions) -> Mapping[str, Any] | str:
    """The static part of this host's check, or why there is none."""
    from envcheck.collect import examined
    from envcheck.host.access import RealHost
    from envcheck.report.session import RuleSession
    from envcheck.target.interpreter import choose
    from envcheck.target.process import Budget

    asked = {"static": True, "live": "off", "nproc": None, "backend": "auto", "start_method": "auto"}
    host = RealHost()
    try:
        chosen = choose(options.python, host.env)
        if chosen.note:  # what the job's report has no place for
            with suppress(OSError):
                print(visible(f"envcheck: {host.platform().get('node')}: {chosen.note}"), file=sys.stderr)
        collected = examined(chosen, asked, Budget(options.deadline_seconds), RuleSession(), host, host, lambda: None)
    except UsageError as error:
        return str(error)
    return dict(encode(collected.snapshot))


def _tell_facts(meeting: Meeting, _peers: Peers, options: FleetOptions) -> None:
    own = facts_here(options)
    exchange.tell(meeting, own)
    exchange.answer(meeting, own, time.monotonic() + options.deadline_seconds + SLACK_SECONDS)


def _gather_facts(meeting: Meeting, server: StoreServer, course: Course, _peers: Peers, options: FleetOptions) -> None:
    deadline = time.monotonic() + options.deadline_seconds
    own = facts_here(options) if meeting.leads else None
    if own is not None:
        exchange.tell(meeting, own)
    course.exchanged = exchange.gather(server, deadline)
    if own is not None:
        exchange.answer(meeting, own, deadline)
    found = exchange.received(server, course.exchanged, deadline + SLACK_SECONDS / 2)
    course.exchanged = replace(course.exchanged, facts=found)
    course.stuck = (*course.stuck, *course.exchanged.silent)


def _tell_links(meeting: Meeting, peers: Peers, options: FleetOptions) -> None:
    put_large(meeting.store, f"{LINKS}{meeting.seat.host}", [encode(one) for one in _links_here(meeting, peers, options)])


def _links_here(meeting: Meeting, peers: Peers, options: FleetOptions) -> tuple[FleetLink, ...]:
    from envcheck.fleet.links import probe_links

    return probe_links(meeting.seat, _hosts(peers), meeting.store, time.monotonic() + options.deadline_seconds)


def _gather_links(meeting: Meeting, server: StoreServer, course: Course, peers: Peers, options: FleetOptions) -> None:
    deadline = time.monotonic() + options.deadline_seconds + SLACK_SECONDS / 2
    if meeting.leads:
        _tell_links(meeting, peers, options)
    leaders = exchange.leaders(server)
    owed = {f"{LINKS}{host}": leaders[host] for host in _hosts(peers) if host in leaders}
    come = await_of(server, owed, deadline)
    course.links = tuple(link for key in come for link in links_of(get_large(server, key)))
    course.stuck = (*course.stuck, *(rank for key, rank in owed.items() if key not in come))


def links_of(said: Any) -> tuple[FleetLink, ...]:
    """What a host says of its links; none where that is something else: whoever has the job's token can write it."""
    try:
        return tuple(decode(tuple[FleetLink, ...], said))
    except DecodeError:
        return ()


def _hosts(peers: Peers) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.host for one in peers))


def _in_the_world(meeting: Meeting, peers: Peers, options: FleetOptions, without: tuple[str, ...] = ()) -> tuple[FleetTrial, ...]:
    from envcheck.fleet.world import try_world
    from envcheck.host.ownership import safe_variables
    from envcheck.target.interpreter import choose

    try:
        target = choose(options.python, safe_variables(os.environ)[0])
    except UsageError as error:
        return (FleetTrial("start", "", (meeting.seat.rank,), (meeting.seat.host,), "failed", stage="start", error=str(error)),)
    deadline = time.monotonic() + stage_seconds("world", options) + (0 if meeting.server else SLACK_SECONDS / 2)
    return try_world(meeting.seat, peers, meeting.store, target, options, deadline, without=without)


def _join_the_world(meeting: Meeting, peers: Peers, options: FleetOptions) -> None:
    _in_the_world(meeting, peers, options)


def _lead_the_world(meeting: Meeting, _server: StoreServer, course: Course, peers: Peers, options: FleetOptions) -> None:
    course.trials = _in_the_world(meeting, peers, options, ("gloo",) if without_gloo(course.links) else ())


_PARTS: Mapping[str, Callable[[Meeting, Peers, FleetOptions], None]] = {
    "facts": _tell_facts,
    "links": _tell_links,
    "world": _join_the_world,
}
_LEADS: Mapping[str, Callable[[Meeting, StoreServer, Course, Peers, FleetOptions], None]] = {
    "facts": _gather_facts,
    "links": _gather_links,
    "world": _lead_the_world,
}
