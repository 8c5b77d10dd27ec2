"""A process that has imported torch once and forks for each request, as the agent does: a fault costs its deadline and no import.

Run as a file. Requests are JSON lines on stdin, answers JSON lines on stdout; `Ranks` is the client for tests. In each fork:
the environment and limits of the request, a patch of tests/faults/torch_patches, network namespaces by rank, then either arms of the
agent's own live check, or plain processes that call init_process_group as a training script does.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from envcheck.agent import jsonl, processes, quick_check, rank, rank_start, torch_steps

HERE = Path(__file__).parent
CLONE_NEWNET = 0x40000000


class Ranks:
    """The client. `run` returns the agent's lines of one request."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "rank_server.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=HERE, start_new_session=True
        )
        self.ask({"ready": True}, 120)

    def ask(self, request: dict[str, Any], seconds: float) -> Any:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        assert ready, "no answer within the deadline of the test"
        return json.loads(self.process.stdout.readline())

    def run(self, folder: Path, *, seconds: float = 60.0, **request: Any) -> list[dict[str, Any]]:
        """Arms of the live check. `arm`: keywords of make_arm, `tasks`: what of the full check its ranks do; without `arm` the quick
        check's arms."""
        lines: list[dict[str, Any]] = self.ask({"folder": str(folder), **request}, seconds)
        return lines

    def script(self, folder: Path, processes: list[dict[str, Any]], seconds: float = 60.0) -> list[str]:
        """Output of processes that each call init_process_group with their own environment."""
        outputs: list[str] = self.ask({"folder": str(folder), "script": processes}, seconds)
        return outputs

    def close(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(10)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()


def serving() -> Iterator[Ranks]:
    """For a fixture of the module."""
    ranks = Ranks()
    try:
        yield ranks
    finally:
        ranks.close()


# ---------------------------------------------------------------- in the server


def main() -> None:
    import torch  # noqa: TID251 - this is the target
    import torch._dynamo  # noqa: TID251
    import torch.distributed  # noqa: TID251
    import torch.nn.parallel  # noqa: TID251

    for line in sys.stdin:
        request = json.loads(line)
        answer: Any = True
        if "script" in request:
            answer = plain_processes(torch, request)
        elif "folder" in request:
            out = os.path.join(request["folder"], "agent.jsonl")
            pid = os.fork()
            if pid == 0:
                try:
                    live_check(torch, request, out)
                finally:
                    os._exit(0)
            os.waitpid(pid, 0)
            with open(out, encoding="utf-8") as file:
                answer = [json.loads(one) for one in file]
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def live_check(torch: Any, request: dict[str, Any], out: str) -> None:
    processes.leave_stacks(os.path.join(request["folder"], "agent.stack"))
    os.environ.update(request.get("env", {}))
    for name in request.get("unset", ()):
        os.environ.pop(name, None)
    if request.get("fault"):
        patched(torch, request["fault"])
    at_start(request)
    options = {"folder": request["folder"], "nproc": request.get("nproc"), "backend": request.get("backend", "gloo"), "live": "quick"}
    options["stage_seconds"] = request.get("stage_seconds", 10.0)  # the least that a stage of a real check is given
    writer = jsonl.Writer(out)
    plan = rank_start.Plan(options, writer, True, options["stage_seconds"], time.monotonic() + request.get("within", 40.0))
    if "tasks" in request:  # of the full check
        plan.tasks, alone = torch_steps.full_tasks(), request["arm"]["backend"] == "none"
        stages = ["start", "device", "end"] if alone else quick_check.SHORT
        arm = quick_check.make_arm(**request["arm"], stages=stages)
        quick_check.run(plan, {**arm, "tasks": request["tasks"], "patience": {}, "alone": alone})
    elif "arm" in request:
        quick_check.run(plan, quick_check.make_arm(**request["arm"]))
    else:
        quick_check.run_arms(plan, torch.distributed, None)


def patched(torch: Any, fault: str) -> None:
    """The patches of tests/faults/torch_patches, on the torch that is imported already."""
    os.environ["ENVCHECK_FAULT"] = fault
    sys.path.insert(0, str(HERE / "faults" / "torch_patches"))
    sys.modules.pop("sitecustomize", None)
    import sitecustomize  # type: ignore[import-not-found,unused-ignore]

    sitecustomize.patch(torch)


def at_start(request: dict[str, Any]) -> None:
    """What happens to a rank before its first stage: another network, lower limits, or nothing more at all."""
    prepare, fork = rank.prepare, processes.fork

    number_here = [0]
    enter = jsonl.StageLog.enter

    def struck(self: Any, stage: str) -> None:
        """Stages in which no call of torch's could be patched."""
        enter(self, stage)
        if request["strike"] == f"kill:{stage}" and number_here[0] == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if request["strike"] == f"stop:{stage}" and number_here[0] == 1:
            os.kill(os.getpid(), signal.SIGSTOP)

    if "strike" in request:
        jsonl.StageLog.enter = struck

    def changed(options: Any, arm: Any, number: int, agent: Any, host: Any) -> None:
        number_here[0] = number
        if request.get("networks"):
            enter_network(request["networks"][number])
        if request.get("hosts"):
            private_file(request["hosts"], "/etc/hosts")
        if "open_files" in request:
            import resource

            resource.setrlimit(resource.RLIMIT_NOFILE, (request["open_files"], request["open_files"]))
        prepare(options, arm, number, agent, host)
        os.environ.update(request.get("rank_env", {}).get(str(number), {}))
        if request.get("never_starts") == number:
            time.sleep(3600)

    started = []

    def refused() -> int:
        started.append(1)
        if len(started) > request["forks"]:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        pid: int = fork()
        return pid

    rank.prepare = changed
    if "forks" in request:
        processes.fork = refused


def enter_network(name: str) -> None:
    import ctypes

    fd = os.open(f"/run/netns/{name}", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(fd, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
    os.close(fd)


def private_file(source: str, target: str) -> None:
    """Show `source` in the place of `target`, to this process alone."""
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    new_mounts, recursive_private, bind = 0x20000, 0x4000 | 0x40000, 0x1000
    failed = library.unshare(new_mounts) or library.mount(None, b"/", None, recursive_private, None)
    if failed or library.mount(source.encode(), target.encode(), None, bind, None):
        raise OSError(ctypes.get_errno(), "mount")


def plain_processes(torch: Any, request: dict[str, Any]) -> list[str]:
    """Fork one process each, wait for all, return what they printed."""
    pids, paths = [], []
    for number, one in enumerate(request["script"]):
        path = os.path.join(request["folder"], f"script-{number}.log")
        paths.append(path)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                os.dup2(fd, 1)
                os.dup2(fd, 2)
                if one.get("network"):
                    enter_network(one["network"])
                training(torch, one)
                code = 0
            except BaseException:  # noqa: BLE001 - what a script prints when it dies is what the test wants
                import traceback

                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        pids.append(pid)
    limit = time.monotonic() + 45
    for pid in pids:
        while not os.waitpid(pid, os.WNOHANG)[0]:
            if time.monotonic() > limit:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
    return [Path(path).read_text(encoding="utf-8", errors="replace") for path in paths]


def training(torch: Any, one: dict[str, Any]) -> None:
    """What a script does first."""
    import datetime

    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK"):
        os.environ.pop(name, None)
    os.environ.update(one["env"])
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", timeout=datetime.timedelta(seconds=one.get("timeout", 3)))
    torch.distributed.barrier()


if __name__ == "__main__":
    main()
