"""The tool that asks whether a test would notice: what it changes, and that it tells a test that notices from one that does not."""

from __future__ import annotations

from pathlib import Path

import mutate
import pytest


def changes(text: str) -> set[str]:
    """The statements that stand in the place of others, a line each."""
    return {" | ".join(one.applied(text)[2].splitlines()) for one in mutate.mutants("m.py", text)}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x = a < b", {"x = a <= b", "x = a >= b"}),
        ("x = a == b", {"x = a != b"}),
        ("x = a is None", {"x = a is not None"}),
        ("x = a in b", {"x = a not in b"}),
        ("x = a and b", {"x = a or b"}),
        ("x = not a", {"x = a"}),
        ("x = 3", {"x = 4", "x = 2"}),
        ("x = 1e-09", {"x = 1.000000001", "x = -0.999999999"}),
        ("x = True", {"x = False"}),
        ("x = a if b else c", {"x = c if b else a"}),
        ("f(a)", {"pass"}),
        ("a.b = c", {"pass"}),
        ("raise a", {"pass"}),
        ("def f():\n    return a", {"return None"}),
        ("if a:\n    b = c", {"if not a: |     b = c"}),
        ("if not a:\n    b = c", {"if a: |     b = c"}),
        # nothing of these
        ('"a text"', set()),
        ("x = a", set()),
        ("import a", set()),
        ("x: Literal[1]", set()),
        ("@cache(maxsize=3)\ndef f(): ...", set()),
        ("if TYPE_CHECKING:\n    x = 3", set()),
        ("def f():\n    return", set()),
        ("def f():\n    return None", set()),
    ],
)
def test_what_is_changed(text: str, wanted: set[str]) -> None:
    assert changes(text) == wanted


def test_the_table_names_modules_and_tests_that_there_are() -> None:
    for pattern, tests in mutate.TESTS.items():
        assert list(mutate.ROOT.glob(pattern)), pattern
        for test in tests:
            file, _, name = test.partition("::")
            assert f"def {name}" in (mutate.ROOT / "tests" / file).read_text(encoding="utf-8")


def test_a_module_without_tests_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"hatch_build.py: TESTS does not say"):
        mutate.wanted(["hatch_build.py"])


def test_one_test_notices_and_another_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in {
        "old.py": "def old(years):\n    return years > 65\n",
        "tests/test_blind.py": "from old import old\ndef test_old():\n    assert old(70) and not old(30)\n",
        "tests/test_seeing.py": "from old import old\ndef test_old():\n    assert old(66) and not old(65)\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(mutate, "ROOT", tmp_path)
    monkeypatch.setattr(mutate, "files", lambda: [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.py")])
    monkeypatch.setattr(mutate, "TESTS", {"old.py": ("test_blind.py",)})
    assert mutate.main(["old.py:2"]) == 0
    assert capsys.readouterr().out.startswith(
        "old.py:2\n  -return years > 65\n  +return years >= 65\n"
        "old.py:2\n  -return years > 65\n  +return years > 66\n"
        "old.py:2\n  -return years > 65\n  +return years > 64\n2 of 5 were noticed (40 %), of 5 in all"
    )
    monkeypatch.setattr(mutate, "TESTS", {"old.py": ("test_seeing.py",)})
    assert mutate.main(["--sample", "2", "--seed", "2", "old.py"]) == 0
    assert capsys.readouterr().out.startswith("2 of 2 were noticed (100 %), of 5 in all")
    assert (tmp_path / "old.py").read_text() == "def old(years):\n    return years > 65\n", "never in the checkout"
    monkeypatch.setattr(mutate, "TESTS", {"old.py": ("test_nowhere.py",)})
    with pytest.raises(SystemExit, match="fail on unchanged code"):
        mutate.main(["old.py"])
