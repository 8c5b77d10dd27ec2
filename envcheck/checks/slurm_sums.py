"""What Slurm's part of the commands makes of a failure."""

from __future__ import annotations

from envcheck.checks import launch_sums, tasks_missing
from envcheck.checks.text import of_variant
from envcheck.engine.rule import Facts, Hit

_OF_RANKS = ("launch-port-in-use", "launch-env-conflict", "launch-world-size", "launch-unreachable", "launch-slurm", "nccl-duplicate-gpu")
_WAITED = ("launch-world-size", "launch-unreachable", "launch-env-conflict", "launch-slurm")


def slurm_sums(facts: Facts) -> Hit | None:
    """What Slurm's part of the commands makes of a failure."""
    failed, waited = (tuple(one for one in facts.symptoms.matches if one.rule in rules) for rules in (_OF_RANKS, _WAITED))
    beyond = of_variant(facts.said("visible-devices-out-of-range"), "ordinal")
    started = launch_sums.launcher_in_tasks(facts.launcher, "srun", failed) if failed else None
    return (
        started
        or launch_sums.gpus_bound_to_tasks(facts.launcher, beyond)
        or launch_sums.only_first_node(facts.launcher, waited)
        or tasks_missing.devices_beyond_tasks(facts, waited)
        or tasks_missing.job_without_srun(facts.launcher, waited)
    )
