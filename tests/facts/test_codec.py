"""Numbers of a record that no machine has are refused with a line, whatever field they stand in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envcheck.errors import UsageError
from envcheck.facts.codec import LONGEST, bounded
from envcheck.facts.recorded import parse_snapshot
from envcheck.planner.wish import read_wish
from envcheck.render import FORMATS, render
from envcheck.report.session import report_on, rule_session
from envcheck.tables import versions

HEALTHY = json.loads((Path(__file__).parents[1] / "documents" / "v1" / "healthy.json").read_text())


@pytest.mark.parametrize("number", ["9" * 400, "-1" + "0" * 30, "NaN", "Infinity", "-1e400"])
@pytest.mark.parametrize(("section", "field"), [("system", "cpu_limit"), ("system", "memory_bytes"), ("limits", "open_files_soft")])
def test_a_number_of_no_machine(section: str, field: str, number: str) -> None:
    document = {**HEALTHY, "facts": {**HEALTHY["facts"], section: {**HEALTHY["facts"][section], field: "here"}}}
    with pytest.raises(UsageError, match=rf"--facts x: {section}\.{field}: (a number of this world|int) was expected"):
        parse_snapshot(json.dumps(document).replace('"here"', number), "x")


def test_the_largest_that_one_has() -> None:
    """RLIM_INFINITY and a page counter of the kernel's."""
    facts = {**HEALTHY["facts"], "limits": {**HEALTHY["facts"]["limits"], "open_files_soft": (1 << 63) - 1}}
    assert parse_snapshot(json.dumps({**HEALTHY, "facts": facts}), "x").limits.open_files_soft == (1 << 63) - 1  # type: ignore[union-attr]


def test_a_version_with_more_digits_than_python_reads() -> None:
    many = "9" * 5000
    assert versions.parsed(many) is None
    assert versions.meets("2.8.0", f"=={many}") is None
    assert versions.at_least(many, "2.0") is False


def test_a_name_that_packaging_takes_and_then_refuses() -> None:
    with pytest.raises(UsageError, match="'x_' is not a requirement: a name ends in a letter or a digit"):
        read_wish(["torch", "x_"], rule_session().tables)


MEGABYTE = "x" * (1 << 20)


@pytest.mark.parametrize("form", FORMATS)
def test_texts_without_end_in_a_record_make_no_report_without_end(form: str) -> None:
    """Every one of these is a value of a message, evidence or a fact that some format shows more than once."""
    facts = HEALTHY["facts"]
    failure = {"type": "ImportError", "text": MEGABYTE, "stderr": MEGABYTE, "stack": MEGABYTE}
    torch = {**facts["torch"], "version": f"2.13.0+{MEGABYTE}", "import_failure": failure}
    network = {**facts["network"], "variables": {"NCCL_DEBUG": MEGABYTE, MEGABYTE: "1"}}
    launcher = {"master_addr": MEGABYTE, "master_addr_resolves": [], "variables": {"MASTER_ADDR": MEGABYTE}}
    changed = {**facts, "torch": torch, "network": network, "launcher": launcher, "gpus": {"missing": "failed", "reason": MEGABYTE}}
    snapshot = parse_snapshot(json.dumps({**HEALTHY, "facts": changed}), "record")
    report = report_on(snapshot, rule_session())
    assert "launch-unreachable" in {one.finding.rule for one in report.findings}
    assert len(render(report, form)) < 1 << 20


def test_a_text_that_is_too_long_keeps_both_ends() -> None:
    assert bounded("a" * LONGEST) == "a" * LONGEST
    assert bounded("a" + "b" * LONGEST + "c", 10) == "abbbb … bbbbc"
