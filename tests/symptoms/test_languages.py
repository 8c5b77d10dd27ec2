"""What a system says in the language of its user names the same rules as its English, and is quoted as it stood there."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from envcheck.symptoms.normalize import one_quote
from envcheck.symptoms.scan import Scanner, Symptoms, SymptomTable
from envcheck.symptoms.template import sample_of
from envcheck.tables.folders import rules_folder
from envcheck.tables.toml import load_toml

TABLE = SymptomTable((rules_folder(),))
ENGLISH = TABLE.languages.english
PRINTED = [line for lines in load_toml(Path(__file__).parents[1] / "symptom_lines.toml").values() for line in lines]
PRINTED += [row.sample or sample_of(row.parts) for row in TABLE.messages]
LINES = {meaning: [line for line in PRINTED if meaning in one_quote(line)] for meaning in dict.fromkeys(ENGLISH.values())}
# Nothing of ours depends on these words by now; they are the same sources' and cost nothing.
UNUSED = {
    "error while loading shared libraries", "%1 is not a valid Win32 application", "The specified module could not be found",
    "A dynamic link library (DLL) initialization routine failed", "The paging file is too small for this operation to complete",
}  # fmt: skip


def scan(text: str) -> Symptoms:
    scanner = Scanner(TABLE)
    scanner.scan(text, "log")
    return scanner.finish()


def rules(found: Symptoms) -> set[tuple[str, str]]:
    return {(match.rule, match.variant) for match in found.matches} | {(one.entry, "") for one in (*found.victims, *found.harmless)}


def test_every_message_is_needed_by_a_row_or_named_here() -> None:
    texts = " ".join([*PRINTED, *(row.text for row in TABLE.messages)])
    assert {meaning for meaning in LINES if meaning not in one_quote(texts)} <= UNUSED


@pytest.mark.parametrize("meaning", [meaning for meaning, lines in LINES.items() if lines])
def test_a_line_in_another_language_names_what_its_english_names(meaning: str) -> None:
    line = next((one for one in LINES[meaning] if scan(one).matches), LINES[meaning][0])
    known = rules(scan(line))
    for words in [words for words, english in ENGLISH.items() if english == meaning]:
        found = scan(one_quote(line).replace(meaning, words))
        assert rules(found) == known, f"{words}: rules/languages says that it is {meaning!r}"
        quoted = [one.text for one in (*found.matches, *found.victims, *found.harmless)]
        assert not any(meaning in text for text in quoted), f"{words}: quoted in English, which did not stand there: {quoted}"


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("bash: nvidia-smi : commande introuvable", "driver-missing"),
        ("bash: nvidia-smi\u00a0: commande introuvable", "driver-missing"),
        ("Der Befehl \"nvidia-smi\" ist entweder falsch geschrieben oder\nkonnte nicht gefunden werden.", "driver-missing"),
        ("'nvidia-smi' 不是内部或外部命令，也不是可运行的程序\n或批处理文件。", "driver-missing"),
        ("OSError: libcudart.so.12: 无法打开共享对象文件: 没有那个文件或目录", "missing-library"),
        ("libcudart.so.12: no se puede abrir el fichero del objeto compartido: No existe el fichero o el directorio", "missing-library"),
        ("[WinError 126] 找不到指定的模块。 Error loading \"C:\\venv\\torch\\lib\\fbgemm.dll\" or one of its", "torch-import-broken"),
        ("ImportError: DLL load failed while importing exllamav2_ext: Не найдена указанная процедура.", "extension-abi-mismatch"),
    ],
)  # fmt: skip
def test_what_people_paste(line: str, rule: str) -> None:
    found = scan(f"{'x' * 300}\n{line}")  # no screen is as wide
    assert rule in {match.rule for match in found.matches}
    assert all(match.text.strip("…") in " ".join(line.split()) for match in found.matches), "quoted as it stood there"


def test_a_quotation_in_english_beside_one_that_was_not_stays_english() -> None:
    english = "OSError: libcudart.so.12: cannot open shared object file: No such file or directory"
    found = scan(f"/data/train.py: Datei oder Verzeichnis nicht gefunden\n\n\n\n{english}\n")
    assert [match.text for match in found.matches] == [english]


def test_a_message_means_one_thing_and_is_written_as_it_is_looked_for() -> None:
    files = [load_toml(path) for path in (Path(rules_folder()) / "languages").glob("*.toml")]
    tables = [table for content in files for name, table in content.items() if name != "sources"]
    pairs = [(words, meaning) for table in tables for meaning, said in table.items() for words in said]
    twice = {words for words, _ in pairs if len({meaning for other, meaning in pairs if other == words}) > 1}
    assert not twice, f"rules/languages: two meanings of {twice}"
    assert [words for words, _ in pairs if one_quote(words) != words or len(words) < 3] == []
    english = " ".join(row.sample or row.text for row in TABLE.messages)
    assert [words for words, _ in pairs if words in english] == [], "a row's own English would be taken for another language"


def test_a_long_log_in_another_language_costs_little() -> None:
    text = "".join(f"工作进程 {n % 7} 已经加载了语料库的第 {chr(0x4E00 + n % 9000)} 个分片, 采样器已就绪\n" for n in range(30000))
    began = time.process_time()
    scan(text)
    assert time.process_time() - began < 2.0
