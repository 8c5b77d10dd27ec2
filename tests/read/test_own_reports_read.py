"""The recognisers of our own reports: no text makes them raise, and none takes them long."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from patients import SOON

from envcheck.read import own_json, own_report
from envcheck.read.own_reports import take_documents, take_pages

RULES = ("driver-too-old", "shm-small")
SHREDS = (
    "envcheck 0.1.0", "\ntarget  /venv", "\n", "✗ error: ", "! possible warning: ", "[driver-too-old]", " [", "  fix       one of these:",
    "            1. x", "  evidence  a: b", "Not ready: 1 error", "### envcheck 0.1.0: Ready to train", "#### error: x (`shm-small`)",
    "- a: `b`", "What to do:", "1. x", "   ```sh", "   ```", "<details>", "</details>", "::error title=driver-too-old%3A x::y%0Afix: z",
    "::notice title=envcheck::No problem found", "<h1>envcheck 0.1.0: <span class='fail'>x</span></h1>", "<section class='finding error'>",
    "<h2><span>error</span>: x <code>shm-small</code></h2>", "<p>", "</p>", "<ol><li>", "<pre><code>", "</section>", "</html>",
    "<testsuites name='envcheck'>", "<testsuite name='envcheck.limits'>", "<testcase classname='envcheck.limits' name='shm-small'>",
    "<failure type='certain error'>", "</failure>", "</testcase>", "</testsuite>", '{"schema": 1, "tool": {"name": "envcheck"}, ',
    '"findings": [', '{"rule": "shm-small", "severity": "error"}', "]", '"verdict": "fail"', "}", "> ", "    ", "\r", "&lt;!ENTITY a", "%",
    "for gpu = none\n\n", "Left out:", "the same facts, the same verdicts",
    "envcheck 0.1.0, fleet of 2 hosts: n[1-2]\nNot ready: 1 error\n", "✗ n1: it fails [driver-too-old]\n",
    "<testsuite name='envcheck.fleet'>", "<testcase classname='envcheck.fleet' name='n1'>",
    "<h1>envcheck 0.1.0, plan: <span class='pass'>2 ways</span></h1>", '"plan": {"ways": []}', '"facts": [], "rules": []',
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(SHREDS), st.text(max_size=20)), max_size=40))
def test_no_text_makes_them_raise(parts: list[str]) -> None:
    text = "".join(parts)
    rest, documents = take_documents(text, RULES)
    left, pages = take_pages(rest, RULES)
    assert left.count("\n") == text.count("\n"), "line numbers stay"
    assert documents or pages or left == text


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(("rule", "severity", "commands", "title", "pip")), inner),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(("findings", "facts", "live", "symptoms", "because", "ignored", "verdict", "exit_code")), VALUES))
def test_no_value_of_a_document_makes_them_raise(value: dict[str, object]) -> None:
    document = {"schema": 1, "tool": {"name": "envcheck", "version": 7}, **value}
    rest, found = own_json.take_json(json.dumps(document))
    assert (not rest.strip()) is bool(found)


@pytest.mark.parametrize(
    "text",
    [
        "✗ error: " * 40_000,
        "✗ error: x [driver-too-old]\n" * 20_000,
        "envcheck 0.1.0\ntarget  x\n" * 20_000,
        "### envcheck 0.1.0: Not ready: x\n" * 20_000,
        '{"schema": 1, "tool": {"name": "envcheck"' * 10_000,
        "<h1>envcheck 0.1.0: <span class='fail'>x</span>" * 10_000,
        "<testsuite name='envcheck.x'>" * 20_000,
        "::error title=driver-too-old%3A x::y\n" * 20_000,
        "[" * 200_000 + '"schema" "envcheck" {"schema": 1',
    ],
)
def test_a_hostile_text_takes_no_time(text: str) -> None:
    began = time.process_time()
    rest, _ = take_documents(text, RULES)
    _, found = take_pages(rest, RULES)
    assert time.process_time() - began < SOON  # quadratic, each would take minutes
    assert all(len(one.findings) <= own_report.MOST_FINDINGS for one in found)
