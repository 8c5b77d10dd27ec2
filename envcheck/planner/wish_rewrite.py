"""Files of wishes written anew: what moves in its place, everything else as it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from envcheck.facts.record import record, replace
from envcheck.planner import install_commands
from envcheck.planner.choice import Choice
from envcheck.planner.companions import Companions, Move
from envcheck.planner.install_commands import Spelled, name_of
from envcheck.planner.installers import installers, texts
from envcheck.planner.result import AskedRow

if TYPE_CHECKING:
    from envcheck.planner.ways import Planner
    from envcheck.read.wish_file import WishFile, WishLine
    from envcheck.tables.compat import Tables


@record
class Spelling:
    """How a choice is written in files: as pip's requirements, as a project's dependencies, as conda's packages."""

    choice: Choice
    files: Mapping[str, str]
    url: str  # the index of the variant; "" = PyPI has it

    @property
    def flag(self) -> str:
        """The line that names the index in a requirements file."""
        return next((line for line in self.files["requirements.txt"].splitlines() if line.startswith("--")), "")

    def labelled(self, name: str) -> str | None:
        lines = self.files["requirements.txt"].splitlines()
        return next((line for line in lines if not line.startswith("-") and name_of(line) == name), None)

    def torch(self, conda: bool) -> str:
        one = self.choice.build
        if not conda:
            return self.labelled("torch") or f"torch=={one.version}"
        if one.channel == "pytorch":
            return f"pytorch=={one.version}"
        kind = "pytorch-gpu" if one.cuda else "pytorch" if one.platform.startswith("macos") else "pytorch-cpu"
        return f"{kind}={one.version}"

    def beside(self, move: Move, conda: bool) -> str:
        if not conda:
            return self.labelled(move.name) or move.requirement()
        name = installers().conda_name(move.name) or move.name
        if move.version:  # conda-forge's companions follow its torch: the solver finds the pair
            return f"{name}=={move.version}" if self.choice.build.channel == "pytorch" else name
        return name + move.specifier

    def cuda(self) -> str:
        one = self.choice.build
        if one.channel == "pytorch":
            return f"{one.selector}={one.cuda}" if one.cuda else "cpuonly"
        return f"cuda-version={one.cuda}" if one.cuda else ""


def spelling(choice: Choice, planner: Planner) -> Spelling:
    """The spelling for an environment that is still empty: a file does not know what is installed."""
    one = choice.build
    if one.channel != "wheel":
        return Spelling(choice, {"requirements.txt": ""}, "")
    profile = replace(
        planner.profile, torch=None, variant=None, torch_metadata=None, torch_from_conda=False, packages={}, index_url=None, managed=False
    )
    beside = Companions(tuple(replace(move, old=None) for move in choice.beside.moves))
    spelled: Spelled = install_commands.wheels(one, beside, profile, planner.form(one), planner.tool_options())
    flag = next((line for line in spelled.files["requirements.txt"].splitlines() if line.startswith("--")), "")
    form = planner.form(one)
    plain = form.url.format(variant=one.variant) if one.default and form.form == "index-url" else ""
    return Spelling(choice, spelled.files, flag.partition(" ")[2] or plain)


def written(
    files: Sequence[WishFile], rows: Sequence[AskedRow], how: Spelling | None, choice: Choice, tables: Tables
) -> tuple[dict[str, str], list[AskedRow]]:
    """The files as they should be, and rows for those that are not written, with the reason. A set is written whole, or not at all."""
    say_, result, refused, whole = texts(tables).say, {}, [], True
    for file in files:
        moved = {(row.line, row.text): row for row in rows if row.file == file.name and row.verdict == "moves"}
        if not moved or how is None:
            continue
        lines = [line for line in file.lines if (line.line, line.text) in moved]
        why = say_(f"asked.{file.fixed}") if file.fixed else next(_hindered(lines, moved, tables), "")
        text = None if why else _edited(file, lines, moved, how)
        if text is None:
            whole = whole and file.kind == "lock"  # which is made from the others
            refused.append(AskedRow(file.name, 0, file.name, "kept", why=say_("asked.not-written", why=why or say_("asked.sources"))))
        else:
            result[file.name] = text
    return result if whole else {}, refused


def _hindered(lines: Sequence[WishLine], moved: Mapping[tuple[int, str], AskedRow], tables: Tables) -> Iterator[str]:
    for line in lines:
        new = moved[line.line, line.text].new
        if line.hashes:
            yield texts(tables).say("asked.hashes", text=line.text, new=new)
        elif line.start < 0:
            yield texts(tables).say("asked.no-place", text=line.text)


def _edited(file: WishFile, lines: Sequence[WishLine], moved: Mapping[tuple[int, str], AskedRow], how: Spelling) -> str | None:
    """The text of a file with what moves in its place; None: uv's sources would have to be merged."""
    parts, end = [], 0
    for line in sorted(lines, key=lambda line: line.start):
        new = moved[line.line, line.text].new
        if file.kind == "pyproject" and line.role == "wish":
            new = _bare(new)
        parts += [file.text[end : line.start], new + _marker(line)]
        end = line.start + len(line.text)
    text = "".join([*parts, file.text[end:]])
    indexed = any(line.role in ("index", "extra-index") and "/whl/" in line.value for line in file.lines)
    torch = any(line.role == "wish" and moved[line.line, line.text].new.startswith("torch") for line in lines)
    if file.kind == "requirements" and torch and not indexed and how.flag:
        return _after_head(text, how.flag)
    if file.kind == "pyproject" and not indexed and how.flag:
        return _with_sources(text, how)
    if file.kind == "environment" and any(line.conda for line in lines):
        return _conda_forge(text, file, how)
    return text


def _marker(line: WishLine) -> str:
    """The marker of a requirement, which stays."""
    _, mark, marker = line.value.partition(";") if line.role in ("wish", "constraint") and not line.conda else ("", "", "")
    return f" ; {marker.strip()}" if mark else ""


def _bare(requirement: str) -> str:
    """Without the label: uv's sources say which build it is."""
    return requirement.partition("+")[0]


def _after_head(text: str, flag: str) -> str:
    """An index line behind the comments at the top."""
    lines = text.splitlines(keepends=True)
    at = next((at for at, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#")), len(lines))
    end = "\r\n" if "\r\n" in text else "\n"
    return "".join([*lines[:at], flag + end, *lines[at:]])


def _with_sources(text: str, how: Spelling) -> str | None:
    """uv's index and sources below a project that has none."""
    block = how.files.get("pyproject.toml", "")
    start = block.find("[[tool.uv.index]]")
    if "[tool.uv.sources]" in text or "tool.uv.sources" in text or start < 0:
        return None
    triton = installers().triton(how.choice.build.variant, how.choice.build.version)
    if triton:
        first = next((line for line in block.splitlines() if line.startswith("dependencies")), "")
        entry = next((part for part in first.split('"') if name_of(part).strip() == triton), triton)
        place = text.find("]", text.find("torch", text.find("dependencies")))
        head = text[:place].rstrip()
        text = head + ("" if head.endswith(",") else ",") + f'\n  "{entry}",\n' + text[place:]
    return text.rstrip() + "\n\n" + block[start:]


def _conda_forge(text: str, file: WishFile, how: Spelling) -> str:
    """The channel that has the build, and its CUDA where the file named none."""
    one = how.choice.build
    if one.channel != "conda-forge":
        return text
    if one.cuda and not any(line.role == "cuda" for line in file.lines):
        place = text.find(how.torch(True))
        indent = text[text.rfind("\n", 0, place) + 1 : place]
        end = text.find("\n", place)
        end = len(text) if end < 0 else end
        text = f"{text[:end]}\n{indent}{how.cuda()}{text[end:]}"
    if "conda-forge" in text:
        return text
    at = text.find("channels:\n")
    if at < 0:
        return "channels:\n  - conda-forge\n" + text
    end = at + len("channels:\n")
    return f"{text[:end]}  - conda-forge\n{text[end:]}"
