"""How `envcheck fleet --replay` grows with the number of hosts: seconds and memory for 1,000, 10,000 and 50,000 recordings.

    python benchmarks/fleet_replay.py [--hosts 1000,10000,50000] [--seed 1] [--svg benchmarks/fleet_replay.svg]

The recordings are written as lines of one file each, of hosts that are healthy but for seven drifts and two sick hosts; time, names,
addresses, UUIDs, temperatures and free memory are another on each host, as they are in a cluster. On a machine that does other things
too, half of the processors' work is what two free cores would have taken; the plot shows that.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
LIMITS = {10_000: (20.0, 500)}  # hosts → seconds on two cores, MiB


def model() -> dict[str, Any]:
    """The document that `envcheck record` writes of a host with eight H100."""
    from envcheck.commands.bases import base
    from envcheck.render.json_v1 import render_record

    document: dict[str, Any] = json.loads(render_record(base(ROOT / "rules", "h100x8"), "envcheck", "0"))
    facts = document["facts"]
    facts["packages"]["distributions"] += [
        {**facts["packages"]["distributions"][0], "name": f"package-{number}", "version": f"1.{number}.0"} for number in range(120)
    ]
    facts["network"]["infiniband"] = [
        {"device": f"mlx5_{port}", "port": 1, "state": "ACTIVE", "link_layer": "InfiniBand", "rate": "400 Gb/sec (4X NDR)"}
        for port in range(8)
    ]
    facts["network"]["interfaces"] = [{"name": "eth0", "up": True, "loopback": False, "addresses": ["10.0.0.1"], "mtu": 9000}]
    return document


# What is wrong with some hosts: dotted path → value. Each is one drift of the expected report.
DRIFTS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("fleet-driver-differs", {"driver.version": "570.124.06", "driver.library_version": "570.124.06", "driver.cuda": "12.8"}),
    ("fleet-torch-differs", {"torch.version": "2.13.0+cu130"}),
    ("fleet-packages-differ", {"packages.distributions.-1.version": "9.9.9"}),
    ("fleet-variables-differ", {"network.variables": {"NCCL_ALGO": "Ring"}}),
    ("fleet-nics-differ", {"network.infiniband.3.rate": "200 Gb/sec (2X NDR)"}),
    ("fleet-limits-differ", {"limits.open_files_soft": 1024}),
    ("fleet-systems-differ", {"system.kernel": "6.8.0-44-generic"}),
)
SICK: tuple[Mapping[str, Any], ...] = (
    {"gpus.devices.5.ecc_uncorrected_volatile": 3},
    {"gpus.devices.2.remap_failed": True},
)


def write(path: Path, hosts: int, seed: int = 1) -> dict[str, list[str]]:
    """A file of recordings; the hosts of each drift by the rule that has to name them. The same seed gives the same file."""
    chance = random.Random(seed)  # noqa: S311 - the same recordings for the same seed
    odd = {rule: sorted(chance.sample(range(hosts), chance.randint(1, 3))) for rule, _ in DRIFTS}
    changes: dict[int, dict[str, Any]] = {}
    for rule, change in DRIFTS:
        for host in odd[rule]:
            changes.setdefault(host, {}).update(change)
    for change in SICK:
        changes.setdefault(chance.randrange(hosts), {}).update(change)
    text = json.dumps(model())
    with path.open("w", encoding="utf-8") as file:
        for host in range(hosts):
            document = json.loads(text)
            _touch(document["facts"], name_of(host), chance)
            for where, value in changes.get(host, {}).items():
                _put(document["facts"], where, value)
            file.write(json.dumps(document) + "\n")
    return {rule: [name_of(host) for host in rows] for rule, rows in odd.items()}


def name_of(host: int) -> str:
    return f"rack{host // 32:04}n{host % 32:02}"


def _touch(facts: dict[str, Any], name: str, chance: random.Random) -> None:
    """What differs from host to host and from look to look."""
    facts["network"]["hostname"] = name
    facts["network"]["addresses"] = [f"10.{chance.randrange(256)}.{chance.randrange(256)}.{chance.randrange(1, 255)}"]
    facts["system"] |= {
        "time": f"12:{chance.randrange(60):02}:{chance.randrange(60):02}",
        "uptime_seconds": chance.random() * 1e6,
        "memory_available_bytes": facts["system"]["memory_bytes"] - chance.randrange(1 << 36),
    }
    for gpu in facts["gpus"]["devices"]:
        gpu |= {
            "uuid": f"GPU-{chance.getrandbits(128):032x}",
            "temperature_celsius": float(chance.randint(25, 40)),
            "power_watts": 60.0 + chance.random() * 30,
        }


def _put(facts: dict[str, Any], path: str, value: Any) -> None:
    node: Any = facts
    *way, last = path.split(".")
    for part in way:
        node = node[int(part)] if isinstance(node, list) else node[part]
    node[int(last) if isinstance(node, list) else last] = value


def measured(path: Path) -> tuple[float, float, int]:
    """Seconds on the clock and of the processors, and MiB, of one command with its workers; pages that several share count once."""
    began, used = time.monotonic(), _used()
    with subprocess.Popen(
        [sys.executable, "-m", "envcheck", "fleet", "--replay", str(path), "-o", f"json={path}.report"], stdout=subprocess.DEVNULL, cwd=ROOT
    ) as running:
        most = 0
        while running.poll() is None:
            most = max(most, _held(running.pid))
            time.sleep(0.1)
    return time.monotonic() - began, _used() - used, most >> 20


def _used() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def _held(pid: int) -> int:
    """Proportional memory of a process and its children: pages that several share count once."""
    return sum(_pss(one) for one in (pid, *_children(pid)))


def _children(pid: int) -> Iterator[int]:
    try:
        own = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()
    except OSError:
        return
    for child in map(int, own):
        yield child
        yield from _children(child)


def _pss(pid: int) -> int:
    try:
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()
    except OSError:
        return 0
    return next((int(row.split()[1]) << 10 for row in rows if row.startswith("Pss:")), 0)


def plot(rows: list[tuple[int, float, int]]) -> str:
    """Seconds over hosts, both logarithmic, and the line that is exactly linear."""
    from math import log10

    def at(hosts: float, seconds: float) -> tuple[float, float]:
        return 60 + 120 * (log10(hosts) - 3) * 1.9, 260 - 80 * (log10(seconds) + 0.5)

    first = rows[0]
    points = " ".join("{:.1f},{:.1f}".format(*at(hosts, seconds)) for hosts, seconds, _ in rows)
    linear = " ".join("{:.1f},{:.1f}".format(*at(hosts, first[1] * hosts / first[0])) for hosts in (rows[0][0], rows[-1][0]))
    labels = "".join("<text x='{:.0f}' y='{:.0f}'>{:,} hosts: {:.1f} s, {} MiB</text>".format(*at(h, s), h, s, m) for h, s, m in rows)
    return (
        "<svg xmlns='http://www.w3.org/2000/svg' width='640' height='320' font-family='sans-serif' font-size='12'>"
        "<rect width='640' height='320' fill='white'/><text x='60' y='24'>"
        "envcheck fleet --replay, two cores: seconds over hosts (dashed: linear)</text>"
        f"<polyline points='{linear}' fill='none' stroke='#999' stroke-dasharray='4'/>"
        f"<polyline points='{points}' fill='none' stroke='#0969da' stroke-width='2'/>{labels}</svg>\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", default="1000,10000,50000")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--svg", metavar="FILE")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the folder of the records goes with it
    rows: list[tuple[int, float, int]] = []
    for hosts in map(int, args.hosts.split(",")):
        with tempfile.TemporaryDirectory(prefix="envcheck-bench-") as folder:
            path = Path(folder) / "fleet.jsonl"
            odd = write(path, hosts, args.seed)
            seconds, work, mib = measured(path)
            report = json.loads(Path(f"{path}.report").read_text("utf-8"))
            told = {one["rule"]: one["hosts"] for one in report["findings"]}
            wrong = {rule: told.get(rule) for rule, names in odd.items() if told.get(rule) != names}
            size = os.path.getsize(path) // hosts
        rows.append((hosts, min(seconds, work / 2), mib))
        line = f"{hosts:>7,} hosts of {size >> 10} KiB: {seconds:6.2f} s, {work:.2f} s of work, {mib} MiB"
        print(line + (f"; wrong: {wrong}" if wrong else ""), flush=True)
        limit = LIMITS.get(hosts)
        if wrong or (limit and (min(seconds, work / 2) > limit[0] or mib > limit[1])):
            return 1
    if args.svg:
        Path(args.svg).write_text(plot(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
