"""What `envcheck diagnose` reads: files that are told apart, folders of logs within bounds, and a terminal that is told what to do."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from patients import SOON

from envcheck.cli import main
from envcheck.commands import inputs
from envcheck.commands.inputs import named
from envcheck.errors import UsageError

KERNEL = "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
LIBRARY = "ImportError: libcudnn.so.8: cannot open shared object file: No such file or directory\n"


def write(folder: Path, *files: str, text: str = "x\n") -> None:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.parametrize(("terminal", "told"), [(True, True), (False, False)])
def test_a_terminal_is_told_what_is_waited_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, terminal: bool, told: bool
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(KERNEL.encode()), isatty=lambda: terminal))
    assert main(["diagnose", "--json"]) in (1, 3)
    printed = capsys.readouterr()
    assert ("Ctrl-D" in printed.err) is told
    assert json.loads(printed.out)["findings"], "stdout stays data"


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_one_end_of_file_at_a_terminal_is_enough() -> None:
    """A terminal's end is no state: whoever reads on after it waits for the next."""
    import pty

    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "envcheck", "diagnose"]
    with subprocess.Popen(command, stdin=follower, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        os.write(leader, KERNEL.encode() + b"\x04")
        try:
            out, err = process.communicate(timeout=SOON)
        except subprocess.TimeoutExpired:
            process.kill()
            pytest.fail("it goes on waiting after Ctrl-D")
    os.close(leader)
    os.close(follower)
    assert "gpu-too-new-for-torch" in out and "Ctrl-D on a line of its own ends it" in err


def test_a_closed_stdin_is_a_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert main(["diagnose"]) == 2
    assert "stdin is closed; name a file" in capsys.readouterr().err


def test_a_file_is_read_without_a_word(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b""), isatty=lambda: True))
    write(tmp_path, "a.log", text=KERNEL)
    main(["diagnose", str(tmp_path / "a.log")])
    assert "Ctrl-D" not in capsys.readouterr().err


def test_a_folder_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "rank0/stderr.log", text=LIBRARY)
    write(tmp_path, "rank1/stderr.log", text=KERNEL)
    write(tmp_path, "model.bin", ".git/logs/HEAD.log", "venv/lib/error.log", text=LIBRARY)
    main(["diagnose", "--json", str(tmp_path)])
    document = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in document["read"]["files"]] == ["rank0/stderr.log", "rank1/stderr.log"]
    by_rule = {one["rule"]: {each["source"] for each in one["evidence"]} for one in document["findings"]}
    assert by_rule["missing-library"] == {"rank0/stderr.log"}


def test_a_folder_without_a_log_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "model.bin")
    assert main(["diagnose", str(tmp_path)]) == 2
    assert "no log or report in this folder" in capsys.readouterr().err


def test_what_of_a_folder_is_left_out_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "FILES", 3)
    write(tmp_path, *(f"rank{number}.log" for number in range(8)))
    files, left = named([str(tmp_path)])
    assert list(files.values()) == ["rank0.log", "rank1.log", "rank2.log"]
    assert left[str(tmp_path)].startswith("5 more were not read: 3 files")
    monkeypatch.setattr(inputs, "FILES", 100)
    monkeypatch.setattr(inputs, "BYTES", 5)
    assert len(named([str(tmp_path)])[0]) == 2
    monkeypatch.setattr(inputs, "SEEN", 1)
    assert len(named([str(tmp_path)])[0]) == 1


def test_links_pipes_and_deep_folders_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path, "a.log", "1/2/3/4/5/6/in.log", "1/2/3/4/5/6/7/deep.log")
    (tmp_path / "link.log").symlink_to(tmp_path / "a.log")
    (tmp_path / "loop").symlink_to(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.log")
    assert list(named([str(tmp_path)])[0].values()) == ["a.log", "in.log"]


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["x/a.log"], ["a.log"]),
        (["x/a.log", "y/b.log"], ["a.log", "b.log"]),
        (["x/a.log", "y/a.log"], ["x/a.log", "y/a.log"]),
        (["r0/x/a.log", "r1/x/a.log", "b.log"], ["r0/x/a.log", "r1/x/a.log", "b.log"]),
        (["a.log", "x/a.log"], ["a.log", "x/a.log"]),
        (["a.log", "a.log"], ["a.log"]),
        (["-", "a.log"], ["stdin", "a.log"]),
    ],
)
def test_files_are_told_apart_by_as_much_of_their_paths_as_that_takes(names: list[str], labels: list[str]) -> None:
    assert list(named(names)[0].values()) == labels


def test_a_name_that_is_not_there_is_still_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", "/nonexistent/a.log"]) == 2
    assert "/nonexistent/a.log" in capsys.readouterr().err
    with pytest.raises(UsageError):
        named(["/proc/self/fdinfo"])  # a folder without logs


def test_each_line_is_shown_once_and_ends_where_it_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "a.log", text=f"{LIBRARY}{LIBRARY}and here goes on what somebody says of it\n")
    main(["diagnose", "--json", str(tmp_path / "a.log")])
    [found] = json.loads(capsys.readouterr().out)["findings"]
    assert [one["text"] for one in found["evidence"]] == [LIBRARY.strip()]
