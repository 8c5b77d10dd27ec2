"""Releases of torch: what the index and the wheels say, against torch-release, torch-build, torch-pins and torch-companion."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from difference import AddRow, Difference, Extend, Row, row_text
from packaging.version import Version
from registry import File
from wheels import Metadata, TorchFacts, Wheel, newest_first, specifier_text, wheel_of

from envcheck.tables.compat import Release, Tables
from envcheck.tables.torch_builds import PLATFORMS
from envcheck.tables.versions import local, variant_of_cuda

OLDEST = Version("1.10.0")  # where the tables begin
LINUX = ("linux-x86_64", "linux-aarch64")


@dataclass(frozen=True)
class Published:
    """One release as the index lists it."""

    version: str
    date: datetime.date | None  # of its first file
    newest_file: datetime.date | None
    requires_python: str
    pythons: Mapping[str, tuple[str, ...]]  # platform -> ("3.12", "3.13t")
    floors: Mapping[str, Mapping[str, str | None]]  # platform -> Python -> glibc or macOS of the file name
    wheels: tuple[Wheel, ...]
    yanked: bool


def published(files: Iterable[File]) -> dict[str, Published]:
    """Final releases since 1.10 that have wheels, oldest first."""
    of: dict[Version, list[Wheel]] = {}
    for file in files:
        wheel = wheel_of(file)
        if wheel and wheel.version >= OLDEST and not wheel.version.is_prerelease:
            of.setdefault(wheel.version, []).append(wheel)
    return {str(version): _published(str(version), of[version]) for version in sorted(of)}


def _published(version: str, wheels: Sequence[Wheel]) -> Published:
    platforms: dict[str, dict[str, str | None]] = {}
    for wheel in wheels:
        platforms.setdefault(wheel.platform, {})[wheel.python] = wheel.floor
    dates = sorted(wheel.file.uploaded for wheel in wheels if wheel.file.uploaded)
    return Published(
        version,
        dates[0] if dates else None,
        dates[-1] if dates else None,
        wheels[0].file.requires_python,
        {platform: tuple(sorted(pythons, key=python_order)) for platform, pythons in platforms.items()},
        platforms,
        tuple(wheels),
        all(wheel.file.yanked for wheel in wheels),
    )


def python_order(python: str) -> tuple[int, bool]:
    """ "3.13t" after "3.13", before "3.14"."""
    minor = python.rstrip("t").partition(".")[2]
    return int(minor) if minor.isdecimal() else 0, python.endswith("t")


def to_read(found: Published, variants: Mapping[str, str]) -> dict[str, Wheel]:
    """The wheel to look into, by platform: Linux ones, the one that an installer takes first."""
    result = {}
    for platform in LINUX:
        wheels = newest_first([wheel for wheel in found.wheels if wheel.platform == platform])
        if wheels and (platform == LINUX[0] or variants.get(platform) != "cpu"):
            result[platform] = wheels[0]
    return result


def variant_of(facts: TorchFacts) -> str:
    """Build variant of a wheel: by its local version, which PyPI's wheels had not always, else by its CUDA."""
    return local(facts.version) or (variant_of_cuda(facts.cuda) if facts.cuda else None) or "cpu"


def pins_of(metadata: Metadata, pythons: Sequence[str]) -> dict[str, str]:
    """NVIDIA's packages and triton as torch-pins writes them: for whatever Python, extras in the name."""
    result: dict[str, str] = {}
    for python in pythons:
        for name, one in metadata.asked(LINUX[0], python).items():
            if name == "triton" or name.startswith(("nvidia-", "cuda-")):
                extras = f"[{','.join(sorted(one.extras))}]" if one.extras else ""
                result.setdefault(f"{name}{extras}", specifier_text(one.specifier))
    return result


def triton_python_below(metadata: Metadata) -> str | None:
    """3.16 of `triton~=3.9.0; platform_system == "Linux" and python_version < "3.16"`."""
    texts = [str(one.marker) for one in metadata.requires if one.name == "triton" and one.marker]
    match = re.search(r'python_version < "([\d.]+)"', " ".join(texts))
    return match[1] if match else None


# ---------------------------------------------------------------- a release that the tables know


def differing(known: Release, found: Published) -> Iterator[Difference]:
    """What the index says otherwise. Known rows are never rewritten: a person looks first."""

    def differ(name: str, table: object, index: object) -> Difference:
        return Difference("torch-release", f"torch {known.version} {name}", str(table), str(index))

    if found.date and found.date != known.date:
        yield differ("date", known.date, found.date)
    if found.requires_python != known.requires_python:
        yield differ("requires_python", known.requires_python, found.requires_python)
    if found.yanked != known.yanked:
        yield differ("yanked", known.yanked, found.yanked)
    for platform in sorted({*found.pythons, *known.pythons}):
        if known.pythons.get(platform) != found.pythons.get(platform):
            yield differ(f"pythons on {platform}", _words(known.pythons.get(platform)), _words(found.pythons.get(platform)))
    for platform, pythons in found.floors.items():
        system, _, machine = platform.partition("-")
        for python, floor in sorted(pythons.items()):
            mine = known.glibc.get(machine) if system == "linux" else known.macos_on(machine, python)
            if floor is not None and floor != mine:
                yield differ(f"floor on {platform} for {python}", mine, floor)


def inside(tables: Tables, known: Release, platform: str, facts: TorchFacts) -> Iterator[Difference]:
    """What a wheel of a known release says otherwise."""
    subject = f"torch {known.version} {platform}"
    variant = variant_of(facts)
    if variant != known.default_variant[platform]:
        yield Difference("torch-release", f"{subject} default", known.default_variant[platform], variant)
    if facts.cxx is not None and facts.cxx != known.cxx_standard:
        yield Difference("torch-release", f"{subject} cxx", str(known.cxx_standard), str(facts.cxx))
    if facts.numpy is not None and facts.numpy != known.numpy_major["linux"]:
        yield Difference("torch-release", f"{subject} numpy", str(known.numpy_major["linux"]), str(facts.numpy))
    build = tables.build(f"{known.version}+{variant}", platform)
    if facts.archs is not None and (build is None or build.archs != facts.archs):
        yield Difference("torch-build", f"{subject} {variant} archs", _words(build.archs if build else None), _words(facts.archs))
    if platform == LINUX[0]:
        row: Row = next((row["pins"] for row in tables.rows("torch-pins", "pins") if row["torch"] == known.version), {})
        pins = pins_of(facts.metadata, known.pythons[platform])
        if dict(row) != pins:
            only = {name: value for name, value in pins.items() if row.get(name) != value}
            gone = {name: value for name, value in row.items() if pins.get(name) != value}
            yield Difference("torch-pins", subject, row_text(gone) if gone else "", row_text(only))
        pair = next((row for row in tables.rows("torch-companion", "companion") if row["torch"] == known.version), {})
        before = f"{pair.get('triton')} below Python {pair.get('triton_python_below')}"
        found = f"{pins.get('triton')} below Python {triton_python_below(facts.metadata)}"
        if before != found:
            yield Difference("torch-companion", f"{subject} triton", before, found)


def _words(values: Iterable[str] | None) -> str:
    return "nothing" if values is None else " ".join(values) or "none"


# ---------------------------------------------------------------- a release that they do not know


def new_release(tables: Tables, found: Published, facts: Mapping[str, TorchFacts]) -> Iterator[Difference]:
    """Rows for a release, and the ranges that now reach up to it."""
    version, main = found.version, facts[LINUX[0]]
    before = [one for one in tables.releases() if Version(one.version) < Version(version)][-1].version
    pythons = found.pythons[LINUX[0]]
    on = {platform: " ".join(found.pythons[platform]) for platform in PLATFORMS if found.pythons.get(platform, pythons) != pythons}
    there = [platform for platform in PLATFORMS if platform in found.pythons]
    variants = {platform: variant_of(facts[platform]) if platform in facts else "cpu" for platform in there}
    row: dict[str, object] = {"torch": version}
    if found.date:
        row["date"] = found.date.isoformat()
    row |= {"requires_python": found.requires_python, "pythons": " ".join(pythons)}
    row |= {"pythons_on": on} if on else {}
    row["default"] = variants[LINUX[0]]
    row |= {"default_aarch64": variants[LINUX[1]]} if variants.get(LINUX[1], "cpu") != "cpu" else {}
    row |= {} if "macos-x86_64" in found.pythons else {"macos_x86_64": False}
    row |= {"yanked": True} if found.yanked else {}
    yield _added("torch-release", f"torch {version}", "release", row | {"source": "pypi"}, {"torch": before})

    for section, field, value, source in _ranges(found, main):
        range_row = {"from": version, "to": version, **field, **(value or {}), "source": source}
        yield from _reach(tables, AddRow(section, range_row, field), value, before)
    macos = found.floors.get("macos-arm64", {})
    if len(set(macos.values())) > 1:
        yield Difference("torch-release", f"torch {version} [macos-python]", "", row_text(macos))
    for platform, variant in variants.items():
        archs = facts[platform].archs if platform in facts else ()
        yield from _build(tables, platform, variant, archs, before, version)

    pins = pins_of(main.metadata, pythons)
    yield _added("torch-pins", f"torch {version}", "pins", {"torch": version, "pins": pins, "source": "metadata"}, {"torch": before})


def _ranges(found: Published, main: TorchFacts) -> Iterator[tuple[str, Row, Row | None, str]]:
    """Section, fields of the row, value found or None, source: everything that torch-release keeps by ranges."""
    for machine in ("x86_64", "aarch64"):
        floors = {floor for floor in found.floors.get(f"linux-{machine}", {}).values() if floor}
        yield "glibc", {"machine": machine}, {"glibc": max(floors, key=Version)} if floors else None, "wheel-file-names"
        yield "cxx11-abi", {"machine": machine}, None, ""
    floors = {floor for floor in found.floors.get("macos-arm64", {}).values() if floor}
    yield "macos", {"machine": "arm64"}, {"macos": min(floors, key=Version)} if floors else None, "wheel-file-names"
    for system in ("linux", "macos", "windows"):
        yield "numpy", {"os": system}, {"numpy": main.numpy} if main.numpy and system == "linux" else None, "wheel-files"
    yield "cxx-standard", {}, {"cxx": main.cxx} if main.cxx else None, "wheel-files"
    yield "index-form", {}, None, ""


def _reach(tables: Tables, new: AddRow, value: Row | None, before: str) -> Iterator[Difference]:
    """The range that ends with the release before reaches up to the new one if its value is the same, or was not read."""
    section, field, version = new.section, new.near, new.row["to"]
    rows = [row for row in tables.rows("torch-release", section) if field.items() <= row.items() and "variants" not in row]
    last = next((row for row in reversed(rows) if Version(row["from"]) <= Version(before) <= Version(row["to"])), None)
    if last is None:
        return
    subject = f"[{section}] {' '.join(field.values())}".strip()
    if value is not None and not value.items() <= last.items():
        yield Difference("torch-release", subject, "", row_text(new.row), new if last["to"] == before else None)
    elif last["to"] == before:
        note = "" if value is not None else ", carried on: not read, please look"
        match = {"from": last["from"], "to": before, **field}
        yield Difference(
            "torch-release", subject, f"{last['from']} to {before}", f"{last['from']} to {version}{note}", Extend(section, match, version)
        )


def _build(tables: Tables, platform: str, variant: str, archs: Sequence[str] | None, before: str, version: str) -> Iterator[Difference]:
    rows = [row for row in tables.rows("torch-build", "build") if (row["variant"], row["platform"]) == (variant, platform)]
    if any(Version(row["from"]) <= Version(version) <= Version(row["to"]) for row in rows):
        return
    last = next((row for row in reversed(rows) if row["to"] == before and row.get("exists", "high") == "high"), None)
    row: dict[str, object] = {"variant": variant, "platform": platform, "from": version, "to": version}
    if archs:
        row["archs"] = " ".join(one.removeprefix("sm_") for one in archs if one.startswith("sm_"))
        ptx = " ".join(one.removeprefix("compute_") for one in archs if one.startswith("compute_"))
        row |= {"ptx": ptx} if ptx else {}
        row["kind"] = "measured"
    subject = f"{variant} on {platform}"
    same = last is not None and (variant == "cpu" or (last.get("kind") == "measured" and _same_archs(last, row)))
    if last is not None and same:
        match = {name: last[name] for name in ("variant", "platform", "from", "to")}
        yield Difference(
            "torch-build", subject, f"{last['from']} to {before}", f"{last['from']} to {version}", Extend("build", match, version)
        )
    else:
        near = {"variant": variant, "platform": platform} if rows else {"variant": _neighbour(tables, variant)}
        yield _added("torch-build", subject, "build", row | {"source": "wheel"}, near)


def _same_archs(one: Row, other: Row) -> bool:
    return "archs" in other and (one.get("archs"), one.get("ptx", "")) == (other["archs"], other.get("ptx", ""))


def _neighbour(tables: Tables, variant: str) -> str:
    """The variant after which a new one is sorted in: cu136 after cu134."""
    kind = re.match(r"[a-z]*", variant)
    same = [row["variant"] for row in tables.rows("torch-build", "build") if kind and re.fullmatch(rf"{kind[0]}[\d.]+", row["variant"])]
    return same[-1] if same else ""


def _added(table: str, subject: str, section: str, row: Row, near: Row) -> Difference:
    return Difference(table, subject, "", row_text(row), AddRow(section, row, near))
