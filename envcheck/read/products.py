"""Compute capability of a product as people name it: "RTX 3090", "A100", "T4", "A100 80GB PCIe MIG 1g.10gb"."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envcheck.tables.gpu_names import capability_named

if TYPE_CHECKING:
    from envcheck.tables.compat import Tables


def capability_of(name: str, tables: Tables) -> str | None:
    """By the product that the name means; None for a word that only looks like one, as "T" or "40"."""
    if len(re.sub(r"[^A-Za-z0-9]", "", name)) < 2:
        return None
    return capability_named(name, tables)
