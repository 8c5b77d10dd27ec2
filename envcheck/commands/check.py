"""`envcheck [check]` and `envcheck record`: examine, judge, report."""

from __future__ import annotations

import argparse
import errno
import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

from envcheck.commands.configuration import rule_session, told_of
from envcheck.commands.output import put
from envcheck.commands.rendering import write
from envcheck.errors import MachineFault, UsageError
from envcheck.facts.dead_mount import answers
from envcheck.facts.printable import visible
from envcheck.host.memory import too_little
from envcheck.host.orphans import statuses_kept
from envcheck.host.ownership import planted
from envcheck.host.plain_files import make_folders

if TYPE_CHECKING:
    from envcheck.facts.snapshot import Snapshot
    from envcheck.host.access import Host
    from envcheck.report.report import Report
    from envcheck.report.session import RuleSession

T = TypeVar("T")


def execute(args: argparse.Namespace) -> int:
    """Returns the exit code of DESIGN's table: 0, 1 or 3."""
    if args.command == "record":
        return _record(args)
    from envcheck.commands import try_flags

    elsewhere = bool(args.facts or args.assume)
    if try_it := getattr(args, "try_it", False):  # `run` has no such flag
        try_flags.require_answer(args, elsewhere)
    by = session_of(args)
    report = examine_and_judge(args, by)
    if try_it:
        from envcheck.commands import trying

        args.fix_suggest = True
        with statuses_kept():
            report = trying.try_fixes(report, args, by, elsewhere, examine_and_judge)
    write(report, args)
    return report.exit_code


def session_of(args: argparse.Namespace) -> RuleSession:
    """The rules of a check. --select, and the rules of what the user demands: a choice of rules does not take that back."""
    demands = (
        ("expectation-failed", bool(args.expect)),
        ("backend-unavailable", args.backend != "auto"),
        ("distributed-unavailable", args.nproc not in (None, 1)),
    )
    return rule_session(args, [*args.select, *(rule for rule, demanded in demands if demanded)] if args.select else [])


def examine_and_judge(args: argparse.Namespace, by: RuleSession) -> Report:
    """The finished report on this machine, or on the recorded one of --facts."""
    began = time.monotonic()
    timings: dict[str, float] = {}
    _check_output(args)
    check_facts_named(args)  # a typo must not cost a whole run
    if args.facts:
        from envcheck.commands.diagnose import load_facts

        snapshot = load_facts(args.facts, by)
    else:
        snapshot, timings = examine(args, by)
    from envcheck.report.report import live_asked
    from envcheck.report.session import report_on

    snapshot, assumed = assume(snapshot, args.assume, by)
    backend = None if args.backend == "auto" else args.backend
    nproc = None if args.facts else args.nproc  # of a recorded machine nothing is examined
    if args.expect or backend or nproc:
        from envcheck.commands.expect import expected

        snapshot = expected(snapshot, args.expect, backend, nproc)
    judged = time.monotonic()
    report = report_on(
        snapshot,
        by,
        fail_on=args.fail_on,
        strict=args.strict,
        live_requested=live_asked(snapshot.live) if args.facts else not args.static and args.live != "off",
        assumed=assumed,
        timings=timings,
        tool=args.tool,
        index_base=args.index_base,
    )
    timings["judge"] = time.monotonic() - judged
    timings["total"] = time.monotonic() - began
    from envcheck.facts.record import replace

    return replace(report, timings=timings, configuration=args.configuration)


def examine(args: argparse.Namespace, by: RuleSession) -> tuple[Snapshot, dict[str, float]]:
    """What --python, --static, --live and their like ask for, with the documents of --host and --evidence."""
    from envcheck.collect import Collected, examined
    from envcheck.host.access import RealHost
    from envcheck.host.recording import RecordingHost
    from envcheck.target import process as target
    from envcheck.target.interpreter import choose

    if too_little():
        raise MachineFault("the address space is limited (ulimit -v, RLIMIT_AS) to less than a check needs")
    host = RealHost()
    chosen = choose(args.python, host.env, getattr(args, "python_named_in", None))
    if chosen.note:
        print(visible(f"envcheck: {chosen.note}"), file=sys.stderr)
    options = {"static": args.static, "live": args.live, "nproc": args.nproc, "backend": args.backend, "start_method": args.start_method}
    recording = RecordingHost(host) if getattr(args, "host", None) else None

    def keep(folder: str, collected: Collected) -> None:
        if recording:
            put(recording.rendered(), args.host, "--host ", private=True, form="json")
        if getattr(args, "evidence", None):
            _keep_evidence(folder, args.evidence, collected.snapshot, chosen.executable)

    budget, asked = target.Budget(args.timeout), cast("Host", recording or host)
    collected = _watched(lambda tick: examined(chosen, options, budget, by, host, asked, lambda: _get_ready(by, args), tick, keep))
    return collected.snapshot, dict(collected.timings)


def _get_ready(by: RuleSession, args: argparse.Namespace) -> None:
    """Import and read what judging and writing need, while the agent is at work."""
    by.prepare()
    if getattr(args, "format", "") == "text":
        import envcheck.commands.terminal
    if not args.static:  # torch takes its time; the agent of a static check would be waited for
        import envcheck.planner.fixer  # noqa: F401

        _ = by.symptoms.index


def _watched(run: Callable[[Callable[[str], None] | None], T]) -> T:
    """Run with a progress line where stderr is a terminal; with None elsewhere, so that nothing wakes for it."""
    if sys.stderr is None or not sys.stderr.isatty():  # a program without a console calls us
        return run(None)
    from envcheck.commands.progress import Progress

    with Progress(sys.stderr) as line:
        return run(line)


def _keep_evidence(folder: str, into: str, snapshot: Snapshot, executable: str) -> None:
    """The agent's lines, the ranks' output and stacks, and what an analysis makes of them, as one archive."""
    from envcheck import __version__
    from envcheck.evidence.insights import keep
    from envcheck.facts.secrets import mask_secrets
    from envcheck.render.json_v1 import render_record
    from envcheck.report.redact import map_strings

    path = os.path.join(into, f"envcheck-evidence-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}.tar.gz")
    try:
        if reason := planted(into):  # since the check began
            raise OSError(errno.EPERM, reason)
        make_folders(into)
        keep(folder, path, snapshot, render_record(map_strings(snapshot, mask_secrets), "envcheck", __version__), executable)
    except OSError as error:
        print(visible(f"envcheck: no evidence could be kept in {path}: {error.strerror}"), file=sys.stderr)
        return
    print(visible(f"envcheck: evidence kept in {path}"), file=sys.stderr)


def check_facts_named(args: argparse.Namespace) -> None:
    """UsageError for names of facts that do not exist; it names the configuration file if they stand there."""
    if args.assume or args.expect:
        from envcheck.commands.expect import check_syntax

        with told_of(args, "expect"):
            check_syntax((), args.configured.get("expect", ()))
        check_syntax(args.assume, args.expect)


def assume(snapshot: Snapshot, assumptions: list[str], by: RuleSession) -> tuple[Snapshot, list[str]]:
    """Facts replaced by the user's word, and the same as lines for the report."""
    if not assumptions:
        return snapshot, []
    from envcheck.collect import settle
    from envcheck.commands.expect import parse_value, split_assumption
    from envcheck.facts.codec import DecodeError, edit

    for one in assumptions:
        path, text = split_assumption(one)
        value = parse_value(text)
        try:
            snapshot = edit(snapshot, path, value)
        except DecodeError as first:
            try:  # driver.cuda=13.0 reads as a number, but the fact is a text
                snapshot = edit(snapshot, path, text)
            except DecodeError:
                raise UsageError(f"--assume {one}: {first}") from None
    return settle(snapshot, by), list(assumptions)


def _check_output(args: argparse.Namespace) -> None:
    documents = [(f"-o {form}=", path) for form, path in getattr(args, "documents", ())]
    for flag, path in (("-o ", args.output), ("--host ", getattr(args, "host", None)), *documents):
        if path and not answers(os.path.dirname(path) or "."):
            raise UsageError(f"{flag}{path}: the file system there does not answer")
        if path and (os.path.isdir(path) or not os.path.isdir(os.path.dirname(path) or ".")):
            raise UsageError(f"{flag}{path}: cannot be written")
        if path and (reason := planted(path)):
            raise UsageError(f"{flag}{path}: {reason}")
    evidence = getattr(args, "evidence", None)
    if evidence:  # what cannot be kept must not be noticed after the whole run
        if reason := planted(evidence):
            raise UsageError(f"--evidence {evidence}: {reason}")
        try:
            make_folders(evidence)
        except OSError as error:
            raise UsageError(f"--evidence {evidence}: {error.strerror}") from None
        if not os.access(evidence, os.W_OK | os.X_OK):
            raise UsageError(f"--evidence {evidence}: cannot be written")


def _record(args: argparse.Namespace) -> int:
    _check_output(args)
    snapshot, _ = examine(args, rule_session(args))
    from envcheck import __version__
    from envcheck.render.json_v1 import render_record

    put(render_record(snapshot, "envcheck", __version__), args.output, private=True, form="json")
    return 0
