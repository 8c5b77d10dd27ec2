"""The picture of a report in README.md: `python tools/readme_picture.py --write`, or without to see whether it is current.

It is what `envcheck` prints about the machine of docs/old-driver.json, in its own colours. The words in it are the report's, so they can
be searched and read aloud; nothing is loaded from elsewhere.
"""

from __future__ import annotations

import io
import re
import sys
from html import unescape
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from envcheck.facts.recorded import load_snapshot
from envcheck.render.text import PageOptions, render
from envcheck.report.report import live_asked
from envcheck.report.session import report_on, rule_session

DOCS = Path(__file__).parents[1] / "docs"
FACTS, PICTURE = DOCS / "old-driver.json", DOCS / "report.svg"
WIDTH = 100


def drawn() -> str:
    """The picture as it would be made now."""
    snapshot = load_snapshot(str(FACTS))
    report = report_on(snapshot, rule_session(), live_requested=live_asked(snapshot.live))
    shown = render(report, options=PageOptions(width=WIDTH, is_tty=True, color=True))
    text = Text.from_ansi(f"$ envcheck\n\n{shown}")
    # Commands are never wrapped: the picture is as wide as the longest.
    console = Console(record=True, width=max(map(len, text.plain.split("\n"))), file=io.StringIO())
    console.print(text)
    svg = console.export_svg(title="envcheck", theme=MONOKAI, unique_id="envcheck")
    svg = re.sub(r"(?s)\s*@font-face \{.*?\}", "", svg)  # fonts of a server
    return "\n".join(line.rstrip() for line in svg.split("\n"))


def words(svg: str) -> list[str]:
    """The lines of a picture: another version of rich may place them otherwise."""
    rows: dict[str, str] = {}
    for place, text in re.findall(r"<text [^>]*\by=\"([\d.]+)\"[^>]*clip-path[^>]*>([^<]*)</text>", svg):
        rows[place] = rows.get(place, "") + unescape(text)
    return [line for row in rows.values() if (line := row.replace("\xa0", " ").rstrip())]


def main() -> int:
    made = drawn()
    if "--write" in sys.argv[1:]:
        PICTURE.write_text(made, encoding="utf-8")
        return 0
    current = PICTURE.is_file() and words(PICTURE.read_text(encoding="utf-8")) == words(made)
    print("current" if current else f"{PICTURE} is not what envcheck prints: python tools/readme_picture.py --write")
    return 0 if current else 1


if __name__ == "__main__":
    sys.exit(main())
