"""The documentation's pages that are made, not written: `mkdocs build --strict`, `mkdocs serve` (mkdocs.yml names this file).

A page for each rule is `envcheck explain RULE` as Markdown. In the written pages a line `<!-- made: WHAT -->` stands for a table of
README.md, a file, the flags of a command or the keys of the JSON, so that nothing is written down twice.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envcheck.commands import COMMANDS
from envcheck.commands.configuration import rule_session
from envcheck.commands.page import TO_DO, page
from envcheck.commands.ways_out import ONE_OF
from envcheck.engine.rule import FAMILY_RANK
from envcheck.options import parse
from envcheck.render.wording import CHOOSE
from envcheck.report.titles import general_title

if TYPE_CHECKING:
    from envcheck.engine.rule import RuleText
    from envcheck.report.session import RuleSession

ROOT = Path(__file__).parents[1]
_MADE = re.compile(r"^<!-- made: (\w+) ?(.*?) -->$", re.MULTILINE)
_WAY = re.compile(r"    (-|\d{1,2}\.) ")
_MARKS = re.compile(r"([\\*_\[\]#|~])")
_LANGUAGE = {".sh": "sh", ".toml": "toml", ".yaml": "yaml", ".yml": "yaml", ".py": "python", ".ini": "ini"}


def on_files(files: Any, config: Any) -> Any:
    """MkDocs asks which files there are: those of docs/, and a page for each rule."""
    from mkdocs.structure.files import File

    for name, text in rule_pages().items():
        files.append(File.generated(config, f"rules/{name}.md", content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """MkDocs is about to render a page: what is made takes its place in it."""
    return _MADE.sub(lambda found: made(found[1], found[2]), markdown)


@lru_cache(maxsize=1)
def rule_pages() -> dict[str, str]:
    """Name → Markdown of the pages of the rules, the list of them included."""
    by = _session()
    rows = sorted(map(by.texts.read, by.texts.ids), key=lambda row: (FAMILY_RANK[row.family], row.family, row.id))
    caused = {row.id: [other.id for other in rows if row.id in other.explains] for row in rows}
    return {"index": "\n".join(_index(rows)), **{row.id: rule_page(row, by, caused[row.id]) for row in rows}}


@lru_cache(maxsize=1)
def _session() -> RuleSession:
    return rule_session(parse(["rules", "--config", str(ROOT / "pyproject.toml")]))


def _index(rows: Iterable[RuleText]) -> Iterator[str]:
    yield from ("# All rules", "", "`envcheck explain RULE` prints each of these pages offline; `envcheck rules --json` has all of them.")
    family = ""
    for row in rows:
        if row.family != family:
            family = row.family
            yield from ("", f"## {family}", "", "| rule | severity | what it says |", "| --- | --- | --- |")
        yield f"| [{row.id}]({row.id}.md) | {row.severity.value} | {prose(general_title(row.title))} |"


def rule_page(row: RuleText, by: RuleSession, caused_by: list[str]) -> str:
    """The page of `envcheck explain` as Markdown, with links between the rules."""
    head, *blocks = page(row.id, by).rstrip("\n").split("\n\n")
    title = general_title(row.title)
    about = " ".join(head.split()).removeprefix(f"{row.id} {' '.join(title.split())}").strip()
    lines = [f"# {prose(title)}", "", f"`{row.id}`: {prose(about)}", ""]
    for block in blocks:
        first, _, rest = block.partition("\n")
        match first:
            case _ if first == TO_DO:
                yours, *cases = rest.split("\n")
                told = f"{prose(yours)} Of the lines of a way all are run, in order."
                lines += ["## What it reports, and what to do", "", told, "", *_listed(cases)]
            case "More" | "Words":
                lines += [f"## {first}", "", *_listed(rest.split("\n"))]
            case "Leads to":
                lines += ["## Leads to", "", *(f"- [{one}]({one}.md)" for one in row.explains), ""]
            case "Sources":
                lines += ["## Sources", "", *(f"- <{one}>" for one in row.docs), ""]
            case _:
                lines += [_paragraph(block), ""]
    if caused_by:
        lines += ["## May come from", "", *(f"- [{one}]({one}.md)" for one in caused_by)]
    return "\n".join(lines) + "\n"


def _paragraph(block: str) -> str:
    """Text, or lines that are indented because they are code or a list."""
    if any(line.startswith((" ", "$ ")) for line in block.split("\n")):
        return f"```text\n{block}\n```"
    return prose(block)


def _listed(lines: Iterable[str]) -> list[str]:
    """The two levels of a page's list, and the commands below them: messages at "  * " or "  - ", further ones of the same answer at
    "    or: ", ways out at "    - ", or at "    1. " below the line that says that one of them is enough.
    """
    found: list[str] = []
    fence, said = False, ""

    def close() -> None:
        nonlocal fence, said
        found.extend(["        ```", ""] if fence else [])
        found.extend([said, ""] if said else [])
        fence, said = False, ""

    for line in lines:
        if line.startswith(("  * ", "  - ")):
            close()
            said = f"- {prose(line[4:])}"
        elif way := _WAY.match(line):
            close()
            said = f"    {way[1]} {prose(line[way.end() :])}"
        elif line == f"      {CHOOSE}:":
            said += f" {CHOOSE[0].upper()}{CHOOSE[1:]}:"
        elif line.startswith("    or: ") or line == f"    {ONE_OF}":
            close()
            said = f"    {prose(line[4:])}"
        elif line.startswith("        "):
            if not fence:
                close()
                found.append("        ```sh")
                fence = True
            found.append(line)
        else:
            said += f" {prose(line.strip())}"
    close()
    return found


def prose(text: str) -> str:
    """Plain text as Markdown; `words between ticks` stay code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return _escaped(text.replace("`", "'"))
    return "".join(f"`{part}`" if number % 2 else _escaped(part) for number, part in enumerate(parts))


def _escaped(text: str) -> str:
    return _MARKS.sub(r"\\\1", text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def made(what: str, of: str) -> str:
    """What stands in the place of one line of a written page."""
    match what:
        case "readme":
            return _readme_table(of)
        case "file":
            return f"```{_LANGUAGE.get(Path(of).suffix, 'text')}\n{(ROOT / of).read_text(encoding='utf-8').rstrip()}\n```"
        case "flags":
            return "\n\n".join(f"## envcheck {name}\n\n```text\n{_help(name).rstrip()}\n```" for name in COMMANDS)
        case "schema":
            return _schema()
        case "passage":
            return _readme_passage(*of.split(" ... "))
    raise ValueError(f"{what!r} cannot be made: readme, passage, file, flags or schema")


def _readme_table(start: str) -> str:
    """The table of README.md whose head starts so."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").split("\n")
    at = next((number for number, line in enumerate(lines) if line.startswith(f"| {start} |")), None)
    if at is None:
        raise ValueError(f"README.md has no table whose head starts with {start!r}")
    end = next(number for number in range(at, len(lines) + 1) if number == len(lines) or not lines[number].startswith("|"))
    return "\n".join(lines[at:end]).replace("](envcheck/schema/report-v1.json)", "](formats.md)")


def _readme_passage(start: str, end: str) -> str:
    """README.md from the line that starts so up to the one before that which starts so; its links are to files of the repository."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").split("\n")
    first = next((at for at, line in enumerate(lines) if line.startswith(start)), None)
    last = next((at for at, line in enumerate(lines) if first is not None and at > first and line.startswith(end)), None)
    if first is None or last is None:
        raise ValueError(f"README.md has no passage from {start!r} to {end!r}")
    return re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]+\)", r"`\1`", "\n".join(lines[first:last]).strip())


def _help(command: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        parse([command, "--help"])
    return out.getvalue()


def _schema() -> str:
    schema = json.loads((ROOT / "envcheck" / "schema" / "report-v1.json").read_text(encoding="utf-8"))
    rows = [f"| `{name}` | {_kind(value, schema)} |" for name, value in schema["properties"].items()]
    return "\n".join(["| key | what it holds |", "| --- | --- |", *rows])


def _kind(value: dict[str, Any], schema: dict[str, Any]) -> str:
    if "description" in value:
        return prose(value["description"])
    if "$ref" in value:
        return _kind(schema["$defs"][value["$ref"].rpartition("/")[2]], schema)
    if "const" in value or "enum" in value:
        return ", ".join(f"`{json.dumps(one)}`" for one in value.get("enum", [value.get("const")]))
    return ", ".join(f"`{name}`" for name in value.get("properties", {})) or str(value.get("type", ""))
