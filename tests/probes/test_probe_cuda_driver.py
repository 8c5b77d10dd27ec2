"""libcuda in a child: its codes kept apart, its deaths named."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from fakes import MakeHost, driver_host, fake_libraries
from patients import SOON

from envcheck.facts.snapshot import CudaDriverFacts, Missing, Why
from envcheck.host.recording import RecordingHost, ReplayHost
from envcheck.probes.cuda_driver import probe

__all__ = ["driver_host", "fake_libraries"]


def facts_of(host: object) -> CudaDriverFacts:
    facts = probe(host)  # type: ignore[arg-type]
    assert isinstance(facts, CudaDriverFacts), facts
    return facts


def test_healthy(driver_host: MakeHost) -> None:
    facts = facts_of(driver_host(cuda="0"))
    assert (facts.init_code, facts.driver_version, facts.device_count, facts.device_count_code) == (0, "13.0", 2, 0)
    assert facts.library_path == facts.candidates[0]
    assert (facts.is_stub, facts.is_compat) == (False, False)
    assert [(one.name, one.compute_capability, one.memory_bytes) for one in facts.devices] == [
        ("NVIDIA H100 80GB HBM3", "9.0", 81559 << 20)
    ] * 2
    assert facts.devices[0].uuid == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"


def test_it_sees_what_the_user_lets_it_see(driver_host: MakeHost) -> None:
    facts = facts_of(driver_host(cuda="0", CUDA_VISIBLE_DEVICES=""))
    assert (facts.init_code, facts.device_count, facts.devices) == (0, 0, ())


@pytest.mark.parametrize("code", [34, 100, 101, 802, 803, 804, 999])
def test_codes_are_told_apart(driver_host: MakeHost, code: int) -> None:
    facts = facts_of(driver_host(cuda=str(code)))
    assert (facts.init_code, facts.device_count) == (code, None)
    assert facts.device_count_code == (34 if code == 34 else 3)
    assert facts.is_stub is (code == 34)
    assert facts.driver_version == (None if code == 34 else "13.0")


@pytest.mark.parametrize(
    ("folder", "stub", "compat"), [("lib64/stubs", True, False), ("cuda-13.0/compat", False, True), ("cuda-compat", False, True)]
)
def test_where_it_comes_from(
    driver_host: MakeHost, fake_libraries: dict[str, Path], tmp_path: Path, folder: str, stub: bool, compat: bool
) -> None:
    place = tmp_path / folder
    place.mkdir(parents=True)
    (place / "libcuda.so.580.95.05").write_bytes((fake_libraries["cuda"] / "libcuda.so.1").read_bytes())
    (place / "libcuda.so.1").symlink_to("libcuda.so.580.95.05")
    facts = facts_of(driver_host(LD_LIBRARY_PATH=f"{place}:{fake_libraries['cuda']}"))
    assert facts.library_path == str(place / "libcuda.so.580.95.05"), "the file that is mapped, not the link"
    assert facts.candidates == (str(place / "libcuda.so.1"), str(fake_libraries["cuda"] / "libcuda.so.1"))
    assert (facts.is_stub, facts.is_compat) == (stub, compat)


def test_there_is_none(driver_host: MakeHost) -> None:
    facts = probe(driver_host())
    assert isinstance(facts, Missing) and facts.why is Why.ABSENT


def test_one_that_cannot_be_loaded(driver_host: MakeHost, tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_bytes(b"not a library at all, but long enough to be read as a header" * 4)
    facts = probe(driver_host(LD_LIBRARY_PATH=str(tmp_path)))
    assert isinstance(facts, Missing) and facts.why is Why.FAILED
    assert "libcuda.so.1" in facts.reason and str(tmp_path) in facts.evidence


def test_a_library_that_is_no_libcuda(driver_host: MakeHost, fake_libraries: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_bytes((fake_libraries["nvml"] / "libnvidia-ml.so.1").read_bytes())
    facts = probe(driver_host(LD_LIBRARY_PATH=str(tmp_path)))
    assert isinstance(facts, Missing) and facts.why is Why.FAILED and "cuDriverGetVersion" in facts.reason


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("segv", "cuInit was ended by SIGSEGV"),
        ("early", "cuDriverGetVersion was ended by SIGSEGV"),
        ("exit", "cuInit ended the process with exit status 7"),
    ],
)
def test_deaths_are_named(driver_host: MakeHost, state: str, reason: str) -> None:
    facts = probe(driver_host(cuda=state))
    assert isinstance(facts, Missing) and (facts.why, facts.reason) == (Why.FAILED, reason)


def test_a_hang_ends_at_the_deadline(driver_host: MakeHost) -> None:
    host = driver_host(cuda="hang")
    began = time.monotonic()
    facts = probe(host, 1.0)
    assert time.monotonic() - began < SOON
    assert isinstance(facts, Missing) and facts.why is Why.TIMEOUT and facts.reason.startswith("cuInit did not return")
    assert host.left_behind() == []


def test_recorded_and_replayed(driver_host: MakeHost) -> None:
    recording = RecordingHost(driver_host(cuda="803"))
    assert probe(recording) == probe(ReplayHost(recording.answers, recording.env))
