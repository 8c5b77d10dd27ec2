"""What the kernel says of the time in which a command ran: kills for want of memory, crashes, and how much memory it took."""

from __future__ import annotations

import os
import re
import sys

from envcheck.facts.record import record

KMSG = "/dev/kmsg"
MOST_RECORDS, RECORD_BYTES = 4000, 8192

_OOM = re.compile(r"(?:Out of memory|Memory cgroup out of memory): Kill(?:ed)? process (\d{1,9}) ")
_CPU_LIMIT = re.compile(r"^Max cpu time {1,30}(\d{1,19}|unlimited) {1,30}(\d{1,19}|unlimited)", re.MULTILINE)
_CRASH = re.compile(r"\[(\d{1,9})\](?::)? (?:segfault at |general protection|trap |bad frame)")


@record
class CpuTime:
    """What a process had used when it ended, and what it was allowed, in seconds."""

    own: float
    of_all: float  # with those that it started and waited for, each of which has the limit by itself
    soft: int | None = None
    hard: int | None = None


@record
class KernelWord:
    """None and nothing where the kernel may not be asked."""

    kills: int | None = None  # of this control group's processes
    killed: tuple[str, ...] = ()  # lines of its log on processes killed for want of memory
    crashed: tuple[str, ...] = ()  # and on processes that crashed
    largest_bytes: int | None = None  # the most memory that one process held
    cpu: CpuTime | None = None

    @property
    def of_memory(self) -> bool:
        """Whether a kill for want of memory was seen."""
        return bool(self.kills or self.killed)


class KernelWatch:
    """Asks before a command starts, and again when it has ended."""

    def __init__(self) -> None:
        self._log = _open_log()
        self._kills = _kills()
        self._largest = _largest()

    def word(self, pid: int) -> KernelWord:
        """What was said since. Lines on other processes than `pid` and its control group's are left out."""
        kills, largest = _kills(), _largest()
        new = None if kills is None or self._kills is None else max(0, kills - self._kills)
        killed: list[str] = []
        crashed: list[tuple[int, str]] = []
        for line in _records(self._log):
            if (oom := _OOM.search(line)) and (new or int(oom[1]) == pid):
                killed.append(line)
            elif crash := _CRASH.search(line):
                crashed.append((int(crash[1]), line))
        ours = [row for row in crashed if row[0] == pid] or crashed
        grew = largest is not None and self._largest is not None and largest > self._largest
        return KernelWord(new, tuple(killed[:3]), tuple(line for _, line in ours[-2:]), largest if grew else None)


def cpu_of_ended(pid: int) -> CpuTime | None:
    """Of a child that has ended and was not waited for: Linux keeps its limits and times until then. None if it runs, or elsewhere."""
    try:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return None
        with open(f"/proc/{pid}/limits", encoding="ascii") as file:
            limit = _CPU_LIMIT.search(file.read())
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            times = [int(one) / os.sysconf("SC_CLK_TCK") for one in file.read().rpartition(")")[2].split()[11:15]]
    except (OSError, ValueError, AttributeError):
        return None
    soft, hard = (int(one) if one.isdecimal() else None for one in limit.groups()) if limit else (None, None)
    return CpuTime(sum(times[:2]), sum(times), soft, hard)


def _kills() -> int | None:
    from envcheck.host.access import RealHost
    from envcheck.probes.cgroup import oom_kills

    host = RealHost()
    try:
        return oom_kills(host)
    finally:
        host.close()


def _largest() -> int | None:
    """Of all processes that we have waited for, the check's own among them."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return most if sys.platform == "darwin" else most << 10


def _open_log() -> int | None:
    """The kernel's log from here on; None where this user may not read it."""
    try:
        log = os.open(KMSG, os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, AttributeError):
        return None
    try:
        os.lseek(log, 0, os.SEEK_END)
    except OSError:
        os.close(log)
        return None
    return log


def _records(log: int | None) -> list[str]:
    """ "6,1234,5678,-;python[42]: segfault at 0 …": what stands behind the semicolon."""
    found: list[str] = []
    if log is None:
        return found
    try:
        while len(found) < MOST_RECORDS:
            found.append(os.read(log, RECORD_BYTES).decode("utf-8", "replace").partition(";")[2].partition("\n")[0])
    except OSError:  # EAGAIN: that was the last one
        pass
    finally:
        os.close(log)
    return found
