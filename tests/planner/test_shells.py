"""Lines for sh, PowerShell and cmd: each is taken apart again as that shell would, and gives the words that went in.

sh is asked itself. PowerShell and cmd are not at hand: their rules for words are written down here again, from
https://learn.microsoft.com/powershell/module/microsoft.powershell.core/about/about_quoting_rules and
https://learn.microsoft.com/windows-server/administration/windows-commands/cmd.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from plan_hosts import TABLES, TEXTS, checks, machine

from envcheck import planner
from envcheck.engine.intents import Install, SetEnv
from envcheck.engine.shells import filled, for_windows, in_cmd, posix_line, powershell_export, powershell_line, shell_of, words_of
from envcheck.facts.printable import inert
from envcheck.facts.quoting import quoted
from envcheck.facts.record import replace
from envcheck.facts.snapshot import PythonFacts
from envcheck.planner.assume import Machine, assumed
from envcheck.planner.install_commands import in_notebook
from envcheck.planner.result import TOOLS, Commands

QUOTES = "'\u2018\u2019\u201a\u201b"
WORD = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters='"'), min_size=1, max_size=20)
PATHS = [
    r"C:\Program Files\Python 3.11\python.exe",
    r"C:\Users\Jürgen O'Neil\env (gpu)\python.exe",
    r"C:\Users\李雷\envs\torch\python.exe",
    r"D:\100%\py&thon\$env\python.exe",
    "C:\\it\u2019s\\python.exe",
]


def closed(word: str) -> str:
    """A path that ends in a backslash may end in two."""
    return word + "\\" * ((len(word) - len(word.rstrip("\\"))) % 2)


def arguments(line: str) -> list[str]:
    """What a program of Windows makes of its command line (https://learn.microsoft.com/cpp/c-language/parsing-c-command-line-arguments)."""
    words, word, within, at = [], "", False, 0
    begun = False
    while at < len(line):
        run = re.compile(r"\\*").match(line, at)
        assert run
        at, count = run.end(), len(run[0])
        if line[at : at + 1] == '"':
            word += "\\" * (count // 2)
            if count % 2:
                word += '"'
            else:
                within, begun = not within, True
            at += 1
        elif count:
            word, begun = word + "\\" * count, True
        elif line[at] in " \t" and not within:
            words, word, begun, at = [*words, word] if begun else words, "", False, at + 1
        else:
            word, begun, at = word + line[at], True, at + 1
    return [*words, word] if begun else words


def powershell_words(line: str) -> list[str]:
    """The words of a line in PowerShell's argument mode; ValueError where it would read more into them than text."""
    called = line.startswith("& ")
    text, words, at = line.removeprefix("& "), [], 0
    while at < len(text):
        if text[at] == " ":
            at += 1
        elif text[at] in QUOTES:
            word, at = "", at + 1
            while text[at] not in QUOTES or (at + 1 < len(text) and text[at + 1] in QUOTES):
                word, at = word + text[at], at + (2 if text[at] in QUOTES else 1)
            words.append(word)
            at += 1
        elif text[at] == '"':
            end = text.index('"', at + 1)
            word = text[at + 1 : end]
            if set(re.sub("`.", "", word)) & set("$`\u201c\u201d\u201e"):
                raise ValueError(f"{word!r} would be filled in")
            words.append(re.sub("`(.)", r"\1", word))
            at = end + 1
        else:
            end = text.find(" ", at) if " " in text[at:] else len(text)
            word = text[at:end]
            if set(word) & set("$`'\"&|<>;(){},@#%\u201c\u201d") or re.match(r"-[^-][^ ]*[.:]|~", word):
                raise ValueError(f"{word!r} is more than a word")
            words.append(word)
            at = end
    if not called and not re.match(r"[^\W\d]", line):
        raise ValueError("a text, a number or a type, not a command")
    return words


def cmd_words(line: str) -> list[str]:
    """The words that a program is given by cmd; ValueError where cmd would act on one."""
    for at, part in enumerate(line.split('"')):
        if at % 2 == 0 and set(part) & set("&|<>^()!"):
            raise ValueError(f"{part!r} means something to cmd")
    if line.count("%") > 1:
        raise ValueError(f"{line!r} would be filled in")
    if re.match(r"[^\" ]*[/=]", line):
        raise ValueError(f"{line!r} has an option in its first word")
    return arguments(line)


@given(st.lists(WORD, min_size=1, max_size=5))
def test_words_come_through_powershell(words: list[str]) -> None:
    line = powershell_line(words)
    read = powershell_words(line)
    assert list(map(closed, read)) == list(map(closed, words)) and words_of(line.removeprefix("& ")) == read
    passed = " ".join(f'"{word}"' if re.search(r"\s", word) else word for word in read)  # by PowerShell 5.1; what has no blank stays bare
    assert list(map(closed, arguments(passed)[1:])) == list(map(closed, words[1:]))


@given(st.lists(WORD, min_size=1, max_size=5))
def test_words_come_through_cmd(words: list[str]) -> None:
    read = cmd_words(in_cmd(powershell_line(words)))
    wanted = [word.replace("%", "?") for word in words] if "".join(words).count("%") > 1 else words
    assert list(map(closed, read)) == list(map(closed, wanted))


@given(st.lists(st.text(max_size=20), min_size=1, max_size=4))
def test_no_word_escapes(words: list[str]) -> None:
    line = powershell_line(words)
    assert len(powershell_words(line)) == len(words)
    cmd_words(in_cmd(line))
    assert not any(set(part) & set("&|<>^()!") for part in line.removeprefix("& ").split('"')[::2]), "inert if pasted into cmd"


TEXTS_OF_STRANGERS = [
    "x&calc&y", "x' ; calc ; 'y", "x\u2019; calc; \u2019y", "x$(calc)y", "x`;calc", "a%OS%b", "x\u201d; calc; \u201cy", "x|calc", "a b\\",
    "x^&calc", "@(calc)", "{calc}", "~\\x", "x<y>z", "a b", "C:\\my env", "8.0",
]  # fmt: skip


@pytest.mark.parametrize("word", TEXTS_OF_STRANGERS)
def test_a_value_of_a_rule_is_one_word_in_both_shells_or_left_out(word: str) -> None:
    alone, joined, followed = (
        filled(*before, word, after, "windows") for *before, after in (("ping ", ""), ("ray --at=", "    # x"), ("x ", "/y"))
    )
    assert followed in (None, f"x {word}")
    if alone is None or joined is None:
        assert set(word) & set('$`%"\u201c\u201d') or word.endswith("\\")
    else:
        assert powershell_words(alone) == cmd_words(alone) == ["ping", word]
        assert powershell_words(joined) == cmd_words(joined) == ["ray", f"--at={word}"]
    put = filled("$env:A = ", word, "", "windows")
    assert put and powershell_words("& " + put.removeprefix("$env:A = ")) == [word]
    anywhere = filled("ping ", word, "", "any")
    none = set(word) & set("&|<>^%\u2019") or word.endswith("\\")
    assert anywhere is None if none else shlex.split(anywhere or "") == ["ping", word]


def test_the_shell_of_a_machine() -> None:
    assert [shell_of(one) for one in (None, {"linux"}, {"darwin"}, {"slurm"}, {"windows", "conda"}, {"conda"}, set())] == [
        "sh", "sh", "sh", "sh", "windows", "any", "any",
    ]  # fmt: skip


def test_a_line_for_sh_becomes_one_for_windows() -> None:
    assert for_windows("pip install 'numpy<2' \"a'b\"    # numpy's") == 'pip install "numpy<2" "a\'b"    # numpy\'s'
    assert for_windows("mpirun -x 'A=$B' run.py") == "mpirun -x 'A=$B' run.py"
    assert for_windows("mpirun -x 'A=$B&calc' run.py") is None
    assert for_windows("torchrun 'x\u2019;calc;$y'") is None
    assert for_windows("'torchrun &' x") is None
    assert for_windows(f"torchrun {quoted('a b' + chr(92))}") is None


@given(WORD)
def test_a_variable_holds_what_was_said(value: str) -> None:
    line = powershell_export("A", value)
    assert line.startswith("$env:A = ") and powershell_words("& " + line.removeprefix("$env:A = ")) == [value]
    if value.count("%") < 2:
        assert in_cmd(line) == f'set "A={value}"'


def test_a_variable_that_goes() -> None:
    assert (powershell_export("A", None), in_cmd(powershell_export("A", None))) == ("Remove-Item Env:A", 'set "A="')


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), max_size=20), min_size=1, max_size=4))
def test_words_come_through_sh(words: list[str]) -> None:
    assert shlex.split(posix_line(words)) == words


# Three of each shell's own letters to one of the others; fish has bytes that are no text in private use
SHELL_LETTERS = "\\\\\\\\''''\"\"=%:~;$` \n!#{}[]()*?<>&|,-^aes"
ANY = st.characters(exclude_categories=("Cs", "Co"), exclude_characters="\x00")
PASTED = st.text(st.one_of(*[st.sampled_from(SHELL_LETTERS)] * 3, ANY), max_size=12)
POSIX_SHELLS = [("sh",), ("dash",), ("bash", "--norc"), ("zsh", "-f"), ("fish", "--no-config")]


@pytest.mark.parametrize("shell", POSIX_SHELLS, ids=lambda shell: shell[0])
@given(rows=st.lists(st.lists(PASTED, min_size=1, max_size=5), min_size=20, max_size=40))
@example(rows=[["v/x\\'\";echo PWN;#/bin/python", "x\\", "\\\\host\\it's\\\\'", "=ls", "%self", "", "\\\n\\e", "-n", "!!"]])
@settings(max_examples=int(os.environ.get("ENVCHECK_SHELL_EXAMPLES", "8")), deadline=None)
def test_words_come_through_each_shell(shell: tuple[str, ...], rows: list[list[str]]) -> None:
    """printf is a builtin of each; a value that is exported comes to a program."""
    if not shutil.which(shell[0]):
        pytest.skip(f"no {shell[0]} here")
    made = [f"printf '%s\\0' {posix_line(words)}" for words in rows]
    made += [f'export A={quoted(words[0])}; sh -c \'printf "%s\\0" "$A"\'' for words in rows]
    done = subprocess.run([*shell, "-c", "\n".join(made)], capture_output=True, check=True, timeout=120)
    wanted = [*(word for words in rows for word in words), *(words[0] for words in rows)]
    assert done.stdout.decode("utf-8").split("\0")[:-1] == wanted
    assert done.stderr == b""


@pytest.mark.skipif(not shutil.which("fish"), reason="no fish here")
@given(PASTED)
@settings(max_examples=20, deadline=None)
def test_what_is_shown_of_a_word_is_one_word_of_fish(word: str) -> None:
    """Controls are spelled out behind the quoting."""
    done = subprocess.run(["fish", "--no-config", "-c", f"count {inert(quoted(word))}"], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


@given(st.text(max_size=20).filter(lambda text: "\\" not in text and text[:1] not in ("=", "%") and ":=" not in text and ":%" not in text))
def test_what_has_no_backslash_is_quoted_as_everywhere(text: str) -> None:
    assert quoted(text) == shlex.quote(text)


def test_backslashes_that_fish_reads_stand_outside_of_quotes() -> None:
    assert [quoted(one) for one in ("C:\\a b", "x\\'y", "x\\", "\\\\h\\s")] == [
        "'C:\\a b'", "'x'\\\\''\"'\"'y'", "'x'\\\\", "\\\\'\\h\\s'",
    ]  # fmt: skip


@pytest.mark.parametrize("executable", PATHS)
def test_an_interpreter_on_windows(executable: str) -> None:
    spec = {"gpu": "4090", "os": "windows", "driver": "581.57", "torch": "2.14.1+cpu", "executable": executable}
    report = planner.search(machine(spec), TABLES, checks=checks(), texts=TEXTS)
    for way in report.ways:
        for line in way.commands.pip:
            assert powershell_words(line)[:3] == [executable, "-m", "pip"]
        for line in way.commands.cmd.get("pip", way.commands.pip):
            assert cmd_words(line)[:3] == [executable, "-m", "pip"]
        for line in way.commands.uv:
            assert powershell_words(line)[powershell_words(line).index("--python") + 1] == executable
    assert report.ways[0].commands.pip and "&&" not in "".join(report.ways[0].commands.pip)


def lines_of(commands: Commands) -> list[str]:
    return [line for name in (*TOOLS, "shell") for line in getattr(commands, name)]


POSIX = [
    "/opt/my env/bin/python",
    "/home/o'neil/venv/bin/python",
    "/home/李雷/.venv/bin/python",
    '/tmp/a"b/$HOME/bin/python',
    "/venv/bin/python",
]


@pytest.mark.skipif(not shutil.which("sh"), reason="no sh here")
@pytest.mark.parametrize("executable", POSIX)
def test_sh_reads_every_line(executable: str) -> None:
    spec = {"gpu": "4090", "driver": "535.183.01", "torch": "2.15.0+cu132", "executable": executable}
    report = planner.search(machine(spec), TABLES, ("torch", "torchvision", "numpy<2.3"), checks=checks(), texts=TEXTS)
    fixes = planner.fixes(
        (Install(("numpy<2",), ("nvidia-nccl-cu12",)), SetEnv("A B", "c'd")), machine(spec), TABLES, checks=checks(), texts=TEXTS
    )
    lines = [line for one in (*report.ways, *fixes) for line in lines_of(one.commands)]
    assert any(executable in shlex.split(line) for line in lines)
    for line in lines:
        subprocess.run(["sh", "-n", "-c", line], check=True)
    for line in (line for one in report.ways for line in one.commands.pip):
        assert shlex.split(line)[:3] == [executable, "-m", "pip"]


def test_conda_without_a_driver_sets_its_variable_on_a_line_of_its_own() -> None:
    snapshot, _ = assumed(Machine(("4090",), None, "3.12", "windows"), TABLES)
    [way, *_] = planner.search(snapshot, TABLES, checks=checks(), texts=TEXTS, tool="conda").ways
    assert way.commands.conda == ("$env:CONDA_OVERRIDE_CUDA = '13.0'", "conda install -c conda-forge pytorch-gpu=2.13.0 cuda-version=13.0")
    assert way.commands.cmd["conda"] == (
        'set "CONDA_OVERRIDE_CUDA=13.0"',
        "conda install -c conda-forge pytorch-gpu=2.13.0 cuda-version=13.0",
    )


@pytest.mark.parametrize(
    ("line", "cell"),
    [
        ("python3 -m pip install torch", "%pip install torch"),
        ("'/tmp/x -m pip ; touch y #/bin/python' -m pip install torch", "%pip install torch"),
        ("'/a'\"'\"' -m pip ; touch y' -m pip install torch", "%pip install torch"),
        ("& 'C:\\my env\\python.exe' -m pip install torch", "%pip install torch"),
        ("uv pip install --python '/x -m pip y' torch", None),
    ],
)
def test_a_cell_begins_behind_the_python(line: str, cell: str | None) -> None:
    """IPython gives what follows %pip to a shell."""
    assert in_notebook([line]) == ((cell,) if cell else ())


def test_in_a_notebook_the_line_is_a_cell_too() -> None:
    """%pip takes the kernel's own interpreter; the line for a shell names this one by its path all the same."""
    here = machine({"gpu": "4090", "driver": "535.183.01", "torch": "2.15.0+cu132"})
    assert isinstance(here.python, PythonFacts)
    there = replace(here, python=replace(here.python, variables={"JPY_PARENT_PID": "812"}))
    ways = [planner.search(one, TABLES, checks=checks(), texts=TEXTS).ways[0] for one in (here, there)]
    assert ways[0].commands == ways[1].commands and "%pip" not in ways[0].note
    cell = "%pip install " + ways[1].commands.pip[-1].partition(" install ")[2]
    assert (
        ways[1].note.startswith("In a notebook whose kernel is this Python: %pip ") and f"{cell}; then restart the kernel." in ways[1].note
    )
