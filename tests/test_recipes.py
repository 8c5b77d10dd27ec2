"""The recipes, run as their hosts run them: a GitHub step, a Slurm prolog, hooks and containers by what they call."""

from __future__ import annotations

import configparser
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from patients import needs_torch

from envcheck import __version__
from envcheck.options import parse

ROOT = Path(__file__).parents[1]
RECIPES = ROOT / "recipes"


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    """envcheck as a program at a path of its own."""
    path = tmp_path / "opt" / "envcheck"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nexec env PYTHONPATH={shlex.quote(str(ROOT))} {shlex.quote(sys.executable)} -m envcheck "$@"\n')
    path.chmod(0o755)
    return path


def prolog(tool: Path, config: str) -> subprocess.CompletedProcess[str]:
    path = tool.parent / "envcheck.toml"
    path.write_text(config)
    env = {**os.environ, "ENVCHECK": str(tool), "ENVCHECK_CONFIG": str(path), "ENVCHECK_PYTHON": sys.executable}
    return subprocess.run(["bash", str(RECIPES / "slurm-prolog.sh")], capture_output=True, text=True, env=env, timeout=120)


def test_the_prolog_drains_a_node_only_for_what_is_certain(tool: Path) -> None:
    healthy = prolog(tool, 'expect = ["python>=3.8"]\n')
    assert (healthy.returncode, healthy.stdout) == (0, "")
    broken = prolog(tool, 'expect = ["gpus>=99"]\n')
    assert (broken.returncode, broken.stdout) == (1, "print envcheck: Not ready: 1 error\n"), "Slurm shows lines that begin with print"
    undecided = prolog(tool, 'expect = ["ranks>=2"]\n')
    assert (undecided.returncode, undecided.stdout) == (0, ""), "nobody drains a node for what --static cannot tell"
    misspelled = prolog(tool, 'expct = ["ranks>=2"]\n')
    assert misspelled.returncode == 0


def test_the_action_is_a_step_that_calls_its_script() -> None:
    text = (ROOT / "action.yml").read_text()
    assert re.search(r"using: composite", text) and 'bash "$GITHUB_ACTION_PATH/recipes/github-action.sh"' in text
    run = text[text.index("      run:") :]
    assert "${{" not in run, "an input in the script would be run"


@pytest.mark.slow
@pytest.mark.parametrize(("flags", "code", "verdict"), [("--static", 0, "pass"), ("--static --expect gpus>=99", 1, "fail")])
def test_the_step_as_a_runner_runs_it(tmp_path: Path, flags: str, code: int, verdict: str) -> None:
    output, summary = tmp_path / "output", tmp_path / "summary"
    env = {**os.environ, "GITHUB_ACTION_PATH": str(ROOT), "GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary)}
    env |= {
        "RUNNER_TEMP": str(tmp_path),
        "ENVCHECK_PYTHON": sys.executable,
        "ENVCHECK_FLAGS": flags,
        "ENVCHECK_HOST_PYTHON": sys.executable,
    }
    done = subprocess.run(["bash", str(RECIPES / "github-action.sh")], capture_output=True, text=True, env=env, cwd=tmp_path, timeout=300)
    assert done.returncode == code, done.stderr
    told = dict(line.split("=", 1) for line in output.read_text().splitlines())
    assert told["verdict"] == verdict and json.loads(Path(told["report"]).read_text())["exit_code"] == code
    assert done.stdout.splitlines()[-1].startswith("::notice" if code == 0 else "::error")
    assert summary.read_text().startswith("### envcheck ")


HEALTHY, SICK = "", 'expect = ["gpus>=99"]\n'


def environment(folder: Path, tool: Path, settings: str) -> dict[str, str]:
    """A project whose settings these are, with the tool on PATH beside a pip and a pytest that only say that they were called."""
    (folder / "envcheck.toml").write_text(f"static = true\n{settings}")
    for name in ("pip", "pytest"):
        program = tool.parent / name
        program.write_text(f'#!/bin/sh\necho {name} "$@" >> {shlex.quote(str(folder / "called"))}\n')
        program.chmod(0o755)
    return {**os.environ, "PATH": f"{tool.parent}{os.pathsep}{os.environ['PATH']}", "VIRTUAL_ENV": sys.prefix}


def called(folder: Path) -> list[str]:
    path = folder / "called"
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize(("settings", "trained"), [(HEALTHY, ["pytest tests/train"]), (SICK, [])])
def test_the_nox_session_ends_where_the_environment_will_not_train(
    tmp_path: Path, tool: Path, monkeypatch: pytest.MonkeyPatch, settings: str, trained: list[str]
) -> None:
    env = environment(tmp_path, tool, settings)
    installed: list[str] = []

    def run(*words: str) -> None:  # as nox: what fails ends the session
        subprocess.run(words, check=True, env=env, cwd=tmp_path, timeout=60, capture_output=True)

    wheel = tmp_path / "dist" / "torch_envcheck-0.1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.touch()
    monkeypatch.chdir(tmp_path)  # nox goes into the folder of the noxfile
    monkeypatch.setitem(sys.modules, "nox", SimpleNamespace(session=lambda function: function, Session=object))
    session = SimpleNamespace(install=lambda *words: installed.extend(words), run=run)
    recipe = runpy.run_path(str(RECIPES / "noxfile.py"))["train"]
    with nullcontext() if trained else pytest.raises(subprocess.CalledProcessError, match="exit status 1"):
        recipe(session)
    assert str(wheel.relative_to(tmp_path)) in installed and called(tmp_path) == trained


@pytest.mark.parametrize(("settings", "trained"), [(HEALTHY, ["pytest tests/train"]), (SICK, [])])
def test_the_tox_environment_ends_where_it_will_not_train(tmp_path: Path, tool: Path, settings: str, trained: list[str]) -> None:
    env = environment(tmp_path, tool, settings)
    recipe = configparser.ConfigParser()
    recipe.read(RECIPES / "tox.ini")
    [section] = recipe.sections()
    for line in recipe[section]["commands"].split("\n"):
        if line and subprocess.run(shlex.split(line), env=env, cwd=tmp_path, timeout=60, capture_output=True).returncode:
            break
    assert any("/torch_envcheck-" in one for one in recipe[section]["deps"].split()) and called(tmp_path) == trained


@pytest.mark.parametrize(("settings", "code"), [(HEALTHY, 0), (SICK, 1)])
def test_the_pre_commit_hook_stops_a_commit(tmp_path: Path, tool: Path, settings: str, code: int) -> None:
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    env = environment(tmp_path, tool, settings)
    done = subprocess.run(shlex.split(hook["entry"]), env=env, cwd=tmp_path, timeout=60, capture_output=True, text=True)
    assert done.returncode == code and bool(done.stdout) is bool(code), "silent where all is well"
    assert hook["language"] == "system" and hook["pass_filenames"] is False and hook["always_run"] is True


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize(("settings", "code"), [(HEALTHY, 0), (SICK, 1)])
def test_the_image_is_not_built_where_it_would_not_train(tmp_path: Path, tool: Path, settings: str, code: int) -> None:
    [line] = [row for row in (RECIPES / "Dockerfile").read_text().splitlines() if row.startswith("RUN ")]
    env = environment(tmp_path, tool, settings)
    done = subprocess.run(["sh", "-c", line.removeprefix("RUN ")], env=env, cwd=tmp_path, timeout=120, capture_output=True, text=True)
    assert done.returncode == code, done.stdout
    assert called(tmp_path) == ["pip install torch-envcheck"] and ("gpus>=99" in done.stdout) is bool(code)


def test_the_init_container_says_why_training_does_not_start(tmp_path: Path, tool: Path) -> None:
    """As the kubelet runs it: the message is what stands in the file, 4096 bytes at most."""
    pod = yaml.safe_load((RECIPES / "kubernetes-init-container.yaml").read_text())
    [init] = pod["spec"]["initContainers"]
    words = [word.replace("/dev/termination-log", str(tmp_path / "termination-log")) for word in init["command"]]
    assert words != init["command"] and "terminationMessagePath" not in init, "the path is Kubernetes' default"
    done = subprocess.run(words, env=environment(tmp_path, tool, SICK), cwd=tmp_path, timeout=60, capture_output=True, text=True)
    message = (tmp_path / "termination-log").read_text()
    assert done.returncode == 1 and len(message.encode()) <= 4096
    assert "gpus>=8" in message and message.splitlines()[-1].startswith("Not ready:")
    assert init["volumeMounts"] == pod["spec"]["containers"][0]["volumeMounts"]


def calls() -> list[str]:
    """Each command line of envcheck in the recipes."""
    texts = [path.read_text() for path in (*RECIPES.iterdir(), ROOT / ".pre-commit-hooks.yaml")]
    found = [line for text in texts for line in re.findall(r"(?:^|&& |entry: |    )(envcheck --.*)$", text, re.MULTILINE)]
    pod = re.search(r"command: \[(envcheck, .*)\]", (RECIPES / "kubernetes-init-container.yaml").read_text())
    nox = re.search(r'session\.run\(("envcheck".*)\)', (RECIPES / "noxfile.py").read_text())
    assert pod and nox
    listed = [" ".join(shlex.quote(word.strip(' "')) for word in row.split(", ")) for row in (pod[1], nox[1])]
    return [*found, *listed]


INSTALLS = re.compile(r"(?:pip|pipx|uv|tool|session\.)\s*\.?install\b[^\n]*")
SHORT = re.compile(r"(?<![./\w-])torch-envcheck(?![\w/])")  # from an index, and not the folder ./torch-envcheck


def test_no_line_installs_from_an_index_what_is_on_none() -> None:
    """Whoever takes that name there first would run in every image that follows the recipe."""
    files = [*RECIPES.iterdir(), *(ROOT / "docs").glob("*.md"), *(ROOT / "rules").rglob("*.toml"), *(ROOT / "envcheck").rglob("*.py")]
    lines = [line for path in (ROOT / "README.md", ROOT / "action.yml", *files) for line in INSTALLS.findall(path.read_text())]
    assert len(lines) > 20
    assert [line for line in lines if SHORT.search(line)] == [
        "pip install torch-envcheck` finds nothing. What works today, with the checkout in `./torch-envcheck`:"
    ]
    dependencies = (RECIPES / "tox.ini").read_text().partition("deps =")[2].partition("commands")[0].split()
    assert dependencies == ["torch", "numpy", f"{{toxinidir}}/dist/torch_envcheck-{__version__}-py3-none-any.whl", "pytest"]


@pytest.mark.slow
def test_the_wheel_of_the_recipes_is_made_and_installed_as_they_say(tmp_path: Path) -> None:
    """README's two lines, and the line of the Dockerfile, in an environment of its own; its report then says that torch is missing."""
    readme = (ROOT / "README.md").read_text()
    [make] = re.findall(r"^pip (wheel .* -w dist) \./torch-envcheck ", readme, re.MULTILINE)
    [copied, command] = re.findall(r"^(?:COPY|RUN) (.*)", (RECIPES / "Dockerfile").read_text(), re.MULTILINE)
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "env")], check=True, timeout=120)
    env = {**os.environ, "PATH": f"{tmp_path / 'env' / 'bin'}:{os.environ['PATH']}", "VIRTUAL_ENV": str(tmp_path / "env")}
    script = (
        f"set -e; pip -q {make} {shlex.quote(str(ROOT))}; cp {copied.split()[0]} {tmp_path}; {command.replace('/tmp/', f'{tmp_path}/')}"
    )
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, env=env, cwd=tmp_path, timeout=300)
    assert done.returncode == 1 and "[torch-missing]" in done.stdout, done.stdout + done.stderr


def test_every_call_in_a_recipe_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = calls()
    assert len(lines) >= 5
    for line in lines:
        assert parse(shlex.split(line)[1:]).command == "check", line


def test_the_problems_panel_of_vs_code_has_every_finding(tmp_path: Path) -> None:
    """The task's own command line on a report of the tool, and the matcher's expression on each line that comes out."""
    text = re.sub(r"^\s*//.*$", "", (RECIPES / "vscode-tasks.json").read_text(), flags=re.MULTILINE)
    [task] = json.loads(text)["tasks"]
    flags, _, filtered = task["command"].partition(" | ")
    assert flags.startswith("envcheck --python '${command:python.interpreterPath}' ")
    program = shlex.join([sys.executable, "-m", "envcheck", "--facts", str(ROOT / "tests" / "documents" / "v1" / "broken.json")])
    command = flags.replace("envcheck --python '${command:python.interpreterPath}'", program) + " | " + filtered
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, env=env, cwd=tmp_path, timeout=60)
    pattern = task["problemMatcher"]["pattern"]
    rows = [found for line in done.stdout.splitlines() if (found := re.fullmatch(pattern["regexp"].strip("^$"), line))]
    assert len(rows) == len(done.stdout.splitlines()), done.stdout
    assert [(row[pattern["severity"]], row[pattern["code"]]) for row in rows] == [
        ("error", "driver-too-old"),
        ("warning", "torch-companion-mismatch"),
        ("error", "envcheck"),
    ]
    assert {row[pattern["file"]] for row in rows} == {"pyproject.toml"}
    first, last = rows[0][pattern["message"]], rows[-1][pattern["message"]]
    assert first.startswith(
        "The NVIDIA driver is older than this torch build needs: Driver 535.183.01 cannot run CUDA 13.2 (torch 2.15.0+cu132)"
    )
    assert "%" not in first and last == "Not ready: 1 error, 1 possible error"
