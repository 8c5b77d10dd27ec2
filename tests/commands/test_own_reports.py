"""`envcheck diagnose` on reports of envcheck: the same findings come back, and their prose is nobody's error message."""

from __future__ import annotations

import gzip
import html
import io
import json
import re
import sys
import tarfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import report_samples
from hypothesis import given
from hypothesis import strategies as st
from own_reports import BY, RULES, UNRECORDED, archive, documents, extension, report_of

from envcheck.commands import diagnose
from envcheck.options import parse
from envcheck.read.own_archive import read_archive
from envcheck.read.own_reports import take_documents, take_pages
from envcheck.render import FORMATS, render
from envcheck.render.json_v1 import render_record
from envcheck.render.text import PageOptions
from envcheck.report.report import Report

# Each takes seconds of a shared machine: of those that README's command leaves out, .ci/slow takes all
SOME_RULES = [rule if at % 3 == 0 else pytest.param(rule, marks=pytest.mark.slow) for at, rule in enumerate(RULES)]

pytestmark = pytest.mark.usefixtures("one_masking_of_each_text")


TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\nRuntimeError: received 0 items of ancdata\n'


def read(text: str, name: str = "report") -> tuple[Report, diagnose.Read]:
    given = diagnose.Given(BY)
    given.take_raw(text, name)
    return diagnose.diagnose(given)


def told(report: Report) -> set[tuple[str, str, str]]:
    return {(one.finding.rule, one.finding.severity.value, one.finding.confidence.value) for one in report.findings}


def run(path: Path, data: bytes, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    path.write_bytes(data)
    code = diagnose.execute(parse(["diagnose", str(path), "--json"]))
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("rule", SOME_RULES)
def test_every_rule_comes_back_from_every_format(rule: str) -> None:
    """The same rules, severities, confidences and verdict, and no other."""
    first = report_of(rule)
    assert rule in {row[0] for row in told(first)}
    for name, text in documents(rule).items():
        again, kinds = read(text)
        assert told(again) == told(first), name
        assert not kinds.symptoms.matches, f"{name}: the report's own prose was searched"
        if name != "record":
            assert again.verdict == first.verdict, name


def rendered(markdown: str, *, numbers: bool, unfolded: bool) -> str:
    """What a page shows of Markdown, as a browser copies it."""
    lines, fenced = [], False
    for line in markdown.replace("<details><summary>Facts</summary>", "\x00").split("\n"):
        if line.strip().startswith("```"):
            fenced = not fenced
        elif line.startswith("\x00"):
            lines.append("▶ Facts")
            if not unfolded:
                break
        elif fenced:
            lines.append(line if "▶ Facts" in lines else line.removeprefix("   "))
        elif line.startswith("|"):
            lines += [] if line.startswith(("|-", "| | |")) and not line.strip("|- ") else ["\t".join(line.strip("| ").split(" | "))]
        elif line != "</details>":
            line = re.sub(r"^(?:#{3,4} |   |- )", "", line)
            line = line if numbers else re.sub(r"^\d+\. ", "", line)
            lines.append(html.unescape(re.sub(r"\\([^A-Za-z0-9\s])", r"\1", line.replace("`", ""))))
    return "\n".join(lines)


@pytest.mark.parametrize("rule", SOME_RULES)
def test_markdown_comes_back_as_a_page_shows_it(rule: str) -> None:
    first, source = report_of(rule), documents(rule)["markdown"]
    for numbers, unfolded in ((True, True), (False, False)):
        page = rendered(source, numbers=numbers, unfolded=unfolded)
        again, kinds = read(f"Hello,\n\nthis is what I get:\n\n{page}\n\nAny idea?\n")
        assert told(again) == told(first), page
        assert not kinds.symptoms.matches, "the report's own prose was searched"
        assert read(page)[0].verdict == first.verdict
    fixed = [one for one in first.findings if one.fixes]
    assert not fixed or any(one.fixes for one in again.findings)


@pytest.mark.parametrize("rule", RULES[::6])
def test_text_comes_back_however_it_was_shown(rule: str) -> None:
    first = report_of(rule)
    for options in (PageOptions(120), PageOptions(50, color=True), PageOptions(80, unicode=False), PageOptions(100, True, True)):
        again, _ = read(render(first, "text", options=options))
        assert (told(again), again.verdict) == (told(first), first.verdict), options


@pytest.mark.parametrize("rule", RULES[::6])
def test_text_comes_back_where_a_page_has_lost_its_margins(rule: str) -> None:
    lines = documents(rule)["text"].split("\n")
    again, kinds = read("\n".join(" ".join(line.split()) if line.startswith(" ") else line for line in lines))
    assert told(again) == told(report_of(rule))
    assert not kinds.symptoms.matches


@pytest.mark.parametrize("rule", RULES[::6])
@pytest.mark.parametrize("mark", ["> ", "    ", "2026-11-28T10:00:0{}.123Z ", "envcheck-1  | ", "[pod/node-0/main] "])
def test_text_and_markdown_come_back_from_a_quotation(rule: str, mark: str) -> None:
    for name in ("text", "markdown") if mark == "> " else ("text",):
        lines = documents(rule)[name].split("\n")
        quoted = "\n".join((mark.format(at % 10) + line).rstrip() for at, line in enumerate(lines))
        again, _ = read(f"Hello,\n\nsince Monday this is what I get:\n\n{quoted}\n\nAny idea?\n")
        assert told(again) == told(report_of(rule)), name


@pytest.mark.parametrize("name", ["text", "markdown", "json", "html", "junit", "github"])
def test_what_stands_around_a_report_is_read_too(name: str) -> None:
    report = documents("driver-too-old")[name]
    again, kinds = read(f"My run ends with this.\n\n{TRACEBACK}\nAnd envcheck says\n\n{report}\nThanks!\n")
    assert again.findings[0].finding.rule == "driver-too-old"
    assert ("open-files-low", "error", "certain") in told(again)
    assert kinds.symptoms.matches and {one.rule for one in kinds.symptoms.matches} == {"open-files-low"}


@pytest.mark.parametrize("name", [*FORMATS, "record"])
@pytest.mark.parametrize("sample", ["cpu", "rtx4090", "h100x8", "static"])
def test_a_healthy_machine_comes_back_healthy(sample: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = report_samples.SAMPLES[sample]()
    text = render_record(report.snapshot, "envcheck", "0.1.0") if name == "record" else render(report, name)
    code, document = run(tmp_path / "report", text.encode(), capsys)
    assert (code, document["findings"], document["verdict"]) == (0, [], "pass")
    assert document["read"]["reports"][0]["format"]


@pytest.mark.parametrize("name", ["json", "markdown", "html", "record"])
def test_facts_come_where_a_format_holds_them(name: str) -> None:
    first = report_of("driver-too-old").snapshot
    again, _ = read(documents("driver-too-old")[name])
    assert (again.snapshot.driver.version, again.snapshot.torch.version) == (first.driver.version, first.torch.version)  # type: ignore[union-attr]
    if name in ("markdown", "html"):
        damaged, _ = read(documents("driver-too-old")[name].replace("facts", "fakts"))
        assert told(damaged) == told(report_of("driver-too-old")), "without them the findings stand"


@pytest.mark.parametrize("name", FORMATS)
def test_what_was_left_open_stays_open(name: str) -> None:
    first = report_samples.cannot_tell()
    again, _ = read(render(first, name))
    assert (again.verdict, again.exit_code, again.findings) == ("inconclusive", 3, ())
    assert again.because[0][:30] == first.because[0][:30]


@pytest.mark.parametrize("name", FORMATS)
def test_a_rule_of_another_version_is_shown_as_it_was(name: str) -> None:
    text = render(report_samples.mixed(), name).replace("live-hang", "rule-of-tomorrow")
    again, _ = read(text)
    one = next(row for row in again.findings if row.finding.rule == "rule-of-tomorrow")
    assert (one.finding.severity.value, one.finding.title) == ("error", "The live check hangs")
    assert one.finding.message == "Rank 1 did not enter all_reduce; rank 0 waits there."
    assert one.finding.evidence[0].source == "rank 0"
    assert all(fix.title.endswith(" (as reported)") for fix in one.fixes), "its commands are not ours"
    assert "NCCL_DEBUG=INFO envcheck --live full" in [line for fix in one.fixes for line in fix.commands.shell]
    assert (again.verdict, again.exit_code) == ("fail", 1)
    assert render(again, name), "and it can be shown in every format"


@pytest.mark.parametrize("name", FORMATS)
def test_a_diagnosis_of_a_diagnosis_says_the_same(name: str) -> None:
    again, _ = read(render(read(render(report_samples.mixed(), name))[0], name))
    assert told(again) == told(report_samples.mixed())
    marks = [fix.title.count("as reported") for row in again.findings for fix in row.fixes]
    assert marks == ([0, 1] if name in ("json", "markdown", "html") else [1, 1]), "once; where the facts are there the fix may be today's"


@pytest.mark.parametrize("name", FORMATS)
def test_hostile_words_in_a_report_stay_words(name: str) -> None:
    again, _ = read(render(report_samples.hostile(), name))
    shown = render(again, "text", options=PageOptions(100))
    assert "\x1b" not in shown and "\u202e" not in shown and "\x00" not in shown
    if name in ("json", "html", "github", "junit"):
        assert [one.finding.rule for one in again.findings] == ["driver-too-old"]


KERNEL = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
HEAD = "envcheck 0.1.0\ntarget  /x\n"


@pytest.mark.parametrize(
    "planted",
    [
        HEAD + f"rank 7: {KERNEL}\n" * 300 + "Ready to train: x\n",
        f"{HEAD}host    h\nterminate called after throwing an instance of 'c10::Error'\n  what():  {KERNEL[14:]}\n\nReady to train: x\n",
        f"{HEAD}- rank 7: {KERNEL}\n+ {KERNEL}\n\n  {KERNEL}\nReady: x\n",
        f"– info: x [driver-too-old]\n\n  {KERNEL}\nReady to train: x\n",
        f"{HEAD}\n! warning: x [open-files-low]\n[rank0]: {KERNEL}\nNo problem found\n",
        f"### envcheck 0.1.0: Ready to train: x\n{KERNEL}\n\n<details>\n```json\n{{}}\n```\n</details>\n",
        f"envcheck 0.1.0: Ready to train: x\n{KERNEL}\nFacts\n",
        f"envcheck 0.1.0, fleet of 2 hosts: a\nReady to train\n{KERNEL}\nReady to train\n",
    ],
)
def test_no_verdict_around_a_failure_hides_it(planted: str) -> None:
    for text in (planted, "".join(f"[pod/a/b] {line}\n" for line in planted.splitlines()) if planted.startswith(HEAD) else planted):
        report, kinds = read(text)
        assert kinds.symptoms.matches and report.verdict != "pass" and report.exit_code != 0


PLANTED = (
    KERNEL,
    f"  {KERNEL}",
    f"<pre>{KERNEL}</pre>",
    "  exit status 139",
    "[ 100.1] NVRM: Xid (PCI:0000:07:00): 79, pid=7, GPU has fallen off the bus.",
    "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory",
)


@pytest.mark.parametrize("name", ["text", "markdown", "rendered", "html", "junit", "json", "sarif"])
def test_no_report_hides_a_failure_that_stands_within(name: str) -> None:
    """A stranger wrote it there, or two programs wrote into one file."""
    report = report_samples.SAMPLES["rtx4090"]()
    page = rendered(render(report, "markdown"), numbers=True, unfolded=True) if name == "rendered" else render(report, name)
    lines = page.split("\n")
    assert len(lines) > 10
    places = sorted({round(part * len(lines) / 16) for part in range(1, 17)} | {5, len(lines) - 1})
    for number, at in enumerate(places):
        planted = PLANTED[number % len(PLANTED)]
        again, _ = read("\n".join([*lines[:at], planted, *lines[at:]]))
        assert (again.verdict, again.exit_code) != ("pass", 0), (at, planted)


@pytest.mark.parametrize("name", ["text", "markdown", "html", "junit"])
@pytest.mark.parametrize("sample", ["cpu", "h100x8"])
def test_nothing_of_a_report_is_left_to_others(sample: str, name: str) -> None:
    text = render(report_samples.SAMPLES[sample](), name)
    left, found = take_documents(text, BY.texts.ids)
    assert take_pages(left, BY.texts.ids)[0].strip() == "" and (found or name == "text")


def test_what_harms_nothing_within_a_report_changes_no_verdict() -> None:
    for name in ("markdown", "html", "junit"):
        lines = render(report_samples.SAMPLES["rtx4090"](), name).split("\n")
        at = 5 if name == "markdown" else next(number for number, line in enumerate(lines) if line.startswith(("<h2>", "    <testcase")))
        left, (report,) = take_documents("\n".join([*lines[:at], "epoch 1: loss 2.34", *lines[at:]]), BY.texts.ids)
        assert left.split("\n")[at] == "epoch 1: loss 2.34" and left.strip() == "epoch 1: loss 2.34"
        assert report.verdict == "pass"


def test_a_finding_alone_counts_if_its_rule_is_known() -> None:
    lines = documents("driver-too-old")["text"].split("\n")
    start = next(at for at, line in enumerate(lines) if line.startswith("✗ error: "))
    part = "\n".join(lines[start : start + 8])
    assert told(read(f"envcheck printed\n{part}\n\nwhat now?\n")[0]) == {("driver-too-old", "error", "certain")}
    foreign = part.replace("driver-too-old", "too-many-tabs")
    assert not read(foreign)[1].reports
    heading = documents("driver-too-old")["markdown"]
    heading = heading[heading.index("#### error") : heading.index("What to do")]
    assert told(read(f"It says\n\n{heading}\n\nI am lost.\n\n{TRACEBACK}")[0]) >= {
        ("driver-too-old", "error", "certain"),
        ("open-files-low", "error", "certain"),
    }


def test_a_report_whose_end_was_not_copied() -> None:
    for name in ("text", "markdown", "html", "junit"):
        whole = documents("driver-too-old")[name]
        cut = whole[: int(len(whole) * 0.95)] if name == "html" else whole[: whole.index("fix" if name != "markdown" else "What to do")]
        assert ("driver-too-old", "error", "certain") in told(read(cut)[0]), name
    text = documents("driver-too-old")["text"]
    again, _ = read(text[: text.index("  fix ")] + "\n" + TRACEBACK)
    expected = {("driver-too-old", "error", "certain"), ("open-files-low", "error", "certain")}
    assert told(again) == expected, "what follows is no part of it"


@pytest.mark.parametrize(
    "text",
    [
        '{"schema": 1, "findings": [{"rule": "driver-too-old", "severity": "error"}], "verdict": "fail"}',
        '{"schema": 1, "tool": {"name": "trivy"}, "findings": [{"rule": "driver-too-old", "severity": "error"}], "verdict": "fail"}',
        '{"schema": true, "tool": {"name": "envcheck"}, "findings": [], "verdict": "pass"}',
        '{"schema": 1, "tool": {"name": "envcheck"}}',
        '[1, {"schema": 1, "tool": "envcheck"}]',
        '<testsuites name="pytest"><testsuite name="tests.unit"><testcase classname="tests.unit" name="driver-too-old"><failure type="certain error">a\nb</failure></testcase></testsuite></testsuites>',  # noqa: E501
        "<html><h1>Report</h1><section class='finding error'><h2><span>error</span>: x <code>driver-too-old</code></h2></section></html>",
        "::error title=flake8 E501::line too long\n",
        "src/main.py:3: error: Incompatible types [attr-defined]\n",
        "! warning: too long [line-too-long]\n",
        "#### error: it fails (`some-rule`)\n",
    ],
)
def test_other_programs_are_not_taken_for_ours(text: str) -> None:
    assert read(text)[1].reports == ()


@pytest.mark.parametrize("rule", RULES[::12])
def test_an_evidence_archive_is_its_facts(rule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = report_of(rule)
    files = {
        "envcheck-evidence/README.txt": b"x",
        "envcheck-evidence/snapshot.json": render_record(report.snapshot, "envcheck", "1.0").encode(),
    }
    if rule in UNRECORDED:
        return
    code, document = run(tmp_path / "evidence.tar.gz", archive(files), capsys)
    assert {(one["rule"], one["severity"], one["confidence"]) for one in document["findings"]} == told(report)
    assert document["read"]["reports"][0]["format"] == "evidence archive"
    assert code == document["exit_code"]


def test_an_archive_is_read_where_it_lies(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Links and paths in it lead nowhere, what is no archive of ours is refused, and a bomb is not unpacked."""
    secret = tmp_path / "snapshot.json"
    secret.write_text(render_record(report_of("driver-too-old").snapshot, "envcheck", "1.0"))
    for number, data in enumerate(
        [
            archive({}, links={"envcheck-evidence/snapshot.json": str(secret)}),
            archive({"envcheck-evidence/other.json": b"{}"}),
            archive({"envcheck-evidence/snapshot.json": b'{"schema": 1, "tool": {"name": "other"}, "facts": {}}'}),
            archive({"envcheck-evidence/snapshot.json": b"[" * 100_000}),
            archive({"envcheck-evidence/snapshot.json": b" " * (9 << 20) + secret.read_bytes()}),  # 64 MiB of facts took 1.6 GB
            archive({"envcheck-evidence/a.log": b"x" * 5000, "envcheck-evidence/snapshot.json": secret.read_bytes()})[:300],
        ]
    ):
        _, document = run(tmp_path / f"{number}.tar.gz", data, capsys)
        assert (document["findings"], document["read"]["refused"][0]["reason"]) == ([], "a gzip file: not a text, not read")
    monkeypatch.setattr("envcheck.read.own_archive.UNPACKED_BYTES", 1 << 20)
    bomb = archive({"a": bytes(4 << 20), "envcheck-evidence/snapshot.json": secret.read_bytes()})
    assert len(bomb) < 1 << 16
    assert run(tmp_path / "bomb.tar.gz", bomb, capsys)[1]["read"]["refused"]
    through = archive({"../../../../etc/snapshot.json": secret.read_bytes()})
    assert run(tmp_path / "through.tar.gz", through, capsys)[1]["findings"][0]["rule"] == "driver-too-old", "a name is no path"


@pytest.mark.parametrize("kind", [b"x", b"g", b"L", b"K"])
def test_an_extension_of_an_archive_takes_no_memory(kind: bytes) -> None:
    data = gzip.compress(extension(kind, bytes(24 << 20)), 1)
    tracemalloc.start()
    assert read_archive(data[:100], io.BytesIO(data[100:])) is None
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2 << 20


@pytest.mark.parametrize("data", [extension(b"L", b"a") * 1500, extension(b"x", b"9 a=bcde\n") * 1500, extension(b"x", b"1" * 60_000)])
def test_extensions_of_an_archive_are_not_followed(data: bytes) -> None:
    """One behind another, and digits that an expression would search again from each of them."""
    began = time.process_time()
    assert read_archive(b"", io.BytesIO(gzip.compress(data))) is None
    assert time.process_time() - began < 1


@given(st.binary(max_size=600), st.integers(0, 1600), st.booleans())
def test_no_archive_makes_its_reader_raise(data: bytes, at: int, packed: bool) -> None:
    whole = archive({"a": b"x", "envcheck-evidence/snapshot.json": b'{"schema": 1}'})
    whole = whole if packed else gzip.decompress(whole)
    broken = whole[:at] + data + whole[at + len(data) :]
    read_archive(b"", io.BytesIO(broken if packed else gzip.compress(broken, 1)))


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_an_archive_that_somebody_packed_again(form: int) -> None:
    record = render_record(report_of("driver-too-old").snapshot, "envcheck", "1.0").encode()
    data = archive({f"{'a' * 90}/{'b' * 50}/snapshot.json": record, "other": b"x"}, form=form)
    assert (found := read_archive(data[:100], io.BytesIO(data[100:]))) and found.form == "evidence archive"


def test_two_machines_keep_their_findings_apart() -> None:
    given = diagnose.Given(BY)
    for rule in ("driver-too-old", "shm-small"):
        given.take_raw(documents(rule)["record"], f"{rule}.json")
    report, _ = diagnose.diagnose(given)
    assert {"driver-too-old", "shm-small"} <= {one.finding.rule for one in report.findings}
    apart = next(one.finding for one in report.findings if one.finding.rule == "shm-small")
    assert all(one.source.startswith("shm-small.json: ") for one in apart.evidence)


def test_what_its_reader_ignores_is_ignored_in_a_report_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.txt"
    path.write_text(documents("driver-too-old")["text"])
    diagnose.execute(parse(["diagnose", str(path), "--json", "--ignore", "driver-too-old"]))
    assert "driver-too-old" not in [one["rule"] for one in json.loads(capsys.readouterr().out)["findings"]]


def test_a_report_from_stdin(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    data = "\ufeff" + documents("driver-too-old")["json"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data.encode("utf-16-le")), encoding="utf-8"))
    assert diagnose.execute(parse(["diagnose", "--json"])) == 1
    assert json.loads(capsys.readouterr().out)["findings"][0]["rule"] == "driver-too-old"


def test_what_a_report_says_is_shown_as_what_it_was_taken_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.txt"
    path.write_text(render(report_samples.mixed(), "text"))
    assert diagnose.execute(parse(["diagnose", str(path)])) == 1
    said = capsys.readouterr().out
    assert said.startswith(
        "read    report.txt: envcheck 0.1.0 (text)\nsays    report.txt: Not ready: 1 error, 1 possible error, 1 warning\n"
    )
    assert said.endswith("Not ready: 1 error, 1 possible error, 1 warning\n")
