"""`--try` as a user meets it: which way is tried next, what a report says then, and what is refused before anything starts."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from trial_wheels import index, variables, wheel

from envcheck.commands import try_flags, trying
from envcheck.commands.bases import base
from envcheck.engine.rule import Severity
from envcheck.errors import UsageError
from envcheck.facts.codec import edit
from envcheck.facts.record import replace
from envcheck.facts.snapshot import Missing, Snapshot, Why
from envcheck.planner.result import Commands, Fix, Grade, PlanReport, TrialResult, Way
from envcheck.read.own_report import _ASIDE
from envcheck.render.json_v1 import document, plan_document
from envcheck.render.markdown import render as markdown
from envcheck.render.text import render as text
from envcheck.render.wording import fix_aside, trial_line
from envcheck.report.report import Report
from envcheck.report.session import RuleSession, report_on
from envcheck.report.session import rule_session as rules
from envcheck.tables.folders import rules_folder

BY = rules()
HEALTHY = base(rules_folder(), "cpu")
BROKEN = replace(HEALTHY, torch=Missing(Why.ABSENT, "torch is not installed"))


def report(snapshot: Snapshot) -> Report:
    return report_on(snapshot, BY, live_requested=True)


def judged(args: argparse.Namespace, by: RuleSession) -> Report:
    """A check that knows only whether the module `demo` can be imported."""
    done = subprocess.run([args.python, "-c", "import demo"], capture_output=True, timeout=60)
    return report(HEALTHY if done.returncode == 0 else BROKEN)


@pytest.fixture
def args(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    """The flags of `envcheck plan --try --yes` of a user with folders of their own."""
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    for name, value in variables(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    return argparse.Namespace(try_timeout=120.0, yes=True, tool="auto", index_base=None, timeout=60.0)


@pytest.fixture
def snapshot() -> Snapshot:
    """A healthy machine whose target is the interpreter of the tests; without numpy, so that all comes from our own index."""
    return edit(edit(HEALTHY, "python.executable", sys.executable), "packages.distributions", [])


@pytest.fixture
def way(tmp_path: Path) -> Callable[..., Way]:
    """Ways that install one version of the package `demo`, which says that it is torch as well."""
    wheels = [
        wheel(tmp_path, "demo", "1.0"),
        wheel(tmp_path, "demo", "2.0", body="raise ImportError('libcudart.so.12')\n"),
        wheel(tmp_path, "torch", "9.9.9"),
    ]
    url = index(tmp_path / "simple", *wheels)

    def make(version: str, **more: Any) -> Way:
        line = f"uv pip install --python {sys.executable} torch==9.9.9 demo=={version} --index-url {url}"
        return Way(Commands(uv=(line,)), True, f"Install demo {version}", note=UNTRIED, grade=Grade.CHECKED, **more)

    return make


UNTRIED = "Checked against envcheck's tables and rules. Nothing was installed; download and disk space were not tested."


def statuses(ways: Sequence[Way]) -> list[tuple[str, str, str | None]]:
    return [(way.title.split()[-1], way.grade.value, way.trial.status if way.trial else None) for way in ways]


def test_the_next_way_is_tried_where_one_fails_and_the_one_that_passed_stands_first(
    args: argparse.Namespace, snapshot: Snapshot, way: Callable[..., Way], tmp_path: Path
) -> None:
    plan = PlanReport((way("3.0"), way("2.0"), way("1.0"), way("1.0.1")))
    done = trying.try_plan(plan, snapshot, args, BY, False, judged)
    assert statuses(done.ways) == [
        ("1.0", "tried", "passed"),
        ("3.0", "unchecked", "failed"),  # no such version
        ("2.0", "unchecked", "failed"),  # does not import
        ("1.0.1", "checked", None),  # nobody needed it
    ]
    assert [one.proved for one in done.ways] == [True, False, False, True]
    assert [UNTRIED in one.note for one in done.ways] == [False, False, False, True]
    assert os.listdir(tmp_path / "tmp") == []


def test_ways_that_cannot_be_tried_say_why(args: argparse.Namespace, snapshot: Snapshot, way: Callable[..., Way]) -> None:
    driver = Way(Commands(), True, "Upgrade the driver", who="admin", grade=Grade.CHECKED)
    conda = Way(Commands(conda=("conda install pytorch",)), True, "Install conda", grade=Grade.CHECKED)
    done = trying.try_plan(PlanReport((driver, conda, way("1.0"))), snapshot, args, BY, False, judged)
    reasons = {one.title: one.trial.reason for one in done.ways if one.trial}
    assert reasons == {
        "Upgrade the driver": "it needs an administrator",
        "Install conda": "it has no command of uv",
        "Install demo 1.0": "",
    }
    assert statuses(done.ways)[0] == ("1.0", "tried", "passed")


def test_what_is_kept_is_only_examined(args: argparse.Namespace, snapshot: Snapshot) -> None:
    keep = Way(Commands(), True, "Keep torch", note="Nothing to change.", grade=Grade.CHECKED)
    seen: list[str] = []

    def here(look: argparse.Namespace, by: RuleSession) -> Report:
        seen.append(look.python)
        assert (look.live, look.static, look.facts) == ("quick", False, None)
        return report(HEALTHY)

    done = trying.try_plan(PlanReport((keep,)), snapshot, args, BY, False, here)
    assert (seen, done.ways[0].grade, done.ways[0].note) == ([sys.executable], Grade.TRIED, "Nothing to change.")


def test_a_no_ends_it(args: argparse.Namespace, snapshot: Snapshot, way: Callable[..., Way], monkeypatch: pytest.MonkeyPatch) -> None:
    args.yes = False
    answers = iter(["n\n", "y\n"])
    monkeypatch.setattr(sys, "stdin", argparse.Namespace(readline=lambda: next(answers)))
    done = trying.try_plan(PlanReport((way("1.0"), way("1.0"))), snapshot, args, BY, False, judged)
    assert statuses(done.ways) == [("1.0", "checked", "not-run"), ("1.0", "checked", None)]


def test_elsewhere_is_resolved_only(args: argparse.Namespace, snapshot: Snapshot, way: Callable[..., Way]) -> None:
    done = trying.try_plan(PlanReport((way("1.0"), way("3.0"))), edit(snapshot, "python.version", "3.12.3"), args, BY, True, judged)
    assert statuses(done.ways) == [("1.0", "resolved", "resolved"), ("3.0", "unchecked", "failed")]


def test_what_the_tables_doubt_is_not_made_better_by_resolving(args: argparse.Namespace) -> None:
    doubted = Way(Commands(), False, grade=Grade.UNCHECKED)
    assert trying.with_trial(doubted, TrialResult("resolved"), UNTRIED).grade is Grade.UNCHECKED
    assert trying.with_trial(doubted, TrialResult("passed"), UNTRIED).grade is Grade.TRIED
    assert trying.with_trial(doubted, TrialResult("undecided"), UNTRIED).grade is Grade.UNCHECKED


@pytest.fixture
def failing(way: Callable[..., Way]) -> Report:
    """A report whose first error has two ways out and whose second shares the better one."""
    found = report(BROKEN)
    assert found.findings
    fixes = tuple(
        Fix(one.title, kind="install", commands=one.commands, proved=True, note=one.note, grade=one.grade)
        for one in (way("2.0"), way("1.0"))
    )
    first = replace(found.findings[0], fixes=fixes)
    return replace(
        found, findings=(first, *(replace(one, fixes=()) for one in found.findings[1:])), plan=PlanReport((way("2.0"), way("1.0")))
    )


def test_fixes_are_tried_and_every_format_says_so(args: argparse.Namespace, snapshot: Snapshot, failing: Report) -> None:
    found = trying.try_fixes(
        replace(failing, snapshot=replace(failing.snapshot, python=snapshot.python, packages=snapshot.packages)), args, BY, False, judged
    )
    assert [(fix.grade, fix.trial.status) for fix in found.findings[0].fixes if fix.trial] == [
        (Grade.UNCHECKED, "failed"),
        (Grade.TRIED, "passed"),
    ]
    assert [way.grade for way in found.plan.ways] == [Grade.UNCHECKED, Grade.TRIED]
    written = document(found)
    jsonschema.validate(written, json.loads(resources.files("envcheck").joinpath("schema/report-v1.json").read_text(encoding="utf-8")))
    assert [fix["trial"]["status"] for fix in written["findings"][0]["fixes"]] == ["failed", "passed"]
    assert written["plan"]["ways"][1]["grade"] == "tried"
    for page in (text(found, fix_suggest=True), markdown(found, fix_suggest=True)):
        flat = " ".join(page.split())
        assert "Install demo 2.0 (tried with uv: failed after " in flat
        assert "Install demo 1.0 (tried with uv: passed in " in flat
        assert "nothing was installed" not in flat


def test_a_finding_that_stays_is_no_cure(args: argparse.Namespace, snapshot: Snapshot, failing: Report) -> None:
    """Whatever its severity: a warning whose fix is tried has to be gone for the fix to have passed."""
    warned = replace(failing.findings[0], finding=replace(failing.findings[0].finding, severity=Severity.WARNING))
    only = replace(failing, snapshot=snapshot, findings=(warned,))
    stays = replace(report(HEALTHY), findings=(warned,))
    found = trying.try_fixes(only, args, BY, False, lambda *_: stays)
    assert [fix.trial.status for fix in found.findings[0].fixes if fix.trial] == ["failed", "failed"]
    assert warned.finding.rule in str(found.findings[0].fixes[0].trial)
    gone = trying.try_fixes(only, args, BY, False, lambda *_: report(HEALTHY))
    assert gone.findings[0].fixes[0].grade is Grade.TRIED


def test_a_variable_is_tried_where_it_would_be_set(args: argparse.Namespace, snapshot: Snapshot, failing: Report) -> None:
    seen: list[str | None] = []

    def check(look: argparse.Namespace, by: RuleSession) -> Report:
        seen.append(os.environ.get("DEMO_VARIABLE"))
        return report(HEALTHY)

    fix = Fix("Set it", kind="env", commands=Commands((), (), (), ("export DEMO_VARIABLE='a b'",)))
    one = replace(failing, snapshot=snapshot, findings=(replace(failing.findings[0], fixes=(fix,)),))
    found = trying.try_fixes(one, args, BY, False, check)
    assert (found.findings[0].fixes[0].grade, seen, os.environ.get("DEMO_VARIABLE")) == (Grade.TRIED, ["a b"], None)


def test_nothing_to_try_is_said(args: argparse.Namespace, snapshot: Snapshot, capsys: pytest.CaptureFixture[str]) -> None:
    trying.try_fixes(report(HEALTHY), args, BY, False, judged)
    assert capsys.readouterr().err == "envcheck: --try: no finding has a command that could be tried\n"


def test_a_plan_without_a_trial_has_no_such_key(way: Callable[..., Way]) -> None:
    (one,) = plan_document(PlanReport((way("1.0"),)))["ways"]
    assert (one["grade"], "trial" in one) == ("checked", False)


@pytest.mark.parametrize(
    ("trial", "line"),
    [
        (TrialResult("passed", tool="uv", seconds=41.4), "tried with uv: passed in 41 s"),
        (
            TrialResult("failed", "pip ended with exit code 1: no", "pip", 9),
            "tried with pip: failed after 9 s: pip ended with exit code 1: no",
        ),
        (TrialResult("failed", "no such version", "uv", 1, failed="uv pip install x --dry-run"), "not resolved: no such version"),
        (
            TrialResult("undecided", "the live check did not decide", "uv", 60),
            "tried, not decided after 60 s: the live check did not decide",
        ),
        (TrialResult("resolved", "", "uv", 2), "resolved with uv in 2 s, not installed"),
        (TrialResult("not-run", "it needs an administrator"), "not tried: it needs an administrator"),
    ],
)
def test_a_trial_in_a_line(trial: TrialResult, line: str) -> None:
    assert trial_line(trial) == line


@pytest.mark.parametrize("words", [["plan", "--try"], ["check", "--fix-suggest", "--try"], ["--try"]])
def test_no_terminal_and_no_yes_is_refused_before_anything_starts(words: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "envcheck", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == "envcheck: --try downloads packages and asks before it does; this is no terminal: add --yes to go on without the question\n"
    )


def test_a_limit_that_is_none() -> None:
    with pytest.raises(UsageError, match="--try-timeout 1: between 5 and 86400 seconds"):
        try_flags.require_answer(argparse.Namespace(try_it=True, try_timeout=1.0, yes=True), False)


def test_help_says_that_it_downloads() -> None:
    for words in (["plan", "--help"], ["check", "--help"]):
        done = subprocess.run([sys.executable, "-m", "envcheck", *words], capture_output=True, text=True, timeout=60)
        assert "It downloads (gigabytes" in " ".join(done.stdout.split())


def test_several_errors_are_cured_together() -> None:
    torch, numpy, other = (Commands(uv=(f"uv pip install {name}",)) for name in ("torch==2.9.1", "'numpy<2'", "torch==2.8.0"))
    assert trying._rounds([[numpy], [torch, other], [torch]]) == [(numpy, torch), (numpy, other, torch)]
    assert trying._joined((numpy, torch)).uv == ("uv pip install torch==2.9.1", "uv pip install 'numpy<2'")


@pytest.mark.parametrize(
    ("trial", "proved"),
    [
        (TrialResult("passed", "", "uv", 41.0), True),
        (TrialResult("failed", "pip ended with exit code 1: no matching (of 3) distribution", "pip", 9.0), False),
        (TrialResult("failed", "no such version", "uv", 1.0, failed="uv pip install x --dry-run"), False),
        (TrialResult("undecided", "the live check did not decide", "uv", 60.0), True),
        (TrialResult("not-run", "it needs about 7.4 GB in /tmp, and 626 MB are free there"), True),
        (TrialResult("not-run", "the package index cannot be reached: " + "x" * 400), None),
    ],
)
def test_what_is_said_of_a_trial_is_taken_off_again_where_a_report_is_read(trial: TrialResult, proved: bool | None) -> None:
    grade = Grade.CHECKED if proved else Grade.UNCHECKED
    for who in ("user", "admin"):
        fix = Fix("Install torch 2.9.1 (again)", who, proved=proved, grade=grade, trial=trial)
        printed = f"{fix.title} ({fix_aside(fix)})"
        found = _ASIDE.search(printed)
        assert found is not None, printed
        assert printed[: found.start()] == fix.title
