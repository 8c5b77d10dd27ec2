"""How launchers spell what they are told: how many processes, tasks and nodes, which port. And their words with another value.

A word is kept as it is written. Launchers read `--nproc_per_node` and `--nproc-per-node` alike, with "=" or a blank before the value;
in code the same is `nprocs=4`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from envcheck.facts.quoting import quoted

# launcher → field of LaunchCommand → its names. "torch.distributed.run" and "torch.distributed.launch" are torchrun's older names.
_TORCHRUN = {
    "each": ("nproc-per-node",),
    "nodes": ("nnodes",),
    "node_rank": ("node-rank",),
    "port": ("master-port",),
}
_SLURM = {
    "each": ("ntasks-per-node", "tasks-per-node"),
    "tasks": ("n", "ntasks", "tasks"),
    "nodes": ("N", "nodes"),
    "gpus": ("gres", "gpus-per-node"),
    "gpus_per_task": ("gpus-per-task",),
}
FLAGS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "torchrun": _TORCHRUN,
    "torch.distributed.launch": _TORCHRUN,
    "torch.distributed.run": _TORCHRUN,
    "accelerate": {
        "tasks": ("num-processes",),
        "nodes": ("num-machines",),
        "node_rank": ("machine-rank",),
        "port": ("main-process-port",),
    },
    "deepspeed": {"each": ("num-gpus",), "nodes": ("num-nodes",), "node_rank": ("node-rank",), "port": ("master-port",)},
    "fabric": {"each": ("devices",), "nodes": ("num-nodes",), "node_rank": ("node-rank",), "port": ("main-port",)},
    "mpirun": {"tasks": ("np", "n", "c"), "each": ("npernode", "ppn", "N")},
    "horovodrun": {"tasks": ("np", "num-proc")},
    "vllm": {"each": ("tensor-parallel-size", "tp")},
    "ray": {"gpus": ("num-gpus",), "port": ("port",)},
    "srun": _SLURM,
    "salloc": _SLURM,
    "sbatch": _SLURM,
    "trainer": {"each": ("devices", "gpus"), "nodes": ("num-nodes",)},
    "spawn": {"each": ("nprocs", "num-processes")},
    "python": {},
    "kubernetes": {},
}
# Each of them starts every rank of its node and gives the ranks their variables.
RANK_LAUNCHERS = ("torchrun", "torch.distributed.launch", "torch.distributed.run", "accelerate", "deepspeed", "fabric", "horovodrun")
IN_CODE = ("trainer", "spawn")


def names(launcher: str, what: str) -> tuple[str, ...]:
    """The flags of a launcher that say this, without dashes in front."""
    return FLAGS.get(launcher, {}).get(what, ())


def plain(word: str) -> str:
    """A word as the shell hands it on; what it holds of variables stays as it is."""
    if not any(quote in word for quote in "\"'\\"):
        return word
    try:
        return "".join(shlex.split(word)) if word else ""
    except ValueError:
        return word.strip("\"'")


def own(words: Sequence[str], launcher: str, program: str | None) -> int:
    """How many of the words are the launcher's own; those of the program follow. vLLM's flags stand behind its model."""
    if launcher == "vllm" or program is None:
        return len(words)
    return next((at for at, word in enumerate(words) if at and plain(word) == program), len(words))


def _flag(word: str) -> str:
    """ "--nproc_per_node=4" → "nproc-per-node"; "-n" → "n". Of one letter the case counts, as in -n and -N."""
    return word.partition("=")[0].lstrip("-").replace("_", "-")


def find(words: Sequence[str], wanted: Sequence[str]) -> tuple[int, str, str] | None:
    """The first word that gives a value to one of these flags: its place, what stands before the value in it, the value."""
    for at, word in enumerate(words):
        name, joined, value = word.partition("=")
        if _flag(word) in wanted and (joined or word.startswith("-")):
            if joined:
                return at, f"{name}=", plain(value)
            if at + 1 < len(words):
                return at + 1, "", plain(words[at + 1])
        short = re.match(r"-([A-Za-z])(\d+)$", word)
        if short and short[1] in wanted:
            return at, f"-{short[1]}", short[2]
    return None


def replaced(words: Sequence[str], wanted: Sequence[str], value: object) -> tuple[str, ...] | None:
    """The words with another value for this flag, spelled as it was; None where it is not among them."""
    found = find(words, wanted)
    if found is None:
        return None
    at, before, _ = found
    return (*words[:at], f"{before}{value}", *words[at + 1 :])


def without(words: Sequence[str], wanted: Sequence[str]) -> tuple[str, ...]:
    """The words without this flag and its value."""
    found = find(words, wanted)
    if found is None:
        return tuple(words)
    at, before, _ = found
    return (*words[: at if before else at - 1], *words[at + 1 :])


def spelled(words: Sequence[str], name: str, value: object) -> tuple[str, ...]:
    """A flag as the other long ones among the words are spelled: with "=" or a blank before the value, with "-" where they have it.

    "_" is read by every release; DeepSpeed and older ones read nothing else.
    """
    long = [word for word in words if word.startswith("--")]
    if not any("-" in _bare(word)[2:] for word in long):
        name = name.replace("-", "_")
    joined = any("=" in word for word in long) or not long
    return (f"--{name}={value}",) if joined else (f"--{name}", str(value))


def _bare(word: str) -> str:
    return word.partition("=")[0]


_SAFE = re.compile(r"[\w@%+=:,./~{}\[\]-]+")
_VARIABLE = re.compile(r"\$(?:\w{1,60}|\{\w{1,60}\})")


def written(words: Sequence[str]) -> str | None:
    """Words as a line for a shell, variables as variables; None where one holds more than that: it may come out of a stranger's log."""
    parts = []
    for word in words:
        text = plain(word)
        bare = _VARIABLE.sub("", text)
        if not text.isprintable() or "$" in bare or "`" in bare:
            return None
        if bare == text:
            parts.append(quoted(text))
        elif not bare or _SAFE.fullmatch(bare):
            parts.append(f'"{text}"' if word[:1] == '"' else text)
        else:
            return None
    return " ".join(parts)
