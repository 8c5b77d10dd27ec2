from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest
from report_samples import SAMPLES, driver_old, finding, hostile, machine, mixed

from envcheck.engine.rule import Severity
from envcheck.facts.record import replace
from envcheck.render import github, html, junit, markdown, render
from envcheck.report.report import Reported, finish

Golden = Callable[[str, str], None]
SHOWN = ["cpu", "driver-old", "mixed", "hostile"]


def without_facts(text: str) -> str:
    """The facts are those of the JSON report, and would make the golden files change with every new fact; so would a style."""
    text = re.sub(r"(?s)(<details id='facts'>).*?</details>", r"\1", text)
    text = re.sub(r"(?s)<style>.*?</style>|<script>.*?</script>|sha256-[\w+/=]{44}", "", text)
    text = re.sub(r"(?s)(<details class='why'>.*?)</details>", r"\1", text)
    return re.sub(r"<details>.*</details>", "<details>facts</details>", text, flags=re.DOTALL)


@pytest.mark.parametrize("name", SHOWN)
def test_markdown_golden(name: str, golden: Golden) -> None:
    golden(f"markdown/{name}.md", without_facts(render(SAMPLES[name](), "markdown")))


@pytest.mark.parametrize("name", SHOWN)
def test_junit_golden(name: str, golden: Golden) -> None:
    golden(f"junit/{name}.xml", junit.render(SAMPLES[name]()))


@pytest.mark.parametrize("name", SHOWN)
def test_github_golden(name: str, golden: Golden) -> None:
    golden(f"github/{name}.txt", github.render(SAMPLES[name]()))


@pytest.mark.parametrize("name", ["driver-old", "hostile"])
def test_html_golden(name: str, golden: Golden) -> None:
    golden(f"html/{name}.html", without_facts(html.render(SAMPLES[name]())))


@pytest.mark.parametrize("name", SAMPLES)
def test_markdown_holds_facts_in_a_fold(name: str) -> None:
    shown = render(SAMPLES[name](), "markdown")
    assert shown.count("<details>") == shown.count("</details>") == 1
    assert shown.startswith("### envcheck ")
    shown.encode("utf-8")


def test_markdown_leaves_no_markup_of_the_machine() -> None:
    shown = without_facts(render(hostile(), "markdown"))
    prose = re.sub(r"(?s)````.*?````|`[a-z-]+`", "", shown)  # code, inline and in blocks: the hostile text holds three ticks
    assert "<b>" not in prose and "[red]" not in prose.replace("\\[red\\]", "")
    assert "\x1b" not in shown and "\u202e" not in shown and "\x00" not in shown
    # a table cell holds no bare bar
    for line in shown.splitlines():
        if line.startswith("|") and "GPU |" in line:
            assert len(re.findall(r"(?<!\\)\|", line)) == 4


def test_markdown_does_not_mention_anybody() -> None:
    one = Reported(finding("driver-too-old", message="see @someone and #12, GH-7, https://h.example, www.h.example"))
    shown = render(finish((one,), (), machine("cpu")), "markdown")
    assert "@someone" not in shown and "\\#\u200b12, GH-\u200b7, https:\\//h.example, www\\.h.example" in shown


def test_code_fences_hold_fences() -> None:
    assert markdown.fenced("```\nx") == "````\n```\nx\n````"
    assert markdown.code("a`b") == "``a`b``" and markdown.code("`a") == "`` `a ``" and markdown.code("") == ""


@pytest.mark.parametrize("name", SAMPLES)
def test_junit_is_xml_and_counts_right(name: str) -> None:
    report = SAMPLES[name]()
    root = ElementTree.fromstring(junit.render(report))  # noqa: S314
    cases = root.findall(".//testcase")
    assert len(cases) == int(root.attrib["tests"])
    assert len(root.findall(".//failure")) == int(root.attrib["failures"]) == sum(int(suite.attrib["failures"]) for suite in root)
    assert len(root.findall(".//skipped")) == sum(int(suite.attrib["skipped"]) for suite in root)
    assert (int(root.attrib["failures"]) > 0) == (report.verdict == "fail")
    assert len({(case.attrib["classname"], case.attrib["name"]) for case in cases}) == len(cases)


def test_junit_fails_only_what_fails_the_run() -> None:
    warning = Reported(finding("shm-small", "limits", Severity.WARNING))
    assert "<failure" not in junit.render(finish((warning,), (), machine("cpu")))
    assert "<failure" in junit.render(finish((warning,), (), machine("cpu"), fail_on="warning"))
    failures = ElementTree.fromstring(junit.render(mixed())).findall(".//failure")  # noqa: S314
    assert [one.attrib["type"] for one in failures] == ["certain error"]


def unescaped(line: str) -> tuple[str, str, str]:
    """What a runner makes of an annotation: https://github.com/actions/runner, ActionCommand.cs."""
    found = re.fullmatch(r"::(\w+) title=([^:,]*)::(.*)", line)
    assert found, line
    return found[1], unquote(found[2]), unquote(found[3])


@pytest.mark.parametrize("name", SAMPLES)
def test_github_lines_are_annotations(name: str) -> None:
    report = SAMPLES[name]()
    lines = github.render(report).splitlines()
    assert len(lines) >= len(report.findings) + 1
    rows = [unescaped(line) for line in lines]
    assert rows[-1][1] == "envcheck"
    assert ("error" in {row[0] for row in rows}) == (report.verdict == "fail")


def test_github_text_comes_through() -> None:
    word, title, text = unescaped(github.render(driver_old()).splitlines()[0])
    assert (word, title) == ("error", "driver-too-old: The NVIDIA driver is older than this torch build needs")
    assert "535.183.01" in text and "\n  sudo reboot" in text


class Page(HTMLParser):
    """Collects what a page would load or run, and whether its tags are balanced."""

    VOID = frozenset({"meta", "br", "input"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.tags: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        for key, value in attrs:
            assert key != "src" and not key.startswith("on")
            if key == "href":
                self.links.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.mark.parametrize("name", SAMPLES)
def test_html_is_balanced_and_loads_nothing(name: str) -> None:
    page, text = Page(), html.render(SAMPLES[name]())
    page.feed(text)
    page.close()
    assert page.open == []
    assert page.tags.isdisjoint({"img", "link", "iframe", "b"})
    assert all(link.startswith("https://") for link in page.links)
    assert text.count("<script") == 1 and f"<script>{html.SCRIPT}</script>" in text  # and the page's policy has its hash
    assert "'unsafe-inline'" not in text.partition("script-src")[2].partition('"')[0]


def test_html_shows_hostile_text_as_text() -> None:
    page = Page()
    page.feed(html.render(hostile()))
    assert any("<b>&amp;</b> ]]>" in word for word in page.words)
    assert "\x1b" not in "".join(page.words)


def test_secrets_stay_out_of_every_page() -> None:
    one = Reported(finding("torch-missing", "torch", message="index https://ann:pa55word@mirror.example/simple"))
    report = finish((one,), (), machine("cpu"))
    for renderer in (html, junit, github, markdown):
        assert "pa55word" not in renderer.render(report), renderer.__name__


def test_a_page_without_the_conda_line_says_nothing_of_it() -> None:
    short, whole = (render(SAMPLES["driver-old"](), "html", fix_suggest=asked) for asked in (False, True))
    note = "About 2.6 GB to download."
    assert note in whole and note not in short, "the planner's note goes with the lines of all tools, as in text"


def test_how_long_the_judging_of_a_recording_took_is_no_picture() -> None:
    report = SAMPLES["cpu"]()
    assert "What took longest" in render(replace(report, timings={"agent.import": 2.5, "judge": 0.3, "total": 3.0}), "html")
    assert "What took longest" not in render(replace(report, timings={"judge": 0.3, "total": 0.5}), "html")


def test_words_between_ticks_are_code() -> None:
    report = SAMPLES["driver-old"]()
    [one] = report.findings
    page = render(replace(report, findings=(replace(one, why="Ask `nvidia-smi <x>`, or a `tick."),)), "markdown")
    assert "Ask \\`nvidia-smi &lt;x&gt;\\`, or a \\`tick." in page, "one without its fellow is a character"
    page = render(replace(report, findings=(replace(one, why="Ask `nvidia-smi <x>`, then @you."),)), "markdown")
    assert "Ask `nvidia-smi <x>`, then @\u200byou." in page
