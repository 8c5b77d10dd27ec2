"""The CSV of `nvidia-smi --query-gpu=… --format=csv`, with or without its header and units.

index, uuid, name, pci.bus_id, driver_version, memory.total [MiB], compute_cap
0, GPU-11111111-2222-3333-4444-555555555555, NVIDIA H200, 00000000:00:06.0, 580.159.04, 143771 MiB, 9.0

A value that is not there is [N/A], [Not Supported] or [Unknown Error]; no value is quoted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from envcheck.facts.record import record
from envcheck.facts.snapshot import Gpu
from envcheck.read import smi_fields

# Words that may open a header; any other field of --query-gpu is taken by its shape, "memory.total [MiB]".
_PLAIN = {"index", "name", "gpu_name", "uuid", "gpu_uuid", "gpu_bus_id", "driver_version", "kmd_version", "compute_cap"}
_PLAIN |= {"count", "serial", "gpu_serial", "persistence_mode", "compute_mode", "addressing_mode", "pstate", "timestamp"}
_PLAIN |= {"vbios_version", "gpu_recovery_action"}
_DOTTED = re.compile(r"[a-z][a-z0-9_]{0,60}(?:\.[a-z0-9_]{1,60}){1,8}$")
_COMMAND = re.compile(r"--query-gpu[= ]([\w.,]+)")
_NVIDIA = re.compile(r"NVIDIA |GeForce |Tesla |Quadro |TITAN |RTX |GTX |GRID ")


@record
class Rows:
    """One answer of --query-gpu."""

    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None


def read_rows(fields: Sequence[str], text: str) -> Rows:
    """The lines of a query without header; lines with another number of values are not ours."""
    names = [smi_fields.canonical(one) for one in fields]
    gpus: list[Gpu] = []
    driver: str | None = None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line[:4000].split(",")]
        if len(cells) != len(names) or (len(cells) == 1 and not cells[0]):
            continue
        row = list(zip(names, cells, strict=True))
        said = next((smi_fields.driver_version(cell) for name, cell in row if name == "driver_version"), None)
        driver = driver or said
        gpus.append(smi_fields.gpu(row, len(gpus)))
    return Rows(tuple(gpus), driver)


def refused_field(text: str) -> str | None:
    """The field of `Field "xyz" is not a valid field to query.` (the whole query fails then)."""
    match = re.search(r'Field "([\w.]{1,80})" is not a valid field', text)
    return match.group(1) if match else None


def find(text: str) -> list[Rows]:
    """Every CSV answer in a text that a person pasted: by its header, by the command above it, or by the shape of its values."""
    found: list[Rows] = []
    fields: list[str] = []
    block: list[str] = []
    loose: list[str] = []
    for line in [*text.splitlines(), ""]:
        command, header = _COMMAND.search(line), _header(line)
        cells = line.count(",") + 1
        if command or header or not line.strip() or (fields and cells != len(fields)):
            if block:
                found.append(read_rows(fields, "\n".join(block)))
            block = []
            # A header directly under its command says the same once more.
            fields = command.group(1).split(",") if command else header
        elif fields:
            block.append(line)
        else:
            loose.append(line)
    found += _by_shape(loose)
    return [rows for rows in found if rows.gpus and (rows.driver or any(_says_something(gpu) for gpu in rows.gpus))]


def _says_something(gpu: Gpu) -> bool:
    """A lone word below the lone word "name" is prose, unless it names a card."""
    said = [value for name, value in vars(gpu).items() if name not in ("index", "name") and value not in (None, (), {}, False)]
    return bool(said) or (gpu.name is not None and _NVIDIA.match(gpu.name) is not None and len(gpu.name) < 60)


def _header(line: str) -> list[str]:
    cells = [cell.strip() for cell in line.split(",")]
    bare = [cell.partition("[")[0].strip() for cell in cells]
    sure = any(cell in _PLAIN or "[" in full for cell, full in zip(bare, cells, strict=True))
    return cells if sure and all(cell in _PLAIN or _DOTTED.match(cell) for cell in bare) else []


def _by_shape(lines: list[str]) -> list[Rows]:
    """Rows without any header: only values that can be nothing else. A column of bare driver numbers counts too."""
    rows = [line for line in lines if line.strip()]
    versions = [smi_fields.DRIVER.fullmatch(line.strip()) for line in rows]
    if rows and all(versions):
        return [Rows(tuple(Gpu(index=at) for at in range(len(rows))), rows[0].strip())]
    gpus: list[Gpu] = []
    driver: str | None = None
    for line in rows:
        cells = [cell.strip() for cell in line[:4000].split(",")]
        values = _shapes(cells)
        if len(cells) < 2 or not {"uuid", "pci.bus_id", "name"} & {name for name, _ in values}:
            continue
        driver = driver or next((cell for name, cell in values if name == "driver_version"), None)
        gpus.append(smi_fields.gpu(values, len(gpus)))
    return [Rows(tuple(gpus), driver)] if gpus else []


def _shapes(cells: list[str]) -> list[tuple[str, str]]:
    values: list[tuple[str, str]] = []
    sizes = [cell for cell in cells if re.fullmatch(r"[0-9]{1,9} MiB", cell)]
    for at, cell in enumerate(cells):
        if at == 0 and re.fullmatch(r"[0-9]{1,3}", cell):
            values.append(("index", cell))
        elif re.fullmatch(r"GPU-[0-9A-Fa-fXx-]{8,40}", cell):
            values.append(("uuid", cell))
        elif smi_fields.bus_id(cell) and len(cell) <= 16:
            values.append(("pci.bus_id", cell))
        elif smi_fields.DRIVER.fullmatch(cell):
            values.append(("driver_version", cell))
        elif re.fullmatch(r"[0-9]{1,2}\.[0-9]", cell):
            values.append(("compute_cap", cell))
        elif _NVIDIA.match(cell) and len(cell) <= 80:
            values.append(("name", cell))
        elif len(sizes) == 1 and cell == sizes[0]:
            values.append(("memory.total", cell))
    return values
