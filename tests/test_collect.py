"""What follows from several sections of one snapshot: `settle`."""

from __future__ import annotations

from envcheck.collect import settle
from envcheck.facts.snapshot import Gpu, GpusFacts, Snapshot
from envcheck.report.session import rule_session


def test_a_product_name_fills_in_a_capability_and_never_overrules_one() -> None:
    """A part of a family may differ from its namesakes: what the driver says of it counts."""
    gpus = (
        Gpu(0, name="NVIDIA H100 80GB HBM3", compute_capability="9.1", compute_capability_source="NVML"),
        Gpu(1, name="NVIDIA H100 80GB HBM3"),
        Gpu(2, name="A board that no table knows"),
        Gpu(3),
    )
    found = settle(Snapshot(gpus=GpusFacts(gpus)), rule_session()).gpus
    assert isinstance(found, GpusFacts)
    assert [(gpu.compute_capability, gpu.compute_capability_source) for gpu in found.devices] == [
        ("9.1", "NVML"),
        ("9.0", "table"),
        (None, gpus[2].compute_capability_source),
        (None, gpus[3].compute_capability_source),
    ]
