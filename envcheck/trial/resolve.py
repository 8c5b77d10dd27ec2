"""A way for a machine that is not here: the installer resolves its lines for that platform and Python. Nothing is installed."""

from __future__ import annotations

import time
from collections.abc import Sequence

from envcheck.facts.record import replace
from envcheck.host.orphans import Offspring
from envcheck.planner.profile import Profile
from envcheck.planner.result import TrialResult
from envcheck.trial.commands import InstallerLine, NotOurs
from envcheck.trial.installer import trouble
from envcheck.trial.interruption import Interruption
from envcheck.trial.place import Throwaway, find_place
from envcheck.trial.trial import Attempt, Bench, lines_of, over, shown_command, why, with_mark

UV_MANYLINUX = (17, 28, *range(31, 41))  # minor versions of glibc 2 that `uv pip install --python-platform` knows
NEWEST_MACOS = "26.0"
OLDEST_GLIBC = 5  # manylinux1; pip has to be given each tag that the machine takes


def run_resolve(attempt: Attempt, bench: Bench, machine: Profile) -> TrialResult:
    """Resolve each line; the first that has no solution refutes the way."""
    began = time.monotonic()
    tool = bench.installer.tool
    try:
        flags = (_uv_flags if tool == "uv" else _pip_flags)(machine)
        lines = [line for line in lines_of(attempt, tool, machine.windows)[0] if line.installs]
    except NotOurs as error:
        return TrialResult("not-run", str(error))
    if bench.installer.misled:
        return TrialResult("not-run", bench.installer.misled)
    place = find_place(None)
    if place is None:
        return TrialResult("not-run", "no folder for temporary files can be written; set TMPDIR to one")
    offspring = Offspring()
    bench = with_mark(bench, offspring)
    with offspring, Interruption() as interruption:
        throwaway = Throwaway(place)
        try:
            try:
                throwaway.make()
                trial = _resolved(lines, flags, bench, throwaway, _macos(machine))
            except OSError as error:
                trial = TrialResult("not-run", f"{throwaway.path}: {error.strerror}")
            finally:
                throwaway.discard(interruption)
        finally:
            throwaway.discard(interruption)
    return replace(trial, tool=tool, seconds=time.monotonic() - began)


def _resolved(lines: Sequence[InstallerLine], flags: Sequence[str], bench: Bench, throwaway: Throwaway, macos: str) -> TrialResult:
    installer = bench.installer.within(throwaway.folder("tmp"), MACOSX_DEPLOYMENT_TARGET=macos)  # what uv goes by
    target = throwaway.folder("target")
    ran: list[str] = []
    built = [line for line in lines if "--no-build-isolation" in line.words]
    for line in lines:
        if line in built:
            continue
        more = ("--dry-run", "--only-binary", ":all:", "--target", target, *flags)
        argv = line.argv(installer.target, installer.program or "uv", more if installer.tool == "uv" else (*more, "--ignore-installed"))
        if bench.tick:
            bench.tick(f"resolving {' '.join(line.requirements)[:60]}")
        done = installer.run(argv, bench.left)
        ran.append(shown_command(argv))
        if done.timed_out:
            return over("undecided", "the time limit of the trial was reached", ran, command=done)
        if not done.ok:
            kind = trouble(done.stdout)
            reason = f"the package index cannot be reached: {why(done)}" if kind == "network" else why(done)
            return over("not-run" if kind else "failed", reason, ran, command=done)
    names = ", ".join(name for line in built for name in line.requirements)
    if not ran:
        return TrialResult("not-run", f"{names}: it is compiled on that machine")
    return over("resolved", f"without {names}, which is compiled on that machine" if names else "", ran)


def _python(machine: Profile) -> str:
    if not machine.python or machine.python.endswith("t") or machine.implementation not in (None, "cpython"):
        raise NotOurs("an installer here resolves for CPython of a known version only, and not for a free-threaded one")
    return machine.python


def _uv_flags(machine: Profile) -> tuple[str, ...]:
    """The machine as uv names it: x86_64-manylinux_2_31, aarch64-apple-darwin, x86_64-pc-windows-msvc."""
    cpu = {"arm64": "aarch64", "AMD64": "x86_64"}.get(machine.machine or "", machine.machine or "x86_64")
    if machine.os == "linux":
        known = [one for one in UV_MANYLINUX if one <= _glibc_minor(machine)]
        system = "unknown-linux-musl" if machine.musl else f"manylinux_2_{known[-1]}" if known else "unknown-linux-gnu"
    else:
        system = {"darwin": "apple-darwin", "windows": "pc-windows-msvc"}.get(machine.os or "", "")
    if not system:
        raise NotOurs("the system of that machine is not known")
    return ("--python-version", _python(machine), "--python-platform", f"{cpu}-{system}")


def _pip_flags(machine: Profile) -> tuple[str, ...]:
    """The machine as tags of wheels, each with a --platform of its own."""
    python = _python(machine)
    cpu = machine.machine or "x86_64"
    if machine.os == "linux" and not machine.musl:
        newest = _glibc_minor(machine)
        tags = [f"manylinux_2_{minor}_{cpu}" for minor in range(newest, OLDEST_GLIBC - 1, -1)] + [f"manylinux2014_{cpu}", f"linux_{cpu}"]
    elif machine.os == "darwin":
        tags = [f"macosx_{_macos(machine).partition('.')[0]}_0_{cpu}"]
    elif machine.os == "windows":
        tags = ["win_arm64" if cpu in ("arm64", "aarch64") else "win_amd64"]
    else:
        raise NotOurs("the system of that machine is not known, or is none of pip's platforms")
    return ("--python-version", python, "--implementation", "cp", *(word for tag in tags for word in ("--platform", tag)))


def _glibc_minor(machine: Profile) -> int:
    """What is not known excludes nothing, as in the plan."""
    major, _, minor = (machine.glibc or "").partition(".")
    return int(minor) if major == "2" and minor.isdecimal() else UV_MANYLINUX[-1]


def _macos(machine: Profile) -> str:
    return machine.macos or NEWEST_MACOS
