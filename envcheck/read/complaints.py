"""What a person complains of in prose, in the languages that people write in: the GPU is not used, memory ran out, a number of the kernel
log, a program that ended with a code, a machine that switches itself off.

    GPU wird nicht genutzt            一启动就 exit 132 退出              In the log there was an `xid 149` error
    Почему CUDA не видна?             训练到一半爆显存了                  My PC reboots as soon as training starts

A program's own message says more: where one is known, a complaint only repeats it (`merge`). All of it is likely at most.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.facts.record import record
from envcheck.facts.snapshot import TextEvidence
from envcheck.read.endings import endings, words
from envcheck.read.found import LINE_LIMIT, Found, line_at
from envcheck.read.gists import gists

POST = 64 << 10  # characters of what a person writes; what goes on for longer is a log
UNUSED = "gpu-unused"

_CARD = r"(?:GPU|gpu|Gpu|graphics? card|video card|CUDA|cuda|Cuda|Radeon|RTX|rtx|GTX|gtx|[Aa]rc|egpu|eGPU|dGPU)"
_NOT = r"(?:not|n['’]t|nt|never|no longer)"
_SEEN = r"(?:used|utili[sz]ed|detected|recogni[sz]ed|found|seen|visible|working|picked up)"
_SEE = (
    r"(?:us(?:e|es|ing)|utili[sz](?:e|ing)|detect(?:ing)?|recogni[sz](?:e|ing)|see(?:ing)?|find(?:ing)?|pick(?:ing)? up"
    r"|run(?:ning)? on|go(?:ing)? on(?:to)?)"
)
_WHOSE = r"(?:(?:my|the|any|a|this|our|nvidia|NVIDIA|Nvidia|cuda|CUDA|amd|AMD|Intel|intel|dedicated|second|discrete) ){0,4}"
_KARTE = r"(?:GPU|CUDA|Grafikkarte|NVIDIA|Nvidia)"
_CARTE = r"(?:GPU|CUDA|carte graphique|tarjeta gráfica|tarjeta|placa de vídeo|placa|scheda video|scheda|gráfica)"
_KARTA = r"(?:[Вв]идеокарт\w{1,2}|CUDA|GPU|Cuda|cuda|gpu|видеоядро)"
_XIANKA = r"(?:GPU|gpu|CUDA|cuda|Cuda|[Nn]卡|独显|独立显卡|显卡)"

_UNUSED = words(
    rf"\b{_CARD}s?(?: (?:is|are|was|were|still|just|simply|does|do|at all|memory|seems?|to be))*? ?(?:is|are|was|were|do|does)?"
    rf" ?{_NOT}(?: (?:being|getting|even|be))? {_SEEN}"
    rf"|\b(?:is|are|do|does|did|will|wo|ca|can|could|would|were|was)? ?(?:{_NOT}|fails? to|unable to|refuses to) (?:even |be |being "
    rf"|seem to )?{_SEE}"
    rf"(?: on)? {_WHOSE}{_CARD}\b"
    r"|\b(?:runs?|running|trains?|training|stays?|everything)(?: (?:is|only|just|still|always|entirely|completely|done|run"
    r"|runs))? on (?:the |my )?(?:CPU|cpu)"
    r"(?: only)? (?:instead|rather|and not|not on)"
    r"|\b[Hh]ow (?:do|can|to|could|should) (?:I |we )?(?:get|make|have|force) (?:it|py ?torch|torch|this|the \w{1,20}"
    r"|\w{1,20}) (?:to )?(?:use|run on|work (?:on|with))"
    rf" {_WHOSE}{_CARD}|\bhave it use {_WHOSE}{_CARD}"
    rf"|(?:没有?|未能?|不能?|无法|没法|不会|怎么没|并没有|并未)(?:使用|用到|用上|用|调用|检测到|识别到?|跑在|利用到?|走)(?:上"
    rf"|到)? ?{_XIANKA}"
    rf"|{_XIANKA} ?[^。，,\n]{{0,8}}?(?:没有?(?:被)?(?:用|使用|调用|识别|检测|跑)|用不了|用不上|不可用|识别不(?:了|到|出)|检测不到"
    rf"|不工作|没反应|调用不)"
    r"|(?:gpu|GPU|显卡)的?(?:利用率|占用率?|使用率)[^。\n\d]{0,8}?0(?![\d.])"
    r"|\b(?:falls?|fell|falling|defaults?|defaulting) (?:back )?to (?:the |my )?(?:CPU|cpu)\b"
    r"|跑在 ?(?:CPU|cpu) ?上?,?，?而?不是|只(?:能)?(?:用|跑|在用|使用)(?:在)? ?(?:CPU|cpu)(?! ?版)"
    rf"|{_KARTE} (?:wird|werden) (?:\w{{1,12}} )?nicht (?:\w{{1,12}} )?(?:genutzt|benutzt|verwendet|erkannt|gefunden)"
    rf"|(?:nutzt|benutzt|verwendet|erkennt|findet|sieht) (?:meine?|die|keine?|meine eigene) (?:\w{{1,12}} )?{_KARTE}(?: nicht)?"
    r"|läuft (?:alles |nur |immer |weiterhin ){0,2}(?:auf|über) (?:der|die) CPU"
    rf"|\b(?:no|não|non) (?:me )?(?:detecta|usa|utiliza|reconoce|reconhece|encuentra|encontra|rileva|vede|riconosce|trova) (?:(?:mi"
    rf"|la|el|a|minha|mia) ){{0,2}}{_CARTE}"
    rf"|(?:n['’]utilise|ne détecte|ne reconna[iî]t|ne trouve|ne voit) (?:pas )?(?:(?:mon|ma|le|la) ){{0,1}}{_CARTE}"
    r"|(?:GPU|carte graphique) n['’]est pas (?:utilisée?|détectée?|reconnue?)"
    rf"|{_KARTA} ?[^.\n]{{0,16}}?(?:не (?:видна|видно|виден|доступн\w{{1,2}}|определяется|используется|работает|найден\w?"
    rf"|обнаружен\w?|задействован\w?)|недоступн\w{{1,2}})"
    rf"|не (?:видит|использует|находит|определяет) {_KARTA}"
    r"|(?:GPU|CUDA|グラボ)(?:が|を|は)?(?:認識され|認識し|使われ|使用され|使え|検出され|利用でき|動作し)(?:ません|ない|なく|ず)"
    r"|GPU(?:가|를|을)? ?(?:인식|사용|감지)(?:이|을)? ?(?:안|되지|하지|못)"
)

_ABOUT_GPU = words(r"\bv?ram\b|gpu|cuda|nvidia|\b[rg]tx\b|\b[ahv]100\b|显存|显卡|\b[2-5]0[5-9]0\b|видео|batch", re.IGNORECASE)
_ABOUT_HOST = words(
    r"(?<!v)(?<!v )\bram\b|dataloader|data loader|num_workers|swap|\bhost\b|main memory|内存|оперативн|Arbeitsspeicher", re.IGNORECASE
)
_NO_MEMORY = words(
    r"\b(?:run|runs|ran|running|goes|went|going|get|gets|got|says?|reports?|always|is|am|are)(?: (?:always|just|again"
    r"|it))? (?:an? )?(?:out of (?:V ?RAM|vram|(?:gpu|GPU|video|cuda|CUDA) memory|memory)|OOM)\b"
    r"|\b(?:not enough|insufficient|too little|lack of|exceeds?(?: the| my)?) (?:v ?ram|VRAM|(?:gpu|GPU|video) memory)\b|\bOOM(?:s|ed"
    r"|ing)?\b(?! ?[Kk]ill)|\bthen OOM\b"
    r"|\b(?:GPU|CUDA|video) memory(?: usage| consumption)? (?:\w{1,12} ){0,3}(?:grow|increas|leak|ris|climb|fill)\w{1,4}\b"
    r"|\bVRAM[^.\n]{0,30}\b(?:grow|increas|leak|climb)\w{0,4}"
    r"|爆显存|显存(?:\w{0,4})?(?:不足|不够|溢出|爆了?|炸了?|占满|满了|超了)|显存(?:占用)?一直(?:增|涨)"
    r"|(?:не хвата\w{1,4}|нехватка|закончилась|недостаточно) видеопамяти|(?:VRAM|Grafikspeicher"
    r"|Videospeicher) (?:\w{1,10} )?(?:reicht nicht|zu klein|voll)"
    r"|(?:zu wenig|nicht genug|nicht genügend) (?:VRAM|Grafikspeicher|GPU-Speicher)|(?:manque|plus assez|pas assez) de (?:VRAM"
    r"|mémoire (?:GPU|vidéo))"
    r"|sin memoria (?:de )?(?:la |el )?(?:GPU|vídeo|VRAM)|VRAM(?:が)?(?:不足|足り)|(?:GPU|グラボ)の?メモリ(?:が)?(?:不足|足り)",
    re.IGNORECASE,
)
_NO_HOST_MEMORY = words(
    r"(?<!GPU )(?<!gpu )(?<!CUDA )(?<!video )\b(?:RAM|ram|memory|Memory)(?: usage| consumption)? (?:\w{1,12} ){0,3}(?:grow"
    r"|increas|leak|ris|climb"
    r"|fill)\w{1,4}\b[^.\n]{0,80}(?:kill|crash|freez|frozen|OOM|oom|until)"
    r"|\b(?:run|runs|ran|running) out of (?:the |my |all )?(?:system |host |CPU |cpu |main )?(?:RAM|ram)\b"
    # what a shell and a data loader say of SIGKILL
    r"|\b(?i:is killed by signal) ?: ?(?i:killed)\b|^[^\n]{0,60}[ \d]Killed(?:  [^\n]{0,80})?$|^Killed$"
    r"|\b(?:[Ss]ays?|[Pp]rints?|[Oo]nly|[Ww]ith|[Jj]ust|message|word|output)(?: \w{1,8})? [\"'“`«„]Killed[.\"'”`»“]"
    r"|(?:словом|сообщени\w{1,2}|Meldung|显示|提示|只有|输出)[ ：:，,]{0,2}[\"'“`«„]?Killed\b"
    r"|内存(?:\w{0,4})?(?:不足|不够|溢出|爆了?|炸了?|泄漏|泄露)|不足内存|(?:не хвата\w{1,4}|закончилась"
    r"|недостаточно) оперативн\w{1,4} памяти"
    r"|(?:zu wenig|nicht genug|nicht genügend) (?:RAM|Arbeitsspeicher)|(?:RAM|Arbeitsspeicher) (?:läuft voll|ist voll|reicht nicht)",
    re.MULTILINE,
)

_XID = words(
    r"\b[Xx][Ii][Dd]s?\b['\"`]?(?: ?(?:error|errors|code|event|events|Fehler|错误|错误码|报错))?[ :=#(]{0,3}(?P<xid>\d{2,3})(?!\d|\.\d)"
)
_LINKS_DOWN = words(
    r"\b(?:all )?(?:nv)?links? (?:is|are) (?:all )?in-?active\b|NVLink (?:is |are )?(?:down|inactive)\b|nvlink ?(?:断|掉|不可用|失效)",
    re.IGNORECASE,
)
_SWITCHED = words(r"\b(?:HGX|DGX|NVSwitch|[AHB][128]00|H20|GB200|B300)\b|\bSXM", re.IGNORECASE)

_OFF = words(
    r"\b(?:PC|pc|[Cc]omputer|[Mm]achine|[Ss]ystem|[Ss]erver|[Ww]orkstation|[Ll]aptop|[Dd]esktop|[Rr]ig)(?: (?:just|always|suddenly"
    r"|randomly|instantly|often|then|would|will|keeps?|completely|immediately|hard)){0,2}"
    r" (?:reboot(?:s|ed|ing)?|restart(?:s|ed|ing)?|shut(?:s|ting)? (?:itself )?(?:down|off)|powers? (?:itself )?off|turn(?:s"
    r"|ed)? (?:itself )?off|switch(?:es|ed)? (?:itself )?off|hard resets?)\b"
    r"|\bblack screen\b[^.\n]{0,60}\bfans?\b|\bfans?\b[^.\n]{0,40}\b(?:100 ?%|full speed)[^.\n]{0,60}\bblack screen\b"
    r"|(?:电脑|主机|机器|服务器|系统)[^。\n]{0,12}(?:自动|突然|直接|自己)[^。\n]{0,6}(?:关机|重启|断电|黑屏)|(?:自动|突然"
    r"|直接)(?:关机|断电)"
    r"|(?:PC|Rechner|Computer|Server)[^.\n]{0,30}(?:startet (?:\w{1,12} ){0,4}neu|schaltet (?:\w{1,12} ){0,4}(?:ab|aus))"
    r"|(?:[Кк]омпьютер|ПК|[Кк]омп)[^.\n]{0,30}(?:перезагружается|выключается|вырубается)|ч[её]рный экран[^.\n]{0,40}вентилятор"
    r"|(?:PC|パソコン|サーバー?)[^。\n]{0,20}(?:再起動|落ち|電源が切れ)"
)
_UNDER_LOAD = words(r"\btrain|\bload\b|\binfer|\bGPU|\b[RG]TX\b|训练|推理|显卡|Training|обучени|学習|fine-?tun", re.IGNORECASE)
_BY_HAND = words(
    r"\b(?:I|we|you|to|please|must|have to|until|after|requires? a|tried|did) (?:\w{1,10} ){0,2}(?:re)?(?:boot|start)|manually"
    r"|scheduled|脚本|定时|怎么(?:写|设置)",
    re.IGNORECASE,
)
_HOT = words(
    r"(?:греется|нагревается|температура)[^.\n\d]{0,20}(?:8[5-9]|9\d|1[01]\d)(?!\d)|"
    r"\b(?:GPU|gpu|[Cc]ard|[Tt]emp(?:erature)?s?|[Hh]otspot|hits?|reaches|at|bei|wird|до|на|is)\b[^.\n\d]{0,30}\b(?:8[5-9]|9\d"
    r"|1[01]\d) ?(?:°|º|degrees|deg\b|C\b|度|℃|Grad|градус)"
    r"|\boverheat(?:s|ing|ed)?\b|\bthermal(?:ly)?[ -]throttl\w{1,4}|过热|温度[^。\n\d]{0,10}(?:8[5-9]|9\d|1[01]\d)|überhitzt|zu heiß"
    r"|перегрев\w{0,6}"
    r"|\b[Cc]locks? (?:\w{1,10} ){0,2}(?:stuck|stay|stays|remain|remains|drop|drops|pinned) (?:at|to) \d{2,3} ?[Mm][Hh]z"
    r"|オーバーヒート|高温"
)
_SLEPT = words(
    r"\b(?:after|from|since|nach(?: dem)?|aus dem|après|después de|после) (?:\w{1,12} ){0,2}"
    r"(?:suspen\w{1,5}|resum\w{1,4}|sleep\w{0,4}|hibernat\w{1,4}|wak\w{1,5}|standby|ruhezustand|mise en veille|спящ\w{1,4}|сна)\b"
    r"|(?:休眠|睡眠|待机|唤醒|スリープ)(?:之|以|恢复)?[后後]",
    re.IGNORECASE,
)
_BLIND = words(r"is_available\(\)[^\n]{0,16}False|unknown error", re.IGNORECASE)
_OLD_DRIVER = words(
    r"\b(?:[Dd]river|CUDA|cuda|Cuda)(?: version)? (?:is |was |are )?(?:way |much |far )?too (?:old|low)\b"
    r"|\b[Dd]river (?:is )?(?:outdated|obsolete)\b"
    r"|(?:CUDA|cuda|Cuda|驱动|驱动程序)的?(?:版本)?(?:太|过|比较|有点|是)?(?:太|过)(?:老|低|旧)|驱动(?:版本)?(?:需要|要)(?:更新|升级)"
    r"|Treiber[^.\n]{0,20}(?:zu alt|veraltet)|pilote[^.\n]{0,20}(?:trop ancien|obsolète)|драйвер\w{0,2}[^.\n]{0,20}(?:устарел"
    r"|слишком стар|стар[ыо])"
    r"|ドライバー?[^。\n]{0,15}古|(?:controlador|driver)[^.\n]{0,20}(?:antiguo|desactualizado|viejo)"
)

_BITSANDBYTES = words(
    r"\b(?:bitsandbytes|bitandbytes)\b[\w.`'\"]{0,60}[^\n]{0,100}?"
    r"(?:(?:can ?not|can['’]?t|could not|couldn['’]?t) (?:be )?"
    r"(?:found|find|import|load)\w{0,3}"
    r"|\bnot (?:be )?(?:found|working|supported|import)|\b(?:is|are|was) missing\b|\b(?:does|do)(?: not|n['’]?t) work|\bfail(?:s|ed)\b"
    r"|nicht gefunden"
    r"|funktioniert nicht|找不到|不能用|无法(?:导入|加载|使用)|не (?:найден|работает)|introuvable|no (?:funciona|encuentra))"
    r"|(?:找不到|无法导入|无法加载)[^\n]{0,12}\bbitsandbytes\b"
)

_BY_CHOICE = words(r"\b(?:I|we|We|they|They) (?:don['’]t|do not|didn['’]t|did not|never) (?:use|need|want)\b")
_HOSTED = words(r"\b(?:colab|kaggle)\b", re.IGNORECASE)

# Nobody complains: the trouble is over, or nothing has happened.
_OVER = words(
    r"^\W{0,6}\[?solved\b|\b(?:it |everything |all )?works? (?:now|fine now|again)\b|\bfixed it\b|\bproblem (?:is )?(?:solved|gone"
    r"|fixed)\b|(?:已|问题)解决|解决了|gelöst|решено|解決しました"
    r"|\bsince then (?:everything|it|all|we)\b|\bnothing (?:has )?happened\b|\bfeature request\b|\bjust curious\b|\bproposal\b|一切正常",
    re.IGNORECASE | re.MULTILINE,
)
_SUPPOSED = words(
    r"\b(?:if|when|whenever|unless|whether|in case|should|would|might|may|fall(?:s|ing)?[ -]?back|on purpose|option|flag|add|so that"
    r"|in general|in principle|how to|what happens|alarms?|alerts?|thresholds?|documentation|docs?|readme|manual"
    r"|even though I (?:don't|do not)|support for|wenn|falls|si|если)\b"
    r"|如果|当.{0,20}时|支持|もし",
    re.IGNORECASE,
)


@record
class _Kind:
    """One complaint, and the rule that speaks of it."""

    symptom: str
    rule: str
    pattern: re.Pattern[str]
    variant: str = ""


_KINDS = (
    _Kind("links-inactive", "fabric-not-ready", _LINKS_DOWN),
    _Kind("xid-told", "gpu-xid", _XID),
    _Kind("slept", "nvidia-uvm-missing", _SLEPT, "suspended"),
    _Kind("power-told", "gpu-hardware-fault", _OFF, "load"),
    _Kind("driver-told-old", "driver-too-old", _OLD_DRIVER),
    _Kind("host-memory-told", "host-memory-low", _NO_HOST_MEMORY, "killed"),
    _Kind("memory-told", "gpu-out-of-memory", _NO_MEMORY),
    _Kind("bitsandbytes-told", "bitsandbytes-broken", _BITSANDBYTES),
    _Kind("heat-told", "gpu-throttled", _HOT, "told"),
    _Kind(UNUSED, "torch-cuda-unavailable", _UNUSED),
)


def complaints(text: str) -> Iterator[TextEvidence]:
    """The complaints of a post, the gravest first."""
    if tells_over(text):
        return
    yield from endings(text)
    for kind in _KINDS:
        for match in kind.pattern.finditer(text):
            if not _supposed(text, match) and (found := _placed(kind, text, match)):
                yield found
                break
    yield from gists(text)


def tells_unused(text: str) -> bool:
    """Whether somebody complains that the GPU is not used, or not found."""
    return any(not _supposed(text, match) for match in _UNUSED.finditer(text))


def tells_over(text: str) -> bool:
    """Whether nobody complains: the text is a log, or the trouble is over."""
    return len(text) > POST or bool(_OVER.search(text))


def _supposed(text: str, match: re.Match[str]) -> bool:
    """Whether the sentence up to here says when something would happen, not that it does."""
    start = max(text.rfind("\n", 0, match.start()), match.start() - 160) + 1
    return bool(_SUPPOSED.search(re.split(r"[.!?。！？,，;] ?", text[start : match.start()])[-1]))


def _placed(kind: _Kind, text: str, match: re.Match[str]) -> TextEvidence | None:
    """The evidence of a complaint whose surroundings bear it out; where they say more, of the rule that they name."""
    line = line_at(text, match.start())[0].strip()[:LINE_LIMIT]
    rule, symptom, variant = kind.rule, kind.symptom, kind.variant
    values = {name: one for name, one in match.groupdict().items() if one}
    if symptom == "links-inactive" and (_XID.search(text) or not _SWITCHED.search(text)):
        return None  # a card without a bridge says the same
    if symptom == "power-told" and (not _UNDER_LOAD.search(text) or _BY_HAND.search(line)):
        return None
    if symptom == "memory-told" and not _ABOUT_GPU.search(text):
        rule, symptom, variant = "host-memory-low", "host-memory-told", "killed"
        if not _ABOUT_HOST.search(text):
            return None
    if symptom == UNUSED and _BY_CHOICE.search(line):
        return None
    if symptom == UNUSED and (hosted := _HOSTED.search(text)):
        variant = hosted[0].lower()
    if symptom == "slept" and not (_BLIND.search(text) or _UNUSED.search(text)):
        return None
    return TextEvidence("complaints", line, rule, symptom, values, variant=variant, confidence="likely")


def read_complaints(text: str) -> Found | None:
    """The complaints of a text, two at most."""
    signs: dict[str, TextEvidence] = {}
    for one in complaints(text):
        signs.setdefault(one.rule, one)
    return Found("complaints", signs=tuple(signs.values())[:2], rank=0) if signs else None
