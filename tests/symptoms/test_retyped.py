"""Messages that somebody typed from memory, compared by their letters alone."""

import pytest

from envcheck.symptoms.scan import Scanner, SymptomTable
from envcheck.tables.folders import rules_folder

TABLE = SymptomTable((rules_folder(),))


def _shown(text: str) -> list[tuple[str, str]]:
    scanner = Scanner(TABLE)
    scanner.scan(text, "post.txt")
    return [(one.rule, one.confidence) for one in scanner.finish().matches]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("RuntimeError:Dataloader worker (pid 41) is killed by signal:killed", "host-memory-low"),
        ("it says torch NOT compiled  with cuda-enabled", "torch-cpu-build"),
    ],
)
def test_a_retyped_message_is_likely(text: str, rule: str) -> None:
    assert (rule, "likely") in _shown(text)


@pytest.mark.parametrize(
    "text",
    [
        "trl sft: error: the following arguments are required: --dataset_name/--dataset-name",  # the row goes on with --local-rank
        "the worker was killed after the signal",
    ],
)
def test_a_part_of_a_message_is_none(text: str) -> None:
    assert _shown(text) == []


def test_what_a_program_printed_comes_first() -> None:
    printed = "AssertionError: Torch not compiled with CUDA enabled"
    assert {rule for rule, _ in _shown(f"{printed}\nDataloader worker (pid 41) is killed by signal:killed")} == {
        rule for rule, _ in _shown(printed)
    }
