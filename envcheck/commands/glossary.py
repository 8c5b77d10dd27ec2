"""The words of a page that somebody who meets the fault for the first time may not know, with a gloss each."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from envcheck.tables.folders import rules_folder
from envcheck.tables.toml import load_toml

if TYPE_CHECKING:
    from envcheck.engine.rule import RuleText

_ADDRESS = re.compile(r"https?://\S{1,400}")


def glosses(text: RuleText, answers: str, language: str = "") -> list[str]:
    """A line for each word of the glossary in the English text of a rule and in what its page answers, in the order in which they come."""
    said = _ADDRESS.sub(
        "", "\n".join([text.title, text.why, text.confirm, *text.messages.values(), *_of_fixes(text), *text.notes, answers])
    )
    found = []
    for word, row in load_toml(rules_folder(os.path.join("words", "glossary.toml"))).items():
        place = re.search(rf"(?<![\w/._-])(?:{row.get('forms', re.escape(word))})(?![\w/])", said)
        if place and text.id not in row.get("told_by", ()):
            found.append((place.start(), f"{word}: {row[language or 'en']}"))
    return [line for _, line in sorted(found)]


def _of_fixes(text: RuleText) -> list[Any]:
    return [fix.get("text") or fix.get("note") or "" for fix in text.fixes]
