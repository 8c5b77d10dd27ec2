"""Who this process is in its job, from the launcher's variables alone: no socket, no torch, nothing of another host."""

from __future__ import annotations

from envcheck.facts.record import record
from envcheck.facts.snapshot import RankReading

FIRST_PORT, PORTS, TRIED = 15000, 10000, 17


@record
class Seat:
    """One process of the job. `ports` are tried in this order by rank 0 that opens the store and by all who join it."""

    host: str
    pid: int
    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    launcher: str  # "slurm", "torchrun", "openmpi", "ray", "pet", "none" for a single process
    node: int | None = None
    nodes: int | None = None
    hosts: tuple[str, ...] = ()  # that are to be there, in the order of the nodes; () where the launcher does not tell
    master: str = "127.0.0.1"  # name or address of rank 0's host
    master_source: str = ""  # "MASTER_ADDR", "the first host of SLURM_STEP_NODELIST", …
    ports: tuple[int, ...] = ()
    token: str = ""  # hexadecimal; the same in all processes of the job
    job: str | None = None  # the launcher's own name of the job, "slurm 4242.0"
    readings: tuple[RankReading, ...] = ()  # what each launcher said; the first one counts

    @property
    def leads_host(self) -> bool:
        """Whether it speaks for its host."""
        return self.local_rank == 0
