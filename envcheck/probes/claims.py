"""Processes of this host that were given the same rank of the same job, from /proc.

torch does not notice that a rank is taken twice: rank 0 alone is known by its port; of any other, each process writes its address under
its number into the store, where the last one stays (gloo/transport/tcp/context.cc), and the others' connections are kept without a word
(listener.cc). Which of them works, waits, or is told something else is a matter of milliseconds.
"""

from __future__ import annotations

import time

from envcheck.facts.program_names import base, is_python, run_by_python
from envcheck.host.access import Host
from envcheck.probes.listeners import SCAN_SECONDS, command_name, words_of

JOB = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def rank_claims(host: Host) -> tuple[str, ...]:
    """ "pid 812 (python train.py)", this process among them; () unless there are two.

    A claim is a tree of processes: a rank's own children inherit its variables. Trees count if they run the same program, since
    monitors and shells inherit the variables too. `envcheck run -- CMD` counts as CMD. A launcher gives the ranks of a job one user: what
    another one runs is none of them, whatever variables he has given it for root to read.
    """
    own = host.readlink("/proc/self")
    job = {name: host.env[name] for name in JOB if host.env.get(name)}
    if not own or len(job) < len(JOB) or job["WORLD_SIZE"].strip() == "1":
        return ()
    mine = user_of(host, own)
    network = host.readlink("/proc/self/ns/net")  # 127.0.0.1 of another container is another place
    deadline = time.monotonic() + SCAN_SECONDS
    parents: dict[str, str] = {}
    for pid in (own, *(host.listdir("/proc") or ())):
        if not pid.isdecimal() or time.monotonic() > deadline:
            continue
        if pid == own or (
            host.variables_of(pid, JOB) == job and host.readlink(f"/proc/{pid}/ns/net") == network and user_of(host, pid) == mine
        ):
            parents[pid] = parent_of(host.read(f"/proc/{pid}/stat", 4096))
    trees: dict[str, set[str]] = {}
    for pid in parents:
        trees.setdefault(_root(pid, parents), set()).update(programs(host.read(f"/proc/{pid}/cmdline", 1 << 16)))
    twins = [root for root, mine in trees.items() if any(mine & theirs for other, theirs in trees.items() if other != root)]
    names = {root: command_name(host.read(f"/proc/{root}/cmdline", 4096)) or "a process" for root in twins}
    return tuple(f"pid {root} ({names[root]})" for root in sorted(twins, key=int))


def user_of(host: Host, pid: str) -> str | None:
    """The number of the user who runs a process: "Uid:\t1000\t1000\t1000\t1000". None where nothing says it."""
    rows = (line.split() for line in (host.read(f"/proc/{pid}/status", 4096) or "").splitlines() if line.startswith("Uid:"))
    return next((row[1] for row in rows if len(row) > 1), None)


def parent_of(stat: str | None) -> str:
    """812 (my (odd) name) S 1 …: the parent's pid follows the state."""
    words = (stat or "").rpartition(")")[2].split()
    return words[1] if len(words) > 1 else ""


def _root(pid: str, parents: dict[str, str]) -> str:
    seen = {pid}
    while parents[pid] in parents and parents[pid] not in seen:
        pid = parents[pid]
        seen.add(pid)
    return pid


def programs(cmdline: str | None) -> set[str]:
    """What a Python process runs, as a word that two ranks of one job share: a script, a module, or the code after -c."""
    words = words_of(cmdline)
    if "run" in words and "--" in words[words.index("run") :] and any("envcheck" in word for word in words[:4]):
        return programs("\0".join(words[words.index("--") + 1 :]))
    if not words or not is_python(words[0]):
        return set()
    kind, what = run_by_python(words)
    return {"module": {f"-m {what}"}, "code": {f"-c {what}"}, "script": {base(what)}}.get(kind, set())
