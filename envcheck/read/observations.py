"""Observations of a person, TOML or JSON, as facts: `envcheck diagnose --facts`.

    os = "Ubuntu 22.04"          torch = "2.8.0+cu128"       driver = "550.163.01"
    container = true             torch_cuda = "12.8"         env = { NCCL_SOCKET_IFNAME = "eth0" }
    gpus = [{ name = "NVIDIA GeForce GTX 1050", cc = "6.1" }]

"none", "unset" and null mean known to be absent. A value with prose in it is evidence, not a fact; so is an unknown key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from envcheck.facts.snapshot import Distribution, Gpu, Missing, Nvcc, Why, Xid
from envcheck.facts.whole_numbers import whole_number
from envcheck.read.collect_env import normal
from envcheck.read.found import Found, Notes
from envcheck.read.values import cuda_version, gpu_vendor, machine_of, operating_system, stated_version, version_in

_ABSENT = frozenset({"none", "unset", "absent", "null", "not installed", "not set", "missing"})
_ABSENT_VALUE = Missing(Why.ABSENT, "stated")  # a variable that is known to be unset


def read_observations(values: Mapping[str, Any]) -> Found:
    """Facts of a table of observations. Never raises: what does not fit is evidence."""
    notes = Notes("observations", rank=2)
    reader = _Observations(notes, values)
    for key, value in values.items():
        reader.take(str(key), value)
    return notes.found() or Found("observations", rank=2)


def as_lines(values: Mapping[str, Any]) -> str:
    """The observations as lines "key = value", for symptoms that people state rather than programs print."""
    return "\n".join(f"{key} = {_words(value)}" for key, value in values.items())


def _words(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_words(one)}" for key, one in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_words(one) for one in value)
    return "none" if value is None else " ".join(str(value).split())


def absent(value: object) -> bool:
    return value is None or (isinstance(value, str) and value.strip().lower() in _ABSENT)


def plain(value: object) -> str | None:
    """A short word without prose: no parentheses, no placeholders, no alternatives."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    text = str(value).strip()
    if re.search(r"[<>()]|\bone of\b|\bor\b|\.\.\.| / ", text) and not re.fullmatch(r"cuda\s?[<>]=?.*", text):
        return None
    return text


class _Observations:
    def __init__(self, notes: Notes, values: Mapping[str, Any]) -> None:
        self.notes = notes
        self.values = values

    def take(self, key: str, value: object) -> None:
        """One key: its own method, a field it names directly, or evidence."""
        known = _KEYS.get(key)
        before = len(self.notes.facts)
        if known is not None:
            known(self, value)
        if len(self.notes.facts) == before:
            self.put(f"other.{key}", _words(value), key, value)

    def put(self, path: str, fact: object, key: str, value: object) -> None:
        self.notes.put(path, fact, f"{key} = {_words(value)}")

    # ------------------------------------------------------------------ system

    def os(self, value: object) -> None:
        if isinstance(value, str):
            for path, fact in operating_system(value).items():
                self.put(path, fact, "os", value)

    def arch(self, value: object) -> None:
        word = re.match(r"(x86_64|aarch64|arm64|amd64|ppc64le|i386)\b", str(value).strip().lower())
        if word and "emulated" in str(value):
            self.put("mps.rosetta", True, "arch", value)
            self.put("mps.apple_silicon", True, "arch", value)
        if word:
            self.put("system.machine", machine_of(word[1]), "arch", value)

    def platform(self, value: object) -> None:
        text = str(value)
        if re.search(r"jetson|jetpack|\bl4t\b|tegra|orin\b|xavier", text, re.IGNORECASE):
            release = re.search(r"R?(3\d\.\d+(?:\.\d+)?)", text)
            self.put("system.jetson", release[1] if release else text, "platform", value)
            self.put("system.os", "linux", "platform", value)
        if "wsl" in text.lower():
            self.wsl(text)

    def wsl(self, value: object) -> None:
        if value and not absent(value):
            number = value if value in (1, 2) and not isinstance(value, bool) else (1 if str(value).strip().lower() in ("1", "wsl1") else 2)
            self.put("system.wsl", number, "wsl", value)
            self.put("system.os", "linux", "wsl", value)

    def container(self, value: object) -> None:
        text = str(value).lower()
        if value is False or absent(value):
            self.put("missing.container", "stated: not in a container", "container", value)
            return
        known = {
            "docker": "docker",
            "podman": "podman",
            "containerd": "containerd",
            "apptainer": "apptainer",
            "singularity": "apptainer",
            "enroot": "enroot",
            "lxc": "lxc",
        }
        runtime = next((name for word, name in known.items() if word in text), None)
        self.put("container.kubernetes", "kubernetes" in text or "k8s" in text, "container", value)
        self.put("container.runtime", runtime, "container", value)
        if ":" in text or "/" in text:
            self.put("container.image", str(value), "container", value)

    # ------------------------------------------------------------------ python and torch

    def python(self, value: object) -> None:
        match = re.match(r"(\d\.\d{1,2}(?:\.\d{1,3})?(?:(?:a|b|rc)\d+)?)(?:$|[\s(+])", str(value).strip())
        self.put("python.version", match[1] if match and value is not True else None, "python", value)

    def installer(self, value: object) -> None:
        """How packages come: an environment of conda, uv or pip; "conda env + pip" is a conda environment in which pip installs."""
        text = str(value).lower()
        if re.match(r"(conda|mamba|micromamba|anaconda|miniconda)\b", text):
            self.put("python.environment", "conda", "installer", value)
            self.put("python.has_conda_meta", True, "installer", value)
        elif text.startswith("uv"):
            self.put("python.uv", True, "installer", value)
        elif text.startswith("pip"):
            self.put("python.has_pip", True, "installer", value)

    def torch(self, value: object) -> None:
        if absent(value):
            self.put("missing.torch", "stated: torch is not installed", "torch", value)
            return
        version = stated_version(value)
        if version and "." in version:
            self.put("torch.version", version, "torch", value)

    def torch_cuda(self, value: object) -> None:
        if absent(value):
            others = [key for key in ("hip", "torch_hip", "torch_xpu") if key in self.values and not absent(self.values[key])]
            if not others and "rocm" not in str(self.values.get("torch")) and "xpu" not in str(self.values.get("torch")):
                self.put("torch.cpu_build", True, "torch_cuda", value)
            return
        self.put("torch.cuda", cuda_version(value), "torch_cuda", value)

    def hip(self, value: object) -> None:
        self.put("torch.hip", None if absent(value) else version_in(str(value)), "hip", value)

    def arch_list(self, value: object) -> None:
        items = value if isinstance(value, list) else re.findall(r"(?:sm|compute)_\d+[a-z]?|gfx[0-9a-f]+", str(value))
        if items and all(isinstance(one, str) for one in items):
            self.put("torch.arch_list", tuple(items), "arch_list", value)

    def cuda_available(self, value: object) -> None:
        available = value if isinstance(value, bool) else {"true": True, "yes": True, "false": False, "no": False}.get(str(value).lower())
        self.put("devices.available", available, "cuda_available", value)

    def nccl(self, value: object) -> None:
        self.put("torch.nccl_loaded", stated_version(value), "nccl", value)

    def cudnn(self, value: object) -> None:
        self.put("torch.cudnn_loaded", stated_version(value), "cudnn", value)

    def packages(self, value: object) -> None:
        for name, version in value.items() if isinstance(value, Mapping) else ():
            stated = stated_version(version)
            twin = re.fullmatch(r"(torch|pytorch)_(pip|conda)", str(name))
            if stated and twin:  # "torch_pip" beside "pytorch_conda": two torches in one environment
                self.put(f"package.torch ({twin[2]})", Distribution("torch", stated, installer=twin[2]), f"packages.{name}", version)
            elif stated:
                own = normal(str(name))
                self.put(f"package.{own}", Distribution(own, stated), f"packages.{name}", version)
                if own in ("torch", "pytorch") and "torch" not in self.values:
                    self.put("torch.version", stated, f"packages.{name}", version)

    # ------------------------------------------------------------------ driver, GPUs, toolkit

    def driver(self, value: object) -> None:
        if absent(value):
            self.put("missing.driver", "stated: no driver", "driver", value)
            return
        version = stated_version(value)
        if version and "." in version:
            self.put("driver.version", version, "driver", value)
            if "wsl" in self.values and not absent(self.values["wsl"]):
                self.put("driver.windows_version", version, "driver", value)

    def kernel_module(self, value: object) -> None:
        version = stated_version(value)
        self.put("driver.version", version, "driver", value)
        self.put("driver.source", "/sys/module/nvidia/version" if version else None, "driver", value)
        self.put("driver.module_loaded", True if version else None, "driver", value)

    def library_version(self, value: object) -> None:
        self.put("driver.library_version", stated_version(value), "driver library", value)

    def driver_cuda(self, value: object) -> None:
        self.put("driver.cuda", cuda_version(value), "driver_cuda", value)

    def smi_cuda(self, value: object) -> None:
        """What nvidia-smi prints is the driver's own statement, unless a better one is given."""
        if str(value).strip() in ("ERR!", "N/A"):
            self.put("driver.cuda_state", str(value).strip(), "smi_cuda", value)
        if "driver_cuda" not in self.values or absent(self.values["driver_cuda"]):
            self.put("driver.cuda", cuda_version(value), "smi_cuda", value)

    def gpus(self, value: object) -> None:
        for index, one in enumerate(value if isinstance(value, list) else ()):
            row = one if isinstance(one, Mapping) else {"name": one}
            self._gpu(index, row)

    def _gpu(self, index: int, row: Mapping[str, Any]) -> None:
        name = row.get("name")
        name = name.strip() if isinstance(name, str) and name.strip() else None
        gfx = _target(row)
        if gfx or gpu_vendor(name or "") == "amd":
            rows = [gpu for gpu in self.values["gpus"] if isinstance(gpu, Mapping)]
            self.put("rocm.names", tuple(str(gpu.get("name")) for gpu in rows if gpu.get("name")), "gpus", row)
            targets = tuple(target for gpu in rows if (target := _target(gpu)))
            self.put("rocm.gfx", targets or None, "gpus", row)
            return
        capability = re.fullmatch(r"(?:sm_)?(\d{1,2}\.\d)", str(row.get("cc", "")).strip())
        mig = row.get("mig", self.values.get("mig"))
        in_mig_mode = True if mig is True or (isinstance(mig, str) and not absent(mig)) or re.search(r"\bMIG\b", name or "") else None
        profiles = (mig,) if isinstance(mig, str) and re.fullmatch(r"\d+[a-z]\.\d+gb\S*", mig) else ()
        gpu = Gpu(index, name, compute_capability=capability[1] if capability else None, mig=in_mig_mode, mig_devices=profiles)
        self.put(f"gpu.{index}", gpu, "gpus", row)

    def gpu_count(self, value: object) -> None:
        text = str(value)
        self.put("count.gpus", whole_number(text), "gpu_count", value)

    def mig(self, value: object) -> None:
        if value is True and not self.values.get("gpus"):
            self.put("gpu.0", Gpu(0, mig=True), "mig", value)
        elif isinstance(self.values.get("gpus"), list):
            self.put("stated.mig", value, "mig", value)

    def gpu_vendor(self, value: object) -> None:
        vendor = str(value).lower()
        if vendor in ("amd", "nvidia", "intel", "apple"):
            self.put("gpu_vendor", vendor, "gpu_vendor", value)
        if vendor == "amd":
            self.put(
                "rocm.names",
                tuple(str(gpu.get("name")) for gpu in self.values.get("gpus") or () if isinstance(gpu, Mapping)),
                "gpu_vendor",
                value,
            )
        elif vendor == "intel":
            self.put(
                "xpu.names",
                tuple(str(gpu.get("name")) for gpu in self.values.get("gpus") or () if isinstance(gpu, Mapping)),
                "gpu_vendor",
                value,
            )

    def nvcc(self, value: object) -> None:
        if absent(value):
            return
        release = stated_version(value)
        version = cuda_version(release) or (f"{release}.0" if release and 5 < (whole_number(release) or 0) < 40 else None)
        if release and version:
            one = Nvcc("nvcc", version, release if "." in release else None, "PATH")
            self.put("toolkit.nvcc", one, "nvcc", value)
            self.put("toolkit.nvccs", (one,), "nvcc", value)

    def gcc(self, value: object) -> None:
        self.put("toolkit.gcc", stated_version(value), "gcc", value)

    def fabric_manager(self, value: object) -> None:
        text = str(value).strip().lower()
        word = (
            "absent"
            if absent(value) or value is False
            else "running"
            if text in ("running", "active", "true")
            else "stopped"
            if text in ("stopped", "inactive", "failed", "dead")
            else None
        )
        self.put("driver.fabric_manager", word, "fabric_manager", value)

    def xid(self, value: object) -> None:
        codes = [whole_number(str(one)) for one in (value if isinstance(value, list) else [value])]
        self.put("driver.xids", tuple(Xid(code) for code in codes if code is not None) or None, "xid", value)

    def devices(self, value: object) -> None:
        """Device nodes that are there (true) or not (false)."""
        for name, there in value.items() if isinstance(value, Mapping) else ():
            if name == "/dev/kfd" and isinstance(there, bool):
                self.put("rocm.kfd", there, f"devices.{name}", there)
            elif isinstance(there, bool):
                self.put(f"other.device {name}", "present" if there else "missing", f"devices.{name}", there)
        nodes = (
            {str(name)[5:]: there for name, there in value.items() if str(name).startswith("/dev/nvidia")}
            if isinstance(value, Mapping)
            else {}
        )
        if nodes and all(isinstance(there, bool) for there in nodes.values()):
            self.put("driver.device_nodes_stated", tuple(sorted((name, there) for name, there in nodes.items())), "devices", value)

    # ------------------------------------------------------------------ the rest

    def env(self, value: object) -> None:
        for name, one in value.items() if isinstance(value, Mapping) else ():
            if absent(one):
                self.put(f"env.{name}", _ABSENT_VALUE, f"env.{name}", one)
            elif one == "" or plain(one) is not None:
                self.put(f"env.{name}", str(one), f"env.{name}", one)
            else:
                self.put(f"other.env.{name}", _words(one), f"env.{name}", one)

    def scheduler(self, value: object) -> None:
        word = str(value).strip().lower()
        self.put("launcher.scheduler", word if word in ("slurm", "lsf", "pbs", "kubernetes") else None, "scheduler", value)

    def nodes(self, value: object) -> None:
        self.put("launcher.nodes", whole_number(str(value)), "nodes", value)

    def world_size(self, value: object) -> None:
        self.put("launcher.world_size", whole_number(str(value)), "world_size", value)

    def ranks_started(self, value: object) -> None:
        self.put("launcher.ranks_started", whole_number(str(value)), "ranks_started", value)

    def iommu(self, value: object) -> None:
        """ "on" and "off"; "pt" (pass-through) does not translate."""
        word = str(value).strip().lower()
        on = (
            True
            if word in ("on", "true", "enabled", "yes")
            else False
            if word in ("off", "false", "disabled", "no", "pt", "passthrough")
            else None
        )
        self.put("system.iommu", on, "iommu", value)

    def acs(self, value: object) -> None:
        word = str(value).strip().lower()
        self.put(
            "system.acs",
            {"true": True, "on": True, "enabled": True, "false": False, "off": False, "disabled": False}.get(word),
            "acs",
            value,
        )

    def mps_available(self, value: object) -> None:
        self.put("backends.mps", value if isinstance(value, bool) else None, "mps_available", value)

    def mps_built(self, value: object) -> None:
        self.put("backends.mps_built", value if isinstance(value, bool) else None, "mps_built", value)

    def cpu_flags_missing(self, value: object) -> None:
        flags = {str(flag).lower() for flag in value} if isinstance(value, list) else set(re.findall(r"[a-z0-9_]+", str(value).lower()))
        carried = ("sse4_2", "avx", "avx2", "fma", "avx512f")
        if flags & set(carried):
            order = carried.index(min(flags & set(carried), key=carried.index))
            self.put("system.cpu_flags", tuple(flag for flag in carried[:order] if flag not in flags), "cpu_flags_missing", value)
            self.put("system.cpu_flags_read", True, "cpu_flags_missing", value)

    def ulimit_l(self, value: object) -> None:
        """In kB, as `ulimit -l` prints it."""
        text = str(value).strip().lower()
        kib = whole_number(text)
        if kib is not None:
            self.put("limits.memlock_soft_bytes", kib * 1024, "ulimit_l", value)
        if kib is not None or text == "unlimited":
            self.put("limits.memlock_read", True, "ulimit_l", value)

    def shm(self, value: object) -> None:
        """Size of /dev/shm as df -h prints it: "64M", "64 MB", "8g"."""
        match = re.fullmatch(r"(\d{1,6}(?:\.\d)?)\s?([kmgt])i?b?", str(value).strip().lower())
        size = int(float(match[1]) * 1024 ** ("kmgt".index(match[2]) + 1)) if match else None
        self.put("limits.shm_bytes", size, "shm", value)

    def ulimit_n(self, value: object) -> None:
        self.put("limits.open_files_soft", whole_number(str(value).strip()), "ulimit_n", value)


def _direct(path: str, key: str) -> Callable[[_Observations, object], None]:
    def take(self: _Observations, value: object) -> None:
        self.put(path, None if absent(value) else plain(value), key, value)

    return take


def _version(path: str, key: str) -> Callable[[_Observations, object], None]:
    def take(self: _Observations, value: object) -> None:
        self.put(path, stated_version(value), key, value)

    return take


_KEYS: Mapping[str, Callable[[_Observations, object], None]] = {
    "os": _Observations.os, "arch": _Observations.arch, "platform": _Observations.platform, "wsl": _Observations.wsl,
    "container": _Observations.container, "python": _Observations.python, "installer": _Observations.installer,
    "torch": _Observations.torch, "torch_cuda": _Observations.torch_cuda, "hip": _Observations.hip, "torch_hip": _Observations.hip,
    "arch_list": _Observations.arch_list, "cuda_available": _Observations.cuda_available, "nccl": _Observations.nccl,
    "cudnn": _Observations.cudnn, "packages": _Observations.packages, "driver": _Observations.driver,
    "driver_module": _Observations.kernel_module, "kernel_module": _Observations.kernel_module,
    "driver_userspace": _Observations.library_version, "userspace_driver": _Observations.library_version,
    "driver_cuda": _Observations.driver_cuda, "smi_cuda": _Observations.smi_cuda, "gpus": _Observations.gpus,
    "gpu_count": _Observations.gpu_count, "mig": _Observations.mig, "gpu_vendor": _Observations.gpu_vendor, "nvcc": _Observations.nvcc,
    "gcc": _Observations.gcc, "fabric_manager": _Observations.fabric_manager, "xid": _Observations.xid, "devices": _Observations.devices,
    "env": _Observations.env, "scheduler": _Observations.scheduler, "nodes": _Observations.nodes, "nnodes": _Observations.nodes,
    "world_size": _Observations.world_size, "ranks_started": _Observations.ranks_started, "iommu": _Observations.iommu,
    "acs": _Observations.acs, "acs_enabled": _Observations.acs, "mps_available": _Observations.mps_available,
    "mps_built": _Observations.mps_built, "cpu_flags_missing": _Observations.cpu_flags_missing, "ulimit_l": _Observations.ulimit_l,
    "ulimit_n": _Observations.ulimit_n, "shm": _Observations.shm, "dev_shm": _Observations.shm, "shm_size": _Observations.shm,
    "kernel": _direct("system.kernel", "kernel"), "cpu": _direct("system.cpu_model", "cpu"),
    "glibc": _version("system.glibc", "glibc"), "container_image": _direct("container.image", "container_image"),
    "container_cuda": _version("container.cuda_version", "container_cuda"),
}  # fmt: skip


def _target(row: Mapping[str, Any]) -> str | None:
    """gfx target of a GPU as a key of its own or in its name: "AMD Radeon RX 6600 XT (gfx1032)"."""
    stated = next((str(row[key]) for key in ("gfx", "arch") if str(row.get(key, "")).startswith("gfx")), None)
    named = re.search(r"\bgfx[0-9a-f]{3,4}\b", str(row.get("name") or ""))
    return stated or (named[0] if named else None)
