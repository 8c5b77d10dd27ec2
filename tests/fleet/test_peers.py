"""What ranks are told of each other does not grow with their number: each of them reads it."""

from __future__ import annotations

import json

import pytest

from envcheck.facts.fleet import FleetSeat
from envcheck.fleet.stages import heard_of, told_of


def seats(hosts: int, each: int = 2) -> tuple[FleetSeat, ...]:
    return tuple(
        FleetSeat(f"n{rank // each:04}", rank=rank, world_size=hosts * each, local_rank=rank % each, addresses=(f"10.0.0.{rank}",))
        for rank in range(hosts * each)
    )


@pytest.mark.parametrize("stage", ["links", "world"])
def test_a_thousand_hosts_are_told_in_as_many_bytes_as_ten(stage: str) -> None:
    few, many = (len(json.dumps(told_of(stage, seats(count), seats(count)))) for count in (10, 1000))
    assert many < few + 100


@pytest.mark.parametrize("names", [("n1", "n2", "n10"), ("n10", "n2", "n1"), ("a[b", "n1"), ("vm", "vm@abcdef")])
def test_the_order_of_the_hosts_is_the_same_everywhere(names: tuple[str, ...]) -> None:
    peers = tuple(FleetSeat(name, rank=rank) for rank, name in enumerate(names))
    assert tuple(one.host for one in heard_of("links", peers[1], json.loads(json.dumps(told_of("links", peers, peers))))) == names


def test_each_knows_itself_and_one_of_another_host() -> None:
    every = seats(4)
    said = json.loads(json.dumps(told_of("world", every[:-1], every)))
    for own in every[:-1]:
        heard = heard_of("world", own, said)
        assert own in heard and any(one.host != own.host and one.addresses for one in heard)
        assert all(not one.local_rank for one in heard if one is not own)  # with --nproc these alone take part
    assert heard_of("world", every[-1], said) == ()  # it came late
