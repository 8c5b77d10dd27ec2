"""What kind of machine a snapshot is of, in single words: what is to be done depends on it."""

from __future__ import annotations

from envcheck.facts.snapshot import ContainerFacts, LauncherFacts, PythonFacts, Snapshot, SystemFacts, TorchFacts

# Distributions of Linux by the tools that install their packages
FAMILIES = {
    "debian": ("debian", "ubuntu", "linuxmint", "mint", "pop", "kali", "raspbian", "dgx"),
    "redhat": ("fedora", "rhel", "centos", "rocky", "alma", "almalinux", "amzn", "ol", "oracle", "scientific"),
    "suse": ("opensuse", "opensuse-leap", "opensuse-tumbleweed", "sles"),
    "arch": ("arch", "manjaro"),
}
TRAITS = ("linux", "windows", "darwin", "wsl", "jetson", "container", "kubernetes", "slurm", "conda", *FAMILIES)


def traits(snapshot: Snapshot) -> frozenset[str]:
    """Those of TRAITS that are known; a text may leave all of them open."""
    found: set[str | None] = set()
    system, container, launcher = snapshot.system, snapshot.container, snapshot.launcher
    if isinstance(system, SystemFacts):
        found |= {system.os, "wsl" if system.wsl else None, "jetson" if system.jetson else None}
        found |= {family for family, names in FAMILIES.items() if system.distribution_id in names}
    if isinstance(container, ContainerFacts):
        found |= {"container" if container.runtime or container.kubernetes else None, "kubernetes" if container.kubernetes else None}
    if isinstance(launcher, LauncherFacts):
        slurm = launcher.scheduler == "slurm" or any(name.startswith("SLURM_") for name in launcher.variables)
        slurm = slurm or any(one.launcher in ("srun", "sbatch", "salloc") for one in launcher.commands)
        found.add("slurm" if slurm else None)
    conda = isinstance(snapshot.python, PythonFacts) and snapshot.python.environment == "conda"
    found.add("conda" if conda or (isinstance(snapshot.torch, TorchFacts) and snapshot.torch.conda) else None)
    return frozenset(one for one in found if one in TRAITS)
