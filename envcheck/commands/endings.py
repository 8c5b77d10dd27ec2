"""Why a command ended, for the ends that are no fault of the environment or that only this machine can explain, in a line or two each."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from envcheck.commands.beside import asked
from envcheck.commands.kernel_word import KernelWord
from envcheck.facts.printable import one_line, visible
from envcheck.facts.quoting import joined
from envcheck.facts.record import record

if TYPE_CHECKING:
    from envcheck.facts.snapshot import Snapshot
    from envcheck.report.session import RuleSession

SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGSEGV, SIGXCPU = 132, 134, 135, 136, 137, 139, 152  # as exit codes
CRASHES = (SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV)
TAIL = 1 << 18  # characters of the output in which the last error is looked for
ROOM_SECONDS = 3.0  # for what file systems say of themselves
WORTH_NAMING = 256 << 20  # bytes of memory that a process held

_NO_SPACE = re.compile(r"No space left on device(?:: '([^'\n]{1,400})')?")
_IN_USE = re.compile(r"\[Errno (?:98|48)\]|[Aa]ddress already in use|EADDRINUSE")
_PORT = re.compile(r"\b[Pp]ort[ :=]{1,3}(\d{2,5})\b|(?:\]|\b[\w.*-]{1,60}|'):(\d{4,5})\b")
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '([A-Za-z_]\w{0,80})'")
_WHAT = re.compile(r"terminate called after throwing an instance of '([^'\n]{1,120})'(?:\n {0,8}what\(\): {1,4}([^\n]{1,600}))?")
_HEAP = re.compile(
    r"^(?:malloc|free|realloc|corrupted|double free|munmap_chunk|invalid)[^\n]{0,20}(?:\(\)|size|corruption)[^\n]{0,120}$", re.MULTILINE
)
_ASSERTION = re.compile(r"^[^\n]{1,300}: Assertion [`'][^\n]{1,300} failed\.", re.MULTILINE)
_KILLED = re.compile(r"^(?:[^\n:]{1,200}: line \d{1,7}: {1,9}\d{1,9} )?Killed(?: {2,40}[^\n]{0,400})?$", re.MULTILINE)  # a shell's word
_FRAME = re.compile(r'\(most recent call first\):\n {2}File "([^"\n]{1,400})", line (\d{1,7}) in ([^\n]{1,100})')

# Modules whose distribution has another name.
_DISTRIBUTIONS = {"cv2": "opencv-python", "PIL": "pillow", "yaml": "pyyaml", "sklearn": "scikit-learn", "skimage": "scikit-image"}


@record
class Cause:
    """`words` are the program's own, by which a rule's finding about the same is known."""

    words: str
    lines: tuple[str, ...]


def causes(
    code: int, output: str, argv: Sequence[str], kernel: KernelWord, snapshot: Snapshot | None, by: RuleSession
) -> tuple[Cause, ...]:
    """What the end, the output and this machine say, the surest first."""
    text = output[-TAIL:].replace("\r\n", "\n")
    found: Iterator[Cause | None] = (
        look(text) for look in (_no_space, _port, lambda said: _missing_module(said, snapshot, by))
    )  # fmt: skip
    death = _killed(code, kernel) if code in (SIGKILL, SIGXCPU) else _crashed(code, text, argv, kernel) if code in CRASHES else None
    return tuple(one for one in (death, *found) if one is not None)


def kernel_texts(name: str, kernel: KernelWord) -> list[tuple[str, str]]:
    """The kernel's word on processes killed for want of memory, for the rules to weigh."""
    texts = [("kernel log", line) for line in kernel.killed]
    if kernel.kills:
        times = "a process" if kernel.kills == 1 else f"{kernel.kills} processes"
        texts.append(("memory.events", f"oom-kill event: the kernel killed {times} of this control group while {name} ran"))
    return texts


def spared_by_memory(code: int, number: int, kernel: KernelWord) -> bool:
    """SIGKILL, and not for want of memory: the kernel counted no such kill of the command itself, or its CPU time was used up. (What
    hands the code of another process on may have started that in a group of its own.)"""
    used_up, by_itself = _cpu_used_up(code, kernel)
    spared = (number and kernel.kills == 0) or by_itself or (used_up and not number)
    return code == SIGKILL and not kernel.of_memory and bool(spared)


def without_word_of_kill(text: str) -> str:
    """What a shell says of a SIGKILL that is known already."""
    return _KILLED.sub("", text)


def _cpu_used_up(code: int, kernel: KernelWord) -> tuple[str, bool]:
    """In words, "" where the limit was not reached; whether the process reached it by itself. Each of those that it started has a limit
    of its own, and how their sum was shared is not told."""
    cpu = kernel.cpu
    if cpu is None:
        return "", False
    limit = cpu.hard if code == SIGKILL else cpu.soft and cpu.soft - 1  # SIGXCPU comes again each second: the kernel adds one
    if limit is None or cpu.of_all < (enough := 0.9 * limit - 0.2):  # the limit goes by ticks, which are samples
        return "", False
    where = f"{limit} s of it (ulimit -t, RLIMIT_CPU); who set it can allow more"
    if cpu.own >= enough:
        return f"it used {cpu.own:.1f} s of CPU time, and the kernel ends each process here at {where}", True
    return f"what it started used {cpu.of_all:.1f} s of CPU time in all: one of these may have been ended at its limit, {where}", False


def _killed(code: int, kernel: KernelWord) -> Cause | None:
    used_up, by_itself = _cpu_used_up(code, kernel)
    lines = [used_up] if used_up else []
    if by_itself:
        return Cause("", tuple(lines))
    if code == SIGXCPU:
        return Cause("", ("SIGXCPU comes at a limit of CPU time: of the process (ulimit -t), or one that a batch system keeps (s_cpu)",))
    if kernel.largest_bytes is not None and kernel.largest_bytes >= WORTH_NAMING:
        lines.append(f"the largest of its processes held {_amount(kernel.largest_bytes)} of memory")
    if kernel.kills == 0 and not kernel.killed:
        lines.append(
            "the control group counted no kill for want of memory meanwhile: unless the process ran in another group (a container, a job"
            " step), somebody sent SIGKILL: a batch system at its limit of time, CPU time or memory, systemd-oomd, a person"
        )
    return Cause("", tuple(lines)) if lines else None


def _crashed(code: int, text: str, argv: Sequence[str], kernel: KernelWord) -> Cause:
    lines = [f"the kernel's log: {one_line(line, 300)}" for line in kernel.crashed]
    patterns: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
        (_WHAT, lambda found: f"a C++ exception that nobody caught, {found[1]}: {found[2] or 'it says no more'}"),
        (_ASSERTION, lambda found: f"an assertion: {found[0]}"),
        (_HEAP, lambda found: f"the C library found the heap damaged ({found[0]}): native code wrote where it must not"),
        (_FRAME, lambda found: f"the Python line that was running: {found[1]}, line {found[2]}, in {found[3]}"),
    )
    for pattern, words in patterns:
        if last := next(iter(list(pattern.finditer(text))[-1:]), None):
            lines.append(one_line(words(last), 400))
    if not lines:
        ended = "it ended itself, after an assertion, a C++ exception that nobody caught or a damaged heap: see its last lines"
        lines.append(ended if code == SIGABRT else "native code crashed; no Python exception can say where")
    if not _FRAME.search(text) and os.path.basename(argv[0]).startswith(("python", "torchrun", "accelerate", "deepspeed")):
        again = f"PYTHONFAULTHANDLER=1 {joined(argv)}"
        if visible(again) != again:  # a tab, a secret: it would not be what was run
            again = "the same command with PYTHONFAULTHANDLER=1 before it"
        lines.append(f"to see which Python line it was: {again}")
    return Cause("", tuple(lines))


def _amount(number: int) -> str:
    from envcheck.checks.gpu import size

    return size(number)


def _no_space(text: str) -> Cause | None:
    last = next(iter(list(_NO_SPACE.finditer(text))[-1:]), None)
    if last is None:
        return None
    told = asked(lambda: "\n".join(_rooms(last[1], text)), ROOM_SECONDS)
    if told is None:
        lines = [f"what is free there was not told within {ROOM_SECONDS:.0f} s: a file system that does not answer"]
    else:
        lines = told.splitlines() or ["no file system is full now: a quota, a file that is gone again, or a network file system"]
    return Cause(
        "No space left", (*lines, "what helps: remove what is not needed there, or write elsewhere (TMPDIR, HF_HOME, the output folder)")
    )


def _rooms(place: str | None, text: str) -> list[str]:
    """What is left there, or on what is full of all that can be written, foremost what the text names."""
    if place:
        return [line for line in [_room(place)] if line]
    full = {mount: line for mount in _mounts() if (line := _room(mount, only_if_full=True))}
    named = [mount for mount in full if mount != "/" and f"{mount}/" in text]
    return list(dict.fromkeys([full[mount] for mount in named] or full.values()))[:4]


_LOCAL = frozenset(("btrfs", "ext2", "ext3", "ext4", "f2fs", "fuse.fuse-overlayfs", "overlay", "tmpfs", "xfs", "zfs"))


def _mounts() -> list[str]:
    """Where local file systems that can be written are mounted; those of a network may not answer."""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
            rows = [line.split() for line in file]
    except OSError:
        return []
    return [row[1] for row in rows if len(row) > 3 and row[2] in _LOCAL and "rw" in row[3].split(",")]


def _room(place: str, only_if_full: bool = False) -> str:
    """What is left where a file was to be written."""
    folder = os.path.abspath(place)
    while not os.path.isdir(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    try:
        status = os.statvfs(folder)
    except (OSError, AttributeError):
        return ""
    free, total = status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize
    if status.f_files and not status.f_favail:
        return f"{folder}: no file more can be made there (no inode is left)"
    return "" if only_if_full and free * 100 > total else f"{folder}: {_amount(free)} of {_amount(total)} are free"


def _port(text: str) -> Cause | None:
    last = next(iter(list(_IN_USE.finditer(text))[-1:]), None)
    if last is None:
        return None
    near = text[max(0, last.start() - 300) : last.end() + 300]
    ports = [one[1] or one[2] for one in _PORT.finditer(near)]
    which = f"port {ports[-1]}" if ports else "a port that it listens on"
    look = f"ss -ltnp 'sport = :{ports[-1]}'" if ports else "ss -ltnp"
    lines = (f"{which} is in use: by another program, or by a run of before that has not ended", f"who has it: {look}")
    return Cause("ddress already in use", lines)


def _missing_module(text: str, snapshot: Snapshot | None, by: RuleSession) -> Cause | None:
    last = next(iter(list(_NO_MODULE.finditer(text))[-1:]), None)
    if last is None:
        return None
    module = last[1]
    words = f"No module named '{module}'"
    name = _DISTRIBUTIONS.get(module, module)
    line = f"the Python that ran it has no module {module}"
    if snapshot is None or not (module in _DISTRIBUTIONS or name in _companions(snapshot, by)):
        return Cause(
            words, (line, f"if it is a package: python -m pip install the one that brings {module}; if it is a file of yours: PYTHONPATH")
        )
    from envcheck import planner
    from envcheck.engine.intents import Install

    fixes = planner.fixes((Install((name,)),), snapshot, by.tables, checks=by.checks, texts=by.texts)
    commands = [one for fix in fixes for one in (fix.commands.pip or fix.commands.uv or fix.commands.conda)]
    return Cause(words, (line, *(f"to install it: {one}" for one in commands[:2])))


def _companions(snapshot: Snapshot, by: RuleSession) -> Collection[str]:
    """The packages that are released with the torch that is installed."""
    from envcheck.facts.snapshot import TorchFacts

    torch = snapshot.torch
    return by.tables.companions(torch.version) if isinstance(torch, TorchFacts) and torch.version else ()
