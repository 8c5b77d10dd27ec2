"""What the kernel and the file system show of an NVIDIA driver, before anybody asks it."""

from __future__ import annotations

from envcheck.facts.record import record
from envcheck.host.access import Host

NVML = "libnvidia-ml.so.1"
# Under WSL an ssh session may not have this on PATH. https://docs.nvidia.com/cuda/wsl-user-guide/
WSL_SMI = "/usr/lib/wsl/lib/nvidia-smi"


@record
class Signs:
    """Each as it was found; None where this system does not say."""

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
