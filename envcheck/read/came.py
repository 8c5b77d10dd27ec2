"""Who came of a group: the ranks that said so, against as many as there should be, in a text whose author waits for the others.

initializing ddp: GLOBAL_RANK: 3, MEMBER: 4/8        Initializing distributed: rank 3, world size 8        init process group rank=3/8
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from envcheck.facts.snapshot import TextEvidence
from envcheck.read.found import likely_sign

_MEMBER = re.compile(
    r"GLOBAL_RANK: (?P<rank>\d{1,5}), MEMBER: \d{1,5}/(?P<size>\d{1,5})"
    r"|(?i:\binit\w{0,10}\b[^\n]{0,80}?\brank[ :=]{1,3}(?P<one>\d{1,5})"
    r" ?(?:/|,? ?(?:out )?of|,? ?world[ _-]?size[ :=]{1,3}) ?(?P<all>\d{1,5})\b)"
)
_ALL = re.compile(r"All distributed processes registered|\bloss['\"]?\s?[:=]?\s?-?\d|NCCL INFO [^\n]{0,120}Init COMPLETE", re.IGNORECASE)
_WAITS = re.compile(
    r"\b(?:freez\w{1,4}|froze\w?|hangs?|hanging|hung|stuck|waits?|waiting|blocks|halts?|time[sd] out|nothing happens|deadlocks?)\b"
    r"|卡住|卡死|一直等",
    re.IGNORECASE,
)
_SLURM = re.compile(r"\b(?:slurm|srun|sbatch|squeue|salloc)\b", re.IGNORECASE)


def missing_ranks(text: str) -> tuple[TextEvidence, ...]:
    """A sign of the ranks that did not come: those of whole nodes, since the others have each said their number once."""
    if "rank" not in text.lower() or _ALL.search(text) or not _WAITS.search(text):
        return ()
    said = list(_MEMBER.finditer(text))
    came, sizes = [int(one["rank"] or one["one"]) for one in said], {int(one["size"] or one["all"]) for one in said}
    if len(sizes) != 1 or len(set(came)) != len(came) or not (each := _of_a_node(came, size := sizes.pop())):
        return ()
    rule, variant = ("launch-slurm", "tasks") if _SLURM.search(text) else ("launch-world-size", "one_node")
    counts = {"each": str(each), "nodes": str(size // each), "came": str(len(came)), "size": str(size)}
    words = f"{said[-1][0]} ({len(came)} of {size} came)"
    return (likely_sign(words, rule, "half-of-the-ranks", variant, counts),)


def _of_a_node(came: Sequence[int], size: int) -> int:
    """How many ranks a node has, where those that came are of one node; 0 where they are not. Of a log's end some may be missing."""
    if not 1 < len(came) < size:
        return 0
    if size % len(came) == 0:
        return len(came)
    each = next(count for count in range(max(came) + 1, max(came) + size + 1) if size % count == 0 or count > size)
    return each if 2 * each <= size and 2 * len(came) >= each else 0
