"""The hosts themselves, and what real launchers set on them: what `envcheck fleet` is started by."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hosts import OPEN_MPI, Cluster, finish, lacking, soon

pytestmark = pytest.mark.cluster

NAMES = {
    "srun": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NNODES", "SLURM_STEP_NODELIST", "SLURM_JOB_ID"),
    "mpirun": (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "OMPI_COMM_WORLD_NODE_RANK",
    ),
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT"),
}
# Where all of a host's processes share a pipe, one write keeps a line whole.
TELL = """
import json, os, socket, sys
told = {name: os.environ.get(name) for name in sys.argv[1].split(",")}
os.write(1, (json.dumps({"host": socket.gethostname(), "address": socket.gethostbyname(socket.gethostname()), **told}) + "\\n").encode())
"""
SINK = """
import socket
connection, _ = socket.create_server(("", 7000)).accept()
while connection.recv(1 << 20):
    pass
"""
SEND = """
import socket, time
for _ in range(100):
    try:
        connection = socket.create_connection(("n1", 7000))
        break
    except OSError:
        time.sleep(0.1)
connection.sendall(bytes(500_000))
connection.shutdown(1)
connection.recv(1)
"""


def told(text: str) -> dict[str, dict[str, Any]]:
    """host → what its process said."""
    lines = [json.loads(line) for line in re.findall(r"\{.*\}", text)]
    assert len(lines) == len({line["host"] for line in lines})
    return {line.pop("host"): line for line in lines}


def test_hosts_have_names_addresses_and_processes_of_their_own_always(cluster: Cluster) -> None:
    assert [host.run("hostname").stdout.strip() for host in cluster.hosts] == ["n1", "n2", "n3", "n4"]
    assert cluster[1].run("getent", "hosts", "n3").stdout.split() == ["10.77.0.3", "n3"]
    assert cluster[1].run("ls", "/sys/class/net").stdout.split() == ["eth0", "lo"]
    sleeper = cluster[2].start("sleep", "1000")
    assert soon(lambda: list(cluster[2].processes().values()) == ["sleep 1000"], 10)
    assert cluster[1].processes() == {}
    assert cluster[2].signal(signal.SIGKILL, "sleep") != []
    assert finish(sleeper, 10).returncode != 0


def test_faults_of_the_network_bite_and_are_undone_always(cluster: Cluster) -> None:
    listener = cluster[2].start(sys.executable, "-m", "http.server", "8000")
    get = (sys.executable, "-c", "import urllib.request as r, sys; print(r.urlopen(sys.argv[1], timeout=2).status)", "http://n2:8000/")
    assert soon(lambda: cluster[1].run(*get).stdout == "200\n", 20)
    cluster[2].firewall("tcp dport 8000 drop")
    assert "timed out" in cluster[1].run(*get).stderr
    cluster[2].firewall("tcp dport 8000 reject with tcp reset")
    assert "refused" in cluster[1].run(*get).stderr
    cluster.heal()
    cluster[2].know({"n1": "127.0.1.1"})
    assert cluster[2].run("getent", "hosts", "n1").stdout.split() == ["127.0.1.1", "n1"]
    cluster.heal()
    assert cluster[1].run(*get).stdout == "200\n"
    cluster[2].signal(signal.SIGKILL, "http.server")
    finish(listener, 10)


def test_nothing_is_left_of_a_cluster_whose_maker_was_killed(cluster: Cluster, tmp_path: Path) -> None:
    """Also its network: the machine's own interfaces are the same before, during and after."""
    interfaces = sorted(os.listdir("/sys/class/net"))
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); from hosts import Cluster; c = Cluster(2); p = c[1].start('sleep', '987654');"
        "print(c.folder, c[1].pid, c[2].pid, flush=True); sys.stdin.read()"
    )
    maker = subprocess.Popen(
        [sys.executable, "-c", script, str(Path(__file__).parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert maker.stdout is not None and maker.stdin is not None
    folder, *pids = maker.stdout.readline().split()
    assert sorted(os.listdir("/sys/class/net")) == interfaces
    assert all(Path(f"/proc/{pid}").exists() for pid in pids)
    maker.kill()
    maker.wait(10)
    maker.stdin.close()
    maker.stdout.close()
    assert soon(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), 10)
    assert Path(folder).is_dir()
    with Cluster(1):
        assert not Path(folder).exists()  # the next one sweeps
    assert sorted(os.listdir("/sys/class/net")) == interfaces


def test_srun_over_four_hosts_always(slurm: Cluster, cluster: Cluster) -> None:
    done = cluster.head.run("srun", "-N4", sys.executable, "-c", TELL, ",".join(NAMES["srun"]))
    assert done.returncode == 0, done.stderr
    said = told(done.stdout)
    assert {host: one["address"] for host, one in said.items()} == {f"n{n}": f"10.77.0.{n}" for n in (1, 2, 3, 4)}
    assert {host: one["SLURM_PROCID"] for host, one in said.items()} == {"n1": "0", "n2": "1", "n3": "2", "n4": "3"}
    assert {one["SLURM_STEP_NODELIST"] for one in said.values()} == {"n[1-4]"}
    assert {(one["SLURM_NTASKS"], one["SLURM_NNODES"], one["SLURM_LOCALID"]) for one in said.values()} == {("4", "4", "0")}
    assert len({one["SLURM_JOB_ID"] for one in said.values()}) == 1


def test_a_cancelled_step_leaves_no_process(slurm: Cluster, cluster: Cluster) -> None:
    step = cluster.head.start("srun", "-N4", "sleep", "876543")
    assert soon(lambda: all("sleep 876543" in " ".join(host.processes().values()) for host in cluster.hosts), 20)
    cluster.head.run("scancel", "--user=root")
    assert finish(step, 30).returncode != 0
    assert soon(lambda: not any("sleep" in line for host in cluster.hosts for line in host.processes().values()), 20)


@pytest.mark.skipif(lacking(OPEN_MPI) is not None, reason=lacking(OPEN_MPI) or "")
def test_mpirun_over_four_hosts_always(cluster: Cluster) -> None:
    done = cluster.head.run(*cluster.mpirun(sys.executable, "-c", TELL, ",".join(NAMES["mpirun"])))
    assert done.returncode == 0, done.stderr
    said = told(done.stdout)
    assert {host: one["OMPI_COMM_WORLD_RANK"] for host, one in said.items()} == {"n1": "0", "n2": "1", "n3": "2", "n4": "3"}
    assert {(one["OMPI_COMM_WORLD_SIZE"], one["OMPI_COMM_WORLD_LOCAL_SIZE"]) for one in said.values()} == {("4", "1")}
    assert {one["OMPI_COMM_WORLD_NODE_RANK"] for one in said.values()} == {"0"}  # a rank within the node: no number of the node


def test_torchrun_over_four_hosts_always(cluster: Cluster, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    program = tmp_path / "tell.py"
    program.write_text(TELL)
    command = (sys.executable, "-m", "torch.distributed.run", "--nnodes", "4", "--nproc-per-node", "1", "--master-addr", "n1")
    agents = [
        host.start(*command, "--node-rank", str(rank), str(program), ",".join(NAMES["torchrun"])) for rank, host in enumerate(cluster.hosts)
    ]
    done = [finish(agent, 150) for agent in agents]
    assert [one.returncode for one in done] == [0, 0, 0, 0], [one.stderr[-500:] for one in done]
    said = told("".join(one.stdout for one in done))
    assert {host: (one["RANK"], one["GROUP_RANK"]) for host, one in said.items()} == {f"n{n + 1}": (str(n), str(n)) for n in range(4)}
    assert {(one["WORLD_SIZE"], one["MASTER_ADDR"], one["LOCAL_WORLD_SIZE"]) for one in said.values()} == {("4", "n1", "1")}


def test_a_slow_link_is_slow_and_a_frozen_host_silent(cluster: Cluster) -> None:
    """What later tests build on: 2 Mbit/s from n3, and a host whose processes are stopped."""
    cluster[3].shell("tc qdisc add dev eth0 root tbf rate 2mbit burst 16kb latency 500ms")
    sink = cluster[1].start(sys.executable, "-c", SINK)
    start = time.monotonic()
    assert cluster[3].run(sys.executable, "-c", SEND).returncode == 0
    assert time.monotonic() - start > 1.5  # 4 Mbit
    finish(sink, 10)
    sleeper = cluster[2].start("sleep", "1000")
    assert soon(lambda: "sleep 1000" in cluster[2].processes().values(), 10)
    stopped = cluster[2].signal(signal.SIGSTOP)
    assert soon(lambda: all("T" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in stopped), 10)
    cluster[2].signal(signal.SIGKILL)
    finish(sleeper, 10)
