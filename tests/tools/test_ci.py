"""What .ci/run asks pytest for: its stages collect a few folders only, in which all of their tests have to lie."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

RUN = (ROOT / ".ci/run").read_text(encoding="utf-8")
# The mark of a stage, whether it takes the tests named "always" alone, and the folders or files that it collects.
STAGES = [(found["mark"], "always" in found[0], found["places"].split()) for found in re.finditer(
    r"pytest -q (?:-n \d )?-m (?P<mark>\w+)(?: -k (?:\w+|\"[^\"]+\"))?(?P<places>(?: tests/[\w/.]+)+)", RUN)]  # fmt: skip


def test_the_stages_are_found() -> None:
    assert {mark for mark, _, _ in STAGES} == {"browser", "slow", "torches", "environments", "cluster"}


@pytest.mark.parametrize(("mark", "always", "places"), [stage for stage in STAGES if stage[0] != "slow"], ids=lambda value: str(value))
def test_a_stage_collects_every_file_that_has_its_tests(mark: str, always: bool, places: list[str]) -> None:
    files = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py") if f"mark.{mark}" in path.read_text("utf-8")]
    named = [name for name in files if always and "always" in (ROOT / name).read_text("utf-8").lower()]  # as -k does
    wanted = named or files  # the rows of "torches" are named in a module that its tests share
    assert wanted
    assert [name for name in wanted if not name.startswith(tuple(places))] == []
