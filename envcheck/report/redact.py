"""A report fit for a public issue.

User and host names, home folders, UUIDs, serial numbers, network addresses and tokens become placeholders,
equal ones for equal things, so that two GPUs remain two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cached_property
from typing import Any, TypeVar

from envcheck.facts.record import field, fields, is_record, mutable, record, replace
from envcheck.facts.secrets import MASK, is_secret_name, mask_secrets
from envcheck.facts.snapshot import LauncherFacts, NetworkFacts, PackagesFacts, PythonFacts, Snapshot, TorchFacts
from envcheck.report.job_names import JOB, JOB_SAID, job_names
from envcheck.report.report import Report

T = TypeVar("T")

# A long run of mixed letters and digits; C++ symbols (_ZN3c105Error…) are evidence and stay
_DENSE = re.compile(r"(?<![\w/+.=-])(?!_Z)(?=[\w+=-]*\d)(?=[\w+=-]*[a-z])(?=[\w+=-]*[A-Z])[A-Za-z0-9_+=-]{32,}(?![\w/+.=-])")


def map_strings(value: T, change: Callable[[str], str]) -> T:
    """A copy of a tree of records, tuples and mappings with every string changed; values of secret names are masked."""
    return _map(value, change)  # type: ignore[no-any-return]


def _map(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if value is None or isinstance(value, bool | int | float | Enum):
        return value
    if isinstance(value, tuple | list):
        changed_items = [_map(item, change) for item in value]
        return (
            changed_items if isinstance(value, list) else type(value)(*changed_items) if hasattr(value, "_fields") else tuple(changed_items)
        )
    if isinstance(value, Mapping):
        return {key: MASK if isinstance(item, str) and item and is_secret_name(key) else _map(item, change) for key, item in value.items()}
    if is_record(value):
        changed = {}
        for one in fields(value):
            before = getattr(value, one.name)
            after = _map(before, change)
            if after is not before and after != before:
                changed[one.name] = after
        return replace(value, **changed) if changed else value
    return value


@record
class Identity:
    """What names this machine and its user. `versions` look like addresses and are not: "12.8.4.1"."""

    users: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    homes: frozenset[str] = frozenset()
    versions: frozenset[str] = frozenset()
    hashes: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()  # further hosts, which stay several
    lists: frozenset[str] = frozenset()  # of hosts, as a scheduler writes them
    jobs: frozenset[str] = frozenset()


# Names that many machines share: they identify nobody, and as words they occur in any text.
_COMMON_USERS = frozenset(
    {"root", "user", "users", "ubuntu", "admin", "runner", "python", "nvidia", "docker", "torch", "shared", "public", "conda"}
)
_COMMON_HOSTS = frozenset({"localhost", "host", "node", "server", "linux", "ubuntu", "docker", "gpu", "cuda", "python", "torch"})
_HOME = re.compile(r"(?:/home|/Users|[A-Za-z]:\\Users)[/\\]+([^/\\\s:'\",;)\]]+)")


def identity(snapshot: Snapshot, users: Iterable[str] = (), homes: Iterable[str] = (), hosts: Iterable[str] = ()) -> Identity:
    """Names found in the snapshot, and those that the caller knows (login name, home folder, the host that it runs on)."""
    names = set(users)
    hosts = {name for host in hosts for name in (host, host.split(".")[0])}
    versions: set[str] = set()
    hashes: set[str] = set()
    home_folders = {home.rstrip("/\\") for home in homes if len(home.rstrip("/\\")) > 1}
    match snapshot.network:
        case NetworkFacts(hostname=str(host)):
            hosts |= {host, host.split(".")[0]}
    for section in (snapshot.python, snapshot.launcher, snapshot.network):
        if isinstance(section, PythonFacts | LauncherFacts | NetworkFacts):
            variables = section.variables
            names |= {variables[key] for key in ("USER", "LOGNAME", "USERNAME", "SLURM_JOB_USER", "SUDO_USER") if variables.get(key)}
            hosts |= {variables[key] for key in ("HOSTNAME", "SLURMD_NODENAME") if variables.get(key)}
    if isinstance(snapshot.python, PythonFacts):
        python = snapshot.python
        paths = (python.executable, python.prefix, python.user_site, python.purelib, python.environment_path, *python.sys_path)
        names |= {found for path in paths if path for found in _HOME.findall(path)}
    if isinstance(snapshot.packages, PackagesFacts):
        versions |= {row.version for row in snapshot.packages.distributions if row.version}
    match snapshot.torch:
        case TorchFacts(git_version=str(git)):
            hashes.add(git)
    job = job_names(snapshot)
    own = frozenset(host for host in hosts if _names_a_host(host))
    return Identity(
        frozenset(name for name in names if len(name) > 2 and name.lower() not in _COMMON_USERS),
        own,
        frozenset(home_folders),
        frozenset(versions),
        frozenset(hashes),
        frozenset(host for host in job.hosts if _names_a_host(host)) - own,
        job.lists - own,
        job.jobs,
    )


def _names_a_host(word: str) -> bool:
    return len(word) > 2 and word.lower() not in _COMMON_HOSTS


_UUID_TEXT = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_GPU_UUID = re.compile(rf"\b(GPU|MIG|CI|GI)-(?:GPU-)?{_UUID_TEXT}(?:/\d+/\d+)?")
_UUID = re.compile(rf"\b{_UUID_TEXT}\b")
_HEX = re.compile(r"(?<![\w/.-])[0-9a-f]{32,}(?![\w/.-])")
# "Serial Number : 1650523012345", "serial=1650…", "Board ID: …": nvidia-smi -q
_SERIAL = re.compile(
    r"(?i)(\b(?:(?:chassis[ _]?)?serial(?:[ _]?(?:number|no))?|(?:board|module)[ _]?id)\b[\"']?\s*[:=]\s*[\"']?)([\w-]{4,})"
)
_MAC = re.compile(r"(?<![0-9A-Fa-f:])(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}(?![0-9A-Fa-f:])")
_IPV4 = re.compile(r"(?<![\w.=<>~!-])(?:\d{1,3}\.){3}\d{1,3}(?![\w-]|\.\d)")
# "nvidia-cublas-cu12 12.8.4.1", "cuDNN version: 9.24.0.43" are versions
_VERSION_BEFORE = re.compile(r"(?i)(?:cu\d\d|cudnn|nccl|cuda|cublas|version|torch|driver|toolkit|wheel|release)[^\w]{1,4}$")
_IPV6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?![\w:])")
_WORD = re.compile(r"[A-Za-z0-9](?:[\w.-]{0,252}[A-Za-z0-9])?")
_HARMLESS = frozenset({"127.0.0.1", "0.0.0.0", "255.255.255.255", "127.0.1.1", "::1", "::"})  # noqa: S104


@mutable
class Redactor:
    """Replaces what identifies; equal things get equal placeholders."""

    identity: Identity
    _numbers: dict[tuple[str, str], int] = field(default_factory=dict)

    @cached_property
    def _names(self) -> re.Pattern[str] | None:
        names = [*self.identity.users, *self.identity.hosts, *self.identity.jobs]
        alternatives = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
        return re.compile(rf"(?<![A-Za-z0-9])(?:{alternatives})(?![A-Za-z0-9])") if names else None

    def __call__(self, text: str) -> str:
        if not text or text.isdecimal():
            return text
        text = JOB_SAID.sub(r"\1[job]", mask_secrets(text))
        for written in sorted(self.identity.lists, key=len, reverse=True):
            text = text.replace(written, "[hosts]")
        if self.identity.others:
            text = _WORD.sub(self._other, text)
        for home in sorted(self.identity.homes, key=len, reverse=True):
            text = re.sub(rf"{re.escape(home)}(?=[/\\\s:'\",;)\]]|$)", "~", text)
        text = _HOME.sub("~", text)
        text = _GPU_UUID.sub(lambda found: f"{found[1]}-[uuid-{self._number('uuid', found[0])}]", text)
        text = _UUID.sub(lambda found: f"[uuid-{self._number('uuid', found[0])}]", text)
        text = _SERIAL.sub(lambda found: f"{found[1]}[serial]", text)
        text = _MAC.sub("[mac]", text)
        text = _IPV4.sub(self._ipv4, text)
        if text.count(":") > 1:
            text = _IPV6.sub(self._ipv6, text)
        text = _HEX.sub(lambda found: found[0] if found[0] in self.identity.hashes else "[hex]", text)
        text = _DENSE.sub(MASK, text)
        return self._names.sub(self._named, text) if self._names else text

    def _named(self, found: re.Match[str]) -> str:
        return "[user]" if found[0] in self.identity.users else "[job]" if found[0] in self.identity.jobs else "[host]"

    def _other(self, found: re.Match[str]) -> str:
        """A word of a text, which may be a host, or one with its domain (`node7.corp.example`)."""
        for word in (found[0], found[0].partition(".")[0]):
            if word in self.identity.others:
                return f"[host-{self._number('host', word.partition('.')[0])}]"
        return found[0]

    def _number(self, kind: str, value: str) -> int:
        return self._numbers.setdefault((kind, value), sum(key[0] == kind for key in self._numbers) + 1)

    def _ipv4(self, found: re.Match[str]) -> str:
        address = found[0]
        if address in _HARMLESS or address in self.identity.versions or any(int(part) > 255 for part in address.split(".")):
            return address
        if _VERSION_BEFORE.search(found.string[max(found.start() - 24, 0) : found.start()]):
            return address
        return f"[ip-{self._number('ip', address)}]"

    def _ipv6(self, found: re.Match[str]) -> str:
        import ipaddress

        address = found[0]
        try:
            ipaddress.IPv6Address(address)
        except ValueError:
            return address  # a PCI address, a time, a C++ name
        return address if address in _HARMLESS else f"[ip-{self._number('ip', address)}]"


def redactor(report: Report, users: Iterable[str] = (), homes: Iterable[str] = (), hosts: Iterable[str] = ()) -> Redactor:
    """What takes out of any text what `redacted` takes out of the report."""
    return Redactor(identity(report.snapshot, users, homes, hosts))


def redacted_snapshot(snapshot: Snapshot, change: Callable[[str], str]) -> Snapshot:
    """The facts alone, as `change` leaves them."""
    clean = map_strings(snapshot, change)
    return replace(clean, **_structured(snapshot, clean))


def redacted(report: Report, users: Iterable[str] = (), homes: Iterable[str] = (), hosts: Iterable[str] = ()) -> Report:
    """The report as it may be pasted into a public issue."""
    clean = map_strings(report, redactor(report, users, homes, hosts))
    return replace(clean, snapshot=replace(clean.snapshot, **_structured(report.snapshot, clean.snapshot)))


def _structured(before: Snapshot, after: Snapshot) -> dict[str, Any]:
    """What only the place tells: a host name of two letters is one, and the version of a package is no address."""
    changed: dict[str, Any] = {}
    if isinstance(after.network, NetworkFacts) and after.network.hostname:
        changed["network"] = replace(after.network, hostname="[host]")
    if isinstance(after.launcher, LauncherFacts):
        variables = {name: "[job]" if JOB.match(name) else value for name, value in after.launcher.variables.items()}
        changed["launcher"] = replace(after.launcher, variables=variables)
    if isinstance(before.packages, PackagesFacts) and isinstance(after.packages, PackagesFacts):
        pairs = zip(before.packages.distributions, after.packages.distributions, strict=True)
        rows = tuple(replace(clean, name=row.name, version=row.version) for row, clean in pairs)
        changed["packages"] = replace(after.packages, distributions=rows)
    return changed
