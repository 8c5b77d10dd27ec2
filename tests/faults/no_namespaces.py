"""no_namespaces.py COMMAND…: run it as a container without privileges does: unshare and setns are refused (EPERM) by a seccomp filter."""

import ctypes
import os
import platform
import struct
import sys

CALLS = {"x86_64": (272, 308), "aarch64": (97, 268)}  # numbers of unshare and setns
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06  # linux/filter.h
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | 1


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]  # noqa: RUF012


unshare, setns = CALLS[platform.machine()]
rows = ((LOAD, 0, 0, 0), (JUMP_IF_EQUAL, 1, 0, unshare), (JUMP_IF_EQUAL, 0, 1, setns), (RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW))
program = Program(len(rows), b"".join(struct.pack("HBBI", *row) for row in rows))
libc = ctypes.CDLL(None, use_errno=True)
for arguments in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program))):
    if libc.prctl(*arguments):
        sys.exit("prctl: " + os.strerror(ctypes.get_errno()))
os.execv(sys.argv[1], sys.argv[1:])
