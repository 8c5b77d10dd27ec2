"""envcheck from Python: the checks, reports and exit codes of the command line, for notebooks and programs.

What is examined is the interpreter that calls, in processes of its own: torch is not imported here, and a CUDA that is already
initialised here is neither used nor disturbed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import argparse

    from envcheck.commands.plan import Planned
    from envcheck.render.text import PageOptions
    from envcheck.report.report import Report as JudgedReport

Text = str | PathLike[str]


class Report:
    """What a check or a diagnosis found. Its values are those of the JSON report, version 1 (`envcheck schema`)."""

    def __init__(self, report: JudgedReport) -> None:
        self._report = report
        from envcheck.render.json_v1 import document

        self._document = document(report)

    @property
    def ok(self) -> bool:
        """Whether nothing stands in the way of training: `exit_code` is 0. What could not be told is not ok."""
        return self._report.exit_code == 0

    @property
    def verdict(self) -> Literal["pass", "fail", "inconclusive"]:
        return self._report.verdict

    @property
    def exit_code(self) -> int:
        """0 will train, 1 will not, 3 cannot tell: as the command would have ended."""
        return self._report.exit_code

    @property
    def findings(self) -> Sequence[Mapping[str, Any]]:
        """The findings, cause first: `rule`, `severity`, `confidence`, `title`, `message`, `evidence`, `fixes`, …"""
        found: Sequence[Mapping[str, Any]] = self._document["findings"]
        return found

    @property
    def facts(self) -> Mapping[str, Any]:
        """What was found out about machine and environment, by section; a section that is missing says why."""
        facts: Mapping[str, Any] = self._document["facts"]
        return facts

    def to_json(self, *, redact: bool = False) -> str:
        """The report as `envcheck --json` prints it; `redact` leaves out names of users and hosts, folders and addresses."""
        return self._render("json", redact)

    def to_markdown(self, *, redact: bool = True) -> str:
        """The report for an issue."""
        return self._render("markdown", redact)

    def to_html(self, *, redact: bool = False) -> str:
        """The report as a page of its own."""
        return self._render("html", redact)

    def _render(self, form: str, redact: bool, options: PageOptions | None = None) -> str:
        from envcheck.commands.rendering import myself
        from envcheck.render import render

        return render(self._report, form, redact=redact, options=options, **myself())

    def _repr_html_(self) -> str:
        return _frame("envcheck report", self.to_html())

    def __str__(self) -> str:
        return self._render("text", False)

    def __repr__(self) -> str:
        from envcheck.render.wording import verdict_line

        return f"<envcheck.Report: {verdict_line(self._report)}>"


def _frame(title: str, page: str) -> str:
    """A frame, so that neither the notebook's style sheet nor the page's reaches into the other.

    The page's one script may run, in an origin of its own: it reaches nothing of the notebook. Links open beside the notebook: what they
    lead to refuses to be shown in a frame.
    """
    from html import escape

    inner = escape(page.replace("<head>", '<head><base target="_blank">', 1), quote=True)
    sandbox = "allow-scripts allow-popups allow-popups-to-escape-sandbox"
    return f'<iframe title="{title}" srcdoc="{inner}" sandbox="{sandbox}" style="width:100%;height:32em;border:0"></iframe>'


class Plan:
    """What to install on a machine. Its values are those of `envcheck plan --json`."""

    def __init__(self, planned: Planned) -> None:
        self._planned = planned
        self._document = planned.document()

    @property
    def ok(self) -> bool:
        """Whether there is a way to a torch that trains on that machine."""
        return self._planned.stands

    @property
    def exit_code(self) -> int:
        """0 with a way, 3 without: as the command would have ended."""
        return 0 if self.ok else 3

    @property
    def ways(self) -> Sequence[Mapping[str, Any]]:
        """The ways, best first: `title`, `commands` by tool, `changes`, `grade`, `note`, …"""
        ways: Sequence[Mapping[str, Any]] = self._document["plan"]["ways"]
        return ways

    @property
    def excluded(self) -> Sequence[Mapping[str, str]]:
        """What was thrown out, and why: `what`, `why`."""
        excluded: Sequence[Mapping[str, str]] = self._document["plan"]["excluded"]
        return excluded

    @property
    def asked(self) -> Sequence[Mapping[str, Any]]:
        """What becomes of each entry of the files of wishes: `file`, `line`, `text`, `verdict`, `new`, `why`."""
        asked: Sequence[Mapping[str, Any]] = self._document["plan"].get("asked", [])
        return asked

    @property
    def written(self) -> Mapping[str, str]:
        """Those files as they should be, by name."""
        written: Mapping[str, str] = self._document["plan"].get("written", {})
        return written

    @property
    def assumed(self) -> Sequence[str]:
        """What was assumed of a machine that is not here."""
        assumed: Sequence[str] = self._document["assumed"]
        return assumed

    def to_json(self) -> str:
        """The plan as `envcheck plan --json` prints it."""
        return self._planned.json()

    def to_html(self, *, redact: bool = False) -> str:
        """The plan as a page of its own; `redact` leaves out names of users and hosts, folders and addresses."""
        return (self._planned.redacted() if redact else self._planned).html()

    def _repr_html_(self) -> str:
        return _frame("envcheck plan", self.to_html())

    def __str__(self) -> str:
        return self._planned.text()

    def __repr__(self) -> str:
        return f"<envcheck.Plan: {self.ways[0]['title'] if self.ways else 'nothing fits'}>"


def check(
    *,
    python: Text | None = None,
    static: bool = False,
    live: Literal["quick", "full", "off"] | None = None,
    nproc: int | Literal["all"] | None = None,
    backend: Literal["auto", "gloo", "nccl", "xccl", "mpi", "ucc"] | None = None,
    expect: Sequence[str] = (),
    assume: Sequence[str] = (),
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    facts: Text | None = None,
    evidence: Text | None = None,
    timeout: float | None = None,
    fail_on: Literal["error", "warning", "never"] | None = None,
    strict: bool = False,
    config: Text | None = None,
    profile: str | None = None,
) -> Report:
    """Examine this machine and the calling interpreter, or `python`, and judge it, as `envcheck check` does with the same flags.

    Seconds for `timeout`. None is what the configuration file says, else the default. Raises `envcheck.errors.UsageError` for what
    the command refuses with exit code 2.
    """
    from envcheck.commands.check import examine_and_judge, session_of

    given = {
        "python": python, "live": live, "nproc": nproc, "backend": backend, "facts": facts, "evidence": evidence, "timeout": timeout,
        "fail-on": fail_on, "config": config, "profile": profile, "expect": expect, "assume": assume, "select": select, "ignore": ignore,
        "static": static, "strict": strict,
    }  # fmt: skip
    args = _parsed("check", given)
    return Report(examine_and_judge(args, session_of(args)))


def diagnose(*texts: Text, facts: Text | None = None, config: Text | None = None, profile: str | None = None) -> Report:
    """Name the cause behind logs, tracebacks and reports of any machine, as `envcheck diagnose` does.

    A str is the text itself, a path the file (or folder) that holds it. `facts` is a recorded snapshot or observations. Raises
    `envcheck.errors.UsageError` for a file that cannot be read.
    """
    from envcheck.commands.configuration import rule_session
    from envcheck.commands.diagnose import Given
    from envcheck.commands.diagnose import diagnose as judged
    from envcheck.commands.inputs import named

    by = rule_session(_parsed("diagnose", {"config": config, "profile": profile}))
    given = Given(by)
    if facts is not None:
        given.take_facts(fspath(facts))
    for number, text in enumerate(texts, 1):
        if isinstance(text, str):
            given.take_raw(text, "text" if len(texts) == 1 else f"text {number}")
            continue
        files, refused = named([fspath(text)])
        for name, label in files.items():
            given.take_file(name, label)
        given.refused.update(refused)
    return Report(judged(given, tool="auto", index_base=None)[0])


def plan(
    *wishes: str,
    for_: str | Sequence[str] = (),
    driver: str | None = None,
    python: Text | None = None,
    os: str | None = None,
    machine: str | None = None,
    glibc: str | None = None,
    macos: str | None = None,
    requirements: Text | Sequence[Text] = (),
    constraints: Text | Sequence[Text] = (),
    facts: Text | None = None,
    assume: Sequence[str] = (),
    tool: Literal["auto", "pip", "uv", "conda"] | None = None,
    index_base: str | None = None,
    static: bool = False,
    timeout: float | None = None,
    config: Text | None = None,
    profile: str | None = None,
) -> Plan:
    """What to install here, or on a machine that is not here, as `envcheck plan` finds it with the same flags.

    `for_` is `--for` (for is a word of Python): `envcheck.plan("torch==2.9.*", for_="h100", driver="570.124", python="3.12")`.
    Nothing is installed or tried. Raises `envcheck.errors.UsageError` for what the command refuses with exit code 2.
    """
    from envcheck.commands.plan import planned

    given = {
        "for": _several(for_), "driver": driver, "python": python, "os": os, "machine": machine, "glibc": glibc, "macos": macos,
        "requirement": _several(requirements), "constraint": _several(constraints), "facts": facts, "assume": assume, "tool": tool,
        "index-base": index_base, "static": static, "timeout": timeout, "config": config, "profile": profile,
    }  # fmt: skip
    return Plan(planned(_parsed("plan", given, wishes)))


def _several(one_or_more: Text | Sequence[Text]) -> Sequence[Text]:
    return (one_or_more,) if isinstance(one_or_more, str | PathLike) else one_or_more


def _parsed(command: str, given: Mapping[str, Any], words_of_it: Sequence[str] = ()) -> argparse.Namespace:
    """The flags as the command line has them: one reading of flags and configuration for both."""
    from envcheck.options import parse

    words = [command] if command != "check" else []
    for name, value in given.items():
        if value is True:
            words.append(f"--{name}")
        elif isinstance(value, list | tuple):
            words += [f"--{name}={_word(one)}" for one in value]
        elif value is not None and value is not False:
            words.append(f"--{name}={_word(value)}")
    return parse([*words, *(["--", *words_of_it] if words_of_it else [])])


def _word(value: object) -> object:
    return fspath(value) if isinstance(value, PathLike) else value
