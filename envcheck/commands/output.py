"""Where a finished text goes: stdout, or the files of -o."""

from __future__ import annotations

import argparse
import codecs
import errno
import io
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TextIO

from envcheck.errors import UsageError, near_word
from envcheck.facts.dead_mount import answers
from envcheck.facts.printable import visible
from envcheck.host.ownership import planted
from envcheck.host.plain_files import real_path
from envcheck.render import FORMATS
from envcheck.report.english import language_code

_HANDLER = "envcheck-ascii"
PATIENCE_SECONDS = 60.0  # with a pipe that nobody reads
UTF8 = ("markdown", "html")  # whatever the locale says; the other formats spell what it lacks in ASCII
FACTS = ("text", "json", "html")  # hold facts of the machine; the others little more than the verdict, or no names
PAGES = ("text", "json", "html")  # what a plan or a comparison is written as
BY_NAME = {".html": "html", ".htm": "html", ".json": "json", ".md": "markdown", ".sarif": "sarif", ".xml": "junit"}


def add_flags(parser: argparse._ActionsContainer, formats: Sequence[str] = FORMATS) -> None:
    """How a report is written, the same in each command that has one."""
    add = parser.add_argument
    add_formats(parser, formats)
    add_language(parser)
    add("--color", choices=("auto", "always", "never"), default="auto", help="default: auto, which is a terminal without NO_COLOR")
    add("-q", "--quiet", action="store_true", help="text: nothing where all is well, else findings and verdict only")
    add("-v", "--verbose", action="store_true", help="text: all the evidence, all that was left open, how long each step took")


def add_formats(parser: argparse._ActionsContainer, formats: Sequence[str]) -> None:
    """In which of its formats a command writes, where to, and with which names."""
    add, redacted = parser.add_argument, "in Markdown only" if "markdown" in formats else "no"
    names = ", ".join(formats)
    add("--format", metavar="FORMAT", choices=formats, default="text", help=f"{names} (default: text, or what the name of -o's file says)")
    add("--json", action="store_true", help="the same as --format json")
    add(
        "-o",
        "--output",
        metavar="[FORMAT=]FILE",
        action="append",
        help=f"write there (default: stdout); -o {formats[-1]}=FILE writes one more document, whatever --format says",
    )
    add(
        "--redact",
        action=argparse.BooleanOptionalAction,
        default=None,
        help=f"leave out names of users and hosts, home folders, addresses and identifiers (default: {redacted})",
    )
    parser.set_defaults(formats=tuple(formats))


LANGUAGES = ("en", "zh")


def add_language(parser: argparse._ActionsContainer) -> None:
    """In which language people are spoken to."""
    parser.add_argument(
        "--lang",
        type=language_code,
        choices=LANGUAGES,
        help="language of titles, explanations and fixes, in every format (default: that of LC_ALL, LC_MESSAGES or LANG, in text, Markdown"
        " and HTML)",
    )


def settle(args: argparse.Namespace) -> None:
    """-o FILE is for the report in --format, each -o FORMAT=FILE for one more document of the same run; - for FILE is stdout.

    Makes `args.output` a path or None, `args.stdout` whether -o named that, and `args.documents` pairs of format and path. What no
    --format decides, the name of the file does. UsageError for two files without a format, and for a format that the command lacks.
    """
    formats = getattr(args, "formats", ())
    chosen = bool({"--format", "--json"} & args.given or {"format", "json"} & args.configured.keys())
    files: list[str] = []
    args.documents, args.stdout = [], False
    for one in args.output if isinstance(args.output, list) else [] if args.output is None else [args.output]:
        form, path = _parts(one, formats, args.command)
        if path == "-":
            if form and {"--format", "--json"} & args.given and args.format != form:
                raise UsageError(f"-o {one} and --format {args.format} contradict each other")
            args.stdout = True
            if form:
                args.format = form
        elif form:
            args.documents.append((form, path))
        else:
            files.append(one)
    args.output = None if args.stdout or not files else files.pop(0)
    for one in files:
        if not _named(one, formats):
            raise UsageError(f"-o {one}: a second file needs its format, as in -o json={one}")
        args.documents.append((_named(one, formats), one))
    if args.output and formats and not chosen:
        args.format = _named(args.output, formats) or args.format
    paths = [os.path.abspath(path) for path in (args.output, *(path for _, path in args.documents)) if path]
    for path in paths:
        if paths.count(path) > 1 and not path.startswith("/dev/"):
            raise UsageError(f"-o {path}: one file cannot hold two documents")


def _parts(one: str, formats: Sequence[str], command: str) -> tuple[str, str]:
    """ "json=a" → json and a; "a.html" → "" and a.html. UsageError for what was meant to be a format, and where no file is named."""
    form, equals, path = one.partition("=")
    if not (equals and formats and form.isalpha()):
        form, path = "", one
    elif form not in FORMATS:
        near = near_word(form, formats)
        meant = f"did you mean {near}?" if near else f"there are {', '.join(formats)}"
        raise UsageError(f"-o {one}: {form} is no format; {meant} (a file of this name: ./{one})")
    elif form not in formats:
        raise UsageError(f"-o {one}: `envcheck {command}` writes one of {', '.join(formats)}")
    if not path:
        raise UsageError(f"-o {one or repr(one)}: no file is named")
    return form, path


def _named(path: str, formats: Sequence[str]) -> str:
    """The format that the name of a file means, if it is one of these."""
    form = BY_NAME.get(os.path.splitext(path)[1].lower(), "")
    return form if form in formats else ""


def deliver(args: argparse.Namespace, rendered: Callable[[str, bool], str], stdout: bool = True) -> None:
    """Write the report to stdout, if it may go there, or into the file of -o, and its further documents.

    `rendered` makes it in one format; True where it goes to stdout. UsageError if a file cannot be written.
    """
    if args.output or stdout:
        private = args.format in FACTS and not args.redact
        put(rendered(args.format, not args.output), args.output, utf8=args.format in UTF8, private=private, form=args.format)
        if args.format == "github":
            _step_summary(rendered)
    for form, path in args.documents:
        put(rendered(form, False), path, f"-o {form}=", private=form in FACTS and not args.redact, form=form)


def _step_summary(rendered: Callable[[str, bool], str]) -> None:
    """Markdown for the page of a GitHub Actions run, which GitHub takes from the file that this variable names."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    try:
        put(rendered("markdown", False), path, "GITHUB_STEP_SUMMARY ", add=True)
    except UsageError as error:  # the report itself has been written
        print(visible(f"envcheck: {error}"), file=sys.stderr)


CI = ("CI", "GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION")  # one of them is set wherever a log may be obeyed


def for_log(text: str, form: str = "text") -> str:
    """A text for stdout or stderr: where a CI reads that, no word in it is a command of the CI's."""
    if not any(os.environ.get(name, "false").lower() not in ("", "0", "false") for name in CI):
        return text
    from envcheck.facts.printable import unheeded

    return unheeded(text, form)


def put(
    text: str,
    path: str | None = None,
    flag: str = "-o ",
    *,
    utf8: bool = False,
    private: bool = False,
    add: bool = False,
    form: str = "text",
) -> None:
    """Write to `path`, which `flag` gave, or to stdout if it is None. `utf8`: also on a stdout of another encoding. `add`: behind what
    stands there.

    A `private` file that is new can be read by its owner alone. A link to a file is not followed: where others can write to a
    folder, it may lead anywhere. UsageError if it cannot be written. BrokenPipeError where the reader of stdout is gone.
    """
    if path is None:
        _to_stdout(for_log(text, form), utf8)
        return
    if reason := planted(path):
        raise UsageError(f"{flag}{path}: {reason}")
    try:
        descriptor = _opened(path, private, add)
        try:
            text = for_log(text, form) if _is_a_log(descriptor) else text
            _write_all(descriptor, text.replace("\n", os.linesep).encode("utf-8"), PATIENCE_SECONDS)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UsageError(f"{flag}{path}: a link to {real_path(path)}: name that file itself") from None
        raise UsageError(f"{flag}{path}: {error.strerror}") from None


def is_a_stream_of_ours(path: str) -> bool:
    """Whether what is written there comes among what stdout or stderr gets: /dev/stdout, the log that they lead to."""
    for number in (1, 2) if answers(path) else ():
        with suppress(OSError):
            ours, there = os.fstat(number), os.stat(path)
            if os.path.samestat(ours, there) and (os.isatty(number) or not stat.S_ISCHR(ours.st_mode)):  # /dev/null keeps nothing apart
                return True
    return False


_ALREADY_OPEN = re.compile(r"/(?:dev|proc/self)/fd/(\d{1,9})|/dev/(stdout|stderr)")


def _opened(path: str, private: bool, add: bool) -> int:
    """The file to write to. What stands there already is judged before it is emptied, since somebody may just have put it there; what is
    open already, as /dev/stdout, goes on where it is: opened anew, the log that it leads to would be emptied."""
    if found := _ALREADY_OPEN.fullmatch(path):
        return os.dup(int(found[1]) if found[1] else 1 if found[2] == "stdout" else 2)
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    whole = os.path.abspath(path)
    kernels = whole.startswith(("/dev/", "/proc/")) and not whole.startswith("/dev/shm/")  # noqa: S108
    if not kernels:  # there some are links of its own
        flags |= getattr(os, "O_NOFOLLOW", 0)
    flags |= os.O_APPEND if add else 0
    descriptor = _with_a_reader(path, flags, 0o600 if private else 0o666)
    try:
        opened = os.fstat(descriptor)  # the name alone may lead elsewhere by now
        if reason := planted(path, None if kernels else opened):
            raise OSError(errno.EPERM, reason)
        if not add and stat.S_ISREG(opened.st_mode):
            os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _is_a_log(descriptor: int) -> bool:
    """Whether a CI may read what is written here: our stdout or stderr by whatever name it was opened, and a pipe or device, where a
    script may have put them elsewhere."""
    opened = os.fstat(descriptor)
    if not stat.S_ISREG(opened.st_mode):
        return True
    for number in (1, 2):
        with suppress(OSError):  # closed by the caller
            if os.path.samestat(opened, os.fstat(number)):
                return True
    return False


def _with_a_reader(path: str, flags: int, mode: int) -> int:
    """A pipe is opened as soon as somebody reads it, and not waited for without end."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return os.open(path, flags, mode)
        except OSError as error:
            if error.errno != errno.ENXIO or not stat.S_ISFIFO(os.stat(path).st_mode):
                raise
            if time.monotonic() > deadline:
                raise OSError(errno.ETIMEDOUT, f"nobody has read it for {PATIENCE_SECONDS:.0f} s") from None
        time.sleep(0.05)


def _to_stdout(text: str, utf8: bool) -> None:
    try:
        if utf8 and not _is_utf8(sys.stdout):  # the page itself says that it is
            sys.stdout.flush()
            sys.stdout.buffer.write(text.encode("utf-8"))
        elif text and not _blocks(sys.stdout):
            sys.stdout.flush()
            _write_all(sys.stdout.fileno(), text.encode(sys.stdout.encoding, sys.stdout.errors or "strict"))
        elif text:  # even an empty text is written, and a full disk complains of it
            sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno in READER_GONE:  # a socket's word for it
            raise BrokenPipeError(*error.args) from None
        drop_stdout()
        raise UsageError(f"stdout: {error.strerror}") from None


def _is_utf8(stream: TextIO) -> bool:
    """Whether a stream writes UTF-8; one that names no encoding, or has no bytes below it, is left alone."""
    try:
        return codecs.lookup(stream.encoding or "utf-8").name == "utf-8" or not hasattr(stream, "buffer")
    except LookupError:
        return True


def _blocks(stream: TextIO) -> bool:
    """False for a pipe or socket whose other user made it return at once when it is full; it is theirs, too, and stays so."""
    try:
        return os.get_blocking(stream.fileno())
    except (OSError, ValueError, AttributeError):  # no file; Windows before Python 3.12
        return True


def _write_all(descriptor: int, data: bytes, seconds: float | None = None) -> None:
    """`seconds`: how long nobody may take anything. OSError then."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            if not _takes_more(descriptor, seconds):
                raise OSError(errno.ETIMEDOUT, f"nobody has read it for {seconds:.0f} s") from None


def _takes_more(descriptor: int, seconds: float | None) -> bool:
    """Waited for. poll knows descriptors above 1023, which select refuses; what is broken takes everything, with an error."""
    import select

    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([], [descriptor], [], seconds)[1])
    poller = select.poll()
    poller.register(descriptor, select.POLLOUT)
    return bool(poller.poll(None if seconds is None else seconds * 1000))


READER_GONE = (errno.ECONNRESET, errno.ECONNABORTED, errno.ENOTCONN, getattr(errno, "ESHUTDOWN", errno.EPIPE))


def drop_stdout() -> None:
    """What stdout does not take is given up, so that Python's own flush at exit has nothing to complain of."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


class _Unfailing(io.FileIO):
    """A descriptor that takes what its file does not."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or 0
        except OSError:
            return memoryview(data).nbytes


class _Notes(io.TextIOWrapper):
    """What is said on stderr, which a CI reads as it does stdout."""

    def write(self, text: str) -> int:
        super().write(for_log(text))
        return len(text)


def unfailing(stream: TextIO) -> TextIO:
    """The process's stderr, for which a full disk or a reader that is gone is nothing: what was found, and the exit code, stand."""
    if stream is not sys.__stderr__ or type(getattr(stream.buffer, "raw", stream.buffer)) is not io.FileIO:  # Windows' console is none
        return stream
    raw = io.BufferedWriter(_Unfailing(stream.fileno(), "wb", closefd=False))
    return _Notes(raw, stream.encoding, stream.errors, line_buffering=True, write_through=True)


def take_every_character(stream: TextIO) -> None:
    """A stream whose encoding lacks a character gets its nearest ASCII spelling instead of an exception."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None and not takes(stream, "✓…→"):
        codecs.register_error(_HANDLER, _spelled)
        reconfigure(errors=_HANDLER)


def takes(stream: TextIO, text: str) -> bool:
    """Whether the encoding of a stream has every character of a text."""
    try:
        text.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _spelled(error: UnicodeError) -> tuple[str, int]:
    from envcheck.facts.printable import ascii_only

    if not isinstance(error, UnicodeEncodeError):
        raise error
    return ascii_only(error.object[error.start : error.end]), error.end
