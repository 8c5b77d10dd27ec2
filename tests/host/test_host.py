"""What the door to the operating system promises of every command that goes through it."""

from __future__ import annotations

import os

import pytest

from envcheck.host.access import RealHost

PATH = os.environ["PATH"]


@pytest.mark.parametrize("theirs", [{}, {"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8"}], ids=["no locale", "a German user"])
def test_commands_speak_english_whatever_the_user_speaks(theirs: dict[str, str]) -> None:
    host = RealHost({"PATH": PATH, **theirs})
    assert host.run(("sh", "-c", 'echo "$LC_ALL"'), timeout=30).stdout == "C\n"


def test_a_command_gets_the_hosts_variables_and_its_own_on_top(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_TOOL", "1")
    host = RealHost({"PATH": PATH, "OF_THE_HOST": "1", "BOTH": "host"})
    shown = host.run(("env",), timeout=30, env={"BOTH": "command"}).stdout.splitlines()
    assert {"OF_THE_HOST=1", "BOTH=command", "LC_ALL=C"} <= set(shown) and "OF_THE_TOOL=1" not in shown
