"""The operating system, its C library, the processor, memory, and what is on the PCI bus."""

from __future__ import annotations

from envcheck.facts.snapshot import Missing, SystemFacts, Why
from envcheck.facts.whole_numbers import whole_number
from envcheck.host.access import Host
from envcheck.probes.cgroup import read_cgroup
from envcheck.probes.cpu import INTERESTING, parse_cpuinfo
from envcheck.probes.meminfo import parse_meminfo
from envcheck.probes.pci import NVIDIA, acs_redirects, iommu_translates, pci_gpus

# The first processor is enough, and on a large host the whole file takes long: the kernel measures every core's clock for it.
CPUINFO_LIMIT = 16 << 10


def probe(host: Host) -> SystemFacts | Missing:
    facts = host.platform()
    match facts.get("system"):
        case "Linux":
            return _linux(host)
        case "Darwin":
            return _macos(host)
        case "Windows":
            return _windows(host)
        case None:
            return Missing(Why.FAILED, "the system does not say what it is")
        case other:
            online, usable = host.cpus()
            return SystemFacts(
                os=other.lower(),
                kernel=facts.get("release"),
                machine=facts.get("machine"),
                cpu_count=online,
                cpu_affinity=usable,
                date=host.today(),
                time=host.clock(),
            )


def _linux(host: Host) -> SystemFacts:
    facts = host.platform()
    release = facts.get("release", "")
    distribution = parse_os_release(host.read("/etc/os-release") or host.read("/usr/lib/os-release"))
    cpu = parse_cpuinfo(host.read("/proc/cpuinfo", CPUINFO_LIMIT))
    memory = parse_meminfo(host.read("/proc/meminfo"))
    group = read_cgroup(host)
    online, usable = host.cpus()
    libc, glibc = _libc(host, facts.get("libc", ""))
    wsl = _wsl(host, release)
    gpus = pci_gpus(host)
    nvidia = tuple(device for device in gpus if device.vendor == NVIDIA)
    slept = (host.read("/sys/power/suspend_stats/success", 64) or "").strip()
    return SystemFacts(
        os="linux",
        kernel=release or None,
        distribution=distribution.get("PRETTY_NAME") or distribution.get("NAME"),
        distribution_id=distribution.get("ID"),
        machine=facts.get("machine"),
        glibc=glibc,
        libc=libc,
        cpu_model=cpu.model,
        cpu_vendor=cpu.vendor,
        cpu_flags=cpu.flags,
        cpu_flags_read=cpu.flags_read,
        cpu_count=online,
        cpu_affinity=usable,
        cpu_limit=group.cpus,
        memory_bytes=memory.get("MemTotal"),
        memory_available_bytes=memory.get("MemAvailable"),
        memory_limit_bytes=group.memory_bytes,
        wsl=wsl,
        jetson=l4t_release(host),
        virtualization="wsl" if wsl else _virtualization(host, cpu.hypervisor),
        pci_gpus=gpus,
        uptime_seconds=_first_number(host.read("/proc/uptime")),
        iommu=iommu_translates(host, nvidia),
        acs=acs_redirects(host, nvidia),
        date=host.today(),
        time=host.clock(),
        suspends=whole_number(slept),
        path_left_out=tuple(facts["path_left_out"].split(":")) if "path_left_out" in facts else (),
    )


def parse_os_release(text: str | None) -> dict[str, str]:
    """KEY=value lines, quoted or not: `PRETTY_NAME="Ubuntu 24.04.3 LTS"`."""
    found = {}
    for line in (text or "").splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            value = value.strip()
            if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
                value = value[1:-1].replace('\\"', '"').replace("\\$", "$")
            found[name] = value
    return found


def _libc(host: Host, said: str) -> tuple[str | None, str | None]:
    """("glibc", "2.39"), or ("musl", None) where musl's loader is there and glibc does not answer."""
    name, _, version = said.partition(" ")
    if name == "glibc":
        return "glibc", version.strip() or None
    if any(entry.startswith("ld-musl-") for entry in host.listdir("/lib") or ()):
        return "musl", None
    return None, None


def _wsl(host: Host, release: str) -> int | None:
    """1 or 2 under the Windows Subsystem for Linux.

    4.4.0-19041-Microsoft              WSL 1: the version its translation layer states
    5.15.167.4-microsoft-standard-WSL2 WSL 2; a kernel of the user's own may lack the word, but WSL registers its interop
    """
    lower = release.lower()
    interop = any(host.exists(f"/proc/sys/fs/binfmt_misc/WSLInterop{suffix}") for suffix in ("", "-late"))
    if "microsoft" not in lower and not interop and "WSL_DISTRO_NAME" not in host.env:
        return None
    if "wsl2" in lower or "microsoft-standard" in lower or host.exists("/dev/dxg"):
        return 2
    return 1 if lower.startswith("4.4.0-") else 2


def l4t_release(host: Host) -> str | None:
    """The L4T release of a Jetson, "unknown" if only the board says that it is one.

    # R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, EABI: aarch64, DATE: Wed Jan  8 01:49:37 UTC 2025
    """
    line = (host.read("/etc/nv_tegra_release", 4096) or "").splitlines()[:1]
    words = line[0].replace(",", " ").split() if line else []
    major = next((word[1:] for word in words if word[:1] == "R" and word[1:].isdecimal()), None)
    if major:
        minor = words[words.index("REVISION:") + 1 :][:1] if "REVISION:" in words else []
        return ".".join([major, *minor])
    # The list of what the board is, NUL between its entries: "nvidia,p3768-0000+p3767-0005", "nvidia,tegra234".
    # The Grace CPU of a server and GB10 boot by ACPI and have no such list.
    board = host.read("/proc/device-tree/compatible", 4096) or ""
    return "unknown" if "nvidia,tegra" in board else None


# What the firmware calls its maker or product, and what is meant.
_FIRMWARE = (
    ("amazon ec2", "amazon"),
    ("google compute engine", "google"),
    ("vmware", "vmware"),
    ("virtualbox", "virtualbox"),
    ("innotek", "virtualbox"),
    ("xen", "xen"),
    ("kvm", "kvm"),
    ("qemu", "kvm"),
    ("openstack", "kvm"),
    ("alibaba cloud ecs", "kvm"),
    ("parallels", "parallels"),
    ("bhyve", "bhyve"),
)


def _virtualization(host: Host, flagged: bool) -> str | None:
    """The hypervisor; "vm" if there is one without a name. Bare-metal instances of clouds carry the cloud's name but no flag."""
    vendor = (host.read("/sys/class/dmi/id/sys_vendor", 256) or "").strip()
    product = (host.read("/sys/class/dmi/id/product_name", 256) or "").strip()
    text = f"{vendor} {product}".lower()
    if ".metal" in text:
        return None
    if "microsoft corporation" in text and "virtual machine" in text:
        return "hyperv"
    named = next((name for word, name in _FIRMWARE if word in text), None)
    if named in ("amazon", "google") and not flagged and (host.platform().get("machine") or "").startswith("x86"):
        return None
    return named or ("vm" if flagged else None)


def _first_number(text: str | None) -> float | None:
    """ "12345.67 98765.43" of /proc/uptime."""
    try:
        number = float((text or "").split()[0])
    except (IndexError, ValueError):
        return None
    return number if 0 <= number < 1e12 else None


SYSCTL = (
    "kern.osproductversion", "hw.memsize", "hw.optional.arm64", "machdep.cpu.brand_string", "machdep.cpu.vendor",
    "machdep.cpu.features", "machdep.cpu.leaf7_features",
)  # fmt: skip


def parse_sysctl(text: str) -> dict[str, str]:
    """`name: value` lines; names that a machine does not have are missing.

    kern.osproductversion: 14.5
    machdep.cpu.brand_string: Apple M2 Pro
    """
    return {name.strip(): value.strip() for name, colon, value in (line.partition(":") for line in text.splitlines()) if colon}


def _macos(host: Host) -> SystemFacts:
    facts = host.platform()
    said = parse_sysctl(host.run(("sysctl", *SYSCTL), timeout=5).stdout)
    version = said.get("kern.osproductversion")
    online, usable = host.cpus()
    words = f"{said.get('machdep.cpu.features', '')} {said.get('machdep.cpu.leaf7_features', '')}".lower().split()
    # Apple writes AVX1.0 and SSE4.2; Apple silicon lists no features, and every one of its cores has NEON
    flags = {"avx1.0": "avx", "sse4.2": "sse4_2"}
    named = [flags.get(word, word) for word in words] or (["asimd"] if said.get("hw.optional.arm64") == "1" else [])
    memory = said.get("hw.memsize", "")
    return SystemFacts(
        os="darwin",
        kernel=facts.get("release"),
        distribution=f"macOS {version}" if version else None,
        distribution_id="macos",
        machine=facts.get("machine"),
        cpu_model=said.get("machdep.cpu.brand_string"),
        cpu_vendor=said.get("machdep.cpu.vendor") or ("Apple" if said.get("hw.optional.arm64") == "1" else None),
        cpu_flags=tuple(flag for flag in named if flag in INTERESTING),
        cpu_flags_read=bool(words),
        cpu_count=online,
        cpu_affinity=usable,
        memory_bytes=whole_number(memory),
        macos_version=version,
        date=host.today(),
        time=host.clock(),
    )


def _windows(host: Host) -> SystemFacts:
    facts = host.platform()
    online, usable = host.cpus()
    flags = facts.get("cpu_flags")

    def number(name: str) -> int | None:
        return whole_number(facts.get(name, ""))

    return SystemFacts(
        os="windows",
        kernel=facts.get("version"),
        distribution=" ".join(word for word in ("Windows", facts.get("release"), facts.get("edition")) if word),
        distribution_id="windows",
        machine={"AMD64": "x86_64", "ARM64": "arm64"}.get(facts.get("machine", ""), facts.get("machine")),
        cpu_model=facts.get("cpu_model") or facts.get("processor"),
        cpu_vendor=facts.get("cpu_vendor"),
        cpu_flags=tuple((flags or "").split()),
        # fma and others cannot be asked for: a list that is not whole must not say that a flag is absent
        cpu_flags_read=False,
        cpu_count=online,
        cpu_affinity=usable,
        memory_bytes=number("memory_bytes"),
        memory_available_bytes=number("memory_available_bytes"),
        date=host.today(),
        time=host.clock(),
    )
