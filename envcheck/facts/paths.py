"""Facts by dotted path: the value, or `Missing`, which tells what is not here from what was not read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from envcheck.facts.record import fields
from envcheck.facts.snapshot import ImportStatus, Missing, PackagesFacts, TorchFacts, Why


def absent(reason: str) -> Missing:
    return Missing(Why.ABSENT, reason)


def unread(reason: str) -> Missing:
    return Missing(Why.FAILED, reason)


def walk(section: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Each fact at a path, with the path itself. `*` stands for every member of a list or table, `packages.NAME` for a version.

    Without `*` there is exactly one. `section` is that of the path's first part.
    """
    head, *rest = path.split(".")
    name = distribution(path)
    if name and isinstance(section, PackagesFacts):
        yield path, section.version(name) or absent(f"{name} is not installed")
        return
    static = isinstance(section, TorchFacts) and section.import_status is ImportStatus.SKIPPED
    yield from _below(section, rest, head, ", torch was not imported" if static else "")


def _below(node: Any, parts: Sequence[str], done: str, why: str) -> Iterator[tuple[str, Any]]:
    if isinstance(node, Missing):
        yield done, absent(f"there is no {done} here: {node.reason}") if node.why is Why.ABSENT else node
    elif node is None:
        yield done, unread(f"{done} is not known{why}")
    elif not parts:
        yield done, getattr(node, "value", node)
    else:
        yield from _member(node, parts, done, why)


def _member(node: Any, parts: Sequence[str], done: str, why: str) -> Iterator[tuple[str, Any]]:
    part, *rest = parts
    here = f"{done}.{part}"
    if part == "*" and isinstance(node, tuple | dict):
        for key, one in node.items() if isinstance(node, dict) else enumerate(node):
            yield from _below(one, rest, f"{done}.{key}", why)
    elif isinstance(node, tuple):
        inside = part.isdecimal() and int(part) < len(node)
        yield from _below(node[int(part)], rest, here, why) if inside else [(here, absent(f"there is no {here} here"))]
    elif isinstance(node, dict):
        yield from _below(node[part], rest, here, why) if part in node else [(here, absent(f"{here} is not set"))]
    else:
        yield from _below(getattr(node, part, None), rest, here, why)


def distribution(path: str) -> str | None:
    """The NAME of `packages.NAME`, normalized; None for a field of the section."""
    head, _, name = path.partition(".")
    if head != "packages" or name.partition(".")[0] in {one.name for one in fields(PackagesFacts)}:
        return None
    return name.lower().replace("_", "-").replace(".", "-")
