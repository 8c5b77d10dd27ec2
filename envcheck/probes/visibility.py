"""The variables that hide devices, as they are. What they come to is worked out in envcheck.visible once the GPUs are known."""

from __future__ import annotations

from envcheck.facts import Missing, VisibilityFacts
from envcheck.host import Host


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
