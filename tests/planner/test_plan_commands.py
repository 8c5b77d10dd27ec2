"""How commands are spelled: for pip, uv, conda and pixi, on a POSIX shell and on Windows."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.facts.record import replace
from envcheck.planner.candidate import Candidate
from envcheck.planner.companions import Companions, Move
from envcheck.planner.install_commands import channel_beside, conda, conda_install, export, install, line, name_of
from envcheck.planner.profile import Profile

POSIX = Profile(os="linux", platform="linux-x86_64", driver="580.95.05")
WINDOWS = Profile(os="windows", platform="windows-x86_64")
FORGE = Candidate("2.13.0", "cu129", "linux-x86_64", cuda="12.9", channel="conda-forge")
FROZEN = Candidate("2.5.1", "cu121", "linux-x86_64", cuda="12.1", channel="pytorch", selector="pytorch-cuda")
OLD = replace(FROZEN, version="1.12.1", cuda="11.3", selector="cudatoolkit")
MOVES = Companions((Move("torchvision", "0.20.1"), Move("numpy", specifier="<2"), Move("no-conda-name", "1")))

CONDA: list[tuple[Candidate, dict[str, Any], list[str]]] = [
    (FORGE, {}, ["conda install -c conda-forge pytorch-gpu=2.13.0 cuda-version=12.9 torchvision 'numpy<2'"]),
    (replace(FORGE, cuda=None), {}, ["conda install -c conda-forge pytorch-cpu=2.13.0 torchvision 'numpy<2'"]),
    (
        replace(FORGE, cuda=None, platform="macos-arm64"),
        {"driver": None},
        ["conda install -c conda-forge pytorch=2.13.0 torchvision 'numpy<2'"],
    ),
    (
        FORGE,
        {"driver": None},
        ["CONDA_OVERRIDE_CUDA=12.9 conda install -c conda-forge pytorch-gpu=2.13.0 cuda-version=12.9 torchvision 'numpy<2'"],
    ),
    (
        FORGE,
        {"driver": None, "os": "windows"},
        ["$env:CONDA_OVERRIDE_CUDA = '12.9'", 'conda install -c conda-forge pytorch-gpu=2.13.0 cuda-version=12.9 torchvision "numpy<2"'],
    ),
    (
        FORGE,
        {"environment": "conda", "prefix": "/opt/my env"},
        ["conda install -p '/opt/my env' -c conda-forge pytorch-gpu=2.13.0 cuda-version=12.9 torchvision 'numpy<2'"],
    ),
    (
        FORGE,
        {"environment": "venv", "prefix": "/venv"},
        ["conda install -c conda-forge pytorch-gpu=2.13.0 cuda-version=12.9 torchvision 'numpy<2'"],
    ),
    (FORGE, {"environment": "pixi", "driver": None}, ["pixi add pytorch-gpu=2.13.0 cuda-version=12.9 torchvision 'numpy<2'"]),
    # what pip installed goes first, so that there are not two
    (
        FORGE,
        {"environment": "pixi", "torch": "2.9.1", "executable": "/p/bin/python", "packages": {"torchvision": "0.24", "numpy": "2"}},
        [
            "/p/bin/python -m pip uninstall -y torch torchvision",
            "pixi add pytorch-gpu=2.13.0 cuda-version=12.9 torchvision 'numpy<2'",
        ],
    ),
    (
        FORGE,
        {"environment": "conda", "torch": "2.9.1"},
        [
            "python -m pip uninstall -y torch",
            "conda install -c conda-forge pytorch-gpu=2.13.0 cuda-version=12.9 torchvision 'numpy<2'",
        ],
    ),
    (
        FORGE,
        {"environment": "conda", "torch": "2.9.1", "torch_from_conda": True},
        ["conda install -c conda-forge pytorch-gpu=2.13.0 cuda-version=12.9 torchvision 'numpy<2'"],
    ),
    (
        FORGE,
        {"environment": "venv", "torch": "2.9.1"},
        ["conda install -c conda-forge pytorch-gpu=2.13.0 cuda-version=12.9 torchvision 'numpy<2'"],
    ),
    (FROZEN, {}, ["conda install pytorch==2.5.1 torchvision==0.20.1 'numpy<2' pytorch-cuda=12.1 -c pytorch -c nvidia"]),
    (OLD, {"driver": None}, ["conda install pytorch==1.12.1 torchvision==0.20.1 'numpy<2' cudatoolkit=11.3 -c pytorch -c conda-forge"]),
    (replace(FROZEN, cuda=None), {}, ["conda install pytorch==2.5.1 torchvision==0.20.1 'numpy<2' cpuonly -c pytorch"]),
    (
        replace(FROZEN, cuda=None, platform="macos-arm64"),
        {},
        ["conda install pytorch==2.5.1 torchvision==0.20.1 'numpy<2' -c pytorch"],
    ),
]


@pytest.mark.parametrize(("one", "changes", "lines"), CONDA)
def test_a_build_of_conda(one: Candidate, changes: dict[str, Any], lines: list[str]) -> None:
    assert list(conda(one, MOVES, replace(POSIX, **changes))) == lines


def test_channels() -> None:
    assert [channel_beside(one) for one in (FROZEN, OLD, replace(OLD, cuda="10.2"), replace(OLD, cuda=None))] == [
        ["-c", "nvidia"],
        ["-c", "conda-forge"],
        [],
        [],
    ]


def test_packages_of_conda_forge() -> None:
    assert conda_install(POSIX, ["numpy<2", "scipy"]) == "conda install -c conda-forge 'numpy<2' scipy"
    assert conda_install(POSIX, ["numpy"], again=True) == "conda install --force-reinstall -c conda-forge numpy"
    assert conda_install(replace(POSIX, environment="conda", prefix="/c"), ["numpy"]) == "conda install -p /c -c conda-forge numpy"
    assert conda_install(replace(POSIX, environment="pixi"), ["numpy"], again=True) == "pixi add numpy"


@pytest.mark.parametrize(
    ("profile", "given", "pip", "uv"),
    [
        (POSIX, {"requirements": ["numpy<2"]}, ["python -m pip install 'numpy<2'"], ["uv pip install 'numpy<2'"]),
        (
            replace(POSIX, executable="/v/bin/python"),
            {"requirements": ["a==1", "b"], "remove": ["c"], "flags": ["--pre"]},
            ["/v/bin/python -m pip uninstall -y c", "/v/bin/python -m pip install --pre a==1 b"],
            ["uv pip uninstall --python /v/bin/python c", "uv pip install --python /v/bin/python --pre a==1 b"],
        ),
        (
            POSIX,
            {"requirements": ["a==1", "b[x]"], "again": True},
            ["python -m pip install --force-reinstall --no-deps a==1 'b[x]'"],
            ["uv pip install --reinstall-package a --reinstall-package b --no-deps a==1 'b[x]'"],
        ),
        (POSIX, {"requirements": [], "remove": ["c"]}, ["python -m pip uninstall -y c"], ["uv pip uninstall c"]),
        (POSIX, {"requirements": []}, [], []),
        (WINDOWS, {"requirements": ["numpy<2"]}, ['python -m pip install "numpy<2"'], ['uv pip install "numpy<2"']),
    ],
)
def test_packages_of_the_default_index(profile: Profile, given: dict[str, Any], pip: list[str], uv: list[str]) -> None:
    assert install(profile, **given) == (tuple(pip), tuple(uv))


def test_names_of_requirements() -> None:
    assert [name_of(text) for text in ("numpy", "numpy<2", "a[x]", "a ; python_version<'3'", "a@b", "a~=1", "a!=1")] == [
        "numpy", "numpy", "a", "a", "a", "a", "a",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("profile", "value", "shown"),
    [
        (POSIX, "a b", "export N='a b'"),
        (POSIX, "", "export N=''"),
        (POSIX, None, "unset N"),
        (WINDOWS, "C:\\a\\b", "$env:N = 'C:\\a\\b'"),
        (WINDOWS, "it's $me", '$env:N = "it\'s `$me"'),
        (WINDOWS, None, "Remove-Item Env:N"),
    ],
)
def test_variables(profile: Profile, value: str | None, shown: str) -> None:
    assert export(profile, "N", value) == shown


def test_a_line_is_quoted_for_its_shell() -> None:
    assert line(POSIX, "a", "b c", "$(d)") == "a 'b c' '$(d)'"
    assert (
        line(WINDOWS, "C:\\Program Files\\python.exe", "-m", "pip", "a[x]==1.0+cu1")
        == '& "C:\\Program Files\\python.exe" -m pip a[x]==1.0+cu1'
    )
