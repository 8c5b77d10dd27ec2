"""Two distributions of one name: which command leaves one of them."""

from __future__ import annotations

import pytest

from envcheck.checks.reinstall import once
from envcheck.engine.intents import Install, SetEnv
from envcheck.facts.snapshot import Distribution, PackagesFacts, PythonFacts
from envcheck.plan.install_commands import install
from envcheck.plan.profile import Profile

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
