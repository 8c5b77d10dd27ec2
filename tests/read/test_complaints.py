"""What people complain of in prose, in the languages they write in, and what is none."""

from __future__ import annotations

import pytest

from envcheck.read.counted import signal_of
from envcheck.read.gists import read_complaints


def rules(text: str) -> list[tuple[str, str]]:
    found = read_complaints(text)
    return [(one.rule, one.variant) for one in found.signs] if found else []


IDLE = ("torch-cuda-unavailable", "")
KILLED = ("host-memory-low", "killed")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("my gpu is not used, task manager shows cpu at 100%", IDLE),
        ("And it does not even go onto the CUDA GPU...", IDLE),
        ("The app always falls to CPU although I have a card", IDLE),
        ("GPU wird nicht genutzt, alles ist langsam", IDLE),
        ("Почему CUDA не видна?", IDLE),
        ("为什么训练时gpu利用率一直是0", IDLE),
        ("好像没用到显卡", IDLE),
        ("GPUが認識されません", IDLE),
        ("¿Por qué no detecta mi GPU?", IDLE),
        ("whisper n'utilise pas ma carte graphique", IDLE),
        ("On Kaggle my notebook doesn't detect the gpu", ("torch-cuda-unavailable", "kaggle")),
        ("一启动就exit 132退出,没有任何输出", ("cpu-too-old", "")),
        ("Exited (132) 3 seconds ago", ("cpu-too-old", "")),
        ("      Exit Code:    137", KILLED),
        ("Prozess wurde beendet, Exitcode 137, beim Laden", KILLED),
        ("процесс завершился с кодом 137", KILLED),
        ("程序退出代码 3221225501", ("cpu-too-old", "")),
        ("import torch 后退出: exit code -1073741819 (0xC0000005)", ("torch-import-crashed", "")),
        ("DataLoader worker (pid 123) exited, code -7", ("shm-small", "")),
        ("训练到一半爆显存了,24G的3090", ("gpu-out-of-memory", "")),
        ("RTX 3060 12GB runs out of memory at batch size 8", ("gpu-out-of-memory", "")),
        ("跑着跑着内存就爆了,64G内存", KILLED),
        ("RAM usage grows during training until the process is killed", KILLED),
        ("there was an `xid 149` error in the log", ("gpu-xid", "")),
        ("dmesg 里有 xid 79,GPU 掉卡了", ("gpu-xid", "")),
        ("My PC reboots instantly when training starts", ("gpu-hardware-fault", "load")),
        ("训练一会儿电脑就自动关机重启", ("gpu-hardware-fault", "load")),
        ("Rechner startet beim Training einfach neu", ("gpu-hardware-fault", "load")),
        ("显卡温度到了95度之后速度就掉一半", ("gpu-throttled", "told")),
        ("在cuda11.4的环境里运行，提示cuda版本太老", ("driver-too-old", "")),
        ("le pilote nvidia est trop ancien", ("driver-too-old", "")),
        ("After suspend torch.cuda.is_available() is False until I reboot", ("nvidia-uvm-missing", "suspended")),
        ("HGX H100: all links are inActive", ("fabric-not-ready", "")),
        ("RTX 5080 fails with the image on pytorch 2.3", ("gpu-too-new-for-torch", "told")),
        ("换了 RTX 5090 之后跑不了, torch==2.1.2", ("gpu-too-new-for-torch", "told")),
        ("GTX 1080 Ti is no longer usable since torch 2.8.0+cu129", ("gpu-too-old-for-torch", "told")),
        ("It prints: No GPU detected. My card is an RX 7900 XTX", ("rocm-build-mismatch", "told")),
        ("New release (cu130) closes itself, driver 551.23", ("driver-too-old", "")),
        ("nvidia-smi on the host works, in the docker container is_available() is False", ("container-without-gpu", "guess")),
        ("CUDA_VISIBLE_DEVICES: all\nNo GPU detected", ("visible-devices-unreadable", "word")),
        ("VLLM_ROCM_USE_AITER=1 and vllm stops at start", ("rocm-gfx-unsupported", "aiter")),
        ("pip install flash-attn takes hours and my PC freezes", ("flash-attn-mismatch", "memory")),
        ("每次加载模型进程就被系统 Killed", KILLED),
        ("nvidia-smi cannot talk to the driver after the kernel update", ("driver-not-loaded", "default")),
    ],
)
def test_a_complaint_is_read(text: str, expected: tuple[str, str]) -> None:
    assert expected in rules(text)


@pytest.mark.parametrize(
    "text",
    [
        "Solved: my GPU was not used because of the +cpu wheel. It works now.",
        "If no GPU is detected the script should fall back to CPU.",
        "The documentation says the GPU is not used for tokenization.",
        "I don't use the GPU for this, CPU is fine.",
        "exit codes 132, 134, 137 and 139 in our wiki",
        "What does exit code 137 mean?",
        "I ran docker stop, and it exited with code 137",
        "exit code 1",
        "如果显存不足的话,会自动切到CPU吗?",
        "训练完成后自动关机的脚本怎么写?",
        "How do I resume training when the server reboots?",
        "two RTX A6000 without a bridge: all links are inActive",
        "How to limit the GPU temperature alarm to 85 °C?",
        "I would like to add alerts for xid 79",
        "The latest release of xid 2 is out",
    ],
)
def test_no_complaint(text: str) -> None:
    assert rules(text) == []


@pytest.mark.parametrize(
    ("code", "signal"),
    [("132", "SIGILL"), ("-4", "SIGILL"), ("0xC000001D", "SIGILL"), ("-1073741795", "SIGILL"), ("3221225501", "SIGILL"),
     ("137", "SIGKILL"), ("-9", "SIGKILL"), ("135", "SIGBUS"), ("139", "SIGSEGV"), ("3221225477", "SIGSEGV"), ("134", "SIGABRT"),
     ("1", None), ("0", None), ("127", None), ("255", None)],
)  # fmt: skip
def test_what_a_code_stands_for(code: str, signal: str | None) -> None:
    assert signal_of(code) == signal
