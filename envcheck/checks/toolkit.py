"""The CUDA toolkit and the compilers: they matter for building extensions and for torch.compile, never for a wheel alone."""

from __future__ import annotations

import re

from envcheck.checks import answer
from envcheck.checks.compilers_told import failed_beside
from envcheck.checks.gpu import NO_KERNEL, code_of_build
from envcheck.checks.hardware import cuda_works, nvidia
from envcheck.checks.origin import IMPORT
from envcheck.checks.rebuild import OF_PYG, PYG_NAMES, again, by_its_page, from_pyg, package_of, with_its_user
from envcheck.checks.text import agreed, doubt, first_of, foremost, of_symptom, of_variant, quoted, value
from envcheck.engine.intents import Intent, Manual, SetEnv
from envcheck.engine.rule import Answer, Confidence, Evidence, Facts, Hit, Matches, Severity, check
from envcheck.facts.record import replace
from envcheck.facts.snapshot import Gpu, GpusFacts, ToolkitFacts, TorchFacts
from envcheck.tables.archs import arch_number, cubins, runs_on
from envcheck.tables.compat import Tables
from envcheck.tables.gpu_names import capability_named as capability_of
from envcheck.tables.versions import UNKNOWN, cuda_of_build, local, major, minor


@check(needs="toolkit", reads="toolkit python torch symptoms")
def cuda_home_missing(facts: Facts, matches: Matches) -> Answer:
    """torch takes CUDA_HOME and CUDA_PATH without a look whether the folder exists (torch/utils/cpp_extension.py, _find_cuda_home)."""
    name, home = _cuda_home(facts)
    if not matches and answer.wants_cuda(facts.torch) is False:  # torch builds nothing for CUDA then, and does not ask
        return None
    severity = None if matches else Severity.WARNING
    values: dict[str, object] = {"name": name, "home": home, "cuda": facts.torch.cuda}
    if home and (":" in home.strip(":") or home != home.strip(":")) and not re.match(r"[A-Za-z]:[\\/]", home):
        one = next((part for part in home.split(":") if part), None)
        return Hit(values, quoted(matches), (SetEnv(name, one),) if one else (), "list", severity)
    if listed := value(matches, "list"):
        where = re.sub(r"/(?:bin/nvcc|include)$", "", listed)
        return Hit(values | {"home": where}, quoted(matches), (SetEnv("CUDA_HOME", where.strip(":")),), "list")
    if home and facts.toolkit.cuda_home == home and facts.toolkit.cuda_home_exists is False:
        paths = [nvcc.path.removesuffix("/bin/nvcc") for nvcc in facts.toolkit.nvccs if nvcc.version and nvcc.path.endswith("/bin/nvcc")]
        fix = SetEnv(name, paths[0]) if paths else SetEnv(name, None, "torch then looks for nvcc on PATH and in /usr/local/cuda")
        return Hit(values, quoted(matches), (fix,), severity=severity)
    number = facts.torch.cuda
    values["toolkit"] = f"cuda-toolkit={number or 'MAJOR.MINOR'}"
    values["package"] = f"cuda-toolkit-{(number or 'MAJOR-MINOR').replace('.', '-')}"
    special = foremost(matches, "cudnn", "libdevice") or "said"
    return Hit(values, quoted(matches), variant=special, confidence=doubt(matches)) if matches else None


def _cuda_home(facts: Facts) -> tuple[str, str | None]:
    """The variable from which torch would take the toolkit's folder, and the folder that it names."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if home := facts.python.variables.get(name):
            return name, home
    source = facts.toolkit.cuda_home_source
    return (source, facts.toolkit.cuda_home) if source in ("CUDA_HOME", "CUDA_PATH") else ("CUDA_HOME", None)


def _nvcc(toolkit: ToolkitFacts) -> str | None:
    """Version of the nvcc that torch.utils.cpp_extension would take; the first one found where that is not known."""
    return next((one.version for one in (toolkit.nvcc, *toolkit.nvccs) if one and one.version), None)


# The index of the CUDA of this major that most drivers of today run.
_INDEX_OF_MAJOR = {11: "cu118", 12: "cu126", 13: "cu130"}


@check(needs="toolkit", reads="toolkit torch devices packages symptoms")
def nvcc_major_mismatch(facts: Facts, matches: Matches) -> Answer:
    """nvcc of another CUDA major than torch: extensions cannot be built. A wheel alone does not care."""
    toolkit = facts.toolkit
    cuda, nvcc = value(matches, "torch_cuda") or facts.torch.cuda, value(matches, "nvcc") or _nvcc(toolkit)
    asks = {"nvcc": nvcc or "of this toolkit", "cuda": cuda or UNKNOWN}
    for variant, name in (("option", "option"), ("names", "asked")):
        if asked := value(matches, name):
            return Hit(asks | {name: asked}, quoted(matches), variant=variant, severity=Severity.ERROR)
    same = nvcc is not None and cuda is not None and major(nvcc) == major(cuda)
    if matches:
        values = {"nvcc": nvcc or "another version", "cuda": cuda or "another version"}
        places = _places(cuda) | {"index": _INDEX_OF_MAJOR.get(major(nvcc) or 0)}
        return Hit(places | values, quoted(matches), variant="minor" if same else "said", severity=Severity.ERROR)  # the build was refused
    if not nvcc or not cuda or same:
        return None
    evidence = (Evidence(toolkit.nvcc.path if toolkit.nvcc else "nvcc", f"release {nvcc}"), Evidence("torch.version.cuda", cuda))
    # In an environment that was read this is everyday, the more if its torch has answered; where nothing else is known it is the lead.
    lead = facts.devices.available is None and not facts.packages.distributions
    return Hit({"nvcc": nvcc, "cuda": cuda}, evidence, severity=Severity.WARNING if lead else None)


def _places(cuda: str | None) -> dict[str, object]:
    """What a toolkit of that CUDA is called: a folder, a label of conda's channel, and the variable that the installer on Windows sets."""
    if (series := minor(cuda)) is None:
        return {}
    first, second = series
    return {"toolkit": f"{first}.{second}", "label": f"{first}.{second}.0", "named": f"{first}_{second}"}


_OF_A_BUILD = ("ninja", "missing", "headers", "pair", "libc", "crypt", "mpi", "msvc")


@check(needs="toolkit", reads="toolkit system gpus torch symptoms")
def nvcc_host_compiler(facts: Facts, matches: Matches) -> Answer:
    nvcc = _nvcc(facts.toolkit)
    gcc = value(matches, "compiler_version") or facts.toolkit.gcc
    row = facts.tables.host_compiler(nvcc) if nvcc else None
    limit = value(matches, "limit") or (row.max_gcc if row else None)
    values: dict[str, object] = {"nvcc": nvcc or "of this toolkit", "gcc": gcc or "the host compiler", "limit": limit or "its limit"}
    if (told := of_variant(matches, "failed")) and len(told) == len(matches):
        return failed_beside(facts, told, nvcc)
    severity = Severity.ERROR if matches else None
    if row and row.max_gcc is not None and gcc and (major(gcc) or 0) > row.max_gcc:
        return Hit(values, quoted(matches), (_older_gcc(row.max_gcc),), severity=severity)
    if not matches:
        return None
    if of_variant(matches, "standard") and not limit:
        return Hit(values | {"standard": value(matches, "standard")}, quoted(matches), variant="standard", severity=severity)
    alone = foremost(matches, "msvc") or agreed(matches)
    values |= {name: value(matches, name) for name in ("header", "function")}
    if alone not in _OF_A_BUILD:
        newest = major(value(matches, "limit") or value(matches, "most"))
        return Hit(values, quoted(matches), (_older_gcc(newest),) if newest else (), "said", severity, doubt(matches))
    return Hit(values, quoted(matches), variant=alone, severity=severity, confidence=doubt(matches))


def _older_gcc(newest: int) -> Manual:
    take = f"export CC=gcc-{newest} CXX=g++-{newest} NVCC_PREPEND_FLAGS='-ccbin g++-{newest}'"
    put = f"sudo apt install gcc-{newest} g++-{newest}    # Ubuntu, Debian"
    conda = f"conda install -c conda-forge gxx_linux-64={newest}    # in a conda environment, in the place of both: it sets CC and CXX"
    return Manual(f"Install gcc {newest} beside the present one, let nvcc take it, and build again.", commands=(put, take, conda))


@check(needs="packages toolkit", reads="toolkit python packages system torch symptoms")
def triton_toolchain(facts: Facts, matches: Matches) -> Answer:
    series, toolkit = minor(facts.python.version), facts.toolkit
    values: dict[str, object] = {"python": f"{series[0]}.{series[1]}" if series else "3"}
    if matches:
        values |= {"target": value(matches, "arch") or "this GPU", "cuda": value(matches, "cuda") or "of the ptxas found"}
        values |= {name: value(matches, name) for name in ("gpu", "needs", "refused", "feature", "name")}
        values["series"] = _triton_for_windows(facts)
        kind = foremost(
            matches, "refused", "headers", "libs", "old", "gpu", "libcuda", "feature", "ptxas", "cc", "compiler", "install", "key"
        )
        return Hit(values, quoted(matches), (), kind, Severity.ERROR, Confidence.LIKELY if kind in ("refused", "install") else None)
    if not facts.packages.version("triton") or facts.system.os != "linux" or not (facts.torch.cuda or facts.torch.hip):
        return None
    no_compiler = "toolkit" not in facts.missing and not (toolkit.compiler or toolkit.gcc or toolkit.clang)
    return first_of({"compiler": no_compiler, "headers": facts.python.include_python_h is False}, values)


def _triton_for_windows(facts: Facts) -> str | None:
    """The series of triton-windows for this torch, where both are known: 3.1 is the first, and serves torch 2.4 as well."""
    series = minor(facts.tables.companion_specifiers(facts.torch.version or "").get("triton", "").lstrip("=~"))
    return f"{series[0]}.{max(series[1], 1)}" if series and series[0] >= 3 else None


@check(needs="python gpus", reads="system python gpus devices torch symptoms")
def extension_arch_mismatch(facts: Facts, matches: Matches) -> Answer:
    if facts.torch.hip:
        return None
    if left_out := _left_out(facts.python.variables.get("TORCH_CUDA_ARCH_LIST", ""), facts.gpus, matches):
        return left_out
    if matches:
        target = value(matches, "arch")
        if told := of_variant(matches, "told"):
            matches = tuple(one for one in matches if one not in told)
            if not matches:
                return _told_of_cards(facts, told)
        if beside := _beside_torch(facts, matches):
            return beside
        if (alone := agreed(matches)) in ("no_gpu", "engine", "floor"):
            return Hit({"function": value(matches, "function")}, quoted(matches), variant=alone)
        if refused := of_variant(matches, "refused"):
            return Hit({"card": value(refused, "card")}, quoted(refused), variant="refused")
        # the folder above csrc is named as the package is: /build/mmcv/csrc/…, ../xformers/csrc/…
        owner = re.search(r"(?:^|[/\\])(\w[\w-]{1,40})[/\\]csrc[/\\]", value(matches, "file") or "")
        package = owner[1] if owner else "PACKAGE"
        values = {"arch": target or "this GPU", "capability": _capability(facts.gpus) or _LISTED, "package": package}
        values["first"] = _first_cuda(target or "", facts.tables)
        return Hit(values, quoted(matches), variant="nvcc" if target else "said")
    if any(NO_KERNEL in (one.kernel_error or "") for one in facts.devices.devices):
        return None  # envcheck's own kernel is one of torch's, and has no image either
    return _torch_is_fine(facts)


_LISTED = "CAPABILITIES"  # where no card is named: whoever runs the command fills in what nvidia-smi lists


def _beside_torch(facts: Facts, matches: Matches) -> Hit | None:
    """Somebody says that torch's own kernels run on the card on which a library has none."""
    told = of_variant(matches, "beside_torch")
    values = {"cards": _named(list(nvidia(facts.gpus))) or ["not named"], "capability": _capability(facts.gpus) or _LISTED}
    return Hit(values, quoted((*told, *of_symptom(facts, "no-kernel-image"))), variant="beside_torch") if told else None


def _first_cuda(arch: str, tables: Tables) -> str | None:
    """The first CUDA whose nvcc knows "compute_80", "sm_90a"."""
    row = tables.gpu("{}.{}".format(*arch_number(arch)))
    return row.first_cuda if row else None


def _told_of_cards(facts: Facts, told: Matches) -> Hit:
    """The fix builds for every card that is named: the one where it ran must not lose it."""
    named = [one for one in (value(told, "cards") or "").split("; ") if one]
    capabilities = sorted({found for one in named if (found := capability_of(one, facts.tables))})
    listed = ";".join(capabilities) or _capability(facts.gpus) or _LISTED
    return Hit({"cards": named or _named(list(nvidia(facts.gpus))) or ["this GPU"], "capability": listed}, quoted(told), variant="told")


def _capability(gpus: GpusFacts) -> str | None:
    """As TORCH_CUDA_ARCH_LIST takes it: "8.6", "8.0;9.0"."""
    return ";".join(sorted({gpu.compute_capability for gpu in nvidia(gpus) if gpu.compute_capability})) or None


def _left_out(listed: str, gpus: GpusFacts, matches: Matches) -> Hit | None:
    """The GPUs on which no entry of TORCH_CUDA_ARCH_LIST runs ("8.0", "9.0a", "8.0+PTX"); names of groups ("Hopper") are not judged."""
    entries = [one for one in re.split(r"[ ;,]+", listed) if one]
    codes = [re.fullmatch(r"(\d{1,2})\.(\d)([af]?)(\+PTX)?", one) for one in entries]
    archs = [f"sm_{code[1]}{code[2]}{code[3]}" for code in codes if code]
    archs += [f"compute_{code[1]}{code[2]}{code[3].strip('f')}" for code in codes if code and code[4]]
    left = [gpu for gpu in nvidia(gpus) if runs_on(archs, gpu.compute_capability or "") is False]
    if not left or None in codes:
        return None
    suffix = "a" if all(one.endswith("a") for one in entries) else ""
    more = sorted({f"{gpu.compute_capability}{suffix}" for gpu in left})
    fix = SetEnv("TORCH_CUDA_ARCH_LIST", " ".join([*entries, *more]), "then build the extensions again")
    return Hit({"list": listed, "gpus": _named(left)}, quoted(matches), (fix,), severity=None if matches else Severity.WARNING)


def _named(cards: list[Gpu]) -> list[str]:
    return sorted({f"{gpu.name} ({gpu.compute_capability})" for gpu in cards})


def _torch_is_fine(facts: Facts) -> Hit | None:
    """ "no kernel image" although torch's own kernels run here: then it is the extension that lacks them."""
    blamed = tuple(match for match in facts.said("gpu-too-new-for-torch") if match.symptom == "no-kernel-image")
    cards, code = [gpu for gpu in nvidia(facts.gpus) if gpu.compute_capability], code_of_build(facts)
    archs = cubins(code.archs or ())
    served = bool(cards and archs) and all(runs_on(archs, gpu.compute_capability or "", code.cuda) is True for gpu in cards)
    proved = cuda_works(facts.devices) and any(one.kernel == "ok" for one in facts.devices.devices)
    if not blamed or not (served or proved):
        return None
    sure = None if proved or facts.torch.arch_list else Confidence.LIKELY
    values = {"gpus": _named(cards) or ["the GPU"], "capability": _capability(facts.gpus)}
    return Hit(values, quoted(blamed), variant="torch_is_fine", confidence=sure)


# Wheels of the PyG project carry both in their name: torch_scatter-2.1.2+pt21cu121.
_PYG = re.compile(r"pt(?P<torch>\d{2,3})(?P<build>cu\d{2,3}|cpu)")


@check(needs="packages", reads="packages torch symptoms")
def extension_abi_mismatch(facts: Facts, matches: Matches) -> Answer:
    # What torch's own import says is about torch: no extension has been loaded then.
    matches = tuple(one for one in matches if one.source != IMPORT)
    values: dict[str, object] = {"version": facts.torch.version or UNKNOWN, "cuda": facts.torch.cuda}
    if wrong := [line for name in PYG_NAMES if (line := _built_for_another(name, facts.packages.version(name), facts.torch))]:
        evidence = (*(Evidence("installed distributions", one) for one in wrong), *quoted(matches))
        return Hit(values | {"wrong": "; ".join(wrong)}, evidence, severity=None if matches else Severity.WARNING)
    if not matches:
        return None
    said_ = _abi_said(values, matches)
    library = str(said_.values["library"])
    fixes: tuple[Intent, ...]
    if said_.variant == "crash" and library == OF_PYG:
        fixes = from_pyg(facts.torch, said_.values.get("cuda"), PYG_NAMES[:4])
    elif said_.variant in _CURED_BY_TEXT:
        fixes = ()
    elif said_.variant == "partner":
        fixes = with_its_user(library)
    else:
        fixes = by_its_page(library, facts.torch) or again(library, facts.torch, said_.values.get("cuda"))
    return replace(said_, values={**said_.values, "package": None if fixes else package_of(library, facts.packages)}, fixes=fixes)


def _built_for_another(name: str, version: str | None, torch: TorchFacts) -> str | None:
    built, series = _PYG.search(local(version) or ""), minor(torch.version)
    if built is None or series is None:
        return None
    if built["torch"] != f"{series[0]}{series[1]}":
        return f"{name} {version} is for torch {built['torch'][0]}.{built['torch'][1:]}"
    cuda = cuda_of_build(f"0+{built['build']}")
    return f"{name} {version} is for CUDA {cuda}" if cuda and torch.cuda and cuda != torch.cuda else None


# Variants whose cure is in the rule's own lines.
_CURED_BY_TEXT = ("source", "cpu_package", "link", "part", "npu", "ipex", "ops")
# Variants that a message of its own tells; the first that was met is the one.
_TELLING = (
    *("partner", "halves", "unbuilt", "without_cuda", "cpu_wheel", "dll", "declared", "other_cuda", "crash", "python", "runtime"),
    *_CURED_BY_TEXT,
)


def _abi_said(values: dict[str, object], matches: Matches) -> Hit:
    symbol = value(matches, "symbol") or ""
    values |= {"library": value(matches, "library") or value(matches, "opened") or "An extension", "symbol": symbol or "a symbol of torch"}
    if telling := of_variant(matches, *_TELLING):
        values |= {
            "built": value(telling, "built"),
            "cuda": value(telling, "torch_cuda") or values["cuda"],
            "asked": value(telling, "asked"),
        }
        unnamed = "Horovod" if telling[0].variant == "part" else OF_PYG
        named = value(telling, "library") or unnamed  # whoever prints "nms_impl: implementation for device" is mmcv
        values["library"] = f"mmcv ({named})" if named.endswith("_impl") else named
        confidence = Confidence.LIKELY if telling[0].confidence else None
        return Hit(values, quoted(matches), variant=telling[0].variant, confidence=confidence)
    # Mangled names of std::string arguments: "Ss" of the old C++ ABI, "__cxx11" of the new one.
    abi = "old" if symbol.endswith("Ss") or "Ss_" in symbol else "new" if "__cxx11" in symbol else "said"
    return Hit(values, quoted(matches), variant=abi)


@check(needs="torch", reads="torch toolkit driver cuda_driver devices")
def cuda_versions_differ(facts: Facts) -> Answer:
    if not facts.torch.cuda or not answer.works(facts.devices):
        return None
    nvcc, offers = _nvcc(facts.toolkit), facts.driver.cuda or facts.cuda_driver.driver_version
    toolkit_differs = nvcc is not None and minor(nvcc) != minor(facts.torch.cuda) and major(nvcc) == major(facts.torch.cuda)
    newer_than_driver = offers is not None and (minor(offers) or (99, 0)) < (minor(facts.torch.cuda) or (0, 0))
    if not toolkit_differs and not newer_than_driver:
        return None
    numbers = (f"torch is built for CUDA {facts.torch.cuda}", offers and f"the driver offers up to {offers}", nvcc and f"nvcc is {nvcc}")
    beyond = newer_than_driver and major(offers) != major(facts.torch.cuda)
    variant = "forward" if beyond else "compatible" if newer_than_driver else None
    return Hit({"numbers": ", ".join(one for one in numbers if one)}, variant=variant)
