"""The command as a user meets it: exit codes, one JSON document, bad input, interruption, nothing left behind."""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from patients import HERE, all_gone, fake_torch, leaves_a_daemon, needs_torch, processes_with

from envcheck import cli
from envcheck.cli import main
from envcheck.commands import COMMANDS
from envcheck.commands.output import _write_all
from envcheck.errors import ENDING_TOO, INTERRUPTING
from envcheck.options import command_parser
from envcheck.render import FORMATS
from envcheck.render.styled import width_of

ROOT = HERE.parent
SCHEMA = json.loads((ROOT / "envcheck" / "schema" / "report-v1.json").read_text())
STAGES = ["start", "device", "store", "init", "barrier", "all_reduce", "ddp", "destroy"]


def run(*words: str, env: dict[str, str] | None = None, timeout: float = 120, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "80", "PYTHONPATH": str(ROOT), **(env or {})}
    return subprocess.run(
        [sys.executable, "-m", "envcheck", *words], capture_output=True, text=True, env=environment, timeout=timeout, cwd=cwd
    )


def test_version() -> None:
    done = run("--version")
    assert done.returncode == 0 and done.stdout.startswith("envcheck ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--jsno"], "did you mean --json"),
        (["--timeout=soon"], "--timeout soon: a number is expected"),
        (["plan", "--timeout", "soon"], "--timeout soon: a number is expected"),
        (["exlpain", "x"], "did you mean explain"),
        (["--select", "driver-too-odl"], "did you mean driver-too-old"),
        (["--ignore", "nonsense-rule-xyzzy"], "no such rule or family"),
        (["explain", "torch-misssing"], "torch-missing"),
        (["--live", "slow"], "--live slow: one of quick, full, off"),
        (["--live"], "expected one argument, one of quick, full, off"),
        (["--backend", "glo"], "did you mean gloo?"),
        (["--fix"], "did you mean --fix-suggest?"),
        (["--for", "h100"], "--for is a flag of `envcheck plan`"),
        (["doctor"], "doctor: no such command; there are check,"),
        (["help"], "did you mean `envcheck --help`?"),
        (["driver"], "driver: no such command; did you mean `envcheck explain driver`?"),
        (["driver-too-old"], "did you mean `envcheck explain driver-too-old`?"),
        ([str(Path(__file__))], "did you mean `envcheck run -- python "),
        ([str(Path(__file__).parents[2] / "pyproject.toml")], "did you mean `envcheck plan -r "),
        ([str(Path(__file__).parents[2] / "CHANGELOG.md")], "did you mean `envcheck diagnose "),
        (["--static", "--live", "full"], "--static and --live full contradict each other"),
        (["--json", "--format", "html"], "--json and --format html contradict each other"),
        (["-q", "-v"], "--quiet and --verbose contradict each other"),
        (["--facts", "x.json", "--python", "python3"], "--python and --facts contradict each other"),
        (["--facts", "x.json", "--live=full"], "--live and --facts contradict each other"),
        (["--static", "--select", ","], "--select: no rule is named"),
        (["-o", "a.txt", "-o", "b.log"], "-o b.log: a second file needs its format, as in -o json=b.log"),
        (["plan", "-o", "junit=a.xml"], "-o junit=a.xml: `envcheck plan` writes one of text, json, html"),
        (["fleet", "-o", "sarif=a"], "-o sarif=a: `envcheck fleet` writes one of text, json, html, junit"),
        (["-o", "json=/nowhere/report.json"], "cannot be written"),
        (["--evidence", "/proc/nowhere"], "--evidence /proc/nowhere: "),
        (["run", "-o", "-", "--", "true"], "run: a report needs -o FILE"),
        (["--timeout", "1"], "between 5 and"),
        (["--nproc", "zero"], "a number of ranks"),
        (["--python", "/nowhere/python"], "no such file"),
        (["--python", "/bin/false"], "not a usable Python interpreter"),
        (["--facts", "/nowhere.json"], "/nowhere.json"),
        (["--expect", "gpsu>=8"], "did you mean gpu"),
        (["--expect", "driver>=new"], "not a version"),
        (["--assume", "driver"], "SECTION.FIELD=VALUE"),
        (["-o", "/nowhere/report.txt"], "cannot be written"),
        (["--config", "/nowhere.toml"], "/nowhere.toml"),
        (["run"], "no command"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(words: list[str], said: str) -> None:
    done = run(*words)
    assert done.returncode == 2, done
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1 and done.stdout == ""


@pytest.mark.parametrize(
    "words",
    [
        ["--facts="], ["--facts", ""], ["--evidence", ""], ["--python="], ["--ignore", ""], ["--select", ""], ["--config", ""],
        ["plan", "torch", "--for", ""], ["plan", "--driver="], ["plan", "--os", ""], ["diagnose", "--facts", ""],
        ["record", "--host", ""], ["run", "--facts=", "--", "true"], ["fleet", "--master", ""],
    ],
)  # fmt: skip
def test_a_flag_with_an_empty_value_is_not_one_that_was_left_out(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """`--facts "$FACTS"` without such a variable would judge this machine, `--for "$GPU"` plan for the CPU."""
    assert main(words) == 2
    flag = next(word for word in words if word.startswith("--")).rstrip("=")
    assert capsys.readouterr() == ("", f"envcheck: {flag} '': a value is expected, and this one is empty\n")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"not json", "JSON"),
        (b'{"schema": 99}', "99"),
        (b"\x00\x01\x02\xff", "JSON"),
        (b"[1, 2]", ""),
        (b'{"schema": 1, "facts": {"driver": 5}}', "driver"),
    ],
)
def test_bad_facts_files(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "facts.json"
    path.write_bytes(content)
    done = run("--facts", str(path))
    assert done.returncode == 2, done
    assert said in done.stderr and "Traceback" not in done.stderr


def test_a_huge_facts_file_is_refused_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    with path.open("wb") as file:
        file.truncate(500 << 20)
    # The kernel counts a process's peak from its exec on there, and not what the fork of this one brought along (getrusage does).
    code = "import sys; from envcheck.cli import main; code = main(sys.argv[1:]); print(open('/proc/self/status').read()); sys.exit(code)"
    done = subprocess.run([sys.executable, "-c", code, "--facts", str(path)], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    peak = re.search(r"^VmHWM:\s+(\d+) kB$", done.stdout, re.MULTILINE)
    assert peak and int(peak[1]) < 200 << 10


@needs_torch
@pytest.mark.torch
def test_the_main_job(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    env = {"HOME": str(home), "TMPDIR": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    done = run("--json", env=env, cwd=home)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == "", "progress is for terminals"
    report: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(report, SCHEMA)
    assert (report["verdict"], report["exit_code"], report["findings"]) == ("pass", 0, [])
    live = report["live"]
    assert (live["status"], live["world_size"], len(live["ranks"])) == ("pass", 2, 2)
    for rank in live["ranks"]:
        assert [stage["name"] for stage in rank["stages"]] == STAGES
    assert report["facts"]["torch"]["import_seconds"] > 0
    assert list(home.iterdir()) == [], "nothing is left on disk"


@needs_torch
@pytest.mark.torch
def test_text_ends_with_the_verdict_and_has_no_escapes() -> None:
    done = run("--live", "off")
    assert done.returncode == 0
    assert done.stdout.rstrip().splitlines()[-1].startswith(("Ready", "No problem"))
    assert "\x1b" not in done.stdout


def test_record_and_facts_give_the_same_report(tmp_path: Path) -> None:
    path = tmp_path / "node.json"
    assert run("record", "--static", "-o", str(path)).returncode == 0
    first, second = run("--facts", str(path), "--json"), run("--facts", str(path), "--json")
    one, other = json.loads(first.stdout), json.loads(second.stdout)
    one.pop("timings"), other.pop("timings")
    assert one == other
    same = run("compare", str(path), str(path))
    assert same.returncode == 0 and "same facts" in same.stdout


def test_assume_and_expect(tmp_path: Path) -> None:
    path = tmp_path / "node.json"
    assert run("record", "--static", "-o", str(path)).returncode == 0
    done = run("--facts", str(path), "--json", "--expect", "gpus>=8")
    report = json.loads(done.stdout)
    assert done.returncode == 1 and report["findings"][0]["rule"] == "expectation-failed"
    assumed = json.loads(run("--facts", str(path), "--json", "--assume", "driver.version=570.124.06").stdout)
    assert assumed["assumed"] == ["driver.version=570.124.06"]
    assert assumed["facts"]["driver"]["version"] == "570.124.06"


def test_configuration_file(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.envcheck]\nexpect = ["gpus>=64"]\nformat = "json"\n')
    done = run("--static", cwd=tmp_path)
    assert done.returncode == 1 and json.loads(done.stdout)["findings"][0]["rule"] == "expectation-failed"
    (tmp_path / "pyproject.toml").write_text("[tool.envcheck]\ntimeuot = 5\n")
    assert "did you mean 'timeout'" in run("--static", cwd=tmp_path).stderr


def test_an_expectation_on_what_was_switched_off_is_no_pass() -> None:
    done = run("--static", "--expect", "ranks>=2", "--select", "limits")
    assert done.returncode == 3, done.stdout
    assert "Cannot tell: ranks>=2 is expected: the live check did not run" in done.stdout


@needs_torch
@pytest.mark.torch
def test_the_backend_that_was_named_is_the_one_that_counts() -> None:
    done = run("--backend", "mpi", "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, [one["rule"] for one in report["findings"]]) == (1, ["backend-unavailable"])
    assert report["live"]["status"] == "pass" and report["live"]["backend"] == "gloo"


@needs_torch
@pytest.mark.torch
@pytest.mark.parametrize(
    ("words", "several"),
    [
        ((), {}),
        (("--nproc", "2"), {}),
        ((), {"WORLD_SIZE": "4", "RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}),
    ],
)
def test_several_processes_of_a_torch_that_has_no_process_group(words: tuple[str, ...], several: dict[str, str]) -> None:
    """Their absence is a warning where nobody asks for them."""
    fake = ROOT / "tests/faults/torch_without_group"
    done = run(*words, "--live", "off", "--json", env={"PYTHONPATH": f"{fake}:{ROOT}", **several})
    [found] = [one for one in json.loads(done.stdout)["findings"] if one["rule"] == "distributed-unavailable"]
    asked = bool(words or several)
    assert (done.returncode, found["severity"]) == ((1, "error") if asked else (0, "warning")), found
    assert ("no process group can be made" in found["message"]) is asked


def test_timeout_is_a_ceiling(tmp_path: Path) -> None:
    fake_torch(tmp_path, "import time; time.sleep(3600)")
    began = time.monotonic()
    done = run("--timeout", "10", "--json", env={"PYTHONPATH": f"{tmp_path}:{ROOT}"})
    assert time.monotonic() - began < 10
    assert done.returncode == 1 and "torch-import-hangs" in [one["rule"] for one in json.loads(done.stdout)["findings"]]


@pytest.mark.parametrize(
    ("numbers", "codes"),
    [
        ([signal.SIGINT], [-signal.SIGINT]),
        ([signal.SIGTERM], [143]),
        *(([number], [128 + number]) for name in ENDING_TOO if (number := getattr(signal, name, None))),
        ([signal.SIGUSR1, signal.SIGTERM], [128 + signal.SIGUSR1]),  # Slurm sends one after the other
        ([signal.SIGINT, signal.SIGINT], [-signal.SIGINT]),
        ([signal.SIGTERM, signal.SIGHUP], [143, 129]),  # both may have come before Python looks, and then the smaller number is first
    ],
)
def test_interruption_takes_everything_along(tmp_path: Path, numbers: list[signal.Signals], codes: list[int]) -> None:
    mark = f"child-{uuid.uuid4().hex}"
    child = f"[sys.executable, '-c', 'import time; time.sleep(300)', {mark!r}]"
    fake_torch(tmp_path / "site", f"import subprocess, sys, time; subprocess.Popen({child}); time.sleep(3600)")
    env = {**os.environ, "PYTHONPATH": f"{tmp_path / 'site'}:{ROOT}", "TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen([sys.executable, "-m", "envcheck"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not processes_with(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    for number in numbers:
        process.send_signal(number)
        time.sleep(0.001)
    _, said = process.communicate(timeout=60)
    assert process.returncode in codes, said
    assert "Traceback" not in said
    assert all_gone(mark)
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_a_reader_that_goes_away() -> None:
    process = subprocess.Popen([sys.executable, "-m", "envcheck", "rules"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
    assert process.stdout and process.stderr
    process.stdout.read(1)
    process.stdout.close()
    # 141 as a shell would say of SIGPIPE; 0 if everything was in the pipe before the reader went
    assert process.wait(30) in (0, 141)
    assert process.stderr.read() == b""
    process.stderr.close()


def test_a_reader_that_resets_its_socket() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with socket.create_connection(listener.getsockname()) as ours:
            theirs, _ = listener.accept()
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            theirs.close()
            words = [sys.executable, "-m", "envcheck", "explain", "driver-too-old"]
            done = subprocess.run(words, stdout=ours, stderr=subprocess.PIPE, text=True, cwd=ROOT, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.skipif(os.name != "posix", reason="limits of descriptors")
def test_a_pipe_with_a_high_number_is_waited_for() -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < 1200:
        pytest.skip("no descriptor above 1023 is granted here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (1200, before[1]))
    receive, send = os.pipe()
    text = b"x" * 300_000

    def write() -> None:
        try:
            _write_all(1100, text, 60.0)
        finally:
            os.close(1100)

    try:
        os.dup2(send, 1100)
        os.set_blocking(1100, False)
        os.close(send)
        with ThreadPoolExecutor(1) as pool, open(receive, "rb") as reader:
            writing = pool.submit(write)
            assert reader.read() == text, writing.exception()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_what_measures_the_users_memory_is_off() -> None:
    words = [sys.executable, "-X", "tracemalloc", "-c"]
    program = "import sys, tracemalloc; from envcheck.cli import main; main(); sys.exit(3 if tracemalloc.is_tracing() else 0)"
    assert subprocess.run([*words, program, "--version"], cwd=ROOT, stdout=subprocess.DEVNULL, timeout=60, check=False).returncode == 0


def test_a_crash_under_a_caller_that_ignores_sigchld(tmp_path: Path) -> None:
    """The kernel tells nobody then how a child has ended; a command undoes that, in a program's own process it is said."""
    site = fake_torch(tmp_path / "site", "import os\nos.abort()")
    environment = {**os.environ, "PYTHONPATH": f"{site}:{ROOT}"}
    ignoring = "import signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); "
    command = (
        ignoring + "from envcheck.cli import main; code = main(); assert signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN; sys.exit(code)"
    )
    own = ignoring + "import envcheck; print(envcheck.check(live='off').to_json())"
    for program, said in ((command, "died with SIGABRT"), (own, "how is not known (SIGCHLD is ignored)")):
        words = [sys.executable, "-c", program, "--json", "--live", "off"]
        done = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert json.loads(done.stdout)["facts"]["torch"]["import_failure"]["text"] == f"the interpreter {said}".replace(
            "er how", "er ended, and how"
        ), done.stderr


@pytest.mark.parametrize(
    ("program", "code"), [("raise SystemExit(7)", 7), ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL), ("", 0)]
)
def test_run_keeps_the_exit_code(program: str, code: int) -> None:
    done = run("run", "--static", "--fail-on", "never", "--", sys.executable, "-c", program or "print('trained')")
    assert done.returncode == code, done
    if not code:
        assert done.stdout == "trained\n"


def test_run_names_the_cause(tmp_path: Path) -> None:
    words = "RuntimeError: Numpy is not available"
    done = run(
        "run", "--static", "--fail-on", "never", "--", sys.executable, "-c", f"import sys; print({words!r}, file=sys.stderr); sys.exit(1)"
    )
    assert done.returncode == 1
    assert words in done.stderr and "numpy-abi" in done.stderr


def test_what_the_machine_refuses_to_a_check_keeps_no_command_from_starting(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither a file system without a place to write to nor a /dev without null; a wrong flag does."""

    def refuse(*_: object, **__: object) -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    words = ["run", "--static", "-o", str(tmp_path / "report.json"), "--", "sh", "-c", "echo started; exit 4"]
    assert main(words) == 4 and main([*words[:2], "--python", "/nonexistent", *words[4:]]) == 2
    out, said = capfd.readouterr()
    assert out == "started\n" and "nothing was checked: no folder for temporary files" in said and "bug" not in said


def test_without_a_temporary_folder_shared_memory_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil
    import tempfile

    from envcheck.collect import private_folder
    from envcheck.errors import UsageError

    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent/folder")
    folder = private_folder()
    try:
        assert folder.startswith(("/dev/shm/", "/run/user/")) and tempfile.tempdir == "/nonexistent/folder"  # the program's, that we are in
    finally:
        shutil.rmtree(folder)

    def refuse(*_: object, **__: object) -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    with pytest.raises(UsageError, match="TMPDIR"):
        private_folder()


def test_a_folder_without_room_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil
    import tempfile

    from envcheck.collect import private_folder
    from envcheck.host import full_folder
    from envcheck.host.syscalls import Trial

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(
        full_folder, "allocate", lambda path, size: Trial(size, 0, "Disk quota exceeded" if str(tmp_path) in path else None)
    )
    folder = private_folder()
    shutil.rmtree(folder)
    assert not folder.startswith(str(tmp_path)) and not os.listdir(tmp_path)
    found = full_folder.full_folder(str(tmp_path))
    assert found and found.error == "Disk quota exceeded" and found.free_bytes


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="modes of folders")
@pytest.mark.parametrize(("mode", "kept"), [(0o777, False), (0o1777, True), (0o755, True)])
def test_no_folder_is_made_where_others_could_put_a_link_in_its_place(monkeypatch: pytest.MonkeyPatch, mode: int, kept: bool) -> None:
    import shutil
    import tempfile

    from envcheck.collect import private_folder

    with tempfile.TemporaryDirectory(dir="/tmp") as theirs:  # that of tmp_path is too long for sockets
        os.chmod(theirs, mode)
        monkeypatch.setattr(tempfile, "tempdir", theirs)
        folder = private_folder()
        shutil.rmtree(folder)
        assert folder.startswith(theirs) is kept
        assert tempfile.gettempdir() == theirs


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_no_folder_is_made_below_a_name_that_torch_cannot_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    from envcheck.collect import private_folder

    with tempfile.TemporaryDirectory(dir="/tmp", suffix=os.fsdecode(b"\xff")) as theirs:
        monkeypatch.setattr(tempfile, "tempdir", theirs)
        folder = private_folder()
        os.rmdir(folder)
        assert not folder.startswith(theirs)


@pytest.mark.skipif(sys.platform != "linux", reason="folders below an open one")
def test_a_folder_of_any_depth_is_removed(tmp_path: Path) -> None:
    from envcheck.collect import _removed

    here = os.open(tmp_path, os.O_RDONLY)
    for name in ("ours", *["d"] * 3000):  # deeper than Python calls itself, and longer than a path may be
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        if name == "d":
            os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
            os.symlink("/", "link", dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    (tmp_path / "ours" / "shut").mkdir()
    (tmp_path / "ours" / "shut" / "below").mkdir()
    (tmp_path / "ours" / "shut").chmod(0)
    _removed(str(tmp_path / "ours"))
    assert not os.listdir(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's")
def test_processes_that_are_counted_elsewhere_are_nobodys() -> None:
    """Where a namespace of processes kept the /proc of another one, its numbers are those of others."""
    program = (
        "import os, subprocess; from envcheck.host import orphans; child = subprocess.Popen(['sleep', '9']);"
        " print(len(orphans.children()), len(orphans.group_of(os.getpgrp())), len(orphans._marked(b'HOME=/'))); child.kill()"
    )
    env = {**os.environ, "HOME": "/"}
    for words, told in (((), True), (("unshare", "-pf"), False)):
        done = subprocess.run([*words, sys.executable, "-c", program], capture_output=True, text=True, env=env, check=False)
        if "unshare" in done.stderr:
            pytest.skip("no namespace of processes is granted here")
        assert [int(number) > 0 for number in done.stdout.split()] == [told] * 3, done


@pytest.mark.skipif(sys.platform != "linux", reason="adopting orphans and prlimit are Linux's")
def test_a_daemon_that_the_import_starts_ends_with_the_check(tmp_path: Path) -> None:
    mark = f"daemon-{uuid.uuid4().hex}"
    body = f"""
import os, subprocess, sys
if os.fork() == 0:
    os.setsid()
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)", {mark!r}])
    os._exit(0)
__version__ = "2.15.0"
"""
    site = fake_torch(tmp_path / "site", body)
    done = run("--live", "off", "--json", env={"PYTHONPATH": f"{site}{os.pathsep}{ROOT}"})
    assert json.loads(done.stdout)["facts"]["torch"]["version"] == "2.15.0"
    assert all_gone(mark)


@pytest.mark.skipif(sys.platform != "linux", reason="adopting orphans is Linux's")
def test_a_daemon_that_a_tool_starts_ends_with_a_static_check(tmp_path: Path) -> None:
    mark = f"daemon-{uuid.uuid4().hex}"
    smi = leaves_a_daemon(tmp_path / "nvidia-smi", mark)
    run("--static", "--json", env={"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"})
    assert Path(f"{smi}.ran").exists() and all_gone(mark, 2.0)


@pytest.mark.skipif(sys.platform != "linux", reason="SIGXFSZ is of Unix")
def test_a_tool_that_writes_without_end_does_not_fill_the_disk() -> None:
    from envcheck.host.access import READ_LIMIT, run_command

    done = run_command(["yes", "x" * 100], timeout=60)
    assert done.code == -signal.SIGXFSZ and not done.timed_out
    assert len(done.stdout) == READ_LIMIT


def test_a_torch_that_writes_without_end_does_not_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from patients import examine

    from envcheck.target import process as target

    monkeypatch.setattr(target, "OUTPUT_LIMIT", 1 << 20)
    site = fake_torch(tmp_path / "site", "import os, time\nfor _ in range(800): os.write(2, b'y' * 100000); time.sleep(0.005)\n")
    grown, truncate = [], os.ftruncate
    monkeypatch.setattr(target.os, "ftruncate", lambda file, size: (grown.append(os.fstat(file).st_size), truncate(file, size)))
    examined = examine(path=site)
    # The last time may come just before the end, and then little is left.
    assert 0 < max(grown) < 20 << 20 and examined.ended.finished
    assert set(examined.ended.stderr.strip()) <= {"y"} and len(examined.ended.stderr) <= 8000


def test_words_of_the_caller_are_repeated_without_what_a_terminal_obeys_and_without_a_secret(capsys: pytest.CaptureFixture[str]) -> None:
    from envcheck import cli

    assert cli.main(["plan", "--for", "h1\x1b]0;owned\x07\u202e https://me:Pw123456@h/"]) == 2
    said = capsys.readouterr().err
    assert "h1\\x1b]0;owned\\x07\\u202e https://[secret]@h/" in said


def test_the_command_of_a_bug_is_told_without_a_secret(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from envcheck import cli

    monkeypatch.setattr(cli, "_dispatch", lambda _: {}["gone"])
    assert cli.main(["plan", "--index-base", "https://me:Pw123456@h/whl"]) == 70
    said = capsys.readouterr().err
    assert "`envcheck plan --index-base https://[secret]@h/whl`" in said and "Pw123456" not in said


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (MemoryError(), 3, "no memory is left for envcheck itself"),
        (OSError(errno.EMFILE, "Too many open files"), 3, "Too many open files (test_cli.py:"),
        (FileNotFoundError(errno.ENOENT, "No such file"), 70, "internal error"),
        (ValueError("x"), 70, "internal error"),
    ],
)
def test_what_the_system_refuses_is_no_bug(
    error: Exception, code: int, told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from envcheck import cli

    def refused(_: list[str]) -> int:
        raise error

    monkeypatch.setattr(cli, "_dispatch", refused)
    assert cli.main(["--static"]) == code
    assert told in capsys.readouterr().err


def test_who_calls_main_has_its_signal_handlers_back(capsys: pytest.CaptureFixture[str]) -> None:
    from envcheck import cli

    numbers = [getattr(signal, name) for name in (*INTERRUPTING, *ENDING_TOO) if hasattr(signal, name)]
    before = [signal.getsignal(number) for number in numbers]
    assert cli.main(["rules"]) == 0
    assert [signal.getsignal(number) for number in numbers] == before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_while_a_class_is_being_made(number: int, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python before 3.12 makes a RuntimeError of what a handler raises there."""

    class Late:
        def __set_name__(self, owner: type, name: str) -> None:
            signal.raise_signal(number)

    from envcheck.commands import MODULES

    rules = importlib.import_module(f"envcheck.commands.{MODULES['rules']}")
    monkeypatch.setattr(rules, "execute", lambda _args: type("Made", (), {"one": Late()}) and 0)
    try:
        assert main(["rules"]) == code
    except SystemExit as ended:
        assert ended.code == code


def test_a_signal_while_a_class_is_being_made_starts_no_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It came in the check before."""
    from envcheck.commands import check

    class Late:
        def __set_name__(self, owner: type, name: str) -> None:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(check, "examine_and_judge", lambda *_: type("Made", (), {"one": Late()}))
    with pytest.raises(SystemExit, match="143"):
        main(["run", "--static", "--", "touch", str(tmp_path / "started")])
    assert not (tmp_path / "started").exists()


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="Windows")
def test_a_callers_own_way_with_a_signal_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint at SIGUSR1, a profiler at SIGPROF."""
    from envcheck import cli
    from envcheck.commands import MODULES

    def own(_number: int, _frame: object) -> None:
        pass

    seen = []
    rules = importlib.import_module(f"envcheck.commands.{MODULES['rules']}")
    monkeypatch.setattr(rules, "execute", lambda _args: seen.extend(map(signal.getsignal, (signal.SIGUSR1, signal.SIGUSR2))) or 0)
    before = signal.signal(signal.SIGUSR1, own)
    try:
        assert cli.main(["rules"]) == 0
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen[0] is own and callable(seen[1])


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    "words", [["--version"], ["--help"], ["rules"], ["explain", "torch-missing"], ["--static"], ["schema"], ["config"]]
)
def test_a_full_disk_behind_stdout_is_no_bug(words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "envcheck", *words], stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT, timeout=120
        )
    assert (done.returncode, done.stderr) == (2, "envcheck: stdout: No space left on device\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    ("out", "words", "code"),
    [
        ("/dev/full", ("rules",), 2),
        ("/dev/null", ("explain", "nvlmi"), 2),
        ("/dev/null", ("check", "--facts", "BROKEN", "--lang", "zh"), 1),
    ],
)
def test_what_a_full_disk_behind_stderr_does_not_take_changes_no_exit_code(out: str, words: tuple[str, ...], code: int) -> None:
    arguments = [BROKEN if word == "BROKEN" else word for word in words]
    with open("/dev/full", "w") as full, open(out, "w") as stdout:
        done = subprocess.run(
            [sys.executable, "-m", "envcheck", *arguments], stdout=stdout, stderr=full, env={**os.environ, "PYTHONIOENCODING": "ascii"}
        )
    assert done.returncode == code


ENCODINGS = ("ascii", "latin-1", "cp1252", "gbk", "utf-16", "utf-8")
BROKEN, HEALTHY = (str(ROOT / "tests" / "documents" / "v1" / f"{name}.json") for name in ("broken", "healthy"))
# Each command once at least; "{facts}" is a report with every kind of character that the tool prints.
SPOKEN: tuple[tuple[str, ...], ...] = (
    *(("check", "--facts", BROKEN, "--format", form) for form in FORMATS),
    ("check", "--facts", BROKEN, "--fix-suggest", "-v"),
    ("check", "--facts", BROKEN, "--lang", "zh"),
    ("record", "--static"),
    ("compare", HEALTHY, BROKEN),
    ("compare", HEALTHY, BROKEN, "--format", "html"),
    ("diagnose", BROKEN),
    ("plan", "torch", "--for", "4090"),
    ("plan", "torch", "--for", "4090", "--format", "html"),
    ("explain", "torch-missing"),
    ("explain", "torch-missing", "--lang", "zh"),
    ("explain", "shared memory is too small"),
    ("rules",),
    ("rules", "--lang", "zh"),
    ("fleet", "--replay", BROKEN, HEALTHY, "--format", "html"),
    ("fleet", "--replay", BROKEN, HEALTHY, "--lang", "zh"),
    ("run", "--facts", HEALTHY, "--", "true"),
    ("fleet", "--manifest", "job", "--image", "registry.example/train:1"),
    ("config",),
    ("init", "-o", "-"),
    ("schema", "plan"),
    *(("completion", shell) for shell in ("bash", "zsh", "fish")),
)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("words", SPOKEN, ids=" ".join)
def test_output_in_any_encoding(encoding: str, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with open("out", "w", encoding=encoding) as out, open("err", "w", encoding=encoding) as err:
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        code = main(words)
        monkeypatch.undo()
    assert code in (0, 1, 4), (tmp_path / "err").read_bytes()
    written = "utf-8" if {"markdown", "html"} & {*words} else encoding  # these two are UTF-8 whatever the locale is
    said = (tmp_path / "out").read_text(encoding=written)
    assert said or words[0] == "run"
    assert "\ufffd" not in said and "\x1b" not in said
    if "zh" in words:  # where the stream has no Chinese characters it is English, and neither is spelled in escapes
        assert bool(re.search("[\u4e00-\u9fff]", said)) == (encoding in ("gbk", "utf-16", "utf-8")) and "\\u" not in said


def test_every_command_is_tried_in_any_encoding() -> None:
    assert {words[0] for words in SPOKEN} == {*COMMANDS}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_in_any_encoding(encoding: str, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as ended:
        main([*([command] if command else []), "--help"])
    out.flush()
    said = out.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]
    assert ended.value.code == 0 and "usage: envcheck" in said
    assert [line for line in said.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_into_80_columns(command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([*([command] if command else []), "--help"])
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_each_flag_says_its_default_and_shows_its_syntax(command: str) -> None:
    flags = {id(one): one for one in command_parser(command).flags.values() if one.help not in (None, argparse.SUPPRESS)}.values()
    values = [one for one in flags if one.nargs != 0]
    repeated = [one for one in values if one.default == []]
    assert [one.option_strings for one in values if one not in repeated and "default" not in str(one.help)] == []
    # A file, folder, number, name or one of a few words needs none.
    syntax = [one for one in values if one.metavar and re.search(r"[=:|\[]|URL|VERSION|GPU|ADDRESS|IMAGE", str(one.metavar))]
    assert [one.option_strings for one in syntax if not re.search(r"e\.g\. |; -o |https://", str(one.help))] == []


@pytest.mark.parametrize("words", [("rules",), ("rules", "--lang", "zh"), ("explain", "driver"), ("explain", "out of memory")])
def test_a_list_of_rules_fits_into_the_terminal(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And each stays one line for a pipe: `envcheck rules | grep driver`."""
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*words]) == 0
    piped = capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main([*words]) == 0
    shown = capsys.readouterr().out
    assert max(map(width_of, shown.splitlines())) <= 80 < max(map(width_of, piped.splitlines()))
    assert re.sub(r"\s", "", shown) == re.sub(r"\s", "", piped)


@pytest.mark.parametrize(
    ("words", "start"),
    [
        (("-o", "r.html"), "<!doctype html>"),
        (("-o", "r.json"), '{\n  "schema": 1,'),
        (("-o", "r.md"), "### envcheck "),
        (("-o", "r.xml"), "<?xml "),
        (("-o", "r.sarif"), '{\n  "$schema": '),
        (("-o", "r.txt"), "envcheck "),
        (("-o", "r"), "envcheck "),
        (("-o", "r.json", "--format", "text"), "envcheck "),
        (("-o", "r.xml", "--json"), '{\n  "schema": 1,'),
    ],
)
def test_the_name_of_the_file_says_the_format_where_no_flag_does(
    words: tuple[str, ...], start: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["--facts", HEALTHY, *words]) == 0
    assert Path(words[1]).read_text(encoding="utf-8").lower().startswith(start.lower())


def test_several_documents_of_one_run(tmp_path: Path) -> None:
    done = run("--static", "-o", "json=a.json", "-o", "junit=b.xml", "-o", "sarif=c.sarif", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.splitlines()[-1].startswith("No problem found")
    assert json.loads((tmp_path / "a.json").read_text())["verdict"] == "pass"
    assert (tmp_path / "b.xml").read_text().startswith("<?xml") and json.loads((tmp_path / "c.sarif").read_text())["runs"]
    only = run("--static", "-o", "json=a.json", "-o", "report.txt", cwd=tmp_path)
    assert (only.returncode, only.stdout) == (0, "") and "No problem found" in (tmp_path / "report.txt").read_text()
    named = run("--static", "-o", "-", "--format", "markdown", cwd=tmp_path)
    assert named.stdout.startswith("### envcheck") and not (tmp_path / "-").exists()


def test_a_step_summary_is_added_for_github(tmp_path: Path) -> None:
    summary = tmp_path / "summary"
    summary.write_text("before\n")
    done = run("--static", "--format", "github", env={"GITHUB_STEP_SUMMARY": str(summary)}, cwd=tmp_path)
    assert done.stdout.startswith("::") and summary.read_text().startswith("before\n### envcheck ")
    lost = run("--static", "--format", "github", env={"GITHUB_STEP_SUMMARY": "/nowhere/summary"}, cwd=tmp_path)
    assert lost.returncode == 0 and "GITHUB_STEP_SUMMARY /nowhere/summary" in lost.stderr


def test_modules_of_the_working_folder_are_not_its_own(tmp_path: Path) -> None:
    (tmp_path / "random.py").write_text("x = 1\n")
    done = run("--static", "--json", cwd=tmp_path)
    assert "torch-shadowed" in [one["rule"] for one in json.loads(done.stdout or "{}").get("findings", [])], done.stderr


@pytest.mark.parametrize("name", ["types", "enum", "typing", "random", "json", "subprocess", "tempfile", "argparse"])
def test_a_module_of_the_users_that_hides_pythons_own_is_a_finding_and_no_bug_of_ours(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.py").write_text("x = 1\n")
    program = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]; from envcheck.cli import main; sys.exit(main())"
    words = ["--static", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=200, env=environment)
    assert done.returncode in (0, 1), done.stderr
    assert "torch-shadowed" in [one["rule"] for one in json.loads(done.stdout)["findings"]] or name not in (
        "types",
        "enum",
        "typing",
        "random",
        "json",
    ), done.stdout


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="gloo's descriptors were counted on Linux")
@needs_torch
def test_too_few_descriptors_are_the_cause_and_what_failed_the_consequence() -> None:
    program = "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16)); from envcheck.cli import main; sys.exit(main())"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program, "--json"], capture_output=True, text=True, timeout=300, env=environment)
    errors = [one["rule"] for one in json.loads(done.stdout)["findings"] if one["severity"] == "error"]
    assert (done.returncode, errors) == (1, ["open-files-low"]), done.stderr


def test_files_that_another_tool_took_along_are_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`pip uninstall envcheck` removes envcheck/__init__.py, which both distributions own."""
    monkeypatch.setattr(cli, "__file__", str(tmp_path / "cli.py"))
    assert cli.main(["--version"]) == 2
    said = f"envcheck: files of torch-envcheck are gone from {tmp_path}: install it again with --force-reinstall --no-deps\n"
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize(
    ("name", "code", "said"), [("packaging.version", 2, "the package packaging.version"), ("envcheck.gone", 70, "a bug")]
)
def test_a_requirement_of_ours_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, code: int, said: str
) -> None:
    def refuse(_: list[str]) -> int:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(cli, "_dispatch", refuse)
    assert main([]) == code and said in capsys.readouterr().err
