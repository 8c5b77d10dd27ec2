"""Which interpreter is examined: the one asked for, envcheck's own, or, for a tool of its own, the one that the user works with."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from tool_install import Tool, environment, install, needs_uv, put_torch, site_packages

from envcheck.errors import UsageError
from envcheck.target import interpreter as environments
from envcheck.target.interpreter import choose, of_tool
from envcheck.target.process import Target


def python_in(folder: Path, name: str = "python3") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def on_path(*folders: Path | str) -> dict[str, str]:
    return {"PATH": os.pathsep.join(map(str, folders))}


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This interpreter takes itself for that of a tool, which someone has put torch into, and stands in an empty folder."""
    folder = tmp_path / "tools" / "torch-envcheck"
    python_in(folder / "bin", "python")
    python_in(folder / "bin", "python3")
    (folder / "uv-receipt.toml").touch()
    monkeypatch.setattr(sys, "prefix", str(folder))
    monkeypatch.setattr(environments, "_holds_torch", lambda: True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return folder


def test_an_environment_folder_will_do(tmp_path: Path) -> None:
    python = python_in(tmp_path / "bin", "python")
    assert choose(str(tmp_path), {}) == Target(python, "--python")
    assert choose(str(tmp_path), {}, "/home/me/envcheck.toml") == Target(python, "set in /home/me/envcheck.toml")


@pytest.mark.parametrize(
    ("name", "words"), [("/nowhere/python", "no such file"), ("no-such-python-3.99", "not found on PATH"), ("/etc", "without bin/python")]
)
def test_not_there(name: str, words: str) -> None:
    with pytest.raises(UsageError, match=f"^--python {name}: .*{words}"):
        choose(name, {})
    with pytest.raises(UsageError, match=f"^envcheck.toml: python = '{name}': .*{words}"):
        choose(name, {}, "envcheck.toml")


def test_not_executable(tmp_path: Path) -> None:
    path = tmp_path / "python"
    path.write_text("")
    with pytest.raises(UsageError, match="not executable"):
        choose(str(path), {})


def test_where_it_is_installed_beside_others_it_examines_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "_holds_torch", lambda: False)
    assert choose(None, {"VIRTUAL_ENV": "/nowhere"}) == Target(sys.executable, "envcheck runs in it")


@pytest.mark.parametrize(("variable", "because"), [("VIRTUAL_ENV", "VIRTUAL_ENV is active"), ("CONDA_PREFIX", "CONDA_PREFIX is active")])
def test_a_tool_gives_way_to_the_active_environment(tool: Path, tmp_path: Path, variable: str, because: str) -> None:
    python = python_in(tmp_path / "work" / "bin", "python")
    elsewhere = on_path(Path(python_in(tmp_path / "other")).parent)
    assert choose(None, {**elsewhere, variable: str(tmp_path / "work")}) == Target(python, because)
    # `uvx` and `uv run` make their own environment the active one: it is nobody's
    assert choose(None, {**elsewhere, variable: str(tool)}).executable == str(tmp_path / "other" / "python3")


def test_a_tool_gives_way_to_the_environment_of_the_folder(tool: Path, tmp_path: Path) -> None:
    python = python_in(tmp_path / "here" / ".venv" / "bin", "python")
    assert choose(None, on_path(Path(python_in(tmp_path / "other")).parent)) == Target(python, "./.venv is here")


def test_conda_s_base_gives_way_to_the_environment_of_the_folder_and_to_nothing_else(tool: Path, tmp_path: Path) -> None:
    """As uv has it: base is active in every shell of many users, so nobody chose it; another conda environment was chosen."""
    conda = python_in(tmp_path / "conda" / "bin", "python")
    shell = {**on_path(Path(python_in(tmp_path / "other")).parent), "CONDA_PREFIX": str(tmp_path / "conda"), "CONDA_DEFAULT_ENV": "base"}
    assert choose(None, shell) == Target(conda, "CONDA_PREFIX is active")
    python = python_in(tmp_path / "here" / ".venv" / "bin", "python")
    assert choose(None, shell) == Target(python, "./.venv is here, and goes before conda's base")
    assert choose(None, {**shell, "CONDA_DEFAULT_ENV": "train"}) == Target(conda, "CONDA_PREFIX is active")


def test_a_tool_takes_the_python_on_the_path(tool: Path, tmp_path: Path) -> None:
    python = python_in(tmp_path / "a" / "bin")
    python_in(tmp_path / "b" / "bin")
    because = "it is the first python3 on PATH, and no environment is active"
    assert choose(None, on_path(tmp_path / "a" / "bin", tmp_path / "b" / "bin")) == Target(python, because)


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
@pytest.mark.parametrize("left", ["nothing", "a folder", "a link to a Python that was removed"])
def test_an_active_environment_that_is_gone_is_named(tool: Path, tmp_path: Path, variable: str, left: str) -> None:
    gone = tmp_path / "gone"
    if left != "nothing":
        (gone / "bin").mkdir(parents=True)
    if left.startswith("a link"):
        (gone / "bin" / "python").symlink_to("/nowhere/python3.9")
    python = python_in(tmp_path / "bin")
    active = {variable: str(gone)}
    said = f"; {variable} names {gone}, which has no interpreter"
    assert choose(None, {**on_path(tmp_path / "bin"), **active}) == Target(python, f"it is the first python3 on PATH{said}")
    with pytest.raises(UsageError, match=f"^no environment to examine: activate one or give --python{said}"):
        choose(None, active)


def test_python_alone_will_do(tool: Path, tmp_path: Path) -> None:
    python = python_in(tmp_path / "bin", "python")
    assert choose(None, on_path(tmp_path / "bin")) == Target(python, "it is the first python on PATH, and no environment is active")
    python3 = python_in(tmp_path / "later")
    assert choose(None, on_path(tmp_path / "bin", tmp_path / "later")).executable == python3, "`python` may be Python 2"


def test_its_own_python_is_not_taken_by_whatever_name(tool: Path, tmp_path: Path) -> None:
    """Its folder comes first on PATH under uvx; a link to its python leads there; another tool's environment is as bad."""
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "python3").symlink_to(tool / "bin" / "python3")
    (tmp_path / "same").symlink_to(tool)
    python_in(tmp_path / "pipx" / "bin")
    (tmp_path / "pipx" / "pipx_metadata.json").touch()
    python = python_in(tmp_path / "work" / "bin")
    path = (tool / "bin", tmp_path / "same" / "bin", tmp_path / "links", tmp_path / "pipx" / "bin", tmp_path / "work" / "bin")
    assert choose(None, on_path(*path)).executable == python
    with pytest.raises(UsageError, match="no environment to examine"):
        choose(None, on_path(*path[:-1]))


def test_interpreters_that_share_a_binary_are_told_apart(tool: Path, tmp_path: Path) -> None:
    """The tool's python and the user's are links to one file of the system."""
    base = python_in(tmp_path / "usr" / "bin", "python3.11")
    for folder in (tool / "bin", tmp_path / "work" / "bin"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "python3").unlink(missing_ok=True)
        (folder / "python3").symlink_to(base)
    assert choose(None, on_path(tool / "bin", tmp_path / "work" / "bin")).executable == str(tmp_path / "work" / "bin" / "python3")


def test_a_relative_entry_of_the_path_is_left_out(tool: Path, tmp_path: Path) -> None:
    python_in(tmp_path / "here")
    with pytest.raises(UsageError, match="no environment to examine"):
        choose(None, on_path("", ".", "../here"))


def test_without_any_the_candidates_are_named(tool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"^no environment to examine: activate one or give --python$"):
        choose(None, {"PYENV_ROOT": str(tmp_path / "none")})
    home = tmp_path / "home"
    expected = [
        tmp_path / "venv",
        home / "conda-envs" / "a",
        home / "miniconda3" / "envs" / "b",
        tmp_path / "pyenv" / "versions" / "3.12.1",
    ]
    for folder in expected:
        python_in(folder / "bin", "python")
    (home / ".conda").mkdir()
    (home / ".conda" / "environments.txt").write_text(f"{home}/conda-envs/a\n{home}/gone\n")
    with pytest.raises(UsageError) as caught:
        choose(
            None, {"PYENV_ROOT": str(tmp_path / "pyenv"), **on_path(Path(python_in(tmp_path / "usr", "python3.12")).parent, tool / "bin")}
        )
    places = [*expected, tmp_path / "usr" / "python3.12"]
    assert str(caught.value).endswith(f"give --python; there are {', '.join(map(str, places))}")


def test_what_uvx_runs_is_a_tool_and_what_uv_keeps_for_a_script_is_not(tmp_path: Path) -> None:
    (tmp_path / "CACHEDIR.TAG").touch()
    for folder in ("archive-v0", "builds-v0", "environments-v2"):
        (tmp_path / folder / "x").mkdir(parents=True)
        (tmp_path / folder / "x" / "pyvenv.cfg").write_text("home = /usr/bin\nuv = 0.13.9\n")
    assert of_tool(str(tmp_path / "archive-v0" / "x")) and of_tool(str(tmp_path / "builds-v0" / "x"))
    assert not of_tool(str(tmp_path / "environments-v2" / "x"))
    (tmp_path / "CACHEDIR.TAG").unlink()
    assert not of_tool(str(tmp_path / "archive-v0" / "x"))


@pytest.mark.parametrize(("extends", "own"), [("project", False), ("elsewhere", True)])
def test_a_torch_that_uv_run_adds_is_examined_where_it_is(
    tool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extends: str, own: bool
) -> None:
    """`uv run --with torch-envcheck` shows the project's torch through its layer; `--with torch` puts one into the layer."""
    (tmp_path / "project" / "torch").mkdir(parents=True)
    (tmp_path / "project" / "torch" / "__init__.py").touch()
    (tool / "pyvenv.cfg").write_text(f"uv = 0.13.9\nextends-environment = {tmp_path / extends}\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "project")])
    python = python_in(tmp_path / "work" / "bin")
    assert choose(None, on_path(tmp_path / "work" / "bin")).executable == (sys.executable if own else python)


# ---- the real thing


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Tool:
    return install(tmp_path_factory.mktemp("uv-tool"))


@needs_uv
def test_an_installed_tool_examines_the_python_on_the_path(installed: Tool, tmp_path: Path) -> None:
    work = environment(tmp_path / "work", torch=True)
    done = installed.run("--static", "--json", cwd=tmp_path, path=f"{installed.environment}/bin:{work}/bin:/usr/bin:/bin")
    report = json.loads(done.stdout)
    assert (done.returncode, report["findings"]) == (0, []), done
    assert report["facts"]["python"]["prefix"] == str(work)
    assert report["facts"]["python"]["chosen_because"] == "it is the first python3 on PATH, and no environment is active"
    assert report["facts"]["torch"]["version"] == "2.13.0+cpu"


@needs_uv
def test_an_installed_tool_without_an_environment_names_what_is_there(installed: Tool, tmp_path: Path) -> None:
    work = environment(tmp_path / "venv", torch=True)
    (tmp_path / "below").mkdir()
    for words in (("--static",), ("plan", "torch"), ("record", "--static")):
        done = installed.run(*words, cwd=tmp_path / "below", path="/nowhere")
        assert (done.returncode, done.stdout) == (2, ""), done
        assert done.stderr.startswith("envcheck: no environment to examine: activate one or give --python")
        assert str(work) in done.stderr and str(installed.environment) not in done.stderr


@needs_uv
def test_nothing_is_ever_installed_into_the_tool(installed: Tool, tmp_path: Path) -> None:
    """Not even after someone has put torch there. Where --python names it, a virtual environment comes first."""
    work = environment(tmp_path / "work", torch=False)
    put_torch(site_packages(installed.environment))
    everywhere = f"{installed.environment}/bin:{work}/bin:/usr/bin:/bin"
    for words in (("--static", "--json"), ("--static", "--fix-suggest"), ("plan", "torch", "--json"), ("plan", "torch", "--files")):
        done = installed.run(*words, cwd=tmp_path, path=everywhere, VIRTUAL_ENV=str(installed.environment))
        assert f"{installed.environment}/" not in done.stdout + done.stderr, words
        assert f"{work}/bin/python" in done.stdout, words
    named = installed.run(
        "plan", "torch==2.12.*", "--json", "--static", "--python", str(installed.environment), cwd=tmp_path, path=everywhere
    )
    for way in json.loads(named.stdout)["plan"]["ways"]:
        for line in (*way["commands"]["pip"], *way["commands"]["uv"]):
            into_venv = line.startswith((".venv/bin/python -m pip ", "uv venv", "uv pip ")) and str(installed.environment) not in line
            assert into_venv or line.endswith("/bin/python -m venv .venv"), line


@needs_uv
def test_a_tool_of_the_same_name_in_the_same_folder_is_told(installed: Tool, tmp_path: Path) -> None:
    """PyPI's own `envcheck` writes its files over ours; whichever command answered, nobody could tell whose verdict it was."""
    assert installed.run("--version", cwd=tmp_path).stdout.startswith("envcheck ")
    other = site_packages(installed.environment) / "envcheck-0.0.9.dist-info"
    other.mkdir()
    try:
        for command in ("envcheck", "torch-envcheck"):
            ended = Tool(installed.environment, installed.command.with_name(command)).run("--version", cwd=tmp_path)
            assert (ended.returncode, ended.stdout) == (2, "")
            assert "envcheck-0.0.9, another tool, is installed over torch-envcheck" in ended.stderr
            assert "pip uninstall envcheck" in ended.stderr
    finally:
        other.rmdir()
