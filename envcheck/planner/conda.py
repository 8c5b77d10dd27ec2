"""Which conda build stands for a wheel build, if any does. How it is spelled is said in `commands`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from envcheck.facts.record import record, replace
from envcheck.planner import install_commands
from envcheck.planner.candidate import Candidate, conda_catalogue, first_obstacle, not_on_conda
from envcheck.planner.choice import Choice, say
from envcheck.planner.companions import Companions
from envcheck.planner.installers import installers, texts
from envcheck.planner.profile import Profile
from envcheck.planner.proof import Change
from envcheck.tables.versions import cuda_below, major, meets

if TYPE_CHECKING:
    from envcheck.tables.compat import Tables


@record
class CondaAnswer:
    """conda lines, or none and the reason; with lines, `reason` is a note on them."""

    lines: tuple[str, ...] = ()
    reason: str = ""


def conda_answer(choice: Choice, profile: Profile, tables: Tables, wanted: str | None, proved: Callable[[Change], bool]) -> CondaAnswer:
    """The conda build of the same torch; where conda-forge lags behind, its newest that fits and is proved.

    `wanted` is the specifier another release must meet; None: no other release will do.
    """
    one, say_ = choice.build, texts(tables).say
    if choice.kind == "packages":
        return CondaAnswer(reason=say_("none.conda-index"))
    unnamed = [move for move in choice.beside.moves if move.extras or not installers().conda_name(move.name)]
    lacking = say_("none.conda-package", name=", ".join(move.name for move in unnamed)) if unnamed else ""
    if one.channel != "wheel":  # what is installed by pip beside a torch of conda stays pip's to move; what was asked for is not left out
        return CondaAnswer(() if any(move.wished for move in unnamed) else install_commands.conda(one, choice.beside, profile), lacking)
    if one.hip or one.xpu:
        return CondaAnswer(reason=say_("none.conda-rocm" if one.hip else "none.conda-xpu"))
    if lacking:
        return CondaAnswer(reason=lacking)
    pool = conda_catalogue(tables, one.platform)
    if not pool:
        return CondaAnswer(reason=say_("none.conda-platform", platform=one.platform))
    beside = [move.name for move in choice.beside.moves]
    obstacle = {
        other: first_obstacle(other, profile, tables) or not_on_conda(other, beside, profile.python, tables)
        for other in pool
        if _stands_for(other, one, profile)
    }
    same = [other for other in obstacle if other.version == one.version]
    best = _nearest([other for other in same if obstacle[other] is None], one, profile)
    if best:
        return CondaAnswer(install_commands.conda(best, choice.beside, profile))
    why = obstacle[same[0]] if same else None
    reason = (
        say_("none.conda-fit", torch=one.version, why=say(why, tables))
        if why
        else say_("none.conda-version", torch=one.version, newest=pool[0].version)
    )
    if wanted is None:
        return CondaAnswer(reason=reason)
    fitting = [other for other, found in obstacle.items() if found is None]
    return _other_release(choice.beside, fitting, profile, tables, wanted, proved, reason)


def no_conda(profile: Profile, tables: Tables) -> str | None:
    """Why no conda channel has a torch for such a machine; None if one has."""
    say_ = texts(tables).say
    if profile.accelerator in ("rocm", "xpu"):
        return say_(f"none.conda-{profile.accelerator}")
    if profile.platform and not conda_catalogue(tables, profile.platform):
        return say_("none.conda-platform", platform=profile.platform)
    return None


def _nearest(fitting: list[Candidate], one: Candidate, profile: Profile) -> Candidate | None:
    """Of builds of the same torch the one that is most like the wheel build."""
    return min(
        fitting,
        key=lambda other: (other.channel == "pytorch", _far(other, one), Choice(other, Companions()).key(profile)),
        default=None,
    )


def _other_release(
    companions: Companions,
    fitting: list[Candidate],
    profile: Profile,
    tables: Tables,
    wanted: str,
    proved: Callable[[Change], bool],
    reason: str,
) -> CondaAnswer:
    """The best release of conda-forge that may stand in; `reason` is why the same torch cannot be had."""
    allowed = [other for other in fitting if other.channel == "conda-forge" and (not wanted or meets(other.version, wanted))]
    best = min(allowed, key=lambda other: Choice(other, Companions()).key(profile), default=None)
    # The companions follow their torch on conda-forge: no version of this way's torch may be written.
    moves = tuple(replace(move, version=None, specifier="" if move.version else move.specifier) for move in companions.moves)
    beside = replace(companions, moves=moves)
    if best is None or not proved(Change(best, beside)):
        return CondaAnswer(reason=reason)
    return CondaAnswer(
        install_commands.conda(best, beside, profile), texts(tables).say("note.conda-other", reason=reason, torch=best.version)
    )


def _stands_for(other: Candidate, one: Candidate, profile: Profile) -> bool:
    """Both for CUDA or neither. Of an unknown driver the plan says what the wheel needs: the conda build may not need a newer one."""
    if other.cuda is None or one.cuda is None:
        return other.cuda is one.cuda
    return bool(profile.driver) or not cuda_below(one.cuda, other.cuda)


def _far(other: Candidate, one: Candidate) -> tuple[bool, bool]:
    """How far a conda build is from the wheel build it stands for: another CUDA major, another CUDA."""
    if not other.cuda or not one.cuda:
        return False, False
    return major(other.cuda) != major(one.cuda), other.cuda != one.cuda
