"""Formats that other programs read: JUnit by Jenkins, SARIF by code scanning, a termination message by Kubernetes."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest
from report_samples import SAMPLES, driver_old, finding, hostile, machine

from envcheck.engine.rule import Confidence
from envcheck.facts.record import replace
from envcheck.render import render, termination
from envcheck.render.sarif import PLACE
from envcheck.report.language import language
from envcheck.report.report import Report, Reported, finish

# element → (attributes that it may have, those that it must have, children): https://github.com/jenkinsci/xunit-plugin junit-10.xsd
JENKINS: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": ({"name", "time", "tests", "failures", "errors"}, set(), {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url"},
        {"name", "tests", "failures", "errors"},
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
    ),
    "testcase": ({"name", "time", "classname", "group"}, {"name"}, {"skipped", "error", "failure", "system-out", "system-err"}),
    "failure": ({"type", "message"}, set(), set()),
    "error": ({"type", "message"}, set(), set()),
    "skipped": ({"type", "message"}, set(), set()),
    "system-out": (set(), set(), set()),
    "system-err": (set(), set(), set()),
}


def undecided() -> Report:
    return finish((), (), machine("cpu", {"live": {"missing": "timeout", "reason": "no time was left"}}))


@pytest.mark.parametrize("report", [*(make() for make in SAMPLES.values()), undecided()], ids=[*SAMPLES, "undecided"])
def test_junit_is_what_jenkins_takes(report: Report) -> None:
    root = ElementTree.fromstring(render(report, "junit"))  # noqa: S314
    assert root.tag == "testsuites"
    for element in root.iter():
        may, must, children = JENKINS[element.tag]
        assert must <= element.attrib.keys() <= may, element.tag
        assert {child.tag for child in element} <= children
    assert bool(root.findall(".//failure") or root.findall(".//error")) is (report.exit_code != 0), "exit 3 is not green"


def sarif(report: Report) -> dict[str, Any]:
    document = json.loads(render(report, "sarif"))
    assert document["version"] == "2.1.0" and len(document["runs"]) == 1
    run: dict[str, Any] = document["runs"][0]
    return run


@pytest.mark.parametrize("name", SAMPLES)
def test_sarif_has_a_result_for_each_finding_and_a_rule_for_each_result(name: str) -> None:
    report = SAMPLES[name]()
    run = sarif(report)
    rules = run["tool"]["driver"]["rules"]
    undecided = ["cannot-tell"] if report.verdict == "inconclusive" else []
    assert [one["ruleId"] for one in run["results"]] == [*(one.finding.rule for one in report.findings), *undecided]
    assert bool([one for one in run["results"] if one["level"] != "note"]) or report.exit_code == 0, "exit 3 is not green"
    assert len({one["id"] for one in rules}) == len(rules)
    for one in run["results"]:
        assert rules[one["ruleIndex"]]["id"] == one["ruleId"]
        assert one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == PLACE
        assert one["message"]["text"] and one["level"] in ("error", "warning", "note")
    told = run["invocations"][0]
    assert told["exitCode"] == report.exit_code and told["executionSuccessful"] is (report.verdict != "inconclusive")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", told.get("endTimeUtc", "2026-11-28T21:20:05Z"))


def test_what_is_only_likely_is_no_error_in_sarif() -> None:
    rows = [Reported(finding("driver-too-old", confidence=one)) for one in (Confidence.CERTAIN, Confidence.LIKELY)]
    assert [one["level"] for one in sarif(finish(rows, (), machine("cpu")))["results"]] == ["error", "warning"]


def test_sarif_tells_the_fix_and_why_it_cannot_tell() -> None:
    [command] = driver_old().findings[0].fixes[0].commands.pip
    assert command in sarif(driver_old())["results"][0]["message"]["text"]
    told = sarif(undecided())["invocations"][0]
    assert told["executionSuccessful"] is False and told["toolExecutionNotifications"]
    shown = sarif(undecided())["results"][-1]
    assert shown["level"] == "warning" and all(reason in shown["message"]["text"] for reason in undecided().because)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_termination_message_fits_and_ends_with_the_verdict(name: str) -> None:
    report = SAMPLES[name]()
    text = render(report, "termination")
    assert len(text.encode("utf-8")) <= termination.LIMIT_BYTES
    assert text.splitlines()[-1] == render(report, "text").splitlines()[-1]
    assert [one.finding.rule for one in report.findings if f"[{one.finding.rule}]" not in text] == [], "each of these samples fits"


def test_a_termination_message_counts_what_does_not_fit() -> None:
    rows = [Reported(finding("driver-too-old", message="ä" * 300)) for _ in range(40)]
    text = render(finish(rows, (), machine("cpu")), "termination")
    assert len(text.encode("utf-8")) <= termination.LIMIT_BYTES
    whole = text.count("[driver-too-old]")
    assert 3 < whole < 40 and f"\n{40 - whole} more findings did not fit into 4096 bytes\n" in text


def test_a_chinese_termination_message_is_counted_in_bytes() -> None:
    rows = [Reported(finding("driver-too-old", message="驱动太旧" * 90)) for _ in range(40)]
    report = replace(finish(rows, (), machine("cpu")), language=language("zh"))
    text = render(report, "termination")
    whole = text.count("[driver-too-old]")
    assert len(text.encode("utf-8")) <= termination.LIMIT_BYTES < len(text.encode("utf-8")) + 1300, "as many as fit, of 1.2 kB each"
    assert whole > 1 and f"\n另有 {40 - whole} 个结果" in text and text.splitlines()[-1] == "未就绪：40 个错误"


def test_one_finding_larger_than_the_limit_is_counted() -> None:
    text = render(finish([Reported(finding("driver-too-old", message="y " * 9000))], (), machine("cpu")), "termination")
    assert len(text.encode("utf-8")) <= termination.LIMIT_BYTES and "\n1 more finding did not fit" in text


@pytest.mark.parametrize("form", ["sarif", "termination"])
def test_machine_text_is_inert(form: str) -> None:
    text = render(hostile(), form)
    assert "\x1b" not in text and "\u202e" not in text and "\x00" not in text
