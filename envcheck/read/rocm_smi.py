"""`rocm-smi --showhw`, the AMD sibling of nvidia-smi's table.

GPU  NODE  DID     GUID   GFX VER   GFX RAS  SDMA RAS  UMC RAS  VBIOS              BUS           PARTITION ID
0    1     0x7480  3799   gfx11002  N/A      N/A       N/A      113-APM7076OC-100  0000:03:00.0  0
"""

from __future__ import annotations

import re

from envcheck.facts.record import record


@record
class RocmSmiGpu:
    index: int
    gfx: str | None  # "gfx1102"
    bus_id: str | None
    device: str | None  # PCI device id, "0x7480"


_ROW = re.compile(
    r"^\s*(\d{1,3})\s+\d{1,3}\s+(0x[0-9a-fA-F]{4})\s+\d+\s+(gfx[0-9a-f]{3,6})\s"
    r".*?([0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])"
)


def read_rocm_smi(text: str) -> tuple[RocmSmiGpu, ...]:
    """The devices of the concise hardware table."""
    found = []
    for line in text.splitlines():
        match = _ROW.match(line[:400])
        if match:
            index, device, gfx, bus = match.groups()
            found.append(RocmSmiGpu(int(index), _target(gfx), bus, device))
    return tuple(found)


def _target(gfx: str) -> str:
    """The tool prints major, minor and a stepping of two digits ("gfx11002"); compilers say "gfx1102"."""
    match = re.fullmatch(r"gfx(\d{2})(\d)0(\d)", gfx)
    return f"gfx{match.group(1)}{match.group(2)}{match.group(3)}" if match else gfx
