"""Warnings of NCCL, Gloo and torch's stores that no row knows: placed by their source file, likely, and quiet beside a known cause."""

from __future__ import annotations

import pytest

from envcheck.checks import all_checks
from envcheck.commands.diagnose import Given, diagnose
from envcheck.engine.judge import Outcome, judge
from envcheck.engine.rule import Confidence, Severity
from envcheck.facts.record import replace
from envcheck.facts.snapshot import Arm, LiveFacts, LiveStatus
from envcheck.report.report import Report
from envcheck.report.session import rule_session

BY = rule_session()
GENERIC = "RuntimeError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:121, unhandled system error, NCCL version 2.21.5\n"


def given(text: str) -> Given:
    taken = Given(BY)
    taken.take_text(text, "log")
    return taken


def report(text: str) -> Report:
    return diagnose(given(text))[0]


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("h:10:20 [1] transport/net_ib.cc:641 NCCL WARN {}", "nccl-infiniband"),
        ("h:10:20 [1] transport/net_ib.cu:641 NCCL WARN {}", "nccl-infiniband"),
        ("[2025-11-02 07:15:44] h:10:20 [1] /build/src/transport/net_ib/p2p.cc:77 NCCL WARN {}", "nccl-infiniband"),
        ("h:10:20 [1] misc/ibvwrap.cc:77 NCCL WARN {}", "nccl-infiniband"),
        ("h:10:20 [1] graph/xml.cc:332 NCCL WARN {}", "nccl-warning"),
        ("h:10:20 [1] transport/shm.cc:9 NCCL WARN {}", "nccl-shm-small"),
        ("h:10:20 [1] include/shm.h:9 NCCL WARN {}", "nccl-shm-small"),
        ("h:10:20 [1] transport/p2p.cc:9 NCCL WARN {}", "nccl-p2p-blocked"),
        ("h:10:20 [1] transport/nvls.cc:9 NCCL WARN {}", "fabric-not-ready"),
        ("h:10:20 [1] bootstrap.cc:9 NCCL WARN {}", "nccl-interface"),
        ("h:10:20 [1] misc/socket.cc:9 NCCL WARN {}", "nccl-interface"),
        ("h:10:20 [1] proxy.cc:9 NCCL WARN {}", "nccl-warning"),
        ("[../third_party/gloo/gloo/transport/uv/libuv.h:596] {}", "gloo-interface"),
        ("[W1128 10:00:00.123456789 socket.cpp:999] [c10d] {}", "launch-unreachable"),
        ("[W tensorpipe_agent.cpp:940] {}", "launch-unreachable"),
        ("[rank1]:[W1128 10:00:00.123456789 ProcessGroupGloo.cpp:715] Warning: {}", "gloo-interface"),
        ("[/pytorch/third_party/gloo/gloo/transport/tcp/buffer.cc:72] {}", "gloo-interface"),
        ("[W ProcessGroupNCCL.cpp:1569] {}", "nccl-warning"),
        ("[rank3]:[E1128 10:00:00.123456789 NCCLUtils.cpp:77] Warning: {}", "nccl-warning"),
    ],
)
def test_the_source_file_places_it(line: str, rule: str) -> None:
    words = "the thing is of another kind"
    after = f"h:10:20 [1] NCCL INFO init.cc:1 -> 2\n{GENERIC}" if "NCCL" in line else ""
    [found] = report(f"{line.format(words)}\n{after}").findings
    assert found.finding.rule == rule
    assert (found.finding.severity, found.finding.confidence) == (Severity.WARNING, Confidence.LIKELY)
    assert f'{words}"' in found.finding.message and not any(one in found.finding.message for one in ("([", "Warning: "))
    [evidence] = found.finding.evidence
    assert evidence.text.endswith(words), "it ends where the message ends"
    assert found.fixes


TRACE = """h:10:20 [1] NCCL INFO misc/ibvwrap.cc:77 -> 2
h:10:21 [0] NCCL INFO NET/IB : something is read
h:10:20 [1] NCCL INFO bootstrap.cc:360 -> 2
h:10:20 [1] NCCL INFO transport/shm.cc:9 -> 2
h:10:20 [1] NCCL INFO init.cc:1040 -> 2
"""


def test_without_a_warning_the_way_of_the_error_is_placed_by_its_innermost_file() -> None:
    [found] = report(TRACE + GENERIC).findings
    assert (found.finding.rule, found.finding.confidence) == ("nccl-infiniband", Confidence.LIKELY)
    assert '(misc/ibvwrap.cc): "ncclSystemError (2)"' in found.finding.message
    warned = report(TRACE + "h:10:20 [1] graph/xml.cc:332 NCCL WARN the thing is of another kind\n" + GENERIC)
    assert [one.finding.rule for one in warned.findings] == ["nccl-warning"], "its own words tell more"
    assert not report(TRACE + "step 10 loss 0.3\n").findings, "nothing failed"


def test_it_is_not_asked_for_again() -> None:
    found = report(f"h:10:20 [1] graph/xml.cc:332 NCCL WARN the thing is of another kind\n{GENERIC}")
    assert found.exit_code == 3
    assert not any("WARN line above" in one for one in found.because)


@pytest.mark.parametrize("line", ["[W socket.cpp:9] [c10d] odd", "[W ProcessGroupNCCL.cpp:9] odd", "[W tensorpipe_agent.cpp:9] odd"])
def test_a_line_of_torch_is_not_asked_for_again(line: str) -> None:
    found = report(f"{line}\nTraceback (most recent call last):\nRuntimeError: the ranks are at odds\n")
    assert found.exit_code == 3 and len(found.findings) == 1
    assert not any("line above" in one or "add the error text" in one for one in found.because)


def test_without_it_the_line_is_asked_for() -> None:
    [found] = report(GENERIC).findings
    assert (found.finding.rule, found.finding.confidence) == ("nccl-warning", Confidence.LIKELY)
    assert any("NCCL_DEBUG=INFO" in line for fix in found.fixes for line in str(fix).splitlines())


def test_a_known_cause_is_alone() -> None:
    known = "h:10:20 [1] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device\n"
    unknown = "h:10:20 [1] proxy.cc:9 NCCL WARN the thing is of another kind\n"
    rules = [one.finding.rule for one in report(unknown + known).findings]
    assert "nccl-warning" not in rules
    assert rules[0] in ("nccl-shm-small", "shm-small")


def test_a_line_that_a_victim_row_knows_is_not_placed() -> None:
    assert not report("h:1:2 [0] init.cc:3 NCCL WARN Cuda failure 'an illegal memory access was encountered'\n").findings


def test_a_live_check_that_passed_has_overruled_it() -> None:
    snapshot = given("h:10:20 [1] transport/shm.cc:9 NCCL WARN the thing is of another kind\n").merged().snapshot
    arm = Arm(name="nccl", backend="nccl", device="cuda", world_size=2, status=LiveStatus.PASS)
    proved = replace(snapshot, live=LiveFacts(status=LiveStatus.PASS, arms=(arm,)))
    checks = [one for one in all_checks() if one.id == "nccl-shm-small"]
    [before], [after] = judge(snapshot, checks, BY.tables), judge(proved, checks, BY.tables)
    assert (before.outcome, after.outcome) == (Outcome.HIT, Outcome.OK)


QP = "h:1:2 [5] ibvwrap.c:262 NCCL WARN Call to ibv_modify_qp failed with {}"


@pytest.mark.parametrize(
    ("line", "says", "command"),
    [
        (
            QP.format(
                "110 Connection timed out, on dev mlx5_1:1, curr state INIT, next state RTR, local GID index 3,"
                " local GID ::ffff:10.0.0.1, remote GID ::ffff:10.0.1.2"
            ),
            "(10.0.1.2) is not reached from the device here (mlx5_1:1, GID index 3): Connection timed out (110)",
            "ping -c 3 -I 10.0.0.1 10.0.1.2",
        ),
        (QP.format("101 Network is unreachable"), "Network is unreachable (101)", "export NCCL_CROSS_NIC=0"),
        (QP.format("error No route to host"), "No route to host (113)", "export NCCL_CROSS_NIC=0"),
        (QP.format("22 Invalid argument"), "Invalid argument (22)", "show_gids"),
    ],
)
def test_ibv_modify_qp_is_told_by_its_number(line: str, says: str, command: str) -> None:
    [found] = report(line).findings
    assert found.finding.rule == "nccl-infiniband"
    assert says in found.finding.message
    lines = [one for fix in found.fixes for one in (*fix.commands.shell, *fix.commands.pip)]
    assert command in lines
    assert not any("{" in one for one in lines)


def test_nccl_s_peers_are_not_the_master() -> None:
    found = report("h:1:2 [0] include/socket.h:390 NCCL WARN Connect to 192.0.2.112<21724> failed : Connection refused\n")
    [peer] = [one for one in found.findings if one.finding.rule == "launch-unreachable"]
    assert "192.0.2.112<21724>" in peer.finding.message
    commands = [line for fix in peer.fixes for line in fix.commands.shell]
    assert "ip route get 192.0.2.112" in commands
    assert not any("MASTER_ADDR" in line for line in commands)
