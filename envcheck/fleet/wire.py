"""What the store's server and its clients say to each other: one JSON object a line, and the proof that both are of one job.

A client says `hello` with a number used once, the server answers with one of its own, the client proves by HMAC that it knows the
job's token, and then the server does. The client proves first: a stranger learns nothing from a store by asking.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

from envcheck.fleet.store import StoreError

PROTOCOL = 1
MESSAGE_LIMIT = 1 << 20  # bytes of a line
STRANGER_LIMIT = 1 << 10  # bytes of a line of one that has proved nothing yet
VALUE_LIMIT = MESSAGE_LIMIT - (4 << 10)  # bytes of a key and its value
PAGE_LIMIT = MESSAGE_LIMIT // 2  # bytes of values in one answer; the rest is asked for again
HANDSHAKE_SECONDS = 5.0


def line(message: Mapping[str, Any]) -> bytes:
    """StoreError where it is over the limit: what the other side would refuse is not sent."""
    text = json.dumps(message, separators=(",", ":")).encode() + b"\n"
    if len(text) > MESSAGE_LIMIT:
        raise StoreError(f"a message of {len(text)} bytes is over the limit of {MESSAGE_LIMIT}")
    return text


def message(text: bytes) -> dict[str, Any]:
    """StoreError for everything that is no JSON object."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise StoreError("what came is no message of a store")
    return said


def proof(token: bytes, side: str, client: str, server: str) -> str:
    """That `side` ("client", "server") knows the token, for these two numbers alone."""
    return hmac.new(token, f"envcheck fleet {PROTOCOL} {side} {client} {server}".encode(), hashlib.sha256).hexdigest()


def proved(token: bytes, side: str, client: str, server: str, given: object) -> bool:
    return isinstance(given, str) and given.isascii() and hmac.compare_digest(proof(token, side, client, server), given)
