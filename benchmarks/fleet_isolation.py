"""Do the rounds of `envcheck fleet` name the bad hosts and nobody else, and how long does it take?

    python benchmarks/fleet_isolation.py                        128 ranks, 3 frozen (SIGSTOP), 2 slow
    python benchmarks/fleet_isolation.py --ranks 32 --trials 100 --seed 1 --deadline 4

A single trial is preceded by the same job without faults, a control: what so many processes cost on this machine is not the algorithm's.
On two cores with little other work: 128 ranks without faults 16 s, with 3 frozen and 2 slow 37 s of the 65 s that two deadlines and five
seconds are, all five named and nobody else; 32 ranks with a deadline of 10 s, 100 drawn trials: all right, 4 to 17 s of 25 s.

Every rank is a process with a host name of its own, a client of the real store, and a child that forks ranks of a gloo group for each
attempt, as in a job; only torch is imported by a few processes that the others are forked from, since 128 imports need more memory
than a small machine has. Who is frozen stops itself and its child behind its last word before the world; who is slow sleeps in each step.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from envcheck.agent import jsonl, processes, torch_steps, world_parent, world_rank
from envcheck.facts.fleet import FleetFacts, FleetSeat
from envcheck.fleet.isolation import united
from envcheck.fleet.options import FleetOptions
from envcheck.fleet.seat import Seat
from envcheck.fleet.store_client import StoreClient
from envcheck.fleet.store_server import StoreServer
from envcheck.fleet.world import Child, try_world
from envcheck.target.process import Target

PARENTS = 4
FIRST_PORT = 21500
CONTROL_SECONDS = 120.0  # without faults a deadline costs nothing, and a busy machine gets as long as it takes


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=128)
    parser.add_argument("--frozen", type=int, default=3)
    parser.add_argument("--slow", type=int, default=2)
    parser.add_argument("--deadline", type=float, default=30.0)
    parser.add_argument("--sleep", type=float, default=0.4, help="seconds that a slow one sleeps in each of the ten steps")
    parser.add_argument("--trials", type=int, default=1, help="with more than one the numbers of frozen and slow ones are drawn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first trial: --first 17 --trials 1 --drawn repeats trial 17")
    parser.add_argument("--drawn", action="store_true", help="draw the numbers of frozen and slow ones for a single trial too")
    parser.add_argument("--parent", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.parent:
        return parent()
    if asked.ranks < 3:
        parser.error("--ranks: of two that do not work together nobody can tell which is bad")
    if asked.frozen + asked.slow >= asked.ranks:
        parser.error("--frozen and --slow: one rank at least has to be well")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="envcheck-bench-") as folder:  # a rank that is ended in the midst leaves its own folder in it
        return trials(asked, {**os.environ, "TMPDIR": folder})


def trials(asked: argparse.Namespace, env: Mapping[str, str]) -> int:
    parents = [
        subprocess.Popen([sys.executable, __file__, "--parent"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        for _ in range(PARENTS)
    ]
    try:
        for one in parents:
            assert one.stdout
            if not one.stdout.readline():
                raise SystemExit(f"the process that imports torch ended with {one.wait()}")
        control = 0.0 if asked.trials > 1 else control_seconds(asked, parents)
        numbers = range(asked.first, asked.first + asked.trials)
        found = [trial(asked, number, parents, control) for number in numbers]
    finally:
        for one in parents:
            assert one.stdin
            one.stdin.close()
        for one in parents:
            one.wait(30)
    counts = Counter(word for words in found for word in words)
    told = ", ".join(f"{counts[word]} {word}" for word in ("innocent", "missed", "not cleared", "over time", "no answer"))
    print(f"{sum(not words for words in found)} of {asked.trials} trials right; {told}")
    return 1 if counts else 0


def control_seconds(asked: argparse.Namespace, parents: list[subprocess.Popen[str]]) -> float:
    """What a job without faults takes here: so many processes on a few cores are not the algorithm's. Those ranks that are not frozen go
    through the same again in each job with faults, behind the deadline that the frozen ones cost."""
    limit = max(CONTROL_SECONDS, asked.deadline)
    print(f"control, no faults, {asked.ranks} ranks, deadline {limit:.0f} s …", flush=True)
    told = job_told(asked, {"frozen": [], "slow": [], "deadline": limit}, parents)
    if not told:
        print("control, no faults: no answer", flush=True)
        return 0.0
    cores = len(os.sched_getaffinity(0))
    print(
        f"control, no faults: {told['verdict']}, {told['seconds']:.1f} s for {asked.ranks} ranks on {cores} cores: {_rounds(told)}",
        flush=True,
    )
    return float(told["seconds"])


def trial(asked: argparse.Namespace, number: int, parents: list[subprocess.Popen[str]], control: float) -> list[str]:
    """One job, and what is wrong with its result: nothing if all bad ones were named and nobody else, in two deadlines and 5 seconds."""
    dice = random.Random(asked.seed * 1000 + number)  # noqa: S311
    drawn = asked.drawn or asked.trials > 1
    frozen_count, slow_count = (dice.randint(0, 3), dice.randint(0, 2)) if drawn else (asked.frozen, asked.slow)
    bad = dice.sample(range(1, asked.ranks), frozen_count + slow_count)
    job = {"frozen": sorted(bad[:frozen_count]), "slow": sorted(bad[frozen_count:]), "deadline": asked.deadline}
    return verdict(job, job_told(asked, job, parents), number, control)


def job_told(asked: argparse.Namespace, faults: Mapping[str, Any], parents: list[subprocess.Popen[str]]) -> Any:
    """What rank 0 of one job says at its end."""
    token = secrets.token_bytes(16)
    server = StoreServer(token)
    server.open(range(FIRST_PORT, FIRST_PORT + 50), "127.0.0.1")
    job = {**faults, "ranks": asked.ranks, "sleep": asked.sleep, "port": server.port, "token": token.hex()}
    began = time.monotonic()
    try:
        for place, one in enumerate(parents):
            assert one.stdin
            one.stdin.write(json.dumps(job | {"own": list(range(asked.ranks))[place::PARENTS]}) + "\n")
            one.stdin.flush()
        told = answer(server, began + 60 + 8 * job["deadline"], parents)
        for one in parents:  # it has ended what it forked
            assert one.stdin
            assert one.stdout
            one.stdin.write("\n")
            one.stdin.flush()
            one.stdout.readline()
    finally:
        server.close()
    return told


def answer(server: StoreServer, until: float, parents: list[subprocess.Popen[str]]) -> Any:
    """What rank 0 says. Ranks that died with the process that forked them say nothing: the wait for them ends at once."""
    while time.monotonic() < until:
        if told := server.wait(["bench"], min(until, time.monotonic() + 1.0)).get("bench"):
            return told
        if dead := [one.returncode for one in parents if one.poll() is not None]:
            raise SystemExit(f"the processes that the ranks are forked from ended with {dead}")
    last, plans = Counter(map(str, server.items("world/stage/").values())), len(server.keys("world/plan/"))
    print(f"no answer after {until - server.opened:.0f} s and {plans} plans; the ranks' last stages: {dict(last)}", flush=True)
    return None


def verdict(job: Mapping[str, Any], told: Any, number: int, control: float) -> list[str]:
    if not told:
        print(f"trial {number}: no answer", flush=True)
        return ["no answer"]
    frozen, slow, limit = job["frozen"], job["slow"], 2 * job["deadline"] + 5
    named = [rank for rank in told["bad"] if rank not in told["slow"]]
    wrong = {
        "innocent": bool(set(named) - set(frozen) or set(told["slow"]) - set(slow)),
        "missed": bool(set(frozen) - set(named) or set(slow) - set(told["slow"])),
        "not cleared": bool(told["suspects"]),
        "over time": told["seconds"] > limit,
    }
    words = [word for word, so in wrong.items() if so]
    above = f", {told['seconds'] - control:.1f} s above the control" if control else ""
    print(
        f"trial {number}: frozen {frozen} slow {slow}: named {named} slow {told['slow']} {told['verdict']}, {told['seconds']:.1f} s of"
        f" {limit:.0f} s{above}: {_rounds(told)};"
        f" load {os.getloadavg()[0]:.0f}{'  ' + ', '.join(words).upper() if words else ''}",
        flush=True,
    )
    return words


def _rounds(told: Mapping[str, Any]) -> str:
    return ", ".join(told["rounds"])


def parent() -> int:
    """Imports torch and forks this trial's ranks, again and again."""

    torch_steps.preload()  # imports torch, and what DDP does
    print("ready", flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        pids = [fork_rank(job, rank) for rank in job["own"]]
        sys.stdin.readline()
        for pid in pids:
            for sign in (signal.SIGTERM, signal.SIGCONT):
                os.kill(pid, sign)  # not reaped yet, so it is still ours
            os.waitpid(pid, 0)
        print("done", flush=True)
    return 0


def fork_rank(job: Mapping[str, Any], rank: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        processes.die_with_parent(os.getppid())
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        run_rank(job, rank)
    except SystemExit:
        pass
    finally:
        os._exit(0)


def run_rank(job: Mapping[str, Any], rank: int) -> None:

    class ForkedChild(Child):
        """As the child of a job, but for its import of torch."""

        def open(self) -> None:
            self.close()
            self.folder = tempfile.mkdtemp(prefix="bench-")
            self.at = 0
            self.process = Forked(self.folder, job["sleep"] if rank in job["slow"] else 0.0)  # type: ignore[assignment]

        def close(self) -> None:
            if self.process is not None:
                self.process.end()  # type: ignore[attr-defined]
                self.process = None
            if self.folder:
                shutil.rmtree(self.folder, ignore_errors=True)

    plans: list[tuple[str, float]] = []

    class BenchmarkStore(StoreClient):
        def set(self, key: str, value: Any) -> None:
            super().set(key, value)
            if key.startswith("world/plan/"):
                plans.append((value.get("round", "end"), time.monotonic()))
            if rank in job["frozen"] and key.startswith("world/ready/"):
                os.kill(child.process.pid, signal.SIGSTOP)  # type: ignore[union-attr]
                os.kill(os.getpid(), signal.SIGSTOP)

    peers = [FleetSeat(host=f"n{one:03}", rank=one, world_size=job["ranks"], local_rank=0) for one in range(job["ranks"])]
    seat = Seat(f"n{rank:03}", os.getpid(), rank, job["ranks"], 0, 1, "none")
    deadline = time.monotonic() + 30 + 6 * job["deadline"]
    store = BenchmarkStore("127.0.0.1", (job["port"],), bytes.fromhex(job["token"]), deadline, many_hosts=False)
    store.join(time.monotonic() + 30)
    child = ForkedChild(Target(sys.executable, "benchmark"))
    options = FleetOptions(deadline_seconds=job["deadline"], backends=("gloo",))
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    os.environ["RES_OPTIONS"] = "timeout:1 attempts:1"  # each client of a TCPStore asks for the name of its address
    trials = try_world(seat, peers, store, child.target, options, deadline, child)
    if rank == 0:
        facts = united(FleetFacts(), {one: f"n{one:03}" for one in range(job["ranks"])}, trials)
        said = {"bad": facts.bad_ranks, "slow": [int(host[1:]) for host in facts.slow_hosts], "suspects": facts.suspect_hosts}
        waves = [f"{name} {at - start:.1f} s" for (name, start), (_, at) in itertools.pairwise(plans)]
        store.set("bench", said | {"verdict": facts.verdict, "seconds": plans[-1][1] - plans[0][1], "rounds": waves})


class Forked:
    """Stands for the Popen of a child: a fork of a process that has imported torch."""

    def __init__(self, folder: str, sleep: float) -> None:
        receive, send = os.pipe()
        mine = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(send)
                serve(folder, sleep, receive, mine)
            finally:
                os._exit(0)
        os.close(receive)
        self.stdin = os.fdopen(send, "wb")

    def poll(self) -> int | None:
        try:
            done, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            return 0
        return status if done else None

    def end(self) -> None:
        self.stdin.close()
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


def serve(folder: str, sleep: float, receive: int, mine: int) -> None:

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    processes.die_with_parent(mine)
    writer = jsonl.Writer(os.path.join(folder, "agent.jsonl"))
    usual = world_rank.work
    if sleep:

        def slow(torch: Any, matrices: Any) -> float:
            time.sleep(sleep)
            return usual(torch, matrices) + sleep

        world_rank.work = slow
    writer.line(section="ready", value={"gpus": 0, "backends": ["gloo"]})
    world_parent.listen(world_parent.Ranks({"folder": folder}, writer, None), receive)


if __name__ == "__main__":
    sys.exit(main())
