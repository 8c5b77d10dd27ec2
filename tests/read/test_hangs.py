"""Runs that stand still, as people tell it, and the same words where nothing does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.checks.own_command import gpus_of_slurm, mpi_networks
from envcheck.facts.snapshot import LauncherFacts
from envcheck.read.gists import stands_still, told_faults, unless_known
from envcheck.read.job_script import read_started

TOLD = {
    "My DDP script freezes on 2x RTX 4090, both at 100 %. One card works.": "nccl-p2p-blocked",
    "两张3090用torchrun训练，第一步就卡住，单卡正常": "nccl-p2p-blocked",
    "Mit beiden Karten bleibt das Training einfach stehen, ohne Fehlermeldung.": "nccl-p2p-blocked",
    "На двух GPU обучение зависает на первом шаге.": "nccl-p2p-blocked",
    "It hangs:\n[0] NCCL INFO Channel 00 : 1[2000] -> 0[1000] via P2P/IPC": "nccl-p2p-blocked",
    "Stuck here\nNCCL INFO Channel 00 : 8[a0] -> 0[b0] [receive] via NET/IB/0": "nccl-infiniband",
    "Stuck here\nNCCL INFO Channel 00 : 1[0] -> 0[0] [receive] via NET/Socket/0": "nccl-interface",
    "Works on one node, on two nodes nothing happens.": "launch-unreachable",
    "两机训练一直没有反应，单机正常": "launch-unreachable",
    "dist.init_process_group never returns": "launch-unreachable",
    "4 GPUs on Windows 11, training is stuck at 0 %": "launch-unreachable",
    "It gets stuck at the end of the first epoch with 4 GPUs": "ddp-usage",
    "It hangs with num_workers=4, num_workers=0 works": "shm-small",
    "Bus error (core dumped) with 2 processes": "shm-small",
    "Lightning waits: how do I disable SLURM detection?": "launch-slurm",
}
QUIET = (
    "Fix a hang when num_workers=0 on multi-GPU machines",
    "With 8 GPUs it never gets stuck now.",
    "[Solved] stuck at the first step with 2 GPUs",
    "The bar freezes, but training itself goes on with both GPUs.",
    "How do I use 2 GPUs?",
    "It hangs on 2 GPUs:\nRuntimeError: CUDA error: out of memory",
    "The download is stuck at 30 %.",
    "How does Lightning detect SLURM?",
    "torchrun --nproc-per-node 2 train.py\nit is stuck",
)


@pytest.mark.parametrize("text", TOLD)
def test_who_tells_of_a_run_that_stands_still_gets_the_usual_cause(text: str) -> None:
    told = told_faults(text, "post")
    assert told and told[0].rule == TOLD[text]
    assert {one.confidence for one in told} == {"likely"} and len(told) <= 2


@pytest.mark.parametrize("text", QUIET)
def test_the_same_words_without_a_fault_say_nothing(text: str) -> None:
    assert told_faults(text, "post") == ()


def test_a_message_of_a_program_comes_before_what_is_told() -> None:
    told = told_faults("DDP hangs on 2 GPUs", "post")
    assert unless_known(told, ()) == told
    assert unless_known(told, told) == ()


@given(st.text(alphabet="2 GPUs hang\n卡住not NCCL INFO via P2P num_workers=0", max_size=300))
def test_no_text_makes_it_raise(text: str) -> None:
    told_faults(text, "post")
    stands_still(text)


def launcher_of(text: str) -> LauncherFacts:
    found = read_started(text)
    assert found is not None
    [commands] = [fact.value for fact in found.facts if fact.path == "launcher.commands"]
    assert isinstance(commands, tuple)
    return LauncherFacts(commands=commands)


@pytest.mark.parametrize(
    ("command", "flags"),
    {
        "mpirun -np 4 -H 10.240.31.120:2,10.240.30.206:2 python a.py": "--mca btl_tcp_if_include 10.240.0.0/16",
        "mpirun -np 4 -mca btl self,tcp -H 192.0.2.1,192.0.2.7 python a.py": "-mca btl_tcp_if_include 192.0.2.0/24",
        "mpirun -np 4 -H n1:2,n2:2 python a.py": "--mca btl_tcp_if_exclude lo,docker0,virbr0",
        "mpirun -np 4 -H 999.0.2.1,192.0.2.7 python a.py": "--mca btl_tcp_if_exclude lo,docker0,virbr0",
    }.items(),
)
def test_open_mpi_is_told_the_network_of_its_hosts(command: str, flags: str) -> None:
    [fix] = mpi_networks(launcher_of(command))
    assert fix.commands[0].startswith(f"mpirun {flags} ") and fix.commands[0].endswith("python a.py")


@pytest.mark.parametrize(
    ("asked", "wanted"),
    {
        "#SBATCH --gres=gpu:p6000:1\n": "#SBATCH --gres=gpu:p6000:4",
        "#SBATCH --gres=gpu:1\n": "#SBATCH --gres=gpu:4",
        "#SBATCH --gres gpu:a40\n": "#SBATCH --gres gpu:a40:4",
        "#SBATCH --gpus-per-node=a100:2\n": "#SBATCH --gpus-per-node=a100:4",
        "#SBATCH --gpus-per-node=2\n": "#SBATCH --gpus-per-node=4",
        "salloc -N 1 --gres=gpu:2\n": "salloc -N 1 --gres=gpu:4",
    }.items(),
)
def test_slurm_is_asked_for_as_many_gpus_in_the_spelling_of_the_job(asked: str, wanted: str) -> None:
    assert [fix.commands for fix in gpus_of_slurm(launcher_of(asked), 4)] == [(wanted,)]
    assert gpus_of_slurm(launcher_of(asked), 1) == ()
