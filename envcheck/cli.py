"""The command line: subcommands, exit codes, and nothing that is slow to import before it is needed."""

from __future__ import annotations

import os
import sys

# A json.py on PYTHONPATH breaks the user's programs, and is a finding; this process looks in Python's own library first.
_LIBRARY = os.path.dirname(os.__file__)
_OWN = [one for one in sys.path if (os.path.dirname(one) == _LIBRARY and os.path.basename(one) == "lib-dynload") or one == _LIBRARY]
sys.path[:] = [*_OWN, *(one for one in sys.path if one not in _OWN)]

import atexit  # noqa: E402
import errno  # noqa: E402
from collections.abc import Iterator, Sequence  # noqa: E402
from contextlib import contextmanager, suppress  # noqa: E402

EXIT_USAGE = 2
EXIT_CANNOT_TELL = 3
EXIT_INTERRUPTED = 130
EXIT_BUG = 70


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; see the README for what each code means."""
    if argv is not None or not os.environ.get("PYTHONINSPECT"):
        return _main(argv)
    try:  # it is meant for the user's program: ours would end with a traceback of SystemExit, and read on from stdin
        code = _main(None)
    except SystemExit as error:
        code = int(error.code or 0)
    atexit._run_exitfuncs()
    _flush()
    os._exit(code)


def _main(argv: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller (`>&-`)
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # stays open as long as we do
    if other := _namesake():
        print(f"envcheck: {other}", file=sys.stderr)
        return EXIT_USAGE
    from envcheck.commands.output import drop_stdout, put, take_every_character, unfailing
    from envcheck.errors import EndedBySignal, UsageError
    from envcheck.host import orphans

    orphans.own_process = argv is None  # a program that calls this has children of its own
    if argv is None:
        _measure_nothing()
        atexit.register(_end_by_signal)  # the first, and so the last that is called
        sys.stderr = unfailing(sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        take_every_character(stream)
    try:
        code = _dispatch(words)
        put("")  # flush: a full disk is told here, and not by Python at exit
        return code
    except UsageError as error:
        return _misused(error)
    except EndedBySignal as error:
        _ends_by.append(error.number)
        return 128 + error.number
    except KeyboardInterrupt:
        print("envcheck: interrupted", file=sys.stderr)
        _ends_by.append(EXIT_INTERRUPTED - 128)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader is gone (`| head`); what is left unsaid must not become a traceback when Python flushes at exit.
        drop_stdout()
        return 141
    except (MemoryError, OSError) as error:
        return _refused(error) if isinstance(error, MemoryError) or error.errno in _REFUSALS else _bug(error, words)
    except ModuleNotFoundError as error:
        return _bereft(error) if error.name and error.name.partition(".")[0] != __package__ else _bug(error, words)
    except Exception as error:  # noqa: BLE001  # the last resort: told as a bug of ours, with its own exit code
        return _bug(error, words)


def _misused(error: Exception) -> int:
    from envcheck.facts.printable import said_of

    print(f"envcheck: {said_of(str(error))}", file=sys.stderr)
    return EXIT_USAGE


def _measure_nothing() -> None:
    """PYTHONTRACEMALLOC is meant for the user's program, and makes this one twenty times slower."""
    if os.environ.get("PYTHONTRACEMALLOC") or "tracemalloc" in sys._xoptions:
        import tracemalloc

        tracemalloc.stop()


_ends_by: list[int] = []  # the signal that ended a command or a check


def _end_by_signal() -> None:
    """A shell tells a script's Ctrl-C from an exit code by how we end, and others what became of the command."""
    if _ends_by and os.name == "posix":
        from envcheck.commands.signals import end_by

        _flush()
        end_by(_ends_by[-1])


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()


def _namesake() -> str | None:
    """PyPI has another tool whose distribution, package and command are all called envcheck: whose files are whose is then chance."""
    here = os.path.dirname(os.path.abspath(__file__))
    site = os.path.dirname(here)
    if not os.path.exists(os.path.join(here, "__init__.py")):  # taken along when the other one was uninstalled
        return f"files of torch-envcheck are gone from {here}: install it again with --force-reinstall --no-deps"
    try:
        found = [name for name in os.listdir(site) if name.startswith("envcheck-") and name.endswith((".dist-info", ".egg-info"))]
    except OSError:
        return None
    if not found:
        return None
    return (
        f"{found[0].rpartition('.')[0]}, another tool, is installed over torch-envcheck in {site}:"
        " `pip uninstall envcheck`, then install torch-envcheck again with --force-reinstall --no-deps"
    )


def _dispatch(words: list[str]) -> int:
    import gc

    if words in (["--version"], ["-V"]):
        from envcheck import __version__
        from envcheck.commands.output import put

        put(f"envcheck {__version__}\n")
        return 0
    from envcheck.options import parse

    # An interpreter that ends looks once more for circles in all that is left: 7 ms of a static check, for nothing.
    atexit.register(gc.freeze)
    args = parse(words)
    import importlib

    from envcheck.commands import MODULES
    from envcheck.commands.configuration import naming_the_file
    from envcheck.errors import raise_if_of_a_signal

    try:
        with _leaving_once(), naming_the_file(args):
            code: int = importlib.import_module(f"envcheck.commands.{MODULES[args.command]}").execute(args)
    except RuntimeError as error:
        raise_if_of_a_signal(error)
        raise
    return code


AGAIN_SECONDS = 5.0  # a wrapper, Slurm and systemd send two signals at once, and the second would end what the first one cleans up


@contextmanager
def _leaving_once() -> Iterator[None]:
    """A batch system's SIGTERM or SIGUSR1 takes the same way out as Ctrl-C: children ended, folders removed.

    Who called `main` has its handlers back afterwards.
    """
    import signal
    import time

    from envcheck.errors import ENDING_TOO, INTERRUPTING
    from envcheck.host import orphans

    left: list[float] = []

    def leave(number: int, _frame: object) -> None:
        if left and time.monotonic() < left[0] + AGAIN_SECONDS:
            return
        left[:] = [time.monotonic()]
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

    before = {}
    for name in (*INTERRUPTING, *ENDING_TOO):
        number = getattr(signal, name, None)
        handler = None if number is None else signal.getsignal(number)
        ours = (signal.default_int_handler,) if name == "SIGINT" else (signal.SIG_DFL,) if name in ENDING_TOO else (handler,)
        # nohup; a program that has its own way with it
        if number is None or handler is signal.SIG_IGN or handler not in ours:
            continue
        try:
            before[number] = signal.signal(number, leave)
        except (ValueError, OSError):  # not in the main thread: the caller keeps its own handlers. Or a filter of system calls.
            break
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is leave or not orphans.own_process:  # else what stood beside a command still means its end
                signal.signal(number, handler)


def _bereft(error: ModuleNotFoundError) -> int:
    """A requirement of ours that nobody installed, or that went with something else."""
    print(
        f"envcheck: the package {error.name}, which envcheck needs, is not installed in {sys.prefix}:"
        " install torch-envcheck again, without --no-deps",
        file=sys.stderr,
    )
    return EXIT_USAGE


# What a machine at its limits, a full disk or a filter of system calls answers to a call that works elsewhere.
_REFUSALS = frozenset(
    getattr(errno, name, None)
    for name in ("EPERM", "EIO", "EAGAIN", "ENOMEM", "ENFILE", "EMFILE", "ENOSPC", "EROFS", "ENOSYS", "EDQUOT", "ESTALE", "EOPNOTSUPP")
)


def _where(error: Exception) -> str:
    import traceback

    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{os.path.basename(last.filename)}:{last.lineno}"


def _refused(error: MemoryError | OSError) -> int:
    """A fault of the machine that no probe has met before."""
    said = f"{error.strerror}" if isinstance(error, OSError) else "no memory is left for envcheck itself"
    print(
        f"envcheck: the system refuses what every program needs, and nothing more can be told: {said} ({_where(error)});"
        " look at limits (`ulimit -a`), memory and disk, and at the container's filter of system calls",
        file=sys.stderr,
    )
    _traced(error)
    return EXIT_CANNOT_TELL


def _traced(error: Exception) -> None:
    if os.environ.get("ENVCHECK_TRACEBACK"):
        import traceback

        traceback.print_exception(error)


def _bug(error: Exception, words: list[str]) -> int:
    from envcheck import __version__
    from envcheck.facts.printable import said_of
    from envcheck.facts.secrets import mask_words

    where = _where(error)
    print(said_of(f"envcheck: internal error at {where}: {type(error).__name__}: {error}"), file=sys.stderr)
    command = said_of(" ".join(("envcheck", *mask_words(words))))
    print(
        f"envcheck: this is a bug of envcheck {__version__}, not of your environment; please report the line above with the command"
        f" `{command}` (ENVCHECK_TRACEBACK=1 prints the whole traceback)",
        file=sys.stderr,
    )
    _traced(error)
    return EXIT_BUG


if __name__ == "__main__":
    sys.exit(main())
