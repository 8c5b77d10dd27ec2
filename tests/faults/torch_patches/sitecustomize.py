"""Breaks the real torch right after its import, as ENVCHECK_FAULT says: a patient for the live check.

Put this folder on the target's PYTHONPATH. The rest of torch stays real.
"""

import importlib.abc
import importlib.machinery
import os
import signal
import sys
import time

from lies import LIES

FAULT = os.environ.get("ENVCHECK_FAULT", "")


def at_stage(name):
    """Faults of the form "kill:init": what happens to rank 1 when it enters a stage, seen by the call that the stage makes."""
    kind, _, stage = FAULT.partition(":")
    return kind if stage == name else ""


def strike(kind):
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if kind == "segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    if kind == "exit":
        os._exit(7)
    if kind == "sleep":
        time.sleep(3600)
    if kind == "raise":
        raise RuntimeError("a fault of the test")


def patch(torch):
    dist = torch.distributed
    rank_of = {"rank": 0}

    def wrap(owner, name, stage):
        real = getattr(owner, name)

        def wrapped(*args, **kwargs):
            if name == "init_process_group":
                rank_of["rank"] = kwargs.get("rank", 0)
            if stage == "store":
                rank_of["rank"] = 0 if kwargs.get("master_listen_fd") is not None else 1
            if at_stage(stage) and rank_of["rank"] == 1:
                strike(at_stage(stage))
            return real(*args, **kwargs)

        wrapped.__doc__ = real.__doc__
        setattr(owner, name, wrapped)

    if FAULT in LIES:
        LIES[FAULT](torch)
    elif FAULT in ("rank-1-stays-away", "rank-1-stays-away-later"):
        real_all_reduce = dist.all_reduce

        def all_reduce(tensor, *args, **kwargs):
            if dist.get_rank() == 1 and (FAULT == "rank-1-stays-away" or kwargs.get("async_op")):
                time.sleep(3600)
            return real_all_reduce(tensor, *args, **kwargs)

        dist.all_reduce = all_reduce
    elif FAULT == "both-stop":

        def all_reduce(tensor, *args, **kwargs):
            os.kill(os.getpid(), signal.SIGSTOP)

        dist.all_reduce = all_reduce
    elif ":" in FAULT:
        store = dist.TCPStore

        def make_store(*args, **kwargs):
            rank_of["rank"] = 0 if kwargs.get("master_listen_fd") is not None else 1
            if at_stage("store") and rank_of["rank"] == 1:
                strike(at_stage("store"))
            return store(*args, **kwargs)

        stand_in = type("TCPStore", (), {"__new__": lambda cls, *a, **k: make_store(*a, **k), "__init__": lambda self, *a, **k: None})
        stand_in.__init__.__doc__ = store.__init__.__doc__
        dist.TCPStore = stand_in
        wrap(dist, "init_process_group", "init")
        wrap(dist, "barrier", "barrier")
        wrap(dist, "all_reduce", "all_reduce")
        wrap(torch.nn.parallel, "DistributedDataParallel", "ddp")
        wrap(dist, "destroy_process_group", "destroy")


class Loader(importlib.abc.Loader):
    def __init__(self, real):
        self.real = real

    def create_module(self, spec):
        return self.real.create_module(spec)

    def exec_module(self, module):
        self.real.exec_module(module)
        import torch.distributed
        import torch.nn.parallel

        patch(module)

    def __getattr__(self, name):
        return getattr(self.real, name)


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = Loader(spec.loader)
        return spec


if FAULT:
    sys.meta_path.insert(0, Finder())
