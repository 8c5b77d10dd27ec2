"""Reports of envcheck in what somebody gives us to read: taken out whole, so that no other reader sees their prose as a machine's words."""

from __future__ import annotations

from collections.abc import Collection

from envcheck.read.own_report import OwnReport
from envcheck.read.own_words import in_english


def take_documents(raw: str, rules: Collection[str]) -> tuple[str, list[OwnReport]]:
    """JSON, HTML, JUnit and Markdown (its source or what a page shows of it), whose fold is JSON, out of text as it stands in the file;
    `rules` are the ids that are known."""
    found: list[OwnReport] = []
    raw = in_english(raw)
    if '"schema"' in raw:
        from envcheck.read.own_json import take_json

        raw, more = take_json(raw)
        found += more
    if "<h1" in raw or "<testsuite" in raw:
        from envcheck.read.own_markup import take_markup

        raw, more = take_markup(raw, rules)
        found += more
    if "### envcheck " in raw:
        from envcheck.read.own_markdown import take_markdown

        raw, more = take_markdown(raw, rules)
        found += more
    if "envcheck " in raw:
        from envcheck.read.own_rendered import take_rendered

        raw, more = take_rendered(raw, rules)
        found += more
    return raw, found


def take_pages(text: str, rules: Collection[str]) -> tuple[str, list[OwnReport]]:
    """Text, Markdown and annotations out of clean text."""
    found: list[OwnReport] = []
    text = in_english(text)
    if text.lstrip()[:4] == "for " or "fleet of " in text or text.rstrip()[-8:] in ("verdict", " verdict", "verdicts"):
        from envcheck.read.own_pages import take_pages as take_other_pages

        text, found = take_other_pages(text, rules)
    if "::" in text and " title=" in text:
        from envcheck.read.own_github import take_github

        text, more = take_github(text, rules)
        found += more
    if "### envcheck " in text or "#### " in text:
        from envcheck.read.own_markdown import take_markdown

        text, more = take_markdown(text, rules)
        found += more
    if "envcheck " in text or "error: " in text or "warning: " in text or "info: " in text:
        from envcheck.read.own_text import take_text

        text, more = take_text(text, rules)
        found += more
    return text, found
