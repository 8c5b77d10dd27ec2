"""What the hosts of one job told: the section `fleet` of a snapshot, filled by `envcheck fleet` or from recorded snapshots."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from envcheck.facts.record import field, record

LEFT_OUT = "torch.distributed"  # the stage of a start that ended because torch was built without it
SAME_NAME = "@"  # between a host's name and what tells it from another machine of that name


def own_name(host: str) -> str:
    """What the host itself and its resolver call it."""
    return host.partition(SAME_NAME)[0]


@record
class FleetSeat:
    """One process of the job, as it told the store about itself. Times count from the moment at which rank 0 opened the store."""

    host: str = ""  # its name; "name@…" where another machine of the job has the same one
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
    clock_error_seconds: float | None = None  # more it cannot be wrong
    master_addresses: tuple[str, ...] = ()  # what the master's name means on its host
    reason: str | None = None  # why it went no further, in a word: fleet/store_client.py, and "gone", "stuck", "elsewhere"
    error: str | None = None  # the same in a sentence
    open_files_limit: int | None = None  # of rank 0, its hard limit: each rank's connections to the store are open files there


@record
class FleetGroup:
    """Hosts that tell the same in one layer of their facts."""

    layer: str  # of fleet/layers.py: "torch", "nccl", "driver", "gpus", "nics", "python", "code", "limits", "system"
    digest: str
    hosts: tuple[str, ...] = ()
    values: dict[str, str] = field(default_factory=dict)  # fact → value, of those facts that are not the same on all hosts


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

    round: str  # "start" (torch alone), "world", "pairs", "confirm", "rest" (without the suspects), "control" (over plain sockets)
    backend: str  # "gloo", "nccl"
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    outcome: str = "skipped"  # "passed", "failed", "timeout", "skipped"
    seconds: float | None = None  # of a passed one: of its timed steps
    busbw_gbps: float | None = None  # Gbit/s
    stage: str | None = None  # where it ended
    error: str | None = None
    wave: int = 0  # trials of one wave ran at the same time
    behind: tuple[int, ...] = ()  # ranks that were in the earliest stage when it ended
    alone: tuple[int, ...] = ()  # ranks that failed before they met another one, or said nothing at all
    work_seconds: tuple[float, ...] = ()  # what each rank needed for the same sums, without the others
    environment: dict[str, str] = field(default_factory=dict)  # set for it over what the user has set


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
    # What the trials prove: "passed", "hosts", "links", "scale", "intermittent", "transport", "suspects", "inconclusive", "skipped"
    verdict: str | None = None
    verdict_backend: str | None = None
    bad_hosts: tuple[str, ...] = ()  # named by the trials
    bad_ranks: tuple[int, ...] = ()  # of the bad hosts, where the trials tell the ranks of a host apart
    slow_hosts: tuple[str, ...] = ()  # those of the bad hosts that work, but far slower than their peers
    cleared_hosts: tuple[str, ...] = ()  # suspects that a known-good partner cleared
    suspect_hosts: tuple[str, ...] = ()  # neither proved bad nor cleared
    bad_links: tuple[FleetLink, ...] = ()  # between hosts that are good with others


def unreached(links: Iterable[FleetLink]) -> frozenset[tuple[str, str]]:
    """(source, target) of those that were tried and of which no address was reached."""
    tried = [one for one in links if one.what == "connect" and one.ok is not None]
    return frozenset((one.source, one.target) for one in tried) - {(one.source, one.target) for one in tried if one.ok}


def nameless(links: Iterable[FleetLink]) -> frozenset[str]:
    """Hosts whose own name does not lead to an address that others reach, and on which no variable names an interface."""
    told = tuple(links)
    named = {one.target for one in told if "GLOO_SOCKET_IFNAME" in one.chosen_by}
    return frozenset(one.target for one in told if one.what == "name" and one.ok is False and one.source == one.target) - named


def without_gloo(links: Iterable[FleetLink]) -> frozenset[str]:
    """Hosts on which gloo cannot work over several hosts: it would listen at the host's own name, which leads nowhere; or on an interface
    that a variable names and that nobody reaches; or what is sent to them never arrives from some size on."""
    told = tuple(links)
    chosen = [one for one in told if one.what == "connect" and one.ok is not None and "GLOO_SOCKET_IFNAME" in one.chosen_by]
    nowhere = {one.target for one in chosen} - {one.target for one in chosen if one.ok}
    return nameless(told) | nowhere | {one.target for one in told if one.what == "transfer" and one.error == "stalled"}


def untried(hosts: Collection[str], links: Iterable[FleetLink]) -> int:
    """How many of all directed pairs of hosts were not tried: of many hosts each tries some."""
    tried = {(one.source, one.target) for one in links if one.what == "connect" and one.ok is not None and one.source != one.target}
    return len(hosts) * (len(hosts) - 1) - len(tried)
