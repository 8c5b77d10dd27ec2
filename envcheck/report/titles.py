"""What a rule is about, without the facts of a case."""

from __future__ import annotations

import re
from collections.abc import Callable

_HOLE = re.compile(r"\{\w{1,40}\}")
_IN_BRACKETS = re.compile(r" \([^()]*\)|（[^（）]*）")
_GENERAL = {
    "GPU {devices}": "a GPU", "{name} hides": "A variable hides", "{part}": "driver", "{needed} NVIDIA": "other NVIDIA", "{kind}": "GPU",
    "Rank {rank}": "A rank", "rank {rank}": "a rank", "{name} 隐藏": "A variable hides", " {stage} 阶段": "a stage",
}  # fmt: skip


def general_title(title: str, say: Callable[[str], str] = str) -> str:
    """ "… has no code for the GPU", not "(compute capability 12.0)". `say` has the words of the title's language."""
    opening = title.startswith("{")
    title = _IN_BRACKETS.sub(lambda found: "" if "{" in found[0] else found[0], title)
    title = re.sub(r"(?:: |：)\{\w{1,40}\}$| in the stage \{stage\}", "", title)
    for name, word in _GENERAL.items():
        title = title.replace(name, say(word))
    return _HOLE.sub("…", title[:1].upper() + title[1:] if opening else title)
