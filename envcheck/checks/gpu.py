"""The GPU against the torch build: is there code for it, and may this process use it."""

from __future__ import annotations

import re

from envcheck.checks.answer import cuda_code, driver_answers, fails, visible, works
from envcheck.checks.gpu_memory import bytes_of
from envcheck.checks.hardware import capability, is_mig, numbers
from envcheck.checks.text import first_of, foremost, of_symptom, of_variant, quoted, value
from envcheck.engine.intents import SetEnv, TorchBuild
from envcheck.engine.rule import Answer, Confidence, Evidence, Facts, Hit, Matches, Severity, check
from envcheck.facts.cuda_codes import DEVICES_UNAVAILABLE, NO_DEVICE
from envcheck.facts.record import record, replace
from envcheck.facts.snapshot import Gpu, TextEvidence
from envcheck.tables.archs import arch_number, cubins, platform_of, runs_on
from envcheck.tables.compat import Tables
from envcheck.tables.gpu_names import gpu_named
from envcheck.tables.versions import older, pair, variant_of_cuda

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


def _cards(facts: Facts) -> list[_Card]:
    """The GPUs that torch would use: as torch lists them, else as the driver does, else as the error text says."""
    asked = [(one, one.compute_capability) for one in facts.devices.devices if one.kind == "cuda" and one.compute_capability]
    if asked:
        return [_Card(one.name or f"cuda:{one.index}", cc, one.uuid, one.kernel, one.kernel_error or "") for one, cc in asked]
    seen = [(gpu, capability(gpu, facts.tables)) for gpu in visible(facts.gpus, facts.visibility)]
    found = [_Card(gpu.name or f"GPU {gpu.index}", cc, gpu.uuid, None) for gpu, cc in seen if cc]
    # Torch's warning names one, "with CUDA capability sm_120" or "of cuda capability 6.1", which a report need not name.
    for values in (match.values for match in facts.symptoms.matches):
        name, sm = values.get("gpu"), values.get("sm", "")
        cc = f"{sm[:-1]}.{sm[-1]}" if sm.isdecimal() else values.get("cc")
        if name and cc:
            return found if any(card.cc == cc for card in found) else [*found, _Card(name, cc, None, None)]
    return found


def code_of_build(facts: Facts) -> Code:
    """torch's own list, the list in torch's warning, or the table's for this release, variant and platform."""
    torch, system = facts.torch, facts.system
    if torch.arch_list:
        return Code(torch.arch_list, "torch.cuda.get_arch_list()", True, torch.cuda)
    if stated := value(facts.symptoms.matches, "archs"):
        return Code(tuple(re.findall(r"(?:sm|compute)_\d{2,3}[a-z]?", stated)), "torch's warning", True, torch.cuda)
    # "1.11.0" without a CUDA version may be any build of that release: conda's carry no local part
    if torch.version and (torch.cuda or "+" in torch.version) and not torch.conda:
        variant = variant_of_cuda(torch.cuda) if torch.cuda and "+" not in torch.version else None
        name, machine = f"{torch.version}+{variant}" if variant else torch.version, system.machine or "x86_64"
        # where a report does not name the system, a build of either counts: what neither holds is not there
        rows = [facts.tables.build(name, platform_of(os, machine)) for os in ((system.os,) if system.os else ("linux", "windows"))]
        if known := [row for row in rows if row and row.archs]:
            archs = tuple(dict.fromkeys(arch for row in known for arch in row.archs or ()))
            source = f"the published build {known[0].version}+{known[0].variant}"
            return Code(archs, source, all(row.archs_confidence == "high" for row in known), known[0].cuda or torch.cuda)
    return Code(None, "the CUDA version of the build", False, torch.cuda)


def _verdict(card: _Card, build: Code, tables: Tables, no_kernel: bool) -> tuple[str, bool] | None:
    """("new" | "old", certain) if this build has no code for the card; None if it has, or if nothing is known."""
    if card.kernel == "ok":
        return None
    row, cuda = tables.gpu(card.cc), pair(build.cuda)
    if build.archs:
        runs = runs_on(build.archs, card.cc, build.cuda)
        if runs is True and no_kernel and runs_on(cubins(build.archs), card.cc, build.cuda) is False:
            return "new", False  # only PTX would serve it, and the program says that nothing did
        if runs is True or (runs is None and not no_kernel):
            return None
        pairs = [arch_number(arch) for arch in build.archs]
        if pair(card.cc) < min(pairs):
            return "old", build.certain and runs is False
        late = row is not None and build.cuda is not None and pair(row.first_cuda) > cuda
        between = pair(card.cc) < max(pairs) and not late
        return ("family" if between else "new"), build.certain and runs is False
    if row is None or build.cuda is None:
        return None
    first = tables.first_cuda(card.cc)
    if first is not None and first > cuda:
        return "new", no_kernel
    if row.last_cuda and pair(row.last_cuda) < cuda:
        return "old", True
    return None


def _judge(facts: Facts, wanted: tuple[str, ...], matches: Matches) -> Hit | None:
    if facts.torch.hip:
        return None
    cards = _cards(facts)
    if not cards and not matches:
        return None
    build = code_of_build(facts)
    lines = of_symptom(facts, "no-kernel-image", "sm-not-compatible-new", "sm-not-compatible-old", "torch-gpu-too-old")
    found = [(card, _verdict(card, build, facts.tables, bool(lines) or NO_KERNEL in card.error)) for card in cards]
    bad = [(card, verdict) for card, verdict in found if verdict is not None and verdict[0] in wanted]
    if bad:
        return _without_code(bad, cards, build, lines, facts.tables)
    if of_variant(facts.said("extension-arch-mismatch"), "beside_torch"):
        return None  # torch's own kernels run there
    before = _before_published(facts, cards, lines) if "old" in wanted and not build.archs else None
    if "new" in wanted:
        before = before or (None if build.archs else _of_no_build(facts, cards, lines)) or _libraries_before(facts, cards, build)
    return before or _as_said(facts, wanted, cards, build, matches)


def _before_published(facts: Facts, cards: list[_Card], lines: Matches) -> Hit | None:
    """Cards that the published builds dropped before the releases whose builds are listed; somebody may have built it from source."""
    torch = facts.torch.version or ""
    if not re.fullmatch(r"\d\.\d{1,2}(?:\.\d{1,2})?(?:\+cu\d{2,3})?", torch) or facts.system.jetson:
        return None
    rows = [(card, row.last_torch) for card in cards if (row := facts.tables.gpu(card.cc)) and row.last_torch and card.kernel != "ok"]
    stated = torch.partition("+")[0]
    newest = f"{stated}.99" if stated.count(".") == 1 else stated  # "1.3" is most likely the last of its series
    late = [(card, last) for card, last in rows if older(last, newest)]
    if not late or len(late) < len(cards):
        return None
    card, last = late[0]
    values: dict[str, object] = {"gpu": card.name, "cc": card.cc, "sm": "sm_" + card.cc.replace(".", ""), "last": last, "torch": torch}
    return Hit(values, quoted(lines), variant="released", confidence=None if lines else Confidence.LIKELY)


def _of_no_build(facts: Facts, cards: list[_Card], lines: Matches) -> Hit | None:
    """Cards that came after a release: none of its builds, whichever it is, has code for them."""
    torch, system = facts.torch.version or "", facts.system
    if not re.fullmatch(r"\d\.\d{1,2}(?:\.\d{1,2})?", torch) or system.jetson or any(card.kernel == "ok" for card in cards):
        return None
    rows = [one for one in facts.tables.builds() if one.cuda and f"{one.version}.".startswith(f"{torch}.")]
    late = [card for card in cards if rows and all(one.archs and runs_on(cubins(one.archs), card.cc, one.cuda) is False for one in rows)]
    if not late or len(late) < len(cards) or pair(late[0].cc) < (7, 5):
        return None
    card = late[0]
    values: dict[str, object] = {"gpu": card.name, "cc": card.cc, "sm": "sm_" + card.cc.replace(".", ""), "torch": torch}
    return Hit(values, quoted(lines), (TorchBuild(),), variant="released", confidence=None if lines else Confidence.LIKELY)


def _libraries_before(facts: Facts, cards: list[_Card], build: Code) -> Hit | None:
    """Code for an earlier GPU of the family runs on a later one; the cuDNN and cuBLAS of that CUDA were made before it, and fail."""
    failed = tuple(one for one in facts.said("gpu-kernel-failed") if re.search("cudnn|cublas", one.text.lower()))
    rows = [(card, row.first_cuda) for card in cards if (row := facts.tables.gpu(card.cc)) and card.kernel != "ok"]
    late = [(card, first) for card, first in rows if build.cuda and pair(first) > pair(build.cuda)]
    if not failed or not late or len(late) < len(cards):
        return None
    card, first = late[0]
    values: dict[str, object] = {"gpu": card.name, "cc": card.cc, "cuda": build.cuda, "first_cuda": first}
    return Hit(values, quoted(failed), (TorchBuild(),), variant="libraries", confidence=Confidence.LIKELY)


def _ancient(facts: Facts) -> str:
    """The GPUs of a text, where their name leaves open which chip it is and each of them is older than what builds have code for."""
    names = [gpu.name for gpu in facts.gpus.devices if gpu.name]
    meant = [gpu_named(name, facts.tables) for name in names]
    chips = [[one.gpu.target] if one.gpu and one.gpu.kind == "old" else re.findall(r"\d\.\d", " ".join(one.several)) for one in meant]
    return ", ".join(names) if chips and all(one and all(pair(cc) < (5, 0) for cc in one) for one in chips) else ""


def _as_said(facts: Facts, wanted: tuple[str, ...], cards: list[_Card], build: Code, matches: Matches) -> Hit | None:
    """The text alone decides only where no fact can be set against it."""
    values: dict[str, object] = {"gpu": cards[0].name, "cc": cards[0].cc} if cards else {"gpu": "this GPU", "cc": None}
    if any(card.kernel == "ok" for card in cards):
        return None
    known = build.archs and cards  # and the lists show no card without code, else this would not be asked
    too_old = tuple(match for match in matches if match.symptom == "torch-gpu-too-old")
    if old := _old_as_said(facts, values, cards, build, matches, too_old):
        return old if "old" in wanted else None
    if facts.system.jetson and matches and not known:  # its targets (7.2, 8.7) are in no build for servers
        return Hit(values, quoted(matches), (TorchBuild(),), "jetson", confidence=Confidence.LIKELY) if "new" in wanted else None
    if (told := of_variant(matches, "told", "ampere", "jetson")) and not known:
        named = cards[0].name if cards else value(told, "gpu") or "This GPU"
        return Hit(values | {"gpu": named}, quoted(told), variant=told[0].variant, confidence=Confidence.LIKELY)
    if "old" in wanted and too_old and not cards:
        return Hit(values, quoted(too_old), variant="text")
    # Of a build that nobody knows: what came with Turing or later was too new for some, only what precedes it was ever dropped.
    fits = not cards or any(("old" in wanted) is (pair(card.cc) < (7, 5)) for card in cards)
    if of_symptom(facts, "extension-of-other-cards"):
        return None  # the text speaks of somebody's own code
    if matches and not (build.archs and cards) and fits:
        return Hit(values, quoted(matches), (TorchBuild(),), variant="text", confidence=Confidence.LIKELY)
    return None


def _last_with_code(asked: set[str]) -> dict[str, str]:
    """The last release with code for each of these cards, by the name that the fix has for it; of all where none is known."""
    last = {"3.0": "0.3.0", "3.5": "1.2.0", "3.7": "2.7.1"}
    return {f"torch_{cc.replace('.', '')}": torch for cc, torch in last.items() if not asked or cc in asked}


def _old_as_said(
    facts: Facts, values: dict[str, object], cards: list[_Card], build: Code, matches: Matches, too_old: Matches
) -> Hit | None:
    """A card from before what builds are made for, or a library of CUDA that dropped it."""
    ancient = all(pair(card.cc) < (5, 0) for card in cards) if cards else _ancient(facts)
    if ancient and (too_old or (matches and not build.archs)):
        named = {} if cards else {"gpu": ancient}
        named |= _last_with_code({card.cc for card in cards})
        sure = None if too_old else Confidence.LIKELY
        return Hit(values | named, quoted(too_old or matches), variant="older", confidence=sure)
    if library := of_variant(matches, "library"):
        named = {"library": value(library, "library") or "A library of CUDA"}
        return Hit(values | named, quoted(library), variant="library", confidence=Confidence.LIKELY)
    return None


def _without_code(bad: list[tuple[_Card, tuple[str, bool]]], cards: list[_Card], build: Code, lines: Matches, tables: Tables) -> Hit:
    card, (kind, _) = bad[0]
    row = tables.gpu(card.cc)
    values = {
        "gpu": ", ".join(dict.fromkeys(one.name for one, _ in bad)),
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
    variant = "family" if kind == "family" else None if build.archs else "toolkit"
    confidence = None if any(certain for _, (_, certain) in bad) else Confidence.LIKELY
    return Hit(values, evidence, fixes, variant=variant, severity=Severity.WARNING if good else None, confidence=confidence)


@check(needs="gpus torch", reads="system gpus visibility torch devices symptoms")
def gpu_too_new_for_torch(facts: Facts, matches: Matches) -> Answer:
    return _judge(facts, ("new", "family"), matches)


@check(needs="gpus torch", reads="system gpus visibility torch devices symptoms")
def gpu_too_old_for_torch(facts: Facts, matches: Matches) -> Answer:
    return _judge(facts, ("old",), matches)


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


def _itself(match: TextEvidence) -> bool:
    """Whether the one process that torch names is the program: in a container it does not know its own number, and counts it to others."""
    held, own = bytes_of(match.values.get("memory")), bytes_of(match.values.get("allocated"))
    return 0 < 0.7 * held < own


@check(needs="gpus", reads="gpus visibility symptoms")
def gpu_busy(facts: Facts, matches: Matches) -> Answer:
    """Other processes hold most of a GPU's memory. Integrated GPUs, whose memory is the machine's, are left out."""
    matches = tuple(match for match in matches if not _itself(match))
    seen = visible(facts.gpus, facts.visibility)
    for gpu in seen:
        total, free = gpu.memory_bytes, gpu.memory_free_bytes
        if not total or free is None or (not gpu.processes and (gpu.memory_used_bytes or 0) <= total // 2):
            continue
        values: dict[str, object] = {"gpu": f"GPU {gpu.index} ({gpu.name})", "free": size(free), "total": size(total)}
        holders = ", ".join(f"{one.name or 'process'} ({one.pid})" for one in gpu.processes[:4]) or "processes that are not shown here"
        values |= {"processes": holders, "unused": _free(seen)}
        if free < max(_GIB, total // 10) and free < total // 2:
            return Hit(values, quoted(matches))
        if free < total // 2:
            return Hit(values, quoted(matches), variant="half")
    if variant := foremost(matches, "start", "left"):
        return Hit({}, quoted(of_variant(matches, variant)), variant=variant)
    if matches:
        return Hit({"pid": value(matches, "pid"), "memory": value(matches, "memory")}, quoted(matches), variant="text")
    return None


@check(needs="gpus", reads="gpus visibility cuda_driver devices symptoms")
def gpu_exclusive_mode(facts: Facts, matches: Matches) -> Answer:
    seen = visible(facts.gpus, facts.visibility)
    prohibited = [gpu for gpu in seen if gpu.compute_mode == "Prohibited"]
    exclusive = [gpu for gpu in seen if (gpu.compute_mode or "").startswith("Exclusive")]
    restricted = prohibited or exclusive
    values = {"gpus": ", ".join(f"GPU {gpu.index}" for gpu in restricted) or "the GPU", "numbers": numbers(restricted)}
    values["mode"] = restricted[0].compute_mode if restricted else None
    told = of_variant(matches, "ranks")
    if told and not restricted and (len(told) < len(matches) or cuda_code(facts) == DEVICES_UNAVAILABLE):
        return Hit(values, quoted(matches), variant="ranks")
    matches = tuple(one for one in matches if one not in told)
    refused = cuda_code(facts) == DEVICES_UNAVAILABLE or bool(matches)
    if prohibited:
        none_left = len(prohibited) == len(seen) and not works(facts.devices)
        return Hit(values, quoted(matches), variant="prohibited", severity=Severity.ERROR if none_left else Severity.WARNING)
    cases = {
        "held": exclusive and (refused or (fails(facts.devices) and any(gpu.processes for gpu in exclusive))),
        "default": exclusive,
        # a vGPU without its licence and a card in a bad state answer the same
        "text": refused and not works(facts.devices) and all(gpu.compute_mode is None for gpu in seen),
    }
    return first_of(cases, values, quoted(matches))


@check(needs="gpus", reads="gpus visibility cuda_driver devices symptoms")
def gpu_mig(facts: Facts, matches: Matches) -> Answer:
    gpus = facts.gpus.devices
    partitioned = [gpu for gpu in gpus if gpu.mig or gpu.mig_devices or is_mig(gpu.name)]
    slices = [one.name for one in facts.devices.devices if is_mig(one.name)]
    if not partitioned and not slices:
        return _mig_said(gpus, matches)
    instances = sum(max(1, len(gpu.mig_devices)) for gpu in partitioned) or len(slices)
    values: dict[str, object] = {"instances": instances, "numbers": numbers(partitioned)}
    values["gpus"] = ", ".join(gpu.name or f"GPU {gpu.index}" for gpu in partitioned) or slices[0]
    values["instance"] = next((name for gpu in partitioned for name in gpu.mig_devices if name.startswith("MIG-")), None)
    refused = matches + of_symptom(facts, "invalid-device-ordinal", "cuda-46")
    empty = [gpu for gpu in partitioned if gpu.mig and not gpu.mig_devices]
    unusable = fails(facts.devices) or cuda_code(facts) == NO_DEVICE or bool(of_symptom(facts, "no-cuda-gpus"))
    cases = {
        "refused": refused,
        "empty": empty and len(empty) == len(gpus) and unusable and not driver_answers(facts.cuda_driver),
        "many": instances > 1 and not (facts.visibility.cuda_visible_devices or "").startswith("MIG-"),
        "default": True,
    }
    return first_of(cases, values, quoted(refused))


def _mig_said(gpus: tuple[Gpu, ...], matches: Matches) -> Hit | None:
    """What the text alone says, where no GPU is known to be partitioned; that of "refused" fits other things too."""
    without = bool(gpus) and all(gpu.mig is False for gpu in gpus)
    cases = {"empty": of_variant(matches, "empty"), "refused": matches and not without}
    hit = first_of(cases, {"gpus": "a GPU", "instances": 0, "instance": "MIG-UUID"}, quoted(matches))
    return hit and replace(hit, confidence=Confidence.LIKELY if hit.variant == "refused" else None)
