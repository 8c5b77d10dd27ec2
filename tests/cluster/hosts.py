"""Several hosts on one machine for tests, each with its own network, name, /etc/hosts, /dev/shm and processes; Slurm and mpirun over them.

A cluster is a tree of namespaces. The head holds the bridge, the hosts n1, n2, … hang on it, and the head's first process reads from a
pipe of ours: when this program ends, however it ends, the kernel ends everything in there and takes the networks away. The machine's own
network, /etc, Slurm and munge are never touched, so that several clusters may run at a time.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path

NETWORK = "10.77.0"
HEAD = f"{NETWORK}.254"
BRIDGE = "br0"
# The first process of a host: it reaps orphans, and goes when the pipe of its maker closes.
FIRST = "import signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); print('up', flush=True); sys.stdin.read()"
NEEDED = {
    "iproute2": ("ip", "tc"),
    "nftables": ("nft",),
    "util-linux": ("unshare", "nsenter"),
}
SLURM = {"slurm-wlm": ("slurmctld", "slurmd", "srun", "sbatch", "scancel"), "munge": ("munged",)}
OPEN_MPI = {"openmpi-bin": ("mpirun",)}


class Broken(Exception):
    """The hosts cannot be made; one line."""


def program(name: str) -> str | None:
    """Daemons stand in /usr/sbin, which is not on everybody's path."""
    return shutil.which(name, path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin")


def lacking(*packages: Mapping[str, Iterable[str]]) -> str | None:
    """Why these cannot be used here."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "needs root on Linux, for namespaces"
    absent = [package for wanted in packages for package, names in wanted.items() if not all(map(program, names))]
    return f"needs apt-get install {' '.join(absent)}" if absent else _no_namespaces()


@cache
def _no_namespaces() -> str | None:
    script = "ip link add x type veth peer name y && ip link add z type bridge && mount -t tmpfs none /mnt"
    done = subprocess.run(
        ["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--mount-proc", "sh", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
    )
    return f"namespaces cannot be made: {done.stderr.strip()[:150]}" if done.returncode else None


class Host:
    """One host. Its processes are told by their PID namespace."""

    def __init__(self, name: str, address: str, folder: Path, inside: Host | None = None) -> None:
        self.name, self.address, self.folder = name, address, folder
        self._started: list[subprocess.Popen[str]] = []
        for sub in ("tmp", "cgroup"):
            (folder / sub).mkdir(parents=True, exist_ok=True)
        self.environment = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(folder),
            "TMPDIR": str(folder / "tmp"),
            "LANG": "C.UTF-8",
        }
        argv = ["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--mount-proc", sys.executable, "-c", FIRST]
        self._maker = subprocess.Popen(
            [*(inside.enter() if inside else ()), *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._maker.stdout is not None
        if self._maker.stdout.readline() != "up\n":
            self.end()
            raise Broken(f"host {name} did not start")
        self.pid = _last_descendant(self._maker.pid)
        self._namespace = os.readlink(f"/proc/{self.pid}/ns/pid")
        self.names: dict[str, str] = {}
        self._furnish()

    def _furnish(self) -> None:
        (self.folder / "hosts").write_text("127.0.0.1 localhost\n")
        (self.folder / "nsswitch.conf").write_text("passwd: files\ngroup: files\nshadow: files\nhosts: files\n")
        # A new sysfs shows this network's interfaces; slurmd looks for the cgroups that stood in the old one.
        self.shell(
            f"hostname {self.name}; ip link set lo up; mount -t tmpfs none /dev/shm\n"
            f"mount --rbind /sys/fs/cgroup {self.folder}/cgroup; mount -t sysfs sysfs /sys\n"
            f"mount --rbind {self.folder}/cgroup /sys/fs/cgroup\n"
            f"mount --bind {self.folder}/hosts /etc/hosts; mount --bind {self.folder}/nsswitch.conf /etc/nsswitch.conf\n"
        )

    def enter(self, seen_from: Host | None = None) -> list[str]:
        """The command that runs what follows it on this host, from the machine or from the host around it."""
        pid = self.pid if seen_from is None else _pid_within(self.pid, seen_from)
        return ["nsenter", "--target", str(pid), "--net", "--mount", "--uts", "--ipc", "--pid", "--"]

    def start(self, *argv: str, env: Mapping[str, str] | None = None, **options: object) -> subprocess.Popen[str]:
        """A process of this host, with nothing of our own environment; its output comes through pipes."""
        settings = [f"{name}={value}" for name, value in {**self.environment, **(env or {})}.items()]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
        command = [*self.enter(), "env", "-i", f"--chdir={self.folder}", *settings, *argv]
        process: subprocess.Popen[str] = subprocess.Popen(command, **{**pipes, **options})  # type: ignore[call-overload]
        self._started.append(process)
        return process

    def run(self, *argv: str, env: Mapping[str, str] | None = None, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        return finish(self.start(*argv, env=env), timeout)

    def shell(self, script: str, timeout: float = 60) -> str:
        """Runs a script of our own that has to succeed; what it printed."""
        done = self.run("sh", "-ec", script, timeout=timeout)
        if done.returncode:
            raise Broken(f"{self.name}: {script.strip()[:100]}: {done.stderr.strip()[:300]}")
        return done.stdout

    def know(self, names: Mapping[str, str]) -> None:
        """What its /etc/hosts says: name → address."""
        self.names = dict(names)
        lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in names.items())]
        # The file is mounted elsewhere: it is written in place, not replaced.
        (self.folder / "hosts").write_text("".join(f"{line}\n" for line in lines))

    def firewall(self, *rules: str, hook: str = "input") -> None:
        """Rules for what comes in, or goes out, where all else passes; without rules, none."""
        lines = "".join(f"    {rule}\n" for rule in rules)
        chain = f"table inet envcheck {{\n  chain it {{\n    type filter hook {hook} priority 0; policy accept;\n{lines}  }}\n}}\n"
        (self.folder / "nft").write_text("flush ruleset\n" + (chain if rules else ""))
        self.shell(f"nft -f {self.folder}/nft")

    def processes(self) -> dict[int, str]:
        """Its processes, as the machine numbers them, with their command lines; its first one left out."""
        found = {}
        for entry in os.listdir("/proc"):
            if entry.isdecimal() and int(entry) != self.pid:
                with contextlib.suppress(OSError):
                    if os.readlink(f"/proc/{entry}/ns/pid") == self._namespace and _state(int(entry)) not in "ZX":
                        found[int(entry)] = (
                            Path(f"/proc/{entry}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                        )
        return found

    def signal(self, number: signal.Signals, word: str = "", except_for: Iterable[int] = ()) -> list[int]:
        """To those of its processes in whose command line the word stands; which they were."""
        chosen = [pid for pid, line in self.processes().items() if word in line and pid not in except_for]
        for pid in chosen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if number != signal.SIGSTOP:  # nsenter stops when what it started is stopped
            for process in self._started:
                if process.poll() is None:
                    process.send_signal(signal.SIGCONT)
        return chosen

    def end(self) -> None:
        """All its processes with it."""
        assert self._maker.stdin is not None and self._maker.stdout is not None
        self._maker.stdin.close()
        try:
            self._maker.wait(10)
        except subprocess.TimeoutExpired:  # its first process is stopped or stuck
            with contextlib.suppress(ProcessLookupError, AttributeError):
                os.kill(self.pid, signal.SIGKILL)
            self._maker.kill()
            self._maker.wait(10)
        self._maker.stdout.close()
        for process in self._started:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
            process.wait(10)
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()


class Cluster:
    """The head and its hosts n1 … nN, each on eth0; `with Cluster(4) as cluster:`."""

    def __init__(self, size: int) -> None:
        _sweep()
        self.folder = Path(tempfile.mkdtemp(prefix="envcheck-cluster-"))
        (self.folder / "owner").write_text(_identity(os.getpid()))
        self.folder.chmod(0o755)  # munge asks that its socket can be reached by all
        self.hosts: list[Host] = []
        try:
            self.head = Host("head", HEAD, self.folder / "head")
            self.head.shell(f"ip link add {BRIDGE} type bridge; ip addr add {HEAD}/24 dev {BRIDGE}; ip link set {BRIDGE} up")
            for number in range(1, size + 1):
                host = Host(f"n{number}", f"{NETWORK}.{number}", self.folder / f"n{number}", self.head)
                self.hosts.append(host)
                self.plug(host, "eth0", BRIDGE, f"{host.address}/24")
            self.heal()
        except BaseException:
            self.end()
            raise

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def __getitem__(self, number: int) -> Host:
        """n1 is the first."""
        return self.hosts[number - 1]

    @property
    def names(self) -> dict[str, str]:
        return {host.name: host.address for host in (*self.hosts, self.head)}

    def plug(self, host: Host, interface: str, bridge: str | None, address: str) -> None:
        """A cable from a host into a bridge of the head's; None: its other end hangs loose in the head, so that it leads nowhere."""
        port = f"{host.name}-{interface}"[:15]
        self.head.shell(f"ip link add {port} type veth peer name {interface} netns {_pid_within(host.pid, self.head)}")
        self.head.shell(f"ip link set {port} {f'master {bridge} ' if bridge else ''}up")
        host.shell(f"ip addr add {address} dev {interface}; ip link set {interface} up")

    def unplug(self, host: Host, interface: str) -> None:
        host.shell(f"ip link del {interface}")

    def route(self, host: Host, mtu: int, tell: bool) -> None:
        """Puts a router before a host: the head, whose wire to it takes packets of `mtu` bytes. Where it does not tell the senders of
        larger ones that they were dropped, small messages pass and large ones never arrive: a black hole."""
        port = f"{host.name}-eth0"
        self.head.shell(
            f"sysctl -qw net.ipv4.ip_forward=1; ip link set {port} nomaster mtu {mtu}; ip route replace {host.address}/32 dev {port}"
        )
        for other in self.hosts:
            if other is host:
                host.shell(f"ip route replace {HEAD}/32 dev eth0; ip route replace {NETWORK}.0/24 via {HEAD}")
            else:
                other.shell(f"ip route replace {host.address}/32 via {HEAD}")
        self.head.firewall(*(() if tell else ("icmp type destination-unreachable drop",)), hook="output")

    def _unroute(self) -> None:
        for host in self.hosts:
            port = f"{host.name}-eth0"
            self.head.shell(f"ip link set {port} master {BRIDGE} mtu 1500; ip route del {host.address}/32 dev {port} 2>/dev/null || true")
            others = "".join(f"ip route del {one.address}/32 2>/dev/null || true; " for one in (*self.hosts, self.head))
            host.shell(f"{others} ip route replace {NETWORK}.0/24 dev eth0; ip route flush cache; ip neigh flush all")

    def heal(self) -> None:
        """Undoes what a test did: firewalls, names, routes, limits of links, stopped processes."""
        for host in (*self.hosts, self.head):
            host.signal(signal.SIGCONT)
            host.firewall()
            host.know(self.names)
        for host in self.hosts:
            host.shell("ip link set eth0 up mtu 1500; tc qdisc del dev eth0 root 2>/dev/null || true")
        self._unroute()

    def start_slurm(self) -> None:
        """slurmctld on the head, a slurmd on each host; returns when all are idle."""
        folder = self.folder / "slurm"
        for sub in ("state", "munge", *(f"spool/{host.name}" for host in self.hosts)):
            (folder / sub).mkdir(parents=True)
        self._start_munge(folder / "munge")
        (folder / "slurm.conf").write_text(_slurm_conf(folder, self.hosts))
        self.head.environment["SLURM_CONF"] = str(folder / "slurm.conf")
        for host in self.hosts:
            host.environment["SLURM_CONF"] = str(folder / "slurm.conf")
        self._daemon(self.head, "slurmctld", "-D", "-c", "-f", str(folder / "slurm.conf"))
        for host in self.hosts:
            self._daemon(host, "slurmd", "-D", "-f", str(folder / "slurm.conf"), "-N", host.name)
        self.wait_idle()

    def wait_idle(self, seconds: float = 60) -> None:
        def idle() -> bool:
            return self.head.run("sinfo", "-h", "-t", "idle", "-o", "%D").stdout.strip() == str(len(self.hosts))

        if not soon(idle, seconds):
            logs = {path.name: path.read_text()[-600:] for path in sorted(self.folder.glob("*/*.log"))}
            raise Broken(f"Slurm's hosts are not idle: {self.head.run('sinfo', '-N', '-l').stdout} {logs}")

    def _start_munge(self, folder: Path) -> None:
        key = folder / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        paths = [f"--{name}={folder}/{name}" for name in ("socket", "pid-file", "log-file", "seed-file")]
        self._daemon(self.head, "munged", "--foreground", "--force", f"--key-file={key}", *paths)
        if not soon((folder / "socket").exists, 20):
            raise Broken("munged opens no socket: " + (self.head.folder / "munged.log").read_text()[-300:])

    def _daemon(self, host: Host, name: str, *arguments: str) -> None:
        with open(host.folder / f"{name}.log", "w") as log:
            host.start(program(name) or name, *arguments, stdout=log, stderr=log)

    def mpirun(self, *arguments: str) -> list[str]:
        """The command for the head that starts processes on all hosts, with nsenter where others have ssh."""
        agent = self.folder / "remote-shell"
        cases = "".join(
            f"{host.name}) exec {' '.join(host.enter(self.head))} env -i "
            + " ".join(f"{name}={value}" for name, value in host.environment.items())
            + ' sh -c "$*" ;;\n'
            for host in self.hosts
        )
        agent.write_text(
            f"#!/bin/sh\nwhile case $1 in -*) true ;; *) false ;; esac; do shift; done\nhost=$1; shift\ncase $host in\n{cases}esac\n"
        )
        agent.chmod(0o755)
        hosts = ",".join(host.name for host in self.hosts)
        options = ["--mca", "plm_rsh_agent", str(agent), "--mca", "plm_rsh_no_tree_spawn", "1"]
        return ["mpirun", "--allow-run-as-root", *options, "--host", hosts, *arguments]

    def end(self) -> None:
        """Nothing of it is left, whatever ran there."""
        for host in reversed(self.hosts):
            host.end()
        if hasattr(self, "head"):
            self.head.end()
        shutil.rmtree(self.folder, ignore_errors=True)


def finish(process: subprocess.Popen[str], timeout: float) -> subprocess.CompletedProcess[str]:
    """What it printed and its code; what is not done in time is ended, and what it printed until then stands in the error."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        for child in _children(process.pid):  # nsenter itself passes no signal on
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        process.kill()
        out, err = process.communicate(timeout=10)
        raise AssertionError(f"not done after {timeout} s: {process.args}\n{out}\n{err}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def soon(true: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not (done := true()) and time.monotonic() < end:
        time.sleep(0.1)
    return done


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _last_descendant(pid: int) -> int:
    """nsenter and unshare wait for the program that they started, each for one."""
    while children := _children(pid):
        pid = children[0]
    return pid


def _pid_within(pid: int, host: Host) -> int:
    """How a process is numbered as seen from a host around it."""
    fields = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("NSpid:")).split()[1:]
    around = next(line for line in Path(f"/proc/{host.pid}/status").read_text().splitlines() if line.startswith("NSpid:")).split()[1:]
    return int(fields[len(around) - 1])


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _identity(pid: int) -> str:
    """A process, told from a later one of the same number."""
    return f"{pid} {Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[19]}"


def _sweep() -> None:
    """Folders of runs that were killed. Their processes and networks went with them."""
    for folder in Path(tempfile.gettempdir()).glob("envcheck-cluster-*"):
        try:
            owner = (folder / "owner").read_text()
        except OSError:
            continue  # being made, or being taken away
        try:
            alive = _identity(int(owner.split()[0])) == owner
        except (OSError, IndexError):
            alive = False
        if not alive:
            shutil.rmtree(folder, ignore_errors=True)


def _slurm_conf(folder: Path, hosts: Iterable[Host]) -> str:
    nodes = "".join(f"NodeName={one.name} NodeHostname={one.name} NodeAddr={one.address} CPUs=8 RealMemory=1000\n" for one in hosts)
    return f"""ClusterName=test
SlurmctldHost=head({HEAD})
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
SlurmdTimeout=3600
KillWait=5
{nodes}PartitionName=test Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:8
"""
