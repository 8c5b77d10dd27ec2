"""pyproject.toml, uv.lock and pylock.toml as wishes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from envcheck.errors import UsageError
from envcheck.read.wish_file import LineNumbers, WishFile, WishLine, not_taken
from envcheck.tables.toml import parse_toml
from envcheck.tables.versions import requirement

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
    for entry in _list(project.get("dependencies")):
        start = _quoted(text, entry, place) if escaped < MOST_ESCAPED else -1
        lines.append(_entry(name, entry, start, numbers))
        place, escaped = (start, escaped) if start >= 0 else (place, escaped + 1)
    poetry = _table(_table(tool, "poetry"), "dependencies")
    for package, wanted in poetry.items():
        lines.append(_poetry(package, wanted))
    if python := project.get("requires-python"):
        lines.append(WishLine(0, f"requires-python = {python}", "python", str(python)))
    groups = [*(f"project.optional-dependencies] {key}" for key in _table(project, "optional-dependencies"))]
    groups += [f"dependency-groups] {key}" for key in _table(data, "dependency-groups")]
    lines += [WishLine(0, f"[{key}", "kept", why="group") for key in groups]
    lines += _sources(_table(tool, "uv"), text)
    if not any(line.role == "wish" for line in lines):
        raise UsageError(f"{name}: names no dependencies")
    return WishFile(name, "pyproject", text, tuple(lines), fixed="poetry" if poetry else "")


def _entry(name: str, entry: str, start: int, numbers: LineNumbers) -> WishLine:
    from packaging.requirements import InvalidRequirement

    number = numbers.at(start) if start >= 0 else 0
    try:
        one = requirement(entry)
    except InvalidRequirement as error:
        raise not_taken(name, number, entry, error) from None
    return WishLine(number, entry, "kept", why="url") if one.url else WishLine(number, entry, "wish", entry, start)


def _quoted(text: str, entry: str, place: int) -> int:
    """Where a string stands between quotes, from a place on; -1: it is written with escapes."""
    at = text.find(entry, place + 1)
    while at > 0 and not (text[at - 1] in "\"'" and text[at - 1] == text[at + len(entry) : at + len(entry) + 1]):
        at = text.find(entry, at + 1)
    return at


def _poetry(package: str, wanted: object) -> WishLine:
    """poetry's "^2.1" as ">=2.1,<3"."""
    spec = wanted.get("version") if isinstance(wanted, Mapping) else wanted
    shown = f"{package} = {wanted!r}"
    if not isinstance(spec, str) or (isinstance(wanted, Mapping) and wanted.keys() - {"version", "extras"}):
        return WishLine(0, shown, "kept", why="poetry-table")
    parts = [_caret(part.strip()) for part in spec.split(",")]
    if "||" in spec or None in parts:
        return WishLine(0, shown, "kept", why="poetry-table")
    value = ",".join(part for part in parts if part)
    if package == "python":
        return WishLine(0, shown, "python", value)
    extras = f"[{','.join(wanted['extras'])}]" if isinstance(wanted, Mapping) and wanted.get("extras") else ""
    return WishLine(0, shown, "wish", f"{package}{extras}{value}")


def _caret(part: str) -> str | None:
    """One of poetry's conditions as pip writes it; None: not understood."""
    if part == "*":
        return ""
    mark = part[:1]
    numbers = part.lstrip("^~= ").split(".")
    if not all(one.isdecimal() or one == "*" for one in numbers) and mark not in "<>!":
        return None
    if mark == "^":
        end = next((at for at, one in enumerate(numbers) if one != "0"), len(numbers) - 1)
        return f">={'.'.join(numbers)},<{'.'.join([*numbers[:end], str(int(numbers[end]) + 1)])}"
    if mark == "~" and not part.startswith("~="):
        keep = numbers[:2]
        return f">={'.'.join(numbers)},<{'.'.join([*keep[:-1], str(int(keep[-1]) + 1)])}"
    return part if mark in "<>!=~" else f"=={part}"


def _sources(uv: Mapping[str, Any], text: str) -> Iterator[WishLine]:
    """The index that uv takes torch from."""
    urls = {one.get("name"): one.get("url") for one in _list(uv.get("index"), Mapping)}
    source = _table(uv, "sources").get("torch")
    for one in _list(source, Mapping) if isinstance(source, list) else [source] if isinstance(source, Mapping) else []:
        url = urls.get(one.get("index"))
        if isinstance(url, str):
            start = _quoted(text, url, 0)
            number = LineNumbers(text).at(max(start, 0))
            yield WishLine(number, url, "index", f"{url} ; {one['marker']}" if one.get("marker") else url, start)
        else:
            yield WishLine(0, "[tool.uv.sources] torch", "kept", why="url")


def lock(name: str, text: str) -> WishFile:
    """uv.lock or pylock.toml: the versions that it pins. Of packages that it pins several times, those without a marker or with theirs."""
    data, numbers = _parsed(name, text), LineNumbers(text)
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
        markers = _list(one.get("resolution-markers")) or ([one["marker"]] if isinstance(one.get("marker"), str) else [])
        marker = " ; " + " or ".join(f"({each})" for each in markers) if markers else ""
        lines.append(WishLine(number, f"{package}=={version}", "wish", f"{package}=={version}{marker}", judged=False))
        if package == "torch" and isinstance(url := source.get("registry", one.get("index")), str):
            lines.append(WishLine(number, url, "index", url + marker))
    if not lines:
        raise UsageError(f"{name}: pins no packages")
    return WishFile(name, "lock", text, tuple(lines), fixed="lock")


def _parsed(name: str, text: str) -> Mapping[str, Any]:
    try:
        return parse_toml(text)
    except ValueError as error:
        raise UsageError(f"{name}: not readable as TOML: {error}") from None


def _table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    return value if isinstance(value, Mapping) else {}


def _list(value: object, kind: type = str) -> list[Any]:
    return [one for one in value if isinstance(one, kind)] if isinstance(value, list) else []
