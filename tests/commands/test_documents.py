"""-o: several documents of one run, formats by the names of files, what each command writes, and no names where they are to be left out."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from report_samples import machine

from envcheck.cli import main
from envcheck.commands.schema import schema
from envcheck.errors import UsageError
from envcheck.options import parse
from envcheck.render.json_v1 import render_record

RECORDED = Path(__file__).parents[1] / "documents" / "v1"
BROKEN, HEALTHY = str(RECORDED / "broken.json"), str(RECORDED / "healthy.json")
CHECK = ("--facts", BROKEN)
PLAN = ("plan", "torch==2.9.*", "--for", "h100", "--driver", "570.124", "--python", "3.12")
COMPARE = ("compare", HEALTHY, BROKEN)
BEGIN = {
    "text": ("envcheck ", "for gpu", "cuda_driver.device_count: 8"), "json": ("{",), "html": ("<!doctype html>",),
    "markdown": ("### envcheck",), "junit": ("<?xml",), "sarif": ("{",),
}  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def kind(text: str) -> str:
    if text.startswith("{"):
        return "sarif" if "sarif" in text[:200] else "json"
    return next(form for form, begins in BEGIN.items() if text.startswith(begins))


@pytest.mark.parametrize(
    ("words", "files", "printed"),
    [
        ((*CHECK, "-o", "a.html"), {"a.html": "html"}, None),
        ((*CHECK, "-o", "a.JSON"), {"a.JSON": "json"}, None),
        ((*CHECK, "-o", "a.sarif", "-o", "a.md", "-o", "a.xml"), {"a.sarif": "sarif", "a.md": "markdown", "a.xml": "junit"}, None),
        ((*CHECK, "-o", "a.txt", "-o", "b.html"), {"a.txt": "text", "b.html": "html"}, None),
        ((*CHECK, "--format", "json", "-o", "a.html"), {"a.html": "json"}, None),
        ((*CHECK, "--json", "-o", "a.html", "-o", "text=b"), {"a.html": "json", "b": "text"}, None),
        ((*CHECK, "-o", "html=a", "-o", "json=b"), {"a": "html", "b": "json"}, "text"),
        ((*CHECK, "-o", "json=-", "-o", "a.html"), {"a.html": "html"}, "json"),
        ((*CHECK, "-o", "a.html", "-o", "json=-"), {"a.html": "html"}, "json"),
        ((*CHECK, "-o", "-", "-o", "junit=a"), {"a": "junit"}, "text"),
        ((*PLAN, "-o", "a.html", "-o", "json=b"), {"a.html": "html", "b": "json"}, None),
        ((*PLAN, "-o", "json=-", "-o", "a.html"), {"a.html": "html"}, "json"),
        ((*PLAN, "-o", "a.xml"), {"a.xml": "text"}, None),
        ((*COMPARE, "-o", "a.html", "-o", "json=-"), {"a.html": "html"}, "json"),
        ((*COMPARE, "--format", "html"), {}, "html"),
        (COMPARE, {}, "text"),
    ],
)
def test_what_stands_where(
    words: tuple[str, ...], files: dict[str, str], printed: str | None, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(list(words))
    out = capsys.readouterr().out
    assert {path.name: kind(path.read_text()) for path in here.iterdir()} == files
    assert out == "" if printed is None else kind(out) == printed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*CHECK, "-o", "a", "-o", "b"), "-o b: a second file needs its format"),
        ((*CHECK, "--format", "html", "-o", "json=-"), "-o json=- and --format html contradict each other"),
        ((*CHECK, "-o", "jsn=a"), "-o jsn=a: jsn is no format; did you mean json"),
        ((*CHECK, "-o", "html="), "-o html=: no file is named"),
        ((*COMPARE, "-o", "sarif=a"), "`envcheck compare` writes one of text, json, html"),
        ((*PLAN, "--json", "--format", "html"), "--json and --format html contradict each other"),
    ],
)
def test_what_cannot_be_meant(words: tuple[str, ...], said: str, here: Path) -> None:
    with pytest.raises(UsageError, match=said.replace("`", ".")):
        parse(words)


def test_settings_for_reports_do_not_disturb_other_documents(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file sets `format` and `output` for all commands; each takes what it writes."""
    (here / "envcheck.toml").write_text('format = "github"\noutput = ["junit=report.xml", "html=page"]\n')
    main(list(CHECK))
    assert capsys.readouterr().out.startswith("::error") and {path.name for path in here.iterdir()} == {
        "envcheck.toml",
        "report.xml",
        "page",
    }
    assert kind((here / "report.xml").read_text()) == "junit"
    (here / "report.xml").unlink()
    assert main(list(PLAN)) == 0 and kind(capsys.readouterr().out) == "text"
    assert "plan:" in (here / "page").read_text() and not (here / "report.xml").exists()
    assert parse(["record"]).output is None and parse(["compare", "a", "b"]).documents == [("html", "page")]
    (here / "envcheck.toml").write_text('format = "yaml"\n')
    with pytest.raises(UsageError, match="format = 'yaml': one of text, json"):
        parse(["plan"])


def recorded(here: Path, name: str, host: str, home: str) -> str:
    changes = {"network.hostname": host, "python.executable": f"{home}/venv/bin/python", "gpus.devices.0.uuid": f"GPU-{'0' * 8}-1-2-3-4"}
    (here / name).write_text(render_record(machine("h100x8", changes), "envcheck", "0.1.0"))
    return name


@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_a_plan_and_a_comparison_without_names(form: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = recorded(here, "a.json", "gpu-box-7", "/home/ada"), recorded(here, "b.json", "x1", "/home/grace")
    for words in (("compare", first, second), ("plan", "torch==2.9.*", "--facts", first)):
        main([*words, "--format", form])
        told = capsys.readouterr().out
        main([*words, "--format", form, "--redact"])
        clean = capsys.readouterr().out
        assert any(one in told for one in ("gpu-box-7", "/home/ada"))
        for name in ("gpu-box-7", "ada", "grace", '"x1"', ">x1<"):
            assert name not in clean.replace("cuda", ""), name
        assert kind(clean) == form if form != "text" else True
    assert "/venv/bin/python" in clean


def test_a_redacted_comparison_is_still_one(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = recorded(here, "a.json", "x1", "/home/ada"), recorded(here, "b.json", "x2", "/home/ada")
    assert main(["compare", first, second, "--json", "--redact"]) == 1
    document = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(schema("compare")).validate(document)
    assert document["facts"] == [{"fact": "network.hostname", "before": "[host]", "after": "[host]"}]
