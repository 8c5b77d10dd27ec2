"""Releases and builds of torch, put together from the range rows of torch-release.toml and torch-build.toml."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence

from envcheck.facts.record import record
from envcheck.tables.file import CONFIDENCE, Row, TableFile
from envcheck.tables.versions import tag_named

PLATFORMS = ("linux-x86_64", "linux-aarch64", "windows-x86_64", "macos-arm64", "macos-x86_64")


@record
class Release:
    """One release of torch. Mappings are by platform ("linux-x86_64") or by machine ("x86_64", "aarch64", "arm64")."""

    version: str
    date: datetime.date
    requires_python: str  # laxer than the wheels that exist
    pythons: Mapping[str, tuple[str, ...]]  # platform -> ("3.10", "3.13t"), wheels on PyPI
    default_variant: Mapping[str, str]  # platform -> variant of the wheel on PyPI; a platform without wheels is absent
    glibc: Mapping[str, str]  # machine -> lowest glibc of the PyPI wheel
    macos: Mapping[str, str]  # machine -> lowest macOS of the wheel
    numpy_major: Mapping[str, int]  # "linux", "macos", "windows" -> newest NumPy major; 1 needs numpy<2
    cxx11_abi: Mapping[str, bool]  # machine -> _GLIBCXX_USE_CXX11_ABI of the PyPI wheel
    cxx_standard: int  # oldest C++ standard for extensions: 14, 17, 20
    index_form: str  # "find-links", "extra-index-url", "index-url"
    index_url: str  # with {variant}
    local_version: bool  # a command must write torch==X+cuNNN to get the variant
    yanked: bool
    source: str
    macos_pythons: tuple[tuple[str, str], ...] = ()  # Pythons whose arm64 wheel needs a newer macOS: (("3.13t", "14.0"),)

    def macos_on(self, machine: str, python: str | None) -> str | None:
        """Lowest macOS of the wheel for one Python."""
        special = dict(self.macos_pythons) if machine == "arm64" else {}
        return special.get(python or "", self.macos.get(machine))


@record
class Build:
    """One build of torch: release x variant x platform."""

    version: str  # "2.14.1"
    variant: str  # "cu130", "cpu", "rocm7.2", "xpu"
    platform: str
    cuda: str | None  # "13.0"
    archs: tuple[str, ...] | None  # ("sm_80", "compute_120") or gfx targets; () = CPU only, None = not known
    pythons: tuple[str, ...]
    glibc: str | None  # lowest glibc, on Linux
    macos: str | None  # lowest macOS, on macOS
    cxx11_abi: bool | None  # _GLIBCXX_USE_CXX11_ABI, on Linux
    on_pypi: bool  # the build that PyPI gives for this platform
    index_url: str  # where the download index keeps it
    kind: str | None  # how the architectures are known: "measured", "reported", "script", "inferred"
    confidence: str  # of the whole row: "low" must not be presented as existing or as certain to fit
    exists: str  # confidence that the build exists
    archs_confidence: str
    source: str
    macos_pythons: tuple[tuple[str, str], ...] = ()  # Pythons whose wheel needs a newer macOS


def releases(table: TableFile) -> Iterator[Release]:
    """Every release, oldest first."""
    rows = table.rows("release")
    order = [row["torch"] for row in rows]

    def ranged(section: str, version: str) -> Iterator[Row]:
        return (row for row in table.rows(section) if "variants" not in row and _holds(row, version, order))

    for row in rows:
        version = row["torch"]
        on = row.get("pythons_on", {})
        default = dict.fromkeys(PLATFORMS, "cpu") | {"linux-x86_64": row["default"], "linux-aarch64": row.get("default_aarch64", "cpu")}
        if not row.get("macos_x86_64", True):
            del default["macos-x86_64"]
        form = next(ranged("index-form", version))
        yield Release(
            version=version,
            date=datetime.date.fromisoformat(row["date"]),
            requires_python=row["requires_python"],
            pythons={platform: tuple(on.get(platform, row["pythons"]).split()) for platform in default},
            default_variant=default,
            glibc={one["machine"]: one["glibc"] for one in ranged("glibc", version)},
            macos={one["machine"]: one["macos"] for one in ranged("macos", version)},
            numpy_major={one["os"]: one["numpy"] for one in ranged("numpy", version)},
            cxx11_abi={one["machine"]: one["cxx11_abi"] for one in ranged("cxx11-abi", version)},
            cxx_standard=next(one["cxx"] for one in ranged("cxx-standard", version)),
            index_form=form["form"],
            index_url=form["url"],
            local_version=form["local_version"],
            yanked=row.get("yanked", False),
            source=table.source(row),
            macos_pythons=tuple((python, one["macos"]) for one in ranged("macos-python", version) for python in one["pythons"].split()),
        )


class Builds:
    """The builds of each release, in the order of the table: by variant, then platform. Made when a release is asked for."""

    def __init__(self, table: TableFile, release_table: TableFile, known: Mapping[str, Release]) -> None:
        self._table = table
        self._known = known
        self._order = order = list(known)
        self._rows = [(order.index(row["from"]), order.index(row["to"]), row) for row in table.rows("build")]
        self._exceptions = {name: [row for row in release_table.rows(name) if "variants" in row] for name in ("glibc", "cxx11-abi")}
        self._made: dict[str, tuple[Build, ...]] = {}

    def of(self, version: str) -> tuple[Build, ...]:
        """Builds of one release; () for a version that is none."""
        if version not in self._known:
            return ()
        if version not in self._made:
            at = self._order.index(version)
            self._made[version] = tuple(self._build(row, self._known[version]) for first, last, row in self._rows if first <= at <= last)
        return self._made[version]

    def _build(self, row: Row, release: Release) -> Build:
        variant, platform = row["variant"], row["platform"]
        system, machine = platform.split("-")
        exists, certain = row.get("exists", "high"), row.get("confidence", "high")
        glibc, abi = (self._exception(section, release.version, machine, variant) for section in ("glibc", "cxx11-abi"))
        return Build(
            version=release.version,
            variant=variant,
            platform=platform,
            cuda=tag_named(variant).cuda,
            archs=_archs(row),
            pythons=release.pythons.get(platform, ()),
            glibc=(glibc["glibc"] if glibc else release.glibc[machine]) if system == "linux" else None,
            macos=release.macos.get(machine) if system == "macos" else None,
            cxx11_abi=(abi["cxx11_abi"] if abi else release.cxx11_abi[machine]) if system == "linux" else None,
            on_pypi=release.default_variant.get(platform) == variant,
            index_url=release.index_url.format(variant=variant),
            kind=row.get("kind"),
            confidence=max(exists, certain, key=CONFIDENCE.index),
            exists=exists,
            archs_confidence=certain,
            source=self._table.source(row),
            macos_pythons=release.macos_pythons if platform == "macos-arm64" else (),
        )

    def _exception(self, section: str, version: str, machine: str, variant: str) -> Row | None:
        rows = (one for one in self._exceptions[section] if variant in one["variants"] and one["machine"] == machine)
        return next((one for one in rows if _holds(one, version, self._order)), None)


def _holds(row: Row, version: str, order: Sequence[str]) -> bool:
    """Does a range row hold for a release?"""
    return order.index(row["from"]) <= order.index(version) <= order.index(row["to"])


def _archs(row: Row) -> tuple[str, ...] | None:
    """archs = "80 90", ptx = "120" -> ("sm_80", "sm_90", "compute_120"); gfx targets as they are."""
    if row["variant"] == "cpu":
        return ()
    if "archs" not in row:
        return None
    names = row["archs"].split()
    if row["variant"].startswith("rocm"):
        return tuple(names)
    return (*(f"sm_{one}" for one in names), *(f"compute_{one}" for one in row.get("ptx", "").split()))
