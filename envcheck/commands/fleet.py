"""`envcheck fleet`: the same check over all hosts of a job, within the job; or over recorded hosts."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from typing import TYPE_CHECKING

from envcheck.commands import output
from envcheck.commands.configuration import rule_session
from envcheck.errors import UsageError
from envcheck.facts.printable import visible
from envcheck.host.orphans import statuses_kept

if TYPE_CHECKING:
    from collections.abc import Callable

    from envcheck.facts.fleet import FleetSeat
    from envcheck.fleet.options import FleetOptions
    from envcheck.fleet.seat import JobTold, Seat
    from envcheck.report.fleet import FleetReport
    from envcheck.report.session import RuleSession

FORMATS = ("text", "json", "html", "junit")
MANIFESTS = ("job", "jobset", "trainjob")
# What decides how a flag is meant: a job is run through, recordings are judged, a manifest is printed. One of them at a time.
_NOT_OF_A_JOB = {
    "--replay": (
        "--master",
        "--deadline",
        "--skip",
        "--backend",
        "--nproc",
        "--exclude-file",
        "--variables-only",
        "--evidence",
        "--python",
    ),
    "--manifest": ("--replay", "--golden", "--ray", "--master", "--variables-only", "--exclude-file"),
}


def configure_parser(parser: argparse.ArgumentParser) -> None:
    """The flags of `envcheck fleet`."""
    parser.usage = "%(prog)s [flags] [-- COMMAND …]"
    parser.epilog = (
        "`-- COMMAND …` becomes this process where its host passed: `srun envcheck fleet -- python train.py`."
        " exit codes: 0 the job will go, 1 it will not, 2 usage, 3 cannot tell, 4 bad hosts are named and the others will do"
    )
    _job_flags(parser.add_argument_group("how the processes of the job meet"))
    _trial_flags(parser.add_argument_group("what is examined"))
    _other_starts(parser.add_argument_group("other ways to start"))
    _report_flags(parser.add_argument_group("report and exit code"))


def _job_flags(group: argparse._ActionsContainer) -> None:
    add = group.add_argument
    add(
        "--master",
        metavar="HOST[:PORT]",
        help="rank 0's host and the port of its store, e.g. node01:29511 (default: what the launcher tells)",
    )
    add("--deadline", metavar="S", type=float, default=60.0, help="how long ranks wait for each other in each stage (default: 60 seconds)")
    add(
        "--skip",
        metavar="STAGE",
        action="append",
        default=[],
        choices=("facts", "links", "world"),
        help="leave out facts, links or world (repeatable; default: nothing)",
    )
    # torch.distributed.launch hands it to all that it starts, in the spelling of its release; LOCAL_RANK says the same.
    add("--local-rank", "--local_rank", type=int, help=argparse.SUPPRESS)
    add("--variables-only", action="store_true", help="judge what the launcher told this process, and connect to nothing")


def _trial_flags(group: argparse._ActionsContainer) -> None:
    add = group.add_argument
    add(
        "--python",
        metavar="PATH",
        help="the interpreter under test: a file, a command or a virtual environment"
        " (default: the active one, else ./.venv, else python on PATH)",
    )
    add("--static", action="store_true", help="torch is not imported: no process group is tried")
    add(
        "--backend",
        choices=("auto", "gloo", "nccl"),
        default="auto",
        help="of the process groups (default: gloo, and nccl where there are GPUs)",
    )
    add("--nproc", metavar="N", type=int, help="ranks that each host starts for them (default: as many as the launcher started there)")
    add("--evidence", metavar="DIR", help="keep there, on each host, what ranks left that failed (default: nothing is kept)")


def _other_starts(group: argparse._ActionsContainer) -> None:
    add = group.add_argument
    add(
        "--ray", metavar="ADDRESS", nargs="?", const="auto",
        help="start a process on each node of a Ray cluster (pip install 'ray>=2.9'), e.g. --ray 10.0.0.1:6379 (default: auto, the cluster"
        " of this host); with --replay, judge on it",
    )  # fmt: skip
    add(
        "--replay",
        metavar="PATH",
        nargs="+",
        help="judge recorded snapshots: folders, files, one JSON a line in *.jsonl (default: this job's hosts)",
    )
    add("--golden", metavar="FILE", help="hold every host against this recorded snapshot (default: against each other)")
    add("--manifest", choices=MANIFESTS, help="print a Kubernetes manifest that runs this check, and do nothing else (default: no)")
    add("--nodes", metavar="N", type=int, help="pods of the manifest, or nodes of the Ray cluster (default: 2, or all that are alive)")
    add("--gpus", metavar="N", type=int, help="GPUs of each of these (default: 0 in a manifest; of Ray, what its nodes have)")
    add(
        "--image",
        metavar="IMAGE",
        help="container image of the manifest, with torch-envcheck in it, e.g. registry.example/train:1 (no default: --manifest needs it)",
    )
    add("--name", metavar="NAME", default="envcheck-fleet", help="name of the manifest's objects (default: envcheck-fleet)")


def _report_flags(group: argparse._ActionsContainer) -> None:
    output.add_flags(group, FORMATS)
    add = group.add_argument
    add("--exclude-file", metavar="FILE", help="write the bad hosts there as Slurm's --exclude takes them (default: nowhere)")
    add("--fail-on", choices=("error", "warning", "never"), default="error", help="what exits 1 (default: error)")
    add("--strict", action="store_true", help="a warning, or a rule that could not decide, is not a pass")
    add(
        "--select",
        metavar="RULE|FAMILY",
        action="append",
        default=[],
        help="only these rules, e.g. driver,shm-small (repeatable; default: all)",
    )
    add(
        "--ignore",
        metavar="RULE|FAMILY",
        action="append",
        default=[],
        help="without these rules, e.g. driver,shm-small (repeatable; default: none)",
    )


def execute(args: argparse.Namespace) -> int:
    """Returns 0, 1, 3 or 4; where a command follows, only if this host did not pass."""
    _check(args)
    if args.manifest:
        return _print_manifest(args)
    by = rule_session(args, args.select)
    if args.replay:
        from envcheck.fleet.replay import replay

        return replay(args.replay, _options(args, by), ray=args.ray)
    if args.ray:
        from envcheck.fleet.ray_job import run_on_ray

        return run_on_ray(args.ray, args.words, _files(args), _put(args), nodes=args.nodes, gpus=args.gpus)
    with statuses_kept():
        code = _in_the_job(args, by)
    if code == 0 and args.argv:
        from envcheck.commands.hand_over import hand_over

        return hand_over(args.argv)
    return code


def _check(args: argparse.Namespace) -> None:
    """UsageError for what contradicts itself, before a whole job waits for it."""
    for mode, strange in _NOT_OF_A_JOB.items():
        if getattr(args, mode[2:]):
            for flag in strange:
                if flag in args.given:
                    raise UsageError(f"{flag} has no meaning beside {mode}")
    if args.golden and not args.replay and not os.path.isfile(args.golden):
        raise UsageError(f"--golden {args.golden}: no such file")
    if args.argv and (args.replay or args.manifest or args.variables_only or args.ray):
        raise UsageError("a command after -- follows a check that a launcher started; with --ray, start it by itself afterwards")
    if not 1 <= args.deadline <= 3600:
        raise UsageError(f"--deadline {args.deadline:g}: between 1 and 3600 seconds")
    if args.nproc == "all":  # of a configuration, where it is meant for the check of one machine
        args.nproc = None
    for name, limit in (("nproc", 256), ("nodes", 100_000), ("gpus", 256)):
        number = getattr(args, name)
        if number is not None and not (0 if name == "gpus" else 1) <= number <= limit:
            raise UsageError(f"--{name} {number}: between {0 if name == 'gpus' else 1} and {limit}")


def _files(args: argparse.Namespace) -> list[tuple[str, str]]:
    """The files that the user wants, each with the flag that makes a process write it."""
    files = [(f"-o{args.format}=", args.output)] if args.output else []
    files += [(f"-o{form}=", path) for form, path in args.documents]
    return files + ([("--exclude-file=", args.exclude_file)] if args.exclude_file else [])


def _options(args: argparse.Namespace, by: RuleSession) -> FleetOptions:
    from envcheck.commands.rendering import language_for
    from envcheck.commands.terminal import page_options
    from envcheck.fleet.options import STAGES, FleetOptions

    skipped = {*args.skip, *(("world",) if args.static else ())}
    return FleetOptions(
        deadline_seconds=args.deadline,
        stages=tuple(stage for stage in STAGES if stage not in skipped),
        backends=() if args.backend == "auto" else (args.backend,),
        nproc=args.nproc,
        python=args.python,
        static=args.static,
        documents=tuple(args.documents),
        format=args.format,
        output=args.output,
        exclude=args.exclude_file,
        golden=args.golden,
        evidence=args.evidence,
        strict=args.strict,
        fail_on=args.fail_on,
        select=tuple(args.select),
        ignore=tuple(args.ignore),
        session=by,
        redact=args.redact,
        quiet=args.quiet,
        verbose=args.verbose,
        page=page_options(sys.stderr if args.argv else sys.stdout, os.environ, args) if args.format == "text" else None,
        command_follows=bool(args.argv),
        language=lambda form, to_stdout: language_for(args, form, (sys.stderr if args.argv else sys.stdout) if to_stdout else None),
        put=_put(args),
    )


def _put(args: argparse.Namespace) -> Callable[[str, str | None], None]:
    """Writes a finished text to a path, or for None to stdout; to stderr where stdout is the command's that follows."""

    def put(text: str, path: str | None) -> None:
        if path is None and args.argv:
            print(text, end="", file=sys.stderr, flush=True)
        else:
            output.put(text, path, utf8=args.format in output.UTF8, private=True, form=args.format)

    return put


def _in_the_job(args: argparse.Namespace, by: RuleSession) -> int:
    from envcheck.fleet.variables import judge_variables, place_lines, speaks_for_job

    env, host, pid = os.environ, socket.gethostname(), os.getpid()
    seat = _seat(args, host, pid)
    options = _options(args, by)
    report = judge_variables(env, seat, host, pid, by, fail_on=args.fail_on, strict=args.strict)
    speaks = speaks_for_job(env)
    stopped = seat is None or seat.master is None or report.exit_code != 0
    if speaks and seat is not None and not (args.quiet and not stopped):
        print(visible("".join(f"envcheck fleet: {line}\n" for line in place_lines(seat))), end="", file=sys.stderr)
    if stopped or args.variables_only:
        return _told(report, report.fleet.seats[0], options, speaks)
    assert seat is not None  # noqa: S101  # otherwise it is stopped
    from envcheck.fleet.conduct import conduct

    return conduct(seat, options)


def _seat(args: argparse.Namespace, host: str, pid: int) -> Seat | None:
    from envcheck.fleet.seat import take_seat

    seat = take_seat(os.environ, host, pid, master=args.master)
    if seat is None or seat.master is not None or args.variables_only:
        return seat
    told = _told_by_pmix(bool(args.argv))
    return take_seat(os.environ, host, pid, master=args.master, told=told) if told else seat


def _told_by_pmix(command_follows: bool) -> JobTold | None:
    """Where the variables do not say on which host rank 0 is, the server of mpirun may."""
    from envcheck.fleet import pmix

    return pmix.ask(os.environ) if pmix.may_ask(os.environ, command_follows) else None


def _told(report: FleetReport, seat: FleetSeat, options: FleetOptions, speaks: bool) -> int:
    """The whole report by one process; each of the others says in one line why it goes no further."""
    if speaks:
        from envcheck.fleet.telling import written

        return written(report, seat, options, alone=False) or report.exit_code
    for one in report.findings:
        if report.fails(one):
            print(visible(f"envcheck fleet: {seat.host}, pid {seat.pid}: {one.finding.message} [{one.finding.rule}]"), file=sys.stderr)
    return report.exit_code


def _print_manifest(args: argparse.Namespace) -> int:
    from envcheck.fleet.manifests import manifest

    if not args.image:
        raise UsageError("--manifest: --image IMAGE is missing: a container image in which `envcheck` can be started")
    text = manifest(args.manifest, name=args.name, image=args.image, nodes=args.nodes or 2, gpus=args.gpus or 0)
    output.put(text, args.output)
    return 0
