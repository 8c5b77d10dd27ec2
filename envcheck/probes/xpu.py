"""Intel GPUs, integrated ones included, and the Level Zero runtime that torch's XPU backend goes through."""

from __future__ import annotations

from envcheck.facts.snapshot import Missing, Why, XpuFacts
from envcheck.host.access import Host
from envcheck.probes.pci import INTEL, device_name, pci_gpus, render_access

FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib", "/usr/lib/wsl/lib")


def probe(host: Host) -> XpuFacts | Missing:
    if host.platform().get("system") != "Linux":
        return Missing(Why.ABSENT, "Intel GPUs are looked for on Linux only")
    gpus = tuple(device for device in pci_gpus(host) if device.vendor == INTEL)
    if not gpus:
        return Missing(Why.ABSENT, "no Intel GPU")
    runtime = _library(host, "libze_intel_gpu.so.1")
    return XpuFacts(
        names=tuple(device_name(host, device) for device in gpus),
        driver=next((device.driver for device in gpus if device.driver), None),
        level_zero=_library(host, "libze_loader.so.1"),
        # libze_intel_gpu.so.1.6.32224
        compute_runtime=runtime.partition(".so.")[2] or runtime if runtime else None,
        render_access=render_access(host, gpus),
    )


def _library(host: Host, name: str) -> str | None:
    """The real path of a library in LD_LIBRARY_PATH or the usual folders."""
    for folder in (*filter(None, host.env.get("LD_LIBRARY_PATH", "").split(":")), *FOLDERS):
        if host.exists(f"{folder}/{name}"):
            return host.realpath(f"{folder}/{name}")
    return None
