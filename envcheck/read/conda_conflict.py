"""Two requirements that conda found to contradict each other, in the words of its three solvers.

  - cudatoolkit=9.0                                              Package cudatoolkit conflicts for:
  - torchvision==0.4.0=py37_cu100 -> cudatoolkit=10.0            pytorch==1.7.1 -> cudatoolkit[version='>=11.0,<11.1']
├─ pytorch 2.1.0 *_cuda11.8* is requested and can be installed;  cudatoolkit=11.3
└─ pytorch-cuda 12.1** is requested and conflicts with …

Of a companion of torch that asks for another torch than the one that is asked for beside it, both are told by themselves:

├─ pytorch 1.10** is installable with the potential options      package torchaudio-2.0.2-py310_cu117 requires pytorch 2.0.1
└─ torchvision 0.10.0** is not installable …
   └─ torchvision 0.10.0 would require
      └─ pytorch 1.9.0 …
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from envcheck.facts.snapshot import TextEvidence
from envcheck.read.found import kept

_ROW = re.compile(
    r"^[ \t>]{0,12}(?:- )?(?P<spec>[a-z][\w.-]{0,40}(?:[=<>!\[][^\s>]{0,160})?)"
    r"(?: -> (?P<need>[a-z][\w.-]{0,40}(?:[=<>!\[][^\n]{0,300})?))?[ \t]{0,8}$",
    re.MULTILINE,
)
_YOURS = re.compile(r"^[ \t>]{0,12}Your python: (?P<pin>python\S{2,30})", re.MULTILINE)
_TREE = re.compile(
    r"[├└]─ (?P<spec>[a-z][\w.-]{0,40}(?: [^\s,;]{1,60}){1,2}) {1,4}is (?:requested|installable|not installable)(?P<rest>[^\n]{0,200})"
)
_ROOT = re.compile(r"^(?:> ?)?[├└]─ (?P<spec>[a-z][\w.-]{0,40} \d[\w.]{0,20}[*]{0,2}) {1,4}is ", re.MULTILINE)
_WOULD = re.compile(
    r"(?P<name>torchvision|torchaudio|torchtext) \[?(?P<have>\d[\d.]{2,10})[\d.|]{0,80}\]?[^\n]{0,40} would require"
    r"\n[│ >]{0,24}[├└]─ pytorch[ =]{1,3}(?P<needs>\d{1,2}\.\d{1,2}(?:\.\d{1,2})?)(?![\w])"
    r"|package (?P<named>torchvision|torchaudio|torchtext)-(?P<held>\d[\d.]{2,10})-\S{1,60} requires"
    r" pytorch[ =]{1,3}(?P<wants>\d{1,2}\.\d{1,2}(?:\.\d{1,2})?)(?![\w])"
)
_ASKED = re.compile(r"(?<![\w-])pytorch\s?={1,2}\s?(?P<torch>\d{1,2}\.\d{1,2}(?:\.\d{1,2})?)(?![\w.])")
_KEPT = ("cudatoolkit", "pytorch-cuda", "python=")
_NAME = re.compile(r"[a-z][\w.-]{0,40}")
_OURS = ("pytorch", "torch", "cuda", "cudnn", "nvidia", "libtorch", "mkl")
_SIGNS = ("found to be in conflict", "found to be incompatible", "to be incompatible", "are incompatible", " conflicts for:")


def conda_conflict(text: str) -> tuple[TextEvidence, ...]:
    """A sign of the first two requirements of torch's stack that do not go together."""
    if apart := _of_a_companion(text):
        return apart
    start = min((at for sign in _SIGNS if (at := text.find(sign)) >= 0), default=-1)
    if start < 0:
        return ()
    part = text[start : start + (1 << 14)]
    pairs = (*_of_rows(part), *_of_tree(part))
    for pin, asker, need in pairs:
        if asker.startswith(_OURS) or pin.startswith(_OURS):
            values, words = {"pin": pin, "asker": asker, "need": need}, kept(f"{asker} -> {need}, {pin}")
            return (TextEvidence("conda", words, "no-matching-wheel", "conda-pins", values, variant="pins"),)
    return ()


def _of_a_companion(text: str) -> tuple[TextEvidence, ...]:
    """A sign where a companion that conda may take asks for a torch of another series than the one that was asked for."""
    if "would require" not in text and " requires pytorch" not in text:
        return ()
    pins = [_spec(row["spec"]) for row in _ROOT.finditer(text[: 1 << 16])]
    torch = next((one.partition("=")[2] for one in pins if _name(one) == "pytorch"), None)
    if torch is None and (asked := _ASKED.search(text)):
        torch = asked["torch"]
    for row in _WOULD.finditer(text):
        name, have, needs = (row[one] or row[other] for one, other in (("name", "named"), ("have", "held"), ("needs", "wants")))
        if torch and not f"{needs}.".startswith(f"{torch}.") and not f"{torch}.".startswith(f"{needs}."):
            kept = " ".join(one for one in pins if one.startswith(_KEPT))
            values = {"companion": name, "have": have, "torch": torch, "needs": needs, "kept": kept}
            words = f"{name} {have} -> pytorch {needs}, pytorch {torch}"
            return (TextEvidence("conda", words, "torch-companion-mismatch", "conda-companion", values, variant="conda"),)
    return ()


def _of_rows(part: str) -> Iterator[tuple[str, str, str]]:
    """A pin, who asks for another version of the same package, and for which; without the builds, which would keep the conflict."""
    rows = list(_ROW.finditer(part))
    pins = {_name(row["spec"]): row["spec"] for row in rows if not row["need"] and row["spec"] != _name(row["spec"])}
    if yours := _YOURS.search(part):
        pins["python"] = yours["pin"]
    for row in rows:
        if row["need"] and (pin := pins.get(_name(row["need"]))) and _name(row["spec"]) != _name(pin):
            yield pin, _free(row["spec"]), _plain(row["need"])


def _of_tree(part: str) -> Iterable[tuple[str, str, str]]:
    rows = list(_TREE.finditer(part))
    first = next((row["spec"] for row in rows if "conflict" not in row["rest"]), None)
    other = next((row["spec"] for row in rows if "conflict" in row["rest"] and first and _name(row["spec"]) != _name(first)), None)
    return [(_spec(other), _spec(first), _spec(other).replace("=", "!=", 1))] if first and other else []


def _name(spec: str) -> str:
    return (_NAME.match(spec) or [""])[0]


def _free(spec: str) -> str:
    """ "pytorch==0.4.0" of "pytorch==0.4.0=py35_cuda9.0"."""
    return "=".join(spec.split("=")[: 3 if "==" in spec else 2])


def _plain(need: str) -> str:
    """ "cudatoolkit>=10.0,<10.1" of "cudatoolkit[version='>=10.0,<10.1']"."""
    inner = re.search(r"\[version='([^']{1,300})'", need)
    return f"{_name(need)}{inner[1]}" if inner else need.strip()


def _spec(words: str) -> str:
    name, *rest = words.split()
    return "=".join((name, *(one.rstrip("*").rstrip(".") or one for one in rest[:1])))
