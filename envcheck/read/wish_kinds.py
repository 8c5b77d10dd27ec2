"""Which kind of file of wishes a name is of."""

from __future__ import annotations

from envcheck.errors import UsageError
from envcheck.read.wish_conda import environment
from envcheck.read.wish_file import WishFile
from envcheck.read.wish_requirements import requirements
from envcheck.read.wish_toml import lock, pyproject


def read_wish_file(name: str, text: str, constraint: bool = False) -> WishFile:
    """A file by its name: "uv.lock", "pylock.toml", "environment.yml", any other .toml, else requirements. Raises UsageError."""
    base = name.replace("\\", "/").rpartition("/")[2].lower()
    if base == "uv.lock" or (base.startswith("pylock") and base.endswith(".toml")):
        return lock(name, text)
    if base.endswith(".toml"):
        return pyproject(name, text)
    if base.endswith((".yml", ".yaml")):
        return environment(name, text)
    if base.endswith((".lock", ".json", ".cfg", ".py", ".whl")):
        raise UsageError(f"{name}: plan reads requirements files, pyproject.toml, environment.yml, uv.lock and pylock.toml, not this kind")
    return requirements(name, text, constraint)
