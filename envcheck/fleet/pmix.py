"""Open MPI's own answer to where rank 0 is: its variables do not hold it, its server (PMIx) knows it.

libpmix is loaded in a child, which may crash or hang. The child is this file: it imports nothing of envcheck.
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from envcheck.fleet.seat import JobTold

SECONDS = 5.0  # it takes 0.05 s
LIBRARY = "libpmix.so.2"
# pmix_common.h
_NAMESPACE_BYTES, _STRING, _EVERY_RANK = 256, 3, 0xFFFFFFFE
_HOST_OF_RANK, _HOSTS_OF_JOB = b"pmix.hname", b"pmix.nlist"


def may_ask(env: Mapping[str, str], command_follows: bool) -> bool:
    """Whether mpirun started this process, and the question costs the command that follows nothing.

    Open MPI before release 5 takes a rank's second session for a stranger's: an MPI_Init after ours fails there.
    """
    return "PMIX_NAMESPACE" in env and "PMIX_RANK" in env and not (command_follows and "PRTE_LAUNCHED" not in env)


def ask(env: Mapping[str, str]) -> JobTold | None:
    """Host of rank 0 and the hosts of the job; None where nobody answers."""
    from envcheck.fleet.seat import JobTold
    from envcheck.host.access import run_command
    from envcheck.host.home import with_own_home
    from envcheck.host.ownership import safe_variables

    given = with_own_home(safe_variables(env)[0])  # PATH names the library's folder, and HOME holds what it loads
    words = (sys.executable, "-I", "-S", os.path.abspath(__file__), *_libraries(given))
    done = run_command(words, timeout=SECONDS, env=given)
    try:
        said = json.loads("" if done.timed_out else done.stdout)
        master, hosts = said["master"], tuple(said["hosts"].split(","))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if not isinstance(master, str) or not master:
        return None
    return JobTold(master, hosts if master in hosts else ())


def _libraries(env: Mapping[str, str]) -> Iterator[str]:
    """Where Open MPI keeps the library: its own folder before the system's, whose release may be another one."""
    import shutil

    from envcheck.host.plain_files import real_path

    started = shutil.which("mpirun", path=env.get("PATH"))
    roots = [env.get("OMPI_LIBDIR_LOC"), f"{env['OPAL_PREFIX']}/lib" if env.get("OPAL_PREFIX") else None]
    roots.append(os.path.join(os.path.dirname(os.path.dirname(real_path(started))), "lib") if started else None)
    for root in filter(None, roots):
        yield from (path for part in ("", "openmpi") if os.path.isfile(path := os.path.join(root, part, LIBRARY)))
    yield LIBRARY


def _child(libraries: list[str]) -> None:
    import ctypes

    class Process(ctypes.Structure):
        _fields_ = (("namespace", ctypes.c_char * _NAMESPACE_BYTES), ("rank", ctypes.c_uint32))

    class Value(ctypes.Structure):
        _fields_ = (("type", ctypes.c_uint16), ("text", ctypes.c_char_p))

    library = None
    for name in libraries:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        break
    me, nothing = Process(), ctypes.c_size_t(0)
    if library is None or library.PMIx_Init(ctypes.byref(me), None, nothing) != 0:
        return

    def text(rank: int, key: bytes) -> str | None:
        whose, value = Process(me.namespace, rank), ctypes.POINTER(Value)()
        if library.PMIx_Get(ctypes.byref(whose), key, None, nothing, ctypes.byref(value)) != 0 or value.contents.type != _STRING:
            return None
        return value.contents.text.decode("utf-8", "replace") if value.contents.text else None

    print(json.dumps({"master": text(0, _HOST_OF_RANK), "hosts": text(_EVERY_RANK, _HOSTS_OF_JOB) or ""}), flush=True)
    library.PMIx_Finalize(None, nothing)


if __name__ == "__main__":
    _child(sys.argv[1:])
