"""Reports in Chinese: the same result in other words, and every translated text fits the English one that it stands for."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Any

import fleet_samples
import pytest
import report_samples
from own_reports import RULES as WITH_AN_EXAMPLE
from own_reports import report_of

from envcheck.cli import main
from envcheck.engine.rule import FAMILY_RANK, RuleText, RuleTexts
from envcheck.facts.record import replace
from envcheck.render import FORMATS, render
from envcheck.render.fleet import render_fleet
from envcheck.render.styled import Styled, width_of
from envcheck.render.text import PageOptions
from envcheck.render.wording import in_short
from envcheck.report.english import ENGLISH, language_of
from envcheck.report.language import caught_by, language, parts_of
from envcheck.report.report import Reported
from envcheck.report.titles import general_title
from envcheck.report.translate import reported_in, translated, translated_fleet
from envcheck.tables.folders import rules_folder
from envcheck.tables.toml import load_toml, parse_toml

HERE = Path(rules_folder())
FOLDER = HERE / "lang" / "zh"
ENGLISH_TEXTS, CHINESE_TEXTS = RuleTexts((HERE,)), RuleTexts((HERE,), language="zh")
ZH = language("zh")
CHINESE = re.compile("[\u4e00-\u9fff]")
FAMILIES = sorted(path for path in FOLDER.glob("*.toml") if path.stem not in ("report", "plan"))
TRANSLATED = {rule: row for path in FAMILIES for rule, row in load_toml(path).items()}
PLAN, PLAN_IN_CHINESE = load_toml(HERE / "plan" / "texts.toml"), load_toml(FOLDER / "plan.toml")
# Nothing but holes, or a command: the same in both languages.
WITHOUT_WORDS = re.compile(r"\{\w+\}|`[^`]*`|[^A-Za-z]")


def holes(text: str) -> Counter[str]:
    return Counter(name for _, name, _, _ in Formatter().parse(text) if name)


def commands(text: str) -> Counter[str]:
    return Counter(re.findall(r"`[^`]+`", text))


def numbers(text: str) -> Counter[str]:
    return Counter(re.findall(r"(?<![\w.])\d+(?:\.\d+)+", text))


def texts_of(rule: RuleText) -> dict[str, str]:
    """All that a rule says, by the key that its translation has in the TOML file."""
    found = {"title": rule.title, "message": rule.messages[""], "why": rule.why, "confirm": rule.confirm}
    found |= {f"messages.{name}": text for name, text in rule.messages.items() if name}
    found |= {f"fix.{number}": fix.get("text") or fix.get("note") or "" for number, fix in enumerate(rule.fixes)}
    found |= {f"notes.{number}": text for number, text in enumerate(rule.notes)}
    return {key: text for key, text in found.items() if text}


def said_of(row: dict[str, Any]) -> dict[str, str]:
    """The same of a translation; "" holds the place of a fix without words."""
    found = {key: row[key] for key in ("title", "message", "why", "confirm") if key in row}
    found |= {f"messages.{name}": text for name, text in row.get("messages", {}).items()}
    found |= {f"{key}.{number}": text for key in ("fix", "notes") for number, text in enumerate(row.get(key, ())) if text}
    return found


def pairs() -> Iterator[tuple[str, str, str]]:
    """(where, English, Chinese) of everything that is translated."""
    for rule, row in TRANSLATED.items():
        english = texts_of(ENGLISH_TEXTS.read(rule))
        yield from ((f"{rule}: {key}", english[key], text) for key, text in said_of(row).items())
    for section, rows in PLAN_IN_CHINESE.items():
        yield from ((f"plan: {section}.{key}", PLAN[section][key], text) for key, text in rows.items())
    yield from (("report", english, text) for english, text in (*ZH.phrases, *ZH.of_job))


# ------------------------------------------------------------------ the texts


@pytest.mark.parametrize("rule", ENGLISH_TEXTS.ids)
def test_every_rule_is_translated_whole_and_nothing_without_its_english(rule: str) -> None:
    row, english = TRANSLATED.get(rule, {}), texts_of(ENGLISH_TEXTS.read(rule))
    assert set(row) <= {"title", "message", "messages", "why", "confirm", "notes", "fix"}
    said = said_of(row)
    assert [key for key in english if key not in said] == [], f"not translated in rules/lang/zh/{ENGLISH_TEXTS.family(rule)}.toml"
    assert [key for key in said if key not in english] == [], "no English text stands there"


def test_files_are_named_after_families_and_hold_their_rules() -> None:
    assert {path.stem for path in FAMILIES} == set(FAMILY_RANK)
    for path in FAMILIES:
        assert {ENGLISH_TEXTS.family(rule) for rule in load_toml(path)} == {path.stem}


def test_the_planner_is_translated_whole() -> None:
    """Errors of usage ([wish]) are English; `print.way` and a path have no words."""
    wanted = {(section, key) for section, rows in PLAN.items() if section not in ("wish", "word") for key in rows}
    there = {(section, key) for section, rows in PLAN_IN_CHINESE.items() for key in rows}
    assert there - wanted == set()
    lacking = {place for place in wanted - there if WITHOUT_WORDS.sub("", PLAN[place[0]][place[1]])}
    assert lacking == {("note", "compat-path")}


def test_what_is_said_of_messages_is_translated_whole() -> None:
    """Why one is harmless, and what would show the cause of another: each in full, and nothing that no row says any more."""
    tables = [load_toml(path) for path in sorted((HERE / "symptoms").glob("*.toml"))]
    wanted = {row["why"] for table in tables for row in table.get("harmless", ())}
    wanted |= {row["ask"] for table in tables for row in table.get("victim", ()) if "ask" in row}
    there = load_toml(FOLDER / "report.toml")["symptoms"]
    assert len(wanted) > 70 and wanted == set(there)
    assert [text for text in wanted if ZH.say(text) != there[text]] == []


def test_placeholders_commands_and_versions_agree() -> None:
    wrong = [
        (where, english, said)
        for where, english, said in pairs()
        if holes(english) != holes(said) or commands(english) != commands(said) or numbers(english) != numbers(said)
    ]
    assert wrong == []


def test_translations_are_chinese() -> None:
    """What has words of its own in English has Chinese ones: no text is English copied over."""
    copied = [
        (where, said)
        for where, english, said in pairs()
        if not CHINESE.search(said) and len(re.findall("[a-z]{3,}", re.sub(r"\{\w+\}|`[^`]*`", "", english))) > 1
    ]
    assert copied == []


def marked(text: str) -> str:
    """An English text with a value in each hole that no phrase knows."""
    return text.format_map({name: f"7{name}7" for name in holes(text)})


@pytest.mark.parametrize("rule", ENGLISH_TEXTS.ids)
def test_each_message_and_fix_is_found_by_its_own_translation(rule: str) -> None:
    """A finished text is told by its words alone: one message must not be taken for another of its rule."""
    english, theirs = ENGLISH_TEXTS.read(rule), CHINESE_TEXTS.read(rule)
    finding = next(one.finding for one in report_of("gpu-busy").findings)
    for variant, message in english.messages.items():
        one = Reported(replace(finding, title=marked(english.title), message=marked(message)), why=english.why)
        said = reported_in(one, english, theirs, "zh")
        assert said.finding.message == marked(theirs.messages[variant])
        assert (said.finding.title, said.why) == (marked(theirs.title), theirs.why)


def test_a_text_that_is_missing_stays_english() -> None:
    assert ZH.say("a sentence that nobody has translated") == "a sentence that nobody has translated"
    assert ENGLISH.say("error") == "error" and ENGLISH.planner.say("Install torch") == "Install torch"
    assert ZH.say("CUDA unknown error") == "CUDA unknown error"  # no number stands before it
    assert ZH.planner.say("not torch<2.8") == "不符合 torch<2.8" and ZH.say("not torch<2.8") == "not torch<2.8"


@pytest.mark.parametrize(
    ("english", "said"),
    [
        ("1 error, 2 warnings", "1 个错误，2 个警告"),
        ("torch sees no GPU", "torch 看不到 GPU"),
        ("live: switched off (--live off)", "实测：已关闭（--live off）"),
        ("torch-missing: not read", "torch-missing：未读取"),
        ("rank 0 in all_reduce; rank 1 in barrier", "rank 0 在 all_reduce；rank 1 在 barrier"),
        ("440.33 or newer, 580 or newer for a torch built for CUDA 13", "440.33 或更新版本，为 CUDA 13 构建的 torch 需要 580 或更新版本"),
        ("RuntimeError: no such thing", "RuntimeError: no such thing"),
        ("torch 2.1.0 requires torch==2.1.0, and nobody knows why", "torch 2.1.0 requires torch==2.1.0, and nobody knows why"),
    ],
)
def test_lists_clauses_and_values_are_said_piece_by_piece(english: str, said: str) -> None:
    assert ZH.say(english) == said


def test_machine_text_in_a_message_stays_as_it_is() -> None:
    """A value of a variable, a path, a program's words in quotes: "none" is also a word of ours."""
    english, theirs = ENGLISH_TEXTS.read("visible-devices-empty"), CHINESE_TEXTS.read("visible-devices-empty")
    finding = report_of("visible-devices-empty").findings[0].finding
    text = english.messages["hidden"].format(name="CUDA_VISIBLE_DEVICES", value="none")
    said = reported_in(Reported(replace(finding, message=text)), english, theirs, "zh").finding.message
    assert said.startswith("CUDA_VISIBLE_DEVICES=none ") and CHINESE.search(said)


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
        ("[{{x: {a}}}]", "[{x: 1}]", {"a": "1"}),
        ("plain", "plain", {}),
        ("plain", "plainly", None),
        ("ab{a}ba", "aba", None),
    ],
)
def test_values_are_read_out_of_a_finished_text(template: str, text: str, caught: dict[str, str] | None) -> None:
    assert caught_by(parts_of(template), text) == caught


# ------------------------------------------------------------------ reports


@pytest.mark.usefixtures("one_masking_of_each_text")
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
        assert CHINESE.search(after.title) and CHINESE.search(after.message)
        assert [word for word in re.findall(r"\d+\.\d+[\d.+a-z]*", before.message) if word.rstrip(".") not in after.message] == []
        for fix in said.fixes:
            assert all(CHINESE.search(text) for text in (fix.title, fix.note) if re.search(r"[a-z]{3,} [a-z]{3,}", text)), (
                fix.title,
                fix.note,
            )


@pytest.mark.usefixtures("one_masking_of_each_text")
@pytest.mark.parametrize(
    "rule", [one if at % 3 == 0 else pytest.param(one, marks=pytest.mark.slow) for at, one in enumerate(WITH_AN_EXAMPLE)]
)
def test_a_translated_page_names_its_rules(rule: str) -> None:
    first = report_of(rule)
    other = translated(first, "zh", ENGLISH_TEXTS)
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


def headings(page: str) -> list[str]:
    """What a reader of an HTML page jumps by, and what the pictures are called."""
    rows = re.findall(r"<(?:h[1-4]|summary|th scope='col')[^>]*>(.*?)</(?:h[1-4]|summary|th)>", page, re.DOTALL)
    return [re.sub(r"<code>.*?</code>|<[^>]*>", "", one) for one in rows] + re.findall(r" aria-label='([^']*)'", page)


@pytest.mark.parametrize("rule", ["", "live-hang", "wire-slow", "live-wrong-result", "nccl-p2p-blocked"])
def test_headings_and_pictures_of_a_page_are_chinese(rule: str) -> None:
    page = render(translated(report_of(rule) if rule else report_samples.healthy("h100x8"), "zh", ENGLISH_TEXTS), "html")
    english = [one for one in headings(page) if re.search("[a-z]{3,} [a-z]{3,}", one) and not CHINESE.search(one)]
    assert [one for one in english if not one.startswith("rank 0: ")] == []  # stages: names out of the agent
    assert "耗时" in page or "各 rank 的过程" in page


@pytest.mark.parametrize("form", ["text", "html"])
@pytest.mark.parametrize("name", ["drifted", "sick", "stuck", "large", "healthy"])
def test_own_words_of_a_job_s_report_are_chinese(name: str, form: str) -> None:
    """What is left in English is a command, a machine's word, or the evidence."""
    job = fleet_samples.SAMPLES[name]()
    page = render_fleet(translated_fleet(job, "zh", ENGLISH_TEXTS), form, options=PageOptions(verbose=True))
    if form == "html":
        page = re.sub(r"<style>.*?</style>|<code>.*?</code>", "", page, flags=re.DOTALL)
        assert "lang='zh-Hans'" in page and all(CHINESE.search(one) for one in headings(page)[:2])
        page = re.sub(r"<[^>]*?(?:aria-label='([^']*)')?[^>]*>", lambda tag: f"\n{tag[1] or ''}", page)
    said = [line.strip() for line in page.splitlines() if not line.startswith("         ")]
    english = [
        line for line in said if re.search("[a-z]{3,} [a-z]{2,} [a-z]{2,}", line) and not re.search(r"nothing came for 10 s|srun", line)
    ]
    assert english == []
    assert {"healthy": "可以运行：2 台主机", "sick": "未就绪：12 台主机上有 1 个错误；去掉 rack1n[00-02]，其余 9 台可以运行"}.get(
        name, ""
    ) in page


def test_a_page_of_a_plan_is_chinese(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "req.txt").write_text("torch==2.9.0\n-e .\nunheard-of\n", encoding="utf-8")
    words = ("plan", "-r", str(tmp_path / "req.txt"), "--for", "h100", "--driver", "535.183", "--format", "html")
    page = re.sub(r"<style>.*?</style>|<pre.*?</pre>|<code>.*?</code>", "", run(capsys, *words, "--lang", "zh")[1], flags=re.DOTALL)
    said = [line for line in re.sub("<[^>]*>", "\n", page).splitlines() if re.search("[a-z]{3,} [a-z]{2,}", line)]
    assert "lang='zh-Hans'" in page and "来自" in page and "1 个办法" in page
    assert [line for line in said if not CHINESE.search(line)] == []


@pytest.mark.parametrize("rule", ["driver-too-old", "live-hang", "gpu-busy", "launch-master-address", "container-without-gpu"])
def test_columns_of_chinese_stand_below_each_other(rule: str) -> None:
    page = render(translated(report_of(rule), "zh", ENGLISH_TEXTS), "text")
    lines = [
        line for line in page.splitlines() if not re.search(r"pip|conda|uv |^ +(?:sudo|docker|nvidia-smi|env|getent|export|wsl) ", line)
    ]
    assert max(map(width_of, lines)) <= 80
    rows = [line for line in page.splitlines() if re.match("[✓✗–!?] (?:GPU|驱动|CUDA|torch|实测)", line)]
    assert len({width_of(re.match(r". \S+ +", line)[0]) for line in rows}) == 1  # type: ignore[index]


def test_a_line_ends_between_characters_and_not_before_a_closing_mark() -> None:
    lines = [line.plain for line in Styled("驱动太旧，需要更新。" * 12).wrapped(40)]
    assert all(width_of(line) <= 40 for line in lines) and not any(line.startswith(("，", "。")) for line in lines)


def test_sentences_of_an_explanation_stand_without_a_blank() -> None:
    assert in_short("驱动太旧。更新它。然后重启。") == "驱动太旧。更新它。"
    assert in_short("The driver is old. Update it. Restart.") == "The driver is old. Update it."


@pytest.mark.parametrize("rule", ENGLISH_TEXTS.ids)
def test_titles_of_lists_have_no_facts_of_a_case(rule: str) -> None:
    title = general_title(CHINESE_TEXTS.read(rule).title, ZH.say)
    assert CHINESE.search(title) and not re.search("[{}…]", title)
    assert not re.search("[{}…]", general_title(ENGLISH_TEXTS.read(rule).title)), "it looks cut"


# ------------------------------------------------------------------ which language

LOCALES: list[tuple[str | None, dict[str, str], tuple[str, bool]]] = [
    (None, {}, ("", False)),
    (None, {"LANG": "zh_CN.UTF-8"}, ("zh", False)),
    (None, {"LANG": "zh-Hans"}, ("zh", False)),
    (None, {"LANG": "zh_TW.UTF-8"}, ("", False)),
    (None, {"LANG": "C.UTF-8"}, ("", False)),
    (None, {"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_CN.UTF-8"}, ("zh", False)),
    (None, {"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, ("", False)),
    (None, {"LANG": "de_DE.UTF-8", "LANGUAGE": "zh_TW:zh_CN:en"}, ("zh", False)),
    (None, {"LANG": "zh_CN.UTF-8", "LANGUAGE": "en:zh_CN"}, ("", False)),
    (None, {"LANG": "C.UTF-8", "LANGUAGE": "zh_CN"}, ("", False)),
    (None, {"LANG": "zh_TW.UTF-8", "LANGUAGE": "zh_TW:zh"}, ("zh", False)),
    ("en", {"LANG": "zh_CN.UTF-8"}, ("", True)),
    ("zh", {"LANG": "C"}, ("zh", True)),
]


@pytest.mark.parametrize(("given", "env", "expected"), LOCALES)
def test_the_flag_then_the_locale_decide(given: str | None, env: dict[str, str], expected: tuple[str, bool]) -> None:
    assert language_of(given, env) == expected


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("zh_CN", ""),
        ("zh-Hans", ""),
        ("zh_CN.UTF-8", ""),
        ("en_GB", ""),
        ("zh_TW", "did you mean zh?"),
        ("zh-hant", "did you mean zh?"),
        ("cn", "did you mean zh?"),
        ("Chinese", "did you mean zh?"),
        ("fr", "one of en, zh"),
    ],
)
def test_the_flag_takes_what_locales_write_and_names_what_there_is(word: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["explain", "torch-missing", "--lang", word])
    shown = capsys.readouterr()
    assert (code, bool(shown.out)) == ((2, False) if told else (0, True)) and told in shown.err
    assert told or bool(CHINESE.search(shown.out)) == word.startswith("zh")


@pytest.mark.parametrize("word", ["zh_CN", "zh-Hans"])
def test_a_configuration_file_takes_the_same_words(word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "envcheck.toml"
    file.write_text(f'lang = "{word}"\n', encoding="utf-8")
    assert CHINESE.search(run(capsys, "explain", "torch-missing", "--config", str(file))[1])


@pytest.fixture
def snapshot(tmp_path: Path) -> str:
    from envcheck.render.json_v1 import render_record

    path = tmp_path / "node.json"
    path.write_text(render_record(report_samples.machine("cpu"), "envcheck", "0.1.0"), encoding="utf-8")
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(list(words))
    return code, capsys.readouterr().out


def test_json_is_english_whatever_is_asked(snapshot: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("--facts", snapshot, "--expect", "gpus>=8", "--json")
    code, plain = run(capsys, *words)
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    said = [run(capsys, *words)[1], run(capsys, *words, "--lang", "zh")[1]]
    english = json.loads(plain)["findings"]
    assert code == 1 and english[0]["rule"] == "expectation-failed"
    assert [json.loads(one)["findings"] for one in said] == [english, english]
    assert not CHINESE.search(run(capsys, "rules", "--json", "--lang", "zh")[1])
    assert not CHINESE.search(run(capsys, "plan", "torch", "--for", "h100", "--json", "--lang", "zh")[1])


def test_formats_of_programs_follow_the_flag_alone(
    snapshot: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    words = ("--facts", snapshot, "--expect", "gpus>=8", "--format", "github")
    assert not CHINESE.search(run(capsys, *words)[1])
    assert CHINESE.search(run(capsys, *words, "--lang", "zh")[1])


def test_text_follows_the_locale_and_english_can_be_asked_for(
    snapshot: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert "可以训练" in run(capsys, "--facts", snapshot)[1]
    assert "Ready to train" in run(capsys, "--facts", snapshot, "--lang", "en")[1]
    page = run(capsys, "explain", "torch-missing")[1]
    assert "这个 Python 环境没有安装 PyTorch" in page and "确认方法" in page
    assert max(map(width_of, [line for line in page.splitlines() if not line.startswith("        ")])) <= 80
    rules = run(capsys, "rules")[1]
    assert "PyTorch 已安装但无法导入" in rules and "条规则" in rules
    assert "torch 无法使用 GPU" in run(capsys, "explain", "no", "gpu")[1]
    assert "规则族 meta" in run(capsys, "explain", "meta")[1]


def test_a_page_says_its_cases_in_chinese(capsys: pytest.CaptureFixture[str]) -> None:
    page = run(capsys, "explain", "driver-missing", "--lang", "zh")[1]
    prose = [line for line in page.splitlines() if line[:4] in ("  * ", "    ", "  - ") and line[:8].strip()]
    assert len(prose) > 10 and all(CHINESE.search(line) or not re.search("[a-z]{3,} [a-z]{3,} [a-z]{3,}", line) for line in prose)


def test_plan_and_diagnose_speak_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, plan = run(capsys, "plan", "torch", "--for", "h100", "--driver", "535.183", "--lang", "zh")
    assert code == 0 and "安装 torch" in plan and "未采用：" in plan and "driver = 535.183" in plan
    assert "pip install torch==" in plan and not re.search("installs|Left out|needs driver|Nothing was", plan)
    log = tmp_path / "log.txt"
    log.write_text("RuntimeError: The NVIDIA driver on your system is too old (found version 12020).\n", encoding="utf-8")
    page = run(capsys, "diagnose", str(log), "--lang", "zh")[1]
    assert (page.startswith("已读    ") and "[driver-too-old]" in page and "无法判断" in page) or "未就绪" in page


def test_compare_config_and_init_speak_it(
    snapshot: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from envcheck.commands.init import TEMPLATE, written
    from envcheck.render.json_v1 import render_record

    monkeypatch.chdir(tmp_path)
    other, page = tmp_path / "other.json", tmp_path / "page.html"
    other.write_text(render_record(report_of("gpu-busy").snapshot, "envcheck", "0.1.0"), encoding="utf-8")
    code, text = run(capsys, "compare", snapshot, str(other), "--lang", "zh", "-o", "-", "-o", f"html={page}")
    assert code == 1 and "gpu-busy: 不适用 → 有问题" in text and re.search(r"\d+ 项事实不同，\d+ 条规则的结论改变\n$", text)
    said = page.read_text(encoding="utf-8")
    titles = [one for one in headings(said) if CHINESE.search(one)]
    assert "lang='zh-Hans'" in said and titles[1:] == ["规则", "规则", "事实", "事实"] and "搜索事实" in said
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert "# 没有找到配置文件" in run(capsys, "config")[1] and "# 默认值" in run(capsys, "config")[1]
    file = written(report_of("gpu-busy").snapshot, ZH.say)
    assert parse_toml(file) == parse_toml(written(report_of("gpu-busy").snapshot))
    told = [line for line in file.splitlines() if re.search("#.*[a-z]{3,} [a-z]{3,} [a-z]{3,}", line)]
    assert [line for line in told if not CHINESE.search(line)] == [line for line in told if "the desktop runs on this card" in line]
    assert len(re.findall("[\u3400-\u9fff]{4,}", file)) > TEMPLATE.count("#") / 2


def test_a_site_s_own_words_stand_over_the_translation(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "torch-missing.toml").write_text('why = "Write to the cluster team."\n')
    text = RuleTexts((HERE, tmp_path), language="zh").read("torch-missing")
    assert text.why == "Write to the cluster team." and CHINESE.search(text.title)


# ------------------------------------------------------------------ terminals, and runs in English


def out_of_process(*words: str, encoding: str = "utf-8", **env: str) -> tuple[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    done = subprocess.run(
        [sys.executable, "-m", "envcheck", *words],
        env={**clean, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", **env},
        capture_output=True,
        check=False,
    )
    return done.stdout.decode(encoding), done.stderr.decode(encoding, "replace")


@pytest.mark.parametrize(
    ("encoding", "words"),
    [("ascii", ("explain", "torch-missing")), ("latin-1", ("rules",)), ("cp1252", ("plan", "torch", "--for", "h100"))],
)
def test_a_terminal_without_chinese_characters_gets_english(encoding: str, words: tuple[str, ...]) -> None:
    plain, quiet = out_of_process(*words, encoding=encoding)
    text, told = out_of_process(*words, encoding=encoding, LANG="zh_CN.UTF-8")
    assert text == plain and not quiet
    assert told.count("has no Chinese characters: this text is in English") == 1


def test_a_terminal_with_chinese_characters_gets_chinese() -> None:
    for encoding in ("utf-8", "gb18030"):
        assert "没有安装 PyTorch" in out_of_process("explain", "torch-missing", encoding=encoding, LANG="zh_CN.UTF-8")[0]
    assert "PyTorch is not installed" in out_of_process("explain", "torch-missing", LANG="C.UTF-8")[0]


OPENED = """
import sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
from envcheck.cli import main
code = main(sys.argv[1:])
mine = [name for name in sys.modules if name in ("envcheck.report.language", "envcheck.report.translate")]
print("LOADED", mine, [path for path in opened if "/lang/zh" in path], file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.parametrize("words", [("rules",), ("explain", "torch-missing"), ("--version",), ("--facts", "SNAPSHOT", "--lang", "en")])
def test_a_run_in_english_loads_nothing_of_another_language(words: tuple[str, ...], snapshot: str) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    arguments = [word.replace("SNAPSHOT", snapshot) for word in words]
    done = subprocess.run([sys.executable, "-c", OPENED, *arguments], env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "LOADED [] []" in done.stderr, done.stderr
