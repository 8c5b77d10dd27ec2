"""Golden files: what a renderer wrote once and was read by a person. `pytest --update-golden` writes them again."""

from __future__ import annotations

import functools
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from registry import NoAnswer, Registry, pip_settings

from envcheck import __version__
from envcheck.commands import nearest
from envcheck.facts import secret_patterns
from envcheck.report.session import RuleSession
from envcheck.symptoms import scan
from envcheck.tables import toml
from envcheck.tables.folders import rules_folder

# How long one example takes says more of what else the machine does than of the code.
settings.register_profile("envcheck", deadline=None)
settings.load_profile("envcheck")

# What the tests start is sent these, and must not have inherited that they are ignored: nohup and a shell's `&` leave it so.
signal.signal(signal.SIGINT, signal.default_int_handler)
for ignored in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
    if signal.getsignal(ignored) == signal.SIG_IGN:
        signal.signal(ignored, signal.SIG_DFL)

# A command reads its rules once. Hundreds of them in one process read the same files, which nothing changes.
toml.parse_toml = functools.lru_cache(512)(toml.parse_toml)
_read_folder = scan._read_folder
_of_ours = functools.cache(lambda: tuple(_read_folder(rules_folder())))
scan._read_folder = lambda folder: _of_ours() if folder == rules_folder() else _read_folder(folder)
_index_of = nearest.index_of
_index_of_ours = functools.cache(lambda language: _index_of(RuleSession(language=language)))
nearest.index_of = lambda by: _index_of_ours(by.language) if getattr(by, "folders", ()) == (rules_folder(),) else _index_of(by)

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden again instead of comparing with it")


def placeholders(text: str) -> str:
    """Text without what differs between two runs or two checkouts: version, times, temporary and checkout paths."""
    text = text.replace(f"envcheck {__version__}", "envcheck {version}").replace(f'"version": "{__version__}"', '"version": "{version}"')
    text = re.sub(r"imported in \d+\.\d s", "imported in {seconds} s", text)
    text = re.sub(r'("\w*seconds": )\d[\d.e-]*', r"\1{seconds}", text)
    text = re.sub(r"(&quot;\w*seconds&quot;: )\d[\d.e-]*", r"\1{seconds}", text)
    text = re.sub(r"/tmp/(?:envcheck|pytest)[\w.-]*(?:/[\w.-]+)*", "{tmp}", text)
    return text.replace(str(GOLDEN.parents[1]), "{checkout}")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)` holds text against tests/golden/NAME, placeholders apart."""

    def compare(name: str, text: str) -> None:
        path, made = GOLDEN / name, placeholders(text)
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made, encoding="utf-8")
            return
        assert path.is_file(), f"{path} is not there: pytest --update-golden writes it; read it before you commit it"
        assert made == path.read_text(encoding="utf-8")

    return compare


@pytest.fixture(scope="module")
def one_masking_of_each_text() -> Iterator[None]:
    """Reports of ten formats and of many rules hold the same texts. Not for what measures times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secret_patterns, "masked", functools.lru_cache(1 << 14)(secret_patterns.masked))
        yield


@pytest.fixture(scope="session")
def package_index() -> Registry:
    """The index that pip is configured for; skips what needs it where it does not answer."""
    index = Registry(pip_settings())
    try:
        index.files("packaging")
    except NoAnswer as error:
        pytest.skip(f"the package registry does not answer: {error}")
    return index
