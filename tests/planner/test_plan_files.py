"""Files of wishes on machines: what fits, what must move and why, what is not known, and the files written anew."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from plan_hosts import TABLES, TEXTS, checks, machine

from envcheck import planner
from envcheck.cli import main
from envcheck.errors import UsageError
from envcheck.planner.choice import Choice
from envcheck.planner.result import AskedRow, PlanReport
from envcheck.planner.wish_files import Entry, FilePlan
from envcheck.read.wish_kinds import read_wish_file

NEW, OLD = {"gpu": "5090", "driver": "580.95.05"}, {"gpu": "3090", "driver": "535.183.01"}


CU126 = "https://download.pytorch.org/whl/cu126"
SOURCE = "[tool.uv.sources]\ntorch = { index = 'x', marker = \"os_name ~= 'z'\" }\n"
TORCH = "[[package]]\nname = 'torch'\nversion = '2.9.0'\n"


def planned(spec: dict[str, object], *words: str, **files: str) -> PlanReport:
    names = {"txt": "requirements.txt", "c": "c.txt", "toml": "pyproject.toml", "yml": "environment.yml", "lock": "uv.lock"}
    read = tuple(read_wish_file(names[key], text, key == "c") for key, text in files.items())
    return planner.search(machine(spec), TABLES, words, checks=checks(), texts=TEXTS, files=read)


def verdicts(report: PlanReport) -> list[tuple[str, str, str]]:
    return [(row.verdict, row.text, row.new) for row in report.asked]


def test_what_fits_stays_as_it_is() -> None:
    report = planned({"gpu": "3090", "driver": "580.95.05"}, txt="torch>=2.9\ntorchvision\nrequests\n")
    assert verdicts(report) == [("fits", "torch>=2.9", ""), ("fits", "torchvision", ""), ("unknown", "requests", "")]
    assert report.written == {} and not report.ways[0].proved
    assert report.ways[0].commands.pip == ("/venv/bin/python -m pip install torch==2.15.0 torchvision==0.29.2 requests",)


def test_what_pip_would_take_does_not_run_on_this_driver() -> None:
    report = planned(OLD, txt="# gpu\n\ntorch\ntorchvision ; os_name == 'posix'\n")
    assert verdicts(report) == [
        ("moves", "torch", "torch==2.14.1+cu126"),
        ("moves", "torchvision ; os_name == 'posix'", "torchvision==0.29.1+cu126"),
    ]
    assert report.asked[0].why == "pip would take 2.15.0+cu132: CUDA 13.2 needs driver 580.65.06 here, this host has 535.183.01"
    assert report.written == {
        "requirements.txt": "# gpu\n\n--extra-index-url https://download.pytorch.org/whl/cu126\n"
        "torch==2.14.1+cu126\ntorchvision==0.29.1+cu126 ; os_name == 'posix'\n"
    }
    assert report.ways[0].proved


def test_an_old_pin_moves_to_the_nearest_that_runs() -> None:
    text = "--extra-index-url https://download.pytorch.org/whl/cu118\r\ntorch==2.1.0+cu118  # old\r\nxformers\r\nnumpy>=1.24\r\n"
    report = planned(NEW, txt=text, c="numpy<2\nscipy<1.12\n")
    assert [row.verdict for row in report.asked] == ["fits", "kept", "moves", "moves", "moves", "fits"]
    assert [row.new for row in report.asked if row.new] == [
        "https://download.pytorch.org/whl/cu128", "torch==2.7.1+cu128", "xformers==0.0.31.post1",
    ]  # fmt: skip
    assert report.written["requirements.txt"] == (
        "--extra-index-url https://download.pytorch.org/whl/cu128\r\ntorch==2.7.1+cu128  # old\r\nxformers==0.0.31.post1\r\nnumpy>=1.24\r\n"
    )
    [line, more] = report.ways[0].commands.pip
    assert "torch==2.7.1 xformers==0.0.31.post1 --index-url https://download.pytorch.org/whl/cu128" in line
    assert more.endswith("'numpy<2,>=1.24'")


def test_a_line_that_a_backslash_continues_is_read_as_pip_reads_it() -> None:
    """Its entries are written back where they stand on one line, and a secret is told by what stands around it."""
    index = "--index-url=\\\n https://download.pytorch.org/whl/cu113 \\\n"
    report = planned(NEW, txt=f"{index}\ntor\\\nch==1.12.1\nnumpy>=1.24 \\\n# not pip's\nscipy\\")
    assert [row.text for row in report.asked][:4] == ["https://download.pytorch.org/whl/cu113", "torch==1.12.1", "numpy>=1.24", "scipy"]
    login = read_wish_file("r.txt", "-i \\\nhttps://u:\\\r\nS3cr3t\\\nP4ss@h/whl/cu126\nnumpy<\\\n2")
    assert [(line.text, line.start) for line in login.lines] == [("https://u:S3cr3tP4ss@h/whl/cu126", -1), ("numpy<2", -1)]


def test_what_the_files_and_the_command_line_say_holds_together() -> None:
    report = planned({"gpu": "3090", "driver": "580.95.05"}, "torch<2.12", "vllm", txt="torch>=2.8\nvllm<0.20\n", c="torch<2.10\n")
    assert report.ways[0].title == "Install torch 2.9.1+cu128"
    assert "vllm==0.16.0" in report.ways[0].commands.pip[0]
    assert {row.verdict for row in report.asked} == {"fits"}


def test_a_page_of_links_becomes_an_index() -> None:
    report = planned(NEW, txt="-f https://download.pytorch.org/whl/cu113/torch_stable.html\ntorch==1.12.1+cu113\n")
    assert report.written["requirements.txt"].startswith("--extra-index-url https://download.pytorch.org/whl/cu128\ntorch==2.7.")


def test_hashes_of_what_moves_are_not_made_up() -> None:
    report = planned(NEW, txt="torch==2.1.0 --hash=sha256:aa\nrequests==2.31 --hash=sha256:bb\n")
    assert report.written == {}
    assert report.asked[-1].why == "not written: torch==2.1.0 has hashes, and those of torch==2.7.1+cu128 are not known here"
    assert report.asked[0].new == "torch==2.7.1+cu128" and report.ways


def test_a_package_without_a_build_for_this_machine() -> None:
    report = planned({"gpu": "4090", "driver": "580.95", "os": "windows"}, txt="torch\nvllm\nrequests\n")
    assert not report.ways and report.written == {}
    assert [(row.verdict, row.text) for row in report.asked] == [("kept", "torch"), ("refused", "vllm"), ("kept", "requests")]
    assert report.asked[1].why == "vllm: vllm 0.33.0 has no wheel for windows-x86_64"


def test_numpy_of_the_wrong_major() -> None:
    report = planned({"gpu": "3090", "driver": "580.95.05", "python": "3.11"}, txt="torch==2.2.2\nnumpy>=2\n")
    assert verdicts(report) == [("fits", "torch==2.2.2", ""), ("moves", "numpy>=2", "numpy<2")]
    assert report.asked[1].why == "torch 2.2.2 goes with numpy<2, which no numpy>=2 is"
    assert report.written["requirements.txt"] == "torch==2.2.2\nnumpy<2\n"


PROJECT = """\
[project]
name = "x"
requires-python = ">=3.13"
dependencies = [
  "torch==2.11.0",  # keep me
  "torchvision>=0.19",
  "requests",
]
"""


def test_a_project_for_rocm_gets_the_sources_of_uv() -> None:
    report = planned({"gpu": "mi300x"}, toml=PROJECT)
    assert ("refused", "requires-python = >=3.13", "") in verdicts(report)
    text = report.written["pyproject.toml"]
    assert text.startswith(
        PROJECT.replace("torchvision>=0.19", "torchvision==0.26.0").partition("\n]")[0] + '\n  "triton-rocm ; sys_platform'
    )
    assert text.endswith(
        '[[tool.uv.index]]\nname = "pytorch-rocm7-2"\nurl = "https://download.pytorch.org/whl/rocm7.2"\nexplicit = true\n\n'
        "[tool.uv.sources]\n"
        + "".join(
            f'{name} = [{{ index = "pytorch-rocm7-2", marker = "sys_platform == \'linux\'" }}]\n'
            for name in ("torch", "torchvision", "triton-rocm")
        )
    )
    again = read_wish_file("pyproject.toml", text)
    assert [line.value for line in again.lines if line.role == "wish"] == [
        "torch==2.11.0", "torchvision==0.26.0", "requests", "triton-rocm ; sys_platform == 'linux'",
    ]  # fmt: skip


def test_a_project_with_sources_has_its_index_moved_and_others_are_not_merged() -> None:
    index = '[[tool.uv.index]]\nname = "pt"\nurl = "https://download.pytorch.org/whl/cu124"\nexplicit = true\n\n'
    own = PROJECT + index + '[tool.uv.sources]\ntorch = { index = "pt" }\n'
    report = planned(
        {"gpu": "3090", "driver": "550.54.15", "python": "3.13"}, toml=own.replace("2.11.0", "2.6.0").replace("cu124", "cu126")
    )
    assert report.written == {} and ("fits", "torch==2.6.0", "") in verdicts(report)
    moved = planned(NEW | {"python": "3.13"}, toml=own).written["pyproject.toml"]
    assert "whl/cu130" in moved and "cu124" not in moved and moved.count("[[tool.uv.index]]") == 1
    foreign = planned({"gpu": "mi300x"}, toml=PROJECT + '[tool.uv.sources]\nmine = { path = "." }\n')
    assert foreign.written == {}
    assert next(row.why for row in foreign.asked if row.text == "pyproject.toml").startswith("not written: [tool.uv.sources]")


ENVIRONMENT = """\
channels:
  - pytorch
  - nvidia
dependencies:
  - python=3.11
  - pytorch=2.1   # the model
  - pytorch-cuda=11.8
  - torchvision
  - pandas
  - pip:
      - transformers==4.40
"""


def test_an_environment_of_conda() -> None:
    report = planned({"gpu": "4090", "driver": "550.54.15", "python": "3.11"}, yml=ENVIRONMENT)
    assert [row.verdict for row in report.asked if row.text != "pandas"][:3] == ["fits", "fits", "fits"] and report.written == {}
    report = planned(NEW | {"python": "3.11"}, yml=ENVIRONMENT)
    assert report.written["environment.yml"] == (
        ENVIRONMENT.replace("channels:\n", "channels:\n  - conda-forge\n")
        .replace("pytorch=2.1 ", "pytorch-gpu=2.7.1 ")
        .replace("pytorch-cuda=11.8", "cuda-version=12.9")
    )
    [line] = report.ways[0].commands.conda
    assert line.endswith("-c conda-forge pytorch-gpu=2.7.1 cuda-version=12.9 torchvision")
    assert not report.ways[0].proved and "conda env update -f environment.yml" in report.ways[0].note


LOCK = """\
[[package]]
name = "torch"
version = "2.4.1"
source = { registry = "https://pypi.org/simple" }
[[package]]
name = "torchvision"
version = "0.19.1"
source = { registry = "https://pypi.org/simple" }
[[package]]
name = "requests"
version = "2.32.0"
source = { registry = "https://pypi.org/simple" }
"""


def test_a_lock_is_judged_and_never_edited() -> None:
    assert verdicts(planned({"gpu": "3090", "driver": "580.95.05"}, lock=LOCK)) == [
        ("fits", "torch==2.4.1", ""), ("fits", "torchvision==0.19.1", ""),
    ]  # fmt: skip
    report = planned(NEW, lock=LOCK)
    assert [row.verdict for row in report.asked] == ["moves", "moves", "kept"] and report.written == {}
    assert report.asked[-1].why.startswith("not written: a lock names the hashes")


# ------------------------------------------------------------------ on the command line

HERE = ("--for", "3090", "--driver", "535.183.01", "--python", "3.12")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reqs").mkdir()
    (tmp_path / "reqs" / "base.txt").write_text("torch  # base\n", encoding="utf-8")
    (tmp_path / "requirements.txt").write_text("-r reqs/base.txt\ntorchvision\n", encoding="utf-8")
    return tmp_path


def test_a_set_of_files_is_written_beside(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "-r", "requirements.txt", *HERE, "--files-to", "out"]) == 0
    assert "moves    torch -> torch==2.14.1+cu126" in capsys.readouterr().out
    base = "--extra-index-url https://download.pytorch.org/whl/cu126\ntorch==2.14.1+cu126  # base\n"
    assert (folder / "out" / "reqs" / "base.txt").read_text(encoding="utf-8") == base
    assert (folder / "out" / "requirements.txt").read_text(encoding="utf-8") == (
        "--extra-index-url https://download.pytorch.org/whl/cu126\n-r reqs/base.txt\ntorchvision==0.29.1+cu126\n"
    )
    assert (folder / "requirements.txt").read_text(encoding="utf-8") == "-r reqs/base.txt\ntorchvision\n"
    assert main(["plan", "-r", "requirements.txt", *HERE, "--files-to", "out"]) == 2
    assert "is there already, and nothing is written over" in capsys.readouterr().err
    assert main(["plan", "-r", "requirements.txt", *HERE, "--files-to", "."]) == 2


def test_in_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "-r", "requirements.txt", *HERE, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)["plan"]
    assert [(row["file"], row["verdict"], row["new"]) for row in document["asked"]] == [
        ("reqs/base.txt", "moves", "torch==2.14.1+cu126"), ("requirements.txt", "moves", "torchvision==0.29.1+cu126"),
    ]  # fmt: skip
    assert set(document["written"]) == {"reqs/base.txt", "requirements.txt"}


def test_as_text(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "-r", "requirements.txt", *HERE, "--files"]) == 0
    out = capsys.readouterr().out
    assert "As the file reqs/base.txt:\n  --extra-index-url https://download.pytorch.org/whl/cu126\n  torch==2.14.1+cu126  # base\n" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-r", "nope.txt"], "-r nope.txt: No such file or directory"),
        (["-r", "."], "-r .: not a file"),
        (["requirements.txt"], "'requirements.txt' names a file or folder, not a package"),
        (["--files-to", "x"], "--files-to: there is no -r FILE"),
        (["-r", "remote.txt"], "remote.txt:1: https://example.com/r.txt is behind a URL"),
        (["-r", "binary.txt"], "binary.txt: not UTF-8 text"),
        (["-r", "gone.txt"], "gone.txt:1 other.txt: No such file"),
        (["-r", "null.txt"], "null.txt:1 \\x00: not a name of a file"),
    ],
)
def test_what_is_refused(words: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "remote.txt").write_text("-r https://example.com/r.txt\n", encoding="utf-8")
    (folder / "gone.txt").write_text("-r other.txt\n", encoding="utf-8")
    (folder / "null.txt").write_text("-c \0\n", encoding="utf-8")
    (folder / "binary.txt").write_bytes(b"\xff\xfe\x00")
    assert main(["plan", *words, *HERE]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"txt": 'torch==2.9.0 ; os_name ~= "x"\n'}, "requirements.txt:1: 'torch==2.9.0 ; os_name ~= "),
        ({"txt": '\ntorch ; "x" in extras\n'}, "requirements.txt:2: 'torch ; "),
        ({"txt": f'torch\n-i {CU126} ; os_name ~= "x"\n'}, f"requirements.txt:2: '{CU126}' is not a requirement"),
        ({"toml": "[project]\ndependencies = [\"torch; python_version ~= 'x'\"]\n"}, "pyproject.toml:2: 'torch; python_version ~="),
        (
            {"toml": f"[project]\ndependencies = ['torch']\n[[tool.uv.index]]\nname = 'x'\nurl = '{CU126}'\n{SOURCE}"},
            f"pyproject.toml:5: '{CU126}' is not a",
        ),
        (
            {"lock": f"{TORCH}resolution-markers = [\"os_name ~= 'x'\"]\n"},
            "uv.lock:1: 'torch==2.9.0 ; (os_name ~= 'x')' is not a requirement",
        ),
        ({"txt": "".join(f"numpy!=1.{number}\n" for number in range(300))}, "numpy: more than 200 different conditions"),
    ],
)
def test_what_has_no_answer_is_said_with_its_line(files: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as error:
        planned(NEW, **files)
    assert said in str(error.value)


def test_what_is_asked_twice_is_joined_and_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[FilePlan] = []
    row = FilePlan.row

    def counted(self: FilePlan, entry: Entry, choice: Choice) -> AskedRow:
        judged.append(self)
        return row(self, entry, choice)

    monkeypatch.setattr(FilePlan, "row", counted)
    lines = ["torch>=2", "numpy[a]<=1.26", "torch>=2.1", "numpy[b]>=1.20,!=1.22", "numpy>=1.21"]
    report = planned(NEW, txt="\n".join(lines * 100))
    wish = judged[0].wish
    assert (wish.torch, str(wish.beside["numpy"])) == (">=2.1", "numpy[a,b]!=1.22,<=1.26,>=1.21")
    assert len(judged) == len(lines)
    assert [(row.line, row.text) for row in report.asked] == list(enumerate(lines * 100, 1))


def test_what_another_file_includes_is_not_quoted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "netrc").write_text("machine host login me password swordfish78\n", encoding="utf-8")
    (folder / "requirements.txt").write_text("-r netrc\n", encoding="utf-8")
    assert main(["plan", "-r", "requirements.txt", *HERE]) == 2
    assert "requirements.txt:1: netrc is not a file of requirements" in (said := capsys.readouterr().err) and "machine" not in said
    assert main(["plan", "-r", "netrc", *HERE]) == 2
    assert "netrc:1: 'machine host" in (said := capsys.readouterr().err) and "swordfish78" not in said
    long = f"{'a ' * 35}ghp_{'x1Y2' * 10}"
    (folder / "netrc").write_text(f"{long}\n", encoding="utf-8")
    assert main(["plan", "-r", "netrc", *HERE]) == 2
    assert "ghp_" not in capsys.readouterr().err, "masked before it was cut"


def test_files_that_include_each_other_are_read_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "reqs" / "base.txt").write_text("-r ../requirements.txt\ntorch\n", encoding="utf-8")
    assert main(["plan", "-r", "requirements.txt", *HERE]) == 0
    assert capsys.readouterr().out.count("moves    torch ->") == 1


LONG = {
    "txt": ("torch==2.9.1\n", "p{}==1.0\n", ""),
    "toml": ('[project]\nname="x"\nversion="1"\ndependencies=[\n', '"p{}==1.0",\n', '"torch==2.9.1"]\n'),
    "yml": ("dependencies:\n  - pip:\n    - torch==2.9.1\n", "    - p{}==1.0\n", ""),
    "lock": ("version = 1\n", '[[package]]\nname = "p{}"\nversion = "1.0"\nsource = {{ registry = "https://pypi.org/simple" }}\n', ""),
}


def seconds_of(kind: str, count: int, plans: bool) -> float:
    head, line, tail = LONG[kind]
    text = head + "".join(line.format(number) for number in range(count)) + tail
    names = {"txt": "requirements.txt", "toml": "pyproject.toml", "yml": "environment.yml", "lock": "uv.lock"}

    def once(text: str) -> float:
        began = time.process_time()
        if plans:
            planned(NEW, **{kind: text})
        else:
            read_wish_file(names[kind], text)
        return time.process_time() - began

    return min(once(text + "\n" * time_of_asking) for time_of_asking in range(3))  # conftest remembers what a text was read as


@pytest.mark.parametrize(
    ("kind", "count", "plans"), [("txt", 150, True), ("toml", 2000, False), ("yml", 1000, False), ("lock", 2000, False)]
)
def test_four_times_the_packages_take_no_square_of_the_time(kind: str, count: int, plans: bool) -> None:
    """A ratio: the machine may be slow."""
    assert seconds_of(kind, 4 * count, plans) < 8 * seconds_of(kind, count, plans)
