"""A plan applied to a copy of the snapshot, and judged again by the same rules. Nothing is installed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from envcheck.engine.intents import TorchBuild
from envcheck.engine.judge import Outcome, Verdict, is_about, judge
from envcheck.engine.rule import Confidence, Hit, RuleText, Severity
from envcheck.facts.record import record, replace
from envcheck.facts.snapshot import (
    BackendsFacts,
    CudaDriverFacts,
    Distribution,
    DriverFacts,
    GpusFacts,
    ImportStatus,
    Missing,
    PackagesFacts,
    RocmFacts,
    Snapshot,
    SystemFacts,
    TorchFacts,
    VisibilityFacts,
    Why,
)
from envcheck.tables.versions import meets, release, requirement

if TYPE_CHECKING:
    from envcheck.engine.rule import Check, RuleTexts
    from envcheck.planner.candidate import Candidate
    from envcheck.planner.companions import Companions
    from envcheck.tables.compat import Tables

_NOT_RUN = Missing(Why.SKIPPED, "assumed by a plan: not run")


@record
class Change:
    """What a plan changes of a machine: the torch build and what goes with it, the driver, or what is visible."""

    build: Candidate | None = None
    beside: Companions | None = None
    driver: str | None = None
    driver_cuda: str | None = None
    visible: tuple[int, ...] | None = None  # positions in gpus.devices that stay
    compat_cuda: str | None = None  # CUDA of a cuda-compat library that is put in front
    gfx_override: str | None = None  # HSA_OVERRIDE_GFX_VERSION
    cpu_only: bool = False  # as the user asked, or on a Mac whose Metal is too old for the build


@record
class Proof:
    """What the rules say of the changed machine. `left` are the targeted errors that stay, `new` the errors that appear."""

    left: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()  # other errors below the live step: no torch trains before they are mended
    unsure: tuple[str, ...] = ()  # rules about the build that could not be decided

    @property
    def holds(self) -> bool:
        return not (self.left or self.new or self.stays or self.unsure)


@record
class Judge:
    """The rules and tables of a run, and what they say of the machine as it is."""

    snapshot: Snapshot
    checks: Sequence[Check]
    texts: RuleTexts
    tables: Tables

    @cached_property
    def before(self) -> tuple[Verdict, ...]:
        return judge(self.snapshot, self.checks, self.tables)

    @cached_property
    def errors(self) -> frozenset[str]:
        """Rules that find an error now."""
        return self._errors(self.before)

    @cached_property
    def targeted(self) -> frozenset[str]:
        """Errors that another torch build is meant to mend."""
        return self.errors & self.wanting

    @cached_property
    def wanting(self) -> frozenset[str]:
        """Errors and warnings that ask for another torch build."""
        return frozenset(one.rule for one in self.before if self._wants_build(one) and self.severity(one) is not Severity.INFO)

    def outside(self, rules: Iterable[str]) -> bool:
        """Whether all of these rules are about the driver and the GPU, which no file of torch changes."""
        return all(_text(self.texts, rule).layer in _OUTSIDE for rule in rules)

    def prove(self, change: Change) -> Proof:
        """Apply a change to the snapshot and judge again."""
        after = judge(apply(self.snapshot, change, self.tables), self.checks, self.tables)
        errors = self._errors(after)
        undecided = {one.rule for one in self.before if one.outcome is Outcome.UNKNOWN}
        unsure = [one.rule for one in after if one.outcome is Outcome.UNKNOWN and one.rule not in undecided and self._decides(one.rule)]
        wanting = {one.rule for one in after if self._wants_build(one) and self.severity(one) is not Severity.INFO}
        left = (errors & self.targeted) | (wanting & self.wanting)
        stays = self._fundamental(after) & self.errors - left
        return Proof(*(tuple(sorted(rules)) for rules in (left, errors - self.errors, stays, unsure)))

    def prove_kept(self) -> Proof:
        """What the rules say of a torch that stays as it is."""
        return Proof(tuple(sorted(self.targeted)), (), tuple(sorted(self._fundamental(self.before) - self.targeted)))

    def _fundamental(self, verdicts: Sequence[Verdict]) -> frozenset[str]:
        """Certain errors of the driver, of CUDA and of torch itself."""
        errors = self._errors(verdicts)
        found = [(_text(self.texts, one.rule), one.hit) for one in verdicts if one.hit and one.rule in errors]
        sure = [text for text, hit in found if text.confidence_of(hit) is Confidence.CERTAIN]
        return frozenset(text.id for text in sure if text.layer in _FUNDAMENTAL)

    def _errors(self, verdicts: Sequence[Verdict]) -> frozenset[str]:
        return frozenset(one.rule for one in verdicts if one.hit and self.severity(one) is Severity.ERROR)

    def severity(self, verdict: Verdict) -> Severity:
        """As the site sets it, else as the hit or its rule has it."""
        own = _text(self.texts, verdict.rule).severity_of(verdict.hit or Hit())
        return dict(self.texts.severities).get(verdict.rule, own)

    def _decides(self, rule: str) -> bool:
        """Whether the rule says that a build runs here: while it cannot be decided, a plan is not proved."""
        return "build" in _text(self.texts, rule).decides

    def _wants_build(self, verdict: Verdict) -> bool:
        if verdict.hit is None:
            return False
        fixes = (fix for fix in _text(self.texts, verdict.rule).fixes if is_about(fix, verdict.hit.variant))
        return any(isinstance(fix, TorchBuild) for fix in verdict.hit.fixes) or any(fix["kind"] == "torch" for fix in fixes)


_OUTSIDE = ("GPU", "driver", "CUDA", "kernels")
_FUNDAMENTAL = ("driver", "CUDA", "kernels", "torch")  # layers below the GPUs' use


@lru_cache(maxsize=1024)
def _text(texts: RuleTexts, rule: str) -> RuleText:
    """One without a file (of a test, of a plan's own making) is an error that nothing else is known of."""
    try:
        return texts.read(rule)
    except KeyError:
        return RuleText(rule, "", Severity.ERROR, Confidence.CERTAIN, "", "", {}, "", (), (), (), 0, ())


def apply(snapshot: Snapshot, change: Change, tables: Tables) -> Snapshot:
    """The machine after a change. What would have to be run (devices, live check) is skipped, so that the tables alone decide."""
    after = replace(snapshot, symptoms=_NOT_RUN, fleet=_NOT_RUN)  # what programs and other hosts said is of before
    if change.build is None and change.beside is not None:
        packages = after.packages
        return replace(after, packages=_beside(packages, change.beside)) if isinstance(packages, PackagesFacts) else after
    after = replace(after, devices=_NOT_RUN, live=_NOT_RUN)
    if change.build is not None:
        after = _with_build(after, change.build, change.beside, tables)
    if change.driver is not None:
        after = _with_driver(after, change.driver, change.driver_cuda)
    if change.gfx_override is not None and isinstance(after.rocm, RocmFacts):
        after = replace(after, rocm=replace(after.rocm, gfx_override=change.gfx_override))
    if change.compat_cuda is not None:
        library = after.cuda_driver if isinstance(after.cuda_driver, CudaDriverFacts) else CudaDriverFacts()
        count = len(after.gpus.devices) if isinstance(after.gpus, GpusFacts) else None
        library = replace(library, init_code=0, driver_version=change.compat_cuda, is_compat=True, device_count=count, device_count_code=0)
        after = replace(after, cuda_driver=library)
    if change.visible is not None and isinstance(after.gpus, GpusFacts):
        seen = after.visibility if isinstance(after.visibility, VisibilityFacts) else VisibilityFacts()
        names = ",".join(after.gpus.devices[at].uuid or str(at) for at in change.visible)
        after = replace(after, visibility=replace(seen, selected=change.visible, cuda_visible_devices=names, stopped_at=None))
    return _without_gpu(after) if change.cpu_only else after


def _without_gpu(snapshot: Snapshot) -> Snapshot:
    """The machine as a torch that trains on its CPU finds it."""
    unused = Missing(Why.ABSENT, "assumed by a plan: no GPU is to be used")
    after = replace(snapshot, driver=unused, gpus=unused, cuda_driver=unused, visibility=unused, rocm=unused, xpu=unused, mps=unused)
    return replace(after, system=replace(after.system, pci_gpus=())) if isinstance(after.system, SystemFacts) else after


def _with_build(snapshot: Snapshot, one: Candidate, beside: Companions | None, tables: Tables) -> Snapshot:
    old = snapshot.torch if isinstance(snapshot.torch, TorchFacts) else TorchFacts()
    release = tables.release(one.version)
    machine = one.platform.partition("-")[2]
    on_mac = one.platform.startswith("macos")
    torch = TorchFacts(
        version=one.version if on_mac else one.full,
        cuda=one.cuda,
        hip=one.hip,
        xpu="assumed" if one.xpu else None,
        path=old.path,
        debug=False,
        cpu_build=one.cpu and not on_mac,
        conda=one.channel != "wheel",
        import_status=ImportStatus.OK,
        import_seconds=old.import_seconds,
        arch_list=one.archs if one.cuda or one.hip else (),
        cxx11_abi=release.cxx11_abi.get(machine) if release else None,
    )
    packages = snapshot.packages
    if isinstance(packages, PackagesFacts):
        packages = _with_packages(packages, one, beside, tables)
    backends = snapshot.backends
    if isinstance(backends, BackendsFacts):
        gpu = bool(one.cuda or one.hip)
        nccl = gpu and not one.platform.startswith("windows")
        # Published builds of every platform have torch.distributed and gloo; an own build that is replaced need not.
        backends = replace(backends, cuda=gpu, cudnn=gpu, distributed=True, gloo=True, nccl=nccl, xpu=one.xpu, xccl=one.xpu)
    return replace(snapshot, torch=torch, packages=packages, backends=backends)


def _with_packages(packages: PackagesFacts, one: Candidate, beside: Companions | None, tables: Tables) -> PackagesFacts:
    """Distributions after the change. Libraries that torch pins are known for the default wheel only; of others they are left out."""
    moves: Mapping[str, str | None] = {move.name: _landed(move.version, move.specifier) for move in beside.moves} if beside else {}
    pins = {name: _landed(None, wanted) for name, wanted in tables.pins(one.version).items()} if one.default and one.cuda else {}
    gone = {*(beside.remove if beside else ()), "torch", *moves, *pins}
    site = next((row.location for row in packages.distributions if row.name == "torch"), None)
    kept = [row for row in packages.distributions if row.name not in gone and not _pinned_library(row.name)]
    label = "" if one.default or one.platform.startswith("macos") else f"+{one.variant}"
    new = [Distribution("torch", one.version + label, site, installer="conda" if one.channel != "wheel" else "pip")]
    for name, landed in moves.items():
        carries = label if name in ("torchvision", "torchaudio") and landed and "+" not in landed else ""
        new.append(Distribution(name, landed + carries if landed else None, site))
    new += [Distribution(name, landed, site) for name, landed in pins.items() if one.platform.startswith("linux")]
    unmet = tuple(row for row in packages.unmet if row.distribution not in gone and _still_unmet(row.requirement, one, moves))
    return replace(
        packages,
        distributions=(*kept, *new),
        unmet=unmet,
        overwritten=(),
        damaged=(),
        duplicates=tuple(name for name in packages.duplicates if name not in gone),
        leftovers=packages.leftovers,
    )


def _beside(packages: PackagesFacts, beside: Companions) -> PackagesFacts:
    """Distributions with packages added to a torch that stays."""
    moved = {move.name: _landed(move.version, move.specifier) for move in beside.moves}
    kept = tuple(row for row in packages.distributions if row.name not in moved)
    return replace(packages, distributions=(*kept, *(Distribution(name, landed) for name, landed in moved.items())))


def _landed(exact: str | None, specifier: str) -> str | None:
    """Version that a move ends at; of an open specifier its lower bound, else not known."""
    if exact:
        return exact
    bound = next((part.lstrip(">=~ ") for part in specifier.split(",") if part.strip().startswith((">=", "==", "~="))), None)
    return bound.rstrip(".*") if bound else None


def _pinned_library(name: str) -> bool:
    return name == "triton" or (name.startswith("nvidia-") and name.rpartition("-")[2] in ("cu11", "cu12", "cu13"))


def _still_unmet(text: str, one: Candidate, moves: Mapping[str, str | None]) -> bool:
    """Whether an installed package's wish stays unmet: `torch==2.13.0` beside the new torch."""
    from packaging.requirements import InvalidRequirement
    from packaging.utils import canonicalize_name

    try:
        wanted = requirement(text)
    except InvalidRequirement:
        return True
    name = canonicalize_name(wanted.name)
    if _pinned_library(name):
        return False
    landed = one.version if name == "torch" else moves.get(name)
    return landed is None or not meets(release(landed), str(wanted.specifier))


def _with_driver(snapshot: Snapshot, driver: str, cuda: str | None) -> Snapshot:
    old = snapshot.driver if isinstance(snapshot.driver, DriverFacts) else DriverFacts()
    new = replace(
        old,
        version=driver,
        windows_version=driver if old.windows_version else None,
        library_version=driver,
        cuda=cuda,
        readings=(),
        module_loaded=True,
    )
    return replace(snapshot, driver=new, cuda_driver=_NOT_RUN)
