"""From choices to ways: commands, changes, notes and the proof, as the report shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from envcheck.engine.intents import Install
from envcheck.engine.rule import Severity
from envcheck.facts.record import record, replace
from envcheck.facts.snapshot import DevicesFacts, GpusFacts, Snapshot
from envcheck.planner import install_commands
from envcheck.planner.candidate import Candidate, driver_needed, driver_os
from envcheck.planner.choice import (
    BuildSearch,
    Choice,
    excluded,
    find,
    goes_back,
    named,
    nearest,
    undemanding,
    with_compat,
    with_driver,
    with_hidden,
    with_older_driver,
    with_override,
)
from envcheck.planner.companions import RELEASED_WITH, Move, nearest_known
from envcheck.planner.conda import CondaAnswer, conda_answer, no_conda
from envcheck.planner.install_commands import IndexForm, InstallOptions, Spelled
from envcheck.planner.installers import installers, texts
from envcheck.planner.profile import Profile, profile_of
from envcheck.planner.proof import Change, Judge, Proof
from envcheck.planner.refusal import why_not
from envcheck.planner.result import Commands, Excluded, Grade, PlanReport, Way
from envcheck.planner.wish import Wish, read_wish
from envcheck.tables.archs import overridden
from envcheck.tables.versions import at_least, meets, version

if TYPE_CHECKING:
    from envcheck.engine.rule import Check, RuleTexts
    from envcheck.tables.compat import Tables

MOST_WAYS = 3
BESIDE = (*RELEASED_WITH, "numpy")  # what moves beside a torch that stays


@record
class Planner:
    """One search on one machine: everything it needs, and the answers it has worked out."""

    snapshot: Snapshot
    tables: Tables
    judge: Judge
    options: InstallOptions

    @cached_property
    def profile(self) -> Profile:
        return profile_of(self.snapshot, self.tables)

    @cached_property
    def works(self) -> bool:
        """Torch imports and no rule asks for another build: then nothing older may be offered unasked."""
        if not self.profile.torch or not self.profile.torch_imports or self.judge.targeted:
            return False
        devices = self.snapshot.devices
        return not self.judge.wanting or (isinstance(devices, DevicesFacts) and devices.available is True)

    @cached_property
    def stays(self) -> bool:
        """Nothing speaks against the torch that is there, whether or not its import was seen."""
        return self.works or (self.profile.torch is not None and not self.profile.torch_fails and not self.judge.targeted)

    @cached_property
    def damage(self) -> bool:
        """Whether the very build that is there could mend something: not what only the driver or the GPU has against it."""
        known = self.profile.variant is not None and not self.profile.torch_fails
        return not (known and self.judge.targeted and self.judge.outside(self.judge.targeted))

    def plan(self, words: Sequence[str] = ()) -> PlanReport:
        """The ways for a wish, best first, at most three, and what was excluded."""
        return self.plan_wish(read_wish(words or self.needed_beside(), self.tables))

    @property
    def conda_first(self) -> bool:
        """Whether conda's builds are looked at before the wheels."""
        own = self.profile.torch_from_conda or (self.profile.torch is None and self.profile.environment in ("conda", "pixi"))
        return self.options.tool == "conda" or (self.options.tool == "auto" and own)

    def plan_wish(self, wish: Wish) -> PlanReport:
        """The ways for a wish that is read already."""
        unnamed = [name for name in wish.beside if not installers().conda_name(name)] if self.options.tool == "conda" else []
        if unnamed:  # a line without them would not do what was asked for
            say_ = texts(self.tables).say
            return PlanReport((), tuple(Excluded(name, say_("none.conda-package", name=name)) for name in unnamed))
        conda_first = self.conda_first
        found = find(self.profile, self.tables, wish, self.works, "conda" if conda_first else "wheel")
        if not found.fits and self.profile.accelerator == "mps":  # too old for Metal
            found = find(replace(self.profile, accelerator="cpu"), self.tables, wish, self.works, "conda" if conda_first else "wheel")
        chosen = self.choices(found, wish)
        if conda_first and self.options.tool != "conda" and not any(choice.kind in ("keep", "packages") for choice in chosen):
            wheels = find(self.profile, self.tables, wish, self.works)
            if not found.fits:
                found, chosen = wheels, self.choices(wheels, wish)
            elif wheels.best is not None:
                chosen = [*chosen[: MOST_WAYS - 1], named(wheels.best, self.profile, self.stays)]
        if not chosen and self.options.tool == "auto" and not conda_first:  # what no wheel fits, a conda build may
            forge = find(self.profile, self.tables, wish, self.works, "conda")
            chosen = self.choices(forge, wish) if forge.fits else []
        ways = [
            way for choice in chosen if (way := self.way(choice, wish)).commands.conda or choice.build.channel == "wheel" or conda_first
        ]
        rows = [Excluded(what, why) for what, why in excluded(found, self.profile, self.tables, wish)]
        if not ways:
            rows = _then_other_reasons(why_not(self.profile, self.tables, found, wish, conda_first), rows)
        if not ways and self.options.tool == "conda" and (reason := no_conda(self.profile, self.tables)):
            rows = [Excluded("torch", reason), *rows]
        return PlanReport(tuple(ways), tuple(dict.fromkeys(rows)))

    def needed_beside(self) -> tuple[str, ...]:
        """What goes with a torch that stays and has to move, as a rule found."""
        if not self.stays:
            return ()
        hits = [one.hit for one in self.judge.before if one.hit and self.judge.severity(one) is not Severity.INFO]
        wanted = [text for hit in hits for fix in hit.fixes if isinstance(fix, Install) for text in fix.requirements]
        names = {name for text in wanted if (name := install_commands.name_of(text)) in BESIDE and name in self.profile.packages}
        return tuple(sorted(names))

    def choices(self, found: BuildSearch, wish: Wish) -> list[Choice]:
        """At most three ways out: the best build, the driver, another version."""
        best = named(found.best, self.profile, self.stays) if found.best else None
        result: list[Choice] = []
        if best is not None:
            result.append(best)
            if best.kind in ("keep", "packages"):
                return result
        elif hidden := with_hidden(self.profile, self.tables, wish, self.works):
            result.append(hidden)
        driver = with_driver(found, self.profile, self.tables, wish)
        if driver is not None and self._worth(driver, best, wish):
            result.append(driver)
        if best is None and (back := with_older_driver(found, self.profile, self.tables, wish)):
            result.append(back)
        if best is None and (relative := with_override(self.profile, self.tables, wish)):
            result.append(relative)
        if other := undemanding(found, self.profile, self.tables):
            result.append(other)
        if compat := with_compat(found, self.profile, self.tables):
            result.append(compat)
        if best is not None and best.kind in ("build", "version"):
            for other in (nearest(found, self.profile), self._newest(found)):
                if other is not None and other.build.seen and all(other.build.version != one.build.version for one in result):
                    result.append(other)
        return [named(choice, self.profile, self.stays) for choice in result[:MOST_WAYS]]

    def _worth(self, driver: Choice, best: Choice | None, wish: Wish) -> bool:
        """A newer driver is offered where nothing else helps, or where it keeps the installed or wished torch."""
        if best is None:
            return True
        mine = self.profile.torch is not None and driver.build.version == self.profile.torch and best.build.version != self.profile.torch
        same = driver.build.version == self.profile.torch and driver.build.variant == self.profile.variant
        return mine or same

    def _newest(self, found: BuildSearch) -> Choice | None:
        if self.profile.torch is None or not found.fits:
            return None
        newest = max(found.fits, key=lambda choice: version(choice.build.version))
        return newest if version(newest.build.version) > version(self.profile.torch) else None

    # ---------------------------------------------------------------- one way

    def way(self, choice: Choice, wish: Wish) -> Way:
        """A choice with its commands, what it changes, and its proof."""
        one = choice.build
        say_ = texts(self.tables).say
        proof = self.judge.prove_kept() if choice.kind == "keep" else self.judge.prove(self.change(choice))
        certain, doubts = self.doubts(choice)
        lines, no_command, spelled_notes = self.lines(choice, wish)
        notes = [*doubts, *spelled_notes, *choice.beside.notes]
        empty = lines == Commands() and choice.kind not in ("keep", "driver")  # the one tool asked for has no line for this
        if not proof.holds:
            notes.insert(0, self.unproved(proof))
        elif certain and not empty and choice.kind != "keep":
            notes.append(say_("note.proof"))
        kind = choice.kind
        if kind == "reinstall" and self.profile.variant is None:  # which build is there, nobody knows
            kind = "install"
        elif kind == "driver":
            kind += "-back" * goes_back(choice, self.profile) + "-install" * changes_anything(choice, self.profile)
        title = say_(
            f"way.{kind}", torch=one.shown, driver=self.named_driver(choice), cuda=one.cuda or "", override=choice.gfx_override or ""
        )
        files = (
            self.spelled(choice).files
            if one.channel == "wheel" and choice.kind in ("install", "build", "version", "reinstall", "packages", "override")
            else {}
        )
        return Way(
            lines,
            proof.holds and certain and not empty,
            title,
            self.changes(choice),
            " ".join(dict.fromkeys(note for note in notes if note)),
            "admin" if choice.kind in ("driver", "compat") else "user",
            no_command,
            files,
            Grade.CHECKED if proof.holds and certain and not empty else Grade.UNCHECKED,
            idle=choice.kind == "reinstall" and not self.damage,
        )

    def named_driver(self, choice: Choice) -> str:
        """The driver that a way asks for: a number at least, or the branch to go back to."""
        number = choice.driver or ""
        return str(self.tables.branch(number, driver_os(self.profile)) or number) if goes_back(choice, self.profile) else number

    def unproved(self, proof: Proof) -> str:
        """What stands against a plan."""
        say_ = texts(self.tables).say
        if proof.new:
            return say_("note.new-errors", rules=", ".join(proof.new))
        if proof.stays:
            return say_("note.stays", rules=", ".join(proof.stays))
        return say_("note.unproved", rules=", ".join((*proof.left, *proof.unsure)))

    def change(self, choice: Choice) -> Change:
        """What a choice changes, for the proof."""
        if choice.kind == "packages":
            return Change(beside=choice.beside)
        visible: tuple[int, ...] | None = None
        if choice.kept is not None and isinstance(self.snapshot.gpus, GpusFacts):
            visible = tuple(at for at, gpu in enumerate(self.snapshot.gpus.devices) if gpu.index in choice.kept)
        if choice.kind == "compat":
            return Change(choice.build, choice.beside, compat_cuda=choice.build.cuda)
        if choice.kind == "driver" and choice.driver:
            return Change(choice.build, choice.beside, choice.driver, self.tables.driver_cuda(choice.driver, driver_os(self.profile)))
        return Change(
            choice.build, choice.beside, visible=visible, gfx_override=choice.gfx_override, cpu_only=self.uses_no_gpu(choice.build)
        )

    def uses_no_gpu(self, one: Candidate) -> bool:
        """Whether a build leaves the GPU alone: a CPU build is a way on a GPU host only where it was asked for."""
        return self.lacks_metal(one) is not None or (one.cpu and self.profile.accelerator not in ("cpu", "mps"))

    def lacks_metal(self, one: Candidate) -> str | None:
        """The macOS that a build's MPS backend needs, where this one is older."""
        floor = self.tables.mps_floor(one.version) if self.profile.accelerator == "mps" else None
        return None if at_least(self.profile.macos, floor) else floor

    def doubts(self, choice: Choice) -> tuple[bool, list[str]]:
        """What the tables cannot vouch for: unknown GPUs, an unknown driver, architecture lists that were not read from the wheel."""
        one, profile, say_ = choice.build, self.profile, texts(self.tables).say
        certain, notes = True, []
        for card in profile.cards:
            if card.compute_capability is None and one.cuda:
                certain = False
                notes.append(say_("note.gpu-unknown", gpu=card.name or f"GPU {card.index}"))
        of_packages = self.package_doubts(choice)
        certain = certain and not of_packages
        notes += of_packages
        if one.confidence == "low":
            notes.append(say_("note.confidence"))
            certain = certain and bool(one.cuda)  # of the CUDA lists the members are certain, of the ROCm ones they are not
        if not one.seen:
            certain = False
            notes.append(say_("note.not-seen", torch=one.full))
        if choice.gfx_override:
            certain = False
            notes.append(say_("note.gfx-override", gfx=", ".join(profile.gfx), relative=overridden(choice.gfx_override)))
        if one.undocumented:
            notes.append(say_("note.undocumented", torch=one.version))
        if choice.kind != "keep" and (rows := low_rows(one, choice.driver or profile.driver, profile, self.tables)):
            notes.append(say_("note.low", rows=", ".join(rows)))
            certain = certain and choice.knows
        return certain, [*notes, *self.conditions(choice)]

    def conditions(self, choice: Choice) -> list[str]:
        """What a way needs of the driver and the system, and who can do it."""
        one, profile, say_ = choice.build, self.profile, texts(self.tables).say
        notes: list[str] = []
        if profile.accelerator == "cuda" and profile.driver is None and one.cuda and not profile.jetson:
            needed = driver_needed(one, profile, self.tables)
            if needed:
                notes.append(say_("note.driver-unknown", driver=needed))
        if floor := self.lacks_metal(one):
            notes.append(say_("note.no-mps", macos=profile.macos, torch=one.version, needed=floor))
        if choice.kind == "driver":
            notes.append(say_("note.driver-admin"))
            modules = {row.open_module for card in profile.cards if (row := self.tables.gpu(card.compute_capability or ""))}
            if "required" in modules:
                notes.append(say_("note.driver-open"))
            elif goes_back(choice, profile):
                notes.append(say_("note.driver-proprietary"))
        if choice.kind == "compat" and one.cuda:
            major, small = one.cuda.split(".")[:2]
            notes.append(say_("note.compat-admin", major=major, minor=small))
        return notes

    def package_doubts(self, choice: Choice) -> list[str]:
        """What nobody knows of the packages beside torch: what they ask for, and whether they compile."""
        say_, notes = texts(self.tables).say, []
        unknown = [move for move in choice.beside.moves if not move.known]
        if here := [move.name for move in unknown if move.build_here]:
            notes.append(say_("note.compiled-here", names=", ".join(here), torch=choice.build.version))
        if names := [move.name for move in unknown if not move.build_here]:
            notes.append(say_("note.unknown-package", names=", ".join(names)))
            notes += [say_("note.near", name=name, near=near) for name in names if (near := nearest_known(name, self.tables))]
        return notes

    def changes(self, choice: Choice) -> tuple[str, ...]:
        """What the way does to the environment, in lines; what would break comes last."""
        say_, one, profile = texts(self.tables).say, choice.build, self.profile
        lines: list[str] = []
        if choice.kind in ("keep", "compat"):
            return ()
        if choice.kind == "driver":
            key = "change.driver-back" if goes_back(choice, profile) else "change.driver"
            lines.append(say_(key, old=profile.driver or "(number not known)", new=self.named_driver(choice)))
        if choice.kind != "packages":
            old = f"{profile.torch}+{profile.variant}" if profile.torch and profile.variant else profile.torch
            if old is None:
                lines.append(say_("change.install", name="torch", new=one.shown))
            elif old != one.full or choice.kind == "reinstall":
                lines.append(say_("change.move", name="torch", old=old, new=one.shown))
        for move in choice.beside.moves:
            if move.old is None and not move.known and not move.build_here:
                lines.append(say_("change.install-unknown", name=move.requirement()))
            elif move.old is None:
                lines.append(say_("change.install" if move.new else "change.install-any", name=move.name, new=move.new))
            elif not move.version and meets(move.old, move.specifier):
                lines.append(say_("change.stays", name=move.name, old=move.old))
            elif move.old != (new := self._landing(move, one)):
                lines.append(say_("change.move", name=move.name, old=move.old, new=new))
        lines += [say_("change.remove", name=name, old=profile.packages.get(name, "")) for name in choice.beside.remove]
        if choice.kept is not None:
            lines.append(say_("change.hide", kept=", ".join(card.shown for card in profile.cards if card.index in choice.kept)))
        lines += [say_("change.breaks", why=broken.why) for broken in choice.beside.broken]
        return tuple(lines)

    def _landing(self, move: Move, one: Candidate) -> str:
        """The version that a package ends at, with the variant where the index writes one."""
        carries = move.version and one.channel == "wheel" and installers().labelled(move.name, one.version, self.profile.machine)
        return f"{move.new}+{one.variant}" if carries and (self.profile.variant or "+" in (move.old or "")) else move.new

    # ---------------------------------------------------------------- its commands

    def lines(self, choice: Choice, wish: Wish) -> tuple[Commands, dict[str, str], tuple[str, ...]]:
        """Commands by tool, why a tool has none, and notes on them."""
        one, profile = choice.build, self.profile
        if choice.kind == "keep":
            return Commands(), {}, (texts(self.tables).say("note.nothing"),)
        if choice.kind == "compat" and one.cuda:
            path = texts(self.tables).say("note.compat-path", cuda=one.cuda)
            line = f'export LD_LIBRARY_PATH="{path}:$LD_LIBRARY_PATH"'
            return Commands((), (), (), (line,)), {}, ()
        if choice.kind == "driver" and not changes_anything(choice, profile):
            return Commands(), {}, ()
        wanted = self.options.tool
        no_command: dict[str, str] = {}
        notes: list[str] = []
        spelled = self.spelled(choice) if one.channel == "wheel" else Spelled()
        pip = spelled.pip if wanted in ("auto", "pip") else ()
        uv = spelled.uv if wanted in ("auto", "uv") else ()
        conda: tuple[str, ...] = ()
        if wanted in ("auto", "conda"):
            answer = self.conda(choice, wish)
            conda = answer.lines
            if not conda:
                no_command["conda"] = answer.reason
            elif answer.reason:
                notes.append(answer.reason)
            if conda:
                notes += self.conda_notes(one)
        if one.channel != "wheel":
            no_command |= dict.fromkeys(("pip", "uv"), texts(self.tables).say("none.wheel", channel=one.channel))
        shell: tuple[str, ...] = ()
        if choice.kept is not None:
            kept = [card for card in profile.cards if card.index in choice.kept]
            shell = (install_commands.export(profile, "CUDA_VISIBLE_DEVICES", ",".join(card.uuid or str(card.index) for card in kept)),)
            if not all(card.uuid for card in kept):  # CUDA counts the fastest GPU first unless told otherwise
                shell = (install_commands.export(profile, "CUDA_DEVICE_ORDER", "PCI_BUS_ID"), *shell)
        if choice.gfx_override:
            shell = (install_commands.export(profile, "HSA_OVERRIDE_GFX_VERSION", choice.gfx_override),)
        return install_commands.with_cmd(Commands(pip, uv, conda, shell), profile), no_command, (*spelled.notes, *notes)

    def spelled(self, choice: Choice) -> Spelled:
        """pip and uv lines of a wheel build."""
        form, options = self.form(choice.build), self.tool_options()
        if choice.kind == "packages":
            return install_commands.some(choice.build, choice.beside, self.profile, form, options, torch=False)
        return install_commands.wheels(choice.build, choice.beside, self.profile, form, options, choice.kind == "reinstall")

    def form(self, one: Candidate) -> IndexForm:
        """How the documented commands of a release name a variant."""
        release = self.tables.release(one.version)
        return IndexForm(release.index_form, release.index_url, release.local_version) if release else IndexForm()

    def tool_options(self) -> InstallOptions:
        """The user's options, with what this uv knows and how notes are worded."""
        return replace(self.options, uv_backends=self.tables.uv_backends(), texts=texts(self.tables))

    def conda(self, choice: Choice, wish: Wish) -> CondaAnswer:
        """The conda build of the same torch that fits this machine, or why there is none."""
        profile = self.profile
        if choice.kept is not None:
            profile = replace(profile, cards=tuple(card for card in profile.cards if card.index in choice.kept))
        if choice.kind == "driver":
            profile = replace(profile, driver=choice.driver, driver_cuda=None)
        no_gpu = self.uses_no_gpu(choice.build)
        others = choice.kind not in ("driver", "hide") and not self.works
        return conda_answer(
            choice,
            profile,
            self.tables,
            wish.torch if others else None,
            lambda change: self.judge.prove(replace(change, cpu_only=no_gpu)).holds,
        )

    def conda_notes(self, one: Candidate) -> list[str]:
        say_ = texts(self.tables).say
        notes = []
        if self.profile.environment == "pixi":
            notes.append(say_("note.pixi"))
        if one.cuda and not self.profile.driver:
            notes.append(say_("note.override"))
        return notes


def low_rows(one: Candidate, driver: str | None, profile: Profile, tables: Tables) -> tuple[str, ...]:
    """What is known of the GPUs, the driver's branch and the build's CUDA from a row of low confidence alone, in words."""
    if one.cuda is None:
        return ()
    rows = {f"compute capability {card.compute_capability}": tables.gpu(card.compute_capability or "") for card in profile.cards}
    found = [name for name, row in rows.items() if row is not None and row.confidence == "low" and not row.jetson]
    branch = tables.branch(driver, driver_os(profile)) if driver else None
    if any(row["branch"] == branch and row.get("confidence") == "low" for row in tables.rows("driver-branch", "branch")):
        found.append(f"driver branch {branch}")
    if any(row["cuda"] == one.cuda and row.get("confidence") == "low" for row in tables.rows("cuda-driver", "floor")):
        found.append(f"lowest driver of CUDA {one.cuda}")
    return tuple(found)


def changes_anything(choice: Choice, profile: Profile) -> bool:
    """Whether a way installs something, beside changing the driver."""
    return bool(choice.beside.moves) or choice.build.version != profile.torch or choice.build.variant != profile.variant


def planner(
    snapshot: Snapshot, tables: Tables, checks: Iterable[Check], texts_: RuleTexts, tool: str = "auto", index_base: str | None = None
) -> Planner:
    """The planner of one machine."""
    return Planner(snapshot, tables, Judge(snapshot, tuple(checks), texts_, tables), InstallOptions(index_base, tool))


def _then_other_reasons(first: Sequence[Excluded], rows: Sequence[Excluded]) -> list[Excluded]:
    told = {row.why for row in first}
    return [*first, *(row for row in rows if row.why not in told)]
