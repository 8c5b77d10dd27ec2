"""How one command line is written for sh, PowerShell and cmd, and a PowerShell line for cmd."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

_PLAIN = re.compile(r"[\w.:/\\=+~\[\]-]+\Z")  # no shell of Windows reads anything into these
_SPLIT = re.compile(r"-[^-].*[.:]|-:")  # PowerShell makes two words of "-a.b", and takes "-a:" for a parameter that waits for its value
_CONTROL = re.compile(r'["\x00-\x1f]')  # no file name holds them, and neither shell passes them on
_SINGLE = "'\u2018\u2019\u201a\u201b"  # PowerShell ends a word between single quotes at each of them
_TWICE = re.compile(f"([{_SINGLE}])\\1")
# A word of a line that was made here, where the one before it ends
_WORD = re.compile(rf"\s{{0,8}}(?:'(?P<single>(?:[^{_SINGLE}]|([{_SINGLE}])\2)*)'|\"(?P<double>[^\"]*)\"|(?P<plain>[^\s'\"]\S*))")
_SET = re.compile(r"\$env:(?P<name>\w+) = (?P<value>'.*')\Z", re.DOTALL)
_UNSET = re.compile(r"Remove-Item Env:(?P<name>\w+)\Z")


def posix_line(words: Sequence[str]) -> str:
    return shlex.join(words)


def powershell_line(words: Sequence[str]) -> str:
    """A line that PowerShell 5.1 and 7 read alike: a program between quotes is a text there until `&` calls it."""
    first, *rest = [_powershell_word(word) for word in words]
    return " ".join((f"& {first}" if first[:1] in ("'", '"') else first, *rest))


def powershell_export(name: str, value: str | None) -> str:
    if value is None:
        return f"Remove-Item Env:{name}" if re.fullmatch(r"\w+", name) else f"Remove-Item {_literal(f'Env:{name}')}"
    return f"$env:{name} = {_literal(value)}" if re.fullmatch(r"\w+", name) else f"Set-Item {_literal(f'Env:{name}')} {_literal(value)}"


def _powershell_word(word: str) -> str:
    """A word as it is, between double quotes where these change nothing, else between single ones."""
    word = _CONTROL.sub("?", word)
    if _PLAIN.match(word) and not _SPLIT.match(word):
        return word
    return _literal(word) if re.search(r"[$`%\u201c\u201d\u201e]", word) else f'"{word}"'


def _literal(text: str) -> str:
    """Between single quotes, where PowerShell reads nothing but a quote, which is doubled."""
    text = re.sub(r"[\x00-\x1f]", "?", text)
    return "'" + re.sub(f"([{_SINGLE}])", r"\1\1", text) + "'"


def in_cmd(line: str) -> str:
    """The same for cmd, of a line that was made here for PowerShell."""
    if match := _SET.match(line):
        return f'set "{match["name"]}={_cmd_safe(_words(match["value"])[0])}"'
    if match := _UNSET.match(line):
        return f'set "{match["name"]}="'
    return " ".join(_cmd_word(word) for word in _words(line.removeprefix("& ")))


def _cmd_word(word: str) -> str:
    return word if _PLAIN.match(word) else f'"{_cmd_safe(word)}"'


def _cmd_safe(word: str) -> str:
    """A quotation mark would end the word, and what stands between two percent signs would be filled in."""
    word = _CONTROL.sub("?", word)
    return word.replace("%", "?") if word.count("%") > 1 else word


def _words(line: str) -> list[str]:
    """The words of a line that was made here for PowerShell."""
    words, at = [], 0
    while found := _WORD.match(line, at):
        words.append(next(one for one in (found["plain"], found["double"], _TWICE.sub(r"\1", found["single"] or "")) if one is not None))
        at = found.end()
    return words
