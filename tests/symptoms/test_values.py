"""No printed command holds a value out of thin air: it comes from the facts, the text or the tables, or the rule's file says why it is one
for everybody (`[constants]`). A GPU's number, a port, an interface, a path or a release that fits the example alone fits nobody else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Any

import pytest

from envcheck.commands.bases import example_snapshot
from envcheck.commands.diagnose import Given, diagnose
from envcheck.engine.intents import Install, Intent, Manual, SetEnv
from envcheck.engine.judge import Finding, findings, judge
from envcheck.engine.rule import Severity
from envcheck.report.session import rule_session
from envcheck.symptoms.scan import Message
from envcheck.symptoms.template import parts_of, sample_of
from envcheck.tables.folders import rules_folder
from envcheck.tables.toml import load_toml

RULES = Path(rules_folder())
SESSION = rule_session()
FILES: dict[str, dict[str, Any]] = {
    rule: dict(load_toml(RULES / SESSION.texts.family(rule) / f"{rule}.toml")) for rule in SESSION.texts.ids
}
TABLES = " ".join(path.read_text(encoding="utf-8") for room in ("compat", "plan") for path in sorted((RULES / room).glob("*.toml")))
ROWS: dict[str, list[Message]] = {}
for _row in SESSION.symptoms.messages:
    if _row.kind == "symptom" and not _row.stated:
        ROWS.setdefault(_row.id, []).append(_row)

_COMMENT = re.compile(r"\s{2,}# .*$")
_PLUMBING = re.compile(r"\d?>(?:&\d|/dev/null)|\| ?(?:grep|head|tail|cut|sort|findstr)\b[^|;]*|(?:head|tail) -n? ?\d+")
# A switch of a program or a flag, on or off: the setting itself is the cure.
_PYTHON = re.compile(r"""python (?:-[XWv] ?\w* ?)*-c (?:"[^"]*"|'[^']*'|\d)""")
_SWITCH = re.compile(
    r"\b(?!\w*(?:VISIBLE_DEVICES|RANK|SIZE|PORT|THREADS)\b)[A-Z][A-Z0-9_]{3,}=[01]\b(?!\.)|-(?:mig|pm) [01]\b|\b1(?= torchrun| bash)"
)
# What the kernel and programs call their files, libraries and fields, and placeholders in capitals.
_NAME = re.compile(
    r"/(?:dev|proc|sys|etc)(?:/[\w.*-]*)*|/[A-Z_]+(?:/[A-Z_.]+)*|/"
    r"|lib[\w+-]*\.so(?:\.\d)?|lib[a-z-]+\d|10de|/usr/lib|/stubs/|/compat/|python3(?:-dev)?|c10d|CUDA_?\w*|[A-Z][A-Z_]*\d*[A-Z_]*|-[A-Za-z]+\d?|--[a-z-]*\d?[a-z]*"
)
_APART = re.compile(r"""[\s=,;'"()\[\]{}&|<>$\\*!]+""")
_DASHED = re.compile(r"(?<=-)\d+-\d+$")  # cuda-toolkit-12-8: how distributions write a version into a name
_NETWORK = re.compile(r"((?:\d{1,3}\.){1,3})0(?:\.0){0,2}/(?:8|16|24)")  # of an address that is told
_FIRST_OF_RELEASE = re.compile(r"nvidia/label/cuda-(\d+\.\d+)\.0")  # NVIDIA's channel of a release that is told
_NUMBER = re.compile(r"[0-9a-f]{4}(?::[0-9a-f]{2}){2}|\d+(?:\.\d+)*")


def words_of(command: str) -> Iterator[str]:
    """The words of a command that hold a number or are a path."""
    kept = _SWITCH.sub(" ", _PYTHON.sub(" ", _PLUMBING.sub(" ", _COMMENT.sub("", command))))
    for word in _APART.split(kept):
        word = word.strip(":.")
        if (any(one.isdigit() for one in word) or word.startswith(("/", "~"))) and not _NAME.fullmatch(word):
            yield word


def literals(fix: dict[str, Any]) -> Iterator[str]:
    """What a fix of a rule's file prints whatever the facts are."""
    lines = [*fix.get("commands", ()), *fix.get("requirements", ()), *fix.get("remove", ())]
    if "value" in fix:
        lines.append(f"{fix['name']}={fix['value']}")
    for line in lines:
        bare = "".join(literal + ("" if name is None else "\x00") for literal, name, _, _ in Formatter().parse(line))
        yield from (word for word in words_of(bare) if "\x00" not in word)


@pytest.mark.parametrize("rule", FILES)
def test_what_a_rules_file_prints_to_everybody_has_a_reason(rule: str) -> None:
    declared = FILES[rule].get("constants", {})
    printed = {word for fix in FILES[rule].get("fix", ()) for word in literals(fix)}
    assert printed - set(declared) == set(), "a value that no fact gives: take it from the facts, or say why it is one ([constants])"
    made = {word for word in declared if word not in printed}  # by the rule's check
    assert all(len(reason) > 3 for reason in declared.values())
    assert not made or any(word in everything_printed(rule) for word in made), f"declared and not printed: {made}"


def everything_printed(rule: str) -> set[str]:
    return {word for finding, _ in of_examples(rule) for line in lines_of(finding.fixes) for word in words_of(line)}


def of_examples(rule: str) -> Iterator[tuple[Finding, str]]:
    checks = [check for check in SESSION.checks if check.id == rule]
    for example in SESSION.texts.read(rule).examples:
        snapshot = example_snapshot(RULES, example)
        for finding in findings(judge(snapshot, checks, SESSION.tables), SESSION.texts):
            yield finding, f"{snapshot!r} {example.get('log', '')} {example.get('stated', '')}"


def lines_of(fixes: tuple[Intent, ...]) -> Iterator[str]:
    for one in fixes:
        match one:
            case Manual():
                yield from one.commands
            case SetEnv():
                yield f"{one.name}={one.value}"
            case Install():
                yield from one.requirements


def told(word: str, corpus: str, declared: dict[str, str]) -> bool:
    """Whether a word, or each number in it, is known from somewhere. A single digit of the tables proves nothing."""
    if network := _NETWORK.fullmatch(word):
        return bool(re.search(rf"(?<![\d.]){re.escape(network[1])}\d", corpus))
    if label := _FIRST_OF_RELEASE.fullmatch(word):
        return _in(label[1], corpus)
    return (
        word in declared
        or _in(word, corpus)
        or any(_in(dashed.replace("-", "."), corpus) for dashed in _DASHED.findall(word))
        or all(
            (number == "0" and ":" in word) or number in declared or _in(number, corpus) or (len(number) > 1 and _in(number, TABLES))
            for number in _NUMBER.findall(word)
        )
    )


def _in(word: str, corpus: str) -> bool:
    return bool(re.search(rf"(?<![\d.]){re.escape(word)}(?![\d])", corpus))


@pytest.mark.parametrize("rule", FILES)
def test_commands_hold_the_values_of_the_facts(rule: str) -> None:
    for finding, corpus in of_examples(rule):
        check(finding, corpus)


@pytest.mark.parametrize("symptom", ROWS)
def test_commands_after_a_bare_message_hold_the_values_of_the_message(symptom: str) -> None:
    for row in ROWS[symptom]:
        given = Given(SESSION)
        given.scanner.met.update(row.data.get("needs", ())[:1])
        text = row.sample or sample_of(parts_of(row.text))
        given.take_text(text, "log")
        report, _ = diagnose(given)
        for one in report.findings:
            check(one.finding, text)


def check(finding: Finding, corpus: str) -> None:
    if finding.severity is Severity.INFO:
        return
    declared = FILES[finding.rule].get("constants", {})
    for line in lines_of(finding.fixes):
        unknown = [word for word in words_of(line) if not told(word, corpus, declared)]
        assert not unknown, f"{finding.rule}: {unknown} in: {line}"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("sudo nvidia-smi -i 0 -r", ["0"]),
        ("export NCCL_SOCKET_IFNAME=eth0", ["eth0"]),
        ("export CUDA_VISIBLE_DEVICES=1", ["1"]),
        ("ss -ltnp sport = :29500", ["29500"]),
        ("strings /usr/lib/x86_64-linux-gnu/libstdc++.so.6 | grep GLIBCXX", ["/usr/lib/x86_64-linux-gnu/libstdc++.so.6"]),
        ("docker run --shm-size=16g …", ["16g"]),
        ("NCCL_IB_DISABLE=1 python train.py 2>&1 | tail -20", []),
        ("cat /proc/driver/nvidia/version    # 580", []),
    ],
)
def test_values_are_seen(command: str, words: list[str]) -> None:
    assert list(words_of(command)) == words
