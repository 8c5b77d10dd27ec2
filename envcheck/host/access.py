"""The only door to the operating system: everything a probe may do.

`RealHost` acts, `RecordingHost` also keeps what it saw, `ReplayHost` plays a recorded machine.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from envcheck import FOLDER
from envcheck.facts.record import field, mutable, record
from envcheck.host.library_search import library_files
from envcheck.host.syscalls import (
    Disk,
    Resolved,
    Trial,
    allocate,
    cpu_counts,
    disk_space,
    group_ids,
    ipv4_addresses,
    platform_facts,
    resolve,
    resource_limits,
    reverse,
)

READ_LIMIT = 1 << 20
FILE_LIMIT = 64 << 20


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
    def platform(self) -> Mapping[str, str]: ...
    def cpus(self) -> tuple[int | None, int | None]: ...
    def groups(self) -> tuple[int, ...]: ...
    def limits(self) -> Mapping[str, tuple[int | None, int | None]]: ...
    def disk(self, path: str) -> Disk | None: ...
    def allocate_shm(self, size: int) -> Trial: ...
    def resolve(self, name: str, timeout: float) -> Resolved: ...
    def reverse(self, address: str, timeout: float) -> float | None: ...
    def addresses(self) -> tuple[tuple[str, str], ...]: ...
    def today(self) -> str | None: ...
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

    Output is taken from files, not pipes, so that a grandchild that keeps a pipe open cannot hold us.
    """
    import tempfile

    began = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
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
        _bound_output(process)
        if running is not None:
            running.add(process)
        try:
            timed_out = not wait(process, timeout)
        finally:
            kill_group(process)
            if running is not None:
                running.discard(process)
        code = None if timed_out else process.returncode
        return Completed(tuple(argv), code, _tail(out), _tail(err), time.monotonic() - began, timed_out)


def _bound_output(process: subprocess.Popen[Any]) -> None:
    """No answer is that long. A tool that writes without end is killed by SIGXFSZ and does not fill the disk."""
    try:
        import resource

        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (FILE_LIMIT, FILE_LIMIT))
    except (ImportError, AttributeError, OSError, ValueError):
        return  # not Linux, a child of another user (setuid), already ended, or a lower limit of the user's own


def _tail(file: Any) -> str:
    file.seek(0)
    data: bytes = file.read(READ_LIMIT)
    return data.decode("utf-8", "replace")


def wait(process: subprocess.Popen[Any], seconds: float) -> bool:
    """True if the process ended within `seconds`; wakes at once where the kernel has pidfds."""
    if process.poll() is not None:
        return True
    try:
        fd = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True
    import select

    try:
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        if not poller.poll(max(0, seconds) * 1000):
            return False
    finally:
        os.close(fd)
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


class RealHost:
    """This machine."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self._env = dict(os.environ if env is None else env)
        self._running = RunningProcesses()
        # However the tool ends (Ctrl-C, a deadline that left a probe's thread behind), its children end with it.
        atexit.register(self._running.close)

    @property
    def env(self) -> Mapping[str, str]:
        return self._env

    def run(self, argv: Sequence[str], *, timeout: float, env: Mapping[str, str] | None = None) -> Completed:
        # Fixed messages and numbers: a translated nvidia-smi or gcc cannot be read.
        return run_command(argv, timeout=timeout, env={**self._env, "LC_ALL": "C", **(env or {})}, running=self._running)

    def close(self) -> None:
        """Kill what probes in other threads still run: a thread cannot be interrupted, its child can."""
        self._running.close()

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
        """The text of a file, at most `limit` bytes; None if it cannot be read."""
        try:
            with open(path, "rb") as file:
                return file.read(limit).decode("utf-8", "replace")
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
        return os.path.realpath(path)

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

    def platform(self) -> Mapping[str, str]:
        """system, release, version, machine, node, libc … (`syscalls.platform_facts`)."""
        return platform_facts()

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

    def addresses(self) -> tuple[tuple[str, str], ...]:
        """(interface, IPv4 address) pairs of this host."""
        return ipv4_addresses()

    def today(self) -> str | None:
        """The day in UTC, "2026-11-27"."""
        return time.strftime("%Y-%m-%d", time.gmtime())


def _answer(done: Completed) -> dict[str, Any]:
    return {
        "code": done.code,
        "stdout": done.stdout,
        "stderr": done.stderr,
        "seconds": round(done.seconds, 3),
        "timed_out": done.timed_out,
        "not_found": done.not_found,
        "not_executable": done.not_executable,
    }


@mutable
class RecordingHost:
    """A host that keeps every answer, as a recorded machine for `ReplayHost`."""

    inner: Host
    answers: dict[str, Any] = field(default_factory=dict)

    @property
    def env(self) -> Mapping[str, str]:
        return self.inner.env

    def run(self, argv: Sequence[str], *, timeout: float, env: Mapping[str, str] | None = None) -> Completed:
        done = self.inner.run(argv, timeout=timeout, env=env)
        self.answers["run " + "\0".join(argv)] = _answer(done)
        return done

    def libraries(self, name: str) -> tuple[str, ...]:
        answer: tuple[str, ...] = self._keep(f"libraries {name}", self.inner.libraries(name))
        return answer

    def child(self, program: str, *arguments: str, timeout: float) -> Completed:
        # Arguments name folders of this installation; the program alone is the question.
        done = self.inner.child(program, *arguments, timeout=timeout)
        self.answers[f"child {program}"] = _answer(done)
        return done

    def _keep(self, key: str, answer: Any) -> Any:
        self.answers[key] = answer
        return answer

    def read(self, path: str, limit: int = READ_LIMIT) -> str | None:
        answer: str | None = self._keep(f"read {path}", self.inner.read(path, limit))
        return answer

    def listdir(self, path: str) -> tuple[str, ...] | None:
        answer: tuple[str, ...] | None = self._keep(f"listdir {path}", self.inner.listdir(path))
        return answer

    def exists(self, path: str) -> bool:
        return bool(self._keep(f"exists {path}", self.inner.exists(path)))

    def realpath(self, path: str) -> str:
        return str(self._keep(f"realpath {path}", self.inner.realpath(path)))

    def access(self, path: str, mode: str) -> bool:
        return bool(self._keep(f"access {mode} {path}", self.inner.access(path, mode)))

    def which(self, name: str) -> str | None:
        answer: str | None = self._keep(f"which {name}", self.inner.which(name))
        return answer

    def readlink(self, path: str) -> str | None:
        answer: str | None = self._keep(f"readlink {path}", self.inner.readlink(path))
        return answer

    def platform(self) -> Mapping[str, str]:
        answer: Mapping[str, str] = self._keep("platform", self.inner.platform())
        return answer

    def cpus(self) -> tuple[int | None, int | None]:
        answer: tuple[int | None, int | None] = self._keep("cpus", self.inner.cpus())
        return answer

    def groups(self) -> tuple[int, ...]:
        answer: tuple[int, ...] = self._keep("groups", self.inner.groups())
        return answer

    def limits(self) -> Mapping[str, tuple[int | None, int | None]]:
        answer: Mapping[str, tuple[int | None, int | None]] = self._keep("limits", self.inner.limits())
        return answer

    def disk(self, path: str) -> Disk | None:
        answer = self.inner.disk(path)
        self._keep(f"disk {path}", None if answer is None else answer._asdict())
        return answer

    def allocate_shm(self, size: int) -> Trial:
        answer = self.inner.allocate_shm(size)
        self._keep("allocate_shm", answer._asdict())
        return answer

    def resolve(self, name: str, timeout: float) -> Resolved:
        answer = self.inner.resolve(name, timeout)
        self._keep(f"resolve {name}", {**answer._asdict(), "seconds": round(answer.seconds, 3)})
        return answer

    def reverse(self, address: str, timeout: float) -> float | None:
        seconds = self.inner.reverse(address, timeout)
        answer: float | None = self._keep("reverse", None if seconds is None else round(seconds, 3))
        return answer

    def addresses(self) -> tuple[tuple[str, str], ...]:
        answer: tuple[tuple[str, str], ...] = self._keep("addresses", self.inner.addresses())
        return answer

    def today(self) -> str | None:
        answer: str | None = self._keep("today", self.inner.today())
        return answer


class ReplayHost:
    """A recorded machine. What was not recorded is absent: no file, no binary.

    `answers` uses the keys of `RecordingHost` ("read /proc/meminfo", "run nvidia-smi\\0-L", "which nvcc").
    """

    def __init__(self, answers: Mapping[str, Any], env: Mapping[str, str] | None = None) -> None:
        self._answers = answers
        self._env = dict(env or {})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ReplayHost:
        with open(path, encoding="utf-8") as file:
            recorded = json.load(file)
        return cls(recorded["answers"], recorded.get("env", {}))

    @property
    def env(self) -> Mapping[str, str]:
        return self._env

    def run(self, argv: Sequence[str], *, timeout: float, env: Mapping[str, str] | None = None) -> Completed:
        answer = self._answers.get("run " + "\0".join(argv))
        if answer is None:
            return Completed(tuple(argv), not_found=True)
        return Completed(tuple(argv), **answer)

    def libraries(self, name: str) -> tuple[str, ...]:
        return tuple(self._answers.get(f"libraries {name}", ()))

    def child(self, program: str, *arguments: str, timeout: float) -> Completed:
        answer = self._answers.get(f"child {program}")
        argv = (program, *arguments)
        return Completed(argv, not_found=True) if answer is None else Completed(argv, **answer)

    def read(self, path: str, limit: int = READ_LIMIT) -> str | None:
        answer = self._answers.get(f"read {path}")
        return None if answer is None else str(answer)[:limit]

    def listdir(self, path: str) -> tuple[str, ...] | None:
        answer = self._answers.get(f"listdir {path}")
        return None if answer is None else tuple(answer)

    def exists(self, path: str) -> bool:
        answer = self._answers.get(f"exists {path}")
        if answer is not None:
            return bool(answer)
        return any(self._answers.get(f"{verb} {path}") is not None for verb in ("read", "listdir"))

    def realpath(self, path: str) -> str:
        return str(self._answers.get(f"realpath {path}", path))

    def access(self, path: str, mode: str) -> bool:
        return bool(self._answers.get(f"access {mode} {path}", False))

    def which(self, name: str) -> str | None:
        answer = self._answers.get(f"which {name}")
        return None if answer is None else str(answer)

    def readlink(self, path: str) -> str | None:
        answer = self._answers.get(f"readlink {path}")
        return None if answer is None else str(answer)

    def platform(self) -> Mapping[str, str]:
        answer: Mapping[str, str] = self._answers.get("platform", {})
        return answer

    def cpus(self) -> tuple[int | None, int | None]:
        online, usable = self._answers.get("cpus", (None, None))
        return online, usable

    def groups(self) -> tuple[int, ...]:
        return tuple(self._answers.get("groups", ()))

    def limits(self) -> Mapping[str, tuple[int | None, int | None]]:
        return {name: (soft, hard) for name, (soft, hard) in self._answers.get("limits", {}).items()}

    def disk(self, path: str) -> Disk | None:
        answer = self._answers.get(f"disk {path}")
        return None if answer is None else Disk(**answer)

    def allocate_shm(self, size: int) -> Trial:
        """The recorded trial; where there was none, a file system that gives what it is asked for."""
        answer = self._answers.get("allocate_shm")
        return Trial(size, size) if answer is None else Trial(**answer)

    def resolve(self, name: str, timeout: float) -> Resolved:
        answer = self._answers.get(f"resolve {name}")
        if answer is None:
            return Resolved((), "not recorded")
        return Resolved(**{**answer, "addresses": tuple(answer.get("addresses", ()))})

    def reverse(self, address: str, timeout: float) -> float | None:
        answer = self._answers.get("reverse")
        return None if answer is None else float(answer)

    def addresses(self) -> tuple[tuple[str, str], ...]:
        return tuple((name, address) for name, address in self._answers.get("addresses", ()))

    def today(self) -> str | None:
        answer = self._answers.get("today")
        return None if answer is None else str(answer)
