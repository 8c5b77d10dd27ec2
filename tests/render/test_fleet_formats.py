"""The report of a job in its formats: one screen of text, a document with a schema, a case a host, and no name where none is wanted."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import jsonschema
import pytest
from fleet_samples import SAMPLES, drifted, large, sick

from envcheck.commands.schema import schema
from envcheck.engine.rule import Severity
from envcheck.facts.fleet import FleetLink
from envcheck.facts.hostlist import unfold
from envcheck.facts.record import replace
from envcheck.render.fleet import FORMATS, render_fleet
from envcheck.render.fleet_wording import where
from envcheck.render.text import PageOptions
from envcheck.report.fleet import BAD_HOST, verdict_of


@pytest.mark.parametrize("name", SAMPLES)
def test_the_document_keeps_its_schema(name: str) -> None:
    report = SAMPLES[name]()
    document = json.loads(render_fleet(report, "json"))
    links = document["fleet"]["links"][:200]  # they are alike, and all 90,000 take ten seconds
    jsonschema.validate({**document, "fleet": {**document["fleet"], "links": links}}, schema("fleet"))
    assert document["exit_code"] == report.exit_code
    assert len(document["hosts"]) == len(report.hosts)
    assert {one["rule"] for one in document["findings"]} == {one.finding.rule for one in report.findings}


def test_the_schema_refuses_what_is_no_report_of_a_job() -> None:
    document = json.loads(render_fleet(drifted(), "json"))
    for broken in ({**document, "exit_code": 2}, {**document, "hosts": [1]}, {key: document[key] for key in document if key != "fleet"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, schema("fleet"))


@pytest.mark.parametrize("name", ["drifted", "sick", "large", "healthy"])
def test_text_is_one_screen_and_begins_with_the_verdict(name: str) -> None:
    report = SAMPLES[name]()
    lines = render_fleet(report, "text").splitlines()
    assert len(lines) <= 50
    assert all(len(line) <= 240 for line in lines)
    assert lines[0].startswith(f"envcheck {report.version}, fleet of {len(report.hosts)} hosts: ")
    assert lines[1].startswith({"fail": "Not ready", "pass": "Ready", "inconclusive": "Cannot tell"}[report.verdict])


def test_each_finding_says_who_what_and_what_to_do() -> None:
    text = " ".join(render_fleet(drifted(), "text").split())
    assert "! n5: driver 570.124.06 on n5, 580.95.05 on 7 others. [warning: fleet-driver-differs]" in text
    assert "do on n5: Install NVIDIA driver 580.95.05 there" in text


@pytest.mark.parametrize("width", [40, 57, 80])
def test_no_line_ends_before_it_is_full(width: int) -> None:
    """What is indented is broken once, where its own width ends."""
    lines = render_fleet(sick(), "text", options=PageOptions(width=width)).splitlines()
    indents = [len(line) - len(line.lstrip()) for line in lines]
    pairs = [(one, two) for one, two, a, b in zip(lines, lines[1:], indents, indents[1:], strict=False) if one and a == b == 4]
    pairs = [(one, two) for one, two in pairs if not two.startswith(("    do ", "    with other values"))]  # another paragraph
    assert pairs or width == 80
    assert [one for one, two in pairs if len(one) + 1 + len(two.split()[0]) <= width] == []


def test_links_that_were_not_tried_are_counted() -> None:
    report = drifted()
    few = replace(report, fleet=replace(report.fleet, links=tuple(one for one in report.fleet.links if one.source == "n1")))
    assert "7 of 56 links tried" in render_fleet(few, "text")
    assert "links tried" not in render_fleet(report, "text")
    assert "7 of 56 links tried" in render_fleet(few, "html")


def test_the_map_tells_a_slow_link_from_a_dead_one_and_rates_in_the_unit_of_the_findings() -> None:
    report = drifted()
    slow = FleetLink("n1", "n2", "transfer", "eth0", "10.0.0.2", 1 << 26, False, 5.0, "slow")
    fine = FleetLink("n2", "n1", "transfer", "eth0", "10.0.0.1", 1 << 26, True, 0.5)
    page = render_fleet(replace(report, fleet=replace(report.fleet, links=(slow, fine), trials=())), "html")
    assert "n1 to n2: transfer of 64 MiB over eth0: slow" in page and ">slow</td>" in page and ">no</td>" not in page
    assert ">1.07</td>" in page and "Gbit/s" in page and "GB/s" not in page


def test_quiet_says_nothing_where_all_is_well_and_verbose_everything() -> None:
    assert render_fleet(SAMPLES["healthy"](), "text", options=PageOptions(quiet=True)) == ""
    assert "gpu-row-remap" in render_fleet(sick(), "text", options=PageOptions(quiet=True))
    verbose = render_fleet(sick(), "text", options=PageOptions(verbose=True))
    assert all(f"rack1n0{number}: GPU {number}" in verbose for number in (1, 2))


def test_a_terminal_without_unicode_gets_ascii_and_a_hostile_name_no_control() -> None:
    assert render_fleet(drifted(), "text", options=PageOptions(unicode=False)).isascii()
    for form in FORMATS:
        text = render_fleet(SAMPLES["hostile"](), form)
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "<script" not in render_fleet(SAMPLES["hostile"](), "html")


def test_junit_has_a_case_a_host_and_one_for_the_job() -> None:
    root = ElementTree.fromstring(render_fleet(sick(), "junit"))  # noqa: S314 - our own
    cases = {case.get("name"): case for case in root.iter("testcase")}
    assert set(cases) == {*sick().hosts, "job"}
    failed = {name for name, case in cases.items() if case.find("failure") is not None}
    assert failed == {"rack1n00", "rack1n01", "rack1n02"}
    assert "GPU 1" in (cases["rack1n01"].findtext("failure") or ""), "in the words of its own case"
    assert root.get("failures") == "3"
    assert root.find("testsuite").get("timestamp") == "2026-11-28T21:20:05Z"  # type: ignore[union-attr]


def test_junit_leaves_out_nothing_of_a_host_that_fails() -> None:
    """What does not fail the run stands in the output of the same case."""
    first, other = sick().findings[0], drifted().findings[0]
    mild = [replace(other, finding=replace(other.finding, severity=Severity.WARNING), hosts=first.hosts, cases=())]
    root = ElementTree.fromstring(render_fleet(replace(sick(), findings=(first, *mild)), "junit"))  # noqa: S314 - our own
    [case] = [one for one in root.iter("testcase") if one.get("name") == first.hosts[0]]
    assert first.finding.rule in (case.findtext("failure") or "")
    assert all(one.finding.rule in (case.findtext("system-out") or "") for one in mild)


def test_junit_of_what_nobody_can_tell_has_an_error() -> None:
    undecided = replace(SAMPLES["healthy"](), verdict="inconclusive", exit_code=3, because=("n2: nothing came",))
    root = ElementTree.fromstring(render_fleet(undecided, "junit"))  # noqa: S314 - our own
    [error] = root.iter("error")
    assert error.text == "n2: nothing came"
    assert root.get("errors") == "1"


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", ["drifted", "sick"])
def test_a_redacted_report_names_no_host_and_keeps_which_is_which(name: str, form: str) -> None:
    report = SAMPLES[name]()
    text = render_fleet(report, form, redact=True)
    names = re.compile(r"(?<![\w-])(?:n|rack1n)(?:\d+|\[)(?![\w])")
    assert not names.search(text), names.search(text)
    if name == "drifted":
        assert "570.124.06 on host5" in text
    if form == "json":
        assert json.loads(text)["hosts"] == [f"host{number}" for number in range(1, len(report.hosts) + 1)]


def test_hosts_are_all_or_named_or_counted() -> None:
    report = large()
    assert where(report.hosts, report) == "all 300 hosts"
    assert where(report.hosts[1:3], report) == "rack00n[01-02]"
    assert where((), report) == ""
    odd = where(report.hosts[::7], report)
    assert odd.startswith("43 hosts (")
    assert len(odd) < 200


def test_four_is_for_hosts_that_can_be_left_out() -> None:
    report = sick()
    assert report.exit_code == BAD_HOST
    assert report.bad_hosts == report.hosts[:3]
    assert verdict_of(report.findings, replace(report.fleet, hosts=report.hosts[:3]), ())[1:] == (1, ())
    of_job = [replace(one, hosts=()) for one in report.findings]
    assert verdict_of(of_job, report.fleet, ())[1] == 1
    assert verdict_of((), replace(report.fleet, bad_hosts=("rack1n05",)), ())[1:] == (BAD_HOST, ("rack1n05",))
    assert verdict_of(report.findings, report.fleet, (), "never")[:2] == ("fail", 0)
    assert verdict_of((), report.fleet, ("x",))[:2] == ("inconclusive", 3)
    warned = [one for one in drifted().findings if one.finding.severity is Severity.WARNING]
    assert verdict_of(warned, drifted().fleet, ())[1] == 0
    assert verdict_of(warned, drifted().fleet, (), "warning")[1:] == (BAD_HOST, ("n5",))


def test_the_excluded_hosts_are_as_slurm_takes_them() -> None:
    document = json.loads(render_fleet(sick(), "json"))
    assert document["exclude"] == "rack1n[00-02]"
    assert list(unfold(document["exclude"])) == document["bad_hosts"]
