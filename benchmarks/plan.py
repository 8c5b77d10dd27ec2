"""Milliseconds of one plan (search, proof and commands) after start-up, on the example machines: `python benchmarks/plan.py`."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from envcheck import planner
from envcheck.checks import all_checks
from envcheck.commands.bases import base
from envcheck.engine.rule import RuleTexts
from envcheck.facts.codec import edit
from envcheck.facts.record import replace
from envcheck.tables.compat import Tables
from envcheck.tables.folders import rules_folder

MACHINES = {
    "cpu": {},
    "rtx4090": {"driver.version": "535.183.01", "driver.cuda": "12.2", "torch.version": "2.15.0+cu132", "torch.cuda": "13.2"},
    "h100x8": {"torch.version": "2.13.0+cpu", "torch.cuda": None, "torch.cpu_build": True},
}


def main() -> None:
    folder = Path(rules_folder())
    tables, texts, checks = Tables((folder / "compat",)), RuleTexts((folder,)), all_checks()
    for name, changes in MACHINES.items():
        snapshot = base(folder, name)
        for path, value in changes.items():
            snapshot = edit(snapshot, path, value)
        took = []
        for _ in range(10):
            began = time.perf_counter()
            planner.search(replace(snapshot), tables, checks=checks, texts=texts)  # a copy: results are kept by identity
            took.append(1000 * (time.perf_counter() - began))
        print(f"{name:10} first {took[0]:.0f} ms (reads the tables), then median {statistics.median(took[1:]):.1f} ms of {len(took) - 1}")


if __name__ == "__main__":
    main()
