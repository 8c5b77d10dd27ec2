"""The rendezvous address and port, name resolution, and the mistakes that only an error text shows."""

from __future__ import annotations

import re

from envcheck.checks import launch_sums
from envcheck.checks.hardware import node_count, number
from envcheck.checks.tasks_missing import own_name_on_each_node, standalone_on_nodes
from envcheck.checks.text import agreed, cite, doubt, first_of, foremost, of_symptom, of_variant, quoted, surplus, value
from envcheck.engine.rule import Answer, Evidence, Facts, Hit, Matches, Severity, check
from envcheck.facts.snapshot import LauncherFacts, LiveStatus, NetworkFacts

_SLOTS = re.compile(r"(?P<host>[\w.-]{1,80}):(?P<count>[1-9]\d?)")  # as mpirun -H has them
_HOST = re.compile(r"[\w.:%-]{1,253}")  # a name, an address of either family with its interface


def _loopback(address: str) -> bool:
    return address == "::1" or address.startswith("127.")


def _here(facts: Facts) -> bool:
    """Whether the master address is this machine, so that its port matters here."""
    name = (facts.launcher.master_addr or "localhost").strip()
    own = _own(facts.network)
    known = name in ("localhost", facts.network.hostname) or name in own
    return known or _loopback(name) or bool(set(facts.launcher.master_addr_resolves or ()) & own)


def _own(network: NetworkFacts) -> set[str]:
    return {one for interface in network.interfaces for one in interface.addresses} | set(network.addresses)


@check(needs="launcher", reads="launcher network symptoms")
def launch_port_in_use(facts: Facts, matches: Matches) -> Answer:
    launcher = facts.launcher
    owner = launcher.master_port_owner
    port = value(matches, "port") or launcher.master_port
    values: dict[str, object] = {"port": port or "that of the rendezvous", "number": port, "owner": owner or "another process"}
    values["free"] = launch_sums.next_port(port)
    if matches:
        by_hand = "self" if of_symptom(facts, "local-rank-on-command-line") else None if owner else "said"
        variant = foremost(matches, "none_left", "foreign", "windows", "told") or agreed(matches) or by_hand
        if variant == "said" and (own := launch_sums.port_taken_by_own(launcher, port, matches)):
            return own
        fixes = launch_sums.other_port(launcher, port) if variant in ("said", None) else ()
        return Hit(values, quoted(matches), fixes, variant=variant, confidence=doubt(matches))
    # Within a torchrun worker the agent's own store listens there; on other nodes than the master's the port does not matter.
    worker = any(name.startswith("TORCHELASTIC_") for name in launcher.variables)
    if owner is None or worker or not _here(facts) or (launcher.rank or 0) > 0:
        return None
    severity = Severity.WARNING if launcher.rank is None else None
    return Hit(values, (Evidence(f"listening on port {port}", owner),), severity=severity)


# What keeps a launcher from starting its part on another node, the nearest to a cure first.
_STARTERS = ("daemon", "host_key", "pdsh", "pdsh_variable")


@check(needs="launcher", reads="launcher symptoms")
def launch_unreachable(facts: Facts, matches: Matches) -> Answer:
    address = facts.launcher.master_addr
    if address and facts.launcher.master_addr_resolves == ():
        values = {"address": address, "error": (facts.launcher.master_addr_error or "no address").rstrip(".")}
        return Hit(values, (Evidence("name resolution", f"{address}: {values['error']}"), *quoted(matches)), variant="name")
    if not matches or surplus(matches):
        return None
    if wrong := _started_wrong(facts.launcher, matches):
        return wrong
    if all(match.symptom == "nccl-connect-failed" for match in matches):  # NCCL connects to its ranks, each at an address of its own
        peer = value(matches, "other") or value(matches, "peer") or value(matches, "third")
        if path := launch_sums.rendezvous_file(facts.launcher):
            return Hit({"address": peer or "an address", "file": path}, quoted(matches), variant="file")
        return Hit({"address": peer or "an address", "host": peer.partition("<")[0] if peer else None}, quoted(matches), variant="peer")
    known = ("run_id", "ray_short", "one_machine", "unresolved", "ssh_name", *_STARTERS, "nodes")
    variant = foremost(matches, *known) or agreed(matches) or ""
    told = of_variant(matches, variant) if variant else matches
    if variant == "hangs" and (path := launch_sums.rendezvous_file(facts.launcher)):
        return Hit({"file": path}, quoted(told), variant="meet_file")
    host, named = value(told, "host"), value(told, "address")
    unnamed = {"ray": "the address that it was given", "unresolved": "of the master"}.get(variant, address or "the master")
    shown = repr(named) if named and variant == "unresolved" else named or unnamed
    peer_of: dict[str, object] = {"address": shown, "host": host or "another node", "login": host or "NODE", "head": named}
    peer_of |= {"program": value(told, "program"), "id": value(told, "id")}
    if variant == "unresolved" and named and not _HOST.fullmatch(named):
        variant = "no_name"
    return Hit(peer_of, quoted(matches), variant=variant or None, confidence=doubt(matches))


def _started_wrong(launcher: LauncherFacts, matches: Matches) -> Hit | None:
    """What the launcher was told cannot work: --standalone for several nodes, or HOST:SLOTS, which this one takes for a name."""
    told = of_variant(matches, "ssh_name")
    slots = _SLOTS.fullmatch(value(told, "host") or "")
    if slots is None:
        return standalone_on_nodes(launcher, matches)
    each = ",".join([slots["host"]] * int(slots["count"]))
    return Hit({"host": slots[0], "slots": slots["count"], "each": each}, quoted(told), variant="ssh_slots")


@check(needs="launcher", reads="launcher symptoms")
def launch_master_address(facts: Facts, matches: Matches) -> Answer:
    telling = tuple(match for match in matches if match.symptom != "rendezvous-connection")  # it alone says nothing of the address
    waiting = (*matches, *facts.said("launch-unreachable"), *facts.said("launch-world-size"))
    if own := own_name_on_each_node(facts.launcher, waiting):
        return own
    return _address_of_one_machine(facts.launcher, matches) or (_address_said(facts.launcher, telling) if telling else None)


def _address_of_one_machine(launcher: LauncherFacts, matches: Matches) -> Hit | None:
    nodes, name = node_count(launcher) or 1, (launcher.master_addr or "").strip()
    if not launcher.master_addr or nodes < 2:
        return None
    resolved, literal = launcher.master_addr_resolves or (), name == "localhost" or _loopback(name)
    cases = {
        "literal": literal,
        # On the master itself too: it listens where the others cannot come, and gloo offers 127.0.1.1 to them.
        "default": resolved and all(_loopback(one) for one in resolved),
        "launch_node": name == launcher.variables.get("SLURM_LAUNCH_NODE_IPADDR"),
    }
    told = cite("name resolution", f"{name} → {', '.join(resolved)}" if cases["default"] and not literal else None)
    return first_of(cases, {"address": name, "nodes": nodes, "resolves": resolved}, (*told, *quoted(matches)))


def _address_said(launcher: LauncherFacts, matches: Matches) -> Hit:
    variant = foremost(matches, "malformed", "empty", "ray_node", "shared", "told", "unrecognised") or agreed(matches) or "said"
    told = of_variant(matches, variant) or matches
    host, named = value(told, "host"), value(told, "address") or (launcher.master_addr if variant in ("foreign", "said") else None)
    address = named or {"malformed": "what was given", "shared": "one address", "foreign": "an address"}.get(variant, "this machine itself")
    values = {"address": repr(address) if variant == "malformed" else address, "nodes": node_count(launcher) or "several"}
    return Hit(values | {"host": host or "its first host", "login": host}, quoted(told), variant=variant)


def _port(text: str) -> int | None:
    """As torch reads it (torch/distributed/rendezvous.py): blanks around a number and its sign are in order."""
    try:
        return int(text)
    except ValueError:
        return None


@check(needs="launcher", reads="launcher")
def launch_master_port(facts: Facts) -> Answer:
    """MASTER_PORT that is no port: env:// ends with a ValueError, and port 0 is a free one that the other ranks do not learn."""
    raw = facts.launcher.variables.get("MASTER_PORT", facts.launcher.master_port)
    ranks = bool(facts.launcher.variables.get("RANK") and facts.launcher.variables.get("WORLD_SIZE"))
    if raw is None or (not raw and not ranks):
        return None  # exported empty, as batch scripts do before the ranks start
    port, world = _port(raw), number(facts.launcher.variables.get("WORLD_SIZE")) or facts.launcher.world_size or 0
    if port is not None and (0 < port < 1 << 16 or (port == 0 and world < 2)):
        return None
    variant = "zero" if port == 0 else None
    if port is None:
        variant = "empty" if not raw else "service" if raw.startswith(("tcp://", "udp://")) else "word"
    # without ranks it may be meant for a launcher that takes its port from elsewhere
    severity = None if ranks else Severity.WARNING
    return Hit({"value": repr(raw), "world": world}, (Evidence("environment", f"MASTER_PORT={raw}"),), variant=variant, severity=severity)


@check(needs="symptoms", reads="launcher packages symptoms")
def launch_fork_after_cuda(facts: Facts, matches: Matches) -> Answer:
    vllm = facts.packages.version("vllm") or any(one.launcher == "vllm" for one in facts.launcher.commands)
    by_facts = "vllm" if vllm else "set" if facts.launcher.start_method == "spawn" else None
    variant = foremost(matches, "notebook") or agreed(matches) or by_facts
    return Hit({}, quoted(matches), variant=variant, confidence=doubt(matches)) if matches else None


SLOW_SECONDS = 1.0  # a sound resolver needs milliseconds


@check(needs="network", reads="network launcher live")
def host_name_unresolved(facts: Facts) -> Answer:
    network, launcher = facts.network, facts.launcher
    own = _own(network)
    if network.localhost is not None and not any(_loopback(one) or one in own for one in network.localhost):
        where = ", ".join(network.localhost) or "no name that is known"
        return Hit({"where": where}, cite("name resolution", f"localhost: {where}"), variant="localhost")
    # A rank that torchrun has started was given an address that serves; MASTER_ADDR with this name is launch_unreachable's to tell.
    told = launcher.launcher == "torchrun" or (launcher.master_addr == network.hostname and launcher.master_addr_resolves == ())
    if network.hostname is None or network.resolve_error == "not recorded" or told:
        return None
    name, addresses, error = network.hostname, network.addresses, network.resolve_error
    if network.full_name and network.full_name_addresses is not None:  # the name that its address has
        name, addresses, error = network.full_name, network.full_name_addresses, "a name with no address"
    values = {"name": name, "where": ", ".join(addresses), "seconds": f"{network.resolve_seconds or 0:.1f}"}
    if addresses:
        held = {one.partition("%")[0] for interface in network.interfaces for one in interface.addresses}
        if not held or any(_loopback(one) or one.partition("%")[0] in held for one in addresses):
            return None
        return Hit(values, cite("name resolution", f"{name}: {values['where']}"), variant="elsewhere")
    if error is None:
        return None
    silent = (network.resolve_seconds or 0) >= SLOW_SECONDS
    asked = any(arm.part == "launchers" for arm in facts.live.arms)
    values["error"] = error.rstrip(".")
    evidence = cite("name resolution", f"{name}: {values['error']}")
    return Hit(values, evidence, variant="asked" if asked else "silent" if silent else None)


@check(needs="network", reads="network live")
def name_resolution_slow(facts: Facts) -> Answer:
    network = facts.network
    asked = {f"the address of {network.hostname}": network.resolve_seconds, "the name of this host's own address": network.reverse_seconds}
    slow = [(what, seconds) for what, seconds in asked.items() if seconds is not None and seconds >= SLOW_SECONDS]
    if not slow:
        return None
    what, seconds = max(slow, key=lambda one: one[1])
    evidence = cite("name resolution", *(f"{one}: {took:.1f} s" for one, took in slow))
    # All that hung in the live check stood where torch asks for names: a launcher, or ranks that meet each other.
    hung = [arm for arm in facts.live.arms if arm.status is LiveStatus.HANG]
    meeting = ("start", "store", "init")
    waits = bool(hung) and all(arm.part == "launchers" or all(rank.last_stage in meeting for rank in arm.ranks) for arm in hung)
    return Hit({"what": what, "seconds": f"{seconds:.1f}"}, evidence, variant="hang" if waits else None)
