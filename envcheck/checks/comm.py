"""NCCL and gloo: interfaces, transports, and variables that were left behind."""

from __future__ import annotations

import re

from envcheck.checks.answer import trouble
from envcheck.checks.gpu import size as in_units
from envcheck.checks.hardware import discrete_amd, nccl_proved, node_count, number, nvidia, variables
from envcheck.checks.ladder import SOCKET, Climb, climb
from envcheck.checks.text import holding, quoted, said, value
from envcheck.engine.intents import SetEnv
from envcheck.engine.rule import Confidence, Evidence, Hit, Severity, Unknown, check
from envcheck.facts.snapshot import (
    Arm,
    ContainerFacts,
    DevicesFacts,
    DriverFacts,
    GpusFacts,
    Interface,
    LauncherFacts,
    LimitsFacts,
    LiveFacts,
    LiveStatus,
    Missing,
    NetworkFacts,
    PythonFacts,
    RocmFacts,
    SymptomsFacts,
    SystemFacts,
    TextEvidence,
    TorchFacts,
    VisibilityFacts,
)
from envcheck.tables.versions import older


def _chosen(spec: str, interfaces: tuple[Interface, ...]) -> list[Interface]:
    """What NCCL makes of NCCL_SOCKET_IFNAME: prefixes, `=` exact names, `^` all but these.

    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-socket-ifname
    """
    exclude = spec.startswith("^")
    rest = spec[1:] if exclude else spec
    exact = rest.startswith("=")
    names = [one.strip() for one in rest.removeprefix("=").split(",") if one.strip()]
    hit = [one for one in interfaces if any(one.name == name if exact else one.name.startswith(name) for name in names)]
    return [one for one in interfaces if one not in hit] if exclude else hit


def _suggested(interfaces: tuple[Interface, ...]) -> str | None:
    """The interface to name instead, where there is only one that can be meant."""
    virtual = ("docker", "veth", "br-", "virbr", "cni", "flannel", "cali", "tun", "tap")
    usable = [one for one in interfaces if not one.loopback and one.up is not False and one.addresses]
    real = [one.name for one in usable if not one.name.startswith(virtual)]
    return real[0] if len(real) == 1 else None


# ncclSocketInit: "connecting to address  with family 59936 is neither AF_INET(2) nor AF_INET6(10)": the address was never set.
# Either NCCL_SOCKET_IFNAME names no interface (NCCL 2.27), or the peer speaks another NCCL's bootstrap.
def _family(symptoms: SymptomsFacts | Missing) -> tuple[TextEvidence, ...]:
    both = (*said(symptoms, "nccl-interface"), *said(symptoms, "nccl-version-drift"))
    return tuple(match for match in both if "is neither AF_INET" in match.text)


@check(sees_missing=("network", "launcher", "live", "symptoms"))
def nccl_interface(
    network: NetworkFacts | Missing, launcher: LauncherFacts | Missing, live: LiveFacts | Missing, symptoms: SymptomsFacts | Missing
) -> Hit | Unknown | None:
    """NCCL_SOCKET_IFNAME selects no interface, or NCCL took one that the peers cannot reach."""
    family = _family(symptoms)
    matches = tuple(match for match in said(symptoms, "nccl-interface") if match not in family)
    name = "NCCL_SOCKET_IFNAME"
    spec = variables(network).get(name) or value((*matches, *family), "interface")
    facts = None if isinstance(network, Missing) else network
    known = facts.interfaces if facts else ()
    usable = tuple(one for one in known if one.up is not False and one.addresses)
    if spec and known and not nccl_proved(live):
        chosen = _chosen(spec, known)
        better = _suggested(known)
        values: dict[str, object] = {"spec": spec, "there": [one.name for one in known], "suggested": better}
        fix = SetEnv(name, better, "the interface that reaches the other nodes" if better else "NCCL then chooses by itself")
        if not chosen:
            return Hit(values, quoted(matches), (fix,))
        if not [one for one in chosen if one in usable]:
            return Hit(values | {"chosen": [one.name for one in chosen]}, quoted(matches), (fix,), variant="down")
        if all(one.loopback for one in chosen) and (node_count(launcher) or 1) > 1:
            return Hit(values | {"chosen": [one.name for one in chosen]}, quoted(matches), (fix,), variant="loopback")
    if rung := _rung(live, "interface"):
        interface = rung[0].name.removeprefix(SOCKET)
        takes = SetEnv(name, f"={interface}", "over sockets it passed with this one; the other transports had been switched off too")
        return Hit({"interface": interface, "spec": spec or "not set"}, (*rung[1], *quoted(matches)), (takes,), variant="ladder")
    unset = SetEnv(name, None, "or name an interface that exists on every node")
    if family and spec:
        return Hit({"spec": spec}, quoted(family), (unset,), variant="family")
    if not matches:
        return trouble(network, "network")
    # "refused" and "abort" come from a machine that answers: the address may be another's, or the rank there has ended.
    answered = all(re.search(r"Connection refused|connection abort", match.text) for match in matches)
    sure = Confidence.LIKELY if answered else None
    if spec:
        return Hit({"spec": spec}, quoted(matches), (unset,), variant="said", confidence=sure)
    return Hit({}, quoted(matches), variant="unset", confidence=sure)


@check(sees_missing=("network", "launcher", "live", "symptoms"))
def gloo_interface(
    network: NetworkFacts | Missing, launcher: LauncherFacts | Missing, live: LiveFacts | Missing, symptoms: SymptomsFacts | Missing
) -> Hit | Unknown | None:
    """GLOO_SOCKET_IFNAME names no interface, or gloo falls back to loopback with several nodes."""
    matches = said(symptoms, "gloo-interface")
    name = "GLOO_SOCKET_IFNAME"
    facts = None if isinstance(network, Missing) else network
    spec = variables(network).get(name)
    known = facts.interfaces if facts else ()
    better = _suggested(known)
    fix = SetEnv(name, better, "the interface that reaches the other nodes" if better else "gloo then takes the address of the host name")
    values: dict[str, object] = {"spec": spec, "there": [one.name for one in known], "suggested": better}
    proved = _gloo_proved(live)
    if spec and not proved:
        if spec[0] in "^=":
            return Hit(values, quoted(matches), (fix,), variant="syntax")
        absent = [one.strip() for one in spec.split(",") if known and one.strip() not in [two.name for two in known]]
        if absent:
            return Hit(values | {"absent": absent}, quoted(matches), (fix,))
    several = (node_count(launcher) or 1) > 1
    off = [one.name for one in known if one.loopback and one.up is False]
    if off and not isinstance(live, Missing) and live.status in (LiveStatus.FAIL, LiveStatus.HANG):
        return Hit(values | {"off": off}, quoted(matches), variant="off")
    if matches:
        ways = (fix,) if better else ()
        if len(holding(matches, "Using the loopback address")) == len(matches) and not several:  # on one machine loopback serves
            return Hit(values, quoted(matches), ways, variant="loopback", severity=Severity.WARNING, confidence=Confidence.LIKELY)
        if nowhere := holding(matches, "can't be empty", "unsupported gloo device", "Unable to find address", "Unable to find interface"):
            given = value(nowhere, "interface")
            values |= {"given": f"{given} " if given else ""}
            return Hit(values, quoted(matches), ways, variant="nowhere")
        return Hit(values, quoted(matches), ways, variant="said")
    if facts and several and not spec and facts.addresses and all(one.startswith("127.") or one == "::1" for one in facts.addresses):
        values |= {"host": facts.hostname, "addresses": facts.addresses}
        return Hit(values, fixes=(fix,) if better else (), variant="hostname", severity=Severity.WARNING, confidence=Confidence.LIKELY)
    return trouble(network, "network")


def _gloo_proved(live: LiveFacts | Missing) -> bool:
    """gloo ran with the environment of the user; the loopback arm sets the interface itself and proves nothing here."""
    if isinstance(live, Missing):
        return False
    return any(arm.backend == "gloo" and "loopback" not in arm.name and arm.status is LiveStatus.PASS for arm in live.arms)


@check(sees_missing=("network", "symptoms", "limits", "container", "live"))
def nccl_infiniband(
    network: NetworkFacts | Missing,
    limits: LimitsFacts | Missing,
    container: ContainerFacts | Missing,
    symptoms: SymptomsFacts | Missing,
    live: LiveFacts | Missing,
) -> Hit | None:
    """InfiniBand or RoCE that NCCL is told to use, or tries to use, and cannot."""
    matches = said(symptoms, "nccl-infiniband")
    facts = None if isinstance(network, Missing) else network
    spec = variables(network).get("NCCL_IB_HCA")
    devices = sorted({port.device for port in facts.infiniband}) if facts else []
    if spec and devices and not spec.startswith("^"):
        wanted = [one.strip().partition(":")[0] for one in spec.removeprefix("=").split(",") if one.strip()]
        exact = spec.startswith("=")
        if not any(one == name if exact else one.startswith(name) for one in devices for name in wanted):
            fix = SetEnv("NCCL_IB_HCA", None, "NCCL then takes every active port")
            return Hit({"spec": spec, "there": devices}, quoted(matches), (fix,), variant="hca")
    if not matches and (rung := _rung(live, "ib")):
        cost = "a workaround: traffic between nodes goes over sockets, at a fraction of the speed of InfiniBand"
        off = (SetEnv("NCCL_IB_DISABLE", "1", cost), SetEnv("NCCL_NET", "Socket", "and past a network plugin, if there is one"))
        return Hit({"arm": rung[0].name}, rung[1], off, variant="ladder")
    if not matches:
        return None
    text = " ".join(match.text for match in matches)
    if all(match.symptom == "nccl-ofi-complains" for match in matches):  # NCCL may go on with another protocol of the plugin, or without
        return Hit({}, quoted(matches), variant="plugin", severity=Severity.WARNING, confidence=Confidence.LIKELY)
    if missing := tuple(match for match in matches if match.symptom == "nccl-net-missing"):
        network_name = value(missing, "network") or variables(network).get("NCCL_NET") or "that it was told to use"
        return Hit({"network": network_name}, quoted(missing), (SetEnv("NCCL_NET", None, "NCCL then chooses"),), variant="net")
    locked = None if isinstance(limits, Missing) or not limits.memlock_read else limits.memlock_soft_bytes
    inside = "in this container " if not isinstance(container, Missing) else ""
    values = {"locked": f"{locked // 1024} KiB" if locked is not None else "not known", "inside": inside}
    if re.search(r"reg_mr|create_cq|create_qp|Cannot allocate memory|max locked memory", text):
        return Hit(values, quoted(matches), variant="memlock")
    if re.search(r"error 12|RETRY_EXC|GID|gid", text):
        return Hit(values, quoted(matches), variant="gid")
    if re.search(r"open_device|Unable to open|No device found|No such device|modify_qp", text):
        return Hit(values, quoted(matches), variant="device")
    return Hit(values, quoted(matches))


def _rung(live: LiveFacts | Missing, culprit: str) -> tuple[Arm, tuple[Evidence, ...]] | None:
    """The arm that passed, with what all arms said, if the ladder ended with this culprit."""
    found = climb(live)
    return (found.passed, _tried(found)) if found and found.culprit == culprit and found.passed else None


def _tried(found: Climb) -> tuple[Evidence, ...]:
    """The arms that were needed to say so."""
    arms = (found.plain, *found.tried)
    return tuple(Evidence(f"arm {arm.name}", f"{arm.status.value}: {arm.reason}".rstrip(": ")[:400]) for arm in arms[:8])


@check(sees_missing=("live", "gpus", "rocm", "driver", "system", "symptoms"))
def nccl_p2p_blocked(
    live: LiveFacts | Missing,
    gpus: GpusFacts | Missing,
    rocm: RocmFacts | Missing,
    driver: DriverFacts | Missing,
    system: SystemFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Hit | None:
    """Peer-to-peer transfers between GPUs hang or corrupt: PCIe ACS, an IOMMU, or a driver that announces them wrongly."""
    matches = said(symptoms, "nccl-p2p-blocked")
    fix = SetEnv("NCCL_P2P_DISABLE", "1", "a workaround: transfers then go through host memory and are slower; not for NVLink machines")
    if rung := _rung(live, "p2p"):
        return Hit({"arm": rung[0].name}, (*rung[1], *quoted(matches)), (fix,))
    if refused := holding(matches, "broadband via P2P or IB"):
        off = SetEnv("NCCL_IB_DISABLE", "1", "Accelerate asks for both")
        return Hit({"series": value(refused, "series") or "4000"}, quoted(refused), (fix, off), variant="accelerate")
    if peers := holding(matches, "peer mapping resources exhausted", "TooManyPeers", "TOO_MANY_PEERS"):
        return Hit({}, quoted(peers), (fix,), variant="peers")
    if matches and len(holding(matches, 'Missing "iommu=pt"')) == len(matches):  # it looks at the command line only
        return Hit({}, quoted(matches), (fix,), variant="passthrough", severity=Severity.WARNING, confidence=Confidence.LIKELY)
    if matches:
        return Hit({}, quoted(matches), (fix,), variant="said")
    facts = None if isinstance(system, Missing) else system
    radeons = discrete_amd(rocm)
    if len(radeons) > 1 and facts and facts.iommu and not facts.virtualization and not nccl_proved(live, 2):
        amd: dict[str, object] = {"what": "An IOMMU translates addresses", "count": len(radeons)}
        return Hit(amd, variant="amd", severity=Severity.WARNING, confidence=Confidence.LIKELY)
    cards = nvidia(gpus)
    if len(cards) < 2 or nccl_proved(live, 2) or isinstance(gpus, Missing):
        return None
    version = None if isinstance(driver, Missing) else driver.version
    geforce40 = [gpu for gpu in cards if re.search(r"GeForce RTX 40\d0", gpu.name or "")]
    linux = facts is None or facts.os in (None, "linux")
    if len(geforce40) > 1 and linux and version and _announces_p2p(version):
        values = {"gpu": geforce40[0].name, "driver": version}
        return Hit(values, fixes=(fix,), variant="geforce", severity=Severity.WARNING, confidence=Confidence.LIKELY)
    if facts and (facts.iommu or facts.acs) and not _nvlink(gpus) and not facts.virtualization:
        what = "PCIe ACS redirects peer-to-peer traffic" if facts.acs else "An IOMMU translates addresses"
        risk: dict[str, object] = {"what": what, "count": len(cards)}
        return Hit(risk, fixes=(fix,), variant="risk", severity=Severity.WARNING, confidence=Confidence.LIKELY)
    return None


def _nvlink(gpus: GpusFacts | Missing) -> bool:
    """NVLink by `nvidia-smi topo -m` ("NV18"), else by names of boards that always have it."""
    if isinstance(gpus, Missing):
        return False
    return bool(re.search(r"\bNV\d+\b", gpus.topology or "")) or any(re.search(r"SXM|HBM3|NVL", gpu.name or "") for gpu in gpus.devices)


def _announces_p2p(driver: str) -> bool:
    """Drivers that offer P2P on GeForce 40xx, which has none: before 525.105, and 530 before 530.30. NVIDIA/nccl-tests#117"""
    if driver.startswith("530."):
        return older(driver, "530.30") is True
    return older(driver, "525.105") is True and older(driver, "520") is False


_SEGMENT_BYTES = 9637888  # of one channel of a pair, as NCCL 2.2x prints it

# What else an "unhandled system error" of NCCL comes from; each prints a line of its own.
_OTHER_SYSTEM_ERRORS = (
    "nccl-interface",
    "nccl-infiniband",
    "memlock-low",
    "launch-unreachable",
    "nccl-version-drift",
    "nccl-duplicate-gpu",
)


@check(sees_missing=("live", "limits", "launcher", "gpus", "symptoms"))
def nccl_shm_small(
    live: LiveFacts | Missing,
    limits: LimitsFacts | Missing,
    launcher: LauncherFacts | Missing,
    gpus: GpusFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Hit | None:
    """NCCL cannot make its segments in /dev/shm (about 10 MB a pair of ranks)."""
    told = said(symptoms, "nccl-shm-small")
    matches = tuple(match for match in told if match.symptom != "nccl-system-error")
    shm = None if isinstance(limits, Missing) else limits.shm_bytes
    size = in_units(shm) if shm is not None else "of unknown size"
    if rung := _rung(live, "shm"):
        cost = "a workaround: without shared memory data between GPUs goes through the network stack of this machine, which is slow"
        fixes = (SetEnv("NCCL_SHM_DISABLE", "1", cost), SetEnv("NCCL_P2P_DISABLE", "1", "the trial that passed had this set too"))
        return Hit({"size": size, "arm": rung[0].name}, (*rung[1], *quoted(matches)), fixes, variant="ladder")
    if not matches:
        # A system call of NCCL failed in a container, on one machine: what containers lack for that is shared memory.
        alone = not any(said(symptoms, other) for other in _OTHER_SYSTEM_ERRORS)
        one = (node_count(launcher) or 1) == 1 and len(nvidia(gpus)) > 1
        roomy = shm is not None and shm > 1 << 30
        if told and alone and one and not roomy:
            return Hit({"size": size}, quoted(told), variant="guess", severity=Severity.WARNING, confidence=Confidence.LIKELY)
        return None
    first = {match.symptom for match in matches}
    if first == {"nccl-cumem-host"}:
        host = SetEnv("NCCL_CUMEM_HOST_ENABLE", "0", "NCCL then uses /dev/shm, as it does by itself from 2.26.5 on")
        return Hit({"error": value(matches, "error") or "an error"}, quoted(matches), (host,), variant="cumem")
    if first == {"nccl-shm-removed"}:
        return Hit({}, quoted(matches), variant="removed")
    attached = all("attaching" in match.text for match in matches)
    values = {"size": size, "needed": in_units(number(value(matches, "size")) or _SEGMENT_BYTES)}
    return Hit(values, quoted(matches), variant="attach" if attached else None)


@check(sees_missing=("launcher", "devices", "visibility", "torch", "symptoms"))
def nccl_duplicate_gpu(
    launcher: LauncherFacts | Missing,
    devices: DevicesFacts | Missing,
    visibility: VisibilityFacts | Missing,
    torch: TorchFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Hit | None:
    """Two ranks on one GPU, or more local ranks than GPUs: NCCL refuses."""
    matches = said(symptoms, "nccl-duplicate-gpu")
    facts = None if isinstance(launcher, Missing) else launcher
    count = None if isinstance(devices, Missing) or devices.available is not True else devices.count
    local = next((one.local_world_size for one in facts.readings if one.launcher == "torchrun" and one.complete), None) if facts else None
    values: dict[str, object] = {"local": local, "count": count, "ranks": value(matches, "ranks") or "two ranks"}
    if counted := tuple(match for match in matches if match.symptom.startswith("more-ranks-than-gpus")):
        values |= {"local": value(counted, "local") or "more", "count": value(counted, "gpus") or "fewer"}
        several = (node_count(launcher) or 1) > 1  # then the framework may have counted the ranks of all nodes
        return Hit(values, quoted(counted), variant="more", severity=Severity.WARNING if several else None)
    if matches:
        return Hit(values, quoted(matches), variant="more" if local and count and local > count else None)
    cuda = not isinstance(torch, Missing) and torch.cuda is not None
    # Launchers that show each task its own GPU leave one device visible and are in order.
    shown = None if isinstance(visibility, Missing) else visibility.cuda_visible_devices
    own = count == 1 and shown is not None and "," not in shown
    if facts and local and count and cuda and local > count and not own:
        return Hit(values, variant="more", severity=Severity.WARNING, confidence=Confidence.LIKELY)
    return None


@check(sees_missing=("torch", "network", "symptoms"))
def nccl_version_drift(
    torch: TorchFacts | Missing, network: NetworkFacts | Missing, symptoms: SymptomsFacts | Missing
) -> Hit | Unknown | None:
    """Ranks of one job load different NCCL versions, or one process loads two."""
    family = _family(symptoms)
    matches = tuple(match for match in said(symptoms, "nccl-version-drift") if match not in family)
    if matches:
        return Hit({}, quoted(matches))
    if family and not variables(network).get("NCCL_SOCKET_IFNAME") and not value(family, "interface"):
        return Hit({}, quoted(family), variant="family", confidence=Confidence.LIKELY)
    if isinstance(torch, Missing):
        return None
    copies = sorted({one for one in torch.libraries if re.search(r"/libnccl\.so", one)})
    if len(copies) > 1:
        evidence = tuple(Evidence("libraries loaded", one) for one in copies[:4])
        return Hit({"copies": copies}, evidence, variant="copies", severity=Severity.WARNING, confidence=Confidence.LIKELY)
    return None


@check()
def flight_recorder_unreliable(network: NetworkFacts) -> Hit | None:
    """The recorder is on, and the way in which NCCL errors are handled may end the process before it dumps."""
    seen = network.variables
    on = [name for name in ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE") if seen.get(name, "0") not in ("", "0")]
    mode = next((name for name in ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING") if name in seen), None)
    if not on or mode is None or seen[mode] not in ("0", "1", "2"):
        return None
    fix = SetEnv(mode, "3", "the default of torch: the process is left as it is until the dump is written")
    return Hit({"recorder": on[0], "name": mode, "mode": seen[mode]}, (Evidence("environment", f"{mode}={seen[mode]}"),), (fix,))


@check()
def nccl_no_transport(live: LiveFacts) -> Hit | None:
    """NCCL fails with every transport switched off in turn, and gloo passes: NCCL, CUDA or the driver itself."""
    found = climb(live)
    if not found or found.culprit != "nccl":
        return None
    return Hit({"count": len(found.tried), "reason": (found.plain.reason or "no reason given").rstrip(".")[:300]}, _tried(found))


@check()
def nccl_diagnostics_failed(live: LiveFacts) -> Hit | Unknown | None:
    """NCCL's own diagnostics (from 2.31 on), which print their result and go on whatever it is."""
    found = live.nccl_diagnostics
    if found is None:
        return None
    evidence = tuple(Evidence("NCCL DIAG", line) for line in (*found.edges, *found.outliers, *found.troubles)[:8])
    if found.tested is not None and found.passed is not None and (found.edges or found.passed < found.tested):
        failed = max(found.tested - found.passed, 1)
        return Hit({"failed": failed, "tested": found.tested, "edges": found.edges[:4] or ("not named",)}, evidence)
    if found.edges:
        return Hit({"edges": found.edges[:4]}, evidence, variant="edges")
    if found.outliers:
        return Hit({"outliers": found.outliers[:4]}, evidence, variant="network", severity=Severity.WARNING)
    if found.tested is None:
        return Unknown("NCCL's diagnostics ran and tested nothing: no pair of GPUs is to use peer-to-peer transfers")
    if found.troubles:
        return Unknown(f"NCCL's diagnostics could not be completed: {found.troubles[0]}")
    return None


# Variable → (values that switch something off, what it costs)
_LEFTOVERS = {
    "NCCL_P2P_DISABLE": "GPUs do not copy to each other directly",
    "NCCL_SHM_DISABLE": "ranks of one machine do not share memory",
    "NCCL_IB_DISABLE": "InfiniBand and RoCE are not used",
    "NCCL_NVLS_DISABLE": "NVLink SHARP is not used",
}
_OFF_AT_ZERO = {
    "NCCL_NVLS_ENABLE": "NVLink SHARP is not used",
    "NCCL_CUMEM_ENABLE": "NCCL allocates the old way",
    "NCCL_NET_GDR_LEVEL": "GPUDirect RDMA is not used",
}


@check(sees_missing=("network", "python", "gpus"))
def nccl_debug_leftover(network: NetworkFacts | Missing, python: PythonFacts | Missing, gpus: GpusFacts | Missing) -> Hit | Unknown | None:
    """Variables that were set to find a fault and now cost speed."""
    facts = None if isinstance(network, Missing) else network
    seen = {**(facts.nccl_conf if facts else {}), **variables(network)}
    blocking = variables(python).get("CUDA_LAUNCH_BLOCKING")
    found: list[tuple[str, str, str, bool]] = []
    cards = nvidia(gpus)
    nvlink = _nvlink(gpus)
    fabric = any((port.state or "").upper().endswith("ACTIVE") for port in (facts.infiniband if facts else ()))
    for name, cost in _LEFTOVERS.items():
        if seen.get(name, "0") not in ("0", ""):
            costly = {"NCCL_P2P_DISABLE": nvlink and len(cards) > 1, "NCCL_IB_DISABLE": fabric}.get(name, False)
            found.append((name, seen[name], cost, costly))
    for name, cost in _OFF_AT_ZERO.items():
        if seen.get(name) in ("0", "LOC"):
            found.append((name, seen[name], cost, False))
    if blocking not in (None, "", "0"):
        found.append(("CUDA_LAUNCH_BLOCKING", blocking or "", "every kernel is waited for", True))
    if seen.get("NCCL_DEBUG", "").upper() == "TRACE":
        found.append(("NCCL_DEBUG", seen["NCCL_DEBUG"], "every call is logged", False))
    if not found:
        return trouble(network, "network")
    names = [name for name, _, _, _ in found]
    set_here = [name for name in names if name in variables(network) or name == "CUDA_LAUNCH_BLOCKING"]
    where = {name: "environment" if name in set_here else "nccl.conf" for name in names}
    evidence = tuple(Evidence(where[name], f"{name}={shown}: {cost}") for name, shown, cost, _ in found)
    listed = "; ".join(f"{name}={shown} ({cost})" for name, shown, cost, _ in found)
    severity = Severity.WARNING if any(costly for _, _, _, costly in found) else None
    return Hit({"listed": listed, "names": names}, evidence, tuple(SetEnv(name, None) for name in set_here), severity=severity)


CHECKS = (
    nccl_interface,
    gloo_interface,
    nccl_infiniband,
    nccl_p2p_blocked,
    nccl_shm_small,
    nccl_duplicate_gpu,
    nccl_version_drift,
    nccl_no_transport,
    nccl_diagnostics_failed,
    flight_recorder_unreliable,
    nccl_debug_leftover,
)
