"""`python -m envcheck.fleet [flags]`, for launchers that start a module: `torchrun --nnodes 4 … -m envcheck.fleet`."""

import runpy
import sys

if __name__ == "__main__":
    # By its name, not by an import: the command line stands above this room.
    sys.argv[1:1] = ["fleet"]
    runpy.run_module("envcheck", run_name="__main__")
