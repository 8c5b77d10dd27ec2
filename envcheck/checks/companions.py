"""torchvision, torchaudio and their kin beside a torch that they were not made for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envcheck.checks import answer
from envcheck.checks.origin import IMPORT
from envcheck.checks.text import quoted, said, value
from envcheck.engine.intents import Install
from envcheck.engine.rule import Confidence, Evidence, Hit, Severity, Unknown, check
from envcheck.facts.snapshot import (
    DevicesFacts,
    Missing,
    PackagesFacts,
    SymptomsFacts,
    TextEvidence,
    TorchFacts,
    Unmet,
)
from envcheck.tables.versions import UNKNOWN, cuda_of_build, local, major, meets, minor, release

if TYPE_CHECKING:
    from envcheck.tables.compat import Tables

# Requires torch by an exact pin, or by a compiled extension that fits one torch alone.
_COMPANIONS = ("torchvision", "torchaudio", "torchtext", "torchdata")
# Their builds for CUDA link torch's CUDA library, which a build for the CPU does not have.
_LINKED = ("torchvision", "torchaudio", "torchcodec")


@check(sees_missing=("packages", "symptoms", "devices", "torch"))
def torch_companion_mismatch(
    torch: TorchFacts | Missing,
    packages: PackagesFacts | Missing,
    devices: DevicesFacts | Missing,
    symptoms: SymptomsFacts | Missing,
    tables: Tables,
) -> Hit | Unknown | None:
    """torchvision, torchaudio, torchtext, torchdata or triton of another torch, or of another CUDA."""
    # What torch's own import says is about torch: no companion has been loaded then.
    matches = tuple(one for one in said(symptoms, "torch-companion-mismatch") if one.source != IMPORT)
    facts = None if isinstance(torch, Missing) else torch
    if facts and facts.version and not isinstance(packages, Missing):
        problems = _companions(facts, packages, tables)
        ended = _ended(facts.version, packages, tables)
        if problems or ended:
            wanted = _trio(facts, packages, tables) if problems else ()
            fixes = (Install(wanted, note="from the same index as torch, in one command"),) if wanted else ()
            told = tuple(line for line, _ in problems) + ended
            lines = tuple(Evidence("installed distributions", line) for line in told)
            hard = any(sure for _, sure in problems) or bool(ended or matches)
            values = {"version": facts.version, "problems": "; ".join(told)}
            if facts.cpu_build and all(line.startswith("torchcodec") for line in told):
                values["codec"] = release(packages.version("torchcodec")) or ""
            variant = "ended" if ended else "codec_cpu" if "codec" in values else None
            return Hit(values, (*lines, *quoted(matches)), fixes, variant, confidence=None if hard else Confidence.LIKELY)
        vision = packages.version("torchvision")
        asked_for = any("'CUDA' backend" in one.text for one in matches)
        if facts.cuda and local(vision) == "cpu" and (asked_for or (not isinstance(devices, Missing) and devices.available)):
            fixes = (Install(("torchvision",), note="from the same index as torch"),)
            labels: dict[str, object] = {"version": facts.version, "have": vision, "cuda": facts.cuda}
            milder = None if asked_for else Severity.WARNING
            return Hit(labels, quoted(matches), fixes, "cpu", milder, None if asked_for else Confidence.LIKELY)
    if not matches:
        return answer.trouble(packages, "packages")
    if asked := value(matches, "asked"):
        known = any(match.symptom != "torch-name-unknown" for match in matches)
        asks = {"asked": asked, "module": value(matches, "module") or "torch", "version": (facts.version if facts else None) or UNKNOWN}
        return Hit(asks, quoted(matches), variant="name", severity=None if known else Severity.WARNING, confidence=Confidence.LIKELY)
    if codec := _torchcodec(facts, packages, matches, tables):
        return codec
    if all(match.symptom == "torchcodec-load" for match in matches):
        return (
            None
            if codec_fits(torch, packages, tables)
            else Hit({}, quoted(matches), variant="codec", severity=Severity.WARNING, confidence=Confidence.LIKELY)
        )
    package = value(matches, "package") or "torchvision or torchaudio"
    values = {"version": (facts.version if facts else None) or UNKNOWN, "package": package}
    fixes = ()
    if facts and facts.version and not isinstance(packages, Missing):
        wanted = _trio(facts, packages, tables)
        if wanted:  # the pair is right by its versions: then the files are not what the versions say
            fixes = (Install(wanted, reinstall=True, note="from the same index as torch"),)
        have = packages.version(package.lower())
        if have and wanted:
            return Hit(values | {"have": have}, quoted(matches), fixes, variant="files")
    return Hit(values, quoted(matches), fixes, variant="said")


def codec_fits(torch: TorchFacts | Missing | None, packages: PackagesFacts | Missing, tables: Tables) -> bool | None:
    """Whether the torchcodec that is installed is for this torch, by torchcodec's own table."""
    if torch is None or isinstance(torch, Missing) or isinstance(packages, Missing) or not torch.version:
        return None
    have, wants = packages.version("torchcodec"), tables.companion_specifiers(torch.version).get("torchcodec")
    return meets(have, wants) if have and wants else None


def _torchcodec(
    torch: TorchFacts | None, packages: PackagesFacts | Missing, matches: tuple[TextEvidence, ...], tables: Tables
) -> Hit | None:
    """torchcodec did not load, and its version is for another torch."""
    about = any(match.symptom.startswith("torchcodec-") for match in matches)
    if not about or torch is None or isinstance(packages, Missing) or codec_fits(torch, packages, tables) is not False:
        return None
    wants = tables.companion_specifiers(torch.version or "").get("torchcodec")
    problems = f"torchcodec {packages.version('torchcodec')} is for another torch: {torch.version} goes with torchcodec{wants}"
    return Hit({"problems": problems, "version": torch.version}, quoted(matches), (Install((f"torchcodec{wants}",)),))


def _companions(torch: TorchFacts, packages: PackagesFacts, tables: Tables) -> list[tuple[str, bool]]:
    """What does not fit, in words, and whether it is certain."""
    found: list[tuple[str, bool]] = []
    version = torch.version or ""
    known = tables.companions(version)
    for name in _COMPANIONS:
        other = packages.version(name)
        if not other or _is_past(name, other, version, tables):
            continue
        unmet = [one for one in packages.unmet if one.distribution == name and one.installed and re.match(r"torch\b", one.requirement)]
        asks = tables.companion_requires(name, other)
        if unmet:
            found.append((f"{name} {other} requires {unmet[0].requirement}, torch is {version}", _other_series(version, unmet[0])))
        elif asks and meets(version, asks) is False and _series_differs(asks, version):
            found.append((f"{name} {other} requires torch{asks}, torch is {version}", True))
        elif not asks and name in known and (minor(other) or (0, 0)) < (minor(known[name]) or (0, 0)):
            found.append((f"{name} {other} is for an older torch than {version}, which goes with {known[name]}", True))
        elif cuda := _other_cuda(name, other, torch, tables):
            found.append((cuda, True))
        elif not local(other) and _is_default(torch, tables) and (why := tables.companion_conflict(version, name, other)):
            found.append((why, False))  # which build of it is installed is not known
    codec = packages.version("torchcodec")
    if codec and (cuda := _other_cuda("torchcodec", codec, torch, tables)):
        found.append((cuda, True))
    pin = tables.companion_specifiers(version).get("triton")
    triton = packages.version("triton")
    if triton and pin and local(version) != "cpu" and not torch.hip and not torch.xpu and meets(triton, pin) is False:
        found.append((f"triton {triton} is installed, torch {version} requires triton{pin}", False))
    return found


def _ended(version: str, packages: PackagesFacts, tables: Tables) -> tuple[str, ...]:
    """Companions that are no longer made, under a torch that came after them."""
    found = [(name, packages.version(name)) for name in _COMPANIONS]
    past = [(name, other) for name, other in found if other and _is_past(name, other, version, tables)]
    return tuple(
        f"{name} {other} is loaded by no torch after {tables.last_torch_of(name)}, torch is {version}, and no newer {name} is made"
        for name, other in past
    )


def _is_past(name: str, other: str, version: str, tables: Tables) -> bool:
    last = tables.last_torch_of(name)
    return last is not None and (minor(version) or (0, 0)) > (minor(last) or (99, 0))


def _is_default(torch: TorchFacts, tables: Tables) -> bool:
    """The build that a plain install gives on Linux, as far as its version tells."""
    row = tables.release(torch.version) if torch.version else None
    return row is not None and local(torch.version) in (None, row.default_variant.get("linux-x86_64"))


def _other_series(version: str, unmet: Unmet) -> bool:
    return _series_differs(unmet.requirement, version)


def _series_differs(requirement: str, version: str) -> bool:
    """An exact pin of another minor series: the compiled part cannot load. Within one series it usually does."""
    pin = re.search(r"==\s*(\d+\.\d+)", requirement)
    return pin is None or minor(pin[1]) != minor(version)


def _other_cuda(name: str, version: str, torch: TorchFacts, tables: Tables) -> str | None:
    """A companion whose build for CUDA cannot be loaded under this torch.

    It links libtorch_cuda.so, which builds for the CPU, ROCm and XPU do not have; torchvision refuses another CUDA major, torchaudio
    another CUDA version. A companion built for the CPU loads everywhere, and so does one whose label is not known, as far as is known.
    """
    theirs, mine = cuda_of_build(version), torch.cuda or cuda_of_build(torch.version)
    if name not in _LINKED or not theirs:
        return None
    if mine is None:
        kind = "the CPU" if torch.cpu_build else "ROCm" if torch.hip else "XPU" if torch.xpu else None
        return f"{name} {version} is built for CUDA {theirs}, torch {torch.version} for {kind}" if kind else None
    compares = tables.compares_cuda(name, version)
    differs = major(theirs) != major(mine) if compares == "major" else minor(theirs) != minor(mine) if compares == "minor" else False
    return f"{name} {version} is built for CUDA {theirs}, torch {torch.version} for CUDA {mine}" if differs else None


def _trio(torch: TorchFacts, packages: PackagesFacts, tables: Tables) -> tuple[str, ...]:
    """The companions that are installed and that go with this torch, by name: the plan gives them version and index.

    triton is the exception: it comes from PyPI, with torch's own pin.
    """
    wanted = tables.companion_specifiers(torch.version or "")
    names = tuple(name for name in _COMPANIONS if packages.version(name) and name in wanted)
    gpu = not torch.hip and not torch.xpu and local(torch.version) != "cpu"
    other = gpu and meets(packages.version("triton"), wanted.get("triton", "")) is False
    triton = (f"triton{wanted['triton']}",) if other else ()
    return (*names, *triton)


CHECKS = (torch_companion_mismatch,)
