"""One way tried with the real installers on wheels of a few bytes: what is run, what is said, and that nothing is left."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from trial_wheels import imports, index, installer, variables, wheel

from envcheck.host.access import Completed
from envcheck.host.ownership import others_put
from envcheck.planner.result import Commands, TrialResult
from envcheck.trial import place, trial
from envcheck.trial.installer import LIMIT_BYTES
from envcheck.trial.settings import NO_PROJECT, NOTHING
from envcheck.trial.trial import Attempt, Bench, Checked, run_trial


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))


class Tryer:
    """Tries lines of one tool, and keeps what was asked."""

    def __init__(self, tool: str, tmp_path: Path, **more: str) -> None:
        self.tool = tool
        self.env = variables(tmp_path, **more)
        self.installer = installer(tool, self.env)
        self.asked: list[str] = []
        self.seen: list[str] = []

    def line(self, *words: str) -> str:
        return " ".join(
            ("uv pip install --python /home/me/venv/bin/python" if self.tool == "uv" else "/home/me/venv/bin/python -m pip install", *words)
        )

    def __call__(
        self, *lines: str, check: Any = None, answer: bool = True, seconds: float = 120.0, base: tuple[str, ...] = ()
    ) -> TrialResult:
        def agreed(question: str) -> bool:
            self.asked.append(question)
            return answer

        found = check or imports("demo", self.installer)

        def checked(python: str, *rest: Any) -> Checked:
            self.seen.append(python)
            result: Checked = found(python, *rest)
            return result

        commands, before = (Commands(uv=one) if self.tool == "uv" else Commands(pip=one) for one in (lines, base))
        return run_trial(Attempt("Install demo", commands, before), Bench(self.installer, checked, agreed, time.monotonic() + seconds))


@pytest.fixture(params=["uv", "pip"])
def try_lines(request: pytest.FixtureRequest, tmp_path: Path) -> Tryer:
    return Tryer(request.param, tmp_path)


def nothing_left(tmp_path: Path) -> None:
    assert os.listdir(tmp_path / "tmp") == []
    assert [name for name in os.listdir(tmp_path / "cache") if name.startswith(place.PREFIX)] == []


def test_what_is_printed_is_run_with_another_interpreter_and_nothing_else_changed(try_lines: Tryer, tmp_path: Path) -> None:
    url = index(tmp_path / "simple", wheel(tmp_path, "demo", "1.0", requires=["helper"]), wheel(tmp_path, "helper", "2.0"))
    before = sorted(os.listdir(os.path.dirname(sys.executable)))
    found = try_lines(try_lines.line("demo==1.0", "--index-url", url))
    assert (found.status, found.reason, found.tool) == ("passed", "", try_lines.tool)
    (ran,) = found.commands
    python = try_lines.seen[0]
    assert ran.replace(python, "/home/me/venv/bin/python").replace(try_lines.installer.program or "uv", "uv") == try_lines.line(
        "demo==1.0", "--index-url", url
    )
    sizes = sum(path.stat().st_size for path in tmp_path.glob("*.whl"))
    assert found.download_bytes == sizes
    assert "Install demo" in try_lines.asked[0]
    assert "1 MB" in try_lines.asked[0]
    assert sorted(os.listdir(os.path.dirname(sys.executable))) == before
    nothing_left(tmp_path)


def test_the_files_of_an_environment_beside_the_cache_are_hard_links(tmp_path: Path) -> None:
    links: list[int] = []

    def check(python: str, *_: object) -> Checked:
        links.extend(path.stat().st_nlink for path in Path(python).parents[1].rglob("demo.py"))
        return Checked("pass")

    url = index(tmp_path / "simple", wheel(tmp_path, "demo", "1.0"))
    uv = Tryer("uv", tmp_path)
    assert uv(uv.line("demo==1.0", "--index-url", url), check=check).status == "passed"
    assert links == [2]
    again = uv(uv.line("demo==1.0", "--index-url", url), check=check)
    assert again.status == "passed"
    assert "everything is in the cache of uv" in uv.asked[1]


def test_a_version_that_nobody_has_fails_before_the_question_with_the_installers_words(try_lines: Tryer, tmp_path: Path) -> None:
    url = index(tmp_path / "simple", wheel(tmp_path, "demo", "1.0"))
    found = try_lines(try_lines.line("demo==3.0", "--index-url", url))
    assert found.status == "failed"
    assert "demo==3.0" in found.reason
    assert "--dry-run" in found.failed
    assert any("demo==3.0" in line for line in found.said)
    assert (try_lines.asked, try_lines.seen) == ([], [])
    nothing_left(tmp_path)


def test_what_does_not_import_fails_in_the_check(try_lines: Tryer, tmp_path: Path) -> None:
    url = index(tmp_path / "simple", wheel(tmp_path, "demo", "1.0", body="raise OSError('libfoo.so.1: cannot open')\n"))
    found = try_lines(try_lines.line("demo==1.0", "--index-url", url))
    assert (found.status, found.failed, found.said) == ("failed", "check", ("OSError: libfoo.so.1: cannot open",))
    assert found.reason == "the check finds OSError: libfoo.so.1: cannot open"
    nothing_left(tmp_path)


def test_what_stays_as_it_is_comes_first(tmp_path: Path) -> None:
    uv = Tryer("uv", tmp_path)
    url = index(tmp_path / "simple", wheel(tmp_path, "demo", "1.0", body="import kept\n"), wheel(tmp_path, "kept", "1.5"))
    lines = uv.line("demo==1.0", "--index-url", url)
    assert uv(lines).status == "failed"
    found = uv(lines, base=(uv.line("kept==1.5", "--index-url", url),))
    assert (found.status, [line.split()[-3] for line in found.commands]) == ("passed", ["kept==1.5", "demo==1.0"])


def test_an_answer_of_no_downloads_nothing(try_lines: Tryer, tmp_path: Path) -> None:
    url = index(tmp_path / "simple", wheel(tmp_path, "demo", "1.0"))
    found = try_lines(try_lines.line("demo==1.0", "--index-url", url), answer=False)
    assert (found.status, found.reason, found.commands, try_lines.seen) == ("not-run", "the question was answered with no", (), [])
    nothing_left(tmp_path)


def test_no_network_says_nothing_of_the_way(try_lines: Tryer, tmp_path: Path) -> None:
    with socket.socket() as taken:  # bound and not listening: a connection is refused
        taken.bind(("127.0.0.1", 0))
        found = try_lines(try_lines.line("demo==1.0", "--index-url", f"http://u:s3cret@127.0.0.1:{taken.getsockname()[1]}/simple"))
    assert found.status == "not-run", found
    assert found.reason.startswith("the package index cannot be reached: ")
    assert "s3cret" not in str(found)
    nothing_left(tmp_path)


def test_a_disk_without_the_room_is_told_before_the_question(try_lines: Tryer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = index(tmp_path / "simple", wheel(tmp_path, "demo", "1.0"))
    monkeypatch.setattr(trial, "free_bytes", lambda path: 10)
    found = try_lines(try_lines.line("demo==1.0", "--index-url", url))
    assert found.status == "not-run"
    assert found.reason.startswith("it needs about 1 MB in ")
    assert try_lines.asked == []
    nothing_left(tmp_path)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("error: Failed to install: x.whl (x==1)\n  Caused by: failed to copy file: No space left on device (os error 28)", "disk"),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "disk"),
        ("ERROR: Could not install packages due to an OSError: [Errno 122] Disk quota exceeded", "disk"),
        ("  cause: error sending request for url (https://x/)\n  cause: client error (Connect)\n  cause: dns error", "network"),
        (
            "WARNING: Retrying after connection broken by 'NewConnectionError(': Failed to establish a new connection: [Errno 111]'",
            "network",
        ),
        ("ERROR: Could not find a version that satisfies the requirement torch==9.9 (from versions: 2.8.0)", ""),
        ("  cause: Because torch==2.2.0 has no wheels with a matching Python ABI tag (e.g., `cp313`)", ""),
    ],
)
def test_what_stops_an_installer_without_being_its_fault(said: str, kind: str) -> None:
    assert trial.trouble(said) == kind


def test_the_deepest_cause_is_told_as_it_stands() -> None:
    pip = Completed(
        ("/t/python", "-m", "pip", "install", "x"), 1, "ERROR: Could not install packages due to an OSError: [Errno 28] No space\n"
    )
    assert trial.why(pip) == "pip ended with exit code 1: Could not install packages due to an OSError: [Errno 28] No space"
    uv = Completed(
        ("/opt/uv", "pip", "install", "x"), 1, "error: No solution found\n  cause: Because x==9 has no wheels\n\nhint: Wheels are there\n"
    )
    assert trial.why(uv) == "uv ended with exit code 1: Because x==9 has no wheels"
    older = Completed(("/opt/uv", "pip", "install", "x"), 1, "  × No solution found:\n  ╰─▶ Because there is no version of x==9\n")
    assert trial.why(older) == "uv ended with exit code 1: Because there is no version of x==9"


def test_the_time_limit_ends_an_installer_that_waits(tmp_path: Path) -> None:
    """An index that takes the connection and never answers."""
    uv = Tryer("uv", tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        found = uv(uv.line("demo==1.0", "--index-url", f"http://127.0.0.1:{silent.getsockname()[1]}/simple"), seconds=6.0)
    assert time.monotonic() - began < 60
    assert (found.status, found.seconds < 60) == ("undecided", True)
    nothing_left(tmp_path)


def test_a_check_that_cannot_decide_and_an_interpreter_that_does_not_answer(tmp_path: Path) -> None:
    uv = Tryer("uv", tmp_path)
    url = index(tmp_path / "simple", wheel(tmp_path, "demo", "1.0"))
    found = uv(uv.line("demo==1.0", "--index-url", url), check=lambda *_: Checked("inconclusive", (), "the live check did not decide"))
    assert (found.status, found.reason) == ("undecided", "the live check did not decide")


def test_what_the_check_leaves_in_the_temporary_folder_goes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the name of that folder would be too long for sockets: torch would meet a fault that the user does not have."""
    seen: list[str | None] = []

    def check(python: str, variables: dict[str, str], seconds: float) -> Checked:
        seen.append(variables.get("TMPDIR"))
        return Checked("pass")

    uv = Tryer("uv", tmp_path)
    line = uv.line("demo==1.0", "--index-url", index(tmp_path / "simple", wheel(tmp_path, "demo", "1.0")))
    assert uv(line, check=check).status == "passed"
    monkeypatch.setattr("tempfile.tempdir", "/tmp")
    assert uv(line, check=check).status == "passed"
    assert seen[0] is None
    assert str(seen[1]).startswith(f"/tmp/{place.PREFIX}")
    nothing_left(tmp_path)


def test_what_is_no_line_of_the_tool_is_not_run(tmp_path: Path) -> None:
    uv = Tryer("uv", tmp_path)
    assert uv("sudo apt install demo") == TrialResult("not-run", "`sudo apt install demo` is no command of pip or uv")
    assert uv() == TrialResult("not-run", "it has no command of uv")


def test_a_configuration_that_installs_elsewhere_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the throwaway folder is written to, whatever pip.conf and uv.toml say."""
    url = index(tmp_path / "simple", wheel(tmp_path, "demo", "1.0"))
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "pip.conf").write_text(f"[install]\ntarget = {elsewhere}\n")
    (tmp_path / "uv.toml").write_text(f'[pip]\nprefix = "{elsewhere}"\n')
    pip = Tryer("pip", tmp_path, PIP_CONFIG_FILE=str(tmp_path / "pip.conf"))
    uv = Tryer("uv", tmp_path, UV_CONFIG_FILE=str(tmp_path / "uv.toml"), UV_NO_CONFIG="0")
    for tryer, setting in ((pip, "target"), (uv, "prefix")):
        found = tryer(tryer.line("demo==1.0", "--index-url", url))
        assert (found.status, f"the configuration of {tryer.tool} sets {setting}: " in found.reason) == ("not-run", True), found
    assert not elsewhere.exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can plant what is somebody else's")
def test_what_somebody_has_planted_in_the_working_folder_is_not_obeyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index of theirs in uv.toml would have their packages run; `python -m pip` would run a pip.py of theirs. What comes once the
    trial has begun is not seen, nor is a workspace above the folder, whose settings go before an uv.toml in it."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "pip.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(work)
    url = index(tmp_path / "simple", wheel(tmp_path, "demo", "1.0"))
    pip = Tryer("pip", tmp_path)
    assert pip(pip.line("demo==1.0", "--index-url", url)).status == "passed" and not (tmp_path / "ran").exists()
    uv = Tryer("uv", tmp_path, UV_NO_CONFIG="0")
    for name, text in PLANTED:
        planted = tmp_path / name
        planted.write_text(text)
        os.chown(planted, 65534, 65534)
        assert f"uv would obey {planted}: it belongs to" in settings_of(uv.env)
        os.chown(planted, 0, 0)  # ours then, but it lies below a folder where anybody can put a workspace
        assert "can write to" in settings_of(uv.env)
        planted.rename(work / name)
        assert uv(uv.line("demo==1.0", "--no-index", "--find-links", "..")).status == "passed", text
        (work / name).unlink()


OTHER = 'override-dependencies = ["demo @ file:///nowhere/demo"]\n'
PLANTED = (
    ("uv.toml", OTHER),
    ("pyproject.toml", f"[tool.uv]\n{OTHER}"),
    ("pyproject.toml", f'[tool."\\u0075v"]\n{OTHER}'),
    ("pyproject.toml", f'[tool."\\x75v"]\n{OTHER}'),  # of TOML 1.1
    ("pyproject.toml", f"#{'#' * LIMIT_BYTES}\n[tool.uv]\n{OTHER}"),
)


def settings_of(env: dict[str, str]) -> str:
    return installer("uv", env).misled or ""


@pytest.mark.skipif(others_put(str(Path.home())) is not None, reason="the home folder is not this user's alone")
def test_settings_of_a_folder_that_nobody_else_can_change_count_as_in_the_printed_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(tmp_path, "demo", "1.0")
    with tempfile.TemporaryDirectory(dir=Path.home()) as folder:
        (Path(folder) / "uv.toml").write_text(f"[pip]\nno-index = true\nfind-links = ['{os.path.relpath(tmp_path, folder)}']\n")
        monkeypatch.chdir(folder)
        uv = Tryer("uv", tmp_path, UV_NO_CONFIG="0")
        assert uv(uv.line("demo==1.0")).status == "passed"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can plant what is somebody else's")
def test_others_choose_neither_the_programs_nor_the_toolchain_of_an_installer_nor_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip asks rustc for its version, and rustup starts what a file of the working folder names."""
    (tmp_path / "settings.toml").write_text('default_toolchain = "mine"\n')
    rust = {"RUSTUP_HOME": str(tmp_path)}
    monkeypatch.chdir(tmp_path)  # below /tmp
    assert installer("pip", rust).env["RUSTUP_TOOLCHAIN"] == "mine"
    monkeypatch.setattr("envcheck.trial.installer.others_put", lambda _folder: None)
    assert "RUSTUP_TOOLCHAIN" not in installer("pip", rust).env
    (tmp_path / "uv").touch(0o777)
    assert installer("uv", {"PATH": f".:{tmp_path}"}).program == str(tmp_path / "uv")
    tmp_path.chmod(0o777)
    assert installer("uv", {"PATH": f".:{tmp_path}"}).program not in (str(tmp_path / "uv"), "./uv")
    tmp_path.chmod(0o755)
    os.chown(tmp_path / "tmp", 65534, 65534)
    found = place.find_place(str(tmp_path / "cache"))
    assert found and found.path in ("/tmp", str(tmp_path))


ROOT_ONLY = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can plant what is somebody else's")
AT_HOME = [
    ("uv", ".config/uv/uv.toml", "HOME"),
    ("uv", "uv/uv.toml", "XDG_CONFIG_HOME"),
    ("uv", "uv/uv.toml", "XDG_CONFIG_DIRS"),
    ("uv", "own.toml", "UV_CONFIG_FILE"),
    ("uv", ".local/share/uv/credentials/credentials.toml", "HOME"),
    ("uv", ".netrc", "HOME"),
    ("pip", ".config/pip/pip.conf", "HOME"),
    ("pip", ".pip/pip.conf", "HOME"),
    ("pip", "pip/pip.conf", "XDG_CONFIG_HOME"),
    ("pip", "pip/pip.conf", "XDG_CONFIG_DIRS"),
    ("pip", "own.conf", "PIP_CONFIG_FILE"),
    ("pip", "_netrc", "HOME"),
    ("pip", "own.netrc", "NETRC"),
]


def who_starts(tmp_path: Path, variable: str, value: Path | str) -> dict[str, str]:
    """Somebody whose installers look at their settings."""
    env = variables(tmp_path)
    for name in (
        "UV_NO_CONFIG",
        "PIP_CONFIG_FILE",
        "UV_CACHE_DIR",
        "NETRC",
        "XDG_CONFIG_HOME",
        "XDG_CONFIG_DIRS",
        "XDG_CACHE_HOME",
        "XDG_DATA_HOME",
    ):
        env.pop(name, None)
    return {**env, variable: str(value)}


@ROOT_ONLY
@pytest.mark.parametrize(("tool", "name", "variable"), AT_HOME)
@pytest.mark.parametrize(("owner", "mode"), [(0, 0o1777), (12345, 0o755)])
def test_roots_installer_obeys_no_settings_that_others_put_at_home(
    tmp_path: Path, tool: str, name: str, variable: str, owner: int, mode: int
) -> None:
    folder = tmp_path / "theirs"
    planted = folder / name
    planted.parent.mkdir(parents=True)
    planted.write_text("")
    env = who_starts(tmp_path, variable, planted if name.startswith("own.") else folder)
    assert installer(tool, env).misled is None, "all of it is root's"
    folder.chmod(mode)
    os.chown(folder, owner, -1)
    lowest = next(one for one in (planted, *planted.parents) if one.parent == folder)
    os.chown(lowest, 12345, -1)
    assert f"{tool} would obey {planted}" in (installer(tool, env).misled or "")
    os.chown(lowest, 0, -1)
    planted.chmod(0o666)
    assert f"{planted}" in (installer(tool, env).misled or "")


@ROOT_ONLY
@pytest.mark.parametrize(("owner", "mode"), [(0, 0o1777), (12345, 0o755)])
def test_where_others_may_put_settings_at_home_none_are_looked_for(tmp_path: Path, owner: int, mode: int) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir(mode=mode)
    folder.chmod(mode)
    os.chown(folder, owner, -1)
    env = {**who_starts(tmp_path, "HOME", folder), "XDG_CONFIG_DIRS": f"{folder}:/etc/xdg"}
    uv, pip = (installer(tool, env) for tool in ("uv", "pip"))
    assert (uv.misled, pip.misled) == (None, None)
    wanted = {"XDG_CONFIG_HOME": NO_PROJECT, "XDG_CONFIG_DIRS": "/etc/xdg", "UV_CREDENTIALS_DIR": NO_PROJECT, "NETRC": NOTHING}
    assert {name: uv.env.get(name) for name in (*wanted, "UV_NO_CACHE")} == {**wanted, "UV_NO_CACHE": "1"}
    assert (pip.env["PIP_CONFIG_FILE"], pip.env["NETRC"], pip.env["XDG_CONFIG_DIRS"]) == (NOTHING, NOTHING, "/etc/xdg")
    assert pip.env["RUSTUP_HOME"] == os.devnull, "rustup, which pip asks for a version, runs what a file at home names"
    for name, text in ((".config/uv/uv.toml", "offline = 1 1"), (".pip/pip.conf", "[global"), (".netrc", "machine x")):  # meanwhile
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    assert uv.run((str(uv.program), "pip", "list", "--python", sys.executable), 60).ok
    assert pip.run((sys.executable, "-m", "pip", "config", "list"), 60).ok


def test_settings_in_a_home_of_ones_own_count_as_before(tmp_path: Path) -> None:
    env = who_starts(tmp_path, "HOME", tmp_path / "home")
    for name in (".config/uv/uv.toml", ".config/pip/pip.conf", ".netrc", ".cache/uv/x"):
        (tmp_path / "home" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "home" / name).write_text("")
    for tool in ("uv", "pip"):
        found = installer(tool, env)
        assert found.misled is None
        assert not {"XDG_CONFIG_HOME", "PIP_CONFIG_FILE", "NETRC", "UV_NO_CACHE", "UV_CREDENTIALS_DIR"} & set(found.env)
    assert installer("pip", {**env, "HOME": os.devnull}).misled is None


def left_behind(folder: Path, name: str, hold: bool) -> Callable[[], None]:
    """A trial's folder from two minutes ago, whose lock somebody holds or nobody."""
    import fcntl

    (folder / name).mkdir()
    descriptor = os.open(folder / name / place.LOCK, os.O_RDWR | os.O_CREAT)
    if hold:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    else:
        os.close(descriptor)
    os.utime(folder / name, (time.time() - 120,) * 2)
    return lambda: os.close(descriptor) if hold else None


def test_what_a_killed_trial_left_goes_with_the_next_one_and_that_of_a_running_one_stays(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    left_behind(tmp_path / "place", "envcheck-try-1-dead", False)
    release = left_behind(tmp_path / "place", "envcheck-try-2-alive", True)
    (tmp_path / "place" / "envcheck-try-of-the-user").mkdir()
    place.sweep(str(tmp_path / "place"))
    release()
    assert sorted(os.listdir(tmp_path / "place")) == ["envcheck-try-2-alive", "envcheck-try-of-the-user"]
