"""Which container this is, and what its image asks of the NVIDIA driver."""

from __future__ import annotations

from collections.abc import Mapping

from envcheck.facts.snapshot import ContainerFacts, Missing, Why
from envcheck.host.access import Host
from envcheck.probes.mounts import Mount, parse_mountinfo, root_mount

# The variable `container` of PID 1 (systemd's container interface), and of the process where the runtime sets it.
NAMED = {
    "podman": "podman", "oci": "podman", "docker": "docker", "lxc": "lxc", "lxc-libvirt": "lxc", "systemd-nspawn": "systemd-nspawn",
    "containerd": "containerd", "crio": "cri-o", "flatpak": "flatpak",
}  # fmt: skip
# Variables that HPC runtimes set in every process they start.
VARIABLES = {
    "APPTAINER_CONTAINER": "apptainer", "APPTAINER_NAME": "apptainer", "SINGULARITY_CONTAINER": "singularity",
    "SINGULARITY_NAME": "singularity", "CH_RUNNING": "charliecloud", "SHIFTER_RUNTIME": "shifter", "TOOLBOX_PATH": "toolbox",
}  # fmt: skip
# Parts of control group paths and of mount sources and roots: where each engine keeps what is its own.
TRACES = (
    ("libpod", "podman"),
    ("containers/storage", "podman"),
    ("crio-", "cri-o"),
    ("/docker", "docker"),
    ("io.containerd", "containerd"),
    ("cri-containerd", "containerd"),
    ("/containerd/", "containerd"),
    ("/enroot", "enroot"),
    ("/lxc/", "lxc"),
    ("/lxc.payload", "lxc"),
)
KUBERNETES = ("kubepods", "/kubelet/pods/")
# Kinds of a root file system that no container runtime mounts whole from a partition.
DISKS = ("/dev/vd", "/dev/sd", "/dev/nvme", "/dev/xvd", "/dev/root", "/dev/mmcblk")


def probe(host: Host) -> ContainerFacts | Missing:
    if host.platform().get("system") != "Linux":
        return Missing(Why.ABSENT, "not a Linux system")
    env = host.env
    mounts = parse_mountinfo(host.read("/proc/self/mountinfo"))
    groups = (host.read("/proc/self/cgroup") or "") + (host.read("/proc/1/cgroup") or "")
    kubernetes = _kubernetes(host, groups, mounts)
    runtime = _runtime(host, groups, mounts)
    if runtime == "podman" and kubernetes:
        runtime = "cri-o"  # it shares podman's storage and marker file; podman itself does not serve a kubelet
    if runtime is None and not kubernetes:
        return Missing(Why.ABSENT, "no sign of a container")
    if runtime == "docker" and not kubernetes and _is_machine(groups, mounts):
        return Missing(Why.ABSENT, "/.dockerenv is there, but / is a disk of its own: a machine made from a container image")
    return ContainerFacts(
        runtime=runtime,
        kubernetes=kubernetes,
        cuda_requirement=env.get("NVIDIA_REQUIRE_CUDA"),
        cuda_version=env.get("CUDA_VERSION"),
        driver_capabilities=env.get("NVIDIA_DRIVER_CAPABILITIES"),
        image=_image(host, env),
        nvidia_runtime=_nvidia_runtime(host, runtime, mounts),
    )


def _runtime(host: Host, groups: str, mounts: tuple[Mount, ...]) -> str | None:
    """The innermost runtime that gives a sign, the surest signs first."""
    env = host.env
    for name, runtime in VARIABLES.items():
        if env.get(name):
            return runtime
    if host.exists("/.singularity.d"):
        return "apptainer"
    if (host.read("/run/.containerenv", 65536) is not None) or host.exists("/run/.containerenv"):
        return "podman"
    root = root_mount(mounts)
    # Docker and containerd mount these three files from folders of their own; the root itself shows the storage driver's.
    own = [mount.root for mount in mounts if mount.point in ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/passwd")]
    texts = (groups, *((root.source, root.root, root.options) if root else ()), *own)
    for word, runtime in TRACES:
        if any(word in text for text in texts):
            return runtime
    declared = _declared(host)
    if declared:
        return NAMED.get(declared, declared)
    return "docker" if host.exists("/.dockerenv") else None


def _declared(host: Host) -> str | None:
    """What PID 1 or this process was told. PID 1's environment is readable by root only."""
    for text in (host.env.get("container"), host.read("/run/systemd/container", 256)):
        if text and text.strip():
            return text.strip()
    return host.variables_of("1", ("container",)).get("container", "").strip() or None


def _kubernetes(host: Host, groups: str, mounts: tuple[Mount, ...]) -> bool:
    return (
        "KUBERNETES_SERVICE_HOST" in host.env
        or host.exists("/var/run/secrets/kubernetes.io/serviceaccount")
        or any(word in groups for word in KUBERNETES)
        or any(KUBERNETES[1] in mount.root for mount in mounts)
    )


def _is_machine(groups: str, mounts: tuple[Mount, ...]) -> bool:
    """/.dockerenv left in the disk of a virtual machine that was built from an image."""
    root = root_mount(mounts)
    return root is not None and root.root == "/" and root.source.startswith(DISKS) and "docker" not in groups


def _image(host: Host, env: Mapping[str, str]) -> str | None:
    """The image's name where the runtime tells it.

    engine="podman-4.9.3"
    image="docker.io/nvidia/cuda:12.4.1-base-ubuntu22.04"
    """
    for line in (host.read("/run/.containerenv", 65536) or "").splitlines():
        if line.startswith("image="):
            return line[6:].strip().strip('"') or None
    return env.get("APPTAINER_CONTAINER") or env.get("SINGULARITY_CONTAINER") or None


def _nvidia_runtime(host: Host, runtime: str | None, mounts: tuple[Mount, ...]) -> bool | None:
    """Whether the NVIDIA container toolkit (hook or CDI), `--nv`, or WSL put the driver into this container.

    The toolkit bind-mounts libcuda and nvidia-smi one by one; a CDI specification also sets NVIDIA_VISIBLE_DEVICES=void.
    """
    if any("libcuda.so" in mount.point or mount.point.endswith("/nvidia-smi") or mount.point == "/usr/lib/wsl" for mount in mounts):
        return True
    if any(mount.point.startswith("/dev/nvidia") for mount in mounts) or host.env.get("NVIDIA_VISIBLE_DEVICES") == "void":
        return True
    if runtime in ("apptainer", "singularity"):
        return any(name.startswith("libcuda.so") for name in host.listdir("/.singularity.d/libs") or ())
    if host.exists("/dev/nvidiactl"):
        return None  # nodes without libraries that can be told from the image's own: --device, or a privileged container
    return False if mounts else None
