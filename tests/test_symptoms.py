"""The symptom table: every entry's own samples, no other rule's, and time that grows with the text alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from expressions import repeats_of
from hypothesis import given
from hypothesis import strategies as st

from envcheck.checks import all_checks
from envcheck.collect import settle
from envcheck.facts.snapshot import Arm, DevicesFacts, LiveFacts, LiveStatus, RankFacts, Snapshot, SymptomsFacts
from envcheck.report.session import rule_session
from envcheck.symptoms.scan import GATES, Entry, Scanner, SymptomTable, condense
from envcheck.tables.folders import rules_folder

TABLE = SymptomTable((rules_folder(),))
RULES = {check.id for check in all_checks()}
ENTRIES = [pytest.param(entry, id=entry.id) for entry in TABLE.entries]


def scan(*texts: str, met: tuple[str, ...] = (), stated: bool = False) -> Scanner:
    scanner = Scanner(TABLE)
    scanner.met.update(met)
    for text in texts:
        scanner.scan(text, "log", stated=stated)
    return scanner


@pytest.mark.parametrize("entry", ENTRIES)
def test_samples_match_their_own_entry_and_no_other_rule(entry: Entry) -> None:
    assert entry.data["sample"]
    for sample in entry.data["sample"]:
        found = scan(sample, met=tuple(entry.data.get("needs", ())[:1]), stated=entry.stated).finish()
        names = {match.symptom for match in found.matches} | {one.entry for one in (*found.victims, *found.harmless)}
        assert entry.id in names, sample
        others = {match.rule for match in found.matches} - set(entry.rules)
        assert not others, f"{sample!r} also names {others}"


@pytest.mark.parametrize("entry", ENTRIES)
def test_entry_is_complete(entry: Entry) -> None:
    data = entry.data
    assert data["issue"].startswith("https://")
    assert set(entry.rules) <= RULES
    assert all(len(literal) >= 3 for literal in entry.literals)
    assert data["pattern"].strip()
    allowed = {"id", "rule", "also", "literal", "pattern", "needs", "unless", "stated", "issue", "sample", "ask", "why"}
    assert set(data) <= allowed
    assert entry.kind != "victim" or data["ask"]
    assert entry.kind != "harmless" or data["why"]
    for condition in (*data.get("needs", ()), *data.get("unless", ())):
        assert condition in TABLE.conditions


def test_ids_are_unique() -> None:
    names = [entry.id for entry in TABLE.entries]
    assert len(names) == len(set(names))


def test_an_entry_without_a_literal_is_refused(tmp_path: Path) -> None:
    (tmp_path / "symptoms").mkdir()
    (tmp_path / "symptoms" / "site.toml").write_text('[[symptom]]\nid = "ours"\n')
    with pytest.raises(ValueError, match=r"site\.toml: ours has no literal"):
        _ = SymptomTable((tmp_path,)).entries


def slow(expression: str) -> Iterator[str]:
    """What makes a pattern more than linear: a repeat without bound, or one inside another."""
    for name, most, around in repeats_of(expression):
        if most > 2000:
            yield f"{name} without a bound"
        if most > 1 and any(outer > 3 for outer in around):
            yield f"{name} inside a repeat"


@pytest.mark.parametrize("entry", ENTRIES)
def test_patterns_are_linear(entry: Entry) -> None:
    assert list(slow(entry.pattern.pattern)) == []


def adversarial(entry: Entry) -> list[str]:
    """Texts that begin like a match over and over."""
    long = []
    for sample in entry.data["sample"]:
        for cut in (len(sample) // 2, len(sample) - 1):
            text = (sample[:cut] + " ") * (60000 // max(cut, 1))
            long.append(text)
        long.append(sample[: len(sample) // 3] + sample[len(sample) // 3] * 60000)
    for literal in entry.literals:
        long.append((literal + " ") * (60000 // len(literal)))
        long.append(literal + "a" * 60000 + literal)
        long.append((literal + "(" * 30 + "\n") * (60000 // (len(literal) + 30)))
    return long


@pytest.mark.parametrize("entry", ENTRIES)
def test_adversarial_text_costs_little(entry: Entry) -> None:
    for text in adversarial(entry):
        scanner = Scanner(SymptomTable(()))
        scanner.table.__dict__["entries"] = (entry,)
        began = time.process_time()
        scanner.scan(text, "log", stated=entry.stated)
        assert time.process_time() - began < 0.5, text[:80]


@given(st.text(max_size=400))
def test_any_text_scans(text: str) -> None:
    assert scan(text).finish() is not None


def test_values_of_groups_with_a_number_share_a_name() -> None:
    found = scan("The server socket has failed to listen. port: 29777, useIpv6: false, code: -98, name: EADDRINUSE, message: x").finish()
    assert {match.values.get("port") for match in found.matches} == {"29777"}


def test_a_message_over_several_lines() -> None:
    found = scan(
        "    The detected CUDA version (12.2) mismatches the version that was used to compile\n    PyTorch (11.3). Please\n"
    ).finish()
    assert {match.rule for match in found.matches} == {"nvcc-major-mismatch", "cuda-versions-differ"}
    assert found.matches[0].values == {"nvcc": "12.2", "torch_cuda": "11.3"}


def test_a_message_that_began_on_the_line_before() -> None:
    found = scan(
        "ImportError: /x/audio/_torch_sox.cpython-36m-x86_64-linux-gnu.so:\nundefined symbol: _ZN2at19NonVariableTypeMode10is_enabledEv\n"
    ).finish()
    assert "torch-companion-mismatch" in {match.rule for match in found.matches}


def test_needs_and_unless_look_at_all_texts() -> None:
    failure = "RuntimeError: CUDA error: unspecified launch failure"
    assert not scan(failure).finish().matches
    assert [match.rule for match in scan(failure, "PM: suspend exit").finish().matches] == ["nvidia-uvm-missing"]
    missing = "ModuleNotFoundError: No module named 'torch'"
    assert [match.rule for match in scan(missing).finish().matches] == ["torch-missing"]
    assert not scan(missing, "Getting requirements to build wheel did not run successfully").finish().matches


def test_harmless_lines_count_for_no_rule() -> None:
    found = scan(
        "[W socket.cpp:558] [c10d] The client socket cannot be initialized to connect to [localhost]:29500 (errno: 97 - Address family not supported by protocol)."  # noqa: E501
    ).finish()
    assert not found.matches
    assert [one.entry for one in found.harmless] == ["errno-97"]


def test_victims_name_no_rule_and_say_where_to_look() -> None:
    found = scan("torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\ntrain.py FAILED\n").finish()
    assert not found.matches
    assert "--log-dir" in found.victims[0].advice


def test_observations_are_matched_only_as_such() -> None:
    line = "fabric_state_completed = false"
    assert not scan(line).finish().matches
    assert [match.rule for match in scan(line, stated=True).finish().matches] == ["fabric-not-ready"]


def test_matches_of_one_entry_are_few() -> None:
    text = "".join(
        f"node{n}: NCCL WARN Duplicate GPU detected : rank {n} and rank {n + 1} both on CUDA device 1{n}00\n" for n in range(500)
    )
    assert len(scan(text).finish().matches) <= 4


def test_condense_keeps_new_lines_and_what_follows_them() -> None:
    log = (
        "".join(f"step {n} loss 0.{n}\n" for n in range(1000))
        + "Traceback\n  one\n  two\n"
        + "".join(f"step {n} loss 0.{n}\n" for n in range(1000))
    )
    kept = condense(log).split("\n")
    assert len(kept) < 20
    assert "Traceback" in kept and "  two" in kept


def test_a_symptom_deep_in_a_long_log_is_found() -> None:
    noise = "".join(f"2026-11-27 step {n} loss 0.{n}\n" for n in range(30000))
    found = scan(noise + "RuntimeError: CUDA error: uncorrectable ECC error encountered\n" + noise).finish()
    assert [match.rule for match in found.matches] == ["gpu-ecc-error"]


def test_long_logs_scan_in_time() -> None:
    """2 s for 10 MB is the promise; a tenth of it, with room for a busy machine."""
    text = "".join(
        f"node{n % 16}:{n}:{n + 7} [{n % 8}] NCCL INFO Channel {n % 32:02d}/0 : {n % 8}[{n % 8}] via P2P/CUMEM\n" for n in range(14000)
    )
    scanner = Scanner(TABLE)
    began = time.process_time()
    scanner.scan(text, "log")
    assert len(text) > 900_000
    assert time.process_time() - began < 0.6


def test_gates_hold_no_regular_expression() -> None:
    assert all(gate and gate == gate.strip("\n") for gate in GATES)


FORKED = "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method"
ORDINAL = "CUDA error: invalid device ordinal"


@pytest.mark.parametrize(("words", "rule"), [(FORKED, "launch-fork-after-cuda"), (ORDINAL, "visible-devices-out-of-range")])
def test_what_our_own_probes_print_is_no_fault_of_a_program(words: str, rule: str) -> None:
    """The same words are a finding where a program has printed them."""
    ours = settle(Snapshot(devices=DevicesFacts(available=False, error=words)), rule_session())
    assert not isinstance(ours.symptoms, SymptomsFacts) or not ours.symptoms.matches
    told = Scanner(TABLE)
    told.scan(f"RuntimeError: {words}", "train.log")
    assert [match.rule for match in told.finish().matches] == [rule]


@pytest.mark.parametrize("signal", ["SIGSEGV", None])
def test_a_rank_whose_peer_was_killed_says_nothing_of_the_way_there(signal: str | None) -> None:
    """Where both live, its words are what is known."""
    peer = RankFacts(0, error="RuntimeError: Gloo connectFullMesh failed with [pair.cc:144] no error")
    dead = RankFacts(1, error=f"died with {signal} in the stage ddp" if signal else "", signal=signal)
    arm = Arm("gloo-as-is", "gloo", "cpu", 2, LiveStatus.FAIL, ranks=(peer, dead))
    found = settle(Snapshot(live=LiveFacts(LiveStatus.FAIL, arms=(arm,))), rule_session()).symptoms
    matches = found.matches if isinstance(found, SymptomsFacts) else ()
    assert [match.rule for match in matches] == ([] if signal else ["gloo-interface"])
