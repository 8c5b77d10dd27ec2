"""What a person tells by several words together, none of which tells it alone: a card and a failure, a release and the driver that stayed.

    Cannot install this on my RTX 5090           "No GPU detected", on an RX 9070 XT           Python 3.13, and pip has no torch 2.3
    after `apt upgrade` nvidia-smi fails         训练到一半进程被 Killed                        is_available() is False in the container

All of it is likely at most, and silent where a message of a program or a complaint in plain words says more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.facts.record import record
from envcheck.facts.snapshot import TextEvidence
from envcheck.read.endings import words
from envcheck.read.found import LINE_LIMIT, line_at


def _any(pattern: str) -> re.Pattern[str]:
    return words(pattern, re.IGNORECASE)


# Something does not work, in the languages of posts
_TROUBLE = _any(
    r"\bfail(?:s|ed|ing|ure)?\b|\berrors?\b|\bcrash\w{0,3}\b|\bbroken?\b|\bstop(?:s|ped) (?:working|at)\b|\bdies?\b|\bunusable\b|\bsegfault"
    r"|\b(?:can ?not|can['’]?t|could ?n['’]t|unable|does ?n['’]?t|do ?n['’]?t|does not|do not|is ?n['’]t|won['’]t|no longer"
    r"|never|not) (?:\w{1,12} ){0,2}"
    r"(?:work|run|install|start|launch|use|see|find|load|usable|support|supported|available|possible|build|compile)\w{0,3}\b"
    r"|\bcannot\b|\bnothing (?:runs|works)\b|\b(?:has|is|are) gone\b|\bgone\b|\bcloses? (?:itself|immediately)"
    r"|\bno kernel image\b|\bFalse\b"
    r"|\bthrows\b|\bproblems? (?:with|running|installing)"
    r"|无法|不能|不行|不了|没法|报错|失败|退出|崩溃|错误|不支持|不可用|起不来|没(?:有)?反应"
    r"|не (?:работает|запуска|видит|удаётся|удается|могу|получается)|перестал|ошибк|падает|вылетает"
    r"|\b(?:geht|läuft|funktioniert|startet|klappt)\b[^.\n]{0,20}\bnicht|\bFehler\b|\bstürzt|\bbricht [^.\n]{0,20}ab"
    r"|\bimpossible\b|\bne (?:marche|fonctionne|démarre)|\berreur|\bplante\b|\bno (?:funciona|arranca|puedo|va)\b|\bfalla\b"
    r"|\bnão (?:funciona"
    r"|consigo|roda)|\berro\b|\bnon (?:funziona|parte)|\berrore"
    r"|エラー|動(?:か|き)(?:ない|ません)|使え|失敗|できな|できませ|落ち|오류|안 ?(?:되|돼|됩)"
)
_NO_GPU = _any(
    r"\b(?:no|without)(?: \w{1,12})? gpus?(?: \w{1,10}){0,2} ?(?:detected|found|available|visible|devices?)?\b(?!-)"
    r"|\bgpu(?: is|s are)? ?(?:not|n['’]t) (?:\w{1,10} )?(?:detected|found|used|visible|recognized|available)"
    r"|\b(?:can['’]?t|cannot|could ?n['’]t|does ?n['’]t|did ?n['’]t|unable to|not?) (?:\w{1,10} )?(?:find|detect|see|use|recogni[sz]e"
    r"|utili[sz]e) (?:\w{1,12} ){0,3}(?:gpu|card|cuda)"
    r"|\b(?:using|runs?|running|uses?|fall\w{0,4} back|only|just|everything)(?: \w{1,8}){0,3} (?:on|to|my|the|via)? ?(?:the |my )?cpu\b"
    r"|\bon cpu only\b|\bcpu only\b|is_available\b[^.\n]{0,24}\bfalse\b|device_count\b[^.\n]{0,12}\b0\b|\bcuda (?:is "
    r"|was )?false\b|\bno cuda\b"
    r"|\b(?:gpu|cuda) (?:has |is )?(?:gone|missing)\b|\bcuda (?:is ?n['’]t|is not|was ?n['’]t) (?:found|available)"
    r"|(?:没有?|未|未能|检测不到|找不到|识别不|无)(?:检测到|找到|识别到|发现)?\s?(?:gpu|cuda|显卡)|(?:gpu|显卡)\S{0,8}(?:用不了|不可用|没用"
    r"|占用为 ?0)|不能用 ?gpu|没有 ?cuda"
    r"|\bkeine? (?:gpu|cuda|grafikkarte)\b|\bnur (?:die |auf der |auf )?cpu|\b(?:va|corre|se ejecuta|tourne"
    r"|gira) (?:\w{1,8} )?(?:por|en|sur"
    r"|su|na) (?:la |le )?cpu|нет (?:gpu|cuda)|на (?:цп|cpu|процессоре)|GPUなし|CPUで(?:動|実行)"
)
_AMD = _any(r"\b(?:rx ?-?\d{4}\w{0,2}|radeon|780m|890m|8060s|strix[ -]?halo|instinct|mi[1-3]\d{2}\w?|[67]900 ?xtx?|90[67]0 ?(?:xt|gre))\b")
_MAC = _any(r"\bmac(?:book| ?mini| ?studio| ?os|s)?\b|\bapple silicon\b|\bimac\b|苹果电脑")
_NEWEST = _any(
    r"\b(?:rtx|geforce)? ?-?50[5-9]0 ?(?:ti|d|super|laptop)?\b|(?<!\d)50[5-9]0(?!\d)(?= ?(?:显卡|笔记本|环境|的|之|，|跑|用|装|上|无))"
    r"|\bblackwell\b|\b(?:gb?[23]00|b[23]00)\b|\bsm_?1[0-2][0-3]\b|\b50(?:xx)? ?-?series\b|50 ?系|\brtx pro [2-6]000\b"
)
_FIT_FOR_NEWEST = _any(
    r"\bcu(?:12[89]|13\d)\b|\b(?:torch|pytorch)\S{0,4}[ =v]{0,3}2\.(?:[7-9]|1\d)\b|\bout of (?:gpu |cuda )?(?:memory|vram)|显存不足"
    r"|\boom\b|\bhang|\bnccl (?:error|warn|info|timeout)"
)
_SETUP = _any(
    r"\binstall|\brequirements?\b|\bsupport\b|\bimage\b|\b(?:torch|pytorch)\S{0,4}[ =v]{0,3}(?:1\.\d|2\.[0-6])|\bcu1(?:1\d|2[0-6])\b"
    r"|\bcuda ?1[12]\.[0-6]\b|安装|环境|装|换了|\binstall|\bkernel\b|\b(?:old|other|previous|friend['’]?s|before)\b|ancien|vorher|alte"
    r"|постав|нов\w{2} видеокарт|раньше|до этого|anterior|以前"
)
_KEPLER = _any(r"\b(?:gt|gtx) ?[4-7]\d0(?:m| ?ti)?\b|\b(?:tesla )?k[248]0m?\b|\bquadro k\d{3,4}\b|\bgt ?7[1-4]0\b|\bkepler\b|\bfermi\b")
_PASCAL = _any(
    r"\b(?:gtx ?)?(?:9[5-8]0|10[3-8]0) ?(?:ti)?\b|\btitan ?(?:v|x|xp)\b|\b(?:tesla )?[pmv]100\b|\bp40\b|\bp4\b|\bm[46]0\b"
    r"|\bquadro [mp]\d{3,4}\b"
    r"|\b(?:pascal|maxwell|volta)\b"
)
_NEW_BUILD = _any(
    r"\bcu(?:12[89]|13\d)\b|\b(?:torch|pytorch)\S{0,4}[ =v]{0,3}2\.(?:[89]|1\d)\b|\bimage update\b|\bcuda ?1(?:2\.[89]|3(?:\.\d)?)\b"
)
_DRIVER = _any(
    r"\b(?:driver|treiber|pilote|controlador|nvidia)(?: is| ist|s)?(?: version)?[ :=(v]{0,3}(?P<a>[3-6]\d\d)(?:\.\d{1,3}(?:\.\d{1,2})?)?\b"
    r"|(?:驱动(?:程序)?|ドライバー?|драйвер)(?:版本|是|的|为|のバージョン|は)*[ :：]{0,3}(?P<b>[3-6]\d\d)(?:\.\d{1,3})?(?!\d)"
)
_CUDA_OF_BUILD = _any(r"\bcu(?P<a>11|12|13)\d\b|\bcuda ?(?:to |version |toolkit )?(?P<b>1[123])(?:\.\d)?\b")
_FLOORS = {"11": 450, "12": 525, "13": 580}  # the first driver branch of each CUDA, as `rules/compat/cuda-driver` has them by the minor
_CONTAINER = _any(r"\b(?:docker|podman|container|compose|dockerfile)\b|容器|コンテナ|контейнер")
_ON_HOST = _any(
    r"\b(?:on|from) (?:the |my )?host\b|\bhost (?:has|machine|is|itself|system)\b"
    r"|nvidia-smi[^.\n]{0,30}(?:works|fine|ok)|宿主机|auf dem Host"
    r"|на хосте|docker run"
)
_GPUS_GIVEN = _any(r"--gpus\b|--device\b|\bnvidia\.com/gpu|\bcapabilities: ?\[|runtime: ?nvidia|deploy:|NVML")
_WORD_FOR_CUDA = _any(r"\bCUDA_VISIBLE_DEVICES['\"]?\s?[:=]\s?['\"]?(?P<word>all|any|auto|gpu|true|void|cuda(?::\d)?)\b")
_NO_GPU_AT_ALL = _any(rf"{_NO_GPU.pattern}|No CUDA GPUs are available")
_ONE_HIDDEN = _any(r"\bCUDA_VISIBLE_DEVICES['\"]?\]?\s?[:=]\s?['\"]?(?P<asked>[1-7])\b")
_ONE_CARD = _any(
    r"\b(?:one|a single|only one|1) (?:\w{1,8} )?(?:gpu|card)\b|只有一[张块]|单[卡张]|\b(?:eine|nur eine) (?:gpu|karte)"
    r"|\bodna\b|одна (?:видео)?карта"
)
_FLASH = _any(r"\bflash[-_ ]?att(?:n|ention)\b")


@record
class _Gist:
    """Words that stand together, the rule they speak of, and what speaks against it. The line of the first is shown."""

    rule: str
    variant: str
    every: tuple[re.Pattern[str], ...]
    unless: re.Pattern[str] | None = None


_GISTS = (
    _Gist("rocm-gfx-unsupported", "aiter", (_any(r"\bVLLM_ROCM_USE_AITER['\"]?\s?[:=]\s?['\"]?(?:1|true)"), _TROUBLE)),
    _Gist("visible-devices-unreadable", "word", (_WORD_FOR_CUDA, _NO_GPU_AT_ALL)),
    _Gist(
        "driver-library-mismatch",
        "code",
        (_any(r"\bmismatch\b[^.\n]{0,40}\bdriver|\bdriver\b[^.\n]{0,40}\bmismatch"), _any("nvidia-smi|nvml")),
    ),
    _Gist("driver-not-loaded", "signed", (_any(r"\bkey was rejected\b|\bsecure boot\b"), _any(r"\bnvidia\b"), _TROUBLE)),
    _Gist(
        "driver-not-loaded",
        "default",
        (
            _any(r"nvidia-smi[^.\n]{0,50}(?:can ?not|can['’]t|could ?n['’]t|fail\w{0,3}|no longer|doesn['’]t|geht nicht|不了|не )"),
            _any(r"\b(?:kernel|apt|dnf|update|upgrade|reboot|dist-upgrade)\b|内核|升级|更新|ядр|обновлен"),
        ),
        _any(r"\bwsl\b|\bwindows\b|\bcontainer\b|\bdocker\b|\bmismatch\b"),
    ),
    # one field with ERR! in nvidia-smi's table is a passing misreading: a person who tells of it means more
    _Gist(
        "gpu-needs-reset",
        "",
        (_any(r"\b(?:shows?|showing|says?|prints?|gives?|reads?|displays?) \W?ERR!|\bunable to determine the device handle\b"),),
    ),
    _Gist(
        "rocm-permission", "default", (_any(r"\bsudo\b[^.\n]{0,60}\b(?:only|works?)\b|\bonly (?:as|with) (?:root|sudo)\b"), _AMD, _NO_GPU)
    ),
    _Gist(
        "rocm-gfx-unsupported",
        "unnamed",
        (_any(r"\brocm|\bhip\b"), _AMD, _any(r"\bsegfault|\bsegmentation|invalid device function|段错误|\bcore dumped")),
    ),
    _Gist(
        "torch-cpu-build",
        "mac",
        (_MAC, _any(r"\bcuda\b"), _any(r"\binstall|\bstops?\b|not compiled|\bversion\b|will cuda|\bcall")),
        _any(r"\bmps\b|\bwindows\b|\bof course\b|\blinux (?:box|server)"),
    ),
    _Gist("torch-cpu-build", "jetson_usual", (_any(r"\b(?:jetson|orin|xavier|jetpack)\b"), _any(r"\btorch\b"), _NO_GPU)),
    _Gist("visible-devices-out-of-range", "", (_ONE_HIDDEN, _ONE_CARD, _NO_GPU), _any(r"\bMIG\b")),
    _Gist(
        "torch-cpu-build",
        "xpu_said",
        (
            _any(
                r"\b(?:intel )?arc\b[^.\n]{0,20}\b[ab]\d{3}\w?\b|\b(?:intel"
                r"|arc)\b[^.\n]{0,12}\bb5[78]0\b"
            ),
            _NO_GPU,
        ),
    ),
    _Gist("torch-cuda-unavailable", "colab", (_any(r"\bcolab\b"), _NO_GPU)),
    _Gist("torch-cuda-unavailable", "kaggle", (_any(r"\bkaggle\b"), _NO_GPU)),
    _Gist("gpu-mig", "empty", (_any(r"\bMIG\b(?! M\.)"), _any(r"\bMIG (?:mode|instance|slice|device|\d+g)"), _NO_GPU)),
    _Gist("gpu-too-new-for-torch", "told", (_NEWEST, _TROUBLE, _SETUP), _FIT_FOR_NEWEST),
    _Gist("gpu-too-old-for-torch", "told", (_KEPLER, _any(r"torch\b"), _TROUBLE)),
    _Gist("gpu-too-old-for-torch", "told", (_PASCAL, _NEW_BUILD, _TROUBLE), _any(r"\bhang|\bout of memory|\bnccl\b")),
    _Gist("rocm-build-mismatch", "told", (_AMD, _NO_GPU), _any(r"\+rocm|whl/rocm|\bdirectml|\bsudo\b|\bzluda")),
    _Gist("container-without-gpu", "guess", (_CONTAINER, _ON_HOST, _NO_GPU), _GPUS_GIVEN),
    _Gist(
        "torch-cpu-build",
        "sign",
        (
            _any(r"\bpy3\.?\d{1,2}_cpu|\bcpu (?:version|wheel|build|variant)\b|\d\+cpu\b|cpu ?版"),
            _any(r"torch"),
            _any(r"\bgpu\b|\b[rg]tx\b|\bcuda\b"),
        ),
        _any(r"\b(?:I|we) (?:want|need) the cpu\b|\bno (?:nvidia )?gpu in\b"),
    ),
    _Gist(
        "no-matching-wheel",
        "",
        (
            _any(r"\bpython(?: is| version)?:? ?(?:3\.1[3-9]|2\.7|[^.\n]{0,12}32[- ]?bit)|\bpython\b[^\n]{0,30}\b32[- ]?bit"),
            _any(r"\btorch\b"),
            _any(
                r"\bpip\b[^.\n]{0,60}(?:no (?:version|match|release)|nothing|not f|can['’]t|cannot|could not)|\bnothing found\b"
                r"|找不到|没有(?:匹配|合适)"
            ),
        ),
    ),
    _Gist(
        "host-memory-low",
        "killed",
        (
            _any(r"[`\"„“']?\bKilled\b[`\"”“']?|\bOOM-?Killed\b|\bGetötet\b|被系统? ?(?:杀|kill)|进程被杀|\bУбито\b|強制終了|\bTué\b"),
            _any(r"\btrain|\bload|\bmodel|\bcheckpoint|\bepoch|训练|加载|模型|Laden|обучен|学習|モデル|modèle"),
        ),
        _any(
            r"\b(?:I|we|we've|i've) (?:have )?(?:just )?killed\b|\bkilled (?:it|the (?:job|run)) (?:by hand|myself|manually)"
            r"|\bkill -9\b|\bscancel\b"
        ),
    ),
    _Gist(
        "xformers-mismatch",
        "",
        (_any(r"\bxformers\b"), _any(r"\b(?:replaced|changed|downgraded|upgraded|went from|pulled)\b|覆盖|替换"), _any(r"\btorch\b")),
    ),
    _Gist(
        "wsl-driver",
        "unseen",
        (
            _any(r"\bwsl ?2?\b"),
            _any(r"\binstall\w{0,2} (?:\w{1,12} ){0,3}(?:nvidia-)?driver|nvidia-driver-\d|runfile"),
            _any(r"\b(?:gpu|cuda)\b"),
            _NO_GPU,
        ),
    ),
    _Gist(
        "flash-attn-mismatch",
        "",
        (
            _FLASH,
            _any(r"\b(?:find|there|missing|no module)\b[^.\n]{0,30}torch|torch[^.\n]{0,30}(?:missing|not (?:there|found))"),
            _any(r"\binstall"),
        ),
    ),
    _Gist(
        "flash-attn-mismatch",
        "memory",
        (
            _FLASH,
            _any(r"\binstall|\bbuild|\bcompil|编译|安装"),
            _any(r"\bfreez|\bfrozen|\bunresponsive|\bhours\b|\bRAM\b|内存|死机|卡死|\bhang|зависа"),
        ),
        _any(r"\bMAX_JOBS\b"),
    ),
    _Gist(
        "nvcc-host-compiler",
        "",
        (
            _any(r"\bnvcc\b"),
            _any(
                r"\b(?:gcc|g\+\+)\b[^.\n]{0,40}(?:later|newer|unsupported|not supported|too new)|unsupported[^.\n]{0,30}(?:gcc"
                r"|host compiler|gnu)"
            ),
        ),
    ),
    _Gist("nvcc-host-compiler", "missing", (_any(r"\bcl\.exe\b"), _any(r"\bfind|\bmissing\b|\bnot\b|找不到"))),
    _Gist(
        "cuda-home-missing",
        "said",
        (
            _any(
                r"\bnvcc\b[^.\n]{0,24}\bnot found\b|\bwants nvcc\b|\bno nvcc\b|找不到 ?nvcc|\bCUDA_HOME\b[^.\n]{0,30}(?:n['’]t|not"
                r"|does|missing|没有)"
            ),
            _any(r"\binstall|\bbuild|\bcompil|setup\.py|编译"),
        ),
    ),
    _Gist(
        "nvcc-major-mismatch",
        "said",
        (_any(r"\bnvcc\b"), _any(r"\btorch\b"), _any(r"\bversions? (?:differ|do ?n['’]t match|mismatch)|\bdiffer|不一致|不匹配")),
    ),
    _Gist("torch-companion-mismatch", "", (_any(r"\btorchvision\b"), _any(r"\bnms\b"), _TROUBLE)),
    _Gist("bitsandbytes-broken", "", (_any(r"\bbitsandbytes\b"), _any(r"\bwithout gpu\b|\bno gpu\b|\bcpu\b"), _TROUBLE)),
    _Gist(
        "numpy-abi", "", (_any(r"\bnumpy\b[^.\n]{0,40}\b2\b"), _any(r"\btorch\b"), _any(r"compiled (?:with|using|against) numpy|\bcrash"))
    ),
    _Gist("glibc-too-old", "", (_any(r"\bGLIBC(?:XX)?_?\d[\d.]*|\bglibc\b"), _any(r"\bnot found\b|找不到|нет"), _any(r"\btorch|\bimport"))),
    _Gist("triton-toolchain", "", (_any(r"\btriton\b"), _any(r"\bwindows\b"), _any(r"\btorch\.compile\b"), _TROUBLE)),
)


def gists(text: str) -> Iterator[TextEvidence]:
    """What a post says by its words together, the most telling first."""
    yield from _driver_of_build(text)
    for gist in _GISTS:
        if gist.unless and gist.unless.search(text):
            continue
        found = [pattern.search(text) for pattern in gist.every]
        if all(found) and (first := found[0]):
            yield _evidence(text, first, gist.rule, gist.variant, {name: one for name, one in first.groupdict().items() if one})


def _driver_of_build(text: str) -> Iterator[TextEvidence]:
    """A driver and a CUDA that the build in the post is for, where the one is older than the other needs."""
    driver, cuda = _DRIVER.search(text), list(_CUDA_OF_BUILD.finditer(text))
    if driver is None or not cuda or not (_TROUBLE.search(text) or _NO_GPU.search(text)):
        return
    branch, asked = driver["a"] or driver["b"], max(one["a"] or one["b"] for one in cuda)
    if int(branch) < _FLOORS[asked]:
        values = {"driver": branch, "cuda": asked, "minimum": str(_FLOORS[asked])}
        yield _evidence(text, driver, "driver-too-old", "", values)


def _evidence(text: str, match: re.Match[str], rule: str, variant: str, values: dict[str, str]) -> TextEvidence:
    line = line_at(text, match.start())[0].strip()[:LINE_LIMIT]
    return TextEvidence("complaints", line, rule, f"gist-{rule}", values, variant=variant, confidence="likely")
