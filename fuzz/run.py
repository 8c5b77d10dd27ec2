"""Fuzzes: `python fuzz/run.py [--seconds S | --executions N] [--corpus FOLDER] [TARGET…]`. Needs atheris: `pip install -e '.[fuzz]'`.

Each target runs in a process of its own, one after the other, with its seeds of `corpus/`. What it reaches goes to FOLDER (else it is
thrown away), the input of a crash to `crashes/`. Prints a table of executions, crashes and slow inputs; exits 1 with a crash.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
CRASHES = HERE / "crashes"
SLOW_SECONDS = 60  # of one input: libFuzzer then takes it for a hang. It counts the time of a machine that does much else, too.


def fuzz(name: str, arguments: list[str]) -> None:
    """In the child: never returns."""
    import atheris

    with atheris.instrument_imports(include=["envcheck"]):
        import targets
    atheris.Setup([sys.argv[0], *arguments], targets.TARGETS[name])
    atheris.Fuzz()


def run(name: str, seconds: float, executions: int, kept: Path, seed: int) -> tuple[int, int, str]:
    """Executions, exit code, and the words of the crash."""
    import targets

    CRASHES.mkdir(exist_ok=True)
    found = kept / name
    found.mkdir(parents=True, exist_ok=True)
    arguments = [
        str(found), str(HERE / "corpus" / name), f"-max_len={targets.MOST_BYTES.get(name, 3000)}", f"-timeout={SLOW_SECONDS}",
        f"-seed={seed}", f"-artifact_prefix={CRASHES}/{name}-", "-print_final_stats=1", "-rss_limit_mb=3000",
        f"-runs={executions}" if executions else f"-max_total_time={max(1, round(seconds))}",
    ]  # fmt: skip
    command = [sys.executable, str(HERE / "run.py"), "--child", name, *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    stats = re.search(r"number_of_executed_units:\s+(\d+)", done.stdout)
    said = done.stdout.partition("=== Uncaught Python exception")[2] or (done.stdout[-1500:] if done.returncode else "")
    return int(stats[1]) if stats else 0, done.returncode, said[:3000]


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        fuzz(sys.argv[2], sys.argv[3:])
    import targets

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", choices=[*targets.TARGETS, []], help="default: all")
    parser.add_argument("--seconds", type=float, default=60, help="for all targets together")
    parser.add_argument("--executions", type=int, default=0, help="of each target, whatever time they take")
    parser.add_argument("--corpus", type=Path, help="keep there what was reached, and go on from it the next time")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    names = args.targets or list(targets.TARGETS)
    kept = args.corpus or Path(tempfile.mkdtemp(prefix="envcheck-fuzz-"))
    crashed, total = 0, 0
    try:
        for name in names:
            began = time.monotonic()
            count, code, said = run(name, args.seconds / len(names), args.executions, kept, args.seed)
            total, crashed = total + count, crashed + bool(code)
            took = time.monotonic() - began
            print(f"{name:16} {count:>10,} executions  {took:6.0f} s  {'crash' if code else 'no crash'}", flush=True)
            if code:
                print(said, flush=True)
    finally:
        if not args.corpus:
            shutil.rmtree(kept, ignore_errors=True)
    print(f"{'all':16} {total:>10,} executions, {crashed} targets with a crash")
    return 1 if crashed else 0


if __name__ == "__main__":
    sys.path[:0] = [str(HERE), str(HERE.parent)]
    sys.exit(main())
