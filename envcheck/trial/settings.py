"""The files by which uv and pip are configured without being told, beside those of the working folder: of the user and of the system.

What is there and not this user's or root's alone ends the trial. Where nothing is but others could put something there meanwhile, a
variable says that nothing is to be looked for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from envcheck.facts.record import record
from envcheck.host.ownership import foreign_or_open

# From here upwards uv finds no settings: an empty pyproject.toml ends its search for a workspace, which goes past a uv.toml, and an
# empty uv.toml that for settings. It lies beside this code, so who could change it could change envcheck as well.
NO_PROJECT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "no_project")
NOTHING = os.path.join(NO_PROJECT, "uv.toml")  # an empty file, for any program
_OFF = ("", "0", "false", "f", "no", "n", "off")  # uv's words for a variable that is not set


@record
class _Looked:
    """A path that an installer looks at, and the variable that has it look elsewhere."""

    path: str
    variable: str
    instead: str


def no_settings_of_uv(env: Mapping[str, str]) -> bool:
    return env.get("UV_NO_CONFIG", "").lower() not in _OFF or bool(env.get("UV_CONFIG_FILE"))


def settings_at_home(tool: str, env: Mapping[str, str]) -> tuple[Mapping[str, str], str | None]:
    """The variables for the installer, and why no trial is begun."""
    if not hasattr(os, "geteuid"):
        return env, None
    named = ("UV_CONFIG_FILE" if tool == "uv" else "PIP_CONFIG_FILE", "NETRC")
    for variable in named if os.geteuid() == 0 else ():  # another user knows whose file he has named
        path = env.get(variable)
        if path and path != os.devnull and (reason := foreign_or_open(path)[0]):
            return env, f"{tool} would obey {path}, which {variable} names: {reason}"
    more: dict[str, str] = {}
    for looked in (*(_of_uv(env) if tool == "uv" else _of_pip(env)), *_netrc(env)):
        reason, there = foreign_or_open(looked.path)
        if reason and there:
            return (
                env,
                f"{tool} would obey {looked.path}: {reason} ({looked.variable}={looked.instead or '/etc/xdg'} has it look elsewhere)",
            )
        if reason:
            more[looked.variable] = looked.instead
    return {**env, **more, **(_without_cache(env) if tool == "uv" else {})}, None


def _of_uv(env: Mapping[str, str]) -> Iterator[_Looked]:
    if not no_settings_of_uv(env):
        for folder in _folders(env, "XDG_CONFIG_HOME", ".config"):
            yield _Looked(os.path.join(folder, "uv", "uv.toml"), "XDG_CONFIG_HOME", NO_PROJECT)
        yield from _of_system(env, os.path.join("uv", "uv.toml"))
        yield _Looked("/etc/uv/uv.toml", "UV_NO_CONFIG", "1")
    if not env.get("UV_CREDENTIALS_DIR"):
        for folder in _folders(env, "XDG_DATA_HOME", ".local", "share"):
            yield _Looked(os.path.join(folder, "uv", "credentials", "credentials.toml"), "UV_CREDENTIALS_DIR", NO_PROJECT)


def _of_pip(env: Mapping[str, str]) -> Iterator[_Looked]:
    named = env.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return
    if not (named and os.path.exists(named)):
        homes = [os.path.join(home, ".pip") for home in _homes(env)]
        mac = [os.path.join(home, "Library", "Application Support", "pip") for home in _homes(env)]
        for folder in (*homes, *mac, *(os.path.join(one, "pip") for one in _folders(env, "XDG_CONFIG_HOME", ".config"))):
            yield _Looked(os.path.join(folder, "pip.conf"), "PIP_CONFIG_FILE", NOTHING)
    yield from _of_system(env, os.path.join("pip", "pip.conf"))
    for path in ("/etc/pip.conf", "/Library/Application Support/pip/pip.conf"):
        yield _Looked(path, "PIP_CONFIG_FILE", os.devnull)


def _of_system(env: Mapping[str, str], name: str) -> Iterator[_Looked]:
    """Those of others are taken out of the list."""
    folders = env.get("XDG_CONFIG_DIRS", "").split(os.pathsep)
    trusted = [folder for folder in folders if folder and foreign_or_open(os.path.join(folder, name))[0] is None]
    for folder in filter(None, (*folders, "/etc/xdg")):
        yield _Looked(os.path.join(folder, name), "XDG_CONFIG_DIRS", os.pathsep.join(trusted))


def _netrc(env: Mapping[str, str]) -> Iterator[_Looked]:
    if "NETRC" not in env:
        for path in (os.path.join(home, name) for home in _homes(env) for name in (".netrc", "_netrc")):
            yield _Looked(path, "NETRC", NOTHING)


def _without_cache(env: Mapping[str, str]) -> Mapping[str, str]:
    """uv installs what lies in its cache as it is; pip looks whose its own is."""
    if env.get("UV_CACHE_DIR"):
        return {}
    folders = _folders(env, "XDG_CACHE_HOME", ".cache")
    return {"UV_NO_CACHE": "1"} if any(foreign_or_open(os.path.join(folder, "uv"))[0] for folder in folders) else {}


def _folders(env: Mapping[str, str], variable: str, *below: str) -> Iterator[str]:
    """Where files of a kind are looked for: some programs pass a relative path over, others do not."""
    named = env.get(variable, "")
    if named.strip():
        yield named
    if not os.path.isabs(named):
        for home in _homes(env):
            yield os.path.join(home, *below)


def _homes(env: Mapping[str, str]) -> Iterator[str]:
    """HOME and, where it is not set or empty, the one of the list of users as well."""
    import pwd

    home = env.get("HOME")
    if home is not None:
        yield home or os.sep
    if not home:
        try:
            yield pwd.getpwuid(os.getuid()).pw_dir or os.sep
        except KeyError:
            return
