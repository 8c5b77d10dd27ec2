"""Rules of a site made of thresholds: where they hold, how they show, and what is wrong with a file of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from plan_hosts import TABLES
from report_samples import machine

from envcheck import FOLDER
from envcheck.checks.thresholds import threshold
from envcheck.cli import main
from envcheck.engine.judge import Outcome, Verdict, judge
from envcheck.facts.codec import edit
from envcheck.facts.record import replace
from envcheck.facts.snapshot import Missing, Snapshot, Why
from envcheck.render.json_v1 import render_record

SCHEMA = json.loads((Path(FOLDER) / "schema" / "report-v1.json").read_text(encoding="utf-8"))
RULE = """
severity = "error"
title = "Shared memory of this cluster is not as its nodes have it"
fix = "Write to the cluster team."
[[when]]
fact = "limits.shm_bytes"
lt = "2 TiB"
[[when]]
fact = "gpus.devices.*.name"
matches = "H100"
"""
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """One command, in a folder with a site's rule and the snapshot of a healthy machine."""
    (tmp_path / "node.json").write_text(render_record(machine("h100x8"), "envcheck", "0"))
    (tmp_path / "pyproject.toml").write_text('[tool.envcheck]\nrules = ["site"]\n')
    (tmp_path / "site" / "limits").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)

    def inside(*words: str, rule: str = RULE, name: str = "limits/shm-of-our-nodes") -> tuple[int, str]:
        (tmp_path / "site" / f"{name}.toml").write_text(rule)
        capsys.readouterr()
        code = main(words)
        out = capsys.readouterr()
        assert code != 70, out.err
        return code, out.out + out.err

    return inside


def test_a_rule_of_a_site_is_a_rule_in_every_report(run: Run) -> None:
    code, said = run("--facts", "node.json", "--json")
    report = json.loads(said)
    jsonschema.validate(report, SCHEMA)
    [finding] = report["findings"]
    assert code == 1 and (finding["rule"], finding["family"], finding["severity"]) == ("shm-of-our-nodes", "limits", "error")
    assert (
        finding["message"].startswith("limits.shm_bytes is ")
        and "is less than 2 TiB; gpus.devices.0.name is NVIDIA H100" in finding["message"]
    )
    assert [one["source"] for one in finding["evidence"]] == ["limits.shm_bytes", "gpus.devices.0.name"]
    assert [fix["text"] for fix in finding["fixes"]] == ["Write to the cluster team."]
    plain = " ".join(run("--facts", "node.json")[1].split())
    assert "Shared memory of this cluster is not as its nodes have it [shm-of-our-nodes]" in plain and "Write to the cluster team." in plain
    for form in ("sarif", "junit", "markdown", "github", "html", "termination"):
        assert "shm-of-our-nodes" in run("--facts", "node.json", "--format", form)[1], form
    assert "shm-of-our-nodes" in run("diagnose", "--facts", "node.json")[1]


def test_a_rule_of_a_site_is_explained_listed_and_shown(run: Run) -> None:
    page = run("explain", "shm-of-our-nodes")[1]
    assert (
        "limits.shm_bytes is less than 2 TiB" in page
        and "gpus.devices.*.name matches 'H100'" in page
        and "Write to the cluster team." in page
    )
    assert "shm-of-our-nodes" in run("explain", "nodes have shared memory of this cluster")[1]
    assert "shm-of-our-nodes" in run("rules")[1]
    rows = {one["rule"]: one for one in json.loads(run("rules", "--json")[1])["rules"]}
    assert rows["shm-of-our-nodes"]["when"][0] == {"fact": "limits.shm_bytes", "lt": "2 TiB"} and "when" not in rows["shm-small"]
    assert "# rule of this site: shm-of-our-nodes (error): Shared memory of this cluster" in run("config")[1]
    assert json.loads(run("config", "--json")[1])["rules"][0]["rule"] == "shm-of-our-nodes"


def test_a_rule_of_a_site_is_selected_ignored_and_rated_like_any_other(run: Run, tmp_path: Path) -> None:
    assert run("--facts", "node.json", "--ignore", "shm-of-our-nodes")[0] == 0
    assert run("--facts", "node.json", "--select", "shm-of-our-nodes")[0] == 1
    (tmp_path / "pyproject.toml").write_text('[tool.envcheck]\nrules = ["site"]\nseverity = { shm-of-our-nodes = "warning" }\n')
    assert run("--facts", "node.json")[0] == 0


BASE = machine("h100x8")
NO_GPUS = replace(BASE, gpus=Missing(Why.ABSENT, "no NVIDIA driver"))
UNREAD = replace(BASE, gpus=Missing(Why.FAILED, "NVML: no permission"))


def judged(snapshot: Snapshot, *rows: dict[str, object]) -> Verdict:
    [verdict] = judge(snapshot, [threshold("ours", rows)], TABLES)
    return verdict


@pytest.mark.parametrize(
    ("snapshot", "row", "outcome"),
    [
        (edit(BASE, "limits.shm_bytes", 2**33), {"fact": "limits.shm_bytes", "lt": "8 GiB"}, Outcome.OK),
        (edit(BASE, "limits.shm_bytes", 2**33), {"fact": "limits.shm_bytes", "le": "8 GiB"}, Outcome.HIT),
        (edit(BASE, "limits.shm_bytes", 2**33), {"fact": "limits.shm_bytes", "ge": 2**33}, Outcome.HIT),
        (edit(BASE, "limits.shm_bytes", 2**33), {"fact": "limits.shm_bytes", "gt": "8192 MiB"}, Outcome.OK),
        (edit(BASE, "limits.shm_bytes", None), {"fact": "limits.shm_bytes", "lt": "8 GiB"}, Outcome.UNKNOWN),
        (edit(BASE, "driver.version", "570.9"), {"fact": "driver.version", "lt": "570.86"}, Outcome.HIT),
        (edit(BASE, "driver.version", "570.124"), {"fact": "driver.version", "lt": "570.86"}, Outcome.OK),
        (edit(BASE, "driver.version", "of yesterday"), {"fact": "driver.version", "lt": "570.86"}, Outcome.UNKNOWN),
        (edit(BASE, "torch.cpu_build", True), {"fact": "torch.cpu_build", "eq": True}, Outcome.HIT),
        (edit(BASE, "torch.import_status", "error"), {"fact": "torch.import_status", "in": ["error", "crashed"]}, Outcome.HIT),
        (BASE, {"fact": "torch.import_status", "in": ["error", "crashed"]}, Outcome.OK),
        (BASE, {"fact": "gpus.devices.*.name", "matches": "H[0-9]00"}, Outcome.HIT),
        (BASE, {"fact": "gpus.devices.*.name", "matches": "^H200"}, Outcome.OK),
        (edit(BASE, "driver.version", "580.65.06"), {"fact": "driver.version", "matches": r"^(?:\d+\.){2}\d+$"}, Outcome.HIT),
        (edit(BASE, "driver.version", "a" * 20_000), {"fact": "driver.version", "matches": "a*b"}, Outcome.UNKNOWN),
        (edit(BASE, "driver.version", "a" * 800), {"fact": "driver.version", "matches": "a*a*a*b"}, Outcome.UNKNOWN),
        (edit(BASE, "driver.version", "a" * 90), {"fact": "driver.version", "matches": "a*a*a*b"}, Outcome.OK),
        (edit(BASE, "driver.version", "a" * 90), {"fact": "driver.version", "matches": "a?" * 60 + "b"}, Outcome.UNKNOWN),
        (BASE, {"fact": "gpus.devices.*.memory_bytes", "ge": "60 GiB", "lt": "70 GiB"}, Outcome.OK),
        (NO_GPUS, {"fact": "gpus.devices.*.memory_bytes", "lt": "80 GiB"}, Outcome.NOT_APPLICABLE),
        (NO_GPUS, {"fact": "gpus.devices", "missing": True}, None),
        (NO_GPUS, {"fact": "gpus.devices.0.name", "missing": True}, Outcome.HIT),
        (BASE, {"fact": "gpus.devices.0.name", "missing": True}, Outcome.OK),
        (BASE, {"fact": "gpus.devices.8.name", "missing": True}, Outcome.HIT),
        (BASE, {"fact": "gpus.devices.0.name", "missing": False}, Outcome.HIT),
        (UNREAD, {"fact": "gpus.devices.0.name", "missing": True}, Outcome.UNKNOWN),
        (UNREAD, {"fact": "gpus.devices.0.name", "missing": False}, Outcome.UNKNOWN),
        (UNREAD, {"fact": "gpus.devices.*.memory_bytes", "lt": "80 GiB"}, Outcome.UNKNOWN),
        (BASE, {"fact": "packages.flash-attn", "missing": True}, Outcome.HIT),
        (BASE, {"fact": "packages.torch", "missing": True}, Outcome.OK),
        (BASE, {"fact": "packages.torch", "lt": "1.0"}, Outcome.OK),
    ],
)
def test_where_a_threshold_holds(snapshot: Snapshot, row: dict[str, object], outcome: Outcome | None) -> None:
    if outcome is None:
        with pytest.raises(ValueError, match=r"no single value; name a field below it"):
            judged(snapshot, row)
        return
    assert judged(snapshot, row).outcome is outcome


def test_all_conditions_hold_and_one_that_fails_decides_whatever_is_unread() -> None:
    small, gpus = {"fact": "limits.shm_bytes", "lt": "1 KiB"}, {"fact": "gpus.devices.*.memory_bytes", "lt": "999 GiB"}
    assert judged(edit(BASE, "limits.shm_bytes", 1), small, gpus).outcome is Outcome.HIT
    assert judged(edit(BASE, "limits.shm_bytes", 2048), small, gpus).outcome is Outcome.OK
    assert judged(edit(UNREAD, "limits.shm_bytes", 2048), small, gpus).outcome is Outcome.OK
    unknown = judged(edit(UNREAD, "limits.shm_bytes", 1), small, gpus)
    assert (unknown.outcome, unknown.reason) == (Outcome.UNKNOWN, "NVML: no permission")


WHEN = '[[when]]\nfact = "limits.shm_bytes"\nlt = "8 GiB"\n'
HEAD = 'severity = "error"\ntitle = "Too small"\n'
OURS = "limits/shm-of-our-nodes"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (OURS, HEAD + WHEN.replace("shm_bytes", "shm_byte"), "when 1: fact = 'limits.shm_byte': shm_byte: no such fact; known here: "),
        (OURS, HEAD + WHEN.replace("limits.", "limit."), "when 1: fact = 'limit.shm_bytes': a path begins with one of system, limits, "),
        (OURS, HEAD + WHEN.replace("8 GiB", "8 gigs"), """when 1: lt = '8 gigs': a number is expected, or one with a unit (B, kB, """),
        (OURS, HEAD + WHEN.replace("8 GiB", "8 s"), "when 1: lt = '8 s': a number is expected, or one with a unit (B, kB, "),
        (OURS, HEAD + WHEN.replace("lt", "less"), "when 1: unknown key 'less'; there are fact, lt, le, eq, ge, gt, in, matches, missing"),
        (OURS, HEAD + WHEN + "missing = true\n", "when 1: missing stands alone"),
        (OURS, HEAD + '[[when]]\nfact = "limits.shm_bytes"\n', "when 1: limits.shm_bytes is compared with nothing; one of lt, "),
        (OURS, HEAD + WHEN.replace('"8 GiB"', "9" * 400), "when 1: lt = 9999999999"),
        (OURS, HEAD + WHEN.replace('"8 GiB"', "inf"), "when 1: lt = inf: a number is expected, or one with a unit (B, kB, "),
        (OURS, HEAD + WHEN.replace('"8 GiB"', "2026-01-01"), "when 1: lt = 2026-01-01: a number is expected, or one with a unit (B, "),
        (OURS, HEAD + "[[when]]\nlt = 3\n", "when 1: fact = None: a path is expected, as in limits.shm_bytes"),
        (OURS, HEAD + "when = 3\n", "when = 3: one or more tables [[when]] are expected"),
        (OURS, HEAD + '[[when]]\nfact = "driver.version"\nlt = 580\n', "when 1: lt = 580: a version in quotes is expected, as in"),
        (OURS, HEAD + '[[when]]\nfact = "driver.version"\nin = "580"\n', "when 1: in = '580': a list of values is expected"),
        (OURS, HEAD + '[[when]]\nfact = "gpus.devices.*.name"\nmatches = "H(1"\n', "when 1: matches = 'H(1': a regular expression is "),
        *(
            (OURS, HEAD + f"[[when]]\nfact = 'driver.version'\nmatches = '{slow}'\n", f"when 1: matches = '{slow}': a repeat around a ")
            for slow in ("(a+)+$", "(a|a)*$", "(?:(?:a?)b?){30}", "(?=(a*)*b)", "((?i:a+)c?)+$")
        ),
        (OURS, HEAD + '[[when]]\nfact = "gpus.devices"\nmissing = true\n', "when 1: fact = 'gpus.devices': that is no single value; "),
        (OURS, HEAD + '[[when]]\nfact = "torch.import_status"\neq = "broken"\n', "when 1: eq = 'broken': one of ok, error, crashed, "),
        (OURS, HEAD + '[[when]]\nfact = "torch.import_status"\nlt = "ok"\n', "when 1: lt = 'ok': lt compares numbers and versions, and "),
        (OURS, HEAD + '[[when]]\nfact = "torch.cpu_build"\neq = "yes"\n', "when 1: eq = 'yes': true or false is expected"),
        (OURS, HEAD + '[[when]]\nfact = "packages.left-pad"\nmissing = true\n', "when 1: fact = 'packages.left-pad': only distributions "),
        (OURS, WHEN, "severity is missing: one of error, warning, info is expected"),
        (OURS, HEAD.replace("error", "fatal") + WHEN, "severity = 'fatal': one of error, warning, info is expected"),
        (OURS, HEAD + "titel = 3\n" + WHEN, "unknown key 'titel'; did you mean 'title'?"),
        (OURS, HEAD + "fix = 3\n" + WHEN, "fix = '3': a text in quotes, or tables [[fix]] is expected"),
        (OURS, HEAD + 'message = "only {size} left"\n' + WHEN, "message: nothing fills {size}; {found} is what was found"),
        (OURS, HEAD.replace("Too small", "{found}") + WHEN, "title: nothing fills {found}"),
        (OURS, HEAD + 'layer = "disk"\n' + WHEN, "layer = 'disk': one of GPU, driver, "),
        ("limits/shm-small", HEAD + WHEN, "when: the condition of shm-small is envcheck's; give a rule of your own another name"),
        ("limits/Shm small", HEAD + WHEN, "a rule's name is words in small letters with hyphens"),
        (
            "limits/shm-of-ours",
            HEAD,
            "no rule of the family limits is called 'shm-of-ours'; `envcheck rules` lists them (a rule of your own ",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_file_key_and_what_is_expected(run: Run, tmp_path: Path, name: str, text: str, words: str) -> None:
    for command in (("explain", "driver-too-old"), ("--facts", "node.json"), ("config",)):
        code, said = run(*command, rule=text, name=name)
        assert code == 2 and len(said.splitlines()) == 1, said
        assert said.startswith(f"envcheck: {tmp_path}/pyproject.toml: rules: {tmp_path}/site/{name}.toml: {words}"), said
