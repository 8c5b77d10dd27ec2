"""The conditions of the rules, one module a family. A check reads facts and tables, never the machine."""

from __future__ import annotations

from envcheck.rule import Check


def all_checks() -> tuple[Check, ...]:
    """Every check, in the order in which verdicts are listed."""
    from envcheck.checks import (
        comm,
        driver,
        driver_tools,
        gpu,
        gpu_health,
        launch,
        libcuda,
        live,
        meta,
        packages,
        toolkit,
        torch_build,
        torch_import,
    )

    return (
        *driver.CHECKS,
        *driver_tools.CHECKS,
        *libcuda.CHECKS,
        *gpu.CHECKS,
        *gpu_health.CHECKS,
        *torch_build.CHECKS,
        *torch_import.CHECKS,
        *packages.CHECKS,
        *toolkit.CHECKS,
        *launch.CHECKS,
        *comm.CHECKS,
        *live.CHECKS,
        *meta.CHECKS,
    )
