"""CUDA_VISIBLE_DEVICES and its relatives, as they are set; their meaning is worked out once the GPUs are known."""

from __future__ import annotations

from envcheck.facts.snapshot import Missing, VisibilityFacts
from envcheck.host.access import Host


def probe(host: Host) -> VisibilityFacts | Missing:
    env = host.env
    return VisibilityFacts(
        cuda_visible_devices=env.get("CUDA_VISIBLE_DEVICES"),
        cuda_device_order=env.get("CUDA_DEVICE_ORDER"),
        nvidia_visible_devices=env.get("NVIDIA_VISIBLE_DEVICES"),
        hip_visible_devices=env.get("HIP_VISIBLE_DEVICES"),
        rocr_visible_devices=env.get("ROCR_VISIBLE_DEVICES"),
        ze_affinity_mask=env.get("ZE_AFFINITY_MASK"),
    )
