"""The driver probe on machines with a broken driver: every source may fail alone, and nothing is left running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from fakes import FAULTS, SMI, MakeHost, driver_host, fake_libraries
from hypothesis import given, settings
from hypothesis import strategies as st
from patients import SOON

from envcheck.facts.codec import _hints, decode, encode
from envcheck.facts.snapshot import DriverFacts, GpusFacts, GpuTrouble, Missing, Reading, Snapshot, ToolStatus, Why
from envcheck.host.access import READ_LIMIT, Completed, RealHost
from envcheck.host.recording import RecordingHost, ReplayHost
from envcheck.probes.cuda_driver import probe as probe_cuda
from envcheck.probes.driver import probe_driver
from envcheck.probes.nvml import read_nvml
from envcheck.probes.toolkit import probe as probe_toolkit

__all__ = ["driver_host", "fake_libraries"]

SHARED = Path(os.environ.get("ENVCHECK_SHARED", Path(__file__).parents[3] / "shared"))
MIB = 1 << 20
OPEN_580 = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (builder@)\n"


def driver_of(host: object, seconds: float = 20.0) -> tuple[DriverFacts, GpusFacts | Missing]:
    driver, gpus = probe_driver(host, seconds)  # type: ignore[arg-type]
    assert isinstance(driver, DriverFacts), driver
    return driver, gpus


def devices_of(gpus: GpusFacts | Missing) -> GpusFacts:
    assert isinstance(gpus, GpusFacts), gpus
    return gpus


def test_no_sign_of_a_driver(driver_host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    host = driver_host()
    monkeypatch.setattr(host, "run", lambda *_, **__: pytest.fail("a machine without a driver costs no process"))
    driver, gpus = probe_driver(host)
    assert isinstance(driver, Missing) and driver.why is Why.ABSENT
    assert isinstance(gpus, Missing) and gpus.why is Why.ABSENT


def test_nouveau_alone_is_no_nvidia_driver(driver_host: MakeHost) -> None:
    driver, _ = probe_driver(driver_host(files={"/sys/module/nouveau/refcnt": "1"}))
    assert isinstance(driver, Missing) and driver.evidence == "nouveau is loaded"


def test_healthy_by_nvidia_smi_alone(driver_host: MakeHost) -> None:
    driver, gpus = driver_of(driver_host(smi="ok"))
    assert (driver.version, driver.cuda, driver.smi.status, driver.nvml.status) == ("580.95.05", "13.0", ToolStatus.OK, ToolStatus.ABSENT)
    assert driver.module_loaded is not False, "a driver that answers is loaded"
    found = devices_of(gpus)
    assert [(gpu.index, gpu.compute_capability, gpu.memory_bytes) for gpu in found.devices] == [
        (0, "9.0", 81559 * MIB),
        (1, "9.0", 81559 * MIB),
    ]
    assert found.devices[0].fabric_state == "Completed" and found.devices[0].throttle_reasons == 4
    assert found.devices[1].bus_id == "00000000:02:00.0"


def test_healthy_by_both(driver_host: MakeHost, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    driver, gpus = driver_of(driver_host(smi="ok", nvml="ok", FAKE_SMI_LOG=str(log)))
    assert driver.nvml.status is ToolStatus.OK and driver.smi.status is ToolStatus.OK
    assert log.read_text().count("\n") == 1, "one cheap call is enough where NVML says all"
    assert driver.library_version == "580.95.05"
    assert driver.readings == (Reading("NVML", "580.95.05", "13.0"), Reading("nvidia-smi --query-gpu", "580.95.05"))
    first, second = devices_of(gpus).devices
    assert (first.compute_capability_source, first.compute_mode, first.throttle_reasons) == ("NVML", "Exclusive_Process", 0x44)
    assert (first.pcie_generation, first.pcie_generation_max, first.pcie_width, first.pcie_width_max) == (4, 5, 8, 16)
    assert (first.ecc, first.ecc_uncorrected_volatile, first.ecc_uncorrected_aggregate) == (True, 1, 3)
    assert (first.remap_pending, first.remap_failed, first.recovery_action) == (True, False, "Reset")
    assert (first.fabric_state, first.fabric_status, second.fabric_state) == ("Completed", "Success", "In Progress")
    assert [(one.pid, one.name, one.memory_bytes) for one in first.processes] == [(416, "python3", 2666 * MIB)]
    assert (first.mig, second.mig, second.mig_devices) == (False, True, ("MIG-00000000", "MIG-00000001"))
    assert (first.memory_used_bytes, first.sm_clock_mhz, first.sm_clock_max_mhz) == (4 * MIB, 345, 1980)
    assert (first.temperature_celsius, first.power_watts, first.power_limit_watts) == (41, 79.35, 700)


def test_r610_words(driver_host: MakeHost) -> None:
    driver, _ = driver_of(driver_host(smi="r610"))
    assert (driver.version, driver.cuda) == ("610.57.04", "13.3")


def test_a_release_that_knows_fewer_fields(driver_host: MakeHost) -> None:
    driver, gpus = driver_of(driver_host(smi="old"))
    assert (driver.version, driver.cuda, driver.smi.status) == ("390.157", None, ToolStatus.OK)
    assert devices_of(gpus).devices[0].name == "NVIDIA H100 80GB HBM3" and devices_of(gpus).devices[0].compute_capability is None


def test_no_libcuda(driver_host: MakeHost) -> None:
    """nvidia-smi writes N/A for the CUDA version, NVML's call fails alone."""
    driver, _ = driver_of(driver_host(smi="na", nvml="nocuda"))
    assert (driver.version, driver.cuda, driver.cuda_state) == ("580.95.05", None, "N/A")


@pytest.mark.parametrize(
    ("state", "code", "words"),
    [
        ("mismatch", 18, "Failed to initialize NVML: Driver/library version mismatch"),
        ("nocomm", 9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver"),
        ("nodevices", 6, "No devices were found"),
        ("blocked", 17, "GPU access blocked by the operating system"),
        ("nolibrary", 12, "couldn't find libnvidia-ml.so library"),
    ],
)
def test_nvidia_smi_says_why(driver_host: MakeHost, state: str, code: int, words: str) -> None:
    driver, gpus = driver_of(driver_host(smi=state))
    assert (driver.smi.status, driver.smi.code) == (ToolStatus.FAILED, code)
    assert words in driver.smi.message
    assert isinstance(gpus, Missing)
    assert gpus.why is (Why.ABSENT if state == "nodevices" else Why.FAILED)
    assert driver.library_version == ("580.95" if state == "mismatch" else None)
    assert driver.module_loaded is (None if state in ("mismatch", "nodevices") else False)


@pytest.mark.parametrize(("state", "code"), [("mismatch", 18), ("nodriver", 9), ("noperm", 4), ("unknown", 999)])
def test_nvml_says_why(driver_host: MakeHost, state: str, code: int) -> None:
    driver, gpus = driver_of(driver_host(nvml=state))
    assert (driver.nvml.status, driver.nvml.code, driver.smi.status) == (ToolStatus.FAILED, code, ToolStatus.ABSENT)
    assert isinstance(gpus, Missing) and gpus.why is Why.FAILED and driver.nvml.message in gpus.reason


def test_nvml_counts_no_device(driver_host: MakeHost) -> None:
    driver, gpus = driver_of(driver_host(nvml="empty"))
    assert (driver.version, driver.nvml.status) == ("580.95.05", ToolStatus.OK)
    assert isinstance(gpus, Missing) and gpus.why is Why.ABSENT


def test_nvidia_smi_is_unreadable(driver_host: MakeHost) -> None:
    driver, gpus = driver_of(driver_host(smi="garbage"))
    assert (driver.smi.status, driver.smi.code) == (ToolStatus.UNREADABLE, 0)
    assert driver.smi.message.isprintable() or all(line.isprintable() for line in driver.smi.message.splitlines())
    assert isinstance(gpus, Missing) and gpus.why is Why.FAILED


@pytest.mark.parametrize("state", ["segv", "wrapped"])
def test_nvidia_smi_crashes(driver_host: MakeHost, state: str) -> None:
    driver, gpus = driver_of(driver_host(smi=state))
    assert (driver.smi.status, driver.smi.signal) == (ToolStatus.CRASHED, "SIGSEGV")
    assert isinstance(gpus, Missing) and gpus.why is Why.FAILED and "SIGSEGV" in gpus.reason


def test_nvidia_smi_without_x_bit_is_not_on_path(driver_host: MakeHost, tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi").write_text("not a program\n")
    driver, _ = probe_driver(driver_host(folder=tmp_path))
    assert isinstance(driver, Missing) and driver.why is Why.ABSENT


def test_nvidia_smi_that_is_no_program(driver_host: MakeHost, tmp_path: Path) -> None:
    path = tmp_path / "nvidia-smi"
    path.write_bytes(b"\x7fELF nonsense")
    path.chmod(0o755)
    driver, gpus = driver_of(driver_host(folder=tmp_path))
    assert driver.smi.status is ToolStatus.FAILED and "Exec format error" in driver.smi.message
    assert isinstance(gpus, Missing) and gpus.why is Why.FAILED


def test_nvml_crashes_in_init(driver_host: MakeHost) -> None:
    driver, gpus = driver_of(driver_host(nvml="segv"))
    assert (driver.nvml.status, driver.nvml.signal, driver.nvml.message) == (ToolStatus.CRASHED, "SIGSEGV", "in nvmlInit")
    assert isinstance(gpus, Missing)


def test_nvml_crashes_on_the_way_and_costs_only_the_rest(driver_host: MakeHost) -> None:
    driver, gpus = driver_of(driver_host(nvml="crash"))
    assert (driver.nvml.status, driver.nvml.signal, driver.version, driver.cuda) == (ToolStatus.CRASHED, "SIGABRT", "580.95.05", "13.0")
    first, second = devices_of(gpus).devices
    assert first.throttle_reasons == 0x44 and second.uuid is not None and second.throttle_reasons is None


def test_nvml_crashes_but_nvidia_smi_works(driver_host: MakeHost) -> None:
    driver, gpus = driver_of(driver_host(nvml="segv", smi="ok"))
    assert (driver.nvml.status, driver.smi.status, driver.cuda) == (ToolStatus.CRASHED, ToolStatus.OK, "13.0")
    assert len(devices_of(gpus).devices) == 2


def test_a_lost_gpu_and_its_living_neighbour(driver_host: MakeHost) -> None:
    by_smi = devices_of(driver_of(driver_host(smi="lost"))[1])
    assert [gpu.index for gpu in by_smi.devices] == [0]
    assert by_smi.lost == ("Unable to determine the device handle for GPU1: 0000:02:00.0: Unknown Error",)
    driver, gpus = driver_of(driver_host(nvml="lost"))
    assert driver.nvml.status is ToolStatus.OK
    assert [gpu.index for gpu in devices_of(gpus).devices] == [0] and devices_of(gpus).lost == ("GPU 1: GPU is lost",)


def test_a_gpu_that_is_lost_after_its_name_was_read(driver_host: MakeHost) -> None:
    gpus = devices_of(driver_of(driver_host(nvml="late"))[1])
    assert [gpu.error for gpu in gpus.devices] == [None, "GPU is lost"]
    assert gpus.devices[1].name == "NVIDIA H100 80GB HBM3" and gpus.lost == ("GPU 1: GPU is lost",)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (3, "Not Supported"),
        (4, "Insufficient Permissions"),
        (15, "GPU is lost"),
        (16, "GPU requires reset"),
        (17, "The operating system has blocked the request."),
        (27, "System is not in ready state"),
        (999, "Unknown Error"),
    ],
)
def test_nvml_does_not_open_one_of_two(driver_host: MakeHost, code: int, words: str) -> None:
    """Only one code says that the GPU is lost, and it is NVML that says it."""
    driver, gpus = driver_of(driver_host(nvml="ok", FAKE_NVML_HANDLE=str(code)))
    found = devices_of(gpus)
    assert driver.nvml.status is ToolStatus.OK
    assert [(gpu.index, gpu.error) for gpu in found.devices] == [(0, None)]
    assert found.troubles == (GpuTrouble("NVML", words, code, None, 1),)
    assert found.lost == (("GPU 1: GPU is lost",) if code == 15 else ())


def test_nvml_is_asked_for_no_more_than_this_process_may_see(driver_host: MakeHost, tmp_path: Path) -> None:
    """A GPU of another job is no reason to ask nvidia-smi for its whole report: it may not open it either."""
    for code, calls in ((4, 1), (999, 2)):
        log = tmp_path / f"calls-{code}"
        driver_of(driver_host(smi="ok", nvml="ok", FAKE_SMI_N="1", FAKE_NVML_HANDLE=str(code), FAKE_SMI_LOG=str(log)))
        assert log.read_text().count("\n") == calls


@pytest.mark.parametrize(("code", "error"), [(15, "GPU is lost"), (16, "GPU requires reset"), (27, None), (999, None)])
def test_what_a_query_after_the_handle_is_refused_with_is_kept(driver_host: MakeHost, code: int, error: str | None) -> None:
    found = devices_of(driver_of(driver_host(nvml="ok", FAKE_NVML_QUERY=str(code)))[1])
    assert [gpu.error for gpu in found.devices] == [None, error], "a query that fails alone is no fault of the GPU"
    [trouble] = found.troubles
    assert (trouble.source, trouble.code, trouble.index) == ("NVML", code, 1)
    assert trouble.call == "nvmlDeviceGetMemoryInfo"
    assert found.devices[1].uuid is not None


@pytest.mark.parametrize("code", [2, 3, 4, 6, 13])
def test_what_a_gpu_does_not_have_is_no_trouble(driver_host: MakeHost, code: int) -> None:
    found = devices_of(driver_of(driver_host(nvml="ok", FAKE_NVML_QUERY=str(code)))[1])
    assert found.troubles == () and [gpu.error for gpu in found.devices] == [None, None]


@pytest.mark.parametrize(
    ("word", "fields", "error"),
    [
        ("[GPU requires reset]", "compute_mode,mig.mode.current,ecc.mode.current,memory.used", "GPU requires reset"),
        ("[GPU requires reset]", "name", "GPU requires reset"),
        ("[Unknown Error]", "all", "Unknown Error"),
        ("[Unknown Error]", "memory.total,memory.used,memory.free,compute_mode,mig.mode.current,ecc.mode.current", "Unknown Error"),
        ("[Unknown Error]", "memory.used", None),
        ("ERR!", "name", None),
        ("[A word of some later release]", "name", None),
        ("[Insufficient Permissions]", "memory.total,memory.used,memory.free", None),
        ("[N/A]", "all", None),
    ],
)
def test_words_in_place_of_values(driver_host: MakeHost, word: str, fields: str, error: str | None) -> None:
    found = devices_of(driver_of(driver_host(smi="ok", FAKE_SMI_WORD=word, FAKE_SMI_FIELDS=fields))[1])
    first, second = found.devices
    assert (first.error, second.error, second.index) == (None, error, 1)
    assert second.name in (None, "NVIDIA H100 80GB HBM3")
    assert second.compute_mode in (None, "Default")
    told = [one for one in found.troubles if one.index == 1]
    assert [(one.source, one.text) for one in told] == ([("nvidia-smi", error)] if error else [])
    assert found.lost == ()


PCI = "/sys/bus/pci/devices/0000:01:00.0"
INTEL_GRAPHICS = {f"{PCI}/class": "0x030000\n", f"{PCI}/vendor": "0x8086\n", f"{PCI}/device": "0x4680\n"}
NVIDIA_CARD = {f"{PCI}/class": "0x030000\n", f"{PCI}/vendor": "0x10de\n", f"{PCI}/device": "0x2684\n"}


@pytest.mark.parametrize(
    ("state", "files", "why"),
    [
        ("nocomm", INTEL_GRAPHICS, Why.ABSENT),
        ("nolibrary", INTEL_GRAPHICS, Why.ABSENT),
        ("garbage", INTEL_GRAPHICS, Why.ABSENT),
        ("nocomm", NVIDIA_CARD, Why.FAILED),
        ("nocomm", {}, Why.FAILED),  # a kernel that shows no bus
        ("nocomm", {**INTEL_GRAPHICS, "/dev/nvidia0": ""}, Why.FAILED),
        ("mismatch", INTEL_GRAPHICS, Why.FAILED),  # only a loaded module says so
        ("nocomm", {**INTEL_GRAPHICS, "/etc/nv_tegra_release": "# R36 (release), REVISION: 4.3, GCID: 1\n"}, Why.FAILED),
    ],
)
def test_tools_of_the_driver_on_a_machine_without_a_gpu(driver_host: MakeHost, state: str, files: Mapping[str, str], why: Why) -> None:
    driver, gpus = driver_of(driver_host(smi=state, files=files))
    assert driver.smi.status is not ToolStatus.OK
    assert isinstance(gpus, Missing) and gpus.why is why


def test_nodes_that_this_process_may_not_open(driver_host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    host = driver_host(smi="ok", files={"/dev/nvidia0": "", "/dev/nvidia1": "", "/dev/nvidiactl": ""})
    monkeypatch.setattr(host, "access", lambda path, mode: (path, mode) == ("/dev/nvidia1", "rw"))
    assert driver_of(host)[0].closed_nodes == ("nvidia0",)


@pytest.mark.parametrize("state", ["hang", "tree"])
def test_nvidia_smi_hangs(driver_host: MakeHost, state: str) -> None:
    host = driver_host(smi=state)
    began = time.monotonic()
    driver, gpus = driver_of(host, seconds=1.5)
    assert time.monotonic() - began < SOON
    assert driver.smi.status is ToolStatus.TIMEOUT
    assert isinstance(gpus, Missing) and gpus.why is Why.TIMEOUT
    assert host.left_behind() == []


def test_nvml_hangs(driver_host: MakeHost) -> None:
    host = driver_host(nvml="hang")
    began = time.monotonic()
    driver, gpus = driver_of(host, seconds=2)
    assert time.monotonic() - began < SOON
    assert driver.nvml.status is ToolStatus.TIMEOUT and driver.nvml.message.startswith("nvmlInit did not return")
    assert isinstance(gpus, Missing) and gpus.why is Why.TIMEOUT
    assert host.left_behind() == []


def test_nvml_hangs_and_nvidia_smi_is_slow_but_right(driver_host: MakeHost) -> None:
    driver, gpus = driver_of(driver_host(nvml="hang", smi="slow", FAKE_SMI_SECONDS="0.5"), seconds=3.5)
    assert (driver.nvml.status, driver.smi.status, driver.version, driver.cuda) == (ToolStatus.TIMEOUT, ToolStatus.OK, "580.95.05", "13.0")
    assert len(devices_of(gpus).devices) == 2


@pytest.mark.slow
def test_eight_seconds_of_nvidia_smi_fit_the_budget(driver_host: MakeHost) -> None:
    began = time.monotonic()
    driver, gpus = driver_of(driver_host(smi="slow"))
    assert time.monotonic() - began < 15, "both calls side by side"
    assert (driver.smi.status, driver.version, driver.cuda) == (ToolStatus.OK, "580.95.05", "13.0")
    assert len(devices_of(gpus).devices) == 2


def test_the_loaded_module_wins_and_every_reading_is_kept(driver_host: MakeHost) -> None:
    files = {
        "/sys/module/nvidia/version": "570.195.03\n",
        "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.195.03  Sat Sep 20 2025\n",
        "/proc/driver/nvidia/gpus/0000:01:00.0/information": "",
        "/dev/nvidia0": "",
        "/dev/nvidiactl": "",
        "/dev/nvidia-uvm": "",
        "/dev/null": "",
    }
    driver, _ = driver_of(driver_host(smi="ok", files=files))
    assert (driver.version, driver.source, driver.flavour) == ("570.195.03", "/sys/module/nvidia/version", "proprietary")
    assert (driver.module_loaded, driver.gpu_count_proc) == (True, 1)
    assert driver.device_nodes == ("nvidia-uvm", "nvidia0", "nvidiactl")
    assert [reading.driver for reading in driver.readings] == ["570.195.03", "570.195.03", "580.95.05", "580.95.05"]


def test_a_container_on_a_gpu_host_without_gpus(driver_host: MakeHost) -> None:
    """/sys and /proc are the host's; no library, no node, no tool came with it."""
    files = {"/sys/module/nvidia/version": "580.159.04\n", "/proc/driver/nvidia/version": OPEN_580}
    driver, gpus = driver_of(driver_host(files=files))
    assert (driver.version, driver.flavour, driver.module_loaded, driver.device_nodes) == ("580.159.04", "open", True, ())
    assert (driver.nvml.status, driver.smi.status) == (ToolStatus.ABSENT, ToolStatus.ABSENT)
    assert isinstance(gpus, Missing) and gpus.why is Why.ABSENT


def test_device_nodes_without_libraries(driver_host: MakeHost) -> None:
    driver, gpus = driver_of(driver_host(files={"/dev/nvidia0": "", "/dev/nvidiactl": ""}))
    assert driver.device_nodes == ("nvidia0", "nvidiactl")
    assert isinstance(gpus, Missing) and gpus.why is Why.FAILED


def test_wsl_has_a_windows_driver_and_no_module(driver_host: MakeHost) -> None:
    driver, _ = driver_of(driver_host(smi="ok", files={"/dev/dxg": ""}))
    assert (driver.windows_version, driver.version, driver.module_loaded) == ("580.95.05", "580.95.05", None)


def test_library_version_from_the_file_name(driver_host: MakeHost, fake_libraries: dict[str, Path], tmp_path: Path) -> None:
    real = tmp_path / "libnvidia-ml.so.580.95.05"
    real.write_bytes((fake_libraries["nvml"] / "libnvidia-ml.so.1").read_bytes())
    (tmp_path / "libnvidia-ml.so.1").symlink_to(real.name)
    driver, _ = driver_of(driver_host(LD_LIBRARY_PATH=str(tmp_path), FAKE_NVML="mismatch"))
    assert (driver.nvml.code, driver.library_version) == (18, "580.95.05")


def test_fabric_manager(driver_host: MakeHost) -> None:
    """The fake's GPUs report a fabric; who runs there is read from /proc."""
    files = {f"/proc/{pid}/comm": name for pid, name in (("1", "systemd\n"), (str(os.getpid()), "nv-fabricmanage\n"))}
    assert driver_of(driver_host(smi="ok", files=files))[0].fabric_manager == "running"
    stopped = {**files, f"/proc/{os.getpid()}/comm": "python\n", "/usr/bin/nv-fabricmanager": ""}
    assert driver_of(driver_host(smi="ok", files=stopped))[0].fabric_manager == "stopped"
    hidden = {"/proc/1/comm": "python\n"}
    assert driver_of(driver_host(smi="ok", files=hidden))[0].fabric_manager is None


def test_recorded_and_replayed(driver_host: MakeHost) -> None:
    recording = RecordingHost(driver_host(smi="ok", nvml="ok"))
    here = probe_driver(recording)
    again = probe_driver(ReplayHost(recording.answers, recording.env))
    assert here == again


def test_kernel_log_of_a_recorded_machine() -> None:
    log = "[   10.0] NVRM: Xid (PCI:0000:02:00): 79, GPU has fallen off the bus.\n[ 11.0] NVRM: RmInitAdapter failed! (0x22:0x56:884)\n"
    answers = {
        "exists /sys/module": True,
        "exists /sys/module/nvidia": True,
        "read /sys/module/nvidia/version": "580.95.05",
        "listdir /dev": ["nvidia0"],
        "run dmesg": {"code": 0, "stdout": log},
        "read /proc/uptime": "110.50 400.0",
    }
    driver, _ = driver_of(ReplayHost(answers))
    assert [(xid.code, xid.bus_id, xid.seconds_ago) for xid in driver.xids] == [(79, "0000:02:00", 100.5)]
    assert driver.kernel_messages == ("NVRM: RmInitAdapter failed! (0x22:0x56:884)",)


def test_what_nvml_calls_a_driver_version_is_one() -> None:
    words = {"abc": None, "580.95.05": "580.95.05", "": None}
    for said, version in words.items():
        line = json.dumps({"step": "system", "driver": said, "cuda": 13000})
        assert read_nvml(Completed(("child",), 0, line + "\n")).driver == version


def test_answers_of_a_child_that_nobody_expects() -> None:
    noise = 'hello\n{"step": "init", "code": 0}\n{"step":\n[1]\n{"step": "count", "count": "two", "code": 0}\n'
    noise += '{"step": "device", "index": 0, "name": 7}\n{"step": "device", "index": null}\n{"step": "system", "driver": 5, "cuda": "x"}\n'
    answer = read_nvml(Completed(("child",), 3, noise, "Traceback\nValueError: no\n"))
    assert (answer.gpus, answer.driver, answer.cuda, answer.count) == ((), None, None, None)
    assert answer.answer.status is ToolStatus.FAILED and answer.answer.message == "ValueError: no"


def test_ctrl_c_ends_the_children(tmp_path: Path) -> None:
    marker = f"envcheck-sigint-{os.getpid()}"
    env = {
        **os.environ,
        "PATH": f"{SMI.parent}:/usr/bin:/bin",
        "FAKE_SMI": "tree",
        "ENVCHECK_TEST": marker,
        "FAKE_SMI_LOG": str(tmp_path / "log"),
    }
    env["PYTHONPATH"] = str(FAULTS.parents[1])
    program = "from envcheck.host.access import RealHost; from envcheck.probes.driver import probe_driver; probe_driver(RealHost(), 60)"
    process = subprocess.Popen([sys.executable, "-c", program], env=env, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (tmp_path / "log").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    process.wait(60)
    left = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if f"ENVCHECK_TEST={marker}".encode() in Path(f"/proc/{pid}/environ").read_bytes():
                left.append(pid)
        except OSError:
            continue
    assert left == []


def test_a_closed_host_starts_nothing_that_lives() -> None:
    host = RealHost()
    host.close()
    began = time.monotonic()
    host.run(("sleep", "300"), timeout=200)
    assert time.monotonic() - began < SOON


@settings(max_examples=60, deadline=None)
@given(st.text(), st.text(), st.sampled_from([0, 1, 6, 15, 139, -11, None]))
def test_no_answer_of_any_source_raises(text: str, other: str, code: int | None) -> None:
    """A machine on which every file and every program says something odd."""

    class Odd(ReplayHost):
        def run(self, argv: Sequence[str], *, timeout: float, env: Mapping[str, str] | None = None) -> Completed:
            return Completed(tuple(argv), code, text, other)

        def child(self, program: str, *arguments: str, timeout: float) -> Completed:
            lines = '{"step": "load"}\n{"step": "count", "count": 1, "code": 0}\n{"step": "device", "index": 0}\n'
            return Completed((program,), code, lines + text, other)

        def read(self, path: str, limit: int = READ_LIMIT) -> str | None:
            return text

        def listdir(self, path: str) -> tuple[str, ...] | None:
            return ("1", "nvidia0", text.replace("/", ""))

        def exists(self, path: str) -> bool:
            return path != "/dev/dxg"

        def which(self, name: str) -> str | None:
            return f"/usr/bin/{name}"

        def libraries(self, name: str) -> tuple[str, ...]:
            return (f"/usr/lib/{name}",)

    driver, gpus = driver_of(Odd({}), 2.0)
    for section, facts in (("driver", driver), ("gpus", gpus), ("cuda_driver", probe_cuda(Odd({}))), ("toolkit", probe_toolkit(Odd({})))):
        assert decode(_hints(Snapshot)[section], json.loads(json.dumps(encode(facts)))) == facts


FAULT_KIT = {
    "ok": ToolStatus.OK,
    "ok_r610": ToolStatus.OK,
    "mismatch": ToolStatus.FAILED,
    "nocomm": ToolStatus.FAILED,
    "nodevices": ToolStatus.FAILED,
    "partial": ToolStatus.FAILED,
    "garbage": ToolStatus.UNREADABLE,
    "segv": ToolStatus.CRASHED,
}


@pytest.mark.parametrize("state", FAULT_KIT)
def test_fault_kit(driver_host: MakeHost, state: str) -> None:
    folder = SHARED / "faults" / "smi" / state
    if not folder.is_dir():
        pytest.skip("the fault kit is not beside this checkout")
    driver, _ = driver_of(driver_host(folder=folder))
    assert driver.smi.status is FAULT_KIT[state]
