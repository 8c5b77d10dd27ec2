"""ARCHITECTURE.md says what the tree is."""

from __future__ import annotations

import re
from pathlib import Path

import picture

import envcheck

ROOT = Path(__file__).parents[1]
PACKAGE = Path(envcheck.__file__).parent
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def test_its_rooms_are_those_of_the_tree() -> None:
    named = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert sorted(named) == sorted({path.parent.name for path in PACKAGE.glob("*/*.py")})
    at_the_top = {path.stem for path in PACKAGE.glob("*.py")}
    assert at_the_top == {"__init__", "__main__", "api", "cli", "options", "collect", "errors"}


def test_its_picture_is_drawn_from_the_imports() -> None:
    assert PAGE.partition(picture.BEGIN)[2].partition(picture.END)[0] == picture.picture()


def test_a_circle_has_no_picture() -> None:
    assert picture.reduced({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {"a": {"b"}, "b": {"c"}, "c": set()}
    try:
        picture.reduced({"a": {"b"}, "b": {"a"}})
    except ValueError as error:
        assert "a → b → a" in str(error)
    else:
        raise AssertionError("a circle was drawn")


def test_every_path_that_it_names_is_there() -> None:
    paths = re.findall(r"`((?:checks|collect|engine|planner|probes|read|report|envcheck|rules|tools)[\w./-]*\.(?:py|toml|json))`", PAGE)
    assert len(paths) >= 8
    assert [path for path in paths if not ((ROOT / path).exists() or (PACKAGE / path).exists())] == []
