"""The measured bandwidths, as a sparkline for text and as a plot for HTML."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from envcheck.checks.bandwidth import best
from envcheck.facts.snapshot import LiveFacts, Missing, WireFacts

BARS = "▁▂▃▄▅▆▇█"
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 520, 180, 64, 28, 14


def wire_of(live: LiveFacts | Missing) -> WireFacts | None:
    """None unless something was measured."""
    wire = live.wire if isinstance(live, LiveFacts) else None
    return wire if wire and (wire.points or wire.host or wire.peers) else None


def size(number: int) -> str:
    """65536 → "64 KiB"."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if number >= unit:
            return f"{number / unit:.3g} {name}"
    return f"{number} B"


def sparkline(values: tuple[float, ...]) -> str:
    """One bar a value, scaled to the largest."""
    top = max(values, default=0.0)
    return "".join(BARS[min(len(BARS) - 1, int(value / top * len(BARS)))] if top > 0 else BARS[0] for value in values)


def lines(wire: WireFacts, unicode: bool = True) -> tuple[tuple[str, str], ...]:
    """(what, figure) rows for text and for the table of HTML."""
    rows: list[tuple[str, str]] = []
    top = best(wire.points)
    if top:
        bars = f"  {sparkline(tuple(point.busbw_gb_s for point in wire.points))}" if unicode else ""
        span = f"{size(wire.points[0].size_bytes)} to {size(wire.points[-1].size_bytes)}"
        more = "" if wire.flat else ", still rising at the last size"
        figure = f"{rate(top.busbw_gb_s)} busbw at {size(top.size_bytes)}{bars}  ({span}{more})"
        rows.append((f"all_reduce, {wire.backend} on {wire.device}, {wire.world_size} ranks", figure))
    for copy in wire.host:
        back = f", back {rate(copy.from_device_gb_s)}" if copy.from_device_gb_s is not None else ""
        rows.append((f"host to GPU {copy.device}", f"{rate(copy.to_device_gb_s)}{back}"))
    if wire.peers:
        slow, fast = min(wire.peers, key=lambda one: one.gb_s), max(wire.peers, key=lambda one: one.gb_s)
        rows.append(
            ("GPU to GPU", f"{rate(slow.gb_s)} ({slow.source} to {slow.target}) to {rate(fast.gb_s)} ({fast.source} to {fast.target})")
        )
    rows.extend(("not measured", trouble) for trouble in wire.troubles[:4])
    return tuple(rows)


def rate(gb_s: float) -> str:
    return f"{gb_s:.3g} GB/s" if gb_s < 100 else f"{gb_s:.0f} GB/s"


def svg(wire: WireFacts, say: Callable[[str], str] = str) -> str:
    """busbw over size, both as measured; sizes on a logarithmic axis. "" without two points. No script, no colour of its own."""
    points = wire.points
    if len(points) < 2:
        return ""
    top = max(point.busbw_gb_s for point in points) or 1.0
    step = (WIDTH - LEFT - 20) / (len(points) - 1)  # sizes grow by one factor
    spots = [(LEFT + at * step, TOP + (HEIGHT - TOP - BOTTOM) * (1 - point.busbw_gb_s / top)) for at, point in enumerate(points)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
    labels = ""
    for (x, y), point in zip(spots, points, strict=True):
        name = escape(size(point.size_bytes))
        labels += f"<text x='{x:.1f}' y='{HEIGHT - 8}' text-anchor='middle'>{name}</text>"
        labels += f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3'><title>{name}: {escape(rate(point.busbw_gb_s))}</title></circle>"
    base = HEIGHT - BOTTOM
    return (
        f"<svg viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' role='img' aria-label='{say('all_reduce bandwidth over message size')}' "
        "font-size='10' fill='currentColor' stroke='none'>"
        f"<path d='M{LEFT} {TOP}V{base}H{WIDTH - 10}' fill='none' stroke='currentColor' opacity='.4'/>"
        f"<text x='{LEFT - 6}' y='{TOP + 4}' text-anchor='end'>{escape(rate(top))}</text>"
        f"<text x='{LEFT - 6}' y='{base}' text-anchor='end'>0</text>"
        f"<polyline points='{path}' fill='none' stroke='currentColor' stroke-width='2'/>{labels}</svg>"
    )
