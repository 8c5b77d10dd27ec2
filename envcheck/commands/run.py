"""`envcheck run -- CMD…`: check, run CMD as if we were not there, and if it fails name the cause from its output.

CMD keeps our stdin, terminal, process group, descriptors and ignored signals (`nohup`); see `outputs` and `signals` for the rest.
If we are killed (SIGKILL), so is CMD: whoever kills us means the job, and CMD would be left with pipes that nobody reads.
"""

from __future__ import annotations

import argparse
import errno
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from envcheck.commands.hand_over import CANNOT_EXECUTE, NOT_FOUND, environment_as_given, first_that_starts, hand_over, may_be_executed
from envcheck.commands.kernel_word import KernelWord
from envcheck.commands.mistyped import meant
from envcheck.commands.streams import say
from envcheck.errors import EndedBySignal, MachineFault, UsageError, raise_if_of_a_signal
from envcheck.facts.printable import visible
from envcheck.facts.record import record, replace
from envcheck.host.memory import too_little

if TYPE_CHECKING:
    from envcheck.commands.endings import Cause
    from envcheck.commands.signals import Signals
    from envcheck.commands.streams import Outputs
    from envcheck.report.report import CommandRun, Report
    from envcheck.report.session import RuleSession

REFUSED_TO_US = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)  # pipes and a process, which CMD alone would not need
PR_SET_PDEATHSIG = 1  # linux/prctl.h


class NotBeside(Exception):
    """CMD has not been started, and can be without us."""


@record
class CommandEnd:
    """How CMD came to its end."""

    code: int  # 128 + N if signal N ended it
    number: int  # of that signal, or 0
    output: Callable[[], dict[str, bytes]] = dict  # the ends of what it wrote, as ""; by its place what others may have written, too
    asked: bool = False  # somebody wanted that, or reads its output no longer
    kernel: Callable[[], KernelWord] = KernelWord
    unseen: tuple[str, ...] = ()  # what of its output is not in `output`, and why


def execute(args: argparse.Namespace) -> int:
    """CMD's exit code; 126 or 127 if there is no such command; the check's own code if it finds an error and CMD was not started."""
    try:
        first_that_starts(args.argv, may_be_executed)
    except OSError as error:
        return _not_started(args, error, None)
    if too_little():
        return _without_us(args.argv)
    try:
        from envcheck.commands.check import session_of

        by = session_of(args)
        report = _checked(args, by)
    except MemoryError:
        pass  # and with the error what its frames held is forgotten
    else:
        return _beside(args, by, report)
    return _without_us(args.argv)


def _without_us(argv: Sequence[str]) -> int:
    """CMD may well need less memory than we do."""
    os.write(2, b"envcheck: no memory is left for envcheck itself: the command runs without it, and nothing was checked\n")
    return hand_over(argv)


def _beside(args: argparse.Namespace, by: RuleSession, report: Report | None) -> int:
    """What `execute` returns, after the check."""
    name = args.argv[0]
    if report is not None and report.exit_code == 1:
        say(_shown(report, args))
        say(visible(f"envcheck: {name} was not started; --fail-on never starts it anyway\n"))
        from envcheck.report.report import CommandRun

        _save(replace(report, command=CommandRun(tuple(args.argv), False, report.exit_code, "", ("the check found an error",))), args)
        return report.exit_code
    if os.name == "posix" and _is_typed_into(args.argv) and os.isatty(0) and os.isatty(2):
        say(visible(f"envcheck: {name} is a shell that somebody types into: it has the terminal to itself, and no failure is explained\n"))
        return hand_over(args.argv)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ()) if os.name == "posix" else set()
    try:
        ended = run_and_keep(args.argv, [path for path in (args.output, *(path for _, path in args.documents)) if path])
    except OSError as error:
        return _not_started(args, error, report)
    except NotBeside as error:
        say(visible(f"envcheck: {error}: {name} runs without us, and a failure is not explained\n"))
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        return hand_over(args.argv)
    if ended.code:
        try:
            _explain(ended, report, args, by)
        except Exception as error:  # noqa: BLE001  # CMD's exit code is kept whatever becomes of our explanation
            say(visible(f"envcheck: no diagnosis: {type(error).__name__}: {error}; this is a bug of envcheck\n"))
    if ended.number:
        raise EndedBySignal(ended.number)
    return ended.code


_SHELLS = frozenset(("sh", "ash", "bash", "dash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh"))
_TAKE_A_WORD = frozenset(("--rcfile", "--init-file", "-o", "+o", "-O", "+O"))


def _is_typed_into(argv: Sequence[str]) -> bool:
    """A shell without a script or -c. It controls jobs on the terminal that it finds at stderr, and a pseudo-terminal controls none."""
    if os.path.basename(argv[0]) not in _SHELLS:
        return False
    words = iter(argv[1:])
    for word in words:
        if word in _TAKE_A_WORD:
            next(words, None)
        elif (
            not word.startswith(("-", "+"))
            or (not word.startswith("--") and "c" in word)
            or word in ("-", "--", "--help", "--version")
            or word.startswith("--command")
        ):
            return False
    return True


def _not_started(args: argparse.Namespace, error: OSError, before: Report | None) -> int:
    """127 or 126, and a document that says so."""
    from envcheck.report.report import CommandRun

    missing = isinstance(error, FileNotFoundError)
    code, why = (NOT_FOUND, "command not found") if missing else (CANNOT_EXECUTE, error.strerror or "it cannot be started")
    said = f"{args.argv[0] or repr('')}: {why}"
    say(visible(f"envcheck: {said}{meant(args.argv)}\n"))
    _save_open(args, said, before, CommandRun(tuple(args.argv), False, code, "", (why,)))
    return code


def _save_open(args: argparse.Namespace, reason: str, before: Report | None, command: CommandRun | None) -> None:
    """A document in which nothing but the reason is known, or beside it what the check found."""
    if not (args.output or args.documents):
        return
    from envcheck.facts.snapshot import Snapshot
    from envcheck.report.report import finish

    report = before or finish((), (), Snapshot(), live_requested=False)
    if report.verdict != "fail":
        report = replace(report, verdict="inconclusive", exit_code=3, because=(reason, *(before.because if before else ())))
    _save(replace(report, command=command), args)


def _checked(args: argparse.Namespace, by: RuleSession) -> Report | None:
    """The report of the check, which -o gets; None if envcheck failed at it, which is no reason not to start CMD."""
    from envcheck.commands.check import examine_and_judge
    from envcheck.render.wording import verdict_line

    try:
        report = examine_and_judge(args, by)
        if report.exit_code != 1:
            say(visible(f"envcheck: {verdict_line(_on_stderr(report, args))}\n"))
    except MachineFault as error:  # CMD alone may well do without what it refuses
        say(visible(f"envcheck: nothing was checked: {error}\n"))
        _save_open(args, str(error), None, None)
        return None
    except (UsageError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001
        raise_if_of_a_signal(error)
        said = f"the check failed: {type(error).__name__}: {error}"
        say(visible(f"envcheck: {said}; this is a bug of envcheck\n"))
        _save_open(args, said, None, None)
        return None
    _save(report, args)
    return report


def _shown(report: Report, args: argparse.Namespace) -> str:
    from envcheck.render import render

    return render(_on_stderr(report, args), "text", fix_suggest=args.fix_suggest)


def _on_stderr(report: Report, args: argparse.Namespace) -> Report:
    """In the language of who reads it there."""
    from envcheck.commands.rendering import in_language, wanted_language

    return in_language(report, wanted_language(args, True, sys.stderr), args)


def _save(report: Report, args: argparse.Namespace) -> None:
    """Into the files of -o. A full disk is told and no more."""
    from envcheck.commands.rendering import write

    try:
        write(report, args, stdout=False)
    except UsageError as error:
        say(visible(f"envcheck: {error}\n"))


def run_and_keep(argv: Sequence[str], files: Sequence[str] = ()) -> CommandEnd:
    """Run argv in our place and keep the ends of what it writes; `files` are still ours. OSError if it cannot be started.

    Once it runs, a fault of ours costs a diagnosis at worst: it must neither end it nor be taken for a start that failed.
    """
    if os.name != "posix":  # neither pseudo-terminals nor these signals: CMD has the console, and no copy is taken
        return CommandEnd(subprocess.call(list(argv)), 0)
    from envcheck.commands.kernel_word import KernelWatch
    from envcheck.commands.signals import Signals
    from envcheck.commands.streams import Outputs

    try:
        outputs, watch, signals = Outputs(), KernelWatch(), Signals()
    except (OSError, MemoryError) as error:
        raise NotBeside(getattr(error, "strerror", None) or error) from error
    try:
        process = _start(argv, outputs.given, signals.as_they_were)
    except (OSError, subprocess.SubprocessError) as error:
        outputs.handed_over()
        signals.restore()
        if isinstance(error, OSError) and error.errno not in REFUSED_TO_US:
            raise
        raise NotBeside(getattr(error, "strerror", error)) from error
    with suppress(Exception):
        outputs.started(process.pid, files)
    status = process.returncode = os.waitstatus_to_exitcode(_waited(process.pid, signals, outputs))
    code = 128 - status if status < 0 else status
    with suppress(Exception):
        signals.close(status)
    asked = code == 128 + signal.SIGPIPE or signals.asked(code)
    with suppress(Exception):
        outputs.finish()
    if not code:
        outputs.forget()
    unseen = tuple(f"what it wrote to {('stdout', 'stderr')[number - 1]} was not seen: {why}" for number, why in outputs.unseen.items())
    return CommandEnd(code, max(0, -status), outputs.texts, asked, lambda: replace(watch.word(process.pid), cpu=signals.cpu), unseen)


def _waited(pid: int, signals: Signals, outputs: Outputs) -> int:
    """CMD's wait status. If we cannot pass signals on, they end us, and so CMD."""
    try:
        return signals.pass_on(pid, outputs.resize, outputs.drain)
    except Exception:  # noqa: BLE001
        with suppress(Exception):
            signals.restore()
        return os.waitpid(pid, 0)[1]


def _start(argv: Sequence[str], given: dict[int, int | None], prepare: Callable[[], None]) -> subprocess.Popen[bytes]:
    """CMD with these in the place of ours; all other descriptors that we were given are its own too."""
    us, tie, environment = os.getpid(), _prctl(), environment_as_given()

    def before_exec() -> None:
        tie()
        if os.getppid() not in (us, 0):  # we died before that took effect; 0: we are in another namespace of processes
            os.kill(os.getpid(), signal.SIGKILL)
        for number in given.keys() - {1, 2}:
            with suppress(OSError):  # a limit of open files that came later than this one: CMD has ours
                os.dup2(given[number] or 0, number)
        prepare()

    def start(program: str, words: Sequence[str]) -> subprocess.Popen[bytes]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 on threads at a fork: ours only copy bytes
            return subprocess.Popen(
                words, executable=program, stdout=given[1], stderr=given[2], env=environment, close_fds=False, preexec_fn=before_exec
            )

    return first_that_starts(argv, start)


def _prctl() -> Callable[[], object]:
    """Makes the kernel kill the calling process when its parent dies; nothing elsewhere than on Linux."""
    if sys.platform != "linux":
        return int
    try:
        import ctypes

        prctl = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return int
    return lambda: prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def _explain(ended: CommandEnd, before: Report | None, args: argparse.Namespace, by: RuleSession) -> None:
    """What CMD's output, the kernel and this machine's facts say of the cause; on stderr, and in the file of -o."""
    from envcheck.commands.diagnose import diagnose_output
    from envcheck.commands.endings import causes, kernel_texts, spared_by_memory, without_word_of_kill
    from envcheck.report.report import CommandRun

    name, death, kernel, output = args.argv[0], _death(ended.code), ended.kernel(), ended.output()
    read_back = {place or name: text.decode("utf-8", "replace") for place, text in output.items()}
    said = "\n".join(read_back.values())
    spared = spared_by_memory(ended.code, ended.number, kernel)
    texts = [(place, without_word_of_kill(text) if spared else text) for place, text in read_back.items()]
    texts += kernel_texts(name, kernel)
    if death and not ended.asked and not spared:
        texts.append(("exit code", f"{name} exited with code {ended.code} ({signal.strsignal(ended.code - 128)})"))
    report, read = diagnose_output(texts, before.snapshot if before else None, by, tool=args.tool, index_base=args.index_base)
    found = () if ended.asked else causes(ended.code, said, args.argv, kernel, before.snapshot if before else None, by)
    lines = _beside_findings(ended.unseen, output, report, found)
    head = f"{name} ended with exit code {ended.code}{death}"
    if report.verdict != "fail":  # whatever is known of it, it failed
        report = replace(report, verdict="inconclusive", exit_code=3, because=(head, *lines, *report.because))
    report = replace(report, command=CommandRun(tuple(args.argv), True, ended.code, death.strip(" ()"), lines))
    _save(report, args)
    if ended.asked and report.exit_code != 1:
        return  # who ended it knows why
    say(visible(f"\nenvcheck: {head}\n" + "".join(f"  {line}\n" for line in lines)))
    if report.findings:
        say(_shown(report, args))
        return
    if not lines:
        say("envcheck found no known environment problem in the output or on this machine\n")
    say(visible("".join(f"{line}\n" for line in read)))


def _beside_findings(unseen: Sequence[str], places: Iterable[str], report: Report, found: Sequence[Cause]) -> tuple[str, ...]:
    """What is known of the end and no finding says, and what it was not read from, or not from CMD alone."""
    told = [each.text for one in report.findings for each in one.finding.evidence]
    lines = [line for one in found if not one.words or not any(one.words in text for text in told) for line in one.lines]
    if any(one.words for one in found):
        lines += [f"read in {place}" for place in places if place]
    return (*lines, *unseen)


def _death(code: int) -> str:
    """ " (SIGKILL)" for 137, which is also what a shell hands on of a command that it started."""
    try:
        return f" ({signal.Signals(code - 128).name})" if code > 128 else ""
    except ValueError:
        return ""
