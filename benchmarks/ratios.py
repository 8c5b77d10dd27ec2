"""What envcheck costs, as ratios against a baseline in the same run: `python benchmarks/ratios.py [-n RUNS] [--python PATH] [NAME…]`.

With --python the torch of another interpreter is measured, examined from outside: a CUDA build's import is three times as heavy as
that of a CPU build.

Runs of envcheck and of its baseline alternate, so that a machine whose speed drifts drifts for both; each ratio is that of
one pair, and the median is printed. Wall and CPU seconds are the whole process tree's (wait4); memory is sampled from /proc:
`tree` is the peak of the summed PSS of all processes, `largest` the highest resident set of a single one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PYTHON = sys.executable
ENVCHECK = (PYTHON, "-m", "envcheck")
REPORT = str(HERE.parent / "tests" / "samples" / "collect_env" / "vllm-sections.txt")
CONSOLE = str(Path(PYTHON).with_name("envcheck"))


@dataclass(frozen=True)
class Case:
    name: str
    command: tuple[str, ...]
    baseline: tuple[str, ...]
    figure: str  # "wall" or "cpu"
    limit: float


def cases(target: str | None) -> tuple[Case, ...]:
    theirs = target or PYTHON
    check = (*ENVCHECK, "--python", target) if target else ENVCHECK
    here = (
        Case("default", check, (theirs, "-c", "import torch, torch._dynamo"), "wall", 0.85),
        Case("default-cpu", check, (theirs, str(HERE / "spawn_ddp.py")), "cpu", 0.42),
        Case("live-off", (*check, "--live", "off"), (theirs, "-c", "import torch"), "wall", 1.10),
        Case("static", (*check, "--static"), (theirs, "-c", "import torch"), "wall", 0.10),
    )
    if target:
        return here
    return (
        *here,
        Case("diagnose", (*ENVCHECK, "diagnose", "--json", REPORT), (PYTHON, "-c", "import torch"), "wall", 0.15),
        Case("version", (CONSOLE, "--version"), (PYTHON, "-c", "pass"), "wall", 3.0),
    )


@dataclass(frozen=True)
class Cost:
    wall: float
    cpu: float
    code: int


def run(command: tuple[str, ...]) -> Cost:
    began = time.monotonic()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Cost(time.monotonic() - began, usage.ru_utime + usage.ru_stime, process.returncode)


def measure(case: Case, runs: int) -> None:
    run(case.command)
    run(case.baseline)
    pairs = [(run(case.command), run(case.baseline)) for _ in range(runs)]
    codes = {cost.code for cost, _ in pairs}
    ratios = sorted(getattr(ours, case.figure) / getattr(theirs, case.figure) for ours, theirs in pairs)
    mine = statistics.median(getattr(ours, case.figure) for ours, _ in pairs)
    theirs = statistics.median(getattr(theirs, case.figure) for _, theirs in pairs)
    mark = "ok  " if statistics.median(ratios) <= case.limit else "OVER"
    spread = f"min {ratios[0]:.3f}, max {ratios[-1]:.3f}, limit {case.limit}"
    print(
        f"{mark} {case.name:12} {case.figure:4} ratio {statistics.median(ratios):.3f} ({spread})"
        f"  {mine:.3f} s against {theirs:.3f} s, n={runs}, exit {sorted(codes)}",
        flush=True,
    )


def descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                stat = Path(f"/proc/{name}/stat").read_text()
            except OSError:
                continue
            children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(name))
    found, todo = [], [root]
    while todo:
        one = todo.pop()
        found.append(one)
        todo += children.get(one, ())
    return found


def kib(path: str, key: str) -> int:
    try:
        for line in Path(path).read_text().splitlines():
            if line.startswith(key):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


def memory(command: tuple[str, ...]) -> tuple[float, float]:
    """Peak of the tree's PSS and of one process's resident set, in MiB."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    tree = largest = 0
    while process.poll() is None:
        pids = descendants(process.pid)
        tree = max(tree, sum(kib(f"/proc/{pid}/smaps_rollup", "Pss:") for pid in pids))
        largest = max([largest, *(kib(f"/proc/{pid}/status", "VmHWM:") for pid in pids)])
        time.sleep(0.005)
    return tree / 1024, largest / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", "--runs", type=int, default=5)
    parser.add_argument("--python", help="an interpreter or environment whose torch is measured instead of this one's")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(case.name for case in cases(None))}, memory")
    args = parser.parse_args()
    target = str(Path(args.python, "bin", "python")) if args.python and os.path.isdir(args.python) else args.python
    print(f"python {sys.version.split()[0]}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}")
    for case in cases(target):
        if not args.names or case.name in args.names:
            measure(case, args.runs)
    if not args.names or "memory" in args.names:
        check = (*ENVCHECK, "--python", target) if target else ENVCHECK
        commands = {"default": check, "static": (*check, "--static"), "import torch": (target or PYTHON, "-c", "import torch")}
        for name, command in commands.items():
            tree, largest = memory(command)
            print(f"     memory {name:12} tree {tree:.0f} MiB (PSS), largest process {largest:.0f} MiB (resident)")


if __name__ == "__main__":
    main()
