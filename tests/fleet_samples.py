"""Reports of jobs for tests of what shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fleet_hosts import base, changed

from envcheck.facts.codec import decode_snapshot
from envcheck.facts.fleet import FleetFacts, FleetGroup, FleetLink, FleetSeat, FleetTrial
from envcheck.facts.record import replace
from envcheck.fleet.judge import judge_fleet, judge_kind
from envcheck.report.fleet import FleetReport, FleetUnread, FleetUnsure
from envcheck.report.session import rule_session

SCRIPTING = "</script><script>window.struck = 1</script><img src=x onerror='window.struck = 1'>"
BY = rule_session()


def _links(hosts: list[str], dead: tuple[str, ...] = ()) -> tuple[FleetLink, ...]:
    made = []
    for source in hosts:
        for target in hosts:
            if source == target:
                continue
            made.append(FleetLink(source, target, "connect", "eth0", "10.0.0.1", None, True, 0.001))
            bad = source in dead or target in dead
            made.append(
                FleetLink(source, target, "transfer", "eth0", "10.0.0.1", 1 << 26, not bad, 0.01, "nothing came for 10 s" if bad else None)
            )
    return tuple(made)


def drifted() -> FleetReport:
    """Eight hosts: one with an older driver, one whose links die at large sizes."""
    hosts = [f"n{number}" for number in range(1, 9)]
    groups = (
        FleetGroup("driver", "a", tuple(one for one in hosts if one != "n5"), {"driver.version": "580.95.05"}),
        FleetGroup("driver", "b", ("n5",), {"driver.version": "570.124.06"}),
    )
    seats = tuple(FleetSeat(host, 100 + rank, rank, 8, 0, 1, "slurm", "n1:15000") for rank, host in enumerate(hosts))
    trials = tuple(
        FleetTrial("pairs", "gloo", (0, rank), ("n1", host), "passed", 0.5, rank * 1.0) for rank, host in enumerate(hosts[1:], 1)
    )
    fleet = FleetFacts(tuple(hosts), 8, 60.0, "n1:15000", "slurm", seats, groups=groups, links=_links(hosts, ("n7",)), trials=trials)
    return judge_fleet(fleet, [judge_kind(hosts, decode_snapshot(base("h100x8")), BY)], BY)


def sick() -> FleetReport:
    """Twelve recorded hosts, three of which have bad memory, each in another place."""
    hosts = [f"rack1n{number:02}" for number in range(12)]
    kinds = [judge_kind(hosts[3:], decode_snapshot(base("h100x8")), BY)]
    facts = [changed(base("h100x8"), {f"gpus.devices.{at}.remap_failed": True}) for at in range(3)]
    kinds += [judge_kind(hosts[at : at + 1], decode_snapshot(one), BY) for at, one in enumerate(facts)]
    unread = (FleetUnread("dir/rack1n12.json", "not JSON"),)
    report = judge_fleet(FleetFacts(tuple(hosts)), kinds, BY, unread=unread)
    return replace(
        report, replayed=True, taken="2026-11-28T21:20:05Z", unknown=(FleetUnsure("gpu-lost", "NVML: timed out", tuple(hosts[:2])),)
    )


def large() -> FleetReport:
    """300 hosts with a map that is a picture."""
    hosts = [f"rack{number // 32:02}n{number % 32:02}" for number in range(300)]
    links = [FleetLink(one, other, "connect", ok=True) for one in hosts for other in hosts if one != other]
    links += [FleetLink(hosts[3], other, "transfer", "ib0", None, 65536, False, None, "timed out") for other in hosts[4:]]
    report = judge_fleet(FleetFacts(tuple(hosts), links=tuple(links)), [judge_kind(hosts, decode_snapshot(base("h100x8")), BY)], BY)
    return replace(report, verdict="fail", exit_code=4, bad_hosts=(hosts[3],))


def stuck() -> FleetReport:
    """Four hosts of two ranks: n3 hangs in the world and in its pair, and the others go without it."""
    hosts = ["n1", "n2", "n3", "n4"]
    seats = tuple(FleetSeat(hosts[rank // 2], 100 + rank, rank, 8, rank % 2, 2, "slurm", "n1:15000") for rank in range(8))
    place = {rank: (seat.host,) for rank, seat in enumerate(seats)}
    trials = [FleetTrial("start", "", (rank,), place[rank], "passed", 2.0 + rank / 10) for rank in range(8)]
    trials += [
        FleetTrial("world", "gloo", tuple(range(8)), tuple(hosts), "timeout", None, None, "all_reduce", None, 0, (4, 5)),
        FleetTrial("pairs", "gloo", (0, 1, 2, 3), ("n1", "n2"), "passed", 0.5, 1.0, wave=1),
        FleetTrial("pairs", "gloo", (4, 5, 6, 7), ("n3", "n4"), "timeout", None, None, "init", None, 1, (), (4,)),
        FleetTrial("rest", "gloo", (0, 1, 2, 3, 6, 7), ("n1", "n2", "n4"), "passed", 0.6, 1.0, wave=2),
        FleetTrial("world", "nccl", (0, 1), ("n1",), "skipped", error="no GPU for each rank there"),
    ]
    fleet = FleetFacts(tuple(hosts), 8, 60.0, "n1:15000", "slurm", seats, trials=tuple(trials), verdict="hosts", bad_hosts=("n3",))
    return judge_fleet(fleet, [judge_kind(hosts, decode_snapshot(base("h100x8")), BY)], BY)


def healthy() -> FleetReport:
    hosts = ("n1", "n2")
    return judge_fleet(FleetFacts(hosts), [judge_kind(hosts, decode_snapshot(base("h100x8")), BY)], BY)


def hostile() -> FleetReport:
    """Every text is a script that would leave a trace, or would move a terminal's cursor."""
    evil = f"{SCRIPTING}\x1b[2J\u202e"
    hosts = (evil, f"{evil}2", f"{evil}3")
    groups = (
        FleetGroup("torch", "a", hosts[1:], {"torch.version": evil}),
        FleetGroup("torch", "b", hosts[:1], {"torch.version": f"{evil}+cpu"}),
    )
    links = (FleetLink(hosts[0], hosts[1], evil, evil, evil, 4, False, 0.1, evil),)
    trials = (FleetTrial("start", evil, (0,), hosts[:1], "failed", stage=evil, error=evil),)
    return judge_fleet(
        FleetFacts(hosts, groups=groups, links=links, trials=trials, launcher=evil), [], BY, unread=(FleetUnread(evil, evil),)
    )


SAMPLES: Mapping[str, Callable[[], FleetReport]] = {
    "drifted": drifted,
    "sick": sick,
    "stuck": stuck,
    "large": large,
    "healthy": healthy,
    "hostile": hostile,
}
