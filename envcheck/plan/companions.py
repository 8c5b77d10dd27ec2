"""What must move together with torch, and what would break: torchvision, torchaudio, xformers, compiled extensions and the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from envcheck.facts.record import record, replace
from envcheck.plan.candidate import Candidate
from envcheck.plan.installers import installers, texts
from envcheck.plan.profile import Profile
from envcheck.tables.archs import runs_on
from envcheck.tables.versions import major, meets, minor, older, series, version

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
        wanted = tables.companion_specifiers(one.version).get(name)
        if wanted and not (old and meets(old, wanted)):
            yield Move(name, specifier=str(wish.specifier) if wish and wish.specifier else wanted, old=old)
    elif name == "flash-attn":
        yield from _flash(old, wish, one, profile, tables)
    elif name in installers().data["compiled"]["packages"]:
        yield from _compiled(name, old, wish, one, profile, tables)
    elif name == "numpy":
        release = tables.release(one.version)
        system = {"darwin": "macos"}.get(profile.os or "linux", profile.os or "linux")
        first = bool(release and release.numpy_major.get(system) == 1)
        if wish is not None:
            yield Move(name, specifier=",".join(part for part in (str(wish.specifier), "<2" if first else "") if part), old=old)
        elif first and old and version(old) >= version("2"):
            yield Move(name, specifier="<2", old=old)
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
            yield Broken(name, texts(tables).say("broken.no-build", name=name, variant=one.variant, torch=one.version), wished)
        return
    last = name == "torchaudio" and partner == data["torchaudio"]["last"]
    if last and profile.python and version(profile.python.rstrip("t")) > version(data["torchaudio"]["last_python"]):
        yield Broken(name, texts(tables).say("broken.python", name=name, version=partner, python=profile.python), wished)
        return
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
    if wish is not None:
        yield Move(name, specifier=str(wish.specifier), old=old, build_here=True)
    elif old and not _same_binary(one, profile):
        yield Broken(name, _built(name, old, profile, tables))


def _flash(old: str | None, wish: Requirement | None, one: Candidate, profile: Profile, tables: Tables) -> Iterator[Move | Broken | str]:
    floors = [row["compute_capability"] for row in tables.rows("third-party", "minimum-gpu") if row["package"] == "flash-attn"]
    for card in profile.cards:
        if wish is not None and floors and older(card.compute_capability, floors[0]):
            yield Broken("flash-attn", texts(tables).say("broken.flash-gpu", gpu=card.shown), True)
            return
    if wish is None:
        if old and not _same_binary(one, profile):
            yield Broken("flash-attn", _built("flash-attn", old, profile, tables))
        return
    if not flash_wheel(one, profile, tables) and one.cuda:
        yield texts(tables).say("note.flash-build", major=major(one.cuda))
    yield Move("flash-attn", specifier=str(wish.specifier), old=old, build_here=True)


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


def _bitsandbytes(
    old: str | None, wish: Requirement | None, one: Candidate, profile: Profile, tables: Tables
) -> Iterator[Move | Broken | str]:
    floor = _bitsandbytes_floor(one.cuda, tables) if one.cuda else None
    if wish is not None:
        given = str(wish.specifier)
        yield Move("bitsandbytes", specifier=given or (f">={floor}" if floor else ""), old=old)
    elif old and floor and version(old) < version(floor):
        yield Move("bitsandbytes", specifier=f">={floor}", old=old)
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
    if move:
        if name == "xformers" and move.version and one.cuda and not one.variant.startswith("cu128"):
            yield texts(tables).say("note.xformers")
        yield move
    elif installed:
        yield Broken(name, _why_not(name, installed, one, tables))
    else:
        yield Broken(name, texts(tables).say("broken.none-for", name=name, torch=one.version), True)


def _may_stay(name: str, installed: str, one: Candidate, profile: Profile, tables: Tables) -> bool:
    """Whether the installed version goes with a build, or nothing is known of what it asks for."""
    row = tables.pin_of(name, installed)
    if row is None or row.torch is None:
        return True
    return meets(one.version, row.torch) is True and _item_fits(name, installed, one, profile, tables)


def _counterpart(name: str, old: str | None, wish: Requirement | None, one: Candidate, profile: Profile, tables: Tables) -> Move | None:
    """The newest version that asks for this torch and, where one was wished for, is what was wished."""
    wanted = str(wish.specifier) if wish is not None else ""
    for newer, row in enumerate(reversed(_rows(tables, name))):
        if row.torch is None or not meets(one.version, row.torch) or not _python_fits(row.python, profile):
            continue
        if wish is None and old and not row.torch.startswith("==") and not any(version(item) >= version(old) for item in row.versions):
            return None  # an old version that took any newer torch is no counterpart of the installed one
        age = newer if wish is not None else 0
        listed = [item for item in row.versions if meets(item, wanted) and _item_fits(name, item, one, profile, tables)]
        if listed:
            return Move(name, listed[-1], old=old, age=age)
        if not row.versions and not wanted:
            return Move(name, specifier=row.specifier, old=old, age=age)
    return None


def _why_not(name: str, installed: str, one: Candidate, tables: Tables) -> str:
    """What the installed version asks for and a build does not offer: another CUDA, another torch."""
    row = tables.pin_of(name, installed)
    if row and row.torch is not None and meets(one.version, row.torch):
        return texts(tables).say("broken.other-cuda", name=name, version=installed, cuda=one.cuda)
    return texts(tables).say("broken.pin", name=name, version=installed, wanted=row.torch if row else "")


def _item_fits(name: str, item: str, one: Candidate, profile: Profile, tables: Tables) -> bool:
    """Whether one version of a package suits the CUDA major of a build and the GPUs."""
    if not one.cuda:
        return True
    if tables.linked_cuda_major(name, item) not in (None, major(one.cuda)):
        return False
    if name == "xformers":
        for row in tables.rows("third-party", "xformers"):
            if version(row["first"]) <= version(item) <= version(row["last"]):
                archs = tuple([f"sm_{x}" for x in row["archs"].split()] + [f"compute_{x}" for x in row["ptx"].split()])
                return all(runs_on(archs, card.compute_capability) is not False for card in profile.cards if card.compute_capability)
    return True


def _python_fits(wanted: str | None, profile: Profile) -> bool:
    return not wanted or not profile.python or meets(profile.python.rstrip("t"), wanted) is True


def _same_files(one: Candidate, profile: Profile, tables: Tables) -> tuple[str, ...]:
    """Installed packages of another CUDA major that write the same files as those the new torch brings."""
    mine = major(one.cuda)
    if not mine or mine < 12 or not changes(one, profile) or one.channel != "wheel":
        return ()
    names = (f"{base}-cu{other}" for base in tables.shared_files() for other in (11, 12, 13) if other != mine)
    return tuple(name for name in names if name in profile.packages)
