"""The HTML report in a real Chromium: who reads it may have a narrow screen, a dark one, a screen reader, a printer or no mouse."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from report_samples import SAMPLES, finding, machine

from envcheck.render import html, render
from envcheck.report.report import Report, Reported, finish

pytestmark = pytest.mark.browser

TOPOLOGY = """\
        GPU0    GPU1    GPU2    NIC0    CPU Affinity    NUMA Affinity
GPU0     X      NV18    SYS     PIX     0-51            0
GPU1    NV18     X      SYS     NODE    0-51            0
GPU2    SYS     SYS      X      SYS     52-103          1
NIC0    PIX     NODE    SYS      X"""
WIRE = {
    "backend": "nccl", "device": "cuda", "world_size": 8, "flat": True, "host": [{"device": 0, "to_device_gb_s": 52.1}],
    "points": [{"size_bytes": 65536 * 4**step, "seconds": 0.001, "algbw_gb_s": 2.0**step, "busbw_gb_s": 2.0**step} for step in range(8)],
    "peers": [{"source": a, "target": b, "gb_s": 40.0 if a == 3 else 380.0} for a in range(8) for b in range(8) if a != b],
}  # fmt: skip
SCRIPTING = "</script><script>window.struck = 1</script><img src=x onerror='window.struck = 1'><svg onload='window.struck = 1'>"


def wired() -> Report:
    return finish((), (), machine("h100x8", {"live.wire": WIRE, "gpus.topology": TOPOLOGY}), timings={"import": 3.25, "total": 9.5})


def crowded() -> Report:
    """Sixteen GPUs and sixteen network cards: the widest matrix there is."""
    names = [f"{kind}{at}" for kind in ("GPU", "NIC") for at in range(16)]
    rows = [f"{one} {' '.join('X' if one == other else 'NV18' for other in names)}" for one in names]
    return finish((), (), machine("h100x8", {"gpus.topology": "\n".join(["  " + " ".join(names), *rows])}))


def scripting() -> Report:
    """Every text is a script that would leave a trace."""
    changes = {"driver.version": SCRIPTING, "torch.version": SCRIPTING, "gpus.topology": f"{TOPOLOGY}\nGPU3 {SCRIPTING}"}
    one = Reported(finding("driver-too-old", title=SCRIPTING, message=f"`{SCRIPTING}`"), (), SCRIPTING)
    return finish((one,), (), machine("h100x8", {**changes, "live.wire": WIRE, "network.variables.NCCL_X": SCRIPTING}))


def ran(folder: Path, *argv: str, text: str = "") -> Path:
    """The page of a real run."""
    page = folder / "page.html"
    command = [sys.executable, "-m", "envcheck", *argv, "-o", f"html={page}"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=300, cwd=folder)
    assert done.returncode in (0, 3), done.stderr  # what is only likely decides nothing
    return page


LOG = "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
PAGES = (*SAMPLES, "wired", "crowded", "scripting", "live full", "diagnose")


class _Pages(dict[str, Path]):
    """Each page is made when the first test asks for it: that of a real run takes half a minute."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def __missing__(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        if name == "live full":
            self[name] = ran(folder, "--live", "full")
        elif name == "diagnose":
            self[name] = ran(folder, "diagnose", "-", text=LOG)
        else:
            sample = {**SAMPLES, "wired": wired, "crowded": crowded, "scripting": scripting}[name]
            self[name] = folder / "page.html"
            self[name].write_text(render(sample(), "html"), encoding="utf-8")
        return self[name]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> _Pages:
    return _Pages(tmp_path_factory.mktemp("pages"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_and_nothing_scrolls_sideways(
    shade_of_a_sound_page: Callable[[Path, str], str], pages: dict[str, Path], name: str, scheme: str
) -> None:
    shade = shade_of_a_sound_page(pages[name], scheme)
    assert shade == {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}[scheme]


def test_axe_would_have_found_something(browser: Any, axe: str) -> None:
    tab = browser.new_page(bypass_csp=True)
    tab.set_content(html.render(SAMPLES["driver-old"]()).replace("--ink: #1f2328", "--ink: #ddd"))
    tab.evaluate(axe)
    assert "color-contrast" in {one["id"] for one in tab.evaluate("axe.run()")["violations"]}
    tab.close()


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_fetched_and_nothing_of_the_facts_runs(tab: Any, pages: dict[str, Path], name: str) -> None:
    asked, said = [], []
    tab.on("request", lambda request: asked.append(request.url))
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.goto(pages[name].as_uri())
    tab.fill("#search", "driver")
    assert asked == [pages[name].as_uri()]
    assert said == []
    assert tab.evaluate("window.struck") is None
    assert tab.evaluate("document.scripts.length") == 1
    assert tab.locator("img, iframe, link, object, embed, form").count() == 0


def test_the_policy_stops_a_script_that_got_in(tab: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(render(SAMPLES["cpu"](), "html").replace("<main>", f"<main>{SCRIPTING}"), encoding="utf-8")
    tab.goto(page.as_uri())
    assert tab.evaluate("document.scripts.length") == 2
    assert tab.evaluate("window.struck") is None
    assert tab.locator(".search").is_visible(), "and the page's own one ran"


@pytest.mark.parametrize("name", PAGES)
def test_what_to_do_stands_above_the_reasons(tab: Any, pages: dict[str, Path], name: str) -> None:
    tab.goto(pages[name].as_uri())
    for section in tab.locator("section.finding:has(ol)").all():
        fix = section.locator("ol").first.bounding_box()["y"]
        for prose in section.locator("> ul, > .why").all():
            assert fix < prose.bounding_box()["y"]


def test_pictures_are_there_where_the_facts_are(tab: Any, pages: dict[str, Path]) -> None:
    tab.goto(pages["wired"].as_uri())
    assert tab.locator(".stack tr").count() == 7
    assert tab.locator("svg polyline").count() == 1 and tab.locator("svg circle").count() == 8
    assert tab.locator("svg rect").count() == 16, "two ranks of eight stages"
    speeds, links = tab.locator(".grid").all()
    assert speeds.locator("tr").nth(4).locator("td").all_text_contents() == ["40", "40", "40", "", "40", "40", "40", "40"]
    assert speeds.locator(".speed3").count() == 49 and speeds.locator(".speed0").count() == 7
    assert links.locator("tr").nth(1).locator("td").all_text_contents() == ["X", "NV18", "SYS", "PIX"]
    assert links.locator(".link-nv").count() == 2 and links.locator("tr").count() == 5
    assert tab.locator(".bars tr").nth(1).text_content() == "import3.25"
    tab.goto(pages["no-torch"].as_uri())
    assert tab.locator("svg, .grid, .bars").count() == 0


def test_nvlinks_are_a_picture_without_nvidia_smi(tab: Any, tmp_path: Path) -> None:
    changes = {"gpus.devices.0.nvlink_peers": {"00000000:02:00.0": 4, "switch": 2}, "gpus.devices.1.nvlink_peers": {"00000000:01:00.0": 4}}
    page = tmp_path / "page.html"
    page.write_text(render(finish((), (), machine("h100x8", changes)), "html"), encoding="utf-8")
    tab.goto(page.as_uri())
    rows = tab.locator(".grid tr")
    assert rows.nth(1).text_content() == "GPU0XNV4------NV2" and rows.nth(2).text_content() == "GPU1NV4X-------"


def test_a_rank_that_hangs_is_seen(tab: Any, pages: dict[str, Path]) -> None:
    tab.goto(pages["mixed"].as_uri())
    hurt = tab.locator("svg .hurt")
    assert hurt.count() == 1 and hurt.bounding_box()["width"] == pytest.approx(70)
    assert "rank 0: all_reduce hang" in tab.locator("svg").first.get_attribute("aria-label")


def test_facts_are_found_by_keyboard_alone(tab: Any, pages: dict[str, Path]) -> None:
    tab.goto(pages["h100x8"].as_uri())
    for _ in range(30):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.id") == "search":
            break
    tab.keyboard.type("gpus name H100")
    shown = [row.text_content() for row in tab.locator("#facts tr").all() if row.is_visible()]
    assert shown == [f"gpus.devices.{at}.nameNVIDIA H100 80GB HBM3" for at in range(8)]
    assert tab.locator("#found").text_content() == f"8 / {tab.locator('#facts tr').count()}"
    for _ in "gpus name H100":
        tab.keyboard.press("Backspace")
    assert tab.locator("#facts tr:visible").count() == tab.locator("#facts tr").count() > 100


@pytest.mark.parametrize("name", PAGES)
def test_paper_holds_all_of_it(tab: Any, pages: dict[str, Path], name: str) -> None:
    """On A4 less its margins, light whatever the screen is, nothing is wider than the sheet or left in a box that scrolls."""
    tab.set_viewport_size({"width": 718, "height": 1000})
    tab.emulate_media(media="print", color_scheme="dark")
    tab.goto(pages[name].as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth") <= 718
    cut = "[...document.querySelectorAll('pre, .wide, table')].filter(e => e.offsetParent && e.scrollWidth > e.clientWidth + 1).length"
    assert tab.evaluate(cut) == 0
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not tab.locator(".search").is_visible()
    for why in tab.locator(".why p").all():
        assert why.is_visible(), "a fold that is shut on paper cannot be opened"


def test_a_page_prints(tab: Any, pages: dict[str, Path]) -> None:
    tab.goto(pages["wired"].as_uri())
    sheets = tab.pdf(format="A4")
    assert sheets.startswith(b"%PDF-") and 1 <= sheets.count(b"/Type /Page\n") <= 3, "the folded facts are not printed"
