"""Record types that cost little to define and to import.

`dataclass(frozen=True)` compiles five functions a class, about 2 ms, and `import dataclasses` brings `inspect` and `ast`: for the
hundred records of this package more than everything else at start-up. Here the methods are shared by all classes.
To mypy records are dataclasses, and `field`, `fields` and `replace` are those of the standard library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import field as field
    from dataclasses import fields as fields
    from dataclasses import replace as replace
    from typing import TypeGuard

    from typing_extensions import dataclass_transform

    @dataclass_transform(frozen_default=True, field_specifiers=(field,))
    def record(cls: type[T]) -> type[T]: ...

    @dataclass_transform(eq_default=False, field_specifiers=(field,))
    def mutable(cls: type[T]) -> type[T]: ...

else:

    def field(*, default_factory):
        """A field whose default is made anew for each record."""
        return _Field(None, default_factory)

    def record(cls):
        """Class decorator: the same as `dataclasses.dataclass(frozen=True)`, without inheritance and __post_init__."""
        return _made(cls, _FROZEN)

    def mutable(cls):
        """Class decorator: the same as `dataclasses.dataclass(eq=False)`, without inheritance and __post_init__."""
        return _made(cls, _MUTABLE)

    def fields(record):
        """The fields of a record or of its class, in order; each has a `name`."""
        return tuple(_Field(name) for name in record.__record_fields__)

    def replace(record, **changes):
        """A copy with other values for some fields. TypeError for a name that is no field."""
        state = record.__dict__
        return type(record)(**{**{name: state[name] for name in record.__record_fields__}, **changes})


_REQUIRED = object()


class _Field:
    """A field by its name, or, as the default of one, what makes its value."""

    __slots__ = ("factory", "name")

    def __init__(self, name: str | None = None, factory: Callable[[], Any] | None = None) -> None:
        self.name = name
        self.factory = factory


def is_record(value: object) -> TypeGuard[Any]:
    """Whether this is a record (not its class)."""
    return hasattr(type(value), "__record_fields__")


def is_record_type(value: object) -> TypeGuard[type[Any]]:
    return isinstance(value, type) and hasattr(value, "__record_fields__")


def _made(cls: Any, methods: dict[str, Any]) -> Any:
    defaults: dict[str, Any] = {}
    for name in cls.__annotations__:
        default = cls.__dict__.get(name, _REQUIRED)
        if isinstance(default, _Field):
            delattr(cls, name)
        defaults[name] = default
    cls.__record_fields__ = defaults
    cls.__match_args__ = tuple(defaults)  # type: ignore[misc]  # final to mypy, on any class
    for name, method in methods.items():
        if name not in cls.__dict__:
            setattr(cls, name, method)
    return cls


def _init(self: Any, *values: Any, **named: Any) -> None:
    defaults = type(self).__record_fields__
    state = self.__dict__
    if values:
        state.update(zip(defaults, values))  # noqa: B905  # shorter on purpose: the rest is named
    state.update(named)
    if len(state) != len(values) + len(named):
        raise _misfit(self, values, named)
    if len(state) == len(defaults) and state.keys() == defaults.keys():
        return
    for name, default in defaults.items():
        if name not in state:
            if default is _REQUIRED:
                raise _misfit(self, values, named)
            state[name] = default.factory() if isinstance(default, _Field) and default.factory else default
    if len(state) != len(defaults):
        raise _misfit(self, values, named)


def _misfit(self: Any, values: tuple[Any, ...], named: dict[str, Any]) -> TypeError:
    """Why these values do not make this record."""
    defaults, name = type(self).__record_fields__, type(self).__name__
    if len(values) > len(defaults):
        return TypeError(f"{name} takes {len(defaults)} values, {len(values)} were given")
    given = tuple(defaults)[: len(values)]
    unknown = [one for one in named if one not in defaults]
    twice = [one for one in given if one in named]
    missing = [one for one, default in defaults.items() if default is _REQUIRED and one not in named and one not in given]
    if unknown:
        return TypeError(f"{name}: {', '.join(unknown)} is no field")
    return TypeError(f"{name}: {', '.join(twice)} is given twice" if twice else f"{name}: {', '.join(missing)} missing")


def _state(self: Any) -> tuple[Any, ...]:
    return tuple(self.__dict__[name] for name in type(self).__record_fields__)


def _eq(self: Any, other: object) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return _state(self) == _state(other)


def _hash(self: Any) -> int:
    return hash(_state(self))


def _repr(self: Any) -> str:
    return f"{type(self).__qualname__}({', '.join(f'{name}={self.__dict__[name]!r}' for name in type(self).__record_fields__)})"


def _setattr(self: Any, name: str, value: Any) -> None:
    raise AttributeError(f"cannot assign to field {name!r}")


def _delattr(self: Any, name: str) -> None:
    raise AttributeError(f"cannot delete field {name!r}")


_MUTABLE = {"__init__": _init, "__repr__": _repr}
_FROZEN = {**_MUTABLE, "__eq__": _eq, "__hash__": _hash, "__setattr__": _setattr, "__delattr__": _delattr}
