"""Breaks one part of the real torch, as ENVCHECK_FAULT says: a patient for `--live full`. Put this folder on the target's PYTHONPATH.

Each patch is put in when its module has been imported; the rest of torch stays real. Several faults: separated by commas.
"""

import importlib.abc
import importlib.machinery
import os
import signal
import sys
import time

FAULTS = set(filter(None, os.environ.get("ENVCHECK_FAULT", "").split(",")))
WORKER = any(one.endswith("launched_worker.py") for one in sys.argv)


def broadcast(module):
    real = module.broadcast

    def wrapped(tensor, *args, **kwargs):
        result = real(tensor, *args, **kwargs)
        if tensor.numel() > 1000:
            tensor.view(-1)[-1] += 1
        return result

    module.broadcast = wrapped


def sampler(module):
    real = module.DistributedSampler.__iter__

    def wrapped(self):
        mine = list(real(self))
        mine[0] = 0
        return iter(mine)

    module.DistributedSampler.__iter__ = wrapped


def loader(module):
    real = module._worker_loop

    def wrapped(*args, **kwargs):
        os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)

    module._worker_loop = wrapped


def loader_hangs(module):
    module._worker_loop = lambda *args, **kwargs: time.sleep(3600)


def checkpoint(module):
    real = module.load

    def wrapped(*args, **kwargs):
        found = real(*args, **kwargs)
        if isinstance(found, dict) and "model" in found:
            next(iter(found["model"].values())).view(-1)[0] += 1
        return found

    module.load = wrapped


def fsdp(module):
    real = module.fully_shard

    def wrapped(layer, **kwargs):
        import torch

        found = real(layer, **kwargs)
        for parameter in layer.parameters():
            if not getattr(parameter, "broken", False):
                parameter.broken = True
                with torch.no_grad():
                    parameter.mul_(1.5)
        return found

    module.fully_shard = wrapped


def one_worker(module):
    real = module.config_from_args

    def wrapped(args):
        config, command, arguments = real(args)
        config.nproc_per_node = 1
        return config, command, arguments

    module.config_from_args = wrapped


def same_rank(module):
    """The agent of torchrun tells both of its workers that they are rank 1."""
    real = module.LocalElasticAgent._start_workers

    def wrapped(self, group):
        for worker in group.workers:
            worker.global_rank = 1
        return real(self, group)

    module.LocalElasticAgent._start_workers = wrapped


def rank_1_sleeps(module):
    real = module.init_process_group

    def wrapped(*args, **kwargs):
        if WORKER and os.environ.get("RANK") == "1":
            time.sleep(3600)
        return real(*args, **kwargs)

    module.init_process_group = wrapped


def static_graph(module):
    real = module.DistributedDataParallel.__init__

    def wrapped(self, *args, **kwargs):
        if kwargs.get("static_graph"):
            import torch

            if torch.distributed.get_rank() == 1:
                time.sleep(3600)
        real(self, *args, **kwargs)

    module.DistributedDataParallel.__init__ = wrapped


PATCHES = {
    "broadcast": ("torch.distributed.distributed_c10d", broadcast),
    "sampler": ("torch.utils.data.distributed", sampler),
    "loader": ("torch.utils.data._utils.worker", loader),
    "loader-hangs": ("torch.utils.data._utils.worker", loader_hangs),
    "checkpoint": ("torch.serialization", checkpoint),
    "fsdp": ("torch.distributed.fsdp", fsdp),
    "same-rank": ("torch.distributed.elastic.agent.server.local_elastic_agent", same_rank),
    "one-worker": ("torch.distributed.run", one_worker),
    "rank-1-sleeps": ("torch.distributed.distributed_c10d", rank_1_sleeps),
    "static-graph-hangs": ("torch.nn.parallel.distributed", static_graph),
}


class Loader(importlib.abc.Loader):
    def __init__(self, real, patch):
        self.real, self.patch = real, patch

    def create_module(self, spec):
        return self.real.create_module(spec)

    def exec_module(self, module):
        self.real.exec_module(module)
        self.patch(module)

    def __getattr__(self, name):
        return getattr(self.real, name)


class Finder(importlib.abc.MetaPathFinder):
    def __init__(self, wanted):
        self.wanted = wanted

    def find_spec(self, name, path=None, target=None):
        if name not in self.wanted:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = Loader(spec.loader, self.wanted[name])
        return spec


found = dict(PATCHES[one] for one in FAULTS if one in PATCHES)
if found:
    sys.meta_path.insert(0, Finder(found))
if "worker-exits" in FAULTS and WORKER and os.environ.get("RANK") == "1":
    # in the middle of the script: where it says that it is about to meet the others
    import json

    real_dumps = json.dumps

    def dumps(value, *args, **kwargs):
        if isinstance(value, dict) and value.get("enter") in ("init", "store"):
            os._exit(3)
        return real_dumps(value, *args, **kwargs)

    json.dumps = dumps
