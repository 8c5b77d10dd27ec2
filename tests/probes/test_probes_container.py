"""Containers by the signs each runtime leaves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from machines import linux, machine

from envcheck.facts.snapshot import ContainerFacts, Missing, Why
from envcheck.host.recording import ReplayHost
from envcheck.probes import container

OVERLAY = "1 0 0:1 / / rw - overlay overlay rw,lowerdir="
DISK = "1 0 254:0 / / rw - ext4 /dev/vda rw\n"


def test_docker_without_gpu() -> None:
    found = container.probe(machine("docker-cgroup1"))
    assert found == ContainerFacts(
        runtime="docker",
        kubernetes=False,
        cuda_requirement="cuda>=12.8 brand=unknown,driver>=470",
        cuda_version="12.8.1",
        driver_capabilities="compute,utility",
        nvidia_runtime=False,
    )


def test_kubernetes_with_cdi() -> None:
    found = container.probe(machine("kubernetes-cgroup2"))
    assert isinstance(found, ContainerFacts)
    assert (found.runtime, found.kubernetes, found.nvidia_runtime) == ("containerd", True, True)


@pytest.mark.parametrize("name", ["h200-vm", "wsl2", "mac-m2", "windows-11", "mi300x"])
def test_outside(name: str) -> None:
    found = container.probe(machine(name))
    assert isinstance(found, Missing) and found.why is Why.ABSENT


def test_machine_made_from_an_image() -> None:
    """A virtual machine whose disk was filled from a container image keeps /.dockerenv."""
    disk = container.probe(linux({"exists /.dockerenv": True, "read /proc/self/mountinfo": DISK, "read /proc/self/cgroup": "0::/\n"}))
    assert isinstance(disk, Missing) and "image" in disk.reason
    bind = DISK.replace(" / / ", " /var/lib/docker/vfs/dir/a / ")  # the vfs storage driver: a folder, not the disk
    found = container.probe(linux({"exists /.dockerenv": True, "read /proc/self/mountinfo": bind}))
    assert isinstance(found, ContainerFacts) and found.runtime == "docker"


@pytest.mark.parametrize(
    ("answers", "env", "runtime"),
    [
        ({"exists /.dockerenv": True}, {}, "docker"),
        ({"read /proc/self/mountinfo": OVERLAY + "/var/lib/docker/overlay2/l/A"}, {}, "docker"),
        ({"read /proc/self/cgroup": "0::/system.slice/docker-36.scope\n", "exists /.dockerenv": True}, {}, "docker"),
        # Docker that stores its images in containerd
        (
            {
                "read /proc/self/mountinfo": OVERLAY + "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/1/fs\n"
                "2 1 8:1 /var/lib/docker/containers/36/hosts /etc/hosts rw - ext4 /dev/sda1 rw\n"
            },
            {},
            "docker",
        ),
        ({"read /run/.containerenv": ""}, {}, "podman"),
        ({}, {"container": "podman"}, "podman"),
        ({"read /run/.containerenv": "", "exists /var/run/secrets/kubernetes.io/serviceaccount": True}, {}, "cri-o"),
        ({"read /proc/self/cgroup": "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-2.scope\n"}, {}, "containerd"),
        ({"read /proc/self/cgroup": "0::/kubepods.slice/kubepods-pod1.slice/crio-2.scope\n"}, {}, "cri-o"),
        ({}, {"APPTAINER_CONTAINER": "/images/torch.sif"}, "apptainer"),
        ({"listdir /.singularity.d": ["libs"]}, {}, "apptainer"),
        ({}, {"SINGULARITY_NAME": "torch.sif"}, "singularity"),
        ({"read /proc/self/mountinfo": "1 0 0:1 /run/enroot/user/passwd /etc/passwd ro - tmpfs tmpfs rw\n"}, {}, "enroot"),
        ({"variables_of 1 container": {"container": "lxc"}}, {}, "lxc"),
        ({"read /run/systemd/container": "systemd-nspawn\n"}, {}, "systemd-nspawn"),
        ({}, {"container": "something-new"}, "something-new"),
    ],
)
def test_runtimes(answers: Mapping[str, Any], env: Mapping[str, str], runtime: str) -> None:
    found = container.probe(linux(answers, env))
    assert isinstance(found, ContainerFacts) and found.runtime == runtime


def test_image() -> None:
    podman = container.probe(linux({"read /run/.containerenv": 'engine="podman-4.9.3"\nimage="docker.io/nvidia/cuda:12.4.1"\n'}))
    assert isinstance(podman, ContainerFacts) and podman.image == "docker.io/nvidia/cuda:12.4.1"
    apptainer = container.probe(linux({}, {"APPTAINER_CONTAINER": "/images/torch.sif"}))
    assert isinstance(apptainer, ContainerFacts) and apptainer.image == "/images/torch.sif"


def nvidia_runtime(answers: Mapping[str, Any], env: Mapping[str, str] | None = None) -> bool | None:
    found = container.probe(linux({"exists /.dockerenv": True, **answers}, env))
    assert isinstance(found, ContainerFacts)
    return found.nvidia_runtime


def test_nvidia_runtime() -> None:
    base = OVERLAY + "/var/lib/docker/overlay2/l/A\n"
    library = "2 1 8:1 /usr/lib/libcuda.so.1 /usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05 ro - ext4 /dev/sda1 rw\n"
    assert nvidia_runtime({"read /proc/self/mountinfo": base + library}) is True
    assert nvidia_runtime({"read /proc/self/mountinfo": base}, {"NVIDIA_VISIBLE_DEVICES": "void"}) is True
    assert nvidia_runtime({"read /proc/self/mountinfo": base}, {"NVIDIA_VISIBLE_DEVICES": "all"}) is False
    assert nvidia_runtime({"read /proc/self/mountinfo": base, "exists /dev/nvidiactl": True}) is None
    assert nvidia_runtime({}) is None  # the mounts are not known
    wsl = "2 1 0:9 / /usr/lib/wsl ro - 9p drivers rw\n"
    assert nvidia_runtime({"read /proc/self/mountinfo": base + wsl}) is True


def test_apptainer_nv() -> None:
    env = {"APPTAINER_CONTAINER": "/t.sif"}
    assert nvidia_runtime({"listdir /.singularity.d/libs": ["libcuda.so.1", "libnvidia-ml.so.1"]}, env) is True
    assert nvidia_runtime({"listdir /.singularity.d/libs": []}, env) is False


def test_nothing() -> None:
    assert isinstance(container.probe(ReplayHost({})), Missing)
