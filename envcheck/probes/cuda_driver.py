"""libcuda itself, asked in a child that may crash or hang. It needs no torch and no toolkit."""

from __future__ import annotations

from envcheck.facts.cuda_codes import STUB_LIBRARY
from envcheck.facts.snapshot import CudaDriverFacts, Device, Missing, Why
from envcheck.host.access import Completed, Host
from envcheck.probes.childlines import Line, cuda_version, read_lines, step

NAME = "libcuda.so.1"


def probe(host: Host, budget_seconds: float = 15.0) -> CudaDriverFacts | Missing:
    """What the first libcuda on the loader's way says, with this environment's CUDA_VISIBLE_DEVICES."""
    candidates = host.libraries(NAME)
    if not candidates:
        return Missing(Why.ABSENT, f"no {NAME} in LD_LIBRARY_PATH, the loader's cache or its folders")
    windows = host.platform().get("system") == "Windows"
    done = host.child("cuda_child", candidates[0] if windows else NAME, timeout=budget_seconds)
    lines = read_lines(done.stdout)
    failed = step(lines, "failed")
    if failed is not None:
        return _not_loaded(str(failed.get("text", "")), candidates)
    if step(lines, "end") is None:
        return _cut_short(done, lines, candidates)
    return _facts(lines, candidates)


def _not_loaded(words: str, candidates: tuple[str, ...]) -> Missing:
    """The loader's words: the file is not there after all, or it is there and cannot be loaded."""
    if words.startswith(f"{NAME}: cannot open shared object file: No such file"):
        return Missing(Why.ABSENT, words)
    return Missing(Why.FAILED, words, "\n".join(candidates))


def _cut_short(done: Completed, lines: list[Line], candidates: tuple[str, ...]) -> Missing:
    """The child came to no end: name the call it was in."""
    steps = [str(line["step"]) for line in lines]
    calls = {"load": "cuDriverGetVersion", "version": "cuInit", "init": "cuDeviceGetCount", "count": "cuDeviceGet", "device": "cuDeviceGet"}
    loaded = step(lines, "load")
    where = calls.get(steps[-1], "loading") if steps else f"loading {NAME}"
    evidence = "\n".join([str((loaded or {}).get("path") or candidates[0]), *done.stderr.strip().splitlines()[-5:]])
    if done.timed_out:
        return Missing(Why.TIMEOUT, f"{where} did not return within {done.seconds:.0f} s", evidence)
    if done.signal is not None:
        return Missing(Why.FAILED, f"{where} was ended by {done.signal}", evidence)
    return Missing(Why.FAILED, f"{where} ended the process with exit status {done.code}", evidence)


def _facts(lines: list[Line], candidates: tuple[str, ...]) -> CudaDriverFacts:
    found = {name: step(lines, name) or {} for name in ("load", "version", "init", "count")}
    path = found["load"].get("path") or candidates[0]
    code = found["init"].get("code")
    return CudaDriverFacts(
        library_path=path,
        init_code=code,
        driver_version=cuda_version(found["version"].get("version")) if found["version"].get("code") == 0 else None,
        device_count=found["count"].get("count"),
        device_count_code=found["count"].get("code"),
        candidates=candidates,
        is_stub=code == STUB_LIBRARY or "/stubs/" in path,
        # cuda-compat packages: /usr/local/cuda-13.0/compat, and $CONDA_PREFIX/cuda-compat for conda's.
        is_compat="/compat/" in path or "/cuda-compat/" in path,
        devices=tuple(_device(line) for line in lines if line["step"] == "device"),
    )


def _device(line: Line) -> Device:
    return Device(
        index=int(line["index"]),
        name=line.get("name"),
        uuid=line.get("uuid"),
        compute_capability=line.get("compute_capability"),
        memory_bytes=line.get("memory_bytes"),
    )
