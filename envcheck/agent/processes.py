"""Children of the agent: forking, waiting with a deadline, ending, and the stacks that they leave."""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings

from . import jsonl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Optional, Sequence, Tuple

PR_SET_PDEATHSIG = 1  # prctl(2)
KEEPER_SECONDS = 6.0  # for what removes shared memory when those who had it are gone: torch's needs three of an idle machine
LOG_LIMIT = 64 << 20  # bytes that a child's output may take on disk; only its end is ever read


def fork() -> int:
    """os.fork without its warning: from Python 3.12 it warns when there are threads, and under -W error the *parent* raises then."""
    with warnings.catch_warnings(module=warnings):  # not sys.modules["warnings"], which may be the patient's own
        warnings.simplefilter("ignore")
        return os.fork()


def fork_with_pipe() -> Tuple[int, int, int]:
    """The child's id (0 in the child) and the two ends of a pipe between us: to receive, to send."""
    receive, send = os.pipe()
    try:
        return fork(), receive, send
    except OSError:
        os.close(receive)
        os.close(send)
        raise


def keep_exit_statuses() -> None:
    """Undo SIGCHLD = ignore, inherited or set by the patient: the kernel would reap our children and lose how they ended."""
    if hasattr(signal, "SIGCHLD") and signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def die_with_parent(parent: Optional[int] = None) -> None:
    """Ask Linux to kill this process when the one that started it dies, however it dies.

    A forked child knows its parent's pid. An interpreter started afresh does not: then a parent that is gone before this
    call goes unseen, and the deadlines end what is left.
    """
    if sys.platform != "linux":
        return
    if parent is None:
        parent = os.getppid()
    try:
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    except Exception:
        return
    if os.getppid() != parent:
        os._exit(1)


def die_with_the_pipe(tie: Sequence[Sequence[int]]) -> None:
    """The same where a wrapper that does not exec stands between us and envcheck, which alone holds the other end of this pipe.

    `tie` is its number and its inode, or nothing: a wrapper may have closed it, and have put something else there.
    """
    try:
        import fcntl

        for number, inode in tie:
            if os.fstat(number).st_ino != inode:
                continue
            os.set_inheritable(number, False)
            fcntl.fcntl(number, fcntl.F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(number, fcntl.F_SETOWN, os.getpid())
            fcntl.fcntl(number, fcntl.F_SETFL, fcntl.fcntl(number, fcntl.F_GETFL) | fcntl.FASYNC)
            if wait_readable([number], 0):  # nobody writes, so this is its end
                os._exit(1)
    except Exception:
        return


def keep_standard_descriptors() -> None:
    """0, 1 and 2 are open again if the patient has closed them: a pipe of ours that got such a number would be taken for one."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one


def leave_stacks(path: str) -> None:
    """SIGUSR1 makes this process write the stacks of all its threads to `path`; a crash writes them to stderr."""
    try:
        import faulthandler

        # The descriptor, not sys.stderr: a sitecustomize may have put there what has none.
        faulthandler.enable(file=2)
        if hasattr(signal, "SIGUSR1"):
            stacks = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)  # stays open as long as the handler stands
            faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
    except Exception as error:  # a full disk, no descriptor 2: the check goes on without stacks
        if sys.stderr:
            sys.stderr.write("envcheck-agent: no stacks: %s\n" % error)


def ask_for_stack(pid: int) -> None:
    """Only for children of ours that are not reaped, so that the pid can be nobody else's."""
    if hasattr(signal, "SIGUSR1"):
        os.kill(pid, signal.SIGUSR1)


def exit_status(pid: int) -> Optional[int]:
    """Exit code of a child of ours, negative for a signal; None while it runs."""
    try:
        done, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:  # something in this process reaped it: how it ended is lost, what it said before is not
        return 0
    if not done:
        return None
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def reap(pid: int, seconds: float) -> Optional[int]:
    """The exit status as soon as there is one, None if there is none within `seconds`."""
    limit = time.monotonic() + seconds
    while True:
        status = exit_status(pid)
        if status is not None or time.monotonic() > limit:
            return status
        time.sleep(0.002)


def wait_readable(fds: Sequence[int], seconds: float) -> List[int]:
    """Those of `fds` that can be read or are at their end. poll knows descriptors above 1023, which select refuses."""
    import select

    if hasattr(select, "poll"):
        poller = select.poll()
        for fd in fds:
            poller.register(fd, select.POLLIN)
        return [fd for fd, _ in poller.poll(max(0, int(seconds * 1000)))]
    return list(select.select(fds, [], [], max(0.0, seconds))[0])


def drain(fd: int) -> Tuple[bytes, bool]:
    """What a pipe that does not block holds just now, and whether it is at its end."""
    data = b""
    try:
        while len(data) < 1 << 22:
            part = os.read(fd, 65536)
            if not part:
                return data, True
            data += part
    except BlockingIOError:
        pass
    return data, False


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "signal %d" % number


def state(pid: int) -> str:
    """State and kernel wait channel, e.g. "T (stopped)", "S (sleeping) in ep_poll"; empty where there is no /proc."""
    found = ""
    try:
        with open("/proc/%d/status" % pid, encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("State:"):
                    found = line.split(":", 1)[1].strip()
        with open("/proc/%d/wchan" % pid, encoding="utf-8", errors="replace") as file:
            channel = file.read().strip()
        if channel and channel != "0":
            found += " in " + channel
    except OSError:
        pass
    return found


def emptied_above(path: str, limit: int) -> None:
    """A log that has grown beyond `limit` bytes begins again."""
    try:
        if os.path.getsize(path) > limit:
            os.truncate(path, 0)
    except OSError:
        pass


def tail(path: str, limit: int = 6000) -> str:
    try:
        with open(jsonl.plain_file(path), "rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - limit))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def adopt_orphans() -> None:
    """Descendants whose parent is gone become our children, so that they can be found and ended (PR_SET_CHILD_SUBREAPER)."""
    if sys.platform == "linux":
        try:
            import ctypes

            ctypes.CDLL(None).prctl(36, 1)
        except Exception:
            return


def parents() -> Dict[int, int]:
    """pid → parent's pid of all processes, from /proc; nothing where there is none."""
    found: Dict[int, int] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return found
    for name in names:
        if name.isdecimal():
            try:
                with open("/proc/%s/stat" % name, "rb") as file:  # 812 (my (odd) name) S 1 …
                    found[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
    return found


def descendants(root: int) -> List[int]:
    """All processes below `root`, the nearest first."""
    known, level = parents(), {root}
    found: List[int] = []
    while level:
        level = {pid for pid, parent in known.items() if parent in level and pid != root} - set(found)
        found += sorted(level)
    return found


def cpu_seconds(root: int) -> float:
    """CPU time of a process and of all below it, those that have ended included; 0.0 where there is no /proc."""
    ticks = 0
    for pid in (root, *descendants(root)):
        try:
            with open("/proc/%d/stat" % pid, "rb") as file:  # 812 (name) S 1 …: utime, stime, cutime, cstime are fields 14 to 17
                ticks += sum(int(field) for field in file.read().rpartition(b")")[2].split()[11:15])
        except (OSError, ValueError):
            continue
    return ticks / float(os.sysconf("SC_CLK_TCK"))


class Pulse:
    """Whether something that is late, and should compute meanwhile, still does: then the machine is slow, and nothing hangs."""

    WINDOW = 3.0  # seconds
    SHARE = 0.03  # of one processor; twenty others may want it too

    def __init__(self) -> None:
        self.at = self.spent = 0.0

    def beats(self, pid: int, now: float) -> bool:
        """To be asked again and again; true until a whole window has brought next to no CPU time."""
        if self.at and now - self.at < self.WINDOW:
            return True
        before, spent = self.at, self.spent
        self.at, self.spent = now, cpu_seconds(pid)
        return not before or self.spent - spent > self.SHARE * (now - before)


def end_tree(root: int) -> None:
    """SIGKILL a child of ours and everything below it, until nothing is left of it (3 s at most, without what keeps shared memory)."""
    began = time.monotonic()
    limit = began + 3
    below = descendants(root)
    kill(root)
    for pid in below:
        if not keeps_shared_memory(pid):
            kill(pid)
    reap(root, 3)
    while time.monotonic() < limit:
        below = [pid for pid in below if exists(pid)]
        if not below:
            return
        for pid in below:  # adopted by now, where that is possible
            exit_status(pid)
            if time.monotonic() > limit - 2:
                kill(pid)
            elif keeps_shared_memory(pid):
                limit = max(limit, began + KEEPER_SECONDS)
        time.sleep(0.01)


def end_strays(known: Sequence[int]) -> None:
    """End children of ours that nobody knows: orphans that we adopted."""
    own = os.getpid()
    for _ in range(20):
        strays = [pid for pid, parent in parents().items() if parent == own and pid not in known]
        if not strays:
            return
        for pid in strays:
            if keeps_shared_memory(pid) and reap(pid, KEEPER_SECONDS) is not None:
                continue
            kill(pid)
            for below in descendants(pid):
                kill(below)
            reap(pid, 1)


def keeps_shared_memory(pid: int) -> bool:
    """Whether this process removes what others leave in /dev/shm, as soon as they have ended (host/orphans.py)."""
    return any(command_holds(pid, word) for word in ("multiprocessing.resource_tracker", "torch_shm_manager"))


def complaint(command: Sequence[str], seconds: float, limit: int = 1 << 20) -> Tuple[Optional[int], str]:
    """Exit code of a program and what it said on stderr, `limit` bytes at most; None if it did not end within `seconds`, or says more
    than a log may hold: then it is ended."""
    import subprocess

    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline, said, size, code = time.monotonic() + seconds, b"", 0, None
    assert process.stderr  # noqa: S101 - a pipe, as asked for
    with process.stderr as pipe:
        os.set_blocking(pipe.fileno(), False)
        while size <= LOG_LIMIT and time.monotonic() < deadline:
            code = process.poll()  # before the last read, so that nothing written before the end is missed
            wait_readable([pipe.fileno()], 0.0 if code is not None else 0.05)
            part, _ = drain(pipe.fileno())
            said, size = (said + part)[:limit], size + len(part)
            if code is not None:
                break
    if code is None:
        process.kill()
        jsonl.attempt(process.wait, 5)
    return code, said.decode("utf-8", "replace")


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass


def exists(pid: int) -> bool:
    return state(pid) != ""


def command_holds(pid: int, word: str) -> bool:
    """Whether this pid is still the process that we think it is."""
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            return os.fsencode(word) in file.read()
    except OSError:
        return False
