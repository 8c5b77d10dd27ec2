"""Host name, interfaces, InfiniBand and the variables of communication libraries."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machines import linux, machine
from patients import HERE, NO_ISOLATION, SOON

from envcheck.facts.snapshot import InfinibandPort, Interface, NetworkFacts
from envcheck.host.access import RealHost
from envcheck.host.syscalls import ipv4_addresses, resolve
from envcheck.probes import network


def facts(name: str) -> NetworkFacts:
    found = network.probe(machine(name))
    assert isinstance(found, NetworkFacts)
    return found


def test_h200() -> None:
    found = facts("h200-vm")
    assert (found.hostname, found.addresses, found.resolve_error, found.resolve_seconds) == ("vm", ("127.0.0.1",), None, 0.001)
    assert found.interfaces == (
        Interface("eth0", up=True, addresses=("192.0.2.7",), mtu=1400),
        Interface("lo", up=True, loopback=True, addresses=("127.0.0.1",), mtu=65536),
    )
    assert (found.infiniband, found.peermem, found.variables, found.nccl_conf) == ((), False, {}, {})


def test_pod() -> None:
    found = facts("kubernetes-cgroup2")
    assert (found.addresses, found.resolve_error) == ((), "Name or service not known")
    by_name = {interface.name: interface for interface in found.interfaces}
    assert set(by_name) == {"eth0", "eth1", "lo"}  # bonding_masters is no interface
    assert by_name["eth0"].addresses == ("10.244.1.9", "10.244.1.10", "fe80::d0:a9ff:fe00:1") and by_name["eth0"].mtu == 9000
    assert by_name["eth1"].up is False
    assert found.infiniband == (
        InfinibandPort("mlx5_0", 1, "ACTIVE", "InfiniBand", "400 Gb/sec (4X NDR)"),
        InfinibandPort("mlx5_1", 1, "DOWN", "Ethernet", None),
    )
    assert found.peermem is True
    assert found.variables == {"GLOO_SOCKET_IFNAME": "eth0", "NCCL_DEBUG": "INFO", "NCCL_SOCKET_IFNAME": "eth0"}
    assert found.nccl_conf == {"NCCL_IB_HCA": "mlx5"}  # NCCL_DEBUG of the file loses against the environment


def test_a_namespace_has_interfaces_of_its_own_whatever_sys_shows() -> None:
    shown = {"listdir /sys/class/net": ["eth0", "lo"], "read /sys/class/net/lo/flags": "0x9", "read /sys/class/net/eth0/flags": "0x1003"}
    assert [one.up for one in network.interfaces_of(linux(shown))] == [True, True]
    own = linux(
        {**shown, "links": [["lo", 0x8, 65536], ["veth0", 0x1003, 1500], ["tun0", 0x10D1, 1420]], "addresses": [["tun0", "192.0.2.1"]]}
    )
    assert network.interfaces_of(own) == (
        Interface("lo", up=False, loopback=True, mtu=65536),
        Interface("veth0", up=False, mtu=1500),  # up, and nobody at the other end
        Interface("tun0", up=True, addresses=("192.0.2.1",), mtu=1420),
    )


@pytest.mark.skipif(bool(NO_ISOLATION), reason=NO_ISOLATION or "one can be made")
def test_in_a_namespace_for_real() -> None:
    program = (
        "from envcheck.agent import isolation; isolation.make()[0].enter();"
        "from envcheck.host.access import RealHost; from envcheck.probes.network import interfaces_of;"
        "print([(one.name, one.up, one.loopback) for one in interfaces_of(RealHost())])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=HERE.parent, capture_output=True, text=True, timeout=SOON, check=False)
    assert done.stdout == "[('lo', True, True)]\n", done.stderr


def test_user_conf_wins_over_the_site() -> None:
    files = {"read /etc/nccl.conf": "NCCL_P2P_DISABLE=1\nNCCL_DEBUG=WARN\n", "read /home/u/.nccl.conf": "NCCL_DEBUG = INFO\n"}
    found = network.probe(linux(files, {"HOME": "/home/u"}))
    assert isinstance(found, NetworkFacts) and found.nccl_conf == {"NCCL_DEBUG": "INFO", "NCCL_P2P_DISABLE": "1"}
    elsewhere = network.probe(linux({**files, "read /n": "NCCL_NET=Socket\n"}, {"HOME": "/home/u", "NCCL_CONF_FILE": "/n"}))
    assert isinstance(elsewhere, NetworkFacts) and set(elsewhere.nccl_conf) == {"NCCL_DEBUG", "NCCL_NET", "NCCL_P2P_DISABLE"}
    assert elsewhere.nccl_conf["NCCL_DEBUG"] == "WARN"


def test_mac() -> None:
    found = facts("mac-m2")
    assert found.interfaces == (
        Interface("lo0", True, True, ("127.0.0.1", "::1"), 16384),
        Interface("en0", True, False, ("fe80::1c2e:4e6a:9b1a:1", "192.168.1.20"), 1500),
        Interface("en1", False, False, (), 1500),
    )
    assert (found.peermem, found.addresses) == (None, ("192.168.1.20",))


def test_a_dead_resolver_costs_its_limit_and_no_more() -> None:
    release = threading.Event()

    def dead(*_: object, **__: object) -> list[object]:
        release.wait(300)
        return []

    began = time.monotonic()
    answer = resolve("host", 0.1, dead)
    assert time.monotonic() - began < SOON
    release.set()
    assert (answer.addresses, answer.error, answer.timed_out) == ((), "no answer within 0.1 s", True)


def test_names_that_cannot_be_asked_for() -> None:
    for name in ("a" * 300, "a..b", "", "bad name", "münchen-" + "x" * 80):
        answer = resolve(name, 3.0)
        assert answer.error or answer.addresses


@pytest.mark.skipif(sys.platform != "linux", reason="asked through /proc and a Linux ioctl")
def test_here() -> None:
    found = network.probe(RealHost())
    assert isinstance(found, NetworkFacts) and found.hostname
    loopback = [interface for interface in found.interfaces if interface.loopback]
    assert loopback and "127.0.0.1" in loopback[0].addresses
    assert ("lo", "127.0.0.1") in ipv4_addresses()


@given(st.text())
def test_parsers_never_raise(text: str) -> None:
    assert isinstance(network.parse_if_inet6(text), tuple)
    assert isinstance(network.parse_ifconfig(text), tuple)
    assert isinstance(network.parse_nccl_conf(text.splitlines()), dict)


def test_an_mtu_that_no_interface_has_is_not_known() -> None:
    text = "en0: flags=8863<UP> mtu 9223372036854775809\nen1: flags=8863<UP> mtu 9000\n"
    assert [one.mtu for one in network.parse_ifconfig(text)] == [None, 9000]
