"""Observations of a person: what is stated is a fact, what is not stays open, prose is evidence."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.facts.snapshot import LauncherFacts, Missing, NetworkFacts, PythonFacts, Snapshot, VisibilityFacts, Why
from envcheck.read.merge import merge
from envcheck.read.observations import _KEYS, as_lines, read_observations
from envcheck.tables.compat import Tables
from envcheck.tables.folders import rules_folder

TABLES = Tables((rules_folder("compat"),))


def snapshot(**values: Any) -> Snapshot:
    return merge([("facts", read_observations(values))], (), TABLES).snapshot


def test_what_nobody_states_is_not_read() -> None:
    made = snapshot(os="Ubuntu 22.04")
    for name in ("driver", "gpus", "torch", "devices", "container", "packages", "visibility", "launcher"):
        section = getattr(made, name)
        assert isinstance(section, Missing)
        assert (section.why, section.reason) == (Why.SKIPPED, "not stated")


def test_gpus_with_and_without_capability() -> None:
    made = snapshot(gpus=[{"name": "NVIDIA GeForce RTX 4090"}, {"name": "x", "cc": "9.0"}])
    assert not isinstance(made.gpus, Missing)
    assert [(gpu.compute_capability, gpu.compute_capability_source) for gpu in made.gpus.devices] == [("8.9", "table"), ("9.0", None)]


def test_gpu_count_multiplies_one_gpu() -> None:
    made = snapshot(gpus=[{"name": "Tesla T4", "cc": "7.5"}], gpu_count=4)
    assert not isinstance(made.gpus, Missing)
    assert [gpu.index for gpu in made.gpus.devices] == [0, 1, 2, 3]


def test_more_digits_than_python_reads() -> None:
    """As a text: a number of so many the parsers of TOML and JSON refuse themselves."""
    many = "9" * 5000
    for value in (many, [many], {"RANK": many, "name": many, "cc": many}, f"{many}.0"):
        snapshot(**dict.fromkeys(_KEYS, value))


def test_none_means_absent() -> None:
    made = snapshot(torch="not installed", driver="none", container=False)
    for name in ("torch", "driver", "container"):
        assert isinstance(getattr(made, name), Missing)
        assert getattr(made, name).why is Why.ABSENT


def test_torch_cuda_none_is_a_cpu_build_unless_it_is_rocm() -> None:
    assert snapshot(torch="2.3.1", torch_cuda="none").torch.cpu_build is True  # type: ignore[union-attr]
    assert snapshot(torch="2.3.1", torch_cuda="none", hip="6.0").torch.cpu_build is False  # type: ignore[union-attr]


@pytest.mark.parametrize("driver", ["570", "535 or so", "latest", True])
def test_a_branch_is_no_driver_version(driver: object) -> None:
    assert isinstance(snapshot(driver=driver).driver, Missing)


def test_prose_in_a_variable_is_not_its_value() -> None:
    made = snapshot(
        env={
            "CUDA_VISIBLE_DEVICES": "2 (set in code)",
            "NCCL_SOCKET_IFNAME": "eth0",
            "GLOO_SOCKET_IFNAME": "eth0 (head shell only)",
            "CUDA_DEVICE_ORDER": "unset",
        }
    )
    assert made.visibility.cuda_visible_devices is None  # type: ignore[union-attr]
    assert made.network.variables == {"NCCL_SOCKET_IFNAME": "eth0"}  # type: ignore[union-attr]


def test_an_empty_variable_is_not_an_unset_one() -> None:
    assert snapshot(env={"CUDA_VISIBLE_DEVICES": ""}).visibility.cuda_visible_devices == ""  # type: ignore[union-attr]


def test_a_variable_that_is_stated_to_be_unset_has_no_value() -> None:
    names = ("CUDA_VISIBLE_DEVICES", "NCCL_P2P_DISABLE", "MASTER_PORT", "PYTHONPATH")
    facts = snapshot(env=dict.fromkeys(names, "unset"))
    assert isinstance(facts.visibility, VisibilityFacts) and facts.visibility.cuda_visible_devices is None
    assert isinstance(facts.network, NetworkFacts) and facts.network.variables == {}
    assert isinstance(facts.launcher, LauncherFacts) and (facts.launcher.variables, facts.launcher.master_port) == ({}, None)
    assert isinstance(facts.python, PythonFacts) and facts.python.variables == {}


def test_selected_devices_are_worked_out() -> None:
    made = snapshot(gpu_count=2, gpus=[{"name": "Tesla T4"}], env={"CUDA_VISIBLE_DEVICES": "1"})
    assert made.visibility.selected == (1,)  # type: ignore[union-attr]


def test_the_size_of_shared_memory_is_read_as_df_prints_it() -> None:
    for stated in ("64M", "64 MB", "64MiB"):
        assert snapshot(shm=stated).limits.shm_bytes == 64 << 20  # type: ignore[union-attr]
    assert snapshot(dev_shm="8g").limits.shm_bytes == 8 << 30  # type: ignore[union-attr]


def test_a_count_belongs_to_the_vendor_of_the_card() -> None:
    made = snapshot(gpus=[{"name": "AMD Instinct MI100"}], gpu_count=2)
    assert made.rocm.names == ("AMD Instinct MI100",) * 2  # type: ignore[union-attr]
    assert isinstance(made.gpus, Missing)


def test_limits_are_in_the_units_of_ulimit() -> None:
    made = snapshot(ulimit_l="64", ulimit_n="1024")
    assert (made.limits.memlock_soft_bytes, made.limits.open_files_soft) == (65536, 1024)  # type: ignore[union-attr]
    assert snapshot(ulimit_l="unlimited").limits.memlock_soft_bytes is None  # type: ignore[union-attr]


def test_driver_from_module_and_libraries() -> None:
    made = snapshot(driver_module="570.124.06", driver_userspace="570.133.07")
    assert (made.driver.version, made.driver.library_version) == ("570.124.06", "570.133.07")  # type: ignore[union-attr]


def test_amd_and_intel_are_not_nvidia() -> None:
    made = snapshot(gpu_vendor="AMD", gpus=[{"name": "Radeon RX 6700S", "gfx": "gfx1032"}])
    assert (made.rocm.names, made.rocm.gfx) == (("Radeon RX 6700S",), ("gfx1032",))  # type: ignore[union-attr]
    assert isinstance(made.gpus, Missing)


def test_unknown_keys_are_evidence() -> None:
    found = read_observations({"bios": "1.2", "smi_ok": True})
    assert {(fact.path, fact.value) for fact in found.facts} == {("other.bios", "1.2"), ("other.smi_ok", "true")}


def test_as_lines() -> None:
    assert (
        as_lines({"after_suspend": True, "env": {"A": "b"}, "x": None, "list": [1, "two"]})
        == "after_suspend = true\nenv = A: b\nx = none\nlist = 1, two"
    )


def test_two_sources_that_differ_are_reported() -> None:
    from envcheck.read.identify import read_text

    found = [
        ("facts", read_observations({"driver": "580.95.05"})),
        *(("report", one) for one in read_text("PyTorch version: 2.9.0\nNvidia driver version: 570.124.06\n")),
    ]
    merged = merge(found, (), TABLES)
    assert merged.snapshot.driver.version == "580.95.05"  # type: ignore[union-attr]
    assert len(merged.conflicts) == 1


def test_the_fuller_version_wins() -> None:
    from envcheck.read.identify import read_text

    found = [("facts", read_observations({"torch": "2.1.0"})), *(("report", one) for one in read_text("PyTorch version: 2.1.0+cu121\n"))]
    assert merge(found, (), TABLES).snapshot.torch.version == "2.1.0+cu121"  # type: ignore[union-attr]


KEYS = (
    "os",
    "arch",
    "glibc",
    "python",
    "installer",
    "container",
    "wsl",
    "platform",
    "torch",
    "torch_cuda",
    "hip",
    "arch_list",
    "cuda_available",
    "driver",
    "driver_cuda",
    "smi_cuda",
    "nvcc",
    "gpus",
    "gpu_count",
    "gpu_vendor",
    "nccl",
    "cudnn",
    "env",
    "packages",
    "scheduler",
    "nodes",
    "mig",
    "fabric_manager",
    "cpu_flags_missing",
    "ulimit_l",
    "ulimit_n",
    "devices",
    "xid",
    "iommu",
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=6) | st.sampled_from(("name", "cc", "gfx", "CUDA_VISIBLE_DEVICES", "/dev/kfd")), inner, max_size=3
        )
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=8), VALUES, max_size=8))
def test_no_observation_raises(values: dict[str, Any]) -> None:
    assert snapshot(**values).live
    assert isinstance(as_lines(values), str)
