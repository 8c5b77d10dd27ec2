"""GPUs on the PCI bus as the kernel lists them, with or without a driver."""

from __future__ import annotations

from envcheck.facts.snapshot import PciDevice
from envcheck.host.access import Host

FOLDER = "/sys/bus/pci/devices"
NVIDIA, AMD, INTEL, ILUVATAR = "10de", "1002", "8086", "1e3e"
# Class codes of the PCI Code and ID Assignment specification: 03 display (00 VGA, 02 3D, 80 other), 12 processing accelerator.
# Intel's class 12 are NPUs; NVIDIA's NVSwitches are bridges (06).
KINDS = {NVIDIA: ("03",), AMD: ("03", "12"), INTEL: ("03",), ILUVATAR: ("03", "12")}


def pci_gpus(host: Host) -> tuple[PciDevice, ...]:
    """Every GPU of the vendors that torch knows, in bus order."""
    found = []
    for address in host.listdir(FOLDER) or ():
        folder = f"{FOLDER}/{address}"
        kind = _hex(host.read(f"{folder}/class", 64))
        if kind is None or kind[:2] not in ("03", "12"):
            continue
        vendor, device = _hex(host.read(f"{folder}/vendor", 64)), _hex(host.read(f"{folder}/device", 64))
        if vendor is None or kind[:2] not in KINDS.get(vendor, ()):
            continue
        link = host.readlink(f"{folder}/driver")
        found.append(
            PciDevice(
                address,
                vendor,
                device or "",
                driver=link.rsplit("/", 1)[-1] if link else None,
            )
        )
    return tuple(found)


def _hex(text: str | None) -> str | None:
    """ "0x030200\\n" → "030200"."""
    word = (text or "").strip().lower()
    return word[2:] if word.startswith("0x") and len(word) > 2 else None


def render_nodes(host: Host, address: str) -> tuple[str, ...]:
    """The render nodes that belong to a device: "/dev/dri/renderD128"."""
    return tuple(f"/dev/dri/{name}" for name in host.listdir(f"{FOLDER}/{address}/drm") or () if name.startswith("renderD"))


def render_access(host: Host, devices: tuple[PciDevice, ...]) -> bool | None:
    """Whether this user may open every render node of these devices; None if the kernel made none."""
    nodes = [node for device in devices for node in render_nodes(host, device.address)]
    return all(host.access(node, "rw") for node in nodes) if nodes else None


def device_name(host: Host, device: PciDevice) -> str:
    """The name in the system's PCI id list, else "1002:744c".

    1002  Advanced Micro Devices, Inc. [AMD/ATI]
    \t744c  Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M]
    """
    number = device.device.removeprefix("0x")
    for path in ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids"):
        text = host.read(path, 4 << 20)
        if text is None:
            continue
        inside = False
        for line in text[max(0, text.find(f"\n{device.vendor}  ") + 1) :].splitlines():
            if inside and line.startswith(f"\t{number}  "):
                return line.strip().partition("  ")[2]
            if line[:1] not in ("\t", "#", ""):
                if inside:
                    break
                inside = line.startswith(f"{device.vendor}  ")
    return f"{device.vendor}:{number}"


def iommu_translates(host: Host, devices: tuple[PciDevice, ...]) -> bool | None:
    """Whether an IOMMU translates the addresses of any of these devices: "DMA" and "DMA-FQ" do, "identity" (iommu=pt) does not.

    https://docs.kernel.org/admin-guide/abi-testing.html (/sys/kernel/iommu_groups/<grp_id>/type)
    """
    if not devices:
        return None
    kinds = []
    for device in devices:
        group = f"{FOLDER}/{device.address}/iommu_group"
        kinds.append((host.read(f"{group}/type", 64) or "").strip() if host.exists(group) else "none")
    if any(kind.startswith("DMA") for kind in kinds):
        return True
    return False if all(kind in ("none", "identity") for kind in kinds) else None


def acs_redirects(host: Host, devices: tuple[PciDevice, ...]) -> bool | None:
    """Whether a bridge above one of several GPUs sends their traffic to each other through the root complex.

    Only root may read that part of the configuration space, and only lspci knows it; so it is asked for where it matters.
    """
    if len(devices) < 2 or host.which("lspci") is None:
        return None
    bridges = {part for device in devices for part in host.realpath(f"{FOLDER}/{device.address}").split("/")[:-1] if part.count(":") == 2}
    if not bridges:
        return None
    controls = parse_acs(host.run(("lspci", "-D", "-vvv"), timeout=4).stdout)
    known = [controls[bridge] for bridge in bridges if bridge in controls]
    return any(known) if known else None


def parse_acs(text: str) -> dict[str, bool]:
    """Address → whether requests are redirected, of every device that shows its access control.

    0000:00:01.1 PCI bridge: Advanced Micro Devices, Inc. [AMD] Starship/Matisse GPP Bridge (prog-if 00 [Normal decode])
    \t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
    """
    found: dict[str, bool] = {}
    address = ""
    for line in text.splitlines():
        if line[:1].strip():
            address = line.split(" ", 1)[0]
        elif line.lstrip().startswith("ACSCtl:") and address:
            found[address] = "ReqRedir+" in line
    return found
