"""Hosts grouped by what they tell in each layer, and only what is not the same on all of them kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from envcheck.facts.fleet import FleetGroup
from envcheck.facts.hostlist import natural
from envcheck.facts.record import record
from envcheck.fleet.layers import FAMILIES, LAYERS, Values


@record
class HostKind:
    """Hosts that tell the same in every layer and in their state: judged once."""

    digests: Mapping[str, str]  # layer → digest, that of the state included
    hosts: tuple[str, ...]  # in natural order; the first one speaks for all


def kinds_of(told: Iterable[tuple[str, Mapping[str, str]]]) -> tuple[HostKind, ...]:
    """Hosts with their digests as kinds, the one with most hosts first. The order in which hosts come does not count."""
    found: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for host, digests in told:
        found.setdefault(tuple(sorted(digests.items())), []).append(host)
    rows = [HostKind(dict(key), tuple(sorted(hosts, key=natural))) for key, hosts in found.items()]
    return tuple(sorted(rows, key=lambda kind: (-len(kind.hosts), natural(kind.hosts[0]), kind.hosts[0])))


def drift_of(
    kinds: Sequence[HostKind], values: Mapping[tuple[str, str], Values], golden: Mapping[str, Values] | None = None
) -> tuple[FleetGroup, ...]:
    """The groups of each layer in which not all hosts are the same, most hosts first; the golden host's first where there is one.

    `values` holds the facts of each (layer, digest) that is known. A layer of which they are not known is told without values.
    """
    made: list[FleetGroup] = []
    for layer in LAYERS:
        held: dict[str, list[str]] = {}
        for kind in kinds:
            if layer in kind.digests:
                held.setdefault(kind.digests[layer], []).extend(kind.hosts)
        first = None if golden is None else _like(golden.get(layer, {}), layer, held, values)
        if len(held) + (first == "") > 1:
            made += _groups(layer, held, values, first, None if golden is None else golden.get(layer, {}))
    return tuple(made)


def _like(own: Values, layer: str, held: Iterable[str], values: Mapping[tuple[str, str], Values]) -> str:
    """The digest under which hosts have the golden values; "" where none has."""
    return next((one for one in held if values.get((layer, one)) == own), "")


def _groups(
    layer: str, held: Mapping[str, Sequence[str]], values: Mapping[tuple[str, str], Values], first: str | None, golden: Values | None
) -> list[FleetGroup]:
    told = {digest: values.get((layer, digest), {}) for digest in held}
    if first == "" and golden is not None:
        told[""] = golden
    differing = _differing(told.values())
    hosts = {digest: tuple(sorted(held.get(digest, ()), key=natural)) for digest in told}
    order = sorted(told, key=lambda one: (one != first, -len(hosts[one]), [natural(name) for name in hosts[one][:1]], one))
    return [FleetGroup(layer, one, hosts[one], {fact: text for fact in differing if (text := _told(told[one], fact))}) for one in order]


def _differing(told: Iterable[Values]) -> list[str]:
    """Facts that are not the same in all of these."""
    rows = list(told)
    every = sorted({fact for row in rows for fact in row})
    return [fact for fact in every if len({_told(row, fact) for row in rows}) > 1]


def _told(values: Values, fact: str) -> str | None:
    """A value; of what a host has or lacks also that it is lacking. None: it is not known."""
    if fact in values:
        return values[fact]
    lacking = next((word for family, word in FAMILIES.items() if fact.startswith(family)), None)
    return lacking if values.get(fact.partition(".")[0]) == "present" else None
