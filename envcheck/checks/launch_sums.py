"""What was started, multiplied: tasks × processes against ranks and GPUs, ports taken twice; and the user's own command, corrected.

The rules of `launch` and `visibility` ask here first. Each question needs a message that something failed: commands alone, in a question
or a healthy job script, prove nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from envcheck.checks.hardware import number, nvidia
from envcheck.checks.text import quoted, value
from envcheck.engine.intents import Manual
from envcheck.engine.rule import Confidence, Evidence, Facts, Hit, Matches, Severity
from envcheck.facts.launch_flags import IN_CODE, RANK_LAUNCHERS, find, names, own, replaced, spelled, without, written
from envcheck.facts.record import replace
from envcheck.facts.snapshot import LaunchCommand, LauncherFacts

TASKS = ("srun", "mpirun")  # what is inside of them is started once a task
DEFAULT_PORT = "29500"
STARTED = "started"  # the source of a command as evidence
_RANK_OF = {  # launcher → what it sets, for RANK, WORLD_SIZE and LOCAL_RANK
    "srun": "RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID",
    "mpirun": "RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK",
}
FIRST_HOST = '$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
_MEETING = {  # launcher → where the ranks meet, for the shell that calls it
    "srun": f"export MASTER_ADDR={FIRST_HOST} MASTER_PORT={DEFAULT_PORT}",
    "mpirun": f"export MASTER_ADDR=$(hostname) MASTER_PORT={DEFAULT_PORT}    # on the first node, where mpirun is called",
}
_MEET_AT = re.compile(
    r"(?:--?(?:rdzv|master)[_-](?:endpoint|addr)=)?\$\{?([A-Z_a-z]\w{0,40})\}?(?::(?:\d{1,5}|\$\{?([A-Z_a-z]\w{0,40})\}?))?"
)


def shown(one: LaunchCommand) -> str:
    """A command as evidence, with the variables that say which GPUs it sees."""
    own = [f"{name}={one.variables[name]}" for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES") if name in one.variables]
    return " ".join([*own, *(("#SBATCH",) if one.launcher == "sbatch" and one.words[:1] != ("sbatch",) else ()), *one.words])


def seen(*commands: LaunchCommand | None) -> tuple[Evidence, ...]:
    return tuple(Evidence(STARTED, shown(one)) for one in commands if one is not None and one.words)


def line(one: LaunchCommand, words: Sequence[str] | None) -> str | None:
    """A command to be pasted, with its GPUs chosen as before; None where it cannot be."""
    text = written(words) if words else None
    chosen = one.variables.get("CUDA_VISIBLE_DEVICES")
    if text is None or chosen is None:
        return text
    assigned = written((chosen,))
    return f"CUDA_VISIBLE_DEVICES={assigned} {text}" if assigned else text


def own_words(one: LaunchCommand) -> tuple[str, ...]:
    """The launcher's words, without the program and what is handed to it."""
    return one.words[: own(one.words, one.launcher, one.program)]


def told(one: LaunchCommand, what: str) -> tuple[int, str, str] | None:
    """Where a launcher is told this: `launch_flags.find`."""
    return find(own_words(one), names(one.launcher, what))


def changed(one: LaunchCommand, what: str, value: object) -> tuple[str, ...] | None:
    """All words with another value for this; None where the launcher is not told it."""
    mine = own_words(one)
    words = replaced(mine, names(one.launcher, what), value)
    return None if words is None else (*words, *one.words[len(mine) :])


def with_flag(one: LaunchCommand, what: str, value: object) -> tuple[str, ...] | None:
    """The same, and where the launcher is not told it, with the flag in front of its others."""
    words, flags = changed(one, what, value), names(one.launcher, what)
    if words is not None or not flags or one.launcher in IN_CODE:
        return words
    head = _flags_begin(one)
    return (*one.words[:head], *spelled(own_words(one)[head:], flags[0], value), *one.words[head:])


def todo(text: str, *lines: str | None) -> tuple[Manual, ...]:
    return (Manual(text, commands=tuple(one for one in lines if one)),)


# ------------------------------------------------------------------ ranks and GPUs of a node


def _visible(facts: Facts, one: LaunchCommand) -> tuple[int, str] | None:
    """How many GPUs the ranks of a command see, and by what."""
    name = next((name for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES") if name in one.variables), "CUDA_VISIBLE_DEVICES")
    raw = one.variables.get(name) or facts.visibility.cuda_visible_devices
    if raw is not None:
        entries = [entry for entry in raw.split(",") if entry.strip()]
        return (len(entries), f"{name}={raw}") if entries and not raw.startswith("-") else None
    if found := nvidia(facts.gpus):
        return len(found), "of this machine"
    given = next((other for other in facts.launcher.commands if other.gpus and other.launcher != "ray"), None)
    if given is None or given.gpus is None:
        return None
    return given.gpus, "of a pod" if given.launcher == "kubernetes" else "that the job asked for on a node"


def _each(launcher: LauncherFacts) -> list[LaunchCommand]:
    """Commands of which the ranks a node are known, and not as one by default."""
    starts = [one for one in launcher.commands if one.launcher in (*RANK_LAUNCHERS, *IN_CODE, "vllm")]
    return [one for one in starts if one.each is not None and one.each > 1]


def ranks_beyond_gpus(facts: Facts, matches: Matches) -> Hit | None:
    """More ranks on a node than GPUs that they see; where the GPUs are not known, the ranks that may be too many."""
    rows = [(one, _visible(facts, one)) for one in _each(facts.launcher)]
    beyond = [(one, *known) for one, known in rows if known is not None and one.each is not None and one.each > known[0]]
    if beyond:
        one, count, by = beyond[0]
        values: dict[str, object] = {"started": one.each, "count": count, "by": by, "launcher": _called(one)}
        return Hit(values, (*seen(one), *quoted(matches)), _fewer(one, count), variant="ranks")
    unknown = [one for one, known in rows if known is None]
    if not unknown:
        return None
    one = unknown[0]
    values = {"started": one.each, "launcher": _called(one)}
    fixes = _fewer(one, 1 if one.each == 2 else None)  # of two ranks one has no GPU: there is one
    return Hit(values, (*seen(one), *quoted(matches)), fixes, variant="ranks_or_number")


def counted_elsewhere(facts: Facts) -> tuple[Manual, ...]:
    """accelerate takes the number of processes from a file of its own: the command with the number in it."""
    uncounted = [one for one in facts.launcher.commands if one.launcher == "accelerate" and one.tasks is None and one.each is None]
    one = uncounted[-1] if uncounted else None
    if one is None:
        return ()
    count = len(nvidia(facts.gpus))
    text = "accelerate takes the number of processes from its configuration (num_processes): no more than the visible GPUs."
    command = line(one, with_flag(one, "tasks", count)) if count else None
    return todo(text, "nvidia-smi -L", "accelerate env", command or "accelerate launch --num_processes=1 train.py    # the number of GPUs")


def _called(one: LaunchCommand) -> str:
    return one.words[0].partition("=")[0] if one.launcher in IN_CODE and one.words else one.launcher


def _fewer(one: LaunchCommand, count: int | None) -> tuple[Manual, ...]:
    """The command with as many ranks as GPUs."""
    what = "tasks" if one.launcher == "accelerate" else "each"
    if count is None:
        words = changed(one, what, "gpu") if one.launcher in RANK_LAUNCHERS[:3] else None
        return todo("Start no more processes on a node than it has GPUs; nvidia-smi -L counts them.", "nvidia-smi -L", line(one, words))
    words = with_flag(one, what, count * (one.nodes or 1) if what == "tasks" else count)
    many = "one process" if count == 1 else f"{count} processes"
    text = f"Start {many} on a node, as many as there are visible GPUs, or let more GPUs be visible."
    if words and (one.launcher in IN_CODE or one.program is None):
        return todo(f"{text} In the code: {', '.join(words)}.")
    return todo(text, line(one, words))


# ------------------------------------------------------------------ a launcher in each of several tasks


def above(launcher: LauncherFacts, one: LaunchCommand) -> LaunchCommand | None:
    """The srun or mpirun in whose tasks a command runs."""
    rows, at = launcher.commands, one.inside
    for _ in rows:
        if at is None or not 0 <= at < len(rows):
            return None
        if rows[at].launcher in TASKS:
            return rows[at]
        at = rows[at].inside
    return None


def _asked(launcher: LauncherFacts) -> LaunchCommand | None:
    """What the job asked Slurm for."""
    return next((one for one in launcher.commands if one.launcher in ("sbatch", "salloc")), None)


def tasks_of_a_node(launcher: LauncherFacts, outer: LaunchCommand) -> int | None:
    """How many tasks a node gets, as srun and mpirun count them; what srun is not told comes from the job."""
    job = _asked(launcher) if outer.launcher == "srun" else None
    asked = [one for one in (outer, job) if one is not None]
    each = next((one.each for one in asked if one.each is not None), None)
    tasks = next((one.tasks for one in asked if one.tasks is not None), None)
    nodes = next((one.nodes for one in asked if one.nodes is not None), None)
    if outer.tasks is not None and outer.each is None and outer.nodes is not None:
        each = None  # its own -n and -N come before the job's --ntasks-per-node
    if each is not None:
        return each if tasks is None else min(each, tasks)
    if tasks is None:
        return None
    if nodes is None and _over_hosts(outer):
        return None  # over hosts that the command does not count
    return -(-tasks // (nodes or 1))


def _over_hosts(outer: LaunchCommand) -> bool:
    """Whether mpirun is given hosts, of which the command does not say how many tasks each gets."""
    return outer.launcher == "mpirun" and find(own_words(outer), ("H", "host", "hosts", "hostfile", "machinefile", "f")) is not None


def launcher_in_tasks(launcher: LauncherFacts, outer_kind: str, matches: Matches) -> Hit | None:
    """A launcher that starts all ranks of a node, started by each of several tasks of that node."""
    for one in launcher.commands:
        outer = above(launcher, one)
        if one.launcher not in RANK_LAUNCHERS or outer is None or outer.launcher != outer_kind or one.each == 1:
            continue
        tasks = tasks_of_a_node(launcher, outer)
        if tasks is None or tasks < 2:
            continue
        values: dict[str, object] = {"tasks": tasks, "inner": one.launcher, "outer": outer.words[0], "each": one.each or "one a GPU"}
        evidence = (*seen(_asked(launcher), outer, None if one.words == outer.words[-len(one.words) :] else one), *quoted(matches))
        return Hit(values, evidence, _one_task(launcher, outer, one), variant="started")
    return None


def _one_task(launcher: LauncherFacts, outer: LaunchCommand, one: LaunchCommand) -> tuple[Manual, ...]:
    """srun with one task a node; mpirun is not needed on one node."""
    if outer.launcher == "mpirun":
        text = f"Start {one.launcher} without mpirun: it starts the processes of its node itself. On several nodes, one task a node."
        return todo(text, None if _over_hosts(outer) else line(one, one.words))
    job = _asked(launcher)
    nodes = outer.nodes or (job.nodes if job else None) or 1
    fixed = replace(outer, words=changed(outer, "tasks", nodes) or outer.words)
    if fixed.words == outer.words and job is not None and job.tasks is not None:
        fixed = replace(outer, words=(outer.words[0], f"--ntasks={nodes}", *outer.words[1:]))
    words = changed(fixed, "each", 1) or (fixed.words[0], "--ntasks-per-node=1", *fixed.words[1:])
    text = f"Give each node one task, in which {one.launcher} starts the processes; the GPUs by node (--gres=gpu:N), not by task."
    if job is not None and told(job, "each"):
        text += " The job's own line is then #SBATCH --ntasks-per-node=1, with --cpus-per-task for all of its processes."
    return todo(text, line(outer, words))


def gpus_bound_to_tasks(launcher: LauncherFacts, matches: Matches) -> Hit | None:
    """Slurm shows each task its own GPUs alone, and the program numbers all GPUs of the node."""
    slurm = [one for one in launcher.commands if one.launcher in ("srun", "sbatch", "salloc")]
    one = next((one for one in slurm if one.gpus_per_task is not None), None)
    if one is None or one.gpus_per_task is None or not matches:
        return None
    tasks = tasks_of_a_node(launcher, next((other for other in slurm if other.launcher == "srun"), one)) or one.tasks
    values: dict[str, object] = {"each": one.gpus_per_task}
    lines = _by_node(one, tasks * one.gpus_per_task) if tasks else ()
    text = (
        "Hand out the GPUs by node, so that every task sees all of them (--gpus-per-node or --gres=gpu:N, or --gpu-bind=none beside it); "
        "or let the program use one device in each task (devices=1, cuda:0)."
    )
    return Hit(values, (*seen(one), *quoted(matches)), todo(text, *lines), variant="bound_said")


def _by_node(one: LaunchCommand, gpus: int) -> tuple[str | None, ...]:
    """The same request with the GPUs of a node instead of a task's."""
    mine = own_words(one)
    kept = without(mine, names(one.launcher, "gpus_per_task"))
    if one.words[0] != one.launcher:  # lines of a job script
        return tuple(f"#SBATCH {text}" for text in (*_joined(kept), f"--gpus-per-node={gpus}"))
    return (line(one, (kept[0], f"--gpus-per-node={gpus}", *kept[1:], *one.words[len(mine) :])),)


def _joined(words: Sequence[str]) -> list[str]:
    """Flags with their values as lines of a job script."""
    rows: list[str] = []
    for word in words:
        safe = written((word,))
        if safe is None:
            continue
        if word.startswith("-") or not rows:
            rows.append(safe)
        else:
            rows[-1] += f" {safe}"
    return rows


def slurm_tasks_fix(launcher: LauncherFacts) -> tuple[Manual, ...]:
    """Lightning's devices and nodes as Slurm is to be told them."""
    trainer = next((one for one in launcher.commands if one.launcher == "trainer" and one.each), None)
    if trainer is None:
        return ()
    lines = [f"#SBATCH --ntasks-per-node={trainer.each}", f"#SBATCH --gres=gpu:{trainer.each}"]
    lines += [f"#SBATCH --nodes={trainer.nodes}"] if trainer.nodes else []
    starts = next((one for one in launcher.commands if one.launcher == "python"), None)
    command = line(starts, ("srun", *starts.words)) if starts else None
    return todo(f"Let Slurm start as many tasks a node as the Trainer has devices ({trainer.each}), with srun.", *lines, command)


def only_first_node(launcher: LauncherFacts, matches: Matches) -> Hit | None:
    """A batch script of several nodes that calls the launcher without srun: it runs on the first node, and waits for the others."""
    job = next((one for one in launcher.commands if one.launcher in ("sbatch", "salloc") and (one.nodes or 0) > 1), None)
    if job is None or not matches or any(one.launcher in TASKS for one in launcher.commands):
        return None
    one = next((one for one in launcher.commands if one.launcher in RANK_LAUNCHERS and _over_nodes(one)), None)
    if one is None:
        return None
    text = written(one.words)
    own = any("$SLURM_NODEID" in word or "$SLURM_PROCID" in word for word in one.words)  # to be expanded on each node
    inner = (f"bash -c '{text}'" if not set(text) & set("'\\") else None) if text and own else text
    fixed = f"srun --ntasks-per-node=1 {inner}" if inner else None
    values: dict[str, object] = {"nodes": job.nodes, "inner": one.launcher}
    fixes = todo("Start the launcher with srun, one task on each node.", *(_assigned(one) if fixed else ()), fixed)
    return Hit(values, (*seen(job, one), *quoted(matches)), fixes, variant="first_node", confidence=Confidence.LIKELY)


def _over_nodes(one: LaunchCommand) -> bool:
    """Whether a launcher is told of several nodes, by their number or by the job's own variable."""
    found = told(one, "nodes")
    return (one.nodes or 0) > 1 or (found is not None and "$SLURM" in found[2].replace("{", ""))


def _assigned(one: LaunchCommand) -> tuple[str, ...]:
    """The variables in which a command of a job script looks for the first host and its port, set: a script may do it in a part that nobody
    has shown.
    """
    found = next((match for word in own_words(one) if (match := _MEET_AT.fullmatch(word)) and not match[1].startswith("SLURM_")), None)
    if found is None:
        return ()
    port = f" {found[2]}={DEFAULT_PORT}" if found[2] else ""
    return (f"export {found[1]}={FIRST_HOST}{port}    # where the script does not do so above",)


def spawn_in_tasks(launcher: LauncherFacts, size: int, started: int, matches: Matches) -> Hit | None:
    """srun or mpirun starts a program several times that starts the ranks of a node itself: each adds all of them."""
    for one in launcher.commands:
        outer = above(launcher, one) if one.launcher == "python" else None
        tasks = tasks_of_a_node(launcher, outer) if outer else None
        if outer is None or tasks is None or tasks < 2 or started != size * tasks:
            continue
        values: dict[str, object] = {"tasks": tasks, "outer": outer.words[0], "size": size, "started": started}
        words = changed(outer, "tasks", outer.nodes or 1) or changed(outer, "each", 1)
        text = "The program starts the processes of its node itself: give each node one task."
        return Hit(values, (*seen(outer), *quoted(matches)), todo(text, line(outer, words)), variant="tasks")
    return None


# ------------------------------------------------------------------ ports


def port_taken_by_own(launcher: LauncherFacts, port: str | None, matches: Matches) -> Hit | None:
    """Whether the job itself takes the port twice. Of srun launch-slurm speaks."""
    return launcher_in_tasks(launcher, "mpirun", matches) or port_of_own(launcher, port, matches)


def port_of_own(launcher: LauncherFacts, port: str | None, matches: Matches) -> Hit | None:
    """Two launchers of one text that run side by side on one port."""
    rows = [
        one for one in launcher.commands if one.launcher in RANK_LAUNCHERS and above(launcher, one) is None and not (one.nodes or 1) > 1
    ]
    for first, second in zip(rows, rows[1:], strict=False):
        if (first.port or DEFAULT_PORT) == (second.port or DEFAULT_PORT) and (first.beside or _other_gpus(first, second)):
            taken = first.port or DEFAULT_PORT
            if port not in (None, taken):
                continue
            values: dict[str, object] = {"port": taken, "number": taken}
            return Hit(values, (*seen(first, second), *quoted(matches)), _with_port(second, taken), variant="beside")
    return None


def _other_gpus(first: LaunchCommand, second: LaunchCommand) -> bool:
    mine, theirs = (set(one.variables.get("CUDA_VISIBLE_DEVICES", "").split(",")) for one in (first, second))
    return "" not in mine | theirs and not mine & theirs


def other_port(launcher: LauncherFacts, port: str | None) -> tuple[Manual, ...]:
    """The user's own command with the next port."""
    one = next((one for one in reversed(launcher.commands) if one.launcher in RANK_LAUNCHERS), None)
    return () if one is None or one.inside is not None else _with_port(one, port)


def next_port(taken: str | None) -> int | None:
    """The port after the one that is taken, or after the default."""
    port = number(taken) or number(DEFAULT_PORT)
    return port + 1 if port and port < (1 << 16) - 1 else None


def _with_port(one: LaunchCommand, port: str | None) -> tuple[Manual, ...]:
    free = next_port(port or one.port)
    words = with_flag(one, "port", free) if free else None
    return todo("Give it a port that nobody uses.", line(one, words)) if words else ()


def _flags_begin(one: LaunchCommand) -> int:
    """Where the launcher's own flags begin: behind "torchrun", "accelerate launch", "python -m torch.distributed.launch"."""
    if "-m" in one.words[:3]:
        return one.words.index("-m") + 2
    return 2 if one.words[1:2] in (("launch",), ("run",)) else 1


# ------------------------------------------------------------------ ranks that nobody counts


def without_ranks(launcher: LauncherFacts, matches: Matches) -> Hit | None:
    """A program that wants RANK was started by itself, by srun or mpirun, which set variables of their own, or by mp.spawn."""
    rows = launcher.commands
    if any(one.launcher in RANK_LAUNCHERS for one in rows):
        return None  # it sets them: then another process of the text asks
    for one in reversed(rows):
        if one.launcher == "python":
            outer = above(launcher, one)
            return _started_by(outer, one, matches) if outer else _started_alone(one, matches)
    spawn = next((one for one in rows if one.launcher == "spawn"), None)
    if spawn is None:
        return None
    values = {"variable": value(matches, "variable") or "RANK"}
    text = (
        'Give init_process_group what the child is given: init_method="tcp://127.0.0.1:29500", rank=rank, '
        f"world_size={spawn.each or 'nprocs'}; or start the script with torchrun instead of spawn."
    )
    return Hit(values, (*seen(spawn), *quoted(matches)), todo(text), variant="spawn", severity=Severity.ERROR)


def _started_alone(one: LaunchCommand, matches: Matches) -> Hit:
    count = one.variables.get("CUDA_VISIBLE_DEVICES", "").split(",")
    each = len(count) if all(entry.strip().isdecimal() for entry in count) else "gpu"
    fixes = todo("Start the script with torchrun, which sets all of them.", line(one, _by_torchrun(one, each)))
    values = {"variable": value(matches, "variable") or "RANK", "program": one.program or "the program"}
    return Hit(values, (*seen(one), *quoted(matches)), fixes, variant="alone", severity=Severity.ERROR)


def _by_torchrun(one: LaunchCommand, each: object) -> tuple[str, ...]:
    """A command of python as one of torchrun: the script and what follows it."""
    module = ("-m",) if "-m" in one.words else ()
    return ("torchrun", "--standalone", f"--nproc-per-node={each}", *module, *one.words[len(own_words(one)) :])


def _started_by(outer: LaunchCommand, one: LaunchCommand, matches: Matches) -> Hit:
    values = {"variable": value(matches, "variable") or "RANK", "outer": outer.words[0], "program": one.program or "the program"}
    head, command = outer.words[: len(outer.words) - len(one.words)], written(one.words)
    inside = outer.words[len(head) :] == one.words and command is not None and "'" not in command
    start = written(head) if inside else None
    mapped = f"{start} bash -c '{_RANK_OF[outer.launcher]} {command}'" if start else None
    several = (outer.nodes or 1) > 1 or _over_hosts(outer)
    alone = line(one, _by_torchrun(one, outer.tasks)) if outer.tasks and not several else None
    text = f"Hand {outer.words[0]}'s own numbers on, and name the first node and a port to all ranks."
    fixes = (*(todo("Let torchrun start the ranks.", alone) if alone else ()), *todo(text, mapped and _MEETING[outer.launcher], mapped))
    return Hit(values, (*seen(outer), *quoted(matches)), fixes, variant=outer.launcher, severity=Severity.ERROR)


_TWINS = {  # what other launchers, and frameworks, call a variable of torchrun's
    "RANK": ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"),
    "LOCAL_RANK": ("SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK"),
    "WORLD_SIZE": ("SLURM_NTASKS", "SLURM_NPROCS", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PMI_SIZE"),
    "LOCAL_WORLD_SIZE": ("OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE"),
    "GROUP_RANK": ("NODE_RANK", "SLURM_NODEID"),
}
_OF_A_NODE = {  # the same for all ranks of a node, so that its shell can export it
    "NODE_RANK": "0    # the number of the node: 0, on the second node 1",
    "GROUP_RANK": "0    # the number of the node: 0, on the second node 1",
    "LOCAL_WORLD_SIZE": "GPUS    # how many ranks are started on a node",
}


def twin_of(name: str) -> str | None:
    """The variable of torchrun's that holds what a program looks for under a name that torchrun does not set."""
    return next((twin for twin, names in _TWINS.items() if name in names), None)


def set_too(name: str) -> tuple[Manual, ...]:
    """A variable that the launcher did not set: exported or handed on by it, or read with a default."""
    twin, alone = twin_of(name), '"1"' if name.endswith(("SIZE", "NTASKS", "NPROCS")) else '"0"'
    if twin is None and name not in _OF_A_NODE:
        return ()
    handed = f"torchrun --standalone --nproc-per-node=gpu --no-python bash -c '{name}=${twin} exec python TRAIN.PY'"
    default = f'os.environ.get("{twin}", {alone})' if twin else alone
    return todo(
        "Set that variable too, or let the program read it with a default, at the line that the traceback names.",
        f"export {name}={_OF_A_NODE[name]}" if name in _OF_A_NODE else handed,
        f'os.environ.get("{name}", {default})    # in the code, in place of os.environ["{name}"]',
    )


def by_mpirun(launcher: LauncherFacts, size: str) -> tuple[Manual, ...]:
    """The program with as many ranks as it was built for."""
    mine = next((one for one in reversed(launcher.commands) if one.launcher in ("python", "mpirun")), None)
    if mine is None or not size.isdecimal():
        return ()
    outer = above(launcher, mine)
    words = ("mpirun", "-n", size, *mine.words) if outer is None else changed(outer, "tasks", size)
    return todo(f"Start {size} processes.", line(mine, words))


def beside_libuv(launcher: LauncherFacts) -> bool:
    """Whether a launcher makes a store of its own before the program does, one that USE_LIBUV does not reach."""
    return any(one.launcher in (*RANK_LAUNCHERS[:4], "fabric") for one in launcher.commands)


# ------------------------------------------------------------------ files and nodes


def rendezvous_file(launcher: LauncherFacts) -> str | None:
    """The file in which the ranks meet (init_method="file:///path")."""
    method = launcher.init_method or ""
    if method.startswith("file://"):
        return method.removeprefix("file://") or None
    return method if "/" in method and "://" not in method else None


def stale_file(launcher: LauncherFacts, size: int | None, started: int | None, matches: Matches) -> Hit | None:
    """More ranks counted at a file than there are: the file is from an earlier run and its counts go on."""
    path = rendezvous_file(launcher)
    if path is None:
        return None
    name = written((path,))
    values: dict[str, object] = {"size": size, "started": started, "file": path}
    text = f"Remove {path} before each start, or give each run a file of its own (with the job's number in its name) that all ranks share."
    fixes = todo(text, f"rm -f {name}" if name and not path.startswith("-") else None)
    return Hit(values, quoted(matches), fixes, variant="file")


def nodes_missing(launcher: LauncherFacts, size: int | None, joined: int | None, matches: Matches) -> Hit | None:
    """Whole nodes that did not come: the store counts the launchers of the nodes, or their ranks."""
    one = next((one for one in reversed(launcher.commands) if one.launcher in RANK_LAUNCHERS and (one.nodes or 0) > 1), None)
    if one is None or one.nodes is None or not size or joined is None or joined >= size or above(launcher, one):
        return None
    each = 1 if size == one.nodes else one.each
    if each is None or each * one.nodes != size or joined % each:
        return None
    came = joined // each
    mine = one.node_rank or 0
    others = [rank for rank in range(one.nodes) if rank != mine] if told(one, "node_rank") else []
    lines = [line(one, changed(one, "node_rank", rank)) for rank in others[:3]] or [line(one, one.words)]
    values: dict[str, object] = {"nodes": one.nodes, "came": came, "each": each}
    text = (
        "Start the launcher on the other nodes too, within the time-out, with the same numbers, address and port, and see that they reach "
        "that port."
    )
    return Hit(values, (*seen(one), *quoted(matches)), todo(text, *lines), variant="nodes")


def same_node_rank(launcher: LauncherFacts, matches: Matches) -> Hit | None:
    """The commands of two nodes with the same rank of the node."""
    rows = [one for one in launcher.commands if one.launcher in RANK_LAUNCHERS and (one.nodes or 0) > 1 and one.node_rank is not None]
    for at, first in enumerate(rows):
        for second in rows[at + 1 :]:
            if first.node_rank == second.node_rank and _same_job(first, second):
                used = {one.node_rank for one in rows}
                free = next(rank for rank in range(len(rows) + 1) if rank not in used)
                values: dict[str, object] = {"rank": first.node_rank, "nodes": first.nodes, "flag": _node_flag(second)}
                text = f"Give each node its own number, from 0 to {(first.nodes or 2) - 1}. On the second node:"
                fixes = todo(text, line(second, changed(second, "node_rank", free)))
                return Hit(values, (*seen(first, second), *quoted(matches)), fixes, variant="node_rank", confidence=Confidence.LIKELY)
    return None


def _node_flag(one: LaunchCommand) -> str:
    """How the user wrote it: "--node_rank", "--machine-rank"."""
    found = told(one, "node_rank")
    return "--node-rank" if found is None else found[1].rstrip("=") or one.words[found[0] - 1]


def _same_job(first: LaunchCommand, second: LaunchCommand) -> bool:
    return first.launcher == second.launcher and first.nodes == second.nodes and first.program == second.program
