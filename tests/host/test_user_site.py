"""Root has no Python run what others have put into its user site."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from patients import SOON

from envcheck.evidence import flight_recorder
from envcheck.host import user_site
from envcheck.host.access import RealHost
from envcheck.host.user_site import foreign_user_site
from envcheck.target.interpreter import choose

NOBODY = 65534
ROOT = Path(__file__).parents[2]
PYTHON = os.path.realpath(sys.executable)  # of no virtual environment
BELOW = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a folder to another user")


def planted(base: Path) -> Path:
    """A user site that tells of each Python that reads it, by what it starts first; its folders are nobody's."""
    site = base / BELOW
    site.mkdir(parents=True)
    (site / "theirs.pth").write_text(f"import os; open({str(base.parent / 'ran')!r}, 'a').write('x')\n")
    for folder in (site, *list(site.parents)[:3]):
        os.chown(folder, NOBODY, NOBODY)
    return site


def envcheck(*words: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "300", **variables}
    return subprocess.run([sys.executable, "-m", "envcheck", *words], capture_output=True, text=True, env=env, timeout=SOON, cwd=cwd)


@pytest.mark.parametrize("variable", ["HOME", "PYTHONUSERBASE"])
@pytest.mark.parametrize("whose", ["theirs", "empty place", "ours"])
def test_a_user_site_of_others_is_not_read(tmp_path: Path, variable: str, whose: str) -> None:
    home = tmp_path / "home"
    base = home / ".local" if variable == "HOME" else home
    site = planted(base)
    if whose == "ours":
        for path in (*site.parents[:4], site):
            os.chown(path, 0, 0)
    given = {variable: str(home)}
    assert subprocess.run([PYTHON, "-c", ""], env={**os.environ, **given}, check=False).returncode == 0
    assert (base.parent / "ran").read_text() == "x", "it is read where nobody is in the way"
    if whose == "empty place":  # they may put it there at any time
        (base.parent / "empty").mkdir(mode=0o1777)
        (base.parent / "empty").chmod(0o1777)
        given = {variable: str(base.parent / "empty")}
    done = envcheck("--static", "--json", "--python", PYTHON, cwd=tmp_path, **given)
    python = json.loads(done.stdout)["facts"]["python"]
    ran = (base.parent / "ran").read_text()
    line = f"Python's user site {base} was passed over: {base}/lib belongs to nobody (uid 65534)"
    if whose == "ours":
        assert ran.count("x") == 2 and python["user_site_enabled"] and str(site) in python["sys_path"] and done.stderr == ""
    else:
        assert ran == "x" and not python["user_site_enabled"] and python["variables"]["PYTHONNOUSERSITE"] == "1"
    assert python["chosen_because"] == (f"--python; {line}" if whose == "theirs" else "--python")
    assert done.stderr == (f"envcheck: {line}\n" if whose == "theirs" else "")


def test_the_line_is_in_the_report_in_both_languages(tmp_path: Path) -> None:
    planted(tmp_path / ".local")
    words = ("--static", "--select", "meta", "--python", PYTHON)
    english, chinese = ("".join(envcheck(*words, "--lang", one, cwd=tmp_path, HOME=str(tmp_path)).stdout.split()) for one in ("en", "zh"))
    base = f"{tmp_path}/.local"
    assert f"givenwith--python;Python'susersite{base}waspassedover:{base}/libbelongstonobody(uid65534)" in english
    assert f"由--python指定；略过了Python的用户site目录{base}：{base}/lib属于nobody(uid65534)" in chinese
    assert "passed" not in chinese


def test_a_job_says_it_on_each_host(tmp_path: Path) -> None:
    planted(tmp_path / ".local")
    seat = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29876"}
    done = envcheck("fleet", "--python", PYTHON, cwd=tmp_path, HOME=str(tmp_path), **seat)
    assert f": Python's user site {tmp_path}/.local was passed over: {tmp_path}/.local/lib belongs to nobody" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_other_programs_that_root_starts(tmp_path: Path) -> None:
    """rocm-smi is written in Python; torchfrtrace belongs to the target."""
    planted(tmp_path / ".local")
    host = RealHost({**os.environ, "HOME": str(tmp_path)})
    assert host.run((PYTHON, "-c", "print('started')"), timeout=SOON).stdout == "started\n"
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    (dumps / "nccl.fr_0").write_text("x")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path))
        assert len(flight_recorder.analyse(str(dumps), PYTHON)) == 1
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda site: os.chown(site, NOBODY, NOBODY), "it belongs to nobody (uid 65534)"),
        (lambda site: os.chown(site.parents[3], NOBODY, NOBODY), "{home} belongs to nobody (uid 65534)"),
        (lambda site: site.parents[1].chmod(0o777), "others can write to {home}/.local/lib"),
        (lambda site: (os.chown(site.parents[2], 0, 4242), site.parents[2].chmod(0o770)), "the group gid 4242 can write to {home}/.local"),
        (lambda site: None, None),
    ],
    ids=["site", "home", "open", "group", "ours"],
)
def test_whose_hand_is_in_it(tmp_path: Path, change: Callable[[Path], object], reason: str | None) -> None:
    home = tmp_path / "home"
    site = home / ".local" / BELOW
    site.mkdir(parents=True)
    change(site)
    found = foreign_user_site({"HOME": str(home)})
    assert (found and (found.folder, found.reason, found.there)) == (reason and (f"{home}/.local", reason.format(home=home), True))
    assert foreign_user_site({"HOME": str(home), "PYTHONNOUSERSITE": "1"}) is None


def test_where_root_is_at_home_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for env in ({}, {"HOME": "/root"}, {"HOME": ""}, {"HOME": os.devnull}):
        assert foreign_user_site(env) is None
    relative = foreign_user_site({"HOME": "."})
    assert relative is not None and (relative.folder, relative.there) == ("./.local", False)
    planted(tmp_path / ".local")
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    assert foreign_user_site({"HOME": str(tmp_path)}) is None, "a user knows whose HOME he has"


@pytest.mark.parametrize(("told", "config"), [(False, "home = /usr/bin\n"), (True, "include-system-site-packages = true\n"), (True, None)])
def test_an_environment_that_reads_none_needs_no_line(tmp_path: Path, told: bool, config: str | None) -> None:
    planted(tmp_path / ".local")
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "python").symlink_to(PYTHON)
    if config:
        (tmp_path / "venv" / "pyvenv.cfg").write_text(config)
    chosen = choose(str(tmp_path / "venv"), {"HOME": str(tmp_path)})
    assert ("was passed over" in chosen.because, "was passed over" in chosen.note) == (told, told)


@pytest.mark.parametrize("enabled", [True, False])
def test_what_our_own_process_has_read_is_not_kept_from_the_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enabled: bool) -> None:
    """`sudo -E python3 -m envcheck` with envcheck and torch in ~/.local: to hide that torch would protect nobody."""
    planted(tmp_path / ".local")
    import site

    monkeypatch.setattr(site, "ENABLE_USER_SITE", enabled)
    env: Mapping[str, str] = {"HOME": str(tmp_path)}
    assert (user_site.without_user_site(env, sys.executable) == env) is enabled
    assert user_site.without_user_site(env, PYTHON + "x") == {**env, "PYTHONNOUSERSITE": "1"}
