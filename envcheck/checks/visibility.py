"""CUDA_VISIBLE_DEVICES and its relatives, as the driver reads them."""

from __future__ import annotations

from envcheck.checks.answer import contained, cuda_code, fails, nvidia_on_bus, wants_cuda, works
from envcheck.checks.hardware import is_mig, nvidia
from envcheck.checks.launch_sums import ranks_beyond_gpus
from envcheck.checks.text import of_symptom, of_variant, quoted, value
from envcheck.engine.intents import SetEnv
from envcheck.engine.rule import Answer, Confidence, Evidence, Facts, Hit, Matches, Severity, check
from envcheck.facts import cuda_codes
from envcheck.facts.cuda_visible_devices import Problem, Selection, read_visible
from envcheck.facts.snapshot import Gpu, VisibilityFacts

NAME = "CUDA_VISIBLE_DEVICES"
_SHOWS = "unset shows every GPU; set to nothing shows none"


def _values(visibility: VisibilityFacts, gpus: tuple[Gpu, ...], chosen: Selection) -> dict[str, object]:
    return {
        "value": visibility.cuda_visible_devices,
        "entry": chosen.stopped_at,
        "count": len(gpus) or None,
        "range": f"0 to {len(gpus) - 1}" if len(gpus) > 1 else "0 only" if gpus else "unknown here",
        "kept": chosen.count,
        "lost": ",".join(chosen.lost),
    }


def _evidence(visibility: VisibilityFacts, gpus: tuple[Gpu, ...]) -> tuple[Evidence, ...]:
    return (Evidence(NAME, repr(visibility.cuda_visible_devices)), *_listed(gpus))


def _listed(gpus: tuple[Gpu, ...]) -> tuple[Evidence, ...]:
    return (Evidence("GPUs", ", ".join(f"{gpu.index}: {gpu.name or gpu.uuid}" for gpu in gpus[:8])),) if gpus else ()


def _found_none(facts: Facts) -> Matches:
    """What programs said that asked for a GPU and found none."""
    return of_symptom(facts, "no-cuda-gpus", "framework-sees-no-gpu")


def _blind(facts: Facts) -> bool:
    """A program found no device, and no other error is on record."""
    found_none = fails(facts.devices) or bool(_found_none(facts))
    return found_none and facts.devices.error_code in (None, cuda_codes.NO_DEVICE, cuda_codes.INVALID_DEVICE)


def _without_gpu(facts: Facts) -> bool:
    """Nothing is there that the variable could hide, or torch could not use it anyway."""
    return (bool(facts.absent & {"gpus", "driver"}) and not nvidia_on_bus(facts.system)) or wants_cuda(facts.torch) is False


def _read(facts: Facts) -> tuple[tuple[Gpu, ...], Selection]:
    return facts.gpus.devices, read_visible(facts.visibility.cuda_visible_devices, facts.gpus.devices, facts.visibility.cuda_device_order)


def _first_ones(gpus: tuple[Gpu, ...]) -> tuple[SetEnv, ...]:
    if not gpus:
        return (SetEnv(NAME, None, "then every GPU is visible"),)
    return (SetEnv(NAME, ",".join(str(number) for number in range(len(gpus))), "or unset it: every GPU is visible then"),)


@check(needs="visibility", reads="system gpus visibility torch devices symptoms")
def visible_devices_empty(facts: Facts) -> Answer:
    """Set to nothing, to -1 or to NoDevFiles: every GPU is hidden, on purpose or by a launcher."""
    gpus, visibility, devices = facts.gpus, facts.visibility, facts.devices
    if works(devices) or devices.devices:
        return None
    rocm = fails(devices) and bool(facts.torch.hip)
    if not rocm and _without_gpu(facts):
        return None
    variables = _rocm_variables(visibility) if rocm else ((NAME, visibility.cuda_visible_devices),)
    problems = ((name, raw, read_visible(raw, gpus.devices, visibility.cuda_device_order).problem) for name, raw in variables)
    name, raw, problem = next((one for one in problems if one[2] in (Problem.EMPTY, Problem.HIDDEN)), (NAME, None, None))
    if problem is None:
        return None
    asked = _found_none(facts)
    known = rocm or gpus.devices or nvidia_on_bus(facts.system) or _blind(facts)
    confidence = None if known else Confidence.LIKELY
    evidence = (Evidence(name, repr(raw)), *_listed(gpus.devices), *quoted(asked))
    if (raw or "").strip() == "NoDevFiles":
        return Hit({"name": name, "value": raw}, evidence, variant="scheduler", confidence=confidence)
    variant, severity = None, None
    if problem is Problem.HIDDEN:  # who writes -1 means the CPU, unless a program asked for a GPU all the same
        variant, severity = ("asked", None) if asked else ("hidden", Severity.WARNING)
    return Hit({"name": name, "value": raw}, evidence, (SetEnv(name, None, _SHOWS),), variant, severity, confidence)


def _rocm_variables(visibility: VisibilityFacts) -> tuple[tuple[str, str | None], ...]:
    """HIP reads CUDA_VISIBLE_DEVICES where its own variable is not set; ROCr's own applies before either."""
    own = visibility.hip_visible_devices
    first = (NAME, visibility.cuda_visible_devices) if own is None else ("HIP_VISIBLE_DEVICES", own)
    return first, ("ROCR_VISIBLE_DEVICES", visibility.rocr_visible_devices)


@check(needs="visibility", reads="system gpus launcher visibility torch devices container symptoms asked")
def visible_devices_out_of_range(facts: Facts, matches: Matches) -> Answer:
    """The list starts with a GPU that is not there, so that none is left; or a program asks for one beyond the list."""
    visibility, devices, asked = facts.visibility, facts.devices, facts.asked
    raw, (found, chosen) = visibility.cuda_visible_devices, _read(facts)
    if devices.available and devices.count and asked.device is not None and asked.device >= devices.count:
        values: dict[str, object] = {"value": "not stated" if raw is None else raw}
        return Hit(values, (Evidence("asked for", asked.cuda or f"device {asked.device}"),), variant="ordinal")
    beyond = of_variant(matches, "ordinal")
    mig = any(gpu.mig or is_mig(gpu.name) for gpu in facts.gpus.devices)
    if beyond and not mig and chosen.problem in (Problem.NONE, Problem.UNKNOWN):
        started = ranks_beyond_gpus(facts, beyond)
        unset = "not stated" if "visibility" in facts.missing else "unset"
        return started or Hit({"value": unset if raw is None else raw}, quoted(beyond), variant="ordinal")
    if raw is None or works(devices) or _without_gpu(facts):
        return None
    values, evidence = _values(visibility, found, chosen), _evidence(visibility, found)
    if chosen.problem is Problem.OUT_OF_RANGE:
        return Hit(values, evidence, _first_ones(found), variant="container" if contained(facts.container) else None)
    first = raw.split(",")[0].strip().lstrip("+")
    if not found and first.isdecimal() and int(first) > 0 and _blind(facts):
        evidence += quoted(_found_none(facts))
        return Hit(values | {"entry": first}, evidence, _first_ones(()), variant="guess", confidence=Confidence.LIKELY)
    return None


@check(needs="visibility", reads="gpus visibility")
def visible_devices_truncated(facts: Facts) -> Answer:
    """Reading stops at the first entry that is no GPU; those after it are lost without a word."""
    found, chosen = _read(facts)
    if chosen.problem is not Problem.TRUNCATED:
        return None
    # "0,1,-1" says where the list ends; with GPUs after it, "-1" was hardly meant to hide them
    deliberate = (chosen.stopped_at or "").strip().startswith("-") and len(chosen.lost) == 1
    values, evidence = _values(facts.visibility, found, chosen), _evidence(facts.visibility, found)
    if deliberate:
        return Hit(values, evidence, severity=Severity.INFO)
    first = (facts.visibility.cuda_visible_devices or "").split(",")[0]
    if chosen.lost and first.startswith("MIG-"):
        return Hit(values | {"instance": first}, evidence, variant="mig")
    return Hit(values, evidence, _first_ones(found))


@check(needs="visibility", reads="gpus visibility devices")
def visible_devices_duplicate(facts: Facts) -> Answer:
    found, chosen = _read(facts)
    if chosen.problem is not Problem.DUPLICATE:
        return None
    entries = [entry.strip() for entry in (facts.visibility.cuda_visible_devices or "").split(",")]
    once = SetEnv(NAME, ",".join(dict.fromkeys(entries)), "each GPU once")
    values, evidence = _values(facts.visibility, found, chosen), _evidence(facts.visibility, found)
    variant, severity = ("works", Severity.WARNING) if works(facts.devices) else (None, None)
    return Hit(values, evidence, (once,), variant, severity)


@check(needs="visibility", reads="system gpus visibility torch devices symptoms")
def visible_devices_unreadable(facts: Facts, matches: Matches) -> Answer:
    """The list starts with something that is no device, or a program on top of CUDA cannot read a legal one."""
    raw = facts.visibility.cuda_visible_devices
    if names := of_variant(matches, "program"):
        entry = value(names, "entry") or "a UUID"
        number = _number_of(entry, facts.gpus.devices, facts.visibility)
        return Hit({"value": raw or entry, "entry": entry, "number": number}, quoted(names), variant="program")
    if raw is None or works(facts.devices) or _without_gpu(facts):
        return None
    found, chosen = _read(facts)
    if chosen.problem is not Problem.UNREADABLE:
        return None
    values = _values(facts.visibility, found, chosen) | {"entry": chosen.stopped_at or "an empty entry"}
    variant = "quotes" if {'"', "'"} & set(chosen.stopped_at or "") else None
    confidence = None if found or _blind(facts) else Confidence.LIKELY
    return Hit(values, _evidence(facts.visibility, found), _first_ones(found), variant=variant, confidence=confidence)


def _number_of(entry: str, gpus: tuple[Gpu, ...], visibility: VisibilityFacts) -> str | None:
    """The number of the GPU that an entry names, where CUDA counts as nvidia-smi does."""
    chosen = read_visible(entry, gpus)
    alike = visibility.cuda_device_order == "PCI_BUS_ID" or len({gpu.name for gpu in gpus}) == 1
    return str(chosen.indices[0]) if alike and gpus and chosen.indices and entry.startswith("GPU-") else None


@check(needs="gpus visibility", reads="gpus visibility devices symptoms")
def visible_devices_order(facts: Facts, matches: Matches) -> Answer:
    """Different GPU models: CUDA counts the fastest first, nvidia-smi by PCI bus."""
    devices = facts.devices
    usable = nvidia(facts.gpus)  # CUDA leaves out a GPU that is lost or wants a reset
    models = {gpu.name for gpu in usable if gpu.name}
    raw = facts.visibility.cuda_visible_devices
    by_uuid = (raw or "").startswith(("GPU-", "MIG-"))
    if "visibility" in facts.missing or len(models) < 2 or facts.visibility.cuda_device_order == "PCI_BUS_ID" or fails(devices) or by_uuid:
        return None
    fix = (SetEnv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", "CUDA then counts as nvidia-smi does"),)
    values: dict[str, object] = {"value": raw or "unset", "models": ", ".join(sorted(models))}
    if devices.devices and raw is None:
        moved = [(one, gpu) for one, gpu in zip(devices.devices, usable, strict=False) if not _same(one.name, one.uuid, gpu)]
        if not moved:
            return None
        one, gpu = moved[0]
        return Hit(values | {"index": one.index, "cuda": one.name, "smi": gpu.name}, (), fix, variant="moved")
    if devices.devices and not any(entry.strip().isdecimal() for entry in (raw or "").split(",")):
        return None
    return Hit(values, quoted(matches), fix, confidence=Confidence.LIKELY)


def _same(name: str | None, uuid: str | None, gpu: Gpu) -> bool:
    if uuid and gpu.uuid:
        return uuid.removeprefix("GPU-") == gpu.uuid.removeprefix("GPU-")
    return name is None or gpu.name is None or name == gpu.name


@check(needs="visibility devices", reads="gpus visibility cuda_driver devices symptoms")
def visible_devices_too_late(facts: Facts, matches: Matches) -> Answer:
    """More devices than the variable selects: CUDA was initialised before it was set. Torch's hint under error 999 is a guess."""
    raw = facts.visibility.cuda_visible_devices
    unknown = cuda_code(facts) == cuda_codes.UNKNOWN or bool(of_symptom(facts, "cuda-999"))
    if matches and not unknown:
        return Hit({"value": raw or None, "seen": "other"}, quoted(matches), variant="text", confidence=Confidence.LIKELY)
    found, chosen = _read(facts)
    mig = any(gpu.mig for gpu in found)
    if raw is None or not works(facts.devices) or mig or not found or chosen.problem is Problem.DUPLICATE:  # of that another rule speaks
        return None
    if chosen.count is None or facts.devices.count is None or facts.devices.count <= chosen.count:
        return None
    return Hit({"value": raw, "seen": facts.devices.count, "kept": chosen.count}, _evidence(facts.visibility, found))
