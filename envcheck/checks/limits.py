"""Resource limits that stop data loaders, shared memory and RDMA."""

from __future__ import annotations

import re

from envcheck.checks.answer import contained, trouble
from envcheck.checks.gpu import size
from envcheck.checks.hardware import node_count
from envcheck.checks.text import holding, mentioning, quoted, said, value
from envcheck.engine.rule import Answer, Confidence, Evidence, Hit, Severity, check
from envcheck.facts.snapshot import (
    ContainerFacts,
    GpusFacts,
    LauncherFacts,
    LimitsFacts,
    LiveFacts,
    LiveStatus,
    Missing,
    NetworkFacts,
    SymptomsFacts,
    SystemFacts,
)

_MIB, _GIB = 1 << 20, 1 << 30
FEW_FILES = 1024  # the usual soft limit of Linux; enough for most runs, not for many workers of many ranks
# gloo joins every two ranks: 589 descriptors in each of 192 processes, 13 of them whatever the number (torch 2.13)
DESCRIPTORS_EACH, DESCRIPTORS = 3, 13
DOCKER_SHM = 64 * _MIB  # what docker and Kubernetes give without being asked
RDMA_MEMLOCK = 64 * _MIB  # less than one set of NCCL buffers


@check(sees_missing=("limits", "gpus", "system", "launcher", "symptoms"))
def open_files_low(
    limits: LimitsFacts | Missing,
    gpus: GpusFacts | Missing,
    system: SystemFacts | Missing,
    launcher: LauncherFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Answer:
    """The soft limit of open files; loaders that pass tensors by descriptor use one for each."""
    told = said(symptoms, "open-files-low")
    soft = None if isinstance(limits, Missing) else limits.open_files_soft
    hard = None if isinstance(limits, Missing) else limits.open_files_hard
    values = {"soft": "unknown" if soft is None else soft, "hard": "unknown" if hard is None else hard}
    if told:
        return Hit(values, quoted(told), variant="reached", severity=Severity.ERROR)
    mac = not isinstance(system, Missing) and system.os == "darwin"
    if soft is None or mac:
        return trouble(limits, "limits")
    ranks = None if isinstance(launcher, Missing) else launcher.world_size
    if ranks and soft < DESCRIPTORS_EACH * ranks + DESCRIPTORS:
        needed = DESCRIPTORS_EACH * ranks + DESCRIPTORS
        return Hit(values | {"ranks": ranks, "needed": needed}, variant="ranks", severity=Severity.ERROR, confidence=Confidence.LIKELY)
    if soft < FEW_FILES:
        return Hit(values)
    many = not isinstance(gpus, Missing) and len(gpus.devices) >= 8
    return Hit(values, severity=Severity.INFO) if soft <= FEW_FILES and many else None


@check(sees_missing=("limits", "symptoms"))
def processes_low(limits: LimitsFacts | Missing, symptoms: SymptomsFacts | Missing) -> Hit | None:
    """A process or a thread could not be started: the kernel's limit of this user, or that of the container."""
    told = said(symptoms, "processes-low")
    if not told:
        return None
    soft = None if isinstance(limits, Missing) else limits.processes_soft
    values = {"soft": "unknown" if soft is None else soft}
    return Hit(values, quoted(told), variant="clone3" if value(told, "refused") else None)


@check(sees_missing=("limits", "network", "container", "symptoms"))
def memlock_low(
    limits: LimitsFacts | Missing,
    network: NetworkFacts | Missing,
    container: ContainerFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Answer:
    """Locked memory is limited where RDMA has to register buffers. Without an InfiniBand or RoCE port it does not matter."""
    told = holding(said(symptoms, "memlock-low"), "allocate memory", "locked memory", "memlock", "ulimit -l", "RLIMIT_MEMLOCK")
    if not isinstance(limits, Missing) and limits.memlock_read and limits.memlock_soft_bytes is None:
        return None
    soft = None if isinstance(limits, Missing) or not limits.memlock_read else limits.memlock_soft_bytes
    values = {"soft": "only a part" if soft is None else size(soft)}
    variant = "container" if contained(container) else None
    if told:
        return Hit(values, quoted(told), variant=variant, severity=Severity.ERROR)
    if soft is None or soft >= RDMA_MEMLOCK or isinstance(network, Missing):
        return trouble(limits, "limits")
    active = [port for port in network.infiniband if port.state is None or "ACTIVE" in port.state.upper()]
    if not active or network.variables.get("NCCL_IB_DISABLE") == "1":
        return None
    ports = tuple(
        Evidence("InfiniBand", f"{port.device} port {port.port} {port.link_layer or ''} {port.state or ''}".strip()) for port in active
    )
    return Hit(values, ports[:2], variant=variant)


@check(sees_missing=("limits", "container", "symptoms"))
def shm_small(limits: LimitsFacts | Missing, container: ContainerFacts | Missing, symptoms: SymptomsFacts | Missing) -> Answer:
    """Shared memory is what containers get by default, or does not give what it promises."""
    told = said(symptoms, "shm-small")
    variant = None if isinstance(container, Missing) else "kubernetes" if container.kubernetes else "container"
    total = None if isinstance(limits, Missing) else limits.shm_bytes
    free = None if isinstance(limits, Missing) else limits.shm_free_bytes
    values: dict[str, object] = {
        "size": "unknown" if total is None else size(total),
        "free": "unknown" if free is None else size(free),
        "wanted": "unknown",
        "got": "unknown",
    }
    if told and all(match.symptom == "ray-shm" for match in told):
        count, gigabytes = value(told, "bytes"), value(told, "gigabytes")
        found = int(count) if count else int(float(gigabytes) * 1e9) if gigabytes else free
        ray = {**values, "free": "unknown" if found is None else size(found)}
        refused = holding(told, "exceeds /dev/shm size")
        return Hit(ray, quoted(told), variant="ray", severity=Severity.ERROR if refused else None)
    if told:
        roomy = total is not None and free is not None and free >= 8 * _GIB
        large = Confidence.LIKELY if total is not None and total >= 8 * _GIB else None  # a mapped file that shrank gives SIGBUS too
        variant = "reached" if total is None else variant
        return None if roomy else Hit(values, quoted(told), variant=variant, severity=Severity.ERROR, confidence=large)
    if isinstance(limits, Missing):
        return trouble(limits, "limits")
    wanted, got = limits.shm_requested_bytes, limits.shm_allocated_bytes
    if limits.shm_error or (wanted and got is not None and got < wanted):
        values |= {"wanted": "a test file" if wanted is None else size(wanted), "got": "0" if got is None else size(got)}
        evidence = (Evidence("trial in shared memory", limits.shm_error),) if limits.shm_error else ()
        return Hit(values, evidence, variant="refused" if total else "none", severity=Severity.ERROR)
    if total is not None and total <= DOCKER_SHM:
        return Hit(values, variant=variant)
    if free is not None and free < DOCKER_SHM:
        return Hit(values, variant="full")
    return None


# Somebody asked for memory and did not get it; nothing was killed.
_REFUSED = ("DefaultCPUAllocator", "alloc_cpu.cpp", "WinError 1455", "paging file is too small", "Errno 12]", "MemoryError", "bad_alloc")


@check(sees_missing=("system", "live", "symptoms"))
def host_memory_low(system: SystemFacts | Missing, live: LiveFacts | Missing, symptoms: SymptomsFacts | Missing) -> Answer:
    """Little memory is left, or the kernel killed a process (SIGKILL without a traceback)."""
    told = said(symptoms, "host-memory-low")
    available = None if isinstance(system, Missing) else system.memory_available_bytes
    limit = None if isinstance(system, Missing) else system.memory_limit_bytes
    values = {"available": "unknown" if available is None else size(available), "limit": "none" if limit is None else size(limit)}
    if told and len(holding(told, *_REFUSED)) == len(told):
        return Hit(values, quoted(told), variant="refused", severity=Severity.ERROR, confidence=Confidence.LIKELY)
    if told:
        sure = mentioning(symptoms, "Out of memory: Kill", "oom-kill", "Memory cgroup out of memory", "OOMKilled")
        return Hit(values, quoted(told), variant="killed", severity=Severity.ERROR, confidence=None if sure else Confidence.LIKELY)
    ranks = () if isinstance(live, Missing) or live.status is LiveStatus.PASS else live.ranks
    if any(rank.signal == "SIGKILL" for rank in ranks) and available is not None and available < 2 * _GIB:
        return Hit(values, variant="killed", severity=Severity.ERROR, confidence=Confidence.LIKELY)
    if limit is not None and limit < 2 * _GIB:
        return Hit(values, variant="limit")
    return Hit(values) if available is not None and available < _GIB else trouble(system, "system")


@check(sees_missing=("launcher",))
def cache_lock_broken(limits: LimitsFacts, launcher: LauncherFacts | Missing) -> Hit | None:
    """A cache folder on a network file system whose locks do not work between processes, or only within one machine."""
    bad = [one for one in limits.caches if one.lock in ("none", "refused", "hang")]
    # NFS: local_lock=flock|all; Lustre: localflock. Locks then hold among the processes of one machine.
    local = [one for one in limits.caches if re.search(r"\b(?:local_lock=(?:flock|all)|localflock)\b", one.options)]
    if not bad and not (local and (node_count(launcher) or 1) > 1):
        return None
    worst = (bad or local)[0]
    evidence = tuple(
        Evidence(f"flock in {one.path}", f"{one.lock} {one.error} ({one.filesystem} {one.options})"[:300]) for one in (bad or local)[:4]
    )
    kind, error = worst.filesystem or "file system", worst.error or "no error"
    values = {"variable": worst.variable, "path": worst.path, "filesystem": kind, "error": error}
    return Hit(values, evidence, variant=worst.lock if bad else "local")


CHECKS = (open_files_low, processes_low, memlock_low, shm_small, host_memory_low, cache_lock_broken)
