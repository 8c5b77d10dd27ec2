"""Typed, lazy access to rules/compat.

A table answers None for what it does not hold, and for what is newer than its newest row
unless the table says `newer = "assume-newest"`. Rows carry their source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# API contract (to be implemented; callers may rely on these names and types):
#
# class Tables(folders: tuple[Path, ...])          # rules/compat, then site overlays
#   .verified -> dict[table name, datetime.date]
#   driver_floor(cuda: str, os: str = "linux") -> str | None
#       lowest driver that runs code built with this CUDA ("13.2"), by minor-version compatibility
#   driver_cuda(driver: str, os: str = "linux") -> str | None
#       newest CUDA that this driver's branch offers ("580.95.05" -> "13.0"); "assume" nothing above the newest row
#   branch(driver: str, os: str = "linux") -> int | None          # 580; Windows numbers are mapped
#   forward_compat(cuda: str, driver: str, gpu_name: str | None) -> bool | None   # may cuda-compat bridge this?
#   gpu(compute_capability: str) -> GpuRow | None
#       GpuRow: compute_capability, architecture, first_cuda, last_cuda|None, first_driver|None, last_branch|None,
#               open_module: "required" | "possible" | "impossible" | None, products: tuple[str, ...], datacenter, fabric...
#   compute_capability(product: str) -> str | None                # by exact product name
#   is_datacenter(product: str) -> bool | None                    # may use forward compatibility
#   releases() -> tuple[Release, ...]  oldest first;  release(version) -> Release | None   ("2.14.1+cu130" is looked up as "2.14.1")
#       Release: version, date, pythons: Mapping[platform, tuple[str, ...]], default_variant: Mapping[platform, str], glibc: Mapping[machine, str] ...
#   builds(version: str | None = None) -> tuple[Build, ...]
#       Build: version "2.14.1", variant "cu130", platform "linux-x86_64", cuda|None, archs: tuple[str, ...]|None ("sm_90", "compute_90"),
#              confidence "high"|"medium"|"low", source
#   build(version_with_local: str, platform: str) -> Build | None
#   companions(version: str) -> Mapping[str, str]                 # torchvision, torchaudio, ...
#   pins(version: str) -> Mapping[str, str]                       # nvidia-* and triton requirements of the default wheel
#   cuda_error(code: int) -> CudaError | None                     # name, text, sense
#   cuda_error_named(name: str) -> CudaError | None
#   nvml_error(code: int) -> str | None
#   smi_exit(code: int) -> str | None                             # meaning of nvidia-smi's exit status
#   xid(code: int) -> XidRow | None                               # name, action class, text
#   host_compiler(cuda: str) -> HostCompiler | None               # max_gcc, max_clang of nvcc
#   third_party(package: str) -> tuple[PinRow, ...]               # versions, torch specifier, python
#
# Pure functions:
#   runs_on(archs: Sequence[str], compute_capability: str) -> bool | None   # cubin and PTX rules; None if archs say nothing
#   platform_of(os, machine) -> str                               # "linux-x86_64", "windows-x86_64", "macos-arm64", "linux-aarch64"
#   cuda_of_variant("cu130") -> "13.0"; variant_of_cuda("13.0") -> "cu130"
