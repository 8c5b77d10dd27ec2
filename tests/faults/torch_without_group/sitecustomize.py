"""Makes the real torch one that was built with USE_DISTRIBUTED=0: its extension module has lost what torch.distributed is made of."""

import importlib.machinery
import sys

LEFT_OUT = ("_c10d_init", "_rpc_init", "_dist_autograd_init", "_faulty_agent_init")


class Finder:
    def find_spec(self, name, path=None, target=None):
        spec = importlib.machinery.PathFinder.find_spec(name, path, target) if name == "torch._C" else None
        if spec is not None:
            spec.loader = Loader(spec.loader)
        return spec


class Loader:
    def __init__(self, real):
        self.create_module, self.run = real.create_module, real.exec_module

    def exec_module(self, module):
        self.run(module)
        for name in LEFT_OUT:
            if hasattr(module, name):
                delattr(module, name)


sys.meta_path.insert(0, Finder())
