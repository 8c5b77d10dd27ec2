"""What launchers and containers write before each line parts a name on one line from its value on the next."""

from __future__ import annotations

import re
from collections.abc import Callable

# docker compose, mpirun --tag-output, srun --label, CRI's log of a container: its time is another on each line
_LABEL = re.compile(
    r"(?<![^\n])(?:([\w.-]{1,60}[_-]\d{1,4}\x20{1,30}\|(?=\x20)|\[\d{1,6},\d{1,6}\]<std\w{2,5}>:|\d{1,5}:\x20)"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.]{0,12}(?:Z|[+-]\d\d:\d\d)\x20std(?:out|err)\x20[FP]\x20)"
)


def masked_below_labels(text: str, mask: Callable[[str], str]) -> str:
    """Text with the lines of each label masked as the text is that they are without it. Ranks write between each other's lines."""
    if not _LABEL.search(text):
        return text
    lines = text.split("\n")
    labels, of_one = {}, dict[str, list[int]]()
    for at, line in enumerate(lines):
        if found := _LABEL.match(line):
            labels[at] = found[0]
            of_one.setdefault(found[1] or "", []).append(at)
    for places in of_one.values():
        said = "\n".join(lines[at][len(labels[at]) :] for at in places)
        shown = mask(said) if len(places) > 1 else said
        if shown == said:
            continue
        rows = shown.split("\n")
        rows += [""] * (len(places) - len(rows))  # a key of several lines was one
        rows[len(places) - 1 :] = ["\n".join(rows[len(places) - 1 :])]
        for at, row in zip(places, rows, strict=True):
            lines[at] = labels[at] + row
    return "\n".join(lines)
