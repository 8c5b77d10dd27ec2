"""Why nothing fits what was asked for, and the nearest that does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envcheck.facts.record import replace
from envcheck.plan.choice import BuildSearch, Rejected, find, say
from envcheck.plan.installers import texts
from envcheck.plan.profile import Profile
from envcheck.plan.result import Excluded
from envcheck.plan.wish import Wish
from envcheck.tables.versions import version

if TYPE_CHECKING:
    from envcheck.tables.compat import Tables


def why_not(profile: Profile, tables: Tables, found: BuildSearch, wish: Wish, source: str = "wheel") -> list[Excluded]:
    """Why nothing fits a wish, and the nearest that does."""
    rows: list[Excluded] = []
    asked = " ".join(wish.texts)
    if profile.jetson and version(profile.jetson) < version("38"):
        rows.append(Excluded("torch", texts(tables).say("note.jetson", l4t=profile.jetson)))
    if not asked:
        return rows
    matching = [row for row in found.rejected if row.obstacle.key != "wish"]
    telling = sorted((row for row in matching if not row.obstacle.key.startswith("not-")), key=lambda row: _vague(row, tables))
    if not matching:
        rows.append(Excluded(asked, texts(tables).say("fix.no-release", wish=asked)))
    elif not rows:
        rows.append(Excluded(asked, say((telling or matching)[0].obstacle, tables)))
    relaxed = find(profile, tables, replace(wish, torch="", variant=None), False, source)
    if not relaxed.fits:
        relaxed = find(profile, tables, replace(wish, torch="", variant=None, packages=()), False, source)
    if relaxed.fits and wish.torch:
        near = pivot(wish.torch)
        close = min(relaxed.fits, key=lambda choice: (distance(choice.build.version, near), choice.key(profile)))
        rows.append(Excluded(asked, texts(tables).say("note.wish-nearest", wish=asked, torch=close.build.shown)))
    elif relaxed.fits:
        rows.append(Excluded(asked, texts(tables).say("note.wish-nearest", wish=asked, torch=relaxed.fits[0].build.shown)))
    return rows


def _vague(row: Rejected, tables: Tables) -> int:
    """How little a reason says of a wish. A package is looked at last, so the build fits but for it; that none asks for a torch is known
    of most releases.
    """
    if row.obstacle.key != "companion":
        return 1
    name = row.obstacle.values["name"]
    return 2 if row.obstacle.values["why"] == texts(tables).say("broken.none-for", name=name, torch=row.build.version) else 0


def pivot(spec: str) -> str:
    """A version that a specifier speaks of: the middle of the wish, for measuring what is near it."""
    numbers = re.findall(r"\d+(?:\.\d+)*", spec)
    return str(numbers[0]) if numbers else "0"


def distance(one: str, other: str) -> tuple[int, int]:
    """Distance in minors, then in patches where a patch was named."""
    a, b = ((*version(text).release, 0, 0, 0) for text in (one, other))
    return abs((a[0] - b[0]) * 100 + a[1] - b[1]), abs(a[2] - b[2]) if len(version(other).release) > 2 else 0
