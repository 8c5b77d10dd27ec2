"""The agent on broken and odd targets: every death costs its own section only, and is named."""

from __future__ import annotations

import ast
import json
import os
import resource
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from patients import all_gone, distribution, examine, fake_torch

from envcheck.agent import devices as asked_devices
from envcheck.agent import inventory, processes, rank_process
from envcheck.facts.snapshot import ImportStatus, LiveFacts, LiveStatus, Missing, PackagesFacts, PythonFacts, TorchFacts, Why
from envcheck.target.process import AGENT, Budget

WORKING = """
import types
__version__ = "2.14.1+cu130"
version = types.SimpleNamespace(cuda="13.0", hip=None, xpu=None, git_version="0" * 40, debug=False)
def tensor(*a): return None
class cuda:
    is_initialized = staticmethod(lambda: False)
    is_available = staticmethod(lambda: {available})
    device_count = staticmethod(lambda: 2)
    get_arch_list = staticmethod(lambda: ["sm_80", "sm_90"])
    init = staticmethod({init})
    properties = types.SimpleNamespace(name="NVIDIA A10", total_memory=1 << 34, major=8, minor=6, uuid="u")
    get_device_properties = staticmethod(lambda i: cuda.properties)
"""

# With a torch.distributed that has gloo, as far as the agent asks; what a rank does first is {rank}.
DISTRIBUTED = (
    WORKING.format(available=False, init="lambda: None").replace('cuda="13.0"', "cuda=None")
    + """
import os, sys, time
distributed = sys.modules["torch.distributed"] = types.ModuleType("torch.distributed")
distributed.is_available = distributed.is_gloo_available = lambda: True
def set_num_threads(number):
    {rank}
"""
)


def torch_of(facts: dict[str, object]) -> TorchFacts:
    torch = facts["torch"]
    assert isinstance(torch, TorchFacts)
    return torch


def test_static_facts_cost_no_import(tmp_path: Path) -> None:
    fake_torch(
        tmp_path, "raise SystemExit('imported')", version_py="__version__ = '2.14.1+cu130'\ncuda: Optional[str] = '13.0'\nhip = None\n"
    )
    facts = examine(path=tmp_path, static=True).facts
    torch = torch_of(facts)
    assert (torch.version, torch.cuda, torch.import_status, torch.cpu_build) == ("2.14.1+cu130", "13.0", ImportStatus.SKIPPED, False)
    assert isinstance(facts["python"], PythonFacts)
    assert facts["python"].pythonpath == str(tmp_path)
    assert isinstance(facts["live"], Missing) and facts["live"].why is Why.SKIPPED


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (
            "raise ImportError('libcudnn.so.9: cannot open shared object file: No such file or directory')",
            ImportStatus.ERROR,
            "libcudnn.so.9",
        ),
        ("raise OSError('libcudart.so.13: cannot open shared object file')", ImportStatus.ERROR, "libcudart.so.13"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", ImportStatus.CRASHED, "SIGSEGV"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", ImportStatus.CRASHED, "SIGILL"),
        ("raise SystemExit(3)", ImportStatus.EXITED, "3"),
        ("import os; os._exit(3)", ImportStatus.EXITED, "3"),
        ("x = 1", ImportStatus.NOT_TORCH, "tensor"),
    ],
)
def test_deaths_at_import_are_named(tmp_path: Path, body: str, status: ImportStatus, words: str) -> None:
    examined = examine(path=fake_torch(tmp_path, body), live="quick")
    torch = torch_of(examined.facts)
    assert torch.import_status is status
    assert torch.version == "2.15.0", "the version stands in the metadata whatever the import does"
    assert torch.import_failure is not None
    assert words in torch.import_failure.text
    assert isinstance(examined.facts["python"], PythonFacts)
    assert isinstance(examined.facts["packages"], PackagesFacts)
    for name in ("backends", "devices", "live"):
        missing = examined.facts[name]
        assert isinstance(missing, Missing) and missing.why is Why.FAILED


def test_hanging_import_ends_with_its_stack(tmp_path: Path) -> None:
    body = "import time\ndef wedged():\n    while True: time.sleep(1)\nwedged()\n"
    examined = examine(path=fake_torch(tmp_path, body), budget=Budget(8))
    torch = torch_of(examined.facts)
    assert torch.import_status is ImportStatus.TIMEOUT
    assert torch.import_failure is not None and "wedged" in torch.import_failure.stack
    assert examined.ended.seconds < 8
    assert all_gone(str(examined.folder))


@pytest.mark.parametrize("shift", ["-500", "+100000"])
def test_a_clock_that_is_not_ours_ends_no_import(tmp_path: Path, shift: str) -> None:
    """As in a time namespace (`unshare -T --monotonic -500`): what the agent says of its own time counts from its first line."""
    site = fake_torch(tmp_path, "import time; time.sleep(2.5)\n" + WORKING.format(available=False, init="lambda: None"))
    (site / "sitecustomize.py").write_text(f"import time\nreal = time.monotonic\ntime.monotonic = lambda: real() {shift}\n")
    examined = examine(path=site, budget=Budget(20))
    assert torch_of(examined.facts).import_status is ImportStatus.OK and examined.ended.finished


def test_a_grandchild_that_ignores_sigterm_goes_too(tmp_path: Path) -> None:
    mark = f"child-{uuid.uuid4().hex}"  # tests may run side by side
    body = f"import subprocess, time\nsubprocess.Popen(['sh', '-c', 'trap : TERM; sleep 300; :', {mark!r}])\ntime.sleep(3600)\n"
    examine(path=fake_torch(tmp_path, body), budget=Budget(6))
    assert all_gone(mark)


def test_torch_that_prints(tmp_path: Path) -> None:
    body = "print('hello', flush=True)\n" + WORKING.format(available=True, init="lambda: None")
    torch = torch_of(examine(path=fake_torch(tmp_path, body)).facts)
    assert torch.import_noise and torch.import_status is ImportStatus.OK
    assert torch.arch_list == ("sm_80", "sm_90")


def test_devices_are_asked_in_a_child_that_may_die(tmp_path: Path) -> None:
    deadly = "__import__('os').kill(__import__('os').getpid(), 11)"
    examined = examine(path=fake_torch(tmp_path, WORKING.format(available=deadly, init="lambda: None")))
    devices = examined.facts["devices"]
    assert isinstance(devices, Missing) and "SIGSEGV" in devices.reason
    assert torch_of(examined.facts).import_status is ImportStatus.OK
    assert examined.ended.finished


def test_devices_that_hang_are_ended(tmp_path: Path) -> None:
    body = WORKING.format(available="__import__('time').sleep(3600)", init="lambda: None")
    examined = examine(path=fake_torch(tmp_path, body), devices_seconds=2)
    devices = examined.facts["devices"]
    assert isinstance(devices, Missing) and devices.why is Why.TIMEOUT
    assert examined.ended.finished


def test_what_cuda_says_when_it_is_not_available(tmp_path: Path) -> None:
    init = "lambda: (_ for _ in ()).throw(RuntimeError('Unexpected error from cudaGetDeviceCount(). Error 804: forward compatibility'))"
    devices = examine(path=fake_torch(tmp_path, WORKING.format(available=False, init=init))).facts["devices"]
    assert devices.available is False and devices.error_code == 804


def test_no_torch_at_all(tmp_path: Path) -> None:
    # -S and an empty path: an interpreter without any site-packages
    python = tmp_path / "bare-python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    python.chmod(0o755)
    torch = examine(executable=str(python)).facts["torch"]
    assert isinstance(torch, Missing) and torch.why is Why.ABSENT


def test_metadata_without_the_module(tmp_path: Path) -> None:
    site = tmp_path / "site"
    distribution(site, "torch", "2.9.1")
    python = tmp_path / "bare-python"
    start = "sys.argv = sys.argv[1:]; import runpy; runpy.run_path(sys.argv[0], run_name='__main__')"
    program = f"import sys; sys.path.append({str(site)!r}); {start}"
    python.write_text(f'#!/bin/sh\nshift 2\nexec "{sys.executable}" -I -S -c "{program}" "$@"\n')
    python.chmod(0o755)
    torch = torch_of(examine(executable=str(python)).facts)
    assert torch.import_status is ImportStatus.ERROR
    assert torch.import_failure is not None and torch.import_failure.type == "ModuleNotFoundError"


def test_package_facts(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    library = "nvidia/nccl/lib/libnccl.so.2"
    distribution(
        first,
        "torch",
        "2.9.1",
        requires=("nvidia-nccl-cu12==2.27.5; platform_system == 'Linux'", "triton==3.5.1; platform_system == 'Windows'"),
    )
    distribution(first, "nvidia-nccl-cu12", "2.21.5", files=(library,))
    distribution(first, "nvidia-nccl-cu13", "2.28.9", files=(library,))
    distribution(first, "nvidia-cudnn-cu12", "9.10.2.21", files=("nvidia/cudnn/lib/libcudnn.so.9",), make=False)
    distribution(first, "torchvision", "0.24.0", requires=("torch==2.9.0",))
    distribution(second, "torch", "2.8.0")
    (first / "~orch-2.7.0.dist-info").mkdir()
    (first / "torch").mkdir()
    (first / "torch" / "__init__.py").write_text("")
    packages = examine(env={"PYTHONPATH": f"{first}:{second}"}, static=True).facts["packages"]
    assert packages.version("torch") == "2.9.1"
    assert "torch" in packages.duplicates
    assert any("~orch" in path for path in packages.leftovers)
    assert any(row.startswith(library) for row in packages.overwritten)
    assert any("libcudnn.so.9" in row for row in packages.damaged)
    unmet = {(row.distribution, row.requirement, row.installed) for row in packages.unmet}
    assert ("torch", "nvidia-nccl-cu12==2.27.5", "2.21.5") in unmet
    assert ("torchvision", "torch==2.9.0", "2.9.1") in unmet
    assert not any("triton" in requirement for _, requirement, _ in unmet), "its marker is not for this system"


def test_secrets_are_not_recorded(tmp_path: Path) -> None:
    env = {"TORCH_API_TOKEN": "hunter2", "PIP_INDEX_URL": "https://user:hunter2@mirror.example/simple"}
    python = examine(path=fake_torch(tmp_path, ""), env=env, static=True).facts["python"]
    assert "hunter2" not in repr(python)
    assert python.index_url == "https://mirror.example/simple"


def agent_nodes(path: Path) -> list[ast.AST]:
    """The syntax tree of an agent file without what only the type checker reads."""
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    at_run_time = [node for node in tree.body if not (isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING")]
    return [inner for node in at_run_time for inner in ast.walk(node)]


def test_the_agent_imports_only_the_standard_library_and_itself() -> None:
    folder = Path(AGENT).parent
    own = {path.stem for path in folder.glob("*.py")}
    allowed = set(sys.stdlib_module_names) - {"typing"} | {"torch", "triton", "numpy", "__future__", "envcheck_agent"}
    assert len(own) > 20
    for path in folder.glob("*.py"):
        for node in agent_nodes(path):
            if isinstance(node, ast.ImportFrom) and node.level:
                siblings = [node.module] if node.module else [alias.name for alias in node.names]
                assert node.level == 1 and own >= set(siblings), f"{path.name} imports {siblings}"
            elif isinstance(node, ast.Import | ast.ImportFrom):
                for name in [alias.name for alias in node.names] if isinstance(node, ast.Import) else [str(node.module)]:
                    assert name.partition(".")[0] in allowed, f"{path.name} imports {name}"


def test_what_the_agent_imports_of_itself_later_is_guarded() -> None:
    """Outside an ImportGuard the standard library that comes along would be looked for where PYTHONPATH says."""
    guarded = 0
    for path in Path(AGENT).parent.glob("*.py"):
        tree = ast.parse(path.read_text())
        inside = {
            id(one)
            for node in ast.walk(tree)
            if isinstance(node, ast.With) and "ImportGuard()" in ast.unparse(node.items[0])
            for one in node.body
        }
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            for node in ast.walk(function):
                if isinstance(node, ast.ImportFrom) and node.level:
                    assert id(node) in inside, f"{path.name}:{node.lineno}"
                    guarded += 1
    assert guarded >= 4


def test_old_interpreters_can_read_the_gate() -> None:
    source = Path(AGENT).read_text()
    assert source.isascii(), "Python 2 reads no other source without a declaration"
    for node in ast.walk(ast.parse(source, feature_version=(3, 4))):
        assert not isinstance(node, (ast.AnnAssign, ast.JoinedStr)), ast.dump(node)
        if isinstance(node, ast.FunctionDef):
            assert node.returns is None and all(one.annotation is None for one in node.args.args), node.name
        if isinstance(node, ast.ImportFrom):
            assert node.module != "__future__"


def test_nothing_slow_is_imported_before_the_version_gate() -> None:
    body = ast.parse(Path(AGENT).read_text()).body
    assert isinstance(body[1], ast.Import) and [alias.name for alias in body[1].names] == ["sys"]
    assert isinstance(body[2], ast.If), "the gate follows `import sys` at once"


def live_of(facts: dict[str, Any]) -> LiveFacts:
    live = facts["live"]
    assert isinstance(live, LiveFacts), live
    return live


# ---- what stands on PYTHONPATH


def test_a_module_that_hides_the_standard_library_breaks_torch_and_not_us(tmp_path: Path) -> None:
    site = fake_torch(tmp_path, "import json\nx = json.dumps")
    for name in ("json", "signal", "traceback", "warnings", "sysconfig"):
        (site / f"{name}.py").write_text("")
    examined = examine(path=site, env={"PYTHONNOUSERSITE": "1"})
    torch = torch_of(examined.facts)
    assert torch.import_failure is not None and "json" in torch.import_failure.text, "the patient's import finds the patient's json"
    assert str(site / "json.py") in examined.facts["python"].shadowing
    assert examined.ended.finished


def test_a_folder_that_is_searched_twice_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "numpy.py").write_text("")
    (tmp_path / "again").symlink_to(tmp_path, target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path), ".", str(tmp_path / "again"))))
    assert inventory.shadowing() == [str(tmp_path / "numpy.py")]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_what_is_imported_only_for_the_live_check_is_not_the_patients(tmp_path: Path, method: str) -> None:
    site = fake_torch(tmp_path, DISTRIBUTED.format(rank="raise NotImplementedError('a stub')"))
    for name in ("datetime", "shutil", "socket", "math"):
        (site / f"{name}.py").write_text("raise ImportError('not for you')")
    live = live_of(examine(path=site, live="quick", start_method=method).facts)
    assert live.status is LiveStatus.FAIL and "NotImplementedError: a stub" in live.reason


BROKEN_THERE = "def broken(): raise RuntimeError('undefined symbol: c10d')\n"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (BROKEN_THERE + "distributed.is_available = broken", "undefined symbol: c10d"),
        ("del distributed.is_available", "no attribute 'is_available'"),
        (BROKEN_THERE + "distributed.is_gloo_available = broken", "undefined symbol: c10d"),
        ("def broken(): raise SystemExit(3)\ndistributed.is_available = broken", "SystemExit: 3"),
    ],
)
def test_a_torch_distributed_that_cannot_be_asked_is_not_one_that_was_left_out(tmp_path: Path, more: str, words: str) -> None:
    live = examine(path=fake_torch(tmp_path, DISTRIBUTED.format(rank="pass") + more), live="quick").facts["live"]
    assert isinstance(live, Missing) and live.why is Why.FAILED and words in live.reason


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize(("rank", "words"), [("raise OSError('no BLAS')", "OSError: no BLAS"), ("os.kill(os.getpid(), 4)", "SIGILL")])
def test_a_torch_without_a_process_group_is_made_to_train(tmp_path: Path, method: str, rank: str, words: str) -> None:
    site = fake_torch(tmp_path, DISTRIBUTED.format(rank=rank) + "distributed.is_available = lambda: False")
    live = live_of(examine(path=site, live="quick", start_method=method).facts)
    assert live.status is LiveStatus.FAIL and live.reason.startswith("one-process: ") and words in live.reason
    assert live.not_proved == ("torch.distributed is not in this build",)


def test_modules_of_our_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = fake_torch(tmp_path, DISTRIBUTED.format(rank="raise NotImplementedError('a stub')"))
    for name in ("envcheck_agent", "envcheck", *(path.stem for path in Path(AGENT).parent.glob("*.py") if path.stem != "__init__")):
        (site / f"{name}.py").write_text("raise ImportError('not for you')")
    (site / "sitecustomize.py").write_text("import sys, types\nsys.modules['envcheck_agent'] = types.ModuleType('envcheck_agent')\n")
    monkeypatch.chdir(site)
    examined = examine(path=site, live="quick", start_method="spawn")
    assert "NotImplementedError: a stub" in live_of(examined.facts).reason and examined.ended.finished
    assert examined.facts["packages"].version("torch") == "2.15.0"


def test_our_own_folder_on_the_path(tmp_path: Path) -> None:
    site = fake_torch(tmp_path, WORKING.format(available=False, init="lambda: None"))
    env = {"PYTHONPATH": f"{Path(AGENT).parent}:{site}", "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": ""}
    here = set(Path(AGENT).parent.rglob("*"))
    examined = examine(env=env)
    assert torch_of(examined.facts).import_status is ImportStatus.OK and examined.ended.finished
    assert set(Path(AGENT).parent.rglob("*")) == here, "no bytecode is left"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a folder to another user")
@pytest.mark.parametrize(("owner", "left"), [(0, True), (65534, False)])
def test_no_bytecode_in_an_environment_of_somebody_else(tmp_path: Path, owner: int, left: bool) -> None:
    site = fake_torch(tmp_path, WORKING.format(available=False, init="lambda: None"))
    os.chown(site, owner, owner)
    examined = examine(env={"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": ""})
    assert torch_of(examined.facts).import_status is ImportStatus.OK and examined.ended.finished
    assert any(site.rglob("*.pyc")) is left


def test_odd_entries_of_the_path(tmp_path: Path) -> None:
    site = fake_torch(tmp_path, "")
    odd = os.fsdecode(b"/tmp/\xff")
    (site / "sitecustomize.py").write_text(
        f"import sys\nsys.path += [None, 7, b'/bytes', '/nul\\0here', {odd!r}] + ['/nowhere/%d' % i for i in range(3000)]\n"
    )
    examined = examine(path=site, static=True)
    python, packages = examined.facts["python"], examined.facts["packages"]
    assert "/nowhere/2999" in python.sys_path
    json.dumps(python.sys_path, ensure_ascii=False).encode()  # no half surrogate pair
    assert packages.version("torch") == "2.15.0"


def test_a_sitecustomize_that_has_imported_torch_and_replaced_stderr(tmp_path: Path) -> None:
    site = fake_torch(tmp_path, WORKING.format(available=False, init="lambda: None"))
    (site / "sitecustomize.py").write_text("import torch, sys, io\nsys.stderr = io.StringIO()\nsys.stdout = None\n")
    examined = examine(path=site)
    assert torch_of(examined.facts).import_status is ImportStatus.OK
    assert examined.facts["devices"].available is False


# ---- what a torch may do to us


@pytest.mark.parametrize("error", ["SystemExit(3)", "KeyboardInterrupt()", "RuntimeError('no')"])
def test_attributes_that_raise_anything(tmp_path: Path, error: str) -> None:
    body = f"""
__version__ = "2.15.0"
def tensor(*a): pass
class Words(str):
    def __str__(self): raise ValueError("no words")
class Stub:
    def __getattr__(self, name): raise {error}
    def __str__(self): raise {error}
class Version:
    cuda = 13.0
    hip = Stub()
    git_version = Words("x")
    xpu = property(lambda self: None)
version = Version
def __getattr__(name):
    if name.startswith("__"): raise AttributeError(name)
    raise {error}
"""
    examined = examine(path=fake_torch(tmp_path, body), live="quick")
    torch = torch_of(examined.facts)
    assert torch.import_status is ImportStatus.OK and torch.cuda == "13.0"
    assert isinstance(examined.facts["devices"], Missing)
    assert isinstance(examined.facts["live"], Missing) and examined.facts["live"].why is Why.FAILED
    assert examined.ended.finished


def test_descriptors_closed_and_signals_taken(tmp_path: Path) -> None:
    deadly = "__import__('os').kill(__import__('os').getpid(), 11)"
    body = (
        WORKING.format(available=deadly, init="lambda: None")
        + """
import os, signal
os.closerange(3, 256)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.signal(signal.SIGUSR1, lambda *a: None)
"""
    )
    examined = examine(path=fake_torch(tmp_path, body))
    devices = examined.facts["devices"]
    assert isinstance(devices, Missing) and "SIGSEGV" in devices.reason, "a status that the kernel would have thrown away"
    assert examined.ended.finished


def test_an_answer_counts_although_its_process_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(send, b'{"value": {"available": true}}\n')
        time.sleep(60)
        os._exit(0)
    os.close(send)
    monkeypatch.setattr(processes, "reap", lambda pid, seconds: None)  # as if it took longer than the five seconds
    answer, status = asked_devices.collect_forked(asked_devices.Child(pid=pid, pipe=receive), time.monotonic() + 30)
    assert answer == {"value": {"available": True}} and status is None
    assert os.waitpid(pid, 0)[0] == pid


def test_warnings_as_errors(tmp_path: Path) -> None:
    warns = fake_torch(
        tmp_path / "a", "import warnings\nwarnings.warn('old', FutureWarning)\n" + WORKING.format(available=False, init="lambda: None")
    )
    silent = fake_torch(tmp_path / "b", WORKING.format(available=False, init="lambda: None"))
    torch = torch_of(examine(path=warns, env={"PYTHONWARNINGS": "error"}).facts)
    assert torch.import_failure is not None and torch.import_failure.type == "FutureWarning", "python -c 'import torch' fails as well"
    assert "old" in torch_of(examine(path=warns).facts).import_warnings
    examined = examine(path=silent, env={"PYTHONWARNINGS": "error", "PYTHONWARNDEFAULTENCODING": "1"})
    assert examined.facts["devices"].available is False and examined.ended.finished


# ---- the loop that watches the ranks


def test_a_torch_that_has_lost_its_package_distributed(tmp_path: Path) -> None:
    live = examine(path=fake_torch(tmp_path, WORKING.format(available=False, init="lambda: None")), live="quick").facts["live"]
    assert isinstance(live, Missing) and live.why is Why.FAILED and "has no attribute 'distributed'" in live.reason


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_stub_of_torch_fails_with_its_own_error(tmp_path: Path, method: str) -> None:
    body = DISTRIBUTED.format(rank="print('words'); raise NotImplementedError('a stub')")
    examined = examine(path=fake_torch(tmp_path, body), live="quick", start_method=method)
    live = live_of(examined.facts)
    assert live.status is LiveStatus.FAIL and "NotImplementedError: a stub" in live.reason
    assert "NotImplementedError" in live.ranks[0].stderr and examined.ended.finished


def test_a_rank_that_closes_its_pipe_costs_no_cpu(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    body = DISTRIBUTED.format(rank="os.closerange(3, 256); time.sleep(60)")
    live = live_of(examine(path=fake_torch(tmp_path, body), live="quick", stage_seconds=2.0).facts)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert live.status is LiveStatus.HANG and "stage start" in live.reason
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.5, "two arms stood still for 2 s each"


def test_time_that_runs_out_is_no_hang(tmp_path: Path) -> None:
    body = DISTRIBUTED.format(rank="time.sleep(60)")
    examined = examine(path=fake_torch(tmp_path, body), live="quick", budget=Budget(6), stage_seconds=60.0)
    live = live_of(examined.facts)
    assert live.status is LiveStatus.INCONCLUSIVE and "ran out in the stage start" in live.reason
    assert examined.ended.finished, "before the caller's own deadline"


def test_processes_that_cannot_be_made(tmp_path: Path) -> None:
    body = (
        DISTRIBUTED.format(rank="pass").replace("cuda=None", 'cuda="13.0"')
        + """
def refuse(): raise BlockingIOError(11, "Resource temporarily unavailable")
os.fork = refuse
"""
    )
    examined = examine(path=fake_torch(tmp_path, body), live="quick")
    devices = examined.facts["devices"]
    assert isinstance(devices, Missing) and "temporarily unavailable" in devices.reason
    live = live_of(examined.facts)
    assert live.status is LiveStatus.INCONCLUSIVE and "rank 0 could not be started" in live.reason


def test_output_without_end_does_not_fill_the_disk(tmp_path: Path) -> None:
    log = tmp_path / "arm-0.log"
    with log.open("ab") as file:
        file.truncate(processes.LOG_LIMIT + 1)
        rank_process.RankProcess(0, str(tmp_path / "arm-0"), os.getpid()).trim_output()
        assert log.stat().st_size == 0
        file.write(b"the end\n")
    assert processes.tail(str(log)) == "the end\n"


def test_a_compiler_that_complains_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    assert processes.complaint(["sh", "-c", "echo no such thing >&2; exit 3"], 60) == (3, "no such thing\n")
    assert processes.complaint(["sleep", "60"], 0.1) == (None, "")
    monkeypatch.setattr(processes, "LOG_LIMIT", 1 << 22)
    began = time.monotonic()
    code, said = processes.complaint(["sh", "-c", "exec yes >&2"], 60)
    assert code is None and len(said) == 1 << 20 and time.monotonic() - began < 30


def test_a_child_dies_with_its_parent() -> None:
    program = """
import os, time
from envcheck.agent import processes
mine = os.getpid()
pid = os.fork()
if pid == 0:
    while os.getppid() == mine: time.sleep(0.01)  # the parent goes first: the race that prctl alone loses
    processes.die_with_parent(mine)
    print("survived", flush=True)
    os._exit(0)
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_statuses_survive_an_ignored_sigchld() -> None:
    old = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        processes.keep_exit_statuses()
        pid = processes.fork()
        if pid == 0:
            os._exit(5)
        assert processes.reap(pid, 10) == 5
        assert processes.exit_status(pid) == 0, "reaped by somebody else: no exception"
    finally:
        signal.signal(signal.SIGCHLD, old)


# ---- distributions


def test_broken_small_files_cost_nothing_else(tmp_path: Path) -> None:
    distribution(tmp_path, "torch", "2.9.1")
    for name, text in (("torchvision", "no JSON"), ("torchaudio", "[1]"), ("torchtext", '{"url": "git+https://me:hunter2@host/x.git"}')):
        distribution(tmp_path, name, "1.0")
        (tmp_path / f"{name}-1.0.dist-info" / "direct_url.json").write_text(text)
    (tmp_path / "triton-3.5.0.dist-info").mkdir()
    (tmp_path / "torch-2.9.1.dist-info" / "RECORD").write_bytes(
        b"torch/lib/\xff\xfe.so,,\nnvidia/block.sort.h,,\n" + b"torch/lib/x.py,,\n" * 200_000
    )
    packages = examine(path=tmp_path, static=True).facts["packages"]
    assert isinstance(packages, PackagesFacts)
    urls = {row.name: row.direct_url for row in packages.distributions if row.location == str(tmp_path)}
    assert urls == {"torch": None, "torchaudio": None, "torchtext": "git+https://host/x.git", "torchvision": None}
    assert any("triton" in path for path in packages.leftovers), "no METADATA in it"
    assert len(packages.damaged) == 2, "the library and the module, each once"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("https://a:b@x/s https://c:d@y/t", "https://x/s https://y/t"),
        ("https://user:pa/ss@host/simple", "https://host/simple"),
        ("git+https://host:443/a/b@v1", "git+https://host:443/a/b@v1"),
        ("https://conda.anaconda.org/t/xy-123/private", "https://conda.anaconda.org/private"),
        ("/plain:/paths", "/plain:/paths"),
        ("https://token@host", "https://host"),
    ],
)
def test_urls_without_passwords(text: str, kept: str) -> None:
    assert inventory.without_password(text) == kept


@pytest.mark.parametrize(("version", "text"), [((3, 14, 0, "candidate", 2), "3.14.0rc2"), ((3, 8, 18, "final", 0), "3.8.18")])
def test_versions_as_packaging_spells_them(version: Any, text: str) -> None:
    assert inventory.released(version) == text


def test_a_folder_that_may_not_be_read_is_not_called_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "stat", refused)
    assert inventory.is_missing("/root/site-packages/torch/lib/libtorch.so") is False


def test_a_full_disk_is_told_apart_from_what_the_patient_does(tmp_path: Path) -> None:
    options = {"out": "/dev/full", "folder": str(tmp_path), "static": True}
    done = subprocess.run([sys.executable, AGENT, json.dumps(options)], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 74 and "No space left on device" in done.stderr


def test_a_torch_that_closes_the_standard_descriptors(tmp_path: Path) -> None:
    body = "import os\nfor number in (0, 1, 2): os.close(number)\n" + WORKING.format(available=True, init="lambda: None")
    devices = examine(path=fake_torch(tmp_path, body)).facts["devices"]
    assert devices.available is True and devices.count == 2
