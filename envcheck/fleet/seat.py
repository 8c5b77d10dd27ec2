"""Who this process is in its job, from the launcher's variables alone: no socket, no torch, nothing of another host."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from envcheck.facts.fleet import FleetSeat
from envcheck.facts.hostlist import unfold
from envcheck.facts.record import record
from envcheck.facts.snapshot import RankReading
from envcheck.probes.launcher import read_ranks

FIRST_PORT, PORTS = 15000, 10000  # below Linux's ephemeral ports, above those of services
NEXT_PORTS = 16  # tried where the first one is taken
LOOPBACK = "127.0.0.1"
JOB = "ENVCHECK_FLEET_JOB"  # a name of the job that the user gives, where no launcher gives one or it shall be secret
# What tells one job from another, first that is set. Nothing that ranks of one job may disagree on, such as the world size.
_OF_SCHEDULER = ("SLURM_JOB_ID", "SLURM_JOBID", "LSB_JOBID", "PBS_JOBID", "FLUX_JOB_ID")
_OF_LAUNCHER: Mapping[str, tuple[str, ...]] = {
    "torchrun": ("TORCHELASTIC_RUN_ID",),
    "openmpi": ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
    "slurm": ("SLURM_STEP_ID", "SLURM_STEPID"),
    "ray": ("RAY_JOB_ID",),
    "pet": ("PET_RDZV_ID", "PET_MASTER_ADDR"),
}
UNNAMED = "none"  # torchrun's run id where nobody gave one
_BY_TORCH = ("torchrun", "env", "ray", "kubeflow")  # their sets hold torch's own MASTER_ADDR


@record
class Seat:
    """One process of the job. `ports` are tried in this order by rank 0 that opens the store and by all who join it."""

    host: str
    pid: int
    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    launcher: str  # "slurm", "torchrun", "openmpi", "ray", "pet", …; "none" for a single process
    node: int | None = None
    nodes: int | None = None
    hosts: tuple[str, ...] = ()  # that are to be there, Slurm's in the order of the nodes; () where the launcher does not tell
    master: str | None = None  # name or address of rank 0's host; None: nobody tells, and nothing can be joined
    master_source: str = ""  # "MASTER_ADDR", "the first host of SLURM_STEP_NODELIST", …
    ports: tuple[int, ...] = ()
    token: str = ""  # hexadecimal; the same in all processes of the job
    job: str = ""  # the launcher's own name of the job: "slurm 4242.0"
    readings: tuple[RankReading, ...] = ()  # what each launcher said; the first one counts

    def told(self, **more: object) -> FleetSeat:
        """The same as this process tells it to the others."""
        master = f"{self.master}:{self.ports[0]}" if self.master and self.ports else self.master
        return FleetSeat(
            self.host, self.pid, self.rank, self.world_size, self.local_rank, self.local_world_size, self.launcher, master, **more  # type: ignore[arg-type]
        )  # fmt: skip


@record
class JobTold:
    """What the launcher's own server says of the job, where the variables do not: Open MPI's by PMIx."""

    master: str  # host of rank 0
    hosts: tuple[str, ...] = ()


def take_seat(env: Mapping[str, str], host: str, pid: int, *, master: str | None = None, told: JobTold | None = None) -> Seat | None:
    """The place of this process; None where its variables give it none. `master` is the user's "HOST[:PORT]"."""
    readings = read_ranks(env)
    one = counting(readings, env)
    if one is None and any(reading.launcher not in ("pet", "pmix") for reading in readings):
        return None  # half a set: whoever it is, it is not alone
    reading = one or RankReading("none", 0, 1, 0, 1, 0, 1, True)
    assert reading.rank is not None and reading.world_size is not None  # noqa: S101  # `counting` takes no other
    hosts = told.hosts if told else _hosts(reading, env)
    name, source = _master(reading, env, told, master)
    job = _job(reading, env)
    seed = hashlib.sha256(f"envcheck fleet\0{job}".encode())
    return Seat(
        host,
        pid,
        reading.rank,
        reading.world_size,
        reading.local_rank or 0,
        _local_size(reading, env),
        reading.launcher,
        reading.node_rank,
        reading.nodes or len(hosts) or None,
        hosts,
        name,
        source,
        _ports(seed.digest(), master, env),
        seed.hexdigest(),
        job,
        readings,
    )


def counting(readings: tuple[RankReading, ...], env: Mapping[str, str]) -> RankReading | None:
    """The reading that counts, with rank and size. torchrun's inputs are the seat of a node that starts nothing itself."""
    for one in readings:
        if one.complete:
            return one
    for one in readings:
        # torch asks for RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; of these alone one process a host is known
        if one.launcher in _BY_TORCH and None not in (one.rank, one.world_size) and env.get("MASTER_ADDR") and env.get("MASTER_PORT"):
            return RankReading(one.launcher, one.rank, one.world_size, one.local_rank or 0, one.local_world_size, one.node_rank, one.nodes)
    pet = next((one for one in readings if one.launcher == "pet"), None)
    if pet and pet.nodes and pet.node_rank is not None and env.get("PET_MASTER_ADDR"):
        return RankReading("pet", pet.node_rank, pet.nodes, 0, 1, pet.node_rank, pet.nodes)
    return None


def _local_size(reading: RankReading, env: Mapping[str, str]) -> int:
    if reading.launcher == "slurm":  # --ntasks-per-node is what was asked for; the step tells what each node got
        each = tasks_of_nodes(env.get("SLURM_STEP_TASKS_PER_NODE") or "")
        if reading.node_rank is not None and reading.node_rank < len(each):
            return each[reading.node_rank]
    return reading.local_world_size or (reading.local_rank or 0) + 1


def tasks_of_nodes(text: str) -> tuple[int, ...]:
    """Slurm's "2(x3),1" as one number a node; () where it is none."""
    made: list[int] = []
    for item in text.split(","):
        match = re.fullmatch(r"([0-9]{1,6})(?:\(x([0-9]{1,6})\))?", item.strip())
        if match is None:
            return ()
        made += [int(match[1])] * int(match[2] or 1)
    return tuple(made)


def _hosts(reading: RankReading, env: Mapping[str, str]) -> tuple[str, ...]:
    """The hosts of the job, rank 0's first, where Slurm gave out its ranks, or one torchrun on each of its nodes."""
    name = "SLURM_STEP_NODELIST"
    if reading.launcher in ("openmpi", "mpich", "mvapich"):
        name = "SLURM_JOB_NODELIST"  # the step is mpirun's own, and lacks the node that mpirun itself is on
    hosts = _nodelist(env, name)
    return hosts if reading.launcher == "slurm" or reading.nodes == len(hosts) else ()


def _nodelist(env: Mapping[str, str], name: str) -> tuple[str, ...]:
    try:
        return unfold(env.get(name) or "")
    except ValueError:
        return ()


def _master(reading: RankReading, env: Mapping[str, str], told: JobTold | None, given: str | None) -> tuple[str | None, str]:
    """Where rank 0 is, and who says so."""
    if given:
        return host_and_port(given)[0], "--master"
    if reading.world_size == 1:
        return LOOPBACK, "a single process"
    name = "PET_MASTER_ADDR" if reading.launcher == "pet" else "MASTER_ADDR"
    if address := (env.get(name) or "").strip():
        return address, name
    if told:
        return told.master, "PMIx, for rank 0"
    if reading.local_world_size == reading.world_size:
        return LOOPBACK, "all ranks are on this host"
    name = "SLURM_STEP_NODELIST" if reading.launcher == "slurm" else "SLURM_JOB_NODELIST"
    hosts = _nodelist(env, name)
    return (hosts[0], f"the first host of {name}") if hosts else (None, "")


def host_and_port(text: str) -> tuple[str, int | None]:
    """ "n1:15000", "[::1]:15000", "::1" or "n1" as a host and a port."""
    match = re.fullmatch(r"\[([^\]]+)\](?::([0-9]{1,5}))?|([^:]*)(?::([0-9]{1,5}))?", text.strip())
    if match is None:
        return text.strip(), None  # an IPv6 address
    port = match[2] or match[4]
    return match[1] or match[3] or "", int(port) if port else None


def _ports(digest: bytes, given: str | None, env: Mapping[str, str]) -> tuple[int, ...]:
    """The port of the store, and the next ones. MASTER_PORT is not among them: torchrun's agent, or the program itself, has it."""
    own = host_and_port(given)[1] if given else None
    if own:
        return (own,)
    first = FIRST_PORT + int.from_bytes(digest[:8], "big") % PORTS
    taken = (env.get("MASTER_PORT") or "").strip()
    return tuple(port for port in range(first, first + NEXT_PORTS + 1) if str(port) != taken)


def _job(reading: RankReading, env: Mapping[str, str]) -> str:
    """A name of the job that all its processes know and no other job has, as far as the launcher gives one."""
    if given := env.get(JOB):
        return given
    scheduler = next((env[name] for name in _OF_SCHEDULER if env.get(name)), "")
    names = _OF_LAUNCHER.get(reading.launcher, ())
    own = next((env[name] for name in names if env.get(name) and env[name] != UNNAMED), "")
    if not own and reading.launcher in _BY_TORCH:
        own = f"port {env.get('MASTER_PORT', '')}"
    return f"{reading.launcher} {'.'.join(part for part in (scheduler, own) if part)}".strip()
