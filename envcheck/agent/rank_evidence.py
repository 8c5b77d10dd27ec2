"""What is asked of ranks that hang before they are ended: NCCL's RAS service, the Flight Recorder, py-spy.

Everything goes to files of the private folder, which the tool analyses (envcheck/live) and `--evidence` keeps. The tool uses
`ask_ras` too. Every wait has a deadline; what cannot be asked is left out without a word.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time

from . import jsonl, processes, torch_constants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

    from .arm_spec import ArmSpec
    from .rank_process import RankProcess

RAS_ADDRESS = ("127.0.0.1", 28028)  # NVIDIA/nccl src/ras/ras_internal.h, NCCL_RAS_ADDR changes it
DUMP_SECONDS = 2.5  # torch's monitor thread looks at the pipe once a second (TORCH_NCCL_COORD_CHECK_MILSEC)
PY_SPY_SECONDS = 4.0
PY_SPY_RANKS = 4


def variables(folder: str, arm: str, rank: int, given: Mapping[str, str]) -> Dict[str, str]:
    """What a rank over NCCL needs in its environment to leave evidence; what the user has set stays as it is.

    The recorder's variables have two names, before and after torch 2.9. `*_PIPE_FILE` makes a dump possible before the library's
    own time-out, which is far beyond our deadline: one byte in PREFIX<rank>.pipe asks for it. With
    TORCH_NCCL_ASYNC_ERROR_HANDLING=1, which torchrun sets, dumps are not reliable (pytorch#121055).
    """
    prefix = os.path.join(folder, arm)
    wanted = {
        "TORCH_FR_BUFFER_SIZE": "2000", "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000", "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_FR_DUMP_TEMP_FILE": prefix + ".fr_", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": prefix + ".fr_",
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": prefix + ".frpipe_", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "3",
    }  # fmt: skip
    if "TORCH_NCCL_TRACE_BUFFER_SIZE" in given:
        del wanted["TORCH_FR_BUFFER_SIZE"]
    else:
        # torch 2.11 prints a warning when it meets the old name; older ones know no other
        import torch

        if _release(str(getattr(torch, "__version__", ""))) >= (2, 9):
            del wanted["TORCH_NCCL_TRACE_BUFFER_SIZE"]
    if "NCCL_DEBUG" not in given and "NCCL_DEBUG_FILE" not in given:
        # A file of its own: the rank's output is searched for errors, and INFO lines tell of much that is in order.
        wanted.update(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,NET,GRAPH,ENV", NCCL_DEBUG_FILE="%s-%d.nccl" % (prefix, rank))
    return {name: value for name, value in wanted.items() if name not in given}


def _release(version: str) -> Tuple[int, int]:
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else (0, 0)


def has_diagnostics(torch: Any) -> bool:
    """NCCL can test itself from 2.31 on. The version is a constant of the library; no device is asked."""
    version = torch_constants.nccl_version(torch_constants.ask(torch, "_C._nccl_version"))
    return version is not None and version >= (2, 31)


def print_by_line() -> None:
    """NCCL prints its diagnostics with C's stdout, which keeps them back when that is a file, and a rank does not leave by exit()."""
    try:
        import ctypes

        library = ctypes.CDLL(None)
        library.setvbuf(ctypes.c_void_p.in_dll(library, "stdout"), None, 1, ctypes.c_size_t(0))  # _IOLBF
    except (OSError, ValueError, AttributeError):  # another C library: the report may be lost, which reads as no report
        return


def gather(folder: str, arm: ArmSpec, hung: Sequence[RankProcess]) -> None:
    """Ask while the ranks still stand where they hang."""
    prefix = os.path.join(folder, arm["name"])
    if arm["backend"] == "nccl":
        pipes = [path for path in ("%s.frpipe_%d.pipe" % (prefix, one.number) for one in hung) if poke(path)]
        began = time.monotonic()
        answer = ask_ras()
        if answer:
            with open(prefix + ".ras", "w", encoding="utf-8", errors="replace") as file:
                file.write(answer)
        while pipes and time.monotonic() < began + DUMP_SECONDS and not all(_dumped(prefix, one.number) for one in hung):
            time.sleep(0.05)
    spy([(one.pid, "%s-%d.py-spy" % (prefix, one.number)) for one in hung[:PY_SPY_RANKS]])


def poke(path: str) -> bool:
    """One byte into the recorder's pipe. Without a reader on the other side there is nobody to answer."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        os.write(fd, b"1\n")
        return True
    except OSError:
        return False
    finally:
        os.close(fd)


def _dumped(prefix: str, rank: int) -> bool:
    try:
        return os.path.getsize("%s.fr_%d" % (prefix, rank)) > 0
    except OSError:
        return False


def ask_ras(address: Optional[Tuple[str, int]] = None, seconds: float = 3.0) -> str:
    """The state of all communicators by NCCL's RAS service (from 2.24 on): JSON from 2.28.7 on, else text; "" without an answer.

    CLIENT PROTOCOL 2 → SERVER PROTOCOL 2; TIMEOUT 2 → OK; SET FORMAT json → OK; VERBOSE STATUS → the state, then it closes.
    NVIDIA/nccl src/ras/client_support.cc
    """
    address = address or ras_address(os.environ)
    deadline = time.monotonic() + seconds
    try:
        with socket.create_connection(address, timeout=min(1.0, seconds)) as link:
            reader = _Lines(link, deadline)
            link.sendall(b"CLIENT PROTOCOL 2\n")
            if not reader.line().startswith("SERVER PROTOCOL"):
                return ""  # somebody else listens there
            link.sendall(b"TIMEOUT 2\n")
            reader.line()
            link.sendall(b"SET FORMAT json\n")
            reader.line()  # "ERROR: Unknown command" of an old one: it answers in text then
            link.sendall(b"VERBOSE STATUS\n")
            return reader.rest()
    except OSError:
        return ""


def ras_address(given: Mapping[str, str]) -> Tuple[str, int]:
    """NCCL_RAS_ADDR=host:port, else the default."""
    host, colon, port = given.get("NCCL_RAS_ADDR", "").rpartition(":")
    return (host.strip("[]"), int(port)) if colon and host and port.isdecimal() and len(port) < 6 else RAS_ADDRESS


class _Lines:
    """Lines from a socket, and everything until it closes; OSError at the deadline."""

    def __init__(self, link: socket.socket, deadline: float) -> None:
        self.link, self.deadline, self.data = link, deadline, b""

    def more(self) -> bool:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise OSError("no time left")
        self.link.settimeout(left)
        part = self.link.recv(65536)
        self.data += part
        return bool(part) and len(self.data) < 64 << 20

    def line(self) -> str:
        while b"\n" not in self.data and self.more():
            pass
        line, _, self.data = self.data.partition(b"\n")
        return line.decode("utf-8", "replace")

    def rest(self) -> str:
        try:
            while self.more():
                pass
        except OSError:
            if not self.data:
                raise
        return self.data.decode("utf-8", "replace")


def spy(wanted: Sequence[Tuple[int, str]]) -> None:
    """Stacks by py-spy where it is installed: it also sees a thread that never comes back to Python. It may be forbidden (ptrace)."""
    beside = os.path.join(os.path.dirname(sys.executable), "py-spy")
    program = beside if os.access(beside, os.X_OK) else shutil.which("py-spy")
    if not program:
        return
    running: List[Tuple[subprocess.Popen[bytes], str]] = []
    try:
        for pid, path in wanted:
            with open(path, "wb") as out:
                # --nonblocking: a stopped process must not stop us
                argv = [program, "dump", "--nonblocking", "--pid", str(pid)]
                running.append((subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out), path))
        deadline = time.monotonic() + PY_SPY_SECONDS
        while time.monotonic() < deadline and any(process.poll() is None for process, _ in running):
            for _, path in running:
                processes.emptied_above(path, processes.LOG_LIMIT)
            time.sleep(0.02)
    except OSError:
        pass
    finally:
        for process, _ in running:
            if process.poll() is None:
                process.kill()
                try:
                    process.wait(1)
                except subprocess.TimeoutExpired:
                    pass


def complaints(path: str, limit: int = 3000) -> str:
    """The WARN lines of a rank's NCCL log: what its output would hold if NCCL wrote there.

    [2026-11-27 21:46:55] vm:1822:1822 [0] bootstrap.cc:114 NCCL WARN Bootstrap : no socket interface found
    """
    try:
        with open(jsonl.plain_file(path), "rb") as file:
            text = file.read(16 << 20).decode("utf-8", "replace")
    except OSError:
        return ""
    found = [line for line in text.splitlines() if " NCCL WARN " in line]
    return "".join(line[:1000] + "\n" for line in found[:20])[:limit]
