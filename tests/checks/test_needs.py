"""What is missing is the engine's business: with nothing read no rule says that all is well."""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path

import pytest

from envcheck.checks import all_checks
from envcheck.engine.judge import Outcome, judge
from envcheck.engine.rule import Check, Facts
from envcheck.facts.record import fields
from envcheck.facts.snapshot import SECTIONS, Missing, Snapshot, Why
from envcheck.tables.compat import Tables
from envcheck.tables.folders import rules_folder

TABLES = Tables((Path(rules_folder()) / "compat",))
CHECKS = [pytest.param(check, id=check.id) for check in all_checks()]
OUTCOMES = {Why.FAILED: Outcome.UNKNOWN, Why.TIMEOUT: Outcome.UNKNOWN, Why.SKIPPED: Outcome.NOT_APPLICABLE}


def place(check: Check) -> str:
    """The function to open."""
    return f"{check.id}: def {check.id.replace('-', '_')} in envcheck/checks"


def without_a_word(why: Why) -> Snapshot:
    return Snapshot(**{name: Missing(why, "nothing came") for name in SECTIONS})


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("why", OUTCOMES, ids=lambda why: why.value)
def test_of_what_was_not_read_nothing_is_said(check: Check, why: Why) -> None:
    [verdict] = judge(without_a_word(why), [check], TABLES)
    hangs = check.id == "libcuda-unresponsive" and why is Why.TIMEOUT  # that neither libcuda nor torch came back is what it is about
    expected = Outcome.HIT if hangs else OUTCOMES[why]
    said = f"{verdict.outcome.value} ({verdict.reason})"
    assert verdict.outcome is expected, f"{place(check)}: with every section {why.value} {expected.value} is expected, not {said}"
    assert hangs or "nothing came" in verdict.reason, f"{place(check)}: the reason of the section is expected in {verdict.reason!r}"


@pytest.mark.parametrize("check", CHECKS)
def test_needs_are_sections_that_the_check_reads(check: Check) -> None:
    assert check.needs, f"{place(check)}: @check(needs=…) names no section"
    strange = set(check.needs) - set(SECTIONS)
    assert not strange, f"{place(check)}: needs {strange}, which is no section; they are {', '.join(SECTIONS)}"
    unread = set(check.needs) - set(check.reads) - {"torch", "driver"}  # of which its absence may be all that is asked
    assert not unread, f"{place(check)}: needs {unread}, which reads does not name"


MODULES = {module.__name__: module for name, module in sys.modules.items() if name.startswith("envcheck.checks.")}
FUNCTIONS = {
    (name, node.name): node
    for name, module in MODULES.items()
    for node in ast.parse(inspect.getsource(module)).body
    if isinstance(node, ast.FunctionDef)
}


def read_by(module: str, function: str) -> set[str]:
    """The sections that a function and those to which it hands its facts on ask for."""
    seen: set[tuple[str, str]] = set()
    todo, found = [(module, function)], set()
    while todo:
        one = todo.pop()
        if one in seen:
            continue
        seen.add(one)
        for node in ast.walk(FUNCTIONS[one]):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "facts":
                found.add("symptoms" if node.attr == "said" else node.attr)
            if isinstance(node, ast.Call) and any(isinstance(given, ast.Name) and given.id == "facts" for given in node.args):
                target = eval(ast.unparse(node.func), vars(MODULES[one[0]]))  # noqa: S307
                todo.append((target.__module__, target.__name__))
    return found & set(SECTIONS)


OWN = [one for module in MODULES.values() for one in vars(module).values() if isinstance(one, Check)]


@pytest.mark.parametrize("check", [pytest.param(one, id=one.id) for one in {one.id: one for one in OWN}.values()])
def test_a_check_names_the_sections_that_it_reads(check: Check) -> None:
    """`envcheck rules --json` says so of each rule."""
    handed = {"symptoms"} if check.function.__code__.co_argcount > 1 else set()
    found = read_by(check.function.__module__, check.function.__name__) | handed
    more, less = found - set(check.reads), set(check.reads) - found
    assert not more, f"{place(check)}: it reads {sorted(more)}; add them to @check(reads=…)"
    assert not less, f"{place(check)}: @check(reads=…) names {sorted(less)}, which it does not read"


def test_what_a_check_is_given_has_every_section() -> None:
    assert [field.name for field in fields(Facts)] == [*SECTIONS, "tables", "missing", "absent"]
