"""The connecting side of the links: one address, one size, one deadline at a time."""

from __future__ import annotations

import errno
import hmac
import os
import secrets
import select
import socket
import time

from envcheck.facts.record import record
from envcheck.fleet.link_server import COUNT, NONCE, PROOF, family_of, proof

CONNECT_SECONDS = 3.5  # a SYN that was lost comes again after one second, and after three
ANSWER_SECONDS = 3.0
STALL_SECONDS = 3.0  # without one more byte: lost packets come again after 0.2 s, 0.6 s, 1.4 s
_CHUNK = memoryview(bytes(range(256)) * 4096)
_ROUTE = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.ENETDOWN, errno.EHOSTDOWN)
_HEADERS = {socket.AF_INET: 40, socket.AF_INET6: 60}  # bytes of IP and TCP before what a segment carries


class LinkError(Exception):
    """Why a connection is none; `reason` is a word of FleetLink.error."""

    def __init__(self, reason: str, detail: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.detail = reason, detail


@record
class Moved:
    """What became of one transfer; `reason` is None when all has arrived."""

    bytes: int
    seconds: float
    reason: str | None = None
    detail: str | None = None


def connect(address: str, port: int, expected: str, token: bytes, deadline: float, segment: int | None = None) -> socket.socket:
    """A connection to the host that it is meant to be; `segment` limits the size of its packets. LinkError otherwise."""
    connection = socket.socket(family_of(address), socket.SOCK_STREAM)
    try:
        if segment:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, segment)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _reach(connection, address, port, deadline)
        answering = _handshake(connection, token, min(deadline, time.monotonic() + ANSWER_SECONDS))
        if answering != expected:
            raise LinkError("itself", f"{answering} answers there")
    except BaseException:
        connection.close()
        raise
    return connection


def _reach(connection: socket.socket, address: str, port: int, deadline: float) -> None:
    connection.settimeout(max(0.05, min(CONNECT_SECONDS, deadline - time.monotonic())))
    try:
        connection.connect((address, port))
    except TimeoutError as error:
        raise LinkError("filtered", "no answer") from error
    except OSError as error:
        reason = "refused" if error.errno == errno.ECONNREFUSED else "route" if error.errno in _ROUTE else "broken"
        raise LinkError("filtered" if error.errno == errno.ETIMEDOUT else reason, _words(error)) from error


def _handshake(connection: socket.socket, token: bytes, deadline: float) -> str:
    try:
        theirs = _exactly(connection, NONCE, deadline)
        ours = secrets.token_bytes(NONCE)
        connection.sendall(ours + proof(token, "client", theirs + ours))
        answer = _exactly(connection, PROOF + 1, deadline)
        name = _exactly(connection, answer[PROOF], deadline)
    except TimeoutError as error:
        raise LinkError("silent", "the connection is taken, and no byte comes") from error
    except OSError as error:
        raise LinkError("stranger", _words(error)) from error
    if not hmac.compare_digest(answer[:PROOF], proof(token, "server", theirs + ours, name)):
        raise LinkError("stranger", "it does not know the job's token")
    return name.decode(errors="replace")


def _exactly(connection: socket.socket, size: int, deadline: float) -> bytes:
    text = b""
    while len(text) < size:
        connection.settimeout(max(0.01, deadline - time.monotonic()))
        got = connection.recv(size - len(text))
        if not got:
            raise ConnectionResetError(errno.ECONNRESET, "closed by the other side")
        text += got
    return text


def send(connection: socket.socket, size: int, deadline: float) -> Moved:
    """So many bytes, until the other side has told that they came, no more came for a while, or the time is over."""
    start = last = time.monotonic()
    connection.setblocking(False)
    ready = select.poll()
    ready.register(connection, select.POLLIN)
    head, sent, came, told = COUNT.pack(size), 0, 0, b""
    try:
        while came < size:
            now = time.monotonic()
            if now >= deadline or now - last >= STALL_SECONDS:
                stalled = now - last >= STALL_SECONDS or not came
                return Moved(came, now - start, "stalled" if stalled else "slow")
            ready.modify(connection, select.POLLIN | (select.POLLOUT if head or sent < size else 0))
            events = sum(event for _, event in ready.poll(1000 * min(deadline - now, 0.25)))
            if events & select.POLLOUT:
                part = memoryview(head) if head else _CHUNK[: min(size - sent, len(_CHUNK))]
                count = connection.send(part)
                head, sent = (head[count:], sent) if head else (head, sent + count)
            if events & ~select.POLLOUT:  # an error is read too
                told += _received(connection)
                while len(told) >= COUNT.size:
                    came, told, last = COUNT.unpack_from(told)[0], told[COUNT.size :], time.monotonic()
    except OSError as error:
        return Moved(came, time.monotonic() - start, "broken", _words(error))
    return Moved(size, time.monotonic() - start)


def _received(connection: socket.socket) -> bytes:
    try:
        got = connection.recv(1 << 16)
    except BlockingIOError:
        return b""
    if not got:
        raise ConnectionResetError(errno.ECONNRESET, "closed by the other side")
    return got


def segment_of(packet: int, address: str) -> int:
    return packet - _HEADERS[family_of(address)]


def _words(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)
