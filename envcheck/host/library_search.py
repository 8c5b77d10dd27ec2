"""Where the dynamic loader would find a library: the files, not the loading."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping

from envcheck.host.plain_files import real_path

# Built into glibc per distribution; Debian adds its multiarch folders, musl has /usr/local/lib.
_FOLDERS = (
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/local/lib",
)
_CACHE = "/etc/ld.so.cache"
_WINDOWS = {"libnvidia-ml.so.1": "nvml.dll", "libcuda.so.1": "nvcuda.dll"}


def library_files(name: str, env: Mapping[str, str]) -> tuple[str, ...]:
    """Every file that `dlopen(name)` may take, in the loader's order: LD_LIBRARY_PATH, ld.so.cache, built-in folders."""
    if os.name == "nt":
        path = os.path.join(env.get("WINDIR", "C:\\Windows"), "System32", _WINDOWS.get(name, name))
        return (path,) if os.path.exists(path) else ()
    folders = [folder or "." for folder in re.split("[:;]", env["LD_LIBRARY_PATH"])] if env.get("LD_LIBRARY_PATH") else []
    paths = [os.path.join(folder, name) for folder in folders]
    paths += _cached(name)
    paths += [os.path.join(folder, name) for folder in _FOLDERS]
    found: dict[str, str] = {}
    for path in paths:
        if _loadable(path):
            # /lib is a link to /usr/lib on most systems: one file, one entry.
            found.setdefault(os.path.join(real_path(os.path.dirname(path)), name), path)
    return tuple(found.values())


def _cached(name: str) -> list[str]:
    """Paths of ld.so.cache, without asking `ldconfig -p` (it is not everywhere and costs a process).

    The cache ends in NUL-separated strings, a name and its path in turn: libcuda.so.1\\0/usr/lib/…/libcuda.so.1\\0
    """
    try:
        with open(_CACHE, "rb") as file:
            data = file.read(16 << 20)
    except OSError:
        return []
    wanted = re.escape(name.encode())
    return [match.decode("utf-8", "surrogateescape") for match in re.findall(rb"\0(/[^\0]{0,4000}/" + wanted + rb")(?=\0)", data)]


def _loadable(path: str) -> bool:
    """There, and not an ELF file of the other word size (the loader steps over those)."""
    try:
        with open(path, "rb") as file:
            head = file.read(5)
    except OSError:
        # A link that leads nowhere is no candidate; a file that may not be read is one, and fails.
        return os.path.exists(path)
    return head[:4] != b"\x7fELF" or head[4:5] == (b"\x02" if sys.maxsize > 2**32 else b"\x01")
