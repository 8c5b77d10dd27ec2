"""The table that plain `nvidia-smi` prints, `-L` and `--version`, of drivers 384 to 617, Linux, Windows and WSL.

| NVIDIA-SMI 535.113.01             Driver Version: 535.113.01   CUDA Version: 12.2     |      up to R595
| NVIDIA-SMI 610.43.02              KMD Version: 610.43.02     CUDA UMD Version: 13.3     |    from R610
|   0  NVIDIA A100-SXM4-80GB          Off |   00000000:01:00.0 Off |                   On |
| N/A   44C    P0            174W /  500W |   10129MiB /  81920MiB |     N/A      Default |
|                                         |                        |              Enabled |
GPU 0: NVIDIA A10 (UUID: GPU-…)
  MIG 3g.40gb     Device  0: (UUID: MIG-…)
DRIVER version      : Deprecated, see "KMD version" instead
KMD version         : 610.57.04
"""

from __future__ import annotations

import re

from envcheck.facts.program_names import process_name
from envcheck.facts.record import field, mutable
from envcheck.facts.snapshot import Gpu, GpuProcess
from envcheck.read import smi_fields


@mutable
class Table:
    """What was found; `cuda` is the word as printed, a version or "N/A", "ERR!", "Not Found"."""

    smi_version: str | None = None
    library_version: str | None = None
    driver: str | None = None
    cuda: str | None = None
    gpus: tuple[Gpu, ...] = ()
    lost: tuple[str, ...] = ()


_SMI = re.compile(r"NVIDIA-SMI\s+([0-9]{3}[0-9.]*)")
_DRIVER = re.compile(r"(?:Driver|KMD) Version:\s*(\S+)")
_CUDA = re.compile(r"CUDA(?: UMD)? Version:\s*([^|\s][^|]*)")
# Up to R595 "CUDA Version" has a capital; the -q report writes "Driver Version", which is not ours.
_VERSION = re.compile(r"\s*(NVIDIA-SMI|NVML|DRIVER|KMD|CUDA UMD|CUDA(?= [vV]))\s(?:version|(?<=CUDA )Version)\s*:\s*(\S.*)")

_NAME_ROW = re.compile(
    r"\|\s*([0-9]{1,3})\s([^|]{1,200}?)\s(On|Off|WDDM|TCC|MCDM|N/A|ERR!)\s*"
    r"\|\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s+([^\s|]+)\s*\|\s*([^\s|]+)\s*\|"
)
_USE_ROW = re.compile(
    r"\|\s*([^\s|]+)\s+([^\s|]+)\s+([^\s|]+)\s+([^\s|]{1,20})\s{0,20}/\s{0,20}([^\s|]{1,20})\s*"
    r"\|([^|]*)\|\s*([^\s|]+)\s([^|]*)\|"
)
_MIG_ROW = re.compile(r"\|\s*\|\s*\|\s*(Enabled|Disabled|N/A)\*?\s*\|")
_MIG_DEVICE = re.compile(r"\|\s*([0-9]{1,3})\s+([0-9]{1,3})\s+([0-9]{1,3})\s+([0-9]{1,3})\s*\|\s*[0-9]+MiB\s*/\s*[0-9]+MiB\s*\|")
_PROCESS = re.compile(
    r"\|\s*([0-9]{1,3})\s+(?:(?:N/A|[0-9]{1,3})\s+(?:N/A|[0-9]{1,3})\s+)?([0-9]{1,9})\s+(C\+G|M\+C|C|G|M)\s+(\S.{0,300}?)\s([0-9]{1,9}MiB|N/A)\s*\|"
)
_LIST = re.compile(r"\s*GPU ([0-9]{1,3}): (\S.*?) \(UUID: (GPU-[^)\s]+)\)")
_LIST_MIG = re.compile(r"\s*MIG (\S+)\s+Device\s+[0-9]+: \(UUID: (MIG-[^)\s]+)\)")


@mutable
class _Row:
    index: int
    values: list[tuple[str, str]] = field(default_factory=list)
    mig: list[str] = field(default_factory=list)
    processes: list[GpuProcess] = field(default_factory=list)

    def gpu(self) -> Gpu:
        return smi_fields.gpu(self.values, self.index, mig_devices=tuple(self.mig), processes=tuple(self.processes))


def read_table(text: str) -> Table | None:
    """The table, or as much of it as is there; None if there is none."""
    table = Table()
    rows: dict[int, _Row] = {}
    current: _Row | None = None
    for raw in text.splitlines():
        line = raw[:400]
        if _read_head(table, line):
            continue
        if match := _NAME_ROW.search(line):
            current = _Row(int(match.group(1)))
            current.values = _name_row(match)
            # Tables of one text may repeat (watch, or two runs): the last one counts.
            rows[current.index] = current
        elif match := _PROCESS.search(line):
            row = rows.get(int(match.group(1)))
            if row is not None:
                row.processes.append(_process(match))
            current = None
        elif match := _MIG_DEVICE.search(line):
            row = rows.get(int(match.group(1)))
            if row is not None:
                row.mig.append(f"GI {match.group(2)} CI {match.group(3)}")
            current = None
        elif current is not None and (match := _MIG_ROW.search(line)):
            current.values.append(("mig.mode.current", match.group(1)))
            current = None
        elif current is not None and (match := _USE_ROW.search(line)):
            current.values += _use_row(match)
    table.gpus = tuple(rows[index].gpu() for index in sorted(rows))
    table.lost = smi_fields.lost(table.gpus)
    return table if table.gpus or table.smi_version or table.driver else None


def _read_head(table: Table, line: str) -> bool:
    driver, cuda = _DRIVER.search(line), _CUDA.search(line)
    smi = _SMI.search(line)
    if smi is None and not (driver and cuda):
        return False
    if smi:
        table.smi_version = smi.group(1)
    if driver:
        table.driver = smi_fields.driver_version(driver.group(1))
    if cuda:
        table.cuda = cuda.group(1).rstrip()
    return True


def _name_row(match: re.Match[str]) -> list[tuple[str, str]]:
    index, name, mode, bus, _display, ecc = match.groups()
    values = [("index", index), ("name", name.strip()), ("pci.bus_id", bus)]
    if mode in ("WDDM", "TCC", "MCDM"):  # on Windows this column is the driver model, elsewhere persistence mode
        values.append(("driver_model.current", mode))
    # The ECC cell is the count of volatile uncorrected errors where ECC is on, "Off", or "On" under MIG.
    if ecc.isdecimal():
        values += [("ecc.mode.current", "On"), ("ecc.errors.uncorrected.volatile.total", ecc)]
    else:
        values.append(("ecc.mode.current", ecc))
    return values


def _use_row(match: re.Match[str]) -> list[tuple[str, str]]:
    _fan, temperature, _state, draw, limit, memory, utilization, mode = (cell.strip() for cell in match.groups())
    used, _, total = memory.partition("/")
    values = [
        ("temperature.gpu", temperature),
        ("power.draw", draw),
        ("power.limit", limit),
        ("memory.used", used if total else memory),  # "GPU is lost" fills the whole cell
        ("utilization.gpu", utilization),
        ("compute_mode", mode),
    ]
    if total:
        values.append(("memory.total", total))
    return values


def _process(match: re.Match[str]) -> GpuProcess:
    _index, pid, kind, name, memory = match.groups()
    return GpuProcess(int(pid), process_name(name.rstrip()), smi_fields.size(memory), kind)


def read_list(text: str) -> tuple[Gpu, ...]:
    """The devices of `nvidia-smi -L`, MIG devices under theirs."""
    rows: dict[int, _Row] = {}
    current: _Row | None = None
    for raw in text.splitlines():
        line = raw[:400]
        if match := _LIST.match(line):
            current = _Row(int(match.group(1)), [("name", match.group(2)), ("uuid", match.group(3))])
            rows[current.index] = current
        elif current is not None and (match := _LIST_MIG.match(line)):
            current.mig.append(match.group(2))
            if ("mig.mode.current", "Enabled") not in current.values:
                current.values.append(("mig.mode.current", "Enabled"))
    return tuple(rows[index].gpu() for index in sorted(rows))


def read_version(text: str) -> Table | None:
    """`nvidia-smi --version`; from R610 on the old lines hold prose and new ones the numbers."""
    table = Table()
    for line in text.splitlines():
        match = _VERSION.match(line[:400])
        if match is None:
            continue
        value = match.group(2).rstrip()
        driver = smi_fields.driver_version(value)
        match match.group(1):
            case "NVIDIA-SMI":
                table.smi_version = driver
            case "NVML":
                table.library_version = driver
            case "DRIVER" | "KMD" if driver:
                table.driver = driver
            case "CUDA" | "CUDA UMD" if not value.startswith("Deprecated"):
                table.cuda = value
    return table if table.smi_version or table.driver or table.library_version else None
