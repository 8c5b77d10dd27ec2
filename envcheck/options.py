"""Flags, and the configuration file that sets their defaults."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from envcheck.commands import COMMANDS, configuration, output
from envcheck.commands.output import put
from envcheck.errors import UsageError, near_word


class Parser(argparse.ArgumentParser):
    """argparse whose errors are one line that names the nearest right flag or value."""

    def error(self, message: str) -> NoReturn:
        flag = re.match(r"argument (?:-\w/)?(--[\w-]+): expected one argument", message)
        if flag and self.flags[flag[1]].choices:
            message += f", one of {', '.join(map(str, self.flags[flag[1]].choices or ()))}"
        if wrong := re.match(r"argument (?:-\w/)?(--[\w-]+): invalid (?:int|float) value: '(.*)'", message):
            message = f"{wrong[1]} {wrong[2]}: a number is expected"
        raise UsageError(_with_nearest_flag(message, self.flags))

    @property
    def flags(self) -> dict[str, argparse.Action]:
        """Every spelling of every flag."""
        return {flag: action for action in self._actions for flag in action.option_strings}

    def format_help(self) -> str:
        """argparse's, and below it what a gate may name."""
        text = super().format_help()
        if "--expect" not in self.flags:
            return text
        from envcheck.commands.expect import explained

        return f"{text}\n{explained()}"

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """A flag with an empty value, as `--facts "$FACTS"` without such a variable, would pass for one that was not given."""
        if action.option_strings and "" in arg_strings:
            raise UsageError(f"{action.option_strings[-1]} '': a value is expected, and this one is empty")
        return super()._get_values(action, arg_strings)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            name = action.option_strings[-1] if action.option_strings else self.prog.split()[-1]
            raise UsageError(f"{name} {value}: {one_of(value, [str(one) for one in action.choices])}")

    def _print_message(self, message: str, file: Any = None) -> None:
        put(message)


def one_of(word: str, known: Sequence[str]) -> str:
    """ "one of auto, gloo, nccl; did you mean gloo?"."""
    near = near_word(word, known)
    return f"one of {', '.join(known)}" + (f"; did you mean {near}?" if near else "")


def _with_nearest_flag(message: str, flags: Iterable[str]) -> str:
    """ "unrecognized arguments: --jsno" → the same and "did you mean --json?", or the command whose flag it is."""
    if not message.startswith("unrecognized arguments:"):
        return message
    for word in message.partition(": ")[2].split():
        name = word.split("=")[0]
        if not name.startswith("--"):
            continue
        owner = next((command for command in COMMANDS if name in command_parser(command).flags), None)
        if owner:
            return f"{message}; {name} is a flag of `envcheck {owner}`"
        near = near_word(name, list(flags))
        if near:
            return f"{message}; did you mean {near}?"
    return message


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The arguments of one command; `check` is the default command. UsageError for what cannot be understood."""
    words = list(words)
    if words and words[0] in ("--help", "-h"):
        _main_help()
    command = "check"
    if words and not words[0].startswith("-"):
        command = words.pop(0)
        if command not in COMMANDS:
            raise UsageError(f"{command}: no such command; {_meant_by(command)}")
    if command == "run":
        return _parse_run(words)
    argv: list[str] = []
    if command == "fleet" and "--" in words:  # what follows it is another program's
        at = words.index("--")
        words, argv = words[:at], words[at + 1 :]
        if not argv:
            raise UsageError("fleet: no command stands after --")
    parser = command_parser(command)
    args = parser.parse_args(words)
    args.command = command
    if command == "fleet":
        args.words, args.argv = words, argv
    _configure(args, words, parser)
    return args


def _meant_by(word: str) -> str:
    """What somebody wants who writes this in the place of a command: a file, a program, a rule or a word for help."""
    import os

    from envcheck.engine.rule import FAMILY_RANK
    from envcheck.facts.quoting import quoted
    from envcheck.report.session import rule_session

    if word in ("help", "version"):
        return f"did you mean `envcheck --{word}`?"
    if os.path.isfile(word):
        name, shown = os.path.basename(word), quoted(word)
        if name.endswith(".py"):
            return f"did you mean `envcheck run -- python {shown}`?"
        planned = name.endswith((".toml", ".yml", ".yaml", ".lock", ".in")) or name.startswith("requirements")
        return f"did you mean `envcheck {'plan -r' if planned else 'diagnose'} {shown}`?"
    if near := near_word(word, COMMANDS):
        return f"did you mean {near}?"
    if word in FAMILY_RANK or word in rule_session().texts.ids:
        return f"did you mean `envcheck explain {word}`?"
    return f"there are {', '.join(COMMANDS)}"


def _parse_run(words: list[str]) -> argparse.Namespace:
    """`envcheck run [flags of check] -- CMD…`: what follows the first -- is never looked at."""
    if "--" in words:
        at = words.index("--")
        flags, rest = words[:at], words[at + 1 :]
    else:
        flags, rest = [], words
        while rest and rest[0].startswith("-"):
            flags.append(rest.pop(0))
    parser = command_parser("run")
    try:
        args = parser.parse_args(flags)
    except UsageError as error:
        behind = "" if "--" in words else "; flags stand before --, the command behind it: envcheck run --live off -- python train.py"
        raise UsageError(f"{error}{behind}") from None
    args.command, args.argv = "run", rest
    if not rest:
        raise UsageError("run: no command; write it after --, as in `envcheck run -- python train.py`")
    _configure(args, flags, parser)
    paths = [path for path in (args.output, *(path for _, path in args.documents)) if path]
    if args.stdout or (args.format != "text" and not paths) or any(output.is_a_stream_of_ours(path) for path in paths):
        raise UsageError("run: a report needs -o FILE: stdout and stderr are the command's")
    return args


def _main_help() -> NoReturn:
    put(MAIN_HELP + "\n")
    sys.exit(0)


MAIN_HELP = """\
Will this PyTorch environment train, and if not, what do I run?

usage: envcheck [check] [flags]          look at this machine and a Python
                                         environment, train a step in two
                                         processes, report what is wrong
       envcheck diagnose [FILE…|-]       the cause behind a log, a traceback
                                         or a report of any machine
       envcheck run -- CMD…              check, run CMD; if it fails, say why
       envcheck plan ['torch==2.9.*' …]  what to install here, or on a machine
                                         that is not here
       envcheck explain RULE|WORDS       what a finding means and what to do;
                                         the pages that are about some words
       envcheck rules [--json]           all rules
       envcheck record [-o FILE]         what envcheck sees here, as JSON
       envcheck compare A.json B.json    what differs between two such files
       srun envcheck fleet               all hosts of a job, from within it
       envcheck init, envcheck config    write a configuration; show what is set
       envcheck schema [KIND]            the JSON Schema of the reports, or of
                                         record, plan, compare
       envcheck completion bash|zsh|fish a script for your shell

often used: --fix-suggest (every command that helps), --python PATH (another
environment), --live full (a longer check), --json; `envcheck COMMAND --help`
lists all flags of a command, `envcheck check --help` those of the first.
exit codes: 0 will train, 1 will not, 2 usage, 3 cannot tell, 4 bad hosts are
named (fleet), 130 interrupted, 70 a bug of envcheck"""


def command_parser(command: str) -> Parser:
    parser = Parser(prog="envcheck" if command == "check" else f"envcheck {command}", allow_abbrev=False, description=DESCRIPTIONS[command])
    match command:
        case "check" | "run" | "config":
            _target_flags(parser)
            _facts_flags(parser)
            _report_flags(parser)
            if command == "check":
                from envcheck.commands import try_flags

                try_flags.configure_parser(parser.add_argument_group("fixes tried"), "the first command of every error")
        case "record":
            _target_flags(parser)
            parser.add_argument("-o", "--output", metavar="FILE", help="write there (default: stdout)")
            parser.add_argument(
                "--host",
                metavar="FILE",
                help="also write what this machine answered to each question of envcheck, so that a test can replay it (default: no):"
                " files,"
                " programs' output and variables as they are. It holds names of hosts, users and folders, and addresses; passwords and"
                " tokens are masked",
            )
        case "compare":
            parser.add_argument("before", metavar="A.json")
            parser.add_argument("after", metavar="B.json")
            output.add_formats(parser, output.PAGES)
            output.add_language(parser)
        case "explain":
            _explain_flags(parser)
        case "diagnose" | "plan" | "fleet" | "init" | "schema" | "completion":
            from importlib import import_module

            import_module(f"envcheck.commands.{command}").configure_parser(parser)
            if command == "completion":  # its script has all of them
                parser.set_defaults(parser_of=command_parser, about=DESCRIPTIONS)
        case "rules":
            output.add_language(parser)
            parser.add_argument("--json", action="store_true", help="JSON instead of text")
    parser.add_argument("--config", metavar="FILE", help="configuration (default: the nearest pyproject.toml or envcheck.toml)")
    parser.add_argument("--profile", metavar="NAME", help="also the settings below [tool.envcheck.profile.NAME] (default: none)")
    return parser


DESCRIPTIONS = {
    "check": "Tells whether this environment will train, and if not, what to run.",
    "run": "Checks the environment, runs a command, and if that fails looks for the cause in its output and in the facts of this"
    " machine. The command's exit code is kept. -o FILE holds the report of the check or, if the command fails, of the diagnosis.",
    "record": "Writes the facts of this machine and interpreter as JSON (a snapshot); `envcheck --facts FILE` judges them anywhere.",
    "compare": "Says what differs between two recorded snapshots and which rules change their verdict.",
    "diagnose": "Names the cause behind reports, logs and tracebacks of any machine.",
    "plan": "Finds a torch build for a machine and prints the commands that install it.",
    "fleet": "Checks all hosts of a job from within it: who is missing, what differs, which host or link is bad, whether the whole job can"
    " take a step. Started by srun, torchrun (-m envcheck.fleet), mpirun, a Kubernetes job or Ray; or over recorded hosts (--replay).",
    "explain": "Prints what a rule reports, what that means and what to do; or lists the rules that are about some words.",
    "rules": "Lists all rules.",
    "config": "Prints the settings that a check with these flags would have, and who set each: the command line, a file, a profile.",
    "init": "Writes a commented envcheck.toml whose expectations are what this machine has.",
    "completion": "Prints a script that completes commands, flags and values in a shell.",
    "schema": "Prints the JSON Schema of a document of envcheck, version 1.",
}


def _explain_flags(parser: Parser) -> None:
    parser.add_argument("rule", metavar="RULE|WORDS", nargs="+", help="a rule's id, or words: then the pages that are about them")
    output.add_language(parser)
    parser.add_argument("--url", action="store_true", help="print the address of the rule's page in the documentation instead")


def _target_flags(parser: Parser) -> None:
    target = parser.add_argument_group("what is examined")
    target.add_argument(
        "--python",
        metavar="PATH",
        help="the interpreter under test: a file, a command or a virtual environment"
        " (default: the active one, else ./.venv, else python on PATH)",
    )
    target.add_argument("--static", action="store_true", help="metadata only: torch is not imported")
    target.add_argument("--live", choices=("quick", "full", "off"), default="quick", help="how much the live check does (default: quick)")
    target.add_argument(
        "--nproc", metavar="N", default=None, help="processes (ranks) of the live check; `all`: one for each visible GPU (default: 2)"
    )
    target.add_argument(
        "--backend",
        default="auto",
        choices=("auto", "gloo", "nccl", "xccl", "mpi", "ucc"),
        help="process group backend; fail if it is not available (default: auto)",
    )
    target.add_argument("--start-method", default="auto", choices=("auto", "fork", "spawn"), help="how to start the ranks (default: auto)")
    target.add_argument("--timeout", metavar="S", type=float, default=180.0, help="time limit of the whole run in seconds (default: 180)")


def _facts_flags(parser: Parser) -> None:
    facts = parser.add_argument_group("recorded and assumed facts")
    facts.add_argument("--facts", metavar="FILE", help="judge a recorded snapshot (default: this machine is examined)")
    facts.add_argument("--assume", metavar="FACT=VALUE", action="append", default=[], help="judge as if, e.g. driver.version=580.95.05")
    facts.add_argument(
        "--expect",
        metavar="'A>=B'",
        action="append",
        default=[],
        help="fail unless it holds, e.g. --expect 'gpus>=8' --expect 'torch~=2.14' (the names stand below)",
    )
    facts.add_argument("--evidence", metavar="DIR", help="keep the ranks' output, stacks and logs there (default: nothing is kept)")


def _report_flags(parser: Parser) -> None:
    report = parser.add_argument_group("report and exit code")
    report.add_argument("--fix-suggest", action="store_true", help="print every command that would fix a finding, for pip, uv and conda")
    report.add_argument(
        "--tool", choices=("auto", "pip", "uv", "conda"), default="auto", help="whose commands come first (default: the target's own)"
    )
    report.add_argument("--index-base", metavar="URL", help="printed commands name this mirror (default: https://download.pytorch.org/whl)")
    output.add_flags(report)
    report.add_argument("--fail-on", choices=("error", "warning", "never"), default="error", help="what exits 1 (default: error)")
    report.add_argument("--strict", action="store_true", help="a warning, or a rule that could not decide, is not a pass")
    report.add_argument(
        "--select",
        metavar="RULE|FAMILY",
        action="append",
        default=[],
        help="only these rules, e.g. driver,shm-small (repeatable; default: all)",
    )
    report.add_argument(
        "--ignore",
        metavar="RULE|FAMILY",
        action="append",
        default=[],
        help="without these rules, e.g. driver,shm-small (repeatable; default: none)",
    )
    report.add_argument("--version", action="version", version=_version())


def _version() -> str:
    from envcheck import __version__

    return f"envcheck {__version__}"


def _configure(args: argparse.Namespace, words: Sequence[str], parser: Parser) -> None:
    configuration.apply(args, words, parser)
    for line in args.configuration.passed_over:
        print(f"envcheck: {line}; --config obeys it", file=sys.stderr)
    with configuration.naming_the_file(args):
        _settle(args)


def _settle(args: argparse.Namespace) -> None:
    """What flags and file say together; UsageError where that is a contradiction or no value of a flag."""
    for name in ("select", "ignore"):
        if hasattr(args, name):
            setattr(args, name, [part for one in getattr(args, name) for part in one.split(",") if part])
    if "--select" in args.given and not args.select:
        raise UsageError("--select: no rule is named")
    if getattr(args, "json", False) and hasattr(args, "format"):
        if args.format != "json" and ("--format" in args.given or "format" in args.configured):
            raise configuration.contradiction(args, "json", "format")
        args.format = "json"
    if (base := getattr(args, "index_base", None)) is not None and not _ADDRESS.match(base):
        raise UsageError(f"--index-base {base}: an address is expected, as in https://mirror.example/whl")
    if hasattr(args, "output"):
        output.settle(args)
    if hasattr(args, "live"):
        _check_contradictions(args)
        _check_values(args)


_ADDRESS = re.compile(r"(\w+://|[./])\S+$")  # also a folder


# What has no meaning where a recorded snapshot is judged and nothing is examined.
OF_AN_EXAMINATION = ("--python", "--static", "--live", "--nproc", "--start-method", "--timeout", "--evidence", "--host")


def _check_contradictions(args: argparse.Namespace) -> None:
    if getattr(args, "facts", None):
        for flag in OF_AN_EXAMINATION:
            if flag in args.given:
                raise UsageError(f"{flag} and --facts contradict each other: a recorded snapshot is judged, nothing is examined")
    if getattr(args, "static", False) and args.live != "off" and {"--live", "live"} & (args.given | args.configured.keys()):
        raise configuration.contradiction(args, "static", "live", ": the live check needs torch")
    if getattr(args, "quiet", False) and getattr(args, "verbose", False):
        raise configuration.contradiction(args, "quiet", "verbose")


def _check_values(args: argparse.Namespace) -> None:
    if args.nproc is not None and args.nproc != "all":
        try:
            args.nproc = int(args.nproc)
        except ValueError:
            raise UsageError(f"--nproc {args.nproc}: a number of ranks, or `all`") from None
        if not 1 <= args.nproc <= 256:
            raise UsageError(f"--nproc {args.nproc}: between 1 and 256")
    if not 5 <= args.timeout <= 86400:
        # a file may hold a whole number that no float holds
        shown = f"{args.timeout:g}" if isinstance(args.timeout, float) else str(args.timeout)[:20]
        raise UsageError(f"--timeout {shown}: between 5 and 86400 seconds")
