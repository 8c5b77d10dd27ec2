"""Rank variables: incomplete, contradicting each other, given twice, left over, or set by two launchers within each other."""

from __future__ import annotations

from envcheck.checks.answer import trouble
from envcheck.checks.hardware import number
from envcheck.checks.text import alone, holding, mentioning, quoted, said, surplus, value
from envcheck.engine.intents import SetEnv
from envcheck.engine.rule import Confidence, Evidence, Hit, Severity, Unknown, check
from envcheck.facts.snapshot import LauncherFacts, Missing, RankReading, SymptomsFacts, VisibilityFacts

_LARGEST = (1 << 31) - 1  # torch keeps ranks and sizes in a C int
_ENV = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def _native(launcher: LauncherFacts) -> list[RankReading]:
    """Complete sets of launchers other than torchrun: a program may take its ranks from these."""
    return [one for one in launcher.readings if one.complete and one.launcher not in ("torchrun", "env", "pet")]


@check(sees_missing=("launcher", "symptoms"))
def launch_env_incomplete(launcher: LauncherFacts | Missing, symptoms: SymptomsFacts | Missing) -> Hit | Unknown | None:
    """Some of RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT are set and others are not, so env:// cannot work."""
    matches = said(symptoms, "launch-env-incomplete")
    facts = None if isinstance(launcher, Missing) else launcher
    have = [name for name in _ENV if facts and facts.variables.get(name)]
    lacking = [name for name in _ENV if name not in have]
    if matches:
        name = value(matches, "variable") or "RANK"
        if asked := value(matches, "what"):
            return Hit({"what": asked.lower()}, quoted(matches), variant="argument")
        if not holding(matches, name) and holding(matches, "mpi4py"):  # DeepSpeed asks MPI where the environment has no ranks
            return Hit({}, quoted(matches), variant="mpi")
        variant = "slurm" if name.startswith("SLURM_") else "said"
        return Hit({"variable": name, "set": have or "none of them"}, quoted(matches), variant=variant, severity=Severity.ERROR)
    if facts is None:
        return trouble(launcher, "launcher")
    if not lacking or not ("RANK" in have or "WORLD_SIZE" in have):
        return None  # an address alone is what a batch script exports before it starts the ranks
    if _native(facts) or any(name in facts.variables for name in ("SLURM_JOB_ID", "SLURM_JOBID", "LSB_JOBID", "PBS_JOBID")):
        return None  # the other half comes with the tasks
    return Hit({"set": have, "lacking": lacking}, tuple(Evidence("environment", f"{name}={facts.variables[name]}") for name in have))


def _pairs(facts: LauncherFacts) -> str | None:
    """A contradiction within one set of variables, in words."""
    numbers = {name: number(facts.variables.get(name)) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")}
    for name, read in numbers.items():
        raw, least = facts.variables.get(name), 1 if name.endswith("SIZE") else 0
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


@check(sees_missing=("launcher", "symptoms"))
def launch_env_conflict(launcher: LauncherFacts | Missing, symptoms: SymptomsFacts | Missing) -> Hit | Unknown | None:
    """Rank variables that contradict each other, within one launcher's set or between two."""
    matches = said(symptoms, "launch-env-conflict")
    facts = None if isinstance(launcher, Missing) else launcher
    if facts and (wrong := _pairs(facts)):
        return Hit({"problem": wrong}, quoted(matches))
    mine = next((one for one in facts.readings if one.complete and one.launcher in ("torchrun", "env", "ray")), None) if facts else None
    # torchrun starts its workers within one task of srun or mpirun: then the outer launcher counts nodes, and that is in order.
    inside = bool(facts and any(name.startswith("TORCHELASTIC_") for name in facts.variables))
    if facts and mine and not inside and mine.launcher != "ray":
        for other in _native(facts):
            if other.launcher == "kubeflow" or other.world_size in (None, 1):
                continue
            if other.world_size != mine.world_size or (other.rank is not None and other.rank != mine.rank):
                values: dict[str, object] = {"rank": mine.rank, "size": mine.world_size}
                values |= {"other": other.launcher, "other_rank": other.rank, "other_size": other.world_size}
                return Hit(values, quoted(matches), variant="two", confidence=Confidence.LIKELY)
    if not matches:
        return trouble(launcher, "launcher")
    # "1/2 clients joined" says for certain that one did not come; that two took the same rank is one of several reasons.
    guess = all(match.symptom == "clients-joined" for match in matches)
    if guess and surplus(matches):
        return None
    return Hit({}, quoted(matches), variant="said", confidence=Confidence.LIKELY if guess else None)


@check()
def launch_rank_duplicate(launcher: LauncherFacts) -> Hit | None:
    """Two processes of this host were given the same rank of the same job, which torch does not notice."""
    claims = launcher.rank_claims
    if len(claims) < 2:
        return None
    values: dict[str, object] = {
        "rank": launcher.variables.get("RANK"),
        "size": launcher.variables.get("WORLD_SIZE"),
        "address": launcher.master_addr,
        "port": launcher.master_port,
        "count": len(claims),
        "claims": claims,
        "pids": ",".join(word for claim in claims for word in claim.split()[1:2] if word.isdecimal()) or None,
    }
    return Hit(values, tuple(Evidence("process", claim) for claim in claims[:6]))


@check(sees_missing=("launcher", "symptoms"))
def launch_world_size(launcher: LauncherFacts | Missing, symptoms: SymptomsFacts | Missing) -> Hit | None:
    """More ranks are announced than are started, so the others wait for ever."""
    matches = said(symptoms, "launch-world-size")
    facts = None if isinstance(launcher, Missing) else launcher
    size = number(value(matches, "world_size")) or (facts.world_size if facts else None)
    started = number(value(matches, "joined"))
    if started is None and facts:
        started = facts.ranks_started
    if slots := value(matches, "slots"):
        return Hit({"slots": slots}, quoted(matches), variant="slots")
    if fitting := tuple(match for match in matches if match.symptom == "ranks-do-not-fit"):
        if holding(fitting, "hostfile"):
            return Hit({"host": value(fitting, "host") or "the nodes that it was asked for"}, quoted(fitting), variant="hosts")
        counted = value(fitting, "started") or "started"
        if len(holding(fitting, "gradient_acc_step")) == len(fitting):  # a library may have counted before the group was there
            return Hit({"started": counted}, quoted(fitting), variant="fit", severity=Severity.WARNING, confidence=Confidence.LIKELY)
        return Hit({"started": counted}, quoted(fitting), variant="fit")
    if size and started is not None and started > size and surplus(matches):
        too_many: dict[str, object] = {"size": size, "started": started}
        return Hit(too_many, quoted(matches), variant="more", severity=Severity.WARNING, confidence=Confidence.LIKELY)
    if size and started is not None and started < size:
        # Older torch says so every ten seconds, also where the others come at last.
        waits = bool(matches) and len(holding(matches, "Waiting in store based barrier")) == len(matches)
        absent = {"size": size, "started": started, "absent": size - started}
        return Hit(absent, quoted(matches), confidence=Confidence.LIKELY if waits else None)
    if rank := value(matches, "rank"):
        return Hit({"size": size or "the announced number of", "rank": rank}, quoted(matches), variant="rank", confidence=Confidence.LIKELY)
    if matches:
        return Hit({"size": size or "the announced number of"}, quoted(matches), variant="said")
    if facts and (facts.launcher == "kubeflow" or facts.scheduler == "kubernetes"):
        # Kubeflow's PyTorchJob sets WORLD_SIZE to the number of pods; a torchrun in each pod takes it for the number of ranks.
        pods, each = number(facts.variables.get("WORLD_SIZE")), number(facts.variables.get("PET_NPROC_PER_NODE"))
        nodes = number(facts.variables.get("PET_NNODES"))
        if pods and each and each > 1 and "LOCAL_WORLD_SIZE" not in facts.variables and (nodes is None or pods < each * nodes):
            return Hit({"size": pods, "each": each}, variant="pods", severity=Severity.WARNING, confidence=Confidence.LIKELY)
    return None


@check(sees_missing=("launcher", "visibility", "symptoms"))
def launch_slurm(launcher: LauncherFacts | Missing, visibility: VisibilityFacts | Missing, symptoms: SymptomsFacts | Missing) -> Hit | None:
    """torchrun in every task of a node, a launcher that runs on the first node only, or GPUs bound to tasks that count them all."""
    matches = said(symptoms, "launch-slurm")
    facts = None if isinstance(launcher, Missing) else launcher
    if facts:
        seen = facts.variables
        local, mine = number(seen.get("SLURM_LOCALID")), None if isinstance(visibility, Missing) else visibility.cuda_visible_devices
        beyond = mentioning(symptoms, "invalid device ordinal", "Invalid device id")
        if beyond and local is not None and mine and 0 < len(mine.split(",")) <= local:
            evidence = (Evidence("environment", f"SLURM_LOCALID={local}, CUDA_VISIBLE_DEVICES={mine}"), *quoted(beyond))
            return Hit({"local": local, "visible": mine}, evidence, variant="bound")
        tasks, nodes = number(seen.get("SLURM_STEP_NUM_TASKS")), number(seen.get("SLURM_STEP_NUM_NODES"))
        agents = any(name.startswith(("TORCHELASTIC_", "PET_")) for name in seen)
        each = number(seen.get("LOCAL_WORLD_SIZE")) or number(seen.get("PET_NPROC_PER_NODE"))
        if agents and tasks and nodes and tasks > nodes and (each is None or each > 1):
            values = {"tasks": tasks, "nodes": nodes, "each": each or "several"}
            evidence = tuple(Evidence("environment", f"{name}={seen[name]}") for name in ("SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_NODES"))
            return Hit(values, (*evidence, *quoted(matches)), confidence=Confidence.LIKELY)
    under = bool(facts and (facts.scheduler == "slurm" or any(name.startswith("SLURM_") for name in facts.variables)))
    own = alone(symptoms, "launch-slurm")  # of the others, which any launcher may print, a sign of Slurm is needed
    if not (own or (matches and under)) or (facts and facts.scheduler not in (None, "slurm")):
        return None
    if differ := holding(own, "slurm tasks", "configured in SLURM", "in your SLURM"):
        works = len(holding(differ, "slurm tasks")) == len(differ)  # that Lightning starts the processes itself
        return Hit({}, quoted(differ), variant="tasks", severity=Severity.WARNING if works else None)
    if reason := value(own, "reason"):
        waits = "temporarily disabled" in own[0].text or "setting nnodes" in own[0].text
        return Hit({"reason": reason.strip(" ()")}, quoted(own), variant="request", severity=Severity.WARNING if waits else None)
    if all(match.symptom == "slurm-pmi" for match in own) and own:
        return Hit({}, quoted(own), variant="pmi")
    if not own and (slots := value(matches, "slots")):
        return Hit({"slots": slots}, quoted(matches), variant="slots", confidence=Confidence.LIKELY)
    return Hit({}, quoted(matches), variant="said", confidence=Confidence.LIKELY)


@check()
def launch_variables_leaked(launcher: LauncherFacts) -> Hit | None:
    """Variables of a torchrun that is not this process's launcher any more: the next torchrun obeys them."""
    seen = launcher.variables
    if all(name in seen for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")):
        return None  # a worker of a torchrun that lives
    harmless = ("TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_SIGNALS_TO_HANDLE")
    elastic = [name for name in seen if name.startswith("TORCHELASTIC_") and name not in harmless]
    # Kubeflow's Trainer gives the inputs of torchrun to the pod, and a batch job may do so too.
    pet = [name for name in seen if name.startswith("PET_")] if launcher.scheduler is None and launcher.launcher != "kubeflow" else []
    leaked = [*elastic, *pet]
    if not leaked:
        return None
    evidence = tuple(Evidence("environment", f"{name}={seen[name]}") for name in leaked[:6])
    return Hit({"names": leaked}, evidence, tuple(SetEnv(name, None) for name in leaked[:8]))


CHECKS = (
    launch_env_incomplete,
    launch_env_conflict,
    launch_rank_duplicate,
    launch_world_size,
    launch_slurm,
    launch_variables_leaked,
)
