"""What was probably meant by the first word of a command that cannot be started."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence

from envcheck.errors import near_word
from envcheck.facts.quoting import quoted

_VARIABLE = re.compile(r"[A-Za-z_]\w{0,99}=")
_DASHES = frozenset("-‐‑‒–—―−")  # what editors and web pages make of two hyphens
_FIRST_LINE = 256  # bytes of it that Linux reads (BINPRM_BUF_SIZE)
# Only a shell knows them.
_OF_SHELLS = frozenset((".", "alias", "cd", "eval", "exec", "export", "for", "if", "module", "set", "source", "ulimit", "umask", "unset"))
_COMMON = ("accelerate", "deepspeed", "jupyter", "mpiexec", "mpirun", "pytest", "python", "python3", "sbatch", "srun", "torchrun")


def meant(argv: Sequence[str]) -> str:
    """ "; `env FOO=1 …` sets a variable", or "" where nothing is known."""
    name = argv[0]
    known = _by_itself(name) or _without_interpreter(shutil.which(name) or "") or _file(name)
    if known or os.sep in name:
        return known
    near = near_word(name, _COMMON)
    return f"; did you mean {near}?" if near and near != name else ""


def _by_itself(name: str) -> str:
    if not name.strip():
        return "; the first word after -- is empty: a variable of the shell that is not set?"
    if set(name) <= _DASHES:
        return "; two hyphens stand before the command: envcheck run -- …"
    if _VARIABLE.match(name):
        return f"; a variable stands before envcheck, or behind env: envcheck run -- env {quoted(name)} …"
    if name in _OF_SHELLS:
        return f"; it is a word of the shell: envcheck run -- sh -c '{name} …'"
    first = name.split()[0]
    if first != name and shutil.which(first):
        return f"; it is one word with blanks: leave out the quotes, or write envcheck run -- sh -c {quoted(name)}"
    return ""


def _without_interpreter(path: str) -> str:
    """A script that cannot start: of an environment that was moved or removed, or with line ends of Windows."""
    if not os.path.isfile(path):
        return ""
    try:
        with open(path, "rb") as file:
            mark, _, line = file.readline(_FIRST_LINE).partition(b"#!")
    except OSError:
        return ""
    program = "" if mark else os.fsdecode(line.strip(b" \t\n").partition(b" ")[0].partition(b"\t")[0])
    if not program or os.path.exists(program):
        return ""
    windows = ": its lines end as on Windows (dos2unix)" if program.endswith("\r") else ""
    return f"; the first line of {path} names {program.rstrip()}, which is not there{windows}"


def _file(name: str) -> str:
    if os.path.isdir(name):
        return "; it is a folder"
    if not os.path.isfile(name):
        return ""
    path = quoted(name)
    if name.endswith(".py"):
        return f"; write envcheck run -- python {path}"
    return f"; write envcheck run -- sh {path}, or chmod +x {path}" if os.sep in name else f"; write envcheck run -- ./{path}"
