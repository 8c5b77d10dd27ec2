"""environment.yml as wishes: the lists `dependencies` and `pip`, line by line. Of YAML it reads no more than conda's own files need."""

from __future__ import annotations

import re

from envcheck.errors import UsageError
from envcheck.facts.printable import one_line
from envcheck.facts.record import replace
from envcheck.read.wish_file import WishFile, WishLine, taken
from envcheck.read.wish_requirements import requirements
from envcheck.tables.versions import specifiers

_ITEM = re.compile(r"(\s*)-\s+(\S.*)")
_TORCH = ("pytorch", "pytorch-gpu", "pytorch-cpu")
_CUDA = ("pytorch-cuda", "cudatoolkit", "cuda-version")
_NO_SIGN = re.compile(r"(?:^|,)\s*(?!(?:=|==|!=|<=|>=|<|>|~=)(?![<>=!~]))[<>=!~]")
_SPEC = re.compile(r"(?:[\w./-]+::)?([A-Za-z0-9][\w.-]*)\s*(.*)")


def environment(name: str, text: str) -> WishFile:
    """conda's environment file. Raises UsageError for one whose lists are written in another way than one entry a line."""
    lines: list[WishLine] = []
    place, key, depth = 0, "", -1
    for number, physical in enumerate(text.splitlines(keepends=True), 1):
        start, body = place, physical.split(" #")[0].rstrip()
        place += len(physical)
        if not body.strip() or body.lstrip().startswith("#"):
            continue
        if not body[0].isspace() and not body.startswith("-"):
            key, _, rest = body.partition(":")
            depth = -1
            if key == "dependencies" and rest.strip():
                raise UsageError(f"{name}:{number}: write one dependency a line, each behind a dash")
            continue
        item = _ITEM.match(body)
        if key != "dependencies" or item is None:
            continue
        indent, raw = len(item[1]), item[2].strip()
        entry = raw.strip("\"'")
        at = start + body.rindex(entry)
        if entry == "pip:":
            depth = indent
        elif depth >= 0 and indent > depth:
            inner = requirements(name, entry, False, number)
            lines += [replace(one, start=at + one.start if one.start >= 0 else -1) for one in inner.lines]
            lines += [WishLine(number, f"{entry}", "kept", why="include") for _ in inner.includes]
        else:
            depth = -1
            lines.append(_conda(name, number, at, entry))
    if not any(line.role == "wish" for line in lines):
        raise UsageError(f"{name}: names no dependencies")
    return WishFile(name, "environment", text, tuple(lines))


def _conda(name: str, number: int, start: int, entry: str) -> WishLine:
    """One of conda's specifications: "pytorch=2.5", "python 3.11", "conda-forge::numpy>=1.26", "pytorch-cuda=12.4"."""
    match = _SPEC.fullmatch(entry)
    if match is None or any(mark in entry for mark in "|[]"):
        return WishLine(number, entry, "kept", why="conda-spec")
    if _NO_SIGN.search(match[2]):
        raise UsageError(f"{name}:{number}: '{one_line(entry, 80)}' is not a requirement: conda has no such operator")
    package, spec = match[1].lower(), pip_specifier(match[2])
    if spec is None:
        return WishLine(number, entry, "kept", why="conda-spec")
    if package == "python":
        return WishLine(number, entry, "python", spec, start, conda=True)
    if package in _CUDA:
        return WishLine(number, entry, "cuda", spec.lstrip("=<>~").removesuffix(".*"), start, conda=True)
    if package in ("cpuonly", "cpu-only"):
        return WishLine(number, entry, "cuda", "cpu", start, conda=True)
    value = ("torch" if package in _TORCH else package) + spec
    taken(f"{name}:{number}", entry, value)
    return WishLine(number, entry, "wish", value, start, conda=True)


def pip_specifier(text: str) -> str | None:
    """conda's "=2.5", "2.5.*", "==2.5.1=py311_0", ">=2,<3" as pip writes it; None: pip has no word for it."""
    parts = []
    for part in filter(None, (one.strip() for one in text.split(","))):
        if part == "*":
            continue
        mark = re.match(r"[<>=!~]*", part)
        sign, rest = (mark[0] if mark else ""), part[mark.end() if mark else 0 :].strip()
        number = re.split(r"[= ]", rest)[0]  # behind it stands a build
        if not re.fullmatch(r"\d+(\.\d+)*(\.\*|\*)?", number):
            return None
        open_end = number.endswith("*")
        bare = number.rstrip(".*")
        if sign in ("", "==") and not open_end:
            parts.append(f"=={bare}")
        elif sign in ("=", "", "=="):
            parts.append(f"=={bare}.*")
        else:
            parts.append(sign + bare)
    whole = ",".join(parts)
    return whole if specifiers(whole) is not None else None
