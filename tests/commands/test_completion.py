"""Shell completion, tried in the shells themselves."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envcheck.cli import main
from envcheck.commands import COMMANDS
from envcheck.options import command_parser

ROOT = Path(__file__).parents[2]


def script(shell: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    capsys.readouterr()
    assert main(["completion", shell]) == 0
    path = folder / f"completion.{shell}"
    path.write_text(capsys.readouterr().out)
    return path


def in_bash(path: Path, *words: str) -> list[str]:
    """What bash offers for the last of the words. The function is the one that `complete` has for envcheck."""
    program = (
        f"set -u; source {path}; function=$(complete -p envcheck); function=${{function#*-F }}; function=${{function% envcheck}}\n"
        'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; $function; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", program, "bash", *words], capture_output=True, text=True, cwd=path.parent, timeout=60)
    assert done.stderr == "", done.stderr
    return done.stdout.split()


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash here")
def test_bash_completes_commands_flags_and_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = script("bash", tmp_path, capsys)
    (tmp_path / "node one.json").write_text("")
    assert in_bash(path, "envcheck", "pl") == ["plan"]
    assert set(COMMANDS) <= set(in_bash(path, "envcheck", ""))
    assert in_bash(path, "envcheck", "--back") == ["--backend"]
    assert in_bash(path, "envcheck", "--backend", "g") == ["gloo"]
    assert in_bash(path, "envcheck", "--live", "") == ["quick", "full", "off"]
    assert in_bash(path, "envcheck", "--live", "=", "f") == ["full"], "bash takes --live=f for three words"
    assert in_bash(path, "envcheck", "--live", "=") == ["quick", "full", "off"]
    assert in_bash(path, "envcheck", "--select", "driver-too-old") == ["driver-too-old-for-gpu", "driver-too-old"]
    assert in_bash(path, "envcheck", "explain", "shm-") == ["shm-small"]
    assert in_bash(path, "envcheck", "plan", "--dri") == ["--driver"] and in_bash(path, "envcheck", "--dri") == []
    assert in_bash(path, "envcheck", "completion", "f") == ["fish"]
    assert in_bash(path, "envcheck", "compare", "node") == ["node", "one.json"], "one file, its name in two words"
    assert in_bash(path, "envcheck", "--facts", "no") == ["node", "one.json"]
    assert "bash" in in_bash(path, "envcheck", "run", "--", "bas")
    assert in_bash(path, "envcheck", "--timeout", "") == []


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash here")
@pytest.mark.parametrize("command", COMMANDS)
def test_bash_offers_every_flag_and_choice_of_a_command(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = script("bash", tmp_path, capsys)
    flags = command_parser(command).flags
    assert set(in_bash(path, "envcheck", command, "-")) == set(flags)
    for name, action in flags.items():
        if action.choices:
            assert in_bash(path, "envcheck", command, name, "") == [*map(str, action.choices)]


def test_a_sites_rules_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site" / "limits").mkdir(parents=True)
    rule = 'severity = "info"\ntitle = "x"\n[[when]]\nfact = "limits.shm_bytes"\nlt = 1\n'
    (tmp_path / "site" / "limits" / "scratch-of-ours.toml").write_text(rule)
    (tmp_path / "envcheck.toml").write_text('rules = ["site"]\n')
    for shell in ("bash", "zsh", "fish"):
        assert "scratch-of-ours" in script(shell, tmp_path, capsys).read_text()


@pytest.mark.skipif(not shutil.which("fish"), reason="there is no fish here")
def test_fish_completes_commands_flags_and_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = script("fish", tmp_path, capsys)
    (tmp_path / "node.json").write_text("")

    def offered(line: str) -> list[str]:
        program = f"source {path}; complete -C {line!r}"
        environment = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
        done = subprocess.run(
            ["fish", "--no-config", "-c", program], capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=60
        )
        assert done.stderr == "", done.stderr
        return [row.split("\t")[0] for row in done.stdout.splitlines()]

    assert offered("envcheck pl") == ["plan"]
    assert offered("envcheck --back") == ["--backend"]
    assert offered("envcheck --backend g") == ["gloo"]
    assert sorted(offered("envcheck --live ")) == ["full", "off", "quick"]
    assert offered("envcheck explain shm-") == ["shm-small"]
    assert offered("envcheck plan --dri") == ["--driver"] and offered("envcheck --dri") == []
    assert offered("envcheck --facts no") == ["node.json"] and offered("envcheck compare no") == ["node.json"]


@pytest.mark.skipif(not shutil.which("zsh"), reason="there is no zsh here")
@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("envcheck pl", "envcheck plan"),
        ("envcheck --back", "envcheck --backend"),
        ("envcheck --backend gl", "envcheck --backend gloo"),
        ("envcheck explain shm-", "envcheck explain shm-small"),
        ("envcheck plan --dri", "envcheck plan --driver"),
        ("envcheck compare no", "envcheck compare node.json"),
        ("envcheck schema re", "envcheck schema re"),
    ],
)
def test_zsh_completes_a_line(line: str, completed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = script("zsh", tmp_path, capsys)
    (tmp_path / "node.json").write_text("")
    environment = {**os.environ, "TERM": "dumb", "HOME": str(tmp_path), "ZDOTDIR": str(tmp_path)}
    terminal, inside = pty.openpty()
    shell = subprocess.Popen(
        ["zsh", "-f", "-i"], stdin=inside, stdout=inside, stderr=inside, start_new_session=True, cwd=tmp_path, env=environment
    )
    os.close(inside)
    try:
        os.write(terminal, f"PS1=; autoload -Uz compinit; compinit -u -D; source {path}; echo REA''DY\n".encode())
        assert "READY" in said(terminal, "READY")
        os.write(terminal, f"{line}\t".encode())  # what is typed after the Tab key waits until zsh has completed
        os.write(terminal, b"\x01print -r -- '<\x05>'\n")
        out = said(terminal, ">\r\n")
        assert re.findall(r"^<(.*)>\r$", out, re.MULTILINE)[-1].rstrip() == completed, out
    finally:
        shell.kill()
        shell.wait()
        os.close(terminal)


def said(terminal: int, end: str) -> str:
    text, until = "", time.monotonic() + 60
    while time.monotonic() < until and not re.search(rf"^[^'\n]*{re.escape(end)}", text, re.MULTILINE):
        if select.select([terminal], [], [], 0.2)[0]:
            text += os.read(terminal, 65536).decode("utf-8", "replace")
    return text


def test_completion_costs_nothing_at_start() -> None:
    """The module is read by its own command alone."""
    code = "import sys; from envcheck.options import parse; parse(['--static']); print('envcheck.commands.completion' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "False\n"
