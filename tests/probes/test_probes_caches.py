"""Locks in cache folders: only on network file systems, and nothing stays behind."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from machines import linux
from patients import SOON

from envcheck.facts.snapshot import CacheFolder
from envcheck.host.access import RealHost
from envcheck.host.syscalls import reverse
from envcheck.probes import cache_child
from envcheck.probes.caches import probe_caches

NFS = "40 35 0:50 / /nfs rw,noatime - nfs4 server:/export rw,vers=4.2,local_lock=none\n"
LOCAL = "36 35 98:0 / / rw,noatime - ext4 /dev/root rw\n"
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="flock and mountinfo as Linux has them")


def test_local_disks_cost_nothing() -> None:
    host = linux({"read /proc/self/mountinfo": LOCAL, "child cache_child": {"stdout": '{"step": "folder"}\n'}}, {"HOME": "/home/u"})
    assert probe_caches(host) == ()


def test_network_folders_are_tried_in_a_child() -> None:
    line = {"step": "folder", "variable": "HF_HOME", "path": "/nfs/hf", "filesystem": "nfs4", "options": "rw", "lock": "ok", "error": ""}
    host = linux(
        {"read /proc/self/mountinfo": LOCAL + NFS, "child cache_child": {"code": 0, "stdout": json.dumps(line)}}, {"HF_HOME": "/nfs/hf"}
    )
    assert probe_caches(host) == (CacheFolder("HF_HOME", "/nfs/hf", "nfs4", "rw", "ok", ""),)


def test_a_dead_server_costs_the_deadline_and_is_named() -> None:
    begun = '{"step": "begin", "variable": "HF_HOME", "path": "/nfs/hf"}\n'
    host = linux({"read /proc/self/mountinfo": NFS, "child cache_child": {"stdout": begun, "timed_out": True}}, {"HF_HOME": "/nfs/hf"})
    assert probe_caches(host) == (CacheFolder("HF_HOME", "/nfs/hf", lock="hang"),)


@linux_only
def test_two_processes_and_no_file_left(tmp_path: Path) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from envcheck.probes.cache_child import lock_between_processes as lock;"
        "print(lock(sys.argv[2]))"
    )
    argv = [sys.executable, "-c", program, str(Path(__file__).parents[2]), str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "('ok', '')"
    assert list(tmp_path.iterdir()) == []


@linux_only
def test_the_child_leaves_local_and_absent_folders_alone(tmp_path: Path) -> None:
    done = RealHost().child("cache_child", f"HF_HOME={tmp_path}", f"TORCH_HOME={tmp_path / 'not-there'}", timeout=20)
    steps = [json.loads(line)["step"] for line in done.stdout.splitlines()]
    assert steps == ["begin", "begin", "end"]
    assert list(tmp_path.iterdir()) == []


@linux_only
def test_mount_of_the_longest_point() -> None:
    kind, options = cache_child.mount_of("/proc/self")
    assert kind == "proc" and "rw" in options


def test_reverse_is_bounded() -> None:
    began = time.monotonic()
    assert reverse("192.0.2.1", 0.2, lambda *_: time.sleep(60)) >= 0.2
    assert time.monotonic() - began < SOON

    def fails(*_: object) -> None:
        raise OSError("no name")

    assert reverse("192.0.2.1", 200.0, fails) < SOON
