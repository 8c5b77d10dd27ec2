"""What is said of an interpreter that cannot be examined."""

from __future__ import annotations

from pathlib import Path

import pytest
from patients import examine, fake_torch

from envcheck.errors import UsageError
from envcheck.target.process import Budget, Ended, Target, require_answer

# What pyenv's shim does for a version that is not selected.
SHIM = """#!/bin/sh
cat >&2 <<'END'
pyenv: python3.9: command not found

The `python3.9' command exists in these Python versions:
  3.9.18

Note: See 'pyenv help global' for tips on allowing multiple
      Python versions to be found at the same time.
END
exit 127
"""


def script(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("#!/bin/sh\nexit 1\n", "exit code 1"),
        ("#!/bin/sh\necho not python >&2\nexit 0\n", "not python"),
        ("#!/bin/sh\nkill -SEGV $$\n", "SIGSEGV"),
        (SHIM, "starts no Python: pyenv: python3.9: command not found; The `python3.9' command exists in these Python versions: 3.9.18$"),
        ("#!/bin/sh\nexec /nowhere/python\n", "starts no Python: .*/nowhere/python"),
        ("#!/bin/sh\necho 'envcheck-agent: Python 2.7 is too old, 3.8 or newer is needed' >&2\nexit 79\n", "2.7 is too old"),
    ],
)
def test_not_a_python(tmp_path: Path, text: str, words: str) -> None:
    executable = script(tmp_path / "python", text)
    examined_target = Target(executable, "--python")
    with pytest.raises(UsageError, match=words):
        require_answer(examine(executable=executable).ended, examined_target)


def test_one_that_hangs(tmp_path: Path) -> None:
    executable = script(tmp_path / "python", "#!/bin/sh\nexec sleep 600\n")
    ended = examine(executable=executable, budget=Budget(5)).ended
    assert ended.seconds < 5
    with pytest.raises(UsageError, match="did not start"):
        require_answer(ended, Target(executable, "--python"))


def short(**seconds: float) -> Budget:
    """Half a minute in all, and so long for the steps that are named."""
    made: Budget = type("Short", (Budget,), {name: property(lambda _, value=value: value) for name, value in seconds.items()})(30)
    return made


def test_a_start_that_hangs_has_its_own_deadline(tmp_path: Path) -> None:
    executable = script(tmp_path / "python", "#!/bin/sh\nexec sleep 600\n")
    assert examine(executable=executable, budget=short(start=1.0)).ended.ended_because == "start"


def test_an_import_that_hangs_has_its_own_deadline(tmp_path: Path) -> None:
    ended = examine(path=fake_torch(tmp_path, "import time\ntime.sleep(3600)\n"), budget=short(torch_import=1.0)).ended
    assert (ended.ended_because, ended.last_begin) == ("import", "import")


# Goes on as soon as its stacks have been asked for, which is when its time was over.
LATE = """
import json, os, sys, time
stacks = json.loads(sys.argv[1])["folder"] + "/agent.stack"
while not os.path.getsize(stacks):
    time.sleep(0.01)
__version__ = "2.15.0"
"""


def test_an_agent_that_has_gone_on_meanwhile_is_not_ended(tmp_path: Path) -> None:
    ended = examine(path=fake_torch(tmp_path, LATE), budget=short(torch_import=0.5)).ended
    assert ended.ended_because is None and ended.finished


def test_budgets_stay_below_the_ceiling() -> None:
    for total in (5, 20, 60, 180, 3600):
        budget = Budget(total)
        assert max(budget.agent, budget.start, budget.torch_import, budget.devices) < total


def test_most_of_the_time_is_the_imports() -> None:
    """A cold import from a network disk takes a minute; whoever gives three means that it may."""
    assert [Budget(total).torch_import for total in (20, 180, 3600)] == [pytest.approx(11), pytest.approx(99), 120]
    assert [Budget(total).agent for total in (4, 20, 180)] == [2, 18, pytest.approx(165.6)]
    assert [Budget(total).start for total in (20, 3600)] == [8, 30]
    assert [Budget(180).preload(seconds) for seconds in (1, 10, 100)] == [30, 40, 54]


@pytest.mark.parametrize(
    ("code", "death"),
    [
        (-11, "died with SIGSEGV"), (134, "died with SIGABRT"), (139, "died with SIGSEGV"), (137, "died with SIGKILL"),
        (1, "ended with exit code 1"),
        (128, "ended with exit code 128"), (130, "ended with exit code 130"), (255, "ended with exit code 255"),
    ],
)  # fmt: skip
def test_a_shell_between_us_and_the_target_says_128_and_the_signal(code: int, death: str) -> None:
    assert Ended((), code, None, "", "", 1.0, 1.0).death == death
