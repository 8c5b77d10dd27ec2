"""Which compute capability a generation of NVIDIA GPUs has: "Pascal", "RTX 50 series", "pre-Turing"."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envcheck.tables.versions import pair

if TYPE_CHECKING:
    from envcheck.tables.compat import Tables

ERAS = r"(?:kepler|maxwell|pascal|volta|turing|ampere|ada(?: lovelace)?|hopper|blackwell)"
SERIES = r"(?:[rg]tx ?)?(?:10|16|20|30|40|50)(?:00|xx)?[ -]series"
_NAME = re.compile(rf"(pre-)?(?:nvidia |geforce ){{0,2}}({ERAS}|{SERIES})(?: generation| gpus?| cards?| graphics| laptop){{0,3}}")


def capability_of_generation(name: str, tables: Tables) -> str | None:
    """The capability of its newest chips, Jetson's aside: builds have code for all cards of a generation or for none, but for few."""
    match = _NAME.fullmatch(" ".join(name.lower().split()))
    if match is None:
        return None
    if series := re.search(r"\d\d", match[2]):
        maker = "GTX" if series[0] in ("10", "16") else "RTX"
        own = [one] if (one := tables.compute_capability(f"NVIDIA GeForce {maker} {series[0]}60")) else []
    else:
        own = [capability for capability, era in _chips(tables) if era.startswith(match[2].partition(" ")[0])]
    if match[1] and own:
        own = [capability for capability, _ in _chips(tables) if pair(capability) < min(map(pair, own))]
    return max(own, key=pair, default=None)


def _chips(tables: Tables) -> list[tuple[str, str]]:
    """(capability, architecture in lower case)"""
    rows = (row for row in tables.rows("gpu-architecture", "gpu") if not row.get("jetson") and row.get("confidence") != "low")
    return [(str(row["compute_capability"]), str(row["architecture"]).lower()) for row in rows]
