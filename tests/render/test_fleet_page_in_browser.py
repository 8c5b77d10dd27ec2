"""The page of a job's report in a real Chromium: narrow and dark screens, axe-core, paper, and a policy that lets no script run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fleet_samples import SAMPLES

from envcheck.render.fleet import render_fleet

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("fleet-pages")
    made = {name: folder / f"{name}.html" for name in SAMPLES}
    for name, path in made.items():
        path.write_text(render_fleet(SAMPLES[name](), "html"), encoding="utf-8")
    return made


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", SAMPLES)
def test_axe_finds_nothing_and_nothing_scrolls_sideways(
    shade_of_a_sound_page: Callable[[Path, str], str], pages: dict[str, Path], name: str, scheme: str
) -> None:
    assert shade_of_a_sound_page(pages[name], scheme)


@pytest.mark.parametrize("name", SAMPLES)
def test_nothing_is_fetched_and_nothing_of_the_facts_runs(tab: Any, pages: dict[str, Path], name: str) -> None:
    asked: list[str] = []
    said: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.on("console", lambda message: said.append(message.text))
    tab.goto(pages[name].as_uri())
    assert (asked, said) == ([pages[name].as_uri()], [])
    assert tab.evaluate("window.struck") is None
    assert tab.locator("script, img, iframe, link, object, embed, form").count() == 0


def test_the_maps_show_the_odd_host(tab: Any, pages: dict[str, Path]) -> None:
    tab.goto(pages["drifted"].as_uri())
    alike, _, links, speeds = tab.locator(".grid").all()
    assert [row.text_content() for row in alike.locator("tr").all()] == ["driver", "n[1-4,6-8]A", "n5B"]
    assert alike.locator(".odd").count() == 1
    assert links.locator("tr").nth(7).locator("td").all_text_contents() == ["no"] * 6 + ["", "no"]
    assert links.locator(".off").count() == 14, "n7 to seven hosts, and back"
    assert speeds.locator("tr").nth(1).locator("td").all_text_contents() == ["", "1", "2", "3", "4", "5", "6", "7"]
    assert "n5" in tab.locator("section.finding").first.text_content()


def test_what_each_rank_did_and_where_it_stood(tab: Any, pages: dict[str, Path]) -> None:
    tab.goto(pages["stuck"].as_uri())
    course = tab.locator(".grid").first
    rows = [[cell.text_content() for cell in row.locator("th, td").all()] for row in course.locator("tr").all()]
    assert rows == [
        ["", "start", "world gloo", "pairs gloo", "rest gloo"],
        ["rank 4 on n3", "ok, 2.4 s", "all_reduce timeout", "init timeout", ""],
        ["rank 5 on n3", "ok, 2.5 s", "all_reduce timeout", "waited", ""],
        ["ranks [0-3] on n[1-2]", "ok, 2 to 2.3 s", "waited", "ok, 0.5 s", "ok, 0.6 s"],
        ["ranks [6-7] on n4", "ok, 2.6 to 2.7 s", "waited", "waited", "ok, 0.6 s"],
    ]
    assert course.locator(".off").all_text_contents() == ["all_reduce timeout", "init timeout", "all_reduce timeout"]


def test_a_map_of_many_hosts_is_a_picture_that_says_what_it_shows(tab: Any, pages: dict[str, Path]) -> None:
    tab.goto(pages["large"].as_uri())
    picture = tab.locator("svg")
    assert picture.count() == 1
    assert "256 hosts" in picture.get_attribute("aria-label")
    assert picture.locator(".cell-off").count() == 255, "one host to all others that are drawn"
    assert "256 of 300 hosts" in tab.locator("main").text_content()
    assert pages["large"].stat().st_size < 400_000


@pytest.mark.parametrize("name", SAMPLES)
def test_paper_holds_all_of_it(tab: Any, pages: dict[str, Path], name: str) -> None:
    tab.set_viewport_size({"width": 718, "height": 1000})
    tab.emulate_media(media="print", color_scheme="dark")
    tab.goto(pages[name].as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth") <= 718
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
