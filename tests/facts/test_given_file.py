"""What stands in the place of a file on a command line: pipes, FIFOs, devices."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from envcheck.errors import UsageError
from envcheck.facts.given_file import open_given, read_given

ENVCHECK = [sys.executable, "-m", "envcheck"]


def test_a_plain_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * 3_000_000)
    assert read_given(str(path), "-r", 3_000_000) == b"x" * 3_000_000
    with pytest.raises(UsageError, match=r"^-r .*a: larger than 2 MiB$"):
        read_given(str(path), "-r", 2_999_999)


def test_a_fifo_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)

    def write() -> None:
        with path.open("wb") as file:
            for _ in range(300):  # more than a pipe holds
                file.write(b"y" * 1000)
                file.flush()

    writer = threading.Thread(target=write)
    writer.start()
    assert read_given(str(path), "--facts", 1 << 20) == b"y" * 300_000
    writer.join()
    writer = threading.Thread(target=write)
    writer.start()
    with open_given(str(path)) as file:
        assert file.read() == b"y" * 300_000
    writer.join()


@pytest.mark.parametrize("opened", [False, True])
def test_a_fifo_to_which_nobody_writes(tmp_path: Path, opened: bool) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    other = os.open(path, os.O_RDWR) if opened else None
    try:
        with pytest.raises(UsageError, match=r"^--facts .*fifo: nobody has written to it for 0.2 s$"):
            read_given(str(path), "--facts", 10, patience=0.2)
        with pytest.raises(UsageError, match=r"^/.*fifo: nobody has written to it for 0.2 s$"):
            open_given(str(path), patience=0.2)
    finally:
        if other is not None:
            os.close(other)


def test_a_fifo_whose_writer_falls_silent(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    other = os.open(path, os.O_RDWR)
    os.write(other, b"hello\n")
    try:
        with open_given(str(path), patience=0.2) as file:
            assert file.read(3) == b"hel"
            with pytest.raises(UsageError, match=r"^/.*fifo: nobody has written to it for 0.2 s$"):
                file.read()
    finally:
        os.close(other)


def test_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path, words in (
        (str(tmp_path), "not a file"), ("/dev/zero", "not a file"), (str(tmp_path / "loop"), "symbolic links"), ("a\0", "not a name"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=words):
            read_given(path, "--facts", 10)


def test_a_record_through_a_pipe_is_the_same_report(tmp_path: Path) -> None:
    """`--facts <(ssh node envcheck record)` and `… | envcheck --facts /dev/stdin`."""
    record = tmp_path / "a.json"
    record.write_text(json.dumps({"schema": 1, "facts": {"torch": {"version": "2.9.0", "cpu_build": True}}}))
    command = [*ENVCHECK, "diagnose", "--json", "--facts"]
    plain = subprocess.run([*command, str(record)], capture_output=True, text=True, check=False)
    piped = subprocess.run([*command, "/dev/stdin"], capture_output=True, text=True, input=record.read_text(), check=False)
    shell = subprocess.run(
        ["bash", "-c", '"$@" <(cat "$RECORD")', "bash", *command],
        capture_output=True, text=True, check=False, env={**os.environ, "RECORD": str(record)},
    )  # fmt: skip
    expected = json.loads(plain.stdout)
    for other in (piped, shell):
        assert (other.returncode, other.stderr) == (plain.returncode, "")
        found = json.loads(other.stdout)
        assert found["facts"] == expected["facts"] and found["findings"] == expected["findings"]


def test_observations_that_are_nested_without_end(tmp_path: Path) -> None:
    deep = tmp_path / "deep.json"
    deep.write_text('{"env": ' + "[" * 900 + "]" * 900 + "}")
    ended = subprocess.run([*ENVCHECK, "diagnose", "--facts", str(deep)], capture_output=True, text=True, check=False)
    assert ended.returncode == 2 and ended.stderr.count("\n") == 1 and "nested too deeply" in ended.stderr, ended.stderr


@pytest.mark.skipif(not os.access("/proc/kmsg", os.R_OK), reason="needs root on Linux")
@pytest.mark.parametrize(
    "words", [["diagnose", "{}"], ["compare", "{}", "{}"], ["--facts", "{}"], ["plan", "-r", "{}"], ["--config", "{}"]]
)
def test_a_plain_file_that_waits_for_more(tmp_path: Path, words: list[str]) -> None:
    """By its mode /proc/kmsg is one. Somebody's link leads there."""
    (tmp_path / "log.txt").symlink_to("/proc/kmsg")
    line = [sys.executable, "-m", "envcheck", *(one.format(tmp_path / "log.txt") for one in words)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "Resource temporarily unavailable" in done.stderr, done.stderr
