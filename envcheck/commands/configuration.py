"""The configuration file that sets the defaults of flags: which one counts, what may stand in it, and what it changes."""

from __future__ import annotations

import argparse
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from envcheck.errors import UsageError, near_word
from envcheck.facts.printable import one_line
from envcheck.facts.record import replace
from envcheck.facts.settings import Configuration
from envcheck.render import FORMATS
from envcheck.report.english import language_code

if TYPE_CHECKING:
    from envcheck.report.session import RuleSession

NAMES = ("envcheck.toml", "pyproject.toml")
# [tool.envcheck], or a table of tools that may hold it: a pyproject.toml without either need not be parsed, which takes milliseconds.
_CONFIGURES = re.compile(rb"""(?m)tool['"]?[ \t]{0,9}\.[ \t]{0,9}['"]?envcheck|^[ \t]{0,9}\[?[ \t]{0,9}['"]?tool['"]?[ \t]{0,9}[\]=]""")
LIMIT_BYTES = 1 << 20


def _text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value  # of which no path and no argument is made


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_text, value))


def _table_of_texts(value: object) -> bool:
    return isinstance(value, dict) and all(map(_text, value.values()))


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _path(value: object) -> bool:
    return _text(value) and value != ""


A_TEXT = ("a text", _text)
A_PATH = ("a path", _path)
A_LIST = ("a list of texts", _texts)
A_SWITCH = ("true or false", lambda value: isinstance(value, bool))
# Keys of [tool.envcheck] and envcheck.toml: what is expected of their values, and whether a value is that.
KEYS: Mapping[str, tuple[str, Callable[[object], bool]]] = {
    "python": ("a path or a command", _path),
    "static": A_SWITCH,
    "live": A_TEXT,
    "nproc": ('a number of ranks or "all"', lambda value: isinstance(value, int | str) and not isinstance(value, bool)),
    "backend": A_TEXT,
    "start-method": A_TEXT,
    "timeout": ("a number of seconds", _number),
    "facts": A_PATH,
    "assume": A_LIST,
    "expect": A_LIST,
    "evidence": A_PATH,
    "fix-suggest": A_SWITCH,
    "tool": A_TEXT,
    "index-base": A_TEXT,
    "files": A_SWITCH,
    "format": (f"one of {', '.join(FORMATS)}", lambda value: value in FORMATS),
    "json": A_SWITCH,
    "output": ("a text or a list of texts", lambda value: _text(value) or _texts(value)),
    "redact": A_SWITCH,
    "lang": A_TEXT,
    "color": A_TEXT,
    "quiet": A_SWITCH,
    "verbose": A_SWITCH,
    "fail-on": A_TEXT,
    "strict": A_SWITCH,
    "select": A_LIST,
    "ignore": ("a list of texts, or a table of rules with reasons", lambda value: _texts(value) or _table_of_texts(value)),
    "severity": ("a table of rules with severities", _table_of_texts),
    "rules": ("a list of folders", lambda value: isinstance(value, list) and all(map(_path, value))),
}
PROFILE = "profile"  # the table of named tables with the same keys

RULES = ("rules", "select", "ignore", "severity")  # what they say counts in every command, also in one without such a flag
# A flag on the command line takes back what a file says of the same question.
RIVALS = {"json": "--format", "format": "--json", "quiet": "--verbose", "verbose": "--quiet", "static": "--live", "live": "--static"}


def given_flags(words: Sequence[str]) -> set[str]:
    """The flags that stand on the command line: "--live", "-o"."""
    return {word.split("=")[0] if word.startswith("--") else word[:2] for word in words if word.startswith("-")}


def apply(args: argparse.Namespace, words: Sequence[str], parser: argparse.ArgumentParser) -> None:
    """Values of the configuration file for flags that were not given.

    `args.configured` keeps what the file set, by key, `args.profiled` which of it stands in the profile, `args.given` every
    spelling of the flags that the command line holds.
    """
    args.configuration, table = find(args.config)
    args.severities, args.ignore_reasons, args.site, args.configured = {}, {}, [], {}
    path = args.configuration.path or ""
    flags = {flag: action for action in parser._actions for flag in action.option_strings}
    given = {spelling for flag in given_flags(words) & flags.keys() for spelling in flags[flag].option_strings}
    args.given = given
    settings, args.profiled = _chosen(table, args.profile, path, flags)
    for key, value in settings.items():
        if key == "severity":
            args.severities = dict(value)
        elif key == "rules":
            args.site = _rules(args, [os.path.join(_folder(path), folder) for folder in value])
        elif key == "ignore" and isinstance(value, Mapping):  # rules with reasons stay ignored whatever else is
            args.ignore_reasons = dict(value)
        elif (f"--{key}" in flags or key in RULES) and not given & {f"--{key}", RIVALS.get(key)}:
            if key in ("format", "output"):
                value = _of_this_command(value, getattr(args, "formats", ()))
                if value is None:
                    continue
            if key == "python":
                value, args.python_named_in = _python(path, value), path
            if key == "lang":  # as locales spell it
                value = language_code(value)
            setattr(args, flags[f"--{key}"].dest if f"--{key}" in flags else key, value)
        else:
            continue
        args.configured[key] = value


def _chosen(
    table: Mapping[str, Any], profile: str | None, path: str, flags: Mapping[str, argparse.Action]
) -> tuple[dict[str, Any], frozenset[str]]:
    """The settings with those of one profile over them, and the keys that are the profile's. Every profile is looked through."""
    base = {key: value for key, value in table.items() if key != PROFILE}
    profiles = table.get(PROFILE, {})
    if not isinstance(profiles, dict) or not all(isinstance(one, dict) for one in profiles.values()):
        raise UsageError(f"{path}: {PROFILE} = {_shown(profiles)}: a table of tables is expected, as in [tool.envcheck.profile.ci]")
    for where, settings in (("", base), *((f"{PROFILE}.{name}.", one) for name, one in profiles.items())):
        for key, value in settings.items():
            _check(path, where, key, value, flags.get(f"--{key}"))
    if profile is None:
        return base, frozenset()
    if profile not in profiles:
        there = f"there are {', '.join(profiles)}" if profiles else "there are none"
        raise UsageError(f"--profile {profile}: no such profile in {path or 'a configuration file'}; {there}")
    chosen = profiles[profile]
    taken_back = {RIVALS[key].removeprefix("--") for key in chosen.keys() & RIVALS.keys()}
    return {**{key: value for key, value in base.items() if key not in taken_back}, **chosen}, frozenset(chosen)


def _check(path: str, where: str, key: str, value: object, flag: argparse.Action | None) -> None:
    """UsageError with file, key and what is expected. `where` is the table of the key, "profile.ci."."""
    if key in ("config", PROFILE):
        raise UsageError(f"{path}: {where}{key}: a file cannot choose the {'file' if key == 'config' else 'profile'}; use --{key}")
    if key not in KEYS:
        near = near_word(key.replace("_", "-"), KEYS)
        hint = f"did you mean {near!r}?" if near else f"there are {', '.join(KEYS)}"
        raise UsageError(f"{path}: unknown key {where + one_line(key, 60)!r}; {hint}")
    expected, right = KEYS[key]
    if flag is not None and flag.choices is not None and key != "format":
        expected, right = (
            f"one of {', '.join(map(str, flag.choices))}",
            lambda one: (language_code(one) if key == "lang" else one) in (flag.choices or ()),
        )
    if not right(value):
        raise UsageError(f"{path}: {where}{key} = {_shown(value)}: {expected} is expected")


def _shown(value: object) -> str:
    return one_line(_spelled(value), 60)


def _spelled(value: object) -> str:
    """As Python spells it, but for dates and times, which a list may hold."""
    if isinstance(value, list):
        return f"[{', '.join(map(_spelled, value))}]"
    as_iso = getattr(value, "isoformat", None)
    return repr(value) if as_iso is None else str(as_iso())


def _of_this_command(value: str | list[str], formats: Sequence[str]) -> str | list[str] | None:
    """Of `format` and `output`, which are set for all commands, what this one writes: a plan is no JUnit."""
    if isinstance(value, str):
        strange = value.partition("=")[0]
        return None if strange in FORMATS and strange not in formats else value
    return [one for one in value if _of_this_command(one, formats) is not None] or None


def _python(path: str, value: str) -> str:
    """A path is meant from the folder of the file; what is none there is a command."""
    below = os.path.join(_folder(path), value)
    return below if os.sep in value or os.path.exists(below) else value


def _rules(args: argparse.Namespace, folders: Sequence[str]) -> list[str]:
    """Without those that others could change under root's hands, which are told with the files that were passed over."""
    from envcheck.host.ownership import foreign_folder

    reasons = {folder: None if args.config else foreign_folder(folder) for folder in folders}
    told = tuple(f"{folder} was passed over: {reason}" for folder, reason in reasons.items() if reason)
    args.configuration = replace(args.configuration, passed_over=(*args.configuration.passed_over, *told))
    return [folder for folder in folders if not reasons[folder]]


def _folder(path: str) -> str:
    return os.path.dirname(os.path.abspath(path))


def find(explicit: str | None) -> tuple[Configuration, Mapping[str, Any]]:
    """The file that was named, else the nearest that is found from the working folder upwards and is this user's or root's."""
    if explicit is not None:
        return _named(explicit)
    passed_over: list[str] = []
    try:
        folder = os.getcwd()
    except FileNotFoundError:  # it was deleted meanwhile
        return Configuration(), {}
    while True:
        for name in NAMES:
            path = os.path.join(folder, name)
            source, reason = _read(path)
            # Most projects do not configure us; of somebody else's file no more is read than whether it does.
            if source is None or (name == "pyproject.toml" and not _CONFIGURES.search(source)):
                continue
            if reason is not None:
                passed_over.append(f"{path} was passed over: {reason}")
                continue
            data = _parsed(source, path)
            if name == "envcheck.toml" or "envcheck" in (data["tool"] if isinstance(data.get("tool"), dict) else {}):
                return Configuration(path, tuple(passed_over)), _table(data, path)
        parent = os.path.dirname(folder)
        if parent == folder:
            return Configuration(None, tuple(passed_over)), {}
        folder = parent


def _named(path: str) -> tuple[Configuration, Mapping[str, Any]]:
    from envcheck.facts.given_file import read_given

    return Configuration(path), _table(_parsed(read_given(path, "--config", LIMIT_BYTES), path), path)


def _read(path: str) -> tuple[bytes | None, str | None]:
    """The bytes of a file and why they are not to be obeyed. No bytes: there is no such file.

    What is judged is the open file: between a look at a path and its opening another can be put there.
    """
    from envcheck.host.ownership import foreign_file

    try:
        # without waiting for the writer of a FIFO
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None, None
    except OSError as error:
        return _unreadable(path, error)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None, None
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(LIMIT_BYTES + 1), foreign_file(descriptor, path)
    finally:
        os.close(descriptor)


def _unreadable(path: str, error: OSError) -> tuple[bytes | None, str | None]:
    """One of ours that cannot be read is a fault to be told; one of somebody else's is not obeyed anyway."""
    from envcheck.host.ownership import foreign

    if os.path.basename(path) == "pyproject.toml" or not os.path.isfile(path):
        return None, None
    try:
        reason = foreign(path)
    except OSError:
        return None, None
    if reason is None:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    return b"", reason


def _parsed(source: bytes, path: str) -> Mapping[str, Any]:
    from envcheck.tables.toml import parse_toml

    if len(source) > LIMIT_BYTES:  # what is cut says something else
        raise UsageError(f"{path}: larger than {LIMIT_BYTES >> 20} MiB")
    try:
        return parse_toml(source.decode("utf-8-sig"))  # editors on Windows put the mark before it
    except UnicodeDecodeError as error:
        line = source[: error.start].count(b"\n") + 1
        raise UsageError(f"{path}: not UTF-8, which TOML is: byte 0x{source[error.start]:02x} in line {line}; save it as UTF-8") from None
    except ValueError as error:
        if b"\0" in source:
            raise UsageError(f"{path}: not UTF-8, which TOML is: it holds null bytes, as UTF-16 does; save it as UTF-8") from None
        if "set_int_max_str_digits" in str(error):
            raise UsageError(f"{path}: not TOML: a number has more digits than can be read") from None
        raise UsageError(f"{path}: not TOML: {error}") from None
    except RecursionError:
        raise UsageError(f"{path}: not TOML: nested too deeply") from None


def _table(data: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """The settings: those below [tool.envcheck] where there is a table `tool`, else all. The key `tool` itself holds a text."""
    if not isinstance(data.get("tool"), dict):
        return data
    table = data["tool"].get("envcheck", {})
    if not isinstance(table, dict):
        raise UsageError(f"{path}: tool.envcheck = {_shown(table)}: a table is expected")
    return table


@contextmanager
def naming_the_file(args: argparse.Namespace) -> Iterator[None]:
    """An error of a flag that nobody typed names file and key: "--timeout 1: …" is "/home/me/envcheck.toml: timeout = 1: …"."""
    try:
        yield
    except UsageError as error:
        flag, _, rest = str(error).partition(" ")
        key = "output" if flag == "-o" else flag.removeprefix("--")
        if flag == key or key not in args.configured:
            raise
        raise UsageError(f"{args.configuration.path}: {key} = {rest}") from None


def contradiction(args: argparse.Namespace, one: str, other: str, why: str = "") -> UsageError:
    """The error of two settings that exclude each other, each named as it was set."""
    keys = [key for key in (one, other) if key in args.configured]
    said = []
    for key in (one, other):
        value = getattr(args, key)
        said.append(f"{key} = {_shown(value)}" if key in keys else f"--{key}" if value is True else f"--{key} {value}")
    return UsageError(f"{f'{args.configuration.path}: ' if keys else ''}{' and '.join(said)} contradict each other{why}")


def rule_session(args: argparse.Namespace, select: Sequence[str] = ()) -> RuleSession:
    """The rules of this command, made once: what flags and file want of them. `select` is what the command makes of --select.

    UsageError for what does not exist; it names the file if it stands there.
    """
    from envcheck.report.session import IgnoreSetting, rule_session

    path, configured = args.configuration.path, args.configured
    for key in (key for key in RULES if key in configured):
        with told_of(args, key):
            ignore = [IgnoreSetting(name) for name in configured["ignore"]] if key == "ignore" else []
            chosen = configured["select"] if key == "select" else ()
            rule_session(chosen, ignore, args.severities if key == "severity" else None, args.site)
    listed = IgnoreSetting("", "", path) if isinstance(configured.get("ignore"), list) else IgnoreSetting("", "--ignore")
    ignore = [IgnoreSetting(name, reason, path) for name, reason in args.ignore_reasons.items()]
    ignore += [replace(listed, name=name) for name in getattr(args, "ignore", ())]
    return rule_session(select, ignore, args.severities, args.site, file=path)


@contextmanager
def told_of(args: argparse.Namespace, key: str) -> Iterator[None]:
    """An error of a value of the configuration file names file and key."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{args.configuration.path}: {key}: {str(error).removeprefix('--expect ')}") from None
