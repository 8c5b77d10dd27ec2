"""NCCL and gloo: interfaces, transports, and variables that were left behind."""

from __future__ import annotations

import re

from envcheck.checks.answer import without_nccl
from envcheck.checks.gpu import size as in_units
from envcheck.checks.hardware import discrete_amd, nccl_proved, node_count, number, nvidia
from envcheck.checks.ladder import BAD, SOCKET, Bisection, bisect_transports
from envcheck.checks.own_command import mpi_networks, tried_with
from envcheck.checks.passed_on import pass_on
from envcheck.checks.queue_pair import queue_pair_refused
from envcheck.checks.text import agreed, doubt, environment, first_of, foremost, of_variant, quoted, value
from envcheck.engine.intents import SetEnv
from envcheck.engine.rule import Answer, Confidence, Evidence, Facts, Hit, Matches, Severity, Unknown, check
from envcheck.facts.interfaces import nccl_chosen
from envcheck.facts.snapshot import GpusFacts, Interface, LauncherFacts, LiveFacts, LiveStatus, NetworkFacts
from envcheck.tables.versions import meets

_WARNING, _LIKELY = Severity.WARNING, Confidence.LIKELY


def _several_nodes(launcher: LauncherFacts) -> bool:
    return (node_count(launcher) or 1) > 1


def _suggested(interfaces: tuple[Interface, ...]) -> str | None:
    """The interface to name instead, where there is only one that can be meant."""
    virtual = ("docker", "veth", "br-", "virbr", "cni", "flannel", "cali", "tun", "tap")
    usable = [one for one in interfaces if not one.loopback and one.up is not False and one.addresses]
    real = [one.name for one in usable if not one.name.startswith(virtual)]
    return real[0] if len(real) == 1 else None


@check(needs="network", reads="system gpus rocm torch backends network launcher live symptoms")
def nccl_interface(facts: Facts, told: Matches) -> Answer:
    # "family": the address was never set. Either NCCL_SOCKET_IFNAME names no interface (NCCL 2.27), or the peer is another NCCL.
    family, matches = of_variant(told, "family"), tuple(match for match in told if match.variant != "family")
    if mpi := of_variant(told, "mpi"):
        values = {"peer": value(mpi, "peer"), "reason": (value(mpi, "reason") or "no connection").lower()}
        return Hit(values, quoted(mpi), mpi_networks(facts.launcher), "mpi")
    if variant := foremost(told, "names", "container", "link_local"):
        hosts = of_variant(told, variant)
        return Hit({"names": value(hosts, "names"), "other": value(hosts, "other")}, quoted(hosts), variant=variant)
    spec = facts.network.variables.get("NCCL_SOCKET_IFNAME") or value(told, "interface")
    unused = not matches and without_nccl(facts)
    if not unused and not nccl_proved(facts.live) and (selected := _selected_interface(facts, spec, matches)):
        return selected
    if found := _passed_without(facts.live, "interface"):
        values = {"interface": found[0].removeprefix(SOCKET), "spec": spec or "not set"}
        return Hit(values, (*found[1], *quoted(matches)), variant="ladder")
    if family and spec:
        return Hit({"spec": spec}, quoted(family), variant="family")
    # These come from a machine that answers: the address may be another's, or the rank there has ended.
    answered = all(match.values.get("reason") in ("Connection refused", "Software caused connection abort") for match in matches)
    guess = _LIKELY if answered else None
    return (
        Hit({"spec": spec}, quoted(matches), variant=agreed(matches) or ("said" if spec else "unset"), confidence=guess or doubt(matches))
        if matches
        else None
    )


def _selected_interface(facts: Facts, spec: str | None, matches: Matches) -> Hit | None:
    """None of those that are there, one that is down, or loopback with several nodes."""
    known = {one.name: one for one in facts.network.interfaces}
    if not spec or not known:
        return None
    names, better = nccl_chosen(spec, known), _suggested(facts.network.interfaces)
    chosen = [known[name] for name in names]
    cases = {
        "default": not chosen,
        "down": not any(one.up is not False and one.addresses for one in chosen),
        "loopback": _several_nodes(facts.launcher) and all(one.loopback for one in chosen),
    }
    note = "the interface that reaches the other nodes" if better else "NCCL then chooses by itself"
    values = {"spec": spec, "there": list(known), "suggested": better, "chosen": names}
    return first_of(cases, values, quoted(matches), (SetEnv("NCCL_SOCKET_IFNAME", better, note),))


@check(needs="network", reads="network launcher live symptoms")
def gloo_interface(facts: Facts, matches: Matches) -> Answer:
    network, several, better = facts.network, _several_nodes(facts.launcher), _suggested(facts.network.interfaces)
    spec, known = network.variables.get("GLOO_SOCKET_IFNAME"), [one.name for one in network.interfaces]
    note = "the interface that reaches the other nodes" if better else "gloo then takes the address of the host name"
    fix = SetEnv("GLOO_SOCKET_IFNAME", better, note)
    values: dict[str, object] = {"spec": spec, "there": known, "suggested": better}
    if spec and not _gloo_proved(facts.live):
        absent = [one.strip() for one in spec.split(",") if known and one.strip() not in known]
        if wrong := first_of({"syntax": spec[0] in "^=", "default": absent}, values | {"absent": absent}, quoted(matches), (fix,)):
            return wrong
    if facts.live.status in BAD and (loopback := _no_loopback(network, matches)):
        return loopback
    fixes = (fix,) if better else ()
    if long := of_variant(matches, "long"):
        return Hit({"host": network.hostname or "not stated"}, quoted(long), fixes, "long")
    if matches and (transport := network.variables.get("GLOO_DEVICE_TRANSPORT")):
        return Hit(values | {"transport": transport}, quoted(matches), variant="transport")
    if matches:
        alone = not several and agreed(matches) == "loopback"  # on one machine loopback serves
        given = value(matches, "interface")
        values["given"] = f"{given} " if given else ""
        return Hit(values, quoted(matches), fixes, "loopback" if alone else foremost(matches, "nowhere") or "said")
    if several and not spec and network.addresses and all(one.startswith("127.") or one == "::1" for one in network.addresses):
        return Hit(values | {"host": network.hostname, "addresses": network.addresses}, (), fixes, "hostname")
    return None


def _no_loopback(network: NetworkFacts, matches: Matches) -> Hit | None:
    own = [one for one in network.interfaces if one.loopback]
    if off := [one.name for one in own if one.up is False]:
        return Hit({"off": off}, quoted(matches), variant="off")
    bare = [one.name for one in own if not any(address.startswith("127.") for address in one.addresses)]
    # gloo says so too: the addresses were not just unread
    return Hit({"off": bare}, quoted(matches), variant="bare") if value(matches, "interface") in bare else None


def _gloo_proved(live: LiveFacts) -> bool:
    """gloo ran with the environment of the user; the loopback arm sets the interface itself and proves nothing here."""
    return any(arm.backend == "gloo" and "loopback" not in arm.name and arm.status is LiveStatus.PASS for arm in live.arms)


@check(needs="network", reads="system gpus rocm torch backends network limits container symptoms live")
def nccl_infiniband(facts: Facts, matches: Matches) -> Answer:
    spec = facts.network.variables.get("NCCL_IB_HCA", "")
    devices = sorted({port.device for port in facts.network.infiniband})
    unused = not matches and without_nccl(facts)
    names = re.sub(r":[^,]*", "", spec)  # "mlx5_0:1" names a port
    if spec and devices and not unused and not spec.startswith("^") and not nccl_chosen(names, devices):
        return Hit({"spec": spec, "there": devices}, quoted(matches), variant="hca")
    if matches:
        return _infiniband_said(facts, matches)
    found = _passed_without(facts.live, "ib")
    return Hit({"arm": found[0]}, found[1], variant="ladder") if found else None


def _infiniband_said(facts: Facts, matches: Matches) -> Hit:
    if refused := queue_pair_refused(matches):
        return refused
    if (guess := agreed(matches)) in ("plugin", "hang"):  # NCCL may go on with another protocol of the plugin, or without
        return Hit({}, quoted(matches), variant=guess)
    if missing := of_variant(matches, "net"):
        name = value(missing, "network") or facts.network.variables.get("NCCL_NET") or "that it was told to use"
        return Hit({"network": name}, quoted(missing), variant="net")
    locked = facts.limits.memlock_soft_bytes if facts.limits.memlock_read else None
    values = {"locked": "not known" if locked is None else f"{locked // 1024} KiB"}
    values["inside"] = "in this container " if facts.container.runtime or facts.container.kubernetes else ""
    return Hit(values, quoted(matches), variant=foremost(matches, "memlock", "gid", "device", "ofi", "mpi"))


def _passed_without(live: LiveFacts, culprit: str) -> tuple[str, tuple[Evidence, ...]] | None:
    """The arm that passed, with what all arms said, if the search for the transport ended with this culprit."""
    found = bisect_transports(live)
    return (found.passed.name, _tried(found)) if found and found.culprit == culprit and found.passed else None


def _tried(found: Bisection) -> tuple[Evidence, ...]:
    """The arms that were needed to say so."""
    arms = (found.plain, *found.tried)
    return tuple(Evidence(f"trial {arm.name}", f"{arm.status.value}: {arm.reason}".rstrip(": ")[:400]) for arm in arms[:8])


@check(needs="gpus system", reads="live gpus rocm driver system launcher symptoms")
def nccl_p2p_blocked(facts: Facts, matches: Matches) -> Answer:
    if found := _passed_without(facts.live, "p2p"):
        return Hit({"arm": found[0]}, (*found[1], *quoted(matches)))
    if not matches:
        return None if nccl_proved(facts.live, 2) else _p2p_at_risk(facts)
    variant = foremost(matches, "accelerate", "peers", "faults", "vllm") or agreed(matches) or "said"
    guess = doubt(matches)  # RCCL looks at the command line only
    told = quoted(of_variant(matches, variant) or matches)
    fixes = (
        tried_with(facts.launcher, "NCCL_P2P_DISABLE=1 NCCL_DEBUG=INFO", "The same command once without them.") if variant == "hang" else ()
    )
    return Hit({"series": value(matches, "series") or "4000"}, told, fixes, variant, _WARNING if guess else None, guess)


def _p2p_at_risk(facts: Facts) -> Hit | None:
    """Boards or a machine on which peer-to-peer transfers are known to fail, where no run of NCCL has shown the contrary."""
    driver, system = facts.driver.version, facts.system
    cards, radeons = nvidia(facts.gpus), discrete_amd(facts.rocm)
    if len(radeons) > 1 and system.iommu and not system.virtualization:
        return Hit({"what": "An IOMMU translates addresses", "count": len(radeons)}, variant="amd")
    if len(cards) < 2:
        return None
    geforce40 = [gpu for gpu in cards if re.search(r"GeForce RTX 40\d0", gpu.name or "")]
    # These drivers offer P2P on GeForce 40xx, which has none. NVIDIA/nccl-tests#117
    offered = meets(driver, ">=520,<525.105") or meets(driver, ">=530,<530.30")
    if len(geforce40) > 1 and system.os in (None, "linux") and offered:
        return Hit({"gpu": geforce40[0].name, "driver": driver}, variant="geforce")
    if (system.iommu or system.acs) and not _nvlink(facts.gpus) and not system.virtualization:
        what = "PCIe ACS redirects peer-to-peer traffic" if system.acs else "An IOMMU translates addresses"
        return Hit({"what": what, "count": len(cards)}, variant="risk")
    return None


def _nvlink(gpus: GpusFacts) -> bool:
    """NVLink by `nvidia-smi topo -m` ("NV18"), else by names of boards that always have it."""
    return bool(re.search(r"\bNV\d+\b", gpus.topology or "")) or any(re.search(r"SXM|HBM3|NVL", gpu.name or "") for gpu in gpus.devices)


_SEGMENT_BYTES = 9637888  # of one channel of a pair, as NCCL 2.2x prints it

# What else an "unhandled system error" of NCCL comes from; each prints a line of its own.
_OTHER_CAUSES = (
    "nccl-interface",
    "nccl-infiniband",
    "memlock-low",
    "launch-unreachable",
    "nccl-version-drift",
    "nccl-duplicate-gpu",
)


@check(needs="live", reads="live limits launcher gpus symptoms")
def nccl_shm_small(facts: Facts, told: Matches) -> Answer:
    matches = tuple(match for match in told if match.variant != "guess")
    size = "of unknown size" if facts.limits.shm_bytes is None else in_units(facts.limits.shm_bytes)
    if found := _passed_without(facts.live, "shm"):
        return Hit({"size": size, "arm": found[0]}, (*found[1], *quoted(matches)), variant="ladder")
    if matches:
        needed = in_units(number(value(matches, "size")) or _SEGMENT_BYTES)
        values = {"size": size, "needed": needed, "error": value(matches, "error") or "an error"}
        return Hit(values, quoted(matches), variant=foremost(matches, "refused") or agreed(matches))
    # A system call of NCCL failed in a container, on one machine: what containers lack for that is shared memory.
    alone = told and not any(facts.said(other) for other in _OTHER_CAUSES)
    if alone and len(nvidia(facts.gpus)) > 1 and not _several_nodes(facts.launcher) and (facts.limits.shm_bytes or 0) <= 1 << 30:
        return Hit({"size": size}, quoted(told), variant="guess")
    return None


@check(needs="launcher", reads="launcher devices visibility torch symptoms")
def nccl_duplicate_gpu(facts: Facts, matches: Matches) -> Answer:
    count = facts.devices.count if facts.devices.available else None
    local = next((one.local_world_size for one in facts.launcher.readings if one.launcher == "torchrun" and one.complete), None)
    more = bool(local and count and local > count)
    values: dict[str, object] = {"local": local, "count": count, "ranks": value(matches, "ranks") or "two ranks"}
    if counted := of_variant(matches, "vllm"):
        values |= {"local": value(counted, "local") or "more", "count": value(counted, "gpus") or "fewer"}
        # with several nodes the framework may have counted the ranks of all of them
        return Hit(values, quoted(counted), (), "vllm", _WARNING if _several_nodes(facts.launcher) else None)
    if matches:
        return Hit(values, quoted(matches), variant="more" if more else None)
    # Launchers that show each task its own GPU leave one device visible and are in order.
    shown = facts.visibility.cuda_visible_devices
    own = count == 1 and shown is not None and "," not in shown
    return Hit(values, (), (), "more", _WARNING, _LIKELY) if more and facts.torch.cuda and not own else None


@check(needs="torch", reads="torch network symptoms")
def nccl_version_drift(facts: Facts, told: Matches) -> Answer:
    if matches := tuple(match for match in told if match.variant != "family"):
        return Hit({}, quoted(matches))
    if told and not facts.network.variables.get("NCCL_SOCKET_IFNAME"):
        return Hit({}, quoted(told), variant="family")
    copies = sorted({one for one in facts.torch.libraries if re.search(r"/libnccl\.so", one)})
    evidence = tuple(Evidence("libraries loaded", one) for one in copies[:4])
    return Hit({"copies": copies}, evidence, variant="copies") if len(copies) > 1 else None


@check(needs="live", reads="live")
def nccl_no_transport(facts: Facts) -> Answer:
    found = bisect_transports(facts.live)
    if not found or found.culprit != "nccl":
        return None
    return Hit({"count": len(found.tried), "reason": (found.plain.reason or "no reason given").rstrip(".")[:300]}, _tried(found))


@check(needs="live", reads="live")
def nccl_diagnostics_failed(facts: Facts) -> Answer:
    """NCCL's own diagnostics (from 2.31 on), which print their result and go on whatever it is."""
    found = facts.live.nccl_diagnostics
    if found is None:
        return None
    evidence = tuple(Evidence("NCCL DIAG", line) for line in (*found.edges, *found.outliers, *found.troubles)[:8])
    if found.tested is not None and found.passed is not None and (found.edges or found.passed < found.tested):
        failed = max(found.tested - found.passed, 1)
        return Hit({"failed": failed, "tested": found.tested, "edges": found.edges[:4] or ("not named",)}, evidence)
    if found.edges:
        return Hit({"edges": found.edges[:4]}, evidence, variant="edges")
    if found.outliers:
        return Hit({"outliers": found.outliers[:4]}, evidence, variant="network")
    if found.tested is None:
        return Unknown("NCCL's diagnostics ran and tested nothing: no pair of GPUs would use peer-to-peer transfers")
    return Unknown(f"NCCL's diagnostics could not be completed: {found.troubles[0]}") if found.troubles else None


@check(needs="network", reads="system gpus rocm torch backends network")
def flight_recorder_unreliable(facts: Facts) -> Answer:
    seen = facts.network.variables
    on = [name for name in ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE") if seen.get(name, "0") not in ("", "0")]
    mode = next((name for name in ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING") if name in seen), None)
    if not on or mode is None or seen[mode] not in ("0", "1", "2") or without_nccl(facts):
        return None
    return Hit({"recorder": on[0], "name": mode, "mode": seen[mode]}, environment(seen, [mode]))


# What the recorder reads where a process group is made; anything else ends the process there without a word (tried with torch 2.13).
_NUMBER, _SWITCH = re.compile(r" {0,9}[+-]?\d"), re.compile(r"(?:[01]|y|yes|t|true|n|no|f|false)$", re.IGNORECASE)
_OF_RECORDER = {
    "TORCH_FR_BUFFER_SIZE": _NUMBER,
    "TORCH_NCCL_TRACE_BUFFER_SIZE": _NUMBER,
    "TORCH_FR_CPP_STACK": _SWITCH,
    "TORCH_NCCL_TRACE_CPP_STACK": _SWITCH,
}


@check(needs="symptoms", reads="live network symptoms")
def variable_refused(facts: Facts, matches: Matches) -> Answer:
    seen = facts.network.variables
    died = any(rank.died_of == "SIGABRT" and rank.last_stage == "init" for rank in facts.live.ranks)
    wrong = [name for name, taken in _OF_RECORDER.items() if name in seen and not taken.match(seen[name])]
    if not matches and died and wrong:
        return Hit({"name": wrong[0], "value": seen[wrong[0]]}, environment(seen, wrong), variant="aborted")
    return pass_on(matches)


# Variable → what it costs when it is set, or set to 0
_LEFTOVERS = {
    "NCCL_P2P_DISABLE": "GPUs do not copy to each other directly",
    "NCCL_SHM_DISABLE": "ranks of one machine do not share memory",
    "NCCL_IB_DISABLE": "InfiniBand and RoCE are not used",
    "NCCL_NVLS_DISABLE": "NVLink SHARP is not used",
    "CUDA_LAUNCH_BLOCKING": "the program waits for every kernel",
}
_OFF_AT_ZERO = {
    "NCCL_NVLS_ENABLE": "NVLink SHARP is not used",
    "NCCL_CUMEM_ENABLE": "NCCL allocates the old way",
    "NCCL_NET_GDR_LEVEL": "GPUDirect RDMA is not used",
}


@check(needs="network", reads="system gpus rocm torch backends network python symptoms")
def nccl_debug_leftover(facts: Facts, blamed: Matches) -> Answer:
    network = facts.network
    if name := value(blamed, "name"):
        return Hit({"name": name}, quoted(blamed), variant="forced")
    seen = {**network.nccl_conf, **network.variables, "CUDA_LAUNCH_BLOCKING": facts.python.variables.get("CUDA_LAUNCH_BLOCKING", "")}
    found = {name: cost for name, cost in _LEFTOVERS.items() if seen.get(name, "0") not in ("0", "")}
    found |= {name: cost for name, cost in _OFF_AT_ZERO.items() if seen.get(name) in ("0", "LOC")}
    if seen.get("NCCL_DEBUG", "").upper() == "TRACE":
        found["NCCL_DEBUG"] = "every call is logged"
    if not found or without_nccl(facts):
        return None
    fabric = any((port.state or "").upper().endswith("ACTIVE") for port in network.infiniband)
    costly = {
        "CUDA_LAUNCH_BLOCKING": True,
        "NCCL_P2P_DISABLE": len(nvidia(facts.gpus)) > 1 and _nvlink(facts.gpus),
        "NCCL_IB_DISABLE": fabric,
    }
    set_here = [name for name in found if name in network.variables or name == "CUDA_LAUNCH_BLOCKING"]
    where = {name: "environment" if name in set_here else "nccl.conf" for name in found}
    evidence = tuple(Evidence(where[name], f"{name}={seen[name]}: {cost}") for name, cost in found.items())
    listed = "; ".join(f"{name}={seen[name]} ({cost})" for name, cost in found.items())
    severity = _WARNING if any(costly.get(name) for name in found) else None
    return Hit({"listed": listed, "names": list(found)}, evidence, tuple(SetEnv(name, None) for name in set_here), severity=severity)
