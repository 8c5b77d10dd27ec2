"""The conditions of the rules, one module a family. A check reads facts and tables, never the machine."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from envcheck.engine.rule import Check, RuleTexts
from envcheck.tables.folders import rules_folder

# In the order in which verdicts are listed. What a rule of `meta` says rests on the others, so these come last.
_MODULES = (
    "driver", "driver_tools", "libcuda", "container", "visibility", "gpu", "gpu_count", "gpu_health", "gpu_memory", "vendor", "limits",
    "torch_build", "torch_import", "torch_libraries", "foreign_wheels", "numpy_abi", "torch_files", "requirements", "packages",
    "companions", "toolkit", "ranks", "launch", "fleet_seat", "fleet_presence", "fleet_links", "fleet_world", "fleet_drift",
    "python_mismatch", "comm", "warned", "live",
)  # fmt: skip


def all_checks(rules: Iterable[str] | None = None, own: Iterable[Check] = ()) -> tuple[Check, ...]:
    """Every check, in the order in which verdicts are listed. `rules` are the ids that have a text; those without a function here
    pass a message on. `own` are those of a site."""
    from envcheck.checks import passed_on, warned

    checks, last = [*(warned.or_warned(check) for name in _MODULES for check in _own(name)), *own], _own("meta")
    known = {check.id for check in (*checks, *last)}
    rules = RuleTexts((rules_folder(),)).ids if rules is None else rules
    messages = [passed_on.passed_on(rule) for rule in rules if rule not in known]
    return (*checks, *messages, *last)


def _own(name: str) -> list[Check]:
    """The checks of a module in their order, without those that it imports."""
    module = import_module(f"envcheck.checks.{name}")
    return [one for one in vars(module).values() if isinstance(one, Check) and one.function.__module__ == module.__name__]
