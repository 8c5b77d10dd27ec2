"""What the hosts of one job told: the section `fleet` of a snapshot, filled by `envcheck fleet` or from recorded snapshots."""

from __future__ import annotations

from collections.abc import Mapping

from envcheck.facts.record import field, record


@record
class FleetSeat:
    """One process of the job, as it told the store about itself. Times count from the moment at which rank 0 opened the store."""

    host: str = ""
    pid: int | None = None
    rank: int | None = None
    world_size: int | None = None
    local_rank: int | None = None
    local_world_size: int | None = None
    launcher: str | None = None  # whose variables counted: "slurm", "torchrun", "openmpi", …
    master: str | None = None  # "host:port" as this process was told
    addresses: tuple[str, ...] = ()  # of its host, loopback left out
    stage: str | None = None  # the last one it reached
    arrived_seconds: float | None = None
    late: bool = False  # it came after the others' deadline
    clock_offset_seconds: float | None = None  # its clock minus that of rank 0's host
    error: str | None = None  # why it went no further


@record
class FleetGroup:
    """Hosts that tell the same in one layer of their facts."""

    layer: str  # "python", "torch", "driver", "nccl", "gpus", "nics", "limits", "code"
    digest: str
    hosts: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)  # fact → value, of those facts that are not the same on all hosts


@record
class FleetLink:
    """One thing tried from one host to another.

    `error` is a word. Of a name: "unresolved", "loopback", "elsewhere" (an address that the host does not have), "slow". Of a connection:
    "refused", "filtered" (no answer at all), "route", "silent" (the system answers, the process does not), "itself" (the source has the
    same address), "stranger", "broken". Of a transfer: "stalled", "slow" (it moved until its time was over), "broken". "late": the time
    of the stage was over before.
    """

    source: str  # host
    target: str  # host; of a "name" the source itself too
    what: str  # "name", "reverse", "connect", "ephemeral" (a port that the target's system chose), "transfer"
    interface: str | None = None  # the target's
    address: str | None = None  # the target's, or what its name resolves to
    size_bytes: int | None = None  # of a transfer
    ok: bool | None = None  # None: it was not tried
    seconds: float | None = None
    error: str | None = None
    detail: str | None = None  # what the system said
    chosen_by: tuple[str, ...] = ()  # who takes this address on the target: "NCCL", "gloo", or the variable that names the interface
    moved_bytes: int | None = None  # of a transfer that was not finished
    passes_bytes: int | None = None  # of one that stalled: the largest packets that were tried and came through
    mtu: int | None = None  # of the source's interface
    target_mtu: int | None = None


@record
class FleetTrial:
    """One process group that was tried."""

    round: str  # "world", "pairs", "confirm", "rest"
    backend: str  # "gloo", "nccl"
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    outcome: str = "skipped"  # "passed", "failed", "timeout", "skipped"
    seconds: float | None = None
    busbw_gbps: float | None = None
    stage: str | None = None  # where it ended
    error: str | None = None


@record
class FleetFacts:
    hosts: tuple[str, ...] = ()  # that were to be there, where that is known; otherwise those that came
    world_size: int | None = None
    deadline_seconds: float | None = None
    master: str | None = None  # "host:port" of the store
    launcher: str | None = None
    seats: tuple[FleetSeat, ...] = ()
    rivals: tuple[FleetSeat, ...] = ()  # processes that wanted a rank which another one holds
    missing_ranks: tuple[int, ...] = ()
    groups: tuple[FleetGroup, ...] = ()
    golden: bool = False  # the first group of each layer is the golden host's
    links: tuple[FleetLink, ...] = ()
    trials: tuple[FleetTrial, ...] = ()
    bad_hosts: tuple[str, ...] = ()  # named by the trials
    cleared_hosts: tuple[str, ...] = ()  # suspects that a known-good partner cleared
