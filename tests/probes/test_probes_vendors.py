"""AMD, Intel and Apple, and the variables that hide devices."""

from __future__ import annotations

import pytest
from machines import NAMES, linux, machine

from envcheck.facts.snapshot import Missing, MpsFacts, RocmFacts, VisibilityFacts, Why, XpuFacts
from envcheck.probes import mps, rocm, visibility, xpu


def test_mi300x() -> None:
    assert rocm.probe(machine("mi300x")) == RocmFacts(
        version="6.4.1",
        gfx=("gfx942", "gfx942", "gfx1100"),  # in the order of the nodes: 10 comes after 2
        names=("AMD Instinct MI300X OAM", "Aqua Vanjaram [Instinct MI300X]"),
        kfd=True,
        kfd_access=False,
        render_access=False,  # renderD128 may be opened, renderD136 may not
        groups=("train", "1001"),
        driver_loaded=True,
        driver_version="6.12.12",
        gfx_override="11.0.0",
    )


def test_render_access_needs_every_node() -> None:
    folder = "/sys/bus/pci/devices/0000:05:00.0"
    other = folder.replace("0000:05", "0000:15")
    nodes = {f"listdir {folder}/drm": ["card1", "renderD128"], f"listdir {other}/drm": ["card2", "renderD136"]}
    for second, expected in ((True, True), (False, False)):
        found = rocm.probe(machine("mi300x", {**nodes, "access rw /dev/dri/renderD136": second}))
        assert isinstance(found, RocmFacts) and found.render_access is expected


@pytest.mark.parametrize(
    ("number", "name"),
    [
        ("90402", "gfx942"), ("90010", "gfx90a"), ("90008", "gfx908"), ("110000", "gfx1100"), ("110501", "gfx1151"),
        ("120001", "gfx1201"), ("100300", "gfx1030"), ("0", None), ("-1", None), ("x", None), ("²", None), ("99999999", None),
    ],
)  # fmt: skip
def test_gfx_names(number: str, name: str | None) -> None:
    assert rocm.gfx_name(number) == name


def test_rocm_without_a_gpu_and_a_gpu_without_rocm() -> None:
    software = rocm.probe(linux({"read /opt/rocm/.info/version": "6.2.4-120\n"}))
    assert isinstance(software, RocmFacts) and (software.version, software.kfd, software.driver_loaded) == ("6.2.4", False, False)
    elsewhere = rocm.probe(linux({"read /sw/rocm/.info/version": "7.0.0\n"}, {"ROCM_PATH": "/sw/rocm"}))
    assert isinstance(elsewhere, RocmFacts) and elsewhere.version == "7.0.0"
    found = rocm.probe(machine("mi300x", {"read /opt/rocm/.info/version": None, "exists /dev/kfd": False}))
    assert isinstance(found, RocmFacts) and (found.version, found.kfd, found.kfd_access) == (None, False, None)


def test_arc() -> None:
    assert xpu.probe(machine("arc-b580")) == XpuFacts(
        names=("8086:7d67", "Battlemage G21 [Arc B580]"),
        driver="i915",
        level_zero="/usr/lib/x86_64-linux-gnu/libze_loader.so.1.21.9",
        compute_runtime="1.6.33578",
        render_access=True,
    )


def test_level_zero_by_library_path() -> None:
    found = xpu.probe(machine("arc-b580", {"exists /opt/ze/libze_loader.so.1": True}, {"LD_LIBRARY_PATH": ":/opt/ze"}))
    assert isinstance(found, XpuFacts) and found.level_zero == "/opt/ze/libze_loader.so.1"


def test_macs() -> None:
    assert mps.probe(machine("mac-m2")) == MpsFacts(macos="14.5", chip="Apple M2 Pro", apple_silicon=True, rosetta=False)
    assert mps.probe(machine("mac-intel")) == MpsFacts(
        macos="13.6.7", chip="Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz", apple_silicon=False, rosetta=False
    )
    translated = mps.probe(machine("mac-m2", {"platform": {"system": "Darwin", "machine": "x86_64"}}))
    assert isinstance(translated, MpsFacts) and translated.rosetta is True and translated.apple_silicon is True


def test_sysctl_that_fails() -> None:
    from envcheck.host.recording import ReplayHost

    found = mps.probe(ReplayHost({"platform": {"system": "Darwin", "machine": "arm64"}}))
    assert isinstance(found, Missing) and found.why is Why.FAILED


@pytest.mark.parametrize("name", NAMES)
def test_absent_elsewhere(name: str) -> None:
    for probe, only in ((rocm.probe, {"mi300x"}), (xpu.probe, {"arc-b580"}), (mps.probe, {"mac-m2", "mac-intel"})):
        found = probe(machine(name))
        assert (name in only) != (isinstance(found, Missing) and found.why is Why.ABSENT)


def test_visibility() -> None:
    assert visibility.probe(linux()) == VisibilityFacts()
    env = {"CUDA_VISIBLE_DEVICES": "", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "HIP_VISIBLE_DEVICES": "0", "ZE_AFFINITY_MASK": "0.1"}
    assert visibility.probe(linux({}, env)) == VisibilityFacts(
        cuda_visible_devices="", cuda_device_order="PCI_BUS_ID", hip_visible_devices="0", ze_affinity_mask="0.1"
    )
