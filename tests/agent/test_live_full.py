"""`--live full` on a real torch: every part passes or says why it was left out; broken parts are named, each by its own arm."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from listeners import Watch, own_addresses
from patients import HERE, NO_ISOLATION, Examined, all_gone, examine, needs_torch, processes_with

from envcheck.agent import full_check, launcher_runs, rank_start, temporary
from envcheck.facts.snapshot import Arm, LiveFacts, LiveStatus
from envcheck.target.process import Budget, Target, end, start

pytestmark = [needs_torch, pytest.mark.torch]

BUDGET = Budget(600)  # a machine that does other things as well takes its time
HERE_ALWAYS = {
    "collectives": {"collectives-gloo"},
    "training": {
        "ddp-find-unused-parameters", "ddp-static-graph", "ddp-buckets", "ddp-bucket-view", "ddp-batch-norm", "ddp-join",
        "distributed-sampler", "rng-seeding", "dataloader", "arithmetic", "amp-bf16", "checkpoint",
    },
    "launchers": {
        "init-env", "init-tcp", "init-file", "store-tcp", "store-file", "store-hash", "torchrun-standalone", "torchrun-c10d",
        "launch", "launch-use-env", "mp-spawn",
    },
}  # fmt: skip
LISTENS = {"init-env", "init-tcp", "torchrun-standalone", "torchrun-c10d", "launch", "launch-use-env"}  # on every address
if NO_ISOLATION:
    HERE_ALWAYS["launchers"] -= LISTENS
needs_isolation = pytest.mark.skipif(bool(NO_ISOLATION), reason=NO_ISOLATION)
MAY_BE_SKIPPED = {
    "fsdp2", "distributed-checkpoint", "sync-batch-norm", "amp-fp16", "compile", "cpp-extension", "mpirun", "srun",
    "dataloader-pin-memory", "cudnn-deterministic", "collectives-nccl", "ddp-model-parallel", "data-parallel",
    *(LISTENS if NO_ISOLATION else ()),
}  # fmt: skip


def broken(*faults: str, **options: Any) -> Examined:
    path = HERE / "faults" / "full_patches"
    return examine(path=path, env={"ENVCHECK_FAULT": ",".join(faults)}, live="full", budget=BUDGET, stage_seconds=10.0, **options)


def arms_of(examined: Examined) -> dict[str, Arm]:
    live = examined.facts["live"]
    assert isinstance(live, LiveFacts), live
    return {arm.name: arm for arm in live.arms}


def tried(examined: Examined, name: str) -> Arm:
    if NO_ISOLATION and name in LISTENS:
        pytest.skip(NO_ISOLATION)
    return arms_of(examined)[name]


@pytest.fixture(scope="module")
def healthy() -> Examined:
    before = left_in_memory()
    # Most of what listens does so in a namespace of its own: a listener of ours shows that the watch would see one.
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)), Watch(os.getpid()) as watch:
        examined = examine(live="full", budget=BUDGET, tmp=Path(folder))
        assert not os.listdir(folder), "temporary files of torch, torchrun or a compiler are left"
    assert not left_in_memory() - before
    assert watch.seen
    assert not watch.abroad.keys() - own_addresses()
    return examined


def left_in_memory() -> set[str]:
    place = Path("/dev/shm")
    return {one.name for one in place.iterdir() if one.name.startswith(("torch_", "sem.mp-"))} if place.is_dir() else set()


def test_everything_passes_or_says_why_not(healthy: Examined) -> None:
    live, arms = healthy.facts["live"], arms_of(healthy)
    bad = {name: arm.reason for name, arm in arms.items() if arm.status not in (LiveStatus.PASS, LiveStatus.SKIPPED)}
    assert not bad
    assert live.status is LiveStatus.PASS, live.reason
    for part, names in HERE_ALWAYS.items():
        assert {name: arms[name].part for name in names} == dict.fromkeys(names, part)
        assert not [name for name in names if arms[name].status is not LiveStatus.PASS]
    skipped = {name: arm for name, arm in arms.items() if arm.status is LiveStatus.SKIPPED}
    assert set(skipped) <= MAY_BE_SKIPPED
    for name, arm in skipped.items():
        assert arm.reason and any(name in line and arm.reason in line for line in live.not_proved), name
    assert healthy.ended.finished and all_gone(str(healthy.folder))


def test_the_wire_is_measured(healthy: Examined) -> None:
    live = healthy.facts["live"]
    assert arms_of(healthy)["wire"].status is LiveStatus.PASS and live.wire is not None
    assert (live.wire.backend, live.wire.device, live.wire.world_size) == ("gloo", "cpu", 2)
    sizes = [point.size_bytes for point in live.wire.points]
    assert sizes == sorted(sizes) and len(sizes) > 2 and sizes[0] == 64 << 10
    assert all(point.algbw_gb_s > 0 and point.busbw_gb_s == pytest.approx(point.algbw_gb_s) for point in live.wire.points)  # two ranks


def test_collectives_are_a_stage_each(healthy: Examined) -> None:
    for rank in arms_of(healthy)["collectives-gloo"].ranks:
        names = [stage.name for stage in rank.stages if stage.name not in ("start", "device", "store", "init", "barrier", "end", "destroy")]
        assert names == [
            "all_reduce-sum", "all_reduce-avg", "all_reduce-max", "all_reduce-large", "broadcast", "reduce", "all_gather",
            "reduce_scatter", "all_to_all", "send-recv", "async", "objects", "subgroups",
        ]  # fmt: skip
        assert all(stage.status == "ok" or (stage.status == "skipped" and "by design" in stage.detail) for stage in rank.stages)
        assert all(stage.seconds is not None for stage in rank.stages)


@needs_isolation
def test_which_local_rank_argument_came(healthy: Examined) -> None:
    assert re.fullmatch(r"workers are told by --local[-_]rank", arms_of(healthy)["launch"].reason)


def test_every_arm_has_a_line_for_the_progress(healthy: Examined) -> None:
    begun = {line["begin"].partition(" ")[2] for line in healthy.ended.lines if line.get("begin", "").startswith("full ")}
    tried = {name for name, arm in arms_of(healthy).items() if arm.part and (arm.status is LiveStatus.PASS or arm.ranks)}
    assert tried <= begun


def test_the_order_of_arms_does_not_depend_on_who_was_first(healthy: Examined) -> None:
    names = [arm.name for arm in healthy.facts["live"].arms if arm.part]
    assert names.index("collectives-gloo") < names.index("ddp-join") < names.index("mp-spawn") < names.index("compile")
    assert names[-1] == "store-hash"


@pytest.fixture(scope="module")
def first_patient() -> Examined:
    return broken("broadcast", "sampler", "loader", "checkpoint", "one-worker", "static-graph-hangs")


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        (
            "collectives-gloo",
            LiveStatus.FAIL,
            r"broadcast from rank 0 of 16384 × int32 .*: 1 of 16384 values are wrong, the first at 16383",
        ),
        ("distributed-sampler", LiveStatus.FAIL, r"DistributedSampler: 1 of 52 samples come more than once"),
        # the signal may strike in the middle of threading.py, whose own error then comes first
        ("dataloader", LiveStatus.FAIL, r"DataLoader worker \(pid.*\) (exited unexpectedly|is killed by signal: Killed)|KeyError: <Thread"),
        ("checkpoint", LiveStatus.FAIL, r"torch.save and torch.load: the parameters one step later: \d+ of 212 numbers came back changed"),
        ("torchrun-standalone", LiveStatus.FAIL, r"torchrun started 1 of 2 workers"),
        ("torchrun-c10d", LiveStatus.FAIL, r"torchrun started 1 of 2 workers"),
        ("launch", LiveStatus.FAIL, r"torch.distributed.launch started 1 of 2 workers"),
        ("ddp-static-graph", LiveStatus.HANG, r"rank 1 did not enter the collective of the stage train .*sitecustomize\.py"),
        ("ddp-bucket-view", LiveStatus.PASS, r""),
        ("mp-spawn", LiveStatus.PASS, r""),
        ("amp-bf16", LiveStatus.PASS, r""),
    ],
)
def test_fault_is_named(first_patient: Examined, name: str, status: LiveStatus, words: str) -> None:
    arm = tried(first_patient, name)
    assert arm.status is status, arm.reason
    assert re.search(words, arm.reason), arm.reason
    assert first_patient.ended.finished and all_gone(str(first_patient.folder))


def test_the_whole_fails_when_a_part_does(first_patient: Examined) -> None:
    from envcheck.checks.live import live_wrong_result
    from envcheck.engine.judge import judge
    from envcheck.facts.snapshot import Snapshot
    from envcheck.tables.compat import Tables
    from envcheck.tables.folders import rules_folder

    live = first_patient.facts["live"]
    assert live.status is LiveStatus.FAIL
    assert live.reason.startswith("collectives-gloo: ")
    hit = judge(Snapshot(live=live), [live_wrong_result], Tables((rules_folder("compat"),)))[0].hit
    assert hit and hit.values["arm"] == "collectives-gloo"
    assert any(one.source == "trial ddp-static-graph" and "hang" in one.text for one in hit.evidence)


@pytest.fixture(scope="module")
def second_patient() -> Examined:
    return broken("fsdp", "worker-exits", "loader-hangs")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("fsdp2", LiveStatus.FAIL, r"FSDP2: the gradients of step 1 of rank \d differ from one process that sees all data"),
        ("torchrun-standalone", LiveStatus.FAIL, r"rank 1: left with exit code 3 .*under torchrun"),
        ("torchrun-c10d", LiveStatus.FAIL, r"rank 1: left with exit code 3 .*under torchrun"),
        ("launch-use-env", LiveStatus.FAIL, r"rank 1: left with exit code 3 .*under torch.distributed.launch"),
        ("dataloader", LiveStatus.HANG, r"rank 0 did not leave the stage load"),
        ("checkpoint", LiveStatus.PASS, r""),
        ("collectives-gloo", LiveStatus.PASS, r""),
    ],
)
def test_fault_is_named_too(second_patient: Examined, name: str, status: LiveStatus, words: str) -> None:
    arm = tried(second_patient, name)
    if name == "fsdp2" and arm.status is LiveStatus.SKIPPED:
        pytest.skip(arm.reason)
    assert arm.status is status, arm.reason
    assert re.search(words, arm.reason), arm.reason
    assert second_patient.ended.finished and all_gone(str(second_patient.folder))


MPIRUN = """#!/usr/bin/env bash
# mpirun -n N COMMAND...: the ranks of a launcher that is in order, or twice the rank in $SAME
n=$2; shift 2
rank=0 pids= status=0
while [ $rank -lt $n ]; do
  OMPI_COMM_WORLD_RANK=${SAME:-$rank} OMPI_COMM_WORLD_SIZE=$n OMPI_COMM_WORLD_LOCAL_RANK=$rank "$@" &
  pids="$pids $!" rank=$((rank + 1))
done
for pid in $pids; do wait -n || { status=$?; kill $pids 2>/dev/null; }; done
exit $status
"""


def with_mpirun(folder: Path) -> dict[str, str]:
    (folder / "mpirun").write_text(MPIRUN)
    (folder / "mpirun").chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


@needs_isolation
def test_mpirun(tmp_path: Path) -> None:
    arm = arms_of(examine(live="full", budget=BUDGET, env=with_mpirun(tmp_path), parts=["mpirun"]))["mpirun"]
    assert arm.status is LiveStatus.PASS, arm.reason
    assert [rank.rank for rank in arm.ranks] == [0, 1]


@needs_isolation
def test_a_rank_that_two_processes_are_given(tmp_path: Path) -> None:
    """torch itself may not notice: two of three processes may end well, or all of them complain of something else."""
    names = ["torchrun-standalone", "torchrun-c10d", "launch", "mpirun"]
    environment = {"ENVCHECK_FAULT": "same-rank", "SAME": "1", **with_mpirun(tmp_path)}
    examined = examine(path=HERE / "faults" / "full_patches", env=environment, live="full", budget=BUDGET, parts=names)
    for name in names:
        arm = arms_of(examined)[name]
        assert arm.status is LiveStatus.FAIL
        assert re.search(r"rank 1: RuntimeError: two processes were told that they are rank 1: \d+ and \w+$", arm.reason), arm.reason
    assert all_gone(str(examined.folder))


@needs_isolation
@pytest.mark.slow
def test_ranks_that_are_started_afresh_do_the_same() -> None:
    """Importing torch is what takes the time, so they go from one arm to the next as long as nothing of it stays behind."""
    names = ["wire", "init-env", "init-tcp", "init-file", "distributed-sampler", "store-file", "checkpoint", "launch"]
    with Watch(os.getpid()) as watch:
        examined = examine(live="full", budget=BUDGET, start_method="spawn", parts=names)
    assert not watch.abroad.keys() - own_addresses()
    arms = arms_of(examined)
    bad = {name: arms[name].reason for name in names if arms[name].status is not LiveStatus.PASS}
    assert not bad
    pids = {name: tuple(rank.pid for rank in arm.ranks) for name, arm in arms.items()}
    assert pids["wire"] == pids["init-file"] == pids["init-env"], "on the host of their own"
    assert len({pids["gloo-as-is"], pids["wire"], pids["gloo-loopback"]}) == 3, "neither those of training nor of the machine's network"
    assert all_gone(str(examined.folder))


@needs_isolation
def test_nothing_is_left_when_the_agent_is_killed(tmp_path: Path) -> None:
    # while torchrun's workers, which have sessions of their own, wait for each other, and a loader's workers hang
    options = {"static": False, "live": "full", "nproc": None, "backend": "auto", "start_method": "auto"}
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(HERE / "faults" / "full_patches")}
    environment["ENVCHECK_FAULT"] = "rank-1-sleeps"
    running = start(Target(sys.executable, "the test wants it"), str(tmp_path), BUDGET, options, environment)
    try:
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline and not list(tmp_path.glob("torchrun-standalone.*.jsonl")):
            assert running.process.poll() is None
            time.sleep(0.1)
        time.sleep(1)
        assert len(processes_with(str(tmp_path))) > 3
        os.kill(running.process.pid, signal.SIGKILL)
        running.process.wait(10)
        limit = time.monotonic() + 5
        while processes_with(str(tmp_path)) and time.monotonic() < limit:
            time.sleep(0.1)
        assert not [line for line in processes_with(str(tmp_path)) if "launched_worker.py" in line]
    finally:
        end(running)
    assert all_gone(str(tmp_path))


def test_the_launched_script_takes_both_spellings(tmp_path: Path) -> None:
    script = HERE.parent / "envcheck" / "agent" / "launched_worker.py"
    for argument in ("--local-rank=0", "--local_rank=0"):
        environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
        done = subprocess.run([sys.executable, str(script), argument, "light", str(tmp_path), argument[2:9]], env=environment, timeout=60)
        assert done.returncode == 0
    told = [json.loads(path.read_text().splitlines()[0])["worker"]["argument"] for path in sorted(tmp_path.glob("*.jsonl"))]
    assert sorted(told) == ["--local-rank=0", "--local_rank=0"]


@pytest.mark.parametrize(("ago", "hangs"), [(1, False), (8, True)])
def test_a_launcher_whose_workers_have_just_spoken_does_not_hang(tmp_path: Path, ago: float, hangs: bool) -> None:
    """All its time may have gone into imports of torch on a busy machine; each worker has a stage's time from its last word on."""
    plan: Any = SimpleNamespace(options={"folder": str(tmp_path)}, stage_seconds=4.0)
    run = launcher_runs.LauncherRun(plan, launcher_runs.Launcher("mp-spawn", [], None, "mp.spawn"), 2)
    for pid in (101, 102):
        events = [{"enter": "start", "at": run.began}, {"leave": "start", "seconds": 9}, {"enter": "init", "at": run.began + 20 - ago}]
        path = tmp_path / f"mp-spawn.{pid}.jsonl"
        path.write_text("".join(json.dumps(event) + "\n" for event in events))
        os.utime(path, (1, 1))  # a clock that was set meanwhile
    assert not run.hangs(run.began + 11, 12.0)
    assert run.hangs(run.began + 20, 12.0) is hangs
    assert run.hangs(run.began + 37, 12.0), "three times its time is enough"


DIED = "[vm:1] *** Process received signal ***\n[vm:1] Signal: Segmentation fault (11)\n[vm:1] *** End of error message ***\n------\n"


@pytest.mark.parametrize(
    ("status", "under_mpi", "result"),
    [
        (139, False, ("skipped", "mpirun itself left with exit code 139 before it starts a rank: [vm:1] Signal: Segmentation fault (11)")),
        (-11, False, ("skipped", "mpirun itself died with SIGSEGV before it starts a rank: [vm:1] Signal: Segmentation fault (11)")),
        (139, True, ("fail", "mpirun left with exit code 139: [vm:1] Signal: Segmentation fault (11)")),
        (1, False, ("fail", "mpirun left with exit code 1: [vm:1] Signal: Segmentation fault (11)")),
    ],
)
def test_an_mpirun_that_dies_by_itself(
    status: int, under_mpi: bool, result: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2") if under_mpi else monkeypatch.delenv("OMPI_COMM_WORLD_SIZE", raising=False)
    plan: Any = SimpleNamespace(options={"folder": str(tmp_path)}, stage_seconds=4.0)
    launcher = launcher_runs.of_mpi("mpirun", "2", [])
    assert launcher_runs.LauncherRun(plan, launcher, 2).without_worker(status, DIED) == result


def test_nothing_is_built_where_nothing_may_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not temporary.no_programs(str(tmp_path)) and not temporary.no_programs(str(tmp_path / "none"))
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=8), raising=False)
    monkeypatch.setattr(os, "ST_NOEXEC", 8, raising=False)
    assert temporary.no_programs(str(tmp_path))


def test_a_folder_is_asked_without_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    rows = {"": True, "new": True, "new/below": True, "file": False, "file/below": False, "link": False}
    assert {name: temporary.takes_programs(str(tmp_path / name)) for name in rows} == rows
    assert not temporary.takes_programs(""), "torch takes it as it is, and raises"
    assert not temporary.takes_programs("/proc/self"), "root may write there, and it takes nothing"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]
    monkeypatch.setattr(temporary, "no_programs", lambda _folder: True)
    assert not temporary.takes_programs(str(tmp_path))


@pytest.mark.slow
def test_what_is_compiled_leaves_nothing_where_the_user_compiles(tmp_path: Path) -> None:
    names = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCH_TRACE", "TORCH_COMPILE_DEBUG_DIR")
    (tmp_path / names[0]).mkdir()
    env = {**{name: str(tmp_path / name) for name in names}, "TORCH_COMPILE_DEBUG": "1"}
    arm = arms_of(examine(live="full", budget=BUDGET, parts=["compile"], env=env))["compile"]
    assert arm.status is LiveStatus.PASS, arm
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == [names[0]]


@pytest.mark.slow
def test_a_cache_folder_that_takes_no_file_is_still_met(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    facts = examine(live="quick", budget=BUDGET, env={"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "file" / "below")}).facts
    assert facts["torch"].dynamo_failure.type == "NotADirectoryError"


@pytest.mark.parametrize("gpus", [0, 1, 2, 8])
def test_the_order_in_which_jobs_begin(gpus: int, tmp_path: Path) -> None:
    """Ranks that may go on to the next arm come before training uses them up; what is measured on GPUs waits until nothing runs."""
    options = {"folder": str(tmp_path), "nproc": "all", "backend": "auto", "live": "full"}
    plan: Any = rank_start.Plan(options, SimpleNamespace(line=lambda **_: None), True, 10.0, float("inf"))
    plan.host = SimpleNamespace(close=None)
    dist = SimpleNamespace(is_gloo_available=lambda: True, is_nccl_available=lambda: True)
    devices = [{"index": index, "kind": "cuda", "kernel": "ok"} for index in range(gpus)]
    planner = full_check.JobPlanner(plan, dist, {"devices": devices}, "pass")
    planner.plan_jobs()
    names = [getattr(job, "name", None) or job.arm["name"] for job in planner.jobs]
    assert names[-1 if gpus else 0] == "full-wire"
    assert names.index("init-file") < names.index("full-group-gloo") < names.index("torchrun-standalone")
    assert ("full-group-nccl" in names) == ("full-solo-two" in names) == (gpus >= 2)
    assert planner.jobs[-1 if gpus else 0].arm["world_size"] == (gpus or 2)
