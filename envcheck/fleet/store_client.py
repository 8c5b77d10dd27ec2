"""The store as the other ranks see it: connections to rank 0 that are opened when they are needed, each question with a deadline."""

from __future__ import annotations

import contextlib
import errno
import random
import secrets
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

from envcheck.facts.interfaces import is_loopback
from envcheck.facts.record import field, mutable, record
from envcheck.fleet import wire
from envcheck.fleet.store import StoreError, Value
from envcheck.probes.task import Task

CONNECT_SECONDS = 3.0  # for one address; a SYN that was lost comes again after one second
QUESTION_SECONDS = 15.0  # for what a store answers at once
KEYS_AT_A_TIME = 8192
SEGMENT_BYTES = 1220  # of IPv6's smallest MTU, 1280, what two headers leave: each path carries these
CLOCK_QUESTIONS = 5

Reason: TypeAlias = Literal["stranger", "refused", "silent", "route", "filtered", "name", "loopback", "untold", "lost"]
TELLING = ("stranger", "refused", "silent", "route", "filtered")  # of several ports the one that is last here says most


class StoreUnreachable(StoreError):
    """Rank 0's store cannot be joined; `reason` in a word, `addresses` of the master as this host knows them."""

    def __init__(self, reason: Reason, words: str, addresses: tuple[str, ...] = ()) -> None:
        super().__init__(words)
        self.reason: Reason = reason
        self.addresses = addresses


@record
class ClockOffset:
    """This host's clock minus that of rank 0's host, by the middle of the quickest of a few questions."""

    seconds: float
    error_seconds: float  # half of that question's time: more it cannot be wrong


@mutable
class _Connection:
    """One question at a time. What goes wrong on it ends it: an answer that comes late must not be taken for another one's."""

    socket: socket.socket
    rest: bytearray = field(default_factory=bytearray)

    def ask(self, question: Mapping[str, Any], deadline: float) -> dict[str, Any]:
        self.socket.settimeout(_left(deadline))
        self.socket.sendall(wire.line(question))
        return self.answer(deadline)

    def answer(self, deadline: float, limit: int = wire.MESSAGE_LIMIT) -> dict[str, Any]:
        while (end := self.rest.find(b"\n")) < 0:
            if len(self.rest) > limit:
                raise StoreError("the answer is over the limit")
            self.socket.settimeout(_left(deadline))
            data = self.socket.recv(1 << 16)
            if not data:
                raise ConnectionResetError(errno.ECONNRESET, "the store hung up")
            self.rest += data
        text = bytes(self.rest[:end])
        del self.rest[: end + 1]
        return wire.message(text)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError(errno.ETIMEDOUT, "no answer in time")
    return left


class StoreClient:
    """Itself a Store. `deadline` is the last moment at which it may still wait for anything."""

    def __init__(self, master: str, ports: Sequence[int], token: bytes, deadline: float, many_hosts: bool = True) -> None:
        self.master, self.ports, self.token = master, tuple(ports), token
        self.deadline = deadline
        self.port = 0
        self.joined_seconds = 0.0  # on the store's own clock
        self.addresses: tuple[str, ...] = ()
        self._many_hosts = many_hosts
        self._place: tuple[str, int] | None = None
        self._idle: list[_Connection] = []
        self._held: _Connection | None = None

    def join(self, deadline: float, once: bool = False) -> None:
        """Find the store among the ports, again and again: rank 0 may be the last to start. StoreUnreachable at the deadline."""
        pause, first = 0.1, 0
        whole: StoreUnreachable | None = None
        while True:
            try:
                self._idle.append(self._found(first, deadline))
                return
            except StoreUnreachable as error:
                late = time.monotonic() >= deadline
                if once or late or time.monotonic() + pause >= deadline:
                    raise (whole if late and whole else error) from None  # a round that the deadline cut short knows less than a whole one
                whole = error
                first += error.reason == "filtered"  # the next round begins with another port
            time.sleep(pause * random.uniform(0.7, 1.3))  # noqa: S311  # thousands of ranks, not all at once
            pause = min(2 * pause, 2.0)

    def set(self, key: str, value: Value) -> None:
        self._ask({"op": "set", "key": key, "value": value})

    def get(self, keys: Iterable[str]) -> dict[str, Value]:
        found: dict[str, Value] = {}
        left = list(keys)
        while left:
            some = left[:KEYS_AT_A_TIME]
            answer = self._ask({"op": "get", "keys": some})
            found.update(answer["values"])
            left = left[max(1, int(answer["more"]["reached"])) :]
        return found

    def compare_and_set(self, key: str, expected: Value, value: Value) -> Value:
        return self._ask({"op": "cas", "key": key, "expected": expected, "value": value})["value"]

    def wait(self, keys: Iterable[str], deadline: float) -> dict[str, Value]:
        wanted = list(keys)
        for at in range(0, len(wanted), KEYS_AT_A_TIME):
            seconds = min(deadline, self.deadline) - time.monotonic()
            if seconds > 0:
                self._ask({"op": "wait", "keys": wanted[at : at + KEYS_AT_A_TIME], "seconds": seconds}, seconds)
        return self.get(wanted)

    def items(self, prefix: str) -> dict[str, Value]:
        found: dict[str, Value] = {}
        more: Mapping[str, Any] = {"after": ""}
        while more:
            answer = self._ask({"op": "items", "key": prefix, **more})
            found.update(answer["values"])
            more = answer["more"]
        return found

    def clock(self) -> ClockOffset:
        best = ClockOffset(0.0, float("inf"))
        for _ in range(CLOCK_QUESTIONS):
            before, began = time.time(), time.monotonic()
            answer = self._ask({"op": "clock"})
            half = (time.monotonic() - began) / 2
            if half < best.error_seconds:
                best = ClockOffset(before + half - float(answer["clock"]), half)
        return best

    def hold(self, rank: int) -> None:
        """From now on the store notices at once when this process ends without a word."""
        self._ask({"op": "hold", "rank": rank})
        self._held = self._idle.pop()

    def close(self) -> None:
        for connection in [*self._idle, *([self._held] if self._held else [])]:
            with contextlib.suppress(OSError):
                connection.socket.settimeout(1.0)
                connection.socket.sendall(wire.line({"op": "bye"}))
                connection.socket.close()
        self._idle, self._held = [], None

    def _by(self, seconds: float) -> float:
        return min(self.deadline, time.monotonic() + seconds)

    def _ask(self, question: Mapping[str, Any], waits: float = 0.0) -> dict[str, Any]:
        """Every question may be asked twice: a connection that was cut in between is opened again, once."""
        deadline = self._by(waits + QUESTION_SECONDS)
        try:
            with contextlib.suppress(IndexError, ConnectionError):
                return self._asked(self._idle.pop(), question, deadline)
            return self._asked(self._connected(deadline), question, deadline)
        except (OSError, StoreUnreachable) as error:
            raise self._lost(error) from None

    def _asked(self, connection: _Connection, question: Mapping[str, Any], deadline: float) -> dict[str, Any]:
        try:
            answer = connection.ask(question, deadline)
            if not answer.get("ok"):
                raise StoreError(str(answer.get("error", "the store refuses"))[:200])
        except BaseException:
            connection.socket.close()
            raise
        self._idle.append(connection)
        return answer

    def _lost(self, error: OSError | StoreUnreachable) -> StoreUnreachable:
        if isinstance(error, StoreUnreachable) and error.reason == "lost":
            return error
        silent = isinstance(error, TimeoutError) or (isinstance(error, StoreUnreachable) and error.reason == "silent")
        words = "does not answer any more" if silent else f"is gone: {getattr(error, 'strerror', None) or error}"
        return StoreUnreachable("lost", f"the store of rank 0 at {self.master}:{self.port} {words}", self.addresses)

    def _connected(self, deadline: float) -> _Connection:
        if self._place is None:
            raise ConnectionResetError(errno.ECONNRESET, "it was not joined")
        return self._greeted(*self._place, deadline)

    def _found(self, first: int, deadline: float) -> _Connection:
        """The first of the ports where this job's store answers, on any of the master's addresses."""
        self.addresses = resolved(self.master, deadline)
        worst = StoreUnreachable("name", f"{self.master} has neither address nor port for a store", self.addresses)
        for at in range(len(self.ports)):
            port = self.ports[(first + at) % len(self.ports)]
            for address in self.addresses:
                try:
                    connection = self._greeted(address, port, min(deadline, time.monotonic() + CONNECT_SECONDS))
                except StoreUnreachable as error:
                    if worst.reason not in TELLING or TELLING.index(error.reason) > TELLING.index(worst.reason):
                        worst = error
                    continue
                self._place, self.port = (address, port), port
                return connection
            if worst.reason in ("filtered", "route"):
                break  # what keeps us from one port keeps us from the others, and each would cost as long
        raise self._at_loopback(worst)

    def _at_loopback(self, error: StoreUnreachable) -> StoreUnreachable:
        """Among several hosts, a master that this host takes for itself."""
        if not self._many_hosts or not all(map(is_loopback, self.addresses)):
            return error
        words = f"{self.master} is {', '.join(self.addresses)} on this host, which is this host itself and not that of rank 0"
        return StoreUnreachable("loopback", words, self.addresses)

    def _greeted(self, address: str, port: int, deadline: float) -> _Connection:
        """A connection on which both sides have proved that they know the token."""
        where = f"{self.master}:{port}" if address == self.master else f"{self.master}:{port} ({address})"
        try:
            connection = _Connection(_connected(address, port, min(CONNECT_SECONDS, _left(deadline))))
        except OSError as error:
            raise _unreachable(error, where, self.addresses) from None
        try:
            connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._is_ours(connection, deadline):
                return connection
            reason, words = "stranger", f"what listens at {where} is the store of another job"
        except TimeoutError:
            reason, words = "silent", f"{where} takes connections and says nothing: rank 0 is frozen, or another program listens there"
        except (OSError, StoreError):
            reason, words = "stranger", f"what listens at {where} is no store of envcheck"
        connection.socket.close()
        raise StoreUnreachable(cast(Reason, reason), words, self.addresses)

    def _is_ours(self, connection: _Connection, deadline: float) -> bool:
        """Whether the other side knows the token; it wants to see first that we do."""
        mine = secrets.token_hex(16)
        said = connection.ask({"envcheck": wire.PROTOCOL, "hello": mine}, deadline)
        theirs = said.get("hello")
        if said.get("envcheck") != wire.PROTOCOL or not isinstance(theirs, str):
            raise StoreError("no hello of this protocol")
        welcome = connection.ask({"proof": wire.proof(self.token, "client", mine, theirs)}, deadline)
        if not wire.proved(self.token, "server", mine, theirs, welcome.get("proof")):
            return False
        self.joined_seconds = self.joined_seconds or float(welcome["seconds"])
        return True


def _connected(address: str, port: int, seconds: float) -> socket.socket:
    """Its packets are small both ways: between hosts where large ones are lost, the store is what has to tell so."""
    made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(OSError):  # what a system does not know it does not limit
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)
        made.settimeout(seconds)
        made.connect((address, port))
    except BaseException:
        made.close()
        raise
    return made


def _unreachable(error: OSError, where: str, addresses: tuple[str, ...]) -> StoreUnreachable:
    if isinstance(error, ConnectionRefusedError):
        return StoreUnreachable("refused", f"{where} refuses connections: nothing listens there", addresses)
    if isinstance(error, TimeoutError):
        return StoreUnreachable("filtered", f"{where} does not answer: its host is down, or a firewall drops what is sent", addresses)
    return StoreUnreachable("route", f"{where} cannot be reached: {error.strerror or error}", addresses)


def resolved(name: str, deadline: float) -> tuple[str, ...]:
    """Addresses of a name, IPv4 first, as most clusters route that. A resolver may take longer than anybody waits for it."""
    task = Task(lambda: socket.getaddrinfo(name, None, type=socket.SOCK_STREAM))
    try:
        found = task.result(max(0.1, deadline - time.monotonic()))
    except (OSError, UnicodeError) as error:
        words = getattr(error, "strerror", None) or str(error)
        raise StoreUnreachable("name", f"the name {name} has no address on this host: {words}") from None
    if not found:
        raise StoreUnreachable("name", f"nobody answered what the address of {name} is")
    rows = sorted(found, key=lambda row: row[0] != socket.AF_INET)
    return tuple(dict.fromkeys(str(row[4][0]) for row in rows))
