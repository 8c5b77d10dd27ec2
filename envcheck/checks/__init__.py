"""The conditions of the rules, one module a family. A check reads facts and tables, never the machine."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType

from envcheck.engine.rule import Check, RuleTexts
from envcheck.tables.folders import rules_folder


def all_checks(rules: Iterable[str] | None = None) -> tuple[Check, ...]:
    """Every check, in the order in which verdicts are listed. `rules` are the ids that have a text; those without a function here
    pass a message on."""
    from envcheck.checks import (
        comm,
        companions,
        container,
        driver,
        driver_tools,
        foreign_wheels,
        gpu,
        gpu_count,
        gpu_health,
        launch,
        libcuda,
        limits,
        live,
        meta,
        numpy_abi,
        packages,
        passed_on,
        python_mismatch,
        ranks,
        requirements,
        toolkit,
        torch_build,
        torch_files,
        torch_import,
        torch_libraries,
        vendor,
        visibility,
        warned,
    )

    modules = (
        driver, driver_tools, libcuda, container, visibility, gpu, gpu_count, gpu_health, vendor, limits,
        torch_build, torch_import, torch_libraries, foreign_wheels, numpy_abi, torch_files, requirements, packages,
        companions, toolkit, ranks, launch, python_mismatch, comm, warned, live,
    )  # fmt: skip
    checks, last = [warned.or_warned(check) for module in modules for check in _own(module)], _own(meta)
    known = {check.id for check in (*checks, *last)}
    rules = RuleTexts((rules_folder(),)).ids if rules is None else rules
    messages = [passed_on.passed_on(rule) for rule in rules if rule not in known]
    return (*checks, *messages, *last)


def _own(module: ModuleType) -> list[Check]:
    """The checks of a module in their order, without those that it imports."""
    return [one for one in vars(module).values() if isinstance(one, Check) and one.function.__module__ == module.__name__]
