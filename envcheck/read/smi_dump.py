"""The whole report of nvidia-smi: `-q -x` (XML) and `-q` (indented text), also cut short or quoted in part.

XML:    <gpu id="00000000:00:06.0"><product_name>NVIDIA H200</product_name> … <fb_memory_usage><total>143771 MiB</total>
text:   GPU 00000000:00:06.0
            Product Name                                       : NVIDIA H200
            FB Memory Usage
                Total                                          : 143771 MiB

Both become a stream of (path, value): ("gpu", "fb_memory_usage", "total"), "143771 MiB"; a section that opens
has no value. A real XML parser would give up on a report that was cut or pasted with other lines around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from envcheck.facts.program_names import process_name
from envcheck.facts.record import field, mutable
from envcheck.facts.snapshot import Gpu, GpuProcess
from envcheck.read import smi_fields
from envcheck.read.smi_fields import known

Event = tuple[tuple[str, ...], str | None]

# (section, key) → field of --query-gpu. XML tags and the words of -q; older releases spell some of them otherwise.
_KEYS: dict[tuple[str, str], str] = {
    ("gpu", "product_name"): "name",
    ("gpu", "uuid"): "uuid",
    ("gpu", "gpu_uuid"): "uuid",
    ("gpu", "compute_mode"): "compute_mode",
    ("gpu", "gpu_recovery_action"): "gpu_recovery_action",
    ("pci", "pci_bus_id"): "pci.bus_id",
    ("pci", "bus_id"): "pci.bus_id",
    ("mig_mode", "current_mig"): "mig.mode.current",
    ("mig_mode", "current"): "mig.mode.current",
    ("driver_model", "current_dm"): "driver_model.current",
    ("driver_model", "current"): "driver_model.current",
    ("ecc_mode", "current_ecc"): "ecc.mode.current",
    ("ecc_mode", "current"): "ecc.mode.current",
    ("fb_memory_usage", "total"): "memory.total",
    ("fb_memory_usage", "used"): "memory.used",
    ("fb_memory_usage", "free"): "memory.free",
    ("pcie_gen", "max_link_gen"): "pcie.link.gen.max",
    ("pcie_gen", "current_link_gen"): "pcie.link.gen.current",
    ("pcie_generation", "max"): "pcie.link.gen.max",
    ("pcie_generation", "current"): "pcie.link.gen.current",
    ("link_widths", "max_link_width"): "pcie.link.width.max",
    ("link_widths", "current_link_width"): "pcie.link.width.current",
    ("link_width", "max"): "pcie.link.width.max",
    ("link_width", "current"): "pcie.link.width.current",
    ("utilization", "gpu_util"): "utilization.gpu",
    ("utilization", "gpu"): "utilization.gpu",
    ("retired_pages", "pending_retirement"): "retired_pages.pending",
    ("retired_pages", "pending_blacklist"): "retired_pages.pending",
    ("retired_pages", "pending_page_blacklist"): "retired_pages.pending",
    ("retired_pages", "pending"): "retired_pages.pending",
    ("remapped_rows", "remapped_row_pending"): "remapped_rows.pending",
    ("remapped_rows", "pending"): "remapped_rows.pending",
    ("remapped_rows", "remapped_row_failure"): "remapped_rows.failure",
    ("remapped_rows", "remapping_failure_occurred"): "remapped_rows.failure",
    ("temperature", "gpu_temp"): "temperature.gpu",
    ("temperature", "gpu_current_temp"): "temperature.gpu",
    ("gpu_power_readings", "average_power_draw"): "power.draw",
    ("gpu_power_readings", "power_draw"): "power.draw",
    ("power_readings", "power_draw"): "power.draw",
    ("gpu_power_readings", "current_power_limit"): "power.limit",
    ("power_readings", "power_limit"): "power.limit",
    ("power_readings", "enforced_power_limit"): "power.limit",
    ("clocks", "sm_clock"): "clocks.sm",
    ("clocks", "sm"): "clocks.sm",
    ("max_clocks", "sm_clock"): "clocks.max.sm",
    ("max_clocks", "sm"): "clocks.max.sm",
    ("fabric", "state"): "fabric.state",
    ("fabric", "status"): "fabric.status",
}
_UNCORRECTABLE = {
    "sram_uncorrectable",
    "sram_uncorrectable_parity",
    "sram_uncorrectable_secded",
    "sram_uncorrectable_sec_ded",
    "dram_uncorrectable",
}
_TOP = ("driver_version", "kmd_version", "cuda_version", "cuda_umd_version", "attached_gpus")


@mutable
class Dump:
    """What one report says: the head's values by XML tag, and the devices."""

    head: dict[str, str] = field(default_factory=dict)
    gpus: tuple[Gpu, ...] = ()
    lost: tuple[str, ...] = ()


@mutable
class _Device:
    values: list[tuple[str, str]] = field(default_factory=list)
    ecc: dict[str, int] = field(default_factory=dict)
    mig: list[dict[str, str]] = field(default_factory=list)
    processes: list[dict[str, str]] = field(default_factory=list)


def read_xml(text: str) -> Dump | None:
    """The XML of `nvidia-smi -q -x`; None if it is not that."""
    if "<nvidia_smi_log" not in text and '<gpu id="' not in text:
        return None
    return _dump(_xml_events(text))


def read_text(text: str) -> Dump | None:
    """The text of `nvidia-smi -q`, or a part of it; None if nothing of it is there."""
    dump = _dump(_text_events(text))
    # "CUDA Version : 13.0" alone may as well be a line of `nvidia-smi --version`.
    versions = (dump.head.get(name, "") for name in ("driver_version", "kmd_version"))
    sure = "attached_gpus" in dump.head or any(smi_fields.driver_version(version) for version in versions)
    return dump if dump.gpus or sure else None


_TOKEN = re.compile(r"<(/?)([A-Za-z_][\w.-]{0,80})([^<>]{0,200})>|([^<]+)|<")
_DEPTH = 16  # the real report is 7 deep; junk must not cost the square of its length
_ENTITIES = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'", "&amp;": "&"}


def _xml_events(text: str) -> Iterator[Event]:
    stack: list[str] = []
    body = ""
    for match in _TOKEN.finditer(text):
        closing, tag, rest, words = match.groups()
        if words is not None:
            body = words
        elif tag is None:
            continue
        elif not closing:
            if tag == "gpu":
                stack, attribute = ["gpu"], re.search(r'id="([^"]*)"', rest)
                yield ("gpu",), None
                if attribute:
                    yield ("gpu", "pci", "pci_bus_id"), attribute.group(1)
            elif not rest.endswith("/") and len(stack) < _DEPTH:
                stack.append(tag)
                yield tuple(stack), None
            body = ""
        elif tag in stack:
            path = tuple(stack[: _last(stack, tag) + 1])
            if len(path) == len(stack) and body.strip():
                yield path, _unescape(body.strip())
            del stack[len(path) - 1 :]
            body = ""


def _last(stack: list[str], tag: str) -> int:
    return len(stack) - 1 - stack[::-1].index(tag)


def _unescape(text: str) -> str:
    for entity, character in _ENTITIES.items():
        text = text.replace(entity, character)
    return text


_GPU_LINE = re.compile(r"\s*GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*$")
_PAIR = re.compile(r"(\s*)([A-Z][\w .()/-]{0,60}?)\s*:(?:\s(.*))?$")
_VERSION_FLAG = re.compile(r"\s*[A-Z][A-Z -]+ version\s*:")  # lines of --version: "DRIVER version      : 580.159.04"
_SECTION = re.compile(r"(\s*)([A-Z][\w .()/-]{0,60}?)\s*$")


def _text_events(text: str) -> Iterator[Event]:
    """Depth is indentation. Sections quoted without their GPU line belong to a GPU all the same."""
    stack: list[tuple[int, str]] = []
    for raw in text.splitlines():
        line = raw[:400].expandtabs(4)
        header = _GPU_LINE.match(line)
        if header:
            stack = []
            yield ("gpu",), None
            yield ("gpu", "pci", "bus_id"), header.group(1)
            continue
        pair = _PAIR.match(line)
        match = pair or _SECTION.match(line)
        if match is None or _VERSION_FLAG.match(line):
            continue
        depth, name = len(match.group(1)), _snake(match.group(2))
        while stack and stack[-1][0] >= depth:
            stack.pop()
        stack.append((depth, name))
        value = pair.group(3) if pair else None
        yield ("gpu", *(one for _, one in stack)), value.strip() if value is not None else None


def _snake(words: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")


def _dump(events: Iterable[Event]) -> Dump:
    result = Dump()
    devices: list[_Device] = []
    started = False
    for path, value in events:
        if path == ("gpu",) and value is None:
            devices.append(_Device())
            started = True
            continue
        if value is not None and len(path) <= 2 and path[-1] in _TOP:
            result.head.setdefault(path[-1], value)
            continue
        device = devices[-1] if devices else _Device()
        if _take(device, path, value) and not devices:
            devices.append(device)
    result.gpus = tuple(_gpu(device, at) for at, device in enumerate(devices) if device.values or device.ecc or started)
    result.lost = smi_fields.lost(result.gpus)
    return result


def _take(device: _Device, path: tuple[str, ...], value: str | None) -> bool:
    """Put one event into the device; True if it was of use."""
    key = path[-1]
    section = path[-2] if len(path) > 1 else "gpu"
    if "mig_device" in path:
        return _take_mig(device, path, value)
    if key in ("process_info", "process_id") or "processes" in path:
        return _take_process(device, key, value)
    if value is None:
        return False
    if "clocks_event_reasons" in path or "clocks_throttle_reasons" in path:
        reason = re.sub(r"^clocks_(event|throttle)_reason_", "", key)
        device.values.append((f"clocks_event_reasons.{reason}", value))
        return reason in smi_fields.CLOCK_REASONS
    scope = next((name for name in ("volatile", "aggregate") if name in path[:-1]), None)
    if scope is not None:
        count = smi_fields.integer(value)
        if count is not None and (key in _UNCORRECTABLE or (section == "double_bit" and key == "total")):
            device.ecc[scope] = device.ecc.get(scope, 0) + count
            return True
        return False
    name = _KEYS.get((section, key))
    if name is not None:
        device.values.append((name, value))
    return name is not None


def _take_mig(device: _Device, path: tuple[str, ...], value: str | None) -> bool:
    if path[-1] == "mig_device":
        device.mig.append({})
        return True
    if value is not None and device.mig and path[-1] in ("gpu_instance_id", "compute_instance_id", "uuid", "mig_uuid"):
        device.mig[-1].setdefault(path[-1], value)
    return value is not None


_PROCESS_KEYS = {"process_id": "pid", "name": "process_name", "used_gpu_memory": "used_memory"}


def _take_process(device: _Device, key: str, value: str | None) -> bool:
    if key in ("process_info", "process_id"):
        device.processes.append({})
    if value is not None and device.processes:
        device.processes[-1].setdefault(_PROCESS_KEYS.get(key, key), value)
    return key != "processes"


def _gpu(device: _Device, position: int) -> Gpu:
    ecc = [(f"ecc.errors.uncorrected.{scope}.total", str(count)) for scope, count in device.ecc.items()]
    return smi_fields.gpu(
        [*device.values, *ecc],
        position,
        mig_devices=tuple(_mig_name(one) for one in device.mig if one),
        processes=tuple(process for one in device.processes if (process := _process(one)) is not None),
    )


def _mig_name(values: dict[str, str]) -> str:
    instances = f"GI {values.get('gpu_instance_id', '?')} CI {values.get('compute_instance_id', '?')}"
    return values.get("uuid") or values.get("mig_uuid") or instances


def _process(values: dict[str, str]) -> GpuProcess | None:
    pid = smi_fields.integer(values.get("pid", ""))
    if pid is None:
        return None
    return GpuProcess(
        pid=pid,
        name=process_name(known(values.get("process_name", ""))),
        memory_bytes=smi_fields.size(values.get("used_memory", "")),
        type=known(values.get("type", "")),
    )
