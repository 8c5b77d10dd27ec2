"""The NVIDIA driver and its GPUs, from the kernel, NVML and nvidia-smi side by side.

Each source has its own deadline and none is believed alone: `readings` keeps what each said. NVML runs in a child
because it can hang (a GPU that is being reset) or crash (a library of another version).

This module looks for signs of a driver; only where there is one are the modules that ask it imported.
"""

from __future__ import annotations

from envcheck.facts.snapshot import DriverFacts, GpusFacts, Missing, Why
from envcheck.host.access import Host
from envcheck.probes.driver_signs import look


def probe_driver(host: Host, budget_seconds: float = 20.0) -> tuple[DriverFacts | Missing, GpusFacts | Missing]:
    """Driver and GPUs in at most `budget_seconds`."""
    signs = look(host)
    if not signs.any:
        missing = Missing(Why.ABSENT, "no sign of an NVIDIA driver", "nouveau is loaded" if signs.nouveau else "")
        return missing, missing
    from envcheck.probes.driver_answers import ask

    return ask(host, signs, budget_seconds)
