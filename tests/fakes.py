"""A machine with a fake driver: our fake nvidia-smi, NVML and libcuda, and only the files that a test gives it."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from patients import SOON

from envcheck.host.access import READ_LIMIT, RealHost

FAULTS = Path(__file__).parent / "faults"
SMI = FAULTS / "smi" / "nvidia-smi"
# Of the real machine only what programs need to run; not its driver.
_HIDDEN = ("/sys/module/nvidia", "/sys/module/nouveau", "/proc/driver/nvidia", "/proc/driver/nvidia-nvswitch", "/dev/dxg", "/sys/bus/pci")


def build(source: str, target: Path) -> Path:
    """A shared library from FAULTS/source; the test is skipped where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler to build the fake libraries with")
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(target), str(FAULTS / source)], check=True, timeout=60)
    return target


class FakeDriverHost(RealHost):
    """This machine without its own NVIDIA driver; `files` are shown in its place."""

    def __init__(self, env: Mapping[str, str], files: Mapping[str, str] | None = None, libraries: Mapping[str, str] | None = None) -> None:
        self.marker = f"envcheck-test-{uuid.uuid4().hex}"
        super().__init__({**env, "ENVCHECK_TEST": self.marker})
        self.files = dict(files or {})
        self.shown = dict(libraries or {})

    def read(self, path: str, limit: int = READ_LIMIT) -> str | None:
        return self.files.get(path) if path.startswith(_HIDDEN) or path in self.files else super().read(path, limit)

    def exists(self, path: str) -> bool:
        if path.startswith(_HIDDEN) or path in self.files:
            return any(name == path or name.startswith(path + "/") for name in self.files)
        return super().exists(path)

    def listdir(self, path: str) -> tuple[str, ...] | None:
        below = sorted({name[len(path) + 1 :].split("/")[0] for name in self.files if name.startswith(path + "/")})
        if path == "/dev" or path.startswith(_HIDDEN):
            return tuple(below) if below or path == "/dev" else None
        return super().listdir(path)

    def libraries(self, name: str) -> tuple[str, ...]:
        """Only what LD_LIBRARY_PATH leads to: a real driver of this machine is not asked."""
        folders = self.env.get("LD_LIBRARY_PATH", "").split(":")
        return tuple(path for path in super().libraries(name) if os.path.dirname(path) in folders)

    def left_behind(self) -> list[str]:
        """Processes that still carry this host's environment; those that were killed may take a moment."""
        limit = time.monotonic() + SOON
        while (found := self._carry()) and time.monotonic() < limit:
            time.sleep(0.02)
        return found

    def _carry(self) -> list[str]:
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if self.marker.encode() in Path(f"/proc/{pid}/environ").read_bytes():
                    found.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
            except OSError:
                continue
        return found


MakeHost = Callable[..., FakeDriverHost]


@pytest.fixture(scope="session")
def fake_libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders that hold a fake libnvidia-ml.so.1 and a fake libcuda.so.1."""
    folder = tmp_path_factory.mktemp("fakes")
    return {
        "nvml": build("fake_nvml.c", folder / "nvml" / "libnvidia-ml.so.1").parent,
        "cuda": build("fake_cuda.c", folder / "cuda" / "libcuda.so.1").parent,
    }


@pytest.fixture
def driver_host(request: pytest.FixtureRequest, tmp_path: Path) -> MakeHost:
    """`driver_host(smi="ok", nvml="ok", cuda="0", files={…}, folder=…, **variables)`; what is not named is not there.

    `folder` comes first on PATH.
    """

    def make(
        smi: str | None = None,
        nvml: str | None = None,
        cuda: str | None = None,
        files: Mapping[str, str] | None = None,
        folder: Path | None = None,
        **variables: str,
    ) -> FakeDriverHost:
        env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **variables}
        if shutil.which("nvidia-smi", path=env["PATH"]):  # a GPU machine: its own must not be found
            tools = tmp_path / "tools"
            tools.mkdir(exist_ok=True)
            for name in ("sh", "sleep", "tr", "dmesg", "gcc", "env"):
                path = shutil.which(name, path=env["PATH"])
                if path and not (tools / name).exists():
                    (tools / name).symlink_to(path)
            env["PATH"] = str(tools)
        if smi is not None:
            env |= {"PATH": f"{SMI.parent}:{env['PATH']}", "FAKE_SMI": smi}
        if folder is not None:
            env["PATH"] = f"{folder}:{env['PATH']}"
        folders = []
        for name, state in (("nvml", nvml), ("cuda", cuda)):
            if state is not None:
                folders.append(str(request.getfixturevalue("fake_libraries")[name]))
                env[f"FAKE_{name.upper()}"] = state
        if folders:
            env["LD_LIBRARY_PATH"] = ":".join(folders)
        return FakeDriverHost(env, files)

    return make
