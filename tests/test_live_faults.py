"""The live check on a real torch with faults put into it: each is named, within its deadline, and nothing is left running."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from patients import HERE, examine, needs_torch, processes_with

from envcheck.facts import LiveFacts, LiveStatus

pytestmark = [needs_torch, pytest.mark.torch]

# One of each kind by a whole agent; every stage and more faults: test_faults_ranks, where torch is imported once.
FAULTS = [
    ("off-by-one", LiveStatus.FAIL, r"all_reduce of 65536 bytes .* 15384 of 16384 values are wrong, the first at 1000"),
    ("rank-1-stays-away", LiveStatus.HANG, r"rank 1 did not enter the collective of the stage all_reduce .*sitecustomize\.py"),
    ("kill:init", LiveStatus.FAIL, r"rank 1: died with SIGKILL in the stage init"),
    ("stop:ddp", LiveStatus.HANG, r"rank 1 did not leave the stage ddp: stopped by a signal"),
]


def live_of(facts: dict[str, object]) -> LiveFacts:
    live = facts["live"]
    assert isinstance(live, LiveFacts), live
    return live


@pytest.mark.parametrize(("fault", "status", "words"), FAULTS, ids=[fault for fault, _, _ in FAULTS])
def test_fault_is_named(fault: str, status: LiveStatus, words: str) -> None:
    examined = examine(path=HERE / "faults" / "torch_patches", env={"ENVCHECK_FAULT": fault}, live="quick", stage_seconds=4.0)
    live = live_of(examined.facts)
    assert live.status is status
    assert re.search(words, live.reason), live.reason
    assert examined.ended.finished, "the agent itself lives"
    assert not processes_with(str(examined.folder))
    if status is LiveStatus.HANG:
        assert any(rank.stack for rank in live.ranks)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_healthy(method: str) -> None:
    examined = examine(live="quick", start_method=method)
    live = live_of(examined.facts)
    assert live.status is LiveStatus.PASS, live.reason
    assert (live.start_method, live.world_size, live.backend) == (method, 2, "gloo")
    for rank in live.ranks:
        assert [stage.name for stage in rank.stages] == ["start", "device", "store", "init", "barrier", "all_reduce", "ddp", "destroy"]
        assert all(stage.status == "ok" and stage.seconds is not None for stage in rank.stages)
    assert {arm.name for arm in live.arms} == {"gloo-loopback", "gloo-as-is"}


def test_launcher_variables_do_not_reach_the_ranks() -> None:
    leaked = {
        "RANK": "5",
        "WORLD_SIZE": "64",
        "MASTER_ADDR": "192.0.2.1",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "PET_NNODES": "2",
        "SLURM_PROCID": "3",
    }
    assert live_of(examine(live="quick", env=leaked).facts).status is LiveStatus.PASS


def test_a_bad_interface_costs_only_the_arm_that_uses_it() -> None:
    live = live_of(examine(live="quick", env={"GLOO_SOCKET_IFNAME": "no-such-interface0"}).facts)
    status = {arm.name: arm.status for arm in live.arms}
    assert status == {"gloo-loopback": LiveStatus.PASS, "gloo-as-is": LiveStatus.FAIL}
    assert live.status is LiveStatus.FAIL and "no-such-interface0" in live.reason


def test_four_ranks() -> None:
    live = live_of(examine(live="quick", nproc=4).facts)
    assert live.status is LiveStatus.PASS and len(live.ranks) == 4


def test_sockets_stay_on_loopback(tmp_path: Path) -> None:
    # every listening socket of the ranks, seen while one of them stands still
    import subprocess
    import sys
    import time

    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from patients import HERE, examine;"
        "examine(path=HERE / 'faults' / 'torch_patches', env={'ENVCHECK_FAULT': 'sleep:barrier'}, live='quick', stage_seconds=6.0,"
        " folder_mark=sys.argv[2])"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(HERE), str(tmp_path)], cwd=HERE.parent)
    try:
        foreign: set[str] = set()
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            foreign |= listening(process.pid)
            time.sleep(0.1)
    finally:
        process.kill()
        process.wait(10)
    assert foreign, "no listening socket was seen at all"
    assert all(address in ("0100007F", "00000000000000000000000001000000") for address in foreign), foreign


def listening(root: int) -> set[str]:
    """Local addresses (hex, as /proc/net/tcp writes them) of sockets on which a descendant of `root` listens."""
    import os

    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                parents[int(name)] = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    family = {root}
    while grown := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= grown
    inodes = set()
    for pid in family:
        try:
            for entry in os.listdir(f"/proc/{pid}/fd"):
                link = os.readlink(f"/proc/{pid}/fd/{entry}")
                if link.startswith("socket:["):
                    inodes.add(link[8:-1])
        except OSError:
            continue
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            columns = line.split()
            if columns[3] == "0A" and columns[9] in inodes:
                found.add(columns[1].split(":")[0])
    return found
