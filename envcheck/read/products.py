"""Compute capability of a product as people name it: "RTX 3090", "A100", "T4", "A100 80GB PCIe MIG 1g.10gb"."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envcheck.tables.compat import Tables

# What stands beside the product's name and does not change it.
_ASIDE = re.compile(
    r"\bMIG\b.*|\(nvgpu\)|\(UUID.*|\([^)]{0,40}\)|\b(?:nvidia|graphics|gpu|card|x\d|laptop|jetson|nano|agx|nx)\b", re.IGNORECASE
)


def capability_of(name: str, tables: Tables) -> str | None:
    """By the exact product name; else by its words, if every product that holds them in a row has the same capability."""
    exact = tables.compute_capability(name)
    if exact:
        return exact
    wanted = _words(_ASIDE.sub(" ", name))
    if not wanted or (
        len(wanted) == 1 and (not re.search(r"\d", wanted[0]) or len(wanted[0]) < 2) and wanted[0] not in ("orin", "thor", "xavier")
    ):
        return None
    found = set()
    for row in tables.rows("gpu-product", "product"):
        if row.get("confidence") != "low" and any(_holds(_words(str(one)), wanted) for one in row["names"]):
            found.add(str(row["compute_capability"]))
    return found.pop() if len(found) == 1 else None


def _words(text: str) -> list[str]:
    """ "NVIDIA A100-SXM4-40GB" → a100 sxm4 40gb, "RTX A6000" → rtx a6000; "GTX1080Ti" → gtx 1080 ti."""
    spaced = re.sub(r"(?<=[a-z])(?=\d{3})|(?<=\d)(?=ti\b|super\b)", " ", text.lower())
    return [word for word in re.split(r"[^a-z0-9.]+", spaced) if word not in ("", "nvidia", "generation", "edition")]


def _holds(words: list[str], wanted: list[str]) -> bool:
    """All the wanted words, in a row."""
    size = len(wanted)
    return any(words[at : at + size] == wanted for at in range(len(words) - size + 1))
