"""Resource limits, and what /dev/shm really gives."""

from __future__ import annotations

from envcheck.facts.snapshot import LimitsFacts, Missing
from envcheck.host.access import Host
from envcheck.host.syscalls import Disk, Trial
from envcheck.probes.caches import probe_caches
from envcheck.probes.cgroup import read_cgroup, read_tasks
from envcheck.probes.meminfo import parse_meminfo

SHM = "/dev/shm"  # noqa: S108  # the folder is the question, no file name is made up in it
# Pages of tmpfs are zeroed when they are taken: 16 MiB cost 10 ms of CPU time, 64 MiB 40 ms (2.4 GHz EPYC). A file system that is small
# says so; what only a trial shows is one that gives nothing, or far less than it says.
TRIAL_BYTES = 16 << 20
NOTHING = (None, None)


def probe(host: Host) -> LimitsFacts | Missing:
    limits = host.limits()
    files = limits.get("NOFILE", NOTHING)
    memlock = limits.get("MEMLOCK", NOTHING)
    temp = host.disk(host.env.get("TMPDIR") or "/tmp")  # noqa: S108  # only its free space is read
    shm, trial = _shared_memory(host)
    tasks = read_tasks(host)
    return LimitsFacts(
        open_files_soft=files[0],
        open_files_hard=files[1],
        memlock_soft_bytes=memlock[0],
        memlock_hard_bytes=memlock[1],
        memlock_read="MEMLOCK" in limits,
        processes_soft=limits.get("NPROC", NOTHING)[0],
        group_tasks=tasks.used if tasks else None,
        group_tasks_limit=tasks.limit if tasks else None,
        stack_soft_bytes=limits.get("STACK", NOTHING)[0],
        address_space_bytes=limits.get("AS", NOTHING)[0],
        data_bytes=limits.get("DATA", NOTHING)[0],
        cpu_seconds=limits.get("CPU", NOTHING)[0],
        # a tmpfs mounted without a limit states a size of 0
        shm_bytes=shm.total_bytes if shm and shm.total_bytes else None,
        shm_free_bytes=shm.free_bytes if shm and shm.total_bytes else None,
        shm_requested_bytes=trial.requested_bytes if trial else None,
        shm_allocated_bytes=trial.allocated_bytes if trial else None,
        shm_error=trial.error if trial else None,
        tmp_free_bytes=temp.free_bytes if temp else None,
        caches=probe_caches(host),
    )


def _shared_memory(host: Host) -> tuple[Disk | None, Trial | None]:
    if host.platform().get("system") != "Linux":
        return None, None
    if not host.exists(SHM):
        return None, Trial(0, 0, f"{SHM} is not there")
    shm = host.disk(SHM)
    size = trial_bytes(host, shm)
    return shm, host.allocate_shm(size) if size else None


def trial_bytes(host: Host, shm: Disk | None) -> int:
    """How much may be taken for a moment without harm.

    statvfs does not know the memory group's limit, and passing it would end in the OOM killer: at most an
    eighth of what is free. And at most three quarters of the file system, for others may be at work in it.
    """
    memory = [TRIAL_BYTES]
    available = parse_meminfo(host.read("/proc/meminfo")).get("MemAvailable")
    group = read_cgroup(host).memory_free_bytes
    memory += [number // 8 for number in (available, group) if number is not None]
    if shm and shm.total_bytes:
        memory.append(shm.free_bytes // 4 * 3)
    return min(memory) // 4096 * 4096
