"""Documents of version 1 of the JSON, as the tool has written them. `python tests/v1_documents.py` records those that are not there yet.

A recorded document is never changed: who reads version 1 has such files. The machines are invented. A new command or a new block is
recorded under a name of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import fleet_samples
import report_samples

from envcheck.facts.snapshot import Snapshot
from envcheck.render.fleet import render_fleet
from envcheck.render.json_v1 import render_record

FOLDER = Path(__file__).parent / "documents" / "v1"
LOG = "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
PROGRAM = 'echo "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory" >&2; exit 3'
WISHES = "torch==2.9.1+cu130\ntorchvision\nrequests\n"
ELSEWHERE = ("--for", "8xh100", "--driver", "570.124", "--python", "3.12")
# Name → the command. `{machine}` is a recording of that invented machine, `{out}` where `run` puts the report.
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "record-healthy": (),
    "record-hang": (),
    "healthy": ("--facts", "{healthy}", "--json"),
    "broken": ("--facts", "{broken}", "--json"),
    "hang": ("--facts", "{hang}", "--json"),
    "static": ("--facts", "{static}", "--json"),
    "expect": (
        "--facts", "{static}", "--json", "--expect", "driver>=500", "--expect", "gpus>=99", "--expect", "torch.import_seconds<30",
        "--ignore", "gpu-busy", "--assume", "driver.version=580.95.05",
    ),
    "diagnose": ("diagnose", "train.log", "--json"),
    "run": ("run", "--facts", "{healthy}", "-o", "json={out}", "--", "sh", "-c", PROGRAM),
    "plan": ("plan", "torch==2.9.*", "torchvision", *ELSEWHERE, "--json"),
    "plan-file": ("plan", "-r", "requirements.txt", *ELSEWHERE, "--json"),
    "compare": ("compare", "{healthy}", "{broken}", "--json"),
    "fleet": ("fleet", "--replay", "{healthy}", "{broken}", "{static}", "--json"),
    "fleet-job": (),
}  # fmt: skip


def machines() -> Mapping[str, Snapshot]:
    """The invented machines, by the name that commands call them by."""
    made = {"broken": report_samples.driver_old(), "hang": report_samples.mixed(), "static": report_samples.static()}
    return {"healthy": report_samples.machine("h100x8"), **{name: report.snapshot for name, report in made.items()}}


def recordings() -> Mapping[str, str]:
    """What `record` writes of the invented machines."""
    return {name: render_record(snapshot, "envcheck", "0.1.0") for name, snapshot in machines().items()}


def make(name: str, folder: Path, facts: Mapping[str, str]) -> str:
    """The document that this version of the tool writes; `facts` are recordings by name of machine."""
    paths = {one: folder / f"{one}.json" for one in facts} | {"out": folder / "out.json"}
    for one, text in facts.items():
        paths[one].write_text(text, encoding="utf-8")
    (folder / "train.log").write_text(LOG)
    (folder / "requirements.txt").write_text(WISHES)
    if name == "fleet-job":  # a job needs hosts: an invented one, as rank 0 would report it
        return render_fleet(fleet_samples.stuck(), "json")
    if name.startswith("record-"):
        return facts[name.removeprefix("record-")]
    words = [word.format(**{key: path.name for key, path in paths.items()}) for word in COMMANDS[name]]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-m", "envcheck", *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=240)
    assert done.returncode in (0, 1, 3, 4), (name, done.returncode, done.stderr)
    return paths["out"].read_text(encoding="utf-8") if name == "run" else done.stdout


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for wanted in COMMANDS:
        path = FOLDER / f"{wanted}.json"
        if not path.exists():
            with tempfile.TemporaryDirectory() as temporary:
                path.write_text(make(wanted, Path(temporary), recordings()), encoding="utf-8")
                print(path)
