"""Would a test notice? Changes one small thing of the code at a time, in a copy, and runs the tests that should.

    python tools/mutate.py --sample 60 --seed 1                    # of all modules of TESTS
    python tools/mutate.py --sample 20 envcheck/planner/choice.py     # of one module
    python tools/mutate.py envcheck/planner/choice.py:41              # everything on one line

Prints each change that no test noticed, as lines of a diff, and the share that was noticed. A change that alters nothing
(`<` for `!=` where more cannot be) survives too: not every survivor is a test that is missing.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import fnmatch
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]

# Which tests should notice a change to which modules: likely and quick ones first. The first pattern that fits counts.
_PLAN = (
    "planner/test_plan_order.py",
    "planner/test_plan_way.py",
    "planner/test_plan_profile.py",
    "planner/test_plan_proof.py",
    "planner/test_plan_companions.py",
    "planner/test_plan_commands.py",
    "planner/test_plan_golden.py",
    "planner/test_plan_fixes.py",
    "planner/test_plan_assume.py",
    "planner/test_plan_wish.py",
    "planner/test_plan_files.py",
    "planner/test_plan_conda.py",
    "planner/test_plan_override.py",
    "planner/test_plan_grade.py",
    "planner/test_shells.py",
    "planner/test_plan_property.py",
)
TESTS: dict[str, tuple[str, ...]] = {
    "envcheck/engine/*.py": ("engine/test_engine.py", "planner/test_commands.py", "report/test_report.py"),
    "envcheck/agent/numerics.py": (
        "agent/test_lies.py::test_no_block_of_a_library_is_like_the_next_one",
        "agent/test_lies.py::test_the_truth_passes[7 ranks {}]",
        "agent/test_lies.py::test_the_quick_check",
        "agent/test_lies.py::test_several_buckets_are_several",
    ),
    "envcheck/planner/*.py": _PLAN,
    "envcheck/tables/gpu_names.py": ("tables/test_gpu_names.py", "planner/test_plan_profile.py", "planner/test_plan_wish.py"),
    "envcheck/tables/*.py": (
        "tables/test_versions.py",
        "tables/test_toml.py",
        "tables/test_tables.py",
        "checks/test_tables_old.py",
        "planner/test_plan_golden.py",
        "checks/test_rules.py",
    ),
    "envcheck/facts/cuda_visible_devices.py": ("facts/test_visible.py",),
}

_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip


class Mutant(NamedTuple):
    """One change, as what to put where in the tree of a module."""

    module: str  # "envcheck/planner/choice.py"
    line: int
    path: tuple[Any, ...]
    new: ast.AST

    def applied(self, text: str) -> tuple[str, str, str]:
        """The changed module, and the statement before and after."""
        tree = ast.parse(text)
        before = ast.unparse(_statement(tree, self.path))
        _put(tree, self.path, self.new)
        ast.fix_missing_locations(tree)
        return ast.unparse(tree), before, ast.unparse(_statement(tree, self.path))


def mutants(module: str, text: str) -> Iterator[Mutant]:
    """Every mutant of one module, in the order of its lines."""
    tree = ast.parse(text)
    for path in _places(tree, ()):
        old = _at(tree, path)
        for new in _changed(old):
            yield Mutant(module, old.lineno, path, new)


def _places(node: ast.AST, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Paths of what runs: no annotations, decorators, texts, imports, data of a module, nor what only a type checker reads."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases", "keywords" if isinstance(node, ast.ClassDef) else ""):
            continue
        for at, child in enumerate(value) if isinstance(value, list) else ((None, value),):
            if not isinstance(child, ast.AST) or isinstance(child, ast.Import | ast.ImportFrom | ast.JoinedStr):
                continue
            if len(path) == 1 and isinstance(child, ast.Dict | ast.Tuple | ast.List | ast.Set):
                continue
            if isinstance(child, ast.Assign) and ast.unparse(child).startswith("TYPE_CHECKING ="):
                continue
            if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
                continue
            here = (*path, (name, at))
            yield here
            yield from _places(child, here)


def _changed(new: ast.AST) -> Iterator[ast.AST]:
    """What may stand in the place of a node."""
    if isinstance(new, ast.Compare):
        for at, operator in enumerate(new.ops):
            for other in _COMPARED[type(operator)]:
                yield ast.Compare(new.left, [*new.ops[:at], other(), *new.ops[at + 1 :]], new.comparators)
    elif isinstance(new, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(new.op, ast.And) else ast.And(), new.values)
    elif isinstance(new, ast.UnaryOp) and isinstance(new.op, ast.Not):
        yield new.operand
    elif isinstance(new, ast.Constant) and isinstance(new.value, bool):
        yield ast.Constant(not new.value)
    elif isinstance(new, ast.Constant) and isinstance(new.value, int | float):
        yield from (ast.Constant(new.value + 1), ast.Constant(new.value - 1))
    elif isinstance(new, ast.IfExp):
        yield ast.IfExp(new.test, new.orelse, new.body)
    elif isinstance(new, ast.If) and not isinstance(new.test, ast.UnaryOp):  # a `not` goes by itself
        yield ast.If(ast.UnaryOp(ast.Not(), new.test), new.body, new.orelse)
    elif isinstance(new, ast.Return) and not _is_none(new.value):
        yield ast.Return(ast.Constant(None))
    elif _may_go(new):
        yield ast.Pass()


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _may_go(node: ast.AST) -> bool:
    """A statement without which the rest still runs: what goes with an assignment to a name is only a NameError."""
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
    return isinstance(node, ast.AugAssign | ast.Raise | ast.Continue | ast.Break)


def _at(tree: ast.AST, path: tuple[Any, ...]) -> Any:
    for name, at in path:
        found = getattr(tree, name)
        tree = found if at is None else found[at]
    return tree


def _put(tree: ast.AST, path: tuple[Any, ...], new: ast.AST) -> None:
    parent, (name, at) = _at(tree, path[:-1]), path[-1]
    if at is None:
        setattr(parent, name, new)
    else:
        getattr(parent, name)[at] = new


def _statement(tree: ast.AST, path: tuple[Any, ...]) -> ast.AST:
    """The innermost statement around a node."""
    for length in range(len(path), 0, -1):
        node = _at(tree, path[:length])
        if isinstance(node, ast.stmt):
            return node
    return tree


def tests_of(module: str) -> tuple[str, ...]:
    return next((tests for pattern, tests in TESTS.items() if fnmatch.fnmatch(module, pattern)), ())


def wanted(words: Sequence[str]) -> list[Mutant]:
    """The mutants of these modules or lines of modules; without words of all that TESTS has."""
    found: list[Mutant] = []
    for word in words or [str(path.relative_to(ROOT)) for pattern in TESTS for path in sorted(ROOT.glob(pattern))]:
        module, _, line = word.partition(":")
        if not tests_of(module):
            raise SystemExit(f"{module}: TESTS does not say which tests should notice")
        made = mutants(module, (ROOT / module).read_text(encoding="utf-8"))
        found += [one for one in made if not line or one.line == int(line)]
    return found


def files() -> list[str]:
    """The checkout as it stands, without what git ignores."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.splitlines() if (ROOT / name).is_file()]


class Bench:
    """A copy of the checkout in which tests run, on one mutant after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.usual: dict[tuple[str, ...], float] = {}  # seconds that the tests take on unchanged code
        for name in files():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)

    def run(self, tests: tuple[str, ...], seconds: float | None = None, write: bool = False) -> int | None:
        """The exit status of pytest; None where it did not end."""
        words = ["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", *(f"tests/{test}" for test in tests)]
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "" if write else "1"}
        try:
            return subprocess.run(
                [sys.executable, "-m", "pytest", *words],
                cwd=self.folder,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=seconds,
            ).returncode
        except subprocess.TimeoutExpired:
            return None

    def notices(self, mutant: Mutant) -> bool:
        tests = tests_of(mutant.module)
        if tests not in self.usual:
            began = time.monotonic()
            if self.run(tests, write=True) != 0:
                raise SystemExit(f"{' '.join(tests)}: fail on unchanged code")
            self.usual[tests] = time.monotonic() - began
        path = self.folder / mutant.module
        unchanged = path.read_bytes()
        for old in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            old.unlink()  # it is told from the source by size and whole seconds alone
        path.write_text(mutant.applied(unchanged.decode())[0], encoding="utf-8")
        try:
            return self.run(tests, 60 + 5 * self.usual[tests]) != 0
        finally:
            path.write_bytes(unchanged)


def shown(mutant: Mutant, folder: Path) -> str:
    _, before, after = mutant.applied((folder / mutant.module).read_text(encoding="utf-8"))
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    changed = [line for line in lines if not line.startswith(("---", "+++", "@@"))]
    return "\n".join([f"{mutant.module}:{mutant.line}", *(f"  {line}" for line in changed)])


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("modules", nargs="*", metavar="MODULE[:LINE]")
    parser.add_argument("--sample", type=int, help="how many mutants, drawn with --seed; all without")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=25.0, help="begin no other mutant after that (default 25)")
    given = parser.parse_args(words)
    found = wanted(given.modules)
    drawn = random.Random(given.seed).sample(found, min(given.sample, len(found))) if given.sample else found  # noqa: S311
    tried = survived = 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        bench = Bench(Path(folder))
        for mutant in drawn:
            if time.monotonic() - began > 60 * given.minutes:
                break
            tried += 1
            if not bench.notices(mutant):
                survived += 1
                print(shown(mutant, bench.folder), flush=True)
    share = f"{100 * (tried - survived) / tried:.0f} %" if tried else "nothing to try"
    print(f"{tried - survived} of {tried} were noticed ({share}), of {len(found)} in all; {(time.monotonic() - began) / 60:.0f} minutes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
