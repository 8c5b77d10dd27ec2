"""File names on the registry and on torch's index against the tables; the lists of files are those of 2026-11-28."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import package_files
import pytest
import refresh_tables
import registry
from difference import write
from registry import File, NoAnswer
from registry_fakes import Index, serving
from table_checks import contradictions, problems

from envcheck.tables.compat import Tables
from envcheck.tables.folders import rules_folder

COMPAT = Path(rules_folder("compat"))
TABLES = Tables((COMPAT,))
SAMPLES = Path(__file__).parents[1] / "samples" / "registry"


def recorded(package: str) -> list[File]:
    return [File(name, "", None, "", False) for name in (SAMPLES / f"{package}.txt").read_text().splitlines()]


@pytest.mark.parametrize("package", ["torchtext", "bitsandbytes"])
def test_the_recorded_files_agree_with_the_tables(package: str) -> None:
    assert list(package_files.compared(TABLES, package, recorded(package))) == []
    known = list(package_files.asked(TABLES, package, package_files.on_registry(recorded(package))))
    assert sum(len(list(package_files.expected(TABLES, package, *one))) for one in known) > 100


def test_a_wheel_that_is_gone_is_noticed() -> None:
    files = [one for one in recorded("torchtext") if not one.name.startswith("torchtext-0.17.2-cp312-cp312-win")]
    [found] = package_files.compared(TABLES, "torchtext", files)
    assert (found.table, found.subject) == ("torch-companion", "torchtext 0.17.2, Pythons on windows-x86_64")
    assert found.known.split()[-1] == "3.12" and found.found.split()[-1] == "3.11" and found.edit is None


def test_a_wheel_that_was_withdrawn_is_none() -> None:
    files = [File(one.name, "", None, "", "0.17.2-cp311" in one.name) for one in recorded("torchtext")]
    assert {found.subject for found in package_files.compared(TABLES, "torchtext", files)} == {
        f"torchtext 0.17.2, Pythons on {platform}" for platform in ("linux-x86_64", "windows-x86_64", "macos-arm64", "macos-x86_64")
    }


def named(package: str, version: str, *tags: str) -> list[File]:
    return [File(f"{package}-{version}-{tag}.whl", "", None, "", False) for tag in tags]


LAST = next(row for row in reversed(TABLES.rows("third-party", "wheel")) if row["package"] == "bitsandbytes")
SAME = ("py3-none-manylinux_2_24_x86_64", "py3-none-manylinux_2_24_aarch64", "py3-none-win_amd64", "py3-none-macosx_14_0_arm64")


@pytest.mark.parametrize(("tags", "first"), [(SAME, LAST["from"]), (SAME[:2], "0.90.0")])
def test_a_newer_version_extends_its_row_or_gets_one(tmp_path: Path, tags: tuple[str, ...], first: str) -> None:
    """What is for the same platforms lengthens the row, what is not begins another; either is written, and read again."""
    files = [*recorded("bitsandbytes"), *named("bitsandbytes", "0.90.0", *tags), *named("bitsandbytes", "0.91.0", *tags)]
    folder = shutil.copytree(COMPAT, tmp_path / "compat")
    found = list(package_files.compared(TABLES, "bitsandbytes", files))
    assert [one.subject for one in found] == ["bitsandbytes 0.90.0, wheels", "bitsandbytes 0.91.0, wheels"]
    write(str(folder), found, [], TABLES.verified["third-party"])
    after = Tables((folder,))
    assert problems(folder) == () and contradictions(after) == ()
    row = [row for row in after.rows("third-party", "wheel") if row["package"] == "bitsandbytes"][-1]
    assert (row["from"], row["to"]) == (first, "0.91.0")
    assert after.wheel_lacks("bitsandbytes", "0.90.0", "windows-x86_64", "3.12") == (None if tags is SAME else "platform")
    assert list(package_files.compared(after, "bitsandbytes", files)) == []


def test_abi3_stays_said() -> None:
    tags = ("cp38-abi3-manylinux_2_31_x86_64", "cp38-abi3-manylinux_2_31_aarch64")
    [found] = package_files.newer(TABLES, "vllm", package_files.on_registry(named("vllm", "9.0.0", *tags)))
    assert 'abi = "abi3"' in found.found and "pythons" not in found.found


# ---------------------------------------------------------------- variants


def index_of(package: str, version: str, variants: Iterable[str], silent: Iterable[str] = ()) -> list[package_files.Difference]:
    def page(variant: str, name: str) -> list[File]:
        if variant in silent:
            raise NoAnswer("nobody")
        return named(name, f"{version}+{variant}", "cp312-cp312-manylinux_2_28_x86_64") if variant in variants else []

    return [one for one in package_files.variants(TABLES, package, page) if version in one.subject or "does not answer" in one.found]


VERSION, KNOWN = list(package_files.known_variants(TABLES, "torchvision"))[-1]


def test_variants_that_agree() -> None:
    assert index_of("torchvision", VERSION, KNOWN) == []


def test_a_variant_more_or_less_is_noticed() -> None:
    [found] = index_of("torchvision", VERSION, KNOWN[1:])
    assert found.subject == f"torchvision {VERSION}, variants" and set(found.known.split()) - set(found.found.split()) == {KNOWN[0]}


def test_a_page_that_does_not_answer_says_nothing_of_its_variant() -> None:
    [found] = index_of("torchvision", VERSION, KNOWN[1:], silent=KNOWN[:1])
    assert found.found == f"the index does not answer for {KNOWN[0]}" and found.edit is None


def test_xformers_is_held_against_its_own_rows() -> None:
    row = [row for row in TABLES.rows("third-party", "index") if row["package"] == "xformers"][-1]
    assert index_of("xformers", row["to"], row["variants"].split()) == []
    [found] = index_of("xformers", row["to"], ["cu126"])
    assert found.table == "third-party" and found.found == "cu126"


def test_the_flag_compares_and_writes_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(refresh_tables, "pip_settings", registry.Settings)
    with serving(Index({one.name: b"" for one in recorded("torchtext") if "0.17.2-cp310" not in one.name})) as index:
        assert refresh_tables.main(["torchtext", "--files", "--index-url", index.url]) == 0
    out = capsys.readouterr().out
    assert "torchtext 0.17.2, Pythons on linux-x86_64" in out and "not written: please decide" in out
