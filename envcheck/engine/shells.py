"""How a command line, or one value of it, is written for sh, PowerShell and cmd, and a PowerShell line for cmd."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Literal, TypeAlias

from envcheck.facts.quoting import ESCAPING, joined, quoted

Shell: TypeAlias = Literal["sh", "windows", "any"]  # of Windows there are two, and a line of a rule is for both

_PLAIN = re.compile(r"[\w.:/\\=+~\[\]-]+\Z")  # no shell of Windows reads anything into these
# PowerShell makes two words of "-a.b", takes "-a:" for a parameter that waits for its value, and "~" for the home folder (from 7.5 on)
_READ = re.compile(r"-[^-].*[.:]|-:|~")
# What may stand first without quotes: PowerShell reads numbers and types there, cmd an option behind a slash
_PROGRAM = re.compile(r"[^\W\d][\w.:\\-]*\Z")
_CONTROL = re.compile(r'["\x00-\x1f]')  # no file name holds them, and neither shell passes them on
_SINGLE = "\u2018\u2019\u201a\u201b"  # PowerShell takes each of them for a single quote
_FILLED_IN = re.compile(r"[$`\u201c\u201d\u201e]")  # PowerShell between double quotes, where a backtick before it keeps it as it is
# A word of a line that was made here, where the one before it ends
_WORD = re.compile(r"\s{0,8}(?:'(?P<single>[^']*)'|\"(?P<double>(?:[^\"`]|`.)*)\"|(?P<plain>[^\s'\"]\S*))")
_ASSIGNED = re.compile(r"\$env:\w+ = \Z")
# What would leave a word that is quoted for sh in another shell: to cmd single quotes say nothing
_LEAVES = re.compile(f"[{_SINGLE}&|<>^%]")
_SET = re.compile(r"\$env:(?P<name>\w+) = (?P<value>['\"].*['\"])\Z", re.DOTALL)
_UNSET = re.compile(r"Remove-Item Env:(?P<name>\w+)\Z")
_BARE = re.compile(r"[^\x00-\x1f\"'$`%&|<>^!\u2018-\u201f]*\Z")


def shell_of(traits: Collection[str] | None) -> Shell:
    """The shell that a machine of these traits (facts/traits.py) has; None = nobody asks."""
    if traits and "windows" in traits:
        return "windows"
    return "any" if traits is not None and set(traits) <= {"conda"} else "sh"


def filled(before: str, word: str, after: str, shell: Shell) -> str | None:
    """The line so far with a value behind it, `after` being what follows in the template; None where no way of writing it is read as that
    one word."""
    if shell == "sh" or (shell == "any" and not _LEAVES.search(word) and not ESCAPING.search(word)):
        return before + quoted(word)
    if shell == "any" or not before:  # what comes first would need a `&` in PowerShell, and none in cmd
        return None
    if _ASSIGNED.search(before):  # there 8.0 is a number, and becomes 8
        return before + _literal(word)
    begun = "" if before[-1].isspace() else before.split()[-1]
    head = before.removesuffix(begun)
    if _PLAIN.match(word) and not (not begun and _READ.match(word)):
        return before + word
    plain = not re.search(r'["\'%\x00-\x1f]', begun) and not re.search(r'["%\x00-\x1f]|\\\Z', word) and not _FILLED_IN.search(begun + word)
    return f'{head}"{begun}{word}"' if head and plain and (not after or after[0].isspace()) else None


def for_windows(line: str) -> str | None:
    """A line that was written for sh, for both shells of Windows: double quotes in the place of single ones. None where a word would
    be read as more than a word."""
    line, mark, said = line.partition("    # ")
    if line[:1] in ("'", '"'):  # PowerShell takes it for a text
        return None
    made: list[str] = []
    parts = re.split(r"('[^']*'|\"[^\"]*\")", line)
    for at, part in enumerate(parts):
        if at % 2 == 0 and ((made and part.startswith("\\\\")) or (at + 1 < len(parts) and part.endswith("\\\\"))):
            return None  # of one word of sh, which PowerShell would read as several
        if at % 2 and part[0] == "'":
            if _FILLED_IN.search(part) or '"' in part:
                if _LEAVES.search(part):
                    return None
            else:
                part = f'"{part[1:-1]}"'
        made.append(part)
    return "".join((*made, mark, said))


def posix_line(words: Sequence[str]) -> str:
    return joined(words)


def powershell_line(words: Sequence[str]) -> str:
    """A line that PowerShell 5.1 and 7 read alike: a program between quotes is a text there until `&` calls it."""
    first, *rest = words
    program = first if _PROGRAM.match(first) else f"& {_powershell_word(first, always=True)}"
    return " ".join((program, *map(_powershell_word, rest)))


def powershell_export(name: str, value: str | None) -> str:
    if value is None:
        return f"Remove-Item Env:{name}" if re.fullmatch(r"\w+", name) else f"Remove-Item {_literal(f'Env:{name}')}"
    return f"$env:{name} = {_literal(value)}" if re.fullmatch(r"\w+", name) else f"Set-Item {_literal(f'Env:{name}')} {_literal(value)}"


def _powershell_word(word: str, always: bool = False) -> str:
    """A word as it is or between double quotes, which cmd reads too: a line that is pasted there runs nothing that a value says."""
    if _PLAIN.match(word) and not _READ.match(word) and not always:
        return word
    if re.search(r"\s", word):  # PowerShell 5.1 puts it between quotation marks, of which a backslash would take the last
        word = _closed(word)
    return _doubled(word)


def _closed(word: str) -> str:
    """A word whose last backslash takes no quotation mark away: a path with one more at its end is the same path."""
    return word + "\\" * ((len(word) - len(word.rstrip("\\"))) % 2)


def _literal(text: str) -> str:
    """A value on the right side, where PowerShell reads bare words as commands and numbers."""
    return f"'{text}'" if _BARE.match(text) else _doubled(text)


def _doubled(text: str) -> str:
    """Between double quotes, of which PowerShell takes the backticks away."""
    text = _FILLED_IN.sub(r"`\g<0>", _CONTROL.sub("?", text))
    return f'"{text}"'


def in_cmd(line: str) -> str:
    """The same for cmd, of a line that was made here for PowerShell."""
    if match := _SET.match(line):
        return f'set "{match["name"]}={_cmd_safe(words_of(match["value"])[0])}"'
    if match := _UNSET.match(line):
        return f'set "{match["name"]}="'
    first, *rest = words_of(_cmd_safe(line.removeprefix("& "))) or [""]
    program = first if _PROGRAM.match(first) else f'"{_closed(first)}"'
    return " ".join((program, *(word if _PLAIN.match(word) else f'"{_closed(word)}"' for word in rest)))


def _cmd_safe(text: str) -> str:
    """What stands between two percent signs would be filled in, also where they stand in two words."""
    return text.replace("%", "?") if text.count("%") > 1 else text


def words_of(line: str) -> list[str]:
    """The words of a line that was made here for PowerShell or cmd."""
    words, at = [], 0
    while found := _WORD.match(line, at):
        plain, single, double = found["plain"], found["single"], found["double"]
        words.append(plain if plain is not None else single if single is not None else re.sub("`(.)", r"\1", double))
        at = found.end()
    return words
