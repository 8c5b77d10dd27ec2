"""The listening side of the links: ports that the system chooses, as gloo and NCCL have them, on each address that this host told.

Who connects is sent a number used once, proves that it knows the job's token, and is told who answers. Then it sends a size and as many
bytes, and is told how many have come, any number of times. Nothing that arrives is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import secrets
import selectors
import socket
import struct
import threading
import time
from collections.abc import Iterable

from envcheck.facts.record import field, mutable

NONCE, PROOF = 16, 32
HELLO = NONCE + PROOF  # what a client sends: its own number and its proof
NAME = 255  # bytes of a host's name
LARGEST = 64 << 20  # bytes of one transfer
REPORT = 1 << 20  # bytes after which the number of those that came is told
COUNT = struct.Struct("!Q")
_CONNECTIONS = 256
_STRANGER_SECONDS = 10.0


def proof(token: bytes, side: str, nonces: bytes, name: bytes = b"") -> bytes:
    return hmac.new(token, b"envcheck link " + side.encode() + nonces + name, hashlib.sha256).digest()


def family_of(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


@mutable
class _Guest:
    """One connection, from its start to its end."""

    socket: socket.socket
    nonce: bytes
    until: float  # when it has to have proved itself
    heard: bytearray = field(default_factory=bytearray)
    known: bool = False
    left: int = 0  # bytes of the transfer that have not come yet
    came: int = 0
    told: int = 0


class LinkServer:
    """`with LinkServer(...) as server:`, in a thread of its own until the end of the block."""

    def __init__(self, host: str, token: bytes, addresses: Iterable[str], ports: int) -> None:
        """One port on each address and `ports` on the first one."""
        self._name, self._token = host.encode()[:NAME], token
        self._selector = selectors.DefaultSelector()
        self._guests: set[socket.socket] = set()
        self._buffer = bytearray(1 << 20)
        self.ports: dict[str, tuple[int, ...]] = {}
        for number, address in enumerate(addresses):
            opened = [self._listen(address) for _ in range(ports if number == 0 else 1)]
            self.ports[address] = tuple(port for port in opened if port)
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> LinkServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._wake.close()  # the other end becomes readable
        self._thread.join(5)

    def _listen(self, address: str) -> int | None:
        listener = socket.socket(family_of(address), socket.SOCK_STREAM)
        try:
            listener.bind((address, 0))
            listener.listen(128)
        except OSError:  # an address that went away, or is still being checked for duplicates
            listener.close()
            return None
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)
        return int(listener.getsockname()[1])

    def _serve(self) -> None:
        try:
            while self._turn():
                pass
        finally:
            for key in list(self._selector.get_map().values()):
                if isinstance(key.fileobj, socket.socket):
                    key.fileobj.close()
            self._selector.close()

    def _turn(self) -> bool:
        for key, _ in self._selector.select(1.0):
            if key.fileobj is self._woken:
                return False
            if key.data is None:
                self._accept(key.fileobj)  # type: ignore[arg-type]
            else:
                self._hear(key.data)
        now = time.monotonic()
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, _Guest) and not key.data.known and now > key.data.until:
                self._leave(key.data)
        return True

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:  # it is gone again, or there is no descriptor left
            return
        if len(self._guests) >= _CONNECTIONS:
            connection.close()
            return
        connection.setblocking(False)
        guest = _Guest(connection, secrets.token_bytes(NONCE), time.monotonic() + _STRANGER_SECONDS)
        self._guests.add(connection)
        self._selector.register(connection, selectors.EVENT_READ, guest)
        self._tell(guest, guest.nonce)

    def _hear(self, guest: _Guest) -> None:
        try:
            size = guest.socket.recv_into(self._buffer)
        except BlockingIOError:
            return
        except OSError:
            size = 0
        if not size:
            self._leave(guest)
        elif guest.left and size <= guest.left:  # by far the most: nothing is copied
            self._count(guest, size)
        else:
            guest.heard += memoryview(self._buffer)[:size]
            self._read(guest)

    def _read(self, guest: _Guest) -> None:
        """What is not the middle of a transfer."""
        while guest.heard:
            if guest.left:
                size = min(guest.left, len(guest.heard))
                del guest.heard[:size]
                self._count(guest, size)
            elif len(guest.heard) < (COUNT.size if guest.known else HELLO):
                return
            elif not guest.known:
                self._greet(guest, bytes(guest.heard[:HELLO]))
                del guest.heard[:HELLO]
            else:
                guest.left = COUNT.unpack_from(guest.heard)[0]
                guest.came = guest.told = 0
                del guest.heard[: COUNT.size]
                if not 0 < guest.left <= LARGEST:
                    self._leave(guest)

    def _greet(self, guest: _Guest, hello: bytes) -> None:
        nonces = guest.nonce + hello[:NONCE]
        if not hmac.compare_digest(hello[NONCE:], proof(self._token, "client", nonces)):
            self._leave(guest)
            return
        guest.known = True
        self._tell(guest, proof(self._token, "server", nonces, self._name) + bytes([len(self._name)]) + self._name)

    def _count(self, guest: _Guest, size: int) -> None:
        guest.left -= size
        guest.came += size
        if not guest.left or guest.came - guest.told >= REPORT:
            guest.told = guest.came
            self._tell(guest, COUNT.pack(guest.came))

    def _tell(self, guest: _Guest, text: bytes) -> None:
        """A few bytes. Who reads none of them has no use for more."""
        try:
            if guest.socket.send(text) < len(text):
                self._leave(guest)
        except OSError:
            self._leave(guest)

    def _leave(self, guest: _Guest) -> None:
        if guest.socket in self._guests:
            self._guests.discard(guest.socket)
            self._selector.unregister(guest.socket)
            with contextlib.suppress(OSError):
                guest.socket.close()
        guest.heard.clear()
        guest.left = 0
