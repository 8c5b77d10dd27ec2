"""What names a job and its other hosts, as the variables of launchers and schedulers and known messages tell it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from envcheck.facts.hostlist import unfold
from envcheck.facts.record import record
from envcheck.facts.snapshot import LauncherFacts, NetworkFacts, Snapshot, SymptomsFacts

ADDRESSES = ("MASTER_ADDR", "PET_MASTER_ADDR", "PET_RDZV_ENDPOINT", "SM_CURRENT_HOST", "PMI_HOSTNAME", "SLURM_LAUNCH_NODE_IPADDR")
LISTS = ("SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_STEP_NODELIST", "SM_HOSTS")
PLACES = ("address", "host", "peer", "other", "third")  # holes of known messages for the host that is meant
# Numbers and names of a job, which a site's users can look up.
JOB = re.compile(r"[A-Z_]{0,40}(?:JOB_?ID|JOB_NAME|ACCOUNT|RUN_ID|RDZV_ID|PMIX_NAMESPACE)$")
JOB_SAID = re.compile(r"(?<![A-Z_])([A-Z_]{0,40}(?:JOB_?ID|JOB_NAME|ACCOUNT|RUN_ID|RDZV_ID|PMIX_NAMESPACE)=)[^\s,;'\"]+")
_HOST = re.compile(r"(?:[a-z+]{1,12}://)?\[?([A-Za-z][\w.-]{2,253})\]?(?::\d{1,5})?")
_TELLING = re.compile(r"(?=\D{0,99}\d|[^_-]{0,99}[_-]).{5,99}")  # a word like "train" stands in any text


@record
class JobNames:
    hosts: frozenset[str] = frozenset()
    lists: frozenset[str] = frozenset()  # of hosts, as they are written
    jobs: frozenset[str] = frozenset()


def job_names(snapshot: Snapshot) -> JobNames:
    hosts: set[str] = set()
    lists: set[str] = set()
    jobs: set[str] = set()
    for variables in _variables(snapshot):
        hosts |= {found[1] for name in ADDRESSES if (found := _HOST.fullmatch(variables.get(name, "")))}
        jobs |= {value for name, value in variables.items() if JOB.match(name) and _TELLING.fullmatch(value)}
        for written in {variables[name] for name in LISTS if variables.get(name)}:
            lists.add(written)
            try:
                hosts |= set(unfold(written))
            except ValueError:
                continue
    hosts |= {found[1] for place in _places(snapshot) if (found := _HOST.fullmatch(place)) and _TELLING.fullmatch(found[1])}
    return JobNames(frozenset({*hosts, *(host.partition(".")[0] for host in hosts)}), frozenset(lists), frozenset(jobs))


def _places(snapshot: Snapshot) -> Iterator[str]:
    """What messages say of hosts; of a text that somebody pasted no variable tells them."""
    if isinstance(snapshot.symptoms, SymptomsFacts):
        for match in snapshot.symptoms.matches:
            yield from (value for name, value in match.values.items() if name in PLACES)


def _variables(snapshot: Snapshot) -> Iterator[Mapping[str, str]]:
    if isinstance(snapshot.launcher, LauncherFacts):
        yield {"MASTER_ADDR": snapshot.launcher.master_addr or ""}
        yield snapshot.launcher.variables
    if isinstance(snapshot.network, NetworkFacts):
        yield snapshot.network.variables
