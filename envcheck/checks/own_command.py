"""The user's own command with what a cure adds to it: a variable in front, other networks for mpirun, more GPUs asked of Slurm."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from envcheck.checks.launch_sums import changed, line, own_words, todo
from envcheck.engine.intents import Manual
from envcheck.facts.launch_flags import RANK_LAUNCHERS, find, names, written
from envcheck.facts.snapshot import ContainerFacts, LaunchCommand, LauncherFacts

_VIRTUAL = "lo,docker0,virbr0"


def tried_with(launcher: LauncherFacts, assignment: str, text: str) -> tuple[Manual, ...]:
    """The last command that starts ranks, with a variable in front of it."""
    one = next((one for one in reversed(launcher.commands) if one.launcher in (*RANK_LAUNCHERS, "python") and one.inside is None), None)
    command = line(one, one.words) if one else None
    return todo(text, f"{assignment} {command}") if command else ()


def mpi_networks(launcher: LauncherFacts) -> tuple[Manual, ...]:
    """mpirun, told which networks it may take: the one that its hosts are in, else all but the virtual ones."""
    rows = [one for one in launcher.commands if one.launcher == "mpirun" and one.words[:1] == ("mpirun",)]
    if not rows:
        return ()
    one = max(rows, key=lambda one: (one.program is not None, one.tasks or 0))  # others were tries
    network = _network_of(one)
    what, networks = ("include", network) if network else ("exclude", _VIRTUAL)
    flag = "-mca" if "-mca" in own_words(one) else "--mca"
    flags = [word for name in ("btl", "oob") for word in (flag, f"{name}_tcp_if_{what}", networks)]
    text = (
        f"The network of the hosts is {network}: let Open MPI take that one alone. NCCL's variable is the interface with an address in it."
        if network
        else "Leave the virtual networks out."
    )
    return todo(text, line(one, (one.words[0], *flags, *one.words[1:])), "ip -br addr    # then -x NCCL_SOCKET_IFNAME=INTERFACE")


def _network_of(one: LaunchCommand) -> str | None:
    """What the addresses of the hosts have in common, in whole bytes; None for names."""
    given = find(own_words(one), ("H", "host", "hosts"))
    rows = re.findall(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])", given[2]) if given else []
    try:
        addresses = [ipaddress.IPv4Address(row).packed for row in rows]
    except ValueError:
        return None
    common = next((size for size in (3, 2, 1) if len({address[:size] for address in addresses}) == 1), 0)
    if len(addresses) < 2 or not common:
        return None
    return str(ipaddress.IPv4Network((addresses[0][:common] + bytes(4 - common), 8 * common)))


def gpus_of_slurm(launcher: LauncherFacts, count: int) -> tuple[Manual, ...]:
    """The job's request with as many GPUs on a node, in the user's own spelling."""
    one = next((one for one in launcher.commands if one.launcher in ("sbatch", "salloc", "srun") and one.gpus is not None), None)
    found = find(own_words(one), names(one.launcher, "gpus")) if one else None
    if one is None or found is None or one.gpus is None or one.gpus >= count:
        return ()
    kind = re.sub(r"(?:^|:)\d{1,4}$", "", found[2])  # "gpu:p6000" of "gpu:p6000:1", "a100" of "a100:1", "" of "1"
    wanted = f"{kind}:{count}" if kind else str(count)
    words = changed(one, "gpus", wanted)
    text = f"The job asked Slurm for fewer GPUs on a node ({one.gpus}) than the program is to use ({count}): ask for as many."
    if words and one.words[0] != one.launcher:  # a job script
        flag = _flag_at(words, found[0], found[1])
        return todo(text, f"#SBATCH {flag}" if flag else None)
    return todo(text, line(one, words))


def _flag_at(words: Sequence[str], at: int, before: str) -> str | None:
    """A flag with its value, in one word or in two."""
    return written(words[at : at + 1] if before else words[at - 1 : at + 1])


def with_gpu(container: ContainerFacts) -> tuple[Manual, ...]:
    """The command that started the container, with the host's GPU."""
    words = container.command
    if len(words) < 3 or words[0] not in ("apptainer", "singularity") or "--nv" in words:
        return ()
    command = written((*words[:2], "--nv", *words[2:]))
    return todo("Start it with the NVIDIA option.", command) if command else ()
