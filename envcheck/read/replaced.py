"""What an installer put in the place of a torch that was there.

Uninstalling torch-2.5.1+cu121:                                Successfully installed torch-2.6.0
 - torch==2.5.1+cu121
 + torch==2.6.0
"""

from __future__ import annotations

import re

from envcheck.facts.snapshot import TextEvidence
from envcheck.read.found import likely_sign

_AWAY = re.compile(r"Uninstalling torch-(?P<old>\d[\w.+]{2,40}?):|^\s{0,4}- torch==(?P<uv>\d[\w.+]{2,40})\s*$", re.MULTILINE)
_CAME = re.compile(
    r"Successfully installed [^\n]{0,2000}?\btorch-(?P<new>\d[\w.+]{2,40})(?![\w.+-])|^\s{0,4}\+ torch==(?P<uv>\d[\w.+]{2,40})\s*$",
    re.MULTILINE,
)


def replaced_torch(text: str) -> tuple[TextEvidence, ...]:
    """A sign where a build for a GPU went and another release or build came, unasked; the last change of a text counts."""
    if "torch" not in text or not (away := list(_AWAY.finditer(text))):
        return ()
    gone = away[-1]
    came = _CAME.search(text, gone.end())
    if came is None:
        return ()
    old, new = gone["old"] or gone["uv"], came["new"] or came["uv"]
    if old == new or not re.search(r"\+(?:cu\d|rocm|xpu)", old):
        return ()
    words = f"torch {old} -> {new}"
    values = {"old": old, "new": new, "index": old.partition("+")[2], "release": old.partition("+")[0]}
    return (likely_sign(words, "torch-cpu-build", "torch-replaced", "replaced", values),)
