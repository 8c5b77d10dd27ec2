"""What torch requires and does not have: packages that are absent, and packages of another version than it pins."""

from __future__ import annotations

import re

from envcheck.checks.hardware import import_failed, import_text, imported
from envcheck.checks.libraries import provider
from envcheck.checks.origin import missing_module
from envcheck.checks.reinstall import requirements
from envcheck.engine.intents import Install, Intent
from envcheck.engine.rule import Confidence, Evidence, Hit, Severity, check
from envcheck.facts.snapshot import (
    DevicesFacts,
    ImportStatus,
    LiveFacts,
    LiveStatus,
    Missing,
    PackagesFacts,
    PythonFacts,
    TorchFacts,
    Unmet,
)
from envcheck.tables.versions import major

# What stops without a package (removed one at a time under torch 2.13): torch.optim and DDP import torch._dynamo, and that sympy.
_FOR_TRAINING = ("typing-extensions", "sympy", "mpmath")
_FOR_COMPILING = ("filelock", "networkx", "triton")
_LIBRARIES = ("nvidia-", "cuda-")
# Whose requirements are torch's own, directly or through what it requires.
_OWNERS = ("torch", "cuda-toolkit", "sympy", "jinja2")


def name_of(row: Unmet) -> str:
    """ "nvidia-nccl-cu13" of "nvidia_nccl_cu13==2.30.7"."""
    found = re.match(r"[A-Za-z0-9._-]+", row.requirement)
    return found[0].lower().replace("_", "-").replace(".", "-") if found else row.requirement


def absent(packages: PackagesFacts | Missing) -> dict[str, Unmet]:
    """What torch requires and nothing of that name is there, by name."""
    rows = () if isinstance(packages, Missing) else packages.unmet
    return {name_of(row): row for row in rows if row.installed is None and row.distribution in _OWNERS and name_of(row) != "torch"}


def wrong_versions(packages: PackagesFacts | Missing) -> dict[str, Unmet]:
    """What torch requires and is there in another version, by name. Companions, triton and NumPy have rules of their own."""
    rows = () if isinstance(packages, Missing) else packages.unmet
    found = {name_of(row): row for row in rows if row.installed is not None and row.distribution in _OWNERS}
    return {name: row for name, row in found.items() if name not in ("triton", "pytorch-triton", "numpy", "torch")}


def _brought(torch: TorchFacts, rows: dict[str, Unmet]) -> tuple[Intent, ...]:
    """Libraries come with torch's own pins, dozens of them; of the rest each requirement is written out."""
    if any(name.startswith(_LIBRARIES) for name in rows):
        return requirements(torch)
    return (Install(tuple(row.requirement for row in rows.values())),)


def _live_text(live: LiveFacts | Missing) -> str:
    if isinstance(live, Missing) or live.status is not LiveStatus.FAIL:
        return ""
    return "\n".join([live.reason, *(rank.error for arm in live.arms for rank in arm.ranks), *(rank.error for rank in live.ranks)])


def _named(text: str, names: dict[str, Unmet]) -> str | None:
    """The absent package that an error speaks of. SymPy says of mpmath: "SymPy now depends on mpmath as an external library"."""
    module = (missing_module(text) or "").partition(".")[0].replace("_", "-").lower()
    if module in names:
        return module
    return "mpmath" if "mpmath" in names and "depends on mpmath" in text else None


@check(sees_missing=("devices", "live"))
def torch_requirement_missing(
    torch: TorchFacts, packages: PackagesFacts, devices: DevicesFacts | Missing, live: LiveFacts | Missing
) -> Hit | None:
    """A package that torch requires is not installed."""
    rows = absent(packages)
    if not rows:
        return None
    works = imported(torch, devices) and not import_failed(torch)
    libraries = [name for name in rows if name.startswith(_LIBRARIES)]
    evidence = tuple(
        Evidence(f"metadata of {row.distribution}", f"requires {row.requirement}, which is not there") for row in rows.values()
    )
    values: dict[str, object] = {"version": torch.version, "names": list(rows), "count": len(rows)}
    fixes = _brought(torch, rows)
    if stopped := _named(import_text(torch), rows):
        return Hit(values | {"module": stopped}, evidence[:6], fixes)
    if stopped := _named(_live_text(live), rows):
        return Hit(values | {"module": stopped}, evidence[:6], fixes, variant="live")
    if import_failed(torch):
        if len(libraries) > 1 and "cannot open shared object file" in import_text(torch):
            return Hit(values | {"names": libraries}, evidence[:6], fixes, variant="libraries")
        return None  # something else stops it
    needed = [name for name in rows if name in _FOR_TRAINING]
    if needed and (isinstance(live, Missing) or live.status is not LiveStatus.PASS):
        return Hit(values | {"needed": needed}, evidence[:6], fixes, variant="training", confidence=Confidence.LIKELY)
    gpu = not isinstance(devices, Missing) and devices.available is True
    compiling = [name for name in rows if name in (*_FOR_TRAINING, *_FOR_COMPILING) and (name != "triton" or gpu)]
    if compiling:
        return Hit(values | {"needed": compiling}, evidence[:6], fixes, variant="compiling", severity=Severity.WARNING)
    if libraries:
        files = [name for name in libraries if name != "cuda-toolkit"]  # which only requires others
        if not works or not files:
            return None  # not tried: the libraries may come from somewhere else
        return Hit(values | {"names": files}, evidence[:6], variant="elsewhere", severity=Severity.INFO)
    return Hit(values, evidence[:6], fixes, variant="unused", severity=Severity.INFO)


# What a failed import says of two libraries that do not belong together.
_SYMBOL = re.compile(
    r"(lib[\w.+-]{1,80}?)\.so[\d.]{0,12}: (?:undefined symbol: (\w{1,300})(?:, version (lib[\w.+-]{1,60}?)\.so[\d.]{0,12})?|version `)"
)
# Beginnings of symbols → the library that has them, where the message names only the one that lacks them.
_SYMBOLS = {
    "nvJitLink": "libnvJitLink", "cublasLt": "libcublasLt", "cublas": "libcublas", "cusparseLt": "libcusparseLt", "cusparse": "libcusparse",
    "cusolver": "libcusolver", "cufft": "libcufft", "cudnn": "libcudnn", "nccl": "libnccl", "pnccl": "libnccl", "nvrtc": "libnvrtc",
    "cuda": "libcudart", "nvshmem": "libnvshmem_host", "cuFile": "libcufile", "cupti": "libcupti",
}  # fmt: skip


def _involved(text: str, cuda: int | None) -> set[str]:
    """The packages whose libraries an "undefined symbol" speaks of."""
    found: set[str] = set()
    if message := _SYMBOL.search(text):
        symbol = (message[2] or "").lstrip("_")
        has = next((library for start, library in _SYMBOLS.items() if symbol.startswith(start)), None)
        for stem in (message[1], message[3], has):
            if stem and (one := provider(stem, cuda, None)):
                found.add(one.distribution)
    return found


@check(sees_missing=("devices", "python"))
def torch_pin_unmet(
    torch: TorchFacts, packages: PackagesFacts, devices: DevicesFacts | Missing, python: PythonFacts | Missing
) -> Hit | None:
    """A package is of another version than the metadata of torch asks for. Companions and triton have a rule of their own."""
    rows = wrong_versions(packages)
    if not rows:
        return None
    text = import_text(torch)
    evidence = tuple(
        Evidence(f"metadata of {row.distribution}", f"requires {row.requirement}, {row.installed} is installed") for row in rows.values()
    )
    wrong = "; ".join(f"{name} {row.installed} instead of {row.requirement[len(name) :]}" for name, row in rows.items())
    values: dict[str, object] = {"version": torch.version, "wrong": wrong, "count": len(rows)}
    fixes = _brought(torch, rows)
    if not import_failed(torch):
        return Hit(values, evidence[:6], fixes, variant="works", severity=Severity.WARNING)
    last = [line.strip() for line in text.splitlines() if line.strip()][-1:]
    evidence = (*(Evidence("import torch", line[:300]) for line in last), *evidence)
    cuda = major(torch.cuda)
    if rows.keys() & _involved(text, cuda) or ("typing-extensions" in rows and "from 'typing_extensions'" in text):
        return Hit(values, evidence[:6], fixes)
    path = {} if isinstance(python, Missing) else python.variables
    mixed = bool(_SYMBOL.search(text)) and not path.get("LD_LIBRARY_PATH") and not path.get("LD_PRELOAD")
    if mixed or torch.import_status is ImportStatus.CRASHED:
        return Hit(values, evidence[:6], fixes, variant="perhaps", confidence=Confidence.LIKELY)
    return Hit(values, evidence[:6], fixes, variant="beside", severity=Severity.WARNING)


CHECKS = (torch_requirement_missing, torch_pin_unmet)
