"""A real Chromium for tests of pages of HTML, and axe-core, which looks for what keeps people out."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install -e '.[browser]'")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    with playwright.sync_playwright() as running:
        arguments = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []  # as root Chromium has none
        made = running.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield made
        made.close()


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    yield page
    page.close()


@pytest.fixture(scope="module")
def axe() -> str:
    package = pytest.importorskip("axe_playwright_python", reason="axe-core is not installed: pip install -e '.[browser]'")
    return Path(package.__file__).with_name("axe.min.js").read_text(encoding="utf-8")


@pytest.fixture
def shade_of_a_sound_page(browser: Any, axe: str) -> Callable[[Path, str], str]:
    """A page on a phone, all folds open: nothing scrolls sideways, and axe-core finds nothing. Returns the colour of its ground."""

    def looked_at(path: Path, scheme: str) -> str:
        # What the page's policy refuses to run has to be run: the tool of the test comes in past it.
        page = browser.new_page(viewport={"width": 360, "height": 800}, color_scheme=scheme, bypass_csp=True)
        page.goto(path.as_uri())
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        page.evaluate(axe)
        # Dark differs by its colours alone, and the whole run is seconds a page.
        found = page.evaluate("axe.run()" if scheme == "light" else "axe.run({runOnly: ['color-contrast']})")
        assert found["passes"], "axe-core looked at nothing"
        assert [(one["id"], one["nodes"][0]["html"][:200], one["nodes"][0]["failureSummary"]) for one in found["violations"]] == []
        shade: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.close()
        return shade

    return looked_at
