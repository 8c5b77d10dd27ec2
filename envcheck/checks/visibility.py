"""CUDA_VISIBLE_DEVICES and its relatives, as the driver reads them."""

from __future__ import annotations

from envcheck.checks.answer import absent, cuda_code, fails, listed, nvidia_on_bus, torch_devices, trouble, wants_cuda, works
from envcheck.checks.hardware import nvidia
from envcheck.checks.text import alone, mentioning, quoted, said
from envcheck.engine.intents import SetEnv
from envcheck.engine.rule import Answer, Confidence, Evidence, Hit, Severity, check
from envcheck.facts import cuda_codes
from envcheck.facts.cuda_visible_devices import Problem, Selection, read_visible
from envcheck.facts.snapshot import (
    ContainerFacts,
    CudaDriverFacts,
    DevicesFacts,
    DriverFacts,
    Gpu,
    GpusFacts,
    Missing,
    SymptomsFacts,
    SystemFacts,
    TextEvidence,
    TorchFacts,
    VisibilityFacts,
)

NAME = "CUDA_VISIBLE_DEVICES"
_NO_GPUS = (
    "No CUDA GPUs are available",
    "no CUDA-capable device is detected",
    "But your machine only has: []",
    "No supported gpu backend found",
    "`CUDAAccelerator` can not run",
    "is only supported with GPUs, no GPUs found",
    "there are no visible CUDA devices",
    "no GPU resources available",
)
_SHOWS = "unset shows every GPU; set to nothing shows none"
_ASKED = ("but this machine only has", "exceeds available GPUs in", "less than the number of accelerators available")
_BEYOND = ("invalid device ordinal", "Invalid device id", "But your machine only has: [", "specified on host '", *_ASKED)


def _range(gpus: tuple[Gpu, ...]) -> str:
    if not gpus:
        return "unknown here"
    return "0 only" if len(gpus) == 1 else f"0 to {len(gpus) - 1}"


def _values(visibility: VisibilityFacts, gpus: tuple[Gpu, ...], chosen: Selection) -> dict[str, object]:
    return {
        "value": visibility.cuda_visible_devices,
        "entry": chosen.stopped_at,
        "count": len(gpus) or None,
        "range": _range(gpus),
        "kept": chosen.count,
        "lost": ",".join(chosen.lost),
    }


def _evidence(visibility: VisibilityFacts, gpus: tuple[Gpu, ...]) -> tuple[Evidence, ...]:
    found = [Evidence(NAME, repr(visibility.cuda_visible_devices))]
    return (*found, Evidence("GPUs", ", ".join(f"{gpu.index}: {gpu.name or gpu.uuid}" for gpu in gpus[:8]))) if gpus else tuple(found)


def _blind(devices: DevicesFacts | Missing, symptoms: SymptomsFacts | Missing) -> bool:
    """A program found no device, and no other error is on record."""
    if not isinstance(devices, Missing) and devices.error_code not in (None, cuda_codes.NO_DEVICE, cuda_codes.INVALID_DEVICE):
        return False
    return fails(devices) or bool(mentioning(symptoms, *_NO_GPUS))


def _without_gpu(
    driver: DriverFacts | Missing, gpus: GpusFacts | Missing, system: SystemFacts | Missing, torch: TorchFacts | Missing
) -> bool:
    """Nothing is there that the variable could hide, or torch could not use it anyway."""
    nothing = (absent(gpus) or absent(driver)) and not nvidia_on_bus(system)
    return nothing or (wants_cuda(torch) is False and not isinstance(torch, Missing))


def _read(visibility: VisibilityFacts, gpus: GpusFacts | Missing) -> tuple[tuple[Gpu, ...], Selection]:
    devices = listed(gpus)
    return devices, read_visible(visibility.cuda_visible_devices, devices, visibility.cuda_device_order)


def _unset(note: str) -> tuple[SetEnv, ...]:
    return (SetEnv(NAME, None, note),)


def _first_ones(gpus: tuple[Gpu, ...]) -> tuple[SetEnv, ...]:
    if not gpus:
        return _unset("then every GPU is visible")
    return (SetEnv(NAME, ",".join(str(number) for number in range(len(gpus))), "or unset it: every GPU is visible then"),)


@check(sees_missing=("system", "driver", "gpus", "torch", "devices", "symptoms"))
def visible_devices_empty(
    system: SystemFacts | Missing,
    driver: DriverFacts | Missing,
    gpus: GpusFacts | Missing,
    visibility: VisibilityFacts,
    torch: TorchFacts | Missing,
    devices: DevicesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Answer:
    """Set to nothing, to -1 or to NoDevFiles: every GPU is hidden, on purpose or by a launcher."""
    if works(devices) or torch_devices(devices):
        return None
    asked = mentioning(symptoms, *_NO_GPUS)
    if fails(devices) and not isinstance(torch, Missing) and torch.hip:
        return _hidden_from_rocm(visibility, bool(asked))
    if visibility.cuda_visible_devices is None or _without_gpu(driver, gpus, system, torch):
        return None
    found, chosen = _read(visibility, gpus)
    if chosen.problem not in (Problem.EMPTY, Problem.HIDDEN):
        return None
    known = bool(found) or bool(nvidia_on_bus(system)) or _blind(devices, symptoms)
    values = _values(visibility, found, chosen) | {"name": NAME}
    evidence, confidence = (*_evidence(visibility, found), *quoted(asked)), None if known else Confidence.LIKELY
    if chosen.stopped_at == "NoDevFiles":
        return Hit(values, evidence, variant="scheduler", confidence=confidence)
    variant, severity = _intention(chosen.problem is Problem.HIDDEN, bool(asked))
    return Hit(values, evidence, _unset(_SHOWS), variant=variant, severity=severity, confidence=confidence)


def _intention(deliberate: bool, asked: bool) -> tuple[str | None, Severity | None]:
    """Who writes -1 means the CPU: what follows from it works as meant, unless a program asked for a GPU all the same."""
    if not deliberate:
        return None, None
    return ("asked", None) if asked else ("hidden", Severity.WARNING)


def _hidden_from_rocm(visibility: VisibilityFacts, asked: bool) -> Hit | None:
    """HIP reads CUDA_VISIBLE_DEVICES where its own variable is not set; ROCr's own applies before either."""
    own = visibility.hip_visible_devices
    first = (NAME, visibility.cuda_visible_devices) if own is None else ("HIP_VISIBLE_DEVICES", own)
    for name, raw in (first, ("ROCR_VISIBLE_DEVICES", visibility.rocr_visible_devices)):
        problem = Problem.NONE if raw is None else read_visible(raw, ()).problem
        if problem in (Problem.EMPTY, Problem.HIDDEN):
            if (raw or "").strip() == "NoDevFiles":
                return Hit({"name": name, "value": raw}, (Evidence(name, repr(raw)),), variant="scheduler")
            variant, severity = _intention(problem is Problem.HIDDEN, asked)
            fix = SetEnv(name, None, _SHOWS)
            return Hit({"name": name, "value": raw}, (Evidence(name, repr(raw)),), (fix,), variant=variant, severity=severity)
    return None


@check(sees_missing=("system", "driver", "gpus", "visibility", "torch", "devices", "container", "symptoms"))
def visible_devices_out_of_range(
    system: SystemFacts | Missing,
    driver: DriverFacts | Missing,
    gpus: GpusFacts | Missing,
    visibility: VisibilityFacts | Missing,
    torch: TorchFacts | Missing,
    devices: DevicesFacts | Missing,
    container: ContainerFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Answer:
    """The list starts with a GPU that is not there, so that none is left; or a program asks for one beyond the list."""
    beyond = tuple(match for match in mentioning(symptoms, *_BEYOND) if "only has: []" not in match.text)
    if beyond and not any(gpu.mig or " MIG " in f" {gpu.name or ''} " for gpu in listed(gpus)):
        shown = "unset" if isinstance(visibility, Missing) else visibility.cuda_visible_devices
        whole = isinstance(visibility, Missing) or _read(visibility, gpus)[1].problem in (Problem.NONE, Problem.UNKNOWN)
        if whole:
            return Hit({"value": "unset" if shown is None else shown}, quoted(beyond), variant="ordinal")
    if isinstance(visibility, Missing):
        return trouble(visibility, "visibility")
    if visibility.cuda_visible_devices is None or works(devices) or _without_gpu(driver, gpus, system, torch):
        return None
    found, chosen = _read(visibility, gpus)
    values, evidence = _values(visibility, found, chosen), _evidence(visibility, found)
    if chosen.problem is Problem.OUT_OF_RANGE:
        return Hit(values, evidence, _first_ones(found), variant=None if isinstance(container, Missing) else "container")
    first = visibility.cuda_visible_devices.split(",")[0].strip().lstrip("+")
    if not found and first.isdecimal() and int(first) > 0 and _blind(devices, symptoms):
        told = mentioning(symptoms, *_NO_GPUS)
        values |= {"entry": first}
        return Hit(values, (*evidence, *quoted(told)), _unset("then every GPU is visible"), variant="guess", confidence=Confidence.LIKELY)
    return None


@check(sees_missing=("gpus",))
def visible_devices_truncated(gpus: GpusFacts | Missing, visibility: VisibilityFacts) -> Answer:
    """Reading stops at the first entry that is no GPU; those after it are lost without a word."""
    found, chosen = _read(visibility, gpus)
    if chosen.problem is not Problem.TRUNCATED:
        return None
    mig = chosen.lost[:1] != () and (visibility.cuda_visible_devices or "").startswith("MIG-")
    # "0,1,-1" says where the list ends; with GPUs after it, "-1" was hardly meant to hide them
    deliberate = (chosen.stopped_at or "").strip().startswith("-") and len(chosen.lost) == 1
    values, evidence = _values(visibility, found, chosen), _evidence(visibility, found)
    if deliberate:
        return Hit(values, evidence, severity=Severity.INFO)
    first = (visibility.cuda_visible_devices or "").split(",")[0]
    return Hit(values | {"instance": first}, evidence, variant="mig") if mig else Hit(values, evidence, _first_ones(found))


@check(sees_missing=("gpus", "devices"))
def visible_devices_duplicate(gpus: GpusFacts | Missing, visibility: VisibilityFacts, devices: DevicesFacts | Missing) -> Answer:
    """One GPU named twice: CUDA initialisation fails with error 101."""
    found, chosen = _read(visibility, gpus)
    if chosen.problem is not Problem.DUPLICATE:
        return None
    entries = [entry.strip() for entry in (visibility.cuda_visible_devices or "").split(",")]
    once = SetEnv(NAME, ",".join(dict.fromkeys(entries)), "each GPU once")
    values, evidence = _values(visibility, found, chosen), _evidence(visibility, found)
    if works(devices):
        return Hit(values, evidence, (once,), variant="works", severity=Severity.WARNING)
    return Hit(values, evidence, (once,))


@check(sees_missing=("system", "driver", "gpus", "visibility", "torch", "devices", "symptoms"))
def visible_devices_unreadable(
    system: SystemFacts | Missing,
    driver: DriverFacts | Missing,
    gpus: GpusFacts | Missing,
    visibility: VisibilityFacts | Missing,
    torch: TorchFacts | Missing,
    devices: DevicesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Answer:
    """The list starts with something that is no device, or a program on top of CUDA cannot read a legal one."""
    told = alone(symptoms, "visible-devices-unreadable")
    names = [match for match in told + mentioning(symptoms, "invalid literal for int()") if _is_device_name(match)]
    if names:
        entry = names[0].text.partition("base 10:")[2].strip(" '\"") or "a UUID"
        raw = None if isinstance(visibility, Missing) else visibility.cuda_visible_devices
        number = _number_of(entry, listed(gpus), visibility)
        return Hit({"value": raw or entry, "entry": entry, "number": number}, quoted(tuple(names)), variant="program")
    if isinstance(visibility, Missing) or visibility.cuda_visible_devices is None:
        return Hit({"value": "unknown", "entry": "unknown"}, quoted(told), variant="text") if told else None
    if works(devices) or _without_gpu(driver, gpus, system, torch):
        return None
    found, chosen = _read(visibility, gpus)
    if chosen.problem is not Problem.UNREADABLE:
        return None
    values = _values(visibility, found, chosen) | {"entry": chosen.stopped_at or "an empty entry"}
    quotes = '"' in (chosen.stopped_at or "") or "'" in (chosen.stopped_at or "")
    known = bool(found) or _blind(devices, symptoms)
    evidence = (*_evidence(visibility, found), *quoted(told))
    variant = "quotes" if quotes else None
    return Hit(values, evidence, _first_ones(found), variant=variant, confidence=None if known else Confidence.LIKELY)


def _number_of(entry: str, gpus: tuple[Gpu, ...], visibility: VisibilityFacts | Missing) -> str | None:
    """The number of the GPU that an entry names, where CUDA counts as nvidia-smi does."""
    order = None if isinstance(visibility, Missing) else visibility.cuda_device_order
    chosen = read_visible(entry, gpus)
    alike = order == "PCI_BUS_ID" or len({gpu.name for gpu in gpus}) == 1
    return str(chosen.indices[0]) if alike and gpus and chosen.indices and entry.startswith("GPU-") else None


def _is_device_name(match: TextEvidence) -> bool:
    return "invalid literal for int()" in match.text and ("'GPU-" in match.text or "'MIG-" in match.text)


@check(sees_missing=("devices", "symptoms"))
def visible_devices_order(
    gpus: GpusFacts, visibility: VisibilityFacts, devices: DevicesFacts | Missing, symptoms: SymptomsFacts | Missing
) -> Answer:
    """Different GPU models: CUDA counts the fastest first, nvidia-smi by PCI bus."""
    usable = nvidia(gpus)  # CUDA leaves out a GPU that is lost or wants a reset
    models = {gpu.name for gpu in usable if gpu.name}
    if len(models) < 2 or visibility.cuda_device_order == "PCI_BUS_ID" or fails(devices):
        return None
    raw = visibility.cuda_visible_devices
    asked = torch_devices(devices)
    fix = (SetEnv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", "CUDA then counts as nvidia-smi does"),)
    values: dict[str, object] = {"value": raw or "unset", "models": ", ".join(sorted(name for name in models if name))}
    if raw is not None and raw.startswith(("GPU-", "MIG-")):
        return None
    if asked and raw is None:
        moved = [(one, gpu) for one, gpu in zip(asked, usable, strict=False) if not _same(one.name, one.uuid, gpu)]
        if not moved:
            return None
        one, gpu = moved[0]
        values |= {"index": one.index, "cuda": one.name, "smi": gpu.name}
        return Hit(values, (), fix, variant="moved")
    if raw is not None and asked and not any(entry.strip().isdecimal() for entry in raw.split(",")):
        return None
    return Hit(values, quoted(said(symptoms, "visible-devices-order")), fix, confidence=Confidence.LIKELY)


def _same(name: str | None, uuid: str | None, gpu: Gpu) -> bool:
    if uuid and gpu.uuid:
        return uuid.removeprefix("GPU-") == gpu.uuid.removeprefix("GPU-")
    return name is None or gpu.name is None or name == gpu.name


@check(sees_missing=("gpus", "visibility", "cuda_driver", "devices", "symptoms"))
def visible_devices_too_late(
    gpus: GpusFacts | Missing,
    visibility: VisibilityFacts | Missing,
    cuda_driver: CudaDriverFacts | Missing,
    devices: DevicesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Answer:
    """More devices than the variable selects: CUDA was initialised before it was set. Torch's hint under error 999 is a guess."""
    told = said(symptoms, "visible-devices-too-late")
    if told and cuda_code(devices, cuda_driver) != cuda_codes.UNKNOWN and not any("CUDA unknown error" in match.text for match in told):
        raw = None if isinstance(visibility, Missing) else visibility.cuda_visible_devices
        return Hit({"value": raw or None, "seen": "other"}, quoted(told), variant="text", confidence=Confidence.LIKELY)
    if isinstance(visibility, Missing) or isinstance(devices, Missing) or not works(devices) or visibility.cuda_visible_devices is None:
        return None
    found, chosen = _read(visibility, gpus)
    mig = any(gpu.mig for gpu in found)
    if chosen.problem is Problem.DUPLICATE:
        return None  # that rule speaks of it
    if mig or not found or chosen.count is None or devices.count is None or devices.count <= chosen.count:
        return None
    return Hit({"value": visibility.cuda_visible_devices, "seen": devices.count, "kept": chosen.count}, _evidence(visibility, found))


CHECKS = (
    visible_devices_empty,
    visible_devices_out_of_range,
    visible_devices_truncated,
    visible_devices_duplicate,
    visible_devices_unreadable,
    visible_devices_order,
    visible_devices_too_late,
)
