"""The lines that would put into an empty environment what is installed here and what a way leaves as it is."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from envcheck.facts.record import replace
from envcheck.facts.snapshot import Missing, PackagesFacts, Snapshot, Why
from envcheck.planner import install_commands
from envcheck.planner.profile import profile_of
from envcheck.planner.result import Commands
from envcheck.tables.versions import release

if TYPE_CHECKING:
    from envcheck.engine.rule import Check, RuleTexts
    from envcheck.tables.compat import Tables

RELEASED_WITH_TORCH = ("torchvision", "torchaudio")
BESIDE = ("numpy", "setuptools", "importlib-metadata")  # what torch takes along where it is there, without asking for it


def as_installed(
    snapshot: Snapshot, tables: Tables, moved: Collection[str], *, checks: Sequence[Check], texts: RuleTexts, index_base: str | None = None
) -> Commands | None:
    """Lines for the torch that stays (where `moved` does not name it) and for what goes beside it. None: no index has that torch."""
    from envcheck.planner.fixer import fixer

    profile = profile_of(snapshot, tables)
    found = Commands()
    if "torch" not in moved:
        if not profile.torch or not profile.variant or profile.torch_from_conda:
            return None
        number = {name: release(profile.packages.get(name)) for name in RELEASED_WITH_TORCH if name not in moved}
        wish = [f"torch=={profile.torch}", profile.variant, *(f"{name}=={one}" for name, one in number.items() if one)]
        bare = replace(
            snapshot,
            torch=Missing(Why.ABSENT, "an empty environment"),
            packages=replace(snapshot.packages, distributions=()) if isinstance(snapshot.packages, PackagesFacts) else snapshot.packages,
            devices=Missing(Why.SKIPPED, "an empty environment"),
            live=Missing(Why.SKIPPED, "an empty environment"),
        )
        ways = fixer(bare, tables, checks, texts, "auto", index_base).planner.plan(wish).ways
        found = next((way.commands for way in ways if way.commands.pip or way.commands.uv), Commands())
        if not found.pip and not found.uv:
            return None
    beside = [f"{name}=={profile.packages[name]}" for name in BESIDE if name not in moved and name in profile.packages]
    pip, uv = install_commands.install(profile, beside)
    return Commands((*found.pip, *pip), (*found.uv, *uv))
