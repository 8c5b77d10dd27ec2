"""Whatever nvidia-smi prints, in health and in failure, as one typed report.

`read_smi` takes any text: a table, `-L`, `--version`, CSV, `-q`, `-q -x`, an error, or several of them
pasted together with other lines between. Text that holds none of it gives an empty report.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from envcheck.facts.nvml_codes import (
    INFOROM,
    LOST,
    NO_LIBRARY,
    NO_PERMISSION,
    NOT_FOUND,
    NOT_LOADED,
    SMI_ARGUMENT,
    UNKNOWN,
    code_of,
    smi_exit_of,
)
from envcheck.facts.record import record
from envcheck.facts.snapshot import Gpu, GpuTrouble
from envcheck.read import smi_dump, smi_fields, smi_query, smi_table


@record
class SmiFailure:
    """An error of nvidia-smi in its own words, with the exit code that these words come with (an NVML code)."""

    code: int | None
    text: str


@record
class SmiReport:
    """What a text says. Numbers are None where nvidia-smi prints N/A, ERR! or nothing."""

    formats: tuple[str, ...] = ()  # "table", "list", "version", "csv", "q", "xml": what was recognised
    driver: str | None = None  # of the kernel module; under WSL the number of the Windows driver
    cuda: str | None = None  # newest CUDA of the driver, not of a toolkit
    cuda_state: str | None = None  # the word in place of the CUDA version: "N/A", "ERR!", "Not Found"
    smi_version: str | None = None  # of the nvidia-smi program; differs from `driver` under WSL and after an upgrade
    library_version: str | None = None  # of libnvidia-ml, often without its last part
    attached: int | None = None  # "Attached GPUs"
    gpus: tuple[Gpu, ...] = ()
    lost: tuple[str, ...] = ()
    troubles: tuple[GpuTrouble, ...] = ()  # of single GPUs, the lost ones included
    failure: SmiFailure | None = None

    @property
    def readable(self) -> bool:
        """It says something of a driver or a GPU, or names a failure."""
        return bool(self.formats) or self.failure is not None


# Words of a failure → exit status. https://docs.nvidia.com/deploy/nvidia-smi/index.html
_FAILURES: tuple[tuple[re.Pattern[str], int | None], ...] = tuple(
    (re.compile(words, re.IGNORECASE), code)
    for words, code in (
        (r"NVIDIA-SMI couldn't find \S+ library in your system.*", NO_LIBRARY),
        (r"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.*", NOT_LOADED),
        (r"NVIDIA-SMI has failed because you are not.*", NO_PERMISSION),
        (r"Failed to initialize NVML: .*", None),
        (r"No devices (?:were )?found.*", NOT_FOUND),
        (r"Unable to determine the device handle for GPU.*", None),
        (r"(?:WARNING: )?infoROM is corrupted at gpu.*", INFOROM),
        (r'Field "[^"]{1,80}" is not a valid field to query.*', SMI_ARGUMENT),
        (r"Invalid combination of input arguments.*", SMI_ARGUMENT),
        (r"(?:.{0,60}: )?(?:line [0-9]+: )?nvidia-smi: (?:command )?not found.*", 127),
        (r".{0,5}nvidia-smi.{0,5} is not recognized as .*", 127),
        (r".{0,60}nvidia-smi.{0,40}Segmentation fault.*", 139),
    )
)
_LIBRARY = re.compile(r"NVML library version: *([0-9]{3}[0-9.]*)")


def read_failure(text: str) -> SmiFailure | None:
    """The first line with which nvidia-smi says that it failed."""
    for line in _lines(text):
        for words, code in _FAILURES:
            match = words.match(line)
            if match is None:
                continue
            if line.startswith(_NO_HANDLE):
                code = _without_handle(line).code
            elif code is None:
                code = smi_exit_of(line.partition(":")[2])
            return SmiFailure(code, line)
    return None


_NO_HANDLE = "Unable to determine the device handle"
_OF_GPU = re.compile(r"for GPU ?([0-9]{1,3})?(?=:| )")


def _without_handle(line: str) -> GpuTrouble:
    """One GPU that nvidia-smi could not open. It ends with 15 (lost) unless it names another reason.

    Unable to determine the device handle for GPU1: 0000:02:00.0: Unknown Error
    Unable to determine the device handle for GPU0000:91:00.0: Unknown Error
    Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  Reboot the system to recover this GPU
    """
    words = line.rsplit(": ", 1)[-1] if ": " in line else ""
    code, number = code_of(words), _OF_GPU.search(line)
    index = int(number[1]) if number and number[1] else None
    return GpuTrouble("nvidia-smi", line, LOST if code in (None, UNKNOWN) else code, None, index, smi_fields.bus_id(line))


def without_handle(text: str) -> tuple[GpuTrouble, ...]:
    """The GPUs that nvidia-smi could not open, each once."""
    return tuple(dict.fromkeys(_without_handle(line) for line in _lines(text) if line.startswith(_NO_HANDLE)))


def lost_lines(troubles: Iterable[GpuTrouble]) -> tuple[str, ...]:
    """The words on those that are lost."""
    return tuple(one.text for one in troubles if one.code == LOST)


def _lines(text: str) -> list[str]:
    return [line.strip(" \t>|`")[:400] for line in text.splitlines() if line.strip()]


def read_smi(text: str) -> SmiReport:
    """Everything that nvidia-smi says in a text. Never raises."""
    text = text.replace("\r\n", "\n").replace("\0", "")
    formats: list[str] = []
    gpus: tuple[Gpu, ...] = ()
    closed = without_handle(text)
    lost = lost_lines(closed)
    heads: list[tuple[str | None, str | None]] = []  # driver and CUDA as printed, best source first
    xml = smi_dump.read_xml(text)
    dump = xml if xml is not None else smi_dump.read_text(text)
    if dump is not None:
        formats.append("xml" if xml is not None else "q")
        heads.append(_dump_head(dump))
        gpus, lost = dump.gpus, lost + dump.lost
    queries = smi_query.find(text)
    for rows in queries:
        heads.append((rows.driver, None))
        gpus = smi_fields.merge(gpus, rows.gpus) if gpus else rows.gpus
    formats += ["csv"] if queries else []
    version, table, listed = smi_table.read_version(text), smi_table.read_table(text), smi_table.read_list(text)
    for name, part in (("version", version), ("table", table)):
        if part is not None:
            formats.append(name)
            heads.append((part.driver, part.cuda))
            gpus, lost = smi_fields.merge(gpus, part.gpus), lost + part.lost
    if listed:
        formats.append("list")
        gpus = smi_fields.merge(gpus, listed)
    cuda = next((cuda for _, word in heads if word and (cuda := smi_fields.cuda_version(word))), None)
    return SmiReport(
        formats=tuple(formats),
        driver=next((driver for driver, _ in heads if driver), None),
        cuda=cuda,
        cuda_state=None if cuda else next((word for _, word in heads if word), None),
        smi_version=next((part.smi_version for part in (version, table) if part and part.smi_version), None),
        library_version=_library_version(text, version),
        attached=None if dump is None else smi_fields.integer(dump.head.get("attached_gpus", "")),
        gpus=gpus,
        lost=tuple(dict.fromkeys(lost)),
        troubles=(*closed, *smi_fields.troubles(gpus)),
        failure=read_failure(text),
    )


def _library_version(text: str, version: smi_table.Table | None) -> str | None:
    match = _LIBRARY.search(text)
    if match:
        return match.group(1).rstrip(".")
    return version.library_version if version else None


def _dump_head(dump: smi_dump.Dump) -> tuple[str | None, str | None]:
    """Driver and CUDA of an XML or -q report: R610 adds kmd_version and cuda_umd_version and will drop the old names."""
    head = dump.head
    driver = next((one for name in ("kmd_version", "driver_version") if (one := smi_fields.driver_version(head.get(name, "")))), None)
    words = [head[name] for name in ("cuda_umd_version", "cuda_version") if name in head]
    return driver, next((word for word in words if smi_fields.cuda_version(word)), words[0] if words else None)
