"""Bandwidths: formulas, what they are held against, and how they are shown. The ranks' part runs on gloo in test_live_full."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_samples import healthy

from envcheck.checks.bandwidth import best, judge, nvlink_rate
from envcheck.commands.bases import base
from envcheck.facts.record import replace
from envcheck.facts.snapshot import Gpu, GpusFacts, HostCopy, LiveFacts, PeerCopy, WireFacts, WirePoint
from envcheck.render import render
from envcheck.render.bandwidth_chart import lines, size, sparkline, svg
from envcheck.tables.compat import Tables
from envcheck.tables.folders import rules_folder

TABLES = Tables((rules_folder("compat"),))


def point(size_bytes: int, rate: float) -> WirePoint:
    return WirePoint(size_bytes, size_bytes / rate / 1e9, rate, rate)


def wire(**changes: Any) -> WireFacts:
    return replace(WireFacts("nccl", "cuda", 8, (point(1 << 20, 20.0), point(1 << 30, 350.0)), flat=True), **changes)


def hopper(count: int = 8, **changes: Any) -> tuple[Gpu, ...]:
    one = Gpu(0, "NVIDIA H100 80GB HBM3", compute_capability="9.0", nvlinks_active=18, nvlink_peers={"switch": 18})
    return tuple(replace(one, index=index, **changes) for index in range(count))


def test_roofline_of_nvlink() -> None:
    [one] = judge(wire(points=(point(1 << 30, 170.0),)), hopper(), TABLES)
    assert one.basis == "roofline" and one.expected_gb_s == pytest.approx(18 * 25 * 0.78)
    assert one.level == "error" and "nvlink" in one.source
    assert judge(wire(), hopper(), TABLES)[0].level == "ok"
    assert judge(wire(points=(point(1 << 30, 250.0),)), hopper(), TABLES)[0].level == "warning"


def test_links_to_a_peer_bound_two_directly_joined_gpus() -> None:
    # four A100 without a switch: four links to each of the three others
    gpus = hopper(4, compute_capability="8.0", name="NVIDIA A100-SXM4-80GB", nvlinks_active=12, nvlink_peers={"a": 4, "b": 4, "c": 4})
    two, four = nvlink_rate(gpus, 2, TABLES), nvlink_rate(gpus, 4, TABLES)
    assert two and four and (two[0], four[0]) == (4, 12)
    assert nvlink_rate(gpus, 8, TABLES) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"device": "cpu", "backend": "gloo"},
        {"flat": False},
        {"points": ()},
        {"points": (point(1 << 20, 5.0),)},  # too small to say anything
        {"world_size": 1},
        {"world_size": 16},  # more than this node has
    ],
)
def test_what_is_not_judged(changes: dict[str, Any]) -> None:
    assert judge(wire(**changes), hopper(), TABLES) == ()


def test_pcie_alone_gives_all_reduce_no_figure() -> None:
    gpus = hopper(2, name="NVIDIA GeForce RTX 4090", compute_capability="8.9", nvlinks_active=None, nvlink_peers={})
    assert judge(wire(world_size=2, points=(point(1 << 30, 3.0),)), gpus, TABLES) == ()
    assert judge(wire(points=(point(1 << 30, 3.0),)), hopper(8, nvlink_peers={"unknown": 18}, name="NVIDIA X"), TABLES) == ()


def test_mixed_and_mig_machines_are_not_judged() -> None:
    assert judge(wire(points=(point(1 << 30, 3.0),)), (*hopper(7), Gpu(7, "NVIDIA A40")), TABLES) == ()
    assert judge(wire(points=(point(1 << 30, 3.0),)), hopper(mig=True), TABLES) == ()


def test_peers_come_before_the_roofline() -> None:
    copies = tuple(HostCopy(index, 50.0 if index != 3 else 12.0) for index in range(8))
    gpus = hopper(pcie_generation_max=5, pcie_width=16)
    [one] = judge(WireFacts("nccl", "cuda", 8, host=copies), gpus, TABLES)
    assert (one.what, one.basis, one.level) == ("host to GPU 3", "peers", "error")
    slow = tuple(HostCopy(index, 12.0) for index in range(8))  # all alike: then the link decides
    assert {(one.basis, one.level) for one in judge(WireFacts("nccl", "cuda", 8, host=slow), gpus, TABLES)} == {("roofline", "error")}


@pytest.mark.parametrize(("generation", "floor"), [(4, 21.0), (5, 48.0)])
def test_the_floors_of_sound_machines_pass(generation: int, floor: float) -> None:
    gpus = hopper(1, pcie_generation_max=generation, pcie_width=16)
    [one] = judge(WireFacts("nccl", "cuda", 1, host=(HostCopy(0, floor),)), gpus, TABLES)
    assert one.level == "ok" and one.basis == "roofline"


def test_a_slow_pair_stands_out_and_two_kinds_of_pairs_do_not() -> None:
    pairs = [(a, b) for a in range(4) for b in range(4) if a != b]
    one_bad = tuple(PeerCopy(a, b, 300.0 if (a, b) != (1, 2) else 20.0) for a, b in pairs)
    [found] = judge(WireFacts("nccl", "cuda", 4, peers=one_bad), hopper(4), TABLES)
    assert found.what == "GPU 1 to GPU 2" and found.level == "error"
    bridges = tuple(PeerCopy(a, b, 50.0 if a // 2 == b // 2 else 12.0) for a, b in pairs)
    assert judge(WireFacts("nccl", "cuda", 4, peers=bridges), hopper(4), TABLES) == ()


@pytest.mark.parametrize(("measured", "quiet"), [(367.61, True), (482.26, True), (234.0, False)])
def test_published_measurements_do_not_alarm(measured: float, quiet: bool) -> None:
    found = judge(wire(points=(point(1 << 30, measured),)), hopper(name="NVIDIA H200"), TABLES)
    assert all(one.level == "ok" for one in found) is quiet


@given(st.lists(st.floats(0.0, 1e6), max_size=30), st.integers(0, 1 << 40))
def test_shown_whatever_the_numbers(rates: list[float], number: int) -> None:
    points = tuple(WirePoint(1 << min(at + 4, 40), 1.0, rate, rate) for at, rate in enumerate(rates))
    shown = WireFacts("gloo", "cpu", 2, points, host=(HostCopy(0, 3.0),), peers=(PeerCopy(0, 1, 2.0),), troubles=("x",))
    assert len(sparkline(tuple(rates))) == len(rates)
    assert all(what and figure for what, figure in lines(shown))
    assert svg(shown) == "" if len(points) < 2 else svg(shown).startswith("<svg")
    assert size(number)
    assert (best(points) is None) == (not points)


def test_in_the_reports() -> None:
    snapshot = base(rules_folder(), "h100x8")
    assert isinstance(snapshot.live, LiveFacts) and isinstance(snapshot.gpus, GpusFacts)
    report = replace(healthy("h100x8"), snapshot=replace(snapshot, live=replace(snapshot.live, wire=wire())))
    page, text = render(report, "html"), render(report, "text")
    assert "<svg" in page and "350 GB/s busbw at 1 GiB" in page and "Speed of the connections" in text
