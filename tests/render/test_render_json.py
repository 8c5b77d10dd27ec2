from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_samples import SAMPLES, driver_old, healthy, hostile, machine, mixed

import envcheck
from envcheck.errors import UsageError
from envcheck.facts import recorded
from envcheck.facts.record import replace
from envcheck.facts.recorded import OF_TEXTS, RECORDED, load_snapshot, parse_snapshot
from envcheck.facts.snapshot import Snapshot
from envcheck.render.json_v1 import render, render_record
from envcheck.report.report import finish

SCHEMA = json.loads((Path(envcheck.__file__).parent / "schema" / "report-v1.json").read_text())
REPORT = jsonschema.Draft202012Validator(SCHEMA)
RECORD = jsonschema.Draft202012Validator({**SCHEMA["$defs"]["record"], "$defs": SCHEMA["$defs"]})


def loaded(text: str) -> Any:
    """JSON as a strict parser takes it: no NaN, no key twice."""

    def pairs(rows: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len({key for key, _ in rows}) == len(rows)
        return dict(rows)

    def refuse(word: str) -> None:
        raise AssertionError(word)

    return json.loads(text, object_pairs_hook=pairs, parse_constant=refuse)


def test_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    facts = SCHEMA["$defs"]["facts"]
    assert set(facts["required"]) == set(RECORDED)
    assert set(facts["properties"]) == {*RECORDED, *OF_TEXTS}


@pytest.mark.parametrize("name", SAMPLES)
def test_reports_validate(name: str) -> None:
    if name == "hostile":  # its driver version is no version
        return
    REPORT.validate(loaded(render(SAMPLES[name]())))
    RECORD.validate(loaded(render(SAMPLES[name]())))


@pytest.mark.parametrize("name", ["cpu", "driver-old", "mixed"])
def test_golden(name: str, golden: Callable[[str, str], None]) -> None:
    document = loaded(render(SAMPLES[name]()))
    # the facts are those of rules/bases, which grow: here only what is read and what is missing
    document["facts"] = {section: value if "missing" in value else "{facts}" for section, value in document["facts"].items()}
    golden(f"json/{name}.json", json.dumps(document, indent=2) + "\n")


@pytest.mark.parametrize("name", SAMPLES)
def test_ascii_and_one_document(name: str) -> None:
    text = render(SAMPLES[name]())
    assert text.isascii() and text.endswith("}\n")
    document = loaded(text)
    assert list(document)[:5] == ["schema", "tool", "config", "verdict", "exit_code"]
    assert list(document["facts"]) == list(RECORDED)
    # no half of a surrogate pair, which stricter parsers refuse
    json.dumps(document, ensure_ascii=False).encode("utf-8")


@pytest.mark.parametrize("name", [name for name in SAMPLES if name != "hostile"])
def test_snapshot_comes_back(name: str) -> None:
    report = SAMPLES[name]()
    assert parse_snapshot(render(report), "x") == report.snapshot
    assert parse_snapshot(render_record(report.snapshot, report.name, report.version), "x") == report.snapshot


def test_symptoms_come_back() -> None:
    matches = {"matches": [{"source": "rank 0", "text": "Duplicate GPU", "rule": "nccl-duplicate-gpu"}]}
    snapshot = machine("cpu", {"symptoms": matches})
    text = render(finish((), (), snapshot))
    assert parse_snapshot(text, "x") == snapshot
    REPORT.validate(loaded(text))


def test_same_facts_same_bytes_but_for_timings() -> None:
    one = finish((), (), machine("h100x8"), timings={"total": 1.0})
    two = finish((), (), machine("h100x8"), timings={"total": 2.0})
    first, second = loaded(render(one)), loaded(render(two))
    assert first.pop("timings") != second.pop("timings")
    assert json.dumps(first) == json.dumps(second)
    assert render(one) == render(finish((), (), machine("h100x8"), timings={"total": 1.0}))


def test_missing_live_keeps_its_shape() -> None:
    skipped = loaded(render(SAMPLES["static"]()))["live"]
    assert (skipped["status"], skipped["reason"], skipped["ranks"], skipped["missing"]) == ("skipped", "--static", [], "skipped")
    failed = loaded(render(SAMPLES["cannot-tell"]()))["live"]
    assert (failed["status"], failed["missing"]) == ("inconclusive", "failed")
    assert set(loaded(render(healthy("cpu")))["live"]) <= set(skipped)


def test_contract_of_a_finding() -> None:
    [one] = loaded(render(driver_old()))["findings"]
    assert {"rule", "family", "severity", "confidence", "title", "message", "evidence", "fixes", "docs"} <= set(one)
    fix = one["fixes"][0]
    assert {"title", "who", "kind", "commands", "text", "proved", "note"} <= set(fix)
    assert fix["commands"]["conda"] == [] and fix["no_command"]["conda"]
    assert "pip install" in fix["commands"]["pip"][0]
    [way] = loaded(render(driver_old()))["plan"]["ways"]
    assert way["changes"] == ["torch 2.15.0+cu132 -> 2.15.0+cu126"]


def test_no_secret_in_the_facts() -> None:
    snapshot = machine(
        "cpu",
        {
            "python.index_url": "https://ann:pa55word@mirror.example/simple",
            "python.variables.UV_INDEX_PASSWORD": "pa55word",
            "python.variables.TOKENIZERS_PARALLELISM": "false",
            "network.variables.NCCL_HF": "hf_abcdefghijklmnopqrstuvwxyz012345",
        },
    )
    text = render(finish((), (), snapshot))
    assert "pa55word" not in text and "hf_abc" not in text
    facts = loaded(text)["facts"]
    assert facts["python"]["variables"]["TOKENIZERS_PARALLELISM"] == "false"
    assert facts["python"]["index_url"] == "https://[secret]@mirror.example/simple"


def test_numbers_that_json_has_not() -> None:
    sound = machine("cpu")
    system = replace(sound.system, uptime_seconds=float("nan"), cpu_limit=float("inf"))  # type: ignore[type-var]
    text = render(finish((), (), replace(sound, system=system)))
    assert loaded(text)["facts"]["system"]["uptime_seconds"] is None


def put(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        node: Any = document
        for part in way:
            node = node[part]
        if value is None and not isinstance(last, int):
            del node[last]
        else:
            node[last] = value

    return change


WRONG = [
    ("schema", 2), ("schema", None), ("tool.name", "other"), ("tool", None), ("verdict", "ok"), ("exit_code", 2), ("exit_code", 0.5),
    ("verdict", "pass"), ("findings", []), ("findings.0.severity", "fatal"), ("findings.0.confidence", "sure"),
    ("findings.0.rule", "Not An Id"),
    ("findings.0.title", ""), ("findings.0.evidence.0", "text"), ("findings.0.evidence.0.source", None), ("findings.0.fixes.0.who", "root"),
    ("findings.0.fixes.0.kind", "magic"), ("findings.0.fixes.0.commands.pip", "pip install x"), ("findings.0.fixes.0.commands.uv", None),
    ("findings.0.fixes.0.proved", "yes"), ("findings.0.docs", ["ftp://x"]), ("unknown.0", "x"), ("counts.ok", -1), ("facts.driver", None),
    ("facts.driver", []), ("facts.driver.version", 535), ("facts.driver.cuda", "twelve"), ("facts.driver.smi.status", "fine"),
    ("facts.torch.import_seconds", -1), ("facts.torch.import_seconds", None), ("facts.torch.import_status", "done"),
    ("facts.torch", {"missing": "gone"}),
    ("facts.container.missing", "never"), ("facts.gpus.devices.0.index", -1), ("facts.gpus.devices.0.compute_capability", "sm_90"),
    ("facts.devices.devices.0.kernel", "maybe"), ("facts.backends.nccl", "yes"), ("facts.system.cpu_count", 0), ("live.status", "green"),
    ("live.ranks.0.stages.0.seconds", "1"), ("live.ranks.0.stages.0.status", "meh"), ("live.ranks.0.pid", "x"),
    ("live.arms.0.world_size", 0),
    ("live.start_method", "thread"), ("live.ranks", None), ("plan.ways", None), ("plan.excluded", [{"what": "x"}]), ("assumed", [1]),
    ("timings.total", -1), ("timings", None), ("live.missing", "absent"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value"), WRONG)
def test_wrong_reports_do_not_validate(path: str, value: Any) -> None:
    document = loaded(render(mixed()))
    changed = copy.deepcopy(document)
    put(path, value)(changed)
    assert not REPORT.is_valid(changed), path


def test_newer_keys_are_allowed() -> None:
    document = loaded(render(mixed()))
    document["new"] = document["facts"]["torch"]["new"] = document["findings"][0]["new"] = 1
    document["facts"]["quantum"] = {"qubits": 3}
    REPORT.validate(document)
    assert parse_snapshot(json.dumps(document), "x") == mixed().snapshot


def test_load_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "node.json"
    path.write_text("\ufeff" + render(mixed()), encoding="utf-8")
    assert load_snapshot(str(path)) == mixed().snapshot


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not JSON"),
        (b"hello", "not JSON"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"[1]", "no `schema`"),
        (b"{}", "no `schema`"),
        (b'{"driver": "535"}', "diagnose"),
        (b'{"schema": 2, "facts": {}}', "version 2 of the report; this envcheck reads version 1"),
        (b'{"schema": true, "facts": {}}', "version True"),
        (b'{"schema": "1\\n2", "facts": {}}', "version '1\\n2'"),
        (b'{"schema": 1}', "no `facts`"),
        (b'{"schema": 1, "facts": {"driver": {"version": 5}}}', "driver.version: str was expected"),
        (b'{"schema": 1, "facts": {"driver": 5}}', "driver: a table was expected"),
        (b'{"schema": 1, "facts": {"driver": {"missing": "gone"}}}', "driver.missing"),
        (b'{"schema": 1, "facts": {}, "live": {"status": "green"}}', "live.status"),
        (b'{"schema": 1, "facts": {}, "live": []}', "live"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"schema": 1, "facts": {"torch": {"import_seconds": ' + b"9" * 5000 + b"}}}", ""),
    ],
)
def test_bad_facts_file_is_one_line(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "facts.json"
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        load_snapshot(str(path))
    message = str(caught.value)
    assert words in message and str(path) in message
    assert "\n" not in message and message.isprintable() and len(message) < 600


def test_facts_file_that_is_no_file(tmp_path: Path) -> None:
    for path, words in (
        (tmp_path, "not a file"),
        (tmp_path / "none", "No such file"),
        ("a\0b", "not a name of a file"),
        ("/dev/zero", "not a file"),
    ):
        with pytest.raises(UsageError, match=words):
            load_snapshot(str(path))


def test_facts_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "big.json"
    with path.open("wb") as file:
        file.truncate(500 << 20)  # sparse
    with pytest.raises(UsageError, match="larger than 32 MiB"):
        load_snapshot(str(path))
    path.write_text('{"schema": 1, "facts": {"packages": {"distributions": [' + "{}," * 20_000 + "{}]}}}")
    with pytest.raises(UsageError, match="a list of more than 20000 entries"):
        load_snapshot(str(path))
    monkeypatch.setattr(recorded, "FACTS_LIMIT_BYTES", 10)
    path.write_text(render(mixed()))
    with pytest.raises(UsageError, match="larger than 0 MiB"):
        load_snapshot(str(path))


@given(st.text() | st.dictionaries(st.text(), st.none() | st.integers() | st.text()).map(json.dumps))
def test_parse_raises_nothing_else(text: str) -> None:
    with pytest.raises(UsageError):
        parse_snapshot(text, "x")


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(RECORDED), _VALUES)
def test_any_section_is_read_or_refused(section: str, value: Any) -> None:
    try:
        assert isinstance(parse_snapshot(json.dumps({"schema": 1, "facts": {section: value}}), "x"), Snapshot)
    except UsageError as error:
        assert "\n" not in str(error)


def test_hostile_text_stays_one_document() -> None:
    document = loaded(render(hostile()))
    assert "\\udcff" in document["findings"][0]["message"]
