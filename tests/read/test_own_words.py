"""A report of envcheck in Chinese is read like the English one: what it found, how grave it is, what to run."""

from __future__ import annotations

import pytest
from own_reports import BY, RULES, report_of

from envcheck.read.own_report import OwnReport
from envcheck.read.own_reports import take_documents, take_pages
from envcheck.read.own_words import in_english
from envcheck.render import FORMATS, render
from envcheck.report.translate import translated

SOME = RULES[::6]


def read(text: str) -> OwnReport:
    raw, found = take_documents(text, BY.texts.ids)
    _, more = take_pages(raw, BY.texts.ids)
    [report] = [*found, *more]
    return report


@pytest.mark.parametrize("form", [form for form in FORMATS if form not in ("json", "sarif")])
@pytest.mark.parametrize("rule", SOME)
def test_a_chinese_report_is_read_as_the_english_one(rule: str, form: str) -> None:
    plain = report_of(rule)
    english, chinese = read(render(plain, form)), read(render(translated(plain, "zh", BY.texts), form))
    assert chinese.verdict == english.verdict != ""
    assert (chinese.version, chinese.form, chinese.complete) == (english.version, english.form, english.complete)
    for one, said in zip(english.findings, chinese.findings, strict=True):
        assert (said.rule, said.severity, said.likely, said.evidence) == (one.rule, one.severity, one.likely, one.evidence)
        assert said.consequences == one.consequences
        assert [(fix.commands, fix.who) for fix in said.fixes] == [(fix.commands, fix.who) for fix in one.fixes]


def test_a_text_without_a_report_is_left_alone() -> None:
    for text in ("plain\n", "envcheck 错误: 没有这个文件\n", "无法判断：envcheck\n", "对象  不存在 [x]\n"):
        assert in_english(text) == text


def test_lines_keep_their_numbers() -> None:
    page = render(translated(report_of("driver-too-old"), "zh", BY.texts), "text")
    assert in_english(page).count("\n") == page.count("\n") and in_english(page).startswith("envcheck ")
    assert "\ntarget  /" in in_english(page) and "Not ready: " in in_english(page)
