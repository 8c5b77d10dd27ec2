"""Links between hosts that are threads of this process, on loopback addresses; between real hosts: tests/cluster."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from machines import linux

from envcheck.facts.codec import encode
from envcheck.facts.fleet import FleetLink, untried
from envcheck.facts.interfaces import chosen_by
from envcheck.facts.snapshot import Interface
from envcheck.fleet import link_client, links
from envcheck.fleet.link_client import LinkError
from envcheck.fleet.link_rounds import ALL_PAIRS, offsets, sources, targets
from envcheck.fleet.link_server import LARGEST, LinkServer
from envcheck.fleet.links import LISTEN, SIZES, Spot, probe_links
from envcheck.fleet.seat import Seat
from envcheck.fleet.store import MemoryStore
from envcheck.host.recording import ReplayHost

TOKEN = b"a token of sixteen"


@pytest.fixture
def server() -> Iterator[LinkServer]:
    with LinkServer("n2", TOKEN, ["127.0.0.1"], 2) as one:
        yield one


def soon() -> float:
    return time.monotonic() + 20


def test_everybody_tries_everybody_among_few_and_some_among_many() -> None:
    for size in (1, 2, 3, 8, ALL_PAIRS):
        hosts = [f"n{number}" for number in range(size)]
        assert {(a, b) for a in hosts for b in targets(hosts, a)} == {(a, b) for a in hosts for b in hosts if a != b}
    hosts = [f"n{number}" for number in range(1000)]
    tried = {(a, b) for a in hosts for b in targets(hosts, a)}
    assert {(b, a) for a, b in tried} == tried  # both ways
    assert Counter(a for a, _ in tried) == Counter(b for _, b in tried) == dict.fromkeys(hosts, len(offsets(1000)))
    assert len(offsets(1000)) == 18
    assert all(set(sources(hosts, one)) == {a for a, b in tried if b == one} for one in ("n0", "n500", "n999"))
    assert len(offsets(100_000)) == 32


def test_what_was_left_out_is_counted() -> None:
    links = [FleetLink(a, b, "connect", ok=ok) for a, b, ok in (("a", "b", True), ("b", "a", False), ("a", "c", None))]
    assert untried(["a", "b", "c"], [*links, FleetLink("a", "a", "name", ok=True)]) == 4


def test_all_sizes_arrive(server: LinkServer) -> None:
    with link_client.connect("127.0.0.1", server.ports["127.0.0.1"][1], "n2", TOKEN, soon()) as connection:
        moved = [link_client.send(connection, size, soon()) for size in SIZES]
    assert [(one.bytes, one.reason) for one in moved] == [(size, None) for size in SIZES]


def test_a_stranger_learns_nothing_and_sends_nothing(server: LinkServer) -> None:
    port = server.ports["127.0.0.1"][0]
    with pytest.raises(LinkError) as refused:
        link_client.connect("127.0.0.1", port, "n2", b"another token", soon())
    assert refused.value.reason == "stranger"
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(5)
        nonce = connection.recv(100)
        connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 4)
        assert len(nonce) == 16
        try:
            answer = connection.recv(100)
        except ConnectionResetError:
            answer = b""
    assert answer == b""
    link_client.connect("127.0.0.1", port, "n2", TOKEN, soon()).close()  # it goes on for those who are meant


def test_more_than_the_largest_size_is_not_taken(server: LinkServer) -> None:
    with link_client.connect("127.0.0.1", server.ports["127.0.0.1"][0], "n2", TOKEN, soon()) as connection:
        moved = link_client.send(connection, LARGEST + 1, soon())
        assert (moved.bytes, moved.reason) == (0, "broken")


def test_what_answers_in_place_of_the_host_is_named(server: LinkServer) -> None:
    port = server.ports["127.0.0.1"][0]
    with pytest.raises(LinkError) as error:
        link_client.connect("127.0.0.1", port, "n3", TOKEN, soon())
    assert (error.value.reason, error.value.detail) == ("itself", "n2 answers there")
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # the system takes the connection, nobody reads
        with pytest.raises(LinkError) as error:
            link_client.connect("127.0.0.1", deaf.getsockname()[1], "n3", TOKEN, time.monotonic() + 0.5)
        assert error.value.reason == "silent"
        closed = deaf.getsockname()[1]
    with pytest.raises(LinkError) as error:
        link_client.connect("127.0.0.1", closed, "n3", TOKEN, soon())
    assert error.value.reason == "refused"


def test_a_reader_that_stops_is_a_stall() -> None:
    """It has the handshake and the first bytes, then no more."""
    with LinkServer("n2", TOKEN, ["127.0.0.1"], 1) as server:
        connection = link_client.connect("127.0.0.1", server.ports["127.0.0.1"][0], "n2", TOKEN, soon())
        server._hear = lambda guest: time.sleep(0.05)  # type: ignore[method-assign]
        with connection:
            start = time.monotonic()
            moved = link_client.send(connection, 64 << 10, time.monotonic() + 1)
            assert (moved.bytes, moved.reason) == (0, "stalled") and 0.9 < time.monotonic() - start < 3


# Hosts that are threads, with an address each of the loopback's network, which all of 127.0.0.0/8 is.
HOSTS = ("n1", "n2", "n3")


def machine(name: str) -> ReplayHost:
    names = {f"resolve {one}": {"addresses": [f"127.7.0.{one[1:]}"]} for one in HOSTS}
    interface = {"listdir /sys/class/net": ["eth0"], "read /sys/class/net/eth0/flags": "0x1003", "read /sys/class/net/eth0/mtu": "1400"}
    return linux({**names, **interface, "addresses": [["eth0", f"127.7.0.{name[1:]}"]], "reverse": 0.001})


def job(store: MemoryStore, hosts: Sequence[str], seconds: float = 20) -> dict[str, tuple[FleetLink, ...]]:
    """What each of these hosts of the job found."""
    found = {}

    def one(name: str) -> None:
        seat = Seat(name, 1, HOSTS.index(name), len(HOSTS), 0, 1, "none", token=TOKEN.hex())
        found[name] = probe_links(seat, HOSTS, store, time.monotonic() + seconds, machine(name))

    threads = [threading.Thread(target=one, args=(name,)) for name in hosts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found


@pytest.fixture
def on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses of the loopback are else never contacted."""
    monkeypatch.setattr(links, "_usable", lambda address: True)


@pytest.mark.usefixtures("on_loopback")
def test_three_hosts_try_each_other() -> None:
    threads = threading.active_count()
    found = job(MemoryStore(), HOSTS)
    assert set(found) == set(HOSTS)
    for name, each in found.items():
        assert {one.target for one in each if one.what == "connect"} == set(HOSTS) - {name}
        assert [one.ok for one in each if one.what != "name"] == [True] * len([one for one in each if one.what != "name"])
        assert {one.error for one in each if one.what == "name"} == {"loopback"}  # as they are here
        assert Counter(one.what for one in each) == {"name": 3, "reverse": 2, "connect": 2, "ephemeral": 4, "transfer": 2 * len(SIZES)}
        assert {(one.mtu, one.target_mtu) for one in each if one.what == "transfer"} == {(1400, 1400)}
    assert threading.active_count() == threads


@pytest.mark.usefixtures("on_loopback")
def test_one_that_never_comes_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "PEER_SECONDS", 0.5)
    start = time.monotonic()
    found = job(MemoryStore(), ("n1", "n2"))
    assert time.monotonic() - start < 8
    assert {one.target for one in found["n1"]} == {"n1", "n2"}


@pytest.mark.usefixtures("on_loopback")
def test_time_that_is_over_is_told_as_late_not_as_a_fault() -> None:
    found = job(MemoryStore(), HOSTS, seconds=-1)
    assert all(one.ok is None for each in found.values() for one in each if one.what in ("connect", "transfer"))


@pytest.mark.parametrize(
    "told",
    [
        "n9",
        {"address": "10.0.0.9"},
        [{"interface": "eth0", "address": "127.0.0.1", "ports": [40000]}],
        [{"interface": "eth0", "address": "169.254.169.254", "ports": [40000]}],
        [{"interface": "eth0", "address": "224.0.0.1", "ports": [40000]}],
        [{"interface": "eth0", "address": "metadata.example", "ports": [40000]}],
        [{"interface": "eth0", "address": "10.0.0.9", "ports": [22]}],
        [{"interface": "eth0", "address": "10.0.0.9", "ports": []}],
        [{"interface": "eth0", "address": "10.0.0.9", "ports": ["40000"]}],
    ],
)
def test_what_cannot_be_a_host_of_the_job_is_not_contacted(told: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "PEER_SECONDS", 0.2)
    store = MemoryStore()
    store.set(LISTEN + "n2", told)
    monkeypatch.setattr(link_client, "connect", lambda *_: pytest.fail("it was contacted"))
    assert {one.target for one in job(store, ("n1",))["n1"]} == {"n1"}


def test_an_address_that_both_have_is_not_contacted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What answered would be this host itself, and what does not a port of its own that is closed."""
    monkeypatch.setattr(links, "_usable", lambda address: True)
    monkeypatch.setattr(links, "PEER_SECONDS", 0.2)
    store = MemoryStore()
    store.set(LISTEN + "n2", encode([Spot("docker0", "127.7.0.1", (40000,))]))
    monkeypatch.setattr(link_client, "connect", lambda *_: pytest.fail("it was contacted"))
    [link] = [one for one in job(store, ("n1",))["n1"] if one.what == "connect"]
    assert (link.error, link.detail, link.ok) == ("itself", "n1 has this address too", False)


IB, ETH, DOCKER, LO = (
    Interface("ib0", True, addresses=("10.1.0.1",)),
    Interface("eth0", True, addresses=("10.0.0.1",)),
    Interface("docker0", True, addresses=("172.17.0.1",)),
    Interface("lo", True, loopback=True, addresses=("127.0.0.1", "127.0.1.1")),
)


@pytest.mark.parametrize(
    ("interfaces", "variables", "own", "expected"),
    [
        ((LO, DOCKER, ETH), {}, ["10.0.0.1"], {"eth0": ("NCCL", "gloo")}),
        ((LO, ETH, IB), {}, ["10.0.0.1"], {"ib0": ("NCCL",), "eth0": ("gloo",)}),
        ((LO, ETH), {}, ["127.0.1.1"], {"eth0": ("NCCL",)}),
        ((LO, DOCKER), {}, [], {}),  # NCCL would take docker0; that it does is told by NCCL itself
        ((LO, ETH, IB), {"NCCL_SOCKET_IFNAME": "eth"}, [], {"eth0": ("NCCL_SOCKET_IFNAME",)}),
        ((LO, ETH, IB), {"NCCL_SOCKET_IFNAME": "^ib,lo"}, [], {"eth0": ("NCCL_SOCKET_IFNAME",)}),
        ((LO, ETH, IB), {"NCCL_SOCKET_IFNAME": "=eth"}, ["10.1.0.1"], {"ib0": ("gloo",)}),
        ((LO, ETH), {"GLOO_SOCKET_IFNAME": "eth0,ib0"}, ["10.1.0.1"], {"eth0": ("NCCL", "GLOO_SOCKET_IFNAME")}),
    ],
)  # fmt: skip
def test_which_interface_a_library_takes(
    interfaces: tuple[Interface, ...], variables: dict[str, str], own: list[str], expected: dict[str, tuple[str, ...]]
) -> None:
    assert chosen_by(interfaces, variables, own) == expected


def test_of_many_hosts_what_failed_and_how_fast_is_kept() -> None:
    each = [FleetLink("n1", "n2", "transfer", size_bytes=size, ok=True) for size in SIZES]
    each += [FleetLink("n1", "n2", what, ok=True) for what in ("name", "reverse", "connect", "ephemeral")]
    bad = FleetLink("n1", "n3", "name", ok=False, error="loopback")
    assert links._thin([*each, bad], 3) == (*each, bad)
    assert links._thin([*each, bad], 65) == (each[4], each[7], bad)
