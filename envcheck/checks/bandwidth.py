"""Bandwidths of the live check, held against something: other GPUs of this machine, then the links it has, then a table.

Pure: facts and tables in, judgements out. Rates are in GB/s, 10^9 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from envcheck.facts.record import record
from envcheck.facts.snapshot import Gpu, WireFacts, WirePoint
from envcheck.tables.compat import Tables

ERROR, WARNING = 0.5, 0.8  # of what is expected
PEERS = 3  # fewer do not make a majority
LARGE = 64 << 20  # below this an all_reduce over NVLink measures latency


@record
class Judgement:
    """One measurement against one expectation. `level` is "error", "warning" or "ok"."""

    what: str  # "all_reduce", "host to GPU 1", "GPU 0 to GPU 2"
    gb_s: float
    expected_gb_s: float
    basis: str  # "peers", "roofline", "table"
    source: str  # in words, with the origin of the figure

    @property
    def share(self) -> float:
        return self.gb_s / self.expected_gb_s

    @property
    def level(self) -> str:
        return "error" if self.share < ERROR else "warning" if self.share < WARNING else "ok"


def best(points: Sequence[WirePoint]) -> WirePoint | None:
    """The size at which the wire carries most."""
    return max(points, key=lambda point: point.busbw_gb_s, default=None)


def median(values: Sequence[float]) -> float:
    """Of at least one value. The module statistics takes 10 ms to import."""
    rows = sorted(values)
    middle = len(rows) // 2
    return rows[middle] if len(rows) % 2 else (rows[middle - 1] + rows[middle]) / 2


def judge(wire: WireFacts, gpus: Sequence[Gpu], tables: Tables) -> tuple[Judgement, ...]:
    """All that can be judged. Without a GPU there is nothing to hold it against: gloo on the CPU is only shown."""
    if wire.device != "cuda":
        return ()
    found = [*_host(wire, gpus, tables), *_peer_copies(wire)]
    if (one := _all_reduce(wire, gpus, tables)) is not None:
        found.append(one)
    return tuple(found)


def _all_reduce(wire: WireFacts, gpus: Sequence[Gpu], tables: Tables) -> Judgement | None:
    """Only within one node and over NVLink: for PCIe alone no figure is known that holds for all boards."""
    top = best(wire.points)
    if top is None or wire.backend != "nccl" or not 2 <= wire.world_size <= len(gpus) or not wire.flat or top.size_bytes < LARGE:
        return None
    if len({gpu.name for gpu in gpus}) != 1 or any(gpu.mig for gpu in gpus):
        return None
    rate = nvlink_rate(gpus, wire.world_size, tables)
    if rate is not None:
        links, each, source = rate
        share, origin = _share(tables, "all-reduce")
        if share:
            words = f"{links} NVLinks x {each:g} GB/s x {share:.0%} that rings reach ({source}; {origin})"
            return Judgement("all_reduce", top.busbw_gb_s, links * each * share, "roofline", words)
    row = _row(gpus[0], wire.world_size, tables)
    if row is None:
        return None
    expected, source = row
    return Judgement("all_reduce", top.busbw_gb_s, expected, "table", f"measured on such a machine ({source})")


def nvlink_rate(gpus: Sequence[Gpu], ranks: int, tables: Tables) -> tuple[int, float, str] | None:
    """Links that a ring of `ranks` GPUs can use at a GPU, GB/s of each, and the source; None where that is not known for all."""
    rows = {str(row["compute_capability"]): row for row in tables.rows("bandwidth", "nvlink")}
    row = rows.get(gpus[0].compute_capability or "") if gpus else None
    if row is None:
        return None
    usable = []
    for gpu in gpus:
        peers, active = gpu.nvlink_peers, gpu.nvlinks_active
        if not active or not peers or "unknown" in peers:
            return None
        if "switch" in peers:
            usable.append(peers["switch"])
        else:  # joined directly: a peer is reached over its own links only
            usable.append(min(active, min(peers.values()) * (ranks - 1)) if len(peers) >= ranks - 1 else 0)
    return (min(usable), float(row["gb_s"]), tables.table("bandwidth").source(row)) if min(usable) else None


def _row(gpu: Gpu, ranks: int, tables: Tables) -> tuple[float, str] | None:
    """The lowest figure of the table for this GPU and number of ranks: rings, where NVLink SHARP may be off for good reason."""
    name = (gpu.name or "").upper()
    found = []
    for row in tables.rows("bandwidth", "all-reduce"):
        words = str(row["gpu"]).upper().split()
        board = words[0]
        sxm = "SXM" in name or "HBM3" in name if "SXM" in words else "NVL" not in name and "PCIE" not in name
        if row["gpus"] == ranks and board in name.replace("-", " ").split() and sxm:
            found.append((float(row["busbw_gb_s"]), tables.table("bandwidth").source(row)))
    return min(found, default=None)


def _share(tables: Tables, what: str) -> tuple[float | None, str]:
    row = next((row for row in tables.rows("bandwidth", "share") if row["what"] == what), None)
    return (float(row["share"]), tables.table("bandwidth").source(row)) if row else (None, "")


def _host(wire: WireFacts, gpus: Sequence[Gpu], tables: Tables) -> list[Judgement]:
    """Pinned host memory to each GPU: against the other GPUs, else against its PCIe link."""
    rates = [copy.to_device_gb_s for copy in wire.host]
    if len(rates) >= PEERS and len({gpu.name for gpu in gpus}) == 1:
        usual = median(rates)
        words = f"median of the {len(rates)} GPUs of this machine"
        slow = [
            Judgement(f"host to GPU {copy.device}", copy.to_device_gb_s, usual, "peers", words)
            for copy in wire.host
            if usual and copy.to_device_gb_s < WARNING * usual
        ]
        if slow:
            return slow
    expected = _pcie(gpus, tables)
    if expected is None:
        return []
    rate, words = expected
    return [Judgement(f"host to GPU {copy.device}", copy.to_device_gb_s, rate, "roofline", words) for copy in wire.host]


def _pcie(gpus: Sequence[Gpu], tables: Tables) -> tuple[float, str] | None:
    """The weakest PCIe link of the GPUs. Its generation falls when a GPU idles, so the highest that the slot allows counts."""
    lanes = {int(row["generation"]): row for row in tables.rows("bandwidth", "pcie")}
    share, origin = _share(tables, "host")
    links = [(gpu.pcie_generation_max, gpu.pcie_width) for gpu in gpus]
    if not links or not share or any(generation not in lanes or not width for generation, width in links):
        return None
    generation, width = min(links, key=lambda link: float(lanes[link[0] or 0]["gb_s"]) * (link[1] or 0))
    row = lanes[generation or 0]
    words = f"PCIe {generation} x{width} x {share:.0%} that copies reach ({tables.table('bandwidth').source(row)}; {origin})"
    return float(row["gb_s"]) * (width or 0) * share, words


def _peer_copies(wire: WireFacts) -> list[Judgement]:
    """GPU to GPU, against the other pairs. Only the slow ones: a machine has many pairs.

    Pairs may differ by design (two PCIe switches, NVLink bridges between some): then rates come in several groups, and
    none is the usual one. So a pair counts only if most pairs agree with each other within a fifth.
    """
    rates = [copy.gb_s for copy in wire.peers]
    if len(rates) < 2 * PEERS:
        return []
    usual = median(rates)
    agreeing = [rate for rate in rates if abs(rate - usual) <= 0.2 * usual]
    if not usual or len(agreeing) < 0.75 * len(rates):
        return []
    words = f"median of the {len(rates)} pairs of this machine"
    return [
        Judgement(f"GPU {copy.source} to GPU {copy.target}", copy.gb_s, usual, "peers", words)
        for copy in wire.peers
        if copy.gb_s < WARNING * usual
    ]
