"""Secrets that are planted where a torch that cannot be imported prints them: in no output of any command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import threading
from pathlib import Path
from typing import Any

import pytest

from envcheck.commands import output
from envcheck.commands.output import put
from envcheck.commands.wish_files import save
from envcheck.errors import UsageError
from envcheck.facts.fleet import FleetTrial
from envcheck.fleet.kept import keep_evidence
from envcheck.fleet.seat import Seat
from envcheck.host.plain_files import make_folders
from envcheck.read.wish_file import WishFile
from envcheck.render import FORMATS

MARKERS = (
    "Abc12345",
    "tok_987654",
    "Zecret77",
    "hunter33",
    "Pw123456",
    "AbCSig%3D",
    "ann.b@corp.example.com",
    "hf_AbCdEfGhIjKlMnOpQrSt",
    "Jar5ed",
)
SAID = (
    "password=Abc12345 Authorization: Bearer tok_987654 --password Zecret77 MY_PWD=hunter33 https://me:Pw123456@h.example/x"
    " https://a.example/c?sv=1&sig=AbCSig%3D by ann.b@corp.example.com with hf_AbCdEfGhIjKlMnOpQrSt"
    "\n.h.example\tTRUE\t/\tTRUE\t1799999999\tsid\tJar5ed"  # known by its tabs, which JSON writes otherwise
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
        [sys.executable, "-m", "envcheck", *words], capture_output=True, text=True, check=False, env=environment, cwd=folder, umask=0o022
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


def test_what_holds_more_than_a_verdict_is_its_owners_alone(folder: Path) -> None:
    for path in (folder / "record.json", folder / "host.json"):
        path.unlink(missing_ok=True)
    envcheck(folder, "--static", *(word for form in FORMATS for word in ("-o", f"{form}={folder / f'mode.{form}'}")))
    envcheck(folder, "record", "-o", "record.json", "--host", "host.json")
    envcheck(folder, "--live", "off", "--evidence", "modes")
    written = [*folder.glob("mode.*"), folder / "record.json", folder / "host.json"]
    only_mine = {path.name: path.stat().st_mode & 0o077 == 0 for path in written}
    assert only_mine == {
        "mode.text": True, "mode.json": True, "mode.html": True, "record.json": True, "host.json": True,
        "mode.markdown": False, "mode.junit": False, "mode.github": False, "mode.sarif": False, "mode.termination": False,
    }  # fmt: skip
    envcheck(folder, "--static", "--redact", "-o", "json=redacted.json")
    assert (folder / "redacted.json").stat().st_mode & 0o044, "without names it is for everybody"
    [archive] = (folder / "modes").iterdir()
    assert archive.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("path", ["/dev/stderr", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/2"])
def test_a_log_that_a_stream_leads_to_keeps_what_it_held(tmp_path: Path, path: str) -> None:
    log = tmp_path / "log"
    log.write_text("kept\n")
    with log.open("a") as file:
        command = [sys.executable, "-m", "envcheck", "--static", "-o", f"json={path}"]
        subprocess.run(command, stdout=file, stderr=file, check=True, timeout=120)
        file.write("behind\n")
    text = log.read_text()
    assert text.startswith("kept\n") and text.endswith("behind\n") and '"schema": 1' in text


def test_a_planted_link_is_not_written_through(folder: Path) -> None:
    """As root in a folder of others `-o /scratch/report.json` would write over whatever the link names."""
    (folder / "precious").write_text("mine")
    (folder / "report.json").symlink_to("precious")
    (folder / "new.json").symlink_to("not-there-yet")
    for name, target in (("report.json", "precious"), ("new.json", "not-there-yet")):
        ended = envcheck(folder, "--static", "-o", f"json={name}")
        assert (ended.returncode, ended.stderr.count("\n")) == (2, 1) and f"a link to {folder / target}" in ended.stderr, ended.stderr
    assert (folder / "precious").read_text() == "mine" and not (folder / "not-there-yet").exists()
    assert '"schema": 1' in envcheck(folder, "--static", "-o", "json=/dev/stdout").stdout


def test_no_line_goes_to_stderr_with_a_value_that_was_not_masked() -> None:
    """What people type, and what other hosts say, stands in such lines too."""
    root = Path(__file__).parents[2] / "envcheck"
    bare = [
        f"{path.name}:{at}"
        for folder in ("commands", "fleet", "trial", "target")
        for path in root.joinpath(folder).rglob("*.py")
        for at, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if re.search(r"print\(f[\"'].*\{.*file=sys\.stderr", line) and "{stream.encoding}" not in line
    ]
    assert bare == []


@pytest.mark.parametrize(
    "words",
    [
        ("explain", 'wandb.login(key="Abc12345")'), ("run", "--", "MY_PWD=hunter33", "python"), ("--live", "password=Abc12345"),
        ("--facts", "https://me:Pw123456@h.example/x"), ("diagnose", "hf_AbCdEfGhIjKlMnOpQrSt"), ("--select=--password=Zecret77",),
        ("plan", "torch @ https://me:Pw123456@h.example/t.whl", "--for", "h100"), ("--hf-token=tok_987654",),
        ("--config", "MY_PWD=hunter33"), ("fleet", "--variables-only", "--master", "password=Abc12345"),
    ],
)  # fmt: skip
def test_what_is_typed_is_not_said_again(words: tuple[str, ...], tmp_path: Path) -> None:
    ended = envcheck(tmp_path, *words)
    assert found_in(ended.stdout + ended.stderr) == [] and ended.returncode in (0, 1, 2, 3, 127), ended.stderr
    assert "[secret]" in ended.stdout + ended.stderr


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can plant what is somebody else's")
def test_what_somebody_has_planted_is_not_written_to(folder: Path, tmp_path: Path) -> None:
    """In a folder where everybody may put something: a file that he can read, a link to a folder of ours, a pipe that nobody reads."""
    shared, ours = tmp_path / "shared", tmp_path / "ours"
    ours.mkdir()
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "report.json").write_text("theirs")
    (shared / "reports").symlink_to(ours)
    os.mkfifo(shared / "pipe.json")
    for path in shared.iterdir():
        os.lchown(path, 65534, 65534)
    for name in ("report.json", "reports/new.json", "pipe.json"):
        with pytest.raises(UsageError, match="anybody can write to"):
            put("x", str(shared / name))
    ended = envcheck(folder, "--static", "--evidence", str(shared / "reports"))
    assert ended.returncode == 2 and "anybody can write to" in ended.stderr
    assert (shared / "report.json").read_text() == "theirs" and not list(ours.iterdir())
    put("x", str(shared / "mine.json"))
    put("y", str(shared / "mine.json"))
    assert (shared / "mine.json").read_text() == "y"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can plant what is somebody else's")
@pytest.mark.parametrize("then", ["gone", "ours instead", "moved"])
def test_a_file_that_gives_way_when_it_is_open_gets_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str) -> None:
    """What stands under the name afterwards, or nothing, says nothing of the file that was opened."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    real, name = os.open, str(shared / "x.json")
    kept: list[int] = []

    def racing(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if str(path) != name or kept:
            return real(path, flags, *rest, **more)
        (shared / "x.json").write_text("theirs")  # since it was looked at
        os.chown(name, 65534, 65534)
        kept.append(real(name, os.O_RDONLY))
        descriptor = real(path, flags, *rest, **more)
        os.rename(name, shared / "away") if then == "moved" else os.unlink(name)
        if then == "ours instead":
            (shared / "x.json").write_text("ours")
        return descriptor

    monkeypatch.setattr(os, "open", racing)
    with pytest.raises(UsageError, match="exchanged or removed while it was opened"):
        put("secret", name, private=True)
    assert os.read(kept[0], 100) == b"theirs"
    os.close(kept[0])
    assert then != "ours instead" or (shared / "x.json").read_text() == "ours"
    if then != "ours instead":
        put("report", name, private=True)
        assert (shared / "x.json").read_text() == "report" and (shared / "x.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can plant what is somebody else's")
def test_a_folder_of_a_group_is_one_of_others_for_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared, ours = tmp_path / "shared", tmp_path / "ours"
    ours.mkdir()
    shared.mkdir()
    (shared / "r.json").write_text("theirs")
    (shared / "sub").symlink_to(ours)
    for path in shared.iterdir():
        os.lchown(path, 65534, 65534)
    put("first", str(shared / "r.json"))  # nobody but root can write there: root has put it there for him
    assert (shared / "r.json").read_text() == "first"
    os.chown(shared, 0, 4242)
    shared.chmod(0o2775)
    for name in ("r.json", "sub/new.json"):
        with pytest.raises(UsageError, match=r"belongs to nobody .uid 65534., and the group gid 4242 can write to"):
            put("x", str(shared / name))
    put("mine", str(shared / "mine.json"))
    assert (shared / "mine.json").read_text() == "mine" and not list(ours.iterdir())
    os.chown(shared, 0, 0)
    put("again", str(shared / "r.json"))
    os.chown(shared, 0, 4242)
    monkeypatch.setattr(os, "geteuid", lambda: 1)  # whoever works in a folder of his team has chosen it
    put("his", str(shared / "r.json"))
    assert (shared / "r.json").read_text() == "his"


def test_the_way_back_from_a_link_is_the_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data" / "below").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "link").symlink_to(tmp_path / "data" / "below")
    monkeypatch.chdir(tmp_path / "here")
    for name in ("link/../x.json", "./x.json", str(tmp_path / "here" / "link" / ".." / "y.json")):
        put("report", name)
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.json")) == ["data/x.json", "data/y.json", "here/x.json"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or not os.path.isdir("/dev/shm"), reason="no memory that is a folder")
def test_shared_memory_is_no_device(tmp_path: Path) -> None:
    link = Path("/dev/shm") / f"envcheck-test-{os.getpid()}.json"
    link.symlink_to(tmp_path / "file")
    try:
        with pytest.raises(UsageError, match="name that file itself"):
            put("x", str(link))
    finally:
        link.unlink()
    assert not (tmp_path / "file").exists()
    put("x", "/dev/null")


def test_a_link_that_takes_the_place_of_a_folder_to_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    real = os.mkdir

    def racing(path: str, *rest: Any) -> None:
        if path.endswith("new"):
            os.symlink(tmp_path / "elsewhere", path)
        real(path, *rest)

    monkeypatch.setattr(os, "mkdir", racing)
    with pytest.raises(FileExistsError):
        make_folders(str(tmp_path / "new" / "below"))
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can plant what is somebody else's")
def test_no_other_file_is_written_through_what_somebody_has_planted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """That of a variable, and folders that are made where they are not there."""
    shared, ours = tmp_path / "shared", tmp_path / "ours"
    ours.mkdir()
    (ours / "file").write_text("before\n")
    shared.mkdir()
    shared.chmod(0o1777)
    for name, target in (("summary", ours / "file"), ("folder", ours)):
        (shared / name).symlink_to(target)
        os.lchown(shared / name, 65534, 65534)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(shared / "summary"))
    output._step_summary(lambda *_: "x")
    with pytest.raises(UsageError, match="anybody can write to"):
        save(str(shared / "folder" / "new"), [WishFile("r.txt", "requirements", "torch\n")], {"r.txt": "torch\n"})
    failed = FleetTrial("start", "gloo", (0,), ("host",), "failed")
    keep_evidence(str(tmp_path), str(shared / "folder" / "kept"), Seat("host", 1, 0, 1, 0, 1, "none"), [failed], sys.executable)
    refused = envcheck(tmp_path, "--static", "--evidence", str(shared / "folder" / "kept"))
    said = capsys.readouterr().err + refused.stderr
    assert said.count("anybody can write to") == 3 and refused.returncode == 2, said
    assert (ours / "file").read_text() == "before\n" and [path.name for path in ours.iterdir()] == ["file"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_a_summary_waits_for_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(output, "PATIENCE_SECONDS", 0.2)
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "pipe"))
    output._step_summary(lambda *_: "x")
    assert capsys.readouterr().err == f"envcheck: GITHUB_STEP_SUMMARY {tmp_path}/pipe: nobody has read it for 0 s\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_a_pipe_is_not_written_to_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "PATIENCE_SECONDS", 0.2)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="nobody has read it"):
        put("x", str(pipe))
    holds = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # and reads nothing
    with pytest.raises(UsageError, match="nobody has read it"):
        put("x" * 200_000, str(pipe))
    os.close(holds)
    taken: list[str] = []
    reader = threading.Thread(target=lambda: taken.append(pipe.read_text()))
    reader.start()
    put("x" * 200_000, str(pipe))
    reader.join()
    assert len(taken[0]) == 200_000
