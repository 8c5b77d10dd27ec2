"""Rank variables of every launcher, alone and mixed; who holds the rendezvous port."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machines import linux, machine

from envcheck.facts.snapshot import LauncherFacts, Missing, RankReading, Why
from envcheck.host.access import RealHost
from envcheck.probes import launcher
from envcheck.probes.claims import rank_claims
from envcheck.probes.listeners import command_name, parse_listeners, port_owner

TORCHRUN = {
    "RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "1", "GROUP_WORLD_SIZE": "4",
    "MASTER_ADDR": "node0", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "none",
}  # fmt: skip
SRUN = {
    "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "5", "SLURM_NTASKS": "16", "SLURM_LOCALID": "1", "SLURM_NODEID": "1",
    "SLURM_NNODES": "4", "SLURM_STEP_NUM_TASKS": "8", "SLURM_STEP_NUM_NODES": "2",
}  # fmt: skip
SBATCH = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "16", "SLURM_LOCALID": "0", "SLURM_NNODES": "2"}
OPENMPI = {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_NODE_RANK": "0"}


def facts(env: Mapping[str, str]) -> LauncherFacts:
    found = launcher.probe(linux({}, env))
    assert isinstance(found, LauncherFacts)
    return found


@pytest.mark.parametrize(
    ("env", "name", "rank", "size", "local", "nodes"),
    [
        (TORCHRUN, "torchrun", 3, 8, 1, 4),
        (SRUN, "slurm", 5, 8, 1, 2),
        (OPENMPI, "openmpi", 2, 4, 0, None),
        ({"PMI_RANK": "1", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}, "mpich", 1, 4, 1, None),
        ({"MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_SIZE": "4", "MV2_COMM_WORLD_LOCAL_RANK": "0"}, "mvapich", 1, 4, 0, None),
        ({"JSM_NAMESPACE_RANK": "6", "JSM_NAMESPACE_SIZE": "12", "JSM_NAMESPACE_LOCAL_RANK": "0", "LSB_JOBID": "1"},
         "jsrun", 6, 12, 0, None),
        ({"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_NPROC_PER_NODE": "8"}, "pet", None, None, None, 2),
        ({"PMIX_RANK": "1", "PMIX_NAMESPACE": "x"}, "pmix", 1, None, None, None),
        ({**TORCHRUN, "RAY_JOB_ID": "01"} | {"TORCHELASTIC_RUN_ID": ""}, "torchrun", 3, 8, 1, 4),
        ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "j-master-0", "MASTER_PORT": "23456", "KUBERNETES_SERVICE_HOST": "10.0.0.1"},
         "kubeflow", 0, 2, None, None),
        ({"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "RAY_JOB_ID": "01"}, "ray", 0, 2, 0, None),
        ({"WORLD_SIZE": "2"}, "env", None, 2, None, None),
    ],
)  # fmt: skip
def test_alone(env: Mapping[str, str], name: str, rank: int | None, size: int | None, local: int | None, nodes: int | None) -> None:
    found = facts(env)
    assert (found.launcher, found.rank, found.world_size, found.local_rank, found.nodes) == (name, rank, size, local, nodes)
    assert found.variables.items() <= env.items()


def test_torchrun_is_whole() -> None:
    found = facts(TORCHRUN)
    assert found.readings == (RankReading("torchrun", 3, 8, 1, 2, 1, 4, complete=True),)
    lacking = facts({name: value for name, value in TORCHRUN.items() if name != "MASTER_PORT"})
    assert not lacking.readings[0].complete


@pytest.mark.parametrize(
    ("env", "order"),
    [
        ({**SRUN, **TORCHRUN}, [("torchrun", True), ("slurm", True)]),
        ({**SRUN, **OPENMPI}, [("openmpi", True), ("slurm", True)]),  # mpirun within an srun step
        ({**SBATCH, **OPENMPI}, [("openmpi", True), ("slurm", False)]),  # mpirun within sbatch
        ({**SBATCH, "WORLD_SIZE": "4"}, [("env", False), ("slurm", False)]),
        ({**SRUN, "WORLD_SIZE": "4"}, [("slurm", True), ("env", False)]),  # what is not whole loses
        ({**SRUN, "PET_NNODES": "2"}, [("slurm", True), ("pet", False)]),
        ({**SRUN, "PMI_RANK": "5", "PMI_SIZE": "8"}, [("slurm", True), ("mpich", True)]),  # srun's PMI plugin says the same
        ({**SRUN, "PMI_RANK": "0", "PMI_SIZE": "2"}, [("mpich", True), ("slurm", True)]),  # mpiexec on top of srun
        ({**OPENMPI, "PMIX_RANK": "2"}, [("openmpi", True), ("pmix", False)]),
    ],
)
def test_mixed(env: Mapping[str, str], order: list[tuple[str, bool]]) -> None:
    assert [(reading.launcher, reading.complete) for reading in launcher.read_ranks(env)] == order


def test_what_is_no_number_is_kept() -> None:
    found = facts({**TORCHRUN, "RANK": "abc", "LOCAL_RANK": " 1 "})
    assert (found.rank, found.local_rank) == (None, 1)
    assert found.readings[0].unreadable == ("RANK=abc",) and not found.readings[0].complete
    elastic = facts({"PET_NNODES": "1:4", "PET_NPROC_PER_NODE": "gpu"})
    assert elastic.nodes is None and elastic.readings[0].unreadable == ()


def test_nothing_set() -> None:
    for env in ({}, {"PATH": "/bin"}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}):
        found = launcher.probe(linux({}, env))
        assert isinstance(found, Missing) and found.why is Why.ABSENT


def test_scheduler_without_ranks() -> None:
    found = facts({"SLURM_JOB_ID": "7", "SLURM_NNODES": "2"})
    assert (found.launcher, found.scheduler, found.readings) == (None, "slurm", ())
    assert facts({"PBS_JOBID": "1.pbs"}).scheduler == "pbs"
    assert facts({"KUBERNETES_SERVICE_HOST": "1", "JOB_COMPLETION_INDEX": "0"}).scheduler == "kubernetes"


def test_master_address() -> None:
    pod = launcher.probe(machine("kubernetes-cgroup2"))
    assert isinstance(pod, LauncherFacts)
    assert (pod.launcher, pod.scheduler, pod.nodes) == ("pet", "kubernetes", 2)
    assert (pod.master_addr_resolves, pod.master_addr_error) == (None, "no answer within 3 s")
    known = launcher.probe(linux({"resolve node0": {"addresses": ["10.0.0.5"], "seconds": 0.1}}, TORCHRUN))
    assert isinstance(known, LauncherFacts) and known.master_addr_resolves == ("10.0.0.5",)
    unknown = launcher.probe(linux({"resolve node0": {"error": "Name or service not known"}}, TORCHRUN))
    assert isinstance(unknown, LauncherFacts)
    assert (unknown.master_addr_resolves, unknown.master_addr_error) == ((), "Name or service not known")


TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 61232 1 0000000000000000 100 0 0 10 0
   1: 0100007F:733D 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 61233 1 0000000000000000 100 0 0 10 0
"""


def test_port_owner() -> None:
    answers = {
        "read /proc/net/tcp": TCP,
        "listdir /proc": ["1", "42", "self"],
        "listdir /proc/42/fd": ["0", "5"],
        "readlink /proc/42/fd/5": "socket:[61232]",
        "read /proc/42/cmdline": "/usr/bin/python3\0/home/u/train.py\0--token=secret\0",
    }
    assert port_owner(linux(answers), 29500) == "python3 train.py (pid 42)"
    assert port_owner(linux(answers), 29501) is None  # connected, not listening
    assert port_owner(linux({"read /proc/net/tcp": TCP}), 29500) == "a process of user 1000"
    assert port_owner(linux(), 29500) is None
    found = launcher.probe(linux(answers, TORCHRUN))
    assert isinstance(found, LauncherFacts) and found.master_port_owner == "python3 train.py (pid 42)"


@pytest.mark.parametrize("port", ["", "abc", "0x10", "999999999", "²"])
def test_port_that_is_none(port: str) -> None:
    found = facts({**TORCHRUN, "MASTER_PORT": port})
    assert (found.master_port, found.master_port_owner) == (port, None)


def test_command_names_hold_no_arguments() -> None:
    for words, shown in {
        "- hunter2": "python3",
        "-mlis --user hunter2": "python3 -m lis",
        "-um lis hunter2": "python3 -m lis",
        "-cCODE hunter2": "python3",
        "-Ic CODE hunter2": "python3",
        "-Xdev -uW default run.py hunter2": "python3 run.py",
        "-- run.py hunter2": "python3 run.py",
        "--check-hash-based-pycs never run.py hunter2": "python3 run.py",
        "--of-another-python hunter2": "python3",
        "-Zhunter2": "python3",
        "-m hunter2-x": "python3",
    }.items():
        assert command_name("\0".join(["/usr/bin/python3", *words.split(" ")])) == shown
    assert command_name("python3\0-W\0\0run.py\0hunter2\0") == "python3 run.py"
    assert command_name("myserver --login bob hunter2\0x\0") == "myserver"
    assert command_name("python3 train.py --key hunter2\0\0\0\0") == "python3 train.py"
    assert command_name("postgres: bob hunter2\0") == "postgres"
    assert command_name("python-server\0hunter2\0") == "python-server"
    assert command_name("/opt/bin/python3.11\0-u\0-m\0torch.distributed.run\0--x\0") == "python3.11 -m torch.distributed.run"
    assert command_name("redis-server\0--requirepass\0secret\0") == "redis-server"
    assert command_name("python3\0-c\0password='DashCSecret42'; import socket\0") == "python3"
    assert command_name("/usr/bin/python3\0-X\0dev\0/home/ann/train.py\0--api-key=x\0") == "python3 train.py"
    assert command_name("") == command_name(None) == ""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_real_listener() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        owner = port_owner(RealHost(), sock.getsockname()[1])
    assert owner is not None and f"(pid {os.getpid()})" in owner


@given(st.text())
def test_parser_never_raises(text: str) -> None:
    assert isinstance(parse_listeners(text), tuple)
    assert isinstance(command_name(text), str)


PROGRAM = "python3\0train.py\0"
JOB = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29876"}


@pytest.mark.parametrize(
    ("users", "claims"),
    [
        ((0, 0), ("pid 10 (python3 train.py)", "pid 20 (python3 train.py)")),
        ((1000, 1000), ("pid 10 (python3 train.py)", "pid 20 (python3 train.py)")),  # root's launcher gave the job to this user
        ((0, 1000), ()),  # anybody can start a program of that name with these variables
        ((1000, 0), ()),
        ((None, None), ("pid 10 (python3 train.py)", "pid 20 (python3 train.py)")),  # no word of it
    ],
)
def test_a_rank_of_another_user_is_none_of_the_jobs(users: tuple[int | None, int | None], claims: tuple[str, ...]) -> None:
    answers: dict[str, object] = {
        "readlink /proc/self": "10",
        "listdir /proc": ("10", "20", "cpuinfo"),
        "readlink /proc/self/ns/net": "net:1",
    }
    for pid, user in zip(("10", "20"), users, strict=True):
        answers |= {
            f"variables_of {pid} {' '.join(JOB)}": JOB,
            f"readlink /proc/{pid}/ns/net": "net:1",
            f"read /proc/{pid}/stat": f"{pid} (python3) S 1 {pid}",
            f"read /proc/{pid}/cmdline": PROGRAM,
        }
        if user is not None:
            answers[f"read /proc/{pid}/status"] = f"Name:\tpython3\nUid:\t{user}\t0\t0\t0\n"
    assert rank_claims(linux(answers, JOB)) == claims
