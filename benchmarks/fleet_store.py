"""Seconds until rank 0 has the presence and the digests of a job: `python benchmarks/fleet_store.py [CLIENTS]` (default: 4096).

Promised are 10 s for 4,096 clients on two cores. Each is a real connection that goes the way of a rank: hello, proof, clock, its rank, its
host's leader, its seat, its host's digests, and the question whether its facts are wanted. They are played by processes of their own; all
but one host in eight are of one kind. Prints a JSON line.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import resource
import subprocess
import sys
import time
from typing import Any

from envcheck.facts.codec import encode
from envcheck.facts.fleet import FleetSeat
from envcheck.fleet import wire
from envcheck.fleet.exchange import ASKED, gather
from envcheck.fleet.presence import SEAT, seats
from envcheck.fleet.store_server import StoreServer

TOKEN = hashlib.sha256(b"benchmark").digest()
LIMIT_SECONDS = 10.0
PLAYERS = 2  # processes that play clients
LAYERS = ("torch", "nccl", "driver", "gpus", "nics", "python", "code", "limits", "system", "state")


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, question: dict[str, Any]) -> dict[str, Any]:
    writer.write(wire.line(question))
    return wire.message(await reader.readline())


async def client(port: int, rank: int, size: int) -> None:
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2 * wire.MESSAGE_LIMIT)
            break
        except OSError:
            await asyncio.sleep(0.1)
    theirs = (await ask(reader, writer, {"envcheck": wire.PROTOCOL, "hello": str(rank)}))["hello"]
    await ask(reader, writer, {"proof": wire.proof(TOKEN, "client", str(rank), theirs)})
    host = f"n{rank:05}"
    seat = FleetSeat(host, os.getpid(), rank, size, 0, 1, "slurm", "n00000:15000", (f"10.0.{rank >> 8}.{rank & 255}",), arrived_seconds=1.0)
    kind = "usual" if rank % 8 else f"odd {rank % 5}"
    digests = {layer: hashlib.sha256(f"{layer} {kind}".encode()).hexdigest()[:32] for layer in LAYERS}
    questions: list[dict[str, Any]] = [{"op": "clock"}] * 5
    questions += [{"op": "get", "keys": ["present"]}, {"op": "cas", "key": f"rank/{rank}", "expected": None, "value": host}]
    questions += [{"op": "cas", "key": f"leader/{host}", "expected": None, "value": rank}]
    questions += [{"op": "set", "key": f"seat/{rank}", "value": encode(seat)}, {"op": "set", "key": f"stage/{rank}", "value": "facts"}]
    questions += [{"op": "set", "key": f"digest/{host}", "value": digests}, {"op": "wait", "keys": [ASKED], "seconds": 60}]
    for question in questions:
        answer = await ask(reader, writer, question)
        assert answer["ok"], answer
    await ask(reader, writer, {"op": "get", "keys": [ASKED]})
    writer.write(wire.line({"op": "bye"}))
    writer.close()


async def play(port: int, first: int, size: int) -> None:
    await asyncio.gather(*(client(port, rank, size) for rank in range(first, size, PLAYERS)))


def main(size: int) -> int:
    server = StoreServer(TOKEN)
    server.open((0,), "127.0.0.1")
    began = time.monotonic()
    players = [subprocess.Popen([sys.executable, __file__, "play", str(server.port), str(number), str(size)]) for number in range(PLAYERS)]
    present = server.wait([f"{SEAT}{rank}" for rank in range(size)], began + 60)
    presence = time.monotonic() - began
    exchanged = gather(server, began + 60)
    gathered = time.monotonic() - began
    came, _ = seats(server)
    united = time.monotonic() - began
    for player in players:
        player.wait(60)
    told = sum(len(kind.hosts) for kind in exchanged.kinds)
    used = resource.getrusage(resource.RUSAGE_SELF)
    played = resource.getrusage(resource.RUSAGE_CHILDREN)
    memory, server_seconds = used.ru_maxrss // 1024, used.ru_utime + used.ru_stime
    figures = {
        "presence": presence,
        "digests": gathered,
        "united": united,
        "all gone": time.monotonic() - began,
        "server's CPU": server_seconds,
        "clients' CPU": played.ru_utime + played.ru_stime,
    }
    result = {
        "clients": size,
        **{name: round(seconds, 2) for name, seconds in figures.items()},
        "kinds": len(exchanged.kinds),
        "mib": memory,
    }
    print(json.dumps(result))
    server.close()
    whole = len(present) == len(came) == told == size
    return 0 if whole and (united <= LIMIT_SECONDS or size > 4096) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["play"]:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        asyncio.run(play(*map(int, sys.argv[2:5])))
    else:
        sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 4096))
