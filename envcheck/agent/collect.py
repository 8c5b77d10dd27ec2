"""Runs inside the target interpreter and writes what it finds as JSON lines. Stdlib only, Python 3.8 syntax.

Called as `python collect.py OPTIONS_JSON`. Before each step it writes {"begin": NAME}, after it {"section": NAME, "value": …},
each flushed, so that a step that kills the interpreter costs that step alone and is named by what is not there.
Options: out (file for the lines), folder (private, for stacks and rank output), static, live ("quick", "full", "off"),
nproc, backend, start_method, budget_seconds (for what follows the import), rank (spawned ranks and children only).
"""

import sys

if sys.version_info < (3, 8):
    sys.stderr.write("envcheck-agent: Python %d.%d is too old, 3.8 or newer is needed\n" % sys.version_info[:2])
    sys.exit(79)

import json
import os
import time

HERE = os.path.dirname(os.path.abspath(__file__))

# Distributions whose version or presence bears on torch; by normalized name or its prefix.
FAMILY = {
    "torch", "torchvision", "torchaudio", "torchtext", "torchdata", "torchcodec", "torchao", "torchtune", "torchrec", "torch-tensorrt",
    "pytorch", "pytorch-triton", "pytorch-triton-rocm", "pytorch-lightning", "lightning", "triton", "triton-windows", "triton-xpu",
    "xformers", "flash-attn", "flashinfer-python", "bitsandbytes", "vllm", "sglang", "deepspeed", "apex", "accelerate", "transformers", "peft", "trl",
    "numpy", "pynvml", "nvidia-ml-py", "cuda-toolkit", "cuda-bindings", "cuda-python", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x",
    "intel-extension-for-pytorch", "onnxruntime-gpu", "ray", "horovod", "mpi4py", "fairscale", "megatron-core", "transformer-engine",
    "torch-scatter", "torch-sparse", "torch-cluster", "torch-geometric", "pyg-lib", "causal-conv1d", "mamba-ssm", "auto-gptq", "py-spy",
    "jax", "jaxlib", "tensorflow", "setuptools", "typing-extensions", "sympy", "fsspec", "jinja2", "networkx", "filelock", "mkl", "envcheck", "torch-envcheck",
}  # fmt: skip
FAMILY_PREFIXES = ("nvidia-", "torch", "rocm", "cuda-", "intel-", "oneccl", "onemkl", "tcmlib", "umf", "dpcpp", "impi", "triton")
# Requirements are compared only for these: they pin torch or are pinned by it.
REQUIRING = {
    "torch", "torchvision", "torchaudio", "torchtext", "torchdata", "torchcodec", "xformers", "vllm", "torch-tensorrt",
    "triton", "bitsandbytes", "flash-attn", "torchao", "nvidia-cudnn-cu12", "nvidia-cudnn-cu13", "cuda-toolkit", "sglang", "torchrec", "pytorch-lightning",
}  # fmt: skip
# Variables of the target that decide what is loaded or from where it is installed.
VARIABLES = ("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE", "CONDA_PREFIX", "CONDA_OVERRIDE_CUDA", "VIRTUAL_ENV",
             "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BNB_CUDA_VERSION", "TRITON_CACHE_DIR", "MAX_JOBS", "CC", "CXX", "HF_HOME")  # fmt: skip
VARIABLE_PREFIXES = ("PYTORCH_", "TORCH_", "CUDA_", "PIP_", "UV_", "HSA_", "XLA_", "TORCHINDUCTOR_")
SECRET = ("TOKEN", "KEY", "SECRET", "PASSWORD", "CREDENTIAL", "AUTH")


class Writer:
    """The JSON lines."""

    def __init__(self, path):
        self.file = open(path, "a", buffering=1, encoding="utf-8", errors="backslashreplace")

    def line(self, **fields):
        self.file.write(json.dumps(fields) + "\n")
        self.file.flush()

    def section(self, name, make, *arguments):
        """Run one step between its begin and its end; an exception is a result too. Returns the value or None."""
        self.line(begin=name, at=time.monotonic())
        try:
            value = make(*arguments)
        except Exception as error:
            self.line(section=name, error={"type": type(error).__name__, "text": str(error)[:2000]})
            return None
        self.line(section=name, value=value)
        return value


def normalized(name):
    return name.lower().replace("_", "-").replace(".", "-")


def wanted(name):
    return name in FAMILY or name.startswith(FAMILY_PREFIXES)


def read(path, limit=1 << 20):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(limit)
    except OSError:
        return None


def python_facts():
    """The interpreter: how it was made and what it can see."""
    import sysconfig

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
    paths = sysconfig.get_paths()
    site = sys.modules.get("site")
    enabled = getattr(site, "ENABLE_USER_SITE", None)
    user = getattr(site, "USER_SITE", None)
    return {
        "executable": sys.executable,
        "version": "%d.%d.%d" % sys.version_info[:3] + ("" if sys.version_info[3] == "final" else sys.version_info[3][0] + str(sys.version_info[4])),
        "implementation": sys.implementation.name,
        "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        "bits": 64 if sys.maxsize > 2**32 else 32,
        "platform": sysconfig.get_platform(),
        "prefix": prefix,
        "environment": kind,
        "environment_path": prefix if prefix != base or conda_meta else None,
        "has_pip": any(os.path.isdir(os.path.join(path, "pip")) for path in sys.path if path),
        "has_conda_meta": conda_meta,
        "uv": "uv" in keys,
        "externally_managed": prefix == base and os.path.exists(os.path.join(paths["stdlib"], "EXTERNALLY-MANAGED")),
        "user_site": user,
        "user_site_enabled": bool(enabled) if enabled is not None else None,
        "pythonpath": os.environ.get("PYTHONPATH"),
        "purelib": paths["purelib"],
        "sys_path": [path for path in sys.path if path],
        "include_python_h": os.path.exists(os.path.join(paths["include"], "Python.h")),
        "shadowing": shadowing(),
        "variables": variables(),
        "index_url": index_url(prefix),
    }


def shadowing():
    """Files of the working folder and of PYTHONPATH that `import` would take instead of torch or the standard library."""
    stdlib = ("random", "types", "typing", "logging", "queue", "socket", "code", "copy", "enum", "json", "re", "signal", "select", "platform", "inspect")
    found = []
    for folder in [os.getcwd()] + (os.environ.get("PYTHONPATH") or "").split(os.pathsep):
        if not folder or (sys.prefix + os.sep).startswith(folder + os.sep) and folder != os.getcwd():
            continue
        for name in ("torch", "numpy", "triton") + stdlib:
            for path in (os.path.join(folder, name + ".py"), os.path.join(folder, name, "__init__.py")):
                # A checkout or an installation of the real package is no intruder: it has torch/version.py or is site-packages.
                if os.path.isfile(path) and not path.endswith(os.path.join("site-packages", name, "__init__.py")):
                    if not os.path.exists(os.path.join(folder, name, "version.py")) and not has_distribution(folder, name):
                        found.append(path)
    return found


def has_distribution(folder, name):
    try:
        return any(entry.startswith(name + "-") and entry.endswith((".dist-info", ".egg-info")) for entry in os.listdir(folder))
    except OSError:
        return False


def variables():
    chosen = {}
    for key, value in os.environ.items():
        if key in VARIABLES or key.startswith(VARIABLE_PREFIXES):
            chosen[key] = "(hidden)" if any(word in key for word in SECRET) else without_password(value)
    return dict(sorted(chosen.items()))


def without_password(text):
    """URLs without user:password."""
    head, scheme, rest = text.partition("://")
    if scheme and "@" in rest.split("/")[0]:
        return head + scheme + rest.split("@", 1)[1]
    return text


def index_url(prefix):
    """The package index that pip or uv is configured with, if any."""
    for key in ("PIP_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX"):
        if os.environ.get(key):
            return without_password(os.environ[key])
    home = os.path.expanduser("~")
    for path in (os.path.join(prefix, "pip.conf"), os.path.join(home, ".config/pip/pip.conf"), os.path.join(home, ".pip/pip.conf"), "/etc/pip.conf"):
        for line in (read(path, 65536) or "").splitlines():
            key, _, value = line.partition("=")
            if key.strip() in ("index-url", "index_url") and value.strip():
                return without_password(value.strip())
    return None


def package_facts():
    """Distributions of the torch family from folder names and their small files; `requirements` are judged by the caller."""
    rows, requirements, records, leftovers, seen = [], [], {}, [], set()
    for folder in sys.path:
        real = os.path.realpath(folder) if folder else ""
        if not folder or real in seen or real == os.path.realpath(HERE):
            continue
        seen.add(real)
        try:
            entries = sorted(os.listdir(folder))
        except OSError:
            continue
        for entry in entries:
            if entry.startswith("~") and entry.lower().startswith(("~orch", "~riton", "~vidia", "~umpy")):
                leftovers.append(os.path.join(folder, entry))
            stem, ending = os.path.splitext(entry)
            if ending not in (".dist-info", ".egg-info"):
                continue
            name, _, version = stem.partition("-")
            name = normalized(name)
            if not wanted(name):
                continue
            path = os.path.join(folder, entry)
            metadata = read(os.path.join(path, "METADATA" if ending == ".dist-info" else "PKG-INFO"), 200000)
            if metadata is None and os.path.isdir(path):
                leftovers.append(path)
                continue
            version = header(metadata, "Version") or version.split("-py")[0]
            direct = read(os.path.join(path, "direct_url.json"), 10000)
            rows.append(
                {
                    "name": name,
                    "version": version,
                    "location": folder,
                    "installer": (read(os.path.join(path, "INSTALLER"), 100) or "").strip() or None,
                    "direct_url": direct and str(json.loads(direct).get("url")),
                }
            )
            if name in REQUIRING and metadata:
                for line in metadata.split("\n\n", 1)[0].splitlines():
                    if line.startswith("Requires-Dist:") and "extra ==" not in line:
                        requirements.append([name, line[14:].strip()])
            if name.startswith("nvidia-") or name == "torch":
                records[path] = (name, folder)
    overwritten, damaged = owners(records)
    return {
        "distributions": rows + conda_packages(),
        "leftovers": leftovers,
        "overwritten": overwritten,
        "damaged": damaged,
        "requirements": requirements,
        "markers": marker_environment(),
    }


def header(metadata, name):
    for line in (metadata or "").splitlines():
        if line.startswith(name + ":"):
            return line.partition(":")[2].strip()
        if not line:
            break
    return None


def owners(records):
    """Shared libraries that two distributions claim, and libraries that RECORD lists but that are gone."""
    owner, overwritten, damaged = {}, [], []
    for path, (name, folder) in sorted(records.items()):
        for line in (read(os.path.join(path, "RECORD"), 8 << 20) or "").splitlines():
            file = line.split(",", 1)[0]
            if ".so" not in file or file.startswith(".."):
                continue
            if name == "torch" and not file.startswith("torch/lib/"):
                continue
            key = os.path.join(folder, file)
            first = owner.setdefault(key, name)
            if first != name:
                overwritten.append("%s: %s, %s" % (file, first, name))
            if len(damaged) < 20 and not os.path.exists(key):
                damaged.append("%s (%s)" % (file, name))
    return overwritten[:50], damaged


def conda_packages():
    """torch, CUDA and their kin among conda's own records: conda-meta/pytorch-2.5.1-py3.12_cuda12.4_cudnn9.1.0_0.json."""
    folder = os.path.join(sys.prefix, "conda-meta")
    rows = []
    try:
        entries = sorted(os.listdir(folder))
    except OSError:
        return rows
    for entry in entries:
        parts = entry[:-5].rsplit("-", 2) if entry.endswith(".json") else ()
        if len(parts) == 3 and (wanted(normalized(parts[0])) or parts[0] in ("cudatoolkit", "cudnn", "nccl", "libtorch", "pytorch-cuda", "pytorch-gpu", "pytorch-mutex")):
            text = read(os.path.join(folder, entry), 4000) or ""
            channel = next((line.split('"')[3] for line in text.splitlines() if '"channel"' in line and line.count('"') >= 4), None)
            rows.append({"name": parts[0], "version": parts[1], "build": parts[2], "channel": channel, "location": folder, "installer": "conda"})
    return rows


def marker_environment():
    import platform

    return {
        "os_name": os.name,
        "sys_platform": sys.platform,
        "platform_machine": platform.machine(),
        "platform_system": platform.system(),
        "platform_release": platform.release(),
        "platform_version": platform.version(),
        "platform_python_implementation": platform.python_implementation(),
        "implementation_name": sys.implementation.name,
        "implementation_version": "%d.%d.%d" % sys.implementation.version[:3],
        "python_version": "%d.%d" % sys.version_info[:2],
        "python_full_version": "%d.%d.%d" % sys.version_info[:3],
        "extra": "",
    }


def torch_static():
    """Where `import torch` would find torch, and what torch/version.py says, without importing. None if nowhere."""
    from importlib.machinery import PathFinder

    spec = None
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec("torch", None)
        except Exception:
            spec = None
        if spec:
            break
    if spec is None:
        spec = PathFinder.find_spec("torch")
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


def main():
    options = json.loads(sys.argv[1])
    if sys.path and os.path.realpath(sys.path[0]) == os.path.realpath(HERE):
        del sys.path[0]
    writer = Writer(options["out"])
    writer.line(begin="start", pid=os.getpid(), at=time.monotonic())
    if options.get("rank") is None and not options.get("only"):
        writer.section("python", python_facts)
        writer.section("packages", package_facts)
        static = writer.section("torch_static", torch_static)
        if options["static"] or static is None:
            writer.line(end=True)
            leave()
    run = load("run")
    run["main"](options, writer, load)
    writer.line(end=True)
    leave()


def load(name):
    """A sibling file as a namespace; not through sys.path, which belongs to the patient, and without leaving bytecode."""
    path = os.path.join(HERE, name + ".py")
    with open(path, encoding="utf-8") as file:
        code = compile(file.read(), path, "exec")
    space = {"__name__": "envcheck_agent_" + name, "__file__": path}
    exec(code, space)
    return space


def leave():
    """Exit without the interpreter's teardown: it costs as much as a second, and a broken library may hang in it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
    os._exit(0)


if __name__ == "__main__":
    main()
