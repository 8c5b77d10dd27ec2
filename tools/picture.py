"""The picture of the rooms in ARCHITECTURE.md, drawn from the imports: `python tools/picture.py --write`, or without to print it.

A room is a package of envcheck/, or a module at its top. An arrow is an import anywhere in it, those inside functions included; one to
a room that is reached through another one anyway is left out of the picture (not of the count).
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import grimp

HERE = Path(__file__).parents[1]
PAGE = HERE / "ARCHITECTURE.md"
BEGIN, END = "<!-- picture: python tools/picture.py --write -->\n", "<!-- end of the picture -->"
APART = {"__init__", "__main__", "agent"}  # the name and version; the agent, which runs in another interpreter


def arrows() -> dict[str, set[str]]:
    """Room → rooms that it imports."""
    graph = grimp.build_graph("envcheck")
    found: dict[str, set[str]] = defaultdict(set)
    for module in graph.modules:
        here = _room(module)
        for other in graph.find_modules_directly_imported_by(module):
            there = _room(other)
            found[here] |= {there} if there != here and there not in APART else set()
            found[there] |= set()
    return {room: there for room, there in found.items() if room not in APART}


def _room(module: str) -> str:
    return ([*module.split("."), "__init__"])[1]


def reduced(found: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """The arrows without those that two others make. ValueError in a circle."""
    below: dict[str, set[str]] = {}

    def reach(room: str, path: tuple[str, ...] = ()) -> set[str]:
        if room in path:
            raise ValueError(f"a circle: {' → '.join((*path[path.index(room) :], room))}")
        if room not in below:
            below[room] = set().union(*({one} | reach(one, (*path, room)) for one in found[room]))
        return below[room]

    for room in found:
        reach(room)
    return {room: {one for one in there if not any(one in below[other] for other in there)} for room, there in found.items()}


def picture() -> str:
    found = arrows()
    lines = [f"    {room} --> {one}" for room, there in sorted(reduced(found).items()) for one in sorted(there)]
    count = sum(map(len, found.values()))
    return "\n".join(["```mermaid", "flowchart TD", *lines, "```", "", f"{len(found)} rooms, {count} arrows, none back.", ""])


def main(argv: list[str]) -> int:
    text = picture()
    if "--write" not in argv:
        print(text)
        return 0
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.index(BEGIN) + len(BEGIN), page.index(END)
    PAGE.write_text(page[:before] + text + page[after:], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
