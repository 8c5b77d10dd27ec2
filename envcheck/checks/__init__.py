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
        half_supported,
        launch,
        libcuda,
        limits,
        live,
        meta,
        numpy_abi,
        packages,
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

    return (
        *driver.CHECKS,
        *driver_tools.CHECKS,
        *libcuda.CHECKS,
        *container.CHECKS,
        *visibility.CHECKS,
        *gpu.CHECKS,
        *gpu_count.CHECKS,
        *gpu_health.CHECKS,
        *vendor.CHECKS,
        *limits.CHECKS,
        *torch_build.CHECKS,
        *torch_import.CHECKS,
        *torch_libraries.CHECKS,
        *numpy_abi.CHECKS,
        *torch_files.CHECKS,
        *requirements.CHECKS,
        *packages.CHECKS,
        *companions.CHECKS,
        *toolkit.CHECKS,
        *ranks.CHECKS,
        *launch.CHECKS,
        *half_supported.CHECKS,
        *comm.CHECKS,
        *live.CHECKS,
        *meta.CHECKS,
    )
