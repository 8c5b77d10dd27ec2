"""Which GPU a person, a driver or a cloud means: "rtx5090", "2x H100 SXM5", "GRID T4-16Q", "A100-SXM4-40GB MIG 1g.5gb", "7900xtx".

A name is taken apart into what tells boards apart (its core, "4070tisuper"), the series that people leave out or add ("rtx", "quadro"), the
generation, and what changes nothing (memory, form factor, laptop). A board is meant if its core is the same and no series contradicts;
where boards of several targets remain, nothing is chosen.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from envcheck.facts.record import record

if TYPE_CHECKING:
    from envcheck.tables.compat import Tables

MOST = 1024  # GPUs of one machine
_LONGEST = 200


@record
class GpuName:
    """One board. `target` is its compute capability or gfx target, "" where the kind says all."""

    kind: str  # "cuda", "gfx", "xpu", "apple", "cpu", "old"
    product: str
    target: str = ""
    machine: str | None = None  # where it is soldered to a CPU: "aarch64"
    jetson: str | None = None  # L4T that is taken for granted
    confidence: str = "high"

    @property
    def short(self) -> str:
        """As it is called when it is proposed: "RTX 5090"."""
        return re.sub(r"^(?:NVIDIA |AMD |Intel )|GeForce |Radeon (?=RX)|Instinct ", "", self.product)


@record
class Meant:
    """What a name stands for: one board so many times; or the boards between which it leaves a choice; or what is near it."""

    gpu: GpuName | None = None
    count: int = 1
    several: tuple[str, ...] = ()
    near: tuple[str, ...] = ()


@record
class _Parts:
    core: str
    series: frozenset[str]
    eras: frozenset[str]
    aside: frozenset[str]
    laptop: bool


@record
class _Board:
    parts: _Parts
    gpu: GpuName


# Series that a name may carry, and the maker that each is of.
_MAKERS = {
    "nvidia": ("nvidia", "geforce", "rtx", "gtx", "gts", "gt", "quadro", "tesla", "grid", "jetson", "tegra", "cmp", "nvs"),
    "amd": ("amd", "radeon", "rx", "instinct", "firepro"),
    "intel": ("intel", "arc"),
    "apple": ("apple", "mac"),
}
_MAKER_OF = {word: maker for maker, words in _MAKERS.items() for word in words}
_SERIES = frozenset((*_MAKER_OF, "pro", "drive"))
_ERAS = {
    "fermi": ("2.",), "kepler": ("3.",), "maxwell": ("5.",), "pascal": ("6.",), "volta": ("7.0", "7.2"), "turing": ("7.5",),
    "ampere": ("8.0", "8.6", "8.7"), "ada": ("8.9",), "lovelace": ("8.9",), "hopper": ("9.0",), "blackwell": ("10.", "11.", "12."),
}  # fmt: skip
_LAPTOP = frozenset(("laptop", "mobile", "notebook", "maxq", "maxp"))
_NOISE = frozenset(
    re.findall(
        r"\w+",
        "gpu gpus graphics graphic card generation gen edition design with workstation server embedded active lc developer devkit kit "
        "corporation technologies inc advanced micro devices dual slot vf hf mxgpu oam ac fe founders oc desktop nvgpu dgx hgx "
        "data center datacenter dc accelerator core ryzen ai hx soc chip studio book macbook mini imac macpro igpu dgpu vram memory ram "
        "oem module passthrough dgxs fhhl vgpu virtual gaming lhr lite hash rate compute refresh converged service provider",
    )
)
_ASIDE = re.compile(r"\d{1,4}(?:gb?|gib|go)|hbm\w*|gddr\w*|sxm\d?|pcie?|nvl\d{0,2}|\d{1,2}core|\d{1,3}w")
_GLUED = (
    "geforce",
    "nvidia",
    "quadro",
    "radeon",
    "instinct",
    "tesla",
    "grid",
    "jetson",
    "amd",
    "cmp",
    "rtx",
    "gtx",
    "gts",
    "arc",
    "rx",
    "gt",
    "pro",
)
_BEFORE_NUMBER = re.compile(rf"(?:{'|'.join(_GLUED)})*(?:[a-z]{{0,2}}\d|titan)")
_ENDS = re.compile(
    r"(.*?[a-z\d])(laptop|mobile|notebook|max[qp]|sxm\d?|pcie|nvl\d*|ada|blackwell|generation|gpu|(?:[34568]|1[0126]|2[048]|32|4[08]|64|80|9[46]|141)gb?)"
)
_VGPU = re.compile(r"-(?:\d{1,2}-)?\d{1,3}(?:q|c|b|a|cme|qme|me|b4)\Z")
_BOARD_CODE = re.compile(r"([a-z]{1,2}\d{2,4}|\d{4})(?:xm|dx|ds|[xdlpsm])\Z")  # vGPU types write A100D, V100DX, H100XM, RTX6000P
_GFX = re.compile(r"(gfx[0-9a-f]{3,5})(?::.*)?\Z")
_SM = re.compile(r"(?:sm|compute)[ _-]?(\d{1,2})\.?(\d)[af]?\Z")  # sm_90, sm120, compute_80, "sm 8.6"


def gpu_named(text: str, tables: Tables) -> Meant:
    """What a name stands for, a count included: "8xH100", "4090x2", "h100:8"."""
    name = _plain(text)
    if not name:
        return Meant()
    whole = _named(name, tables)
    if whole.gpu or whole.several:
        return whole
    for pattern in (
        r"(?P<n>\d{1,9})\s{0,8}[x*]\s{0,8}(?P<name>(?=\D|\d{3}).+)",
        r"(?P<name>.{1,200}?)\s{0,8}[x*:]\s{0,8}(?P<n>\d{1,9})",
        r"(?P<n>\d{1,2})\s+(?P<name>[a-z].+)",
    ):
        if match := re.fullmatch(pattern, name):
            one = _named(match["name"], tables)
            if one.gpu or one.several:
                return Meant(one.gpu, int(match["n"]), one.several)
    return Meant(near=_near(name, tables))


def capability_named(name: str, tables: Tables) -> str | None:
    """Compute capability of an NVIDIA GPU by its name; None where the name leaves a choice, or the table is not sure of it."""
    exact = tables.compute_capability(name)
    gpu = None if exact else _named(_plain(name), tables).gpu
    return exact or (gpu.target if gpu and gpu.kind == "cuda" and gpu.confidence != "low" else None)


def gfx_named(name: str, tables: Tables) -> str | None:
    """gfx target of an AMD GPU by its name. What the device reports wins."""
    gpu = _named(_plain(name), tables).gpu
    return gpu.target if gpu and gpu.kind == "gfx" else None


def _plain(text: str) -> str:
    """Lower case, without marks, brackets, the slice of a MIG device and identifiers."""
    text = unicodedata.normalize("NFKC", text.replace("®", " ").replace("™", " ")).lower().replace("×", "x")
    text = " ".join(re.sub(r"\((?:r|tm|c)\)", " ", text[:_LONGEST]).split())
    if inside := re.search(r"(?<!\[)\[([^\[\]]{1,120})\]", text):  # lspci: Navi 31 [Radeon RX 7900 XT/7900 XTX]
        text = inside[1]
    text = re.sub(r"\((?:uuid|gpu-)[^()]{0,80}\)?|\bgpu[- ]?\d{1,2}:", " ", text.partition(" mig ")[0])
    text = re.sub(r"\(([^()]{0,80})\)", _bracketed, text)
    text = re.sub(r"max[ -]([qp])\b", r"max\1", text)
    return " ".join(re.sub(r"(\d) (gb|gib)\b", r"\1\2", text).replace("+", " ").split())


def _bracketed(match: re.Match[str]) -> str:
    """Of what stands in brackets the generation ("TITAN X (Pascal)") and a count ("H100 (x8)") tell something."""
    words = match[1].strip()
    return f" {words} " if words in _ERAS or re.fullmatch(r"x? ?\d{1,4} ?x?", words) else " "


def _named(name: str, tables: Tables) -> Meant:
    """One board without a count."""
    if gfx := _GFX.match(name):
        return Meant(GpuName("gfx", gfx[1], gfx[1]))
    if target := _SM.match(name):
        return _of_capability(f"{target[1]}.{target[2]}", tables)
    if "/" in name:
        return _one_of([_named(part.strip(), tables) for part in name.split("/") if part.strip()])
    index = _index(tables)
    if name.rstrip(". ") != name and name.endswith(("..", "…")):
        return _cut(name.rstrip(".… "), index)
    virtual = _VGPU.search(name)
    parts = _parts("grid " + name[: virtual.start()] if virtual else name)
    key = _squashed(name)
    if several := index.unclear.get(key) or index.unclear.get(key.removeprefix("nvidia")):
        return Meant(several=several)
    if virtual:
        key = "grid" + re.sub(r"^(?:grid|nvidia)+|p$", "", _squashed(name[: virtual.start()]))
    if key in index.called:
        return Meant(index.called[key])
    found = _matching(parts, index)
    if not found and virtual and (code := _BOARD_CODE.match(parts.core)):
        found = _matching(_with_core(parts, code[1]), index)
    if not found and re.fullmatch(r"\d{4}m", parts.core):  # "3060m"
        found = _matching(_with_core(parts, parts.core[:-1]), index)
    if not found and (board := dict(index.full).get(key.removeprefix("nvidia"))):  # a whole name without its spaces
        return Meant(board.gpu)
    if not found and parts.core in index.unclear:
        return Meant(several=index.unclear[parts.core])
    return _chosen(parts, found)


def _of_capability(capability: str, tables: Tables) -> Meant:
    """Any board of a compute capability. One that is soldered to a computer of its own (Jetson) must be named: it decides the platform."""
    boards = [gpu for _, gpu in _boards(tables) if gpu.kind in ("cuda", "old") and gpu.target == capability]
    if not boards:
        return Meant()
    soldered = tuple(dict.fromkeys(gpu.short for gpu in boards if gpu.jetson or gpu.machine))
    if all(gpu.jetson or gpu.machine for gpu in boards):
        return Meant(several=soldered)
    return Meant(GpuName(boards[0].kind, "sm_" + capability.replace(".", ""), capability))


def _with_core(parts: _Parts, core: str) -> _Parts:
    return _Parts(core, parts.series, parts.eras, parts.aside, parts.laptop)


def _one_of(answers: list[Meant]) -> Meant:
    """Names between slashes: one board if all of them have one target."""
    boards = [one.gpu for one in answers if one.gpu]
    kinds = {(gpu.kind, gpu.target) for gpu in boards}
    if len(kinds) == 1 and len(boards) == len(answers):
        return Meant(boards[0])
    return Meant(several=tuple(dict.fromkeys(gpu.short for gpu in boards))) if len(kinds) > 1 else Meant()


def _cut(name: str, index: _Index) -> Meant:
    """A name that nvidia-smi cut off: one board if all that begin so have one target."""
    start = _squashed(name).removeprefix("nvidia")
    boards = [board.gpu for key, board in index.full if key.startswith(start) and len(start) > 5]
    return Meant(boards[0]) if len({(gpu.kind, gpu.target) for gpu in boards}) == 1 else Meant()


def _matching(parts: _Parts, index: _Index) -> list[_Board]:
    boards = [*index.cores.get(parts.core, ())]
    if parts.laptop:
        boards += index.cores.get(parts.core + "m", ())
    return [board for board in boards if _fits(parts, board)]


def _fits(asked: _Parts, board: _Board) -> bool:
    """Whether nothing that was written contradicts a board of the same core."""
    gpu = board.gpu
    makers = {_MAKER_OF[word] for word in asked.series if word in _MAKER_OF}
    if makers - {_maker(gpu)} or ("tegra" in board.parts.series and "tegra" not in asked.series):
        return False
    if asked.eras and (gpu.kind not in ("cuda", "old") or not any(gpu.target.startswith(_ERAS[era]) for era in asked.eras)):
        return False
    return asked.series <= board.parts.series | _soft(asked, board)


def _maker(gpu: GpuName) -> str:
    return {"gfx": "amd", "xpu": "intel", "apple": "apple"}.get(gpu.kind, "nvidia")


def _soft(asked: _Parts, board: _Board) -> frozenset[str]:
    """Series that people add to a board that does not carry them, and that tell it from no other."""
    if board.gpu.kind not in ("cuda", "old"):
        return frozenset((*_MAKERS[_maker(board.gpu)], "pro"))
    soft = {"nvidia", "grid"}
    if re.match(r"[a-z]", board.parts.core):
        soft |= {"tesla", "quadro", "rtx", "jetson", "tegra", "cmp", "drive"}  # "Quadro A6000", "Tesla L4": the letter says all
    elif board.gpu.kind == "cuda" and "rtx" in board.parts.series and "quadro" not in board.parts.series:
        soft |= {"gtx", "geforce"} if asked.core[:1] in "2345" and not asked.core.endswith("000") else set()
    elif "gtx" in board.parts.series:
        soft |= {"geforce", "rtx"} if asked.core.startswith("16") else {"geforce"}
    return frozenset(soft | ({"geforce"} if board.parts.series & {"gt", "geforce"} else set()))


def _chosen(asked: _Parts, found: list[_Board]) -> Meant:
    """The board of the boards that remain, if they have one target; those of just this name come first."""
    exact = [board for board in found if board.parts.series - {"nvidia"} == asked.series - {"nvidia"} and board.parts.eras == asked.eras]
    boards = found if asked.laptop else exact or found
    kinds = {(board.gpu.kind, board.gpu.target): board.gpu for board in reversed(boards)}
    if len(kinds) > 1:
        return Meant(several=tuple(gpu.short for gpu in sorted(kinds.values(), key=lambda gpu: gpu.short)))
    best = min(boards, key=lambda board: len(board.parts.aside ^ asked.aside) + (board.parts.laptop != asked.laptop), default=None)
    return Meant(best.gpu) if best else Meant()


# ------------------------------------------------------------------ taking names apart


def _squashed(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name)


def _parts(name: str) -> _Parts:
    """A plain name taken apart."""
    words = [word for token in re.split(r"[^a-z0-9.]+", name) for word in _unglued(token.strip("."))]
    titan = "titan" in words
    core: list[str] = []
    series: set[str] = set()
    eras: set[str] = set()
    aside: set[str] = set()
    laptop = False
    for at, word in enumerate(words):
        if word in _LAPTOP:
            laptop = True
        elif word in _ERAS:
            eras.add(word)
        elif word in _SERIES and not (titan and word == "rtx" and at > 0):
            series.add(word)
        elif _ASIDE.fullmatch(word):
            aside.add(word)
        elif word not in _NOISE and not (word == "max" and core and series & {"rtx"}):
            core.append(word)
    return _Parts(
        "".join(core),
        frozenset(series),
        frozenset(eras - {"lovelace"} | ({"ada"} if "lovelace" in eras else set())),
        frozenset(aside),
        laptop,
    )


def _unglued(token: str) -> Iterator[str]:
    """ "rtx", "4060ti", "16gb" of "rtx4060ti16gb"."""
    while head := next((word for word in _GLUED if token.startswith(word) and _BEFORE_NUMBER.match(token, len(word))), None):
        yield head
        token = token[len(head) :]
    ends: list[str] = []
    while (match := _ENDS.fullmatch(token)) and re.search(r"\d", match[1]) and not _ASIDE.fullmatch(token):
        token = match[1]
        ends.append(match[2])
    if token:
        yield token
    yield from reversed(ends)


# ------------------------------------------------------------------ the boards that there are


@record
class _Index:
    cores: dict[str, tuple[_Board, ...]]
    called: dict[str, GpuName]  # squashed names that are taken as they are
    unclear: dict[str, tuple[str, ...]]  # names that leave a choice by themselves
    full: tuple[tuple[str, _Board], ...]
    short: tuple[tuple[str, str], ...]  # what a mistyped name is held against, and the name to propose


@lru_cache(maxsize=4)
def _index(tables: Tables) -> _Index:
    boards = [_Board(_parts(_plain(name)), gpu) for name, gpu in _boards(tables)]
    cores: dict[str, list[_Board]] = {}
    for board in boards:
        cores.setdefault(board.parts.core, []).append(board)
    by_product = {board.gpu.product: board.gpu for board in reversed(boards)}
    called = {_squashed(name.lower()): by_product[row["product"]] for row in tables.rows("gpu-product", "called") for name in row["names"]}
    called |= {word: GpuName("cpu", "none") for word in ("cpu", "none")}
    unclear = {_squashed(name.lower()): tuple(row["choice"]) for row in tables.rows("gpu-product", "unclear") for name in row["names"]}
    full = tuple((_squashed(board.gpu.product.lower()).removeprefix("nvidia"), board) for board in boards)
    near: dict[str, str] = {}
    for whole in (True, False):  # a whole name comes before the beginning of a longer one: "a10" is the A10, not the A10G
        for board in (board for board in boards if board.gpu.kind != "old"):
            for key in (_squashed(board.gpu.short.lower()), board.parts.core):
                near.setdefault(key if whole else (re.match(r"[a-z]*\d+", key) or [key])[0], board.gpu.short)
    short = tuple((key, name) for key, name in near.items() if len(key) > 2)
    return _Index({core: tuple(some) for core, some in cores.items() if core}, called, unclear, full, short)


def _boards(tables: Tables) -> Iterator[tuple[str, GpuName]]:
    """Every name of every board."""
    for row in tables.rows("gpu-product", "product"):
        for name in row["names"]:
            yield name, _gpu("cuda", name, row["compute_capability"], row)
        for name in row.get("also", ()):
            yield name, _gpu("cuda", row["names"][0], row["compute_capability"], row)
    for section, kind, field in (("amd", "gfx", "gfx"), ("intel", "xpu", ""), ("apple", "apple", ""), ("old", "old", "compute_capability")):
        for row in tables.rows("gpu-product", section):
            for name in row["names"]:
                yield name, _gpu(kind, _full_name(kind, name), row.get(field, ""), row)


def _gpu(kind: str, product: str, target: str, row: Any) -> GpuName:
    return GpuName(kind, product, target, row.get("machine"), row.get("jetson"), row.get("confidence", "high"))


def _full_name(kind: str, name: str) -> str:
    """As the maker writes it: "AMD Radeon RX 7900 XTX" of "RX 7900 XTX"."""
    if kind == "gfx":
        series = "Instinct " if name.startswith("MI") else "" if re.match(r"Radeon|Ryzen|R9 |Strix", name) else "Radeon "
        return f"AMD {series}{name}"
    return {"xpu": "Intel ", "apple": "Apple "}.get(kind, "") + name


def _near(name: str, tables: Tables) -> tuple[str, ...]:
    """Boards whose names are nearly the one that was written, nearest first: whole names, never a number in them."""
    asked = _squashed(name)
    if len(asked) < 3:
        return ()
    best: dict[str, float] = {}
    for key, short in _index(tables).short:
        best[short] = max(best.get(short, 0), _likeness(asked, key))
    ranked = sorted((short for short, like in best.items() if like >= _LIKE), key=lambda short: -best[short])
    return tuple(ranked[:3])


_LIKE = 0.78


def _likeness(asked: str, key: str) -> float:
    """How alike two names are: their letters, how far they begin alike, and whether digits stand where digits do."""
    import difflib

    if abs(len(asked) - len(key)) > 4 or not set(asked[:2]) & set(key[:2]):
        return 0.0
    begin = next((at for at, (one, other) in enumerate(zip(asked, key, strict=False)) if one != other), min(len(asked), len(key)))
    shape = re.sub(r"\d", "0", asked) == re.sub(r"\d", "0", key)
    return difflib.SequenceMatcher(None, asked, key).ratio() + 0.1 * begin / len(asked) + 0.1 * shape
