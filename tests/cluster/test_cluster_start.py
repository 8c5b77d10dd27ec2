"""`envcheck fleet` started by each launcher over four hosts, as README says it, and what starts after it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts import OPEN_MPI, Cluster, finish, lacking, soon

pytestmark = pytest.mark.cluster

ENVCHECK = (sys.executable, "-m", "envcheck.fleet")
# what is tried here is the start; the stages have tests of their own
QUICK = ("--deadline", "30", "--skip", "facts", "--skip", "links", "--skip", "world")
PLACE = re.compile(r"envcheck fleet: rank 0 of (\d+) on (\S+) .*by (\w+)")


def started(done: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    """World size, host of rank 0 and launcher, as rank 0 says them; nobody else does."""
    assert done.returncode == 0, done.stdout + done.stderr
    said = PLACE.findall(done.stderr)
    assert len(said) == 1, done.stderr
    return int(said[0][0]), said[0][1], said[0][2]


def test_srun_always(slurm: Cluster, cluster: Cluster) -> None:
    done = cluster.head.run("srun", "-N4", "--ntasks-per-node=2", *ENVCHECK, *QUICK)
    assert started(done) == (8, "n1", "slurm") and "(the first host of SLURM_STEP_NODELIST)" in done.stderr
    hosts_of = cluster.head.run("srun", "-w", "n[3-4]", "-N2", *ENVCHECK, *QUICK)
    assert started(hosts_of) == (2, "n3", "slurm")


@pytest.mark.skipif(lacking(OPEN_MPI) is not None, reason=lacking(OPEN_MPI) or "")
def test_mpirun_without_an_address_always(cluster: Cluster) -> None:
    """Its variables do not say where rank 0 is; its server does."""
    done = cluster.head.run(*cluster.mpirun(*ENVCHECK, *QUICK))
    assert started(done) == (4, "n1", "openmpi") and "rank 0 at n1" in done.stderr and "(PMIx, for rank 0)" in done.stderr


def test_torchrun(cluster: Cluster) -> None:
    pytest.importorskip("torch")
    command = (sys.executable, "-m", "torch.distributed.run", "--nnodes", "4", "--nproc-per-node", "1", "--master-addr", "n1")
    agents = [host.start(*command, "--node-rank", str(rank), "-m", "envcheck.fleet", *QUICK) for rank, host in enumerate(cluster.hosts)]
    done = [finish(agent, 150) for agent in agents]
    assert [one.returncode for one in done] == [0, 0, 0, 0], [one.stderr[-500:] for one in done]
    assert started(done[0]) == (4, "n1", "torchrun") and not any(PLACE.search(one.stderr) for one in done[1:])


@pytest.mark.parametrize(
    ("program", "flags"), [("launch", ()), ("launch", ("--use-env",)), ("run", ("--virtual-local-rank",)), ("run", ("--standalone",))]
)
def test_the_ways_in_which_torch_hands_on_the_local_rank(cluster: Cluster, program: str, flags: tuple[str, ...]) -> None:
    """As an argument, as a variable, or 0 for each rank of a host: LOCAL_RANK tells no two ranks apart."""
    pytest.importorskip("torch")
    command = (sys.executable, "-m", f"torch.distributed.{program}", "--nproc-per-node", "2", *flags)
    if flags == ("--virtual-local-rank",) and flags[0] not in cluster[1].run(*command[:3], "--help", timeout=90).stdout:
        pytest.skip("this torch does not know --virtual-local-rank")
    done = cluster[1].run(*command, "-m", "envcheck.fleet", *QUICK, timeout=150)
    assert started(done) == (2, "n1", "torchrun") and "(local rank 0 of 2" in done.stderr


def test_a_script_that_does_not_know_the_argument_of_torchs_launcher(cluster: Cluster, tmp_path: Path) -> None:
    """The words of the real launcher and the real argparse, as a user pastes them."""
    pytest.importorskip("torch")
    script, log = tmp_path / "train.py", tmp_path / "log.txt"
    script.write_text("import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--local_rank')\nparser.parse_args()\n")
    done = cluster[1].run(sys.executable, "-m", "torch.distributed.launch", "--nproc-per-node", "2", str(script), timeout=90)
    assert done.returncode != 0
    log.write_text(done.stdout + done.stderr)
    read = cluster[1].run(sys.executable, "-m", "envcheck", "diagnose", str(log), env={"PYTHONPATH": os.getcwd()})
    assert "launch-local-rank-argument" in read.stdout, log.read_text()


def test_the_name_that_torchrun_picks_itself_and_that_the_others_do_not_know(cluster: Cluster) -> None:
    """The endpoint is an address, and the agent of the first host tells its workers that host's own name."""
    pytest.importorskip("torch")
    for host in cluster.hosts:
        host.know({host.name: host.address})
    command = (sys.executable, "-m", "torch.distributed.run", "--nnodes", "4", "--nproc-per-node", "1", "--rdzv-backend", "c10d")
    place = ("--rdzv-endpoint", "10.77.0.1:29400", "--rdzv-id", "7")
    flags = ("-m", "envcheck.fleet", *QUICK, "--deadline", "5")
    agents = [host.start(*command, *place, "--rdzv-conf", f"is_host={host.name == 'n1'}", *flags) for host in cluster.hosts]
    done = [finish(agent, 150) for agent in agents]
    for host, one in list(zip(cluster.hosts, done, strict=True))[1:]:
        said = " ".join(one.stdout.split())
        told = f"On {host.name} the name of rank 0's host, n1, has no address"
        assert one.returncode and told in said and "fleet-rank0-unreachable" in said, (said, one.stderr[-800:])


def test_variables_that_are_handed_on_by_nobody(slurm: Cluster, cluster: Cluster) -> None:
    """`srun --export=NONE`: what Slurm itself sets is enough to meet."""
    env = {"MASTER_ADDR": "10.77.0.99", "MASTER_PORT": "29500", "PYTHONPATH": os.getcwd()}
    done = cluster.head.run("srun", "--export=NONE", "-N4", "/usr/bin/env", f"PYTHONPATH={os.getcwd()}", *ENVCHECK, *QUICK, env=env)
    assert started(done) == (4, "n1", "slurm") and "10.77.0.99" not in done.stderr


def test_several_torchruns_on_a_node_are_told_before_anything_connects(slurm: Cluster, cluster: Cluster) -> None:
    """Each torchrun counts itself alone, as with --standalone or the same endpoint of another."""
    pytest.importorskip("torch")
    command = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1", "-m", "envcheck.fleet")
    done = cluster.head.run("srun", "-N1", "-n2", *command, timeout=150)
    assert done.returncode != 0 and "[fleet-launchers-nested]" in done.stdout + done.stderr


def test_plain_python_in_a_batch_script(slurm: Cluster, cluster: Cluster, tmp_path: Path) -> None:
    script, out = tmp_path / "job.sh", tmp_path / "out"
    words = " ".join((*ENVCHECK, *QUICK))
    script.write_text(f"#!/bin/bash\nexport PYTHONPATH={os.getcwd()}\n{words}\necho alone $?\nsrun {words} -- echo started\necho all $?\n")
    cluster.head.run("sbatch", "--wait", "-N4", "-o", str(out), str(script), timeout=120)
    said = out.read_text()
    assert "fleet-outside-step" in said and "alone 1" in said and "4 nodes" in said
    assert said.count("started\n") == 4 and "all 0" in said


def test_the_batch_script_of_the_documentation(slurm: Cluster, cluster: Cluster, tmp_path: Path) -> None:
    """A host that is named bad: the job is submitted once more, without it, and trains there."""
    recipe = (Path(__file__).parents[2] / "recipes" / "fleet.sbatch").read_text()
    script, fake, out = tmp_path / "job.sh", tmp_path / "envcheck", tmp_path / "out"
    script.write_text(re.sub(r"(#SBATCH .*\n)+", f"#SBATCH --nodes=2 --chdir={tmp_path}\n", recipe))
    fake.write_text("#!/bin/sh\nfor last; do :; done\nif [ $SLURMD_NODENAME = n2 ]; then echo n2 > bad-hosts.txt; exit 4; fi\n")
    fake.chmod(0o755)
    env = {"ENVCHECK": str(fake), "TRAIN": "hostname"}
    first = cluster.head.run("sbatch", "--wait", "-w", "n[1-2]", "-o", str(out), str(script), env=env, timeout=90)
    assert first.returncode == 4, first.stderr
    again = [["n1", "n3"], ["n1", "n4"], ["n3", "n4"]]
    assert soon(lambda: sorted("".join(path.read_text() for path in tmp_path.glob("slurm-*.out")).split()) in again, 60)
    real = {"ENVCHECK": f"{sys.executable} -m envcheck", "TRAIN": "hostname", "PYTHONPATH": os.getcwd()}
    out.unlink()
    last = cluster.head.run("sbatch", "--wait", "-w", "n[3-4]", "-o", str(out), str(script), env=real, timeout=180)
    assert last.returncode == 0 and sorted(re.findall(r"^n\d$", out.read_text(), re.MULTILINE)) == ["n3", "n4"], out.read_text()


@pytest.fixture
def sleeping(slurm: Cluster, cluster: Cluster) -> Iterator[subprocess.Popen[str]]:
    step = cluster.head.start("srun", "-N4", *ENVCHECK, *QUICK, "--", "sleep", "765432")
    assert soon(lambda: all("sleep 765432" in " ".join(host.processes().values()) for host in cluster.hosts), 60)
    yield step
    finish(step, 60)


def test_a_cancelled_job_ends_the_command_that_followed(sleeping: subprocess.Popen[str], cluster: Cluster) -> None:
    cluster.head.run("scancel", "--user=root")
    assert soon(lambda: not any("sleep" in line for host in cluster.hosts for line in host.processes().values()), 30)


def test_the_commands_exit_code_is_the_jobs(slurm: Cluster, cluster: Cluster) -> None:
    done = cluster.head.run("srun", "-N2", *ENVCHECK, *QUICK, "--", "sh", "-c", "exit $((SLURM_PROCID * 7))")
    assert done.returncode == 7
    killed = cluster.head.run("srun", "-N1", *ENVCHECK, *QUICK, "--", "sh", "-c", "kill -KILL $$")
    assert killed.returncode == 128 + signal.SIGKILL


def test_the_command_starts_on_the_hosts_that_passed_always(slurm: Cluster, cluster: Cluster, tmp_path: Path) -> None:
    """n3 takes no connection from the others, and is named; the others go on, and the job's code tells."""
    cluster[3].firewall("ip saddr 10.77.0.1-10.77.0.4 tcp flags & (syn|ack) == syn drop")
    bad = tmp_path / "bad-hosts.txt"
    flags = ("--deadline", "10", "--skip", "facts", "--skip", "world", "--exclude-file", str(bad))
    done = cluster.head.run("srun", "-N4", *ENVCHECK, *flags, "--", "hostname", timeout=120)
    assert (done.returncode, sorted(done.stdout.split())) == (4, ["n1", "n2", "n4"]), done.stderr
    assert bad.read_text() == "n3\n" and "without n3" in done.stderr


def test_ray(cluster: Cluster, tmp_path: Path) -> None:
    """A head and three nodes, each on a host of its own; the report comes to where the user is."""
    pytest.importorskip("ray", reason="needs the package ray: pip install -e '.[ray]'")
    ray = (sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=2", "--object-store-memory=80000000")
    env = {"RAY_USAGE_STATS_ENABLED": "0"}
    head = cluster[1].start(*ray, "--head", "--port=6399", "--node-ip-address=10.77.0.1", "--include-dashboard=false", env=env)
    assert soon(
        lambda: cluster[1].run(sys.executable, "-c", "import socket; socket.create_connection(('n1', 6399), 1)").returncode == 0, 90
    )
    count = (
        "import ray, sys; ray.init(sys.argv[1], log_to_driver=False); sys.exit(sum(one['Alive'] for one in ray.nodes()) < int(sys.argv[2]))"
    )
    more = []
    for n in (2, 3, 4):  # one after the other: the hosts share /tmp, where nodes that start at once take each other's socket
        more.append(cluster[n].start(*ray, "--address=10.77.0.1:6399", f"--node-ip-address=10.77.0.{n}", env=env))
        assert soon(lambda n=n: cluster[1].run(sys.executable, "-c", count, "10.77.0.1:6399", str(n)).returncode == 0, 90)
    job = (*ENVCHECK, "--ray", "10.77.0.1:6399", *QUICK, "-o", f"text={tmp_path}/report.txt")
    done = cluster[1].run(*job, timeout=240)
    assert started(done)[::2] == (4, "ray")
    assert (tmp_path / "report.txt").read_text()
    gone = cluster[1].run(*ENVCHECK, "--ray", "10.77.0.9:6399", timeout=60)
    assert gone.returncode == 2 and "no Ray cluster is reached" in gone.stderr
    for host in cluster.hosts:
        host.signal(signal.SIGKILL, "ray")  # it takes its time over SIGTERM
    for one in (head, *more):
        finish(one, 60)
