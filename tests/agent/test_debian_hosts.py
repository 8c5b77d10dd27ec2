"""Other hosts, really: Debian's own releases in throwaway folders, each with its own Python, C library and packages.

`python -m pytest -m hosts` (five minutes, 300 MB at a time, as root, with debootstrap): the agent runs in each, the tool where its Python
is new enough. There is no torch in them but one that has never been a whole one: what is tried is everything around it.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from envcheck.facts.snapshot import Missing, PackagesFacts, PythonFacts, TorchFacts
from envcheck.target import process
from envcheck.target.interpreter import Target
from envcheck.target.sections import sections

ROOT = Path(__file__).parents[2]
MIRROR = os.environ.get("ENVCHECK_DEBIAN", "http://deb.debian.org/debian")
RUNTIME = ("rich", "packaging", "pynvml.py", "markdown_it", "mdurl", "pygments")  # pure Python, all of them

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="needs root, for chroot"),
    pytest.mark.skipif(shutil.which("debootstrap") is None, reason="needs debootstrap"),
]


@dataclass(frozen=True)
class Release:
    name: str
    python: tuple[int, int]  # at least, of what moves on
    glibc: tuple[int, int]
    runs_tool: bool


RELEASES = [
    Release("bullseye", (3, 9), (2, 31), False),
    Release("trixie", (3, 13), (2, 41), True),
    Release("sid", (3, 14), (2, 42), True),
]


def bootstrap(folder: Path, release: str, *more: str) -> None:
    command = ["debootstrap", "--variant=minbase", "--include=python3", *more, release, str(folder), MIRROR]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    if done.returncode:
        pytest.skip(f"debootstrap {release}: {(done.stdout + done.stderr).strip().splitlines()[-1:]}")


class Host:
    """A root folder with a Debian in it, the checkout's package, and what it needs."""

    def __init__(self, release: Release, folder: Path) -> None:
        self.release, self.folder = release, folder
        bootstrap(folder, release.name)
        self.place_the_tool()

    def place_the_tool(self) -> None:
        place = self.folder / "opt" / "envcheck"
        no_cache = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "envcheck", place / "envcheck", ignore=no_cache)
        shutil.copytree(ROOT / "rules", place / "rules")
        import rich

        site = Path(rich.__file__).parents[1]
        for name in RUNTIME:
            source = site / name
            if source.is_dir():
                shutil.copytree(source, place / name, ignore=no_cache)
            else:
                shutil.copy(source, place / name)

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """A command in there, with /proc and /dev as in a container; the mounts end with it."""
        inside = f'mount --bind /proc {self.folder}/proc && mount --rbind /dev {self.folder}/dev && exec chroot {self.folder} "$@"'
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", inside, "sh", *words]
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "PYTHONPATH": "/opt/envcheck", **variables}
        return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)

    def envcheck(self, *words: str) -> tuple[int, str]:
        done = self.run("/usr/bin/python3", "-m", "envcheck", *words)
        assert "internal error" not in done.stderr and "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout


@pytest.fixture(scope="module", params=RELEASES, ids=lambda release: release.name)
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp(request.param.name) / "root"
    try:
        yield Host(request.param, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def half_a_torch(host: Host) -> None:
    site = host.folder / "usr/lib/python3/dist-packages"
    (site / "torch-2.8.0+cpu.dist-info").mkdir(parents=True, exist_ok=True)
    (site / "torch-2.8.0+cpu.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.8.0+cpu\n")
    (site / "torch").mkdir(exist_ok=True)
    (site / "torch" / "version.py").write_text("__version__ = '2.8.0+cpu'\ncuda = None\n")
    (site / "torch" / "__init__.py").write_text(
        "import sys\nraise ImportError('libc10.so: cannot open shared object file: No such file')\n"
    )


def agents_answer(host: Host, static: bool) -> dict[str, Any]:
    (host.folder / "tmp" / "private").mkdir(exist_ok=True)
    options = {"folder": "/tmp/private", "out": "/tmp/private/agent.jsonl", "static": static, "live": "off", "nproc": None,
               "backend": "auto", "start_method": "auto", "live_seconds": 60, "devices_seconds": 30}  # fmt: skip
    agent = "/opt/envcheck/envcheck/agent/main.py"
    done = host.run("/usr/bin/python3", "-W", "error", "-X", "faulthandler", agent, json.dumps(options), PYTHONPATH="")
    assert done.returncode == 0, done.stderr
    written = (host.folder / "tmp/private/agent.jsonl").read_text()
    lines = tuple(json.loads(line) for line in written.splitlines())
    ended = process.Ended(lines, 0, None, done.stderr, "", 1.0, 1.0)
    assert ended.finished
    return sections(ended, Target("/usr/bin/python3", "the test wants it"), static=static, live_asked=False)


@pytest.mark.parametrize("static", [True, False], ids=["static", "import"])
def test_the_agent_answers(host: Host, static: bool) -> None:
    half_a_torch(host)
    found = agents_answer(host, static)
    python, packages, torch = found["python"], found["packages"], found["torch"]
    assert isinstance(python, PythonFacts) and isinstance(packages, PackagesFacts) and isinstance(torch, TorchFacts), found
    assert tuple(int(part) for part in (python.version or "").split(".")[:2]) >= host.release.python
    assert packages.version("torch") == torch.version == "2.8.0+cpu"
    if not static:
        assert torch.import_failure and "libc10.so" in torch.import_failure.text
    assert isinstance(found["live"], Missing)
    assert not list((host.folder / "opt").rglob("__pycache__")), "nothing is written beside the agent"


def test_the_tool_sees_the_host_it_is_on(host: Host) -> None:
    if not host.release.runs_tool:
        pytest.skip("the tool needs Python 3.10")
    half_a_torch(host)
    code, out = host.envcheck("--static", "--json")
    report = json.loads(out)
    system, limits = report["facts"]["system"], report["facts"]["limits"]
    assert code == report["exit_code"] and "missing" not in system and "missing" not in limits
    assert tuple(int(part) for part in system["glibc"].split(".")) >= host.release.glibc
    assert system["distribution_id"] == "debian"
    assert report["facts"]["torch"]["version"] == "2.8.0+cpu"
    assert report["facts"]["python"]["executable"] == "/usr/bin/python3"
    code, out = host.envcheck("--json")
    assert code == 1 and json.loads(out)["findings"][0]["rule"].startswith("torch-"), out


def test_diagnose_and_every_format(host: Host) -> None:
    if not host.release.runs_tool:
        pytest.skip("the tool needs Python 3.10")
    log = "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory\n"
    (host.folder / "tmp" / "log.txt").write_text(log)
    code, out = host.envcheck("diagnose", "/tmp/log.txt")
    assert code == 1 and "missing-library" in out
    for form in ("json", "markdown", "junit", "github", "sarif", "html", "termination"):
        code, out = host.envcheck("diagnose", "/tmp/log.txt", "--format", form)
        assert code == 1 and out.strip(), form
    assert host.envcheck("plan", "torch", "--for", "h100", "--driver", "580.95.05", "--python", "3.12")[0] == 0
    assert host.envcheck("explain", "driver-too-old")[0] == 0


EMULATED = """
#include <unistd.h>
int main(int argc, char **argv) {
    char *words[argc + 4];
    words[0] = "/qemu"; words[1] = "-0"; words[2] = argv[0]; words[3] = "/usr/bin/python3.13";
    for (int i = 1; i <= argc; i++) words[i + 3] = argv[i];
    execv("/qemu", words);
    return 127;
}
"""


class ArmHost(Host):
    """Debian's packages for arm64, unpacked; /usr/bin/python3 starts the emulator, so that the kernel needs to know nothing of it."""

    def __init__(self, folder: Path) -> None:
        self.release, self.folder = Release("trixie", (3, 13), (2, 41), True), folder
        bootstrap(folder, "trixie", "--foreign", "--arch=arm64")
        for package in sorted((folder / "var/cache/apt/archives").glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", str(package), str(folder)], check=True, timeout=120)
        shutil.copy(shutil.which("qemu-aarch64-static") or "", folder / "qemu")
        (folder / "usr/bin/python3").unlink()
        compiler = ["cc", "-static", "-O1", "-x", "c", "-", "-o", str(folder / "usr/bin/python3")]
        subprocess.run(compiler, input=EMULATED, text=True, check=True, timeout=60)
        (folder / "etc/hosts").write_text(f"127.0.0.1 localhost {platform.node()}\n")  # its second stage, which writes it, does not run
        self.place_the_tool()


@pytest.mark.skipif(shutil.which("qemu-aarch64-static") is None, reason="needs qemu-user-static")
def test_on_arm_the_tool_gives_its_reports(tmp_path: Path) -> None:
    host = ArmHost(tmp_path / "root")
    try:
        code, out = host.envcheck("--static", "--json")
        report = json.loads(out)
        assert code == 1 and [finding["rule"] for finding in report["findings"]] == ["torch-missing"]
        assert report["facts"]["system"]["machine"] == "aarch64"
        (host.folder / "tmp/log.txt").write_text(
            "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory\n"
        )
        code, out = host.envcheck("diagnose", "/tmp/log.txt", "--json")
        assert code == 1 and json.loads(out)["findings"][0]["rule"] == "missing-library"
    finally:
        shutil.rmtree(host.folder, ignore_errors=True)
