"""On a machine with a GPU: does envcheck say there what it should? `python tools/gpu_acceptance.py -o result.json [--envcheck COMMAND]`

Each trial is a row: what is done to the environment, and what has to come of it. Nothing outside the processes that it starts is
changed: device nodes are hidden in a mount namespace, a driver too old is assumed. Trials that this machine cannot make (two GPUs, root,
MIG) are skipped with a reason. Eight minutes at most; exits 0 where no trial failed and the check itself was tried, else 1.
`result.json` holds every document that envcheck wrote, and serves as a recorded host.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LIMIT_SECONDS = 480.0
RATIO = 2.5  # of the default check against an import of torch and torch._dynamo, as benchmarks/ratios.py measures it
Document = Mapping[str, Any]


@dataclass(frozen=True)
class Trial:
    """`rules` of which one has to be found, `arms` that have to have run, by name → status."""

    name: str
    words: tuple[str, ...]
    codes: tuple[int, ...]
    rules: tuple[str, ...] = ()
    arms: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    needs: str = ""  # a name of NEEDS
    before: tuple[str, ...] = ()  # a command that runs the check in a place of its own
    insights: bool = False  # NCCL's services or the Flight Recorder have to have said something
    seconds: float = 60.0


@dataclass(frozen=True)
class Result:
    name: str
    status: str  # "pass", "fail", "skipped"
    reason: str = ""
    seconds: float = 0.0
    document: Document = field(default_factory=dict)


def gpus(first: Document) -> int:
    devices = first.get("facts", {}).get("devices", {})
    return int(devices.get("count") or 0)


NEEDS: Mapping[str, tuple[str, Callable[[Document], bool]]] = {
    "two GPUs": ("only one GPU is visible", lambda first: gpus(first) >= 2),
    "one GPU": ("several GPUs are visible", lambda first: gpus(first) == 1),
    "root": ("a mount namespace needs root", lambda first: os.geteuid() == 0 and shutil.which("unshare") is not None),
    "MIG": ("no GPU is in MIG mode", lambda first: any(gpu.get("mig") for gpu in first["facts"]["gpus"].get("devices", ()))),
}


def hidden_nodes() -> tuple[str, ...]:
    """A place where /dev/nvidia* cannot be opened: /dev/null stands over each."""
    script = (
        'for node in /dev/nvidia[0-9]* /dev/nvidiactl /dev/nvidia-uvm; do [ -e "$node" ] && mount --bind /dev/null "$node"; done; exec "$@"'
    )
    return ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh")


def trials(folder: Path) -> tuple[Trial, ...]:
    stub = folder / "libcuda.so.1"
    stub.write_bytes(b"")  # as a half-installed driver leaves it
    patches = str(ROOT / "tests" / "faults" / "torch_patches")
    quick, off = ("--timeout", "90"), ("--live", "off", "--timeout", "90")
    hang = {"PYTHONPATH": patches, "ENVCHECK_FAULT": "rank-1-stays-away"}
    evidence = ("--evidence", str(folder / "evidence"))

    def visible(name: str, value: str, *rules: str) -> Trial:
        return Trial(f"CUDA_VISIBLE_DEVICES={name}", off, (0,) if not rules else (0, 1), rules, environment={"CUDA_VISIBLE_DEVICES": value})

    return (
        Trial("default", quick, (0,), arms={"gloo-loopback": "pass", "gloo-as-is": "pass"}),
        Trial("NCCL of one rank", quick, (0,), arms={"nccl-one-rank": "pass", "gloo-cuda": "pass"}, needs="one GPU"),
        Trial("NCCL of two ranks", (*quick, "--nproc", "2"), (0,), arms={"nccl": "pass"}, needs="two GPUs"),
        visible("0", "0"),
        visible("(empty)", "", "visible-devices-empty"),
        visible("-1", "-1", "visible-devices-empty"),
        visible("99", "99", "visible-devices-out-of-range"),
        visible("0,0", "0,0", "visible-devices-duplicate"),
        visible("GPU-", "GPU-ffffffff", "visible-devices-out-of-range", "visible-devices-unreadable"),
        visible("0,99", "0,99", "visible-devices-truncated"),
        Trial("a driver too old", ("--static", "--assume", "driver.version=418.39"), (1,), ("driver-too-old", "driver-too-old-for-gpu")),
        Trial("no device nodes", off, (1,), ("driver-no-devices", "driver-missing", "torch-cuda-unavailable", "nvidia-uvm-missing",
              "gpu-lost"), needs="root", before=hidden_nodes()),
        Trial("libcuda is no library", off, (1,), ("libcuda-stub", "torch-cuda-unavailable", "torch-import-broken", "libcuda-crashed"),
              environment={"LD_LIBRARY_PATH": str(folder)}),
        Trial("MIG", off, (0, 1), ("gpu-mig",), needs="MIG"),
        Trial("a hang over gloo", (*quick, *evidence), (1,), ("live-hang",), environment=hang),
        Trial("a hang over NCCL", (*quick, "--nproc", "2", *evidence), (1,), ("live-hang",), environment=hang, needs="two GPUs",
              insights=True),
        Trial("full", ("--live", "full", "--timeout", "240"), (0,), arms={"gloo-loopback": "pass"}, seconds=250),
    )  # fmt: skip


def check(command: Sequence[str], trial: Trial, limit: float) -> tuple[int, Document, str]:
    environment = {**os.environ, **trial.environment}
    argv = [*trial.before, *command, *trial.words, "--json"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=limit)
    except subprocess.TimeoutExpired:
        return 124, {}, f"no answer within {limit:.0f} s"
    try:
        return done.returncode, json.loads(done.stdout), done.stderr[-400:]
    except ValueError:
        return done.returncode, {}, f"no JSON: {done.stderr[-400:]}"


def judged(trial: Trial, code: int, document: Document, said: str) -> str:
    """What is wrong; empty if it is as the row expects."""
    found = [one["rule"] for one in document.get("findings", ())]
    arms = {arm["name"]: arm["status"] for arm in (document.get("live") or {}).get("arms") or ()}
    if not document or code not in trial.codes:
        return f"exit code {code}, not {' or '.join(map(str, trial.codes))}; found {', '.join(found) or 'nothing'}. {said}".strip()
    if trial.rules and not set(trial.rules) & set(found):
        return f"none of {', '.join(trial.rules)}; found {', '.join(found) or 'nothing'}"
    if wrong := [f"{name}: {arms.get(name, 'not run')}, not {status}" for name, status in trial.arms.items() if arms.get(name) != status]:
        return "; ".join(wrong)
    if trial.insights and not (document.get("live") or {}).get("insights"):
        return "neither NCCL's services nor the Flight Recorder said anything"
    return ""


def ratio(command: Sequence[str], python: str, runs: int = 3) -> Result:
    """The default check against the import that it cannot do without, in turns."""

    def timed(argv: Sequence[str]) -> float:
        began = time.monotonic()
        subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
        return time.monotonic() - began

    took = time.monotonic()
    pairs = [(timed([*command, "--timeout", "90"]), timed([python, "-c", "import torch, torch._dynamo"])) for _ in range(runs)]
    middle = statistics.median(mine / theirs for mine, theirs in pairs)
    status = "pass" if middle <= RATIO else "fail"
    return Result("time against the import", status, f"{middle:.2f} times, {RATIO} at most", time.monotonic() - took)


def run(command: Sequence[str], python: str, tell: Callable[[str], object] = print) -> list[Result]:
    deadline = time.monotonic() + LIMIT_SECONDS
    first: Document = {}
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="envcheck-acceptance-") as name:
        for trial in trials(Path(name)):
            began = time.monotonic()
            reason, possible = NEEDS.get(trial.needs, ("", lambda _: True))
            left = deadline - began
            if trial.needs and (not first or not possible(first)):
                result = Result(trial.name, "skipped", reason)
            elif left < trial.seconds:
                result = Result(trial.name, "skipped", "no time was left for it")
            else:
                code, document, said = check(command, trial, min(left, trial.seconds + 60))
                first = first or document
                wrong = judged(trial, code, document, said)
                result = Result(trial.name, "fail" if wrong else "pass", wrong, time.monotonic() - began, document)
            results.append(result)
            tell(f"{result.status:8} {result.name:28} {result.seconds:5.1f} s  {result.reason}")
            if trial.name == "default" and not gpus(first):
                tell("this machine has no GPU that torch sees: there is nothing to accept")
                return results
    if deadline - time.monotonic() > 60:
        results.append(ratio(command, python))
        tell(f"{results[-1].status:8} {results[-1].name:28} {results[-1].seconds:5.1f} s  {results[-1].reason}")
    return results


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--envcheck", nargs="+", default=[sys.executable, "-m", "envcheck"], help="the command")
    parser.add_argument("--python", default=sys.executable, help="the interpreter whose import of torch is the measure")
    args = parser.parse_args(argv)
    results = run(args.envcheck, args.python)
    args.output.write_text(json.dumps([asdict(one) for one in results], indent=1) + "\n")
    return 0 if gpus(results[0].document) and not any(one.status == "fail" for one in results) else 1


if __name__ == "__main__":
    sys.exit(main())
