"""Packages of the target that do not go with its torch: twice there, overwritten, or made for another one."""

from __future__ import annotations

import re

from envcheck.checks.hardware import import_failed, imported, nvidia
from envcheck.checks.passed_on import pass_on
from envcheck.checks.reinstall import once
from envcheck.checks.text import doubt, of_variant, quoted, value
from envcheck.engine.intents import UPGRADE, Install, Intent
from envcheck.engine.rule import Answer, Confidence, Evidence, Facts, Hit, Matches, Severity, check
from envcheck.facts.snapshot import Distribution, GpusFacts, PackagesFacts, TorchFacts
from envcheck.tables.compat import Tables
from envcheck.tables.library_packages import Provider, pinned
from envcheck.tables.versions import UNKNOWN, cuda_of_build, local, major, meets, minor, older, pair, release

FAMILY = ("torch", "torchvision", "torchaudio", "triton")


@check(needs="packages", reads="packages torch devices python symptoms")
def torch_duplicated(facts: Facts, matches: Matches) -> Answer:
    works, packages = imported(facts), facts.packages
    if apart := of_variant(matches, "user_site"):
        return Hit({name: value(apart, name) for name in ("path", "env")}, quoted(apart), variant="user_site")
    if told := of_variant(matches, "remains", "user_said"):
        return Hit({name: value(told, name) for name in ("module", "path")}, quoted(told), variant=told[0].variant)
    mixture = tuple(match for match in matches if "torch._C" in match.text or match.symptom == "torch-of-two-releases")
    if mixture and not works:
        return Hit({"name": value(mixture, "name")}, quoted(mixture), variant="files")
    if told := tuple(match for match in matches if "invalid distribution" in match.text):
        return Hit({"paths": f"~{value(told, 'name') or 'orch'}"}, quoted(told), variant="leftover")
    severity = Severity.WARNING if works else None
    if twice := tuple(name for name in packages.duplicates if name in FAMILY):
        return _listed_twice(facts, twice, severity)
    if mixed := _conda_and_pip(packages):
        evidence = tuple(Evidence("installed distributions", f"{row.name} {row.version} ({row.installer})") for row in mixed)
        return Hit({"conda": mixed[0].version, "pip": mixed[1].version}, evidence, variant="conda", severity=severity)
    rest = tuple(one for one in packages.leftovers if re.search(r"(?:^|/|\\)(?:~?t?orch\b|~?riton\b|torch-)", one))
    return Hit({"paths": rest}, variant="leftover", severity=Severity.INFO if works else None) if rest else None


def _listed_twice(facts: Facts, twice: tuple[str, ...], severity: Severity | None) -> Hit:
    rows = [row for row in facts.packages.distributions if row.name in twice]
    evidence = tuple(Evidence("installed distributions", f"{row.name} {row.version} in {row.location}") for row in rows[:6])
    confidence = None if severity or import_failed(facts.torch) else Confidence.LIKELY
    version = facts.torch.version
    fixes = once("torch", f"torch=={release(version)}", facts.packages, facts.python) if "torch" in twice and version else ()
    return Hit({"names": twice, "count": len(rows)}, evidence, fixes, severity=severity, confidence=confidence)


def _conda_and_pip(packages: PackagesFacts) -> tuple[Distribution, Distribution] | None:
    """conda's record of a torch and pip's in one environment, of different versions: pip wrote over conda's files."""
    conda = [row for row in packages.distributions if row.name in ("pytorch", "torch") and row.installer == "conda" and row.location]
    pip = [row for row in packages.distributions if row.name == "torch" and row.installer in ("pip", "uv") and row.location]
    for one in conda:
        for other in pip:
            # conda's record lies at <prefix>/conda-meta, pip's below <prefix>/lib: another prefix is another environment.
            prefix = re.sub(r"[/\\](?:conda-meta|lib|Lib).*", "", one.location or "")
            same = bool(prefix) and (other.location or "").startswith(prefix + "/")
            if same and release(one.version) != release(other.version):
                return one, other
    return None


@check(needs="packages", reads="packages torch")
def nvidia_packages_overwritten(facts: Facts) -> Answer:
    torch = facts.torch
    twins = _twins(facts)
    files = tuple(one for one in facts.packages.overwritten if "nccl" not in one)
    if not twins and not files:
        return None
    cuda, pins = major(torch.cuda or cuda_of_build(torch.version)), facts.tables.pins(torch.version) if torch.version else {}
    remove = tuple(name for names in twins for name in names)
    right = [name for name in remove if cuda and name.endswith(f"-cu{cuda}")]
    fixes: tuple[Intent, ...] = ()
    if twins and len(right) == len(twins):
        wanted = tuple(pinned(Provider(name), pins) for name in right)
        fixes = (Install(wanted, remove, reinstall=True, note="remove both, then write the right one again"),)
    evidence = tuple(Evidence("RECORD of the distributions", one) for one in files[:4])
    values = {"packages": remove or files[:3], "cuda": torch.cuda}
    return Hit(values, evidence, fixes, severity=None if import_failed(torch) else Severity.WARNING)


def _twins(facts: Facts) -> list[list[str]]:
    """Distributions of the same library for two CUDA majors."""
    found: dict[str, dict[str, None]] = {}
    for row in facts.packages.distributions:
        if name := re.fullmatch(r"(nvidia-[a-z]+)-cu\d\d", row.name):
            found.setdefault(name[1], {})[row.name] = None
    two = {name: list(names) for name, names in found.items() if len(names) > 1 and name != "nvidia-nccl"}  # which has a rule of its own
    return [names for name, names in two.items() if name in facts.tables.shared_files()]


# CUDA of torch → first bitsandbytes whose wheel has a library for it (file lists of the wheels on PyPI).
_BITSANDBYTES = (("13.2", "0.50.0"), ("13.0", "0.48.0"), ("12.9", "0.46.1"), ("12.8", "0.45.3"))


@check(needs="packages", reads="torch packages system symptoms")
def bitsandbytes_broken(facts: Facts, matches: Matches) -> Answer:
    there = facts.packages.version("bitsandbytes") or value(matches, "version")
    values: dict[str, object] = {"installed": there or UNKNOWN, "cuda": facts.torch.cuda}
    if there is None and matches and len(of_variant(matches, "absent")) == len(matches):
        return Hit(values, quoted(matches), variant="absent")
    newest = (Install(("bitsandbytes",), note="the newest release", flags=UPGRADE),)
    if forced := value(matches, "override"):
        return Hit(values | {"override": forced}, quoted(matches), newest, "override")
    if facts.system.os == "windows" and matches and there is None:
        newest = (Install(("bitsandbytes>=0.43.0",), note="the first releases for Windows had no CUDA library"),)
    if facts.system.os == "windows" and older(there, "0.43.0"):
        return Hit(values | {"first": "0.43.0"}, quoted(matches), (Install(("bitsandbytes>=0.43.0",)),), "windows")
    if error := value(matches, "error"):
        return Hit(values | {"error": error}, quoted(matches), newest, "kernel")
    first = dict(_BITSANDBYTES).get(facts.torch.cuda or "")
    if first and older(there, first):
        severity = None if matches else Severity.WARNING
        return Hit(values | {"first": first}, quoted(matches), (Install((f"bitsandbytes>={first}",)),), severity=severity)
    return Hit(values, quoted(matches), newest, "said", confidence=doubt(matches)) if matches else None


@check(needs="packages", reads="torch packages symptoms")
def pynvml_deprecated(facts: Facts, matches: Matches) -> Answer:
    there = facts.packages.version("pynvml")
    warned = [one for one in facts.torch.import_warnings if "pynvml" in one]
    # 12.0.0 is an empty package that requires nvidia-ml-py
    if not matches and not warned and not (older(there, "12.0.0") or pair(there) >= (13, 0)):
        return None
    evidence = (*quoted(matches), *(Evidence("import torch", one) for one in warned[:1]))
    return Hit({"installed": there or UNKNOWN}, evidence, (Install(("nvidia-ml-py",), ("pynvml",), reinstall=True),))


# "2.7.4.post1+cu12torch2.5cxx11abiFALSE"
_FLASH = re.compile(r"cu(?P<cuda>\d{2})\d*torch(?P<torch>\d+\.\d+)cxx11abi(?P<abi>TRUE|FALSE)", re.IGNORECASE)


@check(needs="packages", reads="torch packages gpus symptoms")
def flash_attn_mismatch(facts: Facts, matches: Matches) -> Answer:
    there = facts.packages.version("flash-attn")
    severity = None if matches else Severity.WARNING
    # pip would take the wheel that it built for the other torch from its cache
    flags = ("--no-build-isolation", "--no-cache-dir")
    wanted = f"flash-attn=={release(there)}" if release(there) and not matches else "flash-attn"  # a newer one may have the wheel
    note = "built for the torch that is installed: where there is no wheel for it, from source, which needs nvcc and can take hours"
    again = (Install((wanted,), ("flash-attn",), True, note, flags),)
    values: dict[str, object] = {"installed": there or UNKNOWN, "version": facts.torch.version or UNKNOWN}
    if wrong := _flash_built_for(there, facts.torch):
        return Hit(values | {"wrong": wrong, "cuda": facts.torch.cuda}, quoted(matches), again, severity=severity)
    if old := of_variant(matches, "toolkit"):
        return Hit(values | {"cuda": value(old, "cuda")}, quoted(old), variant="toolkit")
    if heavy := of_variant(matches, "memory"):
        return Hit(values, quoted(heavy), variant="memory", confidence=doubt(matches))
    unbuilt = of_variant(matches, "build")
    if unbuilt and len(unbuilt) == len(matches):
        return Hit(values, quoted(unbuilt), variant="build", confidence=Confidence.LIKELY)
    low, ampere = _all_below(facts.gpus, 8), any("Ampere" in match.text for match in matches)
    if ampere or (low and (major(there) or 0) >= 2):
        return Hit(values | {"gpu": low or "This GPU"}, quoted(matches), (), "gpu", None if ampere else Severity.WARNING)
    return Hit(values, quoted(matches), again, "said", confidence=doubt(matches)) if matches else None


def _flash_built_for(version: str | None, torch: TorchFacts) -> list[str]:
    """What a wheel of flash-attn was built for, where torch is something else."""
    built = _FLASH.search(local(version) or "")
    if built is None:
        return []
    differs = {
        f"torch {built['torch']}": torch.version and minor(torch.version) != minor(built["torch"]),
        f"CUDA {built['cuda']}": torch.cuda and str(major(torch.cuda)) != built["cuda"],
        f"C++ ABI {built['abi'].upper()}": torch.cxx11_abi not in (None, built["abi"].upper() == "TRUE"),
    }
    return [what for what, other in differs.items() if other]


def _all_below(gpus: GpusFacts, generation: int) -> list[str]:
    """The GPUs, in words, if each of them has a lower compute capability."""
    cards = [gpu for gpu in nvidia(gpus) if gpu.compute_capability]
    low = all((minor(gpu.compute_capability) or (generation, 0)) < (generation, 0) for gpu in cards)
    return [f"{gpu.name} ({gpu.compute_capability})" for gpu in cards] if low else []


def _asks(facts: Facts, name: str) -> str | None:
    """What torch an installed distribution asks for: by its own metadata, else by the table."""
    unmet = next((row for row in facts.packages.unmet if row.distribution == name and re.match(r"torch(?![\w-])", row.requirement)), None)
    if unmet:
        return unmet.requirement[len("torch") :].strip()
    version = facts.packages.version(name)
    if not version:
        return None
    row = facts.tables.pin_of(name, version)
    return row.torch if row else None


@check(needs="packages", reads="torch packages system symptoms")
def xformers_mismatch(facts: Facts, matches: Matches) -> Answer:
    torch = facts.torch
    there = facts.packages.version("xformers")
    values: dict[str, object] = {"installed": there, "version": torch.version}
    asks = _asks(facts, "xformers")
    if asks and meets(torch.version, asks) is False:
        fits = _xformers_for(torch.version, facts.tables)
        values |= {"asks": asks, "fits": fits or "none"}
        return Hit(values, quoted(matches), _xformers(fits, torch.version), None if fits else "none")
    built = next((row.built_for for row in facts.packages.distributions if row.name == "xformers"), None)
    cuda = cuda_of_build(built)
    # Its library links CUDA's runtime by major version (libcudart.so.12), and libtorch_cuda.so.
    if cuda and (torch.cuda or torch.cpu_build) and major(cuda) != major(torch.cuda):
        values |= {"built": built, "cuda": f"CUDA {torch.cuda}" if torch.cuda else "the CPU"}
        return Hit(values, quoted(matches), (), "cuda")  # the same wheel again changes nothing
    if not matches:
        return None
    have = value(matches, "have") or torch.version  # a list of packages may be of another environment
    mac = facts.system.os == "darwin"
    fixes = () if mac else _xformers(_xformers_for(have, facts.tables), have, again=True)
    return Hit({"built": value(matches, "built") or "another torch", "version": have or UNKNOWN}, quoted(matches), fixes, "said")


def _xformers_for(torch: str | None, tables: Tables) -> str | None:
    """The newest xformers that asks for this torch."""
    rows = [row for row in tables.third_party("xformers") if row.torch and meets(torch, row.torch)]
    return next(reversed([version for row in rows for version in row.versions]), None)


def _xformers(version: str | None, torch: str | None, again: bool = False) -> tuple[Intent, ...]:
    """xformers beside the torch that is there: by its version, else the newest one, with the torch that it asks for."""
    index = "from the index of torch's CUDA, if that is not PyPI's"
    if version:
        return (Install((f"xformers=={version}",), reinstall=again, note=index),)
    if torch:
        return ()
    return (Install(("xformers", "torch", "torchvision"), note="all three in one command: xformers names its torch", flags=UPGRADE),)


@check(needs="packages", reads="torch packages gpus symptoms")
def vllm_pin(facts: Facts, matches: Matches) -> Answer:
    torch, there = facts.torch, facts.packages.version("vllm")
    values: dict[str, object] = {"installed": there or UNKNOWN, "version": torch.version or UNKNOWN, "cuda": torch.cuda}
    severity, asks = None if matches else Severity.WARNING, _asks(facts, "vllm")
    judged = there and torch.version and not torch.hip and not torch.xpu
    if judged and asks and meets(torch.version, asks) is False and "a0" not in (torch.version or ""):
        note = f"this brings torch{asks} in place of {torch.version}; an environment of its own for vLLM leaves the torch here as it is"
        fixes = (Install((f"vllm=={release(there)}",), note=note),)
        return Hit(values | {"asks": asks}, quoted(matches), fixes, severity=severity)
    if judged and facts.tables.linked_cuda_major("vllm", there or "") == 13 and not cuda_of_build(there) and major(torch.cuda) == 12:
        return Hit(values, quoted(matches), (), "cuda", severity, None if matches else Confidence.LIKELY)
    if there and (low := _all_below(facts.gpus, 7)):
        return Hit(values | {"gpu": low}, quoted(matches), (), "gpu", severity)
    if attention := of_variant(matches, "attention"):
        return Hit(values, quoted(attention), variant="attention")
    return Hit(values, quoted(matches), variant="said") if matches else None


@check(needs="symptoms", reads="torch symptoms")
def helper_package_mismatch(facts: Facts, matches: Matches) -> Answer:
    """What a message says; the way into a build on Windows alone only of a torch whose builder needs Python's own distutils.

    From torch 1.5, which compiles with ninja there, to 1.7.0: https://github.com/pytorch/pytorch/pull/48618
    """
    way = tuple(one for one in matches if one.symptom == "distutils-of-setuptools")
    told = tuple(one for one in matches if one not in way)
    asks = older(facts.torch.version, "1.5") is False and older(facts.torch.version, "1.7.1")
    return pass_on(told or (way if asks else ()))
