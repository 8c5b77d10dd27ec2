"""A site's own folder of rules, and what a configuration file ignores or changes: they count in every command and show in every format."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
from report_samples import driver_old
from test_configuration import run as start

from envcheck import FOLDER
from envcheck.cli import main
from envcheck.commands.configuration import rule_session
from envcheck.errors import UsageError
from envcheck.options import parse
from envcheck.render.json_v1 import render_record
from envcheck.report.site import check_site
from envcheck.tables.folders import rules_folder

SCHEMA = json.loads((Path(FOLDER) / "schema" / "report-v1.json").read_text(encoding="utf-8"))
SYMPTOM = """
[[symptom]]
id = "scratch-quota"
rule = "shm-small"
messages = ["the site's scratch quota of {size:int} MiB is used up"]
"""
LOG = "RuntimeError: the site's scratch quota of 64 MiB is used up\\n"
TEXT = """
why = "The drivers of this cluster are the cluster team's."
[[fix]]
kind = "manual"
who = "admin"
text = "Write to the cluster team."
"""
PRODUCT = """
[product]
key = ["group"]
rows = [{ group = "ours", names = ["NVIDIA Prototype X1"], compute_capability = "9.0", kind = "datacenter", source = "the site" }]
"""
PLAN = """
[note]
driver-admin = "The cluster team installs drivers on Mondays."
"""

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """One command, in a folder with a file of settings, a site's rules and the snapshot of a machine with an old driver."""
    for name, text in (("symptoms/ours", SYMPTOM), ("driver/driver-too-old", TEXT), ("compat/gpu-product", PRODUCT), ("plan/texts", PLAN)):
        path = tmp_path / "site" / f"{name}.toml"
        path.parent.mkdir(parents=True)
        path.write_text(text)
    (tmp_path / "node.json").write_text(render_record(driver_old().snapshot, "envcheck", "0"))
    (tmp_path / "train.log").write_text(LOG)
    monkeypatch.chdir(tmp_path)

    def inside(*words: str, settings: str = 'rules = ["site"]\n') -> tuple[int, str]:
        (tmp_path / "pyproject.toml").write_text(f"[tool.envcheck]\n{settings}")
        capsys.readouterr()
        code = main(words)
        out = capsys.readouterr()
        assert code != 70, out.err
        return code, out.out + out.err

    return inside


# ---- a site's folder


def test_a_sites_messages_count_in_diagnose(run: Run, tmp_path: Path) -> None:
    code, said = run("diagnose", "train.log")
    assert "[shm-small]" in said and "the site's scratch quota of 64 MiB is used up" in " ".join(said.split())
    code, said = run("diagnose", "train.log", settings="")
    assert code == 3 and "[shm-small]" not in said
    (tmp_path / "else.toml").write_text('rules = ["site"]\n')
    assert "[shm-small]" in run("diagnose", "--config", "else.toml", "train.log", settings="")[1]


def test_a_sites_messages_count_in_run(run: Run, tmp_path: Path) -> None:
    program = f"import sys; sys.stderr.write({LOG!r}); sys.exit(3)"
    run("--version")
    flags = ("run", "--facts", "node.json", "--fail-on", "never", "--json", "-o", "report.json", "--", sys.executable, "-c", program)
    done = start(*flags, cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert [(one["rule"], one["symptom"]) for one in report["symptoms"]["matches"]] == [("shm-small", "scratch-quota")]


def test_a_sites_text_holds_what_it_says_otherwise_than_ours(run: Run) -> None:
    """Its fix and its reason are there, our message and title stay."""
    for words in (("--facts", "node.json", "--json"), ("diagnose", "--facts", "node.json", "--json")):
        [finding] = (one for one in json.loads(run(*words)[1])["findings"] if one["rule"] == "driver-too-old")
        assert finding["why"] == "The drivers of this cluster are the cluster team's."
        assert "Write to the cluster team." in [fix["text"] for fix in finding["fixes"]]
        assert finding["message"].startswith("Driver 535.183.01 ")
    said = run("explain", "driver-too-old")[1]
    assert "Write to the cluster team. (administrator)" in said
    assert "Write to the cluster team" not in run("explain", "driver-too-old", settings="")[1]
    rows = {one["rule"]: one for one in json.loads(run("rules", "--json")[1])["rules"]}
    assert rows["driver-too-old"]["why"] == "The drivers of this cluster are the cluster team's."


def test_a_folder_without_a_rule_is_refused(run: Run, tmp_path: Path) -> None:
    """Its gate would be open for everybody, and nobody would know."""
    settings = 'rules = ["empty"]\n'
    (tmp_path / "empty" / "limits" / "deeper").mkdir(parents=True)
    (tmp_path / "empty" / "limits" / "deeper" / "ours.toml").write_text("[[when]]\n")
    code, said = run("rules", settings=settings)
    assert code == 2 and said.startswith(f"envcheck: {tmp_path}/pyproject.toml: rules: rules folder {tmp_path}/empty: it holds no rule")


def test_a_sites_rows_count_in_plan(run: Run) -> None:
    code, said = run("plan", "--for", "NVIDIA Prototype X1", "--driver", "580.95.05", "--python", "3.12")
    assert code == 0 and "1. Install torch " in said
    assert run("plan", "--for", "NVIDIA Prototype X1", "--driver", "580.95.05", "--python", "3.12", settings="")[0] == 2


def test_a_sites_words_count_in_plan_and_check(run: Run) -> None:
    """Beside our own: a session of another folder in the same process is not touched."""
    words = "The cluster team installs drivers on Mondays."
    for command in (("plan", "--facts", "node.json", "--json"), ("--facts", "node.json", "--json")):
        ours, theirs, again = run(*command, settings="")[1], run(*command)[1], run(*command, settings="")[1]
        assert words in theirs and words not in ours + again


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("symptoms/ours", SYMPTOM.replace("shm-small", "shm-smal"), "no rule is called 'shm-smal'"),
        ("symptoms/ours", "[[symptom]\n", "cannot be used: "),
        ("limits/ours", "#" * ((1 << 20) + 1), "cannot be used: larger than 1 MiB"),
        ("limits/ours", f"{'x' * 200_000} = 1\n[[when]]\n", f"unknown key '{'x' * 59}…'; there are severity,"),
        ("ours", "[[when]]\n", "a rule stands in the folder of its family, as in limits/ours.toml"),
        ("limit/ours", "[[when]]\n", "a rule stands in the folder of its family; did you mean limits/ours.toml?"),
        ("driver/driver-too-new", TEXT, "no rule of the family driver is called 'driver-too-new'"),
        ("torch/driver-too-old", TEXT, "no rule of the family torch is called 'driver-too-old'"),
        ("driver/driver-too-old", 'severity = "bad"\n', "severity = 'bad': one of error, warning, info is expected"),
        ("driver/driver-too-old", "title = {a = 1}\n", "title = \"{'a': 1}\": a text in quotes is expected"),
        ("driver/driver-too-old", "messages = 3\n", "messages = '3': a table of texts is expected"),
        ("languages/ours", '[glibc]\n"No space left on device" = 3\n', "[glibc] is not a table of lists of texts"),
        ("languages/ours", "[glibc\n", "cannot be used: "),
        ("driver/driver-too-old", "[[fix]]\nkind = {}\n", "fix = "),
        ("symptoms/ours", SYMPTOM + "also = 3\n", "also = '3': a list of rules is expected"),
        ("compat/gpu-products", PRODUCT, "there is no table 'gpu-products'"),
        ("compat/gpu-product", "[product]\n", "cannot be used: [product] has no rows"),
        ("plan/texts", '[note]\ndriver = "x"\n', "the planner has no text note.driver"),
        ("plan/texts", '[note]\ndriver-admin = "{x}"\n', "note.driver-admin: nothing fills {x}"),
        ("plan/texts", '[note]\ndriver-admin = "{x"\n', "cannot be used: "),
        ("plan/installers", "", "of the planner a site can change texts.toml alone"),
        ("compat/gpu-product", PRODUCT.replace("names", "name"), "row 1 of product has no 'names'"),
        ("compat/gpu-product", PRODUCT.replace('"9.0"', "9.0"), "row 1 of product has another kind of 'compute_capability' than"),
        ("compat/gpu-product", PRODUCT.replace("[product]", "[products]"), "the table gpu-product has no section 'products'"),
    ],
)
def test_a_sites_file_that_nothing_could_read_is_refused_with_its_name(run: Run, tmp_path: Path, name: str, text: str, words: str) -> None:
    path = tmp_path / "site" / f"{name}.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    code, said = run("explain", "driver-too-old")
    assert code == 2 and len(said.splitlines()) == 1
    assert said.startswith(f"envcheck: {tmp_path}/pyproject.toml: rules: {tmp_path}/site/{name}.toml: {words}"), said


def test_a_pipe_among_the_rules_is_not_waited_for(run: Run, tmp_path: Path) -> None:
    (tmp_path / "site" / "limits").mkdir(exist_ok=True)
    os.mkfifo(tmp_path / "site" / "limits" / "ours.toml")
    assert run("rules") == (2, f"envcheck: {tmp_path}/pyproject.toml: rules: {tmp_path}/site/limits/ours.toml: not a file\n")


def test_a_severity_is_one_of_a_rule(run: Run) -> None:
    code, said = run("rules", settings='severity = { torch = "info" }\n')
    assert code == 2 and "severity: torch: no such rule" in said


@pytest.mark.parametrize("words", [("diagnose", "train.log"), ("compare", "a", "b"), ("plan",), ("explain", "x"), ("rules",), ("record",)])
def test_every_command_reads_the_settings_and_takes_config(run: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    run("--version", settings="")
    with pytest.raises(UsageError, match=r"pyproject\.toml: unknown key 'ruls'"):
        (tmp_path / "pyproject.toml").write_text("[tool.envcheck]\nruls = 1\n")
        parse(words)
    (tmp_path / "else.toml").write_text('rules = ["site"]\nignore = ["gpu-busy"]\n')
    by = rule_session(parse([*words, "--config", "else.toml"]))
    assert by.folders[1:] == (f"{tmp_path}/site",)
    assert [(one.name, one.file) for one in by.ignore] == [("gpu-busy", "else.toml")]


def test_the_interpreter_of_the_file_is_no_part_of_another_machine(run: Run) -> None:
    code, said = run("plan", "--for", "h100", "--driver", "580.95.05", settings='python = "python3"\n')
    assert code == 0, said


# ---- what is ignored, and severities that a file changed

IGNORE = 'ignore = { driver-too-old = "the new driver comes on Monday", gpu-busy = "a desktop" }\n'
LINE = "ignored: 1 (driver-too-old: the new driver comes on Monday, from pyproject.toml)"


def test_what_is_ignored_shows_in_every_format(run: Run, tmp_path: Path) -> None:
    judged = ("--facts", "node.json")
    plain = " ".join(run(*judged, settings=IGNORE)[1].split())
    assert f" {LINE} " in plain and "gpu-busy" not in plain and "[driver-too-old]" not in plain
    assert LINE in run(*judged, "--format", "markdown", settings=IGNORE)[1].replace("\\", "")
    for form in ("html", "termination"):
        assert LINE in run(*judged, "--format", form, settings=IGNORE)[1]
    github = run(*judged, "--format", "github", settings=IGNORE)[1]
    assert "::notice title=ignored%3A driver-too-old::the new driver comes on Monday, from pyproject.toml\n" in github
    suites = ElementTree.fromstring(run(*judged, "--format", "junit", settings=IGNORE)[1])  # noqa: S314  # our own
    skipped = {case.get("name"): case[0].get("message") for case in suites.iter("testcase") if len(case) and case[0].tag == "skipped"}
    assert skipped["driver-too-old"] == "ignored: the new driver comes on Monday, from pyproject.toml (it would be a finding)"
    assert skipped["gpu-busy"] == "ignored: a desktop, from pyproject.toml"
    told = sum(int(suite.attrib["skipped"]) for suite in suites)
    assert told == sum(case[0].tag == "skipped" for case in suites.iter("testcase") if len(case))
    report = json.loads(run(*judged, "--json", settings=IGNORE)[1])
    jsonschema.validate(report, SCHEMA)
    file = f"{tmp_path}/pyproject.toml"
    assert report["ignored"] == [
        {"rule": "driver-too-old", "reason": "the new driver comes on Monday", "file": file, "outcome": "hit"},
        {"rule": "gpu-busy", "reason": "a desktop", "file": file, "outcome": report["ignored"][1]["outcome"]},
    ]
    assert report["ignored"][1]["outcome"] != "hit"


def test_the_flag_ignores_too_and_a_family_stands_for_its_rules(run: Run) -> None:
    report = json.loads(run("--facts", "node.json", "--json", "--ignore", "driver", settings="")[1])
    rows = {one["rule"]: one for one in report["ignored"]}
    assert rows["driver-too-old"] == {"rule": "driver-too-old", "reason": "--ignore", "file": None, "outcome": "hit"}
    assert set(rows) == {path.stem for path in Path(rules_folder("driver")).glob("*.toml")}
    said = run("--facts", "node.json", "--ignore", "driver-too-old", settings="")[1]
    assert "\nignored: 1 (driver-too-old: --ignore)\n" in said


def test_what_is_not_selected_is_not_ignored(run: Run) -> None:
    report = json.loads(run("--facts", "node.json", "--json", "--select", "torch", settings=IGNORE)[1])
    assert report["ignored"] == []


def test_a_severity_that_a_file_changed_shows_in_every_format(run: Run, tmp_path: Path) -> None:
    settings = 'severity = { driver-too-old = "warning", gpu-busy = "error" }\n'
    judged = ("--facts", "node.json")
    line = "severity changed: 1 (driver-too-old: warning instead of error, from pyproject.toml)"
    assert line in " ".join(run(*judged, settings=settings)[1].split())
    assert line in run(*judged, "--format", "markdown", settings=settings)[1].replace("\\", "")
    assert line in run(*judged, "--format", "html", settings=settings)[1]
    became = "warning instead of error, from pyproject.toml"
    assert f"::notice title=severity changed%3A driver-too-old::{became}\n" in run(*judged, "--format", "github", settings=settings)[1]
    assert f"severity changed: {became}" in run(*judged, "--format", "junit", settings=settings)[1]
    code, said = run(*judged, "--json", settings=settings)
    report = json.loads(said)
    jsonschema.validate(report, SCHEMA)
    assert code != 1
    assert report["severity_changes"][0] == {
        "rule": "driver-too-old", "was": "error", "severity": "warning", "file": f"{tmp_path}/pyproject.toml", "outcome": "hit",
    }  # fmt: skip
    assert [one["rule"] for one in report["severity_changes"]] == ["driver-too-old", "gpu-busy"]


def test_the_page_of_a_rule_says_what_the_file_makes_of_it(run: Run) -> None:
    said = " ".join(run("explain", "gpu-busy", settings='ignore = ["gpu-busy"]\nseverity = { gpu-busy = "error" }\n')[1].split())
    assert "ignored: without a reason, from " in said and "reported as error, from " in said


def test_the_files_that_the_documentation_shows_are_taken(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    shown = re.findall(r"```toml\n# (site/[\w/-]+\.toml).*?\n(.*?)```", page, re.DOTALL)
    for name, text in shown:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    check_site(str(tmp_path / "site"))
    assert {name.split("/")[1] for name, _ in shown} == {"limits", "symptoms", "compat", "plan"}
