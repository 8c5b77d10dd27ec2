"""What a setup lacks, as people tell it: a container without shared memory or without its GPU, a port that an earlier run or another
job holds, GPUs that Slurm has no tasks for, a slow network, a GPU cut into instances, versions of a driver that do not belong together.

    DataLoader worker exited unexpectedly, in docker        同时跑两个训练，端口被占用        nur eine GPU wird benutzt (Slurm)

Each answer is a guess. It counts where no message of a program names a cause, or where such a message is what the setup explains.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from envcheck.facts.record import record
from envcheck.facts.snapshot import TextEvidence
from envcheck.read.complaints import tells_over, tells_unused
from envcheck.read.endings import words
from envcheck.read.found import LINE_LIMIT, line_at

_CONTAINER = words(
    r"\b(?:docker\w{0,8}|podman|kubernetes|k8s|kubectl|pods?|containers?|conteneurs?|contenedor(?:es)?|contêiner)\b|\bContainern?s?\b|容器"
    r"|コンテナ|컨테이너|контейнер\w{0,3}|докер\w{0,2}",
    re.IGNORECASE,
)
_LOADER_DIED = words(
    r"\b(?:DataLoader|data loader) workers?[^\n]{0,60}?(?:exited unexpectedly|\bdied\b|\bcrash\w{0,3}\b)"
    r"|\bbus error\b|\bSIGBUS\b|总线错误|Bus-?fehler|erreur de bus|ошибка шины",
    re.IGNORECASE,
)
_OWN_ERROR = re.compile(  # an error of the program that comes with it is the cause
    r"^(?!RuntimeError: DataLoader|queue\.Empty|_queue\.Empty|KeyboardInterrupt)[\w.]{2,60}(?:Error|Exception): ", re.MULTILINE
)

_TAKEN = words(
    r"\b(?:address(?:es)?|ports?|socket)\b[^.?!\n]{0,40}?\b(?:in use|taken|occupied|used|busy|conflict\w{0,3}|blocked)\b"
    r"|\bconflict\w{0,3}\b[^.?!\n]{0,30}\bport\b|\bEADDRINUSE\b"
    r"|(?:端口|地址)[^。，\n]{0,10}?(?:占用|冲突|被占|使用中)|\b(?:Port|Adresse)\b[^.\n]{0,30}?\b(?:belegt|vergeben|benutzt|in Benutzung)\b"
    r"|\b(?:port|puerto|porta|adresse|dirección)\b[^.\n]{0,25}?\b(?:déjà|ya|já|già)\b[^.\n]{0,20}|порт\w{0,2}[^.\n]{0,20}?занят\w{0,2}"
    r"|адрес[^.\n]{0,20}?(?:занят|используется)|ポート[^。\n]{0,12}?使(?:用|わ)",
    re.IGNORECASE,
)
_RANKS = words(
    r"\bdistributed\b|\btraining\b|\btrain\.py\b|训练|\bddp\b|\bfsdp\b|torchrun|\bmulti[- ]?gpus?\b|dist_url|init_method|\branks?\b"
    r"|nproc|\baccelerate\b|\bdeepspeed\b"
    r"|master_?port|\b29[45]00\b|\b(?:two|several|multiple|second|both|one) (?:\w{2,14} ){0,2}(?:trainings?|experiments?"
    r"|training jobs?)\b"
    r"|分布式|多卡|\bTraining\b[^.\n]{0,40}\bServer\b|verteilte\w{0,2}|distribué|distribuid|распредел\w{1,6}",
    re.IGNORECASE,
)
_ANOTHER_PROGRAM = words(r"\b(?:tensorboard|jupyter|flask|gradio|visdom|streamlit|nginx|uvicorn|webui|postgres|redis)\b", re.IGNORECASE)

_SLOWER = words(
    r"\b(?:slow(?:er|ly)?|slows? down|no speed-?up|throughput (?:is|drops)|bottleneck\w{0,3})\b"
    r"|\b(?:takes?|needs?|needed|took|costs?) (?:\w{1,9} ){0,3}(?:more|longer)\b|(?<![\d.])\d{1,4}(?:\.\d{1,2})? ?[x×] (?:longer|slower)"
    r"|times (?:longer|slower)"
    r"|(?:更|比[^。\n]{0,12}|特别|非常|很|太|极|变)慢|没有加速|langsamer|plus lent\w?|más lent\w|mais lent\w"
    r"|медленн\w{1,4}|遅[いく]|느[리린립]",
    re.IGNORECASE,
)
_COMPARED = words(
    r"\b(?:than|compared|vs\.?|versus|single|one|half|instead)\b|单机|单卡|单节点|\b(?:als|que)\b|чем|1台|より",
    re.IGNORECASE,
)
_SEVERAL_MACHINES = words(
    r"\bmulti[- ]?(?:nodes?|machines?|hosts?)\b"
    r"|\b(?:two|three|four|multiple|several|[2-9]|1[0-6]) (?:[\w-]{2,14} ){0,2}(?:nodes|machines|servers|hosts|PCs|computers|instances)\b"
    r"|nnodes[= ](?:[2-9]|1\d)\b|[两二多双2-9]\s?机|多节点|[两二2-9]个?(?:节点|台)"
    r"|\b(?:zwei|mehreren?) (?:Knoten|Rechnern?|Servern?|Maschinen)|\b(?:deux|plusieurs) (?:n(?:oe|œ)uds|machines|serveurs)"
    r"|\b(?:dos|dois|varios|vários) (?:nodos|nós|máquinas|servidores)|(?:дву|нескольк)\w{1,3} (?:узл|нод|сервер|машин)\w{0,3}"
    r"|[2-9]台|複数\S{0,2}ノード",
    re.IGNORECASE,
)
_RATE = words(
    r"\bethernet\b|\bLAN\b|\blocal area network\b|\bswitch\b|\b(?:1|2\.5|10|25)[ -]?(?:G(?:b(?:it|ps|/s|E)?)?)\b|gigabit|以太网|千兆|万兆"
    r"|交换机|局域网"
    r"|NCCL_IB_DISABLE=1|\bnetwork\b|\bnnodes\b|\bnodes\b|deepspeed",
    re.IGNORECASE,
)

_ONE_GPU = words(
    r"\b(?:only|just) (?:the )?(?:one|1|a single|single|first|GPU ?0|cuda:0)(?: of (?:the|them|my))?(?: \w{1,12})?(?: GPUs?| cards?"
    r"| device)?"
    r"(?: \w{1,12}){0,2}? ?(?:is|are|was|being|gets?|working|works|used|running|runs|utili[sz]ed|active|busy)\b"
    r"|\b(?:uses?|using|used|utili[sz]es?|runs? on|running on|trains? on|sees?) (?:only|just) (?:the )?(?:one|1|a single|first)\b"
    r"|\bStarting with 1 processes\b|\bMEMBER: 1/1\b|\b(?:the )?(?:rest|others?|other \w{3,5}) (?:are |is |stays? |sits? )?idle\b"
    r"|只有?(?:用|使用|在用|用到)?了?(?:一|1|第一)(?:张|块|个)?(?:显?卡|GPU)|\bnur (?:eine|1|die erste) (?:GPU|Karte|Grafikkarte)"
    r"|\b(?:une seule|qu['’]une) (?:carte|GPU)|\b(?:una sola|solo una|apenas uma|só uma) (?:GPU|tarjeta|placa)"
    r"|только (?:одна|одну|на одной) (?:GPU|видеокарт\w{1,2}|карт\w{1,2})|GPU\S{0,3}1\S{0,2}しか",
    re.IGNORECASE,
)
_WANTED = words(r"\b(?:need|want|request|ask for|allocate|why not) (?:only|just)\b|\bso far\b", re.IGNORECASE)
_SLURM = words(r"\bslurm\w{0,6}\b|\bsrun\b|\bsbatch\b|\bsalloc\b|#SBATCH", re.IGNORECASE)
_SEVERAL = words(
    r"\b(?:request|ask|allocat|reserv|submit|argument|gpus?|gres|devices|fordere|demand|pid|solicit"
    r"|запра)\w{0,6}\b[^\n]{0,40}?(?<![\d.])(?:[2-9]|1[0-6])(?![\d.])"
    r"|[2-9一二两三四八]\s?[张块个]\s?(?:显?卡|GPU)|\b(?:two|three|four|eight|all)\b[^.\n]{0,20}\b(?:gpus|cards)\b",
    re.IGNORECASE,
)

_RUN = re.compile(r"\bdocker (?:container )?run\b(?:[^\n\\]|\\\n|\\(?!\n)){0,1500}")
_ROOM = re.compile(r"--shm-size|--ipc|/dev/shm")
_SHARDS = re.compile(
    r"(?:--num[-_]shards?|--tensor[-_]parallel[-_]size|--tp(?:[-_]size)?|-tp|--nproc[-_]per[-_]node|--num[-_]processes)[ =](?:[2-9]"
    r"|1[0-6])\b"
)
_FAILS = words(
    r"\b(?:unable|fail\w{0,5}|crash\w{0,3}|errors?|can ?not|can['’]?t|won['’]?t|doesn['’]?t|does not|not working|stuck|hangs?|dies"
    r"|problem)\b"
    r"|失败|报错|无法|不能|崩溃|卡住|\b(?:nicht|Fehler|Absturz)\b|\bne (?:marche|fonctionne|démarre)\b|\bno (?:funciona|arranca|puedo)\b"
    r"|не (?:работает|запускается|могу)|падает|起動しない|失敗",
    re.IGNORECASE,
)

_COMPOSE = words(r"\bdocker[- ]?compose\b|\bcompose\.ya?ml\b|^[ \t]{0,8}services:[ \t]{0,8}$", re.IGNORECASE | re.MULTILINE)
_GIVEN = re.compile(
    r"capabilities:? {0,4}[\[\n-][^\n]{0,12}\n?[^\n]{0,20}gpu|\bruntime: {0,4}['\"]?nvidia|^ {2,12}gpus:|\bdevice_ids:",
    re.MULTILINE | re.IGNORECASE,
)
_OTHER_VENDOR = words(r"\b(?:rocm|hip|radeon|amd|gfx\d{3,4}|xpu|habana)\b|/dev/(?:kfd|dri)\b", re.IGNORECASE)
_BLIND = words(
    r"is_available\(\)[^\n]{0,24}?\bFalse\b|\bfound no nvidia\b|\bno (?:nvidia )?(?:driver|gpus?|cuda)\b|\b(?:can ?not|can['’]t"
    r"|unable to) (?:use|see|find|access)"
    r" (?:the |my |any )?gpus?\b"
    r"|\bgpus?\b[^.\n]{0,40}?(?:\b(?:nicht|not|pas|no)\b|n['’]t\b)|gpu[^。\n]{0,12}?(?:用不|没|不可|不能)|(?:用不|没|不能)[^。\n]{0,8}?gpu"
    r"|gpu\w{0,2} не ",
    re.IGNORECASE,
)

_MIG = words(r"\bMIG\b|\bmig-\d[gc]\.")
_ONE_INSTANCE = words(
    r"device_count\(\)[^\n]{0,24}?(?<![\d.])1(?![\d.])|\binvalid device ordinal\b|\bset_device\([1-9]\)|\bduplicate gpu\b"
    r"|\b(?:only|just) (?:\w{2,9} )?(?:one|1|a single|single|the first|cuda:0)\b|\ball (?:of )?(?:the|my) (?:mig|instances)"
    r"|只能?(?:看到|识别|用|使用)"
    r"|\bnur (?:eine|1)\b|\bune seule\b|\buna sola\b|только один",
    re.IGNORECASE,
)

_NO_SYMBOL = words(r"\b(?:error )?500: named symbol|\bnamed symbol not found\b|\binit\w{0,10} failure: 500\b", re.IGNORECASE)
_MAPPED = words(r"\bwsl ?2?\b|\bdocker desktop\b|\bwin(?:dows)?[ -]?1[01]\b|cudaGetDeviceCount", re.IGNORECASE)

_LOOPED = words(
    r"\bMASTER_ADDR\b[^\n。]{0,60}?(?:没有?改|未改|没有?设|未设|默认|localhost|127\.0\.0\.1|\bnot (?:been )?(?:changed?|set)\b"
    r"|\bunchanged\b"
    r"|\bdefault\b)"
    r"|\b(?:not|n['’]t) (?:chang\w{1,3}|set|touch\w{0,3}) (?:the )?MASTER_ADDR\b",
    re.IGNORECASE,
)
_NODES = re.compile(r"\bNODE_RANK\b|\bNNODES\b|node[_-]rank", re.IGNORECASE)

_MODULE = re.compile(r"open-gpu-kernel-modules[-/ ](?:v|tag )?(?P<module>\d{3}\.\d{2,3}(?:\.\d{2})?)")
_RUNFILE = re.compile(r"(?P<file>NVIDIA-Linux-(?P<arch>x86_64|aarch64)-(?P<library>\d{3}\.\d{2,3}(?:\.\d{2})?)\.run)")


@record
class _Told:
    rule: str
    variant: str
    match: re.Match[str]
    values: tuple[tuple[str, str], ...] = ()


# What stands beside such a message, because it says why: by the variant, the rules that such messages name.
_EXPLAINS = {
    "compose": ("torch-cuda-unavailable", "driver-missing", "container-without-gpu", "torch-cpu-build", "visible-devices-out-of-range"),
    "refused": ("visible-devices-out-of-range", "nccl-duplicate-gpu", "gpu-mig", "torch-cuda-unavailable", "launch-world-size"),
    "toolkit": ("extension-arch-mismatch", "gpu-too-new-for-torch", "gpu-too-old-for-torch", "torch-cuda-unavailable", "wsl-driver"),
    "runfile": ("driver-library-mismatch",),
}


def heard_beside(told: TextEvidence, known: Sequence[TextEvidence]) -> bool:
    """Whether what is told explains all that the known messages speak of."""
    return all(one.rule in _EXPLAINS.get(told.variant, ()) for one in known if not one.second)


def told_setups(text: str, name: str) -> Iterator[TextEvidence]:
    """What the setup of a post lacks, the surest first."""
    if tells_over(text):
        return
    for reader in (_driver_pair, _mapped, _mig, _compose, _shards, _loader, _port, _slow, _one_gpu, _master):
        if (one := reader(text)) is not None:
            line = line_at(text, one.match.start())[0].strip()[:LINE_LIMIT]
            yield TextEvidence(name, line, one.rule, f"told-{one.variant}", dict(one.values), variant=one.variant, confidence="likely")
            return


def _loader(text: str) -> _Told | None:
    """A worker that dies without a word of its own, in a container."""
    died = _LOADER_DIED.search(text)
    return _Told("shm-small", "died", died) if died and _CONTAINER.search(text) and not _OWN_ERROR.search(text) else None


def _port(text: str) -> _Told | None:
    taken = _TAKEN.search(text)
    if not taken or not _RANKS.search(text) or _ANOTHER_PROGRAM.search(text):
        return None
    return _Told("launch-port-in-use", "told", taken)


def _slow(text: str) -> _Told | None:
    """Several machines are slower than one of them."""
    slower = _SLOWER.search(text)
    if not slower or not _SEVERAL_MACHINES.search(text) or not _COMPARED.search(text) or not _RATE.search(text):
        return None
    return _Told("nccl-interface", "slow", slower)


def _one_gpu(text: str) -> _Told | None:
    """Slurm gave several GPUs and one works: as many processes as tasks are started."""
    one = _ONE_GPU.search(text)
    if not one or not _SLURM.search(text) or not _SEVERAL.search(text) or _WANTED.search(text):
        return None
    return _Told("launch-slurm", "tasks", one)


def _shards(text: str) -> _Told | None:
    """A server that is cut into several processes fails in a container with docker's own 64 MiB."""
    if not _FAILS.search(_RUN.sub("", text)):
        return None
    runs = (one for one in _RUN.finditer(text) if _SHARDS.search(one[0]) and not _ROOM.search(one[0]))
    found = next(runs, None)
    return _Told("shm-small", "shards", found) if found else None


def _compose(text: str) -> _Told | None:
    """A compose file that gives no service a GPU, and a program in it that finds none."""
    compose = _COMPOSE.search(text)
    if not compose or _GIVEN.search(text) or _OTHER_VENDOR.search(text) or not (_BLIND.search(text) or tells_unused(text)):
        return None
    return _Told("container-without-gpu", "compose", compose)


def _mig(text: str) -> _Told | None:
    one = _ONE_INSTANCE.search(text)
    return _Told("gpu-mig", "refused", one) if one and _MIG.search(text) else None


def _mapped(text: str) -> _Told | None:
    """CUDA's libraries of Windows inside a container whose tools do not know all of them yet."""
    missing = _NO_SYMBOL.search(text)
    return _Told("wsl-driver", "toolkit", missing) if missing and _MAPPED.search(text) else None


def _master(text: str) -> _Told | None:
    """Each node is left with its own localhost as the master."""
    looped = _LOOPED.search(text)
    return _Told("launch-master-address", "told", looped) if looped and _NODES.search(text) else None


def _driver_pair(text: str) -> _Told | None:
    """Kernel modules built from the open sources, and libraries of NVIDIA's installer, each of its own version."""
    module, library = _MODULE.search(text), _RUNFILE.search(text)
    if not module or not library or module["module"] == library["library"] or "mismatch" not in text:
        return None
    values = (("module", module["module"]), ("library", library["library"]), ("arch", library["arch"]))
    return _Told("driver-library-mismatch", "runfile", library, values)
