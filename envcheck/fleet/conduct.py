"""One process of the job, from its seat to its exit code.

Rank 0 leads: it opens the store, waits for the others in each stage, judges what came and tells everybody the verdict. All others
follow, and are on their own as soon as rank 0 is not there any more: each has its own deadlines, its own report and its own exit code.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator

from envcheck.facts.codec import encode
from envcheck.facts.fleet import FleetFacts, FleetSeat
from envcheck.facts.printable import visible
from envcheck.facts.record import record, replace
from envcheck.fleet import presence, stages
from envcheck.fleet.exchange import Exchanged
from envcheck.fleet.options import FleetOptions, written_by
from envcheck.fleet.presence import PRESENT, SEAT, Meeting
from envcheck.fleet.seat import Seat
from envcheck.fleet.stages import SLACK_SECONDS, Course
from envcheck.fleet.store import StoreError
from envcheck.fleet.store_client import StoreUnreachable
from envcheck.fleet.store_server import StoreServer
from envcheck.report.fleet import BAD_HOST, CANNOT_TELL
from envcheck.report.report import RunVerdict

VERDICT = "verdict"
JUDGE_SECONDS = 30.0  # for the judging of many kinds of hosts
LINGER_SECONDS = 5.0  # for the others to fetch the verdict before the store goes


@record
class JobVerdict:
    """What rank 0 made of it, as the others are told."""

    code: int
    verdict: RunVerdict
    bad_hosts: tuple[str, ...] = ()


def conduct(seat: Seat, options: FleetOptions) -> int:
    """The exit code of this process. It comes in bounded time whatever the others do."""
    began = time.monotonic()
    longest = longest_seconds(options)
    with _ended_at(began + longest + SLACK_SECONDS, seat):
        try:
            meeting = presence.meet(seat, began + options.deadline_seconds, began + longest)
        except StoreError as error:
            return _alone(seat.told(stage="presence"), options, error)
        try:
            with contextlib.closing(meeting):
                placed = presence.take_place(meeting)
                if meeting.server is not None:
                    return _lead(meeting, meeting.server, options)
                return _follow(meeting, options, rival=not placed)
        except StoreError as error:
            return _alone(meeting.told, options, error)


def longest_seconds(options: FleetOptions) -> float:
    """Each stage may take its time twice: once in waiting for rank 0 to open it, once in it."""
    every = dict.fromkeys(("presence", *options.stages))
    return 2 * sum(stages.stage_seconds(one, options) + SLACK_SECONDS for one in every) + JUDGE_SECONDS


def _lead(meeting: Meeting, server: StoreServer, options: FleetOptions) -> int:
    course = Course()
    meeting.at("presence")
    wanted = {f"{SEAT}{rank}": rank for rank in range(meeting.seat.world_size)}
    come = server.wait(wanted, server.opened + options.deadline_seconds)
    course.missing = tuple(rank for key, rank in wanted.items() if key not in come)
    server.set(PRESENT, len(course.missing))
    stages.lead(meeting, server, course, options)
    meeting.at("verdict")
    return _concluded(meeting, server, course, options)


def _follow(meeting: Meeting, options: FleetOptions, rival: bool) -> int:
    """What rank 0 waits for, then what it says. A rival and one that came late have no part in the stages."""
    longest = options.deadline_seconds + SLACK_SECONDS
    if rival:
        _say(meeting, f"another process is rank {meeting.seat.rank} of this job; the report is written where rank 0 is that came first")
    if rival or meeting.told.late:
        longest += sum(stages.stage_seconds(one, options) for one in options.stages)
    else:
        meeting.at("presence")
        if not meeting.store.wait((PRESENT,), time.monotonic() + longest):
            raise _lost(meeting)
        for stage in options.stages:
            if stage != "presence" and not stages.take_part(meeting, stage, options):
                raise _lost(meeting)
        meeting.at("verdict")
    told = meeting.store.wait((VERDICT,), time.monotonic() + longest + JUDGE_SECONDS).get(VERDICT)
    if not isinstance(told, dict) or not isinstance(told.get("code"), int):
        raise _lost(meeting)
    return _ended(meeting, JobVerdict(told["code"], told.get("verdict", "inconclusive"), tuple(told.get("bad_hosts", ()))), options)


def _say(meeting: Meeting, words: str) -> None:
    """Whoever looks at this process alone would see an exit code and no reason."""
    with contextlib.suppress(OSError):
        print(visible(f"envcheck: rank {meeting.seat.rank} on {meeting.seat.host}, pid {meeting.seat.pid}: {words}"), file=sys.stderr)


def _ended(meeting: Meeting, verdict: JobVerdict, options: FleetOptions) -> int:
    """What a rank itself knows, under the verdict of the job, where it has a file of its own."""
    unwritten = 0
    if any(path and written_by(path, meeting.seat.rank) for _, path in ((options.format, options.output), *options.documents)):
        from envcheck.fleet.telling import judged, written

        report = judged(_facts_of(meeting.told, options), Exchanged(), options)
        report = replace(report, verdict=verdict.verdict, exit_code=verdict.code, bad_hosts=verdict.bad_hosts)
        unwritten = written(report, meeting.told, options, alone=False)
    return _own_code(verdict, meeting.seat, options) or unwritten


def _facts_of(one: FleetSeat, options: FleetOptions) -> FleetFacts:
    return FleetFacts((one.host,), one.world_size, options.deadline_seconds, one.master, one.launcher, (one,))


def _lost(meeting: Meeting) -> StoreUnreachable:
    return StoreUnreachable("lost", "rank 0's store answers, and rank 0 itself says nothing more", meeting.told.master_addresses)


def _united(meeting: Meeting, server: StoreServer, course: Course, options: FleetOptions) -> FleetFacts:
    """What arrived, from whomever; what came since the others' deadline is late, not missing."""
    seat = meeting.seat
    seats, rivals = presence.seats(server, course.stuck)
    late = frozenset(course.missing)
    seats = tuple(replace(one, late=one.late or one.rank in late) for one in seats)
    came = {one.rank for one in seats}
    facts = FleetFacts(
        hosts=seat.hosts or tuple(dict.fromkeys(one.host for one in seats)),
        world_size=seat.world_size,
        deadline_seconds=options.deadline_seconds,
        master=f"{seat.master}:{server.port}",
        launcher=seat.launcher,
        seats=seats,
        rivals=rivals,
        missing_ranks=tuple(rank for rank in course.missing if rank not in came),
        links=course.links,
    )
    if not course.trials:
        return facts
    from envcheck.fleet.isolation import united

    return united(facts, {one.rank: one.host for one in seats if one.rank is not None}, course.trials)


def _concluded(meeting: Meeting, server: StoreServer, course: Course, options: FleetOptions) -> int:
    """Judge, tell the others first, then write: a full disk here must not cost them the verdict."""
    from envcheck.fleet.telling import judged, written

    report = judged(_united(meeting, server, course, options), course.exchanged, options)
    verdict = JobVerdict(report.exit_code, report.verdict, report.bad_hosts)
    server.set(VERDICT, encode(verdict))
    unwritten = written(report, meeting.told, options, alone=False)
    deadline = time.monotonic() + LINGER_SECONDS
    while server.awaits(course.stuck) and time.monotonic() < deadline:
        time.sleep(0.02)
    return _own_code(verdict, meeting.seat, options) or unwritten


def _alone(told: FleetSeat, options: FleetOptions, error: StoreError) -> int:
    """A report of this process's own: rank 0 cannot be reached, or has been lost."""
    from envcheck.fleet.telling import judged, written

    reason = error.reason if isinstance(error, StoreUnreachable) else "store"
    addresses = error.addresses if isinstance(error, StoreUnreachable) else ()
    mine = replace(told, reason=reason, error=str(error), master_addresses=addresses or told.master_addresses)
    report = judged(_facts_of(mine, options), Exchanged(), options)
    unwritten = written(report, mine, options, alone=True)
    return report.exit_code or unwritten


def _own_code(verdict: JobVerdict, seat: Seat, options: FleetOptions) -> int:
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
