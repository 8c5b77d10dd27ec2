"""NVML's answer, from the lines of its child."""

from __future__ import annotations

from typing import Any

from envcheck.facts.codec import DecodeError, decode
from envcheck.facts.nvml_codes import CLOSED, LOST, RESET
from envcheck.facts.program_names import process_name
from envcheck.facts.record import record, replace
from envcheck.facts.snapshot import Gpu, GpuTrouble, ToolAnswer, ToolStatus
from envcheck.host.access import Completed, Host
from envcheck.probes.childlines import Line, cuda_version, read_lines, step
from envcheck.read.smi_fields import bus_id, driver_version


@record
class NvmlAnswer:
    answer: ToolAnswer
    driver: str | None = None
    cuda: str | None = None
    library_version: str | None = None
    count: int | None = None
    gpus: tuple[Gpu, ...] = ()
    troubles: tuple[GpuTrouble, ...] = ()

    @property
    def complete(self) -> bool:
        """Nothing is left to ask nvidia-smi for: it may open no more GPUs than NVML."""
        closed = sum(one.call is None and one.code in CLOSED for one in self.troubles)
        whole = self.count is not None and len(self.gpus) + closed == self.count and not any(gpu.error for gpu in self.gpus)
        return self.answer.status is ToolStatus.OK and whole and bool(self.driver and self.cuda)


def ask_nvml(host: Host, files: tuple[str, ...], timeout: float) -> NvmlAnswer:
    """Ask NVML in a child; ABSENT without one if the loader would not find the library."""
    if not files:
        return NvmlAnswer(ToolAnswer(ToolStatus.ABSENT, message="no libnvidia-ml.so.1 where the loader looks"))
    folder = _pynvml_folder()
    if folder is None:
        return NvmlAnswer(
            ToolAnswer(ToolStatus.SKIPPED, message="the module pynvml (nvidia-ml-py) is not installed beside envcheck", path=files[0])
        )
    done = host.child("nvml_child", folder, timeout=timeout)
    return read_nvml(done, files[0])


def _pynvml_folder() -> str | None:
    """Where the child finds pynvml; it is not imported here."""
    import importlib.util
    import os

    found = importlib.util.find_spec("pynvml")
    if found is None or not found.origin:
        return None
    folder = os.path.dirname(found.origin)
    return os.path.dirname(folder) if found.submodule_search_locations else folder


def read_nvml(done: Completed, path: str | None = None) -> NvmlAnswer:
    """What the child said before it ended, and how it ended."""
    lines = read_lines(done.stdout)
    system, count = step(lines, "system") or {}, step(lines, "count") or {}
    gpus, troubles = _devices(lines)
    library = system.get("library")
    number = count.get("count")
    return NvmlAnswer(
        answer=_answer(done, lines, path),
        driver=driver_version(_text(system.get("driver")) or ""),
        cuda=cuda_version(system.get("cuda")),
        # NVML puts its CUDA major in front: "13.580.95.05".
        library_version=library.partition(".")[2] if isinstance(library, str) else None,
        count=number if isinstance(number, int) else None,
        gpus=gpus,
        troubles=troubles,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


# The call that follows each step of the child.
_CALLS = {"load": "nvmlInit", "init": "nvmlSystemGetDriverVersion", "system": "nvmlDeviceGetCount", "count": "nvmlDeviceGetHandleByIndex"}


def _answer(done: Completed, lines: list[Line], path: str | None) -> ToolAnswer:
    init, count = step(lines, "init"), step(lines, "count")
    heard = ToolAnswer(seconds=round(done.seconds, 3), path=path)
    where = _CALLS.get(lines[-1]["step"], "a query of a device") if lines else "the start of its child"
    if done.timed_out:
        return replace(heard, status=ToolStatus.TIMEOUT, message=f"{where} did not return within {done.seconds:.0f} s")
    if done.signal is not None:
        return replace(heard, status=ToolStatus.CRASHED, signal=done.signal, message=_last_words(done.stderr) or f"in {where}")
    for line in (init, count):
        if line is not None and line.get("code") != 0:
            return replace(heard, status=ToolStatus.FAILED, code=line.get("code"), message=str(line.get("text") or ""))
    if step(lines, "end") is None:
        return replace(heard, status=ToolStatus.FAILED, message=_last_words(done.stderr) or f"the child ended with exit status {done.code}")
    return replace(heard, status=ToolStatus.OK, code=0)


def _last_words(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def _devices(lines: list[Line]) -> tuple[tuple[Gpu, ...], tuple[GpuTrouble, ...]]:
    """Devices by index, and what those that could not be opened or asked answered in place of it."""
    fields: dict[int, dict[str, Any]] = {}
    troubles: list[GpuTrouble] = []
    for line in lines:
        index = line.get("index")
        if line["step"] not in ("device", "detail", "refused") or not isinstance(index, int):
            continue
        code = line.get("code", 0)
        if code == 0:
            values = {name: value for name, value in line.items() if name not in ("step", "code") and value is not None}
            fields.setdefault(index, {}).update(values)
        elif isinstance(code, int):
            words = _text(line.get("text")) or f"NVML error {code}"
            troubles.append(GpuTrouble("NVML", words, code, _text(line.get("call")), index))
    for one in troubles:
        values = fields.get(one.index, {}) if one.index is not None else {}
        nameless = not any(name in values for name in ("name", "uuid", "bus_id"))
        if values and (one.code in (LOST, RESET) or nameless):
            values["error"] = one.text
    gpus = tuple(gpu for index in sorted(fields) if (gpu := _gpu(fields[index])) is not None)
    return gpus, tuple(troubles)


def _gpu(values: dict[str, Any]) -> Gpu | None:
    if "bus_id" in values:
        values = {**values, "bus_id": bus_id(str(values["bus_id"]))}
    if "compute_capability" in values:
        values = {**values, "compute_capability_source": "NVML"}
    try:
        gpu: Gpu = decode(Gpu, values, "gpu")
    except DecodeError:  # a library that answers with other types than NVML's
        return None
    return replace(gpu, processes=tuple(replace(one, name=process_name(one.name)) for one in gpu.processes)) if gpu.processes else gpu
