"""Trying the process group of a job for real: ranks of this machine, each with its own child, over a store of this process."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from envcheck.facts.fleet import FleetFacts, FleetSeat, FleetTrial
from envcheck.fleet.isolation import united
from envcheck.fleet.options import FleetOptions
from envcheck.fleet.seat import Seat
from envcheck.fleet.store import MemoryStore
from envcheck.fleet.world import OwnGroup, Watched, try_world
from envcheck.target.process import Target


def tried(python: str, count: int, seconds: float) -> dict[int, tuple[FleetTrial, ...]]:
    store = MemoryStore()
    peers = [FleetSeat(host="n0", rank=rank, world_size=count, local_rank=rank) for rank in range(count)]
    found: dict[int, tuple[FleetTrial, ...]] = {}

    def rank_of(rank: int) -> None:
        seat = Seat("n0", 1, rank, count, rank, count, "none")
        options = FleetOptions(deadline_seconds=seconds, backends=("gloo",))
        found[rank] = try_world(seat, peers, store, Target(python, "test"), options, time.monotonic() + 4 * seconds)

    threads = [threading.Thread(target=rank_of, args=(rank,)) for rank in range(count)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return found


@pytest.mark.torch
def test_three_ranks_on_loopback_take_a_step_together() -> None:
    """A mean over three is no binary fraction: what DDP leaves of a weight is right within rounding, not to the bit."""
    found = tried(sys.executable, 3, 90.0)
    (world,) = [one for one in found[0] if one.round == "world"]
    assert (world.error, world.outcome, world.ranks) == (None, "passed", (0, 1, 2)), found
    assert len(world.work_seconds) == 3
    facts = united(FleetFacts(), dict.fromkeys(range(3), "n0"), found[0])
    assert (facts.verdict, facts.bad_hosts) == ("passed", ())


def test_a_target_that_cannot_start_blames_nobody() -> None:
    found = tried("/nowhere/python", 2, 5.0)
    starts = [one for one in found[0] if one.round == "start"]
    assert [(one.outcome, one.stage) for one in starts] == [("failed", "start")] * 2
    assert "/nowhere/python" in (starts[0].error or "")
    assert united(FleetFacts(), {0: "n0", 1: "n0"}, found[0]).bad_hosts == ()


def test_a_rank_that_has_passed_is_left_to_go_by_itself() -> None:
    """Ended while it waits in the last barrier it would reset the connections that slower ranks are still at."""
    watched = Watched(7, OwnGroup((0, 1), 0, 1, 2))
    watched.hear({"attempt": 7, "rank": 0, "enter": "ddp"})
    watched.hear({"attempt": 7, "rank": 0, "passed": {"seconds": 0.5, "work_seconds": 0.1, "busbw_gbps": 2.0}})
    assert not watched.over
    assert watched.result()["outcome"] == "passed"  # also where the time is over first
    watched.hear({"attempt": 6, "rank": 0, "ended": 0})  # of the attempt before
    assert not watched.over
    watched.hear({"attempt": 7, "rank": 0, "ended": 0})
    assert watched.over and watched.result() == {"outcome": "passed", "seconds": 0.5, "work": 0.1, "busbw": 2.0}


def test_a_rank_that_ends_before_it_has_passed_has_failed() -> None:
    watched = Watched(0, OwnGroup((0, 1), 0, 1, 2))
    watched.hear({"attempt": 0, "rank": 0, "enter": "ddp"})
    watched.hear({"attempt": 0, "rank": 0, "ended": -9})
    assert watched.over
    assert watched.result() == {"outcome": "failed", "stage": "ddp", "error": "died with signal 9", "wrong": False}
