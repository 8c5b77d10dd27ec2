"""Rank variables: incomplete, contradicting each other, given twice, left over, or set by two launchers within each other."""

from __future__ import annotations

from envcheck.checks import launch_sums
from envcheck.checks.hardware import number
from envcheck.checks.slurm_sums import slurm_sums
from envcheck.checks.tasks_missing import node_beyond_nodes, tasks_of_all_nodes
from envcheck.checks.text import agreed, alone, cite, doubt, environment, foremost, of_symptom, of_variant, quoted, surplus, value
from envcheck.engine.intents import SetEnv
from envcheck.engine.rule import Answer, Confidence, Facts, Hit, Matches, Severity, check
from envcheck.facts.snapshot import LauncherFacts, RankReading

_LARGEST = (1 << 31) - 1  # torch keeps ranks and sizes in a C int
_ENV = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def _native(launcher: LauncherFacts) -> list[RankReading]:
    """Complete sets of launchers other than torchrun: a program may take its ranks from these."""
    return [one for one in launcher.readings if one.complete and one.launcher not in ("torchrun", "env", "pet")]


@check(needs="launcher", reads="launcher symptoms")
def launch_env_incomplete(facts: Facts, matches: Matches) -> Answer:
    launcher, seen = facts.launcher, facts.launcher.variables
    have = [name for name in _ENV if seen.get(name)]
    lacking = [name for name in _ENV if name not in have]
    if matches:
        name = value(matches, "variable") or "RANK"
        # DeepSpeed asks MPI where the environment has no ranks: that counts where no line names a variable
        variant = foremost(matches, "argument") or agreed(matches)
        if not variant and name in (*_ENV, "LOCAL_RANK") and (started := launch_sums.without_ranks(launcher, matches)):
            return started
        values = {"variable": name, "what": (value(matches, "what") or "").lower(), "set": have or "none of them"}
        if variant:
            return Hit(values, quoted(matches), variant=variant)
        twin = launch_sums.twin_of(name)
        variant = "slurm" if name.startswith("SLURM_") else "unset" if twin else "said"
        return Hit(values | {"twin": twin}, quoted(matches), launch_sums.set_too(name), variant, Severity.ERROR)
    if not lacking or not ("RANK" in have or "WORLD_SIZE" in have):
        return None  # an address alone is what a batch script exports before it starts the ranks
    if _native(launcher) or any(name in seen for name in ("SLURM_JOB_ID", "SLURM_JOBID", "LSB_JOBID", "PBS_JOBID")):
        return None  # the other half comes with the tasks
    return Hit({"set": have, "lacking": lacking}, environment(seen, have))


def _pairs(launcher: LauncherFacts) -> str | None:
    """A contradiction within one set of variables, in words."""
    numbers = {name: number(launcher.variables.get(name)) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")}
    for name, read in numbers.items():
        raw, least = launcher.variables.get(name), 1 if name.endswith("SIZE") else 0
        if raw and (read is None or not least <= read <= _LARGEST):
            return f"{name}={raw if raw.strip() else repr(raw)} is no {'size' if least else 'rank'}"
    for small, large in (("RANK", "WORLD_SIZE"), ("LOCAL_RANK", "LOCAL_WORLD_SIZE")):
        low, high = numbers[small], numbers[large]
        if low is not None and high is not None and low >= high:
            return f"{small}={low} is not below {large}={high}"
    local, world = numbers["LOCAL_WORLD_SIZE"], numbers["WORLD_SIZE"]
    if local is not None and world is not None and local > world:
        return f"LOCAL_WORLD_SIZE={local} is more than WORLD_SIZE={world}"
    return None


@check(needs="launcher", reads="launcher symptoms")
def launch_env_conflict(facts: Facts, matches: Matches) -> Answer:
    if wrong := _pairs(facts.launcher):
        return Hit({"problem": wrong}, quoted(matches))
    if two := _two_launchers(facts.launcher):
        return Hit(two, quoted(matches), variant="two")
    waited = matches or facts.said("launch-world-size") or facts.said("launch-unreachable")
    if beyond := node_beyond_nodes(facts.launcher, waited or facts.said("launch-master-address")):
        return beyond
    if same := waited and launch_sums.same_node_rank(facts.launcher, waited):
        return same
    # "1/2 clients joined" says for certain that one did not come; that two took the same rank is one of several reasons.
    guess = all(match.symptom == "clients-joined" for match in matches)
    counts = number(value(matches, "world_size")), number(value(matches, "joined"))
    if not matches or (guess and (surplus(matches) or launch_sums.nodes_missing(facts.launcher, *counts, matches))):
        return None
    return Hit({}, quoted(matches), variant="said", confidence=Confidence.LIKELY if guess else None)


def _two_launchers(launcher: LauncherFacts) -> dict[str, object] | None:
    """Rank and size that torch takes, and those of another launcher.

    torchrun starts its workers within one task of srun or mpirun: then the outer launcher counts nodes, and that is in order.
    """
    mine = next((one for one in launcher.readings if one.complete and one.launcher in ("torchrun", "env", "ray")), None)
    if mine is None or mine.launcher == "ray" or any(name.startswith("TORCHELASTIC_") for name in launcher.variables):
        return None
    for other in _native(launcher):
        if other.launcher == "kubeflow" or other.world_size in (None, 1):
            continue
        if other.world_size != mine.world_size or other.rank not in (None, mine.rank):
            theirs = {"other": other.launcher, "other_rank": other.rank, "other_size": other.world_size}
            return {"rank": mine.rank, "size": mine.world_size, **theirs}
    return None


@check(needs="launcher", reads="launcher symptoms")
def launch_rank_duplicate(facts: Facts, matches: Matches) -> Answer:
    launcher, claims = facts.launcher, facts.launcher.rank_claims
    if len(claims) < 2:
        values = {"rank": value(matches, "rank"), "size": value(matches, "size")}
        printed = all(match.symptom == "global-rank-twice" for match in matches)  # two runs in one text print the same
        return Hit(values, quoted(matches), variant="said", confidence=Confidence.LIKELY if printed else None) if matches else None
    pids = ",".join(word for claim in claims for word in claim.split()[1:2] if word.isdecimal()) or None
    ranks = {"rank": launcher.variables.get("RANK"), "size": launcher.variables.get("WORLD_SIZE"), "count": len(claims)}
    meeting = {"address": launcher.master_addr, "port": launcher.master_port}
    return Hit({**ranks, **meeting, "claims": claims, "pids": pids}, cite("process", *claims[:6]))


@check(needs="launcher", reads="launcher symptoms")
def launch_world_size(facts: Facts, matches: Matches) -> Answer:
    if told := _not_started(matches):
        return told
    if slots := value(matches, "slots"):
        return Hit({"slots": slots}, quoted(matches), variant="slots")
    if built := of_variant(matches, "built"):
        wanted = value(built, "size") or ""
        engine = {"size": wanted, "started": value(built, "started")}
        return Hit(engine, quoted(built), launch_sums.by_mpirun(facts.launcher, wanted), "built")
    if fitting := of_variant(matches, "fit", "hosts"):
        host, began = value(fitting, "host") or "the nodes that it was asked for", value(fitting, "started") or "started"
        guess = doubt(fitting)  # a library may have counted before the group was there
        severity = Severity.WARNING if guess else None
        return Hit({"host": host, "started": began}, quoted(fitting), (), foremost(fitting, "hosts", "fit"), severity, guess)
    size, joined = number(value(matches, "world_size")) or facts.launcher.world_size, number(value(matches, "joined"))
    started = facts.launcher.ranks_started if joined is None else joined
    if size and started is not None and started > size and surplus(matches):
        if stale := launch_sums.stale_file(facts.launcher, size, started, matches):
            return stale
        if tasks := launch_sums.spawn_in_tasks(facts.launcher, size, started, matches):
            return tasks
        return Hit({"size": size, "started": started}, quoted(matches), variant="more")
    if missing := launch_sums.nodes_missing(facts.launcher, size, started, matches):
        return missing
    group = number(value(matches, "group")) or 1  # torch counts the groups of a process
    if size and started is not None and started < size and group > 1:
        return Hit({"size": size, "started": started, "group": group}, quoted(matches), variant="later")
    if size and started is not None and started < size:
        # Older torch says every ten seconds that it waits, also where the others come at last: a doubt.
        return Hit({"size": size, "started": started, "absent": size - started}, quoted(matches), confidence=doubt(matches))
    values: dict[str, object] = {"size": size or "announced"}
    if rank := value(matches, "rank"):
        return Hit(values | {"rank": rank}, quoted(matches), variant="rank")
    return Hit(values, quoted(matches), variant="said") if matches else _pods_taken_for_ranks(facts.launcher)


def _not_started(matches: Matches) -> Hit | None:
    """What a launcher says before any rank is there, and what people tell of ranks that nothing started."""
    variant = foremost(matches, "hostfile", "resources") or agreed(matches)
    if variant not in ("hostfile", "resources", "local_only", "alone", "batch", "one_process", "one_node", "in_code"):
        return None
    told = of_variant(matches, variant)
    unsaid = {"file": "as it was given", "request": "as asked for"}
    values = {name: value(told, name) or unsaid.get(name) for name in ("file", "request", "size", "came", "nodes", "each")}
    return Hit(values, quoted(told), variant=variant)


def _pods_taken_for_ranks(launcher: LauncherFacts) -> Hit | None:
    """Kubeflow's PyTorchJob sets WORLD_SIZE to the number of pods; a torchrun in each pod takes it for the number of ranks."""
    seen = launcher.variables
    pods, each, nodes = (number(seen.get(name)) for name in ("WORLD_SIZE", "PET_NPROC_PER_NODE", "PET_NNODES"))
    if launcher.launcher != "kubeflow" and launcher.scheduler != "kubernetes":
        return None
    if pods and each and each > 1 and "LOCAL_WORLD_SIZE" not in seen and (nodes is None or pods < each * nodes):
        return Hit({"size": pods, "each": each}, variant="pods")
    return None


@check(needs="launcher", reads="launcher visibility symptoms")
def launch_slurm(facts: Facts) -> Answer:
    local, mine = number(facts.launcher.variables.get("SLURM_LOCALID")), facts.visibility.cuda_visible_devices
    beyond = of_symptom(facts, "invalid-device-ordinal")
    if beyond and local is not None and mine and len(mine.split(",")) <= local:
        evidence = cite("environment", f"SLURM_LOCALID={local}, CUDA_VISIBLE_DEVICES={mine}")
        return Hit({"local": local, "visible": mine}, (*evidence, *quoted(beyond)), variant="bound")
    return _agents_in_tasks(facts) or slurm_sums(facts) or _slurm_said(facts)


def _agents_in_tasks(facts: Facts) -> Hit | None:
    """A torchrun in every task, each of which starts all the ranks of its node."""
    seen, counts = facts.launcher.variables, ("SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_NODES")
    tasks, nodes = (number(seen.get(name)) for name in counts)
    agents = any(name.startswith(("TORCHELASTIC_", "PET_")) for name in seen)
    each = number(seen.get("LOCAL_WORLD_SIZE")) or number(seen.get("PET_NPROC_PER_NODE"))
    if not agents or not tasks or not nodes or tasks <= nodes or each == 1:
        return None
    evidence = (*environment(seen, counts), *quoted(facts.said("launch-slurm")))
    return Hit({"tasks": tasks, "nodes": nodes, "each": each or "several"}, evidence, confidence=Confidence.LIKELY)


def _slurm_said(facts: Facts) -> Hit | None:
    matches = facts.said("launch-slurm")
    under = facts.launcher.scheduler == "slurm" or any(name.startswith("SLURM_") for name in facts.launcher.variables)
    own = alone(facts, "launch-slurm")  # of the others, which any launcher may print, a sign of Slurm is needed
    if not (own or (matches and under)) or facts.launcher.scheduler not in (None, "slurm"):
        return None
    if variant := foremost(own, "tasks", "request", "container", "ended") or agreed(own):
        told = of_variant(own, variant)
        works = doubt(told)  # Lightning starts the processes itself, a step waits for its turn
        fixes = (launch_sums.slurm_tasks_fix(facts.launcher) or tasks_of_all_nodes(told)) if variant == "tasks" else ()
        values = {"reason": (value(told, "reason") or "").strip(" ()"), "flag": value(told, "flag")}
        return Hit(values, quoted(told), fixes, variant, Severity.WARNING if works else None)
    slots = None if own else value(matches, "slots")
    return Hit({"slots": slots}, quoted(matches), variant="slots" if slots else "said", confidence=Confidence.LIKELY)


@check(needs="launcher", reads="launcher")
def launch_variables_leaked(facts: Facts) -> Answer:
    launcher, seen = facts.launcher, facts.launcher.variables
    if all(name in seen for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")):
        return None  # a worker of a torchrun that lives
    benign = ("TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_SIGNALS_TO_HANDLE")
    leaked = [name for name in seen if name.startswith("TORCHELASTIC_") and name not in benign]
    # Kubeflow's Trainer gives the inputs of torchrun to the pod, and a batch job may do so too.
    if launcher.scheduler is None and launcher.launcher != "kubeflow":
        leaked += [name for name in seen if name.startswith("PET_")]
    fixes = tuple(SetEnv(name, None) for name in leaked[:8])
    return Hit({"names": leaked}, environment(seen, leaked[:6]), fixes) if leaked else None
