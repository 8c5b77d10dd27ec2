"""Names of GPUs as people, drivers and clouds write them. tests/golden/gpu_names.toml was written from the makers' own lists."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_hosts import TABLES

from envcheck.errors import UsageError
from envcheck.facts.snapshot import GpusFacts, RocmFacts, Snapshot, SystemFacts, XpuFacts
from envcheck.planner.assume import Machine, assumed
from envcheck.read.products import capability_of
from envcheck.tables.gpu_generations import capability_of_generation
from envcheck.tables.gpu_names import gpu_named
from envcheck.tables.toml import load_toml

NAMES = load_toml(Path(__file__).parents[1] / "golden" / "gpu_names.toml")
SAMPLED = [line.split("\t") for line in (Path(__file__).parents[1] / "golden" / "gpu_names_sampled.tsv").read_text().splitlines()]


def planned(name: str) -> Snapshot:
    return assumed(Machine((name,)), TABLES)[0]


@pytest.mark.parametrize(("capability", "name"), [(target, name) for target, names in NAMES["cuda"].items() for name in names])
def test_nvidia(capability: str, name: str) -> None:
    gpus = planned(name).gpus
    assert isinstance(gpus, GpusFacts) and {gpu.compute_capability for gpu in gpus.devices} == {capability}
    if len(gpus.devices) == 1:  # the reader of pasted texts says the same
        assert capability_of(name, TABLES) == capability


@pytest.mark.parametrize(("gfx", "name"), [(target, name) for target, names in NAMES["gfx"].items() for name in names])
def test_amd(gfx: str, name: str) -> None:
    rocm = planned(name).rocm
    assert isinstance(rocm, RocmFacts) and set(rocm.gfx) == {gfx}


@pytest.mark.parametrize("name", NAMES["xpu"]["names"])
def test_intel(name: str) -> None:
    assert isinstance(planned(name).xpu, XpuFacts)


@pytest.mark.parametrize("name", NAMES["apple"]["names"])
def test_apple(name: str) -> None:
    system = planned(name).system
    assert isinstance(system, SystemFacts) and (system.os, system.machine) == ("darwin", "arm64")


@pytest.mark.parametrize("name", NAMES["ask"]["names"])
def test_a_name_that_leaves_a_choice_is_asked_about(name: str) -> None:
    with pytest.raises(UsageError, match="name one of them"):
        planned(name)
    assert capability_of(name, TABLES) is None


@pytest.mark.parametrize("name", NAMES["old"]["names"])
def test_a_board_that_no_build_serves_is_refused_with_its_capability(name: str) -> None:
    with pytest.raises(UsageError, match=r"has compute capability [23]\.\d, older than"):
        planned(name)


@pytest.mark.parametrize(("name", "near"), NAMES["none"]["names"].items())
def test_a_refusal_proposes_whole_names(name: str, near: str) -> None:
    with pytest.raises(UsageError, match="no such GPU"):
        planned(name)
    proposed = gpu_named(name, TABLES).near
    assert any(near in one for one in proposed) if near else not any(one.isdecimal() for one in proposed)
    for one in proposed:
        assert gpu_named(one, TABLES).gpu or gpu_named(one, TABLES).several, "what is proposed is understood"


@pytest.mark.parametrize(("machine", "name"), [(machine, name) for machine, names in NAMES["machine"].items() for name in names])
def test_the_machine_follows_from_the_name(machine: str, name: str) -> None:
    system = planned(name).system
    assert isinstance(system, SystemFacts) and f"{system.os}-{system.machine}" == machine


@pytest.mark.parametrize(("target", "name"), SAMPLED)
def test_names_drawn_from_pci_ids_are_never_taken_for_another_chip(target: str, name: str) -> None:
    gpu = gpu_named(name, TABLES).gpu
    assert gpu is None or target in (gpu.target, gpu.kind)


def test_names_drawn_from_pci_ids_are_known() -> None:
    known = sum(gpu_named(name, TABLES).gpu is not None for _, name in SAMPLED)
    assert known >= 57  # the others are boards that were never sold under that name


@pytest.mark.parametrize(
    ("name", "count"),
    [("8xH100", 8), ("h100:8", 8), ("4090x2", 2), ("2× RTX 4090", 2), ("H100 (x8)", 8), ("8 H100", 8), ("rx 9060 xt", 1), ("titan xp", 1)],
)
def test_counts(name: str, count: int) -> None:
    assert gpu_named(name, TABLES).count == count


@pytest.mark.parametrize(
    ("name", "capability"), [("sm_90", "9.0"), ("8xsm90", "9.0"), ("sm_100a", "10.0"), ("compute_86", "8.6"), ("SM 7.5", "7.5")]
)
def test_a_compute_capability_stands_for_any_board_of_it(name: str, capability: str) -> None:
    gpus = planned(name).gpus
    assert isinstance(gpus, GpusFacts) and {one.compute_capability for one in gpus.devices} == {capability}
    assert len(gpus.devices) == (8 if name.startswith("8x") else 1)


@pytest.mark.parametrize(
    ("name", "says"), [("sm_87", "Orin: name one of them"), ("sm_121", "GB10, or .*name one of them"), ("sm_99", "no such GPU")]
)
def test_a_capability_that_stands_for_no_machine_is_asked_about(name: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        planned(name)


@pytest.mark.parametrize("name", ["0xh100", "5000xh100", "h100:99999"])
def test_a_count_that_cannot_be(name: str) -> None:
    with pytest.raises(UsageError, match="1 to 1024 GPUs"):
        planned(name)


@pytest.mark.parametrize(
    ("name", "gfx"),
    [
        ("AMD Radeon RX 6700 XT (navi22, LLVM 15.0.7)", "gfx1031"),
        ("Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M]", "gfx1100"),
        ("gfx90a:sramecc+:xnack-", "gfx90a"),
    ],
)
def test_names_as_rocm_and_lspci_print_them(name: str, gfx: str) -> None:
    gpu = gpu_named(name, TABLES).gpu
    assert gpu and gpu.target == gfx


def test_a_name_that_was_cut_off() -> None:
    assert capability_of("NVIDIA GeForce RTX 208...", TABLES) == "7.5"
    assert capability_of("NVIDIA GeForce RTX 30...", TABLES) is None  # RTX 3050 A Laptop GPU is an Ada


def test_a_generation_has_the_capability_of_its_newest_chips() -> None:
    names = {"Kepler GPU": "3.7", "Maxwell": "5.2", "NVIDIA Pascal": "6.1", "turing card": "7.5", "Ada Lovelace": "8.9", "hopper": "9.0",
             "Blackwell": "12.0", "RTX 50 series": "12.0", "GTX 10-series": "6.1", "GTX 1600 series": "7.5", "20 series": "7.5",
             "pre-Turing": "7.0", "pre-Ampere GPU": "7.5", "RTX 50": None, "series": None, "60 series": None}  # fmt: skip
    assert {name: capability_of_generation(name, TABLES) for name in names} == names


def test_every_product_of_the_table_means_itself() -> None:
    for row in TABLES.rows("gpu-product", "product"):
        for name in row["names"]:
            gpu = gpu_named(name, TABLES).gpu
            assert gpu and gpu.target == row["compute_capability"], name


@given(st.text(max_size=60))
def test_any_text_has_an_answer(text: str) -> None:
    meant = gpu_named(text, TABLES)
    assert not (meant.gpu and meant.several)
