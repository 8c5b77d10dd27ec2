"""Files of wishes on the disk: read with what they include, and written anew into a folder of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from envcheck.errors import UsageError
from envcheck.facts.given_file import read_given
from envcheck.host.ownership import planted
from envcheck.host.plain_files import make_folders, real_path
from envcheck.read.wish_file import WishFile
from envcheck.read.wish_kinds import read_wish_file

MOST_BYTES = 32 << 20
MOST_FILES = 100


def load(names: Sequence[str], constraints: Sequence[str] = ()) -> tuple[WishFile, ...]:
    """The files of -r and -c, each with those that it includes, once each. Raises UsageError."""
    wanted = [*((name, False, "-r") for name in names), *((name, True, "-c") for name in constraints)]
    found: dict[str, WishFile] = {}
    while wanted:
        name, constraint, where = wanted.pop(0)
        key = real_path(name)
        if key in found:
            continue
        if len(found) >= MOST_FILES:
            raise UsageError(f"{where}: more than {MOST_FILES} files include each other")
        found[key] = file = _read(name, constraint, where)
        for role, path, line in file.includes:
            place = f"{name}:{line}"
            if "://" in path:
                raise UsageError(f"{place}: {path} is behind a URL, and plan asks no network: save it, and name it with -r")
            wanted.append((os.path.join(os.path.dirname(name), path), constraint or role == "constraint", place))
    return tuple(found.values())


def _read(name: str, constraint: bool, where: str) -> WishFile:
    text = _text(name, where)
    try:
        return read_wish_file(name, text, constraint)
    except UsageError:
        if where in ("-r", "-c"):
            raise
    # What a file includes may be any file of this user's, and who wrote the first is to see nothing of it.
    raise UsageError(f"{where}: {name} is not a file of requirements; named with -r, it is told in which line")


def _text(name: str, where: str) -> str:
    try:
        return read_given(name, where, MOST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{where} {name}: not UTF-8 text") from None


def save(folder: str, files: Sequence[WishFile], written: Mapping[str, str]) -> tuple[str, ...]:
    """Write a whole set of files into a folder, as they lie to each other; the paths. Nothing that is there is written over."""
    if not written:
        return ()
    if reason := planted(folder):
        raise UsageError(f"--files-to {folder}: {reason}")
    targets = dict(_targets(folder, files))
    if there := [target for target in targets.values() if os.path.lexists(target)]:
        raise UsageError(f"--files-to {folder}: {there[0]} is there already, and nothing is written over")
    try:
        for file in files:
            target = targets[file.name]
            make_folders(os.path.dirname(target))
            with open(target, "x", encoding="utf-8", newline="") as out:
                out.write(written.get(file.name, file.text))
    except OSError as error:
        raise UsageError(f"--files-to {folder}: {error.strerror or error}") from None
    return tuple(targets.values())


def _targets(folder: str, files: Sequence[WishFile]) -> Iterator[tuple[str, str]]:
    places = {file.name: os.path.abspath(file.name) for file in files}
    top = os.path.commonpath([os.path.dirname(place) for place in places.values()])
    yield from ((name, os.path.join(folder, os.path.relpath(place, top))) for name, place in places.items())
