"""Environment variables of a text, put into the sections in which the probes put them."""

from __future__ import annotations

from typing import Any

from envcheck.facts.whole_numbers import whole_number

VISIBILITY = {
    "CUDA_VISIBLE_DEVICES": "cuda_visible_devices",
    "CUDA_DEVICE_ORDER": "cuda_device_order",
    "NVIDIA_VISIBLE_DEVICES": "nvidia_visible_devices",
    "HIP_VISIBLE_DEVICES": "hip_visible_devices",
    "ROCR_VISIBLE_DEVICES": "rocr_visible_devices",
    "ZE_AFFINITY_MASK": "ze_affinity_mask",
}
NETWORK = ("NCCL_", "GLOO_", "UCX_", "FI_", "TORCH_NCCL_", "RCCL_", "TP_SOCKET")
LAUNCHER = ("SLURM_", "OMPI_", "PMI_", "PMIX_", "TORCHELASTIC_", "PET_", "JSM_", "GROUP_", "ROLE_", "LOCAL_", "MASTER_")
_RANKS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")
_CONTAINER = {
    "NVIDIA_REQUIRE_CUDA": "cuda_requirement",
    "CUDA_VERSION": "cuda_version",
    "NVIDIA_DRIVER_CAPABILITIES": "driver_capabilities",
}
_NUMBERS = {"RANK": "rank", "WORLD_SIZE": "world_size", "LOCAL_RANK": "local_rank"}


def place(name: str, value: str | None, values: dict[str, dict[str, Any]]) -> None:
    """One variable; None = known to be unset."""
    if name in VISIBILITY:
        values.setdefault("visibility", {}).setdefault(VISIBILITY[name], value)
    elif name.startswith(NETWORK) and name != "NCCL_VERSION":  # that one is a label of NVIDIA's images
        _variable("network", name, value, values)
    elif name in _RANKS or name.startswith(LAUNCHER):
        _launcher(name, value, values)
    elif name in _CONTAINER:
        if value is not None:  # labels of NVIDIA's CUDA images
            values.setdefault("container", {}).setdefault(_CONTAINER[name], value)
    elif name == "CUDA_HOME" and value:
        values.setdefault("toolkit", {}).setdefault("cuda_home", value)
        values["toolkit"].setdefault("cuda_home_source", "CUDA_HOME")
        _variable("python", name, value, values)
    elif name == "HSA_OVERRIDE_GFX_VERSION":
        values.setdefault("rocm", {}).setdefault("gfx_override", value)
    else:
        _variable("python", name, value, values)


def _variable(section: str, name: str, value: str | None, values: dict[str, dict[str, Any]]) -> None:
    kept = values.setdefault(section, {}).setdefault("variables", {})
    if value is not None:
        kept.setdefault(name, value)


def _launcher(name: str, value: str | None, values: dict[str, dict[str, Any]]) -> None:
    _variable("launcher", name, value, values)
    launcher = values["launcher"]
    if value is None:
        return
    if name in _NUMBERS and (count := whole_number(value)) is not None:
        launcher.setdefault(_NUMBERS[name], count)
    elif name == "MASTER_ADDR":
        launcher.setdefault("master_addr", value)
    elif name == "MASTER_PORT":
        launcher.setdefault("master_port", value)
    elif name.startswith("SLURM_"):
        launcher.setdefault("scheduler", "slurm")
    elif name.startswith("TORCHELASTIC_"):
        launcher.setdefault("launcher", "torchrun")
