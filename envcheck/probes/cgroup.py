"""Limits of the control groups this process is in, versions 1 and 2: CPU, memory, processes and threads.

A limit may sit on any group up to the root, and the tightest one counts.
https://docs.kernel.org/admin-guide/cgroup-v2.html  https://docs.kernel.org/admin-guide/cgroup-v1/memory.html
https://docs.kernel.org/admin-guide/cgroup-v1/pids.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from envcheck.host.access import Host
from envcheck.probes.mounts import Mount, parse_mountinfo

# Version 1 writes "no limit" as the largest multiple of the page size, 2**63 - 4096 or - 65536.
NO_LIMIT = 1 << 60


class CgroupLimits(NamedTuple):
    cpus: float | None = None  # quota in cores; None = none found
    memory_bytes: int | None = None
    memory_free_bytes: int | None = None  # below the tightest group: limit less use that cannot be reclaimed


class Tasks(NamedTuple):
    """Processes and threads of one group."""

    used: int
    limit: int


def parse_cgroup(text: str | None) -> dict[str, str]:
    """Controller → path; the key of version 2 is "".

    0::/user.slice
    4:cpu,cpuacct:/docker/3601745b3bd5
    """
    paths: dict[str, str] = {}
    for line in (text or "").splitlines():
        number, _, rest = line.partition(":")
        names, colon, path = rest.partition(":")
        if number.isdecimal() and colon and path.startswith("/"):
            for name in names.split(","):
                paths[name] = path
    return paths


def read_cgroup(host: Host) -> CgroupLimits:
    """The tightest limits that can be seen from here."""
    paths = parse_cgroup(host.read("/proc/self/cgroup"))
    if not paths:
        return CgroupLimits()
    mounts = parse_mountinfo(host.read("/proc/self/mountinfo"))
    cpus: list[float] = []
    memory: list[int] = []
    free: list[int] = []
    for mount in mounts:
        if mount.kind == "cgroup2":
            for folder in _folders(mount, paths.get("", "/")):
                cpus += _cpu_v2(host.read(f"{folder}/cpu.max"))
                limit = _number(host.read(f"{folder}/memory.max"))
                if limit is not None:
                    memory.append(limit)
                    free += _free(limit, host.read(f"{folder}/memory.current"), host.read(f"{folder}/memory.stat"), "inactive_file")
        elif mount.kind == "cgroup":
            names = mount.options.split(",")
            if "cpu" in names:
                for folder in _folders(mount, paths.get("cpu", "/")):
                    cpus += _cpu_v1(host.read(f"{folder}/cpu.cfs_quota_us"), host.read(f"{folder}/cpu.cfs_period_us"))
            if "memory" in names:
                for folder in _folders(mount, paths.get("memory", "/")):
                    stat = host.read(f"{folder}/memory.stat")
                    found = (_number(host.read(f"{folder}/memory.limit_in_bytes")), _stat(stat, "hierarchical_memory_limit"))
                    limits = [limit for limit in found if limit is not None and limit < NO_LIMIT]
                    memory += limits
                    if limits:
                        free += _free(min(limits), host.read(f"{folder}/memory.usage_in_bytes"), stat, "total_inactive_file")
    return CgroupLimits(min(cpus, default=None), min(memory, default=None), min(free, default=None))


def read_tasks(host: Host) -> Tasks | None:
    """The group that has the least room for another process or thread; None where no limit can be seen."""
    paths = parse_cgroup(host.read("/proc/self/cgroup"))
    found: list[Tasks] = []
    for mount in parse_mountinfo(host.read("/proc/self/mountinfo")) if paths else ():
        first = mount.kind == "cgroup" and "pids" in mount.options.split(",")
        if mount.kind == "cgroup2" or first:
            for folder in _folders(mount, paths.get("pids" if first else "", "/")):
                limit, used = _number(host.read(f"{folder}/pids.max")), _number(host.read(f"{folder}/pids.current"))
                if limit is not None and used is not None:
                    found.append(Tasks(used, limit))
    return min(found, key=lambda tasks: tasks.limit - tasks.used, default=None)


def _folders(mount: Mount, path: str) -> Iterator[str]:
    """The folder of this process's group below the mount point, then its parents, up to the mount point.

    Without a cgroup namespace a container sees its host's path, and the mount's root is that same path.
    """
    root = mount.root.rstrip("/")
    if path == root:
        path = ""
    elif root and path.startswith(root + "/"):
        path = path[len(root) :]
    elif root or "/.." in path:
        path = ""  # the group lies outside of what is mounted: its top is the nearest one can see
    parts = [part for part in path.split("/") if part]
    for length in range(len(parts), -1, -1):
        yield "/".join([mount.point.rstrip("/"), *parts[:length]])


def _cpu_v2(text: str | None) -> list[float]:
    """ "200000 100000" or "max 100000"."""
    quota, _, period = (text or "").strip().partition(" ")
    return _cores(quota, period or "100000")


def _cpu_v1(quota: str | None, period: str | None) -> list[float]:
    """The quota is -1 where there is none."""
    return _cores((quota or "").strip(), (period or "").strip())


def _cores(quota: str, period: str) -> list[float]:
    if quota.isdecimal() and period.isdecimal() and int(quota) > 0 and int(period) > 0:
        return [round(int(quota) / int(period), 3)]
    return []


def _number(text: str | None) -> int | None:
    number = (text or "").strip()
    return int(number) if number.isdecimal() and int(number) < NO_LIMIT else None


def _stat(text: str | None, name: str) -> int | None:
    """One "name value" line of memory.stat."""
    for line in (text or "").splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return _number(value)
    return None


def _free(limit: int, used: str | None, stat: str | None, reclaimable: str) -> list[int]:
    use = _number(used)
    return [] if use is None else [max(0, limit - use + min(use, _stat(stat, reclaimable) or 0))]


def oom_kills(host: Host) -> int | None:
    """How many processes of this control group the kernel has killed for want of memory; None if it does not say."""
    paths = parse_cgroup(host.read("/proc/self/cgroup"))
    if not paths:
        return None
    for mount in parse_mountinfo(host.read("/proc/self/mountinfo")):
        memory = mount.kind == "cgroup" and "memory" in mount.options.split(",")
        if mount.kind == "cgroup2" or memory:
            file = "memory.oom_control" if memory else "memory.events"
            folder = next(_folders(mount, paths.get("memory" if memory else "", "/")))
            if (count := _stat(host.read(f"{folder}/{file}"), "oom_kill")) is not None:
                return count
    return None
