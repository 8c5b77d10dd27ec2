"""Whether there is a torch, and whether it is a build that this machine can use."""

from __future__ import annotations

import re
from collections.abc import Mapping

from envcheck.checks import answer
from envcheck.checks.channel_builds import asked_of_no_build
from envcheck.checks.hardware import asked_of_amd, discrete_amd, discrete_intel, imported, named, nvidia
from envcheck.checks.origin import IMPORT
from envcheck.checks.reinstall import default_variant
from envcheck.checks.text import cite, doubt, first_of, foremost, of_symptom, of_variant, quoted, value
from envcheck.engine.intents import Intent, Manual, TorchBuild
from envcheck.engine.rule import Answer, Confidence, Evidence, Facts, Hit, Matches, Unknown, check
from envcheck.facts.record import replace
from envcheck.facts.snapshot import ImportStatus, Missing, PythonFacts, SystemFacts, TorchFacts, Why
from envcheck.tables.archs import platform_of
from envcheck.tables.torch_builds import PLATFORMS, Release
from envcheck.tables.versions import UNKNOWN, local, major, minor, older, pair


@check(needs="torch", reads="torch python symptoms")
def torch_missing(facts: Facts, matches: Matches) -> Answer:
    unread, python = facts.missing.get("torch"), facts.python
    if unread is None:
        if not matches or all(one.source == IMPORT for one in matches):
            return None  # not even this interpreter's own import finds it: what is damaged says so
        values: dict[str, object] = {"version": facts.torch.version, "python": python.executable or "the interpreter examined"}
        told = of_variant(matches, "kernel") if python.executable is None else ()
        return _isolated(matches) or Hit(values, quoted(told or matches), variant="kernel" if told else "elsewhere")
    absent, remains, other = unread.why is Why.ABSENT, unread.evidence, python.torch_for_another_python
    if not absent and (isolated := _isolated(matches)):
        return isolated
    if not absent and (apart := of_variant(matches, "kernel")):
        return Hit({}, quoted(apart), variant="kernel")
    values = {"python": python.executable or "this interpreter", "path": remains or other, "version": python.version}
    cases = {
        "said": unread.why is Why.SKIPPED and matches,
        "no_site": absent and python.no_site,
        "other_python": absent and other and not remains,
        "leftover": absent and remains,
        "default": absent,
    }
    return first_of(cases, values, quoted(matches))


def _isolated(matches: Matches) -> Hit | None:
    """A package that imports torch while it is built, in an environment that the installer makes for the build alone."""
    if not of_variant(matches, "isolated"):
        return None
    values = {"package": value(matches, "package") or "PACKAGE"}
    return Hit(values, quoted(matches), variant="isolated", confidence=doubt(matches))


def _is_cpu_build(torch: TorchFacts) -> bool:
    """Built without any accelerator. macOS builds carry MPS and do not count."""
    return not (torch.cuda or torch.hip or torch.xpu) and (torch.cpu_build is True or local(torch.version) == "cpu")


def _usually_cpu(facts: Facts) -> bool:
    """Torch has no device, only its bare version is stated, and a plain `pip install` of it brings no CUDA on this platform."""
    if not answer.fails(facts.devices):
        return False
    conda = facts.python.has_conda_meta or facts.python.environment == "conda" or facts.torch.conda
    return not conda and facts.system.os != "darwin" and not facts.system.jetson and default_variant(facts) == "cpu"


@check(needs="torch", reads="torch python devices backends gpus driver cuda_driver rocm xpu system toolkit symptoms asked packages")
def torch_cpu_build(facts: Facts, matches: Matches) -> Answer:
    """A CPU build beside an accelerator that a build of torch exists for. A CPU build on a CPU machine is healthy."""
    if beside := of_variant(matches, "beside"):  # whatever is known is known of the environment that works
        return _in_another_environment(facts, beside)
    matches, cards = () if facts.devices.available or facts.backends.xpu else matches, nvidia(facts.gpus)
    if "torch" in facts.absent:
        return None
    if asked := asked_of_no_build(facts, matches):
        return asked
    if not _is_cpu_build(facts.torch):
        return _usual_on_jetson(facts) or _build_not_stated(facts, matches)
    if facts.system.os == "darwin":
        return _cpu_said(facts, matches)
    values: dict[str, object] = {"version": facts.torch.version or UNKNOWN, "kind": "CUDA"}
    evidence = (Evidence("torch", f"version {values['version']}, CUDA none"), *quoted(matches))
    if cards or answer.driver_answers(facts.cuda_driver):
        if not facts.tables.builds_serve([gpu.compute_capability for gpu in cards if gpu.compute_capability]):
            return None
        jetson = facts.system.jetson or any("orin" in (gpu.name or "").lower() for gpu in cards)
        return Hit(values | {"gpu": named(cards) or "an NVIDIA GPU"}, evidence, variant="jetson" if jetson else None)
    if amd := discrete_amd(facts.rocm):
        return Hit(values | {"kind": "ROCm", "gpu": amd}, evidence, variant="amd")
    if intel := discrete_intel(facts.xpu):
        return Hit(values | {"kind": "XPU", "gpu": intel}, evidence, variant="intel")
    if matches or facts.asked.cuda:
        return _cpu_said(facts, matches) or _asked_for(facts, values, evidence)
    if "rocm" not in facts.missing and not facts.rocm.names and not facts.rocm.gfx:
        return None  # an AMD GPU without a name: rocm-build-mismatch speaks of it
    return _guessed(facts, values, evidence) or not_read("gpus", facts.missing)


def _in_another_environment(facts: Facts, matches: Matches) -> Hit:
    """One of two environments has the build with CUDA; the other one is to get one of its own release, for a CUDA near to that."""
    release, works, cuda = (value(matches, name) or "" for name in ("release", "works", "cuda"))
    values: dict[str, object] = {"release": release, "works": works, "kind": "CUDA"}
    if value(matches, "conda"):
        values |= {"cpuonly": "cpuonly", "spec": f"pytorch={release}=*cuda*"}
    else:
        platform = _platform(facts.system) or "linux-x86_64"
        builds = [one for one in facts.tables.builds(release) if one.cuda and one.platform == platform and one.exists != "low"]
        near = min(builds, key=lambda one: (major(one.cuda) != major(cuda), abs(pair(one.cuda)[1] - pair(cuda)[1])), default=None)
        values["index"] = near and near.index_url
    return Hit(values, quoted(matches), variant="beside", confidence=doubt(matches))


# Somebody tells that torch finds no GPU, or that the one that is there has nothing to do.
_DENIED = ("cuda-says-false", "colab-says-false", "kaggle-says-false", "gpu-unused", "words-cpu-alone")


def _guessed(facts: Facts, values: dict[str, object], evidence: tuple[Evidence, ...]) -> Hit | None:
    """No GPU is named, and something speaks for one."""
    if sign := _sign_of_a_gpu(facts):
        return Hit(values | {"sign": sign}, evidence, variant="sign")
    denied = of_symptom(facts, *_DENIED)
    return Hit(values, (*evidence, *quoted(denied)), variant="denied") if denied and "gpus" not in facts.absent else None


def _usual_on_jetson(facts: Facts) -> Hit | None:
    """No device on a Jetson, and nobody says that NVIDIA's own wheel is there: what pip brings by itself has no code for its GPU."""
    torch, matches = facts.torch, facts.said("torch-cuda-unavailable")
    if not facts.system.jetson or torch.cuda or "nv" in (local(torch.version) or "") or facts.devices.available:
        return None
    values = {"version": torch.version or UNKNOWN, "kind": "CUDA"}
    return Hit(values, quoted(matches), variant="jetson_usual") if matches or answer.fails(facts.devices) else None


def _asked_for(facts: Facts, values: dict[str, object], evidence: tuple[Evidence, ...]) -> Hit:
    """CUDA was asked for; there need not be a GPU in sight."""
    fix = Manual("Remove cpuonly, which holds conda to builds for the CPU.", commands=("conda remove cpuonly",))
    fixes = (fix,) if facts.packages.version("cpuonly") else ()
    return Hit(values, (*evidence, Evidence("asked for", facts.asked.cuda or "CUDA")), fixes, "asked")


def not_read(name: str, missing: Mapping[str, Missing]) -> Unknown | None:
    """For what only some builds of torch ask of a section."""
    lost = name in missing and missing[name].trouble
    return Unknown(f"{name}: {missing[name].reason}") if lost else None


def _sign_of_a_gpu(facts: Facts) -> str | None:
    """In a report that lists no GPU: a driver or a toolkit is a sign of one, not a proof."""
    if not _unlisted(facts.missing):
        return None
    if facts.driver.version:
        return f"NVIDIA driver {facts.driver.version}"
    return f"CUDA toolkit {facts.toolkit.nvccs[0].version or facts.toolkit.nvccs[0].path}" if facts.toolkit.nvccs else None


def _build_not_stated(facts: Facts, matches: Matches) -> Hit | None:
    """A build for something else, or one of which only the version is known, if that: the usual one may not be able to use the GPU."""
    if swapped := of_variant(matches, "replaced"):
        change = {name: value(swapped, name) for name in ("old", "new", "index")}
        return Hit({**change, "kind": "CUDA"}, quoted(swapped), variant="replaced")
    values = {"version": facts.torch.version, "kind": "CUDA", "gpu": named(nvidia(facts.gpus)) or "an NVIDIA GPU"}
    if facts.torch.cuda or facts.torch.hip or facts.torch.xpu or local(facts.torch.version):
        other = of_variant(matches, "other") and not answer.works(facts.devices)
        return Hit(values, quoted(matches), variant="other") if other else None
    on_mac = of_symptom(facts, *_DENIED) if facts.system.os == "darwin" and not matches else ()
    if on_mac:  # whatever the build: a Mac has no CUDA
        return Hit(values, quoted(on_mac), variant="mac", confidence=Confidence.LIKELY)
    idle = _usually_cpu(facts) and (nvidia(facts.gpus) or facts.driver.version)
    return _cpu_said(facts, matches) or (Hit(values, variant="usual") if idle and not matches else None)


def _cpu_said(facts: Facts, matches: Matches) -> Hit | None:
    """Only the error text speaks of a build without CUDA."""
    xpu = of_variant(matches, "xpu")
    cases = {
        "xpu_said": xpu,
        "intel_asked": of_variant(matches, "intel_asked"),
        "nix": of_variant(matches, "nix"),
        "mac": facts.system.os == "darwin",
        "jetson": facts.system.jetson,
        "no_gpu": (answer.no_gpu(facts) and _is_cpu_build(facts.torch)) or (of_variant(matches, "no_gpu") and not facts.gpus.devices),
        "integrated": facts.rocm.names and not discrete_amd(facts.rocm) and not facts.gpus.devices,
        "said": True,
    }
    values: dict[str, object] = {"version": facts.torch.version or UNKNOWN, "kind": "XPU" if xpu else "CUDA", "gpu": "the Jetson's GPU"}
    values["gpu"] = facts.rocm.names or values["gpu"]
    if not matches or asked_of_amd(facts):
        return None
    hit = first_of(cases, values, quoted(xpu or matches))
    return replace(hit, confidence=doubt(matches)) if hit and doubt(matches) else hit


@check(needs="torch", reads="torch devices gpus cuda_driver driver rocm system visibility symptoms")
def torch_cuda_unavailable(facts: Facts, matches: Matches) -> Answer:
    """The fallback: a GPU build, a GPU, and torch has no device. Rules that know the cause explain it away."""
    torch, devices, missing = facts.torch, facts.devices, facts.missing
    if devices.available or of_variant(matches, "interpreters"):
        return _in_another_process(facts, matches)
    if _without_a_gpu_build(torch, matches):
        return _no_device_said(facts, matches)
    error, cards = devices.error or next(iter(devices.warnings), None), named(nvidia(facts.gpus))
    if "devices" in missing:
        if unread := not_read("devices", missing):
            return unread if torch.import_status in (ImportStatus.OK, ImportStatus.SKIPPED) else None
        return _unavailable(torch, matches, cards or _UNNAMED, None, Confidence.LIKELY) if matches else None
    if devices.available is None or (facts.visibility.selected == () and not matches):
        return None  # hidden on purpose or by mistake: the visibility rules say which
    told = answer.driver_answers(facts.cuda_driver) or (facts.driver.version and _unlisted(missing))
    if card := (cards or ("an NVIDIA GPU" if told else "")) if torch.cuda else ", ".join(facts.rocm.names or facts.rocm.gfx):
        return _unavailable(torch, matches, card, error, None)
    if (matches or error) and "gpus" not in facts.absent:
        return _unavailable(torch, matches, _UNNAMED, error, Confidence.LIKELY, "unlisted" if _unlisted(missing) else None)
    if _unlisted(missing):
        return Unknown("torch has no device, and the input names neither a GPU nor a driver: run nvidia-smi and add its output")
    return not_read("gpus", missing)


def _in_another_process(facts: Facts, matches: Matches) -> Hit | None:
    """Torch finds a GPU, and with another interpreter or in another process it finds none."""
    if two := of_variant(matches, "interpreters"):
        return Hit({name: value(two, name) for name in ("works", "lacks")}, quoted(two), variant="interpreters")
    blind = tuple(one for one in matches if one.symptom in ("no-cuda-gpus", "framework-sees-no-gpu") and not one.quoted)
    return Hit({}, quoted(blind), variant="elsewhere") if blind and not facts.devices.devices else None


def _without_a_gpu_build(torch: TorchFacts, matches: Matches) -> bool:
    """No such build is known, or no build would help: the one GPU that is named is a part of the processor."""
    return not (torch.cuda or torch.hip) or bool(of_variant(matches, "onboard"))


def _no_device_said(facts: Facts, matches: Matches) -> Hit | None:
    """Who printed it saw no GPU, or who says so named the card; neither why nor what torch was built for is said."""
    if (onboard := of_variant(matches, "onboard")) and not facts.gpus.devices:
        return Hit({"gpu": value(onboard, "gpu")}, quoted(onboard), variant="onboard")
    torch, cards = facts.torch, named(nvidia(facts.gpus)) if answer.fails(facts.devices) else ""
    explained = _is_cpu_build(torch) or torch.xpu or facts.system.os == "darwin" or facts.absent & {"torch", "gpus"}
    evidence = quoted(matches) or cite("torch", cards and f"no CUDA device, beside {cards}")
    if not evidence or explained:
        return None
    variant, cuda = foremost(matches, "colab", "kaggle", "checkpoint", "notebook"), facts.driver.cuda
    if (
        not variant
        and facts.system.machine == "aarch64"
        and not (facts.system.jetson or local(torch.version))
        and re.match(r"1[2-9]", cuda or "")
    ):
        return Hit({"cuda": cuda, "index": "cu126" if (cuda or "").startswith("12") else "cu130"}, evidence, variant="arm")
    return Hit({}, evidence, variant=variant or "said")


def _unlisted(missing: Mapping[str, Missing]) -> bool:
    """Whether nobody says which GPUs there are: a text that tells of the driver alone."""
    return "gpus" in missing and missing["gpus"].why is Why.SKIPPED


_UNNAMED = "a GPU of unknown name"


def _unavailable(
    torch: TorchFacts, matches: Matches, gpu: str, error: str | None, confidence: Confidence | None, variant: str | None = None
) -> Hit:
    built = f"ROCm {torch.hip}" if torch.hip else f"CUDA {torch.cuda}"
    values = {"version": torch.version, "built": built, "gpu": gpu, "error": (error or "").rstrip(".")}
    return Hit(values, (*cite("torch", error), *quoted(matches)), variant="error" if error else variant, confidence=confidence)


def _tag(python: PythonFacts) -> str | None:
    """The interpreter as wheel tables name it: "3.13", "3.13t" for the free-threaded build."""
    series = minor(python.version)
    return f"{series[0]}.{series[1]}{'t' if python.free_threaded else ''}" if series else None


def _platform(system: SystemFacts) -> str | None:
    return platform_of(system.os, system.machine) if system.os and system.machine else None


@check(needs="python", reads="python system symptoms")
def python_unsupported(facts: Facts, matches: Matches) -> Answer:
    python, missing = facts.python, facts.missing
    wanted = matches or facts.said("no-matching-wheel")
    if of_variant(wanted, "musl"):  # another Python would meet the same C library
        return None
    if "python" in missing or "torch" not in missing or not (wanted or missing["torch"].why is Why.ABSENT):
        return None
    evidence = quoted(matches)
    tag, platform = _tag(python), _platform(facts.system) or "linux-x86_64"
    served = [tags for one in facts.tables.releases() if (tags := one.pythons.get(platform))]
    other: dict[str, object] = {"use": facts.tables.usual_python(platform)}
    if python.implementation and python.implementation != "cpython":
        return Hit({"implementation": python.implementation, "python": python.version, **other}, evidence, variant="implementation")
    if python.bits == 32:
        return Hit({"python": python.version, **other}, evidence, variant="bits")
    if tag is None:
        return Unknown("the version of the interpreter is not known")
    known = sorted({one for tags in served for one in tags}, key=lambda one: (pair(one), one))
    if not known or tag in known:
        return None
    values = {"python": tag, "platform": platform, "oldest": known[0], "newest": known[-1], "supported": served[-1], **other}
    return Hit(values, evidence, variant="new" if pair(tag) > (minor(known[-1]) or (99, 0)) else None)


@check(needs="torch", reads="python system symptoms")
def no_matching_wheel(facts: Facts, matches: Matches) -> Answer:
    if "torch" not in facts.absent and not matches:
        return None
    evidence, platform = quoted(matches), _platform(facts.system)
    if facts.system.libc == "musl" or of_variant(matches, "musl"):
        return Hit({"python": facts.python.version, "system": facts.system.distribution or "musl"}, evidence, variant="musl")
    alike = any(match.symptom in ("no-version-of-torch", "uv-no-wheel") for match in matches)
    if ("torch" in facts.absent or alike) and platform and not any(platform in one.pythons for one in facts.tables.releases()[-6:]):
        last = next((one.version for one in reversed(facts.tables.releases()) if platform in one.pythons), None)
        fixes = (TorchBuild(f"=={last}"),) if last else ()
        return Hit({"platform": platform, "last": last or "none", "python": facts.python.version}, evidence, fixes, "platform")
    if not matches or of_variant(facts.said("torch-companion-mismatch"), "conda"):  # the solver says why it found nothing
        return None
    return _for_intel_macs(facts, matches) or _for_another_machine(facts, matches, platform) or _no_file_said(facts, matches, platform)


def _for_intel_macs(facts: Facts, matches: Matches) -> Hit | None:
    """A release that has files for Apple silicon alone was asked for, and a Python of a Mac is not offered it."""
    wanted, system = _asked_file(matches)[0], facts.system
    asked = re.match(r"torch\s?(?:==|~=|>=?)\s?(\d{1,2}\.\d{1,2})", wanted)
    last = next((one.version for one in reversed(facts.tables.releases()) if "macos-x86_64" in one.pythons), None)
    if asked is None or last is None or system.os not in (None, "darwin") or system.machine == "arm64" or not older(last, asked[1]):
        return None
    told = max((one.values.get("versions", "") for one in matches), key=len, default="")
    ends_there = re.findall(r"(?<![\w.])\d+(?:\.\d+){1,2}(?![\w.])", told)[-1:] == [last]
    row = next((one for one in facts.tables.releases() if one.version.startswith(f"{asked[1]}.")), None)
    served = row is not None and _tag(facts.python) in row.pythons.get("macos-arm64", ())
    if not ends_there and not (served and system.os == "darwin"):
        return None
    return Hit({"requirement": wanted, "last": last}, quoted(matches), variant="intel_mac")


def _no_file_said(facts: Facts, matches: Matches, platform: str | None) -> Hit:
    if pins := of_variant(matches, "pins"):
        return Hit({name: value(pins, name) for name in ("pin", "asker", "need")}, quoted(pins), variant="pins")
    if of_variant(matches, "conda"):
        return Hit({}, quoted(matches), variant="conda")
    if told := _for_other_pythons(facts, matches, platform) or _of_an_installers_words(facts, matches):
        return told
    if other := _from_elsewhere(facts, matches, platform):
        return Hit({"requirement": _asked_file(matches)[0]}, quoted(matches), variant=other)
    index, builds = value(matches, "index"), facts.tables.builds()
    if index and re.fullmatch(r"cu\d{2,3}", index) and index not in {build.variant for build in builds}:
        seen = {build.variant for build in builds if "low" not in (build.confidence, build.exists)}
        newest = sorted((one for one in seen if re.fullmatch(r"cu\d{3}", one)), key=lambda one: int(one[2:]))[-3:]
        return Hit({"index": index, "newest": newest}, quoted(matches), variant="index")
    wanted, pinned = _asked_file(matches)
    python = facts.python.version or _dotted(value(matches, "abi"))
    values: dict[str, object] = {"requirement": wanted, "python": python, "platform": platform or "this platform"}
    if linux := _linux_alone(facts, matches, wanted):
        return Hit(values | {"package": linux}, quoted(matches), variant="linux_only")
    if offered := _another_release(facts, matches, wanted):
        return Hit(values | {"offered": offered}, quoted(matches), variant="absent")
    name = re.match(r"[\w.-]*\w", wanted)
    variant = None if python else "plain"
    if of_variant(matches, "old_pip") and not of_variant(matches, "sources") and facts.system.os in (None, "linux"):
        return Hit(values, quoted(matches), variant="old_pip", confidence=doubt(matches))
    if use := _of_2016(facts, matches, wanted, platform):
        variant, values["use"] = "sources", use
    if variant != "sources" and name and name[0] not in ("torch", "torchvision", "torchaudio", "pytorch"):
        return _other_package(facts, matches, values | {"package": name[0]})
    if platform == "linux-aarch64" and (pinned or local(wanted.partition("==")[2])):
        return Hit(values, quoted(matches), (TorchBuild(),), "arm")
    return Hit(values, quoted(matches), _other_python(facts, wanted, platform), variant)


def _for_another_machine(facts: Facts, matches: Matches, platform: str | None) -> Hit | None:
    """An installer that has seen every wheel of a release takes none, and the Python is one that it is made for: then it is the machine,
    and Intel Macs are those that newer releases left out."""
    wanted = _asked_file(matches)[0]
    number = re.fullmatch(r"torch==([\d.]+)", wanted.strip())
    row = facts.tables.release(number[1]) if number else None
    last = next((one.version for one in reversed(facts.tables.releases()) if "macos-x86_64" in one.pythons), None)
    if row is None or last is None or not older(last, row.version) or platform or facts.system.os not in (None, "darwin"):
        return None
    by_python = any(one.values.get("tag", "").startswith("Python") for one in matches)
    seen = any(one.symptom == "uv-no-wheel" for one in matches) and not by_python
    if not seen or _tag(facts.python) not in row.pythons.get("linux-x86_64", ()):
        return None
    values = {"requirement": wanted, "python": facts.python.version, "last": last}
    return Hit(values, quoted(matches), variant="machine", confidence=Confidence.LIKELY)


def _of_an_installers_words(facts: Facts, matches: Matches) -> Hit | None:
    """What the words alone decide: a list for pip that was given to conda, a solver without end, a file, a build of another index."""
    wanted = _asked_file(matches)[0]
    build = local(wanted.partition("==")[2]) or ""
    index = f"https://download.pytorch.org/whl/{build}" if re.fullmatch(r"cpu|xpu|cu\d{2,3}|rocm[\d.]+", build) else None
    if told := of_variant(matches, "conda_pip"):
        return Hit({"requirement": wanted, "index": index}, quoted(told), variant="conda_pip")
    if builds := of_variant(matches, "build_strings"):
        return Hit({"requirement": value(builds, "requirement")}, quoted(builds), variant="build_strings", confidence=doubt(builds))
    if slow := of_variant(matches, "solve"):
        return Hit({}, quoted(slow), variant="solve")
    if made := _made_for(value(matches, "wheel")):
        other = _for_another_system(facts, str(made["wheel"]))
        return Hit(made | other, quoted(matches), variant="system" if other else "wheel", confidence=doubt(matches))
    base = wanted.partition("+")[0]
    if build == "cpu" and any(base.partition("==")[2] in re.findall(r"[\w.+]+", one.values.get("versions", "")) for one in matches):
        return Hit({"requirement": wanted, "base": base}, quoted(matches), variant="bare")
    asked = any(
        re.search(r"download\.pytorch\.org|(?:index-url|find-links|-f)[ =]https?://", one.text) or "+" in one.values.get("versions", "")
        for one in matches
    )
    seen = value(matches, "index") or asked
    return Hit({"requirement": wanted, "index": index}, quoted(matches), variant="local") if index and not seen else None


_SYSTEMS = {"win": "Windows", "macosx": "macOS", "manylinux": "Linux", "linux": "Linux", "musllinux": "Alpine Linux"}


def _made_for(wheel: str | None) -> dict[str, object] | None:
    """Which Python, system and processor the tags of a wheel's name tell."""
    tags = re.search(r"-cp(3)(\d{1,2})-\w{1,12}-((win|macosx|manylinux|linux|musllinux)\w{2,60})\.whl$", wheel or "")
    if tags is None:
        return None
    machine = re.search(r"x86_64|amd64|arm64|aarch64|armv7l|universal2|win32|i686", tags[3])
    python = f"{tags[1]}.{tags[2]}"
    made = f"CPython {python} on {_SYSTEMS[tags[4]]} ({machine[0] if machine else tags[3]})"
    return {"wheel": wheel, "made": made, "use": python}


# What the last tag of a wheel's name begins with, by system, and how a person calls it
_TAGS = {"windows": (("win",), "Windows"), "darwin": (("macosx",), "macOS"), "linux": (("linux", "manylinux", "musllinux"), "Linux")}


def _for_another_system(facts: Facts, wheel: str) -> dict[str, object]:
    """What to ask for by its name, where this machine runs another system than the file is for; {} where it does not, or nobody says."""
    tags, name = _TAGS.get(facts.system.os or "", ((), ""))
    file = wheel.replace("\\", "/").rpartition("/")[2]
    asked = re.match(r"([A-Za-z]\w{0,60})-(\d[\w.]{0,30})(?:(?:\+|%2B)(cu\d{2,3}))?[\w.+%]{0,30}-", file)
    if not tags or file.rpartition("-")[2].startswith(tags) or asked is None:
        return {}
    index = f"https://download.pytorch.org/whl/{asked[3]}" if asked[3] and facts.system.os != "darwin" else None
    what = f"{asked[1].replace('_', '-')}=={asked[2]}"
    return {"here": name, "package": asked[1].replace("_", "-"), "bare": None if index else what, "what": what, "index": index}


_OF_TORCH, _CUDA_BY_CONDA = re.compile(r"(?:py)?torch(?:vision|audio)?\b(?!-)"), re.compile(r"cudatoolkit\b|pytorch-cuda\b")


def _from_elsewhere(facts: Facts, matches: Matches, platform: str | None) -> str | None:
    """Where the machine's torch comes from another place than the one that was asked: a Jetson's from NVIDIA (up to Orin; Thor takes
    PyTorch's own), conda's for ARM from conda-forge; and CUDA by itself from no channel for a system without it."""
    wanted, by_conda = _asked_file(matches)[0], any(one.symptom == "conda-not-found" for one in matches)
    cuda = bool(_CUDA_BY_CONDA.match(wanted))
    older_jetson = facts.system.jetson and not re.search(r"^3[89]|thor", facts.system.jetson, re.IGNORECASE)
    if older_jetson and (cuda or _OF_TORCH.match(wanted)):
        return "jetson"
    if by_conda and platform == "linux-aarch64":
        return "conda_arm"
    return "conda_cuda" if by_conda and cuda else None


# Of what training stacks require, the packages that have wheels for Linux and no other system.
_LINUX_ALONE = ("vllm", "sglang", "sgl-kernel", "nvidia-nccl-cu11", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "nvidia-nvshmem-cu12",
                "nvidia-nvshmem-cu13", "nvidia-cufile-cu12", "isaacgym", "deepspeed-kernels", "flashinfer-python")  # fmt: skip


def _linux_alone(facts: Facts, matches: Matches, wanted: str) -> str | None:
    """The package, where this is Windows and it has files for Linux alone."""
    if of_variant(matches, "linux_only"):
        return value(matches, "package") or "Isaac Gym"
    name = re.match(r"[\w.-]*\w", wanted)
    return name[0] if name and facts.system.os == "windows" and name[0].lower() in _LINUX_ALONE else None


def _offers(matches: Matches) -> str:
    """The list of releases that an installer was offered. What is quoted of it may be cut."""
    return max((one.values.get("versions", "") for one in matches), key=len, default="")


def _another_release(facts: Facts, matches: Matches, wanted: str) -> str | None:
    """The newest release that the index offers, where it offers torch to this pip and the one asked for was never published there."""
    asked = re.fullmatch(r"torch==(\d[\w.]{0,20})", wanted)
    listed = re.findall(r"(?<![\w.])\d{1,9}(?:\.\d{1,9}){1,2}(?![\w.])", _offers(matches))
    real = [one for one in listed if not older(one, "0.3")]
    if asked is None or not real or facts.tables.release(asked[1]) or asked[1] in listed or all(older(asked[1], one) for one in real):
        return None  # a list that begins later is that of a Python which came later
    near = [one for one in real if minor(one) == minor(asked[1])]
    return str(max(near or real, key=lambda one: [int(part) for part in one.split(".")]))


def _asked_file(matches: Matches) -> tuple[str, str | None]:
    """What was asked for, as a requirement; the version of it where uv or poetry names one."""
    pinned, package = value(matches, "pinned"), value(matches, "package")
    return value(matches, "requirement") or (f"{package or 'torch'}=={pinned}" if pinned else package or "torch"), pinned


def _dotted(tag: str | None) -> str | None:
    """ "3.13" of a wheel's tag "cp313"."""
    return f"{tag[0]}.{tag[1:]}" if tag else None


def _other_package(facts: Facts, matches: Matches, values: dict[str, object]) -> Hit:
    """A package beside torch of which the index has no file for this Python: those with compiled parts are months behind a new one."""
    fixes = (_TRITON,) if values["package"] == "triton" and facts.system.os != "linux" else ()  # another build of torch would not bring it
    have, sure = minor(facts.python.version), doubt(matches)
    if fixes or have is None or (3, 9) <= have <= (3, 11):
        return Hit(values, quoted(matches), fixes, "other", confidence=sure)
    values |= {"use": "3.11", "python": facts.python.version}  # which most of what has compiled parts serves, of old releases and new
    return Hit(values, quoted(matches), variant="other_python", confidence=sure)


def _of_2016(facts: Facts, matches: Matches, wanted: str, platform: str | None) -> str | None:
    """A Python that has wheels, where the index offers nothing but the packages of 2016 for want of one."""
    if not of_variant(matches, "sources"):
        return None
    pinned = re.match(r"torch\s?(?:==|~=|<=?)\s?(\d{1,2}\.\d{1,2})", wanted)
    series = (minor(pinned[1]) or (9, 9)) if pinned else (9, 9)
    unpacked = value(matches, "archive")  # pip took one of them
    if not unpacked and facts.python.version and not (facts.system.os == "windows" and series < (1, 7)):
        return None
    last = "3.7" if series < (1, 4) else _LAST_PYTHON.get(series)
    return last or facts.tables.usual_python(platform)


_TRITON = Manual(
    "triton has wheels for Linux alone. On Windows its build is called triton-windows (of the series that belongs to this torch), or run"
    " under WSL; without it train without torch.compile.",
    commands=("python -m pip install -U triton-windows",),
)

# Releases before those of the tables, with the newest Python that they have wheels for: https://pypi.org/project/torch/#history
_LAST_PYTHON = {(1, 4): "3.8", (1, 5): "3.8", (1, 6): "3.8", (1, 7): "3.9", (1, 8): "3.9", (1, 9): "3.9", (1, 10): "3.9"}


def _pythons(row: Release, system: SystemFacts, platform: str | None) -> tuple[str, ...]:
    """The Pythons that a release has wheels for: on this platform, as far as it is known, or on each of the usual ones."""
    usual = ("linux-x86_64", "windows-x86_64", "macos-arm64")
    named = platform or (platform_of(system.os, "arm64" if system.os == "darwin" else "x86_64") if system.os else None)
    there = [set(tags) for one in ((named,) if named else usual) if (tags := row.pythons.get(one))]
    every = set.intersection(*there) if there else set()
    return tuple(sorted(every, key=lambda one: (pair(one), one)))


def _served(facts: Facts, wanted: str, platform: str | None) -> tuple[str, list[str]]:
    """A release of torch that is asked for by its number, and the Pythons that it has wheels for, as far as they are known."""
    number = re.fullmatch(r"torch==([\d.]+)(?:\+\w+)?", wanted.strip())
    row = facts.tables.release(number[1]) if number else None
    served = [one for one in _pythons(row, facts.system, platform) if not one.endswith("t")] if row else []
    old = _LAST_PYTHON.get(pair(number[1])) if number and not served else None
    return number[1] if number else "", served or (["3.6", old] if old else [])


def _other_python(facts: Facts, wanted: str, platform: str | None) -> tuple[Intent, ...]:
    """An environment with a Python that the wanted release has wheels for, where this one is not known."""
    number, plain = _served(facts, wanted, platform)
    if not plain or facts.python.version:
        return ()
    oldest, newest = plain[0], plain[-1]
    text = f"torch {number} has wheels for Python {oldest} to {newest} only: make an environment with one of these."
    return (Manual(text, commands=(f"conda create -n torch-env python={newest}", f"uv venv -p {newest}"), choose=True),)


def _for_other_pythons(facts: Facts, matches: Matches, platform: str | None) -> Hit | None:
    """The release that was asked for has wheels, and none for this Python; where nobody says which that is, the list of offers does."""
    wanted, _ = _asked_file(matches)
    number, plain = _served(facts, wanted, platform)
    python = _series(facts.python.version or _dotted(value(matches, "abi"))) or _of_a_list(facts, matches, platform)
    if not (plain and python) or python in plain or any(one.variant for one in matches) or platform == "linux-aarch64":
        return None
    build = local(wanted.partition("==")[2]) or ""
    index = f"https://download.pytorch.org/whl/{build}" if re.fullmatch(r"cpu|cu\d{2,3}", build) else None
    first = next((row.version for row in facts.tables.releases() if python in _pythons(row, facts.system, platform)), None)
    values: dict[str, object] = {"requirement": wanted, "release": number, "python": python, "oldest": plain[0], "newest": plain[-1]}
    values |= {"bare": None if index else wanted, "index": index, "first": first}
    return Hit(values, quoted(matches), variant="python", confidence=doubt(matches))


def _series(version: str | None) -> str | None:
    """ "3.12" of "3.12.4"; None of a Python before 3, of which the tables say nothing."""
    found = minor(version)
    return f"{found[0]}.{found[1]}" if found and found[0] == 3 else None


def _of_a_list(facts: Facts, matches: Matches, platform: str | None) -> str | None:
    """The Python whose first release is the oldest that was offered, where the list is PyPI's. With the first release of the tables
    more than one may begin."""
    told = _offers(matches)
    listed = re.findall(r"(?<![\w.])\d{1,2}(?:\.\d{1,2}){2}(?![\w.])", told)
    if not listed or "+" in told or value(matches, "index"):
        return None
    places = (platform,) if platform else PLATFORMS
    before, found = set[tuple[str, str]](), set[str]()
    for row in facts.tables.releases():
        now = {(place, one) for place in places for one in row.pythons.get(place, ()) if not one.endswith("t")}
        found |= {one for place, one in now - before if row.version == listed[0] and before}
        before |= now
    return found.pop() if len(found) == 1 else None


@check(needs="system", reads="system torch devices symptoms")
def glibc_too_old(facts: Facts, matches: Matches) -> Answer:
    system, torch = facts.system, facts.torch
    if matches:
        needed, by = value(matches, "needed"), value(matches, "required_by") or ""
        if needed and older(system.glibc, needed) is False:
            return Unknown(f"GLIBC_{needed} is reported missing, but the system has {system.glibc}: another machine or another C library")
        values = {"needed": needed or "a newer glibc", "glibc": system.glibc or "older", "library": by or "a library"}
        if by and "/torch/" not in by:
            return Hit(values | {"version": torch.version}, quoted(matches), variant="companion")
        return Hit(values | {"version": torch.version}, quoted(matches), (TorchBuild(_below_glibc(facts, needed)),))
    row = facts.tables.release(torch.version) if torch.version and not torch.conda and not imported(facts) else None
    floor = row.glibc.get(system.machine) if row and system.machine else None
    if not floor or older(system.glibc, floor) is not True:
        return None
    confidence = None if torch.import_status is ImportStatus.ERROR else Confidence.LIKELY
    return Hit({"needed": floor, "glibc": system.glibc, "version": torch.version}, variant="table", confidence=confidence)


def _below_glibc(facts: Facts, needed: str | None) -> str | None:
    """The newest release that asks for less than what is missing, where nothing else tells which glibc this system has."""
    if facts.system.glibc or not needed:
        return None
    floors = ((row.version, row.glibc.get(facts.system.machine or "x86_64")) for row in reversed(facts.tables.releases()))
    return next((f"=={version}" for version, floor in floors if floor and older(floor, needed)), None)


@check(needs="system", reads="system torch devices symptoms")
def cpu_too_old(facts: Facts, matches: Matches) -> Answer:
    system, torch = facts.system, facts.torch
    died = torch.import_failure is not None and torch.import_failure.signal == "SIGILL"
    x86 = system.cpu_flags_read and system.machine in ("x86_64", "AMD64", "amd64", None)
    lacking = [flag for flag in ("avx", "avx2") if x86 and flag not in system.cpu_flags]
    values = {"cpu": system.cpu_model or "this CPU", "lacking": lacking or "the instruction in question", "version": torch.version}
    evidence = (*cite("import torch", "killed by SIGILL" if died else None), *quoted(matches))
    if not died and not matches:
        tried = imported(facts) or torch == TorchFacts()
        return Hit(values, variant="flags") if "avx" in lacking and not tried else None
    if lacking:
        return Hit(values, evidence)
    if x86 and not died:
        return Unknown("an illegal instruction is reported, but the CPU has AVX and AVX2: run envcheck on the machine where it happens")
    return Hit(values, evidence, variant="unsure")
