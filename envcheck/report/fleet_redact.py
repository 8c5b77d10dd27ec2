"""A job's report fit for a public issue: hosts are host1, host2, … in their order, wherever and however they are named."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from envcheck.facts.hostlist import fold, natural, unfold
from envcheck.facts.snapshot import Snapshot
from envcheck.report.fleet import FleetReport
from envcheck.report.redact import Redactor, identity, map_strings

_WORD = re.compile(r"[\w.\-\[\],]{1,4000}")
_ENDS = ",.;:"


def redacted(report: FleetReport, users: Iterable[str] = (), homes: Iterable[str] = ()) -> FleetReport:
    """Names of hosts become numbers, those of files, users, folders and addresses placeholders; nothing else changes."""
    named = {*report.hosts, *report.fleet.bad_hosts, *(host for one in report.findings for host in one.hosts)}
    named |= {seat.host for seat in (*report.fleet.seats, *report.fleet.rivals)}
    named |= {end for link in report.fleet.links for end in (link.source, link.target)}
    names = {host: f"host{number}" for number, host in enumerate(sorted(named - {""}, key=natural), 1)}
    files = {one.name: f"[file-{number}]" for number, one in enumerate(report.unread, 1) if one.name not in names}
    odd = {**files, **{host: name for host, name in names.items() if not _WORD.fullmatch(host)}}  # no word of a text is such a name
    rest = Redactor(identity(Snapshot(), users, homes))

    def change(text: str) -> str:
        if text in names:
            return names[text]
        for name, instead in odd.items():
            text = text.replace(name, instead)
        return rest(_WORD.sub(lambda found: _renamed(found[0], names), text))

    return map_strings(report, change)


def _renamed(word: str, names: Mapping[str, str]) -> str:
    """A word that is a host, or stands for several in Slurm's form."""
    bare = word.rstrip(_ENDS)
    try:
        hosts = unfold(bare)
    except ValueError:
        return word
    if not hosts or not all(host in names for host in hosts):
        return word
    return fold(names[host] for host in hosts) + word[len(bare) :]
