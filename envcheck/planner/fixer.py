"""A finding's intents as fixes with commands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from envcheck.engine.intents import UPGRADE, Install, Intent, Manual, SetEnv, TorchBuild
from envcheck.engine.shells import for_windows
from envcheck.facts.record import field, record, replace
from envcheck.facts.snapshot import Missing, Snapshot, SystemFacts, Why
from envcheck.planner import install_commands
from envcheck.planner.candidate import Candidate, catalogue
from envcheck.planner.companions import Companions, Move, has_variant
from envcheck.planner.installers import installers, texts
from envcheck.planner.result import Commands, Fix, Grade, PlanReport, Way
from envcheck.planner.ways import Planner, planner
from envcheck.tables.versions import release

if TYPE_CHECKING:
    from envcheck.engine.rule import Check, RuleTexts
    from envcheck.tables.compat import Tables


@record
class Fixer:
    """Turns intents into fixes for one machine; a search is done once for all findings of a run."""

    planner: Planner
    supposed: str = ""  # the platform, where the snapshot does not say it
    system_unsaid: bool = False  # nor does it say which system it runs
    gpu_unsaid: bool = False  # nothing tells whether the machine has a GPU
    _searches: dict[str | None, PlanReport] = field(default_factory=dict)

    def fixes(self, intents: Sequence[Intent]) -> tuple[Fix, ...]:
        """Fixes in the order of the intents; what would be said twice is said once."""
        made: list[Fix] = []
        for intent in intents:
            # The search has already named the driver that would do, with the proof; a rule's general word adds nothing.
            if isinstance(intent, Manual) and "driver" in intent.text and any(fix.who == "admin" and fix.proved for fix in made):
                continue
            for fix in self._fixes(intent):
                if not any(other.title == fix.title and other.commands == fix.commands and other.text == fix.text for other in made):
                    made.append(fix)
        return tuple(made)

    def _fixes(self, intent: Intent) -> tuple[Fix, ...]:
        match intent:
            case TorchBuild(wanted):
                return self._build(wanted)
            case Install():
                return (self._install(intent),)
            case SetEnv():
                return (self._variable(intent),)
            case Manual(text, who, lines, choose, afterwards):
                lines = _for_system(lines, self._system_said)
                if self.planner.profile.windows:
                    lines = tuple(line for line in map(for_windows, lines) if line is not None)
                commands = Commands(shell=lines, choose=choose)
                return (Fix(text, "admin" if who == "admin" else "user", "manual", commands, text, afterwards=afterwards),)

    @property
    def _system_said(self) -> str | None:
        """The system, where it is stated, and where a line for another one could not be meant for this machine too."""
        profile = self.planner.profile
        return None if self.system_unsaid or profile.wsl else profile.os

    def report(self, wanted: str | None) -> PlanReport:
        """The search for a torch build, once for each wish."""
        if wanted not in self._searches:
            self._searches[wanted] = self.planner.plan((f"torch{wanted}",) if wanted else ())
        return self._searches[wanted]

    def _build(self, wanted: str | None) -> tuple[Fix, ...]:
        report = self.report(wanted)
        if report.ways:
            ways = [way for way in report.ways if not way.idle and (way.commands != Commands() or way.who == "admin" or way.changes)]
            return (*self._ask_for_gpu(), *map(self._of_way, ways), *self._on_windows(ways))
        if not report.excluded:
            return ()
        say = texts(self.planner.tables).say
        if jetson := self.planner.profile.jetson:
            return (Fix(say("fix.no-build"), text=say("note.jetson", l4t=jetson)),)
        if self.planner.profile.windows and self.planner.profile.accelerator == "rocm":
            text = say("fix.amd-on-windows")
            return (Fix(text, "user", "manual", Commands((), (), (), ("python -m pip install torch-directml",)), text),)
        why = "; ".join(f"{row.what}: {row.why}" for row in report.excluded[:3])
        return (Fix(say("fix.no-build"), text=why),)

    def _ask_for_gpu(self) -> tuple[Fix, ...]:
        """The way below is for a CPU because no GPU was named, which is no reason on the machine itself."""
        if not self.gpu_unsaid:
            return ()
        text = texts(self.planner.tables).say("fix.gpu-unsaid")
        return (Fix(text, "user", "manual", Commands((), (), (), ("envcheck plan torch",)), text),)

    def _on_windows(self, ways: Sequence[Way]) -> tuple[Fix, ...]:
        """The first way as Windows needs it, where no text says that it is not Windows: PyPI's files of torch for it have no CUDA."""
        line = next((way.commands.pip[0] for way in ways if len(way.commands.pip) == 1), "")
        build = re.search(r"torch (?:\S{1,40} -> )?(?P<torch>[\d.]+)\+(?P<variant>cu\d+)", " ".join(ways[0].changes) if ways else "")
        if not self.system_unsaid or build is None or "-url" in line or f"torch=={build['torch']}" not in line:
            return ()
        if self.planner.tables.build(f"{build['torch']}+{build['variant']}", "windows-x86_64") is None:
            return ()
        text = texts(self.planner.tables).say("fix.on-windows")
        indexed = f"{line} --index-url {installers().index_base}/{build['variant']}"
        return (Fix(text, "user", "manual", Commands((), (), (), (indexed,)), text),)

    def _of_way(self, way: Way) -> Fix:
        """A way as a fix of a finding."""
        kind = "manual" if way.who == "admin" else "install"
        note = way.note
        if self.supposed and kind == "install":
            note = " ".join((texts(self.planner.tables).say("note.supposed", platform=self.supposed), note)).strip()
        proved = way.proved and not self.supposed
        grade = way.grade if proved else Grade.UNCHECKED
        return Fix(way.title, way.who, kind, way.commands, "; ".join(way.changes), proved, note, way.no_command, grade)  # type: ignore[arg-type]

    def _variable(self, intent: SetEnv) -> Fix:
        say = texts(self.planner.tables).say
        rows = ((intent.name, intent.value), *intent.beside)
        shell = tuple(install_commands.export(self.planner.profile, name, value) for name, value in rows)
        values = ", ".join((str(intent.value), *(f"{name}={value}" for name, value in intent.beside)))
        set_, unset = say("env.title-set", name=intent.name, value=values), say("env.title-unset", name=intent.name)
        title = unset if intent.value is None else set_
        lines = install_commands.with_cmd(Commands(shell=shell), self.planner.profile)
        return Fix(title, "user", "env", lines, "", None, intent.note)

    def _install(self, intent: Install) -> Fix:
        """Packages by name; torch and what is released with it come from the index of the installed variant."""
        say, profile = texts(self.planner.tables).say, self.planner.profile
        build, moves, rest = self._family(intent.requirements)
        pip, uv = install_commands.install(profile, (), intent.remove)
        named: list[str] = []
        if build is not None:
            torch = any(move.name == "torch" for move in moves)
            beside = Companions(tuple(move for move in moves if move.name != "torch"))
            form, options = self.planner.form(build), self.planner.tool_options()
            spelled = install_commands.some(build, beside, profile, form, options, torch, intent.reinstall)
            pip, uv = (*pip, *spelled.pip), (*uv, *spelled.uv)
            named = [move.requirement() for move in moves]
        if rest:
            more_pip, more_uv = install_commands.install(profile, rest, (), intent.reinstall, intent.flags)
            pip, uv = (*pip, *more_pip), (*uv, *more_uv)
        conda, why = self._conda(intent)
        what = ", ".join((*named, *rest)) or ", ".join(intent.remove)
        key = "install.remove" if not intent.requirements else "install.reinstall" if intent.reinstall else "install.title"
        if intent.flags == UPGRADE:
            key = "install.upgrade"
        wanted = self.planner.options.tool
        lines = Commands(
            pip if wanted in ("auto", "pip") else (), uv if wanted in ("auto", "uv") else (), conda if wanted in ("auto", "conda") else ()
        )
        lines = install_commands.with_cmd(lines, profile)
        return Fix(say(key, what=what), "user", "install", lines, "", None, intent.note, {"conda": why} if why else {})

    def _family(self, requirements: Sequence[str]) -> tuple[Candidate | None, tuple[Move, ...], tuple[str, ...]]:
        """The installed build, what of the requirements its index holds, and the rest."""
        profile, tables = self.planner.profile, self.planner.tables
        held = installers().data["pip"]["local_version_since"]
        exact = {install_commands.name_of(text): release(text.partition("==")[2] or None) for text in requirements}
        torch = exact.get("torch") or profile.torch
        builds = catalogue(tables, profile.platform) if profile.platform else ()
        build = next((one for one in builds if one.version == torch and one.variant == profile.variant), None)
        if build is None:  # which index is not known; which release is
            goes = tables.companions(torch) if torch else {}
            return None, (), tuple(f"{text}=={goes[text]}" if text in goes else text for text in requirements)
        moves: list[Move] = []
        rest: list[str] = []
        for text in requirements:
            name = install_commands.name_of(text)
            number = exact[name] or (torch if name == "torch" else tables.companions(build.version).get(name))
            bare = text == name or "==" in text
            if name in held and bare and number and (name == "torch" or has_variant(name, number, build, tables)):
                moves.append(Move(name, number, old=profile.torch_metadata if name == "torch" else profile.packages.get(name)))
            else:
                rest.append(text)
        return (build if moves else None), tuple(moves), tuple(rest)

    def _conda(self, intent: Install) -> tuple[tuple[str, ...], str]:
        """conda lines where conda itself put the packages there; pip packages have none."""
        profile, say = self.planner.profile, texts(self.planner.tables).say
        if not profile.torch_from_conda:
            return (), say("none.conda-index")
        unknown = [name for name in map(install_commands.name_of, intent.requirements) if not installers().conda_name(name)]
        if unknown or not intent.requirements:
            return (), say("none.conda-package", name=", ".join(unknown or intent.remove))
        wanted = [
            str(installers().conda_name(install_commands.name_of(text))) + text[len(install_commands.name_of(text)) :]
            for text in intent.requirements
        ]
        return (install_commands.conda_install(profile, wanted, intent.reinstall),), ""


# Whom a remark is for. Distributions are told apart when a rule's lines are filled (engine/distributions.py), here Windows and Linux are.
_FOR = {"windows": re.compile(r"Windows\b(?!')"), "linux": re.compile(r"(?:Ubuntu|Debian|Fedora|RHEL|Rocky Linux|Linux(?! \d|'s))\b")}


def _for_system(lines: tuple[str, ...], os: str | None) -> tuple[str, ...]:
    """Without the lines whose remark says that they are for another system; all of them where none would be left."""
    if os not in _FOR:
        return lines
    other = "linux" if os == "windows" else "windows"
    return tuple(line for line in lines if not _is_of(other, line.partition("    # ")[2])) or lines


def _is_of(system: str, remark: str) -> bool:
    """Whether a remark names this system first and no other."""
    others = (*(name for name in ("Windows", "Linux") if name.lower() != system), "macOS", "elsewhere")
    return bool(_FOR[system].match(remark)) and not any(name in remark for name in others)


@record
class _Run:
    """What a run's searches depend on; two are the same if they are about the same objects."""

    snapshot: Snapshot
    tables: Tables
    checks: tuple[Check, ...]
    texts: RuleTexts
    tool: str
    index_base: str | None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Run) and self.snapshot is other.snapshot and self._rest == other._rest

    def __hash__(self) -> int:
        return hash((id(self.snapshot), self._rest))

    @property
    def _rest(self) -> tuple[object, ...]:
        return self.tables, self.checks, self.texts, self.tool, self.index_base


def fixer(
    snapshot: Snapshot, tables: Tables, checks: Iterable[Check], texts_: RuleTexts, tool: str = "auto", index_base: str | None = None
) -> Fixer:
    """The fixer of a run: the findings of one snapshot share its searches."""
    return _fixer(_Run(snapshot, tables, tuple(checks), texts_, tool, index_base))


@lru_cache(maxsize=2)
def _fixer(run: _Run) -> Fixer:
    snapshot, supposed = _with_platform(run.snapshot)
    search = planner(snapshot, run.tables, run.checks, run.texts, run.tool, run.index_base)
    said = isinstance(run.snapshot.system, SystemFacts) and (run.snapshot.system.os or run.snapshot.system.distribution_id)
    return Fixer(
        search, supposed, bool(supposed) and not said, bool(supposed) and search.profile.accelerator == "cpu" and _unsaid(snapshot.gpus)
    )


def _unsaid(section: object) -> bool:
    return isinstance(section, Missing) and section.why is not Why.ABSENT


def _with_platform(snapshot: Snapshot) -> tuple[Snapshot, str]:
    """The snapshot with the platform that most have where a text names none, and its name: wheels are of a platform, and commands under
    a condition help more than none."""
    system = snapshot.system if isinstance(snapshot.system, SystemFacts) else SystemFacts()
    if system.os and system.machine:
        return snapshot, ""
    name = system.os or "linux"
    machine = system.machine or {"darwin": "arm64"}.get(name, "x86_64")
    supposed = replace(snapshot, system=replace(system, os=name, machine=machine))
    return supposed, f"{ {'linux': 'Linux', 'windows': 'Windows', 'darwin': 'macOS'}.get(name, name) } on {machine}"
