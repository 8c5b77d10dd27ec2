"""Pages of a plan and of a comparison, and the frame that a notebook shows, in a real Chromium."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from report_samples import driver_old

import envcheck
from envcheck.api import Report
from envcheck.cli import main

pytestmark = pytest.mark.browser

RECORDED = Path(__file__).parents[1] / "documents" / "v1"
ELSEWHERE = ("--for", "8xh100", "--driver", "570.124", "--python", "3.12")
STRUCK = "</script><script>window.struck = 1</script><img src=x onerror='window.struck = 1'>"
COMMANDS = {
    "plan": (["plan", "torch==2.9.*", "torchvision", *ELSEWHERE, "--files"], 0),
    "file": (["plan", "-r", "wishes.txt", *ELSEWHERE], 0),
    "none": (["plan", "torch==2.14.*", "--for", "h100", "--driver", "450.80.02", "--python", "3.15", "--glibc", "2.17"], 3),
    "compare": (["compare", str(RECORDED / "healthy.json"), "other.json"], 1),
    "same": (["compare", str(RECORDED / "healthy.json"), str(RECORDED / "healthy.json")], 0),
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("other-pages")
    (folder / "wishes.txt").write_text(f"torch==2.9.1+cu130\ntorchvision\nrequests\n# {STRUCK}\nsome-thing-{'x' * 80}\n")
    broken = (RECORDED / "broken.json").read_text().replace('"535.183.01"', f'"{STRUCK}"')
    (folder / "other.json").write_text(broken)
    made = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, (words, code) in COMMANDS.items():
            made[name] = folder / f"{name}.html"
            assert main([*words, "-o", str(made[name])]) == code
    return made


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", COMMANDS)
def test_axe_finds_nothing_and_nothing_scrolls_sideways(
    shade_of_a_sound_page: Callable[[Path, str], str], pages: dict[str, Path], name: str, scheme: str
) -> None:
    assert shade_of_a_sound_page(pages[name], scheme)


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_is_fetched_and_paper_holds_it(tab: Any, pages: dict[str, Path], name: str) -> None:
    asked: list[str] = []
    said: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.on("console", lambda message: said.append(message.text))
    tab.set_viewport_size({"width": 718, "height": 1000})
    tab.emulate_media(media="print", color_scheme="dark")
    tab.goto(pages[name].as_uri())
    assert (asked, said, tab.evaluate("window.struck")) == ([pages[name].as_uri()], [], None)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 718
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    folds = "[...document.querySelectorAll('.ways details, .sides details')]"
    heights = f"{folds}.map(e => e.clientHeight - e.querySelector('summary').clientHeight)"
    assert all(height > 10 for height in tab.evaluate(heights)), "a fold that is shut on paper cannot be opened"


def test_a_plan_says_first_what_to_run(tab: Any, pages: dict[str, Path]) -> None:
    tab.goto(pages["file"].as_uri())
    assert tab.locator("h1").text_content().endswith(", plan: 2 ways")
    assert tab.locator(".ways pre").first.text_content().startswith("python -m pip install torch==2.9.1 torchvision==0.24.1 requests")
    rows = [[cell.text_content() for cell in row.locator("th, td").all()] for row in tab.locator(".stood tr").all()]
    assert [row[:2] for row in rows] == [["1", "moves"], ["2", "moves"], ["3", "unknown"], ["5", "unknown"]]
    assert rows[1][2] == "torchvision → torchvision==0.24.1: goes with torch 2.9.1+cu128"
    tab.goto(pages["none"].as_uri())
    assert tab.locator("h1 .inconclusive").text_content() == "No plan" and tab.locator(".ways").count() == 0
    assert tab.locator("h2").text_content() == "Left out"


def test_a_comparison_is_searched(tab: Any, pages: dict[str, Path]) -> None:
    tab.goto(pages["compare"].as_uri())
    first = [cell.text_content() for cell in tab.locator(".sides").first.locator("tr").nth(1).locator("th, td").all()]
    assert first[1:] != ["", ""] and first[0] in tab.locator("main").text_content()
    tab.fill("#search", "torch.cuda")
    shown = [row for row in tab.locator("#facts tbody tr").all() if row.is_visible()]
    assert [[cell.text_content() for cell in row.locator("th, td").all()] for row in shown] == [["torch.cuda", "13.0", "13.2"]]
    assert tab.locator("#facts thead tr").is_visible()
    tab.goto(pages["same"].as_uri())
    assert tab.locator("h1").text_content().endswith("the same facts, the same verdicts") and tab.locator("table, script").count() == 0


def test_a_notebook_shows_the_page_in_a_frame(tab: Any) -> None:
    """Its search works there, it reaches nothing of the notebook, and a link opens beside it."""
    tab.set_content("<body>a notebook</body>")
    shown = Report(driver_old())._repr_html_()
    tab.evaluate("(frame) => document.body.insertAdjacentHTML('beforeend', frame)", shown)
    frame = tab.frame_locator("iframe[title='envcheck report']")
    frame.locator("#search").fill("driver.version")
    assert frame.locator("#found").text_content().startswith("1 / ")
    inner = tab.frames[1]
    assert inner.evaluate("(() => { try { return parent.document.title } catch (error) { return error.name } })()") == "SecurityError"
    assert inner.evaluate("document.querySelector('a[href]').target || document.querySelector('base').target") == "_blank"
    plan = envcheck.plan("torch==2.9.*", for_="h100", driver="570.124", python="3.12")
    tab.evaluate("(frame) => document.body.insertAdjacentHTML('beforeend', frame)", plan._repr_html_())
    assert tab.frame_locator("iframe[title='envcheck plan']").locator(".ways > li").count() >= 1
