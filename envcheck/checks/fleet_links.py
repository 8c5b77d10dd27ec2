"""What the links between the hosts of a job show: firewalls, names, interfaces, and packets that are lost for their size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median

from envcheck.checks.gpu import size as in_units
from envcheck.checks.peers import slow_beyond
from envcheck.engine.intents import Intent, SetEnv
from envcheck.engine.rule import Answer, Confidence, Evidence, Facts, Hit, Severity, check
from envcheck.facts.fleet import FleetFacts, FleetLink, nameless, unreached
from envcheck.facts.hostlist import fold, natural

# Of several errors on one link the one that says most.
TELLING = ("silent", "refused", "stranger", "route", "itself", "broken", "filtered")
LINES = 6  # of evidence
FEW = 4  # links of a host, of which the median means something
FACTOR = 2.5  # by which a slow host takes longer than the median one: plain sockets on busy hosts differ by more than sums do


def _pairs(links: Iterable[FleetLink]) -> set[tuple[str, str]]:
    return {(one.source, one.target) for one in links}


def _between(pairs: Iterable[tuple[str, str]]) -> str:
    """ "n[1-2,4] → n3": who reaches whom, or does not, in the fewest words."""
    by_target: dict[str, set[str]] = {}
    by_source: dict[str, set[str]] = {}
    for source, target in pairs:
        by_target.setdefault(target, set()).add(source)
        by_source.setdefault(source, set()).add(target)
    towards = sorted(f"{fold(sources)} → {fold(targets)}" for sources, targets in _alike(by_target))
    away = sorted(f"{fold(sources)} → {fold(targets)}" for targets, sources in _alike(by_source))
    told = min(towards, away, key=len)
    return ", ".join(told[:3]) + (f" and {len(told) - 3} more groups of hosts" if len(told) > 3 else "")


def _alike(ends: Mapping[str, set[str]]) -> list[tuple[frozenset[str], set[str]]]:
    """Hosts with the same hosts at the other end, together."""
    found: dict[frozenset[str], set[str]] = {}
    for host, others in ends.items():
        found.setdefault(frozenset(others), set()).add(host)
    return list(found.items())


def _evidence(links: Iterable[FleetLink]) -> tuple[Evidence, ...]:
    chosen = sorted(links, key=lambda one: (natural(one.source), natural(one.target)))
    return tuple(Evidence(f"{one.source} → {one.target}", _words(one)) for one in chosen[:LINES])


def _words(link: FleetLink) -> str:
    where = f"{link.address} ({link.interface})" if link.interface else link.address or "no address"
    what = f"{link.what} of {_amount(link.size_bytes)}" if link.size_bytes else link.what
    return f"{what} {where}: {link.error}" + (f", {link.detail}" if link.detail else "")


def _amount(size: int) -> str:
    return in_units(size) if size >= 1 << 10 else f"{size} bytes"


def _reached(fleet: FleetFacts) -> set[tuple[str, str]]:
    return _pairs(one for one in fleet.links if one.what == "connect" and one.ok)


def _passed(fleet: FleetFacts, backend: str) -> bool:
    """Process groups of that backend worked over all hosts: whatever an address is like, it is not in their way."""
    return any(one.backend == backend and one.round == "world" and one.outcome == "passed" for one in fleet.trials)


@check(needs="fleet", reads="fleet")
def fleet_link_blocked(facts: Facts) -> Answer:
    """No interface of the target is reached, or not all of its ports."""
    links, apart = facts.fleet.links, unreached(facts.fleet.links)
    dead = [one for one in links if one.what == "connect" and one.ok is False and (one.source, one.target) in apart]
    if dead:
        kinds: dict[tuple[str, str], str] = {}
        for one in dead:
            kind = str(one.error) if one.error in TELLING else "broken"
            kinds[one.source, one.target] = min(kinds.get((one.source, one.target), TELLING[-1]), kind, key=TELLING.index)
        every = list(kinds.values())
        worst = max(sorted(set(every), key=TELLING.index), key=every.count)
        told = [one for one in dead if kinds[one.source, one.target] == worst]
        variant = {"filtered": None, "broken": None, "stranger": "refused"}.get(worst, worst)
        return Hit(_blocked(told), _evidence(told), variant=variant)
    open_ports = {(one.source, one.target, one.address) for one in links if one.what == "connect" and one.ok}
    some = [one for one in links if one.what == "ephemeral" and one.ok is False and (one.source, one.target, one.address) in open_ports]
    return Hit(_blocked(some), _evidence(some), variant="ports") if some else None


def _blocked(links: list[FleetLink]) -> dict[str, object]:
    addresses = sorted({one.address for one in links if one.address}, key=natural)
    return {
        "between": _between(_pairs(links)),
        "hosts": fold({one.target for one in links}),
        "address": addresses[0] if addresses else None,
    }


@check(needs="fleet", reads="fleet")
def fleet_interface_wrong(facts: Facts) -> Answer:
    """One that a library takes does not lead to the others, and another one does."""
    fleet, reached = facts.fleet, _reached(facts.fleet)
    wrong = [
        one
        for one in fleet.links
        if one.what == "connect" and one.ok is False and one.chosen_by and (one.source, one.target) in reached and _in_the_way(fleet, one)
    ]
    if not wrong:
        return None
    names = {name for one in wrong for name in one.chosen_by}
    named = sorted(name for name in names if name.endswith("_IFNAME"))
    told = {one.interface: sorted(set(one.chosen_by)) for one in wrong}
    ways = [f"{interface}, which {' and '.join(by)} {'names' if named else 'takes'}," for interface, by in sorted(told.items(), key=str)]
    works = _works(fleet)
    values = {"wrong": " and ".join(ways), "hosts": fold({one.target for one in wrong}), "works": works or "another one"}
    fixes: tuple[Intent, ...] = ()
    if works:
        variables = named or [f"{library.upper()}_SOCKET_IFNAME" for library in sorted(names)]
        fixes = tuple(SetEnv(name, works, "on all hosts; it was reached from every host that tried") for name in variables)
    sure = named or "gloo" in names
    return Hit(values, _evidence(wrong), fixes, "named" if named else None, confidence=None if sure else Confidence.LIKELY)


def _in_the_way(fleet: FleetFacts, link: FleetLink) -> bool:
    """A choice that did no harm: groups were formed all the same."""
    libraries = {"nccl" if name.upper().startswith("NCCL") else "gloo" for name in link.chosen_by}
    return any(not _passed(fleet, library) for library in libraries)


def _works(fleet: FleetFacts) -> str | None:
    """The interface over which every pair that was tried has a way; None where its name is not the same everywhere."""
    connects = [one for one in fleet.links if one.what == "connect" and one.ok is not None and one.interface]
    every = _pairs(connects)
    names = sorted({str(one.interface) for one in connects}, key=natural)
    return next((name for name in names if _pairs(one for one in connects if one.ok and one.interface == name) == every), None)


@check(needs="fleet", reads="fleet")
def fleet_name_wrong(facts: Facts) -> Answer:
    """gloo listens at what the host's own name means; torchrun and c10d go where the name of another host leads."""
    wrong = [one for one in facts.fleet.links if one.what == "name" and one.ok is False]
    return _own_name(facts.fleet, [one for one in wrong if one.source == one.target]) or _others_names(
        facts.fleet, [one for one in wrong if one.source != one.target]
    )


def _own_name(fleet: FleetFacts, wrong: list[FleetLink]) -> Hit | None:
    hurt = nameless(fleet.links)
    own = [one for one in wrong if one.source in hurt]
    if not own or _passed(fleet, "gloo"):
        return None
    kind = next(kind for kind in ("loopback", "elsewhere", "unresolved") if any(one.error == kind for one in own))
    told = [one for one in own if one.error == kind]
    works = _works(fleet)
    fixes = (SetEnv("GLOO_SOCKET_IFNAME", works, "gloo then needs no name"),) if works else ()
    values = {"hosts": fold({one.source for one in told}), "address": told[0].address, "host": told[0].source}
    # Ranks of NCCL alone take the addresses of interfaces and need no name; many a job has no other.
    severity = Severity.WARNING if _passed(fleet, "nccl") else None
    return Hit(values, _evidence(told), fixes, None if kind == "loopback" else kind, severity)


def _others_names(fleet: FleetFacts, wrong: list[FleetLink]) -> Hit | None:
    """Without names for hosts (Kubernetes) all is by address. A name that some hosts know and others do not is another matter."""
    known = {one.target for one in fleet.links if one.what == "name" and one.ok and one.source != one.target}
    told = [one for one in wrong if one.error != "unresolved" or one.target in known]
    if not told:
        return None
    addresses = sorted({one.address or "nothing" for one in told})
    values = {"between": _between(_pairs(told)), "hosts": fold({one.source for one in told}), "host": told[0].target, "address": addresses}
    return Hit(values, _evidence(told), (), "others", Severity.WARNING)


@check(needs="fleet", reads="fleet")
def fleet_names_slow(facts: Facts) -> Answer:
    slow = [one for one in facts.fleet.links if one.error == "slow" and one.what in ("name", "reverse")]
    if not slow:
        return None
    seconds = max(one.seconds or 0.0 for one in slow)
    values = {"hosts": fold({one.source for one in slow}), "seconds": f"{seconds:.1f}", "address": slow[0].address}
    return Hit(values, _evidence(slow), variant=None if any(one.what == "reverse" for one in slow) else "forward")


@check(needs="fleet", reads="fleet")
def fleet_mtu_black_hole(facts: Facts) -> Answer:
    """A size that does not arrive where smaller ones do; and with smaller packets it does."""
    stalled = [one for one in facts.fleet.links if one.what == "transfer" and one.error == "stalled"]
    if not stalled:
        return None
    sure = [one for one in stalled if one.passes_bytes is not None]
    told = sure or stalled
    small = [
        one.size_bytes or 0
        for one in facts.fleet.links
        if one.what == "transfer" and one.ok and (one.source, one.target) == (told[0].source, told[0].target)
    ]
    mtus = sorted({size for one in told for size in (one.mtu, one.target_mtu) if size})
    values: dict[str, object] = {
        "between": _between(_pairs(told)),
        "size": _amount(told[0].size_bytes or 0),
        "small": _amount(max(small)) if small else "nothing",
        "passes": min((one.passes_bytes for one in sure if one.passes_bytes), default=None),
        "mtus": mtus or "unknown",
        "interface": told[0].interface,
        "address": told[0].address,
    }
    return Hit(values, _evidence(told), variant=None if sure else "stalled", confidence=None if sure else Confidence.LIKELY)


@check(needs="fleet", reads="fleet")
def fleet_link_slow(facts: Facts) -> Answer:
    """Hosts that send, or are sent to, far slower than their peers; no threshold but theirs."""
    rates = _rates(facts.fleet.links)
    odd: dict[str, tuple[str, float]] = {}
    usual = None
    for way, which in (("sends", 0), ("is sent", 1)):
        by_host: dict[str, list[float]] = {}
        for pair, rate in rates.items():
            by_host.setdefault(pair[which], []).append(rate)
        # One bad partner of a host drags none of its links but one: of a slow host all are slow.
        medians = {host: median(each) for host, each in by_host.items()}
        if len(medians) < FEW:
            continue
        # In the time that a byte takes: peers on a busy machine differ by a half, which hides nothing that is slower by hundreds.
        limit = slow_beyond([1 / rate for rate in medians.values()], FACTOR, floor=0.0)
        for host, rate in medians.items():
            if limit is not None and 1 / rate > limit:
                odd.setdefault(host, (way, rate))
                usual = median(medians.values())
    if usual is None:
        return None
    interface = next((one.interface for one in facts.fleet.links if one.what == "transfer" and {one.source, one.target} & set(odd)), None)
    told = [f"{host} {way} at {_rate(rate)}" for host, (way, rate) in sorted(odd.items(), key=lambda one: natural(one[0]))]
    values = {"slow": told[:LINES], "hosts": fold(odd), "usual": _rate(usual), "interface": interface}
    return Hit(
        values, tuple(Evidence(" → ".join(pair), _rate(rate)) for pair, rate in sorted(rates.items()) if set(pair) & set(odd))[:LINES]
    )


def _rates(links: Iterable[FleetLink]) -> dict[tuple[str, str], float]:
    """Bytes a second of the largest transfer of each link that took long enough to be measured."""
    found: dict[tuple[str, str], tuple[int, float]] = {}
    for one in links:
        moved = one.size_bytes if one.ok else one.moved_bytes
        if one.what == "transfer" and one.error in (None, "slow") and moved and one.seconds and (one.size_bytes or 0) >= 1 << 20:
            found[one.source, one.target] = max(found.get((one.source, one.target), (0, 0.0)), (one.size_bytes or 0, moved / one.seconds))
    return {pair: rate for pair, (_, rate) in found.items()}


def _rate(rate: float) -> str:
    bits = 8 * rate
    return f"{bits / 1e9:.1f} Gbit/s" if bits >= 1e9 else f"{bits / 1e6:.1f} Mbit/s"
