"""NVIDIA Fabric Manager, without which an NVSwitch machine gives CUDA error 802."""

from __future__ import annotations

from envcheck.facts.snapshot import Gpu
from envcheck.host.access import Host

BINARY = "nv-fabricmanager"
COMM = BINARY[:15]  # the kernel keeps 15 characters


def fabric_manager(host: Host, gpus: tuple[Gpu, ...]) -> str | None:
    """ "running", "stopped" or "absent" on a machine with NVSwitches; None elsewhere, or where processes are hidden.

    From Blackwell on the switches are no PCI devices of the host: the fabric state of the GPUs tells.
    """
    switches = host.listdir("/proc/driver/nvidia-nvswitch/devices")
    fabric = any(gpu.fabric_state in ("Not Started", "In Progress", "Completed") for gpu in gpus)
    if not switches and not fabric:
        return None
    pids = [name for name in host.listdir("/proc") or () if name.isdecimal()]
    if any(_comm(host, pid) == COMM for pid in pids):
        return "running"
    if _comm(host, "1") not in ("systemd", "init"):
        return None  # a container sees its own processes only
    return "stopped" if host.which(BINARY) or host.exists(f"/usr/bin/{BINARY}") else "absent"


def _comm(host: Host, pid: str) -> str:
    return (host.read(f"/proc/{pid}/comm") or "").strip()
