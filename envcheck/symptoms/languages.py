"""What the system says in other languages, as the English words of the same message: the table rules/languages/*.toml.

    bash: nvidia-smi : commande introuvable              bash: nvidia-smi: command not found
    ImportError: DLL load failed: 找不到指定的模块。        ImportError: DLL load failed: The specified module could not be found。

Rows of messages are written in English, and a system prints its own part of a message in the language of its user.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from envcheck.facts.record import record
from envcheck.read.clean import words_in
from envcheck.symptoms.normalize import one_quote
from envcheck.tables.folders import Folder, toml_files
from envcheck.tables.toml import load_toml

_OTHER_SCRIPT = re.compile("[\u0400-\u04ff\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")


@record
class Languages:
    """The messages of one or more folders `rules/`."""

    folders: tuple[Folder, ...]

    @cached_property
    def english(self) -> Mapping[str, str]:
        """By the words of another language, the longest first."""
        files = [load_toml(path) for folder in self.folders for path in toml_files(folder, "languages").values()]
        tables = [table for content in files for name, table in content.items() if name != "sources"]
        found = {words: meaning for table in tables for meaning, said in table.items() for words in said}
        return dict(sorted(found.items(), key=lambda one: -len(one[0])))

    @cached_property
    def by_word(self) -> Mapping[str, Sequence[str]]:
        """Messages by their longest run of small Latin letters, which costs nothing where a text is in English; "" for other scripts."""
        found: dict[str, list[str]] = {}
        for words in self.english:
            found.setdefault(max(words_in(words), key=len) if not _OTHER_SCRIPT.search(words) else "", []).append(words)
        return found

    def spoken(self, text: str, words: Iterable[str]) -> tuple[str, ...]:
        """The messages that stand in a text with one kind of quotes, and with these words."""
        near = self.by_word.keys() & words
        if not text.isascii() and _OTHER_SCRIPT.search(text):
            near.add("")
        return tuple(one for one in self.english if one in text) if "" in near else self._of(near, text)

    def _of(self, near: Iterable[str], text: str) -> tuple[str, ...]:
        return tuple(one for word in near for one in self.by_word[word] if one in text)

    def in_english(self, text: str, spoken: Iterable[str]) -> str:
        for words in spoken:
            flat = one_quote(text)
            at = flat.rfind(words)
            while at >= 0:
                text = text[:at] + self.english[words] + text[at + len(words) :]
                at = flat.rfind(words, 0, at)
        return text
