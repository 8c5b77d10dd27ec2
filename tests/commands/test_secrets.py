"""Secrets that are planted where a torch that cannot be imported prints them: in no output of any command."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from envcheck.render import FORMATS

MARKERS = ("Abc12345", "tok_987654", "Zecret77", "hunter33", "Pw123456", "AbCSig%3D", "ann.b@corp.example.com", "hf_AbCdEfGhIjKlMnOpQrSt")
SAID = (
    "password=Abc12345 Authorization: Bearer tok_987654 --password Zecret77 MY_PWD=hunter33 https://me:Pw123456@h.example/x"
    " https://a.example/c?sv=1&sig=AbCSig%3D by ann.b@corp.example.com with hf_AbCdEfGhIjKlMnOpQrSt"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("secrets")
    (folder / "here").mkdir()
    (folder / "here" / "torch.py").write_text(f"raise ImportError({SAID!r})\n")
    error = f"ImportError: libcudart.so.12: cannot open shared object file: No such file or directory {SAID}"
    (folder / "train.log").write_text(f"Traceback (most recent call last):\n{error}\n")
    return folder


def envcheck(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder / "here"), "PIP_INDEX_URL": "https://me:Pw123456@h.example/simple"}
    return subprocess.run(
        [sys.executable, "-m", "envcheck", *words], capture_output=True, text=True, check=False, env=environment, cwd=folder
    )


def found_in(text: str) -> list[str]:
    return [marker for marker in MARKERS if marker in text]


def test_the_markers_are_met(folder: Path) -> None:
    assert found_in((folder / "here" / "torch.py").read_text()) == list(MARKERS)


def test_a_check_in_every_format_and_the_evidence(folder: Path) -> None:
    documents = [word for form in FORMATS for word in ("-o", f"{form}={folder / form}")]
    ended = envcheck(folder, "--live", "off", "-v", "--evidence", str(folder / "kept"), *documents)
    assert ended.returncode == 1 and found_in(ended.stdout + ended.stderr) == []
    assert {form: found_in((folder / form).read_text()) for form in FORMATS} == {form: [] for form in FORMATS}
    assert "[secret]" in (folder / "json").read_text() and "[secret]" in (folder / "text").read_text()
    [archive] = (folder / "kept").iterdir()
    with tarfile.open(archive) as kept:
        texts = {one.name: kept.extractfile(one).read().decode() for one in kept.getmembers()}  # type: ignore[union-attr]
    assert {name: found_in(text) for name, text in texts.items() if found_in(text)} == {}
    assert "[secret]" in texts["envcheck-evidence/snapshot.json"]


@pytest.mark.parametrize("form", FORMATS)
def test_diagnose(folder: Path, form: str) -> None:
    ended = envcheck(folder, "diagnose", "train.log", "-v", "--format", form)
    assert ended.returncode == 1 and found_in(ended.stdout + ended.stderr) == []
    assert "missing-library" in ended.stdout


def test_record_and_plan(folder: Path) -> None:
    recorded = envcheck(folder, "record", "-o", "record.json", "--host", "host.json")
    assert recorded.returncode == 0, recorded.stderr
    assert found_in((folder / "record.json").read_text() + (folder / "host.json").read_text() + recorded.stdout) == []
    base = "https://me:Pw123456@h.example/whl"
    planned = envcheck(folder, "plan", "torch", "--for", "h100", "--driver", "580.95.05", "--python", "3.12", "--index-base", base)
    assert planned.returncode == 0 and "h.example/whl" in planned.stdout and found_in(planned.stdout) == []
