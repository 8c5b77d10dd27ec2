"""What a machine without a GPU can do to a check and to `envcheck run`, each with the verdict that it must have: namespaces with odd
interfaces, filters of system calls, limits, file systems, a torch that lies, descriptors, signals, command lines.

`python -m pytest -m slow tests/commands/test_experiments.py` (six minutes on two cores; root, for most). `$E` is envcheck, `$PY` a Python
with torch, `$J` a report as JSON. A row that this machine cannot do (no namespace, no control group) ends with 99 and is skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

import pytest
from patients import HERE, all_gone, needs_torch

pytestmark = [
    needs_torch,
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="namespaces, limits and mounts of Linux, as root"),
]
SECONDS = 300  # a deadline, never a wait: --timeout ends a check
NETWORK = "unshare -n -m sh -c \"exit 0\" || exit 99; exec unshare -n -m sh -c '{}; exec $E --timeout 90 $J'"
MOUNTS = "unshare -m sh -c \"exit 0\" || exit 99; exec unshare -m sh -c '{}; exec $E --timeout 90 $J'"
FILLED = MOUNTS.format("mount -t tmpfs -o {} none $TMPDIR; PYTHONPATH=$FAULTS/filling:$PYTHONPATH; export FILLS={}")
FILTER = "$FILTERED 999 1 true || exit 99; exec $FILTERED {} $E --timeout 90 $J"
GROUP = "d=/sys/fs/cgroup/{kind}/envcheck-$$; mkdir $d 2>/dev/null && echo {value} > $d/{file} || exit 99\n" + (
    "(echo $BASHPID > $d/cgroup.procs; exec $E --timeout 60 $J); code=$?"
    "; for i in 1 2 3 4 5 6 7 8 9; do rmdir $d 2>/dev/null && break; sleep 1; done; exit $code"
)
LIE = """mkdir s; cat > s/sitecustomize.py <<'EOF'
import builtins, sys, time
real, done = builtins.__import__, []
def hook(name, *rest, **more):
    module = real(name, *rest, **more)
    t = sys.modules.get("torch")
    if t is not None and not done and hasattr(t, "compile") and hasattr(getattr(t, "distributed", None), "all_reduce"):
        done.append(1)
        lie(t)
    return module
builtins.__import__ = hook
def lie(t):
    {}
EOF
export PYTHONPATH=$PWD/s:$PYTHONPATH; exec $E --timeout 90 $J"""
# name, script, exit code, rules that the report names as errors, or as warnings where it ends with 0 or 3, words of its messages and fixes
Row = tuple[str, str, int, tuple[str, ...], tuple[str, ...]]
CHECKS: list[Row] = [
    ("loopback down", NETWORK.format("true"), 1, ("gloo-interface",), ("ip link set lo up",)),
    ("loopback without its address",
     NETWORK.format("ip link set lo up; ip addr flush dev lo"), 1, ("gloo-interface",), ("ip addr add 127.0.0.1/8",)),
    ("loopback by another name", NETWORK.format("ip link set lo name loop0; ip link set loop0 up"), 0, (), ()),
    ("loopback with an MTU of 576", NETWORK.format("ip link set lo up mtu 576"), 0, (), ()),
    ("no IPv6", NETWORK.format("ip link set lo up; echo 1 > /proc/sys/net/ipv6/conf/lo/disable_ipv6"), 0, (), ()),
    ("200 interfaces",
     NETWORK.format("ip link set lo up; for i in $(seq 200); do ip link add d$i type bridge || exit 99; done"), 0, (), ()),
    ("an interface that is not UTF-8",
     NETWORK.format('ip link set lo up; ip link add "$(printf x\\\\377)" type bridge || exit 99'), 0, (), ()),
    ("two local ports",
     NETWORK.format("ip link set lo up; echo 40000 40001 > /proc/sys/net/ipv4/ip_local_port_range"), 1, ("local-ports-few",),
     ("2 local ports", "40000 to 40001", "ip_local_port_range")),
    ("a queue of no connection", NETWORK.format("ip link set lo up; echo 0 > /proc/sys/net/core/somaxconn"), 0, (), ()),
    ("no /etc/hosts, passwd, resolv.conf",
     MOUNTS.format("for i in hosts passwd group resolv.conf nsswitch.conf; do mount --bind /dev/null /etc/$i; done"), 1,
     ("host-name-unresolved",), ("localhost is no name that is known", "/etc/hosts")),
    ("/dev/shm read-only", MOUNTS.format("mount -t tmpfs -o ro none /dev/shm"), 1, ("shm-small",), ("read-only", "remount,rw")),
    ("/dev/shm full",
     MOUNTS.format("mount -t tmpfs -o size=64k none /dev/shm; head -c 65536 /dev/zero > /dev/shm/x"), 0, ("shm-small",), ("0 KiB free",)),
    ("/dev/shm noexec", MOUNTS.format("mount -t tmpfs -o noexec none /dev/shm"), 0, (), ()),
    ("no /dev/shm",
     MOUNTS.format("mount -t tmpfs none /dev; mknod /dev/null c 1 3; mknod /dev/urandom c 1 9"), 1, ("shm-small",), ("mount -t tmpfs",)),
    ("TMPDIR noexec", MOUNTS.format("mount -t tmpfs -o noexec none $TMPDIR"), 0, (), ()),
    ("TMPDIR of 64 KiB, and much is printed", FILLED.format("size=64k", "import"), 1, ("disk-full",), ("of 64 KiB free",)),
    ("TMPDIR of 256 KiB, and nobody minds", FILLED.format("size=256k", "silently"), 1, ("disk-full",), ("of 256 KiB free",)),
    ("TMPDIR of 1 MiB, and much is printed", FILLED.format("size=1m", "import"), 1, ("disk-full",), ("of 1 MiB free",)),
    ("TMPDIR of 40 files", FILLED.format("nr_inodes=40", "files"), 1, ("disk-full",), ("room for 0 more files",)),
    ("TMPDIR full after the import", FILLED.format("size=1m", "later"), 1, ("disk-full",), ("of 1 MiB free",)),
    ("TMPDIR full in the live step", FILLED.format("size=1m", "group"), 1, ("disk-full",), ("of 1 MiB free",)),
    ("TMPDIR full before", FILLED.format("size=16k", ""), 0, ("disk-full",), ("of 16 KiB free",)),
    ("no /proc", MOUNTS.format("mount -t tmpfs none /proc"), 0, (), ()),
    ("bind refused", FILTER.format("49 1"), 1, ("system-call-refused",), ("bind: Operation not permitted",)),
    ("recvmsg refused", FILTER.format("46,47 1"), 1, ("system-call-refused",), ("recvmsg: Operation not permitted",)),
    ("no epoll", FILTER.format("291,213 38"), 1, ("system-call-refused",), ("epoll_create1: Function not implemented",)),
    ("connect refused", FILTER.format("42 1"), 1, ("system-call-refused",), ("connect: Operation not permitted",)),
    ("no socket", FILTER.format("41 38"), 1, ("system-call-refused",), ("socket: Function not implemented",)),
    ("accept refused", FILTER.format("43,288 1"), 1, ("system-call-refused",), ("accept4: Operation not permitted",)),
    ("listen and getsockname refused", FILTER.format("50,51 1"), 1, ("system-call-refused",), ("getsockname: Operation not permitted",)),
    ("no processes and threads", FILTER.format("56,435 1"), 1, ("system-call-refused",), ("clone3: Operation not permitted",)),
    ("sched_getaffinity refused", FILTER.format("204 1"), 1, ("system-call-refused",), ("sched_getaffinity: Operation not permitted",)),
    ("no clone3, prlimit, memfd, io_uring and sched_setaffinity", FILTER.format("435,302,319,425,426,427,203 38"), 0, (), ()),
    ("no eventfd", FILTER.format("290,284 24"), 1, ("live-failed",), ()),
    ("setsockopt refused", FILTER.format("54 1"), 1, ("system-call-refused",), ("setsockopt: Operation not permitted",)),
    ("rename refused", FILTER.format("82,264,316 1"), 0, (), ()),
    ("fsync fails", FILTER.format("74,75 5"), 0, (), ()),
    ("kill refused", FILTER.format("62,234,424 1"), 0, (), ()),
    ("no memfd and getrandom", FILTER.format("319,318 38"), 0, (), ()),
    ("readlink refused", FILTER.format("89,267 13"), 0, (), ()),
    ("DDP that reduces nothing", LIE.format("t.nn.parallel.distributed.DistributedDataParallel.forward = lambda s, *a: s.module(*a)"),
     1, ("live-wrong-result",), ("must be 1.5",)),
    ("a rank that takes itself for 0",
     LIE.format("t.distributed.get_rank = lambda *a, **k: 0"), 1, ("live-wrong-result",), ("get_rank() is 0 and must be 1",)),
    ("a destroy that hangs",
     LIE.format("t.distributed.destroy_process_group = lambda *a, **k: time.sleep(1000)"), 1, ("live-hang",), ("destroy",)),
    ("a GPU that is none", LIE.format("t.cuda.is_available = lambda: True; t.cuda.device_count = lambda: 1"), 0, (), ()),
    ("a version that is a number", LIE.format("t.__version__ = 213"), 1, ("torch-dynamo-broken",), ("'int' is not iterable",)),
    ("an answer that exits", LIE.format("t.version.cuda = '12.6'; t.cuda.is_available = lambda: sys.exit(5)"), 0, (), ()),
    ("an answer that ends the process",
     LIE.format("import os; t.version.cuda = '12.6'; t.cuda.is_available = lambda: os._exit(0)"), 0, (), ()),
    ("a handler for every signal", LIE.format(
        "import signal; [signal.signal(s, lambda *a: None) for s in signal.valid_signals() if s not in (9, 19, 32, 33)]"), 0, (), ()),
    ("an exit that hangs", LIE.format("import atexit; atexit.register(lambda: time.sleep(1000))"), 0, (), ()),
    ("20 threads that never end",
     LIE.format("import threading; [threading.Thread(target=lambda: time.sleep(1000)).start() for _ in range(20)]"), 0, (), ()),
    ("five children that live on", LIE.format("import subprocess; [subprocess.Popen(['sleep', '300']) for _ in range(5)]"), 0, (), ()),
    ("shared memory that is kept",
     LIE.format("from multiprocessing import shared_memory as s; t._kept = s.SharedMemory(create=True, size=1 << 20)"), 0, (), ()),
    ("every descriptor closed", LIE.format("import os; os.closerange(3, 1000)"), 0, (), ()),
    ("a word that TORCH_DISTRIBUTED_DEBUG does not know",
     "TORCH_DISTRIBUTED_DEBUG=YES exec $E $J", 1, ("variable-refused",), ("unset TORCH_DISTRIBUTED_DEBUG",)),
    ("a log that TORCH_LOGS does not know", "TORCH_LOGS=nonsense exec $E $J", 1, ("variable-refused",), ("unset TORCH_LOGS",)),
    ("a transport that gloo does not know",
     "GLOO_DEVICE_TRANSPORT=NOSUCH exec $E $J", 1, ("gloo-interface",), ("unset GLOO_DEVICE_TRANSPORT",)),
    ("a port that is no number",
     "MASTER_ADDR=localhost RANK=0 WORLD_SIZE=1 MASTER_PORT=abc exec $E $J", 1, ("launch-master-port",), ("'abc'",)),
    ("a file in front of a module",
     "mkdir s; touch s/random.py; PYTHONPATH=$PWD/s:$PYTHONPATH exec $E $J", 1, ("torch-shadowed",), ("random.py",)),
    ("16 descriptors", "ulimit -n 16; exec $E --timeout 90 $J", 1, ("open-files-low",), ("limit here: 16",)),
    ("an address space of half a GiB", "ulimit -v 550000; exec $E --timeout 90 $J", 1, ("ulimit-low",), ("ulimit -v unlimited",)),
    ("an address space of two GB", "ulimit -v 2000000; exec $E --timeout 90 $J", 0, (), ()),
    ("a data segment of 300 MB", "ulimit -d 300000; exec $E --timeout 90 $J", 1, ("ulimit-low",), ("ulimit -d unlimited",)),
    ("two seconds of CPU time",
     "ulimit -c 0; ulimit -S -t 2; " + LIE.format("while time.process_time() < 9: pass"), 1, ("ulimit-low",),
     ("SIGXCPU", "ulimit -t unlimited")),
    ("files of 100 KiB", "ulimit -f 100; exec $E --timeout 90 $J", 1, ("shm-small",), ("ulimit -f unlimited",)),
    ("no pending signals", "ulimit -i 0; exec $E $J", 0, (), ()),
    ("SIGCHLD ignored", "trap '' CHLD; exec $E $J", 0, (), ()),
    ("all signals blocked", "exec $PY -c 'import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals());"
     ' os.execv(sys.executable, [sys.executable, "-m", "envcheck", *os.environ["J"].split()])\'', 0, (), ()),
    ("no standard streams", "exec $E $J <&- >&- 2>&-", 0, (), ()),
    ("a clock of 2020", "command -v faketime >/dev/null || exit 99; exec faketime -f '@2020-01-01 00:00:00' $E $J", 0, (), ()),
    ("a clock that jumps", "gcc -shared -fPIC -o j.so $FAULTS/jumping_clock.c || exit 99; LD_PRELOAD=$PWD/j.so exec $E $J", 0, (), ()),
    ("60 MiB of memory", GROUP.format(kind="memory", value="60M", file="memory.limit_in_bytes"), 1, ("host-memory-low",), ("60 MiB",)),
    ("120 MiB of memory", GROUP.format(kind="memory", value="120M", file="memory.limit_in_bytes"), 1, ("host-memory-low",), ("120 MiB",)),
    ("200 MiB of memory", GROUP.format(kind="memory", value="200M", file="memory.limit_in_bytes"), 1, ("host-memory-low",), ("200 MiB",)),
    ("eight tasks", GROUP.format(kind="pids", value="8", file="pids.max"), 1, ("processes-low",), ("allows 8 of them",)),
    ("forty tasks, and 64 threads a process",
     "export OMP_NUM_THREADS=64\n" + GROUP.format(kind="pids", value="40", file="pids.max"), 0, ("processes-nearly-used",),
     ("64 threads",)),
]  # fmt: skip
SAME = """cat > what.py <<'EOF'
import ctypes, os, resource, signal
print([(name, resource.getrlimit(getattr(resource, name))) for name in dir(resource) if name.startswith("RLIMIT_")])
print(os.nice(0), os.sched_getaffinity(0), signal.pthread_sigmask(signal.SIG_BLOCK, []), os.umask(0), sorted(os.listdir("/proc/self/fd")))
print(sorted(int(one) for one in signal.valid_signals() if signal.getsignal(one) is signal.SIG_IGN), os.getsid(0), os.getcwd())
value = ctypes.c_int()
ctypes.CDLL(None).prctl(37, ctypes.byref(value))
print(value.value, ctypes.CDLL(None).prctl(3), open("/proc/self/oom_score_adj").read())
EOF
{}; $PY what.py > alone; $E run {} -- $PY what.py > watched 2>/dev/null; cmp alone watched && echo same"""
R = "$E run --facts $NOTHING --"
WRAPPED = """printf '#!/bin/sh\\n"$PY" "$@"\\nexit $?\\n' > wrapper; chmod +x wrapper; mkdir s
cat > s/sitecustomize.py <<'EOF'
import builtins, os, time
real = builtins.__import__
def hook(name, *rest, **more):
    if name == "torch":
        open(os.environ["HOME"] + "/there", "w").close()
        time.sleep(600)
    return real(name, *rest, **more)
builtins.__import__ = hook
EOF
PYTHONPATH=$PWD/s:$PYTHONPATH $E --python $PWD/wrapper > out & check=$!
until [ -e $HOME/there ]; do kill -0 $check || exit 1; sleep 0.1; done
kill -9 $check; wait; rm -r "${TMPDIR:?}"/envcheck-*; echo killed"""
# name, script, what is printed on stdout
RUNS: list[tuple[str, str, str]] = [
    ("nothing is changed by the facts alone", SAME.format("true", "--facts $NOTHING"), "same"),
    ("nothing is changed by a check", SAME.format("true", "--fail-on never --timeout 90"), "same"),
    ("nothing is changed of what was changed",
     SAME.format("trap '' CHLD USR1 HUP; ulimit -n 300; umask 077; exec 7</dev/null 19>/dev/null", "--static --fail-on never"), "same"),
    ("a check is killed, and its wrapper does not exec", WRAPPED, "killed"),
    ("its parent is killed", f"{R} sh -c 'kill -9 $PPID; sleep 600'; echo $?", "137"),
    ("it leaves a daemon that keeps stdout", f"{R} sh -c 'sleep 5 & echo hi'; echo $?", "hi\n0"),
    ("the working folder is gone", f"mkdir d; cd d; rmdir ../d; {R} echo here; echo $?", "here\n0"),
    ("a time limit from outside", f"timeout 3 {R} sleep 600; echo $?", "124"),
    ("a long argument", f"{R} sh -c 'echo ${{#1}}' x $($PY -c 'print(\"a\" * 120000)'); echo $?", "120000\n0"),
    ("exit code 255", f"{R} sh -c 'exit 255'; echo $?", "255"),
    ("100 MB of output", f"$PY -c 'print(\"x\" * 99_999_999)' > p; {R} cat p | cmp - p && echo same", "same"),
    ("files of 512 bytes", f"ulimit -f 1; ulimit -c 0; {R} head -c 100000 /dev/zero > big; echo $?", "153"),
    ("ten descriptors", f"ulimit -n 10; {R} sh -c 'echo ok; exit 4'; echo $?", "ok\n4"),
    ("no pipes", f"$FILTERED 999 1 true || exit 99; $FILTERED 22,293 24 {R} sh -c 'echo ok; exit 4'; echo $?", "ok\n4"),
    ("no prctl", f"$FILTERED 999 1 true || exit 99; $FILTERED 157 1 {R} sh -c 'echo ok; exit 4'; echo $?", "ok\n4"),
    ("a full TMPDIR",
     "unshare -m sh -c 'exit 0' || exit 99; unshare -m sh -c 'mount -t tmpfs -o size=4k none $TMPDIR; head -c 4096 /dev/zero"
     f" > $TMPDIR/x; {R} echo ok; echo $?'", "ok\n0"),
    ("nothing can be written",
     "unshare -m sh -c 'exit 0' || exit 99; unshare -m sh -c 'mount --make-rprivate /; mount -o remount,ro,bind /;"
     " mount -t tmpfs -o ro none /dev/shm; $E run --static -- sh -c \"echo ok; exit 4\"; echo $?'", "ok\n4"),
    ("umask 777", f"umask 777; {R} sh -c 'echo ok'; echo $?", "ok\n0"),
    ("within another", f"{R} {R} sh -c 'exit 7'; echo $?", "7"),
    ("stderr closed", f"{R} sh -c 'echo ok; exit 4' 2>&-; echo $?", "ok\n4"),
    ("stdin and stdout closed", f"({R} sh -c 'exit 4' <&- >&-); echo $?", "4"),
]  # fmt: skip


@pytest.fixture(scope="module")
def filtered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("filtered") / "filtered"
    if compiler := shutil.which("gcc"):
        subprocess.run([compiler, "-o", str(program), str(HERE / "faults" / "filtered.c")], check=True)
    return program


def experiment(script: str, folder: Path, filtered: Path) -> tuple[int, str]:
    """Exit code and stdout; nothing may run or lie in TMPDIR afterwards."""
    word, work, temporary = uuid.uuid4().hex, folder / "work", tempfile.mkdtemp(prefix="experiment-")  # pytest's is too long for sockets
    work.mkdir()
    (folder / "nothing.toml").write_text("")  # a machine of which nothing is known
    given = {
        **os.environ, "E": f"{sys.executable} -m envcheck", "PY": sys.executable, "J": f"--json -o {folder}/report.json",
        "TMPDIR": temporary, "NOTHING": str(folder / "nothing.toml"),
        "HOME": str(folder), "FILTERED": str(filtered), "FAULTS": str(HERE / "faults"), "PYTHONDONTWRITEBYTECODE": "1", "MARK": word,
        "PYTHONPATH": str(HERE.parent),
    }  # fmt: skip
    process = subprocess.Popen(
        ["bash", "-c", script], cwd=work, env=given, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True, text=True, errors="replace",
    )  # fmt: skip
    try:
        out, said = process.communicate(timeout=SECONDS)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    left = os.listdir(temporary)
    shutil.rmtree(temporary)
    if process.returncode == 99:
        pytest.skip("this machine grants no such experiment")
    assert "internal error" not in said and process.returncode != 70, said
    assert all_gone(temporary) and left == [], "something is left"
    return process.returncode, out


def named(report: dict[str, Any]) -> dict[str, str]:
    """Rule → its words and those of its fixes, with what folded into it."""
    return {one["rule"]: json.dumps(one, ensure_ascii=False) for one in report["findings"] if one["severity"] in ("error", "warning")}


@pytest.mark.parametrize(("script", "code", "rules", "words"), [row[1:] for row in CHECKS], ids=[row[0] for row in CHECKS])
def test_a_check(script: str, code: int, rules: tuple[str, ...], words: tuple[str, ...], tmp_path: Path, filtered: Path) -> None:
    got, _ = experiment(script, tmp_path, filtered)
    report = json.loads((tmp_path / "report.json").read_text())
    found = named(report)
    assert (got, report["exit_code"]) == (code, code), (report["verdict"], report["because"], found)
    assert set(rules) <= set(found), found
    text = "".join(found.values())
    assert [word for word in words if word not in text] == []
    assert rules != ("disk-full",) or set(found) == {"disk-full"}, "what follows from it is said beside it"


@pytest.mark.parametrize(("script", "printed"), [row[1:] for row in RUNS], ids=[row[0] for row in RUNS])
def test_run(script: str, printed: str, tmp_path: Path, filtered: Path) -> None:
    assert experiment(script, tmp_path, filtered)[1].strip() == printed
