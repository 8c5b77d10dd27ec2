"""The GPU acceptance on fakes: no GPU was there when it was written. What is proved is that it tells right answers from wrong ones, skips
what a machine cannot make, keeps its time, and that every rule that it expects exists."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import gpu_acceptance
import pytest
from gpu_acceptance import Trial

from envcheck.report.session import rule_session

# Answers as envcheck would on a healthy machine of FAKE_GPUS GPUs; FAKE_BLIND: one that never finds anything.
FAKE = """
import json, os, sys
words, env = sys.argv[1:], os.environ
count, blind = int(env.get("FAKE_GPUS", 1)), "FAKE_BLIND" in env
value, rule = env.get("CUDA_VISIBLE_DEVICES"), None
if value in ("", "-1"): rule = "visible-devices-empty"
elif value in ("99", "GPU-ffffffff"): rule = "visible-devices-out-of-range"
elif value == "0,0": rule = "visible-devices-duplicate"
elif value == "0,99": rule = "visible-devices-truncated"
elif "--static" in words: rule = "driver-too-old"
elif env.get("LD_LIBRARY_PATH", "").find("acceptance") >= 0: rule = "libcuda-stub"
elif "ENVCHECK_FAULT" in env: rule = "live-hang"
elif os.path.exists("/dev/null") and env.get("FAKE_HIDDEN"): rule = "driver-no-devices"
if blind: rule = None
names = ["gloo-loopback", "gloo-as-is", *(["nccl"] if count > 1 else ["nccl-one-rank", "gloo-cuda"])]
arms = [{"name": name, "status": "pass"} for name in names]
code = 0 if rule is None else 1
print(json.dumps({"findings": [{"rule": rule}] if rule else [], "exit_code": code,
                  "live": {"arms": arms, "insights": ["x"] if rule else []},
                  "facts": {"devices": {"count": count}, "gpus": {"devices": [{"mig": False}]}}}))
sys.exit(code)
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    (tmp_path / "envcheck.py").write_text(FAKE)
    monkeypatch.setattr(gpu_acceptance, "hidden_nodes", lambda: ("env", "FAKE_HIDDEN=1"))
    monkeypatch.setattr(gpu_acceptance, "ratio", lambda *_: gpu_acceptance.Result("time against the import", "pass"))
    return [sys.executable, str(tmp_path / "envcheck.py")]


def statuses(command: list[str]) -> dict[str, str]:
    return {one.name: one.status for one in gpu_acceptance.run(command, sys.executable, lambda _: None)}


def test_a_healthy_machine_passes(fake: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "result.json"
    assert gpu_acceptance.main(["-o", str(output), "--envcheck", *fake]) == 0, capsys.readouterr().out
    rows = json.loads(output.read_text())
    assert {row["status"] for row in rows} == {"pass", "skipped"}
    assert next(row for row in rows if row["name"] == "default")["document"]["facts"]["devices"]["count"] == 1


def test_what_a_machine_cannot_make_is_skipped(fake: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    one = statuses(fake)
    assert (one["NCCL of one rank"], one["NCCL of two ranks"], one["MIG"]) == ("pass", "skipped", "skipped")
    monkeypatch.setenv("FAKE_GPUS", "2")
    two = statuses(fake)
    assert (two["NCCL of one rank"], two["NCCL of two ranks"], two["a hang over NCCL"]) == ("skipped", "pass", "pass")


def test_one_that_finds_nothing_fails(fake: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FAKE_BLIND", "1")
    found = statuses(fake)
    assert {name for name, status in found.items() if status == "pass"} == {
        "default", "NCCL of one rank", "CUDA_VISIBLE_DEVICES=0", "full", "time against the import",
    }  # fmt: skip
    assert gpu_acceptance.main(["-o", str(tmp_path / "x"), "--envcheck", *fake]) == 1


def test_no_gpu_is_no_acceptance(fake: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FAKE_GPUS", "0")
    assert gpu_acceptance.main(["-o", str(tmp_path / "x"), "--envcheck", *fake]) == 1
    assert len(json.loads((tmp_path / "x").read_text())) == 1


@pytest.mark.parametrize(
    ("code", "document", "words"),
    [
        (0, {"findings": []}, "exit code 0, not 1"),
        (1, {}, "exit code 1"),
        (1, {"findings": [{"rule": "other"}]}, "none of a"),
        (1, {"findings": [{"rule": "a"}], "live": {"arms": [{"name": "n", "status": "hang"}]}}, "n: hang, not pass"),
        (1, {"findings": [{"rule": "a"}], "live": {"arms": [{"name": "n", "status": "pass"}]}}, "said anything"),
        (1, {"findings": [{"rule": "a"}], "live": {"arms": [{"name": "n", "status": "pass"}], "insights": [1]}}, ""),
    ],
)
def test_judged(code: int, document: dict[str, Any], words: str) -> None:
    trial = Trial("x", (), (1,), ("a",), {"n": "pass"}, insights=True)
    said = gpu_acceptance.judged(trial, code, document, "")
    assert (words in said) if words else not said


def test_every_rule_that_is_expected_exists(tmp_path: Path) -> None:
    known = {one.id for one in rule_session().every_check}
    assert {rule for trial in gpu_acceptance.trials(tmp_path) for rule in trial.rules} - known == set()
    assert all(not trial.needs or trial.needs in gpu_acceptance.NEEDS for trial in gpu_acceptance.trials(tmp_path))


def test_no_trial_begins_that_would_not_end_in_time(fake: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_acceptance, "LIMIT_SECONDS", 100.0)
    assert statuses(fake)["full"] == "skipped"


def test_each_expectation_can_fail(tmp_path: Path) -> None:
    """Of each row: the answer that it expects passes, and does not where one thing of it is otherwise."""
    for trial in gpu_acceptance.trials(tmp_path):
        arms = [{"name": name, "status": status} for name, status in trial.arms.items()]
        answer = {"findings": [{"rule": rule} for rule in trial.rules[:1]], "live": {"arms": arms, "insights": ["x"]}}
        assert gpu_acceptance.judged(trial, trial.codes[0], answer, "") == ""
        others = [{**answer, "findings": [{"rule": "another"}]}] if trial.rules else []
        changed = [[*arms[:at], *instead, *arms[at + 1 :]] for at, arm in enumerate(arms) for instead in ([], [{**arm, "status": "hang"}])]
        others += [{**answer, "live": {"arms": one, "insights": ["x"]}} for one in changed]
        others += [{**answer, "live": {"arms": arms, "insights": []}}] if trial.insights else []
        assert all(gpu_acceptance.judged(trial, trial.codes[0], other, "") for other in others), trial.name
        assert all(gpu_acceptance.judged(trial, code, answer, "") for code in {0, 1, 2, 3, 70, 124, 130} - set(trial.codes)), trial.name
        assert trial.rules or trial.arms or trial.codes == (0,), trial.name
