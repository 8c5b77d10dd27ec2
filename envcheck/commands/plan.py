"""`envcheck plan`: what to install here, or on a machine that is not here, and why not the rest."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from envcheck.commands import try_flags
from envcheck.commands.configuration import rule_session
from envcheck.commands.output import PAGES, add_formats, add_language, deliver
from envcheck.errors import UsageError
from envcheck.facts.record import record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from envcheck.facts.snapshot import Snapshot
    from envcheck.planner.result import PlanReport, Way
    from envcheck.read.wish_file import WishFile
    from envcheck.report.session import RuleSession
    from envcheck.tables.compat import Tables

    Say = Callable[..., str]

EXIT_NO_PLAN = 3


def configure_parser(parser: argparse.ArgumentParser) -> None:
    """The flags of `envcheck plan`."""
    add = parser.add_argument
    add(
        "wish",
        nargs="*",
        metavar="REQUIREMENT",
        help="what is wanted, e.g. 'torch>=2.6,<2.8' torchvision xformers; a bare cu126 or cpu names the build",
    )
    _configure_files(parser)
    add(
        "--for",
        dest="devices",
        metavar="GPU",
        action="append",
        default=[],
        help="a machine that is not here, by its GPU, e.g. h100, 8xh100, rtx4090, 'NVIDIA A10-24Q', mi300x, m3, cpu",
    )
    add("--driver", metavar="VERSION", help="its NVIDIA driver, e.g. 570.124 (default: this machine's; with --for, any)")
    add(
        "--python",
        metavar="PATH|VERSION",
        help="the interpreter to install into (default: as in a check); with a version, one that is not here: e.g. 3.12, 3.14t",
    )
    add("--os", metavar="OS", help="linux, windows, macos or wsl (default: this machine's)")
    add("--machine", metavar="ARCH", help="x86_64 or aarch64 (default: this machine's)")
    add("--glibc", metavar="VERSION", help="its glibc, e.g. 2.28 (default: this machine's)")
    add("--macos", metavar="VERSION", help="its macOS, e.g. 14.4 (default: this machine's)")
    add("--facts", metavar="FILE", help="plan for a recorded snapshot (default: for this machine)")
    add("--assume", metavar="FACT=VALUE", action="append", default=[], help="plan as if, e.g. driver.version=580.95.05")
    add("--tool", choices=("auto", "pip", "uv", "conda"), default="auto", help="whose commands (default: all, the target's own first)")
    add("--index-base", metavar="URL", help="printed commands name this mirror (default: https://download.pytorch.org/whl)")
    add("--files", action="store_true", help="also as requirements.txt, Dockerfile and pyproject.toml lines")
    add("--static", action="store_true", help="do not import the torch that is there")
    add("--timeout", metavar="S", type=float, default=120.0, help="time limit of the look at this machine in seconds (default: 120)")
    try_flags.configure_parser(parser, "the first way")
    add_formats(parser, PAGES)
    add_language(parser)


def _configure_files(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "-r",
        "--requirement",
        dest="requirements",
        metavar="FILE",
        action="append",
        default=[],
        help="wishes from a file (requirements.txt, pyproject.toml, environment.yml, uv.lock, pylock.toml): what fits, what must move",
    )
    add(
        "-c",
        "--constraint",
        dest="constraints",
        metavar="FILE",
        action="append",
        default=[],
        help="versions that a file allows, as in pip (default: all)",
    )
    add(
        "--files-to",
        metavar="FOLDER",
        help="write the files of -r there, with what must move in its place; nothing is written over (default: nowhere)",
    )


def execute(args: argparse.Namespace) -> int:
    """Returns 0 with a plan (with --try: one that passed or was resolved), 3 without one."""
    from envcheck.commands.rendering import language_for

    made = planned(args)
    shown = made.redacted() if args.redact else made
    deliver(args, lambda form, to_stdout: shown.written(form, language_for(args, form, sys.stdout if to_stdout else None)))
    return 0 if made.stands else EXIT_NO_PLAN


@record
class Planned:
    """A plan, the machine that it is for, and what it was asked with."""

    report: PlanReport
    snapshot: Snapshot
    assumed: tuple[str, ...]
    args: argparse.Namespace
    by: RuleSession

    @property
    def stands(self) -> bool:
        """Whether there is a way; with --try, whether one passed or was resolved."""
        if not self.args.try_it:
            return bool(self.report.ways)
        return any(way.trial is not None and way.trial.status in ("passed", "resolved") for way in self.report.ways)

    def document(self) -> dict[str, Any]:
        """The plan as plain values."""
        from envcheck import __version__
        from envcheck.render.json_v1 import plan_document

        tool = {"name": "envcheck", "version": __version__}
        return {"schema": 1, "tool": tool, "plan": plan_document(self.report), "assumed": list(self.assumed)}

    def written(self, form: str, language: str = "") -> str:
        """In one of PAGES; for people in a language of theirs, "" is English."""
        return self.json() if form == "json" else {"text": self.text, "html": self.html}[form](language)

    def redacted(self) -> Planned:
        """Without names, addresses and identifiers."""
        from envcheck.commands.rendering import myself
        from envcheck.report.redact import Redactor, identity, map_strings, redacted_snapshot

        change = Redactor(identity(self.snapshot, **myself()))
        report, assumed = map_strings(self.report, change), map_strings(self.assumed, change)
        return replace(self, report=report, assumed=assumed, snapshot=redacted_snapshot(self.snapshot, change))

    def html(self, language: str = "") -> str:
        from envcheck import __version__
        from envcheck.planner.installers import texts
        from envcheck.planner.result import target_tool
        from envcheck.render import plan_html

        whom = _machine_lines(self.snapshot, self.assumed)
        tool, spoken = target_tool(self.snapshot), replace(self.by, language=language).spoken
        return plan_html.render(self.report, f"envcheck {__version__}", whom, tool, texts(self.by.tables).say, spoken)

    def json(self) -> str:
        from envcheck.render.json_v1 import json_text

        return json_text(self.document())

    def text(self, language: str = "") -> str:
        """For people, in a language of theirs; "" is English. Chinese has no blanks to break a line at; a terminal breaks it anywhere."""
        said = _text(self, replace(self.by, language=language).spoken.planner.say)
        return said if language else _wrapped(said)


def _refuse_mistakes(words: Sequence[str], tables: Tables) -> None:
    """A typo, or words that contradict each other, must not cost a look at the machine."""
    from envcheck.planner.contradiction import contradiction
    from envcheck.planner.installers import texts
    from envcheck.planner.wish import read_wish

    files = [word for word in words if os.path.isfile(word)]
    if two := contradiction({word: read_wish([word], tables, files) for word in words}):
        raise UsageError(texts(tables).say("wish.contradiction", one=two[0], other=two[1]))


def planned(args: argparse.Namespace) -> Planned:
    """Look at the machine that is meant, and search; with --try also build what was found."""
    from envcheck import planner

    elsewhere = _elsewhere(args) or bool(args.facts or args.assume)
    try_flags.require_answer(args, elsewhere)
    by = rule_session(args)
    files = _files(args)
    if args.files_to and not args.requirements:
        raise UsageError("--files-to: there is no -r FILE whose content could be written")
    _refuse_mistakes(args.wish, by.tables)
    snapshot, assumed = _snapshot(args, by)
    report = planner.search(
        snapshot, by.tables, args.wish, checks=by.checks, texts=by.texts, tool=args.tool, index_base=args.index_base, files=files
    )
    if args.files_to:
        from envcheck.commands.wish_files import save

        save(args.files_to, files, report.written)
    if args.try_it:
        from envcheck.commands.check import examine_and_judge
        from envcheck.commands.trying import try_plan

        report = try_plan(report, snapshot, args, by, elsewhere, examine_and_judge)
    return Planned(report, snapshot, assumed, args, by)


def _files(args: argparse.Namespace) -> tuple[WishFile, ...]:
    if not args.requirements and not args.constraints:
        return ()
    from envcheck.commands.wish_files import load

    return load(args.requirements, args.constraints)


def _snapshot(args: argparse.Namespace, by: RuleSession) -> tuple[Snapshot, tuple[str, ...]]:
    """The machine of the plan: named, recorded, or this one; and what was assumed of it."""
    from envcheck.commands.check import assume

    lines: tuple[str, ...] = ()
    if _elsewhere(args):
        from envcheck.planner.assume import Machine, assumed

        if args.facts:
            raise UsageError("--facts names a machine already: use --assume to change it")
        machine = Machine(tuple(args.devices), args.driver, _python(args) or None, args.os, args.machine, args.glibc, args.macos)
        snapshot, lines = assumed(machine, by.tables)
        if machine == Machine(python=machine.python):
            snapshot, lines = _beside(snapshot, args, by), ("this machine", f"python = {machine.python}, in a new environment")
    elif args.facts:
        from envcheck.commands.diagnose import load_facts

        snapshot = load_facts(args.facts, by)
    else:
        snapshot = _here(args, by)
    snapshot, more = assume(snapshot, args.assume, by)
    return snapshot, (*lines, *more)


def _beside(new: Snapshot, args: argparse.Namespace, by: RuleSession) -> Snapshot:
    """This machine with another Python than any that is here: its GPUs and driver count, and nothing of an environment."""
    look = argparse.Namespace(**{**vars(args), "python": sys.executable, "python_named_in": None, "static": True})
    return replace(
        _here(look, by),
        python=new.python,
        packages=new.packages,
        torch=new.torch,
        backends=new.backends,
        devices=new.devices,
        live=new.live,
    )


def _elsewhere(args: argparse.Namespace) -> bool:
    """Whether the flags describe a machine instead of meaning this one."""
    python = _python(args)
    version = bool(python) and python[0].isdecimal() and not os.path.exists(python)
    return bool(args.devices or args.driver or args.os or args.machine or args.glibc or args.macos or version)


def _python(args: argparse.Namespace) -> str:
    """--python. The interpreter of a configuration file is one that is here, and says nothing of another machine."""
    return "" if getattr(args, "python_named_in", None) else args.python or ""


def _here(args: argparse.Namespace, by: RuleSession) -> Snapshot:
    from envcheck.commands.check import examine

    look = argparse.Namespace(
        python=args.python,
        python_named_in=getattr(args, "python_named_in", None),
        static=args.static,
        live="off",
        nproc=None,
        backend="auto",
        start_method="auto",
        timeout=args.timeout,
        evidence=None,
    )
    return examine(look, by)[0]


def _asked(report: PlanReport, args: argparse.Namespace, text: Say, say: Callable[[str], str]) -> list[str]:
    """What becomes of the entries of the files, and the files themselves."""
    from envcheck.render.styled import padded

    lines: list[str] = []
    for name in dict.fromkeys(row.file for row in report.asked):
        mine = [row for row in report.asked if row.file == name]
        lines.append(text("print.asked", name=name))
        for row in mine:
            if row.verdict != "unknown":
                new = f" -> {row.new}" if row.new else ""
                lines.append(f"   {padded(say(row.verdict), 9)}{row.text}{new}" + (f": {say(row.why)}" if row.why else ""))
        if unknown := [row for row in mine if row.verdict == "unknown"]:
            lines.append(f"   {padded(say('unknown'), 9)}{', '.join(row.text for row in unknown)}: {say(unknown[0].why)}")
        lines.append("")
    for name, content in report.written.items() if args.files else ():
        lines += [text("print.files", name=name), *(f"  {line}" for line in content.splitlines()), ""]
    return lines


def _standing(way: Way, text: Say, say: Callable[[str], str]) -> list[str]:
    """How far a way is vouched for, in the last lines of it."""
    from envcheck.planner.result import Grade
    from envcheck.render.wording import trial_lines

    trial = [f"   {say(line)}" for line in trial_lines(way.trial)] if way.trial else []
    if way.trial and way.trial.status in ("passed", "failed"):
        return [*trial, *([f"   {say(way.note)}"] if way.note else [])]
    told = say(way.note).endswith(text("note.proof"))
    status = "" if told else text("print.unchecked" if way.grade is Grade.UNCHECKED else "print.checked")
    return [f"   {f'{status} {say(way.note)}'.strip()}", *trial]


def _machine_lines(snapshot: Snapshot, assumed: tuple[str, ...]) -> tuple[str, ...]:
    from envcheck.report.report import host_line, target_line

    return assumed or (host_line(snapshot), target_line(snapshot))


def _text(made: Planned, say: Callable[[str], str]) -> str:
    from envcheck.facts.printable import visible
    from envcheck.planner.installers import texts
    from envcheck.planner.result import TOOLS, target_tool

    def text(key: str, **values: object) -> str:
        return say(texts(made.by.tables).say(key, **values))

    report, snapshot, args = made.report, made.snapshot, made.args
    lines = [text("print.for", target="; ".join(_machine_lines(snapshot, made.assumed))), ""]
    own = target_tool(snapshot)
    order = [own, *(tool for tool in TOOLS if tool != own)]
    for number, way in enumerate(report.ways, 1):
        lines.append(texts(made.by.tables).say("print.way", number=number, title=say(way.title)))
        lines += [f"   {say(change)}" for change in way.changes]
        for tool in order:
            lines += [f"     {tool + ':':6} {line}" for line in way.commands.of(tool)]
        lines += [f"     shell: {line}" for line in way.commands.shell]
        lines += [f"     {name}, in cmd: {line}" for name, some in way.commands.cmd.items() for line in some]
        lines += [f"     {tool}: {say(reason)}" for tool, reason in way.no_command.items() if args.tool in ("auto", tool)]
        if args.files and not args.requirements:
            for name, content in way.files.items():
                lines += [f"   {text('print.files', name=name)}", *(f"     {line}" for line in content.splitlines())]
        lines += [*_standing(way, text, say), ""]
    lines += _asked(report, args, text, say)
    if not report.ways:
        lines += [text("print.none"), ""]
    if report.excluded:
        lines.append(text("print.excluded"))
        lines += [f"   {say(row.what)}: {say(row.why)}" for row in report.excluded]
    return visible("\n".join(lines).rstrip()) + "\n"


def _wrapped(text: str) -> str:
    """Sentences at the width of the terminal, and at 100 columns elsewhere; what is to be copied (five spaces and more) stays as it is."""
    import shutil
    import textwrap

    width = min(shutil.get_terminal_size((100, 24)).columns, 100) if sys.stdout.isatty() else 100
    folded = textwrap.TextWrapper(width, subsequent_indent="   ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(line if line.startswith("     ") or len(line) <= width else folded.fill(line) for line in text.split("\n"))
