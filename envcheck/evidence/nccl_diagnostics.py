"""The report of NCCL's and RCCL's own diagnostics (NCCL_RUN_DIAGNOSTICS=1, from NCCL 2.31 on), read so that it decides something.

NCCL prints it for information and goes on, whatever it found. Where nothing could be tested there is no `p2p:` line at all.
https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/diagnostics.html
"""

from __future__ import annotations

import re

from envcheck.facts.record import record

_LINE = re.compile(r"NCCL DIAG (?:\[(OK|INFO)\]\s{1,8})?(.{1,2000})")
_EDGE = re.compile(r"\bsrcRank=(\d{1,6})\b.{0,200}?\bdstRank=(\d{1,6})\b(?:.{0,200}?\bpath=(\w{1,20}))?")
_PARTIAL = re.compile(r"only (\d{1,9})/(\d{1,9}) GPU-to-GPU peer accesses passed")
_COUNT = re.compile(r"\((\d{1,9}) peer accesses\)|all (\d{1,9}) directed GPU P2P edges")
_NETWORK = re.compile(r"net bw: ([\d.]{1,12})/([\d.]{1,12})/([\d.]{1,12}) Gbit/s min/median/max (\S{1,20}) bw")
_OUTLIER = re.compile(r"net bw: (\S{1,20}) rank (\d{1,6}) \((\S{1,80})\): ([\d.]{1,12}) Gbit/s, >30% off median ([\d.]{1,12}) Gbit/s")
# A note that a healthy system prints too (RCCL: one process that drives several GPUs)
_NOTICE = ("temporarily enabled context-wide",)


@record
class Edge:
    source: int
    target: int
    path: str  # "NVL", "XGMI", "PIX", "PHB", "SYS"; "" where the line has none
    problem: str  # "write mismatch", "peer-memory import failed"


@record
class Diagnostics:
    """`tested` None: no P2P result, so nothing is shown. `outliers` are (mode, rank, host, Gbit/s, median)."""

    tested: int | None = None
    passed: int | None = None
    edges: tuple[Edge, ...] = ()
    network: tuple[tuple[str, float, float, float], ...] = ()  # mode, then min, median, max in Gbit/s
    outliers: tuple[tuple[str, int, str, float, float], ...] = ()
    troubles: tuple[str, ...] = ()  # the check itself failed
    completed: bool = False  # the last line was printed; a report of a killed process may be cut

    @property
    def verdict(self) -> str:
        """ "fail", "pass", or "unknown": nothing was tested, or the report is cut."""
        if self.edges or self.outliers or (self.tested is not None and self.passed != self.tested):
            return "fail"
        if self.troubles or self.tested is None or not self.completed:
            return "unknown"
        return "pass"


def read_diagnostics(text: str) -> Diagnostics | None:
    """All reports of a text as one; None if there is none.

    NCCL DIAG === NCCL Diagnostics ===
    NCCL DIAG [OK]   p2p: verified P2P access in both directions between every GPU pair (56 peer accesses)
    node01:15 NCCL DIAG [OK]   p2p: all 56 directed GPU P2P edges verified
    NCCL DIAG [INFO] p2p: only 52/56 GPU-to-GPU peer accesses passed verification
    node01:42 NCCL DIAG [INFO] p2p: write mismatch srcRank=0 srcCudaDev=0 srcNvmlDev=0 dstRank=1 dstCudaDev=1 dstNvmlDev=1 path=PHB …
    node0:24563 NCCL DIAG [OK] net bw: 376.1/391.5/398.2 Gbit/s min/median/max same-nic bw (across 8 ranks) in comm 0x7a3f
    node0:24563 NCCL DIAG [INFO] net bw: cross-nic rank 3 (node0): 265.1 Gbit/s, >30% off median 391.5 Gbit/s in comm 0x7a3f
    NCCL DIAG NCCL diagnostics completed in 245.3 ms across 8 ranks
    """
    if "NCCL DIAG" not in text:
        return None
    tested = passed = None
    edges: list[Edge] = []
    network = []
    outliers = []
    troubles: list[str] = []
    headers = completed = 0
    for line in text.split("\n"):
        match = _LINE.search(line) if len(line) < 4000 else None
        if not match:
            continue
        words = match[2].strip()
        headers += "=== " in words
        completed += "diagnostics completed in" in words
        if counts := _peer_accesses(match[1], words):
            passed, tested = (passed or 0) + counts[0], (tested or 0) + counts[1]
        elif found := _NETWORK.search(words):
            network.append((found[4], _float(found[1]), _float(found[2]), _float(found[3])))
        elif found := _OUTLIER.search(words):
            outliers.append((found[1], int(found[2]), found[3], _float(found[4]), _float(found[5])))
        elif edge := _EDGE.search(words):
            problem = words.partition("p2p:")[2].partition("srcRank=")[0].strip() or "failed"
            edges.append(Edge(int(edge[1]), int(edge[2]), edge[3] or "", problem))
        elif match[1] == "INFO" and _is_trouble(words):
            troubles.append(words)
    return Diagnostics(
        tested, passed, tuple(edges), tuple(network), tuple(outliers), tuple(troubles), completed=completed > 0 and completed >= headers
    )


def _peer_accesses(mark: str | None, words: str) -> tuple[int, int] | None:
    """How many peer accesses passed, of how many that were tested."""
    if partial := _PARTIAL.search(words):
        return int(partial[1]), int(partial[2])
    if mark == "OK" and words.startswith("p2p:") and (count := _COUNT.search(words)):
        number = int(count[1] or count[2])
        return number, number
    return None


def _is_trouble(words: str) -> bool:
    """Whether the check itself failed."""
    if any(note in words for note in _NOTICE):
        return False
    return words.startswith(("p2p:", "transport detect")) or "timed out" in words or "unable to complete" in words


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
