"""The NVIDIA driver and its GPUs, from the kernel, NVML and nvidia-smi side by side.

Each source has its own deadline and none is believed alone: `readings` keeps what each said. NVML runs in a child
because it can hang (a GPU that is being reset) or crash (a library of another version).

This module looks for signs of a driver; only where there is one are the modules that ask it imported.
"""

from __future__ import annotations

from envcheck.facts.record import record
from envcheck.facts.snapshot import DriverFacts, GpusFacts, Missing, Why
from envcheck.host.access import Host

NVML = "libnvidia-ml.so.1"
# Under WSL an ssh session may not have this on PATH. https://docs.nvidia.com/cuda/wsl-user-guide/
WSL_SMI = "/usr/lib/wsl/lib/nvidia-smi"


@record
class Signs:
    """What the kernel and the file system show without asking the driver."""

    program: str | None  # nvidia-smi
    libraries: tuple[str, ...]  # libnvidia-ml.so.1, as the loader would find it
    sys_version: str  # text of /sys/module/nvidia/version
    proc_version: str  # text of /proc/driver/nvidia/version
    loaded: bool | None
    nouveau: bool | None
    nodes: tuple[str, ...] | None
    closed: tuple[str, ...]  # nodes of GPUs that this process may not open
    gpu_count: int | None
    wsl: bool

    @property
    def any(self) -> bool:
        return bool(self.loaded or self.proc_version or self.nodes or self.program or self.libraries)


def probe_driver(host: Host, budget_seconds: float = 20.0) -> tuple[DriverFacts | Missing, GpusFacts | Missing]:
    """Driver and GPUs in at most `budget_seconds`."""
    signs = look(host)
    if not signs.any:
        missing = Missing(Why.ABSENT, "no sign of an NVIDIA driver", "nouveau is loaded" if signs.nouveau else "")
        return missing, missing
    from envcheck.probes.driver_answers import ask

    return ask(host, signs, budget_seconds)


def look(host: Host) -> Signs:
    """Everything that can be seen at once."""
    modules = host.exists("/sys/module")
    names = host.listdir("/dev")
    gpus = host.listdir("/proc/driver/nvidia/gpus")
    nodes = None if names is None else tuple(name for name in names if name.startswith("nvidia"))
    numbered = [name for name in nodes or () if name.removeprefix("nvidia").isdecimal()]
    proc_version = host.read("/proc/driver/nvidia/version") or ""
    wsl = host.exists("/dev/dxg")
    # Under WSL the driver is Windows': there is no module, and none is missing.
    loaded = None if wsl or not modules else host.exists("/sys/module/nvidia")
    program = host.which("nvidia-smi")
    if program is None and wsl and host.access(WSL_SMI, "x"):
        program = WSL_SMI
    return Signs(
        program=program,
        libraries=host.libraries(NVML),
        sys_version=host.read("/sys/module/nvidia/version") or "",
        proc_version=proc_version,
        loaded=True if proc_version else loaded,
        nouveau=host.exists("/sys/module/nouveau") if modules else None,
        nodes=nodes,
        closed=tuple(name for name in numbered if not host.access(f"/dev/{name}", "rw")),
        gpu_count=None if gpus is None else len(gpus),
        wsl=wsl,
    )
