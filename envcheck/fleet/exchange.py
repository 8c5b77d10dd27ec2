"""The hosts' facts by way of the store: a digest a layer from every host, and all facts from one host of each kind.

A job whose hosts are alike sends one host's facts, whatever its size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envcheck.facts.record import record
from envcheck.fleet.groups import HostKind, kinds_of
from envcheck.fleet.layers import digests
from envcheck.fleet.presence import LEADER, Meeting, await_of
from envcheck.fleet.store import get_large, put_large
from envcheck.fleet.store_server import StoreServer

DIGEST, ASKED, FACTS = "digest/", "asked", "facts/"
MOST_KINDS = 128  # whose facts are asked for, those of most hosts first
TROUBLE = "trouble"  # instead of digests: why a host has no facts


@record
class Exchanged:
    """What the hosts told of themselves, as rank 0 has it."""

    kinds: tuple[HostKind, ...] = ()
    facts: Mapping[str, Any] = {}  # host that speaks for its kind → its facts
    troubles: Mapping[str, str] = {}  # host → why it has none
    silent: tuple[int, ...] = ()  # ranks that owe an answer


def tell(meeting: Meeting, facts: Mapping[str, Any] | str) -> None:
    """This host's digests, or why there are none."""
    told = {TROUBLE: facts[:500]} if isinstance(facts, str) else digests(facts)
    meeting.store.set(f"{DIGEST}{meeting.seat.host}", told)


def answer(meeting: Meeting, facts: Mapping[str, Any] | str, deadline: float) -> None:
    """All facts, where this host is asked for them."""
    asked = meeting.store.wait((ASKED,), deadline).get(ASKED)
    if isinstance(asked, list) and meeting.seat.host in asked and not isinstance(facts, str):
        put_large(meeting.store, f"{FACTS}{meeting.seat.host}", facts)


def leaders(server: StoreServer) -> dict[str, int]:
    """Host → the rank that speaks for it."""
    return {key.removeprefix(LEADER): rank for key, rank in server.items(LEADER).items() if isinstance(rank, int)}


def gather(server: StoreServer, deadline: float) -> Exchanged:
    """The digests of all hosts that have a leader, as kinds of hosts; each kind is asked for the facts of one host."""
    owed = {f"{DIGEST}{host}": rank for host, rank in leaders(server).items()}
    told = await_of(server, owed, deadline)
    rows = {key.removeprefix(DIGEST): value for key, value in told.items() if isinstance(value, dict)}
    odd = [host for host, value in rows.items() if not all(isinstance(one, str) for one in value.values())]
    troubles = {host: str(value[TROUBLE])[:500] for host, value in rows.items() if TROUBLE in value}
    troubles |= {host: "what it told of itself are no digests" for host in odd if host not in troubles}
    kinds = kinds_of((host, value) for host, value in rows.items() if host not in troubles)
    server.set(ASKED, [kind.hosts[0] for kind in kinds[:MOST_KINDS]])
    return Exchanged(kinds, {}, troubles, tuple(rank for key, rank in owed.items() if key not in told))


def received(server: StoreServer, exchanged: Exchanged, deadline: float) -> dict[str, Any]:
    """Host → its facts, of those that were asked and answered."""
    speaks = leaders(server)
    asked = [kind.hosts[0] for kind in exchanged.kinds[:MOST_KINDS]]
    counts = await_of(server, {f"{FACTS}{host}": speaks[host] for host in asked if host in speaks}, deadline)
    found = {}
    for host in asked:
        key = f"{FACTS}{host}"
        facts = get_large(server, key) if key in counts else None
        if isinstance(facts, dict):
            found[host] = facts
    return found
