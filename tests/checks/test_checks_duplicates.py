"""Two distributions of one name: which command leaves one of them."""

from __future__ import annotations

import pytest

from envcheck.checks.reinstall import once
from envcheck.checks.requirements import torch_pin_unmet
from envcheck.engine.intents import Install, SetEnv
from envcheck.engine.judge import judge
from envcheck.facts.snapshot import Distribution, ImportStatus, PackagesFacts, PythonFacts, Snapshot, TorchFacts, Unmet
from envcheck.planner.install_commands import install
from envcheck.planner.profile import Profile
from envcheck.tables.compat import Tables
from envcheck.tables.folders import rules_folder

VENV, MINE, USER = "/venv/lib/python3.12/site-packages", "/home/me/old", "/home/me/.local/lib/python3.12/site-packages"
PYTHON = PythonFacts(version="3.12.1", pythonpath=f"/srv/tools:{MINE}/", user_site=USER)


def torches(*places: str) -> PackagesFacts:
    return PackagesFacts(tuple(Distribution("torch", f"2.{at}.0", location=place) for at, place in enumerate(places)))


@pytest.mark.parametrize(
    ("places", "kind", "what"),
    [
        ((VENV, VENV), Install, ("torch", "torch")),
        ((MINE, VENV), SetEnv, "PYTHONPATH"),
        ((VENV, USER), SetEnv, "PYTHONNOUSERSITE"),
        ((USER, "/usr/lib/python3/dist-packages"), SetEnv, "PYTHONNOUSERSITE"),
    ],
)
def test_once(places: tuple[str, ...], kind: type, what: object) -> None:
    [intent] = once("torch", "torch==2.1.0", torches(*places), PYTHON)
    assert isinstance(intent, kind)
    assert (intent.remove if isinstance(intent, Install) else intent.name) == what  # type: ignore[attr-defined]


@pytest.mark.parametrize("places", [(VENV,), (VENV, "/opt/other"), (VENV, MINE)])
def test_nobody_knows_which_is_meant(places: tuple[str, ...]) -> None:
    """One alone, or two of which the first is the environment's own: only the folder in use may be taken off the path."""
    assert once("torch", "torch==2.1.0", torches(*places), PYTHON) == ()


def test_pip_takes_one_away_at_a_time() -> None:
    pip, uv = install(Profile(executable="/venv/bin/python"), (), ("torch", "numpy", "torch"))
    assert pip == ("/venv/bin/python -m pip uninstall -y torch numpy", "/venv/bin/python -m pip uninstall -y torch")
    assert uv == ("uv pip uninstall --python /venv/bin/python torch numpy",)


def test_a_pin_beside_a_second_entry() -> None:
    """torch asks for 12.8.4.1, of which there is an entry as well: `pip install torch` alone would call that satisfied."""
    rows = tuple(Distribution("nvidia-cublas-cu12", version, location=VENV) for version in ("12.6.4.1", "12.8.4.1"))
    unmet = (Unmet("torch", "nvidia-cublas-cu12==12.8.4.1", "12.6.4.1"),)
    for listed, remove in ((rows, ("nvidia-cublas-cu12", "nvidia-cublas-cu12")), (rows[:1], ())):
        snapshot = Snapshot(
            torch=TorchFacts(version="2.9.1+cu128", import_status=ImportStatus.OK),
            packages=PackagesFacts(listed, unmet=unmet),
            python=PYTHON,
        )
        [verdict] = judge(snapshot, [torch_pin_unmet], Tables((rules_folder("compat"),)))
        assert verdict.hit
        [intent] = verdict.hit.fixes
        assert isinstance(intent, Install) and intent.requirements == ("torch==2.9.1",) and intent.remove == remove
