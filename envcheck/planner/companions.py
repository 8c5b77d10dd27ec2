"""What must move together with torch, and what would break: torchvision, torchaudio, xformers, compiled extensions and the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

from envcheck.facts.record import field, mutable, record, replace
from envcheck.planner.candidate import Candidate
from envcheck.planner.installers import installers, texts
from envcheck.planner.profile import Profile
from envcheck.tables.archs import runs_on
from envcheck.tables.versions import build_tag, major, meets, minor, older, series, version

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from envcheck.tables.compat import Tables


@record
class Move:
    """One package that is installed or changed beside torch. Either an exact version, or a specifier."""

    name: str
    version: str | None = None
    specifier: str = ""
    old: str | None = None
    build_here: bool = False  # compiled on this machine: needs torch first, and no build isolation
    age: int = 0  # how many newer groups of versions of a wished package do not go with this torch
    known: bool = True  # the tables say what it asks of torch
    wished: bool = False
    extras: tuple[str, ...] = ()
    index: Literal["", "too", "alone"] = ""  # whether the index of the build's variant has it: as PyPI has it, or there alone

    @property
    def new(self) -> str:
        return self.version or self.specifier

    def requirement(self, label: str | None = None) -> str:
        """As a requirement; `label` is the variant to write ("cu130")."""
        name = f"{self.name}[{','.join(self.extras)}]" if self.extras else self.name
        if self.version is None:
            return name + self.specifier
        return f"{name}=={self.version}" + (f"+{label}" if label else "")


@record
class Broken:
    """An installed or wished package that has no counterpart beside a torch."""

    name: str
    why: str
    wished: bool = False


@record
class Companions:
    moves: tuple[Move, ...] = ()
    broken: tuple[Broken, ...] = ()
    remove: tuple[str, ...] = ()  # to be uninstalled first: other CUDA packages with the same files
    notes: tuple[str, ...] = ()

    @cached_property
    def by_name(self) -> Mapping[str, Move]:
        return {move.name: move for move in reversed(self.moves)}


_NOTHING = Companions()
RELEASED_WITH = ("torchvision", "torchaudio", "torchtext", "torchdata")


def companions(one: Candidate, profile: Profile, wished: Mapping[str, Requirement], tables: Tables) -> Companions:
    """What goes with a build on this machine: what is installed there, and what was wished."""
    names = [name for name in dict.fromkeys((*profile.packages, *wished)) if name != "torch"]
    if not names:
        return _NOTHING
    found = [answer for name in names for answer in _one(name, profile.packages.get(name), wished.get(name), one, profile, tables)]
    notes = [answer for answer in found if isinstance(answer, str)]
    moves = tuple(_as_wished(answer, wished) for answer in found if isinstance(answer, Move))
    broken = tuple(answer for answer in found if isinstance(answer, Broken))
    return Companions(moves, broken, _same_files(one, profile, tables), tuple(dict.fromkeys(notes)))


def _as_wished(move: Move, wished: Mapping[str, Requirement]) -> Move:
    wish = wished.get(move.name)
    return replace(move, wished=True, extras=tuple(sorted(wish.extras))) if wish is not None else move


def knows(name: str, tables: Tables) -> bool:
    """Whether the tables say what a package asks of torch; the name in normalized form."""
    return name in _named() or bool(_rows(tables, name))


def nearest_known(name: str, tables: Tables) -> str | None:
    """The known package whose name is that one but for a slip: "torchvision" of "torchvison"."""
    import difflib

    names = {"torch", *_named(), *(row["package"] for row in tables.rows("third-party", "pin"))}
    return next(iter(difflib.get_close_matches(name, sorted(names), 1, 0.85)), None)


def _named() -> frozenset[str]:
    """Packages that `_one` has a branch for."""
    return frozenset((*RELEASED_WITH, "torchcodec", "flash-attn", "numpy", "bitsandbytes", *installers().data["compiled"]["packages"]))


def _one(
    name: str, old: str | None, wish: Requirement | None, one: Candidate, profile: Profile, tables: Tables
) -> Iterator[Move | Broken | str]:
    """What becomes of one package; a str is a note."""
    if wish is None and not changes(one, profile):
        return
    if name in RELEASED_WITH:
        yield from _released_with(name, old, wish, one, profile, tables)
    elif name == "torchcodec":
        yield from _codec(old, wish, one, profile, tables)
    elif name == "flash-attn":
        yield from _flash(old, wish, one, profile, tables)
    elif name in installers().data["compiled"]["packages"]:
        yield from _compiled(name, old, wish, one, profile, tables)
    elif name == "numpy":
        yield from _numpy(old, wish, one, profile, tables)
    elif name == "bitsandbytes":
        yield from _bitsandbytes(old, wish, one, profile, tables)
    elif _rows(tables, name):
        yield from _pinned(name, old, wish, one, profile, tables)
    elif wish is not None:
        yield Move(name, specifier=str(wish.specifier), old=old, known=False)
    if name in ("deepspeed", "apex", "flash-attn") and one.cuda and profile.nvcc and major(profile.nvcc) != major(one.cuda):
        yield texts(tables).say("note.nvcc", name=name, nvcc=profile.nvcc, cuda=one.cuda)


def changes(one: Candidate, profile: Profile) -> bool:
    """Whether a build is another than the installed one."""
    return one.version != profile.torch or (profile.variant is not None and one.variant != profile.variant)


def _released_with(
    name: str, old: str | None, wish: Requirement | None, one: Candidate, profile: Profile, tables: Tables
) -> Iterator[Move | Broken]:
    data = installers().data
    wished = wish is not None
    partner = tables.companions(one.version).get(name)
    if name == "torchdata" and not partner:
        if old and version(old) <= version(data["torchdata"]["last_coupled"]):
            yield Broken(name, texts(tables).say("broken.pin", name=name, version=old, wanted=f"=={profile.torch}"), wished)
        elif wish is not None:
            yield Move(name, specifier=str(wish.specifier) or ">" + data["torchdata"]["last_coupled"], old=old)
        return
    if not partner:
        last, end = (data["torchtext"]["last"], data["torchtext"]["last_torch"]) if name == "torchtext" else ("?", "?")
        key = "broken.ended" if name == "torchtext" else "broken.none-for"
        yield Broken(name, texts(tables).say(key, name=name, last=last, torch=end if name == "torchtext" else one.version), wished)
        return
    if wish is not None and wish.specifier and not meets(partner, str(wish.specifier)):
        yield Broken(name, texts(tables).say("broken.wish", name=name, version=partner, torch=one.version, requirement=wish), wished)
        return
    if not has_variant(name, partner, one, tables):
        if name == "torchaudio" and one.cuda:
            yield Broken(name, texts(tables).say("broken.cuda-compare", version=partner, cuda=one.cuda), wished)
        else:
            yield Broken(
                name, texts(tables).say("broken.no-build", name=name, version=partner, variant=one.variant, torch=one.version), wished
            )
        return
    last = name == "torchaudio" and partner == data["torchaudio"]["last"]
    if last and profile.python and version(profile.python.rstrip("t")) > version(data["torchaudio"]["last_python"]):
        yield Broken(name, texts(tables).say("broken.python", name=name, version=partner, python=profile.python), wished)
    elif lack := _no_wheel(name, partner, one, profile, tables):
        yield Broken(name, _said(lack, name, partner, tables), wished)
    else:
        yield Move(name, partner, old=old)


@lru_cache(maxsize=4096)
def has_variant(name: str, partner: str, one: Candidate, tables: Tables) -> bool:
    """Whether a companion exists in the variant of a build; where the table does not say, it goes with its torch."""
    if name not in ("torchvision", "torchaudio") or one.channel != "wheel":
        return True
    seen = tables.companion_variants(name, partner)
    return seen is None or one.variant in seen


def _compiled(
    name: str, old: str | None, wish: Requirement | None, one: Candidate, profile: Profile, tables: Tables
) -> Iterator[Move | Broken]:
    if wish is None:
        if old and not _same_binary(one, profile):
            yield Broken(name, _built(name, old, profile, tables))
    elif lack := _no_kernels(name, one, profile, tables):
        yield Broken(name, _said(lack, name, "", tables), True)
    else:  # whether its sources know this torch is not in the tables
        yield Move(name, specifier=str(wish.specifier), old=old, build_here=True, known=False)


def _flash(old: str | None, wish: Requirement | None, one: Candidate, profile: Profile, tables: Tables) -> Iterator[Move | Broken | str]:
    if wish is None:
        if old and not _same_binary(one, profile):
            yield Broken("flash-attn", _built("flash-attn", old, profile, tables))
        return
    if lack := _no_kernels("flash-attn", one, profile, tables):
        yield Broken("flash-attn", _said(lack, "flash-attn", "", tables), True)
        return
    ready = flash_wheel(one, profile, tables)
    if not ready and one.cuda:
        yield texts(tables).say("note.flash-build", major=major(one.cuda))
    yield Move("flash-attn", specifier=str(wish.specifier), old=old, build_here=True, known=ready)


def _no_kernels(name: str, one: Candidate, profile: Profile, tables: Tables) -> _Lack | None:
    """Why a package that is compiled here has nothing for a build: its sources are for GPUs of others, or for newer ones."""
    made_for = installers().data["compiled"]["accelerators"].get(name)
    kind = "cuda" if one.cuda else "rocm" if one.hip else one.variant
    if made_for and kind not in made_for:
        return "accelerator", {"variant": one.variant, "kinds": " or ".join(map(_ACCELERATORS.__getitem__, made_for))}
    return _gpu_below(tables.gpu_floor(name, None), profile) if one.cuda else None


_ACCELERATORS = {"cuda": "CUDA", "rocm": "ROCm"}


def _gpu_below(floor: str | None, profile: Profile) -> _Lack | None:
    low = [card for card in profile.cards if floor and card.compute_capability and older(card.compute_capability, floor)]
    return ("gpu", {"floor": floor, "gpu": low[0].shown}) if low else None


def flash_wheel(one: Candidate, profile: Profile, tables: Tables) -> bool:
    """Whether the project publishes a wheel for this torch: its setup.py then takes it instead of compiling."""
    if one.platform != "linux-x86_64" or not one.cuda:
        return False
    torch, cuda = series(one.version), str(major(one.cuda))
    return any(
        torch in row["torch_minors"].split()
        and cuda in row["cuda_majors"].split()
        and (not profile.python or "pythons" not in row or profile.python in row["pythons"].split())
        for row in tables.rows("third-party", "flash-attn")
    )


def _built(name: str, old: str, profile: Profile, tables: Tables) -> str:
    return texts(tables).say("broken.compiled", name=name, version=old, minor=series(profile.torch) or "?", variant=profile.variant or "?")


def _same_binary(one: Candidate, profile: Profile) -> bool:
    """Same torch minor and same CUDA major: what was compiled against the one loads beside the other."""
    if not profile.torch or minor(profile.torch) != minor(one.version):
        return not profile.torch
    return _family(one.variant) == _family(profile.variant or one.variant)


def _family(variant: str) -> str:
    """ "cu12" of "cu126"."""
    return variant[:4] if variant.startswith("cu") else variant


def _numpy(old: str | None, wish: Requirement | None, one: Candidate, profile: Profile, tables: Tables) -> Iterator[Move | Broken]:
    """Releases of torch that were built for NumPy 1 do not see a NumPy 2."""
    release = tables.release(one.version)
    system = {"darwin": "macos"}.get(profile.os or "linux", profile.os or "linux")
    first = bool(release and release.numpy_major.get(system) == 1)
    if wish is None:
        if first and old and version(old) >= version("2"):
            yield Move("numpy", specifier="<2", old=old)
        return
    asked = str(wish.specifier)
    named = [one.version.removesuffix(".*") for one in wish.specifier]
    if first and not any(meets(item, f"{asked},<2" if asked else "<2") for item in (*_NUMPY_1, *named)):
        yield Broken("numpy", texts(tables).say("broken.wish-range", name="numpy", torch=one.version, wanted="<2", requirement=wish), True)
    else:
        yield Move("numpy", specifier=",".join(part for part in (asked, "<2" if first else "") if part), old=old)


_NUMPY_1 = ("1.19.5", "1.21.6", "1.22.4", "1.23.5", "1.24.4", "1.25.2", "1.26.4")  # the last of each series: what a range of NumPy 1 holds


def _codec(old: str | None, wish: Requirement | None, one: Candidate, profile: Profile, tables: Tables) -> Iterator[Move | Broken]:
    """torchcodec: versions of a range go with one torch."""
    wanted = tables.companion_specifiers(one.version).get("torchcodec")
    if wanted and not (wish is None and old and meets(old, wanted)):
        yield _ranged("torchcodec", old, wish, wanted, one, profile, tables)
    elif wish is not None and not wanted:
        yield Broken("torchcodec", texts(tables).say("broken.none-for", name="torchcodec", torch=one.version), True)


def _ranged(
    name: str, old: str | None, wish: Requirement | None, wanted: str, one: Candidate, profile: Profile, tables: Tables
) -> Move | Broken:
    """A package of which a range of versions will do, narrowed by the wish."""
    asked = str(wish.specifier) if wish is not None else ""
    exact = asked.startswith("==") and "*" not in asked and "," not in asked
    both = asked if exact or not wanted else ",".join(part for part in (asked, wanted) if part)
    bounds = [part.lstrip("<>=!~ ").removesuffix(".*") for part in wanted.split(",") if part]
    known = [item for item in (*tables.with_wheels(name), *bounds, _NEXT) if meets(item, wanted) is not False]
    if exact:
        known = [asked.lstrip("= ")] if meets(asked.lstrip("= "), wanted) is not False else []
    allowed = [item for item in known if meets(item, asked) is not False]
    lacking = [_no_wheel(name, item, one, profile, tables) for item in allowed]
    if not allowed:
        return Broken(name, texts(tables).say("broken.wish-range", name=name, torch=one.version, wanted=wanted, requirement=wish), True)
    if all(lacking) and (lack := lacking[-1]):
        return Broken(name, _said(lack, name, allowed[-1], tables), wish is not None)
    return Move(name, specifier=both, old=old)


_NEXT = "9999"  # a version newer than the tables: what it is for is not known


def _bitsandbytes(
    old: str | None, wish: Requirement | None, one: Candidate, profile: Profile, tables: Tables
) -> Iterator[Move | Broken | str]:
    floor = _bitsandbytes_floor(one.cuda, tables) if one.cuda else None
    if wish is not None or (old and floor and version(old) < version(floor)):
        yield _ranged("bitsandbytes", old, wish, f">={floor}" if floor else "", one, profile, tables)
    elif old:
        yield from _pinned("bitsandbytes", old, None, one, profile, tables)


@lru_cache(maxsize=64)
def _bitsandbytes_floor(cuda: str, tables: Tables) -> str | None:
    """First version listed with a library for this CUDA. What is older than the list is only doubted from CUDA 12.8 on."""
    if version(cuda) < version("12.8"):
        return None
    firsts = [row["first"] for row in tables.rows("third-party", "bitsandbytes") if cuda in row["cuda_versions"].split()]
    return min(firsts, key=version, default=None)


@lru_cache(maxsize=256)
def _rows(tables: Tables, name: str):  # type: ignore[no-untyped-def]
    return tables.third_party(name)


def _pinned(
    name: str, old: str | None, wish: Requirement | None, one: Candidate, profile: Profile, tables: Tables
) -> Iterator[Move | Broken | str]:
    """A package whose versions ask for a torch: xformers, vllm."""
    installed = old if wish is None else None
    if installed and _may_stay(name, installed, one, profile, tables):
        return
    move = _counterpart(name, old, wish, one, profile, tables)
    if isinstance(move, Broken):
        yield Broken(name, _why_not(name, installed, one, profile, tables)) if installed else move
        return
    index = tables.on_index(name, move.version, one.platform) if move.version else None
    if index and one.variant in index[0]:
        move = replace(move, index="too" if one.variant == index[1] else "alone")
    elif index and one.cuda and move.version:
        built = build_tag(f"+{index[1]}").cuda
        yield texts(tables).say("note.other-build", name=name, version=move.version, built=built, cuda=one.cuda)
    if name == "torch-tensorrt":
        yield texts(tables).say("note.fetched", name=name)
    yield move


def _may_stay(name: str, installed: str, one: Candidate, profile: Profile, tables: Tables) -> bool:
    """Whether the installed version goes with a build, or nothing is known of what it asks for."""
    row = tables.pin_of(name, installed)
    if row is None or row.torch is None:
        return True
    return row.takes(one.version) and _no_code(name, installed, one, profile, tables) is None


def _counterpart(name: str, old: str | None, wish: Requirement | None, one: Candidate, profile: Profile, tables: Tables) -> Move | Broken:
    """The newest version that asks for this torch and is what was wished, if anything was; else what stands against the newest."""
    wanted, found = str(wish.specifier) if wish is not None else "", _Found()
    for newer, row in enumerate(reversed(_rows(tables, name))):
        if row.torch is None or not row.takes(one.version):
            continue
        if wish is None and old and not row.torch.startswith("==") and not any(version(item) >= version(old) for item in row.versions):
            break  # an old version that took any newer torch is no counterpart of the installed one
        age = newer if wish is not None else 0
        if not row.versions and not wanted and _python_fits(row.python, profile):
            return Move(name, specifier=row.specifier, old=old, age=age)
        for item in reversed(row.versions):
            if meets(item, wanted) is False:
                found.unwished.append(item)
                continue
            lack = _no_wheel(name, item, one, profile, tables) or _no_code(name, item, one, profile, tables)
            if lack is None and not _python_fits(row.python, profile):
                lack = ("python", {"python": profile.python})
            if lack is None:
                return Move(name, item, old=old, age=age)
            found.lacks.append((item, lack))
    return Broken(name, found.why(name, wish, one, tables), wish is not None)


@mutable
class _Found:
    """What was met on the way through the versions of a package, newest first."""

    unwished: list[str] = field(default_factory=list)
    lacks: list[tuple[str, _Lack]] = field(default_factory=list)

    def why(self, name: str, wish: Requirement | None, one: Candidate, tables: Tables) -> str:
        """What the newest version lacks that is wished and asks for this torch; else that there is none."""
        if self.lacks:
            return _said(self.lacks[0][1], name, self.lacks[0][0], tables)
        if self.unwished:
            versions = ", ".join(reversed(self.unwished[:6]))
            return texts(tables).say("broken.not-wished", name=name, torch=one.version, versions=versions, requirement=wish)
        return texts(tables).say("broken.none-for", name=name, torch=one.version)


def _why_not(name: str, installed: str, one: Candidate, profile: Profile, tables: Tables) -> str:
    """What the installed version asks for and a build does not offer: another CUDA, another torch."""
    row = tables.pin_of(name, installed)
    if row and row.takes(one.version) and (lack := _no_code(name, installed, one, profile, tables)):
        return _said(lack, name, installed, tables)
    return texts(tables).say("broken.pin", name=name, version=installed, wanted=row.torch if row else "")


_Lack: TypeAlias = "tuple[str, dict[str, object]]"  # the text below [broken], and its values


def _said(lack: _Lack, name: str, item: str, tables: Tables) -> str:
    return texts(tables).say(f"broken.{lack[0]}", **{"name": name, "version": item, **lack[1]})


def _no_wheel(name: str, item: str, one: Candidate, profile: Profile, tables: Tables) -> _Lack | None:
    """Why no wheel of a version can be installed here."""
    if one.channel != "wheel":
        return None
    lacking = _wheel_lacks(tables, name, item, one.platform, profile.python)
    if lacking == "platform" and not _variant_on_index(name, item, one, tables):
        return "platform", {"platform": one.platform}
    return ("python", {"python": profile.python}) if lacking == "python" else None


@lru_cache(maxsize=4096)
def _wheel_lacks(tables: Tables, name: str, item: str, platform: str, python: str | None) -> str | None:
    return tables.wheel_lacks(name, item, platform, python)


@lru_cache(maxsize=4096)
def _variant_on_index(name: str, item: str, one: Candidate, tables: Tables) -> bool:
    index = tables.on_index(name, item, one.platform)
    return index is not None and one.variant in index[0]


def _no_code(name: str, item: str, one: Candidate, profile: Profile, tables: Tables) -> _Lack | None:
    """Why the kernels of a version do not run with a build on these GPUs."""
    there = _variant_on_index(name, item, one, tables)
    if one.cuda is None:
        return None if there or not tables.cuda_alone(name, item) else ("cuda-alone", {"variant": one.variant})
    if low := _gpu_below(tables.gpu_floor(name, item), profile):
        return low
    index = tables.on_index(name, item, one.platform)
    built = tables.linked_cuda_major(name, item) or (major(build_tag(f"+{index[1]}").cuda) if index and not there else None)
    if built not in (None, major(one.cuda)):
        return "other-cuda", {"built": built, "cuda": one.cuda}
    for row in tables.rows("third-party", "xformers") if name == "xformers" else ():
        if version(row["first"]) <= version(item) <= version(row["last"]):
            archs = tuple([f"sm_{x}" for x in row["archs"].split()] + [f"compute_{x}" for x in row["ptx"].split()])
            bare = [card for card in profile.cards if card.compute_capability and runs_on(archs, card.compute_capability) is False]
            return ("gpu-code", {"gpu": bare[0].shown, "archs": " ".join(archs)}) if bare else None
    return None


def _python_fits(wanted: str | None, profile: Profile) -> bool:
    return not wanted or not profile.python or meets(profile.python.rstrip("t"), wanted) is True


def _same_files(one: Candidate, profile: Profile, tables: Tables) -> tuple[str, ...]:
    """Installed packages of another CUDA major that write the same files as those the new torch brings."""
    mine = major(one.cuda)
    if not mine or mine < 12 or not changes(one, profile) or one.channel != "wheel":
        return ()
    names = (f"{base}-cu{other}" for base in tables.shared_files() for other in (11, 12, 13) if other != mine)
    return tuple(name for name in names if name in profile.packages)
