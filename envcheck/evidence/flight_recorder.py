"""Flight Recorder dumps, analysed by the `torchfrtrace` that comes with the target's own torch."""

from __future__ import annotations

import os
import re
import time

from envcheck.facts.printable import begin_of
from envcheck.facts.record import record
from envcheck.facts.secrets import end_of
from envcheck.host.access import run_command
from envcheck.host.home import with_own_home

SECONDS = 40.0  # for all dumps together; torchfrtrace imports torch
LEAST_SECONDS = 5.0
DUMP = re.compile(r"(.+\.fr_)(\d{1,6})$")  # the agent's name for them: nccl.fr_0
_FIELD = re.compile(
    r"(?i)\b(collective sequence id|group info|collective|missing ranks|expected ranks|collective state|error msg"
    r"|not all ranks joining[^:\n]{0,60}): ?(.{1,300})"
)


@record
class FlightAnalysis:
    dumps: tuple[str, ...]  # names of the files
    lines: tuple[str, ...] = ()  # what decides: missing ranks, mismatches
    output: str = ""
    error: str = ""  # why there is no analysis


def dumps_of(names: list[str]) -> dict[str, list[str]]:
    """Prefix → files."""
    found: dict[str, list[str]] = {}
    for name in sorted(names):
        if match := DUMP.match(name):
            found.setdefault(match[1], []).append(name)
    return found


def analyse(folder: str, executable: str, seconds: float = SECONDS) -> tuple[FlightAnalysis, ...]:
    """One analysis an arm that left dumps. The dumps are pickles of our own ranks, and only the target reads them."""
    deadline = time.monotonic() + seconds
    return tuple(
        _one(folder, prefix, tuple(files), executable, deadline)
        for prefix, files in dumps_of(os.listdir(folder)).items()
        if any(os.path.getsize(os.path.join(folder, name)) for name in files)
    )


def _one(folder: str, prefix: str, files: tuple[str, ...], executable: str, deadline: float) -> FlightAnalysis:
    arguments = (folder, "-p", prefix, "--allow-incomplete-ranks")
    script = os.path.join(os.path.dirname(executable), "torchfrtrace")
    ways = [(executable, script)] if os.path.isfile(script) else []
    # From torch 2.6 on the module is there under this name; the script's name is older
    for way in (*ways, (executable, "-m", "torch.distributed.flight_recorder.fr_trace")):
        seconds = deadline - time.monotonic()
        if seconds < LEAST_SECONDS:
            return FlightAnalysis(files, error="no time was left for torchfrtrace")
        done = run_command((*way, *arguments), timeout=seconds, env=with_own_home(os.environ, executable), cwd=folder)
        text = f"{done.stdout}\n{done.stderr}".strip()
        if done.timed_out:
            return FlightAnalysis(files, error=f"torchfrtrace did not end within {seconds:.0f} s")
        if "No module named" not in text and not done.not_executable:
            error = (
                "" if done.code == 0 else f"torchfrtrace left with exit code {done.code}: {begin_of((text.splitlines() or [''])[-1], 300)}"
            )
            return FlightAnalysis(files, deciding(text), end_of(text, 20000), error)
    return FlightAnalysis(files, error="this torch has no torchfrtrace")


def deciding(text: str) -> tuple[str, ...]:
    """The lines that name a collective, its group and who is missing."""
    found: dict[str, None] = {}
    for line in text.splitlines():
        line = line.strip()
        if len(line) < 2000 and _FIELD.search(line):
            found[begin_of(line, 300)] = None
    return tuple(found)[:60]
