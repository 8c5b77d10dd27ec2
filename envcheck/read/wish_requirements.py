"""requirements.txt and constraints.txt as wishes, by pip's rules: options, comments, continued lines, hashes, URLs and paths."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.facts.record import replace
from envcheck.read.wish_file import Role, WishFile, WishLine, place_of, taken

_INCLUDES: dict[str, Role] = {"-r": "wish", "--requirement": "wish", "-c": "constraint", "--constraint": "constraint"}
_INDEXES: dict[str, Role] = {
    "-i": "index", "--index-url": "index", "--pypi-url": "index", "--extra-index-url": "extra-index",
}  # fmt: skip
_LINKS = ("-f", "--find-links")
_EDITABLE = ("-e", "--editable")


def requirements(name: str, text: str, constraint: bool, first: int = 1) -> WishFile:
    """A requirements file, or one of constraints; `first` is the number of its first line, so that an error names it.

    Raises UsageError for a line that pip would not take either.
    """
    lines: list[WishLine] = []
    includes: list[tuple[Role, str, int]] = []
    for number, (start, end), words in _logical(text, first):
        option, value = _option(words)
        if option in _INCLUDES:
            includes.append((_INCLUDES[option], value, number))
        elif option in _LINKS and "/whl/" in value:
            lines.append(WishLine(number, words, "extra-index", value, text.find(words, start, end)))
        elif option in _INDEXES:
            place = text.rfind(value, start, end) if value else -1  # none of its own where it goes over the end of a line
            lines.append(WishLine(number, value, _INDEXES[option], value, place))
        elif option in _EDITABLE:
            lines.append(WishLine(number, words, "kept", why="editable"))
        elif option:
            lines.append(WishLine(number, words, "kept", why="option"))
        else:
            one = _requirement(name, number, words, "constraint" if constraint else "wish")
            lines.append(one if one.role == "kept" else replace(one, start=text.find(one.text, start, end)))
    return WishFile(name, "requirements", text, tuple(lines), tuple(includes))


def _logical(text: str, first: int) -> Iterator[tuple[int, tuple[int, int], str]]:
    """Line number, begin and end, and content of each line, without comments. What a backslash continues is one line without a blank
    between, as pip reads it: a secret is told by what stands around it."""
    place = began = 0
    parts: list[str] = []
    for number, physical in enumerate(text.splitlines(keepends=True), first):
        if not parts:
            began, first = place, number
        place += len(physical)
        body = physical.rstrip("\r\n")
        comment = body.lstrip().startswith("#")
        if body.endswith("\\") and not comment:
            parts.append(body.rstrip("\\"))
            continue
        content = _uncommented("".join((*parts, " " if comment else "", body))).strip()
        parts = []
        if content:
            yield first, (began, place), content
    if content := _uncommented("".join(parts)).strip():
        yield first, (began, place), content


def _uncommented(content: str) -> str:
    if content.lstrip().startswith("#"):
        return ""
    marks = [at for at in (content.find(" #"), content.find("\t#")) if at >= 0]
    return content[: min(marks)] if marks else content


def _option(words: str) -> tuple[str, str]:
    """An option and its value: "--index-url=URL", "-r other.txt", "-rother.txt"; ("", "") for a requirement."""
    if not words.startswith("-"):
        return "", ""
    if words.startswith("--"):
        head, mark, rest = words.partition("=") if "=" in words.split()[0] else words.partition(" ")
        return head, rest.strip() if mark else ""
    return words[:2], words[2:].strip().removeprefix("=")


def _requirement(name: str, number: int, words: str, role: Role) -> WishLine:
    end = words.find(" --")
    text, options = (words[:end].rstrip(), words[end:]) if end >= 0 else (words, "")
    hashes = "--hash" in options
    if "${" in text:
        return WishLine(number, text, "kept", why="variable")
    url = "://" in text or text.startswith((".", "/", "~", "file:")) or text.endswith((".whl", ".gz", ".zip"))
    if url or taken(place_of(name, number), text, text).url:
        return WishLine(number, text, "kept", why="url")
    return WishLine(number, text, role, text, hashes=hashes)
