"""The ranks of a job find each other: rank 0 opens the store, each one writes who it is under its rank, and who is missing shows.

A rank is taken by compare-and-set: of two processes that both believe to be rank 3 one has it, and the other is its rival.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import socket
import time
from collections.abc import Iterable, Mapping

from envcheck.facts.codec import decode, encode
from envcheck.facts.fleet import SAME_NAME, FleetSeat
from envcheck.facts.interfaces import is_loopback
from envcheck.facts.record import mutable, replace
from envcheck.fleet.seat import LOOPBACK, Seat
from envcheck.fleet.store import Store, StoreError, Value
from envcheck.fleet.store_client import StoreClient, StoreUnreachable, resolved
from envcheck.fleet.store_server import GONE, StoreServer

RANK, SEAT, RIVAL, STAGE, LEADER, PRESENT = "rank/", "seat/", "rival/", "stage/", "leader/", "present"
MACHINE = "machine/"  # + host: which machine has that name
LETTERS = str.maketrans("0123456789abcdef", "abcdefghijklmnop")  # names are folded by their numbers, and this is none
BOOT_ID = "/proc/sys/kernel/random/boot_id"
NAME_SECONDS = 10.0  # for the address of a name
LOOK_SECONDS = 0.5  # how often rank 0 looks whether one it waits for has ended


@mutable
class Meeting:
    """This process among those of its job. Rank 0 has the server, everybody else a client."""

    seat: Seat
    told: FleetSeat  # what it says of itself
    store: Store
    server: StoreServer | None = None
    client: StoreClient | None = None
    leads: bool = False  # whether it speaks for its host: the first of a host that comes does, whatever its local rank

    def at(self, stage: str) -> None:
        """Said before each stage: where a process ends or stops, its last word is what it was about to do."""
        self.told = replace(self.told, stage=stage)
        self.store.set(f"{STAGE}{self.seat.rank}", stage)

    def close(self) -> None:
        for one in (self.client, self.server):
            if one is not None:
                one.close()


def meet(seat: Seat, deadline: float, last: float) -> Meeting:
    """Open the store as rank 0, or join it by `deadline`; nothing is waited for after `last`. StoreUnreachable where there is none."""
    if seat.master is None and seat.world_size > 1:
        raise StoreUnreachable("untold", "no variable tells where rank 0 is")
    many = (seat.nodes or len(seat.hosts)) > 1
    client = StoreClient(seat.master or LOOPBACK, seat.ports, bytes.fromhex(seat.token), last, many)
    if seat.rank == 0:
        return _opened(seat, client, many)
    client.join(deadline)
    return _joined(seat, client)


def _joined(seat: Seat, client: StoreClient) -> Meeting:
    clock = client.clock()
    told = replace(
        seat.told(),
        addresses=addresses(),
        arrived_seconds=round(client.joined_seconds, 3),
        clock_offset_seconds=round(clock.seconds, 6),
        clock_error_seconds=round(clock.error_seconds, 6),
        master_addresses=client.addresses,
    )
    return Meeting(seat, told, client, client=client)


def _opened(seat: Seat, client: StoreClient, many: bool) -> Meeting:
    """The store of rank 0; or of another process that is rank 0 already, as whose rival this one then joins."""
    told = replace(seat.told(), addresses=addresses(), arrived_seconds=0.0, clock_offset_seconds=0.0, clock_error_seconds=0.0)
    try:
        told = replace(told, master_addresses=resolved(client.master, time.monotonic() + NAME_SECONDS))
    except StoreUnreachable as error:  # the others say so too, each for itself
        told = replace(told, reason=error.reason, error=str(error))
    if _answers(client):
        return _joined(seat, client)
    server = StoreServer(client.token)
    loopback = told.master_addresses and all(map(is_loopback, told.master_addresses)) and not many
    server.open(seat.ports, told.master_addresses[0] if loopback else None)
    before = seat.ports[: seat.ports.index(server.port)]  # on the next ones our own store would answer
    quicker = StoreClient(client.master, before, client.token, client.deadline, many)
    if before and _answers(quicker):
        server.close()
        return _joined(seat, quicker)
    if told.master_addresses and not any(map(is_ours, told.master_addresses)):
        words = f"{seat.master} is {', '.join(told.master_addresses)}, and rank 0 runs on {seat.host}, which has no such address"
        told = replace(told, reason="elsewhere", error=words)
    return Meeting(seat, told, server, server=server)


def _answers(client: StoreClient) -> bool:
    """Whether this job has a store already."""
    with contextlib.suppress(StoreError):
        client.join(time.monotonic() + NAME_SECONDS, once=True)
        return True
    return False


def take_place(meeting: Meeting) -> bool:
    """Write this process under its rank; False where another one has the rank.

    Who speaks for a host is settled before: when rank 0 has seen all seats, each of their hosts has one that does.
    """
    store = meeting.store
    host = _apart(meeting.seat, store)
    seat = meeting.seat = replace(meeting.seat, host=host)
    meeting.told = replace(meeting.told, host=host, late=PRESENT in store.get((PRESENT,)))  # the others have stopped waiting
    name = f"{seat.host}:{seat.pid}"
    if store.compare_and_set(f"{RANK}{seat.rank}", None, name) != name:
        store.set(f"{RIVAL}{seat.rank}/{name}", encode(meeting.told))
        return False
    if not meeting.told.late:
        meeting.leads = store.compare_and_set(f"{LEADER}{seat.host}", None, seat.rank) == seat.rank
    store.set(f"{SEAT}{seat.rank}", encode(meeting.told))
    if meeting.client is not None:
        meeting.client.hold(seat.rank)
    return True


def _apart(seat: Seat, store: Store) -> str:
    """The name of this host in the report. Of two machines with one name the second that comes has the sign of its boot behind it."""
    own = machine_sign(bytes.fromhex(seat.token))
    if not own or store.compare_and_set(f"{MACHINE}{seat.host}", None, own) == own:
        return seat.host
    return f"{seat.host}{SAME_NAME}{own[:6].translate(LETTERS)}"


def machine_sign(token: bytes) -> str:
    """What tells this machine from others, with the job's token over it: in a report it shows nothing of the machine. "" where no kernel
    tells its boot."""
    try:
        with open(BOOT_ID, encoding="ascii") as file:
            return hmac.new(token, file.read().strip().encode(), hashlib.sha256).hexdigest()[:32]
    except (OSError, ValueError):
        return ""


def await_of(server: StoreServer, owed: Mapping[str, int], deadline: float) -> dict[str, Value]:
    """What stands under these keys, each of which a rank owes: by the deadline, or when those that are left owe nothing more."""
    left, found = dict(owed), dict[str, Value]()
    while left:
        come = server.wait(left, min(deadline, time.monotonic() + LOOK_SECONDS))
        found.update(come)
        gone = _gone(server)
        left = {key: rank for key, rank in left.items() if key not in come and rank not in gone}
        if time.monotonic() >= deadline:
            break
    return found


def _gone(server: StoreServer) -> set[int]:
    """Ranks whose process has ended."""
    return {rank for key in server.keys(GONE) if (rank := _rank_in(key, GONE)) is not None}


def _rank_in(key: str, prefix: str) -> int | None:
    """None where a key names no rank: whoever has the job's token may write any."""
    number = key.removeprefix(prefix)
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 10 else None


def seats(server: StoreServer, silent: Iterable[int] = ()) -> tuple[tuple[FleetSeat, ...], tuple[FleetSeat, ...]]:
    """All that came, by rank, with the last stage of each, and the rivals. `silent` are ranks that owe an answer."""
    stages = {_rank_in(key, STAGE): value for key, value in server.items(STAGE).items()}
    gone = _gone(server)
    quiet = frozenset(silent)

    def ended(one: FleetSeat) -> FleetSeat:
        stage = stages.get(one.rank or 0)
        one = replace(one, stage=stage if isinstance(stage, str) else one.stage)
        if one.rank in gone:
            return replace(one, reason="gone", error=f"its process ended in the stage {one.stage}")
        if one.rank in quiet:
            return replace(one, reason="stuck", error=f"it said nothing more after it began the stage {one.stage}")
        return one

    came = [ended(seat) for value in server.items(SEAT).values() if (seat := _seat(value))]
    rivals = [seat for _, value in sorted(server.items(RIVAL).items()) if (seat := _seat(value))]
    return tuple(sorted(came, key=lambda one: one.rank or 0)), tuple(rivals)


def _seat(value: Value) -> FleetSeat | None:
    """None for what is no seat: a key of a store may hold anything."""
    with contextlib.suppress(ValueError):
        seat: FleetSeat = decode(FleetSeat, value)
        return seat
    return None


def addresses() -> tuple[str, ...]:
    """Of this host's interfaces, loopback left out."""
    from envcheck.host.access import RealHost
    from envcheck.probes.network import interfaces_of

    found = [address for interface in interfaces_of(RealHost()) for address in interface.addresses]
    return tuple(dict.fromkeys(one for one in found if not is_loopback(one) and not one.startswith("fe80:")))


def is_ours(address: str) -> bool:
    """Whether this host has the address; where that cannot be told, it has."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
    except OSError as error:
        return error.errno != errno.EADDRNOTAVAIL
    return True
