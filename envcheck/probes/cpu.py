"""/proc/cpuinfo: model, vendor, and the instruction sets that wheels are built for."""

from __future__ import annotations

from typing import NamedTuple

# What torch, its BLAS and its companions choose code by (torch/backends/cpu, oneDNN's CPU dispatch).
INTERESTING = frozenset((
    "sse4_2", "popcnt", "avx", "avx2", "fma", "f16c", "bmi2", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16",
    "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8", "asimd", "asimdhp", "asimddp", "bf16", "i8mm", "sve", "sve2", "svebf16",
))  # fmt: skip
# Implementer and part of the MIDR register, as util-linux's lscpu-arm.c names them.
ARM = {
    "0x41": ("ARM", {
        "0xd03": "Cortex-A53", "0xd07": "Cortex-A57", "0xd08": "Cortex-A72", "0xd0b": "Cortex-A76", "0xd0c": "Neoverse-N1",
        "0xd40": "Neoverse-V1", "0xd42": "Cortex-A78AE", "0xd49": "Neoverse-N2", "0xd4f": "Neoverse-V2", "0xd83": "Neoverse-V3AE",
        "0xd84": "Neoverse-V3", "0xd85": "Cortex-X925", "0xd87": "Cortex-A725", "0xd8e": "Neoverse-N3",
    }),
    "0x4e": ("NVIDIA", {"0x003": "Denver 2", "0x004": "Carmel", "0x010": "Olympus"}),
    "0xc0": ("Ampere", {"0xac3": "Ampere-1", "0xac4": "Ampere-1a"}),
    "0x48": ("HiSilicon", {"0xd01": "Kunpeng-920"}),
    "0x43": ("Cavium", {"0x0af": "ThunderX2"}),
    "0x46": ("Fujitsu", {"0x001": "A64FX"}),
    "0x61": ("Apple", {}),
}  # fmt: skip


class Cpu(NamedTuple):
    model: str | None = None
    vendor: str | None = None
    flags: tuple[str, ...] = ()  # the interesting ones
    flags_read: bool = False
    hypervisor: bool = False


def parse_cpuinfo(text: str | None) -> Cpu:
    """The first processor of x86, Arm or POWER.

    vendor_id	: GenuineIntel          CPU implementer	: 0x41        cpu	: POWER9, altivec supported
    model name	: Intel(R) Xeon(R)      CPU part	: 0xd4f
    flags		: fpu vme avx avx2      Features	: fp asimd sve
    """
    first: dict[str, str] = {}
    for line in (text or "").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            first.setdefault(name.strip(), value.strip())
    words = first.get("flags") or first.get("Features")
    flags = (words or "").split()
    vendor, parts = ARM.get(first.get("CPU implementer", ""), (None, {}))
    model = first.get("model name") or parts.get(first.get("CPU part", "")) or first.get("cpu") or first.get("Model")
    return Cpu(
        model=model or None,
        vendor=first.get("vendor_id") or vendor,
        flags=tuple(flag for flag in flags if flag in INTERESTING),
        flags_read=words is not None,
        hypervisor="hypervisor" in flags,
    )
