"""`envcheck run` on the ends that people meet: what the output, the kernel and this machine say of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from machines import linux
from patients import HERE, SOON

from envcheck.commands import endings, kernel_word
from envcheck.commands.bases import base
from envcheck.commands.endings import causes, kernel_texts, spared_by_memory, without_word_of_kill
from envcheck.commands.kernel_word import CpuTime, KernelWatch, KernelWord, cpu_of_ended
from envcheck.facts.codec import edit
from envcheck.probes.cgroup import oom_kills
from envcheck.report.session import rule_session
from envcheck.tables.folders import rules_folder

BY = rule_session()
SILENT = KernelWord()
FAULT = 'Fatal Python error: Aborted\n\nCurrent thread 0x00007f52 (most recent call first):\n  File "/w/net.py", line 41 in forward\n'
THROWN = "terminate called after throwing an instance of 'c10::Error'\n  what():  CUDA error: the launch timed out\nException raised from\n"


def said(code: int, output: str, kernel: KernelWord = SILENT, *argv: str) -> str:
    found = causes(code, output, argv or ("python", "train.py"), kernel, base(rules_folder(), "rtx4090"), BY)
    return "\n".join(line for one in found for line in one.lines)


@pytest.mark.parametrize(
    ("code", "output", "words"),
    [
        (139, FAULT, ["/w/net.py, line 41, in forward"]),
        (139, "", ["native code crashed", "PYTHONFAULTHANDLER=1 python train.py"]),
        (134, "", ["it ended itself", "PYTHONFAULTHANDLER=1 python train.py"]),
        (134, THROWN, ["c10::Error: CUDA error: the launch timed out"]),
        (134, "terminate called after throwing an instance of 'std::bad_alloc'\n", ["std::bad_alloc: it says no more"]),
        (134, "free(): invalid pointer\n", ["the heap damaged (free(): invalid pointer)"]),
        (134, "python: a.cpp:3: int f(): Assertion `n > 0' failed.\n", ["Assertion `n > 0' failed."]),
        (1, "ModuleNotFoundError: No module named 'torchvision'\n", ["has no module torchvision", "pip install", "torchvision=="]),
        (1, "ModuleNotFoundError: No module named 'cv2'\n", ["pip install opencv-python"]),
        (1, "ModuleNotFoundError: No module named 'my_project'\n", ["has no module my_project", "PYTHONPATH"]),
        (1, "OSError: [Errno 98] Address already in use\n", ["a port that it listens on is in use", "ss -ltnp"]),
        (1, "The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).", ["port 29500", "sport = :29500"]),
    ],
)  # fmt: skip
def test_the_cause_is_told_with_its_numbers(code: int, output: str, words: list[str]) -> None:
    found = said(code, output)
    assert [word for word in words if word not in found] == [], found


def test_what_is_no_such_end_is_told_nothing() -> None:
    assert said(1, "ValueError: the moon is full\n") == said(3, "") == ""
    assert "pip install my_project" not in said(1, "ModuleNotFoundError: No module named 'my_project'\n"), "a stranger may own that name"
    assert "PYTHONFAULTHANDLER" not in said(139, "", SILENT, "./train") + said(139, FAULT)


def test_a_command_that_cannot_be_shown_as_it_was_run_is_not_shown() -> None:
    for word in ("a\tb", "\x1b[1m", "\u202e", "\udcff"):
        assert said(139, "", SILENT, "python", "-c", word).endswith("the same command with PYTHONFAULTHANDLER=1 before it"), repr(word)


def test_a_file_system_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings, "ROOM_SECONDS", 0.1)
    monkeypatch.setattr(os, "statvfs", lambda _: time.sleep(600))
    assert "a file system that does not answer" in said(1, "OSError: [Errno 28] No space left on device: '/data/m.pt'\n")


def test_a_full_disk_is_named_with_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "not" / "yet" / "there.pt"
    assert f"{tmp_path}: " in said(1, f"OSError: [Errno 28] No space left on device: '{path}'\n")

    class Full:
        f_bavail, f_frsize, f_blocks, f_files, f_favail = 1, 4096, 1 << 20, 10, 0

    monkeypatch.setattr(os, "statvfs", lambda _: Full())
    assert "no inode is left" in said(1, f"OSError: [Errno 28] No space left on device: '{path}'\n")
    Full.f_favail = 5
    data = tmp_path / "data"
    data.mkdir()
    monkeypatch.setattr(endings, "_mounts", lambda: ["/", str(data)])
    assert said(1, "OSError: [Errno 28] No space left on device\n").startswith(f"/: 4 KiB of 4.0 GiB are free\n{data}: ")
    assert said(1, f"dd: error writing '{data}/x': No space left on device\n").startswith(f"{data}: 4 KiB of 4.0 GiB are free\nwhat")
    Full.f_bavail = 1 << 19
    assert "no file system is full now" in said(1, "OSError: [Errno 28] No space left on device\n")


def test_a_kill_with_the_words_of_the_kernel() -> None:
    assert "counted no kill" in said(137, "", KernelWord(kills=0))
    assert "counted no kill" not in said(137, "") + said(137, "", KernelWord(kills=1))
    rows = {(9, 0): True, (9, 1): False, (9, None): False, (0, 0): False}
    assert {(number, kills): spared_by_memory(137, number, KernelWord(kills)) for number, kills in rows} == rows
    assert not spared_by_memory(143, 15, KernelWord(0)), "another signal says nothing of memory"
    assert "4.0 GiB of memory" in said(137, "", KernelWord(largest_bytes=4 << 30))
    line = "Memory cgroup out of memory: Killed process 7 (python)"
    assert kernel_texts("python", KernelWord(2, (line,))) == [
        ("kernel log", line),
        ("memory.events", "oom-kill event: the kernel killed 2 processes of this control group while python ran"),
    ]
    assert "in libfoo.so" in said(139, "", KernelWord(crashed=("python[7]: segfault at 0 ip 00 sp 00 error 4 in libfoo.so[1]",)))


@pytest.mark.parametrize(
    ("code", "cpu", "words"),
    [
        (137, CpuTime(2.0, 2.0, 2, 2), "it used 2.0 s of CPU time, and the kernel ends each process here at 2 s of it (ulimit -t"),
        (137, CpuTime(0.0, 2.0, 2, 2), "what it started used 2.0 s of CPU time in all: one of these may have been ended at its limit, 2 s"),
        (137, CpuTime(1.5, 1.5, 2, 2), ""),
        (137, CpuTime(9.0, 9.0, 2, None), ""),
        (152, CpuTime(1.0, 1.0, 2, None), "it used 1.0 s of CPU time, and the kernel ends each process here at 1 s"),
        (152, CpuTime(0.2, 0.2, None, None), "SIGXCPU comes at a limit of CPU time"),
        (152, None, "SIGXCPU comes at a limit of CPU time"),
    ],
)
def test_a_limit_of_cpu_time_is_named(code: int, cpu: CpuTime | None, words: str) -> None:
    kernel = KernelWord(cpu=cpu)
    assert said(code, "", kernel).startswith(words) and bool(said(code, "", kernel)) is bool(words)
    assert spared_by_memory(code, 0, kernel) is (code == 137 and bool(words))
    assert not spared_by_memory(code, 0, KernelWord(1, cpu=cpu)), "the kernel says that memory was short"


def test_a_shells_word_of_a_kill_is_left_out() -> None:
    assert without_word_of_kill("loss 1\nKilled\nt.sh: line 3:    41 Killed                  python t.py\n") == "loss 1\n\n\n"
    assert without_word_of_kill("Killed by a bug\nx: Killed\n") == "Killed by a bug\nx: Killed\n"


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.parametrize(("flag", "code"), [("t", -9), ("St", -24)])
def test_the_limit_is_read_of_a_process_that_has_ended(flag: str, code: int) -> None:
    """The hard limit as it was set, the soft one a second later than where the signal came."""
    with subprocess.Popen(["sh", "-c", f"ulimit -{flag} 1; exec {sys.executable} -Sc 'while 1: pass'"]) as process:
        begin = time.monotonic()
        while (cpu := cpu_of_ended(process.pid)) is None and time.monotonic() < begin + SOON:
            time.sleep(0.01)
        assert process.wait(SOON) == code
    assert cpu and 0.7 < cpu.own == cpu.of_all < 1.5
    assert (cpu.hard if flag == "t" else cpu.soft) == (1 if flag == "t" else 2)


@pytest.mark.parametrize(
    ("mount", "group", "file", "text", "count"),
    [
        ("30 1 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw", "0::/job", "/sys/fs/cgroup/job/memory.events", "oom 3\noom_kill 2\n", 2),
        ("30 1 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw", "0::/", "/sys/fs/cgroup/memory.events", "low 0\noom_kill 0\n", 0),
        ("30 1 0:27 / /cg/memory rw - cgroup cgroup rw,memory", "5:memory:/a", "/cg/memory/a/memory.oom_control", "oom_kill 1\n", 1),
        ("30 1 0:27 / /cg/cpu rw - cgroup cgroup rw,cpu", "5:cpu:/a", "/cg/cpu/a/memory.oom_control", "oom_kill 1\n", None),
    ],
)
def test_kills_are_counted_by_the_control_group(mount: str, group: str, file: str, text: str, count: int | None) -> None:
    host = linux({"read /proc/self/cgroup": f"{group}\n", "read /proc/self/mountinfo": f"{mount}\n", f"read {file}": text})
    assert oom_kills(host) == count


def test_the_kernels_log_is_read_from_the_start_of_the_command_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "kmsg"
    log.write_text("6,1,1,-;Memory cgroup out of memory: Killed process 1 (old)\n")
    monkeypatch.setattr(kernel_word, "KMSG", str(log))
    counted = iter((4, 4, 4, 6))
    monkeypatch.setattr(kernel_word, "_kills", lambda: next(counted))
    watch = KernelWatch()
    with log.open("a") as file:
        file.write("6,2,2,-;Out of memory: Killed process 77 (other)\n")
    monkeypatch.setattr(os, "read", one_record(os.read))
    assert watch.word(5) == KernelWord(0, (), (), None), "a process of somebody else"
    watch = KernelWatch()
    with log.open("a") as file:
        file.write("6,3,3,-;Out of memory: Killed process 5 (python)\n6,4,4,-;python[6]: segfault at 0 ip 0 in libfoo.so\n")
    word = watch.word(5)
    assert word.kills == 2 and word.killed == ("Out of memory: Killed process 5 (python)",)
    assert word.crashed == ("python[6]: segfault at 0 ip 0 in libfoo.so",)
    monkeypatch.setattr(kernel_word, "KMSG", str(tmp_path / "none"))
    counted = iter((1, None))
    assert KernelWatch().word(5) == SILENT, "where it may not be asked"


def one_record(read):  # type: ignore[no-untyped-def]
    """/dev/kmsg gives a record at a time, and EAGAIN behind the last."""

    def one(descriptor: int, _size: int) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            if not (more := read(descriptor, 1)):
                raise BlockingIOError
            line += more
        return line

    return one


# ------------------------------------------------------------------ the document of -o, with real commands


def run(tmp_path: Path, *argv: str, form: str = "json") -> tuple[int, str, str]:
    """Exit code, stderr, and what stands in the file of -o."""
    (tmp_path / "nothing.toml").write_text("")
    out = tmp_path / "out"
    out.unlink(missing_ok=True)
    words = [
        sys.executable,
        "-m",
        "envcheck",
        "run",
        "--facts",
        str(tmp_path / "nothing.toml"),
        "--format",
        form,
        "-o",
        str(out),
        "--",
        *argv,
    ]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    done = subprocess.run(words, capture_output=True, text=True, timeout=SOON, env=environment)
    return done.returncode, done.stderr, out.read_text()


def test_the_document_is_written_however_the_command_ends(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("echo")
    killed = f"{sys.executable} -c 'import os; os.kill(os.getpid(), 9)'"
    for argv, code, signal, started, verdict in (
        (("no-such-command-here",), 127, None, False, "inconclusive"),
        ((str(plain),), 126, None, False, "inconclusive"),
        (("sh", "-c", "exit 3"), 3, None, True, "inconclusive"),
        (("sh", "-c", f"exec {killed}"), 137, "SIGKILL", True, "inconclusive"),
        (("sh", "-c", "echo 'RuntimeError: received 0 items of ancdata'; exit 4"), 4, None, True, "fail"),
    ):
        ended, _, text = run(tmp_path, *argv)
        document = json.loads(text)
        assert (ended, document["verdict"]) == (-9 if signal else code, verdict), argv
        command = document["command"]
        assert (command["argv"], command["exit_code"], command["signal"], command["started"]) == (list(argv), code, signal, started)
    for form in ("text", "markdown", "html", "junit", "github"):
        assert "no-such-command-here: command not found" in run(tmp_path, "no-such-command-here", form=form)[2], form
        assert "exit code 3" in run(tmp_path, "sh", "-c", "exit 3", form=form)[2], f"{form}: nothing passes that failed"


def test_a_command_that_the_check_forbids_is_in_the_document(tmp_path: Path) -> None:
    old = tmp_path / "old.toml"
    old.write_text('torch = "2.9.0+cu130"\ndriver = "535.183.01"\n')
    words = [sys.executable, "-m", "envcheck", "run", "--facts", str(old), "--json", "-o", str(tmp_path / "out"), "--", "true"]
    assert subprocess.run(words, capture_output=True, timeout=SOON, env={**os.environ, "PYTHONPATH": str(HERE.parent)}).returncode == 1
    document = json.loads((tmp_path / "out").read_text())
    assert (document["command"]["started"], document["findings"][0]["rule"]) == (False, "driver-too-old")


def test_a_command_that_is_well_leaves_the_checks_document(tmp_path: Path) -> None:
    code, _, text = run(tmp_path, "true")
    assert code == 0 and "command" not in json.loads(text)


def test_what_a_rule_has_named_is_not_said_twice(tmp_path: Path) -> None:
    words = "The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use)."
    _, said_so, text = run(tmp_path, "sh", "-c", f"echo '{words}'; exit 1")
    assert "launch-port-in-use" in said_so
    assert json.loads(text)["command"]["why"] == []


def test_a_crash_without_a_word_says_how_to_find_it(tmp_path: Path) -> None:
    code, said_so, text = run(tmp_path, sys.executable, "-c", "import os; os.abort()")
    assert code == -6 and "SIGABRT" in said_so
    assert any("PYTHONFAULTHANDLER=1" in line for line in json.loads(text)["command"]["why"])


def test_a_companion_is_installed_in_the_version_that_fits() -> None:
    snapshot = edit(edit(base(rules_folder(), "rtx4090"), "torch.version", "2.9.0+cu126"), "torch.cuda", "12.6")
    [cause] = causes(1, "ModuleNotFoundError: No module named 'torchaudio'\n", ("python",), SILENT, snapshot, BY)
    assert "torchaudio==2.9.0" in cause.lines[1] and "/cu126" in cause.lines[1]
