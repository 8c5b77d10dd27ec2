"""TOML files and the JSON that a wheel carries in their place."""

from __future__ import annotations

import datetime
import json
import time
from pathlib import Path

import pytest

from envcheck.tables import toml
from envcheck.tables.file import read_table, table_names
from envcheck.tables.folders import rules_folder, toml_files
from envcheck.tables.toml import as_json, json_name, load_toml, parse_toml

FILES = sorted(Path(rules_folder()).rglob("*.toml"))


@pytest.mark.parametrize("file", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_file_survives_the_way_through_json(tmp_path: Path, file: Path) -> None:
    source = file.read_text(encoding="utf-8")
    (tmp_path / json_name(file.name)).write_text(as_json(source), encoding="utf-8")
    [(name, path)] = toml_files(tmp_path).items()
    assert (name, path) == (file.stem, str(tmp_path / f"{file.stem}.json"))
    assert load_toml(path) == load_toml(tmp_path / file.name) == parse_toml(source)
    assert isinstance(load_toml(path).get("verified", datetime.date.min), datetime.date)


def test_a_file_that_somebody_wrote_beside_ours_counts(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text('{"title":"before"}')
    assert load_toml(tmp_path / "one.toml") == {"title": "before"}
    (tmp_path / "one.toml").write_bytes('title = "für"\n'.encode())
    assert load_toml(tmp_path / "one.toml") == load_toml(toml_files(tmp_path)["one"]) == {"title": "für"}


def test_a_site_overlays_an_installed_table(tmp_path: Path) -> None:
    """Ours is JSON, as a wheel has it, the site's is TOML."""
    ours, site = tmp_path / "ours", tmp_path / "site"
    ours.mkdir(), site.mkdir()
    source = 'verified = 2026-11-27\n[sources]\n[floor]\nkey = ["cuda"]\nrows = [{ cuda = "13.0", linux = "5.1", source = "a" }]\n'
    (ours / "cuda-driver.json").write_text(as_json(source))
    (site / "cuda-driver.toml").write_text('[floor]\nkey = ["cuda"]\nrows = [{ cuda = "13.0", linux = "999.1", source = "site" }]\n')
    assert table_names((ours, site)) == ("cuda-driver",)
    table = read_table("cuda-driver", (ours, site))
    assert (table.verified, [row["linux"] for row in table.rows("floor")]) == (datetime.date(2026, 11, 27), ["999.1"])


def test_other_files_and_no_folder(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("")
    assert toml_files(tmp_path) == {} and toml_files(tmp_path, "driver") == {}
    with pytest.raises(FileNotFoundError, match=r"one\.toml"):
        load_toml(tmp_path / "one.toml")


def test_a_value_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError):
        as_json("[row]\nday = 2026-11-28\n")
    assert json.loads(as_json("verified = 2026-11-28\n")) == {"verified": "2026-11-28"}


def test_a_wrong_file_is_named_with_its_position(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text("title = \n")
    with pytest.raises(ValueError, match="line 1"):
        load_toml(tmp_path / "one.toml")


@pytest.mark.parametrize(("text", "words"), [("a" + ".a" * 20_000 + " = 1", "a key of more than"), ("a = " + "[" * 50_000, "too deeply")])
def test_what_is_nested_without_end_is_refused_at_once(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_toml(text)


def test_no_more_is_read_of_a_file_than_may_stand_in_it(tmp_path: Path) -> None:
    for name in ("large.toml", "large.json"):
        with (tmp_path / name).open("wb") as file:
            file.truncate((1 << 20) + 1)
        with pytest.raises(ValueError, match="larger than 1 MiB"):
            load_toml(tmp_path / name)
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match="nested too deeply"):
        load_toml(tmp_path / "deep.json")


def test_dots_of_prose_are_no_key() -> None:
    text = "." * 500 + "\n" + "a. " * 20
    assert parse_toml(f'note = """{text}"""')["note"] == text


@pytest.mark.parametrize("part", ["a", '"a b"', "'a b'", '"\\""', '"' + "x" * 300 + '"'])
def test_a_key_of_many_parts_is_refused_however_they_are_written(part: str) -> None:
    with pytest.raises(ValueError, match="parts"):
        parse_toml(".".join([part] * 2000) + " = 1\n")


MANY = "a." * 100 + "a = 1"


@pytest.mark.parametrize(
    "text",
    [
        ".".join("a" + " " * 41 if one % 50 == 0 else "a" for one in range(2000)) + " = 1",
        ".".join('"' + "a" * 1001 + '"' if one % 50 == 0 else "a" for one in range(2000)) + " = 1",
        f't = {{ x = """\nends""", {MANY}, z = "q" }}',
        f't = {{ x = """\nends with a quotation mark"""", {MANY}, z = "q" }}',
        f"# it's\n{MANY} # \"",
        f"x = '''\n it's \"\"\" '''\n{MANY}",
        f'x = "\\""\n{MANY} # "',
        f'x = """a \\""" {MANY}\n"""\n{MANY}',
    ],
)
def test_a_key_of_many_parts_is_not_hidden_by_what_stands_around_it(text: str) -> None:
    with pytest.raises(ValueError, match="a key of more than 60 parts"):
        parse_toml(text)


@pytest.mark.parametrize("text", [f'x = "{MANY}"', f'x = """{MANY}"""', f"x = '{MANY}'", f"# {MANY}", f'x = """a \\""" {MANY} """'])
def test_as_many_dots_in_a_string_or_a_comment_are_none(text: str) -> None:
    assert parse_toml(text).keys() <= {"x"}


@pytest.mark.parametrize(
    "line",
    [
        "# " + ("a" * 900 + ".") * 58 + "a", "# " + "a" * 1000, 'icon{} = "data:image/png;base64,' + "aB3/" * 300 + '"',
        "# " + "a. b " * 300, 'text{} = """' + '\\"""' * 60 + "a." * 70 + '"""', "text{} = '" + "a." * 300 + "'",
    ],
)  # fmt: skip
def test_the_look_for_such_keys_costs_the_length_of_the_text(line: str) -> None:
    """A ratio: the machine may be slow."""

    def seconds(count: int) -> float:
        text = "".join(line.replace("{}", str(one)) + "\n" for one in range(count))

        def once() -> float:
            began = time.process_time()
            assert toml._deep_key(text) is None
            return time.process_time() - began

        return min(once() for _ in range(3))

    assert seconds(400) < 8 * seconds(100) + 0.01
