"""What extensions are compiled with: nvcc, CUDA_HOME as torch finds it, the host compiler.

None of it is needed to train with a wheel. A version that a program does not give within its limit is None.
"""

from __future__ import annotations

import os.path
import time

from envcheck.facts.snapshot import Nvcc, ToolkitFacts
from envcheck.host.access import Completed, Host
from envcheck.probes.task import Task
from envcheck.read.nvcc import read_nvcc, read_tool_version

SECONDS = 5.0
DEFAULT_HOME = "/usr/local/cuda"


def probe(host: Host, budget_seconds: float = SECONDS) -> ToolkitFacts:
    """Every toolkit in sight; all programs are asked side by side."""
    deadline = time.monotonic() + budget_seconds
    home, home_source = cuda_home(host)
    places = nvcc_places(host, home)
    nvccs = {path: _ask(host, (path, "--version"), budget_seconds) for path in places}
    compiler = host_compiler(host)
    is_clang = compiler is not None and "clang" in os.path.basename(compiler)
    tools = {
        # -dumpversion alone gives the major number only with some builds; older gcc ignore the first flag.
        "gcc": (compiler, "-dumpfullversion", "-dumpversion") if compiler and not is_clang else None,
        "clang": (compiler, "--version") if compiler and is_clang else _found(host, "clang", "--version"),
    }
    asked = {name: _ask(host, argv, budget_seconds) for name, argv in tools.items() if argv is not None}

    def ended(task: Task[Completed] | None) -> Completed | None:
        # Killing a program that is stuck takes up to 3 s more.
        return None if task is None else task.result(deadline - time.monotonic() + 4)

    found = {path: _nvcc(path, places[path], ended(task)) for path, task in nvccs.items()}
    versions = {name: _version(ended(asked.get(name))) for name in tools}
    return ToolkitFacts(
        nvccs=tuple(found.values()),
        cuda_home=home,
        cuda_home_source=home_source,
        cuda_home_exists=None if home is None else bool(home) and host.exists(home),
        nvcc=found.get(os.path.join(home, "bin", "nvcc")) if home else None,
        gcc=versions["gcc"],
        gcc_path=compiler,
        clang=versions["clang"],
        compiler=triton_compiler(host),
    )


def cuda_home(host: Host) -> tuple[str | None, str | None]:
    """The folder that torch.utils.cpp_extension takes for CUDA_HOME, and why.

    As `_find_cuda_home` of torch 2.13: the variables are believed unseen, an empty CUDA_HOME counts as unset;
    then two folders up from the nvcc on PATH, links not resolved; then /usr/local/cuda if it is there.
    (A CPU build of torch has no CUDA_HOME at all.)
    """
    if host.env.get("CUDA_HOME"):
        return host.env["CUDA_HOME"], "CUDA_HOME"
    if "CUDA_PATH" in host.env:  # even an empty one ends torch's search
        return host.env["CUDA_PATH"], "CUDA_PATH"
    nvcc = host.which("nvcc")
    if nvcc is not None:
        return os.path.dirname(os.path.dirname(nvcc)), "nvcc on PATH"
    # torch asks os.path.exists: a link that leads nowhere is not there.
    if host.exists(host.realpath(DEFAULT_HOME)):
        return DEFAULT_HOME, DEFAULT_HOME
    return None, None


def nvcc_places(host: Host, home: str | None) -> dict[str, str]:
    """Path of every nvcc → where it was found, the one that torch takes first. One file counts once."""
    ways: list[tuple[str | None, str]] = [(os.path.join(home, "bin", "nvcc") if home else None, "torch")]
    ways.append((host.which("nvcc"), "PATH"))
    # PYTORCH_NVCC is the command that torch's ninja files call instead of CUDA_HOME's nvcc.
    ways.append((_first_word(host, "PYTORCH_NVCC"), "PYTORCH_NVCC"))
    homes = [name for name in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT") if host.env.get(name)]
    ways += [(os.path.join(host.env[name], "bin", "nvcc"), name) for name in homes]
    folders = [name for name in host.listdir("/usr/local") or () if name == "cuda" or name.startswith("cuda-")]
    ways += [(f"/usr/local/{name}/bin/nvcc", f"/usr/local/{name}") for name in folders]
    if host.env.get("CONDA_PREFIX"):
        ways.append((os.path.join(host.env["CONDA_PREFIX"], "bin", "nvcc"), "conda"))
    places: dict[str, str] = {}
    files: set[str] = set()
    for path, source in ways:
        if path is None or not host.exists(path):
            continue
        real = host.realpath(path)
        if path not in places and (real not in files or source == "torch"):
            files.add(real)
            places[path] = _source(host, path, source)
    return places


def _source(host: Host, path: str, source: str) -> str:
    """For the nvcc below CUDA_HOME: the way that led there."""
    if source != "torch":
        return source
    return cuda_home(host)[1] if path != host.which("nvcc") else "PATH"  # type: ignore[return-value]


def host_compiler(host: Host) -> str | None:
    """The compiler that nvcc is given: NVCC_CCBIN, then CC (torch passes it as -ccbin), then gcc on PATH.

    https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/index.html#nvcc-environment-variables
    """
    for name in ("NVCC_CCBIN", "CC"):
        if host.env.get(name):
            found = _first_word(host, name)
            # NVCC_CCBIN may also name the folder that holds gcc.
            if found and host.listdir(found) is not None:
                found = os.path.join(found, "gcc")
            return found if found and host.exists(found) else None
    return host.which("gcc")


def _first_word(host: Host, name: str) -> str | None:
    """The program in a variable that holds a command, behind a compiler cache: CC="ccache gcc -m64"."""
    words = [word for word in host.env.get(name, "").split() if os.path.basename(word) not in ("ccache", "sccache", "distcc")]
    if not words:
        return None
    return words[0] if os.path.isabs(words[0]) else host.which(words[0])


def triton_compiler(host: Host) -> str | None:
    """What Triton builds its launchers with, as in triton/runtime/build.py: CC, else gcc, else clang."""
    return host.env.get("CC") or host.which("gcc") or host.which("clang")


def _found(host: Host, name: str, *arguments: str) -> tuple[str, ...] | None:
    path = host.which(name)
    return None if path is None else (path, *arguments)


def _ask(host: Host, argv: tuple[str, ...], seconds: float) -> Task[Completed]:
    return Task(lambda: host.run(argv, timeout=seconds))


def _version(done: Completed | None) -> str | None:
    return read_tool_version(done.stdout) if done is not None and done.ok else None


def _nvcc(path: str, source: str, done: Completed | None) -> Nvcc:
    """One compiler, or why it does not say its version."""
    if done is None or done.timed_out:
        return Nvcc(path, source=source, error="no answer" if done is None else f"no answer within {done.seconds:.0f} s")
    said = read_nvcc(done.stdout)
    if said is not None and done.ok:
        return Nvcc(path, said.version, said.release, source)
    words = [line.strip() for line in f"{done.stderr}\n{done.stdout}".splitlines() if line.strip()]
    fallback = f"ended by {done.signal}" if done.signal else f"exit status {done.code} without a version"
    return Nvcc(path, source=source, error=(words[0][:300] if words else fallback))
