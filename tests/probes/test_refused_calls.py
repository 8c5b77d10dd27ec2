"""System calls that a filter refuses, as the child says them, and as a kernel without a filter answers."""

from __future__ import annotations

import sys

import pytest

from envcheck.host.access import Completed, RealHost
from envcheck.probes.refused_calls import probe


@pytest.mark.parametrize(
    ("said", "code", "refused"),
    [
        ("socket\t\nbind\t\n", 0, ()),
        ("socket\tFunction not implemented\nbind\t\nclone3\tOperation not permitted\n", 0,
         ("socket: Function not implemented", "clone3: Operation not permitted")),
        ("socket\t\nbind", -31, ("bind: the process is killed by SIGSYS",)),
        ("socket\t\nbind", 1, ()),
        ("", 126, ()),
    ],
)  # fmt: skip
@pytest.mark.skipif(sys.platform != "linux", reason="SIGSYS by its number")
def test_what_the_child_says(monkeypatch: pytest.MonkeyPatch, said: str, code: int, refused: tuple[str, ...]) -> None:
    host = RealHost({})
    monkeypatch.setattr(RealHost, "child", lambda *_, **__: Completed(("child",), code, said, ""))
    assert probe(host) == refused


@pytest.mark.skipif(sys.platform != "linux", reason="its numbers are of Linux")
def test_nothing_is_refused_here() -> None:
    assert probe(RealHost({})) == ()
