"""System calls behind `RealHost` that are more than opening a file. Only this room and probes/limits.py import this module.

Nothing here raises for want of a facility: None or an empty value says that there is no answer.
The Windows and macOS branches follow the documentation; they have not been run.
Small values here and in the probes are NamedTuples: making such a class takes a sixth of a dataclass's time at start-up.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

STEP_BYTES = 16 << 20


class Disk(NamedTuple):
    total_bytes: int
    free_bytes: int  # for this user


class Trial(NamedTuple):
    """A trial allocation: what was asked for and what was really got."""

    requested_bytes: int
    allocated_bytes: int = 0
    error: str | None = None


class Resolved(NamedTuple):
    """What a name resolves to; `error` says why there is nothing."""

    addresses: tuple[str, ...] = ()
    error: str | None = None
    seconds: float = 0.0
    timed_out: bool = False


def resource_limits() -> dict[str, tuple[int | None, int | None]]:
    """NOFILE, MEMLOCK, NPROC, STACK, AS, DATA, CPU → (soft, hard), None = unlimited; empty on Windows."""
    try:
        import resource
    except ImportError:
        return {}

    def plain(value: int) -> int | None:
        return None if value == resource.RLIM_INFINITY else value

    found = {}
    for name in ("NOFILE", "MEMLOCK", "NPROC", "STACK", "AS", "DATA", "CPU"):
        number = getattr(resource, f"RLIMIT_{name}", None)
        if number is None:
            continue
        try:
            soft, hard = resource.getrlimit(number)
        except OSError:  # a filter of system calls
            continue
        found[name] = (plain(soft), plain(hard))
    return found


def disk_space(path: str) -> Disk | None:
    """Size and free space of the file system that holds `path`."""
    try:
        if hasattr(os, "statvfs"):
            found = os.statvfs(path)
            return Disk(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)
        import shutil

        total, _, free = shutil.disk_usage(path)
    except OSError:
        return None
    return Disk(total, free)


def allocate(folder: str, size: int) -> Trial:
    """Really take up to `size` bytes of a file system in a file without a name, and give them back.

    fallocate reports a full tmpfs as an error, where writing through a mapping would be a SIGBUS.
    """
    allocated = 0
    if not hasattr(os, "posix_fallocate"):
        return Trial(size, 0, "this system has no posix_fallocate")
    try:
        fd = _nameless(folder)
    except OSError as error:
        return Trial(size, 0, error.strerror)
    try:
        while allocated < size:
            step = min(STEP_BYTES, size - allocated)
            os.posix_fallocate(fd, allocated, step)
            allocated += step
    except OSError as error:
        return Trial(size, allocated, error.strerror)
    finally:
        os.close(fd)  # the last reference: the kernel frees the pages
    return Trial(size, allocated)


def _nameless(folder: str) -> int:
    """A file that no crash can leave behind."""
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except (AttributeError, OSError):
        # kernels before 3.11, and file systems without O_TMPFILE
        import tempfile

        fd, path = tempfile.mkstemp(prefix="envcheck-", dir=folder)
        os.unlink(path)
        return fd


def resolve(name: str, timeout: float, lookup: Callable[..., Sequence[Any]] | None = None) -> Resolved:
    """The addresses of a name. The lookup runs in a daemon thread, for a dead resolver blocks and cannot be interrupted."""
    import time

    if lookup is None:
        import socket

        lookup = socket.getaddrinfo
    found: list[Sequence[Any]] = []
    errors: list[str] = []

    def ask() -> None:
        try:
            found.append(lookup(_plain(name), None, type=1))  # SOCK_STREAM: one row an address
        except (OSError, UnicodeError) as error:  # UnicodeError: a label that IDNA cannot encode
            errors.append(getattr(error, "strerror", None) or str(error))

    began = time.monotonic()
    _beside(ask, timeout)
    seconds = time.monotonic() - began
    if found:
        return Resolved(tuple(dict.fromkeys(str(row[4][0]) for row in found[0])), None, seconds)
    if errors:
        return Resolved((), errors[0], seconds)
    return Resolved((), f"no answer within {timeout:g} s", seconds, timed_out=True)


def reverse(address: str, timeout: float, lookup: Callable[..., Any] | None = None) -> float:
    """Seconds that the name of an address takes, at most `timeout`; whether there is a name does not matter.

    In a daemon thread, as for `resolve`.
    """
    import time

    if lookup is None:
        import socket

        lookup = socket.getnameinfo

    def ask() -> None:
        try:
            lookup((address, 0), 0)
        except OSError:
            return  # no name: an answer too

    began = time.monotonic()
    _beside(ask, timeout)
    return time.monotonic() - began


def full_name(name: str, timeout: float, lookup: Callable[..., tuple[str, Sequence[str], Any]] | None = None) -> str | None:
    """What socket.getfqdn makes of a host's name, by its address and back; None if that is not answered in time.

    In a daemon thread, as for `resolve`.
    """
    if lookup is None:
        import socket

        lookup = socket.gethostbyaddr
    found: list[str] = []

    def ask() -> None:
        try:
            own, others, _ = lookup(_plain(name))
        except OSError:
            found.append(name)
        except UnicodeError:
            return
        else:
            found.append(next((one for one in (own, *others) if "." in one), own))

    _beside(ask, timeout)
    return found[0] if found else None


def _plain(name: str) -> Any:  # the stubs of gethostbyaddr know no bytes
    """Bytes spare the import of Python's IDNA codec (10 ms)."""
    return name.encode() if name.isascii() else name


def _beside(ask: Callable[[], None], timeout: float) -> None:
    import threading

    thread = threading.Thread(target=ask, name="names", daemon=True)
    thread.start()
    thread.join(timeout)


def ipv4_addresses() -> tuple[tuple[str, str], ...]:
    """(interface, address) of every IPv4 address, by SIOCGIFCONF; empty where that is not Linux's."""
    if sys.platform != "linux":
        return ()
    import array
    import fcntl
    import socket
    import struct

    entry = 40 if struct.calcsize("P") == 8 else 32  # sizeof(struct ifreq)
    buffer = array.array("B", bytes(entry * 1024))
    address, _ = buffer.buffer_info()
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            answer = fcntl.ioctl(sock, 0x8912, struct.pack("iP", len(buffer), address))
    except OSError:
        return ()
    used = struct.unpack("iP", answer)[0]
    data = buffer.tobytes()[:used]
    rows = (data[at : at + entry] for at in range(0, len(data) - entry + 1, entry))
    return tuple((row[:16].split(b"\0")[0].decode("utf-8", "replace"), socket.inet_ntoa(row[20:24])) for row in rows)


def network_links() -> tuple[tuple[str, int, int], ...]:
    """(interface, flags, MTU), by SIOCGIFFLAGS and SIOCGIFMTU: /sys/class/net shows the namespace that it was mounted in, not ours."""
    if sys.platform != "linux":
        return ()
    import fcntl
    import socket
    import struct

    rows = []
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            for _, name in socket.if_nameindex():
                request = struct.pack("40s", os.fsencode(name)[:15])
                flags = struct.unpack("=H", fcntl.ioctl(sock, 0x8913, request)[16:18])[0]
                mtu = struct.unpack("=i", fcntl.ioctl(sock, 0x8921, request)[16:20])[0]
                rows.append((os.fsencode(name).decode("utf-8", "replace"), int(flags), int(mtu)))
    except OSError:
        return ()
    return tuple(rows)


def cpu_counts() -> tuple[int | None, int | None]:
    """Processors online, and those that this process may use."""
    try:
        return os.cpu_count(), len(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # not Linux; a filter of system calls
        return os.cpu_count(), None


def group_ids() -> tuple[int, ...]:
    """The groups of this process, the effective one included."""
    if not hasattr(os, "getgroups"):
        return ()
    return tuple(sorted({os.getegid(), *os.getgroups()}))


def platform_facts() -> dict[str, str]:
    """system, release, version, machine, node; libc where it is glibc; on Windows also processor, memory and CPU features."""
    if hasattr(os, "uname"):
        name = os.uname()
        facts = {"system": name.sysname, "release": name.release, "version": name.version, "machine": name.machine, "node": name.nodename}
        libc = _glibc()
        return {**facts, "libc": libc} if libc else facts
    import platform

    found = platform.uname()
    return {
        "system": found.system,
        "release": found.release,
        "version": found.version,
        "machine": found.machine,
        "node": found.node,
        "edition": platform.win32_edition() or "" if sys.platform == "win32" else "",
        "processor": found.processor,
        **_windows_facts(),
    }


def _glibc() -> str | None:
    """ "glibc 2.39"; musl and macOS do not know the name."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except (AttributeError, ValueError, OSError):
        return None


def _windows_facts() -> dict[str, str]:
    if sys.platform != "win32":
        return {}
    import ctypes
    import winreg

    facts: dict[str, str] = {}
    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, r"HARDWARE\DESCRIPTION\System\CentralProcessor\0") as key:
            facts["cpu_model"] = str(winreg.QueryValueEx(key, "ProcessorNameString")[0]).strip()
            facts["cpu_vendor"] = str(winreg.QueryValueEx(key, "VendorIdentifier")[0]).strip()
    except OSError:
        pass  # the key is a convenience; the processor string above remains
    # https://learn.microsoft.com/windows/win32/api/processthreadsapi/nf-processthreadsapi-isprocessorfeaturepresent
    features = {"sse4_2": 38, "avx": 39, "avx2": 40, "avx512f": 41}
    present = ctypes.windll.kernel32.IsProcessorFeaturePresent
    facts["cpu_flags"] = " ".join(name for name, number in features.items() if present(number))

    class MemoryStatus(ctypes.Structure):  # MEMORYSTATUSEX
        _fields_ = (
            ("length", ctypes.c_ulong),
            ("load", ctypes.c_ulong),
            *((name, ctypes.c_ulonglong) for name in ("total", "available", "page", "page_free", "virtual", "virtual_free", "extended")),
        )

    status = MemoryStatus()
    status.length = ctypes.sizeof(status)
    if ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        facts["memory_bytes"], facts["memory_available_bytes"] = str(status.total), str(status.available)
    return facts
