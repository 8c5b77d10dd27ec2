"""Root hands no HOME on in which others decide what NCCL, MPI and compilers read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from patients import SOON

from envcheck.fleet import pmix
from envcheck.host import access
from envcheck.host import home as module
from envcheck.host.access import Completed, RealHost
from envcheck.host.home import foreign_home, with_own_home

NOBODY = 65534
ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a folder to another user")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """One of nobody's, with a configuration of NCCL."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / ".nccl.conf").write_text("NCCL_NET_PLUGIN=/theirs.so\n")
    for path in (folder, folder / ".nccl.conf"):
        os.chown(path, NOBODY, NOBODY)
    return folder


@pytest.mark.parametrize(
    ("change", "reason", "there"),
    [
        (lambda home: None, None, False),
        (lambda home: os.chown(home, NOBODY, NOBODY), "{home} belongs to nobody (uid 65534)", False),
        (lambda home: home.chmod(0o1777), "others can write to {home}", False),
        (
            lambda home: ((home / ".nccl.conf").touch(), os.chown(home / ".nccl.conf", NOBODY, NOBODY)),
            "{home}/.nccl.conf belongs to nobody (uid 65534)",
            True,
        ),
        (
            lambda home: ((home / ".openmpi").mkdir(), os.chown(home / ".openmpi", NOBODY, NOBODY)),
            "{home}/.openmpi belongs to nobody (uid 65534)",
            True,
        ),
        (
            lambda home: ((home / ".cache").mkdir(), os.chown(home / ".cache", NOBODY, NOBODY)),
            "{home}/.cache belongs to nobody (uid 65534)",
            False,
        ),
        (lambda home: (home / ".nccl.conf").write_text("NCCL_DEBUG=WARN"), None, False),
    ],
    ids=["ours", "home", "open", "file", "folder", "cache", "ours with a file"],
)
def test_whose_hand_is_in_it(tmp_path: Path, change: Callable[[Path], object], reason: str | None, there: bool) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    change(folder)
    found = foreign_home({"HOME": str(folder)})
    assert (found and (found.folder, found.reason, found.there)) == (reason and (str(folder), reason.format(home=folder), there))


def test_nobody_s_home_is_no_concern_where_root_has_none_or_is_a_user(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for env in ({}, {"HOME": ""}, {"HOME": "/root"}, {"HOME": os.devnull}):
        assert foreign_home(env) is None and with_own_home(env) == env
    assert foreign_home({"HOME": "."}) is not None
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    assert foreign_home({"HOME": str(home)}) is None, "a user knows whose HOME he has"


def test_programs_are_given_another_one_and_python_its_user_site(home: Path) -> None:
    given = with_own_home({"HOME": str(home), "A": "b"}, sys.executable + "x", "/elsewhere")
    assert given == {"HOME": "/elsewhere", "A": "b", "PYTHONUSERBASE": f"{home}/.local", "PYTHONNOUSERSITE": "1"}
    assert with_own_home({"HOME": str(home), "PYTHONUSERBASE": ""})["PYTHONUSERBASE"] == f"{home}/.local", "an empty one is none"
    host = RealHost({**os.environ, "HOME": str(home)})
    assert host.run(("/bin/sh", "-c", "echo $HOME"), timeout=SOON).stdout == "/dev/null\n"


def test_a_home_on_a_mount_that_does_not_answer_is_asked_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each further question would wait for ever."""
    asked = []

    def lexists(path: str) -> bool:
        asked.append(path)
        return False

    monkeypatch.setattr(module, "answers", lambda path: False)
    monkeypatch.setattr(os.path, "lexists", lexists)
    found = foreign_home({"HOME": str(home)})
    assert found and (found.reason, found.there) == ("the file system that it is on does not answer", True), "what it holds nobody knows"
    assert asked == []


def test_what_asks_pmix_reads_nothing_of_others(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It loads a library beside the mpirun of PATH, and that one what HOME names."""
    theirs = tmp_path / "theirs"
    for path in (theirs / "bin" / "mpirun", theirs / "lib" / pmix.LIBRARY):
        path.parent.mkdir(parents=True)
        path.touch(0o755)
    given = {}

    def run(words: Sequence[str], timeout: float, env: Mapping[str, str]) -> Completed:
        given.update(env, words=words)
        return Completed(0, "", "")

    monkeypatch.setattr(access, "run_command", run)
    env = {"PATH": f"{theirs / 'bin'}:/usr/bin", "HOME": str(home)}
    pmix.ask(env)
    assert str(theirs / "lib" / pmix.LIBRARY) in given["words"], "it is looked for where nobody else is"
    (theirs / "bin").chmod(0o777)
    pmix.ask(env)
    assert not [word for word in given["words"] if word.startswith(str(theirs))]
    assert (given["PATH"], given["HOME"]) == ("/usr/bin", "/dev/null")


def test_the_interpreter_under_test_has_a_home_of_its_own_and_a_line_says_so(home: Path, tmp_path: Path) -> None:
    told = tmp_path / "told"
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "$HOME $(stat -c %a:%u "$HOME")" >> {told}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(home)}
    words = [sys.executable, "-m", "envcheck", "--static", "--json", "--python", str(python)]
    done = subprocess.run(words, capture_output=True, text=True, env=env, timeout=SOON, cwd=tmp_path)
    line = f"HOME {home} was not handed on: {home} belongs to nobody (uid 65534)"
    assert f"envcheck: {line}" in done.stderr
    assert line in json.loads(done.stdout)["facts"]["python"]["chosen_because"]
    given, owner = told.read_text().split()
    assert given.endswith("/home") and given != str(home) and owner == "700:0"
    assert not Path(given).exists(), "it goes with the folder that it is in"
    chinese = subprocess.run([*words[:3], "--static", "--lang", "zh", "--python", str(python)], capture_output=True, text=True, env=env)
    assert f"未把HOME{home}传给所启动的程序：{home}属于nobody(uid65534)" in "".join(chinese.stdout.split())
