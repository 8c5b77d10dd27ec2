"""Resource limits that stop data loaders, shared memory and RDMA."""

from __future__ import annotations

import re

from envcheck.checks.answer import contained, without_nccl
from envcheck.checks.gpu import size
from envcheck.checks.hardware import node_count
from envcheck.checks.passed_on import pass_on
from envcheck.checks.text import agreed, cite, doubt, first_of, foremost, of_variant, quoted, value
from envcheck.engine.rule import Answer, Confidence, Evidence, Facts, Hit, Matches, Severity, Unknown, check
from envcheck.facts.record import replace
from envcheck.facts.snapshot import ImportFailure, ImportStatus, LimitsFacts, LiveFacts, LiveStatus, TorchFacts
from envcheck.tables.versions import UNKNOWN

_MIB, _GIB = 1 << 20, 1 << 30
FEW_FILES = 1024  # the usual soft limit of Linux; enough for most runs, not for many workers of many ranks
# gloo joins every two ranks: 589 descriptors in each of 192 processes, 13 of them whatever the number (torch 2.13)
DESCRIPTORS_EACH, DESCRIPTORS = 3, 13
# A process of a run on a CPU has 5 tasks, and 7 with two loader workers (torch 2.13, gloo, OMP_NUM_THREADS=1); CUDA and NCCL add more.
FEW_TASKS = 16
ADDRESS_SPACE = 4 * _GIB  # torch for the CPU maps 1.5 GiB, and CUDA reserves more than this
# What the loader, malloc and pthread_create say at the limit of address space.
NO_SPACE = (
    "annot allocate memory",
    "can't allocate memory",
    "failed to map segment",
    "MemoryError",
    "bad_alloc",
    "Resource temporarily unavailable",
    "new thread",
)
IMPORT_SECONDS = 10  # of CPU time: no training ends within it, and import torch, torch._dynamo takes 3 to 12
FEW_PORTS = 1024  # a job of 8 ranks takes some hundred; the usual range has 28,232
NOT_TRIED = ("Operation not permitted", "Function not implemented")  # what a filter of system calls answers: training asks in other ways
FILE_TOO_LARGE, READ_ONLY = "File too large", "Read-only file system"  # EFBIG, EROFS
DOCKER_SHM = 64 * _MIB  # what docker and Kubernetes give without being asked
RDMA_MEMLOCK = 64 * _MIB  # less than one set of NCCL buffers


def _size(number: int | None) -> str | None:
    return None if number is None else size(number)


@check(needs="limits", reads="limits gpus system launcher symptoms")
def open_files_low(facts: Facts, matches: Matches) -> Answer:
    soft, ranks = facts.limits.open_files_soft, facts.launcher.world_size
    needed = DESCRIPTORS_EACH * (ranks or 0) + DESCRIPTORS
    values = {"soft": soft, "hard": facts.limits.open_files_hard, "ranks": ranks, "needed": needed}
    if matches:
        return Hit(values, quoted(matches), variant="reached")
    if soft is None or facts.system.os == "darwin":
        return None
    if hit := first_of({"ranks": ranks and soft < needed, "default": soft < FEW_FILES}, values):
        return hit
    return Hit(values, severity=Severity.INFO) if soft <= FEW_FILES and len(facts.gpus.devices) >= 8 else None


@check(needs="symptoms", reads="limits symptoms")
def processes_low(facts: Facts, matches: Matches) -> Answer:
    if not matches:
        return None
    soft, limit = facts.limits.processes_soft, facts.limits.group_tasks_limit
    group = "group" if limit is not None and (soft is None or limit < soft) else None
    return Hit({"soft": soft or "unlimited", "limit": limit}, quoted(matches), variant=foremost(matches, "clone3") or group)


@check(needs="symptoms", reads="network symptoms")
def local_ports_few(facts: Facts, matches: Matches) -> Answer:
    first, last = facts.network.local_port_first, facts.network.local_port_last
    count = None if first is None or last is None else max(0, last - first + 1)
    if not matches:
        return None
    variant = "narrow" if count is not None and count < FEW_PORTS else None
    return Hit({"first": first, "last": last, "count": count}, quoted(matches), variant=variant)


@check(needs="limits", reads="limits system python")
def processes_nearly_used(facts: Facts) -> Answer:
    """The control group has no room for the threads of one more process: OpenMP and OpenBLAS start as many as they are told, else one for
    each CPU that they see."""
    used, limit, cpus = facts.limits.group_tasks, facts.limits.group_tasks_limit, facts.system.cpu_affinity or facts.system.cpu_count
    told = _told_threads(facts)
    wanted = (cpus or 0) if told is None else told
    if used is None or limit is None or limit - used >= max(FEW_TASKS, wanted):
        return None
    free = max(0, limit - used)
    values = {"used": used, "limit": limit, "free": free, "cpus": cpus, "threads": told}
    evidence = (Evidence("control group", f"pids.current {used}, pids.max {limit}"),)
    return Hit(values, evidence, variant="few" if free >= wanted else None if told is None else "told")


def _told_threads(facts: Facts) -> int | None:
    """OMP_NUM_THREADS; of a list, which is by level of nesting, the first."""
    told = facts.python.variables.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(told) if told.isdecimal() and len(told) < 7 else None


@check(needs="limits network", reads="system gpus rocm torch backends limits network container symptoms")
def memlock_low(facts: Facts, matches: Matches) -> Answer:
    """Locked memory is limited where RDMA has to register buffers. Without an InfiniBand or RoCE port it does not matter."""
    # a verbs call that failed without a word of memory has other causes too
    matches = tuple(match for match in of_variant(matches, "memlock") if match.confidence != "likely")
    soft = facts.limits.memlock_soft_bytes if facts.limits.memlock_read else None
    if facts.limits.memlock_read and soft is None:  # unlimited
        return None
    values, variant = {"soft": "only a part" if soft is None else size(soft)}, "container" if contained(facts.container) else None
    if matches:
        return Hit(values, quoted(matches), variant=variant, severity=Severity.ERROR)
    if without_nccl(facts) and not (facts.backends.mpi or facts.backends.ucc):  # gloo uses sockets
        return None
    active = [port for port in facts.network.infiniband if port.state is None or "ACTIVE" in port.state.upper()]
    if soft is None or soft >= RDMA_MEMLOCK or not active or facts.network.variables.get("NCCL_IB_DISABLE") == "1":
        return None
    ports = [f"{port.device} port {port.port} {port.link_layer or ''} {port.state or ''}".strip() for port in active[:2]]
    return Hit(values, tuple(Evidence("InfiniBand", port) for port in ports), variant=variant)


@check(needs="limits", reads="limits container symptoms")
def shm_small(facts: Facts, matches: Matches) -> Answer:
    limits = facts.limits
    total, free = limits.shm_bytes, limits.shm_free_bytes
    variant = "kubernetes" if facts.container.kubernetes else "container" if contained(facts.container) else None
    values: dict[str, object] = {"size": _size(total), "free": _size(free)}
    if matches:
        return _shm_said(limits, values, matches, variant)
    wanted, got = limits.shm_requested_bytes, limits.shm_allocated_bytes
    if limits.shm_error or (wanted and got is not None and got < wanted):
        values |= {"wanted": _size(wanted) or "a test file", "got": "0" if got is None else size(got)}
        if limits.shm_error in NOT_TRIED:
            return Unknown(f"the trial in /dev/shm was refused: {limits.shm_error}")
        if limits.shm_error == FILE_TOO_LARGE:
            return Hit(values, cite("trial in shared memory", limits.shm_error), variant="file-limit")
        if limits.shm_error == READ_ONLY:
            return Hit(values, cite("trial in shared memory", limits.shm_error), variant="read-only")
        return Hit(values, cite("trial in shared memory", limits.shm_error), variant="refused" if total else "none")
    if total is not None and total <= DOCKER_SHM:
        return Hit(values, variant=variant)
    return Hit(values, variant="full") if free is not None and free < DOCKER_SHM else None


def _shm_said(limits: LimitsFacts, values: dict[str, object], matches: Matches, variant: str | None) -> Hit | None:
    total, free = limits.shm_bytes, limits.shm_free_bytes
    if agreed(matches) == "ray":
        count, gigabytes = (re.fullmatch(r"\d{1,18}(?:\.\d{1,9})?", value(matches, name) or "") for name in ("bytes", "gigabytes"))
        found = int(float(count[0])) if count else int(float(gigabytes[0]) * 1e9) if gigabytes else free
        severity = Severity.ERROR if any(match.symptom == "ray-shm-refused" for match in matches) else None
        return Hit(values | {"free": _size(found)}, quoted(matches), variant="ray", severity=severity)
    if elsewhere := of_variant(matches, "elsewhere"):
        return Hit(values, quoted(elsewhere), variant="elsewhere")
    if (guess := agreed(matches)) in ("bus", "workers", "died", "shards"):
        return None if free is not None and free >= 8 * _GIB else Hit(values, quoted(matches), variant=guess)
    roomy = total is not None and total >= 8 * _GIB  # a mapped file that shrank gives SIGBUS too
    if total is not None and free is not None and free >= 8 * _GIB:
        return None
    reached = "pod" if variant == "kubernetes" else "reached"
    variant, confidence = reached if total is None else variant, Confidence.LIKELY if roomy else None
    return Hit(values, quoted(matches), variant=variant, severity=Severity.ERROR, confidence=confidence)


@check(needs="system", reads="system live torch symptoms")
def host_memory_low(facts: Facts, matches: Matches) -> Answer:
    available, limit = facts.system.memory_available_bytes, facts.system.memory_limit_bytes
    values = {"available": _size(available), "limit": "none" if limit is None else size(limit)}
    if matches:
        return Hit(values, quoted(matches), (), agreed(matches) or "killed", Severity.ERROR, doubt(matches))
    killed = facts.live.status is not LiveStatus.PASS and any(rank.died_of == "SIGKILL" for rank in facts.live.ranks)
    if killed and available is not None and available < 2 * _GIB:
        return Hit(values, variant="killed", severity=Severity.ERROR, confidence=Confidence.LIKELY)
    tight = limit is not None and limit < 2 * _GIB
    if (tight or (available is not None and available < _GIB)) and (what := _import_killed(facts.torch)):
        sure = None if limit is not None and limit < _GIB else Confidence.LIKELY
        return Hit(values | {"what": what}, variant="import_killed", severity=Severity.ERROR, confidence=sure)
    if tight:
        return Hit(values, variant="limit")
    return Hit(values) if available is not None and available < _GIB else None


def _import_killed(torch: TorchFacts) -> str | None:
    """What was imported when the process was killed from outside."""
    tried = {"torch": torch.import_failure, "torch._dynamo": torch.dynamo_failure}
    return next((what for what, one in tried.items() if one and "SIGKILL" in (one.signal, one.text[-7:])), None)


@check(needs="limits", reads="limits torch live")
def ulimit_low(facts: Facts) -> Answer:
    """Only where it explains a death: many shells set limits that do no harm."""
    seconds = facts.limits.cpu_seconds
    spaces = (("address space", "v", facts.limits.address_space_bytes), ("data", "d", facts.limits.data_bytes))
    tight = next(((size(most), of, flag) for of, flag, most in spaces if most is not None and most < ADDRESS_SPACE), None)
    tried = {"import torch": facts.torch.import_failure, "import torch._dynamo": facts.torch.dynamo_failure}
    what, failure = next(((name, one) for name, one in tried.items() if one), ("", ImportFailure()))
    said, died = f"{failure.type} {failure.text} {failure.stderr} {failure.stack}", failure.signal or failure.text.rpartition(" ")[2]
    code = "an error" if failure.exit_code is None else f"exit code {failure.exit_code}"
    values = {"what": f"{what} ended with {died if died.startswith('SIG') else failure.type or code}"}
    if seconds is not None and died in ("SIGXCPU", "SIGKILL"):
        sure = died == "SIGXCPU" or seconds <= IMPORT_SECONDS
        return Hit(values | {"limit": f"{seconds} s of CPU time", "flag": "t"}, variant="certain" if sure else None)
    if not tight:
        return None
    most, of, flag = tight
    values["limit"], values["flag"] = f"{most} of {of}", flag
    told = any(word in said for word in NO_SPACE)
    if told or died.startswith("SIG"):
        return Hit(values, variant="certain" if told else None)
    if refused := _refused_a_rank(facts.live):
        return Hit(values | {"what": f"{refused[0]} of the live check got no more"}, cite(*refused), variant="certain")
    return None


def _refused_a_rank(live: LiveFacts) -> tuple[str, str] | None:
    """A rank of the live check that got no more memory or no thread, and its words."""
    if live.status is LiveStatus.PASS:
        return None
    arms = (("a rank", live.ranks), *((f"a rank of {arm.name}", arm.ranks) for arm in live.arms))
    lines = ((of, line) for of, ranks in arms for rank in ranks for line in (rank.error, *rank.stderr.splitlines()[-4:]))
    return next(((of, line.strip()) for of, line in lines if any(word in line for word in NO_SPACE)), None)


@check(needs="symptoms", reads="limits torch live symptoms")
def disk_full(facts: Facts, matches: Matches) -> Answer:
    """Certain where our own check met it: it could not go on, or what it tried says so."""
    folder = facts.limits.full_folder
    if folder is None:
        tried = facts.torch.import_status is ImportStatus.ERROR and any(match.source == "import torch" for match in matches)
        said = pass_on(matches)
        return replace(said, confidence=Confidence.CERTAIN) if said and tried else said
    space = f"{_size(folder.free_bytes) or UNKNOWN} of {_size(folder.total_bytes) or UNKNOWN}"
    values = {"folder": folder.path, "error": folder.error, "space": space, "files": folder.free_files}
    evidence = (*cite(f"a file in {folder.path}", folder.error), *quoted(matches))
    met = folder.stopped or bool(matches)
    severity = None if met or facts.live.status is not LiveStatus.PASS else Severity.WARNING
    return Hit(
        values, evidence, (), "folder" if folder.free_files is None else "folder_files", severity, Confidence.CERTAIN if met else None
    )


@check(needs="limits", reads="limits live")
def system_call_refused(facts: Facts) -> Answer:
    refused = facts.limits.refused_calls
    evidence = tuple(Evidence("a call that no kernel takes", one) for one in refused[:6])
    return Hit({"calls": refused}, evidence) if refused and facts.live.status is not LiveStatus.PASS else None


@check(needs="limits", reads="limits launcher symptoms")
def cache_lock_broken(facts: Facts, matches: Matches) -> Answer:
    if refused := of_variant(matches, "said"):
        return Hit({"error": value(refused, "error")}, quoted(refused), variant="said")
    if matches:  # what a program says of its own folder
        return Hit({}, quoted(matches), variant="left", confidence=doubt(matches))
    bad = [one for one in facts.limits.caches if one.lock in ("none", "refused", "hang")]
    # NFS: local_lock=flock|all; Lustre: localflock. Locks then hold among the processes of one machine.
    local = [one for one in facts.limits.caches if re.search(r"\b(?:local_lock=(?:flock|all)|localflock)\b", one.options)]
    if not bad and not (local and (node_count(facts.launcher) or 1) > 1):
        return None
    told = ((one.path, f"{one.lock} {one.error} ({one.filesystem} {one.options})"[:300]) for one in (bad or local)[:4])
    worst = (bad or local)[0]
    kind, error = worst.filesystem or "file system", worst.error or "no error"
    values = {"variable": worst.variable, "path": worst.path, "filesystem": kind, "error": error}
    return Hit(values, tuple(Evidence(f"flock in {path}", words) for path, words in told), variant=worst.lock if bad else "local")
