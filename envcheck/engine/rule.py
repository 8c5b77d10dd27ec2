"""What a rule is: a check (typed Python) and its text (TOML, read only when it is shown)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from envcheck.engine.intents import Intent
from envcheck.facts.record import field, record
from envcheck.tables.folders import Folder, toml_files
from envcheck.tables.toml import load_toml

if TYPE_CHECKING:
    from envcheck.facts.fleet import FleetFacts
    from envcheck.facts.snapshot import (
        AskedFacts,
        BackendsFacts,
        ContainerFacts,
        CudaDriverFacts,
        DevicesFacts,
        DriverFacts,
        ExpectationsFacts,
        GpusFacts,
        LauncherFacts,
        LimitsFacts,
        LiveFacts,
        Missing,
        MpsFacts,
        NetworkFacts,
        PackagesFacts,
        PythonFacts,
        RocmFacts,
        SymptomsFacts,
        SystemFacts,
        TextEvidence,
        ToolkitFacts,
        TorchFacts,
        VisibilityFacts,
        XpuFacts,
    )
    from envcheck.tables.compat import Tables


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

    `variant` picks an alternative message of the TOML file, with its severity and confidence; those given here override them.
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
Matches: TypeAlias = "tuple[TextEvidence, ...]"  # lines in which known messages were recognised


@record
class Facts:
    """What a check is given: each section of the snapshot by its name, and the tables.

    A section that is missing is empty: each of its fields says nothing. `absent` holds the names of the sections that are known not
    to exist, for checks of which the absence is a fact; `missing` all that were not read, for the few that say why, or where a
    section without a word means something.
    """

    system: SystemFacts
    limits: LimitsFacts
    driver: DriverFacts
    gpus: GpusFacts
    cuda_driver: CudaDriverFacts
    toolkit: ToolkitFacts
    visibility: VisibilityFacts
    container: ContainerFacts
    network: NetworkFacts
    launcher: LauncherFacts
    rocm: RocmFacts
    xpu: XpuFacts
    mps: MpsFacts
    python: PythonFacts
    packages: PackagesFacts
    torch: TorchFacts
    backends: BackendsFacts
    devices: DevicesFacts
    live: LiveFacts
    symptoms: SymptomsFacts
    expectations: ExpectationsFacts
    asked: AskedFacts
    fleet: FleetFacts
    tables: Tables
    missing: Mapping[str, Missing]
    absent: frozenset[str]

    @cached_property
    def _lines(self) -> Mapping[str, Matches]:
        found: dict[str, Matches] = {}
        for match in self.symptoms.matches:
            found[match.rule] = (*found.get(match.rule, ()), match)
        return found

    def said(self, rule_id: str) -> Matches:
        """The lines whose message names this rule, in the order in which they were read."""
        return self._lines.get(rule_id, ())


@record
class Check:
    """A rule's condition. `id` is the function's name in kebab case; `reads` names the sections that it looks at.

    `needs` names the sections without which "nothing found" means nothing: the answer None is then not "ok".
    """

    id: str
    function: Callable[..., Answer]
    needs: tuple[str, ...]
    reads: tuple[str, ...]

    def answer(self, facts: Facts) -> Answer:
        """The function is handed the lines that name its rule, if it takes them."""
        return self.function(facts, facts.said(self.id)) if self.function.__code__.co_argcount > 1 else self.function(facts)


Condition: TypeAlias = Callable[[Facts], Answer] | Callable[[Facts, Matches], Answer]


def check(*, needs: str, reads: str) -> Callable[[Condition], Check]:
    """Make a Check of a function of the facts, and of the lines that programs printed of its rule if those count. Names of sections
    are separated by blanks."""

    def make(function: Condition) -> Check:
        return Check(function.__name__.replace("_", "-"), function, tuple(needs.split()), tuple(reads.split()))

    return make


# Rows in the picture of the stack.
LAYERS = ("GPU", "driver", "CUDA", "torch", "kernels", "NCCL", "live step")
# What nobody knows while a rule is unknown: whether torch imports, whether CUDA works at all, whether a torch build runs here. A doubt
# about clocks or the kernel log leaves nothing of that open.
DECISIONS = ("import", "cuda", "build")
# Whose fault the words of a message are. "program": how it starts its processes, uses DDP and picks devices; envcheck's own ranks are
# started without the launcher's variables, so where they print such words the fault is envcheck's. "peer": the way to another rank; a
# rank whose peer has died says the same words, and which of its words come first is chance.
SUBJECTS = ("program", "peer")


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
    layer: str | None = None  # one of LAYERS
    decides: tuple[str, ...] = ()  # of DECISIONS
    about: str | None = None  # one of SUBJECTS
    confirm: str = ""  # the command that shows it, and what it must print
    notes: tuple[str, ...] = ()  # other causes, versions and messages, one each
    when: tuple[Mapping[str, Any], ...] = ()  # the thresholds of a site's own rule (checks/thresholds.py)
    variants: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # severity and confidence that a variant has of its own

    def severity_of(self, hit: Hit) -> Severity:
        """As the hit says, else as its variant has it, else the rule's."""
        own = self.variants.get(hit.variant or "default", {}).get("severity")
        return hit.severity or (Severity(own) if own else self.severity)

    def confidence_of(self, hit: Hit) -> Confidence:
        """As the hit says, else as its variant has it, else the rule's."""
        own = self.variants.get(hit.variant or "default", {}).get("confidence")
        return hit.confidence or (Confidence(own) if own else self.confidence)


# What a site's own rule says where its file does not.
OF_A_SITE = {"since": "this site", "message": "{found}", "why": ""}

FAMILY_RANK = {
    "fleet": 5,
    "container": 10, "driver": 20, "gpu": 30, "visibility": 25, "vendor": 35, "torch": 40, "packages": 50,
    "launch": 60, "comm": 65, "limits": 70, "toolkit": 75, "live": 80, "meta": 90,
}  # fmt: skip


@record
class RuleTexts:
    """Lazy access to the rule files below one or more folders. A site's file holds the keys that it says otherwise than ours."""

    folders: tuple[Folder, ...]
    severities: tuple[tuple[str, Severity], ...] = ()  # by rule, as a configuration sets them; the texts keep their own
    language: str = ""  # of `rules/lang`; "" is English, which stands wherever a text is missing

    @cached_property
    def _files(self) -> Mapping[str, tuple[str, tuple[str, ...]]]:
        """Rule id → its family and its files, ours first."""
        found: dict[str, tuple[str, tuple[str, ...]]] = {}
        for folder in self.folders:
            for family in sorted(FAMILY_RANK):
                for rule, path in toml_files(folder, family).items():
                    known, paths = found.get(rule, (family, ()))
                    found[rule] = (known, (*paths, path))
        return found

    @property
    def ids(self) -> tuple[str, ...]:
        """All rules, family by family."""
        return tuple(self._files)

    @property
    def of_site(self) -> tuple[str, ...]:
        """Rules that the first folder, which is ours, does not have."""
        ours = {rule for family in FAMILY_RANK for rule in toml_files(self.folders[0], family)} if self.folders[1:] else self._files
        return tuple(rule for rule in self._files if rule not in ours)

    def family(self, rule_id: str) -> str:
        """The family of a rule; "" if there is no such rule."""
        return self._files.get(rule_id, ("", ()))[0]

    @cached_property
    def _known(self) -> dict[str, RuleText]:
        return {}

    def read(self, rule_id: str) -> RuleText:
        """The text of one rule, whose file is read once; KeyError if there is none."""
        if rule_id not in self._known:
            self._known[rule_id] = self._read(rule_id)
        return self._known[rule_id]

    def _read(self, rule_id: str) -> RuleText:
        data: dict[str, Any] = {}
        family, paths = self._files[rule_id]
        for number, path in enumerate(paths):
            more = load_toml(path)
            data |= {**more, "messages": {**data.get("messages", {}), **more.get("messages", {})}}
            if self.language and not number:  # what a site says stands over it
                data = _in_language(data, self._translations(family).get(rule_id, {}))
        if "when" in data:
            data = {**OF_A_SITE, **data}
        return RuleText(
            rule_id,
            family,
            Severity(data["severity"]),
            Confidence(data.get("confidence", "certain")),
            data["since"],
            data["title"],
            {"": data["message"], **data["messages"]},
            data["why"],
            ({"kind": "manual", "text": data["fix"]},) if isinstance(data.get("fix"), str) else tuple(data.get("fix", ())),
            tuple(data.get("docs", ())),
            tuple(data.get("explains", ())),
            data.get("rank", FAMILY_RANK[family]),
            tuple(data.get("example", ())),
            data.get("layer"),
            tuple(data.get("decides", ())),
            data.get("about"),
            data.get("confirm", ""),
            tuple(data.get("notes", ())),
            tuple(data.get("when", ())),
            data.get("variants", {}),
        )

    def _translations(self, family: str) -> Mapping[str, Any]:
        """Rule id → its texts in the language; see CONTRIBUTING.md, "Translate"."""
        path = toml_files(self.folders[0], f"lang/{self.language}").get(family)
        return _loaded(path) if path else {}


@lru_cache(maxsize=len(FAMILY_RANK))
def _loaded(path: str) -> Mapping[str, Any]:
    return load_toml(path)


def _in_language(data: dict[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """The texts of a rule, with those that are translated in their place."""
    fixes = [
        {**fix, ("text" if "text" in fix else "note"): text} if text else fix
        for fix, text in zip(data.get("fix", ()), said.get("fix", ()), strict=False)
    ]
    rest = data.get("fix", [])[len(fixes) :]
    plain = {key: said[key] for key in ("title", "message", "why", "confirm") if key in said}
    notes = {"notes": [text or ours for text, ours in zip(said["notes"], data["notes"], strict=False)]} if "notes" in said else {}
    return {**data, **plain, **notes, "messages": {**data["messages"], **said.get("messages", {})}, "fix": [*fixes, *rest]}
