"""Reports of `python -m torch.utils.collect_env` (torch 1.1 to 2.15), of vLLM's collect_env, and of people typing one by hand.

    PyTorch version: 2.14.0+cu130               PyTorch version              : 2.7.1+cu128
    CUDA used to build PyTorch: 13.0            > Is CUDA available: True
    OS: Ubuntu 24.04.4 LTS (x86_64)             pytorch version：1.13.1
    GPU models and configuration:
    GPU 0: NVIDIA GeForce RTX 4090

Source of the format: torch/utils/collect_env.py. Until 1.5 a boolean is "Yes" or "No"; a value that could not be
read is "N/A", "Could not collect", "No CUDA" or "None"; torch 2.15 says "ROCm SDK used to build PyTorch" and "HIP used ...".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from envcheck.facts.snapshot import Distribution, Gpu, Nvcc
from envcheck.read.found import Found, Notes
from envcheck.read.values import answer_of, cuda_version, gpu_vendor, machine_of, operating_system, version_in
from envcheck.tables.versions import release

# A line that only such a report holds. Keys are compared in lower case.
_STRONG = frozenset(
    {
        "pytorch version", "is debug build", "cuda used to build pytorch", "rocm used to build pytorch", "hip used to build pytorch",
        "rocm sdk used to build pytorch", "xpu used to build pytorch", "is cuda available", "cuda runtime version", "is xpu available",
        "gpu models and configuration", "nvidia driver version", "hip runtime version", "miopen runtime version", "python platform",
        "is xnnpack available", "cuda_module_loading set to", "libc version", "versions of relevant libraries", "vllm version",
    }
)  # fmt: skip
_HINTS = ("ytorch", "YTORCH", "CUDA", "cuda", "driver version", "Python platform", "[pip", "[conda]", "Libc version")

# "> PyTorch version: 2.1.2", "    OS: Ubuntu", "- OS (e.g., Linux):", "OS   : Ubuntu", "| OS: x |", full-width colon of typed reports
_KEY = re.compile(r"[\s>|*#-]{0,12}([A-Za-z][A-Za-z0-9_ /().,'`-]{0,70}?)\s{0,40}[:：]\s?(.*)")
_PLAIN = re.compile(r" ?\(.*")
_NOTHING = frozenset({"", "n/a", "could not collect", "none", "no cuda", "no", "unknown", "not set", "null", "-"})

_GPU = re.compile(r"GPU\s{0,3}(\d{1,3})\s{0,3}[:：]\s{0,3}(.{1,200})")
_MIG = re.compile(r"MIG\s+(\d+[a-z]\.\d+gb\S*)\s+Device", re.IGNORECASE)
_GFX = re.compile(r"\((gfx[0-9a-f]{3,5})[^)]{0,60}\)")
_PIP = re.compile(r"\[pip3?\]\s+([A-Za-z0-9][\w.-]{0,80})==(\S{1,80})")
_CONDA = re.compile(r"\[conda\]\s+([A-Za-z0-9][\w.-]{0,80})\s+(\d\S{0,60})(?:\s+(\S{1,80}))?(?:\s+(\S{1,40}))?")
_PYTHON = re.compile(r"(\d\.\d{1,2}(?:\.\d{1,3})?(?:(?:a|b|rc)\d+)?\+?)")
_PLATFORM = re.compile(r"Linux-(.{1,90}?)-(x86_64|aarch64|arm64|ppc64le|s390x|riscv64)(?:-|$)")
_VERSION = re.compile(r"\d{1,2}\.\d{1,2}(?:\.\d{1,3})?")
_ENVIRONMENT = re.compile(
    r"\s{0,8}((?:CUDA|NVIDIA|NCCL|GLOO|HIP|ROCR|HSA|ZE|UCX|FI|LD|PYTORCH|TORCH|VLLM|OMP|MASTER|MKL|XLA|SLURM)_[A-Z0-9_]{1,60}|RANK|WORLD_SIZE|LOCAL_RANK)=(.*)"
)
_XPU_NAME = re.compile(r"name='(Intel[^']{1,80})'|^[ \t]{0,40}\*?[ \t]{0,40}(Intel\(R\)[^,'\n]{3,80})$")
_CARRIED_FLAGS = ("sse4_2", "avx", "avx2", "fma", "avx512f", "amx_tile", "asimd", "sve")


_REPORTS = 4  # of one text that are looked at


def read_collect_env(text: str) -> Found | None:
    """The facts of one report of a text: of several the first, unless it found a GPU and a later one did not. Who gives both asks why."""
    if not any(hint in text for hint in _HINTS):
        return None
    lines = text.split("\n")
    first: Notes | None = None
    start = 0
    for _ in range(_REPORTS):
        start, end, following = _span(lines, start)
        if start < 0:
            break
        notes = _read(lines, start, end)
        first = first or notes
        if _available(notes) is False and _available(first) is True:
            return notes.found()
        start = following
        if following < 0 or _available(first) is not True:
            break
    return first.found() if first else None


def _read(lines: Sequence[str], start: int, end: int) -> Notes:
    notes = Notes("collect_env")
    report = _Report(notes)
    for number, line in enumerate(lines[start:end], start + 1):
        report.line(line, number)
    report.finish()
    return notes


def _available(notes: Notes) -> object:
    found = notes.facts.get("devices.available")
    return found.value if found else None


def _span(lines: Sequence[str], begin: int) -> tuple[int, int, int]:
    """Line range of the report from here on: from a little before its first own key to a while after its last one, and the line on which
    another begins, -1 if none does; (-1, -1, -1) if there is none."""
    first = last = -1
    for index, line in enumerate(lines[begin:], begin):
        if len(line) < 400 and (":" in line or "：" in line):
            match = _KEY.match(line)
            if match and _key(match[1]) in _STRONG:
                if first < 0:
                    first = index
                elif index - last > 2000:
                    return _from(first, begin), last + 400, index  # another machine's report further down
                elif "pytorch version" in line.lower() and index - first > 12:
                    return _from(first, begin), index, index  # a second report begins
                last = index
        elif first < 0 and line.lstrip().startswith(("[pip", "[conda]")):
            first = last = index
    return (-1, -1, -1) if first < 0 else (_from(first, begin), last + 400, -1)


def _from(first: int, begin: int) -> int:
    return max(first - 40, begin)


def _key(raw: str) -> str:
    key = " ".join(raw.lower().split())
    return key if key in _STRONG else _PLAIN.sub("", key)


# What collect_env prints beside the version, and the form for those who cannot run it does not ask for
_BY_PROGRAM = ("is debug build", "cuda used to build pytorch", "is cuda available")


class _Report:
    """One report, read line by line; what belongs together is put together in `finish`."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.block = ""  # key whose list is going on
        self.gpus: list[Gpu] = []
        self.gpu_lines: list[tuple[str, int]] = []
        self.pip: dict[str, tuple[Distribution, str, int]] = {}
        self.conda: dict[str, tuple[Distribution, str, int]] = {}
        self.values: dict[str, tuple[str, str, int]] = {}
        self.environment: dict[str, tuple[str, str, int]] = {}
        self.xpu_names: list[str] = []

    def line(self, line: str, number: int) -> None:
        if len(line) > 20000:
            return
        if self._listed(line, number) or self._variable(line, number):
            return
        match = _KEY.match(line) if len(line) < 2000 or "lags" in line[:20] else None
        if match is None:
            self._continued(line, number)
            return
        key, value = _key(match[1]), answer_of(match[2]).rstrip("|").strip()
        if self.block == "gpu models and configuration" and key.startswith(("gpu", "mig")):
            self._continued(line, number)
            return
        if self.block == "intel gpu driver version" and line.lstrip().startswith("*"):
            self.values.setdefault(f"intel {key}", (value, line, number))  # "* libze1:  1.27.0-1~24.04~ppa1"
            return
        self.block = key
        self.values.setdefault(key, (value, line, number))
        if key == "gpu models and configuration" and value:
            self._continued(value, number)

    def _listed(self, line: str, number: int) -> bool:
        if "[pip" not in line and "[conda]" not in line:
            return False
        match = _PIP.search(line)
        if match:
            name = normal(match[1])
            self.pip.setdefault(name, (Distribution(name, match[2], installer="pip"), line, number))
            return True
        match = _CONDA.search(line)
        if match:
            name = normal(match[1])
            channel = match[4] or (match[3] if match[3] in ("<pip>", "pypi") else None)
            one = Distribution(name, match[2], installer="conda", build=match[3], channel=channel)
            self.conda.setdefault(name, (one, line, number))
            return True
        return "ould not collect" in line

    def _variable(self, line: str, number: int) -> bool:
        match = _ENVIRONMENT.match(line) if "=" in line else None
        if match:
            self.environment.setdefault(match[1], (match[2].strip(), line, number))
        return bool(match)

    def _continued(self, line: str, number: int) -> None:
        """A line of a list: the GPUs, Intel's drivers and devices."""
        if self.block == "gpu models and configuration":
            self._gpu(line, number)
        elif self.block in ("intel gpu models onboard", "intel gpu models detected"):
            match = _XPU_NAME.search(line)
            if match:
                self.xpu_names.append(f"{self.block[17:]} {match[1] or match[2]}".strip())
        elif self.block == "cpu" and line.strip():
            self.notes.put("system.cpu_model", line.strip(), line, number)  # macOS prints the name alone
            self.block = ""
        elif self.block == "intel gpu driver version" and line.strip():
            self.values.setdefault(f"intel {line.strip(' *').split(':')[0].strip()}", (line.rpartition(":")[2].strip(" *\t"), line, number))

    def _gpu(self, line: str, number: int) -> None:
        mig = _MIG.search(line)
        if mig and self.gpus:
            last = self.gpus[-1]
            self.gpus[-1] = Gpu(last.index, last.name, mig=True, mig_devices=(*last.mig_devices, mig[1]))
            return
        match = _GPU.search(line)
        name = (match[2] if match else line).split("(UUID")[0].strip(" \t|>")
        if not name or name.lower() in _NOTHING or (not match and (self.gpus or not gpu_vendor(name))):
            if name:
                self.block = ""
            return
        index = int(match[1]) if match else 0
        if all(one.index != index for one in self.gpus):
            self.gpus.append(Gpu(index, name))
            self.gpu_lines.append((line, number))

    # ------------------------------------------------------------------ what the lines say

    def finish(self) -> None:
        if (self.said("python version") or "").startswith("2."):
            self.pip = {name: row for name, row in self.pip.items() if "[pip3]" not in row[1]}  # pip3 is another interpreter's
        self._system()
        self._python()
        self._torch()
        self._accelerators()
        self._toolkit()
        self._libraries()
        self._variables()

    def said(self, key: str) -> str | None:
        """The value of a key unless it says nothing."""
        value = self.values.get(key, ("", "", 0))[0]
        return None if value.strip().lower() in _NOTHING else value.strip()

    def put(self, path: str, value: object, key: str) -> None:
        _, line, number = self.values.get(key, ("", "", 0))
        self.notes.put(path, value, line, number)

    def _system(self) -> None:
        operating = self.said("os")
        if operating:
            for path, value in operating_system(operating).items():
                self.put(path, value, "os")
        platform = self.said("python platform") or ""
        match = _PLATFORM.match(platform)
        if match:
            self.put("system.os", "linux", "python platform")
            self.put("system.kernel", match[1], "python platform")
            self.put("system.machine", machine_of(match[2]), "python platform")
            if "microsoft" in match[1].lower():
                self.put("system.wsl", 2 if "wsl2" in match[1].lower() or "standard" in match[1].lower() else 1, "python platform")
            if "-tegra" in match[1]:
                self.put("system.jetson", f"kernel {match[1]}", "python platform")
        elif platform.startswith("macOS"):
            self.put("system.os", "darwin", "python platform")
        elif platform.startswith("Windows"):
            self.put("system.os", "windows", "python platform")
        self._cpu()
        libc = re.match(r"glibc-(\d\.\d{1,2})", self.said("libc version") or "")
        if libc and not self._libc_is_unreliable():
            self.put("system.glibc", libc[1], "libc version")
            self.put("system.libc", "glibc", "libc version")

    def _libc_is_unreliable(self) -> bool:
        """Before 3.8 platform.libc_ver() names the newest symbol that the interpreter asks for, not the library: https://bugs.python.org/issue26544"""
        match = re.match(r"(\d)\.(\d{1,2})", self.said("python version") or "")
        return match is not None and (int(match[1]), int(match[2])) < (3, 8)

    def _cpu(self) -> None:
        if self.said("architecture") in ("x86_64", "aarch64", "arm64"):
            self.put("system.machine", machine_of(self.said("architecture") or ""), "architecture")
        self.put("system.cpu_vendor", self.said("vendor id"), "vendor id")
        self.put("system.cpu_model", self.said("model name") or self.said("name"), "model name" if self.said("model name") else "name")
        count = self.said("cpu(s)") or ""
        if count.isdecimal():
            self.put("system.cpu_count", int(count), "cpu(s)")
        flags = (self.said("flags") or "").split()
        if len(flags) > 10:
            self.put("system.cpu_flags", tuple(flag for flag in _CARRIED_FLAGS if flag in flags), "flags")
            self.put("system.cpu_flags_read", True, "flags")
        if self.said("hypervisor vendor"):
            self.put("system.virtualization", self.said("hypervisor vendor"), "hypervisor vendor")

    def _python(self) -> None:
        value = self.said("python version")
        match = _PYTHON.match(value or "")
        if value and match:
            self.put("python.version", match[1].rstrip("+"), "python version")
            bits = re.search(r"\((32|64)-bit runtime\)", value)
            self.put("python.bits", int(bits[1]) if bits else None, "python version")
            self.put("python.free_threaded", True if "free-threading" in value else None, "python version")
            built = re.search(r"\((AMD64|ARM64)\)\]", value)  # "[MSC v.1944 64 bit (AMD64)]"
            self.put("system.machine", {"AMD64": "x86_64", "ARM64": "arm64"}[built[1]] if built else None, "python version")
        if "PyPy" in (value or ""):
            self.put("python.implementation", "pypy", "python version")

    def _torch(self) -> None:
        version = version_in(self.said("pytorch version") or "")
        if version:
            self.put("torch.version", version, "pytorch version")
            if any(key in self.values for key in _BY_PROGRAM):  # a form that somebody filled in says nothing of an import
                self.put("torch.import_status", "ok", "pytorch version")
        elif "pytorch version" in self.values and self._no_torch():
            self._torch_not_there()
        self.put("torch.debug", _yes(self.said("is debug build")), "is debug build")
        self.put("torch.cuda", cuda_version(self.said("cuda used to build pytorch")), "cuda used to build pytorch")
        for key in ("hip used to build pytorch", "rocm used to build pytorch"):
            self.put("torch.hip", version_in(self.said(key) or ""), key)
        self.put("torch.xpu", version_in(self.said("xpu used to build pytorch") or "", single=True), "xpu used to build pytorch")
        available = self.values.get("is cuda available", ("", "", 0))[0].strip().lower()
        answers = {"true": True, "yes": True, "false": False, "no": False}
        mac = (self.said("os") or "").lower().startswith("mac")
        if not (mac and "torch.cuda" not in self.notes.facts):  # a build for the CPU, and MPS is not asked for
            self.put("devices.available", answers.get(available), "is cuda available")
        self._cpu_build(version)

    def _no_torch(self) -> bool:
        return self.values["pytorch version"][0].strip().lower() == "n/a"

    def _torch_not_there(self) -> None:
        """ "N/A" is printed when `import torch` fails: a torch that is listed does not import; one that is not listed is not there."""
        listed = self.pip.get("torch")
        if listed:
            self.notes.put("torch.version", listed[0].version, listed[1], listed[2])
            self.put("torch.import_status", "error", "pytorch version")
        elif self.pip and not {"torch", "pytorch"} & set(self.conda):
            self.put("missing.torch", "collect_env found no torch, and pip lists none", "pytorch version")

    def _cpu_build(self, version: str | None) -> None:
        """Certain from "+cpu"; else CUDA, ROCm and XPU must all be denied, and nothing of Intel's runtime be installed."""
        cuda = self.values.get("cuda used to build pytorch", ("", "", 0))[0].strip().lower()
        if version and "+cpu" in version:
            self.put("torch.cpu_build", True, "pytorch version")
        elif version and cuda == "none" and self.notes.facts.keys().isdisjoint({"torch.hip", "torch.xpu"}):
            if "a0" in version and "is xpu available" not in self.values:
                return  # built from source, and the report is too old to say whether for XPU
            intel = any(
                name.startswith(("dpcpp", "intel-", "oneccl", "triton-xpu", "pytorch-triton-xpu")) for name in {*self.pip, *self.conda}
            )
            apple = "system.os" in self.notes.facts and self.notes.facts["system.os"].value == "darwin"
            other = intel or apple or "+xpu" in version or "xpu" in (self.said("is xpu available") or "")
            if not other and (self._says_rocm() or any(gpu_vendor(gpu.name or "") == "nvidia" for gpu in self.gpus)):
                self.put("torch.cpu_build", True, "cuda used to build pytorch")

    def _says_rocm(self) -> bool:
        """A report of torch before 1.6 has no ROCm line; there ROCm builds say "None" too (but beside no NVIDIA GPU)."""
        return bool({"rocm used to build pytorch", "rocm sdk used to build pytorch"} & set(self.values))

    def _accelerators(self) -> None:
        darwin = self.notes.facts.get("system.os")
        nvidia = [(gpu, where) for gpu, where in zip(self.gpus, self.gpu_lines, strict=True) if gpu_vendor(gpu.name or "") != "amd"]
        for gpu, (line, number) in nvidia:
            if "nvgpu" in (gpu.name or ""):  # the integrated GPU of a Jetson
                self.notes.put("system.jetson", gpu.name, line, number)
            self.notes.put(f"gpu.{gpu.index}", gpu, line, number)
        amd = [(gpu, where) for gpu, where in zip(self.gpus, self.gpu_lines, strict=True) if gpu_vendor(gpu.name or "") == "amd"]
        if amd:
            line, number = amd[0][1]
            self.notes.put("rocm.names", tuple(_GFX.sub("", gpu.name or "").strip() for gpu, _ in amd), line, number)
            self.notes.put("rocm.gfx", tuple(match[1] for gpu, _ in amd if (match := _GFX.search(gpu.name or ""))) or None, line, number)
        driver = re.match(r"\d{3}\.\d{2,3}(?:\.\d{1,3})?", self.said("nvidia driver version") or "")
        if driver and not (darwin and darwin.value == "darwin"):
            self.put("driver.version", driver[0], "nvidia driver version")
            self.put("driver.smi", "ok", "nvidia driver version")  # collect_env asks nvidia-smi and nothing else
        self._intel()
        self._apple()

    def _intel(self) -> None:
        xpu = _yes(self.said("is xpu available") or self.values.get("is xpu available", ("",))[0])
        self.put("backends.xpu", xpu, "is xpu available")
        onboard = tuple(name[8:] for name in self.xpu_names if name.startswith("onboard "))
        detected = tuple(name[9:] for name in self.xpu_names if name.startswith("detected "))
        key = "intel gpu models onboard" if onboard else "intel gpu models detected"
        self.put("xpu.names", onboard or detected or None, key)
        for name, path in (("libze1", "xpu.level_zero"), ("intel-opencl-icd", "xpu.compute_runtime")):
            self.put(path, self.said(f"intel {name}"), f"intel {name}")

    def _apple(self) -> None:
        operating = self.notes.facts.get("system.os")
        if operating is None or operating.value != "darwin":
            return
        version = self.notes.facts.get("system.macos_version")
        self.put("mps.macos", version.value if version else None, "os")
        machine, model = self.notes.facts.get("system.machine"), self.notes.facts.get("system.cpu_model")
        cpu = str(model.value) if model else ""
        if (machine and machine.value == "arm64") or cpu.startswith("Apple"):
            self.put("mps.apple_silicon", True, "os")
            self.put("mps.rosetta", True if machine and machine.value == "x86_64" else None, "os")
        elif "Intel" in cpu:
            self.put("mps.apple_silicon", False, "os")
        self.put("mps.chip", cpu or None, "os")

    def _toolkit(self) -> None:
        runtime = self.said("cuda runtime version")
        match = re.search(r"(\d{1,2}\.\d{1,2})(?:\.\d{1,4})?", runtime or "")
        if match:
            nvcc = Nvcc("nvcc", match[1], match[0], "PATH")
            self.put("toolkit.nvcc", nvcc, "cuda runtime version")  # collect_env asks `nvcc --version`
            self.put("toolkit.nvccs", (nvcc,), "cuda runtime version")
        gcc = self.said("gcc version") or ""  # "(Ubuntu 9.4.0-1ubuntu1~20.04.1) 9.4.0", "(GCC) 4.8.5 20150623 (Red Hat 4.8.5-36)"
        match = _VERSION.search(re.sub(r"^\s*\([^)]{0,80}\)", "", gcc)) or _VERSION.search(gcc)
        self.put("toolkit.gcc", match[0] if match else None, "gcc version")
        match = _VERSION.search(self.said("clang version") or "")
        self.put("toolkit.clang", match[0] if match else None, "clang version")

    def _libraries(self) -> None:
        """Packages of the interpreter. The [conda] lines come from the conda that is on PATH: they count only if they agree on torch."""
        rows = dict(self.pip)
        if self._conda_is_ours():
            for name, row in self.conda.items():
                ours = "torch" if name == "pytorch" else name
                rows.setdefault(ours, (Distribution(ours, row[0].version, None, "conda", row[0].build, row[0].channel), row[1], row[2]))
        for name, (one, line, number) in rows.items():
            self.notes.put(f"package.{name}", one, line, number)
        torch = self.conda.get("pytorch") or self.conda.get("torch")
        if torch and "torch" not in self.pip and self._conda_is_ours() and torch[0].channel not in ("pypi", "<pip>"):
            self.notes.put("torch.conda", True, torch[1], torch[2])

    def _conda_is_ours(self) -> bool:
        version = self.notes.facts.get("torch.version")
        listed = self.conda.get("pytorch") or self.conda.get("torch")
        if version is None or listed is None:
            return not self.pip
        return release(listed[0].version) == release(str(version.value))

    def _variables(self) -> None:
        for name, (value, line, number) in self.environment.items():
            self.notes.put(f"env.{name}", value, line, number)
        if self.environment:
            line, number = next(iter(self.environment.values()))[1:]
            if self.notes.kind == "collect_env" and "vllm version" in self.values:
                self.notes.put("env.", True, line, number)  # the list of variables is there: what is not in it is not set


def normal(name: str) -> str:
    """A distribution's name as packaging normalizes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _yes(value: str | None) -> bool | None:
    return {"true": True, "yes": True, "false": False, "no": False}.get((value or "").strip().lower())
