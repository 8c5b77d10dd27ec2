"""The pictures of the HTML page: lanes of the ranks, bars of seconds, what connects the GPUs. No script, colours by class."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from envcheck.facts.snapshot import Gpu, GpusFacts, LiveFacts, RankFacts, Snapshot, Stage, WireFacts, read
from envcheck.read.topology import Matrix, matrix
from envcheck.report.report import Report

Escape: TypeAlias = Callable[[str], str]

WIDTH, LEFT, LANE = 560, 64, 26
MOST_LANES, MOST_BARS, MOST_GPUS = 16, 12, 32
OPEN_ENDED = 70  # pixels of a stage that did not end
LETTER = 6.2  # pixels of a letter of 11 pixels
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


def lanes(report: Report, escape: Escape) -> list[str]:
    """The stages of the live step, one after the other on a lane for each rank."""
    live = report.snapshot.live
    ranks = [rank for rank in live.ranks if rank.stages] if isinstance(live, LiveFacts) else []
    if not ranks:
        return []
    ended = max(sum(stage.seconds or 0.0 for stage in rank.stages) for rank in ranks)
    waits = any(_open(rank) for rank in ranks)
    scale = (WIDTH - LEFT - 10 - (OPEN_ENDED if waits else 0)) / (ended or 1.0)
    shown = ranks[:MOST_LANES]
    rows = "".join(_lane(rank, at, scale, escape) for at, rank in enumerate(shown))
    height = LANE * len(shown) + 18
    foot, end = height - 4, f"{LEFT + ended * scale:.1f}"
    axis = f"<text x='{LEFT}' y='{foot}'>0</text><text x='{end}' y='{foot}' text-anchor='end'>{_s(ended)}</text>"
    words = "; ".join(f"rank {rank.rank}: {', '.join(map(_said, rank.stages))}" for rank in shown)
    frame = f"viewBox='0 0 {WIDTH} {height}' width='{WIDTH}' role='img' aria-label='{escape(words)}' font-size='11'"
    svg = f"<svg {frame}>{rows}{axis}</svg>"
    more = f"<p>and {len(ranks) - len(shown)} more ranks</p>" if len(ranks) > len(shown) else ""
    return ["<h2>The live step, rank by rank</h2>", scrolled("Stages of each rank", svg) + more]


def _open(rank: RankFacts) -> bool:
    return any(stage.seconds is None and stage.status != "skipped" for stage in rank.stages)


def _said(stage: Stage) -> str:
    took = "" if stage.seconds is None else _s(stage.seconds)
    return " ".join(part for part in (stage.name, took, "" if stage.status == "ok" else stage.status) if part)


def _s(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 0.001 else "under 1 ms"


def _lane(rank: RankFacts, at: int, scale: float, escape: Escape) -> str:
    x, y = float(LEFT), at * LANE + 2
    parts = [f"<text x='{LEFT - 6}' y='{y + 15}' text-anchor='end'>rank {rank.rank}</text>"]
    for number, stage in enumerate(rank.stages):
        bad = stage.status not in ("ok", "skipped")
        endless = stage.seconds is None and stage.status != "skipped"
        width = max(OPEN_ENDED if endless else (stage.seconds or 0.0) * scale, 1.0)
        kind = "hurt" if bad else f"step{number % 2}"
        place = f"x='{x:.1f}' y='{y}' width='{width:.1f}' height='{LANE - 6}'"
        parts.append(f"<rect class='{kind}' {place}><title>{escape(_said(stage))}</title></rect>")
        if len(stage.name) * LETTER + 6 < width:
            parts.append(f"<text class='on-{kind}' x='{x + 3:.1f}' y='{y + 14}'>{escape(stage.name)}</text>")
        x += width
    return "".join(parts)


def bars(report: Report, escape: Escape) -> list[str]:
    """What took longest, with a bar each. Many of these run side by side: they have no common axis of time."""
    live = report.snapshot.live
    seconds = {name: value for name, value in report.timings.items() if name not in SUMS and not name.startswith(ARMS)}
    for arm in live.arms if isinstance(live, LiveFacts) and report.timings else ():
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
    total = f", {report.timings['total']:.1f} s in all" if "total" in report.timings else ""
    head = "<tr><th scope='col'>part</th><th scope='col'>seconds</th><td></td></tr>"
    return [f"<h2>What took longest</h2><p>Parts run side by side{total}.</p><table class='bars'>{head}{rows}</table>"]


def topology(snapshot: Snapshot, escape: Escape) -> list[str]:
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
    legend = "; ".join(f"{kind}: {words}" for kind, words in LEGEND.items() if kind in kinds)
    table = grid(columns, [(name, [(cell, f"link-{_kind(cell).lower()}") for cell in cells]) for name, cells in rows], escape)
    below = f"<p class='none'>{legend}</p>" if legend else ""
    return ["<h2>What connects the GPUs</h2>", scrolled("Connections of the GPUs", table) + below]


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


def peers(wire: WireFacts, escape: Escape) -> str:
    """The measured copies from each GPU to each other one, in GB/s; the slower, the paler."""
    speeds: Mapping[tuple[int, int], float] = {(one.source, one.target): one.gb_s for one in wire.peers}
    if not speeds:
        return ""
    ends = sorted({end for pair in speeds for end in pair})[:MOST_GPUS]
    top = max(speeds.values()) or 1.0
    rows = [(f"from {source}", [_speed(speeds.get((source, end)), top) for end in ends]) for source in ends]
    return scrolled("GPU to GPU in GB/s", grid([f"to {end}" for end in ends], rows, escape))


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
