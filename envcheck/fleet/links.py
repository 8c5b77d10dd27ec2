"""Can the hosts of a job reach each other as gloo and NCCL will: by name, on each interface, on ports that nobody opened, at every size.

Each host listens on its own addresses, tells the store where, and tries the hosts that `link_rounds` gives it. Nothing is contacted but
addresses that hosts of this job told in the store, which only those who know the job's token can write to.
"""

from __future__ import annotations

import functools
import ipaddress
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from envcheck.facts.codec import DecodeError, decode, encode
from envcheck.facts.fleet import FleetLink, own_name
from envcheck.facts.interfaces import chosen_by, is_loopback
from envcheck.facts.record import record, replace
from envcheck.fleet import link_client
from envcheck.fleet.link_client import LinkError, Moved
from envcheck.fleet.link_rounds import LARGE, sources, targets
from envcheck.fleet.link_server import LinkServer
from envcheck.fleet.seat import Seat
from envcheck.fleet.store import Store
from envcheck.host.access import Host, RealHost
from envcheck.probes.network import interfaces_of

SIZES = (4, 1 << 10, 64 << 10, 1 << 20, 64 << 20)
STEP_SECONDS = 5.0  # of one size
NAME_SECONDS = 3.0
SLOW_NAME_SECONDS = 1.0
PEER_SECONDS = 10.0  # to wait for those who have not told where they listen, or have not finished with this host
ADDRESSES, PORTS = 8, 3  # of a host
WORKERS = 32  # connections and names that are tried at a time
PACKETS = (8000, 4000, 1500, 1480, 1450, 1400, 1350, 1280, 1000, 576)  # sizes that tunnels and clouds have, where a larger one is lost
LISTEN, STEP, DONE = "links/at/", "links/step/", "done"


@record
class Spot:
    """An address on which a host listens."""

    interface: str
    address: str
    ports: tuple[int, ...]
    mtu: int | None = None
    chosen_by: tuple[str, ...] = ()


def probe_links(seat: Seat, peers: Sequence[str], store: Store, deadline: float, host: Host | None = None) -> tuple[FleetLink, ...]:
    """What this host tried of the others. `peers` are all hosts of the job that take part, in the same order everywhere."""
    hosts = tuple(dict.fromkeys(peers))
    machine, token = host or RealHost(), bytes.fromhex(seat.token)
    own = machine.resolve(own_name(seat.host), NAME_SECONDS)
    spots = _own_spots(machine, own.addresses)
    with LinkServer(seat.host, token, (one.address for one in spots), PORTS) as server:
        told = [replace(one, ports=server.ports[one.address]) for one in spots if server.ports[one.address]]
        store.set(LISTEN + seat.host, encode(told))
        at = _told_by(store, [LISTEN + one for one in targets(hosts, seat.host)], min(deadline, time.monotonic() + PEER_SECONDS))
        prober = _Prober(seat.host, token, told, at, deadline, machine, lambda step: store.set(STEP + seat.host, step))
        links = [prober.judge_name(seat.host, tuple(one.address for one in told), own.addresses, own.error, own.seconds)]
        links += prober.links(targets(hosts, seat.host))
        store.set(STEP + seat.host, DONE)
        # One that never came, or is frozen, is not waited for.
        _stay(store, [one for one in sources(hosts, seat.host) if one in at and one not in prober.silent], deadline)
    return _thin(links, len(hosts))


def _own_spots(machine: Host, own: Sequence[str]) -> list[Spot]:
    """The addresses of this host that others may reach it at; first those that a library takes."""
    order = {name: index for index, name in socket.if_nameindex()} if hasattr(socket, "if_nameindex") else {}
    interfaces = sorted((one for one in interfaces_of(machine) if one.up is not False), key=lambda one: order.get(one.name, 1 << 30))
    taken = chosen_by(interfaces, machine.env, own)
    found = []
    for one in interfaces:
        usable = [address for address in one.addresses if _usable(address)]
        if usable and not one.loopback:
            # NCCL and gloo take one address of an interface: IPv4 where there is one.
            found.append(Spot(one.name, min(usable, key=lambda text: ":" in text), (), one.mtu, taken.get(one.name, ())))
    return sorted(found, key=lambda spot: not spot.chosen_by)[:ADDRESSES]


def _usable(address: str) -> bool:
    """An address of one host that another one can connect to. What was told is held against it too."""
    try:
        read = ipaddress.ip_address(address)
    except ValueError:
        return False
    return not (read.is_loopback or read.is_link_local or read.is_multicast or read.is_unspecified)


def _told_by(store: Store, keys: Sequence[str], deadline: float) -> dict[str, list[Spot]]:
    return {key.removeprefix(LISTEN): _read_spots(value) for key, value in store.wait(keys, deadline).items()}


def _read_spots(value: object) -> list[Spot]:
    """What another host wrote: addresses that can be a host's, on ports that a system chooses."""
    try:
        spots = decode(tuple[Spot, ...], value)[:ADDRESSES]
    except DecodeError:
        return []
    return [one for one in spots if _usable(one.address) and one.ports[:PORTS] and all(1023 < port < 65536 for port in one.ports)]


def _stay(store: Store, sources: Iterable[str], deadline: float) -> None:
    """Until those that try this host are done with everything, and no longer than one of them still gets on: who leaves early breaks what
    others have begun."""
    left, until = {STEP + one for one in sources}, time.monotonic() + PEER_SECONDS
    seen: dict[str, object] = {}
    while left and time.monotonic() < min(deadline, until):
        steps = store.get(left)
        if steps != seen:
            seen, until = steps, time.monotonic() + PEER_SECONDS
        left = {key for key in left if steps.get(key) != DONE}
        time.sleep(0.1 if left else 0)


class _Prober:
    """What one host finds out about its partners."""

    def __init__(
        self,
        source: str,
        token: bytes,
        own: Sequence[Spot],
        at: Mapping[str, Sequence[Spot]],
        deadline: float,
        machine: Host,
        mark: Callable[[int], None],
    ) -> None:
        """`mark` is called with the number of partners that are done with."""
        self._source, self._token, self._at, self._deadline, self._machine, self._mark = source, token, at, deadline, machine, mark
        self._mtus = {one.interface: one.mtu for one in own}
        self._addresses = {one.address for one in own}
        self.silent: set[str] = set()

    def links(self, partners: Sequence[str]) -> list[FleetLink]:
        """Names and connections of all at once, for each may take its time to fail; then what goes through them, one after the other."""
        there = [one for one in partners if self._at.get(one)]
        work: list[Callable[[], FleetLink]] = []
        work += [functools.partial(self._connect, target, self._at[target][0]) for target in there]  # those that a library takes come first
        for target in there:
            first, *others = self._at[target]
            work += [functools.partial(self._connect, target, spot) for spot in others]
            work += [functools.partial(self._connect, target, first, port) for port in first.ports[1:PORTS]]
            work += [functools.partial(self._name, target), functools.partial(self._reverse, target)]
        links = _at_once(work, self._deadline)
        self.silent.update(one.target for one in links if one.error == "silent")
        for number, target in enumerate(there):
            self._mark(number)
            links += self._transfers(target, links, SIZES if number < LARGE else SIZES[:-1])
        return links

    def _link(self, target: str, what: str, spot: Spot | None = None) -> FleetLink:
        if spot is None:
            return FleetLink(self._source, target, what)
        # A packet leaves by the interface of the same name where there is one; otherwise by one that has the smallest limit, perhaps.
        mtu = self._mtus.get(spot.interface, min((one for one in self._mtus.values() if one), default=None))
        return FleetLink(self._source, target, what, spot.interface, spot.address, chosen_by=spot.chosen_by, mtu=mtu, target_mtu=spot.mtu)

    def _connect(self, target: str, spot: Spot, port: int | None = None) -> FleetLink:
        link, start = self._link(target, "connect" if port is None else "ephemeral", spot), time.monotonic()
        if start >= self._deadline:
            return replace(link, error="late")
        if spot.address in self._addresses:  # whatever answered there would be of this host
            return replace(link, ok=False, error="itself", detail=f"{self._source} has this address too")
        try:
            link_client.connect(spot.address, port or spot.ports[0], target, self._token, self._deadline).close()
        except LinkError as error:
            return replace(link, ok=False, seconds=_since(start), error=error.reason, detail=error.detail)
        return replace(link, ok=True, seconds=_since(start))

    def _name(self, target: str) -> FleetLink:
        answer = self._machine.resolve(own_name(target), NAME_SECONDS)
        return self.judge_name(target, tuple(one.address for one in self._at[target]), answer.addresses, answer.error, answer.seconds)

    def judge_name(self, target: str, told: Sequence[str], found: Sequence[str], error: str | None, seconds: float) -> FleetLink:
        """What the name of a host resolves to, against the addresses that the host itself told."""
        link = replace(self._link(target, "name"), address=found[0] if found else None, seconds=round(seconds, 4))
        if not found:
            return replace(link, ok=False, error="unresolved", detail=error)
        if is_loopback(found[0]):
            return replace(link, ok=False, error="loopback")
        if told and not set(found) & set(told):
            return replace(link, ok=False, error="elsewhere", detail=", ".join(told))
        return replace(link, ok=True, error="slow" if seconds > SLOW_NAME_SECONDS else None)

    def _reverse(self, target: str) -> FleetLink:
        """A TCPStore asks for the name of each client's address, and waits for it."""
        address = self._at[target][0].address
        seconds = self._machine.reverse(address, NAME_SECONDS)
        taken = NAME_SECONDS if seconds is None else seconds
        link = replace(self._link(target, "reverse"), address=address, seconds=round(taken, 4))
        return replace(link, ok=True, error="slow" if taken > SLOW_NAME_SECONDS else None)

    def _transfers(self, target: str, tried: Iterable[FleetLink], sizes: Sequence[int]) -> list[FleetLink]:
        """Rising sizes over the first address that can be reached, until one does not arrive."""
        good = {one.address for one in tried if one.target == target and one.what == "connect" and one.ok}
        spot = next((one for one in self._at[target] if one.address in good), None)
        if spot is None:
            return []
        link = self._link(target, "transfer", spot)
        try:
            connection = link_client.connect(spot.address, spot.ports[0], target, self._token, self._deadline)
        except LinkError as error:
            return [replace(link, size_bytes=sizes[0], ok=False, error="late" if self._late() else "broken", detail=error.reason)]
        found: list[FleetLink] = []
        with connection:
            for size in sizes:
                if self._late():
                    return [*found, replace(link, size_bytes=size, error="late")]
                moved = link_client.send(connection, size, min(self._deadline, time.monotonic() + STEP_SECONDS))
                found.append(_transfer(link, size, moved))
                if moved.reason:
                    break
        if found[-1].error == "stalled":
            found[-1] = replace(found[-1], passes_bytes=self._passing(target, spot, found[-1]))
        return found

    def _late(self) -> bool:
        return time.monotonic() >= self._deadline

    def _passing(self, target: str, spot: Spot, link: FleetLink) -> int | None:
        """The largest packets of which as many bytes arrive as did not with full ones: if there are any, the network loses large ones."""
        largest = min((one for one in (link.mtu, link.target_mtu) if one), default=1500)
        sizes = [one for one in PACKETS if one < largest]
        best = None
        while sizes and not self._late():
            middle = sizes[len(sizes) // 2]
            if self._passes(target, spot, middle, min(link.size_bytes or 0, 64 << 10)):
                best, sizes = middle, [one for one in sizes if one > middle]
            else:
                sizes = [one for one in sizes if one < middle]
        return best

    def _passes(self, target: str, spot: Spot, packet: int, size: int) -> bool:
        try:
            segment = link_client.segment_of(packet, spot.address)
            with link_client.connect(spot.address, spot.ports[0], target, self._token, self._deadline, segment) as connection:
                return link_client.send(connection, size, min(self._deadline, time.monotonic() + 1.5)).reason is None
        except LinkError:
            return False


def _transfer(link: FleetLink, size: int, moved: Moved) -> FleetLink:
    link = replace(link, size_bytes=size, ok=moved.reason is None, seconds=round(moved.seconds, 6))
    return link if moved.reason is None else replace(link, error=moved.reason, detail=moved.detail, moved_bytes=moved.bytes)


def _since(start: float) -> float:
    return round(time.monotonic() - start, 4)


def _at_once(work: Sequence[Callable[[], FleetLink]], deadline: float) -> list[FleetLink]:
    """In a few threads, which nobody waits for after the deadline: a resolver that hangs holds its thread."""
    todo: queue.SimpleQueue[Callable[[], FleetLink]] = queue.SimpleQueue()
    done: queue.SimpleQueue[FleetLink] = queue.SimpleQueue()
    for one in work:
        todo.put(one)

    def serve() -> None:
        while True:
            try:
                one = todo.get_nowait()
            except queue.Empty:
                return
            done.put(one())

    for _ in range(min(WORKERS, len(work))):
        threading.Thread(target=serve, daemon=True).start()
    links = []
    for _ in work:
        try:
            links.append(done.get(timeout=max(0.0, deadline + 1 - time.monotonic())))
        except queue.Empty:
            break
    return links


def _thin(links: Sequence[FleetLink], hosts: int) -> tuple[FleetLink, ...]:
    """Of many hosts what rank 0 needs: all that failed, and of the rest who was reached and how fast."""
    if hosts <= 64:
        return tuple(links)
    largest: dict[str, FleetLink] = {}
    for one in links:
        if one.what == "transfer" and one.ok:
            largest[one.target] = one
    kept = (one for one in links if one.ok is not True or one.error or one.what == "connect" or one is largest.get(one.target))
    return tuple(kept)
