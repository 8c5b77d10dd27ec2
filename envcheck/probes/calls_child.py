"""Asks for system calls that every process group needs, with arguments that none of them takes. Run by `Host.child("calls_child")`.

A filter answers by the number alone, before the kernel looks at an argument: what comes back from a kernel is EBADF, EFAULT or EINVAL.
Prints a name before its call, and behind it what a filter said; one that kills leaves the name alone on the last line.
"""

import ctypes
import errno
import os
import platform
import sys

# Name → number on x86-64 and on 64-bit ARM, from the kernel's asm/unistd.h and asm-generic/unistd.h
NUMBERS = {
    "socket": (41, 198), "bind": (49, 200), "listen": (50, 201), "connect": (42, 203), "accept": (43, 202), "accept4": (288, 242),
    "getsockname": (51, 204), "getpeername": (52, 205), "setsockopt": (54, 208), "getsockopt": (55, 209), "sendto": (44, 206),
    "recvfrom": (45, 207), "sendmsg": (46, 211), "recvmsg": (47, 212), "epoll_create1": (291, 20), "epoll_ctl": (233, 21),
    "eventfd2": (290, 19), "pipe2": (293, 59), "clone": (56, 220), "clone3": (435, 435), "sched_getaffinity": (204, 123),
    "mprotect": (10, 226),
}  # fmt: skip
REFUSED = (errno.EPERM, errno.EACCES, errno.ENOSYS)
CLONE_THREAD = 0x10000  # without CLONE_SIGHAND and CLONE_VM, which is invalid


def main() -> None:
    column = {"x86_64": 0, "aarch64": 1}.get(platform.machine())
    if not sys.platform.startswith("linux") or column is None or sys.maxsize < 1 << 32:
        return
    call = ctypes.CDLL(None, use_errno=True).syscall
    for name, numbers in NUMBERS.items():
        sys.stdout.write(name)
        sys.stdout.flush()
        first = CLONE_THREAD if name == "clone" else 0 if name in ("clone3", "pipe2") else -1
        arguments = [ctypes.c_long(one) for one in (first, -1 if name != "clone3" else 0, 0, 0, 0, 0)]
        refused = call(ctypes.c_long(numbers[column]), *arguments) == -1 and ctypes.get_errno() in REFUSED
        # of an older kernel, and of filters on purpose: glibc asks for clone then
        if name == "clone3" and ctypes.get_errno() == errno.ENOSYS:
            refused = False
        sys.stdout.write("\t%s\n" % (os.strerror(ctypes.get_errno()) if refused else ""))


if __name__ == "__main__":
    main()
