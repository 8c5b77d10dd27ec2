"""The search: which torch builds fit a machine, in which order they are offered, and why the rest is not."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from envcheck.facts.record import record, replace
from envcheck.planner.candidate import (
    Candidate,
    Obstacle,
    driver_needed,
    driver_os,
    gpu_row,
    hardware_obstacles,
    last_branch,
    not_on_conda,
    pool,
    system_obstacles,
)
from envcheck.planner.companions import Broken, Companions, changes, companions
from envcheck.planner.installers import texts
from envcheck.planner.profile import Profile
from envcheck.planner.wish import Wish
from envcheck.tables.archs import overridden, sibling
from envcheck.tables.versions import major, minor, span, version

if TYPE_CHECKING:
    from envcheck.tables.compat import Tables


@record
class Choice:
    """A build that fits, with what goes beside it."""

    build: Candidate
    beside: Companions
    kind: str = ""  # "keep", "packages", "reinstall", "install", "build", "version", "driver", "compat", "hide", "override"
    driver: str | None = None  # the driver that it needs and that is not there
    kept: tuple[int, ...] | None = None  # indices of the GPUs that stay visible
    gfx_override: str | None = None  # HSA_OVERRIDE_GFX_VERSION, under which the GPUs run the code of a relative
    knows: bool = True  # the build's CUDA is one that NVIDIA made for these GPUs

    def key(self, profile: Profile) -> tuple[object, ...]:
        """Order of preference, smallest first."""
        one = self.build
        if one.version == profile.torch:
            distance = 0
        elif profile.torch and minor(one.version) == minor(profile.torch):
            distance = 1
        else:
            distance = 2
        older = distance == 1 and version(one.version) < version(profile.torch or "0")
        doubtful = is_doubtful(one)
        age = max((move.age for move in self.beside.moves), default=0) if self.beside.moves else 0
        return (
            doubtful,
            distance,
            len(self.beside.broken),
            age,
            older,
            *_newest_first(one.version),
            one.confidence == "low",
            one.channel == "pytorch",
            not self.knows,
            not one.default,
            one.undocumented,
            not _native(one, profile),
            not one.mainline,
            *_newest_first(one.cuda or one.hip or "0"),
        )


def is_doubtful(one: Candidate) -> bool:
    """Whether it is not certain that a build exists, or for which GPUs: the members of a CUDA list are certain, of a ROCm one not."""
    return not one.seen or (one.hip is not None and one.confidence == "low")


@lru_cache(maxsize=512)
def _newest_first(text: str) -> tuple[int, int, int]:
    """A version as numbers that grow with its age."""
    release = (*version(text).release, 0, 0)
    return -release[0], -release[1], -release[2]


def _native(one: Candidate, profile: Profile) -> bool:
    """Whether the driver's own CUDA covers the build's, without minor-version compatibility."""
    return not (one.cuda and profile.driver_cuda) or version(one.cuda) <= version(profile.driver_cuda)


class Rejected(NamedTuple):
    """A build and its obstacle."""

    build: Candidate
    obstacle: Obstacle


@record
class BuildSearch:
    """What a search ends with: the builds that fit, best first, and the others with their obstacle."""

    fits: tuple[Choice, ...]
    rejected: tuple[Rejected, ...]
    installed: Candidate | None  # the installed build, if the tables have it

    @property
    def best(self) -> Choice | None:
        return self.fits[0] if self.fits else None


def find(profile: Profile, tables: Tables, wish: Wish, works: bool, source: str = "wheel") -> BuildSearch:
    """Every build that fits the machine and the wish. Where torch works and nothing asks for another, older ones are left out."""
    if profile.platform is None:
        return BuildSearch((), (), None)
    builds = pool(tables, profile.platform, source)
    aim = _aimed(profile, wish)
    kept = installed(profile, builds) if works and not wish.variant else None
    system = system_obstacles(tables, profile.platform, source, aim.system_alone)
    hardware = hardware_obstacles(tables, profile.platform, source, aim.hardware_alone)
    fits: list[Choice] = []
    rejected: list[Rejected] = []
    not_wished = Obstacle("wish", {"requirement": " ".join(wish.texts)})
    downgrade = Obstacle("downgrade", {"installed": profile.torch or ""})
    floor = version(profile.torch) if works and profile.torch and not wish.names_torch else None
    for one, of_system, (of_hardware, knows) in zip(builds, system, hardware, strict=True):
        obstacle = None if wish.admits(one) else not_wished
        if floor is not None and version(one.version) < floor:
            obstacle = downgrade
        if one is not kept:  # what works is not called unfit, whatever the tables say
            obstacle = obstacle or of_system or of_hardware or not_on_conda(one, wish.beside, profile.python, tables)
        if obstacle is not None:
            rejected.append(Rejected(one, obstacle))
            continue
        beside = companions(one, aim, wish.beside, tables)
        wished = [broken for broken in beside.broken if broken.wished]
        if wished:
            rejected.append(Rejected(one, _companion(wished[0])))
            continue
        fits.append(Choice(one, beside, knows=knows))
    fits.sort(key=lambda choice: choice.key(aim))
    return BuildSearch(tuple(fits), tuple(rejected), installed(profile, builds))


def installed(profile: Profile, builds: Iterable[Candidate]) -> Candidate | None:
    """The installed build among the known ones."""
    return next((one for one in builds if one.version == profile.torch and one.variant == profile.variant), None)


def _aimed(profile: Profile, wish: Wish) -> Profile:
    """The machine as the wish wants it used: a CPU build on a GPU host is one that the user asked for."""
    if wish.variant == "cpu" and profile.accelerator != "mps":
        return replace(profile, accelerator="cpu", cards=())
    if wish.variant and profile.accelerator == "cpu":
        kind = "cuda" if wish.variant.startswith("cu") else "rocm" if wish.variant.startswith("rocm") else "xpu"
        return replace(profile, accelerator=kind)  # type: ignore[arg-type]
    return profile


def _companion(broken: Broken) -> Obstacle:
    return Obstacle("companion", {"name": broken.name, "why": broken.why})


def named(choice: Choice, profile: Profile, works: bool) -> Choice:
    """What a choice amounts to on this machine."""
    if choice.kind:
        return choice
    if profile.torch is None:
        return replace(choice, kind="install")
    if not changes(choice.build, profile) and profile.torch_from_conda == (choice.build.channel != "wheel"):
        if not works:
            return replace(choice, kind="reinstall")
        return replace(choice, kind="packages" if choice.beside.moves else "keep")
    return replace(choice, kind="build" if choice.build.version == profile.torch else "version")


def goes_back(choice: Choice, profile: Profile) -> bool:
    """Whether a way asks for an older driver than the one in use."""
    return choice.kind == "driver" and version(choice.driver or "") < version(profile.driver or "")


def nearest(found: BuildSearch, profile: Profile) -> Choice | None:
    """Of the builds that fit, the one whose version is closest to the installed one, newer before older."""
    if profile.torch is None or not found.fits:
        return None
    here = version(profile.torch)
    above = [choice for choice in found.fits if version(choice.build.version) >= here]
    if not above:
        return max(found.fits, key=lambda choice: version(choice.build.version))
    series = min(minor(choice.build.version) or (0, 0) for choice in above)
    return min((choice for choice in above if minor(choice.build.version) == series), key=lambda choice: choice.key(profile))


def undemanding(found: BuildSearch, profile: Profile, tables: Tables) -> Choice | None:
    """Where nobody knows the driver: the newest build that asks for an older one than the best build does."""
    best = found.best
    if best is None or profile.accelerator != "cuda" or profile.driver or profile.driver_cuda or profile.jetson:
        return None
    needed = driver_needed(best.build, profile, tables)
    easier = [
        choice
        for choice in found.fits
        if needed and choice.build.seen and (own := driver_needed(choice.build, profile, tables)) and version(own) < version(needed)
    ]
    return min(easier, key=lambda choice: (*_newest_first(choice.build.version), choice.key(profile)), default=None)


def with_driver(found: BuildSearch, profile: Profile, tables: Tables, wish: Wish) -> Choice | None:
    """The installed (or wished, or newest) build, if a newer driver is all it lacks and these GPUs have one."""
    blocked = [
        row
        for row in found.rejected
        if row.obstacle.key in _OF_DRIVER
        and row.obstacle.needed
        and not row.build.undocumented
        and not any(broken.wished for broken in companions(row.build, profile, wish.beside, tables).broken)
    ]
    if not blocked:
        return None
    mine = [row for row in blocked if row.build.version == profile.torch and row.build.variant == profile.variant]
    if not mine and profile.torch and found.fits and not wish.names_torch:
        same = [row for row in blocked if row.build.version == profile.torch]
        mine = same
    rows = mine or blocked
    row = min(rows, key=lambda each: Choice(each.build, Companions()).key(profile))
    needed = row.obstacle.needed or ""
    branch = tables.branch(needed, driver_os(profile)) or major(needed) or 0
    for card in profile.cards:
        gpu = gpu_row(tables, card.compute_capability) if card.compute_capability else None
        if gpu and gpu.last_branch and gpu.last_branch < branch:
            return None
    beside = companions(row.build, profile, wish.beside, tables)
    return Choice(row.build, beside, "driver", driver=needed)


_OF_DRIVER = ("driver", "driver-unclear")


def with_older_driver(found: BuildSearch, profile: Profile, tables: Tables, wish: Wish) -> Choice | None:
    """Where the driver in use dropped a GPU: the last branch that drives all of them, and the best build on it."""
    last = last_branch(profile, tables)
    if last is None or not any(row.obstacle.key == "dropped" for row in found.rejected):
        return None
    driver = tables.first_of_branch(last, driver_os(profile))
    best = find(replace(profile, driver=driver, driver_cuda=None), tables, wish, False).best
    return replace(best, kind="driver", driver=driver) if best else None


def with_compat(found: BuildSearch, profile: Profile, tables: Tables) -> Choice | None:
    """The installed build, if cuda-compat bridges the driver on every one of these GPUs."""
    one = found.installed
    if one is None or one.cuda is None or not profile.driver or not profile.cards or profile.wsl or profile.windows:
        return None
    if not any(row.build is one and row.obstacle.key == "driver" for row in found.rejected):
        return None
    if all(tables.forward_compat(one.cuda, profile.driver, card.name) for card in profile.cards):
        return Choice(one, Companions(), "compat", driver=driver_needed(one, profile, tables))
    return None


def with_hidden(profile: Profile, tables: Tables, wish: Wish, works: bool) -> Choice | None:
    """Where no build serves every GPU: the one that serves most of them, with the others hidden."""
    kinds = {card.compute_capability for card in profile.cards if card.compute_capability}
    if len(kinds) < 2:
        return None
    best: Choice | None = None
    for left_out in sorted(kinds, key=lambda text: version(str(text))):
        kept = tuple(card for card in profile.cards if card.compute_capability != left_out)
        found = find(replace(profile, cards=kept), tables, wish, works)
        if found.best and (best is None or len(kept) > len(best.kept or ())):
            best = replace(found.best, kind="hide", kept=tuple(card.index for card in kept))
    return best


def with_override(profile: Profile, tables: Tables, wish: Wish) -> Choice | None:
    """Where no build has code for these AMD GPUs: the best one for the relative whose code they run under an override."""
    if profile.accelerator != "rocm" or profile.windows:
        return None
    relatives = {sibling(gfx) for gfx in profile.gfx}
    value = relatives.pop() if len(relatives) == 1 else None  # the variable holds for every GPU of a process
    gfx = overridden(value)
    best = find(replace(profile, gfx=(gfx,)), tables, wish, False).best if gfx else None
    return replace(best, kind="override", gfx_override=value) if best else None


def excluded(found: BuildSearch, profile: Profile, tables: Tables, wish: Wish, most: int = 12) -> tuple[tuple[str, str], ...]:
    """What was thrown out and why, newest first, runs of releases together. Builds of the wrong kind are not worth a line."""
    silent = {"not-cuda", "not-rocm", "not-xpu", "not-cpu", "wish", "downgrade"}
    floor = version(found.best.build.version) if found.best else None
    groups: dict[tuple[str, str], list[str]] = {}
    rows = found.rejected if found.best else sorted(found.rejected, key=lambda row: _stage(row.obstacle))
    for row in rows:
        if row.obstacle.key in silent:
            continue
        mine = row.build.version == profile.torch
        if floor and not mine and not wish.names_torch and version(row.build.version) < floor:
            continue
        if row.obstacle.key in _WHOLE_RELEASE and version(row.build.version) == floor:
            continue
        why = say(row.obstacle, tables)
        variant = "" if row.obstacle.key in _WHOLE_RELEASE else f" {row.build.variant}"
        groups.setdefault((variant, why), []).append(row.build.version)
    for choice in found.fits if found.best and not is_doubtful(found.best.build) else ():
        if is_doubtful(choice.build) and version(choice.build.version) > (floor or version("0")):
            groups.setdefault((f" {choice.build.variant}", texts(tables).say("note.not-certain")), []).append(choice.build.version)
    return tuple((f"torch {span(versions)}{variant}", why) for (variant, why), versions in list(groups.items())[:most])


_WHOLE_RELEASE = frozenset(("python", "glibc", "macos", "mps", "musl", "implementation", "companion"))


_STAGES = (
    ("driver", "driver-unclear", "dropped"),
    ("gpu-too-new", "gpu-too-old", "gpu-unknown", "ptx", "cudnn", "conda-cudnn", "gfx", "archs-unknown", "jetson", "jetson-cuda"),
)


def _stage(obstacle: Obstacle) -> int:
    """Where nothing fits, what stops a build that passed the other questions is the telling reason."""
    return next((at for at, keys in enumerate(_STAGES) if obstacle.key in keys), len(_STAGES))


def say(obstacle: Obstacle, tables: Tables) -> str:
    """An obstacle in words."""
    return texts(tables).say(f"obstacle.{obstacle.key}", **obstacle.values)
