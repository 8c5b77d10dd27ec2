"""A run that stands still and prints nothing, as people tell it in their own words: where it stands, by what else the text says.

    Training freezes with 100% GPU utilization on 4 RTX 3090        双卡训练一开始就卡死        stuck at init_process_group
    [1] NCCL INFO Channel 00 : 1[21000] -> 0[1000] via P2P/IPC      (and nothing after it)

Each answer is a guess, and counts only where no message of a program names a cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from envcheck.facts.snapshot import TextEvidence
from envcheck.read.found import LINE_LIMIT, line_at
from envcheck.read.setups import heard_beside, told_setups

LONGEST = 1 << 16  # characters: what is longer is a log, and nobody tells anything in it

_STILL = re.compile(
    r"\b(?:hangs?|hanging|hung|stuck|freez(?:es?|ing)|frozen?|deadlock(?:s|ed)?|stall(?:s|ed)|blocks|halts?|unresponsive|not responding"
    r"|stops? responding|nothing happens|no progress|keeps waiting|stands? still|(?:does|do|then|did|prints?) nothing"
    r"|(?:waits?|blocks?) (?:for ?ever|indefinitely|endlessly)|never goes further|no (?:further|more) (?:output|logs?)"
    r"|(?:is|are|just|sits?) (?:waiting|there) (?:there|for ?ever|endlessly|all the time)|stays? (?:at this place|there for ?ever)"
    r"|stops? (?:without|with no) (?:any )?(?:error|message|output)"
    r"|never (?:returns?|finish(?:es)?|ends?|starts?|gets? past|completes?|proceeds?)"
    r"|(?:does(?:n't| not)|will not|won't) (?:return|proceed|continue|progress|finish|move))\b"
    r"|卡住|卡死|卡在|卡着|停在|停住|不动|(?:没有?|无)(?:任何)?(?:反应|响应|动静)|死锁|假死|hang住|不继续|不往下|一直(?:在)?等"
    r"|\b(?:hängt|hängen bleibt|bleib(?:t|en) (?:\w{1,12} ){0,3}(?:stehen|hängen)|friert ein|eingefroren|passiert (?:aber )?nichts)\b"
    r"|\b(?:reste|est|sont) (?:bloqué|figé)e?s?\b|\bse (?:fige|bloque)\b|\bbloqué\b|\brien ne se passe\b"
    r"|\bse (?:cuelga|congela|queda (?:colgad|bloquead|congelad|parad)[oa])\b|\bno (?:avanza|pasa nada)\b"
    r"|\b(?:trava|congela|não avança|fica (?:parad|travad)o|si blocca|bloccato)\b"
    r"|завис\w{1,6}|подвис\w{1,6}|не двигается|застр\w{1,6}|ничего не происходит"
    r"|止ま(?:る|っ|り|ら)|固ま(?:る|っ|り)|フリーズ|ハング|進まな|動かな[いく]|진행되지 않|멈[추춥췄춰춤]",
    re.IGNORECASE,
)
# What stands before such a word where nothing stands still: a change that mends it, a denial, a condition
_NOT_NOW = re.compile(
    r"(?:\b(?:fix(?:e[sd])?|avoid(?:s|ed)?|prevent(?:s|ed)?|resolve[sd]?)\b[^.!?\n]{0,30}|(?:\b(?:not|never|no longer"
    r"|without|any)|n't) (?:\w{2,12} )?"
    r"|\bif (?:it|this|training|(?:the|a) \w{2,12}) |(?:不会|没有|不再|修复)[^。\n]{0,8})$",
    re.IGNORECASE,
)
_OVER = re.compile(  # it was mended, or it only looks so
    r"^\W{0,6}(?:\[?solved|fixed|resolved)\b|\b(?:it|everything|all|training) (?:works|runs|is fine) now\b|已解决|解决了|\bgelöst\b"
    r"|\b(?:itself|still|actually) (?:goes on|continues|runs|trains)\b"
    r"|\bthen (?:it |training )?(?:starts|continues|goes on)\b|\bNCCL_P2P_DISABLE=1\W{0,4}(?:everything|it|all) (?:works|runs)",
    re.IGNORECASE | re.MULTILINE,
)
# An error that a program printed: the text is about that. A person's Ctrl-C and a time-out are the end of waiting.
_FAILED = re.compile(
    r"^(?:[\w.\[\] |:-]{0,60}[ :|.\]])?(?!KeyboardInterrupt|Timeout)[A-Z]\w{0,40}(?:Error"
    r"|Exception)\b(?!\w)(?![^\n]{0,200}\b[Tt]im(?:ed|e) ?out)",
    re.MULTILINE,
)

_NUMBER = r"(?:two|three|four|six|eight|ten|both|dual|several|multiple|many|all|more|[2-9]|1[0-6])"
_CARD = r"(?:NVIDIA|GeForce|Tesla|Quadro|RTX|GTX|Titan|[AHLVP]\d{1,3}0?0?[sS]?|T4|MI\d{2,3}|(?:10[5-8]0|16[56]0|20[678]0|[345]0[5-9]0)s?)"
_GPUS = re.compile(
    rf"\bmulti[- ]?gpus?\b|\b{_NUMBER} ?[x×*]? ?{_CARD}(?![\w.])|{_CARD}\)?(?: ?Ti)? ?[x×*] ?[2-9]\b"
    rf"|\b{_NUMBER}[ -]?(?:[x×*] ?)?(?:[\w-]{{2,14}} ){{0,4}}(?:gpus?|cards|graphics cards)\b"
    r"|\b(?:DDP|FSDP|DistributedDataParallel|DataParallel|torchrun)\b|--multi_gpu|device_ids\s?=\s?\[\d, ?\d"
    r"|(?:nproc[_-]per[_-]node|num_processes|num_gpus|world[_-]size|devices|n_?gpus?['\"]?)\s?[=: ] ?(?:[2-9]|1\d)\b"
    r"|[双多四八两2-9][卡张块]|双(?=\d0\d0)|多\s?GPU|[2-9]枚|複数\S{0,2}GPU|[2-9] ?장"
    r"|\b(?:beiden?|mehrere[nr]?|zwei|vier|varias|dos|múltiples|plusieurs|deux|duas|due|[2-9]) (?:GPU|Karten|Grafikkarten|tarjetas|cartes"
    r"|placas|schede|видеокарт|карт)|(?:нескольк|дву|четыр)\w{1,4} (?:GPU|видеокарт|карт)",
    re.IGNORECASE,
)
# "It is stuck" tells no more than that, and a command beside it not what stands still
_BARE = re.compile(r"\W{0,8}(?:it|this|that|everything)(?: \w{1,12}(?:'t)?){1,3}\W{0,8}$", re.IGNORECASE)
_SEVERAL_NODES = re.compile(
    rf"\bmulti[- ]?(?:nodes?|machines?|hosts?)\b|\b{_NUMBER} (?:[\w-]{{2,14}} ){{0,2}}(?:nodes|machines|servers|hosts"
    rf"|instances|VMs|computers|pods)\b"
    r"|\b(?:other|second|another|across|different) (?:nodes?|machines?|hosts?|servers?)\b"
    r"|nnodes[= ](?:[2-9]|1\d)|num[_-](?:machines|nodes)[= ](?:[2-9]|1\d)\b"
    r"|--nodes[= ](?:[2-9]|1\d)\b"
    r"|[两二多双2-9]\s?机|多节点|[两二2]个?(?:节点|台)|跨(?:机|节点)|\b(?:zwei|mehrere[nr]?) (?:Knoten|Rechner|Server)"
    r"|\b(?:deux|plusieurs) n(?:oe|œ)uds|(?:дву|нескольк)\w{1,3} (?:узл|нод|сервер)|[2-9]ノード|複数\S{0,2}ノード|\b(?:dos|varios) nodos",
    re.IGNORECASE,
)
_ONE_MACHINE = re.compile(r"\bsame (?:machine|node|vm|server|host)\b(?![^.\n]{0,20}\b(?:ok|okay|fine|works?|runs?)\b)", re.IGNORECASE)
_MEETS = re.compile(
    r"init_process_group|init[ _-]method|rendezvous|initializing (?:distributed|ddp|process group)"
    r"|store[_ ]based[_ ]barrier|distributed init",
    re.IGNORECASE,
)
_WORKERS = re.compile(r"num_?workers|\bworkers? (?:process|> ?0)|DataLoader workers?|数据加载进程", re.IGNORECASE)
_NO_WORKERS = re.compile(
    r"(?:workers?|工作进程)[^\n.,;，。]{0,24}?(?<![\d.])0(?![\d.])|\b(?:zero|no|without) workers"
    r"|(?:大于|设为|设成|改为|改成|设置为) ?0(?![\d.])",
    re.IGNORECASE,
)
# One rank does what the others do not: the end of an epoch, validation and checkpoints on one of them.
_UNEVEN = re.compile(
    r"\bbarrier\b|\b(?:end|last (?:batch|step|iteration)) of (?:the |an |each |every |first )*epoch|\bonly (?:on )?rank ?0"
    r"|\b(?:during|in|at|before|after) (?:the )?(?:validation|evaluation|eval|checkpoint)|\bsav(?:e|ing) (?:a |the )?(?:checkpoint|model)"
    r"|验证(?:阶段|时|集)|epoch结束|保存模型",
    re.IGNORECASE,
)
_LIGHTNING = re.compile(r"lightning|SLURMEnvironment|GLOBAL_RANK", re.IGNORECASE)
_SLURM = re.compile(r"\b(?:slurm|srun|sbatch|salloc)|SLURM", re.IGNORECASE)
_UNWANTED = re.compile(
    r"(?:turn(?:s|ed)? off|switch(?:ed)? off|turn the|disabl\w{1,3}|ignor\w{1,3}|prevent|avoid|bypass|overrid\w{1,3}|关掉"
    r"|关闭|禁用|忽略|不用)[^.\n]{0,40}slurm"
    r"|slurm[^.\n]{0,40}(?:turn(?:ed)? off|\boff\b|disabled|ignored|关掉|关闭|禁用)",
    re.IGNORECASE,
)
_WINDOWS = re.compile(r"\bwin(?:dows)?[ -]?(?:10|11|7|8|server)?\b(?! size)|(?<![\w/])[A-Z]:\\{1,2}\w", re.IGNORECASE)
_BUS_ERROR = re.compile(r"\bbus error\b|总线错误|\bBus-?fehler\b|\berreur de bus\b|Ошибка шины|バスエラー", re.IGNORECASE)
_TRAINS = re.compile(r"rocess|进程|\btrain|训练|\bepoch|обуч|학습|学習", re.IGNORECASE)
_VIA = re.compile(r"NCCL INFO [^\n]{0,120}\bvia (?P<way>P2P|SHM|direct shared memory|NET/IB|NET/Socket|NET/\w{1,20})")
_AFTER = re.compile(r"\bloss['\"]?\s?[:=]?\s?-?\d|\|\s*\d{1,9}/\d{1,9}|\d{1,3}%\|", re.IGNORECASE)


def stands_still(text: str) -> re.Match[str] | None:
    """Where a person says that a run goes no further, in a text that is not about an error of a program."""
    if len(text) > LONGEST or _OVER.search(text):
        return None
    return next((one for one in _STILL.finditer(text) if not _NOT_NOW.search(text[max(0, one.start() - 60) : one.start()])), None)


def told_faults(text: str, name: str) -> tuple[TextEvidence, ...]:
    """What a person most probably has, who tells of a run that stands still, or ends by a signal of the system."""
    if setups := tuple(told_setups(text, name)):
        return setups
    return tuple(
        TextEvidence(name, words, rule, f"told-{variant}", variant=variant, confidence="likely") for rule, variant, words in _told(text)
    )


_OF_WORDS = ("hangs-where-they-meet",)  # a row that tells no more than what is told here


def unless_known(told: Sequence[TextEvidence], known: Sequence[TextEvidence]) -> Sequence[TextEvidence]:
    """What is told, where no message and no sign names a cause, or where it is the cause of what they name."""
    if all(one.symptom in _OF_WORDS for one in known):
        return told
    return tuple(one for one in told if heard_beside(one, known))


def _told(text: str) -> Iterator[tuple[str, str, str]]:
    """Rule, variant and the words."""
    if len(text) > LONGEST:
        return
    if (bus := _BUS_ERROR.search(text)) and (_GPUS.search(text) or _WORKERS.search(text) or _TRAINS.search(text)):
        yield "shm-small", "bus", _line(text, bus)
        return
    lightning = _LIGHTNING.search(text) and _SLURM.search(text)
    if lightning and (unwanted := _UNWANTED.search(text)) and not _OVER.search(text):
        yield "launch-slurm", "detected", _line(text, unwanted)
        return
    still = stands_still(text)
    if still is None or _FAILED.search(text):
        return
    words = _line(text, still)
    if lightning and not _SEVERAL_NODES.search(text):
        yield "launch-slurm", "detected", words
    elif _WORKERS.search(text) and _NO_WORKERS.search(text):
        if not _WINDOWS.search(text):  # there a main guard is missing, which is the program's
            yield "shm-small", "workers", words
    else:
        yield from _of_ranks(text, words)


def _of_ranks(text: str, words: str) -> Iterator[tuple[str, str, str]]:
    """Processes that wait for each other: at the network, where they meet, between GPUs, or for one that does something else."""
    via = list(_VIA.finditer(text))
    way = via[-1]["way"] if via and not _AFTER.search(text, via[-1].end()) else ""
    if way.startswith("NET/"):
        yield ("nccl-infiniband", "hang", _line(text, via[-1])) if way == "NET/IB" else ("nccl-interface", "hang", _line(text, via[-1]))
    elif way == "P2P":
        yield "nccl-p2p-blocked", "hang", _line(text, via[-1])
    elif _SEVERAL_NODES.search(text) and not _ONE_MACHINE.search(text):
        yield "launch-unreachable", "nodes", words
    elif _MEETS.search(text):
        yield "launch-unreachable", "hangs", words
    elif _GPUS.search(_said(text) if _BARE.match(words) else text):
        if _UNEVEN.search(text):
            yield "ddp-usage", "uneven", words
        if _WINDOWS.search(text):  # NCCL is not there
            yield "launch-unreachable", "hangs", words
        elif not way:
            yield "nccl-p2p-blocked", "hang", words


def _said(text: str) -> str:
    """A text without its commands."""
    return "\n".join(line for line in text.split("\n") if "--" not in line)


def _line(text: str, match: re.Match[str]) -> str:
    return line_at(text, match.start())[0].strip()[:LINE_LIMIT]
