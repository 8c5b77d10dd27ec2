"""The pictures of the HTML page beside the timeline: bars of seconds, what connects the GPUs. No script, colours by class."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from envcheck.facts.snapshot import Gpu, GpusFacts, LiveFacts, Snapshot, WireFacts, read
from envcheck.read.topology import Matrix, matrix
from envcheck.report.report import Report

Escape: TypeAlias = Callable[[str], str]
Say: TypeAlias = Callable[[str], str]

MOST_BARS, MOST_GPUS = 12, 32
SUMS = ("total", "facts", "agent")  # of the other timings
ARMS = ("agent.arm ", "agent.full ")  # each arm states how long it took
LEGEND = {
    "NV": "NVLink, with the number of links",
    "PIX": "one PCIe bridge between them",
    "PXB": "several PCIe bridges",
    "PHB": "the PCIe host bridge of a CPU",
    "NODE": "host bridges inside one NUMA node",
    "SYS": "the link between CPUs",
}


def scrolled(name: str, inner: str) -> str:
    """Something wide in a box that a keyboard can scroll, so that the page itself never scrolls sideways."""
    return f"<div class='wide' tabindex='0' role='region' aria-label='{name}'>{inner}</div>"


def bars(report: Report, escape: Escape) -> list[str]:
    """What took longest, with a bar each. Many of these run side by side: they have no common axis of time."""
    live, say = report.snapshot.live, report.language.say
    seconds = {name: value for name, value in report.timings.items() if name not in SUMS and not name.startswith(ARMS)}
    if seconds.keys() <= {"judge"}:  # recorded elsewhere: what took long there is not told by what took long here
        return []
    for arm in live.arms if isinstance(live, LiveFacts) else ():
        seconds[arm.name] = arm.seconds or 0.0
    longest = sorted(((value, name) for name, value in seconds.items() if value >= 0.01), reverse=True)[:MOST_BARS]
    if not longest:
        return []
    top = longest[0][0]
    rows = "".join(
        f"<tr><th scope='row'>{escape(name.removeprefix('agent.'))}</th><td class='number'>{value:.2f}</td>"
        f"<td class='bar'><div style='width:{100 * value / top:.1f}%'></div></td></tr>"
        for value, name in longest
    )
    told = f"Parts run side by side, {report.timings['total']:.1f} s in all." if "total" in report.timings else "Parts run side by side."
    head = f"<tr><th scope='col'>{say('part')}</th><th scope='col'>{say('seconds')}</th><td></td></tr>"
    return [f"<h2>{say('What took longest')}</h2><p>{say(told)}</p><table class='bars'>{head}{rows}</table>"]


def topology(snapshot: Snapshot, escape: Escape, say: Say = str) -> list[str]:
    """What lies between the GPUs (and network cards): nvidia-smi's matrix, else the NVLinks that NVML counts."""
    gpus = read(snapshot.gpus, GpusFacts)
    if gpus is None:
        return []
    columns, rows = matrix(gpus.topology or "")
    if not rows:
        columns, rows = _nvlinks(gpus.devices[:MOST_GPUS])
    if not rows:
        return []
    kinds = {_kind(cell) for _, cells in rows for cell in cells}
    legend = "; ".join(f"{kind}: {say(words)}" for kind, words in LEGEND.items() if kind in kinds)
    table = grid(columns, [(name, [(cell, f"link-{_kind(cell).lower()}") for cell in cells]) for name, cells in rows], escape)
    below = f"<p class='none'>{legend}</p>" if legend else ""
    return [f"<h2>{say('What connects the GPUs')}</h2>", scrolled(say("Connections of the GPUs"), table) + below]


def _kind(cell: str) -> str:
    return "NV" if cell.startswith("NV") else cell if cell in LEGEND else "none"


def _nvlinks(devices: Sequence[Gpu]) -> Matrix:
    """The same from the links that NVML counts, to other GPUs and to the switch."""
    if not any(gpu.nvlink_peers for gpu in devices):
        return [], []
    others = {gpu.bus_id: f"GPU{gpu.index}" for gpu in devices if gpu.bus_id}
    if any("switch" in gpu.nvlink_peers for gpu in devices):
        others["switch"] = "switch"
    return list(others.values()), [(f"GPU{gpu.index}", [_links(gpu, other) for other in others]) for gpu in devices]


def _links(gpu: Gpu, other: str) -> str:
    count = gpu.nvlink_peers.get(other)
    return "X" if other == gpu.bus_id else f"NV{count}" if count else "-"


def peers(wire: WireFacts, escape: Escape, say: Say = str) -> str:
    """The measured copies from each GPU to each other one, in GB/s; the slower, the paler."""
    speeds: Mapping[tuple[int, int], float] = {(one.source, one.target): one.gb_s for one in wire.peers}
    if not speeds:
        return ""
    ends = sorted({end for pair in speeds for end in pair})[:MOST_GPUS]
    top = max(speeds.values()) or 1.0
    rows = [(say(f"from GPU {source}"), [_speed(speeds.get((source, end)), top) for end in ends]) for source in ends]
    return scrolled(say("GPU to GPU in GB/s"), grid([say(f"to GPU {end}") for end in ends], rows, escape))


def _speed(speed: float | None, top: float) -> tuple[str, str]:
    return ("", "") if speed is None else (f"{speed:.0f}", f"speed{int(speed / top * 3.999)}")


def grid(columns: Iterable[str], rows: Iterable[tuple[str, Iterable[tuple[str, str]]]], escape: Escape) -> str:
    """A table whose cells are a text and a class."""
    head = "<tr><td></td>" + "".join(f"<th scope='col'>{escape(name)}</th>" for name in columns) + "</tr>"
    body = "".join(
        f"<tr><th scope='row'>{escape(name)}</th>" + "".join(f"<td class='{kind}'>{escape(text)}</td>" for text, kind in cells) + "</tr>"
        for name, cells in rows
    )
    return f"<table class='grid'>{head}{body}</table>"
