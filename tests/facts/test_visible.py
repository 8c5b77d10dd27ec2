"""CUDA_VISIBLE_DEVICES against 28 values measured on one H200 (driver 580.159.04, torch 2.11.0+cu130)."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from visible_values import MEASURED, OTHER, UUID

from envcheck.facts.cuda_visible_devices import InitResult, Problem, Selection, read_visible, with_selection
from envcheck.facts.snapshot import Gpu, GpusFacts, Missing, VisibilityFacts, Why

H200 = (Gpu(0, name="NVIDIA H200", uuid=UUID, mig=False),)
PAIR = (*H200, Gpu(1, name="NVIDIA H200", uuid=OTHER, mig=False))
MIXED = (Gpu(0, name="NVIDIA T4", uuid=UUID), Gpu(1, name="NVIDIA H200", uuid=OTHER))


@pytest.mark.parametrize(("value", "available", "problem"), MEASURED)
def test_measured_values(value: str | None, available: bool, problem: Problem) -> None:
    chosen = read_visible(value, H200)
    assert chosen.indices == ((0,) if available else ())
    assert chosen.count == int(available)
    assert chosen.problem is problem
    assert chosen.outcome is (
        InitResult.DEVICES if available else InitResult.INVALID_ORDINAL if problem is Problem.DUPLICATE else InitResult.NO_DEVICE
    )
    assert chosen.cuda_error == (None if available else 101 if problem is Problem.DUPLICATE else 100)


def _captures() -> Path:
    shared = Path(os.environ.get("ENVCHECK_SHARED", Path(__file__).parents[3] / "shared"))
    folder = shared / "captures" / "h200-580" / "cvd"
    if not folder.is_dir():
        pytest.skip(f"the recorded outputs are not beside this checkout ({folder})")
    return folder


def test_against_the_recorded_outputs() -> None:
    seen = set()
    for path in sorted(_captures().glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        raw = re.search(r"^CUDA_VISIBLE_DEVICES=\[(.*)\]$", text, re.MULTILINE)
        assert raw is not None, path
        value: str | None = raw[1]
        if path.stem == "unset":
            value = None
        elif path.stem == "uuid-unknown":
            value = OTHER  # every UUID in the recording was replaced by one and the same
        chosen = read_visible(value, H200)
        assert (chosen.count == 1) == ("is_available True" in text), path.name
        assert (chosen.cuda_error == 101) == ("Error 101" in text), path.name
        seen.add(value)
    assert seen == {value for value, _, _ in MEASURED}


@pytest.mark.parametrize(
    ("value", "indices", "problem"),
    [
        ("1,0", (1, 0), Problem.NONE),  # the order of the list is the order of the devices
        ("0,1,", (0, 1), Problem.NONE),
        ("1", (1,), Problem.NONE),
        ("0,2,1", (0,), Problem.TRUNCATED),
        ("0,-1,1", (0,), Problem.TRUNCATED),  # the guide's own example
        ("0,1,0", (), Problem.DUPLICATE),
        ("0,5,0", (0,), Problem.TRUNCATED),  # reading ends before the duplicate
        ("2", (), Problem.OUT_OF_RANGE),
        ("0gpu2,1ampere", (0, 1), Problem.NONE),
        (f"{OTHER},{UUID}", (1, 0), Problem.NONE),
        ("GPU-9", (1,), Problem.NONE),
        ("GPU-9,GPU-abc", (1,), Problem.TRUNCATED),
        ("GPU-9,GPU-99", (), Problem.DUPLICATE),
        ("all", (), Problem.UNREADABLE),
        ("'0'", (), Problem.UNREADABLE),
        ("cuda:0", (), Problem.UNREADABLE),
        ("[0]", (), Problem.UNREADABLE),
        ("   ", (), Problem.EMPTY),
    ],
)
def test_documented_for_two_gpus(value: str, indices: tuple[int, ...], problem: Problem) -> None:
    chosen = read_visible(value, PAIR)
    assert (chosen.indices, chosen.problem) == (indices, problem)


@pytest.mark.parametrize("value", ["0x1", "010", "08", "-0", "0,GPU-9", "GPU-9,0", "gpu-9", "GPU-9ABC ", "99999999999999999999"])
def test_what_is_not_known_is_not_guessed(value: str) -> None:
    chosen = read_visible(value, PAIR)
    if value == "gpu-9":  # not even the prefix: a word
        assert chosen.problem is Problem.UNREADABLE
    else:
        assert chosen.problem is Problem.UNKNOWN
        assert chosen.outcome is InitResult.UNKNOWN and chosen.cuda_error is None


def test_ambiguous_and_wrong_case_are_unknown() -> None:
    twins = (Gpu(0, uuid="GPU-aa1"), Gpu(1, uuid="GPU-aa2"))
    assert read_visible("GPU-aa", twins).problem is Problem.UNKNOWN
    assert read_visible("GPU-AA1", twins).problem is Problem.UNKNOWN


def test_stop_is_named() -> None:
    chosen = read_visible("0,1,7,1", PAIR)
    assert (chosen.stopped_at, chosen.position, chosen.lost) == ("7", 2, ("7", "1"))


def test_unknown_gpus() -> None:
    assert read_visible(None, ()).outcome is InitResult.UNKNOWN
    assert read_visible("0", ()).outcome is InitResult.UNKNOWN
    assert read_visible("0,7", ()).outcome is InitResult.UNKNOWN
    assert read_visible("GPU-1", ()).outcome is InitResult.UNKNOWN
    assert read_visible("MIG-1", ()).outcome is InitResult.UNKNOWN
    # these hide everything whatever is installed
    assert [read_visible(value, ()).count for value in ("", "-1", "abc", '"0"', "GPU-")] == [0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("value", "problem"),
    [("-1", Problem.HIDDEN), ("-1,0", Problem.HIDDEN), ("-2", Problem.HIDDEN), ("none", Problem.HIDDEN), ("void", Problem.HIDDEN),
     ("cpu", Problem.HIDDEN), ("None", Problem.UNREADABLE), ("null", Problem.UNREADABLE), ("cpu:0", Problem.UNREADABLE)],
)  # fmt: skip
def test_values_that_hide_on_purpose(value: str, problem: Problem) -> None:
    chosen = read_visible(value, H200)
    assert (chosen.problem, chosen.count) == (problem, 0)
    assert read_visible("3,3", ()).cuda_error == 101


def test_a_lost_gpu_makes_numbers_uncertain() -> None:
    lost = (Gpu(0, name="NVIDIA H200", uuid=UUID), Gpu(1, name="NVIDIA H200", uuid=OTHER, error="GPU is lost"))
    assert read_visible("1", lost).problem is Problem.UNKNOWN
    assert read_visible(UUID, lost).indices == (0,)


def test_device_order_matters_only_for_different_models() -> None:
    chosen = read_visible("0", MIXED)
    assert (chosen.indices, chosen.count, chosen.outcome) == (None, 1, InitResult.DEVICES)
    assert read_visible("0", MIXED, "PCI_BUS_ID").indices == (0,)
    assert read_visible(OTHER, MIXED).indices == (1,)
    assert read_visible("0", PAIR, "FASTEST_FIRST").indices == (0,)


def test_mig() -> None:
    mig = (Gpu(0, uuid=UUID, mig=True, mig_devices=("MIG-a", "MIG-b")), Gpu(1, uuid=OTHER, mig=False))
    assert read_visible("MIG-b", mig).indices == (0,)
    assert read_visible(f"MIG-{UUID}/1/0", mig).indices == (0,)
    assert read_visible("MIG-c", mig).problem is Problem.OUT_OF_RANGE
    several = read_visible("MIG-a,MIG-b", mig)
    assert (several.indices, several.problem, several.stopped_at) == ((0,), Problem.TRUNCATED, "MIG-b")
    unlisted = (Gpu(0, uuid=UUID, mig=True, mig_devices=("1g.18gb",)),)
    assert read_visible("MIG-a", unlisted).problem is Problem.UNKNOWN


SPLIT = (Gpu(0, uuid=UUID, mig=True, mig_devices=("MIG-a", "MIG-b")), Gpu(1, uuid=OTHER, mig=False))
UNLISTED = (Gpu(0, uuid=UUID, mig=True, mig_devices=("MIG-a", "1g.18gb")), Gpu(1, uuid=OTHER, mig=False))
NOT_ASKED = (Gpu(0, uuid=UUID), Gpu(1, uuid=OTHER))
WITHOUT_UUID = (Gpu(0, uuid=UUID), Gpu(1))
LATER = (Gpu(4, name="NVIDIA H200", uuid=UUID), Gpu(5, name="NVIDIA H200", uuid=OTHER))


def unknown(stopped_at: str | None = None, position: int | None = None, lost: tuple[str, ...] = ()) -> Selection:
    return Selection(None, None, Problem.UNKNOWN, stopped_at, position, lost)


@pytest.mark.parametrize(
    ("value", "gpus", "selection"),
    [
        (None, LATER, Selection((4, 5), 2)),
        (None, (), unknown()),
        ("  ", PAIR, Selection((), 0, Problem.EMPTY, "  ", 0)),
        ("1,0", LATER, Selection((5, 4), 2)),
        ("0,1", (), unknown()),
        ("0,abc,1", (), unknown("abc", 1, ("abc", "1"))),
        ("1,1,0", PAIR, Selection((), 0, Problem.DUPLICATE, "1", 1, ("1", "0"))),
        ("1,2,0", PAIR, Selection((1,), 1, Problem.TRUNCATED, "2", 1, ("2", "0"))),
        ("1, ,", PAIR, Selection((1,), 1, Problem.NONE, " ", 1, (" ", ""))),
        ("1,,0", PAIR, Selection((1,), 1, Problem.TRUNCATED, "", 1, ("", "0"))),
        ("-1,0", PAIR, Selection((), 0, Problem.HIDDEN, "-1", 0, ("-1", "0"))),
        (" none ,0", PAIR, Selection((), 0, Problem.HIDDEN, " none ", 0, (" none ", "0"))),
        ("x,0", PAIR, Selection((), 0, Problem.UNREADABLE, "x", 0, ("x", "0"))),
        ("2,0", PAIR, Selection((), 0, Problem.OUT_OF_RANGE, "2", 0, ("2", "0"))),
        ("0,GPU-9,1", PAIR, unknown("GPU-9", 1, ("GPU-9", "1"))),
        ("0,MIG-9", PAIR, unknown("MIG-9", 1, ("MIG-9",))),
        # numbers
        ("\t+1", PAIR, Selection((1,), 1)),
        ("01", PAIR, Selection((1,), 1)),  # the same in every base
        ("0x", PAIR, Selection((0,), 1)),
        ("0X0", PAIR, Selection((0,), 1)),
        ("0xg", PAIR, Selection((0,), 1)),
        ("0XF", PAIR, unknown("0XF", 0, ("0XF",))),
        ("1x1", PAIR, Selection((1,), 1)),
        ("09", PAIR, unknown("09", 0, ("09",))),
        ("+-1", PAIR, Selection((), 0, Problem.UNREADABLE, "+-1", 0, ("+-1",))),
        ("-", PAIR, Selection((), 0, Problem.UNREADABLE, "-", 0, ("-",))),
        ("999999999", PAIR, Selection((), 0, Problem.OUT_OF_RANGE, "999999999", 0, ("999999999",))),
        ("1000000000", PAIR, unknown("1000000000", 0, ("1000000000",))),
        # names
        ("GPU-9", LATER, Selection((5,), 1)),
        ("GPU-9 ", PAIR, unknown("GPU-9 ", 0, ("GPU-9 ",))),
        ("GPU-", WITHOUT_UUID, Selection((), 0, Problem.UNREADABLE, "GPU-", 0, ("GPU-",))),
        ("GPU-1", WITHOUT_UUID, unknown("GPU-1", 0, ("GPU-1",))),
        ("GPU-9,GPU-7", PAIR, Selection((1,), 1, Problem.TRUNCATED, "GPU-7", 1, ("GPU-7",))),
        ("GPU-9,", PAIR, Selection((1,), 1, Problem.NONE, "", 1, ("",))),
        ("GPU-9,x", PAIR, Selection((1,), 1, Problem.TRUNCATED, "x", 1, ("x",))),
        ("GPU-9, +1", PAIR, unknown(" +1", 1, (" +1",))),
        ("GPU-9", MIXED, Selection((1,), 1)),
        # parts of one GPU
        ("MIG-b", SPLIT, Selection((0,), 1)),
        ("MIG-b, ,", SPLIT, Selection((0,), 1)),
        ("MIG-b,,x", SPLIT, Selection((0,), 1, Problem.TRUNCATED, "", 1, ("", "x"))),
        (f"MIG-{UUID}/1/0", SPLIT, Selection((0,), 1)),
        (f"MIG-{OTHER}/1/0", SPLIT, Selection((), 0, Problem.OUT_OF_RANGE, f"MIG-{OTHER}/1/0", 0, (f"MIG-{OTHER}/1/0",))),
        ("MIG-c,MIG-a", SPLIT, Selection((), 0, Problem.OUT_OF_RANGE, "MIG-c", 0, ("MIG-c", "MIG-a"))),
        ("MIG-c,MIG-a", UNLISTED, unknown("MIG-c", 0, ("MIG-c", "MIG-a"))),
        ("MIG-c", NOT_ASKED, unknown("MIG-c", 0, ("MIG-c",))),
        ("MIG-c", (), unknown("MIG-c", 0, ("MIG-c",))),
    ],
)
def test_everything_that_is_said_of_a_value(value: str | None, gpus: tuple[Gpu, ...], selection: Selection) -> None:
    assert read_visible(value, gpus) == selection


def test_with_selection() -> None:
    facts = with_selection(VisibilityFacts(cuda_visible_devices="1,9"), GpusFacts(devices=PAIR))
    assert (facts.selected, facts.stopped_at) == ((1,), "9")
    facts = with_selection(VisibilityFacts(cuda_visible_devices="1,9"), Missing(Why.TIMEOUT, "hung"))
    assert facts.selected is None


@given(st.text(), st.sampled_from([(), H200, PAIR, MIXED]))
def test_never_raises(value: str, gpus: tuple[Gpu, ...]) -> None:
    chosen = read_visible(value, gpus)
    assert chosen.indices is None or len(chosen.indices) == chosen.count
    assert set(chosen.indices or ()) <= {gpu.index for gpu in gpus}


def test_a_long_list_takes_linear_time() -> None:
    """As many entries as one variable has room for: four times as many take four times as long, and not sixteen times."""

    def seconds(entries: int) -> float:
        value = ",".join(map(str, range(entries)))
        begin = time.process_time()
        assert read_visible(value, ()).problem is Problem.UNKNOWN
        return time.process_time() - begin

    assert min(seconds(20000) for _ in range(5)) < 9 * min(seconds(5000) for _ in range(5))
