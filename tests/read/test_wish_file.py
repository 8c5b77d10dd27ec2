"""Files of wishes as entries with their places: nothing of them is dropped, and nothing else is taken for a package."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.errors import UsageError
from envcheck.read.wish_conda import pip_specifier
from envcheck.read.wish_file import WishFile
from envcheck.read.wish_kinds import read_wish_file

REQUIREMENTS = """\
# comment
--index-url=https://download.pytorch.org/whl/cu118
-f https://download.pytorch.org/whl/cu113/torch_stable.html
torch == 2.1.0+cu118  # why
numpy>=1.24 ; python_version >= "3.9"
pandas==2.2.0 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
-e .
./local.whl
pkg @ https://example.com/pkg.whl
private==${VERSION}
-r base.txt
--constraint limits.txt
--pre
"""


def entries(file: WishFile) -> list[tuple[int, str, str, str]]:
    return [(line.line, line.role, line.text, line.why) for line in file.lines]


def test_a_requirements_file() -> None:
    file = read_wish_file("requirements.txt", REQUIREMENTS)
    assert entries(file) == [
        (2, "index", "https://download.pytorch.org/whl/cu118", ""),
        (3, "extra-index", "-f https://download.pytorch.org/whl/cu113/torch_stable.html", ""),
        (4, "wish", "torch == 2.1.0+cu118", ""),
        (5, "wish", 'numpy>=1.24 ; python_version >= "3.9"', ""),
        (6, "wish", "pandas==2.2.0", ""),
        (9, "kept", "-e .", "editable"),
        (10, "kept", "./local.whl", "url"),
        (11, "kept", "pkg @ https://example.com/pkg.whl", "url"),
        (12, "kept", "private==${VERSION}", "variable"),
        (15, "kept", "--pre", "option"),
    ]
    assert [line.hashes for line in file.lines if line.role == "wish"] == [False, False, True]
    assert file.includes == (("wish", "base.txt", 13), ("constraint", "limits.txt", 14))
    assert {line.role for line in read_wish_file("c.txt", "torch<3\n", constraint=True).lines} == {"constraint"}


POETRY, POETRY_TABLE = "[tool.poetry.dependencies]\n", "pyproject.toml: [tool.poetry.dependencies]"
PROJECT = "[project]\ndependencies = ['torch']\n"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("r.txt", "torch\nsome stray words\n", "r.txt:2: 'some stray words' is not a requirement"),
        ("r.txt", "torch=2.9\n", "r.txt:1: 'torch=2.9' is not a requirement"),
        ("pyproject.toml", "[project]\nname = 'x'\n", "pyproject.toml: names no dependencies"),
        ("pyproject.toml", "[project\n", "pyproject.toml: not readable as TOML"),
        ("pyproject.toml", "[project]\ndependencies = ['torch 2.9']\n", "pyproject.toml:2: 'torch 2.9' is not a requirement"),
        ("environment.yml", "dependencies: [pytorch]\n", "environment.yml:1: write one dependency a line"),
        ("environment.yml", "dependencies:\n  - pip:\n    - a b\n", "environment.yml:3: 'a b' is not a requirement"),
        ("environment.yml", "name: x\n", "environment.yml: names no dependencies"),
        ("uv.lock", "version = 1\n", "uv.lock: pins no packages"),
        ("Pipfile.lock", "{}", "not this kind"),
        ("r.txt", "torch===+cu126 x\n", "r.txt:1: 'torch===+cu126 x' is not a requirement"),
        ("r.txt", f"torch ; {'(' * 9000}\n", "r.txt:1: 'torch ; (((("),
        ("pyproject.toml", f'{POETRY}torch = "^*"', f"{POETRY_TABLE}: 'torch = '^*'' is not a requirement"),
        ("pyproject.toml", f'{POETRY}torch = "~*"', f"{POETRY_TABLE}: 'torch = '~*'' is not a requirement"),
        ("pyproject.toml", f'{POETRY}torch = "^{"9" * 4300}"', f"{POETRY_TABLE}: 'torch = '^999"),
        ("pyproject.toml", f'{POETRY}torch = "<"', f"{POETRY_TABLE}: 'torch = '<'' is not a requirement"),
        ("pyproject.toml", f'{POETRY}torch = ">=abc"', f"{POETRY_TABLE}: 'torch = '>=abc'' is not a requirement"),
        ("pyproject.toml", f'{POETRY}"bad name!" = "*"', f"{POETRY_TABLE}: 'bad name! = '*'' is not a requirement"),
        ("pyproject.toml", f"{POETRY}torch = 0x{'f' * 4000}", "not readable as TOML: a number of more than 1,000 digits"),
        ("pyproject.toml", f"{POETRY}torch = {{ version = '*', extras = 5 }}", f"{POETRY_TABLE} torch: extras = 5: a list of texts"),
        ("pyproject.toml", f"{POETRY}torch = {{ version = '*', extras = ['a b'] }}", f"{POETRY_TABLE}: 'torch = "),
        ("pyproject.toml", "[project]\ndependencies = 'torch'", "pyproject.toml: [project]: dependencies = 'torch': a list of texts"),
        ("pyproject.toml", f"{PROJECT}[[tool.uv.index]]\nname = [1]", "[[tool.uv.index]]: name = [1]: a text is expected"),
        ("pyproject.toml", f"{PROJECT}[tool.uv.sources]\ntorch = [{{ index = ['x'] }}]", "[tool.uv.sources] torch: index = ['x']: a text"),
        ("uv.lock", "[[package]]\nname = 'a b'\nversion = '1'", "uv.lock:1: 'a b==1' is not a requirement"),
        ("uv.lock", "[[package]]\nname = 'torch'\nversion = 'x y'", "uv.lock:1: 'torch==x y' is not a requirement"),
        ("uv.lock", "[[package]]\nname = 'x'\nversion = '1'\nresolution-markers = ['bad']", "uv.lock:1: 'x==1 ; (bad)' is not"),
        ("uv.lock", "[[package]]\nname = 'x'\nversion = '1'\nresolution-markers = 'bad'", "resolution-markers = 'bad': a list of texts"),
        ("pylock.toml", "[[packages]]\nname = 'torch'\nversion = ''", "pylock.toml:1: 'torch==' is not a requirement"),
        ("pylock.toml", "[[packages]]\nname = 'torch'\nversion = '2'\nmarker = 5", "pylock.toml:1: marker = 5: a text is expected"),
        ("environment.yml", "dependencies:\n- pytorch::pytorch=~2", "environment.yml:2: 'pytorch::pytorch=~2' is not a requirement"),
        ("environment.yml", "dependencies:\n- torché", "environment.yml:2: 'torché' is not a requirement"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_line(name: str, text: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        read_wish_file(name, text)
    assert said in str(error.value)


PYPROJECT = """\
[build-system]
requires = ["torch"]

[project]
name = "x"
requires-python = ">=3.10"
dependencies = [
  'torch>=2.4',
  "torchvision",  # kept
]

[dependency-groups]
dev = ["pytest"]

[[tool.uv.index]]
name = "pt"
url = "https://download.pytorch.org/whl/cu124"

[tool.uv.sources]
torch = [{ index = "pt", marker = "sys_platform == 'linux'" }]
"""


def test_a_project() -> None:
    file = read_wish_file("sub/pyproject.toml", PYPROJECT)
    assert entries(file) == [
        (8, "wish", "torch>=2.4", ""),
        (9, "wish", "torchvision", ""),
        (0, "python", "requires-python = >=3.10", ""),
        (0, "kept", "[dependency-groups] dev", "group"),
        (17, "index", "https://download.pytorch.org/whl/cu124", ""),
    ]
    assert file.lines[-1].value.endswith(" ; sys_platform == 'linux'")


def test_poetry() -> None:
    text = f'{POETRY}python = "^3.10"\ntorch = "^2.1"\nnumpy = "~1.26"\nx = {{ git = "https://example.com" }}\ny = "^0.2.3"\n'
    text += 'z = { version = ">=2.1 <3", extras = ["a"] }\nv = "=2.1"\nw = "<1 | >2"\n'
    file = read_wish_file("pyproject.toml", text)
    assert [(line.role, line.value) for line in file.lines] == [
        ("python", ">=3.10,<4"), ("wish", "torch>=2.1,<3"), ("wish", "numpy>=1.26,<1.27"), ("kept", ""), ("wish", "y>=0.2.3,<0.3"),
        ("wish", "z[a]>=2.1,<3"), ("wish", "v==2.1"), ("kept", ""),
    ]  # fmt: skip
    assert file.fixed == "poetry"


ENVIRONMENT = """\
name: train
channels: [pytorch]
dependencies:
  - python=3.11
  - pytorch::pytorch=2.1  # the model
  - pytorch-cuda=11.8
  - "numpy >=1.24,<2"
  - scipy 1.11.*
  - odd[version='>1']
  - pip:
      - transformers==4.40
      - -e .
  - cpuonly
variables:
  A: b
"""


def test_an_environment_of_conda() -> None:
    file = read_wish_file("environment.yml", ENVIRONMENT)
    assert [(line.line, line.role, line.value, line.conda) for line in file.lines] == [
        (4, "python", "==3.11.*", True),
        (5, "wish", "torch==2.1.*", True),
        (6, "cuda", "11.8", True),
        (7, "wish", "numpy>=1.24,<2", True),
        (8, "wish", "scipy==1.11.*", True),
        (9, "kept", "", False),
        (11, "wish", "transformers==4.40", False),
        (12, "kept", "", False),
        (13, "cuda", "cpu", True),
    ]


def test_versions_as_conda_writes_them() -> None:
    texts = ("=2.5", "==2.5.1", "2.5.1=py311_cuda", "2.*", ">=2,<3", "*", "=2.5.1=*cuda*", "~=2.1", "odd")
    wanted = ["==2.5.*", "==2.5.1", "==2.5.1", "==2.*", ">=2,<3", "", "==2.5.1.*", "~=2.1", None]
    assert [pip_specifier(text) for text in texts] == wanted


def test_locks() -> None:
    uv = """\
[[package]]
name = "app"
version = "0.1"
source = { editable = "." }

[[package]]
name = "torch"
version = "2.4.1+cu124"
source = { registry = "https://download.pytorch.org/whl/cu124" }
resolution-markers = ["sys_platform == 'linux'"]
"""
    file = read_wish_file("uv.lock", uv)
    assert [(line.role, line.value, line.why) for line in file.lines] == [
        ("kept", "", "project"),
        ("wish", "torch==2.4.1+cu124 ; (sys_platform == 'linux')", ""),
        ("index", "https://download.pytorch.org/whl/cu124 ; (sys_platform == 'linux')", ""),
    ]
    assert file.fixed == "lock"
    other = read_wish_file("pylock.gpu.toml", '[[packages]]\nname = "torch"\nversion = "2.9.1"\nmarker = "os_name == \'posix\'"\n')
    assert [line.value for line in other.lines] == ["torch==2.9.1 ; (os_name == 'posix')"]


@pytest.mark.parametrize(
    ("marker", "read"),
    [
        ("'x'in extras", "python_version < '0'"),
        ("'x' not in extras and os_name == 'nt'", "python_version >= '0' and os_name == 'nt'"),
        ('"The_Default" in dependency_groups', "python_version >= '0'"),
        ("'dev' in dependency_groups or 'the-default' not in dependency_groups", "python_version < '0' or python_version < '0'"),
    ],
)
def test_a_lock_is_read_for_no_extra_and_the_default_groups(marker: str, read: str) -> None:
    text = f"default-groups = ['the-default']\n[[packages]]\nname = 'torch'\nversion = '2.9.1'\nmarker = {marker!r}\n"
    assert [line.value for line in read_wish_file("pylock.toml", text).lines] == [f"torch==2.9.1 ; ({read})"]


@pytest.mark.parametrize("name", ["requirements.txt", "pyproject.toml", "environment.yml"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_entry_stands_where_it_says(name: str, end: str) -> None:
    text = {"requirements.txt": REQUIREMENTS, "pyproject.toml": PYPROJECT, "environment.yml": ENVIRONMENT}[name].replace("\n", end)
    placed = [line for line in read_wish_file(name, text).lines if line.start >= 0]
    assert len(placed) > 2
    for line in placed:
        assert text[line.start : line.start + len(line.text)] == line.text


@given(
    st.text(alphabet=st.sampled_from("-- rce@:=<>~.*[]\"'\\#\n\r\t{}torch2"), max_size=80),
    st.sampled_from(["r.txt", "e.yml", "p.toml", "uv.lock"]),
)
def test_any_text_is_read_or_refused(text: str, name: str) -> None:
    try:
        file = read_wish_file(name, text)
    except UsageError:
        return
    assert all(text[line.start : line.start + len(line.text)] == line.text for line in file.lines if line.start >= 0)
