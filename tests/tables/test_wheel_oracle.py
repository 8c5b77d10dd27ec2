"""The tables against what they did not come from: files read out of the wheels on the registry, by ranges.

The wheel is right: where it disagrees, the row of the table is to be changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import package_files
import pytest
import releases
from packages import THIRD_PARTY, torch_of, versions
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename
from packaging.version import InvalidVersion, Version
from registry import NoAnswer, Registry
from releases import Published, published
from wheels import ARCHS_BYTES, METADATA_BYTES, Metadata, TorchFacts, Wheel, newest_first, read_metadata, read_torch

from envcheck.tables.compat import Tables
from envcheck.tables.folders import rules_folder

pytestmark = pytest.mark.network

TABLES = Tables((rules_folder("compat"),))
X86, ARM = "linux-x86_64", "linux-aarch64"
READERS = 6

# One of every era of PyPI's default (CUDA 10.2, 11.7, 12.1, 12.4, 12.6, 12.8, 13.0, 13.2), and of every platform.
USUAL = [
    *((version, X86) for version in (
        "1.12.1", "1.13.1", "2.0.1", "2.1.2", "2.3.1", "2.4.1", "2.5.1", "2.6.0", "2.7.1", "2.8.0", "2.9.1", "2.11.0", "2.13.0", "2.14.1",
        "2.15.0",
    )),
    ("2.15.0", ARM), ("2.9.1", ARM), ("2.15.0", "macos-arm64"), ("2.2.2", "macos-x86_64"), ("2.14.1", "windows-x86_64"),
]  # fmt: skip
ALL = [(one.version, platform) for one in TABLES.releases() for platform in one.default_variant]
PACKAGES = [
    ("torchvision", "0.14.1"), ("torchvision", "0.20.1"), ("torchvision", "0.28.0"), ("torchvision", "0.29.2"), ("torchaudio", "2.5.1"),
    ("torchaudio", "2.11.0"), ("xformers", "0.0.28.post3"), ("xformers", "0.0.35"), ("vllm", "0.9.2"), ("vllm", "0.20.0"),
    ("vllm", "0.33.0"), ("bitsandbytes", "0.49.1"), ("bitsandbytes", "0.42.0"), ("torch-tensorrt", "2.14.0"),
]  # fmt: skip


@dataclass(frozen=True)
class Reading:
    """Every wheel that may be asked for, read side by side from the first question on."""

    releases: Mapping[str, Published]
    torch: Mapping[tuple[str, str], tuple[Wheel, Future[TorchFacts]]]
    packages: Mapping[tuple[str, str], Future[Metadata]]


@pytest.fixture(scope="module")
def reading(package_index: Registry, request: pytest.FixtureRequest) -> Iterator[Reading]:
    mine = [item for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    chosen = {item.callspec.params["one"] for item in mine if "one" in item.callspec.params}
    names = {package for package, version in PACKAGES if (package, version) in chosen}
    pool = ThreadPoolExecutor(READERS)
    try:
        found = published(package_index.files("torch"))
        lists = dict(zip(names, pool.map(lambda name: versions(package_index.files(name)), names), strict=True))
    except NoAnswer as error:
        pool.shutdown(wait=False, cancel_futures=True)
        pytest.skip(f"the package registry does not answer: {error}")
    torch = {}
    for version, platform in dict.fromkeys((*USUAL, *ALL)):
        if (version, platform) in chosen:
            [wheel, *_] = newest_first([one for one in found[version].wheels if one.platform == platform])
            torch[version, platform] = wheel, pool.submit(read_torch, package_index, wheel, archs=_cuda(version, platform))
    asked = [(package, version) for package, version in PACKAGES if package in lists]
    others = {(package, version): pool.submit(read_metadata, package_index, lists[package][version]) for package, version in asked}
    yield Reading(found, torch, others)
    pool.shutdown(wait=True, cancel_futures=True)


def _cuda(version: str, platform: str) -> bool:
    """Is there an architecture string to be read, by the tables?"""
    release = TABLES.release(version)
    return release is not None and release.default_variant[platform] != "cpu"


def compare(reading: Reading, version: str, platform: str) -> None:
    wheel, future = reading.torch[version, platform]
    try:
        facts = future.result(timeout=200)
    except NoAnswer as error:
        pytest.skip(f"the package registry does not answer: {error}")
    release, build = TABLES.release(version), TABLES.build(version, platform)
    assert release is not None and build is not None
    assert facts.version.partition("+")[0] == version
    assert releases.variant_of(facts) == build.variant == release.default_variant[platform]
    assert facts.cuda == build.cuda
    assert build.on_pypi
    if build.cuda is None:
        assert build.archs == ()
        assert facts.bytes_read < METADATA_BYTES
    else:
        assert facts.archs and facts.archs == build.archs
        assert facts.numpy == release.numpy_major["linux"]
        assert facts.bytes_read < ARCHS_BYTES
    # By the index: Pythons, date, the glibc or macOS in the file's name.
    found = reading.releases[version]
    assert found.pythons[platform] == build.pythons == release.pythons[platform]
    assert facts.metadata.requires_python in (release.requires_python, "")
    assert list(releases.differing(release, found)) == []
    assert (facts.cxx or 14) == release.cxx_standard
    # By METADATA: each pin as the tables have it, and none of theirs that no Python has.
    pins = TABLES.pins(version)
    asked = {python: nvidia(facts.metadata, platform, python) for python in build.pythons}
    for python, requirements in asked.items():
        for name, requirement in requirements.items():
            assert SpecifierSet(pins[name]) == requirement.specifier, (python, name)
    if platform == X86 and build.cuda is not None:
        written = next((row["pins"] for row in TABLES.rows("torch-pins", "pins") if row["torch"] == version), {})
        assert {Requirement(name).name for name in written} == {name for requirements in asked.values() for name in requirements}
        for name in written:
            one = Requirement(name)
            assert one.extras == asked[build.pythons[0]][one.name].extras
        triton = {python: "triton" in requirements for python, requirements in asked.items()}
        below = next(
            (row.get("triton_python_below") for row in TABLES.rows("torch-companion", "companion") if row["torch"] == version), None
        )
        if any(triton.values()):
            for python, there in triton.items():
                assert there is (below is None or releases.python_order(python) < releases.python_order(below)), python
            assert TABLES.companion_specifiers(version)["triton"] == str(asked[build.pythons[0]]["triton"].specifier)
    elif build.cuda is None:
        assert not any(asked.values()), "a CPU build asks for nothing of NVIDIA"
    assert wheel.version.public == version


def nvidia(metadata: Metadata, platform: str, python: str) -> dict[str, Requirement]:
    asked = metadata.asked(platform, python)
    return {name: one for name, one in asked.items() if name == "triton" or name.startswith(("nvidia-", "cuda-"))}


@pytest.mark.parametrize("one", USUAL, ids=lambda one: "-".join(one))
def test_the_wheel_agrees(reading: Reading, one: tuple[str, str]) -> None:
    compare(reading, *one)


@pytest.mark.slow
@pytest.mark.parametrize("one", [one for one in ALL if one not in USUAL], ids=lambda one: "-".join(one))
def test_every_other_wheel_agrees(reading: Reading, one: tuple[str, str]) -> None:
    compare(reading, *one)


@pytest.mark.parametrize("one", PACKAGES, ids=lambda one: "-".join(one))
def test_the_package_agrees(reading: Reading, one: tuple[str, str]) -> None:
    package, version = one
    try:
        metadata = reading.packages[one].result(timeout=200)
    except NoAnswer as error:
        pytest.skip(f"the package registry does not answer: {error}")
    asked = torch_of(metadata)
    if package not in THIRD_PARTY:
        assert SpecifierSet(TABLES.companion_requires(package, version) or "") == SpecifierSet(asked or "")
        return
    row = TABLES.pin_of(package, version)
    assert row is not None
    assert (row.torch is None) == (asked is None)
    assert SpecifierSet(row.torch or "") == SpecifierSet(asked or "")
    assert row.python is None or SpecifierSet(row.python) == SpecifierSet(metadata.requires_python)
    requirements = metadata.asked(X86, "3.12")
    for name, wanted in row.requires.items():
        if name in ("torchvision", "torchaudio"):
            assert requirements[name].specifier == SpecifierSet(wanted)


def test_every_release_is_in_the_tables(reading: Reading) -> None:
    known = {one.version for one in TABLES.releases()}
    assert known <= set(reading.releases), "a row for what was never published"
    # A torch that came after the tables is no fault of this checkout: `tools/refresh_tables.py --check` is what fails then.
    old = {version for version, one in reading.releases.items() if one.date is None or one.date <= TABLES.releases()[-1].date}
    assert old <= known
    for release in TABLES.releases():
        assert list(releases.differing(release, reading.releases[release.version])) == []


def named() -> dict[str, set[str]]:
    """Package -> specifiers of everything that the tables name and a command may ask for."""
    result: dict[str, set[str]] = {}
    for release in TABLES.releases():
        for name, wanted in (*TABLES.companion_specifiers(release.version).items(), *TABLES.pins(release.version).items()):
            result.setdefault(name, set()).add(wanted)
    for package in THIRD_PARTY:
        for row in TABLES.third_party(package):
            result.setdefault(package, set()).update(f"=={one}" for one in row.versions or (row.specifier.rpartition("=")[2],))
    return result


def test_no_version_of_the_tables_is_missing_from_the_registry(package_index: Registry) -> None:
    wanted = named()
    with ThreadPoolExecutor(READERS) as pool:
        try:
            pages = dict(zip(wanted, pool.map(package_index.files, wanted), strict=True))
        except NoAnswer as error:
            pytest.skip(f"the package registry does not answer: {error}")
    missing = []
    for name, specifiers in wanted.items():
        there = {version for file in pages[name] if (version := version_of(file.name)) is not None}
        missing += [f"{name}{text}" for text in sorted(specifiers) if not any(SpecifierSet(text).contains(one) for one in there)]
    assert missing == []
    assert len(wanted) > 30 and sum(map(len, wanted.values())) > 200


def version_of(file: str) -> Version | None:
    """Of a wheel or a source archive."""
    try:
        return parse_wheel_filename(file)[1] if file.endswith(".whl") else parse_sdist_filename(file)[1]
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return None


@pytest.mark.parametrize("package", package_files.WITH_FILES)
def test_the_files_agree(package_index: Registry, package: str) -> None:
    """What [wheel] and [pythons] say that no wheel is for, and nothing else that a torch is there for, is for no wheel."""
    try:
        files = package_index.files(package)
    except NoAnswer as error:
        pytest.skip(f"the package registry does not answer: {error}")
    found = [one for one in package_files.compared(TABLES, package, files) if one.edit is None]
    assert [one.lines() for one in found] == []
    known = list(package_files.asked(TABLES, package, package_files.on_registry(files)))
    assert sum(len(list(package_files.expected(TABLES, package, *one))) for one in known) > 50


def test_there_are_enough_wheels() -> None:
    assert len({one for one in USUAL if one[1] == X86}) >= 12
    assert {platform for _, platform in USUAL} == {X86, ARM, "macos-arm64", "macos-x86_64", "windows-x86_64"}
