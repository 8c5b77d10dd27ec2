"""Files of wishes on a machine: what of them fits, what must move and why, what is not known."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from envcheck.facts.record import field, mutable, record, replace
from envcheck.planner.candidate import Candidate, pool
from envcheck.planner.choice import BuildSearch, Choice, find, named, say, with_driver
from envcheck.planner.companions import Move, companions, knows
from envcheck.planner.installers import installers, texts
from envcheck.planner.profile import Profile
from envcheck.planner.refusal import distance, pivot, why_not
from envcheck.planner.result import AskedRow, Grade, PlanReport, Way
from envcheck.planner.wish import Wish, joined, together
from envcheck.planner.wish_rewrite import Spelling, spelling, written
from envcheck.read.wish_file import holds, place_of, taken
from envcheck.tables.versions import meets, unlabelled, variant_of_cuda, version

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from envcheck.planner.ways import Planner
    from envcheck.read.wish_file import WishFile, WishLine
    from envcheck.tables.compat import Tables


@record
class Entry:
    """A requirement of a file that holds on this machine."""

    file: WishFile
    line: WishLine
    one: Requirement
    label: str | None = None  # "cu126" of "torch==2.9.1+cu126"


@mutable
class Asked:
    """What the files ask for here, and what of them is not looked at."""

    wishes: list[Entry] = field(default_factory=list)
    constraints: list[Entry] = field(default_factory=list)
    indexes: list[tuple[WishFile, WishLine, str]] = field(default_factory=list)  # with the variant that they are of
    rows: list[AskedRow] = field(default_factory=list)

    @property
    def variant(self) -> str | None:
        """The build variant that the files ask for: by a label, by an index, by conda's CUDA package."""
        labels = [entry.label for entry in self.wishes if entry.label and entry.one.name == "torch"]
        return next(iter([*labels, *(variant for _, _, variant in self.indexes)]), None)


def plan_files(planner: Planner, files: Sequence[WishFile], more: Wish) -> PlanReport:
    """The ways for files of wishes and what was wished beside them, and every entry of the files with what becomes of it."""
    asked = read_entries(files, planner.profile, planner.tables)
    by_conda = any(entry.line.conda and entry.one.name == "torch" for entry in asked.wishes)
    if by_conda and planner.options.tool == "auto":
        planner = replace(planner, options=replace(planner.options, tool="conda"))
    return FilePlan(planner, tuple(files), asked, more, "conda" if by_conda or planner.conda_first else "wheel").report


# ------------------------------------------------------------------ reading them for a machine


def read_entries(files: Sequence[WishFile], profile: Profile, tables: Tables) -> Asked:
    """The entries of files that hold on a machine, by their markers; the others become rows at once."""
    asked, env, say_ = Asked(), marker_environment(profile), texts(tables).say
    for file in files:
        for line in file.lines:
            row = AskedRow(file.name, line.line, line.text, "kept")
            if line.role == "kept":
                asked.rows.append(replace(row, why=say_(f"asked.{line.why}")))
            elif line.role == "python":
                if profile.python and meets(profile.python.rstrip("t"), line.value) is False:
                    asked.rows.append(replace(row, verdict="refused", why=say_("asked.python", python=profile.python)))
            elif line.role in ("index", "extra-index", "cuda"):
                _index(asked, file, line, env)
            else:
                _entry(asked, file, line, row, env, tables)
    asked.rows += _alone(asked, say_("asked.alone"))
    return asked


_VARIANT_URL = re.compile(r"/whl/(?:nightly/|test/)?(cpu|xpu|cu\d{2,4}|rocm\d[\d.]{0,8})(?:/|\Z)")


def _index(asked: Asked, file: WishFile, line: WishLine, env: Mapping[str, str]) -> None:
    value, _, marker = line.value.partition(" ; ")
    if marker and not holds(place_of(file.name, line.line), value, marker, env):
        return
    if line.role == "cuda":
        variant = value if value == "cpu" else variant_of_cuda(".".join(value.split(".")[:2]))
    else:
        match = _VARIANT_URL.search(value)
        variant = match[1] if match else None
    if variant:
        asked.indexes.append((file, line, variant))


def _entry(asked: Asked, file: WishFile, line: WishLine, row: AskedRow, env: Mapping[str, str], tables: Tables) -> None:
    from packaging.specifiers import SpecifierSet
    from packaging.utils import canonicalize_name

    place = place_of(file.name, line.line)
    one = taken(place, line.text, line.value)
    if one.marker and not holds(place, line.value, one.marker, env):
        if line.judged:
            asked.rows.append(replace(row, verdict="skipped", why=texts(tables).say("asked.marker")))
        return
    one.name = "torch" if canonicalize_name(one.name) == "pytorch" else canonicalize_name(one.name)
    if not line.judged and one.name != "torch" and not knows(one.name, tables):
        return  # a lock names what hangs below as well
    bare, label = unlabelled(str(one.specifier))
    one.specifier, one.marker = SpecifierSet(bare), None
    (asked.constraints if line.role == "constraint" else asked.wishes).append(Entry(file, line, one, label))


def _alone(asked: Asked, why: str) -> Iterator[AskedRow]:
    there = {"torch", *(entry.one.name for entry in asked.wishes)}
    alone = [entry for entry in asked.constraints if entry.one.name not in there]
    asked.constraints = [entry for entry in asked.constraints if entry.one.name in there]
    yield from (AskedRow(entry.file.name, entry.line.line, entry.line.text, "kept", why=why) for entry in alone)


def marker_environment(profile: Profile) -> dict[str, str]:
    """What markers see on a machine; of what is not known, what most have."""
    python = (profile.python or "3.12").rstrip("t")
    names = {"windows": ("nt", "win32", "Windows"), "darwin": ("posix", "darwin", "Darwin")}
    os_name, platform, system = names.get(profile.os or "linux", ("posix", "linux", "Linux"))
    machine = profile.machine or "x86_64"
    return {
        "os_name": os_name,
        "sys_platform": platform,
        "platform_system": system,
        "platform_machine": {"x86_64": "AMD64", "arm64": "ARM64"}.get(machine, machine) if os_name == "nt" else machine,
        "platform_release": "",
        "platform_version": "",
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_name": "cpython",
        "implementation_version": f"{python}.0",
        "platform_python_implementation": "CPython",
        "extra": "",
    }


# ------------------------------------------------------------------ what becomes of them


@record
class FilePlan:
    """One search for what files ask for: as it is, or with as little moved as will do."""

    planner: Planner
    files: tuple[WishFile, ...]
    asked: Asked
    more: Wish
    source: str  # "wheel", "conda"

    @property
    def report(self) -> PlanReport:
        choice, wish = self.chosen
        if choice is None:
            plain = self.planner.plan_wish(self.wish)
            return replace(plain, asked=(*self.asked.rows, *self.each(self.asked.wishes, self.alone)))
        ways = [self.way(choice, wish)]
        if wish != self.wish and (driver := with_driver(self.find(self.wish), self.planner.profile, self.planner.tables, self.wish)):
            ways.append(self.planner.way(named(driver, self.planner.profile, self.planner.stays), self.wish))
        rows = self.each((*self.asked.wishes, *self.asked.constraints), lambda entry: self.row(entry, choice))
        rows += list(self.index_rows(choice))
        files, refused = written(self.files, rows, self.spelling, choice, self.planner.tables)
        ordered = sorted((*self.asked.rows, *rows), key=lambda row: (row.file, row.line))
        return PlanReport(tuple(ways), asked=(*ordered, *refused), written=files)

    def way(self, choice: Choice, wish: Wish) -> Way:
        """The way to the chosen build. conda installs the rest of its file by itself, and pip has no line for a part of it."""
        unknown = [move for move in choice.beside.moves if not move.known] if self.source == "conda" else []
        beside = replace(choice.beside, moves=tuple(move for move in choice.beside.moves if move.known)) if unknown else choice.beside
        way = self.planner.way(named(replace(choice, beside=beside), self.planner.profile, self.planner.stays), wish)
        if not unknown:
            return way
        names = ", ".join(move.name for move in unknown)
        return replace(
            way,
            proved=False,
            grade=Grade.UNCHECKED,
            note=texts(self.planner.tables).say("asked.rest", names=names, file=self.files[0].name),
        )

    @cached_property
    def wish(self) -> Wish:
        """All of it as one wish."""
        both = (*self.asked.wishes, *self.asked.constraints)
        torch = [str(entry.one.specifier) for entry in both if entry.one.name == "torch"]
        beside = [(entry.one.name, entry.one) for entry in both if entry.one.name != "torch"]
        shown = tuple(dict.fromkeys((*self.more.texts, *(entry.line.text for entry in both if entry.one.name == "torch"))))
        variant = self.more.variant or (self.asked.variant if self.source == "wheel" or self.asked.variant != "cpu" else None)
        spec = joined("torch", (self.more.torch, *torch))
        return Wish(spec, variant, together((*self.more.packages, *beside)), shown or tuple(file.name for file in self.files))

    def find(self, wish: Wish) -> BuildSearch:
        works = self.planner.works and wish == self.wish  # what must move may move to what is older
        return find(self.planner.profile, self.planner.tables, wish, works, self.source)

    @cached_property
    def chosen(self) -> tuple[Choice | None, Wish]:
        """The best build for the wish, or for the one nearest to it that has one."""
        free = replace(self.wish, packages=tuple((name, self.freed(one)) for name, one in self.wish.packages))
        for wish in (self.wish, replace(self.wish, variant=None), replace(free, variant=None)):
            if best := self.find(wish).best:
                return self.restored(best, wish)
        for wish in (replace(self.wish, torch="", variant=None), replace(free, torch="", variant=None)):
            if fits := self.find(wish).fits:
                near = pivot(self.wish.torch)
                sure = [choice for choice in fits if choice.build.seen and choice.build.confidence != "low"] or list(fits)
                best = min(sure, key=lambda choice: (distance(choice.build.version, near)[0], choice.key(self.planner.profile)))
                return self.restored(best, replace(wish, torch=f"=={best.build.version}"))
        return None, self.wish

    def restored(self, choice: Choice, wish: Wish) -> tuple[Choice, Wish]:
        """What was freed and goes with the build as it was asked for is asked for again."""
        profile, tables = self.planner.profile, self.planner.tables

        def goes(name: str, one: Requirement) -> bool:
            return not companions(choice.build, profile, {name: one}, tables).broken

        asked = self.wish.beside
        kept = tuple((name, asked[name] if goes(name, asked[name]) else one) for name, one in wish.packages)
        wish = replace(wish, packages=kept)
        return replace(choice, beside=companions(choice.build, profile, wish.beside, tables)), wish

    def freed(self, one: Requirement) -> Requirement:
        """A requirement of which the version may move, because the tables know what goes with a torch."""
        from packaging.specifiers import SpecifierSet

        if not knows(one.name, self.planner.tables):
            return one
        other = together([(one.name, one)])[0][1]
        other.specifier = SpecifierSet("")
        return other

    @cached_property
    def spelling(self) -> Spelling | None:
        choice, _ = self.chosen
        return spelling(choice, self.planner) if choice else None

    # -------------------------------------------------------------- rows

    @staticmethod
    def each(entries: Iterable[Entry], judge: Callable[[Entry], AskedRow]) -> list[AskedRow]:
        """The row of every entry. What is written alike is judged once."""
        known: dict[WishLine, AskedRow] = {}
        rows = []
        for entry in entries:
            key = replace(entry.line, line=0, start=0)
            if key not in known:
                known[key] = judge(entry)
            rows.append(replace(known[key], file=entry.file.name, line=entry.line.line))
        return rows

    def row(self, entry: Entry, choice: Choice) -> AskedRow:
        """What becomes of one entry beside the chosen build."""
        row = AskedRow(entry.file.name, entry.line.line, entry.line.text, "fits")
        name, one = entry.one.name, choice.build
        if name == "torch":
            changed = meets(one.version, str(entry.one.specifier)) is False or entry.label not in (None, one.variant)
            if changed or self.indexed(choice):
                new = self.spelling.torch(entry.line.conda) if self.spelling and entry.line.role == "wish" else f"torch=={one.version}"
                row = replace(row, verdict="moves", new=new, why=self.why(entry, choice))
            return row
        move = choice.beside.by_name.get(name)
        if move is None or not move.known:
            return replace(row, verdict="unknown", why=texts(self.planner.tables).say("asked.not-in-tables"))
        if self.stays(entry, move, choice):
            return row
        new = self.spelling.beside(move, entry.line.conda) if self.spelling else move.requirement()
        return replace(row, verdict="moves", new=new, why=self.why_beside(entry, choice))

    def stays(self, entry: Entry, move: Move, choice: Choice) -> bool:
        """Whether an entry beside torch may stand as it is written."""
        asked = str(entry.one.specifier)
        follows = move.index or move.name in installers().data["pip"]["local_version_since"]
        if follows and not entry.line.conda and (self.torch_moves or entry.label not in (None, choice.build.variant)):
            return False  # another build of torch needs the same build of its companions
        if move.version:
            return meets(move.version, asked) is not False
        whole = str(self.wish.beside[move.name].specifier)  # other lines may say the rest of it
        return set(filter(None, move.specifier.split(","))) <= set(filter(None, whole.split(","))) or not entry.line.judged

    @cached_property
    def torch_moves(self) -> bool:
        choice, _ = self.chosen
        mine = [entry for entry in self.asked.wishes if entry.one.name == "torch"]
        return choice is not None and (
            self.indexed(choice)
            or any(
                meets(choice.build.version, str(entry.one.specifier)) is False or entry.label not in (None, choice.build.variant)
                for entry in mine
            )
        )

    def indexed(self, choice: Choice) -> bool:
        """Whether the files take torch from somewhere that has another build than the chosen one."""
        if self.source == "conda":
            return any(variant != choice.build.variant for _, line, variant in self.asked.indexes if line.role == "cuda")
        asked = self.asked.variant
        return asked != choice.build.variant if asked else not choice.build.default

    def index_rows(self, choice: Choice) -> Iterator[AskedRow]:
        """Indexes, and conda's packages of CUDA, that are of another build."""
        for file, line, variant in self.asked.indexes:
            if self.spelling is None or (line.role == "cuda") != (self.source == "conda"):
                continue
            row = AskedRow(file.name, line.line, line.text, "fits")
            new = self.spelling.cuda() if line.role == "cuda" else self.spelling.url
            if line.text.startswith("-"):
                new = f"--extra-index-url {new}"  # in place of a page of links, which newer builds have none of
            if variant != choice.build.variant and new:
                row = replace(row, verdict="moves", new=new, why=texts(self.planner.tables).say("asked.follows", torch=choice.build.full))
            yield row

    @cached_property
    def unasked(self) -> Mapping[Candidate, str]:
        """Builds that do not run here whatever is wished, and why."""
        found = find(self.planner.profile, self.planner.tables, Wish(), False, self.source)
        return {row.build: say(row.obstacle, self.planner.tables) for row in found.rejected}

    def meant(self, entry: Entry) -> Candidate | None:
        """The build that pip or conda would take for an entry."""
        builds = pool(self.planner.tables, self.planner.profile.platform or "", self.source)
        wanted = entry.label or self.asked.variant
        fitting = [
            one
            for one in builds
            if meets(one.version, str(entry.one.specifier)) is not False
            and (one.variant == wanted if wanted else one.default or self.source == "conda")
            and (self.planner.profile.python in (None, *one.pythons) or str(entry.one.specifier).startswith("=="))
        ]
        return max(fitting, key=lambda one: version(one.version), default=None)

    def why(self, entry: Entry, choice: Choice) -> str:
        """Why an entry of torch cannot stand."""
        say_, tables = texts(self.planner.tables).say, self.planner.tables
        meant = self.meant(entry)
        if meant is None:
            return say_("fix.no-release", wish=entry.line.text)
        takes = {"tool": "conda" if entry.line.conda else "pip", "torch": meant.full}
        if meant in self.unasked:
            return say_("asked.takes", why=self.unasked[meant], **takes)
        beside = companions(meant, self.planner.profile, self.wish.beside, tables)
        told = [f"{broken.name}: {broken.why}" for broken in beside.broken if broken.wished]
        return say_("asked.takes", why=told[0], **takes) if told else say_("asked.follows", torch=choice.build.full)

    def why_beside(self, entry: Entry, choice: Choice) -> str:
        beside = companions(choice.build, self.planner.profile, {entry.one.name: entry.one}, self.planner.tables)
        told = [broken.why for broken in beside.broken if broken.name == entry.one.name]
        return told[0] if told else texts(self.planner.tables).say("asked.follows", torch=choice.build.full)

    def alone(self, entry: Entry) -> AskedRow:
        """Where nothing fits: whether there is nothing for this machine of an entry even if it stood alone."""
        profile, tables = self.planner.profile, self.planner.tables
        row = AskedRow(entry.file.name, entry.line.line, entry.line.text, "kept")
        torch = entry.one.name == "torch"
        packages = () if torch else ((entry.one.name, self.freed(entry.one)),)
        wish = Wish(str(entry.one.specifier) if torch else "", packages=packages, texts=(entry.line.text,))
        found = find(profile, tables, wish, False, self.source)
        if found.fits:
            return row
        return replace(row, verdict="refused", why=why_not(profile, tables, found, wish, self.source == "conda")[0].why)
