"""`envcheck fleet` by real launchers over four hosts, healthy and with each fault that jobs of several hosts are known to have."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
from hosts import OPEN_MPI, Cluster, Host, finish, lacking, soon

from envcheck.commands.schema import schema
from envcheck.fleet.seat import take_seat

pytestmark = pytest.mark.cluster

CHECKOUT = Path(__file__).parents[2]
ENV = {"PYTHONPATH": str(CHECKOUT)}
FLEET = (sys.executable, "-m", "envcheck.fleet")
QUICK = ("--skip", "world")  # no torch is imported
ALL = ["n1", "n2", "n3", "n4"]


class Job:
    """What a launcher said, and the report of each rank that wrote one; rank 0's is the job's."""

    def __init__(self, done: subprocess.CompletedProcess[str], folder: Path, seconds: float) -> None:
        self.code, self.stdout, self.stderr, self.seconds = done.returncode, done.stdout, done.stderr, seconds
        read = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("rank*.json"))}
        self.ranks: dict[int, dict[str, Any]] = {int(name.removeprefix("rank")): report for name, report in read.items()}
        self.codes = {int(task): int(code) for task, code in re.findall(r"task (\d+): Exited with exit code (\d+)", done.stderr)}

    @property
    def report(self) -> dict[str, Any]:
        assert 0 in self.ranks, f"rank 0 wrote nothing\n{self.stdout}\n{self.stderr}"
        return self.ranks[0]

    def found(self, rank: int = 0, severity: str = "error") -> dict[str, list[str]]:
        """rule → hosts."""
        return {one["rule"]: one["hosts"] for one in self.ranks[rank]["findings"] if one["severity"] == severity}

    def finding(self, rule: str, rank: int = 0) -> dict[str, Any]:
        [one] = [one for one in self.ranks[rank]["findings"] if one["rule"] == rule]
        return dict(one)


def fleet(folder: Path, *flags: str) -> tuple[str, ...]:
    """Each rank writes where its number tells it apart."""
    return (*FLEET, *flags, "-o", f"json={folder}/rank%r.json")


def run(cluster: Cluster, folder: Path, *argv: str, env: Mapping[str, str] | None = None, timeout: float = 150) -> Job:
    start = time.monotonic()
    done = cluster.head.run(*argv, env={**ENV, **(env or {})}, timeout=timeout)
    job = Job(done, folder, time.monotonic() - start)
    assert leftover(cluster) == {}, f"processes are left after the job: {leftover(cluster)}"
    return job


def srun(cluster: Cluster, folder: Path, *flags: str, env: Mapping[str, str] | None = None, timeout: float = 150) -> Job:
    return run(cluster, folder, "srun", "-N4", *fleet(folder, *flags), env=env, timeout=timeout)


def leftover(cluster: Cluster) -> dict[str, list[str]]:
    """What of a job is left on the hosts. A step's own process may still be leaving."""

    def left() -> dict[str, list[str]]:
        lines = {host.name: [line for line in host.processes().values() if "slurm" not in line] for host in cluster.hosts}
        return {name: each for name, each in lines.items() if each}

    soon(lambda: not left(), 10)
    return left()


BY_HAND = {"WORLD_SIZE": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "n1", "MASTER_PORT": "29500"}


def in_torch(host: Host) -> bool:
    """Whether torch is at work there for the process group: the agent's options stand in its command line. No path of a test says that."""
    return any('"world": true' in line for line in host.processes().values())


def by_hand(
    cluster: Cluster, folder: Path, ranks: Sequence[tuple[Host, int]], *flags: str, env: Mapping[int, Mapping[str, str]] | None = None
) -> list[subprocess.CompletedProcess[str]]:
    """Ranks by variables that somebody set, as wrapper scripts do; `env` has what is another on some of them."""
    own = env or {}
    processes = [host.start(*fleet(folder, *flags), env={**ENV, **BY_HAND, "RANK": str(rank), **own.get(rank, {})}) for host, rank in ranks]
    done = [finish(one, 120) for one in processes]
    assert leftover(cluster) == {}
    return done


def healthy(job: Job, launcher: str) -> None:
    assert job.code == 0, f"{job.stdout}\n{job.stderr}"
    report = job.report
    assert (report["verdict"], report["exit_code"], report["hosts"]) == ("pass", 0, ALL)
    assert job.found() == {} and report["bad_hosts"] == []
    assert report["fleet"]["launcher"] == launcher and [one["rank"] for one in report["fleet"]["seats"]] == [0, 1, 2, 3]
    tried = {(one["source"], one["target"]) for one in report["fleet"]["links"] if one["what"] == "transfer" and one["ok"]}
    assert tried == {(a, b) for a in ALL for b in ALL if a != b}
    [world] = [one for one in report["fleet"]["trials"] if one["round"] == "world"]
    assert (world["backend"], world["outcome"], world["ranks"]) == ("gloo", "passed", [0, 1, 2, 3])


def test_srun_healthy_always(slurm: Cluster, cluster: Cluster, tmp_path: Path) -> None:
    job = srun(cluster, tmp_path)
    healthy(job, "slurm")
    assert job.seconds < 60 and job.codes == {}
    assert "Ready: 4 hosts" in job.stdout  # one report, by rank 0


@pytest.mark.skipif(lacking(OPEN_MPI) is not None, reason=lacking(OPEN_MPI) or "")
def test_mpirun_healthy_always(cluster: Cluster, tmp_path: Path) -> None:
    healthy(run(cluster, tmp_path, *cluster.mpirun("-x", "PYTHONPATH", *fleet(tmp_path))), "openmpi")


def test_torchrun_healthy_always(cluster: Cluster, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    command = (sys.executable, "-m", "torch.distributed.run", "--nnodes", "4", "--nproc-per-node", "1", "--master-addr", "n1")
    inner = ("-m", *fleet(tmp_path)[2:])
    agents = [host.start(*command, "--node-rank", str(rank), *inner, env=ENV) for rank, host in enumerate(cluster.hosts)]
    done = [finish(agent, 150) for agent in agents]
    assert [one.returncode for one in done] == [0, 0, 0, 0], [one.stderr[-800:] for one in done]
    healthy(Job(done[0], tmp_path, 0.0), "torchrun")


def test_a_command_follows_on_the_hosts_that_passed(slurm: Cluster, cluster: Cluster, tmp_path: Path) -> None:
    job = run(cluster, tmp_path, "srun", "-N4", *fleet(tmp_path, *QUICK), "--", "sh", "-c", "echo trains on $(hostname)")
    assert job.code == 0, job.stderr
    assert sorted(job.stdout.split("\n")) == ["", *(f"trains on {name}" for name in ALL)]  # and nothing else: the report is on stderr


def test_firewall_always(slurm: Cluster, cluster: Cluster, tmp_path: Path) -> None:
    """n3 lets in what Slurm needs, and no more. The store is on n1: all meet there."""
    cluster[3].firewall("ct state established,related accept", "tcp dport { 22, 6818, 29500 } accept", "meta l4proto tcp drop")
    job = srun(cluster, tmp_path, "--exclude-file", str(tmp_path / "exclude.txt"))
    assert job.found() == {"fleet-link-blocked": ["n3"]}
    assert "n[1-2,4] → n3" in job.finding("fleet-link-blocked")["message"]
    assert (job.code, job.report["bad_hosts"], (tmp_path / "exclude.txt").read_text()) == (4, ["n3"], "n3\n")
    assert job.seconds < 45


def test_firewall_before_rank_0(slurm: Cluster, cluster: Cluster, tmp_path: Path) -> None:
    """Nobody meets anybody, and each says so by itself, in the same words."""
    cluster[1].firewall("ct state established,related accept", "tcp dport { 22, 6818, 29500 } accept", "meta l4proto tcp drop")
    job = srun(cluster, tmp_path, "--deadline", "10")
    assert job.found() == {"fleet-rank-missing": ["n2", "n3", "n4"]}
    own = [re.sub(r"Rank \d on n\d", "Rank K on nK", job.finding("fleet-rank0-unreachable", rank)["message"]) for rank in (1, 2, 3)]
    assert len(set(own)) == 1 and "firewall drops" in own[0]
    assert set(job.codes) == {0, 1, 2, 3} and job.seconds < 40


def test_wrong_interface(slurm: Cluster, cluster: Cluster, tmp_path: Path) -> None:
    """Each host has a second network that ends at itself, and somebody's variables name it."""
    for host in cluster.hosts:
        cluster.plug(host, "mgmt0", None, f"192.168.{host.name[1:]}.1/24")
    try:
        job = srun(cluster, tmp_path, "--deadline", "20", env={"NCCL_SOCKET_IFNAME": "mgmt", "GLOO_SOCKET_IFNAME": "mgmt0"})
    finally:
        for host in cluster.hosts:
            cluster.unplug(host, "mgmt0")
    found = job.finding("fleet-interface-wrong")
    assert "mgmt0" in found["message"] and "eth0 does" in found["message"]
    told = json.dumps(found["fixes"])
    assert "export NCCL_SOCKET_IFNAME=eth0" in told and "export GLOO_SOCKET_IFNAME=eth0" in told
    assert job.code in (1, 4)
    assert [one for one in job.report["fleet"]["trials"] if one["backend"] == "gloo"] == []  # it would hang in vain, once a round


def test_names_that_mean_the_loopback(slurm: Cluster, cluster: Cluster, tmp_path: Path) -> None:
    for host in cluster.hosts:
        host.know({**cluster.names, host.name: "127.0.1.1"})
    job = srun(cluster, tmp_path)
    assert job.found() == {"fleet-name-wrong": ALL}
    assert "127.0.1.1" in job.finding("fleet-name-wrong")["message"] and job.code == 1 and job.seconds < 45


def test_the_master_means_the_loopback_on_one_host(slurm: Cluster, cluster: Cluster, tmp_path: Path) -> None:
    cluster[3].know({**cluster.names, "n1": "127.0.1.1"})
    job = srun(cluster, tmp_path, *QUICK, "--deadline", "8")
    assert job.found()["fleet-rank-missing"] == ["n3"]
    assert "127.0.1.1" in job.finding("fleet-rank0-unreachable", 2)["message"]
    assert job.codes[2] == 1 and job.seconds < 40


def test_mtu_black_hole(slurm: Cluster, cluster: Cluster, tmp_path: Path) -> None:
    cluster.route(cluster[4], 1280, tell=False)
    job = srun(cluster, tmp_path)
    message = job.finding("fleet-mtu-black-hole")["message"]
    assert "1 KiB arrives and 64 KiB does not: n[1-3] → n4" in message and "1280 bytes" in message
    assert list(job.found()) == ["fleet-mtu-black-hole"] and job.code in (1, 4) and job.seconds < 60


@pytest.mark.parametrize("stage", ["presence", "world"])
def test_frozen_host(slurm: Cluster, cluster: Cluster, tmp_path: Path, stage: str) -> None:
    """n3's processes are stopped, at once or when torch works there."""
    process = cluster.head.start("srun", "-N4", *fleet(tmp_path, "--deadline", "15"), env=ENV)
    start = time.monotonic()

    def begun() -> bool:
        if stage == "world":
            return in_torch(cluster[3])
        return any("envcheck.fleet" in line and "slurmstepd" not in line for line in cluster[3].processes().values())

    assert soon(begun, 60)
    stopped = cluster[3].signal(signal.SIGSTOP, sys.executable)
    assert stopped
    assert soon((tmp_path / "rank0.json").exists, 150), "the others wait for ever"
    seconds = time.monotonic() - start
    cluster[3].signal(signal.SIGKILL, sys.executable)
    job = Job(finish(process, 60), tmp_path, seconds)
    assert job.report["bad_hosts"] == ["n3"], job.report["findings"]
    assert seconds < 100 and job.codes[0] == 4


def test_slow_host(slurm: Cluster, cluster: Cluster, tmp_path: Path) -> None:
    """A card that came up at a hundredth of the others' speed."""
    cluster[3].shell("tc qdisc add dev eth0 root tbf rate 20mbit burst 32kb latency 400ms")
    job = srun(cluster, tmp_path, *QUICK)
    assert job.code == 0 and job.found() == {}, job.stdout
    # The hosts share two processors: what else they are busy with may slow another one too, by far less.
    assert "n3" in job.found(severity="warning")["fleet-link-slow"]
    rates = {
        (one["source"], one["target"]): one["moved_bytes"] / one["seconds"]
        for one in job.report["fleet"]["links"]
        if one["error"] == "slow"
    }
    assert {pair for pair, rate in rates.items() if rate < 3e6} == {("n3", other) for other in ("n1", "n2", "n4")}


def test_a_host_far_away_is_slow(slurm: Cluster, cluster: Cluster, tmp_path: Path) -> None:
    done = cluster[3].run("tc", "qdisc", "add", "dev", "eth0", "root", "netem", "delay", "40ms", "loss", "2%")
    if done.returncode:
        pytest.skip(f"this kernel has no netem: {done.stderr.strip()[:80]}")
    job = srun(cluster, tmp_path, *QUICK)
    assert job.found() == {} and "n3" in job.found(severity="warning")["fleet-link-slow"]


def test_all_documents_of_a_job(slurm: Cluster, cluster: Cluster, tmp_path: Path) -> None:
    """Two kinds of host, one of them with a wrong name, in every format at once: they tell the same, and each has its form."""
    cluster[4].know({**cluster.names, "n4": "127.0.1.1"})
    wanted = " ".join(f"-o {form}={tmp_path}/report.{form}" for form in ("text", "json", "html", "junit"))
    script = f"[ $(hostname) = n2 ] && export NCCL_ALGO=Ring; exec {' '.join(fleet(tmp_path, *QUICK))} {wanted}"
    job = run(cluster, tmp_path, "srun", "-N4", "sh", "-c", script)
    texts = {path.suffix[1:]: path.read_text() for path in tmp_path.glob("report.*")}
    jsonschema.Draft202012Validator(schema("fleet")).validate(json.loads(texts["json"]))
    assert json.loads(texts["json"]) == job.report and job.report["bad_hosts"] == ["n4"] and job.code == 4
    suite = ElementTree.fromstring(texts["junit"]).find("testsuite")  # noqa: S314 - our own
    assert suite is not None and (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("5", "1", "0")
    cases = {case.get("name"): [part.tag for part in case] for case in suite}
    assert cases == {"n1": [], "n2": ["system-out"], "n3": [], "n4": ["failure"], "job": []}
    for form in ("text", "html"):
        assert all(word in texts[form] for word in ("n[1-4]", "fleet-name-wrong", "NCCL_ALGO Ring on n2", "127.0.1.1")), form
    assert " ".join(texts["text"].split()) == " ".join(job.stdout.split())
    assert "Links from host to host" in texts["html"] and "Which hosts are alike" in texts["html"]


def test_late_host(slurm: Cluster, cluster: Cluster, tmp_path: Path) -> None:
    script = f"[ $(hostname) = n4 ] && sleep 9; exec {' '.join(fleet(tmp_path, *QUICK, '--deadline', '4'))}"
    job = run(cluster, tmp_path, "srun", "-N4", "sh", "-c", script)
    assert set(job.found()) & {"fleet-rank-late", "fleet-rank-missing"} and job.code != 0
    assert all(hosts == ["n4"] for hosts in job.found().values())


def test_duplicate_rank(cluster: Cluster, tmp_path: Path) -> None:
    """Two hosts are given RANK=1: the ordinary end is one success and one time-out."""
    first, second, third, fourth = cluster.hosts
    done = by_hand(cluster, tmp_path, [(first, 0), (second, 1), (third, 1), (fourth, 3)], *QUICK, "--deadline", "8")
    report = json.loads((tmp_path / "rank0.json").read_text())
    [found] = [one for one in report["findings"] if one["rule"] == "fleet-rank-duplicate"]
    assert "n2" in found["message"] and "n3" in found["message"]
    assert all(one.returncode for one in done)


def test_one_of_the_ranks_never_starts(slurm: Cluster, cluster: Cluster, tmp_path: Path) -> None:
    """torch counts connections: 3/4 clients joined."""
    script = f"[ $(hostname) = n3 ] && exit 0; exec {' '.join(fleet(tmp_path, *QUICK, '--deadline', '5'))}"
    job = run(cluster, tmp_path, "srun", "--kill-on-bad-exit=0", "-N4", "sh", "-c", script)
    assert job.found() == {"fleet-rank-missing": ["n3"]} and job.code == 4
    assert "ranks did not come within 5 s: 2" in job.finding("fleet-rank-missing")["message"]


def test_nobody_listens_where_rank_0_is_to_be(cluster: Cluster, tmp_path: Path) -> None:
    """Nothing of the job runs on n1, and n3 does not know the name: each says its own, in two deadlines of nobody."""
    _, second, third, fourth = cluster.hosts
    third.know({name: address for name, address in cluster.names.items() if name != "n1"})
    done = by_hand(cluster, tmp_path, [(second, 1), (third, 2), (fourth, 3)], *QUICK, "--deadline", "4")
    said = {rank: " ".join(one.stdout.split()) for rank, one in zip((1, 2, 3), done, strict=True)}
    assert [one.returncode for one in done] == [1, 1, 1]
    assert "nothing of this job listens there" in said[1] and "nothing of this job listens there" in said[3]
    assert "has no address" in said[2] and "fleet-rank0-unreachable" in said[2]


def test_ranks_that_were_told_other_sizes(cluster: Cluster, tmp_path: Path) -> None:
    ranks = [(host, rank) for rank, host in enumerate(cluster.hosts)]
    done = by_hand(cluster, tmp_path, ranks, *QUICK, "--deadline", "15", env={2: {"WORLD_SIZE": "8"}})
    report = json.loads((tmp_path / "rank0.json").read_text())
    [found] = [one for one in report["findings"] if one["rule"] == "fleet-world-size-disagrees"]
    assert "rank 2 on n3 was told 8" in found["message"] and [one.returncode for one in done] == [1, 1, 1, 1]


def test_two_ranks_0(cluster: Cluster, tmp_path: Path) -> None:
    """The ordinary end is EADDRINUSE on one and a time-out of the other."""
    ranks = [(cluster[1], 0), (cluster[2], 0), (cluster[3], 2), (cluster[4], 3)]
    done = by_hand(cluster, tmp_path, ranks, *QUICK, "--deadline", "6")
    said = " ".join(" ".join(one.stdout.split()) for one in done)
    assert "fleet-rank-duplicate" in said or "fleet-rank-missing" in said
    assert "n2" in said and all(one.returncode for one in done)


def test_another_program_has_the_port_and_a_stranger_the_next_one(cluster: Cluster, tmp_path: Path) -> None:
    """On n1 something listens that is no store; the job goes to the next port and is well."""
    seat = take_seat({**BY_HAND, "RANK": "0"}, "n1", 1)
    assert seat is not None
    program = f"import socket, time; s = socket.create_server(('', {seat.ports[0]})); print('up', flush=True); time.sleep(600)"
    other = cluster[1].start(sys.executable, "-c", program)
    assert other.stdout is not None and other.stdout.readline() == "up\n"
    processes = [host.start(*fleet(tmp_path, *QUICK), env={**ENV, **BY_HAND, "RANK": str(rank)}) for rank, host in enumerate(cluster.hosts)]
    assert [finish(one, 120).returncode for one in processes] == [0, 0, 0, 0]
    report = json.loads((tmp_path / "rank0.json").read_text())
    assert report["fleet"]["master"] == f"n1:{seat.ports[1]}" and report["verdict"] == "pass"


def test_variables_of_one_host_alone(slurm: Cluster, cluster: Cluster, tmp_path: Path) -> None:
    """As where a shell's settings were not handed on: `srun --export=NONE`, mpirun without -x."""
    script = f"[ $(hostname) = n2 ] && export NCCL_ALGO=Ring; exec {' '.join(fleet(tmp_path, *QUICK))}"
    job = run(cluster, tmp_path, "srun", "-N4", "sh", "-c", script)
    found = job.finding("fleet-variables-differ")
    assert found["hosts"] == ["n2"] and "NCCL_ALGO Ring on n2" in found["message"]


def test_other_torch(slurm: Cluster, cluster: Cluster, tmp_path: Path) -> None:
    """n4 has another build in the same place."""
    torch = pytest.importorskip("torch")
    folder = Path(torch.__file__).parent
    real = {path: path.read_text() for path in (folder / "version.py", *folder.parent.glob("torch-*.dist-info/METADATA"))}
    version = torch.__version__.partition("+")[0]
    for number, (path, text) in enumerate(real.items()):
        copy = cluster[4].folder / f"other{number}"
        copy.write_text(text.replace(version, "2.7.1"))
        cluster[4].shell(f"mount --bind {copy} {path}")
    try:
        job = srun(cluster, tmp_path, *QUICK)
    finally:
        cluster[4].shell("".join(f"umount {path}\n" for path in real))
    assert "n4" in job.finding("fleet-torch-differs")["hosts"] and "2.7.1" in job.finding("fleet-torch-differs")["message"]
    assert all(hosts in (["n4"], []) for hosts in job.found().values())


def test_other_driver(slurm: Cluster, cluster: Cluster, tmp_path: Path) -> None:
    """The kernel's module says so: all have 580.95.05, and n2 what was there before the update."""
    line = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build  (build@host)\n"
    for host in cluster.hosts:
        version = "570.124.06" if host.name == "n2" else "580.95.05"
        told = line.format(version).strip()
        host.shell("mount -t tmpfs none /proc/driver; mkdir /proc/driver/nvidia")
        host.shell(f"echo '{told}' > /proc/driver/nvidia/version")
    try:
        job = srun(cluster, tmp_path, *QUICK)
    finally:
        for host in cluster.hosts:
            host.shell("umount /proc/driver")
    found = job.finding("fleet-driver-differs")
    assert found["hosts"] == ["n2"] and "570.124.06" in found["message"] and "580.95.05" in found["message"]


@pytest.mark.parametrize("stage", ["links", "world"])
def test_cancelled_in_the_middle(slurm: Cluster, cluster: Cluster, tmp_path: Path, stage: str) -> None:
    """No process outlives the job."""
    if stage == "links":  # it lasts where one host is slow
        cluster[2].shell("tc qdisc add dev eth0 root tbf rate 5mbit burst 32kb latency 400ms")
    process = cluster.head.start("srun", "-N4", *fleet(tmp_path), env=ENV)

    def begun(host: Host) -> bool:
        return in_torch(host) if stage == "world" else any("envcheck.fleet" in line for line in host.processes().values())

    assert soon(lambda: all(map(begun, cluster.hosts)), 60)
    cluster.head.run("scancel", "--user=root")
    assert finish(process, 60).returncode != 0
    assert soon(lambda: leftover(cluster) == {}, 20), leftover(cluster)


def test_rank_0_dies(slurm: Cluster, cluster: Cluster, tmp_path: Path) -> None:
    """The others have their own deadlines, reports and exit codes."""
    cluster[2].shell("tc qdisc add dev eth0 root tbf rate 5mbit burst 32kb latency 400ms")  # the links take their time
    process = cluster.head.start("srun", "--kill-on-bad-exit=0", "-N4", *fleet(tmp_path, "--deadline", "20"), env=ENV)
    assert soon(lambda: any("envcheck.fleet" in line for line in cluster[1].processes().values()), 30)
    time.sleep(4)
    start = time.monotonic()
    cluster[1].signal(signal.SIGKILL, "envcheck.fleet")
    job = Job(finish(process, 120), tmp_path, time.monotonic() - start)
    assert set(job.ranks) == {1, 2, 3}
    assert all("fleet-rank0-lost" in job.found(rank) for rank in (1, 2, 3))
    assert {job.codes[rank] for rank in (1, 2, 3)} == {1} and job.seconds < 60
    assert leftover(cluster) == {}
