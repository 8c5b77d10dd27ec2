"""Frozen dataclasses that are cheap to define.

`dataclass(frozen=True)` compiles five functions a class, about 2 ms; the dozens of record types of this package would cost
more than everything else at start-up. Here the methods are shared by all classes, so that a class costs a tenth of that.
They are dataclasses to `fields`, `replace`, `is_dataclass`, `match` and mypy.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, FrozenInstanceError
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform

    @dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
    def record(cls: type[T]) -> type[T]: ...

else:

    def record(cls):
        """Class decorator: the same as `dataclasses.dataclass(frozen=True)`, without inheritance and __post_init__."""
        cls.__doc__ = cls.__doc__ or cls.__name__  # else dataclass() imports inspect to make one up
        made = dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
        for name, method in _METHODS.items():
            if name not in cls.__dict__:
                setattr(made, name, method)
        return made


def _init(self: Any, *values: Any, **named: Any) -> None:
    fields = type(self).__dataclass_fields__
    state = self.__dict__
    if len(values) > len(fields):
        raise TypeError(f"{type(self).__name__} takes {len(fields)} values, {len(values)} were given")
    for name, value in zip(fields, values):  # noqa: B905  # shorter on purpose: the rest is named
        state[name] = value
    for name, value in named.items():
        if name not in fields or name in state:
            raise TypeError(f"{type(self).__name__}: {name} is {'given twice' if name in fields else 'no field'}")
        state[name] = value
    if len(state) == len(fields):
        return
    missing = []
    for name, field in fields.items():
        if name in state:
            continue
        if field.default is not MISSING:
            state[name] = field.default
        elif field.default_factory is not MISSING:
            state[name] = field.default_factory()
        else:
            missing.append(name)
    if missing:
        raise TypeError(f"{type(self).__name__}: {', '.join(missing)} missing")


def _state(self: Any) -> tuple[Any, ...]:
    return tuple(self.__dict__[name] for name in type(self).__dataclass_fields__)


def _eq(self: Any, other: object) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return _state(self) == _state(other)


def _hash(self: Any) -> int:
    return hash(_state(self))


def _repr(self: Any) -> str:
    return f"{type(self).__qualname__}({', '.join(f'{name}={self.__dict__[name]!r}' for name in type(self).__dataclass_fields__)})"


def _setattr(self: Any, name: str, value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


_METHODS = {"__init__": _init, "__eq__": _eq, "__hash__": _hash, "__repr__": _repr, "__setattr__": _setattr, "__delattr__": _delattr}
