"""Numbers that a file or a command of the system states."""

from __future__ import annotations


def whole_number(text: str, digits: int = 18) -> int | None:
    """None for what is no number, or one with more digits than anything of this world has: a fact could not hold it."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= digits else None
