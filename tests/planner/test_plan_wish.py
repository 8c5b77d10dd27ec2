"""What is asked of `envcheck plan`: words that are requirements, words that are not, and packages that the tables do not know."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from plan_hosts import TABLES, TEXTS, checks, machine

from envcheck import planner
from envcheck.cli import main
from envcheck.errors import UsageError
from envcheck.planner.contradiction import contradiction
from envcheck.planner.result import PlanReport
from envcheck.planner.wish import read_wish

HERE = ["--for", "h100", "--driver", "580.95.05", "--python", "3.12"]


@pytest.mark.parametrize(
    ("words", "torch", "variant", "packages"),
    [
        (["torch>=2.6,<2.8", "torchvision"], "<2.8,>=2.6", None, ["torchvision"]),
        (["torch==2.9.1+cu126"], "==2.9.1", "cu126", []),
        (["torch", "cpu"], "", "cpu", []),
        (["PyTorch==2.9.1", "Flash_Attn"], "==2.9.1", None, ["flash-attn"]),
        (["rocm6.4"], "", "rocm6.4", []),
        (["cu140"], "", "cu140", []),  # newer than the tables: the search says so
        (["h5py", "sam2", "k2", "cupy-cuda12x"], "", None, ["h5py", "sam2", "k2", "cupy-cuda12x"]),
        (["nvidia-cudnn-cu12"], "", None, ["nvidia-cudnn-cu12"]),
        (["ruamel.yaml>=0.17"], "", None, ["ruamel-yaml"]),
        (["h5py3.12", "lib312", "tool570"], "", None, ["h5py3-12", "lib312", "tool570"]),  # names that end in a number of something else
    ],
)
def test_wishes(words: list[str], torch: str, variant: str | None, packages: list[str]) -> None:
    wish = read_wish(words, TABLES)
    assert (wish.torch, wish.variant, list(wish.beside)) == (torch, variant, packages)


@given(st.lists(st.text(max_size=30), max_size=4))
def test_any_wish_is_read_or_refused(words: list[str]) -> None:
    try:
        wish = read_wish(words, TABLES)
    except UsageError as error:
        assert str(error) and "\n" not in str(error)
    else:
        assert wish.texts == tuple(words)


MISTAKEN = [
    ("requirements.txt", "-r FILE reads"),
    ("requirements.in", "-r FILE reads"),
    ("setup.py", "-r FILE reads"),
    ("pyproject.toml", "-r FILE reads"),
    ("setup.cfg", "-r FILE reads"),
    ("uv.lock", "-r FILE reads"),
    ("environment.yml", "-r FILE reads"),
    ("environment.yaml", "-r FILE reads"),
    ("torch.whl", "-r FILE reads"),
    ("./folder", "-r FILE reads"),
    ("C:\\work\\requirements", "-r FILE reads"),
    ("dist/torch-2.9.1+cu126-cp312-cp312-linux_x86_64.whl", "'torch==2.9.1+cu126'"),
    ("2.9", "'torch==2.9.*'"),
    ("2.9.1", "'torch==2.9.1'"),
    ("3.12", "--python 3.12"),
    ("11.8", "cu118"),
    ("12.6", "cu126"),
    ("570.124", "--driver 570.124"),
    ("4090", "--for '4090'"),
    ("12x", "a version follows a name"),
    ("cuda12.6", "cu126"),
    ("cu12.6", "cu126"),
    ("cuda-12.8", "cu128"),
    ("CUDA 12.6", "cu126"),
    ("cu12", "cu126"),
    ("rocm-6.4", "rocm6.4"),
    ("rocm6", "rocm6.4"),
    ("torch+cu126", "torch cu126"),
    ("torch-cu126", "torch cu126"),
    ("torch@2.9", "'torch==2.9.*'"),
    ("torch @ 2.9", "'torch==2.9.*'"),
    ("torch=2.9.1", "'torch==2.9.1'"),
    ("torch 2.9", "'torch==2.9.*'"),
    ("torch2.9", "'torch==2.9.*'"),
    ("torch-2.9", "'torch==2.9.*'"),
    ("torchvision@0.24", "'torchvision==0.24.*'"),
    ("numpy@1.26", "'numpy==1.26.*'"),
    ("torch@main", "URL"),
    ("torch @ https://example.org/torch.whl", "URL"),
    ("apex @ git+https://github.com/NVIDIA/apex", "URL"),
    ("git+https://github.com/NVIDIA/apex", "URL"),
    ("nightly", "no nightly build"),
    ("cuda", "cu126"),
    ("cpuonly", "cpu"),
    ("python", "--python"),
    ("conda", "--tool"),
    ("windows", "--os"),
    ("h100", "--for"),
    ("8xh100", "--for"),
    ("rtx4090", "--for"),
    ('numpy<2; python_version < "3.13"', "'numpy<2'"),
    ("torch[optree]", "torch optree"),
    ("torch=>2", "not a requirement"),
]


@pytest.mark.parametrize(("word", "hint"), MISTAKEN)
def test_a_word_that_is_no_requirement_is_refused_with_what_was_meant(word: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([word], ["torch", word]):
        assert main(["plan", *words, *HERE]) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1 and hint in err, err
        assert "install requirements" not in err


def test_a_word_that_is_a_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("wanted", "torch", "torchvision"):
        Path(name).touch()
    assert main(["plan", "wanted", *HERE]) == 2
    assert "'wanted' names a file" in capsys.readouterr().err
    assert main(["plan", "torch", "torchvision", *HERE]) == 0  # what the tables know is that package, whatever lies here


def test_what_is_asked_of_a_package_twice_holds_twice() -> None:
    [(name, one)] = read_wish(["vllm>=0.10", "vllm[audio]<0.20"], TABLES).packages
    assert (name, one.specifier, one.extras) == ("vllm", SpecifierSet(">=0.10,<0.20"), {"audio"})


def planned(*words: str, tool: str = "auto", **spec: object) -> PlanReport:
    host = machine({"gpu": "h100", "driver": "580.95.05", **spec})
    return planner.search(host, TABLES, words, checks=checks(), texts=TEXTS, tool=tool)


@pytest.mark.parametrize("name", ["requests", "sglang", "torchvison"])
def test_a_package_that_the_tables_do_not_know_is_passed_on_and_nothing_is_proved(name: str) -> None:
    [way] = planned("torch", name).ways
    assert any(name in line.split() for line in way.commands.pip) and any(name in line.split() for line in way.commands.uv)
    assert way.proved is False
    assert f"{name}: not in envcheck's tables. envcheck does not know which torch and CUDA it needs" in way.note
    assert f"installs {name}, which is not in envcheck's tables" in way.changes
    assert "Checked" not in way.note
    assert not way.commands.conda and name in way.no_command["conda"]


def test_what_is_known_stays_proved() -> None:
    [way] = planned("torch", "torchvision", "numpy", "vllm").ways
    assert way.proved and "not in envcheck's tables" not in way.note


def test_a_slip_in_a_known_name_is_pointed_at(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "torch", "torchvison", *HERE]) == 0
    text = capsys.readouterr().out
    assert "Did you mean torchvision instead of torchvison?" in text and "Not checked" in text and "Checked against" not in text


def test_the_json_says_so_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "torch", "requests", "--json", *HERE]) == 0
    [way] = json.loads(capsys.readouterr().out)["plan"]["ways"]
    assert way["proved"] is False and "requests" in way["note"]


def test_no_line_of_conda_leaves_out_what_was_asked_for() -> None:
    [way] = planned("torch", "vllm").ways
    assert not way.commands.conda and "vllm" in way.no_command["conda"] and way.proved
    alone = planned("torch", "vllm", tool="conda")
    assert not alone.ways and alone.excluded[0].why == "no conda-forge package is known here for vllm"
    [way] = planned("torch", "torchvision").ways
    assert "torchvision" in way.commands.conda[0]


def test_a_refusal_says_each_reason_once() -> None:
    refused = planned("torch==2.10.0", "torchvision==0.20.0")
    reasons = [row.why for row in refused.excluded]
    assert not refused.ways and len(reasons) == len(set(reasons)) > 1
    assert [one for one in reasons if "torchvision 0.25.0, the one for torch 2.10.0, is not" in one]
    assert [one for one in reasons if one.startswith("the nearest release that fits this machine is torch 2.")]


def test_no_part_of_a_wish_is_dropped() -> None:
    [way] = planned("torch==2.9.1", "transformers[torch]>=4.40", "numpy<2.3").ways
    assert "'transformers[torch]>=4.40'" in way.commands.pip[-1] and "'numpy<2.3'" in way.commands.pip[-1]
    [old] = planned("torch==2.2.2", "numpy>=1.24").ways
    assert "'numpy>=1.24,<2'" in old.commands.pip[-1]


def test_a_multitude_of_gpus_is_refused() -> None:
    with pytest.raises(UsageError):
        read_wish(["99999999999xh100"], TABLES)
    assert main(["plan", "--for", "99999999999xh100"]) == 2


CONTRADICTING = [
    (["torch==2.9", "torch==2.8"], ("torch==2.9", "torch==2.8")),
    (["torch", "numpy<2", "torch>=2.9", "numpy>=2"], ("numpy<2", "numpy>=2")),
    (["cu126", "cu128"], ("cu126", "cu128")),
    (["torch==2.9.1+cu126", "torch==2.9.1+cu128"], ("torch==2.9.1+cu126", "torch==2.9.1+cu128")),
    (["torch==2.9.*", "torch>2.9.1,<2.9.1.1", "torch<2.9.1"], ("torch>2.9.1,<2.9.1.1", "torch<2.9.1")),
    (["torch>=2.9,!=2.9.*", "torch<2.10"], ("torch>=2.9,!=2.9.*", "torch<2.10")),
]
AGREEING = [
    ["torch==2.9", "torch==2.9.0"],
    ["torch>2.8", "torch<2.9"],
    ["torch<2.9", "torch!=2.8"],
    ["torch==2.9.*", "torch>2.9.1"],
    ["torch>=2.9,!=2.9.*", "torch<2.11"],
    ["torch~=2.9.1", "torch>=2.9.50", "torch", "cu126", "torchvision"],
    ["torch===2.9", "torch===2.8"],  # texts, which are compared and not ordered: not judged
    ["torch>=2.9rc1", "torch<2.9"],
]


@pytest.mark.parametrize(("words", "two"), CONTRADICTING)
def test_wishes_that_contradict_each_other_are_a_usage_error_that_names_both(
    words: list[str], two: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert contradiction({word: read_wish([word], TABLES) for word in words}) == two
    assert main(["plan", *words, *HERE]) == 2
    assert capsys.readouterr().err.startswith(f"envcheck: {two[0]} and {two[1]} contradict each other")


@pytest.mark.parametrize("words", AGREEING)
def test_wishes_that_one_version_meets_do_not_contradict_each_other(words: list[str]) -> None:
    assert contradiction({word: read_wish([word], TABLES) for word in words}) is None


def test_older_releases_than_the_planned_one_are_worth_a_line_where_someone_has_or_names_them() -> None:
    card = {"gpu": "rtx 5090"}  # which no build before 2.7 has code for
    assert not planned(**card).excluded
    assert {row.what.split()[1] for row in planned(**card, torch="2.6.0+cu124").excluded} == {"2.6.0"}
    named = [row.what for row in planned("torch>=2.5", **card).excluded]
    assert "torch 2.5.0 to 2.5.1 cu121" in named and not [what for what in named if "2.15" in what]


@pytest.mark.parametrize("wish", ["torch==N", "torch>=1,<N", "numpy==N", "numpy>=1,!=N.*", "torch<2,<N"])
def test_a_number_that_python_does_not_convert_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], wish: str) -> None:
    """As a word, in a file of requirements and in a project's."""
    word = wish.replace("N", "9" * 5000)
    (tmp_path / "requirements.txt").write_text(f"{word}\n")
    (tmp_path / "pyproject.toml").write_text(f'[project]\nname = "x"\nversion = "1"\ndependencies = ["{word}"]\n')
    for words in ([word], [word, "torch==2.9"], ["-r", f"{tmp_path}/requirements.txt"], ["-r", f"{tmp_path}/pyproject.toml"]):
        assert main(["plan", *words, *HERE]) == 2
        said = capsys.readouterr().err
        assert "is not a requirement: a number in it has more than 4000 digits" in said and len(said) < 400


def test_what_is_asked_for_and_there_is_kept() -> None:
    here = {"torch": "2.14.1+cu130", "packages": {"numpy": "2.3.4"}}
    assert [planned(word, **here).ways[0].changes for word in ("numpy", "numpy>=2", "numpy<2")] == [
        ("keeps numpy 2.3.4",),
        ("keeps numpy 2.3.4",),
        ("numpy 2.3.4 -> <2",),
    ]


def test_a_torch_that_fits_is_not_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    for words, nearest in ((["torch==2.9.1", "flash-attn"], False), (["torch==2.9.1", "torchvision==0.20"], True)):
        assert main(["plan", *words, "--for", "none", "--python", "3.12"]) == 3
        assert ("the nearest release" in capsys.readouterr().out) is nearest
