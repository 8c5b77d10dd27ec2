"""What is installed, read without importing any of it: the interpreter, the distributions, and torch/version.py."""

from __future__ import annotations

import os
import sys
import sysconfig

from . import jsonl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Optional, Tuple


# Distributions whose version or presence bears on torch; by normalized name or its prefix.
FAMILY = {
    "torch", "torchvision", "torchaudio", "torchtext", "torchdata", "torchcodec", "torchao", "torchtune", "torchrec", "torch-tensorrt",
    "pytorch", "pytorch-triton", "pytorch-triton-rocm", "pytorch-lightning", "lightning", "triton", "triton-windows", "triton-xpu",
    "xformers", "flash-attn", "flashinfer-python", "bitsandbytes", "vllm", "sglang", "deepspeed", "apex", "accelerate", "transformers",
    "peft", "trl", "numpy", "pynvml", "nvidia-ml-py", "cuda-toolkit", "cuda-bindings", "cuda-python", "cupy-cuda11x", "cupy-cuda12x",
    "cupy-cuda13x", "intel-extension-for-pytorch", "onnxruntime-gpu", "ray", "horovod", "mpi4py", "fairscale", "megatron-core",
    "transformer-engine", "torch-scatter", "torch-sparse", "torch-cluster", "torch-geometric", "pyg-lib", "causal-conv1d", "mamba-ssm",
    "auto-gptq", "py-spy", "jax", "jaxlib", "tensorflow", "setuptools", "typing-extensions", "sympy", "fsspec", "jinja2", "networkx",
    "filelock", "mpmath", "markupsafe", "mkl", "importlib-metadata", "envcheck", "torch-envcheck",
}  # fmt: skip
FAMILY_PREFIXES = ("nvidia-", "torch", "rocm", "cuda-", "intel-", "oneccl", "onemkl", "tcmlib", "umf", "dpcpp", "impi", "triton")
# Requirements are compared only for these: they pin torch or are pinned by it, or torch needs what they need.
REQUIRING = {
    "torch", "torchvision", "torchaudio", "torchtext", "torchdata", "torchcodec", "xformers", "vllm", "torch-tensorrt", "triton",
    "bitsandbytes", "flash-attn", "torchao", "nvidia-cudnn-cu12", "nvidia-cudnn-cu13", "cuda-toolkit", "sglang", "torchrec",
    "pytorch-lightning", "sympy", "jinja2",
}  # fmt: skip
# Of these the files are compared with RECORD; of torch, whose list is long, only those without which nothing can be imported.
COMPARED = ("torch", "numpy", "triton", "torchvision", "torchaudio")
# Distributions of pure Python that torch requires, and the module of each.
MODULES = {"typing-extensions": "typing_extensions", "sympy": "sympy", "mpmath": "mpmath", "filelock": "filelock", "networkx": "networkx",
           "jinja2": "jinja2", "markupsafe": "markupsafe", "fsspec": "fsspec", "setuptools": "setuptools", "triton": "triton"}  # fmt: skip
# Their metadata carries no local version on PyPI; version.py of each does.
LABELLED = ("torchvision", "torchaudio", "torchcodec")
# Variables of the target that decide what is loaded or from where it is installed, and those that a notebook's kernel hands on.
VARIABLES = ("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE", "CONDA_PREFIX", "CONDA_OVERRIDE_CUDA",
             "VIRTUAL_ENV", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BNB_CUDA_VERSION", "TRITON_CACHE_DIR", "MAX_JOBS", "CC", "CXX",
             "HF_HOME", "PYTHONTRACEMALLOC", "PYTHONPROFILEIMPORTTIME", "PYTHONDEVMODE", "PYTHONMALLOC", "PYTHONVERBOSE", "LD_DEBUG",
             "MALLOC_CHECK_", "COVERAGE_PROCESS_START", "JPY_PARENT_PID", "COLAB_RELEASE_TAG")  # fmt: skip
VARIABLE_PREFIXES = ("PYTORCH_", "TORCH_", "CUDA_", "PIP_", "UV_", "HSA_", "XLA_", "TORCHINDUCTOR_")
SECRET = ("TOKEN", "KEY", "SECRET", "PASSWORD", "CREDENTIAL", "AUTH")
# Modules of the standard library that torch's import needs and whose names people give to their own files.
HIDDEN = ("random", "types", "typing", "logging", "queue", "socket", "code", "copy", "enum", "json", "re", "signal", "select", "platform",
          "inspect", "multiprocessing", "pickle", "subprocess", "tempfile", "threading")  # fmt: skip
# Packages that torch imports: a file of that name beside a program hides them. A folder may be a checkout of the package itself.
HIDDEN_FILES = ("typing_extensions", "sympy", "mpmath", "filelock", "networkx", "jinja2", "markupsafe", "fsspec")
CONDA_NAMES = ("cudatoolkit", "cudnn", "nccl", "libtorch", "pytorch-cuda", "pytorch-gpu", "pytorch-mutex")


def normalized(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def wanted(name: str) -> bool:
    return name in FAMILY or name.startswith(FAMILY_PREFIXES)


def read(path: str, limit: int = 1 << 20) -> Optional[str]:
    try:
        with open(jsonl.plain_file(path), encoding="utf-8", errors="replace") as file:
            return file.read(limit)
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return None


def is_missing(path: str) -> bool:
    """True only if the file is known not to be there; a folder that may not be entered says nothing."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


def names_in(folder: str) -> List[str]:
    try:
        return sorted(os.listdir(folder))
    except (OSError, ValueError):
        return []


def searched() -> List[str]:
    """sys.path as import reads it: entries that are no strings are passed over."""
    entries: List[Any] = list(sys.path)
    return [path for path in entries if isinstance(path, str) and path]


def released(version: Any) -> str:
    """(3, 14, 0, "candidate", 2) as "3.14.0rc2", the form of packaging's python_full_version."""
    short = "" if version[3] == "final" else {"alpha": "a", "beta": "b"}.get(version[3], "rc") + str(version[4])
    return "%d.%d.%d" % tuple(version[:3]) + short


def python_facts() -> Dict[str, Any]:
    """The interpreter: how it was made and what it can see."""
    prefix, base = sys.prefix, getattr(sys, "base_prefix", sys.prefix)
    conda_meta = os.path.isdir(os.path.join(prefix, "conda-meta"))
    config = read(os.path.join(prefix, "pyvenv.cfg")) or ""
    keys = {line.partition("=")[0].strip() for line in config.splitlines()}
    if conda_meta:
        kind = "pixi" if os.sep + ".pixi" + os.sep in prefix + os.sep else "conda"
    elif "uv" in keys:
        kind = "uv"
    elif config:
        kind = "poetry" if "pypoetry" in prefix else "virtualenv" if "virtualenv" in keys else "venv"
    else:
        kind = "system"
    paths = jsonl.attempt(sysconfig.get_paths) or {}  # an interpreter without its build data raises
    site = sys.modules.get("site")
    enabled = getattr(site, "ENABLE_USER_SITE", None)
    return {
        "executable": sys.executable,
        "version": released(sys.version_info),
        "implementation": sys.implementation.name,
        "free_threaded": jsonl.attempt(lambda: bool(sysconfig.get_config_var("Py_GIL_DISABLED"))),
        "bits": 64 if sys.maxsize > 2**32 else 32,
        "platform": jsonl.text(sysconfig.get_platform),
        "prefix": prefix,
        "environment": kind,
        "environment_path": prefix if prefix != base or conda_meta else None,
        "has_pip": any(os.path.isdir(os.path.join(path, "pip")) for path in searched()),
        "has_conda_meta": conda_meta,
        "uv": "uv" in keys,
        "externally_managed": prefix == base and "stdlib" in paths and os.path.exists(os.path.join(paths["stdlib"], "EXTERNALLY-MANAGED")),
        "user_site": getattr(site, "USER_SITE", None),
        "user_site_enabled": bool(enabled) if enabled is not None else None,
        "pythonpath": os.environ.get("PYTHONPATH"),
        "purelib": paths.get("purelib"),
        "sys_path": searched(),
        "include_python_h": os.path.exists(os.path.join(paths["include"], "Python.h")) if "include" in paths else None,
        "shadowing": shadowing(),
        "variables": variables(),
        "working_folder_gone": working_folder_gone(),
        "no_site": bool(sys.flags.no_site),
        "torch_for_another_python": torch_for_another_python(prefix),
        "index_url": index_url(prefix),
    }


def torch_for_another_python(prefix: str) -> Optional[str]:
    """A torch of this environment that only another Python looks for: the environment's interpreter was exchanged under it."""
    here = [jsonl.attempt(os.path.realpath, path) for path in searched()]
    for name in names_in(os.path.join(prefix, "lib")):
        site = os.path.join(prefix, "lib", name, "site-packages")
        if name.startswith("python3") and os.path.realpath(site) not in here and os.path.exists(os.path.join(site, "torch", "__init__.py")):
            return site
    return None


def working_folder_gone() -> Optional[str]:
    """The folder in which we were started, if it was deleted: /proc/self/cwd → "/tmp/job (deleted)"."""
    try:
        os.getcwd()
    except FileNotFoundError:
        place = jsonl.attempt(os.readlink, "/proc/self/cwd") or "a folder"
        return str(place).replace(" (deleted)", "")
    except OSError:  # may not be read: that is no deletion
        return None
    return None


def shadowing() -> List[str]:
    """Files of the working folder and of PYTHONPATH that `import` would take instead of torch, what it needs, or the standard library."""
    here = jsonl.attempt(os.getcwd)  # None if the folder was deleted meanwhile
    found = []
    seen = set()  # the working folder is often on PYTHONPATH too
    for folder in [here, *(os.environ.get("PYTHONPATH") or "").split(os.pathsep)]:
        if not folder or ((sys.prefix + os.sep).startswith(folder + os.sep) and folder != here) or os.path.realpath(folder) in seen:
            continue
        seen.add(os.path.realpath(folder))
        for name in ("torch", "numpy", "triton", *HIDDEN, *HIDDEN_FILES):
            places = (os.path.join(folder, name + ".py"), os.path.join(folder, name, "__init__.py"))
            for path in places[:1] if name in HIDDEN_FILES else places:
                # A checkout or an installation of the real package is no intruder: it has torch/version.py or is site-packages.
                if not os.path.isfile(path) or path.endswith(os.path.join("site-packages", name, "__init__.py")):
                    continue
                if not os.path.exists(os.path.join(folder, name, "version.py")) and not has_distribution(folder, name):
                    found.append(path)
    return found


def has_distribution(folder: str, name: str) -> bool:
    return any(entry.startswith(name + "-") and entry.endswith((".dist-info", ".egg-info")) for entry in names_in(folder))


def variables() -> Dict[str, str]:
    chosen = {}
    for key, value in os.environ.items():
        if key in VARIABLES or key.startswith(VARIABLE_PREFIXES):
            chosen[key] = "(hidden)" if any(word in key for word in SECRET) else without_password(value)
    return dict(sorted(chosen.items()))


def without_password(text: str) -> str:
    """Text whose URLs have lost user:password and the tokens of conda channels ("/t/TOKEN/"). There may be several URLs."""
    head, *rest = text.split("://")
    kept = [head]
    for part in rest:
        space = next((at for at, letter in enumerate(part) if letter.isspace() or letter in ",;"), len(part))
        kept.append(without_login(part[:space]) + part[space:])
    return "://".join(kept)


def without_login(url: str) -> str:
    """From user:password@host/path to host/path."""
    authority, slash, path = url.partition("/")
    if "@" in authority:
        authority = authority.rpartition("@")[2]
    elif "@" in path and ":" in authority and not authority.rpartition(":")[2].isdecimal():  # a password with a slash in it
        authority, slash, path = path.rpartition("@")[2].partition("/")
    if path.startswith("t/"):
        path = path[2:].partition("/")[2]
    return authority + slash + path


def index_url(prefix: str) -> Optional[str]:
    """The package index that pip or uv is configured with, if any."""
    for key in ("PIP_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX"):
        if os.environ.get(key):
            return without_password(os.environ[key])
    home = os.path.expanduser("~")
    places = (os.path.join(prefix, "pip.conf"), os.path.join(home, ".config/pip/pip.conf"), os.path.join(home, ".pip/pip.conf"))
    for path in (*places, "/etc/pip.conf"):
        for line in (read(path, 65536) or "").splitlines():
            key, _, value = line.partition("=")
            if key.strip() in ("index-url", "index_url") and value.strip():
                return without_password(value.strip())
    return None


def package_facts(ours: str) -> Dict[str, Any]:
    """Distributions of the torch family from folder names and their small files; `requirements` are judged by the caller."""
    rows: List[Dict[str, Any]] = []
    headers: List[Tuple[str, List[Tuple[str, str]]]] = []
    records: Dict[str, Tuple[str, str]] = {}
    leftovers: List[str] = []
    every = set()
    for folder in folders(ours):
        for entry in names_in(folder):
            path = os.path.join(folder, entry)
            if entry.startswith("~") and entry.lower().startswith(("~orch", "~riton", "~vidia", "~umpy")):
                leftovers.append(path)
            stem, ending = os.path.splitext(entry)
            name = normalized(stem.partition("-")[0])
            if ending not in (".dist-info", ".egg-info"):
                continue
            every.add(name)
            if not wanted(name):
                continue
            file = os.path.join(path, "METADATA" if ending == ".dist-info" else "PKG-INFO")
            if os.path.isdir(path) and is_missing(file):
                leftovers.append(path)
                continue
            fields = list(headers_of(read(file, 200000) or ""))
            rows.append(distribution(folder, path, name, fields))
            if name in REQUIRING and all(name != owner for owner, _ in headers):  # the first on the path is the one that is imported
                headers.append((name, fields))
            if name.startswith("nvidia-") or name in COMPARED:
                records[path] = (name, folder)
    conda = conda_packages()
    requirements = requirements_of(headers)
    overwritten, damaged = owners(records, rows)
    return {
        "distributions": rows + conda,
        "leftovers": leftovers,
        "overwritten": overwritten,
        "damaged": damaged + without_module(rows),
        "requirements": requirements,
        "absent": absent(requirements, every.union(normalized(row["name"]) for row in conda)),
        "markers": marker_environment(),
    }


def distribution(folder: str, path: str, name: str, fields: List[Tuple[str, str]]) -> Dict[str, Any]:
    """One row, from the folder of its metadata and the fields in there; without a version there, the folder's name has one."""
    stem = os.path.splitext(os.path.basename(path))[0]
    version = next((value for key, value in fields if key == "Version"), None) or stem.partition("-")[2].split("-py")[0]
    return {
        "name": name,
        "version": labelled(folder, name, version),
        "location": folder,
        "installer": (read(os.path.join(path, "INSTALLER"), 100) or "").strip() or None,
        "direct_url": direct_url(path),
        "built_for": built_for(folder) if name == "xformers" else None,
        "foreign_tag": foreign_tag(read(os.path.join(path, "WHEEL"), 20000) or ""),
    }


def foreign_tag(wheel: str) -> Optional[str]:
    """The first tag of a wheel of which no tag is for this Python and machine: "cp312-cp312-manylinux_2_28_x86_64" under Python 3.11."""
    tags = [line.partition(":")[2].strip() for line in wheel.splitlines() if line.startswith("Tag:")]
    tags = [tag for tag in tags if tag.count("-") == 2]
    if not tags or sys.implementation.name != "cpython" or any(for_this_python(tag) and for_this_machine(tag) for tag in tags):
        return None
    return tags[0]


def for_this_python(tag: str) -> bool:
    """By the first two parts of a tag; what is not known is taken to fit. abi3 fits its own Python and all that came after it."""
    names, abi, _ = tag.split("-")
    minors = [int(name[3:]) for name in names.split(".") if name.startswith("cp3") and name[3:].isdecimal()]
    if not minors or abi == "none":
        return True
    return min(minors) <= sys.version_info[1] if abi == "abi3" else sys.version_info[1] in minors


# What ends the platform of a tag, and the machine as the kernel calls it.
MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64", "ppc64le": "ppc64le", "s390x": "s390x"}


def for_this_machine(tag: str) -> bool:
    """By the last part of a tag: "manylinux_2_28_aarch64.manylinux2014_aarch64", "macosx_11_0_universal2", "any"."""
    here = MACHINES.get(marker_environment()["platform_machine"].lower())
    system = {"linux": ("manylinux", "musllinux", "linux"), "darwin": ("macosx",), "win32": ("win",)}.get(sys.platform)
    for platform in tag.split("-")[2].split("."):
        machine = next((name for end, name in MACHINES.items() if platform.endswith(end)), None)
        other_system = (
            system is not None and platform.startswith(("manylinux", "linux", "macosx", "win")) and not platform.startswith(system)
        )
        other_machine = machine is not None and here is not None and machine != here and sys.maxsize > 2**32
        if not (other_system or other_machine):
            return True
    return False


def labelled(folder: str, name: str, version: str) -> str:
    """The version with the build that only version.py states: "0.28.0" and "__version__ = '0.28.0+cu130'" are 0.28.0+cu130."""
    if name not in LABELLED or "+" in version:
        return version
    for line in (read(os.path.join(folder, name, "version.py"), 4000) or "").splitlines():
        key, _, value = line.partition("=")
        own = value.strip().strip("'\"")
        if key.strip() == "__version__" and own.startswith(version + "+"):
            return own
    return version


def built_for(folder: str) -> Optional[str]:
    """The torch that xformers was compiled with: cpp_lib.json has {"version": {"cuda": 1208, "torch": "2.10.0+cu128", ...}, ...}."""
    found = jsonl.decoded((read(os.path.join(folder, "xformers", "cpp_lib.json"), 10000) or "").encode("utf-8", "replace"))
    version = found.get("version") if isinstance(found, dict) else None
    torch = version.get("torch") if isinstance(version, dict) else None
    return torch if isinstance(torch, str) else None


def requirements_of(headers: List[Tuple[str, List[Tuple[str, str]]]]) -> List[List[str]]:
    """[owner, requirement] of what is required without an extra, and of the extras of cuda-toolkit that torch asks for."""
    found: List[List[str]] = []
    extras: List[str] = []
    for owner, fields in headers:
        for value in (value for key, value in fields if key == "Requires-Dist" and "extra ==" not in value):
            found.append([owner, value])
            if owner == "torch" and value.startswith("cuda-toolkit["):
                extras += value[len("cuda-toolkit[") : value.index("]")].split(",") if "]" in value else ()
    for owner, fields in headers:
        for value in (value for key, value in fields if owner == "cuda-toolkit" and key == "Requires-Dist"):
            wanted_by = value.rpartition("extra ==")[2].strip(" '\")")
            if wanted_by in extras:
                found.append(["cuda-toolkit[%s]" % wanted_by, value])
    return found


def absent(requirements: List[List[str]], every: Any) -> List[str]:
    """Names of required distributions of which there is neither metadata (of any installer) nor a module to import."""
    names = set()
    for _, text in requirements:
        end = next((at for at, letter in enumerate(text) if not (letter.isalnum() or letter in "._-")), len(text))
        names.add(normalized(text[:end]))
    return sorted(name for name in names - set(every) if module_of(name, searched()) is None)


def module_of(name: str, places: List[str]) -> Optional[str]:
    """The file that a distribution of pure Python is imported from, if it lies in one of these folders."""
    for folder in places if name in MODULES else ():
        for path in (os.path.join(folder, MODULES[name] + ".py"), os.path.join(folder, MODULES[name], "__init__.py")):
            if os.path.exists(path):
                return path
    return None


def folders(ours: str) -> Iterator[str]:
    """The folders of sys.path without ours, each once whatever its spellings."""
    seen = {os.path.realpath(ours)}
    for folder in searched():
        real = jsonl.attempt(os.path.realpath, folder)
        if real is not None and real not in seen:
            seen.add(real)
            yield folder


def headers_of(metadata: str) -> Iterator[Tuple[str, str]]:
    """(Name, torch), (Version, 2.9.1), … up to the first empty line; the description follows."""
    for line in metadata.partition("\n\n")[0].splitlines():
        key, colon, value = line.partition(":")
        if colon:
            yield key, value.strip()


def direct_url(path: str) -> Optional[str]:
    """Where a distribution was installed from, if not an index: {"url": "file:///src/torch", "dir_info": {"editable": true}}."""
    found = jsonl.decoded((read(os.path.join(path, "direct_url.json"), 10000) or "").encode("utf-8", "replace"))
    url = found.get("url") if isinstance(found, dict) else None
    return without_password(url) if isinstance(url, str) else None


def recorded(path: str) -> Iterator[Tuple[str, Optional[int]]]:
    """Libraries and modules that RECORD lists, with their sizes: "torch/lib/libc10.so,sha256=…,1368817"."""
    for line in (read(os.path.join(path, "RECORD"), 8 << 20) or "").splitlines():
        if (".so" in line or (".py," in line and line.startswith("torch"))) and line.count(",") >= 2:
            file, _, size = line.rsplit(",", 2)
            if not file.startswith(("..", "/")):
                yield file.strip('"'), int(size) if size.isdecimal() else None


def owners(records: Dict[str, Tuple[str, str]], rows: List[Dict[str, Any]]) -> Tuple[List[str], List[str]]:
    """Shared libraries that two distributions claim; and files that RECORD lists and that are gone or end too early.

    A module of another size may have been edited; only an empty one is no module any more.
    A file is not called damaged in conda's packages, whose build moves files after RECORD was written, nor where two versions lie
    over each other.
    """
    installers: Dict[Tuple[str, str], List[Any]] = {}
    for row in rows:
        installers.setdefault((row["name"], row["location"]), []).append(row["installer"])
    owner: Dict[str, str] = {}
    overwritten: List[str] = []
    damaged: List[str] = []
    for path, (name, folder) in sorted(records.items()):
        listed: Dict[str, Any] = {}
        compared = len(installers[name, folder]) == 1 and installers[name, folder][0] not in (None, "conda")
        for file, size in recorded(path):
            library = is_library(file)
            if not (belongs(name, file) if library else name == "torch" and file.endswith(".py") and "/" in file):
                continue
            if not library and file.count("/") > 1:
                if compared and len(damaged) < 100 and not within(folder, file, listed):
                    damaged.append("%s (%s)" % (file, name))
                continue
            place = os.path.join(folder, file)
            first = owner.setdefault(place, name) if library else name
            if first != name:
                overwritten.append("%s: %s, %s" % (file, first, name))
            try:
                there = os.stat(place).st_size if compared and len(damaged) < 100 else None
            except (FileNotFoundError, NotADirectoryError):
                damaged.append("%s (%s)" % (file, name))
                continue
            except (OSError, ValueError):  # a folder that may not be entered says nothing
                continue
            if there is not None and size is not None and there < size and (ends_early(place) if library else there == 0):
                damaged.append("%s (%s): %d of %d bytes" % (file, name, there, size))
    return overwritten[:50], list(dict.fromkeys(damaged))


def within(site: str, file: str, listed: Dict[str, Any]) -> bool:
    """Whether a module is in its folder, of which each is read once: torch has 2,000 of them in 200 folders. None: may not be entered."""
    below, _, name = file.rpartition("/")
    if below not in listed:
        try:
            listed[below] = set(os.listdir(os.path.join(site, below)))
        except (FileNotFoundError, NotADirectoryError):
            listed[below] = set()
        except (OSError, ValueError):
            listed[below] = None
    return listed[below] is None or name in listed[below]


def belongs(name: str, file: str) -> bool:
    """Whether a library counts. Of torch only those that the import loads: torch/lib, torch.libs and torch/_C….so."""
    return name != "torch" or file.startswith(("torch/lib/", "torch.libs/", "torch/_C."))


def ends_early(path: str) -> bool:
    """Whether an ELF file is shorter than the parts that are loaded from it. A stripped one is only smaller."""
    if sys.platform != "linux":
        return False
    try:
        with open(jsonl.plain_file(path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(64)
            if head[:4] != b"\x7fELF" or len(head) < 64:
                return True
            if head[4:6] != b"\x02\x01":  # 32 bits, or the other byte order
                return False
            number = int.from_bytes
            entry, count = number(head[54:56], "little"), number(head[56:58], "little")
            file.seek(number(head[32:40], "little"))
            table = file.read(entry * count)
    except OSError:
        return False
    if entry < 56 or len(table) < entry * count:
        return True
    loads = [table[at : at + entry] for at in range(0, len(table), entry) if table[at : at + 4] == b"\x01\0\0\0"]  # PT_LOAD
    return any(number(one[8:16], "little") + number(one[32:40], "little") > size for one in loads)


def has_content(path: Optional[str]) -> bool:
    return path is not None and (jsonl.attempt(os.path.getsize, path) or 0) > 0


def without_module(rows: List[Dict[str, Any]]) -> List[str]:
    """Distributions of pure Python whose metadata is there and whose module is not, or holds nothing. Of editable ones it never is."""
    found = []
    for row in rows:
        name, local = row["name"], (row["direct_url"] or "").startswith("file:")
        if name not in MODULES or name in COMPARED or local or row["installer"] in (None, "conda"):
            continue
        if not has_content(module_of(name, [row["location"]])):
            found.append("%s (%s)" % (MODULES[name], name))
    return found


def is_library(file: str) -> bool:
    """libnccl.so and libnccl.so.2, not block.sort.h."""
    return file.endswith(".so") or ".so." in file


def conda_packages() -> List[Dict[str, Any]]:
    """torch, CUDA and their kin among conda's own records: conda-meta/pytorch-2.5.1-py3.12_cuda12.4_cudnn9.1.0_0.json."""
    folder = os.path.join(sys.prefix, "conda-meta")
    rows = []
    for entry in names_in(folder):
        parts = entry[:-5].rsplit("-", 2) if entry.endswith(".json") else ()
        if len(parts) == 3 and (wanted(normalized(parts[0])) or parts[0] in CONDA_NAMES):
            text = read(os.path.join(folder, entry), 4000) or ""
            channel = next((line.split('"')[3] for line in text.splitlines() if '"channel"' in line and line.count('"') >= 4), None)
            channel = channel and without_password(channel)
            row = {"name": parts[0], "version": parts[1], "build": parts[2], "channel": channel}
            rows.append(dict(row, location=folder, installer="conda"))
    return rows


def marker_environment() -> Dict[str, str]:
    """What requirements' markers ask for. os.uname says what `platform` would, whose import costs more than this whole file."""
    if hasattr(os, "uname"):
        system, _, release, version, machine = os.uname()
    else:
        import platform

        system, release, version, machine = platform.system(), platform.release(), platform.version(), platform.machine()
    implementation = sys.implementation.name
    return {
        "os_name": os.name,
        "sys_platform": sys.platform,
        "platform_machine": machine,
        "platform_system": system,
        "platform_release": release,
        "platform_version": version,
        "platform_python_implementation": {"cpython": "CPython", "pypy": "PyPy"}.get(implementation, implementation),
        "implementation_name": implementation,
        "implementation_version": released(sys.implementation.version),
        "python_version": "%d.%d" % sys.version_info[:2],
        "python_full_version": released(sys.version_info),
        "extra": "",
    }


def torch_static() -> Optional[Dict[str, Any]]:
    """Where `import torch` would find torch, and what torch/version.py says, without importing. None if nowhere."""
    spec = None
    for finder in sys.meta_path:
        spec = jsonl.attempt(lambda finder=finder: finder.find_spec("torch", None))
        if spec:
            break
    if spec is None:
        return None
    places = list(spec.submodule_search_locations or ())
    path = places[0] if places else spec.origin
    facts = {"path": path, "namespace_only": spec.origin is None}
    text = read(os.path.join(path, "version.py"), 20000) if places else None
    for line in (text or "").splitlines():
        name, equals, value = line.partition("=")
        name = name.split(":")[0].strip()
        if equals and name in ("__version__", "cuda", "hip", "xpu", "git_version", "debug"):
            value = value.strip().strip("'\"")
            if value and value != "__version__" and not value.startswith("torch_version"):
                facts[name.strip("_")] = None if value == "None" else value
    return facts
