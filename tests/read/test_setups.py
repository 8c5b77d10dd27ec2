"""What a setup lacks, as people tell it, and the same words where nothing is lacking."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.facts.snapshot import TextEvidence
from envcheck.read.gists import told_faults, unless_known

TOLD = {
    "In unserem Container: DataLoader worker (pid(s) 4, 5) exited unexpectedly": "shm-small",
    "容器里训练几步之后 dataloader worker exited unexpectedly": "shm-small",
    "Starting the second training on this server fails, the port is occupied": "launch-port-in-use",
    "多卡训练结束之后再启动，提示端口被占用": "launch-port-in-use",
    "Zwei Rechner mit Gigabit-Ethernet: das Training ist langsamer als auf einem": "nccl-interface",
    "I asked Slurm for 4 GPUs and only one GPU is used": "launch-slurm",
    "It fails to load:\ndocker run --gpus all my/server --tensor-parallel-size 4": "shm-small",
    "docker compose: the GPU is not found in my service": "container-without-gpu",
    "A100 with MIG, torch.cuda.device_count() is 1": "gpu-mig",
    "WSL2, docker: Error 500: named symbol not found": "wsl-driver",
    "NODE_RANK=0 and 1 on the nodes, MASTER_ADDR not changed": "launch-master-address",
}
NOTHING_LACKS = (
    "We plan to use a DataLoader with 8 workers in docker.",
    "Solved: the port was in use, another master_port and training works now.",
    "Which port does tensorboard take when 6006 is in use during training?",
    "Which network do you recommend for two nodes, ethernet or InfiniBand?",
    "I need only one GPU working under Slurm, the partition gives 4.",
    "It fails to load:\ndocker run --gpus all --shm-size 1g my/server --tensor-parallel-size 4",
    "docker compose: CUDA is not found\nservices:\n  a:\n    runtime: nvidia",
    "Is MIG supported on the A30?",
)


@pytest.mark.parametrize("text", TOLD)
def test_a_setup_that_lacks_something_is_told(text: str) -> None:
    told = told_faults(text, "post")
    assert [(one.rule, one.confidence) for one in told] == [(TOLD[text], "likely")]


@pytest.mark.parametrize("text", NOTHING_LACKS)
def test_a_setup_that_lacks_nothing_is_not(text: str) -> None:
    assert not told_faults(text, "post")


def test_a_setup_counts_beside_the_message_that_it_explains() -> None:
    told = told_faults("docker compose: the GPU is not found in my service", "post")
    assert unless_known(told, (TextEvidence("post", "", "torch-cuda-unavailable", "cuda-says-false"),)) == told
    assert unless_known(told, (TextEvidence("post", "", "torch-abi", "other"),)) == ()


@given(st.text(alphabet="MIG docker run --tp 2\n端口占用slurm one GPU than nodes", max_size=300))
def test_no_post_makes_the_reader_raise(text: str) -> None:
    told_faults(text, "post")
