"""Documents of version 1 that were recorded once: each later version reads them, and still writes all that stands in them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from v1_documents import COMMANDS, FOLDER, make, recordings

from envcheck.cli import main
from envcheck.commands.schema import schema
from envcheck.facts.recorded import parse_snapshot
from envcheck.render.json_v1 import render_record

DOCUMENTS = {name: (FOLDER / f"{name}.json").read_text(encoding="utf-8") for name in COMMANDS}
MACHINES = {name: DOCUMENTS[name] for name in recordings()}
FACTS = [name for name, text in DOCUMENTS.items() if "facts" in json.loads(text) and name != "compare"]
VERDICTS = {
    "healthy": ("pass", []),
    "broken": ("fail", ["driver-too-old", "torch-companion-mismatch"]),
    "hang": ("fail", ["live-hang"]),
    "static": ("pass", []),
}


def kind(name: str) -> str:
    return next((one for one in ("record", "plan", "compare", "fleet") if name.startswith(one)), "report")


def lost(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Keys that are gone, and values of another type. What is null or empty says nothing of the type; the schema says where it may be."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            yield from lost(value, new[key], f"{path}.{key}") if key in new else [f"{path}.{key} is gone"]
    elif isinstance(old, list) and isinstance(new, list):
        if old and new:
            for number, value in enumerate(old):
                yield from min((list(lost(value, one, f"{path}.{number}")) for one in new), key=len)
    elif old is not None and new is not None and json_type(old) != json_type(new):
        yield f"{path} was {json_type(old)} and is {json_type(new)}"


def json_type(value: Any) -> str:
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


@pytest.mark.parametrize("name", COMMANDS)
def test_a_recorded_document_is_valid(name: str) -> None:
    jsonschema.Draft202012Validator(schema(kind(name))).validate(json.loads(DOCUMENTS[name]))


@pytest.mark.parametrize("name", COMMANDS)
def test_all_that_it_holds_is_still_written(name: str, tmp_path: Path) -> None:
    made = make(name, tmp_path, MACHINES)
    document = json.loads(made)
    jsonschema.Draft202012Validator(schema(kind(name))).validate(document)
    assert list(lost(json.loads(DOCUMENTS[name]), document)) == []


@pytest.mark.parametrize("name", FACTS)
def test_its_facts_are_read_without_loss(name: str) -> None:
    """Every fact comes back with the same value: nothing that was recorded is dropped or read as something else."""
    old = json.loads(DOCUMENTS[name])
    new = json.loads(render_record(parse_snapshot(DOCUMENTS[name], name), "envcheck", "0.1.0"))
    for part in ("facts", "live"):
        assert without_new_keys(new[part], old[part]) == old[part]


def without_new_keys(new: Any, old: Any) -> Any:
    if isinstance(new, dict) and isinstance(old, dict):
        return {key: without_new_keys(value, old[key]) for key, value in new.items() if key in old}
    if isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        return [without_new_keys(one, other) for one, other in zip(new, old, strict=True)]
    return new


@pytest.mark.parametrize("name", VERDICTS)
def test_it_is_judged_as_it_was(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    verdict, rules = VERDICTS[name]
    code = main(["--facts", str(FOLDER / f"{name}.json"), "--json"])
    report = json.loads(capsys.readouterr().out)
    assert (code, report["verdict"]) == (int(verdict == "fail"), verdict)
    assert [one["rule"] for one in report["findings"]] == rules


@pytest.mark.parametrize("name", FACTS)
def test_compare_reads_it(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(FOLDER / f"{name}.json")
    assert main(["compare", file, file]) == 0 and capsys.readouterr().out == "the same facts, the same verdicts\n"
    other = "broken" if name in ("healthy", "record-healthy", "run") else "healthy"
    assert main(["compare", file, str(FOLDER / f"{other}.json")]) == 1 and "facts differ" in capsys.readouterr().out


@pytest.mark.parametrize("name", [one for one, text in DOCUMENTS.items() if "findings" in json.loads(text)])
def test_diagnose_reads_what_it_found(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    found: Mapping[str, Any] = json.loads(DOCUMENTS[name])
    main(["diagnose", str(FOLDER / f"{name}.json"), "--json"])
    again = json.loads(capsys.readouterr().out)
    assert {one["rule"] for one in found["findings"]} <= {one["rule"] for one in again["findings"]}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ({"a": {"b": 1}}, {"a": {}}, [".a.b is gone"]),
        ({"a": 1}, {"a": "1"}, [".a was number and is str"]),
        ({"a": [{"b": 1}]}, {"a": [{"c": 1}]}, [".a.0.b is gone"]),
        ({"a": [{"b": 1}, {"c": 1}]}, {"a": [{"c": 2}, {"b": 2.5, "d": 0}]}, []),
        ({"a": True}, {"a": 1}, [".a was bool and is number"]),
    ],
)
def test_what_counts_as_lost(old: Any, new: Any, words: list[str]) -> None:
    assert list(lost(old, new)) == words
