"""Network namespaces for tests: two hosts and a router between them. Traffic stays inside them."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

A, B, ROUTER = "10.213.1.2", "10.213.2.2", "router"


def why_not() -> str | None:
    """Why namespaces cannot be made here; None if they can."""
    if os.name != "posix" or not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "needs root for network namespaces"
    if not shutil.which("ip") or not shutil.which("unshare"):
        return "needs ip and unshare"
    name = f"ec{uuid.uuid4().hex[:8]}"
    done = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, timeout=20)
    if done.returncode:
        return f"ip netns: {done.stderr.strip()[:100]}"
    try:
        made = subprocess.run(
            ["ip", "-n", name, "link", "add", "name", "x", "type", "veth", "peer", "name", "y"], capture_output=True, text=True, timeout=20
        )
        return None if made.returncode == 0 else f"veth: {made.stderr.strip()[:100]}"
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=20)


REASON = why_not()
needs_networks = pytest.mark.skipif(REASON is not None, reason=REASON or "")


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=20)


class Hosts:
    """Namespaces a and b with addresses A and B on eth0, joined by the namespace r with the interfaces to_a and to_b."""

    def __init__(self, mark: str) -> None:
        self.a, self.b, self.r = (f"ec-{mark}-{letter}" for letter in "abr")

    def run(self, name: str, *argv: str) -> None:
        subprocess.run(["ip", "netns", "exec", name, *argv], check=True, capture_output=True, timeout=20)

    def mtu(self, hosts: int, router: int) -> None:
        """Large packets of the hosts end at the router without a word: it takes no frame beyond its own MTU."""
        for name, far in ((self.a, "to_a"), (self.b, "to_b")):
            ip("-n", name, "link", "set", "eth0", "mtu", str(hosts))
            ip("-n", self.r, "link", "set", far, "mtu", str(router))
            self.run(name, "python3", "-c", _NO_OFFLOAD)

    def firewall(self, *open_ports: int) -> None:
        """The router drops all TCP between the hosts but to and from these ports."""
        for at, port in enumerate(open_ports):
            for side in ("sport", "dport"):
                ip("-n", self.r, "rule", "add", "pref", str(100 + at), "ipproto", "tcp", side, str(port), "lookup", "main")
        ip("-n", self.r, "rule", "add", "pref", "900", "ipproto", "tcp", "blackhole")


# Segments that the kernel would cut later are not measured against an MTU: ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_STXCSUM off
_NO_OFFLOAD = """
import array, fcntl, socket, struct
link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for command in (0x1f, 0x24):
    value = array.array("B", struct.pack("II", command, 0))
    fcntl.ioctl(link, 0x8946, struct.pack("16sP", b"eth0", value.buffer_info()[0]))
"""


@contextmanager
def hosts() -> Iterator[Hosts]:
    """Both hosts and the router, until the end of the block."""
    made = Hosts(uuid.uuid4().hex[:6])
    try:
        for name in (made.a, made.b, made.r):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        for name, near, net, address in ((made.a, "to_a", "10.213.1.1", A), (made.b, "to_b", "10.213.2.1", B)):
            ip("link", "add", "name", "eth0", "netns", name, "type", "veth", "peer", "name", near, "netns", made.r)
            ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", made.r, "addr", "add", f"{net}/24", "dev", near)
            ip("-n", made.r, "link", "set", near, "up")
            ip("-n", name, "route", "add", "default", "via", net)
        made.run(made.r, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        yield made
    finally:
        for name in (made.a, made.b, made.r):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=20)
