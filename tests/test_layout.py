"""The tree of the package and the size of what is in it; which room may import which is held by `lint-imports` (pyproject.toml)."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from radon.visitors import ComplexityVisitor, Function

import envcheck

PACKAGE = Path(envcheck.__file__).parent
SOURCES = {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
LONGEST = 45  # lines of a function without its decorators
MOST_COMPLEX = 30  # cyclomatic complexity: the end of radon's grade D


def test_no_function_is_longer_than_a_screen() -> None:
    lengths = {
        f"{name}:{node.lineno} {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for name, source in SOURCES.items()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert len(lengths) > 1500
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST} == {}


def test_no_function_decides_more_than_a_reader_can_hold() -> None:
    found = {
        f"{name}:{function.lineno} {function.fullname}": function.complexity
        for name, source in SOURCES.items()
        for function in functions(source)
    }
    assert len(found) > 1500
    assert {name: complexity for name, complexity in found.items() if complexity > MOST_COMPLEX} == {}


def functions(source: str) -> list[Function]:
    """All functions and methods, as `radon cc` counts them."""
    visitor = ComplexityVisitor.from_code(source)
    return [*visitor.functions, *(method for one in visitor.classes for method in one.methods)]


def test_no_class_name_twice() -> None:
    """Who reads a name in a traceback or an import knows which class it is. The agent is a program of its own."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for name, source in SOURCES.items():
        if not name.startswith("agent/"):
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(name)
    assert len(places) > 150
    public = {"Report": ["api.py", "report/report.py"]}  # the face of the other one to those who import envcheck
    assert {name: files for name, files in places.items() if len(files) > 1} == public
