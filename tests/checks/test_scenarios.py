"""The fault kit beside the repository, when it is there: every scenario gets the verdict that a correct tool gives."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from patients import needs_torch, processes_below

SHARED = Path(os.environ.get("ENVCHECK_SHARED", Path(__file__).parents[3] / "shared"))
KIT = SHARED / "faults"
ROOT = Path(__file__).parents[2]
SCENARIOS: list[dict[str, Any]] = json.loads((KIT / "scenarios.json").read_text())["scenarios"] if KIT.is_dir() else []

pytestmark = [needs_torch, pytest.mark.torch, pytest.mark.skipif(not SCENARIOS, reason="no fault kit beside the repository")]


@pytest.fixture(scope="module")
def slot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """A venv with the tool and no torch, into which a scenario's torch is put by a .pth file; and the fake NVML, compiled."""
    base = tmp_path_factory.mktemp("kit")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", base / "venv"], check=True)
    site = next((base / "venv").glob("lib/python*/site-packages"))
    own = Path(sysconfig.get_path("purelib"))
    tool = base / "tool"
    tool.mkdir()
    for name in ("rich", "packaging", "pynvml.py", "markdown_it", "mdurl", "pygments"):
        (tool / name).symlink_to(own / name)
    (site / "tool.pth").write_text(f"{ROOT}\n{tool}\n")
    library = base / "nvml" / "libnvidia-ml.so.1"
    library.parent.mkdir()
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, KIT / "nvml" / "fake_nvml.c"], check=True)
    yield {"python": base / "venv" / "bin" / "python", "pth": site / "zz_slot.pth", "nvml": library.parent, "base": base, "real": own}


def torch_place(kind: str, version: str, slot: dict[str, Path]) -> str:
    if kind == "none":
        return ""
    if kind == "real":
        return str(slot["real"])
    if kind not in ("stub", "noisy"):
        return str(KIT / "torch" / kind)
    folder = slot["base"] / f"{kind}-{version}"
    if not folder.is_dir():
        shutil.copytree(KIT / "torch" / kind / "torch", folder / "torch")
        shutil.copy(KIT / "torch" / "stub" / "_torch_stub.py", folder)
        info = folder / f"torch-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
        (info / "RECORD").write_text("torch/__init__.py,,\n")
    return str(folder)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[one["id"] for one in SCENARIOS])
def test_scenario(scenario: dict[str, Any], slot: dict[str, Path], tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    slot["pth"].write_text(torch_place(scenario["torch"], scenario["env"].get("STUB_VERSION", "2.15.0+cu132"), slot) + "\n")
    smi = f"{KIT / 'smi' / scenario['smi']}:" if scenario["smi"] else ""
    env = {
        "PATH": f"{smi}{slot['python'].parent}:/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "TMPDIR": str(home), "LANG": "C.UTF-8",
        "TERM": "dumb", "COLUMNS": "160", "PYTHONDONTWRITEBYTECODE": "1", **scenario["env"],
    }  # fmt: skip
    if scenario["nvml"]:
        env.update(LD_LIBRARY_PATH=str(slot["nvml"]), FAKE_NVML_MODE=scenario["nvml"])
    # The stubs have no torch.distributed and their kernels return 0.
    live = ["--live", "off"] if scenario["torch"] in ("stub", "noisy") else []
    began = time.monotonic()
    done = subprocess.run(
        [slot["python"], "-m", "envcheck", "--json", "--timeout", "60", *live],
        env=env,
        cwd=home,
        capture_output=True,
        text=True,
        timeout=120,
    )
    seconds = time.monotonic() - began
    report = json.loads(done.stdout)
    loud = [finding for finding in report["findings"] if finding["severity"] in ("error", "warning")]
    assert done.returncode in scenario["exit"] and report["exit_code"] == done.returncode, (done.returncode, loud, done.stderr)
    assert seconds < scenario.get("seconds", 60)
    rules = [finding["rule"] for finding in loud]
    if scenario["rules"]:
        assert set(rules[:3]) & set(scenario["rules"]), rules
    else:
        assert not loud
    for word in scenario.get("facts", ()):
        assert word in json.dumps(report["facts"])
    fixes = json.dumps([finding["fixes"] for finding in loud])
    for pattern in scenario.get("fix", ()):
        assert re.search(pattern, fixes), fixes
    for pattern in scenario.get("never", ()):
        assert not re.search(pattern, fixes), fixes
    assert [path for path in home.rglob("*") if path.is_file()] == []
    assert not processes_below(home), "something that the scenario started is still running"
