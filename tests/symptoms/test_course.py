"""What became of a message."""

from __future__ import annotations

import pytest

from envcheck.symptoms.course import at_warning_level, outlived, proposed, said_to_work, without_field_lists, without_retries

WAIT = "[W socket.cpp:601] [c10d] The client socket has failed to connect to [node0]:29500 (errno: 111 - Connection refused)."
FAILED = "[E socket.cpp:610] [c10d] The client socket has failed to connect to any network address of (node0, 29500)."


@pytest.mark.parametrize(
    "sign",
    [
        "node0:1:2 [0] NCCL INFO comm 0x55 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 1000 - Init COMPLETE",
        "NCCL version 2.18.6+cuda12.1",
        "epoch 1 step 100 loss 0.31",
        "{'loss': 0.31, 'step': 4}",
        " 12%|███       | 120/1000 [00:03<00:22, 40.1it/s]",
    ],
)
def test_warnings_of_the_meeting_go_once_the_ranks_have_met(sign: str) -> None:
    assert outlived(f"{WAIT}\n{sign}\nKeyError: 'f1'") == f"\n{sign}\nKeyError: 'f1'"


def test_what_comes_after_the_last_sign_stays() -> None:
    assert outlived(f"loss: 0.3\n{WAIT}") == f"loss: 0.3\n{WAIT}"


def test_an_error_stays_and_so_does_a_warning_without_a_sign() -> None:
    assert outlived(f"{FAILED}\nloss: 0.3") == f"{FAILED}\nloss: 0.3"
    assert outlived(f"{WAIT}\nRuntimeError: timed out") == f"{WAIT}\nRuntimeError: timed out"


def test_an_earlier_start_that_failed_is_survived_where_another_error_ends_the_run() -> None:
    end = "Traceback (most recent call last):\nKeyError: 'f1'"
    assert outlived(f"{FAILED}\nloss: 0.3\n{end}") == f"\nloss: 0.3\n{end}"
    assert outlived(f"RuntimeError: Address already in use\nloss: 0.3\n{end}") == f"\nloss: 0.3\n{end}"
    assert FAILED in outlived(f"{end}\nloss: 0.3\n{FAILED}")


@pytest.mark.parametrize(
    ("text", "works"),
    [
        ("nvcc: command not found here, but training runs.", True),
        ("RX 580. Works well.", True),
        ("Everything works until the second epoch", False),
        ("It works, but not on two GPUs", False),
        ("It works on one machine. RuntimeError: no", False),
        ("It runs out of memory", False),
    ],
)
def test_who_says_that_all_goes_well(text: str, works: bool) -> None:
    assert said_to_work(text) is works


def test_a_person_may_say_that_it_runs() -> None:
    assert outlived(f"Training runs, but this appears:\n{WAIT}") == "Training runs, but this appears:\n"
    assert WAIT in outlived(f"It runs out of memory. Before that:\n{WAIT}")


def test_levels() -> None:
    assert at_warning_level(WAIT) and at_warning_level("[rank0]:[W404 00:15:21.693690333 ProcessGroupNCCL.cpp:4561] using GPU 0")
    assert not at_warning_level(FAILED) and not at_warning_level("torch/cuda/__init__.py:52: UserWarning: CUDA initialization")


def test_proposals() -> None:
    assert proposed("Feature request: name the port in `RuntimeError: Address already in use`")
    assert proposed("### 🚀\nWe see 'Address already in use'. Could the message name the port?")
    assert proposed("# docs(cli): say that the card of that name ends in cudaErrorNoKernelImageForDevice")
    assert proposed("# Pin NumPy in CI\n\nFixes:\n```\nRuntimeError: Numpy is not available\n```")
    assert not proposed("raise RendezvousConnectionError( The connection to the C10d store has failed.\n\nmy job script: srun torchrun")
    assert not proposed("I followed the docs: cudaErrorNoKernelImageForDevice")
    assert proposed("# [core] Reword the text of CUDA_ERROR_SYSTEM_NOT_READY\n\nIt names the fabric manager.")
    assert proposed("Name the port\n\nCloses #812\n\nRuntimeError: Address already in use")
    assert proposed("Name the port\n\nWith this PR RuntimeError: Address already in use says which.")
    assert not proposed("the port is blocked by the other training, I could not find in the documentation how to choose one")
    assert not proposed("I moved transformers up, and since then it can't be used: undefined symbol: _ZN2at4_ops")
    assert proposed("Some jobs go on after RuntimeError: Timed out. There should be logic that ends such runs.")
    assert not proposed("- [x] Bug report\n- [ ] Feature request\n\nRuntimeError: Address already in use")
    assert proposed("- [ ] Bug report\n- [x] Feature request\n\nRuntimeError: Address already in use")
    assert proposed("# [NCCL] Handle a refused connection\n\nToday the rank ends with RuntimeError: Address already in use.")
    assert proposed("Print what the driver said\n\nThe call ends in cudaErrorNoDevice, and nobody sees why.")
    assert proposed("import order\n\npartially initialized module 'torch' has no attribute 'cuda'\n\nTest Plan: CI")
    assert not proposed("Fix for RuntimeError: Address already in use? It ends each run here.")
    assert not proposed("# Fix needed\n\nmy run ends with RuntimeError: Address already in use")
    assert not proposed('Could the message be wrong?\nTraceback (most recent call last):\n  File "a.py", line 1')
    assert not proposed("RuntimeError: Address already in use")


def test_what_a_help_text_says_of_a_field_is_no_failure() -> None:
    field = '"remapped_rows.failure"\nWhether a row remapping failure happened.\n\nSection about rows\nRows.\n\n'
    listed = f'List of valid properties to query for the switch "--query-gpu":\n\n{field}'
    xid = "NVRM: Xid (PCI:0000:3b:00): 64, Row Remapping Failure"
    assert without_field_lists(f"{xid}\n\n{listed}{xid}").split() == [*xid.split(), *xid.split()]
    assert without_field_lists(f"{listed}{xid}").count("\n") == listed.count("\n"), "lines keep their place"
    assert without_field_lists('"remapped_rows.failure"\nRow remapping failure') == '"remapped_rows.failure"\nRow remapping failure'


AGAIN = (
    "WARNING: Retrying (Retry(total=4, connect=None)) after connection broken by 'ReadTimeoutError(\"HTTPSConnectionPool("
    "host='files.pythonhosted.org', port=443): Read timed out. (read timeout=15)\")': /packages/torch.whl\n"
)


def test_what_an_installer_asked_for_again_and_got_is_of_no_account() -> None:
    got = "  Downloading torch-2.5.1.whl (906.5 MB)\nSuccessfully installed torch-2.5.1\n"
    assert without_retries(f"Collecting torch\n{AGAIN}{AGAIN}{got}") == f"Collecting torch\n\n\n{got}"
    failed = f"{AGAIN}ERROR: Could not find a version that satisfies the requirement torch\n"
    assert without_retries(failed) == failed
    assert without_retries(f"{failed}{got}") == f"{failed}{got}", "what was installed after it was another thing"
    assert without_retries(f"{got}{failed}") == f"{got}{failed}"
