"""Faults of the network between two hosts, and of what a script says to the rendezvous. Traffic stays on loopback or in namespaces."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from networks import Hosts, hosts, needs_networks
from patients import needs_torch
from rank_server import Ranks, serving
from test_faults_ranks import arms, gone, rules_said

from envcheck.evidence.insights import analyse
from envcheck.facts.snapshot import Arm, LiveStatus, Snapshot, SymptomsFacts
from envcheck.report.session import report_on, rule_session
from envcheck.symptoms.scan import Scanner, SymptomTable
from envcheck.tables.folders import rules_folder
from envcheck.target.sections import summary

pytestmark = [needs_torch, pytest.mark.torch]
ROOT = Path(__file__).parents[2]
BETWEEN: dict[str, Any] = {
    "name": "gloo-as-is", "backend": "gloo", "device": "cpu", "world": 2, "store": "file", "environment": {"GLOO_SOCKET_IFNAME": "eth0"},
}  # fmt: skip
SHORT = ["start", "device", "store", "init", "barrier", "all_reduce", "destroy"]


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    yield from serving()


@pytest.fixture
def two() -> Iterator[Hosts]:
    with hosts() as made:
        yield made


def between(ranks: Ranks, two: Hosts, folder: Path, arm: dict[str, Any] | None = None, **request: Any) -> Arm:
    [found] = arms(ranks.run(folder, networks=[two.a, two.b], arm={**BETWEEN, **(arm or {})}, stage_seconds=6.0, **request))
    assert gone(found)
    return found


def findings_of(arm: Arm, folder: Path) -> dict[str, Any]:
    """Rule → finding, judged from this arm alone."""
    live = summary([arm], "fork", ())
    report = report_on(Snapshot(live=live), rule_session())
    return {one.finding.rule: one.finding for one in report.findings}


@needs_networks
def test_two_sound_hosts(ranks: Ranks, two: Hosts, tmp_path: Path) -> None:
    """Without it the tests below prove nothing."""
    assert between(ranks, two, tmp_path).status is LiveStatus.PASS


@needs_networks
def test_mtu_black_hole(ranks: Ranks, two: Hosts, tmp_path: Path) -> None:
    two.mtu(hosts=9000, router=1500)
    arm = between(ranks, two, tmp_path)
    assert arm.status is LiveStatus.HANG
    assert arm.reason == "rank 0, 1 did not leave the stage all_reduce: 516 bytes passed, 65536 did not end"
    finding = findings_of(arm, tmp_path)["live-hang"]
    assert "MTU" in finding.message and "65536 bytes hang" in finding.message


@needs_networks
def test_firewall_that_opens_the_rendezvous_port_only(ranks: Ranks, two: Hosts, tmp_path: Path) -> None:
    two.firewall(29500)
    arm = between(ranks, two, tmp_path)
    assert arm.status is LiveStatus.HANG and arm.reason == "rank 0, 1 did not leave the stage init"
    finding = findings_of(arm, tmp_path)["live-hang"]
    assert "init" in finding.title


@needs_networks
def test_a_host_without_a_route(ranks: Ranks, two: Hosts, tmp_path: Path) -> None:
    subprocess.run(["ip", "-n", two.b, "route", "del", "default"], check=True, timeout=20)
    arm = between(ranks, two, tmp_path)
    assert arm.status in (LiveStatus.FAIL, LiveStatus.HANG) and "init" in {rank.last_stage for rank in arm.ranks}


@needs_networks
def test_missing_interface(ranks: Ranks, two: Hosts, tmp_path: Path) -> None:
    arm = between(ranks, two, tmp_path, {"environment": {"GLOO_SOCKET_IFNAME": "ib7"}})
    assert arm.status is LiveStatus.FAIL and "ib7" in arm.reason
    assert "gloo-interface" in rules_said(arm)


@needs_networks
def test_host_name_that_leads_to_itself(ranks: Ranks, two: Hosts, tmp_path: Path) -> None:
    """127.0.1.1 in /etc/hosts: gloo offers it to the other host, and prints its port with the bytes exchanged."""
    table = tmp_path / "hosts"
    table.write_text(f"127.0.0.1 localhost\n127.0.1.1 {socket.gethostname()}\n")
    arm = between(ranks, two, tmp_path, {"environment": {}}, hosts=str(table), unset=["GLOO_SOCKET_IFNAME"])
    assert arm.status in (LiveStatus.FAIL, LiveStatus.HANG)
    [found] = analyse(summary([arm], "fork", ()), str(tmp_path), "python", 0)["arms"]
    assert any(peer["address"] == "127.0.1.1" and peer["loopback"] for peer in found["gloo"]), arm
    assert "gloo-interface" in rules_said(arm)


# ---------------------------------------------------------------- what torch itself says to a script


def free_port() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def variables(**changes: str) -> dict[str, str]:
    return {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), **changes}


def diagnosed(output: str) -> dict[str, Any]:
    """Rule → finding from what a process printed."""
    scanner = Scanner(SymptomTable((rules_folder(),)))
    scanner.scan(output, "output")
    report = report_on(Snapshot(symptoms=SymptomsFacts(scanner.finish().matches)), rule_session())
    return {one.finding.rule: one.finding for one in report.findings}


def script(ranks: Ranks, folder: Path, *environments: dict[str, str]) -> list[str]:
    return ranks.script(folder, [{"env": one, "timeout": 2} for one in environments])


def test_a_script_that_is_started_well(ranks: Ranks, tmp_path: Path) -> None:
    first = variables()
    assert script(ranks, tmp_path, first, {**first, "RANK": "1"}) == ["", ""]


def test_rank_missing(ranks: Ranks, tmp_path: Path) -> None:
    given = variables()
    del given["RANK"]
    [output] = script(ranks, tmp_path, given)
    assert "RANK" in diagnosed(output)["launch-env-incomplete"].message


def test_one_of_two_never_starts(ranks: Ranks, tmp_path: Path) -> None:
    [output] = script(ranks, tmp_path, variables())
    assert "WORLD_SIZE is 2 but 1 joined" in diagnosed(output)["launch-world-size"].message


def test_nobody_listens(ranks: Ranks, tmp_path: Path) -> None:
    [output] = script(ranks, tmp_path, variables(RANK="1"))
    assert "launch-unreachable" in diagnosed(output)


def test_duplicate_rank_zero(ranks: Ranks, tmp_path: Path) -> None:
    given = variables()
    first, second = script(ranks, tmp_path, given, given)
    assert {"launch-world-size", "launch-port-in-use"} <= set(diagnosed(first)) | set(diagnosed(second))


def test_duplicate_rank_one() -> None:
    """torch alone cannot be asked: two of the three may report success, and what the third says depends on milliseconds."""
    given = {**variables(), "MASTER_PORT": free_port()}
    zero, one, other = checked_and_run(given, {**given, "RANK": "1"}, {**given, "RANK": "1"})
    refused = [(pid, said) for pid, code, said in (one, other) if code == 1 and "launch-rank-duplicate" in said]
    assert refused, (zero, one, other)
    for _, said in refused:
        assert "RANK=1 of WORLD_SIZE=2" in said and f"pid {one[0]} (" in said and f"pid {other[0]} (" in said
    assert "launch-rank-duplicate" not in zero[2]


def checked_and_run(*environments: dict[str, str]) -> list[tuple[int, int, str]]:
    """(pid, exit code, stderr) of `envcheck run` in each environment, all started at once with a script that meets the others."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("RANK", "WORLD_SIZE", "MASTER_"))}
    argv = [sys.executable, "-m", "envcheck", "run", "--static", "--", sys.executable, str(ROOT / "tests" / "faults" / "train.py")]
    running = [
        subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT,
            env={**clean, "PYTHONPATH": str(ROOT), **one},
        )
        for one in environments
    ]  # fmt: skip
    try:
        said = [process.communicate(timeout=60)[1] for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait(10)
    return [(process.pid, process.returncode, words) for process, words in zip(running, said, strict=True)]


def test_ranks_disagree_on_the_world_size(ranks: Ranks, tmp_path: Path) -> None:
    given = variables()
    _, second = script(ranks, tmp_path, given, {**given, "RANK": "1", "WORLD_SIZE": "3"})
    finding = diagnosed(second)["launch-world-size"]
    assert "Rank 2" in finding.message and "disagree" in finding.message


def test_port_taken(ranks: Ranks, tmp_path: Path) -> None:
    with listener() as port:
        [output] = script(ranks, tmp_path, variables(MASTER_PORT=port))
    assert port in diagnosed(output)["launch-port-in-use"].message


def test_foreign_service_at_the_port(ranks: Ranks, tmp_path: Path) -> None:
    with listener(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        [output] = script(ranks, tmp_path, variables(RANK="1", MASTER_PORT=port))
    assert "Another service" in diagnosed(output)["launch-port-in-use"].message


def test_leaked_agent_store(ranks: Ranks, tmp_path: Path) -> None:
    """Rank 0 becomes a client and waits for a server that nobody starts."""
    [output] = script(ranks, tmp_path, variables(TORCHELASTIC_USE_AGENT_STORE="True"))
    assert "launch-unreachable" in diagnosed(output)


@contextmanager
def listener(answer: bytes = b"") -> Iterator[str]:
    """A port of 127.0.0.1 that this process listens on; it gives every client the answer."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.settimeout(30)

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                    client.recv(64)
                    client.sendall(answer)
                    client.close()
                except OSError:
                    return

        if answer:
            threading.Thread(target=serve, daemon=True).start()
        yield str(server.getsockname()[1])


# ---------------------------------------------------------------- before anything is started: --static


def static(*prefix: str, env: dict[str, str] | None = None, expected: int | None = None) -> dict[str, Any]:
    """Rule → finding of `envcheck --static` in this environment, started through `prefix`."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("RANK", "WORLD_SIZE", "MASTER_", "GLOO_", "NCCL_"))}
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "envcheck", "--static", "--json"],
        capture_output=True, text=True, timeout=60, cwd=ROOT, env={**clean, "PYTHONPATH": str(ROOT), **(env or {})},
    )  # fmt: skip
    assert done.returncode in (0, 1, 3), done.stderr
    if expected is not None:
        assert done.returncode == expected
    return {one["rule"]: one for one in json.loads(done.stdout)["findings"]}


def test_static_port_and_its_owner() -> None:
    with listener() as port:
        finding = static(env=variables(MASTER_PORT=port), expected=1)["launch-port-in-use"]
    assert f"pid {os.getpid()}" in finding["message"]


def test_static_wrong_world_size() -> None:
    assert "RANK=3" in static(env=variables(RANK="3"), expected=1)["launch-env-conflict"]["message"]


def test_static_rank_missing() -> None:
    given = variables()
    del given["RANK"]
    assert "not set: RANK." in static(env=given)["launch-env-incomplete"]["message"]  # a warning: the ranks may come with the tasks


def test_static_two_launchers_that_contradict_each_other() -> None:
    slurm = {"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8", "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "1", "SLURM_LOCALID": "1"}
    finding = static(env={**variables(LOCAL_RANK="0"), **slurm})["launch-env-conflict"]
    assert finding["confidence"] == "likely" and "slurm" in finding["message"]


@pytest.mark.parametrize("leaked", [{"PET_NNODES": "2"}, {"TORCHELASTIC_USE_AGENT_STORE": "True"}])
def test_static_leaked_variables(leaked: dict[str, str]) -> None:
    finding = static(env=leaked)["launch-variables-leaked"]
    assert next(iter(leaked)) in finding["message"]


def test_static_missing_interface() -> None:
    assert "no-such0" in static(env={"GLOO_SOCKET_IFNAME": "no-such0"}, expected=1)["gloo-interface"]["message"]
    if not Path("/proc/driver/nvidia").exists():
        assert "nccl-interface" not in static(env={"NCCL_SOCKET_IFNAME": "no-such0"}), "no NCCL runs on this machine"


def test_static_few_descriptors() -> None:
    found = static("sh", "-c", 'ulimit -n 64; exec "$0" "$@"', env=variables(WORLD_SIZE="64"))
    assert "205" in found["open-files-low"]["message"]


@needs_networks
def test_static_host_name_and_master_on_loopback(tmp_path: Path) -> None:
    name = socket.gethostname()
    (tmp_path / "hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {name}\n")
    given = {**variables(MASTER_ADDR=name), "PET_NNODES": "2", "GROUP_WORLD_SIZE": "2", "LOCAL_RANK": "0"}
    found = static("unshare", "-m", "sh", "-c", f'mount --bind {tmp_path}/hosts /etc/hosts && exec "$0" "$@"', env=given)
    assert "127.0.1.1" in json.dumps(found["launch-master-address"])
    told = {rule for finding in found.values() for rule in (finding["rule"], *finding["consequences"])}
    assert "gloo-interface" in told


@needs_networks
def test_static_one_megabyte_of_shared_memory() -> None:
    found = static("unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=1m none /dev/shm && exec "$0" "$@"')
    assert "1 MiB" in found["shm-small"]["message"] or "1.0 MiB" in found["shm-small"]["message"]


@needs_networks
def test_static_slow_names() -> None:
    """A name server that takes every question and answers none, in a network of its own."""
    silent = (
        "import socket, subprocess, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('127.0.0.1', 53));"
        "sys.exit(subprocess.run(sys.argv[1:]).returncode)"
    )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "resolv.conf").write_text("nameserver 127.0.0.1\n")
        (Path(folder) / "hosts").write_text("127.0.0.1 localhost\n")
        (Path(folder) / "nsswitch.conf").write_text("hosts: files dns\n")
        mounts = " && ".join(f"mount --bind {folder}/{name} /etc/{name}" for name in ("resolv.conf", "hosts", "nsswitch.conf"))
        setup = f'ip link set lo up && {mounts} && exec {sys.executable} -c "{silent}" "$0" "$@"'
        found = static("unshare", "-n", "-m", "sh", "-c", setup)
    told = found["host-name-unresolved"]
    assert "s nobody said" in told["message"]
    assert "name-resolution-slow" in told["consequences"]


@needs_networks
@pytest.mark.parametrize(
    ("hosts", "rule"),
    [
        pytest.param("127.0.0.1 localhost\n", "host-name-unresolved", id="the own name"),
        pytest.param("127.0.1.1 {name}\n", "host-name-unresolved", id="localhost"),
        pytest.param("127.0.0.1 localhost\n192.0.2.7 {name}\n", "host-name-unresolved", id="an address of another machine"),
        pytest.param("127.0.0.1 localhost\n127.0.1.1 {name}.example.org {name}\n", None, id="the whole name first"),
        pytest.param("127.0.0.1 localhost\n192.0.2.7 localhost\n127.0.1.1 {name}\n", None, id="both, and an address too many"),
    ],
)
def test_static_names_of_this_host(hosts: str, rule: str | None, tmp_path: Path) -> None:
    """In a network with no name server."""
    (tmp_path / "hosts").write_text(hosts.format(name=socket.gethostname()))
    (tmp_path / "nsswitch.conf").write_text("hosts: files\n")
    mounts = " && ".join(f"mount --bind {tmp_path}/{name} /etc/{name}" for name in ("hosts", "nsswitch.conf"))
    found = static("unshare", "-n", "-m", "sh", "-c", f'ip link set lo up && {mounts} && exec "$0" "$@"')
    assert (rule in found) if rule else "host-name-unresolved" not in found
