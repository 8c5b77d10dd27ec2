"""A finding's intents as fixes with commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from envcheck.intents import Install, Intent, Manual, SetEnv, TorchBuild
from envcheck.plan import commands
from envcheck.plan.candidate import Candidate
from envcheck.plan.companions import has_variant
from envcheck.plan.installers import installers, texts
from envcheck.plan.ways import Planner, planner
from envcheck.record import record
from envcheck.report import Commands, Fix, PlanReport, Way

if TYPE_CHECKING:
    from envcheck.facts import Snapshot
    from envcheck.rule import Check, RuleTexts
    from envcheck.tables import Build, Tables


@dataclass(frozen=True, eq=False)
class Fixer:
    """Turns intents into fixes for one machine; a search is done once for all findings of a run."""

    planner: Planner
    _searches: dict[str | None, PlanReport] = field(default_factory=dict)

    def fixes(self, intents: Sequence[Intent]) -> tuple[Fix, ...]:
        """Fixes in the order of the intents; what would be said twice is said once."""
        made: list[Fix] = []
        for intent in intents:
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
            case SetEnv(name, value, note):
                return (self._variable(name, value, note),)
            case Manual(text, who, lines):
                return (Fix(text, "admin" if who == "admin" else "user", "manual", Commands((), (), (), lines), text),)

    def report(self, wanted: str | None) -> PlanReport:
        """The search for a torch build, once for each wish."""
        if wanted not in self._searches:
            self._searches[wanted] = self.planner.plan((f"torch{wanted}",) if wanted else ())
        return self._searches[wanted]

    def _build(self, wanted: str | None) -> tuple[Fix, ...]:
        report = self.report(wanted)
        ways = [way for way in report.ways if way.commands != Commands() or way.who == "admin" or way.changes]
        if ways:
            return tuple(_of_way(way) for way in ways)
        if not report.excluded:
            return ()
        why = "; ".join(f"{row.what}: {row.why}" for row in report.excluded[:3])
        return (Fix(texts().say("fix.no-build", why=why), text=why, proved=None),)

    def _variable(self, name: str, value: str | None, note: str) -> Fix:
        say = texts().say
        shell = commands.export(self.planner.profile, name, value)
        title = say("env.title-unset", name=name) if value is None else say("env.title-set", name=name, value=value)
        text = say("env.unset" if value is None else "env.set", name=name)
        return Fix(title, "user", "env", Commands((), (), (), (shell,)), text, None, note)

    def _install(self, intent: Install) -> Fix:
        """Packages by name; what is released with torch gets the version and the index of the installed torch."""
        say, profile = texts().say, self.planner.profile
        family, rest = self._family(intent.requirements)
        pip: tuple[str, ...] = ()
        uv: tuple[str, ...] = ()
        if family:
            build = self._installed()
            names = [f"{name}=={number}" for name, number in family]
            if build is not None:
                labelled = [
                    f"{name}=={number}+{build.variant}"
                    if installers().labelled(name, build.version, profile.machine) and not build.on_pypi
                    else f"{name}=={number}"
                    for name, number in family
                ]
                pip, uv = self._of_index(labelled, build.variant, build.on_pypi, intent.remove)
            else:
                rest = (*names, *rest)
        if rest or (intent.remove and not family):
            more_pip, more_uv = commands.install(profile, rest, () if family else intent.remove, intent.reinstall)
            pip, uv = (*pip, *more_pip), (*uv, *more_uv)
        conda, why = self._conda(intent)
        what = ", ".join((*(f"{name} {number}" for name, number in family), *rest)) or ", ".join(intent.remove)
        key = "install.remove" if not intent.requirements else "install.reinstall" if intent.reinstall else "install.title"
        wanted = self.planner.options.tool
        lines = Commands(
            pip if wanted in ("auto", "pip") else (), uv if wanted in ("auto", "uv") else (), conda if wanted in ("auto", "conda") else ()
        )
        return Fix(say(key, what=what), "user", "install", lines, "", None, intent.note, {"conda": why} if why else {})

    def _installed(self) -> Build | None:
        """The installed build, if the tables have it."""
        profile = self.planner.profile
        if not profile.torch or not profile.platform:
            return None
        text = f"{profile.torch}+{profile.variant}" if profile.variant else profile.torch
        build = self.planner.tables.build(text, profile.platform)
        return None if build is None or build.exists == "low" else build

    def _family(self, requirements: Sequence[str]) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
        """Bare names of packages that are released with torch, with their version; and the other requirements."""
        profile = self.planner.profile
        build = self._installed()
        family: list[tuple[str, str]] = []
        rest: list[str] = []
        for text in requirements:
            partner = self.planner.tables.companions(profile.torch).get(text) if profile.torch else None
            known = build is None or not partner or has_variant(text, partner, _as_candidate(build), self.planner.tables)
            if partner and known:
                family.append((text, partner))
            else:
                rest.append(text)
        return tuple(family), tuple(rest)

    def _of_index(
        self, names: Sequence[str], variant: str, default: bool, remove: Sequence[str]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """pip and uv lines for packages of the installed variant's index."""
        profile, options = self.planner.profile, self.planner.options
        base = options.index_base or installers().index_base
        pip, uv = commands.install(profile, (), remove)
        python = profile.executable or "python"
        where = ["--python", profile.executable] if profile.executable else []
        plain = default and not options.index_base
        flag = (
            []
            if plain
            else ["--extra-index-url" if profile.index_url and not options.index_base else "--index-url", f"{base.rstrip('/')}/{variant}"]
        )
        backends = {row["name"] for row in self.planner.tables.rows("installer", "uv-backend")}
        uv_flag = (
            [] if plain else [f"--torch-backend={variant}"] if variant in backends and not options.index_base else ["--index-url", flag[-1]]
        )
        return (
            (*pip, commands.line(profile, python, "-m", "pip", "install", *names, *flag)),
            (*uv, commands.line(profile, "uv", "pip", "install", *where, *names, *uv_flag)),
        )

    def _conda(self, intent: Install) -> tuple[tuple[str, ...], str]:
        """conda lines where conda itself put the packages there; pip packages have none."""
        profile, say = self.planner.profile, texts().say
        if not profile.torch_from_conda:
            return (), say("none.conda-index")
        unknown = [name for name in map(commands.name_of, intent.requirements) if not installers().conda_name(name)]
        if unknown or not intent.requirements:
            return (), say("none.conda-package", name=", ".join(unknown or intent.remove))
        wanted = [
            str(installers().conda_name(commands.name_of(text))) + text[len(commands.name_of(text)) :] for text in intent.requirements
        ]
        return (commands.conda_install(profile, wanted, intent.reinstall),), ""


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
    return Fixer(planner(run.snapshot, run.tables, run.checks, run.texts, run.tool, run.index_base))


def _as_candidate(build: Build) -> Candidate:
    return Candidate(build.version, build.variant, build.platform, build.cuda, build.archs)


def _of_way(way: Way) -> Fix:
    """A way as a fix of a finding."""
    kind = "manual" if way.who == "admin" else "install"
    text = "; ".join(way.changes)
    return Fix(way.title, way.who, kind, way.commands, text, way.proved, way.note, way.no_command)  # type: ignore[arg-type]
