"""Values as people write them, files as they lie on disks."""

from __future__ import annotations

import io
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.read.clean import PIECE_BYTES, clean, pieces, what_binary
from envcheck.read.products import capability_of
from envcheck.read.values import cuda_version, gpu_vendor, operating_system, stated_version, version_in
from envcheck.tables.compat import Tables
from envcheck.tables.folders import rules_folder

TABLES = Tables((rules_folder("compat"),))


@pytest.mark.parametrize(
    ("value", "version"),
    [
        ("2.8.0+cu128", "2.8.0+cu128"),
        ("11.3 (inside the container)", "11.3"),
        ("2.15.0.dev20260914+cu130", "2.15.0.dev20260914+cu130"),
        ("1.1.0 (older)", "1.1.0"),
        (3.9, "3.9"),
        ("1.5 / 1.6", None),
        ("1.x", None),
        ("<0.43", None),
        ("2.4.0 and 2.5 dev", None),
        ("1.6 nightly", None),
        ("8.0.3 loaded, 8.3.2 expected", None),
        ("2.0 (was 1.13)", None),
        (True, None),
        (None, None),
        ("", None),
    ],
)
def test_stated_version(value: object, version: str | None) -> None:
    assert stated_version(value) == version


@pytest.mark.parametrize(
    ("value", "version"), [("10.1.243", "10.1"), ("12.8", "12.8"), ("13", None), ("ERR!", None), ("580.95", None), ("0.5", None)]
)
def test_cuda_version(value: str, version: str | None) -> None:
    assert cuda_version(value) == version


def test_version_in_takes_the_beginning_alone() -> None:
    assert version_in("6.3.42133-1b9c17779") == "6.3.42133-1b9c17779"
    assert version_in("version 3.2") is None
    assert version_in("20250302", single=True) == "20250302"


@pytest.mark.parametrize(
    ("text", "os", "more"),
    [
        ("Ubuntu 22.04.4 LTS (x86_64)", "linux", {"system.machine": "x86_64", "system.distribution": "Ubuntu 22.04.4 LTS"}),
        ("Mac OSX 10.13.6", "darwin", {"system.macos_version": "10.13.6"}),
        ("macOS 14.5 (arm64)", "darwin", {"system.machine": "arm64", "system.macos_version": "14.5"}),
        ("Microsoft Windows 11 Pro (10.0.26100 64-bit)", "windows", {}),
        ("Ubuntu 22.04 (WSL2)", "linux", {"system.wsl": 2}),
        ("Red Hat Enterprise Linux Server 7.6 (Maipo)", "linux", {"system.distribution_id": "rhel"}),
    ],
)
def test_operating_system(text: str, os: str, more: dict[str, object]) -> None:
    found = operating_system(text)
    assert found["system.os"] == os
    assert more.items() <= found.items()


def test_operating_system_of_prose_is_unknown() -> None:
    assert operating_system("could not collect") == {}


@pytest.mark.parametrize(
    ("name", "vendor"),
    [
        ("NVIDIA A100-SXM4-40GB", "nvidia"),
        ("GeForce GTX 1080", "nvidia"),
        ("Orin (nvgpu)", "nvidia"),
        ("AMD Instinct MI300X", "amd"),
        ("Radeon RX 6700S", "amd"),
        ("Intel(R) Arc(TM) B580 Graphics", "intel"),
        ("Apple M2", "apple"),
        ("No CUDA", None),
        ("llvmpipe", None),
    ],
)
def test_gpu_vendor(name: str, vendor: str | None) -> None:
    assert gpu_vendor(name) == vendor


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("NVIDIA GeForce RTX 4090", "8.9"),
        ("RTX 3090", "8.6"),
        ("A100", "8.0"),
        ("T4", "7.5"),
        ("Orin (nvgpu)", "8.7"),
        ("NVIDIA A100 80GB PCIe MIG 1g.10gb", "8.0"),
        ("GTX1080Ti", "6.1"),
        ("Titan X", None),
        ("pre-Turing", None),
        ("GH200 / GB200", None),
        ("Tesla", None),
    ],
)
def test_capability_of_what_people_call_a_gpu(name: str, capability: str | None) -> None:
    assert capability_of(name, TABLES) == capability


def test_clean_takes_out_what_steers_a_terminal() -> None:
    assert clean("a\x1b[31mERR\x1b[0m\r\nb\rc\x00d\x1b]0;title\x07e\u202ef") == "aERR\nb\ncdef"


@given(st.text(max_size=500))
def test_clean_leaves_no_control_character(text: str) -> None:
    assert not any((ord(one) < 32 and one not in "\n\t") or 0x7F <= ord(one) < 0xA0 for one in clean(text))


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"\x7fELF\x02\x01", "ELF"),
        (b"PK\x03\x04rest", "zip"),
        (b"\x00\x01\x02\x03" * 40, "binary"),
        (b"plain text\n", None),
        (b"one stray\x00 NUL in a log line\n" * 9, None),
        ("PyTorch version: 2.1".encode("utf-16"), None),
        (random.Random(15).randbytes(20_000), "binary"),  # noqa: S311
        (bytes(range(0x80, 0x100)) * 40, None),  # a text of another code page
        (b"", None),
    ],
)
def test_what_binary(head: bytes, kind: str | None) -> None:
    found = what_binary(head)
    assert (found is None) == (kind is None)
    assert kind is None or kind in (found or "")


def test_powershell_writes_utf16() -> None:
    data = "PyTorch version: 2.1.0\r\n".encode("utf-16")
    [piece] = pieces(io.BytesIO(b""), data)
    assert piece.text == "PyTorch version: 2.1.0\n"


def test_utf16_without_a_mark_has_either_order() -> None:
    for order in ("utf-16-le", "utf-16-be"):
        data = "PyTorch version: 2.1.0\r\n".encode(order)
        assert what_binary(data) is None and [piece.text for piece in pieces(io.BytesIO(b""), data)] == ["PyTorch version: 2.1.0\n"]


def test_pieces_end_at_lines_and_count_them() -> None:
    data = b"".join(b"line %d\n" % number for number in range(700000))
    assert len(data) > PIECE_BYTES
    found = list(pieces(io.BytesIO(data), b""))
    assert len(found) > 1
    assert all(piece.text.endswith("\n") for piece in found)
    assert found[1].first_line == found[0].text.count("\n") + 1
    assert "".join(piece.text for piece in found).encode() == data
