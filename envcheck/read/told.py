"""What a message leaves to the text around it: the module of a name that cannot be imported, the versions beside a compiler that failed,
the card on which an extension still worked.

    from torchvision.transforms import Compose, Resize          error: command '/usr/local/cuda/bin/nvcc' failed with exit status 1
ImportError: cannot import name Resize                          Ubuntu 18.04, CUDA 9.0
"""

from __future__ import annotations

import re

from envcheck.facts.snapshot import TextEvidence
from envcheck.read.found import kept, likely_sign, line_at

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
    r"(?:\b|(?<=_))(?:CUDA|cuda|Cuda)(?: ?toolkit| ?Toolkit| version| Version|版本)?"
    r"[ :=：\-/\\]{0,3}[vV]?(?P<cuda>(?:9|1[0-3])\.\d)(?![\d])"
)
_GCC = re.compile(r"\b(?:gcc|g\+\+|GCC)(?: version| Version|版本|\(GCC\))?[ :=：\-]{0,3}(?P<gcc>\d{1,2})(?:\.\d{1,2}){0,2}\b")
_SYSTEM = re.compile(
    r"\b(?P<name>[Uu]buntu|UBUNTU|[Dd]ebian|[Ff]edora|[Cc]ent[Oo][Ss]|RHEL|[Rr]ocky(?: ?Linux)?)"
    r"[ :=\-]{0,2}(?P<release>\d{1,2}(?:\.(?:04|10))?)(?!\d)"
)
_STUDIO = re.compile(r"\b(?:Visual Studio|VS|vs|MSVC)[ :=\-]{0,2}(?P<studio>2015|2017|2019|2022|2026)\b")

_REFUSED = re.compile(r"no kernel image is available|invalid device function|device kernel image is invalid")
_VAGUE = re.compile(r"CUDA [Ee]rror encountered in|CUDA kernel failed|cudaCheckError\(\) failed|CUDA error (?:in|at)\b")
_OWN_CODE = re.compile(
    r"setup\.py|(?:build|make|compile)\.sh|(?<!/)\bcompil(?!e with .?TORCH_USE|er driver|ation tools)|编译|\bextensions?\b"
    r"|CompiledLib|\b\w{2,40}_(?:cuda|ext|cuda_kernel|kernel)\b|_ops\b"
    r"|\bcsrc\b|src/\w{1,40}\.cu|\bDCN|\b(?:roi_?align|nms|pointnet2|diff_gaussian)\w{0,30}"
    r"|[Kk]ompil|скомпил|собра"
    # as extensions print it behind the name of their function; torch's own has "CUDA error" there
    r"|\berror in (?:\w{1,40} ){0,2}(?!pytorch\b)(?:[a-z0-9]{1,40}_\w{1,60}|[a-z]{1,30}(?-i:[A-Z])\w{1,40})(?:\(\))? ?: ?"
    r"(?=no kernel|invalid|device)",
    re.IGNORECASE,
)
_CONTRAST = re.compile(
    r"\b(?:works?|worked|runs?|ran|trains?|fine|but|while|läuft|lief|aber|funciona|pero|marche|работает|но)\b"
    r"|可以|正常|没问题|没有问题|但",
    re.IGNORECASE,
)
_CARD = re.compile(
    r"(?<![A-Za-z0-9._-])(?:(?:GeForce|NVIDIA|RTX|GTX|TITAN|Tesla|Quadro)[ _-]?){0,3}"
    r"(?:[AHLVPTKM]\d{1,3}|[A-B]\d00|A\d000|[1-5]0[5-9]0|16[56]0|X[Pp]?|V)(?: ?-?(?:Ti|Super))?(?![A-Za-z0-9.])",
    re.IGNORECASE,
)


def told_around(text: str) -> tuple[TextEvidence, ...]:
    """Signs of a post; a long log has more than one program's words."""
    return (*_names(text), *_compilers(text), *_other_cards(text)) if len(text) <= _POST else ()


def _names(text: str) -> tuple[TextEvidence, ...]:
    """A name of torch's that a line of the traceback, or the person's own line, asks for."""
    for match in _NAME.finditer(text):
        name = match["name"]
        asked = next((one for one in _FROM.finditer(text) if name in re.findall(r"\w+", one["names"])), None)
        if asked:
            values = {"asked": name, "module": asked["module"]}
            words = kept(f"{asked[0].strip()}: {match[0]}")
            return (likely_sign(words, "torch-companion-mismatch", "torch-name-told", "name", values),)
    return ()


def _compilers(text: str) -> tuple[TextEvidence, ...]:
    """nvcc failed and did not say why: the versions that are stated beside it."""
    failed = _FAILED.search(text) or (_BUILD.search(text) if _NVCC.search(text) else None)
    if failed is None:
        return ()
    values: dict[str, str] = {}
    for pattern in (_CUDA, _GCC, _STUDIO):
        if found := pattern.search(text):
            values |= {name: one for name, one in found.groupdict().items() if one}
    if found := _SYSTEM.search(text):
        values["distribution"] = f"{found['name'].lower().replace('linux', '').strip()} {found['release']}"
    line = kept(line_at(text, failed.start())[0])
    return (likely_sign(line, "nvcc-host-compiler", "nvcc-failed-told", "failed", values),)


def _other_cards(text: str) -> tuple[TextEvidence, ...]:
    """An extension that was compiled for other cards: a kernel is missing in somebody's own code, or it ran on another card."""
    cards = tuple(dict.fromkeys(found[0].strip() for found in _CARD.finditer(text) if len(found[0].strip()) > 1))[:6]
    failed, own = _REFUSED.search(text), _OWN_CODE.search(text)
    if failed is None and len(cards) > 1 and _CONTRAST.search(text):
        failed = _VAGUE.search(text)
    if failed is None or not own:
        return ()
    line = kept(line_at(text, failed.start())[0])
    values = {"cards": "; ".join(cards)} if cards else {}
    return (likely_sign(line, "extension-arch-mismatch", "extension-of-other-cards", "told", values),)
