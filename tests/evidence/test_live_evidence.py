"""What a hang or crash leaves behind, read: stacks, RAS, NCCL logs and diagnostics, gloo's words, recorder dumps, the archive."""

from __future__ import annotations

import json
import os
import pickle
import socket
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from patients import SOON, needs_torch

from envcheck.agent import rank_evidence
from envcheck.evidence import flight_recorder, gloo, insights, nccl_diagnostics, nccl_log, ras, stacks
from envcheck.facts.snapshot import Arm, LiveFacts, LiveStatus, RankFacts, Snapshot

SHARED = Path(os.environ.get("ENVCHECK_SHARED", Path(__file__).parents[3] / "shared"))
CAPTURES = SHARED / "captures" / "h200-580"
needs_captures = pytest.mark.skipif(not CAPTURES.is_dir(), reason="no captures of a real machine beside the repository")


# ---------------------------------------------------------------- stacks

WAITING = """Thread 0x00007f3a2a7fc640 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait
Current thread 0x00007f3b8c5f0740 (most recent call first):
  File "/v/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 3068 in all_reduce
  File "/home/u/train.py", line 30 in main
"""
PLACE = 'File "/v/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 3068 in all_reduce'
LOADING = WAITING.replace(PLACE, 'File "/home/u/data.py", line 9 in load')


def test_the_minority_is_the_suspect() -> None:
    groups = stacks.grouped({rank: LOADING if rank == 5 else WAITING for rank in range(8)})
    assert [group.ranks for group in groups] == [(0, 1, 2, 3, 4, 6, 7), (5,)]
    assert groups[0].waits and not groups[1].waits and groups[1].place == "/home/u/data.py:9 (load)"
    assert stacks.suspects(groups) == (5,)


def test_of_two_ranks_the_one_outside_the_library() -> None:
    assert stacks.suspects(stacks.grouped({0: WAITING, 1: LOADING})) == (1,)
    assert stacks.suspects(stacks.grouped({0: WAITING, 1: WAITING})) == ()
    assert stacks.suspects(stacks.grouped({0: LOADING.replace("9 in", "7 in"), 1: LOADING})) == ()


@given(st.dictionaries(st.integers(0, 9), st.text()))
def test_stacks_never_raise(dumps: dict[int, str]) -> None:
    assert isinstance(stacks.suspects(stacks.grouped(dumps)), tuple)


# ---------------------------------------------------------------- RAS


@contextmanager
def ras_server(answer: bytes, greeting: bytes = b"SERVER PROTOCOL 2\n", refuse: str = "") -> Iterator[tuple[tuple[str, int], list[str]]]:
    """A RAS service that gives one answer to STATUS and closes, as NCCL does. Yields its address and what it was asked."""
    asked: list[str] = []
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.settimeout(20)

        def serve() -> None:
            try:
                client, _ = server.accept()
                with client, client.makefile("rb") as lines:
                    for line in lines:
                        asked.append(line.decode().strip())
                        if asked[-1].startswith("CLIENT PROTOCOL"):
                            client.sendall(greeting)
                        elif asked[-1].endswith("STATUS"):
                            client.sendall(answer)
                            return
                        else:
                            client.sendall(b"ERROR: Unknown command\n" if refuse and refuse in asked[-1] else b"OK\n")
            except OSError:
                return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname(), asked
        thread.join(10)


def communicators(**changes: Any) -> bytes:
    ranks = [{"rank": rank, "status": {"async_error": 0}, "collective_counts": {"AllReduce": 7, "Broadcast": 1}} for rank in range(4)]
    one = {"hash": "0xecea20b657a6af99", "size": 4, "ranks": ranks, "missing_ranks": [], **changes}
    return json.dumps({"nccl_version": "2.28.9", "communicators": [one]}, indent=1).encode()


def test_ras_is_asked_in_its_protocol() -> None:
    with ras_server(b"OK\n" + communicators()) as (address, asked):
        state = ras.read_ras(rank_evidence.ask_ras(address))
    assert asked == ["CLIENT PROTOCOL 2", "TIMEOUT 2", "SET FORMAT json", "VERBOSE STATUS"]
    assert state and state.version == "2.28.9" and state.communicators[0].behind == ()


def test_ras_names_who_is_behind_and_who_is_missing() -> None:
    late = [{"rank": rank, "status": {"async_error": 0}, "collective_counts": {"AllReduce": 6 if rank == 2 else 7}} for rank in range(3)]
    state = ras.read_ras(communicators(ranks=late, missing_ranks=[{"rank": 3, "host": "n7"}]).decode())
    assert state and (state.communicators[0].behind, state.communicators[0].missing) == ((2,), (3,))
    assert any("rank 2 launched fewer" in line for line in state.said) and any("no answer from rank 3" in line for line in state.said)


def test_ras_without_the_commas_of_2_28_9() -> None:
    text = communicators(missing_ranks=[{"rank": 1}, {"rank": 3, "host": 'a} "\n {'}]).decode()
    broken = text.replace("},\n    {", "}\n    {")
    assert broken != text
    with pytest.raises(ValueError, match="delimiter"):
        json.loads(broken)
    state = ras.read_ras(broken)
    assert state and state.communicators[0].missing == (1, 3)


@needs_captures
def test_ras_as_an_h200_answered() -> None:
    recorded = (CAPTURES / "ras" / "ras.txt").read_text()
    text, captured = recorded.partition("== verbose")[0], recorded.partition("== json")[2]
    body = captured.partition("OK\nOK\n")[2]
    with ras_server(body.encode()) as (address, _asked):
        state = ras.read_ras(rank_evidence.ask_ras(address))
    assert state and state.version == "2.28.9" and state.communicators[0].counts == {0: 0}
    old = ras.read_ras(text)  # the text form, of NCCL before 2.28.7
    assert old and old.version == "2.28.9" and "RUNNING" in old.text


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 400 Bad Request\r\n", b""])
def test_somebody_else_at_the_ras_port(greeting: bytes) -> None:
    with ras_server(b"", greeting or b"\n") as (address, asked):
        assert rank_evidence.ask_ras(address) == ""
    assert asked == ["CLIENT PROTOCOL 2"]


def test_ras_that_does_not_answer_costs_its_deadline() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        began = time.monotonic()
        assert rank_evidence.ask_ras(silent.getsockname(), 0.5) == ""
        assert time.monotonic() - began < SOON
    assert rank_evidence.ask_ras(("127.0.0.1", 1), 0.5) == ""


def test_ras_address() -> None:
    assert rank_evidence.ras_address({}) == ("127.0.0.1", 28028)
    assert rank_evidence.ras_address({"NCCL_RAS_ADDR": "localhost:1234"}) == ("localhost", 1234)
    assert rank_evidence.ras_address({"NCCL_RAS_ADDR": "nonsense"}) == ("127.0.0.1", 28028)


@given(st.text())
def test_ras_never_raises(text: str) -> None:
    for one in (text, "{" + text, '{"communicators": [' + text + "]}"):
        state = ras.read_ras(one)
        assert state is None or state.said is not None


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
)
def test_ras_takes_any_json(value: Any) -> None:
    assert ras.loads(json.dumps(value, indent=1)) == value
    text = json.dumps({"communicators": [{"ranks": value, "missing_ranks": value, "size": value}, value]})
    assert ras.read_ras(text) is not None


# ---------------------------------------------------------------- NCCL's log and diagnostics

TWO_GPUS = """
vm:17:17 [0] NCCL INFO NCCL_P2P_LEVEL set by environment to SYS
vm:17:17 [0] NCCL INFO NCCL version 2.28.9+cuda13.0
vm:17:17 [0] NCCL INFO Using network IB
vm:17:17 [0] NCCL INFO ncclCommInitRankConfig comm 0x1c9e9d10 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0x73 - Init START
vm:17:19 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
vm:17:19 [0] NCCL INFO Channel 01/0 : 1[1] -> 2[0] [send] via NET/IB/0/GDRDMA
vm:17:17 [0] NCCL INFO ncclCommInitRankConfig comm 0x1c9e9d10 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0x73 - Init COMPLETE
vm:18:18 [1] NCCL INFO ncclCommInitRankConfig comm 0x28550e30 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 70 commId 0x73 - Init START
[2026-11-27 21:46:56] vm:18:18 [1] transport/net_ib.cc:94 NCCL WARN NET/IB : Got completion with error 12
"""


def test_nccl_log() -> None:
    found = nccl_log.read_log(TWO_GPUS)
    assert found and (found.version, found.network, found.pairs, found.gdr) == ("2.28.9", "IB", 2, True)
    assert found.transports == ("NET/IB/0/GDRDMA", "P2P/CUMEM/read") and found.unfinished == (1,)
    assert found.complaints == ("NET/IB : Got completion with error 12",) and found.variables == (("NCCL_P2P_LEVEL", "SYS"),)


@needs_captures
def test_nccl_logs_of_an_h200() -> None:
    def read(name: str) -> nccl_log.NcclLog:
        found = nccl_log.read_log((CAPTURES / "nccl" / f"{name}.txt").read_text())
        assert found
        return found

    assert read("nccl1").network == "Socket" and read("nccl1").complaints == ()
    assert "Duplicate GPU" in read("nccl2dup").complaints[0] and read("nccl2dup").unfinished == (0, 1)
    assert read("nccl-badif").complaints == ("Bootstrap : no socket interface found",)


def test_warnings_of_a_log_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "x.nccl").write_text(TWO_GPUS)
    assert rank_evidence.complaints(str(tmp_path / "x.nccl")).splitlines() == [TWO_GPUS.strip().splitlines()[-1]]
    assert rank_evidence.complaints(str(tmp_path / "none")) == ""


HEAD = "node01:15 NCCL DIAG === NCCL Diagnostics ===\n"
END = "node01:15 NCCL DIAG NCCL diagnostics completed in 40.0 ms across 8 ranks\n"
EDGE = (
    "node01:42 NCCL DIAG [INFO] p2p: write mismatch srcRank=0 srcCudaDev=0 srcNvmlDev=0 dstRank=1 dstCudaDev=1 dstNvmlDev=1 path=PHB"
    " handle=CUMEM_OTHER expected=0x1 got=0x0; inspect earlier errors\n"
)
REPORTS = [
    (HEAD + "NCCL DIAG [OK]   p2p: verified P2P access in both directions between every GPU pair (56 peer accesses)\n" + END, "pass", 56),
    (HEAD + "node01:15 NCCL DIAG [OK]   p2p: all 56 directed GPU P2P edges verified\n" + END, "pass", 56),
    (HEAD + "NCCL DIAG [INFO] p2p: only 52/56 GPU-to-GPU peer accesses passed verification\n" + EDGE + END, "fail", 56),
    (HEAD + EDGE + END, "fail", None),
    (HEAD + END, "unknown", None),  # nothing was eligible
    (HEAD + "NCCL DIAG [INFO] p2p: setup failed on rank 3\n" + END, "unknown", None),
    (HEAD + "NCCL DIAG [OK]   p2p: all 2 directed GPU P2P edges verified\n", "unknown", 2),  # cut: the process was killed
    (HEAD + "a NCCL DIAG [INFO] p2p: temporarily enabled context-wide HIP peer access rank=3 cudaDev=3; avoid\n"
     "a NCCL DIAG [OK] p2p: all 2 directed GPU P2P edges verified\n" + END, "pass", 2),
    (HEAD + "n:1 NCCL DIAG [OK] p2p: all 2 directed GPU P2P edges verified\n"
     "n:1 NCCL DIAG [INFO] net bw: cross-nic rank 3 (node0): 265.1 Gbit/s, >30% off median 391.5 Gbit/s in comm 0x7a\n" + END, "fail", 2),
]  # fmt: skip


@pytest.mark.parametrize(("text", "verdict", "tested"), REPORTS)
def test_nccl_diagnostics(text: str, verdict: str, tested: int | None) -> None:
    found = nccl_diagnostics.read_diagnostics(text)
    assert found and (found.verdict, found.tested) == (verdict, tested)


def test_nccl_diagnostics_name_the_pair() -> None:
    found = nccl_diagnostics.read_diagnostics(HEAD + EDGE + END)
    assert found and found.edges == (nccl_diagnostics.Edge(0, 1, "PHB", "write mismatch"),)
    assert nccl_diagnostics.read_diagnostics("NCCL INFO nothing of it") is None


def test_nccl_diagnostics_become_facts(tmp_path: Path) -> None:
    (tmp_path / "nccl-diagnostics-0.log").write_text(HEAD + EDGE + END)
    (tmp_path / "gloo-loopback-0.log").write_text("x")
    live = LiveFacts(LiveStatus.PASS, arms=(Arm("nccl", "nccl", "cuda", 2, LiveStatus.PASS),))
    after = insights.with_insights(Snapshot(live=live), str(tmp_path), sys.executable, 0).live
    assert isinstance(after, LiveFacts) and after.nccl_diagnostics
    assert after.nccl_diagnostics.edges == ("rank 0 -> rank 1 over PHB: write mismatch",)
    (tmp_path / "nccl-diagnostics-0.log").write_text(HEAD)
    cut = insights.diagnostics_of(str(tmp_path))
    assert cut and "cut" in cut.troubles[0]


@given(st.text() | st.lists(st.sampled_from([*(EDGE + HEAD + END + TWO_GPUS).split(), "\n", " "])).map(" ".join))
def test_readers_never_raise(text: str) -> None:
    for tagged in (text, f"NCCL DIAG [INFO] p2p: {text}", f"x NCCL WARN {text}"):
        found = nccl_diagnostics.read_diagnostics(tagged)
        assert found is None or found.verdict in ("pass", "fail", "unknown")
        nccl_log.read_log(tagged)
        assert isinstance(gloo.refused(tagged), tuple)
        assert isinstance(flight_recorder.deciding(tagged), tuple)


# ---------------------------------------------------------------- gloo


def test_ports_with_exchanged_bytes() -> None:
    [one] = gloo.refused("pair.cc:152] timed out connecting: SO_ERROR: Connection refused, remote=[127.0.1.1]:15248$0")
    assert (one.address, one.port, one.printed, one.loopback) == ("127.0.1.1", 36923, 15248, True)
    assert gloo.refused("recvValue failed on SocketImpl(fd=8, addr=[localhost]:43326, remote=[localhost]:40559): Failed to recv") == ()


@given(st.integers(0, 65535))
def test_exchanging_twice_changes_nothing(port: int) -> None:
    assert gloo.swapped(gloo.swapped(port)) == port and 0 <= gloo.swapped(port) < 65536


# ---------------------------------------------------------------- Flight Recorder


def dump(rank: int, collectives: int) -> bytes:
    """As torch writes it: one entry a collective."""
    entries = [
        {
            "frames": [{"name": "all_reduce", "filename": "/v/torch/distributed/distributed_c10d.py", "line": 3068}],
            "record_id": number, "pg_id": 0, "process_group": ("0", "default_pg"), "thread_name": "python3", "thread_id": "1",
            "collective_seq_id": number + 1, "p2p_seq_id": 0, "op_id": number + 1, "profiling_name": "nccl:all_reduce",
            "time_created_ns": 1795817813531083443 + number, "input_sizes": [[4]], "input_dtypes": ["Float"], "output_sizes": [[4]],
            "output_dtypes": ["Float"], "state": "completed" if number + 1 < collectives else "started",
            "time_discovered_started_ns": None, "time_discovered_completed_ns": None, "retired": False, "timeout_ms": 600000,
            "is_p2p": False,
        }
        for number in range(collectives)
    ]  # fmt: skip
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    return pickle.dumps({"version": "2.10", "pg_config": config, "comm_lib_version": "2.28.9", "pg_status": {}, "entries": entries})


@needs_torch
@pytest.mark.torch
def test_torchfrtrace_of_the_target_names_the_missing_rank(tmp_path: Path) -> None:
    for rank, collectives in ((0, 3), (1, 2)):
        (tmp_path / f"nccl.fr_{rank}").write_bytes(dump(rank, collectives))
    (tmp_path / "nccl-0.log").write_text("beside it")
    [found] = flight_recorder.analyse(str(tmp_path), sys.executable)
    assert not found.error, found
    assert found.dumps == ("nccl.fr_0", "nccl.fr_1")
    assert "missing ranks: {1}" in found.lines, found.output
    live = LiveFacts(LiveStatus.HANG, arms=(Arm("nccl", "nccl", "cuda", 2, LiveStatus.HANG, ranks=(RankFacts(0), RankFacts(1))),))
    [arm] = insights.analyse(live, str(tmp_path), sys.executable, 60)["arms"]
    assert arm["flight_recorder"]["lines"]
    after = insights.with_insights(Snapshot(live=live), str(tmp_path), sys.executable, 60).live
    assert isinstance(after, LiveFacts) and any(one.text == "missing ranks: {1}" for one in after.insights)


def test_no_analyser(tmp_path: Path) -> None:
    (tmp_path / "nccl.fr_0").write_bytes(dump(0, 1))
    [found] = flight_recorder.analyse(str(tmp_path), "/bin/false")
    assert found.error and found.lines == ()
    assert flight_recorder.dumps_of(["nccl.fr_0", "nccl.fr_12", "nccl.frpipe_0.pipe", "x"]) == {"nccl.fr_": ["nccl.fr_0", "nccl.fr_12"]}


def test_dumps_of_all_arms_share_the_time_that_is_left(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 600\n")
    python.chmod(0o755)
    arms = tuple(Arm(f"nccl{name}", "nccl", "cuda", 1, LiveStatus.HANG, ranks=(RankFacts(0),)) for name in ("", "-p2p-off", "-shm-off"))
    for arm in arms:
        (tmp_path / f"{arm.name}.fr_0").write_bytes(dump(0, 1))
    began = time.monotonic()
    found = insights.with_insights(Snapshot(live=LiveFacts(LiveStatus.HANG, arms=arms)), str(tmp_path), str(python), 8.0).live
    assert time.monotonic() - began < SOON
    assert isinstance(found, LiveFacts)
    assert sorted(one.text for one in found.insights) == [
        "no time was left for torchfrtrace", "no time was left for torchfrtrace", "torchfrtrace did not end within 6 s",
    ]  # fmt: skip


def test_the_recorder_is_asked_by_its_pipe(tmp_path: Path) -> None:
    path = str(tmp_path / "nccl.frpipe_0.pipe")
    assert not rank_evidence.poke(path)
    os.mkfifo(path)
    assert not rank_evidence.poke(path), "nobody reads: there is nothing to wait for"
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert rank_evidence.poke(path) and os.read(reader, 8) == b"1\n"
    finally:
        os.close(reader)


@needs_torch
def test_variables_for_evidence_leave_the_users_own() -> None:
    asked = rank_evidence.variables("/f", "nccl", 1, {})
    assert asked["NCCL_DEBUG_FILE"] == "/f/nccl-1.nccl" and asked["TORCH_FR_DUMP_TEMP_FILE"] == "/f/nccl.fr_"
    own = rank_evidence.variables("/f", "nccl", 1, {"NCCL_DEBUG": "WARN", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"})
    assert not {"NCCL_DEBUG", "NCCL_DEBUG_FILE", "TORCH_NCCL_ASYNC_ERROR_HANDLING"} & set(own)


# ---------------------------------------------------------------- the archive


def test_archive(tmp_path: Path) -> None:
    folder = tmp_path / "private"
    (folder / "inductor").mkdir(parents=True)
    (folder / "nccl-0.log").write_text(
        "HF_TOKEN=hf_abcdefghijklmnopqrstuvwx\nhttps://me:secret@host/x\nSO_ERROR: Connection refused, remote=[127.0.1.1]:15248\n"
    )
    (folder / "nccl.ras").write_bytes(communicators(missing_ranks=[{"rank": 3}]))
    (folder / "nccl.fr_0").write_bytes(b"\x80dump")
    (folder / "extension.so").write_bytes(b"\x7fELF")
    (folder / "empty.log").touch()
    os.mkfifo(folder / "nccl.frpipe_0.pipe")
    ranks = (RankFacts(0, 1, "all_reduce", stack=WAITING), RankFacts(1, 2, "all_reduce", stack=LOADING))
    live = LiveFacts(LiveStatus.HANG, arms=(Arm("nccl", "nccl", "cuda", 2, LiveStatus.HANG, "rank 1 …", ranks=ranks),))
    insights.keep(str(folder), str(tmp_path / "e.tar.gz"), Snapshot(live=live), '{"schema": 1}', sys.executable)
    with tarfile.open(tmp_path / "e.tar.gz") as archive:
        texts = {name.partition("/")[2]: archive.extractfile(name).read() for name in archive.getnames()}  # type: ignore[union-attr]
    assert set(texts) == {"README.txt", "analysis.json", "snapshot.json", "nccl-0.log", "nccl.ras", "nccl.fr_0"}
    assert b"abcdefghijklmnopqrstuvwx" not in b"".join(texts.values()) and b"secret@" not in texts["nccl-0.log"]
    assert b"nccl.ras" in texts["README.txt"]
    [arm] = json.loads(texts["analysis.json"])["arms"]
    assert arm["suspects"] == [1] and arm["gloo"][0]["port"] == 36923 and "rank 3" in arm["ras"]["said"][0]


def test_insights_reach_the_finding(tmp_path: Path) -> None:
    from envcheck.report.session import report_on, rule_session

    (tmp_path / "gloo-loopback-0.log").write_text("gloo SO_ERROR: Connection refused, remote=[127.0.1.1]:15248\n")
    ranks = (RankFacts(0, 1, "init", error="RuntimeError: Gloo connectFullMesh failed"), RankFacts(1, 2, "init"))
    arm = Arm(
        "gloo-loopback", "gloo", "cpu", 2, LiveStatus.FAIL, "rank 0: RuntimeError: Gloo connectFullMesh failed", ranks=ranks,
        environment={"GLOO_SOCKET_IFNAME": "lo"},
    )  # fmt: skip
    live = LiveFacts(LiveStatus.FAIL, arm.reason, "gloo", 2, ranks=ranks, arms=(arm,))
    snapshot = insights.with_insights(Snapshot(live=live), str(tmp_path), sys.executable, 0)
    report = report_on(snapshot, rule_session())
    [finding] = [one.finding for one in report.findings if one.finding.rule == "live-failed"]
    assert finding.message.startswith("gloo-loopback with 2 ranks: rank 0 failed")
    assert any("port 36923 (printed as 15248, bytes exchanged)" in one.text for one in finding.evidence)
    assert (tmp_path / "analysis.json").is_file()


@needs_torch
@pytest.mark.torch
@pytest.mark.slow
def test_the_command_keeps_it(tmp_path: Path) -> None:
    """A rank that stays away from the collective, from the command line to the archive."""
    import subprocess

    here = Path(__file__).parents[1]
    env = {
        **os.environ,
        "ENVCHECK_FAULT": "rank-1-stays-away",
        "PYTHONPATH": f"{here.parent}{os.pathsep}{here / 'faults' / 'torch_patches'}",
    }
    argv = [sys.executable, "-m", "envcheck", "--json", "--timeout", "120", "--backend", "gloo", "--evidence", str(tmp_path / "kept")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=150, env=env)
    assert done.returncode == 1, done.stderr
    [archive] = (tmp_path / "kept").iterdir()
    assert str(archive) in done.stderr
    with tarfile.open(archive) as opened:
        analysis = json.loads(opened.extractfile("envcheck-evidence/analysis.json").read())  # type: ignore[union-attr]
        facts = json.loads(opened.extractfile("envcheck-evidence/snapshot.json").read())  # type: ignore[union-attr]
    assert analysis["arms"][0]["suspects"] == [1] and facts["live"]["status"] == "hang"
    [finding] = [one for one in json.loads(done.stdout)["findings"] if one["rule"] == "live-hang"]
    assert any(one["source"] == "stacks" and "rank 1 is in" in one["text"] for one in finding["evidence"])
