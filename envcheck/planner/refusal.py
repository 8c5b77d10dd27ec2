"""Why nothing fits what was asked for, and the nearest that does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envcheck.facts.record import replace
from envcheck.planner.choice import BuildSearch, Rejected, find, say
from envcheck.planner.installers import texts
from envcheck.planner.profile import Profile
from envcheck.planner.result import Excluded
from envcheck.planner.wish import Wish
from envcheck.tables.versions import meets, version

if TYPE_CHECKING:
    from envcheck.tables.compat import Tables


def why_not(profile: Profile, tables: Tables, found: BuildSearch, wish: Wish, conda: bool) -> list[Excluded]:
    """Why nothing fits a machine or a wish, and the nearest that does. There is always a reason."""
    source = "conda" if conda else "wheel"
    if general := _no_build_of_its_kind(profile, tables, found, conda):
        return [Excluded("torch", general)]
    rows: list[Excluded] = []
    asked = " ".join(wish.texts)
    if profile.jetson and version(profile.jetson) < version("38"):
        rows.append(Excluded("torch", texts(tables).say("note.jetson", l4t=profile.jetson)))
    if not asked:
        return rows
    matching = [row for row in found.rejected if row.obstacle.key != "wish"]
    telling = sorted((row for row in matching if not row.obstacle.key.startswith("not-")), key=lambda row: _vague(row, tables))
    if not matching:
        rows.append(Excluded(asked, _newer_than_tables(wish, tables) or texts(tables).say("fix.no-release", wish=asked)))
    elif not rows:
        rows.append(Excluded(asked, say((telling or matching)[0].obstacle, tables)))
    relaxed = find(profile, tables, replace(wish, torch="", variant=None), False, source)
    if not relaxed.fits:
        relaxed = find(profile, tables, replace(wish, torch="", variant=None, packages=()), False, source)
    if relaxed.fits and wish.torch:
        near = pivot(wish.torch)
        close = min(relaxed.fits, key=lambda choice: (distance(choice.build.version, near), choice.key(profile)))
        if wish.variant or not meets(close.build.version, wish.torch):  # else torch is not what is in the way
            rows.append(Excluded(asked, texts(tables).say("note.wish-nearest", torch=close.build.shown)))
    elif relaxed.fits:
        rows.append(Excluded(asked, texts(tables).say("note.wish-nearest", torch=relaxed.fits[0].build.shown)))
    return rows


def _vague(row: Rejected, tables: Tables) -> int:
    """How little a reason says of a wish. A package is looked at last, so the build fits but for it; that none asks for a torch is known
    of most releases.
    """
    if row.obstacle.key != "companion":
        return 1
    name = row.obstacle.values["name"]
    return 2 if row.obstacle.values["why"] == texts(tables).say("broken.none-for", name=name, torch=row.build.version) else 0


_KINDS = {"cuda": "CUDA", "rocm": "ROCm", "xpu": "XPU", "mps": "CPU", "cpu": "CPU"}


def _no_build_of_its_kind(profile: Profile, tables: Tables, found: BuildSearch, conda: bool) -> str | None:
    """Where no torch at all is for such a machine: the platform, or the kind of GPU on it."""
    say_ = texts(tables).say
    name = profile.platform or f"{profile.os or 'this system'} on {profile.machine or 'an unknown machine'}"
    if not found.rejected:
        if name == "windows-arm64" and not conda:
            return say_("note.windows-arm64")
        return say_("none.conda-platform" if conda else "note.no-platform", platform=name)
    kind = _KINDS[profile.accelerator]
    there = {"CUDA" if one.cuda else "ROCm" if one.hip else "XPU" if one.xpu else "CPU" for one, _ in found.rejected}
    return None if kind in there else say_("note.no-kind", kind=kind, platform=name)


def _newer_than_tables(wish: Wish, tables: Tables) -> str | None:
    """Where a wish names a release or a CUDA that came after these tables."""
    say_ = texts(tables).say
    newest = tables.releases()[-1].version
    if wish.torch and version(pivot(wish.torch)) >= version(newest):
        return say_("note.newer", what="torch", newest=newest)
    kind = re.match(r"cu|rocm", wish.variant or "")
    if kind is None or wish.variant is None:
        return None
    known = {one.variant for one in tables.builds() if one.exists != "low" and one.variant.startswith(kind[0])}
    last = max(known, key=lambda variant: version(variant[kind.end() :]))
    newer = version(wish.variant[kind.end() :]) > version(last[kind.end() :])
    return say_("note.newer", what="CUDA build" if kind[0] == "cu" else "ROCm build", newest=last) if newer else None


def pivot(spec: str) -> str:
    """A version that a specifier speaks of: the middle of the wish, for measuring what is near it."""
    numbers = re.findall(r"\d+(?:\.\d+)*", spec)
    return str(numbers[0]) if numbers else "0"


def distance(one: str, other: str) -> tuple[int, int]:
    """Distance in minors, then in patches where a patch was named."""
    a, b = ((*version(text).release, 0, 0, 0) for text in (one, other))
    return abs((a[0] - b[0]) * 100 + a[1] - b[1]), abs(a[2] - b[2]) if len(version(other).release) > 2 else 0
