"""`python -m envcheck.fleet [flags]`, for launchers that start a module: `torchrun --nnodes 4 … -m envcheck.fleet`."""

import sys

if __name__ == "__main__":
    # `python -m` puts the working folder first: a random.py of the user's there must not be taken for Python's own.
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        del sys.path[0]
    from envcheck.cli import main

    sys.exit(main(["fleet", *sys.argv[1:]]))
