"""A process's place in its job, from variables that real launchers set (tests/fleet/launchers holds some as they were)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.fleet import pmix
from envcheck.fleet.seat import JobTold, Seat, host_and_port, take_seat, tasks_of_nodes
from envcheck.probes.launcher import read_ranks

TORCHRUN = {
    "RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "1", "GROUP_WORLD_SIZE": "4",
    "MASTER_ADDR": "n0", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "77",
}  # fmt: skip
POD = {"PET_NNODES": "4", "PET_NODE_RANK": "2", "PET_MASTER_ADDR": "job-0.job", "PET_NPROC_PER_NODE": "8", "KUBERNETES_SERVICE_HOST": "x"}
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}


def recorded(name: str) -> dict[str, str]:
    lines = (Path(__file__).parent / "launchers" / f"{name}.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def seat(env: Mapping[str, str], told: JobTold | None = None, master: str | None = None) -> Seat:
    taken = take_seat(env, "me", 7, told=told, master=master)
    assert taken is not None
    return taken


@pytest.mark.parametrize(
    ("env", "launcher", "rank", "size", "local", "local_size", "node", "nodes", "master", "source"),
    [
        (recorded("srun"), "slurm", 5, 6, 1, 2, 2, 3, "s1", "the first host of SLURM_STEP_NODELIST"),
        (recorded("mpirun-4"), "openmpi", 5, 6, 1, 2, None, None, None, ""),
        (recorded("mpirun-5"), "openmpi", 5, 6, 1, 2, None, None, None, ""),
        # the step of mpirun's own daemons is s[2-3]: its first host is not rank 0's
        (recorded("mpirun-in-sbatch"), "openmpi", 5, 6, 1, 2, None, None, "s1", "the first host of SLURM_JOB_NODELIST"),
        (TORCHRUN, "torchrun", 3, 8, 1, 2, 1, None, "n0", "MASTER_ADDR"),
        ({**recorded("srun"), **TORCHRUN}, "torchrun", 3, 8, 1, 2, 1, None, "n0", "MASTER_ADDR"),
        ({**recorded("srun"), "MASTER_ADDR": "n9"}, "slurm", 5, 6, 1, 2, 2, 3, "n9", "MASTER_ADDR"),
        (POD, "pet", 2, 4, 0, 1, 2, 4, "job-0.job", "PET_MASTER_ADDR"),
        ({**POD, **TORCHRUN}, "torchrun", 3, 8, 1, 2, 1, None, "n0", "MASTER_ADDR"),
        (MPICH, "mpich", 1, 4, 1, 2, None, None, None, ""),
        ({**MPICH, "PMI_SIZE": "2"}, "mpich", 1, 2, 1, 2, None, None, "127.0.0.1", "all ranks are on this host"),
        ({"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "n0", "MASTER_PORT": "1"}, "env", 1, 4, 0, 1, None, None, "n0", "MASTER_ADDR"),
        ({"PET_NNODES": "2"}, "none", 0, 1, 0, 1, 0, 1, "127.0.0.1", "a single process"),  # left in a shell
        ({}, "none", 0, 1, 0, 1, 0, 1, "127.0.0.1", "a single process"),
    ],
)
def test_the_place_that_launchers_give(
    env: Mapping[str, str], launcher: str, rank: int, size: int, local: int, local_size: int, node: int | None, nodes: int | None,
    master: str | None, source: str,
) -> None:  # fmt: skip
    one = seat(env)
    assert (one.launcher, one.rank, one.world_size, one.local_rank, one.local_world_size) == (launcher, rank, size, local, local_size)
    assert (one.node, one.master, one.master_source) == (node, master, source)
    if nodes is not None:
        assert one.nodes == nodes


def test_a_rank_within_the_node_is_no_number_of_the_node() -> None:
    """OMPI_COMM_WORLD_NODE_RANK: of two ranks of one host it is 0 and 1."""
    env = recorded("mpirun-5")
    seats = [seat({**env, "OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_NODE_RANK": node}) for rank, node in (("4", "0"), ("5", "1"))]
    assert [(one.rank, one.node) for one in seats] == [(4, None), (5, None)]


@pytest.mark.parametrize(
    "env", [{"RANK": "3"}, {"WORLD_SIZE": "4"}, {"RANK": "0", "WORLD_SIZE": "4"}, {"RANK": "x", "WORLD_SIZE": "4"}, recorded("sbatch")]
)
def test_half_a_set_is_no_place(env: Mapping[str, str]) -> None:
    assert take_seat(env, "me", 7) is None


def test_what_the_server_of_mpirun_says_counts_after_an_address() -> None:
    told = JobTold("s1", ("s1", "s2", "s3"))
    one = seat(recorded("mpirun-5"), told)
    assert (one.master, one.master_source, one.hosts, one.nodes) == ("s1", "PMIx, for rank 0", ("s1", "s2", "s3"), 3)
    assert seat({**recorded("mpirun-5"), "MASTER_ADDR": "n9"}, told).master == "n9"
    assert seat(recorded("mpirun-5"), told, "n8:16000").master == "n8" and seat({}, None, "n8:16000").ports == (16000,)


def test_hosts_are_those_of_the_ranks() -> None:
    assert seat(recorded("srun")).hosts == ("s1", "s2", "s3")
    assert seat(recorded("mpirun-in-sbatch")).hosts == ()  # mpirun may leave hosts of the job out
    agents = {**TORCHRUN, "GROUP_WORLD_SIZE": "3", "SLURM_STEP_NODELIST": "s[1-2]"}
    assert seat(agents).hosts == ()


def test_ports_and_token_are_the_same_for_all_ranks_and_others_for_another_job() -> None:
    ranks = [seat({**recorded("srun"), "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank % 2)}) for rank in range(6)]
    assert len({(one.ports, one.token, one.job) for one in ranks}) == 1
    first = ranks[0]
    assert len(first.ports) == 17 and all(15000 <= port < 25017 for port in first.ports) and first.ports[0] + 16 == first.ports[-1]
    assert first.job == "slurm 1.0" and len(first.token) == 64
    for name, value in (("SLURM_JOB_ID", "2"), ("SLURM_STEP_ID", "1"), ("ENVCHECK_FLEET_JOB", "secret")):
        other = seat({**recorded("srun"), name: value})
        assert other.token != first.token and other.ports != first.ports
    taken = str(first.ports[3])
    assert seat({**recorded("srun"), "MASTER_PORT": taken}).ports == (*first.ports[:3], *first.ports[4:])


def test_what_ranks_may_disagree_on_does_not_keep_them_apart() -> None:
    """A wrong size or another name of rank 0's host is to be told in the store, not to end in front of it."""
    one, other = seat(TORCHRUN), seat({**TORCHRUN, "WORLD_SIZE": "9", "MASTER_ADDR": "10.0.0.1", "RANK": "4"})
    assert one.token == other.token and one.ports == other.ports


def test_what_a_process_tells_the_others() -> None:
    told = seat(recorded("srun")).told(stage="presence")
    assert (told.host, told.pid, told.rank, told.world_size, told.launcher, told.stage) == ("me", 7, 5, 6, "slurm", "presence")
    assert told.master is not None and told.master.startswith("s1:")


@pytest.mark.parametrize(
    ("text", "numbers"), [("2(x3),1", (2, 2, 2, 1)), ("8", (8,)), ("4(x2)", (4, 4)), ("", ()), ("a", ()), ("2(x3", ()), ("2,,1", ())]
)
def test_tasks_of_nodes(text: str, numbers: tuple[int, ...]) -> None:
    assert tasks_of_nodes(text) == numbers


def test_nodes_of_unlike_tasks() -> None:
    env = {**recorded("srun"), "SLURM_STEP_TASKS_PER_NODE": "2(x2),7"}
    assert seat(env).local_world_size == 7


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("n1", "n1", None), ("n1:15000", "n1", 15000), ("::1", "::1", None), ("[fd00::1]:8", "fd00::1", 8), ("[::1]", "::1", None)],
)
def test_host_and_port(text: str, host: str, port: int | None) -> None:
    assert host_and_port(text) == (host, port)


@pytest.mark.parametrize(
    ("env", "follows", "asked"),
    [
        (recorded("mpirun-4"), False, True),
        (recorded("mpirun-4"), True, False),  # an MPI_Init of the command would fail: tried with 4.1.4
        (recorded("mpirun-5"), True, True),
        (recorded("srun"), False, False),
    ],
)
def test_when_pmix_is_asked(env: Mapping[str, str], follows: bool, asked: bool) -> None:
    assert pmix.may_ask(env, follows) is asked


def test_pmix_without_a_server_is_no_answer_and_no_crash() -> None:
    assert pmix.ask({"PMIX_RANK": "0", "PMIX_NAMESPACE": "x", "PATH": "/nowhere"}) is None


NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "SLURM_PROCID", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS",
         "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE", "PMI_RANK", "PMI_SIZE", "PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR",
         "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")  # fmt: skip


@given(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["0", "1", "4", "", "x", "n[1-2", "n[1-3]", "-1", "9" * 30])))
def test_no_variables_make_it_raise(env: dict[str, str]) -> None:
    one = take_seat(env, "me", 7)
    if one is not None:
        assert one.world_size >= 0 and one.ports and one.token and one.readings == read_ranks(env)
