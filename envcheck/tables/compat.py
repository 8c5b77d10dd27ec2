"""Typed, lazy access to rules/compat: what fits what, with the source of every row.

A method answers None for what its table does not hold, and for what is newer than the newest row: newer is not guessed.
A table is read when it is first asked for, once per Tables. Rows of later folders (site overlays) win by key.
CUDA versions are "13.0", compute capabilities "8.9", drivers "580.95.05", platforms "linux-x86_64"; `os` is "linux", "windows"
or "wsl" (where the driver is the Windows one). torch versions may carry a local part ("2.14.1+cu130"), which is ignored
where a release is meant.
"""

from __future__ import annotations

import datetime
import os as _os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from envcheck.facts.record import field, mutable
from envcheck.tables import versions
from envcheck.tables.archs import platform_of, runs_on
from envcheck.tables.file import Row, TableFile, read_table, read_texts
from envcheck.tables.folders import rules_folder
from envcheck.tables.rows import GpuRow, HostCompiler, PinRow, Product, XidRow
from envcheck.tables.torch_builds import PLATFORMS, Build, Builds, Release, releases
from envcheck.tables.versions import local, major, meets, pair, parsed, series, tag_named

if TYPE_CHECKING:
    from packaging.version import Version

_Made = TypeVar("_Made")

__all__ = (
    "PLATFORMS",
    "Build",
    "GpuRow",
    "HostCompiler",
    "PinRow",
    "Product",
    "Release",
    "Tables",
    "XidRow",
    "platform_of",
    "runs_on",
)  # fmt: skip


@mutable
class Tables:
    """All tables of `folders`, base first. Nothing is read before it is asked for."""

    folders: tuple[str | _os.PathLike[str], ...]
    plan_folders: tuple[str | _os.PathLike[str], ...] = (rules_folder("plan"),)
    _files: dict[str, TableFile] = field(default_factory=dict)
    _made: dict[str, object] = field(default_factory=dict)

    # ---------------------------------------------------------------- any table

    def table(self, name: str) -> TableFile:
        """One table as it is written; raises FileNotFoundError for a name that no folder has."""
        if name not in self._files:
            self._files[name] = read_table(name, self.folders)
        return self._files[name]

    def rows(self, table: str, section: str) -> tuple[Row, ...]:
        return self.table(table).rows(section)

    @property
    def verified(self) -> dict[str, datetime.date]:
        """Of each table that was read so far: the day its facts were last checked."""
        return {name: table.verified for name, table in self._files.items() if table.verified}

    def plan_texts(self) -> Mapping[str, Any]:
        """What the planner says, by section and name."""
        return read_texts("texts", self.plan_folders)

    # ---------------------------------------------------------------- driver

    def driver_floor(self, cuda: str, os: str = "linux") -> str | None:
        """Lowest driver that runs code built with this CUDA, by minor-version compatibility: "13.2" -> "580.65.06".

        On Windows the floor of CUDA 13 is a branch, "580". Source: release notes of the CUDA toolkit.
        """
        row = self._floor_row(cuda)
        return None if row is None else row["linux" if os == "linux" else "windows"]

    def driver_suffices(self, driver: str, cuda: str, os: str = "linux") -> bool | None:
        """May this driver run code built with this CUDA? None: not known, or between two numbers that NVIDIA's pages give.

        PTX of a toolkit newer than the driver's own CUDA cannot be JIT-compiled even where this says True.
        """
        row = self._floor_row(cuda)
        number = parsed(driver)
        if row is None or number is None:
            return None
        floor = parsed(row["linux" if os == "linux" else "windows"])
        unclear = None if os == "linux" else parsed(row.get("windows_unclear_from"))
        if floor is None:
            return None
        if number >= floor:
            return True
        return None if unclear and number >= unclear else False

    def _floor_row(self, cuda: str) -> Row | None:
        return self._by("cuda-driver", "floor", "cuda").get(series(cuda))

    def branch(self, driver: str, os: str = "linux") -> int | None:
        """Driver branch: "580.95.05" -> 580. Windows numbers run ahead of their branch and are mapped: "616.92" -> 615."""
        number = parsed(driver)
        if number is None:
            return None
        if os == "linux":
            return number.major if number.major in self._by("driver-branch", "branch", "branch") else None
        rows = self.rows("driver-branch", "windows")
        return next((int(row["branch"]) for row in rows if row["first"] <= number.major <= row["last"]), None)

    def is_past(self, driver: str, last: int, os: str = "linux") -> bool | None:
        """Whether a driver is of a later branch than `last`, the last one of a GPU; also a branch that the table does not know."""
        number = parsed(driver)
        if number is None or os == "linux":
            return None if number is None else number.major > last
        begun = [int(row["branch"]) for row in self.rows("driver-branch", "windows") if row["first"] <= number.major]
        return max(begun) > last if begun else None

    def first_of_branch(self, branch: int, os: str = "linux") -> str:
        """The lowest driver number of a branch: 470 -> "470", on Windows "471"."""
        rows = self.rows("driver-branch", "windows") if os != "linux" else ()
        return next((str(row["first"]) for row in rows if row["branch"] == branch), str(branch))

    def driver_cuda(self, driver: str, os: str = "linux") -> str | None:
        """Newest CUDA that this driver's branch offers: "580.95.05" -> "13.0". None for a branch whose pairing is not certain."""
        row = self._by("driver-branch", "branch", "branch").get(self.branch(driver, os))
        return None if row is None or _confidence(row) == "low" else str(row["cuda"])

    def driver_offering(self, cuda: str, os: str = "linux") -> str | None:
        """The first driver branch that offers this CUDA itself, PTX included: "12.8" -> "570", on Windows "572"."""
        wanted = parsed(cuda)
        offers = [(row["branch"], parsed(str(row["cuda"]))) for row in self.rows("driver-branch", "branch") if _confidence(row) != "low"]
        branches = [branch for branch, offered in offers if wanted and offered and offered >= wanted]
        return self.first_of_branch(min(branches), os) if branches else None

    def forward_compat(self, cuda: str, driver: str, gpu_name: str | None, os: str = "linux") -> bool | None:
        """May a cuda-compat package of this CUDA bridge this (older) Linux driver on this GPU?

        False: not on such a GPU (CUDA error 804), no package for this pair, or nothing to bridge as the driver is as new.
        None: not known (GPU unknown or a workstation board, driver branch not in NVIDIA's matrix).
        """
        if os != "linux":
            return False
        branch = self.branch(driver)
        row = self._by("forward-compat", "package", "cuda").get(series(cuda))
        if branch is None or row is None:
            return None
        if branch >= row["driver"]:
            return False
        if branch not in row.get("bridges", ()):
            return None
        return None if gpu_name is None else self.is_datacenter(gpu_name)

    # ---------------------------------------------------------------- GPU

    def gpu(self, compute_capability: str) -> GpuRow | None:
        """What holds for a compute capability, "8.9"."""
        row = self._by("gpu-architecture", "gpu", "compute_capability").get(compute_capability)
        if row is None:
            return None
        first = row.get("first_branch")
        products = tuple(one.name for one in self._products().values() if one.compute_capability == compute_capability)
        return GpuRow(
            compute_capability, row["architecture"], row["first_cuda"], row.get("last_cuda"), row.get("last_torch"),
            None if first is None else str(first), row.get("last_branch"), row.get("open_module"), products,
            row.get("datacenter", False), row.get("jetson", False), row.get("nvswitch", False),
            _confidence(row), self.table("gpu-architecture").source(row),
        )  # fmt: skip

    def first_cuda(self, compute_capability: str) -> tuple[int, int] | None:
        """First CUDA that compiles code which runs on this GPU: that of its own capability or of an earlier one of its family."""
        row = self.gpu(compute_capability)
        if row is None:
            return None
        generation, number = pair(compute_capability)
        family = [self.gpu(f"{generation}.{one}") for one in range(number)] if not row.jetson else []
        return min(pair(one.first_cuda) for one in (row, *family) if one is not None and (one is row or not one.jetson))

    def builds_serve(self, compute_capabilities: Sequence[str]) -> bool:
        """Whether any CUDA build of torch has code for one of these GPUs; where nothing is known of them it may."""
        archs = {build.archs for build in self.builds() if build.cuda and build.archs}
        return not compute_capabilities or any(runs_on(one, gpu) is not False for one in archs for gpu in compute_capabilities)

    def usual_python(self, platform: str | None) -> str | None:
        """The last but one Python that the newest release has wheels for on a platform: other packages follow later."""
        served = [tags for one in self.releases() if (tags := one.pythons.get(platform or "linux-x86_64"))]
        return next(iter([one for one in served[-1] if not one.endswith("t")][:-1][-1:]), None) if served else None

    def product(self, name: str) -> Product | None:
        """A product by its exact name, with or without "NVIDIA ", in any case; a name cut off ("GeForce RTX 2080 ...") is none."""
        return self._products().get(_product_key(name))

    def compute_capability(self, product: str) -> str | None:
        """Compute capability by product name. What the device itself reports always wins over this."""
        row = self.product(product)
        return None if row is None or row.confidence == "low" else row.compute_capability

    def compute_capability_of_pci(self, device: str) -> str | None:
        """Compute capability by PCI device id of vendor 10de, "2684" (display and 3D functions only)."""
        try:
            number = int(device, 16)
        except ValueError:
            return None
        rows = self.rows("gpu-product", "pci")
        return next((str(row["compute_capability"]) for row in rows if int(row["first"], 16) <= number <= int(row["last"], 16)), None)

    def is_datacenter(self, product: str) -> bool | None:
        """May this product use forward compatibility? Data-centre GPUs and Jetson may, GeForce may not, of RTX boards only some (None)."""
        row = self.product(product)
        if row is None:
            return None
        return {"datacenter": True, "jetson": True, "geforce": False, "mining": False}.get(row.kind)

    def first_driver(self, product: str, os: str = "linux") -> str | None:
        """First Linux driver that lists a product, for some Blackwell boards; the branch of its generation is gpu().first_driver.

        It says which driver to ask for, not that an older one of the branch fails: some were seen to drive boards they do not list.
        """
        rows = self.rows("gpu-product", "first-driver") if os == "linux" else ()
        return next((str(row["driver"]) for row in rows if _product_key(row["name"]) == _product_key(product)), None)

    def _products(self) -> Mapping[str, Product]:
        def make() -> dict[str, Product]:
            table = self.table("gpu-product")
            return {
                _product_key(name): Product(
                    name, row["compute_capability"], row["kind"], row.get("nvswitch", False), _confidence(row), table.source(row)
                )
                for row in table.rows("product")
                for name in row["names"]
            }

        return self._once("products", make)

    # ---------------------------------------------------------------- torch

    def releases(self) -> tuple[Release, ...]:
        """Every release of torch on PyPI since 1.10, oldest first."""
        return tuple(self._releases().values())

    def release(self, version: str) -> Release | None:
        """One release; a local part ("+cu130") does not matter."""
        return self._releases().get(versions.release(version))

    def builds(self, version: str | None = None) -> tuple[Build, ...]:
        """Every build that exists or may exist (see Build.confidence), of one release or all, by release, variant, platform."""
        if version is None:
            return tuple(build for release in self._releases() for build in self._builds().of(release))
        return self._builds().of(versions.release(version))

    def build(self, version_with_local: str, platform: str) -> Build | None:
        """The build of "2.14.1+cu130" on a platform; without a local part the one that PyPI gives there."""
        release = self.release(version_with_local)
        if release is None:
            return None
        variant = local(version_with_local) or release.default_variant.get(platform)
        return next((one for one in self.builds(release.version) if one.platform == platform and one.variant == variant), None)

    def _releases(self) -> Mapping[str, Release]:
        return self._once("releases", lambda: {one.version: one for one in releases(self.table("torch-release"))})

    def _builds(self) -> Builds:
        return self._once("builds", lambda: Builds(self.table("torch-build"), self.table("torch-release"), self._releases()))

    def companions(self, version: str) -> Mapping[str, str]:
        """Versions released with a torch: torchvision, torchaudio, torchtext, torchdata -> "0.29.1"."""
        row = self._by("torch-companion", "companion", "torch").get(versions.release(version), {})
        return {name: row[name] for name in ("torchvision", "torchaudio", "torchtext", "torchdata") if name in row}

    def companion_specifiers(self, version: str) -> Mapping[str, str]:
        """What goes with a torch, as specifiers: torchvision "==0.29.1", torchcodec ">=0.12", triton "~=3.8.0"."""
        row = self._by("torch-companion", "companion", "torch").get(versions.release(version), {})
        exact = {name: f"=={found}" for name, found in self.companions(version).items()}
        return exact | {name: row[name] for name in ("torchcodec", "triton") if name in row}

    def companion_requires(self, package: str, version: str) -> str | None:
        """What torch a version of torchvision, torchaudio, torchtext or torchdata requires: "==2.13.0", ">=2.14.0", "" for any."""
        wanted = versions.release(version)
        number = parsed(wanted)
        for row in self.rows("torch-companion", "requires"):
            if row["package"] == package and _between(number, row):
                return str(row["torch"])
        found = [row["torch"] for row in self.rows("torch-companion", "companion") if row.get(package) == wanted]
        return f"=={found[0]}" if len(found) == 1 else None

    def companion_variants(self, package: str, version: str) -> tuple[str, ...] | None:
        """Build variants of a companion that were seen on the download index; None: not known, usually those of its torch."""
        wanted = (package, versions.release(version))
        rows = self.rows("torch-companion", "variants")
        return next((tuple(row["variants"].split()) for row in rows if (row["package"], row["version"]) == wanted), None)

    def shared_files(self) -> tuple[str, ...]:
        """NVIDIA packages of which those for CUDA 12 and 13 install the same files, without their ending: "nvidia-cudnn"."""
        return tuple(str(row["cu12"]).removesuffix("-cu12") for row in self.rows("torch-pins", "same-files"))

    def pins(self, version: str) -> Mapping[str, str]:
        """nvidia-*, cuda-* and triton requirements of the default Linux wheel: {"nvidia-nccl-cu13": "==2.30.7"}.

        The extras of cuda-toolkit are spelled out as the packages they bring. Empty where the wheel bundles CUDA (up to 1.12),
        and for a local version that is not PyPI's default ("2.14.1+cu126"): those builds pin their own.
        """
        release, label = self.release(version), local(version)
        if label and release is not None and label != release.default_variant["linux-x86_64"]:
            return {}
        row = self._by("torch-pins", "pins", "torch").get(versions.release(version))
        if row is None:
            return {}
        result: dict[str, str] = {}
        for name, wanted in row["pins"].items():
            base, _, extras = name.partition("[")
            result[base] = wanted
            toolkit = self._by("torch-pins", "cuda-toolkit", "cuda_toolkit").get(wanted.lstrip("="), {}) if base == "cuda-toolkit" else {}
            for extra in extras.rstrip("]").split(",") if toolkit else ():
                package, specifier = _requirement(toolkit["extras"][extra])
                result.setdefault(package, specifier)
        return result

    def companion_conflict(self, torch: str, package: str, version: str) -> str | None:
        """Why a pair does not work although its metadata allow it; None: nothing known against it."""
        wanted = (versions.release(torch), package, versions.release(version))
        rows = self.rows("torch-companion", "conflict")
        return next((str(row["why"]) for row in rows if (row["torch"], row["package"], row["version"]) == wanted), None)

    def last_torch_of(self, package: str) -> str | None:
        """The last torch that the last release of an ended companion goes with."""
        row = self._by("torch-companion", "ended", "package").get(package, {})
        return row.get("torch")

    def conda_pythons(self, torch: str) -> tuple[str, ...]:
        """Pythons that conda-forge builds a release of torch for."""
        number = versions.version(torch)
        rows = [row for row in self.rows("conda", "pythons") if versions.version(row["from"]) <= number]
        return tuple(rows[-1]["pythons"].split()) if rows else ()

    def conda_companions(self, package: str, platform: str, python: str | None = None) -> tuple[str, ...] | None:
        """Minors of torch that conda-forge builds a companion for, "2.10"; () where it builds none; None for another package."""
        rows = [row for row in self.rows("conda", "companion") if row["package"] == package]
        mine = [row for row in rows if platform in row["platforms"].split() and (python is None or python in row["pythons"].split())]
        return tuple(minor for row in mine for minor in row["minors"].split()) if rows else None

    def channel_builds(self, torch: str) -> tuple[tuple[str, str], ...]:
        """The CUDAs that conda's channel `pytorch` has a release for, oldest first, each with the package that chooses it there."""
        rows = [row for row in self.rows("conda", "pytorch") if _between(parsed(torch), row)]
        return tuple(sorted(((row["cuda"], row["selector"]) for row in rows), key=lambda one: versions.version(one[0])))

    def channel_releases(self, cuda: str, selector: str) -> tuple[tuple[str, str], ...]:
        """The first and the last release of each run of releases that the channel `pytorch` has for a CUDA."""
        rows = self.rows("conda", "pytorch")
        return tuple((row["from"], row["to"]) for row in rows if (row["cuda"], row["selector"]) == (cuda, selector))

    def compares_cuda(self, package: str, version: str) -> str | None:
        """How a companion holds its CUDA against torch's at import: "major", "minor"; None: not known of this version."""
        number = parsed(versions.release(version))
        rows = self.rows("torch-companion", "cuda-check")
        return next((str(row["compares"]) for row in rows if row["package"] == package and _between(number, row)), None)

    # ---------------------------------------------------------------- kernel log, toolkit, packages, installers

    def xid(self, code: int) -> XidRow | None:
        """An Xid of the kernel log ("NVRM: Xid (PCI:0000:91:00): 79, …")."""
        row = self._by("xid", "xid", "code").get(code)
        if row is None:
            return None
        return XidRow(code, row.get("name"), row.get("action"), row.get("text"), row.get("training"), self.table("xid").source(row))

    def host_compiler(self, cuda: str) -> HostCompiler | None:
        """Host compilers that nvcc of this CUDA accepts. Source: crt/host_config.h of that toolkit."""
        row = self._by("host-compiler", "nvcc", "cuda").get(series(cuda))
        if row is None:
            return None
        archs = tuple(f"sm_{one}" for one in row.get("archs", "").split())
        return HostCompiler(
            row["cuda"], row.get("max_gcc"), row.get("max_clang"), archs, _confidence(row), self.table("host-compiler").source(row)
        )

    def third_party(self, package: str) -> tuple[PinRow, ...]:
        """What the versions of a package ask of torch, oldest first; the name in normalized form, "flash-attn"."""
        table = self.table("third-party")
        rows = (row for row in table.rows("pin") if row["package"] == package)
        known = ("package", "versions", "first", "last", "torch", "python", "source", "date", "confidence", "yanked", "below")
        return tuple(
            PinRow(
                package, tuple(row.get("versions", "").split()), _range(row), row.get("torch"), row.get("python"),
                {name: value for name, value in row.items() if name not in known}, table.source(row), row.get("below"),
            )
            for row in rows
        )  # fmt: skip

    def pin_of(self, package: str, version: str) -> PinRow | None:
        """The row of one version of a package."""
        wanted = versions.release(version)
        for row in self.third_party(package):
            if wanted in row.versions or (not row.versions and meets(wanted, row.specifier)):
                return row
        return None

    def linked_cuda_major(self, package: str, version: str) -> int | None:
        """CUDA major that the PyPI wheel of a package links by itself: vllm 0.20.0 -> 13."""
        number = parsed(versions.release(version))
        if number is None:
            return None
        rows = (row for row in self.rows("third-party", "cuda-major") if row["package"] == package)
        fitting = [row for row in rows if number >= (parsed(row["first"]) or number)]
        return int(fitting[-1]["cuda_major"]) if fitting else None

    def wheel_lacks(self, package: str, version: str, platform: str, python: str | None) -> Literal["platform", "python"] | None:
        """What no wheel on PyPI of a version of a package is for; None: nothing known against it. `python` as in "3.12", "3.14t"."""
        number = parsed(versions.release(version))
        row = self._of("third-party", "wheel", package, number)
        if row is not None:
            if platform not in row["platforms"].split():
                return "platform"
            listed = row["pythons"].split() if "pythons" in row else None
            fits = python in listed if listed is not None else not (row.get("abi") == "abi3" and (python or "").endswith("t"))
            return "python" if python and not fits else None
        for other in self.rows("torch-companion", "pythons"):
            if other["package"] == package and _between(number, other) and platform in other["platforms"].split():
                listed = other["pythons"].split()
                return "platform" if not listed else "python" if python and python not in listed else None
        return None

    def cuda_alone(self, package: str, version: str) -> bool:
        """Whether the wheels of a version on PyPI hold kernels for CUDA and for nothing else."""
        row = self._of("third-party", "wheel", package, parsed(versions.release(version)))
        return row is not None and row.get("builds") == "cuda"

    def on_index(self, package: str, version: str, platform: str = "linux-x86_64") -> tuple[tuple[str, ...], str] | None:
        """Variants of a version on download.pytorch.org, and the one that PyPI has; None: not known of it."""
        row = self._of("third-party", "index", package, parsed(versions.release(version)))
        if row is None:
            return None
        os, _, processor = platform.partition("-")
        return tuple(row.get(f"on_{os}", row["variants"]).split()) if processor == "x86_64" else (), str(row["pypi"])

    def gpu_floor(self, package: str, version: str | None) -> str | None:
        """Lowest compute capability that a version of a package supports; without a version, its newest."""
        rows = [row for row in self.rows("third-party", "minimum-gpu") if row["package"] == package]
        number = parsed(versions.release(version)) if version else None
        fitting = [row for row in rows if number is None or (parsed(row["first"]) or number) <= number]
        return str(fitting[-1]["compute_capability"]) if fitting else None

    def with_wheels(self, package: str) -> tuple[str, ...]:
        """Versions that the table of wheels names, oldest first: the ends of its ranges."""
        rows = (row for row in self.rows("third-party", "wheel") if row["package"] == package)
        return tuple(dict.fromkeys(str(row[end]) for row in rows for end in ("from", "to")))

    def _of(self, table: str, section: str, package: str, number: Version | None) -> Row | None:
        """The row of a section that one version of a package lies in."""
        return next((row for row in self.rows(table, section) if row["package"] == package and _between(number, row)), None)

    def uv_backends(self) -> frozenset[str]:
        """Names that uv's --torch-backend takes beside "auto"."""
        return frozenset(row["name"] for row in self.rows("installer", "uv-backend"))

    def first_to_compile(self, on: str) -> str | None:
        """First torch whose torch.compile takes a Python ("3.12") or "Windows"."""
        return next((str(row["torch"]) for row in self.rows("torch-release", "compile") if row["on"] == on), None)

    def mps_floor(self, version: str) -> str | None:
        """Lowest macOS on which MPS can be available with a torch release."""
        wanted = versions.minor(version) or (0, 0)
        rows = [row for row in self.rows("mps", "floor") if (versions.minor(row["torch"]) or wanted) <= wanted]
        return str(rows[-1]["macos"]) if rows else None

    def cudnn_floor(self, cudnn: str) -> str | None:
        """Lowest compute capability that a cuDNN version serves: "9.10.2.21" -> "5.0"."""
        number = parsed(cudnn)
        return next((str(row["compute_capability"]) for row in self.rows("cudnn", "floor") if _between(number, row)), None)

    def cudnn_of(self, version: str, variant: str) -> str | None:
        """cuDNN that a Linux build brings: "2.14.1", "cu130" -> "9.24.0.43".

        Known for PyPI's builds, and taken to be the same for others of their CUDA major; those kept back for older GPUs have rows.
        """
        number, cuda = parsed(versions.release(version)), major(tag_named(variant).cuda)
        rows = self.rows("cudnn", "variant")
        if special := next((row for row in rows if row["variant"] == variant and _between(number, row)), None):
            return str(special["cudnn"])
        found = self.pins(versions.release(version)).get(f"nvidia-cudnn-cu{cuda}")
        return found.removeprefix("==") if found else None

    # ---------------------------------------------------------------- inside

    def _by(self, table: str, section: str, field: str) -> Mapping[object, Row]:
        """Rows of a section by one field."""
        return self._once(f"{table}/{section}/{field}", lambda: {row[field]: row for row in self.rows(table, section) if field in row})

    def _once(self, key: str, make: Callable[[], _Made]) -> _Made:
        if key not in self._made:
            self._made[key] = make()
        return cast("_Made", self._made[key])


def _product_key(name: str) -> str:
    return " ".join(name.split()).lower().removeprefix("nvidia ")


def _confidence(row: Row) -> str:
    return str(row.get("confidence", "high"))


def _range(row: Row) -> str:
    """The versions of a pin row as one specifier; several listed ones become the range they span."""
    versions = row.get("versions", "").split()
    first, last = (versions[0], versions[-1]) if versions else (row["first"], row["last"])
    return f"=={first}" if first == last else f">={first},<={last}"


def _between(number: Version | None, row: Row) -> bool:
    """Is a version inside the range of a row, `from` … `to` (included) or `from` … `below`?"""
    first, last, end = parsed(row["from"]), parsed(row.get("to")), parsed(row.get("below"))
    if number is None or first is None or number < first:
        return False
    return number <= last if last else end is None or number < end


def _requirement(text: str) -> tuple[str, str]:
    """Name and specifier: "nvidia-nvjitlink>=13.0.88,<14" -> ("nvidia-nvjitlink", ">=13.0.88,<14")."""
    end = next((index for index, letter in enumerate(text) if letter in "<>=!~"), len(text))
    return text[:end].strip(), text[end:]
