"""tools/refresh_tables.py against an index made up here: what it finds, writes, and refuses to read."""

from __future__ import annotations

import random
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import difference
import pytest
import refresh_tables
import registry
import releases
import wheels
from hypothesis import given
from hypothesis import strategies as st
from registry_fakes import Index, serving, torch_files, wheel
from table_checks import contradictions, problems

from envcheck.tables.compat import Tables
from envcheck.tables.folders import rules_folder
from envcheck.tables.toml import parse_toml

COMPAT = Path(rules_folder("compat"))
NEWEST = Tables((COMPAT,)).releases()[-1].version
PACKAGES = ["torch", "torchvision", "torchaudio", "vllm"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return shutil.copytree(COMPAT, tmp_path / "compat")


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(refresh_tables, "pip_settings", registry.Settings)  # asking pip takes two seconds
    files = torch_files("9.0.0") | {
        "torchvision-0.90.0-cp312-cp312-manylinux_2_28_x86_64.whl": wheel("torchvision", "0.90.0", ("torch==9.0.0", "numpy")),
        "torchaudio-2.11.0-cp312-cp312-manylinux_2_28_x86_64.whl": wheel("torchaudio", "2.11.0", ()),
        "vllm-9.1.0-cp38-abi3-manylinux_2_31_x86_64.whl": wheel("vllm", "9.1.0", ("torch==9.0.0", "torchvision==0.90.0", "fastapi")),
        "vllm-9.1.1-cp38-abi3-manylinux_2_31_x86_64.whl": wheel("vllm", "9.1.1", ("torch==9.0.0", "torchvision==0.90.0")),
        "vllm-9.2.0rc1-cp38-abi3-manylinux_2_31_x86_64.whl": b"",
        "cuda_toolkit-13.4.9.0-py2.py3-none-any.whl": wheel(
            "cuda_toolkit",
            "13.4.9.0",
            (
                'nvidia-cublas==13.9.1.3.*; sys_platform == "linux" and extra == "cublas"',
                'nvidia-cuda-nvrtc==13.4.9.*; sys_platform == "linux" and extra == "cublas"',
                'nvidia-cuda-runtime==13.4.9.*; sys_platform == "linux" and extra == "cudart"',
            ),
        ),
    }
    with serving(Index(files)) as one:
        yield one


def run(index: Index, folder: Path, *arguments: str) -> int:
    return refresh_tables.main([*arguments, "--tables", str(folder), "--index-url", index.url])


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.toml"))}


# ---------------------------------------------------------------- finding and writing


def test_check_fails_where_a_newer_torch_is_published(index: Index, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(index, folder, "--check") == 1
    assert f"torch 9.0.0 was published on 2026-12-09; the tables end with {NEWEST}" in capsys.readouterr().out
    assert [path for path, _ in index.asked] == ["/simple/torch/"]


def test_check_is_content_with_what_is_known_withdrawn_or_a_candidate(index: Index, folder: Path) -> None:
    index.files = {name.replace("9.0.0", NEWEST): b"" for name in index.files if name.startswith("torch-")}
    index.files["torch-9.0.0rc1-cp312-cp312-manylinux_2_28_x86_64.whl"] = b""
    withdrawn = "torch-9.1.0-cp312-cp312-manylinux_2_28_x86_64.whl"
    index.files[withdrawn] = b""
    index.yanked = (withdrawn,)
    assert run(index, folder, "--check") == 0


def test_check_says_that_nobody_answers(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/simple"
        assert refresh_tables.main(["--check", "--tables", str(folder), "--index-url", url]) == 2
    assert "refused" in capsys.readouterr().err


def test_without_write_nothing_is_written(index: Index, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = texts(folder)
    assert run(index, folder, *PACKAGES, "--archs") == 0
    assert texts(folder) == before
    out = capsys.readouterr().out
    assert '+ { torch = "9.0.0", date = "2026-12-09", requires_python = ">=3.11", pythons = "3.12 3.13 3.13t"' in out
    assert "for a person to look at" in out


def test_write_makes_tables_that_know_the_release(index: Index, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(index, folder, *PACKAGES, "--archs", "--write") == 0, capsys.readouterr().out
    tables = Tables((folder,))
    assert problems(folder) == () and contradictions(tables) == ()
    release = tables.release("9.0.0")
    assert release is not None and tables.releases()[-1] == release
    assert release.pythons["linux-x86_64"] == ("3.12", "3.13", "3.13t") and release.pythons["windows-x86_64"] == ("3.12", "3.13")
    assert release.default_variant == {
        "linux-x86_64": "cu134",
        "linux-aarch64": "cu134",
        "windows-x86_64": "cpu",
        "macos-arm64": "cpu",
    }
    assert (release.glibc["x86_64"], release.macos["arm64"], release.cxx_standard, release.numpy_major["linux"]) == ("2.28", "14.0", 20, 2)
    x86, arm = tables.build("9.0.0", "linux-x86_64"), tables.build("9.0.0", "linux-aarch64")
    assert x86 and x86.archs == ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120") and x86.cuda == "13.4"
    assert arm and arm.archs == ("sm_80", "sm_90", "sm_110") and arm.kind == "measured"
    assert tables.pins("9.0.0") == {
        "cuda-toolkit": "==13.4.9",
        "nvidia-cublas": "==13.9.1.3",
        "nvidia-cuda-runtime": "==13.4.9",
        "nvidia-cudnn-cu13": "==9.27.0.1",
        "triton": "~=3.10.0",
    }
    assert tables.companions("9.0.0") == {"torchvision": "0.90.0", "torchaudio": "2.11.0"}
    pin = tables.pin_of("vllm", "9.1.1")
    assert pin and (pin.torch, pin.requires["torchvision"], pin.versions) == ("==9.0.0", "==0.90.0", ("9.1.0", "9.1.1"))
    assert tables.pin_of("vllm", "9.2.0rc1") is None
    # Rows that were there are there still, in their order.
    for name, text in texts(folder).items():
        old = (COMPAT / name).read_text(encoding="utf-8")
        kept = [line for line in old.splitlines() if not line.startswith("verified") and f'to = "{NEWEST}"' not in line]
        lines = iter(text.splitlines())
        assert all(line in lines for line in kept), name
    # And the second run has nothing to say.
    capsys.readouterr()
    assert run(index, folder, *PACKAGES, "--check") == 0
    index.uploaded = "2026-11-01"
    assert run(index, folder, "torchvision", "torchaudio", "vllm") == 0
    assert "+" not in capsys.readouterr().out


def test_verified_moves_only_in_what_was_looked_at(index: Index, folder: Path) -> None:
    before = {name: text.partition("verified = ")[2][:10] for name, text in texts(folder).items()}
    assert run(index, folder, *PACKAGES, "--archs", "--write") == 0
    after = {name: text.partition("verified = ")[2][:10] for name, text in texts(folder).items()}
    moved = {name for name in after if after[name] != before[name]}
    today = time.strftime("%Y-%m-%d", time.gmtime())
    # Not third-party.toml: xformers and the others were not asked for. On the very day of the tables nothing can move.
    assert moved <= {"torch-release.toml", "torch-build.toml", "torch-pins.toml", "torch-companion.toml"}
    assert {after[f"torch-{name}.toml"] for name in ("release", "build", "pins", "companion")} == {today}


def test_two_new_releases_follow_each_other(index: Index, folder: Path) -> None:
    index.files |= torch_files("9.0.1", archs="sm_80 sm_90 compute_120")
    index.files["torchvision-0.90.1-cp312-cp312-manylinux_2_28_x86_64.whl"] = wheel("torchvision", "0.90.1", ("torch==9.0.1",))
    assert run(index, folder, *PACKAGES, "--archs", "--write") == 0
    tables = Tables((folder,))
    assert [one.version for one in tables.releases()][-2:] == ["9.0.0", "9.0.1"]
    builds = [tables.build(version, "linux-x86_64") for version in ("9.0.0", "9.0.1")]
    assert [one and one.archs for one in builds][1] == ("sm_80", "sm_90", "compute_120")
    rows = [row for row in tables.rows("torch-build", "build") if row["variant"] == "cu134" and row["platform"] == "linux-aarch64"]
    assert [(row["from"], row["to"]) for row in rows][-1] == ("9.0.0", "9.0.1"), "the same architectures are one range"


def test_without_archs_the_architectures_stay_unknown(index: Index, folder: Path) -> None:
    assert run(index, folder, *PACKAGES, "--write") == 0
    build = Tables((folder,)).build("9.0.0", "linux-x86_64")
    assert build and build.archs is None


def test_a_known_release_that_says_otherwise_is_left_to_a_person(index: Index, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index.files = torch_files(NEWEST, archs="sm_90")
    known = Tables((folder,)).release(NEWEST)
    before = texts(folder)
    run(index, folder, f"torch=={NEWEST}", "--archs", "--write")
    out = capsys.readouterr().out
    assert known and f"- {known.date}\n  + 2026-12-09" in out
    assert "+ sm_90" in out and "please decide" in out and "nvidia-cudnn-cu13" in out
    assert texts(folder) == before, "neither rows nor the day of verification"


def test_an_html_index_will_do(index: Index, folder: Path) -> None:
    index.html = True
    assert run(index, folder, "--check") == 1
    found = registry.Registry(registry.Settings(index.url)).files("torch")
    assert {one.requires_python for one in found} == {">=3.11"} and {one.uploaded for one in found} == {None}


# ---------------------------------------------------------------- bounds


def test_a_wheel_is_read_in_pieces(index: Index) -> None:
    one = registry.Registry(registry.Settings(index.url))
    noise = random.Random(1).randbytes(400_000)  # noqa: S311
    index.files["big-1-py3-none-any.whl"] = wheel("big", "1", (), {"big/noise": noise})
    [found] = [wheels.wheel_of(file) for file in one.files("big")]
    assert found is not None
    assert len(index.files["big-1-py3-none-any.whl"]) > 300_000
    assert wheels.read_metadata(one, found).version == "1"
    assert one.bytes_read < 70_000, "one block from the end holds all that is asked for"
    assert all(asked.startswith("bytes=") for path, asked in index.asked if path.startswith("/files/"))


def test_no_more_is_read_than_may_be(
    index: Index, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(wheels, "ARCHS_BYTES", 1000)
    assert run(index, folder, "torch", "--archs") == 2
    assert "that may be read" in capsys.readouterr().err


def test_a_server_without_ranges_is_refused_at_once(index: Index, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index.ranges = False
    assert run(index, folder, "torch") == 2
    assert "does not serve ranges" in capsys.readouterr().err


def test_a_server_that_hangs_does_not_hang_us(index: Index, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "ANSWER_SECONDS", 1)
    index.delay_seconds = 3
    start = time.monotonic()
    assert run(index, folder, "--check") == 2
    assert time.monotonic() - start < 10


@pytest.mark.parametrize(
    "name, content, said",
    [
        ("no zip", b"not a zip", "not a zip"),
        ("no version file", wheel("torch", "9.0.0", ()), "no torch/version.py"),
        ("no version", wheel("torch", "9.0.0", (), {"torch/version.py": b"x = 1\n"}), "no __version__"),
        ("bad metadata", wheel("torch", "9.0.0", ("a b c",), {"torch/version.py": b"__version__ = '9'\ncuda = None\n"}), "METADATA"),
    ],
)
def test_a_broken_wheel_is_named(
    index: Index, folder: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes, said: str
) -> None:
    index.files = {"torch-9.0.0-cp312-cp312-manylinux_2_28_x86_64.whl": content}
    assert run(index, folder, "torch") == 2, name
    assert said in capsys.readouterr().err


def test_unknown_names_are_usage(capsys: pytest.CaptureFixture[str]) -> None:
    for names in (["numpy"], ["vllm==1.0"]):
        with pytest.raises(SystemExit) as error:
            refresh_tables.main(names)
        assert error.value.code == 2
    assert "not known: vllm==1.0" in capsys.readouterr().err


# ---------------------------------------------------------------- parts


def test_pip_settings_follow_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example/pypi/simple/")
    monkeypatch.setenv("PIP_CERT", "/etc/mirror.pem")
    monkeypatch.setenv("PIP_PROXY", "http://proxy.example:3128")
    assert registry.pip_settings() == registry.Settings(
        "https://mirror.example/pypi/simple", "/etc/mirror.pem", "http://proxy.example:3128"
    )


def test_a_user_in_the_address_becomes_a_header() -> None:
    plain, headers = registry.without_user("https://me:a%40b@mirror.example/simple/torch/")
    assert plain == "https://mirror.example/simple/torch/"
    assert headers == {"Authorization": "Basic bWU6YUBi"}
    assert registry.without_user("https://pypi.org/simple") == ("https://pypi.org/simple", {})


@pytest.mark.parametrize(
    "name, python, platform, floor",
    [
        ("torch-2.15.0-cp312-cp312-manylinux_2_28_x86_64.whl", "3.12", "linux-x86_64", "2.28"),
        ("torch-2.10.0-3-cp313-cp313t-manylinux_2_28_x86_64.whl", "3.13t", "linux-x86_64", "2.28"),
        ("torch-1.13.1-cp37-cp37m-manylinux2014_aarch64.whl", "3.7", "linux-aarch64", "2.17"),
        ("torch-1.13.1-cp310-cp310-manylinux1_x86_64.whl", "3.10", "linux-x86_64", None),
        ("torch-2.5.1-cp311-none-macosx_11_0_arm64.whl", "3.11", "macos-arm64", "11.0"),
        ("torch-2.15.0-cp314-cp314t-win_amd64.whl", "3.14t", "windows-x86_64", None),
        ("vllm-0.33.0-cp38-abi3-manylinux_2_31_x86_64.whl", "py3", "linux-x86_64", "2.31"),
        ("cuda_toolkit-13.2.2-py2.py3-none-any.whl", "py3", "any", None),
    ],
)
def test_wheel_names(name: str, python: str, platform: str, floor: str | None) -> None:
    one = wheels.wheel_of(registry.File(name, "", None, "", False))
    assert one and (one.python, one.platform, one.floor) == (python, platform, floor)


@given(st.text(max_size=60))
def test_no_text_makes_the_parsers_raise_anything_else(text: str) -> None:
    assert isinstance(registry.parse_html(text, "https://a/"), tuple)
    first, size = registry.parse_content_range(text)
    assert (first is None) == (size is None)
    name = registry.File(text + ".whl", "", None, "", False)
    assert wheels.wheel_of(name) is None or text.count("-") >= 4
    assert wheels.parse_cxx(text) is None or "#error" in text
    for parse in (wheels.parse_version_file, wheels.parse_metadata):
        try:
            parse(text)
        except registry.RegistryError:
            continue


_PLAIN = st.text(st.characters(min_codepoint=32, exclude_categories=("Cs",)), max_size=20)


@given(
    st.dictionaries(
        _PLAIN, st.one_of(_PLAIN, st.booleans(), st.integers(-9, 9), st.lists(_PLAIN, max_size=3), st.dictionaries(_PLAIN, _PLAIN))
    )
)
def test_rows_are_toml(row: dict[str, object]) -> None:
    assert parse_toml(f"row = {difference.row_text(row)}")["row"] == row


def test_edits_go_where_they_belong() -> None:
    rows = '  { x = "1", k = "p", to = "1" },\n  { x = "2", k = "q", to = "1" },\n'
    text = f'[a]\nkey = ["x"]\nrows = [\n{rows}]\n\n[b]\nrows = [\n  {{ x = "1" }},\n]\n'
    added = difference.apply(text, difference.AddRow("a", {"x": "3", "k": "p"}, {"k": "p"}))
    assert [row["x"] for row in parse_toml(added)["a"]["rows"]] == ["1", "3", "2"]
    added = difference.apply(text, difference.AddRow("a", {"x": "3"}, {"k": "none"}))
    assert [row["x"] for row in parse_toml(added)["a"]["rows"]] == ["1", "2", "3"]
    longer = difference.apply(text, difference.Extend("a", {"k": "q"}, "5"))
    assert [row["to"] for row in parse_toml(longer)["a"]["rows"]] == ["1", "5"] and parse_toml(longer)["b"] == parse_toml(text)["b"]
    with pytest.raises(ValueError, match="no row"):
        difference.apply(text, difference.Extend("a", {"k": "z"}, "5"))


def test_a_free_threaded_python_comes_after_its_own() -> None:
    assert sorted(("3.14", "3.9", "3.13t", "3.13"), key=releases.python_order) == ["3.9", "3.13", "3.13t", "3.14"]
