"""What rank 0 made of the job, or a rank that is on its own: judged, and written where the user wants it."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Sequence
from typing import cast

from envcheck.errors import UsageError
from envcheck.facts.codec import DecodeError, decode_snapshot
from envcheck.facts.fleet import FleetFacts, FleetSeat
from envcheck.facts.hostlist import fold
from envcheck.facts.printable import visible
from envcheck.facts.record import replace
from envcheck.facts.secrets import mask_values
from envcheck.facts.snapshot import Snapshot
from envcheck.fleet.exchange import Exchanged
from envcheck.fleet.groups import drift_of
from envcheck.fleet.judge import judge_fleet, judge_kind
from envcheck.fleet.layers import layers_of
from envcheck.fleet.options import FleetOptions, path_of, written_by
from envcheck.fleet.recordings import golden_layers
from envcheck.report.fleet import FleetReport, FleetUnread
from envcheck.report.report import FailOn
from envcheck.report.session import IgnoreSetting, RuleSession, rule_session

UNWRITABLE = 2  # exit code where nothing else is wrong


def rules_of(options: FleetOptions) -> RuleSession:
    return options.session or rule_session(options.select, [IgnoreSetting(name) for name in options.ignore])


def judged(facts: FleetFacts, exchanged: Exchanged, options: FleetOptions) -> FleetReport:
    """The rules of the fleet on what came, and all others on one host of each kind."""
    by = rules_of(options)
    snapshots: dict[str, Snapshot] = {}
    unread = [FleetUnread(host, why) for host, why in sorted(exchanged.troubles.items())]
    for host, told in exchanged.facts.items():
        try:
            snapshots[host] = decode_snapshot(mask_values(told))
        except DecodeError as error:
            unread.append(FleetUnread(host, str(error)))
    known = [kind for kind in exchanged.kinds if kind.hosts[0] in snapshots]
    values = {
        (layer, kind.digests[layer]): told
        for kind in known
        for layer, told in layers_of(exchanged.facts[kind.hosts[0]]).items()
        if layer in kind.digests
    }
    model = golden_layers(options.golden) if options.golden else None
    drifted = replace(facts, groups=drift_of(exchanged.kinds, values, model), golden=model is not None)
    fail_on = cast(FailOn, options.fail_on)
    results = [judge_kind(kind.hosts, snapshots[kind.hosts[0]], by, fail_on, options.strict) for kind in known]
    report = judge_fleet(drifted, results, by, snapshots.get, fail_on=fail_on, strict=options.strict, unread=unread)
    return replace(report, taken=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))


def written(report: FleetReport, seat: FleetSeat, options: FleetOptions, alone: bool) -> int:
    """The documents of this process; 0, or the exit code where one could not be written.

    Rank 0 writes the job's report. All ranks write where a path tells them apart; one that is alone writes all that was asked for, so
    that its files stand beside those of rank 0, and never in their place.
    """
    rank = seat.rank or 0
    documents = [(form, path) for form, path in _asked(seat.host, rank, options, alone) if rank == 0 or alone or path is not None]
    texts = [(_rendered(report, form, options, path), path) for form, path in documents]
    if options.exclude and rank == 0:
        texts.append((fold(report.bad_hosts) + "\n" if report.bad_hosts else "", options.exclude))
    failed = [why for text, path in texts if (why := _put(text, path, options))]
    for why in failed:
        with contextlib.suppress(OSError):
            print(visible(f"envcheck: rank {rank} on {seat.host}: {why}"), file=sys.stderr)
    return UNWRITABLE if failed else 0


def _put(text: str, path: str | None, options: FleetOptions) -> str:
    try:
        options.put(text, path)
    except (UsageError, OSError) as error:
        return str(error)
    return ""


def _asked(host: str, rank: int, options: FleetOptions, alone: bool) -> Sequence[tuple[str, str | None]]:
    """Format and path of what this process may write; None is stdout."""
    found: list[tuple[str, str | None]] = []
    for form, path in [(options.format, options.output), *options.documents]:
        if path is None:
            found.append((form, None))
        elif written_by(path, rank):
            found.append((form, path_of(path, host, rank)))
        elif alone:
            stem, end = os.path.splitext(path_of(path, host, rank))
            found.append((form, f"{stem}.rank{rank}{end}"))
    return found


def _rendered(report: FleetReport, form: str, options: FleetOptions, path: str | None) -> str:
    """In a file nothing depends on this terminal. What is redacted knows who asks."""
    from envcheck.render.fleet import render_fleet
    from envcheck.render.text import PageOptions

    page = PageOptions(quiet=options.quiet, verbose=options.verbose)
    if form == "text" and path is None and options.page is not None:
        page = options.page
    if code := options.language(form, path is None):
        from envcheck.report.translate import translated_fleet

        report = translated_fleet(report, code, rules_of(options).texts)
    users = [os.environ[name] for name in ("USER", "LOGNAME", "USERNAME") if os.environ.get(name)]
    return render_fleet(report, form, options=page, redact=bool(options.redact), users=users, homes=[os.path.expanduser("~")])
