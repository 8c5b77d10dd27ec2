"""System facts: recorded machines, and the texts they are read from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machines import linux, machine

from envcheck.facts.snapshot import Missing, PciDevice, SystemFacts
from envcheck.host.access import RealHost
from envcheck.probes import system
from envcheck.probes.cgroup import parse_cgroup, read_cgroup
from envcheck.probes.cpu import parse_cpuinfo
from envcheck.probes.meminfo import parse_meminfo
from envcheck.probes.mounts import parse_mountinfo, root_mount
from envcheck.probes.pci import parse_acs


def facts(name: str, **changes: object) -> SystemFacts:
    found = system.probe(machine(name, changes))
    assert isinstance(found, SystemFacts)
    return found


def test_h200() -> None:
    found = facts("h200-vm")
    assert (found.os, found.kernel, found.distribution, found.distribution_id) == (
        "linux",
        "6.8.0-45-generic",
        "Ubuntu 24.04.3 LTS",
        "ubuntu",
    )
    assert (found.libc, found.glibc, found.machine) == ("glibc", "2.39", "x86_64")
    assert (found.cpu_model, found.cpu_vendor) == ("Intel(R) Xeon(R) Processor", "GenuineIntel")
    assert {"avx2", "avx512f", "amx_tile"} <= set(found.cpu_flags) and found.cpu_flags_read
    assert "hypervisor" not in found.cpu_flags
    assert (found.cpu_count, found.cpu_affinity, found.cpu_limit) == (16, 16, None)
    assert found.memory_bytes == 131981020 * 1024 and found.memory_limit_bytes is None
    assert found.pci_gpus == (PciDevice("0000:00:06.0", "10de", "2335", "nvidia"),)
    assert found.virtualization == "kvm" and found.wsl is None and found.jetson is None
    assert found.uptime_seconds == 912.4


def test_limits_of_control_groups() -> None:
    docker = facts("docker-cgroup1")
    assert (docker.cpu_limit, docker.memory_limit_bytes, docker.cpu_count) == (2.5, 8 << 30, 32)
    # version 2: the limit sits on the parent, and the root of the namespace has a wider one
    pod = facts("kubernetes-cgroup2")
    assert (pod.cpu_limit, pod.memory_limit_bytes) == (8.0, 64 << 30)


def test_free_memory_of_a_group_counts_reclaimable_pages() -> None:
    assert read_cgroup(machine("docker-cgroup1")).memory_free_bytes == (8 << 30) - (1 << 30) + (512 << 20)
    assert read_cgroup(machine("kubernetes-cgroup2")).memory_free_bytes == 68719476736 - 68719000000 + 523264


@pytest.mark.parametrize("number", ["9223372036854771712", "9223372036854710272", "max", "-1", "", "x"])
def test_no_limit(number: str) -> None:
    host = linux(
        {
            "read /proc/self/cgroup": "4:memory:/\n",
            "read /proc/self/mountinfo": "1 0 0:35 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
            "read /sys/fs/cgroup/memory/memory.limit_in_bytes": number,
        }
    )
    assert read_cgroup(host).memory_bytes is None


def test_group_outside_of_the_mounted_part() -> None:
    """Docker with the host's cgroup namespace: the path is not below the mount's root."""
    host = linux(
        {
            "read /proc/self/cgroup": "0::/../../elsewhere\n",
            "read /proc/self/mountinfo": "1 0 0:35 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
            "read /sys/fs/cgroup/memory.max": "1048576\n",
            "read /sys/fs/cgroup/cpu.max": "50000 100000\n",
        }
    )
    assert (read_cgroup(host).memory_bytes, read_cgroup(host).cpus) == (1 << 20, 0.5)


@pytest.mark.parametrize(
    ("release", "answers", "env", "version"),
    [
        ("5.15.167.4-microsoft-standard-WSL2", {"exists /dev/dxg": True}, {}, 2),
        ("4.19.104-microsoft-standard", {}, {}, 2),
        ("4.4.0-19041-Microsoft", {}, {}, 1),
        ("6.6.9-custom", {"exists /proc/sys/fs/binfmt_misc/WSLInterop": True}, {}, 2),
        ("6.6.9-custom", {"exists /proc/sys/fs/binfmt_misc/WSLInterop-late": True}, {}, 2),
        ("6.6.9-custom", {}, {"WSL_DISTRO_NAME": "Arch"}, 2),
        ("6.5.0-1024-azure", {}, {}, None),
        ("6.8.0", {"exists /dev/dxg": True}, {}, None),  # a Hyper-V guest may have the driver too
    ],
)
def test_wsl(release: str, answers: dict[str, object], env: dict[str, str], version: int | None) -> None:
    found = system.probe(linux({"platform": {"system": "Linux", "release": release}, **answers}, env))
    assert isinstance(found, SystemFacts) and found.wsl == version


def test_wsl_machine() -> None:
    found = facts("wsl2")
    assert (found.wsl, found.virtualization, found.pci_gpus) == (2, "wsl", ())


def test_jetson() -> None:
    found = facts("jetson-orin")
    assert (found.jetson, found.machine, found.cpu_model, found.cpu_vendor) == ("36.4.3", "aarch64", "Cortex-A78AE", "ARM")
    assert found.cpu_flags == ("asimd", "asimdhp", "asimddp") and found.cpu_flags_read
    board_only = linux({"read /proc/device-tree/compatible": "nvidia,p3701\0nvidia,tegra234\0"})
    assert system.probe(board_only).jetson == "unknown"  # type: ignore[union-attr]
    grace = linux({"read /proc/device-tree/compatible": "arm,foundation\0"})
    assert system.probe(grace).jetson is None  # type: ignore[union-attr]


def test_musl() -> None:
    found = facts("alpine")
    assert (found.libc, found.glibc, found.distribution_id, found.cpu_affinity) == ("musl", None, "alpine", 2)
    assert not found.cpu_flags_read


def test_macs() -> None:
    found = facts("mac-m2")
    assert (found.os, found.macos_version, found.distribution, found.cpu_model) == ("darwin", "14.5", "macOS 14.5", "Apple M2 Pro")
    assert (found.cpu_vendor, found.cpu_flags, found.cpu_flags_read, found.memory_bytes) == ("Apple", ("asimd",), False, 32 << 30)
    intel = facts("mac-intel")
    assert {"avx", "avx2", "fma", "sse4_2"} <= set(intel.cpu_flags) and intel.cpu_flags_read


def test_windows() -> None:
    found = facts("windows-11")
    assert (found.os, found.distribution, found.kernel, found.machine) == ("windows", "Windows 11 Professional", "10.0.26100", "x86_64")
    assert found.memory_bytes == 64 << 30 and not found.cpu_flags_read


def test_other_vendors_on_the_bus() -> None:
    assert [(device.vendor, device.driver) for device in facts("mi300x").pci_gpus] == [("1002", "amdgpu")] * 2  # and no ASPEED
    assert [device.device for device in facts("arc-b580").pci_gpus] == ["7d67", "e20b"]  # and no NPU


def test_a_gpu_without_a_driver() -> None:
    folder = "/sys/bus/pci/devices/0000:00:06.0"
    unbound = facts("h200-vm", **{f"readlink {folder}/driver": None})
    assert unbound.pci_gpus[0].driver is None


TWO_GPUS = {
    "listdir /sys/bus/pci/devices": ["0000:41:00.0", "0000:42:00.0"],
    **{
        f"read /sys/bus/pci/devices/{address}/{name}": value
        for address in ("0000:41:00.0", "0000:42:00.0")
        for name, value in (("class", "0x030200"), ("vendor", "0x10de"), ("device", "0x2684"))
    },
    "realpath /sys/bus/pci/devices/0000:41:00.0": "/sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0",
    "realpath /sys/bus/pci/devices/0000:42:00.0": "/sys/devices/pci0000:40/0000:40:03.1/0000:42:00.0",
    "which lspci": "/usr/bin/lspci",
}
LSPCI = """\
0000:00:1c.0 PCI bridge: Intel Corporation Device 7a38 (prog-if 00 [Normal decode])
\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-

0000:40:01.1 PCI bridge: Advanced Micro Devices, Inc. [AMD] Starship/Matisse GPP Bridge (prog-if 00 [Normal decode])
\tCapabilities: [2a0 v1] Access Control Services
\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+
\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-
"""


def test_acs_of_the_bridges_above_the_gpus() -> None:
    def acs(text: str) -> bool | None:
        found = system.probe(linux({**TWO_GPUS, "run lspci\0-D\0-vvv": {"code": 0, "stdout": text}}))
        assert isinstance(found, SystemFacts)
        return found.acs

    assert acs(LSPCI) is False  # the redirecting bridge is above something else
    assert acs(LSPCI.replace("ReqRedir- CmpltRedir-", "ReqRedir+ CmpltRedir+")) is True
    assert acs("0000:40:01.1 PCI bridge: AMD\n\tCapabilities: <access denied>\n") is None
    assert facts("h200-vm").acs is None  # one GPU has no peer


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (("DMA", "identity"), True),
        (("DMA-FQ", "DMA-FQ"), True),
        (("identity", "identity"), False),
        ((None, None), False),
        (("", "identity"), None),
    ],
)
def test_iommu(kinds: tuple[str | None, str | None], expected: bool | None) -> None:
    answers: dict[str, object] = dict(TWO_GPUS)
    for address, kind in zip(("0000:41:00.0", "0000:42:00.0"), kinds, strict=True):
        if kind is not None:
            answers[f"exists /sys/bus/pci/devices/{address}/iommu_group"] = True
            answers[f"read /sys/bus/pci/devices/{address}/iommu_group/type"] = kind + "\n"
    found = system.probe(linux(answers))
    assert isinstance(found, SystemFacts) and found.iommu is expected


def test_sleep_and_date() -> None:
    found = facts("h200-vm", **{"read /sys/power/suspend_stats/success": "3\n", "today": "2026-11-27"})
    assert (found.suspends, found.date) == (3, "2026-11-27")
    assert (facts("h200-vm").suspends, facts("h200-vm").date, facts("h200-vm").iommu) == (None, None, False)


@pytest.mark.parametrize(
    ("vendor", "product", "flagged", "expected"),
    [
        ("Amazon EC2", "p5.48xlarge", True, "amazon"),
        ("Amazon EC2", "m5.metal", False, None),
        ("Google", "Google Compute Engine", True, "google"),
        ("Microsoft Corporation", "Virtual Machine", True, "hyperv"),
        ("Dell Inc.", "PowerEdge XE9680", False, None),
        ("", "", True, "vm"),
        ("VMware, Inc.", "VMware7,1", True, "vmware"),
    ],
)
def test_virtualization(vendor: str, product: str, flagged: bool, expected: str | None) -> None:
    host = linux(
        {
            "read /sys/class/dmi/id/sys_vendor": vendor + "\n",
            "read /sys/class/dmi/id/product_name": product + "\n",
            "read /proc/cpuinfo": "flags : fpu hypervisor\n" if flagged else "flags : fpu\n",
        }
    )
    assert system.probe(host).virtualization == expected  # type: ignore[union-attr]


def test_nothing_known() -> None:
    from envcheck.host.recording import ReplayHost

    assert isinstance(system.probe(ReplayHost({})), Missing)
    found = system.probe(linux())
    assert isinstance(found, SystemFacts)
    assert (found.memory_bytes, found.cpu_flags_read, found.pci_gpus, found.glibc) == (None, False, (), None)


def test_here() -> None:
    found = system.probe(RealHost())
    assert isinstance(found, SystemFacts)
    assert found.os in ("linux", "darwin", "windows") and found.machine
    if found.os == "linux":
        assert found.kernel and found.cpu_count and (found.memory_bytes or 0) > 1 << 28


def test_texts() -> None:
    assert system.parse_os_release('ID=\'x y\'\n# ID=no\nNAME="a \\"b\\""\nBROKEN\n') == {"ID": "x y", "NAME": 'a "b"'}
    assert parse_meminfo("MemTotal:  5 kB\nHugePages_Total: 3\nbad\nX: y kB\n") == {"MemTotal": 5120, "HugePages_Total": 3}
    assert parse_cgroup("4:cpu,cpuacct:/d\n0::/u\nbad\n1:name=systemd:/s\n") == {
        "cpu": "/d",
        "cpuacct": "/d",
        "": "/u",
        "name=systemd": "/s",
    }
    mounts = parse_mountinfo(
        "36 35 98:0 /m\\0401 /m2 rw - ext3 /dev/root rw,errors=continue\nbad line\n1 0 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"
    )
    assert (mounts[0].root, mounts[0].point, mounts[0].kind) == ("/m 1", "/m2", "ext3")
    assert root_mount(mounts) == mounts[1] and root_mount(()) is None
    power = parse_cpuinfo("processor\t: 0\ncpu\t\t: POWER9, altivec supported\n")
    assert (power.model, power.flags_read) == ("POWER9, altivec supported", False)


@given(st.text())
def test_parsers_never_raise(text: str) -> None:
    assert isinstance(system.parse_os_release(text), dict)
    assert isinstance(parse_cgroup(text), dict)
    assert isinstance(parse_mountinfo(text), tuple)
    assert all(number >= 0 for number in parse_meminfo(text).values())
    assert parse_cpuinfo(text).flags == () or parse_cpuinfo(text).flags_read
    assert isinstance(system.parse_sysctl(text), dict)
    assert isinstance(parse_acs(text), dict)
