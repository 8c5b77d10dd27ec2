"""Files of torch and of what it loads that are gone or cut short, by the RECORD of their packages."""

from __future__ import annotations

import posixpath
import re

from envcheck.checks.hardware import import_failed, imported
from envcheck.checks.reinstall import again
from envcheck.checks.text import foremost, quoted, value
from envcheck.engine.intents import Install, Intent
from envcheck.engine.rule import Answer, Confidence, Evidence, Facts, Hit, Matches, Severity, check
from envcheck.facts.record import record
from envcheck.facts.snapshot import ImportStatus, PackagesFacts

_DAMAGED = re.compile(r"(.{1,400}) \(([\w.-]{1,80})\)(?:: (\d+) of (\d+) bytes)?")
# Without these `import torch` cannot work; what else is not there may have been left out of an image on purpose.
_CORE = ("torch/__init__.py", "torch/_C.", "torch/lib/libtorch.so", "torch/lib/libtorch_cpu.so", "torch/lib/libtorch_python.so",
         "torch/lib/libc10.so", "torch/lib/libshm.so", "torch/lib/libtorch_global_deps.so")  # fmt: skip


@record
class DamagedFile:
    """A row of PackagesFacts.damaged."""

    file: str
    distribution: str
    cut: str | None = None  # "4096 of 9000 bytes"

    def __str__(self) -> str:
        return f"{self.file}: {self.cut or 'not there'}"

    @property
    def core(self) -> bool:
        return self.distribution == "torch" and self.file.startswith(_CORE)

    @property
    def stem(self) -> str:
        """As error texts name it: libshm.so, functional, _C, _multiarray_umath; of a module deeper down torch.optim.sgd."""
        name = posixpath.basename(self.file)
        if self.file.endswith(".py") and self.file.count("/") > 1:  # "api" and "utils" stand in every second text
            return self.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        if name == "__init__.py":
            return posixpath.basename(posixpath.dirname(self.file))
        return name if name.startswith("lib") and ".so" in name else name.partition(".")[0]


def damaged_files(packages: PackagesFacts) -> tuple[DamagedFile, ...]:
    found = (_DAMAGED.fullmatch(one) for one in packages.damaged)
    return tuple(DamagedFile(one[1], one[2], f"{one[3]} of {one[4]} bytes" if one[3] else None) for one in found if one)


def blamed(facts: Facts) -> tuple[DamagedFile, ...]:
    """The damaged files that a failed import speaks of, or that alone are enough to explain it."""
    files = damaged_files(facts.packages)
    if facts.torch.import_status is ImportStatus.NOT_TORCH:
        return tuple(one for one in files if one.file == "torch/__init__.py")
    cut = tuple(one for one in files if one.cut)
    if facts.torch.import_status is ImportStatus.CRASHED and cut:
        return cut
    failure = facts.torch.import_failure
    text = f"{failure.text}\n{failure.stack}\n{failure.stderr}" if failure else ""
    return tuple(one for one in files if import_failed(facts.torch) and (one.stem in text or one.file == "torch/__init__.py"))


@check(needs="torch packages", reads="torch packages devices system symptoms")
def torch_files_damaged(facts: Facts, matches: Matches) -> Answer:
    return _broke_off(matches) or _by_the_lists(facts)


def _broke_off(matches: Matches) -> Hit | None:
    """An installer's own words."""
    variant = foremost(matches, "long_path", "in_use", "frozen")
    return Hit({"file": value(matches, "file") or "a file of torch"}, quoted(matches), variant=variant) if variant else None


def _by_the_lists(facts: Facts) -> Answer:
    files, works = damaged_files(facts.packages), imported(facts)
    if works and any("No module named 'numpy'" in one for one in facts.torch.import_warnings):
        files = tuple(one for one in files if one.distribution != "numpy")  # all of it is gone: a rule of its own
    if not files or not (facts.torch.version or facts.torch.path):
        return None
    cut = tuple(one for one in files if one.cut)
    core = tuple(one for one in files if one.core)
    certain = blamed(facts)
    shown = certain or (cut if works else cut + core) or files
    first = shown[0]
    values: dict[str, object] = {"file": first.file, "size": first.cut, "distribution": first.distribution, "count": len(files) - 1}
    values["have"] = facts.packages.version(first.distribution) or ""
    evidence = tuple(Evidence("RECORD of the distributions", str(one)) for one in files[:6])
    fixes = _fixes(facts, shown)
    if works and cut and not certain:
        return Hit(values, evidence, fixes, "cut_unused", Severity.WARNING)
    if certain or (not works and (core or cut or import_failed(facts.torch))):
        kind = "_".join(word for word, holds in (("cut", first.cut), ("more", len(files) > 1)) if holds)
        return Hit(values, evidence, fixes, kind or None, confidence=None if certain else Confidence.LIKELY)
    return _untouched(facts, values, evidence, files)


def _untouched(facts: Facts, values: dict[str, object], evidence: tuple[Evidence, ...], files: tuple[DamagedFile, ...]) -> Hit:
    """Files that are missing while torch can be imported. The quick check starts its ranks without torchrun, which needs some of them."""
    if ranks := tuple(one for one in files if one.file.startswith("torch/distributed/")):
        return Hit(values | {"file": ranks[0].file}, evidence, _fixes(facts, ranks), "ranks", Severity.WARNING)
    return Hit(values, evidence, variant="unused", severity=Severity.INFO)


def _fixes(facts: Facts, files: tuple[DamagedFile, ...]) -> tuple[Intent, ...]:
    """The packages of these files written again, each as it is."""
    names = tuple(dict.fromkeys(one.distribution for one in files))
    others = tuple(f"{name}=={facts.packages.version(name)}" for name in names if name != "torch" and facts.packages.version(name))
    first = again(facts) if "torch" in names else ()
    return (*first, Install(others, reinstall=True)) if others else first
