"""Logs of NCCL and RCCL with NCCL_DEBUG=INFO or WARN, 2.2 to 2.32.

node1:1819:1819 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0
node1:1819:1819 [0] NCCL INFO NCCL version 2.28.9+cuda13.0
node1:1819:1819 [0] NCCL INFO NET/Socket : Using [0]eth0:192.0.2.2<0>
"""

from __future__ import annotations

import re

from envcheck.read.found import Found, Notes

_VERSION = re.compile(r"NCCL version (\d{1,2}\.\d{1,2}\.\d{1,2})(?:\+cuda(\d{1,2}\.\d{1,2}))?")
_VARIABLE = re.compile(r"\b((?:NCCL|RCCL)_[A-Z0-9_]{2,60}) set (?:by environment )?to (\S{1,200}?)\.?$")
_HOST = re.compile(r"(?:^|[>\s])([A-Za-z0-9][\w.-]{0,60}):\d{1,9}:\d{1,9} \[")
_USING = re.compile(r"\[\d{1,2}\]([A-Za-z][\w.@-]{0,20}):([0-9A-Fa-f:.]{3,45})<")
_BOOTSTRAP = re.compile(r"Bootstrap ?: Using (?:\[\d\])?([A-Za-z][\w.@-]{0,20}):([0-9A-Fa-f:.]{3,45})<")
_DRIVER = re.compile(r"cudaDriverVersion (\d{4,5})\b")
_NETWORK = re.compile(r"Using network (\w{2,20})")


def read_nccl(text: str) -> Found | None:
    """Version, variables, interfaces and the network in use; different versions on different hosts are a sign."""
    if "NCCL " not in text and "RCCL" not in text and " INFO NET" not in text:
        return None
    notes = Notes("NCCL log", rank=1)
    versions: dict[str, tuple[str, str]] = {}  # version → host and line
    interfaces: dict[str, list[str]] = {}
    where = ("", 0)
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > 4000 or ("NCCL" not in line and "INFO" not in line and "RCCL" not in line):
            continue
        if match := _VERSION.search(line):
            notes.put("torch.nccl_loaded", match[1], line, number)
            host = _HOST.search(line)
            versions.setdefault(match[1], (host[1] if host else "", line))
        if match := _VARIABLE.search(line):
            notes.put(f"env.{match[1]}", match[2], line, number)
        if match := _DRIVER.search(line):
            value = int(match[1])
            notes.put("driver.cuda", f"{value // 1000}.{value % 1000 // 10}", line, number)
        for match in _USING.finditer(line) if "NET/Socket : Using" in line or "NET : Using" in line else _BOOTSTRAP.finditer(line):
            interfaces.setdefault(match[1], []).append(match[2])
            where = where if where[1] else (line, number)
        if match := _NETWORK.search(line):
            notes.put("other.NCCL network", match[1], line, number)
    # Not network.interfaces: the log names those that NCCL uses, not those that there are.
    if interfaces:
        notes.put(
            "other.NCCL interfaces",
            ", ".join(f"{name} {' '.join(dict.fromkeys(addresses))}" for name, addresses in interfaces.items()),
            *where,
        )
    _drift(notes, versions)
    return notes.found()


def _drift(notes: Notes, versions: dict[str, tuple[str, str]]) -> None:
    hosts = {host for host, _ in versions.values()}
    if len(versions) > 1 and "" not in hosts and len(hosts) > 1:
        line = next(iter(versions.values()))[1]
        notes.sign("nccl-version-drift", line, "nccl-versions-differ", {"versions": ", ".join(sorted(versions))})
