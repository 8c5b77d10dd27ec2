"""The store that rank 0 opens: a thread of its process answers the others, rank 0 itself asks without a socket.

A store of our own, not torch's: it has to work where torch is broken. Values are kept as the JSON text that they are sent as.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

from envcheck.fleet import wire
from envcheck.fleet.store import StoreError, Value

MEMORY_LIMIT = 1 << 30  # bytes of all keys and values
BACKLOG = 4096
QUICK_SECONDS = 5.0  # for what takes a moment, also on a busy machine
GONE = "gone/"  # + rank: its process ended, or was cut off, without a word


class StoreServer:
    """Itself the store of rank 0. `port` is where it listens."""

    def __init__(self, token: bytes) -> None:
        self.token = token
        self.port = 0
        self.opened = time.monotonic()
        self.peers: set[_Peer] = set()
        self._values: dict[str, str] = {}
        self._bytes = 0
        self._changed = threading.Lock()
        self._awaited: dict[str, list[_Awaited]] = {}  # by rank 0 itself
        self._waiting: dict[str, list[_Waiting]] = {}  # of the thread of the loop alone
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._serves = threading.Event()

    def open(self, ports: Sequence[int], address: str | None = None) -> None:
        """Listen on the first of the ports that is free, on `address` alone or everywhere. StoreError where none is."""
        _allow_files()
        listener = _listener(ports, address)
        self.port = listener.getsockname()[1]
        self.opened = time.monotonic()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, args=(self._loop, listener), daemon=True, name="store")
        self._thread.start()
        self._serves.wait(QUICK_SECONDS)  # a loop that is stopped before it runs is not cleared away

    def close(self) -> None:
        if self._thread is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(QUICK_SECONDS)
            self._thread = None

    def awaits(self, stuck: Collection[int]) -> bool:
        """Whether somebody is still connected that will say goodbye; the ranks in `stuck` will not."""
        held = {peer.rank for peer in tuple(self.peers)} - {None}
        return bool(held - set(stuck)) if held else bool(self.peers)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.opened

    def set(self, key: str, value: Value) -> None:
        text = json.dumps(value, separators=(",", ":"))
        with self._changed:
            self._keep(key, text)
        self._tell(key)

    def get(self, keys: Iterable[str]) -> dict[str, Value]:
        with self._changed:
            held = {key: self._values[key] for key in keys if key in self._values}
        return {key: json.loads(text) for key, text in held.items()}

    def compare_and_set(self, key: str, expected: Value, value: Value) -> Value:
        with self._changed:
            held = json.loads(self._values[key]) if key in self._values else None
            if held != expected:
                return held
            self._keep(key, json.dumps(value, separators=(",", ":")))
        self._tell(key)
        return value

    def wait(self, keys: Iterable[str], deadline: float) -> dict[str, Value]:
        wanted = tuple(keys)
        with self._changed:
            awaited = _Awaited({key for key in wanted if key not in self._values})
            for key in awaited.left:
                self._awaited.setdefault(key, []).append(awaited)
        if awaited.left:
            awaited.come.wait(max(0.0, deadline - time.monotonic()))
        with self._changed:
            for key in awaited.left:  # given up
                self._awaited[key].remove(awaited)
        return self.get(wanted)

    def items(self, prefix: str) -> dict[str, Value]:
        with self._changed:
            held = {key: text for key, text in self._values.items() if key.startswith(prefix)}
        return {key: json.loads(text) for key, text in held.items()}

    def page(self, keys: Sequence[str]) -> tuple[dict[str, str], int]:
        """JSON texts of those of the keys that are there, as many as one answer holds, and how many of the keys it reaches."""
        page: dict[str, str] = {}
        size = 0
        with self._changed:
            for reached, key in enumerate(keys):
                text = self._values.get(key)
                if text is None:
                    continue
                size += len(key) + len(text)
                if page and size > wire.PAGE_LIMIT:
                    return page, reached
                page[key] = text
        return page, len(keys)

    def keys(self, prefix: str) -> list[str]:
        with self._changed:
            return sorted(key for key in self._values if key.startswith(prefix))

    def drop(self, key: str) -> None:
        with self._changed:
            self._bytes -= len(self._values.pop(key, ""))

    def when_held(self, waiting: _Waiting) -> None:
        """Of the thread of the loop: `waiting.done` is called when all its keys are there, at once if they are."""
        with self._changed:
            waiting.left = {key for key in waiting.left if key not in self._values}
        for key in waiting.left:
            self._waiting.setdefault(key, []).append(waiting)
        if not waiting.left:
            waiting.done()

    def give_up(self, waiting: _Waiting) -> None:
        for key in waiting.left:
            others = [one for one in self._waiting.get(key, ()) if one is not waiting]
            if others:
                self._waiting[key] = others
            else:
                self._waiting.pop(key, None)

    def _keep(self, key: str, text: str) -> None:
        if len(key) + len(text) > wire.VALUE_LIMIT:
            raise StoreError(f"{key[:80]}: a value of {len(text)} bytes is over the limit of {wire.VALUE_LIMIT}")
        more = len(text) - len(self._values.get(key, ""))
        if self._bytes + more > MEMORY_LIMIT:
            raise StoreError("the store is full")
        self._bytes += more
        self._values[key] = text
        for awaited in self._awaited.pop(key, ()):
            awaited.left.discard(key)
            if not awaited.left:
                awaited.come.set()

    def _tell(self, key: str) -> None:
        if self._loop is None:
            return
        if threading.current_thread() is self._thread:
            self._wake(key)
        else:
            with contextlib.suppress(RuntimeError):  # closed by now
                self._loop.call_soon_threadsafe(self._wake, key)

    def _wake(self, key: str) -> None:
        for waiting in self._waiting.pop(key, ()):
            waiting.left.discard(key)
            if not waiting.left:
                waiting.done()

    def _serve(self, loop: asyncio.AbstractEventLoop, listener: socket.socket) -> None:
        asyncio.set_event_loop(loop)
        server = loop.run_until_complete(loop.create_server(lambda: _Peer(self), sock=listener, backlog=BACKLOG))
        self._serves.set()
        try:
            loop.run_forever()
        finally:
            server.close()
            for peer in tuple(self.peers):
                peer.leave()
            loop.run_until_complete(asyncio.sleep(0))  # transports close their sockets in the next turn
            loop.close()


class _Awaited:
    """Rank 0 itself waits for keys: it wakes when the last of them comes, not at each of thousands."""

    def __init__(self, left: set[str]) -> None:
        self.left = left
        self.come = threading.Event()


class _Waiting:
    """A client that waits for keys; `left` are those that are not there yet."""

    def __init__(self, peer: _Peer, keys: Iterable[str]) -> None:
        self.peer = peer
        self.left = set(keys)
        self.timer: asyncio.TimerHandle | None = None

    def done(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.peer.waits = None
        self.peer.say({"ok": True})


class _Peer(asyncio.Protocol):
    """One connection: a stranger until it has proved that it is of this job."""

    def __init__(self, server: StoreServer) -> None:
        self.server = server
        self.waits: _Waiting | None = None
        self._buffer = bytearray()
        self._numbers = ("", "")  # the client's, then ours, once it has said hello
        self._known = False
        self.rank: int | None = None  # whose end we notice by the end of this connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.server.peers.add(self)
        self._timer = asyncio.get_running_loop().call_later(wire.HANDSHAKE_SECONDS, self._transport.abort)

    def connection_lost(self, _error: Exception | None) -> None:
        self._timer.cancel()
        self.server.peers.discard(self)
        if self.waits is not None:
            if self.waits.timer is not None:
                self.waits.timer.cancel()
            self.server.give_up(self.waits)
        if self.rank is not None:
            self.server.set(f"{GONE}{self.rank}", self.server.seconds)

    def pause_writing(self) -> None:  # who does not read its answers asks no more
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while not self._transport.is_closing():
            limit = wire.MESSAGE_LIMIT if self._known else wire.STRANGER_LIMIT
            end = self._buffer.find(b"\n", 0, limit)
            if end < 0:
                if len(self._buffer) >= limit:
                    self._refuse("the message is over the limit")
                return
            text = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            try:
                self._take(wire.message(text))
            except StoreError as error:
                self._refuse(str(error))

    def leave(self) -> None:
        self.rank = None
        self._transport.close()

    def say(self, message: Mapping[str, Any]) -> None:
        self._transport.write(wire.line(message))

    def _refuse(self, why: str) -> None:
        if self._known or self._numbers[1]:  # a stranger that does not even say hello is told nothing
            self.say({"ok": False, "error": why})
        self._transport.close()

    def _take(self, said: dict[str, Any]) -> None:
        if self._known:
            self._answer(said)
        elif not self._numbers[1]:
            number = said.get("hello")
            if not isinstance(number, str) or said.get("envcheck") != wire.PROTOCOL:
                raise StoreError("no hello of this protocol")
            self._numbers = (number, secrets.token_hex(16))
            self.say({"envcheck": wire.PROTOCOL, "hello": self._numbers[1]})
        elif wire.proved(self.server.token, "client", *self._numbers, said.get("proof")):
            self._known = True
            self._timer.cancel()
            self.say({"ok": True, "proof": wire.proof(self.server.token, "server", *self._numbers), "seconds": self.server.seconds})
        else:
            raise StoreError("the store is another job's")

    def _answer(self, said: dict[str, Any]) -> None:
        server, key, keys = self.server, said.get("key"), said.get("keys", [])
        if not isinstance(keys, list) or not all(isinstance(one, str) for one in keys):
            raise StoreError("keys are a list of texts")
        match said.get("op"):
            case "set" if isinstance(key, str):
                server.set(key, said.get("value"))
                self.say({"ok": True})
            case "cas" if isinstance(key, str):
                self.say({"ok": True, "value": server.compare_and_set(key, said.get("expected"), said.get("value"))})
            case "get":
                page, reached = server.page(keys)
                self._page(page, {"reached": reached})
            case "items" if isinstance(key, str) and isinstance(said.get("after", ""), str):
                found = [one for one in server.keys(key) if one > said.get("after", "")]
                page, reached = server.page(found)
                self._page(page, {"after": found[reached - 1]} if reached < len(found) else {})
            case "wait":
                self._wait(keys, said.get("seconds"))
            case "clock":
                self.say({"ok": True, "clock": time.time(), "seconds": server.seconds})
            case "hold" if isinstance(said.get("rank"), int):
                self.rank = said["rank"]
                server.drop(f"{GONE}{self.rank}")
                self.say({"ok": True})
            case "bye":
                self.leave()
            case _:
                raise StoreError("no such question")

    def _page(self, page: Mapping[str, str], more: Mapping[str, Any]) -> None:
        """The values are JSON already."""
        values = ",".join(f"{json.dumps(key)}:{text}" for key, text in page.items())
        self._transport.write(f'{{"ok":true,"more":{json.dumps(more)},"values":{{{values}}}}}\n'.encode())

    def _wait(self, keys: Iterable[str], seconds: object) -> None:
        if not isinstance(seconds, int | float) or not 0 <= seconds < 1e6:
            raise StoreError("a wait has a time")
        waiting = self.waits = _Waiting(self, keys)

        def late() -> None:
            self.server.give_up(waiting)
            waiting.done()

        waiting.timer = asyncio.get_running_loop().call_later(seconds, late)
        self.server.when_held(waiting)


def _listener(ports: Sequence[int], address: str | None) -> socket.socket:
    for port in ports:
        try:
            if address is None and socket.has_dualstack_ipv6():
                return socket.create_server(("", port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True)
            return socket.create_server((address or "", port), backlog=BACKLOG)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise StoreError(f"no store can be opened: {error.strerror}") from None
    raise StoreError(f"none of the ports {ports[0]} to {ports[-1]} is free")


def _allow_files() -> None:
    """A connection is an open file, and a shell's limit of 1,024 of them is lower than the kernel's."""
    if os.name != "posix":
        return
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
