"""Torch builds that could be installed, and what keeps each of them from running on a machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from envcheck.facts.record import field, record
from envcheck.planner.installers import installers
from envcheck.planner.profile import Card, Profile
from envcheck.tables.archs import arch_number, runs_on
from envcheck.tables.versions import at_least, major, minor, older, series, span, variant_of_cuda, version

if TYPE_CHECKING:
    from envcheck.tables.compat import Build, GpuRow, Tables


@record
class Candidate:
    """A torch release in one build variant, from the wheel indexes or from a conda channel. One object a build, compared by identity."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    version: str
    variant: str  # "cu130", "cpu", "rocm7.2", "xpu"
    platform: str
    cuda: str | None = None
    archs: tuple[str, ...] | None = None
    confidence: str = "high"  # of the architecture list
    seen: bool = True  # False: the release scripts name it, nobody was seen to have it
    default: bool = False  # what a plain `pip install torch==X` brings on this platform
    mainline: bool = False  # the variant that PyPI gives on Linux x86_64 for this release
    undocumented: bool = False
    pythons: tuple[str, ...] = ()
    glibc: str | None = None
    macos: str | None = None
    channel: str = "wheel"  # "wheel", "conda-forge", "pytorch"
    selector: str | None = None  # package of the channel `pytorch` that chooses CUDA: "cudatoolkit", "pytorch-cuda"
    macos_pythons: tuple[tuple[str, str], ...] = ()  # Pythons whose wheel needs a newer macOS

    @property
    def full(self) -> str:
        """ "2.14.1+cu130"."""
        return f"{self.version}+{self.variant}"

    @property
    def shown(self) -> str:
        """As a person calls it: macOS builds have no variant."""
        return self.version if self.platform.startswith("macos") else self.full

    @property
    def hip(self) -> str | None:
        return self.variant[4:] if self.variant.startswith("rocm") else None

    @property
    def xpu(self) -> bool:
        return self.variant == "xpu"

    @property
    def cpu(self) -> bool:
        return self.variant == "cpu"


@record
class Obstacle:
    """Why a build does not run here: the key of its text, and the values to fill in. `needed` is the driver that would do."""

    key: str
    values: Mapping[str, str] = field(default_factory=dict)
    needed: str | None = None


@lru_cache(maxsize=16)
def catalogue(tables: Tables, platform: str) -> tuple[Candidate, ...]:
    """Every wheel of a platform that is known to exist, newest release first."""
    mainline = {release.version: release.default_variant.get("linux-x86_64") for release in tables.releases()}
    made = [_wheel(row, mainline.get(row.version)) for row in tables.builds() if row.platform == platform and row.exists != "low"]
    return tuple(sorted(made, key=lambda one: version(one.version), reverse=True))


def _wheel(row: Build, mainline: str | None) -> Candidate:
    return Candidate(
        row.version,
        row.variant,
        row.platform,
        row.cuda,
        row.archs,
        row.archs_confidence,
        row.exists == "high" or row.variant == "cpu",
        row.on_pypi,
        mainline == row.variant,
        installers().undocumented(row.variant, row.version),
        row.pythons,
        row.glibc,
        row.macos,
        macos_pythons=row.macos_pythons,
    )


@lru_cache(maxsize=16)
def conda_catalogue(tables: Tables, platform: str) -> tuple[Candidate, ...]:
    """Every build of conda-forge and of the frozen channel `pytorch` for a platform, newest release first."""
    data = installers()
    forge = tables.rows("conda", "conda-forge")
    made = [
        _conda(row["torch"], row["cuda"], platform, row, tables.conda_pythons(row["torch"])) for row in forge if row["platform"] == platform
    ]
    for row in tables.rows("conda", "cpu"):
        if row["platform"] == platform:
            among = [one for one in dict.fromkeys(one["torch"] for one in forge) if _lies(one, row)]
            made += [_conda(one, None, platform, row, tables.conda_pythons(one)) for one in among]
    if platform in ("linux-x86_64", "windows-x86_64"):
        for release in tables.releases():
            last = version(data.data["conda"]["last_channel_python"])
            pythons = tuple(one for one in release.pythons.get(platform, ()) if version(one.rstrip("t")) <= last)
            for row in tables.rows("conda", "pytorch"):
                if _lies(release.version, row):
                    made.append(_conda(release.version, row["cuda"], platform, row, pythons, "pytorch"))
    return tuple(sorted(made, key=lambda one: version(one.version), reverse=True))


def _lies(torch: str, row: Mapping[str, Any]) -> bool:
    return version(row["from"]) <= version(torch) <= version(row["to"])


def _conda(
    torch: str, cuda: str | None, platform: str, row: Mapping[str, Any], pythons: tuple[str, ...], channel: str = "conda-forge"
) -> Candidate:
    archs = (*(f"sm_{one}" for one in row.get("archs", "").split()), *(f"compute_{one}" for one in row.get("ptx", "").split()))
    variant = (variant_of_cuda(cuda) if cuda else None) or "cpu"
    glibc = row.get("glibc", "2.17") if platform.startswith("linux") else None
    return Candidate(
        torch,
        variant,
        platform,
        cuda,
        archs,
        pythons=pythons,
        glibc=glibc,
        macos=row.get("macos"),
        channel=channel,
        selector=row.get("selector"),
    )


def obstacles(one: Candidate, profile: Profile, tables: Tables) -> Iterator[Obstacle]:
    """What keeps a build from running here, gravest first; the driver comes last because it alone can be changed."""
    yield from _interpreter(one, profile)
    yield from _system(one, profile, tables)
    yield from _hardware(one, profile, tables)
    yield from _driver(one, profile, tables)


def first_obstacle(one: Candidate, profile: Profile, tables: Tables) -> Obstacle | None:
    """The gravest obstacle, None for a build that fits."""
    return next(obstacles(one, profile, tables), None)


def not_on_conda(one: Candidate, names: Iterable[str], python: str | None, tables: Tables) -> Obstacle | None:
    """The first companion of torch that conda-forge does not build for this build and Python."""
    for name in names if one.channel == "conda-forge" else ():
        minors = tables.conda_companions(name, one.platform, python)
        if minors is not None and series(one.version) not in minors:
            where = " on ".join((f"Python {python}", one.platform) if python else (one.platform,))
            key = "conda-companion" if minors else "conda-no-companion"
            return Obstacle(key, {"name": name, "minors": span(minors) if minors else "", "where": where})
    return None


def pool(tables: Tables, platform: str, source: str) -> tuple[Candidate, ...]:
    """The builds of one source: "wheel" or "conda"."""
    return catalogue(tables, platform) if source == "wheel" else conda_catalogue(tables, platform)


@lru_cache(maxsize=512)
def system_obstacles(tables: Tables, platform: str, source: str, system: Profile) -> tuple[Obstacle | None, ...]:
    """For every build of a pool what the interpreter and the system object to. `system` is a profile of these alone."""
    return tuple(next(chain(_interpreter(one, system), _system(one, system, tables)), None) for one in pool(tables, platform, source))


@lru_cache(maxsize=2048)
def hardware_obstacles(tables: Tables, platform: str, source: str, hardware: Profile) -> tuple[tuple[Obstacle | None, bool], ...]:
    """For every build of a pool what GPUs and driver object to, and whether its CUDA was made for these GPUs."""
    return tuple(
        (next(chain(_hardware(one, hardware, tables), _driver(one, hardware, tables)), None), _knows(one, hardware, tables))
        for one in pool(tables, platform, source)
    )


def _knows(one: Candidate, profile: Profile, tables: Tables) -> bool:
    """Whether the build's CUDA compiles for every GPU here. An older one of the same major runs, without code of its own."""
    rows = [gpu_row(tables, card.compute_capability) for card in profile.cards if card.compute_capability]
    return one.cuda is None or all(row is None or version(one.cuda) >= version(row.first_cuda) for row in rows)


@lru_cache(maxsize=128)
def gpu_row(tables: Tables, capability: str) -> GpuRow | None:
    """What holds for a compute capability, looked up once."""
    return tables.gpu(capability)


def _interpreter(one: Candidate, profile: Profile) -> Iterator[Obstacle]:
    if profile.implementation not in (None, "cpython"):
        yield Obstacle("implementation", {"implementation": str(profile.implementation)})
    elif profile.python and profile.python not in one.pythons:
        yield Obstacle("python", {"python": profile.python, "pythons": ", ".join(one.pythons) or "no Python"})


def _system(one: Candidate, profile: Profile, tables: Tables) -> Iterator[Obstacle]:
    if profile.musl:
        yield Obstacle("musl")
    if not at_least(profile.glibc, one.glibc):
        yield Obstacle("glibc", {"glibc": str(profile.glibc), "needed": str(one.glibc)})
    if profile.os == "darwin" and profile.macos:
        needed = dict(one.macos_pythons).get(profile.python or "", one.macos)
        if not at_least(profile.macos, needed):
            yield Obstacle("macos", {"macos": profile.macos, "needed": str(needed)})
        if profile.accelerator == "mps":
            metal = tables.mps_floor(one.version)
            if not at_least(profile.macos, metal):
                yield Obstacle("mps", {"macos": profile.macos, "needed": str(metal)})


def _hardware(one: Candidate, profile: Profile, tables: Tables) -> Iterator[Obstacle]:
    match profile.accelerator:
        case "cuda":
            if one.cuda is None:
                yield Obstacle("not-cuda")
                return
            if profile.jetson and version(profile.jetson) < version("38"):
                # JetPack 5 and 6 have a driver of their own; the official aarch64 wheels up to CUDA 12 are for servers (SBSA).
                yield Obstacle("jetson", {"l4t": profile.jetson})
            elif profile.jetson and version(one.cuda) < version("13"):
                yield Obstacle("jetson-cuda", {"cuda": one.cuda})
            for card in profile.cards:
                yield from _card(one, card, profile, tables)
        case "rocm":
            if one.hip is None:
                yield Obstacle("not-rocm")
            elif one.archs is None:
                yield Obstacle("archs-unknown")
            else:
                absent = [gfx for gfx in profile.gfx if gfx not in one.archs]
                if absent:
                    yield Obstacle("gfx", {"gfx": ", ".join(absent), "archs": ", ".join(one.archs)})
        case "xpu":
            if not one.xpu:
                yield Obstacle("not-xpu")
        case "mps" | "cpu":
            if not one.cpu:
                yield Obstacle("not-cpu")


def _card(one: Candidate, card: Card, profile: Profile, tables: Tables) -> Iterator[Obstacle]:
    capability = card.compute_capability
    if capability is None:
        return
    if one.archs is None:
        yield Obstacle("archs-unknown")
        return
    served = _serves(one.archs, capability, one.cuda)
    values = {"gpu": card.shown, "archs": _shown(one.archs)}
    if served is None:
        yield Obstacle("gpu-unknown", values)
    elif served is False:
        newest = max((arch_number(arch) for arch in one.archs), default=(0, 0))
        yield Obstacle("gpu-too-new" if (minor(capability) or (0, 0)) > newest else "gpu-too-old", values)
    elif served == "ptx":
        # torch's own kernels could be compiled by the driver, but cuBLAS and cuDNN of that CUDA have no code for a newer GPU.
        yield Obstacle("ptx", values)
    if one.channel == "conda-forge" and older(capability, installers().data["conda"]["lowest_proved"]["compute_capability"]):
        yield Obstacle("conda-cudnn", values)
    if one.cuda and one.channel == "wheel":
        cudnn = tables.cudnn_of(one.version, one.variant)
        if cudnn and older(capability, tables.cudnn_floor(cudnn)):
            yield Obstacle("cudnn", values | {"cudnn": cudnn})


@lru_cache(maxsize=4096)
def _serves(archs: tuple[str, ...], capability: str, cuda: str | None) -> bool | str | None:
    """True by a cubin, "ptx" by PTX alone, False by neither; None where it is not known."""
    cubin = runs_on([arch for arch in archs if arch.startswith("sm_")], capability, cuda)
    if cubin:
        return True
    return "ptx" if runs_on([arch for arch in archs if arch.startswith("compute_")], capability, cuda) else cubin


def _driver(one: Candidate, profile: Profile, tables: Tables) -> Iterator[Obstacle]:
    if profile.accelerator != "cuda" or one.cuda is None or profile.jetson:
        return
    yield from _dropped(profile, tables)
    needed, wants, offers = driver_needed(one, profile, tables), major(one.cuda) or 0, major(profile.driver_cuda)
    if needed and not profile.driver and offers is not None and offers < wants >= 11:
        # its number is not known, what it offers is ("found version 11040")
        yield Obstacle("driver", {"driver": f"one for CUDA {profile.driver_cuda}", "needed": needed, "cuda": one.cuda}, needed)
    if not needed or not profile.driver or version(profile.driver) >= version(needed):
        return
    board = _card_floor(profile, tables)
    if offers is not None and offers >= wants >= 11 and not board and _has_compat(profile, tables):
        return
    unclear = not board and tables.driver_suffices(profile.driver, one.cuda, driver_os(profile)) is None
    values = {"driver": profile.driver, "needed": needed, "cuda": one.cuda}
    yield Obstacle("driver-unclear" if unclear else "driver", values, needed)


def _has_compat(profile: Profile, tables: Tables) -> bool:
    """Whether the CUDA that is offered is newer than this driver's own: a cuda-compat library is in use."""
    own = tables.driver_cuda(profile.driver or "", driver_os(profile))
    return own is None or version(profile.driver_cuda or "0") > version(own)


@lru_cache(maxsize=1024)
def _dropped(profile: Profile, tables: Tables) -> tuple[Obstacle, ...]:
    """The first GPU that the driver in use no longer drives."""
    for card in profile.cards if profile.driver else ():
        row = gpu_row(tables, card.compute_capability) if card.compute_capability else None
        if row and row.last_branch and tables.is_past(profile.driver or "", row.last_branch, driver_os(profile)):
            return (Obstacle("dropped", {"gpu": card.shown, "driver": str(profile.driver), "last": str(row.last_branch)}),)
    return ()


def last_branch(profile: Profile, tables: Tables) -> int | None:
    """The last driver branch that drives every GPU here; None where none is dropped yet."""
    rows = [gpu_row(tables, card.compute_capability) for card in profile.cards if card.compute_capability]
    return min((row.last_branch for row in rows if row and row.last_branch), default=None)


def driver_needed(one: Candidate, profile: Profile, tables: Tables) -> str | None:
    """Lowest driver for this build on these GPUs."""
    if one.cuda is None:
        return None
    floors = [tables.driver_floor(one.cuda, driver_os(profile)), _card_floor(profile, tables)]
    return max((floor for floor in floors if floor), key=version, default=None)


def driver_os(profile: Profile) -> str:
    """The system whose driver numbers count: WSL runs the Windows driver."""
    return "windows" if profile.windows or profile.wsl else "linux"


@lru_cache(maxsize=1024)
def _card_floor(profile: Profile, tables: Tables) -> str | None:
    """First driver that drives every GPU of the machine, if the branch in use is older than theirs."""
    system = driver_os(profile)
    branch = tables.branch(profile.driver, system) if profile.driver else None
    rows = [gpu_row(tables, card.compute_capability) for card in profile.cards if card.compute_capability]
    firsts = [int(row.first_driver) for row in rows if row and row.first_driver and row.first_driver.isdecimal()]
    boards = [board for card in profile.cards if card.name and (board := tables.first_driver(card.name, system))]
    if branch is not None and firsts and branch < max(firsts):
        return max((str(max(firsts)), *boards), key=version)
    # Some drivers drive boards that they do not list: where one answered for its GPUs, the list says nothing.
    asserted = all(card.asserted for card in profile.cards)
    later = [board for board in boards if asserted and profile.driver and version(profile.driver) < version(board)]
    return max(later, key=version, default=None)


def _shown(archs: tuple[str, ...]) -> str:
    return " ".join(archs)
