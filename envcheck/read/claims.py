"""What people and programs say of a machine in passing, each with who is meant: this machine, or something else.

    - **PyTorch Version:** 2.7.1+cu128          >>> torch.cuda.is_available()        Device: cuda:0 NVIDIA GeForce RTX 3080 : native
    ### GPU                                     False                                Python-3.9.12 torch-1.13.1+cu117 CUDA:0 (…, 24268MiB)
    2x AMD Radeon Pro WX 5100                   torch.version.cuda gives '10.2'      PyTorch 2.1.2+cu121 (you have 2.1.2+cpu)

Only what this machine has becomes a fact, and only if no other sentence says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from envcheck.facts.record import field, mutable, record, replace
from envcheck.facts.snapshot import Distribution, Gpu, TextEvidence
from envcheck.read.beside import cpu_beside_cuda, interpreters_differ
from envcheck.read.came import missing_ranks
from envcheck.read.collect_env import normal
from envcheck.read.conda_conflict import conda_conflict
from envcheck.read.found import Claim, Fact, Found, Role, kept, line_at
from envcheck.read.replaced import replaced_torch
from envcheck.read.told import told_around
from envcheck.read.told_hosts import told_hosts
from envcheck.read.traced_paths import traced_paths
from envcheck.read.values import answer_of, cuda_version, gpu_vendor, operating_system, stated_version, version_in
from envcheck.tables.gpu_generations import ERAS, SERIES

_LONGEST = 2000  # characters of a line that is read

# ---- "key: value", in lists, tables and bold letters, and as a heading with the value below

_KEY_VALUE = re.compile(
    r"[\s>|*#•·_`-]{0,12}(?P<key>[^\s:：=|*`][^:：=|*`]{0,60}?)[\s*`_]{0,6}(?:[:：=]|\s\|\s)[\s*`_:：]{0,24}(?P<value>[^\s|].{0,300})"
)
_HEADING = re.compile(r"#{1,6}\s{1,4}(\S.{0,60}?)\s*#*")

_KEYS = {
    "os": "os", "operating system": "os", "os version": "os", "system": "os", "platform": "os", "distribution": "os", "操作系统": "os",
    "系统": "os", "betriebssystem": "os",
    "python": "python", "python version": "python", "python版本": "python", "python-version": "python",
    "torch": "torch", "pytorch": "torch", "torch version": "torch", "pytorch version": "torch", "torch.__version__": "torch",
    "pytorch版本": "torch", "torch版本": "torch", "installed torch": "torch",
    "driver": "driver", "nvidia driver": "driver", "gpu driver": "driver", "driver version": "driver", "nvidia driver version": "driver",
    "graphics driver": "driver", "驱动": "driver", "驱动版本": "driver", "显卡驱动": "driver", "treiber": "driver",
    "gpu": "gpu", "gpus": "gpu", "gpu model": "gpu", "gpu type": "gpu", "gpu name": "gpu", "gpu make": "gpu", "graphics card": "gpu",
    "graphic card": "gpu", "video card": "gpu", "card": "gpu", "device": "gpu", "device name": "gpu", "name": "gpu", "nvidia gpu": "gpu",
    "显卡": "gpu", "显卡型号": "gpu", "grafikkarte": "gpu", "torch.cuda.get_device_name(0)": "gpu", "torch.cuda.get_device_name()": "gpu",
    "torch.cuda.is_available()": "available", "cuda available": "available", "is cuda available": "available",
    "cuda is available": "available", "gpu available": "available", "gpu is available": "available", "is gpu available": "available",
    "pytorch detects cuda available": "available", "torch cuda available": "available",
    "pytorch built with cuda": "cuda_built", "torch built with cuda": "cuda_built", "built with cuda": "cuda_built",
    "torch.cuda.device_count()": "count", "productversion": "macos", "macos version": "macos", "macos": "macos",
    "torch.version.cuda": "torch_cuda", "torch cuda version": "torch_cuda", "pytorch cuda version": "torch_cuda",
}  # fmt: skip


# Packages that people list by name and version
_PACKAGES = (
    "torchvision", "torchaudio", "torchtext", "torchdata", "torchcodec", "triton", "numpy", "xformers", "flash-attn", "flash_attn", "vllm",
    "bitsandbytes", "deepspeed", "transformers", "accelerate", "pytorch-lightning", "lightning", "torch-scatter", "torch-sparse",
    "torch_scatter", "torch_sparse", "mmcv", "mmcv-full", "apex", "transformer-engine", "auto-gptq", "ctranslate2", "onnxruntime-gpu",
)  # fmt: skip
_KEYS |= {name: f"package.{normal(name)}" for name in _PACKAGES}


def _torch(text: str) -> Iterator[tuple[str, object]]:
    version = version_in(text.strip("'\"` "))
    if version and re.match(r"[01234]\.\d", version):
        number, _, build = version.partition("-")
        if built := re.fullmatch(r"(?:cu|cuda)_?(\d{1,2})\.?(\d)(?:\.\d{1,3})?", build.lower()):  # "0.3.0-cuda9.0"
            yield "torch.cuda", f"{built[1]}.{built[2]}"
            version = number
        yield "torch.version", version.partition("+")[0] if version.lower().endswith("+cuda") else version


def _python(text: str) -> Iterator[tuple[str, object]]:
    match = re.match(r"(?:Python[ -])?([23]\.\d{1,2}(?:\.\d{1,3})?)(?![\d.])", text.strip("'\"` "))
    if match:
        yield "python.version", match[1]
    if "[MSC v." in text:
        yield "system.os", "windows"


def _os(text: str) -> Iterator[tuple[str, object]]:
    if text.strip("`'\" ").lower() == "nt":  # os.name of Python
        yield "system.os", "windows"
    elif re.match(r"\d\d\.(?:04|10)(?:\.\d)? LTS\b", text):
        yield from operating_system(f"Ubuntu {text}").items()
    else:
        yield from operating_system(text).items()


def _driver(text: str) -> Iterator[tuple[str, object]]:
    match = re.search(r"(?<![\d.])(\d{3}\.\d{2,3}(?:\.\d{2,3})?)(?![\d.])", text)
    if match:
        yield "driver.version", match[1]


_COUNT = re.compile(r"(\d{1,2})\s?[x×*]\s?(?=\D)|[x×*]\s?(\d{1,2})$")
# What stands around a product's name: "cuda:0 NVIDIA GeForce RTX 3080 : cudaMallocAsync", "RTX 4090 (24GB)", "RTX 3060, 12 GB"
_BEFORE_NAME = re.compile(r"cuda:\d{1,2}\s{1,4}|\d{1,2}\s?[x×*]\s?")
_AFTER_NAME = re.compile(r"\s:\s|[(,;]|\s\d{1,3}\s?G(?:i?B)?\b|\s[x×*]\s?\d{1,2}$")


def _gpu(text: str) -> Iterator[tuple[str, object]]:
    text = re.sub(r"\s?\((?:TM|R|tm|r)\)", "", text.strip("`'\"* "))
    if listed := re.search(r"\[([^\[\]]{3,120})\]$", text):  # lspci and lshw: the chip, and in brackets the cards that have it
        text = listed[1].rpartition(" / ")[2]
    start = _BEFORE_NAME.match(text)
    name = _AFTER_NAME.split(text[start.end() if start else 0 :], maxsplit=1)[0].strip()
    if not name or len(name) > 60 or gpu_vendor(name) is None or re.match(r"(?:cpu|https?)\b", name.lower()):
        return
    if not re.search(r"\d|\bVII\b", name):  # the Radeon VII is the one whose number has no digit
        return
    count = _COUNT.search(text)
    number = int(count[1] or count[2]) if count else 1
    if 0 < number <= 64:
        yield "gpu", (name, number)


def _available(text: str) -> Iterator[tuple[str, object]]:
    word = re.match(r"[`'\"*]{0,3}(true|false|yes|no)\b", text.strip().lower())
    if word:
        yield "devices.available", word[1] in ("true", "yes")


def _macos(text: str) -> Iterator[tuple[str, object]]:
    if match := re.match(
        r"[`'\"*]{0,3}(?:mac ?os )?(1[0-9](?:\.\d{1,2}){1,2}|2[6-9](?:\.\d{1,2}){0,2})(?![\d.+])", text.strip(), re.IGNORECASE
    ):
        yield "system.os", "darwin"
        yield "system.macos_version", match[1]


def _cuda_built(text: str) -> Iterator[tuple[str, object]]:
    if re.match(r"[`'\"*]{0,3}(?:false|no)\b", text.strip().lower()):
        yield "torch.cpu_build", True


def _count(text: str) -> Iterator[tuple[str, object]]:
    if match := re.match(r"(\d{1,3})\s*$", text.strip("`'\"* ")):
        yield "devices.count", int(match[1])


def _torch_cuda(text: str) -> Iterator[tuple[str, object]]:
    if version := cuda_version(text.strip("'\"` ")):
        yield "torch.cuda", version
    elif text.strip("'\"` ") == "None":
        yield "torch.cpu_build", True


_VALUES: dict[str, Callable[[str], Iterator[tuple[str, object]]]] = {
    "torch": _torch, "python": _python, "os": _os, "driver": _driver, "gpu": _gpu, "available": _available, "count": _count,
    "macos": _macos, "cuda_built": _cuda_built, "torch_cuda": _torch_cuda,
}  # fmt: skip


def _values(what: str, text: str) -> Iterator[tuple[str, object]]:
    """The facts of a value beside its name."""
    if not what.startswith("package."):
        yield from _VALUES[what](text)
    elif version := stated_version(text.strip("'\"` =")):
        yield what, Distribution(what.removeprefix("package."), version)


# ---- an expression, and what it gave: on the next line, or in words

_EXPRESSION = re.compile(
    r"(torch\.__version__|torch\.version\.cuda|torch\.cuda\.is_available\(\)|torch\.cuda\.device_count\(\)"
    r"|torch\.cuda\.get_device_name\([^()]{0,60}(?:\(\))?\))"
)
_SEVERAL = re.compile(rf"{_EXPRESSION.pattern}(?:, {{0,3}}{_EXPRESSION.pattern}){{1,4}}")
_PROMPT = re.compile(r"\s{0,8}(?:>>>|>|In ?\[\d{1,4}\]:|\$|#|❯|`|print\(|python3? -c)\s?")
_GAVE = re.compile(
    r"`?\)?`?\s{0,4}(?:(?:always )?(?:returns?|renvoie|retourne|gibt|liefert|zeigt|devuelve|retorna|возвращает|返回|显示|gives?|gave"
    r"|is|says?|shows?|prints?|outputs?|=|==|->|→|:|：)\s{1,4}|[(:=]\s{0,2})[`'\"*(]{0,3}(\S[^\s`'\"*),;]{0,60})",
    re.IGNORECASE,
)
_OUTPUT = re.compile(r"\s{0,8}(?:Out ?\[\d{1,4}\]:\s?)?[`'\"]{0,3}([^`'\"]{1,100}?)[`'\"]{0,3}\s*$")
_TUPLE = re.compile(r"(\s{0,8}(?:Out ?\[\d{1,4}\]:\s?)?)\(([^()\n]{1,160})\)\s*$")
_LATER = 8  # lines: warnings stand between a question and its answer
# What a program prints before a value of its own: print("CUDA here:", torch.cuda.is_available()), print(f"CUDA here: {torch…}")
_LABEL = re.compile(r"print\(\s{0,4}f?['\"]([^'\"{}]{2,60}?)[\s:=]{0,6}(?:['\"]\s{0,4},\s{0,4}|\{)$")

_PRINTS = re.compile(r";\s{0,4}(?=print\()")


def _untupled(line: str) -> str:
    """The values of a tuple that a prompt shows, as print would show them."""
    match = _TUPLE.fullmatch(line)
    return match[1] + re.sub("['\",]", " ", match[2]).strip() if match else line


@record
class _Asked:
    """Expressions whose answers are still to come: of one line, one answer each, in their order."""

    what: tuple[str, ...]
    until: int  # the last line on which they may stand
    label: str = ""  # what the program prints before the answer


def _asked(expression: str) -> str:
    return {"torch.__version__": "torch", "torch.version.cuda": "torch_cuda"}.get(
        expression, "available" if "is_avail" in expression else "count" if "count" in expression else "gpu"
    )


# ---- in a line of a program, or in a sentence

_BANNER = re.compile(
    r"(?<![\w/.=-])(?:Python-(?P<python>3\.\d{1,2}\.\d{1,2})|torch-(?P<torch>\d\.\d{1,2}\.\d{1,2}(?:\+\w{2,12})?)(?![\w.-]))"
)
_BANNER_GPU = re.compile(r"\bCUDA:(\d{1,2}) \(([^(),]{3,60}), \d{3,6}Mi?B\)")
# What a program found here beside what something was made with: "trained with torch 1.10.0+cu102, yours is 2.0.0+cu118".
_YOURS = re.compile(
    r"torch\b[^\n]{0,60}?(?:\(you have |\byours is |\byou have (?:py)?torch )(\d\.\d{1,2}\.\d{1,2}(?:[\w.+]{0,24}\w)?)", re.IGNORECASE
)
_VERSION = re.compile(
    r"(?<![A-Za-z0-9_/.=<>-])(?:py)?torch(?:[ _.-]?version)?\s{0,3}(?:[:=]|==|is)?\s{0,3}v?['\"]?"
    r"(?P<version>\d\.\d{1,2}(?:\.\d{1,2})?(?:\.dev\d{8}|a0|rc\d)?(?:\+\w(?:[\w.]{0,38}\w)?)?)(?![\w+]|\.\d|\S{0,40}\.whl)",
    re.IGNORECASE,
)
_COMPANION = re.compile(
    r"(?<![\w./-])(torchvision|torchaudio|torchtext|torchdata)(?: version)?[ :=]{1,3}v?(\d\.\d{1,2}\.\d{1,2}(?:\+\w{2,9})?)(?![\w.+]*\w)"
)
_PYTHON_SAID = re.compile(r"\bpython(?: version)?(?: is|:)? v?([23]\.\d{1,2}(?:\.\d{1,2})?)(?![\w.]*\d)", re.IGNORECASE)
_PYTHON_PRINTED = re.compile(r"Python ([23]\.\d{1,2}\.\d{1,2}) [(|]")  # the interpreter's own first line
_PYTHON_PATH = re.compile(r"[\\/](?:lib[\\/]python|Python)([23])\.?(\d{1,2})[\\/](?:Lib[\\/])?(?:site|dist)-packages")
_DRIVER_SAID = re.compile(
    r"(?:\b(?:driver|Treiber)(?: version)?(?: is|:)? v?|(?<![\w./-])nvidia-)(\d{3}\.\d{2,3}(?:\.\d{2,3})?)(?![\w.]*\d)", re.IGNORECASE
)
# A build is told by its suffix where nobody names torch: says "2.0.0+cpu Autocast half"
_BUILD = re.compile(r"(?<![\w.=+-])['\"`]?([12]\.\d{1,2}\.\d{1,2}\+(?:cpu|cu\d{2,3}|rocm[\d.]{3,5}|xpu))(?![\w.])")
_BARE = re.compile(r"\s{0,4}['\"]?(\d\.\d{1,2}\.\d{1,2}(?:\.dev\d{8}|a0|rc\d)?\+(?:cu\d{2,3}|cpu|rocm[\d.]{3,5}|xpu))['\"]?\s*")
# What the driver offers, as nvidia-smi shows it or as a machine is limited to: "nvidia-smi says CUDA Version 12.2", "只能用cuda11.4"
_OFFERED = re.compile(
    r"\bnvidia-smi\b[^.\n]{0,40}?\bCUDA(?: Version)?:? ?(?P<smi>\d{1,2}\.\d)(?![\d.])"
    r"|(?:\bonly(?: have| has| use| allows?| supports?| up to| allowed)?|只能用|只能使用|只有|只支持|最高支持|最高只支持|规定只能用"
    r"|\bnur|только|seulement|solo|だけ)"
    r" ?(?:\w{1,12} )?CUDA ?(?:version |版本)?(?P<only>\d{1,2}\.\d)(?![\d.])",
    re.IGNORECASE,
)
# "macOS 13.7.4", "macOS-12.7.6-arm64-arm-64bit", "MacOs is `12.7.6`"; "MacOS 12.3+" is what something needs.
_MACOS_SAID = re.compile(
    r"\bmac ?os(?: version)?(?: is|:)?[ -][`'\"]?(1[0-9](?:\.\d{1,2}){1,2}|2[6-9](?:\.\d{1,2}){0,2})(?![\d+.]*[\d+])", re.IGNORECASE
)
# "CUDA unavailable on my card", "torch says CUDA is not available"; not "falls back to the CPU if CUDA is not available".
_NO_CUDA = re.compile(
    r"(?<![\w./-])cuda(?: (?:is|was|still|always|remains|shows|shown as|reported as|ist|nicht mehr)){0,3}"
    r" ?(?:(?:not|no longer) (?:available|found|detected|recogni[sz]ed)|unavailable|nicht verfügbar|不可用)(?![\w'])",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"\b(?:if|when|whenever|unless|where|whether|in case|even|should|fall(?:s|ing)?[ -]?back|so that|systems?|machines?|wenn|falls"
    r"|support\w*)\b|如果|当",
    re.IGNORECASE,
)
_DATACENTER = r"(?:V100S?|P100|K80|T4|A100|A800|H100|H200|H800|H20|B200|B300|GB?H?200|GB10|L40S?|L20|A10G?|A30|A40|A[2456]000|A[45]500)"
_PRODUCT = re.compile(
    r"(?<![0-9A-Za-z_-])((?:(?:NVIDIA|GeForce|Tesla|Quadro|Radeon|AMD|Intel) ){0,3}"
    r"(?:(?:RTX|GTX|rtx|gtx|Rtx|Gtx) ?(?:A?\d{3,4}|(?:PRO|Pro|pro) \d{4})(?: ?(?:Ti|TI|ti)| ?(?:SUPER|Super|super)"
    r"| ?D|M)?(?: Laptop GPU| Ada Generation| Ada)?"
    r"|(?:GTX )?T(?:ITAN|itan) (?:X[Pp]?|V|RTX|Black|Z)|(?<=GeForce )(?:GT ?\d{3,4}M?|M?X?\d{3}MX?|MX ?\d{3})"
    r"|(?:GT|gt) ?[67]\d0M?|GT ?1030|MX[1-5][1-7]0|Quadro (?:RTX \d{4}|[KMPT]\d{3,4}M?)"
    r"|(?:(?<=Tesla )|(?<=GPU )|(?<=GPUs ))(?:K[248]0[Xacmst]{0,2}|M(?:4|6|10|40|60)|P(?:4|6|40))(?: ?\d{2}GB)?|K(?:20(?:Xm|[cm])|40[cmst])"
    rf"|{_DATACENTER}(?:-SXM\d?|-PCIe)?|(?:(?:RX|rx) ?|(?<=Radeon ))\d{{4}} ?(?:XTX?|xtx?|GRE|M)?|MI\d{{2,3}}[AX]?"
    rf"|[Aa]rc ?[ABab]\d{{3}}|(?:[67][6-9]00|90[67]0) ?(?:XTX?|xtx?|GRE|gre)))(?![0-9A-Za-z_-])"
)
# "my 4090", "a 3080 Ti": GeForce by its number alone
_BARE_NUMBER = re.compile(
    r"(?:\b(?:an?|my|the|our|one|single|new) |显卡(?:是|为|:|：)? ?|(?:买了|换了|用的?|我的|双) ?|^(?:# )?(?=\d{4} ?(?:Ti|SUPER"
    r"|[一-鿿])))((?:10[5-8]0|16[56]0|20[678]0|30[5-9]0|40[5-9]0|50[5-9]0)(?: ?Ti| ?SUPER)?)"
    r"(?![0-9A-Za-z.%-]| ?(?:MB|GB|MiB|ms|steps|s\b))",
    re.IGNORECASE,
)
_OF_TESLA = re.compile(r"K[24]0|M(?:4|6|10|40|60)|P(?:4|6|40)(?!\d)")  # without the word: "4 GPU K40m"
_OF_RADEON = re.compile(r"[679]\d{3} ?[XG]", re.IGNORECASE)  # by its number alone: "a 7900xtx"
_SHORT_PRODUCTS = re.compile(_DATACENTER + "$")
# "my Blackwell GPU", "I have an RTX 50 series card"; not "supports Ampere GPUs", which is said of programs
_GENERATION = re.compile(
    rf"\b(?:an?|my|our|the|this|have|with|on|using) (?:(?:new|old|nvidia|geforce|laptop) ){{0,3}}((?:pre-)?(?:{ERAS}|{SERIES}))"
    r"(?: generation)? ?(?:gpu|card|graphics|laptop|machine|显卡)(?!s)|\b(?:gpu|card)\)?:? {1,2}\(?(" + SERIES + r")\b",
    re.IGNORECASE,
)

_BUILT = re.compile(
    r"\b(?:train(?:ed)?|built|build|compiled?|made|exported|linked|created)\b[^.]{0,24}\b(?:for|with|against|on|by)\b|\brequires?\b"
    r"|\bneeds?\b",
    re.IGNORECASE,
)
_AWAY = re.compile(
    r"\b(?:works?|worked|runs fine|another|other|different|previous(?:ly)?|earlier|before|used to|former(?:ly)?|old|colleague\w*"
    r"|friend\w*"
    r"|instead|tried|try|trying|upgrad\w*|downgrad\w*|updat\w*|reinstall\w*|switch\w*|going to|want\w*|would|should|could|can|does|do"
    r"|is there|will|newer|older|since|until|supports?|compatible|known|latest|newest|released?|seem|not)\b",
    re.IGNORECASE,
)
# "Trying torch 2.4 on a …": what stands behind it is where that is tried.
_TRIED_ON = re.compile(
    r"\b(?:[Tt]r(?:y|ying|ied)\b[^,;:]{0,60} (?:on|with|using)|(?:[Ss]witched|[Uu]pgraded)\b[^,;:]{0,60} on) "
    r"(?=(?:an? |my |our |this |the )?(?:[A-Z]\w{2,9} ){0,2}$)"
)
_AWAY_AFTER = re.compile(
    r"[\s,)]{0,3}(?:(?:it )?(?:works|worked|runs|ran)\b(?! out)|is fine|is not (?:found|available)|would|instead"
    r"|or \d|and \d|to v?\d|,? compiled)",
    re.IGNORECASE,
)
# "does not use my Radeon": whose it is says more than what it does
_MINE = re.compile(r"\b(?:my|our|meine[rm]?|mein|mi|mon|ma|mia) (?:\w{1,12} )?$", re.IGNORECASE)
_FORMER = re.compile(
    r"\b(?:old|other|previous(?:ly)?|former(?:ly)?|earlier|before|until|used to|friend\w*|colleague\w*|upgrad\w*|replac\w*|sold"
    r"|works?|fine)\b",
    re.IGNORECASE,
)
_COMMAND = re.compile(
    r"\s{0,8}(?:[$>#%❯!]\s{0,2}|\([\w.-]{1,40}\)\s\S{0,80}[$>#]\s?)?(?:sudo )?(?:python3? -m )?"
    r"(?:pip3?(?! (?:list|freeze|show) \w{2,12} (?:py)?torch \d)|uv|conda|mamba|poetry|docker|git|wget|curl)\b",
    re.IGNORECASE,
)
_ERROR = re.compile(r"(?<=[^\s.].)(?<=[:,;(] )(?:[\w.]{0,40} )?\w{0,40}(?:ERROR|[eE]rror:|[wW]arning:)")
# "an old Tesla K80": what is old is the card
_OF_AN_AGE = re.compile(r"\b(?:an?|my|our|the|this|have|with) (?:(?:very|quite|rather|pretty) )?(?:old|older|new|newer) $")
_ERRORS = ("ERROR", "rror:", "arning:", "from versions", "satisfies", ".whl", "http://", "https://", "==")
# "CUDA error: no kernel image … on RTX 5090", "… (2x A100, torch 2.4.1)": who titles a post puts the card behind the message
_WHERE_IT_WAS = re.compile(
    r"(?:(?:^|\s)(?:on|with|using|auf|mit|con|sur|avec)\s|[-–—(\[（【,，@]|在|用)\s?(?:(?:an?|my|the|\d{1,2} ?[x×*]?) )?$", re.IGNORECASE
)
_WHAT_IT_TAKES = re.compile(
    r"\b(?:only|support\w*|requir\w*|needs?|like|such as|e\.g|built|compiled|trained|newer|at least|http\w*)\b", re.IGNORECASE
)


def _mention(line: str, start: int, end: int) -> Role:
    """Whom a version or product in a sentence is about, by the words before it in that sentence."""
    before = re.split(r"(?<=[a-z)])[.;!?]\s", line[:start])[-1][-120:]
    if _BUILT.search(before):
        return Role.BUILT_FOR
    if _MINE.search(before) and not _FORMER.search(before):
        return Role.HAS
    before = _TRIED_ON.sub(" on ", before)
    return Role.ELSEWHERE if _AWAY.search(before) or _AWAY_AFTER.match(line[end : end + 40]) else Role.HAS


def _told_behind(line: str) -> str:
    """The end of a line with a message, from the card on that the writer names behind it."""
    for match in _PRODUCT.finditer(line):
        before = line[: match.start()]
        where = _WHERE_IT_WAS.search(before, max(0, len(before) - 24))
        if where and ("rror" in before or "ERROR" in before) and not _WHAT_IT_TAKES.search(before):
            return line[where.start() :]
    return ""


@mutable
class _Reader:
    claims: list[Claim]
    line: str = ""
    number: int = 0
    asked: list[_Asked] = field(default_factory=list)
    denied: list[Claim] = field(default_factory=list)  # answers "False" to whether there is a GPU

    def say(self, values: Iterator[tuple[str, object]], role: Role = Role.HAS, printed: bool = True) -> bool:
        found = [Claim(subject, value, role, printed, kept(self.line), self.number) for subject, value in values]
        self.claims += found
        return bool(found)

    def read(self, lines: Sequence[str]) -> None:
        heading = ""
        for number, line in enumerate(lines, 1):
            line = line.replace("\\_", "_")  # as Markdown escapes it
            self.line, self.number = line, number
            if len(line) > _LONGEST or not line.strip():
                continue
            if self.asked and self._answered():
                continue
            if heading and not line.startswith("#"):
                self.say(_values(heading, line))
            title = _HEADING.fullmatch(line.rstrip())
            heading = _KEYS.get(_key(title[1]), "") if title else ""
            if expression := _EXPRESSION.search(line):
                self._expressions(expression)
                self._products()
                if re.search(r"\w[.,;] $", line[: expression.start()]):  # a sentence before the one that asks
                    self.line = line[: expression.start()]
                    self._mentions(products=False)
            elif not heading and not self._key_value():
                self._mentions()

    def _answered(self) -> bool:
        """Whether a line is the answer to an expression above it. What was asked before that one has had its turn."""
        output = _OUTPUT.fullmatch(self.line) or _OUTPUT.fullmatch(_untupled(self.line))
        for place, one in enumerate(self.asked):
            text = output[1] if output else ""
            if one.label:
                text = self.line.strip().removeprefix(one.label).lstrip(" :=") if self.line.strip().startswith(one.label) else ""
            if text and self.number <= one.until and self._answers(one.what, text):
                self.asked = [replace(later, until=self.number + _LATER) for later in self.asked[place + 1 :]]
                return True
        return False

    def _answers(self, asked: tuple[str, ...], text: str) -> bool:
        """Whether a line holds the values that were asked for: one, or several in their order."""
        values = text.split(None, len(asked) - 1)
        if len(values) != len(asked):
            return False
        before = len(self.claims)
        said = [self.say(_VALUES[what](one)) for what, one in zip(asked, values, strict=True)]
        self.denied += [claim for claim in self.claims[before:] if claim.subject == "devices.available" and claim.value is False]
        return any(said)  # None says nothing of some

    def _expressions(self, first: re.Match[str]) -> None:
        """Those of a line: of several statements that print each value behind a label of its own, each by itself."""
        parts = _PRINTS.split(self.line)
        labelled = [match for part in parts if (match := _EXPRESSION.search(part)) and _LABEL.search(part[: match.start()])]
        for match in labelled if len(labelled) > 1 else [first]:
            self.line = match.string
            self._expression(match)
        self.line = first.string

    def _expression(self, match: re.Match[str]) -> None:
        """Take the value that stands beside an expression, or wait for it."""
        gave = _GAVE.match(self.line, match.end())
        if gave and self.say(_VALUES[_asked(match[1])](gave[1])):
            return
        before = self.line[: match.start()]
        label = _LABEL.search(before)
        several = _SEVERAL.match(self.line, match.start())
        after = self.line[several.end() if several else match.end() :]
        rest = after.strip(" `)}'\";")
        typed = _PROMPT.match(self.line) or re.search(r"\bpython3? -c ", before) or not before.strip()
        found = _EXPRESSION.findall(several[0]) if several else [match[1]]
        each = [tuple(_asked(one) for one in (found if not label else found[:1]))]
        if re.match(r"\)?\s?;", after) and not re.sub(r"print\(|[();\s]", "", _EXPRESSION.sub("", after)):  # one statement after another
            each += [(_asked(one),) for one in _EXPRESSION.findall(after)]
        elif rest or not (typed or label):
            return
        # A prompt that came back has answered what was asked before; a program prints its answers when it runs.
        waiting = [] if re.match(r"\s{0,8}(?:>>>|In ?\[|\$)", self.line) else self.asked
        until = self.number + _LATER
        mine = [_Asked(what, until, label[1] if label else "") for what in each]
        self.asked = [*(replace(one, until=until) for one in waiting[-_LATER:]), *mine]

    def _key_value(self) -> bool:
        match = _KEY_VALUE.match(self.line) if ":" in self.line or "：" in self.line or "=" in self.line or "|" in self.line else None
        what = _KEYS.get(re.sub(r"^gpu ?\d{1,2}$", "gpu", _key(match["key"]))) if match else None
        if not match or what is None:
            return False
        said = self.say(_values(what, answer_of(match["value"]).rstrip(" |*`")))
        if said and what in ("torch", "python", "os", "driver") and re.search("[,;]", match["value"]):
            self._products()  # "torch: 2.5.1, RTX 4070"
        return said

    def _mentions(self, products: bool = True) -> None:
        line = self.line
        if re.search("uninstall|existing installation", line, re.IGNORECASE):
            return  # pip takes it away
        for match in _BANNER.finditer(line):
            self.say(_python(match["python"]) if match["python"] else _torch(match["torch"]))
        for match in _BANNER_GPU.finditer(line):
            self.say(iter([("gpu", (match[2].strip(), 1))]))
        if _PYTHON_PRINTED.match(line):
            self.say(_python(line[7:]))
        yours = _YOURS.search(line)
        if yours:
            self.say(_torch(yours[1]))
        if bare := _BARE.fullmatch(line):
            self.say(_torch(bare[1]))
        if path := _PYTHON_PATH.search(line):
            self.say(iter([("python.version", f"{path[1]}.{path[2]}")]), printed=False)
        if (none := _NO_CUDA.search(line)) and not _CONDITION.search(line[: none.start()]) and not re.search(r"[\w)]\(|\braise\b", line):
            self.say(iter([("devices.available", False)]), printed=False)
        if _COMMAND.match(line) or any(sign in line for sign in _ERRORS):
            if line.startswith("# "):  # the title of a post: an error, and the card that has it
                self._products()
                return
            if (error := _ERROR.search(line)) and not any(sign in line[: error.start()] for sign in _ERRORS):
                self._part(line[: error.start()], yours, products)
            if products and (behind := _told_behind(line)):
                self._part(behind, yours, products)
            return
        self._sentence(yours, products)

    def _part(self, part: str, yours: re.Match[str] | None, products: bool) -> None:
        whole, self.line = self.line, part
        self._sentence(yours, products)
        self.line = whole

    def _sentence(self, yours: re.Match[str] | None, products: bool) -> None:
        """What a person says in a sentence, or before or behind an error on the line."""
        line = self.line
        if offered := _OFFERED.search(line):
            self.say(iter([("driver.cuda", offered["smi"] or offered["only"])]), printed=False)
        for what, pattern in (("torch", _VERSION), ("python", _PYTHON_SAID), ("driver", _DRIVER_SAID), ("macos", _MACOS_SAID)):
            if what == "torch" and not pattern.search(line) and not re.search("audio|vision|text|xformers", line):
                pattern = _BUILD
            for match in pattern.finditer(line):
                role = Role.BUILT_FOR if yours and what == "torch" else _mention(line, match.start(), match.end())
                self.say(_VALUES[what](match[1]), role, printed=False)
        for match in _COMPANION.finditer(line):
            version = Distribution(match[1], match[2])
            self.say(iter([(f"package.{match[1]}", version)]), _mention(line, match.start(), match.end()), printed=False)
        if products:
            self._products()

    def _products(self) -> None:
        for match in _PRODUCT.finditer(self.line):
            self._product(match)
        for match in _BARE_NUMBER.finditer(self.line):
            name = f"{'GTX' if match[1][0] == '1' else 'RTX'} {match[1]}"
            self.say(iter([("gpu", (name, 1))]), _mention(self.line, match.start(), match.end()), printed=False)
        for match in _GENERATION.finditer(self.line):
            self.say(iter([("generation", match[1] or match[2])]), _mention(self.line, match.start(), match.end()), printed=False)

    def _product(self, match: re.Match[str]) -> None:
        start, end = match.span()
        if re.match(r"[ -]series\b", self.line[end:], re.IGNORECASE):
            return  # which card of it, nobody says
        around = self.line[max(0, start - 1) : start] + re.sub(r"^[.:](?!\w)", " ", self.line[end : end + 2])[:1]
        if _SHORT_PRODUCTS.search(match[1]) and re.search(r"[/_:.]", around):
            return  # part of a path or of another name
        before = re.search(r"(\d{1,2})\s?[x×*卡块张]?\s?(?:GPUs? )?$", self.line[max(0, start - 11) : start])
        number = int(before[1]) if before and 0 < int(before[1]) <= 16 else 1
        aged = _OF_AN_AGE.search(self.line[:start])
        role = _mention(self.line, aged.start() if aged else start, end)
        short = "Tesla " if _OF_TESLA.match(match[1]) else "Radeon RX " if _OF_RADEON.match(match[1]) else ""
        name = short + match[1].strip()
        self.say(iter([("gpu", (name, number))]), role, printed=False)


def _key(text: str) -> str:
    return " ".join(re.sub(r"\s\(.{0,60}\)$|[*`_]{1,3}$", "", text.strip()).lower().split())


_HINTS = re.compile(
    r"[tT]orch|TORCH|GPU|gpu|显卡|rafik|reiber|RTX|GTX|Radeon|RX ?\d|\+c(?:pu|u\d)|Python|python|river|OS|acOs|acos|Operating|ystem"
    r"|系统|驱动|Device|CUDA|cuda|nvidia|[Cc]ard\b|GeForce|Quadro|T(?:ITAN|itan)\b|\b(?:GT ?|MX)\d|\b[1-5]0[5-9]0\b|[AHVBPKL]\d{2,4}S?\b"
)


# ---- whose paths they are

_PLATFORMS = tuple(
    (name, re.compile("|".join(signs), re.MULTILINE))
    for name, signs in {
        "wsl": (
            r"/usr/lib/wsl/|/mnt/[c-z]/|microsoft-standard-WSL",
            r"\b(?i:(?:under|in|on|with|inside|using|through) WSL ?[12]?)\b|^\W{0,6}\[[xX]\] WSL ?[12]\b",
            r"\b(?i:(?:default|the|my) WSL ?2? (?:ubuntu|debian|distro|distribution))\b",
            r"^[^\n]{0,40}\bWSL2?:? (?:Ubuntu|Debian)|^\W{0,6}(?i:WSL(?: version)?:? 2\.\d)",
        ),
        "windows": (
            r"(?<![\w/])[A-Z]:\\{1,2}\w|\bWinError \d|\bwin-64::|\[MSC v\.|\bDLL load failed\b|\w\.(?:dll|pyd)\b|\bwin_amd64\b",
            r"\b(?i:triton-windows)\b",
            r"(?<![0-9A-Za-z_])(?i:win(?:dows ?)?(?:10|11)|windows server)(?![0-9A-Za-z])",
            r"\b(?:on|under) (?i:(?:(?:a|my|the|native) )?windows)\b(?! of\b| size)",
            r"\b(?i:windows (?:machine|laptop|desktop|pc|system|user|box))\b",
            r"\bwindows_portable\b|\bpython_embeded\b|\b(?:webui-user|run_nvidia_gpu|start_windows|gui|webui|run)\.bat\b",
            r"^\W{0,6}Windows\b(?! Subsystem)|^Press any key to continue",
        ),
        "darwin": (
            r"(?<![\w.])/Users/\w|/opt/homebrew/|\bmacosx_\d|\bMacBook\b|\bApple (?:silicon|M\d)\b",
            r"\b(?:my|this) (?i:mac)(?: laptop| pro| air)?\b(?! address)",
            r"\b(?:on|to) (?:my|an?|the)(?: M\d)? (?i:mac)\b(?! address| version)",
            r"(?<![0-9A-Za-z])Mac (?:mini|Studio|M[1-9])(?![0-9A-Za-z])|(?<![0-9A-Za-z])M[1-5] (?:Max|Pro|Ultra|[Cc]hip)(?![0-9A-Za-z])",
        ),
        "linux": (r"(?<![\w.])/(?:home|root)/\w|\b(?:linux-64::|manylinux)",),
    }.items()
)


_IN_KUBERNETES = re.compile(
    r"\b(?:in|inside|within|on) (?:a |an |the |my |our )?(?:kubernetes|k8s)\b|\b(?:in|inside|within) (?:a |the |my |our )?pod\b"
    r"|\bkubectl (?:logs|exec|get|describe)\b|^\[pod/|^\s{0,8}(?:- )?apiVersion: ?[\"']?[\w./-]{2,80}[\"']?\s{0,4}$"
    r"|^\s{0,8}kind: (?:Pod|Job|PyTorchJob|Deployment|StatefulSet)\b",
    re.IGNORECASE | re.MULTILINE,
)


# NVIDIA's modules with their own Linux; the release stands behind "L4T" or in /etc/nv_tegra_release.
_JETSON = re.compile(
    r"(?<![A-Za-z0-9])Jet ?Pack ?(?:version )?\d[\d.]{0,6}|(?<![A-Za-z0-9])Jetson[ _-](?:AGX|Orin|Xavier|Nano|TX[12]|Thor)\b|"
    r"(?<![A-Za-z])(?:AGX[ _-](?:Orin|Xavier)|(?:Orin|Xavier)[ _-](?:Nano|NX|AGX))(?![A-Za-z0-9])|\bL4T (?:Release:?\W{0,6})?R?3\d\b"
    r"|-tegra\b",
    re.IGNORECASE,
)
# Machines whose processor is an ARM one, by product; the wheel tag that uv says it wants, and the folder that conda looks into.
_ARM = re.compile(
    r"(?<![A-Za-z0-9])(?:DGX[ -](?:Spark|SPARK)|GB10|GH200|GB[23]00|Grace[ -](?:Hopper|Blackwell)|(?:Jetson|AGX)[ -]Thor)(?![A-Za-z0-9])"
    r"|(?:on Linux \(|e\.g\., )[`'\"]manylinux_\d_\d{1,2}_aarch64"
    r"|https?://[^\s]{4,120}/linux-aarch64(?![\w./-])|\bplatform ?: linux-aarch64\b"  # channels and `conda info`
)
_INTEL_MAC = re.compile(
    r"[`'\"]macosx_\d{2}_\d_x86_64[`'\"]\)"
    r"|\b(?:intel (?:i[3579] )?mac|mac\w{0,8}(?: pro| air)? ?[(,]? ?(?:with )?intel)\b",
    re.IGNORECASE,
)
_L4T = re.compile(r"\b(?:L4T|R)(?:\s?(?:Release|Version))?[\s:*]{0,6}R?(3\d\.\d{1,2}(?:\.\d{1,2})?)(?![\d.])", re.IGNORECASE)


# Graphics of AMD's processors, in a text that names no card beside them.
_INTEGRATED = re.compile(r"(?<![0-9A-Za-z])Radeon(?:\(TM\)| TM)? ?(?:Graphics )?(?P<model>[678][0-9]0M)(?![0-9A-Za-z])")
_A_CARD = re.compile(r"NVIDIA|GeForce|\b[RG]TX ?\d|\bRadeon (?:RX|Pro)\b|\bRX ?\d{4}|nvidia-smi")


def _l4t(text: str, sign: str) -> str:
    """The release of NVIDIA's Linux as a text names it, by itself or by its JetPack; else what shows that it is one."""
    if release := _L4T.search(text):
        return release[1]
    jetpack = re.search(r"\bJet ?Pack ?(?:version )?(\d)", text, re.IGNORECASE)
    return {"4": "32", "5": "35", "6": "36", "7": "38"}.get(jetpack[1], sign) if jetpack else sign


# uname -a: "Darwin host 19.6.0 Darwin Kernel Version … RELEASE_X86_64 x86_64", "Linux host 5.15.0 #101 SMP … x86_64 GNU/Linux"
_UNAME = re.compile(
    r"^[^\w\n]{0,6}(?:Darwin \S{1,80} \d[^\n]{0,160}\bRELEASE_(?P<mac>X86_64|ARM64)"
    r"|Linux \S{1,80} \d[^\n]{0,160} (?P<linux>x86_64|aarch64)(?: GNU/Linux)?\s*$)",
    re.MULTILINE,
)


# A distribution that somebody names with its release; an image's tag, a path or a compiler's own version names it too, and not whose it is.
_DISTRIBUTION = re.compile(
    r"(?<![\w/:.(-])(?:(?P<name>ubuntu|debian|fedora|centos|rhel|red hat enterprise linux|rocky(?: linux)?|alma ?linux|linux mint|opensuse)"
    r"(?: linux| server| stream| desktop| workstation| leap)?[ :：]{0,2}(?:v|version )?\d{1,2}(?:\.\d{1,2}){0,2}"
    r"|(?P<rolling>arch linux|manjaro))(?![\w-])",
    re.IGNORECASE,
)
_OTHER_SYSTEM = re.compile(r"windows|\bwin ?1[01]\b|\bwsl|\bmac ?os|\bosx\b|macbook|docker|container|\bimage\b", re.IGNORECASE)


def _of_this(text: str, match: re.Match[str]) -> bool:
    """Whether a mention is about this machine, and not about an old or another one."""
    start = text.rfind("\n", 0, match.start()) + 1
    line = text[start:].partition("\n")[0]
    return _mention(line, match.start() - start, match.end() - start) is Role.HAS


def _distribution(text: str) -> Iterator[Claim]:
    """The one distribution that a text speaks of, where it speaks of no other system."""
    found = [one for one in _DISTRIBUTION.finditer(text) if _of_this(text, one)]
    said = ((one["name"] or one["rolling"]).lower() for one in found)
    names = {one.replace("red hat enterprise linux", "rhel").removesuffix(" linux").removeprefix("linux ") for one in said}
    if len(names) == 1 and not _OTHER_SYSTEM.search(text):
        line, number = line_at(text, found[0].start())
        yield Claim("system.distribution_id", names.pop().replace(" ", ""), Role.HAS, False, kept(line), number)


def _surroundings(text: str) -> Iterator[Claim]:
    yield from _distribution(text)
    if match := _UNAME.search(text):
        line, number = line_at(text, match.start())
        machine = {"X86_64": "x86_64", "ARM64": "arm64"}[match["mac"]] if match["mac"] else match["linux"]
        yield Claim("system.os", "darwin" if match["mac"] else "linux", Role.HAS, True, kept(line), number)
        yield Claim("system.machine", machine, Role.HAS, True, kept(line), number)
    elif match := _ARM.search(text):
        line, number = line_at(text, match.start())
        yield Claim("system.os", "linux", Role.HAS, False, kept(line), number)
        yield Claim("system.machine", "aarch64", Role.HAS, False, kept(line), number)
    elif match := _INTEL_MAC.search(text):
        line, number = line_at(text, match.start())
        yield Claim("system.os", "darwin", Role.HAS, False, kept(line), number)
        yield Claim("system.machine", "x86_64", Role.HAS, False, kept(line), number)
    if match := _IN_KUBERNETES.search(text):
        line, number = line_at(text, match.start())
        yield Claim("container.kubernetes", True, Role.HAS, False, kept(line), number)
    if (match := _INTEGRATED.search(text)) and not _A_CARD.search(text):
        line, number = line_at(text, match.start())
        yield Claim("gpu", (f"Radeon {match['model']}", 1), Role.HAS, False, kept(line), number)
    if match := _JETSON.search(text):
        line, number = line_at(text, match.start())
        yield Claim("system.jetson", _l4t(text, match[0]), Role.HAS, False, kept(line), number)


def _platform(text: str) -> Iterator[Claim]:
    """Where the paths and words of one platform alone occur. Windows and Linux together may be a cluster and a laptop, or two people."""
    found = {name: match for name, pattern in _PLATFORMS if (match := pattern.search(text))}
    own = next((name for name in ("wsl", "windows", "darwin") if name in found), None)
    if own is None or (own == "windows" and "linux" in found) or (own == "darwin" and len(found) > 1):
        return
    line, number = line_at(text, found[own].start())
    line = kept(line)
    yield Claim("system.os", "linux" if own == "wsl" else own, Role.HAS, False, line, number)
    if own == "wsl":
        yield Claim("system.wsl", 2, Role.HAS, False, line, number)


_NOT_NVIDIA = re.compile(r"(?<![A-Za-z])(?:rocm|hip|xpu|radeon|mps)(?![A-Za-z])", re.IGNORECASE)


def read_claims(text: str) -> tuple[Claim, ...]:
    """All claims of a text, in its order."""
    return _read(text)[0]


def _read(text: str) -> tuple[tuple[Claim, ...], tuple[Claim, ...]]:
    """All claims, and of them the answers that there is no GPU."""
    reader = _Reader([])
    if _HINTS.search(text):
        reader.read(text.split("\n"))
    claims = _without_working(reader.claims, text)
    if _NOT_NVIDIA.search(text):  # there builds for a GPU have no CUDA either
        claims = [one for one in claims if one.subject != "torch.cpu_build"]
    return (*claims, *_platform(text), *_surroundings(text)), tuple(reader.denied)


_OF_ENVIRONMENT = ("torch.version", "torch.cuda", "torch.cpu_build", "devices.available", "devices.count", "python.version")
_MENDED = re.compile(r"\b(?:now|solved|fixed|resolved|finally|works now|after (?:that|this|re|i|in|up))\b|解决", re.IGNORECASE)


def _without_working(claims: list[Claim], text: str) -> list[Claim]:
    """Two environments in one text, of which one finds its GPU and the other does not: the question is about the other.

    What is printed in one environment belongs together until a value comes that differs.
    """
    printed = [one for one in claims if one.printed and one.role is Role.HAS and one.subject in _OF_ENVIRONMENT]
    groups: list[dict[str, Claim]] = [{}]
    members: dict[int, int] = {}
    for one in printed:
        if (held := groups[-1].get(one.subject)) and not (_agree(one.value, held.value) or _agree(held.value, one.value)):
            groups.append({})
        groups[-1].setdefault(one.subject, one)
        members[id(one)] = len(groups) - 1
    finds = [getattr(group.get("devices.available"), "value", None) for group in groups]
    if True not in finds or False not in finds:
        return claims
    if finds[-1] is True and _MENDED.search(text):
        return claims  # it was mended
    return [replace(one, role=Role.ELSEWHERE) if id(one) in members and finds[members[id(one)]] is True else one for one in claims]


def settled(claims: Sequence[Claim]) -> tuple[tuple[Fact, ...], tuple[str, ...]]:
    """What this machine has beyond doubt; and where its claims disagree, what is said. Of two that agree the longer one counts;
    what a program printed comes before a sentence."""
    facts: list[Fact] = []
    doubts: list[str] = []
    if any(claim.subject == "system.macos_version" and claim.role is Role.HAS for claim in claims):  # no CUDA there says nothing of MPS
        claims = [claim for claim in claims if claim.subject != "devices.available" or "cuda" not in claim.line.lower()]
    for subject in dict.fromkeys(claim.subject for claim in claims):
        mine = [claim for claim in claims if claim.subject == subject and claim.role is Role.HAS]
        mine = [claim for claim in mine if claim.printed] or mine
        if not mine:
            continue
        if subject == "gpu":
            facts += _gpus(mine, doubts)
            continue
        if subject == "generation" and any(claim.subject == "gpu" and claim.role is Role.HAS for claim in claims):
            continue  # the card itself is named
        best = max(mine, key=lambda claim: len(str(claim.value)))
        if other := next((claim for claim in mine if not _agree(claim.value, best.value)), None):
            doubts.append(f"{subject}: {best.value} (line {best.number}), {other.value} (line {other.number})")
        elif subject == "generation":
            facts.append(Fact("gpu.0", Gpu(0, str(best.value)), best.line, best.number))
        else:
            facts.append(Fact(subject, best.value, best.line, best.number))
    return tuple(facts), tuple(doubts)


def _agree(short: object, long: object) -> bool:
    a, b = str(short).lower(), str(long).lower()
    return a == b or (b.startswith(a) and b[len(a)] in "+. ")


def _gpus(claims: Sequence[Claim], doubts: list[str]) -> Iterator[Fact]:
    """One product, and how many of it; names of two products in passing say nothing of which one is meant."""
    named = [(*claim.value, claim) for claim in claims if isinstance(claim.value, tuple)]
    name, _, claim = max(named, key=lambda row: len(row[0]))
    other = next((one for one, _, _ in named if not _one_card(one, name)), None)
    if other and all(gpu_vendor(one) == "amd" for one, _, _ in named):  # whichever is meant, it is no NVIDIA card
        yield Fact("rocm.names", tuple(dict.fromkeys(one for one, _, _ in named)), claim.line, claim.number)
        return
    if other:
        doubts.append(f"gpu: {name}, {other}")
        return
    vendor = gpu_vendor(name)
    count = max(number for _, number, _ in named)
    if vendor == "amd":
        yield Fact("rocm.names", (name,) * count, claim.line, claim.number)
    elif vendor == "intel":
        yield Fact("xpu.names", (name,) * count, claim.line, claim.number)
    elif vendor == "nvidia":
        for index in range(count):
            yield Fact(f"gpu.{index}", Gpu(index, name), claim.line, claim.number)


_MAKERS = re.compile(r"\b(?:nvidia|geforce|amd|radeon|tesla|quadro|intel|graphics|gpu|\(tm\))\b|[^a-z0-9]", re.IGNORECASE)


def _one_card(a: str, b: str) -> bool:
    short, long = sorted((_MAKERS.sub("", a.lower()), _MAKERS.sub("", b.lower())), key=len)
    return bool(short) and (long.startswith(short) or long.endswith(short))


# What a text shows as a whole
_SIGNS = (missing_ranks, replaced_torch, cpu_beside_cuda, interpreters_differ, conda_conflict, traced_paths, told_around, told_hosts)


def read_prose(text: str) -> Found | None:
    """The claims of a text, the facts that they amount to, and what they are a sign of."""
    claims, denied = _read(text)
    missing = tuple(sign for signs in _SIGNS for sign in signs(text))
    if not claims:
        return Found("statements", (), missing, 0, (), ()) if missing else None
    facts, doubts = settled(claims)
    none = any(fact.path == "devices.available" and fact.value is False for fact in facts)
    # The same words on one line are the symptom "cuda-says-false"; here the answer stands further below.
    hosted = re.search("colab|kaggle", text, re.IGNORECASE)
    variant = hosted[0].lower() if hosted else ""
    says = f"torch.cuda.is_available(): {denied[0].line}" if denied else ""
    sign = TextEvidence("statements", says, "torch-cuda-unavailable", "cuda-says-false", variant=variant)
    return Found("statements", facts, (*((sign,) if denied and none else ()), *missing), 0, claims, doubts)
