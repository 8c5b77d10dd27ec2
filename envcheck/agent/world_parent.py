"""Serves one process of a job: imports torch once, then forks a rank for every attempt that it is told of on stdin, a line each.

{"attempt": N, "backend", "world_size", "ranks": [numbers of this process's ranks in the group], …} starts ranks (world_rank.py);
{"address": [host, port]} goes on to them; {"end": true} ends them, and so does the next attempt. At the end of stdin all are ended.
What happens is written to the file of the agent's lines, by the ranks themselves.
"""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import time

from . import jsonl, processes, torch_constants, torch_steps
from .import_guard import ImportGuard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

LOOK_SECONDS = 0.2  # how often it looks whether a rank has died without a word
DEVICES_SECONDS = 60.0  # for the child that asks how many GPUs there are


class StartedRank:
    """A rank under way: forked, or started afresh."""

    def __init__(self, number: int, pid: int, told: int, process: Optional[subprocess.Popen[bytes]] = None) -> None:
        self.number, self.pid, self.told, self.process = number, pid, told, process

    def exit_status(self) -> Optional[int]:
        return self.process.poll() if self.process else processes.exit_status(self.pid)

    def end(self) -> bool:
        """False if it is stuck in the kernel."""
        processes.kill(self.pid)
        limit = time.monotonic() + 3
        while self.exit_status() is None:
            if time.monotonic() > limit:
                return False
            time.sleep(0.002)
        return True


class Ranks:
    """Those of the attempt that is under way."""

    def __init__(self, options: Dict[str, Any], writer: jsonl.Writer, no_fork: Optional[str]) -> None:
        self.options, self.writer, self.no_fork = options, writer, no_fork
        self.attempt = 0
        self.running: List[StartedRank] = []

    def hear(self, said: Dict[str, Any]) -> None:
        if "attempt" in said:
            self.end()
            self.attempt = said["attempt"]
            for number in said["ranks"]:
                try:
                    self.running.append(self.fork(said, number) if self.no_fork is None else self.start(said, number))
                except OSError as error:  # no more processes, no more memory
                    self.writer.line(attempt=self.attempt, rank=number, fail="start", status="failed", text=jsonl.said(error))
        elif "address" in said:
            for one in self.running:
                jsonl.attempt(os.write, one.told, jsonl.encoded(said["address"]))
        elif said.get("end"):
            self.end()

    def fork(self, task: Dict[str, Any], number: int) -> StartedRank:
        parent = os.getpid()
        pid, receive, send = processes.fork_with_pipe()
        if pid == 0:
            try:
                processes.die_with_parent(parent)
                os.close(send)
                for one in self.running:
                    os.close(one.told)
                world_rank().run(self.options, task, number, self.writer.write, receive)
            finally:
                os._exit(2)
        os.close(receive)
        return StartedRank(number, pid, send)

    def start(self, task: Dict[str, Any], number: int) -> StartedRank:
        here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "main.py")
        told = jsonl.encoded(dict(self.options, task=task, number=number)).decode()
        process = subprocess.Popen([sys.executable, here, told], stdin=subprocess.PIPE)
        assert process.stdin  # noqa: S101 - of a pipe
        return StartedRank(number, process.pid, os.dup(process.stdin.fileno()), process)

    def look(self) -> None:
        """Say which ranks have ended."""
        for one in list(self.running):
            status = one.exit_status()
            if status is not None:
                self.forget(one, status)

    def forget(self, one: StartedRank, status: Optional[int]) -> None:
        self.running.remove(one)
        jsonl.attempt(os.close, one.told)
        if one.process and one.process.stdin:
            jsonl.attempt(one.process.stdin.close)
        self.writer.line(attempt=self.attempt, rank=one.number, ended=status)

    def end(self) -> None:
        for one in self.running:
            processes.kill(one.pid)
        for one in list(self.running):
            self.forget(one, None if not one.end() else -9)


def world_rank() -> Any:
    with ImportGuard():
        from . import world_rank as module
    return module


def main(options: Dict[str, Any], writer: jsonl.Writer) -> None:
    torch_steps.prepare(options)
    if options.get("task"):  # a rank that was started afresh
        torch_steps.import_torch(raising=True)
        gc.enable()
        world_rank().run(options, options["task"], options["number"], writer.write, 0)
    writer.line(begin="import", at=time.monotonic())
    imported = torch_steps.import_torch()
    writer.line(section="import", value=imported)
    if imported["status"] == "ok":
        serve(options, writer)


def serve(options: Dict[str, Any], writer: jsonl.Writer) -> None:
    """What comes behind the import."""
    import torch

    processes.keep_exit_statuses()
    processes.keep_standard_descriptors()
    no_fork = torch_steps.reason_not_to_fork(torch, options)
    if no_fork is None and torch_steps.training_imports_dynamo(torch) and not writer.section("preload", torch_steps.preload):
        no_fork = "importing torch._dynamo failed"
    world_rank()
    group = torch_constants.group_of(torch)
    backends = [name for name in ("gloo", "nccl") if torch_constants.has(group, name)]
    seen = gpus() if "nccl" in backends else 0
    gc.freeze()
    gc.enable()
    writer.line(section="ready", value={"gpus": seen, "backends": backends, "distributed": group is not None})
    listen(Ranks(options, writer, no_fork))
    # Who started this process ends it by force and takes the folder away: it was killed itself, and nobody else would.
    shutil.rmtree(options["folder"], ignore_errors=True)


def gpus() -> int:
    """How many GPUs torch sees, asked in a child: whoever asks may initialise CUDA, and could then fork no rank."""
    parent = os.getpid()
    pid, receive, send = processes.fork_with_pipe()
    if pid == 0:
        try:
            os.close(receive)
            processes.die_with_parent(parent)
            import torch

            seen = jsonl.call(torch, "cuda.is_available") and jsonl.call(torch, "cuda.device_count")
            jsonl.write_all(send, b"%d" % int(seen or 0))
        finally:
            os._exit(0)
    os.close(send)
    try:
        answer = os.read(receive, 20) if processes.wait_readable([receive], DEVICES_SECONDS) else b""
    finally:
        os.close(receive)
        processes.kill(pid)
        processes.reap(pid, 3)
    return int(answer) if answer.isdigit() else 0


def listen(ranks: Ranks, descriptor: int = 0) -> None:
    """Until the end of stdin."""
    rest = b""
    while True:
        if processes.wait_readable([descriptor], LOOK_SECONDS if ranks.running else 5.0):
            data = os.read(descriptor, 65536)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                said = jsonl.decoded(line)
                if isinstance(said, dict):
                    ranks.hear(said)
        ranks.look()
    ranks.end()
