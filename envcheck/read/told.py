"""What a message leaves to the text around it: the module of a name that cannot be imported, the versions beside a compiler that failed,
the card on which an extension still worked.

    from torchvision.transforms import Compose, Resize          error: command '/usr/local/cuda/bin/nvcc' failed with exit status 1
ImportError: cannot import name Resize                          Ubuntu 18.04, CUDA 9.0
"""

from __future__ import annotations

import re

from envcheck.facts.snapshot import TextEvidence
from envcheck.read.found import LINE_LIMIT, line_at

_POST = 64 << 10

# Without the module, as Python 2 and 3.6 say it, and people who retype it.
_NAME = re.compile(r"cannot import name ['\"`‘]?(?P<name>[A-Za-z_]\w{1,60})['\"`’]?(?! ?from|['\"`’\w])")
_FROM = re.compile(r"\bfrom (?P<module>torch(?:vision|audio|text)?(?:\.(?!_C\b)\w{1,40}){0,6}) import (?P<names>[^\n#]{1,400})")

_FAILED = re.compile(
    r"command ['\"`]?[^'\"\n]{0,200}\bnvcc(?:\.exe)?['\"`]? failed|\bnvcc(?:\.exe)? (?:failed|error)\b|nvcc is not able to compile"
    r"|\bnvcc['\"`]?:? (?:编译)?(?:失败|报错)|nvcc[^\n]{0,60}exit (?:status|code) [1-9]"
)
_BUILD = re.compile(r"\['ninja', '-v'\][^\n]{0,40}returned non-zero|ninja: build stopped|Error compiling objects for extension")
_NVCC = re.compile(r"\bnvcc\b")
_CUDA = re.compile(
    r"(?:\b|(?<=_))(?:CUDA|cuda|Cuda)(?: ?toolkit| ?Toolkit| version| Version|版本)?[ :=：\-/\\]{0,3}[vV]?(?P<cuda>(?:9|1[0-3])\.\d)(?![\d])"
)
_GCC = re.compile(r"\b(?:gcc|g\+\+|GCC)(?: version| Version|版本|\(GCC\))?[ :=：\-]{0,3}(?P<gcc>\d{1,2})(?:\.\d{1,2}){0,2}\b")
_SYSTEM = re.compile(
    r"\b(?P<name>[Uu]buntu|UBUNTU|[Dd]ebian|[Ff]edora|[Cc]ent[Oo][Ss]|RHEL|[Rr]ocky(?: ?Linux)?)[ :=\-]{0,2}(?P<release>\d{1,2}(?:\.(?:04|10))?)(?!\d)"
)
_STUDIO = re.compile(r"\b(?:Visual Studio|VS|vs|MSVC)[ :=\-]{0,2}(?P<studio>2015|2017|2019|2022|2026)\b")


def told_around(text: str) -> tuple[TextEvidence, ...]:
    """Signs of a post; a long log has more than one program's words."""
    return (*_names(text), *_compilers(text)) if len(text) <= _POST else ()


def _names(text: str) -> tuple[TextEvidence, ...]:
    """A name of torch's that a line of the traceback, or the person's own line, asks for."""
    for match in _NAME.finditer(text):
        name = match["name"]
        asked = next((one for one in _FROM.finditer(text) if name in re.findall(r"\w+", one["names"])), None)
        if asked:
            values = {"asked": name, "module": asked["module"]}
            words = f"{asked[0].strip()}: {match[0]}"[:LINE_LIMIT]
            return (
                TextEvidence(
                    "statements", words, "torch-companion-mismatch", "torch-name-told", values=values, variant="name", confidence="likely"
                ),
            )
    return ()


def _compilers(text: str) -> tuple[TextEvidence, ...]:
    """nvcc failed and did not say why: the versions that are stated beside it."""
    failed = _FAILED.search(text) or (_BUILD.search(text) if _NVCC.search(text) else None)
    if failed is None:
        return ()
    values = {}
    for pattern in (_CUDA, _GCC, _STUDIO):
        if found := pattern.search(text):
            values |= {name: one for name, one in found.groupdict().items() if one}
    if found := _SYSTEM.search(text):
        values["distribution"] = f"{found['name'].lower().replace('linux', '').strip()} {found['release']}"
    line = line_at(text, failed.start())[0].strip()[:LINE_LIMIT]
    return (
        TextEvidence("statements", line, "nvcc-host-compiler", "nvcc-failed-told", values=values, variant="failed", confidence="likely"),
    )
