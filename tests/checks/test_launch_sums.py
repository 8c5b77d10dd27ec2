"""What was started against what failed: the first finding, and the user's own command, corrected."""

from __future__ import annotations

import pytest

from envcheck.commands.diagnose import Given, diagnose
from envcheck.engine.rule import Severity
from envcheck.read.clean import clean
from envcheck.report.report import Report
from envcheck.report.session import rule_session

ORDINAL = "\nRuntimeError: CUDA error: invalid device ordinal\n"
TAKEN = "\nRuntimeError: The server socket has failed to bind to [::]:{} (errno: 98 - Address already in use).\n"
NO_RANK = "\nValueError: Error initializing torch.distributed using env:// rendezvous: environment variable RANK expected, but not set\n"
LATE = "\ntorch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 1/2 clients joined.\n"


def diagnosed(text: str) -> Report:
    given = Given(rule_session())
    given.take_text(clean(text), "log")
    return diagnose(given)[0]


def first(report: Report) -> tuple[str | None, str]:
    """The rule of the first finding, and all that its fixes say."""
    loud = [one for one in report.findings if one.finding.severity is not Severity.INFO]
    if not loud:
        return None, ""
    said = [fix.text for fix in loud[0].fixes] + [line for fix in loud[0].fixes for line in fix.commands.shell]
    return loud[0].finding.rule, "\n".join(said)


RANKS = "visible-devices-out-of-range"


@pytest.mark.parametrize(
    ("text", "rule", "fix"),
    [
        (
            "CUDA_VISIBLE_DEVICES=1,2 torchrun --nproc_per_node 4 t.py --lr 1" + ORDINAL,
            RANKS,
            "CUDA_VISIBLE_DEVICES=1,2 torchrun --nproc_per_node 2 t.py --lr 1",
        ),
        (
            "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-aaaaaaaa-1111-2222-3333-444444444444)\n$ deepspeed --num_gpus=8 t.py" + ORDINAL,
            RANKS,
            "deepspeed --num_gpus=1 t.py",
        ),
        (
            "export CUDA_VISIBLE_DEVICES=0,1\naccelerate launch --num_machines 2 --num_processes 8 t.py" + ORDINAL,
            RANKS,
            "accelerate launch --num_machines 2 --num_processes 4 t.py",
        ),
        (
            "python -m torch.distributed.run --nproc-per-node=8 t.py" + ORDINAL,
            RANKS,
            "python -m torch.distributed.run --nproc-per-node=gpu t.py",
        ),
        (
            "os.environ['CUDA_VISIBLE_DEVICES'] = '3'\nmp.spawn(f, nprocs=2)" + ORDINAL,
            RANKS,
            "In the code: nprocs=1.",
        ),
        (
            "srun -n 4 --ntasks-per-node=4 --gres=gpu:4 torchrun --nproc_per_node=4 t.py" + TAKEN.format(29500),
            "launch-slurm",
            "srun -n 1 --ntasks-per-node=1 --gres=gpu:4 torchrun --nproc_per_node=4 t.py",
        ),
        (
            "#SBATCH -N 2\n#SBATCH -n 8\nsrun accelerate launch t.py" + TAKEN.format(29500),
            "launch-slurm",
            "srun --ntasks-per-node=1 --ntasks=2 accelerate launch t.py",
        ),
        (
            "mpirun -np 4 torchrun --nproc_per_node=4 t.py" + TAKEN.format(29500),
            "launch-port-in-use",
            "\ntorchrun --nproc_per_node=4 t.py",
        ),
        (
            "torchrun --nproc_per_node=2 --master_port=29507 a.py &\ntorchrun --nproc_per_node=2 --master_port=29507 b.py"
            + TAKEN.format(29507),
            "launch-port-in-use",
            "torchrun --nproc_per_node=2 --master_port=29508 b.py",
        ),
        (
            "deepspeed --num_gpus 2 t.py --master_port 5" + TAKEN.format(29500),
            "launch-port-in-use",
            "deepspeed --master_port 29501 --num_gpus 2 t.py --master_port 5",
        ),
        (
            "python t.py --cfg a" + NO_RANK,
            "launch-env-incomplete",
            "torchrun --standalone --nproc-per-node=gpu t.py --cfg a",
        ),
        (
            "CUDA_VISIBLE_DEVICES=4,5 python3 t.py" + NO_RANK,
            "launch-env-incomplete",
            "CUDA_VISIBLE_DEVICES=4,5 torchrun --standalone --nproc-per-node=2 t.py",
        ),
        (
            "srun -N1 -n 4 python t.py" + NO_RANK,
            "launch-env-incomplete",
            "srun -N1 -n 4 bash -c 'RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID python t.py'",
        ),
        (
            "#SBATCH --ntasks=4\n#SBATCH --gpus-per-task=1\nsrun python t.py" + ORDINAL,
            "launch-slurm",
            "#SBATCH --gpus-per-node=4",
        ),
        (
            "#SBATCH --nodes=2\ntorchrun --nnodes=2 --node_rank=$SLURM_NODEID t.py" + LATE,
            "launch-slurm",
            "srun --ntasks-per-node=1 bash -c 'torchrun --nnodes=2 --node_rank=$SLURM_NODEID t.py'",
        ),
        (
            "#SBATCH --nodes=2\ntorchrun --nnodes=$SLURM_NNODES --rdzv_backend=c10d t.py\nOn two nodes this does not work.",
            "launch-slurm",
            "srun --ntasks-per-node=1 torchrun --nnodes=$SLURM_NNODES --rdzv_backend=c10d t.py",
        ),
    ],
)
def test_the_fix_is_the_users_command(text: str, rule: str, fix: str) -> None:
    named, said = first(diagnosed(text))
    assert named == rule
    assert fix in said


@pytest.mark.parametrize(
    "text",
    [
        "CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=4 t.py",
        "srun -n 8 torchrun --nproc_per_node=8 t.py",
        "mpirun -np 8 python t.py\nstep 1 loss 2.0\nstep 2 loss 1.9",
        "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\nsrun torchrun --nnodes=2 --nproc_per_node=8 t.py",
        "kind: Pod\nspec:\n  containers:\n  - command: [torchrun, --nproc_per_node=8, t.py]\n    resources: {limits: {nvidia.com/gpu: 2}}",
    ],
)
def test_commands_alone_prove_nothing(text: str) -> None:
    assert first(diagnosed(text)) == (None, "")


@pytest.mark.parametrize(
    "text",
    [
        "CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=2 t.py" + ORDINAL,  # as many as there are
        "srun -N 2 --ntasks-per-node=1 torchrun --nnodes=2 --nproc_per_node=4 t.py" + TAKEN.format(29500),  # one launcher a node
        "srun -N 4 -n 4 torchrun --nnodes=4 --nproc_per_node=4 t.py" + TAKEN.format(29500),
        "mpirun -np 2 -H a,b torchrun --nnodes=2 --nproc_per_node=4 t.py" + TAKEN.format(29500),
        "srun -n $N torchrun --nproc_per_node=4 t.py" + TAKEN.format(29500),  # not known
    ],
)
def test_a_sum_that_fits_is_not_blamed(text: str) -> None:
    shown = [one.finding.message for one in diagnosed(text).findings]
    assert shown and not [one for one in shown if "starts" in one or "tasks" in one]


def test_a_stranger_s_log_gives_no_command_that_runs_more() -> None:
    _, said = first(diagnosed("CUDA_VISIBLE_DEVICES=0 torchrun --nproc_per_node=2 t.py $(touch /tmp/x)" + ORDINAL))
    assert "Start one process" in said and "touch" not in said


def test_a_file_of_an_earlier_run() -> None:
    text = "init_process_group('gloo', init_method='file:///s/a b')\ninit_process_group('gloo', init_method='file:///s/x', world_size=2)\n"
    text += "RuntimeError: Timed out initializing process group in store based barrier on rank: 0, "
    text += "for key: store_based_barrier_key:1 (world_size=2, worker_count=4, timeout=0:30:00)"
    named, said = first(diagnosed(text))
    assert named == "launch-world-size"
    assert "rm -f /s/x" in said
    named, said = first(diagnosed(text.replace("file:///", "tcp://")))
    assert named == "launch-world-size" and "rm -f" not in said


@pytest.mark.parametrize(
    ("command", "counted", "fix"),
    [
        (
            "torchrun --nnodes=2 --nproc_per_node=8 --rdzv_endpoint=n1:29500 t.py",
            "1/2",
            "torchrun --nnodes=2 --nproc_per_node=8 --rdzv_endpoint=n1:29500 t.py",
        ),
        ("torchrun --nnodes 2 --node_rank 0 --nproc_per_node 8 t.py", "8/16", "torchrun --nnodes 2 --node_rank 1 --nproc_per_node 8 t.py"),
    ],
)
def test_a_node_that_did_not_come(command: str, counted: str, fix: str) -> None:
    named, said = first(diagnosed(f"{command}{LATE.replace('1/2', counted)}"))
    assert named == "launch-world-size"
    assert fix in said
    named, said = first(diagnosed(f"{command}{LATE.replace('1/2', '3/16')}"))
    assert "on the other nodes" not in said  # no whole node


def test_windows_and_libuv() -> None:
    error = "RuntimeError: use_libuv was requested but PyTorch was build without libuv support"
    assert "WSL2" in first(diagnosed(f"OS: Windows 11\ntorchrun --nproc_per_node 2 t.py\n{error}"))[1]
    assert "$env:USE_LIBUV = '0'" in first(diagnosed(f"OS: Windows 11\npython t.py\n{error}"))[1]


def test_tasks_of_which_each_starts_all_ranks() -> None:
    text = """$ srun -N1 -n4 --gres=gpu:4 python train.py --dist
  File "train.py", line 7, in <module>
    mp.spawn(work, nprocs=gpus)
RuntimeError: Timed out initializing process group in store based barrier on rank: 3, for key: store_based_barrier_key:1 \
(world_size=4, worker_count=16, timeout=0:30:00)
"""
    rule, fix = first(diagnosed(text.replace("\\\n", "")))
    assert rule == "launch-world-size"
    assert "srun -N1 -n1 --gres=gpu:4 python train.py --dist" in fix


def test_of_two_ranks_one_has_no_gpu() -> None:
    rule, fix = first(diagnosed("$ torchrun --nproc-per-node=2 train.py" + ORDINAL))
    assert rule == RANKS
    assert "torchrun --nproc-per-node=1 train.py" in fix


@pytest.mark.parametrize(
    ("gpus", "fix"),
    [("GPU: 2x RTX 4090\n", "accelerate launch --num_processes"), ("", "accelerate launch --num_processes=1 train.py")],
)
def test_accelerate_counts_by_its_own_file(gpus: str, fix: str) -> None:
    rule, said = first(diagnosed(gpus + "$ accelerate launch --config_file conf.yaml run.py" + ORDINAL))
    assert rule == RANKS
    assert fix in said
    assert "num_processes" in said
