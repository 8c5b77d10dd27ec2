from __future__ import annotations

import io

import pytest

from envcheck.commands.progress import Progress, words


class Terminal(io.StringIO):
    def __init__(self, tty: bool = True) -> None:
        super().__init__()
        self._tty = tty

    def isatty(self) -> bool:
        return self._tty

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def screen(self) -> str:
        """What stands in the line now."""
        cells: list[str] = []
        at = 0
        for char in self.getvalue():
            if char == "\r":
                at = 0
                continue
            cells[at : at + 1] = [char]
            at += 1
        return "".join(cells).rstrip()


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_silent_at_first_then_names_what_is_slow_and_clears() -> None:
    out, clock = Terminal(), Clock()
    with Progress(out, clock=clock) as line:
        line("start")
        clock.now += 1.9
        line("import")
        assert out.getvalue() == ""
        clock.now += 5.2
        line("import")
        assert out.screen() == "envcheck: importing torch … 5 s"
        line("arm nccl")
        assert out.screen() == "envcheck: training step on the ranks: nccl …"
        clock.now += 1
        line("devices")
        assert out.screen() == "envcheck: running a kernel on every GPU …"
    assert out.screen() == ""
    assert "\n" not in out.getvalue() and "\x1b" not in out.getvalue()


def test_nothing_without_a_terminal() -> None:
    out, clock = Terminal(tty=False), Clock()
    with Progress(out, clock=clock) as line:
        clock.now += 60
        line("import")
    assert out.getvalue() == ""


def test_nothing_is_written_twice_and_nothing_when_all_is_quick() -> None:
    out, clock = Terminal(), Clock()
    with Progress(out, clock=clock) as line:
        line("import")
    assert out.getvalue() == ""
    clock.now += 3
    line("import")
    once = out.getvalue()
    line("import")
    assert out.getvalue() == once


def test_a_terminal_that_went_away_does_not_end_the_check() -> None:
    class Gone(Terminal):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    clock = Clock()
    with Progress(Gone(), clock=clock) as line:
        clock.now += 3
        line("import")
        line("devices")
    closed = Terminal()
    closed.close()
    Progress(closed)("import")


@pytest.mark.parametrize(("step", "said"), [("import", "importing torch"), ("between steps", "between steps"), ("cpu_count", "cpu count")])
def test_words(step: str, said: str) -> None:
    assert words(step) == said
