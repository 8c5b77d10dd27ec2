"""Names of torch and its companions that came with a later release than the one that is installed, or are gone since an earlier one: which
release has them, and how to get it.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable

from envcheck.engine.intents import Intent, Manual
from envcheck.engine.rule import Facts
from envcheck.facts.record import record
from envcheck.tables.compat import Tables
from envcheck.tables.versions import minor, older, pair, release

_INDEX = "--index-url https://download.pytorch.org/whl/cu126"  # PyPI's wheels for Windows are built without CUDA
_TRIO = ("torch", "torchvision", "torchaudio")
_OWN = (*_TRIO, "torchtext", "torchdata")


@record
class Known:
    """What the tables know of a name, for the release that is installed."""

    package: str
    have: str | None
    since: str | None  # the first release that has it; None = not later than the first that was read
    last: str | None  # the last release that has it; None = it is not gone
    itself: bool  # the name has a row of its own, not the module above it alone

    @property
    def case(self) -> str | None:
        """Too old, too new, or right by its number; None where neither the name nor the release says it."""
        if self.since and (not self.have or older(self.have, self.since)) and not (self.last and not self.have):
            return "older"
        if self.last and (not self.have or pair(self.have) > pair(self.last)):
            return "gone"
        return "there" if self.itself and minor(self.have) else None


def known(facts: Facts, asked: str) -> Known:
    """What the tables know of it."""
    package = asked.partition(".")[0]
    have = facts.torch.version if package == "torch" else facts.packages.version(package)
    return Known(package, have, *history(facts.tables, asked))


def history(tables: Tables, asked: str) -> tuple[str | None, str | None, bool]:
    """The first and the last release that has a name, where it came late or is gone, by its own row or that of the module above it; and
    whether one of the two is its own.
    """
    by_hand = [row for row in tables.rows("torch-name", "name") if _covers(row["name"], asked)]
    hand = max(by_hand, key=lambda one: len(one["name"]), default=None)
    name, since = _found(tables, "since", asked)
    if hand is not None and len(hand["name"]) >= len(name):
        name, since = str(hand["name"]), str(hand["since"])
    gone, last = _found(tables, "last", asked)
    return since, last, asked in (name, gone)


def _found(tables: Tables, section: str, asked: str) -> tuple[str, str | None]:
    """The longest name that covers the one that is asked for, and the release of its row."""
    best: tuple[str, str | None] = ("", None)
    for row in tables.rows("torch-name-history", section):
        module = row["module"]
        if not asked.startswith(f"{module}.") or len(module) < len(best[0]):
            continue
        own = asked[len(module) + 1 :].partition(".")[0]
        if own in row["names"].split():
            best = (f"{module}.{own}", row[section])
    return best


def asker_of(facts: Facts, folder: str | None) -> str | None:
    """What pip calls the package whose folder in site-packages this is; None where another name may be meant."""
    if folder is None:
        return None
    name = folder.lower().replace("_", "-")
    rows = {row["folder"]: str(row["package"]) for row in facts.tables.rows("torch-name", "asks")}
    return rows.get(folder) or (name if name in _OWN or facts.packages.version(name) else None)


def _covers(name: str, asked: str) -> bool:
    return asked == name or asked.startswith(f"{name}.") or ("*" in name and fnmatch.fnmatchcase(asked, name))


def with_it(facts: Facts, package: str, first: str, asker: str | None = None) -> tuple[Intent, ...]:
    """That release or a later one, together with what is built for it."""
    beside = "torchvision torchaudio" if package == "torch" else "torch"
    beside += f" {asker}" if asker in _OWN and asker not in (package, *beside.split()) else ""
    index = f" {_INDEX}" if facts.system.os == "windows" and not older(first, "2.0.0") else ""
    text = (
        "Install a release that has it, in the environment of this Python. Where another package needs the old torch, take a release of the"
        " program that is made for that one instead."
    )
    steps = (
        f"python -m pip install --upgrade '{package}>={first}' {beside}{index}",
        f"python -c 'import {package}; print({package}.__version__, {package}.__file__)'    # {first} or newer",
    )
    return (Manual(text, commands=steps),)


def without_it(facts: Facts, name: Known, asked: str, asker: str | None) -> tuple[Intent, ...]:
    """A release of the package that asks which no longer does, or the last releases that have the name."""
    text = (
        "Take a release of the package that asks which is made for this torch. Where there is none, give the program an environment with"
        " the last releases that have the name."
    )
    return (Manual(text, commands=(*_upgrade(facts, asker), f"{_pinned(facts, name)}, the last that have {asked}"), choose=True),)


def _pinned(facts: Facts, name: Known) -> str:
    """The last releases that have it, as they go together, and their Pythons."""
    tables, last = facts.tables, pair(name.last)
    fits = [one for one in tables.releases() if minor(_of(facts, name.package, one.version)) == last]
    if not fits:  # before the first release of the tables, or not bound to one torch
        beside = " torchvision torchaudio" if name.package == "torch" else ""
        return f"python -m pip install '{name.package}=={last[0]}.{last[1]}.*'{beside}    # {last[0]}.{last[1]}"
    torch = fits[-1].version
    goes = {"torch": torch, **tables.companions(torch)}
    wanted = " ".join(f"{one}=={goes[one]}" for one in dict.fromkeys((*_TRIO, name.package)) if one in goes)
    pythons = [one for one in fits[-1].pythons.get("linux-x86_64", ()) if not one.endswith("t")]
    return f"python -m pip install {wanted}    # Python {pythons[0]} to {pythons[-1]}"


def _of(facts: Facts, package: str, torch: str) -> str | None:
    return torch if package == "torch" else facts.tables.companions(torch).get(package)


def _upgrade(facts: Facts, asker: str | None) -> tuple[str, ...]:
    """The package that asks, in a newer release; one of torch's own only together with torch."""
    if asker is None:
        return ()
    if asker not in _OWN:
        return (f"python -m pip install --upgrade {asker}    # a release that is made for this torch, where there is one",)
    fits = facts.tables.companions(facts.torch.version or "").get(asker)
    if fits:
        return (f"python -m pip install torch=={release(facts.torch.version)} {asker}=={fits}    # the two go together",)
    return (f"python -m pip install --upgrade --force-reinstall torch {asker}    # the two go together",)


def as_installed(name: Known) -> tuple[Intent, ...]:
    """The release has it by its number: what is imported is another, or half of one."""
    package, have = name.package, name.have
    text = (
        "See which file is imported. Where it lies in your own folder, rename it; otherwise install the release anew. A submodule is there"
        " once it is imported by its own name."
    )
    steps = (
        f"python -c 'import {package}; print({package}.__version__, {package}.__file__)'",
        f"python -m pip install --force-reinstall --no-deps {package}=={have}    # from the index that it came from",
    )
    return (Manual(text, commands=steps),)


def of_unknown(facts: Facts, asked: str, asker: str | None) -> tuple[Intent, ...]:
    """Nothing is known of the name: what to do in either case."""
    text = (
        "Where the traceback shows a file of another package above this line, that package asks: take a release of it that is made for this"
        " torch, or the torch that its requirements name. Where the line is your own, look the name up in the documentation of the release."
    )
    package = asked.partition(".")[0]
    package = package if package in _OWN else "torch"
    beside = " ".join(dict.fromkeys((package, *_TRIO)))
    steps: Iterable[str] = (
        *_upgrade(facts, asker),
        f"python -c 'import {package}; print({package}.__version__, {package}.__file__)'    # which release, and from where",
        f"python -m pip install --upgrade {beside}    # where the name came with a newer release",
    )
    return (Manual(text, commands=tuple(steps)),)
