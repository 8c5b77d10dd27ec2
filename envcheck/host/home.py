"""What programs read below HOME without being told: files that name libraries to load (NCCL's plugins, Open MPI's components), compiled
code that they keep there. Root starts them with another HOME where somebody else decides what is in his."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from envcheck.facts.dead_mount import answers
from envcheck.facts.record import record
from envcheck.host.ownership import foreign_or_open
from envcheck.host.user_site import user_base, without_user_site

# https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html, https://docs.open-mpi.org/en/v5.0.x/mca.html,
# https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#cuda-environment-variables (CUDA_CACHE_PATH)
_CONFIGURED = (".nccl.conf", ".openmpi", ".pmix", ".prte")
_KEPT = (".nv", ".triton", ".cache")


@record
class ForeignHome:
    """One that root does not hand on, why, and whether it matters: a configuration in it would be read, or nobody knows."""

    folder: str
    reason: str
    there: bool


def foreign_home(env: Mapping[str, str]) -> ForeignHome | None:
    """None where root alone decides what is read there; only root's is looked at, since a user knows whose HOME he has."""
    home = env.get("HOME")
    if not home or not hasattr(os, "geteuid") or os.geteuid() != 0:
        return None
    if not os.path.isabs(home):
        return ForeignHome(home, "it lies in whatever folder root stands in", False)
    if not answers(home):
        return ForeignHome(home, "the file system that it is on does not answer", True)
    for name in ("", *_CONFIGURED, *_KEPT):
        path = os.path.join(home, name, *(() if name.endswith(".conf") else ("any",)))
        if reason := foreign_or_open(path)[0]:
            there = any(os.path.lexists(os.path.join(home, one)) for one in _CONFIGURED)
            return ForeignHome(home, f"{path}{reason[2:]}" if reason.startswith("it ") else reason, there)
    return None


def with_own_home(env: Mapping[str, str], python: str = "", home: str = os.devnull) -> dict[str, str]:
    """The variables of what root starts: without a user site of others, and with `home`, below which nothing of others is, for theirs.

    Python looks for its user site where it did.
    """
    foreign = foreign_home(env)  # first: where it does not answer, neither is a folder below it asked
    given = without_user_site(env, python)
    if foreign is None:
        return given
    base = getattr(sys.modules.get("site"), "USER_BASE", None) if python == sys.executable else None
    return {**given, "PYTHONUSERBASE": given.get("PYTHONUSERBASE") or base or user_base(env), "HOME": home}
