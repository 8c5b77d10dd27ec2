"""AMD GPUs and ROCm, from sysfs and the installation folder; no tool is run."""

from __future__ import annotations

from envcheck.facts.snapshot import Missing, RocmFacts, Why
from envcheck.host.access import Host
from envcheck.probes.pci import AMD, device_name, pci_gpus, render_access

NODES = "/sys/class/kfd/kfd/topology/nodes"


def probe(host: Host) -> RocmFacts | Missing:
    if host.platform().get("system") != "Linux":
        return Missing(Why.ABSENT, "ROCm is looked for on Linux only")
    gpus = tuple(device for device in pci_gpus(host) if device.vendor == AMD)
    kfd = host.exists("/dev/kfd")
    version = _version(host)
    if not gpus and not kfd and version is None:
        return Missing(Why.ABSENT, "no AMD GPU and no ROCm")
    driver = (host.read("/sys/module/amdgpu/version", 256) or "").strip()
    return RocmFacts(
        version=version,
        gfx=_gfx(host),
        names=tuple(_name(host, device.address) or device_name(host, device) for device in gpus),
        kfd=kfd,
        kfd_access=host.access("/dev/kfd", "rw") if kfd else None,
        render_access=render_access(host, gpus),
        groups=_groups(host),
        driver_loaded=host.exists("/sys/module/amdgpu"),
        driver_version=driver or None,
        gfx_override=host.env.get("HSA_OVERRIDE_GFX_VERSION"),
    )


def _version(host: Host) -> str | None:
    """ "6.2.4-120" of ROCM_PATH or /opt/rocm, without the build number."""
    for folder in (host.env.get("ROCM_PATH"), host.env.get("ROCM_HOME"), "/opt/rocm"):
        for name in ("version", "version-dev"):
            text = (host.read(f"{folder}/.info/{name}", 256) or "").strip() if folder else ""
            if text[:1].isdecimal():
                return text.partition("-")[0]
    return None


def _name(host: Host, address: str) -> str | None:
    """What the board itself says: accelerators have it, most graphics cards do not."""
    return (host.read(f"/sys/bus/pci/devices/{address}/product_name", 256) or "").strip() or None


def _gfx(host: Host) -> tuple[str, ...]:
    """The architecture of each GPU node; processors are nodes too, with version 0."""
    names = []
    for node in sorted(host.listdir(NODES) or (), key=lambda name: (len(name), name)):
        for line in (host.read(f"{NODES}/{node}/properties", 65536) or "").splitlines():
            name, _, value = line.partition(" ")
            if name == "gfx_target_version":
                gfx = gfx_name(value.strip())
                names += [gfx] if gfx else []
    return tuple(names)


def gfx_name(number: str) -> str | None:
    """90402 is gfx942, 90010 is gfx90a, 110001 is gfx1101: two decimal digits a part, of which the last two are written in hex."""
    if not number.isdecimal() or not 10000 <= int(number) < 1000000:
        return None
    major, minor, step = int(number) // 10000, int(number) // 100 % 100, int(number) % 100
    return f"gfx{major}{minor:x}{step:x}"


def _groups(host: Host) -> tuple[str, ...]:
    """Names of this user's groups from /etc/group (a directory service is not asked: it may block); numbers without a name stay."""
    names = {}
    for line in (host.read("/etc/group") or "").splitlines():
        parts = line.split(":")
        if len(parts) >= 3:
            names[parts[2]] = parts[0]
    return tuple(names.get(str(number), str(number)) for number in host.groups())
