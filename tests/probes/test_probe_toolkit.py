"""Toolkits and compilers: every nvcc, and the CUDA_HOME that torch's own code would take."""

from __future__ import annotations

import importlib.util
import re
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from patients import SOON

from envcheck.host.access import RealHost
from envcheck.host.recording import RecordingHost, ReplayHost
from envcheck.probes.toolkit import cuda_home, host_compiler, nvcc_places, probe, triton_compiler

NVCC_12_8 = (
    "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 12.8, V12.8.93\nBuild cuda_12.8.r12.8/compiler.35583870_0\n"
)


def machine(answers: Mapping[str, object], **env: str) -> ReplayHost:
    return ReplayHost(answers, env)


def tool(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_nothing_there() -> None:
    facts = probe(machine({}))
    assert (facts.nvccs, facts.cuda_home, facts.nvcc, facts.gcc, facts.compiler) == ((), None, None, None, None)


def test_cuda_home_variables_are_believed_unseen() -> None:
    facts = probe(machine({"which nvcc": "/opt/cuda/bin/nvcc"}, CUDA_HOME="/gone"))
    assert (facts.cuda_home, facts.cuda_home_source, facts.cuda_home_exists, facts.nvcc) == ("/gone", "CUDA_HOME", False, None)


@pytest.mark.parametrize(
    ("answers", "env", "expected"),
    [
        ({}, {}, (None, None)),
        ({"exists /usr/local/cuda": True}, {}, ("/usr/local/cuda", "/usr/local/cuda")),
        ({"which nvcc": "/opt/cuda/bin/nvcc", "exists /usr/local/cuda": True}, {}, ("/opt/cuda", "nvcc on PATH")),
        ({"which nvcc": "/opt/cuda/bin/nvcc"}, {"CUDA_PATH": "/b"}, ("/b", "CUDA_PATH")),
        ({}, {"CUDA_HOME": "/a", "CUDA_PATH": "/b"}, ("/a", "CUDA_HOME")),
        ({"which nvcc": "/opt/cuda/bin/nvcc"}, {"CUDA_HOME": ""}, ("/opt/cuda", "nvcc on PATH")),
        ({"which nvcc": "/opt/cuda/bin/nvcc"}, {"CUDA_PATH": ""}, ("", "CUDA_PATH")),
    ],
)
def test_cuda_home(answers: dict[str, object], env: dict[str, str], expected: tuple[str | None, str | None]) -> None:
    assert cuda_home(machine(answers, **env)) == expected


def test_cuda_home_is_what_torch_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source text of the installed torch, run without importing torch."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("no torch in this interpreter to compare with")
    source = (Path(spec.submodule_search_locations[0]) / "utils" / "cpp_extension.py").read_text(encoding="utf-8")
    text = re.search(r"^def _find_cuda_home\(\).*?(?=^def )", source, re.MULTILINE | re.DOTALL)
    assert text is not None
    on_path = tool(tmp_path / "toolkit" / "bin", "nvcc", "true").parent
    for env in (
        {"CUDA_HOME": "/a"},
        {"CUDA_PATH": "/b"},
        {"CUDA_HOME": "", "CUDA_PATH": "/b"},
        {"CUDA_HOME": ""},
        {"CUDA_PATH": ""},
        {"PATH": str(on_path)},
        {"PATH": str(tmp_path)},
    ):
        monkeypatch.setenv("PATH", "/nowhere")
        for name in ("CUDA_HOME", "CUDA_PATH"):
            monkeypatch.delenv(name, raising=False)
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        scope: dict[str, object] = {"IS_WINDOWS": False}
        exec("import glob, os, shutil, types\ntorch = types.SimpleNamespace(cuda=types.SimpleNamespace(is_available=lambda: True))", scope)  # noqa: S102
        exec(text.group(), scope)  # noqa: S102
        assert cuda_home(RealHost())[0] == scope["_find_cuda_home"](), env  # type: ignore[operator]


def test_every_nvcc_once() -> None:
    answers = {
        "which nvcc": "/usr/bin/nvcc",
        "exists /usr/bin/nvcc": True,
        "listdir /usr/local": ["bin", "cuda", "cuda-12.8", "cuda-13.0"],
        "exists /usr/local/cuda/bin/nvcc": True,
        "realpath /usr/local/cuda/bin/nvcc": "/usr/local/cuda-13.0/bin/nvcc",
        "exists /usr/local/cuda-12.8/bin/nvcc": True,
        "exists /usr/local/cuda-13.0/bin/nvcc": True,
        "exists /conda/bin/nvcc": True,
    }
    host = machine(answers, CONDA_PREFIX="/conda", CUDA_HOME="/usr/local/cuda")
    assert nvcc_places(host, "/usr/local/cuda") == {
        "/usr/local/cuda/bin/nvcc": "CUDA_HOME",
        "/usr/bin/nvcc": "PATH",
        "/usr/local/cuda-12.8/bin/nvcc": "/usr/local/cuda-12.8",
        "/conda/bin/nvcc": "conda",
    }


def test_versions_and_broken_ones(tmp_path: Path) -> None:
    tool(tmp_path / "good" / "bin", "nvcc", f"printf '%s' '{NVCC_12_8}'")
    tool(tmp_path / "bin", "nvcc", "echo 'nvcc: cannot find cudafe++' >&2; exit 1")
    tool(tmp_path / "conda" / "bin", "nvcc", "kill -SEGV $$")
    env = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "CUDA_HOME": str(tmp_path / "good"), "CONDA_PREFIX": str(tmp_path / "conda")}
    facts = probe(RealHost(env))
    assert facts.nvcc is not None and (facts.nvcc.version, facts.nvcc.release, facts.nvcc.source) == ("12.8", "12.8.93", "CUDA_HOME")
    errors = {one.path: one.error for one in facts.nvccs if one.path.startswith(str(tmp_path)) and one.error}
    assert errors[str(tmp_path / "bin" / "nvcc")] == "nvcc: cannot find cudafe++"
    assert "SIGSEGV" in (errors[str(tmp_path / "conda" / "bin" / "nvcc")] or "")


def test_one_that_hangs_costs_only_itself(tmp_path: Path) -> None:
    tool(tmp_path, "nvcc", "exec sleep 1000")
    tool(tmp_path, "clang", "echo 'clang version 18.1.3'")
    began = time.monotonic()
    facts = probe(RealHost({"PATH": f"{tmp_path}:/usr/bin:/bin", "CUDA_HOME": str(tmp_path)}), 1.0)
    assert time.monotonic() - began < SOON
    assert facts.clang == "18.1.3"
    assert [one.error for one in facts.nvccs if one.path == str(tmp_path / "nvcc")] == ["no answer within 1 s"]


def test_compilers(tmp_path: Path) -> None:
    tool(tmp_path, "gcc", "echo 13.3.0")
    tool(tmp_path, "clang", "echo 'Ubuntu clang version 18.1.3 (1ubuntu1)'")
    env = {"PATH": str(tmp_path)}
    facts = probe(RealHost(env))
    assert (facts.gcc, facts.gcc_path, facts.clang) == ("13.3.0", str(tmp_path / "gcc"), "18.1.3")
    assert facts.compiler == str(tmp_path / "gcc")
    other = probe(RealHost({**env, "CC": "clang"}))
    assert (other.gcc, other.gcc_path, other.clang, other.compiler) == (None, str(tmp_path / "clang"), "18.1.3", "clang")


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, "/usr/bin/gcc"),
        ({"CC": "/opt/gcc-11"}, "/opt/gcc-11"),
        ({"CC": "ccache gcc -m64"}, "/usr/bin/gcc"),
        ({"NVCC_CCBIN": "/opt/bin", "CC": "/opt/gcc-11"}, "/opt/bin/gcc"),
        ({"CC": "nosuch"}, None),
        ({"CC": ""}, "/usr/bin/gcc"),
    ],
)
def test_host_compiler(env: dict[str, str], expected: str | None) -> None:
    answers = {
        "which gcc": "/usr/bin/gcc",
        "exists /usr/bin/gcc": True,
        "exists /opt/gcc-11": True,
        "listdir /opt/bin": ["gcc"],
        "exists /opt/bin/gcc": True,
    }
    assert host_compiler(machine(answers, **env)) == expected


def test_triton_takes_clang_where_there_is_no_gcc() -> None:
    assert triton_compiler(machine({"which clang": "/usr/bin/clang"})) == "/usr/bin/clang"
    assert triton_compiler(machine({"which clang": "/c", "which gcc": "/g"}, CC="tcc")) == "tcc"


def test_recorded_and_replayed() -> None:
    recording = RecordingHost(RealHost())
    here = probe(recording)
    assert probe(ReplayHost(recording.answers, recording.env)) == here
