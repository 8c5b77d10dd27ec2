"""Cache folders that several ranks lock, where they lie on a network file system."""

from __future__ import annotations

from envcheck.facts.snapshot import CacheFolder
from envcheck.host.access import Host
from envcheck.probes.cache_child import NETWORK
from envcheck.probes.childlines import read_lines
from envcheck.probes.mounts import parse_mountinfo

SECONDS = 5.0
# Variable → where the folder is without it, below the home folder
FOLDERS = (
    ("HF_HOME", ".cache/huggingface"),
    ("TORCH_HOME", ".cache/torch"),
    ("TORCH_EXTENSIONS_DIR", ".cache/torch_extensions"),
    ("TRITON_CACHE_DIR", ".triton/cache"),
    ("TORCHINDUCTOR_CACHE_DIR", None),
)


def probe_caches(host: Host) -> tuple[CacheFolder, ...]:
    """Only folders on network file systems; a machine without any pays for one read of mountinfo."""
    if host.platform().get("system") != "Linux":
        return ()
    if not any(mount.kind in NETWORK for mount in parse_mountinfo(host.read("/proc/self/mountinfo"))):
        return ()
    home = host.env.get("HOME")
    wanted: dict[str, str] = {}
    for name, below in FOLDERS:
        path = host.env.get(name) or (f"{home}/{below}" if home and below else None)
        if path and path.startswith("/") and path not in wanted.values():
            wanted[name] = path
    done = host.child("cache_child", *(f"{name}={path}" for name, path in wanted.items()), timeout=SECONDS)
    lines = read_lines(done.stdout)
    fields = ("variable", "path", "filesystem", "options", "lock", "error")
    found = [CacheFolder(*(str(line.get(name, "")) for name in fields)) for line in lines if line["step"] == "folder"]
    if done.timed_out and lines and lines[-1]["step"] == "begin":
        found.append(CacheFolder(str(lines[-1].get("variable")), str(lines[-1].get("path")), lock="hang"))
    return tuple(found)
