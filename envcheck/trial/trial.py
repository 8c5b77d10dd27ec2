"""One way from its printed lines to a verdict: an empty environment, the size, the question, the installation, the check."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from envcheck.errors import UsageError
from envcheck.facts.quoting import joined
from envcheck.facts.record import record, replace
from envcheck.facts.secrets import mask_secrets, mask_words
from envcheck.host.access import Completed
from envcheck.host.orphans import Offspring
from envcheck.planner.result import Commands, TrialResult, TrialStatus
from envcheck.trial.cache_rest import CacheRest
from envcheck.trial.commands import InstallerLine, NotOurs, exports, read_line
from envcheck.trial.installer import Installer, Tick, python_of, trouble
from envcheck.trial.interruption import Interruption
from envcheck.trial.place import Place, Throwaway, find_place, free_bytes
from envcheck.trial.size import Size, ask_size, shown

_TELLING = re.compile(r"\s*(?:error:|cause:|×|╰─▶|├─▶)\s*", re.IGNORECASE)  # how pip and uv begin a line that says why
SAID_LINES = 12
SAID_CHARACTERS = 400  # of a line
SHORTEST_CHECK = 5.0
LONGEST_TEMPORARY = 69  # bytes: as in agent/temporary.py
START_SECONDS = 120.0  # for what needs no network


class Checked(NamedTuple):
    """What envcheck itself says of the throwaway environment."""

    verdict: Literal["pass", "fail", "inconclusive"]
    findings: tuple[str, ...] = ()  # rules and titles of the errors
    because: str = ""  # of an inconclusive one


@record
class Attempt:
    """What is tried: the lines of a way, and before them those that put there what the way leaves as it is."""

    title: str
    commands: Commands
    base: Commands = Commands()


@record
class Bench:
    """What trials of one run share."""

    installer: Installer
    check: Callable[[str, Mapping[str, str | None], float], Checked]  # interpreter, variables, seconds
    agreed: Callable[[str], bool]  # the question before a download
    deadline: float  # of the monotonic clock
    tick: Tick = None
    clear: Callable[[], None] = lambda: None  # takes the progress line away

    @property
    def left(self) -> float:
        return self.deadline - time.monotonic()


class _Ended(Exception):
    """The trial is over before its check."""

    def __init__(self, trial: TrialResult) -> None:
        self.trial = trial


def run_trial(attempt: Attempt, bench: Bench) -> TrialResult:
    """Try one way. Whatever is raised meanwhile, its folder and its processes are gone afterwards."""
    began = time.monotonic()
    try:
        lines_of(attempt, bench.installer.tool)
    except NotOurs as error:
        return TrialResult("not-run", str(error))
    offspring = Offspring()
    with offspring:
        trial = _tried(attempt, with_mark(bench, offspring), offspring)
    return replace(trial, tool=trial.tool or bench.installer.tool, seconds=time.monotonic() - began)


def with_mark(bench: Bench, offspring: Offspring) -> Bench:
    """What the installer starts is told by its environment."""
    return replace(bench, installer=replace(bench.installer, env={**bench.installer.env, **offspring.mark}))


def _tried(attempt: Attempt, bench: Bench, offspring: Offspring) -> TrialResult:
    if bench.installer.misled:
        return TrialResult("not-run", bench.installer.misled)
    cache = bench.installer.cache(min(START_SECONDS, max(1.0, bench.left)))
    place = find_place(cache)
    if place is None:
        return TrialResult("not-run", "no folder was found in which an environment can be made; set TMPDIR to one")
    with Interruption() as interruption:
        throwaway = Throwaway(place)
        rest = CacheRest(cache if bench.installer.tool == "uv" else None)
        try:
            try:
                throwaway.make()
                trial = _TrialRun(attempt, bench, place, cache, throwaway).trial()
            except _Ended as ended:
                trial = ended.trial
            except OSError as error:
                trial = TrialResult("not-run", f"{throwaway.path}: {error.strerror}")
            finally:
                _clean(throwaway, rest, offspring, interruption)
        finally:
            _clean(throwaway, rest, offspring, interruption)
    return trial


def _clean(throwaway: Throwaway, rest: CacheRest, offspring: Offspring, interruption: Interruption) -> None:
    interruption.hold = True
    offspring.end()
    throwaway.discard(interruption)
    rest.clear()


def lines_of(attempt: Attempt, tool: str, windows: bool = os.name == "nt") -> tuple[tuple[InstallerLine, ...], Mapping[str, str | None]]:
    """The lines of uv or pip to run, and the variables to set; NotOurs if the way holds something else."""
    own, base = (_read(commands.uv if tool == "uv" else commands.pip, windows) for commands in (attempt.commands, attempt.base))
    variables = exports(attempt.commands.shell, windows)
    if not any(line.installs for line in own):
        raise NotOurs(f"it has no command of {tool}")
    return (*base, *own), variables


def _read(texts: Sequence[str], windows: bool) -> list[InstallerLine]:
    return [line for text in texts if (line := read_line(text, windows)) is not None]


class _TrialRun:
    """One trial under way, in a folder of its own."""

    def __init__(self, attempt: Attempt, bench: Bench, place: Place, cache: str | None, throwaway: Throwaway) -> None:
        self.attempt, self.bench, self.place, self.cache, self.throwaway = attempt, bench, place, cache, throwaway
        self.lines, self.variables = lines_of(attempt, bench.installer.tool)
        self.installer = bench.installer.within(throwaway.folder("tmp"))
        self.python = python_of(throwaway.folder("env"))
        self.done: list[str] = []
        self.size = Size()

    def trial(self) -> TrialResult:
        self._environment()
        self._measure()
        self._question()
        for line in self.lines:
            self._install(line)
        return self._examine()

    def _environment(self) -> None:
        self._say("making a throwaway environment")
        folder = self.throwaway.folder("env")
        made = self.installer.make_environment(folder, min(START_SECONDS, self.bench.left), self.throwaway.path)
        if not made.ok:
            raise _Ended(self._over("not-run", f"no environment can be made: {why(made)}", made))
        if setting := self.installer.diverted(self.python):
            reason = (
                f"the configuration of {self.installer.tool} sets {setting}: it would install into another place than the throwaway one"
            )
            raise _Ended(self._over("not-run", reason))

    def _measure(self) -> None:
        self._say("asking the index what would be downloaded")
        self.size = ask_size(self.installer, self.lines, self.python, self.throwaway.folder("size"), self.bench.left)
        if self.size.refused is not None:
            raise _Ended(self._refused(self.size.refused))

    def _question(self) -> None:
        here, cache = self.size.needs(self.installer, self.place.links)
        rooms = {self.throwaway.path: here, self.cache or self.throwaway.path: cache}
        if self.place.links or self.cache is None:
            rooms = {self.throwaway.path: here + cache}
        for path, needed in rooms.items():
            free = free_bytes(path)
            if free is not None and needed > free:
                raise _Ended(
                    self._over("not-run", f"it needs about {shown(needed)} in {self._named(path)}, and {shown(free)} are free there")
                )
        self.bench.clear()
        if not self.bench.agreed(self._told(sum(rooms.values()))):
            raise _Ended(self._over("not-run", "the question was answered with no"))

    def _named(self, path: str) -> str:
        return self.place.path if path == self.throwaway.path else path

    def _told(self, needed: int) -> str:
        """What is told before a download."""
        size = self.size
        much = f"at most {shown(size.download_bytes)}" if size.download_bytes else "an unknown number of bytes"
        more = f" and {size.unknown} files of unknown size" if size.unknown and size.download_bytes else ""
        load = f"everything is in the cache of {self.installer.tool}" if size.cached else f"downloads {much}{more}"
        free = free_bytes(self.throwaway.path)
        room = f"takes about {shown(needed)} of {shown(free or 0)} free in {self.place.path}"
        return f"to try '{self.attempt.title}': {load}, {room}, for the time of the trial (the cache of {self.installer.tool} stays)"

    def _install(self, line: InstallerLine) -> None:
        argv = line.argv(self.python, self.installer.program or "uv")
        self._say(f"installing {' '.join(line.requirements)[:60]}" if line.installs else "uninstalling")
        self.done.append(shown_command(argv))
        done = self.installer.run(argv, self.bench.left, self._ticking)
        if done.timed_out:
            raise _Ended(self._over("undecided", "the time limit of the trial was reached while it was installed", done))
        if not done.ok:
            raise _Ended(self._refused(done))

    def _refused(self, done: Completed) -> TrialResult:
        """A command of the installer that failed: the way's fault, or that of the network or of the disk."""
        kind = trouble(done.stdout)
        if kind == "network":
            return self._over("not-run", f"the package index cannot be reached: {why(done)}", done)
        if kind == "disk":
            free = free_bytes(self.throwaway.path)
            return self._over("not-run", f"the disk is full: {why(done)}" if not free else f"no space was left for it: {why(done)}", done)
        return self._over("failed", why(done), done)

    def _examine(self) -> TrialResult:
        place = self.throwaway.folder("tmp")
        # Some releases of torch leave a folder there when a process of theirs is ended. (Below too long a name their sockets fail.)
        temporary = {"TMPDIR": place} if len(os.fsencode(place)) <= LONGEST_TEMPORARY else {}
        trial = examined(self.python, {**self.variables, **temporary}, self.bench)
        return replace(trial, commands=tuple(self.done), download_bytes=self.size.download_bytes or None)

    def _over(self, status: TrialStatus, reason: str = "", command: Completed | None = None) -> TrialResult:
        return replace(over(status, reason, self.done, command), download_bytes=self.size.download_bytes or None)

    def _say(self, words: str) -> None:
        self.words = words
        self._ticking()

    def _ticking(self) -> None:
        if self.bench.tick:
            self.bench.tick(self.words)


def examined(python: str, variables: Mapping[str, str | None], bench: Bench) -> TrialResult:
    """What envcheck's own check says of an interpreter."""
    bench.clear()
    if bench.left < SHORTEST_CHECK:
        return TrialResult("undecided", "the time limit of the trial was reached before its check")
    try:
        checked = bench.check(python, variables, bench.left)
    except UsageError as error:  # the interpreter does not answer
        return TrialResult("failed", mask_secrets(str(error)), failed="check")
    if checked.verdict == "pass":
        return TrialResult("passed")
    findings = tuple(map(mask_secrets, checked.findings))
    if checked.verdict == "fail":
        return TrialResult("failed", f"the check finds {'; '.join(findings)}", failed="check", said=findings)
    return TrialResult("undecided", mask_secrets(checked.because), failed="check")


def run_check(python: str, bench: Bench, variables: Mapping[str, str | None]) -> TrialResult:
    """The trial of an environment that is kept as it is: only its check."""
    began = time.monotonic()
    return replace(examined(python, variables, bench), seconds=time.monotonic() - began)


def over(status: TrialStatus, reason: str, ran: Sequence[str], command: Completed | None = None) -> TrialResult:
    """The end of a trial; `command` is the one that failed."""
    failed, said = ("", ()) if command is None else (shown_command(command.argv), last_lines(command.stdout))
    return TrialResult(status, mask_secrets(reason), "", 0.0, tuple(ran), failed, said)


def why(done: Completed) -> str:
    """A failed command in one sentence."""
    words = list(done.argv)
    program = words[words.index("-m") + 1] if "-m" in words[:3] else os.path.basename(words[0])
    if done.not_found or done.not_executable:
        return f"{program} cannot be started"
    if done.timed_out:
        return f"{program} did not end within {done.seconds:.0f} s"
    how = f"died with {done.signal}" if done.signal else f"ended with exit code {done.code}"
    lines = last_lines(done.stdout)
    causes = [line[found.end() :] for line in lines if (found := _TELLING.match(line))] or list(lines)
    last = causes[-1].strip() if causes else ""  # the deepest cause comes last
    return f"{program} {how}{f': {last}' if last else ''}"


def last_lines(text: str) -> tuple[str, ...]:
    """The last words of a program, bounded and without secrets."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return tuple(mask_secrets(line)[:SAID_CHARACTERS] for line in lines[-SAID_LINES:])


def shown_command(argv: Sequence[str]) -> str:
    return joined(mask_words(argv))
