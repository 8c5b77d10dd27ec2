"""The nearest known problems: pointers where no rule recognises a text, and the answer to `envcheck explain WORDS`."""

from __future__ import annotations

import io
import json
import re
import time
from types import SimpleNamespace
from typing import Any

import pytest

from envcheck.cli import main
from envcheck.commands.nearest import index_of, nearest_to_text, nearest_to_words, words_of
from envcheck.engine.rule import RuleTexts
from envcheck.report.session import rule_session
from envcheck.tables.folders import rules_folder

BY = rule_session()
# In nobody's words: no row of a message knows a line of it.
UNKNOWN = """The ranks sit there and the fabric reports weird things about memory.
It will not register pages with the HCA, lifting the ulimit does not help, RDMA pinned memory keeps failing, unlimited or not.
"""


def diagnosed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, *flags: str) -> tuple[int, str]:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text.encode()), isatty=lambda: False))
    code = main(["diagnose", *flags])
    return code, capsys.readouterr().out


def test_words_are_compared_without_a_plural_and_shown_as_they_stand() -> None:
    assert list(words_of("Devices: class status 804 12345 a")) == [
        ("device", "devices"),
        ("class", "class"),
        ("statu", "status"),
        ("804", "804"),
    ]


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ("cuda not available", "torch-cuda-unavailable"),
        ("gpu busy", "gpu-busy"),
        ("shared memory docker", "shm-small"),
        ("locked memory limit", "memlock-low"),
        ("cpu build of torch", "torch-cpu-build"),
        ("port in use", "launch-port-in-use"),
        ("bus error", "shm-small"),  # a message that begins so goes before pages on which both words stand somewhere
        ("no space left", "disk-full"),
    ],
)
def test_words_find_the_page_about_them(words: str, rule: str) -> None:
    assert rule in [one.rule for one in nearest_to_words(words, BY, 3)]


def test_words_that_no_page_has_find_nothing() -> None:
    assert nearest_to_words("zzzz qqqq", BY, 3) == ()
    assert nearest_to_words("", BY, 3) == ()


def test_a_text_finds_at_most_three_pages_with_words_of_its_own() -> None:
    found = nearest_to_text(UNKNOWN, BY)
    assert found[0].rule == "memlock-low"
    assert len(found) <= 3
    own = {form for _, form in words_of(UNKNOWN)}
    assert all(one.words and set(one.words) <= own for one in found)
    assert "{" not in "".join(one.title for one in found)


@pytest.mark.parametrize("text", ["", "step 1 loss 0.3\nstep 2 loss 0.2\n", "Dear all, the weather was good and we had tea.\n"])
def test_a_text_about_something_else_finds_nothing(text: str) -> None:
    assert nearest_to_text(text, BY) == ()


def test_the_index_takes_a_moment_and_no_file() -> None:
    texts = {rule: BY.texts.read(rule) for rule in BY.texts.ids}
    read: Any = SimpleNamespace(texts=SimpleNamespace(ids=tuple(texts), read=texts.__getitem__), symptoms=BY.symptoms)
    took = []
    index_of(read)
    for _ in range(3):
        start = time.perf_counter()
        index_of(read)
        took.append(time.perf_counter() - start)
    assert min(took) < 1.0  # 0.05 s on a quiet machine


def test_a_site_s_own_words_are_in_it(tmp_path: Any) -> None:
    (tmp_path / "limits").mkdir()
    (tmp_path / "limits" / "memlock-low.toml").write_text('why = "Ask the zookeeper of our cluster."\n')
    site = SimpleNamespace(texts=RuleTexts((rules_folder(), str(tmp_path))), symptoms=BY.symptoms)
    assert [one.rule for one in nearest_to_words("zookeeper", site, 3)] == ["memlock-low"]  # type: ignore[arg-type]


def test_diagnose_shows_pointers_and_still_cannot_tell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, page = diagnosed(capsys, monkeypatch, UNKNOWN)
    assert code == 3
    assert "Nearest known problems (pages to read, not findings)" in page
    assert re.search(r"envcheck explain memlock-low - .*\(words: ", " ".join(page.split()))
    code, text = diagnosed(capsys, monkeypatch, UNKNOWN, "--json")
    document = json.loads(text)
    assert (code, document["findings"]) == (3, [])
    assert document["nearest"][0]["rule"] == "memlock-low"
    assert "rdma" in document["nearest"][0]["words"]


@pytest.mark.parametrize("form", ["markdown", "html", "github", "junit"])
def test_every_format_shows_them(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    code, page = diagnosed(capsys, monkeypatch, UNKNOWN, "--format", form)
    assert code == 3
    assert "Nearest known problems" in page
    assert "envcheck explain memlock" in page.replace("\\", "")


def test_a_recognised_text_has_none(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    known = "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
    _, text = diagnosed(capsys, monkeypatch, known + UNKNOWN, "--json")
    document = json.loads(text)
    assert document["findings"]
    assert document["nearest"] == []


def test_explain_lists_pages_for_words_and_keeps_rules_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "cuda", "not", "available"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("Pages about 'cuda not available':\n  envcheck explain torch-cuda-unavailable ")
    assert page.count("\n") <= 6
    assert main(["explain", "gpu-busy"]) == 0
    assert capsys.readouterr().out.startswith("gpu-busy\n")
    assert main(["explain", "gpu-bussy"]) == 2
    assert "did you mean gpu-busy?" in capsys.readouterr().err
    assert main(["explain", "zzzz", "qqqq"]) == 2
    assert "no rule is called 'zzzz qqqq'" in capsys.readouterr().err


CHINESE = [
    ("驱动太旧", "driver-too-old", "驱动太旧"),
    ("端口被占用", "launch-port-in-use", "端口被占用"),
    ("NCCL 共享内存", "nccl-shm-small", "共享内存, nccl"),
    ("显存", "gpu-busy", "显存"),
]


@pytest.mark.parametrize(("words", "rule", "told"), CHINESE)
def test_chinese_words_find_the_page_in_either_language(words: str, rule: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    for lang in ("zh", "en"):
        assert main(["explain", *words.split(), "--lang", lang]) == 0
        heading, first, *_ = capsys.readouterr().out.splitlines()
        assert words in heading and first.split()[2] == rule
        assert first.endswith(f"关键词: {told})" if lang == "zh" else f"words: {told})")


def test_chinese_words_that_no_page_has_are_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "天气预报"]) == 2
    assert "'天气预报'" in capsys.readouterr().err
