"""Trying the process group of a job for real: ranks of this machine, each with its own child, over a store of this process."""

from __future__ import annotations

import sys
import tarfile
import threading
import time
from pathlib import Path

import pytest

from envcheck.agent import world_rank
from envcheck.facts.fleet import FleetFacts, FleetSeat, FleetTrial
from envcheck.fleet import world
from envcheck.fleet.isolation import united
from envcheck.fleet.options import FleetOptions
from envcheck.fleet.seat import Seat
from envcheck.fleet.store import MemoryStore
from envcheck.fleet.world import Child, Lead, OwnGroup, Watched, try_world
from envcheck.target.process import Target


def tried(python: str, count: int, seconds: float, evidence: str | None = None) -> dict[int, tuple[FleetTrial, ...]]:
    store = MemoryStore()
    peers = [FleetSeat(host="n0", rank=rank, world_size=count, local_rank=rank) for rank in range(count)]
    found: dict[int, tuple[FleetTrial, ...]] = {}

    def rank_of(rank: int) -> None:
        seat = Seat("n0", 1, rank, count, rank, count, "none")
        options = FleetOptions(deadline_seconds=seconds, backends=("gloo",), evidence=evidence)
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


@pytest.mark.torch
def test_nothing_is_left_where_the_process_that_started_it_was_killed() -> None:
    """Its end of the pipe closes, and nobody else is there to take the folder away."""
    child = Child(Target(sys.executable, "test"))
    child.open()
    process, folder = child.process, Path(child.folder)
    assert process is not None and process.stdin is not None and folder.is_dir()
    process.stdin.close()
    try:
        process.wait(120)
        assert not folder.exists()
    finally:
        child.close()


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


@pytest.mark.parametrize(
    "event",
    [
        {"passed": 5},
        {"passed": {"seconds": "soon"}},
        {"passed": {"seconds": float("nan"), "work_seconds": 0.1, "busbw_gbps": 1.0}},
        {"size": "large"},
        {"listens": "here"},
        {"listens": ["n1", "x"]},
        {"ended": "badly"},
        {"enter": ["a"]},
        {"fail": 7},
        {},
    ],
)
def test_lines_of_other_types_are_no_news_and_no_crash(event: dict[str, object]) -> None:
    """Whatever torch loads in the target can write into the file of the lines."""
    watched = Watched(0, OwnGroup((0,), 0, 1, 1))
    watched.hear({"attempt": 0, "rank": 0, **event})
    assert (watched.passed, watched.size, watched.listens) == ({}, None, None)
    assert watched.result()["outcome"] in ("timeout", "failed")


def test_the_stages_are_those_that_the_agent_says() -> None:
    assert (world.ALONE, world.STAGES) == (world_rank.ALONE, world_rank.STAGES)


def test_a_rank_whose_process_ended_is_not_waited_for() -> None:
    """The others of its group may wait for it until their time is over; rank 0 knows that it comes no more."""
    store = MemoryStore()
    seats = {rank: FleetSeat(f"n{rank}", rank=rank, world_size=3) for rank in range(3)}
    lead = Lead(seats, store, FleetOptions(deadline_seconds=3600.0, backends=("gloo",)), time.monotonic() + 7200)
    for rank in range(3):
        store.set(f"world/ready/{rank}", {"gpus": 0, "backends": ["gloo"]})
    lead.publish(0)
    for rank in (0, 1):
        store.set(f"world/result/0/{rank}", {"outcome": "failed", "stage": "all_reduce", "error": "Connection closed by peer [n2]"})
    store.set("world/stage/0/2", "init")
    store.set("gone/2", 4.0)
    lead.publish(1)
    [tried] = [one for one in lead.trials if one.round == "world"]
    assert (tried.outcome, tried.error, tried.stage, tried.behind) == ("failed", "the process of rank 2 ended", "init", (2,))


def test_what_failed_ranks_left_is_kept_where_the_user_wants_it(tmp_path: Path) -> None:
    (tmp_path / "python").write_text("#!/bin/sh\necho no torch here >&2\nexit 3\n")
    (tmp_path / "python").chmod(0o755)
    tried(str(tmp_path / "python"), 2, 20.0, str(tmp_path / "kept"))
    archives = sorted((tmp_path / "kept").iterdir(), key=lambda path: path.name.partition("-rank")[2])
    assert [f"-n0-rank{rank}-" in path.name for rank, path in enumerate(archives)] == [True, True]
    with tarfile.open(archives[0]) as archive:
        said = archive.extractfile("envcheck-evidence/agent.err")
        assert said is not None and b"no torch here" in said.read()
