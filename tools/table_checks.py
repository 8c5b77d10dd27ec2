"""What must hold for tables: the format of every file, and that the tables do not contradict each other.

For maintainers and for site overlays; a normal run does not come here.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from envcheck.tables.file import CONFIDENCE, HEAD, Row, TableFile, row_key, source_names, table_names
from envcheck.tables.toml import load_toml

if TYPE_CHECKING:
    from envcheck.tables.compat import Tables

AMBIGUOUS = (
    "geforce gtx 860m",
    "geforce gt 730",
    "geforce gt 710",
    "geforce 910m",
)  # sold with several chips


def problems(folder: str | os.PathLike[str], *, overlay: bool = False) -> tuple[str, ...]:
    """Everything in a folder of tables that breaks the format, one line each, with file, section and row."""
    return tuple(line for name in table_names((folder,)) for line in _problems(os.path.join(folder, f"{name}.toml"), overlay))


def _problems(path: str, overlay: bool) -> Iterator[str]:
    name = os.path.basename(path)
    try:
        data = load_toml(path)
    except (OSError, ValueError) as error:
        yield f"{name}: cannot be read: {error}"
        return
    if not overlay:
        for field in ("verified", "sources"):
            if field not in data:
                yield f"{name}: has no `{field}`"
    if "verified" in data and type(data["verified"]) is not datetime.date:
        yield f"{name}: verified is not a date"
    sources = data.get("sources", {})
    for key, text in sources.items():
        if not isinstance(text, str) or not text.strip():
            yield f"{name}: source {key} is empty"
    used: set[str] = set()
    for section, content in data.items():
        if section in HEAD:
            continue
        if not isinstance(content, dict) or not isinstance(content.get("rows"), list) or not content.get("key"):
            yield f"{name} [{section}]: needs `key` and `rows`"
            continue
        seen: set[tuple[str, ...]] = set()
        for number, row in enumerate(content["rows"], 1):
            where = f"{name} [{section}] row {number}"
            if not isinstance(row, dict):
                yield f"{where}: is not a table"
                continue
            if not any(field in row for field in content["key"]):
                yield f"{where}: has none of its key fields {', '.join(content['key'])}"
            key_of_row = row_key(row, content["key"])
            if key_of_row in seen:
                yield f"{where}: twice the key {' '.join(key_of_row)}"
            seen.add(key_of_row)
            names = source_names(row.get("source", ()))
            used |= set(names)
            if not names:
                yield f"{where}: has no source"
            for one in names:
                if one not in sources and not overlay:
                    yield f"{where}: source {one!r} is not in [sources]"
            for field in ("confidence", "exists"):
                if row.get(field, "high") not in CONFIDENCE:
                    yield f"{where}: {field} is {row[field]!r}"
            yield from (f"{where}: {line}" for line in _bad_versions(row))
    if not overlay:
        for key in sorted(set(sources) - used):
            yield f"{name}: source {key} is used by no row"


_VERSION_FIELDS = frozenset((
    "cuda", "from", "to", "linux", "windows", "windows_unclear_from", "compute_capability", "first_cuda", "last_cuda", "glibc", "macos",
))  # fmt: skip
_SPECIFIER_FIELDS = frozenset(("torch", "python", "triton", "torchcodec", "torchvision", "torchaudio", "requires_python"))  # or a version


def _bad_versions(row: Row) -> Iterator[str]:
    """Version fields that are no versions, and ranges that run backwards."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    parsed: dict[str, Version] = {}
    for field in _VERSION_FIELDS & row.keys():
        if not isinstance(row[field], str):
            continue
        try:
            parsed[field] = Version(row[field])
        except InvalidVersion:
            yield f"{field} = {row[field]!r} is not a version"
    for field in _SPECIFIER_FIELDS & row.keys():
        text = str(row[field])
        try:
            SpecifierSet(text if not text or text[0] in "<>=!~" else f"=={text}")
        except InvalidSpecifier:
            yield f"{field} = {text!r} is neither a version nor a specifier"
    if "from" in parsed and "to" in parsed and parsed["from"] > parsed["to"]:
        yield f"runs backwards: from {row['from']} to {row['to']}"


def contradictions(tables: Tables) -> tuple[str, ...]:
    """Where the tables contradict each other or leave a gap, one line each."""
    return (
        *_drivers(tables),
        *_gpus(tables),
        *_releases(tables),
        *_builds(tables),
        *_companions(tables),
    )


def _drivers(tables: Tables) -> Iterator[str]:
    from packaging.version import Version

    floors = tables.rows("cuda-driver", "floor")
    yield from _not_rising("cuda-driver [floor] cuda", (Version(row["cuda"]) for row in floors), strict=True)
    for system in ("linux", "windows"):
        yield from _not_rising(f"cuda-driver [floor] {system}", (Version(row[system]) for row in floors))
    branches = tables.rows("driver-branch", "branch")
    yield from _not_rising("driver-branch [branch] branch", (row["branch"] for row in branches), strict=True)
    yield from _not_rising("driver-branch [branch] cuda", (Version(row["cuda"]) for row in branches))
    known = {row["branch"] for row in branches}
    last = 0
    for row in tables.rows("driver-branch", "windows"):
        if row["branch"] not in known:
            yield f"driver-branch [windows]: branch {row['branch']} is not in [branch]"
        if not last < row["first"] <= row["last"]:
            yield f"driver-branch [windows]: the numbers of branch {row['branch']} overlap those before"
        last = row["last"]
    cuda_of = {row["branch"]: row["cuda"] for row in branches}
    for row in tables.rows("forward-compat", "package"):
        if cuda_of.get(row["driver"]) != row["cuda"]:
            yield f"forward-compat: package {row['cuda']} names branch {row['driver']}, which offers {cuda_of.get(row['driver'])}"
        for branch in (*row.get("bridges", ()), *row.get("listed", ())):
            if branch not in known or branch >= row["driver"]:
                yield f"forward-compat: package {row['cuda']} cannot bridge branch {branch}"


def _gpus(tables: Tables) -> Iterator[str]:
    from packaging.version import Version

    rows = tables.rows("gpu-architecture", "gpu")
    yield from _not_rising("gpu-architecture [gpu]", (Version(row["compute_capability"]) for row in rows), strict=True)
    floors = {row["cuda"] for row in tables.rows("cuda-driver", "floor")}
    for row in rows:
        if Version(row["first_cuda"]) >= Version("9.0") and row["first_cuda"] not in floors:
            yield f"gpu-architecture: {row['compute_capability']} starts with CUDA {row['first_cuda']}, which has no driver floor"
    known = {row["compute_capability"] for row in rows}
    named: dict[str, str] = {}
    for row in tables.rows("gpu-product", "product"):
        if row["compute_capability"] not in known:
            yield f"gpu-product: group {row['group']} has the unknown capability {row['compute_capability']}"
        for name in row["names"]:
            short = name.lower().removeprefix("nvidia ")
            if named.setdefault(short, row["compute_capability"]) != row["compute_capability"]:
                yield f"gpu-product: {name} has two capabilities"
    yield from (f"gpu-product: {name} is ambiguous and yet in [product]" for name in AMBIGUOUS if name in named)
    for row in tables.rows("gpu-product", "first-driver"):
        if row["name"].lower().removeprefix("nvidia ") not in named or tables.branch(row["driver"]) is None:
            yield f"gpu-product [first-driver]: {row['name']} or {row['driver']} is not known"
    end = -1
    for row in tables.rows("gpu-product", "pci"):
        first, last = int(row["first"], 16), int(row["last"], 16)
        if not end < first <= last:
            yield f"gpu-product [pci]: {row['first']} to {row['last']} overlaps the range before"
        end = last


def _releases(tables: Tables) -> Iterator[str]:
    from packaging.version import Version

    table = tables.table("torch-release")
    rows = table.rows("release")
    order = [row["torch"] for row in rows]
    yield from _not_rising("torch-release [release] torch", map(Version, order), strict=True)
    for name, section in (("torch-release", None), ("torch-build", "build")):
        for row in _range_rows(tables.table(name), section):
            yield from (f"{name}: {row[end]} is not a release" for end in ("from", "to") if row[end] not in order)
    wanted = {
        "glibc": ("machine", ("x86_64", "aarch64")),
        "cxx11-abi": ("machine", ("x86_64", "aarch64")),
        "macos": ("machine", ("arm64",)),
        "numpy": ("os", ("linux", "macos", "windows")),
        "cxx-standard": (None, (None,)),
        "index-form": (None, (None,)),
    }
    for section, (field, values) in wanted.items():
        for version in order:
            for value in values:
                found = [row for row in table.rows(section) if "variants" not in row and _holds(row, version, order)]
                found = [row for row in found if field is None or row[field] == value]
                if len(found) != 1:
                    yield f"torch-release [{section}]: {len(found)} rows for {version}{f' on {value}' if value else ''}"


def _builds(tables: Tables) -> Iterator[str]:
    from packaging.version import Version

    gpus = {row["compute_capability"]: row for row in tables.rows("gpu-architecture", "gpu")}
    seen: set[tuple[str, str, str]] = set()
    for build in tables.builds():
        where = f"torch-build: {build.version}+{build.variant} on {build.platform}"
        key = (build.version, build.variant, build.platform)
        if key in seen:
            yield f"{where} is there twice"
        seen.add(key)
        if build.cuda is None:
            continue
        if tables.driver_floor(build.cuda) is None:
            yield f"{where}: CUDA {build.cuda} has no driver floor"
        for arch in build.archs or ():
            digits = arch.partition("_")[2]
            gpu = gpus.get(f"{digits[:-1]}.{digits[-1]}")
            if gpu is None:
                yield f"{where}: {arch} is no known architecture"
            elif not Version(gpu["first_cuda"]) <= Version(build.cuda) <= Version(gpu.get("last_cuda", "99")):
                yield f"{where}: the compiler of CUDA {build.cuda} does not know {arch}"
    for release in tables.releases():
        for platform, variant in release.default_variant.items():
            found = tables.build(f"{release.version}+{variant}", platform)
            if found is None or (found.exists != "high" and variant != "cpu"):
                yield f"torch-build: no certain {release.version}+{variant} on {platform}, which is what PyPI gives"


def _companions(tables: Tables) -> Iterator[str]:
    from packaging.version import Version

    for release in tables.releases():
        pair = tables.companions(release.version)
        for name in ("torchvision", "torchaudio"):
            if name not in pair:
                yield f"torch-companion: no {name} for torch {release.version}"
        if Version(release.version) >= Version("1.13") and not tables.pins(release.version):
            yield f"torch-pins: nothing for torch {release.version}"
    known = {release.version for release in tables.releases()}
    for name, section in (("torch-companion", "companion"), ("torch-pins", "pins")):
        yield from (f"{name}: {row['torch']} is not a release" for row in tables.rows(name, section) if row["torch"] not in known)


def _range_rows(table: TableFile, section: str | None) -> Iterator[Row]:
    for name, rows in table.sections.items():
        if section in (None, name):
            yield from (row for row in rows if "from" in row)


def _holds(row: Row, version: str, order: list[str]) -> bool:
    return row["from"] in order and row["to"] in order and order.index(row["from"]) <= order.index(version) <= order.index(row["to"])


def _not_rising(what: str, values: Iterable[Any], strict: bool = False) -> Iterator[str]:
    last: Any = None
    for value in values:
        if last is not None and (value < last or (strict and value == last)):
            yield f"{what}: {value} comes after {last}"
        last = value
