"""TOML files and the JSON that a wheel carries beside them."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from envcheck.tables.folders import rules_folder
from envcheck.tables.toml import COMPILED, compile_toml, load_toml, parse_toml

FILES = sorted(path for path in Path(rules_folder()).rglob("*.toml") if path.relative_to(Path(rules_folder())).parts[0] != "bases")


def compiled(folder: Path, source: bytes) -> Path:
    path = folder / "one.toml"
    path.write_bytes(source)
    Path(f"{path}{COMPILED}").write_text(compile_toml(source), encoding="utf-8")
    return path


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_every_file_survives_the_way_through_json(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = file.read_bytes()
    expected = parse_toml(source.decode())
    path = compiled(tmp_path, source)
    monkeypatch.setattr("envcheck.tables.toml.parse_toml", lambda text: pytest.fail("the compiled file was not used"))
    assert load_toml(path) == expected
    assert isinstance(load_toml(path).get("verified", datetime.date.min), datetime.date)


def test_a_changed_file_is_read_itself(tmp_path: Path) -> None:
    path = compiled(tmp_path, b'title = "before"\n')
    path.write_bytes(b'title = "after"\n')
    assert load_toml(path) == {"title": "after"}


def test_without_a_compiled_file(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_bytes('title = "für"\n'.encode())
    assert load_toml(tmp_path / "one.toml") == {"title": "für"}


def test_a_value_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError):
        compile_toml(b"[row]\nday = 2026-11-28\n")


def test_a_wrong_file_is_named_with_its_position(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text("title = \n")
    with pytest.raises(ValueError, match="line 1"):
        load_toml(tmp_path / "one.toml")
