"""What an NCCL log tells of one run: the network, the transport of every pair of ranks, how far initialisation came, its complaints."""

from __future__ import annotations

import re

from envcheck.facts.record import record
from envcheck.read.nccl import read_nccl

_VIA = re.compile(
    r"Channel \d{1,3}(?:/\d{1,3})? ?: (\d{1,6})\[[\da-f]{1,8}\] -> (\d{1,6})\[[\da-f]{1,8}\] "
    r"(?:\[(?:send|receive)\] )?via ([\w/@-]{2,60})"
)
_INIT = re.compile(r"ncclCommInit\w{0,20} comm 0x[\da-f]{1,16} rank (\d{1,6}) nranks \d{1,6}.{0,300}?- Init (START|COMPLETE)")
_COMPLAINT = re.compile(r"NCCL WARN (.{1,500})")
LINES_KEPT = 20


@record
class NcclLog:
    version: str | None = None
    network: str | None = None  # "Socket", "IB", "AWS Libfabric"
    variables: tuple[tuple[str, str], ...] = ()  # as NCCL says that it read them
    transports: tuple[str, ...] = ()  # "P2P/CUMEM", "SHM/direct", "NET/IB/0/GDRDMA"
    pairs: int = 0  # connections that were named
    unfinished: tuple[int, ...] = ()  # ranks whose initialisation began and did not end
    complaints: tuple[str, ...] = ()  # WARN lines; the first is nearest to the cause

    @property
    def gdr(self) -> bool | None:
        """GPUDirect RDMA is in use; None where nothing goes over InfiniBand."""
        over_ib = [one for one in self.transports if one.startswith("NET/IB")]
        return any("GDRDMA" in one for one in over_ib) if over_ib else None


def read_log(text: str) -> NcclLog | None:
    """One log, of one rank or of all ranks together; None if nothing in it is NCCL's.

    vm:1817:1817 [0] NCCL INFO Using network Socket
    vm:1817:1817 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
    vm:1817:1817 [0] NCCL INFO ncclCommInitRankConfig comm 0x1c9e9d10 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 … - Init COMPLETE
    vm:1822:1822 [0] bootstrap.cc:114 NCCL WARN Bootstrap : no socket interface found
    """
    found = read_nccl(text)
    if found is None and "NCCL" not in text:
        return None
    facts = {fact.path: str(fact.value) for fact in found.facts} if found else {}
    transports: dict[str, set[tuple[str, str]]] = {}
    began: set[int] = set()
    ended: set[int] = set()
    complaints: list[str] = []
    for line in text.split("\n"):
        if len(line) > 4000:
            continue
        if match := _VIA.search(line):
            transports.setdefault(match[3], set()).add((match[1], match[2]))
        elif match := _INIT.search(line):
            (began if match[2] == "START" else ended).add(int(match[1]))
        elif (match := _COMPLAINT.search(line)) and len(complaints) < LINES_KEPT:
            complaints.append(match[1].strip())
    if found is None and not (transports or began or complaints):
        return None
    return NcclLog(
        facts.get("torch.nccl_loaded"),
        facts.get("other.NCCL network"),
        tuple((path[4:], value) for path, value in facts.items() if path.startswith("env.")),
        tuple(sorted(transports)),
        len({pair for pairs in transports.values() for pair in pairs}),
        tuple(sorted(began - ended)),
        tuple(dict.fromkeys(complaints)),
    )
