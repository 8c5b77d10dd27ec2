"""The timeline of the page: one clock for all ranks, what did not end, and where each rank stood."""

from __future__ import annotations

import re
from typing import Any

import pytest
from report_samples import machine

from envcheck.render import html
from envcheck.report.report import finish

STACK = """Current thread 0x00007f3b8c5f0740 (most recent call first):
  File "{file}", line {line} in {function}
  File "/home/me/train.py", line 30 in main
"""


def stage(name: str, began: float | None, seconds: float | None, status: str = "ok") -> dict[str, Any]:
    return {"name": name, "began_seconds": began, "seconds": seconds, "status": status}


def rank(number: int, *stages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"rank": number, "pid": 70 + number, "last_stage": stages[-1]["name"], "stages": list(stages), **more}


def arm(name: str, status: str, seconds: float | None, *ranks: dict[str, Any]) -> dict[str, Any]:
    of = {"name": name, "backend": "gloo", "device": "cpu", "world_size": len(ranks), "status": status}
    return {**of, "seconds": seconds, "ranks": list(ranks)}


def page(*arms: dict[str, Any]) -> str:
    live = {"status": arms[0]["status"], "ranks": arms[0]["ranks"], "arms": list(arms)}
    return html.render(finish((), (), machine("h100x8", {"live": live})))


def boxes(shown: str) -> list[tuple[float, float, str]]:
    """(left, right, class) of each stage that is drawn."""
    found = re.findall(r"<rect class='(\w+)' x='([\d.]+)' y='\d+' width='([\d.]+)'", shown)
    return [(float(left), float(left) + float(width), kind) for kind, left, width in found]


def hung() -> str:
    here = STACK.format(file="/home/me/data.py", line=12, function="wait_for_disk")
    waits = STACK.format(file="/venv/torch/distributed/distributed_c10d.py", line=3068, function="all_reduce")
    first = rank(0, stage("start", 0.0, 1.0), stage("all_reduce", 2.0, None, "hang"), stack=waits)
    second = rank(1, stage("start", 0.5, None, "hang"), stack=here, signal="SIGKILL")
    return page(arm("gloo-loopback", "hang", 10.0, first, second), arm("gloo-as-is", "pass", 1.0, rank(0, stage("start", 0.0, 0.5))))


def test_a_second_is_as_wide_on_every_lane_and_a_pause_is_empty() -> None:
    (start, end, _), (later, until, hurt), (other, last, _), *_ = boxes(hung())
    second = end - start
    assert later - start == pytest.approx(2 * second, abs=0.2), "rank 0 did nothing for a second"
    assert other - start == pytest.approx(0.5 * second, abs=0.2)
    assert hurt == "hurt" and until == pytest.approx(last, abs=0.2) and until - start == pytest.approx(10 * second, abs=0.6)


def test_the_axis_has_round_seconds() -> None:
    shown = hung()
    assert re.findall(r">([\d.]+(?: s)?)</text>", shown[: shown.index("The other trials")]) == ["0", "2 s", "4 s", "6 s", "8 s", "10 s"]


def test_where_each_rank_stood() -> None:
    rows = re.findall(r"<tr><th scope='row' class='bad'>(\d)</th><td>(.*?)</td><td>(.*?)</td></tr>", hung())
    assert rows == [
        ("0", "all_reduce hang", "<code>/venv/torch/distributed/distributed_c10d.py:3068 (all_reduce)</code>"),
        ("1", "start hang", "<code>/home/me/data.py:12 (wait_for_disk)</code>"),
    ]


def test_how_one_ended_that_was_not_asked() -> None:
    died = rank(1, stage("init", 0.0, None, "failed"), error="died with SIGSEGV in the stage init", signal="SIGSEGV")
    shown = page(arm("gloo-loopback", "fail", 2.0, rank(0, stage("init", 0.0, 2.0)), died))
    assert "<th scope='row'>0</th><td>init</td><td>–</td>" in shown
    assert "<td>init failed</td><td>died with SIGSEGV in the stage init</td>" in shown


def test_a_healthy_run_needs_no_table() -> None:
    shown = page(arm("gloo-loopback", "pass", 2.0, rank(0, stage("init", 0.0, 2.0)), rank(1, stage("init", 0.1, 1.9))))
    assert len(boxes(shown)) == 2 and "where it stood" not in shown and "The other trials" not in shown


def test_the_other_trials_are_in_a_fold_those_with_trouble_first() -> None:
    well = [arm(f"arm-{at}", "pass", 1.0, rank(0, stage("start", 0.0, 0.5))) for at in range(13)]
    shown = page(well[0], *well[1:], arm("bad-one", "fail", 1.0, rank(0, stage("start", 0.0, 0.5, "failed"))))
    fold = shown[shown.index("<details><summary>The other trials") :]
    assert re.findall(r"<h3>(\S+): (\w+)</h3>", fold)[:2] == [("bad-one", "fail"), ("arm-1", "pass")]
    assert "<p>and 1 more trials</p>" in fold


def test_a_rank_that_hangs_is_seen_whatever_its_number() -> None:
    ranks = [rank(at, stage("start", 0.0, 1.0)) for at in range(40)]
    ranks[37] = rank(37, stage("start", 0.0, None, "hang"))
    shown = page(arm("gloo-loopback", "hang", 9.0, *ranks))
    assert shown.count("text-anchor='end'>rank ") == 16 and ">rank 37</text>" in shown and "and 24 more ranks" in shown


def test_without_a_clock_one_stage_follows_the_other() -> None:
    """As in documents that were written before there was one."""
    first = rank(0, stage("start", None, 1.0), stage("init", None, 1.0), stage("all_reduce", None, None, "hang"))
    (left, middle, _), (again, right, _), (begin, end, _) = boxes(page(arm("gloo-loopback", "hang", 30.0, first)))
    assert again == pytest.approx(middle, abs=0.2) and right - again == pytest.approx(middle - left, abs=0.2)
    assert begin == pytest.approx(right, abs=0.2) and end - begin == 70
