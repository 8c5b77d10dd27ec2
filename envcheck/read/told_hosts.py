"""Where the processes of a job are, as a person tells it beside an error of the network: in containers on several hosts, on hosts that
name their interfaces differently, or all on one machine with an address from outside.

    one of them has eno1, the 2nd computer eth0: what do I put into NCCL_SOCKET_IFNAME?
    single node, multi GPU; I have set the IP address of my instance: Connection timed out
"""

from __future__ import annotations

import re

from envcheck.facts.snapshot import TextEvidence
from envcheck.read.concepts import POST, said
from envcheck.read.found import kept, likely_sign, line_at

_MOST = 4  # names of interfaces

# NCCL lists the addresses of one machine: those count that are said to be of a node
_ADDRESS = re.compile(
    r"(?i:\b(?:node|host|server|machine|worker|rank|container|IP)\b|机器?|节点|服务器)[^\n]{0,24}?(?<![\d.])"
    r"((?!127\.|0\.0\.0\.0|255\.|169\.254\.)(?:\d{1,3}\.){3}\d{1,3})(?![\d.])"
)

_BROKEN_OFF = re.compile(r"unhan\w{2,6} system error|ncclSystemError|ncclRemoteError", re.IGNORECASE)
_OTHER_CAUSE = re.compile(
    r"file://|shared memory|/dev/shm|No space left|Duplicate GPU|version mismatch|Cuda failure|\bibv_\w|Too many open files"
)
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

_NO_ANSWER = re.compile(
    r"\bConnection (?:timed out|refused)\b|\bconnect\(\) timed out|client socket has timed out|C10d store has failed|\bNo route to host\b"
    r"|Cannot assign requested address",
    re.IGNORECASE,
)
_GIVEN = re.compile(
    r"\b(?:public|external|elastic)\b|\bMASTER_ADDR\b|master[-_]addr|init_method|dist[-_]url|\bIP\b|公网|外网|地址|\bAdresse\b|\bdirección\b|адрес",
    re.IGNORECASE,
)
_LOCAL = re.compile(r"\b(?:127\.0\.0\.1|localhost)\b|--standalone\b")


def told_hosts(text: str) -> tuple[TextEvidence, ...]:
    """Signs of a post; a long log tells nothing in words."""
    return (*_in_containers(text), *_interfaces(text), *_from_outside(text)) if len(text) <= POST else ()


def _in_containers(text: str) -> tuple[TextEvidence, ...]:
    """NCCL breaks off between containers on several hosts that do not use the hosts' network."""
    broken = _BROKEN_OFF.search(text)
    if not broken or not said(text).find("container") or _NETWORK_OF_HOST.search(text) or _OTHER_CAUSE.search(text):
        return ()
    if not said(text).find("several-machines") and len(set(_ADDRESS.findall(text))) < 2:
        return ()
    return (likely_sign(_line(text, broken), "nccl-interface", "nccl-in-containers", "container", {}),)


def _interfaces(text: str) -> tuple[TextEvidence, ...]:
    """Each of two machines has an interface that the other has not, and one value of NCCL_SOCKET_IFNAME has to serve both."""
    about = _VARIABLE.search(text)
    if not about or not said(text).find("several-machines") or not said(text).find("trouble"):
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
    if (
        not silent
        or not said(text).find("single-machine")
        or not _GIVEN.search(text)
        or said(text).find("several-machines")
        or _LOCAL.search(text)
    ):
        return ()
    return (likely_sign(_line(text, silent), "launch-unreachable", "address-from-outside", "one_machine", {}),)


def _line(text: str, match: re.Match[str]) -> str:
    return kept(line_at(text, match.start())[0])
