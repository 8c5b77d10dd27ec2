"""torchvision, torchaudio and their kin beside a torch that they were not made for."""

from __future__ import annotations

import re

from envcheck.checks.origin import IMPORT
from envcheck.checks.text import agreed, cite, of_variant, quoted, value
from envcheck.checks.torch_names import as_installed, asker_of, known, of_unknown, with_it, without_it
from envcheck.engine.intents import Install, Intent, Manual, TorchBuild
from envcheck.engine.rule import Answer, Confidence, Facts, Hit, Matches, Severity, check
from envcheck.facts.snapshot import TorchFacts
from envcheck.tables.compat import Tables
from envcheck.tables.versions import UNKNOWN, build_tag, cuda_of_build, local, major, meets, minor, pair, release, series

# Requires torch by an exact pin, or by a compiled extension that fits one torch alone.
_COMPANIONS = ("torchvision", "torchaudio", "torchtext", "torchdata")
# Their builds for CUDA link torch's CUDA library, which a build for the CPU does not have.
_LINKED = ("torchvision", "torchaudio", "torchcodec")


@check(needs="packages", reads="torch packages devices system symptoms")
def torch_companion_mismatch(facts: Facts, matches: Matches) -> Answer:
    # What torch's own import says is about torch: no companion has been loaded then.
    matches = tuple(one for one in matches if one.source != IMPORT)
    version, packages = facts.torch.version, facts.packages
    if version and (wrong := _wrong_versions(facts, matches) or _vision_for_cpu(facts, matches)):
        return wrong
    if all(match.symptom == "triton-key" for match in matches):
        return None  # none, or torch and Triton, of which no version is known
    if asked := _refused_by_conda(facts, matches) or _refused_together(facts, matches) or _name_asked(facts, matches):
        return asked
    if any(match.symptom.startswith("torchcodec-") for match in matches):
        fits = codec_fits(facts)
        if fits is False:  # it did not load, and its version is for another torch
            wants = facts.tables.companion_specifiers(version or "").get("torchcodec")
            problems = f"torchcodec {packages.version('torchcodec')} is for another torch: {version} goes with torchcodec{wants}"
            return Hit({"problems": problems, "version": version}, quoted(matches), (Install((f"torchcodec{wants}",)),))
        if all(match.symptom == "torchcodec-load" for match in matches):
            wants = facts.tables.companion_specifiers(version or "").get("torchcodec")
            return None if fits else Hit({}, quoted(matches), (Install((f"torchcodec{wants}",)),) if wants else (), "codec")
    if pinned := of_variant(matches, "pin"):
        values = {name: value(pinned, name) for name in ("package", "release", "needs", "have")}
        return Hit(values, quoted(pinned), variant="pin", severity=Severity.WARNING)
    return _files(facts, matches)


def _files(facts: Facts, matches: Matches) -> Hit:
    """If the pair is right by its versions, the files are not what the versions say."""
    version, packages = facts.torch.version, facts.packages
    package = value(matches, "package") or "torchvision or torchaudio"
    wanted, have = _trio(facts) if version else (), packages.version(package.lower())
    if not wanted:  # nobody listed what is installed; the message names whose file it is
        named = (value(matches, "file") or "").lower()
        named = f"{named} {package.lower()}"
        wanted = tuple(f"{name}=={one}" for name, one in facts.tables.companions(version or "").items() if name in named)
        if gone := next((name for name in _COMPANIONS if version and name in named and _is_past(name, version, facts.tables)), None):
            problem = (
                f"{gone} is loaded by no torch after {facts.tables.last_torch_of(gone)}, torch is {version}, and no newer {gone} is made"
            )
            return Hit({"problems": problem, "version": version}, quoted(matches), variant="ended")
    fixes = _one_or_the_other(facts, matches)
    fixes = fixes or ((Install(wanted, reinstall=True, note="from the same index as torch"),) if wanted else ())
    values = {"version": version or UNKNOWN, "package": package, "have": have}
    return Hit(values, quoted(matches), fixes, "files" if have and wanted else "said")


def _one_or_the_other(facts: Facts, matches: Matches) -> tuple[Intent, ...]:
    """What pip says of a companion and its torch: the companion of the torch that is there, or the torch that the companion asks for."""
    package, own, have = value(matches, "package"), value(matches, "version"), release(value(matches, "torch"))
    asks = re.fullmatch(r"==(\d+(?:\.\d+){1,2})", value(matches, "needs") or "")
    if not (package and own and have and asks):
        return ()
    fits = facts.tables.companions(have).get(package)
    text = "Take the release of one that goes with the other, from the index that torch came from, and drop the pin that brought this pair."
    keep = f"python -m pip install {package}=={fits}    # for torch {have}, which stays" if fits else None
    move = f"python -m pip install torch=={asks[1]} {package}=={release(own)}    # the torch that this {package} asks for"
    return (Manual(text, commands=tuple(one for one in (keep, move) if one)),)


@check(needs="symptoms", reads="torch devices gpus asked system symptoms")
def torch_companion_missing(facts: Facts, matches: Matches) -> Answer:
    if not matches:
        return None
    if agreed(matches) == "xformers":
        return Hit({"package": "xformers"}, quoted(matches), variant="xformers")
    package, torch = value(matches, "package"), facts.torch
    cpu = torch.cpu_build is True or local(torch.version) == "cpu"
    wanted = facts.devices.available is False or facts.asked.cuda or facts.gpus.devices
    if cpu and wanted and facts.system.os != "darwin":
        fixes = (TorchBuild(),) if facts.gpus.devices or facts.asked.cuda else ()
        return Hit({"package": package, "version": torch.version or UNKNOWN}, quoted(matches), fixes, "build")
    return Hit({"package": package}, quoted(matches))


def _refused_together(facts: Facts, matches: Matches) -> Hit | None:
    """pip was asked for a torch, and for companions of another."""
    told = tuple(match for match in matches if match.symptom in ("pip-companions-conflict", "poetry-companions-conflict"))
    pinned = value(told, "pinned")
    if not told or pinned is None:
        return None
    named = " ".join(one.text for one in told)
    goes = [f"{name}=={one}" for name, one in facts.tables.companions(pinned).items() if name in named]
    return Hit({"pinned": pinned, "goes": goes}, quoted(told), variant="refused")


def _refused_by_conda(facts: Facts, matches: Matches) -> Hit | None:
    """conda was asked for a torch and for a companion of another: the companion of that torch, or the torch of that companion."""
    if not (told := of_variant(matches, "conda")):
        return None
    name, have, torch, needs = (value(told, one) or "" for one in ("companion", "have", "torch", "needs"))
    kept, tables = value(told, "kept") or "", facts.tables
    same = [one.version for one in tables.releases() if f"{one.version}.".startswith(f"{torch}.")]
    goes = tables.companions(same[-1]).get(name) if same else None
    cuda = re.search(r"(?:cudatoolkit|pytorch-cuda)=(\d{1,2}\.\d)", kept)
    fits = [f"{chooses}={one}" for one, chooses in tables.channel_builds(needs)]
    other = cuda and fits and (next((one for one in fits if one.endswith(f"={cuda[1]}")), fits[-1]))
    values: dict[str, object] = {"companion": name, "have": have, "torch": torch, "needs": needs}
    values |= {"keep": [f"{name}={goes}", *kept.split()] if goes else None, "move": [f"{name}={have}", *([other] if other else ())]}
    return Hit(values, quoted(told), variant="conda")


def _name_asked(facts: Facts, matches: Matches) -> Hit | None:
    """A name of torch or an operator that a program asks for and does not get."""
    if script := of_variant(matches, "script"):
        return Hit({"op": value(script, "op")}, quoted(script), variant="script")
    asked = value(matches, "asked")
    return _named(facts, matches, asked) if asked else None


def _named(facts: Facts, matches: Matches, asked: str) -> Hit:
    """By what the tables know of the name; what nobody knows may be a slip."""
    module, asker = value(matches, "module"), asker_of(facts, value(matches, "asker"))
    full = f"{module}.{asked}" if module else asked
    name = known(facts, full)
    values: dict[str, object] = {"asked": asked, "module": module or name.package, "version": facts.torch.version or UNKNOWN}
    values |= {"package": name.package, "first": name.since, "last": series(name.last), "have": name.have}
    if name.case == "older":
        return Hit(values, quoted(matches), with_it(facts, name.package, name.since or "", asker), "older")
    if name.case == "gone":
        return Hit(values, quoted(matches), without_it(facts, name, full, asker), "gone")
    slip = all(one.symptom in ("torch-name-unknown", "torch-name-asker") for one in matches)
    fixes = as_installed(name) if name.case else of_unknown(facts, full, asker)
    return Hit(values, quoted(matches), fixes, name.case or "name", severity=Severity.WARNING if slip else None)


def _wrong_versions(facts: Facts, matches: Matches) -> Hit | None:
    """By the metadata of what is installed, and by the tables."""
    version, tables, problems = facts.torch.version or "", facts.tables, _problems(facts)
    past = [(name, other) for name in _COMPANIONS if (other := facts.packages.version(name)) and _is_past(name, version, tables)]
    # Companions that are no longer made, under a torch that came after them.
    ended = [
        f"{name} {other} is loaded by no torch after {tables.last_torch_of(name)}, torch is {version}, and no newer {name} is made"
        for name, other in past
    ]
    told = (*(line for line, _ in problems), *ended)
    if not told:
        return None
    wanted = _trio(facts) if problems else ()
    fixes = (Install(wanted, note="from the same index as torch, in one command"),) if wanted else ()
    evidence = (*cite("installed distributions", *told), *quoted(matches))
    sure = any(certain for _, certain in problems) or bool(ended or matches)
    codec = facts.torch.cpu_build is True and all(line.startswith("torchcodec") for line in told)
    values = {"version": version, "problems": "; ".join(told), "codec": release(facts.packages.version("torchcodec")) or ""}
    variant = "ended" if ended else "codec_cpu" if codec else None
    return Hit(values, evidence, fixes, variant, confidence=None if sure else Confidence.LIKELY)


def _vision_for_cpu(facts: Facts, matches: Matches) -> Hit | None:
    """A torchvision without operators for the GPU."""
    vision, asked_for = facts.packages.version("torchvision"), any("'CUDA' backend" in one.text for one in matches)
    if not facts.torch.cuda or local(vision) != "cpu" or not (asked_for or facts.devices.available):
        return None
    fixes = (Install(("torchvision",), note="from the same index as torch"),)
    values = {"version": facts.torch.version, "have": vision, "cuda": facts.torch.cuda}
    severity, confidence = (None, None) if asked_for else (Severity.WARNING, Confidence.LIKELY)
    return Hit(values, quoted(matches), fixes, "cpu", severity, confidence)


def codec_fits(facts: Facts) -> bool | None:
    """Whether the torchcodec that is installed is for this torch, by torchcodec's own table."""
    wants = facts.tables.companion_specifiers(facts.torch.version).get("torchcodec") if facts.torch.version else None
    have = facts.packages.version("torchcodec")
    return meets(have, wants) if have and wants else None


def _problems(facts: Facts) -> list[tuple[str, bool]]:
    """What does not fit, in words, and whether it is certain."""
    version = facts.torch.version or ""
    there = [(name, other) for name in _COMPANIONS if (other := facts.packages.version(name)) and not _is_past(name, version, facts.tables)]
    found = [problem for name, other in there if (problem := _problem(facts, name, other))]
    codec, triton = facts.packages.version("torchcodec"), facts.packages.version("triton")
    if codec and (cuda := _other_cuda(facts, "torchcodec", codec)):
        found.append((cuda, True))
    pin = facts.tables.companion_specifiers(version).get("triton") if triton else None
    if triton and pin and _takes_triton(facts.torch) and meets(triton, pin) is False:
        found.append((f"triton {triton} is installed, torch {version} requires triton{pin}", False))
    return found


def _problem(facts: Facts, name: str, other: str) -> tuple[str, bool] | None:
    """By what the companion's own metadata requires, else by the tables, else by what its build links."""
    version, asks = facts.torch.version or "", facts.tables.companion_requires(name, other)
    rows = (row for row in facts.packages.unmet if row.distribution == name and row.installed)
    if unmet := next((row.requirement for row in rows if re.match(r"torch\b", row.requirement)), None):
        return f"{name} {other} requires {unmet}, torch is {version}", _series_differs(unmet, version)
    if asks and meets(version, asks) is False and _series_differs(asks, version):
        return f"{name} {other} requires torch{asks}, torch is {version}", True
    known = facts.tables.companions(version).get(name)
    if not asks and known and pair(other) < pair(known):
        return f"{name} {other} is for an older torch than {version}, which goes with {known}", True
    if not asks and known and pair(other) > pair(known) and facts.said("torch-companion-mismatch"):  # may load all the same; it did not
        return f"{name} {other} is for a newer torch than {version}, which goes with {known}", True
    if cuda := _other_cuda(facts, name, other):
        return cuda, True
    row = facts.tables.release(version)
    plain = row is not None and local(version) in (None, row.default_variant.get("linux-x86_64"))  # as far as its version tells
    if not local(other) and plain and (why := facts.tables.companion_conflict(version, name, other)):
        return why, False  # which build of it is installed is not known
    return None


def _takes_triton(torch: TorchFacts) -> bool:
    """Builds for ROCm and XPU bring a Triton of another name, and those for the CPU none."""
    return local(torch.version) != "cpu" and not torch.hip and not torch.xpu


def _is_past(name: str, version: str, tables: Tables) -> bool:
    last = tables.last_torch_of(name)
    return last is not None and pair(version) > (minor(last) or (99, 0))


def _series_differs(requirement: str, version: str) -> bool:
    """An exact pin of another minor series: the compiled part cannot load. Within one series it usually does."""
    pin = re.search(r"==\s*(\d+\.\d+)", requirement)
    return pin is None or minor(pin[1]) != minor(version)


def _other_cuda(facts: Facts, name: str, version: str) -> str | None:
    """A companion whose build for CUDA cannot be loaded under this torch.

    It links libtorch_cuda.so, which builds for the CPU, ROCm and XPU do not have, or the libtorch_hip.so of those for ROCm; torchvision
    refuses another CUDA major, torchaudio another CUDA version. A companion built for the CPU loads everywhere, and so does one whose
    label is not known, as far as is known.
    """
    torch = facts.torch
    theirs, mine = cuda_of_build(version), torch.cuda or cuda_of_build(torch.version)
    if name in _LINKED and (rocm := build_tag(version).rocm) and mine and not torch.hip:
        return f"{name} {version} is built for ROCm {rocm}, torch {torch.version} for CUDA {mine}"
    if name not in _LINKED or not theirs:
        return None
    if mine is None:
        kind = "the CPU" if torch.cpu_build else "ROCm" if torch.hip else "XPU" if torch.xpu else None
        return f"{name} {version} is built for CUDA {theirs}, torch {torch.version} for {kind}" if kind else None
    compares = facts.tables.compares_cuda(name, version)
    differs = major(theirs) != major(mine) if compares == "major" else minor(theirs) != minor(mine) if compares == "minor" else False
    return f"{name} {version} is built for CUDA {theirs}, torch {torch.version} for CUDA {mine}" if differs else None


def _trio(facts: Facts) -> tuple[str, ...]:
    """The companions that are installed and that go with this torch, by name: the plan gives them version and index.

    triton is the exception: it comes from PyPI, with torch's own pin.
    """
    wanted = facts.tables.companion_specifiers(facts.torch.version or "")
    names = tuple(name for name in _COMPANIONS if facts.packages.version(name) and name in wanted)
    other = _takes_triton(facts.torch) and meets(facts.packages.version("triton"), wanted.get("triton", "")) is False
    triton = (f"triton{wanted['triton']}",) if other else ()
    return (*names, *triton)
