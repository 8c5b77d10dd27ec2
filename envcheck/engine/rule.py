"""What a rule is: a check (typed Python) and its text (TOML, read only when it is shown)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cached_property
from typing import Any, TypeAlias

from envcheck.engine.intents import Intent
from envcheck.facts.record import field, record
from envcheck.tables.folders import Folder, toml_files
from envcheck.tables.toml import load_toml


class Severity(Enum):
    ERROR = "error"  # training cannot work, or will be wrong
    WARNING = "warning"  # works, not as meant
    INFO = "info"

    @property
    def order(self) -> int:
        return ("error", "warning", "info").index(self.value)


class Confidence(Enum):
    CERTAIN = "certain"
    LIKELY = "likely"  # the text says "may"; never fails a run alone


@record
class Evidence:
    source: str  # "nvidia-smi (exit 9)", "/proc/driver/nvidia/version"
    text: str


@record
class Hit:
    """A condition that holds. `values` fill the placeholders of the rule's text.

    `variant` picks an alternative message of the TOML file; severity and confidence override it.
    """

    values: Mapping[str, object] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()
    fixes: tuple[Intent, ...] = ()
    variant: str | None = None
    severity: Severity | None = None
    confidence: Confidence | None = None


@record
class Unknown:
    """The facts are there but do not decide; `reason` ends up in the report."""

    reason: str


Answer: TypeAlias = Hit | Unknown | None


@record
class Check:
    """A rule's condition. `id` is the function's name in kebab case; parameters are section names, `tables` or `absent`.

    A section that is missing arrives empty: each of its fields says nothing. `needs` names the sections without which "nothing
    found" means nothing: the answer None is then not "ok". `absent` holds the names of the sections that are known not to exist,
    for checks of which the absence is a fact.
    """

    id: str
    function: Callable[..., Answer]
    parameters: tuple[str, ...]
    needs: tuple[str, ...] | None = None
    sees_missing: frozenset[str] = frozenset()


def check(*, needs: tuple[str, ...] | None = None, sees_missing: tuple[str, ...] = ()) -> Callable[[Callable[..., Answer]], Check]:
    """Make a Check of a function whose parameters are named after sections of `Snapshot`, `tables` or `absent`."""

    def make(function: Callable[..., Answer]) -> Check:
        code = function.__code__
        parameters = code.co_varnames[: code.co_argcount]
        return Check(function.__name__.replace("_", "-"), function, parameters, needs, frozenset(sees_missing))

    return make


@record
class RuleText:
    """The TOML side of a rule. Keys and their meaning: CONTRIBUTING.md, "Add a rule"."""

    id: str
    family: str
    severity: Severity
    confidence: Confidence
    since: str
    title: str
    messages: Mapping[str, str]  # "" is the message without a variant
    why: str
    fixes: tuple[Mapping[str, Any], ...]
    docs: tuple[str, ...]
    explains: tuple[str, ...]  # ids that are consequences of this one
    rank: int  # smaller is nearer to the cause; orders findings of one severity
    examples: tuple[Mapping[str, Any], ...]


FAMILY_RANK = {
    "container": 10, "driver": 20, "gpu": 30, "visibility": 25, "vendor": 35, "torch": 40, "packages": 50,
    "launch": 60, "comm": 65, "limits": 70, "toolkit": 75, "live": 80, "meta": 90,
}  # fmt: skip


@record
class RuleTexts:
    """Lazy access to the rule files below one or more folders; a later folder (a site's) wins."""

    folders: tuple[Folder, ...]

    @cached_property
    def paths(self) -> Mapping[str, str]:
        """Rule id → file."""
        found: dict[str, str] = {}
        for folder in self.folders:
            for family in sorted(FAMILY_RANK):
                found |= toml_files(folder, family)
        return found

    def family(self, rule_id: str) -> str:
        """The family of a rule; "" if there is no such rule."""
        return os.path.basename(os.path.dirname(self.paths[rule_id])) if rule_id in self.paths else ""

    def read(self, rule_id: str) -> RuleText:
        """The text of one rule; KeyError if there is none."""
        data = load_toml(self.paths[rule_id])
        family = self.family(rule_id)
        messages = {"": data["message"], **data.get("messages", {})}
        return RuleText(
            rule_id,
            family,
            Severity(data["severity"]),
            Confidence(data.get("confidence", "certain")),
            data["since"],
            data["title"],
            messages,
            data["why"],
            tuple(data.get("fix", ())),
            tuple(data.get("docs", ())),
            tuple(data.get("explains", ())),
            data.get("rank", FAMILY_RANK[family]),
            tuple(data.get("example", ())),
        )
