"""Which interpreter is examined, and why.

As a tool of its own (`uv tool install`, `pipx install`, `uvx`) envcheck runs in an environment that nobody trains in. That one is
never the target unless --python names it: a torch that is put into it would be found there ever after.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping

from envcheck.errors import UsageError
from envcheck.facts.dead_mount import answers
from envcheck.facts.record import replace
from envcheck.host.home import foreign_home
from envcheck.host.plain_files import beginning, pyvenv_rows, real_path
from envcheck.host.user_site import foreign_user_site
from envcheck.target.process import Target

ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")
LIMIT_BYTES = 1 << 20  # of a file that an environment, or conda, has left
SHOWN = 6  # of the environments that might be meant


def choose(python: str | None, env: Mapping[str, str], named_in: str | None = None) -> Target:
    """The interpreter under test and why; UsageError if the one asked for is not there. `named_in` is the file that says `python`."""
    chosen = _chosen(python, env, named_in)
    lines = []
    site, home = foreign_user_site(env, chosen.executable), foreign_home(env)
    if site and site.there and _reads_user_site(chosen.executable):
        lines.append(f"Python's user site {site.folder} was passed over: {site.reason}")
    if home and home.there:
        lines.append(f"HOME {home.folder} was not handed on: {home.reason}")
    if not lines:
        return chosen
    return replace(chosen, because="; ".join((chosen.because, *lines)), note="; ".join(filter(None, (chosen.note, *lines))))


def _reads_user_site(python: str) -> bool:
    """A virtual environment does only where it has the packages of its Python as well."""
    config = _settings(os.path.dirname(os.path.dirname(python)))
    return not config or config.get("include-system-site-packages", "").lower() == "true"


def _chosen(python: str | None, env: Mapping[str, str], named_in: str | None) -> Target:
    if python is not None:
        return Target(_executable(python, env, named_in), f"set in {named_in}" if named_in else "--python")
    if not of_tool(sys.prefix) or _torch_of_this_run():
        return Target(sys.executable, f"envcheck runs in it{', and it holds torch' if _holds_torch() else ''}")
    base = env.get("CONDA_DEFAULT_ENV") in ("base", "root")  # active in every shell, so nobody chose it: uv too takes .venv first
    for name in ACTIVE:
        found = _python_below(env.get(name))
        if found and not _ours(found) and not (base and name == "CONDA_PREFIX"):
            return Target(found, f"{name} is active")
    found, note = _python_below(".venv"), ""
    if found:
        reason = _foreign_environment(found)
        if reason is None:
            return Target(found, "./.venv is here" + (", and goes before conda's base" if base else ""))
        note = f"{os.path.abspath('.venv')} was passed over: {reason}"
    if base and (found := _python_below(env.get("CONDA_PREFIX"))) and not _ours(found):
        return Target(found, "CONDA_PREFIX is active" + (f" ({note})" if note else ""), f"{note}; --python examines it" if note else "")
    on_path = _on_path(env)
    if on_path:
        because = f"it is the first {os.path.basename(on_path)} on PATH{_hollow(env) or ', and no environment is active'}"
        return Target(on_path, f"{because} ({note})" if note else because, f"{note}; --python examines it" if note else "")
    raise UsageError(
        f"no environment to examine: activate one or give --python{_hollow(env)}{_candidates(env)}{f' ({note})' if note else ''}"
    )


def _hollow(env: Mapping[str, str]) -> str:
    """The active environment whose folder or interpreter is gone, as the end of a sentence: the shell still takes it for active."""
    gone = next((name for name in ACTIVE if env.get(name) and not _python_below(env[name])), None)
    return f"; {gone} names {env[gone]}, which has no interpreter" if gone else ""


def _foreign_environment(python: str) -> str | None:
    """Why an environment that happens to be here is not started: others may have put it there."""
    from envcheck.host.ownership import foreign_environment

    try:
        return foreign_environment(".venv", python)
    except OSError as error:
        return error.strerror or "it cannot be read"


def _executable(python: str, env: Mapping[str, str], named_in: str | None) -> str:
    import shutil

    flag = f"{named_in}: python = {python!r}" if named_in else f"--python {python}"
    if not answers(python):
        raise UsageError(f"{flag}: the file system there does not answer")
    if os.path.isdir(python):
        below = _python_below(python)
        if below:
            return below
        raise UsageError(f"{flag}: a folder without bin/python")
    if os.sep in python or os.path.exists(python):
        if not os.path.exists(python):
            raise UsageError(f"{flag}: there is no such file")
        if not os.access(python, os.X_OK):
            raise UsageError(f"{flag}: not executable")
        return os.path.abspath(python)
    found = shutil.which(python, path=env.get("PATH"))
    if found is None:
        raise UsageError(f"{flag}: not found on PATH")
    return found


def _python_below(prefix: str | None) -> str | None:
    paths = [os.path.join(prefix or "", *tail) for tail in (("bin", "python"), ("Scripts", "python.exe"), ("python.exe",))]
    if not prefix or not answers(*paths):  # a link in it may lead elsewhere
        return None
    return next((os.path.abspath(path) for path in paths if os.path.exists(path)), None)


def _holds_torch() -> bool:
    """A torch module or distribution on this interpreter's path; nothing is imported."""
    from importlib.machinery import PathFinder

    if PathFinder.find_spec("torch") is not None:
        return True
    for folder in sys.path:
        try:
            if any(name.startswith("torch-") and name.endswith(".dist-info") for name in os.listdir(folder or ".")):
                return True
        except OSError:
            continue
    return False


def _torch_of_this_run() -> bool:
    """`uv run --with torch --with torch-envcheck`: the layer that uv makes for one run holds a torch that no environment below it has."""
    from importlib.machinery import PathFinder

    below = _settings(sys.prefix).get("extends-environment")
    spec = PathFinder.find_spec("torch") if below else None
    if below is None or spec is None or not spec.origin:
        return False
    return not real_path(spec.origin).startswith(real_path(below) + os.sep)


# Names of folders in uv's cache: archive-v0 holds what `uvx` runs, builds-v0 what `uv run --with` lays over the project's environment.
_UV_CACHE = re.compile(r"(archive|builds)-v\d+")
_VERSIONED = re.compile(r"python\d\.\d+")


def of_tool(prefix: str) -> bool:
    """Whether an environment was made for a command-line tool: by uv, pipx or uvx."""
    if any(os.path.exists(os.path.join(prefix, name)) for name in ("uv-receipt.toml", "pipx_metadata.json")):
        return True
    kind, cache = os.path.split(os.path.dirname(real_path(prefix)))[::-1]
    return bool(_UV_CACHE.fullmatch(kind)) and os.path.exists(os.path.join(cache, "CACHEDIR.TAG")) and "uv" in _settings(prefix)


def _settings(prefix: str) -> dict[str, str]:
    return dict(pyvenv_rows(prefix))


def _ours(python: str) -> bool:
    """Whether an interpreter is that of a tool's environment, envcheck's own above all, under its own name or through a link.

    The binary itself proves nothing: the interpreters of many environments are links to one and the same.
    """
    own = real_path(sys.prefix)
    for _ in range(40):  # more links in a row no system follows
        prefix = os.path.dirname(os.path.dirname(python))
        if real_path(prefix) == own or of_tool(prefix):
            return True
        if not os.path.islink(python):
            return False
        python = os.path.join(os.path.dirname(python), os.readlink(python))
    return False


def _path_folders(env: Mapping[str, str]) -> Iterator[str]:
    """Folders of PATH; an empty or relative one means wherever the user happens to stand, and is left out."""
    return (folder for folder in env.get("PATH", "").split(os.pathsep) if os.path.isabs(folder) and answers(folder))


def _on_path(env: Mapping[str, str]) -> str | None:
    """What `python3` starts in the user's shell, else what `python` does: on old systems that is Python 2."""
    for name in ("python.exe",) if os.name == "nt" else ("python3", "python"):
        for folder in _path_folders(env):
            path = os.path.join(folder, name)
            if os.path.isfile(path) and os.access(path, os.X_OK) and not _ours(path):
                return path
    return None


def _candidates(env: Mapping[str, str]) -> str:
    """The environments that may be meant, as the end of a sentence."""
    found = dict.fromkeys(path for path in _places(env) if _python_below(path) and not _ours(_python_below(path) or ""))
    found |= dict.fromkeys(path for path in _versioned(env) if not _ours(path))
    if not found:
        return ""
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return f"; there are {', '.join([*found][:SHOWN])}{more}"


def _places(env: Mapping[str, str]) -> Iterator[str]:
    """Virtual environments here and above, then those of conda and pyenv."""
    home = os.path.expanduser("~")
    for folder in _here_and_above():
        yield from (os.path.join(folder, name) for name in (".venv", "venv", "env"))
    try:
        known = beginning(os.path.join(home, ".conda", "environments.txt"), LIMIT_BYTES)
        yield from (line.strip() for line in known.splitlines() if line.strip())
    except OSError:
        pass
    roots = [os.path.join(home, name) for name in ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba")]
    for root in (env.get("MAMBA_ROOT_PREFIX"), *roots, "/opt/conda"):
        if root:
            yield root
            yield from _below(os.path.join(root, "envs"))
    yield from _below(os.path.join(env.get("PYENV_ROOT") or os.path.join(home, ".pyenv"), "versions"))


def _here_and_above() -> Iterator[str]:
    try:
        folder = os.getcwd()
    except FileNotFoundError:  # it was deleted meanwhile
        return
    while True:
        yield folder
        if folder == os.path.dirname(folder):
            return
        folder = os.path.dirname(folder)


def _versioned(env: Mapping[str, str]) -> Iterator[str]:
    """python3.12 and the like on PATH."""
    for folder in _path_folders(env):
        yield from (path for path in _below(folder) if _VERSIONED.fullmatch(os.path.basename(path)))


def _below(folder: str) -> list[str]:
    try:
        if not answers(folder):
            return []
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    except OSError:
        return []
