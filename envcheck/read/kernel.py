"""What the NVIDIA kernel module says: its version file and its lines in the kernel log."""

from __future__ import annotations

import re

from envcheck.facts.printable import begin_of
from envcheck.facts.snapshot import Xid
from envcheck.read.smi_fields import DRIVER

_STAMP = re.compile(r"^(?:<\d{1,3}>)?\[\s*(\d{1,12}\.\d{1,9})\]")
# "NVRM: Xid (PCI:0000:91:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
# https://docs.nvidia.com/deploy/xid-errors/
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{1,20})\): (\d{1,5})(?:$|,(.*))")
# "Xid (PCI:0000:dc:00): 45, pid=1818990, name=python3, Ch 00000001 caused by previous Xid 149": the other one has no line of its own
# where the buffer of the log has turned over.
_BEFORE = re.compile(r"caused by previous Xid (\d{1,5})")
# Texts of the open kernel module, NVIDIA/open-gpu-kernel-modules kernel-open/nvidia/nv.c, src/nvidia/arch/nvalloc/unix/src/osinit.c
_COMPLAINT = re.compile(
    r"NVRM: .{0,1000}?(?:API mismatch|has the version|RmInitAdapter|No NVIDIA (?:GPU found|devices probed)|probe routine was not called"
    r"|open kernel modules|not supported by (?:open nvidia\.ko|the NVIDIA)|driver release|fallen off the bus|GSP firmware|Timeout after).*"
)


def read_module_version(text: str) -> tuple[str | None, str | None]:
    """Version and flavour from /proc/driver/nvidia/version.

    NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (…)
    NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 09:35:42 UTC 2024
    """
    for line in text.splitlines():
        if "NVRM version:" not in line:
            continue
        match = re.search(rf"\s({DRIVER.pattern})", line)
        flavour = "open" if "Open Kernel Module" in line else "proprietary" if "Kernel Module" in line else None
        return (match.group(1) if match else None), flavour
    return None, None


def read_xids(text: str, uptime_seconds: float | None = None) -> tuple[Xid, ...]:
    """The Xid lines of a kernel log, oldest first; `seconds_ago` where they carry seconds since boot."""
    found: list[Xid] = []
    for line in text.splitlines():
        match = _XID.search(line[:1000].rstrip())
        if match is None:
            continue
        bus, code, words = match.groups()
        stamp = _STAMP.match(line)
        ago = max(0.0, uptime_seconds - float(stamp.group(1))) if stamp and uptime_seconds is not None else None
        before = _BEFORE.search(words or "")
        if before and not any(one.code == int(before[1]) and one.bus_id == bus for one in found):
            found.append(Xid(int(before[1]), bus, begin_of((words or "").strip(), 300), ago))
        found.append(Xid(int(code), bus, begin_of((words or "").strip(), 300), ago))
    return tuple(found)


def read_complaints(text: str, limit: int = 20) -> tuple[str, ...]:
    """Other NVRM lines that say why there is no usable GPU, without their stamps, each once, the newest last."""
    found: dict[str, None] = {}
    for line in text.splitlines():
        match = _COMPLAINT.search(line[:1000])
        if match and "Xid (" not in line:
            words = begin_of(match.group().strip(), 300)
            found.pop(words, None)
            found[words] = None
    return tuple(found)[-limit:]
