"""Versions and build tags as every room reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from envcheck.tables.versions import (
    BuildTag,
    at_least,
    build_tag,
    cuda_of_build,
    local,
    major,
    meets,
    minor,
    older,
    parsed,
    release,
    series,
    span,
    tag_named,
    variant_of_cuda,
    version,
)


@pytest.mark.parametrize(
    ("text", "tag", "variant"),
    [
        ("2.14.1+cu130", BuildTag("cu130", cuda="13.0"), "cu130"),
        ("1.5.0+cu92", BuildTag("cu92", cuda="9.2"), "cu92"),
        ("2.9.0+cu128.post1", BuildTag("cu128.post1", cuda="12.8"), None),
        ("2.15.0+cpu", BuildTag("cpu", cpu=True), "cpu"),
        ("2.5.1+cpu.cxx11.abi", BuildTag("cpu.cxx11.abi", cpu=True), None),
        ("2.9.0+rocm6.4", BuildTag("rocm6.4", rocm="6.4"), "rocm6.4"),
        ("2.4.0+rocm6.1.3.git7a1b", BuildTag("rocm6.1.3.git7a1b", rocm="6.1"), "rocm6.1.3.git7a1b"),
        ("2.8.0+xpu", BuildTag("xpu", xpu=True), "xpu"),
        ("2.1.2+pt23cu121", BuildTag("pt23cu121", cuda="12.1"), None),  # torch-scatter
        ("2.6.3+cu12torch2.6cxx11abiFALSE", BuildTag("cu12torch2.6cxx11abiFALSE"), None),  # flash-attn
        ("0.11.0+cu12", BuildTag("cu12"), "cu12"),  # CUDA 12, of which nothing says the minor
        ("2.9.0+gitabc", BuildTag("gitabc"), None),
        ("2.9.0+computecanada", BuildTag("computecanada"), None),
        ("2.9.0", BuildTag(""), None),
        (None, BuildTag(""), None),
    ],
)
def test_build_tag(text: str | None, tag: BuildTag, variant: str | None) -> None:
    assert build_tag(text) == tag and build_tag(text).variant == variant
    assert cuda_of_build(text) == tag.cuda


def test_a_variant_of_the_index_is_a_tag_of_its_own() -> None:
    assert [tag_named(name).cuda for name in ("cu130", "cu92", "cu102", "cpu", "rocm6.4", "xpu")] == [
        "13.0",
        "9.2",
        "10.2",
        None,
        None,
        None,
    ]
    assert [variant_of_cuda(cuda) for cuda in ("13.0", "12.8.1", "9.2", "", "13")] == ["cu130", "cu128", "cu92", None, None]


def test_parts() -> None:
    assert (release("2.14.1+cu130"), release("2.16.0.dev20260914+cpu"), release(None)) == ("2.14.1", "2.16.0.dev20260914", None)
    assert (local("2.14.1+cu130"), local("2.14.1"), local(None)) == ("cu130", None, None)
    assert [minor(one) for one in ("2.14.1+cu130", "v0.5.2", "580.95.05", "9.1.0.70-1", "13", "", None)] == [
        (2, 14), (0, 5), (580, 95), (9, 1), None, None, None,
    ]  # fmt: skip
    assert (series("13.0.2"), series("13"), major("13.0"), major("580"), major("cu13")) == ("13.0", None, 13, 580, None)


def test_comparisons() -> None:
    assert older("535.54.03", "535.104.05") is True and older("12.10", "12.9") is False and older("8.9", "8.9") is False
    assert older("as found", "1.0") is None and older("1.0", None) is None
    assert at_least("2.28", "2.28") and not at_least("2.17", "2.28") and at_least(None, "2.28") and at_least("2.17", None)
    assert sorted(("1.10", "as found", "1.9"), key=version) == ["as found", "1.9", "1.10"]
    assert (span(["2.14.1", "2.9.0", "2.9.0"]), span(["2.9.0"])) == ("2.9.0 to 2.14.1", "2.9.0")


@pytest.mark.parametrize(
    ("text", "specifier", "answer"),
    [
        ("2.14.1+cu130", "==2.14.1", True),
        ("2.14.1+cu130", "==2.14.1+cpu", False),
        ("2.14.1+cu130", ">2.14.1", False),
        ("2.15.0a0+git1", ">=2.14", True),
        ("2.15.0a0+git1", ">=2.15", False),
        ("2.14.1", "", True),
        ("as found", ">=2", None),
        (None, ">=2", None),
        ("2.14.1", "=>2", None),
    ],
)
def test_meets(text: str | None, specifier: str, answer: bool | None) -> None:
    assert meets(text, specifier) is answer


@given(st.text(max_size=20))
def test_no_text_raises(text: str) -> None:
    assert build_tag(text).label == (local(text) or "")
    assert version(text) == (parsed(text) or Version("0.dev0"))
    assert meets(text, text) in (True, False, None) and older(text, text) is not True
    pair = minor(text)
    assert pair is None or pair[0] == major(text)
