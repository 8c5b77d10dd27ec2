"""Snapshot ⇄ plain JSON values, without loss; and edits by dotted path (`driver.version`)."""

from __future__ import annotations

import types
import typing
from collections.abc import Hashable, Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar

from envcheck.facts import snapshot as facts
from envcheck.facts.record import fields, is_record, is_record_type, replace
from envcheck.facts.snapshot import Missing, Snapshot, Why

T = TypeVar("T")


class DecodeError(ValueError):
    """A recorded value does not fit the field it is meant for; the message names the path."""


def encode(value: object) -> Any:
    """A tree of records as dicts, lists and scalars. `Missing` becomes {missing, reason, evidence}."""
    if isinstance(value, Missing):
        return {"missing": value.why.value, "reason": value.reason, "evidence": value.evidence}
    if is_record(value):
        return {one.name: encode(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    return value


@cache
def _hints(cls: Hashable) -> dict[str, Any]:
    return typing.get_type_hints(cls, vars(facts))


def decode(hint: Any, value: Any, path: str = "") -> Any:
    """The inverse of `encode` for one type hint; unknown keys of newer recordings are ignored."""
    kind, inner = _kind(hint)
    if kind is _Kind.SCALAR:
        return _decode_scalar(hint, value, path)
    if kind is _Kind.OPTIONAL:
        return _decode_optional(hint, inner, value, path)
    if kind is _Kind.RECORD:
        return _decode_record(hint, value, path)
    if kind is _Kind.LIST:
        if not isinstance(value, list | tuple):
            raise DecodeError(f"{path}: a list was expected, found {_show(value)}")
        return tuple(decode(inner, one, f"{path}.{i}") for i, one in enumerate(value))
    if kind is _Kind.TABLE:
        if not isinstance(value, Mapping):
            raise DecodeError(f"{path}: a table was expected, found {_show(value)}")
        return {bounded(str(key)): decode(inner, one, f"{path}.{key}") for key, one in value.items()}
    try:
        return hint(value)
    except ValueError:
        allowed = ", ".join(str(member.value) for member in hint)
        raise DecodeError(f"{path}: {_show(value)} is none of {allowed}") from None


class _Kind(Enum):
    """How a type hint is read."""

    SCALAR = 0
    OPTIONAL = 1  # a union with None or Missing
    RECORD = 2
    LIST = 3
    TABLE = 4
    ENUM = 5


@cache
def _kind(hint: Any) -> tuple[_Kind, Any]:
    """The kind of a hint and the hint within it: asked once a hint, for a snapshot has thousands of values."""
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        return _Kind.OPTIONAL, next(one for one in typing.get_args(hint) if one not in (Missing, type(None)))
    if origin is tuple:
        return _Kind.LIST, typing.get_args(hint)[0]
    if origin is dict:
        return _Kind.TABLE, typing.get_args(hint)[1]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _Kind.ENUM, None
    return (_Kind.RECORD if is_record_type(hint) else _Kind.SCALAR), None


def _decode_optional(hint: Any, inner: Any, value: Any, path: str) -> Any:
    if value is None:
        if type(None) in typing.get_args(hint):
            return None
        raise DecodeError(f"{path}: null is not allowed here")
    if isinstance(value, Mapping) and "missing" in value and Missing in typing.get_args(hint):
        return _decode_missing(value, path)
    return decode(inner, value, path)


def _decode_missing(value: Mapping[str, Any], path: str) -> Missing:
    why = decode(Why, value["missing"], f"{path}.missing")
    return Missing(why, bounded(str(value.get("reason", ""))), bounded(str(value.get("evidence", ""))))


def _decode_record(cls: type[Any], value: Any, path: str) -> Any:
    if not isinstance(value, Mapping):
        raise DecodeError(f"{path or cls.__name__}: a table was expected, found {_show(value)}")
    hints = _hints(typing.cast(Hashable, cls))
    known = {name: decode(hints[name], item, f"{path}.{name}".lstrip(".")) for name, item in value.items() if name in hints}
    try:
        return cls(**known)
    except TypeError:
        needed = [f.name for f in fields(cls) if f.name not in known]
        raise DecodeError(f"{path or cls.__name__}: {', '.join(needed)} missing") from None


LARGEST = 1 << 63  # no counter of a machine goes further
LONGEST = 1 << 15  # characters: more than any probe or agent of ours keeps of a text


def bounded(text: str, limit: int = LONGEST) -> str:
    """A text that may be a stranger's: where it is too long its beginning and its end, so that no report repeats it many times over."""
    half = limit // 2
    return text if len(text) <= limit else f"{text[:half]} … {text[-half:]}"


MOST_ENTRIES = 20_000  # an environment has a thousand distributions; as a record, three bytes of a stranger's take 200


def bounded_within(value: Any) -> Any:
    """The same for what has no type of its own."""
    if isinstance(value, str):
        return bounded(value)
    if isinstance(value, list | tuple | Mapping) and len(value) > MOST_ENTRIES:
        raise DecodeError(f"a list of more than {MOST_ENTRIES} entries")
    if isinstance(value, list | tuple):
        return type(value)(map(bounded_within, value))
    if isinstance(value, Mapping):
        return {bounded(str(key)): bounded_within(one) for key, one in value.items()}
    return value


def _decode_scalar(hint: Any, value: Any, path: str) -> Any:
    if isinstance(value, int | float) and not -LARGEST <= value <= LARGEST:  # NaN is in no order
        raise DecodeError(f"{path}: a number of this world was expected, found {_show_number(value)}")
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is Any or hint is object:
        return bounded_within(value)
    if isinstance(value, bool) and hint is not bool:
        raise DecodeError(f"{path}: {hint.__name__} was expected, found {_show(value)}")
    if not isinstance(value, hint):
        raise DecodeError(f"{path}: {hint.__name__} was expected, found {_show(value)}")
    return bounded(value) if isinstance(value, str) else value


def _show_number(value: float) -> str:
    return "one of hundreds of digits" if isinstance(value, int) and value.bit_length() > 400 else _show(value)


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def decode_snapshot(value: Mapping[str, Any]) -> Snapshot:
    """A snapshot from the `facts` (and `live`) of a recording."""
    return typing.cast(Snapshot, _decode_record(Snapshot, value, ""))


def check_path(path: str) -> Any:
    """The type of what a snapshot can hold at this dotted path, else DecodeError; list indices and dict keys are not looked at."""
    hint: Any = Snapshot
    for part in path.split("."):
        if is_record_type(hint):
            hints = _hints(typing.cast(Hashable, hint))
            if part not in hints:
                raise DecodeError(f"{part}: no such fact; known here: {', '.join(hints)}")
            hint = hints[part]
        elif typing.get_origin(hint) in (tuple, dict):
            hint = typing.get_args(hint)[0 if typing.get_origin(hint) is tuple else 1]
        else:
            raise DecodeError(f"{path}: nothing below {part!r}")
        if typing.get_origin(hint) in (types.UnionType, typing.Union):
            hint = next(option for option in typing.get_args(hint) if option not in (Missing, type(None)))
    return hint


def edit(node: T, path: str, value: Any) -> T:
    """A copy of a tree of records with the field at a dotted path set from a JSON value.

    Path parts are field names, list indices and dict keys. A `Missing` section on the way is
    replaced by an empty one, so that an assumption can be made about what was not read.
    """
    head, _, rest = path.partition(".")
    hints = _hints(typing.cast(Hashable, type(node)))
    if head not in hints:
        raise DecodeError(f"{path}: no such fact; known here: {', '.join(hints)}")
    return replace(node, **{head: _edited(hints[head], getattr(node, head), rest, value, path)})  # type: ignore[type-var]


def _edited(hint: Any, current: Any, rest: str, value: Any, path: str) -> Any:
    if not rest:
        return decode(hint, value, path)
    head, _, tail = rest.partition(".")
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        inner = next(option for option in typing.get_args(hint) if option not in (Missing, type(None)))
        if current is None or isinstance(current, Missing):
            current = inner() if is_record_type(inner) else None
        hint = inner
    if isinstance(current, tuple):
        item = typing.get_args(hint)[0]
        if not head.isdecimal() or int(head) >= len(current):
            raise DecodeError(f"{path}: there are {len(current)} entries")
        at = int(head)
        return (*current[:at], _edited(item, current[at], tail, value, path), *current[at + 1 :])
    if isinstance(current, dict):
        return {**current, head: decode(typing.get_args(hint)[1], value, path)}
    if is_record(current):
        return edit(current, rest, value)
    raise DecodeError(f"{path}: nothing below {rest!r}")
