"""The documentation: each rule has its page, what is made is current, every link has its end, and nothing is loaded from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import site_hooks

from envcheck.commands.configuration import rule_session
from envcheck.commands.explain import SITE, address
from envcheck.options import parse

ROOT = Path(__file__).parents[2]
RULES = rule_session(parse(["rules"])).texts.ids


class _Links(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids.update(value for name in ("id", "name") if (value := given.get(name)))
        for name in ("href", "src"):
            if name in given:
                self.links.append(given[name])
                self.loaded += [given[name]] if tag in ("script", "link", "img", "iframe") else []


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material", reason="MkDocs Material is not installed: pip install -e '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_every_link_has_its_end(built: Path) -> None:
    pages = {path: _Links(path.read_text(encoding="utf-8")) for path in built.rglob("*.html")}
    assert len(pages) > 140
    broken = [
        f"{path.relative_to(built)}: {link}" for path, page in pages.items() for link in page.links if not _ends(path, link, pages, built)
    ]
    assert broken == []


def _ends(path: Path, link: str, pages: dict[Path, _Links], root: Path) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return parts.scheme in ("https", "http", "data")
    if parts.path.startswith("/"):  # of 404.html alone, which a server shows in any folder
        return path.name == "404.html" and root.joinpath(parts.path[1:]).exists()
    there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    there = there / "index.html" if there.is_dir() else there
    if not there.is_file():
        return False
    return not parts.fragment or there not in pages or unquote(parts.fragment) in pages[there].ids


def test_a_broken_link_is_seen(built: Path) -> None:
    page = built / "index.html"
    pages = {page: _Links("<a href='rules/'>x</a><b id='here'>")}
    assert _ends(page, "rules/driver-too-old/", pages, built) and _ends(page, "#here", pages, built)
    assert not _ends(page, "rules/driver-too-odd/", pages, built) and not _ends(page, "#there", pages, built)


def test_nothing_is_loaded_from_elsewhere(built: Path) -> None:
    loaded = {one for path in built.rglob("*.html") for one in _Links(path.read_text(encoding="utf-8")).loaded}
    assert loaded and not {one for one in loaded if urlsplit(one).netloc}


def test_explain_url_is_an_address_of_the_site(built: Path) -> None:
    by = rule_session(parse(["rules"]))
    for rule in RULES:
        assert (built / address(rule, by).removeprefix(SITE) / "index.html").is_file()


@pytest.mark.slow
def test_each_rule_has_its_page() -> None:
    pages = site_hooks.rule_pages()
    assert set(pages) == {"index", *RULES}
    assert set(re.findall(r"^\| \[([\w-]+)\]\(\1\.md\) \|", pages["index"], re.MULTILINE)) == set(RULES)
    text = pages["driver-too-old"]
    assert text.startswith("# The NVIDIA driver is older than this torch build needs\n\n`driver-too-old`: error, certain; family driver")
    assert "- [torch-cuda-unavailable](torch-cuda-unavailable.md)" in text
    assert "        sudo reboot    # once the new driver is in place\n        ```" in text
    assert "asks for CUDA &gt;=11" in text and "LD\\_LIBRARY\\_PATH" in text
    for name, page in pages.items():
        assert page.count("```") % 2 == 0, name


@pytest.mark.slow
def test_nothing_of_a_page_is_lost() -> None:
    """Every word of `envcheck explain` stands on the page, its headings apart."""
    from envcheck.commands.page import TO_DO, page

    by, pages = rule_session(parse(["rules"])), site_hooks.rule_pages()
    for rule in RULES:
        wanted = _words(page(rule, by))
        assert wanted - _words(pages[rule].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")) <= _words(TO_DO) | {
            "Reports",
            "reports",
        }, rule


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w{4,}", text.replace("\\_", "_")))


WRITTEN = [(path.name, path.read_text(encoding="utf-8")) for path in sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize(("name", "text"), WRITTEN)
def test_what_a_page_has_made_is_there(name: str, text: str) -> None:
    shown = site_hooks.on_page_markdown(text)
    assert "<!-- made" not in shown and len(shown) >= len(text)


def test_what_cannot_be_made_is_an_error() -> None:
    for line in ("readme no such table", "passage Nothing ... Else", "poem"):
        with pytest.raises(ValueError, match=r"README\.md|cannot be made"):
            site_hooks.on_page_markdown(f"<!-- made: {line} -->")


BLOCKS = [block for _, text in WRITTEN for block in re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]


@pytest.mark.parametrize("line", [line for block in BLOCKS for line in block.split("\n") if line.startswith("envcheck")])
def test_every_command_of_the_pages_is_understood(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shlex

    monkeypatch.chdir(tmp_path)
    parse(shlex.split(re.split(r" \| | +# ", line)[0])[1:])
