"""The conditions of the rules, one module a family. A check reads facts and tables, never the machine."""

from __future__ import annotations

from envcheck.engine.rule import Check


def all_checks() -> tuple[Check, ...]:
    """Every check, in the order in which verdicts are listed."""
    from envcheck.checks import (
        comm,
        companions,
        container,
        driver,
        driver_tools,
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
    )

    modules = (
        driver, driver_tools, libcuda, container, visibility, gpu, gpu_count, gpu_health, vendor, limits,
        torch_build, torch_import, torch_libraries, numpy_abi, torch_files, requirements, packages,
        companions, toolkit, ranks, launch, python_mismatch, comm, live, meta,
    )  # fmt: skip
    return tuple(one for module in modules for one in vars(module).values() if _is_own(one, module.__name__))


def _is_own(one: object, module: str) -> bool:
    """A check of this module, and not one that it imports."""
    return isinstance(one, Check) and one.function.__module__ == module
