"""Limits, and the trial allocation in /dev/shm."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from machines import linux, machine

from envcheck.facts.snapshot import LimitsFacts
from envcheck.host.access import RealHost
from envcheck.host.syscalls import Disk, allocate
from envcheck.probes import limits

MIB = 1 << 20


def facts(name: str) -> LimitsFacts:
    found = limits.probe(machine(name))
    assert isinstance(found, LimitsFacts)
    return found


def test_h200() -> None:
    found = facts("h200-vm")
    assert (found.open_files_soft, found.open_files_hard) == (20000, 20000)
    assert (found.memlock_soft_bytes, found.memlock_read) == (None, True)  # unlimited
    assert found.stack_soft_bytes == 8 * MIB and found.processes_soft == 515506
    assert found.shm_bytes == 135148564480
    assert (found.shm_requested_bytes, found.shm_allocated_bytes, found.shm_error) == (16 * MIB, 16 * MIB, None)
    assert found.tmp_free_bytes == 68000000000


def test_small_shm() -> None:
    docker, pod = facts("docker-cgroup1"), facts("kubernetes-cgroup2")
    assert (docker.shm_bytes, docker.shm_requested_bytes, docker.shm_allocated_bytes) == (64 * MIB, 48 * MIB, 48 * MIB)
    assert (pod.shm_bytes, pod.memlock_soft_bytes) == (MIB, 64 * MIB)


def test_no_shm_and_no_size() -> None:
    found = limits.probe(linux())
    assert isinstance(found, LimitsFacts)
    assert (found.shm_allocated_bytes, found.shm_error) == (0, "/dev/shm is not there")
    assert not found.memlock_read
    unlimited = limits.probe(linux({"exists /dev/shm": True, "disk /dev/shm": {"total_bytes": 0, "free_bytes": 0}}))
    assert isinstance(unlimited, LimitsFacts)
    assert (unlimited.shm_bytes, unlimited.shm_allocated_bytes) == (None, 16 * MIB)


def test_other_systems_have_no_shm() -> None:
    mac = facts("mac-m2")
    assert (mac.shm_allocated_bytes, mac.shm_error, mac.open_files_soft) == (None, None, 256)
    windows = facts("windows-11")
    assert (windows.open_files_soft, windows.memlock_read) == (None, False)


def test_the_trial_stays_small() -> None:
    plenty = Disk(1 << 40, 1 << 40)
    assert limits.trial_bytes(machine("h200-vm"), plenty) == 16 * MIB
    # an eighth of what the memory group has left, which is a million bytes
    assert limits.trial_bytes(machine("kubernetes-cgroup2"), plenty) == (68719476736 - 68719000000 + 523264) // 8 // 4096 * 4096
    # three quarters of the file system: others may be at work in it
    assert limits.trial_bytes(machine("h200-vm"), Disk(16 * MIB, 16 * MIB)) == 12 * MIB
    tight = linux({"read /proc/meminfo": "MemAvailable: 80000 kB\n"})
    assert limits.trial_bytes(tight, plenty) == 10000 * 1024 // 4096 * 4096
    assert limits.trial_bytes(linux({"read /proc/meminfo": "MemAvailable: 3 kB\n"}), plenty) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/shm is Linux's")
def test_allocation_is_real_and_leaves_nothing() -> None:
    before, free = set(os.listdir("/dev/shm")), os.statvfs("/dev/shm")
    found = limits.probe(RealHost())
    assert isinstance(found, LimitsFacts) and found.open_files_soft
    assert found.shm_error is None and found.shm_allocated_bytes == found.shm_requested_bytes
    assert not [name for name in set(os.listdir("/dev/shm")) - before if name.startswith("envcheck")]
    assert os.statvfs("/dev/shm").f_blocks == free.f_blocks


@pytest.mark.skipif(sys.platform != "linux", reason="fallocate is Linux's")
def test_allocation_without_o_tmpfile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "O_TMPFILE")
    assert allocate(str(tmp_path), MIB).allocated_bytes == MIB
    assert list(tmp_path.iterdir()) == []


def test_allocation_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = allocate(str(tmp_path / "nowhere"), MIB)
    assert (gone.allocated_bytes, gone.error) == (0, "No such file or directory")

    def full(_fd: int, offset: int, _size: int) -> None:
        if offset >= 32 * MIB:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    partly = allocate(str(tmp_path), 64 * MIB)
    assert (partly.requested_bytes, partly.allocated_bytes, partly.error) == (64 * MIB, 32 * MIB, "No space left on device")


GROUP2 = {
    "read /proc/self/cgroup": "0::/pod/worker\n",
    "read /proc/self/mountinfo": "1 0 0:35 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
    "read /sys/fs/cgroup/pod/worker/pids.max": "max\n",
    "read /sys/fs/cgroup/pod/worker/pids.current": "90\n",
    "read /sys/fs/cgroup/pod/pids.max": "1024\n",
    "read /sys/fs/cgroup/pod/pids.current": "100\n",
}


def tasks(answers: dict[str, str]) -> tuple[int | None, int | None]:
    found = limits.probe(linux(answers))
    assert isinstance(found, LimitsFacts)
    return found.group_tasks, found.group_tasks_limit


def test_tasks_of_the_group_with_the_least_room() -> None:
    assert tasks(GROUP2) == (100, 1024)  # the limit sits on the parent
    wider = {"read /sys/fs/cgroup/pids.max": "4096\n", "read /sys/fs/cgroup/pids.current": "4000\n"}
    assert tasks(GROUP2 | wider) == (4000, 4096)  # more are allowed there, and fewer are left
    first = {
        "read /proc/self/cgroup": "8:pids:/docker/abc\n4:memory:/\n0::/\n",
        "read /proc/self/mountinfo": "1 0 0:35 / /sys/fs/cgroup/pids ro - cgroup cgroup rw,pids\n",
        "read /sys/fs/cgroup/pids/docker/abc/pids.max": "512\n",
        "read /sys/fs/cgroup/pids/docker/abc/pids.current": "7\n",
    }
    assert tasks(first) == (7, 512)


@pytest.mark.parametrize("limit", ["max\n", "", "x"])
def test_no_limit_of_tasks(limit: str) -> None:
    assert tasks(GROUP2 | {"read /sys/fs/cgroup/pod/pids.max": limit}) == (None, None)
    assert tasks({}) == (None, None)
    assert tasks({key: value for key, value in GROUP2.items() if not key.endswith("pids.current")}) == (None, None)
