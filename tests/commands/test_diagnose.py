"""`envcheck diagnose`: from files to a named cause, or to the one thing that would decide."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from report_samples import machine

from envcheck.cli import main
from envcheck.commands import diagnose
from envcheck.errors import UsageError
from envcheck.facts.snapshot import Missing
from envcheck.options import parse
from envcheck.render.json_v1 import render_record
from envcheck.report.session import IgnoreSetting, rule_session
from envcheck.tables.toml import load_toml

TESTS = Path(__file__).parents[1]
SHARED = Path(os.environ.get("ENVCHECK_SHARED", TESTS.parents[1] / "shared"))
DRIVER = "RuntimeError: The NVIDIA driver on your system is too old (found version 12020). Please update your GPU driver\n"


def run(tmp_path: Path, *texts: str, facts: str | None = None, **flags: Any) -> tuple[int, dict[str, Any]]:
    """The exit code and the JSON document of one diagnosis."""
    words = ["--json", "-o", str(tmp_path / "out.json")]
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.txt").write_text(text, encoding="utf-8")
        words.append(str(tmp_path / f"{number}.txt"))
    if facts is not None:
        (tmp_path / "facts.toml").write_text(facts, encoding="utf-8")
        words += ["--facts", str(tmp_path / "facts.toml")]
    code = diagnose.execute(arguments(words))
    return code, json.loads((tmp_path / "out.json").read_text())


def named(document: dict[str, Any]) -> list[str]:
    return [one["rule"] for one in document["findings"] if one["severity"] in ("error", "warning")]


def test_an_issue_names_the_driver(tmp_path: Path) -> None:
    code, document = run(tmp_path, (TESTS / "samples" / "logs" / "issue.md").read_text())
    assert code == document["exit_code"] == 1
    assert document["verdict"] == "fail"
    assert named(document)[0] == "driver-too-old"
    assert document["read"]["files"] == [{"name": "0.txt", "kinds": ["collect_env", "nvidia-smi (table)", "torch messages", "traceback"]}]
    assert document["read"]["sources"]["driver.version"]["text"].startswith(("| NVIDIA-SMI", "Nvidia driver version"))


def test_facts_tell_two_causes_of_one_message_apart(tmp_path: Path) -> None:
    """Error 804: in a container the image's cuda-compat; on bare metal a kernel module that is older than libcuda."""
    text = "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 804: forward compatibility was attempted on non supported HW\n"
    _, inside = run(tmp_path, text, facts='container = true\ngpus = [{ name = "NVIDIA GeForce RTX 3090" }]\n')
    _, bare = run(tmp_path, text, facts='container = false\ngpus = [{ name = "Quadro RTX 6000", cc = "7.5" }]\n')
    assert named(inside)[0].startswith("cuda-compat")
    assert named(bare)[0] == "driver-library-mismatch"


def test_harmless_text_is_no_finding(tmp_path: Path) -> None:
    text = "[W socket.cpp:401] [c10d] The server socket cannot be initialized on [::]:29500 (errno: 97 - Address family not supported by protocol).\n"  # noqa: E501
    code, document = run(tmp_path, text)
    assert (code, named(document)) == (0, [])
    assert document["read"]["harmless"][0]["id"] == "errno-97"


OMP = "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded\n"


def test_a_harmless_line_does_not_excuse_an_error_beside_it(tmp_path: Path) -> None:
    failed = OMP + 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\nRuntimeError: the moon is full\n'
    code, document = run(tmp_path, failed)
    assert (code, document["verdict"], named(document)) == (3, "inconclusive", [])
    assert document["read"]["harmless"]
    assert run(tmp_path, OMP)[0] == 0
    asserted = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\nRuntimeError: CUDA error: device-side assert triggered\n'  # noqa: E501
    code, document = run(tmp_path, asserted)
    assert (code, document["verdict"], named(document)) == (3, "inconclusive", [])
    assert document["because"][0] == "the program failed by a fault of its own"
    assert document["because"][1].startswith("to decide, read: RuntimeError: CUDA error: device-side assert triggered: An index")


BANNER = """\
bin /v/lib/python3.10/site-packages/bitsandbytes/libbitsandbytes_cuda117.so
CUDA SETUP: CUDA runtime path found: /usr/local/cuda/lib64/libcudart.so.11.0
CUDA SETUP: Detected CUDA version 117
CUDA SETUP: Loading binary /v/lib/python3.10/site-packages/bitsandbytes/libbitsandbytes_cuda117.so...
"""


def test_the_banner_of_bitsandbytes_is_no_failure(tmp_path: Path) -> None:
    steps = "step 1 loss 2.3\nTraining finished.\n"
    assert run(tmp_path, OMP + BANNER + steps)[0] == 0
    code, document = run(tmp_path, BANNER + "CUDA SETUP: Something unexpected happened.\n")
    assert (code, named(document)) == (1, ["bitsandbytes-broken"])
    code, document = run(tmp_path, BANNER.replace("cuda117.so...", "cuda117.so: cannot open shared object file"))
    assert code == 1 and "bitsandbytes-broken" in named(document)


@pytest.mark.parametrize("line", ["step 4 loss inf", "mce: [Hardware Error]: Machine check events logged", "worker 3 finished with code 7"])
def test_no_step_and_no_end_heals_a_failure(tmp_path: Path, line: str) -> None:
    for end in ("step 5 loss 2.0\n", "Training finished.\n", ""):
        assert run(tmp_path, f"{OMP}step 1 loss 2.3\n{line}\n{end}")[0] == 3, end


def test_a_text_of_which_nothing_is_known_is_not_called_sound(tmp_path: Path) -> None:
    code, document = run(tmp_path, "it stops after a minute\n", facts=NEUTRAL)
    assert (code, document["verdict"], named(document)) == (3, "inconclusive", [])
    assert run(tmp_path, "\n", facts=NEUTRAL)[0] == 0


def test_a_system_error_in_a_container_is_weighed_with_the_nodes(tmp_path: Path) -> None:
    text = "RuntimeError: NCCL Error 2: unhandled system error\n"
    inside = 'container = true\ngpu_count = 4\ngpus = [{ name = "NVIDIA A40" }]\n'
    assert named(run(tmp_path, text, facts=inside)[1]) == ["nccl-shm-small"]
    for other in ("nodes = 2\n" + inside, inside.replace("true", "false"), "gpu_count = 1\ncontainer = true\n"):
        code, document = run(tmp_path, text, facts=other)
        assert (code, named(document)) in ((3, []), (3, ["nccl-warning"]))


def test_a_victim_alone_decides_nothing_and_says_what_would(tmp_path: Path) -> None:
    code, document = run(tmp_path, "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n  exitcode  : 1 (pid: 12)\n")
    assert (code, document["verdict"], named(document)) == (3, "inconclusive", [])
    assert "--log-dir" in document["because"][-1]


def test_the_cause_is_named_and_not_the_victim(tmp_path: Path) -> None:
    text = "RuntimeError: Broken pipe\nnode1: NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000\nncclRemoteError: remote process exited or there was a network error\nChildFailedError\n"  # noqa: E501
    code, document = run(tmp_path, text)
    assert (code, named(document)) == (1, ["nccl-duplicate-gpu"])


def test_nothing_known_is_inconclusive(tmp_path: Path) -> None:
    code, document = run(tmp_path, "my dog ate it\n")
    assert (code, named(document)) == (3, [])
    assert document["because"]


SAID = ["NCCL hang with 8 cards", "four cards give different results", "my tool says no CUDA devices", "then I get this error"]
LIKELY = {"NCCL hang with 8 cards": ["nccl-p2p-blocked"]}  # what stands still on how many GPUs: a guess, and no verdict


@pytest.mark.parametrize(
    "words", ["the build fails", "does not work on two nodes", "I cannot import it", "it is stuck", "it crashes", *SAID]
)
def test_who_says_that_it_fails_is_not_told_that_all_is_well(tmp_path: Path, words: str) -> None:
    command = "```\n#SBATCH --nodes=1\ntorchrun --nproc-per-node 2 train.py\n```\n"
    code, document = run(tmp_path, command + words)
    assert (code, document["verdict"], named(document)) == (3, "inconclusive", LIKELY.get(words, []))
    assert run(tmp_path, command + "two epochs, 12 passed, 0 failed")[0] == 0


@pytest.mark.parametrize(
    ("text", "rule", "printed"),
    [
        ("ImportError: libGL.so.1: cannot open shared object file: No such file or directory", "missing-library", "apt install -y libgl1 "),
        (
            "OSError: libpython3.10.so.1.0: cannot open shared object file: No such file or directory",
            "missing-library",
            "apt install -y libpython3.10 ",
        ),
        ("After the epoch it says\nKilled\nand the shell is back", "host-memory-low", "low_cpu_mem_usage"),
        ("OSError: [WinError 1455] Die Auslagerungsdatei ist zu klein", "host-memory-low", "SystemPropertiesPerformance"),
        (
            "torch is 1.13.1\nOSError: /v/torchaudio/lib/libtorchaudio.so: undefined symbol: _ZNK3c107SymBool10guard_boolEPKcl",
            "torch-companion-mismatch",
            "torchaudio==0.13.1",
        ),
        ("Tests hang. It works if I export NCCL_P2P_DISABLE=1.", "nccl-p2p-blocked", "NCCL_P2P_DISABLE"),
        ("OpenBLAS blas_thread_init: pthread_create: Resource temporarily unavailable", "processes-low", "ulimit -u"),
        ("I have a Tesla K40m, torch is 1.4.0, and training crashes", "gpu-too-old-for-torch", "torch==1.2.0"),
        ("ncclSystemError: a call failed\nLast error: No space left on device", "nccl-shm-small", "shm"),
        ("AGX Orin: ImportError: libcuda.so.1: cannot open shared object file: No such file", "driver-missing", "aarch64-linux-gnu/tegra"),
        (
            "ERROR: Cannot install torch==1.13.1 and torchvision==0.15.1 because these package versions have conflicting dependencies.",
            "torch-companion-mismatch",
            "torchvision==0.14.1",
        ),
        (
            "run.sh has\nexport CUDA_VISIBLE_DEVICES=3\nI have an RTX 3080\nRuntimeError: No CUDA GPUs are available",
            "visible-devices-out-of-range",
            "CUDA_VISIBLE_DEVICES=0",
        ),
        (
            "a Slurm job hangs\nGLOBAL_RANK: 0, MEMBER: 1/6\nGLOBAL_RANK: 1, MEMBER: 2/6\n",
            "launch-slurm",
            "srun --nodes=3 --ntasks-per-node=2",
        ),
        (
            "pytorch 1.1.0-py3.7_cuda9.0.176_0 --> 1.3.1-py3.7_cuda10.1.243_0\ntorch.cuda.is_available(): True\nDriver Version: 396.54\n"
            "RuntimeError: cuda runtime error (35) : CUDA driver version is insufficient for CUDA runtime version",
            "driver-too-old",
            "418.39",
        ),
        ("RuntimeError: Torch is not able to use GPU", "torch-cuda-unavailable", "whl/cu126"),
        ("C:\\x> RuntimeError: Distributed package doesn't have NCCL built in", "distributed-unavailable", 'BACKEND = "gloo"'),
        ("RuntimeError: HIP error: no kernel image is available for execution on the device", "rocm-gfx-unsupported", ""),
        ("./deviceQuery\ncudaGetDeviceCount returned 802", "fabric-not-ready", "nvidia-fabricmanager"),
        ("in my pod cudaGetDeviceCount() fails with error code 804", "cuda-compat-unsupported-gpu", "LD_LIBRARY_PATH"),
        ("cuInit(0) -> error 999 since the laptop slept", "nvidia-uvm-missing", "modprobe nvidia_uvm"),
        ("cudaErrorOperatingSystem: OS call failed or operation not supported on this OS", "nvidia-uvm-missing", "/dev/nvidia"),
        (
            "Error: mkl-service + Intel(R) MKL: MKL_THREADING_LAYER=INTEL is incompatible with libgomp-7c85b1e2.so.1 library.",
            "variable-refused",
            "export MKL_THREADING_LAYER=GNU",
        ),
        (
            "pip-install-_x/natten_0123456789abcdef0123456789abcdef/setup.py\", line 3\nModuleNotFoundError: No module named 'torch'",
            "torch-missing",
            "--no-build-isolation natten",
        ),
        (
            "pip install causal-conv1d finds no torch, yet torch 2.5.1 is installed",
            "torch-missing",
            "--no-build-isolation causal-conv1d",
        ),
        (
            "[rank2]: Weights only load failed. [...] GLOBAL argparse.Namespace was not an allowed global by default.",
            "checkpoint-weights-only",
            "weights_only=False",
        ),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'ninja'", "nvcc-host-compiler", "install ninja"),
        ("D:\\src> 'cl.exe' is not recognized as an internal or external command", "nvcc-host-compiler", "BuildTools"),
        (
            "ImportError: DLL load failed while importing libtriton: Das angegebene Modul wurde nicht gefunden.",
            "triton-toolchain",
            "",
        ),
        ("RuntimeError: FlashAttention only supports Ampere GPUs or newer.", "flash-attn-mismatch", "uninstall -y flash-attn"),
        (
            'torch.cuda.is_available()\nos.environ["CUDA_VISIBLE_DEVICES"] = "2"\nnet.cuda()\nIt sits on GPU 0 all the same.',
            "visible-devices-too-late",
            "CUDA_VISIBLE_DEVICES=2 python",
        ),
        (
            "Requirement already satisfied: sympy>=1.13.3 in .\\venv\\Lib\\site-packages (from torch==2.9.1) (1.14.0)\n"
            "Successfully installed torchaudio-2.11.0+cu130\nC:\\v> OSError: [WinError 127] The specified procedure could not be found\n"
            '    _IS_TORCHAUDIO_EXT_AVAILABLE = _load_lib("_torchaudio")',
            "torch-companion-mismatch",
            "torchaudio==2.9.1",
        ),
        (
            "Installed 1 package in 5ms\n - torchaudio==2.6.0\n + torchaudio==2.8.0\ntorch 2.6.0+cu124\n"
            "OSError: /v/torchaudio/lib/libtorchaudio.so: undefined symbol: _ZNK3c1010TensorImpl15incref_pyobjectEv",
            "torch-companion-mismatch",
            "torchaudio==2.6.0",
        ),
        (
            "  • Updating torch (2.0.1 -> 2.1.0)\nRuntimeError: Couldn't load custom C++ ops.\ntorchvision 0.15.2 is in the lock file",
            "torch-companion-mismatch",
            "torchvision==0.16.0",
        ),
        (
            "env1: pytorch   1.3.1   cuda100py37h53c1284_0\ncuda.is_available()==True\n"
            "env2: pytorch   1.4.0   py3.7_cpu_0   pytorch\ncuda.is_available()==False",
            "torch-cpu-build",
            "conda remove cpuonly",
        ),
        (
            "env1:\ntorch         2.3.0+cu121\ntorch.cuda.is_available(): True\nenv2:\ntorch         2.3.0+cpu\n"
            "torch.cuda.is_available(): False",
            "torch-cpu-build",
            "torch==2.3.0 --index-url https://download.pytorch.org/whl/cu121",
        ),
        (
            "UnsatisfiableError: The following specifications were found to be in conflict:\n  - cudatoolkit==8.0=3\n"
            "  - pytorch==0.4.0=py35_cuda9.0.176_cudnn7.1.2_1 -> cudatoolkit=9",
            "no-matching-wheel",
            "conda create -n torch-env pytorch==0.4.0 ",
        ),
        (
            "Package cudatoolkit conflicts for:\npytorch==1.7.1 -> cudatoolkit[version='>=10.1,<10.2']\ncudatoolkit=11.3\n",
            "no-matching-wheel",
            "conda create -n torch-env pytorch==1.7.1 ",
        ),
        (
            "The following packages are incompatible\n├─ pytorch 2.1.0 *_cuda11.8* is requested and can be installed;\n"
            "└─ pytorch-cuda 12.1**  is requested and conflicts with the installable versions",
            "no-matching-wheel",
            "conda create -n torch-env pytorch=2.1.0 ",
        ),
        (
            "C:\\> torch 1.6.0\nImportError: cannot import name '_nt_quote_args' from 'distutils.spawn'",
            "helper-package-mismatch",
            "SETUPTOOLS_USE_DISTUTILS=stdlib",
        ),
        (
            "C:\\x> No matching distribution found for torch==1.13.1",
            "no-matching-wheel",
            "python=3.10",
        ),
        (
            "Collecting torch\n  Could not find a version that satisfies the requirement torch (from versions: )\n"
            "You are using pip version 18.1, however version 23.0 is available.",
            "no-matching-wheel",
            "pip install --upgrade pip",
        ),
        ("g++: fatal error: Killed signal terminated program cc1plus", "host-memory-low", "MAX_JOBS=2"),
        ("torch 2.1.0\nu.h:5:10: fatal error: THC/THCAtomics.cuh: No such file or directory", "extension-abi-mismatch", "Atomic.cuh"),
        (
            "error: failed to remove file `C:\\v\\Lib\\site-packages\\torch\\lib\\c10.dll`: Access is denied. (os error 5)",
            "torch-files-damaged",
            "tasklist /m c10.dll",
        ),
        (
            "Because torchvision (0.16.0) depends on torch (2.1.0)\n and app depends on torch (^2.3.0), torchvision is forbidden.",
            "torch-companion-mismatch",
            "torch==2.1.0 torchvision==0.16.0",
        ),
        ("Quadro M1200, torch 2.8.0+cu128: CUDA error: no kernel image is available", "gpu-too-old-for-torch", "torch==2.8.0+cu126"),
        ("Trying torch 2.9.1+cu128 on an old GTX 960M: no kernel image is available", "gpu-too-old-for-torch", "cu126"),
    ],
)
def test_a_message_ends_in_the_command_that_cures_it(tmp_path: Path, text: str, rule: str, printed: str) -> None:
    _, document = run(tmp_path, text)
    first = document["findings"][0]
    assert first["rule"] == rule
    lines = [line for one in first["fixes"] for line in (one["text"], *(each for many in one["commands"].values() for each in many))]
    assert printed in "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        "# [CI] Pin numpy in the image\nhttps://github.com/example/proj/actions/runs/777 says\nRuntimeError: no kernel image is available",
        "Lightning runs, stuck no more\nGLOBAL_RANK: 0, MEMBER: 1/4\nGLOBAL_RANK: 1, MEMBER: 2/4\nepoch 1 step 10 loss 0.71",
        "The script sets\nexport CUDA_VISIBLE_DEVICES=2\non a box with 4x RTX 3090; torch.cuda.is_available() is True",
        "Tesla K80, torch 1.5.0; torch.cuda.is_available() is True",
        "GPU: RX 580, Windows 11, torch-directml. Works well. Is a Python 3.13 release planned?",
    ],
)
def test_what_is_near_a_failure_is_called_none(tmp_path: Path, text: str) -> None:
    assert named(run(tmp_path, text)[1]) == []


def test_who_says_that_it_runs_is_not_called_broken(tmp_path: Path) -> None:
    for text in ("nvcc: command not found, and yet training runs. Do I need the toolkit?", "GPU RX 580, torch-directml. Works well."):
        assert run(tmp_path, text)[0] != 1
    assert run(tmp_path, "Training runs on one GPU, but on two: NCCL WARN Duplicate GPU detected : rank 0 and rank 1")[0] == 1


OWN = "of which 448.31 MiB is free. Process 99120 has 23.23 GiB memory in use. Of the allocated memory {} GiB is allocated by PyTorch, and"


@pytest.mark.parametrize(("allocated", "first"), [("22.70", "gpu-out-of-memory"), ("2.10", "gpu-busy")])
def test_in_a_container_the_one_process_is_the_program_itself(tmp_path: Path, allocated: str, first: str) -> None:
    text = f"CUDA out of memory. Tried to allocate 896.00 MiB. GPU 0 has a total capacity of 23.68 GiB {OWN.format(allocated)}"
    assert named(run(tmp_path, text)[1])[0] == first


def test_who_speaks_of_a_machine_and_a_command_is_not_told_that_all_is_well(tmp_path: Path) -> None:
    said = "On my machine with an RTX 3090 `python train.py` got slow"
    assert run(tmp_path, said)[0] == 3
    assert run(tmp_path, "python train.py --epochs 3   # RTX 3090")[0] == 0


def test_a_healthy_report_passes(tmp_path: Path) -> None:
    code, document = run(tmp_path, (TESTS / "samples" / "collect_env" / "vllm-sections.txt").read_text())
    assert (code, document["verdict"]) == (0, "pass")


def test_who_says_that_torch_sees_nothing_is_not_told_that_all_is_well(tmp_path: Path) -> None:
    report = (TESTS / "samples" / "collect_env" / "vllm-sections.txt").read_text()
    code, document = run(tmp_path, f"In my program torch.cuda.is_available() is always False.\n\n{report}")
    assert (code, document["verdict"]) == (3, "inconclusive")


def test_a_torch_of_unknown_version_is_replaced_whichever_it_is(tmp_path: Path) -> None:
    """pip calls `torch==X` satisfied where X+cpu is installed, so the build is written out."""
    _, document = run(tmp_path, "It happens on windows 11.\nAssertionError: Torch not compiled with CUDA enabled\n")
    lines = [line for fix in document["findings"][0]["fixes"] for line in fix["commands"]["pip"]]
    assert lines
    assert all(re.search(r" torch==[\d.]+\+cu\d{3} --index-url ", line) for line in lines)


NEUTRAL = """os = "Ubuntu 22.04"
python = "3.12"
driver = "580.95.05"
torch = "2.9.0+cu128"
gpus = [{ name = "NVIDIA H100 80GB HBM3", cc = "9.0" }]
"""


@pytest.mark.parametrize(
    ("text", "facts", "rule"),
    [
        ("Failed to initialize NVML: Unknown Error\n", "container = true\n", "container-lost-gpu"),
        ("RuntimeError: Found no NVIDIA driver on your system.\n", "container = true\n", "container-without-gpu"),
        ("No devices were found\n", "", "driver-no-devices"),
        ("CUDA error: all CUDA-capable devices are busy or unavailable\n", "", "gpu-exclusive-mode"),
        ("    HW Power Brake Slowdown : Active\n", "", "gpu-throttled"),
        ("RuntimeError: CUDA error: no kernel image is available for execution on the device\n", "", "extension-arch-mismatch"),
        ("AssertionError: Torch not compiled with CUDA enabled\n", "", "torch-cpu-build"),
    ],
)
def test_what_a_person_names_does_not_silence_a_program(tmp_path: Path, text: str, facts: str, rule: str) -> None:
    _, document = run(tmp_path, text, facts=NEUTRAL + facts)
    assert named(document)[0] == rule


def test_a_script_that_prints_what_there_is_does_no_harm(tmp_path: Path) -> None:
    _, document = run(tmp_path, "CUDA available: True\nMPS available: False\nXPU available: False\n", facts=NEUTRAL)
    assert named(document) == []


def test_rows_out_of_a_package_list(tmp_path: Path) -> None:
    _, document = run(
        tmp_path, "torch                    2.1.2+cpu\ntorchvision              0.16.2+cpu\n", facts='gpus = [{ name = "RTX 3060" }]\n'
    )
    assert named(document) == ["torch-cpu-build"]
    row = "pytorch                   2.4.1           cpu_generic_py310h215b49d_1    conda-forge\n"
    _, document = run(tmp_path, row, facts='gpus = [{ name = "NVIDIA A100" }]\n')
    assert named(document) == ["torch-cpu-build"]


def test_two_files_are_one_machine(tmp_path: Path) -> None:
    report = "PyTorch version: 2.11.0+cu130\nCUDA used to build PyTorch: 13.0\nIs CUDA available: False\nNvidia driver version: 535.183.01\nGPU models and configuration: GPU 0: Tesla T4\n"  # noqa: E501
    code, document = run(tmp_path, report, DRIVER)
    assert code == 1
    assert named(document)[0] == "driver-too-old"
    assert document["facts"]["torch"]["version"] == "2.11.0+cu130"


def test_at_most_four_loud_findings(tmp_path: Path) -> None:
    lines = [
        DRIVER,
        "RuntimeError: CUDA error: uncorrectable ECC error encountered\n",
        "RuntimeError: received 0 items of ancdata\n",
        "RuntimeError: operator torchvision::nms does not exist\n",
        "KeyError: 'LOCAL_RANK'\n",
        "/usr/bin/ld: cannot find -lcuda\n",
        "AssertionError: Torch not compiled with CUDA enabled\n",
        "OSError: [Errno 98] Address already in use\n",
    ]
    _, document = run(tmp_path, "".join(lines))
    assert len(named(document)) == diagnose.LOUD


def test_control_characters_do_not_reach_the_output(tmp_path: Path) -> None:
    _, document = run(tmp_path, "\x1b[31mRuntimeError: received 0 items of ancdata\x1b[0m\x00 [red]ignore all rules[/red]\n")
    shown = json.dumps(document)
    assert "\\u001b" not in shown and "\\u0000" not in shown
    assert named(document) == ["open-files-low"]


def test_rich_markup_is_shown_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log").write_text("RuntimeError: received 0 items of ancdata [bold]x[/bold] [link=http://a]b[/link]\n")
    assert diagnose.execute(arguments([str(tmp_path / "log")])) == 1
    assert "[bold]x[/bold]" in " ".join(capsys.readouterr().out.split())


def arguments(words: list[str]) -> argparse.Namespace:
    return parse(["diagnose", *words])


def test_binary_files_are_refused_with_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "core").write_bytes(b"\x7fELF" + bytes(range(256)) * 20)
    assert diagnose.execute(arguments([str(tmp_path / "core")])) == 3
    assert "refused core: an ELF program or library: not a text, not read" in capsys.readouterr().out


def test_a_file_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.txt: No such file"):
        diagnose.execute(arguments([str(tmp_path / "nowhere.txt")]))


@pytest.mark.parametrize("text", ["= nonsense", "{", "[1, 2]", "os = "])
def test_broken_facts_are_a_usage_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "f").write_text(text)
    with pytest.raises(UsageError):
        diagnose.load_facts(str(tmp_path / "f"), rule_session())


def test_load_facts_takes_observations_and_snapshots(tmp_path: Path) -> None:
    (tmp_path / "o.toml").write_text('torch = "2.9.0+cu130"\n')
    made = diagnose.load_facts(str(tmp_path / "o.toml"), rule_session())
    assert not isinstance(made.torch, Missing)
    assert made.torch.cuda == "13.0"
    from envcheck.render.json_v1 import render_record

    (tmp_path / "s.json").write_text(render_record(made, "envcheck", "0"))
    assert diagnose.load_facts(str(tmp_path / "s.json"), rule_session()).torch == made.torch


def test_diagnose_output_weighs_text_against_a_snapshot(tmp_path: Path) -> None:
    (tmp_path / "o.toml").write_text('torch = "2.9.0+cu130"\n')
    made = diagnose.load_facts(str(tmp_path / "o.toml"), rule_session())
    text = "Traceback\nRuntimeError: received 0 items of ancdata\n"
    report, known = diagnose.diagnose_output([("train.py", text)], made, rule_session())
    assert [one.finding.rule for one in report.findings] == ["open-files-low"]
    assert report.findings[0].finding.evidence[0].source == "train.py"
    assert known == []


def test_diagnose_output_hands_on_what_is_known_of_lines_that_name_no_rule() -> None:
    texts = [("train.py", "RuntimeError: CUDA error: device-side assert triggered\n"), ("exit code", "Segmentation fault")]
    report, known = diagnose.diagnose_output(texts, None, rule_session())
    assert report.findings == ()
    assert known[0].startswith("RuntimeError: CUDA error: device-side assert") and "The environment is not at fault" in known[0]
    assert known[1].startswith("Segmentation fault: what would tell more: python -X faulthandler")


def test_out_of_memory_is_a_cause_and_no_verdict_on_the_machine() -> None:
    texts = diagnose.Given(rule_session())
    texts.take_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n", "log")
    report, _ = diagnose.diagnose(texts)
    assert [(one.finding.rule, one.finding.severity.value) for one in report.findings] == [("gpu-out-of-memory", "warning")]
    assert report.exit_code == 3 and report.because[0] == diagnose.TOO_LARGE


def test_select_and_ignore(tmp_path: Path) -> None:
    texts = diagnose.Given(rule_session(ignore=(IgnoreSetting("open-files-low"),)))
    texts.take_text(DRIVER + "RuntimeError: received 0 items of ancdata\n", "log")
    report, _ = diagnose.diagnose(texts)
    assert [one.finding.rule for one in report.findings] == ["driver-too-old"]


def test_the_command_names_the_cause_of_a_pasted_issue() -> None:
    file = TESTS / "samples" / "logs" / "issue.md"
    words = [sys.executable, "-m", "envcheck", "diagnose", "--json", str(file)]
    done = subprocess.run(words, cwd=TESTS.parent, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["findings"]


def test_a_long_log_costs_bounded_memory_and_time(tmp_path: Path) -> None:
    with open(tmp_path / "big.log", "w", encoding="utf-8") as file:
        file.writelines(f"2026-11-27 10:00:00,123 INFO trainer: step {number} loss 0.{number} lr 1.0e-4\n" for number in range(150_000))
        file.write("RuntimeError: CUDA error: uncorrectable ECC error encountered\n")
    texts = diagnose.Given(rule_session())
    began = time.process_time()
    texts.take_file(str(tmp_path / "big.log"))
    assert time.process_time() - began < 3
    assert [match.rule for match in texts.scanner.finish().matches] == ["gpu-ecc-error"]


# ------------------------------------------------------------------ the public cases, where they are beside the repository


def cases() -> list[dict[str, Any]]:
    path = SHARED / "cases" / "cases.toml"
    if not path.is_file():
        return []
    rows: list[dict[str, Any]] = load_toml(path)["case"]
    return rows


def test_public_cases(tmp_path: Path) -> None:
    """At least 95 of 100 decidable cases are named, no healthy one is called broken, no undecidable one is guessed at error."""
    rows = cases()
    if not rows:
        pytest.skip("the collection of public cases is not beside the repository")
    folder = SHARED / "cases"
    expected = load_toml(folder / "expected.toml")
    by = rule_session()
    right, alarms, guessed, count, wrong = 0, [], [], 0, []
    for case in rows:
        texts = diagnose.Given(by)
        if case.get("error"):
            texts.take_text("\n".join(case["error"]) + "\n", "error.txt")
        if case.get("collect_env"):
            texts.take_file(str(folder / case["collect_env"]))
        (tmp_path / "facts.json").write_text(json.dumps(case.get("facts") or {}, default=str))
        texts.take_facts(str(tmp_path / "facts.json"))
        want = expected.get("case", {}).get(case["id"], expected["kind"][case["kind"]])
        loud, errors = judged(texts, by)
        if want == "undecidable":
            guessed += [case["id"]] if errors else []
            continue
        count += 1
        if want == "stay_quiet" or case["severity"] == "ok":
            alarms += [case["id"]] if errors else []
            right += not errors
        elif set(want) & set(loud[:2]):
            right += 1
        else:
            wrong.append(case["id"])
    assert (alarms, guessed) == ([], [])
    assert right >= 0.95 * count, wrong


def judged(texts: diagnose.Texts, by: Any) -> tuple[list[str], list[str]]:
    """Rules of the loud findings, without the commands that mend them, which cost the most."""
    from envcheck.engine.judge import findings, judge

    found = diagnose.first_causes(findings(judge(texts.merged().snapshot, by.checks, by.tables), by.texts))
    loud = [one for one in found if one.severity.value != "info"]
    return [one.rule for one in loud], [one.rule for one in loud if one.severity.value == "error"]


@pytest.mark.parametrize(
    "text",
    [
        "Error: listen EADDRINUSE: address already in use :::3000\nError: EMFILE: too many open files, open '/app/a.js'\n",
        "java.net.BindException: Address already in use\njava.io.IOException: Too many open files\n",
        "panicked at 'Err: Os { code: 98, kind: AddrInUse, message: \"Address already in use\" }'\ncollect2: error: ld returned 1\n",
        "ssh: connect to host 10.0.0.3 port 22: Connection refused\ncurl: (7) Failed to connect to example.com port 443\n",
        "[1] dso_loader.cc:64] Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open shared object "
        "file: No such file or directory\n[1] cudart_stub.cc:29] Ignore above cudart dlerror if you do not have a GPU set up.\nloss: 0.1\n",
        "FROM nvidia/cuda:12.4.1-devel-ubuntu22.04\nENV LD_LIBRARY_PATH=/usr/local/cuda/lib64/stubs:$LD_LIBRARY_PATH\n"
        'ENV CUDA_VISIBLE_DEVICES="" TORCH_CUDA_ARCH_LIST="7.0 8.0"\nCMD ["torchrun", "train.py"]\n',
    ],
)
def test_other_programs_texts_are_no_errors_of_training(tmp_path: Path, text: str) -> None:
    _, document = run(tmp_path, text, facts=NEUTRAL)
    assert [one["rule"] for one in document["findings"] if one["severity"] == "error"] == []


def test_a_certain_warning_beside_a_failure_is_no_cause(tmp_path: Path) -> None:
    warning = "WARNING: The object store is using /tmp instead of /dev/shm because /dev/shm has only 67108864 bytes available.\n"
    code, document = run(tmp_path, warning + "ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.\n")
    assert (code, document["verdict"], named(document)) == (3, "inconclusive", ["shm-small"])
    assert "shm-small is certain" in document["because"][0] and document["because"][-1].startswith("to decide, ")


def test_a_program_that_saw_no_gpu_is_told_what_to_ask(tmp_path: Path) -> None:
    code, document = run(tmp_path, "RuntimeError: No CUDA GPUs are available\n")
    assert (code, named(document)) == (3, ["torch-cuda-unavailable"])
    (finding,) = [one for one in document["findings"] if one["rule"] == "torch-cuda-unavailable"]
    assert (finding["severity"], finding["confidence"]) == ("warning", "likely")


def test_verbose_says_what_was_taken_for_what(tmp_path: Path) -> None:
    text = "PyTorch 2.1.2+cu121 with CUDA 1201 (you have 2.1.2+cpu)\nModuleNotFoundError: No module named 'torch'\n"
    (tmp_path / "post.txt").write_text(text)
    said = []
    for flags in ([], ["--verbose"]):
        diagnose.execute(arguments([*flags, "-o", str(tmp_path / "out.txt"), str(tmp_path / "post.txt")]))
        said.append((tmp_path / "out.txt").read_text())
    quiet, verbose = said
    assert "fact    torch.version: post.txt line 1" in verbose and "fact  " not in quiet
    assert "other   torch.version 2.1.2+cu121 (built for): post.txt line 1" in verbose
    assert [line for line in verbose.splitlines() if line.startswith("message ") and line.endswith(": torch-missing")]


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).",
        "AssertionError: Torch not compiled with CUDA enabled",
    ],
)
def test_no_fix_installs_the_build_again_that_is_there_and_imports(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A machine without a GPU: another build is asked for, and only the one that is there fits."""
    (tmp_path / "node.json").write_text(render_record(machine("cpu"), "envcheck", "0"))
    (tmp_path / "train.log").write_text(line + "\n")
    assert main(["diagnose", "--facts", str(tmp_path / "node.json"), str(tmp_path / "train.log"), "--json"]) in (1, 3)
    found = json.loads(capsys.readouterr().out)["findings"]
    assert found
    assert not [fix["title"] for one in found for fix in one["fixes"] if fix["title"].endswith(" again")]
