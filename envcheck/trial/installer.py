"""uv or pip as they stand on this machine, kept away from every environment but the throwaway one."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Literal, TypeAlias

from envcheck.facts.record import record, replace
from envcheck.host.access import Completed
from envcheck.host.home import foreign_home
from envcheck.host.long_command import run_long
from envcheck.host.ownership import foreign_file, others_put, safe_variables
from envcheck.host.plain_files import beginning, descriptor
from envcheck.tables.toml import parse_toml
from envcheck.trial.settings import NO_PROJECT, no_settings_of_uv, settings_at_home

Tick: TypeAlias = Callable[[str], None] | None
Trouble: TypeAlias = Literal["", "network", "disk"]

# Variables that lead an installer somewhere else than to the interpreter that it is given, or make it do nothing.
_ELSEWHERE = (
    "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME", "PYTHONPATH", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON", "PIP_DRY_RUN",
    "PIP_REPORT",
    "UV_PYTHON", "UV_SYSTEM_PYTHON", "UV_PROJECT_ENVIRONMENT", "UV_BREAK_SYSTEM_PACKAGES", "UV_MANAGED_PYTHON",
)  # fmt: skip
_QUIET = {"PIP_USER": "0", "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_PROGRESS_BAR": "off", "PIP_NO_COLOR": "1",
          "UV_NO_PROGRESS": "1", "NO_COLOR": "1", "UV_PYTHON_DOWNLOADS": "never"}  # fmt: skip
# The same in a configuration file, as `uv pip install --show-settings` and `pip config list` print it.
_UV_ELSEWHERE = re.compile(r"^ {4,12}(target|prefix): Some\(", re.MULTILINE)
_PIP_ELSEWHERE = re.compile(r"^(?:global|install|user|site)\.(target|prefix|root)='", re.MULTILINE)
LIMIT_BYTES = 1 << 20
SHORT_SECONDS = 30.0
# What installers say when the way is not to blame: the words of uv, of pip (urllib3) and of the system.
_NETWORK = re.compile(
    r"dns error|error sending request|client error \(Connect\)|[Ff]ailed to establish a new connection|Temporary failure in name resolution"
    r"|ProxyError|Network is unreachable|Connection(?: was)? (?:refused|reset|broken|aborted)|[Tt]imed? ?out"
    r"|Max retries exceeded|tunnel error"
    r"|network connectivity is disabled|\b50[234] (?:Server|Bad|Service|Gateway)"
)
_DISK = re.compile(r"[Nn]o space left on device|os error 28\b|Errno 28\b|Disk quota exceeded|not enough space on the disk")


@record
class Installer:
    """uv, or the pip of the throwaway environment itself (`program` is None then)."""

    tool: Literal["pip", "uv"]
    target: str  # the interpreter that environments are made from
    program: str | None
    env: Mapping[str, str]
    project: tuple[str, ...] = ()  # the option of uv that says from where upwards it looks for its settings
    misled: str | None = None  # why no trial is begun: the settings that it would obey are not this user's alone

    def cache(self, seconds: float) -> str | None:
        """The folder of its cache; None if it has none or does not say."""
        done = self.run((self.program, "cache", "dir") if self.program else (self.target, "-m", "pip", "cache", "dir"), seconds)
        last = done.stdout.strip().splitlines()[-1:]
        return last[0] if done.ok and last and os.path.isabs(last[0]) else None

    def run(self, argv: Sequence[str], seconds: float, tick: Callable[[], None] | None = None, cwd: str | None = None) -> Completed:
        if tuple(argv[1:3]) == ("-m", "pip"):
            argv = (argv[0], "-I", *argv[1:])  # a pip.py in the working folder is not meant
        elif argv[0] == self.program:
            argv = (argv[0], *self.project, *argv[1:])
        return run_long(argv, timeout=max(0.1, seconds), env=self.env, tick=tick, cwd=cwd)

    def within(self, folder: str, **more: str) -> Installer:
        """The same with its temporary files in `folder`, and with more variables."""
        return replace(self, env={**self.env, "TMPDIR": folder, "TEMP": folder, "TMP": folder, **more})

    def diverted(self, python: str) -> str | None:
        """The setting of a configuration file that would install somewhere else than into the environment of `python`."""
        if self.program:
            shown, pattern = (
                self.run((self.program, "pip", "install", "--python", python, "--show-settings", "pip"), SHORT_SECONDS),
                _UV_ELSEWHERE,
            )
        else:
            shown, pattern = self.run((python, "-m", "pip", "config", "list"), SHORT_SECONDS), _PIP_ELSEWHERE
        found = pattern.search(shown.stdout) if shown.ok else None
        return found[1] if found else None

    def make_environment(self, folder: str, seconds: float, cwd: str) -> Completed:
        """An empty environment with the target's Python in `folder`."""
        if self.program:
            return self.run((self.program, "venv", "-q", "--no-project", "--python", self.target, folder), seconds, cwd=cwd)
        made = self.run((self.target, "-I", "-m", "venv", folder), seconds, cwd=cwd)
        if made.ok or made.timed_out:
            return made
        # Debian keeps ensurepip in a package of its own: then the target's pip brings one.
        bare = self.run((self.target, "-I", "-m", "venv", "--clear", "--without-pip", folder), seconds, cwd=cwd)
        if not bare.ok:
            return made
        fetched = self.run((self.target, "-I", "-m", "pip", "--python", python_of(folder), "install", "-q", "pip"), seconds, cwd=cwd)
        return fetched if fetched.ok or trouble(fetched.stdout) else made


def _settings_of(env: Mapping[str, str]) -> tuple[tuple[str, ...], str | None]:
    """From where upwards uv is to look for its settings, and why no trial is begun. pip looks for none in the working folder.

    Its paths stay those of the caller's folder, in which it stands. What is found from there up to the root counts as in the printed
    command, where nobody else can change it while it is used; where nothing is found, uv does not look there either.
    """
    if no_settings_of_uv(env):
        return ("--project", NO_PROJECT), None
    folder = os.path.join(working_folder(), env.get("UV_WORKING_DIR", ""), env.get("UV_PROJECT", ""))
    found = list(_configurations(folder))
    instead = "(UV_CONFIG_FILE names one to obey, UV_NO_CONFIG=1 none)"
    if not any(settings for _, settings, _ in found):
        return ("--project", NO_PROJECT), None
    for path, _, reason in found:
        if reason:
            return (), f"uv would obey {path}: {reason} {instead}"
    if reason := others_put(folder):
        return (), f"uv would obey {found[0][0]}, or what others put beside it or above: {reason} {instead}"
    return (), None


def _configurations(folder: str) -> Iterator[tuple[str, bool, str | None]]:
    """The files from this folder upwards that can configure uv, whether they do, and why they are not to be obeyed."""
    for step in (folder, *map(str, PurePath(folder).parents)):
        for name in ("uv.toml", "pyproject.toml"):
            path = os.path.join(step, name)
            try:
                with open(descriptor(path), "rb") as file:
                    yield path, name == "uv.toml" or _configures(file.read(LIMIT_BYTES + 1)), foreign_file(file.fileno(), path)
            except OSError:
                continue


def _configures(data: bytes) -> bool:
    """Whether a pyproject.toml has settings of uv; one that cannot be read here may have them."""
    if len(data) > LIMIT_BYTES:
        return True
    try:
        tool = parse_toml(data.decode("utf-8-sig")).get("tool", {})
    except ValueError:
        return True
    return not isinstance(tool, dict) or "uv" in tool


def _without_toolchain_of_others(env: Mapping[str, str]) -> Mapping[str, str]:
    """pip asks `rustc --version` to tell the index, and rustup starts for it what a rust-toolchain.toml in the working folder or above
    names, any program. Where others can put one there, the user's own toolchain is named instead. One at root's home that is in other hands
    has none."""
    if foreign_home(env) and "RUSTUP_HOME" not in env:
        return {**env, "RUSTUP_HOME": os.devnull}
    if "RUSTUP_TOOLCHAIN" in env or others_put(working_folder()) is None:
        return env
    home = env.get("RUSTUP_HOME") or os.path.join(env.get("HOME", ""), ".rustup")
    try:
        mine = parse_toml(beginning(os.path.join(home, "settings.toml"), LIMIT_BYTES)).get("default_toolchain")
    except (OSError, ValueError):
        mine = None
    return {**env, "RUSTUP_TOOLCHAIN": mine if isinstance(mine, str) else "none"}


def find_installer(tool: str, target: str, env: Mapping[str, str]) -> Installer | None:
    """uv where it may be used and is there: on PATH, beside the target, beside envcheck; else pip. None for `--tool uv` without uv."""
    mine: Mapping[str, str] = {name: value for name, value in safe_variables(env)[0].items() if name not in _ELSEWHERE} | _QUIET
    if tool != "pip":
        beside = (os.path.join(os.path.dirname(python), "uv.exe" if os.name == "nt" else "uv") for python in (target, sys.executable))
        uv = shutil.which("uv", path=mine.get("PATH")) or next((path for path in beside if os.access(path, os.X_OK)), None)
        if uv:
            project, misled = _settings_of(mine)
            mine, at_home = settings_at_home("uv", mine)
            return Installer("uv", target, uv, mine, project, misled or at_home)
    if tool == "uv":
        return None
    mine, misled = settings_at_home("pip", _without_toolchain_of_others(mine))
    return Installer("pip", target, None, mine, misled=misled)


def working_folder() -> str:
    """Of this process; nothing is found in one that was deleted meanwhile."""
    try:
        return os.getcwd()
    except OSError:
        return os.sep


def python_of(environment: str) -> str:
    """The interpreter of a virtual environment."""
    return os.path.join(environment, *(("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")))


def trouble(said: str) -> Trouble:
    """What of this machine or its network stopped an installer, if it says so."""
    return "disk" if _DISK.search(said) else "network" if _NETWORK.search(said) else ""
