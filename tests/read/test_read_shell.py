"""What people print with ls, id, ulimit, df, lsmod, dkms, lspci, env and docker run, as facts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.facts.snapshot import Missing, PciDevice
from envcheck.read import identify
from envcheck.read.clean import clean
from envcheck.read.merge import merge
from envcheck.read.shell import read_shell
from envcheck.tables.compat import Tables
from envcheck.tables.folders import rules_folder

SAMPLES = Path(__file__).parents[1] / "samples" / "shell"
TABLES = Tables((rules_folder("compat"),))


def facts(text: str) -> dict[str, Any]:
    found = read_shell(clean(text))
    return {fact.path: fact.value for fact in found.facts} if found else {}


def sample(name: str) -> dict[str, Any]:
    return facts((SAMPLES / f"{name}.txt").read_text())


GOLDEN: dict[str, dict[str, Any]] = {
    "looked-around": {
        "driver.device_nodes": ("nvidia0", "nvidia1", "nvidiactl", "nvidia-modeset"),
        "driver.module_loaded": True,
        "network.peermem": True,
        "other.dkms nvidia": "535.183.01 for 6.5.0-35-generic: installed",
        "system.pci_gpus": (PciDevice("0000:01:00.0", "10de", "2684", "nvidia"), PciDevice("0000:41:00.0", "10de", "")),
        "limits.shm_bytes": 64 << 20,
        "limits.shm_free_bytes": 64 << 20,
    },
    "limits": {
        "limits.memlock_soft_bytes": 64 << 20,
        "limits.memlock_read": True,
        "limits.open_files_soft": 1024,
        "limits.stack_soft_bytes": 8 << 20,
        "limits.processes_soft": 4096,
        "limits.shm_bytes": 8 << 30,
        "limits.shm_free_bytes": 8 << 30,
    },
    "amd": {"rocm.kfd": True, "rocm.groups": ("ada", "sudo", "video"), "rocm.kfd_access": False, "rocm.render_access": False},
    "env": {
        "env.LD_LIBRARY_PATH": "/usr/local/cuda-12.1/lib64",
        "env.CUDA_VISIBLE_DEVICES": "0,1",
        "env.NCCL_SOCKET_IFNAME": "eth0",
    },
    "docker": {
        "container.runtime": "docker",
        "container.nvidia_runtime": True,
        "limits.shm_bytes": 8 << 30,
        "limits.memlock_read": True,
        "env.NCCL_DEBUG": "INFO",
        "env.NCCL_P2P_DISABLE": "1",
    },
}


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_golden_facts(name: str) -> None:
    assert sample(name) == GOLDEN[name]


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_facts_reach_the_snapshot_with_their_lines(name: str) -> None:
    text = clean((SAMPLES / f"{name}.txt").read_text())
    found = [one for one in identify.read_text(text) if one.kind == "shell"]
    assert len(found) == 1
    assert all(fact.line and fact.number for fact in found[0].facts)
    made = merge([("shell", found[0])], (), TABLES).snapshot
    sections = {path.partition(".")[0] for path in GOLDEN[name]} & {"driver", "limits", "rocm", "container", "system"}
    assert all(not isinstance(getattr(made, section), Missing) for section in sections)


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("$ ulimit -n\n65535\n", "limits.open_files_soft", 65535),
        ("ulimit -l\nunlimited\n", "limits.memlock_read", True),
        (f"ulimit -n\n{'9' * 5000}\nulimit -l\nunlimited\n", "limits.memlock_read", True),  # no number of this world
        ("shm on /dev/shm type tmpfs (rw,nosuid,size=65536k,inode64)\n", "limits.shm_bytes", 64 << 20),
        ("tmpfs  252G  0  252G  0% /dev/shm\n", "limits.shm_bytes", 252 << 30),
        ("ls: cannot access '/dev/kfd': No such file or directory\n", "rocm.kfd", False),
        ("crw-rw-rw- 1 root render 234, 0 Nov 27 10:00 /dev/kfd\n", "rocm.kfd_access", True),
        ("crw-rw---- 1 root render 234, 0 Nov 27 10:00 /dev/kfd\nuid=0(root) gid=0(root) groups=0(root)\n", "rocm.kfd_access", True),
        (
            "crw-rw---- 1 root render 234, 0 Nov 27 10:00 /dev/kfd\nuid=5(a) gid=5(a) groups=5(a),109(render)\n",
            "rocm.kfd_access",
            True,
        ),
        ("nvidia, 470.57.02, 5.4.0-80-generic, x86_64: added\n", "other.dkms nvidia", "470.57.02 for 5.4.0-80-generic: added"),
    ],
)
def test_one_line(text: str, path: str, value: object) -> None:
    assert facts(text)[path] == value


@pytest.mark.parametrize(
    "text",
    [
        "crw-rw-rw- 1 root root 195, 0 Nov 27 10:00 /dev/nvidia0\n",  # a list that may have been cut
        "crw-rw---- 1 root render 234, 0 Nov 27 10:00 card\n",
        "Set it with: export NCCL_P2P_DISABLE=1\nexport CUDA_VISIBLE_DEVICES=0\n",  # advice
        "FROM nvidia/cuda:12.4.1\nENV PATH=/opt/bin HOME=/root\n",
        "ulimit -n raises it\n4096 is enough\n",
        "You can use docker run --gpus all nvidia/cuda:12.4.1-base nvidia-smi to try it\n",
        "open files: 12 (-n) many\n",
        "01:00.1 Audio device: NVIDIA Corporation AD102 High Definition Audio Controller (rev a1)\n",
    ],
)
def test_what_states_nothing_is_no_fact(text: str) -> None:
    assert facts(text) == {}


def test_without_id_nobody_knows_who_may_open_a_node() -> None:
    found = facts("crw-rw---- 1 root render 234, 0 Nov 27 10:00 /dev/kfd\n")
    assert found == {"rocm.kfd": True}


@given(st.text(max_size=600))
def test_never_raises(text: str) -> None:
    read_shell(clean(text))


PARTS = st.sampled_from(
    [line for file in sorted(SAMPLES.glob("*.txt")) for line in file.read_text().splitlines()]
    + ["df", "(-n) 9", "shm 1.2.3M 0 .G 0% /dev/shm", "docker run \\", "-e", "docker run -e", "nvidia 12345 1", "PATH="]
)


@given(st.lists(PARTS, max_size=12), st.sampled_from(["\n", " ", "\n\n", "\\\n"]))
def test_never_raises_on_parts_of_samples(parts: list[str], between: str) -> None:
    read_shell(clean(between.join(parts)))


def test_the_reader_is_loaded_only_for_its_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "envcheck.read.shell", raising=False)
    logs = [(SAMPLES.parent / "logs" / "issue.md").read_text(), "RuntimeError: No CUDA GPUs are available\n", "step 1 loss 0.1\n" * 99]
    for text in logs:
        identify.read_text(clean(text))
    assert "envcheck.read.shell" not in sys.modules
    identify.read_text("shm  64M  0  64M  0% /dev/shm\n")
    assert "envcheck.read.shell" in sys.modules
