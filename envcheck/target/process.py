"""Starts the agent in the target interpreter, watches its deadlines, reads its lines and names its death."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from envcheck import FOLDER
from envcheck.errors import MachineFault, UsageError
from envcheck.facts.printable import one_line
from envcheck.facts.record import field, mutable, record
from envcheck.host.access import bound, end_group, signal_name, wait
from envcheck.host.full_folder import full_folder
from envcheck.host.home import with_own_home
from envcheck.host.orphans import statuses_are_lost
from envcheck.host.ownership import is_of_others, safe_variables
from envcheck.host.plain_files import descriptor_to_append, emptied_above, tail, written

if TYPE_CHECKING:
    from envcheck.host.activity import Activity, Watch

OUTPUT_LIMIT = 64 << 20  # of stdout and of stderr
LOOK_SECONDS = 0.1
LINES = "agent.jsonl"
LINES_LIMIT = 64 << 20
AGENT = os.path.join(FOLDER, "agent", "main.py")
SOUND_IMPORT_SECONDS = 1.0  # nobody asks what a shorter one does
CANNOT_WRITE = 74  # of the agent: its own file cannot be written, which says nothing of the target
FILE_LIMIT = 73  # of the agent: its own file would be larger than RLIMIT_FSIZE allows
NO_ROOM = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)  # for one more process
TOO_OLD = 79  # exit status of the agent below Python 3.8, together with its line on stderr


@record
class Target:
    executable: str
    because: str
    note: str = ""  # what was passed over on the way to it


@record
class Budget:
    """Seconds. `total` is the hard ceiling of the whole run; the rest is what each part may take of it."""

    total: float = 180.0

    @property
    def agent(self) -> float:
        """What the agent has in all: the report needs the rest."""
        return max(self.total - max(2.0, 0.08 * self.total), 0.5 * self.total)

    @property
    def start(self) -> float:
        return min(30.0, 0.4 * self.total)

    @property
    def torch_import(self) -> float:
        return min(120.0, 0.55 * self.total)

    def preload(self, import_seconds: float) -> float:
        """For torch._dynamo, which takes about as long as torch itself."""
        return min(max(30.0, 4 * import_seconds), 0.3 * self.total)

    @property
    def devices(self) -> float:
        return min(90.0, 0.5 * self.total)


# SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGSEGV and SIGTERM, as Linux numbers them
FATAL = (4, 6, 7, 8, 9, 11, 15)


@mutable
class Running:
    """An agent under way. `lines` is filled as they are read."""

    process: subprocess.Popen[bytes]
    target: Target
    folder: str
    began: float
    budget: Budget
    options: Mapping[str, Any]
    env: Mapping[str, str]
    lines: list[dict[str, Any]] = field(default_factory=list)
    earlier: tuple[dict[str, Any], ...] = ()  # lines of an agent whose place this one has taken
    ended_because: str | None = None  # "start", "import", "preload", "total" if we had to end it
    behind: float | None = None  # seconds by which the agent's clock is behind ours; not known before its first line
    ties: list[int] = field(default_factory=list)  # the ends of a pipe: the agent dies when we, who alone hold the second, are gone

    @property
    def static(self) -> bool:
        return bool(self.options["static"])

    @property
    def live_asked(self) -> bool:
        return self.options["live"] != "off" and not self.static


@record
class Ended:
    """What is left of an agent: its lines, how it ended, and what it printed."""

    lines: tuple[dict[str, Any], ...]
    code: int | None
    ended_because: str | None
    stderr: str
    stack: str
    seconds: float
    ended_at: float  # of the monotonic clock
    activity: Activity | None = None  # of the last seconds of an import that we had to end

    @property
    def last_begin(self) -> str | None:
        begun = [line["begin"] for line in self.lines if "begin" in line]
        return begun[-1] if begun else None

    @property
    def seconds_of_last(self) -> float:
        """From the begin of its last step to its end."""
        begun = [line["at"] for line in self.lines if "begin" in line and "at" in line]
        return max(0.0, self.ended_at - begun[-1]) if begun else self.seconds

    @property
    def finished(self) -> bool:
        return any(line.get("end") for line in self.lines)

    def sections(self, name: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line.get("section") == name]

    def section(self, name: str) -> dict[str, Any] | None:
        found = self.sections(name)
        return found[-1] if found else None

    @property
    def signal(self) -> str | None:
        """That ended it, also where a shell was in between (`--python wrapper.sh`), which then leaves with 128 and its number."""
        wrapped = self.code is not None and self.code - 128 in FATAL
        return signal_name(128 - self.code if wrapped and self.code is not None else self.code)

    @property
    def death(self) -> str:
        """How it ended by itself, in words."""
        if self.code is None:
            return "ended, and how is not known (SIGCHLD is ignored)"
        return f"died with {self.signal}" if self.signal else f"ended with exit code {self.code}"


def start(target: Target, folder: str, budget: Budget, options: Mapping[str, Any], env: Mapping[str, str]) -> Running:
    """Start the agent; `folder` is private and ours. To be called from the main thread (the agent dies with it)."""
    full = {"folder": folder, "live_seconds": budget.agent, "devices_seconds": budget.devices, **options}
    began, ties = time.monotonic(), _ties()
    try:
        process = start_agent(target, full, env, tie=ties[:1])
    except BaseException:
        _untie(ties)
        raise
    return Running(process, target, folder, began, budget, options, dict(env), ties=ties)


def _ties() -> list[int]:
    try:
        return list(os.pipe()) if sys.platform == "linux" else []
    except OSError:  # no descriptor is left: the agent goes without
        return []


def _untie(ties: list[int]) -> None:
    while ties:
        os.close(ties.pop())


def start_agent(
    target: Target, options: Mapping[str, Any], env: Mapping[str, str], stdin: int = subprocess.DEVNULL, tie: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """`tie`: the end of a pipe that the agent inherits, through a wrapper too (`processes.die_with_the_pipe`)."""
    folder = options["folder"]
    full = {**options, "out": os.path.join(folder, LINES), "tie": [(one, os.fstat(one).st_ino) for one in tie]}
    env = with_own_home(safe_variables(env)[0], target.executable, home := os.path.join(folder, "home"))
    if env.get("HOME") == home:
        with suppress(OSError):  # no inode is left: then nothing is read there either
            os.makedirs(home, 0o700, exist_ok=True)
    if is_of_others(os.path.dirname(target.executable) or "."):  # before the agent can say so, a .pth of theirs writes bytecode
        env["PYTHONDONTWRITEBYTECODE"] = "1"
    out, err = (os.path.join(folder, name) for name in ("agent.out", "agent.err"))
    with open(descriptor_to_append(out), "ab") as to_out, open(descriptor_to_append(err), "ab") as to_err:
        try:
            process = subprocess.Popen(
                [target.executable, "-X", "faulthandler", AGENT, json.dumps(full)],
                stdin=stdin,
                stdout=to_out,
                stderr=to_err,
                env=env,
                start_new_session=True,
                pass_fds=tie,
            )
        except OSError as error:
            what = error.filename if error.filename not in (None, target.executable) else ""  # /dev/null, the working folder
            kind = MachineFault if what or error.errno in NO_ROOM else UsageError
            raise kind(f"{target.executable}: cannot be started: {f'{what}: ' if what else ''}{error.strerror}") from None
    bound(process)
    return process


def finish(running: Running, tick: Callable[[str], None] | None = None) -> Ended:
    """Wait for the agent, ending it at the deadline of the step it is in. `tick` is told the step four times a second.

    Where importing torch._dynamo has ended it, another agent goes on without that step: its ranks are started afresh and meet the
    fault where a training program would. Where that import does not come back they would only wait as long again, so there are none.
    """
    ended = _finish(running, tick)
    left = running.budget.agent - (time.monotonic() - running.began)
    if ended.last_begin != "preload" or ended.section("preload") or ended.ended_because == "total" or left < 10:
        return ended
    if ended.code == CANNOT_WRITE and (full_folder(running.folder) or is_gone(running.folder)):  # it would not come as far
        return ended
    how = f"did not end within {ended.seconds_of_last:.0f} s" if ended.ended_because else ended.death
    error: dict[str, Any] = {"type": "timeout" if ended.ended_because else "crashed", "text": how, "stack": ended.stack or ended.stderr}
    if ended.activity:
        error |= ended.activity.facts()
    running.earlier = (*ended.lines, {"section": "preload", "error": error})
    running.lines[:] = running.earlier
    with suppress(FileNotFoundError):  # the target has removed our folder
        os.unlink(os.path.join(running.folder, LINES))
    running.ended_because = None
    options = {**running.options, "start_method": "spawn", "because": "importing torch._dynamo " + how}
    if ended.ended_because:
        options["live"] = "off"
    shared = {"folder": running.folder, "live_seconds": left, "devices_seconds": min(running.budget.devices, left)}
    running.process = start_agent(running.target, {**shared, **options}, running.env, tie=running.ties[:1])
    return _finish(running, tick)


def _finish(running: Running, tick: Callable[[str], None] | None) -> Ended:
    budget, began = running.budget, running.began
    watch: Watch | None = None
    while True:
        _read_lines(running)
        step, since = _step(running)
        deadline, name = began + budget.agent, "total"
        if step is None and began + budget.start < deadline:
            deadline, name = began + budget.start, "start"
        if step in ("torch_static", "import") and since + budget.torch_import < deadline:
            deadline, name = since + budget.torch_import, "import"
        if step == "preload" and since + budget.preload(_import_seconds(running)) < deadline:
            deadline, name = since + budget.preload(_import_seconds(running)), "preload"
        if step in ("torch_static", "import", "preload") and time.monotonic() > since + SOUND_IMPORT_SECONDS:
            if watch is None:
                from envcheck.host.activity import Watch

                watch = Watch(running.process.pid)
            watch.look()
        left = deadline - time.monotonic()
        if left <= 0 and _stays(running, step, name):
            break
        if tick:
            tick(step or "start")
        # Without a progress line nothing needs waking us but the end and the deadlines; the step may change unseen meanwhile.
        if _wait(running, min(max(left, 0.0), 0.25 if tick else 2.0)):
            break
    said = tail(os.path.join(running.folder, "agent.err"), 8000)  # a tracker of shared memory adds its own words when it ends
    end_group(running.process)
    _read_lines(running)
    return Ended(
        tuple(running.lines),
        _exit_code(running),
        running.ended_because,
        said,
        tail(os.path.join(running.folder, "agent.stack"), 16000),
        time.monotonic() - began,
        time.monotonic(),
        watch.activity() if watch and running.ended_because else None,
    )


def _exit_code(running: Running) -> int | None:
    """None where we ended it, or cannot know: subprocess takes a child that somebody else has reaped for one that ended well."""
    code: int | None = running.process.returncode
    return None if running.ended_because or (code == 0 and statuses_are_lost()) else code


def _wait(running: Running, seconds: float) -> bool:
    """Whether it ended; what it prints is looked at often, because a fast program fills a gigabyte a second."""
    deadline = time.monotonic() + seconds
    while not wait(running.process, min(LOOK_SECONDS, max(deadline - time.monotonic(), 0.0))):
        bound_output(running.folder)
        if time.monotonic() >= deadline:
            return False
    return True


def bound_output(folder: str) -> None:
    """A torch that prints without end does not fill the disk: what it wrote so far is thrown away, the latest words stay."""
    for name in ("agent.out", "agent.err"):  # opened for appending, so the next words stand at the start again
        emptied_above(os.path.join(folder, name), OUTPUT_LIMIT)


def end(running: Running) -> None:
    """Make sure that nothing of the agent is left, whatever way the caller goes."""
    end_group(running.process)
    _untie(running.ties)


def _step(running: Running) -> tuple[str | None, float]:
    begun = [line for line in running.lines if "begin" in line]
    if not begun:
        return None, running.began
    last = begun[-1]
    done = any(line.get("section") == last["begin"] for line in running.lines[running.lines.index(last) :])
    return ("between steps" if done and last["begin"] in ("import", "preload") else last["begin"]), float(last.get("at", running.began))


def _import_seconds(running: Running) -> float:
    taken = [line["value"]["seconds"] for line in running.lines if line.get("section") == "import" and line.get("value")]
    return float(taken[-1]) if taken else 0.0


def _read_lines(running: Running) -> None:
    data = written(os.path.join(running.folder, LINES), 0, LINES_LIMIT)
    if data is None:
        return
    running.lines[:] = running.earlier
    for line in data.split(b"\n"):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue  # the last line of an agent that died while it wrote
        if isinstance(row, dict) and _sound(row):
            running.lines.append(_on_our_clock(running, row))


def _on_our_clock(running: Running, row: dict[str, Any]) -> dict[str, Any]:
    """The monotonic clock is one and the same on this machine, but for a wrapper that makes a time namespace (`unshare -T`). What such an
    agent says then counts from its first line."""
    if "at" not in row:
        return row
    if running.behind is None:
        possible = running.began <= row["at"] <= time.monotonic()
        running.behind = 0.0 if possible else running.began - row["at"]
    return {**row, "at": row["at"] + running.behind}


def _sound(row: Mapping[str, Any]) -> bool:
    """Whether what is read of a row before its facts are decoded has the types that the agent writes."""
    error, value = row.get("error"), row.get("value")
    seconds: object = 0.0
    if row.get("section") == "import" and value:
        seconds = value.get("seconds") if isinstance(value, dict) else None
    return (
        isinstance(row.get("begin", ""), str)
        and _is_time(row.get("at", 0.0))
        and _is_time(seconds)
        and (error is None or (isinstance(error, dict) and all(isinstance(error.get(key), str) for key in ("type", "text"))))
    )


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e12  # NaN is not


def _dump_stacks(running: Running) -> None:
    """Ask for the stacks of all threads; before the handler is there SIGUSR1 would simply end it, which is as good."""
    if hasattr(signal, "SIGUSR1") and running.process.poll() is None:
        os.kill(running.process.pid, signal.SIGUSR1)
        time.sleep(0.4)


def _stays(running: Running, step: str | None, name: str) -> bool:
    """Whether the agent is still in the step whose time is over once its stacks have been asked for, and so has to be ended: on a busy
    machine it may have gone on meanwhile."""
    _dump_stacks(running)
    _read_lines(running)
    if name != "total" and _step(running)[0] != step:
        return False
    running.ended_because = name
    return True


def is_gone(folder: str) -> bool:
    """Whether the folder is no longer there, or something else has its place."""
    return os.path.islink(folder) or not os.path.isdir(folder)


def require_folder(running: Running, ended: Ended) -> None:
    """UsageError if our folder went before the agent was done: what it met then says nothing of the target."""
    if not (ended.finished and ended.section("python")) and is_gone(running.folder):
        raise MachineFault(
            f"{running.folder}, where the check keeps its files, was removed meanwhile: by what clears {os.path.dirname(running.folder)}"
            " of old files, or by something that torch imports"
        )


def require_answer(ended: Ended, target: Target) -> None:
    """UsageError if the target is no Python that can run the agent: there is nothing to report on then."""
    if ended.section("python"):
        return
    said = ended.stderr.strip().splitlines()
    last = f": {one_line(said[-1], 200)}" if said else ""
    if ended.code == TOO_OLD and "envcheck-agent" in ended.stderr:
        raise UsageError(f"{target.executable}: {said[-1].partition(': ')[2]}")
    if "-X is reserved" in ended.stderr:  # Python 2.7 refuses our flags before it reads a line of ours
        raise UsageError(f"{target.executable}: Python 2 is too old, 3.8 or newer is needed")
    if ended.code == FILE_LIMIT:
        raise MachineFault("no file may be written here: the limit of their size (ulimit -f, RLIMIT_FSIZE) is reached")
    if ended.code == CANNOT_WRITE:
        raise MachineFault(f"the temporary folder cannot be written{last}")
    if ended.ended_because:
        raise MachineFault(f"{target.executable}: did not start within {ended.seconds:.0f} s{last}")
    if ended.code in (126, 127) and said:  # of a shell: a shim of pyenv or asdf, a wrapper whose interpreter is gone. It says why first.
        paragraphs = (" ".join(one.split()) for one in ended.stderr.partition("Note:")[0].split("\n\n"))
        words = "; ".join(one for one in paragraphs if one)
        raise UsageError(f"{target.executable}: starts no Python: {one_line(words, 300)}")
    how = ended.death if ended.signal or ended.code is None else f"{ended.death} and no answer"
    raise UsageError(f"{target.executable}: is not a usable Python interpreter, it {how}{last}")
