"""Processes of a job on the loopback: who is missing, twice, late, frozen or killed, and what each of them says and exits with."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envcheck.fleet.seat import Seat, take_seat
from envcheck.fleet.store_client import StoreClient, StoreUnreachable

PROGRAM = Path(__file__).parents[1] / "fleet_job.py"
LONG = 120  # seconds that a busy machine may take for what takes one
SAID: dict[int, str] = {}  # pid → stderr of those that have ended
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are frozen and killed as on Linux")


class Job:
    """Processes with the variables of torch, two ranks a host, that are ended with the test."""

    def __init__(self, size: int, **asked: Any) -> None:
        self.size, self.asked = size, {"deadline_seconds": 60.0, **asked}
        self.name = uuid.uuid4().hex
        self.started: list[subprocess.Popen[str]] = []

    def env(self, rank: int, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "OMPI_", "PMI", "PET_"))}
        own = {"RANK": str(rank), "WORLD_SIZE": str(self.size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "HOST": f"n{rank // 2}"}
        return {**kept, **own, "ENVCHECK_FLEET_JOB": self.name, **more}

    def start(self, rank: int, **more: str) -> subprocess.Popen[str]:
        words = [sys.executable, str(PROGRAM), json.dumps(self.asked)]
        pipe = subprocess.PIPE
        self.started.append(subprocess.Popen(words, env=self.env(rank, **more), stdout=pipe, stderr=pipe, text=True))
        return self.started[-1]

    def observer(self) -> StoreClient:
        """A member that has no rank and watches the others."""
        seat = take_seat(self.env(0), "test", os.getpid())
        assert isinstance(seat, Seat)
        client = StoreClient("127.0.0.1", seat.ports, bytes.fromhex(seat.token), time.monotonic() + LONG, many_hosts=False)
        try:
            client.join(time.monotonic() + LONG)
        except StoreUnreachable as error:
            raise AssertionError(f"{error}; {self.words()}") from None
        return client

    def words(self) -> str:
        """How far each process is, and what it printed."""
        codes = [one.poll() for one in self.started]
        for one in self.started:
            one.kill()
        return "; ".join(
            f"pid {one.pid} was at {code}: {''.join(one.communicate())}" for one, code in zip(self.started, codes, strict=True)
        )

    def ends(self) -> list[tuple[int, str]]:
        """Exit code and stdout of each, in the order of their start."""
        return [ended(one) for one in self.started]


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, err = process.communicate(timeout=LONG)
    assert "Traceback" not in err, err
    SAID[process.pid] = err
    return process.returncode, out


@pytest.fixture
def jobs() -> Iterator[list[Job]]:
    made: list[Job] = []
    yield made
    for one in (process for job in made for process in job.started):
        one.kill()
        one.communicate()


def until(client: StoreClient, key: str, value: object) -> None:
    """Until this stands in the store."""
    deadline = time.monotonic() + LONG
    while client.get([key]).get(key) != value:
        assert time.monotonic() < deadline, f"{key} is never {value}"
        time.sleep(0.05)


def test_all_come_and_one_report_is_written(jobs: list[Job], tmp_path: Path) -> None:
    job = Job(4, documents=[("json", f"{tmp_path}/job.json"), ("json", f"{tmp_path}/own-%r.json")])
    jobs.append(job)
    for rank in range(4):
        job.start(rank)
    codes, outs = zip(*job.ends(), strict=True)
    assert codes == (0, 0, 0, 0)
    assert [bool(out) for out in outs] == [True, False, False, False]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job.json", *(f"own-{rank}.json" for rank in range(4))]
    report = json.loads((tmp_path / "job.json").read_text())
    fleet = report["fleet"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", report["taken"]) and report["taken"] in outs[0]
    assert [(one["rank"], one["host"]) for one in fleet["seats"]] == [(0, "n0"), (1, "n0"), (2, "n1"), (3, "n1")]
    assert {one["stage"] for one in fleet["seats"]} <= {"presence", "facts", "verdict"}  # a rank without facts to tell may be a step behind
    assert all(abs(one["clock_offset_seconds"]) <= one["clock_error_seconds"] + 0.2 for one in fleet["seats"])


def test_machines_of_one_name_are_told_apart(jobs: list[Job], tmp_path: Path) -> None:
    """By their boots; in the report stands nothing of those."""
    job = Job(4, documents=[("json", f"{tmp_path}/job.json")])
    jobs.append(job)
    for rank in range(4):
        boot = tmp_path / f"boot{rank // 2}"
        boot.write_text(f"8a3c1c0e-0000-4000-8000-00000000000{rank // 2}\n")
        job.start(rank, HOST="vm", BOOT=str(boot), FACTS=json.dumps({"torch.version": "2.9.1+cpu"} if rank > 1 else {}))
    job.ends()
    text = (tmp_path / "job.json").read_text()
    hosts = [one["host"] for one in json.loads(text)["fleet"]["seats"]]
    assert len(set(hosts)) == 2 and hosts[0] == hosts[1] and hosts[2] == hosts[3] and {one.partition("@")[0] for one in hosts} == {"vm"}
    assert "fleet-torch-differs" in text and "8a3c1c0e" not in text


def test_drift_between_hosts_is_told(jobs: list[Job]) -> None:
    job = Job(6)
    jobs.append(job)
    for rank in range(6):
        job.start(rank, FACTS=json.dumps({"torch.version": "2.9.1+cpu"} if rank > 3 else {}))
    codes, outs = zip(*job.ends(), strict=True)
    assert "2.9.1+cpu" in outs[0] and "n2" in outs[0]
    assert len(set(codes)) == 1


def test_a_missing_rank_is_named_with_its_host(jobs: list[Job]) -> None:
    job = Job(4, deadline_seconds=8.0)
    jobs.append(job)
    for rank in (1, 2, 0):
        job.start(rank)
    codes, outs = zip(*job.ends(), strict=True)
    assert "1 of 4 ranks did not come within 8 s: 3, all of them of n1" in " ".join(outs[2].split())
    assert codes == (4, 4, 4)


def test_a_rank_that_is_there_twice_is_named_with_both_processes(jobs: list[Job]) -> None:
    job = Job(2)
    jobs.append(job)
    first = job.start(0)
    watch = job.observer()
    second = job.start(0, HOST="n7")
    until(watch, "rank/0", f"n0:{first.pid}")
    rivals: dict[str, Any] = {}
    while not rivals:
        rivals = watch.items("rival/")
    job.start(1)
    watch.close()
    codes, outs = zip(*job.ends(), strict=True)
    assert codes == (1, 1, 1)
    assert f"n0 (pid {first.pid})" in outs[0] and f"n7 (pid {second.pid})" in outs[0] and not outs[1]
    assert f"rank 0 on n7, pid {second.pid}: another process is rank 0 of this job" in SAID[second.pid]


def test_ranks_that_count_differently_are_named(jobs: list[Job]) -> None:
    job = Job(3)
    jobs.append(job)
    for rank in range(3):
        job.start(rank, **({"WORLD_SIZE": "5"} if rank == 2 else {}))
    codes, outs = zip(*job.ends(), strict=True)
    assert "2 ranks were told a world size of 3, and rank 2 on n1 was told 5" in " ".join(outs[0].split())
    assert codes == (1, 1, 1)


def test_a_frozen_rank_is_named_with_its_stage(jobs: list[Job]) -> None:
    job = Job(3, deadline_seconds=6.0, slack=60.0)
    jobs.append(job)
    frozen = job.start(2, SLEEP="60")
    for rank in (0, 1):
        job.start(rank)
    watch = job.observer()
    until(watch, "stage/2", "facts")
    os.kill(frozen.pid, signal.SIGSTOP)
    watch.close()
    codes, outs = zip(*(ended(one) for one in job.started[1:]), strict=True)
    assert "Rank 2 on n1 came, began the stage facts and said nothing more" in " ".join(outs[0].split())
    assert codes == (4, 4)


def test_a_rank_that_is_killed_is_noticed_at_once(jobs: list[Job]) -> None:
    job = Job(3)
    jobs.append(job)
    killed = job.start(2, SLEEP="600")
    for rank in (0, 1):
        job.start(rank)
    watch = job.observer()
    until(watch, "stage/2", "facts")
    killed.kill()
    began = time.monotonic()
    watch.close()
    codes, outs = zip(*(ended(one) for one in job.started[1:]), strict=True)
    assert time.monotonic() - began < job.asked["deadline_seconds"]
    assert "its process ended in the stage facts" in " ".join(outs[0].split())
    assert codes == (4, 4)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_each_rank_ends_by_itself_when_rank_0_does_not_go_on(jobs: list[Job], tmp_path: Path, how: signal.Signals) -> None:
    frozen = how is signal.SIGSTOP
    soon = {"deadline_seconds": 3.0, "slack": 1.0, "hurry": 2.0} if frozen else {}
    job = Job(3, **soon, documents=[("json", f"{tmp_path}/report.json")])
    jobs.append(job)
    for rank in (1, 2):
        job.start(rank)
    first = job.start(0, SLEEP="600")
    watch = job.observer()
    until(watch, "stage/2", "facts")
    watch.close()
    os.kill(first.pid, how)
    codes, outs = zip(*(ended(one) for one in job.started[:2]), strict=True)
    assert codes == (1, 1)
    for rank, out in enumerate(outs, 1):
        assert f"Rank {rank} on n{rank // 2} lost rank 0 at 127.0.0.1" in " ".join(out.split())
        own = json.loads((tmp_path / f"report.rank{rank}.json").read_text())
        assert own["exit_code"] == 1 and [one["rank"] for one in own["fleet"]["seats"]] == [rank]
    assert not (tmp_path / "report.json").exists()


def test_without_rank_0_each_rank_says_why(jobs: list[Job]) -> None:
    job = Job(3, deadline_seconds=1.5)
    jobs.append(job)
    job.start(1)
    job.start(2, MASTER_ADDR="no-such-host.invalid")
    codes, outs = zip(*job.ends(), strict=True)
    assert codes == (1, 1)
    assert "nothing of this job listens there" in " ".join(outs[0].split())
    assert "no-such-host.invalid, has no address" in " ".join(outs[1].split())


def test_a_report_that_cannot_be_written_costs_nobody_else_the_verdict(jobs: list[Job], tmp_path: Path) -> None:
    job = Job(2, documents=[("json", "/dev/full"), ("html", f"{tmp_path}/report.html")])
    jobs.append(job)
    for rank in range(2):
        job.start(rank)
    (code, out), (other, _) = job.ends()
    assert (code, other) == (2, 0)
    assert "Ready" in out and (tmp_path / "report.html").stat().st_size > 1000


def test_a_stranger_is_no_rank(jobs: list[Job]) -> None:
    """Of another job with the same ports: it is told so, and the job goes on without a word of it."""
    job = Job(2)
    jobs.append(job)
    job.start(0)
    watch = job.observer()
    stranger = StoreClient("127.0.0.1", (watch.port,), b"another", time.monotonic() + LONG, many_hosts=False)
    with pytest.raises(Exception, match="another job"):
        stranger.join(time.monotonic() + LONG, once=True)
    watch.close()
    job.start(1)
    assert [code for code, _ in job.ends()] == [0, 0]


def test_where_another_program_has_the_port_the_job_meets_on_the_next_one(jobs: list[Job], tmp_path: Path) -> None:
    """One that takes connections and says nothing, as most do that wait for the other side to begin."""
    job = Job(2, documents=[("json", f"{tmp_path}/job.json")])
    jobs.append(job)
    seat = take_seat(job.env(0), "test", os.getpid())
    assert isinstance(seat, Seat)
    with socket.create_server(("127.0.0.1", seat.ports[0])):
        for rank in range(2):
            job.start(rank)
        assert [code for code, _ in job.ends()] == [0, 0]
    assert json.loads((tmp_path / "job.json").read_text())["fleet"]["master"] == f"127.0.0.1:{seat.ports[1]}"


def test_a_cancelled_rank_leaves_no_process(tmp_path: Path) -> None:
    env = Job(2).env(0)
    process = subprocess.Popen(
        [sys.executable, "-m", "envcheck.fleet", "--skip", "links"],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    time.sleep(2)
    process.terminate()
    process.communicate(timeout=LONG)
    assert process.returncode == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
