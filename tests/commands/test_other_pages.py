"""`envcheck diagnose` on what envcheck writes of plans, comparisons and jobs: findings come back, and a plan is nobody's facts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fleet_samples import SAMPLES
from own_reports import BY, report_of

from envcheck.cli import main
from envcheck.commands import diagnose
from envcheck.render.fleet import FORMATS, render_fleet
from envcheck.render.json_v1 import render_record
from envcheck.render.text import PageOptions
from envcheck.report.report import Report
from envcheck.report.translate import translated_fleet

PLANNED = ("plan", "torch==2.9.*", "--for", "h100", "--driver", "535.183")
REFUSED = ("plan", "torch==2.9.*", "torchvision==0.20.*", "--for", "h100")


def read(text: str) -> tuple[Report, diagnose.Read]:
    given = diagnose.Given(BY)
    given.take_raw(text, "page")
    return diagnose.diagnose(given)


@pytest.fixture
def sides(tmp_path: Path) -> tuple[str, str]:
    """Two recordings that differ in a driver, a torch and what is wrong with them."""
    paths = (tmp_path / "a.json", tmp_path / "b.json")
    for path, rule in zip(paths, ("gpu-busy", "driver-too-old"), strict=True):
        path.write_text(render_record(report_of(rule).snapshot, "envcheck", "0.1.0"), encoding="utf-8")
    return str(paths[0]), str(paths[1])


def written(words: tuple[str, ...], form: str, folder: Path) -> str:
    page = folder / f"page.{form}"
    main([*words, "-o", f"{form}={page}"])
    return page.read_text(encoding="utf-8")


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_a_plan_or_a_comparison_is_named_and_none_of_it_is_a_fact(form: str, lang: str, tmp_path: Path, sides: tuple[str, str]) -> None:
    cases = {PLANNED: "plan", REFUSED: "plan", ("compare", *sides): "compare", ("compare", sides[0], sides[0]): "compare"}
    for words, what in cases.items():
        report, found = read(written((*words, "--lang", lang), form, tmp_path))
        assert (report.verdict, report.exit_code, report.findings) == ("inconclusive", 3, ())
        assert (
            report.because[0] == f"a {'plan says what to install' if what == 'plan' else 'comparison says what differs'}, not what is wrong"
        )
        [kind] = found.files["page"]
        assert kind.lower().endswith(f"({form}, {what})"), words
        assert not found.sources and not found.conflicts, "nothing of it is a fact of some machine"


def test_a_comparison_shows_first_what_came_or_went(tmp_path: Path, sides: tuple[str, str]) -> None:
    rules = json.loads(written(("compare", *sides), "json", tmp_path))["rules"]
    hits = ["hit" in (one["before"], one["after"]) for one in rules]
    assert {"gpu-busy", "driver-too-old"} <= {one["rule"] for one in rules[: hits.count(True)]}
    assert hits == sorted(hits, reverse=True)


def test_a_log_that_begins_like_a_plan_is_read(tmp_path: Path) -> None:
    log = "for epoch in range(3):\n\n1. load\nRuntimeError: The NVIDIA driver on your system is too old (found version 12020).\n"
    report, _ = read(log)
    assert {one.finding.rule for one in report.findings} == {"driver-too-old"}


@pytest.mark.parametrize(("lang", "form"), [*(("", form) for form in FORMATS), ("zh", "text"), ("zh", "html"), ("zh", "junit")])
@pytest.mark.parametrize("name", ["drifted", "sick", "stuck", "healthy"])
def test_a_report_of_a_job_comes_back(name: str, form: str, lang: str) -> None:
    job = SAMPLES[name]()
    spoken = translated_fleet(job, lang, BY.texts) if lang else job
    report, found = read(render_fleet(spoken, form, options=PageOptions(verbose=True)))
    loud = {(one.finding.rule, one.finding.severity.value, one.finding.confidence.value) for one in job.findings}
    again = {(one.finding.rule, one.finding.severity.value, one.finding.confidence.value) for one in report.findings}
    assert again <= loud
    failing = {one.finding.rule for one in job.findings if job.fails(one)}
    assert failing <= {rule for rule, _, _ in again}
    if form in ("json", "html", "text"):
        assert again == loud and report.verdict == job.verdict
    assert not found.symptoms.matches and not found.sources, "its prose is nobody's message"
