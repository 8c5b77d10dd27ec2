"""What a host has, in layers that can be compared between hosts by a digest each.

It works on the plain values of a recording (`codec.encode`, or the `facts` of a report), so that ten thousand recordings are
compared without one being decoded. Each fact of a snapshot has its place in one of the tables below, or is named as left out.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

Values: TypeAlias = dict[str, str]  # fact → value; a fact that the host does not tell is not there

LAYERS = ("torch", "nccl", "driver", "gpus", "nics", "python", "code", "limits", "system")  # in the order in which drift is told
STATE = "state"  # what is wrong with a host at present: no drift, but such a host is judged apart from its like

# Layer → section → its facts. A field of a list's records is "list.field".
COMPARED: Mapping[str, Mapping[str, str]] = {
    "torch": {
        "torch": "version cuda hip xpu git_version debug cpu_build conda arch_list cxx11_abi cudnn cudnn_loaded",
        "backends": "cuda cudnn cusparselt mps_built xpu mkl mkldnn openmp distributed nccl gloo mpi ucc xccl",
    },
    "nccl": {"torch": "nccl nccl_loaded", "network": "variables nccl_conf"},
    "driver": {
        "driver": "version cuda library_version flavour module_loaded nouveau cuda_state fabric_manager windows_version",
        "cuda_driver": "library_path driver_version is_stub is_compat",
        "rocm": "version driver_loaded driver_version gfx_override",
        "xpu": "driver level_zero compute_runtime",
    },
    "gpus": {
        "gpus": "devices.name devices.compute_capability devices.memory_bytes devices.mig devices.ecc devices.compute_mode"
        " devices.pcie_generation_max devices.pcie_width_max devices.pcie_width devices.nvlinks_active devices.power_limit_watts"
        " devices.sm_clock_max_mhz devices.driver_model",
        "visibility": "cuda_visible_devices cuda_device_order nvidia_visible_devices hip_visible_devices rocr_visible_devices"
        " ze_affinity_mask",
        "rocm": "gfx names",
        "xpu": "names",
    },
    "nics": {
        "network": "interfaces.up interfaces.mtu infiniband.state infiniband.link_layer infiniband.rate peermem",
    },
    "python": {
        "python": "executable version implementation free_threaded bits platform environment environment_path variables",
        "packages": "distributions.version",
        "torch": "path",
        "toolkit": "cuda_home gcc nvcc.release compiler",
    },
    "code": {"python": "pythonpath sys_path user_site_enabled no_site"},
    "limits": {
        "limits": "open_files_soft open_files_hard memlock_soft_bytes memlock_hard_bytes processes_soft group_tasks_limit"
        " stack_soft_bytes address_space_bytes data_bytes cpu_seconds shm_bytes caches.path caches.filesystem caches.options",
        "system": "cpu_affinity cpu_limit memory_limit_bytes",
    },
    "system": {
        "system": "os kernel distribution machine glibc libc cpu_model cpu_flags cpu_count memory_bytes macos_version wsl jetson"
        " virtualization iommu acs",
        "container": "runtime kubernetes cuda_requirement cuda_version driver_capabilities image nvidia_runtime command",
        "mps": "macos chip rosetta",
    },
}  # fmt: skip

# Facts of a healthy host that rules judge, and that are the same on all healthy hosts of one kind. A section without any is not named.
JUDGED: Mapping[str, str] = {
    "system": "path_left_out distribution_id cpu_vendor cpu_flags_read suspends pci_gpus.vendor pci_gpus.device pci_gpus.driver",
    "limits": "memlock_read shm_requested_bytes shm_allocated_bytes shm_error caches.variable caches.lock caches.error full_folder.error"
    " full_folder.stopped refused_calls",
    "driver": "source nvml.status nvml.code nvml.signal nvml.message nvml.path smi.status smi.code smi.signal smi.message smi.path"
    " readings.source readings.driver readings.cuda device_nodes closed_nodes gpu_count_proc xids.code xids.bus_id xids.text"
    " kernel_messages",
    "gpus": "devices.index devices.compute_capability_source devices.mig_devices devices.ecc_uncorrected_volatile"
    " devices.ecc_uncorrected_aggregate devices.remap_pending devices.remap_failed devices.retired_pages_pending"
    " devices.fabric_state devices.fabric_status devices.recovery_action devices.processes.name devices.processes.memory_bytes"
    " devices.processes.type devices.error source lost troubles.source troubles.text troubles.code troubles.call troubles.index"
    " troubles.bus_id",
    "cuda_driver": "init_code device_count device_count_code candidates devices.index devices.kind devices.name"
    " devices.compute_capability devices.memory_bytes devices.kernel devices.kernel_error",
    "toolkit": "nvccs.path nvccs.version nvccs.release nvccs.source nvccs.error cuda_home_source cuda_home_exists nvcc.path nvcc.version"
    " nvcc.source nvcc.error gcc_path clang",
    "visibility": "selected stopped_at",
    "network": "resolve_error localhost local_port_first local_port_last interfaces.name interfaces.loopback infiniband.device"
    " infiniband.port",
    "launcher": "launcher scheduler world_size master_addr master_addr_error master_port master_port_owner nodes ranks_started rank_claims"
    " init_method start_method readings.launcher readings.world_size readings.local_world_size readings.nodes readings.complete"
    " readings.unreadable commands.launcher commands.words commands.variables commands.each commands.tasks commands.nodes commands.gpus"
    " commands.gpus_per_task commands.port commands.program commands.inside commands.beside",
    "rocm": "kfd kfd_access render_access groups",
    "xpu": "render_access",
    "mps": "apple_silicon",
    "python": "prefix has_pip has_conda_meta uv externally_managed user_site purelib include_python_h shadowing working_folder_gone"
    " torch_for_another_python index_url",
    "packages": "distributions.name distributions.location distributions.installer distributions.build distributions.channel"
    " distributions.direct_url distributions.built_for distributions.foreign_tag duplicates leftovers unmet.distribution"
    " unmet.requirement unmet.installed overwritten damaged",
    "torch": "import_status import_failure.type import_failure.text import_failure.signal import_failure.exit_code import_failure.stderr"
    " import_failure.state dynamo_failure.type dynamo_failure.text dynamo_failure.signal dynamo_failure.exit_code dynamo_failure.stderr"
    " dynamo_failure.state import_warnings import_noise libraries cuda_home",
    "backends": "mps",
    "devices": "available count devices.index devices.kind devices.name devices.compute_capability devices.memory_bytes devices.kernel"
    " devices.kernel_error warnings error error_code nvml_check",
}  # fmt: skip

# Facts that name a host, its parts or its place in the job, and those that are another at each look. Where a number of these is such
# that a rule may speak of it, `_strain` brings it back.
LEFT_OUT: Mapping[str, str] = {
    "system": "memory_available_bytes uptime_seconds date time pci_gpus.address pci_gpus.link_speed pci_gpus.link_width",
    "limits": "group_tasks shm_free_bytes tmp_free_bytes"
    " full_folder.path full_folder.free_bytes full_folder.total_bytes full_folder.free_files",
    "driver": "nvml.seconds smi.seconds xids.seconds_ago",
    "gpus": "devices.uuid devices.bus_id devices.memory_used_bytes devices.memory_free_bytes devices.throttle_reasons"
    " devices.pcie_generation devices.nvlink_peers devices.temperature_celsius devices.power_watts devices.sm_clock_mhz"
    " devices.utilization_percent devices.processes.pid topology",
    "cuda_driver": "devices.uuid devices.memory_free_bytes devices.seconds",
    "toolkit": "ninja cmake",
    "network": "hostname addresses full_name full_name_addresses resolve_seconds reverse_seconds interfaces.addresses",
    "launcher": "rank local_rank master_addr_resolves variables readings.rank readings.local_rank readings.node_rank commands.node_rank",
    "python": "chosen_because",
    "torch": "config import_seconds import_failure.stack import_failure.watched_seconds import_failure.cpu_seconds"
    " import_failure.read_bytes import_failure.page_faults dynamo_failure.stack dynamo_failure.watched_seconds"
    " dynamo_failure.cpu_seconds dynamo_failure.read_bytes dynamo_failure.page_faults",
    "devices": "devices.uuid devices.memory_free_bytes devices.seconds",
}  # fmt: skip

_KEYED = {
    "interfaces": ("name",),
    "infiniband": ("device", "port"),
    "distributions": ("name",),
    "caches": ("variable",),
}  # what names a row
# Sizes of what two hosts of one kind do not have to the byte: a kernel keeps some memory for itself, and limits are derived from the rest.
_NEARLY = frozenset(
    ("system.memory_bytes", "limits.shm_bytes", "limits.processes_soft", "limits.memory_limit_bytes", "gpus.devices.memory_bytes")
)
_OF_CONTAINERS = re.compile(r"(?:lo|veth|cali|cni|docker|br-|virbr|flannel|cilium|lxc|tun|tap|kube|dummy|ifb|nerdctl|podman)[\w.@-]*$")
# Of these families a host lacks a member, where others have one; of all other facts, None is not known.
FAMILIES = {
    "packages.": "not installed", "network.variables.": "not set", "network.nccl_conf.": "not set", "python.variables.": "not set",
    "network.interfaces.": "not there", "network.infiniband.": "not there", "limits.caches.": "not there", "visibility.": "not set",
    "python.pythonpath": "not set",
}  # fmt: skip


LONGEST = 1000  # characters of a value; cpu_flags and sys.path of real machines are shorter


_encoded = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def layers_of(facts: Mapping[str, Any]) -> dict[str, Values]:
    """Each layer of a host's facts. Whether a section is there is a fact of its own name: "driver" → "absent"."""
    made: dict[str, Values] = {}
    for layer, sections in _COMPARED.items():
        values: Values = {}
        for section, names in sections.items():
            content = facts.get(section)
            if isinstance(content, dict):
                values.update(_steady(layer, section, _encoded(content)) if section in _STEADY else _flattened(section, names, content))
        made[layer] = values
    return made


def state_of(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What rules judge beside the layers: the same on all healthy hosts of a kind, and on a sick one its own."""
    values: dict[str, Any] = {}
    for section, names in _JUDGED.items():
        content = facts.get(section)
        if not isinstance(content, dict):
            continue
        if section in _STEADY:
            values[section] = content
            continue
        if "missing" in content:
            values[section] = f"{content['missing']}: {content.get('reason', '')}"
            continue
        for head, fields in names:
            value = content.get(head)
            if fields and isinstance(value, list):
                value = [{name: row.get(name) for name in fields} for row in value if isinstance(row, dict)]
            elif fields and isinstance(value, dict):
                value = {name: value.get(name) for name in fields}
            if value not in (None, [], {}, ""):
                values[f"{section}.{head}"] = value
    values.update(_strain(facts))
    return values


def digest(values: Mapping[str, Any]) -> str:
    """Half of a SHA-256, as hexadecimal digits: the same for the same facts, on every host and in every order."""
    return hashlib.sha256(_encoded(values).encode()).hexdigest()[:32]


def digests(facts: Mapping[str, Any]) -> dict[str, str]:
    """Layer → digest, that of the state included: what a host sends before it is asked for more."""
    return {**{layer: digest(values) for layer, values in layers_of(facts).items()}, STATE: digest(state_of(facts))}


def _split(table: Mapping[str, str]) -> dict[str, tuple[tuple[str, tuple[str, ...]], ...]]:
    """Section → its facts as pairs of a name and the fields below it."""
    made: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {}
    for section, names in table.items():
        heads: dict[str, list[str]] = {}
        for name in names.split():
            head, _, field = name.partition(".")
            heads.setdefault(head, []).extend([field] if field else [])
        made[section] = tuple((head, tuple(fields)) for head, fields in heads.items())
    return made


_COMPARED = {layer: _split(sections) for layer, sections in COMPARED.items()}
_JUDGED = _split(JUDGED)


@lru_cache(maxsize=256)
def _steady(layer: str, section: str, text: str) -> Values:
    """A section of which nothing is left out is the same text on hosts of a kind: most are looked at once."""
    return _flattened(section, dict(_COMPARED[layer])[section], json.loads(text))


def _flattened(section: str, names: Iterable[tuple[str, tuple[str, ...]]], content: Mapping[str, Any]) -> Values:
    if "missing" in content:
        return {section: "absent"} if content["missing"] == "absent" else {}
    values: Values = {section: "present"}
    for head, fields in names:
        value, name = content.get(head), f"{section}.{head}"
        if value is None:
            continue
        if isinstance(value, dict):
            items = value.items() if not fields else ((field, value.get(field)) for field in fields)
            values.update((f"{name}.{key}", _shown(f"{name}.{key}", one)) for key, one in items if one is not None)
        elif fields and isinstance(value, list):
            _rows(section, head, fields, [row for row in value if isinstance(row, dict)], values)
        else:
            values[name] = _shown(name, value)
    return values


def _rows(section: str, head: str, fields: Iterable[str], rows: list[Mapping[str, Any]], values: Values) -> None:
    """Rows with a name are facts of that name; of rows without one, the GPUs, only how many have which value is compared."""
    keys = _KEYED.get(head)
    if keys is None:
        values[f"{section}.count"] = str(len(rows))
        for field in fields:
            held = Counter(_shown(f"{section}.{head}.{field}", row[field]) for row in rows if row.get(field) is not None)
            if held:
                values[f"{section}.{head}.{field}"] = _tally(held)
        return
    for row in rows:
        name = "/".join(str(row.get(key)) for key in keys)
        if head == "interfaces" and (row.get("loopback") or _OF_CONTAINERS.match(name)):
            continue
        at = f"{section}.{name}" if head == "distributions" else f"{section}.{head}.{name}"
        for field in fields:
            path = at if head == "distributions" else f"{at}.{field}"
            if row.get(field) is not None and path not in values:  # the first distribution of a name is the one that is imported
                values[path] = _shown(f"{section}.{head}.{field}", row[field])


def _tally(held: Counter[str]) -> str:
    if len(held) == 1:
        return next(iter(held))
    return ", ".join(f"{count} × {value}" for value, count in sorted(held.items(), key=lambda one: (-one[1], one[0])))


def _shown(name: str, value: Any) -> str:
    """A value as a person reads it. One that nobody reads to its end is told by its beginning, and a digest that tells it from others."""
    text = _in_words(name, value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 60]}… ({len(text)} characters, {digest({name: text})})"


def _in_words(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name in _NEARLY and isinstance(value, int):
        value = _nearly(value)
    if name.endswith("_bytes") and isinstance(value, int):
        return _size(value)
    if name == "visibility.cuda_visible_devices" and isinstance(value, str) and "GPU-" in value:
        return f"{value.count('GPU-')} by UUID"  # a UUID is its host's own
    if isinstance(value, list):
        return ", ".join(str(one) for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _nearly(value: int) -> int:
    """The next eighth of a power of two above: 2015 GiB and 2013 GiB are both the 2 TiB that were bought."""
    step = 1 << max(value.bit_length() - 4, 0)
    return -(-value // step) * step


def _size(count: int) -> str:
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit and count * 8 % unit == 0:
            return f"{count / unit:g} {name}"
    return f"{count} bytes"


def _strain(facts: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """Numbers that differ at each look, and names of the host's own, where they are such that a rule may speak of them."""
    for section, judge in _STRAINS.items():
        content = facts.get(section)
        if isinstance(content, dict) and "missing" not in content:
            yield from judge(content)


def _over(content: Mapping[str, Any], names: Iterable[str], limit: float) -> Iterable[tuple[str, Any]]:
    return ((name, content[name]) for name in names if isinstance(content.get(name), int | float) and content[name] > limit)


def _number(value: Any) -> float:
    return value if isinstance(value, int | float) else 0.0


def _strained_limits(limits: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    if _number(limits.get("group_tasks")) * 2 > (_number(limits.get("group_tasks_limit")) or float("inf")):
        yield "group_tasks", limits["group_tasks"]
    free = limits.get("shm_free_bytes")
    if free is not None and _number(free) * 2 < _number(limits.get("shm_bytes")):
        yield "shm_free_bytes", free


def _strained_system(system: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    available, total = system.get("memory_available_bytes"), system.get("memory_limit_bytes") or system.get("memory_bytes")
    if available is not None and _number(available) * 8 < _number(total):
        yield "memory_available_bytes", available


def _strained_gpus(gpus: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """A GPU that is held back, at work, or used by somebody is like no other."""
    for at, gpu in enumerate(gpus.get("devices") or ()):
        if not isinstance(gpu, dict):
            continue
        held = int(_number(gpu.get("throttle_reasons"))) & ~0x1  # 0x1: it idles
        used = _number(gpu.get("memory_used_bytes")) * 10 > _number(gpu.get("memory_bytes"))
        if held or used or gpu.get("processes") or _number(gpu.get("utilization_percent")) >= 50:
            yield f"gpu.{at}", gpu
        elif gpu.get("nvlink_peers"):
            yield f"nvlinks.{at}", sorted(gpu["nvlink_peers"].values())


def _strained_network(network: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    rows = [row for row in network.get("interfaces") or () if isinstance(row, dict)]
    own = {_bare(one) for row in rows for one in row.get("addresses") or ()}
    yield "full_name", bool(network.get("full_name"))
    for name in ("addresses", "full_name_addresses", "localhost"):
        known = network.get(name)
        if name == "addresses" or isinstance(known, list | tuple):
            yield name, (sorted({_kind(one) for one in known or ()}), any(_bare(one) in own for one in known or ()))
    yield from _over(network, ("resolve_seconds", "reverse_seconds"), 0.5)
    yield "interfaces", [(row.get("name"), sorted({_kind(one) for one in row.get("addresses") or ()})) for row in rows]


def _bare(address: Any) -> str:
    return str(address).partition("%")[0]  # without the interface


def _kind(address: Any) -> str:
    """What rules ask of an address, without saying which one it is."""
    text = str(address)
    if text.startswith("127.") or text == "::1":
        return "loopback"
    if text.startswith(("169.254.", "fe80:")):
        return "of the link alone"
    return "IPv6" if ":" in text else "IPv4"


def _strained_launcher(launcher: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    resolves = launcher.get("master_addr_resolves")
    if resolves is not None:
        yield "master", sorted({_kind(one) for one in resolves})
    world, rank = launcher.get("world_size"), launcher.get("rank")
    if world is not None and rank is not None and not 0 <= _number(rank) < _number(world):
        yield "rank", [rank, world]
    variables = launcher.get("variables")
    if isinstance(variables, dict):
        yield "variables", sorted([name, "number" if str(value).isdecimal() else "text"] for name, value in variables.items())
    rows = [row for row in launcher.get("readings") or () if isinstance(row, dict)]
    for name in ("rank", "local_rank", "node_rank"):
        values = [row[name] for row in rows if row.get(name) is not None]
        yield f"{name}s agree", values.count(values[0]) == len(values) if values else None


def _slow(*names: str, limit: float) -> Callable[[Mapping[str, Any]], Iterable[tuple[str, Any]]]:
    def judge(section: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
        return _over(section, names, limit)

    return judge


def _strained_driver(driver: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    for name in ("nvml", "smi"):
        answer = driver.get(name)
        if isinstance(answer, dict) and _number(answer.get("seconds")) > 2:
            yield f"{name}.seconds", answer["seconds"]


def _strained_live(live: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    status = live.get("status")
    yield "live", status if status in ("pass", "skipped") else live


_STRAINS: Mapping[str, Callable[[Mapping[str, Any]], Iterable[tuple[str, Any]]]] = {
    "system": _strained_system,
    "limits": _strained_limits,
    "driver": _strained_driver,
    "gpus": _strained_gpus,
    "network": _strained_network,
    "launcher": _strained_launcher,
    "torch": _slow("import_seconds", limit=20.0),
    "live": _strained_live,
    "symptoms": lambda told: [("symptoms", told["matches"])] if told.get("matches") else (),
}
_STEADY = frozenset(_JUDGED) - frozenset(LEFT_OUT) - frozenset(_STRAINS)
