"""Whether the launcher's variables give this process one place in the job: judged before anything connects.

They speak only where `envcheck fleet` was started: in a check of one machine the same variables may be meant for something else.
"""

from __future__ import annotations

from envcheck.checks.hardware import number
from envcheck.checks.text import environment
from envcheck.engine.rule import Answer, Evidence, Facts, Hit, check
from envcheck.facts.snapshot import LauncherFacts, RankReading

CONNECTIONS_EACH = 2  # of a rank to the store: one that tells when the rank has ended, one that its questions go over
OWN_FILES = 64  # of rank 0 besides: its output, its links, its share of the process groups
_SIZES = ("SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_NODES", "GROUP_WORLD_SIZE", "LOCAL_WORLD_SIZE")


def _evidence(launcher: LauncherFacts, *names: str) -> tuple[Evidence, ...]:
    return environment(launcher.variables, [name for name in names if name in launcher.variables])


@check(needs="fleet launcher", reads="fleet launcher")
def fleet_outside_step(facts: Facts) -> Answer:
    """A batch script is one process on the first node of its allocation; srun or mpirun makes the others."""
    launcher = facts.launcher
    if not facts.fleet.seats or launcher.scheduler != "slurm" or any(one.complete for one in launcher.readings):
        return None
    names = ("SLURM_JOB_NUM_NODES", "SLURM_NNODES", "SLURM_NTASKS")
    nodes, tasks = (number(launcher.variables.get(name)) or 1 for name in ("SLURM_JOB_NUM_NODES", "SLURM_NTASKS"))
    nodes = max(nodes, number(launcher.variables.get("SLURM_NNODES")) or 1)
    if max(nodes, tasks) < 2 or any(name in launcher.variables for name in ("SLURM_STEP_ID", "SLURM_STEPID")):
        return None
    return Hit({"nodes": nodes, "tasks": max(tasks, nodes)}, _evidence(launcher, *names))


@check(needs="fleet launcher", reads="fleet launcher")
def fleet_rank_incomplete(facts: Facts) -> Answer:
    """Half of a set: a rank without a size, a size without a rank, a number that is none, or no address to meet at."""
    launcher = facts.launcher
    if not facts.fleet.seats or any(seat.rank is not None for seat in facts.fleet.seats):
        return None
    half = next((one for one in launcher.readings if not one.complete and one.launcher not in ("pet", "pmix")), None)
    if half is None or (half.launcher == "slurm" and not half.unreadable):
        return None  # a batch script, of which fleet-outside-step speaks
    have = sorted(name for name in launcher.variables if name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"))
    evidence = environment(launcher.variables, have)
    if half.unreadable:
        return Hit({"wrong": half.unreadable, "launcher": half.launcher}, evidence, variant="unreadable")
    lacking = [name for name, value in (("a rank", half.rank), ("a world size", half.world_size)) if value is None]
    if not lacking:
        lacking = [name for name in ("MASTER_ADDR", "MASTER_PORT") if not launcher.variables.get(name)]
    return Hit({"have": _told(half), "lacking": lacking or "LOCAL_RANK"}, evidence)


def _told(one: RankReading) -> list[str]:
    named = (("rank", one.rank), ("world size", one.world_size), ("local rank", one.local_rank))
    return [f"{name} {value}" for name, value in named if value is not None] or ["nothing that can be read"]


@check(needs="fleet", reads="fleet launcher")
def fleet_master_unknown(facts: Facts) -> Answer:
    lost = next((seat for seat in facts.fleet.seats if (seat.world_size or 1) > 1 and seat.master is None), None)
    if lost is None:
        return None
    values: dict[str, object] = {"rank": lost.rank, "size": lost.world_size, "launcher": lost.launcher}
    variant = lost.launcher if lost.launcher in ("openmpi", "jsrun") else None
    return Hit(values, _evidence(facts.launcher, "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "JSM_NAMESPACE_SIZE"), variant=variant)


@check(needs="fleet", reads="fleet")
def fleet_store_files(facts: Facts) -> Answer:
    """Ranks that rank 0 cannot let in would only be missing."""
    first = next((seat for seat in facts.fleet.seats if seat.rank == 0), None)
    if first is None or first.open_files_limit is None or first.world_size is None:
        return None
    needed = CONNECTIONS_EACH * first.world_size + OWN_FILES
    if first.world_size == 1 or needed <= first.open_files_limit:
        return None
    return Hit({"limit": first.open_files_limit, "ranks": first.world_size, "needed": needed, "host": first.host})


@check(needs="fleet launcher", reads="fleet launcher")
def fleet_launchers_nested(facts: Facts) -> Answer:
    """A torchrun in each of several tasks of a node, each of which believes that it is alone there."""
    seen = facts.launcher.variables
    tasks, nodes, agents, each = (number(seen.get(name)) for name in _SIZES)
    if not facts.fleet.seats or not any(name.startswith("TORCHELASTIC_") for name in seen) or None in (tasks, nodes, agents, each):
        return None
    assert tasks is not None and nodes is not None and agents is not None  # noqa: S101
    if tasks <= nodes or agents >= tasks:
        return None  # one torchrun a node, or one a task that knows of all others
    values: dict[str, object] = {"tasks": tasks, "nodes": nodes, "agents": agents, "each": each}
    return Hit(values, _evidence(facts.launcher, *_SIZES))


@check(needs="fleet launcher", reads="fleet launcher")
def fleet_launchers_disagree(facts: Facts) -> Answer:
    """Torch's variables were set by nobody who started the processes, and say otherwise than the launcher that did."""
    readings, seen = facts.launcher.readings, facts.launcher.variables
    if not facts.fleet.seats or any(name.startswith("TORCHELASTIC_") for name in seen):
        return None
    mine = next((one for one in readings if one.launcher == "env" and None not in (one.rank, one.world_size)), None)
    theirs = next((one for one in readings if one.complete and one.launcher not in ("env", "torchrun", "ray", "kubeflow", "pet")), None)
    if mine is None or theirs is None or theirs.world_size in (None, 1) or (mine.rank, mine.world_size) == (theirs.rank, theirs.world_size):
        return None
    values: dict[str, object] = {"rank": mine.rank, "size": mine.world_size, "other": theirs.launcher}
    values |= {"other_rank": theirs.rank, "other_size": theirs.world_size}
    return Hit(values, _evidence(facts.launcher, "RANK", "WORLD_SIZE", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"))
