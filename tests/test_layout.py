"""The tree of the package; which room may import which is held by `lint-imports` (pyproject.toml)."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import envcheck

PACKAGE = Path(envcheck.__file__).parent


def test_no_class_name_twice() -> None:
    """Who reads a name in a traceback or an import knows which class it is. The agent is a program of its own."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE)
        if name.parts[0] != "agent":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(name.as_posix())
    assert len(places) > 150
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
