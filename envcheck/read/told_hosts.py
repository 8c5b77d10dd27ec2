"""Where the processes of a job are, as a person tells it beside an error of the network: in containers on several hosts, on hosts that
name their interfaces differently, or all on one machine with an address from outside.

    one of them has eno1, the 2nd computer eth0: what do I put into NCCL_SOCKET_IFNAME?
    single node, multi GPU; I have set the IP address of my instance: Connection timed out
"""

from __future__ import annotations

import re

from envcheck.facts.snapshot import TextEvidence
from envcheck.read.found import LINE_LIMIT, likely_sign, line_at

_POST = 64 << 10
_MOST = 4  # names of interfaces

_NUMBER = r"(?:two|three|four|both|different|several|multiple|other|second|2nd|another|each|all|[2-9]|1[0-6])"
_SEVERAL = re.compile(
    rf"\bmulti(?:ple|-| )?(?:nodes?|machines?|hosts?)\b"
    rf"|\b{_NUMBER} (?:of (?:the|my|our) )?(?:[\w-]{{2,14}} ){{0,2}}(?:nodes?|machines?|servers?|hosts?|computers?|PCs?|VMs?|instances?)\b"
    r"|\b(?:node|host|server) ?[1-9B]\b(?! ?[x×]|[ -]\w{0,8} ?GPU)|nnodes[= ](?:[2-9]|1\d)\b|node[-_]rank[= ][1-9]"
    r"|[两二多2-9] ?台|多机|跨机|多节点|[两二2-9]个节点"
    r"|\b(?:zwei|mehrere[nr]?|verschiedenen) (?:Knoten|Rechnern?|Servern?|Hosts)|\b(?:deux|plusieurs) (?:n(?:oe|œ)uds|serveurs|machines)"
    r"|\b(?:dos|varios|dois|vários) (?:nodos|nós|servidores|máquinas)|(?:дву|нескольк)\w{1,3} (?:узл|нод|сервер|машин)",
    re.IGNORECASE,
)
# NCCL lists the addresses of one machine: those count that are said to be of a node
_ADDRESS = re.compile(
    r"(?i:\b(?:node|host|server|machine|worker|rank|container|IP)\b|机器?|节点|服务器)[^\n]{0,24}?(?<![\d.])"
    r"((?!127\.|0\.0\.0\.0|255\.|169\.254\.)(?:\d{1,3}\.){3}\d{1,3})(?![\d.])"
)

_BROKEN_OFF = re.compile(r"unhan\w{2,6} system error|ncclSystemError|ncclRemoteError", re.IGNORECASE)
_OTHER_CAUSE = re.compile(
    r"file://|shared memory|/dev/shm|No space left|Duplicate GPU|version mismatch|Cuda failure|\bibv_\w|Too many open files"
)
_CONTAINER = re.compile(r"\b(?:docker|podman|containers?|nerdctl|enroot)\b|容器|コンテナ|контейнер|컨테이너", re.IGNORECASE)
_NETWORK_OF_HOST = re.compile(
    r"--net(?:work)?[= ]host|network_mode: ?['\"]?host|hostNetwork|\bhost(?:['’]s)? network|\boverlay\b|\bmacvlan\b|主机网络|host ?模式",
    re.IGNORECASE,
)

_VARIABLE = re.compile(r"NCCL_SOCKET_IFNAME(?: ?[=:] ?['\"]?(?P<set>[\w^=,.-]{2,80}))?", re.IGNORECASE)
_NAME = re.compile(
    r"(?<![\w./=^-])(?:eno\d{1,3}|ens\d{1,3}(?:f\d)?|enp\d{1,3}s\d{1,3}(?:f\d{1,2})?|enx[0-9a-f]{12}|eth\d{1,2}|em\d|p\dp\d|bond\d{1,2}"
    r"|ibp?\d{1,3}(?:s\d{1,3})?|wlan\d|wlp\d{1,3}s\d|hsn\d|team\d)(?:np\d)?(?![\w-])",
    re.ASCII,
)
_THE_OTHER = re.compile(
    r"\b(?:other|second|2nd|another|node ?[1-9B]|host ?[2-9B]|server ?[2-9B]|(?:dem |der |die )?anderen?|zweite[rn]?"
    r"|l['’]autre|otr[oa]|друг\w{1,3}"
    r"|втор\w{1,3})\b|另一|另外|第二|2号|もう一|別の",
    re.IGNORECASE,
)
_TROUBLE = re.compile(
    r"\berrors?\b|\bfail|\brefused\b|\breset\b|\bhang|\bstuck\b|\btime(?:d|s)?[ -]?out|Error\b"
    r"|报错|错误|失败|卡|Fehler|hängt|ошибк|завис|erreur|エラー",
    re.IGNORECASE,
)

_NO_ANSWER = re.compile(
    r"\bConnection (?:timed out|refused)\b|\bconnect\(\) timed out|client socket has timed out|C10d store has failed|\bNo route to host\b"
    r"|Cannot assign requested address",
    re.IGNORECASE,
)
_ONE_MACHINE = re.compile(
    r"\b(?:single|one|1)[- ](?:[\w-]{2,12} )?(?:node|machine|host|instance|server|VM|computer)\b|nnodes[= ]1\b|num[_-]machines[= ]1\b"
    r"|单机|单节点"
    r"|一台(?:机器|服务器|主机)|\bein(?:em|er|e|en)? (?:einzig\w{1,2} )?(?:Knoten|Rechner|Server|Maschine)\b"
    r"|\bun(?:e seule? machine| seul (?:n(?:oe|œ)ud|serveur))"
    r"|\bun(?:a sola máquina| solo (?:nodo|servidor))|\buma única máquina|одн\w{2,3} (?:машин|узл|сервер|нод)|1台",
    re.IGNORECASE,
)
_GIVEN = re.compile(
    r"\b(?:public|external|elastic)\b|\bMASTER_ADDR\b|master[-_]addr|init_method|dist[-_]url|\bIP\b|公网|外网|地址|\bAdresse\b|\bdirección\b|адрес",
    re.IGNORECASE,
)
_LOCAL = re.compile(r"\b(?:127\.0\.0\.1|localhost)\b|--standalone\b")


def told_hosts(text: str) -> tuple[TextEvidence, ...]:
    """Signs of a post; a long log tells nothing in words."""
    return (*_in_containers(text), *_interfaces(text), *_from_outside(text)) if len(text) <= _POST else ()


def _in_containers(text: str) -> tuple[TextEvidence, ...]:
    """NCCL breaks off between containers on several hosts that do not use the hosts' network."""
    broken = _BROKEN_OFF.search(text)
    if not broken or not _CONTAINER.search(text) or _NETWORK_OF_HOST.search(text) or _OTHER_CAUSE.search(text):
        return ()
    if not _SEVERAL.search(text) and len(set(_ADDRESS.findall(text))) < 2:
        return ()
    return (likely_sign(_line(text, broken), "nccl-interface", "nccl-in-containers", "container", {}),)


def _interfaces(text: str) -> tuple[TextEvidence, ...]:
    """Each of two machines has an interface that the other has not, and one value of NCCL_SOCKET_IFNAME has to serve both."""
    about = _VARIABLE.search(text)
    if not about or not _SEVERAL.search(text) or not _TROUBLE.search(text):
        return ()
    found = [(one.start(), one[0]) for one in _NAME.finditer(text)]
    for other in _THE_OTHER.finditer(text):
        before = dict.fromkeys(name for at, name in found if at < other.start())
        after = dict.fromkeys(name for at, name in found if at > other.start())
        if before.keys() - after.keys() and after.keys() - before.keys():
            names = list(before | after)[:_MOST]
            given = next((one["set"] for one in _VARIABLE.finditer(text) if one["set"]), "")
            if given.startswith("^") or all(name in given.split(",") for name in names):
                return ()
            return (likely_sign(_line(text, about), "nccl-interface", "interfaces-differ", "names", {"names": ",".join(names)}),)
    return ()


def _from_outside(text: str) -> tuple[TextEvidence, ...]:
    """Nobody answers at the address that the processes of one machine were given."""
    silent = _NO_ANSWER.search(text)
    if not silent or not _ONE_MACHINE.search(text) or not _GIVEN.search(text) or _SEVERAL.search(text) or _LOCAL.search(text):
        return ()
    return (likely_sign(_line(text, silent), "launch-unreachable", "address-from-outside", "one_machine", {}),)


def _line(text: str, match: re.Match[str]) -> str:
    return line_at(text, match.start())[0].strip()[:LINE_LIMIT]
