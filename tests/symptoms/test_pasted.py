"""Messages as people paste them: what a copy adds or takes away costs no entry its match, and what only quotes a message is a guess."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.commands import diagnose
from envcheck.engine.rule import Confidence
from envcheck.read.clean import clean
from envcheck.report.session import rule_session
from envcheck.symptoms.normalize import bare, hearsay, one_quote, rewrapped
from envcheck.symptoms.scan import Message, Scanner, SymptomTable
from envcheck.tables.folders import rules_folder
from envcheck.tables.toml import load_toml

TABLE = SymptomTable((rules_folder(),))
LINES = load_toml(Path(__file__).parents[1] / "symptom_lines.toml")
ROWS: dict[str, list[Message]] = {}
for _row in TABLE.messages:
    if not _row.stated:  # observations of a person are never wrapped or logged
        ROWS.setdefault(_row.id, []).append(_row)


def names(text: str) -> set[str]:
    """The entries that a text meets, and the rules that they name."""
    scanner = Scanner(TABLE)
    scanner.scan(clean(text), "log")
    found = scanner.finish()
    rules = {f"rule {match.rule}" for match in found.matches}
    return rules | {match.symptom for match in found.matches} | {one.entry for one in (*found.victims, *found.harmless)}


def before_each_line(mark: str) -> Callable[[str], str]:
    return lambda text: "\n".join(mark + line for line in text.split("\n"))


def quotes(one: str, other: str) -> Callable[[str], str]:
    return lambda text: re.sub(r"(['\"`])([^'\"`]{0,200}?)\1", lambda match: one + match[2] + other, text)


def wrapped(width: int, mark: str = "") -> Callable[[str], str]:
    def wrap(text: str) -> str:
        lines = textwrap.wrap(" ".join(text.split()), width, break_long_words=False, break_on_hyphens=False)
        return "\n".join(mark + line for line in lines)

    return wrap


def on_a_screen(text: str) -> str:
    flat = " ".join(text.split())
    return "\n".join(flat[at : at + 80] for at in range(0, len(flat), 80))


COPIES: dict[str, Callable[[str], str]] = {
    "markdown quotation": before_each_line("> "),
    "torch rank": before_each_line("[rank3]: "),
    "vLLM": before_each_line("(EngineCore_0 pid=123) ERROR 01-01 10:11:12 [core.py:12] "),
    "Ray": before_each_line("\x1b[36m(Worker.run pid=4242, ip=10.0.0.3)\x1b[0m "),
    "kubectl": before_each_line("[pod/trainer-0/main] 2025-01-01T10:11:12.123456Z "),
    "docker compose": before_each_line("trainer-1  | "),
    "CRI": before_each_line("2025-01-01T10:11:12.123456789Z stderr F "),
    "glog": before_each_line("E0101 10:11:12.123456 1234 main.py:12] "),
    "mpirun": before_each_line("[1,3]<stderr>:"),
    "srun": before_each_line("3: "),
    "colours without their escape": before_each_line("[31m"),
    "JSON": lambda text: json.dumps({"log": f"before\n{text}\nafter \x1b[0m\n", "stream": "stderr"}),
    "jq": lambda text: json.dumps(f"Traceback:\n{text}\n"),
    "web page": lambda text: text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;"),
    "double quotes": quotes('"', '"'),
    "back quotes": quotes("`", "`"),
    "curly quotes": quotes("\u2018", "\u2019"),
    "escaped quotes": quotes('\\"', '\\"'),
    "curly apostrophe": lambda text: text.replace("n't", "n\u2019t"),
    "screen of 80": on_a_screen,
    "wrapped at 80": wrapped(80),
    "wrapped and indented": lambda text: wrapped(80)(text).replace("\n", "\n    "),
    "wrapped and quoted": wrapped(80, "> "),
    "sentence": lambda text: f"Hi, I get {' '.join(text.split())} when importing torch",
    "Chinese around it": lambda text: f"运行时报错：{' '.join(text.split())}请问怎么解决",
    "two blanks": lambda text: text.replace(" ", "  "),
    "hard blanks": lambda text: text.replace(" ", "\xa0"),
}


@pytest.mark.parametrize("symptom", ROWS)
def test_a_copy_keeps_its_match(symptom: str) -> None:
    """Its own, or that of a symptom that names the same rule: two may share a text."""
    rows = ROWS[symptom]
    table = SymptomTable(())
    same = [row for row in TABLE.messages if row.id == symptom or (row.rules and row.rules[:1] == rows[0].rules[:1])]
    table.__dict__["messages"] = tuple(same)
    lost = []
    where = f"tests/symptom_lines.toml: {symptom}"
    assert LINES.get(symptom), f"{where}: no line that the program printed; add some (CONTRIBUTING.md, Add a message, 6)"
    for line in LINES[symptom]:
        alone = line == "Killed"  # which says so only where nothing else stands
        for name, copy in COPIES.items():
            scanner = Scanner(table)
            scanner.met.update(rows[0].data.get("needs", ())[:1])
            scanner.scan(clean(copy(line)), "log")
            if not scanner.hits and not scanner.noted and not (alone and name in ("sentence", "JSON", "jq")):
                lost.append((name, copy(line)))
    assert not lost, f"{where}: these copies of its lines are known to no row of rules/symptoms that names {rows[0].rules[:1]}: {lost[:3]}"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("No module named torch", "torch-missing"),
        ("no cuda gpus are available", "visible-devices-out-of-range"),
        ("i get torch not compiled with cuda enabled, help", "torch-cpu-build"),
        ("KeyError: LOCAL_RANK", "launch-env-incomplete"),
        ("Unsupported gpu architecture compute_120", "extension-arch-mismatch"),
        ("The NVIDIA driver on your system is too old", "driver-too-old"),
        ("…on your system is too old (found version 11040)", "driver-too-old"),
        ("I get undefined symbol: _ZN5torch3jit17parseSchemaOrNameERKSs when importing it", "extension-abi-mismatch"),
        ("NVIDIA-SMI has failed because it couldn\u2019t communicate with the NVIDIA driver", "driver-not-loaded"),
        ("version GLIBC_2.28 not found", "glibc-too-old"),
        ("[rank0]: OSError: [Errno 24] Too many\n[rank0]: open files", "open-files-low"),
        (
            '{"log":"RuntimeError: received 0 items\\n"}\n{"log":"x"}\n{"msg":"RuntimeError: received 0 items of ancdata\\n"}',
            "open-files-low",
        ),
        ('docker: "could not select device driver \\"\\" with capabilities: [[gpu]]"', "container-without-gpu"),
    ],
)
def test_half_a_line_is_enough(text: str, rule: str) -> None:
    assert f"rule {rule}" in names(text)


@pytest.mark.parametrize(
    "text",
    [
        "No module named torchvision.datasets",
        "No module named torch_geometric",
        "KeyError: LOCAL_RANKING",
        "my own library is too old (see version 2)",
        "the detected version mismatches",
        "we communicate with the NVIDIA team",
        "the process was killed by the user",
        "cannot open shared mailbox",
        "not a supported wheel of fortune",
    ],
)
def test_a_near_miss_names_nothing(text: str) -> None:
    assert names(text) == set()


QUOTED = [
    '- Fixed "Torch not compiled with CUDA enabled" on Windows (#1234)',
    "* [BugFix] Handle RuntimeError: No CUDA GPUs are available in workers",
    '        raise AssertionError("Torch not compiled with CUDA enabled")',
    '    TORCH_CHECK(false, "No CUDA GPUs are available");',
    'logger.warning("CUDA driver version is insufficient for CUDA runtime version")',
    'What does "Torch not compiled with CUDA enabled" mean?',
    "If you see `No CUDA GPUs are available`, restart the machine.",
    "You may get an error like CUDA driver version is insufficient for CUDA runtime version",
    '    with pytest.raises(RuntimeError, match="No CUDA GPUs are available"):',
]


@pytest.mark.parametrize("text", QUOTED)
def test_what_only_quotes_a_message_is_a_guess(text: str) -> None:
    texts = diagnose.Given(rule_session())
    texts.take_text(clean(text) + "\n", "log")
    report, _ = diagnose.diagnose(texts)
    assert report.exit_code == 3
    assert report.findings
    assert all(one.finding.confidence is Confidence.LIKELY for one in report.findings)


@pytest.mark.parametrize("text", QUOTED[:2])
def test_a_print_beside_a_quotation_is_certain(text: str) -> None:
    printed = "RuntimeError: No CUDA GPUs are available" if "No CUDA" in text else "AssertionError: Torch not compiled with CUDA enabled"
    texts = diagnose.Given(rule_session())
    texts.take_text(f"{text}\n{printed}\n", "log")
    report, _ = diagnose.diagnose(texts)
    assert all(one.quoted is (one.text.strip() != printed) for one in texts.scanner.finish().matches)
    if "Torch not" in text:
        assert report.exit_code == 1


def test_a_line_of_code_in_a_traceback_ran() -> None:
    code = 'raise AssertionError("Torch not compiled with CUDA enabled")'
    assert not hearsay(code, '  File "/x/torch/cuda/__init__.py", line 403, in _lazy_init')
    assert hearsay(code, "def _lazy_init():")
    assert hearsay('"Torch not compiled with CUDA enabled"', "raise AssertionError(")
    assert hearsay('f"Torch not compiled with {name} enabled",', "")
    assert not hearsay('"Torch not compiled with CUDA enabled"', "It says:")
    assert not hearsay("AssertionError: Torch not compiled with CUDA enabled", code)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("> > text", "text"),
        (">>> import torch", ">>> import torch"),
        ("(EngineCore_0 pid=1) ERROR 01-01 10:00:00 [core.py:1] boom", "boom"),
        ("2025-01-01 10:00:00,123 - boom", "boom"),
        ("[2025-01-01 10:00:00] boom", "boom"),
        ("[   12.345678] NVRM: boom", "NVRM: boom"),
        ("Nov 27 10:00:00 host kernel: NVRM: boom", "NVRM: boom"),
        ("node1:1819:1819 [0] NCCL WARN boom", "node1:1819:1819 [0] NCCL WARN boom"),
        ("[Rank 0] Watchdog", "[Rank 0] Watchdog"),
        ("│ boom │", "boom"),
        ("|  0  NVIDIA A100 |", "|  0  NVIDIA A100 |".replace("  ", " ")),
    ],
)
def test_bare(line: str, words: str) -> None:
    assert bare(line) == words


def test_rewrapped_joins_full_lines_only() -> None:
    line = "x" * 60
    assert rewrapped(f"{line}\ny\nz") == f"{line}y\nz"
    assert rewrapped(f"{line}\n  y") is None
    token = "hf_AbCdEfGhIjKlMnOpQrSt"
    assert rewrapped(f"{line}\n{token} z") == f"{line}[secret] z", "behind a word it would be none"
    assert rewrapped(f"{line[:-9]}me:Pw12@\nh.example/x") == f"{line[:-9]}me:Pw12@h.example/x"
    assert rewrapped("short\nlines") is None


@given(st.text(max_size=300))
def test_any_text_keeps_its_places(text: str) -> None:
    assert len(one_quote(text)) == len(text)
    for line in text.split("\n"):
        bare(line)
        hearsay(line, "")
    rewrapped(text)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ('{"log":"a \\"b\\"\\n"}', '{"log":"a "b"\n"}'),
        ('{"log":"{\\"msg\\": \\"a\\\\nb\\"}"}', '{"log":"{"msg": "a\nb"}"}'),
        ("C:\\new\\torch\\lib", "C:\\new\\torch\\lib"),
        ('"C:\\new folder\\python.exe" train.py', '"C:\\new folder\\python.exe" train.py'),
        ("died with &lt;Signals.SIGKILL: 9&gt;", "died with <Signals.SIGKILL: 9>"),
        ("<?xml version='1.0'?><a>&lt;</a>", "<?xml version='1.0'?><a>&lt;</a>"),
        ("[31mERROR[0m", "ERROR"),
        ("a\u00a0b\u200bc", "a bc"),
        ('say \\"x\\"', 'say "x"'),
    ],
)
def test_clean_undoes_json_and_html(raw: str, shown: str) -> None:
    assert clean(raw) == shown


@given(st.lists(st.sampled_from(['{"', '"', "\\", "n", "u0", "\\u001b", "\\n", '\\"', "&lt;", "&", "}", "[0m", "\x1b["]), max_size=30))
def test_clean_takes_any_escapes(parts: list[str]) -> None:
    assert not any(ord(one) < 32 and one not in "\n\t" for one in clean("".join(parts)))


def test_the_marks_are_those_of_the_samples(tmp_path: Path) -> None:
    """A log with a mark on every line costs no entry in the count of lines that a message may take."""
    text = "".join(f"[rank{rank}]: Traceback (most recent call last):\n[rank{rank}]: ImportError: libcudnn.so.9: cannot open shared\n"
                   f"[rank{rank}]: object file: No such file or directory\n" for rank in range(3))  # fmt: skip
    assert "rule missing-library" in names(text)
