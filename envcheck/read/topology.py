"""`nvidia-smi topo -m`: kept as the text it is, for the transports between GPUs.

        GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      NV18    PIX     0-51            0               N/A
"""

from __future__ import annotations

import re

from envcheck.read.found import Found, Notes

_ROW = re.compile(r"\s{0,12}[>|]?\s{0,4}((?:GPU|NIC|mlx)\w{1,12})\s+((?:X|SYS|NODE|PHB|PXB|PIX|SOC|NV\d{1,2})\b.*)")
_HEAD = re.compile(r"\s{0,40}[>|]?\s{0,8}GPU0\s")


def read_topology(text: str) -> Found | None:
    """The matrix of the first `topo -m` in a text."""
    if "GPU0" not in text:
        return None
    rows: list[tuple[str, int]] = []
    gap = 0
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) < 2000 and (_ROW.match(line) or (_HEAD.match(line) and not rows)):
            rows.append((line.rstrip(), number))
            gap = 0
        elif rows:
            gap += 1
            if gap > 3:
                break
    cells = [match for line, _ in rows if (match := _ROW.match(line)) and match[1].startswith("GPU")]
    if not cells:
        return None
    notes = Notes("nvidia-smi topo -m")
    notes.put("gpus.topology", "\n".join(line for line, _ in rows), rows[0][0], rows[0][1])
    notes.put("count.gpus", max(int(re.sub(r"\D", "", match[1]) or 0) for match in cells) + 1, rows[-1][0], rows[-1][1])
    return notes.found()


_CELL = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|SOC|NV\d{1,2}")
_COLUMN = re.compile(r"(?:GPU|NIC|mlx)\w{1,12}")
Matrix = tuple[list[str], list[tuple[str, list[str]]]]


def matrix(text: str) -> Matrix:
    """(columns, rows) of the text as it was read above; a row that was cut is shorter."""
    columns: list[str] = []
    rows: list[tuple[str, list[str]]] = []
    for line in text.split("\n"):
        if found := _ROW.match(line):
            cells = found[2].split()
            count = next((at for at, cell in enumerate(cells) if not _CELL.fullmatch(cell)), len(cells))
            rows.append((found[1], cells[: min(count, len(columns) or count)]))
        elif _HEAD.match(line) and not columns:
            words = line.replace(">", " ").replace("|", " ").split()
            columns = words[: next((at for at, word in enumerate(words) if not _COLUMN.fullmatch(word)), len(words))]
    width = max((len(cells) for _, cells in rows), default=0)
    return (columns or [f"GPU{at}" for at in range(width)])[:width], rows
