"""Who came of a group: the ranks that said so, against as many as there should be, in a text whose author waits for the others.

initializing ddp: GLOBAL_RANK: 3, MEMBER: 4/8
"""

from __future__ import annotations

import re

from envcheck.facts.snapshot import TextEvidence
from envcheck.read.found import likely_sign

_MEMBER = re.compile(r"GLOBAL_RANK: (?P<rank>\d{1,5}), MEMBER: (?P<member>\d{1,5})/(?P<size>\d{1,5})")
_ALL = re.compile(r"All distributed processes registered|\bloss['\"]?\s?[:=]?\s?-?\d|NCCL INFO [^\n]{0,120}Init COMPLETE", re.IGNORECASE)
_WAITS = re.compile(
    r"\b(?:freez\w{1,4}|froze\w?|hangs?|hanging|hung|stuck|waits?|waiting|blocks|nothing happens|deadlocks?)\b|卡住|卡死|一直等",
    re.IGNORECASE,
)
_SLURM = re.compile(r"\b(?:slurm|srun|sbatch|squeue|salloc)\b", re.IGNORECASE)


def missing_ranks(text: str) -> tuple[TextEvidence, ...]:
    """A sign of the ranks that did not come: those of whole nodes, since the others have each said their number once."""
    if "MEMBER: " not in text or _ALL.search(text) or not _WAITS.search(text):
        return ()
    said = list(_MEMBER.finditer(text))
    came, sizes = {one["rank"] for one in said}, {int(one["size"]) for one in said}
    if len(sizes) != 1 or not 1 < len(came) == len(said) < (size := sizes.pop()) or size % len(came):
        return ()
    rule, variant = ("launch-slurm", "tasks") if _SLURM.search(text) else ("launch-unreachable", "hangs")
    counts = {"each": str(len(came)), "nodes": str(size // len(came))}
    words = f"{said[-1][0]} ({len(came)} of {size} came)"
    return (likely_sign(words, rule, "half-of-the-ranks", variant, counts),)
