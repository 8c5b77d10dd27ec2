"""The only door to the operating system: everything a probe may do. `RealHost` does it here; recording.py keeps and replays machines."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from envcheck import FOLDER
from envcheck.facts.dead_mount import answers
from envcheck.facts.record import record
from envcheck.host.command_output import command_output
from envcheck.host.home import with_own_home
from envcheck.host.library_search import library_files
from envcheck.host.orphans import children, end_all, group_of
from envcheck.host.ownership import safe_variables
from envcheck.host.plain_files import beginning, real_path
from envcheck.host.syscalls import (
    Disk,
    Resolved,
    Trial,
    allocate,
    cpu_counts,
    disk_space,
    full_name,
    group_ids,
    ipv4_addresses,
    network_links,
    platform_facts,
    resolve,
    resource_limits,
    reverse,
)

READ_LIMIT = 1 << 20  # bytes of a file
FILE_LIMIT = 64 << 20  # bytes of a file that a program may write
ENVIRONMENT_LIMIT = 1 << 18  # bytes of another process's variables


def signal_name(code: int | None) -> str | None:
    """Of a process that ended with this code (negative: by a signal): "SIGSEGV", or None."""
    if code is None or code >= 0:
        return None
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


@record
class Completed:
    """The end of one command. A binary that is not there or does not answer is a value, not an exception."""

    argv: tuple[str, ...]
    code: int | None = None
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    timed_out: bool = False
    not_found: bool = False
    not_executable: bool = False

    @property
    def signal(self) -> str | None:
        """Name of the signal that killed it, or None."""
        return signal_name(self.code)

    @property
    def ok(self) -> bool:
        return self.code == 0 and not self.timed_out


class Host(Protocol):
    """What a probe may ask."""

    @property
    def env(self) -> Mapping[str, str]: ...

    def run(self, argv: Sequence[str], *, timeout: float, env: Mapping[str, str] | None = None) -> Completed: ...
    def read(self, path: str, limit: int = READ_LIMIT) -> str | None: ...
    def listdir(self, path: str) -> tuple[str, ...] | None: ...
    def exists(self, path: str) -> bool: ...
    def realpath(self, path: str) -> str: ...
    def access(self, path: str, mode: str) -> bool: ...
    def which(self, name: str) -> str | None: ...
    def readlink(self, path: str) -> str | None: ...
    def variables_of(self, pid: str, names: Sequence[str]) -> Mapping[str, str]: ...
    def platform(self) -> Mapping[str, str]: ...
    def cpus(self) -> tuple[int | None, int | None]: ...
    def groups(self) -> tuple[int, ...]: ...
    def limits(self) -> Mapping[str, tuple[int | None, int | None]]: ...
    def disk(self, path: str) -> Disk | None: ...
    def allocate_shm(self, size: int) -> Trial: ...
    def resolve(self, name: str, timeout: float) -> Resolved: ...
    def reverse(self, address: str, timeout: float) -> float | None: ...
    def full_name(self, name: str, timeout: float) -> str | None: ...
    def addresses(self) -> tuple[tuple[str, str], ...]: ...
    def links(self) -> tuple[tuple[str, int, int], ...]: ...
    def today(self) -> str | None: ...
    def clock(self) -> str | None: ...
    def libraries(self, name: str) -> tuple[str, ...]: ...
    def child(self, program: str, *arguments: str, timeout: float) -> Completed: ...


class RunningProcesses:
    """The processes of one host that have not ended, so that all can be ended at once."""

    def __init__(self) -> None:
        self._processes: set[subprocess.Popen[Any]] = set()
        self._closed = False

    def add(self, process: subprocess.Popen[Any]) -> None:
        self._processes.add(process)
        if self._closed:
            kill_group(process)

    def discard(self, process: subprocess.Popen[Any]) -> None:
        self._processes.discard(process)

    def close(self) -> None:
        """End what runs, and whatever a thread may still start."""
        self._closed = True
        for process in tuple(self._processes):
            kill_group(process)


def run_command(
    argv: Sequence[str],
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    running: RunningProcesses | None = None,
) -> Completed:
    """Run argv without a shell, in a session of its own; at the deadline, or at Ctrl-C, the whole group is killed.

    A grandchild that keeps its output open does not hold us.
    """
    began = time.monotonic()
    try:
        printed = command_output()
    except OSError as error:
        return Completed(tuple(argv), not_executable=True, stderr=f"there is no place for what it prints: {error.strerror}")
    with printed:
        out, err = printed.given
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=None if env is None else dict(env),
                cwd=cwd,
                start_new_session=True,
            )
        except FileNotFoundError:
            return Completed(tuple(argv), not_found=True)
        except OSError as error:
            return Completed(tuple(argv), not_executable=True, stderr=str(error))
        bound(process, FILE_LIMIT)
        printed.handed_over()
        if running is not None:
            running.add(process)
        try:
            timed_out = not printed.wait(process, timeout)
        finally:
            kill_group(process)
            if running is not None:
                running.discard(process)
        code = None if timed_out else process.returncode
        return Completed(tuple(argv), code, *printed.texts(), time.monotonic() - began, timed_out)


def bound(process: subprocess.Popen[Any], file_limit: int | None = None) -> None:
    """What crashes under our hands leaves no core file in the user's folder, and no file of its own is longer than `file_limit`.

    Limits of the child alone, and of what it has started by now: ours may be those of a notebook, with other children.
    """
    try:
        import resource

        limits = [(resource.RLIMIT_CORE, 0, resource.getrlimit(resource.RLIMIT_CORE)[1])]
        if file_limit is not None:
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            most = file_limit if hard == resource.RLIM_INFINITY else min(file_limit, hard)
            limits.append((resource.RLIMIT_FSIZE, most, most))
    except (ImportError, OSError):  # Windows
        return
    unbound = {process.pid}
    while unbound:
        unbound = {child for pid in unbound if _bounded(pid, limits) for child in children(pid)}


def _bounded(pid: int, limits: Sequence[tuple[int, int, int]]) -> bool:
    """Whether it had other limits until now. If not, what it has started has them from it."""
    import resource

    try:
        return [resource.prlimit(pid, kind, (soft, hard)) for kind, soft, hard in limits] != [(soft, hard) for _, soft, hard in limits]
    except (AttributeError, OSError, ValueError):
        return False  # not Linux, a child of another user (setuid), already ended, or a lower limit of the user's own


def wait(process: subprocess.Popen[Any], seconds: float) -> bool:
    """True if the process ended within `seconds`; wakes at once where the kernel has pidfds."""
    if process.poll() is not None:
        return True
    try:
        fd = os.pidfd_open(process.pid)
        try:
            import select

            poller = select.poll()
            poller.register(fd, select.POLLIN)
            if not poller.poll(max(0, seconds) * 1000):
                return False
        finally:
            os.close(fd)
    except (AttributeError, OSError):  # an old kernel, or a filter of system calls
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True
    return process.poll() is not None


def kill_group(process: subprocess.Popen[Any]) -> bool:
    """Kill what is left of a process group that we started. False if the leader cannot be reaped (stuck in the kernel)."""
    if hasattr(os, "killpg"):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
    elif process.poll() is None:
        process.kill()
    return wait(process, 3.0)


def end_group(process: subprocess.Popen[Any]) -> bool:
    """`kill_group`, after those of its processes have ended that keep shared memory: they remove what the others left of it."""
    if hasattr(os, "killpg"):
        try:
            os.killpg(process.pid, 0)
        except OSError:  # nothing is left
            return wait(process, 0)
        process.kill()
        if wait(process, 3.0):
            end_all(lambda: group_of(process.pid))
    return kill_group(process)


_OF_THE_KERNEL = ("/proc/", "/sys/")


class RealHost:
    """This machine."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self._env, self._left_out = safe_variables(os.environ if env is None else env)
        self._started = with_own_home(self._env)  # of what is started: rocm-smi is written in Python
        self.mark: Mapping[str, str] = {}  # added to the environment of what is started
        self._running = RunningProcesses()
        # However the tool ends (Ctrl-C, a deadline that left a probe's thread behind), its children end with it.
        atexit.register(self._running.close)

    @property
    def env(self) -> Mapping[str, str]:
        return self._env

    def run(self, argv: Sequence[str], *, timeout: float, env: Mapping[str, str] | None = None) -> Completed:
        # Fixed messages and numbers: a translated nvidia-smi or gcc cannot be read.
        given = {**self._started, "LC_ALL": "C", **self.mark, **(env or {})}
        return run_command(argv, timeout=timeout, env=given, running=self._running)

    def close(self) -> None:
        """Kill what probes in other threads still run: a thread cannot be interrupted, its child can."""
        self._running.close()
        atexit.unregister(self._running.close)

    def libraries(self, name: str) -> tuple[str, ...]:
        """Every file that the dynamic loader may take for a library, first one first."""
        return library_files(name, self._env)

    def child(self, program: str, *arguments: str, timeout: float) -> Completed:
        """Run envcheck/probes/PROGRAM.py, which may crash or hang, in a bare interpreter of ours.

        -I -S -B: no PYTHONPATH, no site-packages, no sitecustomize (which may import torch), and no .pyc is written.
        """
        path = os.path.join(FOLDER, "probes", f"{program}.py")
        return self.run((sys.executable, "-I", "-S", "-B", path, *arguments), timeout=timeout)

    def read(self, path: str, limit: int = READ_LIMIT) -> str | None:
        """The text of a file, at most `limit` bytes; None if it cannot be read, or the file system that it is on does not answer."""
        try:
            return beginning(path, limit) if path.startswith(_OF_THE_KERNEL) or answers(path) else None
        except OSError:
            return None

    def listdir(self, path: str) -> tuple[str, ...] | None:
        try:
            return tuple(sorted(os.listdir(path)))
        except OSError:
            return None

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def realpath(self, path: str) -> str:
        return real_path(path)

    def access(self, path: str, mode: str) -> bool:
        """Whether this user may open path; mode is made of r, w, x."""
        return os.access(path, sum({"r": os.R_OK, "w": os.W_OK, "x": os.X_OK}[letter] for letter in mode))

    def which(self, name: str) -> str | None:
        return shutil.which(name, path=self._env.get("PATH", os.defpath))

    def readlink(self, path: str) -> str | None:
        try:
            return os.readlink(path)
        except (OSError, ValueError):
            return None

    def variables_of(self, pid: str, names: Sequence[str]) -> Mapping[str, str]:
        """Those of `names` that another process was started with. The rest of its environment is nobody's business."""
        entries = (entry.partition("=") for entry in (self.read(f"/proc/{pid}/environ", ENVIRONMENT_LIMIT) or "").split("\0"))
        return {name: value for name, _, value in entries if name in names}

    def platform(self) -> Mapping[str, str]:
        """system, release, version, machine, node, libc … (`syscalls.platform_facts`); as root what was left out of PATH, as one."""
        return {**platform_facts(), **({"path_left_out": os.pathsep.join(self._left_out)} if self._left_out else {})}

    def cpus(self) -> tuple[int | None, int | None]:
        """Processors online, and those that this process may use."""
        return cpu_counts()

    def groups(self) -> tuple[int, ...]:
        return group_ids()

    def limits(self) -> Mapping[str, tuple[int | None, int | None]]:
        """Resource limits by name (NOFILE, MEMLOCK …): soft and hard, None = unlimited."""
        return resource_limits()

    def disk(self, path: str) -> Disk | None:
        return disk_space(path)

    def allocate_shm(self, size: int) -> Trial:
        """Take `size` bytes of /dev/shm for a moment."""
        return allocate("/dev/shm", size)  # noqa: S108  # the folder is the question, no name is made up in it

    def resolve(self, name: str, timeout: float) -> Resolved:
        return resolve(name, timeout)

    def reverse(self, address: str, timeout: float) -> float | None:
        """Seconds until the question for the name of an address is answered."""
        return reverse(address, timeout)

    def full_name(self, name: str, timeout: float) -> str | None:
        """What socket.getfqdn makes of a host's name: its address, and what that is called."""
        return full_name(name, timeout)

    def addresses(self) -> tuple[tuple[str, str], ...]:
        """(interface, IPv4 address) pairs of this host."""
        return ipv4_addresses()

    def links(self) -> tuple[tuple[str, int, int], ...]:
        """(interface, flags, MTU) of this process's network namespace; empty where that cannot be asked."""
        return network_links()

    def today(self) -> str | None:
        """The day in UTC, "2026-11-27"."""
        return time.strftime("%Y-%m-%d", time.gmtime())

    def clock(self) -> str | None:
        """The time of day in UTC, "21:20:05"."""
        return time.strftime("%H:%M:%S", time.gmtime())
