"""One process's part in trying the process group of the whole job, and, at rank 0, the lead.

Torch runs in the target: a child imports it once and forks a rank for each attempt (agent/world_parent.py). What is tried stands in the
store as `world/plan/N`; every process looks for its group there, tries it, and writes `world/stage/N/RANK` before each stage and
`world/result/N/RANK` at the end. Rank 0 waits for the results and asks isolation.py for the next plan.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import isfinite
from statistics import median
from typing import Any

from envcheck.collect import private_folder
from envcheck.errors import UsageError
from envcheck.facts.fleet import LEFT_OUT, FleetSeat, FleetTrial
from envcheck.facts.record import record, replace
from envcheck.fleet import isolation
from envcheck.fleet.kept import keep_evidence
from envcheck.fleet.options import BACKENDS, FleetOptions
from envcheck.fleet.seat import Seat
from envcheck.fleet.store import Store, StoreError
from envcheck.fleet.store_server import GONE
from envcheck.host.access import end_group
from envcheck.host.orphans import Offspring
from envcheck.host.plain_files import tail, written
from envcheck.target.process import LINES, Target, bound_output, start_agent

SIZES = (4, 1 << 10, 64 << 10, 1 << 20)  # bytes; the third is the first that an MTU black hole swallows
STEPS = 10
ALONE = ("start", "device", "work", "listen")  # stages that need nobody else, as in agent/world_rank.py
STAGES = (*ALONE, "address", "store", "init", "all_reduce", "steps", "ddp", "leave")
TIMED = ("seconds", "work_seconds", "busbw_gbps")  # what a rank says that has passed
WITH_DDP = ("world", "rest", "control")
SOCKETS_ONLY = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_IB_DISABLE": "1", "NCCL_NET": "Socket", "NCCL_NET_PLUGIN": "none"}
MOST = 2 / 3  # of the ranks: when so many have passed, the others have SHARE of the deadline in all, or TIMES what those took
SHARE, TIMES = 1 / 3, 4
GRACE_SECONDS = 2.0  # for results on their way after the deadline,
QUIET_SECONDS = 0.5  # as long as some come
SILENT_SECONDS = 1.0  # that who said nothing in the world is waited for when all others have come to an end, at least
POLL_SECONDS = 0.02  # after something has happened; longer and longer while nothing does,
LONGEST_POLL_SECONDS = 0.25  # since as many as a host has ranks share its processors with what they watch
LOOK_SECONDS = 1.0  # how often rank 0 looks who has said nothing yet
BATCH = 512  # keys a question to the store
# What a rank says when another one is gone: not the cause.
PEER_GONE = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "remote process exited", "told no address")


def try_world(
    seat: Seat,
    peers: Iterable[FleetSeat],
    store: Store,
    target: Target,
    options: FleetOptions,
    deadline: float,
    child: Child | None = None,
    without: Collection[str] = (),
) -> tuple[FleetTrial, ...]:
    """What was tried: at rank 0 all trials of all groups, elsewhere those in which this process took part. Never later than `deadline`,
    of `time.monotonic()`, by more than the seconds that ending the child takes. `without`, to rank 0: backends that cannot work, as is
    known already; each of their trials would last until its time is over."""
    seats = {one.rank: one for one in peers if one.rank is not None and _takes_part(one, options)}
    offspring = Offspring()
    child = child or Child(target, {**os.environ, **offspring.mark})
    part = Part(seat, seats, store, child, options, deadline)
    lead = Lead(seats, store, options, deadline, without) if seat.rank == 0 else None
    if lead:
        part.gives_up = lead.gives_up
    try:
        offspring.adopt()
        if seat.rank in seats:
            part.start()
        number = 0
        while True:
            if lead:
                lead.publish(number)
            plan = part.plan(number)
            if plan and not lead and (newest := part.newest(number)) > number:
                number, plan = newest, part.plan(newest)
            if plan is None or plan.get("end"):
                break
            part.attempt(number, plan)
            number += 1
    except StoreError as error:
        trial = FleetTrial("world", "", (seat.rank,), (seat.host,), "skipped", stage="store", error=str(error))
        return (*(lead.trials if lead else part.trials), trial)
    finally:
        if options.evidence:
            keep_evidence(part.child.folder, options.evidence, seat, part.trials, target.executable)
        part.child.close()
        offspring.end()
    return tuple(lead.trials if lead else part.trials)


def _takes_part(one: FleetSeat, options: FleetOptions) -> bool:
    """With `--nproc` the first process of each host starts all ranks of it."""
    return options.nproc is None or not one.local_rank


class Child:
    """The agent that imports torch in the target and forks this process's ranks."""

    def __init__(self, target: Target, env: Mapping[str, str] | None = None) -> None:
        self.target = target
        self.env = dict(os.environ if env is None else env)
        self.folder = ""
        self.process: subprocess.Popen[bytes] | None = None
        self.at = 0  # of its file

    def open(self) -> None:
        self.close()
        self.folder = private_folder()
        self.at = 0
        options = {"folder": self.folder, "world": True, "start_method": "fork"}
        self.process = start_agent(self.target, options, self.env, subprocess.PIPE)

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def tell(self, message: Mapping[str, Any]) -> None:
        if self.process is None or self.process.stdin is None:
            return
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            return  # it is gone, which `runs` says

    def events(self) -> list[dict[str, Any]]:
        """What it has written since the last question; what it prints is kept from filling the disk."""
        bound_output(self.folder)
        data = written(os.path.join(self.folder, LINES), self.at, 1 << 20) or b""
        whole = data[: data.rfind(b"\n") + 1]
        self.at += len(whole)
        rows = [_row(line) for line in whole.splitlines()]
        return [row for row in rows if row is not None]

    def words(self) -> str:
        """The end of what it printed."""
        return tail(os.path.join(self.folder, "agent.err"), 600).strip()

    def close(self) -> None:
        if self.process is not None:
            end_group(self.process)
            if self.process.stdin:
                try:
                    self.process.stdin.close()
                except OSError:
                    pass
            self.process = None
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = ""


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


@record
class OwnGroup:
    """Where this process's ranks stand in the group that a plan gives it."""

    ranks: tuple[int, ...]  # of the job
    first: int  # number of its own first rank in the group
    own: int  # how many are its own
    size: int


class Part:
    """What this process does."""

    def __init__(
        self, seat: Seat, seats: Mapping[int, FleetSeat], store: Store, child: Child, options: FleetOptions, deadline: float
    ) -> None:
        self.seat, self.seats, self.store, self.child, self.options, self.deadline = seat, seats, store, child, options, deadline
        self.trials: list[FleetTrial] = []
        self.own = options.nproc or 1
        self.gives_up: Callable[[int], bool] = _never  # rank 0's lead

    @property
    def address(self) -> str:
        """Where the first rank of a group listens: the address of this host from which it reaches another one of the job."""
        mine = self.seats.get(self.seat.rank, FleetSeat())
        others = [one for one in self.seats.values() if one.host != self.seat.host]
        if not others:
            return "127.0.0.1"
        remote = [*(mine.master_addresses if self.seat.rank else ()), *(address for one in others[:1] for address in one.addresses)]
        ways = filter(None, map(source_towards, remote))
        return next((way for way in ways if way in mine.addresses), next(iter(mine.addresses), "127.0.0.1"))

    def start(self) -> None:
        """Import torch, and say that it is there."""
        began = time.monotonic()
        pause = POLL_SECONDS
        limit = min(self.deadline, began + self.options.deadline_seconds)
        found: dict[str, Any] = {"error": self.not_imported(), "stage": "import"}
        try:
            self.child.open()
            while time.monotonic() < limit:
                runs = self.child.runs
                answer = next(filter(None, map(_started, self.child.events())), None)
                if answer is not None or not runs:
                    found = answer or {
                        "error": f"the process that imports torch ended: {self.child.words() or 'no words'}",
                        "stage": "import",
                    }
                    break
                pause = min(1.5 * pause, LONGEST_POLL_SECONDS)
                time.sleep(pause)
        except UsageError as error:
            found = {"error": str(error), "stage": "start"}
        if "error" in found:
            self.trials.append(
                FleetTrial("start", "", (self.seat.rank,), (self.seat.host,), "failed", stage=found["stage"], error=found["error"])
            )
        self.store.set(f"world/ready/{self.seat.rank}", {**found, "seconds": time.monotonic() - began})

    def not_imported(self) -> str:
        """Many processes that read the same files at a time are slow, and no fault of torch."""
        here = self.seat.local_world_size if self.options.nproc is None else 1
        crowd = f" ({here} processes of this host import it at a time: --nproc starts one of them a host)" if here > 1 else ""
        return f"torch was not imported within {self.options.deadline_seconds:.0f} s{crowd}; --deadline gives it longer"

    def plan(self, number: int) -> dict[str, Any] | None:
        key = f"world/plan/{number}"
        found = self.store.wait([key], self.deadline).get(key)
        return found if isinstance(found, dict) else None

    def newest(self, number: int) -> int:
        """The number of the last plan from this one on: a process that was stopped for a while goes on with what the others are at."""
        while self.store.get([f"world/plan/{number + 1}"]):
            number += 1
        return number

    def attempt(self, number: int, plan: Mapping[str, Any]) -> None:
        """Try what the plan says, and write what came of it."""
        ranks = next((tuple(group) for group in plan["groups"] if self.seat.rank in group), ())
        if not ranks:
            return
        group = OwnGroup(ranks, ranks.index(self.seat.rank) * self.own, self.own, len(ranks) * self.own)
        watched = Watched(number, group)
        if not self.child.runs:  # the one before died in an attempt
            try:
                self.child.open()
            except (UsageError, OSError) as error:
                watched.fail("start", str(error))
        self.child.tell(self.task(number, plan, group))
        limit = min(self.deadline, time.monotonic() + plan["seconds"])
        self.watch(watched, limit, plan["seconds"])
        if not watched.all_passed:
            # Who has passed goes by itself: ended sooner it would break what slower ones are at. The next attempt ends whoever is left,
            # and that is not told before all have an end; to wait here until processes are gone would only delay it.
            self.child.tell({"end": True})
        result = watched.result()
        self.store.set(f"world/result/{number}/{self.seat.rank}", result)
        self.trials.append(own_trial(number, plan, group, self.seat, result))

    def task(self, number: int, plan: Mapping[str, Any], group: OwnGroup) -> dict[str, Any]:
        numbers = [group.first + one for one in range(group.own)]
        first = self.seat.local_rank * self.own
        task = {
            "attempt": number,
            "backend": plan["backend"],
            "world_size": group.size,
            "ranks": numbers,
            "places": {str(one): first + place for place, one in enumerate(numbers)},
            "environment": dict(plan["environment"]),
            "sizes": list(SIZES),
            "steps": STEPS,
            "ddp": plan["round"] in WITH_DDP,
            "listen": self.address,
        }
        alone = {self.seats[rank].host for rank in self.seats} == {self.seat.host}
        if alone and "GLOO_SOCKET_IFNAME" not in self.child.env:
            task["environment"]["GLOO_SOCKET_IFNAME"] = "lo"  # the host's own name need not lead anywhere
        if plan["round"] == "control":
            task["interface_of"] = self.address
        return task

    def watch(self, watched: Watched, limit: float, seconds: float) -> None:
        """Until all own ranks have passed or one has failed, the deadline, or the next plan: then the others have given up."""
        asked = time.monotonic() + seconds * SHARE
        address, told = f"world/address/{watched.number}/{watched.group.ranks[0]}", watched.group.first == 0
        pause = POLL_SECONDS
        while not watched.over and time.monotonic() < limit and not self.gives_up(watched.number):
            events = self.child.events()
            for event in events:
                watched.hear(event)
            self.mark(watched)
            if watched.listens is not None:
                self.store.set(address, watched.listens)
                self.child.tell({"address": watched.listens})  # to its other ranks
                watched.listens = None
            if not self.child.runs:
                watched.lost(self.child.words())
            elif not told and watched.stage == "address":
                found = self.store.wait([address], min(limit, time.monotonic() + 1.0)).get(address)
                told = found is not None
                self.child.tell({"address": found} if told else {})
            elif not watched.over:
                pause = POLL_SECONDS if events else min(1.5 * pause, LONGEST_POLL_SECONDS)
                time.sleep(pause)
            if time.monotonic() > asked:
                asked = time.monotonic() + 1.0
                if self.store.get([f"world/plan/{watched.number + 1}"]):
                    return

    def mark(self, watched: Watched) -> None:
        """The stage of the one of its ranks that is farthest behind."""
        if watched.stage != watched.marked:
            watched.marked = watched.stage
            self.store.set(f"world/stage/{watched.number}/{self.seat.rank}", watched.stage)


def source_towards(remote: str) -> str | None:
    """The address from which this host would send there. Nothing is sent."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in remote else socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.connect((remote, 9))
            return str(one.getsockname()[0])
    except OSError:
        return None


class Watched:
    """What this process's ranks have said in one attempt."""

    def __init__(self, number: int, group: OwnGroup) -> None:
        self.number, self.group = number, group
        self.stages: dict[int, str] = {}
        self.size: int | None = None
        self.failed: dict[str, Any] | None = None
        self.passed: dict[int, dict[str, float]] = {}
        self.listens: list[Any] | None = None
        self.marked = ""

    @property
    def all_passed(self) -> bool:
        return len(self.passed) == self.group.own

    @property
    def over(self) -> bool:
        return self.failed is not None or self.all_passed

    @property
    def stage(self) -> str:
        if len(self.stages) < self.group.own:
            return "start" if self.stages else ""
        return min(self.stages.values(), key=_order)

    def hear(self, event: Mapping[str, Any]) -> None:
        rank = event.get("rank")
        if event.get("attempt") != self.number or not isinstance(rank, int):
            return
        if "enter" in event:
            self.stages[rank] = str(event["enter"])
        elif isinstance(event.get("size"), int):
            self.size = event["size"]
        elif _is_place(event.get("listens")):
            self.listens = event["listens"]
        elif _is_timed(event.get("passed")):
            self.passed[rank] = event["passed"]
        elif "fail" in event:
            self.fail(str(event["fail"]), str(event.get("text")), event.get("status") == "wrong")
        elif "ended" in event and rank not in self.passed:
            self.fail(self.stages.get(rank, "start"), _ending(event["ended"]))

    def fail(self, stage: str, error: str, wrong: bool = False) -> None:
        if self.failed is None:
            self.failed = {"outcome": "failed", "stage": stage, "error": error, "wrong": wrong}

    def lost(self, words: str) -> None:
        self.fail(self.stage or "start", f"the process that holds torch ended: {words or 'no words'}")

    def result(self) -> dict[str, Any]:
        if self.failed is not None:
            return self.failed
        if self.all_passed:
            return {
                "outcome": "passed",
                "seconds": max(one["seconds"] for one in self.passed.values()),
                "work": max(one["work_seconds"] for one in self.passed.values()),
                "busbw": min(one["busbw_gbps"] for one in self.passed.values()),
            }
        error = f"all_reduce of {self.size} bytes did not end" if self.stage == "all_reduce" and self.size else None
        return {"outcome": "timeout", "stage": self.stage, "error": error}


def _is_place(value: object) -> bool:
    """Address and port; the file of the lines stands where torch and all that it loads can write."""
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], int)


def _is_timed(value: object) -> bool:
    numbers = [value.get(name) for name in TIMED] if isinstance(value, dict) else [None]
    return all(isinstance(one, int | float) and isfinite(one) for one in numbers)


def _started(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the child says of its import, once it is over."""
    value = row.get("value")
    if row.get("section") == "ready" and isinstance(value, dict):
        if value.get("distributed") is False:
            return {"error": "this build of torch does not have it", "stage": LEFT_OUT}
        gpus, backends = value.get("gpus"), value.get("backends")
        named = [one for one in backends if isinstance(one, str)] if isinstance(backends, list) else []
        return {"gpus": gpus if isinstance(gpus, int) else 0, "backends": named}
    if row.get("section") == "import" and isinstance(value, dict) and value.get("status") != "ok":
        return {"error": f"import torch: {value.get('type', value.get('status'))}: {value.get('text', '')}"[:500], "stage": "import"}
    return None


def _ending(status: object) -> str:
    if not isinstance(status, int):
        return "was ended and is stuck in the kernel"
    return f"died with signal {-status}" if status < 0 else f"ended with exit code {status}"


def _never(*_: object) -> bool:
    return False


def _order(stage: str) -> int:
    return STAGES.index(stage) if stage in STAGES else -1


class Lead:
    """What rank 0 does besides: it writes the plans and reads the results."""

    def __init__(
        self, seats: Mapping[int, FleetSeat], store: Store, options: FleetOptions, deadline: float, without: Collection[str] = ()
    ) -> None:
        self.seats, self.store, self.options, self.deadline, self.without = seats, store, options, deadline, without
        self.trials: list[FleetTrial] = []
        self.backends: list[str] = []
        self.plan: dict[str, Any] = {}
        self.until = self.published = self.looks_at = 0.0
        self.arrivals, self.given_up = Arrivals(0.0), False
        self.ample = True  # the wait was long beside what those took that passed

    def publish(self, number: int) -> None:
        """Collect what came of the plan before, and write this one."""
        if number:
            self.trials += self.collect(number - 1)
        else:
            self.begin()
        self.plan = self.next_plan() or {"end": True}
        seconds = self.plan.get("seconds", 0.0)
        self.published = time.monotonic()
        self.until = min(self.deadline, self.published + seconds + GRACE_SECONDS)
        self.arrivals, self.given_up, self.looks_at = Arrivals(seconds), False, self.published + LOOK_SECONDS
        self.store.set(f"world/plan/{number}", self.plan)

    def begin(self) -> None:
        """Wait for torch on all hosts, but not for ever on a few."""
        began = time.monotonic()
        ranks = tuple(self.seats)
        found = self.gather("world/ready", ranks, min(self.deadline, began + self.options.deadline_seconds), lambda one: "error" not in one)
        for rank in ranks:
            answer = found.get(rank)
            outcome = "timeout" if answer is None else "failed" if "error" in answer else "passed"
            error, stage = (answer or {}).get("error"), (answer or {}).get("stage")
            seconds = (answer or {}).get("seconds")
            self.trials.append(FleetTrial("start", "", (rank,), (self.seats[rank].host,), outcome, seconds, stage=stage, error=error))
        self.backends = self.wanted(found)

    def wanted(self, ready: Mapping[int, Mapping[str, Any]]) -> list[str]:
        """gloo, and NCCL where every rank finds a GPU of its own."""
        asked = [one for one in self.options.backends or BACKENDS if one not in self.without]
        own = self.options.nproc or 1
        able = [
            rank
            for rank, one in ready.items()
            if "nccl" in one.get("backends", ()) and one.get("gpus", 0) >= ((self.seats[rank].local_rank or 0) + 1) * own
        ]
        backends = [one for one in asked if one != "nccl" or (able and len(able) == len(ready))]
        if "nccl" in asked and "nccl" not in backends and (able or self.options.backends):
            lacking = tuple(rank for rank in ready if rank not in able)
            hosts = tuple(dict.fromkeys(self.seats[rank].host for rank in lacking))
            self.trials.append(FleetTrial("world", "nccl", lacking, hosts, "skipped", error="no GPU for each rank there"))
        return backends

    def next_plan(self) -> dict[str, Any] | None:
        while self.backends:
            backend = self.backends[0]
            hosts = self.left_over(backend)
            planned = isolation.next_round(hosts, isolation.of_backend(self.trials, backend))
            if planned is not None and time.monotonic() < self.deadline:
                return {
                    "round": planned.name,
                    "backend": backend,
                    "groups": [list(group) for group in planned.groups],
                    "seconds": max(0.0, min(self.options.deadline_seconds, self.deadline - time.monotonic())),
                    "environment": dict(SOCKETS_ONLY) if planned.name == "control" and backend == "nccl" else {},
                }
            self.backends.pop(0)
            if isolation.judge(hosts, isolation.of_backend(self.trials, backend)).verdict not in ("passed", "hosts"):
                return None  # where gloo does not work NCCL cannot: its ranks meet the same way
        return None

    def left_over(self, backend: str) -> dict[int, str]:
        """rank → host of those that no backend before this one has named bad."""
        hosts = {rank: seat.host for rank, seat in self.seats.items()}
        for before in dict.fromkeys(one.backend for one in self.trials if one.backend not in ("", backend)):
            bad = {cell.host for cell in isolation.judge(hosts, isolation.of_backend(self.trials, before)).bad}
            hosts = {rank: host for rank, host in hosts.items() if host not in bad}
        return hosts

    def collect(self, number: int) -> list[FleetTrial]:
        plan = self.plan
        ranks = [rank for group in plan["groups"] for rank in group]

        def vain(taken: float, at: Mapping[int, float], found: Mapping[int, Any]) -> bool:
            left = [rank for rank in ranks if rank not in found]
            if self.gives_up(number):
                return True
            failed = {rank: at[rank] for rank, one in found.items() if one.get("outcome") != "passed"}
            settled = all(found.keys() >= set(group) or failed.keys() & set(group) for group in plan["groups"])
            if settled and taken > max(SHARE * plan["seconds"], TIMES * min(failed.values(), default=0.0)):
                return True  # with one that failed the others of its group cannot pass either
            # Silent for a deadline, and again until all others had an end and once more as long as they usually took.
            late = bool(at) and taken > max(at.values()) + max(SILENT_SECONDS, median(at.values()))
            return late and mute.issuperset(left) and not self.ask(f"world/stage/{number}", left)

        mute = {rank for one in self.trials if (one.round, one.backend) == ("world", plan["backend"]) for rank in one.alone}
        results = self.gather(f"world/result/{number}", ranks, self.until, lambda one: one.get("outcome") == "passed", vain)
        lost = [rank for rank in ranks if rank not in results or results[rank].get("stage") == ""]
        marks = self.ask(f"world/stage/{number}", lost)
        trials = [trial_of(number, plan, tuple(group), self.seats, results, marks) for group in plan["groups"]]
        silent = mute - results.keys() - marks.keys()
        return trials if self.ample or len(trials) == 1 else [_in_haste(one, silent) for one in trials]

    def gives_up(self, number: int) -> bool:
        """Whether the trial of all ranks at once waits for those alone that say nothing; looked at once a second, also by rank 0's own
        part in it."""
        groups = self.plan.get("groups", ())
        if len(groups) == 1 and not self.given_up and time.monotonic() > self.looks_at:
            marks = self.ask(f"world/stage/{number}", groups[0])
            self.given_up = self.arrivals.in_vain(time.monotonic() - self.published, len(groups[0]), marks)
            self.looks_at = time.monotonic() + LOOK_SECONDS
        return self.given_up

    def gather(
        self, prefix: str, ranks: Sequence[int], until: float, passed: Callable[[Any], bool], vain: Callable[..., bool] = _never
    ) -> dict[int, Any]:
        """What the ranks write under `prefix`. When most of them have passed, the others do not get all the time there is: one of a
        pair that hangs must not make all wait for a deadline that is meant for a whole world. `vain` tells where nothing more will
        come."""
        began = time.monotonic()
        found: dict[int, Any] = {}
        at: dict[int, float] = {}
        while True:
            for rank, value in self.ask(prefix, [rank for rank in ranks if rank not in found], min(until, time.monotonic() + 0.25)).items():
                found[rank] = value
                at[rank] = time.monotonic() - began
            for rank in self.ask(GONE.rstrip("/"), [rank for rank in ranks if rank not in found]):  # it will never answer
                found[rank] = {"outcome": "failed", "stage": "", "error": f"the process of rank {rank} ended"}
                at[rank] = time.monotonic() - began
            taken, whole = time.monotonic() - began, until - began
            if len(found) == len(ranks) or taken >= whole:
                break
            if taken > whole - GRACE_SECONDS + QUIET_SECONDS and taken - max(at.values(), default=0.0) > QUIET_SECONDS:
                break
            well = [at[rank] for rank, value in found.items() if passed(value)]
            if len(well) > MOST * len(ranks) and taken > max(SHARE * whole, TIMES * median(well)):
                break
            if vain(taken, at, found):
                break
        well = [at[rank] for rank, value in found.items() if passed(value)]
        self.ample = not well or taken >= TIMES * median(well)
        return found

    def ask(self, prefix: str, ranks: Sequence[int], until: float = 0.0) -> dict[int, Any]:
        found: dict[int, Any] = {}
        for start in range(0, len(ranks), BATCH):
            keys = {f"{prefix}/{rank}": rank for rank in ranks[start : start + BATCH]}
            found.update({keys[key]: value for key, value in self.store.wait(keys, until).items()})
        return found


class Arrivals:
    """When the ranks of the whole job came to where they need each other. Some say nothing at all, and all others wait for them there:
    they get a share of the deadline from the last arrival on, and as long again as that one took, but not all the time there is. They
    are asked once more by themselves."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.last, self.marks = seconds, 0.0, dict[int, Any]()

    def in_vain(self, taken: float, count: int, marks: Mapping[int, Any]) -> bool:
        if marks != self.marks:
            self.last, self.marks = taken, dict(marks)
        if not marks or len(marks) == count or any(stage in ALONE for stage in marks.values()):
            return False
        return taken - self.last > max(SHARE * self.seconds, self.last)


def trial_of(
    number: int,
    plan: Mapping[str, Any],
    ranks: tuple[int, ...],
    seats: Mapping[int, FleetSeat],
    results: Mapping[int, Mapping[str, Any]],
    marks: Mapping[int, str],
) -> FleetTrial:
    """What one group came to. Who has written no result is known by its last mark alone."""
    hosts = tuple(dict.fromkeys(seats[rank].host for rank in ranks))
    known = {rank: results[rank] for rank in ranks if rank in results}
    trial = FleetTrial(plan["round"], plan["backend"], ranks, hosts, wave=number, environment=dict(plan["environment"]))
    if len(known) == len(ranks) and all(one["outcome"] == "passed" for one in known.values()):
        seconds, busbw = max(one["seconds"] for one in known.values()), min(one["busbw"] for one in known.values())
        worked = tuple(known[rank]["work"] for rank in ranks)
        return replace(trial, outcome="passed", seconds=seconds, busbw_gbps=busbw, work_seconds=worked)
    told = {rank: one.get("stage", "leave") for rank, one in known.items()}
    stages = {rank: told.get(rank) or marks.get(rank, "") for rank in ranks}
    least = min(map(_order, stages.values()))
    behind = tuple(rank for rank in ranks if _order(stages[rank]) == least)
    cause = _cause(known)
    return replace(
        trial,
        outcome="failed" if cause.get("outcome") == "failed" else "timeout",
        stage=cause.get("stage") or stages[behind[0]] or None,
        error=cause.get("error"),
        behind=behind,
        alone=tuple(rank for rank in ranks if not stages[rank] or stages[rank] in ALONE),
    )


def _in_haste(trial: FleetTrial, silent: Collection[int]) -> FleetTrial:
    """A trial of a wave in which those that passed took nearly all the time there was: where the machines are too busy for the deadline,
    who has come to no end may only be a little slower. That proves nothing, but of those that have been silent since the world began."""
    own_words = trial.error and not any(word in trial.error for word in PEER_GONE)
    if trial.outcome == "passed" or (trial.outcome == "failed" and own_words):
        return trial
    alone = tuple(rank for rank in trial.ranks if rank in silent)
    return replace(trial, alone=alone) if alone else replace(trial, outcome="skipped", error="the time was too short to tell")


def own_trial(number: int, plan: Mapping[str, Any], group: OwnGroup, seat: Seat, result: Mapping[str, Any]) -> FleetTrial:
    """The same as this process alone sees it."""
    here = trial_of(number, plan, (seat.rank,), {seat.rank: FleetSeat(seat.host)}, {seat.rank: result}, {})
    return replace(here, ranks=group.ranks)


def _cause(known: Mapping[int, Mapping[str, Any]]) -> Mapping[str, Any]:
    """The failure that explains the others, else what one that waits in vain says."""
    failures = [one for one in known.values() if one["outcome"] == "failed"]
    failures.sort(key=lambda one: (not one.get("wrong"), one["stage"] not in ALONE, any(word in one["error"] for word in PEER_GONE)))
    return next(iter(failures), None) or next((one for one in known.values() if one.get("error")), {})
