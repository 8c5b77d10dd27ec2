"""The user site: a folder below HOME or PYTHONUSERBASE out of which each Python runs code at its start (`.pth`, usercustomize), before
anything can be looked at."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Mapping

from envcheck.facts.record import record
from envcheck.host.ownership import foreign_or_open


@record
class ForeignUserSite:
    """One that root is not to have read, why, and whether there is anything in it."""

    folder: str
    reason: str
    there: bool


def foreign_user_site(env: Mapping[str, str], python: str = "") -> ForeignUserSite | None:
    """None where nothing of others is read: none but root's is looked at, since a user knows whose HOME he has. `python`, if it is the
    one that we run in, has had our own process read it: nothing is to be kept out then, and a torch that lies there is found."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or env.get("PYTHONNOUSERSITE"):
        return None
    if python == sys.executable and getattr(sys.modules.get("site"), "ENABLE_USER_SITE", False):
        return None
    base = user_base(env)
    if os.path.isabs(base):
        reason, there = foreign_or_open(os.path.join(base, "lib", "python3", "site-packages"))  # of no version: who can put one there
    else:
        reason, there = "it lies in whatever folder root stands in", False
    if reason and there:  # its file system may not answer
        return ForeignUserSite(base, reason, there)
    found = glob.glob(os.path.join(glob.escape(base), "lib", "python*", "site-packages"))
    for one in sorted(found):
        reason = reason or foreign_or_open(one)[0]
    return ForeignUserSite(base, reason, bool(found)) if reason else None


def user_base(env: Mapping[str, str]) -> str:
    """As `site` has it, from the variables alone. Below a macOS home it is another folder, with the same people above it."""
    if env.get("PYTHONUSERBASE"):
        return env["PYTHONUSERBASE"]
    import pwd

    home = env.get("HOME")
    if home is None:
        try:
            home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:  # Python looks in a folder of this name
            home = "~"
    return os.path.join(home or os.sep, ".local")


def without_user_site(env: Mapping[str, str], python: str = "") -> dict[str, str]:
    """The variables of a Python, or of a program written in it, that root starts."""
    return {**env, **({"PYTHONNOUSERSITE": "1"} if foreign_user_site(env, python) else {})}
