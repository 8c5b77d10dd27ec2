"""Ranks that nobody starts, or that wait alone: Slurm's tasks are fewer than the program counts on, or each node keeps to itself.

srun python train.py --num-nodes 2 --gpus 4        #SBATCH --ntasks-per-node=2        torchrun --standalone --nnodes=2 train.py
                                                   bash train.sh
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from envcheck.checks.launch_sums import FIRST_HOST, above, changed, line, own_words, seen, tasks_of_a_node, todo, told
from envcheck.checks.text import of_symptom, quoted, value
from envcheck.engine.intents import Manual
from envcheck.engine.rule import Confidence, Evidence, Facts, Hit, Matches
from envcheck.facts.launch_flags import RANK_LAUNCHERS, find, names, replaced
from envcheck.facts.snapshot import LaunchCommand, LauncherFacts

# What programs call the processes of a node and the nodes: Lightning's Trainer, its command line, and scripts that hand them on.
_DEVICES = ("devices", "gpus", "num-gpus", "trainer.devices", "trainer.gpus", "gpus-per-node", "ngpus")
_NODES = ("num-nodes", "nodes", "nnodes", "trainer.num-nodes")


def devices_beyond_tasks(facts: Facts, matches: Matches) -> Hit | None:
    """srun starts fewer tasks on a node than the program was told to use devices, and takes its ranks from the tasks as Lightning does."""
    launcher = facts.launcher
    trainer = next((one for one in launcher.commands if one.launcher == "trainer" and one.each), None)
    twice = of_symptom(facts, "global-rank-twice")
    if not twice and (trainer is None or not matches):
        return None
    for one in launcher.commands:
        outer = above(launcher, one) if one.launcher == "python" else None
        if outer is None or outer.launcher != "srun" or _said(own_words(outer), names("srun", "each")) == 0:
            continue
        devices = _said(one.words, _DEVICES) or (trainer.each if trainer else None)
        nodes = _said(one.words, _NODES) or (trainer.nodes if trainer else None)
        if devices and devices > (tasks_of_a_node(launcher, outer) or 1):
            return Hit(
                {}, (*seen(outer), *quoted(twice or matches)), _one_each(outer, devices, nodes), "tasks", confidence=Confidence.LIKELY
            )
    return None


def _said(words: Sequence[str], flags: Sequence[str]) -> int | None:
    """A number of these flags; 0 where it is a variable."""
    found = find(words, flags)
    return None if found is None else int(found[2]) if found[2].isdecimal() and len(found[2]) < 6 else 0


def _one_each(outer: LaunchCommand, devices: int, nodes: int | None) -> tuple[Manual, ...]:
    words = changed(outer, "each", devices) or (outer.words[0], f"--ntasks-per-node={devices}", *outer.words[1:])
    if nodes and nodes > 1 and told(outer, "nodes") is None:
        words = (words[0], f"--nodes={nodes}", *words[1:])
    text = f"Let Slurm start one task for each device of a node ({devices}), in a job script by #SBATCH --ntasks-per-node."
    return todo(text, line(outer, words))


def job_without_srun(launcher: LauncherFacts, matches: Matches) -> Hit | None:
    """A job of several tasks a node whose script has no srun: one process comes, and what counts Slurm's tasks waits."""
    rows = launcher.commands
    job = next((one for one in rows if one.launcher == "sbatch"), None)
    if job is None or not matches or any(one.launcher in ("srun", "mpirun", *RANK_LAUNCHERS) for one in rows):
        return None
    tasks = job.each or (job.tasks if (job.nodes or 1) == 1 else None)
    one = next((one for one in rows if one.launcher in ("bash", "python") and one.inside is None), None)
    if one is None or tasks is None or tasks < 2:
        return None
    fix = (
        *todo("Start it with srun, so that all tasks come.", line(one, ("srun", *one.words))),
        *todo(
            "Where the script starts the processes of its node itself (torchrun, mp.spawn), let the job ask for one task.",
            "#SBATCH --ntasks-per-node=1",
        ),
    )
    values: dict[str, object] = {"tasks": tasks, "inner": " ".join(one.words[:2])}
    return Hit(values, (*seen(job, one), *quoted(matches)), fix, "no_srun", confidence=Confidence.LIKELY)


def standalone_on_nodes(launcher: LauncherFacts, matches: Matches) -> Hit | None:
    """torchrun with --standalone, which makes a store on each node for itself, and with what belongs to several nodes."""
    for one in launcher.commands:
        mine = own_words(one)
        alone = next((at for at, word in enumerate(mine) if word.lstrip("-") == "standalone"), None)
        nodes = _said(mine, names("torchrun", "nodes"))
        if alone is None or nodes is None or nodes == 1:
            continue
        command = line(one, (*one.words[:alone], *one.words[alone + 1 :]))
        text = "Leave --standalone out, which is for one node only, and give every node the same address and port (--node-rank differs)."
        guess = Confidence.LIKELY if nodes == 0 and told(one, "node_rank") is None else None
        evidence: tuple[Evidence, ...] = (*seen(one), *quoted(matches))
        return Hit({}, evidence, todo(text, command), "standalone", confidence=guess)
    return None


def node_beyond_nodes(launcher: LauncherFacts, matches: Matches) -> Hit | None:
    """A node with a number that is not below that of the nodes, given to a launcher or to a program that starts one."""
    for one in launcher.commands:
        nodes, rank = (find(one.words, names("torchrun", what)) for what in ("nodes", "node_rank"))
        if (
            nodes is None
            or rank is None
            or not (nodes[2].isdecimal() and rank[2].isdecimal())
            or int(rank[2]) < int(nodes[2])
            or not matches
        ):
            continue
        given = one.words[rank[0] - 1] if not rank[1] else rank[1].rstrip("=")
        values: dict[str, object] = {"flag": given, "rank": rank[2], "nodes": nodes[2]}
        right = max(int(nodes[2]) - 1, 0)
        command = line(one, replaced(one.words, names("torchrun", "node_rank"), right))
        text = "Number the nodes from 0, which is the first one and alone where there is one."
        return Hit(values, (*seen(one), *quoted(matches)), todo(text, command), variant="node_beyond")
    return None


# What a shell makes of it is the name or the address of the node that it runs on
_OWN_NAME = re.compile(r"(?:\$\(hostname(?: -{1,2}[\w-]{1,12})?(?: ?\|[^()]{0,60})?\)|\$\{?HOSTNAME\}?)(?::(?P<port>\d{1,5}))?")
_MEETING = ("rdzv-endpoint", "master-addr", "main-process-ip")


def own_name_on_each_node(launcher: LauncherFacts, matches: Matches) -> Hit | None:
    """A launcher of several nodes that is told the name of whatever node it runs on as the place where all of them meet.

    In a batch script, and in the line that calls srun, a shell of the first node puts it in: then all are told the same.
    """
    rows = launcher.commands
    for one in rows:
        outer = above(launcher, one)
        batch = not outer and any(other.launcher == "sbatch" for other in rows)
        inline = outer is not None and outer.words[-len(one.words) :] == one.words
        found = find(own_words(one), _MEETING)
        own = _OWN_NAME.fullmatch(found[2]) if found and one.launcher in RANK_LAUNCHERS and (one.nodes or 0) > 1 else None
        if found is None or own is None or batch or inline or not matches:
            continue
        given = one.words[found[0] - 1] if not found[1] else found[1].rstrip("=")
        words = replaced(one.words, _MEETING, "$MASTER_ADDR" + (f":{own['port'] or 'PORT'}" if given.strip("-").startswith("rdzv") else ""))
        first = f"export MASTER_ADDR={FIRST_HOST}    # Slurm; elsewhere the name that the first node has among the others"
        text = (
            "Give every node the same endpoint, that of the first node, and where the launcher is told the number of the node each its own."
        )
        return Hit(
            {"flag": given, "given": found[2], "nodes": one.nodes},
            (*seen(one), *quoted(matches)),
            todo(text, first, line(one, words)),
            "own_name",
            confidence=Confidence.LIKELY,
        )
    return None


def tasks_of_all_nodes(matches: Matches) -> tuple[Manual, ...]:
    """Of ranks that came from one node alone: the step that starts all of them."""
    each, nodes = value(matches, "each"), value(matches, "nodes")
    if each is None or nodes is None:
        return ()
    text = f"Start the program with srun, {each} tasks on each of {nodes} nodes: without it, it runs on the first node only."
    asked = (f"#SBATCH --nodes={nodes}", f"#SBATCH --ntasks-per-node={each}", f"#SBATCH --gres=gpu:{each}")
    return todo(text, *asked, f"srun --nodes={nodes} --ntasks-per-node={each} python TRAIN.PY    # in the job script")
