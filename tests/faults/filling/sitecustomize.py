"""Fills the folder for temporary files at the moment that FILLS names: "import" prints 4 MB before torch is imported, "silently" goes on
after that, "files" makes thousands of files there; "later" fills it when torch has been imported, "group" when a process group begins."""

import builtins
import contextlib
import os
import sys

real, done, when = builtins.__import__, [], os.environ.get("FILLS", "")


def fill():
    with contextlib.suppress(OSError), open(os.path.join(os.environ["TMPDIR"], "big"), "wb", buffering=0) as file:
        for _ in range(1024):  # whatever folder it is
            file.write(b"x" * 4096)


def before():
    for number in range(5000 if when == "files" else 0):
        open(os.path.join(os.environ["TMPDIR"], f"small{number}"), "w").close()
    for _ in range(64):
        with contextlib.suppress(OSError if when == "silently" else ()):
            sys.stdout.write("x" * 65536)
            sys.stdout.flush()


def after(torch):
    if when == "later":
        fill()
    elif when == "group":
        init = torch.distributed.init_process_group
        torch.distributed.init_process_group = lambda *words, **more: (fill(), init(*words, **more))[1]


def hook(name, *rest, **more):
    if name == "torch" and not done:
        done.append("begun")
        if when in ("import", "silently", "files"):
            before()
    module = real(name, *rest, **more)
    torch = sys.modules.get("torch")
    if done == ["begun"] and hasattr(torch, "compile") and hasattr(getattr(torch, "distributed", None), "all_reduce"):
        done.append("imported")
        after(torch)
    return module


if when:
    builtins.__import__ = hook
