"""The glossary of the pages of rules: each word stands on a page, in every language, and is short."""

from __future__ import annotations

import re
from pathlib import Path

from envcheck.commands.glossary import glosses
from envcheck.engine.rule import RuleTexts
from envcheck.tables.folders import rules_folder
from envcheck.tables.toml import load_toml

FOLDER = Path(rules_folder())
GLOSSARY = load_toml(FOLDER / "words" / "glossary.toml")
LANGUAGES = sorted(path.name for path in (FOLDER / "lang").iterdir() if path.is_dir())
TEXTS = RuleTexts((FOLDER,))


def test_each_word_has_a_short_gloss_in_every_language_and_a_page_that_needs_it() -> None:
    needed = {line.partition(": ")[0] for rule in TEXTS.ids for line in glosses(TEXTS.read(rule), "")}
    assert set(GLOSSARY) - needed == set()
    for word, row in GLOSSARY.items():
        assert set(row) - {"forms", "told_by"} == {"en", *LANGUAGES}, word
        assert all(0 < len(row[one]) <= 130 and not row[one].endswith((".", "。")) for one in ("en", *LANGUAGES)), word
        assert set(row.get("told_by", ())) <= set(TEXTS.ids), word


def test_a_word_is_glossed_where_it_stands_as_a_word() -> None:
    text = TEXTS.read("launch-slurm")
    assert any(line.startswith("PMI: ") for line in glosses(text, ""))
    assert any(line.startswith("IMEX: ") for line in glosses(text, "no IMEX channel"))
    assert not any(line.startswith("IMEX: ") for line in glosses(text, "https://example.com/IMEX, nvidia-IMEX"))
    assert re.search("[\u4e00-\u9fff]", "".join(glosses(text, "", "zh")))
