"""Tries flock in cache folders on network file systems, in a child of its own: such a file system may hang.

Run as a file by `Host.child("cache_child", NAME=PATH, …)`. Writes a JSON line a folder:
{"step": "begin", "variable": "HF_HOME", "path": "/nfs/hf"}
{"step": "folder", "variable": "HF_HOME", "path": "/nfs/hf", "filesystem": "nfs4", "options": "rw,vers=4.2", "lock": "ok", "error": ""}

Nothing is created where the folder is not there, or on a local file system, or where one may not write. On a network file system
a lock needs a file that is open for writing: one empty file, removed at once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

NETWORK = (
    "nfs", "nfs4", "lustre", "gpfs", "beegfs", "beegfs_nodev", "cifs", "smb3", "ceph", "fuse.ceph", "glusterfs", "fuse.glusterfs", "9p",
    "wekafs", "panfs", "afs", "orangefs", "fuse.sshfs", "fuse.juicefs", "fuse.s3fs", "fuse.gcsfuse", "fuse.blobfuse2",
)  # fmt: skip


def say(**line: Any) -> None:
    os.write(1, (json.dumps(line) + "\n").encode())


def mount_of(path: str) -> tuple[str, str]:
    """File system and options of the mount that holds `path`: the longest mount point that leads to it, the last one of equals.

    36 35 98:0 / /mnt rw,noatime master:1 - nfs4 server:/export rw,vers=4.2,local_lock=none
    """
    best, found = -1, ("", "")
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            left, _, right = line.rstrip("\n").partition(" - ")
            head, tail = left.split(" "), right.split(" ", 2)
            if len(head) < 6 or len(tail) < 3:
                continue
            point = head[4].replace("\\040", " ")
            if (path == point or path.startswith(point.rstrip("/") + "/")) and len(point) >= best:
                best, found = len(point), (tail[0], f"{head[5]},{tail[2]}")
    return found


def lock_between_processes(folder: str) -> tuple[str, str]:
    """ "ok"; "none": a second process got the lock too; "refused": locking is not offered; "readonly": not tried. And the error."""
    import fcntl
    import tempfile

    if not os.access(folder, os.W_OK):
        return "readonly", ""
    try:
        fd, path = tempfile.mkstemp(prefix=".envcheck-lock-", dir=folder)
    except OSError as error:
        return "readonly", error.strerror or str(error)
    try:
        # However we are ended, but by SIGKILL: the file goes.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return "refused", error.strerror or str(error)
        pid = os.fork()
        if pid == 0:
            code = 3
            try:
                os.close(fd)  # the lock belongs to the open file, which both hold
                other = os.open(path, os.O_RDWR)
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
                code = 1
            except BlockingIOError:
                code = 0
            except OSError:
                code = 2
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        return {0: "ok", 1: "none"}.get(code, "unknown"), ""
    finally:
        os.unlink(path)
        os.close(fd)


def main() -> None:
    for one in sys.argv[1:]:
        variable, _, path = one.partition("=")
        say(step="begin", variable=variable, path=path)
        real = os.path.realpath(path)
        if not os.path.isdir(real):
            continue
        kind, options = mount_of(real)
        if kind not in NETWORK:
            continue
        lock, error = lock_between_processes(real)
        say(step="folder", variable=variable, path=path, filesystem=kind, options=options, lock=lock, error=error)
    say(step="end")


if __name__ == "__main__":
    main()
