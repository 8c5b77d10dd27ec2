"""The GPU against the torch build: is there code for it, and may this process use it."""

from __future__ import annotations

import re

from envcheck.checks.answer import cuda_code, driver_answers, fails, for_rocm, listed, torch_devices, trouble, visible, works
from envcheck.checks.text import holding, mentioning, quoted, said, value
from envcheck.engine.intents import SetEnv, TorchBuild
from envcheck.engine.rule import Answer, Confidence, Evidence, Hit, Severity, Unknown, check
from envcheck.facts.cuda_codes import DEVICES_UNAVAILABLE, NO_DEVICE
from envcheck.facts.record import record
from envcheck.facts.snapshot import (
    CudaDriverFacts,
    Device,
    DevicesFacts,
    Gpu,
    GpusFacts,
    Missing,
    SymptomsFacts,
    SystemFacts,
    TorchFacts,
    VisibilityFacts,
)
from envcheck.tables.archs import platform_of, runs_on
from envcheck.tables.compat import Tables
from envcheck.tables.versions import variant_of_cuda

_GIB = 1 << 30
NO_KERNEL = "no kernel image is available"


@record
class _Card:
    name: str
    cc: str
    uuid: str | None
    kernel: str | None  # "ok", "failed", …; None = not tried
    error: str = ""


@record
class Code:
    """What is known of the code in the torch build."""

    archs: tuple[str, ...] | None
    source: str
    certain: bool
    cuda: str | None


def _text_card(symptoms: SymptomsFacts | Missing) -> _Card | None:
    """torch's warning: "NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with …", "… of cuda capability 6.1."."""
    for match in () if isinstance(symptoms, Missing) else symptoms.matches:
        found = re.search(r"(\w[\w ]{0,60}?) with CUDA capability sm_(\d{2,3})", match.text)
        if found:
            return _Card(found[1].strip(), f"{found[2][:-1]}.{found[2][-1]}", None, None)
        found = re.search(r"Found GPU\d+ (\w[\w ]{0,60}?) which is of cuda capability (\d{1,2}\.\d)", match.text)
        if found:
            return _Card(found[1].strip(), found[2], None, None)
    return None


def _text_archs(symptoms: SymptomsFacts | Missing) -> tuple[str, ...] | None:
    """ "The current PyTorch install supports CUDA capabilities sm_50 sm_60 … compute_120."."""
    for match in () if isinstance(symptoms, Missing) else symptoms.matches:
        _, found, rest = match.text.partition("supports CUDA capabilities")
        if found:
            return tuple(re.findall(r"(?:sm|compute)_\d{2,3}[af]?", rest)) or None
    return None


def _cards(
    gpus: GpusFacts | Missing,
    visibility: VisibilityFacts | Missing,
    devices: DevicesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
    tables: Tables,
) -> list[_Card]:
    """The GPUs that torch would use: as torch lists them, else as the driver does, else as the error text says."""
    asked = [one for one in torch_devices(devices) if one.kind == "cuda" and one.compute_capability]
    if asked:
        return [_from_torch(one) for one in asked]
    found = []
    for gpu in visible(gpus, visibility):
        cc = gpu.compute_capability or (tables.compute_capability(gpu.name) if gpu.name else None)
        if cc:
            found.append(_Card(gpu.name or f"GPU {gpu.index}", cc, gpu.uuid, None))
    text = _text_card(symptoms)  # of several GPUs torch complains of one, which a report need not name
    return found if text is None or any(card.cc == text.cc for card in found) else [*found, text]


def _from_torch(device: Device) -> _Card:
    name = device.name or f"cuda:{device.index}"
    return _Card(name, device.compute_capability or "", device.uuid, device.kernel, device.kernel_error or "")


def code_of_build(torch: TorchFacts | Missing, system: SystemFacts | Missing, symptoms: SymptomsFacts | Missing, tables: Tables) -> Code:
    """torch's own list, the list in torch's warning, or the table's for this release, variant and platform."""
    if isinstance(torch, Missing):
        return Code(_text_archs(symptoms), "torch's warning", True, None)
    if torch.arch_list:
        return Code(torch.arch_list, "torch.cuda.get_arch_list()", True, torch.cuda)
    told = _text_archs(symptoms)
    if told:
        return Code(told, "torch's warning", True, torch.cuda)
    # "1.11.0" without a CUDA version may be any build of that release: conda's carry no local part
    if torch.version and (torch.cuda or "+" in torch.version) and not torch.conda and not isinstance(system, Missing):
        name = torch.version
        variant = variant_of_cuda(torch.cuda) if torch.cuda else None
        if "+" not in name and variant:
            name = f"{name}+{variant}"
        rows = [tables.build(name, platform_of(os, system.machine or "x86_64")) for os in _systems(system)]
        known = [row for row in rows if row and row.archs]
        if known:
            archs = tuple(dict.fromkeys(arch for row in known for arch in row.archs or ()))
            source = f"the published build {known[0].version}+{known[0].variant}"
            return Code(archs, source, all(row.archs_confidence == "high" for row in known), known[0].cuda or torch.cuda)
    return Code(None, "the CUDA version of the build", False, torch.cuda)


def _systems(system: SystemFacts) -> tuple[str, ...]:
    """Where a report does not name the system, a build of either counts: what neither holds is not there."""
    return (system.os,) if system.os else ("linux", "windows")


def _first_cuda(capability: str, tables: Tables) -> tuple[int, int] | None:
    """First CUDA that compiles code which runs on this GPU: that of its own capability or of an earlier one of its family."""
    row = tables.gpu(capability)
    if row is None:
        return None
    generation, minor = _pair(capability)
    family = [tables.gpu(f"{generation}.{one}") for one in range(minor)] if not row.jetson else []
    return min(_pair(one.first_cuda) for one in (row, *family) if one is not None and (one is row or not one.jetson))


def _pair(text: str | None) -> tuple[int, int]:
    numbers = [int(part) for part in re.findall(r"\d+", text or "")[:2]]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else (0, 0)


def _arch_pair(arch: str) -> tuple[int, int]:
    digits = re.sub(r"\D", "", arch.partition("_")[2])
    return (int(digits[:-1] or 0), int(digits[-1])) if digits else (0, 0)


def _verdict(card: _Card, build: Code, tables: Tables, no_kernel: bool) -> tuple[str, bool] | None:
    """("new" | "old", certain) if this build has no code for the card; None if it has, or if nothing is known."""
    if card.kernel == "ok":
        return None
    row, cuda = tables.gpu(card.cc), _pair(build.cuda)
    if build.archs:
        runs = runs_on(build.archs, card.cc, build.cuda)
        if runs is True and no_kernel and runs_on(cubins(build.archs), card.cc, build.cuda) is False:
            return "new", False  # only PTX would serve it, and the program says that nothing did
        if runs is True or (runs is None and not no_kernel):
            return None
        pairs = [_arch_pair(arch) for arch in build.archs]
        if _pair(card.cc) < min(pairs):
            return "old", build.certain and runs is False
        late = row is not None and build.cuda is not None and _pair(row.first_cuda) > cuda
        between = _pair(card.cc) < max(pairs) and not late
        return ("family" if between else "new"), build.certain and runs is False
    if row is None or build.cuda is None:
        return None
    first = _first_cuda(card.cc, tables)
    if first is not None and first > cuda:
        return "new", no_kernel
    if row.last_cuda and _pair(row.last_cuda) < cuda:
        return "old", True
    return None


def cubins(archs: tuple[str, ...]) -> tuple[str, ...]:
    """The machine code of an architecture list, without the PTX that a driver would have to compile."""
    return tuple(arch for arch in archs if arch.startswith("sm_"))


def _judge(
    wanted: tuple[str, ...],
    rule: str,
    cards: list[_Card],
    build: Code,
    symptoms: SymptomsFacts | Missing,
    tables: Tables,
    missing: Unknown | None,
) -> Answer:
    lines = mentioning(symptoms, NO_KERNEL, "not compatible with the current PyTorch", "no longer supports this GPU")
    found = [(card, _verdict(card, build, tables, bool(lines) or NO_KERNEL in card.error)) for card in cards]
    bad = [(card, verdict) for card, verdict in found if verdict is not None and verdict[0] in wanted]
    told = said(symptoms, rule)
    if not bad:
        # the text alone decides only where no fact can be set against it
        too_old = tuple(match for match in told if "no longer supports" in match.text or "too old" in match.text)
        if rule == "gpu-too-old-for-torch" and too_old and all(card.kernel != "ok" and _pair(card.cc) < (5, 0) for card in cards):
            values: dict[str, object] = {"gpu": cards[0].name, "cc": cards[0].cc} if cards else {"gpu": "this GPU", "cc": None}
            return Hit(values, quoted(too_old), variant="text")
        if told and not build.archs and not any(card.kernel == "ok" for card in cards) and _age_fits(wanted, cards):
            values = {"gpu": cards[0].name, "cc": cards[0].cc} if cards else {"gpu": "this GPU", "cc": None}
            return Hit(values, quoted(told), (TorchBuild(),), variant="text", confidence=Confidence.LIKELY)
        return None if cards else missing
    card, kind = bad[0][0], bad[0][1][0]
    certain = any(verdict[1] for _, verdict in bad)
    row = tables.gpu(card.cc)
    names = ", ".join(dict.fromkeys(one.name for one, _ in bad))
    values = {
        "gpu": names,
        "cc": card.cc,
        "sm": "sm_" + card.cc.replace(".", ""),
        "archs": " ".join(build.archs or ()) or f"what CUDA {build.cuda} can compile for",
        "source": build.source,
        "cuda": build.cuda,
        "first_cuda": row.first_cuda if row else None,
        "last_cuda": row.last_cuda if row and row.last_cuda else None,
    }
    good = [one for one in cards if all(one is not other for other, _ in bad)]
    evidence = tuple(Evidence(f"kernel on {one.name}", one.error) for one, _ in bad if one.error) + quoted(lines)
    fixes: tuple[TorchBuild | SetEnv, ...] = (TorchBuild(),)
    if good and good[0].uuid:
        chosen = ",".join(one.uuid for one in good if one.uuid)
        fixes = (SetEnv("CUDA_VISIBLE_DEVICES", chosen, "only the GPUs that this build has code for"), *fixes)
    known_variant = "family" if kind == "family" else None if build.archs else "toolkit"
    severity = Severity.WARNING if good else None
    return Hit(values, evidence, fixes, variant=known_variant, severity=severity, confidence=None if certain else Confidence.LIKELY)


def _age_fits(wanted: tuple[str, ...], cards: list[_Card]) -> bool:
    """Where nothing is known of the build: what came with Turing or later was too new for some, only what precedes it was ever dropped."""
    if not cards:
        return True
    return any(_pair(card.cc) < (7, 5) for card in cards) if "old" in wanted else any(_pair(card.cc) >= (7, 5) for card in cards)


@check(sees_missing=("system", "gpus", "visibility", "torch", "devices", "symptoms"))
def gpu_too_new_for_torch(
    system: SystemFacts | Missing,
    gpus: GpusFacts | Missing,
    visibility: VisibilityFacts | Missing,
    torch: TorchFacts | Missing,
    devices: DevicesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
    tables: Tables,
) -> Answer:
    """No cubin and no PTX of the build serves a GPU that came after it, or that is a family of its own."""
    if for_rocm(torch):
        return None
    cards = _cards(gpus, visibility, devices, symptoms, tables)
    build, missing = code_of_build(torch, system, symptoms, tables), trouble(gpus, "gpus") or trouble(torch, "torch")
    return _judge(("new", "family"), "gpu-too-new-for-torch", cards, build, symptoms, tables, missing)


@check(sees_missing=("system", "gpus", "visibility", "torch", "devices", "symptoms"))
def gpu_too_old_for_torch(
    system: SystemFacts | Missing,
    gpus: GpusFacts | Missing,
    visibility: VisibilityFacts | Missing,
    torch: TorchFacts | Missing,
    devices: DevicesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
    tables: Tables,
) -> Answer:
    """The build starts above this GPU's compute capability."""
    if for_rocm(torch):
        return None
    cards = _cards(gpus, visibility, devices, symptoms, tables)
    build, missing = code_of_build(torch, system, symptoms, tables), trouble(gpus, "gpus") or trouble(torch, "torch")
    return _judge(("old",), "gpu-too-old-for-torch", cards, build, symptoms, tables, missing)


def _process_list(gpu: Gpu) -> str:
    return ", ".join(f"{one.name or 'process'} ({one.pid})" for one in gpu.processes[:4]) or "processes that are not shown here"


def _free(gpus: tuple[Gpu, ...]) -> str | None:
    """GPUs that nobody uses, as CUDA_VISIBLE_DEVICES takes them; numbers only where CUDA counts as nvidia-smi does."""
    open_ones = [gpu for gpu in gpus if not (gpu.processes or gpu.mig or gpu.error or gpu.compute_mode == "Prohibited")]
    unused = [gpu for gpu in open_ones if gpu.memory_bytes and (gpu.memory_free_bytes or 0) > gpu.memory_bytes * 9 // 10]
    if all(gpu.uuid for gpu in unused):
        return ",".join(gpu.uuid or "" for gpu in unused) or None
    return ",".join(str(gpu.index) for gpu in unused) if len({gpu.name for gpu in gpus}) == 1 else None


def size(number: int) -> str:
    """ "512 MiB", "23.5 GiB"."""
    if number < 1 << 20:
        return f"{number >> 10} KiB"
    return f"{number / _GIB:.1f} GiB" if number >= _GIB else f"{number >> 20} MiB"


@check(sees_missing=("gpus", "visibility", "symptoms"))
def gpu_busy(gpus: GpusFacts | Missing, visibility: VisibilityFacts | Missing, symptoms: SymptomsFacts | Missing) -> Answer:
    """Other processes hold most of a GPU's memory. Integrated GPUs, whose memory is the machine's, are left out."""
    told = said(symptoms, "gpu-busy")
    seen = visible(gpus, visibility)
    for gpu in seen:
        total, free = gpu.memory_bytes, gpu.memory_free_bytes
        if not total or free is None or (not gpu.processes and (gpu.memory_used_bytes or 0) <= total // 2):
            continue
        values: dict[str, object] = {"gpu": f"GPU {gpu.index} ({gpu.name})", "free": size(free), "total": size(total)}
        values |= {"processes": _process_list(gpu), "unused": _free(seen)}
        if free < max(_GIB, total // 10) and free < total // 2:
            return Hit(values, quoted(told))
        if free < total // 2:
            return Hit(values, quoted(told), variant="half", severity=Severity.INFO)
    if held := tuple(match for match in told if match.symptom == "memory-held-at-start"):
        return Hit({}, quoted(held), variant="start", confidence=Confidence.LIKELY)
    if told:
        return Hit({"pid": value(told, "pid") or "another", "memory": value(told, "memory") or "memory"}, quoted(told), variant="text")
    return trouble(gpus, "gpus")


@check(sees_missing=("gpus", "visibility", "cuda_driver", "devices", "symptoms"))
def gpu_exclusive_mode(
    gpus: GpusFacts | Missing,
    visibility: VisibilityFacts | Missing,
    cuda_driver: CudaDriverFacts | Missing,
    devices: DevicesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Answer:
    """Compute mode: one process a GPU, or none at all."""
    told = said(symptoms, "gpu-exclusive-mode")
    seen = visible(gpus, visibility)
    closed = [gpu for gpu in seen if gpu.compute_mode == "Prohibited"]
    one_only = [gpu for gpu in seen if (gpu.compute_mode or "").startswith("Exclusive")]
    named = ", ".join(f"GPU {gpu.index}" for gpu in closed or one_only) or "the GPU"
    refused = cuda_code(devices, cuda_driver) == DEVICES_UNAVAILABLE or bool(told)
    numbers = ",".join(str(gpu.index) for gpu in closed or one_only) or None
    values = {"gpus": named, "numbers": numbers, "mode": (closed or one_only or [Gpu(0)])[0].compute_mode}
    if closed:
        all_closed = len(closed) == len(seen) and not works(devices)
        return Hit(values, quoted(told), variant="prohibited", severity=Severity.ERROR if all_closed else Severity.WARNING)
    if one_only:
        held = [gpu for gpu in one_only if gpu.processes]
        if refused or (held and fails(devices)):
            return Hit(values, quoted(told), variant="held", severity=Severity.ERROR)
        return Hit(values, severity=Severity.INFO)
    if refused and not works(devices) and all(gpu.compute_mode is None for gpu in seen):
        # a vGPU without its licence and a card in a bad state answer the same
        return Hit(values, quoted(told), variant="text", severity=Severity.WARNING, confidence=Confidence.LIKELY)
    return trouble(gpus, "gpus")


@check(sees_missing=("gpus", "visibility", "cuda_driver", "devices", "symptoms"))
def gpu_mig(
    gpus: GpusFacts | Missing,
    visibility: VisibilityFacts | Missing,
    cuda_driver: CudaDriverFacts | Missing,
    devices: DevicesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Answer:
    """MIG: a process sees one instance at most, and none where none was created."""
    told = said(symptoms, "gpu-mig")
    partitioned = [gpu for gpu in listed(gpus) if gpu.mig or gpu.mig_devices or " MIG " in f" {gpu.name or ''} "]
    slices = [one for one in torch_devices(devices) if " MIG " in f" {one.name or ''} "]
    if not partitioned and not slices:
        if holding(told, "no MIG devices were found"):
            return Hit({"gpus": "a GPU", "instances": 0}, quoted(told), variant="empty", severity=Severity.ERROR)
        if told and not (listed(gpus) and all(gpu.mig is False for gpu in listed(gpus))):  # the text fits other things too
            return Hit({"gpus": "a GPU"}, quoted(told), variant="refused", severity=Severity.ERROR, confidence=Confidence.LIKELY)
        return trouble(gpus, "gpus")
    instances = sum(max(1, len(gpu.mig_devices)) for gpu in partitioned) or len(slices)
    values: dict[str, object] = {"gpus": ", ".join(gpu.name or f"GPU {gpu.index}" for gpu in partitioned) or slices[0].name}
    values |= {"instances": instances, "numbers": ",".join(str(gpu.index) for gpu in partitioned) or None}
    values["instance"] = next((name for gpu in partitioned for name in gpu.mig_devices if name.startswith("MIG-")), None)
    refused = told + mentioning(symptoms, "invalid device ordinal", "device >= 0 && device < num_gpus", "busy or unavailable")
    if refused:
        return Hit(values, quoted(refused), variant="refused", severity=Severity.ERROR)
    empty = [gpu for gpu in partitioned if gpu.mig and not gpu.mig_devices]
    unusable = fails(devices) or cuda_code(devices, cuda_driver) == NO_DEVICE or bool(mentioning(symptoms, "No CUDA GPUs are available"))
    if empty and len(empty) == len(listed(gpus)) and unusable and not driver_answers(cuda_driver):
        return Hit(values, variant="empty", severity=Severity.ERROR)
    chosen = None if isinstance(visibility, Missing) else visibility.cuda_visible_devices
    if instances > 1 and not (chosen or "").startswith("MIG-"):
        return Hit(values, variant="many", severity=Severity.WARNING)
    return Hit(values, severity=Severity.INFO)


CHECKS = (gpu_too_new_for_torch, gpu_too_old_for_torch, gpu_busy, gpu_exclusive_mode, gpu_mig)
