"""The rendezvous address and port, name resolution, and the mistakes that only an error text shows."""

from __future__ import annotations

from envcheck.checks.answer import trouble
from envcheck.checks.hardware import node_count, number
from envcheck.checks.text import holding, quoted, said, surplus, value
from envcheck.engine.rule import Confidence, Evidence, Hit, Severity, Unknown, check
from envcheck.facts.snapshot import LauncherFacts, LiveFacts, LiveStatus, Missing, NetworkFacts, SymptomsFacts


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
    values: dict[str, object] = {"port": port or "that of the rendezvous", "number": port, "owner": owner or "another process"}
    if matches:
        text = " ".join(match.text for match in matches)
        twice = "--local_rank" in text or "--local-rank" in text
        if all(match.symptom == "port-not-permitted" for match in matches):
            return Hit(values, quoted(matches), variant="permission")
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
    if not matches or surplus(matches):
        return None
    if len(shell := tuple(match for match in matches if match.symptom in ("ssh-failed", "ssh-of-a-launcher"))) == len(matches):
        host = value(shell, "host")
        return Hit({"host": host or "another node", "login": host}, quoted(shell), variant="ssh")
    if len(heads := tuple(match for match in matches if match.symptom == "ray-head-unreachable")) == len(matches):
        head = value(heads, "address")
        return Hit({"address": head or "the address that it was given", "head": head}, quoted(heads), variant="ray")
    address = value(matches, "address") or (facts.master_addr if facts else None)
    if nameless := tuple(match for match in matches if match.symptom == "name-not-resolved"):
        name = value(nameless, "address")
        return Hit({"address": repr(name) if name else "of the master"}, quoted(matches), variant="unresolved")
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
    matches = tuple(match for match in matches if match.symptom != "rendezvous-connection")  # it alone says nothing of the address
    if malformed := tuple(match for match in matches if match.symptom == "endpoint-malformed"):
        return Hit({"address": repr(value(malformed, "address") or "what was given")}, quoted(malformed), variant="malformed")
    if empty := tuple(match for match in matches if match.symptom == "master-address-empty"):
        host = value(empty, "host")
        return Hit({"host": host or "its first host", "login": host}, quoted(empty), variant="empty")
    if shared := tuple(match for match in matches if match.symptom == "nodes-of-one-address"):
        return Hit({"address": value(shared, "address") or "one address"}, quoted(shared), variant="shared")
    if matches:
        address = value(matches, "address") or (facts.master_addr if facts else None)
        foreign = all(match.symptom == "address-not-local" for match in matches)
        named = address or ("an address" if foreign else "this machine itself")
        return Hit({"address": named, "nodes": nodes or "several"}, quoted(matches), variant="foreign" if foreign else "said")
    return trouble(launcher, "launcher")


def _port(text: str) -> int | None:
    """As torch reads it (torch/distributed/rendezvous.py): blanks around a number and its sign are in order."""
    try:
        return int(text)
    except ValueError:
        return None


@check()
def launch_master_port(launcher: LauncherFacts) -> Hit | None:
    """MASTER_PORT that is no port: env:// ends with a ValueError, and port 0 is a free one that the other ranks do not learn."""
    raw = launcher.variables.get("MASTER_PORT", launcher.master_port)
    ranks = bool(launcher.variables.get("RANK") and launcher.variables.get("WORLD_SIZE"))
    if raw is None or (not raw and not ranks):
        return None  # exported empty, as batch scripts do before the ranks start
    port, world = _port(raw), number(launcher.variables.get("WORLD_SIZE")) or launcher.world_size or 0
    if port is not None and (0 < port < 1 << 16 or (port == 0 and world < 2)):
        return None
    variant = "zero" if port == 0 else None
    if port is None:
        variant = "empty" if not raw else "service" if raw.startswith(("tcp://", "udp://")) else "word"
    # without ranks it may be meant for a launcher that takes its port from elsewhere
    severity = None if ranks else Severity.WARNING
    return Hit({"value": repr(raw), "world": world}, (Evidence("environment", f"MASTER_PORT={raw}"),), variant=variant, severity=severity)


SLOW_SECONDS = 1.0  # a sound resolver needs milliseconds


def _waits_for_names(live: LiveFacts | Missing) -> bool:
    """Whether all that hung in the live check stood where torch asks for names: a launcher, or ranks that meet each other."""
    hung = [] if isinstance(live, Missing) else [arm for arm in live.arms if arm.status is LiveStatus.HANG]
    meeting = ("start", "store", "init")
    return bool(hung) and all(arm.part == "launchers" or all(rank.last_stage in meeting for rank in arm.ranks) for arm in hung)


@check(sees_missing=("live",))
def name_resolution_slow(network: NetworkFacts, live: LiveFacts | Missing) -> Hit | None:
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
    values: dict[str, object] = {"what": what, "seconds": f"{seconds:.1f}"}
    if _waits_for_names(live):
        return Hit(values, evidence, variant="hang", severity=Severity.ERROR)
    return Hit(values, evidence)


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
    if notebook := tuple(match for match in matches if match.symptom == "notebook-after-cuda"):
        return Hit({}, quoted(notebook), variant="notebook")
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
    launch_port_in_use,
    launch_unreachable,
    launch_master_address,
    launch_master_port,
    name_resolution_slow,
    launch_local_rank_argument,
    launch_fork_after_cuda,
    ddp_usage,
)
