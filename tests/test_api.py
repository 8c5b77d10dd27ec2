"""envcheck from Python: what `import envcheck` costs, and that a program gets what the command prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import pytest
from patients import all_gone, fake_torch, needs_torch
from report_samples import driver_old, machine

import envcheck
from envcheck import api, cli
from envcheck.errors import UsageError
from envcheck.render.json_v1 import render_record

NO_KERNEL = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
ROOT = Path(envcheck.__file__).parents[1]
SCHEMA = json.loads((Path(envcheck.__file__).parent / "schema" / "report-v1.json").read_text(encoding="utf-8"))


def test_importing_the_package_imports_nothing_of_it() -> None:
    code = "import sys; before = set(sys.modules); import envcheck; print(sorted(n for n in set(sys.modules) - before if n != 'envcheck'))"
    done = subprocess.run([sys.executable, "-c", f"import typing; {code}"], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_name_that_is_not_there_is_told() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        envcheck.nonsense  # noqa: B018


def test_a_check_of_this_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    report = envcheck.check(static=True, expect=["python>=3.10", "gpus>=99"])
    assert (report.ok, report.exit_code, report.verdict) == (False, 1, "fail")
    assert [one["rule"] for one in report.findings] == ["expectation-failed"]
    python = report.facts["python"]
    assert python["executable"] == sys.executable
    document = json.loads(report.to_json())
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert document["findings"] == list(report.findings)
    assert str(report).rstrip().endswith("Not ready: 1 error") and "Not ready: 1 error" in repr(report)
    assert python["executable"] in report.to_html()
    assert json.loads(report.to_json(redact=True))["facts"]["network"]["hostname"] == "[host]"


@needs_torch
def test_a_check_beside_a_torch_that_is_imported(tmp_path: Path) -> None:
    """In a notebook torch is there already, with its threads; the check has processes of its own."""
    code = (
        "import torch, envcheck; x = torch.ones(4, requires_grad=True); (x * 2).sum().backward()\n"
        "report = envcheck.check()\n"
        "assert report.ok, report\n"
        "(x * 2).sum().backward(); print(report.verdict, x.grad.tolist(), len(torch.multiprocessing.active_children()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, cwd=tmp_path)
    assert done.stdout == "pass [4.0, 4.0, 4.0, 4.0] 0\n", done.stderr


NOTEBOOK = """
import asyncio, os, sys, threading, types
import envcheck

touched, forked = [], []

class Initialised(types.ModuleType):
    is_initialized = staticmethod(lambda: True)

    def __getattr__(self, name):
        touched.append(name)
        raise AttributeError(name)

torch = Initialised("torch")
torch.cuda = Initialised("torch.cuda")
sys.modules.update({"torch": torch, "torch.cuda": torch.cuda})
touched.clear()
os.register_at_fork(before=lambda: forked.append(1))

def checked():
    return envcheck.check(static=True).facts["python"]["executable"] == sys.executable

said = [checked()]
thread = threading.Thread(target=lambda: said.append(checked()))
thread.start()
thread.join()

async def cell():
    return [checked(), await asyncio.to_thread(checked)]

said += asyncio.run(cell())
imported = envcheck.check(live="off")
print(said, imported.exit_code in (0, 1), imported.facts["torch"].get("import_status"), touched, forked)
assert torch.cuda.is_initialized() and sys.modules["torch"] is torch
"""


@needs_torch
def test_a_check_in_a_notebook_whose_cuda_is_initialised(tmp_path: Path) -> None:
    """From the cell, a thread and inside its running event loop: this process is never forked by a call that its torch could notice,
    and nothing of its torch is asked for. The torch that is examined is imported elsewhere."""
    done = subprocess.run([sys.executable, "-c", NOTEBOOK], capture_output=True, text=True, timeout=240, cwd=tmp_path, check=False)
    assert done.stdout == "[True, True, True, True] True ok [] []\n", done.stderr


# A server: it is a subreaper itself, and another thread of it has a child and a daemon while the import of the check is under way.
SERVER = """
import ctypes, json, os, resource, subprocess, sys, threading, time
import envcheck
started, go_on = sys.argv[1:]
prctl = ctypes.CDLL(None).prctl
prctl(36, 1)
hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
mine = []

def serve():
    while not os.path.exists(started):
        time.sleep(0.01)
    mine.append(subprocess.Popen(["sleep", "300"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    mine.append(resource.getrlimit(resource.RLIMIT_CORE) == (hard, hard))
    daemon = subprocess.run(["sh", "-c", "setsid sleep 300 >/dev/null 2>&1 & echo $!"], capture_output=True, text=True)
    mine.append(int(daemon.stdout))
    open(go_on, "w").close()

thread = threading.Thread(target=serve)
thread.start()
report = envcheck.check(live="off")
thread.join()
child, unlimited, daemon = mine
flag = ctypes.c_int()
prctl(37, ctypes.byref(flag))
print(json.dumps([report.facts["torch"]["version"], child.poll(), os.path.exists(f"/proc/{daemon}/cmdline"), flag.value, unlimited]))
child.kill()
os.kill(daemon, 9)
"""
LEFT_BEHIND = """
import os, subprocess, sys, time
if os.fork() == 0:
    os.setsid()
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)", {mark!r}])
    os._exit(0)
open({started!r}, "w").close()
while not os.path.exists({go_on!r}):
    time.sleep(0.01)
__version__ = "2.15.0"
"""


@pytest.mark.skipif(sys.platform != "linux", reason="adopting orphans and limits of a child are Linux's")
def test_only_what_the_check_started_ends_with_it(tmp_path: Path) -> None:
    started, go_on, mark = str(tmp_path / "started"), str(tmp_path / "go-on"), f"daemon-{uuid.uuid4().hex}"
    site = fake_torch(tmp_path / "site", LEFT_BEHIND.format(started=started, go_on=go_on, mark=mark))
    done = subprocess.run(
        [sys.executable, "-c", SERVER, started, go_on],
        capture_output=True, text=True, timeout=240, cwd=tmp_path, env={**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}"},
    )  # fmt: skip
    assert json.loads(done.stdout) == ["2.15.0", None, True, 1, True], done.stderr
    assert all_gone(mark)


def test_a_program_without_streams() -> None:
    """A service, or one with windows only."""
    program = "import os, sys, envcheck; sys.stdout = sys.stderr = None; os._exit(7 if envcheck.check(static=True).ok else 1)"
    assert subprocess.run([sys.executable, "-c", program], timeout=120, check=False).returncode == 7


def test_a_recorded_machine_and_the_same_refusals_as_on_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "node.json"
    path.write_text(render_record(machine("h100x8"), "envcheck", "0.1.0"))
    assert envcheck.check(facts=path, expect=["gpus==8"]).ok
    assert not envcheck.check(facts=path, expect=["gpus==4"]).ok
    with pytest.raises(UsageError, match="did you mean gpu"):
        envcheck.check(facts=path, expect=["gpsu>=8"])
    with pytest.raises(UsageError, match="--python and --facts contradict"):
        envcheck.check(facts=path, python=sys.executable)
    with pytest.raises(UsageError, match="one of quick, full, off"):
        envcheck.check(live="slow")  # type: ignore[arg-type]


def test_settings_of_the_file_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "envcheck.toml").write_text('static = true\n[profile.ci]\nexpect = ["gpus>=99"]\n')
    assert envcheck.check().ok
    assert not envcheck.check(profile="ci").ok


def test_a_text_is_a_text_and_a_path_a_file(tmp_path: Path) -> None:
    assert envcheck.diagnose(NO_KERNEL).findings[0]["rule"] == "gpu-too-new-for-torch"
    log = tmp_path / "train.log"
    log.write_text(NO_KERNEL)
    assert envcheck.diagnose(log, "hello").findings[0]["rule"] == "gpu-too-new-for-torch"
    assert envcheck.diagnose(tmp_path).findings[0]["rule"] == "gpu-too-new-for-torch"
    nothing = envcheck.diagnose("all is well")
    assert (nothing.findings, nothing.exit_code) == ([], 3) and not nothing.ok
    with pytest.raises(UsageError, match=r"nowhere\.log"):
        envcheck.diagnose(tmp_path / "nowhere.log")


ELSEWHERE = {"driver": "570.124", "python": "3.12"}


def test_a_plan_is_what_the_command_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    plan = envcheck.plan("torch==2.9.*", "torchvision", for_="h100", **ELSEWHERE)
    words = ["plan", "torch==2.9.*", "torchvision", "--for=h100", "--driver=570.124", "--python=3.12"]
    assert cli.main(words) == plan.exit_code == 0 and plan.ok
    assert capsys.readouterr().out == str(plan)
    assert cli.main([*words, "--json"]) == 0
    assert capsys.readouterr().out == plan.to_json()
    document = json.loads(plan.to_json())
    assert plan.ways == document["plan"]["ways"] and plan.excluded == document["plan"]["excluded"]
    assert plan.ways[0]["commands"]["pip"] == ["python -m pip install torch==2.9.1 torchvision==0.24.1"]
    assert "driver = 570.124" in plan.assumed and repr(plan) == "<envcheck.Plan: Install torch 2.9.1+cu128>"
    assert cli.main([*words, "--format", "html"]) == 0
    assert capsys.readouterr().out == plan.to_html() and "CUDA 13.0 needs driver 580.65.06" in plan.to_html()


def test_a_plan_of_a_file_tells_what_becomes_of_its_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    asked = tmp_path / "requirements.txt"
    asked.write_text("torch==2.9.1+cu130\n")
    plan = envcheck.plan(for_=["h100"], requirements=asked, **ELSEWHERE)
    assert [(row["text"], row["verdict"]) for row in plan.asked] == [("torch==2.9.1+cu130", "moves")]
    assert plan.written == {str(asked): "torch==2.9.1\n"}


def test_a_plan_without_a_way_and_one_that_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    nothing = envcheck.plan("torch==2.12.0+cu128", for_="4090")
    assert (nothing.ok, nothing.exit_code, nothing.ways) == (False, 3, []) and repr(nothing) == "<envcheck.Plan: nothing fits>"
    with pytest.raises(UsageError, match="h1000"):
        envcheck.plan(for_="h1000")
    with pytest.raises(UsageError, match="--nonsense"):
        envcheck.plan("--nonsense")


class Frame(HTMLParser):
    srcdoc = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag == "iframe", "the report is inside the frame, as text"
        self.srcdoc = dict(attrs)["srcdoc"] or ""


def test_a_notebook_shows_the_page_in_a_frame() -> None:
    report = api.Report(driver_old())
    frame = Frame()
    frame.feed(report._repr_html_())
    assert frame.srcdoc.replace('<base target="_blank">', "") == report.to_html() and "driver-too-old" in frame.srcdoc
    planned = Frame()
    planned.feed(envcheck.plan("torch==2.9.*", for_="h100", **ELSEWHERE)._repr_html_())
    assert "Install torch 2.9.1+cu128" in planned.srcdoc
