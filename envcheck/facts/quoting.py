"""Words for a line of sh that bash, dash, zsh and fish read alike: users paste it into the shell that they have."""

from __future__ import annotations

import re
from collections.abc import Iterable

# `=ls` is a path to zsh, at the start and behind a colon of a variable's value; `%self` a process to fish
_UNSAFE = re.compile(r"[^\w@%+=:,./-]|(?:\A|:)[=%]", re.ASCII)
# fish takes \' and \\ between single quotes for one character; before others a backslash is one there as well. What is spelled out when
# it is shown (controls, what cannot be seen) begins with one.
ESCAPING = re.compile(r"((?:\\(?![ -&(-\[\]-~])){1,9999})")


def quoted(word: str) -> str:
    """One word, in single quotes where it needs any, and backslashes outside of them where fish would read more into them."""
    if word and not _UNSAFE.search(word):
        return word
    parts = ESCAPING.split(word)
    return "".join(part.replace("\\", "\\\\") if at % 2 else _single(part) for at, part in enumerate(parts) if part) or "''"


def _single(text: str) -> str:
    return "'" + text.replace("'", "'\"'\"'") + "'"


def joined(words: Iterable[str]) -> str:
    return " ".join(map(quoted, words))
