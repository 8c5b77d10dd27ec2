"""rules/plan/installers.toml and texts.toml as typed questions: how builds are named by pip, uv and conda, and what the planner says."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from envcheck.facts.record import record
from envcheck.tables.folders import rules_folder
from envcheck.tables.toml import load_toml
from envcheck.tables.versions import version

if TYPE_CHECKING:
    from envcheck.tables.compat import Tables


@record
class Installers:
    """The content of installers.toml."""

    data: Mapping[str, Any]

    @property
    def index_base(self) -> str:
        return str(self.data["pip"]["index_base"])

    def undocumented(self, variant: str, torch: str) -> bool:
        """Whether a build exists outside the documented set of its release."""
        return any(row["variant"] == variant and version(torch) >= version(row["since"]) for row in self.data["undocumented"])

    def labelled(self, package: str, torch: str, machine: str | None) -> bool:
        """Whether the download index labels this package with the variant (torchvision 0.29.1+cu126)."""
        since = self.data["pip"]["local_version_since"].get(package)
        if since is None or version(torch) < version(since):
            return False
        return machine != "aarch64" or version(torch) >= version(self.data["pip"]["local_version_aarch64"]["since"])

    def triton(self, variant: str, torch: str) -> str | None:
        """What a build for ROCm or XPU asks for in place of triton, where it is not on PyPI."""
        rows = [row for row in self.data["uv"]["triton"] if variant.startswith(row["kind"]) and version(torch) >= version(row["since"])]
        return str(rows[-1]["package"]) if rows else None

    def conda_name(self, package: str) -> str | None:
        """Name on conda-forge of a package that it is known to carry."""
        name = self.data["conda"]["names"].get(package)
        return str(name) if name else None


@record
class PlanTexts:
    """What the planner says, by key; values fill the placeholders."""

    data: Mapping[str, Any]

    def say(self, key: str, **values: object) -> str:
        """The text of "section.name"."""
        section, _, name = key.partition(".")
        return str(self.data[section][name]).format_map({name: str(value) for name, value in values.items()})


@lru_cache(maxsize=1)
def installers() -> Installers:
    """The installers table, read once."""
    return Installers(load_toml(rules_folder("plan/installers.toml")))


@lru_cache(maxsize=4)
def texts(tables: Tables) -> PlanTexts:
    """The planner's texts: those that a site has otherwise stand in the folder beside its tables."""
    return PlanTexts(tables.plan_texts())
