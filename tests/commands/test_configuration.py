"""Which configuration file counts, what may stand in it, and that nobody else's is obeyed."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from report_samples import SAMPLES, healthy, machine

from envcheck import cli, options
from envcheck.commands.configuration import KEYS, find, rule_session
from envcheck.commands.expect import expected
from envcheck.commands.init import TEMPLATE, expectations
from envcheck.errors import UsageError
from envcheck.facts.record import replace
from envcheck.facts.settings import Configuration
from envcheck.facts.snapshot import ExpectationsFacts
from envcheck.host.ownership import foreign_environment
from envcheck.options import parse
from envcheck.render import render
from envcheck.target.interpreter import choose

ROOT = Path(__file__).parents[2]
DOCUMENTS = ROOT / "tests" / "documents" / "v1"
NOBODY = 65534
as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a file to another user, which this test needs"
)


def put(folder: Path, text: str = "timeout = 77\n", name: str = "envcheck.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


def run(*words: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "300", **variables}
    return subprocess.run([sys.executable, "-m", "envcheck", *words], capture_output=True, text=True, env=env, timeout=120, cwd=cwd)


def words_of(text: str) -> str:
    """Text without its line breaks."""
    return " ".join(text.split())


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, two levels below the test's own."""
    folder = tmp_path / "project" / "src"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def found() -> tuple[str | None, dict[str, Any], list[str]]:
    configuration, table = find(None)
    return configuration.path, dict(table), [line.split(" was passed over: ")[1] for line in configuration.passed_over]


# ---- which file


def test_the_nearest_counts(here: Path) -> None:
    above = put(here.parent)
    assert found() == (str(above), {"timeout": 77}, [])
    put(here, "[project]\nname = 'envcheck-user'\n", "pyproject.toml")  # mentions us, and says nothing to us
    assert found()[0] == str(above)
    own = put(here, "[tool.envcheck]\ntimeout = 78\n", "pyproject.toml")
    assert found() == (str(own), {"timeout": 78}, [])
    nearest = put(here, "[tool.envcheck]\ntimeout = 79\n")  # with the header, as in the README
    assert found() == (str(nearest), {"timeout": 79}, [])


def test_a_working_folder_that_was_deleted_has_no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    try:
        assert find(None) == (Configuration(), {})
    finally:
        monkeypatch.chdir(tmp_path)


def test_what_is_no_file_is_no_configuration(here: Path) -> None:
    os.mkfifo(here / "envcheck.toml")
    (here / "pyproject.toml").symlink_to("pyproject.toml")
    (here.parent / "envcheck.toml").mkdir()
    assert found() == (None, {}, [])


@as_root
def test_a_file_of_another_user_is_not_obeyed(here: Path) -> None:
    above = put(here.parent)
    planted = put(here, 'python = "/tmp/evil"\nbroken')
    os.chown(planted, NOBODY, NOBODY)
    path, table, [reason] = found()
    assert (path, table) == (str(above), {"timeout": 77})
    assert reason == "it belongs to nobody (uid 65534)"


@as_root
def test_a_pyproject_of_another_user_is_mentioned_only_if_it_speaks_to_us(here: Path) -> None:
    for folder, text in ((here, "dependencies = ['torch-envcheck']"), (here.parent, "[tool.envcheck]\npyth = 1\n")):
        os.chown(put(folder, text, "pyproject.toml"), 4242, 4242)
    assert found() == (None, {}, ["it belongs to uid 4242"])


def test_what_others_can_write_is_not_obeyed(here: Path) -> None:
    path = put(here)
    path.chmod(0o666)
    assert found() == (None, {}, ["others can write to it"])
    path.chmod(0o664)
    assert found() == (str(path), {"timeout": 77}, [])


def test_a_file_without_end_is_refused_and_a_pipe_is_read() -> None:
    with pytest.raises(UsageError, match="--config /dev/zero: not a file"):
        find("/dev/zero")
    reading, writing = os.pipe()
    os.write(writing, b"timeout = 77\n")
    os.close(writing)
    assert find(f"/dev/fd/{reading}")[1] == {"timeout": 77}
    os.close(reading)


def test_a_file_that_nobody_named_is_not_cut(here: Path) -> None:
    path = put(here, "timeout = 77\n#" + "x" * (1 << 20))
    with pytest.raises(UsageError, match=f"^{path}: larger than 1 MiB$"):
        found()
    assert cli.main(["--static"]) == 2


def test_an_error_is_short_whatever_the_file_says(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(here, f"[severity]\n{'y' * 150_000} = 'error'\n")
    assert cli.main(["rules"]) == 2
    said = capsys.readouterr().err
    assert len(said) < 3100 and said.startswith("envcheck: ") and "y…y" in said and said.endswith(" lists them\n"), said[-200:]


def test_a_shared_folder(here: Path) -> None:
    """/tmp: what lies in it may be a link or a file that somebody moved there. A folder of ours below it is ours."""
    own, shared = put(here), put(here.parent)
    here.parent.chmod(0o1777)
    assert found() == (str(own), {"timeout": 77}, [])
    own.unlink()
    assert found() == (None, {}, [f"others can write to {shared.parent}"])
    own = put(here)
    here.parent.chmod(0o777)  # anybody can put another folder in the place of ours
    assert found() == (None, {}, [f"others can write to {here.parent}"] * 2)


@as_root
def test_a_link_of_another_user_to_a_file_of_ours(here: Path, tmp_path: Path) -> None:
    target = put(tmp_path / "elsewhere")
    (here / "envcheck.toml").symlink_to(target)
    assert found() == (str(here / "envcheck.toml"), {"timeout": 77}, [])
    os.chown(here / "envcheck.toml", NOBODY, NOBODY, follow_symlinks=False)
    assert found() == (None, {}, ["it belongs to nobody (uid 65534)"])


def _access_list(path: Path, user: int) -> None:
    """`setfacl -m u:USER:rw`, as the kernel keeps it: owner, user, group, mask, others."""
    entries = ((1, 6, -1), (2, 6, user), (4, 4, -1), (16, 6, -1), (32, 4, -1))
    kept = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    try:
        os.setxattr(path, "system.posix_acl_access", kept)
    except OSError as error:
        pytest.skip(f"no access lists here: {error.strerror}")


@as_root
def test_what_a_group_can_write_is_not_obeyed_by_root(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(here)
    os.chown(path, 0, 4242)
    path.chmod(0o664)
    assert found() == (None, {}, ["the group gid 4242 can write to it"])
    os.chown(path, 0, 0)
    os.chown(here, 0, 4242)
    here.chmod(0o775)
    assert found() == (None, {}, [f"the group gid 4242 can write to {here}"])
    monkeypatch.setattr(os, "geteuid", lambda: 1)  # whoever works in a folder of his team has chosen it
    assert found() == (str(path), {"timeout": 77}, [])


@as_root
def test_an_access_list_lets_others_write(here: Path) -> None:
    _access_list(put(here), NOBODY)
    assert found() == (None, {}, ["whom its access list names can write to it"])


@as_root
def test_where_a_link_leads_is_looked_at_too(here: Path, tmp_path: Path) -> None:
    (here / "envcheck.toml").symlink_to(put(tmp_path / "open"))
    (tmp_path / "open").chmod(0o777)
    assert found() == (None, {}, [f"others can write to {tmp_path}/open"])


@as_root
def test_a_file_of_roots_in_a_folder_of_a_user(here: Path) -> None:
    put(here)
    os.chown(here, NOBODY, NOBODY)
    assert found() == (None, {}, [f"{here} belongs to nobody (uid 65534)"])


@as_root
@pytest.mark.parametrize("change", ["whose", "mode"])
def test_rules_that_others_can_change_are_not_roots(here: Path, change: str) -> None:
    rule = put(here / "rules" / "driver", (ROOT / "rules" / "driver" / "driver-too-old.toml").read_text(), "driver-too-old.toml")
    put(here, 'rules = ["rules"]\n')
    assert parse([]).site == [str(here / "rules")]
    os.chown(rule, NOBODY, NOBODY) if change == "whose" else rule.parent.chmod(0o777)
    reason = f"{rule}: it belongs to nobody (uid 65534)" if change == "whose" else f"{rule.parent}: others can write to it"
    args = parse([])
    assert (args.site, args.configuration.passed_over) == ([], (f"{here}/rules was passed over: {reason}",))
    assert parse(["--config", "envcheck.toml"]).site == [str(here / "rules")], "who names the file has seen it"


@as_root
@pytest.mark.parametrize("how", ["linked", "link of theirs", "link to nothing", "late"])
def test_rules_behind_links_and_in_the_last_of_many_folders(here: Path, tmp_path: Path, how: str) -> None:
    put(here, 'rules = ["rules"]\n')
    (here / "rules").mkdir()
    family = here / "rules" / "limits"
    if how == "late":  # more folders than were once looked at
        for number in range(150):
            (here / "rules" / f"d{number}").mkdir()
        changed = put(family, "", "theirs.toml")
    else:
        (tmp_path / "open" / "way").mkdir(parents=True)
        changed = put(tmp_path / "open" / "behind", "", "theirs.toml")
        (tmp_path / "open" / "way" / "link").symlink_to(changed.parent)
        family.symlink_to(
            {"linked": changed.parent, "link of theirs": tmp_path / "open" / "way" / "link"}.get(how, tmp_path / "open" / "no")
        )
    assert parse([]).site == [str(here / "rules")]
    if how == "link of theirs":
        changed = tmp_path / "open" / "way" / "link"
    elif how == "link to nothing":
        changed = tmp_path / "open"
    os.chown(changed, NOBODY, NOBODY, follow_symlinks=False)
    args = parse([])
    assert args.site == [] and "belongs to nobody (uid 65534)" in args.configuration.passed_over[0]
    if how == "linked":
        os.chown(changed, 0, 0)
        (tmp_path / "open").chmod(0o777)
        assert args.site == [] and f"others can write to {tmp_path}/open" in parse([]).configuration.passed_over[0]


@as_root
def test_a_way_that_leads_through_a_folder_of_somebody_else(here: Path, tmp_path: Path) -> None:
    path = put(here)
    os.chown(here.parent, NOBODY, NOBODY)  # who can put another folder in the place of this one
    assert found() == (None, {}, [f"{here.parent} belongs to nobody (uid 65534)"])
    os.chown(here.parent, 0, 0)
    assert found() == (str(path), {"timeout": 77}, [])


@as_root
def test_what_is_read_is_what_is_judged(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted file that gives way to one of ours as soon as it is open: the open one counts."""
    planted, ours = put(here, "timeout = 5\n"), put(here, name="ours")
    os.chown(planted, NOBODY, NOBODY)
    real = os.open

    def swapping(path: Any, *rest: Any, **more: Any) -> int:
        descriptor = real(path, *rest, **more)
        if str(path) == str(planted) and ours.exists():
            ours.replace(planted)
        return descriptor

    monkeypatch.setattr(os, "open", swapping)
    assert found() == (None, {}, ["it belongs to nobody (uid 65534)"])
    assert found()[1] == {"timeout": 77}


@as_root
def test_what_the_user_names_is_obeyed(here: Path) -> None:
    planted = put(here)
    os.chown(planted, NOBODY, NOBODY)
    args = parse(["--config", "envcheck.toml"])
    assert args.timeout == 77 and args.configuration == Configuration("envcheck.toml")


@as_root
def test_a_planted_file_neither_runs_nor_hides_anything(tmp_path: Path) -> None:
    """A shared folder, as /scratch is: root works in a folder of his own below it."""
    shared, work = tmp_path / "shared", tmp_path / "shared" / "work"
    work.mkdir(parents=True)
    shared.chmod(0o1777)
    evil = shared / "evil.sh"
    evil.write_text(f'#!/bin/sh\nid > {shared}/pwned\nexec {sys.executable} "$@"\n')
    evil.chmod(0o755)
    planted = put(shared, f'python = "{evil}"\nfail-on = "never"\nignore = ["meta"]\n')
    os.chown(planted, NOBODY, NOBODY)
    done = run("--static", "--json", "--expect", "cpus>=100000", cwd=work)
    assert not (shared / "pwned").exists()
    report = json.loads(done.stdout)
    assert (done.returncode, report["findings"][0]["rule"]) == (1, "expectation-failed")
    line = f"{planted} was passed over: it belongs to nobody (uid 65534)"
    assert report["config"] == {"path": None, "passed_over": [line]}
    assert done.stderr == f"envcheck: {line}; --config obeys it\n"
    assert run("record", "--static", "-o", os.devnull, cwd=work).stderr == done.stderr
    assert f"config {line} " in words_of(run("--static", "--select", "meta", cwd=work).stdout)


# ---- ./.venv of a tool that runs on its own


@as_root
@pytest.mark.parametrize("whose", ["folder", "bin", "python", "link", "packages", "config"])
def test_an_environment_of_another_user_is_not_started(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whose: str) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "tool"))
    put(tmp_path / "tool", "", "uv-receipt.toml")
    python = put(tmp_path / "bin", "", "python3")
    python.chmod(0o755)
    venv = tmp_path / "venv" if whose == "link" else here / ".venv"
    put(venv / "bin", "", "python.real")
    (venv / "bin" / "python").symlink_to(venv / "bin" / "python.real")
    packages, config = venv / "lib" / "python3.11" / "site-packages", put(venv, "home = /usr/bin\n", "pyvenv.cfg")
    packages.mkdir(parents=True)
    if whose == "link":
        (here / ".venv").symlink_to(venv)
    path = {"PATH": str(python.parent)}
    assert choose(None, path).executable == str(here / ".venv" / "bin" / "python")
    parts = {"folder": venv, "bin": venv / "bin", "python": venv / "bin" / "python", "link": here / ".venv"}
    changed = {**parts, "packages": packages, "config": config}[whose]
    os.chown(changed, NOBODY, NOBODY, follow_symlinks=False)
    chosen = choose(None, path)
    line = f"{here}/.venv was passed over: it belongs to nobody (uid 65534)"
    assert chosen.executable == str(python)
    assert chosen.because == f"it is the first python3 on PATH, and no environment is active ({line})"
    assert chosen.note == f"{line}; --python examines it"
    with pytest.raises(UsageError, match=r"no environment to examine.*was passed over: it belongs to nobody"):
        choose(None, {"HOME": str(tmp_path), "PYENV_ROOT": str(tmp_path)})
    assert choose(".venv", path).executable == str(here / ".venv" / "bin" / "python"), "the user's own word"


@as_root
@pytest.mark.parametrize("whose", ["interpreter", "pth", "module", "file far below", "folder of a pth", "open lib", "open python3.11"])
def test_root_looks_at_each_file_of_an_environment(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whose: str) -> None:
    venv, away = here / ".venv", tmp_path / "away"
    real = put(away / "bin", "", "python3.11")
    put(venv / "bin", "", "activate")
    (venv / "bin" / "python").symlink_to(real)
    packages = venv / "lib" / "python3.11" / "site-packages"
    module = put(packages / "torch" / "nn" / "modules", "", "linear.py")
    pth = put(packages, f"# ours\nimport site\n{away / 'editable'}\n", "e.pth")
    put(away / "editable", "", "x.py")
    (venv / "lib64").symlink_to("lib")
    put(venv, "home = /usr/bin\n", "pyvenv.cfg")
    put(venv, "", ".lock").chmod(0o666)  # as uv makes it
    python = str(venv / "bin" / "python")
    assert foreign_environment(".venv", python) is None
    if whose.startswith("open"):
        {"open lib": venv / "lib", "open python3.11": packages.parent}[whose].chmod(0o777)
    else:
        parts = {"interpreter": real, "pth": pth, "module": packages / "torch", "file far below": module}
        os.chown(parts.get(whose, away / "editable"), NOBODY, NOBODY)
    reason = foreign_environment(".venv", python) or ""
    assert ("others can write to it" if whose.startswith("open") else "belongs to nobody (uid 65534)") in reason
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY if whose != "interpreter" else 1)
    assert whose.startswith("open") or foreign_environment(".venv", python) is None, "a user's own files, and his team's Python"


@as_root
def test_the_python_that_a_copied_interpreter_belongs_to(here: Path, tmp_path: Path) -> None:
    """`python -m venv --copies`: the standard library is looked for beside what `home` names."""
    home = put(tmp_path / "theirs" / "bin", "", "python3").parent
    python = put(here / ".venv" / "bin", "", "python")
    config = put(here / ".venv", f"Home = {home}\n", "pyvenv.cfg")
    assert foreign_environment(".venv", str(python)) is None
    for changed, reason in ((home, "it belongs to nobody (uid 65534)"), (home.parent, f"{home.parent} belongs to nobody (uid 65534)")):
        os.chown(changed, NOBODY, NOBODY)
        assert foreign_environment(".venv", str(python)) == f".venv/pyvenv.cfg leads to {home}: {reason}"
        os.chown(changed, 0, 0)
    home.parent.chmod(0o777)
    assert f"others can write to {home.parent}" in (foreign_environment(".venv", str(python)) or "")
    config.write_text(f"home = {tmp_path}/open/not-there/bin\n")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o1777)
    assert f"others can write to {tmp_path}/open" in (foreign_environment(".venv", str(python)) or "")


@as_root
def test_root_takes_no_interpreter_out_of_a_folder_of_everybody(tmp_path: Path) -> None:
    """Neither the one that is examined, nor by a name on the command line, nor what the examined one starts: compilers, ldconfig."""
    open_to_all = put(tmp_path / "open" / "bin", f'#!/bin/sh\ntouch {tmp_path}/taken\nexec {sys.executable} "$@"\n', "python3")
    open_to_all.chmod(0o755)
    tmp_path.joinpath("open").chmod(0o777)
    path = f"{open_to_all.parent}:{os.environ['PATH']}"
    done = run("--static", "--json", "--python", "python3", cwd=tmp_path, PATH=path)
    report = json.loads(done.stdout)
    assert not (tmp_path / "taken").exists() and report["facts"]["python"]["executable"] != str(open_to_all)
    assert report["facts"]["system"]["path_left_out"] == [str(open_to_all.parent)]


# ---- what it says


def test_the_report_names_the_file_that_counted(tmp_path: Path) -> None:
    path = put(tmp_path, f'python = "{sys.executable}"\n')
    done = run("--static", "--json", "--select", "meta", cwd=tmp_path)
    report = json.loads(done.stdout)
    assert report["config"] == {"path": str(path), "passed_over": []}
    assert report["facts"]["python"]["chosen_because"] == f"set in {path}"
    done = run("--static", "--select", "meta", cwd=tmp_path)
    assert f"config {path} " in words_of(done.stdout) and f": set in {path} " in words_of(done.stdout) and done.stderr == ""
    done = run("--static", "--select", "meta", "--python", sys.executable, cwd=tmp_path)
    assert "given with --python" in words_of(done.stdout)


@pytest.mark.parametrize("format_name", ["text", "json", "markdown", "html", "github"])
def test_every_page_names_what_was_passed_over(format_name: str) -> None:
    line = "/srv/envcheck.toml was passed over: it belongs to uid 4242"
    report = replace(healthy("cpu"), configuration=Configuration("/etc/envcheck.toml", (line,)))
    shown = render(report, format_name).replace("\\", "")
    assert "it belongs to uid 4242" in shown
    assert ("/etc/envcheck.toml" in shown) is (format_name != "github")
    assert "config  " not in render(SAMPLES["cpu"](), "text")


def test_a_path_in_the_file_is_meant_from_its_folder(here: Path) -> None:
    (here.parent / "venv" / "bin").mkdir(parents=True)
    for value, meant in (("venv", f"{here.parent}/venv"), ("./venv", f"{here.parent}/./venv"), ("python3.12", "python3.12")):
        path = put(here.parent, f'python = "{value}"\n')
        args = parse([])
        assert (args.python, args.python_named_in) == (meant, str(path))
    assert parse(["--python", "x"]).python == "x"


# ---- what is wrong with it


LIST, TEXT = "a list of texts is expected", "a text is expected"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("select = [1]", f"select = [1]: {LIST}"),
        ("expect = [5]", f"expect = [5]: {LIST}"),
        ('expect = "driver>=580"', f"expect = 'driver>=580': {LIST}"),
        ("ignore = [{a = 1}]", "ignore = [{'a': 1}]: a list of texts, or a table of rules with reasons is expected"),
        ("ignore = { gpu-busy = 1 }", "ignore = {'gpu-busy': 1}: a list of texts, or a table of rules with reasons is expected"),
        ("rules = [1]", "rules = [1]: a list of folders is expected"),
        ("severity = { numpy-abi = 1 }", "severity = {'numpy-abi': 1}: a table of rules with severities is expected"),
        ("[tool]\nenvcheck = 5", "tool.envcheck = 5: a table is expected"),
        ("python = 3", "python = 3: a path or a command is expected"),
        ("index-base = true", f"index-base = True: {TEXT}"),
        ("timeout = true", "timeout = True: a number of seconds is expected"),
        ('strict = "yes"', "strict = 'yes': true or false is expected"),
        ("nproc = 1.5", 'nproc = 1.5: a number of ranks or "all" is expected'),
        ('nproc = "two"', "nproc = two: a number of ranks, or `all`"),
        ("timeout = 1", "timeout = 1: between 5 and 86400 seconds"),
        ('tool = "npm"', "tool = 'npm': one of auto, pip, uv, conda is expected"),
        ("live = 5", "live = 5: one of quick, full, off is expected"),
        ("timuot = 5", "unknown key 'timuot'; did you mean 'timeout'?"),
        ("timeout = " + "9" * 400, "timeout = 99999999999999999999: between 5 and 86400 seconds"),
        ("timeout = " + "9" * 5000, "not TOML: a number has more digits than can be read"),
        ("timeout = 2026-01-01", "timeout = 2026-01-01: a number of seconds is expected"),
        ("expect = [07:32:00]", f"expect = [07:32:00]: {LIST}"),
        ("timeout = 50\n[tool.envcheck]\n[tool.envcheck]", "not TOML: "),
        ("[[tool.envcheck]]", "tool.envcheck = [{}]: a table is expected"),
        ('tool = ["uv"]', "tool = ['uv']: one of auto, pip, uv, conda is expected"),
        ("[severity.gpu-busy]\nlevel = 1", "severity = {'gpu-busy': {'level': 1}}: a table of rules with severities is expected"),
        ('python = ""', "python = '': a path or a command is expected"),
        ('facts = ""', "facts = '': a path is expected"),
        ('rules = [""]', "rules = ['']: a list of folders is expected"),
        ('"" = 5', "unknown key ''; there are python,"),
        ("\ufefftimeout = 'x'", "timeout = 'x': a number of seconds is expected"),
        ("timeout = 50\r\nstrict = 'yes'\r\n", "strict = 'yes': true or false is expected"),
        ("zzz = 5", "unknown key 'zzz'; there are python, static,"),
        ("z" * 150_000 + " = 5", f"unknown key '{'z' * 59}…'; there are python, static,"),
        ("timeout = ", "not TOML: "),
        ("x = " + "[" * 3000, "not TOML: "),
        (r'output = "\u0000"', r"output = '\x00': a text or a list of texts is expected"),
        (r'evidence = "\u0000"', r"evidence = '\x00': a path is expected"),
        ("timeout = 0x" + "f" * 4000, "not TOML: a number of more than 1,000 digits: 0xfff"),
    ],
)
def test_a_wrong_value_is_told_with_file_key_and_what_is_expected(here: Path, text: str, words: str) -> None:
    path = put(here, text)
    for flags in ([], ["--config", str(path)]):
        with pytest.raises(UsageError) as caught:
            parse(flags)
        assert str(caught.value).startswith(f"{path}: {words}")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("timeout = 50\n".encode("utf-16"), "not UTF-8, which TOML is: byte 0xff in line 1; save it as UTF-8"),
        ("timeout = 50\n".encode("utf-16-le"), "not UTF-8, which TOML is: it holds null bytes, as UTF-16 does; save it as UTF-8"),
        ("timeout = 50\n# größe\n".encode("latin-1"), "not UTF-8, which TOML is: byte 0xf6 in line 2; save it as UTF-8"),
    ],
)
def test_a_file_in_another_encoding_is_told_so(here: Path, content: bytes, words: str) -> None:
    (here / "envcheck.toml").write_bytes(content)
    with pytest.raises(UsageError) as caught:
        parse([])
    assert str(caught.value) == f"{here / 'envcheck.toml'}: {words}"


def test_a_byte_order_mark_of_windows_is_none_of_the_contents(here: Path) -> None:
    (here / "envcheck.toml").write_bytes(b"\xef\xbb\xbftimeout = 77\r\n")
    assert parse([]).timeout == 77


@pytest.mark.parametrize("command", ["--static", "config"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('expect = ["drvr>=580"]', "expect: 'drvr>=580': drvr is no name of a fact; did you mean driver?"),
        ('ignore = ["gpu-bussy"]', "ignore: gpu-bussy: no such rule or family; did you mean gpu-busy?"),
        ('select = ["gpu-bussy"]', "select: gpu-bussy: no such rule"),
        ('severity = { gpu-busy = "bad" }', "severity: severity of gpu-busy: 'bad' is none of error, warning, info"),
        ('rules = ["none"]', "rules: rules folder "),
        ('expect = ["gpus>=8, driver>=580"]', "expect: 'gpus>=8, driver>=580': '8, driver>=580' is not a number; each expectation stands"),
        ('expect = ["gpus>=nan"]', "expect: 'gpus>=nan': 'nan' is not a number"),
    ],
)
def test_a_name_that_does_not_exist_is_told_with_the_file(
    here: Path, text: str, words: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = put(here, text)
    assert cli.main([command]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"envcheck: {path}: {words}") and err.count("\n") == 1


def test_an_interpreter_that_does_not_exist_is_told_with_the_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = put(here, 'python = "../nope"')
    assert cli.main(["--static"]) == 2
    assert capsys.readouterr().err.startswith(f"envcheck: {path}: python = ")


def test_the_tool_of_the_file_is_taken(here: Path) -> None:
    put(here, 'tool = "uv"\nnproc = "all"\nignore = { gpu-busy = "the desktop runs on this card" }\n')
    args = parse(["--ignore", "limits"])
    assert (args.tool, args.nproc) == ("uv", "all")
    settings = {one.name: (one.reason, one.file) for one in rule_session(args).ignore}
    assert settings == {"gpu-busy": ("the desktop runs on this card", str(here / "envcheck.toml")), "limits": ("--ignore", None)}
    assert parse(["--config", "envcheck.toml", "--tool", "pip"]).tool == "pip"


PROFILES = """
timeout = 77
strict = false
[profile.ci]
strict = true
output = ["json=a.json", "junit=b.xml"]
[profile.nightly]
live = "full"
"""


@pytest.mark.parametrize(
    ("head", "name"), [("", "envcheck.toml"), ("[tool.envcheck]", "envcheck.toml"), ("[tool.envcheck]", "pyproject.toml")]
)
def test_a_profile_stands_over_the_settings_and_flags_over_both(here: Path, head: str, name: str) -> None:
    put(here, head + PROFILES.replace("[profile", "[tool.envcheck.profile" if head else "[profile"), name)
    assert (parse([]).strict, parse([]).timeout, parse([]).documents) == (False, 77, [])
    ci = parse(["--profile", "ci"])
    assert (ci.strict, ci.timeout, ci.documents, ci.live) == (True, 77, [("json", "a.json"), ("junit", "b.xml")], "quick")
    assert parse(["--profile", "ci", "-o", "x.txt"]).documents == []
    assert parse(["--profile", "nightly"]).live == "full" and parse(["--profile=nightly", "--live", "off"]).live == "off"
    with pytest.raises(UsageError, match=r"--profile cI: no such profile in .*; there are ci, nightly"):
        parse(["--profile", "cI"])


def assert_refused(here: Path, text: str, words: str) -> None:
    path = put(here, text)
    with pytest.raises(UsageError) as caught:
        parse([])
    assert str(caught.value).startswith(f"{path}: {words}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[profile.ci]\nstrickt = true", "unknown key 'profile.ci.strickt'; did you mean 'strict'?"),
        ("[profile.ci]\nstrict = 1", "profile.ci.strict = 1: true or false is expected"),
        ('[profile.ci]\nlive = "fast"', "profile.ci.live = 'fast': one of quick, full, off is expected"),
        ('profile = "ci"', "profile = 'ci': a table of tables is expected"),
        ('[profile]\nci = "strict"', "profile = {'ci': 'strict'}: a table of tables is expected"),
        ('config = "other.toml"', "config: a file cannot choose the file; use --config"),
        ('[profile.ci]\nprofile = "x"', "profile.ci.profile: a file cannot choose the profile; use --profile"),
        ("fix_suggest = true", "unknown key 'fix_suggest'; did you mean 'fix-suggest'?"),
        ('color = "pink"', "color = 'pink': one of auto, always, never is expected"),
        ("output = 5", "output = 5: a text or a list of texts is expected"),
    ],
)
def test_a_wrong_profile_is_told_though_nobody_chose_it(here: Path, text: str, words: str) -> None:
    assert_refused(here, text, words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("timeout = nan", "timeout = nan: between 5 and 86400 seconds"),
        ("nproc = 0", "nproc = 0: between 1 and 256"),
        ('output = ["jsn=a.json"]', "output = jsn=a.json: jsn is no format; did you mean json? (a file of this name: ./jsn=a.json)"),
        ('output = ["qwx=a"]', "output = qwx=a: qwx is no format; there are text, json, "),
        ('output = ""', "output = '': no file is named"),
        ('output = ["json=a", "junit=./a"]', "output = "),
        ('output = ["json="]', "output = json=: no file is named"),
        ('output = ["a.txt", "b.txt"]', "output = b.txt: a second file needs its format, as in -o json=b.txt"),
        ('index-base = "my mirror"', "index-base = my mirror: an address is expected, as in https://mirror.example/whl"),
        ("quiet = true\nverbose = true", "quiet = True and verbose = True contradict each other"),
        ('json = true\nformat = "html"', "json = True and format = 'html' contradict each other"),
        ('static = true\nlive = "full"', "static = True and live = 'full' contradict each other: the live check needs torch"),
    ],
)
def test_what_the_flag_refuses_is_refused_in_the_name_of_the_file(here: Path, text: str, words: str) -> None:
    assert_refused(here, text, words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('assume = ["foo"]', "assume = foo: write SECTION.FIELD=VALUE, as in driver.version=580.95.05"),
        ('assume = ["driver.vers=3"]', "assume = driver.vers=3: vers: no such fact; known here: version, "),
        ('evidence = "/dev/null/x"', "evidence = /dev/null/x: Not a directory"),
        ('output = ["nowhere/report.txt"]', "output = nowhere/report.txt: cannot be written"),
        ('output = ["json=nowhere/report.json"]', "output = json=nowhere/report.json: cannot be written"),
    ],
)
def test_a_value_that_fails_later_is_told_in_the_name_of_the_file(
    here: Path, text: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = put(here, text)
    assert cli.main(["--facts", str(DOCUMENTS / "record-healthy.json")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"envcheck: {path}: {words}") and err.count("\n") == 1


def test_flags_that_contradict_are_named_as_flags(here: Path) -> None:
    for flags, words in (
        (["-q", "-v"], "--quiet and --verbose contradict each other"),
        (["--json", "--format", "html"], "--json and --format html contradict each other"),
        (["--static", "--live", "full"], "--static and --live full contradict each other: the live check needs torch"),
    ):
        with pytest.raises(UsageError) as caught:
            parse(flags)
        assert str(caught.value) == words


def test_every_flag_of_a_check_is_a_key(here: Path) -> None:
    """And works as the flag does: the file holds a value that is not the default."""
    flags = {
        flag: action
        for flag, action in options.command_parser("check").flags.items()
        if flag.startswith("--") and not flag.startswith("--no-")
    }
    others = {"--help", "--version", "--config", "--profile", "--try", "--yes", "--try-timeout"}  # who downloads gigabytes says so himself
    assert {flag[2:] for flag in flags} - {flag[2:] for flag in others} <= KEYS.keys()
    for flag in flags.keys() - others:
        action, key = flags[flag], flag[2:]
        value: Any = next((one for one in action.choices or () if one != action.default), None)
        if value is None:
            listed = isinstance(action.default, list)
            value = (
                True
                if action.nargs == 0
                else ["gpus>=0"]
                if key == "expect"
                else ["limits"]
                if listed
                else 7
                if key in ("nproc", "timeout")
                else "https://mirror.example/whl"
                if key == "index-base"
                else "x"
            )
        (here / "envcheck.toml").write_text(f"{key} = {json.dumps(value)}\n")
        assert getattr(parse([]), action.dest) not in (action.default, None), key


@pytest.mark.parametrize(("file", "flags", "expected"), [
    ("json = true", ["--format", "html"], {"format": "html"}),
    ('format = "html"', ["--json"], {"format": "json"}),
    ("quiet = true", ["-v"], {"quiet": False, "verbose": True}),
    ("verbose = true", ["-q"], {"quiet": True, "verbose": False}),
    ("static = true", ["--live", "full"], {"static": False, "live": "full"}),
    ('format = "html"\n[profile.ci]\njson = true', ["--profile", "ci"], {"format": "json"}),
    ('static = true\n[profile.ci]\nlive = "full"', ["--profile", "ci"], {"static": False, "live": "full"}),
    ('live = "full"', ["--static"], {"static": True}),
    ('output = "file.txt"', ["-o-"], {"output": None}),
    ('output = "file.txt"', ["-oother.txt"], {"output": "other.txt"}),
])  # fmt: skip
def test_a_flag_takes_back_what_the_file_says(here: Path, file: str, flags: list[str], expected: dict[str, Any]) -> None:
    put(here, file)
    args = parse(flags)
    assert {name: getattr(args, name) for name in expected} == expected


def test_config_says_what_is_in_force_and_who_set_it(here: Path) -> None:
    path = put(here, PROFILES + '[severity]\nnumpy-abi = "error"\n'.replace("[severity]", "[profile.ci.severity]"))
    shown = run("config", "--profile", "ci", "--nproc", "4", "--json", cwd=here)
    assert shown.returncode == 0, shown.stderr
    document = json.loads(shown.stdout)
    assert document["config"] == {"path": str(path), "passed_over": [], "profile": "ci"}
    rows = {key: (one["value"], one["from"]) for key, one in document["settings"].items()}
    assert rows["timeout"] == (77, str(path)) and rows["strict"] == (True, f"{path} [profile.ci]")
    assert rows["nproc"] == (4, "command line") and rows["live"] == ("quick", "default")
    assert rows["severity"] == ({"numpy-abi": "error"}, f"{path} [profile.ci]")
    text = run("config", cwd=here).stdout
    assert f"# {path}\n" in text and "strict = false" in text and "# python is not set" in text


def test_config_shows_no_secret(here: Path) -> None:
    text = "index-base = 'https://u:S3cr3tP4ss9@h/whl'\npython = '/x/ghp_abcdefghijklmnopqrstuvwx0123456789/y'\n"
    put(here, f"{text}ignore = {{ gpu-busy = 'password=S3cr3tP4ss9' }}\n")
    for flags in ([], ["--json"]):
        shown = run("config", *flags, cwd=here).stdout
        assert shown.count("[secret]") == 3 and not re.search("S3cr|P4ss9|ghp_", shown)


def test_what_config_prints_is_a_configuration(here: Path) -> None:
    put(here, PROFILES)
    shown = run("config", "--profile", "ci", "--nproc", "4", cwd=here).stdout
    before = vars(parse(["--profile", "ci", "--nproc", "4"]))
    put(here, shown)
    after = vars(parse([]))
    same = before.keys() - {"configuration", "configured", "profiled", "given", "profile"}
    assert {name: after[name] for name in same} == {name: before[name] for name in same}


def test_init_writes_what_a_check_then_meets(here: Path) -> None:
    done = run("init", cwd=here)
    assert done.returncode == 0, done.stderr
    text = (here / "envcheck.toml").read_text()
    assert f"python=={sys.version_info[0]}.{sys.version_info[1]}.*" in text
    again = run("init", cwd=here)
    assert again.returncode == 2 and "there is such a file already" in again.stderr and (here / "envcheck.toml").read_text() == text
    checked = run("--live", "off", "--profile", "ci", "--json", cwd=here)
    report = json.loads((here / "envcheck.json").read_text())
    assert [one["outcome"] for one in report["expectations"]] == ["met"] * text.count('  "')
    assert checked.returncode in (0, 3), checked.stderr
    assert run("init", "-o", "-", cwd=here).stdout == text


@pytest.mark.parametrize(("base", "wanted"), [
    ("h100x8", ["gpus>=8", "gpu==NVIDIA H100 80GB HBM3", "driver>=580"]),
    ("cpu", []),
])  # fmt: skip
def test_init_expects_the_machine_that_it_sees(base: str, wanted: list[str]) -> None:
    snapshot = machine(base)
    rows = expectations(snapshot)
    assert [one for one in rows if not one.startswith(("torch", "python"))] == wanted
    assert any(one.startswith("torch==") for one in rows) and any(one.startswith("python==") for one in rows)
    told = expected(snapshot, rows).expectations
    assert isinstance(told, ExpectationsFacts) and sorted(told.met) == sorted(rows)


def test_the_template_names_keys_that_exist(here: Path) -> None:
    live = re.sub(r"(?m)^# (?=[a-z-]+ = )", "", TEMPLATE.replace("@expect@", "[]").replace("ignore = {", "ignore = {"))
    put(here, live.replace('rules = ["envcheck-rules"]  # folders', "rules = []  # folders"))
    args = parse([])
    assert args.backend == "auto" and args.severities == {"numpy-abi": "error"} and args.index_base == "https://mirror.example/whl"


@pytest.mark.parametrize("name", ["nowhere.toml", ".", "a\0b"])
def test_a_named_file_that_cannot_be_read(here: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"^--config "):
        parse(["--config", name])


def test_a_file_of_ours_that_cannot_be_read_is_told(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(here)

    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(UsageError, match=f"^{path}: cannot be read: Permission denied"):
        parse([])
