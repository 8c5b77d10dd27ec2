"""Rank variables, the rendezvous address and port, and the mistakes that only an error text shows."""

from __future__ import annotations

from envcheck.checks.answer import trouble
from envcheck.checks.hardware import node_count, number
from envcheck.checks.text import alone, holding, mentioning, quoted, said, value
from envcheck.facts import LauncherFacts, Missing, NetworkFacts, RankReading, SymptomsFacts, VisibilityFacts
from envcheck.intents import SetEnv
from envcheck.rule import Confidence, Evidence, Hit, Severity, Unknown, check

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
        return Hit({"variable": name, "set": have or "none of them"}, quoted(matches), variant="said", severity=Severity.ERROR)
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
        raw = facts.variables.get(name)
        if raw and (read is None or read < 0):
            return f"{name}={raw} is no rank or size"
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
    return Hit({}, quoted(matches), variant="said", confidence=Confidence.LIKELY if guess else None)


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
    if size and started is not None and started < size:
        return Hit({"size": size, "started": started, "absent": size - started}, quoted(matches))
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


def _local(addresses: tuple[str, ...]) -> bool:
    return bool(addresses) and all(one.startswith("127.") or one == "::1" for one in addresses)


def _here(launcher: LauncherFacts, network: NetworkFacts | Missing) -> bool:
    """Whether the master address is this machine, so that its port matters here."""
    name = (launcher.master_addr or "localhost").strip()
    if name in ("localhost", "::1") or name.startswith("127."):
        return True
    if isinstance(network, Missing):
        return False
    own = {one for interface in network.interfaces for one in interface.addresses} | set(network.addresses)
    return name == network.hostname or name in own or bool(set(launcher.master_addr_resolves or ()) & own)


@check(sees_missing=("launcher", "network", "symptoms"))
def launch_port_in_use(
    launcher: LauncherFacts | Missing, network: NetworkFacts | Missing, symptoms: SymptomsFacts | Missing
) -> Hit | Unknown | None:
    """The rendezvous port is taken by another process."""
    matches = said(symptoms, "launch-port-in-use")
    facts = None if isinstance(launcher, Missing) else launcher
    owner = facts.master_port_owner if facts else None
    port = value(matches, "port") or (facts.master_port if facts else None)
    values = {"port": port or "that of the rendezvous", "owner": owner or "another process"}
    if matches:
        text = " ".join(match.text for match in matches)
        twice = "--local_rank" in text or "--local-rank" in text
        if "Ping failed" in text:
            return Hit(values, quoted(matches), variant="foreign")
        return Hit(values, quoted(matches), variant="self" if twice else None if owner else "said")
    # Within a torchrun worker the agent's own store listens there; on other nodes than the master's the port does not matter.
    worker = bool(facts and any(name.startswith("TORCHELASTIC_") for name in facts.variables))
    if facts is None:
        return trouble(launcher, "launcher")
    if owner is None or worker or not _here(facts, network) or (facts.rank or 0) > 0:
        return None
    severity = Severity.WARNING if facts.rank is None else None
    return Hit(values, (Evidence(f"listening on port {port}", owner),), severity=severity)


@check(sees_missing=("launcher", "symptoms"))
def launch_unreachable(launcher: LauncherFacts | Missing, symptoms: SymptomsFacts | Missing) -> Hit | None:
    """The master's name does not resolve, or nobody answers there."""
    matches = said(symptoms, "launch-unreachable")
    facts = None if isinstance(launcher, Missing) else launcher
    if facts and facts.master_addr and facts.master_addr_resolves == ():
        values = {"address": facts.master_addr, "error": (facts.master_addr_error or "no address").rstrip(".")}
        evidence = (Evidence("name resolution", f"{facts.master_addr}: {values['error']}"), *quoted(matches))
        return Hit(values, evidence, variant="name")
    if not matches:
        return None
    address = value(matches, "address") or (facts.master_addr if facts else None)
    return Hit({"address": address or "the master"}, quoted(matches))


@check(sees_missing=("launcher", "symptoms"))
def launch_master_address(launcher: LauncherFacts | Missing, symptoms: SymptomsFacts | Missing) -> Hit | Unknown | None:
    """With several nodes the master's address must not be this machine's own loopback."""
    matches = said(symptoms, "launch-master-address")
    facts = None if isinstance(launcher, Missing) else launcher
    nodes = node_count(launcher)
    if facts and facts.master_addr and nodes is not None and nodes > 1:
        name = facts.master_addr.strip()
        values: dict[str, object] = {"address": name, "nodes": nodes, "resolves": facts.master_addr_resolves or ()}
        if name in ("localhost", "::1") or name.startswith("127."):
            return Hit(values, quoted(matches), variant="literal")
        if facts.master_addr_resolves and _local(facts.master_addr_resolves):
            # On the master itself too: it listens where the others cannot come, and gloo offers 127.0.1.1 to them.
            seen = Evidence("name resolution", f"{name} → {', '.join(facts.master_addr_resolves)}")
            return Hit(values, (seen, *quoted(matches)))
        if name == facts.variables.get("SLURM_LAUNCH_NODE_IPADDR"):
            return Hit(values, quoted(matches), variant="launch_node", severity=Severity.WARNING, confidence=Confidence.LIKELY)
    if matches:
        address = value(matches, "address") or (facts.master_addr if facts else None) or "a loopback address"
        return Hit({"address": address, "nodes": nodes or "several"}, quoted(matches), variant="said")
    return trouble(launcher, "launcher")


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
    if not own and (slots := value(matches, "slots")):
        return Hit({"slots": slots}, quoted(matches), variant="slots", confidence=Confidence.LIKELY)
    return Hit({}, quoted(matches), variant="said", confidence=Confidence.LIKELY)


SLOW_SECONDS = 1.0  # a sound resolver needs milliseconds


@check()
def name_resolution_slow(network: NetworkFacts) -> Hit | None:
    """Names and addresses take their time: every client that connects to a TCPStore asks for the name of its address."""
    forward, backward = network.resolve_seconds, network.reverse_seconds
    slow = [
        (what, seconds)
        for what, seconds in ((f"the address of {network.hostname}", forward), ("the name of this host's own address", backward))
        if seconds is not None and seconds >= SLOW_SECONDS
    ]
    if not slow:
        return None
    what, seconds = max(slow, key=lambda one: one[1])
    evidence = tuple(Evidence("name resolution", f"{one}: {took:.1f} s") for one, took in slow)
    return Hit({"what": what, "seconds": f"{seconds:.1f}"}, evidence)


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


@check(sees_missing=("symptoms",))
def launch_local_rank_argument(symptoms: SymptomsFacts | Missing) -> Hit | None:
    """torch.distributed.launch passes an argument that the script does not know."""
    matches = said(symptoms, "launch-local-rank-argument")
    if not matches:
        return None
    if all(match.symptom == "local-rank-in-usage" for match in matches):  # argparse prints its usage above what it objects to
        return Hit({}, quoted(matches), confidence=Confidence.LIKELY)
    text = " ".join(match.text for match in matches)
    return Hit({}, quoted(matches), variant="underscore" if "--local_rank" in text and "--local-rank" not in text else None)


@check(sees_missing=("symptoms",))
def launch_fork_after_cuda(symptoms: SymptomsFacts | Missing) -> Hit | None:
    """A process was forked after CUDA had been initialised in its parent."""
    matches = said(symptoms, "launch-fork-after-cuda")
    if not matches:
        return None
    if not holding(matches, "forked subprocess"):  # error 3 alone: what a forked child meets, and hardly anything else
        return Hit({}, quoted(matches), variant="three", confidence=Confidence.LIKELY)
    return Hit({}, quoted(matches))


@check(sees_missing=("symptoms",))
def ddp_usage(symptoms: SymptomsFacts | Missing) -> Hit | None:
    """The program uses DistributedDataParallel in a way that it refuses. The environment is in order."""
    matches = said(symptoms, "ddp-usage")
    if not matches:
        return None
    text = " ".join(match.text for match in matches)
    if "device_ids" in text:
        return Hit({}, quoted(matches), variant="device")
    if "ollective" in text:
        return Hit({}, quoted(matches), variant="collectives")
    if "finished reduction" in text or "unused" in text:
        return Hit({}, quoted(matches), variant="unused")
    return Hit({}, quoted(matches))


CHECKS = (
    launch_env_incomplete,
    launch_env_conflict,
    launch_world_size,
    launch_port_in_use,
    launch_unreachable,
    launch_master_address,
    launch_slurm,
    name_resolution_slow,
    launch_variables_leaked,
    launch_local_rank_argument,
    launch_fork_after_cuda,
    ddp_usage,
)
