"""A program that ran out of GPU memory: what it asked for, what there was, and what takes less."""

from __future__ import annotations

import re

from envcheck.checks.text import agreed, doubt, of_variant, quoted
from envcheck.engine.intents import Intent, Manual, SetEnv
from envcheck.engine.rule import Answer, Facts, Hit, Matches, check
from envcheck.facts.snapshot import PythonFacts, SystemFacts, TorchFacts
from envcheck.tables.versions import minor

_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?([KMGT]?)i?(?:B|bytes)")
_POWER = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_HOLDERS = {
    "CUDA": "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_memory --format=csv",
    "HIP": "rocm-smi --showpids",
    "XPU": "xpu-smi ps",
    "MPS": "top -o mem -l 1 -n 10",
}
_VARIABLE = {"CUDA": "PYTORCH_CUDA_ALLOC_CONF", "HIP": "PYTORCH_HIP_ALLOC_CONF"}
_EXPANDABLE = (2, 1)  # the first torch that knows expandable_segments: https://docs.pytorch.org/docs/2.1/notes/cuda.html
_FLAGS = "--per_device_train_batch_size 1 --gradient_accumulation_steps N --gradient_checkpointing True --bf16 True"


@check(needs="symptoms", reads="torch system python symptoms")
def gpu_out_of_memory(facts: Facts, matches: Matches) -> Answer:
    loads = of_variant(matches, "load")
    if len(matches) == len(loads):
        return None  # the frames alone: the memory of the machine was short
    seen: dict[str, str] = max(matches, key=lambda match: len(match.values)).values
    backend = (seen.get("backend") or "CUDA").upper()
    pieces = bytes_of(seen.get("unused")) >= max(bytes_of(seen.get("asked")), 1)
    variant = "load" if loads else _variant(matches, seen, pieces)
    held = "".join(
        (
            f"; {seen['own']} were the program's own" if "own" in seen else "",
            f"; process {seen['pid']} held {seen['memory']}" if "pid" in seen and "memory" in seen else "",
            f"; torch had allocated {seen['allocated']}" if "allocated" in seen else "",
        )
    )
    values = {**seen, "gpu": f"GPU {seen['gpu']}" if "gpu" in seen else "The GPU", "held": held, "backend": backend}
    expand = _unsplit(backend, facts.torch, facts.system, facts.python)
    fixes = () if loads else (*expand, *_steps(backend)) if pieces else (*_steps(backend), *expand)
    return Hit(values, quoted(matches), fixes, variant, confidence=doubt(matches))


def _variant(matches: Matches, seen: dict[str, str], pieces: bool) -> str | None:
    if "total" in seen and "free" in seen:
        return "pieces" if pieces else None
    if "limit" in seen:
        return "mps"
    return "asked" if "asked" in seen else agreed(matches) or "bare"


def _steps(backend: str) -> tuple[Intent, ...]:
    who = (
        "See who holds the memory. What another process holds (a notebook, a server, a run that has not ended) is missing here: end it if"
        " it is yours, or choose another GPU."
    )
    less = (
        "Ask for less: a smaller batch, with gradient accumulation for the same effective batch; gradient checkpointing, shorter sequences,"
        " bf16, an 8-bit optimizer, parameters sharded over GPUs (FSDP, DeepSpeed ZeRO). With transformers' Trainer these are flags."
    )
    mine = Manual(less, commands=(f"python TRAIN.PY {_FLAGS}",))
    return (Manual(who, commands=(_HOLDERS[backend],)), mine) if backend in _HOLDERS else (mine,)


def _unsplit(backend: str, torch: TorchFacts, system: SystemFacts, python: PythonFacts) -> tuple[Intent, ...]:
    """Against memory in pieces, where the platform has it and it is not set."""
    name, release = _VARIABLE.get(backend), minor(torch.version or "")
    if backend == "MPS":
        note = "memory beyond the limit is taken from the system, which may become slow or stop: only where little is missing"
        return (SetEnv("PYTORCH_MPS_HIGH_WATERMARK_RATIO", "0.0", note),)
    if name is None or name in python.variables:
        return ()
    if system.os == "windows" or (release and release < _EXPANDABLE):
        return (SetEnv(name, "max_split_size_mb:128", "where much is reserved and not allocated: torch 1.10 and later, on any platform"),)
    note = "where much is reserved and not allocated: torch 2.1 and later, on Linux; 2.8 to 2.11 may call the name old, which does no harm"
    return (SetEnv(name, "expandable_segments:True", note),)


def bytes_of(size: str | None) -> float:
    found = _SIZE.match(size or "")
    return float(found[1]) * 1024.0 ** _POWER[found[2]] if found else 0.0
