"""Reports in Chinese: the same result in other words, and every translated text fits the English one that it stands for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from string import Formatter
from typing import Any

import pytest
import report_samples
from own_reports import RULES as WITH_AN_EXAMPLE
from own_reports import report_of

from envcheck.cli import main
from envcheck.engine.rule import FAMILY_RANK, RuleTexts
from envcheck.render import FORMATS, render
from envcheck.render.styled import Styled, width_of
from envcheck.report.language import ENGLISH, caught_by, language, language_of, parts_of
from envcheck.report.translate import translated
from envcheck.tables.folders import rules_folder
from envcheck.tables.toml import load_toml

HERE = Path(rules_folder())
FOLDER = HERE / "lang" / "zh"
ENGLISH_TEXTS, CHINESE_TEXTS = RuleTexts((HERE,)), RuleTexts((HERE,), language="zh")
ZH = language("zh")
CHINESE = re.compile("[\u4e00-\u9fff]")
FAMILIES = sorted(path for path in FOLDER.glob("*.toml") if path.stem not in ("report", "plan"))
TRANSLATED = {rule: row for path in FAMILIES for rule, row in load_toml(path).items()}


def holes(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


@pytest.mark.parametrize("rule", sorted(TRANSLATED))
def test_placeholders_of_a_translated_rule_are_those_of_the_english(rule: str) -> None:
    english, row = ENGLISH_TEXTS.read(rule), TRANSLATED[rule]
    assert set(row) <= {"title", "message", "messages", "why", "confirm", "notes", "fix"}
    pairs = [(english.title, row.get("title")), (english.messages[""], row.get("message"))]
    assert set(row.get("messages", {})) <= set(english.messages), "a message that the rule does not have"
    pairs += [(english.messages[name], text) for name, text in row.get("messages", {}).items()]
    fixes = row.get("fix", [])
    assert len(fixes) <= len(english.fixes)
    pairs += [(ours.get("text") or ours.get("note", ""), text) for ours, text in zip(english.fixes, fixes, strict=False) if text]
    pairs += list(zip(english.notes, row.get("notes", []), strict=False))
    for ours, theirs in pairs:
        if theirs:
            assert ours, f"nothing stands there in English: {theirs}"
            assert holes(ours) == holes(theirs), (ours, theirs)
            assert CHINESE.search(theirs) or not re.search("[a-z]{4}", re.sub(r"\{\w+\}", "", theirs)), theirs


@pytest.mark.parametrize("rule", ENGLISH_TEXTS.ids)
def test_every_rule_has_a_title_and_those_met_most_have_all_messages(rule: str) -> None:
    row, english = TRANSLATED.get(rule, {}), ENGLISH_TEXTS.read(rule)
    assert row.get("title"), f"rules/lang/zh/{english.family}.toml lacks [{rule}]"
    if english.family in WHOLE:
        assert row.get("message") and row.get("why")
        assert set(row.get("messages", {})) == set(english.messages) - {""}
        told = [bool(fix.get("text") or fix.get("note")) for fix in english.fixes]
        assert [bool(text) for text in (*row.get("fix", ()), *[""] * (len(told) - len(row.get("fix", ()))))] == told


def test_files_are_named_after_families_and_hold_their_rules() -> None:
    assert {path.stem for path in FAMILIES} == set(FAMILY_RANK)
    for path in FAMILIES:
        assert {ENGLISH_TEXTS.family(rule) for rule in load_toml(path)} == {path.stem}


def test_placeholders_of_phrases_agree() -> None:
    for english, said in ZH.phrases:
        assert holes(english) == holes(said), english


def test_a_text_that_is_missing_stays_english() -> None:
    assert ZH.say("a sentence that nobody has translated") == "a sentence that nobody has translated"
    assert ENGLISH.say("error") == "error"
    lacking = [rule for rule in CHINESE_TEXTS.ids if "why" not in TRANSLATED.get(rule, {})]
    assert all(CHINESE_TEXTS.read(rule).why == ENGLISH_TEXTS.read(rule).why for rule in lacking)


@pytest.mark.parametrize(
    ("template", "text", "caught"),
    [
        ("{a} on {n} ranks", "gloo on 2 ranks", {"a": "gloo", "n": "2"}),
        ("{a} on {n} ranks", "gloo on 2 rank", None),
        ("no {what}", "no torch", {"what": "torch"}),
        ("no {what}", "not torch", None),
        ("{a}: {b}", "x: y: z", {"a": "x", "b": "y: z"}),
        ("{a} and {a}", "x and x", {"a": "x"}),
        ("{a} and {a}", "x and y", None),
        ("plain", "plain", {}),
        ("plain", "plainly", None),
        ("ab{a}ba", "aba", None),
    ],
)
def test_values_are_read_out_of_a_finished_text(template: str, text: str, caught: dict[str, str] | None) -> None:
    assert caught_by(parts_of(template), text) == caught


@pytest.mark.parametrize("rule", WITH_AN_EXAMPLE)
def test_a_translated_report_says_the_same(rule: str) -> None:
    """Verdict, rules, severities, evidence and commands are untouched; the values of a message stand in its translation."""
    first = report_of(rule)
    other = translated(first, "zh", ENGLISH_TEXTS)
    assert (other.verdict, other.exit_code, other.unknown, other.verdicts) == (
        first.verdict,
        first.exit_code,
        first.unknown,
        first.verdicts,
    )
    for one, said in zip(first.findings, other.findings, strict=True):
        before, after = one.finding, said.finding
        assert (before.rule, before.severity, before.confidence, before.evidence) == (
            after.rule,
            after.severity,
            after.confidence,
            after.evidence,
        )
        assert [fix.commands for fix in one.fixes] == [fix.commands for fix in said.fixes]
        assert CHINESE.search(after.title), after.title
        if ENGLISH_TEXTS.family(before.rule) in WHOLE:
            if CHINESE.search(TRANSLATED[before.rule]["message"]):  # some messages are nothing but values, and those may be English
                assert CHINESE.search(after.message), after.message
            numbers = re.findall(r"\d+\.\d+[\d.+a-z]*", before.message)
            assert [word for word in numbers if word.rstrip(".") not in after.message] == []
            assert "{" not in after.message.replace("{", "", before.message.count("{"))
    for form in FORMATS:
        page = render(other, form)
        assert all(one.finding.rule in page.replace("\\", "") for one in first.findings)


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_own_words_of_a_healthy_report_are_chinese(form: str) -> None:
    page = render(translated(report_samples.healthy("h100x8"), "zh", ENGLISH_TEXTS), form)
    for said in ("可以训练", "求和与梯度正确", "导入用时", "驱动最高支持"):
        assert said in page
    for english in ("Ready to train", "sums and gradients", "imported in", "driver offers"):
        assert english not in page


def test_columns_of_chinese_stand_below_each_other() -> None:
    page = render(translated(report_of("driver-too-old"), "zh", ENGLISH_TEXTS), "text")
    assert max(width_of(line) for line in page.splitlines() if not re.search(r"pip|conda|uv ", line)) <= 80
    rows = [line for line in page.splitlines() if re.match("[✓✗–!?] (?:GPU|驱动|CUDA|torch)", line)]
    assert len({width_of(re.match(r". \S+ +", line)[0]) for line in rows}) == 1  # type: ignore[index]
    lines = [line.plain for line in Styled("驱动太旧，需要更新。" * 12).wrapped(40)]
    assert all(width_of(line) <= 40 for line in lines) and not any(line.startswith(("，", "。")) for line in lines)


# ------------------------------------------------------------------ which language

LOCALES: list[tuple[str | None, dict[str, str], tuple[str, bool]]] = [
    (None, {}, ("", False)),
    (None, {"LANG": "zh_CN.UTF-8"}, ("zh", False)),
    (None, {"LANG": "zh-Hans"}, ("zh", False)),
    (None, {"LANG": "zh_TW.UTF-8"}, ("", False)),
    (None, {"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_CN.UTF-8"}, ("zh", False)),
    (None, {"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, ("", False)),
    ("en", {"LANG": "zh_CN.UTF-8"}, ("", True)),
    ("zh", {"LANG": "C"}, ("zh", True)),
]


@pytest.mark.parametrize(("given", "env", "expected"), LOCALES)
def test_the_flag_then_the_locale_decide(given: str | None, env: dict[str, str], expected: tuple[str, bool]) -> None:
    assert language_of(given, env) == expected


@pytest.fixture
def snapshot(tmp_path: Path) -> str:
    from envcheck.render.json_v1 import render_record

    path = tmp_path / "node.json"
    path.write_text(render_record(report_samples.machine("cpu"), "envcheck", "0.1.0"))
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(list(words))
    return code, capsys.readouterr().out


def keys(value: Any) -> Any:
    return {key: keys(one) for key, one in value.items()} if isinstance(value, dict) else type(value).__name__


def test_json_follows_the_flag_and_never_the_locale(
    snapshot: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--facts", snapshot, "--expect", "gpus>=8", "--json")
    _, plain = run(capsys, *words)
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    code, same = run(capsys, *words)
    english, chinese = json.loads(plain), json.loads(run(capsys, *words, "--lang", "zh")[1])
    assert code == 1 and json.loads(same)["findings"] == english["findings"]
    assert CHINESE.search(chinese["findings"][0]["title"]) and not CHINESE.search(english["findings"][0]["title"])
    assert keys(english) == keys(chinese)
    assert [chinese[key] == english[key] for key in ("verdict", "exit_code", "facts", "counts")] == [True] * 4


def test_text_follows_the_locale_and_english_can_be_asked_for(
    snapshot: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert "可以训练" in run(capsys, "--facts", snapshot)[1]
    assert "Ready to train" in run(capsys, "--facts", snapshot, "--lang", "en")[1]
    page = run(capsys, "explain", "torch-missing")[1]
    assert "这个 Python 环境没有安装 PyTorch" in page and "确认方法" in page
    assert "PyTorch 已安装但无法导入" in run(capsys, "rules")[1]
    assert json.loads(run(capsys, "rules", "--json")[1])["rules"][0]["title"].isascii()


def test_a_site_s_own_words_stand_over_the_translation(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "torch-missing.toml").write_text('why = "Write to the cluster team."\n')
    text = RuleTexts((HERE, tmp_path), language="zh").read("torch-missing")
    assert text.why == "Write to the cluster team." and CHINESE.search(text.title)
