"""Facts of several texts → one Snapshot. What nobody states stays None, or a section "not stated": nothing is guessed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from envcheck.facts import snapshot as f
from envcheck.facts.record import fields, record, replace
from envcheck.facts.snapshot import Gpu, Missing, Snapshot, TextEvidence, Why
from envcheck.read.found import Fact, Found
from envcheck.read.gists import UNUSED
from envcheck.read.products import capability_of
from envcheck.read.values import gpu_vendor
from envcheck.read.variables import place
from envcheck.tables.gpu_generations import capability_of_generation
from envcheck.tables.gpu_names import gfx_named
from envcheck.tables.versions import build_tag

if TYPE_CHECKING:
    from envcheck.read.found import Claim
    from envcheck.tables.compat import Tables

NOT_STATED = Missing(Why.SKIPPED, "not stated")
MOST_GPUS = 64  # of one machine; a larger count is something else

# Other people's texts fill all sections but these: only a run of ours has ranks, and the others are made of messages and of demands.
_SECTIONS = {name: kind for name, kind in f.SECTIONS.items() if name not in ("live", "symptoms", "expectations")}


@record
class Source:
    """Where a fact came from."""

    file: str
    line: int
    text: str


@record
class Merged:
    snapshot: Snapshot
    sources: Mapping[str, Source]  # dotted path → its line
    other: tuple[TextEvidence, ...]  # what was said and is no fact: kept as evidence
    conflicts: tuple[str, ...]  # two texts say different things
    claims: tuple[tuple[str, Claim], ...] = ()  # by file: what was said in passing, and whom it was taken to be about


def merge(found: Sequence[tuple[str, Found]], symptoms: Iterable[TextEvidence], tables: Tables) -> Merged:
    """One snapshot of all that was found, each with the name of its file. A person comes before tools, tools before messages."""
    rows = sorted(found, key=lambda one: -one[1].rank)
    taken: dict[str, tuple[Fact, str]] = {}
    conflicts: list[str] = []
    other: list[TextEvidence] = []
    gpu_lists: list[list[Gpu]] = []
    claims: list[tuple[str, Claim]] = []
    for file, one in rows:
        gpus = [fact.value for fact in one.facts if fact.path.startswith("gpu.") and isinstance(fact.value, Gpu)]
        if gpus and not (one.claims and gpu_lists):  # a sentence counts where no tool lists the GPUs
            gpu_lists.append(gpus)
        conflicts += [f"{doubt} ({file})" for doubt in one.doubts]
        claims += [(file, claim) for claim in one.claims]
        for fact in one.facts:
            if fact.path.startswith("other."):
                other.append(TextEvidence(file, fact.line, "", fact.path[6:], {"value": str(fact.value)}))
            elif fact.path not in taken or _says_more(taken[fact.path][0], fact):
                taken[fact.path] = (fact, file)
            elif fact.path in ("torch.version", "driver.version", "python.version") and not _same(taken[fact.path][0].value, fact.value):
                conflicts.append(f"{fact.path}: {taken[fact.path][0].value} ({taken[fact.path][1]}), {fact.value} ({file})")
    plain = {path: fact.value for path, (fact, _) in taken.items()}
    known = tuple(symptoms)
    signs = [replace(sign, source=f"{file}: {sign.source}") for file, one in rows for sign in one.signs if _counts(one, sign, known, plain)]
    snapshot = _build(plain, gpu_lists, (*known, *signs), tables)
    sources = {path: Source(file, fact.number, fact.line) for path, (fact, file) in taken.items()}
    return Merged(snapshot, sources, tuple(other), tuple(dict.fromkeys(conflicts)), tuple(claims))


# Words that say no more than that there is no GPU
_NO_GPU = ("cuda-says-false", "colab-says-false", "kaggle-says-false", "words-cpu-alone", "no-cuda-gpus")


def _counts(found: Found, sign: TextEvidence, known: Sequence[TextEvidence], plain: Mapping[str, Any]) -> bool:
    """Whether a sign is heard: a complaint repeats what a known message says, unless it tells why a GPU is missing or idle."""
    if found.kind != "complaints" or not known:
        return True
    if sign.symptom == UNUSED:
        return "torch.cpu_build" in plain or "+cpu" in str(plain.get("torch.version"))
    return all(one.symptom in _NO_GPU for one in known)


def _says_more(old: Fact, new: Fact) -> bool:
    """ "2.1.0+cu121" says more than "2.1.0", "580.95.05" more than "580.95"."""
    a, b = str(old.value), str(new.value)
    return old.path in ("torch.version", "driver.version", "python.version") and len(b) > len(a) and b.startswith(a) and b[len(a)] in "+."


def _same(a: object, b: object) -> bool:
    return str(a) == str(b) or str(a).startswith(f"{b}+") or str(b).startswith((f"{a}+", f"{a}.")) or str(a).startswith(f"{b}.")


def _build(plain: Mapping[str, Any], gpu_lists: Sequence[list[Gpu]], symptoms: tuple[TextEvidence, ...], tables: Tables) -> Snapshot:
    values: dict[str, dict[str, Any]] = {}
    for path, value in plain.items():
        section, _, name = path.partition(".")
        if section in _SECTIONS and name in {one.name for one in fields(_SECTIONS[section])}:
            values.setdefault(section, {})[name] = value
    _variables(plain, values)
    _packages(plain, values)
    _gpus(plain, gpu_lists, values, tables)
    _torch(values)
    made: dict[str, Any] = dict.fromkeys(_SECTIONS, NOT_STATED)
    values.setdefault("system", {})  # every text is of some system: rules that only read symptoms apply
    for name, cls in _SECTIONS.items():
        if f"missing.{name}" in plain:
            made[name] = Missing(Why.ABSENT, str(plain[f"missing.{name}"]))
        elif name in values:
            made[name] = cls(**_fitting(cls, values[name]))
    if isinstance(made["visibility"], f.VisibilityFacts) and isinstance(made["gpus"], f.GpusFacts):
        from envcheck.facts.cuda_visible_devices import with_selection

        made["visibility"] = with_selection(made["visibility"], made["gpus"])
    return Snapshot(**made, live=Missing(Why.SKIPPED, "not run"), symptoms=f.SymptomsFacts(symptoms))


def _fitting(cls: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Words of readers as the enums and nested facts of a section."""
    made = dict(values)
    if cls is f.DriverFacts:
        for name in ("smi", "nvml"):
            if isinstance(made.get(name), str):
                made[name] = f.ToolAnswer(f.ToolStatus(made[name]))
    if cls is f.TorchFacts and isinstance(made.get("import_status"), str):
        made["import_status"] = f.ImportStatus(made["import_status"])
    return made


def _variables(plain: Mapping[str, Any], values: dict[str, dict[str, Any]]) -> None:
    """Environment variables go where the probes put them."""
    complete = "env." in plain
    for path, value in plain.items():
        if path.startswith("env.") and path != "env.":
            place(path[4:], None if isinstance(value, Missing) else str(value), values)
    if complete:  # the whole list was printed: what is not in it is unset
        values.setdefault("visibility", {})


def _packages(plain: Mapping[str, Any], values: dict[str, dict[str, Any]]) -> None:
    rows = [value for path, value in plain.items() if path.startswith("package.") and isinstance(value, f.Distribution)]
    if rows:
        names = Counter(row.name for row in rows)
        values.setdefault("packages", {})["distributions"] = tuple(sorted(rows, key=lambda row: row.name))
        values["packages"]["duplicates"] = tuple(sorted(name for name, count in names.items() if count > 1))


def _gpus(plain: Mapping[str, Any], lists: Sequence[list[Gpu]], values: dict[str, dict[str, Any]], tables: Tables) -> None:
    """The longest list is the machine's; what it leaves open comes from the others, the compute capability from the product's name."""
    rows = _combined(lists)
    count = plain.get("count.gpus")
    several = count if isinstance(count, int) and 0 < count <= MOST_GPUS else 0
    if len(rows) == 1 < several:
        rows = [replace(rows[0], index=index) for index in range(several)]
    nvidia = [_with_capability(gpu, tables) for gpu in rows if gpu_vendor(gpu.name or "") not in ("amd", "intel", "apple")]
    others = values.get("rocm", {}).get("names") or values.get("xpu", {}).get("names")
    if not rows and not others and plain.get("gpu_vendor") in (None, "nvidia"):
        nvidia = [Gpu(index) for index in range(several)]
    if nvidia:
        values.setdefault("gpus", {})["devices"] = tuple(nvidia)
        values["gpus"].setdefault("source", "report")
    for vendor, section in (("amd", "rocm"), ("intel", "xpu")):
        names = tuple(gpu.name for gpu in rows if gpu_vendor(gpu.name or "") == vendor and gpu.name)
        stated = values.get(section, {}).get("names") or names
        if len(stated) == 1 < several and not rows and plain.get("gpu_vendor") in (None, vendor):
            stated *= several
        if stated:
            values.setdefault(section, {})["names"] = stated
    if boards := values.get("rocm", {}).get("names"):
        values["rocm"].setdefault("gfx", tuple(gfx for name in boards if (gfx := gfx_named(name, tables))))


def _with_capability(gpu: Gpu, tables: Tables) -> Gpu:
    if gpu.compute_capability or not gpu.name:
        return gpu
    capability = capability_of(gpu.name, tables) or capability_of_generation(gpu.name, tables)
    source = gpu.compute_capability_source or ("table" if capability else None)
    return replace(gpu, compute_capability=capability, compute_capability_source=source)


def _combined(lists: Sequence[list[Gpu]]) -> list[Gpu]:
    if not lists:
        return []
    best = max(lists, key=len)
    others: dict[int, list[Gpu]] = {}
    for one in (one for each in lists if each is not best for one in each):
        others.setdefault(one.index, []).append(one)
    rows = []
    for gpu in best:
        for one in others.get(gpu.index, ()):
            if _one_product(gpu.name, one.name):
                gpu = _filled(gpu, one)
        rows.append(gpu)
    return rows


def _one_product(a: str | None, b: str | None) -> bool:
    return a is None or b is None or a.split()[-1].lower() == b.split()[-1].lower() or a.lower() in b.lower() or b.lower() in a.lower()


def _filled(gpu: Gpu, other: Gpu) -> Gpu:
    """The first GPU with its empty fields taken from the second."""
    empty = {one.name: getattr(other, one.name) for one in fields(Gpu) if getattr(gpu, one.name) in (None, ())}
    return replace(gpu, **empty)


def _torch(values: dict[str, dict[str, Any]]) -> None:
    """The build variant in the version's local part is a fact: "+cu126" is CUDA 12.6, "+cpu" is none."""
    torch = values.get("torch")
    if not torch:
        return
    tag = build_tag(str(torch.get("version") or ""))
    if tag.cuda:
        torch.setdefault("cuda", tag.cuda)
    if tag.rocm:
        torch.setdefault("hip", tag.rocm)
    if torch.get("cuda") or torch.get("hip") or torch.get("xpu") or tag.xpu:
        torch["cpu_build"] = False
    elif tag.cpu:
        torch["cpu_build"] = True
    if (
        values.get("devices", {}).get("available") is True
        and values.get("python", {}).get("variables", {}).get("PYTORCH_NVML_BASED_CUDA_CHECK") == "1"
    ):
        values["devices"]["nvml_check"] = True
