"""The usual ways of starting several processes, each tried with a small script (launched_worker.py). For `--live full`.

torchrun, torch.distributed.launch and mp.spawn are called in a child forked from the agent, which has torch imported already: that
is what their commands do after the import. Their workers are interpreters started afresh, as always. torchrun's own rendezvous store
listens on all addresses, and so do the store of its workers and the daemons of some MPIs: what does is started where there is
loopback alone (isolation.py), or not at all.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

from . import jsonl, processes, quick_check, rank, rank_verdicts, worker_results

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

    from .isolation import LoopbackHost
    from .rank_start import Plan

WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "launched_worker.py")
PATIENCE = 3.0  # times the usual deadline of a stage: two interpreters import torch side by side
# Words with which a launcher says that it does not want to, here: as root, without enough slots, outside an allocation.
REFUSALS = ("as root", "not enough slots", "more processes than", "allocation", "Unable to confirm", "Invalid user", "slurm_load",
            "controller", "Requested node", "temporarily disabled", "timed out", "Immediate")  # fmt: skip
# Errors of a worker whose peer has gone.
PEER_GONE = ("closed by peer", "reset by peer", "refused", "imed out")


class Launcher:
    """One launcher: `call` is done in a forked child, `argv` is run where there is no fork or where it is a command of its own."""

    def __init__(self, name: str, argv: Sequence[str], call: Optional[Callable[[], None]], words: str) -> None:
        self.name, self.argv, self.call, self.words = name, list(argv), call, words
        self.environment: Dict[str, str] = {}
        self.keep: Tuple[str, ...] = ()  # variables that must stay although ranks never see them
        self.foreign = False  # a command that is not torch's
        self.listens = True  # on every address


def launchers(options: Dict[str, Any], world: int, skipped: Callable[[str, str], None]) -> List[Launcher]:
    """All that are to be tried. `skipped` is told of those that cannot."""
    folder = options["folder"]
    number = str(world)

    def script(how: str, name: str) -> List[str]:
        return [WORKER, how, folder, name]

    # All options with underscores: those with dashes came with torch 2.0.
    local = ["--nproc_per_node=" + number]
    rendezvous = ["--nnodes=1", "--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0", "--rdzv_id=envcheck"]
    launch = [*local, "--master_addr=127.0.0.1", "--master_port=29510"]
    launch_env = [*local, "--master_addr=127.0.0.1", "--master_port=29511", "--use_env"]
    spawn = Launcher("mp-spawn", [sys.executable, *script("spawn:" + number, "mp-spawn")], run_script, "mp.spawn")
    spawn.listens = False  # its processes meet at a file
    found = [
        of_torch("torchrun-standalone", "torch.distributed.run", ["--standalone", *local, *script("full", "torchrun-standalone")]),
        spawn,
        of_torch("torchrun-c10d", "torch.distributed.run", [*rendezvous, *local, *script("light", "torchrun-c10d")]),
        of_torch("launch", "torch.distributed.launch", [*launch, *script("light", "launch")]),
        of_torch("launch-use-env", "torch.distributed.launch", [*launch_env, *script("light", "launch-use-env")]),
    ]
    mpirun = shutil.which("mpirun") or shutil.which("mpiexec")
    if mpirun:
        found.append(of_mpi(mpirun, number, script("full", "mpirun")))
    else:
        skipped("mpirun", "there is no mpirun on PATH")
    srun = shutil.which("srun")
    if not srun:
        skipped("srun", "there is no srun on PATH")
    elif not os.environ.get("SLURM_JOB_ID"):
        skipped("srun", "not inside a Slurm allocation, and none is asked for")
    else:
        found.append(of_slurm(srun, number, script("full", "srun")))
    return found


def of_torch(name: str, module: str, arguments: List[str]) -> Launcher:
    def call() -> None:
        import importlib

        main: Any = importlib.import_module(module)
        main.main(arguments)

    words = "torchrun" if module.endswith(".run") else "torch.distributed.launch"
    return Launcher(name, [sys.executable, WORKER, "module:" + module, *arguments], call, words)


def run_script() -> None:
    """As `python launched_worker.py …` would, sys.argv being set: mp.spawn's children import the script by its path."""
    import runpy

    runpy.run_path(WORKER, run_name="__main__")


def of_mpi(program: str, number: str, script: List[str]) -> Launcher:
    """Open MPI refuses root and more ranks than cores unless told otherwise; by variables, since its versions differ in their flags."""
    launcher = Launcher("mpirun", [program, "-n", number, sys.executable, *script], None, os.path.basename(program))
    launcher.foreign = True
    launcher.environment = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PRTE_ALLOW_RUN_AS_ROOT": "1",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "OMPI_MCA_oob_tcp_if_include": "lo",
        "OMPI_MCA_btl_tcp_if_include": "lo",
    }  # fmt: skip
    return launcher


def of_slurm(program: str, number: str, script: List[str]) -> Launcher:
    """A step of this very allocation, beside what runs in it; one minute at most."""
    argv = [program, "--ntasks=" + number, "--nodes=1", "--overlap", "--immediate=15", "--time=1", "--kill-on-bad-exit=1"]
    node = os.environ.get("SLURMD_NODENAME")
    argv += ["--nodelist=" + node] if node else []
    launcher = Launcher("srun", [*argv, sys.executable, *script], None, "srun")
    launcher.foreign = True
    launcher.listens = False  # but for srun itself, which Slurm's own daemons answer
    launcher.keep = ("SLURM_",)
    return launcher


class LauncherRun:
    """One way under way: a job of full_check.py's."""

    gpu = False

    def __init__(self, plan: Plan, launcher: Launcher, world: int) -> None:
        self.plan, self.launcher, self.world = plan, launcher, world
        self.name = launcher.name
        self.folder: str = plan.options["folder"]
        self.log = os.path.join(self.folder, launcher.name + ".log")
        self.pid = 0
        self.process: Optional[subprocess.Popen[bytes]] = None
        self.status: Optional[int] = None
        self.began = time.monotonic()
        self.pulse = processes.Pulse()
        self.late = self.out_of_time = False
        self.workers: List[worker_results.WorkerResult] = []

    def start(self) -> None:
        self.began = time.monotonic()
        self.plan.writer.line(begin="full " + self.name, at=self.began)
        try:
            host = self.plan.home(self.launcher.listens) or (self.plan.host if self.launcher.call else None)
            if self.plan.fork and self.launcher.call:
                self.fork(self.launcher.call, host)
            else:
                self.run(host)
        except (OSError, subprocess.SubprocessError) as error:
            self.report({"status": "inconclusive", "reason": "it could not be started: %s" % jsonl.said(error), "ranks": []})
            self.status = 0

    def environment(self) -> Dict[str, str]:
        """Without the variables of a launcher that we run under; over loopback; what is written to TMPDIR goes where we clean up."""
        keep = self.launcher.keep
        kept = {key: value for key, value in os.environ.items() if not key.startswith(rank.SCRUB) or (keep and key.startswith(keep))}
        kept.update(self.launcher.environment, TMPDIR=self.folder)
        if sys.platform == "linux":
            kept["GLOO_SOCKET_IFNAME"] = "lo"
        return kept

    def run(self, host: Optional[LoopbackHost]) -> None:
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.launcher.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment(), start_new_session=True,
                preexec_fn=host.enter if host else None,
            )  # fmt: skip
        self.pid = self.process.pid

    def fork(self, call: Callable[[], None], host: Optional[LoopbackHost]) -> None:
        agent = os.getpid()
        self.pid = processes.fork()
        if self.pid:
            return
        code = 1
        try:
            log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(log, 1)
            os.dup2(log, 2)
            if host:
                host.enter()
            processes.die_with_parent(agent)
            processes.leave_stacks(os.path.join(self.folder, self.name + ".stack"))
            environment = self.environment()
            os.environ.clear()
            os.environ.update(environment)
            import tempfile

            tempfile.tempdir = None  # it may have been asked before
            sys.argv = self.launcher.argv[1:]
            call()
            code = 0
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        except BaseException:
            sys.__excepthook__(*sys.exc_info())
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(code)

    def pids(self) -> List[int]:
        return [self.pid] if self.pid and self.status is None else []

    def step(self) -> bool:
        """True when it is over, its result written."""
        if self.status is not None:
            return True
        now = time.monotonic()
        processes.emptied_above(self.log, processes.LOG_LIMIT)
        self.status = self.process.poll() if self.process else processes.exit_status(self.pid)
        if self.status is None:
            self.out_of_time = now > self.plan.deadline
            self.late = self.hangs(now, PATIENCE * self.plan.stage_seconds)
            if not self.late and not self.out_of_time:
                return False
            self.read()
            for one in self.workers:
                if not one.over and processes.command_holds(one.pid, WORKER):
                    processes.ask_for_stack(one.pid)
            time.sleep(0.5)
            if self.launcher.foreign:  # lets it take its own daemons and steps along
                jsonl.attempt(os.kill, self.pid, signal.SIGTERM)
                processes.reap(self.pid, 2.0) if not self.process else jsonl.attempt(self.process.wait, 2.0)
            processes.end_tree(self.pid)
            self.status = -signal.SIGKILL
            if self.process:
                jsonl.attempt(self.process.wait, 3.0)
        self.read()
        self.report(self.verdict())
        return True

    def hangs(self, now: float, limit: float) -> bool:
        """Past its time, unless its workers are still being started and something in them computes (imports of torch side by side), or
        one of them has just said something: on a slow machine the start may have taken all the time."""
        waited = now - self.began
        if waited <= limit:
            return False
        self.read()
        if waited > 3 * limit:
            return True
        if len(self.workers) < self.world or any(one.stage == "start" for one in self.workers):
            return not self.pulse.beats(self.pid, now)
        return now - max(one.said_at for one in self.workers) > self.plan.stage_seconds

    def read(self) -> None:
        prefix = self.name + "."
        names = [name for name in os.listdir(self.folder) if name.startswith(prefix) and name.endswith(".jsonl")]
        found = [worker_results.WorkerResult(os.path.join(self.folder, name)) for name in names]
        self.workers = sorted((one for one in found if one.pid), key=lambda one: (one.number, one.pid))

    def report(self, result: Dict[str, Any]) -> None:
        result["seconds"] = time.monotonic() - self.began
        arm: Any = {"name": self.name, "backend": "gloo", "device": "cpu", "world_size": self.world, "part": "launchers"}
        quick_check.write_result(self.plan, arm, result)

    def verdict(self) -> Dict[str, Any]:
        text = processes.tail(self.log)
        codes = worker_results.exit_codes(text)
        problem = self.late or self.out_of_time or bool(self.status)
        status, reason = self.judged(text, codes)
        rows = [one.facts(codes.get(one.pid), text if problem and not one.over else "", self.late and not one.over) for one in self.workers]
        rank_verdicts.on_one_clock([one.stages for one in self.workers])
        return {"status": status, "reason": reason, "ranks": rows}

    def judged(self, text: str, codes: Dict[int, int]) -> Tuple[str, str]:
        failed = self.first_failed()
        if failed:
            return "fail", "rank %d: %s" % (failed.number, failed.error)
        if self.late:
            return "hang", self.hanging()
        if self.out_of_time:
            return "inconclusive", "the time for the live check ran out"
        if not self.status:
            return self.contract()
        gone = self.first_gone(codes)
        if gone:
            code = codes.get(gone.pid)
            how = "ended" if code is None else ending(code)
            return "fail", "rank %d: %s in the stage %s under %s" % (gone.number, how, gone.stage, self.launcher.words)
        return self.without_worker(self.status, text)

    def first_failed(self) -> Optional[worker_results.WorkerResult]:
        """The first worker with an error; one whose error is no more than that another left comes last."""
        failed = [one for one in self.workers if one.error]
        own = [one for one in failed if not any(word in one.error for word in PEER_GONE)]
        return next(iter(own or failed), None)

    def first_gone(self, codes: Dict[int, int]) -> Optional[worker_results.WorkerResult]:
        """The first worker that ended badly, else the first that did not end. torchrun ends the others by SIGTERM when one has failed."""
        ended_badly = [one for one in self.workers if codes.get(one.pid) not in (None, 0, -signal.SIGTERM)]
        return next(iter(ended_badly or [one for one in self.workers if not one.over]), None)

    def hanging(self) -> str:
        """What it waits for: workers that were not started, workers that are not over, or nothing that we see."""
        words, seen = self.launcher.words, self.workers
        if len(seen) < self.world:
            return "%s started %d of %d workers and did not end" % (words, len(seen), self.world)
        behind = [one for one in seen if not one.over]
        if not behind:
            return "%s did not end after its workers had" % words
        return "rank %s did not leave the stage %s" % (", ".join(str(one.number) for one in behind), behind[0].stage)

    def without_worker(self, status: int, text: str) -> Tuple[str, str]:
        """It failed, and no worker did: a command that is not torch's may have refused to start any."""
        words, said = self.launcher.words, worker_results.last_error(text)
        if self.launcher.foreign and not self.workers:
            if status in (126, 127):
                return "skipped", "%s is on PATH and cannot be run: %s" % (words, said)
            if (status < 0 or status > 128) and "OMPI_COMM_WORLD_SIZE" not in os.environ:  # whoever does not use it misses nothing
                return "skipped", "%s itself %s before it starts a rank: %s" % (words, ending(status), said)
            if self.name == "srun" or any(word in text for word in REFUSALS):
                return "skipped", "%s refuses: %s" % (words, said)
        return "fail", "%s %s%s" % (words, ending(status), ": " + said if said else "")

    def contract(self) -> Tuple[str, str]:
        """It ended well: did it start what it was asked for, and tell each worker who it is?"""
        words, seen, world = self.launcher.words, self.workers, self.world
        if len(seen) != world:
            return "fail", "%s started %d of %d workers" % (words, len(seen), world)
        for key, expected in (("rank", list(range(world))), ("local_rank", list(range(world))), ("world_size", [world] * world)):
            told = [one.told.get(key) for one in seen]
            if sorted(-1 if one is None else one for one in told) != expected:
                return "fail", "%s told its workers %s %s, expected %s" % (words, key.upper(), told, expected)
        lost = [one for one in seen if not one.over]
        if lost:
            return "fail", "rank %d ended in the stage %s without an error" % (lost[0].number, lost[0].stage)
        if self.name.startswith("torchrun") and not all(one.told.get("MASTER_ADDR") and one.told.get("MASTER_PORT") for one in seen):
            return "fail", "%s sets no MASTER_ADDR and MASTER_PORT" % words
        argument = seen[0].told.get("argument")
        if self.name == "launch":
            if not argument:
                return "fail", "%s without --use-env passes neither --local-rank nor --local_rank" % words
            return "pass", "workers are told by %s" % str(argument).partition("=")[0]
        if self.name == "launch-use-env" and argument:
            return "fail", "%s with --use-env passes %s all the same" % (words, str(argument).partition("=")[0])
        return "pass", ""


def ending(code: int) -> str:
    """How a process ended, from its exit status."""
    return "left with exit code %d" % code if code >= 0 else "died with " + processes.signal_name(-code)
