"""CUDA_VISIBLE_DEVICES and its relatives, as the driver reads them."""

from __future__ import annotations

from envcheck.checks.answer import contained, cuda_code, fails, nvidia_on_bus, without_cuda, works
from envcheck.checks.hardware import is_mig, number, nvidia
from envcheck.checks.launch_sums import counted_elsewhere, ranks_beyond_gpus
from envcheck.checks.own_command import gpus_of_slurm
from envcheck.checks.text import cite, of_symptom, of_variant, quoted, value
from envcheck.engine.intents import Manual, SetEnv
from envcheck.engine.rule import Answer, Confidence, Evidence, Facts, Hit, Matches, Severity, check
from envcheck.facts import cuda_codes
from envcheck.facts.cuda_visible_devices import Problem, Selection, read_visible
from envcheck.facts.record import replace
from envcheck.facts.snapshot import Gpu, VisibilityFacts

NAME = "CUDA_VISIBLE_DEVICES"
_SHOWS = "unset shows every GPU; set to nothing shows none"


def _listed(gpus: tuple[Gpu, ...]) -> tuple[Evidence, ...]:
    return cite("GPUs", ", ".join(f"{gpu.index}: {gpu.name or gpu.uuid}" for gpu in gpus[:8]))


def _judged(facts: Facts) -> tuple[Selection, dict[str, object], tuple[Evidence, ...], tuple[SetEnv, ...]]:
    """What the variable chooses, with values, evidence and the fix that all rules of it share."""
    gpus, raw = facts.gpus.devices, facts.visibility.cuda_visible_devices
    chosen = read_visible(raw, gpus, facts.visibility.cuda_device_order)
    values: dict[str, object] = {
        "value": raw,
        "entry": chosen.stopped_at,
        "count": len(gpus) or None,
        "range": f"0 to {len(gpus) - 1}" if len(gpus) > 1 else "0 only" if gpus else "unknown here",
        "kept": chosen.count,
        "lost": ",".join(chosen.lost),
    }
    note = "or unset it: every GPU is visible then" if gpus else "then every GPU is visible"
    fix = SetEnv(NAME, ",".join(str(number) for number in range(len(gpus))) or None, note)
    return chosen, values, (Evidence(NAME, repr(raw)), *_listed(gpus)), (fix,)


def _found_none(facts: Facts) -> Matches:
    """What programs said that asked for a GPU and found none."""
    return of_symptom(facts, "no-cuda-gpus", "framework-sees-no-gpu")


def _blind(facts: Facts) -> bool:
    """A program found no device, and no other error is on record."""
    found_none = fails(facts.devices) or bool(_found_none(facts))
    return found_none and facts.devices.error_code in (None, cuda_codes.NO_DEVICE, cuda_codes.INVALID_DEVICE)


@check(needs="visibility", reads="system gpus visibility torch devices symptoms")
def visible_devices_empty(facts: Facts, matches: Matches) -> Answer:
    gpus, visibility, devices = facts.gpus, facts.visibility, facts.devices
    if works(devices) or devices.devices:
        return None
    rocm = fails(devices) and bool(facts.torch.hip)
    if not rocm and without_cuda(facts):
        return None
    variables = {NAME: visibility.cuda_visible_devices}
    if rocm:  # HIP reads CUDA_VISIBLE_DEVICES where its own variable is not set; ROCr's own applies before either
        own = visibility.hip_visible_devices
        variables = {"HIP_VISIBLE_DEVICES": own} if own is not None else variables
        variables["ROCR_VISIBLE_DEVICES"] = visibility.rocr_visible_devices
    problems = ((name, raw, read_visible(raw, gpus.devices, visibility.cuda_device_order).problem) for name, raw in variables.items())
    name, raw, problem = next((one for one in problems if one[2] in (Problem.EMPTY, Problem.HIDDEN)), (NAME, None, None))
    if problem is None:
        ray = of_variant(matches, "ray")
        return Hit({"name": NAME}, quoted(ray), variant="ray") if ray and visibility.cuda_visible_devices is None else None
    asked = _found_none(facts)
    known = rocm or gpus.devices or nvidia_on_bus(facts.system) or _blind(facts)
    evidence = (Evidence(name, repr(raw)), *_listed(gpus.devices), *quoted(asked))
    scheduler, hidden = (raw or "").strip() == "NoDevFiles", problem is Problem.HIDDEN
    # who writes -1 means the CPU, unless a program asked for a GPU all the same
    variant = "scheduler" if scheduler else ("asked" if asked else "hidden") if hidden else None
    fixes = () if scheduler else (SetEnv(name, None, _SHOWS),)
    return Hit({"name": name, "value": raw}, evidence, fixes, variant, confidence=None if known else Confidence.LIKELY)


@check(needs="visibility", reads="system gpus launcher visibility torch devices container symptoms asked")
def visible_devices_out_of_range(facts: Facts, matches: Matches) -> Answer:
    visibility, devices, asked = facts.visibility, facts.devices, facts.asked
    raw, found, (chosen, values, evidence, fixes) = visibility.cuda_visible_devices, facts.gpus.devices, _judged(facts)
    if devices.available and devices.count and asked.device is not None and asked.device >= devices.count:
        stated = "not stated" if raw is None else raw
        return Hit({"value": stated}, cite("asked for", asked.cuda or f"device {asked.device}"), variant="ordinal")
    if saved := of_variant(matches, "checkpoint"):
        return Hit({"entry": value(saved, "entry"), "count": value(saved, "count")}, quoted(saved), variant="checkpoint")
    beyond = of_variant(matches, "ordinal")
    mig = any(gpu.mig or is_mig(gpu.name) for gpu in facts.gpus.devices)
    if beyond and not mig and chosen.problem in (Problem.NONE, Problem.UNKNOWN):
        return _beyond(facts, beyond)
    elsewhere = works(devices) and not _found_none(facts)  # a program that finds none runs with the value, another does not
    if raw is None or elsewhere or without_cuda(facts):
        return None
    if chosen.problem is Problem.OUT_OF_RANGE:
        return Hit(values, evidence, fixes, variant="container" if contained(facts.container) else None)
    first = raw.split(",")[0].strip().lstrip("+")
    if not found and (number(first) or 0) > 0 and _blind(facts):
        return Hit(values | {"entry": first}, (*evidence, *quoted(_found_none(facts))), fixes, variant="guess")
    return None


def _beyond(facts: Facts, matches: Matches) -> Hit:
    """A program asks for a number beyond the visible GPUs: by what was started, by what the job asked for, or by itself."""
    raw = facts.visibility.cuda_visible_devices
    by_start = ranks_beyond_gpus(facts, matches)
    started = by_start.values["started"] if by_start else None
    wanted = started if isinstance(started, int) else (value(matches, "wanted") or "").count(",") + 1
    if asked_of_slurm := gpus_of_slurm(facts.launcher, wanted):
        hit = by_start or Hit({"wanted": wanted}, quoted(matches), variant="slurm")
        return replace(hit, fixes=(*asked_of_slurm, *hit.fixes))
    stated = raw if raw is not None else "not stated" if "visibility" in facts.missing else "unset"
    return by_start or Hit({"value": stated}, quoted(matches), (*_numbered_anew(raw), *counted_elsewhere(facts)), variant="ordinal")


def _numbered_anew(raw: str | None) -> tuple[Manual, ...]:
    """The numbers that a program has for the GPUs that a variable chose."""
    entries = [entry.strip() for entry in (raw or "").split(",")]
    if not all(entry.isdecimal() for entry in entries) or entries == [str(number) for number in range(len(entries))]:
        return ()
    own = ", ".join(str(number) for number in range(len(entries)))
    return (Manual(f"Within the program the GPUs {raw} have the numbers {own}: device_ids=[{own}], cuda:0 for the first."),)


@check(needs="visibility", reads="system gpus visibility torch")
def visible_devices_truncated(facts: Facts) -> Answer:
    """Reading stops at the first entry that is no GPU; those after it are lost without a word."""
    if without_cuda(facts):
        return None
    chosen, values, evidence, fixes = _judged(facts)
    if chosen.problem is not Problem.TRUNCATED:
        return None
    # "0,1,-1" says where the list ends; with GPUs after it, "-1" was hardly meant to hide them
    if (chosen.stopped_at or "").strip().startswith("-") and len(chosen.lost) == 1:
        return Hit(values, evidence, severity=Severity.INFO)
    first = (facts.visibility.cuda_visible_devices or "").split(",")[0]
    if chosen.lost and first.startswith("MIG-"):
        return Hit(values | {"instance": first}, evidence, variant="mig")
    return Hit(values, evidence, fixes)


@check(needs="visibility", reads="system gpus visibility torch devices")
def visible_devices_duplicate(facts: Facts) -> Answer:
    if without_cuda(facts):
        return None
    chosen, values, evidence, _ = _judged(facts)
    entries = [entry.strip() for entry in (facts.visibility.cuda_visible_devices or "").split(",")]
    once = SetEnv(NAME, ",".join(dict.fromkeys(entries)), "each GPU once")
    variant = "works" if works(facts.devices) else None
    return Hit(values, evidence, (once,), variant) if chosen.problem is Problem.DUPLICATE else None


@check(needs="visibility", reads="system gpus visibility torch devices symptoms")
def visible_devices_unreadable(facts: Facts, matches: Matches) -> Answer:
    raw = facts.visibility.cuda_visible_devices
    if names := of_variant(matches, "program"):
        entry = value(names, "entry") or "a UUID"
        number = _number_of(entry, facts.gpus.devices, facts.visibility)
        return Hit({"value": raw or entry, "entry": entry, "number": number}, quoted(names), variant="program")
    if (word := of_variant(matches, "word")) and not works(facts.devices):
        return Hit({"value": value(word, "word")}, quoted(word), variant="word")
    if raw is None or works(facts.devices) or without_cuda(facts):
        return None
    chosen, values, evidence, fixes = _judged(facts)
    if chosen.problem is not Problem.UNREADABLE:
        return None
    values["entry"] = chosen.stopped_at or "an empty entry"
    variant = "quotes" if {'"', "'"} & set(chosen.stopped_at or "") else None
    confidence = None if facts.gpus.devices or _blind(facts) else Confidence.LIKELY
    return Hit(values, evidence, fixes, variant=variant, confidence=confidence)


def _number_of(entry: str, gpus: tuple[Gpu, ...], visibility: VisibilityFacts) -> str | None:
    """The number of the GPU that an entry names, where CUDA counts as nvidia-smi does."""
    chosen = read_visible(entry, gpus)
    alike = visibility.cuda_device_order == "PCI_BUS_ID" or len({gpu.name for gpu in gpus}) == 1
    return str(chosen.indices[0]) if alike and gpus and chosen.indices and entry.startswith("GPU-") else None


@check(needs="gpus visibility", reads="gpus visibility devices launcher symptoms")
def visible_devices_order(facts: Facts, matches: Matches) -> Answer:
    devices = facts.devices
    usable = nvidia(facts.gpus)  # CUDA leaves out a GPU that is lost or wants a reset
    models = {gpu.name for gpu in usable if gpu.name}
    raw = facts.visibility.cuda_visible_devices
    by_uuid = (raw or "").startswith(("GPU-", "MIG-"))
    if matches and not devices.devices and not by_uuid and facts.visibility.cuda_device_order != "PCI_BUS_ID" and len(models) != 1:
        return _other_card_said(facts, matches)
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


def _other_card_said(facts: Facts, matches: Matches) -> Hit:
    """Somebody sees another card at work than the one that was chosen."""
    raw = facts.visibility.cuda_visible_devices
    chosen = raw or next((set_ for one in facts.launcher.commands if (set_ := one.variables.get(NAME))), None)
    fix = SetEnv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", "CUDA then counts as nvidia-smi does")
    return Hit({"value": chosen or "not stated"}, quoted(matches), (fix,), variant="said")


def _same(name: str | None, uuid: str | None, gpu: Gpu) -> bool:
    if uuid and gpu.uuid:
        return uuid.removeprefix("GPU-") == gpu.uuid.removeprefix("GPU-")
    return name is None or gpu.name is None or name == gpu.name


@check(needs="visibility devices", reads="gpus visibility cuda_driver devices symptoms")
def visible_devices_too_late(facts: Facts, matches: Matches) -> Answer:
    """More devices than the variable selects: CUDA was initialised before it was set. Torch's hint under error 999 is a guess."""
    raw = facts.visibility.cuda_visible_devices
    unknown = cuda_code(facts) == cuda_codes.UNKNOWN or bool(of_symptom(facts, "cuda-999"))
    if misspelt := of_variant(matches, "misspelt"):
        return Hit({"name": value(misspelt, "name"), "chosen": value(misspelt, "chosen")}, quoted(misspelt), variant="misspelt")
    if matches and not unknown:
        wanted = raw or value(matches, "chosen")
        return Hit({"value": wanted, "in_time": wanted, "seen": "other"}, quoted(matches), variant="text")
    chosen, values, evidence, _ = _judged(facts)
    found, seen = facts.gpus.devices, facts.devices.count
    mig = any(gpu.mig for gpu in found)
    if raw is None or not works(facts.devices) or mig or not found or chosen.problem is Problem.DUPLICATE:  # of that another rule speaks
        return None
    more = chosen.count is not None and seen is not None and seen > chosen.count
    # Set in time, a value that selects no GPU would hide them all.
    in_time = None if chosen.problem in (Problem.OUT_OF_RANGE, Problem.UNREADABLE) else raw
    return Hit(values | {"seen": seen, "in_time": in_time}, evidence) if more else None
