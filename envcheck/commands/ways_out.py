"""What the page of a rule says is to be done: which ways are for which system, whether one is enough, and the lines of each."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING

from envcheck.facts.codec import edit
from envcheck.facts.record import record
from envcheck.facts.snapshot import Missing, SystemFacts
from envcheck.render.styled import Styled
from envcheck.render.wording import command_groups

if TYPE_CHECKING:
    from envcheck.engine.intents import Intent
    from envcheck.facts.snapshot import Snapshot
    from envcheck.planner.result import Fix, Tool

WIDTH = 80
# The systems that ways out are written for, and the traits (facts/traits.py) of a machine of each.
SYSTEMS: Mapping[str, frozenset[str]] = {
    "Linux": frozenset({"linux"}), "macOS": frozenset({"darwin"}), "Windows": frozenset({"windows"}), "WSL": frozenset({"linux", "wsl"}),
    "Kubernetes": frozenset({"linux", "container", "kubernetes"}),
}  # fmt: skip
EVERYWHERE = frozenset(SYSTEMS)
ONE_OF = "One of these; the first that fits is enough:"
_COMMAND = re.compile(r"`[^`]+`")
_WHOLE = "\ue000"  # stands for a blank within a command, where a line may not end


@record
class WayOut:
    """A fix, and the systems that it is for."""

    fix: Fix
    on: Set[str] = EVERYWHERE


def of_reader(machine: Snapshot, system: str) -> Snapshot:
    """The machine of an example that has no system of its own, with the reader's where that has another shell."""
    unsaid = isinstance(machine.system, Missing) or machine.system == SystemFacts()
    return edit(machine, "system.os", "windows") if unsaid and system == "Windows" else machine


def systems_of(intent: Intent, by_system: Mapping[str, Sequence[Intent]]) -> frozenset[str]:
    """The systems on whose machines a report would show this."""
    return frozenset(system for system, intents in by_system.items() if intent in intents)


def ways_out(ways: Sequence[WayOut], first: Sequence[str], tool: Tool, system: str, say: Callable[[str], str]) -> list[str]:
    """The block below a message: the reader's own system first, numbers where one of several is enough. `first` are ways without lines."""
    mine = sorted((way for way in ways if way.on), key=lambda way: (way.fix.afterwards, system not in way.on))
    cures = [way for way in mine if not way.fix.afterwards]
    several = len(first) + max((sum(one in way.on for way in cures) for one in SYSTEMS), default=0) > 1
    lines = [wrapped(say(ONE_OF), "    ", "    ")] if several else []
    items = [[text] for text in first] + [_item(way, tool, say) for way in mine]
    for number, (about, *commands) in enumerate(items, 1):
        mark = f"    {number}. " if several and number <= len(first) + len(cures) else "    - "
        lines += [wrapped(about, mark, " " * len(mark)), *commands]
    return lines


def _item(way: WayOut, tool: Tool, say: Callable[[str], str]) -> list[str]:
    """A way out: what it is and for whom, then the lines to run."""
    fix = way.fix
    who = f" ({say('administrator')})" if fix.who == "admin" else ""
    about = fix.text if fix.proved is None and fix.kind == "manual" and fix.text else fix.title
    in_a_line = any(fix.note.removeprefix("with ") in line for line in fix.commands.pip)
    if fix.note and fix.proved is None and about == fix.title and not in_a_line:
        about = _with_note(about, fix.note)
    unproved = f" ({fix.note})" if fix.proved is False and fix.note else ""  # a way of the planner: its notes are about the proof
    end = about[-1] if about.endswith((":", "：")) else ""  # what follows are its lines
    made = [f"{_place(way.on, say)}{about.removesuffix(end)}{who}{unproved}{end}"]
    for label, commands in command_groups(fix.commands, tool, False):
        made += [f"      {say(f'{label}:')}"] if label else []
        made += [f"        {line}" for line in commands]
    return made


def _place(on: Set[str], say: Callable[[str], str]) -> str:
    """ "Windows: "; nothing where it does not matter."""
    if on == EVERYWHERE:
        return ""
    if "Linux" in on and "Kubernetes" not in on and len(on) == len(SYSTEMS) - 1:
        return f"{say('Outside of Kubernetes')}: "
    names = [name for name in SYSTEMS if name in on and not ("Linux" in on and name in ("WSL", "Kubernetes"))]
    return f"{', '.join(names)}: "


def _with_note(title: str, note: str) -> str:
    """The title and the note behind it: "…, or unset it", ": the newest release", or a sentence where a second colon would follow."""
    wide = not note.isascii()
    if note.startswith(("or ", "或")):
        return f"{title}{'，' if wide else ', '}{note}"
    if (":" if not wide else "：") not in note:
        return f"{title}{'：' if wide else ': '}{note}"
    word = note.split(" ", 1)[0].rstrip(",;:")
    note = note[0].upper() + note[1:] if word.isalpha() and word.islower() else note
    return f"{title}{'。' if wide else '. '}{note}"


def after(lead: str, text: str) -> str:
    """A text that is in the language already behind its label: a wide colon has its blank in itself."""
    return f"{lead}{text}" if lead.endswith("：") else f"{lead} {text}"


def wrapped(text: str, first: str = "", rest: str = "") -> str:
    """A paragraph in lines. A command in backticks stays on one, to be copied as it is."""
    text = _COMMAND.sub(lambda found: found[0].replace(" ", _WHOLE), " ".join(text.split()))
    if any("\u3400" <= one <= "\u9fff" for one in text):  # no blanks between words
        wide: list[str] = []
        for piece in filter(str.strip, re.split(rf"(`[^`]{{{WIDTH - len(rest) - 2},}}`)", text)):
            too_long = piece.startswith("`") and piece.endswith("`") and "`" not in piece[1:-1]
            wide += [piece] if too_long else [line.plain for line in Styled(piece.strip()).wrapped(WIDTH - len(rest))]
        return "\n".join((rest if number else first) + line for number, line in enumerate(wide)).replace(_WHOLE, " ")
    lines = textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace(_WHOLE, " ")
