"""The kernel log, where this user may read it; quietly nothing where not."""

from __future__ import annotations

from envcheck.facts.record import record
from envcheck.facts.snapshot import Xid
from envcheck.host.access import Host
from envcheck.read.kernel import read_complaints, read_xids

TIMEOUT = 2.0


@record
class KernelLog:
    xids: tuple[Xid, ...] = ()
    messages: tuple[str, ...] = ()


def read_kernel_log(host: Host) -> KernelLog:
    """NVRM lines since boot, from dmesg, else from the journal."""
    text = ""
    restricted = (host.read("/proc/sys/kernel/dmesg_restrict") or "0").strip() != "0"
    if not restricted or host.access("/dev/kmsg", "r"):
        done = host.run(("dmesg",), timeout=TIMEOUT)
        text = done.stdout if done.ok else ""
    if not text and host.which("journalctl") is not None and host.listdir("/run/systemd/journal") is not None:
        argv = ("journalctl", "--dmesg", "--boot", "--quiet", "--no-pager", "--output=short-monotonic", "--grep=NVRM")
        done = host.run(argv, timeout=TIMEOUT)
        text = done.stdout if done.ok else ""
    uptime = (host.read("/proc/uptime") or "").split()
    seconds = float(uptime[0]) if uptime and uptime[0].replace(".", "", 1).isdecimal() else None
    return KernelLog(read_xids(text, seconds)[-50:], read_complaints(text))
