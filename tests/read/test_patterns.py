"""The regular expressions of the code: each compiles, and none takes more than linear time, whatever it is given."""

from __future__ import annotations

import ast
import functools
import importlib
import pkgutil
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from ambiguity import ENDLESS, doubling_text, slow_texts
from expressions import repeats_of

import envcheck
from envcheck.facts import secret_collections
from envcheck.facts.secret_words import FOREIGN, any_of
from envcheck.facts.secrets import mask_secrets
from envcheck.facts.snapshot import Gpu
from envcheck.read import concepts, own_words
from envcheck.read.identify import read_text
from envcheck.read.merge import _combined
from envcheck.report.redact import Identity, Redactor
from envcheck.symptoms.retyped import _BETWEEN
from envcheck.tables.folders import rules_folder
from envcheck.tables.toml import load_toml


def found(value: object) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, tuple | list):
        for one in value:
            yield from found(one)
    elif isinstance(value, dict):
        yield from found([*value, *value.values()])


@functools.cache
def all_patterns() -> dict[str, re.Pattern[str]]:
    """Module and name → pattern, of the whole package but the agent, which uses `re` alone."""
    result = {}
    for module in pkgutil.walk_packages(envcheck.__path__, "envcheck."):
        if module.name.startswith("envcheck.agent") or module.name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            result |= {f"{module.name}.{name}.{index}": one for index, one in enumerate(found(value))}
    return result


def nested(one: re.Pattern[str]) -> list[str]:
    """Repeats without bound inside repeats without bound: what makes a failing match exponential."""
    return [
        name for name, most, around in repeats_of(one.pattern, one.flags) if most > ENDLESS and any(outer > ENDLESS for outer in around)
    ]


def test_no_pattern_repeats_anything_twice() -> None:
    assert {name: twice for name, one in all_patterns().items() if (twice := nested(one))} == {}


# ------------------------------------------------------------------ linear time

METHODS = ("match", "fullmatch", "search", "finditer", "findall", "split", "sub", "subn")
AT_ONE_PLACE = {"match", "fullmatch"}


@functools.cache
def sources() -> dict[str, ast.Module]:
    """Module → its tree."""
    package = Path(envcheck.__file__).parent
    return {
        ".".join(("envcheck", *path.relative_to(package).with_suffix("").parts)): ast.parse(path.read_text("utf-8"))
        for path in sorted(package.rglob("*.py"))
    }


def uses() -> dict[str, set[str]]:
    """Module and name of a pattern → the methods that are called of it; "" where it goes elsewhere."""
    found: dict[str, set[str]] = {}
    for module, tree in sources().items():
        known = {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        called: set[ast.expr] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                match node.value:
                    case ast.Name(name):
                        full = known.get(name, f"{module}.{name}")
                    case ast.Attribute(ast.Name(name), attribute):
                        full = f"{known.get(name, name)}.{attribute}"
                    case _:
                        continue
                called.add(node.value)
                found.setdefault(full, set()).add(node.attr)
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node not in called:
                found.setdefault(known.get(node.id, f"{module}.{node.id}"), set()).add("")
    return found


@functools.cache
def given_to_re() -> tuple[tuple[str, str, str | None, int, str], ...]:
    return tuple(_given_to_re())


def _given_to_re() -> Iterator[tuple[str, str, str | None, int, str]]:
    """What is handed to `re` where it is used: place, function, expression (None: made of what only the run knows), flags, method."""
    for module, tree in sources().items():
        values = [one.value for one in tree.body if isinstance(one, ast.Assign | ast.AnnAssign) and one.value]
        of_modules = {node for value in values for node in ast.walk(value)} if not module.startswith("envcheck.agent") else set()
        functions = sorted((one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)), key=lambda one: one.lineno)
        for node in ast.walk(tree):
            match node:
                case ast.Call(ast.Attribute(ast.Name("re"), "compile")) if node in of_modules:
                    continue  # among all_patterns()
                case ast.Call(
                    ast.Attribute(
                        ast.Name("re"),
                        "compile" | "match" | "fullmatch" | "search" | "finditer" | "findall" | "split" | "sub" | "subn" as method,
                    ),
                    [source, *more],
                ):
                    given = [
                        one for one in ast.walk(ast.Tuple([*more, *(key.value for key in node.keywords)])) if isinstance(one, ast.Attribute)
                    ]
                    flags = sum(int(getattr(re, one.attr)) for one in given if one.attr.isupper() and hasattr(re, one.attr))
                    within = [one.name for one in functions if one.lineno <= node.lineno <= (one.end_lineno or 0)]
                    for expression in said(source, module, tree):
                        yield f"{module}:{node.lineno}", f"{module}.{within[-1] if within else ''}", expression, flags, method


def said(source: ast.expr, module: str, tree: ast.Module) -> list[str | None]:
    """The texts that an expression of Python can be: constants, those of a loop over constants, and what names of its module make."""
    if isinstance(source, ast.Name):
        for loop in ast.walk(tree):
            match loop:
                case ast.For(ast.Name(name), ast.Tuple(values)) if name == source.id:
                    return [one.value if isinstance(one, ast.Constant) else None for one in values]
    if module.startswith("envcheck.agent"):
        return [source.value if isinstance(source, ast.Constant) else None]
    try:
        value = eval(compile(ast.Expression(source), module, "eval"), dict(vars(importlib.import_module(module))))  # noqa: S307  # of our own sources
    except NameError:
        return [None]
    return [value.pattern if isinstance(value, re.Pattern) else value.decode("latin-1") if isinstance(value, bytes) else value]


def of_other_languages() -> Iterator[re.Pattern[str]]:
    for code in own_words.LANGUAGES:
        words = own_words._words(code)
        yield from (words.shows, *words.frame, *(one for one, _ in words.whole))


def _glossary() -> Iterator[re.Pattern[str]]:
    """The forms of the words that a page may explain: ours, in the table of words."""
    for word, row in load_toml(rules_folder("words/glossary.toml")).items():
        yield re.compile(rf"(?<![\w/._-])(?:{row.get('forms', re.escape(word))})(?![\w/])")


def of_concepts() -> Iterator[re.Pattern[str]]:
    """All phrases of a concept joined, in every language: with fewer of them an expression has fewer repeats."""
    yield from (one for name in concepts.table() if (one := concepts.expression(name, frozenset(concepts._LETTERS))))


# What only a run makes: the function → its expressions, as a run makes them, or none, with the reason.
MADE: dict[str, Iterable[re.Pattern[str]]] = {
    "envcheck.read.own_words._words": tuple(of_other_languages()),
    "envcheck.read.own_words._whole": (),  # among those of _words
    "envcheck.read.concepts.expression": tuple(of_concepts()),
    "envcheck.read.concepts.table": (re.compile(r"\{(number|card)\}"),),
    "envcheck.read.traced_paths._within": tuple(re.compile(rf"[/\\]{re.escape(one)}(?=[/\\])") for one in ("mmcv", "a.b")),
    "envcheck.commands.glossary.glosses": tuple(_glossary()),
    "envcheck.commands.ways_out.wrapped": (re.compile(r"(`[^`]{76,}`)"),),
    "envcheck.symptoms.retyped.retyped": (re.compile(f"{_BETWEEN}".join(("processgroupabort", "exitedunexpectedly"))),),
    "envcheck.report.redact._names": tuple(one for one in [Redactor(Identity(frozenset({"ann", "gpu-7.x"})))._names] if one),
    "envcheck.report.redact.__call__": (),  # a folder's name and one character
    "envcheck.host.library_search._cached": (re.compile(r"\0(/[^\0]{0,4000}/libcuda\.so\.1)(?=\0)"),),
    "envcheck.symptoms.scan.pattern": (),  # tests/symptoms/test_symptoms.py counts the repeats of each row
    "envcheck.symptoms.scan.pattern_of_any_case": (),
    "envcheck.checks.thresholds._expression": (),  # a site's own, which is asked of short texts alone
    "envcheck.checks.thresholds._holds": (),
}


def written() -> Iterator[tuple[str, str, int, str]]:
    """Expressions that are handed to `re` where they are used: place, expression, flags, method."""
    for place, _, source, flags, method in given_to_re():
        if source is not None:
            yield place, source, flags, method
    for function, made in MADE.items():
        for number, one in enumerate(made):
            yield f"{function}.{number}", one.pattern, one.flags, "search"


@functools.cache
def expressions() -> tuple[tuple[str, str, int, bool], ...]:
    """Every expression: name, source, flags, and whether it is searched for."""
    return tuple(_expressions())


def _expressions() -> Iterator[tuple[str, str, int, bool]]:
    used = uses()
    for name, one in all_patterns().items():
        methods = used.get(name.rpartition(".")[0], set())
        yield name, one.pattern, one.flags, not methods or not methods <= AT_ONE_PLACE
    for name, source, flags, method in written():
        yield name, source, flags, method not in AT_ONE_PLACE


# None of these words holds a repeat. One of each sort, with a blank, a hyphen, a bar and letters of its own, stands for them all: each
# further letter is a character more to tell apart, and a state more in each place where the words stand.
ALL, FEW = any_of(FOREIGN), any_of(("heslo", "de passe", "palavra-passe", "mat_khau", "пароль", "密码"))


@functools.cache
def slow(source: str | bytes, flags: int, search: bool) -> list[str]:
    """Asked once of an expression that two tuples or modules hold."""
    return slow_texts(source.replace(ALL, FEW) if isinstance(source, str) else source, flags, search=search)


def test_no_two_repeats_read_the_same_text() -> None:
    """One test for all: each further item costs every process that collects."""
    assert {name: shared for name, source, flags, search in expressions() if (shared := slow(source, flags, search))} == {}


def test_lists_of_secrets_are_read_in_one_way() -> None:
    """Their bounds did not help: blanks on either side of a comma that need not be there doubled the time with each member. Not asked of
    all: the automata of most others are too large for it."""
    held = secret_collections._HELD
    assert [doubling_text(one.pattern, one.flags) for one in held] == [None] * len(held)
    ambiguous = held[0].pattern.replace(secret_collections._PARTED, r"\s{0,8},?\s{0,40}")
    assert ambiguous != held[0].pattern and doubling_text(ambiguous)


def test_expressions_of_every_kind_are_among_them() -> None:
    assert sum(not search for *_, search in expressions()) > 30
    assert len([name for name, *_ in written()]) > 200
    assert any("envcheck.agent" in name for name, *_ in written())


SLOW = [
    (r"[\w-]*token=", 0),
    (r"(?i)[\w-]*(?:token|secret)[\w-]*\s*=", 0),
    (r"sk-(?=[\w-]*\d)[\w-]{20,}", 0),
    (r"^\s+Name:\s+gfx", re.MULTILINE),
    (r"\d+ bytes", 0),
    (r"NVRM: .*Xid", 0),
    (r"\|\s*([^|]*?)\s*\|", 0),
    (r"x(?:ab)*c*(?:ab)*y", 0),
    (r'"(?:[^"\\]|\\.)*"', 0),
    (r"\barc\b.*\bb\d", 0),
    (r"(\S+)\s+(\S.*?)\s*$", 0),
]


@pytest.mark.parametrize(("source", "flags"), SLOW)
def test_a_slow_expression_is_found(source: str, flags: int) -> None:
    assert slow_texts(source, flags)


@pytest.mark.parametrize(
    ("source", "flags", "search"),
    [
        (r"(?<![\w-])[\w-]+=", 0, True),
        (r"\b\w+=", 0, True),
        (r"[\w-]{0,80}token=", 0, True),
        (r"^[ \t]+Name:[ \t]+gfx", re.MULTILINE, True),
        (r"\w+", 0, True),
        (r"key: .*", 0, True),
        (r"[\w-]*token=", 0, False),
        (r'(?<!\\)"(?:[^"\\]|\\.)*"', 0, True),
        (r"<(\w+)>([^<]*)</", 0, True),
    ],
)
def test_a_linear_expression_is_not(source: str, flags: int, search: bool) -> None:
    assert slow_texts(source, flags, search=search) == []


def test_what_took_minutes_takes_none() -> None:
    """135 s, 50 s, 4 s, 51 s and 33 s of CPU time, before."""
    begin = time.process_time()
    assert mask_secrets("feature vector: " + "A" * 60_000).endswith("AAA")
    assert Redactor(Identity())(": " + "x" * 40_000)
    assert mask_secrets("sk-" * 13_333).startswith("sk-")
    assert [one.kind for one in read_text("[rank0]: rocm run\n" + "\n" * 250_000)] == []
    assert len(_combined([[Gpu(index) for index in range(50_000)]])) == 50_000
    assert time.process_time() - begin < 10


def test_no_expression_is_made_that_nobody_looked_at() -> None:
    assert {function for _, function, source, *_ in given_to_re() if source is None} == MADE.keys()


def test_the_readers_are_among_them() -> None:
    assert len(all_patterns()) > 100
    assert any("envcheck.read.collect_env" in name for name in all_patterns())
