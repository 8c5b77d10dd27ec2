"""Whether a limit leaves this process so little memory that a thread of it may die at its start, for which CPython waits without end."""

from __future__ import annotations

LEAST_BYTES = 96 << 20  # of address space: at 40 MB one in three checks stood still, at 70 MB none of 40 did


def too_little() -> bool:
    try:
        import resource
    except ImportError:  # Windows
        return False
    try:
        return 0 <= resource.getrlimit(resource.RLIMIT_AS)[0] < LEAST_BYTES
    except OSError:  # a filter of system calls
        return False
