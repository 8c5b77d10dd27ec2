"""The dotted names that a wheel's Python files define, read with `ast`: nothing of the wheel is imported.

A module has what it defines, assigns and lists in `__all__`, and what it takes from a package of the same wheel. What it takes from
elsewhere (`from typing import Optional`) is no name of its own.
"""

from __future__ import annotations

import ast
import re
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Names: TypeAlias = Mapping[str, frozenset[str]]  # module -> its names, submodules among them

# What torch makes in C is shown by stubs alone, and the public names of both are torch's. A stub may have a name later than the program,
# never sooner. Up to 1.5 one file held all of it.
_STUBS = {
    "torch/__init__.pyi": "torch._C",
    "torch/_C/__init__.pyi": "torch._C",
    "torch/_C/_VariableFunctions.pyi": "torch._C._VariableFunctions",
}
_TENSOR = ("_TensorBase", "TensorBase", "Tensor")  # the classes whose methods are torch.Tensor's


@dataclass
class _Module:
    names: set[str] = field(default_factory=set)
    listed: set[str] | None = None  # __all__
    stars: list[str] = field(default_factory=list)  # modules whose names it takes all
    methods: set[str] = field(default_factory=set)  # of the classes of torch.Tensor


def names_in(archive: zipfile.ZipFile, package: str, closed: Iterable[str] = ()) -> Names:
    """Of one package, by module. Of packages that are `closed` only the names of the package itself and its own submodules."""
    folders = tuple(f"{name.replace('.', '/')}/" for name in closed)
    read: dict[str, _Module] = {}
    for path in sorted(archive.namelist()):
        if not path.startswith(f"{package}/") or not (path.endswith(".py") or path in _STUBS):
            continue
        inside = any(path.startswith(folder) and path != f"{folder}__init__.py" for folder in folders)
        read[_module_of(path)] = _Module() if inside else _read(archive.read(path), _module_of(path), path.endswith("__init__.py"), package)
    if "torch" in read:
        read["torch"].stars += ["torch._C", "torch._C._VariableFunctions"]
        methods = set().union(*(read[name].methods for name in ("torch._C", "torch._tensor", "torch.tensor") if name in read))
        read["torch.Tensor"] = _Module(methods)
    found = {name: _all_of(name, read, frozenset()) for name in read}
    for name in read:
        parent, _, last = name.rpartition(".")
        if parent in found:
            found[parent].add(last)
    hidden = ("torch._C.", *(f"{name}." for name in closed))
    return {name: frozenset(names) for name, names in found.items() if name in closed or not f"{name}.".startswith(hidden)}


def _module_of(path: str) -> str:
    return _STUBS.get(path) or path.rpartition(".")[0].removesuffix("/__init__").replace("/", ".")


def _all_of(name: str, read: Mapping[str, _Module], above: frozenset[str]) -> set[str]:
    """Its names and those that it takes with a star."""
    module = read[name]
    found = module.names | (module.listed or set())
    for other in module.stars:
        if other in read and other not in above:
            found |= _given_away(other, read, above | {name})
    return found


def _given_away(name: str, read: Mapping[str, _Module], above: frozenset[str]) -> set[str]:
    """What `from name import *` brings."""
    if read[name].listed is not None:
        return set(read[name].listed or ())
    return {one for one in _all_of(name, read, above) if not one.startswith("_")}


def _read(source: bytes, module: str, package: bool, top: str) -> _Module:
    found = _Module()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # escapes of old files
        tree = _parsed(source)
    home = module if package else module.rpartition(".")[0]
    for node in _statements(tree.body):
        _take(node, found, home, top)
    return found


_DEFINES = re.compile(rb"(?:async )?(?:def|class) (\w+)")
_GOES_ON = (b" ", b"\t", b"\n", b"\r", b"#", b")", b"]", b"}")


def _parsed(source: bytes) -> ast.Module:
    """Without the bodies of functions and classes, which is six times as fast; whole where that does not parse (a string with lines that
    begin at the margin), and for the classes of torch.Tensor.
    """
    if not any(b"class " + name.encode() in source for name in _TENSOR):
        try:
            return ast.parse(b"".join(_outlines(source)))
        except (SyntaxError, ValueError):
            pass
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):  # a template, or a file for Python 2
        return ast.Module([], [])


def _outlines(source: bytes) -> Iterator[bytes]:
    inside = False
    for line in source.splitlines(keepends=True):
        if inside and line.startswith(_GOES_ON):
            continue
        defines = _DEFINES.match(line)
        inside = defines is not None
        yield b"def " + defines[1] + b"(): pass\n" if defines else line


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Those of the module itself, whatever condition they stand under; none that type checkers alone see."""
    for node in body:
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.unparse(node.test):
            yield from _statements((*node.body, *node.orelse))
        elif isinstance(node, ast.If):
            yield from _statements(node.orelse)
        elif isinstance(node, ast.Try):
            yield from _statements((*node.body, *(one for handler in node.handlers for one in handler.body), *node.orelse, *node.finalbody))
        elif isinstance(node, ast.With):
            yield from _statements(node.body)


def _take(node: ast.stmt, found: _Module, home: str, top: str) -> None:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        found.names.add(node.name)
        if isinstance(node, ast.ClassDef) and node.name in _TENSOR:
            found.methods |= {one for inner in node.body for one in _defined(inner)}
    elif isinstance(node, ast.ImportFrom):
        _take_import(node, found, home, top)
    elif isinstance(node, ast.Import):
        found.names |= {one.asname for one in node.names if one.asname and one.name.partition(".")[0] == top}
    else:
        found.names |= set(_defined(node))
        if (listed := _listed(node)) is not None:
            found.listed = (found.listed or set()) | listed
    found.names.discard("__all__")


def _take_import(node: ast.ImportFrom, found: _Module, home: str, top: str) -> None:
    base = node.module or ""
    if node.level:
        above = home.split(".")[: len(home.split(".")) - node.level + 1]
        base = ".".join((*above, *([base] if base else [])))
    if base.partition(".")[0] != top:
        return
    if any(one.name == "*" for one in node.names):
        found.stars.append(base)
    found.names |= {one.asname or one.name for one in node.names if one.name != "*"}


def _defined(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign | ast.AugAssign) else []
    for target in targets:
        yield from (one.id for one in ast.walk(target) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))


def _listed(node: ast.stmt) -> set[str] | None:
    """The strings of `__all__ = […]` or `__all__ += […]`; None for another statement, or a list that is worked out."""
    if not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) or "__all__" not in _defined(node):
        return None
    if not isinstance(node.value, ast.List | ast.Tuple):
        return None
    return {one.value for one in node.value.elts if isinstance(one, ast.Constant) and isinstance(one.value, str)}
