"""Trying the process group of a job for real: ranks of this machine, each with its own child, over a store of this process."""

from __future__ import annotations

import sys
import tarfile
import threading
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from patients import HERE, all_gone, leaves_a_daemon

import envcheck.fleet.world as world_module
from envcheck.agent import world_rank
from envcheck.facts.fleet import LEFT_OUT, FleetFacts, FleetSeat, FleetTrial
from envcheck.fleet import world
from envcheck.fleet.isolation import united
from envcheck.fleet.options import FleetOptions
from envcheck.fleet.seat import Seat
from envcheck.fleet.store import MemoryStore
from envcheck.fleet.world import SIZES, STEPS, Arrivals, Child, Lead, OwnGroup, Part, Watched, try_world
from envcheck.target.process import Target

PASSED = {"seconds": 0.5, "work_seconds": 0.1, "busbw_gbps": 2.0}


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
    assert {one.outcome for one in found[0]} == {"passed"}  # how quick each pair was is the machine's


@pytest.mark.torch
def test_a_torch_without_torch_distributed_is_said_before_any_group_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HERE / "faults" / "torch_without_group"))
    found = tried(sys.executable, 2, 90.0)
    assert {(one.round, one.outcome, one.stage) for one in found[0]} == {("start", "failed", LEFT_OUT)}
    assert {rank for one in found[0] for rank in one.ranks} == {0, 1}


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


@pytest.mark.skipif(sys.platform != "linux", reason="adopting orphans is Linux's")
def test_a_daemon_that_the_import_starts_ends_with_the_world(tmp_path: Path) -> None:
    mark = f"daemon-{uuid.uuid4().hex}"
    python = leaves_a_daemon(tmp_path / "python", mark)
    tried(str(python), 1, 5.0)
    assert Path(f"{python}.ran").exists() and all_gone(mark, 2.0)


def test_the_silent_of_a_whole_job_get_a_share_of_the_deadline_when_all_others_wait_for_them() -> None:
    arrivals = Arrivals(30.0)
    assert not arrivals.in_vain(1.0, 4, {0: "start", 1: "init"})
    assert not arrivals.in_vain(6.0, 4, {0: "init", 1: "init", 2: "work"})
    assert not arrivals.in_vain(29.0, 4, {0: "init", 1: "init", 2: "work"})  # one that works by itself is no reason to give up
    assert not arrivals.in_vain(7.0, 4, {0: "init", 1: "init", 2: "init"})
    assert not arrivals.in_vain(16.9, 4, {0: "init", 1: "init", 2: "init"})
    assert arrivals.in_vain(17.1, 4, {0: "init", 1: "init", 2: "init"})
    assert not arrivals.in_vain(18.0, 4, {0: "init", 1: "init", 2: "init", 3: "start"})  # late, and there
    assert not arrivals.in_vain(29.0, 4, {0: "init", 1: "init", 2: "init", 3: "init"})  # nobody is silent: all of the time is theirs
    slow = Arrivals(30.0)
    assert not slow.in_vain(12.0, 3, {0: "init", 1: "init"})
    assert not slow.in_vain(23.9, 3, {0: "init", 1: "init"})  # a busy machine: as long again as the last arrival took
    assert slow.in_vain(24.1, 3, {0: "init", 1: "init"})


def test_a_rank_that_ends_before_it_has_passed_has_failed() -> None:
    watched = Watched(0, OwnGroup((0, 1), 0, 1, 2))
    watched.hear({"attempt": 0, "rank": 0, "enter": "ddp"})
    watched.hear({"attempt": 0, "rank": 0, "ended": -9})
    assert watched.over
    assert watched.result() == {"outcome": "failed", "stage": "ddp", "error": "died with signal 9", "wrong": False}


SEATS = {rank: FleetSeat(host=f"n{rank}", rank=rank, world_size=6, local_rank=0) for rank in range(6)}


class PromptChild(Child):
    """Passes at once, unless a silent rank is in its group: then it waits in init."""

    def __init__(self, rank: int, store: MemoryStore, silent: set[int]) -> None:
        super().__init__(Target(sys.executable, "test"))
        self.rank, self.store, self.silent = rank, store, silent
        self.rows: list[dict[str, Any]] = []

    def open(self) -> None:
        self.rows = [{"section": "ready", "value": {"gpus": 0, "backends": ["gloo"]}}]

    @property
    def runs(self) -> bool:
        return True

    def tell(self, message: Mapping[str, Any]) -> None:
        if "attempt" not in message:
            return
        number = message["attempt"]
        plan = self.store.get([f"world/plan/{number}"])[f"world/plan/{number}"]
        group = next(set(one) for one in plan["groups"] if self.rank in one)
        ways: list[dict[str, Any]] = [{"enter": "init"}] if group & self.silent else [{"enter": "leave"}, {"passed": PASSED}, {"ended": 0}]
        self.rows = [{"attempt": number, "rank": message["ranks"][0], **one} for one in ways]

    def events(self) -> list[dict[str, Any]]:
        told, self.rows = self.rows, []
        return told

    def close(self) -> None:
        self.rows = []


class LeavingChild(PromptChild):
    """Notes what it is told."""

    def __init__(self, rank: int, store: MemoryStore, silent: set[int]) -> None:
        super().__init__(rank, store, silent)
        self.said: list[Mapping[str, Any]] = []

    def tell(self, message: Mapping[str, Any]) -> None:
        self.said.append(message)
        super().tell(message)


@pytest.mark.parametrize("passes", [True, False])
def test_a_rank_that_has_passed_is_left_to_go_by_itself(passes: bool) -> None:
    """Ended while it waits in the last barrier it would reset the connections that slower ranks are still at; and nobody waits for it."""
    watched = Watched(7, OwnGroup((0, 1), 0, 1, 2))
    watched.hear({"attempt": 7, "rank": 0, "enter": "ddp"})
    watched.hear({"attempt": 6, "rank": 0, "passed": PASSED})  # of the attempt before
    assert not watched.over
    watched.hear({"attempt": 7, "rank": 0, "passed": PASSED})
    watched.hear({"attempt": 7, "rank": 0, "ended": 0})
    assert watched.over and watched.result() == {"outcome": "passed", "seconds": 0.5, "work": 0.1, "busbw": 2.0}

    store = MemoryStore()
    child = LeavingChild(0, store, set() if passes else {1})
    options = FleetOptions(deadline_seconds=0.3)
    part = Part(Seat("n0", 1, 0, 6, 0, 1, "none"), SEATS, store, child, options, time.monotonic() + 60)
    plan = {"round": "pairs", "backend": "gloo", "groups": [[0, 1]], "seconds": 0.3, "environment": {}}
    store.set("world/plan/0", plan)
    part.attempt(0, plan)
    assert ({"end": True} in child.said) is not passes
    assert part.trials[0].outcome == ("passed" if passes else "timeout")


def test_a_frozen_rank_costs_one_deadline_and_is_named_alone() -> None:
    """Through the whole protocol, with children that need no torch; rank 3 says that it has torch, and nothing more."""
    store, silent, seconds = MemoryStore(), {3}, 3.0
    found: dict[int, tuple[FleetTrial, ...]] = {}

    def rank_of(rank: int) -> None:
        options = FleetOptions(deadline_seconds=seconds, backends=("gloo",))
        child = PromptChild(rank, store, silent)
        seat = Seat(f"n{rank}", 1, rank, 6, 0, 1, "none")
        found[rank] = try_world(seat, SEATS.values(), store, child.target, options, time.monotonic() + 20 * seconds, child)

    store.set("world/ready/3", {"gpus": 0, "backends": ["gloo"], "seconds": 0.1})
    threads = [threading.Thread(target=rank_of, args=(rank,)) for rank in SEATS if rank not in silent]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    facts = united(FleetFacts(), {rank: seat.host for rank, seat in SEATS.items()}, found[0])
    assert (facts.verdict, facts.bad_ranks, facts.suspect_hosts) == ("hosts", (3,), ())
    by_itself = [one for one in found[0] if one.ranks == (3,) and one.round == "pairs"]
    assert [(one.outcome, one.alone) for one in by_itself] == [("timeout", (3,))]
    assert [one.ranks for one in found[0] if one.round == "rest"] == [(0, 1, 2, 4, 5)]


def lead_of(groups: list[list[int]], store: MemoryStore, trials: list[FleetTrial]) -> Lead:
    """Rank 0 behind its plan number 1, with ten minutes until its end."""
    lead = Lead(SEATS, store, FleetOptions(deadline_seconds=600.0, backends=("gloo",)), time.monotonic() + 3600)
    lead.plan = {"round": "pairs", "backend": "gloo", "groups": groups, "seconds": 600.0, "environment": {}}
    lead.until, lead.trials = time.monotonic() + 600.0, trials
    return lead


def test_nobody_waits_for_the_silent_when_all_others_are_through() -> None:
    store = MemoryStore()
    for rank in (0, 1, 2):
        store.set(f"world/result/1/{rank}", {"outcome": "passed", "seconds": 0.5, "work": 0.1, "busbw": 2.0})
    world = FleetTrial("world", "gloo", tuple(SEATS), outcome="timeout", alone=(3, 4, 5))
    began = time.monotonic()
    trials = lead_of([[0, 1], [2], [3], [4], [5]], store, [world]).collect(1)
    assert time.monotonic() - began < 150  # a third of the deadline is 200
    assert [(one.outcome, one.alone) for one in trials] == [("passed", ())] * 2 + [("timeout", (rank,)) for rank in (3, 4, 5)]


def test_who_says_nothing_at_all_does_not_cost_the_whole_deadline() -> None:
    """Three of six wait in init, since the first second; 500 of the 600 have passed."""
    store = MemoryStore()
    for rank in (0, 1, 2):
        store.set(f"world/stage/1/{rank}", "init")
    lead = lead_of([list(SEATS)], store, [])
    lead.arrivals = Arrivals(600.0)
    assert not lead.arrivals.in_vain(1.0, 6, {0: "init", 1: "init", 2: "init"})
    lead.published = time.monotonic() - 500.0
    assert lead.gives_up(1)  # rank 0's own part in it is over too
    (trial,) = lead.collect(1)
    assert (trial.outcome, trial.alone) == ("timeout", (3, 4, 5)) and time.monotonic() < lead.until
    lead.plan["groups"] = [[0, 1], [2, 3]]
    lead.given_up = False
    assert not lead.gives_up(1)  # pairs have rules of their own


def test_a_group_of_which_one_has_failed_is_not_waited_for_to_the_end() -> None:
    store = MemoryStore()
    store.set("world/result/1/1", {"outcome": "failed", "stage": "init", "error": "no such interface", "wrong": False})
    for rank in (0, 2):
        store.set(f"world/stage/1/{rank}", "init")
    lead = lead_of([[0, 1, 2]], store, [])
    lead.plan["seconds"] = 1.0  # of which the others get a third; lead.until, ten minutes, would be far too long
    began = time.monotonic()
    (trial,) = lead.collect(1)
    assert time.monotonic() - began < 300
    assert (trial.outcome, trial.error, trial.behind, trial.alone) == ("failed", "no such interface", (0, 1, 2), ())


def test_on_machines_too_busy_for_the_deadline_who_came_to_no_end_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that passed took as long as there was: a partner's end, or its own, says nothing then. What failed by itself does, and so does
    who has been silent since the world began."""
    monkeypatch.setattr(world_module, "TIMES", 1e9)  # no wait is as long as that beside what the others took
    store = MemoryStore()
    ends: list[dict[str, Any]] = [{"outcome": "passed", "seconds": 0.5, "work": 0.1, "busbw": 2.0}] * 2
    ends += [
        {"outcome": "timeout", "stage": "start", "error": None},
        {"outcome": "failed", "stage": "init", "error": "Connection reset by peer"},
    ]
    ends += [{"outcome": "failed", "stage": "device", "error": "no GPU"}]
    for rank, one in enumerate(ends):
        store.set(f"world/result/1/{rank}", one)
    world = FleetTrial("world", "gloo", tuple(SEATS), outcome="timeout", alone=(2, 5))
    trials = [world, *lead_of([[0, 1], [2, 3], [4], [5]], store, [world]).collect(1)]
    assert [(one.outcome, one.alone) for one in trials[1:]] == [("passed", ()), ("skipped", (2,)), ("failed", (4,)), ("timeout", (5,))]
    facts = united(FleetFacts(), {rank: seat.host for rank, seat in SEATS.items()}, trials)
    assert facts.bad_ranks == (5,)


def test_a_process_that_slept_goes_on_with_what_the_others_are_at() -> None:
    store = MemoryStore()
    part = Part(
        Seat("n3", 1, 3, 6, 0, 1, "none"),
        SEATS,
        store,
        PromptChild(3, store, set()),
        FleetOptions(deadline_seconds=5.0),
        time.monotonic() + 5,
    )
    for number in range(3):
        store.set(f"world/plan/{number}", {"groups": [[number]]})
    assert (part.newest(0), part.newest(2)) == (2, 2)


@pytest.mark.parametrize(("own", "others", "taken"), [(False, False, STEPS), (True, False, 2), (False, True, 1)])
def test_ranks_stop_behind_the_same_step(monkeypatch: pytest.MonkeyPatch, own: bool, others: bool, taken: int) -> None:
    """One whose time is over says so within the sum, and the time of all steps is reckoned from those that were taken."""
    clock = [0.0]
    sums: list[float] = []

    def work(*_: object) -> float:
        clock[0] += 0.75 if own else 0.01
        return 0.01

    def all_reduce(tensor: list[float]) -> None:
        if sums and others:  # behind the sum that brings all together
            tensor[-1] += 1.0
        sums.append(tensor[-1])

    monkeypatch.setattr(world_rank, "work", work)
    monkeypatch.setattr(world_rank, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    torch = SimpleNamespace(zeros=lambda *_, **__: [0.0] * 4, float32=None)
    found = world_rank.steps(torch, SimpleNamespace(all_reduce=all_reduce), None, (), {"world_size": 2, "steps": STEPS})
    assert len(sums) == taken + 1
    assert found["seconds"] == pytest.approx(STEPS * (0.75 if own else 0.01))
    assert found["work_seconds"] == pytest.approx(STEPS * 0.01)


@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_what_is_sent_over_the_whole_job_is_less_than_in_a_pair(backend: str) -> None:
    """Each size in both; each type of a size in pairs, and over the job few sums: their messages are as many as the square of its ranks."""
    task = {"backend": backend, "sizes": list(SIZES)}
    pair = [world_rank.types_of(task, place) for place in range(len(SIZES))]
    world = [world_rank.types_of({**task, "ddp": True}, place) for place in range(len(SIZES))]
    assert all(world) and all(set(one) <= set(other) for one, other in zip(world, pair, strict=True))
    assert {name for one in pair for name in one} == set(world_rank.EXACT if backend == "nccl" else world_rank.GLOO_TYPES)
    assert sum(map(len, world)) <= len(SIZES) + 2 < sum(map(len, pair))


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
