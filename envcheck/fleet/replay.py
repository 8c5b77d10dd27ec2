"""`envcheck fleet --replay`: recorded snapshots of any number of machines, judged as one job.

Each recording is read once and becomes a digest a layer; then one host of each kind is read again and judged. Work is spread over
processes, or over a Ray cluster; what comes of it is the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, cast

from envcheck.errors import UsageError
from envcheck.facts.fleet import FleetFacts, FleetSeat
from envcheck.facts.hostlist import natural
from envcheck.facts.printable import one_line
from envcheck.facts.record import field, mutable, record, replace
from envcheck.facts.recorded import RecordingError, parsed, sections_of, snapshot_from
from envcheck.facts.secrets import mask_secrets
from envcheck.fleet.groups import HostKind, drift_of, kinds_of
from envcheck.fleet.layers import LAYERS, STATE, Values, digest
from envcheck.fleet.recordings import RecordedAt, RecordedPiece, documents, golden_layers, pieces_of, read_place, told_by
from envcheck.report.fleet import FleetReport, FleetUnread, ordered

if TYPE_CHECKING:
    from envcheck.facts.snapshot import Snapshot
    from envcheck.fleet.judge import KindResult
    from envcheck.fleet.options import FleetOptions
    from envcheck.fleet.spread import Spread
    from envcheck.report.report import FailOn
    from envcheck.report.session import RuleSession

JUDGED_AT_ONCE = 16  # kinds a worker is handed


@record
class Seen:
    """One recording, looked at: whose it is, where it stands and what it tells in each layer."""

    host: str
    place: RecordedAt
    digests: tuple[str, ...]  # of LAYERS and the state
    taken: str = ""
    error: str = ""  # why it is no recording; then there is nothing else


@record
class Digested:
    """What a piece of the recordings holds."""

    seen: tuple[Seen, ...]
    values: dict[tuple[str, str], Values]  # (layer, digest) → facts
    lines: int = 0


@mutable
class _Gathered:
    """All recordings, as far as they were read. Digests and places are all that is kept of a host."""

    hosts: dict[str, Seen] = field(default_factory=dict)
    again: list[Seen] = field(default_factory=list)  # of a host that was there before
    values: dict[tuple[str, str], Values] = field(default_factory=dict)
    unread: list[FleetUnread] = field(default_factory=list)
    known: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)
    taken: str = ""


def replay(paths: Sequence[str], options: FleetOptions, ray: str | None = None) -> int:
    """Judges recordings, writes the report as for a job, and returns the exit code. `ray`: the address of a cluster, or "auto"."""
    from envcheck.fleet.spread import on_ray
    from envcheck.fleet.telling import rules_of, written

    by = rules_of(options)
    with ExitStack() as keep:
        spread = keep.enter_context(on_ray(by, None if ray == "auto" else ray)) if ray else None
        fail_on = cast("FailOn", options.fail_on)
        report = judge_recordings(paths, by, options.golden, fail_on=fail_on, strict=options.strict, spread=spread)
    return written(report, FleetSeat(rank=0), options, alone=False) or report.exit_code


def judge_recordings(
    paths: Sequence[str],
    by: RuleSession,
    golden: str | None = None,
    *,
    fail_on: FailOn = "error",
    strict: bool = False,
    spread: Spread | None = None,
) -> FleetReport:
    """The report on all the recordings below these paths. UsageError where there is none, or a path cannot be read."""
    from envcheck.fleet.judge import judge_fleet
    from envcheck.fleet.spread import local

    with ExitStack() as keep:
        model = None if golden is None else golden_layers(golden)
        workers = spread or keep.enter_context(local(by))
        gathered = _gather(workers, pieces_of(paths, keep))
        if not gathered.hosts:
            why = f"; {gathered.unread[0].name}: {gathered.unread[0].reason}" if gathered.unread else ""
            raise UsageError(f"--replay {one_line(paths[0], 200)}: no recording of a machine{why}")
        kinds = kinds_of((host, dict(zip((*LAYERS, STATE), seen.digests, strict=True))) for host, seen in gathered.hosts.items())
        results, unread = _judged(workers, kinds, gathered, fail_on, strict)
        fleet = FleetFacts(hosts=ordered(gathered.hosts), groups=drift_of(kinds, gathered.values, model), golden=model is not None)
        report = judge_fleet(
            fleet,
            results,
            by,
            lambda host: _snapshot(gathered.hosts[host].place) if host in gathered.hosts else None,
            fail_on=fail_on,
            strict=strict,
            unread=sorted((*gathered.unread, *unread), key=lambda one: natural(one.name)),
        )
    return replace(report, replayed=True, taken=gathered.taken)


def _gather(workers: Spread, pieces: Iterable[RecordedPiece]) -> _Gathered:
    found = _Gathered()
    path, line = "", 0  # where the lines of a file that comes in several pieces are counted from
    for piece, digested in workers.each(documents, digest_documents, pieces):
        if piece.end >= 0 and piece.paths[0] != path:
            path, line = piece.paths[0], 0
        for seen in digested.seen:
            place = replace(seen.place, line=seen.place.line + line) if seen.place.line else seen.place
            if seen.error:
                found.unread.append(FleetUnread(place.name, seen.error))
                continue
            _add(found, replace(seen, place=place, digests=found.known.setdefault(seen.digests, seen.digests)))
        line += digested.lines
        for key, values in digested.values.items():
            found.values.setdefault(key, values)
    _name_again(found)
    return found


def _add(found: _Gathered, seen: Seen) -> None:
    found.taken = max(found.taken, seen.taken)
    if seen.host in found.hosts:
        found.again.append(seen)
    else:
        found.hosts[seen.host] = seen


def _name_again(found: _Gathered) -> None:
    """Several recordings of one name are several hosts, as containers may have one name, or one host at several times: all are told."""
    twice = {seen.host for seen in found.again}
    for seen in [*(found.hosts.pop(host) for host in sorted(twice)), *found.again]:
        found.hosts[f"{seen.host}@{_before_name(seen.place.path)}{seen.place.name}"] = seen


def _before_name(path: str) -> str:
    """What keeps `host@file.txt` from being taken for an address of e-mail, which no report shows."""
    return f".{os.sep}" if os.path.basename(path) == path and mask_secrets(f"host@{path}") != f"host@{path}" else ""


def digest_documents(found: Iterable[tuple[RecordedAt, bytes | None]]) -> Digested:
    """What a worker makes of a piece: nothing of the recordings goes back but digests, and the facts of each of them once."""
    seen: list[Seen] = []
    values: dict[tuple[str, str], Values] = {}
    lines = 0
    for place, data in found:
        lines = place.line
        if data is not None and place.line and not data.strip():
            continue
        try:
            if data is None:
                raise RecordingError("cannot be read, or is too large")
            facts = sections_of(parsed(data))
            layers, state = told_by(facts)
        except RecordingError as error:
            seen.append(Seen("", place, (), error=str(error)))
            continue
        digests = []
        for layer, told in layers.items():
            digests.append(digest(told))
            values.setdefault((layer, digests[-1]), told)
        seen.append(Seen(_host(facts, place), place, (*digests, digest(state)), _taken(facts)))
    return Digested(tuple(seen), values, lines)


def _host(facts: Mapping[str, Any], place: RecordedAt) -> str:
    """Its own name; where it does not say it, its recording's."""
    network = facts.get("network")
    name = network.get("hostname") if isinstance(network, Mapping) else None
    if isinstance(name, str) and name.strip():
        return one_line(name, 120)
    stem = place.path.replace("\\", "/").rpartition("/")[2].rpartition(".")[0] or place.path
    return one_line(f"{stem}:{place.line}" if place.line else stem, 120)


def _taken(facts: Mapping[str, Any]) -> str:
    system = facts.get("system")
    date, time = (system.get("date"), system.get("time")) if isinstance(system, Mapping) else (None, None)
    return f"{date}T{time}Z" if isinstance(date, str) and isinstance(time, str) else ""


@record
class KindsToJudge:
    """Kinds of hosts that a worker is to judge: the hosts of each, and the recording of the first one."""

    kinds: tuple[tuple[tuple[str, ...], RecordedAt], ...]


@record
class Recording:
    """One kind of host with what it tells; "" and the reason where that is gone."""

    hosts: tuple[str, ...]
    name: str
    data: bytes
    why: str = ""


def load_task(task: KindsToJudge) -> Iterator[Recording]:
    for hosts, place in task.kinds:
        try:
            yield Recording(hosts, place.name, read_place(place))
        except OSError as error:
            yield Recording(hosts, place.name, b"", error.strerror or type(error).__name__)


def judge_documents(recordings: Iterable[Recording], by: RuleSession, fail_on: FailOn, strict: bool) -> tuple[KindResult | str, ...]:
    """What the rules say of each kind, or why it could not be judged."""
    return tuple(_judge(one, by, fail_on, strict) for one in recordings)


def _judge(one: Recording, by: RuleSession, fail_on: FailOn, strict: bool) -> KindResult | str:
    from envcheck.fleet.judge import judge_kind

    snapshot, why = (None, one.why) if one.why else _decoded(one.data)
    return why if snapshot is None else judge_kind(one.hosts, snapshot, by, fail_on, strict)


def _decoded(data: bytes) -> tuple[Snapshot | None, str]:
    try:
        return snapshot_from(sections_of(parsed(data))), ""
    except RecordingError as error:
        return None, str(error)


def _snapshot(place: RecordedAt) -> Snapshot | None:
    try:
        return _decoded(read_place(place))[0]
    except OSError:
        return None


def _judged(
    workers: Spread, kinds: Sequence[HostKind], gathered: _Gathered, fail_on: FailOn, strict: bool
) -> tuple[list[KindResult], list[FleetUnread]]:
    rows = [(kind.hosts, gathered.hosts[kind.hosts[0]].place) for kind in kinds]
    tasks = [KindsToJudge(tuple(rows[at : at + JUDGED_AT_ONCE])) for at in range(0, len(rows), JUDGED_AT_ONCE)]
    results: list[KindResult] = []
    unread: list[FleetUnread] = []
    for task, answers in workers.each(load_task, judge_documents, tasks, (fail_on, strict)):
        for (_, place), answer in zip(task.kinds, answers, strict=True):
            if isinstance(answer, str):
                unread.append(FleetUnread(place.name, answer))
            else:
                results.append(answer)
    return results, unread
