"""Brings the torch and third-party tables up to date with the package registry.

    python tools/refresh_tables.py                what the registry says and rules/compat does not, as a diff of facts
    python tools/refresh_tables.py --write        and writes it: new rows, ranges that reach further, `verified`
    python tools/refresh_tables.py --check        exit 1 if a torch is published that the tables do not know
    python tools/refresh_tables.py --files        also: for which Pythons and platforms companions and third parties have wheels
    python tools/refresh_tables.py --variants     also: in which variants they are on download.pytorch.org

Reads the index of pip's configuration, and single files of wheels over HTTP ranges: of a torch that is new, or has files
uploaded since the tables were verified, torch/version.py, METADATA, ATen/ATen.h, and with --archs the architectures
compiled in. NAME is a package, or torch==X to look into that release again. What no registry tells (variants of the download
index, torchcodec, flash-attn, torchao) is listed for a person at the end.

Exit: 0 done; 1 --check found a newer torch, or --write left tables that contradict each other; 2 usage, or no answer.
"""

from __future__ import annotations

import argparse
import datetime
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import package_files
import packages
import releases
from difference import AddRow, Difference, Row, row_text, write
from packaging.version import Version
from registry import PYPI, File, Registry, RegistryError, Settings, pip_settings
from table_checks import contradictions, problems
from wheels import Metadata, TorchFacts, Wheel, read_metadata, read_torch, specifier_text

from envcheck.tables.compat import Tables

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "rules", "compat")
NAMES = tuple(dict.fromkeys(("torch", *packages.COMPANIONS, *packages.THIRD_PARTY, *package_files.WITH_FILES)))
TABLES = {"torch": ("torch-release", "torch-build", "torch-pins"), **dict.fromkeys(packages.COMPANIONS, ("torch-companion",))}
READERS = 6  # wheels read at a time
REMINDERS = (
    "torch-build: the variants of the download index beside PyPI's default (release matrix, PYTORCH_RELEASES_CODE_CC)",
    "torch-release: [index-form], [early-python] and the ranges marked above as carried on",
    "torch-companion: torchcodec (its README), [cuda-check], [conflict]",
    "without --files: torch-companion [pythons], third-party [wheel]; without --variants: torch-companion [variants], third-party [index]",
    "third-party: [flash-attn], [bitsandbytes], [cuda-major], [xformers], [minimum-gpu] (release pages, files inside the wheels)",
)

Key = TypeVar("Key")
Read = TypeVar("Read")


def main(arguments: list[str] | None = None) -> int:
    args = _arguments(arguments)
    settings = pip_settings()
    if args.index_url:
        settings = Settings(args.index_url.rstrip("/"), settings.certificates, settings.proxy)
    registry = Registry(settings)
    start = time.monotonic()
    try:
        return _check(registry, Tables((args.tables,))) if args.check else _refresh(args, registry)
    except RegistryError as error:
        print(f"refresh_tables: {error}", file=sys.stderr)
        return 2
    finally:
        spent = time.monotonic() - start
        print(f"({registry.requests} requests, {registry.bytes_read / 1e6:.1f} MB, {spent:.0f} s, {settings.index})", file=sys.stderr)


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="refresh_tables.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(NAMES)}, or torch==X (default: all)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="only say whether a torch is published that the tables do not know")
    what.add_argument("--write", action="store_true", help="write the tables")
    parser.add_argument("--archs", action="store_true", help="read the compiled-in architectures too (8 MB a wheel)")
    parser.add_argument("--files", action="store_true", help="hold the names of all wheels against the Pythons and platforms of the tables")
    parser.add_argument("--variants", action="store_true", help="hold the download index of torch against the variants of the tables")
    parser.add_argument("--index-base", default=package_files.INDEX, metavar="URL", help=f"that index (default: {package_files.INDEX})")
    parser.add_argument("--all", action="store_true", help="look into the wheels of every release of torch again")
    parser.add_argument("--tables", default=FOLDER, metavar="FOLDER", help="the tables (default: rules/compat of this checkout)")
    parser.add_argument("--index-url", metavar="URL", help=f"the index (default: pip's, else {PYPI})")
    args = parser.parse_args(arguments)
    wrong = [name for name in args.names if name.partition("==")[0] not in NAMES or ("==" in name and not name.startswith("torch=="))]
    if wrong:
        parser.error(f"not known: {', '.join(wrong)}")
    return args


def _check(registry: Registry, tables: Tables) -> int:
    found = releases.published(registry.files("torch"))
    newest = tables.releases()[-1].version
    new = [one for one in found.values() if tables.release(one.version) is None and not one.yanked]
    for one in new:
        print(f"torch {one.version} was published on {one.date or 'a day that the index does not say'}; the tables end with {newest}")
    if not new:
        print(f"the tables know every torch up to {newest}")
    return 1 if new else 0


def _refresh(args: argparse.Namespace, registry: Registry) -> int:
    tables = Tables((args.tables,))
    names = {name.partition("==")[0] for name in args.names} or set(NAMES)
    again = {name.partition("==")[2] for name in args.names if "==" in name}
    differences: list[Difference] = []
    coming: dict[str, Mapping[str, TorchFacts]] = {}
    if "torch" in names:
        found, coming = _torch(args, registry, tables, again)
        differences += found
    pairs = [name for name in packages.COMPANIONS if name in names or coming]
    if pairs:
        differences += _companions(registry, tables, pairs, coming)
    for package in packages.THIRD_PARTY:
        if package in names:
            files = registry.files(package)
            new = packages.unknown(tables, package, packages.versions(files))
            read = _side_by_side(new, lambda wheel: read_metadata(registry, wheel))
            differences += packages.third_party_rows(package, read, packages.first_days(files))
    differences += _files(args, registry, tables)
    for one in differences:
        print("\n".join(one.lines()))
    print("\nNot on the registry, so for a person to look at:", *REMINDERS, sep="\n  ")
    return _written(args, names, differences) if args.write else 0


def _files(args: argparse.Namespace, registry: Registry, tables: Tables) -> Iterator[Difference]:
    """What the names of wheels say, on the registry and on the download index of torch."""
    names = {name.partition("==")[0] for name in args.names} or {*package_files.WITH_FILES, *package_files.ON_INDEX}
    for package in package_files.WITH_FILES if args.files else ():
        if package in names:
            yield from package_files.compared(tables, package, registry.files(package))
    for package in package_files.ON_INDEX if args.variants else ():
        if package in names:
            yield from package_files.variants(tables, package, lambda variant, name: _page(args, registry, variant, name))


def _page(args: argparse.Namespace, registry: Registry, variant: str, package: str) -> tuple[File, ...]:
    page = Registry(Settings(f"{args.index_base.rstrip('/')}/{variant}", registry.settings.certificates, registry.settings.proxy))
    try:
        return page.files(package)
    finally:
        registry.requests += page.requests
        registry.bytes_read += page.bytes_read


def _written(args: argparse.Namespace, names: set[str], differences: list[Difference]) -> int:
    """`verified` moves where everything that the registry tells was compared, and nothing is left for a person to decide."""
    open_tables = {one.table for one in differences if one.edit is None}
    covered = {table for name in names for table in TABLES.get(name, ())}
    if not names >= {"torch", *packages.COMPANIONS}:
        covered -= {"torch-companion"}
    if names >= set(packages.THIRD_PARTY):
        covered |= {"third-party"}
    changed = write(args.tables, differences, sorted(covered - open_tables), datetime.datetime.now(datetime.timezone.utc).date())
    print("\nWritten:", *(changed or ["nothing"]), sep="\n  ")
    wrong = (*problems(args.tables), *contradictions(Tables((args.tables,))))
    if wrong:
        print("\nThe tables are not right yet:", *wrong, sep="\n  ")
    return 1 if wrong else 0


def _torch(
    args: argparse.Namespace, registry: Registry, tables: Tables, again: set[str]
) -> tuple[list[Difference], dict[str, Mapping[str, TorchFacts]]]:
    """Differences, and of every release that is to come into the tables what its wheels say."""
    found = releases.published(registry.files("torch"))
    if missing := again - set(found):
        raise RegistryError(f"no torch {', '.join(sorted(missing))} on the index")
    verified = tables.table("torch-release").verified or datetime.date.min
    jobs: dict[tuple[str, str], Wheel] = {}
    differences: list[Difference] = []
    for version, one in found.items():
        known = tables.release(version)
        if known is not None:
            differences += releases.differing(known, one)
        since = one.newest_file is not None and one.newest_file >= verified
        if known is None or args.all or version in again or since:
            variants = {} if known is None else known.default_variant
            jobs |= {(version, platform): wheel for platform, wheel in releases.to_read(one, variants).items()}
    facts = _side_by_side(jobs, lambda wheel: read_torch(registry, wheel, archs=args.archs))
    coming: dict[str, Mapping[str, TorchFacts]] = {}
    with tempfile.TemporaryDirectory() as folder:  # of two new releases the second is held against tables that know the first
        work = os.path.join(folder, "compat")
        shutil.copytree(args.tables, work)
        for version, one in found.items():
            mine = {platform: read for (of, platform), read in facts.items() if of == version}
            known = tables.release(version)
            if known is not None:
                for platform, read in mine.items():
                    differences += releases.inside(tables, known, platform, read)
            elif releases.LINUX[0] in mine:
                coming[version] = mine
                new = [
                    *releases.new_release(tables, one, mine),
                    *_toolkit(registry, tables, mine[releases.LINUX[0]].metadata),
                ]
                differences += new
                write(work, new, [], verified)
                tables = Tables((work,))
    return differences, coming


def _toolkit(registry: Registry, tables: Tables, metadata: Metadata) -> Iterator[Difference]:
    """What the extras of a cuda-toolkit bring that no row has yet: nvidia-cublas==13.4.1.3; extra == "cublas"."""
    asked = metadata.asked(releases.LINUX[0], "3.12").get("cuda-toolkit")
    version = str(asked.specifier).removeprefix("==") if asked else ""
    if asked is None or any(row["cuda_toolkit"] == version for row in tables.rows("torch-pins", "cuda-toolkit")):
        return
    found = packages.versions(registry.files("cuda-toolkit"))
    wheel = next((wheel for number, wheel in found.items() if Version(number) == Version(version)), None)  # 13.0.3 is called 13.0.3.0 there
    if wheel is None:
        raise RegistryError(f"no cuda-toolkit {version} on the index")
    toolkit = read_metadata(registry, wheel)
    extras: dict[str, str] = {}
    for extra in sorted(asked.extras):
        of = toolkit.asked(releases.LINUX[0], "3.12", extra)
        own = [name for name in of if extra in name] or list(of)  # cusolver brings nvidia-cusolver, and what that needs
        if own:
            extras[extra] = f"{own[0]}{specifier_text(of[own[0]].specifier).replace('.*', '')}"
    row: Row = {"cuda_toolkit": version, "extras": extras, "source": "toolkit"}
    yield Difference("torch-pins", f"cuda-toolkit {version}", "", row_text(row), AddRow("cuda-toolkit", row, {}))


def _companions(
    registry: Registry, tables: Tables, pairs: list[str], coming: Mapping[str, Mapping[str, TorchFacts]]
) -> Iterator[Difference]:
    known = [one.version for one in tables.releases()]
    facts: dict[str, dict[str, Metadata]] = {}
    for package in pairs:
        wheels = packages.versions(registry.files(package))
        new = packages.unknown(tables, package, wheels)
        last = [version for version in wheels if version not in new][-1:] if coming else []  # may go with a new torch too
        read = _side_by_side({version: wheels[version] for version in (*last, *new)}, lambda wheel: read_metadata(registry, wheel))
        facts[package] = read
        yield from packages.companion_rows(package, {version: read[version] for version in new}, known, list(coming))
    before = known[-1]
    for torch, of in coming.items():
        main = of[releases.LINUX[0]]
        triton = releases.pins_of(main.metadata, ["3.12"]).get("triton")
        row = packages.pair_row(torch, facts, triton, releases.triton_python_below(main.metadata))
        yield Difference("torch-companion", f"torch {torch}", "", row_text(row), AddRow("companion", row, {"torch": before}))
        before = torch


def _side_by_side(jobs: Mapping[Key, Wheel], read: Callable[[Wheel], Read]) -> dict[Key, Read]:
    with ThreadPoolExecutor(READERS) as pool:
        return dict(zip(jobs, pool.map(read, jobs.values()), strict=True))


if __name__ == "__main__":
    sys.exit(main())
