"""pyproject.toml, uv.lock and pylock.toml as wishes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from envcheck.errors import UsageError
from envcheck.facts.printable import one_line
from envcheck.read.wish_file import LineNumbers, WishFile, WishLine, place_of, taken
from envcheck.tables.toml import parse_toml
from envcheck.tables.versions import LONGEST_NUMBER

MOST_ESCAPED = 20  # entries that are looked for through the whole file in vain
_NAME = re.compile(r'name = "([^"\n]{1,200})"')


def pyproject(name: str, text: str) -> WishFile:
    """`[project] dependencies`, with uv's sources of torch; or poetry's table. Groups and extras are kept, and not judged."""
    data = _parsed(name, text)
    project, tool = _table(data, "project"), _table(data, "tool")
    lines: list[WishLine] = []
    place = max(text.find("\n[project]"), 0) if not text.startswith("[project]") else 0
    place = max(text.find("dependencies", place), place)
    numbers, escaped = LineNumbers(text), 0
    for entry in _texts(f"{name}: [project]", project, "dependencies"):
        start = _quoted(text, entry, place) if escaped < MOST_ESCAPED else -1
        lines.append(_entry(name, entry, start, numbers))
        place, escaped = (start, escaped) if start >= 0 else (place, escaped + 1)
    poetry = _table(_table(tool, "poetry"), "dependencies")
    for package, wanted in poetry.items():
        lines.append(_poetry(f"{name}: [tool.poetry.dependencies]", package, wanted))
    if python := project.get("requires-python"):
        lines.append(WishLine(0, f"requires-python = {python}", "python", str(python)))
    groups = [*(f"project.optional-dependencies] {key}" for key in _table(project, "optional-dependencies"))]
    groups += [f"dependency-groups] {key}" for key in _table(data, "dependency-groups")]
    lines += [WishLine(0, f"[{key}", "kept", why="group") for key in groups]
    lines += _sources(name, _table(tool, "uv"), text)
    if not any(line.role == "wish" for line in lines):
        raise UsageError(f"{name}: names no dependencies")
    return WishFile(name, "pyproject", text, tuple(lines), fixed="poetry" if poetry else "")


def _entry(name: str, entry: str, start: int, numbers: LineNumbers) -> WishLine:
    number = numbers.at(start) if start >= 0 else 0
    return (
        WishLine(number, entry, "kept", why="url")
        if taken(place_of(name, number), entry, entry).url
        else WishLine(number, entry, "wish", entry, start)
    )


def _quoted(text: str, entry: str, place: int) -> int:
    """Where a string stands between quotes, from a place on; -1: it is written with escapes."""
    at = text.find(entry, place + 1)
    while at > 0 and not (text[at - 1] in "\"'" and text[at - 1] == text[at + len(entry) : at + len(entry) + 1]):
        at = text.find(entry, at + 1)
    return at


_ANDED = re.compile(r"\s{0,20},\s{0,20}|(?<=[\w*])\s{1,20}(?=[<>=!~^])")  # ">=2.1 <3"


def _poetry(place: str, package: str, wanted: object) -> WishLine:
    """poetry's "^2.1" as ">=2.1,<3"."""
    spec = wanted.get("version") if isinstance(wanted, Mapping) else wanted
    shown = f"{package} = {wanted!r}"
    if not isinstance(spec, str) or (isinstance(wanted, Mapping) and wanted.keys() - {"version", "extras"}):
        return WishLine(0, shown, "kept", why="poetry-table")
    parts = [_caret(part) for part in _ANDED.split(spec.strip())]
    if "|" in spec or None in parts:
        return WishLine(0, shown, "kept", why="poetry-table")
    value = ",".join(part for part in parts if part)
    if package == "python":
        return WishLine(0, shown, "python", value)
    extras = _texts(f"{place} {package}", wanted, "extras") if isinstance(wanted, Mapping) else []
    value = package + (f"[{','.join(extras)}]" if extras else "") + value
    taken(place, shown, value)
    return WishLine(0, shown, "wish", value)


def _caret(part: str) -> str | None:
    """One of poetry's conditions as pip writes it, or as it is where poetry would not take it either; None: not understood."""
    if part == "*":
        return ""
    mark = part[:1]
    numbers = part.lstrip("^~= ").split(".")
    if not all(one.isdecimal() or one == "*" for one in numbers) and mark not in "<>!":
        return None
    if mark in "^~" and ("*" in numbers or len(part) > LONGEST_NUMBER):
        return part
    if mark == "^":
        end = next((at for at, one in enumerate(numbers) if one != "0"), len(numbers) - 1)
        return f">={'.'.join(numbers)},<{'.'.join([*numbers[:end], str(int(numbers[end]) + 1)])}"
    if mark == "~" and not part.startswith("~="):
        keep = numbers[:2]
        return f">={'.'.join(numbers)},<{'.'.join([*keep[:-1], str(int(keep[-1]) + 1)])}"
    if mark == "=" and not part.startswith("=="):
        return f"={part}"
    return part if mark in "<>!=~" else f"=={part}"


def _sources(name: str, uv: Mapping[str, Any], text: str) -> Iterator[WishLine]:
    """The index that uv takes torch from."""
    indexes, sources = f"{name}: [[tool.uv.index]]", f"{name}: [tool.uv.sources] torch"
    urls = {_text(indexes, one, "name"): _text(indexes, one, "url") for one in _list(uv.get("index"), Mapping)}
    source = _table(uv, "sources").get("torch")
    for one in _list(source, Mapping) if isinstance(source, list) else [source] if isinstance(source, Mapping) else []:
        url, marker = urls.get(_text(sources, one, "index")), _text(sources, one, "marker")
        if url:
            start = _quoted(text, url, 0)
            number = LineNumbers(text).at(max(start, 0))
            yield WishLine(number, url, "index", f"{url} ; {marker}" if marker else url, start)
        else:
            yield WishLine(0, "[tool.uv.sources] torch", "kept", why="url")


def lock(name: str, text: str) -> WishFile:
    """uv.lock or pylock.toml: the versions that it pins. Of packages that it pins several times, those without a marker or with theirs."""
    data, numbers = _parsed(name, text), LineNumbers(text)
    groups = _texts(name, data, "default-groups")
    named = {one[1]: numbers.at(one.start()) for one in reversed(list(_NAME.finditer(text)))}
    lines: list[WishLine] = []
    for one in _list(data.get("package", data.get("packages")), Mapping):
        package, version, source = one.get("name"), one.get("version"), _table(one, "source")
        if not isinstance(package, str):
            continue
        number = named.get(package, 1)
        if not isinstance(version, str) or source.keys() & {"git", "url", "path", "directory", "editable", "virtual"}:
            lines.append(WishLine(number, package, "kept", why="project" if source.keys() & {"editable", "virtual"} else "url"))
            continue
        place = place_of(name, number)
        markers = _texts(place, one, "resolution-markers") or [_without_sets(_text(place, one, "marker"), groups)]
        marker = " ; " + " or ".join(f"({each})" for each in markers) if any(markers) else ""
        pinned = f"{package}=={version}"
        taken(place, pinned + marker, pinned + marker)
        lines.append(WishLine(number, pinned, "wish", pinned + marker, judged=False))
        if package == "torch" and isinstance(url := source.get("registry", one.get("index")), str):
            lines.append(WishLine(number, url, "index", url + marker))
    if not lines:
        raise UsageError(f"{name}: pins no packages")
    return WishFile(name, "lock", text, tuple(lines), fixed="lock")


_IN_SET = re.compile(r"""(["'])([^"']*)\1\s{0,20}(not\s{1,20})?in\s{1,20}(extras|dependency_groups)\b""")


def _without_sets(marker: str, groups: Sequence[str]) -> str:
    """A marker of pylock.toml with what it asks of extras and groups answered: installers choose no extra, and the default groups.
    packaging knows these sets from 25 on."""
    from packaging.utils import canonicalize_name

    def answered(found: re.Match[str]) -> str:
        there = found[4] == "dependency_groups" and canonicalize_name(found[2]) in map(canonicalize_name, groups)
        return "python_version >= '0'" if there != bool(found[3]) else "python_version < '0'"

    return _IN_SET.sub(answered, marker)


def _parsed(name: str, text: str) -> Mapping[str, Any]:
    try:
        return parse_toml(text)
    except ValueError as error:
        raise UsageError(f"{name}: not readable as TOML: {error}") from None


def _table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    return value if isinstance(value, Mapping) else {}


def _text(place: str, data: Mapping[str, Any], key: str) -> str:
    """A text, "" where there is none. UsageError for anything else."""
    value = data.get(key, "")
    if not isinstance(value, str):
        raise UsageError(f"{place}: {key} = {one_line(repr(value), 60)}: a text is expected")
    return value


def _texts(place: str, data: Mapping[str, Any], key: str) -> list[str]:
    value = data.get(key, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise UsageError(f"{place}: {key} = {one_line(repr(value), 60)}: a list of texts is expected")
    return value


def _list(value: object, kind: type) -> list[Any]:
    return [one for one in value if isinstance(one, kind)] if isinstance(value, list) else []
