"""What a text says of a machine in passing, and whom it is about."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.facts.snapshot import Distribution, Gpu
from envcheck.read.asked import read_asked
from envcheck.read.claims import read_claims, read_prose, settled
from envcheck.read.found import Role

# text → the facts that it amounts to (GPUs by their names)
FACTS: dict[str, dict[str, Any]] = {
    # several expressions of one prompt
    'C:\\Users\\me>python -c "import torch; print(torch.__version__, torch.cuda.is_available())"\n2.5.1+cpu False': {
        "system.os": "windows",
        "torch.version": "2.5.1+cpu",
        "devices.available": False,
    },
    # several statements of one line, each with a label of its own
    """python -c "import torch; print(f'Has it: {torch.cuda.is_available()}'); print(f'Made for CUDA: {torch.version.cuda}')"
Has it: False
Made for CUDA: None""": {"devices.available": False, "torch.cpu_build": True},
    "It fails on an nvidia gpu A6000:": {"gpu.0": "A6000"},
    "I tried to run it with a V100S and it ended": {"gpu.0": "V100S"},
    ">>> print(torch.__version__, torch.version.cuda)\n2.1.0 None": {"torch.version": "2.1.0", "torch.cpu_build": True},
    ">>> print(torch.__version__, torch.version.cuda)  # on ROCm\n2.1.0 None": {},
    "ImportError: DLL load failed while importing _C": {"system.os": "windows"},
    # key and value, of any program and person
    "- **PyTorch Version:** 2.7.1+cu128": {"torch.version": "2.7.1+cu128"},
    "| torch version | 2.4.0 |": {"torch.version": "2.4.0"},
    "> pytorch version: 2.6.0+cu126": {"torch.version": "2.6.0+cu126"},
    "PyTorch: 1.8.1+Cuda 11.1": {"torch.version": "1.8.1"},
    "* **Python:** 3.10.11 (main)": {"python.version": "3.10.11"},
    "- OS: nt": {"system.os": "windows"},
    "Fedora 34 - the driver is not loaded": {"system.distribution_id": "fedora"},
    "Fedora 34 as guest of Ubuntu 20.04": {},  # two
    "Ubuntu 22.04 in docker": {},  # the host's or the image's
    "pytorch:0.3.0-cuda9.0": {"torch.version": "0.3.0", "torch.cuda": "9.0"},
    "操作系统：Windows 11": {"system.os": "windows", "system.distribution": "Windows 11"},
    "显卡: RTX 3060": {"gpu.0": "RTX 3060"},
    "GPU: Quadro M1200": {"gpu.0": "Quadro M1200"},
    "on a GeForce MX150 laptop": {"gpu.0": "GeForce MX150"},
    "a single node with 2 GPU K40m.": {"gpu.0": "Tesla K40m", "gpu.1": "Tesla K40m"},
    "Our node has a GPU V100. It fails.": {"gpu.0": "V100"},
    "Trying torch 2.4.0+cu121 on a Tesla K40c: RuntimeError: no": {"gpu.0": "Tesla K40c"},
    "I have an old GT 730": {"gpu.0": "GT 730"},
    "my old torch 1.9.0 was fine": {},
    "显卡 核显Radeon 680M": {"rocm.names": ("Radeon 680M",)},
    "GPU: AMD Radeon VII": {"rocm.names": ("AMD Radeon VII",)},
    "GPU: RX 580": {"rocm.names": ("RX 580",)},
    "My host has:\n- nvidia-390.138": {"driver.version": "390.138"},
    "moved from torch 1.12.1 to 2.1.0": {},
    "Treiber: 551.86": {"driver.version": "551.86"},
    "on my Blackwell GPU nothing runs": {"gpu.0": "Blackwell"},
    "GPU: RTX 50 series, 16 GB": {"gpu.0": "RTX 50 series"},
    "I have an RTX 5000 series card": {"gpu.0": "RTX 5000 series"},  # not the Quadro RTX 5000
    "my Blackwell GPU, the RTX 5090": {"gpu.0": "RTX 5090"},
    "FlashAttention only supports Ampere GPUs or newer": {},
    "please add support for the Blackwell GPU": {},
    "GPU: 2x RTX 4090 24GB": {"gpu.0": "RTX 4090", "gpu.1": "RTX 4090"},
    "Device: cuda:0 NVIDIA GeForce RTX 3080 : cudaMallocAsync": {"gpu.0": "NVIDIA GeForce RTX 3080"},
    "GPU 0: NVIDIA A10\nGPU 1: NVIDIA A10": {"gpu.0": "NVIDIA A10"},
    "### GPU\n\nAMD Radeon RX 6700 XT": {"rocm.names": ("AMD Radeon RX 6700 XT",)},
    "## GPU\n\nproduct: Strix Halo [Radeon Graphics / Radeon 8060S Graphics]": {"rocm.names": ("Radeon 8060S Graphics",)},
    "# HIP error: invalid device function on an RX 7600XT": {"rocm.names": ("RX 7600XT",)},
    "RuntimeError: HIP error on an RX 7600XT": {"rocm.names": ("RX 7600XT",)},  # what a person puts behind the message
    "CUDA error: no kernel image is available (RTX 5090, torch 2.4.1+cu121)": {"gpu.0": "RTX 5090", "torch.version": "2.4.1+cu121"},
    "RuntimeError: CUDA error: out of memory - 2x RTX 3090": {"gpu.0": "RTX 3090", "gpu.1": "RTX 3090"},
    "RuntimeError: FlashAttention only supports Ampere GPUs or newer (A100, RTX 3090)": {},  # a program's own line names what it takes
    "RuntimeError: this kernel was compiled with RTX 4090 in mind": {},
    "my gpu is an rtx 3090": {"gpu.0": "rtx 3090"},
    "on Fedora 34 it does not load": {"system.distribution_id": "fedora"},
    "Arch Linux here, fresh install": {"system.distribution_id": "arch"},
    "FROM nvidia/cuda:12.2.0-base-ubuntu22.04": {},
    "it worked on my old Ubuntu 18.04 machine": {},
    "it is the same on Ubuntu 22.04 and on Debian 12": {},
    "the panel shows 2.3.1+cpu and an empty list": {"torch.version": "2.3.1+cpu"},
    "the panel shows torchaudio 2.3.1+cpu": {"package.torchaudio": Distribution("torchaudio", "2.3.1+cpu")},  # its own, not torch's
    "Found existing installation: torch 2.8.0\n  Uninstalling torch-2.8.0:\n  Successfully uninstalled torch-2.8.0": {},
    "Darwin mac.local 19.6.0 Darwin Kernel Version 19.6.0: root:xnu-6153~1/RELEASE_X86_64 x86_64": {
        "system.os": "darwin", "system.machine": "x86_64",
    },
    "Linux node7 5.15.0-91-generic #101-Ubuntu SMP Tue Nov 14 2023 aarch64 GNU/Linux": {"system.os": "linux", "system.machine": "aarch64"},
    "## Graphics card\nIntel Arc A770": {"xpu.names": ("Intel Arc A770",)},
    "### Operating System\n\n24.04.3 LTS (Noble Numbat)": {
        "system.os": "linux", "system.distribution_id": "ubuntu", "system.distribution": "Ubuntu 24.04.3 LTS (Noble Numbat)",
    },
    "GPU available: False": {"devices.available": False},
    "PyTorch built with CUDA:            False": {"torch.cpu_build": True},
    "PyTorch built with CUDA: True": {},
    # systems in passing, in any spelling
    "it is windows 11, by the way": {"system.os": "windows"},
    "环境win11，3060": {"system.os": "windows"},
    "The toolkit is inside wsl 2 here": {"system.os": "linux", "system.wsl": 2},
    "- [x] WSL 2\n- [ ] WSL 1": {"system.os": "linux", "system.wsl": 2},
    "ProductName:\tmacOS\nProductVersion:\t12.6.1": {"system.os": "darwin", "system.macos_version": "12.6.1"},
    "Still the same under macOS-13.2.1-arm64-arm-64bit": {"system.os": "darwin", "system.macos_version": "13.2.1"},
    "The backend is supported on MacOS 13.0+": {},
    "My Orin runs JetPack 6.1": {"system.jetson": "36"},
    "Board: Jetson AGX Xavier, L4T R35.3.1": {"system.jetson": "35.3.1"},
    "Jetson Nano, the small one": {"system.jetson": "Jetson Nano"},
    "# torch 2.4.1 finds no device": {"torch.version": "2.4.1"},
    "单机4卡V100": {f"gpu.{index}": "V100" for index in range(4)},
    # an expression and what it gave
    ">>> torch.__version__\n'1.8.1+cu102'": {"torch.version": "1.8.1+cu102"},
    "In [3]: torch.cuda.is_available()\nOut[3]: True": {"devices.available": True},
    ">>> torch.cuda.is_available()\n/x/torch/cuda/__init__.py:52: UserWarning: CUDA …\n  return x\nFalse": {"devices.available": False},
    # several expressions, their answers below
    "import torch\ntorch.__version__\ntorch.version.cuda\ntorch.cuda.is_available()\n\nOutput:\n\n'1.13.1'\nNone\nFalse": {
        "torch.version": "1.13.1", "torch.cpu_build": True, "devices.available": False,
    },
    "print(torch.__version__)\nprint(torch.cuda.is_available())\nFalse": {"devices.available": False},  # only the last one is shown
    "print(torch.__version\\_\\_)\ntorch.cuda.is_available()\n\nreturns:\n\n1.3.1\nFalse": {
        "torch.version": "1.3.1", "devices.available": False,
    },
    "print('Do I have it:', torch.cuda.is_available())\nprint(f'of: {torch.__version__}')\n\nDo I have it: False\nof: 2.1.0": {
        "torch.version": "2.1.0", "devices.available": False,
    },
    ">>> import torch; print(torch.__version__); torch.cuda.is_available()\n1.10.0+cpu\nFalse": {
        "torch.version": "1.10.0+cpu", "devices.available": False,
    },
    # two environments, one of which finds its GPU
    ">>> torch.__version__\n'1.10.0+cu113'\n>>> torch.cuda.is_available()\nTrue\nand in the other\n>>> torch.__version__\n'1.10.0+cpu'\n"
    ">>> torch.cuda.is_available()\nFalse": {"torch.version": "1.10.0+cpu", "devices.available": False},
    "torch.cuda.is_available() returns False on every start": {"devices.available": False},
    "`torch.cuda.is_available()` is still False": {},
    "print(torch.version.cuda)\n12.1": {"torch.cuda": "12.1"},
    "[rank3]: torch.cuda.device_count(): 0": {"devices.count": 0},
    "$ python -c \"import torch; print(torch.cuda.is_available())\"\nFalse": {"devices.available": False},
    # banners of programs
    "Detector v8 Python-3.11.6 torch-2.1.0+cpu": {"python.version": "3.11.6", "torch.version": "2.1.0+cpu"},
    "v7.0 torch-1.13.1+cu117 CUDA:0 (NVIDIA A40, 10240MiB)": {"torch.version": "1.13.1+cu117", "gpu.0": "NVIDIA A40"},
    "Python 3.11.2 (tags/v3.11.2:878ead1) [MSC v.1934 64 bit (AMD64)]": {"python.version": "3.11.2", "system.os": "windows"},
    # sentences
    "I have driver 435.21 and torch 1.7.1 here": {"driver.version": "435.21", "torch.version": "1.7.1"},
    "My card is an RTX 5070 and I can't get past this": {"gpu.0": "RTX 5070"},
    "Got a 5090 last week": {"gpu.0": "RTX 5090"},
    "it runs for a 4090 ms step": {},
    "on my MacBook Pro": {"system.os": "darwin"},
    "pytorch is installed in my Mac laptop": {"system.os": "darwin"},
    "building it on a mac": {"system.os": "darwin"},
    "the machine that has this mac address": {},
    "Two nodes with 8x H100 each": {f"gpu.{index}": "H100" for index in range(8)},
    "in case it matters, my python is 3.10": {"python.version": "3.10"},
    # of another thing, another time, another machine
    "Model was trained with torch 1.10.0+cu102, yours is 2.0.0+cu118. Expect surprises": {"torch.version": "2.0.0+cu118"},
    "    PyTorch 2.1.2+cu121 with CUDA 1201 (you have 2.1.2+cpu)": {"torch.version": "2.1.2+cpu"},
    "It works with torch 2.1.0 on my colleague's RTX 3090.": {},
    "I tried torch 2.3.0 as well, no change": {},
    "Should I upgrade to PyTorch 2.5.1?": {},
    "Does torch 2.6.0 support the RTX 5090?": {},
    "ERROR: Could not find a version that satisfies the requirement torch==1.13.1+cu117 (from versions: 2.0.0)": {},
    "pip install torch==2.4.0 torchvision": {},
    "https://download.pytorch.org/whl/torch-2.4.0%2Bcu121-cp310-cp310-linux_x86_64.whl": {},
    # platforms by their paths
    'File "C:\\Users\\me\\train.py", line 3': {"system.os": "windows"},
    "I start it under WSL like this": {"system.os": "linux", "system.wsl": 2},
    'File "/home/me/train.py", line 3, then on the laptop C:\\Users\\me': {},
    'File "/usr/lib/python3.10/site-packages/x.py", line 3': {"python.version": "3.10"},
}  # fmt: skip


@pytest.mark.parametrize("text", FACTS)
def test_facts(text: str) -> None:
    found = read_prose(text)
    facts = {fact.path: fact.value.name if isinstance(fact.value, Gpu) else fact.value for fact in (found.facts if found else ())}
    assert facts == FACTS[text]


DOUBTS = {
    "torch: 2.1.0\nin the other list\ntorch: 2.4.0": "torch.version",
    "I have an RTX 3090 and an RTX 4090 in this box": "gpu",
    "torch 2.1.0 here, torch 2.2.0 there": "torch.version",
}


@pytest.mark.parametrize("text", DOUBTS)
def test_two_claims_that_differ_are_no_fact(text: str) -> None:
    facts, doubts = settled(read_claims(text))
    assert not [fact for fact in facts if fact.path.startswith(DOUBTS[text])]
    assert [doubt.partition(":")[0] for doubt in doubts] == [DOUBTS[text]]


def test_what_is_printed_comes_before_what_is_said_and_the_longer_before_the_shorter() -> None:
    facts, doubts = settled(read_claims("I use torch 2.3 mostly\ntorch.__version__: 2.4.1+cu124\ntorch: 2.4.1\n"))
    assert [(fact.path, fact.value, fact.number) for fact in facts] == [("torch.version", "2.4.1+cu124", 2)] and not doubts


def test_each_claim_keeps_its_role_and_line() -> None:
    claims = read_claims("extension built for torch 2.1.0\nanother machine has torch 2.2.0\ntorch: 2.3.0\n")
    assert [(one.value, one.role, one.number) for one in claims] == [
        ("2.1.0", Role.BUILT_FOR, 1), ("2.2.0", Role.ELSEWHERE, 2), ("2.3.0", Role.HAS, 3),
    ]  # fmt: skip


# text → (whether it asks for CUDA, the device, requirements)
ASKED: dict[str, tuple[bool, int | None, tuple[str, ...]]] = {
    "conda install pytorch torchvision cudatoolkit=10.1 -c pytorch": (True, None, ("pytorch", "torchvision")),
    "  - pytorch-cuda=12.1": (True, None, ()),
    "pip install torch==1.13.1+cu117 --extra-index-url https://a/whl/cu117": (True, None, ("torch==1.13.1+cu117",)),
    "pip3 install torch torchaudio --index-url https://a/whl/cpu": (False, None, ("torch", "torchaudio")),
    "ERROR: … a version that satisfies the requirement torch==1.9.1+cu111 (from versions: 2)": (True, None, ("torch==1.9.1+cu111",)),
    'model.to("cuda:3")': (True, 3, ()),
    "ValueError: Invalid CUDA 'device=1' requested. Use 'device=cpu'": (True, 1, ()),
    "    loss = net.cuda()(x)": (True, None, ()),
    'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")': (False, None, ()),
}  # fmt: skip


@pytest.mark.parametrize("text", ASKED)
def test_what_is_asked_for(text: str) -> None:
    found = read_asked(text)
    facts = {fact.path.removeprefix("asked."): fact.value for fact in (found.facts if found else ())}
    assert ("cuda" in facts, facts.get("device"), facts.get("requirements", ())) == ASKED[text]
    assert all(claim.role is Role.ASKED for claim in (found.claims if found else ()))


@pytest.mark.parametrize(
    ("line", "chosen"),
    [
        ("os.environ['CUDA_VISIBLE_DEVICES'] = '3'", {"env.CUDA_VISIBLE_DEVICES": "3"}),
        ('with the line `os.environ["HIP_VISIBLE_DEVICES"]="1,2"` in it', {"env.HIP_VISIBLE_DEVICES": "1,2"}),
        ("os.environ['CUDA_VISIBLE_DEVICES'] = '0'", {}),  # 0 and an empty list explain no failure
        ("os.environ['CUDA_VISIBLE_DEVICES'] = ''", {}),
    ],
)
def test_the_gpus_that_a_program_chooses(line: str, chosen: dict[str, str]) -> None:
    found = read_asked(line)
    assert {fact.path: fact.value for fact in (found.facts if found else ())} == chosen


def test_a_library_that_calls_cuda_asks_for_nothing() -> None:
    assert read_asked('  File "/x/site-packages/lib/a.py", line 3: model.to("cuda:1")') is None


def test_a_long_text_is_read_in_time_that_grows_with_it() -> None:
    """Nothing is claimed of repeated words, and no pattern reads them twice: tests/read/test_patterns.py looks at each of them."""
    assert read_claims("torch " * 40_000) == () == read_claims("\n".join(["driver: " * 200] * 50))


@pytest.mark.parametrize(
    ("text", "available"),
    [
        ("Since Monday CUDA is not available, card RTX 4070, torch 2.4.0", False),
        ("my notebook says cuda unavailable (RTX 3060)", False),
        ("Auf diesem Rechner ist CUDA nicht verfügbar, Grafikkarte RTX 3060", False),
        ("It should run on the CPU if CUDA is not available; I have an RTX 3060", None),
        ("Falls back to the CPU when CUDA is not found (tried with an RTX 3060)", None),
        ("raise RuntimeError('CUDA not available')  # my GPU is an RTX 3060", None),
    ],
)
def test_what_a_person_says_of_cuda_itself(text: str, available: bool | None) -> None:
    found = read_prose(text)
    facts = {fact.path: fact.value for fact in found.facts} if found else {}
    assert facts.get("devices.available") is available


@pytest.mark.parametrize(
    ("text", "signs"),
    [
        ("print(torch.__version__)\nprint(torch.cuda.is_available())\n\n2.1.0\nFalse", [("torch-cuda-unavailable", "")]),
        ("In Colab:\ntorch.cuda.is_available()\n\nFalse", [("torch-cuda-unavailable", "colab")]),
        ("print(torch.cuda.is_available())\n\nTrue", []),
        ("It was so:\n>>> torch.cuda.is_available()\nFalse\nand now:\n>>> torch.cuda.is_available()\nTrue", []),
    ],
)
def test_an_answer_that_says_no_is_a_sign(text: str, signs: list[tuple[str, str]]) -> None:
    found = read_prose(text)
    assert found and [(one.rule, one.variant) for one in found.signs] == signs
