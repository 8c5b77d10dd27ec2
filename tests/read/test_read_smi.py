"""nvidia-smi's output of many drivers and states, against facts read off by hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.facts.snapshot import Gpu
from envcheck.read import smi_dump, smi_fields, smi_query
from envcheck.read.kernel import read_complaints, read_module_version, read_xids
from envcheck.read.nvcc import read_nvcc, read_tool_version
from envcheck.read.rocm_smi import read_rocm_smi
from envcheck.read.smi import SmiReport, read_failure, read_smi
from envcheck.read.topology import matrix

SAMPLES = Path(__file__).parents[1] / "samples"
SHARED = Path(os.environ.get("ENVCHECK_SHARED", Path(__file__).parents[3] / "shared"))
MIB = 1 << 20


def sample(name: str) -> SmiReport:
    return read_smi((SAMPLES / "nvidia_smi" / name).read_text(encoding="utf-8", errors="replace"))


# file → driver, CUDA, the word in its place, exit code of the failure, and the devices: (index, name, MiB, bus id).
GOLDEN: dict[str, tuple[str | None, str | None, str | None, int | None, list[tuple[int, str | None, int | None, str | None]]]] = {
    "a100-580-mig-disabled-q.txt": ("580.126.09", "13.0", None, None, [(0, "NVIDIA A100-SXM4-40GB", 40960, "00000000:00:04.0")]),
    "a100-mig-550-2gpu.txt": (
        "550.54.14",
        "12.4",
        None,
        None,
        [(0, "NVIDIA A100-SXM4-80GB", 81920, "00000000:01:00.0"), (1, "NVIDIA A100-SXM4-80GB", 81920, "00000000:41:00.0")],
    ),
    "csv-driver-two-gpus.txt": ("572.60", None, None, None, [(0, None, None, None), (1, None, None, None)]),
    "fail-device-handle.txt": (None, None, None, 15, []),
    "fail-no-devices.txt": (None, None, None, 6, []),
    "fail-no-libnvidia-ml.txt": (None, None, None, 12, []),
    "fail-no-nvidiactl.txt": (None, None, None, 17, []),
    "fail-nvml-unknown.txt": (None, None, None, 255, []),
    "fail-nvml18.txt": (None, None, None, 18, []),
    "gb10-csv-580.txt": ("580.142", "13.0", None, None, [(0, "NVIDIA GB10", None, "0000000F:01:00.0")]),
    "gtx1050ti-535.txt": ("535.113.01", "12.2", None, None, [(0, "NVIDIA GeForce GTX 1050 Ti", 4096, "00000000:01:00.0")]),
    "gtx105x-410-no-cuda-field.txt": ("410.48", None, None, None, [(0, "GeForce GTX 105...", 4040, "00000000:01:00.0")]),
    "gtx780-440-na.txt": ("440.33.01", "10.2", None, None, [(0, "GeForce GTX 780", 3016, "00000000:01:00.0")]),
    "h200-580-busy.xml": ("580.159.04", "13.0", None, None, [(0, "NVIDIA H200", 143771, "00000000:00:06.0")]),
    "h200-580-q.txt": ("580.159.04", "13.0", None, None, [(0, "NVIDIA H200", 143771, "00000000:00:06.0")]),
    "h200-580-query.csv": ("580.159.04", None, None, None, [(0, "NVIDIA H200", 143771, "00000000:00:06.0")]),
    "h200-580-table-busy.txt": ("580.159.04", "13.0", None, None, [(0, "NVIDIA H200", 143771, "00000000:00:06.0")]),
    "h200-580-table.txt": ("580.159.04", "13.0", None, None, [(0, "NVIDIA H200", 143771, "00000000:00:06.0")]),
    "h200-580-version.txt": ("580.159.04", "13.0", None, None, []),
    "header-580-cuda13.txt": ("580.126.20", "13.0", None, None, []),
    "list-a10-t4-l.txt": (
        None,
        None,
        None,
        None,
        [(0, "NVIDIA A10", None, None), (1, "NVIDIA A10", None, None), (2, "Tesla T4", None, None), (3, "Tesla T4", None, None)],
    ),
    "mx250-535-cuda-err-stub.txt": ("535.183.06", None, "ERR!", None, [(0, "NVIDIA GeForce MX250", 2048, "00000000:01:00.0")]),
    "p2000-410.txt": ("410.78", "10.0", None, None, [(0, "Quadro P2000", 5058, "00000000:01:00.0")]),
    "q-performance-old-throttle.txt": (None, None, None, None, [(0, None, None, None)]),
    "q-performance-sw-power-cap.txt": (None, None, None, None, [(0, None, None, None)]),
    "q-temperature-mx330-465.txt": ("465.27", "11.3", None, None, [(0, None, None, "00000000:2D:00.0")]),
    "q-v100-passthrough.txt": (None, None, None, None, [(0, "Tesla V100-PCIE-16GB", None, "00000000:00:07.0")]),
    "q-v100-sxm2-old.txt": (None, None, None, None, [(0, "Tesla V100-SXM2-16GB", None, "00000000:06:00.0")]),
    "q-vgpu-host-cuda-not-found-525.txt": (
        "525.147.01",
        None,
        "Not Found",
        None,
        [(0, "NVIDIA GeForce RTX 4088", None, "00000000:01:00.0")],
    ),
    "rocm-smi-showhw-gfx1102.txt": (None, None, None, None, []),
    "row-v100-err-power.txt": (None, None, None, None, [(1, "Tesla V100-PCIE...", 16160, "00008ED0:00:00.0")]),
    "rtx3060-525.txt": ("525.147.05", "12.0", None, None, [(0, "NVIDIA GeForce ...", 12288, "00000000:09:00.0")]),
    "rtx5070l-610-umd.txt": ("610.43.02", "13.3", None, None, [(0, "NVIDIA GeForce RTX 5070 ...", 12227, "00000000:02:00.0")]),
    "rtx5070ti-580-with-csv.txt": ("580.95.05", "13.0", None, None, [(0, "NVIDIA GeForce RTX 5070 Ti", 16303, "00000000:01:00.0")]),
    "rtxpro6000x4-595-list-csv.txt": (
        "595.91.07",
        "13.2",
        None,
        2,
        [
            (index, "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 97887, bus)
            for index, bus in enumerate(("00000000:01:00.0", "00000000:41:00.0", "00000000:81:00.0", "00000000:C1:00.0"))
        ],
    ),
    "version-wsl-580-581.txt": ("581.42", "13.0", None, None, [(0, "NVIDIA GeForce RTX 3090", None, None)]),
    "windows-461-tcc-wddm-header.txt": ("461.92", "11.2", None, None, []),
    "wsl-3090-515-516.txt": ("516.94", "11.6", None, None, [(0, "NVIDIA GeForce ...", 24576, "00000000:0A:00.0")]),
}


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_golden(name: str) -> None:
    report = sample(name)
    driver, cuda, state, code, devices = GOLDEN[name]
    assert (report.driver, report.cuda, report.cuda_state) == (driver, cuda, state)
    assert (report.failure.code if report.failure else None) == code
    assert [(gpu.index, gpu.name, gpu.memory_bytes and gpu.memory_bytes // MIB, gpu.bus_id) for gpu in report.gpus] == devices


def test_every_sample_is_in_the_table() -> None:
    assert {path.name for path in (SAMPLES / "nvidia_smi").iterdir()} == set(GOLDEN)


def test_all_public_cases_are_read_without_a_surprise() -> None:
    folder = SHARED / "cases" / "nvidia_smi"
    if not folder.is_dir():
        pytest.skip("the folder of public cases is not beside this checkout")
    for path in folder.iterdir():
        report = read_smi(path.read_text(encoding="utf-8", errors="replace"))
        assert report.readable or path.name.startswith("rocm"), path.name


def test_what_only_some_samples_hold() -> None:
    """Single facts that the table above has no column for."""
    mig = sample("a100-mig-550-2gpu.txt").gpus
    assert [(gpu.mig, gpu.ecc, gpu.ecc_uncorrected_volatile, gpu.utilization_percent) for gpu in mig] == [(True, True, None, None)] * 2
    assert sample("gb10-csv-580.txt").gpus[0].compute_capability == "12.1"
    assert sample("rtx5070ti-580-with-csv.txt").gpus[0].compute_capability == "12.0"
    assert sample("version-wsl-580-581.txt").smi_version == "580.82.07"
    assert sample("wsl-3090-515-516.txt").smi_version == "515.65.01"
    assert sample("q-v100-sxm2-old.txt").attached == 8
    assert sample("list-a10-t4-l.txt").gpus[2].uuid == "GPU-00000000-0000-0000-0000-000000000002"
    assert [gpu.throttle_reasons for gpu in sample("rtxpro6000x4-595-list-csv.txt").gpus] == [4, 4, 4, 4]
    assert sample("q-performance-sw-power-cap.txt").gpus[0].throttle_reasons == 0x4
    assert sample("q-performance-old-throttle.txt").gpus[0].throttle_reasons == 0x1
    assert sample("q-temperature-mx330-465.txt").gpus[0].temperature_celsius == 56
    err = sample("row-v100-err-power.txt").gpus[0]
    assert err.power_watts is None and err.error is None and err.power_limit_watts == 250
    desktop = sample("gtx105x-410-no-cuda-field.txt").gpus[0]
    assert [(one.pid, one.type, one.memory_bytes) for one in desktop.processes] == [(4013, "G", 170 * MIB), (5328, "G", MIB)]
    assert sample("fail-device-handle.txt").lost == ("Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error.",)


def test_the_same_card_in_every_form() -> None:
    xml, text = sample("h200-580-busy.xml").gpus[0], sample("h200-580-q.txt").gpus[0]
    table, csv = sample("h200-580-table-busy.txt").gpus[0], sample("h200-580-query.csv").gpus[0]
    for gpu in (xml, text, csv):
        assert (gpu.pcie_generation, gpu.pcie_generation_max, gpu.pcie_width, gpu.pcie_width_max) == (5, 5, 16, 16)
        assert (gpu.fabric_state, gpu.fabric_status, gpu.ecc, gpu.mig) == ("N/A", "N/A", True, False)
        assert (gpu.sm_clock_max_mhz, gpu.power_limit_watts) == (1980, 700)
    for gpu in (xml, text):
        assert (gpu.remap_pending, gpu.remap_failed, gpu.retired_pages_pending, gpu.recovery_action) == (False, False, None, "None")
        assert (gpu.ecc_uncorrected_volatile, gpu.ecc_uncorrected_aggregate) == (0, 0)
    assert (xml.throttle_reasons, text.throttle_reasons, csv.throttle_reasons) == (0x4, 0x1, 0x1)
    assert xml.processes == table.processes
    assert [(one.pid, one.name, one.memory_bytes, one.type) for one in xml.processes] == [(416, "python3", 2666 * MIB, "C")]
    assert csv.compute_capability == "9.0"


# From R610 on beside the old elements, which will go with CUDA 14.0.
R610_XML = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">
<nvidia_smi_log>
  <kmd_version>610.57.04</kmd_version><cuda_umd_version>13.3</cuda_umd_version><attached_gpus>1</attached_gpus>
  <gpu id="00000000:09:00.0">
    <product_name>NVIDIA A100-SXM4-40GB</product_name><uuid>GPU-aa</uuid>
    <mig_mode><current_mig>Enabled</current_mig><pending_mig>Enabled</pending_mig></mig_mode>
    <mig_devices>
      <mig_device><index>0</index><gpu_instance_id>1</gpu_instance_id><compute_instance_id>0</compute_instance_id>
        <fb_memory_usage><total>20096 MiB</total><used>1 MiB</used></fb_memory_usage></mig_device>
      <mig_device><index>1</index><gpu_instance_id>2</gpu_instance_id><compute_instance_id>0</compute_instance_id>
        <uuid>MIG-bb</uuid></mig_device>
    </mig_devices>
    <fb_memory_usage><total>40960 MiB</total><used>59 MiB</used><free>40000 MiB</free></fb_memory_usage>
    <ecc_errors><volatile><sram_uncorrectable_parity>1</sram_uncorrectable_parity>
      <sram_uncorrectable_secded>2</sram_uncorrectable_secded><dram_uncorrectable>4</dram_uncorrectable></volatile>
      <aggregate><dram_uncorrectable>9</dram_uncorrectable></aggregate></ecc_errors>
    <remapped_rows><remapped_row_pending>Yes</remapped_row_pending><remapped_row_failure>No</remapped_row_failure></remapped_rows>
    <processes><process_info><pid>7</pid><type>C</type><process_name>a&lt;b&gt;&amp;c</process_name>
      <used_memory>12 MiB</used_memory></process_info></processes>
  </gpu>
</nvidia_smi_log>"""


def test_xml_of_r610_with_mig() -> None:
    report = read_smi(R610_XML)
    assert (report.driver, report.cuda, report.attached, report.formats) == ("610.57.04", "13.3", 1, ("xml",))
    gpu = report.gpus[0]
    assert (gpu.mig, gpu.mig_devices, gpu.memory_bytes) == (True, ("GI 1 CI 0", "MIG-bb"), 40960 * MIB)
    assert (gpu.ecc_uncorrected_volatile, gpu.ecc_uncorrected_aggregate, gpu.remap_pending) == (7, 9, True)
    assert gpu.processes[0].name == "a<b>&c"


def test_xml_that_was_cut_gives_what_came_before() -> None:
    report = read_smi(R610_XML[: R610_XML.index("<aggregate>")])
    assert report.gpus[0].memory_bytes == 40960 * MIB and report.gpus[0].ecc_uncorrected_volatile == 7
    assert report.gpus[0].ecc_uncorrected_aggregate is None


def test_a_lost_gpu_in_xml_keeps_its_static_fields() -> None:
    gpu = '<gpu id="00000000:{0}:00.0"><product_name>NVIDIA GB200</product_name><fb_memory_usage><total>{1}</total></fb_memory_usage></gpu>'
    report = read_smi("<nvidia_smi_log>" + gpu.format("01", "1 MiB") + gpu.format("02", "GPU is lost") + "</nvidia_smi_log>")
    assert [one.error for one in report.gpus] == [None, "GPU is lost"]
    assert report.gpus[1].name == "NVIDIA GB200" and report.gpus[1].memory_bytes is None
    assert report.lost == ("GPU 00000000:02:00.0: GPU is lost",)


@pytest.mark.parametrize(
    ("line", "code", "index", "bus"),
    [
        ("Unable to determine the device handle for GPU1: 0000:02:00.0: Unknown Error", 15, 1, "00000000:02:00.0"),
        ("Unable to determine the device handle for GPU0000:91:00.0: Unknown Error", 15, None, "00000000:91:00.0"),
        ("Unable to determine the device handle for GPU2: Unknown Error", 15, 2, None),
        ("Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  Reboot the system", 15, None, "00000000:02:00.0"),
        ("Unable to determine the device handle for GPU1: 0000:02:00.0: GPU requires reset", 16, 1, "00000000:02:00.0"),
        ("Unable to determine the device handle for GPU1: 0000:02:00.0: Insufficient Permissions", 4, 1, "00000000:02:00.0"),
        ("Unable to determine the device handle for GPU", 15, None, None),
    ],
)
def test_a_gpu_without_a_handle(line: str, code: int, index: int | None, bus: str | None) -> None:
    report = read_smi(line)
    [one] = report.troubles
    assert (one.source, one.text, one.code, one.index, one.bus_id) == ("nvidia-smi", line, code, index, bus)
    assert report.lost == ((line,) if code == 15 else ())
    assert report.failure is not None and report.failure.code == code


def test_the_row_of_a_gpu_without_a_handle() -> None:
    """nvidia-smi prints a line in its place and a row of errors below; the GPUs after it keep their numbers."""
    rows = (
        "0, GPU-0000aaaa-0000, NVIDIA GeForce RTX 3090, 350.00\n"
        "Unable to determine the device handle for GPU0000:02:00.0: Unknown Error\n"
        "[Unknown Error], [Unknown Error], [Unknown Error], [Unknown Error]\n"
        "2, GPU-2222aaaa-0000, NVIDIA GeForce RTX 3090, 349.00\n"
    )
    gpus = smi_query.read_rows(("index", "uuid", "name", "power.limit"), rows).gpus
    assert [(gpu.index, gpu.error, gpu.name) for gpu in gpus] == [
        (0, None, "NVIDIA GeForce RTX 3090"),
        (1, "Unknown Error", None),
        (2, None, "NVIDIA GeForce RTX 3090"),
    ]


def test_sensors_that_cannot_be_read_are_no_fault() -> None:
    rows = "0, NVIDIA RTX A6000, GPU-0472e0b4, [Unknown Error], [Unknown Error], [Unknown Error], 6 MiB\n"
    [gpu] = smi_query.read_rows(("index", "name", "uuid", "temperature.gpu", "utilization.gpu", "power.draw", "memory.used"), rows).gpus
    assert gpu.error is None and gpu.memory_used_bytes == 6 * MIB and gpu.temperature_celsius is None
    [loop] = smi_query.read_rows(("utilization.gpu", "utilization.encoder"), "[Unknown Error], [Unknown Error]\n").gpus
    assert loop.error is None, "what nvidia-smi -l prints on some healthy cards"


MIG_TABLE = """
| NVIDIA-SMI 535.104.05             Driver Version: 535.104.05   CUDA Version: 12.2     |
|   0  NVIDIA A100-SXM4-40GB          On  | 00000000:07:00.0 Off |                   On |
| N/A   32C    P0              43W / 400W |     45MiB / 40960MiB |     N/A      Default |
|                                         |                      |              Enabled |
|   1  Tesla V100-SXM2...  On   | 00000000:1B:00.0 Off |                 ERR! |
|ERR!  ERR! ERR!    ERR! / ERR! |     GPU is lost      |    ERR!         ERR! |
| MIG devices:                                                                          |
|  0    1   0   0  |              12MiB / 19968MiB  | 42      0 |  3   0    2    0    0 |
|                  |               0MiB / 32767MiB  |           |                       |
|  0    2   0   1  |              12MiB / 19968MiB  | 42      0 |  3   0    2    0    0 |
"""


def test_table_with_mig_rows_and_a_lost_gpu() -> None:
    report = read_smi(MIG_TABLE)
    first, second = report.gpus
    assert first.mig_devices == ("GI 1 CI 0", "GI 2 CI 0") and first.memory_bytes == 40960 * MIB
    assert second.error == "GPU is lost" and second.memory_bytes is None
    assert report.lost == ("GPU 00000000:1B:00.0: GPU is lost",)


def test_list_with_mig() -> None:
    text = (
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n"
        "  MIG 3g.40gb     Device  0: (UUID: MIG-2)\n  MIG 3g.40gb     Device  1: (UUID: MIG-3)\n"
    )
    gpu = read_smi(text).gpus[0]
    assert (gpu.name, gpu.uuid, gpu.mig, gpu.mig_devices) == ("NVIDIA H100 80GB HBM3", "GPU-1", True, ("MIG-2", "MIG-3"))


def test_version_flag_of_r610_holds_prose() -> None:
    report = read_smi(
        "NVIDIA-SMI version  : 610.57.04\nNVML version        : 610.57\n"
        'DRIVER version      : Deprecated, see "KMD version" instead\nCUDA version        : Deprecated, see "CUDA UMD version" instead\n'
        "KMD version         : 610.57.04\nCUDA UMD version    : 13.3\n"
    )
    assert (report.driver, report.cuda, report.library_version, report.formats) == ("610.57.04", "13.3", "610.57", ("version",))


def test_q_text_of_r610() -> None:
    report = read_smi(
        "==============NVSMI LOG==============\n"
        "Driver Version                  : 610.57.04 [Deprecated; will be removed in CUDA 14.0. Use KMD Version instead]\n"
        "CUDA Version                    : 13.3 [Deprecated; will be removed in CUDA 14.0. Use CUDA UMD Version instead]\n"
        "KMD Version                     : 610.57.04\nCUDA UMD Version                : 13.3\nAttached GPUs                   : 2\n"
    )
    assert (report.driver, report.cuda, report.attached) == ("610.57.04", "13.3", 2)


def test_windows_table() -> None:
    report = read_smi(
        "| NVIDIA-SMI 610.62                 KMD Version: 610.62        CUDA UMD Version: 13.3     |\r\n"
        "|   0  NVIDIA GeForce RTX 4080 ... WDDM  |   00000000:01:00.0  On |                  N/A |\r\n"
        "|  0%   40C    P8             11W /  320W |    1024MiB /  16376MiB |      3%      E. Process |\r\n"
    )
    assert (report.driver, report.cuda) == ("610.62", "13.3")
    assert (report.gpus[0].driver_model, report.gpus[0].compute_mode) == ("WDDM", "Exclusive_Process")


def test_quoted_table() -> None:
    text = "\n".join("> " + line for line in (SAMPLES / "nvidia_smi" / "p2000-410.txt").read_text().splitlines())
    assert (read_smi(text).driver, read_smi(text).gpus[0].name) == ("410.78", "Quadro P2000")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Failed to initialize NVML: Insufficient Permissions", 4),
        ("Failed to initialize NVML: GPU access blocked by the operating system", 17),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that …", 9),
        ("bash: nvidia-smi: command not found", 127),
        ("/bin/sh: 1: nvidia-smi: not found", 127),
        ("'nvidia-smi' is not recognized as an internal or external command,", 127),
        ("WARNING: infoROM is corrupted at gpu 0000:01:00.0", 14),
        ("Unable to determine the device handle for GPU1: 0000:02:00.0: Unknown Error", 15),
    ],
)
def test_failures(text: str, code: int) -> None:
    failure = read_failure(f"some line\n{text}\n")
    assert failure is not None and (failure.code, failure.text) == (code, text)


def test_the_library_version_of_a_mismatch() -> None:
    report = read_smi("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.95\n")
    assert (report.failure and report.failure.code, report.library_version) == (18, "580.95")


def test_prose_is_no_answer() -> None:
    for text in (
        "",
        "hello",
        "The NVIDIA driver is fine, I think, isn't it",
        "name\nsome words below a header-like line\n",
        "Driver Version: banana",
    ):
        assert not read_smi(text).readable, text


def test_rows_without_compute_capability() -> None:
    assert smi_query.refused_field('Field "compute_cap" is not a valid field to query.\n') == "compute_cap"
    rows = smi_query.read_rows(("index", "name", "memory.total"), "0, Tesla T4, 15360\nwarning: noise\n1, Tesla T4, [N/A]\n")
    assert [(gpu.index, gpu.memory_bytes) for gpu in rows.gpus] == [(0, 15360 * MIB), (1, None)]


def test_merging_prefers_uuid_over_index_and_whole_names() -> None:
    first = (Gpu(0, name="NVIDIA GeForce RTX 2080 ...", uuid="GPU-a"), Gpu(1, uuid="GPU-b"))
    second = (Gpu(0, name="B", uuid="GPU-b"), Gpu(1, name="NVIDIA GeForce RTX 2080 SUPER", uuid="GPU-a"))
    merged = smi_fields.merge(first, second)
    assert [(gpu.index, gpu.name) for gpu in merged] == [(0, "NVIDIA GeForce RTX 2080 SUPER"), (1, "B")]
    apart = smi_fields.merge((Gpu(0, bus_id="00000000:01:00.0"),), (Gpu(0, bus_id="00000000:02:00.0"),))
    assert len(apart) == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0000:0b:00.0", "00000000:0B:00.0"),
        ("0000000F:01:00.0", "0000000F:01:00.0"),
        ("GPU 0000:02:00.0", "00000000:02:00.0"),
        ("N/A", None),
    ],
)
def test_bus_ids(text: str, value: str | None) -> None:
    assert smi_fields.bus_id(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("79.35 W", 79.35),
        ("0 %", 0),
        ("16x", 16),
        ("45%", 45),
        ("-8 C", -8),
        ("0x4", None),
        ("[N/A]", None),
        ("9" * 400, None),
        ("1.2.3", None),
    ],
)
def test_numbers(text: str, value: float | None) -> None:
    assert smi_fields.number(text) == value


def test_rocm_smi() -> None:
    text = (SAMPLES / "nvidia_smi" / "rocm-smi-showhw-gfx1102.txt").read_text()
    assert [(gpu.index, gpu.gfx, gpu.bus_id) for gpu in read_rocm_smi(text)] == [
        (0, "gfx1102", "0000:03:00.0"),
        (1, "gfx1036", "0000:12:00.0"),
    ]


KERNEL_LOG = """[    4.100000] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build
[   90.5] NVRM: API mismatch: the client 'nvidia-smi' (pid 12) NVRM: has the version 580.95.05, but this kernel module has 570.195.03
[74889.644138] NVRM: Xid (PCI:0000:02:00): 79, GPU has fallen off the bus.
[74890.1] NVRM: Xid (PCI:0000:cb:00): 13, pid='<unknown>', name=<unknown>, Graphics SM Warp Exception
[Fri Aug 30 11:43:14 2024] NVRM: Xid (PCI:0000:cb:00): 109, pid=1797828, name=pt_main_thread, Ch 00000008
"""


def test_kernel_log() -> None:
    xids = read_xids(KERNEL_LOG, uptime_seconds=74_900.0)
    assert [(xid.code, xid.bus_id) for xid in xids] == [(79, "0000:02:00"), (13, "0000:cb:00"), (109, "0000:cb:00")]
    assert xids[0].seconds_ago == pytest.approx(10.36, abs=0.01) and xids[2].seconds_ago is None
    assert xids[0].text == "GPU has fallen off the bus."
    echo = "NVRM: Xid (PCI:0000:dc:00): 45, pid=1818990, name=python3, Ch 00000001 caused by previous Xid 149"
    assert [(xid.code, xid.bus_id) for xid in read_xids(f"{echo}\n{echo}")] == [(149, "0000:dc:00"), (45, "0000:dc:00"), (45, "0000:dc:00")]
    complaints = read_complaints(KERNEL_LOG)
    assert len(complaints) == 1 and complaints[0].startswith("NVRM: API mismatch")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (builder@)\nGCC version: 15.3.0",
            ("580.159.04", "open"),
        ),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 09:35:42 UTC 2024", ("550.90.07", "proprietary")),
        ("NVRM version: NVIDIA UNIX aarch64 Kernel Module  465.27  Thu Apr 22 23:21:03 UTC 2021", ("465.27", "proprietary")),
        ("nothing", (None, None)),
    ],
)
def test_module_version(text: str, expected: tuple[str | None, str | None]) -> None:
    assert read_module_version(text) == expected


@pytest.mark.parametrize(
    ("name", "version", "release"),
    [
        ("cuda-9.1.85.txt", "9.1", "9.1.85"),
        ("cuda-10.2.89-windows.txt", "10.2", "10.2.89"),
        ("cuda-11.8.89.txt", "11.8", "11.8.89"),
        ("cuda-12.4.131.txt", "12.4", "12.4.131"),
        ("cuda-12.8.93.txt", "12.8", "12.8.93"),
        ("cuda-13.0.88.txt", "13.0", "13.0.88"),
        ("cuda-13.1.115.txt", "13.1", "13.1.115"),
    ],
)
def test_nvcc(name: str, version: str, release: str) -> None:
    found = read_nvcc((SAMPLES / "nvcc" / name).read_text())
    assert found is not None and (found.version, found.release) == (version, release)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("gcc (Ubuntu 13.3.0-6ubuntu2~24.04) 13.3.0\nCopyright (C) 2023", "13.3.0"),
        ("gcc (GCC) 4.8.5 20150623 (Red Hat 4.8.5-44)", "4.8.5"),
        ("Ubuntu clang version 18.1.3 (1ubuntu1)", "18.1.3"),
        ("1.11.1", "1.11.1"),
        ("13\n", "13"),
        ("clang: error: no input files", None),
        ("", None),
    ],
)
def test_tool_versions(text: str, version: str | None) -> None:
    assert read_tool_version(text) == version


_PIECES = st.sampled_from(
    [*R610_XML.splitlines(), *MIG_TABLE.splitlines(), *KERNEL_LOG.splitlines(), '<gpu id="', "</", "GPU 00000000:01:00.0", "\t| ", "[N/A]"]
)


@given(st.one_of(st.text(), st.lists(st.one_of(_PIECES, st.text(max_size=20)), max_size=30).map("\n".join)))
def test_no_text_raises(text: str) -> None:
    report = read_smi(text)
    assert isinstance(report, SmiReport)
    smi_dump.read_xml("<nvidia_smi_log>" + text)
    smi_query.read_rows(("index", "name", "memory.total"), text)
    read_xids(text, 1.0), read_complaints(text), read_module_version(text), read_rocm_smi(text)
    read_nvcc(text), read_tool_version(text)


def test_long_junk_takes_linear_time() -> None:
    import time

    began = time.process_time()
    for junk in ("<nvidia_smi_log>" + "<a>" * 50_000, "| " * 50_000, ("| " * 100 + "\n") * 500, "a, " * 50_000, "x: y\n" * 20_000):
        read_smi(junk)
    assert time.process_time() - began < 5


def test_the_topology_is_a_matrix() -> None:
    head = "        GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity"
    text = f"{head}\nGPU0     X      NV18    PIX     0-51            0\nNIC0    PIX     SYS      X"
    assert matrix(text) == (["GPU0", "GPU1", "NIC0"], [("GPU0", ["X", "NV18", "PIX"]), ("NIC0", ["PIX", "SYS", "X"])])
    assert matrix("GPU0     X      NV4") == (["GPU0", "GPU1"], [("GPU0", ["X", "NV4"])]), "without its head"
    assert matrix("") == ([], [])


@pytest.mark.parametrize("name", ["5090-1gpu-2nic", "a100-nv12-nic-pxb", "h100-nv18-9nic", "pcie-8gpu-pix-node-sys", "all-sys-10nic"])
def test_real_topologies_are_square(name: str) -> None:
    path = SHARED / "cases" / "topo" / f"{name}.txt"
    if not path.is_file():
        pytest.skip(f"{path} is not here")
    columns, rows = matrix(path.read_text(encoding="utf-8"))
    assert rows and all(len(cells) == len(columns) for _, cells in rows)
    at = {name: number for number, name in enumerate(columns)}
    assert [cells[at[name]] for name, cells in rows if name in at] == ["X"] * len(rows)
