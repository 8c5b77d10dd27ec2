"""What a stranger's text may not do where it is shown: hide words, turn them round, or be obeyed by a CI."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import unicodedata
from itertools import cycle
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from envcheck.cli import main
from envcheck.commands.output import CI, _Notes
from envcheck.engine.shells import in_cmd, posix_line, powershell_line, words_of
from envcheck.facts.printable import ascii_only, inert, unheeded
from envcheck.render import FORMATS

IGNORED = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u2065\u3164\ufe00\ufe0f\uffa0\ufff0\U000e0000\U000e0041\U000e0100\U000e0fff"
COMMAND = re.compile(r"^\s*::|##\w*\[", re.MULTILINE)
ROOT = Path(__file__).parents[2]
HOSTILE = "::error::INJ ##vso[task.setvariable variable=x]y ##[group]z ##teamcity[t] "


def test_no_character_that_is_not_seen_is_shown_as_itself() -> None:
    unseen = [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp")]
    assert [one for one in (*unseen, *IGNORED) if one != "\n" and one in inert(f"a{one}b")] == []
    assert inert("2.9\ufeff\xad\U000e0041") == r"2.9\ufeff\xad\U000e0041"
    assert inert("中\u200b文\U000e0042") == r"中\u200b文\U000e0042"


@pytest.mark.parametrize("text", ["क\u094d\u200dष", "می\u200cخواهم", "👨\u200d👩\u200d👧", "🏳\ufe0f\u200d🌈", "❤\ufe0f", "驱动 535，版本"])
def test_languages_and_emoji_stay_readable(text: str) -> None:
    assert inert(text) == text


@pytest.mark.parametrize("text", ["\u200da", "a\u200db", "é\u200d\u200dé", "é\ufe0f\ufe0f", "é\u200d"])
def test_a_joiner_that_joins_nothing_is_spelled_out(text: str) -> None:
    assert "\\u" in inert(text)


@pytest.mark.parametrize(
    "word", ["/a\u2019; touch x; \u2018/python", "C:\\a\u201d; calc; \u201c&\\py.exe", "\u201a\u201b\u201e\u201f\u2032;`→&x"]
)
def test_an_encoding_that_lacks_a_quotation_mark_ends_no_word_of_a_command(word: str) -> None:
    line = powershell_line(["python", word, "-m"])
    for whole, words in ((posix_line(["python", word, "-m"]), shlex.split), (line, words_of), (in_cmd(line), words_of)):
        spelled = ascii_only(whole)
        assert len(words(spelled)) == 3 and spelled.count("'") == whole.count("'") and spelled.count('"') == whole.count('"')


def test_words_for_a_ci_are_not_obeyed() -> None:
    assert not COMMAND.search(unheeded(f"{HOSTILE}\n \u3000{HOSTILE}\n###vso[x]#"))
    assert unheeded("torch::Tensor a :: b # [x] ## y") == "torch::Tensor a :: b # [x] ## y"
    assert unheeded("::error title=a::b ##[c]", "github") == "::error title=a::b # #[c]"


@pytest.mark.parametrize(("form", "ci"), [*zip(FORMATS, cycle(["GITHUB_ACTIONS", "TF_BUILD", "CI"]), strict=False)])
def test_a_report_in_a_log_of_a_ci(
    form: str, ci: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in CI:
        monkeypatch.delenv(name, raising=False)  # where these tests are themselves run by one
    log = tmp_path / "train.log"
    said = "RuntimeError: The NVIDIA driver on your system is too old (found version 12020). "
    log.write_text(f'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\n{said}{HOSTILE * 20}\n')
    main(["diagnose", str(log), "--format", form])
    plain = capsys.readouterr().out
    assert form not in ("text", "json", "html") or COMMAND.search(plain)
    monkeypatch.setenv(ci, "true")
    main(["diagnose", str(log), "--format", form])
    shown = capsys.readouterr().out
    rest = [line for line in shown.splitlines() if not (form == "github" and re.match(r"::\w+ title=[^:]*::", line))]
    assert not COMMAND.search("\n".join(rest)) and not re.search(r"##\w*\[|\r|\x1b", shown)
    if form in ("json", "sarif"):
        assert json.loads(shown) == json.loads(plain)
    elif form == "junit":
        assert ET.canonicalize(shown) == ET.canonicalize(plain)  # our own


@pytest.mark.parametrize(
    ("output", "piped"),
    [("/proc/self/fd/1", False), ("text=/dev/stderr", True), ("json=/dev/stdout", True), ("log", False)],
)
def test_a_report_that_names_the_log_of_a_ci_by_a_path(output: str, piped: bool, tmp_path: Path) -> None:
    (tmp_path / "c.log").write_text("RuntimeError: CUDA error: out of memory ##vso[task.setvariable variable=PATH]y\n")
    command = [sys.executable, "-m", "envcheck", "diagnose", "c.log", "-o", output]
    env = {**os.environ, "GITHUB_ACTIONS": "true", "PYTHONPATH": str(ROOT)}
    with (tmp_path / "log").open("w+") as log:
        done = subprocess.run(
            command, stdout=subprocess.PIPE if piped else log, stderr=subprocess.STDOUT, cwd=tmp_path, env=env, check=False
        )
        shown = done.stdout.decode() if piped else (tmp_path / "log").read_text()
    assert "vso[" in shown and "##vso[" not in shown


def test_what_is_said_on_stderr_is_not_obeyed_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    with (tmp_path / "notes").open("wb") as raw, _Notes(raw, "utf-8", write_through=True) as notes:
        print(f"envcheck: no\n{HOSTILE}", file=notes)
    assert not COMMAND.search((tmp_path / "notes").read_text())
    command = [sys.executable, "-m", "envcheck", "run", "--", "no\n::error::such ##[group]"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "such" in done.stderr and not COMMAND.search(done.stderr)
