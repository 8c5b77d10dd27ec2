"""A host of its own for what listens on every address: namespaces with no network but loopback, named localhost.

What torch's stores take in they unpickle in part, from whoever can reach them. So a way of starting that makes torch listen everywhere
is tried where "everywhere" is a loopback interface that only our processes have, and left out where the kernel grants none.
"""

from __future__ import annotations

import os
import socket
import struct
import sys

from . import jsonl, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, List, Optional, Sequence, Tuple


NEWNET, NEWUTS, NEWUSER = 0x40000000, 0x04000000, 0x10000000  # linux/sched.h
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1  # linux/sockios.h, linux/if.h
KINDS = ("user", "net", "uts")  # in the order in which they are entered: the first gives the right to enter the others
SECONDS = 5.0
EXPOSED = "it listens on every address of this machine, and "


class LoopbackHost:
    """Namespaces that live as long as one of their processes or this object."""

    def __init__(self, descriptors: Sequence[int], setns: Any) -> None:
        self.descriptors, self.setns = list(descriptors), setns

    def enter(self) -> None:
        """For a child that was just forked, as only a process of one thread may; also between fork and exec."""
        import ctypes

        for descriptor in self.descriptors:
            if self.setns(descriptor, 0):
                raise OSError("setns: " + os.strerror(ctypes.get_errno()))

    def close(self) -> None:
        for descriptor in self.descriptors:
            jsonl.attempt(os.close, descriptor)
        self.descriptors.clear()


def make() -> Tuple[Optional[LoopbackHost], str]:
    """The host, or None and why there is none to be had."""
    if sys.platform != "linux":
        return None, EXPOSED + "this system has no network namespaces"
    host: Optional[LoopbackHost] = None
    try:
        import ctypes

        setns = ctypes.CDLL(None, use_errno=True).setns
        host = LoopbackHost(said_by_child(build, held), setns)
        said_by_child(lambda: moved_in(host))
    except Exception as error:
        if host:
            host.close()
        return None, EXPOSED + "a network namespace is not allowed here: " + jsonl.said(error, 300)
    return host, ""


def said_by_child(function: Callable[[], None], ask: Callable[[int], Any] = lambda pid: None) -> Any:
    """Run `function` in a child, then `ask` about the child while it still stands there. OSError with its words if it fails."""
    pid, receive, send = processes.fork_with_pipe()
    if pid == 0:
        try:
            os.close(receive)
            processes.die_with_parent()
            try:
                function()
                told = b"+"
            except BaseException as error:
                told = jsonl.said(error, 300).encode("utf-8", "replace") or b"-"
            jsonl.write_all(send, told)
            processes.wait_readable([], SECONDS)
        finally:
            os._exit(0)
    os.close(send)
    try:
        told = os.read(receive, 2000) if processes.wait_readable([receive], SECONDS) else b"no answer"
        if told != b"+":
            raise OSError(told.decode("utf-8", "replace") or "the child that asked for one died")
        return ask(pid)
    finally:
        os.close(receive)
        processes.kill(pid)
        processes.reap(pid, 3)


def held(pid: int) -> List[int]:
    """Descriptors of the namespaces of this process that are not ours."""
    found: List[int] = []
    try:
        for kind in KINDS:
            path = "/proc/%s/ns/" + kind
            if os.readlink(path % pid) != os.readlink(path % "self"):
                found.append(os.open(path % pid, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        for descriptor in found:
            os.close(descriptor)
        raise
    return found


def build() -> None:
    """Leave the machine's network: with the rights that we have, else with those of a user namespace, in which we stay who we are."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(NEWNET | NEWUTS):
        if libc.unshare(NEWUSER | NEWNET | NEWUTS):
            raise OSError("unshare: " + os.strerror(ctypes.get_errno()))
        for name, text in (("setgroups", "deny"), ("uid_map", "%d %d 1" % (user, user)), ("gid_map", "%d %d 1" % (group, group))):
            try:
                with open("/proc/self/" + name, "w", encoding="ascii") as file:
                    file.write(text)
            except OSError as error:
                raise OSError("%s: %s" % (name, error.strerror)) from None
    socket.sethostname("localhost")  # launchers look their own host's name up, which nothing here could answer
    raise_loopback()


def raise_loopback() -> None:
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        name, flags = struct.unpack("16sh", fcntl.ioctl(one, SIOCGIFFLAGS, struct.pack("16sh", b"lo", 0)))
        fcntl.ioctl(one, SIOCSIFFLAGS, struct.pack("16sh", name, flags | IFF_UP))


def moved_in(host: LoopbackHost) -> None:
    """Whether a child gets there, finds loopback alone, and can talk over it."""
    host.enter()
    names = [name for _, name in socket.if_nameindex()]
    # tunl0, sit0 and the like come with every namespace where their module is loaded, and are down.
    reachable = [name for name in names if name != "lo" and up(name)]
    if "lo" not in names or reachable:
        raise OSError("there is not loopback alone but %s" % ", ".join(names))
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(1)
        socket.create_connection(server.getsockname(), SECONDS).close()


def up(name: str) -> bool:
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        return bool(struct.unpack("16sh", fcntl.ioctl(one, SIOCGIFFLAGS, struct.pack("16sh", name.encode(), 0)))[1] & IFF_UP)
