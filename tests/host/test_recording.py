"""`envcheck record --host`: a machine in a file, and the same machine played from it."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envcheck.collect import host_jobs, settle
from envcheck.commands.diagnose import load_facts
from envcheck.facts.codec import encode
from envcheck.facts.snapshot import Snapshot
from envcheck.host.access import Host, RealHost
from envcheck.host.recording import QUESTIONS, RecordingHost, ReplayHost
from envcheck.report.session import rule_session
from envcheck.target.process import Budget

METHODS = {name: value for name, value in vars(Host).items() if inspect.isfunction(value) and not name.startswith("_")}


def test_every_question_of_a_host_has_its_row() -> None:
    assert list(QUESTIONS) == list(METHODS)


@pytest.mark.parametrize("name", QUESTIONS)
def test_rows_take_the_arguments_of_their_question(name: str) -> None:
    """Where nothing is kept there is an answer all the same, and keeping it gives it again."""
    values: dict[str, Any] = {"path": "/x", "mode": "r", "name": "x", "argv": ("x", "-y"), "program": "x", "pid": "1", "names": ("A", "B"),
                              "address": "127.0.0.1", "size": 1, "timeout": 1.0}  # fmt: skip
    parameters = [one for one in list(inspect.signature(METHODS[name]).parameters.values())[1:] if one.default is one.empty]
    positional = [values[one.name] for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    keywords = {one.name: values[one.name] for one in parameters if one.kind is one.KEYWORD_ONLY}
    nothing = getattr(ReplayHost({}), name)(*positional, **keywords)
    recording = RecordingHost(ReplayHost({}))
    assert getattr(recording, name)(*positional, **keywords) == nothing
    assert len(recording.answers) == 1
    kept = json.loads(json.dumps(recording.answers))
    assert getattr(ReplayHost(kept), name)(*positional, **keywords) == nothing


def test_no_other_question() -> None:
    for host in (ReplayHost({}), RecordingHost(ReplayHost({}))):
        with pytest.raises(AttributeError):
            host.unlink("/x")


def record(tmp_path: Path, **env: str) -> tuple[Path, Path, subprocess.CompletedProcess[str]]:
    host, snapshot = tmp_path / "host.json", tmp_path / "snapshot.json"
    argv = [sys.executable, "-m", "envcheck", "record", "--static", "--host", str(host), "-o", str(snapshot)]
    return host, snapshot, subprocess.run(argv, env={**os.environ, **env}, capture_output=True, text=True, timeout=120)


def test_this_machine_through_the_command(tmp_path: Path) -> None:
    """What the probes find on the recording is what the snapshot of the same run says."""
    path, snapshot, done = record(tmp_path, NCCL_DEBUG="INFO", OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="1")
    assert (done.returncode, done.stderr) == (0, "")
    host = ReplayHost.load(path)
    found: dict[str, Any] = {}
    for job in host_jobs(Budget()):
        value = job.run(host)
        found |= dict(zip(job.sections, value if len(job.sections) > 1 else (value,), strict=True))
    by = rule_session()
    before = load_facts(str(snapshot), by)
    kept = {name: getattr(before, name) for name in ("python", "packages", "torch", "live", "devices")}
    again = settle(Snapshot(**{**kept, **found}), by)
    assert len(found) == 13
    for name in found:
        assert encode(getattr(again, name)) == encode(getattr(before, name)), name
    assert again.network.variables["NCCL_DEBUG"] == "INFO" and again.launcher.rank == 0  # type: ignore[union-attr]


def test_a_recording_holds_no_secret_and_no_variable_that_nobody_asked_for(tmp_path: Path) -> None:
    path, _, done = record(tmp_path, HTTPS_PROXY="http://me:hunter2@proxy:3128", AWS_SECRET_ACCESS_KEY="hunter2", DIARY="dear me", CC="gcc")
    assert done.returncode == 0
    text = path.read_text(encoding="utf-8")
    assert "hunter2" not in text and "DIARY" not in text and "dear me" not in text
    assert json.loads(text)["env"]["CC"] == "gcc"


def test_secrets_in_answers_and_variables_are_masked() -> None:
    text = "index-url = https://me:hunter2@mirror/simple\nexport HF_TOKEN=hunter2hunter2\n"
    recording = RecordingHost(ReplayHost({"read /etc/x": text}, {"CUDA_HOME": "/opt/cuda", "NCCL_AUTH": "hunter2"}))
    assert recording.read("/etc/x") == text and recording.env["NCCL_AUTH"] == "hunter2", "the probes see them"
    recording.env.get("CUDA_HOME")
    written = json.loads(recording.rendered())
    assert "hunter2" not in json.dumps(written) and "mirror/simple" in written["answers"]["read /etc/x"]
    assert written["env"] == {"CUDA_HOME": "/opt/cuda", "NCCL_AUTH": "[secret]"}


def test_of_another_process_only_what_is_asked_for() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"RANK": "3", "DIARY": "dear me"}) as process:
        assert process.stdin and process.stdout
        try:
            process.stdin.write(b"\n")
            process.stdin.flush()
            process.stdout.read(1)  # it runs: until the kernel has set a program up, its variables are empty
            recording = RecordingHost(RealHost())
            assert recording.variables_of(str(process.pid), ("RANK", "WORLD_SIZE")) == {"RANK": "3"}
            assert recording.answers == {f"variables_of {process.pid} RANK WORLD_SIZE": {"RANK": "3"}}
        finally:
            process.kill()


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "envcheck", "record", "--static", "--host", str(tmp_path / "none" / "host.json")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and f"--host {tmp_path / 'none' / 'host.json'}: cannot be written" in done.stderr
