"""The agent on broken and odd targets: every death costs its own section only, and is named."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from patients import distribution, examine, fake_torch, processes_with

from envcheck.facts import ImportStatus, Missing, PackagesFacts, PythonFacts, TorchFacts, Why
from envcheck.target import AGENT, Budget

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
    get_device_properties = staticmethod(lambda i: types.SimpleNamespace(name="NVIDIA A10", total_memory=1 << 34, major=8, minor=6, uuid="u"))
"""


def torch_of(facts: dict[str, object]) -> TorchFacts:
    torch = facts["torch"]
    assert isinstance(torch, TorchFacts)
    return torch


def test_static_facts_cost_no_import(tmp_path: Path) -> None:
    fake_torch(tmp_path, "raise SystemExit('imported')", version_py="__version__ = '2.14.1+cu130'\ncuda: Optional[str] = '13.0'\nhip = None\n")
    facts = examine(path=tmp_path, static=True).facts
    torch = torch_of(facts)
    assert (torch.version, torch.cuda, torch.import_status, torch.cpu_build) == ("2.14.1+cu130", "13.0", ImportStatus.SKIPPED, False)
    assert isinstance(facts["python"], PythonFacts)
    assert facts["python"].pythonpath == str(tmp_path)
    assert isinstance(facts["live"], Missing) and facts["live"].why is Why.SKIPPED


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("raise ImportError('libcudnn.so.9: cannot open shared object file: No such file or directory')", ImportStatus.ERROR, "libcudnn.so.9"),
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
    examined = examine(path=fake_torch(tmp_path, body), budget=Budget(6))
    torch = torch_of(examined.facts)
    assert torch.import_status is ImportStatus.TIMEOUT
    assert torch.import_failure is not None and "wedged" in torch.import_failure.stack
    assert examined.ended.seconds < 6
    assert not processes_with(str(examined.folder))


def test_a_grandchild_that_ignores_sigterm_goes_too(tmp_path: Path) -> None:
    body = "import subprocess, time\nsubprocess.Popen(['sh', '-c', 'trap : TERM; sleep 987654'])\ntime.sleep(3600)\n"
    examine(path=fake_torch(tmp_path, body), budget=Budget(6))
    assert not processes_with("sleep 987654")


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
    program = f"import sys; sys.path.append({str(site)!r}); sys.argv = sys.argv[1:]; import runpy; runpy.run_path(sys.argv[0], run_name='__main__')"
    python.write_text(f'#!/bin/sh\nshift 2\nexec "{sys.executable}" -I -S -c "{program}" "$@"\n')
    python.chmod(0o755)
    torch = torch_of(examine(executable=str(python)).facts)
    assert torch.import_status is ImportStatus.ERROR
    assert torch.import_failure is not None and torch.import_failure.type == "ModuleNotFoundError"


def test_package_facts(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    library = "nvidia/nccl/lib/libnccl.so.2"
    distribution(first, "torch", "2.9.1", requires=("nvidia-nccl-cu12==2.27.5; platform_system == 'Linux'", "triton==3.5.1; platform_system == 'Windows'"))
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


def test_the_agent_imports_only_the_standard_library() -> None:
    allowed = set(sys.stdlib_module_names) - {"typing"} | {"torch", "__future__"}
    paths = list(Path(AGENT).parent.glob("*.py"))
    assert len(paths) > 5
    for path in paths:
        for node in agent_nodes(path):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert name and name.partition(".")[0] in allowed, f"{path.name} imports {name}"


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
