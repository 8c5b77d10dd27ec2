"""`--live full`: what is tried besides the quick check, and the loop that runs it, two jobs (jobs.py) side by side."""

from __future__ import annotations

import time

from . import jobs, launcher_runs, processes, quick_check, torch_constants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Sequence

    from .rank_start import Plan

MULTI_PROCESS = (
    "collectives", "ddp-find-unused-parameters", "ddp-static-graph", "ddp-buckets", "ddp-bucket-view", "ddp-batch-norm", "ddp-join",
    "fsdp2", "sync-batch-norm", "distributed-sampler", "rng-seeding", "distributed-checkpoint", "store-tcp", "store-file",
)  # fmt: skip
# Compilers are as slow as they are; a loader's workers may be interpreters started afresh.
PATIENCE = {"compile": 6.0, "build": 4.0, "load": 3.0}
AT_ONCE = 2


def run_all(plan: Plan, dist: Any, asked: Any, control: str) -> List[str]:
    """Run everything; returns the names of all arms in the order in which a report shows them."""
    planner = JobPlanner(plan, dist, asked, control)
    planner.plan_jobs()
    processes.adopt_orphans()
    preload()
    waiting = planner.jobs
    running: List[Any] = []
    try:
        while waiting or running:
            for job in waiting[:]:
                if len(running) >= AT_ONCE:
                    break
                if job.gpu and any(other.gpu for other in running):
                    continue  # a GPU in exclusive mode takes one job
                if running and (getattr(job, "quiet", False) or any(getattr(other, "quiet", False) for other in running)):
                    continue
                waiting.remove(job)
                running.append(job)
                job.start()
            running = [job for job in running if not job.step()]
            wait(running)
    finally:
        for job in running:
            for pid in job.pids():
                processes.end_tree(pid)
        processes.end_strays([])
    return planner.order + planner.single_process_names


def wait(running: Sequence[Any]) -> None:
    """Until a rank says something, 20 ms at most: launchers say nothing by a pipe."""
    pipes = [one.pipe for job in running if getattr(job, "trial", None) for one in job.trial.ranks if one.pipe is not None]
    if pipes:
        processes.wait_readable(pipes, 0.02)
    elif running:
        time.sleep(0.02)


def preload() -> None:
    """What the forked children would each import; cheap, since torch._dynamo has brought most of it along."""
    for name in ("torch.distributed.run", "torch.distributed.launch", "torch.distributed.checkpoint", "torch.utils.data"):
        try:
            __import__(name)
        except Exception:  # noqa: S112 - the arm that needs it will say so
            continue


def priority(job: Any) -> int:
    """In which order jobs are begun: the longest first, and before ranks are used up in training those that leave them as they were
    (rank_start.may_rest), the measurement at the very front, where it waits for nobody. That of GPUs is longer and comes last."""
    if isinstance(job, jobs.ArmJob):
        return 2
    if not isinstance(job, jobs.TaskJob) or (job.gpu and not job.quiet):
        return 3
    if job.quiet:
        return 4 if job.gpu else 0
    return 1 if job.arm["alone"] else 3


class JobPlanner:
    """Decides which jobs there are on this machine."""

    def __init__(self, plan: Plan, dist: Any, asked: Any, control: str) -> None:
        self.plan, self.dist, self.control = plan, dist, control
        usable = quick_check.usable(asked)
        self.kind = str(usable[0]["kind"]) if usable else "cpu"
        self.places: List[int] = [row["index"] for row in usable]
        wanted = plan.options["nproc"]
        self.ranks = 2 if wanted in (None, "all") else int(wanted)
        self.gpu_ranks = len(self.places) if wanted == "all" else min(len(self.places), int(wanted or 2))
        self.jobs: List[Any] = []  # the longest first
        self.order: List[str] = []  # as a report shows them
        self.single_process_names: List[str] = []  # of one process each: to be shown last
        self.cpu_only = plan.options["backend"] not in ("auto", "nccl", "xccl")

    def plan_jobs(self) -> None:
        alone, cuda = list(jobs.SINGLE_PROCESS), self.kind == "cuda" and not self.cpu_only
        if cuda:
            alone.remove("compile")  # Triton is what counts there
        self.batch("solo", "none", "cpu", 1, alone, alone=True)
        group = list(MULTI_PROCESS)
        if not torch_constants.has(self.dist, "gloo") or self.control != "pass":
            why = "gloo over loopback did not pass" if torch_constants.has(self.dist, "gloo") else "gloo is not in this build"
            self.without(why, group, self.ranks)
        else:
            on_gpu = cuda and len(self.places) >= 2 and torch_constants.has(self.dist, "nccl")
            if on_gpu:
                self.batch("group-nccl", "nccl", self.kind, self.gpu_ranks, group)
                self.batch("group-gloo", "gloo", "cpu", self.ranks, ["collectives"])
                self.batch("model-parallel", "gloo", self.kind, 2, ["ddp-model-parallel"])
            else:
                self.batch("group-gloo", "gloo", "cpu", self.ranks, group)
            self.start_methods()
        if cuda:
            self.batch("solo-gpu", "none", self.kind, 1, list(jobs.SINGLE_PROCESS_GPU), alone=True)
        else:
            self.skip("dataloader-pin-memory", "pinned memory needs a CUDA GPU", 1)
            self.skip("cudnn-deterministic", "cuDNN needs a CUDA GPU", 1)
        if cuda and len(self.places) >= 2:
            self.batch("solo-two", "none", self.kind, 1, ["data-parallel"], alone=True)
        else:
            for name, world in (("collectives-nccl", 2), ("ddp-model-parallel", 2), ("data-parallel", 1)):
                self.skip(name, "needs two GPUs", world, jobs.part_of(name.replace("-nccl", "")))
        self.bandwidth(cuda)
        self.jobs.sort(key=priority)

    def start_methods(self) -> None:
        """How processes come to be and meet. What listens on every address is tried where there is loopback alone, or left out."""

        def skip(name: str, why: str) -> None:
            self.skip(name, why, self.ranks, "launchers")

        for method in ("env", "tcp", "file"):
            name, store = "init-" + method, method + "://"
            arm = quick_check.make_arm(name, "gloo", "cpu", self.ranks, loopback=True, store=store, stages=quick_check.SHORT, sizes=(4096,))
            arm["part"] = "launchers"
            arm["isolated"] = arm["isolated"] or self.plan.host is not None
            if arm["isolated"] and not self.plan.host:
                skip(name, self.plan.exposed)
            else:
                self.add(jobs.ArmJob(self.plan, arm), name)
        for launcher in launcher_runs.launchers(self.plan.options, self.ranks, skip):
            if launcher.listens and not self.plan.host:
                skip(launcher.name, self.plan.exposed)
            else:
                self.add(launcher_runs.LauncherRun(self.plan, launcher, self.ranks), launcher.name)

    def bandwidth(self, cuda: bool) -> None:
        """Over all GPUs, else over two ranks of the CPU."""
        if cuda and len(self.places) >= 2 and self.control == "pass" and torch_constants.has(self.dist, "nccl"):
            self.batch("wire", "nccl", self.kind, len(self.places), ["wire"])
        elif cuda:
            self.batch("wire", "none", self.kind, 1, ["wire"], alone=True)
        elif self.control == "pass":
            self.batch("wire", "gloo", "cpu", self.ranks, ["wire"])
        else:
            self.skip("wire", "gloo over loopback did not pass", self.ranks, "wire", "inconclusive")

    def batch(self, name: str, backend: str, device: str, world: int, tasks: Sequence[str], alone: bool = False) -> None:
        arm = quick_check.make_arm(
            "full-" + name, backend, device, world, places=self.places, loopback=backend == "gloo", stages=quick_check.SHORT
        )
        arm["isolated"] = backend == "gloo" and device == "cpu" and self.plan.host is not None
        if not arm["isolated"]:
            arm["store"] = "file"  # nobody else gets at it
        if alone:
            arm["places"] = self.places if device != "cpu" else []
            arm["store"] = "none"
        elif device != "cpu" and len(self.places) < world:
            return
        tasks = [task for task in tasks if self.wanted(task)]
        if not tasks:
            return
        arm["tasks"], arm["alone"], arm["patience"] = list(tasks), alone, PATIENCE
        job = jobs.TaskJob(self.plan, arm)
        self.jobs.append(job)
        names = [job.names[task] for task in tasks]
        if alone:
            self.single_process_names += names
        else:
            self.order += names

    def wanted(self, name: str) -> bool:
        """The agent's option `parts` (a list of names) leaves the others out: for tests, and to look into one."""
        parts = self.plan.options.get("parts")
        return parts is None or name in parts

    def add(self, job: Any, name: str) -> None:
        if not self.wanted(name):
            return
        self.jobs.append(job)
        self.order.append(name)

    def skip(self, name: str, why: str, world: int, part: str = "training", status: str = "skipped") -> None:
        arm: Any = {"name": name, "backend": "none", "device": "cpu", "world_size": world, "part": part}
        quick_check.write_result(self.plan, arm, {"status": status, "reason": why, "seconds": 0.0, "ranks": []})
        self.order.append(name)

    def without(self, why: str, tasks: Sequence[str], world: int) -> None:
        """What needs a process group, and there is none to be had."""
        for task in tasks:
            self.skip("collectives-gloo" if task == "collectives" else task, why, world, jobs.part_of(task), "inconclusive")
        for name in ("init-env", "init-tcp", "init-file", "torchrun-standalone", "mp-spawn", "torchrun-c10d", "launch", "launch-use-env"):
            self.skip(name, why, world, "launchers", "inconclusive")
