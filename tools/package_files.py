"""What the wheels of companions and third parties are for, by their names: Pythons and platforms, and variants on torch's index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from difference import AddRow, Difference, Extend, Row, row_text
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version
from registry import File, NoAnswer

from envcheck.tables.compat import PLATFORMS, Build, Tables
from envcheck.tables.versions import meets

WITH_FILES = ("torchvision", "torchaudio", "torchtext", "torchdata", "torchcodec", "xformers", "vllm", "torch-tensorrt", "bitsandbytes")
ON_INDEX = ("torchvision", "torchaudio", "xformers")
PYTHONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.13t", "3.14", "3.14t")
INDEX = "https://download.pytorch.org/whl"
NEWEST = 3  # releases of torch whose companions are asked for on the index


def on_registry(files: Iterable[File]) -> dict[str, set[tuple[str, str]]]:
    """Version -> the platforms and Pythons that its wheels are for; no release candidates, nothing withdrawn."""
    there: dict[str, set[tuple[str, str]]] = {}
    for file in files:
        version = None if file.yanked else version_of(file.name)
        if version is not None and not version.is_prerelease:
            there.setdefault(str(version), set()).update(served(file.name))
    return there


def version_of(name: str) -> Version | None:
    """The version of a wheel; None for another file."""
    try:
        return parse_wheel_filename(name)[1]
    except (InvalidWheelFilename, ValueError):
        return None


def served(name: str) -> Iterator[tuple[str, str]]:
    """Platform and Python of a wheel, by its tags."""
    for tag in parse_wheel_filename(name)[3]:
        for python in PYTHONS:
            number = python.rstrip("t").replace(".", "")
            exact = tag.interpreter == f"cp{number}" and (tag.abi.endswith("t") == python.endswith("t"))
            stable = tag.abi == "abi3" and int(tag.interpreter[3:]) <= int(number[1:]) and not python.endswith("t")
            pure = tag.abi == "none" and tag.interpreter.startswith("py3") and int(tag.interpreter[3:] or 0) <= int(number[1:])
            if exact or stable or pure:
                yield from ((platform, python) for platform in PLATFORMS if tag_is_for(tag.platform, platform))


def tag_is_for(tag: str, platform: str) -> bool:
    system, _, machine = platform.partition("-")
    mine = {"linux": "linux", "windows": "win", "macos": "macosx"}[system]
    return tag == "any" or (mine in tag and tag.endswith(({"windows": "amd64"}.get(system, machine), "universal2")))


def asked(tables: Tables, package: str, there: Iterable[str]) -> Iterator[tuple[str, str | None, str]]:
    """Versions that a row speaks of, on every platform; and what goes with a torch, where that torch is."""
    there = set(there)
    listed = [row for row in tables.rows("third-party", "wheel") if row["package"] == package]
    for version in sorted(there, key=Version):
        if any(Version(row["from"]) <= Version(version) <= Version(row["to"]) for row in listed):
            yield from ((version, None, platform) for platform in PLATFORMS)
    for release in tables.releases() if not listed else ():
        if (partner := tables.companions(release.version).get(package)) in there:
            yield from ((str(partner), release.version, platform) for platform in PLATFORMS)


def expected(tables: Tables, package: str, version: str, torch: str | None, platform: str) -> Iterator[tuple[str, bool]]:
    """Each Python that is in question, and whether the tables have a wheel for it."""
    pin = tables.pin_of(package, version)
    released = tables.release(torch) if torch else None
    for python in PYTHONS:
        if (released and python not in released.pythons.get(platform, ())) or (pin and not meets(python.rstrip("t"), pin.python or "")):
            continue
        yield python, tables.wheel_lacks(package, version, platform, python) is None


def compared(tables: Tables, package: str, files: Sequence[File]) -> Iterator[Difference]:
    """Where file names say otherwise than [wheel] and [pythons], and rows for what is newer than these."""
    there = on_registry(files)
    table = "third-party" if any(row["package"] == package for row in tables.rows("third-party", "wheel")) else "torch-companion"
    for version, torch, platform in asked(tables, package, there):
        said = list(expected(tables, package, version, torch, platform))
        known = [python for python, is_there in said if is_there]
        found = [python for python, _ in said if (platform, python) in there[version]]
        if known != found:
            yield Difference(table, f"{package} {version}, Pythons on {platform}", " ".join(known) or "none", " ".join(found) or "none")
    if table == "third-party":
        yield from newer(tables, package, there)


def newer(tables: Tables, package: str, there: Mapping[str, set[tuple[str, str]]]) -> Iterator[Difference]:
    """Versions after the last row of [wheel]: the row reaches further where they are for the same, else there is a new one."""
    last = [row for row in tables.rows("third-party", "wheel") if row["package"] == package][-1]
    for version in sorted((one for one in there if Version(one) > Version(last["to"])), key=Version):
        row = wheel_row(package, version, there[version], last)
        same = all(row.get(name) == last.get(name) for name in ("platforms", "pythons", "abi"))
        edit = Extend("wheel", {"package": package, "from": last["from"]}, version) if same else AddRow("wheel", row, {"package": package})
        yield Difference("third-party", f"{package} {version}, wheels", row_text(last) if same else "", row_text(row), edit)
        last = {**last, "to": version} if same else row


def wheel_row(package: str, version: str, there: set[tuple[str, str]], before: Row) -> Row:
    """The row of a version; "abi3" stays said where all Pythons but the free-threaded ones are served."""
    platforms = [platform for platform in PLATFORMS if any(platform == one for one, _ in there)]
    pythons = [python for python in PYTHONS if any(python == one for _, one in there)]
    stable = not any(python.endswith("t") for python in pythons) and {"3.12", "3.13", "3.14"} <= set(pythons)
    row: dict[str, object] = {"package": package, "from": version, "to": version, "platforms": " ".join(platforms)}
    if before.get("abi") == "abi3" and stable:
        row["abi"] = "abi3"
    elif "pythons" in before or "abi" in before:
        row["pythons"] = " ".join(pythons)
    return row | ({"builds": before["builds"]} if "builds" in before else {}) | {"source": "wheel-files"}


# ---------------------------------------------------------------- variants of the download index


def variants(tables: Tables, package: str, files_of: Callable[[str, str], Iterable[File]]) -> Iterator[Difference]:
    """Where the pages of the download index say otherwise than [variants], [index] and the builds of torch.

    `files_of` gives the files of a package on the page of a variant; a page that does not answer says nothing of its variant.
    """
    wanted = {version: set(known) for version, known in known_variants(tables, package)}
    asked_for = sorted(set().union(*wanted.values()) | {build.variant for build in _builds(tables)})
    found: dict[str, set[str]] = {}
    silent: set[str] = set()
    for variant in asked_for:
        try:
            names = [file.name for file in files_of(variant, package)]
        except NoAnswer:
            silent.add(variant)
            continue
        for wheel in (one for name in names if (one := version_of(name)) is not None and one.local == variant):
            found.setdefault(wheel.public, set()).add(variant)
    table = "third-party" if package == "xformers" else "torch-companion"
    for version, known in wanted.items():
        here, seen = known - silent, found.get(version, set())
        if seen != here:
            yield Difference(table, f"{package} {version}, variants", " ".join(sorted(here)) or "none", " ".join(sorted(seen)) or "none")
    if silent:
        yield Difference(table, f"{package}, variants", "", f"the index does not answer for {', '.join(sorted(silent))}")


def known_variants(tables: Tables, package: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Versions that belong to the newest releases of torch, and the variants that the tables have of them."""
    if package == "xformers":
        rows = [row for row in tables.rows("third-party", "index") if row["package"] == package][-NEWEST:]
        yield from ((row["to"], tuple(row["variants"].split())) for row in rows)
        return
    for release in tables.releases()[-NEWEST:]:
        version = tables.companions(release.version).get(package)
        if version:
            plain = tuple(dict.fromkeys(build.variant for build in tables.builds(release.version) if build.exists != "low"))
            yield version, tables.companion_variants(package, version) or plain


def _builds(tables: Tables) -> Iterator[Build]:
    for release in tables.releases()[-NEWEST:]:
        yield from (build for build in tables.builds(release.version) if build.exists != "low")
