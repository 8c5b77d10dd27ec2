"""What `probe_links` finds between real hosts, healthy and broken."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest
from hosts import Cluster, finish, soon

from envcheck.facts.codec import decode
from envcheck.facts.fleet import FleetLink
from envcheck.fleet.links import PORTS, SIZES

pytestmark = pytest.mark.cluster

PROBING = str(Path(__file__).with_name("probing.py"))
CHECKOUT = str(Path(__file__).parents[2])
NAMES = ("n1", "n2", "n3", "n4")


def probed(cluster: Cluster, folder: Path, seconds: float = 40, env: dict[str, str] | None = None) -> list[FleetLink]:
    """The links of all hosts."""
    processes = [
        host.start(sys.executable, PROBING, str(folder), str(seconds), *NAMES, env={"PYTHONPATH": CHECKOUT, **(env or {})})
        for host in cluster.hosts
    ]
    done = [finish(process, seconds + 20) for process in processes]
    assert [one.returncode for one in done] == [0] * len(done), [one.stderr[-800:] for one in done]
    return [link for one in done for link in decode(tuple[FleetLink, ...], json.loads(one.stdout))]


def failures(links: list[FleetLink]) -> dict[tuple[str, str], set[str]]:
    """(what, error) → "source>target" of all that is not right."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for one in links:
        if one.ok is not True or one.error:
            found[one.what, str(one.error)].add(f"{one.source}>{one.target}")
    return dict(found)


def pairs(*, target: str | None = None, source: str | None = None) -> set[str]:
    return {f"{a}>{b}" for a in NAMES for b in NAMES if a != b and b == (target or b) and a == (source or a)}


def test_all_is_well_always(cluster: Cluster, tmp_path: Path) -> None:
    start = time.monotonic()
    links = probed(cluster, tmp_path)
    assert time.monotonic() - start < 20
    assert failures(links) == {}
    for what, each in {"connect": 1, "ephemeral": PORTS - 1, "transfer": len(SIZES), "reverse": 1}.items():
        assert sorted(f"{one.source}>{one.target}" for one in links if one.what == what) == sorted([*pairs()] * each), what
    assert {f"{one.source}>{one.target}" for one in links if one.what == "name"} == pairs() | {f"{name}>{name}" for name in NAMES}
    [n1_to_n2] = [one for one in links if (one.source, one.target, one.what) == ("n1", "n2", "connect")]
    assert (n1_to_n2.interface, n1_to_n2.address, n1_to_n2.mtu, n1_to_n2.target_mtu) == ("eth0", "10.77.0.2", 1500, 1500)
    assert set(n1_to_n2.chosen_by) == {"NCCL", "gloo"}
    assert {one.size_bytes for one in links if one.what == "transfer"} == set(SIZES)
    assert not any(host.processes() for host in cluster.hosts)


@pytest.mark.parametrize(("verb", "error"), [("drop", "filtered"), ("reject with tcp reset", "refused"), ("reject", "refused")])
def test_a_firewall_that_opens_the_known_ports_only(cluster: Cluster, tmp_path: Path, verb: str, error: str) -> None:
    """As clouds and distributions have them: what n3 began comes back, what others begin does not get in."""
    cluster[3].firewall("ct state established,related accept", "tcp dport { 22, 29500 } accept", f"meta l4proto tcp {verb}")
    assert failures(probed(cluster, tmp_path)) == {("connect", error): pairs(target="n3"), ("ephemeral", error): pairs(target="n3")}


def test_names_that_lead_elsewhere(cluster: Cluster, tmp_path: Path) -> None:
    """Debian's 127.0.1.1, a stale address, and no name at all."""
    cluster[1].know({**cluster.names, "n1": "127.0.1.1"})
    cluster[2].know({**cluster.names, "n3": "10.77.0.99"})
    cluster[4].know({name: address for name, address in cluster.names.items() if name != "n2"})
    links = probed(cluster, tmp_path)
    assert failures(links) == {("name", "loopback"): {"n1>n1"}, ("name", "elsewhere"): {"n2>n3"}, ("name", "unresolved"): {"n4>n2"}}
    [stale] = [one for one in links if one.error == "elsewhere"]
    assert (stale.address, stale.detail) == ("10.77.0.99", "10.77.0.3")
    # gloo takes what the name resolves to: of n1 no interface that others reach
    assert {one.target: one.chosen_by for one in links if one.what == "connect"} == {
        "n1": ("NCCL",), "n2": ("NCCL", "gloo"), "n3": ("NCCL", "gloo"), "n4": ("NCCL", "gloo"),
    }  # fmt: skip


def test_an_interface_that_leads_nowhere(cluster: Cluster, tmp_path: Path) -> None:
    """Each host has the same address on a bridge of its own, as with containers, and a card in a network of its own."""
    for host in cluster.hosts:
        host.shell("ip link add br-lan type bridge; ip addr add 172.17.0.1/16 dev br-lan; ip link set br-lan up")
        cluster.plug(host, "mgmt0", None, f"192.168.{host.name[1:]}.1/24")
    try:
        links = probed(cluster, tmp_path, env={"NCCL_SOCKET_IFNAME": "mgmt", "GLOO_SOCKET_IFNAME": "br-lan"})
    finally:
        for host in cluster.hosts:
            host.shell("ip link del br-lan")
            cluster.unplug(host, "mgmt0")
    # There is no default route either: mgmt0 of another host cannot even be asked for.
    assert failures(links) == {("connect", "itself"): pairs(), ("connect", "route"): pairs(), ("ephemeral", "itself"): pairs()}
    connects = {(one.interface, one.ok): one.chosen_by for one in links if one.what == "connect"}
    assert connects == {("eth0", True): (), ("mgmt0", False): ("NCCL_SOCKET_IFNAME",), ("br-lan", False): ("GLOO_SOCKET_IFNAME",)}
    assert {one.interface for one in links if one.what == "transfer"} == {"eth0"}


def test_a_black_hole_is_found_by_size(cluster: Cluster, tmp_path: Path) -> None:
    """Small messages pass; the packets that full ones need are dropped on the way to n4, and nobody says so."""
    cluster.route(cluster[4], 1280, tell=False)
    start = time.monotonic()
    links = probed(cluster, tmp_path)
    assert time.monotonic() - start < 30
    assert failures(links) == {("transfer", "stalled"): pairs(target="n4")}
    assert {one.size_bytes for one in links if one.error == "stalled"} == {64 << 10}
    assert {one.passes_bytes for one in links if one.error == "stalled"} == {1280}
    assert {one.size_bytes for one in links if one.target == "n4" and one.what == "transfer" and one.ok} == {4, 1 << 10}


def test_a_smaller_mtu_of_which_the_router_tells_is_no_fault(cluster: Cluster, tmp_path: Path) -> None:
    cluster.route(cluster[4], 1280, tell=True)
    assert failures(probed(cluster, tmp_path)) == {}


def test_a_host_that_freezes_is_named_and_nobody_waits_for_it(cluster: Cluster, tmp_path: Path) -> None:
    """n2 has told where it listens; then its processes are stopped. The system goes on taking connections for it."""
    run = (sys.executable, PROBING, str(tmp_path), "40", *NAMES)
    env = {"PYTHONPATH": CHECKOUT}
    frozen = cluster[2].start(*run, env=env)
    assert soon((tmp_path / "links:at:n2").exists, 30)
    assert cluster[2].signal(signal.SIGSTOP) != []
    start = time.monotonic()
    others = [cluster[number].start(*run, env=env) for number in (1, 3, 4)]
    done = [finish(one, 60) for one in others]
    assert time.monotonic() - start < 25
    links = [link for one in done for link in decode(tuple[FleetLink, ...], json.loads(one.stdout))]
    assert failures(links) == {("connect", "silent"): pairs(target="n2"), ("ephemeral", "silent"): pairs(target="n2")}
    cluster[2].signal(signal.SIGKILL)
    finish(frozen, 10)


def test_a_host_that_never_comes_costs_no_more_than_its_wait(cluster: Cluster, tmp_path: Path) -> None:
    env = {"PYTHONPATH": CHECKOUT}
    start = time.monotonic()
    others = [cluster[number].start(sys.executable, PROBING, str(tmp_path), "40", *NAMES, env=env) for number in (1, 3, 4)]
    done = [finish(one, 60) for one in others]
    assert time.monotonic() - start < 30
    links = [link for one in done for link in decode(tuple[FleetLink, ...], json.loads(one.stdout))]
    assert failures(links) == {} and {one.target for one in links} == {"n1", "n3", "n4"}


def test_a_slow_link_shows_in_its_seconds(cluster: Cluster, tmp_path: Path) -> None:
    """A card that came up at 20 Mbit/s moves one MiB in half a second, and 64 MiB not in time."""
    cluster[3].shell("tc qdisc add dev eth0 root tbf rate 20mbit burst 32kb latency 400ms")
    links = probed(cluster, tmp_path)
    assert failures(links) == {("transfer", "slow"): pairs(source="n3")}
    seconds = {(one.source, one.target): one.seconds or 0 for one in links if one.what == "transfer" and one.size_bytes == 1 << 20}
    assert min(seconds["n3", one] for one in ("n1", "n2", "n4")) > 0.3 > max(seconds["n1", one] for one in ("n2", "n3", "n4"))
    assert all(0 < (one.moved_bytes or 0) < 64 << 20 for one in links if one.error == "slow")
