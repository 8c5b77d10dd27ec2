"""A text is called healthy only where its last word is one of a program that goes well, whatever else is known of it."""

from __future__ import annotations

import time

import pytest

from envcheck.commands import diagnose
from envcheck.report.session import RuleSession
from envcheck.symptoms.last_word import last_word
from envcheck.tables.folders import rules_folder

BY = RuleSession(folders=(rules_folder(),))
TABLE = (
    "Mon Nov 30 10:00:00 2026\n"
    "+-----------------------------------------------------------------------------------------+\n"
    "| NVIDIA-SMI 580.95.05              Driver Version: 580.95.05      CUDA Version: 13.0     |\n"
    "+-----------------------------------------+------------------------+----------------------+\n"
    "|   0  NVIDIA H100 80GB HBM3          On  |   00000000:18:00.0 Off |                    0 |\n"
    "| N/A   31C    P0             70W /  700W |       0MiB /  81559MiB |      0%      Default |\n"
    "+-----------------------------------------+------------------------+----------------------+\n"
)
STEPS = "step 10 loss 2.31 lr 1e-4\nstep 20 loss 2.11 lr 1e-4\n"
OMP = (
    "W1130 10:00:00.000000 7 torch/distributed/run.py:792] Setting OMP_NUM_THREADS environment variable for each process to be 1 in "
    "default, to avoid your system being overloaded, please further tune the variable for optimal performance in your application.\n"
)

UNKNOWN = """\
salloc: Job allocation 8812 has been revoked.
8812.batch        batch             OUT_OF_ME+    0:125
8812              train             CANCELLED+      0:0
train-0   0/1     Init:Error   0          2m
train-0   0/1     InvalidImageName   0    2m
0/4 nodes are available: 4 node(s) had untolerated taint {nvidia.com/gpu: present}.
Finished: ABORTED
Job 12.0 Abnormal termination (signal 9)
cat: /mnt/data/shard-0001.tar: Stale file handle
ls: reading directory '/scratch': Input/output error
touch: cannot touch 'out.pt': Read-only file system
df: /mnt/s3: Transport endpoint is not connected
Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?
denied: requested access to the resource is denied
unauthorized: authentication required
manifest unknown: manifest unknown
ssh: connect to host node2 port 22: Connection refused
root@node2: Permission denied (publickey,password).
-- Configuring incomplete, errors occurred!
corrupted size vs. prev_size
[rank: 0] Received SIGTERM: 15
no heartbeat from rank 5 for 600 s, shutting the job down
 iteration 120/ 1000 | lm loss: NAN | grad norm: NAN |
죽었음
Помилка сегментації
Der Lauf wurde von der Warteschlange beendet
2026-11-30 10:14:22,101 INFO tune.py:1009 -- Trial train_fn_8f_00000 errored after 0 iterations
We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cached files.
wandb: run frosty-7 crashed
a word that nobody knows
""".splitlines()

ENDS = """\
step 30 loss 1.97 lr 1e-4
{'loss': 0.31, 'epoch': 2.0}
100%|##########| 500/500 [10:00<00:00]
Training finished.
Training completed. 0 errors.
`Trainer.fit` stopped: `max_epochs=10` reached.
4 passed, 0 failed in 2.11s
Model saved to out/model.safetensors
exit code 0
INFO:     Application shutdown complete.
[2026-11-30 10:12:13,101] [INFO] [launch.py:351:main] Process 4013 exits successfully.
8812              train             COMPLETED      0:0
wandb: Find logs at: ./wandb/run-20261130_101201-x/logs
(base) user@node1:~$
$ nvidia-smi
一切正常
""".splitlines()


def code(text: str) -> int:
    given = diagnose.Given(BY)
    given.take_raw(text, "log")
    return diagnose.diagnose(given)[0].exit_code


@pytest.mark.parametrize("line", UNKNOWN)
def test_what_nobody_knows_is_not_called_healthy(line: str) -> None:
    """Nor with what says nothing of it behind it: tables, prompts, warnings that mean no harm."""
    for before in (TABLE + STEPS, OMP + STEPS):
        assert code(f"{before}{line}\n") == 3, before
    assert code(f"{STEPS}{line}\n{TABLE}") == 3
    assert code(f"{STEPS}{line}\n$ nvidia-smi\n{TABLE}user@node1:~$ \n") == 3
    assert code(f"{STEPS}{line}\n{OMP}") == 3


@pytest.mark.parametrize("line", ENDS)
def test_a_program_that_goes_well_is(line: str) -> None:
    for before in (TABLE + STEPS, OMP + STEPS, f"{OMP}Loading 12 shards of the data set\n{STEPS}"):
        assert code(f"{before}{line}\n") == 0, before


def test_a_report_alone_has_no_last_word() -> None:
    assert code(TABLE) == 0
    assert last_word(["PyTorch version: 2.7.1+cu126", "Libc version: glibc-2.35", "[pip3] numpy==2.1.0"], ["collect_env"]) == ""
    assert last_word(["PyTorch version: 2.7.1+cu126", "docker: it is gone"], ["nvidia-smi (table)"]) == "docker: it is gone"


REPORT = """\
Collecting environment information...
PyTorch version: 2.7.1+cu126
OS: Ubuntu 22.04.5 LTS (x86_64)
Python version: 3.11.7 (64-bit runtime)
Is CUDA available: True
CUDA runtime version: 12.6.20
GPU models and configuration: GPU 0: NVIDIA H100 80GB HBM3
Nvidia driver version: 580.95.05
cuDNN version: Could not collect
Vulnerability Tsx async abort: Not affected

Versions of relevant libraries:
[pip3] numpy==2.1.0
[pip3] torch==2.7.1+cu126
"""


@pytest.mark.parametrize("line", [*UNKNOWN[::3], "run.sh: line 3: MASTER_ADDR: unbound variable", "139", "Error from server: no such pod"])
def test_behind_a_report_a_line_with_a_colon_is_none_of_its_own(line: str) -> None:
    assert code(f"{REPORT}\n{line}\n") == 3


def test_a_report_of_an_environment_is_healthy() -> None:
    assert code(REPORT) == 0


@pytest.mark.parametrize(
    "end", ["Done.", "Job finished at Mon Nov 30 10:00:00 2026", "Emergency checkpoint saved to /ckpt", "Finished: UNSTABLE"]
)
def test_what_a_script_says_at_its_end_in_any_case_decides_nothing(end: str) -> None:
    assert code(f"{TABLE}{STEPS}salloc: Job allocation 8812 has been revoked.\n{end}\n") == 3
    assert code(f"{TABLE}{STEPS}Done.\n") == 0


@pytest.mark.parametrize(
    "line",
    [
        "epoch 1 train_loss: nan val_loss: nan",
        "{'loss': 0.0, 'grad_norm': nan, 'epoch': 1.0}",
        "step 3 loss=NaN",
        "lm loss: NAN",
        "step 3 loss inf",
        '{"step": 3, "loss": Infinity}',
        '{"step": 3, "loss": null}',
        "step 3 loss 1.#INF",
    ],
)
def test_a_training_that_ends_with_no_number_is_not_healthy(line: str) -> None:
    for before in (TABLE + STEPS, OMP):
        assert code(f"{before}{line}\n") == code(f"{before}{line}\nTraining finished.\n") == 3, before
    assert code(f"{TABLE}best_val_loss=inf max_grad_norm=inf\n{STEPS}Training finished.\n") == 0


@pytest.mark.parametrize("line", ["worker 3 (pid 12) finished with code 7", "3 finished, 1 not", "training completed with status 1"])
def test_no_good_word_heals_the_line_that_it_stands_in(line: str) -> None:
    assert code(f"{OMP}{STEPS}Training finished.\n{line}\n") == code(f"{OMP}{STEPS}{line}\nTraining finished.\n") == 3
    assert code(f"{OMP}{STEPS}Training finished.\nworker 3 (pid 12) finished with code 0\n") == 0


def test_each_file_has_its_own() -> None:
    given = diagnose.Given(BY)
    given.take_raw(f"{STEPS}salloc: Job allocation 8812 has been revoked.\n", "a.log")
    given.take_raw(f"{TABLE}{STEPS}Training finished.\n", "b.log")
    assert diagnose.diagnose(given)[0].exit_code == 3


@pytest.mark.parametrize("piece", ["= ", "=", "a, ", "A ", "(x) ", "GPU0 ", '"a": ', "$ ", "exit code ", "NVIDIA,", "[", "Aa:"])
def test_it_is_linear(piece: str) -> None:
    def seconds(times: int) -> float:
        began = time.process_time()
        last_word([piece * times] * 40, ["collect_env"])
        return time.process_time() - began

    seconds(10)
    assert min(seconds(4000) for _ in range(3)) < 40 * min(seconds(100) for _ in range(3)) + 0.05
