"""Rank variables of every launcher, the scheduler, and the rendezvous address.

Several launchers leave their variables in one process (mpirun within sbatch sets both); `readings` keeps what each says.
The one that counts: a complete torchrun set, then a complete native set in the order of NATIVE, then PET_* inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from envcheck.facts.record import replace
from envcheck.facts.snapshot import LauncherFacts, Missing, RankReading, Why
from envcheck.host.access import Host
from envcheck.probes.claims import rank_claims
from envcheck.probes.listeners import port_owner

RESOLVE_SECONDS = 3.0


class Names(NamedTuple):
    """The variables of one launcher; the first one of each tuple that is set counts."""

    launcher: str
    rank: tuple[str, ...] = ()
    world_size: tuple[str, ...] = ()
    local_rank: tuple[str, ...] = ()
    local_world_size: tuple[str, ...] = ()
    node_rank: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()  # the set is complete with these beside rank and size
    one_of: tuple[str, ...] = ()  # and with one of these


# torch/distributed/elastic/agent/server/local_elastic_agent.py
TORCHRUN = Names(
    "torchrun", ("RANK",), ("WORLD_SIZE",), ("LOCAL_RANK",), ("LOCAL_WORLD_SIZE",), ("GROUP_RANK", "NODE_RANK"), ("GROUP_WORLD_SIZE",),
    needs=("LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"),
)  # fmt: skip
NATIVE = (
    # https://docs.open-mpi.org/en/main/tuning-apps/environment-var.html ; OMPI_COMM_WORLD_NODE_RANK is a rank within the node
    Names(
        "openmpi", ("OMPI_COMM_WORLD_RANK",), ("OMPI_COMM_WORLD_SIZE",), ("OMPI_COMM_WORLD_LOCAL_RANK",), ("OMPI_COMM_WORLD_LOCAL_SIZE",),
    ),
    # MPICH's Hydra and Intel MPI
    Names("mpich", ("PMI_RANK",), ("PMI_SIZE",), ("MPI_LOCALRANKID",), ("MPI_LOCALNRANKS",)),
    Names("mvapich", ("MV2_COMM_WORLD_RANK",), ("MV2_COMM_WORLD_SIZE",), ("MV2_COMM_WORLD_LOCAL_RANK",), ("MV2_COMM_WORLD_LOCAL_SIZE",)),
    Names("jsrun", ("JSM_NAMESPACE_RANK",), ("JSM_NAMESPACE_SIZE",), ("JSM_NAMESPACE_LOCAL_RANK",), ("JSM_NAMESPACE_LOCAL_SIZE",)),
    # https://slurm.schedmd.com/srun.html ; a batch script itself has SLURM_PROCID=0 too, but is in no step of srun
    Names(
        "slurm", ("SLURM_PROCID",), ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"), ("SLURM_LOCALID",),
        ("SLURM_NTASKS_PER_NODE",), ("SLURM_NODEID",), ("SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
        one_of=("SLURM_STEP_ID", "SLURM_STEPID", "SLURM_STEP_NUM_TASKS"),
    ),
    # PMIx alone (prterun) gives no size: never complete
    Names("pmix", ("PMIX_RANK",)),
)  # fmt: skip
# Inputs of torchrun, as Kubeflow's Trainer sets them for a node
PET = Names("pet", local_world_size=("PET_NPROC_PER_NODE",), node_rank=("PET_NODE_RANK",), nodes=("PET_NNODES",))

SCHEDULERS = (
    ("SLURM_JOB_ID", "slurm"), ("SLURM_JOBID", "slurm"), ("LSB_JOBID", "lsf"), ("PBS_JOBID", "pbs"), ("FLUX_JOB_ID", "flux"),
    ("SGE_TASK_ID", "sge"), ("OAR_JOB_ID", "oar"),
)  # fmt: skip
PREFIXES = ("PET_", "TORCHELASTIC_", "OMPI_COMM_WORLD_", "MV2_COMM_WORLD_", "JSM_NAMESPACE_", "MPI_LOCAL", "ROLE_", "GROUP_")
KEPT = frozenset((
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "PMI_RANK", "PMI_SIZE", "PMI_FD",
    "PMI_HOSTNAME", "PMIX_RANK", "PMIX_NAMESPACE", "LSB_JOBID", "LSB_DJOB_RANKFILE", "LSB_DJOB_NUMPROC", "PBS_JOBID", "FLUX_JOB_ID",
    "FLUX_TASK_RANK", "JOB_COMPLETION_INDEX", "SM_HOSTS", "SM_CURRENT_HOST", "RAY_JOB_ID", "ACCELERATE_TORCH_DEVICE",
    "SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JOB_NAME", "SLURM_STEP_ID", "SLURM_STEPID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID",
    "SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE", "SLURM_NNODES",
    "SLURM_JOB_NUM_NODES", "SLURM_STEP_NUM_NODES", "SLURM_STEP_NUM_TASKS", "SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_STEP_NODELIST",
    "SLURM_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_TASK", "SLURM_GPUS_PER_NODE", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS",
    "SLURM_GPU_BIND", "SLURM_GPUS_PER_TASK", "SLURM_CPUS_PER_TASK", "SLURM_CPU_BIND", "SLURM_LAUNCH_NODE_IPADDR", "SLURM_EXPORT_ENV",
))  # fmt: skip


def probe(host: Host) -> LauncherFacts | Missing:
    told = launcher_facts(host.env)
    if isinstance(told, Missing):
        return told
    address, port = told.master_addr, told.master_port
    answer = host.resolve(address, RESOLVE_SECONDS) if address and address.strip() else None
    return replace(
        told,
        master_addr_resolves=answer.addresses if answer and not answer.timed_out else None,
        master_addr_error=answer.error if answer else None,
        master_port_owner=port_owner(host, int(port)) if port and port.isdecimal() and len(port) < 6 else None,
        rank_claims=rank_claims(host),
    )


def launcher_facts(env: Mapping[str, str]) -> LauncherFacts | Missing:
    """What the variables alone say: no name is asked for, no process looked at."""
    variables = {name: env[name] for name in sorted(env) if name in KEPT or name.startswith(PREFIXES)}
    scheduler = next((scheduler for name, scheduler in SCHEDULERS if env.get(name)), None)
    if not variables and scheduler is None:
        return Missing(Why.ABSENT, "no rank variable is set")
    readings = read_ranks(env)
    first = readings[0] if readings else RankReading("none")
    return LauncherFacts(
        launcher=first.launcher if readings else None,
        scheduler=scheduler or ("kubernetes" if "KUBERNETES_SERVICE_HOST" in env else None),
        rank=first.rank,
        world_size=first.world_size,
        local_rank=first.local_rank,
        master_addr=env.get("MASTER_ADDR"),
        master_port=env.get("MASTER_PORT"),
        nodes=first.nodes,
        variables=variables,
        readings=readings,
    )


def read_ranks(env: Mapping[str, str]) -> tuple[RankReading, ...]:
    """What every launcher's variables say, the one that counts first."""
    torchrun = _read(TORCHRUN, env, _named_by(env))
    native = [reading for reading in (_read(names, env) for names in NATIVE) if reading]
    pmi, slurm = (next((one for one in native if one.launcher == name), None) for name in ("mpich", "slurm"))
    if pmi and slurm and slurm.complete and (pmi.rank, pmi.world_size) == (slurm.rank, slurm.world_size):
        # srun's own PMI plugin speaks for srun
        native.remove(slurm)
        native.insert(native.index(pmi), slurm)
    ordered = [reading for reading in (torchrun, *native, _read(PET, env)) if reading]
    return (*(one for one in ordered if one.complete), *(one for one in ordered if not one.complete))


def _named_by(env: Mapping[str, str]) -> str:
    """Who set RANK and WORLD_SIZE: several launchers use torchrun's names."""
    if "TORCHELASTIC_RUN_ID" in env or "TORCHELASTIC_RESTART_COUNT" in env:
        return "torchrun"
    if "RAY_JOB_ID" in env or "ACCELERATE_TORCH_DEVICE" in env:
        return "ray"
    # Kubeflow's PyTorchJob sets pod index and pod count, and no LOCAL_RANK
    if "KUBERNETES_SERVICE_HOST" in env and "LOCAL_RANK" not in env and "RANK" in env and "MASTER_ADDR" in env:
        return "kubeflow"
    return "env"


def _read(names: Names, env: Mapping[str, str], launcher: str | None = None) -> RankReading | None:
    """None if the launcher left no trace."""
    unreadable: list[str] = []

    def number(candidates: tuple[str, ...]) -> int | None:
        for name in candidates:
            text = env.get(name)
            if text is None:
                continue
            word = text.strip()
            if word.isascii() and word.isdecimal() and len(word) < 10:
                return int(word)
            # PET_NNODES=1:4 and PET_NPROC_PER_NODE=gpu are in order, and no number
            if not name.startswith("PET_"):
                unreadable.append(f"{name}={text}")
            return None
        return None

    rank, size = number(names.rank), number(names.world_size)
    local, local_size, node, nodes = (number(some) for some in (names.local_rank, names.local_world_size, names.node_rank, names.nodes))
    if names is PET:
        seen = any(name.startswith("PET_") for name in env)
    else:
        seen = any(name in env for name in (*names.rank, *names.world_size, *names.local_rank))
    if names.launcher == "slurm" and "SLURM_PROCID" not in env:
        seen = False  # an allocation alone gives nobody a rank
    if not seen:
        return None
    complete = rank is not None and size is not None and all(env.get(name) for name in names.needs)
    complete = complete and (not names.one_of or any(name in env for name in names.one_of))
    return RankReading(launcher or names.launcher, rank, size, local, local_size, node, nodes, complete, tuple(unreadable))
