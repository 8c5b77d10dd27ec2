"""What lies in the working folder and is called like a module of Python's or of torch: nothing that comes with a check imports it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from patients import SOON, examine, fake_torch
from torches import interpreters

from envcheck import FOLDER

AGENT = Path(FOLDER) / "agent"
# With PYTHONSAFEPATH, which came with 3.11, and without.
PYTHONS = {
    "3." + str(sys.version_info[1]): sys.executable,
    **{name: interpreters()[name] for name in ("3.8", "3.10") if name in interpreters()},
}
pytestmark = pytest.mark.skipif(os.name != "posix", reason="children of multiprocessing as POSIX systems start them")

# What main.py does before it imports anything, then what torch's import and its launchers may do.
STARTS = f"""
import sys
del sys.path[0]
package = sys.modules["envcheck_agent"] = type(sys)("envcheck_agent")
package.__path__ = [{str(AGENT)!r}]
from envcheck_agent import working_folder
working_folder.leave_out_of_children()
import multiprocessing
if __name__ == "__main__":
    for method in ("spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        lock = context.Lock()  # which has a name that the resource tracker keeps
        child = context.Process(target=print, args=("child of " + method,))
        child.start()
        child.join()
"""


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A working folder whose modules leave a mark where anybody imports them."""
    here = tmp_path / "work"
    here.mkdir()
    for name in ("multiprocessing", "queue", "json"):
        (here / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\n")
    return here


@pytest.mark.parametrize("flags", [[], ["-E"]], ids=["", "-E"])
@pytest.mark.parametrize("version", PYTHONS)
def test_children_of_multiprocessing(version: str, flags: list[str], planted: Path) -> None:
    script = planted.parent / "starts.py"
    script.write_text(STARTS)
    done = subprocess.run([PYTHONS[version], *flags, str(script)], cwd=planted, capture_output=True, text=True, timeout=SOON, check=False)
    assert done.stdout.split("\n")[:2] == ["child of spawn", "child of forkserver"], done.stderr
    assert not (planted.parent / "ran").exists()


def test_a_module_that_is_run(planted: Path) -> None:
    """torchrun and torch.distributed.launch, where the agent cannot be forked."""
    words = [sys.executable, str(AGENT / "launched_worker.py"), "module:json.tool", "--help"]
    done = subprocess.run(words, cwd=planted, capture_output=True, text=True, timeout=SOON, check=False)
    assert "usage" in done.stdout and not (planted.parent / "ran").exists(), done.stderr


# Of Python 3.10, which has no PYTHONSAFEPATH, and of what asks no environment.
ASKS_NOTHING = "import subprocess, sys\nsubprocess.run([sys.executable, '-E', '-c', 'import queue'])\nimport os\nsys.exit(os.getcwd())\n"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="files of somebody else's, as root")
@pytest.mark.parametrize("whose", ["file", "folder", "link", "above", "open"])
def test_a_folder_that_a_stranger_has_a_hand_in(whose: str, planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if whose == "open":
        planted.chmod(0o777)
    elif whose == "link":
        (tmp_path / "theirs.py").write_text("")
        (planted / "mine.py").symlink_to(tmp_path / "theirs.py")
        os.chown(tmp_path / "theirs.py", 12345, 12345)
    else:
        os.chown({"file": planted / "queue.py", "folder": planted, "above": tmp_path}[whose], 12345, 12345)
    monkeypatch.chdir(planted)
    failure = examine(path=fake_torch(tmp_path / "site", ASKS_NOTHING)).facts["torch"].import_failure
    assert failure is not None and failure.text.endswith("/here") and not (tmp_path / "ran").exists()


def test_a_folder_of_his_own_stays_where_it_is(planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(planted)
    facts = examine(path=fake_torch(tmp_path / "site", "import os, sys\nsys.exit(os.getcwd())\n")).facts
    assert facts["torch"].import_failure.text == str(planted)
    assert str(planted / "multiprocessing.py") in facts["python"].shadowing
