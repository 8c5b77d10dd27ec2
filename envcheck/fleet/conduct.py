"""One process of the job, from its seat to its exit code.

Rank 0 leads: it opens the store, waits for the others in each stage, judges what came and tells everybody the verdict. All others
follow, and are on their own as soon as rank 0 is not there any more: each has its own deadlines, its own report and its own exit code.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from envcheck.errors import UsageError
from envcheck.facts.codec import encode
from envcheck.facts.fleet import FleetFacts, FleetSeat
from envcheck.facts.record import mutable, record, replace
from envcheck.fleet import exchange, presence
from envcheck.fleet.exchange import Exchanged
from envcheck.fleet.options import FleetOptions
from envcheck.fleet.presence import PRESENT, SEAT, Meeting
from envcheck.fleet.seat import Seat
from envcheck.fleet.store import StoreError
from envcheck.fleet.store_client import StoreUnreachable
from envcheck.fleet.store_server import StoreServer
from envcheck.report.fleet import BAD_HOST

VERDICT = "verdict"
SLACK_SECONDS = 10.0  # that a follower gives rank 0 beyond a stage's deadline
JUDGE_SECONDS = 60.0  # for the judging of many kinds of hosts
LINGER_SECONDS = 5.0  # for the others to fetch the verdict before the store goes
CANNOT_TELL = 3


@record
class Verdict:
    """What rank 0 made of it, as the others are told."""

    code: int
    bad_hosts: tuple[str, ...] = ()


@mutable
class Course:
    """What rank 0 knows so far, and since when it waits for nobody any more."""

    seats: tuple[FleetSeat, ...] = ()
    missing: tuple[int, ...] = ()
    silent: tuple[int, ...] = ()
    exchanged: Exchanged = Exchanged()


def conduct(seat: Seat, options: FleetOptions) -> int:
    """The exit code of this process. It comes in bounded time whatever the others do."""
    began = time.monotonic()
    last = began + options.deadline_seconds * (len(options.stages) + 4) + JUDGE_SECONDS
    with _ended_at(last + SLACK_SECONDS, seat):
        try:
            meeting = presence.meet(seat, began + options.deadline_seconds, last)
        except StoreError as error:
            return _alone(seat.told(), options, error)
        try:
            with contextlib.closing(meeting):
                placed = presence.take_place(meeting)
                if meeting.server is not None:
                    return _lead(meeting, meeting.server, options)
                return _follow(meeting, options, rival=not placed)
        except StoreError as error:
            return _alone(meeting.told, options, error)


def _lead(meeting: Meeting, server: StoreServer, options: FleetOptions) -> int:
    course = Course()
    _await_seats(meeting, server, course, options)
    if "facts" in options.stages:
        _gather_facts(meeting, server, course, options)
    facts = _united(meeting, server, course, options)
    return _concluded(meeting, server, facts, course, options)


def _await_seats(meeting: Meeting, server: StoreServer, course: Course, options: FleetOptions) -> None:
    meeting.at("presence")
    wanted = {f"{SEAT}{rank}": rank for rank in range(meeting.seat.world_size)}
    come = server.wait(wanted, server.opened + options.deadline_seconds)
    course.missing = tuple(rank for key, rank in wanted.items() if key not in come)
    server.set(PRESENT, {"missing": len(course.missing), "seconds": round(server.seconds, 3)})


def _gather_facts(meeting: Meeting, server: StoreServer, course: Course, options: FleetOptions) -> None:
    meeting.at("facts")
    deadline = time.monotonic() + options.deadline_seconds
    own = None
    if meeting.leads:
        own = _facts_here(options)
        exchange.tell(meeting, own)
    course.exchanged = exchange.gather(server, deadline)
    if own is not None:
        exchange.answer(meeting, own, deadline)
    found = exchange.received(server, course.exchanged, deadline + SLACK_SECONDS)
    course.exchanged = replace(course.exchanged, facts=found)
    course.silent = (*course.silent, *course.exchanged.silent)


def _follow(meeting: Meeting, options: FleetOptions, rival: bool) -> int:
    """What rank 0 waits for, then what it says. A rival and one that came late have no part in the stages."""
    if not rival and not meeting.told.late:
        meeting.at("presence")
        if not meeting.store.wait((PRESENT,), _by(options)):
            raise _lost(meeting, "presence")
        if "facts" in options.stages and meeting.leads:
            meeting.at("facts")
            own = _facts_here(options)
            exchange.tell(meeting, own)
            exchange.answer(meeting, own, _by(options))
        meeting.at("verdict")
    told = meeting.store.wait((VERDICT,), _by(options, JUDGE_SECONDS + options.deadline_seconds)).get(VERDICT)
    if not isinstance(told, dict) or not isinstance(told.get("code"), int):
        raise _lost(meeting, "verdict")
    return _own_code(Verdict(told["code"], tuple(told.get("bad_hosts", ()))), meeting.seat, options)


def _by(options: FleetOptions, more: float = 0.0) -> float:
    return time.monotonic() + options.deadline_seconds + SLACK_SECONDS + more


def _lost(meeting: Meeting, stage: str) -> StoreUnreachable:
    return StoreUnreachable("lost", f"rank 0 said nothing more in the stage {stage}", meeting.told.master_addresses)


def _facts_here(options: FleetOptions) -> Mapping[str, Any] | str:
    """The static part of this host's check, or why there is none."""
    from envcheck.collect import examined
    from envcheck.host.access import RealHost
    from envcheck.report.session import RuleSession
    from envcheck.target.interpreter import choose
    from envcheck.target.process import Budget

    asked = {"static": True, "live": "off", "nproc": None, "backend": "auto", "start_method": "auto"}
    host = RealHost()
    try:
        chosen = choose(options.python, os.environ)
        collected = examined(chosen, asked, Budget(options.deadline_seconds), RuleSession(), host, host, lambda: None)
    except UsageError as error:
        return str(error)
    return dict(encode(collected.snapshot))


def _united(meeting: Meeting, server: StoreServer, course: Course, options: FleetOptions) -> FleetFacts:
    """What arrived, from whomever; what came since the others' deadline is late, not missing."""
    seat = meeting.seat
    seats, rivals = presence.seats(server, course.silent)
    late = frozenset(course.missing)
    seats = tuple(replace(one, late=one.late or one.rank in late) for one in seats)
    came = {one.rank for one in seats}
    return FleetFacts(
        hosts=seat.hosts or tuple(dict.fromkeys(one.host for one in seats)),
        world_size=seat.world_size,
        deadline_seconds=options.deadline_seconds,
        master=f"{seat.master}:{server.port}",
        launcher=seat.launcher,
        seats=seats,
        rivals=rivals,
        missing_ranks=tuple(rank for rank in course.missing if rank not in came),
    )


def _concluded(meeting: Meeting, server: StoreServer, facts: FleetFacts, course: Course, options: FleetOptions) -> int:
    """Judge, tell the others first, then write: a full disk here must not cost them the verdict."""
    from envcheck.fleet.telling import judged, written

    meeting.at("verdict")
    report = judged(facts, course.exchanged, options)
    verdict = Verdict(report.exit_code, report.bad_hosts)
    server.set(VERDICT, encode(verdict))
    unwritten = written(report, meeting.told, options, alone=False)
    deadline = time.monotonic() + LINGER_SECONDS
    while server.peers and time.monotonic() < deadline:
        time.sleep(0.02)
    return _own_code(verdict, meeting.seat, options) or unwritten


def _alone(told: FleetSeat, options: FleetOptions, error: StoreError) -> int:
    """A report of this process's own: rank 0 cannot be reached, or has been lost."""
    from envcheck.fleet.telling import judged, written

    reason = error.reason if isinstance(error, StoreUnreachable) else "store"
    addresses = error.addresses if isinstance(error, StoreUnreachable) else ()
    mine = replace(told, reason=reason, error=str(error), master_addresses=addresses or told.master_addresses)
    facts = FleetFacts((told.host,), told.world_size, options.deadline_seconds, told.master, told.launcher, (mine,))
    report = judged(facts, Exchanged(), options)
    unwritten = written(report, mine, options, alone=True)
    return report.exit_code or unwritten


def _own_code(verdict: Verdict, seat: Seat, options: FleetOptions) -> int:
    """The job's code; where a command follows on the hosts that passed, theirs is 0."""
    passed = options.command_follows and verdict.code == BAD_HOST and seat.host not in verdict.bad_hosts
    return 0 if passed else verdict.code


@contextlib.contextmanager
def _ended_at(moment: float, seat: Seat) -> Iterator[None]:
    """The last resort: whatever this process still waits for then, a folder that does not answer for instance, it ends."""

    def end() -> None:
        with contextlib.suppress(OSError):
            os.write(2, f"envcheck: rank {seat.rank} on {seat.host} did not come to its end in time, and is ended\n".encode())
        os._exit(CANNOT_TELL)

    timer = threading.Timer(moment - time.monotonic(), end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
