"""What the hosts of a job do not have in common: minorities against the majority, or against a golden host."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeAlias

from envcheck.checks.hardware import number
from envcheck.engine.intents import Install, Intent, Manual, SetEnv, TorchBuild
from envcheck.engine.rule import Answer, Confidence, Evidence, Facts, Hit, Severity, check
from envcheck.facts.fleet import FleetFacts, FleetGroup
from envcheck.facts.hostlist import fold, natural
from envcheck.facts.record import record

# Facts in the words of their users; all others are called by the last part of their name.
NAMES = {
    "torch.version": "torch", "torch.cuda": "torch's CUDA", "torch.hip": "torch's ROCm", "torch.xpu": "torch's XPU", "torch": "torch",
    "torch.nccl": "torch's NCCL", "torch.nccl_loaded": "the loaded NCCL", "torch.cudnn": "cuDNN", "torch.git_version": "torch's commit",
    "driver.version": "driver", "driver": "NVIDIA driver", "driver.cuda": "the driver's CUDA", "driver.fabric_manager": "fabric manager",
    "driver.flavour": "kernel module", "rocm.version": "ROCm", "rocm.driver_version": "AMD driver", "cuda_driver": "libcuda",
    "cuda_driver.driver_version": "libcuda's CUDA", "cuda_driver.library_path": "libcuda.so.1",
    "gpus.count": "GPUs", "gpus.devices.name": "GPU model", "gpus.devices.memory_bytes": "GPU memory", "gpus.devices.mig": "MIG",
    "gpus.devices.ecc": "ECC", "gpus.devices.nvlinks_active": "active NVLinks a GPU", "gpus.devices.pcie_width": "PCIe lanes a GPU",
    "gpus": "NVIDIA GPUs", "python.version": "Python", "python.executable": "interpreter", "python.pythonpath": "PYTHONPATH",
    "network.peermem": "nvidia_peermem loaded", "limits.memlock_soft_bytes": "locked memory (ulimit -l)",
    "limits.memlock_hard_bytes": "hard limit of locked memory", "limits.open_files_soft": "open files (ulimit -n)",
    "limits.open_files_hard": "hard limit of open files", "limits.shm_bytes": "shared memory (/dev/shm)",
    "limits.processes_soft": "processes (ulimit -u)",
    "system.kernel": "kernel", "system.distribution": "system", "system.memory_bytes": "memory", "container": "container",
    "container.image": "container image", "toolkit.nvcc.release": "nvcc", "toolkit.gcc": "gcc",
}  # fmt: skip
_ORDER = {fact: place for place, fact in enumerate(NAMES)}
# Variables by which NCCL is told where it runs: they may be right and different on hosts whose cards have different names.
OF_THE_HOST = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_TOPO_FILE", "NCCL_HOSTID", "UCX_NET_DEVICES")
Graded: TypeAlias = tuple[Severity | None, Confidence | None, str | None]  # severity, confidence and message, where not the rule's own
OTHER_GPUS = ("rocm.gfx", "rocm.names", "xpu.names")  # what a host has of other makers than NVIDIA
_VERSION = re.compile(r"\d[\w.!+-]{0,60}")  # of a package, before it stands in a command
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,100}")
MOST_TOLD = 6  # differences in one sentence; the evidence has them all


@record
class Drift:
    """One fact that is not the same on all hosts."""

    fact: str
    value: str | None  # of the majority or of the golden host; None: no value has one
    holders: int  # hosts that have it
    odd: tuple[tuple[str, tuple[str, ...]], ...]  # other values and their hosts, most hosts first

    @property
    def hosts(self) -> tuple[str, ...]:
        """Those that are unlike the majority; where there is none, none is."""
        return tuple(host for _, hosts in self.odd for host in hosts) if self.value is not None else ()

    @property
    def scattered(self) -> bool:
        """It is another one on most hosts: a name or a path of each host's own, and no drift."""
        every = self.holders + sum(len(hosts) for _, hosts in self.odd)
        return every > 3 and 2 * (len(self.odd) + bool(self.holders)) > every


def name_of(fact: str) -> str:
    """A fact in a reader's words: "driver", "numpy", "NCCL_ALGO", "eth0 mtu"."""
    if fact in NAMES:
        return NAMES[fact]
    for family in ("packages.", "network.variables.", "network.nccl_conf.", "python.variables."):
        if fact.startswith(family):
            return fact.removeprefix(family)
    parts = fact.split(".")
    own = fact.split(".", 2)[2].rpartition(".") if parts[1:2] in (["interfaces"], ["infiniband"], ["caches"]) else None
    return (f"{own[0]} " if own else "") + (own[2] if own else parts[-1]).removesuffix("_bytes").replace("_", " ")


def drifts(fleet: FleetFacts, wanted: Callable[[str], bool]) -> tuple[Drift, ...]:
    """Each wanted fact that differs, as told by the groups of its layer."""
    layers: dict[str, list[FleetGroup]] = {}
    for group in fleet.groups:
        layers.setdefault(group.layer, []).append(group)
    made = [
        drift
        for groups in layers.values()
        for fact in dict.fromkeys(fact for group in groups for fact in group.values)
        if wanted(fact) and (drift := _drift(fact, groups, fleet.golden))
    ]
    return tuple(sorted(made, key=lambda one: (*_place(one.fact), one.fact)))


def _place(fact: str) -> tuple[int, int]:
    return (0, _ORDER[fact]) if fact in _ORDER else (1, 0)


def _drift(fact: str, groups: Iterable[FleetGroup], golden: bool) -> Drift | None:
    held: dict[str, list[str]] = {}
    first: str | None = None
    for at, group in enumerate(groups):
        if fact in group.values:
            held.setdefault(group.values[fact], []).extend(group.hosts)
            first = group.values[fact] if at == 0 else first
    if len(held) < 2 or (golden and first is None):
        return None
    rows = sorted(held.items(), key=lambda row: (-len(row[1]), row[0]))
    value = first if golden else rows[0][0] if len(rows[0][1]) > len(rows[1][1]) else None
    odd = tuple((text, tuple(sorted(hosts, key=natural))) for text, hosts in rows if text != value and hosts)
    return Drift(fact, value, len(held[value]) if value is not None else 0, odd) if odd else None


def said(drift: Drift, golden: bool = False) -> str:
    """ "driver 570.124.06 on n[017,203-204], 580.95.05 on 253 others"."""
    parts = [f"{text} on {fold(hosts)}" for text, hosts in drift.odd[:4]]
    if len(drift.odd) > 4:
        rest = [host for _, hosts in drift.odd[4:] for host in hosts]
        parts.append(f"{len(drift.odd) - 4} other values on {fold(rest)}")
    if golden:
        parts.append(f"{drift.value} on the golden host")
    elif drift.value is not None:
        parts.append(f"{drift.value} on {drift.holders} {'others' if drift.holders > 1 else 'other'}")
    return f"{name_of(drift.fact)} {', '.join(parts)}"


def _told(found: Iterable[Drift], golden: bool) -> tuple[str, list[Drift]]:
    """All of them in one sentence; facts that set the same hosts apart follow the first of these without the hosts' names."""
    rows = list(found)
    by_hosts: dict[tuple[str, ...], list[Drift]] = {}
    for drift in rows:
        by_hosts.setdefault(tuple(fold(hosts) for _, hosts in drift.odd), []).append(drift)
    clauses = []
    for same in by_hosts.values():
        beside = [f"{name_of(one.fact)} {', '.join(text for text, _ in one.odd)}{_instead(one)}" for one in same[1:]]
        more = f" and {len(beside) - MOST_TOLD} more facts" if len(beside) > MOST_TOLD else ""
        also = f" (there also {', '.join(beside[:MOST_TOLD])}{more})" if beside else ""
        clauses.append(said(same[0], golden) + also)
    left = f"; and {len(clauses) - MOST_TOLD} more differences" if len(clauses) > MOST_TOLD else ""
    return "; ".join(clauses[:MOST_TOLD]) + left, [one for same in by_hosts.values() for one in same]


def _instead(drift: Drift) -> str:
    return "" if drift.value is None else f" instead of {drift.value}"


def _hit(
    facts: Facts,
    wanted: Callable[[str], bool],
    fixes: Callable[[Drift], tuple[Intent, ...]] | None = None,
    worst: Callable[[Drift], Graded] | None = None,
    leave: Callable[[Drift], bool] = lambda _: False,
) -> Answer:
    """One hit for all the facts of a rule. The hosts are those that are unlike the majority, in Slurm's form."""
    found = [one for one in drifts(facts.fleet, wanted) if not one.scattered and not leave(one)]
    if not found:
        return None
    told, rows = _told(found, facts.fleet.golden)
    hosts = sorted({host for one in rows for host in one.hosts}, key=natural)
    graded = sorted((worst(one) for one in rows), key=_grade) if worst else [(None, None, None)]
    severity, confidence, variant = graded[0]
    intents = dict.fromkeys(intent for one in rows if one.value is not None for intent in (fixes(one) if fixes else ()))
    values = {"differences": told, "hosts": fold(hosts), "where": "these hosts" if hosts else "one of the two sides"}
    evidence = tuple(Evidence(one.fact, said(one, facts.fleet.golden)) for one in rows)
    return Hit(values, evidence, tuple(intents), variant, severity, confidence)


def _grade(one: Graded) -> tuple[int, bool]:
    return (one[0] or Severity.WARNING).order, one[1] is Confidence.LIKELY


def _package(drift: Drift) -> tuple[Intent, ...]:
    """The version that the others have; what the others do not have goes."""
    name, value = drift.fact.removeprefix("packages."), drift.value or ""
    if not _NAME.fullmatch(name):
        return ()
    if value == "not installed":
        return (Install((), (name,)),)
    return (Install((f"{name}=={value}",)),) if _VERSION.fullmatch(value) else ()


def _variable(drift: Drift) -> tuple[Intent, ...]:
    if drift.fact.startswith("network.nccl_conf."):
        return ()
    return (SetEnv(drift.fact.rpartition(".")[2], None if drift.value == "not set" else drift.value),)


def _starts(*families: str) -> Callable[[str], bool]:
    return lambda fact: fact.startswith(families)


def _is_nccl(fact: str) -> bool:
    return fact in ("torch.nccl", "torch.nccl_loaded") or fact.startswith("packages.nvidia-nccl-")


@check(needs="fleet", reads="fleet")
def fleet_nccl_differs(facts: Facts) -> Answer:
    """NCCL refuses to start between two releases of itself. Where these hosts have another torch too, that brought it."""
    torch = {drift.hosts: _torch_fix(drift) for drift in drifts(facts.fleet, _is_torch) if drift.fact == "torch.version"}

    def fixes(drift: Drift) -> tuple[Intent, ...]:
        return torch.get(drift.hosts) or (_package(drift) if drift.fact.startswith("packages.") else ())

    return _hit(facts, _is_nccl, fixes)


@check(needs="fleet", reads="fleet")
def fleet_torch_differs(facts: Facts) -> Answer:
    def worst(drift: Drift) -> Graded:
        kinds = {_kind_of_build(text) for text, _ in drift.odd} | {_kind_of_build(drift.value or drift.odd[0][0])}
        other = drift.fact == "torch.version" and len(kinds) > 1 and "" not in kinds
        missing = drift.fact == "torch"
        return (Severity.ERROR, Confidence.CERTAIN, "missing" if missing else "build") if other or missing else (None, None, None)

    return _hit(facts, _is_torch, _torch_fix, worst)


def _is_torch(fact: str) -> bool:
    return fact == "torch" or (fact.startswith(("torch.", "backends.")) and not _is_nccl(fact) and fact != "torch.path")


def _torch_fix(drift: Drift) -> tuple[Intent, ...]:
    if drift.fact != "torch.version" or not _VERSION.fullmatch(drift.value or ""):
        return ()
    number, _, local = (drift.value or "").partition("+")
    if all(text.partition("+")[2] == local for text, _ in drift.odd):
        return (Install((f"torch=={number}",)),)  # from the index of the variant that is there
    return (TorchBuild(f"=={number}"),)


def _kind_of_build(version: str) -> str:
    """ "cu", "cpu", "rocm" or "xpu" of "2.14.1+cu130"; "" where the version does not say it."""
    return version.partition("+")[2].rstrip("0123456789.")


_is_driver = _starts("driver", "cuda_driver", "rocm", "xpu")
_is_gpu = _starts("gpus", "visibility")


@check(needs="fleet", reads="fleet")
def fleet_driver_differs(facts: Facts) -> Answer:
    def fixes(drift: Drift) -> tuple[Intent, ...]:
        if drift.fact == "driver.version" and drift.value:
            text = f"Install NVIDIA driver {drift.value} there, as on the others, and restart the machine."
            return (Manual(text, "admin", ("cat /sys/module/nvidia/version",)),)
        if drift.fact == "driver.fabric_manager" and drift.value == "running":
            return (Manual("Start the fabric manager there.", "admin", ("sudo systemctl restart nvidia-fabricmanager",)),)
        return ()

    def worst(drift: Drift) -> Graded:
        gone = drift.fact == "driver" and drift.value == "present"
        return (Severity.ERROR, Confidence.LIKELY, "absent") if gone else (None, None, None)

    return _hit(facts, lambda fact: _is_driver(fact) and fact not in OTHER_GPUS, fixes, worst)


@check(needs="fleet", reads="fleet")
def fleet_gpus_differ(facts: Facts) -> Answer:
    def worst(drift: Drift) -> Graded:
        usual = number(drift.value) if drift.fact == "gpus.count" else None
        fewer = usual is not None and any((count := number(text)) is not None and count < usual for text, _ in drift.odd)
        return (Severity.ERROR, Confidence.LIKELY, "fewer") if fewer else (None, None, None)

    return _hit(facts, lambda fact: _is_gpu(fact) or fact in OTHER_GPUS, None, worst)


@check(needs="fleet", reads="fleet")
def fleet_nics_differ(facts: Facts) -> Answer:
    return _hit(facts, _starts("network.interfaces.", "network.infiniband.", "network.peermem"))


def _nccl_variable(fact: str) -> bool:
    return fact.startswith(("network.variables.", "network.nccl_conf."))


@check(needs="fleet", reads="fleet")
def fleet_variables_differ(facts: Facts) -> Answer:
    def worst(drift: Drift) -> Graded:
        return (Severity.INFO if drift.fact.rpartition(".")[2] in OF_THE_HOST else None), None, None

    return _hit(facts, _nccl_variable, _variable, worst)


@check(needs="fleet", reads="fleet")
def fleet_packages_differ(facts: Facts) -> Answer:
    """Python, its packages and what it was started with; torch and NCCL have rules of their own."""

    torch = {drift.hosts for drift in drifts(facts.fleet, _is_torch) if drift.fact == "torch.version"}

    def fixes(drift: Drift) -> tuple[Intent, ...]:
        if drift.fact.startswith("packages."):
            return _package(drift)
        return _variable(drift) if drift.fact.startswith("python.variables.") else ()

    def came_with_torch(drift: Drift) -> bool:
        return drift.fact.startswith(("packages.nvidia-", "packages.triton")) and drift.hosts in torch

    return _hit(facts, _is_package, fixes, leave=came_with_torch)


def _is_package(fact: str) -> bool:
    families = ("python.version", "python.implementation", "python.free_threaded", "python.variables.", "packages")
    return fact.startswith(families) and fact != "packages.torch" and not _is_nccl(fact)


@check(needs="fleet", reads="fleet")
def fleet_code_differs(facts: Facts) -> Answer:
    return _hit(facts, _starts("python.pythonpath", "python.sys_path", "python.user_site_enabled", "python.no_site", "torch.path"))


@check(needs="fleet", reads="fleet")
def fleet_limits_differ(facts: Facts) -> Answer:
    return _hit(facts, _starts("limits.", "system.cpu_affinity", "system.cpu_limit", "system.memory_limit"))


@check(needs="fleet", reads="fleet")
def fleet_systems_differ(facts: Facts) -> Answer:
    limits = ("system.cpu_affinity", "system.cpu_limit", "system.memory_limit_bytes")
    families = _starts("system", "container", "mps", "toolkit", "python.executable", "python.environment", "python.platform", "python.bits")
    return _hit(facts, lambda fact: families(fact) and fact not in limits)


@check(needs="fleet", reads="fleet")
def fleet_facts_scattered(facts: Facts) -> Answer:
    """Facts that are another on most hosts: told once, so that nobody takes silence for sameness."""
    found = [one for one in drifts(facts.fleet, lambda _: True) if one.scattered]
    if not found:
        return None
    every = [f"{name_of(one.fact)} ({len(one.odd) + bool(one.holders)} values)" for one in found]
    more = f" and {len(every) - MOST_TOLD} more" if len(every) > MOST_TOLD else ""
    evidence = tuple(Evidence(one.fact, _some(one)) for one in found)
    return Hit({"facts": ", ".join(every[:MOST_TOLD]) + more}, evidence)


def _some(drift: Drift) -> str:
    return ", ".join(f"{text} on {fold(hosts)}" for text, hosts in drift.odd[:3])
